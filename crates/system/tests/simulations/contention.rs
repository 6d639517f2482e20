//! Communication and compute that share an NPU while both run.

use crate::families::{alike, class, crowd, flow, graph, lattice, list, node, reduce, switch, time, two_jobs};
use crate::folded::blocks;
use crate::models::convolutional;
use crate::support::{
    all_reduce, baseline, chunks_of, collective_job, dim, endpoints, exact_networks, fingerprint, forwarding, ideal,
    packet, run, summary_but_fold,
};
use proptest::prelude::*;
use std::sync::Arc;
use syncline_system::run_spec;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BaselineSpec, BlockSpec, BusSpec, ChunkingSpec, CollectiveKindSpec, ComputeSpec,
    ContentionSpec, EndpointSpec, GraphNodeSpec, JobSpec, LanesSpec, LoadSpec, NetworkSpec, OrderSpec, Spec,
    StrategySpec, WorkSpec,
};

/// 80 SMs, six of them with communication, on whatever memory the baseline had.
pub fn contended(mut endpoint: EndpointSpec) -> EndpointSpec {
    if let EndpointSpec::Baseline(BaselineSpec { contention, .. }) = &mut endpoint {
        *contention = Some(ContentionSpec { sms: 80, comm_sms: 6, comm_warps: 16, kernel_milliwarps: 64_000 });
    }
    endpoint
}

/// An all-reduce beside loads of so many thousandths of a warp and bytes of memory traffic per second.
fn beside(memory: u64, sms: u64, loads: &[(u64, u64)]) -> Spec {
    let mut spec = all_reduce(vec![dim(8, 100, 500_000)], contended(baseline()), 8 << 20);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    let load = |&(milliwarps, memory_bytes_per_s): &(u64, u64)| LoadSpec { milliwarps, memory_bytes_per_s };
    let JobSpec::Collective { beside, .. } = &mut spec.job else { panic!("a collective") };
    beside.extend(loads.iter().map(load));
    let EndpointSpec::Baseline(BaselineSpec { memory_bytes_per_s, sm_bytes_per_s, .. }) = &mut spec.endpoint else {
        panic!("a baseline")
    };
    (*memory_bytes_per_s, *sm_bytes_per_s) = (memory * 1_000_000_000, sms * 1_000_000_000);
    spec
}

/// Four NPUs that train a network of convolutions.
fn training(endpoint: EndpointSpec, overlap: bool) -> Spec {
    let mut spec = all_reduce(vec![dim(4, 100, 500_000)], endpoint, 0);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.collectives.padding = true;
    spec.collectives.chunking = chunks_of(1 << 20);
    spec.network = NetworkSpec::Analytical(AnalyticalSpec {});
    spec.job = JobSpec::Training {
        host_kernel_ps: 0,
        workload: convolutional(),
        strategy: StrategySpec::DataParallel,
        iterations: 2,
        overlap,
        buckets: None,
        barrier: false,
        drain: false,
        update: true,
        stragglers: vec![],
        compute: ComputeSpec { flops_per_s: 120e12, memory_bytes_per_s: 450e9, scale: 1.0, ..ComputeSpec::default() },
        background: None,
    };
    spec
}

/// What both say, but for the cost of the runs.
fn same(a: &Spec, b: &Spec) {
    let print = |spec: &Spec| {
        let mut results = run(spec);
        results.summary.events = 0;
        fingerprint(&results)
    };
    assert_eq!(print(a), print(b), "{a:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn collectives_beside_nothing_are_those_of_the_fixed_split(
        blocks in blocks(), network in proptest::sample::select(exact_networks()), algorithm in 0usize..3, kind in 0usize..4, bytes in 1u64..200_000,
        chunk in 1000u64..90_000, transit: bool, writes: bool,
    ) {
        let mut endpoint = baseline();
        if transit && !blocks.iter().any(|b| b.0 == BlockSpec::Switch && b.1 > 1) {
            endpoint = forwarding(endpoint);
        }
        if let EndpointSpec::Baseline(BaselineSpec { charge_writes, .. }) = &mut endpoint {
            *charge_writes = writes;
        }
        let mut spec = all_reduce(crate::folded::product(&blocks), endpoint.clone(), 0);
        spec.network = network;
        spec.collectives.algorithm = [AlgorithmSpec::Ring, AlgorithmSpec::SixPhase, AlgorithmSpec::Direct][algorithm];
        let kinds = [CollectiveKindSpec::AllReduce, CollectiveKindSpec::ReduceScatter, CollectiveKindSpec::AllGather, CollectiveKindSpec::AllToAll];
        spec.job = collective_job(kinds[kind], bytes);
        spec.collectives.chunking = chunks_of(chunk);
        let shared = Spec { endpoint: contended(endpoint), ..spec.clone() };
        same(&spec, &shared);
    }
}

/// Where compute and communication never meet, both have everything, and each takes what it takes alone.
#[test]
fn training_without_overlap_is_that_of_the_fixed_split() {
    same(&training(baseline(), false), &training(contended(baseline()), false));
}

#[test]
fn what_runs_at_once_is_slower_and_moves_the_same_bytes() {
    let fixed = run(&training(baseline(), true)).summary;
    let shared = run(&training(contended(baseline()), true)).summary;
    assert_eq!(fixed.compute_ps, fixed.compute_alone_ps);
    assert_eq!(shared.compute_alone_ps, fixed.compute_ps);
    assert!(shared.compute_ps > shared.compute_alone_ps && shared.compute_ps < shared.compute_alone_ps * 3 / 2);
    let blocking = run(&training(contended(baseline()), false)).summary;
    assert!(shared.total_ps < blocking.total_ps, "to share is better than to wait");
    let mut drained = [training(baseline(), true), training(contended(baseline()), true)];
    let bytes = drained.each_mut().map(|spec| {
        let JobSpec::Training { drain, .. } = &mut spec.job else { panic!("training") };
        *drain = true;
        let ends = run(spec).summary.endpoint;
        (ends.memory_read_bytes, ends.memory_write_bytes, ends.sent_bytes)
    });
    assert_eq!(bytes[0], bytes[1]);
}

/// The SMs give a ring's all-reduce 16 of 80 warps' time: 1.5 bytes read per byte sent, at a fifth of 480 GB/s.
#[test]
fn a_load_takes_what_its_warps_are_due() {
    let sent = 2.0 * 7.0 / 8.0 * f64::from(8 << 20);
    let total = run(&beside(900, 480, &[(64_000, 1)])).summary.total_ps as f64;
    let bound = 1.5 * sent / 96e9 * 1e12;
    assert!((bound..1.1 * bound).contains(&total), "{total} against {bound}");
}

#[test]
fn more_of_a_resource_never_slows_and_more_load_never_helps() {
    let total = |memory, sms, loads: &[(u64, u64)]| run(&beside(memory, sms, loads)).summary.total_ps;
    let no_slower =
        |more: u64, less: u64, what: &str| assert!(more <= less + less / 100, "{what}: {more} after {less}");
    let loads = [(64_000, 429_000_000_000), (44_800, 300_000_000_000)];
    for n in [1, 2, 4] {
        no_slower(total(300 * 2 * n, 480, &loads), total(300 * n, 480, &loads), "memory");
        no_slower(total(900, 120 * 2 * n, &loads), total(900, 120 * n, &loads), "SMs");
    }
    no_slower(total(300, 480, &[]), total(300, 480, &loads[..1]), "a load");
    no_slower(total(300, 480, &loads[..1]), total(300, 480, &loads), "two loads");
}

#[test]
fn simultaneous_events_commute() {
    let whole = Spec { output: training(ideal(), true).output, ..training(contended(baseline()), true) };
    let print = |spec: &Spec, seed| {
        let mut results = run_spec(spec, seed).unwrap_or_else(|error| panic!("{error}"));
        // A timer of what is shared is set anew with each change, and of those of one time the order says how many that is.
        results.summary.events = 0;
        fingerprint(&results)
    };
    for spec in [whole, beside(450, 480, &[(64_000, 400_000_000_000)])] {
        let first = print(&spec, None);
        for seed in 0..5 {
            assert_eq!(print(&spec, Some(seed)), first);
        }
    }
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let refusal = |spec: &Spec| run_spec(spec, None).err().map_or_else(|| panic!("ran"), |error| error.to_string());
    for endpoint in endpoints() {
        let spec = Spec { endpoint, ..beside(900, 480, &[(1000, 1)]) };
        assert!(refusal(&spec).contains("job.beside: static contention shares nothing"), "{}", refusal(&spec));
    }
    let with = |change: fn(&mut ContentionSpec)| {
        let mut spec = beside(900, 480, &[]);
        let EndpointSpec::Baseline(BaselineSpec { contention: Some(c), .. }) = &mut spec.endpoint else {
            panic!("shared")
        };
        change(c);
        refusal(&spec)
    };
    assert!(with(|c| c.comm_sms = 0).contains("0 of 80 SMs"));
    assert!(with(|c| c.comm_sms = 81).contains("81 of 80 SMs"));
    assert!(with(|c| c.comm_warps = 0).contains("0 warps"));
    let mut spec = beside(900, 480, &[]);
    let EndpointSpec::Baseline(BaselineSpec { buses, .. }) = &mut spec.endpoint else { panic!("a baseline") };
    *buses = BusSpec::Loggp { latency_ps: 0, overhead_ps: 0, gap_ps: 0, message_bytes: None };
    assert!(refusal(&spec).contains("endpoint.buses: ") && refusal(&spec).contains("accepted: rate"));
    assert!(refusal(&beside(900, 480, &[(0, 1)])).contains("0 warps"));
    assert!(refusal(&beside(0, 480, &[])).contains("endpoint.memory_bytes_per_s"));
}

/// The same graphs, whose compute takes no time, on NPUs that begin at different times.
fn without_compute(mut spec: Spec, jitter_ps: u64) -> Spec {
    let JobSpec::Graph { graph, .. } = &mut spec.job else { panic!("a graph") };
    for node in Arc::make_mut(graph).classes.iter_mut().flat_map(|class| &mut class.nodes) {
        if let WorkSpec::Time { time_ps } = &mut node.work {
            *time_ps = 0;
        }
    }
    spec.start.jitter_ps = jitter_ps;
    spec
}

/// The networks on which families are tried.
fn networks_of_families() -> [NetworkSpec; 3] {
    [flow(), packet(true), NetworkSpec::Analytical(AnalyticalSpec {})]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Families that overlap, each in a room of its own, queue for what they share as with the fixed split.
    #[test]
    fn families_beside_nothing_are_those_of_the_fixed_split(
        crowd in crowd(), network in proptest::sample::select(networks_of_families().to_vec()), jitter in 0u64..20_000_000,
    ) {
        let on = |endpoint| without_compute(crowd.spec(endpoint, network.clone()), jitter);
        same(&on(baseline()), &on(contended(baseline())));
    }

    /// The same with messages between two ranks beside collectives.
    #[test]
    fn messages_beside_nothing_are_those_of_the_fixed_split(
        lattice in lattice(), network in proptest::sample::select(networks_of_families().to_vec()), two: bool,
        jitter in 0u64..20_000_000,
    ) {
        let on = |endpoint| without_compute(alike(&lattice, two, endpoint, network.clone()), jitter);
        same(&on(baseline()), &on(contended(baseline())));
    }

    /// Compute beside them changes when bytes move, and not how many do.
    #[test]
    fn families_and_messages_beside_compute_move_the_same_bytes_in_any_order(
        lattice in lattice(), two: bool, seed: u64, slow in 1u64..3_000,
    ) {
        let on = |endpoint| {
            let mut spec = alike(&lattice, two, endpoint, flow());
            let JobSpec::Graph { graph, .. } = &mut spec.job else { panic!("a graph") };
            for node in Arc::make_mut(graph).classes.iter_mut().flat_map(|class| &mut class.nodes) {
                if let WorkSpec::Time { time_ps } = &mut node.work {
                    *time_ps *= slow;
                }
            }
            spec
        };
        let [fixed, shared] = [on(baseline()), on(contended(baseline()))];
        let (of_fixed, of_shared) = (run(&fixed), run(&shared));
        let bytes = |results: &syncline_system::Results| {
            let ends = &results.summary.endpoint;
            (ends.memory_read_bytes, ends.memory_write_bytes, ends.sent_bytes, results.summary.network.delivered_bytes)
        };
        prop_assert_eq!(bytes(&of_fixed), bytes(&of_shared));
        let summary = &of_shared.summary;
        // The slowest NPU may be one of the other class.
        if summary.npu == of_fixed.summary.npu {
            prop_assert_eq!(summary.compute_alone_ps, of_fixed.summary.compute_alone_ps);
        }
        prop_assert!(summary.compute_ps >= summary.compute_alone_ps);
        let parts = summary.compute_ps + summary.exposed_ps + summary.bubble_ps + summary.background_wait_ps;
        prop_assert_eq!(parts + summary.drain_ps, summary.total_ps);
        let shuffled = run_spec(&shared, Some(seed)).expect("it has run before");
        prop_assert_eq!(summary_but_fold(&of_shared), summary_but_fold(&shuffled));
    }
}

const NPUS: u32 = 4;
/// Bytes of a block of a ring among them.
const BLOCK: u64 = 1_000_000;
/// Bytes of memory and, on all six SMs of communication together, of messages that an NPU reads in a nanosecond.
const READS: u64 = 2;

/// Families of the same four NPUs whose network and buses take no time, so that reading is all that an all-reduce waits for.
fn of_families(families: usize, nodes: Vec<GraphNodeSpec>) -> Spec {
    let family = |number| {
        let mut family = list(&format!("f{number}"), &[&[0, 1, 2, 3]]);
        family.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
        family.collectives.lanes = LanesSpec::One;
        family
    };
    let mut wires = switch(NPUS, 1, 0);
    wires.rate_bytes_per_s = u64::MAX;
    let endpoint = contended(EndpointSpec::Baseline(BaselineSpec {
        memory_bytes_per_s: READS * 1_000_000_000,
        sm_bytes_per_s: READS * 1_000_000_000,
        bus_bytes_per_s: u64::MAX,
        ..BaselineSpec::default()
    }));
    let network = NetworkSpec::Analytical(AnalyticalSpec {});
    let families = (0..families).map(family).collect();
    graph(vec![wires], endpoint, network, families, vec![class("all", 0..NPUS, nodes)])
}

/// What a rank of a ring reads for an all-reduce, 1.5 bytes per byte sent, at so many bytes a nanosecond.
fn reading(bytes_per_ns: f64) -> f64 {
    1.5 * 2.0 * f64::from(NPUS - 1) * BLOCK as f64 / bytes_per_ns * 1e3
}

fn all_of(family: u8, after: &[u32]) -> GraphNodeSpec {
    node(reduce(family, u64::from(NPUS) * BLOCK), after)
}

fn close(got: u64, expected: f64) {
    assert!((got as f64 - expected).abs() <= 1e-6 * expected, "{got} instead of {expected}");
}

#[test]
fn families_that_never_meet_take_what_each_takes_alone() {
    let alone = run(&of_families(1, vec![all_of(0, &[])])).summary.total_ps;
    close(alone, reading(READS as f64));
    for families in 2..5u8 {
        let in_turn = (0..families).map(|family| all_of(family, family.checked_sub(1).map(u32::from).as_slice()));
        let total = run(&of_families(families.into(), in_turn.collect())).summary.total_ps;
        assert_eq!(total, u64::from(families) * alone);
    }
}

/// Families that go on at once have an equal part each of what communication has of the NPU, also beside a kernel, which has
/// the rest of it.
#[test]
fn families_at_once_share_what_communication_has() {
    for families in 1..5u8 {
        let together: Vec<_> = (0..families).map(|family| all_of(family, &[])).collect();
        close(
            run(&of_families(families.into(), together.clone())).summary.total_ps,
            f64::from(families) * reading(READS as f64),
        );
        // 16 of 80 warps are of communication on its six SMs, while it goes on, which is less long than the kernel.
        let (kernel, communication) = (1e12, f64::from(families) * reading(READS as f64 / 5.0));
        let beside = [together, vec![node(time(kernel as u64), &[])]].concat();
        let summary = run(&of_families(families.into(), beside)).summary;
        close(summary.compute_ps, kernel + communication * 6.0 / 80.0 / 5.0);
        let ends = summary.endpoint.resources.iter().find(|resource| resource.resource == "sm").expect("it has SMs");
        close(ends.busy_ps as u64 / u64::from(NPUS), communication);
    }
}

/// Jobs have NPUs of their own, so that what they share is the network.
#[test]
fn jobs_on_shared_npus_run_like_those_of_the_fixed_split() {
    for jobs in [&[0][..], &[0, 1]] {
        let on = |endpoint| Spec { endpoint, ..two_jobs(jobs) };
        same(&on(baseline()), &on(contended(baseline())));
    }
}

/// Graphs of a class whose streams compute for a time each, and whatever else they do.
fn on_streams(streams: &[OrderSpec], nodes: Vec<GraphNodeSpec>) -> Spec {
    let mut spec = of_families(1, nodes);
    let JobSpec::Graph { graph, .. } = &mut spec.job else { panic!("a graph") };
    Arc::make_mut(graph).classes[0].streams = streams.to_vec();
    spec
}

fn on_stream(stream: u8, time_ps: u64) -> GraphNodeSpec {
    GraphNodeSpec { stream, ..node(time(time_ps), &[]) }
}

#[test]
fn streams_share_their_npu_however_many_there_are() {
    for streams in 1..8u8 {
        let nodes = (0..streams).map(|stream| on_stream(stream, 1_000_000)).collect();
        let summary = run(&on_streams(&vec![OrderSpec::InOrder; streams.into()], nodes)).summary;
        close(summary.total_ps, f64::from(streams) * 1e6);
        assert_eq!(summary.compute_alone_ps, 1_000_000);
    }
}

/// A host issues a kernel and a collective while another kernel runs, which it does not slow down; what it does ends in the
/// instant in which that kernel ends.
#[test]
fn a_host_takes_nothing_of_its_npu() {
    let kernel = 1_000_000_000;
    let collective = node(reduce(0, u64::from(NPUS) * BLOCK), &[1]);
    let nodes = vec![on_stream(0, kernel), on_stream(1, kernel), collective, on_stream(0, kernel)];
    let of = |order| run(&on_streams(&[OrderSpec::InOrder, order], nodes.clone())).summary;
    let hosted = of(OrderSpec::Host);
    // Communication has a fifth of its SMs beside the second kernel, and ends after that.
    let (alone, beside) = (reading(READS as f64), reading(READS as f64 / 5.0));
    assert!(beside > 2.0 * kernel as f64);
    let second = kernel as f64 / (1.0 - 6.0 / 80.0 / 5.0);
    close(hosted.compute_ps, kernel as f64 + second);
    close(hosted.total_ps, kernel as f64 + second + alone * (1.0 - second / beside));
    assert_eq!(hosted.background_compute_ps, hosted.background_compute_alone_ps);
    let shared = of(OrderSpec::InOrder);
    assert!(shared.compute_ps > hosted.compute_ps && shared.background_compute_ps > shared.background_compute_alone_ps);
}
