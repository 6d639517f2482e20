//! Packets of all-to-alls on their way: inlets, transit pools, outlets.
//!
//! ```text
//!  input buffer ─▶ inlet ─┬─▶ terminal partition ─▶ RX DMA                     for this NPU
//!                         └─▶ transit pool ──┐
//!              partition 0 (FSMs' own) ──────┴─▶ port buffer ─▶ link     for others
//! ```
//!
//! ACE paper, section V: the SRAM absorbs packets and forwards those for other NPUs, so that main memory is
//! touched only where they start and end. Routes are those of the fabric, dimension by dimension.
//!
//! * *Inlet.* The packets of an input buffer are handled in the order in which they came. The first one takes
//!   a slot where it goes, then the write port of an SRAM bank, and only then leaves the input buffer; while
//!   there is no slot it stays, with all behind it, and holds up its sender for lack of credits.
//! * *Pool.* There is one for each output port, an equal share of the transit partition, in slots of a packet.
//! * *Outlet.* When the port buffer has room, a packet of the pool and one of an FSM take turns, so that neither
//!   kind starves the other. A packet is read from a bank and streams into the port buffer.
//! * *FSMs.* The FSM that a chunk belongs to forwards its packets beside what else it does, and whether or not the
//!   NPU has begun that chunk itself: forwarding waits for no FSM and takes none of its time, so no FSM can hold up
//!   another NPU's packets.
//!
//! # Why it does not deadlock
//! *Local bubble* (Carrion et al. 1997, Puente et al. 1999). A packet that goes on in its ring takes any slot of
//! the pool ahead, and may overtake one that waits to enter. One that enters a ring, from another dimension, needs two
//! and takes one. A packet of the NPU's own goes straight to the port buffer and takes no slot, but goes only if a slot
//! of the port's pool is free.
//!
//! Take one direction of one ring: its pools, port buffers and input buffers in turn, all of them in slots of a full
//! packet, which a short one takes as well, and count every free slot as a hole. Packets that move on inside the ring
//! move holes, and packets that leave it make holes. One that enters finds two at the NPU where it enters, and fills one:
//! in the pool, or, if it is the NPU's own, in the port buffer, which is its from when it was let in. What arrives while
//! it waits for a bank may fill the other, but moves it by that: to where it came from. So there always is a hole, and
//! going round against the stream one finds the packet that can move into it, unless the head of the input buffer
//! before it leaves the ring. If that is for the NPU itself, it leaves: the terminal partition is emptied by the RX
//! DMA, which waits for nobody. If it turns, it turns into a later dimension, which by the same argument keeps
//! moving, the last one first. The FSMs, the DMAs and the order of chunks have no part in this.

use super::exchange::Share;
use super::legs::Handling;
use super::{Ace, AceEvent, Transit, class};
use crate::api::Ctx;
use crate::layout::Layout;
use crate::servers::ResourceUse;
use std::collections::VecDeque;
use syncline_collective::Op;
use syncline_core::{Bytes, Key, NodeId, PortId, Ps, Schedule, Wait};
use syncline_network::{Delivery, Message, Network, Room, Route, TrafficClass};
use syncline_topology::Paths;

/// What is in transit has buffers of its own: engines move it on whatever becomes of their runs.
const TRANSIT_CLASS: TrafficClass = TrafficClass(1);

/// Packets that a pool holds at least: the one that enters, and the bubble.
pub(super) const LEAST_SLOTS: u64 = 2;

/// A packet of an all-to-all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Its chunk.
    pub seq: u32,
    /// The hop that it is on, or takes next, in the table of paths.
    pub position: u32,
    pub len: u32,
    /// Since when it waits.
    pub since: Ps,
}

/// Tells packets of all-to-alls from those of rings.
const MARK: u64 = 1 << 63;

/// Names a packet in the network.
fn tag(seq: u32, position: u32) -> u64 {
    MARK | u64::from(position) << 32 | u64::from(seq)
}

/// Whether a tag names a packet of an all-to-all.
#[inline]
pub(super) fn is_passing(tag: u64) -> bool {
    tag & MARK != 0
}

/// The near end of an input port.
#[derive(Clone, Debug, Default)]
struct Inlet {
    /// Packets that have arrived and still are in the input buffer.
    waiting: VecDeque<Packet>,
    /// The first of them has a slot and waits for a bank.
    writing: bool,
}

/// Whose packet an outlet is reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Own,
    Pool,
}

/// An output port and its pool.
#[derive(Clone, Debug, Default)]
struct Outlet {
    /// Slots that are taken, be it by packets that are still being written.
    taken: u32,
    pool: VecDeque<Packet>,
    /// Chunks whose FSM has a packet for this port.
    own: VecDeque<u32>,
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

/// What an NPU has received.
#[derive(Clone, Debug, Default)]
struct Sink {
    /// Packets that the RX DMA has still to write, in order.
    storing: VecDeque<Packet>,
    /// Bytes of the terminal partition that packets hold.
    held: u64,
    /// Input ports whose first packet waits for room.
    blocked: Vec<PortId>,
}

/// The all-to-alls of all NPUs.
#[derive(Debug)]
pub(super) struct Exchange {
    pub paths: Paths,
    pub transit: Transit,
    /// Bytes of a full packet.
    pub unit: u32,
    /// Slots of each pool.
    slots: u32,
    inlets: Vec<Inlet>,
    outlets: Vec<Outlet>,
    sinks: Vec<Sink>,
    /// Per NPU: its share of the chunks that it has begun or received something of, in their order.
    pub shares: Vec<VecDeque<Share>>,
    /// Bytes that were forwarded.
    pub forwarded: u64,
    /// Waits for slots of pools and for room in the terminal partition.
    pub pool_use: ResourceUse,
}

impl Exchange {
    /// Nothing on its way between NPUs of `ports` ports, in packets of `unit` bytes and pools of `slots` of them.
    pub fn new(layout: &Layout, transit: Transit, ports: usize, slots: u32, unit: u32) -> Exchange {
        let npus = layout.npus() as usize;
        Exchange {
            paths: Paths::new(layout.fabric()),
            transit,
            unit,
            slots,
            inlets: vec![Inlet::default(); npus * ports],
            outlets: vec![Outlet::default(); npus * ports],
            sinks: vec![Sink::default(); npus],
            shares: vec![VecDeque::new(); npus],
            forwarded: 0,
            pool_use: ResourceUse::new("transit_pool", ports as u32),
        }
    }

    /// Where chunks are rings.
    pub fn none(layout: &Layout, transit: Transit) -> Exchange {
        let nowhere = Paths::new(layout.fabric());
        Exchange {
            paths: nowhere,
            transit,
            unit: 0,
            slots: 0,
            inlets: Vec::new(),
            outlets: Vec::new(),
            sinks: Vec::new(),
            shares: Vec::new(),
            forwarded: 0,
            pool_use: ResourceUse::new("transit_pool", 0),
        }
    }

    /// Slots of its pool that must be free for a packet that takes a hop, and takes a slot.
    fn needed(&self, position: u32) -> u32 {
        let bubble = matches!(self.transit, Transit::Endpoint { bubble: true });
        1 + u32::from(bubble && self.paths.hop(position).enters)
    }

    /// Whether a packet of the NPU's own may go through an outlet: as if it took a slot, and gave it back.
    fn may_enter(&self, outlet: usize, position: u32) -> bool {
        self.outlets[outlet].taken + self.needed(position) - 1 <= self.slots
    }
}

impl Ace {
    /// A packet of an all-to-all has arrived.
    pub(super) fn packet_arrived<N: Network, Q>(
        &mut self,
        npu: NodeId,
        port: PortId,
        tag: u64,
        len: u32,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let packet = Packet { seq: tag as u32, position: ((tag & !MARK) >> 32) as u32, len, since: ctx.now };
        let inlet = self.place(npu, port);
        let waiting = &mut self.exchange.inlets[inlet].waiting;
        waiting.push_back(packet);
        if waiting.len() == 1 {
            self.admit(npu, port, ctx);
        }
    }

    /// Whether packets are to be served before the rings at a port, in turn: they share it where the network knows no
    /// channels.
    pub(super) fn takes_turns(&mut self, npu: NodeId, port: PortId) -> bool {
        let at = self.place(npu, port);
        let turn = &mut self.exchange.outlets[at].after_rings;
        *turn = !*turn;
        !*turn
    }

    fn place(&self, npu: NodeId, port: PortId) -> usize {
        npu.index() * self.ports + port.index()
    }

    /// Lets packets leave an input buffer, in their order, as long as there are slots.
    fn admit<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let inlet = self.place(npu, port);
        while !self.exchange.inlets[inlet].writing {
            let Some(&packet) = self.exchange.inlets[inlet].waiting.front() else { return };
            if !self.take_slot(npu, port, packet) {
                return;
            }
            self.exchange.pool_use.serve(ctx.now - packet.since, Ps::ZERO);
            let start = self.take_ports(npu.index(), ctx.now, Handling::of(Op::Recv), packet.len);
            if start > ctx.now {
                self.exchange.inlets[inlet].writing = true;
                let event = AceEvent::Written { npu: npu.0, port: port.0.into() };
                return ctx.q.at(start, Key::new(class::WRITTEN, port.0.into()), event);
            }
            self.write(npu, port, ctx);
        }
    }

    /// The first packet of an input buffer takes a slot where it goes; if there is none it will be tried again.
    fn take_slot(&mut self, npu: NodeId, port: PortId, packet: Packet) -> bool {
        let (terminal, pools) = (self.phases(), self.phases() + 1);
        if self.exchange.paths.hop(packet.position).last {
            let (len, held) = (u64::from(packet.len), self.exchange.sinks[npu.index()].held);
            let fits = self.partitions.fits_packet(npu, len, held, self.wants_terminal(npu));
            let sink = &mut self.exchange.sinks[npu.index()];
            if fits {
                sink.held += len;
                self.partitions.take(npu, terminal, len);
            } else {
                sink.blocked.push(port);
            }
            return fits;
        }
        let next = packet.position + 1;
        let needed = self.exchange.needed(next);
        let outlet = self.place(npu, self.exchange.paths.hop(next).port);
        let Exchange { outlets, slots, unit, .. } = &mut self.exchange;
        let outlet = &mut outlets[outlet];
        if outlet.taken + needed > *slots {
            outlet.blocked.push(port);
            return false;
        }
        outlet.taken += 1;
        self.partitions.take(npu, pools, u64::from(*unit));
        true
    }

    /// The first packet of an input buffer has its bank.
    pub(super) fn packet_written<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let inlet = self.place(npu, port);
        self.exchange.inlets[inlet].writing = false;
        self.write(npu, port, ctx);
        self.admit(npu, port, ctx);
    }

    /// The first packet of an input buffer leaves it for the SRAM.
    fn write<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let inlet = self.place(npu, port);
        let Some(packet) = self.exchange.inlets[inlet].waiting.pop_front() else { return };
        ctx.net.release(ctx.now, npu, port, TRANSIT_CLASS, ctx.q);
        self.record_levels(npu, ctx.now);
        if self.exchange.paths.hop(packet.position).last {
            return self.store(npu, packet, ctx);
        }
        let packet = Packet { position: packet.position + 1, since: ctx.now, ..packet };
        let out = self.exchange.paths.hop(packet.position).port;
        let outlet = self.place(npu, out);
        self.exchange.outlets[outlet].pool.push_back(packet);
        self.serve_outlet(npu, out, ctx);
    }

    /// The RX DMA writes a packet for this NPU to memory.
    fn store<N: Network, Q>(&mut self, npu: NodeId, packet: Packet, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let bytes = Bytes(packet.len.into());
        let done = self.write_back(npu, bytes, ctx.now);
        self.exchange.sinks[npu.index()].storing.push_back(packet);
        // Packets are done in the order in which they came, so that no event need name one.
        ctx.q.at(done, Key::new(class::STORED, 0), AceEvent::Stored { npu: npu.0 });
    }

    /// The RX DMA has written the next packet.
    pub(super) fn packet_stored<N: Network, Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let sink = &mut self.exchange.sinks[npu.index()];
        let Some(packet) = sink.storing.pop_front() else { return };
        sink.held -= u64::from(packet.len);
        self.partitions.free(npu, self.phases(), packet.len.into());
        self.record_levels(npu, ctx.now);
        self.received(npu, packet.seq, packet.len, ctx);
        self.terminal_freed(npu, ctx);
    }

    /// Input buffers whose first packet waits for room in the terminal partition try again.
    pub(super) fn admit_blocked<N: Network, Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let Some(sink) = self.exchange.sinks.get_mut(npu.index()) else { return };
        let blocked = std::mem::take(&mut sink.blocked);
        blocked.into_iter().for_each(|port| self.admit(npu, port, ctx));
    }

    /// An FSM has a packet for a port.
    pub(super) fn line_up<N: Network, Q>(&mut self, npu: NodeId, port: PortId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let outlet = self.place(npu, port);
        self.exchange.outlets[outlet].own.push_back(seq);
        self.serve_outlet(npu, port, ctx);
    }

    /// Whose packet goes through a port next, if one may.
    fn next_source(&mut self, npu: NodeId, outlet: usize) -> Option<Source> {
        let own = self.exchange.outlets[outlet].own.front().copied();
        let own_may = own.is_some_and(|seq| {
            let position = self.share(npu, seq).position;
            self.exchange.may_enter(outlet, position)
        });
        let outlet = &self.exchange.outlets[outlet];
        match (own_may, outlet.pool.is_empty()) {
            (true, empty) if empty || outlet.turn_of_own => Some(Source::Own),
            (_, false) => Some(Source::Pool),
            _ => None,
        }
    }

    /// Puts packets into a port buffer as long as it has room.
    pub(super) fn serve_outlet<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let outlet = self.place(npu, port);
        if std::mem::replace(&mut self.exchange.outlets[outlet].serving, true) {
            return;
        }
        while self.exchange.outlets[outlet].reading.is_none() {
            let Some(source) = self.next_source(npu, outlet) else { break };
            match ctx.net.room(ctx.now, npu, port, TRANSIT_CLASS, self.port_buffer) {
                Room::Now => {}
                Room::At(t) => {
                    self.wake_port(npu, port, t, ctx);
                    break;
                }
                Room::Unknown => break,
            }
            let o = &self.exchange.outlets[outlet];
            let len = match (source, o.own.front(), o.pool.front()) {
                (Source::Own, Some(&seq), _) => self.own_len(npu, seq),
                (_, _, Some(packet)) => packet.len,
                _ => break,
            };
            let start = self.take_ports(npu.index(), ctx.now, Handling::of(Op::Send), len);
            if start > ctx.now {
                self.exchange.outlets[outlet].reading = Some(source);
                let key = Key::new(class::READ, port.0.into());
                ctx.q.at(start, key, AceEvent::Read { npu: npu.0, port: port.0.into() });
                break;
            }
            self.issue(npu, port, source, ctx);
        }
        self.exchange.outlets[outlet].serving = false;
    }

    /// A packet has been read for an outlet.
    pub(super) fn packet_read<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let outlet = self.place(npu, port);
        if let Some(source) = self.exchange.outlets[outlet].reading.take() {
            self.exchange.outlets[outlet].serving = true;
            self.issue(npu, port, source, ctx);
            self.exchange.outlets[outlet].serving = false;
        }
        self.serve_outlet(npu, port, ctx);
    }

    /// Puts the next packet of a source into a port buffer.
    fn issue<N: Network, Q>(&mut self, npu: NodeId, port: PortId, source: Source, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let at = self.place(npu, port);
        let outlet = &mut self.exchange.outlets[at];
        outlet.turn_of_own = source == Source::Pool;
        if source == Source::Own {
            if let Some(seq) = outlet.own.pop_front() {
                self.issue_own_packet(npu, seq, ctx);
            }
            return;
        }
        let Some(packet) = outlet.pool.pop_front() else { return };
        outlet.taken -= 1;
        let blocked = std::mem::take(&mut outlet.blocked);
        self.exchange.forwarded += u64::from(packet.len);
        self.port_use.serve(ctx.now - packet.since, Ps::ZERO);
        self.send_packet(npu, packet, Route::Port(port), ctx);
        self.partitions.free(npu, self.phases() + 1, self.exchange.unit.into());
        self.record_levels(npu, ctx.now);
        blocked.into_iter().for_each(|port| self.admit(npu, port, ctx));
    }

    /// Hands a packet to the network.
    pub(super) fn send_packet<N: Network, Q>(
        &mut self,
        npu: NodeId,
        packet: Packet,
        route: Route,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.sent += u64::from(packet.len);
        self.flights.begin(ctx.now);
        let message = Message {
            src: npu,
            route,
            queue: 0,
            len: Bytes(packet.len.into()),
            class: TRANSIT_CLASS,
            delivery: Delivery::Stream,
            tag: tag(packet.seq, packet.position),
            receipt: None,
        };
        ctx.net.send(ctx.now, message, ctx.q);
    }

    /// What packets of all-to-alls wait for on an NPU.
    pub(super) fn list_packet_waits(&self, npu: NodeId, waits: &mut Vec<Wait>) {
        let fabric = self.layout.fabric();
        let name = fabric.node_name(npu);
        for port in (0..fabric.ports(npu)).map(PortId) {
            let at = self.place(npu, port);
            let (inlet, outlet) = (&self.exchange.inlets[at], &self.exchange.outlets[at]);
            let here = fabric.port_name(npu, port);
            if let Some(packet) = inlet.waiting.front().filter(|_| !inlet.writing) {
                let what = match self.exchange.paths.hop(packet.position).last {
                    true => "room in the terminal SRAM partition".into(),
                    false => {
                        let next = packet.position + 1;
                        let out = fabric.port_name(npu, self.exchange.paths.hop(next).port);
                        match self.exchange.needed(next) {
                            1 => format!("a free slot in the transit pool of {out}"),
                            slots => format!("{slots} free slots in the transit pool of {out}, as it enters that ring"),
                        }
                    }
                };
                let count = inlet.waiting.len();
                let who =
                    format!("{name}, {count} packet(s) in the input buffer {here}, first one of chunk {}", packet.seq);
                waits.push(Wait { who, what });
            }
            if let Some(packet) = outlet.pool.front() {
                let (count, seq) = (outlet.pool.len(), packet.seq);
                let who = format!("{name}, {count} packet(s) in the transit pool of {here}, first one of chunk {seq}");
                waits.push(Wait { who, what: format!("space in the port buffer of {here}") });
            }
        }
    }

    /// What the own packet of an FSM waits for at a port.
    pub(super) fn own_wait(&self, npu: NodeId, position: u32) -> String {
        let port = self.exchange.paths.hop(position).port;
        let name = self.layout.fabric().port_name(npu, port);
        match self.exchange.may_enter(self.place(npu, port), position) {
            true => format!("space in the port buffer of {name}"),
            false => format!("a free slot in the transit pool of {name}"),
        }
    }
}
