//! Chunks that an NPU has in flight along each dimension at most.

use crate::families::{class, graph, named, node, on_grid, reduce, time};
use crate::mixed;
use crate::stalls::rings;
use crate::support::{
    ace, all_reduce, baseline, chunks_of, collective_job, dim, dims, endpoints, fingerprint, forwarding, ideal, least,
    run, switch_offload,
};
use proptest::prelude::*;
use syncline_core::table::Values;
use syncline_system::export::schedule_spec;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, DimSpec, EndpointSpec, FamilySpec,
    FoldSpec, IdealSpec, LanesSpec, NetworkSpec, PlanSpec, SchedulingSpec, Spec, WorkSpec,
};
use syncline_system::{Results, run_spec};

fn with(spec: &Spec, most: impl Into<Option<u32>>) -> Spec {
    let mut spec = spec.clone();
    spec.collectives.inflight_per_dimension = most.into();
    spec
}

/// An all-reduce of so many chunks, one dimension after the other.
fn chunks(sizes: &[(u32, u64)], count: u32) -> Spec {
    let dims = sizes.iter().map(|&(size, rate)| dim(size, rate, 500_000)).collect();
    let mut spec = all_reduce(dims, ideal(), u64::from(count) * 240_000);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: count };
    spec.network = NetworkSpec::Analytical(AnalyticalSpec {});
    spec
}

/// The most chunks of NPU 0 that were in a phase at once, for each phase that it took part in.
fn most_at_once(results: &Results) -> Vec<usize> {
    let slices = results.tables.iter().find(|table| table.name == "slices").expect("a table of every run");
    let Some(Values::Text(tracks)) = slices.values("track") else { panic!("tracks have names") };
    let Some(Values::Int(begins)) = slices.values("start_ps") else { panic!("times are integers") };
    let Some(Values::Int(ends)) = slices.values("end_ps") else { panic!("times are integers") };
    let mut phases = std::collections::BTreeMap::<&str, Vec<(i64, i64)>>::new();
    for ((track, &begin), &end) in tracks.iter().zip(begins).zip(ends) {
        if let Some((phase, _)) = track.split_once(" slot ") {
            phases.entry(phase).or_default().push((begin, end));
        }
    }
    let at_once = |spans: &Vec<(i64, i64)>| {
        let beside = |begin: i64| spans.iter().filter(|span| span.0 <= begin && begin < span.1).count();
        spans.iter().map(|span| beside(span.0)).max().unwrap_or(0)
    };
    phases.values().map(at_once).collect()
}

/// Also where a program has so many threads that only active ones have state: a message that comes early does not begin its
/// thread before its chunk has a place.
#[test]
fn chunks_of_many_threads_wait_for_their_place() {
    for step_latency_ps in [0, 5_000_000] {
        let endpoint = EndpointSpec::Ideal(IdealSpec { step_latency_ps, ..IdealSpec::default() });
        let mut spec = Spec { endpoint, ..chunks(&[(4, 100)], 6) };
        spec.job = collective_job(CollectiveKindSpec::Broadcast, 6 * 240_000);
        (spec.collectives.lanes, spec.collectives.slices, spec.collectives.padding) = (LanesSpec::One, 1, true);
        let schedule = schedule_spec(&spec, 20).expect("it is small");
        spec.collectives.plans = vec![PlanSpec::of_schedule(schedule)];
        let [limited, free] = [Some(1), None].map(|most| run(&with(&spec, most)).summary.total_ps);
        assert!(limited >= free, "{limited} {free}");
    }
}

/// With one chunk along the only dimension, chunks run one after the other.
#[test]
fn chunks_of_one_dimension_follow_one_another() {
    for endpoint in endpoints().into_iter().filter(|endpoint| endpoint.model().limits_dimensions()) {
        let on = |chunks| Spec { endpoint: endpoint.clone(), ..chunks };
        let alone = run(&on(chunks(&[(6, 100)], 1))).summary.total_ps;
        for count in [2, 5, 16] {
            let all = on(chunks(&[(6, 100)], count));
            assert_eq!(run(&with(&all, 1)).summary.total_ps, u64::from(count) * alone);
            let (two, free) = (run(&with(&all, 2)).summary.total_ps, run(&all).summary.total_ps);
            assert!(free <= two && two < u64::from(count) * alone, "{free} {two}");
        }
    }
}

/// With one chunk along each of two dimensions that a chunk visits once each, chunks form a pipeline of two stages.
#[test]
fn chunks_of_two_dimensions_form_a_pipeline() {
    for (first, second) in [((4, 100), (3, 25)), ((3, 20), (5, 100))] {
        let spec = |sizes: &[(u32, u64)], count| with(&chunks(sizes, count), 1);
        let [slow, fast] = [first, second].map(|dimension| run(&spec(&[dimension], 1)).summary.total_ps);
        for count in [1, 2, 9] {
            let whole = run(&spec(&[first, second], count)).summary.total_ps;
            assert_eq!(whole, slow + fast + u64::from(count - 1) * slow.max(fast), "{count} chunks");
        }
    }
}

#[test]
fn no_phase_has_more_chunks_than_the_limit() {
    let mut spec = chunks(&[(4, 100), (3, 50), (2, 25)], 24);
    spec.output.trace_npus = vec![0];
    for algorithm in [AlgorithmSpec::SixPhase, AlgorithmSpec::AceFourPhase, AlgorithmSpec::Ring] {
        spec.collectives.algorithm = algorithm;
        assert!(most_at_once(&run(&spec)).into_iter().max() > Some(4));
        for most in [1, 2, 4] {
            let at_once = most_at_once(&run(&with(&spec, most)));
            assert_eq!(at_once.iter().max(), Some(&(most as usize)), "{at_once:?}");
        }
    }
}

#[test]
fn a_limit_that_is_never_reached_changes_nothing() {
    let limited = endpoints().into_iter().filter(|endpoint| endpoint.model().limits_dimensions());
    for endpoint in limited.chain([forwarding(baseline())]) {
        let spec = Spec { endpoint, ..chunks(&[(4, 100), (3, 50)], 12) };
        assert_eq!(fingerprint(&run(&with(&spec, 16))), fingerprint(&run(&spec)));
    }
}

#[test]
fn a_limit_folds_and_goes_with_switches_that_add() {
    let mut spec = with(&chunks(&[(4, 100), (4, 50)], 12), 2);
    let whole = run(&spec).summary.total_ps;
    spec.fold = FoldSpec::On;
    assert_eq!(run(&spec).summary.total_ps, whole);
    let mut switched = chunks(&[(8, 50)], 12);
    dims(&mut switched)[0].block = BlockSpec::Switch;
    (switched.endpoint, switched.collectives.algorithm) = (switch_offload(), AlgorithmSpec::Hierarchical);
    let (limited, free) = (run(&with(&switched, 1)).summary.total_ps, run(&switched).summary.total_ps);
    assert!(limited > free);
}

#[test]
fn limits_that_cannot_be_kept_are_refused() {
    let refused = |spec: &Spec| run_spec(spec, None).err().unwrap_or_else(|| panic!("it ran: {spec:?}"));
    let spec = chunks(&[(4, 100)], 4);
    assert_eq!(least(&refused(&with(&spec, 0))), 1);
    let error = refused(&with(&Spec { endpoint: ace(), ..spec }, 2)).to_string();
    assert!(error.starts_with("collectives.inflight_per_dimension: "), "{error}");
}

/// Collectives of a family along a dimension of a switched grid: so many chunks of 240 kB, with a limit along dimensions.
fn of_family(name: &str, sizes: &[u32], along: &[u8], count: u32, most: Option<u32>) -> FamilySpec {
    let mut family = on_grid(name, sizes, along);
    family.collectives.chunking = ChunkingSpec::Count { chunks: count };
    family.collectives.inflight_per_dimension = most;
    family
}

/// A graph of one class that issues an all-reduce of each family at once, and waits for them all.
fn issued_at_once(sizes: &[u32], families: Vec<FamilySpec>) -> Spec {
    let chunks = |family: &FamilySpec| match family.collectives.chunking {
        ChunkingSpec::Count { chunks } => u64::from(chunks),
        ChunkingSpec::Size { .. } => panic!("a number of chunks"),
    };
    let mut nodes: Vec<_> = (0u8..).zip(&families).map(|(i, f)| node(reduce(i, 240_000 * chunks(f)), &[])).collect();
    nodes.push(node(time(1), &(0..families.len() as u32).collect::<Vec<_>>()));
    let npus = sizes.iter().product();
    let dims = sizes.iter().map(|&size| DimSpec { block: BlockSpec::Switch, ..dim(size, 10, 500_000) }).collect();
    let analytical = NetworkSpec::Analytical(AnalyticalSpec {});
    graph(dims, ideal(), analytical, families, vec![class("all", 0..npus, nodes)])
}

/// The limit counts chunks of all communicators of an NPU: with one along a dimension, those of two families go one after the
/// other, as if they were of one.
#[test]
fn communicators_share_the_places_along_a_dimension() {
    let all = |name: &str, count, most| of_family(name, &[4], &[0], count, most);
    let time = |families| run(&issued_at_once(&[4], families)).summary.total_ps - 1;
    let alone = time(vec![all("a", 1, Some(1))]);
    for (first, second) in [(1, 1), (4, 3), (2, 7)] {
        let together = |most| time(vec![all("a", first, most), all("b", second, most)]);
        assert_eq!(together(Some(1)), u64::from(first + second) * alone);
        assert!(together(Some(2)) < u64::from(first + second) * alone);
        // A limit of one family holds for its own chunks, and counts those of the other.
        let other = time(vec![all("a", first, None), all("b", second, Some(1))]);
        assert!(other < u64::from(first + second) * alone || (first, second) == (1, 1), "{other}");
    }
}

/// Communicators along different dimensions have places of their own, whichever number their dimension has in them.
#[test]
fn communicators_along_other_dimensions_do_not_take_places() {
    let sizes = [4, 4];
    let time = |families| run(&issued_at_once(&sizes, families)).summary.total_ps;
    let rows = |most| of_family("rows", &sizes, &[0], 5, most);
    let columns = |most| of_family("columns", &sizes, &[1], 5, most);
    assert_eq!(time(vec![rows(Some(1)), columns(Some(1))]), time(vec![rows(Some(1))]));
    let planes = of_family("planes", &sizes, &[0, 1], 5, Some(1));
    assert!(time(vec![rows(Some(1)), planes]) > time(vec![rows(Some(1))]));
}

/// LIFO with all-to-all first, by hand, in two communicators that share one place along their dimension.
///
/// Each family is issued an all-reduce `a`, then `b`, an all-to-all `x` and a later one `y`, of two chunks each, while the first
/// chunk of `a` is under way, with one chunk in flight. It is committed; then come the all-to-alls, the later one first, and
/// then the all-reduces, the later one first.
#[test]
fn last_issued_goes_first_and_exchanges_before_all() {
    let order_of = |families: usize| {
        let mut specs = Vec::new();
        for family in 0..families {
            let mut spec = of_family(&format!("f{family}"), &[4], &[0], 2, Some(1));
            (spec.collectives.inflight, spec.collectives.scheduling) = (1, SchedulingSpec::Lifo);
            spec.collectives.priority = vec![CollectiveKindSpec::AllToAll];
            spec.collectives.algorithm = AlgorithmSpec::Direct;
            specs.push(spec);
        }
        let kinds = [("a", CollectiveKindSpec::AllReduce), ("b", CollectiveKindSpec::AllReduce)];
        let kinds = kinds.into_iter().chain([("x", CollectiveKindSpec::AllToAll), ("y", CollectiveKindSpec::AllToAll)]);
        let mut nodes = Vec::new();
        for (number, (name, kind)) in kinds.enumerate() {
            // One after the other: the compute nodes of one stream run in order.
            nodes.push(named(name, time(1_000 + number as u64), &[]));
            let issued = nodes.len() as u32 - 1;
            for family in 0..families as u8 {
                let work = WorkSpec::Collective { family, kind, bytes: 480_000, root: 0 };
                nodes.push(named(&format!("{name}{family}"), work, &[issued]));
            }
        }
        let dims = vec![DimSpec { block: BlockSpec::Switch, ..dim(4, 10, 500_000) }];
        let network = NetworkSpec::Analytical(AnalyticalSpec {});
        let results = run(&graph(dims, ideal(), network, specs, vec![class("all", 0..4, nodes)]));
        let table = results.tables.iter().find(|table| table.name == "collectives").expect("a table");
        let Some(Values::Text(layers)) = table.values("layer") else { panic!("layers have names") };
        let Some(Values::OptionalInt(completed)) = table.values("completed_ps") else { panic!("times may be missing") };
        let mut done: Vec<(i64, String)> =
            completed.iter().zip(layers).map(|(at, layer)| (at.expect("complete"), layer.clone())).collect();
        done.sort();
        done.into_iter().map(|(_, layer)| layer).collect::<Vec<_>>()
    };
    assert_eq!(order_of(1), ["y0", "x0", "b0", "a0"]);
    let both = order_of(2);
    for family in ["0", "1"] {
        let own: Vec<&str> = both.iter().filter(|layer| layer.ends_with(family)).map(|layer| &layer[..1]).collect();
        assert_eq!(own, ["y", "x", "b", "a"], "{both:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever collectives go beside each other, with orders of dimensions of their own too, no chunk waits for ever.
    #[test]
    fn every_mix_finishes(
        (spec, steps) in mixed::mixes(rings(&[1, 2, 3, 4])),
        most in 1u32..4, forwards: bool, whole: bool, balanced: bool,
    ) {
        let endpoint: EndpointSpec = if whole { ideal() } else { baseline() };
        let endpoint = if forwards { forwarding(endpoint) } else { endpoint };
        let mut spec = Spec { endpoint, network: NetworkSpec::Analytical(AnalyticalSpec {}), ..spec };
        if balanced {
            spec.collectives.algorithm = AlgorithmSpec::Themis;
            spec.collectives.algorithms = vec![];
        }
        spec.collectives.chunking = chunks_of(4096);
        mixed::run(&with(&spec, most), &steps);
    }
}
