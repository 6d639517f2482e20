//! Each terminal's own part, from a root (a scatter) or, on the network with its arcs reversed, to it (a gather).
//!
//! No data is copied on the way, so that all parts together are one flow: from the root to all other terminals, equally much to
//! each. Of a vector that has a part for each of `n` terminals, the root's own included, `c n / k` is the most that capacity `c`
//! into a set with `k` terminals, none of them the root, allows; and the least of these bounds over all sets is reached, by the
//! maximum flow and its cut. The least bound is found by Newton's method: a set that a guess violates is the next guess. Switches
//! need no care, since a flow passes them like any node.
//!
//! Of all such flows, one that passes as few terminals as possible is taken, and of these one that passes few switches (a flow of
//! least cost, by successive shortest paths). It is divided into paths, the widest first.

use crate::network::{Arc, Network, Tree, joined};
use crate::rate::{self, Limit};
use crate::ratio::Ratio;
use std::collections::BTreeMap;
use syncline_core::Refusal;

/// Paths from a root that bring every other terminal equally much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Between terminals, what paths take; its arcs say which switches they pass. In units of `1 / factor`.
    pub network: Network,
    /// See above.
    pub factor: u64,
    /// A path each: every arc begins where the one before it ends, and the last one ends where the data is for.
    pub paths: Vec<Tree>,
}

/// The rate of the whole vector, of which each terminal gets an equal part; `None` with a single terminal.
///
/// # Errors
/// A [`Refusal`] if capacities are too fine to be counted.
pub fn rate(network: &Network, root: u32) -> Result<Option<Limit>, Refusal> {
    let (terminals, nodes) = (u64::from(network.terminals), network.nodes);
    if terminals == 1 {
        return Ok(None);
    }
    let mut set: Vec<u32> = (0..nodes).filter(|&node| node != root).collect();
    loop {
        let capacity = rate::entering(network, &set);
        let inside = set.iter().filter(|&&node| node < network.terminals).count() as u64;
        let Ratio { num, den } = Ratio::new(capacity, inside);
        rate::countable(network, den, u128::from(num) * u128::from(terminals))?;
        let mut flow = rate::of_network(network, 1);
        rate::scale(&mut flow, network, den);
        for terminal in (0..network.terminals).filter(|&terminal| terminal != root) {
            flow.edge(terminal, nodes, num);
        }
        if flow.most(root, nodes, u64::MAX) == num * (terminals - 1) {
            let whole = Ratio::new(num, den);
            let rate = Ratio::new(whole.num * terminals, whole.den);
            return Ok(Some(Limit { rate, sets: vec![set], capacity }));
        }
        set = (0..nodes).filter(|&node| !flow.is_on_source_side(node)).collect();
    }
}

/// Paths that reach a rate of the whole vector, which the network has.
///
/// # Errors
/// A [`Refusal`] if capacities are too fine to be counted.
pub fn paths(network: &Network, root: u32, rate: Ratio) -> Result<Paths, Refusal> {
    let terminals = u64::from(network.terminals);
    let Ratio { num, den } = Ratio::new(rate.num, rate.den * terminals);
    let fine = network.times(den)?;
    let flow = cheapest_flow(&fine, root, num);
    let (mut left, mut found) = (flow, Vec::new());
    let mut arcs: BTreeMap<(u32, u32, Vec<u32>), (u32, u64)> = BTreeMap::new();
    for terminal in (0..network.terminals).filter(|&terminal| terminal != root) {
        let mut missing = num;
        while missing > 0 {
            let way = widest(network, &left, root, terminal);
            let weight = way.iter().map(|&arc| left[arc]).min().unwrap_or(0).min(missing);
            assert!(weight > 0, "what flows to a terminal comes along a path");
            missing -= weight;
            for &arc in &way {
                left[arc] -= weight;
            }
            let mut path = Vec::new();
            let (mut from, mut via) = (root, Vec::new());
            for &arc in &way {
                let to = network.arcs[arc].to;
                if to >= network.terminals {
                    via.push(to);
                    continue;
                }
                let number = arcs.len() as u32;
                let entry = arcs.entry((from, to, std::mem::take(&mut via))).or_insert((number, 0));
                entry.1 += weight;
                path.push(entry.0);
                from = to;
            }
            found.push(Tree { root, weight, arcs: path });
        }
    }
    let mut listed: Vec<_> = arcs.into_iter().collect();
    listed.sort_by_key(|&(_, (number, _))| number);
    let arcs = listed.into_iter().map(|((from, to, via), (_, capacity))| Arc { from, to, capacity, via }).collect();
    let network = Network { nodes: network.terminals, terminals: network.terminals, arcs };
    Ok(Paths { network, factor: den, paths: joined(found) })
}

/// Per arc, a flow of so much from the root to every other terminal that passes as few terminals as possible, and of these
/// flows one that passes few switches.
fn cheapest_flow(network: &Network, root: u32, each: u64) -> Vec<u64> {
    let nodes = network.nodes as usize;
    let mut flow = vec![0u64; network.arcs.len()];
    let mut touching: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (number, arc) in network.arcs.iter().enumerate() {
        touching[arc.from as usize].push(number);
        touching[arc.to as usize].push(number);
    }
    // A terminal costs more than all switches that a way may pass.
    let cost = |arc: &Arc| if arc.to < network.terminals { i64::from(network.nodes) } else { 1 };
    let mut missing = vec![each; network.terminals as usize];
    missing[root as usize] = 0;
    while missing.iter().any(|&more| more > 0) {
        let mut least = vec![i64::MAX; nodes];
        let mut last: Vec<Option<usize>> = vec![None; nodes];
        let mut waits = vec![false; nodes];
        let mut waiting = std::collections::VecDeque::from([root]);
        least[root as usize] = 0;
        // What flows may flow back, at a cost below 0: so nodes are looked at again when a cheaper way is found.
        while let Some(at) = waiting.pop_front() {
            waits[at as usize] = false;
            for &number in &touching[at as usize] {
                let arc = &network.arcs[number];
                let forth = arc.from == at;
                let (to, more, room) = if forth {
                    (arc.to, cost(arc), arc.capacity - flow[number])
                } else {
                    (arc.from, -cost(arc), flow[number])
                };
                let sum = least[at as usize] + more;
                if room > 0 && sum < least[to as usize] {
                    least[to as usize] = sum;
                    last[to as usize] = Some(number);
                    if !std::mem::replace(&mut waits[to as usize], true) {
                        waiting.push_back(to);
                    }
                }
            }
        }
        let nearest =
            (0..missing.len()).filter(|&terminal| missing[terminal] > 0).min_by_key(|&terminal| least[terminal]);
        let Some(terminal) = nearest.filter(|&terminal| least[terminal] < i64::MAX) else { break };
        let way: Vec<(usize, bool)> = std::iter::successors(Some((terminal as u32, None)), |&(at, _)| {
            let number = last[at as usize]?;
            let arc = &network.arcs[number];
            let forth = arc.to == at;
            Some((if forth { arc.from } else { arc.to }, Some((number, forth))))
        })
        .filter_map(|(_, step)| step)
        .collect();
        let room = |&(number, forth): &(usize, bool)| {
            if forth { network.arcs[number].capacity - flow[number] } else { flow[number] }
        };
        let pushed = way.iter().map(room).min().unwrap_or(0).min(missing[terminal]);
        missing[terminal] -= pushed;
        for (number, forth) in way {
            flow[number] = if forth { flow[number] + pushed } else { flow[number] - pushed };
        }
    }
    assert!(missing.iter().all(|&more| more == 0), "a rate that cuts allow has a flow");
    flow
}

/// The widest way from one node to another along what flows; of equally wide ones the one of fewest arcs.
fn widest(network: &Network, left: &[u64], from: u32, to: u32) -> Vec<usize> {
    let nodes = network.nodes as usize;
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (number, arc) in network.arcs.iter().enumerate() {
        if left[number] > 0 {
            leaving[arc.from as usize].push(number);
        }
    }
    // Per node, how wide the way there is, and how many arcs it has, which orders it among equally wide ones.
    let mut best: Vec<(u64, std::cmp::Reverse<usize>)> = vec![(0, std::cmp::Reverse(usize::MAX)); nodes];
    let mut last: Vec<Option<usize>> = vec![None; nodes];
    let mut done = vec![false; nodes];
    best[from as usize] = (u64::MAX, std::cmp::Reverse(0));
    while let Some(at) = (0..nodes).filter(|&node| !done[node] && best[node].0 > 0).max_by_key(|&node| best[node]) {
        done[at] = true;
        let (wide, std::cmp::Reverse(arcs)) = best[at];
        for &number in &leaving[at] {
            let next = network.arcs[number].to as usize;
            let through = (wide.min(left[number]), std::cmp::Reverse(arcs + 1));
            if !done[next] && through > best[next] {
                best[next] = through;
                last[next] = Some(number);
            }
        }
    }
    let mut way: Vec<usize> =
        std::iter::successors(last[to as usize], |&number| last[network.arcs[number].from as usize]).collect();
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{both, dgx1, networks, star};
    use proptest::prelude::*;

    /// The least bound over all sets of nodes without the root.
    fn least_bound(network: &Network, root: u32) -> Ratio {
        let sets = (1u32..1 << network.nodes).filter(|set| set >> root & 1 == 0);
        let bound = |set: u32| {
            let nodes: Vec<u32> = (0..network.nodes).filter(|node| set >> node & 1 == 1).collect();
            let inside = nodes.iter().filter(|&&node| node < network.terminals).count() as u64;
            let capacity = rate::entering(network, &nodes) * u64::from(network.terminals);
            (inside > 0).then(|| Ratio::new(capacity, inside))
        };
        sets.filter_map(bound).min().unwrap()
    }

    /// Checks the bound, and that paths bring each terminal its part within the capacities.
    fn check(network: &Network, root: u32) {
        let limit = rate(network, root).unwrap().unwrap();
        assert_eq!(limit.rate, least_bound(network, root));
        assert_eq!(limit.capacity, rate::entering(network, &limit.sets[0]));
        let found = paths(network, root, limit.rate).unwrap();
        let mut left: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for arc in &network.arcs {
            *left.entry((arc.from, arc.to)).or_default() += arc.capacity * found.factor;
        }
        let mut got = vec![0; network.terminals as usize];
        for path in &found.paths {
            let mut at = root;
            for &arc in &path.arcs {
                let arc = &found.network.arcs[arc as usize];
                assert_eq!(arc.from, at);
                at = arc.to;
                let hops: Vec<u32> = [&[arc.from][..], &arc.via, &[arc.to]].concat();
                for hop in hops.windows(2) {
                    let room = left.get_mut(&(hop[0], hop[1])).expect("a way that there is");
                    *room = room.checked_sub(path.weight).expect("an arc carries too much");
                }
            }
            got[at as usize] += path.weight;
        }
        let part = Ratio::new(limit.rate.num, limit.rate.den * u64::from(network.terminals));
        for terminal in (0..network.terminals).filter(|&terminal| terminal != root) {
            assert_eq!(Ratio::new(got[terminal as usize], found.factor), part);
        }
    }

    #[test]
    fn a_dgx1_is_as_fast_as_its_links_from_the_root() {
        for (doubled, links) in [(1, 4), (2, 6)] {
            let network = dgx1(doubled);
            for root in 0..8 {
                assert_eq!(rate(&network, root).unwrap().unwrap().rate, Ratio::new(8 * links, 7));
                check(&network, root);
            }
        }
    }

    #[test]
    fn a_switch_is_passed_at_once() {
        let network = star(5, 6);
        check(&network, 2);
        let found = paths(&network, 2, rate(&network, 2).unwrap().unwrap().rate).unwrap();
        assert!(found.paths.iter().all(|path| path.arcs.len() == 1));
        assert_eq!(found.paths.len(), 4);
    }

    #[test]
    fn a_far_terminal_limits_all() {
        let network = Network::new(4, 4, both(&[(0, 1, 8), (1, 2, 3), (1, 3, 1)])).unwrap();
        let limit = rate(&network, 0).unwrap().unwrap();
        assert_eq!((limit.rate, &limit.sets[..], limit.capacity), (Ratio::whole(4), &[vec![3]][..], 1));
        check(&network, 0);
    }

    #[test]
    fn terminals_alone_or_out_of_reach() {
        assert_eq!(rate(&Network::new(1, 1, []).unwrap(), 0).unwrap(), None);
        let apart = Network::new(3, 3, both(&[(0, 1, 5)])).unwrap();
        let limit = rate(&apart, 0).unwrap().unwrap();
        assert_eq!(limit.rate, Ratio::ZERO);
        assert_eq!(paths(&apart, 0, limit.rate).unwrap().paths, []);
    }

    proptest! {
        #[test]
        fn the_least_bound_is_reached(network in networks(6, 9)) {
            for root in 0..network.terminals {
                check(&network, root);
            }
        }

        /// With switches that may send more than they receive, too.
        #[test]
        fn switches_cost_nothing(terminals in 2u32..6, network in networks(7, 5)) {
            let network = Network { terminals: terminals.min(network.nodes), ..network };
            for root in 0..network.terminals {
                if network.terminals > 1 {
                    check(&network, root);
                }
            }
        }
    }
}
