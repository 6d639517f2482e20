//! Plans in the vocabulary of MSCCL: any plan without switches as a [`Schedule`], whose XML runtimes carry out.
//!
//! ```text
//!   Plan ─▶ unrolled: the steps of all phases, rank by rank, and which of them takes which message
//!             ├─▶ vector, exchange: in which chunks of which buffer each step works
//!             ├─▶ pieces: steps are cut where their chunks do not follow one another, or are too many
//!             ├─▶ connections: what of a thread goes over one connection; thread blocks, channels
//!             └─▶ thread_blocks: what each step has to wait for
//! ```
//!
//! A plan and a schedule differ in five ways.
//!
//! * **Threads.** A thread of a program may have any number of peers, a thread block one in either direction. A thread with
//!   more of them becomes several thread blocks, whose steps wait for one another in the order of the thread.
//! * **Phases.** The phases of a plan follow one another at every rank. Threads of the same number are one thread through all
//!   phases, so that a ring that is gone through twice needs one thread block. The first step of a thread in a phase waits
//!   for the last ones of the other threads in the phase before.
//! * **Messages.** A message of a program names the step that takes it. On a connection, messages are taken in the order in
//!   which they are sent, so that messages that are taken in another order have connections of their own.
//! * **Chunks.** Blocks of a phase are cut from what a rank works on, and may wrap around its end. All buffers of a schedule
//!   are counted in chunks of one size. What does not lie in consecutive chunks at both ends is sent as several messages; so
//!   is what has more chunks than a step of MSCCL moves.
//! * **Places.** Collectives are in place: a block lies at its place in the vector at every rank, also where a collective
//!   asks for less, as for the result of a gather at other ranks than the root. In an all-to-all, what a rank receives takes
//!   the places of what it has sent; if its steps do not say that it has, input and output are apart.
//!
//! Where the phases narrow the vector on a grid, the share of a rank is not the one of its number, but that of its
//! coordinates in the order of the phases. In MSCCL rank `r` has share `r`, so that shares change their places.

mod connections;
mod exchange;
mod group;
mod pieces;
mod runs;
mod thread_blocks;
mod unrolled;
mod vector;

use super::write::Head;
use crate::kind::Kind;
use crate::plan::Plan;
use crate::schedule::form::{Collective, Format, Protocol, Schedule, ScheduleRank, ThreadBlock, VERSION};
use crate::schedule::limits;
use crate::schedule::structure::MAX_CHUNKS;
use connections::Connections;
use group::Group;
use runs::Runs;
use syncline_core::Refusal;
use unrolled::Unrolled;

/// A plan as a schedule. Rings go up.
///
/// # Errors
/// What the format or its runtime cannot hold, with the numbers: switches, ways other than the route, more steps, chunks,
/// thread blocks or channels than MSCCL takes. Also a plan whose steps do not fit each other.
pub fn schedule(head: &Head<'_>, plan: &Plan) -> Result<Schedule, Vec<Refusal>> {
    let group = Group::new(head, plan)?;
    let one = |refusal: Refusal| vec![refusal];
    let steps = Unrolled::new(&group).map_err(one)?;
    // Before memory is laid out, which costs most.
    refuse_all(refused_blocks(&steps, &Connections::new(&steps, group.ranks()).map_err(one)?))?;
    let memory = match group.kind() {
        Kind::AllToAll if !group.names_places() => exchange::lay_out(&group, &steps),
        _ => vector::lay_out(&group, &steps),
    };
    let memory = memory.map_err(one)?;
    refuse_all(refused_scratch(&memory))?;
    let cuts = pieces::cuts(&steps, &memory.of_step).map_err(one)?;
    let (steps, memory, cuts) = pieces::spread(steps, memory, cuts);
    let mut connections = Connections::new(&steps, group.ranks()).map_err(one)?;
    refuse_all(refused_blocks(&steps, &connections))?;
    connections.choose_channels();
    refuse_all(refused_channels(&connections))?;
    let blocks = thread_blocks::write(&group, &steps, &connections, &memory, &cuts);
    refuse_all(refused_steps(&blocks))?;
    let channels = blocks.iter().flatten().map(|b| b.channel + 1).max();
    let [input, output] = group.buffers();
    let rank = |((id, thread_blocks), scratch_chunks): ((u32, Vec<ThreadBlock>), &u32)| ScheduleRank {
        id,
        input_chunks: input,
        output_chunks: output,
        scratch_chunks: *scratch_chunks,
        thread_blocks,
    };
    Ok(Schedule {
        format: Format::SynclinePlan,
        version: VERSION,
        name: head.name.clone(),
        collective: Collective::from(plan.kind()),
        in_place: memory.in_place,
        root: plan.kind().is_rooted().then_some(head.root.0),
        protocol: Protocol::Simple,
        min_bytes: None,
        max_bytes: None,
        threads: None,
        channels,
        chunks_per_loop: Some(group.chunks()),
        pacing: group.pacing(),
        ranks: (0..).zip(blocks).zip(&memory.scratch).map(rank).collect(),
    })
}

/// Where the data of all steps lie.
struct Memory {
    /// Whether input and output share memory.
    in_place: bool,
    /// Chunks of scratch of each rank.
    scratch: Vec<u32>,
    /// What each step reads and writes of its own rank.
    of_step: Vec<Operands>,
    /// What each rank copies beside its steps, from the start; nothing, as a rule.
    copies: Vec<Operands>,
}

/// What a step reads and writes of its own rank; empty if it does not.
#[derive(Clone, Default)]
struct Operands {
    src: Runs,
    dst: Runs,
}

fn refuse_all(refusals: Vec<Refusal>) -> Result<(), Vec<Refusal>> {
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

/// What is too much: `what` names the number that was given, `most` what MSCCL takes of them.
fn too_many(what: String, most: impl std::fmt::Display) -> Refusal {
    Refusal::of("plan", format!("{what}, which MSCCL does not take")).accepting(format!("up to {most}"))
}

/// The first of the largest.
fn worst<T, N: Ord>(all: impl Iterator<Item = (T, N)>) -> Option<(T, N)> {
    all.reduce(|a, b| if b.1 > a.1 { b } else { a })
}

/// More thread blocks than the limit, or more steps in one of them even if none is cut and none only waits.
fn refused_blocks(steps: &Unrolled, connections: &Connections) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let blocks = worst(connections.blocks.iter().map(Vec::len).enumerate());
    if let Some((rank, count)) = blocks.filter(|most| most.1 > limits::BLOCKS_PER_RANK) {
        refusals.push(too_many(format!("rank {rank} has {count} thread blocks"), limits::BLOCKS_PER_RANK));
    }
    let longest = worst(connections.steps_of_blocks(steps).into_iter());
    if let Some(((rank, block), count)) = longest.filter(|most| most.1 > limits::STEPS_PER_BLOCK) {
        let what = format!("thread block {block} of rank {rank} has {count} steps");
        refusals.push(too_many(what, limits::STEPS_PER_BLOCK));
    }
    refusals
}

/// More scratch than a schedule may have.
fn refused_scratch(memory: &Memory) -> Vec<Refusal> {
    let beyond = worst(memory.scratch.iter().enumerate()).filter(|most| *most.1 > MAX_CHUNKS);
    let refusal = |(rank, chunks)| {
        let message = format!("rank {rank} has {chunks} chunks of scratch");
        Refusal::of("plan", message).accepting(format!("up to {MAX_CHUNKS}"))
    };
    beyond.map(refusal).into_iter().collect()
}

/// Channels beyond the limits; of each limit, the worst case.
fn refused_channels(connections: &Connections) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let channels = connections.all.iter().map(|c| c.channel + 1).max().unwrap_or(0);
    if channels > limits::CHANNELS {
        refusals.push(too_many(format!("there are {channels} channels"), limits::CHANNELS));
    }
    if let Some((rank, channel, verb, count)) = connections.most_crowded() {
        let what = format!("{count} thread blocks of rank {rank} {verb} on channel {channel}");
        refusals.push(too_many(what, limits::BLOCKS_PER_CHANNEL));
    }
    refusals
}

/// Steps beyond the limits; of each limit, the worst case.
fn refused_steps(ranks: &[Vec<ThreadBlock>]) -> Vec<Refusal> {
    let blocks = || (0u32..).zip(ranks).flat_map(|(rank, blocks)| blocks.iter().map(move |block| (rank, block)));
    let mut refusals = Vec::new();
    let mut refuse = |number: &dyn Fn(&ThreadBlock) -> usize, most: usize, what: &str| {
        let found = worst(blocks().map(|(rank, block)| ((rank, block.id), number(block))));
        if let Some(((rank, block), count)) = found.filter(|found| found.1 > most) {
            refusals.push(too_many(format!("thread block {block} of rank {rank} has {count} {what}"), most));
        }
    };
    refuse(&|b| b.steps.len(), limits::STEPS_PER_BLOCK, "steps");
    let reductions = |b: &ThreadBlock| limits::reductions_in_a_row(b).max().unwrap_or(0);
    refuse(&reductions, limits::FUSED_REDUCTIONS, "reductions in a row, which it may fuse");
    refusals
}
