//! Plans that are written down run as the algorithms that they were written from, to the last bit.

use crate::algorithms::{KINDS, is_missing};
use crate::folded::product;
use crate::support::{all_reduce, baseline, chunks_of, collective_job, dim, ideal, networks, run, streaming};
use proptest::prelude::*;
use syncline_system::export::{export_spec, schedule_spec};
use syncline_system::spec::{
    AlgorithmSpec, BlockSpec, CollectiveKindSpec, FoldSpec, JobSpec, LanesSpec, PlanSpec, PostingSpec, Spec,
};
use syncline_system::{Results, run_spec};

const ALGORITHMS: [AlgorithmSpec; 9] = [
    AlgorithmSpec::Ring,
    AlgorithmSpec::Direct,
    AlgorithmSpec::HalvingDoubling,
    AlgorithmSpec::DoubleBinaryTree,
    AlgorithmSpec::OneHopTrees,
    AlgorithmSpec::Hierarchical,
    AlgorithmSpec::HierarchicalOptimal,
    AlgorithmSpec::SixPhase,
    AlgorithmSpec::Themis,
];

/// The same run with its plan written down and carried out step by step.
fn literally(spec: &Spec) -> Spec {
    let form = export_spec(spec).unwrap_or_else(|error| panic!("{error}\n{spec:?}"));
    let text = serde_json::to_string(&form).expect("a plan is plain data");
    let read = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(form, read, "a plan comes back equal");
    let mut spec = spec.clone();
    spec.collectives.plans = vec![PlanSpec::literally(read)];
    spec
}

/// All that a run says, but what says how it was simulated.
fn all_of(results: &Results) -> String {
    let mut summary = results.summary.clone();
    (summary.simulated_npus, summary.events, summary.unfolded) = (0, 0, None);
    let tables = results.tables.iter().map(|table| format!("{table:?}"));
    tables.fold(serde_json::to_string(&summary).expect("a summary is plain data"), |all, table| all + &table)
}

type Blocks<'a> = &'a [(BlockSpec, u32)];

/// Every algorithm for every kind of collectives that it carries out, on every fabric.
fn cases<'a>(fabrics: &[Blocks<'a>]) -> impl Iterator<Item = (Blocks<'a>, AlgorithmSpec, CollectiveKindSpec)> {
    let of_fabric = |&fabric| ALGORITHMS.into_iter().flat_map(move |a| KINDS.map(|kind| (fabric, a, kind)));
    fabrics.iter().flat_map(of_fabric).filter(|&(_, algorithm, kind)| !is_missing(algorithm, kind))
}

#[test]
fn every_algorithm_runs_as_it_is_written() {
    let fabrics: [&[(BlockSpec, u32)]; 5] = [
        &[(BlockSpec::Ring, 5)],
        &[(BlockSpec::Ring, 2)],
        &[(BlockSpec::Switch, 6)],
        &[(BlockSpec::FullyConnected, 4)],
        &[(BlockSpec::Ring, 3), (BlockSpec::FullyConnected, 2), (BlockSpec::Switch, 3)],
    ];
    for (blocks, algorithm, kind) in cases(&fabrics) {
        for network in networks() {
            for endpoint in [ideal(), streaming(804), baseline()] {
                let mut spec = all_reduce(product(blocks), endpoint, 12_345);
                spec.collectives.algorithm = algorithm;
                spec.collectives.chunking = chunks_of(4096);
                spec.collectives.slices = 3;
                spec.job = collective_job(kind, 12_345);
                spec.network = network.clone();
                let (built_in, written) = (run(&spec), run(&literally(&spec)));
                assert_eq!(all_of(&built_in), all_of(&written), "{algorithm:?} {kind:?} on {blocks:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_random_runs_as_it_is_written(
        sizes in prop::collection::vec((0usize..3, 1u32..5), 1..4), algorithm in 0usize..9, kind in 0usize..8,
        bytes in 0u64..30_000, chunk in 500u64..9000, slices in 1u32..5, padding: bool, lanes in 0usize..3,
        root in any::<u32>(), posting in 0usize..3, links in 1u16..3, network in 0usize..4, inflight in 1u32..5,
    ) {
        let block = |b: usize| [BlockSpec::Ring, BlockSpec::FullyConnected, BlockSpec::Switch][b];
        let blocks: Vec<(BlockSpec, u32)> = sizes.iter().map(|&(b, n)| (block(b), n)).collect();
        let ranks: u32 = sizes.iter().map(|s| s.1).product();
        let (algorithm, kind) = (ALGORITHMS[algorithm], KINDS[kind]);
        prop_assume!(!is_missing(algorithm, kind) && ranks > 1);
        let mut dims = product(&blocks);
        dims.iter_mut().for_each(|d| d.links = links);
        let mut spec = all_reduce(dims, ideal(), bytes);
        spec.network = networks()[network % networks().len()].clone();
        spec.job = JobSpec::Collective { collective: kind, bytes, root: root % ranks, beside: vec![] };
        let c = &mut spec.collectives;
        (c.algorithm, c.slices, c.padding, c.inflight) = (algorithm, slices, padding, inflight);
        c.chunking = chunks_of(chunk);
        c.lanes = [LanesSpec::Alternate, LanesSpec::Split, LanesSpec::One][lanes];
        c.posting = [PostingSpec::Rotated, PostingSpec::Sequential, PostingSpec::Random][posting];
        if let Ok(built_in) = run_spec(&spec, None) {
            prop_assert_eq!(all_of(&built_in), all_of(&run(&literally(&spec))));
        }
    }
}

#[test]
fn a_plan_that_is_the_same_from_every_rank_folds() {
    for algorithm in [AlgorithmSpec::Ring, AlgorithmSpec::Direct, AlgorithmSpec::OneHopTrees] {
        let mut spec = all_reduce(vec![dim(6, 25, 500_000)], ideal(), 60_000);
        spec.collectives.algorithm = algorithm;
        (spec.collectives.padding, spec.collectives.slices) = (true, 2);
        let written = literally(&spec);
        let folded = run(&Spec { fold: FoldSpec::On, ..written.clone() });
        assert_eq!((folded.summary.simulated_npus, folded.summary.npus), (1, 6), "{algorithm:?}");
        assert_eq!(folded.summary.total_ps, run(&written).summary.total_ps, "{algorithm:?}");
    }
    let mut spec = all_reduce(vec![dim(6, 25, 500_000)], ideal(), 60_000);
    spec.collectives.algorithm = AlgorithmSpec::DoubleBinaryTree;
    spec.collectives.padding = true;
    let refused = run_spec(&Spec { fold: FoldSpec::On, ..literally(&spec) }, None).unwrap_err().to_string();
    assert!(refused.contains("different roles"), "{refused}");
}

/// The time of a run, and that of the same run by a schedule in the vocabulary of MSCCL; none if that cannot hold it.
fn times(spec: &Spec) -> Option<[u64; 2]> {
    let built_in = run_spec(spec, None).ok()?.summary.total_ps;
    let schedule = match schedule_spec(spec, 1) {
        Ok(schedule) => schedule,
        Err(error) if error.to_string().contains("MSCCL does not take") => return None,
        Err(error) => panic!("{error}\n{spec:?}"),
    };
    let mut spec = spec.clone();
    spec.collectives.plans = vec![PlanSpec::of_schedule(schedule)];
    Some([built_in, run(&spec).summary.total_ps])
}

/// Whether two times differ by two per cent at most.
fn are_close([one, other]: [u64; 2]) -> bool {
    one.abs_diff(other) * 50 <= one
}

/// To the last bit over one lane; over several, lanes are threads of one chunk instead of chunks of their own.
#[test]
fn schedules_in_the_vocabulary_of_msccl_take_as_long() {
    let fabrics: [&[(BlockSpec, u32)]; 7] = [
        &[(BlockSpec::Ring, 8)],
        &[(BlockSpec::Ring, 2)],
        &[(BlockSpec::Switch, 8)],
        &[(BlockSpec::Switch, 12)],
        &[(BlockSpec::FullyConnected, 5)],
        &[(BlockSpec::Ring, 4), (BlockSpec::Switch, 3)],
        &[(BlockSpec::Ring, 3), (BlockSpec::FullyConnected, 4)],
    ];
    let mut different = 0;
    for (blocks, algorithm, kind) in cases(&fabrics).filter(|case| case.1 != AlgorithmSpec::Themis) {
        for network in networks() {
            for (endpoint, lanes) in [ideal(), baseline()].into_iter().flat_map(|e| LANES.map(|l| (e.clone(), l))) {
                let bytes = 240 * 16 * 100;
                let mut spec = all_reduce(product(blocks), endpoint, bytes);
                spec.network = network.clone();
                spec.job = collective_job(kind, bytes);
                let c = &mut spec.collectives;
                (c.algorithm, c.slices, c.lanes, c.padding) = (algorithm, 4, lanes, true);
                c.chunking = chunks_of(bytes / 4);
                let times = times(&spec).expect("it is small");
                let is_right = if lanes == LanesSpec::One { times[0] == times[1] } else { are_close(times) };
                assert!(is_right, "{times:?} {algorithm:?} {kind:?} on {blocks:?} {network:?} {lanes:?}");
                different += u32::from(times[0] != times[1]);
            }
        }
    }
    assert!(different <= 8, "{different} runs over several lanes differ");
}

const LANES: [LanesSpec; 2] = [LanesSpec::One, LanesSpec::Split];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_schedules_in_the_vocabulary_of_msccl_take_as_long(
        sizes in prop::collection::vec((0usize..3, 1u32..6), 1..4), algorithm in 0usize..8, kind in 0usize..8,
        bytes in 1u64..200_000, divides: bool, chunks in 1u64..4, slices in 1u32..5, lanes in 0usize..2, root in any::<u32>(),
        posting in 0usize..3, links in 1u16..3, network in 0usize..4,
    ) {
        let block = |b: usize| [BlockSpec::Ring, BlockSpec::FullyConnected, BlockSpec::Switch][b];
        let blocks: Vec<(BlockSpec, u32)> = sizes.iter().map(|&(b, n)| (block(b), n)).collect();
        let ranks: u32 = sizes.iter().map(|s| s.1).product();
        let (algorithm, kind, lanes) = (ALGORITHMS[algorithm], KINDS[kind], LANES[lanes]);
        prop_assume!(!is_missing(algorithm, kind) && (2..=32).contains(&ranks));
        let bytes = if divides { bytes.next_multiple_of(3600) * 16 } else { bytes };
        let mut dims = product(&blocks);
        dims.iter_mut().for_each(|d| d.links = links);
        let mut spec = all_reduce(dims, ideal(), bytes);
        spec.network = networks()[network % networks().len()].clone();
        spec.job = JobSpec::Collective { collective: kind, bytes, root: root % ranks, beside: vec![] };
        let c = &mut spec.collectives;
        (c.algorithm, c.slices, c.padding, c.lanes) = (algorithm, slices, true, lanes);
        c.chunking = chunks_of(bytes.div_ceil(chunks));
        c.posting = [PostingSpec::Rotated, PostingSpec::Sequential, PostingSpec::Random][posting];
        if let Some(times) = times(&spec) {
            // What an all-to-all has for each rank is padded as a whole in a schedule, and phase by phase in the algorithm.
            let is_exact = lanes == LanesSpec::One && kind != CollectiveKindSpec::AllToAll;
            let is_right = if is_exact { times[0] == times[1] } else { are_close(times) };
            prop_assert!(is_right, "{:?} {} {:?} {:?}", times, bytes, blocks, spec.collectives);
        }
    }
}

/// Thread blocks loop over parts of the vector, each for itself: a chain that passes on a vector in one piece does so in
/// slices as the algorithm does that has as many, and ranks of a ring do all their steps for one slice before the next.
#[test]
fn schedules_loop_over_parts_of_the_vector() {
    for network in networks() {
        let bytes = 4 * 6 * 2000;
        let mut spec = all_reduce(vec![dim(6, 25, 500_000)], ideal(), bytes);
        spec.network = network;
        let c = &mut spec.collectives;
        (c.algorithm, c.lanes, c.padding, c.slices) = (AlgorithmSpec::Ring, LanesSpec::One, true, 1);
        c.chunking = chunks_of(bytes);
        let of = |spec: &Spec, slices: u32| {
            let mut spec = spec.clone();
            match spec.collectives.plans.is_empty() {
                true => spec.collectives.slices = slices,
                false => spec.collectives.loops = slices,
            }
            run(&spec).summary.total_ps
        };
        let planned = |spec: &Spec| {
            let mut planned = spec.clone();
            planned.collectives.plans = vec![PlanSpec::of_schedule(schedule_spec(spec, 1).expect("it is small"))];
            planned
        };
        let broadcast = Spec { job: collective_job(CollectiveKindSpec::Broadcast, bytes), ..spec.clone() };
        for slices in [1, 2, 4] {
            assert_eq!(of(&planned(&broadcast), slices), of(&broadcast, slices), "{slices} slices");
            let mut slice = spec.clone();
            slice.job = collective_job(CollectiveKindSpec::AllReduce, bytes / u64::from(slices));
            let [one, all] = [of(&slice, 1), of(&planned(&spec), slices)];
            let first_step = one % 1000; // cycles of steps, of which a slice begins with none
            assert!(all.abs_diff(u64::from(slices) * one) <= u64::from(slices) * first_step.max(2000), "{all} {one}");
        }
        // Slices of what ranks have shares of have shares as well.
        for kind in [CollectiveKindSpec::AllGather, CollectiveKindSpec::ReduceScatter, CollectiveKindSpec::AllToAll] {
            let spec = Spec { job: collective_job(kind, bytes), ..spec.clone() };
            let folded = |fold| Spec { fold, ..planned(&spec) };
            assert_eq!(of(&folded(FoldSpec::Off), 4), of(&folded(FoldSpec::Auto), 4), "{kind:?}");
        }
    }
}

/// Instances are copies of the whole schedule, of which each has a part of the vector.
#[test]
fn instances_share_the_vector() {
    let bytes = 6 * 3 * 8000;
    let mut spec = all_reduce(vec![dim(6, 25, 500_000)], ideal(), bytes);
    let c = &mut spec.collectives;
    (c.algorithm, c.lanes, c.padding) = (AlgorithmSpec::Direct, LanesSpec::One, true);
    c.chunking = chunks_of(bytes);
    let of = |instances| {
        let schedule = schedule_spec(&spec, instances).expect("it is small");
        let blocks = schedule.ranks[0].thread_blocks.len();
        let mut planned = spec.clone();
        planned.collectives.plans = vec![PlanSpec::of_schedule(schedule)];
        (blocks, run(&planned).summary)
    };
    let (one, three) = (of(1), of(3));
    assert_eq!(one.0 * 3, three.0);
    assert_eq!(one.1.endpoint.sent_bytes, three.1.endpoint.sent_bytes);
    let messages = |summary: &syncline_system::Summary| summary.endpoint.breakdown.messages;
    assert_eq!(messages(&three.1), 3 * messages(&one.1));
    for wrong in [0, 33] {
        let refused = schedule_spec(&spec, wrong).unwrap_err().to_string();
        assert!(refused.contains("instances") && refused.contains("1 to 32"), "{refused}");
    }
}

/// An order of dimensions that is chosen for each chunk while it runs cannot be written step by step.
#[test]
fn balanced_plans_are_no_schedules() {
    let mut spec = all_reduce(product(&[(BlockSpec::Ring, 3), (BlockSpec::Ring, 4)]), ideal(), 12_000);
    spec.collectives.algorithm = AlgorithmSpec::Themis;
    let refused = schedule_spec(&spec, 1).unwrap_err().to_string();
    assert!(refused.contains("balances their load"), "{refused}");
}

/// A collective takes the plan for its size: two plans for sizes run as each of them does alone.
#[test]
fn a_plan_may_be_for_sizes_up_to_one() {
    let of = |algorithm| {
        let mut spec = all_reduce(vec![dim(6, 25, 500_000)], ideal(), 1_000);
        spec.collectives.algorithm = algorithm;
        spec.collectives.chunking = chunks_of(1 << 20);
        export_spec(&spec).expect("a plan")
    };
    let (small, large) = (of(AlgorithmSpec::Direct), of(AlgorithmSpec::Ring));
    let up_to = |form: &serde_json::Value, bytes: Option<u64>| -> PlanSpec {
        serde_json::from_value(serde_json::json!({"plan": form, "up_to_bytes": bytes})).expect("a plan")
    };
    let json = |form| serde_json::to_value(form).expect("a plan is plain data");
    let (small, large) = (json(&small), json(&large));
    let run_with = |plans: Vec<PlanSpec>, bytes: u64| {
        let mut spec = all_reduce(vec![dim(6, 25, 500_000)], ideal(), bytes);
        spec.collectives.chunking = chunks_of(1 << 20);
        spec.collectives.plans = plans;
        run_spec(&spec, None)
    };
    let ended = |plans: Vec<PlanSpec>, bytes| run_with(plans, bytes).expect("a run").summary.total_ps;
    let both = || vec![up_to(&large, None), up_to(&small, Some(6_000))];
    for (bytes, alone, other) in [(6_000, &small, &large), (6_001, &large, &small), (60_000, &large, &small)] {
        assert_eq!(ended(both(), bytes), ended(vec![up_to(alone, None)], bytes), "{bytes} B");
        assert_ne!(ended(both(), bytes), ended(vec![up_to(other, None)], bytes), "{bytes} B");
    }
    let refused = |plans, bytes| run_with(plans, bytes).unwrap_err().to_string();
    let message = refused(vec![up_to(&small, Some(6_000))], 6_001);
    assert!(message.contains("there are plans for collectives of up to 6000 B, and none for 6001 B"), "{message}");
    let message = refused(vec![up_to(&small, Some(6_000)), up_to(&large, Some(6_000))], 1);
    assert!(message.contains("there are two plans for all-reduce"), "{message}");
}
