//! Trees that reach a rate exactly (Edmonds 1973, by the proof of Lovász 1976, with capacities instead of single arcs).
//!
//! Trees grow arc by arc. What is left of the capacities must always suffice for what trees still have to reach: into every set
//! of nodes there must lead as much as the weight of the trees that have no node in it. So an arc can carry a tree's weight up to
//! the least slack of the sets that it enters and that the tree is in already. One flow finds that. If the arc carries only a
//! part of the weight, the tree is divided: a part takes the arc, the other one looks for another. There always is an arc that
//! carries something, so that the growth never has to go back.

use crate::flow::{Flow, UNLIMITED};
use crate::network::{Network, Tree, joined};

/// Trees under construction.
#[derive(Clone)]
struct Partial {
    root: u32,
    weight: u64,
    arcs: Vec<u32>,
    /// Nodes, in the order in which they were reached.
    reached: Vec<u32>,
    /// Per node, whether it is reached.
    has: Vec<bool>,
    /// Per node, its distance from the root.
    depth: Vec<u32>,
    /// Per arc, whether it can no longer carry anything for this tree: slack never grows.
    dead: Vec<bool>,
}

/// Arcs that carry a part of a tree's weight and are looked at in the hope of one that carries all of it.
const TRIES: usize = 24;

/// Trees that together have, for each of the roots, the weight that is asked for. Where several arcs would do, those next to the
/// root are taken. `None` if the capacities do not suffice; the network must have no switches.
pub fn trees(network: &Network, roots: &[(u32, u64)]) -> Option<Vec<Tree>> {
    let nodes = network.nodes as usize;
    let mut capacity: Vec<u64> = network.arcs.iter().map(|arc| arc.capacity).collect();
    let mut leaving: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    for (number, arc) in (0u32..).zip(&network.arcs) {
        leaving[arc.from as usize].push(number);
    }
    let begun = roots.iter().filter(|(_, weight)| *weight > 0).map(|&(root, weight)| {
        let mut partial = Partial {
            root,
            weight,
            arcs: Vec::new(),
            reached: vec![root],
            has: vec![false; nodes],
            depth: vec![0; nodes],
            dead: vec![false; network.arcs.len()],
        };
        partial.has[root as usize] = true;
        partial
    });
    // The last one grows first.
    let mut growing: Vec<Partial> = begun.collect();
    growing.reverse();
    let mut done = Vec::new();
    while let Some(mut tree) = growing.pop() {
        let mut slack = Slack::new(network, &capacity, &growing, tree.weight);
        while tree.reached.len() < nodes {
            let (arc, carries) = best_arc(network, &capacity, &leaving, &mut tree, &mut slack)?;
            if carries < tree.weight {
                let mut rest = tree.clone();
                rest.weight -= carries;
                slack.add(&rest);
                growing.push(rest);
                tree.weight = carries;
            }
            capacity[arc as usize] -= carries;
            slack.flow.set(2 * arc, capacity[arc as usize]);
            let (from, to) = (network.arcs[arc as usize].from, network.arcs[arc as usize].to);
            tree.depth[to as usize] = tree.depth[from as usize] + 1;
            tree.has[to as usize] = true;
            tree.reached.push(to);
            tree.arcs.push(arc);
        }
        done.push(Tree { root: tree.root, weight: tree.weight, arcs: tree.arcs });
    }
    Some(joined(done))
}

/// The first arc, from the root outwards, that carries all of a tree's weight; else, of some, the one that carries most.
fn best_arc(
    network: &Network,
    capacity: &[u64],
    leaving: &[Vec<u32>],
    tree: &mut Partial,
    slack: &mut Slack,
) -> Option<(u32, u64)> {
    let mut best: Option<(u32, u64)> = None;
    let mut tried = 0;
    // Nodes are reached breadth first as far as possible, but not always.
    let mut order = tree.reached.clone();
    order.sort_by_key(|&node| tree.depth[node as usize]);
    for from in order {
        for &arc in &leaving[from as usize] {
            let to = network.arcs[arc as usize].to;
            if tree.has[to as usize] || tree.dead[arc as usize] {
                continue;
            }
            let carries = capacity[arc as usize].min(tree.weight);
            let carries = if carries == 0 { 0 } else { slack.of(from, to, carries) };
            if carries == 0 {
                tree.dead[arc as usize] = true;
                continue;
            }
            if best.is_none_or(|(_, most)| carries > most) {
                best = Some((arc, carries));
            }
            tried += 1;
            if carries == tree.weight || tried == TRIES {
                return best;
            }
        }
    }
    best
}

/// The slack of sets of nodes, as cuts between a source and a node that the set contains. Arc `a` is edge `2a` of the flow.
struct Slack {
    flow: Flow,
    source: u32,
    /// Weight of the other trees that grow.
    others: u64,
    /// Per node, an edge from the source that keeps it out of sets.
    bars: Vec<u32>,
}

impl Slack {
    fn new(network: &Network, capacity: &[u64], others: &[Partial], weight: u64) -> Slack {
        let (nodes, source) = (network.nodes, network.nodes);
        let mut flow = Flow::new(nodes as usize + 1);
        for (arc, &capacity) in network.arcs.iter().zip(capacity) {
            flow.edge(arc.from, arc.to, capacity);
        }
        let bars = (0..nodes).map(|node| flow.edge(source, node, 0)).collect();
        debug_assert!(weight > 0, "a tree without weight does not grow");
        let mut slack = Slack { flow, source, others: 0, bars };
        for tree in others {
            slack.add(tree);
        }
        slack
    }

    /// One more tree that has to grow.
    fn add(&mut self, tree: &Partial) {
        // A set that one of the tree's nodes is in does not have to let the tree in.
        self.others += tree.weight;
        if let [root] = tree.reached[..] {
            self.flow.edge(self.source, root, tree.weight);
            return;
        }
        let number = self.flow.node();
        self.flow.edge(self.source, number, tree.weight);
        for &node in &tree.reached {
            self.flow.edge(number, node, UNLIMITED);
        }
    }

    /// What an arc between these nodes can carry at most, of `wanted`.
    fn of(&mut self, from: u32, to: u32, wanted: u64) -> u64 {
        self.flow.set(self.bars[from as usize], UNLIMITED);
        let most = self.flow.most(self.source, to, self.others + wanted);
        self.flow.set(self.bars[from as usize], 0);
        most.saturating_sub(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate;
    use crate::testing::{dgx1, networks};
    use proptest::prelude::*;

    /// What is wrong with trees: that one does not span the network from its root, or that an arc carries too much.
    fn fault(network: &Network, trees: &[Tree]) -> Option<String> {
        let mut left: Vec<u64> = network.arcs.iter().map(|arc| arc.capacity).collect();
        for (number, tree) in trees.iter().enumerate() {
            let mut has = vec![false; network.nodes as usize];
            has[tree.root as usize] = true;
            for &arc in &tree.arcs {
                let (from, to) = (network.arcs[arc as usize].from as usize, network.arcs[arc as usize].to as usize);
                if !has[from] || has[to] {
                    return Some(format!("tree {number} is no tree at its arc from {from} to {to}"));
                }
                has[to] = true;
                let Some(less) = left[arc as usize].checked_sub(tree.weight) else {
                    return Some(format!("the arc from {from} to {to} carries too much"));
                };
                left[arc as usize] = less;
            }
            if has.contains(&false) || tree.weight == 0 {
                return Some(format!("tree {number} does not span"));
            }
        }
        None
    }

    #[test]
    fn trees_of_a_dgx1() {
        let network = dgx1(2);
        for root in 0..8 {
            let trees = trees(&network, &[(root, 6)]).unwrap();
            assert_eq!(trees.iter().map(|t| t.weight).sum::<u64>(), 6);
            assert_eq!(fault(&network, &trees), None);
        }
        assert_eq!(trees(&network, &[(0, 7)]), None);
    }

    proptest! {
        /// The best rate is reached, from one root and from all, and no more than that.
        #[test]
        fn the_best_rate_is_reached(network in networks(7, 6)) {
            for root in 0..network.nodes {
                let best = rate::from_root(&network, root).unwrap().rate.num;
                let found = trees(&network, &[(root, best)]).unwrap();
                prop_assert_eq!(found.iter().map(|t| t.weight).sum::<u64>(), best);
                prop_assert_eq!(fault(&network, &found), None);
                prop_assert!(trees(&network, &[(root, best + 1)]).is_none());
            }
            let best = rate::from_all(&network).unwrap().unwrap().rate;
            let finer = network.times(best.den).unwrap();
            let roots: Vec<(u32, u64)> = (0..network.nodes).map(|root| (root, best.num)).collect();
            let found = trees(&finer, &roots).unwrap();
            prop_assert_eq!(fault(&finer, &found), None);
            for root in 0..network.nodes {
                prop_assert_eq!(found.iter().filter(|t| t.root == root).map(|t| t.weight).sum::<u64>(), best.num);
            }
        }
    }
}
