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
mod lanes;
mod pieces;
mod runs;
mod thread_blocks;
mod unrolled;
mod vector;

use super::write::Head;
use crate::plan::Plan;
use crate::program::{Pacing, Program};
use crate::rank::LineRank;
use crate::schedule::form::{Collective, Format, Protocol, Schedule, ScheduleRank, ThreadBlock, VERSION};
use crate::schedule::limits;
use crate::schedule::structure::MAX_CHUNKS;
use connections::Connections;
use group::Group;
use runs::Runs;
use std::collections::BTreeMap;
use syncline_core::Refusal;
use unrolled::Unrolled;

/// What the ranks of a phase do in one of its lanes.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The program of the places of a line.
    pub program: Program,
    /// The rank at each place; none if places have the numbers of ranks.
    pub order: Option<Vec<LineRank>>,
    /// Which of the parallel links each place sends over, by their numbers; none if its messages go as the program says.
    pub links: Option<Vec<u16>>,
}

impl Lane {
    /// The only lane of every phase of a plan, where ranks have an order of their own along no dimension. Rings go up.
    pub fn only(plan: &Plan) -> Vec<Vec<Lane>> {
        let lane = |phase| Lane { program: plan.program(phase, true), order: None, links: None };
        vec![plan.phase_ids().map(lane).collect()]
    }
}

/// A plan as a schedule. `lanes` has, for each lane, what is done in each phase; each lane has an equal share of the vector.
///
/// # Errors
/// What the format or its runtime cannot hold, with the numbers: switches, more steps, chunks, thread blocks or channels than
/// MSCCL takes. Also a plan whose steps do not fit each other.
pub fn schedule(head: &Head<'_>, plan: &Plan, lanes: &[Vec<Lane>]) -> Result<Schedule, Vec<Refusal>> {
    let one = |refusal: Refusal| vec![refusal];
    let mut all: Vec<(Group<'_>, Unrolled)> = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let group = Group::new(head, plan, lane)?;
        let steps = Unrolled::new(&group).map_err(one)?;
        // Before memory is laid out, which costs most.
        let connections = Connections::new(&steps, group.ranks()).map_err(one)?;
        refuse_all(refused_steps_of_plan(&steps, &connections))?;
        all.push((group, steps));
    }
    let Some((group, _)) = all.first() else {
        return Err(one(Refusal::of("plan", "there are no lanes").accepting("1 or more")));
    };
    let chunks = group.chunks().saturating_mul(lanes.len() as u32);
    if chunks > MAX_CHUNKS {
        let message = format!("{} lanes cut the vector into {chunks} chunks", lanes.len());
        return Err(one(Refusal::of("plan", message).accepting(format!("up to {MAX_CHUNKS}"))));
    }
    let memories = lanes::lay_out(&all).map_err(one)?;
    let in_place = memories.iter().all(|memory| memory.in_place);
    let mut scratch = vec![0; group.ranks() as usize];
    memories.iter().for_each(|memory| scratch.iter_mut().zip(&memory.scratch).for_each(|(all, own)| *all += own));
    refuse_all(refused_scratch(&scratch))?;
    let (mut pacing, [input, output], ranks) = (group.pacing(), group.buffers(chunks), group.ranks());
    let mut of_lanes = Vec::with_capacity(lanes.len());
    for ((group, steps), memory) in all.into_iter().zip(memories) {
        let cuts = pieces::cuts(&steps, &memory.of_step).map_err(one)?;
        let (steps, memory, cuts) = pieces::spread(steps, memory, cuts);
        let mut connections = Connections::new(&steps, ranks).map_err(one)?;
        connections.choose_channels();
        of_lanes.push(thread_blocks::write(&group, &steps, &connections, &memory, &cuts));
    }
    if of_lanes.len() > 1 && pacing.queues == 0 {
        pacing.queues = lanes::threads(&of_lanes) as u16;
    }
    let blocks = lanes::side_by_side(of_lanes);
    let mut refusals = refused_blocks(&blocks);
    refusals.extend(refused_channels(&blocks));
    refusals.extend(refused_steps(&blocks));
    refuse_all(refusals)?;
    let channels = blocks.iter().flatten().map(|b| b.channel + 1).max();
    let rank = |((id, thread_blocks), scratch_chunks): ((u32, Vec<ThreadBlock>), u32)| ScheduleRank {
        id,
        input_chunks: input,
        output_chunks: output,
        scratch_chunks,
        thread_blocks,
    };
    Ok(Schedule {
        format: Format::SynclinePlan,
        version: VERSION,
        name: head.name.clone(),
        collective: Collective::from(plan.kind()),
        in_place,
        root: plan.kind().is_rooted().then_some(head.root.0),
        protocol: Protocol::Simple,
        min_bytes: None,
        max_bytes: None,
        threads: None,
        channels,
        chunks_per_loop: Some(chunks),
        pacing: Some(pacing).filter(|pacing| *pacing != Pacing::OF_THREAD_BLOCKS),
        ranks: (0..).zip(blocks).zip(scratch).map(rank).collect(),
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

/// More steps of a thread block than the limit, even if none is cut and none only waits.
fn refused_steps_of_plan(steps: &Unrolled, connections: &Connections) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let blocks = worst(connections.blocks.iter().map(Vec::len).enumerate());
    refusals.extend(blocks.and_then(|(rank, count)| too_many_blocks(rank, count)));
    let longest = worst(connections.steps_of_blocks(steps).into_iter());
    if let Some(((rank, block), count)) = longest.filter(|most| most.1 > limits::STEPS_PER_BLOCK) {
        let what = format!("thread block {block} of rank {rank} has {count} steps");
        refusals.push(too_many(what, limits::STEPS_PER_BLOCK));
    }
    refusals
}

fn too_many_blocks(rank: usize, count: usize) -> Option<Refusal> {
    let is_too_many = count > limits::BLOCKS_PER_RANK;
    is_too_many.then(|| too_many(format!("rank {rank} has {count} thread blocks"), limits::BLOCKS_PER_RANK))
}

/// More thread blocks than the limit.
fn refused_blocks(ranks: &[Vec<ThreadBlock>]) -> Vec<Refusal> {
    let most = worst(ranks.iter().map(Vec::len).enumerate());
    most.and_then(|(rank, count)| too_many_blocks(rank, count)).into_iter().collect()
}

/// More scratch than a schedule may have.
fn refused_scratch(scratch: &[u32]) -> Vec<Refusal> {
    let beyond = worst(scratch.iter().enumerate()).filter(|most| *most.1 > MAX_CHUNKS);
    let refusal = |(rank, chunks)| {
        let message = format!("rank {rank} has {chunks} chunks of scratch");
        Refusal::of("plan", message).accepting(format!("up to {MAX_CHUNKS}"))
    };
    beyond.map(refusal).into_iter().collect()
}

/// Channels beyond the limits; of each limit, the worst case.
fn refused_channels(ranks: &[Vec<ThreadBlock>]) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let channels = ranks.iter().flatten().map(|block| block.channel + 1).max().unwrap_or(0);
    if channels > limits::CHANNELS {
        refusals.push(too_many(format!("there are {channels} channels"), limits::CHANNELS));
    }
    let mut crowd: BTreeMap<(usize, u32, &str), usize> = BTreeMap::new();
    for (rank, block) in ranks.iter().enumerate().flat_map(|(rank, blocks)| blocks.iter().map(move |b| (rank, b))) {
        for (verb, peer) in [("send", block.send), ("receive", block.recv)] {
            *crowd.entry((rank, block.channel, verb)).or_default() += usize::from(peer.is_some());
        }
    }
    let most = worst(crowd.into_iter()).filter(|most| most.1 > limits::BLOCKS_PER_CHANNEL);
    if let Some(((rank, channel, verb), count)) = most {
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
