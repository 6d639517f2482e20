//! Communication and compute that share an NPU while both run.

use crate::folded::blocks;
use crate::models::convolutional;
use crate::support::{
    all_reduce, baseline, chunks_of, collective_job, dim, endpoints, exact_networks, fingerprint, forwarding, ideal,
    run,
};
use proptest::prelude::*;
use syncline_system::run_spec;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BaselineSpec, BlockSpec, BusSpec, CollectiveKindSpec, ComputeSpec, ContentionSpec,
    EndpointSpec, JobSpec, LoadSpec, NetworkSpec, Spec, StrategySpec,
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
