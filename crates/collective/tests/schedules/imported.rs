//! Schedules become programs that do the same.

use crate::build::*;
use proptest::prelude::*;
use syncline_collective::program::Pacing;
use syncline_collective::schedule::{
    Collective, Dependency, Imported, Kind, Location, NotImported, Schedule, ScheduleStep, imported,
};
use syncline_collective::{Blocks, Buffer, Detail, LineRank, Op, Place, Program, Rank, Slot, Step, Written};

fn import(schedule: &Schedule) -> Imported {
    imported(schedule, None).expect("a right schedule")
}

/// The steps of a rank by thread, where numbers without meaning are alike.
fn steps(program: &Program, rank: u32) -> Vec<Vec<Step>> {
    let rank = LineRank(rank);
    let thread = |thread| {
        let slots = (0..program.steps(rank, thread)).map(move |pc| Slot { thread, pc });
        slots.map(|at| program.step(rank, at).normal()).collect()
    };
    (0..program.threads()).map(thread).collect()
}

/// The steps of all schedule steps, and what was said of them.
fn both<'a>(schedule: &'a Schedule, program: &'a Written) -> impl Iterator<Item = (&'a ScheduleStep, Step, Detail)> {
    schedule.ranks.iter().flat_map(move |rank| {
        rank.thread_blocks.iter().flat_map(move |block| {
            block.steps.iter().map(move |step| {
                let at = Slot { thread: block.id as u16, pc: step.id };
                (step, program.step(LineRank(rank.id), at), program.detail(LineRank(rank.id), at))
            })
        })
    })
}

#[test]
fn a_ring_in_place_is_the_ring() {
    for ranks in 2..12 {
        let mut all_reduce = ring_all_reduce(ranks, 1, 1, true);
        // The ring of programs begins with the block below its rank.
        for step in all_reduce.ranks.iter_mut().flat_map(|r| &mut r.thread_blocks).flat_map(|b| &mut b.steps) {
            for place in [&mut step.src, &mut step.dst].into_iter().flatten() {
                place.offset = (place.offset + ranks - 1) % ranks;
            }
        }
        for schedule in [all_reduce, ring_all_gather(ranks, 1, 1, true), ring_reduce_scatter(ranks, 1, 1, true)] {
            let Imported { kind, root, program, regular } = import(&schedule);
            assert_eq!((root, regular), (Rank(0), true));
            assert_eq!(program.pacing(), Pacing { one_by_one: true, spreads: false, queues: 0 });
            let ring = Program::Ring { kind, ranks, up: true };
            assert_eq!((program.parts(), program.ranks(), program.threads()), (ranks, ranks, 1));
            assert!(program.distinct_steps().iter().all(|s| s.detail == Detail::default()), "all in the vector");
            assert!(program.is_rotation_symmetric());
            let program = Program::from(program);
            for rank in 0..ranks {
                assert_eq!(steps(&program, rank), steps(&ring, rank), "{kind}, rank {rank} of {ranks}");
            }
        }
    }
}

/// Where input and output are apart, the program says which of them each step works in.
#[test]
fn places_are_kept() {
    let schedule = ring_all_reduce(4, 2, 3, false);
    let imported = import(&schedule);
    assert!(imported.regular);
    assert_eq!(imported.program.parts(), 24);
    for (step, got, detail) in both(&schedule, &imported.program) {
        assert_eq!((got.op, got.blocks.count), (step.op, step.count));
        let place =
            |p: Option<syncline_collective::schedule::Location>| p.map(|p| Place { buffer: p.buffer, first: p.offset });
        assert_eq!((detail.src, detail.dst), (place(step.src), place(step.dst)));
        // No chunk of a ring ever leaves its place.
        assert_eq!(got.blocks.first, step.src.or(step.dst).unwrap().offset);
    }
}

#[test]
fn dependencies_are_kept() {
    let schedule = direct_all_reduce(4, 2);
    let imported = import(&schedule);
    assert!(imported.regular && imported.program.has_dependencies());
    for (step, got, detail) in both(&schedule, &imported.program) {
        let after = |on: Dependency| Slot { thread: on.thread_block as u16, pc: on.step };
        assert_eq!(detail.after, step.depends_on.map(after));
        match step.op {
            Op::Nop => assert_eq!(got.blocks, Blocks { origin: 0, first: 0, count: 0 }),
            _ => assert_eq!(got.blocks, Blocks { origin: 0, first: 0, count: 2 }),
        }
        // The whole vector has one place; that of other ranks waits in scratch.
        let elsewhere = [(step.src, detail.src), (step.dst, detail.dst)];
        for (given, got) in elsewhere.into_iter().filter_map(|(given, got)| Some((given?, got))) {
            let scratch = Place { buffer: Buffer::Scratch, first: given.offset };
            assert_eq!(got, (given.buffer == S).then_some(scratch));
        }
    }
}

#[test]
fn a_dependency_on_the_same_thread_says_nothing() {
    let mut schedule = ring_all_reduce(3, 1, 1, true);
    schedule.ranks[0].thread_blocks[0].steps[2].depends_on = Some(Dependency { thread_block: 0, step: 1 });
    assert!(!import(&schedule).program.has_dependencies());
}

/// In an all-to-all a block is one of the vector of the rank that it comes from, wherever it lies meanwhile.
#[test]
fn blocks_of_an_all_to_all_have_an_origin() {
    let schedule = direct_all_to_all(4, 1, 2);
    let imported = import(&schedule);
    assert_eq!((imported.kind, imported.regular), (syncline_collective::Kind::AllToAll, true));
    for rank in 0..4 {
        let program = Program::from(imported.program.clone());
        for step in steps(&program, rank).into_iter().flatten() {
            let expected = match step.op {
                Op::Recv => Blocks { origin: step.from.0, first: 2 * rank, count: 2 },
                Op::Send => Blocks { origin: rank, first: 2 * step.to.0, count: 2 },
                _ => Blocks { origin: rank, first: 2 * rank, count: 2 },
            };
            assert_eq!(step.blocks, expected);
        }
    }
}

/// What a rank has for another may go by way of a third, and stays what it is.
#[test]
fn blocks_on_their_way_have_an_origin() {
    let schedule = staged_all_to_all(3, 2);
    let imported = import(&schedule);
    assert!(imported.regular);
    let mut forwarded = 0;
    for rank in &schedule.ranks {
        for (block, step) in rank.thread_blocks.iter().flat_map(|b| b.steps.iter().map(move |s| (b, s))) {
            let got = imported.program.step(LineRank(rank.id), Slot { thread: block.id as u16, pc: step.id });
            if let (Op::Send, Some(Location { buffer: Buffer::Scratch, offset })) = (step.op, step.src) {
                // It came along the row, from the column of its place, and is for the rank that it is sent to.
                let origin = rank.id / 3 * 3 + offset % 3;
                assert_eq!(got.blocks, Blocks { origin, first: got.to.0, count: 1 });
                forwarded += 1;
            }
        }
    }
    assert_eq!(forwarded, 6 * 2);
}

#[test]
fn chunks_that_do_not_follow_one_another_are_noticed() {
    let mut s = empty(Collective::AllGather, false, 2, [2, 4, 0]);
    for rank in 0..2u32 {
        let b = (rank, block(&mut s, rank, Some(1 - rank), Some(1 - rank), 0));
        step(&mut s, b, Op::Copy, at(I, 0), at(O, 2 * rank), 2);
        step(&mut s, b, Op::Send, at(I, 0), None, 2);
        step(&mut s, b, Op::Recv, None, at(O, 2 * (1 - rank)), 2);
    }
    assert!(import(&s).regular);
    // The same with the two chunks of rank 0 in the wrong order on their way.
    s.ranks[0].scratch_chunks = 2;
    let steps = &mut s.ranks[0].thread_blocks[0].steps;
    let mut swapped = vec![];
    for (from, to) in [(0, 1), (1, 0)] {
        swapped.push(ScheduleStep { src: at(I, from), dst: at(S, to), count: 1, ..steps[0].clone() });
    }
    steps[1].src = at(S, 0);
    steps.splice(1..1, swapped);
    for (id, step) in (0..).zip(steps) {
        step.id = id;
    }
    s.ranks[1].scratch_chunks = 2;
    let to = &mut s.ranks[1].thread_blocks[0].steps;
    to[2].dst = at(S, 0);
    for (id, (from, into)) in [(0, 1), (1, 0)].into_iter().enumerate() {
        let copy = ScheduleStep {
            id: 3 + id as u32,
            op: Op::Copy,
            src: at(S, from),
            dst: at(O, into),
            count: 1,
            ..to[0].clone()
        };
        to.push(copy);
    }
    let got = import(&s);
    assert!(!got.regular);
    let first = got.program.step(LineRank(1), Slot { thread: 0, pc: 2 });
    assert_eq!(first.blocks, Blocks { origin: 0, first: 1, count: 2 });
}

/// Blocks of different ranks are not one run, even if their numbers follow one another.
#[test]
fn chunks_of_different_origin_are_noticed() {
    let mut s = direct_all_to_all(2, 1, 1);
    s.ranks[0].scratch_chunks = 4;
    // Rank 1 sends what it has for itself, too, which rank 0 copies together with what it has for itself.
    let (from, to) = (block(&mut s, 1, Some(0), None, 1), block(&mut s, 0, None, Some(1), 1));
    step(&mut s, (1, from), Op::Send, at(I, 1), None, 1);
    step(&mut s, (0, to), Op::Copy, at(I, 0), at(S, 0), 1);
    step(&mut s, (0, to), Op::Recv, None, at(S, 1), 1);
    assert!(import(&s).regular);
    step(&mut s, (0, to), Op::Copy, at(S, 0), at(S, 2), 2);
    assert!(!import(&s).regular);
}

/// In an all-to-all in place, blocks of several vectors have the same place, so that it is always stated.
#[test]
fn an_all_to_all_in_place_states_its_places() {
    let mut s = empty(Collective::AllToAll, true, 2, [2, 0, 0]);
    for rank in 0..2 {
        let b = (rank, block(&mut s, rank, Some(1 - rank), Some(1 - rank), 0));
        step(&mut s, b, Op::Send, at(I, 1 - rank), None, 1);
        step(&mut s, b, Op::Recv, None, at(O, 1 - rank), 1);
    }
    let imported = import(&s);
    for (step, got, detail) in both(&s, &imported.program) {
        let place = Some(Place { buffer: Buffer::Input, first: step.src.or(step.dst).unwrap().offset });
        assert_eq!((got.op, detail.src.or(detail.dst)), (step.op, place));
    }
}

#[test]
fn what_is_wrong_is_not_imported() {
    let mut schedule = ring_all_reduce(4, 1, 1, true);
    schedule.ranks[2].thread_blocks[0].steps[1].src = at(I, 0);
    let Err(NotImported::Wrong(findings)) = imported(&schedule, None) else { panic!("it is wrong") };
    let finding = &findings.list[0];
    assert_eq!(
        (finding.kind, finding.rank, finding.thread_block, finding.step),
        (Kind::Mixed, Some(2), Some(0), Some(1))
    );
    schedule.collective = Collective::Custom;
    assert!(matches!(imported(&schedule, None), Err(NotImported::Refused(_))));
}

#[test]
fn more_thread_blocks_than_a_program_has_threads() {
    let mut schedule = empty(Collective::AllReduce, true, 1, [1, 0, 0]);
    for _ in 0..5000 {
        block(&mut schedule, 0, None, None, 0);
    }
    let Err(NotImported::Wrong(findings)) = imported(&schedule, None) else { panic!("it is too large") };
    assert_eq!((findings.list[0].kind, findings.list[0].rank), (Kind::TooLarge, Some(0)));
}

#[test]
fn the_root_is_kept() {
    for root in 0..5 {
        assert_eq!(import(&chain_broadcast(5, root, 3)).root, Rank(root));
        assert_eq!(import(&star(Collective::Gather, 5, root, 2, true)).root, Rank(root));
    }
}

/// A ring of many ranks is written with a few steps.
#[test]
fn what_repeats_is_written_once() {
    let imported = import(&ring_all_reduce(128, 2, 1, true));
    assert!(imported.program.distinct_steps().len() <= 128 * 2 * 16, "{}", imported.program.distinct_steps().len());
}

proptest! {
    /// Every message goes from where it is sent to where it is received, with the same blocks.
    #[test]
    fn messages_meet(schedule in any_schedule()) {
        let program = import(&schedule).program;
        for rank in (0..program.ranks()).map(LineRank) {
            for thread in 0..program.threads_of(rank) {
                for pc in 0..program.steps(rank, thread) {
                    let at = Slot { thread, pc };
                    let step = program.step(rank, at);
                    if step.op.sends() {
                        let taker = program.step(step.to, step.into);
                        prop_assert!(taker.op.receives());
                        prop_assert_eq!((taker.from, taker.blocks), (rank, step.blocks));
                    }
                }
            }
        }
    }
}
