//! What a sender learns about its port's buffer.

use crate::support::{P, Play, Supply, one_hop, packets, play, torus};
use syncline_core::{Bytes, EventQueue, NodeId, PortId, Ps};
use syncline_network::packet::Event;
use syncline_network::{
    Analytical, DeadlockRule, Delivery, Message, NetOut, Network, Room, Route, TrafficClass, analytical,
};

const PACKET: u64 = 10_000;
const LATENCY: u64 = 100_000;
const PORT: PortId = PortId(0);

fn stream(len: u64) -> Message {
    Message {
        src: NodeId(0),
        route: Route::Port(PORT),
        queue: 0,
        len: Bytes(len),
        class: TrafficClass::default(),
        delivery: Delivery::Stream,
        tag: 0,
        receipt: None,
    }
}

#[test]
fn room_is_known_while_credits_are() {
    let fabric = torus(&[(4, 25_600_000_000, LATENCY)]);
    for trains in [false, true] {
        let mut net = one_hop(&fabric, DeadlockRule::Bubble, None, trains);
        let mut queue: EventQueue<Event> = EventQueue::new();
        let room = |net: &mut syncline_network::Packet<_>, now, packets| {
            net.room(Ps(now), NodeId(0), PORT, TrafficClass::default(), Bytes(packets * P))
        };
        assert_eq!(room(&mut net, 0, 1), Room::Now);
        net.send(Ps::ZERO, stream(4 * P), &mut queue);
        // The first packet is on the wire; the others start at 10, 20 and 30 ns.
        assert_eq!(room(&mut net, 0, 4), Room::Now);
        assert_eq!(room(&mut net, 0, 3), Room::At(Ps(PACKET)));
        assert_eq!(room(&mut net, 0, 1), Room::At(Ps(3 * PACKET)));
        assert_eq!(room(&mut net, 0, 0), Room::At(Ps(3 * PACKET)), "less than a packet counts as one");
        assert_eq!(room(&mut net, PACKET, 2), Room::At(Ps(2 * PACKET)));
        assert_eq!(room(&mut net, 3 * PACKET, 1), Room::Now);
    }
}

/// Where nothing but the port is modelled: what waits there may be so long that its bytes fill what is given, and the time that
/// a sender is told is the first at which that is so.
#[test]
fn a_port_has_room_from_the_time_that_is_told() {
    let fabric = torus(&[(4, 25_600_000_000, LATENCY)]);
    let mut net = Analytical::new(fabric, Ps(1_000_000));
    let mut queue: EventQueue<analytical::Event> = EventQueue::new();
    net.send(Ps::ZERO, stream(10 * P), &mut queue);
    for packets in 0..12 {
        let mut room = |now| net.room(now, NodeId(0), PORT, TrafficClass::default(), Bytes(packets * P));
        match room(Ps::ZERO) {
            Room::At(time) => {
                assert_eq!(time, Ps((10 - packets) * PACKET));
                assert_eq!((room(time - Ps(1)), room(time)), (Room::At(time), Room::Now));
            }
            room => assert_eq!((room, packets >= 10), (Room::Now, true)),
        }
    }
}

#[test]
fn a_blocked_port_says_so_and_calls_back_once() {
    let fabric = torus(&[(4, 25_600_000_000, LATENCY)]);
    for trains in [false, true] {
        let mut net = packets(&fabric, DeadlockRule::None, Some(1), trains);
        let mut queue: EventQueue<Event> = EventQueue::new();
        net.send(Ps::ZERO, stream(3 * P), &mut queue);
        assert_eq!(net.room(Ps::ZERO, NodeId(0), PORT, TrafficClass::default(), Bytes(2 * P)), Room::Unknown);
        let mut out = Vec::new();
        let mut calls = Vec::new();
        while let Some((now, _, event)) = queue.pop() {
            net.handle(now, event, &mut queue, &mut out);
            for news in out.drain(..) {
                match news {
                    NetOut::Arrived { at, port, .. } => net.release(now, at, port, TrafficClass::default(), &mut queue),
                    NetOut::Left { .. } | NetOut::Failed { .. } | NetOut::Takes { .. } => {}
                    NetOut::Room { at, port } => calls.push((now, at, port)),
                }
            }
        }
        // The second packet starts a round trip after the first; then one still waits.
        assert_eq!(calls, [(Ps(PACKET + 2 * LATENCY), NodeId(0), PORT)]);
        assert!(net.waits().is_empty());
    }
}

#[test]
fn feeding_as_room_comes_loses_no_time() {
    let fabric = torus(&[(4, 25_600_000_000, LATENCY), (4, 2_560_000_000, LATENCY)]);
    for (rule, buffer) in
        [(DeadlockRule::None, 1), (DeadlockRule::Bubble, 2), (DeadlockRule::Bubble, 30), (DeadlockRule::Dateline, 6)]
    {
        for route in [Route::Port(PORT), Route::To(NodeId(10))] {
            for trains in [false, true] {
                let at_once = Play::stream(0, route, 50 * P, Ps(30_000));
                let run = |capacity: Option<u64>| {
                    let supply = capacity.map_or(Supply::AtOnce, |c| Supply::WhenRoom { capacity: Bytes(c) });
                    let net = packets(&fabric, rule, Some(buffer), trains);
                    play(net, &fabric, &[Play { supply, ..at_once }]).finished().arrivals
                };
                for capacity in [0, P, 3 * P + 1, 20 * P] {
                    assert_eq!(run(Some(capacity)), run(None), "{rule:?} {buffer} {route:?} {trains} {capacity}");
                }
            }
        }
    }
}
