//! Orders of dimensions that keep all of them busy: what Themis knows of a fabric, and the loads that it keeps.

use crate::along::Along;
use std::collections::BTreeSet;
use syncline_collective::themis::next_order;
use syncline_collective::{Kind, PhaseId, Plan};
use syncline_core::{Bytes, NodeId, PortId, Rate};
use syncline_endpoint::{RingOrder, Wires};
use syncline_topology::Fabric;

/// How every chunk gets an order of dimensions of its own.
#[derive(Clone, Debug)]
pub struct Balance {
    /// The kinds of collectives that have a plan for each order.
    pub kinds: Vec<Kind>,
    /// The orders, in that of the plans of one kind.
    pub orders: Vec<Vec<u8>>,
    /// Ranks along each dimension.
    pub sizes: Vec<u32>,
    /// Along each dimension, what a rank sends in a second over each of the lanes that chunks take in turn.
    pub lanes: Vec<Vec<Rate>>,
}

/// Time that every lane of each dimension is busy with the chunks so far, in ps.
pub type Loads = Vec<Vec<u128>>;

impl Balance {
    /// Chunks, counted from the oldest unfinished one, whose messages go shortest first: for each lane that they take in
    /// turn, four along every dimension. With fewer, dimensions are seldom all busy; with more, short messages that nothing
    /// waits for yet keep back long ones.
    pub fn urgent(&self) -> u32 {
        const OF_A_DIMENSION: usize = 4;
        let (dims, lanes) =
            (self.sizes.iter().filter(|&&size| size > 1).count(), self.lanes.iter().map(Vec::len).max());
        (OF_A_DIMENSION * dims * lanes.unwrap_or(1)) as u32
    }

    /// No load.
    pub fn idle(&self) -> Loads {
        self.lanes.iter().map(|lanes| vec![0; lanes.len()]).collect()
    }

    /// What a chunk finds in the lanes that it takes.
    fn of_lane<T: Copy>(lane: u32, dims: &[Vec<T>]) -> Vec<T> {
        dims.iter().map(|lanes| lanes[lane as usize % lanes.len()]).collect()
    }

    /// The place among the orders of that for the next chunk, and the load that it adds to its lane of each dimension.
    pub fn next(&self, loads: &Loads, lane: u32, len: Bytes, kind: Kind) -> (usize, Vec<u128>) {
        let (loads, rates) = (Self::of_lane(lane, loads), Self::of_lane(lane, &self.lanes));
        next_order(&loads, &self.orders, &self.sizes, &rates, len, kind)
    }
}

/// Per dimension, what a rank sends in a second over each of the lanes that chunks of a kind take in turn: the port of
/// each lane of a ring, all ports together that lead to peers where chunks go to each of them.
pub fn lane_rates(
    whole: Option<&Along<'_>>,
    fabric: &dyn Fabric,
    plans: &[Plan],
    wires: &[Wires],
    kind: Kind,
) -> Vec<Vec<Rate>> {
    let node = NodeId(0);
    let rate = |port: PortId| fabric.link(node, port).rate;
    let plans = || plans.iter().filter(move |plan| plan.kind() == kind);
    let phases = || plans().flat_map(|plan| plan.phase_ids().map(move |phase| (plan, phase)));
    let along = |(plan, phase): (&Plan, PhaseId), dim| usize::from(plan.phases()[phase.index()].dim) == dim;
    let goes_round = |dim: usize| phases().any(|(plan, phase)| along((plan, phase), dim) && plan.goes_round(phase));
    let lanes = |(dim, wires): (usize, &Wires)| match wires {
        Wires::Ports(ports) if goes_round(dim) => ports.iter().map(|&(port, _)| rate(port)).collect(),
        Wires::Orders(lanes) if goes_round(dim) && lanes.iter().flatten().all(|ring| ring.ports.is_some()) => {
            let port = |lane: &Vec<RingOrder>| lane[0].ports.as_ref().map_or(PortId(0), |ports| ports[0]);
            lanes.iter().map(|lane| rate(port(lane))).collect()
        }
        _ => {
            let ports: BTreeSet<PortId> = whole
                .map_or_else(|| (0..fabric.ports(node)).map(PortId).collect(), |along| along.first_ports(node, dim));
            let sum = ports.iter().map(|&port| rate(port).bytes_per_s()).fold(0, u64::saturating_add);
            let lanes = if let (Wires::Orders(lanes), true) = (wires, goes_round(dim)) { lanes.len() } else { 1 };
            vec![Rate::new(sum / lanes as u64).unwrap_or(Rate::UNLIMITED); lanes]
        }
    };
    wires.iter().enumerate().map(lanes).collect()
}
