//! The training loop.

use crate::models::resnet50;
use crate::support::{ace_torus, all_reduce, baseline, dim, ideal, run};
use syncline_system::spec::{
    AlgorithmSpec, BucketSpec, ChunkingSpec, ComputeSpec, JobSpec, Spec, StrategySpec, WorkloadSpec,
};
use syncline_system::{Results, Values};

/// Two layers: forward 10 and 20 us, input gradients 5 and 7 us, weight gradients 3 and 4 us.
const TWO_LAYERS: &str = "DATA\n2\n\
    a -1 10000 NONE 0 5000 NONE 0 3000 ALLREDUCE 1048576 0\n\
    b -1 20000 NONE 0 7000 NONE 0 4000 ALLREDUCE 2097152 0\n";

pub fn training(overlap: bool, drain: bool, iterations: u32) -> Spec {
    let mut spec = all_reduce(vec![dim(4, 100, 100_000)], ideal(), 0);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    spec.job = JobSpec::Training {
        host_kernel_ps: 0,
        workload: WorkloadSpec::AstraText { text: TWO_LAYERS.into() },
        strategy: StrategySpec::DataParallel,
        iterations,
        overlap,
        buckets: None,
        barrier: false,
        drain,
        update: true,
        stragglers: vec![],
        compute: ComputeSpec { flops_per_s: 1.0, memory_bytes_per_s: 1.0, scale: 1.0, ..ComputeSpec::default() },
        background: None,
    };
    spec
}

/// Time of a one-chunk all-reduce in one direction of the ring of four.
fn all_reduce_ps(bytes: u64) -> u64 {
    6 * (bytes / 4 * 10 + 100_000) + 7 * 804
}

/// One layer's input gradient is never needed.
const COMPUTE: u64 = (10_000 + 20_000 + 4_000 + 7_000 + 3_000) * 1000;

#[test]
fn the_exposed_time_by_hand() {
    let s = run(&training(true, false, 2)).summary;
    assert_eq!(s.compute_ps, 2 * COMPUTE);
    // b's all-reduce is issued after its weight gradient, 10 us before a's; a goes up, b goes on alone.
    // a's forward waits for a's all-reduce; then b's forward for b's, which began 10 us earlier.
    let (a, b) = (all_reduce_ps(1 << 20), all_reduce_ps(2 << 20));
    let issued_b = 34_000_000u64;
    let issued_a = 44_000_000;
    // Both use the lane up and the lane down in turn: b is chunk 0, a is chunk 1, so they do not meet.
    let a_done = issued_a + a;
    let b_done = issued_b + b;
    let forward_b = (a_done + 10_000_000).max(b_done);
    let exposed = (a_done - issued_a) + forward_b - (a_done + 10_000_000);
    assert_eq!(s.exposed_ps, exposed);
    assert_eq!(s.total_ps, 2 * COMPUTE + exposed);
    assert_eq!(s.exposed_by.iter().map(|e| e.exposed_ps).sum::<u64>(), exposed);
}

fn in_buckets(mut spec: Spec, first_bytes: u64, bytes: u64) -> Spec {
    if let JobSpec::Training { buckets, .. } = &mut spec.job {
        *buckets = Some(BucketSpec { first_bytes, bytes });
    }
    spec
}

#[test]
fn a_bucket_is_exposed_by_hand() {
    // Both layers share an all-reduce, which begins when a's gradient is there and ends before any forward of the next.
    let s = run(&in_buckets(training(true, false, 2), 2 << 20, 1)).summary;
    assert_eq!(s.compute_ps, 2 * COMPUTE);
    assert_eq!(s.exposed_ps, all_reduce_ps(3 << 20));
    assert_eq!(s.total_ps, 2 * COMPUTE + s.exposed_ps);
    // A bucket that the first layer fills leaves the second one alone: layer by layer.
    let plain = run(&training(true, false, 2)).summary;
    let apart = run(&in_buckets(training(true, false, 2), 1 << 20, 1)).summary;
    assert_eq!((apart.total_ps, apart.exposed_ps), (plain.total_ps, plain.exposed_ps));
    let sizes = |spec: &Spec| match column(&run(spec), "collectives", "bytes") {
        Values::Int(sizes) => sizes.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(sizes(&in_buckets(training(true, true, 2), 2 << 20, 1)), [3 << 20; 2]);
    assert_eq!(sizes(&training(true, true, 1)), [2 << 20, 1 << 20]);
}

#[test]
fn a_barrier_exposes_what_back_propagation_does_not_hide() {
    let mut spec = training(true, false, 2);
    if let JobSpec::Training { barrier, .. } = &mut spec.job {
        *barrier = true;
    }
    let s = run(&spec).summary;
    // b's all-reduce begins 10 us before a's and is twice as long; in every iteration, the last one too.
    let left = all_reduce_ps(1 << 20).max(all_reduce_ps(2 << 20) - 10_000_000);
    assert_eq!((s.compute_ps, s.exposed_ps), (2 * COMPUTE, 2 * left));
    assert_eq!(s.total_ps, s.compute_ps + s.exposed_ps);
    assert!(s.exposed_ps > run(&training(true, false, 2)).summary.exposed_ps);
}

#[test]
fn without_overlap_everything_is_exposed_in_every_iteration() {
    let s = run(&training(false, false, 2)).summary;
    assert_eq!(s.exposed_ps, 2 * all_reduce_ps(3 << 20));
    assert_eq!(s.total_ps, s.compute_ps + s.exposed_ps);
}

#[test]
fn draining_waits_for_the_last_collective() {
    let stop = run(&training(true, false, 1)).summary;
    let drain = run(&training(true, true, 1)).summary;
    assert_eq!(stop.total_ps, COMPUTE);
    let left = all_reduce_ps(1 << 20).max(all_reduce_ps(2 << 20) - 10_000_000);
    assert_eq!((drain.total_ps, drain.drain_ps), (COMPUTE + left, left));
    assert_eq!((drain.exposed_ps, stop.drain_ps), (0, 0));
    assert_eq!(drain.network.injected_bytes, drain.network.delivered_bytes);
}

pub fn column<'a>(results: &'a Results, table: &str, name: &str) -> &'a Values {
    let table = results.tables.iter().find(|t| t.name == table).expect("a table");
    table.values(name).expect("a column")
}

pub fn resnet(iterations: u32) -> Spec {
    let mut spec = all_reduce(ace_torus([4, 2, 2]), baseline(), 0);
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 16 };
    spec.output.trace_npus = vec![0, 5];
    spec.output.trace_limit = 100_000;
    spec.job = JobSpec::Training {
        host_kernel_ps: 0,
        workload: resnet50(),
        strategy: StrategySpec::DataParallel,
        iterations,
        overlap: true,
        buckets: None,
        barrier: false,
        drain: false,
        update: false,
        stragglers: vec![],
        compute: ComputeSpec { flops_per_s: 111e12, memory_bytes_per_s: 450e9, scale: 0.07, ..ComputeSpec::default() },
        background: None,
    };
    spec
}

#[test]
fn a_real_model_adds_up() {
    let results = run(&resnet(2));
    let s = &results.summary;
    assert_eq!(s.total_ps, s.compute_ps + s.exposed_ps);
    let Values::OptionalInt(gradients) = column(&results, "layers", "gradient_bytes") else { panic!() };
    assert_eq!((gradients.len(), gradients.iter().copied().sum::<Option<i64>>()), (54, Some(51_114_064)));
    let Values::Int(exposed) = column(&results, "layers", "exposed_ps") else { panic!() };
    assert_eq!(exposed.iter().sum::<i64>(), s.exposed_ps as i64);
    let Values::Int(ids) = column(&results, "collectives", "id") else { panic!() };
    assert_eq!(ids.len(), 108);
    let Values::Float(compute) = column(&results, "windows", "compute") else { panic!() };
    assert!(compute.iter().all(|c| (0.0..=1.0).contains(c)));
}

/// What is still in flight when the run ends, or waits to start, has no times; the means are of what has.
#[test]
fn what_never_happened_has_no_time() {
    let mut spec = resnet(1);
    spec.collectives.inflight = 1;
    let results = run(&spec);
    let times = |table, name| match column(&results, table, name) {
        Values::OptionalInt(times) => times.clone(),
        _ => panic!("{name} is no time"),
    };
    let (issued, started, completed) =
        (times("collectives", "issued_ps"), times("collectives", "started_ps"), times("collectives", "completed_ps"));
    let end = results.summary.total_ps as i64;
    assert!(issued.iter().all(|t| t.is_some_and(|t| 0 < t && t <= end)));
    let known = |times: &[Option<i64>]| times.iter().flatten().count();
    assert!(0 < known(&completed) && known(&completed) < known(&started) && known(&started) < issued.len());
    // One collective of each layer: what is known of it is known of the layer, whose order is the other way round.
    let minus =
        |to: &[Option<i64>]| -> Vec<_> { to.iter().zip(&issued).rev().map(|(t, i)| Some((*t)? - (*i)?)).collect() };
    assert_eq!(times("layers", "raw_latency_ps"), minus(&completed));
    assert_eq!(times("layers", "queue_ps"), minus(&started));
}

/// Slices of a track never overlap.
#[test]
fn slices_are_disjoint_on_their_track() {
    let results = run(&resnet(2));
    let (Values::Int(npu), Values::Text(track)) =
        (column(&results, "slices", "npu"), column(&results, "slices", "track"))
    else {
        panic!()
    };
    let (Values::Int(start), Values::Int(end)) =
        (column(&results, "slices", "start_ps"), column(&results, "slices", "end_ps"))
    else {
        panic!()
    };
    let mut slices: Vec<_> = (0..npu.len()).map(|i| (npu[i], &track[i], start[i], end[i])).collect();
    assert!(slices.iter().any(|s| s.0 == 5) && slices.len() > 400);
    slices.sort();
    for pair in slices.windows(2) {
        let ((n, t, _, end), (m, u, start, _)) = (pair[0], pair[1]);
        assert!((n, t) != (m, u) || end <= start, "{:?}", pair);
    }
}
