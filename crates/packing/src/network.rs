//! Networks with capacities, and trees on them.

use crate::ratio::gcd;
use syncline_core::Refusal;

/// A directed arc. Arcs between the same nodes are parallel ways with capacities of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arc {
    /// Where it begins.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
    /// What it carries, in the unit of the network.
    pub capacity: u64,
    /// The switches that it passes, once these have been removed (`switches`).
    pub via: Vec<u32>,
}

impl Arc {
    /// An arc that passes no switch.
    pub const fn new(from: u32, to: u32, capacity: u64) -> Arc {
        Arc { from, to, capacity, via: Vec::new() }
    }
}

/// Nodes and arcs. The first nodes are *terminals*, which have and want data; the others are switches, which send on what
/// they receive once: they do not make copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Nodes.
    pub nodes: u32,
    /// How many of them, the first ones, are terminals.
    pub terminals: u32,
    /// Arcs of positive capacity that begin and end at different nodes.
    pub arcs: Vec<Arc>,
}

/// What all capacities may add up to, so that no sum of flows overflows.
pub const MOST_CAPACITY: u64 = 1 << 60;

impl Network {
    /// A network of these arcs; those without capacity are left out.
    ///
    /// # Errors
    /// A [`Refusal`] if there is no terminal, an arc leads nowhere or to its own node, or capacities add up to more than
    /// [`MOST_CAPACITY`].
    pub fn new(nodes: u32, terminals: u32, arcs: impl IntoIterator<Item = Arc>) -> Result<Network, Refusal> {
        if terminals == 0 || terminals > nodes {
            let message = format!("{terminals} of {nodes} nodes are terminals");
            return Err(Refusal::of("terminals", message).accepting("at least one, and up to all nodes"));
        }
        let mut kept = Vec::new();
        let mut sum = 0u64;
        for (index, arc) in arcs.into_iter().enumerate() {
            let field = format!("arcs.{index}");
            if arc.from >= nodes || arc.to >= nodes {
                let message = format!("an arc from node {} to node {}, of {nodes} nodes", arc.from, arc.to);
                return Err(Refusal::of(&field, message));
            }
            if arc.from == arc.to {
                return Err(Refusal::of(&field, format!("an arc from node {} to itself", arc.from)));
            }
            sum = sum.saturating_add(arc.capacity);
            if sum > MOST_CAPACITY {
                return Err(Refusal::of(&field, "the capacities add up to more than can be counted")
                    .accepting(format!("up to {MOST_CAPACITY} in all")));
            }
            if arc.capacity > 0 {
                kept.push(arc);
            }
        }
        Ok(Network { nodes, terminals, arcs: kept })
    }

    /// Whether no node is a switch.
    pub const fn is_without_switches(&self) -> bool {
        self.nodes == self.terminals
    }

    /// The greatest unit of which all capacities are multiples; 1 without arcs.
    pub fn unit(&self) -> u64 {
        self.arcs.iter().fold(0, |unit, arc| gcd(unit, arc.capacity)).max(1)
    }

    /// The same with capacities in units of `unit`, which divides them.
    #[must_use]
    pub fn in_units_of(mut self, unit: u64) -> Network {
        for arc in &mut self.arcs {
            arc.capacity /= unit;
        }
        self
    }

    /// The same arcs with `factor` times the capacities.
    ///
    /// # Errors
    /// A [`Refusal`] if these are more than can be counted.
    pub fn times(&self, factor: u64) -> Result<Network, Refusal> {
        let sum: u128 = self.arcs.iter().map(|arc| u128::from(arc.capacity)).sum();
        if sum * u128::from(factor) > u128::from(MOST_CAPACITY) {
            return Err(too_fine());
        }
        let mut finer = self.clone();
        for arc in &mut finer.arcs {
            arc.capacity *= factor;
        }
        Ok(finer)
    }

    /// The same with all arcs the other way.
    #[must_use]
    pub fn reversed(&self) -> Network {
        let back = |arc: &Arc| Arc {
            from: arc.to,
            to: arc.from,
            capacity: arc.capacity,
            via: arc.via.iter().rev().copied().collect(),
        };
        Network { nodes: self.nodes, terminals: self.terminals, arcs: self.arcs.iter().map(back).collect() }
    }

    /// Sums of the capacities that lead to each node.
    pub fn into_nodes(&self) -> Vec<u64> {
        let mut sums = vec![0; self.nodes as usize];
        for arc in &self.arcs {
            sums[arc.to as usize] += arc.capacity;
        }
        sums
    }

    /// The terminals in groups that reach each other, each group and all groups in ascending order.
    pub fn components(&self) -> Vec<Vec<u32>> {
        let reached = |start: u32, forward: bool| {
            let mut seen = vec![false; self.nodes as usize];
            seen[start as usize] = true;
            let mut waiting = vec![start];
            let ways: Vec<Vec<u32>> = self.neighbours(forward);
            while let Some(node) = waiting.pop() {
                for &next in &ways[node as usize] {
                    if !std::mem::replace(&mut seen[next as usize], true) {
                        waiting.push(next);
                    }
                }
            }
            seen
        };
        let mut group = vec![None; self.terminals as usize];
        let mut groups: Vec<Vec<u32>> = Vec::new();
        for start in 0..self.terminals {
            if group[start as usize].is_some() {
                continue;
            }
            let (there, back) = (reached(start, true), reached(start, false));
            let members: Vec<u32> =
                (start..self.terminals).filter(|&n| there[n as usize] && back[n as usize]).collect();
            for &member in &members {
                group[member as usize] = Some(groups.len());
            }
            groups.push(members);
        }
        groups
    }

    fn neighbours(&self, forward: bool) -> Vec<Vec<u32>> {
        let mut ways = vec![Vec::new(); self.nodes as usize];
        for arc in &self.arcs {
            let (from, to) = if forward { (arc.from, arc.to) } else { (arc.to, arc.from) };
            ways[from as usize].push(to);
        }
        ways
    }
}

/// The refusal of capacities whose ratios need more digits than there are.
pub fn too_fine() -> Refusal {
    Refusal::of(
        "arcs",
        "the capacities have no common unit that is large enough: what they add up to, in the unit that an \
        exact solution needs, is more than can be counted",
    )
    .accepting("rates that are multiples of, say, 1 MB/s")
}

/// An arborescence: arcs that lead from its root to every terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The root.
    pub root: u32,
    /// What goes along it, in the unit of the network.
    pub weight: u64,
    /// Numbers of its arcs, every one after the arc that leads to where it begins.
    pub arcs: Vec<u32>,
}

/// Joins trees of the same root and arcs into one with all their weight; their order is that of the first ones.
pub fn joined(trees: Vec<Tree>) -> Vec<Tree> {
    let mut joined: Vec<(Vec<u32>, Tree)> = Vec::new();
    for tree in trees {
        let mut arcs = tree.arcs.clone();
        arcs.sort_unstable();
        match joined.iter_mut().find(|(same, first)| first.root == tree.root && *same == arcs) {
            Some((_, first)) => first.weight += tree.weight,
            None => joined.push((arcs, tree)),
        }
    }
    joined.into_iter().map(|(_, tree)| tree).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arcs(list: &[(u32, u32, u64)]) -> Vec<Arc> {
        list.iter().map(|&(from, to, capacity)| Arc::new(from, to, capacity)).collect()
    }

    #[test]
    fn what_is_no_network() {
        assert!(Network::new(2, 0, []).is_err());
        assert!(Network::new(2, 3, []).is_err());
        assert!(Network::new(2, 2, arcs(&[(0, 2, 1)])).is_err());
        assert!(Network::new(2, 2, arcs(&[(1, 1, 1)])).is_err());
        assert!(Network::new(2, 2, arcs(&[(0, 1, MOST_CAPACITY), (1, 0, 1)])).is_err());
        assert_eq!(Network::new(2, 2, arcs(&[(0, 1, 0)])).unwrap().arcs, []);
    }

    #[test]
    fn components_go_through_switches_and_both_ways() {
        let network = Network::new(5, 4, arcs(&[(0, 4, 1), (4, 0, 1), (2, 4, 1), (4, 2, 1), (0, 1, 1)])).unwrap();
        assert_eq!(network.components(), [vec![0, 2], vec![1], vec![3]]);
    }

    #[test]
    fn equal_trees_are_one() {
        let tree = |weight, arcs: &[u32]| Tree { root: 0, weight, arcs: arcs.to_vec() };
        assert_eq!(joined(vec![tree(1, &[0, 1]), tree(2, &[2]), tree(3, &[1, 0])]), [tree(4, &[0, 1]), tree(2, &[2])]);
    }
}
