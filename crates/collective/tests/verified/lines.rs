//! Every algorithm and collective on one dimension.

use crate::support::{programs, verify_line};
use syncline_collective::verify::Buffering;
use syncline_collective::{Algorithm, Kind};

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
