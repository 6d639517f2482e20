//! Steps that say where their data lies, and what they wait for.

use crate::support::{line, sort, verdict};
use syncline_collective::program::Frame;
use syncline_collective::program::loops::{Advance, Loop, WrittenStep};
use syncline_collective::verify::{Buffering, Findings, Kind as Sort};
use syncline_collective::{Algorithm, Blocks, Buffer, Detail, Kind, LineRank, Op, Place, Program, Slot, Step, Written};

const I: Buffer = Buffer::Input;
const O: Buffer = Buffer::Output;
const S: Buffer = Buffer::Scratch;

/// A step with its places.
fn at(step: Step, src: Option<(Buffer, u32)>, dst: Option<(Buffer, u32)>) -> WrittenStep {
    let [src, dst] = [src, dst].map(|place| place.map(|(buffer, first)| Place { buffer, first }));
    WrittenStep { step, detail: Detail { src, dst, ..Detail::default() }, advance: Advance::default() }
}

fn after(mut step: WrittenStep, thread: u16, pc: u32) -> WrittenStep {
    step.detail.after = Some(Slot { thread, pc });
    step
}

fn local(op: Op, block: u32) -> Step {
    let nobody = LineRank(0);
    Step { op, blocks: Blocks::one(block), from: nobody, to: nobody, into: Slot::default() }
}

fn nop() -> WrittenStep {
    let mut step = local(Op::Nop, 0);
    step.blocks.count = 0;
    step.into()
}

fn written(parts: u32, ranks: Vec<Vec<Vec<WrittenStep>>>) -> Program {
    let frame = Frame { parts, ..Frame::default() };
    let once = |step| Loop { times: 1, steps: vec![step] };
    let thread = |steps: Vec<WrittenStep>| steps.into_iter().map(once).collect::<Vec<_>>();
    let rank = |threads: Vec<Vec<WrittenStep>>| threads.into_iter().map(thread).collect::<Vec<_>>();
    Written::new(frame, ranks.into_iter().map(rank)).expect("a few steps").into()
}

fn verify(kind: Kind, ranks: u32, program: Program, elements: u64) -> Result<(), Findings> {
    verdict(&line(kind, Algorithm::Direct, ranks, 0), program, elements, Buffering::Slots(1))
}

fn message(verdict: Result<(), Findings>) -> String {
    verdict.expect_err("it is wrong").list[0].to_string()
}

/// Two ranks that exchange their vectors by way of scratch and add; rank 0 is changed.
fn exchange(change: impl Fn(&mut Vec<Vec<WrittenStep>>)) -> Program {
    let rank = |own: u32| {
        let (peer, all) = (LineRank(1 - own), Blocks::one(0));
        let mut threads = vec![
            vec![at(Step::send(all, peer, Slot { thread: 1, pc: 0 }), None, None)],
            vec![at(Step::receive(Op::Recv, all, peer), None, Some((S, 0)))],
            vec![after(nop(), 0, 0), after(at(local(Op::Reduce, 0), Some((S, 0)), None), 1, 0)],
        ];
        if own == 0 {
            change(&mut threads);
        }
        threads
    };
    written(1, vec![rank(0), rank(1)])
}

#[test]
fn scratch_and_dependencies() {
    let all_reduce = |change: fn(&mut Vec<Vec<WrittenStep>>)| verify(Kind::AllReduce, 2, exchange(change), 3);
    assert_eq!(all_reduce(|_| ()), Ok(()));
    // The vector is sent while it is added to.
    let verdict = all_reduce(|threads| threads[2][0].detail.after = None);
    assert_eq!(sort(&verdict), Some(Sort::Race));
    assert!(message(verdict).contains("element 0 of the vector"));
    // What is added may not be there yet.
    let verdict = all_reduce(|threads| threads[2][1].detail.after = None);
    assert!(matches!(sort(&verdict), Some(Sort::Race | Sort::Absent)), "{verdict:?}");
    let verdict = all_reduce(|threads| threads[2][1].detail.src = Some(Place { buffer: S, first: 1 }));
    assert_eq!(message(verdict), "uses element 3 of its scratch buffer, in which there is nothing yet");
    // A nop that waits for what waits for it.
    let verdict = all_reduce(|threads| threads[0][0].detail.after = Some(Slot { thread: 2, pc: 0 }));
    assert_eq!(sort(&verdict), Some(Sort::Deadlock));
    let message = message(verdict);
    assert!(message.contains("rank 0 thread 0 step 0 waits for step 0 of its thread 2"), "{message}");
    assert!(message.contains("rank 0 thread 2 step 0 waits for step 0 of its thread 0"), "{message}");
}

#[test]
fn dependencies_on_what_does_not_exist_or_comes_later() {
    for (on, why) in [
        (Slot { thread: 7, pc: 0 }, "waits for step 0 of thread 7, which does not exist"),
        (Slot { thread: 1, pc: 1 }, "waits for step 1 of thread 1, which does not exist"),
        (Slot { thread: 2, pc: 1 }, "waits for step 1 of thread 2, which comes after it or is itself"),
    ] {
        let verdict = verify(Kind::AllReduce, 2, exchange(|threads| threads[2][1].detail.after = Some(on)), 3);
        assert_eq!(sort(&verdict), Some(Sort::Dependency));
        let finding = &verdict.unwrap_err().list[0];
        assert_eq!((finding.place(), &finding.message[..]), ("rank 0, phase 0, thread 2, step 1".into(), why));
    }
}

/// An all-gather from input to output, whose first copy is changed.
fn gather(copy: Option<WrittenStep>) -> Program {
    let rank = |own: u32| {
        let peer = LineRank(1 - own);
        let mut copy = copy.filter(|_| own == 0).unwrap_or(at(local(Op::Copy, own), Some((I, 0)), Some((O, own))));
        copy.step.blocks.first = own;
        let send = at(Step::send(Blocks::one(own), peer, Slot { thread: 0, pc: 2 }), Some((I, 0)), None);
        let receive = at(Step::receive(Op::Recv, Blocks::one(1 - own), peer), None, Some((O, 1 - own)));
        vec![vec![copy, send, receive]]
    };
    written(2, vec![rank(0), rank(1)])
}

#[test]
fn input_and_output_apart() {
    assert_eq!(verify(Kind::AllGather, 2, gather(None), 6), Ok(()));
    let nothing = Some(nop());
    let verdict = verify(Kind::AllGather, 2, gather(nothing), 6);
    assert_eq!(message(verdict), "ends with nothing in element 0 of its output; accepted: element 0 of rank 0");
    let copy = |src, dst| Some(at(local(Op::Copy, 0), Some(src), Some(dst)));
    let verdict = verify(Kind::AllGather, 2, gather(copy((I, 1), (O, 0))), 6);
    assert_eq!(message(verdict), "1 blocks from 1 are not all in the input buffer of 1");
    let verdict = verify(Kind::AllGather, 2, gather(copy((I, 0), (O, 2))), 6);
    assert_eq!(message(verdict), "1 blocks from 2 are not all in the output buffer of 2");
    let verdict = verify(Kind::AllGather, 2, gather(copy((O, 1), (O, 0))), 6);
    assert_eq!(message(verdict), "uses element 3 of its output buffer, in which there is nothing yet");
    // A place in the vector is one in the output, where an all-gather has all of it.
    let in_vector = at(local(Op::Copy, 0), Some((I, 0)), None);
    assert_eq!(verify(Kind::AllGather, 2, gather(Some(in_vector)), 6), Ok(()));
}

#[test]
fn buffers_are_counted_in_equal_blocks() {
    let verdict = verify(Kind::AllGather, 2, gather(None), 5);
    assert_eq!(sort(&verdict), Some(Sort::Sizes));
    assert_eq!(message(verdict), "5 elements are no 2 blocks of equal length, which buffers are counted in");
}

#[test]
fn a_residual_has_no_place() {
    let verdict = verify(Kind::AllReduce, 2, exchange(|threads| threads[2][1].step.op = Op::ResidualAdd), 3);
    assert_eq!(sort(&verdict), Some(Sort::Operand));
}

#[test]
fn more_scratch_than_is_verified() {
    let large = Some(Place { buffer: S, first: u32::MAX - 1 });
    let verdict = verify(Kind::AllReduce, 2, exchange(|threads| threads[1][0].detail.dst = large), 3);
    assert_eq!(sort(&verdict), Some(Sort::TooLarge));
}

/// Whose steps name the output has its results nowhere else, and whose steps only name the input works in place.
#[test]
fn in_place() {
    let rank = |own: u32, buffer| {
        let peer = LineRank(1 - own);
        let [receives, sends] = [
            at(Step::receive(Op::RecvReduce, Blocks::one(0), peer), buffer, buffer),
            at(Step::send(Blocks::one(0), peer, Slot { thread: 0, pc: own ^ 1 }), buffer, None),
        ];
        vec![if own == 0 { vec![receives, sends] } else { vec![sends, receives] }]
    };
    let program = |of_first, of_second, op| {
        let mut ranks = vec![rank(0, of_first), rank(1, of_second)];
        ranks[1][0][1].step.op = op;
        written(1, ranks)
    };
    let verify = |of_first, of_second, op| verify(Kind::AllReduce, 2, program(of_first, of_second, op), 2);
    assert_eq!(verify(None, None, Op::Recv), Ok(()));
    assert_eq!(verify(Some((I, 0)), None, Op::Recv), Ok(()));
    assert_eq!(sort(&verify(Some((I, 0)), None, Op::RecvReduce)), Some(Sort::Doubled));
    assert_eq!(sort(&verify(Some((O, 0)), None, Op::Recv)), Some(Sort::Absent));
    assert_eq!(sort(&verify(Some((I, 0)), Some((O, 0)), Op::Recv)), Some(Sort::Absent));
}

/// In an all-to-all, what a rank starts with and what it ends with have places of their own.
#[test]
fn an_exchange_without_a_matrix() {
    let rank = |own: u32, states: bool| {
        let peer = LineRank(1 - own);
        let blocks = |origin, first| Blocks { origin, first, count: 1 };
        let copy = Step { blocks: blocks(own, own), ..local(Op::Copy, own) };
        let send = Step::send(blocks(own, 1 - own), peer, Slot { thread: 0, pc: 2 });
        let receive = Step::receive(Op::Recv, blocks(1 - own, own), peer);
        // Without its places, the copy is from where the rank starts to where it ends, too.
        let copy = if states { at(copy, Some((I, own)), Some((O, own))) } else { copy.into() };
        vec![vec![copy, send.into(), receive.into()]]
    };
    assert_eq!(verify(Kind::AllToAll, 2, written(2, vec![rank(0, true), rank(1, false)]), 0), Ok(()));
    let mut lost = rank(0, true);
    lost[0].remove(0);
    lost[0].insert(0, nop());
    lost[0].push(at(local(Op::Copy, 0), Some((I, 0)), Some((O, 1))));
    let verdict = verify(Kind::AllToAll, 2, written(2, vec![lost, rank(1, true)]), 0);
    assert_eq!(message(verdict), "ends with nothing in element 0 of its output; accepted: data of rank 0 for rank 0");
}
