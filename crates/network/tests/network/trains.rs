//! Trains give the same times as packets one by one, on anything whose links have a latency.
//! (Without one, an empty packet is at the next node in the same instant, among events of equal time.)

use crate::support::{Outcome, P, Play, Supply, below, one_hop, packets, play, play_shuffled, torus};
use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, NodeId, PortId, Ps};
use syncline_network::{DeadlockRule, Delivery, Route, TrafficClass};
use syncline_topology::{Fabric, Product};

/// A small torus with links of all kinds, often of equal ones.
fn random_torus(rng: &mut SplitMix64) -> Product {
    let rates = [25_600_000_000, 25_600_000_000, 188_000_000_000, 23_500_000_000, 2_560_000_000];
    let latencies = [1, 100, 10_000, 72_289, 401_606];
    let dims = 1 + rng.below(3);
    let sizes = [8, 5, 4];
    let dims: Vec<_> = (0..dims)
        .map(|_| {
            let size = 1 + below(rng, sizes[dims - 1]) as u32;
            (size, rates[rng.below(rates.len())], latencies[rng.below(latencies.len())])
        })
        .collect();
    torus(&dims)
}

fn random_play(rng: &mut SplitMix64, fabric: &Product, one_hop: bool) -> Play {
    let route = if one_hop && fabric.ports(NodeId(0)) > 0 {
        Route::Port(PortId(below(rng, u64::from(fabric.ports(NodeId(0)))) as u16))
    } else {
        Route::To(NodeId(below(rng, u64::from(fabric.nodes())) as u32))
    };
    let len = match rng.below(8) {
        0 => 0,
        1 => below(rng, P) + 1,
        2 => P * (1 + below(rng, 4)),
        3 => below(rng, 60 * P),
        _ => P * (1 + below(rng, 12)) + below(rng, 2) * below(rng, P),
    };
    let supply = match rng.below(4) {
        0 => Supply::Every(Ps(below(rng, 4) * 5_000)),
        1 => Supply::WhenRoom { capacity: Bytes(below(rng, 4 * P)) },
        _ => Supply::AtOnce,
    };
    Play {
        at: Ps(below(rng, 5) * below(rng, 2) * 10_000 + below(rng, 2) * below(rng, 100_000)),
        src: NodeId(below(rng, u64::from(fabric.nodes())) as u32),
        route,
        queue: rng.below(2) as u16,
        len,
        class: TrafficClass::of_buffers(rng.below(2) as u8),
        delivery: [Delivery::Whole, Delivery::Stored, Delivery::Stream][rng.below(3)],
        supply,
        hold: Ps([0, 1, 5_000, 33_333, 100_000][rng.below(5)]),
    }
}

fn random_buffer(rng: &mut SplitMix64) -> Option<u32> {
    [Some(2), Some(3), Some(4), Some(9), Some(30), None][rng.below(6)]
}

/// What must not depend on how it is computed.
fn physics(outcome: &Outcome) -> (&[Ps], u64, u128, u64) {
    (&outcome.arrivals, outcome.total_bytes, outcome.total_busy, outcome.packet_hops)
}

/// A number from the environment: `SEED=32755 CASES=1 cargo test ...` repeats one case.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

#[test]
fn random_traffic_takes_the_same_time() {
    let seed = setting("SEED", 1);
    for case in seed..seed + setting("CASES", 500) {
        let rng = &mut SplitMix64(case);
        let fabric = random_torus(rng);
        let rule = if rng.below(2) == 0 { DeadlockRule::Bubble } else { DeadlockRule::Dateline };
        let (buffer, near, count) = (random_buffer(rng), rng.below(3) == 0, 1 + rng.below(60));
        let plays: Vec<Play> = (0..count).map(|_| random_play(rng, &fabric, near)).collect();
        let run = |trains| play(packets(&fabric, rule, buffer, trains), &fabric, &plays).finished();
        let (reference, mut fast) = (run(false), run(true));
        assert_eq!(physics(&reference), physics(&fast), "SEED={case}: {rule:?} {buffer:?} {fabric:?}");
        if plays.iter().all(|p| matches!(p.route, Route::Port(_))) {
            let reference = play(one_hop(&fabric, rule, buffer, false), &fabric, &plays).finished();
            fast = play(one_hop(&fabric, rule, buffer, true), &fabric, &plays).finished();
            assert_eq!(physics(&reference), physics(&fast), "SEED={case}, one hop: {rule:?} {buffer:?} {fabric:?}");
        }
        assert!(fast.events <= reference.events, "SEED={case}: trains cost events");
        let shuffled = play_shuffled(packets(&fabric, rule, buffer, true), &fabric, &plays, case);
        assert_eq!(physics(&reference), physics(&shuffled), "SEED={case}, shuffled: {rule:?} {buffer:?} {fabric:?}");
    }
}

/// A message that is stored is heard of earlier than one that is reported as a whole, and takes as long.
#[test]
fn what_is_stored_travels_like_what_is_whole() {
    for case in 0..200 {
        let rng = &mut SplitMix64(case);
        let fabric = random_torus(rng);
        let (buffer, count) = (random_buffer(rng), 1 + rng.below(60));
        let mut plays: Vec<Play> = (0..count).map(|_| random_play(rng, &fabric, false)).collect();
        plays.iter_mut().filter(|p| p.delivery == Delivery::Stored).for_each(|p| p.delivery = Delivery::Whole);
        let run =
            |plays: &[Play]| play(packets(&fabric, DeadlockRule::Bubble, buffer, true), &fabric, plays).finished();
        let whole = run(&plays);
        plays.iter_mut().filter(|p| p.delivery == Delivery::Whole).for_each(|p| p.delivery = Delivery::Stored);
        assert_eq!(physics(&run(&plays)), physics(&whole), "{case}");
    }
}

#[test]
fn a_long_message_over_one_hop_is_one_event() {
    let fabric = torus(&[(4, 188_000_000_000, 72_289), (8, 23_500_000_000, 401_606)]);
    for port in [0, 2] {
        let message = Play::whole(0, Route::Port(PortId(port)), 2 << 20);
        let outcome = play(one_hop(&fabric, DeadlockRule::Bubble, None, true), &fabric, &[message]).finished();
        assert_eq!(outcome.events, 2, "its beginning and its arrival");
        assert_eq!(outcome.packet_hops, 8192);
        let reference = play(packets(&fabric, DeadlockRule::Bubble, None, false), &fabric, &[message]).finished();
        assert_eq!(outcome.arrivals, reference.arrivals);
    }
}

#[test]
fn a_stream_is_told_in_one_segment_while_credits_last() {
    let fabric = torus(&[(4, 25_600_000_000, 100_000)]);
    let message = Play::stream(0, Route::Port(PortId(0)), 40 * P + 1, Ps::ZERO);
    let outcome = play(one_hop(&fabric, DeadlockRule::Bubble, None, true), &fabric, &[message]).finished();
    let told: Vec<_> = outcome.segments[0].iter().map(|s| (s.packets, s.len.0, s.t0.0, s.gap.0)).collect();
    assert_eq!(told, [(40, 40 * P, 110_000, 10_000), (1, 1, 500_040, 0)]);
    let two = Play::stream(0, Route::Port(PortId(0)), 2 * P, Ps::ZERO);
    let outcome = play(one_hop(&fabric, DeadlockRule::Bubble, None, true), &fabric, &[two]).finished();
    let told: Vec<_> = outcome.segments[0].iter().map(|s| (s.packets, s.len.0, s.t0.0, s.gap.0)).collect();
    assert_eq!(told, [(2, 2 * P, 110_000, 10_000)], "the second packet comes after the first");
}

#[test]
fn a_train_that_overtakes_lets_the_first_in_again() {
    // On the link from 6 to 5 the local message overtakes packets that lack slots of their channel.
    // As soon as one is free they go first again, in the middle of the local message.
    let fabric = torus(&[(7, 188_000_000_000, 10_000)]);
    let to = |node| Route::To(NodeId(node));
    let plays = [
        Play { at: Ps(57_379), ..Play::whole(6, to(5), 12 * P) },
        Play { at: Ps(17_592), ..Play::stream(0, to(4), 55 * P + 6, Ps(5_000)) },
        Play { at: Ps(39_054), ..Play::whole(5, to(4), 8 * P + 165) },
    ];
    let run = |trains| play(packets(&fabric, DeadlockRule::Dateline, Some(30), trains), &fabric, &plays).finished();
    let (reference, fast) = (run(false), run(true));
    assert_eq!(reference.arrivals, fast.arrivals);
}
