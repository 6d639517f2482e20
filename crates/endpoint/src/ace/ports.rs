//! Port buffers: who puts the next packet into one, and whose FSM sends messages of its own through it.
//!
//! What waits for space is served first come, first served, but packets that are passed on go before those that an FSM
//! sends of its own: chunks that have begun are finished first, and give their SRAM back.

use crate::api::ChunkId;
use crate::servers::ResourceUse;
use std::collections::VecDeque;
use syncline_core::{Bytes, NodeId, PortId, Ps};
use syncline_network::Room;

/// A packet that waits for space in a port buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The chunk that it is of.
    pub seq: ChunkId,
    /// Whether the chunk's FSM sends it of its own, rather than passing it on.
    pub own: bool,
}

/// An output port.
#[derive(Clone, Debug, Default)]
struct Port {
    /// Those that are passed on first.
    waiting: VecDeque<Waiting>,
    /// Whether a timer is set for when there may be space.
    timer: bool,
    /// Chunks whose FSMs have messages of their own to send one after the other; the first one sends.
    senders: VecDeque<ChunkId>,
}

/// The output ports of all NPUs.
#[derive(Debug)]
pub(super) struct Ports {
    ports: Vec<Port>,
    per_npu: usize,
    buffer: Bytes,
    usage: ResourceUse,
}

impl Ports {
    /// The ports of `npus` NPUs, `per_npu` each, whose buffers hold `buffer` bytes of one kind of chunks.
    pub fn new(npus: u32, per_npu: usize, buffer: Bytes) -> Ports {
        let ports = vec![Port::default(); npus as usize * per_npu];
        Ports { ports, per_npu, buffer, usage: ResourceUse::new("port_buffer", per_npu as u32) }
    }

    /// What a buffer holds of one kind of chunks.
    pub fn buffer(&self) -> Bytes {
        self.buffer
    }

    #[inline]
    fn port(&mut self, npu: NodeId, port: PortId) -> &mut Port {
        &mut self.ports[npu.index() * self.per_npu + port.index()]
    }

    /// What is to be served next at a port.
    #[inline]
    pub fn first_waiting(&mut self, npu: NodeId, port: PortId) -> Option<Waiting> {
        self.port(npu, port).waiting.front().copied()
    }

    /// A packet waits for space.
    pub fn wait(&mut self, npu: NodeId, port: PortId, packet: Waiting) {
        let waiting = &mut self.port(npu, port).waiting;
        if packet.own {
            waiting.push_back(packet);
        } else {
            let own = waiting.iter().rev().take_while(|packet| packet.own).count();
            waiting.insert(waiting.len() - own, packet);
        }
    }

    /// What is first at a port has space, having waited for so long.
    pub fn serve(&mut self, npu: NodeId, port: PortId, waited: Ps) {
        self.port(npu, port).waiting.pop_front();
        self.account_wait(waited);
    }

    /// When a port is to be looked at again, given what the network says of its buffer: `None` if a timer is set already,
    /// or if the network will report.
    pub fn look_again(&mut self, npu: NodeId, port: PortId, room: Room) -> Option<Ps> {
        let Room::At(time) = room else { return None };
        (!std::mem::replace(&mut self.port(npu, port).timer, true)).then_some(time)
    }

    /// A port's timer has fired.
    pub fn timer_fired(&mut self, npu: NodeId, port: PortId) {
        self.port(npu, port).timer = false;
    }

    /// The FSM of a chunk has a message of its own for a port; whether it may send it now. Otherwise it may when those
    /// before it have ended.
    pub fn begin_sending(&mut self, npu: NodeId, port: PortId, seq: ChunkId) -> bool {
        let senders = &mut self.port(npu, port).senders;
        senders.push_back(seq);
        senders.len() == 1
    }

    /// The FSM that sends through a port has sent its message; returns the chunk whose turn is next.
    pub fn end_sending(&mut self, npu: NodeId, port: PortId) -> Option<ChunkId> {
        let senders = &mut self.port(npu, port).senders;
        senders.pop_front();
        senders.front().copied()
    }

    /// Accounts what a packet or message has waited for its port.
    pub fn account_wait(&mut self, waited: Ps) {
        self.usage.serve(waited, Ps::ZERO);
    }

    /// What waited for ports.
    pub fn usage(&self) -> &ResourceUse {
        &self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: (NodeId, PortId) = (NodeId(1), PortId(2));

    fn ports() -> Ports {
        Ports::new(2, 3, Bytes(100))
    }

    #[test]
    fn packets_are_served_in_their_order_but_own_ones_after_all_others() {
        let mut ports = ports();
        for (seq, own) in [(1, true), (2, false), (3, true), (4, false), (5, false)] {
            ports.wait(HERE.0, HERE.1, Waiting { seq: ChunkId(seq), own });
        }
        let mut order = Vec::new();
        while let Some(first) = ports.first_waiting(HERE.0, HERE.1) {
            ports.serve(HERE.0, HERE.1, Ps(10));
            order.push(first.seq.0);
        }
        assert_eq!(order, [2, 4, 5, 1, 3]);
        assert_eq!((ports.usage().served, ports.usage().wait), (5, 50));
    }

    #[test]
    fn ports_do_not_wait_for_one_another() {
        let mut ports = ports();
        ports.wait(HERE.0, HERE.1, Waiting { seq: ChunkId(1), own: false });
        for (npu, port) in [(0, 2), (1, 1), (1, 0)] {
            assert_eq!(ports.first_waiting(NodeId(npu), PortId(port)), None);
        }
    }

    #[test]
    fn one_timer_is_set_at_a_time() {
        let mut ports = ports();
        let look = |ports: &mut Ports, room| ports.look_again(HERE.0, HERE.1, room);
        assert_eq!(look(&mut ports, Room::Unknown), None);
        assert_eq!(look(&mut ports, Room::At(Ps(5))), Some(Ps(5)));
        assert_eq!(look(&mut ports, Room::At(Ps(6))), None);
        ports.timer_fired(HERE.0, HERE.1);
        assert_eq!(look(&mut ports, Room::At(Ps(7))), Some(Ps(7)));
    }

    #[test]
    fn one_fsm_at_a_time_sends_messages_of_its_own() {
        let mut ports = ports();
        assert!(ports.begin_sending(HERE.0, HERE.1, ChunkId(8)));
        assert!(!ports.begin_sending(HERE.0, HERE.1, ChunkId(3)));
        assert!(!ports.begin_sending(HERE.0, HERE.1, ChunkId(9)));
        let next: Vec<_> = (0..3).map(|_| ports.end_sending(HERE.0, HERE.1)).collect();
        assert_eq!(next, [Some(ChunkId(3)), Some(ChunkId(9)), None]);
        assert!(ports.begin_sending(HERE.0, HERE.1, ChunkId(3)), "nobody sends any more");
    }
}
