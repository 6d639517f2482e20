//! The best rates, each with what limits it.
//!
//! *From one root.* All terminals can receive at the rate that the worst placed one can, the least of their maximum flows from
//! the root (Edmonds 1973; with switches that make no copies, and send no more than they receive: Bang-Jensen, Frank and
//! Jackson 1995).
//!
//! *From all roots at once.* If every terminal sends `x` to all others, what enters a set of nodes is `x` for each terminal
//! outside. So `x` is at most the capacity into a set over the number of terminals outside, for every set with a terminal, and
//! the least of these bounds is reached. It is found by Newton's method: a set that a guess violates is the next guess.
//!
//! *Trees that are used both ways*, towards a root to reduce and back to broadcast. A unit crosses the borders of `k` disjoint
//! sets of nodes, with a terminal each and all terminals together, at least `k - 1` times inwards for either half, so that
//! a rate is at most what enters these sets, over `2 (k - 1)`. With equal capacities both ways and no switches this is the bound
//! of Tutte and Nash-Williams (1961), which trees reach. The worst sets are found by a greedy algorithm (Dilworth truncation of
//! a submodular function), with a cut for each terminal.

use crate::flow::{Flow, UNLIMITED};
use crate::network::{MOST_CAPACITY, Network, too_fine};
use crate::ratio::Ratio;
use syncline_core::Refusal;

/// A rate, and what limits it: the capacity that enters these sets of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The rate, in the unit of the network.
    pub rate: Ratio,
    /// One set, or several disjoint ones; of the latter the terminals only.
    pub sets: Vec<Vec<u32>>,
    /// What enters all of them.
    pub capacity: u64,
}

/// The flow from a root to each other terminal, the smallest first to be found wins; `None` with a single terminal.
pub fn from_root(network: &Network, root: u32) -> Option<Limit> {
    let mut flow = of_network(network, 0);
    let mut least: Option<Limit> = None;
    for terminal in (0..network.terminals).filter(|&t| t != root) {
        let enough = least.as_ref().map_or(u64::MAX, |l| l.capacity);
        let most = flow.most(root, terminal, enough);
        if most < enough {
            let set = (0..network.nodes).filter(|&n| !flow.is_on_source_side(n)).collect();
            least = Some(Limit { rate: Ratio::whole(most), sets: vec![set], capacity: most });
        }
    }
    least
}

/// The rate of every root if all send at once; `None` with a single terminal.
///
/// # Errors
/// A [`Refusal`] if capacities are too fine to be counted.
pub fn from_all(network: &Network) -> Result<Option<Limit>, Refusal> {
    limit_of(network, &(0..network.terminals).collect::<Vec<_>>())
}

/// The same of a network whose symmetries lead these terminals to all others, so that they stand for all.
///
/// # Errors
/// A [`Refusal`] if capacities are too fine to be counted.
pub fn from_all_alike(network: &Network, roots: &[u32]) -> Result<Option<Limit>, Refusal> {
    limit_of(network, roots)
}

/// The same, with a look at some terminals only.
fn limit_of(network: &Network, looked_at: &[u32]) -> Result<Option<Limit>, Refusal> {
    let (terminals, nodes) = (u64::from(network.terminals), network.nodes);
    if terminals == 1 {
        return Ok(None);
    }
    let into = network.into_nodes();
    let Some((worst, &capacity)) = into[..terminals as usize].iter().enumerate().min_by_key(|(_, sum)| **sum) else {
        return Ok(None);
    };
    let mut limit = Limit { rate: Ratio::new(capacity, terminals - 1), sets: vec![vec![worst as u32]], capacity };
    while limit.rate.num > 0 {
        let Ratio { num, den } = limit.rate;
        countable(network, den, u128::from(num) * u128::from(terminals))?;
        let mut flow = of_network(network, 1);
        scale(&mut flow, network, den);
        for terminal in 0..network.terminals {
            flow.edge(nodes, terminal, num);
        }
        let demand = num * terminals;
        let violated = looked_at.iter().find(|&&t| flow.most(nodes, t, demand) < demand);
        if violated.is_none() {
            break;
        }
        let set: Vec<u32> = (0..nodes).filter(|&n| !flow.is_on_source_side(n)).collect();
        let outside = terminals - set.iter().filter(|&&n| n < network.terminals).count() as u64;
        let capacity = entering(network, &set);
        limit = Limit { rate: Ratio::new(capacity, outside), sets: vec![set], capacity };
    }
    Ok(Some(limit))
}

/// The most that can be reduced to some terminals and sent from there to all, both at once over the same capacities; `None`
/// with a single terminal. It is reached where capacities are equal both ways and there are no switches.
///
/// # Errors
/// A [`Refusal`] if capacities are too fine to be counted.
pub fn both_ways(network: &Network) -> Result<Option<Limit>, Refusal> {
    if network.terminals == 1 {
        return Ok(None);
    }
    let singles: Vec<Vec<u32>> = (0..network.terminals).map(|t| vec![t]).collect();
    let capacity = network.into_nodes()[..network.terminals as usize].iter().sum();
    let mut limit = over(singles, capacity);
    while let Some(worse) = worse(network, limit.rate)? {
        limit = worse;
    }
    Ok(Some(limit))
}

/// The bound on trees that are used both ways of a set and its images, if these are disjoint and have all terminals.
pub fn images_of(network: &Network, set: &[u32], symmetries: &[Vec<u32>]) -> Option<Limit> {
    let mut sets: Vec<Vec<u32>> = Vec::new();
    let mut covered = vec![false; network.nodes as usize];
    for images in symmetries {
        let mut image: Vec<u32> = set.iter().map(|&node| images[node as usize]).collect();
        image.sort_unstable();
        let has = image.iter().filter(|&&node| covered[node as usize]).count();
        if has == image.len() && sets.contains(&image) {
            continue;
        }
        if has > 0 {
            return None;
        }
        for &node in &image {
            covered[node as usize] = true;
        }
        sets.push(image);
    }
    let all = covered[..network.terminals as usize].iter().all(|&covered| covered);
    let capacity = sets.iter().map(|set| entering(network, set)).sum();
    (all && sets.len() > 1).then(|| over(sets, capacity))
}

/// The most that one path from the root to each terminal can carry, the widest of all, so that no tree carries more; `None` with
/// a single terminal.
pub fn widest(network: &Network, root: u32) -> Option<u64> {
    let mut leaving: Vec<Vec<(u32, u64)>> = vec![Vec::new(); network.nodes as usize];
    for arc in &network.arcs {
        leaving[arc.from as usize].push((arc.to, arc.capacity));
    }
    let mut width = vec![0; network.nodes as usize];
    let mut waiting = std::collections::BinaryHeap::from([(u64::MAX, root)]);
    while let Some((carries, node)) = waiting.pop() {
        if width[node as usize] >= carries {
            continue;
        }
        width[node as usize] = carries;
        waiting.extend(leaving[node as usize].iter().map(|&(to, capacity)| (carries.min(capacity), to)));
    }
    (0..network.terminals).filter(|&t| t != root).map(|t| width[t as usize]).min()
}

/// The bound of disjoint sets into which so much leads.
fn over(sets: Vec<Vec<u32>>, capacity: u64) -> Limit {
    Limit { rate: Ratio::new(capacity, 2 * (sets.len() as u64 - 1)), sets, capacity }
}

/// The bound of sets that is below a rate, if there are any: those of least sum of capacities, less twice the rate for each.
fn worse(network: &Network, rate: Ratio) -> Result<Option<Limit>, Refusal> {
    let Ratio { num, den } = rate;
    let terminals = network.terminals as usize;
    countable(network, den, 2 * u128::from(num) * terminals as u128)?;
    let each = 2 * num as i64;
    let mut flow = of_network(network, 1);
    scale(&mut flow, network, den);
    let source = network.nodes;
    let bars: Vec<u32> = (0..network.terminals).map(|t| flow.edge(source, t, UNLIMITED)).collect();
    let mut value = vec![0i64; terminals];
    let mut block: Vec<usize> = (0..terminals).collect();
    for v in 0..terminals {
        // What a set has to pay for a terminal of negative value, and misses without one of positive value.
        let missed: Vec<u32> =
            (0..v).filter(|&u| value[u] > 0).map(|u| flow.edge(u as u32, v as u32, value[u] as u64)).collect();
        let best: i64 = value[..v].iter().filter(|y| **y > 0).sum();
        flow.set(bars[v], 0);
        let cut = flow.most(source, v as u32, u64::MAX) as i64;
        value[v] = cut - best - each;
        let inside: Vec<usize> = (0..=v).filter(|&u| !flow.is_on_source_side(u as u32)).collect();
        for u in inside {
            let (old, new) = (block[u], block[v]);
            block.iter_mut().filter(|b| **b == old).for_each(|b| *b = new);
        }
        for edge in missed {
            flow.set(edge, 0);
        }
        flow.set(bars[v], value[v].min(0).unsigned_abs());
    }
    let total: i64 = value.iter().sum();
    if total >= -each {
        return Ok(None);
    }
    let mut sets: Vec<Vec<u32>> = vec![Vec::new(); terminals];
    for (terminal, &of) in (0u32..).zip(&block) {
        sets[of].push(terminal);
    }
    sets.retain(|set| !set.is_empty());
    let entering = (total + each * sets.len() as i64) as u64 / den;
    Ok(Some(over(sets, entering)))
}

/// Sets of nodes into which less leads than trees with these weights from these roots need, the roots within a set counted: one
/// for each terminal that such a set has been found for. Without any, the network, if it has no switches, has the trees.
pub fn violated(network: &Network, roots: &[(u32, u64)]) -> Vec<Vec<u32>> {
    let source = network.nodes;
    let mut flow = of_network(network, 1);
    for &(root, weight) in roots {
        flow.edge(source, root, weight);
    }
    let demand: u64 = roots.iter().map(|(_, weight)| weight).sum();
    let mut sets: Vec<Vec<u32>> = Vec::new();
    for terminal in 0..network.terminals {
        if flow.most(source, terminal, demand) < demand {
            let set = (0..network.nodes).filter(|&node| !flow.is_on_source_side(node)).collect();
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
    }
    sets
}

/// Capacity of the arcs that enter a set of nodes.
pub fn entering(network: &Network, set: &[u32]) -> u64 {
    let mut inside = vec![false; network.nodes as usize];
    for &node in set {
        inside[node as usize] = true;
    }
    let enters = |arc: &&crate::Arc| !inside[arc.from as usize] && inside[arc.to as usize];
    network.arcs.iter().filter(enters).map(|arc| arc.capacity).sum()
}

/// A flow over a network, whose arc `a` is edge `2a`, with so many nodes more.
pub(crate) fn of_network(network: &Network, more: u32) -> Flow {
    let mut flow = Flow::new((network.nodes + more) as usize);
    for arc in &network.arcs {
        flow.edge(arc.from, arc.to, arc.capacity);
    }
    flow
}

pub(crate) fn scale(flow: &mut Flow, network: &Network, factor: u64) {
    for (edge, arc) in (0u32..).zip(&network.arcs) {
        flow.set(2 * edge, arc.capacity * factor);
    }
}

/// Whether the capacities times a factor, and what is asked of them, can be added up.
pub(crate) fn countable(network: &Network, factor: u64, demand: u128) -> Result<(), Refusal> {
    let sum: u128 = network.arcs.iter().map(|arc| u128::from(arc.capacity)).sum();
    let most = u128::from(MOST_CAPACITY);
    if sum * u128::from(factor) > most || demand > most { Err(too_fine()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Arc;
    use crate::testing::{both, dgx1, networks, star};
    use proptest::prelude::*;

    #[test]
    fn rates_of_a_dgx1() {
        let (v100, p100) = (dgx1(2), dgx1(1));
        for root in 0..8 {
            assert_eq!(from_root(&v100, root).unwrap().rate, Ratio::whole(6));
            assert_eq!(from_root(&p100, root).unwrap().rate, Ratio::whole(4));
        }
        assert_eq!(from_all(&v100).unwrap().unwrap().rate, Ratio::new(6, 7));
        // Blink, sections 3.3 and 5.1: what its rings reach.
        assert_eq!(both_ways(&v100).unwrap().unwrap().rate, Ratio::new(24, 7));
        assert_eq!(both_ways(&p100).unwrap().unwrap().rate, Ratio::new(16, 7));
    }

    #[test]
    fn a_switch_is_no_mesh() {
        let star = star(16, 6);
        assert_eq!(from_root(&star, 3).unwrap().rate, Ratio::whole(6));
        assert_eq!(from_all(&star).unwrap().unwrap().rate, Ratio::new(6, 15));
        assert_eq!(both_ways(&star).unwrap().unwrap().rate, Ratio::new(16 * 6, 30));
    }

    #[test]
    fn widest_paths() {
        // Parallel arcs are two ways.
        let arcs = [Arc::new(0, 1, 2), Arc::new(0, 1, 3), Arc::new(1, 2, 4), Arc::new(0, 2, 1)];
        let network = Network::new(3, 3, arcs).unwrap();
        assert_eq!(widest(&network, 0), Some(3));
        assert_eq!(widest(&network, 1), Some(0));
        assert_eq!(widest(&Network::new(1, 1, []).unwrap(), 0), None);
    }

    #[test]
    fn a_terminal_that_nothing_reaches() {
        let network = Network::new(3, 3, both(&[(0, 1, 5)])).unwrap();
        assert_eq!(from_root(&network, 0).unwrap().rate, Ratio::ZERO);
        assert_eq!(from_all(&network).unwrap().unwrap().rate, Ratio::ZERO);
        assert_eq!(both_ways(&network).unwrap().unwrap().rate, Ratio::ZERO);
        assert_eq!(from_root(&Network::new(1, 1, []).unwrap(), 0), None);
    }

    /// All ways to divide nodes into sets, as the set of each.
    fn partitions(nodes: u32) -> Vec<Vec<u32>> {
        (0..nodes).fold(vec![Vec::new()], |all, _| {
            let more = |p: Vec<u32>| {
                let next = p.iter().max().map_or(0, |m| m + 1);
                (0..=next).map(move |set| [p.clone(), vec![set]].concat())
            };
            all.into_iter().flat_map(more).collect()
        })
    }

    proptest! {
        /// Each rate is the least bound over all sets, or all partitions.
        #[test]
        fn rates_are_the_least_bounds(network in networks(5, 9)) {
            let n = network.terminals;
            let sets: Vec<Vec<u32>> = (1..(1u32 << n) - 1).map(|s| (0..n).filter(|v| s >> v & 1 == 1).collect()).collect();
            for root in 0..n {
                let limit = from_root(&network, root).unwrap();
                let least = sets.iter().filter(|s| !s.contains(&root)).map(|s| entering(&network, s)).min().unwrap();
                prop_assert_eq!(limit.rate, Ratio::whole(least));
                prop_assert_eq!(entering(&network, &limit.sets[0]), least);
            }
            let limit = from_all(&network).unwrap().unwrap();
            let least = sets.iter().map(|s| Ratio::new(entering(&network, s), u64::from(n) - s.len() as u64)).min().unwrap();
            prop_assert_eq!(limit.rate, least);
            let limit = both_ways(&network).unwrap().unwrap();
            let bound = |p: &Vec<u32>| {
                let sets = u64::from(*p.iter().max().unwrap());
                let crosses = |arc: &&Arc| p[arc.from as usize] != p[arc.to as usize];
                let crossing: u64 = network.arcs.iter().filter(crosses).map(|arc| arc.capacity).sum();
                (sets > 0).then(|| Ratio::new(crossing, 2 * sets))
            };
            let least = partitions(n).iter().filter_map(bound).min().unwrap();
            prop_assert_eq!(limit.rate, least);
            let crossing: u64 = limit.sets.iter().map(|s| entering(&network, s)).sum();
            prop_assert_eq!(crossing, limit.capacity);
        }
    }
}
