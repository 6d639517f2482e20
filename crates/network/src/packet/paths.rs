//! Paths as sequences of output ports, each stored once.
//!
//! A path does not know where it starts, so on a symmetric fabric all nodes share their paths, and a
//! packet carries no more than its position in the table.

use std::collections::BTreeMap;
use syncline_core::{NodeId, PortId};
use syncline_topology::Fabric;

/// One hop of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// The output port it takes.
    pub port: PortId,
    /// Whether it enters a ring: the first hop, or the first in another dimension.
    pub enters: bool,
    /// Whether the packet is at its destination then.
    pub last: bool,
}

/// All paths in use.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    hops: Vec<Hop>,
    known: BTreeMap<Box<[PortId]>, u32>,
    scratch: Vec<PortId>,
}

impl Paths {
    /// The paths of one hop, one for each port.
    pub fn new(ports: u8) -> Paths {
        let one_hop = |port| Hop { port: PortId(port), enters: true, last: true };
        Paths { hops: (0..ports).map(one_hop).collect(), known: BTreeMap::new(), scratch: Vec::new() }
    }

    /// The path of one hop out of a port.
    #[inline(always)]
    pub fn through(&self, port: PortId) -> u32 {
        u32::from(port.0)
    }

    /// The path between two nodes; `None` when they are the same.
    pub fn between(&mut self, fabric: &impl Fabric, src: NodeId, dst: NodeId) -> Option<u32> {
        self.scratch.clear();
        fabric.route(src, dst, &mut self.scratch);
        if self.scratch.is_empty() {
            return None;
        }
        if let Some(&start) = self.known.get(&self.scratch[..]) {
            return Some(start);
        }
        let start = self.hops.len() as u32;
        let dim = |port: PortId| fabric.port_use(port).dim;
        for (i, &port) in self.scratch.iter().enumerate() {
            let enters = i == 0 || dim(self.scratch[i - 1]) != dim(port);
            self.hops.push(Hop { port, enters, last: i + 1 == self.scratch.len() });
        }
        self.known.insert(self.scratch.clone().into_boxed_slice(), start);
        Some(start)
    }

    /// The hop at a position.
    #[inline(always)]
    pub fn hop(&self, position: u32) -> Hop {
        self.hops[position as usize]
    }
}
