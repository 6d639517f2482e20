//! Walking through programs: the longest chain of messages, or of steps, that depend on each other.

use super::{Op, Program, Slot};
use crate::rank::LineRank;
use std::collections::BTreeMap;

/// Messages that follow one another on the longest way: the time that a program takes if a message takes
/// one unit and nothing else takes any. What waits for ever is left out.
pub fn rounds(program: &Program) -> u32 {
    longest(program, 1, |_| 0)
}

/// Steps of the longest chain in which each has to wait for the one before; those that only wait do not count.
pub fn steps(program: &Program) -> u32 {
    longest(program, 0, |op| u32::from(op != Op::Nop))
}

/// The time that a program takes if a message takes so long, and a step as its operation does.
fn longest(program: &Program, of_message: u32, of_step: impl Fn(Op) -> u32) -> u32 {
    let (ranks, threads) = (program.ranks() + u32::from(program.has_switch()), program.threads());
    // When each thread has finished the step before its current one, and when messages arrive.
    let mut cursors = vec![(0u32, 0u32); ranks as usize * usize::from(threads)];
    let cursor_of = |rank: LineRank, thread: u16| rank.index() * usize::from(threads) + usize::from(thread);
    let mut arrivals: BTreeMap<(LineRank, Slot), u32> = BTreeMap::new();
    let mut waiting: BTreeMap<(LineRank, Slot), Vec<u16>> = BTreeMap::new();
    let mut ready: Vec<(LineRank, u16)> =
        (0..ranks).map(LineRank).flat_map(|r| (0..threads).map(move |t| (r, t))).collect();
    let mut longest = 0;
    while let Some((rank, thread)) = ready.pop() {
        let at_cursor = cursor_of(rank, thread);
        let steps = program.steps(rank, thread);
        while cursors[at_cursor].0 < steps {
            let (pc, mut time) = cursors[at_cursor];
            let at = Slot { thread, pc };
            let step = program.step(rank, at);
            if let Some(other) = program.detail(rank, at).after {
                let (done, since) = cursors[cursor_of(rank, other.thread)];
                if done <= other.pc {
                    waiting.entry((rank, other)).or_default().push(thread);
                    break;
                }
                time = time.max(since);
            }
            if step.op.receives() {
                let Some(arrival) = arrivals.remove(&(rank, at)) else { break };
                time = time.max(arrival);
            }
            time += of_step(step.op);
            longest = longest.max(time);
            if step.op.sends() {
                arrivals.insert((step.to, step.into), time + of_message);
                ready.push((step.to, step.into.thread));
                longest = longest.max(time + of_message);
            }
            cursors[at_cursor] = (pc + 1, time);
            ready.extend(waiting.remove(&(rank, at)).into_iter().flatten().map(|thread| (rank, thread)));
        }
    }
    longest
}

#[cfg(test)]
pub(super) mod volume {
    use super::{LineRank, Program};
    use crate::program::Step;

    fn steps(program: &Program, rank: u32) -> impl Iterator<Item = Step> {
        program.slots(LineRank(rank)).map(move |at| program.step(LineRank(rank), at))
    }

    /// Blocks that a rank sends.
    pub fn sent_blocks(program: &Program, rank: u32) -> u32 {
        steps(program, rank).filter(|s| s.op.sends()).map(|s| s.blocks.count).sum()
    }

    /// Blocks that a rank receives.
    pub fn received_blocks(program: &Program, rank: u32) -> u32 {
        steps(program, rank).filter(|s| s.op.receives()).map(|s| s.blocks.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use crate::plan::{Algorithm, Axis, Composition, PhaseId, Plan, PlanRequest};
    use crate::rank::Rank;

    #[test]
    fn rounds_are_those_of_the_longest_way() {
        for ranks in (1..40).chain([64, 100]) {
            for (algorithm, kind) in Algorithm::all(3).into_iter().flat_map(|a| Kind::ALL.map(|k| (a, k))) {
                if !algorithm.supports(kind) {
                    continue;
                }
                let axes = [Axis { size: ranks, algorithm }];
                let root = ranks / 2;
                let composition = Composition::PerDimension;
                let plan =
                    Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(root), order: None }).unwrap();
                if ranks > 1 {
                    let program = plan.program(PhaseId(0), true);
                    assert_eq!(program.rounds(), rounds(&program), "{kind} by {algorithm:?} on {ranks}");
                }
            }
        }
    }
}
