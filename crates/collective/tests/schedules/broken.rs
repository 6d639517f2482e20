//! Wrong schedules of each kind are rejected, with the reason and its place.

use crate::build::*;
use syncline_collective::Op;
use syncline_collective::schedule::{
    Buffering, Collective, Dependency, Finding, Kind, Schedule, ScheduleRank, ScheduleStep, ThreadBlock, verify,
};

fn ring() -> Schedule {
    ring_all_reduce(4, 1, 1, true)
}

fn findings(schedule: &Schedule, buffering: Buffering) -> (Vec<Finding>, Vec<Finding>) {
    let report = verify(schedule, None, buffering).expect("a collective");
    assert!(!report.verified);
    (report.errors, report.flaws)
}

/// The only error of a schedule: kind, place and message.
fn error(schedule: &Schedule) -> (Kind, [Option<u32>; 3], String) {
    let (errors, flaws) = findings(schedule, Buffering::Eager);
    assert_eq!((errors.len(), flaws.len()), (1, 0), "{errors:?}");
    placed(&errors[0])
}

fn placed(finding: &Finding) -> (Kind, [Option<u32>; 3], String) {
    (finding.kind, [finding.rank, finding.thread_block, finding.step], finding.to_string())
}

/// The first flaw of a schedule without errors.
fn flaw(schedule: &Schedule, buffering: Buffering) -> (Kind, [Option<u32>; 3], String) {
    let (errors, flaws) = findings(schedule, buffering);
    assert_eq!(errors, []);
    placed(&flaws[0])
}

fn the_block(schedule: &mut Schedule, rank: usize, block: usize) -> &mut ThreadBlock {
    &mut schedule.ranks[rank].thread_blocks[block]
}

fn the_step(schedule: &mut Schedule, rank: usize, block: usize, step: usize) -> &mut ScheduleStep {
    &mut the_block(schedule, rank, block).steps[step]
}

/// Takes a step out; the others close up, and dependencies follow the step that they meant.
pub fn remove(schedule: &mut Schedule, rank: usize, block: usize, step: usize) {
    let steps = &mut the_block(schedule, rank, block).steps;
    steps.remove(step);
    for (id, step) in (0..).zip(steps) {
        step.id = id;
    }
    for other in &mut schedule.ranks[rank].thread_blocks {
        for s in &mut other.steps {
            if let Some(on) = s.depends_on.filter(|d| d.thread_block as usize == block && d.step as usize >= step) {
                let moved = (on.step as usize > step || on.step > 0).then(|| on.step.saturating_sub(1));
                s.depends_on = moved.map(|step| Dependency { step, ..on });
            }
        }
    }
}

fn place(rank: u32, block: u32, step: u32) -> [Option<u32>; 3] {
    [Some(rank), Some(block), Some(step)]
}

#[test]
fn a_lost_contribution() {
    // Rank 2 passes on what it received and forgets to add its own.
    let mut s = ring_all_reduce(4, 1, 1, false);
    *the_step(&mut s, 2, 0, 1) =
        ScheduleStep { op: Op::RecvCopySend, src: None, dst: at(O, 1), ..the_step(&mut s, 2, 0, 1).clone() };
    let (kind, site, message) = flaw(&s, Buffering::Eager);
    assert_eq!((kind, site), (Kind::Lost, [Some(0), None, None]));
    assert_eq!(
        message,
        "ends with chunk 1 of ranks 0, 1 and 3 in chunk 1 of its output; accepted: chunk 1 of all ranks"
    );
}

#[test]
fn a_result_that_is_never_written() {
    let mut s = empty(Collective::AllReduce, false, 1, [2, 2, 0]);
    let b = (0, block(&mut s, 0, None, None, 0));
    step(&mut s, b, Op::Copy, at(I, 0), at(O, 0), 1);
    let (kind, _, message) = flaw(&s, Buffering::Eager);
    assert_eq!(kind, Kind::Lost);
    assert_eq!(message, "ends with nothing in chunk 1 of its output; accepted: chunk 1 of all ranks");
}

#[test]
fn a_doubled_contribution() {
    let mut s = ring();
    let b = (1, block(&mut s, 1, None, None, 0));
    step(&mut s, b, Op::Reduce, at(I, 3), at(I, 3), 1);
    let report = verify(&s, None, Buffering::Eager).unwrap();
    let doubled = report.flaws.iter().find(|f| f.kind == Kind::Doubled).unwrap();
    assert_eq!(doubled.message, "adds chunk 3 of rank 1 to that of rank 1: rank 1 counts twice");
}

#[test]
fn different_chunks_added() {
    let mut s = ring();
    the_step(&mut s, 2, 0, 1).src = at(I, 0);
    let (kind, site, message) = flaw(&s, Buffering::Slots(1));
    assert_eq!((kind, site), (Kind::Mixed, place(2, 0, 1)));
    assert_eq!(message, "adds chunk 1 of rank 1 to chunk 0 of rank 2; accepted: the same chunk");
}

#[test]
fn a_misplaced_chunk() {
    let mut s = ring_all_gather(3, 1, 1, false);
    the_step(&mut s, 0, 0, 2).dst = at(O, 1);
    the_step(&mut s, 0, 0, 3).dst = at(O, 2);
    let (kind, site, message) = flaw(&s, Buffering::Eager);
    assert_eq!((kind, site), (Kind::Misplaced, [Some(0), None, None]));
    assert_eq!(message, "ends with chunk 0 of rank 2 in chunk 1 of its output; accepted: chunk 0 of rank 1");
}

#[test]
fn use_of_a_chunk_before_anything_is_in_it() {
    let mut s = ring_all_reduce(3, 1, 1, false);
    the_step(&mut s, 1, 0, 0).src = at(O, 1);
    let (kind, site, message) = flaw(&s, Buffering::Eager);
    assert_eq!((kind, site), (Kind::Absent, place(1, 0, 0)));
    assert_eq!(message, "uses chunk 1 of its output buffer, in which there is nothing yet");
}

#[test]
fn a_message_that_is_never_received() {
    let mut s = ring();
    remove(&mut s, 2, 0, 6);
    let (kind, site, message) = error(&s);
    assert_eq!((kind, site), (Kind::Unreceived, place(1, 0, 5)));
    assert_eq!(message, "message 5 to rank 2 on channel 0 is never received: 6 sent, 5 received");
}

#[test]
fn a_message_that_is_never_sent() {
    let mut s = ring();
    remove(&mut s, 1, 0, 0);
    let (kind, site, message) = error(&s);
    assert_eq!((kind, site), (Kind::Unsent, place(2, 0, 6)));
    assert_eq!(message, "message 5 from rank 1 on channel 0 is never sent: 5 sent, 6 received");
}

#[test]
fn a_message_of_another_size() {
    let mut s = ring_all_reduce(3, 1, 2, true);
    the_step(&mut s, 0, 0, 0).count = 1;
    let (kind, site, message) = error(&s);
    assert_eq!((kind, site), (Kind::Count, place(1, 0, 1)));
    assert_eq!(
        message,
        "receives 2 chunks as message 0 from rank 0 on channel 0, which step 0 of its thread block 0 sends with 1 chunks"
    );
}

#[test]
fn peers_that_cannot_be() {
    let mut s = ring();
    the_block(&mut s, 1, 0).send = Some(4);
    the_block(&mut s, 2, 0).recv = Some(2);
    the_block(&mut s, 3, 0).recv = None;
    let errors = findings(&s, Buffering::Eager).0;
    let texts: Vec<_> =
        errors.iter().filter(|e| e.kind == Kind::Peer).map(|e| (e.rank.unwrap(), e.to_string())).collect();
    let messages: Vec<_> = texts.iter().map(|(rank, text)| (*rank, text.as_str())).collect();
    assert_eq!(
        messages[..2],
        [(1, "sends to rank 4, which does not exist; accepted: 0 to 3 or nobody"), (2, "receives from its own rank 2"),]
    );
    assert_eq!(messages[2], (3, "a step of type rrs in a thread block that receives from nobody"));
    assert_eq!(messages.len(), 2 + 6);
}

#[test]
fn a_wrong_peer_leaves_messages_alone_on_both_sides() {
    let mut s = ring();
    the_block(&mut s, 1, 0).send = Some(3);
    let errors = findings(&s, Buffering::Eager).0;
    let kinds: Vec<_> = errors.iter().map(|e| (e.kind, e.rank.unwrap())).collect();
    assert_eq!(kinds, [(Kind::Unsent, 2), (Kind::Unreceived, 1)]);
}

#[test]
fn a_connection_of_two_thread_blocks() {
    let mut s = ring();
    block(&mut s, 1, Some(2), None, 0);
    let (kind, site, message) = error(&s);
    assert_eq!((kind, site), (Kind::Connection, [Some(1), Some(1), None]));
    assert_eq!(
        message,
        "sends to rank 2 on channel 0, as thread block 0 does; accepted: one thread block per peer, direction and channel"
    );
}

#[test]
fn every_error_of_a_step_at_once() {
    let mut s = ring();
    let bad = the_step(&mut s, 0, 0, 1);
    bad.src = at(S, 7);
    bad.dst = at(I, 0);
    bad.depends_on = Some(Dependency { thread_block: 3, step: 0 });
    the_step(&mut s, 0, 0, 0).src = None;
    the_step(&mut s, 0, 0, 2).count = 0;
    the_step(&mut s, 0, 0, 3).depends_on = Some(Dependency { thread_block: 0, step: 9 });
    the_step(&mut s, 0, 0, 4).depends_on = Some(Dependency { thread_block: 0, step: 4 });
    the_step(&mut s, 0, 0, 5).dst = at(I, 4);
    let errors = findings(&s, Buffering::Eager).0;
    let texts: Vec<_> = errors.iter().map(|e| (e.step.unwrap(), e.kind, e.to_string())).collect();
    let messages: Vec<_> = texts.iter().map(|(step, kind, text)| (*step, *kind, text.as_str())).collect();
    assert_eq!(
        messages,
        [
            (0, Kind::Operand, "a step of type s needs a source"),
            (1, Kind::Operand, "a step of type rrs has no destination of its own rank"),
            (
                1,
                Kind::Dependency,
                "waits for step 0 of thread block 3, which does not exist; accepted: thread blocks 0 to 0"
            ),
            (1, Kind::Bounds, "chunk 7 is outside the scratch buffer of 0 chunks"),
            (2, Kind::Operand, "a step of type rrs on 0 chunks; accepted: 1 or more"),
            (3, Kind::Dependency, "waits for step 9 of thread block 0, which has only 7 steps"),
            (4, Kind::Dependency, "waits for step 4 of thread block 0, which comes after it or is itself"),
            (5, Kind::Bounds, "chunk 4 is outside the input buffer of 4 chunks"),
            (
                3,
                Kind::Count,
                "receives 1 chunks as message 2 from rank 0 on channel 0, which step 2 of its thread block 0 \
              sends with 0 chunks"
            ),
            (
                2,
                Kind::Count,
                "receives 0 chunks as message 1 from rank 3 on channel 0, which step 1 of its thread block 0 \
              sends with 1 chunks"
            ),
        ]
        .map(|(step, kind, message)| (step, kind, message))
    );
}

#[test]
fn numbers_with_gaps_or_twice() {
    let mut s = ring();
    s.ranks[3].id = 4;
    assert_eq!(error(&s).2, "rank 3 is missing; accepted: numbers from 0 without gaps");
    let mut s = ring();
    s.ranks[3].id = 2;
    assert_eq!(error(&s).2, "there are two of rank 2");
    let mut s = ring();
    the_block(&mut s, 1, 0).id = 1;
    assert_eq!(error(&s).2, "thread block 0 is missing; accepted: numbers from 0 without gaps");
    let mut s = ring();
    the_step(&mut s, 1, 0, 2).id = 3;
    assert_eq!(error(&s), (Kind::Ids, place(1, 0, 3), "this step is numbered 3; accepted: 2".into()));
    let mut s = ring();
    s.ranks.clear();
    assert_eq!(error(&s).2, "there are no ranks");
}

#[test]
fn buffers_of_other_sizes_than_the_collective_gives_them() {
    let mut s = ring();
    s.ranks[1].output_chunks = 3;
    assert_eq!(error(&s).2, "the output buffer has 3 chunks; accepted: 4 or 0 for in-place allreduce of 4 chunks");
    let s = empty(Collective::AllGather, false, 3, [1, 4, 0]);
    assert_eq!(
        error(&s).2,
        "the allgather vector of 4 chunks does not divide among 3 ranks; accepted: a multiple of 3"
    );
    let s = empty(Collective::ReduceScatter, false, 2, [0, 2, 0]);
    assert_eq!(error(&s).2, "no rank has an input buffer");
}

#[test]
fn more_than_is_verified() {
    let mut s = ring();
    s.ranks[0].scratch_chunks = u32::MAX;
    s.ranks[1].thread_blocks[0].channel = u32::MAX;
    let errors = findings(&s, Buffering::Eager).0;
    assert_eq!(errors[0].to_string(), "4294967295 scratch chunks; accepted: up to 65536");
    assert_eq!(errors[1].to_string(), "4294967295 as channel; accepted: up to 65536");
}

#[test]
fn a_residual_is_nobodys_input() {
    let mut s = empty(Collective::AllReduce, true, 1, [1, 0, 1]);
    let b = (0, block(&mut s, 0, None, None, 0));
    step(&mut s, b, Op::ResidualAdd, at(S, 0), at(I, 0), 1);
    let (kind, _, message) = error(&s);
    assert_eq!(kind, Kind::Operand);
    assert_eq!(message, "adds a residual (type ra), which is nobody's input and has no place in allreduce");
}

#[test]
fn everybody_sends_first_and_nobody_has_room() {
    let (kind, site, message) = flaw(&ring_all_reduce(3, 1, 1, true), Buffering::Rendezvous);
    assert_eq!((kind, site), (Kind::Deadlock, place(0, 0, 0)));
    assert_eq!(
        message,
        "3 thread blocks wait for ever, with connections that hold nothing: rank 0 thread block 0 step 0 waits for \
         rank 1 to receive on channel 0; rank 1 thread block 0 step 0 waits for rank 2 to receive on channel 0; rank 2 \
         thread block 0 step 0 waits for rank 0 to receive on channel 0"
    );
}

/// Two ranks send twice before they receive: two slots are enough, one is not.
#[test]
fn slots_are_counted() {
    let mut s = empty(Collective::AllToAll, false, 2, [4, 4, 0]);
    for rank in 0..2 {
        let own = (rank, block(&mut s, rank, None, None, 0));
        step(&mut s, own, Op::Copy, at(I, 2 * rank), at(O, 2 * rank), 2);
        let b = (rank, block(&mut s, rank, Some(1 - rank), Some(1 - rank), 0));
        for i in 0..2 {
            step(&mut s, b, Op::Send, at(I, 2 * (1 - rank) + i), None, 1);
        }
        for i in 0..2 {
            step(&mut s, b, Op::Recv, None, at(O, 2 * (1 - rank) + i), 1);
        }
    }
    assert!(verify(&s, None, Buffering::Slots(2)).unwrap().verified);
    assert!(verify(&s, None, Buffering::Eager).unwrap().verified);
    let (kind, site, _) = flaw(&s, Buffering::Slots(1));
    assert_eq!((kind, site), (Kind::Deadlock, place(0, 1, 1)));
}

#[test]
fn thread_blocks_that_wait_for_each_other() {
    let mut s = empty(Collective::AllReduce, true, 1, [1, 0, 0]);
    for _ in 0..2 {
        let b = (0, block(&mut s, 0, None, None, 0));
        step(&mut s, b, Op::Nop, None, None, 0);
    }
    the_step(&mut s, 0, 0, 0).depends_on = Some(Dependency { thread_block: 1, step: 0 });
    the_step(&mut s, 0, 1, 0).depends_on = Some(Dependency { thread_block: 0, step: 0 });
    let (kind, _, message) = flaw(&s, Buffering::Eager);
    assert_eq!(kind, Kind::Deadlock);
    assert!(
        message.ends_with(
            "rank 0 thread block 0 step 0 waits for step 0 of its thread block 1; rank 0 thread block 1 step 0 waits \
             for step 0 of its thread block 0"
        ),
        "{message}"
    );
}

#[test]
fn receivers_that_wait_for_each_other() {
    let mut s = empty(Collective::AllGather, true, 2, [1, 2, 0]);
    for rank in 0..2 {
        let b = (rank, block(&mut s, rank, Some(1 - rank), Some(1 - rank), 7));
        step(&mut s, b, Op::Recv, None, at(O, 1 - rank), 1);
        step(&mut s, b, Op::Send, at(I, 0), None, 1);
    }
    let (kind, _, message) = flaw(&s, Buffering::Eager);
    assert_eq!(kind, Kind::Deadlock);
    assert!(message.contains("rank 0 thread block 0 step 0 waits for a message from rank 1 on channel 7"), "{message}");
}

#[test]
fn a_race() {
    let mut s = direct_all_reduce(3, 1);
    // The sum of rank 1 no longer waits for the thread block that sends to rank 2 from the same buffer.
    let nop = the_step(&mut s, 1, 0, 0);
    assert_eq!(nop.op, Op::Nop);
    nop.depends_on = None;
    let (errors, flaws) = findings(&s, Buffering::Eager);
    assert_eq!(errors, []);
    let messages: Vec<_> =
        flaws.iter().filter(|f| f.kind == Kind::Race).map(|f| (f.step.unwrap(), &f.message[..])).collect();
    let writes =
        "writes chunk 0 of the input buffer, which step 0 of thread block 2 reads; nothing says which comes first";
    assert_eq!(
        messages,
        [
            (1, writes),
            (2, writes),
            (
                2,
                "reads chunk 2 of the scratch buffer, which step 1 of thread block 2 writes; nothing says which comes first"
            ),
        ]
    );
}

#[test]
fn two_writers_in_no_order() {
    let mut s = empty(Collective::AllReduce, false, 1, [1, 1, 0]);
    for _ in 0..2 {
        let b = (0, block(&mut s, 0, None, None, 0));
        step(&mut s, b, Op::Copy, at(I, 0), at(O, 0), 1);
    }
    let (kind, site, message) = flaw(&s, Buffering::Eager);
    assert_eq!((kind, site), (Kind::Race, place(0, 0, 0)));
    assert_eq!(
        message,
        "writes chunk 0 of the output buffer, which step 0 of thread block 1 writes; nothing says which comes first"
    );
}

/// In place, input and output are the same memory, and so races are found across their names.
#[test]
fn a_race_under_two_names() {
    let mut s = empty(Collective::AllGather, true, 2, [1, 2, 0]);
    for rank in 0..2 {
        let b = (rank, block(&mut s, rank, Some(1 - rank), Some(1 - rank), 0));
        step(&mut s, b, Op::Send, at(I, 0), None, 1);
        step(&mut s, b, Op::Recv, None, at(O, 1 - rank), 1);
    }
    assert!(verify(&s, None, Buffering::Slots(1)).unwrap().verified);
    let b = (1, block(&mut s, 1, None, None, 0));
    step(&mut s, b, Op::Copy, at(O, 1), at(O, 1), 1);
    assert_eq!(flaw(&s, Buffering::Eager).0, Kind::Race);
}

#[test]
fn what_msccl_would_stumble_over_is_warned_of() {
    let mut s = ring_all_reduce(2, 33, 72, false);
    s.name = "n".repeat(64);
    s.channels = Some(1);
    s.chunks_per_loop = Some(7);
    let extra = (0, block(&mut s, 0, None, None, 0));
    for _ in 0..257 {
        step(&mut s, extra, Op::Nop, None, None, 0);
    }
    wait_for_last(&mut s, extra, 1);
    the_step(&mut s, 0, 1, 2).has_dependents = false;
    step(&mut s, extra, Op::Copy, at(I, 0), at(I, 0), 1);
    let report = verify(&s, None, Buffering::Slots(1)).unwrap();
    let mut messages: Vec<_> = report.warnings.iter().map(|w| w.message.clone()).collect();
    messages.dedup();
    assert_eq!(
        messages,
        [
            "the name has 64 bytes; MSCCL takes up to 63",
            "1 channels are stated, 33 are used",
            "33 channels; MSCCL takes up to 32",
            "7 chunks per loop are stated, the vector has 4752; MSCCL refuses that",
            "writes to the input buffer, which callers of an out-of-place collective expect unchanged",
            "72 chunks in one step; MSCCL takes up to 71",
            "258 steps; MSCCL takes up to 256",
            "follows a nop that waits, and waits for nothing itself; MSCCL refuses that",
            "waits for step 2 of thread block 1, which is not marked as having dependents, so that MSCCL waits for ever",
            "72 chunks in one step; MSCCL takes up to 71",
        ]
    );
}

#[test]
fn findings_beyond_a_thousand_are_counted() {
    let mut s = empty(Collective::AllReduce, true, 1, [1, 0, 0]);
    let steps = (0..1500)
        .map(|id| ScheduleStep {
            id,
            op: Op::Nop,
            src: None,
            dst: None,
            count: 1,
            depends_on: None,
            way: None,
            pace: None,
            whole: None,
            has_dependents: false,
        })
        .collect();
    s.ranks = vec![ScheduleRank {
        thread_blocks: vec![ThreadBlock { id: 0, send: None, recv: None, thread: None, channel: 0, steps }],
        ..s.ranks[0].clone()
    }];
    let report = verify(&s, None, Buffering::Eager).unwrap();
    assert_eq!((report.errors.len(), report.errors_omitted), (1000, 500));
}
