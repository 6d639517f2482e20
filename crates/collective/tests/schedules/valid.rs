//! Right schedules are verified, under every buffering that they can do with, and counted.

use crate::build::*;
use crate::oracle;
use proptest::prelude::*;
use syncline_collective::Op;
use syncline_collective::schedule::{Buffering, Collective, Dependency, Kind, Report, Schedule, imported, verify};

pub fn accept(schedule: &Schedule, buffering: Buffering) -> Report {
    let report = verify(schedule, None, buffering).expect("a collective");
    assert!(report.verified, "{:?} {:?}", report.errors, report.flaws);
    report
}

#[test]
fn rings_of_every_size() {
    for ranks in (1..=17).chain([64, 128]) {
        for in_place in [false, true] {
            for schedule in [
                ring_all_reduce(ranks, 2, 1, in_place),
                ring_all_gather(ranks, 2, 3, in_place),
                ring_reduce_scatter(ranks, 1, 2, in_place),
            ] {
                for buffering in [Buffering::Eager, Buffering::Slots(1), Buffering::Slots(2)] {
                    let report = accept(&schedule, buffering);
                    assert_eq!(report.warnings, [], "{:?} on {ranks}", schedule.collective);
                }
            }
        }
    }
}

#[test]
fn a_ring_is_counted_as_the_papers_count_it() {
    let counts = accept(&ring_all_reduce(8, 2, 3, true), Buffering::Eager).counts.unwrap();
    assert_eq!((counts.ranks, counts.channels, counts.thread_blocks), (8, 2, 16));
    assert_eq!((counts.messages, counts.steps, counts.nops), (8 * 2 * 14, 8 * 2 * 15, 0));
    assert_eq!((counts.chunks_sent, counts.size_chunks), (8 * 2 * 14 * 3, 48));
    assert_eq!((counts.sent_per_byte_min, counts.sent_per_byte_max), (1.75, 1.75));
    assert_eq!(counts.longest_path_steps, 15);
}

#[test]
fn a_broadcast_sends_less_at_its_end() {
    let counts = accept(&chain_broadcast(5, 2, 4), Buffering::Eager).counts.unwrap();
    assert_eq!((counts.sent_per_byte_min, counts.sent_per_byte_max), (0.0, 1.0));
}

#[test]
fn one_rank_in_place_has_nothing_to_do() {
    let report = accept(&empty(Collective::AllReduce, true, 1, [4, 4, 0]), Buffering::Rendezvous);
    assert_eq!(report.counts.unwrap().longest_path_steps, 0);
}

#[test]
fn buffers_that_share_memory_may_be_left_out() {
    for (collective, sizes) in [
        (Collective::AllReduce, [4, 0, 0]),
        (Collective::AllReduce, [0, 4, 0]),
        (Collective::AllGather, [0, 4, 0]),
        (Collective::ReduceScatter, [4, 0, 0]),
    ] {
        accept(&empty(collective, true, 1, sizes), Buffering::Eager);
    }
}

#[test]
fn sends_and_receives_apart_need_no_buffers() {
    accept(&direct_all_to_all(5, 2, 3), Buffering::Rendezvous);
    accept(&chain_broadcast(6, 1, 3), Buffering::Rendezvous);
    accept(&tree_all_reduce(9, 2, 1), Buffering::Rendezvous);
}

/// Ranks may be listed in any order; their numbers count.
#[test]
fn order_in_the_file_means_nothing() {
    let mut schedule = direct_all_reduce(4, 2);
    let report = accept(&schedule, Buffering::Eager);
    schedule.ranks.reverse();
    for rank in &mut schedule.ranks {
        rank.thread_blocks.rotate_left(1);
    }
    assert_eq!(accept(&schedule, Buffering::Eager), report);
}

/// Rank 0 reads a chunk in one thread block and writes it in another; only the way through rank 1 says
/// that reading comes first.
#[test]
fn messages_order_thread_blocks() {
    let mut s = empty(Collective::AllReduce, true, 2, [1, 0, 1]);
    let out = (0, block(&mut s, 0, Some(1), None, 0));
    let back = (0, block(&mut s, 0, None, Some(1), 0));
    step(&mut s, out, Op::Send, at(I, 0), None, 1);
    step(&mut s, back, Op::Recv, None, at(I, 0), 1);
    let far = (1, block(&mut s, 1, Some(0), Some(0), 0));
    step(&mut s, far, Op::RecvReduceCopySend, at(I, 0), at(I, 0), 1);
    let report = accept(&s, Buffering::Eager);
    assert_eq!(report.counts.unwrap().longest_path_steps, 3);

    // Without the way through rank 1, the same accesses race.
    let report = {
        let mut s = s.clone();
        s.ranks[1].thread_blocks.clear();
        let out = (1, block(&mut s, 1, Some(0), None, 0));
        let back = (1, block(&mut s, 1, None, Some(0), 0));
        step(&mut s, out, Op::Send, at(I, 0), None, 1);
        step(&mut s, back, Op::Recv, None, at(S, 0), 1);
        verify(&s, None, Buffering::Eager).unwrap()
    };
    assert_eq!(report.flaws[0].kind, Kind::Race);
}

/// The largest schedules of real machines take a moment, not minutes.
#[test]
fn a_large_schedule() {
    let schedule = direct_all_to_all(128, 1, 1);
    let report = accept(&schedule, Buffering::Slots(1));
    assert_eq!(report.counts.unwrap().messages, 128 * 127);
    accept(&ring_all_reduce(128, 32, 1, true), Buffering::Slots(1));
    accept(&twice_around(128, 16, 64), Buffering::Slots(1));
}

proptest! {
    #[test]
    fn right_schedules_are_verified_and_come_out_right(schedule in any_schedule(), seed in any::<u64>()) {
        let report = verify(&schedule, None, Buffering::Slots(1)).unwrap();
        prop_assert!(report.verified, "{:?} {:?}", report.errors, report.flaws);
        for i in 0..3 {
            prop_assert_eq!(oracle::run(&schedule, report.root.unwrap_or(0), 1, seed.wrapping_add(i)), Ok(()));
        }
    }
}

/// What remains of the signals of one-sided plans: a message without data orders what comes before it and after it.
#[test]
fn messages_without_data() {
    let scatter = |has_signal: bool| {
        let mut schedule = empty(Collective::AllReduce, true, 2, [1, 1, 1]);
        for rank in 0..2 {
            let (sends, receives) = (
                block(&mut schedule, rank, Some(1 - rank), None, 0),
                block(&mut schedule, rank, None, Some(1 - rank), 0),
            );
            step(&mut schedule, (rank, sends), Op::Send, at(I, 0), None, 1);
            if has_signal {
                step(&mut schedule, (rank, sends), Op::Send, None, None, 0);
            }
            step(&mut schedule, (rank, receives), Op::Recv, None, at(S, 0), 1);
            if has_signal {
                step(&mut schedule, (rank, receives), Op::Recv, None, None, 0);
            }
            step(&mut schedule, (rank, receives), Op::Reduce, at(S, 0), at(I, 0), 1);
            wait_for(&mut schedule, (rank, receives), Dependency { thread_block: sends, step: 0 });
        }
        schedule
    };
    let [without, with] =
        [false, true].map(|has_signal| accept(&scatter(has_signal), Buffering::Eager).counts.unwrap());
    assert_eq!((with.messages, without.messages), (4, 2));
    assert_eq!(with.chunks_sent, without.chunks_sent);
    let imported = imported(&scatter(true), None).expect("it is right");
    assert!(imported.regular);
    // One that names chunks, and moves none, is no signal.
    let mut broken = scatter(true);
    broken.ranks[0].thread_blocks[0].steps[1].src = at(I, 0);
    let report = verify(&broken, None, Buffering::Eager).expect("a collective");
    assert_eq!(report.errors[0].to_string(), "a step of type s on 0 chunks; accepted: 1 or more");
}
