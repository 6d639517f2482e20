//! Steps that are parts of one, by what a file says.

use crate::build::*;
use syncline_collective::schedule::{Buffering, Collective, Dependency, NotImported, Schedule, imported, verify};
use syncline_collective::{LineRank, Op, Slot};

/// A broadcast of three chunks from rank 0 to rank 1, the last one first, by one thread block each.
fn three_pieces() -> Schedule {
    let mut schedule = empty(Collective::Broadcast, true, 2, [3, 3, 0]);
    schedule.root = Some(0);
    block(&mut schedule, 0, Some(1), None, 0);
    block(&mut schedule, 1, None, Some(0), 0);
    for chunk in [2, 0, 1] {
        step(&mut schedule, (0, 0), Op::Send, at(I, chunk), None, 1);
        step(&mut schedule, (1, 0), Op::Recv, None, at(I, chunk), 1);
    }
    schedule
}

/// Says of which whole each step of a thread block is a part.
fn name(schedule: &mut Schedule, rank: usize, block: usize, wholes: &[Option<u32>]) {
    let steps = &mut schedule.ranks[rank].thread_blocks[block].steps;
    steps.iter_mut().zip(wholes).for_each(|(step, whole)| step.whole = *whole);
}

/// The numbers of blocks of the steps of rank 0, and whether these follow one another.
fn sends(schedule: &Schedule) -> (Vec<u32>, bool) {
    let read = imported(schedule, None).expect("a right schedule");
    let steps = 0..read.program.steps(LineRank(0), 0);
    let count = |pc| read.program.step(LineRank(0), Slot { thread: 0, pc }).blocks.count;
    (steps.map(count).collect(), read.regular)
}

/// Everything that is wrong, whether the schedule is verified or imported.
fn wrong(schedule: &Schedule) -> Vec<String> {
    let report = verify(schedule, None, Buffering::Eager).expect("a collective");
    assert!(!report.verified);
    let found = |finding: &syncline_collective::schedule::Finding| format!("{}: {}", finding.place(), finding.message);
    let Err(NotImported::Wrong(findings)) = imported(schedule, None) else { panic!("it is imported") };
    assert_eq!(findings.list, report.errors);
    report.errors.iter().map(found).collect()
}

#[test]
fn parts_are_carried_out_as_one() {
    let mut schedule = three_pieces();
    assert_eq!(sends(&schedule), (vec![1, 1, 1], true));
    for (wholes, counts, regular) in [
        ([Some(0), Some(0), Some(0)], vec![3], true), // chunks 2, 0, 1 follow one another around the end, but lie apart
        ([None, Some(7), Some(7)], vec![1, 2], true),
        ([Some(1), Some(1), None], vec![2, 1], true),
        ([Some(1), Some(2), None], vec![1, 1, 1], true),
    ] {
        (0..2).for_each(|rank| name(&mut schedule, rank, 0, &wholes));
        let lies_apart = wholes[0] == wholes[1];
        assert_eq!(sends(&schedule), (counts, regular && !lies_apart), "{wholes:?}");
    }
}

#[test]
fn parts_that_cannot_be_one_are_refused() {
    let named = |sender: [Option<u32>; 3], receiver: [Option<u32>; 3]| {
        let mut schedule = three_pieces();
        name(&mut schedule, 0, 0, &sender);
        name(&mut schedule, 1, 0, &receiver);
        schedule
    };
    let (a, b, none) = (Some(0), Some(1), None);
    assert_eq!(
        wrong(&named([a, a, none], [a, none, none])),
        [
            "rank 0, thread 0, step 0: sends a part of a whole that is received as a part of another one",
            "rank 0, thread 0, step 1: sends a part of a whole that is received as a part of another one"
        ]
    );
    assert_eq!(wrong(&named([none; 3], [none, b, b])).len(), 2);
    assert_eq!(wrong(&named([a, a, b], [b, a, a])).len(), 3);
    assert_eq!(
        wrong(&named([a, none, a], [a, none, a])),
        [
            "rank 0, thread 0, step 2: does not follow the other parts of whole 0 of its thread",
            "rank 1, thread 0, step 2: does not follow the other parts of whole 0 of its thread"
        ]
    );
}

#[test]
fn parts_of_another_type_or_that_others_wait_for_are_refused() {
    // Rank 1 copies to scratch what it has received.
    let copying = |wait: u32, wholes: [Option<u32>; 3]| {
        let mut schedule = three_pieces();
        schedule.ranks[1].scratch_chunks = 1;
        block(&mut schedule, 1, None, None, 0);
        step(&mut schedule, (1, 1), Op::Copy, at(I, 2), at(S, 0), 1);
        wait_for(&mut schedule, (1, 1), Dependency { thread_block: 0, step: wait });
        (0..2).for_each(|rank| name(&mut schedule, rank, 0, &wholes));
        schedule
    };
    assert_eq!(
        wrong(&copying(0, [Some(0); 3])),
        ["rank 1, thread 1, step 0: waits for a part of a whole that is not its last one"]
    );
    assert!(imported(&copying(2, [Some(0); 3]), None).is_ok());
    assert!(imported(&copying(0, [None, Some(0), Some(0)]), None).is_ok());

    let mut mixed = three_pieces();
    mixed.ranks[0].scratch_chunks = 1;
    step(&mut mixed, (0, 0), Op::Copy, at(I, 2), at(S, 0), 1);
    name(&mut mixed, 0, 0, &[None, None, Some(0), Some(0)]);
    assert_eq!(
        wrong(&mixed),
        ["rank 0, thread 0, step 3: is a part of the same whole as the step before it, but has another type or peer"]
    );

    // The second of two copies waits for what another thread block receives.
    let mut waiting = three_pieces();
    waiting.ranks[1].scratch_chunks = 2;
    block(&mut waiting, 1, None, None, 0);
    for chunk in 0..2 {
        step(&mut waiting, (1, 1), Op::Copy, at(I, 2), at(S, chunk), 1);
        wait_for(&mut waiting, (1, 1), Dependency { thread_block: 0, step: 0 });
    }
    name(&mut waiting, 1, 1, &[Some(0), Some(0)]);
    assert_eq!(wrong(&waiting), ["rank 1, thread 1, step 1: waits for another thread in the middle of its whole"]);
}
