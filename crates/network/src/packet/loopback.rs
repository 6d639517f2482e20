//! Messages from a node to itself: no link, no time, no buffer.

use super::trains::Train;
use super::{Event, Packet, Timer};
use crate::api::{NetOut, class};
use std::collections::VecDeque;
use syncline_core::{Key, NodeId, PortId, Ps, Schedule};
use syncline_topology::Fabric;

/// They are reported on this port. Of all packets that the NPU holds there it releases these first.
pub(super) const PORT: PortId = PortId(0);

/// What a node has sent to itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Loopback {
    queue: VecDeque<Train>,
    /// Packets that the NPU has been told of and will release as if they had come by a link.
    held: u64,
}

impl Loopback {
    /// The NPU releases a packet on [`PORT`]; true when it was one of these.
    pub fn release(&mut self) -> bool {
        let ours = self.held > 0;
        self.held -= u64::from(ours);
        ours
    }
}

impl<F: Fabric> Packet<F> {
    /// A train arrives where it starts.
    pub(super) fn loop_back(&mut self, now: Ps, at: NodeId, train: Train, q: &mut impl Schedule<Event>) {
        self.loopbacks[at.index()].queue.push_back(train);
        q.at(now, Key::new(class::ARRIVAL, u32::from(PORT.0)), Event(Timer::Loopback(at)));
    }

    /// The node hears of it.
    pub(super) fn looped_back(&mut self, now: Ps, at: NodeId, news: &mut Vec<NetOut>) {
        let loopback = &mut self.loopbacks[at.index()];
        let train = loopback.queue.pop_front().expect("one event for each train");
        if !self.messages[train.msg].is_stored() {
            loopback.held += u64::from(train.packets);
        }
        let receipt = self.messages[train.msg].message.receipt.filter(|_| train.state.is_tail());
        news.extend(receipt.map(|receipt| NetOut::Left { at, receipt }));
        self.announce(now, at, PORT, Ps::ZERO, train, news);
    }
}
