//! Recommendation models: several kinds of collectives in one run, and tables in the background.

use crate::folded::{product, same_both_ways};
use crate::models;
use crate::support::{
    CYCLE_PS, ace_torus, all_reduce, baseline, dim, dims, exact_networks, fingerprint, ideal, run, switch_offload,
};
use crate::training::column;
use std::num::NonZeroU32;
use syncline_system::spec::{
    AlgorithmSpec, ArraySpec, BlockSpec, BucketSpec, ChunkingSpec, CollectiveKindSpec, ComputeModelSpec, ComputeSpec,
    DataflowSpec, EndpointSpec, FlowSpec, JobSpec, NetworkSpec, Spec, StrategySpec, WorkloadSpec,
};
use syncline_system::{Results, Values, run_spec};

fn compute(memory_bytes_per_s: f64) -> ComputeSpec {
    ComputeSpec { flops_per_s: 120e12, memory_bytes_per_s, scale: 1.0, ..ComputeSpec::default() }
}

fn train(spec: &mut Spec, workload: WorkloadSpec, strategy: StrategySpec) {
    spec.job = JobSpec::Training {
        host_kernel_ps: 0,
        workload,
        strategy,
        iterations: 2,
        overlap: true,
        buckets: None,
        barrier: false,
        drain: false,
        update: false,
        stragglers: vec![],
        compute: compute(900e9),
        background: None,
    };
}

/// DLRM on a 4x2x2 torus: all-reduce in four phases, all-to-all directly and first.
pub fn dlrm() -> Spec {
    let mut spec = all_reduce(ace_torus([4, 2, 2]), ideal(), 0);
    spec.network = NetworkSpec::Flow(FlowSpec {});
    spec.collectives.padding = true;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 8 };
    spec.collectives.algorithms = vec![(CollectiveKindSpec::AllToAll, AlgorithmSpec::Direct)];
    spec.collectives.priority = vec![CollectiveKindSpec::AllToAll];
    train(&mut spec, models::dlrm(), StrategySpec::Hybrid);
    spec
}

/// The same with tables in the background, at so many bytes per second.
pub fn background(memory_bytes_per_s: f64) -> Spec {
    let mut spec = dlrm();
    if let JobSpec::Training { background, .. } = &mut spec.job {
        *background = Some(compute(memory_bytes_per_s));
    }
    spec
}

fn without_overlap(mut spec: Spec) -> Spec {
    if let JobSpec::Training { overlap, .. } = &mut spec.job {
        *overlap = false;
    }
    spec
}

fn ints(results: &Results, table: &str, name: &str) -> Vec<i64> {
    let table = results.tables.iter().find(|t| t.name == table).expect("a table");
    match table.values(name).expect("a column") {
        Values::Int(values) => values.clone(),
        Values::OptionalInt(values) => values.iter().map(|v| v.expect("a time")).collect(),
        _ => panic!("{name} is not a number"),
    }
}

fn texts(results: &Results, table: &str, name: &str) -> Vec<String> {
    let table = results.tables.iter().find(|t| t.name == table).expect("a table");
    match table.values(name).expect("a column") {
        Values::Text(values) => values.clone(),
        _ => panic!("{name} is not a text"),
    }
}

#[test]
fn an_iteration_has_two_exchanges_and_an_all_reduce_per_layer() {
    let results = run(&dlrm());
    let s = &results.summary;
    assert_eq!(s.total_ps, s.compute_ps + s.exposed_ps);
    assert_eq!((s.background_compute_ps, s.background_wait_ps), (0, 0));
    let kinds = texts(&results, "collectives", "kind");
    let bytes = ints(&results, "collectives", "bytes");
    let exchanges: Vec<i64> =
        kinds.iter().zip(&bytes).filter(|(kind, _)| *kind == "all-to-all").map(|(_, &bytes)| bytes).collect();
    assert_eq!(exchanges, [64 * 64 * 64 * 2; 4]);
    assert_eq!(kinds.len(), 2 * (2 + 7 + 12));
    let reduced: i64 = bytes.iter().sum::<i64>() - exchanges.iter().sum::<i64>();
    assert_eq!(reduced, 2 * 2 * 57_411_584);
}

/// Both plans send what their closed forms say: every exchange all but a sixteenth of its vector; an all-reduce
/// 2(4-1)/4 + (2(2-1)/2 + 2(2-1)/2)/4 = 2 times its own.
#[test]
fn each_kind_of_collective_has_its_algorithm() {
    let mut spec = dlrm();
    if let JobSpec::Training { drain, .. } = &mut spec.job {
        *drain = true;
    }
    spec.collectives.padding = false;
    let results = run(&spec);
    let exchanged = 4 * (64 * 64 * 64 * 2) * 15 / 16;
    let reduced = 2 * 2 * 57_411_584 * 2;
    assert_eq!(results.summary.network.injected_bytes, 16 * (exchanged + reduced));
}

/// Without overlap the run is compute, and the closed form of the collectives that it blocks on.
#[test]
fn without_overlap_everything_is_exposed() {
    let mut spec = without_overlap(dlrm());
    crate::support::dims(&mut spec).clone_from(&vec![dim(4, 100, 100_000)]);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    let results = run(&spec);
    let s = &results.summary;
    assert_eq!(s.total_ps, s.compute_ps + s.exposed_ps);
    let (issued, completed) =
        (ints(&results, "collectives", "issued_ps"), ints(&results, "collectives", "completed_ps"));
    assert_eq!(issued.len(), 6); // per iteration: forward, and both at its end
    let took = |i: usize| completed[i] - issued[i];
    let blocked: i64 = [0, 3].iter().map(|&i| took(i) + took(i + 1).max(took(i + 2))).sum();
    assert_eq!(issued[1], issued[2]);
    assert_eq!(s.exposed_ps as i64, blocked);
    // Of the first exchange, a quarter goes one hop each way, and of another quarter half goes two hops each way: two
    // blocks at 10 ps per byte on every link, the last of them after a hop of latency.
    let block = 64 * 64 * 64 * 2 / 4;
    let bound = 2 * block * 10 + 100_000;
    assert!((bound..bound + 10 * CYCLE_PS as i64).contains(&took(0)), "{}", took(0));
}

/// All-to-all goes before all-reduces that wait, and so is done sooner; it never goes before what is in flight.
#[test]
fn an_exchange_overtakes_waiting_all_reduces() {
    let latency = |priority: bool| {
        let mut spec = dlrm();
        spec.collectives.scheduling = syncline_system::spec::SchedulingSpec::Fifo;
        spec.collectives.inflight = 4;
        if !priority {
            spec.collectives.priority.clear();
        }
        let results = run(&spec);
        let (kinds, passes) = (texts(&results, "collectives", "kind"), texts(&results, "collectives", "pass"));
        let id = (0..kinds.len()).find(|&i| kinds[i] == "all-to-all" && passes[i] == "weight_grad").expect("a second");
        let at = |name| match column(&results, "collectives", name) {
            Values::OptionalInt(times) => times[id].expect("a time"),
            _ => panic!("{name} is no time"),
        };
        at("started_ps") - at("issued_ps")
    };
    let (first, in_turn) = (latency(true), latency(false));
    assert!(first * 4 < in_turn, "{first} and {in_turn}");
    assert!(first > 0);
}

/// What is not on the main stream is not its compute; what it waits for there is not communication.
#[test]
fn background_tables_are_accounted_apart() {
    let (inline, fast, slow) = (run(&dlrm()), run(&background(900e9)), run(&background(9e9)));
    for results in [&fast, &slow] {
        let s = &results.summary;
        assert_eq!(s.total_ps, s.compute_ps + s.exposed_ps + s.background_wait_ps);
    }
    // Of two lookups and two applications, only the first lookup is left in line.
    let lookup = ints(&inline, "layers", "forward_ps")[0] as u64;
    let apply = ints(&inline, "layers", "weight_grad_ps")[0] as u64;
    assert_eq!(inline.summary.compute_ps - fast.summary.compute_ps, lookup + 2 * apply);
    assert!(fast.summary.total_ps < inline.summary.total_ps);
    // Too slow a background is waited for, by way of the exchange that its lookup holds up.
    assert!(slow.summary.total_ps > inline.summary.total_ps);
    let tracks = texts(&slow, "slices", "track");
    assert!(tracks.is_empty() || tracks.iter().any(|t| t == "background compute"));
}

/// Draining also waits for the background.
#[test]
fn draining_waits_for_the_background() {
    let mut spec = background(90e9);
    let stopped = run(&spec);
    if let JobSpec::Training { drain, .. } = &mut spec.job {
        *drain = true;
    }
    let drained = run(&spec);
    let (stopped, drained) = (&stopped.summary, &drained.summary);
    assert!(drained.total_ps > stopped.total_ps);
    assert_eq!(drained.network.injected_bytes, drained.network.delivered_bytes);
    // Two lookups ahead, and the gradients of both iterations.
    let results = run(&dlrm());
    let (lookup, apply) = (ints(&results, "layers", "forward_ps")[0], ints(&results, "layers", "weight_grad_ps")[0]);
    let expected = 10 * 2 * (lookup + apply);
    let found = drained.background_compute_ps as i64;
    assert!((found - expected).abs() < 100, "{found} and {expected}");
}

/// Simultaneous events of an NPU's streams are told apart; those of different NPUs commute.
#[test]
fn shuffling_simultaneous_events_changes_nothing() {
    for spec in [dlrm(), background(80e9), without_overlap(dlrm())] {
        let plain = fingerprint(&run(&spec));
        for seed in 0..3 {
            let shuffled = run_spec(&spec, Some(seed)).expect("it ran before");
            assert_eq!(fingerprint(&shuffled), plain);
        }
    }
}

#[test]
fn folded_runs_of_both_workloads_are_runs_of_the_whole() {
    let mut specs = vec![dlrm(), background(80e9), without_overlap(dlrm())];
    let mut chain = dlrm();
    train(&mut chain, models::recurrent(), StrategySpec::DataParallel);
    specs.push(chain);
    for mut spec in specs {
        for endpoint in [ideal(), baseline()] {
            spec.endpoint = endpoint;
            same_both_ways(&spec);
        }
    }
    let mut packets = background(80e9);
    packets.network = crate::support::packet(true);
    packets.collectives.chunking = ChunkingSpec::Count { chunks: 2 };
    same_both_ways(&packets);
}

#[test]
fn an_array_times_what_it_multiplies() {
    let mut spec = dlrm();
    let roofline = run(&spec).summary.compute_ps;
    if let JobSpec::Training { compute, .. } = &mut spec.job {
        let dataflow = DataflowSpec::OutputStationary;
        let clock_hz = 120e12 / f64::from(2 * 128 * 128);
        let array = ArraySpec { rows: 128, columns: 128, dataflow, clock_hz, arrays: NonZeroU32::MIN, sram: None };
        compute.model = ComputeModelSpec::Systolic(array);
    }
    let array = run(&spec);
    // The same peak, but 64 rows of samples fill half of the array, and folds have to be filled and emptied.
    assert!(array.summary.compute_ps > roofline);
    // Top layer 1: 64 x 2048 by 2048 x 2048 in one row of 16 folds; its rectifier goes at memory speed.
    let cycles = 16.0 * (2048.0 + 3.0 * 128.0 - 2.0);
    let product_ps = cycles * f64::from(2 * 128 * 128) / 120e12 * 1e12;
    let rectifier_ps = f64::from(2 * 64 * 2048 * 2) / 900e9 * 1e12;
    let layers = texts(&array, "layers", "layer");
    let top1 = layers.iter().position(|l| l == "top.1").expect("a top MLP");
    let found = ints(&array, "layers", "forward_ps")[top1] as f64;
    assert!((found - product_ps - rectifier_ps).abs() < 2.0, "{found} and {product_ps} + {rectifier_ps}");
}

#[test]
fn contradictions_are_refused() {
    let refused = |spec: &Spec| run_spec(spec, None).err().map_or_else(|| panic!("ran"), |e| e.to_string());
    let mut parallel = dlrm();
    train(&mut parallel, models::dlrm(), StrategySpec::DataParallel);
    assert!(refused(&parallel).contains("accepted: hybrid"));
    let mut hybrid = dlrm();
    train(&mut hybrid, models::convolutional(), StrategySpec::Hybrid);
    assert!(refused(&hybrid).contains("accepted: data-parallel"));
    assert!(refused(&without_overlap(background(80e9))).contains("accepted: overlap"));
    let mut bucketed = dlrm();
    if let JobSpec::Training { buckets, .. } = &mut bucketed.job {
        *buckets = Some(BucketSpec { first_bytes: 1, bytes: 1 });
    }
    assert!(refused(&bucketed).contains("accepted: no buckets"));
    let mut barred = dlrm();
    if let JobSpec::Training { barrier, .. } = &mut barred.job {
        *barrier = true;
    }
    assert!(refused(&barred).contains("accepted: no barrier"));
}

/// DLRM where switches add: all-reduces through them, all-to-alls directly and by DMA.
fn offloaded(blocks: &[(BlockSpec, u32)]) -> Spec {
    let mut spec = dlrm();
    *dims(&mut spec) = product(blocks);
    spec.endpoint = switch_offload();
    spec.collectives.algorithm = AlgorithmSpec::Hierarchical;
    spec.collectives.inflight = 4;
    spec.collectives.padding = false;
    if let JobSpec::Training { drain, .. } = &mut spec.job {
        *drain = true;
    }
    spec
}

/// Every NPU sends seven eighths of every exchange, and of every all-reduce its vector once; and so do the switches.
#[test]
fn switches_add_beside_direct_exchanges() {
    let exchanged = 4 * (64 * 64 * 64 * 2) * 7 / 8;
    let reduced = 2 * 2 * 57_411_584;
    for network in exact_networks() {
        let mut spec = offloaded(&[(BlockSpec::Switch, 8)]);
        spec.network = network;
        if let EndpointSpec::SwitchOffload(offload) = &mut spec.endpoint {
            offload.sm_bytes_per_s = 0; // neither takes any
            offload.switch_memory_bytes = 4 * 2 * 4096;
        }
        let s = run(&spec).summary;
        assert_eq!(s.endpoint.sent_bytes, 8 * (exchanged + reduced));
        assert_eq!(s.endpoint.sent_by_switches_bytes, 8 * reduced);
        assert_eq!(s.network.injected_bytes, s.endpoint.sent_bytes + s.endpoint.sent_by_switches_bytes);
        let memory = &s.endpoint.partitions[0];
        assert!(memory.peak_bytes <= memory.capacity_bytes && memory.peak_bytes > 0, "{memory:?}");
        assert_eq!(
            s.offloaded.as_deref(),
            Some("in switches: all-reduce along dimension 0; by the NPUs: all-to-all along dimension 0")
        );
        spec.collectives.padding = true; // blocks of a length
        same_both_ways(&spec);
    }
}

/// Where some dimensions have switches, exchanges use the line of all NPUs beside those dimensions.
#[test]
fn exchanges_of_all_npus_go_beside_dimensions_with_switches() {
    for blocks in [&[(BlockSpec::Ring, 2), (BlockSpec::Switch, 4)][..], &[(BlockSpec::Switch, 4), (BlockSpec::Ring, 4)]]
    {
        let mut spec = offloaded(blocks);
        spec.collectives.padding = true; // blocks of a length
        same_both_ways(&spec);
        spec.collectives.padding = false;
        let results = run(&spec);
        let shuffled = run_spec(&spec, Some(7)).expect("it ran before");
        assert_eq!(fingerprint(&results), fingerprint(&shuffled));
        let s = &results.summary;
        let npus = u64::from(s.npus);
        assert_eq!(s.endpoint.sent_by_switches_bytes, npus * 2 * 2 * 57_411_584);
        // Whole vectors to the switch and around the ring, 2(n-1)/n of it there.
        let ring = blocks.iter().find(|b| b.0 == BlockSpec::Ring).map_or(1, |b| u64::from(b.1));
        let reduced = 2 * 2 * 57_411_584 * (ring + 2 * (ring - 1)) / ring;
        let exchanged = 4 * (64 * 64 * 64 * 2) * (npus - 1) / npus;
        assert_eq!(s.endpoint.sent_bytes, npus * (exchanged + reduced));
    }
}

#[test]
fn a_kind_that_switches_cannot_serve_is_named() {
    let refusal = |spec: &Spec| run_spec(spec, None).expect_err("switches cannot do this").to_string();
    let mut spec = offloaded(&[(BlockSpec::Ring, 2), (BlockSpec::Switch, 4)]);
    spec.collectives.algorithms.push((CollectiveKindSpec::AllReduce, AlgorithmSpec::InSwitch));
    let message = refusal(&spec);
    assert!(message.contains("collectives.algorithms: switch offload needs a switch"), "{message}");
    let mut spec = offloaded(&[(BlockSpec::Switch, 8)]);
    spec.collectives.algorithms = vec![(CollectiveKindSpec::AllReduce, AlgorithmSpec::Direct)];
    assert!(refusal(&spec).contains("no part of it goes through a switch"));
    spec.collectives.algorithm = AlgorithmSpec::InSwitch;
    let message = refusal(&spec);
    assert!(message.contains("algorithm for all-to-all"), "{message}");
}

/// A kind of collectives with a number of chunks of its own leaves the others as they are.
#[test]
fn kinds_may_have_numbers_of_chunks_of_their_own() {
    let mut spec = dlrm();
    if let JobSpec::Training { drain, .. } = &mut spec.job {
        *drain = true; // so that all chunks are started, and counted
    }
    let usual = ints(&run(&spec), "collectives", "chunks");
    spec.collectives.chunks_of = vec![(CollectiveKindSpec::AllToAll, 3)];
    let results = run(&spec);
    let own = ints(&results, "collectives", "chunks");
    for ((kind, usual), own) in texts(&results, "collectives", "kind").iter().zip(usual).zip(own) {
        match kind.as_str() {
            "all-to-all" => assert_eq!((usual, own), (8, 3)),
            _ => assert_eq!(usual, own, "{kind}"),
        }
    }
    spec.collectives.chunks_of = vec![(CollectiveKindSpec::AllToAll, 0)];
    let error = run_spec(&spec, None).expect_err("no chunks").to_string();
    assert!(error.starts_with("collectives.chunks_of: "), "{error}");
}
