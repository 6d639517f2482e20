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

use super::engine::Ace;
use super::event::{AceEvent, class};
use super::handling::Handling;
use super::own_messages::QUEUE;
use super::packet::Packet;
use super::transit_pools::Source;
use crate::api::{ChunkId, Ctx};
use syncline_collective::Op;
use syncline_core::{Bytes, Key, NodeId, PortId, Schedule};
use syncline_network::{Delivery, Message, Network, Route, TrafficClass};

/// What is in transit has buffers of its own: engines move it on whatever becomes of their runs.
const TRANSIT_CLASS: TrafficClass = TrafficClass::of_buffers(1);

impl Ace {
    /// A packet of an all-to-all has arrived.
    pub(super) fn packet_arrived<N: Network, Q>(
        &mut self,
        npu: NodeId,
        port: PortId,
        packet: Packet,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if self.pools.arrive(npu, port, packet) {
            self.admit(npu, port, ctx);
        }
    }

    /// Lets packets leave an input buffer, in their order, as long as there are slots.
    fn admit<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        while let Some((packet, _)) = self.pools.first_arrived(npu, port) {
            if !self.take_slot(npu, port, packet) {
                return;
            }
            self.pools.account_wait(ctx.now - packet.since);
            let start = self.banks.take(npu.index(), ctx.now, Handling::of(Op::Recv), packet.len);
            if start > ctx.now {
                self.pools.begin_writing(npu, port);
                let event = AceEvent::Written { npu: npu.0, port };
                return ctx.q.at(start, Key::new(class::WRITTEN, port.0.into()), event);
            }
            self.write(npu, port, ctx);
        }
    }

    /// The first packet of an input buffer takes a slot where it goes; if there is none it will be tried again.
    fn take_slot(&mut self, npu: NodeId, port: PortId, packet: Packet) -> bool {
        let (terminal, transit) = (self.phases, self.phases + 1);
        if self.paths.hop(packet.position).last {
            let others = self.pools.bytes_in_terminal(npu);
            let fits = self.sram.fits_packet(npu, packet.len.into(), others, self.results_wait_for_terminal(npu));
            if fits {
                self.pools.enter_terminal(npu, packet.len);
                self.sram.take(npu, terminal, packet.len.into());
            } else {
                self.pools.wait_for_terminal(npu, port);
            }
            return fits;
        }
        let next = self.paths.hop(packet.position + 1);
        let fits = self.pools.take_slot(npu, next.port, next.enters, port);
        if fits {
            self.sram.take(npu, transit, self.pools.slot_bytes().into());
        }
        fits
    }

    /// The first packet of an input buffer has its bank.
    pub(super) fn packet_written<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.write(npu, port, ctx);
        self.admit(npu, port, ctx);
    }

    /// The first packet of an input buffer leaves it for the SRAM.
    fn write<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let packet = self.pools.leave(npu, port);
        ctx.net.release(ctx.now, npu, port, TRANSIT_CLASS, ctx.q);
        self.record_levels(npu, ctx.now);
        if self.paths.hop(packet.position).last {
            return self.store(npu, packet, ctx);
        }
        let packet = Packet { position: packet.position + 1, since: ctx.now, ..packet };
        let out = self.paths.hop(packet.position).port;
        self.pools.put(npu, out, packet);
        self.serve_outlet(npu, out, ctx);
    }

    /// The RX DMA writes a packet for this NPU to memory.
    fn store<N: Network, Q>(&mut self, npu: NodeId, packet: Packet, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let done = self.dmas.store(npu.index(), ctx.now, Bytes(packet.len.into()));
        self.pools.store(npu, packet);
        // Packets are done in the order in which they came, so that no event need name one.
        ctx.q.at(done, Key::new(class::STORED, 0), AceEvent::Stored { npu: npu.0 });
    }

    /// The RX DMA has written the next packet.
    pub(super) fn packet_stored<N: Network, Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let packet = self.pools.stored(npu);
        self.sram.free(npu, self.phases, packet.len.into());
        self.record_levels(npu, ctx.now);
        self.received(npu, packet.seq, packet.len, ctx);
        self.terminal_freed(npu, ctx);
    }

    /// Input buffers whose first packet waits for room in the terminal partition try again.
    pub(super) fn admit_to_terminal<N: Network, Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.pools.retry_terminal(npu).into_iter().for_each(|port| self.admit(npu, port, ctx));
    }

    /// An FSM has a packet for a port.
    pub(super) fn line_up<N: Network, Q>(&mut self, npu: NodeId, port: PortId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.pools.line_up(npu, port, seq);
        self.serve_outlet(npu, port, ctx);
    }

    /// Whose packet goes through a port next, if one may, and its length.
    fn next_source(&mut self, npu: NodeId, port: PortId) -> Option<(Source, u32)> {
        let own = self.pools.first_own(npu, port).map(|seq| self.own_packet(npu, seq));
        let may_enter = |(position, _)| self.pools.may_enter(npu, port, self.paths.hop(position).enters);
        let source = self.pools.next_source(npu, port, own.is_some_and(may_enter))?;
        let len = match source {
            Source::Own => own?.1,
            Source::Pool => self.pools.first_pooled(npu, port)?.0.len,
        };
        Some((source, len))
    }

    /// Puts packets into a port buffer as long as it has room.
    pub(super) fn serve_outlet<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if !self.pools.begin_serving(npu, port) {
            return;
        }
        while !self.pools.is_reading(npu, port) {
            let Some((source, len)) = self.next_source(npu, port) else { break };
            let route = |ace: &mut Ace| {
                let own = ace.pools.first_own(npu, port).filter(|_| source == Source::Own);
                own.map_or(Route::Port(port), |seq| ace.own_route(npu, seq))
            };
            if !self.has_space(npu, port, TRANSIT_CLASS, route, ctx) {
                break;
            }
            let start = self.banks.take(npu.index(), ctx.now, Handling::of(Op::Send), len);
            if start > ctx.now {
                self.pools.begin_reading(npu, port, source);
                let key = Key::new(class::READ, port.0.into());
                ctx.q.at(start, key, AceEvent::Read { npu: npu.0, port });
                break;
            }
            self.issue(npu, port, source, ctx);
        }
        self.pools.end_serving(npu, port);
    }

    /// A packet has been read for an outlet.
    pub(super) fn packet_read<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if let Some(source) = self.pools.end_reading(npu, port) {
            // What becomes ready meanwhile is served below.
            self.pools.begin_serving(npu, port);
            self.issue(npu, port, source, ctx);
            self.pools.end_serving(npu, port);
        }
        self.serve_outlet(npu, port, ctx);
    }

    /// Puts the next packet of a source into a port buffer.
    fn issue<N: Network, Q>(&mut self, npu: NodeId, port: PortId, source: Source, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if source == Source::Own {
            let seq = self.pools.take_own(npu, port);
            return self.issue_own_packet(npu, seq, ctx);
        }
        let (packet, blocked) = self.pools.take_pooled(npu, port);
        self.ports.account_wait(ctx.now - packet.since);
        self.send_packet(npu, packet, Route::Port(port), ctx);
        self.sram.free(npu, self.phases + 1, self.pools.slot_bytes().into());
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
            queue: QUEUE,
            len: Bytes(packet.len.into()),
            class: TRANSIT_CLASS,
            delivery: Delivery::Stream,
            tag: packet.tag(),
            receipt: None,
        };
        ctx.net.send(ctx.now, message, ctx.q);
    }
}
