//! Tables of the costs of best ways, a table for each destination that is asked for.
//!
//! Hops count before time, so a search goes hop by hop: all ways of so many hops end where those of one hop less do. A
//! fabric of 8,192 NPUs has thousands of tables with tens of thousands of nodes each, and few costs that differ, since
//! servers are alike. So a table holds the costs once, and their numbers for all nodes.

use super::{Graph, GraphLink, PROBE};
use crate::fabric::Fabric;
use syncline_core::{NodeId, PortId};

/// Cost of a way: hops, then time of a probe that is sent hop by hop.
pub(super) type Cost = (u32, u64);

/// The cost of what cannot be reached.
pub(super) const UNREACHABLE: Cost = (u32::MAX, u64::MAX);

/// The cost of the best way from every node.
#[derive(Debug)]
pub(super) struct Costs {
    /// Each cost once; the first is [`UNREACHABLE`].
    distinct: Vec<Cost>,
    numbers: Numbers,
}

/// Per node, the number of its cost.
#[derive(Debug)]
enum Numbers {
    Narrow(Box<[u16]>),
    Wide(Box<[u32]>),
}

impl Costs {
    /// The cost from a node, or from a state of a search over a tree.
    pub(super) fn at(&self, state: usize) -> Cost {
        self.distinct[match &self.numbers {
            Numbers::Narrow(numbers) => usize::from(numbers[state]),
            Numbers::Wide(numbers) => numbers[state] as usize,
        }]
    }

    /// How many nodes or states there are.
    pub(super) fn len(&self) -> usize {
        match &self.numbers {
            Numbers::Narrow(numbers) => numbers.len(),
            Numbers::Wide(numbers) => numbers.len(),
        }
    }
}

/// A link as seen from where it leads to. A search goes through all of them, so what it needs lies side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entering {
    from: u32,
    /// Its number.
    link: u32,
    /// How long a probe takes over it.
    probe: u64,
}

/// A search backwards from a destination.
struct Search {
    costs: Vec<Cost>,
    /// What has been reached, by hops.
    reached: Vec<usize>,
    /// Where each number of hops begins in it.
    levels: Vec<usize>,
}

impl Search {
    fn new(states: usize) -> Search {
        Search { costs: vec![UNREACHABLE; states], reached: Vec::new(), levels: vec![0] }
    }

    /// A way of this cost from a state.
    fn reach(&mut self, state: usize, cost: Cost) {
        let known = &mut self.costs[state];
        if *known == UNREACHABLE {
            self.reached.push(state);
        }
        *known = cost.min(*known);
    }

    /// Goes on from what was reached last until nothing is: `before` calls back with what comes before a state, and the
    /// cost of the hop.
    fn run(mut self, before: impl Fn(usize, &mut dyn FnMut(usize, u64))) -> Costs {
        while self.levels.last().is_some_and(|&begin| begin < self.reached.len()) {
            let begin = self.levels[self.levels.len() - 1];
            let end = self.reached.len();
            self.levels.push(end);
            for place in begin..end {
                let state = self.reached[place];
                let (hops, time) = self.costs[state];
                before(state, &mut |earlier, probe| {
                    // What fewer hops reach, or as many, keeps its cost: it is smaller.
                    self.reach(earlier, (hops + 1, time.saturating_add(probe)));
                });
            }
        }
        self.table()
    }

    fn table(self) -> Costs {
        let mut distinct = vec![UNREACHABLE];
        let mut numbers = vec![0u32; self.costs.len()].into_boxed_slice();
        for level in self.levels.windows(2) {
            let states = &self.reached[level[0]..level[1]];
            let mut costs: Vec<Cost> = states.iter().map(|&state| self.costs[state]).collect();
            costs.sort_unstable();
            costs.dedup();
            for &state in states {
                let place = costs.binary_search(&self.costs[state]).expect("it is one of them");
                numbers[state] = (distinct.len() + place) as u32;
            }
            distinct.append(&mut costs);
        }
        let numbers = match distinct.len() {
            ..=0x10000 => Numbers::Narrow(numbers.iter().map(|&number| number as u16).collect()),
            _ => Numbers::Wide(numbers),
        };
        Costs { distinct, numbers }
    }
}

impl Graph {
    /// The cost of the way from every node to `dst`, a gate. With a tree the second half of the table is for
    /// messages that have gone down already and may not go up again.
    pub(super) fn costs_to(&self, dst: NodeId) -> &Costs {
        self.costs[dst.index()].get_or_init(|| {
            let (count, with_tree) = (self.nodes.len(), self.tree.is_some());
            let mut search = Search::new(if with_tree { 2 * count } else { count });
            search.reach(dst.index(), (0, 0));
            if with_tree {
                search.reach(count + dst.index(), (0, 0));
            }
            search.run(|state, reach| {
                let (at, down_only) = (NodeId((state % count) as u32), state >= count);
                if at != dst && !self.forwards(at) {
                    return;
                }
                for entering in self.entering(at) {
                    let (from, probe) = (entering.from as usize, entering.probe);
                    // Before a step up one may still go up; a step down may be the first or a later one.
                    match (with_tree && !self.leads_up(&self.links[entering.link as usize]), down_only) {
                        (false, false) => reach(from, probe),
                        (true, true) => {
                            reach(from, probe);
                            reach(count + from, probe);
                        }
                        (false, true) | (true, false) => {}
                    }
                }
            })
        })
    }

    /// The cost from every node but NPUs of the way to `dst` whose last link is of a class.
    pub(super) fn costs_over(&self, class: u8, dst: NodeId) -> &Costs {
        self.costs_over[usize::from(class) * self.npus as usize + dst.index()].get_or_init(|| {
            let mut search = Search::new(self.nodes.len());
            search.reach(dst.index(), (0, 0));
            search.run(|state, reach| {
                let at = NodeId(state as u32);
                for entering in self.entering(at) {
                    let is_of_class = || self.links[entering.link as usize].spec.class == class;
                    if entering.from >= self.npus && (at != dst || is_of_class()) {
                        reach(entering.from as usize, entering.probe);
                    }
                }
            })
        })
    }

    /// All links by the node that they lead to, in the order of its ports.
    pub(super) fn all_entering(&self) -> Vec<Entering> {
        let entering = |(leaving, &arrives): (&GraphLink, &PortId)| {
            let link = self.first_link(leaving.to) + u32::from(arrives.0);
            Entering { from: leaving.to.0, link, probe: probe(&self.links[link as usize]) }
        };
        self.links.iter().zip(&self.arrives).map(entering).collect()
    }

    /// The links that lead to a node.
    fn entering(&self, node: NodeId) -> &[Entering] {
        &self.entering[self.first_link[node.index()] as usize..self.first_link[node.index() + 1] as usize]
    }

    /// The cost of a way that begins with a link, if the rest of it costs so much.
    pub(super) fn cost_with(&self, link: &GraphLink, rest: Cost) -> Cost {
        (rest.0.saturating_add(1), rest.1.saturating_add(probe(link)))
    }
}

/// How long a probe takes over a link.
pub(super) fn probe(link: &GraphLink) -> u64 {
    link.spec.rate.time(PROBE).0.saturating_add(link.spec.latency.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::LinkSpec;
    use crate::graph::GraphNode;
    use proptest::prelude::*;
    use syncline_core::{Ps, Rate};

    /// The least cost of ways to a node, found by trying every link until nothing gets better. Only switches forward.
    fn tried(npus: u32, nodes: u32, links: &[GraphLink], dst: NodeId, last: impl Fn(&GraphLink) -> bool) -> Vec<Cost> {
        let mut costs = vec![UNREACHABLE; nodes as usize];
        costs[dst.index()] = (0, 0);
        for _ in 0..nodes {
            for link in links {
                let rest = costs[link.to.index()];
                let allowed = if link.to == dst { last(link) } else { link.to.0 >= npus };
                if allowed && rest != UNREACHABLE {
                    let cost = (rest.0 + 1, rest.1 + probe(link));
                    costs[link.from.index()] = cost.min(costs[link.from.index()]);
                }
            }
        }
        costs
    }

    proptest! {
        #[test]
        fn searches_find_the_least_costs(
            npus in 2u32..5, switches in 1u32..5, pairs in prop::collection::vec((any::<u16>(), any::<u16>(), 1u64..4, 0u8..2), 0..20),
        ) {
            let nodes = npus + switches;
            // One switch has all NPUs, so that no NPU has to forward.
            let star = (0..npus).map(|npu| (npu, npus, 1, 0));
            let more = pairs.iter().map(|&(a, b, rate, class)| (u32::from(a) % nodes, u32::from(b) % nodes, rate, class));
            let both = |(a, b, rate, class): (u32, u32, u64, u8)| {
                let spec = LinkSpec::new(Rate::new(rate * 1_000_000_000).unwrap(), Ps(rate), class);
                let (from, to) = (NodeId(a), NodeId(b));
                [GraphLink { from, to, spec }, GraphLink { from: to, to: from, spec }]
            };
            let links: Vec<GraphLink> = star.chain(more).filter(|(a, b, ..)| a != b).flat_map(both).collect();
            let named = (0..nodes).map(|n| GraphNode { name: format!("N{n}"), forwards: true }).collect();
            let classes = vec!["one".into(), "other".into()];
            let participants: Vec<NodeId> = (0..npus).map(NodeId).collect();
            let graph = Graph::new(named, npus, classes, links.clone(), &participants).unwrap();
            for dst in (0..nodes).map(NodeId) {
                let costs: Vec<Cost> = (0..nodes as usize).map(|node| graph.costs_to(dst).at(node)).collect();
                prop_assert_eq!(costs, tried(npus, nodes, &links, dst, |_| true));
            }
            for (class, dst) in [0u8, 1].into_iter().flat_map(|class| (0..npus).map(move |dst| (class, NodeId(dst)))) {
                let found = graph.costs_over(class, dst);
                let costs = tried(npus, nodes, &links, dst, |link| link.spec.class == class);
                for (node, cost) in costs.into_iter().enumerate().skip(npus as usize) {
                    prop_assert_eq!(found.at(node), cost);
                }
            }
        }
    }
}
