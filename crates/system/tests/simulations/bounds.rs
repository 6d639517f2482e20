//! No run beats the lower bound, and good schedules come close.

use crate::algorithms::KINDS;
use crate::folded::product;
use crate::support::{chunks_of, collective_job, ideal, packet, run};
use proptest::prelude::*;
use syncline_system::spec::{AlgorithmSpec, AnalyticalSpec, BlockSpec, CollectiveKindSpec, NetworkSpec, Spec};

fn spec(blocks: &[(BlockSpec, u32)], kind: CollectiveKindSpec, bytes: u64) -> Spec {
    let mut spec = crate::support::all_reduce(product(blocks), ideal(), bytes);
    spec.collectives.algorithm = AlgorithmSpec::Direct;
    spec.job = collective_job(kind, bytes);
    spec
}

/// The bound and the time of a run, in ps.
fn bound_and_time(spec: &Spec) -> (u64, u64) {
    let summary = run(spec).summary;
    (summary.lower_bound_ps, summary.total_ps)
}

#[test]
fn closed_forms() {
    let bound = |blocks: &[(BlockSpec, u32)], kind| bound_and_time(&spec(blocks, kind, 8_000_000)).0;
    // One dimension: 200 GB/s and 70 ns a link. A ring has two links out of every NPU.
    let ring = [(BlockSpec::Ring, 8)];
    assert_eq!(bound(&ring, CollectiveKindSpec::AllReduce), 2 * 7 * 1_000_000_000_000 / 400_000 + 70_000);
    assert_eq!(bound(&ring, CollectiveKindSpec::AllGather), 7 * 1_000_000_000_000 / 400_000 + 70_000);
    // All-to-all: half of the ring sends 4 * 4 blocks of 1 MB to the other half over two links.
    assert_eq!(bound(&ring, CollectiveKindSpec::AllToAll), 16 * 1_000_000_000_000 / 400_000 + 70_000);
    let switch = [(BlockSpec::Switch, 8)];
    assert_eq!(bound(&switch, CollectiveKindSpec::AllToAll), 7 * 1_000_000_000_000 / 200_000 + 70_000);
    assert_eq!(bound(&switch, CollectiveKindSpec::Gather), 7 * 1_000_000_000_000 / 200_000 + 70_000);
    assert_eq!(bound(&switch, CollectiveKindSpec::Broadcast), 8 * 1_000_000_000_000 / 200_000 + 70_000);
    // Nothing to send: the farthest rank of the ring is four links away.
    let small = bound_and_time(&spec(&ring, CollectiveKindSpec::AllReduce, 8)).0;
    assert_eq!(small, 4 * 70_000);
}

#[test]
fn a_direct_all_to_all_on_a_switch_is_optimal() {
    let mut spec = spec(&[(BlockSpec::Switch, 8)], CollectiveKindSpec::AllToAll, 64_000_000);
    spec.collectives.chunking = chunks_of(64_000_000);
    let (bound, time) = bound_and_time(&spec);
    assert!(time < bound + bound / 100, "{bound} {time}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_run_beats_its_bound(
        blocks in crate::folded::blocks(), kind in 0usize..8, bytes in 1u64..3_000_000, chunk in 10_000u64..400_000, rings: bool,
    ) {
        let mut spec = spec(&blocks, KINDS[kind], bytes);
        spec.network = packet(true);
        spec.collectives.chunking = chunks_of(chunk);
        if rings && kind < 3 {
            spec.collectives.algorithm = AlgorithmSpec::SixPhase;
        }
        let (bound, time) = bound_and_time(&spec);
        prop_assert!(bound <= time, "{} beats {}: {:?}", time, bound, spec);
        spec.network = NetworkSpec::Analytical(AnalyticalSpec {});
        let summary = run(&spec).summary;
        // What ignores contention says so when it beats the bound.
        prop_assert!(summary.lower_bound_ps <= summary.total_ps || !summary.warnings.is_empty(), "{:?}", summary);
    }
}
