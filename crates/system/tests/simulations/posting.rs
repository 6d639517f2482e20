//! The order in which ranks post their messages to one another.

use crate::support::{
    ace, ace_torus, all_reduce, chunks_of, collective_job, dim, dims, endpoints, fingerprint, ideal, networks, packet,
    run, summary_but_fold,
};
use proptest::prelude::*;
use syncline_system::run_spec;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BlockSpec, CollectiveKindSpec, FlowSpec, FoldSpec, NetworkSpec, PostingSpec, Spec,
};

const ORDERS: [PostingSpec; 3] = [PostingSpec::Rotated, PostingSpec::Sequential, PostingSpec::Random];
const KINDS: [CollectiveKindSpec; 8] = [
    CollectiveKindSpec::AllReduce,
    CollectiveKindSpec::ReduceScatter,
    CollectiveKindSpec::AllGather,
    CollectiveKindSpec::AllToAll,
    CollectiveKindSpec::Broadcast,
    CollectiveKindSpec::Reduce,
    CollectiveKindSpec::Scatter,
    CollectiveKindSpec::Gather,
];
const FLOW: NetworkSpec = NetworkSpec::Flow(FlowSpec {});
const BYTES: u64 = 1 << 20;

/// An all-to-all of a chunk among NPUs at a switch.
fn star(npus: u32, network: NetworkSpec, posting: PostingSpec) -> Spec {
    let mut spec = all_reduce(vec![dim(npus, 25, 500_000)], ideal(), 0);
    dims(&mut spec)[0].block = BlockSpec::Switch;
    spec.job = collective_job(CollectiveKindSpec::AllToAll, BYTES);
    spec.collectives.algorithm = AlgorithmSpec::Direct;
    spec.collectives.chunking = chunks_of(BYTES);
    spec.collectives.posting = posting;
    spec.network = network;
    spec
}

/// Times of the orders, in picoseconds.
fn times(spec: impl Fn(PostingSpec) -> Spec) -> [f64; 3] {
    ORDERS.map(|posting| run(&spec(posting)).summary.total_ps as f64)
}

/// In the rotated order no two NPUs send to the same one at a time: it takes what a port needs for all that goes through
/// it. In the others some ports have several senders while others have none.
#[test]
fn orders_in_which_npus_turn_to_the_same_one_take_longer() {
    for network in [FLOW, packet(true)] {
        for npus in [16, 64] {
            let [rotated, sequential, random] = times(|posting| star(npus, network.clone(), posting));
            let bound = (BYTES - BYTES / u64::from(npus)) as f64 / 25e9 * 1e12 + 1e6;
            assert!((rotated / bound - 1.0).abs() < 1e-3, "{rotated} and {bound}");
            assert!(random > 1.1 * rotated && sequential > 1.4 * random, "{rotated}, {random}, {sequential}");
        }
    }
}

/// An NPU may post eight messages before the first has left. With as many peers all are under way from the beginning, and
/// share ports in any order.
#[test]
fn orders_do_not_matter_where_all_is_posted_at_once() {
    for npus in [2, 3, 9] {
        let [rotated, sequential, random] = times(|posting| star(npus, FLOW, posting));
        assert!((sequential / rotated - 1.0).abs() < 1e-3 && (random / rotated - 1.0).abs() < 1e-3, "{npus} NPUs");
    }
}

#[test]
fn orders_do_not_matter_where_receivers_have_room_for_everybody() {
    let analytical = NetworkSpec::Analytical(AnalyticalSpec {});
    let [rotated, sequential, random] = times(|posting| star(64, analytical.clone(), posting));
    assert!((sequential / rotated - 1.0).abs() < 2e-3 && (random / rotated - 1.0).abs() < 2e-3);
}

#[test]
fn engines_post_in_these_orders_too() {
    let [rotated, sequential, random] = times(|posting| {
        let mut spec = star(16, FLOW, posting);
        spec.collectives.inflight = 1;
        Spec { endpoint: ace(), ..spec }
    });
    assert!(random > 1.5 * rotated && sequential > 1.5 * random, "{rotated}, {random}, {sequential}");
}

#[test]
fn a_seed_gives_the_same_orders_and_another_one_others() {
    let of = |seed| run(&Spec { seed, ..star(16, FLOW, PostingSpec::Random) });
    assert_eq!(fingerprint(&of(1)), fingerprint(&of(1)));
    assert_ne!(of(1).summary.total_ps, of(2).summary.total_ps);
    let rotated = |seed| run(&Spec { seed, ..star(16, FLOW, PostingSpec::Rotated) });
    assert_eq!(fingerprint(&rotated(1)), fingerprint(&rotated(2)), "nothing else is random");
}

/// Only the rotated order looks the same from every rank.
#[test]
fn orders_by_number_and_at_random_do_not_fold() {
    for posting in [PostingSpec::Sequential, PostingSpec::Random] {
        let mut spec = star(16, packet(true), posting);
        let unfolded = run(&spec);
        spec.fold = FoldSpec::Auto;
        assert_eq!(summary_but_fold(&run(&spec)), summary_but_fold(&unfolded));
        spec.fold = FoldSpec::On;
        let refused = run_spec(&spec, None).expect_err("a refusal").to_string();
        assert!(refused.contains("the order in which a rank posts its messages depends on its number"), "{refused}");
        // Rings have no such order.
        spec.collectives.algorithm = AlgorithmSpec::Ring;
        dims(&mut spec)[0].block = BlockSpec::Ring;
        run(&spec);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// In any order, on any machine: a run ends, moves the same bytes, and simultaneous events commute.
    #[test]
    fn runs_end_in_any_order(
        endpoint in 0..endpoints().len(),
        network in 0..networks().len(),
        sizes in proptest::collection::vec(1u32..5, 3),
        switch in any::<bool>(),
        kind in 0..KINDS.len(),
        bytes in 0u64..200_000,
        seed in any::<u64>(),
    ) {
        let endpoint = endpoints()[endpoint].clone();
        let spec = |posting| {
            let mut spec = all_reduce(ace_torus([sizes[0], sizes[1], sizes[2]]), endpoint.clone(), 0);
            if switch {
                dims(&mut spec).iter_mut().for_each(|dim| dim.block = BlockSpec::Switch);
            }
            (spec.job, spec.network) = (collective_job(KINDS[kind], bytes), networks()[network].clone());
            (spec.collectives.algorithm, spec.collectives.posting) = (AlgorithmSpec::Direct, posting);
            Spec { seed, ..spec }
        };
        // What an endpoint cannot carry out it cannot carry out in any order.
        let Ok(rotated) = run_spec(&spec(PostingSpec::Rotated), None) else {
            for posting in [PostingSpec::Sequential, PostingSpec::Random] {
                prop_assert!(run_spec(&spec(posting), None).is_err());
            }
            return Ok(());
        };
        for posting in [PostingSpec::Sequential, PostingSpec::Random] {
            let results = run(&spec(posting));
            prop_assert_eq!(results.summary.endpoint.sent_bytes, rotated.summary.endpoint.sent_bytes);
            let shuffled = run_spec(&spec(posting), Some(seed)).expect("a run that ends");
            prop_assert_eq!(fingerprint(&results), fingerprint(&shuffled));
        }
    }
}
