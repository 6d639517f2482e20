//! Imported schedules, which are written out step by step as in MSCCL, and their verification.
//!
//! ```text
//!   form (JSON) ─▶ structure: is it a schedule?  ─▶ lower: flat arrays
//!                     limits: would MSCCL take it?       │
//!                                                        ├─▶ verify::order: does it end?
//!   contract: sizes, shared memory, promised results ────┼─▶ verify::race: is every use of a chunk ordered?
//!                                                        ├─▶ verify::data: carried out on symbols
//!                                                        ├─▶ results: are they right?
//!                                                        └─▶ imported: the program that does the same
//! ```
//!
//! A schedule is verified for all sizes of chunks and all timings at once: data are symbols, and what
//! is not ordered by the schedule is not assumed to be ordered. What runtimes may do within a step is
//! taken from MSCCL: a step has read its source when its message can be received, and has written its
//! destination before its own message can be.

pub mod contract;
pub mod form;
pub mod imported;
pub mod limits;
pub mod lower;
pub mod report;
pub mod results;
pub mod structure;
mod threads;
mod wholes;

pub use crate::verify::{Buffering, Finding, Kind};
pub use form::{Collective, Dependency, Format, Location, Protocol, Schedule, ScheduleRank, ScheduleStep, ThreadBlock};
pub use imported::{Imported, NotImported, imported};
pub use report::{Counts, Report};

use crate::program::Op;
use crate::rank::Rank;
use crate::verify::data::{Run, Sets, Value};
use crate::verify::findings::Findings;
use crate::verify::machine::{Machine, StepId};
use crate::verify::{order, race};
use contract::Contract;
use form::VERSION;
use lower::FileNames;
use syncline_core::Refusal;
use threads::Threads;

/// Verifies a schedule.
///
/// # Errors
/// [`Refusal`], if there is nothing to hold it against.
pub fn verify(schedule: &Schedule, root: Option<u32>, buffering: Buffering) -> Result<Report, Refusal> {
    carry_out(schedule, root, buffering, |_, _, _, _, _| ()).map(|outcome| outcome.report)
}

/// What comes of carrying a schedule out.
struct Outcome {
    report: Report,
    /// The threads and the contract; none, if there are errors.
    lowered: Option<(Machine, Contract)>,
}

/// Verifies a schedule; `watch` sees every chunk that a step moves, and which of the step's chunks it is.
fn carry_out(
    schedule: &Schedule,
    root: Option<u32>,
    buffering: Buffering,
    watch: impl FnMut((&Machine, &Contract), &Sets, StepId, u32, Value),
) -> Result<Outcome, Refusal> {
    refuse(schedule, root, buffering)?;
    let given = root.or(schedule.root).map(Rank);
    let (mut errors, mut flaws, mut warnings) = (Findings::default(), Findings::default(), Findings::default());
    let lowered = structure::check(schedule, &mut errors).map(|checked| {
        limits::warn(schedule, &checked.ranks, checked.contract.size, &mut warnings);
        (lower::machine(&checked), checked.contract)
    });
    if let Some((machine, _)) = lowered.as_ref().filter(|_| wholes::are_named(schedule)) {
        errors = Threads::new(machine, schedule, &steps_in_order(schedule)).err().unwrap_or_default();
    }
    let mut found_root = given;
    let counts = lowered.as_ref().map(|(machine, contract)| {
        let names = FileNames { contract };
        let order = order::find(machine, buffering, &names, &mut flaws);
        if let Some(order) = &order {
            race::find(machine, order, &names, &mut flaws);
            let rooted = (schedule.collective.has_root(), given);
            found_root = compute((machine, contract), order, rooted, watch, &mut flaws);
        }
        count(machine, contract, order.as_deref())
    });
    let report = Report {
        name: schedule.name.clone(),
        collective: schedule.collective,
        in_place: schedule.in_place,
        root: found_root.map(|root| root.0),
        root_inferred: found_root.is_some() && given.is_none(),
        buffering,
        verified: errors.is_empty() && flaws.is_empty(),
        errors: errors.list,
        errors_omitted: errors.omitted,
        flaws: flaws.list,
        flaws_omitted: flaws.omitted,
        warnings: warnings.list,
        warnings_omitted: warnings.omitted,
        counts,
    };
    Ok(Outcome { report, lowered })
}

/// Performs the steps on symbols and judges the results. Returns the root, where it is known.
fn compute(
    (machine, contract): (&Machine, &Contract),
    order: &[StepId],
    (has_root, given): (bool, Option<Rank>),
    mut watch: impl FnMut((&Machine, &Contract), &Sets, StepId, u32, Value),
    flaws: &mut Findings,
) -> Option<Rank> {
    let ranks = machine.ranks.len() as u32;
    let (mut memory, mut sets) = (results::inputs(contract, ranks), Sets::new(ranks));
    let names = FileNames { contract };
    let mut run = Run { machine, memory: &mut memory, sets: &mut sets, names: &names };
    let watch = |sets: &Sets, step, nth, value| watch((machine, contract), sets, step, nth, value);
    match run.perform(order, watch, flaws) {
        true => results::check(contract, &memory, &sets, (has_root, given), flaws),
        false => given,
    }
}

/// The steps of a schedule by ranks and thread blocks in ascending order, as they are carried out.
fn steps_in_order(schedule: &Schedule) -> Vec<&ScheduleStep> {
    let ranks = structure::in_order(&schedule.ranks, |rank| rank.id);
    let blocks = ranks.into_iter().flat_map(|rank| structure::in_order(&rank.thread_blocks, |block| block.id));
    blocks.flat_map(|block| &block.steps).collect()
}

fn refuse(schedule: &Schedule, root: Option<u32>, buffering: Buffering) -> Result<(), Refusal> {
    let refuse = |field: &str, message: String, accepted: &str| Err(Refusal::of(field, message).accepting(accepted));
    if schedule.version != VERSION {
        let message = format!("version {} of the format is not known", schedule.version);
        return refuse("version", message, &VERSION.to_string());
    }
    if schedule.collective == Collective::Custom {
        let message = "a custom collective cannot be verified, since nothing says what its results must be";
        let accepted = "allreduce, allgather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter";
        return refuse("collective", message.into(), accepted);
    }
    if buffering == Buffering::Slots(0) {
        let message = "connections that hold nothing pass nothing on";
        return refuse("buffering", message.into(), "1 or more, or rendezvous");
    }
    if let Some(root) = root.or(schedule.root) {
        let name = schedule.collective.name();
        if !schedule.collective.has_root() {
            let message = format!("{name} has no root");
            return refuse("root", message, "a root for broadcast, reduce, gather, scatter");
        }
        if root as usize >= schedule.ranks.len() {
            let last = schedule.ranks.len().saturating_sub(1);
            let message = format!("{root} is not a rank of the schedule");
            return refuse("root", message, &format!("0 to {last}"));
        }
    }
    Ok(())
}

fn count(machine: &Machine, contract: &Contract, order: Option<&[StepId]>) -> Counts {
    let mut sent = vec![0u64; machine.ranks.len()];
    let (mut messages, mut nops) = (0, 0);
    for instruction in &machine.steps {
        nops += u64::from(instruction.op == Op::Nop);
        if instruction.op.sends() {
            messages += 1;
            sent[machine.thread(instruction.thread).rank.index()] += u64::from(instruction.count());
        }
    }
    let mut channels: Vec<u32> = machine.connections.iter().filter_map(|c| c.channel).collect();
    channels.sort_unstable();
    channels.dedup();
    let size = contract.size;
    let per_byte = |chunks: Option<&u64>| chunks.map_or(0.0, |&c| c as f64 / f64::from(size));
    Counts {
        ranks: machine.ranks.len() as u32,
        channels: channels.len() as u32,
        thread_blocks: machine.threads.len() as u32,
        steps: machine.steps.len() as u64 - nops,
        nops,
        messages,
        chunks_sent: sent.iter().sum(),
        size_chunks: size,
        sent_per_byte_min: per_byte(sent.iter().min()),
        sent_per_byte_max: per_byte(sent.iter().max()),
        longest_path_steps: order.map_or(0, |order| longest_path(machine, order)),
    }
}

/// Steps of the longest chain in which each has to wait for the one before; those that only wait do not
/// count.
fn longest_path(machine: &Machine, order: &[StepId]) -> u64 {
    let mut depth = vec![0u64; machine.steps.len()];
    for &step in order {
        let deepest = machine.before(step).map(|before| depth[before.index()]).max().unwrap_or(0);
        depth[step.index()] = deepest + u64::from(machine.step(step).op != Op::Nop);
    }
    depth.into_iter().max().unwrap_or(0)
}
