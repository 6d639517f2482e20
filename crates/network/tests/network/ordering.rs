//! Events of equal time and key commute, and nodes that are alike stay alike.
//!
//! The premise is that links have a latency: without one, what a node does reaches its neighbour in
//! the same instant, and then the order of events is part of the model.

use crate::support::{P, Play, Supply, below, flows, packets, play, play_shuffled, torus};
use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, NodeId, PortId, Ps};
use syncline_network::{DeadlockRule, Delivery, Route};
use syncline_topology::{Fabric, Product};

/// Every node sends the same: out of each port, and to the node at each distance.
fn symmetric(fabric: &Product, delivery: Delivery) -> Vec<Play> {
    let mut plays = Vec::new();
    for src in 0..fabric.nodes() {
        for port in 0..fabric.ports(NodeId(0)) {
            let supply = Supply::WhenRoom { capacity: Bytes(2 * P) };
            let hold = Ps(1000);
            plays.push(Play { delivery, supply, hold, ..Play::whole(src, Route::Port(PortId(port)), 20 * P) });
        }
        for distance in 0..fabric.nodes() {
            let dst = (0..fabric.dims().len()).fold(NodeId(src), |to, dim| {
                let size = fabric.dims()[dim].size;
                let at = fabric.coordinate(NodeId(src), dim) + fabric.coordinate(NodeId(distance), dim);
                fabric.with_coordinate(to, dim, at % size)
            });
            plays.push(Play { delivery, hold: Ps(1000), ..Play::whole(src, Route::To(dst), 5 * P + 1) });
        }
    }
    plays
}

#[test]
fn nodes_that_are_alike_stay_alike() {
    let fabric = torus(&[(4, 188_000_000_000, 72_289), (3, 23_500_000_000, 401_606)]);
    for delivery in [Delivery::Whole, Delivery::Stored, Delivery::Stream] {
        let plays = symmetric(&fabric, delivery);
        let per_node = plays.len() / fabric.nodes() as usize;
        for buffer in [Some(2), Some(5), None] {
            for trains in [false, true] {
                let net = packets(&fabric, DeadlockRule::Bubble, buffer, trains);
                let arrivals = play(net, &fabric, &plays).finished().arrivals;
                for node in arrivals.chunks(per_node) {
                    assert_eq!(node, &arrivals[..per_node], "{delivery:?} {buffer:?} {trains}");
                }
            }
        }
        let arrivals = play(flows(&fabric), &fabric, &plays).finished().arrivals;
        assert!(arrivals.chunks(per_node).all(|node| node == &arrivals[..per_node]), "{delivery:?}, flows");
    }
}

#[test]
fn shuffled_ties_change_nothing() {
    let fabric = torus(&[(4, 25_600_000_000, 50_000), (4, 25_600_000_000, 50_000)]);
    let rng = &mut SplitMix64(3);
    let random: Vec<Play> = (0..400)
        .map(|_| {
            let (src, dst) = (below(rng, 16) as u32, below(rng, 16) as u32);
            Play {
                at: Ps(below(rng, 4) * 10_000),
                ..Play::stream(src, Route::To(NodeId(dst)), below(rng, 9) * P, Ps(10_000))
            }
        })
        .collect();
    for plays in [symmetric(&fabric, Delivery::Whole), symmetric(&fabric, Delivery::Stream), random] {
        let expected = play(flows(&fabric), &fabric, &plays).finished();
        for seed in 0..20 {
            let shuffled = play_shuffled(flows(&fabric), &fabric, &plays, seed).finished();
            assert_eq!(shuffled.arrivals, expected.arrivals, "seed {seed}, flows");
            assert_eq!(shuffled.reports, expected.reports, "seed {seed}, flows");
            assert_eq!(shuffled.total_busy, expected.total_busy, "seed {seed}, flows");
        }
        for (rule, buffer) in
            [(DeadlockRule::Bubble, Some(2)), (DeadlockRule::Dateline, Some(4)), (DeadlockRule::Bubble, None)]
        {
            for trains in [false, true] {
                let net = || packets(&fabric, rule, buffer, trains);
                let expected = play(net(), &fabric, &plays).finished().arrivals;
                for seed in 0..5 {
                    let shuffled = play_shuffled(net(), &fabric, &plays, seed).finished().arrivals;
                    assert_eq!(shuffled, expected, "seed {seed}, {rule:?} {buffer:?} {trains}");
                }
            }
        }
    }
}
