//! Saturated rings finish under both rules, and lock up without one.

use crate::support::{Outcome, P, Play, any_fabric, below, one_hop, packets, play, torus};
use syncline_core::queue::SplitMix64;
use syncline_core::{NodeId, Ps};
use syncline_network::{DeadlockRule, Route};
use syncline_topology::{Fabric, Product};

const LINK: (u64, u64) = (25_600_000_000, 50_000);

fn product(sizes: &[u32]) -> Product {
    torus(&sizes.iter().map(|&size| (size, LINK.0, LINK.1)).collect::<Vec<_>>())
}

/// All nodes send half-way round every ring, the same way, which fills the rings with transit.
fn tornado(fabric: &Product, messages: usize) -> Vec<Play> {
    let far = |src: NodeId| {
        (0..fabric.dims().len()).fold(src, |to, dim| {
            let size = fabric.dims()[dim].size;
            fabric.with_coordinate(to, dim, (fabric.coordinate(src, dim) + size / 2) % size)
        })
    };
    (0..fabric.nodes())
        .flat_map(|src| std::iter::repeat_n(Play::whole(src, Route::To(far(NodeId(src))), 8 * P), messages))
        .collect()
}

/// Every node sends to random others.
fn uniform(fabric: &dyn Fabric, messages: usize) -> Vec<Play> {
    let rng = &mut SplitMix64(5);
    (0..fabric.npus() as usize * messages)
        .map(|i| {
            let dst = NodeId(below(rng, u64::from(fabric.npus())) as u32);
            Play::stream((i / messages) as u32, Route::To(dst), 8 * P, Ps(below(rng, 3) * 20_000))
        })
        .collect()
}

fn run(fabric: &Product, plays: &[Play], rule: DeadlockRule, buffer: u32, trains: bool) -> Outcome {
    play(packets(fabric, rule, Some(buffer), trains), fabric, plays)
}

#[test]
fn rules_keep_saturated_tori_moving() {
    for sizes in [&[8][..], &[7], &[3], &[2], &[4, 5], &[8, 8], &[4, 2, 3], &[3, 4, 4]] {
        let fabric = product(sizes);
        for plays in [tornado(&fabric, 12), uniform(&fabric, 24)] {
            for (rule, buffer) in [
                (DeadlockRule::Bubble, 2),
                (DeadlockRule::Bubble, 3),
                (DeadlockRule::Dateline, 2),
                (DeadlockRule::Dateline, 5),
            ] {
                run(&fabric, &plays, rule, buffer, false).finished();
                run(&fabric, &plays, rule, buffer, true).finished();
            }
        }
    }
}

/// Switches, fully connected groups and graphs whose NPUs forward need no rule beyond that of rings.
#[test]
fn saturated_fabrics_of_any_shape_keep_moving() {
    let rng = &mut SplitMix64(11);
    for _ in 0..60 {
        let fabric = any_fabric(rng);
        let plays = uniform(&*fabric, 24);
        for (rule, buffer) in [(DeadlockRule::Bubble, 2), (DeadlockRule::Dateline, 2)] {
            play(packets(&fabric, rule, Some(buffer), true), &*fabric, &plays).finished();
        }
    }
}

#[test]
fn without_a_rule_rings_lock_up() {
    for sizes in [&[8][..], &[7], &[8, 8], &[3, 5, 6]] {
        let fabric = product(sizes);
        for trains in [false, true] {
            let outcome = run(&fabric, &tornado(&fabric, 12), DeadlockRule::None, 2, trains);
            assert!(!outcome.books.are_settled(), "{sizes:?} finished");
            assert!(outcome.arrivals.contains(&Ps::MAX));
            assert!(outcome.waits.iter().any(|w| w.what.contains("a free slot in the input buffer dim 0 ")));
            assert!(outcome.waits.iter().any(|w| w.who.contains("of a message of 2048 B from NPU ")));
        }
    }
}

#[test]
fn without_a_rule_random_traffic_locks_up_too() {
    let fabric = product(&[8]);
    // If it does not give way to transit.
    let outcome = play(one_hop(&fabric, DeadlockRule::None, Some(2), false), &fabric, &uniform(&fabric, 200));
    assert!(!outcome.books.are_settled() && !outcome.waits.is_empty());
}

#[test]
fn waits_are_in_words() {
    let fabric = product(&[8]);
    let outcome = run(&fabric, &tornado(&fabric, 12), DeadlockRule::None, 2, true);
    let words: Vec<String> = outcome.waits.iter().map(|w| format!("{} waits for {}", w.who, w.what)).collect();
    let expected = "1 packet(s) of a message of 2048 B from NPU 7 (7) to NPU 3 (3), \
                    in the input buffer dim 0 down of NPU 0 (0) \
                    waits for a free slot in the input buffer dim 0 down of NPU 1 (1)";
    assert!(words.iter().any(|w| w == expected), "{words:#?}");
}
