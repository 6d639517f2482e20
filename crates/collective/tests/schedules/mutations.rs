//! Right schedules with one change. A change that the verifier does not reject must be harmless: the
//! schedule still comes out right in every order that the oracle tries.

use crate::broken::remove;
use crate::build::any_schedule;
use crate::oracle::{self, Random};
use proptest::prelude::*;
use syncline_collective::Op;
use syncline_collective::schedule::{Buffering, Schedule, ScheduleStep, verify};

#[derive(Clone, Copy, Debug)]
enum Change {
    DropStep,
    SwapSteps,
    Offset,
    Peer,
    Channel,
    Count,
    Buffer,
    Operation,
    DropDependency,
    MoveDependency,
}

const CHANGES: [Change; 10] = [
    Change::DropStep,
    Change::SwapSteps,
    Change::Offset,
    Change::Peer,
    Change::Channel,
    Change::Count,
    Change::Buffer,
    Change::Operation,
    Change::DropDependency,
    Change::MoveDependency,
];

/// Makes a change at a random place; false if there is nothing to change there.
fn mutate(schedule: &mut Schedule, change: Change, random: &mut Random) -> bool {
    let before = schedule.clone();
    let ranks = schedule.ranks.len();
    let places: Vec<(usize, usize, usize)> = (0..ranks)
        .flat_map(|r| {
            let blocks = &before.ranks[r].thread_blocks;
            (0..blocks.len()).flat_map(move |b| (0..blocks[b].steps.len()).map(move |s| (r, b, s)))
        })
        .filter(|&(r, b, s)| match change {
            Change::DropDependency | Change::MoveDependency => {
                before.ranks[r].thread_blocks[b].steps[s].depends_on.is_some()
            }
            _ => true,
        })
        .collect();
    if places.is_empty() {
        return false;
    }
    let (r, b, s) = places[random.below(places.len())];
    let blocks = schedule.ranks[r].thread_blocks.len();
    let block = &mut schedule.ranks[r].thread_blocks[b];
    let steps = block.steps.len();
    match change {
        Change::DropStep => remove(schedule, r, b, s),
        Change::SwapSteps => {
            block.steps.swap(s, random.below(steps));
            for (id, step) in (0..).zip(&mut block.steps) {
                step.id = id;
            }
        }
        Change::Peer => {
            let peer = Some(random.below(ranks) as u32);
            *(if random.below(2) == 0 { &mut block.send } else { &mut block.recv }) = peer;
        }
        Change::Channel => block.channel = random.below(3) as u32,
        _ => change_step(&mut block.steps[s], change, (blocks, steps), random),
    }
    *schedule != before
}

fn change_step(step: &mut ScheduleStep, change: Change, (blocks, steps): (usize, usize), random: &mut Random) {
    let place = if random.below(2) == 0 || step.dst.is_none() { &mut step.src } else { &mut step.dst };
    match change {
        Change::Offset => {
            if let Some(place) = place {
                place.offset = random.below(place.offset as usize + 3) as u32;
            }
        }
        Change::Buffer => {
            if let Some(place) = place {
                place.buffer = [crate::build::I, crate::build::O, crate::build::S][random.below(3)];
            }
        }
        Change::Count => step.count = random.below(4) as u32,
        Change::Operation => {
            step.op = match step.op {
                Op::RecvReduceCopySend => Op::RecvCopySend,
                Op::RecvReduce => Op::Recv,
                Op::RecvReduceSend => Op::RecvCopySend,
                Op::Reduce => Op::Copy,
                Op::Copy => Op::Reduce,
                other => other,
            };
            if !step.op.reads_local() {
                step.dst = step.dst.or(step.src);
                step.src = None;
            }
        }
        Change::DropDependency => step.depends_on = None,
        _ => {
            if let Some(on) = &mut step.depends_on {
                on.thread_block = random.below(blocks) as u32;
                on.step = random.below(steps) as u32;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn what_is_accepted_comes_out_right(schedule in any_schedule(), change in 0..CHANGES.len(), seed in any::<u64>()) {
        let mut random = Random(seed);
        let mut mutant = schedule.clone();
        if mutate(&mut mutant, CHANGES[change], &mut random) {
            let root = verify(&schedule, None, Buffering::Slots(1)).unwrap().root;
            let report = verify(&mutant, root, Buffering::Slots(1)).unwrap();
            if report.verified {
                for _ in 0..12 {
                    let ended = oracle::run(&mutant, root.unwrap_or(0), 1, random.next());
                    prop_assert_eq!(ended, Ok(()), "{:?} {:?}", CHANGES[change], mutant);
                }
            }
        }
    }

    /// Every step of these schedules is needed.
    #[test]
    fn a_missing_step_is_noticed(schedule in any_schedule(), seed in any::<u64>()) {
        let mut random = Random(seed);
        let mut mutant = schedule.clone();
        let steps = |s: &Schedule| -> usize {
            s.ranks.iter().flat_map(|r| &r.thread_blocks).flat_map(|b| &b.steps).filter(|s| s.op != Op::Nop).count()
        };
        if mutate(&mut mutant, Change::DropStep, &mut random) && steps(&mutant) < steps(&schedule) {
            let root = verify(&schedule, None, Buffering::Slots(1)).unwrap().root;
            prop_assert!(!verify(&mutant, root, Buffering::Slots(1)).unwrap().verified);
        }
    }

    /// And each thread block has to talk to the rank that it talks to.
    #[test]
    fn a_wrong_peer_is_noticed(schedule in any_schedule(), seed in any::<u64>()) {
        let mut random = Random(seed);
        let mut mutant = schedule.clone();
        if mutate(&mut mutant, Change::Peer, &mut random) {
            let used = mutant.ranks.iter().zip(&schedule.ranks).any(|(m, s)| {
                m.thread_blocks.iter().zip(&s.thread_blocks).any(|(m, s)| {
                    (m.send != s.send && s.steps.iter().any(|s| s.op.sends()))
                        || (m.recv != s.recv && s.steps.iter().any(|s| s.op.receives()))
                })
            });
            let root = verify(&schedule, None, Buffering::Slots(1)).unwrap().root;
            prop_assert!(!used || !verify(&mutant, root, Buffering::Slots(1)).unwrap().verified);
        }
    }

    /// Where the verifier sees a deadlock, so does every execution, and the other way round.
    #[test]
    fn deadlocks_are_those_of_executions(schedule in any_schedule(), seed in any::<u64>()) {
        use syncline_collective::schedule::Kind;
        let mut random = Random(seed);
        let mut mutant = schedule.clone();
        let change = [Change::SwapSteps, Change::MoveDependency][random.below(2)];
        if mutate(&mut mutant, change, &mut random) {
            let report = verify(&mutant, None, Buffering::Slots(1)).unwrap();
            if report.errors.is_empty() {
                let deadlock = report.flaws.iter().any(|f| f.kind == Kind::Deadlock);
                let ended = oracle::run(&mutant, report.root.unwrap_or(0), 1, random.next());
                prop_assert_eq!(deadlock, ended.is_err_and(|e| e.ends_with("stuck")));
            }
        }
    }
}
