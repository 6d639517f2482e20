//! Where packets of direct all-to-alls stand in an NPU: input buffers, transit pools, and the way to main memory.
//!
//! What each of them does with packets, and why that does not deadlock, is told in [`transit`](super::transit).

use super::packet::Packet;
use crate::api::ChunkId;
use crate::servers::ResourceUse;
use std::collections::VecDeque;
use syncline_core::{NodeId, PortId, Ps};

/// The near end of an input port.
#[derive(Clone, Debug, Default)]
struct Inlet {
    /// Packets that have arrived and still are in the input buffer.
    waiting: VecDeque<Packet>,
    /// The first of them has a slot and waits for a bank.
    writing: bool,
}

/// Whose packet goes through an output port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An FSM's own.
    Own,
    /// One of the pool.
    Pool,
}

/// An output port and its pool.
#[derive(Clone, Debug, Default)]
struct Outlet {
    /// Slots that are taken, be it by packets that are still being written.
    taken: u32,
    pool: VecDeque<Packet>,
    /// Chunks whose FSM has a packet for this port.
    own: VecDeque<ChunkId>,
    /// Whether it is the turn of the FSMs.
    turn_of_own: bool,
    /// Whether rings were the first to be served when the port had space.
    after_rings: bool,
    reading: Option<Source>,
    /// The outlet is being served: what becomes ready meanwhile need not call for that.
    serving: bool,
    /// Input ports whose first packet waits for a slot, in that order.
    blocked: Vec<PortId>,
}

/// The way from the terminal partition to main memory.
#[derive(Clone, Debug, Default)]
struct Sink {
    /// Packets that the RX DMA has still to write, in order.
    storing: VecDeque<Packet>,
    /// Bytes of the terminal partition that packets have.
    bytes: u64,
    /// Input ports whose first packet waits for room.
    blocked: Vec<PortId>,
}

/// Packets of direct all-to-alls of all NPUs.
#[derive(Debug)]
pub(super) struct TransitPools {
    /// Slots of each pool, and the bytes of one.
    slots: u32,
    slot_bytes: u32,
    /// Whether a packet that enters a ring leaves a slot free.
    bubble: bool,
    ports: usize,
    inlets: Vec<Inlet>,
    outlets: Vec<Outlet>,
    sinks: Vec<Sink>,
    /// Bytes that pools handed on.
    forwarded: u64,
    usage: ResourceUse,
}

impl TransitPools {
    /// Empty pools of `npus` NPUs with `ports` ports each, of `slots` slots of `slot_bytes` bytes. With `bubble`, a packet
    /// that enters a ring leaves a slot of the pool there free.
    pub fn new(npus: u32, ports: usize, slots: u32, slot_bytes: u32, bubble: bool) -> TransitPools {
        let npus = npus as usize;
        TransitPools {
            slots,
            slot_bytes,
            bubble,
            ports,
            inlets: vec![Inlet::default(); npus * ports],
            outlets: vec![Outlet::default(); npus * ports],
            sinks: vec![Sink::default(); npus],
            forwarded: 0,
            usage: ResourceUse::new("transit_pool", ports as u32),
        }
    }

    /// Bytes that a packet takes in a pool, however short it is.
    pub fn slot_bytes(&self) -> u32 {
        self.slot_bytes
    }

    fn place(&self, npu: NodeId, port: PortId) -> usize {
        npu.index() * self.ports + port.index()
    }

    fn inlet(&mut self, npu: NodeId, port: PortId) -> &mut Inlet {
        let place = self.place(npu, port);
        &mut self.inlets[place]
    }

    fn outlet(&mut self, npu: NodeId, port: PortId) -> &mut Outlet {
        let place = self.place(npu, port);
        &mut self.outlets[place]
    }

    /// A packet has arrived at an input port; whether it is the only one there.
    pub fn arrive(&mut self, npu: NodeId, port: PortId, packet: Packet) -> bool {
        let waiting = &mut self.inlet(npu, port).waiting;
        waiting.push_back(packet);
        waiting.len() == 1
    }

    /// The first packet of an input port, if it has no slot yet; and how many there are.
    pub fn first_arrived(&self, npu: NodeId, port: PortId) -> Option<(Packet, usize)> {
        let inlet = &self.inlets[self.place(npu, port)];
        inlet.waiting.front().filter(|_| !inlet.writing).map(|&packet| (packet, inlet.waiting.len()))
    }

    /// The first packet of an input port, which has a slot, waits for a bank.
    pub fn begin_writing(&mut self, npu: NodeId, port: PortId) {
        self.inlet(npu, port).writing = true;
    }

    /// The first packet of an input port leaves it.
    pub fn leave(&mut self, npu: NodeId, port: PortId) -> Packet {
        let inlet = self.inlet(npu, port);
        inlet.writing = false;
        inlet.waiting.pop_front().expect("the packet that leaves an input port is there")
    }

    /// Slots of a pool that must be free for a packet to take one, depending on whether it enters a ring there.
    pub fn slots_needed(&self, enters: bool) -> u32 {
        1 + u32::from(self.bubble && enters)
    }

    /// A packet that came by port `from` takes a slot of the pool of port `out`. If it may not, returns false, and
    /// [`TransitPools::take_pooled`] tells when to try again.
    pub fn take_slot(&mut self, npu: NodeId, out: PortId, enters: bool, from: PortId) -> bool {
        let (needed, slots) = (self.slots_needed(enters), self.slots);
        let outlet = self.outlet(npu, out);
        let fits = outlet.taken + needed <= slots;
        if fits {
            outlet.taken += 1;
        } else {
            outlet.blocked.push(from);
        }
        fits
    }

    /// Whether a packet of the NPU's own may go through an outlet: as if it took a slot, and gave it back.
    pub fn may_enter(&self, npu: NodeId, out: PortId, enters: bool) -> bool {
        self.outlets[self.place(npu, out)].taken + self.slots_needed(enters) - 1 <= self.slots
    }

    /// A packet that has a slot is in its pool.
    pub fn put(&mut self, npu: NodeId, out: PortId, packet: Packet) {
        self.outlet(npu, out).pool.push_back(packet);
    }

    /// The FSM of a chunk has a packet for a port.
    pub fn line_up(&mut self, npu: NodeId, out: PortId, seq: ChunkId) {
        self.outlet(npu, out).own.push_back(seq);
    }

    /// The chunk whose FSM sends the next own packet through a port.
    pub fn first_own(&self, npu: NodeId, out: PortId) -> Option<ChunkId> {
        self.outlets[self.place(npu, out)].own.front().copied()
    }

    /// The next packet of a pool, and how many there are.
    pub fn first_pooled(&self, npu: NodeId, out: PortId) -> Option<(Packet, usize)> {
        let pool = &self.outlets[self.place(npu, out)].pool;
        pool.front().map(|&packet| (packet, pool.len()))
    }

    /// Whose packet goes next through a port, if one may: both take turns. `own_may`: there is an FSM's, and it may enter.
    pub fn next_source(&self, npu: NodeId, out: PortId, own_may: bool) -> Option<Source> {
        let outlet = &self.outlets[self.place(npu, out)];
        match (own_may, outlet.pool.is_empty()) {
            (true, empty) if empty || outlet.turn_of_own => Some(Source::Own),
            (_, false) => Some(Source::Pool),
            _ => None,
        }
    }

    /// An outlet begins to be served; false if it is being served already.
    pub fn begin_serving(&mut self, npu: NodeId, out: PortId) -> bool {
        !std::mem::replace(&mut self.outlet(npu, out).serving, true)
    }

    /// An outlet has been served.
    pub fn end_serving(&mut self, npu: NodeId, out: PortId) {
        self.outlet(npu, out).serving = false;
    }

    /// Whether an outlet waits for a bank.
    pub fn is_reading(&self, npu: NodeId, out: PortId) -> bool {
        self.outlets[self.place(npu, out)].reading.is_some()
    }

    /// An outlet waits for a bank, to read the next packet of a source.
    pub fn begin_reading(&mut self, npu: NodeId, out: PortId, source: Source) {
        self.outlet(npu, out).reading = Some(source);
    }

    /// The packet that an outlet waited for has been read.
    pub fn end_reading(&mut self, npu: NodeId, out: PortId) -> Option<Source> {
        self.outlet(npu, out).reading.take()
    }

    /// The next own packet goes through a port; returns the chunk that it is of.
    pub fn take_own(&mut self, npu: NodeId, out: PortId) -> ChunkId {
        let outlet = self.outlet(npu, out);
        outlet.turn_of_own = false;
        outlet.own.pop_front().expect("an FSM has a packet when it is its turn")
    }

    /// The next packet of a pool goes through its port and gives its slot back. Returns it, and the input ports whose first
    /// packet waits for a slot.
    pub fn take_pooled(&mut self, npu: NodeId, out: PortId) -> (Packet, Vec<PortId>) {
        let outlet = self.outlet(npu, out);
        outlet.turn_of_own = true;
        let packet = outlet.pool.pop_front().expect("a pool has a packet when it is its turn");
        outlet.taken -= 1;
        let blocked = std::mem::take(&mut outlet.blocked);
        self.forwarded += u64::from(packet.len);
        (packet, blocked)
    }

    /// Whether packets are to be served before the rings at a port that has space, in turn: they share it where the network
    /// knows no channels.
    pub fn go_before_rings(&mut self, npu: NodeId, out: PortId) -> bool {
        let after_rings = &mut self.outlet(npu, out).after_rings;
        *after_rings = !*after_rings;
        !*after_rings
    }

    /// Bytes of the terminal partition that packets have.
    pub fn bytes_in_terminal(&self, npu: NodeId) -> u64 {
        self.sinks[npu.index()].bytes
    }

    /// A packet takes room in the terminal partition.
    pub fn enter_terminal(&mut self, npu: NodeId, len: u32) {
        self.sinks[npu.index()].bytes += u64::from(len);
    }

    /// The first packet of an input port waits for room in the terminal partition.
    pub fn wait_for_terminal(&mut self, npu: NodeId, port: PortId) {
        self.sinks[npu.index()].blocked.push(port);
    }

    /// The input ports whose first packet waits for room in the terminal partition, which are to be tried again.
    pub fn retry_terminal(&mut self, npu: NodeId) -> Vec<PortId> {
        // There are no sinks where no packets pass.
        self.sinks.get_mut(npu.index()).map_or_else(Vec::new, |sink| std::mem::take(&mut sink.blocked))
    }

    /// The RX DMA has a packet to write, behind those before it.
    pub fn store(&mut self, npu: NodeId, packet: Packet) {
        self.sinks[npu.index()].storing.push_back(packet);
    }

    /// The RX DMA has written its next packet, which leaves the terminal partition.
    pub fn stored(&mut self, npu: NodeId) -> Packet {
        let sink = &mut self.sinks[npu.index()];
        let packet = sink.storing.pop_front().expect("the RX DMA writes what it was given");
        sink.bytes -= u64::from(packet.len);
        packet
    }

    /// Accounts what a packet has waited for a slot, or for room in the terminal partition.
    pub fn account_wait(&mut self, wait: Ps) {
        self.usage.serve(wait, Ps::ZERO);
    }

    /// Bytes that pools have handed on.
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// What waited for slots of pools and for room in the terminal partition.
    pub fn usage(&self) -> &ResourceUse {
        &self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NPU: NodeId = NodeId(1);
    const WEST: PortId = PortId(0);
    const EAST: PortId = PortId(1);

    fn packet(seq: u32) -> Packet {
        Packet { seq: ChunkId(seq), position: 0, len: 10 + seq, since: Ps::ZERO }
    }

    fn pools(slots: u32, bubble: bool) -> TransitPools {
        TransitPools::new(2, 2, slots, 64, bubble)
    }

    #[test]
    fn an_input_port_is_left_in_the_order_of_arrival() {
        let mut pools = pools(2, true);
        assert!(pools.arrive(NPU, WEST, packet(1)));
        assert!(!pools.arrive(NPU, WEST, packet(2)));
        assert_eq!(pools.first_arrived(NPU, WEST), Some((packet(1), 2)));
        pools.begin_writing(NPU, WEST);
        assert_eq!(pools.first_arrived(NPU, WEST), None, "it has a slot already");
        assert_eq!(pools.leave(NPU, WEST), packet(1));
        assert_eq!(pools.first_arrived(NPU, WEST), Some((packet(2), 1)));
        assert_eq!(pools.first_arrived(NodeId(0), WEST), None);
    }

    #[test]
    fn a_packet_that_enters_a_ring_leaves_a_bubble() {
        for (bubble, entering) in [(true, 2), (false, 3)] {
            let mut pools = pools(3, bubble);
            let entered = (0..5).filter(|_| pools.take_slot(NPU, EAST, true, WEST)).count();
            assert_eq!(entered, entering);
            assert_eq!(pools.take_slot(NPU, EAST, false, WEST), bubble, "one that goes on takes the bubble");
            assert!(!pools.take_slot(NPU, EAST, false, WEST));
            assert_eq!(pools.may_enter(NPU, EAST, true), !bubble);
        }
    }

    #[test]
    fn no_slots_hold_nothing() {
        let mut pools = pools(0, true);
        assert!(!pools.take_slot(NPU, EAST, false, WEST));
        assert!(pools.may_enter(NPU, EAST, false), "what passes no pool needs no slot");
        assert!(!pools.may_enter(NPU, EAST, true));
    }

    #[test]
    fn a_slot_is_given_back_and_those_that_wait_for_it_are_told_once() {
        let mut pools = pools(1, false);
        assert!(pools.take_slot(NPU, EAST, true, WEST));
        pools.put(NPU, EAST, packet(1));
        assert!(!pools.take_slot(NPU, EAST, true, WEST) && !pools.take_slot(NPU, EAST, true, EAST));
        assert_eq!(pools.take_pooled(NPU, EAST), (packet(1), vec![WEST, EAST]));
        assert!(pools.take_slot(NPU, EAST, true, WEST));
        pools.put(NPU, EAST, packet(2));
        assert_eq!(pools.take_pooled(NPU, EAST), (packet(2), vec![]));
        assert_eq!(pools.forwarded(), 23);
    }

    #[test]
    fn pool_and_fsms_take_turns() {
        let mut pools = pools(9, false);
        for seq in 0..3 {
            assert!(pools.take_slot(NPU, EAST, false, WEST));
            pools.put(NPU, EAST, packet(seq));
            pools.line_up(NPU, EAST, ChunkId(10 + seq));
        }
        let mut order = Vec::new();
        while let Some(source) = pools.next_source(NPU, EAST, pools.first_own(NPU, EAST).is_some()) {
            order.push(match source {
                Source::Own => pools.take_own(NPU, EAST),
                Source::Pool => pools.take_pooled(NPU, EAST).0.seq,
            });
        }
        assert_eq!(order, [0, 10, 1, 11, 2, 12].map(ChunkId));
        assert_eq!(pools.next_source(NPU, EAST, true), Some(Source::Own), "whose turn it is, if alone");
    }

    #[test]
    fn rings_and_packets_take_turns_at_a_port() {
        let mut pools = pools(1, false);
        let turns: Vec<bool> = (0..4).map(|_| pools.go_before_rings(NPU, EAST)).collect();
        assert_eq!(turns, [false, true, false, true]);
    }

    #[test]
    fn the_terminal_partition_gives_back_what_packets_took() {
        let mut pools = pools(1, false);
        for seq in 1..4 {
            pools.enter_terminal(NPU, packet(seq).len);
            pools.store(NPU, packet(seq));
        }
        pools.wait_for_terminal(NPU, WEST);
        assert_eq!(pools.bytes_in_terminal(NPU), 36);
        let stored: Vec<u32> = (0..3).map(|_| pools.stored(NPU).seq.0).collect();
        assert_eq!((stored, pools.bytes_in_terminal(NPU)), (vec![1, 2, 3], 0));
        assert_eq!((pools.retry_terminal(NPU), pools.retry_terminal(NPU)), (vec![WEST], vec![]));
    }
}
