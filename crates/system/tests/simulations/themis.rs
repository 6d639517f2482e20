//! An order of dimensions for every chunk comes close to what the fabric can do.

use crate::support::{all_reduce, collective_job, dim, ideal, packet, run};
use proptest::prelude::*;
use syncline_system::spec::{
    AlgorithmSpec, ChunkingSpec, CollectiveKindSpec, DimSpec, FoldSpec, LanesSpec, NetworkSpec, Spec,
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
    [packet(true), NetworkSpec::Analytical {}]
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn oblong_tori(sizes in prop::collection::vec(2u32..7, 2), latency in 10_000u64..500_000, split: bool, network in 0usize..2) {
        let dims = sizes.iter().map(|&n| dim(n, 25, latency)).collect();
        let mut spec = spec(dims, CollectiveKindSpec::AllReduce, 2048, 128);
        spec.collectives.lanes = if split { LanesSpec::Split } else { LanesSpec::Alternate };
        spec.network = networks()[network].clone();
        prop_assert!(over_bound(&spec) <= 105, "{:?}: {} %", sizes, over_bound(&spec));
    }

    #[test]
    fn reduce_scatters_on_tori_of_any_shape(sizes in prop::collection::vec(2u32..6, 2..4), network in 0usize..2) {
        let dims = sizes.iter().map(|&n| dim(n, 25, 100_000)).collect();
        let mut spec = spec(dims, CollectiveKindSpec::ReduceScatter, 512, 64);
        spec.network = networks()[network].clone();
        prop_assert!(over_bound(&spec) <= 105, "{:?}: {} %", sizes, over_bound(&spec));
    }
}
