//! Streams against closed forms: chains, kernels that share SMs, links that streams share.

use crate::support::{all_reduce, collective_job, dim, exact_networks, fingerprint, resource, run, summary_but_fold};
use syncline_core::{Bytes, Rate};
use syncline_system::run_spec;
use syncline_system::spec::{
    AlgorithmSpec, ChunkingSpec, CollectiveKindSpec, DimSpec, EndpointSpec, FabricSpec, FlowSpec, FoldSpec,
    GraphLinkSpec, LanesSpec, NetworkSpec, NodeSpec, PlanSpec, RoutingSpec, SharingSpec, Spec, StreamsSpec,
};

const LATENCY_PS: u64 = 700_000;
const GB: u64 = 1_000_000_000;

const STREAMS: StreamsSpec = StreamsSpec {
    copy_overhead_ps: 5_000_000,
    kernel_overhead_ps: 3_000_000,
    event_overhead_ps: 2_000_000,
    reduce_bytes_per_s: 300 * GB,
    start_latency_ps: 0,
    peer_access_latency_ps: 0,
    sharing: SharingSpec::Fair,
    delay_per_mille: 0,
};

/// No overheads.
const BARE: StreamsSpec = StreamsSpec { copy_overhead_ps: 0, kernel_overhead_ps: 0, event_overhead_ps: 0, ..STREAMS };

/// Chunk sizes of which the link is the limit, or the overheads, or neither; some take no whole picoseconds. With how many
/// there are.
const CHUNKS: [(u64, u32); 6] = [(30_000_000, 1), (15_000_000, 2), (1 << 20, 16), (15_000, 40), (10, 3), (14_286, 7)];

/// The backends in which bytes over a link of a rate take the time of all of them together, rounded up once: packets only
/// where none takes a part of a picosecond.
fn networks(rate: u64) -> Vec<NetworkSpec> {
    let whole = 1_000_000_000_000 % rate == 0;
    let is_exact = |network: &NetworkSpec| whole || network.model().packet_bytes().is_none();
    exact_networks().into_iter().filter(is_exact).collect()
}

/// The time of so many bytes at a rate.
fn time(bytes: u64, rate: u64) -> u64 {
    Rate::new(rate).expect("positive").time(Bytes(bytes)).0
}

/// What a stream takes for a chunk that it receives and sends.
fn forward(streams: &StreamsSpec, chunk: u64, rate: u64) -> u64 {
    streams.event_overhead_ps + streams.copy_overhead_ps + time(chunk, rate)
}

/// What it takes for one that it reduces as well.
fn reduce(streams: &StreamsSpec, chunk: u64, rate: u64) -> u64 {
    let kernel = streams.kernel_overhead_ps + time(chunk, streams.reduce_bytes_per_s);
    kernel + streams.copy_overhead_ps + time(chunk, rate)
}

/// A collective along a chain of GPUs, in `chunks` slices of an algorithm.
fn chain(gpus: u32, rate: u64, streams: StreamsSpec, kind: CollectiveKindSpec, (chunk, chunks): (u64, u32)) -> Spec {
    let (link, bytes) = (DimSpec { rate_bytes_per_s: rate, ..dim(gpus, 1, LATENCY_PS) }, chunk * u64::from(chunks));
    let mut spec = all_reduce(vec![link], EndpointSpec::Streams(streams), bytes);
    spec.job = collective_job(kind, bytes);
    spec.network = NetworkSpec::Flow(FlowSpec::default());
    let c = &mut spec.collectives;
    (c.algorithm, c.lanes, c.slices, c.element_bytes) = (AlgorithmSpec::Ring, LanesSpec::One, chunks, 1);
    c.chunking = ChunkingSpec::Count { chunks: 1 };
    spec
}

/// The same by a plan that has, for each rank, threads that repeat a step `times` times.
fn planned(mut spec: Spec, kind: &str, (blocks, times): (u32, u32), ranks: &[Vec<String>]) -> Spec {
    let thread = |step: &String| format!(r#"[{{"times": {times}, "steps": [{step}]}}]"#);
    let rank = |threads: &Vec<String>| format!("[{}]", threads.iter().map(thread).collect::<Vec<_>>().join(","));
    let (count, ranks) = (ranks.len(), ranks.iter().map(rank).collect::<Vec<_>>().join(","));
    let text = format!(
        r#"{{"format": "syncline-plan", "version": 2, "collective": "{kind}", "grid": [{count}],
            "programs": [{{"collective": "{kind}", "blocks": {blocks}, "ranks": [{ranks}]}}]}}"#
    );
    let plan = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    spec.collectives.plans = vec![PlanSpec::literally(plan)];
    spec
}

/// A step that works on a block, and on the next one when it is repeated, and a thread of its receiver.
fn step(op: &str, block: u32, peers: &str, thread: usize) -> String {
    format!(r#"{{"op": "{op}", "block": {block}, {peers}, "into": [{thread}, 0], "next": {{"block": 1, "into": 1}}}}"#)
}

fn receive(op: &str, block: u32, from: usize) -> String {
    format!(r#"{{"op": "{op}", "block": {block}, "from": {from}, "next": {{"block": 1}}}}"#)
}

/// `(c + g - 2) P + (g - 1) a`; of two GPUs neither waits for an event and sends.
#[test]
fn a_chain_forwards_at_the_pace_of_a_stream() {
    let cases = [23_456_789_012, 25 * GB].into_iter().flat_map(|rate| [(rate, STREAMS), (rate, BARE)]);
    for ((rate, streams), gpus) in cases.flat_map(|case| [2, 3, 4, 5, 8].map(|g| (case, g))) {
        for (chunk, chunks) in CHUNKS {
            let (c, g, pace) = (u64::from(chunks), u64::from(gpus), forward(&streams, chunk, rate));
            let expected = match g {
                2 => c * (pace - streams.event_overhead_ps) + streams.event_overhead_ps,
                _ => (c + g - 2) * pace,
            } + (g - 1) * LATENCY_PS;
            for network in networks(rate) {
                let spec = chain(gpus, rate, streams, CollectiveKindSpec::Broadcast, (chunk, chunks));
                let total = run(&Spec { network, ..spec }).summary.total_ps;
                assert_eq!(total, expected, "{gpus} GPUs, {chunks} chunks of {chunk} B, {rate} B/s");
            }
        }
    }
}

/// The same along a chain that reduces, whose kernels are part of the pace.
#[test]
fn a_chain_reduces_at_the_pace_of_a_stream() {
    for (gpus, (chunk, chunks)) in [3, 4, 8].into_iter().flat_map(|g| CHUNKS.map(|c| (g, c))) {
        let (c, g, pace) = (u64::from(chunks), u64::from(gpus), reduce(&STREAMS, chunk, 25 * GB));
        for network in networks(25 * GB) {
            let spec = chain(gpus, 25 * GB, STREAMS, CollectiveKindSpec::Reduce, (chunk, chunks));
            let result = run(&Spec { network, ..spec });
            let expected = (c + g - 2) * pace + (g - 1) * LATENCY_PS;
            assert_eq!(result.summary.total_ps, expected, "{gpus} GPUs, {chunks} chunks of {chunk} B");
            assert_eq!(resource(&result, "sm"), ((g - 1) * c * time(chunk, STREAMS.reduce_bytes_per_s), 0));
        }
    }
}

/// Fig. 11 of the Blink paper: without overheads, two chunks over four GPUs take two thirds of the time of one.
#[test]
fn two_chunks_over_four_gpus_save_a_third() {
    let time = |chunks: u32| {
        let chunk = 300_000_000 / u64::from(chunks);
        let spec = chain(4, 25 * GB, BARE, CollectiveKindSpec::Broadcast, (chunk, chunks));
        run(&spec).summary.total_ps - 3 * LATENCY_PS
    };
    assert_eq!(time(2) * 3, time(1) * 2);
}

/// Reductions up a chain, and the result down again on the other direction of its links: what is reduced is the pace, and the
/// way back the time that a chunk takes for it.
#[test]
fn a_result_comes_back_while_chunks_follow() {
    for (gpus, (chunk, chunks)) in [3usize, 4, 8].into_iter().flat_map(|g| CHUNKS.map(|c| (g, c))) {
        let last = gpus - 1;
        let rank = |k: usize| match k {
            0 => vec![step("s", 0, r#""to": 1"#, 0), receive("r", 0, 1)],
            k if k == last => vec![step("rrcs", 0, &format!(r#""from": {0}, "to": {0}"#, k - 1), 1)],
            k => vec![
                step("rrs", 0, &format!(r#""from": {}, "to": {}"#, k - 1, k + 1), 0),
                step("rcs", 0, &format!(r#""from": {}, "to": {}"#, k + 1, k - 1), 1),
            ],
        };
        let ranks: Vec<Vec<String>> = (0..gpus).map(rank).collect();
        let spec = chain(gpus as u32, 25 * GB, STREAMS, CollectiveKindSpec::AllReduce, (chunk, chunks));
        let (c, g) = (u64::from(chunks), gpus as u64);
        let (up, down) = (reduce(&STREAMS, chunk, 25 * GB), forward(&STREAMS, chunk, 25 * GB));
        let expected = (c + g - 2) * up + (g - 1) * down + 2 * (g - 1) * LATENCY_PS;
        let total = run(&planned(spec, "allreduce", (chunks, chunks), &ranks)).summary.total_ps;
        assert_eq!(total, expected, "{gpus} GPUs, {chunks} chunks of {chunk} B");
    }
}

/// Two streams of GPU 0, each of which sends half of the chunks over the one link to GPU 1.
fn two_streams(streams: StreamsSpec, chunk: u64, each: u32) -> Spec {
    let send = |stream: u32| step("s", stream * each, r#""to": 1"#, stream as usize);
    let take = |stream: u32| receive("r", stream * each, 0);
    let spec = chain(2, 25 * GB, streams, CollectiveKindSpec::Broadcast, (chunk, 2 * each));
    planned(spec, "broadcast", (2 * each, each), &[vec![send(0), send(1)], vec![take(0), take(1)]])
}

/// The overhead of one stream is hidden by the copy of the other, so that the link is never idle, if copies take longer.
#[test]
fn streams_take_turns_on_a_link() {
    for network in networks(25 * GB) {
        let spec = Spec { network, ..two_streams(STREAMS, 1_000_000, 20) };
        let expected =
            STREAMS.copy_overhead_ps + 40 * time(1_000_000, 25 * GB) + STREAMS.event_overhead_ps + LATENCY_PS;
        assert_eq!(run(&spec).summary.total_ps, expected);
        // Where overheads take longer, each stream goes at its own pace, the second one copy behind the first.
        let spec = Spec { network: spec.network.clone(), ..two_streams(STREAMS, 1_000, 20) };
        let (copy, overhead) = (time(1_000, 25 * GB), STREAMS.copy_overhead_ps);
        let expected = 20 * (overhead + copy) + copy + STREAMS.event_overhead_ps + LATENCY_PS;
        assert_eq!(run(&spec).summary.total_ps, expected);
    }
}

/// A chunk that shares a link comes later by up to the given part of its time, by the seed and nothing else.
#[test]
fn shared_links_may_delay_chunks_at_random() {
    let delayed = |delay_per_mille| StreamsSpec { sharing: SharingSpec::Delayed, delay_per_mille, ..STREAMS };
    let total = |streams, seed| run(&Spec { seed, ..two_streams(streams, 1_000_000, 20) }).summary.total_ps;
    let fair = total(STREAMS, 1);
    assert_eq!((total(STREAMS, 2), total(delayed(0), 1)), (fair, fair));
    let copy = time(1_000_000, 25 * GB);
    let mut times: Vec<u64> = (0..8).map(|seed| total(delayed(3000), seed)).collect();
    assert!(times.iter().all(|&t| fair < t && t <= fair + 40 * 3 * copy), "{times:?} after {fair}");
    assert_eq!(times[3], total(delayed(3000), 3));
    times.sort_unstable();
    times.dedup();
    assert_eq!(times.len(), 8);
    // One stream shares with nobody.
    let alone = |streams| run(&chain(4, 25 * GB, streams, CollectiveKindSpec::Broadcast, (1_000_000, 20)));
    assert_eq!(alone(delayed(3000)).summary.total_ps, alone(STREAMS).summary.total_ps);
}

/// Simultaneous events in any order, and nothing that is alike stands for something that is delayed otherwise.
#[test]
fn delays_depend_on_no_order_of_events() {
    let streams = StreamsSpec { sharing: SharingSpec::Delayed, delay_per_mille: 500, ..STREAMS };
    let mut spec = all_reduce(vec![dim(8, 25, LATENCY_PS)], EndpointSpec::Streams(streams), 8_000_000);
    spec.network = NetworkSpec::Flow(FlowSpec::default());
    spec.collectives.algorithm = AlgorithmSpec::DoubleBinaryTree;
    spec.fold = FoldSpec::Auto;
    let plain = run(&spec);
    assert_eq!(plain.summary.unfolded.as_deref(), Some("chunks of streams are delayed at random"));
    for shuffle in 0..5 {
        let shuffled = run_spec(&spec, Some(shuffle)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(fingerprint(&shuffled), fingerprint(&plain));
    }
    spec.seed = 1;
    assert_ne!(run(&spec).summary.total_ps, plain.summary.total_ps);
    spec.endpoint = EndpointSpec::Streams(STREAMS);
    let folded = run(&spec);
    assert_eq!(summary_but_fold(&folded), summary_but_fold(&run(&Spec { fold: FoldSpec::Off, ..spec })));
}

/// A collective is launched once on every NPU, however many chunks it has.
#[test]
fn a_collective_is_launched_once() {
    for chunks in [1, 7] {
        let total = |start_latency_ps| {
            let streams = StreamsSpec { start_latency_ps, ..STREAMS };
            let mut spec = chain(4, 25 * GB, streams, CollectiveKindSpec::AllReduce, (700_000, 4));
            spec.collectives.chunking = ChunkingSpec::Count { chunks };
            spec.output.trace_npus = vec![1];
            run(&spec).summary.total_ps
        };
        assert_eq!(total(20_000_000), total(0) + 20_000_000, "{chunks} chunks");
    }
}

/// Two GPUs with an NVLink and PCIe between them; without the NVLink if `classes` says so. Each sends a block over the first
/// class and another one by `way`.
fn two_ways(streams: StreamsSpec, classes: [&str; 2], way: &str) -> Spec {
    let node = |(name, kind): (&str, &str)| NodeSpec { name: name.into(), kind: kind.into() };
    let link = |(from, to, gb, class): (u32, u32, u64, u8)| {
        let link = |from, to| GraphLinkSpec { from, to, rate_bytes_per_s: gb * GB, latency_ps: LATENCY_PS, class };
        [link(from, to), link(to, from)]
    };
    let mut spec = chain(2, 25 * GB, streams, CollectiveKindSpec::Broadcast, (50_000_000, 2));
    spec.fabric = FabricSpec::Graph {
        npus: 2,
        nodes: [("GPU 0", "npu"), ("GPU 1", "npu"), ("switch", "switch")].map(node).to_vec(),
        classes: classes.map(String::from).to_vec(),
        links: [(0, 1, 25, 0), (0, 2, 10, 1), (2, 1, 10, 1)].into_iter().flat_map(link).collect(),
        routing: RoutingSpec::default(),
    };
    let other = format!(r#""to": 1, "way": {way}"#);
    let [send, over] = [step("s", 0, r#""to": 1"#, 0), step("s", 1, &other, 1)];
    let take = |block| receive("r", block, 0);
    planned(spec, "broadcast", (2, 1), &[vec![send, over], vec![take(0), take(1)]])
}

/// What names PCIe where there are NVLinks waits until both GPUs have switched; what goes over NVLinks does not, nor does
/// anything on GPUs without them.
#[test]
fn peer_access_is_switched_for_pcie() {
    const SWITCH_PS: u64 = 1_500_000_000;
    let total = |peer_access_latency_ps, classes, way| {
        run(&two_ways(StreamsSpec { peer_access_latency_ps, ..STREAMS }, classes, way)).summary.total_ps
    };
    let (nvlinks, pcie) = (["NVLink", "PCIe"], r#"{"over": "PCIe"}"#);
    let plain = STREAMS.copy_overhead_ps + time(50_000_000, 10 * GB) + 2 * LATENCY_PS + STREAMS.event_overhead_ps;
    let found = total(0, nvlinks, pcie);
    assert!(plain <= found && found < plain + plain / 1000, "{found} {plain}");
    assert_eq!(total(SWITCH_PS, nvlinks, pcie), found + 2 * SWITCH_PS);
    let alone = total(0, nvlinks, r#"{"link": 0}"#);
    assert_eq!(total(SWITCH_PS, nvlinks, r#"{"link": 0}"#), alone);
    assert_eq!(total(SWITCH_PS, nvlinks, r#"{"over": "NVLink"}"#), alone);
    assert_eq!(total(SWITCH_PS, ["Ethernet", "PCIe"], pcie), total(0, ["Ethernet", "PCIe"], pcie));
    // The collective is launched before that.
    let brief = StreamsSpec { peer_access_latency_ps: SWITCH_PS, start_latency_ps: 7, ..STREAMS };
    assert_eq!(run(&two_ways(brief, nvlinks, pcie)).summary.total_ps, found + 2 * SWITCH_PS + 7);
}
