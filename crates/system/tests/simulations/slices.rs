//! How many slices pipelines have when nobody says: about as good as the best number.

use crate::support::{all_reduce, baseline, chunks_of, collective_job, dim, exact_networks, ideal, packet, run};
use proptest::prelude::*;
use syncline_system::build::plan;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BlockSpec, CollectiveKindSpec, DimSpec, EndpointSpec, FlowSpec, IdealSpec,
    LanesSpec, NetworkSpec, Spec,
};

const PIPELINED: [(AlgorithmSpec, CollectiveKindSpec); 8] = [
    (AlgorithmSpec::DoubleBinaryTree, CollectiveKindSpec::AllReduce),
    (AlgorithmSpec::DoubleBinaryTree, CollectiveKindSpec::Broadcast),
    (AlgorithmSpec::DoubleBinaryTree, CollectiveKindSpec::Reduce),
    (AlgorithmSpec::OneHopTrees, CollectiveKindSpec::AllReduce),
    (AlgorithmSpec::OneHopTrees, CollectiveKindSpec::Broadcast),
    (AlgorithmSpec::OneHopTrees, CollectiveKindSpec::Reduce),
    (AlgorithmSpec::Ring, CollectiveKindSpec::Broadcast),
    (AlgorithmSpec::Ring, CollectiveKindSpec::Reduce),
];

fn spec(
    dims: Vec<DimSpec>,
    (algorithm, kind): (AlgorithmSpec, CollectiveKindSpec),
    network: NetworkSpec,
    bytes: u64,
) -> Spec {
    let mut spec = all_reduce(dims, ideal(), bytes);
    spec.collectives.algorithm = algorithm;
    spec.collectives.chunking = chunks_of(bytes);
    spec.collectives.lanes = LanesSpec::Split;
    spec.collectives.padding = true;
    spec.network = network;
    spec.job = collective_job(kind, bytes);
    spec
}

/// Time with a number of slices, or with as many as suit (0).
fn time(spec: &Spec, slices: u32) -> u64 {
    let mut spec = spec.clone();
    spec.collectives.slices = slices;
    run(&spec).summary.total_ps
}

fn best(spec: &Spec, most: u32) -> (u64, u32) {
    let powers = (0..=most.max(1).ilog2()).map(|log| 1 << log);
    powers.map(|slices| (time(spec, slices), slices)).min().expect("at least one slice")
}

/// A trial costs what it sets up: on a fabric of millions of links none is made, and a chunk has as many slices as its 4,096
/// messages of about four events each may cost.
#[test]
fn fabrics_that_take_long_to_set_up_are_not_tried() {
    let full = |size| vec![DimSpec { block: BlockSpec::FullyConnected, ..dim(size, 25, 500_000) }];
    for (size, untried) in [(64, false), (4096, true)] {
        let spec = spec(
            full(size),
            (AlgorithmSpec::Ring, CollectiveKindSpec::Reduce),
            NetworkSpec::Analytical(AnalyticalSpec {}),
            1 << 16,
        );
        let plan = plan(&spec).expect("a legal run");
        assert_eq!(plan.preview(&spec).slices == Some(600_000 / (4 * 4096)), untried, "{size} NPUs");
    }
}

/// Links' latency is no cost of a slice: many are on their way together.
#[test]
fn long_links_do_not_make_slices_few() {
    let tree = (AlgorithmSpec::OneHopTrees, CollectiveKindSpec::Broadcast);
    let spec = spec(vec![dim(8, 50, 500_000)], tree, NetworkSpec::Flow(FlowSpec {}), 1_000_000);
    let (auto, (best, slices)) = (time(&spec, 0), best(&spec, 1024));
    assert!(auto <= best + best / 10, "{auto} ps, {best} ps with {slices} slices");
}

/// Nor does a link without latency make slices free.
#[test]
fn short_links_do_not_make_slices_tiny() {
    for latency in [0, 1] {
        for case in PIPELINED {
            let dims = vec![DimSpec { block: BlockSpec::FullyConnected, ..dim(4, 50, latency) }];
            let spec = spec(dims, case, NetworkSpec::Analytical(AnalyticalSpec {}), 4000);
            let (auto, (best, slices)) = (time(&spec, 0), best(&spec, 512));
            assert!(auto <= best + best / 10, "{case:?}: {auto} ps, {best} ps with {slices} slices");
        }
    }
}

/// Long slices are tried in packets as well: flows know nothing of those that wait in the middle of a ring.
#[test]
fn long_slices_wait_for_one_another() {
    let trees = |algorithm| (algorithm, CollectiveKindSpec::AllReduce);
    let (one_hop, binary) = (trees(AlgorithmSpec::OneHopTrees), trees(AlgorithmSpec::DoubleBinaryTree));
    for (dims, tree, bytes) in [
        (vec![dim(4, 50, 1000), dim(3, 50, 1000)], one_hop, 3_012_321),
        (vec![dim(3, 200, 50_000); 2], one_hop, 3_327_439),
        (vec![dim(9, 10, 500_000)], binary, 2_261_625),
    ] {
        let spec = spec(dims, tree, packet(true), bytes);
        let (auto, (best, slices)) = (time(&spec, 0), best(&spec, 1024));
        assert!(auto <= best + best / 20, "{auto} ps, {best} ps with {slices} slices");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_power_of_two_is_much_faster(
        block in 0usize..4, size in 2u32..9, case in 0usize..8, network in proptest::sample::select(exact_networks()), log in 10f64..21.0,
        latency in prop::sample::select(&[0u64, 1000, 50_000, 500_000, 5_000_000][..]), gbs in 10u64..200,
        endpoint in 0usize..3,
    ) {
        let along = |block, size| DimSpec { block, ..dim(size, gbs, latency) };
        let dims = match block {
            0 => vec![along(BlockSpec::Ring, size)],
            1 => vec![along(BlockSpec::FullyConnected, size)],
            2 => vec![along(BlockSpec::Switch, size)],
            _ => vec![along(BlockSpec::Ring, size.min(4)), along(BlockSpec::Ring, 3)],
        };
        let bytes = log.exp2() as u64;
        let mut spec = spec(dims, PIPELINED[case], network, bytes);
        match (&mut spec.endpoint, endpoint) {
            (EndpointSpec::Ideal(IdealSpec { step_latency_ps, .. }), 1) => *step_latency_ps = 200_000,
            (ours, 2) => *ours = baseline(),
            _ => {}
        }
        let most = (bytes / 4).min(1024) as u32;
        let (auto, (best, slices)) = (time(&spec, 0), best(&spec, most));
        prop_assert!(auto <= best + best / 10, "{} ps, {} ps with {} slices", auto, best, slices);
    }
}
