//! Every algorithm and collective on one dimension.

use crate::support::{line, programs, verify_line};
use syncline_collective::verify::{Buffering, Verifier};
use syncline_collective::{
    Algorithm, Axis, Composition, Kind, LineRank, PhaseId, Plan, PlanRequest, Posting, Program, Rank, Slot, Step,
};

const SLOT: Buffering = Buffering::Slots(1);

fn check(pair: (Algorithm, Kind), ranks: u32, root: u32, elements: u64, up: bool) {
    let verdict = verify_line(pair, ranks, root, elements, up, SLOT);
    assert_eq!(verdict, Ok(()), "{} by {:?} on {ranks}, root {root}, {elements} elements, up {up}", pair.1, pair.0);
}

/// Roots worth trying.
fn roots(kind: Kind, ranks: u32) -> Vec<u32> {
    match (kind.is_rooted(), ranks) {
        (false, _) => vec![0],
        (true, ..=12) => (0..ranks).collect(),
        (true, _) => vec![0, ranks / 3, ranks - 1],
    }
}

fn directions(algorithm: Algorithm) -> &'static [bool] {
    if matches!(algorithm, Algorithm::Ring | Algorithm::Chain { .. }) { &[true, false] } else { &[true] }
}

fn check_all(sizes: impl Iterator<Item = u32>, elements: impl Fn(u64) -> Vec<u64>, slices: &[u32]) {
    for ranks in sizes {
        for &slices in slices {
            for pair in programs(slices) {
                for root in roots(pair.1, ranks) {
                    for &up in directions(pair.0) {
                        elements(ranks.into()).into_iter().for_each(|e| check(pair, ranks, root, e, up));
                    }
                }
            }
        }
    }
}

#[test]
fn every_program_of_up_to_33_ranks() {
    check_all(1..=33, |n| vec![0, 1, n, 2 * n + 3], &[1, 3]);
}

#[test]
fn every_program_of_64_ranks() {
    check_all([64].into_iter(), |n| vec![0, 1, n, 2 * n + 3], &[1, 3]);
}

#[test]
fn every_program_of_100_ranks() {
    check_all([100].into_iter(), |n| vec![0, 1, n, 2 * n + 3], &[2]);
}

#[test]
fn every_program_of_128_ranks() {
    check_all([128].into_iter(), |n| vec![0, 1, n, 2 * n + 3], &[2]);
}

#[test]
fn pipelines_with_more_slices_than_elements_and_ranks() {
    check_all([2, 3, 6, 9].into_iter(), |n| vec![0, 5, 4 * n + 1], &[8, 33]);
}

#[test]
fn halving_and_doubling_of_every_number_of_ranks() {
    for ranks in 34..=131 {
        for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Scatter, Kind::Reduce] {
            check((Algorithm::HalvingDoubling, kind), ranks, ranks / 3, u64::from(ranks) + 1, true);
        }
    }
}

#[test]
fn double_trees_of_every_number_of_ranks() {
    for ranks in 34..=131 {
        for kind in [Kind::AllReduce, Kind::Broadcast, Kind::Reduce] {
            check((Algorithm::DoubleBinaryTree { slices: 2 }, kind), ranks, ranks / 3, 9, true);
        }
    }
}

/// Direct algorithms by the distances of a grid.
#[test]
fn direct_on_grids() {
    let grids = [&[2, 3][..], &[3, 1, 2], &[4, 2, 2], &[1], &[2], &[5], &[6], &[5, 4, 3], &[3, 5]];
    for (sizes, ring) in grids.into_iter().flat_map(|sizes| [(sizes, false), (sizes, true)]) {
        let ranks: u32 = sizes.iter().product();
        for kind in Kind::ALL {
            let axes = [Axis { size: ranks, algorithm: Algorithm::Direct }];
            let request =
                PlanRequest { kind, composition: Composition::PerDimension, axes: &axes, root: Rank(0), order: None };
            let plan = Plan::new(request).expect("a program exists").on_grid(sizes, &vec![ring; sizes.len()]);
            // Two halves of a share are that share only if all are equal, which does not matter to an all-reduce.
            let odd = if ring && kind != Kind::AllReduce { u64::from(4 * ranks) } else { u64::from(2 * ranks) + 3 };
            for elements in [0, if ring { odd } else { 1 }, odd] {
                // A rank on the far side of a ring gets a message each way: a slot for each.
                let turns = plan.phases().first().map_or(0, |_| plan.program(PhaseId(0), true).turns());
                let slots = Buffering::Slots(turns.saturating_sub(ranks - 1) + 1);
                let verdict = Verifier::new(&plan, &[ranks], elements, true, slots).verify();
                assert_eq!(verdict, Ok(()), "{kind} on {sizes:?}");
            }
        }
    }
}

/// Direct algorithms whose ranks post in any order, one message on the way between two ranks at a time.
#[test]
fn direct_in_other_orders() {
    let postings = [Posting::Sequential, Posting::Random(1), Posting::Random(2)];
    for (posting, ranks) in postings.into_iter().flat_map(|posting| (1..=17).map(move |ranks| (posting, ranks))) {
        for (kind, root) in Kind::ALL.into_iter().flat_map(|kind| (0..ranks).map(move |root| (kind, root))) {
            if root == 0 || kind.is_rooted() {
                let plan = line(kind, Algorithm::Direct, ranks, root).posted(posting);
                let grid = plan.clone().on_grid(&[ranks], &[true]);
                let programs =
                    |plan: &Plan| plan.phase_ids().map(|phase| plan.program(phase, true)).collect::<Vec<_>>();
                assert_eq!(programs(&plan), programs(&grid), "only the rotated order goes by distances");
                assert!(programs(&plan).iter().all(|program| !program.is_rotation_symmetric()));
                for elements in [0, 1, 2 * u64::from(ranks) + 3] {
                    let verdict = Verifier::new(&plan, &[ranks], elements, true, Buffering::Slots(1)).verify();
                    assert_eq!(verdict, Ok(()), "{kind} on {ranks}, root {root}, {posting:?}");
                }
            }
        }
    }
}

/// What lets one rank stand for all: programs that call themselves rotation symmetric are.
#[test]
fn rotation_symmetric_programs_are() {
    let relative = |program: &Program, rank: u32, all_to_all: bool| {
        let n = program.ranks();
        let mut steps = Vec::new();
        for thread in 0..program.threads() {
            for pc in 0..program.steps(LineRank(rank), thread) {
                let Step { op, blocks, from, to, into } = program.step(LineRank(rank), Slot { thread, pc });
                let shift = rank * (program.parts() / n);
                let first = (blocks.first + program.parts() - shift) % program.parts();
                let away = |peer: u32| (peer + n - rank) % n;
                let origin = if all_to_all { away(blocks.origin) } else { 0 };
                let from = if op.receives() { away(from.0) } else { 0 };
                let sends = if op.sends() { (away(to.0), into) } else { Default::default() };
                steps.push((op, origin, first, blocks.count, from, sends));
            }
        }
        steps
    };
    let mut symmetric = 0;
    for (kind, algorithm) in Kind::ALL.into_iter().flat_map(|k| Algorithm::all(3).map(|a| (k, a))) {
        for ranks in [2, 3, 6, 8] {
            if !algorithm.supports(kind) {
                continue;
            }
            let axes = [Axis { size: ranks, algorithm }];
            let request =
                PlanRequest { kind, composition: Composition::PerDimension, axes: &axes, root: Rank(0), order: None };
            let plan = Plan::new(request).expect("a program exists");
            for up in [true, false] {
                let program = plan.program(PhaseId(0), up);
                if program.is_rotation_symmetric() {
                    symmetric += 1;
                    let of_first = relative(&program, 0, kind == Kind::AllToAll);
                    assert!(
                        (1..ranks).all(|r| relative(&program, r, kind == Kind::AllToAll) == of_first),
                        "{program:?}"
                    );
                }
            }
        }
    }
    assert_eq!(symmetric, (4 + 4 + 1) * 4 * 2, "rings, direct and one-hop trees");
}
