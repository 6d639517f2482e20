//! Networks without switches that are as good as those with them.
//!
//! A switch sends on what it receives, so each of its arcs inwards continues as some of its arcs outwards. Which ones is
//! decided here: a part of an arc into a switch and of an arc out of it is *split off* as an arc that passes the switch, until the
//! switch has no arcs left. Where a switch can send no more than it receives, that is possible without a loss for what trees from
//! given roots have to reach (Bang-Jensen, Frank and Jackson 1995; Zhao et al., ForestColl, use it for collectives). A part may
//! be split off as long as every set of nodes with a terminal still lets in what it needs; cuts tell how much that is.
//!
//! That takes many cuts, so whole switches are first tried at once, each as what a crossbar does at its fairest: every
//! neighbour shares what it has equally among all others. It keeps trees shallow, too. If that is no loss, all is well.
//!
//! A crossbar has another extreme, the *ring*: everything that a neighbour sends goes to the next one. It needs one arc for each
//! neighbour, so that trees on it are few and deep, and a network of a thousand terminals stays small. Rings of many terminals
//! are tried for all switches at once, with one look at the cuts; only what that loses is looked at switch by switch.

use crate::flow::{Flow, UNLIMITED};
use crate::network::{Arc, Network};
use crate::ratio::gcd;
use std::collections::BTreeMap;

/// A network whose nodes are all terminals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Its arcs say which switches they pass.
    pub network: Network,
    /// Its capacities are in units of this part of the unit before.
    pub factor: u64,
}

/// How switches are taken apart where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Every neighbour shares what it has among all others: shallow trees.
    Fair,
    /// Every neighbour sends all to the next one: few trees.
    Ring,
}

/// Of networks with more terminals, all switches are tried at once first.
pub const MANY_TERMINALS: u32 = 64;
/// A switch with more neighbours than that is a ring where all switches are tried at once.
const FAIR_NEIGHBOURS: usize = 16;

/// The network without its switches, as good for trees that have these weights from these roots, if the network has them: the
/// caller finds that out (`rate`). Where a switch may send more than it receives, some of the rate may get lost.
pub fn removed(network: &Network, roots: &[(u32, u64)]) -> Split {
    removed_in(Manner::Fair, network, roots)
}

/// The same, in a manner that is tried first.
pub fn removed_in(manner: Manner, network: &Network, roots: &[(u32, u64)]) -> Split {
    let mut state = State { network: network.clone(), factor: 1, roots: roots.to_vec() };
    state.join_parallel();
    // Whoever has two neighbours leaves no choice, and makes switches neighbours.
    for switch in network.terminals..network.nodes {
        state.pass_through(switch);
    }
    state.join_parallel();
    if network.terminals > MANY_TERMINALS || manner == Manner::Ring {
        let fair = if manner == Manner::Fair { FAIR_NEIGHBOURS } else { 0 };
        let ways = [(fair, true), (fair, false), (0, true), (0, false)];
        if let Some(done) = ways.iter().find_map(|&(fair, without_tops)| state.all_at_once(fair, without_tops)) {
            state = done;
        }
    }
    for switch in network.terminals..network.nodes {
        let (into, out) = state.at(switch);
        if into.is_empty() && out.is_empty() {
            continue;
        }
        if !state.share_equally(switch) {
            state.split_pairs(switch);
        }
        state.join_parallel();
    }
    let State { network, factor, .. } = state;
    Split { network: Network { nodes: network.terminals, ..network }, factor }
}

struct State {
    network: Network,
    factor: u64,
    roots: Vec<(u32, u64)>,
}

impl State {
    /// Arcs of equal ends and switches become one.
    fn join_parallel(&mut self) {
        let mut sums: BTreeMap<(u32, u32, Vec<u32>), u64> = BTreeMap::new();
        for arc in self.network.arcs.drain(..) {
            *sums.entry((arc.from, arc.to, arc.via)).or_default() += arc.capacity;
        }
        let joined = sums.into_iter().filter(|(_, capacity)| *capacity > 0);
        self.network.arcs = joined.map(|((from, to, via), capacity)| Arc { from, to, capacity, via }).collect();
    }

    /// Numbers of the arcs into a switch and out of it.
    fn at(&self, switch: u32) -> (Vec<usize>, Vec<usize>) {
        let arcs = &self.network.arcs;
        let numbers = |of: &dyn Fn(&Arc) -> u32| (0..arcs.len()).filter(|&a| of(&arcs[a]) == switch).collect();
        (numbers(&|arc| arc.to), numbers(&|arc| arc.from))
    }

    /// A switch between two neighbours, one arc each way at most: what comes from one goes to the other.
    fn pass_through(&mut self, switch: u32) {
        let (into, out) = self.at(switch);
        let arcs = &self.network.arcs;
        let mut neighbours: Vec<u32> =
            into.iter().map(|&a| arcs[a].from).chain(out.iter().map(|&a| arcs[a].to)).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        if neighbours.len() > 2 || into.len() > 2 || out.len() > 2 {
            return;
        }
        let pairs: Vec<(usize, usize)> = into
            .iter()
            .flat_map(|&a| out.iter().map(move |&b| (a, b)))
            .filter(|&(a, b)| arcs[a].from != arcs[b].to)
            .collect();
        for (a, b) in pairs {
            let carries = arcs_min(&self.network.arcs, a, b);
            self.split(a, b, carries);
        }
        self.leave(switch);
    }

    /// All switches taken apart without a look at each, from the terminals outwards: those farther from terminals than all
    /// of their neighbours are left out if that is said, those with up to `fair` neighbours are shared equally if they can be,
    /// the others are rings. None if that is a loss.
    fn all_at_once(&self, fair: usize, without_tops: bool) -> Option<State> {
        let terminals = self.network.terminals;
        let mut state = State { network: self.network.clone(), factor: self.factor, roots: self.roots.clone() };
        let away = state.away();
        let mut arcs = vec![0u32; self.network.nodes as usize];
        for arc in &self.network.arcs {
            arcs[arc.from as usize] += 1;
            arcs[arc.to as usize] += 1;
        }
        // Small switches come first, so that large ones do not make neighbours of the same GPUs again.
        let level_of = |switch: u32| (away[switch as usize], arcs[switch as usize]);
        let mut switches: Vec<u32> = (terminals..self.network.nodes).collect();
        switches.sort_by_key(|&switch| level_of(switch));
        if without_tops {
            for &switch in &switches {
                if state.is_top(switch, &away) {
                    state.leave(switch);
                }
            }
        }
        let (mut groups, mut level) = (Vec::new(), (0, 0));
        for switch in switches {
            if level_of(switch) != level {
                level = level_of(switch);
                groups = state.groups();
            }
            let (into, out) = state.at(switch);
            if into.is_empty() || out.is_empty() {
                state.leave(switch);
            } else if into.len() > fair || !state.shared(switch) {
                state.close_ring(switch, &into, &out, &groups)?;
            }
        }
        state.join_parallel();
        state.suffices().then_some(state)
    }

    /// Of each node, the number of arcs to it from the closest terminal.
    fn away(&self) -> Vec<u32> {
        let mut leaving: Vec<Vec<u32>> = vec![Vec::new(); self.network.nodes as usize];
        for arc in &self.network.arcs {
            leaving[arc.from as usize].push(arc.to);
        }
        let mut away = vec![u32::MAX; leaving.len()];
        let mut order: Vec<u32> = (0..self.network.terminals).collect();
        away[..order.len()].fill(0);
        let mut at = 0;
        while let Some(&node) = order.get(at) {
            at += 1;
            for &next in &leaving[node as usize] {
                if away[next as usize] == u32::MAX {
                    away[next as usize] = away[node as usize] + 1;
                    order.push(next);
                }
            }
        }
        away
    }

    /// Whether a switch is farther from terminals than its neighbours, all of them switches that lose as much either way
    /// without it.
    fn is_top(&self, switch: u32, away: &[u32]) -> bool {
        let (into, out) = self.at(switch);
        let arcs = &self.network.arcs;
        let mut balance: BTreeMap<u32, i128> = BTreeMap::new();
        for a in into {
            *balance.entry(arcs[a].from).or_default() += i128::from(arcs[a].capacity);
        }
        for b in out {
            *balance.entry(arcs[b].to).or_default() -= i128::from(arcs[b].capacity);
        }
        let below = |node: u32| (1..away[switch as usize]).contains(&away[node as usize]);
        balance.iter().all(|(&node, &more)| below(node) && more == 0)
    }

    /// Of each node, the least terminal that it has arcs with, over other terminals too; itself if it is a switch.
    fn groups(&self) -> Vec<u32> {
        let mut group: Vec<u32> = (0..self.network.nodes).collect();
        for arc in &self.network.arcs {
            if arc.from.max(arc.to) < self.network.terminals {
                let (a, b) = (top(&group, arc.from), top(&group, arc.to));
                group[a.max(b) as usize] = a.min(b);
            }
        }
        (0..self.network.nodes).map(|node| top(&group, node)).collect()
    }

    /// Arcs in the order of a ring, by the node at their other end: neighbours of other groups alternate, and so do terminals
    /// and switches, so that what comes from elsewhere gets to terminals.
    fn around(&self, arcs: &[usize], groups: &[u32], end: impl Fn(&Arc) -> u32) -> Vec<(u32, u32, usize)> {
        let mut ends: Vec<(u32, usize)> = arcs.iter().map(|&a| (end(&self.network.arcs[a]), a)).collect();
        ends.sort_unstable();
        let mut seen: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let key = |&(node, arc): &(u32, usize)| {
            let group = groups[node as usize];
            let (place, last) = seen.entry(group).or_insert((0, node));
            if *last != node {
                (*place, *last) = (*place + 1, node);
            }
            (*place, group, arc)
        };
        let mut order: Vec<(u32, u32, usize)> = ends.iter().map(key).collect();
        order.sort_unstable();
        let is_terminal = |&(_, group, _): &(u32, u32, usize)| group < self.network.terminals;
        let (inner, outer): (Vec<_>, Vec<_>) = order.into_iter().partition(is_terminal);
        let (mut inner, mut outer) = (inner.into_iter(), outer.into_iter());
        let mut ring = Vec::new();
        loop {
            let (one, other) = (inner.next(), outer.next());
            if one.is_none() && other.is_none() {
                return ring;
            }
            ring.extend(one);
            ring.extend(other);
        }
    }

    /// Splits a switch so that what a neighbour sends goes to the next one, as far as it can take that; None if it does not
    /// send what it receives.
    fn close_ring(&mut self, switch: u32, into: &[usize], out: &[usize], groups: &[u32]) -> Option<()> {
        let (from, mut to) = (self.around(into, groups, |arc| arc.from), self.around(out, groups, |arc| arc.to));
        let arcs = &self.network.arcs;
        let sum = |of: &[usize]| of.iter().map(|&a| arcs[a].capacity).sum::<u64>();
        if from.is_empty() || sum(into) != sum(out) {
            return None;
        }
        // The second neighbour takes what the first one sends.
        let shift = to.iter().position(|&(_, group, _)| group != from[0].1).unwrap_or(1);
        to.rotate_left(shift);
        let (from, to): (Vec<usize>, Vec<usize>) =
            (from.into_iter().map(|(_, _, a)| a).collect(), to.into_iter().map(|(_, _, b)| b).collect());
        let mut left: Vec<u64> = to.iter().map(|&b| arcs[b].capacity).collect();
        let (mut at, mut ring) = (0, Vec::new());
        for &a in &from {
            let mut sends = arcs[a].capacity;
            while sends > 0 {
                let carries = sends.min(left[at]);
                if carries > 0 && arcs[a].from != arcs[to[at]].to {
                    ring.push(through(&arcs[a], &arcs[to[at]], switch, carries));
                }
                sends -= carries;
                left[at] -= carries;
                if left[at] == 0 {
                    at += 1;
                }
            }
        }
        self.network.arcs.extend(ring);
        self.leave(switch);
        Some(())
    }

    /// Splits a switch so that every neighbour sends equally much to every other one, where all have equal arcs, unless that is
    /// a loss. Returns whether the switch is done.
    fn share_equally(&mut self, switch: u32) -> bool {
        let mut tried = State { network: self.network.clone(), factor: self.factor, roots: self.roots.clone() };
        let good = tried.shared(switch) && tried.suffices();
        if good {
            *self = tried;
        }
        good
    }

    /// Splits a switch so that every neighbour sends equally much to every other one. Returns whether that can be done.
    fn shared(&mut self, switch: u32) -> bool {
        let (into, out) = self.at(switch);
        let arcs = &self.network.arcs;
        let capacity = into.first().map_or(0, |&a| arcs[a].capacity);
        let mut from: Vec<u32> = into.iter().map(|&a| arcs[a].from).collect();
        let mut to: Vec<u32> = out.iter().map(|&b| arcs[b].to).collect();
        from.sort_unstable();
        to.sort_unstable();
        let neighbours = from.len() as u64;
        let distinct = from.windows(2).all(|pair| pair[0] != pair[1]);
        if neighbours < 2 || from != to || !distinct || into.iter().chain(&out).any(|&a| arcs[a].capacity != capacity) {
            return false;
        }
        let finer = (neighbours - 1) / gcd(capacity, neighbours - 1);
        let Ok(mut network) = self.network.times(finer) else { return false };
        let each = capacity * finer / (neighbours - 1);
        for &a in &into {
            for &b in &out {
                let (first, second) = (&self.network.arcs[a], &self.network.arcs[b]);
                if first.from != second.to {
                    network.arcs.push(through(first, second, switch, each));
                }
            }
        }
        let roots = self.roots.iter().map(|&(root, weight)| (root, weight * finer)).collect();
        *self = State { network, factor: self.factor * finer, roots };
        self.leave(switch);
        true
    }

    /// Splits a switch pair by pair of its arcs, as much of each as is no loss.
    fn split_pairs(&mut self, switch: u32) {
        let (into, out) = self.at(switch);
        for &b in &out {
            for &a in &into {
                let arcs = &self.network.arcs;
                // What comes back to where it came from is of no use.
                if arcs[a].from == arcs[b].to || arcs_min(arcs, a, b) == 0 {
                    continue;
                }
                let carries = self.spare(switch, a, b);
                self.split(a, b, carries);
            }
        }
        self.leave(switch);
    }

    /// How much of a pair of arcs through a switch can be split off at most.
    fn spare(&self, switch: u32, a: usize, b: usize) -> u64 {
        let network = &self.network;
        let (from, to) = (network.arcs[a].from, network.arcs[b].to);
        let wanted = arcs_min(&network.arcs, a, b);
        let (source, sink) = (network.nodes, network.nodes + 1);
        let mut flow = crate::rate::of_network(network, 2);
        for &(root, weight) in &self.roots {
            flow.edge(source, root, weight);
        }
        let demand: u64 = self.roots.iter().map(|(_, weight)| weight).sum();
        let bars: Vec<u32> = (0..network.nodes).map(|node| flow.edge(source, node, 0)).collect();
        let goals: Vec<u32> = (0..network.nodes).map(|node| flow.edge(node, sink, 0)).collect();
        let mut spare = wanted;
        let mut bound = |flow: &mut Flow, outside: &[u32], inside: &[u32]| {
            for &node in outside {
                flow.set(bars[node as usize], UNLIMITED);
            }
            for &node in inside {
                flow.set(goals[node as usize], UNLIMITED);
            }
            let most = flow.most(source, sink, demand + spare);
            spare = spare.min(most.saturating_sub(demand));
            for &node in outside {
                flow.set(bars[node as usize], 0);
            }
            for &node in inside {
                flow.set(goals[node as usize], 0);
            }
        };
        // Sets that have both ends but not the switch, and sets that have the switch alone, lose what is split off.
        if from < network.terminals || to < network.terminals {
            bound(&mut flow, &[switch], &[from, to]);
        } else {
            for terminal in 0..network.terminals {
                bound(&mut flow, &[switch], &[from, to, terminal]);
            }
        }
        for terminal in (0..network.terminals).filter(|&t| t != from && t != to) {
            bound(&mut flow, &[from, to], &[switch, terminal]);
        }
        spare
    }

    fn split(&mut self, a: usize, b: usize, carries: u64) {
        if carries == 0 {
            return;
        }
        let arcs = &mut self.network.arcs;
        let switch = arcs[a].to;
        let arc = through(&arcs[a], &arcs[b], switch, carries);
        arcs[a].capacity -= carries;
        arcs[b].capacity -= carries;
        arcs.push(arc);
    }

    /// What is left at a switch leads nowhere.
    fn leave(&mut self, switch: u32) {
        self.network.arcs.retain(|arc| arc.from != switch && arc.to != switch);
    }

    /// Whether every terminal can be reached by all that the roots send.
    fn suffices(&self) -> bool {
        let source = self.network.nodes;
        let mut flow = crate::rate::of_network(&self.network, 1);
        for &(root, weight) in &self.roots {
            flow.edge(source, root, weight);
        }
        let demand: u64 = self.roots.iter().map(|(_, weight)| weight).sum();
        (0..self.network.terminals).all(|terminal| flow.most(source, terminal, demand) == demand)
    }
}

/// The first member of a node's group, where each member names one before it.
fn top(group: &[u32], mut node: u32) -> u32 {
    while group[node as usize] != node {
        node = group[node as usize];
    }
    node
}

fn arcs_min(arcs: &[Arc], a: usize, b: usize) -> u64 {
    arcs[a].capacity.min(arcs[b].capacity)
}

/// An arc along two others.
fn through(first: &Arc, second: &Arc, switch: u32, capacity: u64) -> Arc {
    let via = [&first.via[..], &[switch], &second.via[..]].concat();
    Arc { from: first.from, to: second.to, capacity, via }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{both, star};
    use crate::{Ratio, exact, rate};
    use proptest::prelude::*;

    /// Removes switches for the best rate from a root, and for that of all roots, and checks that it is still there.
    fn check(network: &Network) {
        for root in 0..network.terminals {
            let Some(limit) = rate::from_root(network, root) else { return };
            let best = limit.rate.num;
            let Split { network: split, factor } = removed(network, &[(root, best)]);
            assert_eq!(rate::from_root(&split, root).unwrap().rate.num, best * factor);
            assert!(exact::trees(&split, &[(root, best * factor)]).is_some());
        }
        let best = rate::from_all(network).unwrap().unwrap().rate;
        let fine = network.times(best.den).unwrap();
        let roots: Vec<(u32, u64)> = (0..network.terminals).map(|root| (root, best.num)).collect();
        let Split { network: split, factor } = removed(&fine, &roots);
        assert_eq!(rate::from_all(&split).unwrap().unwrap().rate, Ratio::whole(best.num * factor));
    }

    #[test]
    fn a_star_is_shared_equally() {
        let Split { network, factor } = removed(&star(4, 6), &[(0, 6)]);
        assert_eq!((factor, network.arcs.len()), (1, 12));
        assert!(network.arcs.iter().all(|arc| arc.capacity == 2 && arc.via == [4]));
        check(&star(5, 3));
    }

    #[test]
    fn servers_behind_network_cards() {
        // Two servers with a switch for their two GPUs, each with a card on a common switch.
        let links = [(0, 4, 6), (1, 4, 6), (2, 5, 6), (3, 5, 6), (0, 6, 1), (1, 7, 1), (2, 8, 1), (3, 9, 1)];
        let cards = [(6, 10, 1), (7, 10, 1), (8, 10, 1), (9, 10, 1)];
        check(&Network::new(11, 4, both(&[&links[..], &cards].concat())).unwrap());
    }

    /// Removes switches as rings for the best rate from a root, and checks that it is still there.
    fn check_ring(network: &Network) {
        for root in 0..network.terminals {
            let Some(limit) = rate::from_root(network, root) else { return };
            let best = limit.rate.num;
            let Split { network: split, factor } = removed_in(Manner::Ring, network, &[(root, best)]);
            assert_eq!(rate::from_root(&split, root).unwrap().rate.num, best * factor);
            let trees = exact::trees(&split, &[(root, best * factor)]).unwrap();
            assert_eq!(trees.iter().map(|tree| tree.weight).sum::<u64>(), best * factor);
        }
    }

    #[test]
    fn a_star_is_a_ring() {
        let Split { network, factor } = removed_in(Manner::Ring, &star(16, 6), &[(3, 6)]);
        assert_eq!((factor, network.arcs.len()), (1, 16));
        assert_eq!(exact::trees(&network, &[(3, 6)]).unwrap().len(), 1);
    }

    #[test]
    fn many_terminals_are_rings() {
        // Above `MANY_TERMINALS`, over two leaves of a spine.
        let links: Vec<_> = (0..80).map(|t| (t, 80 + t % 2, 3)).chain([(80, 82, 120), (81, 82, 120)]).collect();
        let network = Network::new(83, 80, both(&links)).unwrap();
        let Split { network: split, factor } = removed(&network, &[(5, 3)]);
        assert_eq!((rate::from_root(&split, 5).unwrap().rate.num, factor), (3, 1));
        assert!(split.arcs.len() <= 164);
    }

    /// GPUs at a large switch, and pairs of them at a CPU that leads to cards, too: rings over large switches do not make neighbours of
    /// those that CPUs have made neighbours of, which would have to do with half of what leads to each.
    #[test]
    fn rings_of_pairs_part_them() {
        let (all, top) = (144, 144 + 2 + 72 + 4);
        let links: Vec<_> = (0..all)
            .flat_map(|t| [(t, all + t / 72, 36), (t, 146 + t / 2, 9), (146 + t / 2, 218 + t % 4, 2)])
            .chain((0..4).map(|leaf| (218 + leaf, top, 72)))
            .collect();
        let network = Network::new(top + 1, all, both(&links)).unwrap();
        let best = rate::from_root(&network, 1).unwrap().rate.num;
        let rings = State { network, factor: 1, roots: vec![(1, best)] };
        assert_eq!(best, 45);
        assert!([0, FAIR_NEIGHBOURS].iter().any(|&fair| rings.all_at_once(fair, false).is_some()));
    }

    proptest! {
        #[test]
        fn rings_lose_nothing(terminals in 2u32..6, matrix in prop::collection::vec(0u64..5, 28)) {
            let pairs = (0u32..8).flat_map(|a| (0..a).map(move |b| (a, b)));
            let links: Vec<_> = pairs.zip(matrix).map(|((a, b), c)| (a, b, c)).collect();
            check_ring(&Network::new(8, terminals, both(&links)).unwrap());
        }

        /// On any symmetric network with switches.
        #[test]
        fn nothing_is_lost(terminals in 2u32..6, matrix in prop::collection::vec(0u64..5, 28)) {
            let pairs = (0u32..8).flat_map(|a| (0..a).map(move |b| (a, b)));
            let links: Vec<_> = pairs.zip(matrix).map(|((a, b), c)| (a, b, c)).collect();
            check(&Network::new(8, terminals, both(&links)).unwrap());
        }
    }
}
