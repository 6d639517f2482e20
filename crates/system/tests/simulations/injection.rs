//! The injection latency of the ideal endpoint: a pure delay of every message that an NPU receives.

use crate::families::{class, flow, graph, list, node, reduce, time};
use crate::support::{all_reduce, collective_job, dim, fingerprint, networks, run, streaming, summary_but_fold};
use syncline_system::spec::{
    AlgorithmSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, DimAlgorithmSpec, DimSpec, EndpointSpec, FoldSpec,
    IdealSpec, MessageSpec, Spec, TransitSpec, WorkSpec,
};
use syncline_system::{RunError, Values, run_spec};

const LATENCY_PS: u64 = 100_000_000;

fn switch(size: u32) -> DimSpec {
    DimSpec { block: BlockSpec::Switch, ..dim(size, 100, 500_000) }
}

fn delaying(injection_latency_ps: u64) -> EndpointSpec {
    EndpointSpec::Ideal(IdealSpec { step_latency_ps: 0, injection_latency_ps, ..IdealSpec::default() })
}

/// A collective of one chunk, in which each NPU works on a few bytes.
fn collective(dims: Vec<DimSpec>, kind: CollectiveKindSpec, algorithm: AlgorithmSpec) -> Spec {
    let bytes = 2 * dims.iter().map(|dim| u64::from(dim.size)).product::<u64>();
    let mut spec = all_reduce(dims, delaying(0), bytes);
    spec.job = collective_job(kind, bytes);
    spec.collectives.algorithm = algorithm;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    spec.collectives.slices = 1;
    spec
}

/// How much longer it takes with the latency, in latencies; the rest is less than one.
fn latencies(spec: &Spec) -> u64 {
    let [free, delayed] =
        [0, LATENCY_PS].map(|latency| run(&Spec { endpoint: delaying(latency), ..spec.clone() }).summary.total_ps);
    assert!(free < LATENCY_PS, "{free}");
    delayed / LATENCY_PS
}

/// The messages on the critical path of HOTI's all-reduces (claim on observation 9: 14 and 10), and of its all-to-alls, in
/// which an NPU receives 127 or more messages at a time.
#[test]
fn every_message_on_the_critical_path_is_delayed_once() {
    use AlgorithmSpec::{Direct, DoubleBinaryTree, Hierarchical, HierarchicalOptimal};
    use CollectiveKindSpec::{AllReduce, AllToAll};
    let (flat, hierarchical) = (|| vec![switch(128)], || vec![switch(8), switch(16)]);
    for (dims, kind, algorithm, messages) in [
        (flat(), AllReduce, DoubleBinaryTree, 14),
        (flat(), AllReduce, Direct, 2),
        (flat(), AllToAll, Direct, 1),
        (hierarchical(), AllReduce, HierarchicalOptimal, 10),
        (hierarchical(), AllReduce, Hierarchical, 10),
        (hierarchical(), AllToAll, Hierarchical, 2),
    ] {
        let mut spec = collective(dims.clone(), kind, algorithm);
        if dims.len() > 1 && kind == AllReduce {
            spec.collectives.per_dimension = Some(vec![DimAlgorithmSpec::Direct, DimAlgorithmSpec::DoubleBinaryTree]);
        }
        for network in networks() {
            spec.network = network;
            assert_eq!(latencies(&spec), messages, "{kind:?} {algorithm:?} on {} dimensions", dims.len());
        }
    }
}

/// Bytes that all NPUs together send along each dimension. On a switch, each byte crosses two links.
fn sent_along(spec: &Spec, dims: usize) -> Vec<u64> {
    let results = run(spec);
    let links = results.tables.iter().find(|table| table.name == "links").expect("a table of every run");
    let ints = |name| match links.values(name) {
        Some(Values::Int(values)) => values.clone(),
        other => panic!("{name}: {other:?}"),
    };
    let mut sent = vec![0; dims];
    for ((dim, copies), bytes) in ints("dim").iter().zip(ints("copies")).zip(ints("bytes")) {
        sent[*dim as usize] += (copies * bytes) as u64 / 2;
    }
    sent
}

/// Bytes along each dimension of HOTI's algorithms (Table II) on 16 super-nodes of 8: a hierarchical all-to-all does not reduce
/// what goes into the scale-out dimension, the optimal all-reduce does to an eighth.
#[test]
fn what_is_sent_along_each_dimension() {
    use AlgorithmSpec::{Direct, DoubleBinaryTree, Hierarchical, HierarchicalOptimal};
    use CollectiveKindSpec::{AllReduce, AllToAll};
    let vector = 2 * 128 * 40;
    let per_dimension = Some(vec![DimAlgorithmSpec::Direct, DimAlgorithmSpec::DoubleBinaryTree]);
    for (kind, algorithm, [local, beyond]) in [
        (AllReduce, Hierarchical, [2 * 16 * 7 * vector, 2 * 8 * 15 * vector]),
        (AllReduce, HierarchicalOptimal, [2 * 16 * 7 * vector, 2 * 15 * vector]),
        (AllToAll, Hierarchical, [16 * 7 * vector, 8 * 15 * vector]),
    ] {
        let mut spec = collective(vec![switch(8), switch(16)], kind, algorithm);
        spec.job = collective_job(kind, vector);
        spec.collectives.per_dimension = per_dimension.clone().filter(|_| kind == AllReduce);
        assert_eq!(sent_along(&spec, 2), [local, beyond], "{kind:?} {algorithm:?}");
    }
    for (kind, algorithm, all) in [
        (AllReduce, DoubleBinaryTree, 2 * 127 * vector),
        (AllReduce, Direct, 2 * 127 * vector),
        (AllToAll, Direct, 127 * vector),
    ] {
        let mut spec = collective(vec![switch(128)], kind, algorithm);
        spec.job = collective_job(kind, vector);
        assert_eq!(sent_along(&spec, 1), [all], "{kind:?} {algorithm:?}");
    }
}

/// The latency of a step is none of this: a thread takes it for one message after the other, sent or received.
#[test]
fn the_latency_of_a_step_is_another_thing() {
    let mut spec = collective(vec![switch(8)], CollectiveKindSpec::AllToAll, AlgorithmSpec::Direct);
    spec.endpoint = EndpointSpec::Ideal(IdealSpec { step_latency_ps: LATENCY_PS, ..IdealSpec::default() });
    assert_eq!(run(&spec).summary.total_ps / LATENCY_PS, 14);
}

/// Chunks that are under way together are delayed together.
#[test]
fn chunks_do_not_wait_for_the_delays_of_others() {
    let mut spec = collective(vec![switch(16)], CollectiveKindSpec::AllReduce, AlgorithmSpec::DoubleBinaryTree);
    spec.job = collective_job(CollectiveKindSpec::AllReduce, 64 * 32);
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 64 };
    for (inflight, rounds) in [(64, 1), (32, 2), (1, 64)] {
        spec.collectives.inflight = inflight;
        let [free, delayed] =
            [0, LATENCY_PS].map(|latency| run(&Spec { endpoint: delaying(latency), ..spec.clone() }).summary.total_ps);
        let added = delayed - free;
        assert_eq!((added + LATENCY_PS / 2) / LATENCY_PS, rounds * 8, "{inflight} in flight");
    }
}

#[test]
fn folded_and_shuffled_runs_are_the_same() {
    let hierarchical = || vec![switch(4), switch(4)];
    for kind in [CollectiveKindSpec::AllReduce, CollectiveKindSpec::AllToAll] {
        let mut spec = collective(hierarchical(), kind, AlgorithmSpec::Hierarchical);
        (spec.endpoint, spec.collectives.chunking) = (delaying(700_000), ChunkingSpec::Count { chunks: 7 });
        spec.collectives.padding = true;
        let whole = run(&spec);
        for seed in 0..4 {
            assert_eq!(fingerprint(&run_spec(&spec, Some(seed)).expect("it ran before")), fingerprint(&whole));
        }
        let folded = run(&Spec { fold: FoldSpec::On, ..spec });
        assert!(folded.summary.simulated_npus < whole.summary.simulated_npus);
        assert_eq!(summary_but_fold(&folded), summary_but_fold(&whole));
    }
}

/// Where endpoints forward, a message is delayed at every NPU that it passes.
#[test]
fn messages_in_transit_are_delayed_at_every_hop() {
    let mut spec = collective(vec![dim(5, 100, 500_000)], CollectiveKindSpec::AllToAll, AlgorithmSpec::Direct);
    spec.endpoint = EndpointSpec::Ideal(IdealSpec {
        step_latency_ps: 0,
        injection_latency_ps: LATENCY_PS,
        transit: TransitSpec::Endpoint,
        ..IdealSpec::default()
    });
    assert_eq!(run(&spec).summary.total_ps / LATENCY_PS, 2, "two hops to the farthest of five");
}

/// Collectives of several communicators, and messages between two ranks.
#[test]
fn communicators_and_messages_have_it_too() {
    let families = vec![list("rows", &[&[0, 1], &[2, 3]]), list("columns", &[&[0, 2], &[1, 3]])];
    let both = vec![node(reduce(0, 8), &[]), node(reduce(1, 8), &[0]), node(time(1), &[1])];
    let mut spec = graph(vec![switch(4)], delaying(LATENCY_PS), flow(), families, vec![class("all", 0..4, both)]);
    for family in &mut spec.families {
        family.collectives.algorithm = AlgorithmSpec::Direct;
        family.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    }
    assert_eq!(run(&spec).summary.total_ps / LATENCY_PS, 4, "two direct all-reduces");

    let message = |peer| MessageSpec { family: 0, peer, tag: 0, bytes: 8 };
    let sender = class("sender", [0], vec![node(WorkSpec::Send(message(1)), &[])]);
    let receiver = class("receiver", [1], vec![node(WorkSpec::Recv(message(-1)), &[]), node(time(1), &[0])]);
    let pair = vec![list("pair", &[&[0, 1]])];
    let spec = graph(vec![switch(2)], delaying(LATENCY_PS), flow(), pair, vec![sender, receiver]);
    assert_eq!(run(&spec).summary.total_ps / LATENCY_PS, 1);
}

#[test]
fn no_latency_changes_nothing_and_packets_that_are_passed_on_have_none() {
    let spec = collective(vec![switch(8)], CollectiveKindSpec::AllReduce, AlgorithmSpec::Direct);
    let given: IdealSpec = serde_json::from_str(r#"{"step_latency_ps": 0}"#).expect("a description");
    let without = Spec { endpoint: EndpointSpec::Ideal(given), ..spec.clone() };
    assert_eq!(fingerprint(&run(&without)), fingerprint(&run(&spec)));
    let EndpointSpec::Ideal(packets) = streaming(0) else { panic!("an ideal endpoint") };
    let endpoint = EndpointSpec::Ideal(IdealSpec { injection_latency_ps: 1, ..packets });
    let Err(RunError::Spec(refusals)) = run_spec(&Spec { endpoint, ..spec }, None) else { panic!("it ran") };
    assert_eq!(refusals[0].field.join("."), "endpoint.injection_latency_ps");
}
