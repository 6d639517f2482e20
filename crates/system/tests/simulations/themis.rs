//! An order of dimensions for every chunk comes close to what the fabric can do.

use crate::support::{all_reduce, collective_job, dim, exact_networks, ideal, packet, run};
use proptest::prelude::*;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, DimSpec, FabricSpec, FoldSpec,
    LanesSpec, NetworkSpec, Spec,
};

const BYTES: u64 = 512_000_000;

fn spec(dims: Vec<DimSpec>, kind: CollectiveKindSpec, chunks: u32, inflight: u32) -> Spec {
    let mut spec = all_reduce(dims, ideal(), BYTES);
    spec.fold = FoldSpec::Auto;
    spec.job = collective_job(kind, BYTES);
    spec.collectives.algorithm = AlgorithmSpec::Themis;
    spec.collectives.padding = true;
    spec.collectives.chunking = ChunkingSpec::Count { chunks };
    spec.collectives.inflight = inflight;
    spec
}

/// Time over the bound, in percent.
fn over_bound(spec: &Spec) -> u64 {
    let s = run(spec).summary;
    s.total_ps * 100 / s.lower_bound_ps
}

fn networks() -> [NetworkSpec; 2] {
    [packet(true), NetworkSpec::Analytical(AnalyticalSpec {})]
}

/// Where all dimensions are alike, orders alternate with the period of the directions that chunks take in turn: what
/// counts is the balance of each direction.
#[test]
fn square_tori_have_both_dimensions_busy_in_every_direction() {
    for (size, links) in [(2, 1), (3, 1), (4, 1), (4, 2), (5, 3), (8, 1)] {
        for lanes in [LanesSpec::Alternate, LanesSpec::Split] {
            for network in networks() {
                let along = DimSpec { links, ..dim(size, 25, 500_000) };
                let mut spec = spec(vec![along.clone(), along], CollectiveKindSpec::AllReduce, 96, 24);
                (spec.collectives.lanes, spec.network) = (lanes, network);
                assert!(over_bound(&spec) <= 105, "{size}x{size} with {links} links: {} %", over_bound(&spec));
            }
        }
    }
}

/// With a single lane there is half of the fabric, and of it nothing stands idle.
#[test]
fn one_lane_has_a_rate_of_its_own() {
    let mut spec = spec([4, 6].map(|n| dim(n, 25, 500_000)).to_vec(), CollectiveKindSpec::AllReduce, 1024, 128);
    spec.collectives.lanes = LanesSpec::One;
    assert!((200..=210).contains(&over_bound(&spec)), "{} %", over_bound(&spec));
}

/// A dimension of two links next to one of one: lanes are of equal rate, but there are more of them.
#[test]
fn parallel_links_count() {
    let dims = vec![DimSpec { links: 2, ..dim(4, 25, 500_000) }, dim(4, 25, 500_000)];
    let spec = spec(dims, CollectiveKindSpec::AllReduce, 1024, 64);
    assert!(over_bound(&spec) <= 105, "{} %", over_bound(&spec));
}

#[test]
fn cubes_with_many_chunks_in_flight() {
    let spec = spec(vec![dim(4, 25, 500_000); 3], CollectiveKindSpec::AllReduce, 1024, 256);
    assert!(over_bound(&spec) <= 105, "{} %", over_bound(&spec));
}

/// What no mixture of orders of dimensions beats on a torus, in ps: every order needs some time of each dimension, so with any
/// weights of the dimensions all of them together need at least the least weighted time of an order. The weights for
/// which that is most are found by nested ternary search, since it is concave in them.
fn best_mixture(dims: &[DimSpec], kind: CollectiveKindSpec) -> u64 {
    let times = if kind == CollectiveKindSpec::AllReduce { 2.0 } else { 1.0 };
    // The weights of all dimensions but the last; the least weighted time of what is left to send along `rest`.
    fn least(dims: &[DimSpec], rest: &[usize], weights: &[f64], share: f64) -> f64 {
        let with_next = |&dim: &usize| {
            let size = f64::from(dims[dim].size);
            let rate = 2.0 * f64::from(dims[dim].links) * dims[dim].rate_bytes_per_s as f64;
            let others: Vec<usize> = rest.iter().copied().filter(|&d| d != dim).collect();
            weights[dim] * share * (size - 1.0) / size / rate + least(dims, &others, weights, share / size)
        };
        rest.iter().map(with_next).reduce(f64::min).unwrap_or(0.0)
    }
    fn most(dims: &[DimSpec], weights: &mut Vec<f64>, left: f64) -> f64 {
        if weights.len() + 1 == dims.len() {
            let all: Vec<usize> = (0..dims.len()).collect();
            return least(dims, &all, &[&weights[..], &[left]].concat(), 1.0);
        }
        let mut with = |weight: f64| {
            weights.push(weight);
            let found = most(dims, weights, left - weight);
            weights.pop();
            found
        };
        let (mut low, mut high) = (0.0, left);
        for _ in 0..40 {
            let (a, b) = ((2.0 * low + high) / 3.0, (low + 2.0 * high) / 3.0);
            if with(a) < with(b) { low = a } else { high = b }
        }
        with(low)
    }
    (most(dims, &mut Vec::new(), 1.0) * times * BYTES as f64 * 1e12) as u64
}

/// Time over what can be reached, in percent.
fn over_best(spec: &Spec, kind: CollectiveKindSpec) -> u64 {
    let FabricSpec::Product { dims, .. } = &spec.fabric else { panic!("a torus") };
    let s = run(spec).summary;
    s.total_ps * 100 / s.lower_bound_ps.max(best_mixture(dims, kind))
}

const KINDS: [CollectiveKindSpec; 3] =
    [CollectiveKindSpec::AllReduce, CollectiveKindSpec::ReduceScatter, CollectiveKindSpec::AllGather];

/// The reference itself: where a dimension has so much of the rate that no order can use it all, the bound is out of reach.
#[test]
fn mixtures_reach_the_bound_where_no_dimension_is_far_faster() {
    let torus = |rates: [u64; 3]| [4, 8, 4].iter().zip(rates).map(|(&n, r)| dim(n, r, 0)).collect::<Vec<_>>();
    for kind in KINDS {
        let time = |dims: &Vec<DimSpec>| (best_mixture(dims, kind), spec(dims.clone(), kind, 1, 1));
        let (even, spec) = time(&torus([25; 3]));
        let bound = run(&spec).summary.lower_bound_ps;
        assert!(even.abs_diff(bound) < bound / 1000, "{kind:?}: {even}, {bound}");
        // All of the vector goes along the first dimension first, a quarter of it along the others.
        let (fast_inside, _) = time(&torus([250, 25, 25]));
        let by_hand = (BYTES as f64 * 31.0 / 32.0 / 4.0 / 100e9 * 1e12) as u64;
        let by_hand = if kind == CollectiveKindSpec::AllReduce { 2 * by_hand } else { by_hand };
        assert!(fast_inside.abs_diff(by_hand) < by_hand / 1000, "{kind:?}: {fast_inside}, {by_hand}");
    }
}

/// Chunks take turns on a port no longer: whatever number of them is in flight, dimensions work side by side.
#[test]
fn any_number_of_chunks_in_flight_keeps_unequal_dimensions_busy() {
    for sizes in [[2, 5], [3, 7], [4, 8], [5, 9]] {
        for kind in KINDS {
            for inflight in [16, 64, 4096] {
                let spec = spec(sizes.map(|n| dim(n, 25, 500_000)).to_vec(), kind, 256, inflight);
                assert!(over_best(&spec, kind) <= 103, "{sizes:?} {kind:?} {inflight}: {} %", over_best(&spec, kind));
            }
        }
    }
}

#[test]
fn cubes_with_few_chunks_in_flight() {
    for kind in KINDS {
        let spec = spec(vec![dim(4, 25, 500_000); 3], kind, 512, 16);
        assert!(over_best(&spec, kind) <= 105, "{kind:?}: {} %", over_best(&spec, kind));
    }
}

/// Each message has a way of its own; of parallel links the others stand idle, and orders reckon with that.
#[test]
fn of_parallel_links_those_count_that_messages_take() {
    let connected = |size, links, gbs| DimSpec { block: BlockSpec::FullyConnected, links, ..dim(size, gbs, 500_000) };
    let time = |links, gbs| {
        let kind = CollectiveKindSpec::AllGather;
        run(&spec(vec![connected(5, 1, 25), connected(5, links, gbs)], kind, 256, 64)).summary.total_ps
    };
    let (two, one) = (time(2, 25), time(1, 25));
    assert!(two <= one + one / 100, "{two} ps with two links, {one} ps with one");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tori_of_any_shape_and_rates(
        dims in prop::collection::vec((2u32..7, prop::sample::select(&[25u64, 25, 50, 100][..])), 2..4),
        latency in 10_000u64..500_000, kind in 0usize..3, split: bool, unlimited: bool, network in prop::sample::select(exact_networks()),
    ) {
        let dims: Vec<DimSpec> = dims.iter().map(|&(size, gbs)| dim(size, gbs, latency)).collect();
        let kind = KINDS[kind];
        let mut spec = spec(dims, kind, 1024, if unlimited { 4096 } else { 64 });
        spec.collectives.lanes = if split { LanesSpec::Split } else { LanesSpec::Alternate };
        spec.network = network;
        prop_assert!(over_best(&spec, kind) <= 105, "{} %", over_best(&spec, kind));
    }
}
