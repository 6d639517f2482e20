//! Tables of the costs of best ways, a table for each destination that is asked for.
//!
//! Hops count before time, so a search goes hop by hop: all ways of so many hops end where those of one hop less do. A
//! fabric of 8,192 NPUs has thousands of tables with tens of thousands of nodes each, and few costs that differ, since
//! servers are alike. So a table holds the costs once, and their numbers for all nodes. Unless NPUs forward, tables are of
//! switches only: what a way from an NPU costs follows from those of the switches next to it. NPUs with equal links from the
//! same switches, such as those behind a PCIe switch, then have one table.
//!
//! Where a way goes on from a node is found by looking at all its links. For *wide* nodes, such as switches between a
//! thousand servers, that is done once for each table of switches.

use super::{Graph, GraphLink, PROBE};
use crate::fabric::Fabric;
use std::collections::BTreeMap;
use syncline_core::{NodeId, PortId};

/// Cost of a way: hops, then time of a probe that is sent hop by hop.
pub(super) type Cost = (u32, u64);

/// The cost of what cannot be reached.
pub(super) const UNREACHABLE: Cost = (u32::MAX, u64::MAX);

/// Nodes with more links are wide: in tests, those of small graphs.
const NARROW: usize = if cfg!(test) { 2 } else { 32 };

/// The cost of the best way from every switch, or from every node.
#[derive(Debug)]
pub(super) struct Costs {
    /// Each cost once; the first is [`UNREACHABLE`].
    distinct: Vec<Cost>,
    numbers: Numbers,
    /// The numbers of the links from wide switches to other switches that lead on on best ways.
    out_of_wide: Box<[u32]>,
}

/// Per node, the number of its cost.
#[derive(Debug)]
enum Numbers {
    Narrow(Box<[u16]>),
    Wide(Box<[u32]>),
}

impl Costs {
    /// The cost from a switch by its place, or from a state of a search over a tree.
    pub(super) fn at(&self, state: usize) -> Cost {
        self.distinct[match &self.numbers {
            Numbers::Narrow(numbers) => usize::from(numbers[state]),
            Numbers::Wide(numbers) => numbers[state] as usize,
        }]
    }

    /// How many switches or states there are.
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

/// All links by the node that they lead to: first those from switches.
#[derive(Debug, Default)]
pub(super) struct AllEntering {
    links: Vec<Entering>,
    /// Per node, where its links begin.
    first: Vec<u32>,
    /// Per node, where those from switches end.
    switches: Vec<u32>,
    /// Per NPU, the first one with equal links from the same switches.
    twins: Vec<NodeId>,
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

    /// Goes on from what was reached last until nothing is: `before` says what comes before a state, and the time of the hop.
    fn run<B: IntoIterator<Item = (usize, u64)>>(mut self, before: impl Fn(usize) -> B) -> Costs {
        while self.levels.last().is_some_and(|&begin| begin < self.reached.len()) {
            let begin = self.levels[self.levels.len() - 1];
            let end = self.reached.len();
            self.levels.push(end);
            for place in begin..end {
                let state = self.reached[place];
                let (hops, time) = self.costs[state];
                for (earlier, probe) in before(state) {
                    // What fewer hops reach, or as many, keeps its cost: it is smaller.
                    self.reach(earlier, (hops + 1, time.saturating_add(probe)));
                }
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
                let place = match costs.len() {
                    1 => 0,
                    _ => costs.binary_search(&self.costs[state]).expect("it is one of them"),
                };
                numbers[state] = (distinct.len() + place) as u32;
            }
            distinct.append(&mut costs);
        }
        let numbers = match distinct.len() {
            ..=0x10000 => Numbers::Narrow(numbers.iter().map(|&number| number as u16).collect()),
            _ => Numbers::Wide(numbers),
        };
        Costs { distinct, numbers, out_of_wide: Box::default() }
    }
}

impl AllEntering {
    /// The links that lead to a node.
    fn all(&self, node: NodeId) -> &[Entering] {
        &self.links[self.first[node.index()] as usize..self.first[node.index() + 1] as usize]
    }

    /// Those of them that come from switches.
    fn of_switches(&self, node: NodeId) -> &[Entering] {
        &self.links[self.first[node.index()] as usize..self.switches[node.index()] as usize]
    }
}

impl Graph {
    /// The costs of ways to `dst`, a gate: see [`Graph::cost`].
    pub(super) fn costs_to(&self, dst: NodeId) -> &Costs {
        self.costs[self.twin(dst).index()].get_or_init(|| match self.tree {
            Some(_) => self.search_tree(dst),
            None => {
                let costs = self.search(dst, |_| true);
                Costs { out_of_wide: self.out_of_wide(&costs, dst), ..costs }
            }
        })
    }

    /// The links from wide switches that lead on, to other switches, on the best ways to `dst`.
    fn out_of_wide(&self, costs: &Costs, dst: NodeId) -> Box<[u32]> {
        let leads_on = |link: &u32| {
            let GraphLink { from, to, .. } = self.links[*link as usize];
            let rest = if to.0 >= self.npus { self.cost_from(costs, to, dst) } else { UNREACHABLE };
            let cost = self.cost_with(&self.links[*link as usize], rest);
            from != dst && rest != UNREACHABLE && cost == self.cost_from(costs, from, dst)
        };
        let links = |node: &u32| self.first_link[*node as usize]..self.first_link[*node as usize + 1];
        let is_wide = |node: &u32| links(node).len() > NARROW;
        (self.npus..self.nodes.len() as u32).filter(is_wide).flat_map(|node| links(&node)).filter(leads_on).collect()
    }

    /// The ports of a node by which best ways to `dst`, a gate, may go on, if `costs` are those of ways there: those of the best
    /// links where they are known, else all.
    pub(super) fn candidates<'a>(
        &self,
        costs: &'a Costs,
        at: NodeId,
    ) -> impl Iterator<Item = PortId> + Clone + use<'a> {
        let (first, end) = (self.first_link[at.index()], self.first_link[at.index() + 1]);
        let place = |link: u32| costs.out_of_wide.partition_point(|&known| known < link);
        let known = match (end - first) as usize > NARROW {
            true => &costs.out_of_wide[place(first)..place(end)],
            false => &[],
        };
        let others = if known.is_empty() { 0..(end - first) as u16 } else { 0..0 };
        known.iter().map(move |link| PortId((link - first) as u16)).chain(others.map(PortId))
    }

    /// The costs from switches of ways to `dst`, an NPU, whose last link is of a class.
    pub(super) fn costs_over(&self, class: u8, dst: NodeId) -> &Costs {
        let twin = self.entering.twins[dst.index()];
        self.costs_over[usize::from(class) * self.npus as usize + twin.index()]
            .get_or_init(|| self.search(dst, |last| self.links[last.link as usize].spec.class == class))
    }

    /// The gate whose tables are those of `gate`.
    pub(super) fn twin(&self, gate: NodeId) -> NodeId {
        if self.tree.is_none() && gate.0 < self.npus { self.entering.twins[gate.index()] } else { gate }
    }

    /// The place of a switch in tables of switches.
    pub(super) fn place(&self, switch: NodeId) -> usize {
        switch.index() - self.npus as usize
    }

    /// The cost of the best way from a node to `dst`, a gate, if `costs` are those of ways there; with a tree from before or
    /// after the first step `down`.
    pub(super) fn cost(&self, costs: &Costs, at: NodeId, down: bool, dst: NodeId) -> Cost {
        if self.tree.is_some() {
            return costs.at(usize::from(down) * self.nodes.len() + at.index());
        }
        if at.0 < self.npus && at != dst {
            let onward = self.out_links(at).iter().filter(|link| link.to == dst || self.forwards(link.to));
            let through = onward.map(|link| self.cost_with(link, self.cost_from(costs, link.to, dst)));
            return through.min().unwrap_or(UNREACHABLE);
        }
        self.cost_from(costs, at, dst)
    }

    /// The cost of the best way from `dst` itself or a switch, if only switches forward and `costs` are those of ways to
    /// `dst`.
    pub(super) fn cost_from(&self, costs: &Costs, at: NodeId, dst: NodeId) -> Cost {
        if at == dst { (0, 0) } else { costs.at(self.place(at)) }
    }

    /// The costs from all switches of ways over switches to a switch, or to an NPU by such a last link.
    fn search(&self, dst: NodeId, may_be_last: impl Fn(&Entering) -> bool) -> Costs {
        let mut search = Search::new(self.nodes.len() - self.npus as usize);
        let npus = self.npus as usize;
        let place = move |entering: &Entering| entering.from as usize - npus;
        if dst.0 < self.npus {
            for last in self.entering.of_switches(dst).iter().filter(|last| may_be_last(last)) {
                search.reach(place(last), (1, last.probe));
            }
        } else {
            search.reach(self.place(dst), (0, 0));
        }
        search.run(|switch| {
            let entering = self.entering.of_switches(NodeId(switch as u32 + self.npus));
            entering.iter().map(move |entering| (place(entering), entering.probe))
        })
    }

    /// The costs from all nodes of ways up and then down the tree; the second half of the table is for messages that have
    /// gone down already and may not go up again.
    fn search_tree(&self, dst: NodeId) -> Costs {
        let count = self.nodes.len();
        let mut search = Search::new(2 * count);
        search.reach(dst.index(), (0, 0));
        search.reach(count + dst.index(), (0, 0));
        search.run(|state| {
            let (at, down_only) = (NodeId((state % count) as u32), state >= count);
            let entering = if at == dst || self.forwards(at) { self.entering.all(at) } else { &[] };
            entering.iter().flat_map(move |entering| {
                let (from, probe) = (entering.from as usize, entering.probe);
                // Before a step up one may still go up; a step down may be the first or a later one.
                let before = match (self.leads_up(&self.links[entering.link as usize]), down_only) {
                    (true, false) => [Some(from), None],
                    (false, true) => [Some(from), Some(count + from)],
                    (true, true) | (false, false) => [None, None],
                };
                before.into_iter().flatten().map(move |state| (state, probe))
            })
        })
    }

    /// All links by the node that they lead to.
    pub(super) fn all_entering(&self) -> AllEntering {
        let mut all = AllEntering { links: Vec::with_capacity(self.links.len()), ..AllEntering::default() };
        let mut known: BTreeMap<Vec<(u32, u64, u8)>, NodeId> = BTreeMap::new();
        for node in (0..self.nodes.len() as u32).map(NodeId) {
            let entering = |(leaving, &arrives): (&GraphLink, &PortId)| {
                let link = self.first_link(leaving.to) + u32::from(arrives.0);
                Entering { from: leaving.to.0, link, probe: probe(&self.links[link as usize]) }
            };
            let first = self.first_link(node) as usize;
            let arrives = &self.arrives[first..first + self.out_links(node).len()];
            let mut links: Vec<Entering> = self.out_links(node).iter().zip(arrives).map(entering).collect();
            links.sort_unstable_by_key(|entering| (entering.from < self.npus, entering.link));
            let switches = links.partition_point(|entering| entering.from >= self.npus);
            if node.0 < self.npus {
                let class = |entering: &Entering| self.links[entering.link as usize].spec.class;
                let key = links[..switches].iter().map(|entering| (entering.from, entering.probe, class(entering)));
                let mut key: Vec<(u32, u64, u8)> = key.collect();
                key.sort_unstable();
                all.twins.push(*known.entry(key).or_insert(node));
            }
            all.first.push(all.links.len() as u32);
            all.switches.push((all.links.len() + switches) as u32);
            all.links.append(&mut links);
        }
        all.first.push(all.links.len() as u32);
        all
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
                let cost = |node| graph.cost(graph.costs_to(dst), node, false, dst);
                let costs: Vec<Cost> = (0..nodes).map(NodeId).map(cost).collect();
                prop_assert_eq!(costs, tried(npus, nodes, &links, dst, |_| true));
            }
            // Ways go on over the links that are equally good, and there are as many as they lead to.
            for dst in (0..npus).map(NodeId) {
                let costs = tried(npus, nodes, &links, dst, |_| true);
                let rest = |link: &GraphLink| costs[link.to.index()];
                let mut nearest: Vec<NodeId> = (0..nodes).map(NodeId).collect();
                nearest.sort_by_key(|node| costs[node.index()]);
                let mut ways = vec![0u16; nodes as usize];
                for at in nearest.into_iter().filter(|&at| costs[at.index()] != UNREACHABLE) {
                    let goes_on = |link: &&GraphLink| {
                        let may_pass = link.to == dst || link.to.0 >= npus;
                        may_pass && rest(link) != UNREACHABLE && graph.cost_with(link, rest(link)) == costs[at.index()]
                    };
                    let onward: Vec<&GraphLink> = graph.out_links(at).iter().filter(goes_on).collect();
                    ways[at.index()] = onward.iter().map(|link| ways[link.to.index()]).sum();
                    if at == dst {
                        ways[at.index()] = 1;
                        continue;
                    }
                    prop_assert_eq!(graph.onward(at, false, dst).map(|(_, link)| link).collect::<Vec<_>>(), onward);
                    prop_assert_eq!(graph.ways(at, false, dst), ways[at.index()]);
                }
            }
            for (class, dst) in [0u8, 1].into_iter().flat_map(|class| (0..npus).map(move |dst| (class, NodeId(dst)))) {
                let found = graph.costs_over(class, dst);
                let costs = tried(npus, nodes, &links, dst, |link| link.spec.class == class);
                for (node, cost) in (0..).map(NodeId).zip(costs).skip(npus as usize) {
                    prop_assert_eq!(graph.cost_from(found, node, dst), cost);
                }
            }
        }
    }
}
