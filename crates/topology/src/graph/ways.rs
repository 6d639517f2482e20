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
        let (gate, count) = (self.gates[dst.index()], self.nodes.len());
        let costs = self.costs_to(gate);
        let last = at == gate;
        let last_hop = |link: &&GraphLink| last && link.to == dst;
        let best = self.out_links(at).iter().filter(last_hop).map(|link| self.cost_with(link, (0, 0))).min();
        let left = best.unwrap_or_else(|| costs.at(usize::from(down) * count + at.index()));
        assert!(left != UNREACHABLE, "participants reach each other");
        let continues = move |link: &GraphLink| {
            if last {
                return link.to == dst && self.cost_with(link, (0, 0)) == left;
            }
            let goes_down = self.goes_down(link);
            if down && !goes_down || link.to != dst && !self.forwards(link.to) {
                return false;
            }
            let rest = costs.at(usize::from(goes_down) * count + link.to.index());
            rest != UNREACHABLE && self.cost_with(link, rest) == left
        };
        (0..).map(PortId).zip(self.out_links(at)).filter(move |(_, link)| continues(link))
    }

    /// How many best ways there are to an NPU from a node that is not the NPU, up to [`Graph::MAX_WAYS`].
    pub(super) fn ways(&self, at: NodeId, down: bool, dst: NodeId) -> u16 {
        let gate = self.gates[dst.index()];
        let parallel = if gate == dst { 1 } else { self.onward(gate, down, dst).count() };
        let to_gate = self.ways_to(gate)[usize::from(down) * self.nodes.len() + at.index()];
        (usize::from(to_gate) * parallel).min(Self::MAX_WAYS.into()) as u16
    }

    /// The number of best ways from every node to a gate, indexed as its costs are.
    fn ways_to(&self, gate: NodeId) -> &[u16] {
        self.ways[gate.index()].get_or_init(|| {
            let (costs, count) = (self.costs_to(gate), self.nodes.len());
            let mut nearest: Vec<usize> = (0..costs.len()).filter(|&state| costs.at(state) != UNREACHABLE).collect();
            nearest.sort_unstable_by_key(|&state| costs.at(state));
            let mut ways = vec![0u16; costs.len()].into_boxed_slice();
            for state in nearest {
                let (at, down) = (NodeId((state % count) as u32), state >= count);
                let before = |link: &GraphLink| {
                    let goes_down = self.goes_down(link);
                    let rest = usize::from(goes_down) * count + link.to.index();
                    let allowed = (!down || goes_down) && (link.to == gate || self.forwards(link.to));
                    let best = allowed
                        && costs.at(rest) != UNREACHABLE
                        && self.cost_with(link, costs.at(rest)) == costs.at(state);
                    if best { u32::from(ways[rest]) } else { 0 }
                };
                let sum = self.out_links(at).iter().map(before).fold(0, u32::saturating_add);
                ways[state] = if at == gate { 1 } else { sum.min(Self::MAX_WAYS.into()) as u16 };
            }
            ways
        })
    }
}
