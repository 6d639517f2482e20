//! Whole runs on a network that loses packets and sends them again ([`crate::lossy_network`]): what transports need of the
//! interfaces.

use crate::lossy_network::LossySpec;
use crate::models::convolutional;
use crate::support::{
    all_reduce, baseline, chunks_of, collective_job, dim, endpoints, fingerprint, forwarders, forwarding, ideal, least,
    run, switch_offload,
};
use syncline_core::Ps;
use syncline_core::table::Values;
use syncline_system::build::run_on;
use syncline_system::networks::NetworkModel;
use syncline_system::spec::{
    AlgorithmSpec, AnalyticalSpec, AttributeSpec, BlockSpec, ChangeSpec, CollectiveKindSpec, ComputeSpec, EndpointSpec,
    ForwardingSpec, JobSpec, NetworkSpec, Spec, StrategySpec,
};
use syncline_system::{Results, RunError};

/// One packet in a hundred gets lost.
const LOSSY: LossySpec =
    LossySpec { packet: 4096, lost_of_100: 1, timeout: Ps(20_000_000), most_tries: 12, window: u64::MAX };

/// Eight NPUs on a ring that train a network of convolutions.
fn training(endpoint: EndpointSpec) -> Spec {
    let mut spec = all_reduce(vec![dim(8, 100, 500_000)], endpoint, 0);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.collectives.padding = true;
    spec.collectives.chunking = chunks_of(1 << 20);
    spec.network = NetworkSpec::Analytical(AnalyticalSpec {});
    spec.job = JobSpec::Training {
        host_kernel_ps: 0,
        workload: convolutional(),
        strategy: StrategySpec::DataParallel,
        iterations: 2,
        overlap: true,
        buckets: None,
        barrier: false,
        drain: true,
        update: true,
        stragglers: vec![],
        compute: ComputeSpec { flops_per_s: 120e12, memory_bytes_per_s: 450e9, scale: 1.0, ..ComputeSpec::default() },
        background: None,
    };
    spec
}

fn on(spec: &Spec, network: &LossySpec) -> Results {
    run_on(spec, network, None).unwrap_or_else(|error| panic!("{error}\n{spec:?}"))
}

fn refused(spec: &Spec, network: &LossySpec) -> RunError {
    run_on(spec, network, None).err().unwrap_or_else(|| panic!("it ran: {spec:?}"))
}

/// Books balance at the end of every run, or it fails; here for endpoints that hand over whole messages and for those that
/// feed packets, along links and over other NPUs, through switches too.
#[test]
fn training_finishes_though_packets_get_lost() {
    for endpoint in endpoints() {
        let spec = training(endpoint);
        let (smooth, lossy) = (run(&spec).summary, on(&spec, &LOSSY).summary);
        let network = &lossy.network;
        assert_eq!(network.injected_bytes, smooth.network.injected_bytes);
        assert_eq!(network.delivered_bytes, network.injected_bytes);
        assert_eq!(network.dropped_bytes, network.resent_bytes, "what gets lost is sent again");
        let share = network.dropped_bytes as f64 / network.injected_bytes as f64;
        assert!((0.008..0.012).contains(&share), "{share}");
        assert!(lossy.total_ps > smooth.total_ps);
        assert_eq!(network.link_bytes, u128::from(network.injected_bytes + network.resent_bytes));
    }
    let mut far = all_reduce(vec![dim(3, 50, 300_000), dim(4, 25, 700_000)], ideal(), 6 << 20);
    far.collectives.algorithm = AlgorithmSpec::Direct;
    for kind in [CollectiveKindSpec::AllToAll, CollectiveKindSpec::AllReduce, CollectiveKindSpec::Gather] {
        far.job = collective_job(kind, 6 << 20);
        for endpoint in [ideal(), forwarding(baseline())] {
            far.endpoint = endpoint;
            assert!(on(&far, &LOSSY).summary.network.resent_bytes > 0);
        }
    }
    let mut switched = all_reduce(vec![dim(8, 50, 300_000)], switch_offload(), 6 << 20);
    crate::support::dims(&mut switched)[0].block = BlockSpec::Switch;
    switched.collectives.algorithm = AlgorithmSpec::Hierarchical;
    assert!(on(&switched, &LOSSY).summary.network.resent_bytes > 0);
}

#[test]
fn a_seed_gives_the_same_losses_and_another_one_others() {
    let seeded = |seed| Spec { seed, ..training(baseline()) };
    let first = fingerprint(&on(&seeded(1), &LOSSY));
    assert_eq!(first, fingerprint(&on(&seeded(1), &LOSSY)));
    assert_ne!(first, fingerprint(&on(&seeded(2), &LOSSY)));
}

/// What a backend counts is a result beside the tables of all runs, as the backend declares it.
#[test]
fn a_backend_has_tables_of_its_own() {
    let results = on(&training(baseline()), &LOSSY);
    let own: Vec<_> = LOSSY.tables();
    let told: Vec<_> = results.tables.iter().map(|table| table.name).collect();
    assert!(told.ends_with(&own.iter().map(|table| table.name).collect::<Vec<_>>()), "{told:?}");
    let sum = |table: &str, column: &str| {
        let table = results.tables.iter().find(|t| t.name == table).expect("a table of the backend");
        let Some(Values::Int(values)) = table.values(column) else { panic!("{column} is an integer") };
        values.iter().sum::<i64>() as u64
    };
    let network = &results.summary.network;
    assert_eq!(sum("losses", "dropped_bytes"), network.dropped_bytes);
    assert_eq!(sum("connections", "resent_bytes"), network.resent_bytes);
    assert!(sum("losses", "dropped") >= network.dropped_bytes / LOSSY.packet && sum("connections", "messages") > 0);
    let smooth = on(&training(baseline()), &LossySpec { lost_of_100: 0, ..LOSSY });
    let losses = smooth.tables.iter().find(|t| t.name == "losses").expect("an empty table");
    assert!(losses.columns.iter().all(|(_, values)| values.rows() == 0));
}

/// The backends of descriptions have no tables but those that the engine says that they have.
#[test]
fn the_engine_describes_the_tables_of_all_backends() {
    let described = syncline_system::describe().tables;
    for network in NetworkSpec::all() {
        let results = run(&Spec { network, ..training(ideal()) });
        for table in &results.tables {
            let declared = described.iter().find(|d| d.name == table.name).expect("it is described");
            assert!(table.columns.iter().all(|(column, _)| declared.columns.contains(column)), "{}", table.name);
        }
    }
}

/// Every connection has random numbers of its own, so the order of simultaneous events changes no loss.
#[test]
fn the_order_of_simultaneous_events_changes_no_loss() {
    for endpoint in endpoints() {
        let spec = training(endpoint);
        let straight = fingerprint(&on(&spec, &LOSSY));
        for shuffle in 0..3 {
            let shuffled = run_on(&spec, &LOSSY, Some(shuffle)).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(straight, fingerprint(&shuffled));
        }
    }
}

/// Without losses, and with messages of one packet, it is the analytical backend.
#[test]
fn without_losses_nothing_is_sent_again() {
    let mut spec = training(ideal());
    let whole = LossySpec { packet: u64::MAX, lost_of_100: 0, ..LOSSY };
    for iterations in [1, 2] {
        if let JobSpec::Training { iterations: n, .. } = &mut spec.job {
            *n = iterations;
        }
        let (smooth, lossy) = (run(&spec).summary, on(&spec, &whole).summary);
        assert_eq!((lossy.total_ps, lossy.network.resent_bytes), (smooth.total_ps, 0));
    }
}

#[test]
fn a_message_that_never_arrives_ends_the_run() {
    let silent = LossySpec { lost_of_100: 100, ..LOSSY };
    let error = refused(&training(baseline()), &silent).to_string();
    assert!(error.contains("the network gave up a message of NPU"), "{error}");
    assert!(error.ends_with("it was sent 12 times without an answer"), "{error}");
    let nothing = LossySpec { packet: 0, ..LOSSY };
    assert_eq!(least(&refused(&training(baseline()), &nothing)), 1);
}

/// Times that double are too long in the end, and never wrap around.
#[test]
fn a_run_ends_when_times_to_wait_exceed_simulated_time() {
    let patient = LossySpec { lost_of_100: 100, timeout: Ps(1 << 50), most_tries: u32::MAX, ..LOSSY };
    let error = refused(&training(baseline()), &patient).to_string();
    assert!(error.contains("106 days"), "{error}");
}

/// A ring of two, one of whose links becomes slower in the middle, or is down for a while.
#[test]
fn links_change_at_stated_times() {
    let lossless = LossySpec { lost_of_100: 0, ..LOSSY };
    let mut spec = all_reduce(vec![dim(2, 100, 500_000)], ideal(), 64 << 20);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    let before = on(&spec, &lossless).summary;
    let half = before.total_ps / 2;
    let change =
        |at_ps, rate_bytes_per_s| ChangeSpec::Link { at_ps, node: 0, port: 0, rate_bytes_per_s, latency_ps: 500_000 };
    let with = |changes| on(&Spec { changes, ..spec.clone() }, &lossless).summary;
    let slow = |at| with(vec![change(at, Some(50_000_000_000))]);
    // From the middle on the slower link takes twice as long for what is left.
    let (all, late) = (slow(0).total_ps, slow(half).total_ps);
    let expected = (before.total_ps + all) / 2;
    assert!(late.abs_diff(expected) < before.total_ps / 20, "{before:?} {late} {all}");
    assert_eq!(slow(2 * before.total_ps).total_ps, before.total_ps);
    // Changes count in the order of time, however they are listed.
    let restored = with(vec![change(half, Some(100_000_000_000)), change(0, Some(50_000_000_000))]).total_ps;
    assert!(before.total_ps < restored && restored < all);
    let down = with(vec![change(half / 2, None), change(half, Some(100_000_000_000))]);
    assert!(down.network.resent_bytes > 0 && down.total_ps > before.total_ps + half / 4);
}

/// A node in the middle of a line of switches, as a NIC is, that becomes slow, or is down for a while, and recovers.
#[test]
fn nodes_change_at_stated_times() {
    let lossless = LossySpec { lost_of_100: 0, ..LOSSY };
    let mut spec = all_reduce(vec![dim(4, 100, 500_000)], ideal(), 64 << 20);
    crate::support::dims(&mut spec)[0].block = BlockSpec::Switch;
    spec.collectives.algorithm = AlgorithmSpec::Direct;
    let switch = 4;
    let with = |changes| on(&Spec { changes, ..spec.clone() }, &lossless).summary;
    let change = |at_ps, node, rate_percent| ChangeSpec::Node { at_ps, node, rate_percent };
    let before = with(vec![]).total_ps;
    // All links of the fabric are links of the switch: at half of their rates a run takes twice as long.
    let slow = with(vec![change(0, switch, 50)]).total_ps;
    assert!(slow.abs_diff(2 * before) < before / 10, "{before} {slow}");
    assert_eq!(with(vec![change(0, switch, 50), change(0, switch, 100)]).total_ps, before);
    // Whoever is slow holds up the others, whether its own links or those that lead to it are.
    assert!(with(vec![change(0, 2, 50)]).total_ps > before * 3 / 2);
    let for_a_while = with(vec![change(before / 4, switch, 50), change(before / 2, switch, 100)]).total_ps;
    assert!(before < for_a_while && for_a_while < slow);
    let down = with(vec![change(before / 4, switch, 0), change(before / 2, switch, 100)]);
    assert!(down.network.resent_bytes > 0 && down.total_ps > before + before / 8, "{}", down.total_ps);
}

/// The most bytes of a connection that were not acknowledged.
fn peak(results: &Results) -> u64 {
    let connections = results.tables.iter().find(|table| table.name == "connections").expect("a table of the backend");
    let Some(Values::Int(peaks)) = connections.values("peak_bytes") else { panic!("peaks are integers") };
    peaks.iter().copied().max().unwrap_or(0) as u64
}

/// A broadcast on two NPUs, in chunks that would all be on their way at once if the connection took more than so many bytes.
/// One that has taken all it can takes the next message when the first of them is acknowledged: a latency after it has
/// arrived.
#[test]
fn messages_wait_until_their_connection_has_room() {
    const CHUNK: u64 = 1 << 20;
    let (chunks, latency) = (12, 400_000_000);
    let mut spec = all_reduce(vec![dim(2, 100, latency)], ideal(), chunks * CHUNK);
    crate::support::dims(&mut spec)[0].block = BlockSpec::FullyConnected;
    spec.collectives.algorithm = AlgorithmSpec::Direct;
    spec.collectives.chunking = chunks_of(CHUNK);
    spec.job = collective_job(CollectiveKindSpec::Broadcast, chunks * CHUNK);
    let EndpointSpec::Ideal(endpoint) = &mut spec.endpoint else { panic!("an ideal endpoint") };
    endpoint.step_latency_ps = 0;
    let time = |window| on(&spec, &LossySpec { lost_of_100: 0, window, ..LOSSY });
    let message = CHUNK * 10; // picoseconds at 100 GB/s
    let round_trip = message + 2 * latency;
    for taken in [1, 2, 3, 4, 6, 12] {
        let results = time(taken * CHUNK);
        // Every round trip so many messages: the last ones begin `chunks / taken - 1` round trips after the first.
        let last = (chunks / taken - 1) * round_trip + taken * message + latency;
        assert_eq!((results.summary.total_ps, peak(&results)), (last, taken * CHUNK), "{taken}");
    }
    let all = (chunks * message + latency, chunks * CHUNK);
    let unlimited = time(u64::MAX);
    assert_eq!((unlimited.summary.total_ps, peak(&unlimited)), all);
    // A connection that holds nothing takes a message of any length.
    assert_eq!((time(1).summary.total_ps, peak(&time(1))), (time(CHUNK).summary.total_ps, CHUNK));
}

/// Every endpoint keeps in the NPU what its connections do not take, and everything arrives in the end.
#[test]
fn all_endpoints_wait_for_room_on_connections() {
    let mut ring = all_reduce(vec![dim(4, 100, 500_000), dim(3, 50, 700_000)], ideal(), 6 << 20);
    let mut far = ring.clone();
    far.collectives.algorithm = AlgorithmSpec::Direct;
    far.job = collective_job(CollectiveKindSpec::AllToAll, 6 << 20);
    let mut packets = ring.clone();
    let EndpointSpec::Ideal(endpoint) = &mut packets.endpoint else { panic!("an ideal endpoint") };
    endpoint.forwarding = ForwardingSpec::Packets;
    packets = Spec { endpoint: forwarding(packets.endpoint.clone()), ..packets };
    let mut switched = all_reduce(vec![dim(8, 50, 300_000)], switch_offload(), 6 << 20);
    crate::support::dims(&mut switched)[0].block = BlockSpec::Switch;
    switched.collectives.algorithm = AlgorithmSpec::Hierarchical;
    let mut specs = vec![packets, switched];
    for endpoint in endpoints() {
        ring.endpoint = endpoint.clone();
        far.endpoint = endpoint.clone();
        specs.extend([ring.clone(), far.clone()]);
    }
    specs.extend(forwarders().into_iter().map(|endpoint| Spec { endpoint: forwarding(endpoint), ..far.clone() }));
    for spec in specs {
        let with = |window| on(&spec, &LossySpec { window, ..LOSSY });
        let (wide, narrow) = (with(u64::MAX), with(16 << 10));
        assert!(narrow.summary.total_ps > wide.summary.total_ps, "{spec:?}");
        assert!(peak(&narrow) < peak(&wide), "{} {} {spec:?}", peak(&narrow), peak(&wide));
        assert_eq!(narrow.summary.network.delivered_bytes, wide.summary.network.delivered_bytes);
    }
}

fn attribute(node: u32, name: &str, value: u64) -> AttributeSpec {
    AttributeSpec { node, name: name.into(), value }
}

/// One switch of two loses packets.
#[test]
fn a_node_has_attributes_that_its_backend_knows() {
    let lossless = LossySpec { lost_of_100: 0, ..LOSSY };
    let mut spec = all_reduce(vec![dim(4, 100, 500_000), dim(2, 100, 500_000)], ideal(), 8 << 20);
    crate::support::dims(&mut spec)[0].block = BlockSpec::Switch;
    spec.collectives.algorithm = AlgorithmSpec::Hierarchical;
    let lost_by = |results: &Results| {
        let losses = results.tables.iter().find(|table| table.name == "losses").expect("a table of the backend");
        let Some(Values::Text(nodes)) = losses.values("node") else { panic!("nodes have names") };
        nodes.clone()
    };
    assert!(lost_by(&on(&spec, &lossless)).is_empty());
    spec.attributes = vec![attribute(9, "loses_of_100", 50), attribute(9, "loses_of_100", 5)];
    let lossy = on(&spec, &lossless);
    assert_eq!(
        lost_by(&lossy),
        ["NPU 4 (0,1)", "NPU 5 (1,1)", "NPU 6 (2,1)", "NPU 7 (3,1)"],
        "those whose switch it is"
    );
    let share = lossy.summary.network.dropped_bytes as f64 / lossy.summary.network.injected_bytes as f64;
    assert!((0.01..0.03).contains(&share), "less than 5 % of what goes to one switch of two: {share}");
}

#[test]
fn attributes_that_no_backend_knows_are_refused() {
    let spec = all_reduce(vec![dim(2, 100, 500_000)], ideal(), 1 << 20);
    let with = |attribute| Spec { attributes: vec![attribute], ..spec.clone() };
    assert_eq!(field(refused(&with(attribute(2, "loses_of_100", 1)), &LOSSY)), "attributes.0.node");
    assert_eq!(field(refused(&with(attribute(0, "loses_of_200", 1)), &LOSSY)), "attributes.0.name");
    assert_eq!(field(refused(&with(attribute(0, "loses_of_100", 101)), &LOSSY)), "attributes.0.value");
    for network in NetworkSpec::all() {
        let known = network.model().attributes();
        let spec = Spec { network, ..with(attribute(0, "loses_of_100", 1)) };
        let error = syncline_system::run_spec(&spec, None).expect_err("it does not know the attribute");
        assert!(!known.contains(&"loses_of_100"));
        assert_eq!(field(error), "attributes.0.name");
    }
}

/// The field that is refused.
fn field(error: RunError) -> String {
    match error {
        RunError::Spec(refusals) => refusals[0].field.join("."),
        RunError::Simulation(_) | RunError::Cancelled => panic!("{error}"),
    }
}

#[test]
fn changes_that_are_none_are_refused() {
    let lossless = LossySpec { lost_of_100: 0, ..LOSSY };
    let spec = all_reduce(vec![dim(2, 100, 500_000)], ideal(), 1 << 20);
    let link =
        |node, port, rate| ChangeSpec::Link { at_ps: 0, node, port, rate_bytes_per_s: Some(rate), latency_ps: 0 };
    let with = |change: ChangeSpec| Spec { changes: vec![change], ..spec.clone() };
    assert_eq!(field(refused(&with(link(2, 0, 1)), &lossless)), "changes.0.node");
    assert_eq!(field(refused(&with(link(0, 2, 1)), &lossless)), "changes.0.port");
    assert_eq!(field(refused(&with(link(0, 0, 0)), &lossless)), "changes.0.rate_bytes_per_s");
    let node = |node, rate_percent| ChangeSpec::Node { at_ps: 0, node, rate_percent };
    assert_eq!(field(refused(&with(node(2, 50)), &lossless)), "changes.0.node");
    assert_eq!(field(refused(&with(node(1, 101)), &lossless)), "changes.0.rate_percent");
    for network in NetworkSpec::all().into_iter().filter(|network| !network.model().takes_changes()) {
        let spec = Spec { network, ..with(link(0, 0, 1)) };
        let error = syncline_system::run_spec(&spec, None).expect_err("its links do not change");
        assert_eq!(field(error), "changes");
    }
}
