//! Families of larger priority go first inside NPUs, and those of larger traffic class in the network.

use crate::families::{class, collectives, flow, graph, list, named, node, on_grid, reduce, time};
use crate::support::{ace, dim, packet, run};
use syncline_system::spec::{
    BlockSpec, ChunkingSpec, DimSpec, EndpointSpec, FamilySpec, GraphNodeSpec, IdealSpec, LanesSpec, MessageSpec,
    NetworkSpec, Spec, WorkSpec,
};
use syncline_system::{RunError, run_spec};

/// Longer than anything here takes.
const LATER: u64 = 1_000_000_000_000;
const LATENCY: u64 = 500;
/// What the two links of a way through the switch take.
const WAY: u64 = 2 * LATENCY;

fn free() -> EndpointSpec {
    EndpointSpec::Ideal(IdealSpec { step_latency_ps: 0, ..Default::default() })
}

/// NPUs at a switch whose links carry a byte in a nanosecond.
fn switch(size: u32) -> Vec<DimSpec> {
    vec![DimSpec { block: BlockSpec::Switch, ..dim(size, 1, LATENCY) }]
}

/// A family of one communicator, whose collectives are one chunk around one ring.
fn family(name: &str, members: &[u32], traffic_class: u8) -> FamilySpec {
    let mut of_family = collectives();
    of_family.chunking = ChunkingSpec::Count { chunks: 1 };
    of_family.lanes = LanesSpec::One;
    FamilySpec { collectives: of_family, traffic_class, ..list(name, &[members]) }
}

/// When the main streams of each class of NPUs end.
fn ends(spec: &Spec) -> Vec<u64> {
    let summary = run(spec).summary;
    match summary.classes.as_slice() {
        [] => vec![summary.total_ps - summary.drain_ps],
        classes => classes.iter().map(|class| class.total_ps - class.drain_ps).collect(),
    }
}

/// A class whose main stream ends when `work` is done.
fn waits_for(name: &str, npus: &[u32], works: Vec<WorkSpec>) -> syncline_system::spec::ClassSpec {
    let count = works.len() as u32;
    let mut nodes: Vec<GraphNodeSpec> = works.into_iter().map(|work| node(work, &[])).collect();
    nodes.push(named("end", time(0), &(0..count).collect::<Vec<_>>()));
    class(name, npus.iter().copied(), nodes)
}

/// When each of two families of the same two NPUs has finished an all-reduce that both begin at once.
fn two_all_reduces(network: NetworkSpec, classes: [u8; 2], bytes: u64) -> [u64; 2] {
    let families = vec![family("a", &[0, 1], classes[0]), family("b", &[0, 1], classes[1])];
    let end = |of: u8| {
        let mut nodes = vec![node(reduce(0, bytes), &[]), node(reduce(1, bytes), &[])];
        nodes.push(named("end", time(0), &[u32::from(of)]));
        let spec = graph(switch(2), free(), network.clone(), families.clone(), vec![class("all", 0..2, nodes)]);
        ends(&spec)[0]
    };
    [end(0), end(1)]
}

/// An all-reduce of S bytes between two NPUs is two steps of S/2 bytes, which take `step`, over two links.
#[test]
fn of_two_equal_families_the_larger_class_ends_as_if_alone() {
    let (bytes, step) = (30_000, 15_000_000);
    let (alone, both) = (2 * (step + WAY), 4 * step + 2 * WAY);
    // The smaller one uses what the larger one leaves while its first step arrives; so the links have no more gaps than
    // those of the smaller one's own steps.
    assert_eq!(two_all_reduces(flow(), [0, 1], bytes), [both, alone]);
    assert_eq!(two_all_reduces(flow(), [7, 6], bytes), [alone, both]);
    for class in [0, 4] {
        assert_eq!(two_all_reduces(flow(), [class; 2], bytes), [both, both], "equal ones have half each");
    }
    let analytical = |classes| two_all_reduces(NetworkSpec::Analytical(Default::default()), classes, bytes);
    assert_eq!(analytical([0, 1]), analytical([0, 0]), "nobody shares links there");
}

#[test]
fn so_it_does_in_packets_but_for_those_on_the_wire() {
    let bytes = 256 * 200;
    let packet_time = 256_000;
    let alone = 2 * (100 * packet_time + packet_time + WAY); // the switch stores a packet
    for trains in [true, false] {
        let [low, high] = two_all_reduces(packet(trains), [0, 3], bytes);
        // A packet of the other family may be on the wire at both links of both steps.
        assert!(high >= alone && high <= alone + 4 * packet_time, "{high} {alone}");
        let both = 400 * packet_time + 2 * (packet_time + WAY);
        assert!(low >= 400 * packet_time && low <= both + 4 * packet_time, "{low} {both}");
        let [one, two] = two_all_reduces(packet(trains), [3, 3], bytes);
        assert!(one.min(two) > alone + 90 * packet_time, "equal ones take turns: {one} {two}");
        assert_eq!([one, two], two_all_reduces(packet(trains), [0, 0], bytes), "{trains}");
    }
}

/// Messages between two ranks and exchanges have the class of their family.
#[test]
fn messages_between_two_ranks_have_the_class_of_their_family() {
    let send = |family, peer| WorkSpec::Send(MessageSpec { family, peer, tag: 0, bytes: 10_000 });
    let recv = |family, peer| WorkSpec::Recv(MessageSpec { family, peer, tag: 0, bytes: 10_000 });
    let (alone, both) = (10_000_000 + WAY, 20_000_000 + WAY);
    // Two senders, one receiver.
    for (network, slack) in [(flow(), 0), (packet(true), 3 * 256_000)] {
        let end = |of: u32, classes: [u8; 2]| {
            let families = vec![family("a", &[0, 2], classes[0]), family("b", &[1, 2], classes[1])];
            let mut nodes = vec![node(recv(0, -1), &[]), node(recv(1, -1), &[])];
            nodes.push(named("end", time(0), &[of]));
            let parties = vec![
                waits_for("first", &[0], vec![send(0, 1)]),
                waits_for("second", &[1], vec![send(1, 1)]),
                class("receiver", [2], nodes),
            ];
            ends(&graph(switch(3), free(), network.clone(), families, parties))[2]
        };
        let near = |got: u64, expected: u64| got >= expected && got <= expected + slack;
        assert!(near(end(0, [2, 1]), alone) && near(end(1, [2, 1]), both));
        assert!(near(end(0, [1, 2]), both) && near(end(1, [1, 2]), alone));
        assert!(end(0, [1, 1]).min(end(1, [1, 1])) > alone + 9_000_000);
    }
    // One sender, in one family each to one receiver.
    let exchange = |family| WorkSpec::Exchange { family, bytes: vec![vec![0, 10_000], vec![0, 0]] };
    let end = |of: u32, classes: [u8; 2]| {
        let families = vec![family("a", &[0, 1], classes[0]), family("b", &[0, 2], classes[1])];
        let parties = vec![
            waits_for("sender", &[0], vec![exchange(0), exchange(1)]),
            waits_for("one", &[1], vec![exchange(0)]),
            waits_for("other", &[2], vec![exchange(1)]),
        ];
        ends(&graph(switch(3), free(), flow(), families, parties))[of as usize]
    };
    assert_eq!([end(1, [0, 5]), end(2, [0, 5])], [both, alone]);
    assert_eq!([end(1, [5, 0]), end(2, [5, 0])], [alone, both]);
    assert_eq!([end(1, [5, 5]), end(2, [5, 5])], [both, both]);
}

/// When the family `of` has finished its collective on a ring of four with ACEs. The other one begins `beside` it, or long
/// after. Both are families of all NPUs, with a priority and a traffic class each.
fn on_an_ace(network: &NetworkSpec, ranks: [(u8, u8); 2], of: u8, beside: bool) -> u64 {
    let of_rank = |(name, (priority, traffic_class)): (&str, (u8, u8))| FamilySpec {
        priority,
        traffic_class,
        ..on_grid(name, &[4], &[0])
    };
    let families: Vec<FamilySpec> = ["listed first", "listed second"].into_iter().zip(ranks).map(of_rank).collect();
    let later = if beside { 0 } else { LATER };
    let mut nodes = vec![named("later", time(later), &[]), node(reduce(1 - of, BYTES), &[0])];
    nodes[0].stream = 1;
    nodes.push(node(reduce(of, BYTES), &[]));
    nodes.push(named("end", time(0), &[2]));
    let mut all = class("all", 0..4, nodes);
    all.streams = vec![all.streams[0]; 2];
    ends(&graph(vec![dim(4, 1, LATENCY)], ace(), network.clone(), families, vec![all]))[0]
}

const BYTES: u64 = 400_000;

/// What is in the port already is not taken back: each of the six steps that a chunk makes around the ring may find a full
/// port buffer of the other family before it, and the packet (with flows, the message) that is under way.
const SOONER: u64 = 6 * (4_096 + 8_192) * 1_000;

#[test]
fn at_the_port_of_an_ace_the_larger_priority_goes_first() {
    for network in [packet(true), packet(false), flow()] {
        let beside = |ranks| [0, 1].map(|of| on_an_ace(&network, ranks, of, true));
        let alone = on_an_ace(&network, [(0, 0), (0, 0)], 1, false);
        let listed = beside([(0, 0), (0, 0)]);
        assert!(listed[0] <= alone + SOONER && listed[1] >= 2 * alone - SOONER, "{listed:?} {alone}");
        assert_eq!(beside([(1, 0), (0, 0)]), listed, "the order of the list is that of the priorities");
        assert_eq!(beside([(5, 5), (5, 5)]), listed, "equal ones go in the order of the list");
        for ranks in [[(0, 0), (1, 0)], [(6, 3), (7, 4)]] {
            assert_eq!(on_an_ace(&network, ranks, 1, false), alone);
            let [first, second] = beside(ranks);
            assert!(second <= alone + SOONER && first >= 2 * alone - SOONER, "{first} {second} {alone} {ranks:?}");
        }
    }
}

#[test]
fn what_is_too_large_is_refused_with_what_is_accepted() {
    for (priority, traffic_class, field) in [(8, 0, "priority"), (0, 9, "traffic_class")] {
        let families = vec![FamilySpec { priority, traffic_class, ..list("pair", &[&[0, 1]]) }];
        let classes = vec![class("all", 0..2, vec![node(reduce(0, 100), &[])])];
        let Err(RunError::Spec(refusals)) = run_spec(&graph(switch(2), free(), flow(), families, classes), None) else {
            panic!("{field} is too large")
        };
        let refusal = &refusals[0];
        assert_eq!(refusal.field.join("."), format!("families.0.{field}"));
        assert_eq!(refusal.accepted.as_deref(), Some("0 to 7"));
        assert!(refusal.message.contains(&priority.max(traffic_class).to_string()), "{}", refusal.message);
    }
}
