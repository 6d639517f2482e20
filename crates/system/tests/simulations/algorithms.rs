//! Every algorithm carries out every collective on every kind of fabric.

use crate::folded::product;
use crate::support::{all_reduce, baseline, chunks_of, collective_job, exact_networks, fingerprint, ideal, run};
use proptest::prelude::*;
use syncline_system::run_spec;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BlockSpec, CollectiveKindSpec, DimAlgorithmSpec, FabricSpec, FlowSpec,
    GraphLinkSpec, GroupsSpec, JobSpec, NetworkSpec, NodeSpec, RoutingSpec, Spec,
};

pub const KINDS: [CollectiveKindSpec; 8] = [
    CollectiveKindSpec::AllReduce,
    CollectiveKindSpec::ReduceScatter,
    CollectiveKindSpec::AllGather,
    CollectiveKindSpec::AllToAll,
    CollectiveKindSpec::Broadcast,
    CollectiveKindSpec::Reduce,
    CollectiveKindSpec::Gather,
    CollectiveKindSpec::Scatter,
];

const ALGORITHMS: [AlgorithmSpec; 10] = [
    AlgorithmSpec::Ring,
    AlgorithmSpec::Direct,
    AlgorithmSpec::HalvingDoubling,
    AlgorithmSpec::DoubleBinaryTree,
    AlgorithmSpec::OneHopTrees,
    AlgorithmSpec::Hierarchical,
    AlgorithmSpec::AceFourPhase,
    AlgorithmSpec::HierarchicalOptimal,
    AlgorithmSpec::SixPhase,
    AlgorithmSpec::Themis,
];

fn spec(blocks: &[(BlockSpec, u32)], algorithm: AlgorithmSpec, kind: CollectiveKindSpec, bytes: u64) -> Spec {
    let mut spec = all_reduce(product(blocks), ideal(), bytes);
    spec.collectives.algorithm = algorithm;
    spec.job = collective_job(kind, bytes);
    spec
}

/// Whether an algorithm has no program for a collective.
pub fn is_missing(algorithm: AlgorithmSpec, kind: CollectiveKindSpec) -> bool {
    use CollectiveKindSpec::{AllReduce, AllToAll, Broadcast, Reduce};
    match algorithm {
        AlgorithmSpec::DoubleBinaryTree | AlgorithmSpec::OneHopTrees => !matches!(kind, AllReduce | Broadcast | Reduce),
        AlgorithmSpec::HalvingDoubling => kind == AllToAll,
        _ => false,
    }
}

#[test]
fn everything_everywhere() {
    let fabrics: [&[(BlockSpec, u32)]; 5] = [
        &[(BlockSpec::Ring, 5)],
        &[(BlockSpec::Switch, 6)],
        &[(BlockSpec::FullyConnected, 4)],
        &[(BlockSpec::Ring, 3), (BlockSpec::FullyConnected, 2), (BlockSpec::Switch, 3)],
        &[(BlockSpec::Ring, 1)],
    ];
    for network in NetworkSpec::all() {
        for (blocks, algorithm, kind) in
            fabrics.into_iter().flat_map(|f| ALGORITHMS.into_iter().flat_map(move |a| KINDS.map(|k| (f, a, k))))
        {
            let mut spec = spec(blocks, algorithm, kind, 12_345);
            spec.network = network.clone();
            if is_missing(algorithm, kind) {
                let ranks: u32 = blocks.iter().map(|b| b.1).product();
                let refused = run_spec(&spec, None).is_err();
                assert!(refused || ranks == 1, "{algorithm:?} {kind:?}");
                continue;
            }
            let s = run(&spec).summary;
            assert!(s.total_ps >= s.lower_bound_ps || !s.warnings.is_empty(), "{algorithm:?} {kind:?} on {blocks:?}");
            assert_eq!(s.network.injected_bytes, s.network.delivered_bytes);
            assert_eq!(s.network.injected_bytes > 0, s.npus > 1, "{algorithm:?} {kind:?} on {blocks:?}");
        }
    }
}

/// Closed forms on a switch, whose links of 200 GB/s and 70 ns nobody shares: one chunk, one cycle a step.
#[test]
fn closed_forms_on_a_switch() {
    const CYCLE: u64 = crate::support::CYCLE_PS;
    let bytes = 64_000_000u64;
    let hop = 2 * 70_000;
    let wire = |bytes: u64| bytes * 5; // ps at 200 GB/s
    let time = |algorithm, kind, npus| {
        let mut spec = spec(&[(BlockSpec::Switch, npus)], algorithm, kind, bytes);
        spec.collectives.chunking = chunks_of(bytes);
        spec.network = NetworkSpec::Analytical(AnalyticalSpec {});
        run(&spec).summary.total_ps
    };
    let (ring, direct) = (AlgorithmSpec::Ring, AlgorithmSpec::Direct);
    let halving = AlgorithmSpec::HalvingDoubling;
    use CollectiveKindSpec::{AllGather, AllReduce, AllToAll, Broadcast};
    let close = |got: u64, expected: u64, steps: u64| {
        assert!(got.abs_diff(expected) <= (steps + 1) * (CYCLE + 4), "{got} is not {expected}");
    };
    close(time(ring, AllReduce, 8), 14 * (wire(bytes / 8) + hop), 15);
    close(time(ring, AllToAll, 8), (1..8).map(|s| wire(bytes / 8 * (8 - s)) + hop).sum(), 16);
    close(time(direct, AllReduce, 8), 2 * (wire(bytes / 8 * 7) + hop), 28);
    close(time(direct, AllToAll, 8), wire(bytes / 8 * 7) + hop, 14);
    close(time(halving, AllReduce, 8), 2 * (wire(bytes / 8 * 7) + 3 * hop), 12);
    close(time(halving, AllGather, 16), wire(bytes / 16 * 15) + 4 * hop, 8);
    // A binomial broadcast: the root sends the whole vector three times, the last ends a level deeper at most.
    close(time(halving, Broadcast, 8), 3 * (wire(bytes) + hop), 6);
}

/// Trees pipeline: about twice the vector over the wire, however many ranks there are.
#[test]
fn double_binary_trees_keep_their_links_busy() {
    for npus in [4, 7, 16, 33] {
        let mut tree = spec(&[(BlockSpec::Switch, npus)], AlgorithmSpec::DoubleBinaryTree, KINDS[0], 256_000_000);
        tree.collectives.chunking = chunks_of(256_000_000);
        tree.network = NetworkSpec::Flow(FlowSpec {});
        let s = run(&tree).summary;
        let wire = 2 * 256_000_000 * 5;
        assert!(s.total_ps > wire * 99 / 100 * (npus as u64 - 1) / npus as u64, "{npus}: {}", s.total_ps);
        assert!(s.total_ps < wire * 110 / 100, "{npus}: {} of {wire}", s.total_ps);
    }
}

/// On a small vector the tree's rounds count, not its bytes.
#[test]
fn small_vectors_prefer_few_rounds() {
    let time = |algorithm| run(&spec(&[(BlockSpec::Switch, 32)], algorithm, KINDS[0], 256)).summary.total_ps;
    let ring = time(AlgorithmSpec::Ring);
    for algorithm in [AlgorithmSpec::HalvingDoubling, AlgorithmSpec::DoubleBinaryTree, AlgorithmSpec::Direct] {
        assert!(time(algorithm) < ring / 3, "{algorithm:?}");
    }
}

#[test]
fn an_order_for_every_chunk_balances_unequal_dimensions() {
    let blocks = [(BlockSpec::Ring, 4), (BlockSpec::Ring, 4), (BlockSpec::Ring, 4)];
    let time = |algorithm| {
        let mut spec = spec(&blocks, algorithm, KINDS[0], 256 << 20);
        spec.collectives.chunking = chunks_of(1 << 20);
        spec.collectives.inflight = 64;
        spec.network = NetworkSpec::Analytical(AnalyticalSpec {});
        let s = run(&spec).summary;
        (s.total_ps, s.lower_bound_ps)
    };
    let ((themis, bound), (fixed, _)) = (time(AlgorithmSpec::Themis), time(AlgorithmSpec::SixPhase));
    assert!(themis * 10 < fixed * 7, "{themis} against {fixed}");
    assert!(themis * 10 < bound * 13, "{themis} against the bound {bound}");
}

#[test]
fn an_algorithm_for_each_dimension() {
    let blocks = [(BlockSpec::Ring, 4), (BlockSpec::Switch, 4)];
    let mut mixed = spec(&blocks, AlgorithmSpec::SixPhase, KINDS[0], 1 << 20);
    mixed.collectives.per_dimension = Some(vec![DimAlgorithmSpec::Direct, DimAlgorithmSpec::HalvingDoubling]);
    assert_eq!(run(&mixed).summary.steps, 1 + 2 + 2 + 1);
    mixed.collectives.per_dimension = Some(vec![DimAlgorithmSpec::Ring]);
    let error = run_spec(&mixed, None).expect_err("one algorithm for two dimensions").to_string();
    assert!(error.contains("per_dimension: 1 algorithms are given; accepted: 2, one per dimension"), "{error}");
    mixed.collectives.algorithm = AlgorithmSpec::Direct;
    assert!(run_spec(&mixed, None).is_err());
}

/// A DGX-1V: eight GPUs, a doubled and a single Hamiltonian cycle of 25 GB/s links.
fn dgx1v(groups: Option<GroupsSpec>) -> Spec {
    let around = |ring: [u32; 8], count| (0..8).flat_map(move |i| vec![(ring[i], ring[(i + 1) % 8]); count]);
    let pairs = around([0, 3, 2, 1, 5, 6, 7, 4], 2).chain(around([0, 1, 3, 7, 5, 4, 6, 2], 1));
    let link = |(from, to)| GraphLinkSpec { from, to, rate_bytes_per_s: 25_000_000_000, latency_ps: 500_000, class: 0 };
    let links = pairs.flat_map(|(a, b)| [link((a, b)), link((b, a))]).collect();
    let nodes = (0..8).map(|i| NodeSpec { name: format!("GPU {i}"), kind: "npu".into() }).collect();
    let mut spec = spec(&[(BlockSpec::Ring, 8)], AlgorithmSpec::Ring, KINDS[0], 240_000_000);
    spec.fabric =
        FabricSpec::Graph { npus: 8, nodes, classes: vec!["NVLink".into()], links, routing: RoutingSpec::default() };
    spec.groups = groups;
    spec.collectives.lanes = syncline_system::spec::LanesSpec::Split;
    spec.collectives.chunking = chunks_of(240_000_000);
    spec.network = NetworkSpec::Analytical(AnalyticalSpec {});
    spec
}

#[test]
fn six_rings_of_a_dgx1() {
    let s = run(&dgx1v(None)).summary;
    // Six directed rings of 25 GB/s, each with a sixth of the vector.
    let expected = 14 * (240_000_000u64 / 48 * 40 + 500_000);
    assert!(s.total_ps.abs_diff(expected) < 20 * 1000, "{} {expected}", s.total_ps);
    // Blink, figure 2: three GPUs in a triangle have rings, two groups of four run at the same time.
    let triangle = GroupsSpec { members: vec![vec![0, 1, 3]], grid: None, along: None };
    let s = run(&dgx1v(Some(triangle))).summary;
    assert_eq!(s.npus, 8);
    let expected = 4 * (240_000_000u64 / 6 * 40 + 500_000);
    assert!(s.total_ps.abs_diff(expected) < 20 * 1000, "{} {expected}", s.total_ps);
    let two = GroupsSpec { members: vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]], grid: None, along: None };
    assert!(run(&dgx1v(Some(two))).summary.total_ps > 0);
    // 1 and 4 have no link, and GPU 0 between them forwards.
    let line = GroupsSpec { members: vec![vec![0, 1, 4]], grid: None, along: None };
    assert!(run(&dgx1v(Some(line))).summary.total_ps > 0);
    let apart = GroupsSpec { members: vec![vec![1, 4]], grid: None, along: None };
    let error = run_spec(&dgx1v(Some(apart)), None).expect_err("not connected").to_string();
    assert_eq!(error, "fabric.links: there is no route from GPU 4 to GPU 1");
}

#[test]
fn groups_that_are_none_are_refused() {
    let refused = |members: Vec<Vec<u32>>, grid| {
        let spec = dgx1v(Some(GroupsSpec { members, grid, along: None }));
        run_spec(&spec, None).expect_err("no groups").to_string()
    };
    assert!(refused(vec![], None).contains("accepted: at least one"));
    assert!(refused(vec![vec![]], None).contains("group 0 has 0 members"));
    assert!(refused(vec![vec![0, 1], vec![2]], None).contains("group 1 has 1 members"));
    assert!(refused(vec![vec![0, 8]], None).contains("there is no NPU 8; accepted: 0 to 7"));
    assert!(refused(vec![vec![0, 1], vec![1, 2]], None).contains("NPU 1 is listed twice"));
    assert!(refused(vec![vec![0, 1, 2]], Some(vec![2, 2])).contains("groups.grid"));
    let mut rooted = dgx1v(None);
    rooted.job = JobSpec::Collective { collective: CollectiveKindSpec::Broadcast, bytes: 8, root: 8, beside: vec![] };
    let error = run_spec(&rooted, None).expect_err("no such root").to_string();
    assert!(error.contains("no rank 8"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Simultaneous events at different nodes commute, whatever runs where.
    #[test]
    fn ties_do_not_matter(
        blocks in crate::folded::blocks(), algorithm in 0usize..10, kind in 0usize..8, bytes in 1u64..100_000,
        slices in 0u32..5, seed: u64, network in proptest::sample::select(exact_networks()), root in any::<u32>(),
    ) {
        prop_assume!(!is_missing(ALGORITHMS[algorithm], KINDS[kind]));
        let mut spec = spec(&blocks, ALGORITHMS[algorithm], KINDS[kind], bytes);
        let npus: u32 = blocks.iter().map(|b| b.1).product();
        spec.job = JobSpec::Collective { collective: KINDS[kind], bytes, root: root % npus, beside: vec![] };
        spec.endpoint = baseline();
        spec.collectives.slices = slices;
        spec.collectives.inflight = 3;
        spec.collectives.chunking = chunks_of(20_000);
        spec.network = network;
        let shuffled = run_spec(&spec, Some(seed)).expect("a legal run");
        prop_assert_eq!(fingerprint(&run(&spec)), fingerprint(&shuffled));
    }
}

/// Chains go along the rings of a machine, beginning or ending at their root.
#[test]
fn broadcasts_use_the_links_of_a_dgx1() {
    for (kind, root) in
        [(CollectiveKindSpec::Broadcast, 0), (CollectiveKindSpec::Broadcast, 5), (CollectiveKindSpec::Reduce, 3)]
    {
        let mut spec = dgx1v(None);
        spec.job = JobSpec::Collective { collective: kind, bytes: 240_000_000, root, beside: vec![] };
        let s = run(&spec).summary;
        let expected = 240_000_000u64 / 6 * 40; // six rings of 25 GB/s
        assert!(s.total_ps > expected && s.total_ps < expected * 112 / 100, "{kind:?} {root}: {}", s.total_ps);
    }
}
