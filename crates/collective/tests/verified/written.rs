//! Programs that are written down with loops have the steps that they had.

use crate::support::{line, programs};
use syncline_collective::program::loops::{self, WrittenStep};
use syncline_collective::{Algorithm, Kind, LineRank, PhaseId, Program, Slot, Written};

/// Whether all steps are the same, and what else they say.
fn assert_same(program: &Program, written: &Written, context: &str) {
    let all = (0..program.ranks() + u32::from(program.has_switch())).map(LineRank);
    let copy = Program::from(written.clone());
    assert_eq!(
        (copy.ranks(), copy.parts(), copy.threads(), copy.has_switch(), copy.pacing()),
        (program.ranks(), program.parts(), program.threads(), program.has_switch(), program.pacing()),
        "{context}"
    );
    for (rank, thread) in all.flat_map(|rank| (0..program.threads()).map(move |thread| (rank, thread))) {
        let steps = program.steps(rank, thread);
        assert_eq!(copy.steps(rank, thread), steps, "{context}, rank {rank}");
        for pc in 0..steps {
            let at = Slot { thread, pc };
            let [a, b] = [program, &copy].map(|p| (p.step(rank, at).normal(), p.detail(rank, at)));
            assert_eq!(a, b, "{context}, rank {rank}, {at}");
        }
    }
}

#[test]
fn every_program_is_the_same_when_it_is_written() {
    for (slices, ranks) in [1, 2, 5].into_iter().flat_map(|slices| (2..=12).map(move |ranks| (slices, ranks))) {
        for (algorithm, kind) in programs(slices) {
            for up in [true, false] {
                let program = line(kind, algorithm, ranks, ranks / 3).program(PhaseId(0), up);
                let context = format!("{kind} by {algorithm:?} on {ranks}, up {up}");
                assert_same(&program, &program.written_down().unwrap(), &context);
            }
        }
    }
    for kind in [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter] {
        let program = Program::Ring { kind, ranks: 1, up: true };
        assert_same(&program, &program.written_down().unwrap(), "alone");
    }
}

/// Halves that go round rings both ways have details.
#[test]
fn direct_programs_on_grids_are_the_same_when_they_are_written() {
    for (sizes, kind) in [&[4, 2][..], &[6], &[3, 4], &[2, 2, 2]].into_iter().flat_map(|s| Kind::ALL.map(|k| (s, k))) {
        let ranks = sizes.iter().product();
        let plan = line(kind, Algorithm::Direct, ranks, 0).on_grid(sizes, &vec![true; sizes.len()]);
        let program = plan.program(PhaseId(0), true);
        assert_same(&program, &program.written_down().unwrap(), &format!("{kind} on {sizes:?}"));
    }
}

/// What is done for peer after peer, or slice after slice, is written once.
#[test]
fn large_programs_are_small_when_they_are_written() {
    const RANKS: u32 = 1000;
    let rings = [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter].map(|kind| (Algorithm::Ring, kind));
    let chain = Algorithm::Chain { slices: 1000 };
    let chains = [Kind::Broadcast, Kind::Reduce].map(|kind| (chain, kind));
    let direct = [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll, Kind::Gather]
        .map(|kind| (Algorithm::Direct, kind));
    for (algorithm, kind) in rings.into_iter().chain(chains).chain(direct) {
        let program = line(kind, algorithm, RANKS, 7).program(PhaseId(0), true);
        for rank in [0, 7, 8, RANKS / 2, RANKS - 1].map(LineRank) {
            let step = |pc| WrittenStep::from(program.step(rank, Slot { thread: 0, pc }));
            let steps: Vec<WrittenStep> = (0..program.steps(rank, 0)).map(step).collect();
            let written: usize = loops::find(&steps, RANKS, program.parts()).iter().map(|l| l.steps.len()).sum();
            assert!(written <= 16, "{kind} by {algorithm:?}: rank {rank} is written in {written} steps");
        }
    }
}
