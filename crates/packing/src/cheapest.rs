//! The arborescence of least cost (Chu and Liu 1965; Edmonds 1967): every node takes its cheapest arc; cycles that this makes
//! are contracted, with what the arcs into them cost beyond the arc that they replace.

use crate::network::Network;
use std::ops::Sub;

/// The arcs of the cheapest arborescence from `root` over the arcs that are `allowed`, every one after the one that leads to
/// where it begins; `None` if not every node is reached. The network has no switches. Of equal costs the first arc is taken.
pub fn arborescence(network: &Network, root: u32, cost: &[f64], allowed: impl Fn(usize) -> bool) -> Option<Vec<u32>> {
    let arcs = network.arcs.iter().enumerate().filter(|(number, _)| allowed(*number));
    let arcs: Vec<Arc<f64>> = arcs
        .map(|(number, arc)| Arc { from: arc.from, to: arc.to, cost: cost[number], above: number as u32 })
        .collect();
    let chosen = solve(network.nodes as usize, root, &arcs)?;
    let numbers: Vec<u32> = chosen.into_iter().map(|arc| arcs[arc as usize].above).collect();
    Some(in_order(network, root, &numbers))
}

/// The same of arcs between so many nodes: from, to, cost. Numbers of arcs, in no order.
pub fn of_arcs(nodes: usize, root: u32, arcs: impl Iterator<Item = (u32, u32, i64)>) -> Option<Vec<u32>> {
    let arcs: Vec<Arc<i64>> = (0..).zip(arcs).map(|(above, (from, to, cost))| Arc { from, to, cost, above }).collect();
    solve(nodes, root, &arcs)
}

/// The arcs of a tree, in the order of their distance from the root.
pub fn in_order(network: &Network, root: u32, arcs: &[u32]) -> Vec<u32> {
    let mut leaving: Vec<Vec<u32>> = vec![Vec::new(); network.nodes as usize];
    for &arc in arcs {
        leaving[network.arcs[arc as usize].from as usize].push(arc);
    }
    let (mut order, mut at) = (leaving[root as usize].clone(), 0);
    while at < order.len() {
        let reached = network.arcs[order[at] as usize].to;
        order.extend(&leaving[reached as usize]);
        at += 1;
    }
    order
}

#[derive(Clone, Copy)]
struct Arc<C> {
    from: u32,
    to: u32,
    cost: C,
    /// Its number among the arcs before cycles were contracted.
    above: u32,
}

/// Numbers of the arcs of the cheapest arborescence.
fn solve<C: Copy + PartialOrd + Sub<Output = C>>(nodes: usize, root: u32, arcs: &[Arc<C>]) -> Option<Vec<u32>> {
    let mut best: Vec<Option<u32>> = vec![None; nodes];
    for (number, arc) in (0u32..).zip(arcs) {
        let current = &mut best[arc.to as usize];
        if arc.to != root && current.is_none_or(|b| arc.cost < arcs[b as usize].cost) {
            *current = Some(number);
        }
    }
    best[root as usize] = None;
    if (0..nodes).any(|n| n != root as usize && best[n].is_none()) {
        return None;
    }
    let Some(group) = contracted(root, arcs, &best) else { return Some(best.into_iter().flatten().collect()) };
    let groups = group.iter().max().map_or(0, |m| *m as usize + 1);
    let between = (0u32..).zip(arcs).filter(|(_, arc)| group[arc.from as usize] != group[arc.to as usize]);
    let smaller: Vec<Arc<C>> = between
        .map(|(number, arc)| {
            // What leads to the root is in no tree, whatever it costs.
            let replaced = best[arc.to as usize].map_or(arc.cost, |b| arcs[b as usize].cost);
            let (from, to) = (group[arc.from as usize], group[arc.to as usize]);
            Arc { from, to, cost: arc.cost - replaced, above: number }
        })
        .collect();
    for arc in solve(groups, group[root as usize], &smaller)? {
        let number = smaller[arc as usize].above;
        best[arcs[number as usize].to as usize] = Some(number);
    }
    Some(best.into_iter().flatten().collect())
}

/// The node that each becomes when cycles of the best arcs are contracted; `None` if there are none.
fn contracted<C>(root: u32, arcs: &[Arc<C>], best: &[Option<u32>]) -> Option<Vec<u32>> {
    const UNKNOWN: u32 = u32::MAX;
    let nodes = best.len();
    let (mut group, mut seen_from) = (vec![UNKNOWN; nodes], vec![UNKNOWN; nodes]);
    let (mut groups, mut any) = (0, false);
    for start in 0..nodes as u32 {
        let mut at = start;
        while at != root && seen_from[at as usize] == UNKNOWN {
            seen_from[at as usize] = start;
            let Some(arc) = best[at as usize] else { break };
            at = arcs[arc as usize].from;
        }
        if at != root && seen_from[at as usize] == start && group[at as usize] == UNKNOWN {
            // A new cycle, which `at` is on.
            any = true;
            let first = at;
            loop {
                group[at as usize] = groups;
                let Some(arc) = best[at as usize] else { break };
                at = arcs[arc as usize].from;
                if at == first {
                    break;
                }
            }
            groups += 1;
        }
    }
    if !any {
        return None;
    }
    for of in group.iter_mut().filter(|of| **of == UNKNOWN) {
        *of = groups;
        groups += 1;
    }
    Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::networks;
    use proptest::prelude::*;

    /// The least cost over all choices of an arc into each node that make a tree.
    fn by_trying(network: &Network, root: u32) -> Option<u64> {
        let n = network.nodes;
        let mut least = None;
        let mut choice: Vec<Vec<usize>> = vec![Vec::new()];
        for node in (0..n).filter(|&v| v != root) {
            let into: Vec<usize> = (0..network.arcs.len()).filter(|&a| network.arcs[a].to == node).collect();
            choice = choice.iter().flat_map(|c| into.iter().map(move |&a| [c.clone(), vec![a]].concat())).collect();
        }
        for tree in choice {
            let numbers: Vec<u32> = tree.iter().map(|&a| a as u32).collect();
            if in_order(network, root, &numbers).len() as u32 == n - 1 {
                let cost = tree.iter().map(|&a| network.arcs[a].capacity).sum();
                least = Some(least.map_or(cost, |l: u64| l.min(cost)));
            }
        }
        least
    }

    proptest! {
        /// The cheapest of all trees; here capacities serve as costs.
        #[test]
        fn nothing_is_cheaper(network in networks(5, 8)) {
            let cost: Vec<f64> = network.arcs.iter().map(|arc| arc.capacity as f64).collect();
            for root in 0..network.nodes {
                let found = arborescence(&network, root, &cost, |_| true);
                let sum = found.map(|arcs| arcs.iter().map(|&a| network.arcs[a as usize].capacity).sum::<u64>());
                prop_assert_eq!(sum, by_trying(&network, root));
            }
        }
    }
}
