//! Imported schedules are verified as programs too, and no fault in a step of one goes unnoticed.

use crate::build::any_schedule;
use crate::support::{line, verdict};
use proptest::prelude::*;
use syncline_collective::program::loops;
use syncline_collective::program::{Frame, loops::Advance, loops::WrittenStep};
use syncline_collective::schedule::{Imported, Schedule, imported};
use syncline_collective::verify::{Buffering, Findings, Kind as Sort};
use syncline_collective::{Algorithm, Buffer, LineRank, Op, Place, Program, Slot, Written};

/// The steps of each rank by thread, none repeated.
type Steps = Vec<Vec<Vec<WrittenStep>>>;

fn unrolled(program: &Written) -> Steps {
    let thread = |rank, thread| {
        let slots = (0..program.steps(rank, thread)).map(move |pc| Slot { thread, pc });
        let step = |at| WrittenStep {
            step: program.step(rank, at),
            detail: program.detail(rank, at),
            advance: Advance::default(),
        };
        slots.map(step).collect()
    };
    let ranks = (0..program.ranks()).map(LineRank);
    ranks.map(|rank| (0..program.threads_of(rank)).map(|t| thread(rank, t)).collect()).collect()
}

/// The program of these steps, with loops.
fn rolled(original: &Written, steps: &Steps) -> Program {
    let (parts, ranks) = (original.parts(), original.ranks());
    let frame = Frame { parts, pacing: original.pacing(), ..Frame::default() };
    let threads = |threads: &Vec<Vec<WrittenStep>>| {
        threads.iter().map(|steps| loops::find(steps, ranks, parts)).collect::<Vec<_>>()
    };
    Written::new(frame, steps.iter().map(threads)).expect("a program of a few steps").into()
}

fn verify(Imported { kind, root, program: original, .. }: &Imported, steps: &Steps) -> Result<(), Findings> {
    let plan = line(*kind, Algorithm::Direct, original.ranks(), root.0);
    verdict(&plan, rolled(original, steps), 2 * u64::from(original.parts()), Buffering::Slots(1))
}

fn import(schedule: &Schedule) -> Imported {
    imported(schedule, None).expect("a right schedule")
}

/// A fault in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Dropped,
    NotAwaited,
    AwaitedTooEarly,
    NotReduced,
    Reduced,
    WrongBlock,
    WrongReceiver,
    WrongStep,
    WrongSource,
    WrongDestination,
    OtherBuffer,
    InTheVector,
}

const FAULTS: [Fault; 12] = [
    Fault::Dropped,
    Fault::NotAwaited,
    Fault::AwaitedTooEarly,
    Fault::NotReduced,
    Fault::Reduced,
    Fault::WrongBlock,
    Fault::WrongReceiver,
    Fault::WrongStep,
    Fault::WrongSource,
    Fault::WrongDestination,
    Fault::OtherBuffer,
    Fault::InTheVector,
];

/// The step after which a step waits, before it: of the same thread, so that it does not wait long enough.
fn earlier(after: Option<Slot>) -> Option<Option<Slot>> {
    let slot = after?;
    Some(slot.pc.checked_sub(1).map(|pc| Slot { pc, ..slot }))
}

impl Fault {
    /// Does it to a step; false if that would change nothing that matters.
    fn damage(self, thread: &mut Vec<WrittenStep>, pc: usize, own: u32, (ranks, parts): (u32, u32)) -> bool {
        let WrittenStep { step, detail, .. } = &mut thread[pc];
        let (reads, stores) = (step.op.reads_local(), step.op.stores());
        let next = |place: Place| Place { first: place.first + 1, ..place };
        match self {
            Fault::Dropped => {
                thread.remove(pc);
            }
            Fault::NotAwaited if detail.after.is_some() => detail.after = None,
            Fault::AwaitedTooEarly => match earlier(detail.after) {
                Some(after) => detail.after = after,
                None => return false,
            },
            Fault::NotReduced => match step.op {
                Op::RecvReduce => step.op = Op::Recv,
                Op::RecvReduceSend | Op::RecvReduceCopySend => step.op = Op::RecvCopySend,
                Op::Reduce => step.op = Op::Copy,
                _ => return false,
            },
            Fault::Reduced => match step.op {
                Op::Recv => step.op = Op::RecvReduce,
                Op::RecvCopySend => step.op = Op::RecvReduceCopySend,
                Op::Copy => step.op = Op::Reduce,
                _ => return false,
            },
            Fault::WrongBlock if !step.op.is_local() && parts > 1 => {
                step.blocks.first = (step.blocks.first + 1) % parts
            }
            Fault::WrongReceiver if step.op.sends() && ranks > 2 => {
                let other = (1..ranks).map(|k| (step.to.0 + k) % ranks).find(|&peer| peer != own);
                step.to = LineRank(other.expect("more than two ranks"));
            }
            Fault::WrongStep if step.op.sends() => step.into.pc += 1,
            Fault::WrongSource if reads && detail.src.is_some() => detail.src = detail.src.map(next),
            Fault::WrongDestination if stores && detail.dst.is_some() => detail.dst = detail.dst.map(next),
            Fault::OtherBuffer => {
                let place = if stores { &mut detail.dst } else { &mut detail.src };
                match place {
                    Some(Place { buffer: buffer @ Buffer::Output, .. }) => *buffer = Buffer::Scratch,
                    Some(Place { buffer: buffer @ Buffer::Scratch, .. }) => *buffer = Buffer::Output,
                    _ => return false,
                }
            }
            Fault::InTheVector => match (detail.src, detail.dst) {
                (_, Some(Place { buffer: Buffer::Scratch, .. })) => detail.dst = None,
                (Some(Place { buffer: Buffer::Scratch, .. }), _) => detail.src = None,
                _ => return false,
            },
            _ => return false,
        }
        true
    }
}

fn is_placed(findings: &Findings) -> bool {
    let finding = &findings.list[0];
    match finding.kind {
        Sort::Lost | Sort::Misplaced => finding.rank.is_some(),
        _ => {
            [finding.rank, finding.phase.map(u32::from), finding.thread_block, finding.step].iter().all(Option::is_some)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_verified_as_a_schedule_is_verified_as_a_program(schedule in any_schedule()) {
        let imported = import(&schedule);
        prop_assert!(imported.regular);
        if schedule.ranks.len() > 1 {
            let steps = unrolled(&imported.program);
            prop_assert_eq!(verify(&imported, &steps), Ok(()));
            prop_assert_eq!(unrolled(match &rolled(&imported.program, &steps) {
                Program::Written(written) => written,
                _ => unreachable!("it is written"),
            }), steps);
        }
    }

    #[test]
    fn a_fault_in_a_step_is_found(
        schedule in any_schedule(), fault in prop::sample::select(FAULTS.to_vec()), rank: prop::sample::Index,
        thread: prop::sample::Index, pc: prop::sample::Index,
    ) {
        let imported = import(&schedule);
        let (ranks, parts) = (imported.program.ranks(), imported.program.parts());
        let mut steps = unrolled(&imported.program);
        let rank = rank.index(ranks as usize);
        if ranks > 1 && !steps[rank].is_empty() {
            let thread = thread.index(steps[rank].len());
            let thread = &mut steps[rank][thread];
            let before = thread.clone();
            if !thread.is_empty() {
                let pc = pc.index(thread.len());
                if fault.damage(thread, pc, rank as u32, (ranks, parts)) && *thread != before {
                    let verdict = verify(&imported, &steps);
                    prop_assert!(verdict.is_err(), "{:?} in step {} of {:?} is not found", fault, pc, before);
                    let findings = verdict.unwrap_err();
                    prop_assert!(is_placed(&findings), "{}", findings);
                }
            }
        }
    }
}

/// Every fault in every step of some schedules.
#[test]
fn every_fault_in_every_step_is_found() {
    use crate::build::*;
    let schedules = [
        ring_all_reduce(3, 2, 2, false),
        ring_all_gather(3, 1, 2, false),
        ring_reduce_scatter(4, 1, 1, false),
        tree_all_reduce(5, 1, 2),
        direct_all_to_all(3, 1, 2),
        staged_all_to_all(3, 2),
        direct_all_reduce(4, 2),
        twice_around(3, 1, 2),
        chain_broadcast(4, 1, 3),
        chain_reduce(4, 2, 2),
    ];
    let mut found = [0; FAULTS.len()];
    for schedule in &schedules {
        let imported = import(schedule);
        let (ranks, parts) = (imported.program.ranks(), imported.program.parts());
        let original = unrolled(&imported.program);
        for (rank, threads) in original.iter().enumerate() {
            for (thread, pc) in threads.iter().enumerate().flat_map(|(t, s)| (0..s.len()).map(move |pc| (t, pc))) {
                for (count, fault) in found.iter_mut().zip(FAULTS) {
                    let mut steps = original.clone();
                    if fault.damage(&mut steps[rank][thread], pc, rank as u32, (ranks, parts)) {
                        let verdict = verify(&imported, &steps);
                        let context = || format!("{:?}: {fault:?} {rank} {thread} {pc}", schedule.collective);
                        assert!(verdict.as_ref().is_err_and(is_placed), "{}: {verdict:?}", context());
                        *count += 1;
                    }
                }
            }
        }
    }
    assert!(found.iter().all(|&count| count > 0), "{found:?}");
}
