//! Trees that are used both ways: data is reduced along their arcs' opposites and comes back along the arcs.
//!
//! Either direction of such a tree takes what either direction of a link has, so the trees share, for each pair of opposite
//! arcs, the capacity of one. How much of it trees take forth and how much back can be chosen. Halves do, if they reach the
//! bound with equal roots or with one root. Otherwise what enters each node is made as small as the bound lets it be, node by node; a flow then
//! divides each link so that this enters (Frank 1980). Such a choice exists for every rate up to the bound
//! ([`rate::both_ways`]), and `exact` finds the trees.

use crate::exact;
use crate::flow::{Flow, UNLIMITED};
use crate::network::{Arc, Network, Tree};
use crate::rate;
use crate::ratio::{Ratio, gcd};
use std::collections::BTreeMap;
use syncline_core::Refusal;

/// Trees that reach the bound, by arcs of the network; their weights are multiples of 1 / `factor` of its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BothWays {
    /// What the weights add up to, over `factor`.
    pub rate: Ratio,
    /// See above.
    pub factor: u64,
    /// Trees along which data comes back from the root.
    pub trees: Vec<Tree>,
    /// Per arc of the network, its opposite; none where trees cannot use it.
    pub opposite: Vec<Option<u32>>,
}

/// Of each arc, the one that leads the other way over the same switches; of parallel arcs the n-th belongs to the n-th.
pub fn opposites(network: &Network) -> Vec<Option<u32>> {
    let mut numbers: BTreeMap<(u32, u32, Vec<u32>), Vec<u32>> = BTreeMap::new();
    for (number, arc) in (0u32..).zip(&network.arcs) {
        numbers.entry((arc.from, arc.to, arc.via.clone())).or_default().push(number);
    }
    let mut opposite = vec![None; network.arcs.len()];
    for ((from, to, via), forth) in &numbers {
        let back: Vec<u32> = via.iter().rev().copied().collect();
        if let Some(mates) = numbers.get(&(*to, *from, back)) {
            for (&a, &b) in forth.iter().zip(mates) {
                opposite[a as usize] = Some(b);
            }
        }
    }
    opposite
}

/// Whether capacities between two nodes are equal both ways.
pub fn is_even(network: &Network) -> bool {
    let mut beyond: BTreeMap<(u32, u32), i128> = BTreeMap::new();
    for arc in &network.arcs {
        let sign = if arc.from < arc.to { 1 } else { -1 };
        *beyond.entry((arc.from.min(arc.to), arc.from.max(arc.to))).or_default() += sign * i128::from(arc.capacity);
    }
    beyond.values().all(|&more| more == 0)
}

/// Trees that take half of what each arc has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halves {
    /// The network in half the unit, with an opposite for each arc.
    pub network: Network,
    /// Trees along which data comes back from its roots.
    pub trees: Vec<Tree>,
    /// Per arc of this network, its opposite.
    pub opposite: Vec<Option<u32>>,
}

/// Trees from all roots at once, which the network has, over halves of its capacities. It was even before its switches were
/// removed ([`is_even`]): what comes back along an arc has the other half of the links the other way, whether or not an arc
/// leads over these.
pub fn in_halves(network: &Network, roots: &[(u32, u64)]) -> Halves {
    let trees = exact::trees(network, roots);
    assert!(trees.is_some(), "switches were removed so that these trees exist");
    // The same numbers are halves in half the unit.
    let (halved, opposite) = with_opposites(network);
    Halves { network: halved, trees: trees.unwrap_or_default(), opposite }
}

/// A network with an arc more the other way for each, and what is the opposite of each.
pub fn with_opposites(network: &Network) -> (Network, Vec<Option<u32>>) {
    let mut all = network.clone();
    all.arcs.extend(network.reversed().arcs);
    let arcs = network.arcs.len() as u32;
    let opposite = (0..2 * arcs).map(|arc| Some(if arc < arcs { arc + arcs } else { arc - arcs })).collect();
    (all, opposite)
}

/// Trees of the best total weight that are used both ways, on a network without switches; none with a single node.
///
/// # Errors
/// A [`Refusal`] if capacities are too fine to be counted.
pub fn trees(network: &Network) -> Result<Option<BothWays>, Refusal> {
    let opposite = opposites(network);
    // Trees have of two opposite arcs what the smaller one has.
    let usable = |number: usize| {
        opposite[number].map_or(0, |mate| network.arcs[number].capacity.min(network.arcs[mate as usize].capacity))
    };
    let arcs = network.arcs.iter().enumerate();
    let even = Network {
        arcs: arcs.map(|(number, arc)| Arc { capacity: usable(number), ..arc.clone() }).collect(),
        ..network.clone()
    };
    let Some(bound) = rate::both_ways(&even)? else { return Ok(None) };
    let rate = bound.rate;
    if rate.num == 0 {
        return Ok(Some(BothWays { rate, factor: 1, trees: Vec::new(), opposite }));
    }
    let nodes = u64::from(network.nodes);
    // In this unit halves of capacities and equal parts of the rate are whole.
    let factor = 2 * rate.den * nodes / gcd(rate.num, nodes);
    let fine = even.times(factor)?;
    let total = rate.num * (factor / rate.den);
    let halves = Network {
        arcs: fine.arcs.iter().map(|arc| Arc { capacity: arc.capacity / 2, ..arc.clone() }).collect(),
        ..fine.clone()
    };
    let equal: Vec<(u32, u64)> = (0..network.nodes).map(|root| (root, total / nodes)).collect();
    let reached = rate::from_all(&halves)?.is_some_and(|limit| limit.rate >= Ratio::new(total, nodes));
    let (oriented, roots) = if reached {
        (halves, equal)
    } else {
        let one = (0..network.nodes).find(|&root| rate::from_root(&halves, root).is_some_and(|l| l.rate.num >= total));
        match one {
            Some(root) => (halves, vec![(root, total)]),
            None => (divided(&fine, &opposite, total, 0), vec![(0, total)]),
        }
    };
    let trees = exact::trees(&oriented, &roots);
    assert!(trees.is_some(), "the capacities were divided so that these trees exist");
    Ok(Some(BothWays { rate, factor, trees: trees.unwrap_or_default(), opposite }))
}

/// The network with the capacity of each pair of opposite arcs divided between them, so that trees from `root` reach `total`.
fn divided(network: &Network, opposite: &[Option<u32>], total: u64, root: u32) -> Network {
    let entering = least_entering(network, opposite, total);
    let nodes = network.nodes;
    let pairs: Vec<(u32, u32)> =
        (0u32..).zip(opposite).filter_map(|(a, b)| b.filter(|&b| a < b).map(|b| (a, b))).collect();
    let (source, sink) = (nodes + pairs.len() as u32, nodes + pairs.len() as u32 + 1);
    let mut flow = Flow::new(sink as usize + 1);
    let mut forth = Vec::new();
    for (&(a, b), node) in pairs.iter().zip(nodes..) {
        let (ab, ba) = (&network.arcs[a as usize], &network.arcs[b as usize]);
        flow.edge(source, node, ab.capacity);
        forth.push((flow.edge(node, ab.to, ab.capacity), flow.edge(node, ba.to, ab.capacity)));
    }
    for node in 0..nodes {
        // What enters the root beyond the weight of the trees that begin there.
        let less = if node == root { total } else { 0 };
        flow.edge(node, sink, entering[node as usize] - less);
    }
    flow.most(source, sink, u64::MAX);
    let mut divided = network.clone();
    for arc in &mut divided.arcs {
        arc.capacity = 0;
    }
    for (&(a, b), (ab, ba)) in pairs.iter().zip(forth) {
        divided.arcs[a as usize].capacity = flow.along(ab);
        divided.arcs[b as usize].capacity = flow.along(ba);
    }
    divided
}

/// Of each node, what has to enter it, trees that begin there included: together as little as possible, so that the capacity of
/// links within any set of nodes, and `total`, do not exceed what enters its nodes.
fn least_entering(network: &Network, opposite: &[Option<u32>], total: u64) -> Vec<u64> {
    let nodes = network.nodes;
    let (source, sink) = (nodes, nodes + 1);
    let mut flow = Flow::new(nodes as usize + 2);
    for (a, mate) in (0u32..).zip(opposite) {
        if mate.is_some_and(|mate| a < mate) {
            let arc = &network.arcs[a as usize];
            flow.edge_both_ways(arc.from, arc.to, arc.capacity, arc.capacity);
        }
    }
    // Twice what enters the nodes of a set, less twice the links within, is what leads out of it and, for each node, this.
    let degree = network.into_nodes();
    let mut entering: Vec<u64> = degree.iter().map(|d| d + total).collect();
    let beyond = |entering: u64, degree: u64| (2 * entering) as i64 - degree as i64;
    let edges: Vec<(u32, u32)> =
        (0..nodes).map(|node| (flow.edge(source, node, 0), flow.edge(node, sink, 0))).collect();
    let set = |flow: &mut Flow, node: usize, value: i64| {
        flow.set(edges[node].0, value.min(0).unsigned_abs());
        flow.set(edges[node].1, value.max(0).unsigned_abs());
    };
    for node in 0..nodes as usize {
        set(&mut flow, node, beyond(entering[node], degree[node]));
    }
    for node in 0..nodes as usize {
        let negative: i64 = (0..nodes as usize).map(|n| beyond(entering[n], degree[n]).min(0)).sum();
        // The set contains the node: it is on the source's side. A negative value counts in any case, a positive one is cut.
        flow.set(edges[node].0, UNLIMITED);
        let least = flow.most(source, sink, u64::MAX) as i64 + negative - (2 * total) as i64;
        entering[node] -= least.max(0).unsigned_abs() / 2;
        set(&mut flow, node, beyond(entering[node], degree[node]));
    }
    entering
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{both, dgx1};
    use proptest::prelude::*;

    /// Checks that trees span, and that forth and back together fit each arc.
    fn check(network: &Network) {
        let found = trees(network).unwrap().unwrap();
        let mut left: Vec<u64> = network.arcs.iter().map(|arc| arc.capacity * found.factor).collect();
        let mut sum = 0;
        for tree in &found.trees {
            sum += tree.weight;
            let mut has = vec![false; network.nodes as usize];
            has[tree.root as usize] = true;
            for &arc in &tree.arcs {
                let (from, to) = (network.arcs[arc as usize].from as usize, network.arcs[arc as usize].to as usize);
                assert!(has[from] && !has[to]);
                has[to] = true;
                for used in [arc, found.opposite[arc as usize].unwrap()] {
                    left[used as usize] =
                        left[used as usize].checked_sub(tree.weight).expect("an arc carries too much");
                }
            }
            assert!(!has.contains(&false));
        }
        assert_eq!(Ratio::new(sum, found.factor), found.rate);
    }

    #[test]
    fn trees_of_a_dgx1_reach_the_bound() {
        for doubled in [1, 2] {
            let network = dgx1(doubled);
            check(&network);
            assert_eq!(trees(&network).unwrap().unwrap().rate, rate::both_ways(&network).unwrap().unwrap().rate);
        }
    }

    #[test]
    fn links_that_have_to_be_divided_unevenly() {
        // A path: all of each link leads away from the root.
        let path = Network::new(3, 3, both(&[(0, 1, 3), (1, 2, 2)])).unwrap();
        check(&path);
        assert_eq!(trees(&path).unwrap().unwrap().rate, Ratio::whole(2));
    }

    proptest! {
        /// Of unequal capacities, each pair of arcs has what the smaller one has.
        #[test]
        fn what_is_unequal_is_the_smaller(network in crate::testing::networks(6, 4)) {
            check(&network);
        }

        #[test]
        fn the_bound_is_reached(matrix in prop::collection::vec(0u64..6, 21)) {
            let pairs = (0u32..7).flat_map(|a| (0..a).map(move |b| (a, b)));
            let links: Vec<_> = pairs.zip(matrix).map(|((a, b), c)| (a, b, c)).collect();
            let network = Network::new(7, 7, both(&links)).unwrap();
            check(&network);
            prop_assert_eq!(trees(&network).unwrap().unwrap().rate, rate::both_ways(&network).unwrap().unwrap().rate);
        }
    }
}
