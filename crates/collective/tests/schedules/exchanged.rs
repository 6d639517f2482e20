//! All-to-alls become schedules in place, whose ranks receive where they have sent from.

use crate::exported::{Case, case, written};
use syncline_collective::program::{Frame, Pacing};
use syncline_collective::schedule::{Buffering, Schedule, ScheduleStep};
use syncline_collective::verify::Verifier;
use syncline_collective::{
    Algorithm, Axis, Blocks, Composition, Detail, Kind, LineRank, Op, PhaseId, Posting, Program, Slot, Step, Written,
};

fn steps(schedule: &Schedule) -> impl Iterator<Item = &ScheduleStep> {
    schedule.ranks.iter().flat_map(|r| &r.thread_blocks).flat_map(|b| &b.steps)
}

fn copies(schedule: &Schedule) -> usize {
    steps(schedule).filter(|s| s.op == Op::Copy).count()
}

/// Whether a schedule needs nothing but the vector itself.
fn is_all_in_place(schedule: &Schedule) -> bool {
    schedule.in_place && copies(schedule) == 0 && schedule.ranks.iter().all(|r| r.scratch_chunks == 0)
}

fn direct(ranks: u32) -> Case {
    Case::line(Kind::AllToAll, Algorithm::Direct, ranks, 0).expect("a program")
}

/// The program that comes of exporting a line and reading it back, in one piece.
fn comes_back(case: &Case) {
    let schedule = case.schedule().expect("it is small");
    assert!(is_all_in_place(&schedule), "{:?}", case.plan);
    let imported = case.check();
    assert!(imported.regular);
    let program = Program::from(imported.program.clone());
    assert!(program.does_the_same_as(&case.plan.program(PhaseId(0), true)), "{:?}", case.plan);
    // Also as a plan, whose steps say where their data lie.
    let plan = crate::exported::case(written(Kind::AllToAll, 0, imported.program), None).plan;
    let elements = 2 * u64::from(program.parts());
    assert_eq!(Verifier::new(&plan, &[program.ranks()], elements, true, Buffering::Eager).verify(), Ok(()));
}

/// Everybody sends all blocks before it receives any, so that nothing is copied, and nothing else is done than by the algorithm.
#[test]
fn direct_ones_come_back() {
    for ranks in 2..=12 {
        for posting in [Posting::Rotated, Posting::Sequential, Posting::Random(1), Posting::Random(2)] {
            let line = direct(ranks);
            let plan = line.plan.clone().posted(posting);
            comes_back(&line.following(plan));
        }
    }
    // Half-way round the only ring of even size go halves, both ways.
    for (sizes, rings) in [
        (&[2][..], &[true][..]),
        (&[4], &[true]),
        (&[6], &[true]),
        (&[7], &[true]),
        (&[8], &[true]),
        (&[4, 3], &[true, true]),
        (&[3, 3], &[true, true]),
        (&[2, 4], &[true, true]),
        (&[2, 5], &[false, true]),
    ] {
        let line = direct(sizes.iter().product());
        let plan = line.plan.clone().on_grid(sizes, rings);
        comes_back(&line.following(plan));
    }
    // A ring of two is nothing else.
    comes_back(&Case::line(Kind::AllToAll, Algorithm::Ring, 2, 0).expect("a program"));
}

/// What has come to its coordinate along a dimension waits where that lay which left along it.
#[test]
fn direct_ones_on_grids_need_nothing_but_the_vector() {
    for sizes in [&[2, 3][..], &[3, 2], &[2, 2, 2], &[4, 2, 3], &[1, 3, 2]] {
        let axes: Vec<Axis> = sizes.iter().map(|&size| Axis { size, algorithm: Algorithm::Direct }).collect();
        let backwards: Vec<u8> = (0..sizes.len() as u8).rev().collect();
        for order in [None, Some(&backwards[..])] {
            let case = Case::new(Kind::AllToAll, Composition::PerDimension, &axes, 0, order).expect("a program");
            assert!(is_all_in_place(&case.schedule().expect("it is small")), "{sizes:?} {order:?}");
            case.check();
        }
    }
}

/// What goes on lies in scratch, in front of which a message has what its receiver keeps. Both together are one message.
#[test]
fn relays_keep_the_first_part_of_longer_messages() {
    for ranks in 2..=9u32 {
        let case = Case::line(Kind::AllToAll, Algorithm::Ring, ranks, 0).expect("a program");
        let schedule = case.schedule().expect("it is small");
        assert!(schedule.in_place);
        assert_eq!(copies(&schedule), 0);
        let passed_on: u32 = (1..ranks - 1).sum();
        assert!(schedule.ranks.iter().all(|r| r.scratch_chunks == passed_on));
        let program = Program::from(case.check().program);
        assert!(program.does_the_same_as(&case.plan.program(PhaseId(0), true)), "{ranks} ranks");
    }
}

/// A rank that receives before it has sent would lose what it has still to send.
#[test]
fn input_and_output_are_apart_if_steps_overlap() {
    let block = |from: u32, to: u32| Blocks { origin: from, first: to, count: 1 };
    let send = |from: u32, pc| Step::send(block(from, 1 - from), LineRank(1 - from), Slot { thread: 0, pc });
    let receive = |to: u32| Step::receive(Op::Recv, block(1 - to, to), LineRank(1 - to));
    let answers = [vec![vec![send(0, 0), receive(0)]], vec![vec![receive(1), send(1, 1)]]];
    let frame = || Frame { parts: 2, pacing: Pacing::OF_THREAD_BLOCKS, ..Frame::default() };
    let program = Written::of_steps(frame(), &answers).expect("it is small");
    let overlapping = case(written(Kind::AllToAll, 0, program), None);
    overlapping.check();
    let schedule = overlapping.schedule().expect("it is small");
    assert!(!schedule.in_place);
    assert_eq!(copies(&schedule), 2, "each rank copies what it has for itself");
}

/// Threads that send and threads that receive: the latter overwrite nothing only if they wait for the former.
#[test]
fn threads_that_wait_for_what_is_sent_work_in_place() {
    let ranks = 4;
    let block = |from: u32, to: u32| Blocks { origin: from, first: to, count: 1 };
    let peers = |rank: u32| (1..ranks).map(move |by| (rank + by) % ranks);
    // Threads 0 and 1 send, thread 2 waits for both, thread 3 receives when that has waited.
    let of_rank = |rank: u32| {
        let into = |to: u32| Slot { thread: 3, pc: peers(to).position(|from| from == rank).unwrap_or(0) as u32 };
        let mut sends: Vec<Step> = peers(rank).map(|to| Step::send(block(rank, to), LineRank(to), into(to))).collect();
        let last = sends.split_off(2);
        let nop = Step { op: Op::Nop, blocks: Blocks { origin: 0, first: 0, count: 0 }, ..last[0] }.normal();
        let receives = peers(rank).map(|from| Step::receive(Op::Recv, block(from, rank), LineRank(from))).collect();
        vec![sends, last, vec![nop, nop], receives]
    };
    let frame = Frame { parts: ranks, pacing: Pacing::OF_THREAD_BLOCKS, ..Frame::default() };
    let all: Vec<Vec<Vec<Step>>> = (0..ranks).map(of_rank).collect();
    let plain = Written::of_steps(frame, &all).expect("it is small");
    let waiting = |waits: [Option<Slot>; 8]| {
        let mut nth = 0;
        let program = plain.clone().with_details(|detail: &mut Detail| {
            detail.after = waits[nth % waits.len()];
            nth += 1;
        });
        let waiting = case(written(Kind::AllToAll, 0, program), None);
        waiting.check();
        waiting.schedule().expect("it is small").in_place
    };
    let slot = |thread, pc| Some(Slot { thread, pc });
    let none = None;
    // Two sends, another one, two that wait, three that receive.
    assert!(waiting([none, none, none, slot(0, 1), slot(1, 0), slot(2, 1), none, none]));
    assert!(waiting([none, none, none, slot(1, 0), slot(0, 1), slot(2, 1), none, none]));
    assert!(waiting([none, none, slot(0, 1), none, slot(1, 0), slot(2, 1), none, none]));
    // The second send is not waited for, or none of the other thread, or only by the last receive, or by nobody.
    assert!(!waiting([none, none, none, slot(0, 0), slot(1, 0), slot(2, 1), none, none]));
    assert!(!waiting([none, none, none, slot(0, 1), slot(1, 0), slot(2, 0), none, none]));
    assert!(!waiting([none, none, none, slot(0, 1), slot(1, 0), none, none, slot(2, 1)]));
    assert!(!waiting([none; 8]));
}
