//! NPUs that begin later than others.

use crate::support::{
    ace_torus, all_reduce, chunks_of, collective_job, dim, endpoints, fingerprint, ideal, networks, run,
    summary_but_fold,
};
use proptest::prelude::*;
use syncline_core::Ps;
use syncline_system::spec::{CollectiveKindSpec, FoldSpec, Spec};
use syncline_system::{RunError, run_spec};

const LATE: u64 = 123_456_789;

fn held_back(mut spec: Spec, offsets: &[(u32, u64)]) -> Spec {
    spec.start.offsets = offsets.to_vec();
    spec
}

#[test]
fn a_run_that_all_begin_later_takes_that_much_longer() {
    for endpoint in endpoints() {
        let spec = all_reduce(ace_torus([4, 2, 2]), endpoint, 3_000_000);
        let offsets: Vec<_> = (0..16).map(|npu| (npu, LATE)).collect();
        let late = run(&held_back(spec.clone(), &offsets)).summary;
        assert_eq!(late.total_ps, run(&spec).summary.total_ps + LATE);
        assert_eq!(late.exposed_ps, run(&spec).summary.exposed_ps, "nobody waits before it begins");
    }
}

/// The block of the last one to begin has the whole way round before it, twice, which is as long as the whole all-reduce.
#[test]
fn an_all_reduce_takes_as_long_from_when_the_last_begins() {
    for network in networks() {
        let mut spec = all_reduce(vec![dim(6, 25, 700_000)], ideal(), 60_000);
        (spec.collectives.chunking, spec.network) = (chunks_of(60_000), network);
        let alone = run(&spec).summary.total_ps;
        assert_eq!(run(&held_back(spec, &[(5, LATE), (3, LATE / 3)])).summary.total_ps, LATE + alone);
    }
}

/// What others have begun meanwhile hardly delays the last one, and saves less than all.
#[test]
fn endpoints_wait_for_the_last_to_begin() {
    for endpoint in endpoints() {
        let spec = all_reduce(ace_torus([4, 2, 2]), endpoint, 3_000_000);
        let alone = run(&spec).summary.total_ps;
        let late = run(&held_back(spec, &[(5, 20 * alone)])).summary.total_ps - 20 * alone;
        assert!(late > alone / 2 && late < alone + alone / 20, "{late} and {alone}");
    }
}

/// The root of a broadcast has nobody to wait for, and all others have the data a latency and a transfer after it began.
#[test]
fn what_is_sent_by_who_begins_late_comes_late() {
    let mut spec = all_reduce(vec![dim(2, 25, 700_000)], ideal(), 0);
    spec.job = collective_job(CollectiveKindSpec::Broadcast, 250_000);
    let at_once = run(&spec).summary.total_ps;
    assert_eq!(run(&held_back(spec.clone(), &[(0, LATE)])).summary.total_ps, at_once + LATE);
    let receiver_late = run(&held_back(spec, &[(1, at_once / 2)])).summary.total_ps;
    assert_eq!(receiver_late, at_once, "what arrives early waits at its receiver");
}

#[test]
fn jitter_is_below_its_bound_and_depends_on_the_seed() {
    let spec = |seed, jitter_ps| {
        let mut spec = all_reduce(ace_torus([4, 2, 2]), ideal(), 3_000_000);
        (spec.seed, spec.start.jitter_ps) = (seed, jitter_ps);
        spec
    };
    let alone = run(&spec(1, 0)).summary.total_ps;
    assert_eq!(run(&spec(2, 1)).summary.total_ps, alone, "there is no time below 1 ps but zero");
    let jitter = 40 * alone;
    let totals: Vec<u64> = (0..20).map(|seed| run(&spec(seed, jitter)).summary.total_ps).collect();
    assert!(totals.iter().all(|&total| total > alone && total < alone + jitter), "{totals:?}");
    // The last of 16 begins after 16/17 of the time in the mean, the earliest of 20 such after more than half of it.
    assert!(totals.iter().all(|&total| total > jitter / 2), "{totals:?}");
    assert!(totals.windows(2).any(|pair| pair[0] != pair[1]), "{totals:?}");
    assert_eq!(fingerprint(&run(&spec(3, jitter))), fingerprint(&run(&spec(3, jitter))));
}

#[test]
fn npus_that_begin_at_other_times_do_not_fold() {
    for endpoint in endpoints() {
        let mut spec = all_reduce(ace_torus([4, 4, 2]), endpoint, 1_000_000);
        // Every NPU of one coordinate begins later, so that some NPUs are still alike.
        let late: Vec<_> = (0..32).filter(|npu| npu % 4 == 1).map(|npu| (npu, LATE)).collect();
        spec.start.offsets = late;
        let unfolded = run(&spec);
        spec.fold = FoldSpec::Auto;
        let folded = run(&spec);
        assert_eq!(summary_but_fold(&folded), summary_but_fold(&unfolded));
        spec.start.offsets.clear();
        assert_ne!(run(&spec).summary.total_ps, folded.summary.total_ps);
        spec.start.jitter_ps = 1_000;
        spec.fold = FoldSpec::On;
        let refused = run_spec(&spec, None).expect_err("a refusal").to_string();
        assert!(refused.contains("NPUs begin at random times"), "{refused}");
    }
}

#[test]
fn offsets_of_no_npu_of_one_twice_and_beyond_the_end_of_time_are_refused() {
    let spec = all_reduce(vec![dim(4, 25, 1)], ideal(), 1 << 20);
    let refusal = |spec: &Spec| match run_spec(spec, None) {
        Err(refused @ RunError::Spec(_)) => refused.to_string(),
        other => panic!("{other:?}"),
    };
    let of_offsets = |offsets: &[(u32, u64)]| refusal(&held_back(spec.clone(), offsets));
    assert!(of_offsets(&[(4, 1)]).starts_with("start.offsets: "));
    assert!(of_offsets(&[(1, 1), (3, 0), (1, 2)]).starts_with("start.offsets: NPU 1 has two"));
    assert!(of_offsets(&[(1, u64::MAX)]).contains("begins after the end of simulated time"));
    let mut random = spec.clone();
    random.start.jitter_ps = u64::MAX;
    assert!(refusal(&random).starts_with("start.jitter_ps: "));
    // Both at most the end of simulated time, but not their sum.
    let mut both = held_back(spec.clone(), &[(1, Ps::HORIZON.0)]);
    both.start.jitter_ps = Ps::HORIZON.0;
    assert!(matches!(run_spec(&both, None), Err(RunError::Simulation(said)) if said.contains("106 days")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whoever begins when: a run ends, and events of the same time and key commute.
    #[test]
    fn runs_end_whenever_npus_begin(
        endpoint in 0..endpoints().len(),
        sizes in proptest::collection::vec(2u32..5, 3),
        times in proptest::collection::vec(0u64..40_000_000, 1..12),
        jitter in 0u64..3_000_000,
        inflight in 1u32..5,
    ) {
        let torus = ace_torus([sizes[0], sizes[1], sizes[2]]);
        let mut spec = all_reduce(torus, endpoints()[endpoint].clone(), 500_000);
        spec.collectives.inflight = inflight;
        spec.start.jitter_ps = jitter;
        let npus = sizes.iter().product::<u32>();
        let spec = held_back(spec, &(0..npus).zip(times).collect::<Vec<_>>());
        let shuffled = run_spec(&spec, Some(1)).expect("a run that ends");
        prop_assert_eq!(fingerprint(&run(&spec)), fingerprint(&shuffled));
    }
}
