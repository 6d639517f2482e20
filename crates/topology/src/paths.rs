//! Paths as sequences of output ports, each stored once.
//!
//! A path does not include its start, so on a symmetric fabric all nodes share their paths, and a packet or
//! message carries only its position in the table. On a folded fabric this is the only way to find the next
//! hop, since the number of the destination means the destination only at the source.

use crate::fabric::Fabric;
use std::collections::BTreeMap;
use syncline_core::{NodeId, PortId};

/// One hop of a path.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// The output port it takes.
    pub port: PortId,
    /// Whether it enters a ring: its first hop there.
    pub enters: bool,
    /// Whether it leads to the destination.
    pub last: bool,
}

/// All paths in use.
#[derive(Clone, Debug)]
pub struct Paths {
    hops: Vec<Hop>,
    known: BTreeMap<Box<[PortId]>, u32>,
    scratch: Vec<PortId>,
    looked_up: u64,
}

impl Paths {
    /// The paths of one hop, one for each port.
    pub fn new(fabric: &(impl Fabric + ?Sized)) -> Paths {
        // All NPUs of a fabric with rings have the same ports.
        let enters = |port| port < fabric.ports(NodeId(0)) && fabric.ring(NodeId(0), PortId(port)).is_some();
        let one_hop = |port| Hop { port: PortId(port), enters: enters(port), last: true };
        let ports = (0..fabric.nodes()).map(|n| fabric.ports(NodeId(n))).max().unwrap_or(0);
        Paths { hops: (0..ports).map(one_hop).collect(), known: BTreeMap::new(), scratch: Vec::new(), looked_up: 0 }
    }

    /// The path of one hop out of a port.
    #[inline(always)]
    pub fn through(&self, port: PortId) -> u32 {
        u32::from(port.0)
    }

    /// The path between two nodes, by one of the ways that are as good; `None` when they are the same.
    pub fn between(
        &mut self,
        fabric: &(impl Fabric + ?Sized),
        src: NodeId,
        (dst, choice): (NodeId, u16),
    ) -> Option<u32> {
        self.scratch.clear();
        fabric.route_by(src, dst, choice, &mut self.scratch);
        self.looked_up += self.scratch.len() as u64;
        if self.scratch.is_empty() {
            return None;
        }
        if let Some(&start) = self.known.get(&self.scratch[..]) {
            return Some(start);
        }
        let start = u32::try_from(self.hops.len()).expect("positions on all paths fit 32 bits");
        let (mut at, mut before) = (src, None);
        for (i, &port) in self.scratch.iter().enumerate() {
            let ring = fabric.ring(at, port);
            let enters = ring.is_some() && ring != before;
            self.hops.push(Hop { port, enters, last: i + 1 == self.scratch.len() });
            (at, before) = (fabric.next(at, port).0, ring);
        }
        self.known.insert(self.scratch.clone().into_boxed_slice(), start);
        Some(start)
    }

    /// Hops of all paths between two nodes, as often as they were asked for.
    pub fn looked_up(&self) -> u64 {
        self.looked_up
    }

    /// The hop at a position.
    #[inline(always)]
    pub fn hop(&self, position: u32) -> Hop {
        self.hops[position as usize]
    }
}
