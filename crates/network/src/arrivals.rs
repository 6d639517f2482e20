//! Messages on their last way, in the order in which they will be reported.
//!
//! In a backend without packets several messages may reach a port in the same picosecond. One event
//! reports them all, in an order that no node's number has a part in: by the time at which they were
//! sent, by how many messages their source had sent before, then by tag and length.

use crate::api::MsgId;
use std::collections::BTreeSet;
use syncline_core::{Bytes, NodeId, Ps, id_type};

id_type!(
    /// Where messages arrive: behind the reverse link of an input port, or at the node that sent them.
    Slot
);

/// A message that will be complete. The fields up to `len` tell messages apart that reach the same port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Due {
    pub time: Ps,
    pub sent: Ps,
    pub order: u32,
    pub tag: u64,
    pub len: Bytes,
    pub id: MsgId,
}

/// All that are on their last way.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    links: u32,
    due: Vec<BTreeSet<Due>>,
}

impl Arrivals {
    /// None yet, on a fabric with so many links and nodes.
    pub fn new(links: u32, nodes: u32) -> Arrivals {
        Arrivals { links, due: vec![BTreeSet::new(); (links + nodes) as usize] }
    }

    /// The slot of an input port, named by the link that leaves from there.
    pub fn behind(&self, link: u32) -> Slot {
        Slot(link)
    }

    /// The slot of what a node sends to itself.
    pub fn at_home(&self, node: NodeId) -> Slot {
        Slot(self.links + node.0)
    }

    /// Adds a message; says whether its time needs an event.
    pub fn push(&mut self, slot: Slot, due: Due) -> bool {
        let slot = &mut self.due[slot.index()];
        let first = Due { sent: Ps::ZERO, order: 0, tag: 0, len: Bytes::ZERO, id: MsgId(0), ..due };
        let has_event = slot.range(first..).next().is_some_and(|next| next.time == due.time);
        slot.insert(due);
        !has_event
    }

    /// The next message of a slot that is due now.
    pub fn pop(&mut self, slot: Slot, now: Ps) -> Option<Due> {
        let slot = &mut self.due[slot.index()];
        let first = slot.first()?;
        assert!(first.time >= now, "an event at the time of each message");
        if first.time == now { slot.pop_first() } else { None }
    }
}
