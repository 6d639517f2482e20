//! The best ways to an NPU: where they go on from a node, and how many there are.

use super::costs::UNREACHABLE;
use super::{Graph, GraphLink};
use syncline_core::{NodeId, PortId};

impl Graph {
    /// The links that lead on from a node on the best ways to an NPU, with their ports; `down` if one has gone down the tree.
    pub(super) fn onward(
        &self,
        at: NodeId,
        down: bool,
        dst: NodeId,
    ) -> impl Iterator<Item = (PortId, &GraphLink)> + Clone {
        let gate = self.gates[dst.index()];
        let costs = self.costs_to(gate);
        let last = at == gate;
        let last_hops = || self.out_links(at).iter().filter(move |link| link.to == dst);
        let best = if last { last_hops().map(|link| self.cost_with(link, (0, 0))).min() } else { None };
        let left = best.unwrap_or_else(|| self.cost(costs, at, down, gate));
        assert!(left != UNREACHABLE, "participants reach each other");
        let continues = move |link: &GraphLink| {
            if last {
                return link.to == dst && self.cost_with(link, (0, 0)) == left;
            }
            let goes_down = self.goes_down(link);
            if down && !goes_down || link.to != dst && !self.forwards(link.to) {
                return false;
            }
            let rest = self.cost(costs, link.to, goes_down, gate);
            rest != UNREACHABLE && self.cost_with(link, rest) == left
        };
        let links = self.out_links(at);
        let ports = self.candidates(costs, at).map(move |port| (port, &links[port.index()]));
        ports.filter(move |(_, link)| continues(link))
    }

    /// Whether best ways that begin with these links meet no more than one hop before an NPU: there is one way over each
    /// link, and their last two hops differ.
    pub(super) fn meet_near<'a>(
        &self,
        links: impl Iterator<Item = (PortId, &'a GraphLink)>,
        down: bool,
        dst: NodeId,
    ) -> bool {
        let mut ends = Vec::new();
        for (_, link) in links {
            let Some(end) = self.last_hops(link, down, dst) else { return false };
            if ends.contains(&end) {
                return false;
            }
            ends.push(end);
        }
        true
    }

    /// The nodes that the last two hops of the way over a link leave, if there is one best way.
    fn last_hops(&self, link: &GraphLink, down: bool, dst: NodeId) -> Option<[NodeId; 2]> {
        let (mut left, mut at) = ([link.from; 2], link.to);
        let mut down = down || self.goes_down(link);
        while at != dst {
            let mut onward = self.onward(at, down, dst);
            let (_, next) = onward.next()?;
            if onward.next().is_some() {
                return None;
            }
            left = [left[1], at];
            down |= self.goes_down(next);
            at = next.to;
        }
        Some(left)
    }

    /// How many best ways there are to an NPU from a node that is not the NPU, up to [`Graph::MAX_WAYS`].
    pub(super) fn ways(&self, at: NodeId, down: bool, dst: NodeId) -> u16 {
        let gate = self.gates[dst.index()];
        let parallel = if gate == dst { 1 } else { self.onward(gate, down, dst).count() };
        let to_gate = self.ways_from(self.ways_to(gate), at, down, gate);
        (usize::from(to_gate) * parallel).min(Self::MAX_WAYS.into()) as u16
    }

    /// The number of best ways from a node to `gate`, if `ways` are those there.
    fn ways_from(&self, ways: &[u16], at: NodeId, down: bool, gate: NodeId) -> u16 {
        if self.tree.is_some() {
            return ways[usize::from(down) * self.nodes.len() + at.index()];
        }
        match at {
            _ if at == gate => 1,
            NodeId(npu) if npu < self.npus => self.ways_onward(ways, at, down, gate),
            switch => ways[self.place(switch)],
        }
    }

    /// The same, by the best ways from the nodes that links lead to.
    fn ways_onward(&self, ways: &[u16], at: NodeId, down: bool, gate: NodeId) -> u16 {
        let costs = self.costs_to(gate);
        let best = self.cost(costs, at, down, gate);
        let before = |link: &GraphLink| {
            let goes_down = self.goes_down(link);
            if down && !goes_down || link.to != gate && !self.forwards(link.to) {
                return 0;
            }
            let rest = self.cost(costs, link.to, goes_down, gate);
            let is_best = rest != UNREACHABLE && self.cost_with(link, rest) == best;
            if is_best { u32::from(self.ways_from(ways, link.to, goes_down, gate)) } else { 0 }
        };
        let sum = self.out_links(at).iter().map(before).fold(0, u32::saturating_add);
        sum.min(Self::MAX_WAYS.into()) as u16
    }

    /// The number of best ways from every switch to a gate, indexed as its costs are.
    fn ways_to(&self, gate: NodeId) -> &[u16] {
        self.ways[self.twin(gate).index()].get_or_init(|| {
            let costs = self.costs_to(gate);
            let mut nearest: Vec<usize> = (0..costs.len()).filter(|&state| costs.at(state) != UNREACHABLE).collect();
            nearest.sort_unstable_by_key(|&state| costs.at(state));
            let mut ways = vec![0u16; costs.len()].into_boxed_slice();
            let (count, first) = (self.nodes.len(), if self.tree.is_some() { 0 } else { self.npus as usize });
            for state in nearest {
                let (at, down) = (NodeId(((first + state) % count) as u32), first + state >= count);
                ways[state] = if at == gate { 1 } else { self.ways_onward(&ways, at, down, gate) };
            }
            ways
        })
    }
}
