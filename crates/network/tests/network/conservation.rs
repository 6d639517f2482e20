//! What goes in comes out, and the links carried it.

use crate::support::{P, Play, Supply, below, flows, packets, play, torus};
use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, EventQueue, NodeId, PortId, Ps};
use syncline_network::{Analytical, DeadlockRule, Delivery, Message, Network, Route, TrafficClass};
use syncline_topology::Fabric;

#[test]
fn links_carry_every_byte_once_per_hop() {
    let fabric = torus(&[(4, 188_000_000_000, 72_289), (3, 23_500_000_000, 401_606)]);
    let rng = &mut SplitMix64(11);
    let (mut bytes, mut hops, mut in_packets) = (0, 0, 0);
    let plays: Vec<Play> = (0..300)
        .map(|_| {
            let (src, dst) = (below(rng, 12) as u32, below(rng, 12) as u32);
            let len = below(rng, 5000);
            let mut path = Vec::new();
            fabric.route(NodeId(src), NodeId(dst), &mut path);
            bytes += len * path.len() as u64;
            hops += path.len() as u64;
            in_packets += len.div_ceil(P).max(1) * path.len() as u64;
            Play::stream(src, Route::To(NodeId(dst)), len, Ps(1000))
        })
        .collect();
    for trains in [false, true] {
        let outcome = play(packets(&fabric, DeadlockRule::Bubble, Some(4), trains), &fabric, &plays).finished();
        assert_eq!((outcome.total_bytes, outcome.packet_hops), (bytes, in_packets));
        assert_eq!(outcome.books.accepted, plays.iter().map(|p| p.len).sum::<u64>());
    }
    let outcome = play(Analytical::new(fabric.clone(), Ps(1_000_000)), &fabric, &plays).finished();
    assert_eq!((outcome.total_bytes, outcome.packet_hops), (bytes, hops));
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!((outcome.total_bytes, outcome.packet_hops), (bytes, hops));
}

#[test]
fn busy_time_is_serialisation_time() {
    let fabric = torus(&[(4, 25_600_000_000, 100_000)]);
    for trains in [false, true] {
        let net = packets(&fabric, DeadlockRule::Bubble, None, trains);
        let outcome = play(net, &fabric, &[Play::whole(0, Route::To(NodeId(2)), 100 * P + 128)]).finished();
        assert_eq!(outcome.total_busy, 2 * (100 * 10_000 + 5_000));
    }
    let outcome = play(flows(&fabric), &fabric, &[Play::whole(0, Route::To(NodeId(2)), 100 * P + 128)]).finished();
    assert_eq!(outcome.total_busy, 2 * (100 * 10_000 + 5_000));
}

/// Feeds half of a message; what the backend says then.
fn half_fed<N: Network>(mut net: N) -> N {
    let message = Message {
        src: NodeId(3),
        route: Route::Port(PortId(1)),
        queue: 0,
        len: Bytes(2 * P),
        class: TrafficClass::default(),
        delivery: Delivery::Stream,
        tag: 0,
        receipt: None,
    };
    let mut queue = EventQueue::new();
    let id = net.open(message);
    net.feed(Ps::ZERO, id, Bytes(P), &mut queue);
    let mut out = Vec::new();
    while let Some((now, _, event)) = queue.pop() {
        net.handle(now, event, &mut queue, &mut out);
    }
    let [wait] = &net.waits()[..] else { panic!("one message waits") };
    assert_eq!(wait.who, "message of 512 B from NPU 3 (3) one hop dim 0 down");
    assert_eq!(wait.what, "its sender to feed 256 of its 512 B");
    net
}

#[test]
fn a_message_that_is_not_fed_is_waited_for() {
    let fabric = torus(&[(4, 25_600_000_000, 100_000)]);
    let net = half_fed(packets(&fabric, DeadlockRule::Bubble, None, true));
    assert!(net.books().are_settled(), "what was fed has arrived");
    let net = half_fed(Analytical::new(fabric.clone(), Ps(1_000_000)));
    assert_eq!((net.books().accepted, net.books().delivered), (0, 0), "nothing leaves before all is there");
    let net = half_fed(flows(&fabric));
    assert_eq!((net.books().accepted, net.books().delivered), (P, 0), "a flow starts when all is there");
}

#[test]
fn supply_in_packets_and_at_once_carry_the_same() {
    let fabric = torus(&[(4, 25_600_000_000, 100_000)]);
    let at_once = Play::whole(0, Route::To(NodeId(1)), 10 * P + 1);
    let in_packets = Play { supply: Supply::Every(Ps::ZERO), ..at_once };
    let run = |p| play(packets(&fabric, DeadlockRule::Bubble, None, true), &fabric, &[p]).finished();
    assert_eq!(run(at_once).arrivals, run(in_packets).arrivals);
}

/// Bytes and busy picoseconds of the links that two messages of 1 MB from NPU 0 to its neighbour take, if the run ends
/// at `end`.
fn cut<N: Network>(mut net: N, fabric: &dyn Fabric, end: Ps) -> (u64, u64) {
    let message = Message {
        src: NodeId(0),
        route: Route::To(NodeId(1)),
        queue: 0,
        len: Bytes(1_000_000),
        class: TrafficClass::default(),
        delivery: Delivery::Whole,
        tag: 0,
        receipt: None,
    };
    let (mut queue, mut out) = (EventQueue::new(), Vec::new());
    net.send(Ps::ZERO, message, &mut queue);
    net.send(Ps::ZERO, message, &mut queue);
    while let Some((now, _, event)) = queue.pop().filter(|&(now, ..)| now <= end) {
        net.handle(now, event, &mut queue, &mut out);
    }
    net.finish(end);
    let links = 0..fabric.links();
    let usage = net.usage();
    (links.clone().map(|link| usage.bytes(link).0).sum(), links.map(|link| usage.busy(link).0).sum())
}

/// At 25.6 GB/s, two messages of 1 MB take 78.125 us.
#[test]
fn a_run_that_is_cut_has_what_links_had_carried_by_then() {
    let fabric = torus(&[(4, 25_600_000_000, 100_000)]);
    let ends =
        [(0, 0), (10_000_000, 256_000), (50_000_000, 1_280_000), (78_125_000, 2_000_000), (90_000_000, 2_000_000)];
    for (end, bytes) in ends {
        let expected = (bytes, end.min(78_125_000));
        for trains in [false, true] {
            let net = packets(&fabric, DeadlockRule::Bubble, None, trains);
            assert_eq!(cut(net, &fabric, Ps(end)), expected, "packets, {end}");
        }
        assert_eq!(
            cut(Analytical::new(fabric.clone(), Ps(1_000_000)), &fabric, Ps(end)),
            expected,
            "analytical, {end}"
        );
        assert_eq!(cut(flows(&fabric), &fabric, Ps(end)), expected, "flows, {end}");
    }
}
