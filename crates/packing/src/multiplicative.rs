//! Packing by multiplicative weights (Blink, MLSys 2020, section 3.2; Chekuri and Quanrud, SODA 2017): again and again the
//! arborescence that is cheapest at present takes as much as its smallest arc has, and what its arcs cost rises with their
//! use. Scaled down to what the arcs carry, the trees are a packing whose rate approaches the best one. No packing has a larger
//! rate than what all capacities cost over what the cheapest tree costs; the procedure ends when it is that near to it.

use crate::cheapest::arborescence;
use crate::network::Network;

/// Trees with weights; each arc carries its capacity at most, up to rounding.
#[derive(Clone, Debug, PartialEq)]
pub struct Packing {
    /// Arcs of each tree, in ascending order, and its weight in the unit of the network.
    pub trees: Vec<(Vec<u32>, f64)>,
    /// Sum of the weights.
    pub rate: f64,
    /// Arborescences that were looked for.
    pub rounds: u32,
}

/// Rounds for each arc after which prices are made to rise more slowly.
const ROUNDS_PER_ARC: u32 = 400;
/// The price at which all are divided by it.
const LARGE: f64 = 1e100;
/// The slowest rise of prices that is tried, as a share of `epsilon`.
const SLOWEST: f64 = 1.0 / 64.0;

/// A packing of trees from `root` within a share `epsilon` of the best rate; none of a network in which the root does not reach
/// every node.
pub fn packing(network: &Network, root: u32, epsilon: f64) -> Packing {
    let (mut step, mut rounds) = (epsilon, 0);
    loop {
        let (packing, proved) = with_step(network, root, epsilon, step);
        rounds += packing.rounds;
        step /= 2.0;
        if proved || step < epsilon * SLOWEST {
            return Packing { rounds, ..packing };
        }
    }
}

/// The packing with prices that rise so much, and whether it is as near to the best as is asked for.
fn with_step(network: &Network, root: u32, epsilon: f64, step: f64) -> (Packing, bool) {
    let capacity: Vec<f64> = network.arcs.iter().map(|arc| arc.capacity as f64).collect();
    let mut cost: Vec<f64> = capacity.iter().map(|c| 1.0 / c).collect();
    let mut load = vec![0.0f64; capacity.len()];
    let mut trees: Vec<(Vec<u32>, f64)> = Vec::new();
    let (mut sum, mut rounds, mut rate, mut bound) = (0.0, 0, 0.0, f64::INFINITY);
    while rate < bound * (1.0 - epsilon) && rounds < ROUNDS_PER_ARC * capacity.len() as u32 {
        let Some(mut arcs) = arborescence(network, root, &cost, |_| true) else { break };
        if arcs.is_empty() {
            break;
        }
        rounds += 1;
        arcs.sort_unstable();
        let all: f64 = cost.iter().zip(&capacity).map(|(cost, c)| cost * c).sum();
        bound = bound.min(all / arcs.iter().map(|&arc| cost[arc as usize]).sum::<f64>());
        let weight = arcs.iter().map(|&arc| capacity[arc as usize]).fold(f64::INFINITY, f64::min);
        for &arc in &arcs {
            let arc = arc as usize;
            load[arc] += weight;
            cost[arc] *= 1.0 + step * weight / capacity[arc];
        }
        sum += weight;
        match trees.binary_search_by(|(known, _)| known.cmp(&arcs)) {
            Ok(at) => trees[at].1 += weight,
            Err(at) => trees.insert(at, (arcs, weight)),
        }
        let fullest = load.iter().zip(&capacity).map(|(l, c)| l / c).fold(0.0, f64::max);
        rate = sum / fullest;
        if cost.iter().copied().fold(0.0, f64::max) > LARGE {
            // What has become negligible must still be able to rise.
            cost.iter_mut().for_each(|c| *c = (*c / LARGE).max(1.0 / LARGE / LARGE));
        }
    }
    let scale = if sum > 0.0 { rate / sum } else { 0.0 };
    for tree in &mut trees {
        tree.1 *= scale;
    }
    (Packing { trees, rate, rounds }, rate >= bound * (1.0 - epsilon))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate;
    use crate::testing::{dgx1, networks};
    use proptest::prelude::*;

    #[test]
    fn a_dgx1_gets_many_trees() {
        let network = dgx1(2);
        let most = (0..8).map(|root| packing(&network, root, 0.02)).max_by_key(|found| found.trees.len()).unwrap();
        assert!(most.rate >= 6.0 * 0.98);
        assert!((30..=400).contains(&most.trees.len()), "{} trees", most.trees.len());
    }

    proptest! {
        #[test]
        fn near_the_best_rate_and_within_the_capacities(network in networks(6, 5)) {
            let best = rate::from_root(&network, 0).unwrap().rate.num;
            let found = packing(&network, 0, 0.1);
            prop_assert!(found.rate >= best as f64 * 0.9, "{} of {best}", found.rate);
            for (number, arc) in (0u32..).zip(&network.arcs) {
                let load: f64 = found.trees.iter().filter(|(arcs, _)| arcs.contains(&number)).map(|(_, w)| w).sum();
                prop_assert!(load <= arc.capacity as f64 * (1.0 + 1e-9));
            }
        }
    }
}
