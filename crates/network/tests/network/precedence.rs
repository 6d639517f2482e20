//! Messages of larger precedence go first.

use crate::support::{
    Outcome, P, Play, Supply, any_fabric, below, by_precedence, flows, one_hop, packets, play, play_shuffled, star,
    torus,
};
use std::sync::Arc;
use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, NodeId, PortId, Ps};
use syncline_network::{DeadlockRule, Delivery, Network, Packet, PacketConfig, Route, TrafficClass};
use syncline_topology::{Fabric, Product};

/// 10 ns for a packet, 100 ns to the switch and from there.
const RATE: u64 = 25_600_000_000;
const LATENCY: u64 = 100_000;
const PACKET: u64 = 10_000;

/// The same message with a precedence, on a connection of its own.
fn with(precedence: u8, play: Play) -> Play {
    Play { queue: precedence.into(), class: play.class.with_precedence(precedence), ..play }
}

fn arrivals<N: Network>(net: N, fabric: &Product, plays: &[Play]) -> Vec<u64> {
    play(net, fabric, plays).finished().arrivals.iter().map(|t| t.0).collect()
}

/// Messages of 1,000 packets by the same link of a star: from one sender, or to one receiver.
fn on_one_link(from_one: bool) -> [Play; 2] {
    [1, 2].map(|other| match from_one {
        true => Play::whole(0, Route::To(NodeId(other)), 1_000 * P),
        false => Play::whole(other, Route::To(NodeId(0)), 1_000 * P),
    })
}

#[test]
fn of_two_flows_the_larger_ends_as_if_alone_and_the_smaller_when_both_are_done() {
    let fabric = star(4, RATE, LATENCY);
    let alone = 1_000 * PACKET + 2 * LATENCY;
    for from_one in [true, false] {
        let [low, high] = on_one_link(from_one);
        let got = arrivals(flows(&fabric), &fabric, &[with(2, low), with(5, high)]);
        assert_eq!(got, [alone + 1_000 * PACKET, alone]);
        // Equal ones share, whatever they are.
        for class in [0, 5] {
            let [one, two] = [low, high].map(|play| with(class, play));
            let got = arrivals(flows(&fabric), &fabric, &[one, two]);
            assert_eq!(got, [alone + 1_000 * PACKET; 2]);
        }
        // The smaller one begins alone, stands still, and goes on.
        let late = Play { at: Ps(300 * PACKET), ..high };
        let got = arrivals(flows(&fabric), &fabric, &[with(0, low), with(1, late)]);
        assert_eq!(got, [alone + 1_000 * PACKET, alone + 300 * PACKET]);
    }
}

#[test]
fn a_flow_leaves_to_smaller_classes_what_it_cannot_use() {
    // The largest class has half of its first link, since it shares its last link with another of its class.
    let fabric = star(4, RATE, LATENCY);
    let to = |src, dst| Play::whole(src, Route::To(NodeId(dst)), 1_000 * P);
    let plays = [with(7, to(0, 1)), with(7, to(2, 1)), with(3, to(0, 3)), with(0, to(0, 2))];
    let end = |packets: u64| packets * PACKET + 2 * LATENCY;
    assert_eq!(arrivals(flows(&fabric), &fabric, &plays), [end(2_000), end(2_000), end(2_000), end(3_000)]);
}

#[test]
fn of_two_messages_in_packets_the_larger_ends_as_if_alone() {
    let fabric = star(4, RATE, LATENCY);
    let alone = 1_001 * PACKET + 2 * LATENCY; // the switch stores a packet before it sends it on
    for (from_one, trains, at) in [(true, true, 0), (true, false, 1), (false, true, 3_333), (false, false, 777_777)] {
        let [low, high] = on_one_link(from_one);
        let late = Play { at: Ps(at), ..high };
        let run = |a: Play, b: Play| {
            let net = by_precedence(&fabric, DeadlockRule::Bubble, None, (trains, true));
            arrivals(net, &fabric, &[a, b])
        };
        let got = run(with(0, low), with(1, late));
        assert!(got[1] - at <= alone + PACKET, "{got:?}");
        assert_eq!(got[0], alone + 1_000 * PACKET, "the link is never idle");
        let got = run(with(1, low), with(1, late));
        let at_least = 1_999 * PACKET + 2 * LATENCY - at;
        assert!(got[1] >= at_least, "equal ones take turns: {got:?}");
    }
}

#[test]
fn messages_between_neighbours_overtake_what_has_not_started() {
    let fabric = torus(&[(4, RATE, LATENCY)]);
    let by_port = |len, at| Play { at: Ps(at), ..Play::whole(0, Route::Port(PortId(0)), len) };
    for trains in [true, false] {
        for turns in [true, false] {
            let net = by_precedence(&fabric, DeadlockRule::Bubble, None, (trains, turns));
            let plays = [with(0, by_port(1_000 * P, 0)), with(3, by_port(100 * P, 12_345))];
            assert_eq!(
                arrivals(net, &fabric, &plays),
                [1_100 * PACKET + LATENCY, 102 * PACKET + LATENCY],
                "the second packet is on the wire when the large one comes"
            );
        }
    }
}

#[test]
fn a_large_message_passes_those_that_wait_at_a_switch_in_turn() {
    let fabric: Arc<dyn Fabric> = Arc::new(star(6, RATE, LATENCY));
    let config = PacketConfig { packet: Bytes(P), in_rounds: true, by_precedence: true, ..PacketConfig::DEFAULT };
    let net = Packet::new(fabric.clone(), config).expect("a legal configuration");
    let to_first = |src| Play::whole(src, Route::To(NodeId(0)), 500 * P);
    let mut plays: Vec<Play> = (1..5).map(to_first).map(|play| with(1, play)).collect();
    plays.push(with(2, Play { at: Ps(200 * PACKET), ..to_first(5) }));
    let got = play(net, &*fabric, &plays).finished().arrivals;
    assert!(got[4].0 <= 702 * PACKET + 2 * LATENCY, "{got:?}");
    let (first, last) = (got[..4].iter().min(), got[..4].iter().max());
    assert_eq!(last, Some(&Ps(2_501 * PACKET + 2 * LATENCY)));
    assert!(first >= Some(&Ps(2_490 * PACKET)), "the others still take turns: {got:?}");
}

#[test]
fn without_precedence_it_means_nothing() {
    let fabric = star(4, RATE, LATENCY);
    let [low, high] = on_one_link(false);
    let run = |plays: &[Play]| arrivals(packets(&fabric, DeadlockRule::Bubble, None, true), &fabric, plays);
    let queues = |play: Play| Play { class: TrafficClass::default(), ..play };
    let plays = [with(0, low), with(7, high)];
    assert_eq!(run(&plays), run(&plays.map(queues)));
}

fn random_play(rng: &mut SplitMix64, fabric: &dyn Fabric, near: bool) -> Play {
    let src = below(rng, fabric.npus().into()) as u32;
    let ports = u64::from(fabric.ports(NodeId(src)));
    let route = match near && ports > 0 {
        true => Route::Port(PortId(below(rng, ports) as u16)),
        false => Route::To(NodeId(below(rng, fabric.npus().into()) as u32)),
    };
    let supply = match rng.below(4) {
        0 => Supply::Every(Ps(below(rng, 4) * 5_000)),
        1 => Supply::WhenRoom { capacity: Bytes(P + below(rng, 4 * P)) },
        _ => Supply::AtOnce,
    };
    let play = Play {
        at: Ps(below(rng, 5) * 10_000 + below(rng, 2) * below(rng, 100_000)),
        src: NodeId(src),
        route,
        queue: 0,
        len: below(rng, 2) * P * below(rng, 40) + below(rng, 3) * P,
        class: TrafficClass::default(),
        delivery: [Delivery::Whole, Delivery::Stored, Delivery::Stream][rng.below(3)],
        supply,
        hold: Ps([0, 5_000, 33_333][rng.below(3)]),
    };
    with(below(rng, 8) as u8, play)
}

/// What must not depend on how it is computed.
fn physics(outcome: &Outcome) -> (&[Ps], u64, u128, u64) {
    (&outcome.arrivals, outcome.total_bytes, outcome.total_busy, outcome.packet_hops)
}

#[test]
fn random_traffic_of_all_precedences_always_ends_and_takes_the_same_time_with_trains() {
    let sizes: [&[u32]; 8] = [&[8], &[7], &[3], &[2], &[4, 5], &[4, 4], &[4, 2, 3], &[2, 2, 2]];
    for case in 0..400 {
        let rng = &mut SplitMix64(case);
        let links: Vec<(u32, u64, u64)> = sizes[rng.below(sizes.len())]
            .iter()
            .map(|&size| (size, [RATE, RATE, 188_000_000_000][rng.below(3)], [1, 10_000, LATENCY][rng.below(3)]))
            .collect();
        let fabric = torus(&links);
        let rule = if rng.below(2) == 0 { DeadlockRule::Bubble } else { DeadlockRule::Dateline };
        let (near, buffer) = (rng.below(3) == 0, [Some(2), Some(2), Some(3), Some(9), None][rng.below(5)]);
        let count = 1 + rng.below(120);
        let plays: Vec<Play> = (0..count).map(|_| random_play(rng, &fabric, near)).collect();
        for turns in if near { vec![true, false] } else { vec![true] } {
            let net = |trains| by_precedence(&fabric, rule, buffer, (trains, turns));
            let (apart, together) = (play(net(false), &fabric, &plays), play(net(true), &fabric, &plays));
            let (apart, together) = (apart.finished(), together.finished());
            assert_eq!(physics(&apart), physics(&together), "{case} {turns} {rule:?} {buffer:?} {fabric:?}");
            let shuffled = play_shuffled(net(true), &fabric, &plays, case).finished();
            assert_eq!(physics(&apart), physics(&shuffled), "{case} {turns} {rule:?} {buffer:?} {fabric:?}");
        }
    }
}

/// All nodes send half-way round every ring, the same way, which fills the rings with transit.
#[test]
fn full_rings_keep_moving_whoever_goes_first() {
    for sizes in [&[8][..], &[7], &[4, 5], &[8, 8], &[3, 4, 4]] {
        let fabric = torus(&sizes.iter().map(|&size| (size, RATE, LATENCY / 2)).collect::<Vec<_>>());
        let far = |src: u32| {
            (0..sizes.len()).fold(NodeId(src), |to, dim| {
                let size = sizes[dim];
                fabric.with_coordinate(to, dim, (fabric.coordinate(NodeId(src), dim) + size / 2) % size)
            })
        };
        let rng = &mut SplitMix64(3);
        let mut plays = Vec::new();
        for src in 0..fabric.nodes() {
            for _ in 0..24 {
                plays.push(with(below(rng, 8) as u8, Play::whole(src, Route::To(far(src)), 8 * P)));
            }
        }
        for (rule, buffer) in [(DeadlockRule::Bubble, 2), (DeadlockRule::Bubble, 3), (DeadlockRule::Dateline, 2)] {
            let net = |trains| by_precedence(&fabric, rule, Some(buffer), (trains, true));
            let (apart, together) = (play(net(false), &fabric, &plays), play(net(true), &fabric, &plays));
            assert_eq!(physics(&apart.finished()), physics(&together.finished()));
        }
    }
}

#[test]
fn fabrics_of_any_shape_keep_moving_with_packets_and_with_flows() {
    for case in 0..150 {
        let rng = &mut SplitMix64(case);
        let fabric = any_fabric(rng);
        let plays: Vec<Play> = (0..60).map(|_| random_play(rng, &*fabric, false)).collect();
        for rule in [DeadlockRule::Bubble, DeadlockRule::Dateline] {
            let net = || by_precedence(&fabric, rule, Some(2), (true, true));
            let got = play(net(), &*fabric, &plays).finished();
            let shuffled = play_shuffled(net(), &*fabric, &plays, case).finished();
            assert_eq!(physics(&got), physics(&shuffled), "{case}");
        }
        let got = play(flows(&fabric), &*fabric, &plays).finished();
        let shuffled = play_shuffled(flows(&fabric), &*fabric, &plays, case).finished();
        assert_eq!(physics(&got), physics(&shuffled), "{case}");
    }
}

/// A sender that asks for room gets it when the link is its own again, and does not ask all the time meanwhile.
#[test]
fn a_sender_that_stands_still_is_told_when_it_goes_on() {
    let fabric = star(4, RATE, LATENCY);
    let [low, high] = on_one_link(false).map(|play| Play { route: Route::To(NodeId(3)), ..play });
    let fed = Play { supply: Supply::WhenRoom { capacity: Bytes(4 * P) }, len: P, ..low };
    let mut plays = vec![with(7, Play { len: 1_000_000 * P, ..high })];
    plays.extend((0..10).map(|_| with(0, fed)));
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    let end = |packets: u64| Ps(packets * PACKET + 2 * LATENCY);
    assert_eq!(outcome.arrivals[0], end(1_000_000));
    assert_eq!(outcome.arrivals[1..].iter().max(), Some(&end(1_000_010)));
    assert!(outcome.events < 200, "{} events", outcome.events);
}

/// What the division among seventeen leaves over would take years for a packet: its sender asks again earlier.
#[test]
fn a_sender_that_hardly_moves_is_told_when_it_goes_on() {
    let fabric = star(4, RATE, LATENCY);
    let [low, high] = on_one_link(false).map(|play| Play { route: Route::To(NodeId(3)), ..play });
    let mut plays: Vec<Play> = (0..17).map(|i| Play { queue: 100 + i, ..with(7, high) }).collect();
    let fed = Play { supply: Supply::WhenRoom { capacity: Bytes(4 * P) }, len: P, ..low };
    plays.push(with(0, Play { len: 10 * P, supply: Supply::AtOnce, ..low }));
    plays.extend((0..10).map(|_| with(0, Play { at: Ps(50 * PACKET), ..fed })));
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    let end = 17_020 * PACKET + 2 * LATENCY;
    assert!(outcome.arrivals.iter().all(|at| at.0 <= end + 20), "{:?}", outcome.arrivals);
    assert!(outcome.events < 300, "{} events", outcome.events);
}

/// Where all are of one precedence, it is as if there were none, but for what is decided later.
#[test]
fn one_precedence_takes_the_time_of_none() {
    for case in 0..100 {
        let rng = &mut SplitMix64(case);
        let fabric = torus(&[(5, RATE, LATENCY), (3, RATE, LATENCY)]);
        let mut plays: Vec<Play> = (0..60).map(|_| random_play(rng, &fabric, false)).collect();
        let plain: Vec<Play> =
            plays.iter().map(|&play| Play { queue: 0, class: TrafficClass::default(), ..play }).collect();
        let class = below(rng, 8) as u8;
        plays.iter_mut().for_each(|play| *play = Play { queue: 0, ..with(class, *play) });
        let run = |plays: &[Play]| play(flows(&fabric), &fabric, plays).finished().arrivals;
        assert_eq!(run(&plays), run(&plain));
        let near: Vec<Play> =
            plays.iter().map(|&play| Play { route: Route::Port(PortId(case as u16 % 4)), ..play }).collect();
        let turns = by_precedence(&fabric, DeadlockRule::Bubble, None, (true, false));
        let got = play(turns, &fabric, &near).finished();
        let plain = play(one_hop(&fabric, DeadlockRule::Bubble, None, true), &fabric, &near).finished();
        assert_eq!(got.arrivals, plain.arrivals, "{case}");
    }
}
