//! Written schedules against closed forms: local steps, dependencies and ways of their own.

use crate::support::{ace, all_reduce, baseline, chunks_of, collective_job, dim, ideal, networks, run};
use syncline_collective::schedule::Schedule;
use syncline_system::export::{export_spec, schedule_spec};
use syncline_system::run_spec;
use syncline_system::spec::{
    AlgorithmSpec, CollectiveKindSpec, CollectiveSpec, FabricSpec, GraphLinkSpec, IdealSpec, LanesSpec, NetworkSpec,
    NodeSpec, PlanSpec, RoutingSpec, Spec,
};

const STEP_PS: u64 = 1_000;
const LATENCY_PS: u64 = 500_000;

fn ideal_of(step_latency_ps: u64) -> syncline_system::spec::EndpointSpec {
    syncline_system::spec::EndpointSpec::Ideal(IdealSpec { step_latency_ps, ..IdealSpec::default() })
}

/// A run of one chunk of `bytes` by a plan, as JSON of version 2.
fn planned(mut spec: Spec, kind: CollectiveKindSpec, bytes: u64, plan: &str) -> Spec {
    spec.job = collective_job(kind, bytes);
    spec.collectives.chunking = chunks_of(bytes.max(1));
    spec.collectives.plans = vec![PlanSpec::literally(serde_json::from_str(plan).expect("a plan"))];
    spec
}

/// Two GPUs with two NVLinks of 25 GB/s between them, and a way over two switches with PCIe of 10 GB/s and QPI of 5 GB/s.
fn pair(network: NetworkSpec) -> Spec {
    let node = |(name, kind): (&str, &str)| NodeSpec { name: name.into(), kind: kind.into() };
    let link = |(from, to, rate_gbs, class): (u32, u32, u64, u8)| {
        let link = |from, to| GraphLinkSpec {
            from,
            to,
            rate_bytes_per_s: rate_gbs * 1_000_000_000,
            latency_ps: LATENCY_PS,
            class,
        };
        [link(from, to), link(to, from)]
    };
    let nodes = [("GPU 0", "npu"), ("GPU 1", "npu"), ("switch 0", "switch"), ("switch 1", "switch")];
    let links = [(0, 1, 25, 0), (0, 1, 25, 0), (0, 2, 10, 1), (2, 3, 5, 2), (3, 1, 10, 1)];
    let mut spec = all_reduce(vec![dim(2, 25, LATENCY_PS)], ideal_of(0), 1);
    spec.fabric = FabricSpec::Graph {
        npus: 2,
        nodes: nodes.map(node).to_vec(),
        classes: ["NVLink", "PCIe", "QPI"].map(String::from).to_vec(),
        links: links.into_iter().flat_map(link).collect(),
        routing: RoutingSpec::default(),
    };
    spec.network = network;
    spec
}

/// A broadcast from GPU 0 whose halves are sent by threads of their own, with these ways.
fn halves(ways: [&str; 2]) -> String {
    let thread = |block: usize| {
        let way = ways[block];
        format!(r#"[{{"steps": [{{"op": "s", "block": {block}, "to": 1, "into": [{block}, 0]{way}}}]}}]"#)
    };
    let take = |block: usize| format!(r#"[{{"steps": [{{"op": "r", "block": {block}, "from": 0}}]}}]"#);
    format!(
        r#"{{"format": "syncline-plan", "version": 2, "collective": "broadcast", "grid": [2],
            "programs": [{{"collective": "broadcast", "blocks": 2, "ranks": [[{}, {}], [{}, {}]]}}]}}"#,
        thread(0),
        thread(1),
        take(0),
        take(1)
    )
}

#[test]
fn parallel_links_are_named_one_by_one() {
    const BYTES: u64 = 50_000_000;
    for network in networks() {
        let time = |ways| {
            let spec = planned(pair(network.clone()), CollectiveKindSpec::Broadcast, BYTES, &halves(ways));
            run(&spec).summary.total_ps
        };
        let [first, second] = [r#", "way": {"link": 0}"#, r#", "way": {"link": 1}"#];
        // Half of the bytes over each link, or all over one of them.
        let [both, one] = [BYTES / 2 * 40 + LATENCY_PS, BYTES * 40 + LATENCY_PS];
        assert_eq!(time([first, second]), both, "{network:?}");
        assert_eq!(time([second, first]), both, "{network:?}");
        assert_eq!(time([second, second]), one, "{network:?}");
        // Over PCIe, half of the bytes take three hops, the slowest at 5 GB/s; messages go on packet by packet.
        let over = r#", "way": {"over": "pcie"}"#;
        let slowest = BYTES / 2 * 200 + 3 * LATENCY_PS;
        let got = time([first, over]);
        assert!(got >= slowest && got < slowest + slowest / 100, "{got} {slowest} {network:?}");
    }
}

#[test]
fn links_that_are_not_there_are_refused_with_those_that_are() {
    let refused = |ways| {
        let spec = planned(pair(NetworkSpec::all()[0].clone()), CollectiveKindSpec::Broadcast, 1000, &halves(ways));
        run_spec(&spec, None).expect_err("there is no such link").to_string()
    };
    assert_eq!(
        refused([r#", "way": {"link": 0}"#, r#", "way": {"link": 2}"#]),
        "collectives.plans.0: rank 0, step 0 of thread 1: there is no link 2 from GPU 0 to GPU 1; accepted: links 0 to 1"
    );
    assert_eq!(
        refused(["", r#", "way": {"over": "NVSwitch"}"#]),
        "collectives.plans.0: the fabric has no choice of links of class 'NVSwitch'; accepted: NVLink, PCIe, QPI"
    );
    assert_eq!(
        refused(["", r#", "way": {"over": "QPI"}"#]),
        "collectives.plans.0: rank 0, step 0 of thread 1: there is no way from GPU 0 to GPU 1 over links of class 'QPI'; \
         accepted: another class, or no way"
    );
    let mut on_a_ring = planned(
        all_reduce(vec![dim(2, 25, LATENCY_PS)], ideal(), 1),
        CollectiveKindSpec::Broadcast,
        1000,
        &halves(["", r#", "way": {"over": "PCIe"}"#]),
    );
    let refusal = run_spec(&on_a_ring, None).expect_err("a product has no classes").to_string();
    assert!(refusal.contains("no choice of links of class 'PCIe'; accepted: none"), "{refusal}");
    // On a ring of two, both of its links lead to the same neighbour.
    let plan = halves([r#", "way": {"link": 0}"#, r#", "way": {"link": 1}"#]);
    on_a_ring = planned(on_a_ring, CollectiveKindSpec::Broadcast, 50_000, &plan);
    on_a_ring.endpoint = ideal_of(0);
    assert_eq!(run(&on_a_ring).summary.total_ps, 25_000 * 40 + LATENCY_PS);
}

/// Rank 0 sends a chunk that rank 1 receives in scratch; another thread block copies it, after a nop that waits for the
/// receive, and a third one returns it.
fn there_and_back() -> Schedule {
    let text = r#"{"format": "syncline-plan", "version": 1, "collective": "allreduce", "in_place": false, "ranks": [
        {"id": 0, "input_chunks": 1, "output_chunks": 1, "scratch_chunks": 0, "thread_blocks": [
            {"id": 0, "send": 1, "recv": null, "channel": 0, "steps": [
                {"id": 0, "type": "s", "src": {"buffer": "i", "offset": 0}, "count": 1}]},
            {"id": 1, "send": null, "recv": 1, "channel": 1, "steps": [
                {"id": 0, "type": "r", "dst": {"buffer": "o", "offset": 0}, "count": 1}]}]},
        {"id": 1, "input_chunks": 1, "output_chunks": 1, "scratch_chunks": 1, "thread_blocks": [
            {"id": 0, "send": null, "recv": 0, "channel": 0, "steps": [
                {"id": 0, "type": "r", "dst": {"buffer": "s", "offset": 0}, "count": 1, "has_dependents": true}]},
            {"id": 1, "send": null, "recv": null, "channel": 0, "steps": [
                {"id": 0, "type": "cpy", "src": {"buffer": "i", "offset": 0}, "dst": {"buffer": "o", "offset": 0},
                 "count": 1},
                {"id": 1, "type": "nop", "depends_on": {"thread_block": 0, "step": 0}},
                {"id": 2, "type": "re", "src": {"buffer": "s", "offset": 0}, "dst": {"buffer": "o", "offset": 0},
                 "count": 1, "depends_on": {"thread_block": 0, "step": 0}, "has_dependents": true}]},
            {"id": 2, "send": 0, "recv": null, "channel": 1, "steps": [
                {"id": 0, "type": "s", "src": {"buffer": "o", "offset": 0}, "count": 1,
                 "depends_on": {"thread_block": 1, "step": 2}}]}]}]}"#;
    serde_json::from_str(text).expect("a schedule")
}

#[test]
fn local_steps_take_their_time_and_dependencies_are_waited_for() {
    const BYTES: u64 = 1_000_000;
    for network in networks() {
        let mut spec = all_reduce(vec![dim(2, 25, LATENCY_PS)], ideal_of(STEP_PS), 1);
        spec.network = network.clone();
        spec.job = collective_job(CollectiveKindSpec::AllReduce, BYTES);
        spec.collectives.chunking = chunks_of(BYTES);
        spec.collectives.plans = vec![PlanSpec::of_schedule(there_and_back())];
        // There and back; a message is worked on where it is sent and where it is received, and in between a sum is made.
        let message = STEP_PS + BYTES * 40 + LATENCY_PS + STEP_PS;
        assert_eq!(run(&spec).summary.total_ps, 2 * message + STEP_PS, "{network:?}");
        // At the baseline, 1 MB is read for a send or a copy and 2 MB for a sum, from memory and by SMs.
        spec.endpoint = baseline();
        let s = run(&spec).summary;
        assert_eq!(s.endpoint.memory_read_bytes, 5 * BYTES, "{network:?}");
        assert!(s.total_ps > 2 * message, "{network:?}");
        // Simultaneous events in any order.
        assert_eq!(run_spec(&spec, Some(7)).expect("it runs").summary.total_ps, s.total_ps, "{network:?}");
    }
}

/// A chain of waits as long as there are threads.
#[test]
fn long_chains_of_waits_take_no_stack() {
    let threads = 2000;
    let chain = (1..threads).map(|t| {
        let steps =
            (0..3).map(|_| format!(r#"{{"op": "nop", "after": [{}, 0]}}"#, t - 1)).collect::<Vec<_>>().join(", ");
        format!(r#"[{{"times": 2, "steps": [{steps}]}}]"#)
    });
    let chain = chain.collect::<Vec<_>>().join(", ");
    let plan = format!(
        r#"{{"format": "syncline-plan", "version": 2, "collective": "broadcast", "grid": [2],
            "programs": [{{"collective": "broadcast", "blocks": 1, "ranks": [
                [[{{"steps": [{{"op": "s", "to": 1, "into": [0, 0]}}]}}], {chain}],
                [[{{"steps": [{{"op": "r", "from": 0}}]}}]]]}}]}}"#
    );
    let spec =
        planned(all_reduce(vec![dim(2, 25, LATENCY_PS)], ideal_of(0), 1), CollectiveKindSpec::Broadcast, 1000, &plan);
    assert_eq!(run(&spec).summary.total_ps, 1000 * 40 + LATENCY_PS);
    let refused =
        planned(spec, CollectiveKindSpec::Broadcast, 1000, &plan.replace(r#""times": 2"#, r#""times": 1000"#));
    let refused = run_spec(&refused, None).expect_err("it is too large").to_string();
    assert!(refused.contains("steps of a rank times its threads; accepted: up to"), "{refused}");
}

#[test]
fn broken_plans_are_refused_with_the_place() {
    let refused = |plan: &str| {
        let spec = planned(all_reduce(vec![dim(2, 25, 0)], ideal(), 1), CollectiveKindSpec::Broadcast, 1000, plan);
        run_spec(&spec, None).expect_err("it is broken").to_string()
    };
    let good = halves(["", ""]);
    let message = refused(&good.replace(r#""block": 1, "from": 0"#, r#""block": 0, "from": 0"#));
    assert!(message.starts_with("collectives.plans.0: rank 1, phase 0, thread 1, step 0: "), "{message}");
    let message = refused(&good.replace(r#""into": [1, 0]"#, r#""into": [3, 0]"#));
    assert!(message.contains("rank 0, phase 0, thread 1, step 0"), "{message}");
    let message = refused(&good.replace(r#""block": 1, "to": 1"#, r#""block": 1, "to": 5"#));
    assert_eq!(
        message,
        "collectives.plans.0.plan.programs.0.ranks.0.1.0.steps.0.to: rank 5 cannot be the peer; accepted: 0 to 1, not \
         its own rank"
    );
    let message = refused(&good.replace(r#""grid": [2]"#, r#""grid": [3]"#));
    assert!(message.contains("the steps of 2 ranks are written; accepted: 3"), "{message}");
}

#[test]
fn an_ace_carries_out_the_plans_that_are_rings_and_refuses_the_others_by_name() {
    let mut spec = all_reduce(vec![dim(4, 25, LATENCY_PS)], ace(), 1 << 20);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.collectives.padding = true;
    let ring = export_spec(&spec).expect("a ring is a plan");
    let built_in = run(&spec).summary.total_ps;
    let text = format!("{{\"plan\": {}}}", serde_json::to_string(&ring).expect("plain data"));
    spec.collectives.plans = vec![serde_json::from_str(&text).expect("a plan")];
    assert_eq!(run(&spec).summary.total_ps, built_in);
    // A schedule goes round one way: over the port that leads there.
    let mut one_way = spec.clone();
    (one_way.collectives.plans, one_way.collectives.lanes) = (vec![], LanesSpec::One);
    let built_in = run(&one_way).summary.total_ps;
    let schedule = schedule_spec(&one_way, 1).expect("it is small");
    one_way.collectives = CollectiveSpec {
        plans: vec![PlanSpec::of_schedule(schedule)],
        lanes: spec.collectives.lanes,
        ..one_way.collectives
    };
    assert_eq!(run(&one_way).summary.total_ps, built_in);
    // Carried out step by step, as what is no ring would be, it is none of the programs that FSMs know.
    let mut odd = ring;
    odd.programs[0].around = false;
    odd.programs[0].down = None;
    spec.collectives.plans = vec![PlanSpec::literally(odd)];
    let refused = run_spec(&spec, None).expect_err("its FSMs know no such program").to_string();
    assert!(
        refused.contains("the FSMs of an ACE cannot carry out what the plan has for all-reduce dim 0"),
        "{refused}"
    );
}
