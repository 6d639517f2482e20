//! One message on an empty network takes what the formula says, on every backend.

use crate::support::{P, Play, any_fabric, flows, packets, play, torus};
use proptest::prelude::*;
use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, NodeId, Ps, Rate};
use syncline_network::{Analytical, DeadlockRule, Delivery, Route};
use syncline_topology::Fabric;

/// Arrival of the last packet under virtual cut-through: every packet follows on the wire as soon as
/// both it and the wire are there.
fn pipelined(fabric: &dyn Fabric, src: NodeId, dst: NodeId, len: u64) -> Ps {
    let mut path = Vec::new();
    fabric.route(src, dst, &mut path);
    let mut ready = vec![Ps::ZERO; len.div_ceil(P).max(1) as usize];
    let mut at = src;
    for port in path {
        let link = fabric.link(at, port);
        let mut free = Ps::ZERO;
        for (i, t) in ready.iter_mut().enumerate() {
            free = free.max(*t) + link.rate.time(Bytes(P.min(len - i as u64 * P)));
            *t = free + link.latency;
        }
        at = fabric.next(at, port).0;
    }
    *ready.last().expect("at least one packet")
}

#[test]
fn equal_links_follow_the_closed_form() {
    // 25.6 GB/s: a packet takes exactly 10 ns, so nothing is rounded.
    let fabric = torus(&[(16, 25_600_000_000, 100_000)]);
    for (hops, n) in [(1, 1), (1, 32), (3, 1), (3, 32), (8, 100)] {
        let whole = Play::whole(0, Route::To(NodeId(hops)), n * P);
        let expected = Ps(n * 10_000 + u64::from(hops - 1) * 10_000 + u64::from(hops) * 100_000);
        let net = packets(&fabric, DeadlockRule::Bubble, None, false);
        assert_eq!(play(net, &fabric, &[whole]).finished().arrivals, [expected]);

        let no_packets = Ps(n * 10_000 + u64::from(hops) * 100_000);
        let net = Analytical::new(fabric.clone(), Ps(1_000_000));
        assert_eq!(play(net, &fabric, &[whole]).finished().arrivals, [no_packets]);
        assert_eq!(play(flows(&fabric), &fabric, &[whole]).finished().arrivals, [no_packets]);
    }
}

proptest! {
    #[test]
    fn packets_follow_the_pipeline_and_the_analytical_model(
        seed: u64,
        (a, b) in any::<(u32, u32)>(),
        len in 0u64..20_000,
        stream in any::<bool>(),
        trains in any::<bool>(),
        dateline in any::<bool>(),
    ) {
        let fabric = any_fabric(&mut SplitMix64(seed));
        let (src, dst) = (NodeId(a % fabric.npus()), NodeId(b % fabric.npus()));
        let mut message = Play::whole(src.0, Route::To(dst), len);
        if stream {
            message.delivery = Delivery::Stream;
        }
        let rule = if dateline { DeadlockRule::Dateline } else { DeadlockRule::Bubble };
        let got = play(packets(&fabric, rule, None, trains), &fabric, &[message]).finished().arrivals[0];
        let mut path = Vec::new();
        fabric.route(src, dst, &mut path);
        let expected = if path.is_empty() { Ps::ZERO } else { pipelined(&*fabric, src, dst, len) };
        prop_assert_eq!(got, expected);

        // The analytical backend leaves out one packet's serialisation per hop, and the rounding.
        let message = Play { delivery: Delivery::Whole, ..message };
        let smooth = play(Analytical::new(fabric.clone(), Ps(1_000_000)), &fabric, &[message]).finished().arrivals[0];
        prop_assert_eq!(play(flows(&fabric), &fabric, &[message]).finished().arrivals[0], smooth);
        let packet = |rate: Rate| rate.time(Bytes(P.min(len))).0;
        let mut at = src;
        let mut store: u64 = 0;
        let mut slowest = 0;
        for &port in &path {
            let one = packet(fabric.link(at, port).rate);
            store += one;
            slowest = slowest.max(one);
            at = fabric.next(at, port).0;
        }
        let (store, rounding) = (store - slowest, len.div_ceil(P) + path.len() as u64);
        prop_assert!(got.0 + rounding >= smooth.0, "{} is sooner than {}", got, smooth);
        prop_assert!(got.0 <= smooth.0 + store + rounding, "{} is later than {} + {}", got, smooth, store);
    }
}
