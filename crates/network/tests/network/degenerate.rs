//! Odd inputs do something sensible.

use crate::support::{P, Play, Supply, flows, packets, play, torus};
use syncline_core::{Bytes, NodeId, PortId, Ps, Refusal};
use syncline_network::{DeadlockRule, Delivery, Packet, PacketConfig, PacketError, Route};

#[test]
fn a_single_node_talks_to_itself() {
    let fabric = torus(&[(1, 1, 1)]);
    let to_itself = Route::To(NodeId(0));
    let plays = [
        Play::whole(0, to_itself, 0),
        Play::whole(0, to_itself, 10_000),
        Play::stream(0, to_itself, 10_000, Ps(7)),
        Play { supply: Supply::Every(Ps(5)), ..Play::stream(0, to_itself, 3 * P, Ps::ZERO) },
        Play { supply: Supply::WhenRoom { capacity: Bytes(1) }, ..Play::whole(0, to_itself, 3 * P) },
    ];
    for trains in [false, true] {
        let outcome = play(packets(&fabric, DeadlockRule::Bubble, None, trains), &fabric, &plays).finished();
        assert_eq!(outcome.arrivals, [Ps(0), Ps(0), Ps(0), Ps(10), Ps(0)]);
        assert_eq!(outcome.packet_hops, 0);
    }
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!((&outcome.arrivals[..], outcome.packet_hops), (&[Ps(0), Ps(0), Ps(0), Ps(10), Ps(0)][..], 0));
}

#[test]
fn what_a_node_sends_itself_takes_no_buffer_of_a_link() {
    // Slots of port 0 are given back once each, although both kinds of packets are released there.
    let fabric = torus(&[(2, 25_600_000_000, 0)]);
    let plays = [
        Play::stream(0, Route::To(NodeId(0)), 50 * P, Ps(100)),
        Play::stream(1, Route::Port(PortId(1)), 50 * P, Ps(100)),
    ];
    for trains in [false, true] {
        play(packets(&fabric, DeadlockRule::Bubble, Some(2), trains), &fabric, &plays).finished();
    }
}

#[test]
fn empty_messages_take_the_latency() {
    let fabric = torus(&[(4, 1_000_000_000, 5_000), (4, 2_000_000_000, 7_000)]);
    for supply in [Supply::AtOnce, Supply::Every(Ps(1)), Supply::WhenRoom { capacity: Bytes(0) }] {
        for delivery in [Delivery::Whole, Delivery::Stored, Delivery::Stream] {
            for trains in [false, true] {
                let empty = Play { supply, delivery, ..Play::whole(0, Route::To(NodeId(5)), 0) };
                let net = packets(&fabric, DeadlockRule::Bubble, Some(2), trains);
                let outcome = play(net, &fabric, &[empty; 9]).finished();
                assert_eq!(outcome.arrivals[0], Ps(12_000));
                assert_eq!(outcome.packet_hops, 18);
            }
            let empty = Play { supply, delivery, ..Play::whole(0, Route::To(NodeId(5)), 0) };
            let outcome = play(flows(&fabric), &fabric, &[empty; 9]).finished();
            assert_eq!((outcome.arrivals[0], outcome.packet_hops), (Ps(12_000), 18));
        }
    }
}

#[test]
fn unlimited_links_take_the_latency() {
    let fabric = torus(&[(4, u64::MAX, 5_000)]);
    for buffer in [Some(3), None] {
        for trains in [false, true] {
            let net = packets(&fabric, DeadlockRule::Bubble, buffer, trains);
            let outcome = play(net, &fabric, &[Play::whole(0, Route::To(NodeId(1)), 2 * P)]).finished();
            assert_eq!(outcome.arrivals, [Ps(5_000)]);
        }
    }
    let outcome = play(flows(&fabric), &fabric, &[Play::whole(0, Route::To(NodeId(1)), 2 * P)]).finished();
    assert_eq!((outcome.arrivals[0], outcome.total_busy), (Ps(5_000), 0));
}

#[test]
fn configurations_that_could_not_move_are_refused() {
    let build = |config| Packet::new(torus(&[(4, 1, 1)]), config).map(|_| ()).unwrap_err();
    let config = PacketConfig::DEFAULT;
    assert_eq!(build(PacketConfig { packet: Bytes::ZERO, ..config }), PacketError::EmptyPackets);
    assert_eq!(build(PacketConfig { window: Ps::ZERO.into(), ..config }), PacketError::EmptyWindows);
    for (rule, packets) in [(DeadlockRule::Bubble, 1), (DeadlockRule::Dateline, 1), (DeadlockRule::None, 0)] {
        let error = build(PacketConfig { rule, buffer: Some(packets), ..config });
        assert_eq!(error, PacketError::SmallBuffer { packets, rule });
    }
    let error = build(PacketConfig { buffer: Some(1), ..config });
    let refusal = Refusal::from(error);
    assert_eq!((refusal.field, refusal.least), (vec!["buffer_packets".to_string()], Some(2)));
}
