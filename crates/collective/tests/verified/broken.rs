//! Programs with a fault are rejected, and for the right reason.

use crate::support::{line, programs, sort, verdict};
use proptest::prelude::*;
use syncline_collective::program::Frame;
use syncline_collective::verify::{Buffering, Finding, Findings, Kind as Sort};
use syncline_collective::{
    Algorithm, Blocks, Kind, LineRank, Op, PhaseId, Plan, Posting, Program, Slot, Step, Written,
};

/// The steps of each rank by thread.
pub type Steps = Vec<Vec<Vec<Step>>>;

/// The steps of a program, to be damaged.
pub fn steps(program: &Program) -> Steps {
    let written = program.written_down().expect("a program of a few steps");
    let ranks = (0..program.ranks() + u32::from(program.has_switch())).map(LineRank);
    let thread = |rank, thread| {
        let slots = (0..written.steps(rank, thread)).map(move |pc| Slot { thread, pc });
        slots.map(|at| written.step(rank, at).normal()).collect()
    };
    ranks.map(|rank| (0..written.threads()).map(|t| thread(rank, t)).collect()).collect()
}

/// The program again.
pub fn program(original: &Program, steps: Steps) -> Program {
    written(original.parts(), original.has_switch(), &steps)
}

/// A program of these steps.
fn written(parts: u32, has_switch: bool, steps: &Steps) -> Program {
    let frame = Frame { parts, has_switch, ..Frame::default() };
    Written::of_steps(frame, steps).expect("a program of a few steps").into()
}

/// A fault in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Dropped,
    SwappedWithNext,
    NotReduced,
    Reduced,
    WrongBlock,
    WrongReceiver,
    WrongSender,
    WrongStep,
    WrongThread,
}

pub const FAULTS: [Fault; 9] = [
    Fault::Dropped,
    Fault::SwappedWithNext,
    Fault::NotReduced,
    Fault::Reduced,
    Fault::WrongBlock,
    Fault::WrongReceiver,
    Fault::WrongSender,
    Fault::WrongStep,
    Fault::WrongThread,
];

impl Fault {
    /// Does it to a step; false if that would change nothing that matters.
    pub fn damage(self, thread: &mut Vec<Step>, pc: usize, own: u32, ranks: u32, parts: u32, threads: u16) -> bool {
        let other = |peer: u32| (1..ranks).map(|k| (peer + k) % ranks).find(|&p| p != own && p != peer);
        let next = thread.get(pc + 1).copied();
        let step = &mut thread[pc];
        match self {
            Fault::Dropped => {
                thread.remove(pc);
            }
            Fault::SwappedWithNext => {
                let Some(next) = next.filter(|next| next.op.receives() || step.op.receives()) else { return false };
                thread[pc + 1] = std::mem::replace(step, next);
            }
            Fault::NotReduced => match step.op {
                Op::RecvReduce => step.op = Op::Recv,
                Op::RecvReduceSend | Op::RecvReduceCopySend => step.op = Op::RecvCopySend,
                _ => return false,
            },
            Fault::Reduced => match step.op {
                Op::Recv => step.op = Op::RecvReduce,
                Op::RecvCopySend => step.op = Op::RecvReduceCopySend,
                _ => return false,
            },
            Fault::WrongBlock if parts > 1 => step.blocks.first = (step.blocks.first + 1) % parts,
            Fault::WrongReceiver if step.op.sends() => match other(step.to.0) {
                Some(peer) => step.to = LineRank(peer),
                None => return false,
            },
            Fault::WrongSender if step.op.receives() => match other(step.from.0) {
                Some(peer) => step.from = LineRank(peer),
                None => return false,
            },
            Fault::WrongStep if step.op.sends() => step.into.pc += 1,
            Fault::WrongThread if step.op.sends() => step.into.thread = (step.into.thread + 1) % (threads + 1),
            _ => return false,
        }
        true
    }

    /// Whether it is known by what it does.
    fn explains(self, finding: &Finding) -> bool {
        let misdirected = matches!(finding.kind, Sort::Misdirected | Sort::Mismatch);
        match self {
            // What follows a missing or exchanged step is taken by another one, if anything follows.
            Fault::Dropped | Fault::SwappedWithNext => {
                // Or data is sent before it is there: none, or of another thread.
                misdirected || matches!(finding.kind, Sort::Deadlock | Sort::Absent | Sort::Race)
            }
            Fault::NotReduced => finding.kind == Sort::Lost,
            Fault::Reduced => matches!(finding.kind, Sort::Doubled | Sort::Absent | Sort::Operand),
            Fault::WrongBlock => finding.kind == Sort::Mismatch,
            Fault::WrongSender => finding.kind == Sort::Misdirected && finding.message.ends_with("another rank"),
            Fault::WrongReceiver | Fault::WrongStep | Fault::WrongThread => misdirected,
        }
    }
}

/// Damages one step; the verdict, unless nothing that matters was changed.
fn damaged(plan: &Plan, fault: Fault, rank: usize, thread: usize, pc: usize) -> Option<Result<(), Findings>> {
    let original = plan.program(PhaseId(0), true);
    let mut steps = steps(&original);
    let (ranks, parts, threads) = (original.ranks(), original.parts(), original.threads());
    let changed = fault.damage(&mut steps[rank][thread], pc, rank as u32, ranks, parts, threads);
    // Enough elements that no block is empty.
    let elements = 2 * u64::from(parts);
    changed.then(|| verdict(plan, program(&original, steps), elements, Buffering::Eager))
}

#[test]
fn an_unbroken_copy_passes() {
    for (algorithm, kind) in programs(2) {
        let plan = line(kind, algorithm, 7, 3);
        let original = plan.program(PhaseId(0), true);
        assert_eq!(verdict(&plan, program(&original, steps(&original)), 20, Buffering::Slots(1)), Ok(()));
    }
}

#[test]
fn every_fault_in_every_step_is_found_for_what_it_is() {
    for (ranks, (algorithm, kind)) in [2, 4, 6, 7].into_iter().flat_map(|n| programs(2).map(move |p| (n, p))) {
        let plan = line(kind, algorithm, ranks, 1);
        let original = steps(&plan.program(PhaseId(0), true));
        for (rank, threads) in original.iter().enumerate() {
            for (thread, pc) in threads.iter().enumerate().flat_map(|(t, s)| (0..s.len()).map(move |pc| (t, pc))) {
                for fault in FAULTS {
                    let context = || format!("{kind} by {algorithm:?} on {ranks}: {fault:?} {rank} {thread} {pc}");
                    match damaged(&plan, fault, rank, thread, pc) {
                        None => {}
                        Some(Ok(())) => panic!("{} is not found", context()),
                        Some(Err(found)) => {
                            assert!(fault.explains(&found.list[0]), "{}: {found}", context());
                            assert_eq!(found.list[0].phase.is_some(), fault != Fault::NotReduced, "{}", context());
                        }
                    }
                }
            }
        }
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let ops =
        [Op::Send, Op::RecvReduceSend, Op::RecvReduce, Op::RecvReduceCopySend, Op::RecvCopySend, Op::Recv].to_vec();
    let blocks = (0u32..8, 0u32..8, 0u32..9).prop_map(|(origin, first, count)| Blocks { origin, first, count });
    let into = (0u16..3, 0u32..6).prop_map(|(thread, pc)| Slot { thread, pc });
    (prop::sample::select(ops), blocks, 0u32..7, 0u32..7, into).prop_map(|(op, blocks, from, to, into)| Step {
        op,
        blocks,
        from: LineRank(from),
        to: LineRank(to),
        into,
    })
}

proptest! {
    #[test]
    fn a_fault_in_a_larger_program_is_found(
        pair in prop::sample::select(programs(3).collect::<Vec<_>>()), ranks in 8u32..40, root: prop::sample::Index,
        fault in prop::sample::select(FAULTS.to_vec()), rank: prop::sample::Index, thread: prop::sample::Index,
        pc: prop::sample::Index,
    ) {
        let (algorithm, kind) = pair;
        let plan = line(kind, algorithm, ranks, root.index(ranks as usize) as u32);
        let program = plan.program(PhaseId(0), true);
        let (rank, thread) = (rank.index(ranks as usize), thread.index(program.threads().into()));
        let steps = program.steps(LineRank(rank as u32), thread as u16);
        if steps > 0 {
            match damaged(&plan, fault, rank, thread, pc.index(steps as usize)) {
                Some(Err(found)) => prop_assert!(fault.explains(&found.list[0]), "{}", found),
                Some(Ok(())) => prop_assert!(false, "not found"),
                None => {}
            }
        }
    }

    /// Nonsense never passes for an all-reduce, an all-gather or an all-to-all, and never ends in a panic.
    #[test]
    fn nonsense_is_rejected(
        kind in prop::sample::select(vec![Kind::AllReduce, Kind::AllGather, Kind::AllToAll]), parts in 0u32..8,
        steps in prop::collection::vec(prop::collection::vec(prop::collection::vec(any_step(), 0..4), 0..3), 5..6),
    ) {
        let plan = line(kind, Algorithm::Direct, 5, 0);
        let program = written(parts, false, &steps);
        prop_assert!(verdict(&plan, program, 10, Buffering::Slots(2)).is_err());
    }
}

/// Two ranks that exchange their vectors and add.
fn exchange(threads: impl Fn(Step, Step) -> Vec<Vec<Step>>) -> Program {
    let rank = |own: u32| {
        let (peer, all) = (1 - own, Blocks::one(0));
        let receive = Step::receive(Op::RecvReduce, all, LineRank(peer));
        let threads_of = |into| threads(Step::send(all, LineRank(peer), into), receive);
        // The receiving step is the last one of the last thread.
        let shape = threads_of(Slot::default());
        threads_of(Slot { thread: shape.len() as u16 - 1, pc: shape[shape.len() - 1].len() as u32 - 1 })
    };
    written(1, false, &vec![rank(0), rank(1)])
}

#[test]
fn threads_that_share_data_in_no_order_race() {
    let plan = line(Kind::AllReduce, Algorithm::Direct, 2, 0);
    let in_order = exchange(|send, receive| vec![vec![send, receive]]);
    assert_eq!(verdict(&plan, in_order, 3, Buffering::Eager), Ok(()));
    let apart = exchange(|send, receive| vec![vec![send], vec![receive]]);
    let found = verdict(&plan, apart, 3, Buffering::Eager).unwrap_err();
    assert_eq!((found.list[0].kind, found.list[0].place()), (Sort::Race, "rank 0, phase 0, thread 0, step 0".into()));
    assert_eq!(
        found.list[0].message,
        "reads element 0 of the vector, which step 0 of thread 1 writes; nothing says which comes first"
    );
}

#[test]
fn two_threads_that_add_to_the_same_data_race() {
    let plan = line(Kind::Reduce, Algorithm::Direct, 3, 0);
    let original = plan.program(PhaseId(0), true);
    let mut steps = steps(&original);
    let second = steps[0][0].pop().expect("the root receives twice");
    steps[0].push(vec![second]);
    steps[2][0][0].into = Slot { thread: 1, pc: 0 };
    let verdict = verdict(&plan, program(&original, steps), 3, Buffering::Eager);
    assert_eq!(sort(&verdict), Some(Sort::Race), "{verdict:?}");
    assert_eq!(verdict.unwrap_err().list[0].rank, Some(0));
}

#[test]
fn a_result_that_comes_down_a_tree_before_all_went_up_is_a_race() {
    let plan = line(Kind::AllReduce, Algorithm::DoubleBinaryTree { slices: 1 }, 2, 0);
    // Of the first tree, rank 0 is the root: it sends its own data down instead of turning round.
    let original = plan.program(PhaseId(0), true);
    let mut steps = steps(&original);
    let turn = steps[0][0][0];
    steps[0][0] = vec![Step::receive(Op::RecvReduce, turn.blocks, turn.from)];
    steps[0][1] = vec![Step::send(turn.blocks, turn.to, turn.into)];
    let verdict = verdict(&plan, program(&original, steps), 2, Buffering::Eager);
    assert_eq!(sort(&verdict), Some(Sort::Race), "{verdict:?}");
}

#[test]
fn a_second_message_to_a_step_is_rejected() {
    let plan = line(Kind::AllGather, Algorithm::Direct, 2, 0);
    let original = plan.program(PhaseId(0), true);
    let mut steps = steps(&original);
    let again = steps[1][0][0];
    steps[1][0].push(again);
    let verdict = verdict(&plan, program(&original, steps), 2, Buffering::Eager);
    assert_eq!(sort(&verdict), Some(Sort::Misdirected), "{verdict:?}");
    let message = &verdict.unwrap_err().list[0].message;
    assert_eq!(message, "sends to step 1 of rank 0, but it has its message already");
}

#[test]
fn a_program_of_another_size_is_rejected() {
    let plan = line(Kind::AllGather, Algorithm::Direct, 3, 0);
    let program = Program::Direct { kind: Kind::AllGather, ranks: 4, root: LineRank(0), posting: Posting::Rotated };
    let mut verifier = syncline_collective::verify::Verifier::new(&plan, &[3], 4, true, Buffering::Eager);
    verifier.programs = vec![program];
    let finding = &verifier.verify().unwrap_err().list[0];
    assert_eq!((finding.kind, finding.phase), (Sort::Sizes, Some(0)));
    assert_eq!(finding.to_string(), "the program is for 4 ranks; accepted: 3");
}

/// Only what goes to a switch or comes from one may be a message of no blocks.
#[test]
fn messages_of_nothing_are_rejected() {
    let plan = line(Kind::AllGather, Algorithm::Direct, 2, 0);
    let original = plan.program(PhaseId(0), true);
    for count in [0, 3] {
        let mut steps = steps(&original);
        let sent = &mut steps[0][0][0];
        sent.blocks.count = count;
        let (to, into, blocks) = (sent.to, sent.into, sent.blocks);
        steps[to.index()][0][into.pc as usize].blocks = blocks;
        let found = verdict(&plan, program(&original, steps), 2, Buffering::Eager).unwrap_err();
        assert_eq!(
            (found.list[0].kind, found.list[0].place()),
            (Sort::Bounds, "rank 0, phase 0, thread 0, step 0".into())
        );
        assert_eq!(found.list[0].message, format!("the vector has no {count} blocks from 0"));
    }
}
