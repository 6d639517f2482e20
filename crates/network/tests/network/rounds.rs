//! Connections take turns at the outputs of switches.

use crate::support::{Outcome, P, Play, any_fabric, below, play, play_shuffled, star};
use std::sync::Arc;
use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, NodeId, Ps, Rate};
use syncline_network::{DeadlockRule, Packet, PacketConfig, Route};
use syncline_topology::{Fabric, Graph, GraphLink, GraphNode, LinkSpec};

fn in_rounds(fabric: &Arc<dyn Fabric>, trains: bool, buffer: Option<u32>) -> Packet<Arc<dyn Fabric>> {
    let rule = DeadlockRule::Bubble;
    let config = PacketConfig { packet: Bytes(P), buffer, rule, trains, in_rounds: true, ..PacketConfig::DEFAULT };
    Packet::new(fabric.clone(), config).expect("a legal configuration")
}

/// Switches in a line, an NPU at each of them.
fn parking_lot(npus: u32, rate: u64) -> Arc<dyn Fabric> {
    let spec = LinkSpec::new(Rate::new(rate).expect("positive"), Ps(100_000), 0);
    let nodes = (0..2 * npus).map(|n| GraphNode { name: format!("N{n}"), forwards: false }).collect();
    let both = |a, b| {
        let (a, b) = (NodeId(a), NodeId(b));
        [GraphLink { from: a, to: b, spec }, GraphLink { from: b, to: a, spec }]
    };
    let hosts = (0..npus).flat_map(|n| both(n, npus + n));
    let links = hosts.chain((1..npus).flat_map(|n| both(npus + n - 1, npus + n))).collect();
    let participants: Vec<NodeId> = (0..npus).map(NodeId).collect();
    Arc::new(Graph::new(nodes, npus, vec!["link".into()], links, &participants).expect("a connected graph"))
}

#[test]
fn who_is_far_away_gets_as_much_as_who_is_near() {
    // All send to the first one. Where inputs take turns, each switch gives half to its own NPU: the nearest is done
    // early, and the farthest has 1/8 of the rate until then.
    let fabric = parking_lot(5, 25_600_000_000);
    let packets = 2_000;
    let plays: Vec<Play> = (1..5).map(|src| Play::whole(src, Route::To(NodeId(0)), packets * P)).collect();
    let arrivals = |outcome: Outcome| outcome.finished().arrivals;
    let fair = arrivals(play(in_rounds(&fabric, true, None), &fabric, &plays));
    let (first, last) = (fair.iter().min().expect("four"), fair.iter().max().expect("four"));
    let all = 4 * packets * 10_000; // 10 ns a packet
    assert!(first.0 > all * 97 / 100 && last.0 < all + 1_000_000, "{fair:?}");
    let config = PacketConfig { packet: Bytes(P), ..PacketConfig::DEFAULT };
    let net = Packet::new(fabric.clone(), config).expect("a legal configuration");
    let by_input = arrivals(play(net, &fabric, &plays));
    assert!(by_input[0].0 < all * 6 / 10, "{by_input:?}");
}

/// What a connection has not sent while it had nothing does not count: who comes late has half from then on.
#[test]
fn who_comes_late_does_not_catch_up() {
    let fabric: Arc<dyn Fabric> = Arc::new(star(3, 25_600_000_000, 100_000));
    let to_first = Route::To(NodeId(0));
    let late = Play { at: Ps(1_000 * 10_000), ..Play::whole(2, to_first, 1_000 * P) };
    let plays = [Play::whole(1, to_first, 2_000 * P), late];
    let ends = play(in_rounds(&fabric, true, None), &fabric, &plays).finished().arrivals;
    // Each has half of the link from the thousandth packet on, so that both end when 3,000 have gone.
    assert!(ends.iter().all(|end| end.0.abs_diff(3_000 * 10_000) < 100 * 10_000), "{ends:?}");
}

#[test]
fn turns_are_the_same_with_trains_and_in_any_order_of_ties() {
    for case in 0..60 {
        let rng = &mut SplitMix64(case);
        // Small buffers only where routes cannot wait for each other in a circle.
        let (fabric, buffers) = match case % 2 {
            0 => (parking_lot(2 + below(rng, 5) as u32, 25_600_000_000), [Some(4), None]),
            _ => (any_fabric(rng), [Some(4_000), Some(10_000)]),
        };
        let npus = u64::from(fabric.npus());
        let plays: Vec<Play> = (0..60)
            .map(|_| {
                let (src, dst) = (below(rng, npus) as u32, below(rng, npus) as u32);
                let at = Ps(below(rng, 3) * 1_000_000);
                Play { at, ..Play::whole(src, Route::To(NodeId(dst)), below(rng, 40) * P + below(rng, 2) * 17) }
            })
            .collect();
        for buffer in buffers {
            let expected = play(in_rounds(&fabric, false, buffer), &fabric, &plays).finished();
            let fast = play(in_rounds(&fabric, true, buffer), &fabric, &plays).finished();
            assert_eq!((&fast.arrivals, &fast.reports), (&expected.arrivals, &expected.reports), "SEED={case}");
            assert_eq!((fast.total_busy, fast.total_bytes), (expected.total_busy, expected.total_bytes));
            for seed in 0..3 {
                let shuffled = play_shuffled(in_rounds(&fabric, true, buffer), &fabric, &plays, seed).finished();
                assert_eq!(shuffled.arrivals, expected.arrivals, "SEED={case}, {seed}");
            }
        }
    }
}
