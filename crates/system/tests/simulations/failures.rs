//! What cannot work is refused, or fails with who waits for what.

use crate::support::{ace_spec, ace_torus, all_reduce, all_to_all, dim, dims, endpoints, ideal, least, packet, run};
use std::sync::Arc;
use syncline_system::spec::{
    AceSpec, AlgorithmSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, DeadlockRule, EndpointSpec, FlowSpec,
    FoldSpec, GroupsSpec, NetworkSpec, PacketSpec, Spec,
};
use syncline_system::{RunError, check, check_spec, run as run_json, run_spec};

fn refusal(spec: &Spec) -> String {
    match run_spec(spec, None) {
        Err(refused @ RunError::Spec(_)) => refused.to_string(),
        other => panic!("{other:?}"),
    }
}

fn with_ace(change: impl FnOnce(&mut AceSpec)) -> Spec {
    let mut ace = ace_spec();
    change(&mut ace);
    all_reduce(ace_torus([4, 4, 4]), EndpointSpec::Ace(ace), 1 << 20)
}

#[test]
fn a_small_sram_is_refused_with_the_least_that_works() {
    let refused = run_spec(&with_ace(|a| a.sram_bytes = 100_000), None).expect_err("a small SRAM");
    let needed = least(&refused);
    assert!(needed > 100_000, "{refused}");
    run(&with_ace(|a| a.sram_bytes = needed));
    refusal(&with_ace(|a| a.sram_bytes = needed - 64));
}

#[test]
fn impossible_descriptions_are_refused() {
    assert!(refusal(&with_ace(|a| a.fsms = 3)).contains("accepted: 4 or more"));
    assert!(refusal(&with_ace(|a| a.clock_hz = 0)).contains("clock_hz"));
    assert!(refusal(&all_reduce(vec![], ideal(), 1)).contains("at least one dimension"));
    assert!(refusal(&all_reduce(vec![dim(0, 1, 1)], ideal(), 1)).contains("no nodes"));
    assert!(refusal(&all_reduce(vec![dim(4, 0, 1)], ideal(), 1)).contains("a link needs a rate"));
    assert!(refusal(&all_reduce(vec![dim(1 << 16, 1, 1), dim(1 << 16, 1, 1)], ideal(), 1)).contains("nodes"));
    let mut spec = all_reduce(vec![dim(4, 1, 1)], ideal(), 1);
    spec.output.trace_npus = vec![4];
    assert!(refusal(&spec).contains("there is no NPU 4"));
    let mut spec = all_reduce(vec![dim(4, 1, 1)], ideal(), 1);
    spec.network = NetworkSpec::Packet(PacketSpec { packet_bytes: 0, ..PacketSpec::DEFAULT });
    refusal(&spec);
    assert!(matches!(run_json("{", &Arc::default()), Err(RunError::Spec(_))));
    assert!(matches!(check("{"), Err(RunError::Spec(_))));
    assert!(
        matches!(run_json(r#"{"fabricc": []}"#, &Arc::default()), Err(RunError::Spec(m)) if m[0].message.contains("fabricc"))
    );
}

#[test]
fn more_time_or_bytes_than_can_be_counted_are_refused() {
    for endpoint in endpoints() {
        let spec = all_reduce(vec![dim(4, 1_000_000, 1)], endpoint.clone(), u64::MAX / 2);
        assert!(refusal(&spec).contains("bytes; accepted"));
        let mut spec = all_reduce(vec![dim(4, 1, 1)], endpoint, 1 << 50);
        dims(&mut spec)[0].rate_bytes_per_s = 1;
        assert!(refusal(&spec).contains("days of simulated time"));
        dims(&mut spec)[0].rate_bytes_per_s = 1 << 40;
        dims(&mut spec)[0].latency_ps = u64::MAX;
        assert!(refusal(&spec).contains("days of simulated time"));
    }
}

/// FSMs that run ahead of their neighbours fill input buffers. Too small a buffer is refused; the smallest
/// that is accepted drains under every rule.
#[test]
fn the_smallest_buffers_suffice() {
    for (rule, fsms) in [(DeadlockRule::Bubble, 64), (DeadlockRule::Dateline, 16), (DeadlockRule::None, 256)] {
        let mut spec = with_ace(|a| a.fsms = fsms);
        let network = |buffer| {
            NetworkSpec::Packet(PacketSpec { buffer_packets: Some(buffer), deadlock_rule: rule, ..PacketSpec::DEFAULT })
        };
        spec.network = network(2);
        let smallest = least(&run_spec(&spec, None).expect_err("small buffers")) as u32;
        spec.network = network(smallest - 1);
        refusal(&spec);
        spec.network = network(smallest);
        run(&spec);
        spec.network = packet(true);
        run(&spec);
    }
}

/// A message waits for the latency of every link on its way, so that few steps may take long.
#[test]
fn a_way_of_many_links_is_as_long_as_all_of_them() {
    let mut spec = all_reduce(vec![dim(2, 25, 1), dim(8, 25, 1)], ideal(), 7);
    spec.collectives.algorithm = AlgorithmSpec::Direct;
    dims(&mut spec)[1].latency_ps = 3_000_000 * 1_000_000_000_000;
    assert!(refusal(&spec).contains("days of simulated time; accepted: up to 106 days"), "four links in a row");
    spec.groups = Some(GroupsSpec { members: vec![vec![0, 2]], grid: None, along: None });
    assert!(run(&spec).summary.total_ps > 6_000_000 * 1_000_000_000_000, "one link, twice");
}

/// Links in the middle of a ring carry more than the bound of simulated time knows of: the run is ended, not wrong.
#[test]
fn a_run_that_outlasts_simulated_time_fails_with_its_name() {
    let mut spec = all_reduce(vec![dim(64, 1, 1)], ideal(), 2_000_000);
    spec.job = crate::support::collective_job(CollectiveKindSpec::AllToAll, 2_000_000);
    spec.collectives.algorithm = AlgorithmSpec::Direct;
    spec.network = NetworkSpec::Flow(FlowSpec {});
    spec.collectives.chunking = crate::support::chunks_of(2_000_000);
    dims(&mut spec)[0].rate_bytes_per_s = 1;
    let Err(RunError::Simulation(message)) = run_spec(&spec, None) else { panic!("it ends in time") };
    assert!(message.starts_with("simulated time is over"), "{message}");
    assert!(message.contains("lies beyond 106 days (2^63 ps)"), "{message}");
}

#[test]
fn what_messages_and_keys_cannot_name_is_refused_with_the_most() {
    let mut spec = all_reduce(vec![dim(4, 25, 1)], ideal(), 1 << 30);
    spec.collectives.algorithm = AlgorithmSpec::DoubleBinaryTree;
    spec.collectives.slices = 1 << 23;
    let message = refusal(&spec);
    assert!(message.starts_with("collectives.slices: "), "{message}");
    assert!(message.contains("steps of a rank in a phase; accepted: up to 8388607"), "{message}");
    spec.collectives.algorithm = AlgorithmSpec::OneHopTrees;
    spec.collectives.slices = 1 << 30;
    assert!(refusal(&spec).contains("steps of a rank"), "the product is refused, too");

    let mut spec = all_reduce(vec![dim(2, 25, 1); 17], ideal(), 1 << 20);
    spec.collectives.algorithm = AlgorithmSpec::SixPhase;
    let message = refusal(&spec);
    assert!(message.contains("34 phases; accepted: up to 16"), "{message}");
    dims(&mut spec).truncate(8);
    assert_eq!(run(&spec).summary.steps, 16);

    let mut spec = all_reduce(vec![dim(2, 25, 1)], ideal(), 1 << 32);
    spec.collectives.chunking = crate::support::chunks_of(1);
    let message = refusal(&spec);
    assert!(message.starts_with("collectives.chunking: "), "{message}");
    assert!(message.contains("accepted: up to 2147483647"), "{message}");
}

/// What a run takes is estimated before it is taken, whatever takes it: NPUs, folded or not, chunks, or those in flight.
#[test]
fn what_exceeds_the_memory_is_refused_with_what_would_fit() {
    let limited = |mut spec: Spec, bytes| {
        spec.memory_limit_bytes = Some(bytes);
        checked(&spec)
    };
    let mut wide = all_reduce(vec![dim(128, 25, 1), dim(64, 25, 1), dim(64, 25, 1)], ideal(), 1 << 20);
    let message = limited(wide.clone(), 1 << 27);
    assert!(message.contains("524288 simulated NPUs (which are not folded: folding is turned off) take"), "{message}");
    assert!(message.contains("; accepted: about "), "{message}");
    wide.fold = FoldSpec::On;
    let message = limited(wide, 100_000_000);
    assert!(message.contains("524288 NPUs take about 106 MB of memory, of which 100 MB may be taken"), "{message}");
    let mut crumbs = all_reduce(vec![dim(4, 25, 1)], ideal(), 1 << 30);
    crumbs.collectives.chunking = crate::support::chunks_of(16);
    let message = limited(crumbs, 1 << 30);
    assert!(message.starts_with("collectives.chunking: the run takes about"), "{message}");
    let mut flood = all_reduce(vec![dim(1 << 10, 25, 1)], ideal(), 1 << 30);
    flood.fold = FoldSpec::Off;
    flood.collectives.chunking = ChunkingSpec::Count { chunks: 4096 };
    flood.collectives.inflight = 65_536;
    let message = limited(flood, 1 << 30);
    assert!(message.starts_with("collectives.inflight: the run takes about"), "{message}");
    let mut far = all_to_all(vec![dim(1 << 20, 25, 1)], ideal(), 1 << 22);
    far.fold = FoldSpec::On;
    let message = limited(far, 1 << 30);
    assert!(message.starts_with("collectives.algorithm: routes over many links take about"), "{message}");
    assert_eq!(limited(all_reduce(vec![dim(4, 25, 1)], ideal(), 1 << 20), 1 << 30), "");
}

/// What `check` refuses, if it does.
fn checked(spec: &Spec) -> String {
    check_spec(spec).err().map_or(String::new(), |refused| refused.to_string())
}

#[test]
fn what_is_large_is_checked_like_the_rest() {
    let npus = 1 << 21;
    let mut spec = all_reduce(vec![dim(npus, 25, 1)], ideal(), 1 << 20);
    spec.fold = FoldSpec::Off;
    assert_eq!(checked(&spec), "");
    spec.output.trace_npus = vec![npus];
    assert!(checked(&spec).contains("there is no NPU 2097152"));
    spec.output.trace_npus = vec![];
    spec.network = NetworkSpec::Packet(PacketSpec { buffer_packets: Some(1), ..PacketSpec::DEFAULT });
    assert!(checked(&spec).contains("input buffers of 1 packets"));
}

/// As much as can be written down, on as many NPUs as there are anywhere, through links as slow as can be: whoever counts
/// bytes or time says what is too much, and none of it wraps around to something small.
#[test]
fn bytes_and_times_that_no_counter_holds_are_refused_by_name() {
    let kinds = [CollectiveKindSpec::AllReduce, CollectiveKindSpec::ReduceScatter, CollectiveKindSpec::AllToAll];
    for (endpoint, kind) in endpoints().into_iter().flat_map(|e| kinds.map(|kind| (e.clone(), kind))) {
        for bytes in [1 << 62, u64::MAX, u64::MAX / 3] {
            let mut spec = all_reduce(vec![dim(100_000, 1, 1)], endpoint.clone(), bytes);
            dims(&mut spec)[0].rate_bytes_per_s = 1;
            spec.fold = FoldSpec::Auto;
            spec.job = crate::support::collective_job(kind, bytes);
            let message = refusal(&spec);
            assert!(message.contains("bytes; accepted: up to 9.2e18 over all NPUs"), "{kind:?}: {message}");
        }
        let mut spec = all_reduce(vec![dim(100_000, 1, 1)], endpoint, 1 << 40);
        dims(&mut spec)[0].rate_bytes_per_s = 1;
        spec.fold = FoldSpec::Auto;
        let message = refusal(&spec);
        assert!(message.contains("days of simulated time; accepted: up to 106 days"), "{kind:?}: {message}");
    }
    // Nobody sends anything, so that only the number of chunks is too large.
    let mut spec = all_reduce(vec![dim(1, 1, 1)], ideal(), 1 << 62);
    spec.collectives.chunking = crate::support::chunks_of(1);
    assert!(refusal(&spec).starts_with("collectives.chunking: "));
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    assert_eq!(run(&spec).summary.total_ps, 0);
}

/// Keys of simultaneous events tell 256 ports of an NPU apart: one more is refused by number, not mixed up with another.
#[test]
fn an_ace_has_as_many_ports_as_keys_tell_apart() {
    let of = |peers: u32| {
        let mut spec = all_reduce(vec![dim(peers + 1, 25, 500_000)], EndpointSpec::Ace(ace_spec()), 1_000);
        dims(&mut spec)[0].block = BlockSpec::FullyConnected;
        spec.collectives.algorithm = AlgorithmSpec::Direct;
        check_spec(&spec)
    };
    assert!(of(256).is_ok());
    let refused = of(257).expect_err("one port too many").to_string();
    assert!(refused.contains("an NPU with 257 ports has no ACE") && refused.contains("up to 256 ports"), "{refused}");
}
