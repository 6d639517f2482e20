//! Every collective over several dimensions, with different algorithms along them.

use crate::support::COMPOSITIONS;
use proptest::prelude::*;
use std::ops::RangeInclusive;
use syncline_collective::verify::{Buffering, Findings, Verifier};
use syncline_collective::{Algorithm, Axis, Composition, Kind, Plan, PlanRequest, Rank};

/// Collectives, all-reduce once per composition.
fn collectives() -> impl Iterator<Item = (Kind, Composition)> {
    let all_reduce = COMPOSITIONS.map(|c| (Kind::AllReduce, c));
    let others = Kind::ALL.into_iter().filter(|&k| k != Kind::AllReduce);
    all_reduce.into_iter().chain(others.map(|k| (k, Composition::PerDimension)))
}

/// The `i`-th algorithm, cyclically, for what the phases along a dimension do.
fn algorithm(kind: Kind, i: usize) -> Algorithm {
    let able: Vec<_> = Algorithm::all(2).into_iter().filter(|a| a.supports(kind)).collect();
    able[i % able.len()]
}

/// What the phases along a dimension do that is the `place`-th to be gone through.
fn along(kind: Kind, composition: Composition, place: usize) -> Kind {
    match (kind, composition, place) {
        (Kind::AllReduce, Composition::AllScattered, _) | (Kind::AllReduce, Composition::LocalFirst, 0) => {
            Kind::ReduceScatter
        }
        _ => kind,
    }
}

struct Case<'a> {
    collective: (Kind, Composition),
    sizes: &'a [u32],
    order: &'a [u8],
    root: u32,
    elements: u64,
    up: bool,
    /// Which algorithms.
    shift: usize,
}

impl Case<'_> {
    fn verify(&self) -> Result<(), Findings> {
        let (kind, composition) = self.collective;
        // Dimensions of one rank are passed over.
        let gone_through: Vec<u8> = self.order.iter().copied().filter(|&d| self.sizes[usize::from(d)] > 1).collect();
        let axes: Vec<Axis> = (0..)
            .zip(self.sizes)
            .map(|(dim, &size)| {
                let place = gone_through.iter().position(|&d| d == dim).unwrap_or(0);
                Axis { size, algorithm: algorithm(along(kind, composition, place), usize::from(dim) + self.shift) }
            })
            .collect();
        let request = PlanRequest { kind, composition, axes: &axes, root: Rank(self.root), order: Some(self.order) };
        let plan = Plan::new(request).expect("programs that exist");
        Verifier::new(&plan, self.sizes, self.elements, self.up, Buffering::Slots(1)).verify()
    }

    fn check(&self) {
        let Case { collective, sizes, order, root, elements, up, shift } = self;
        let verdict = self.verify();
        assert_eq!(
            verdict,
            Ok(()),
            "{collective:?} {sizes:?} {order:?} root {root} {elements} elements up {up} shift {shift}"
        );
    }
}

/// All ways to write a number as a product of numbers above 1, order included.
fn factorisations(n: u32) -> Vec<Vec<u32>> {
    if n == 1 {
        return vec![Vec::new()];
    }
    let starting_with = |f: u32| factorisations(n / f).into_iter().map(move |rest| [vec![f], rest].concat());
    (2..=n).filter(|f| n.is_multiple_of(*f)).flat_map(starting_with).collect()
}

/// All orders of the numbers below `n`.
fn orders(n: usize) -> Vec<Vec<u8>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let insert = |order: Vec<u8>, at: usize| [&order[..at], &[n as u8 - 1], &order[at..]].concat();
    orders(n - 1).into_iter().flat_map(|o| (0..n).map(move |at| insert(o.clone(), at))).collect()
}

#[test]
fn every_factorisation_and_order_of_up_to_32_ranks() {
    let mut shift = 0;
    for ranks in 1..=32 {
        for sizes in factorisations(ranks) {
            for order in orders(sizes.len()) {
                for collective in collectives() {
                    // The algorithms, the root and the direction change from case to case.
                    shift += 1;
                    let root = shift as u32 % ranks;
                    let elements = [u64::from(ranks) + 5, 1, 0][shift % 3];
                    let (sizes, order, up) = (&sizes, &order, shift % 2 == 0);
                    Case { collective, sizes, order, root, elements, up, shift }.check();
                }
            }
        }
    }
}

#[test]
fn every_assignment_of_algorithms_to_two_dimensions() {
    for (a, b) in [(2, 2), (2, 3), (3, 4), (5, 2), (6, 6)] {
        for collective in collectives() {
            for shift in 0..6 {
                for order in [[0, 1], [1, 0]] {
                    for root in 0..a * b {
                        let (sizes, elements) = ([a, b], u64::from(2 * a * b + 3));
                        Case { collective, sizes: &sizes, order: &order, root, elements, up: true, shift }.check();
                        if !collective.0.is_rooted() {
                            break;
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_factorisation_of_33_to_100_ranks() {
    every_factorisation(33..=100);
}

#[test]
fn every_factorisation_of_101_to_128_ranks() {
    every_factorisation(101..=128);
}

fn every_factorisation(ranks: RangeInclusive<u32>) {
    for (shift, sizes) in ranks.flat_map(factorisations).enumerate() {
        let order: Vec<u8> = (0..sizes.len() as u8).collect();
        let ranks: u32 = sizes.iter().product();
        for collective in collectives() {
            let (sizes, order, root) = (&sizes, &order, (37 * shift + 5) as u32 % ranks);
            let elements = u64::from(2 * ranks + 3);
            Case { collective, sizes, order, root, elements, up: shift % 2 == 0, shift }.check();
        }
    }
}

#[test]
fn dimensions_of_one_rank_may_lie_anywhere() {
    for collective in collectives() {
        for sizes in [[1, 4, 3], [4, 1, 3], [4, 3, 1], [1, 1, 5], [1, 1, 1]] {
            let root = sizes.iter().product::<u32>() - 1;
            Case { collective, sizes: &sizes, order: &[0, 1, 2], root, elements: 29, up: true, shift: 1 }.check();
        }
    }
}

#[test]
fn the_studied_tori() {
    for sizes in [[4, 2, 2], [4, 4, 2], [4, 4, 4], [4, 8, 4]] {
        for up in [true, false] {
            let axes = sizes.map(|size| Axis { size, algorithm: Algorithm::Ring });
            let (kind, composition) = (Kind::AllReduce, Composition::LocalFirst);
            let plan =
                Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(0), order: None }).expect("rings");
            assert_eq!(Verifier::new(&plan, &sizes, 300, up, Buffering::Slots(1)).verify(), Ok(()), "{sizes:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn random_grids_of_up_to_128_ranks(
        ranks in 33u32..=128, sizes: prop::sample::Index, order: prop::sample::Index, collective: prop::sample::Index,
        root: prop::sample::Index, elements in 0u64..300, up: bool, shift in 0usize..30,
    ) {
        let sizes = sizes.get(&factorisations(ranks)).clone();
        let order = order.get(&orders(sizes.len())).clone();
        let collective = *collective.get(&collectives().collect::<Vec<_>>());
        let root = root.index(ranks as usize) as u32;
        let case = Case { collective, sizes: &sizes, order: &order, root, elements, up, shift };
        prop_assert_eq!(case.verify(), Ok(()));
    }
}
