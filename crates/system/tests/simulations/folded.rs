//! A folded run is the run of the whole machine, to the last bit.

use crate::contention::contended;
use crate::support::{
    ace, baseline, chunks_of, collective_job, dims, endpoints, forwarders, forwarding, ideal, networks, packet, run,
    summary_but_fold,
};
use proptest::prelude::*;
use syncline_system::run_spec;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, DimSpec, EndpointSpec, FabricSpec,
    FlowSpec, FoldSpec, GroupsSpec, JobSpec, LanesSpec, LoadSpec, NetworkSpec, OddLinkSpec, Spec, TransitSpec,
};

fn folded(spec: &Spec) -> Spec {
    Spec { fold: FoldSpec::On, ..spec.clone() }
}

/// Runs both ways and compares everything but the cost of the runs.
pub fn same_both_ways(spec: &Spec) {
    let (whole, folded) = (run(spec), run(&folded(spec)));
    assert_eq!(summary_but_fold(&whole), summary_but_fold(&folded), "{spec:?}");
    assert!(folded.summary.simulated_npus < whole.summary.simulated_npus || whole.summary.npus == 1, "{spec:?}");
    for name in ["collectives", "phases", "resources", "windows", "sram", "layers"] {
        let table = |r: &syncline_system::Results| r.tables.iter().find(|t| t.name == name).cloned();
        assert_eq!(table(&whole), table(&folded), "{name} of {spec:?}");
    }
}

fn refused(spec: &Spec) -> String {
    run_spec(&folded(spec), None).err().map_or_else(|| panic!("folded {spec:?}"), |error| error.to_string())
}

pub fn product(dims: &[(BlockSpec, u32)]) -> Vec<DimSpec> {
    let dim = |(i, &(block, size)): (u64, &(BlockSpec, u32))| DimSpec {
        block,
        size,
        rate_bytes_per_s: (200 - 37 * i) * 1_000_000_000,
        latency_ps: 70_000 + 91_001 * i,
        links: 1,
    };
    (0..).zip(dims).map(dim).collect()
}

fn spec(dims: &[(BlockSpec, u32)], endpoint: EndpointSpec) -> Spec {
    let mut spec = crate::support::all_reduce(product(dims), endpoint, 300_000);
    spec.collectives.padding = true;
    spec
}

const RINGS: [(BlockSpec, u32); 3] = [(BlockSpec::Ring, 3), (BlockSpec::Ring, 4), (BlockSpec::Ring, 2)];

#[test]
fn every_endpoint_on_a_torus() {
    for endpoint in endpoints() {
        for algorithm in [AlgorithmSpec::Ring, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase] {
            let mut spec = spec(&RINGS, endpoint.clone());
            spec.collectives.algorithm = algorithm;
            same_both_ways(&spec);
        }
    }
}

#[test]
fn rotated_schedules_on_switches_and_groups() {
    for network in networks() {
        for blocks in [
            &[(BlockSpec::Switch, 6)][..],
            &[(BlockSpec::FullyConnected, 5)],
            &[(BlockSpec::Switch, 4), (BlockSpec::Ring, 3)],
        ] {
            let mut spec = spec(blocks, baseline());
            spec.network = network.clone();
            spec.collectives.algorithm = AlgorithmSpec::Hierarchical;
            same_both_ways(&spec);
        }
    }
}

#[test]
fn all_to_all_over_many_hops() {
    let shapes = [
        &RINGS[..],
        &[(BlockSpec::Ring, 4), (BlockSpec::Switch, 3)],
        &[(BlockSpec::Ring, 7)],
        &[(BlockSpec::Ring, 2); 3],
    ];
    for network in networks() {
        for (blocks, endpoint) in
            shapes.iter().flat_map(|b| [ideal(), baseline(), forwarding(baseline())].map(|e| (*b, e)))
        {
            if endpoint.model().transit() == TransitSpec::Endpoint && blocks.iter().any(|b| b.0 == BlockSpec::Switch) {
                continue;
            }
            let mut spec = spec(blocks, endpoint);
            spec.network = network.clone();
            spec.job = collective_job(CollectiveKindSpec::AllToAll, 100_000);
            for algorithm in [AlgorithmSpec::Direct, AlgorithmSpec::Ring, AlgorithmSpec::Hierarchical] {
                spec.collectives.algorithm = algorithm;
                same_both_ways(&spec);
            }
        }
    }
}

#[test]
fn groups_that_look_alike() {
    // Lines of the first dimension, and pairs that stand side by side on a ring.
    let lines: Vec<Vec<u32>> = (0..8).map(|g| (3 * g..3 * g + 3).collect()).collect();
    let mut spec = spec(&RINGS, ideal());
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.groups = Some(GroupsSpec { members: lines, grid: None, along: None });
    same_both_ways(&spec);
    let mut pairs = crate::folded::spec(&[(BlockSpec::Ring, 8)], ideal());
    pairs.collectives.algorithm = AlgorithmSpec::Ring;
    pairs.groups =
        Some(GroupsSpec { members: (0..4).map(|g| vec![2 * g, 2 * g + 1]).collect(), grid: None, along: None });
    same_both_ways(&pairs);
    pairs.groups =
        Some(GroupsSpec { members: vec![vec![0, 1], vec![2, 4], vec![3, 5], vec![6, 7]], grid: None, along: None });
    assert!(refused(&pairs).contains("no two NPUs are alike"), "{}", refused(&pairs));
    pairs.groups = Some(GroupsSpec { members: vec![vec![0, 1, 2]], grid: None, along: None });
    assert!(refused(&pairs).contains("fold: the run cannot be folded"));
}

#[test]
fn what_differs_is_told_apart() {
    let slow = |npus: &[u32]| {
        let mut spec = spec(&RINGS, ideal());
        let odd = npus.iter().map(|&npu| OddLinkSpec {
            npu,
            dim: 1,
            way: "up".into(),
            parallel: 0,
            rate_bytes_per_s: 1_000_000_000,
            latency_ps: 90_000,
        });
        let FabricSpec::Product { odd_links, .. } = &mut spec.fabric else { panic!("a product") };
        odd_links.extend(odd);
        spec
    };
    let mut nowhere = slow(&[3]);
    let FabricSpec::Product { odd_links, .. } = &mut nowhere.fabric else { panic!("a product") };
    odd_links[0].way = "+2".into();
    let error = run_spec(&nowhere, None).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("NPU 3 has no link +2 #0 of dimension 1"), "{error}");
    let fast = run(&spec(&RINGS, ideal())).summary.total_ps;
    assert!(run(&slow(&[3])).summary.total_ps > 2 * fast);
    let reason = refused(&slow(&[3]));
    assert!(reason.contains("no two NPUs are alike (a link of NPU 3 is slower)"), "{reason}");
    // The same link of every NPU, and of every other layer.
    same_both_ways(&slow(&(0..24).collect::<Vec<_>>()));
    same_both_ways(&slow(&(0..12).collect::<Vec<_>>()));
    // Then NPUs of one kind forward for those of the other.
    for endpoint in forwarders() {
        let mut spec = slow(&(0..12).collect::<Vec<_>>());
        spec.endpoint = forwarding(endpoint);
        spec.collectives.algorithm = AlgorithmSpec::Direct;
        spec.job = collective_job(CollectiveKindSpec::AllToAll, 100_000);
        assert!(run(&spec).summary.endpoint.transit_bytes > 0);
        same_both_ways(&spec);
    }

    let training = |slow: &[u32]| {
        let mut spec = crate::training::training(true, true, 2);
        spec.collectives.padding = true;
        let JobSpec::Training { stragglers, .. } = &mut spec.job else { panic!("training") };
        stragglers.extend(slow.iter().map(|&npu| (npu, 1.5)));
        spec
    };
    let fast = run(&training(&[])).summary.total_ps;
    assert!(run(&training(&[2])).summary.total_ps > fast * 13 / 10, "everybody waits for the straggler");
    let reason = refused(&training(&[2]));
    assert!(reason.contains("(NPU 2 computes more slowly)"), "{reason}");
    for slow in [&[][..], &[1, 3]] {
        let mut spec = training(slow);
        same_both_ways(&spec);
        spec.endpoint = contended(baseline());
        same_both_ways(&spec);
    }

    // Behind a switch too, but for packets, whose order at a port would not be the same.
    for (network, folds) in [
        (NetworkSpec::Analytical(AnalyticalSpec {}), true),
        (NetworkSpec::Flow(FlowSpec {}), true),
        (packet(true), false),
    ] {
        let mut spec = training(&[1, 3]);
        dims(&mut spec)[0].block = BlockSpec::Switch;
        spec.collectives.algorithm = AlgorithmSpec::Direct;
        spec.network = network;
        if folds {
            same_both_ways(&spec);
        } else {
            assert!(refused(&spec).contains("2 kinds of NPUs share switches"), "{}", refused(&spec));
        }
    }
}

#[test]
fn what_is_not_symmetric_is_refused() {
    let mut uneven = spec(&RINGS, ideal());
    uneven.collectives.padding = false;
    uneven.job = collective_job(CollectiveKindSpec::AllReduce, 300_014);
    assert!(refused(&uneven).contains("blocks are of unequal length"), "{}", refused(&uneven));
    let mut instant = spec(&RINGS, ideal());
    dims(&mut instant)[1].latency_ps = 0;
    assert!(refused(&instant).contains("links without latency"));
    let mut rooted = spec(&RINGS, ideal());
    rooted.collectives.algorithm = AlgorithmSpec::Direct;
    rooted.job = collective_job(CollectiveKindSpec::Broadcast, 1000);
    assert!(refused(&rooted).contains("different roles"));
    let mut traced = spec(&RINGS, ideal());
    traced.output.trace_npus = vec![5];
    assert!(refused(&traced).contains("NPU 5 is to be traced"));
    traced.fold = FoldSpec::Auto;
    let summary = run(&traced).summary;
    assert_eq!((summary.simulated_npus, summary.npus), (24, 24));
    assert!(summary.unfolded.is_some_and(|reason| reason.contains("NPU 5")));
}

pub fn blocks() -> impl Strategy<Value = Vec<(BlockSpec, u32)>> {
    let block = prop::sample::select(vec![BlockSpec::Ring, BlockSpec::FullyConnected, BlockSpec::Switch]);
    let any = prop::collection::vec((block, 1u32..5), 1..4);
    any.prop_filter("two NPUs or more", |b| b.iter().any(|b| b.1 > 1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_machines(
        blocks in blocks(), endpoint in 0usize..3, network in proptest::sample::select(networks()), algorithm in 0usize..5, kind in 0usize..4,
        bytes in 1u64..200_000, chunk in 1u64..90_000, inflight in 1u32..5, by_count: bool, lanes in 0usize..3,
        transit: bool, warps in 0u64..90_000, traffic in 0u64..600,
    ) {
        let mut spec = spec(&blocks, [ideal(), baseline(), contended(baseline())][endpoint].clone());
        if transit && !blocks.iter().any(|b| b.0 == BlockSpec::Switch && b.1 > 1) {
            spec.endpoint = forwarding(spec.endpoint);
        }
        spec.network = network;
        spec.collectives.algorithm =
            [AlgorithmSpec::Ring, AlgorithmSpec::Hierarchical, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase, AlgorithmSpec::Direct][algorithm];
        let kinds = [CollectiveKindSpec::AllReduce, CollectiveKindSpec::ReduceScatter, CollectiveKindSpec::AllGather, CollectiveKindSpec::AllToAll];
        spec.job = collective_job(kinds[kind], bytes);
        if let (2, 1.., JobSpec::Collective { beside, .. }) = (endpoint, warps, &mut spec.job) {
            beside.push(LoadSpec { milliwarps: warps, memory_bytes_per_s: traffic * 1_000_000_000 });
        }
        spec.collectives.chunking = if by_count { ChunkingSpec::Count { chunks: 1 + (chunk % 9) as u32 } } else { chunks_of(chunk) };
        spec.collectives.inflight = inflight;
        spec.collectives.lanes = [LanesSpec::Alternate, LanesSpec::Split, LanesSpec::One][lanes];
        same_both_ways(&spec);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_tori_with_ace(
        a in 1u32..5, b in 1u32..5, c in 2u32..4, algorithm in 0usize..3, bytes in 1u64..200_000, chunk in 256u64..70_000,
    ) {
        let mut spec = spec(&[(BlockSpec::Ring, a), (BlockSpec::Ring, b), (BlockSpec::Ring, c)], ace());
        spec.collectives.algorithm =
            [AlgorithmSpec::Ring, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase][algorithm];
        spec.job = JobSpec::Collective { collective: CollectiveKindSpec::AllReduce, bytes, root: 0, beside: vec![] };
        spec.collectives.chunking = chunks_of(chunk);
        same_both_ways(&spec);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Through the endpoints, and through the network's routers.
    #[test]
    fn random_all_to_alls(
        a in 1u32..6, b in 1u32..5, c in 2u32..5, full: bool, endpoint in prop::sample::select(forwarders()), transit: bool, network in proptest::sample::select(networks()),
        bytes in 1u64..200_000, chunk in 256u64..70_000, sram in 0u64..40_000, inflight in 1u32..9,
    ) {
        let last = if full { BlockSpec::FullyConnected } else { BlockSpec::Ring };
        let mut spec = spec(&[(BlockSpec::Ring, a), (BlockSpec::Ring, b), (last, c)], endpoint);
        if transit {
            spec.endpoint = forwarding(spec.endpoint);
        }
        if let EndpointSpec::Ace(ace) = &mut spec.endpoint {
            ace.sram_bytes = 300_000 + sram; // some ten packets in each pool, and chunks that wait for room
        }
        spec.network = network;
        spec.collectives.algorithm = AlgorithmSpec::Direct;
        spec.job = collective_job(CollectiveKindSpec::AllToAll, bytes);
        spec.collectives.chunking = chunks_of(chunk);
        spec.collectives.inflight = inflight;
        same_both_ways(&spec);
    }
}
