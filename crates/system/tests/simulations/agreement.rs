//! Runs that must agree: modes, backends, orders of simultaneous events.

use crate::support::{
    ace, ace_torus, all_reduce, baseline, chunks_of, collective_job, dim, endpoints, fingerprint, ideal, packet, run,
};
use proptest::prelude::*;
use syncline_system::run_spec;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, DimSpec, FlowSpec, LanesSpec,
    NetworkSpec, Spec,
};

/// The same spec, with packets one by one.
fn reference(spec: &Spec) -> Spec {
    Spec { network: packet(false), ..spec.clone() }
}

#[test]
fn trains_change_nothing() {
    for endpoint in endpoints() {
        let spec = all_reduce(ace_torus([4, 4, 2]), endpoint, 3_000_000);
        let (fast, slow) = (run(&spec), run(&reference(&spec)));
        assert_eq!(fast.summary.total_ps, slow.summary.total_ps);
        assert_eq!(fast.summary.network.link_bytes, slow.summary.network.link_bytes);
        assert!(fast.summary.events <= slow.summary.events);
    }
}

/// Events of equal time and key sit on different NPUs and commute.
#[test]
fn the_order_of_ties_changes_nothing() {
    for endpoint in endpoints() {
        let spec = all_reduce(ace_torus([4, 2, 4]), endpoint, 2_000_002);
        let plain = run(&spec);
        for seed in 0..4 {
            let shuffled = run_spec(&spec, Some(seed)).expect("it ran before");
            assert_eq!(fingerprint(&shuffled), fingerprint(&plain), "seed {seed}");
            assert_eq!(shuffled.tables, plain.tables);
        }
    }
}

#[test]
fn two_runs_are_equal_to_the_last_bit() {
    let spec = all_reduce(ace_torus([4, 4, 4]), ace(), 1_000_000);
    let (a, b) = (run(&spec), run(&spec));
    assert_eq!(fingerprint(&a), fingerprint(&b));
    assert_eq!(a.tables, b.tables);
}

/// Neighbour traffic meets no contention but at the sender's port, which both backends model; the packet
/// backend rounds every packet up by less than a picosecond.
#[test]
fn backends_agree_on_ring_collectives() {
    for endpoint in [ideal(), baseline()] {
        for sizes in [[4, 2, 2], [3, 5, 2], [4, 4, 4]] {
            let spec = all_reduce(ace_torus(sizes), endpoint.clone(), 8 << 20);
            let packet = run(&spec).summary.total_ps as f64;
            let analytical = Spec { network: NetworkSpec::Analytical(AnalyticalSpec {}), ..spec };
            let analytical = run(&analytical).summary.total_ps as f64;
            assert!((packet / analytical - 1.0).abs() < 0.02, "{sizes:?}: {packet} against {analytical}");
        }
    }
}

/// ACE on a backend without packets works on whole messages: never faster, and not absurdly slower.
#[test]
fn ace_runs_without_packets() {
    let spec = all_reduce(ace_torus([4, 4, 2]), ace(), 4 << 20);
    let packets = run(&spec).summary.total_ps;
    let messages = run(&Spec { network: NetworkSpec::Analytical(AnalyticalSpec {}), ..spec }).summary.total_ps;
    assert!(messages >= packets && messages < 3 * packets, "{messages} against {packets}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn random_runs_agree(
        sizes in prop::collection::vec(1u32..5, 1..4),
        bytes in 0u64..400_000,
        chunk in 1_000u64..70_000,
        inflight in 1u32..9,
        endpoint in prop::sample::select(endpoints()),
        algorithm in 0usize..3,
        lanes in 0usize..3,
    ) {
        let dims = sizes.iter().enumerate().map(|(i, &n)| dim(n, 20 + 10 * i as u64, 100_000 + 7 * i as u64)).collect();
        let mut spec = all_reduce(dims, endpoint, bytes);
        spec.collectives.chunking = chunks_of(chunk);
        spec.collectives.inflight = inflight;
        spec.collectives.algorithm = [AlgorithmSpec::Ring, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase][algorithm];
        spec.collectives.lanes = [LanesSpec::Alternate, LanesSpec::Split, LanesSpec::One][lanes];
        let fast = run(&spec);
        prop_assert_eq!(fast.summary.total_ps, run(&reference(&spec)).summary.total_ps);
        let shuffled = run_spec(&spec, Some(1)).expect("it ran before");
        prop_assert_eq!(fingerprint(&shuffled), fingerprint(&fast));
    }
}

/// What goes to one neighbour queues with flows as it does with packets, so that chunks overlap their dimensions alike.
#[test]
fn flows_agree_with_packets_between_neighbours() {
    use AlgorithmSpec::{AceFourPhase, Ring, SixPhase, Themis};
    for sizes in [&[4, 4][..], &[3, 5], &[4, 2, 3], &[8]] {
        let dims: Vec<_> = (20..).step_by(15).zip(sizes).map(|(rate, &n)| dim(n, rate, 300_000)).collect();
        for (algorithm, chunks) in [AceFourPhase, Ring, SixPhase, Themis].into_iter().flat_map(|a| [(a, 3), (a, 16)]) {
            let mut spec = all_reduce(dims.clone(), ideal(), 8 << 20);
            spec.collectives.algorithm = algorithm;
            spec.collectives.chunking = ChunkingSpec::Count { chunks };
            let packets = run(&spec).summary.total_ps as f64;
            let flows = run(&Spec { network: NetworkSpec::Flow(FlowSpec {}), ..spec }).summary.total_ps as f64;
            assert!((flows / packets - 1.0).abs() < 0.01, "{sizes:?} {algorithm:?}: {flows} against {packets}");
        }
    }
}

/// Connections of one sender share its port; the messages of each go one after the other, with packets and with flows.
#[test]
fn flows_agree_with_packets_through_a_switch() {
    use AlgorithmSpec::{Direct, HalvingDoubling, Ring};
    for (ranks, chunks) in [(8, 1), (8, 8), (4, 13)] {
        let line = DimSpec { block: BlockSpec::Switch, ..dim(ranks, 50, 500_000) };
        for (kind, algorithm) in [
            (CollectiveKindSpec::AllReduce, Ring),
            (CollectiveKindSpec::AllReduce, HalvingDoubling),
            (CollectiveKindSpec::AllReduce, Direct),
            (CollectiveKindSpec::AllToAll, Direct),
            (CollectiveKindSpec::Gather, Direct),
        ] {
            let mut spec = all_reduce(vec![line.clone()], ideal(), 8 << 20);
            spec.job = collective_job(kind, 8 << 20);
            spec.collectives.algorithm = algorithm;
            spec.collectives.chunking = ChunkingSpec::Count { chunks };
            let packets = run(&spec).summary.total_ps as f64;
            let flows = run(&Spec { network: NetworkSpec::Flow(FlowSpec {}), ..spec }).summary.total_ps as f64;
            assert!((flows / packets - 1.0).abs() < 0.02, "{kind:?} {algorithm:?} {chunks}: {flows} against {packets}");
        }
    }
}
