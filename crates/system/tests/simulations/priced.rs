//! Collectives that cost what a model of software says: bytes on the wire in place of their own, a launch, and one after the
//! other in a communicator.

use crate::families::{class, collectives, graph, list, on_grid, reduce};
use crate::families::{named, time};
use crate::support::{
    all_reduce, chunks_of, collective_job, dim, endpoints, fingerprint, ideal, networks, run, summary_but_fold,
};
use proptest::prelude::*;
use syncline_system::spec::{
    AlgorithmSpec, ChunkingSpec, CollectiveKindSpec, CollectiveSpec, EndpointSpec, FoldSpec, GraphNodeSpec, GroupsSpec,
    HeldSpec, LanesSpec, OverrideSpec, PricedSpec, SchedulingSpec, Spec,
};
use syncline_system::{RunError, run_spec};

const LAUNCH: u64 = 23_456_789;

fn named_reduce(bytes: u64) -> GraphNodeSpec {
    named("c", reduce(0, bytes), &[])
}

fn price(bytes: u64, wire_bytes: u64, launch_ps: u64) -> PricedSpec {
    PricedSpec { collective: CollectiveKindSpec::AllReduce, bytes, wire_bytes, launch_ps, held: HeldSpec::default() }
}

#[test]
fn a_collective_takes_its_launch_and_what_its_bytes_on_the_wire_take() {
    for network in networks() {
        for (chunking, lanes) in [
            (ChunkingSpec::Count { chunks: 1 }, LanesSpec::Split),
            (chunks_of(65_536), LanesSpec::Alternate),
            (ChunkingSpec::Count { chunks: 7 }, LanesSpec::Split),
        ] {
            let of = |bytes: u64, priced: Vec<PricedSpec>| {
                let mut spec = all_reduce(vec![dim(4, 25, 700_000), dim(3, 10, 300_000)], ideal(), bytes);
                (spec.network, spec.collectives.chunking, spec.collectives.lanes) = (network.clone(), chunking, lanes);
                spec.collectives.priced = priced;
                run(&spec).summary.total_ps
            };
            let taken = of(1_000_000, vec![price(1_000_000, 1_234_560, LAUNCH)]);
            assert_eq!(taken, of(1_234_560, vec![]) + LAUNCH);
            assert_eq!(
                of(1_000_000, vec![price(999_999, 7, LAUNCH)]),
                of(1_000_000, vec![]),
                "the price of another size"
            );
        }
    }
}

/// Six of them are called at once; in flight there would be room for all.
#[test]
fn collectives_of_a_communicator_go_one_after_the_other() {
    let sizes = [400_000, 100_000, 900_000];
    for endpoint in endpoints() {
        for policy in [SchedulingSpec::Fifo, SchedulingSpec::Lifo] {
            let of = |sizes: &[u64], launch: u64| {
                let nodes = sizes.iter().map(|&bytes| named("c", reduce(0, bytes), &[])).collect();
                let mut family = on_grid("all", &[6], &[0]);
                family.collectives.priced = sizes.iter().map(|&bytes| price(bytes, 2 * bytes, launch)).collect();
                (family.collectives.scheduling, family.collectives.padding) = (policy, true);
                let classes = vec![class("all", 0..6, nodes)];
                let spec =
                    graph(vec![dim(6, 25, 700_000)], endpoint.clone(), networks()[0].clone(), vec![family], classes);
                run(&spec).summary.total_ps
            };
            let alone: u64 = sizes.iter().map(|&bytes| of(&[bytes], LAUNCH)).sum();
            // Endpoints with memory may still write what the NPU has of a collective while others are done.
            let slack = if matches!(endpoint, EndpointSpec::Ideal(_)) { 0 } else { alone / 1000 };
            assert!(of(&sizes, LAUNCH).abs_diff(alone) <= slack);
            assert!((of(&sizes, 0) + 3 * LAUNCH).abs_diff(alone) <= slack);
        }
    }
}

/// A slower NPU launches later, and what was called meanwhile waits behind it, whatever the number of lanes.
#[test]
fn whoever_calls_late_launches_late() {
    let classes = |late: u64| {
        let nodes = |wait: u64| {
            vec![named("f", time(wait), &[]), named("a", reduce(0, 50_000), &[0]), named("b", reduce(0, 70_000), &[0])]
        };
        vec![class("early", 0..3, nodes(1_000)), class("late", [3], nodes(late))]
    };
    let total = |late: u64| {
        let mut family = list("all", &[&[0, 1, 2, 3]]);
        family.collectives.priced = vec![price(50_000, 50_000, LAUNCH), price(70_000, 70_000, LAUNCH)];
        family.collectives.lanes = LanesSpec::Split;
        run(&graph(vec![dim(4, 25, 0)], ideal(), networks()[0].clone(), vec![family], classes(late))).summary.total_ps
    };
    let together = total(1_000);
    for late in [LAUNCH / 2, 5 * LAUNCH] {
        assert_eq!(total(late), together + late - 1_000);
    }
}

#[test]
fn a_folded_run_is_the_same() {
    let mut spec = all_reduce(vec![dim(4, 25, 700_000), dim(4, 10, 300_000)], ideal(), 1_000_000);
    (spec.collectives.padding, spec.collectives.priced) = (true, vec![price(1_000_000, 1_600_000, LAUNCH)]);
    let whole = run(&spec);
    let folded = run(&Spec { fold: FoldSpec::On, ..spec });
    assert_eq!(summary_but_fold(&folded), summary_but_fold(&whole));
}

/// Two groups side by side that share no link: together they take what the slower one takes alone, in whatever order they are
/// named, whether as groups of a collective or as communicators of a family.
#[test]
fn communicators_of_a_family_have_prices_and_grids_of_their_own() {
    let (size, near, far) = (400_000, &[0, 1, 2, 3][..], &[4, 5, 8, 9][..]);
    let own_way = |first: u32, grid: Vec<u32>, wire: u64| {
        let collectives =
            CollectiveSpec { priced: vec![price(size, wire, LAUNCH)], ..all_reduce(vec![], ideal(), 0).collectives };
        OverrideSpec { family: 0, first: vec![first], grid: Some(grid), collectives }
    };
    let overrides = [own_way(0, vec![4], 500_000), own_way(4, vec![2, 2], 900_000)];
    let of = |groups: &[&[u32]]| {
        let mut spec = all_reduce(vec![dim(4, 25, 700_000), dim(3, 10, 300_000)], ideal(), size);
        let members = groups.iter().map(|group| group.to_vec()).collect();
        spec.groups = Some(GroupsSpec { members, grid: None, along: None });
        let named = |own: &&OverrideSpec| groups.iter().any(|group| group[0] == own.first[0]);
        spec.overrides = overrides.iter().filter(named).cloned().collect();
        let mut family = list("all", groups);
        family.collectives = spec.collectives.clone();
        let classes = vec![class("all", groups.concat(), vec![named_reduce(size)])];
        let dims = vec![dim(4, 25, 700_000), dim(3, 10, 300_000)];
        let mut in_graph = graph(dims, ideal(), spec.network.clone(), vec![family], classes);
        in_graph.overrides = spec.overrides.clone();
        let [collective, in_graph] = [spec, in_graph].map(|spec| run(&spec).summary.total_ps);
        assert_eq!(collective, in_graph);
        collective
    };
    let (quick, slow) = (of(&[near]), of(&[far]));
    assert!(quick < slow);
    assert_eq!(of(&[near, far]), slow);
    assert_eq!(of(&[far, near]), slow);
}

#[test]
fn overrides_of_no_communicator_and_of_one_twice_are_refused() {
    let mut spec = all_reduce(vec![dim(4, 25, 0)], ideal(), 1000);
    spec.groups = Some(GroupsSpec { members: vec![vec![0, 1], vec![2, 3]], grid: None, along: None });
    for first in [vec![1], vec![0, 2, 0]] {
        let collectives = spec.collectives.clone();
        spec.overrides = vec![OverrideSpec { family: 0, first, grid: None, collectives }];
        let Err(RunError::Spec(refusals)) = run_spec(&spec, None) else { panic!("it is carried out") };
        assert!(refusals[0].to_string().contains("overrides.0.first"), "{}", refusals[0]);
    }
}

/// What NPUs send is what they send without prices, whatever the protocol makes of it, with all endpoints.
#[test]
fn payload_that_is_sent_does_not_depend_on_prices() {
    use CollectiveKindSpec::{AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter};
    let pairs = |endpoint: EndpointSpec| networks().into_iter().map(move |network| (endpoint.clone(), network));
    for (endpoint, network) in endpoints().into_iter().flat_map(pairs) {
        for kind in [AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast] {
            if kind == Broadcast && matches!(endpoint, EndpointSpec::Ace(_)) {
                continue; // which it does not carry out
            }
            for chunking in [ChunkingSpec::Count { chunks: 3 }, chunks_of(65_536)] {
                let of = |wire_bytes: Option<u64>| {
                    let mut spec = all_reduce(vec![dim(4, 25, 700_000), dim(3, 10, 300_000)], endpoint.clone(), 0);
                    spec.job = collective_job(kind, 960_000);
                    (spec.network, spec.collectives.padding) = (network.clone(), true);
                    (spec.collectives.algorithm, spec.collectives.chunking) = (AlgorithmSpec::Hierarchical, chunking);
                    let priced = |wire_bytes| PricedSpec { collective: kind, ..price(960_000, wire_bytes, 7) };
                    spec.collectives.priced = wire_bytes.map(priced).into_iter().collect();
                    run(&spec).summary
                };
                let plain = of(None);
                assert_eq!(plain.endpoint.sent_bytes + plain.endpoint.transit_bytes, plain.network.injected_bytes);
                for wire_bytes in [1, 480_001, 1_920_000] {
                    let priced = of(Some(wire_bytes));
                    assert_eq!(priced.endpoint.sent_bytes, plain.endpoint.sent_bytes, "{kind:?} {endpoint:?}");
                }
            }
        }
    }
}

#[test]
fn bytes_that_become_none_are_refused() {
    let mut spec = all_reduce(vec![dim(4, 25, 0)], ideal(), 1000);
    spec.collectives.priced = vec![price(1000, 0, 0)];
    let Err(RunError::Spec(refusals)) = run_spec(&spec, None) else { panic!("it is carried out") };
    assert!(refusals[0].to_string().contains("collectives.priced"), "{}", refusals[0]);
    spec.job = collective_job(CollectiveKindSpec::AllReduce, 0);
    spec.collectives.priced = vec![price(0, 0, LAUNCH)];
    assert_eq!(run(&spec).summary.total_ps, 0, "there is nothing to launch");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Communicators along rows and columns, and one of all, in which NPUs call in one order but at different times: every
    /// run ends, and it is the same however simultaneous events are ordered.
    #[test]
    fn nothing_stalls(
        calls in prop::collection::vec((0u8..3, 0usize..3, 0u64..30_000), 1..12),
        launches in prop::collection::vec(0u64..40_000, 3),
        lanes in prop::bool::ANY, lifo in prop::bool::ANY, inflight in 1u32..4, seed in any::<u64>(),
    ) {
        const SIZES: [u64; 3] = [0, 777, 30_000];
        let families = [("rows", vec![0]), ("columns", vec![1]), ("all", vec![0, 1])].into_iter().map(|(name, along)| {
            let mut family = on_grid(name, &[3, 4], &along);
            family.collectives = collectives();
            let c = &mut family.collectives;
            c.priced = SIZES.iter().zip(&launches).map(|(&b, &launch)| price(b, 2 * b, launch)).collect();
            (c.chunking, c.inflight) = (chunks_of(5_000), inflight);
            c.lanes = if lanes { LanesSpec::Split } else { LanesSpec::Alternate };
            c.scheduling = if lifo { SchedulingSpec::Lifo } else { SchedulingSpec::Fifo };
            family
        });
        let nodes = |npu: u64| {
            let of = |(place, &(family, size, wait)): (usize, &(u8, usize, u64))| {
                let after: Vec<u32> = (place > 0).then(|| 2 * (place as u32 - 1)).into_iter().collect();
                [named("f", time(wait * (npu + 1)), &after), named("c", reduce(family, SIZES[size]), &[2 * place as u32])]
            };
            calls.iter().enumerate().flat_map(of).collect()
        };
        let classes = (0..12).map(|npu| class(&format!("{npu}"), [npu], nodes(npu.into()))).collect();
        let spec = graph(vec![dim(3, 25, 500), dim(4, 25, 500)], ideal(), networks()[0].clone(), families.collect(), classes);
        let plain = run_spec(&spec, None).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let shuffled = run_spec(&spec, Some(seed)).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(fingerprint(&plain), fingerprint(&shuffled));
    }
}
