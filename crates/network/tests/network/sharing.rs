//! Flows that meet at a port are served in the order in which their packets request it.

use crate::support::{P, Play, Supply, one_hop, packets, play, torus};
use syncline_core::{NodeId, PortId, Ps};
use syncline_network::{DeadlockRule, Route};

/// 10 ns a packet, 100 ns a hop.
const RATE: u64 = 25_600_000_000;
const PACKET: u64 = 10_000;
const HOP: u64 = PACKET + 100_000;

const UP: Route = Route::Port(PortId(0));

#[test]
fn messages_that_are_there_at_once_go_one_after_the_other() {
    let fabric = torus(&[(8, RATE, 100_000)]);
    let plays = [Play::whole(0, UP, 5 * P), Play::whole(0, UP, 3 * P), Play::whole(0, UP, 0)];
    for trains in [false, true] {
        let net = one_hop(&fabric, DeadlockRule::Bubble, None, trains);
        let arrivals = play(net, &fabric, &plays).finished().arrivals;
        assert_eq!(arrivals, [Ps(4 * PACKET + HOP), Ps(7 * PACKET + HOP), Ps(8 * PACKET + 100_000)]);
    }
}

#[test]
fn queues_between_the_same_two_take_turns() {
    let fabric = torus(&[(8, RATE, 100_000)]);
    let plays = [0, 1].map(|queue| Play { queue, ..Play::whole(0, UP, 20 * P) });
    for trains in [false, true] {
        let net = packets(&fabric, DeadlockRule::Bubble, None, trains);
        let arrivals = play(net, &fabric, &plays).finished().arrivals;
        // Two packets of the first have requested the port before the second is there.
        assert_eq!(arrivals, [Ps(18 * 2 * PACKET + HOP), Ps(19 * 2 * PACKET + PACKET + HOP)]);
    }
}

#[test]
fn messages_that_are_fed_in_turn_take_turns() {
    let fabric = torus(&[(8, RATE, 100_000)]);
    let fed = Play { supply: Supply::Every(Ps(PACKET)), ..Play::whole(0, UP, 20 * P) };
    for trains in [false, true] {
        let net = packets(&fabric, DeadlockRule::Bubble, None, trains);
        let arrivals = play(net, &fabric, &[fed, fed]).finished().arrivals;
        assert_eq!(arrivals, [Ps(19 * 2 * PACKET + HOP), Ps(19 * 2 * PACKET + PACKET + HOP)]);
    }
}

#[test]
fn transit_and_local_packets_take_turns() {
    let fabric = torus(&[(8, RATE, 100_000)]);
    let n = 20;
    let supply = Supply::Every(Ps(2 * PACKET));
    let transit = Play { supply, ..Play::whole(0, Route::To(NodeId(2)), n * P) };
    let local = Play { at: Ps(HOP), supply, ..Play::whole(1, UP, n * P) };
    for rule in [DeadlockRule::Bubble, DeadlockRule::Dateline, DeadlockRule::None] {
        for trains in [false, true] {
            let net = packets(&fabric, rule, None, trains);
            let arrivals = play(net, &fabric, &[transit, local]).finished().arrivals;
            let last = 2 * HOP + (n - 1) * 2 * PACKET;
            assert_eq!(arrivals, [Ps(last), Ps(last + PACKET)], "{rule:?}");
        }
    }
}

#[test]
fn a_local_message_gives_way_to_transit() {
    // The local message is at the port before the first packet in transit, all of it; only what is on the wire goes before
    // that.
    let fabric = torus(&[(8, RATE, 100_000)]);
    let n = 20;
    let transit = Play::whole(0, Route::To(NodeId(2)), n * P);
    let local = Play { at: Ps(HOP - 1), ..Play::whole(1, UP, n * P) };
    for rule in [DeadlockRule::Bubble, DeadlockRule::Dateline, DeadlockRule::None] {
        let net = packets(&fabric, rule, None, false);
        let arrivals = play(net, &fabric, &[transit, local]).finished().arrivals;
        let first = HOP - 1 + HOP;
        assert_eq!(arrivals, [Ps(first + n * PACKET), Ps(first + (2 * n - 1) * PACKET)], "{rule:?}");
    }
}

#[test]
fn a_ring_that_everybody_fills_carries_what_its_links_can() {
    // Everybody sends to all others, the opposite one half-way round both ways: 64 packets over 8 * 8 / 2 links each way.
    // Were local packets to take turns with transit, buffers would fill all around, and the ring move by its holes.
    let (npus, packets_each) = (16, 64);
    let fabric = torus(&[(npus, RATE, 100_000)]);
    let sends = |src: u32| {
        let to = move |by| (NodeId((src + by) % npus), packets_each * P);
        let other = move |by| Play::whole(src, Route::To(to(by).0), to(by).1);
        let half = npus / 2;
        let opposite = [Route::To(to(half).0), Route::By(to(half).0, 1)];
        let halves = opposite.map(|route| Play::whole(src, route, packets_each / 2 * P));
        (1..npus).filter(move |&by| by != half).map(other).chain(halves)
    };
    let plays: Vec<Play> = (0..npus).flat_map(sends).collect();
    let least = u64::from(npus * npus / 8) * packets_each * PACKET;
    for (rule, buffer) in
        [(DeadlockRule::Bubble, None), (DeadlockRule::Bubble, Some(30)), (DeadlockRule::Dateline, None)]
    {
        let arrivals = play(packets(&fabric, rule, buffer, true), &fabric, &plays).finished().arrivals;
        let ratio = arrivals.iter().max().expect("arrivals").0 as f64 / least as f64;
        assert!((1.0..1.03).contains(&ratio), "{rule:?} {buffer:?}: {ratio}");
    }
}

#[test]
fn packets_for_the_local_node_do_not_wait_behind_those_in_transit() {
    // Along the fast dimension come packets that turn into a slow one, then one that stays.
    let fabric = torus(&[(4, RATE, 1_000), (4, RATE / 100, 1_000)]);
    let turning = Play::whole(0, Route::To(NodeId(5)), 4 * P);
    let staying = Play { at: Ps(1), ..Play::whole(0, Route::To(NodeId(1)), P) };
    let net = one_hop(&fabric, DeadlockRule::Bubble, None, false);
    let arrivals = play(net, &fabric, &[turning, staying]).finished().arrivals;
    assert_eq!(arrivals[1], Ps(5 * PACKET + 1_000));
    // A packet behind the head waits even if its own output is idle.
    let behind = Play { at: Ps(1), ..Play::whole(0, Route::To(NodeId(2)), P) };
    let net = one_hop(&fabric, DeadlockRule::Bubble, None, false);
    let arrivals = play(net, &fabric, &[turning, behind]).finished().arrivals;
    let head_leaves = PACKET + 1_000 + 3 * 100 * PACKET; // the fourth slow packet starts
    assert_eq!(arrivals[1], Ps(head_leaves + PACKET + 1_000));
}
