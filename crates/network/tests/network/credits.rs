//! Buffers shorter than the round trip limit the throughput to what they hold per round trip.

use crate::support::{P, Play, Supply, packets, play, torus};
use syncline_core::{Bytes, NodeId, PortId, Ps};
use syncline_network::{DeadlockRule, Delivery, Route, TrafficClass};

/// 10 ns a packet, 100 ns a hop: a round trip is 210 ns or 21 packets.
const RATE: u64 = 25_600_000_000;
const PACKET: u64 = 10_000;
const LATENCY: u64 = 100_000;
const ROUND_TRIP: u64 = PACKET + 2 * LATENCY;

/// Arrival of packet `i` when `slots` packets may be under way in a round trip.
fn limited(i: u64, slots: u64) -> Ps {
    Ps(i / slots * ROUND_TRIP + i % slots * PACKET + PACKET + LATENCY)
}

#[test]
fn a_short_buffer_passes_its_size_per_round_trip() {
    let fabric = torus(&[(4, RATE, LATENCY)]);
    // Under the bubble rule a packet that enters leaves one slot free, so one does not count.
    for (rule, buffer, slots) in [
        (DeadlockRule::None, 1, 1),
        (DeadlockRule::None, 5, 5),
        (DeadlockRule::Dateline, 5, 3),
        (DeadlockRule::Bubble, 2, 1),
        (DeadlockRule::Bubble, 8, 7),
    ] {
        for trains in [false, true] {
            for delivery in [Delivery::Whole, Delivery::Stored, Delivery::Stream] {
                let n = 10 * slots + 1;
                let message = Play { delivery, ..Play::whole(0, Route::Port(PortId(0)), n * P) };
                let net = packets(&fabric, rule, Some(buffer), trains);
                let outcome = play(net, &fabric, &[message]).finished();
                assert_eq!(outcome.arrivals, [limited(n - 1, slots)], "{rule:?} {buffer} {trains} {delivery:?}");
            }
        }
    }
}

#[test]
fn a_buffer_of_a_round_trip_is_enough() {
    let fabric = torus(&[(4, RATE, LATENCY)]);
    let n = 1000;
    for (buffer, full_speed) in [(21, true), (20, false)] {
        let net = packets(&fabric, DeadlockRule::None, Some(buffer), true);
        let outcome = play(net, &fabric, &[Play::whole(0, Route::Port(PortId(0)), n * P)]).finished();
        assert_eq!(outcome.arrivals[0] == Ps(n * PACKET + LATENCY), full_speed);
    }
}

#[test]
fn a_slow_receiver_holds_the_sender_back() {
    let fabric = torus(&[(4, RATE, LATENCY)]);
    let outcome = |hold| {
        let message = Play::stream(0, Route::Port(PortId(0)), 700 * P, Ps(hold));
        play(packets(&fabric, DeadlockRule::Bubble, Some(22), false), &fabric, &[message]).finished().arrivals[0]
    };
    assert_eq!(outcome(0), Ps(700 * PACKET + LATENCY));
    assert!(outcome(100_000) > Ps(700 * PACKET + LATENCY));
}

/// The receiver has let go of the only slot when its packet has arrived, of which the sender hears a latency later: whatever it
/// sends until then starts then, and what it sends later starts at once.
#[test]
fn a_sender_hears_of_a_slot_a_latency_after_it_is_free() {
    let fabric = torus(&[(4, RATE, LATENCY)]);
    let (free, heard) = (PACKET + LATENCY, ROUND_TRIP);
    for trains in [false, true] {
        for at in [free, free + 1, free + LATENCY / 2, heard - 1, heard, heard + 1] {
            let first = Play::stream(0, Route::Port(PortId(0)), P, Ps(0));
            let second = Play { at: Ps(at), ..first };
            let net = packets(&fabric, DeadlockRule::None, Some(1), trains);
            let arrivals = play(net, &fabric, &[first, second]).finished().arrivals;
            assert_eq!(arrivals, [Ps(free), Ps(at.max(heard) + PACKET + LATENCY)], "{at} {trains}");
        }
    }
}

#[test]
fn back_pressure_reaches_over_several_hops() {
    // The second hop is ten times slower; with two slots per buffer the first cannot run ahead.
    let fabric = torus(&[(2, RATE, 1000), (2, RATE / 10, 1000)]);
    let message =
        Play { supply: Supply::WhenRoom { capacity: Bytes(P) }, ..Play::whole(0, Route::To(NodeId(3)), 100 * P) };
    let outcome = play(packets(&fabric, DeadlockRule::Bubble, Some(3), false), &fabric, &[message]).finished();
    assert!(outcome.arrivals[0] > Ps(100 * 10 * PACKET));
}

#[test]
fn a_slot_in_transit_is_free_when_the_packet_has_left() {
    // One slot per buffer. It is taken from the start of a packet, over its arrival (110 ns) and its
    // departure (10 ns), until the credit is back (100 ns).
    let fabric = torus(&[(8, RATE, LATENCY)]);
    let (hop, cycle) = (PACKET + LATENCY, 2 * PACKET + 2 * LATENCY);
    for n in [1, 2, 30] {
        let net = packets(&fabric, DeadlockRule::None, Some(1), true);
        let outcome = play(net, &fabric, &[Play::whole(0, Route::To(NodeId(2)), n * P)]).finished();
        assert_eq!(outcome.arrivals, [Ps((n - 1) * cycle + 2 * hop)]);
    }
}

#[test]
fn a_receiver_that_holds_streams_keeps_out_no_others() {
    // Of both kinds half of the buffer; streams that are held for a millisecond each fill theirs.
    let fabric = torus(&[(4, RATE, LATENCY)]);
    let out = Route::Port(PortId(0));
    let held = Play::stream(0, out, 40 * P, Ps(1_000_000_000));
    let passing = Play { class: TrafficClass::of_buffers(1), at: Ps(2_000_000), ..Play::stream(0, out, 40 * P, Ps(0)) };
    let arrival = |rule, buffer| {
        let net = packets(&fabric, rule, Some(buffer), true);
        play(net, &fabric, &[held, passing]).finished().arrivals[1]
    };
    assert_eq!(arrival(DeadlockRule::Classes, 42), Ps(2_000_000 + 40 * PACKET + LATENCY));
    let shared = arrival(DeadlockRule::Bubble, 30);
    assert!(shared > Ps(1_000_000_000), "{shared:?}");
}
