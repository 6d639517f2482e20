//! Data races: two steps of different threads of a rank that use the same cell, one of them writing, while nothing says which
//! comes first.
//!
//! What orders steps: their place in a thread, dependencies, and messages (a step that sends comes before the one that
//! receives). Room in a connection orders nothing here, since how much there is depends on the runtime.
//!
//! Every step gets a clock: for each thread of one rank, how many of its steps come before. A step that
//! uses a cell after step `n` of thread `u` did is in order if its clock for `u` is beyond `n`. Clocks that know
//! only the rank itself are cheap, and many schedules need no more. What they cannot decide is decided
//! by clocks that go through all ranks, for the threads in question, some at a time.

use super::findings::{Findings, Kind};
use super::machine::{Machine, Names, StepId, ThreadId};
use crate::rank::Rank;
use std::ops::Range;

/// Most races of a rank that are listed.
const LISTED: usize = 8;
/// Threads per pass through all ranks.
const LANES: usize = 16;
/// As many pairs of steps are decided together, or those of a rank: it takes room to keep them, and time to go through all
/// ranks.
const TOGETHER: usize = 1 << 20;

/// Step `step` uses a cell after `other` did, and one of them writes.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    step: StepId,
    other: StepId,
    cell: u32,
}

/// The last steps of a thread that read and wrote a cell.
#[derive(Clone, Copy)]
struct Used {
    thread: ThreadId,
    read: Option<StepId>,
    wrote: Option<StepId>,
}

/// Finds races. `order` must be an order in which the steps can be performed.
pub fn find(machine: &Machine, order: &[StepId], names: &dyn Names, flaws: &mut Findings) {
    if machine.ranks.iter().all(|threads| threads.len() < 2) {
        return;
    }
    let mut by_rank: Vec<Vec<StepId>> = vec![Vec::new(); machine.ranks.len()];
    for &step in order {
        by_rank[machine.thread_of(step).rank.index()].push(step);
    }
    let mut suspects = Vec::new();
    let mut users = Vec::new();
    for (rank, order_of_rank) in (0..).map(Rank).zip(&by_rank) {
        if machine.ranks[rank.index()].len() > 1 {
            suspect(machine, rank, order_of_rank, &mut users, &mut suspects);
        }
        if suspects.len() >= TOGETHER {
            convict(machine, order, std::mem::take(&mut suspects), names, flaws);
        }
    }
    convict(machine, order, suspects, names, flaws);
}

/// Reports those suspects that nothing puts in order; of each rank, the first ones.
fn convict(machine: &Machine, order: &[StepId], suspects: Vec<Suspect>, names: &dyn Names, flaws: &mut Findings) {
    let mut left = decide(machine, order, suspects);
    left.sort_by_key(|s| (s.step.min(s.other), s.step.max(s.other))); // which is by rank, too
    for of_rank in left.chunk_by(|a, b| machine.thread_of(a.step).rank == machine.thread_of(b.step).rank) {
        of_rank.iter().take(LISTED).for_each(|&suspect| report(machine, suspect, names, flaws));
        flaws.omitted += of_rank.len().saturating_sub(LISTED) as u64;
    }
}

/// Pairs that the order within the rank does not settle: the last for each step and other thread.
fn suspect(machine: &Machine, rank: Rank, order: &[StepId], users_of: &mut Vec<Vec<Used>>, found: &mut Vec<Suspect>) {
    let threads = machine.ranks[rank.index()].clone();
    let cells = machine.cells[rank.index()].clone();
    let clocks = local_clocks(machine, &threads, order);
    let width = threads.len();
    users_of.iter_mut().for_each(Vec::clear);
    users_of.resize(users_of.len().max(cells.len()), Vec::new());
    let mut latest: Vec<Option<Suspect>> = vec![None; width];
    for (at, &step) in order.iter().enumerate() {
        let instruction = machine.step(step);
        let clock = &clocks[at * width..][..width];
        let mut suspect = |cell: u32, other: StepId| {
            let lane = (machine.step(other).thread.0 - threads.start) as usize;
            if other >= clock[lane] && latest[lane].is_none_or(|l| l.other < other) {
                latest[lane] = Some(Suspect { step, other, cell });
            }
        };
        let reads = instruction.src.iter().map(|cell| (cell, false));
        for (cell, writes) in reads.chain(instruction.dst.iter().map(|cell| (cell, true))) {
            let users = &mut users_of[(cell - cells.start) as usize];
            for user in users.iter().filter(|u| u.thread != instruction.thread) {
                if let Some(wrote) = user.wrote {
                    suspect(cell, wrote);
                }
                if let (true, Some(read)) = (writes, user.read) {
                    suspect(cell, read);
                }
            }
            note(users, instruction.thread, step, writes);
        }
        found.extend(latest.iter_mut().filter_map(Option::take));
    }
}

fn note(users: &mut Vec<Used>, thread: ThreadId, step: StepId, writes: bool) {
    let at = users.iter().position(|u| u.thread == thread).unwrap_or_else(|| {
        users.push(Used { thread, read: None, wrote: None });
        users.len() - 1
    });
    if writes {
        users[at].wrote = Some(step);
    } else {
        users[at].read = Some(step);
    }
}

/// For each step of a rank and each of its threads, the first step of the thread that is not known to
/// come before, by program order and dependencies.
fn local_clocks(machine: &Machine, threads: &Range<u32>, order: &[StepId]) -> Vec<StepId> {
    let width = threads.len();
    let first_step = machine.threads[threads.start as usize..].first().map_or(0, |t| t.steps.start);
    let starts: Vec<StepId> = threads.clone().map(|t| machine.thread(ThreadId(t)).first()).collect();
    let mut positions = vec![0; order.len()]; // of a step in `order`
    let mut clocks: Vec<StepId> = Vec::with_capacity(order.len() * width);
    for (at, &step) in order.iter().enumerate() {
        positions[(step.0 - first_step) as usize] = at;
        clocks.extend(&starts);
        for before in [machine.previous(step), machine.step(step).after].into_iter().flatten() {
            let from = positions[(before.0 - first_step) as usize] * width;
            let (known, clock) = clocks.split_at_mut(at * width);
            join(clock, &known[from..from + width]);
            let lane = (machine.step(before).thread.0 - threads.start) as usize;
            clock[lane] = clock[lane].max(beyond(before));
        }
    }
    clocks
}

/// The first step of a thread that is not known to have been performed if this one is.
fn beyond(step: StepId) -> StepId {
    StepId(step.0 + 1)
}

fn join(clock: &mut [StepId], other: &[StepId]) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// Those suspects that no chain of messages settles either.
fn decide(machine: &Machine, order: &[StepId], mut suspects: Vec<Suspect>) -> Vec<Suspect> {
    suspects.sort_by_key(|s| machine.step(s.other).thread);
    let mut threads: Vec<ThreadId> = suspects.iter().map(|s| machine.step(s.other).thread).collect();
    threads.dedup();
    let mut left = Vec::new();
    let mut rest = &suspects[..];
    for lanes in threads.chunks(LANES) {
        let clocks = global_clocks(machine, lanes, order);
        let here = rest.partition_point(|s| machine.step(s.other).thread <= lanes[lanes.len() - 1]);
        left.extend(rest[..here].iter().filter(|s| {
            let lane = lanes.binary_search(&machine.step(s.other).thread);
            lane.is_ok_and(|lane| s.other >= clocks[s.step.index()][lane])
        }));
        rest = &rest[here..];
    }
    left
}

/// For each step, the first step of the threads in question that is not known to come before it.
fn global_clocks(machine: &Machine, lanes: &[ThreadId], order: &[StepId]) -> Vec<[StepId; LANES]> {
    let mut start = [StepId(0); LANES];
    for (lane, &thread) in start.iter_mut().zip(lanes) {
        *lane = machine.thread(thread).first();
    }
    let mut lane_of = vec![LANES; machine.threads.len()];
    for (lane, &thread) in lanes.iter().enumerate() {
        lane_of[thread.index()] = lane;
    }
    let mut clocks = vec![start; machine.steps.len()];
    for &step in order {
        let mut clock = clocks[step.index()];
        for before in machine.before(step) {
            join(&mut clock, &clocks[before.index()]);
            if let Some(mine) = clock.get_mut(lane_of[machine.step(before).thread.index()]) {
                *mine = (*mine).max(beyond(before));
            }
        }
        clocks[step.index()] = clock;
    }
    clocks
}

fn report(machine: &Machine, suspect: Suspect, names: &dyn Names, flaws: &mut Findings) {
    let (first, second) = (suspect.step.min(suspect.other), suspect.step.max(suspect.other));
    let verb = |step| if machine.step(step).dst.contains(suspect.cell) { "writes" } else { "reads" };
    let other = machine.thread_of(second);
    let (cell, memory) = names.cell(other.rank, suspect.cell);
    let message = format!(
        "{} {cell} of the {memory}, which step {} of {} {} {}; nothing says which comes first",
        verb(first),
        machine.number_of(second),
        names.thread(),
        other.number,
        verb(second)
    );
    flaws.add(Kind::Race, machine.site(first, names), message);
}
