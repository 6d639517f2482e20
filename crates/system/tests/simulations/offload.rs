//! Switch offload: sums and copies made by switches.

use crate::algorithms::KINDS;
use crate::folded::same_both_ways;
use crate::support::{
    all_reduce, baseline, chunks_of, collective_job, exact_networks, fingerprint, ideal, networks, packet, resource,
    run, switch_offload, switch_offload_spec,
};
use proptest::prelude::*;
use syncline_system::run_spec;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, DimAlgorithmSpec, DimSpec,
    EndpointSpec, FabricSpec, FlowSpec, GraphLinkSpec, GroupsSpec, JobSpec, NetworkSpec, NodeSpec, RoutingSpec, Spec,
    SwitchOffloadSpec,
};

const LATENCY: u64 = 70_000;
/// Picoseconds per byte of links, of the bus and of ALUs, times two.
const LINK: u64 = 10;
const BUS: u64 = 4;
const ALU: u64 = 5;

fn dims(blocks: &[(BlockSpec, u32)]) -> Vec<DimSpec> {
    let dim = |&(block, size)| DimSpec {
        block,
        size,
        rate_bytes_per_s: 2_000_000_000_000 / LINK,
        latency_ps: LATENCY,
        links: 1,
    };
    blocks.iter().map(dim).collect()
}

fn spec(blocks: &[(BlockSpec, u32)], kind: CollectiveKindSpec, bytes: u64) -> Spec {
    let mut spec = all_reduce(dims(blocks), switch_offload(), bytes);
    spec.collectives.algorithm = AlgorithmSpec::Hierarchical;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    spec.collectives.inflight = 1;
    spec.job = collective_job(kind, bytes);
    spec
}

fn with(spec: &Spec, change: impl FnOnce(&mut SwitchOffloadSpec)) -> Spec {
    let mut endpoint = switch_offload_spec();
    change(&mut endpoint);
    Spec { endpoint: EndpointSpec::SwitchOffload(endpoint), ..spec.clone() }
}

fn refusal(spec: &Spec) -> String {
    run_spec(spec, None).expect_err("this cannot be offloaded").to_string()
}

const SWITCH: BlockSpec = BlockSpec::Switch;

/// Of a single piece nothing waits for links: what goes up and what comes down takes what a link takes.
#[test]
fn messages_of_switches_are_counted() {
    let (n, piece) = (8, 4096);
    for (network, k) in
        [NetworkSpec::Analytical(AnalyticalSpec {}), packet(true), packet(false)].iter().flat_map(|n| [(n, 1), (n, 8)])
    {
        let mut spec = spec(&[(SWITCH, n as u32)], CollectiveKindSpec::AllReduce, piece * k);
        spec.network = network.clone();
        let parts = run(&spec).summary.endpoint.breakdown;
        let least = parts.messages * (LATENCY + piece * LINK / 2);
        assert_eq!(parts.messages, 2 * n * k);
        let least = u128::from(least);
        assert!(if k == 1 { parts.network_ps == least } else { parts.network_ps > least }, "{parts:?} of {k} pieces");
        assert!(parts.bus_transfer_ps > 0);
    }
}

/// One chunk of few enough pieces: the vector over a link, and what the first piece has to wait for.
#[test]
fn closed_forms() {
    use CollectiveKindSpec::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    for n in [2u64, 3, 8, 16] {
        for network in networks() {
            let (piece, k) = (4096, 8);
            let bytes = piece * k;
            let overhead = 90_000 + 2 * LATENCY;
            // Through memory and bus, over the links, through the ALU; each counted in half picoseconds a byte.
            let sums = |piece: u64, k: u64| piece * (k * LINK + LINK + ALU + 2 * BUS) / 2 + overhead;
            for (kind, bytes, expected) in [
                (AllReduce, bytes, sums(piece, k)),
                (Reduce, bytes, sums(piece, k)),
                (ReduceScatter, n * piece, sums(piece, n)),
                (Broadcast, bytes, piece * (k * LINK + LINK + 2 * BUS) / 2 + overhead),
                (AllGather, n * piece, piece * (LINK + (n - 1) * LINK + 2 * BUS) / 2 + overhead),
            ] {
                let mut spec = spec(&[(SWITCH, n as u32)], kind, bytes);
                spec.network = network.clone();
                let s = run(&spec).summary;
                assert_eq!(s.total_ps, expected, "{kind:?} on {n}, {network:?}");
                assert!(s.lower_bound_ps <= s.total_ps);
            }
        }
    }
}

/// Pieces leave a port one after the other with flows as well, so that those of a large vector follow one another closely.
#[test]
fn pieces_queue_at_their_port_in_the_flow_backend() {
    let mut large = spec(&[(SWITCH, 8)], KINDS[0], 16 << 20);
    large.network = NetworkSpec::Flow(FlowSpec {});
    large.collectives.chunking = chunks_of(65_536);
    large.collectives.inflight = 16;
    let wire = (16u64 << 20) * LINK / 2;
    let time = run(&large).summary.total_ps;
    assert!((wire..wire + wire / 50).contains(&time), "{time} of {wire}");
}

/// ALUs that are slower than the links set the pace.
#[test]
fn slow_alus_are_the_bottleneck() {
    let (n, piece, k) = (8, 4096, 12);
    for network in [NetworkSpec::Analytical(AnalyticalSpec {}), packet(true)] {
        let mut spec = spec(&[(SWITCH, n)], KINDS[0], piece * k);
        spec.network = network;
        let slow = with(&spec, |o| o.switch_reduce_bytes_per_s = Some(50_000_000_000));
        let expected = piece * (LINK + LINK + 2 * BUS) / 2 + k * piece * 20 + 90_000 + 2 * LATENCY;
        let results = run(&slow);
        assert_eq!(results.summary.total_ps, expected);
        let (busy, wait) = resource(&results, "switch_alu");
        assert_eq!(busy, u64::from(n) * k * piece * 20);
        assert!(wait > 0);
        assert_eq!(resource(&run(&spec), "switch_alu").1, 0);
        // Those that add as bytes arrive take no time of their own.
        let unlimited = run(&with(&spec, |o| o.switch_reduce_bytes_per_s = None)).summary.total_ps;
        assert_eq!(unlimited + piece * ALU / 2, run(&spec).summary.total_ps);
    }
}

/// With room for one piece, every piece goes up and down before the next: a round trip each.
#[test]
fn the_memory_of_a_switch_bounds_its_pieces() {
    let (piece, k) = (4096, 10);
    let spec = spec(&[(SWITCH, 4)], KINDS[0], piece * k);
    let round_trip = piece * (2 * LINK + ALU + 2 * BUS) / 2 + 90_000 + 2 * LATENCY;
    let one = run(&with(&spec, |o| o.switch_memory_bytes = piece)).summary;
    assert_eq!(one.total_ps, k * round_trip);
    assert_eq!(one.steps, 2 * k as u32);
    assert_eq!((one.endpoint.partitions[0].peak_bytes, one.endpoint.partitions[0].capacity_bytes), (piece, piece));
    let mut before = one.total_ps;
    for slots in [2, 4, 10] {
        let more = run(&with(&spec, |o| o.switch_memory_bytes = slots * piece)).summary;
        assert!(more.total_ps < before, "{slots} slots: {} after {before}", more.total_ps);
        before = more.total_ps;
        let memory = &more.endpoint.partitions[0];
        assert!(memory.peak_bytes <= memory.capacity_bytes && memory.peak_bytes > piece);
    }
    let message = refusal(&with(&spec, |o| o.switch_memory_bytes = piece - 1));
    assert!(message.contains("endpoint.switch_memory_bytes: 4095 B") && message.contains("4096 or more"), "{message}");
}

/// ACE paper, section IV-B: memory and SMs are free for training. One byte read and one written per byte, where the
/// baseline reads 1.5 for each of the 2 (n-1)/n that it sends.
#[test]
fn a_byte_is_read_once_and_written_once() {
    let (n, bytes) = (8u64, 1 << 20);
    let mut offloaded = spec(&[(SWITCH, 8)], KINDS[0], bytes);
    offloaded.collectives.chunking = chunks_of(65_536);
    offloaded.collectives.inflight = 16;
    let without_sms = with(&offloaded, |o| o.sm_bytes_per_s = 0);
    let results = run(&without_sms);
    let e = &results.summary.endpoint;
    assert_eq!((e.memory_read_bytes, e.memory_write_bytes, e.sent_bytes), (n * bytes, n * bytes, n * bytes));
    assert_eq!(e.sent_by_switches_bytes, n * bytes);
    assert!(e.resources.iter().all(|r| r.resource != "sm"));
    assert_eq!(results.summary.network.injected_bytes, 2 * n * bytes);
    let mut driven = Spec { endpoint: baseline(), ..offloaded };
    driven.collectives.algorithm = AlgorithmSpec::Ring;
    let e = run(&driven).summary.endpoint;
    assert_eq!(2 * e.memory_read_bytes, 3 * e.sent_bytes);
    assert_eq!(e.sent_bytes, 2 * (n - 1) * bytes);
}

/// Twice the bus bandwidth of any algorithm at the endpoints, less what n ranks leave to themselves.
#[test]
fn a_large_all_reduce_takes_half_the_time_of_a_ring() {
    let (n, bytes) = (16u64, 64 << 20);
    let mut spec = spec(&[(SWITCH, 16)], KINDS[0], bytes);
    spec.collectives.chunking = chunks_of(65_536);
    spec.collectives.inflight = 16;
    spec.network = NetworkSpec::Analytical(AnalyticalSpec {});
    let offloaded = run(&spec).summary;
    let wire = bytes * LINK / 2;
    assert_eq!(offloaded.lower_bound_ps, wire + LATENCY);
    assert!((wire..wire + wire / 100).contains(&offloaded.total_ps), "{} of {wire}", offloaded.total_ps);
    spec.endpoint = ideal();
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    let ring = run(&spec).summary;
    assert_eq!(ring.lower_bound_ps, 2 * (n - 1) * wire / n + LATENCY);
    let ratio = ring.total_ps as f64 / offloaded.total_ps as f64;
    assert!((1.8..2.0).contains(&ratio), "{ratio}");
}

/// Of a hybrid only the switch's phase is offloaded (Table II: partially): the rings cost what they cost the baseline.
#[test]
fn rings_of_a_hybrid_are_the_endpoints() {
    let bytes = 1 << 20;
    let mut offloaded = spec(&[(BlockSpec::Ring, 4), (SWITCH, 8)], KINDS[0], bytes);
    offloaded.collectives.algorithm = AlgorithmSpec::AceFourPhase;
    let share = bytes / 4;
    let s = run(&offloaded).summary;
    let said = "in switches: all-reduce along dimension 1; by the NPUs: reduce-scatter along dimension 0, \
                all-gather along dimension 0";
    assert_eq!(s.offloaded.as_deref(), Some(said));
    // A reduce-scatter of 3/4 sent reads 2 for each, the all-gather 1; the switch's phase works on a quarter.
    assert_eq!(s.endpoint.memory_read_bytes, 32 * (3 * bytes * 3 / 4 + share));
    assert_eq!(s.endpoint.sent_bytes, 32 * (2 * bytes * 3 / 4 + share));
    assert_eq!(s.endpoint.sent_by_switches_bytes, 32 * share);
    let driven = run(&Spec { endpoint: baseline(), ..offloaded.clone() }).summary;
    assert!(s.total_ps < driven.total_ps);
    let message = refusal(&with(&offloaded, |o| o.sm_bytes_per_s = 0));
    assert!(message.contains("endpoint.sm_bytes_per_s: 0, but the reduce-scatter along dimension 0"), "{message}");
    offloaded.collectives.algorithm = AlgorithmSpec::InSwitch;
    let message = refusal(&offloaded);
    assert!(message.contains("needs a switch between the members: dimension 0 (a ring) has none"), "{message}");
    offloaded.collectives.algorithm = AlgorithmSpec::SixPhase;
    offloaded.collectives.per_dimension = Some(vec![DimAlgorithmSpec::Ring, DimAlgorithmSpec::Ring]);
    assert!(refusal(&offloaded).contains("no part of it goes through a switch"));
    offloaded.collectives.per_dimension = Some(vec![DimAlgorithmSpec::InSwitch, DimAlgorithmSpec::Ring]);
    assert!(refusal(&offloaded).contains("collectives.per_dimension: switch offload needs a switch"));
}

#[test]
fn fabrics_without_a_switch_are_refused() {
    for (blocks, why) in [
        (&[(BlockSpec::Ring, 4)][..], "dimension 0 (a ring) has none"),
        (&[(BlockSpec::Ring, 1), (BlockSpec::FullyConnected, 4)], "dimension 1 (fully connected) has none"),
    ] {
        let message = refusal(&spec(blocks, KINDS[0], 4096));
        assert!(message.contains("endpoint.kind: switch offload needs a switch") && message.contains(why), "{message}");
    }
    let mut own = spec(&[(SWITCH, 4)], KINDS[0], 4096);
    own.endpoint = baseline();
    own.collectives.algorithm = AlgorithmSpec::InSwitch;
    assert!(refusal(&own).contains("in-switch with the endpoint switch-offload"));
    let mut direct = spec(&[(SWITCH, 4)], KINDS[0], 4096);
    direct.collectives.algorithm = AlgorithmSpec::Direct;
    assert!(refusal(&direct).contains("no part of it goes through a switch"));
    // Alone, nobody has anything to send.
    assert_eq!(run(&spec(&[(BlockSpec::Ring, 1)], KINDS[0], 4096)).summary.total_ps, 0);
}

/// Six NPUs: four at one switch, and two at another, by links of a class.
fn two_switches(class: &str, members: Vec<Vec<u32>>) -> Spec {
    let names = (0..6).map(|i| (format!("GPU {i}"), "npu")).chain(["left", "right"].map(|s| (s.into(), "switch")));
    let nodes = names.map(|(name, kind)| NodeSpec { name, kind: kind.into() }).collect();
    let link = |from, to| GraphLinkSpec { from, to, rate_bytes_per_s: 200_000_000_000, latency_ps: LATENCY, class: 0 };
    let ends = (0..6).map(|npu| (npu, if npu < 4 { 6 } else { 7 })).chain([(6, 7)]);
    let links = ends.flat_map(|(a, b)| [link(a, b), link(b, a)]).collect();
    let mut spec = spec(&[(SWITCH, 6)], KINDS[0], 64 << 10);
    spec.fabric =
        FabricSpec::Graph { npus: 6, nodes, classes: vec![class.into()], links, routing: RoutingSpec::default() };
    spec.groups = Some(GroupsSpec { members, grid: None, along: None });
    spec
}

#[test]
fn members_of_a_machine_need_a_switch_in_common() {
    let together = run(&two_switches("NVSwitch", vec![vec![3, 0, 2, 1]])).summary;
    let product = run(&spec(&[(SWITCH, 4)], KINDS[0], 64 << 10)).summary;
    assert_eq!(together.total_ps, product.total_ps);
    let message = refusal(&two_switches("NVSwitch", vec![vec![0, 4]]));
    assert!(message.contains("GPU 0 and GPU 4 have none in common"), "{message}");
    let message = refusal(&two_switches("PCIe", vec![vec![0, 1]]));
    assert!(message.contains("GPU 0 and GPU 1 have none in common"), "{message}");
}

#[test]
fn more_pieces_than_can_be_told_apart_are_refused() {
    let bytes = 1 << 30;
    let spec = with(&spec(&[(SWITCH, 512)], KINDS[0], bytes), |o| o.message_bytes = 1024);
    assert!(refusal(&spec).contains("endpoint.message_bytes: 1024 B cut a chunk into more pieces"));
}

/// Groups that share a switch share its memory, and nothing else.
#[test]
fn groups_side_by_side() {
    let alone = run(&two_switches("NVSwitch", vec![vec![0, 1]])).summary;
    let pairs = two_switches("NVSwitch", vec![vec![0, 1], vec![2, 3]]);
    let both = run(&pairs).summary;
    assert_eq!(both.total_ps, alone.total_ps);
    let scarce = |members| {
        let spec = two_switches("NVSwitch", members);
        run(&with(&spec, |o| o.switch_memory_bytes = 8 * 4096)).summary
    };
    let (one, two) = (scarce(vec![vec![0, 1]]), scarce(vec![vec![0, 1], vec![2, 3]]));
    assert_eq!(two.steps, 2 * one.steps); // 4 slots each instead of 8
    assert!(two.endpoint.partitions[0].peak_bytes <= 8 * 4096);
}

/// What has neither a sum nor a copy goes directly, by DMA, without SMs.
#[test]
fn other_collectives_go_by_dma() {
    use CollectiveKindSpec::{AllToAll, Gather, Scatter};
    for kind in [AllToAll, Gather, Scatter] {
        let (n, bytes) = (8, 64 << 10);
        let offloaded = with(&spec(&[(SWITCH, 8)], kind, bytes), |o| o.sm_bytes_per_s = 0);
        let s = run(&offloaded).summary;
        let blocks = if kind == AllToAll { n * (n - 1) } else { n - 1 };
        assert_eq!(s.endpoint.memory_read_bytes, blocks * bytes / n, "{kind:?}");
        assert_eq!(s.endpoint.memory_write_bytes, blocks * bytes / n, "{kind:?}");
        assert_eq!(s.endpoint.sent_by_switches_bytes, 0);
    }
}

#[test]
fn a_folded_switch_is_the_whole_one() {
    for network in exact_networks() {
        for (blocks, algorithm) in [
            (&[(SWITCH, 6)][..], AlgorithmSpec::InSwitch),
            (&[(SWITCH, 4), (SWITCH, 3)], AlgorithmSpec::Hierarchical),
            (&[(BlockSpec::Ring, 4), (SWITCH, 8)], AlgorithmSpec::AceFourPhase),
            (&[(BlockSpec::Ring, 3), (SWITCH, 4)], AlgorithmSpec::Hierarchical),
        ] {
            let mut spec = spec(blocks, KINDS[0], 300_000);
            spec.network = network.clone();
            spec.collectives.algorithm = algorithm;
            spec.collectives.padding = true;
            spec.collectives.chunking = chunks_of(50_000);
            spec.collectives.inflight = 3;
            same_both_ways(&spec);
        }
    }
    let mut scattered = spec(&[(SWITCH, 8)], CollectiveKindSpec::ReduceScatter, 1 << 20);
    scattered.fold = syncline_system::spec::FoldSpec::On;
    assert!(refusal(&scattered).contains("have different roles"));
}

/// One switch at least, and whatever else.
fn blocks() -> impl Strategy<Value = Vec<(BlockSpec, u32)>> {
    (crate::folded::blocks(), 2u32..5, any::<bool>()).prop_map(|(mut blocks, size, first)| {
        blocks.truncate(2);
        blocks.insert(if first { 0 } else { blocks.len() }, (SWITCH, size));
        blocks
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Every collective ends, on all backends, in any order of simultaneous events, not before its bound, with all of
    /// its bytes; and no switch ever holds more than it can.
    #[test]
    fn whatever_is_asked_for(
        blocks in blocks(), kind in 0usize..8, composition in 0usize..5, bytes in 0u64..200_000, chunk in 2_000u64..60_000,
        inflight in 1u32..6, slots in 1u64..5, message in 500u64..9000, padding: bool, network in proptest::sample::select(exact_networks()), seed: u64,
        root in any::<u32>(),
    ) {
        let mut spec = spec(&blocks, KINDS[kind], bytes);
        let npus: u32 = blocks.iter().map(|b| b.1).product();
        spec.job = JobSpec::Collective { collective: KINDS[kind], bytes, root: root % npus, beside: vec![] };
        spec.network = network;
        spec.collectives.algorithm = [
            AlgorithmSpec::Hierarchical, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase,
            AlgorithmSpec::HierarchicalOptimal, AlgorithmSpec::Themis,
        ][composition];
        spec.collectives.chunking = chunks_of(chunk);
        spec.collectives.inflight = inflight;
        spec.collectives.padding = padding;
        let spec = with(&spec, |o| {
            o.message_bytes = message;
            // Shares of a reduce-scatter are not cut to messages: a chunk has room in any case.
            o.switch_memory_bytes = slots * u64::from(inflight) * (chunk + 1000);
        });
        let results = run(&spec);
        let s = &results.summary;
        prop_assert!(s.lower_bound_ps <= s.total_ps || !s.warnings.is_empty(), "{s:?}");
        prop_assert_eq!(s.network.injected_bytes, s.endpoint.sent_bytes + s.endpoint.sent_by_switches_bytes);
        let memory = &s.endpoint.partitions[0];
        prop_assert!(memory.peak_bytes <= memory.capacity_bytes, "{memory:?}");
        let shuffled = run_spec(&spec, Some(seed)).expect("it ran before");
        prop_assert_eq!(fingerprint(&results), fingerprint(&shuffled));
    }
}
