//! The running phase of a chunk: packets through SRAM ports, ALUs and port buffers.
//!
//! A chunk handles the messages of its phase in order ([`super::legs`]): for each group of messages, first the FSM's
//! own ones, then what arrives, forwarded packet by packet. The next group's own messages begin when
//! the last send of the current group has been issued. Sends of one chunk never overtake each other, so
//! a packet that must be forwarded waits while the FSM's own messages of that group are not complete. Direct phases have no
//! such order for what arrives ([`super::direct`]).

use super::held::{Held, List};
use super::legs::{Handling, Shape};
use super::{Ace, AceEvent, Progress, State, Unit, class};
use crate::api::{Ctx, chunk_key};
use syncline_collective::{Kind, Op};
use syncline_core::{Bytes, NodeId, PortId, Ps, Schedule};
use syncline_network::{Delivery, Message, Network, Segment, TrafficClass};

impl Progress {
    /// Whether the next packet could be handled now: no other is in hand, and it need not wait until the
    /// FSM's own send of its group is complete.
    fn can_receive(&self) -> bool {
        self.receiving == Unit::Idle && !(self.handling.sends && self.send_left.is_some())
    }

    /// Whether there is room for a packet among the phase's results.
    pub(super) fn can_store(&self, len: u32) -> bool {
        self.room_due.is_none() || self.room >= u64::from(len.max(1))
    }
}

impl Ace {
    /// How long a packet occupies an SRAM port or an ALU: whole cycles of the port's width.
    #[inline]
    pub(super) fn occupancy_of(&self, len: u32) -> Ps {
        if len == self.unit && self.full_unit > Ps::ZERO {
            return self.full_unit;
        }
        self.port_rate.time(Bytes(u64::from(len.next_multiple_of(self.config.port_bytes))))
    }

    /// Sets what the chunk receives next: the first message of the first group, or the one after the current. At the
    /// beginning of a phase the FSM's own message is set up as well.
    pub(super) fn expect_next(&mut self, npu: NodeId, seq: u32, begin: bool) {
        let p = self.progress(npu, seq);
        p.expected = if begin { 0 } else { (p.expected + 1) & Self::NUMBERS };
        let p = *p;
        let (mut pc, mut group) = if begin { (1, 0) } else { (p.pc + 1, p.group) };
        if pc > p.legs {
            (pc, group) = (1, group + 1);
        }
        if begin {
            let own = self.own_message_len(npu, seq, 0, 0);
            let p = self.progress(npu, seq);
            (p.send_left, p.sending_group, p.own) = (Some(own), 0, 0);
        }
        if group == p.groups {
            self.progress(npu, seq).receive_left = None;
            return;
        }
        let (handling, len) = self.arriving(npu, seq, pc, group);
        let p = self.progress(npu, seq);
        (p.pc, p.group, p.handling, p.receive_left) = (pc, group, handling, Some(len));
    }

    /// A packet arrived.
    #[inline]
    pub(super) fn arrived<N: Network, Q>(
        &mut self,
        at: NodeId,
        port: PortId,
        tag: u64,
        segment: Segment,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        assert_eq!(segment.packets, 1, "packets are fed, and so arrive, one by one");
        let (seq, phase) = ((tag >> 8) as u32, (tag & Self::PHASE_MASK) as u8);
        let len = segment.len.0 as u32;
        let number = (tag >> Self::NUMBER) as u32;
        let packet = Held::new(len, port, tag & Self::GATHERED != 0, number);
        let engine = &mut self.engines[at.index()];
        let known = seq.checked_sub(engine.base).and_then(|i| engine.chunks.get_mut(i as usize));
        match known {
            Some(chunk) if chunk.state == State::Running && chunk.phase == phase => {
                if chunk.shape == Shape::Direct {
                    self.pool.push(&mut chunk.held, packet);
                    return self.direct_held(at, seq, ctx);
                }
                if !chunk.held.is_empty() || !chunk.can_receive() || number != chunk.expected {
                    self.pool.push(&mut chunk.held, packet);
                    return self.receive_held(at, seq, ctx);
                }
                let (handling, out_port) = (chunk.handling, chunk.out_port);
                if handling.stores && !chunk.can_store(len) {
                    self.pool.push(&mut chunk.held, packet);
                    self.receive_held(at, seq, ctx);
                    return;
                }
                // The common case: nothing waits, and the packet streams through.
                let start = self.take_ports(at.index(), ctx.now, handling, len);
                if start > ctx.now {
                    self.hold_fetching(at, seq, packet, start, ctx);
                } else if handling.sends && !self.port_has_room(at, out_port, seq, false, ctx) {
                    self.hold(at, seq, packet);
                    let chunk = self.progress(at, seq);
                    (chunk.receiving, chunk.waits_since) = (Unit::AtPort, ctx.now);
                } else {
                    self.finish_packet(at, seq, packet, ctx);
                }
            }
            _ => {
                let list = self.early.entry((at.0, seq, phase)).or_insert(List::EMPTY);
                self.pool.push(list, packet);
            }
        }
    }

    /// Takes SRAM ports and ALU for the first held packet, and handles packets as long as nothing is busy.
    pub(super) fn receive_held<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        loop {
            let engine = &mut self.engines[npu.index()];
            let Some(chunk) = engine.chunks.get_mut((seq - engine.base) as usize) else { return };
            if chunk.held.is_empty() || !chunk.can_receive() {
                return;
            }
            let (handling, list, port) = (chunk.handling, chunk.held, chunk.out_port);
            let Held { len, number, .. } = self.pool.first(list);
            if number != chunk.expected {
                return; // it has overtaken the message that is expected
            }
            if handling.stores && !chunk.can_store(len) && !self.take_room(npu, seq, len, ctx.now) {
                self.progress(npu, seq).receiving = Unit::Turn;
                return;
            }
            self.progress(npu, seq).receiving = Unit::Fetching;
            let start = self.take_ports(npu.index(), ctx.now, handling, len);
            if start > ctx.now {
                let key = chunk_key(class::RECEIVED, seq, port.0 as u8);
                ctx.q.at(start, key, AceEvent::Received { npu: npu.0, seq });
                return;
            }
            if !self.pass_on(npu, seq, ctx) {
                return;
            }
        }
    }

    /// Reserves the SRAM ports and the ALU that a packet needs and accounts its wait to the latest;
    /// returns when it has them all.
    pub(super) fn take_ports(&mut self, npu: usize, now: Ps, handling: Handling, len: u32) -> Ps {
        let Handling { reads, reduces, stores, .. } = handling;
        let busy = self.occupancy_of(len);
        let mut start = now;
        let mut cause = None;
        let idle = (0, Ps::ZERO);
        let (read, read_free) = if reads { self.sram_read.earliest(npu) } else { idle };
        let (write, write_free) = if stores { self.sram_write.earliest(npu) } else { idle };
        let (alu, alu_free) = if reduces { self.alus.earliest(npu) } else { idle };
        if read_free > start {
            (start, cause) = (read_free, Some(&mut self.sram_read.usage));
        }
        if write_free > start {
            (start, cause) = (write_free, Some(&mut self.sram_write.usage));
        }
        if alu_free > start {
            (start, cause) = (alu_free, Some(&mut self.alus.usage));
        }
        if let Some(cause) = cause {
            cause.wait += u128::from((start - now).0);
        }
        if reads {
            self.sram_read.occupy(npu, read, start, busy);
        }
        if stores {
            self.sram_write.occupy(npu, write, start, busy);
        }
        if reduces {
            self.alus.occupy(npu, alu, start, busy);
        }
        start
    }

    /// A held packet has SRAM ports and ALU.
    pub(super) fn packet_received<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if self.progress(npu, seq).shape == Shape::Direct {
            self.finish_direct(npu, seq, ctx);
            self.direct_held(npu, seq, ctx);
        } else if self.pass_on(npu, seq, ctx) {
            self.receive_held(npu, seq, ctx);
        }
    }

    /// Finishes the first held packet, forwarding it if its step sends; false if it must wait for the
    /// port.
    fn pass_on<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>) -> bool
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        let (sends, port) = (chunk.handling.sends, chunk.out_port);
        if sends && !self.port_has_room(npu, port, seq, false, ctx) {
            let chunk = self.progress(npu, seq);
            (chunk.receiving, chunk.waits_since) = (Unit::AtPort, ctx.now);
            return false;
        }
        self.finish_held(npu, seq, ctx);
        true
    }

    fn hold(&mut self, npu: NodeId, seq: u32, packet: Held) {
        let engine = &mut self.engines[npu.index()];
        let chunk = &mut engine.chunks[(seq - engine.base) as usize];
        self.pool.push(&mut chunk.held, packet);
    }

    /// A packet waits until `start` for SRAM ports and ALU.
    fn hold_fetching<N, Q>(&mut self, npu: NodeId, seq: u32, packet: Held, start: Ps, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent>,
    {
        self.hold(npu, seq, packet);
        let chunk = self.progress(npu, seq);
        chunk.receiving = Unit::Fetching;
        let key = chunk_key(class::RECEIVED, seq, chunk.out_port.0 as u8);
        ctx.q.at(start, key, AceEvent::Received { npu: npu.0, seq });
    }

    /// Finishes the first held packet; the port buffer has room for it if it is sent on.
    pub(super) fn finish_held<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let packet = self.pop_held(npu, seq);
        self.finish_packet(npu, seq, packet, ctx);
    }

    /// Takes the first held packet out of its list.
    pub(super) fn pop_held(&mut self, npu: NodeId, seq: u32) -> Held {
        let engine = &mut self.engines[npu.index()];
        let chunk = &mut engine.chunks[(seq - engine.base) as usize];
        let packet = self.pool.first(chunk.held);
        self.pool.pop(&mut chunk.held);
        packet
    }

    /// A packet is kept, or put into the port buffer, which has room.
    fn finish_packet<N: Network, Q>(&mut self, npu: NodeId, seq: u32, packet: Held, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        let (phase, Handling { reads, stores, sends, .. }) = (chunk.phase, chunk.handling);
        if sends {
            self.feed(npu, seq, packet.len, false, ctx);
        }
        ctx.net.release(ctx.now, npu, packet.port, TrafficClass::default(), ctx.q);
        let engine = &mut self.engines[npu.index()];
        let chunk = &mut engine.chunks[(seq - engine.base) as usize];
        chunk.receiving = Unit::Idle;
        if chunk.room_due.is_some() && stores {
            chunk.room -= u64::from(packet.len);
        }
        let left = chunk.receive_left.map_or(0, |left| left - packet.len);
        chunk.receive_left = Some(left);
        if left > 0 {
            return;
        }
        let (pc, group) = (chunk.pc, chunk.group);
        let is_last_send = sends && pc + 1 == chunk.legs;
        let read = if reads { self.arriving(npu, seq, pc, group).1 } else { 0 };
        let chunk = self.progress(npu, seq);
        if sends {
            chunk.message = None;
        }
        self.expect_next(npu, seq, false);
        if reads {
            self.free_source(npu, usize::from(phase), u64::from(read), ctx);
        }
        if is_last_send {
            self.next_group(npu, seq, group, ctx);
        }
        self.end_phase_if_complete(npu, seq, phase, ctx);
    }

    /// Ends `phase` of a chunk unless it has been ended already, by work that finished inside the call
    /// that now looks.
    pub(super) fn end_phase_if_complete<N: Network, Q>(
        &mut self,
        npu: NodeId,
        seq: u32,
        phase: u8,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        let complete = chunk.receive_left.is_none() && chunk.send_left.is_none();
        if complete && chunk.state == State::Running && chunk.phase == phase {
            self.end_phase(npu, seq, ctx);
        }
    }

    /// The last send of a group is issued: the FSM goes on to the next group, or is free.
    fn next_group<N: Network, Q>(&mut self, npu: NodeId, seq: u32, group: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if group + 1 == self.progress(npu, seq).groups {
            self.free_fsm(npu, seq, ctx);
            return;
        }
        let own = self.own_message_len(npu, seq, 0, group + 1);
        let chunk = self.progress(npu, seq);
        (chunk.send_left, chunk.sending_group, chunk.own) = (Some(own), group + 1, 0);
        self.begin_own(npu, seq, ctx);
    }

    /// The FSM sends a message of its own; around a ring as soon as no other FSM sends one through the port.
    pub(super) fn begin_own<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        (chunk.sending, chunk.waits_since) = (Unit::Turn, ctx.now);
        let (port, shape) = (chunk.out_port, chunk.shape);
        if shape != Shape::Ring {
            return self.fetch_own(npu, seq, ctx.now, ctx);
        }
        let at = npu.index() * self.ports + port.index();
        self.own_senders[at].push_back(seq);
        if self.own_senders[at].len() == 1 {
            self.fetch_own(npu, seq, ctx.now, ctx);
        }
    }

    /// The FSM's own message is issued: the next FSM may send one.
    fn end_own<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let at = npu.index() * self.ports + port.index();
        self.own_senders[at].pop_front();
        if let Some(&seq) = self.own_senders[at].front() {
            let waited = ctx.now - self.progress(npu, seq).waits_since;
            self.port_use.serve(waited, Ps::ZERO);
            self.fetch_own(npu, seq, ctx.now, ctx);
        }
    }

    /// The FSM fetches the next packet of its own message, not before `ready`.
    fn fetch_own<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ready: Ps, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let unit = self.unit;
        let chunk = self.progress(npu, seq);
        let Some(left) = chunk.send_left else { return };
        chunk.sending = Unit::Fetching;
        let (port, phase, shape) = (chunk.out_port, usize::from(chunk.phase), chunk.shape);
        // What an all-gather around a ring sends of its own is also the node's part of the result.
        let stores = shape == Shape::Ring && self.kind(seq, phase) == Kind::AllGather;
        let handling = Handling { stores, ..Handling::of(Op::Send) };
        let start = self.take_ports(npu.index(), ready, handling, left.min(unit));
        if start > ctx.now {
            ctx.q.at(start, chunk_key(class::FETCHED, seq, port.0 as u8), AceEvent::Fetched { npu: npu.0, seq });
        } else {
            self.packet_fetched(npu, seq, ctx);
        }
    }

    /// A packet of the FSM's own message has been read.
    pub(super) fn packet_fetched<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let port = self.progress(npu, seq).out_port;
        if !self.port_has_room(npu, port, seq, true, ctx) {
            let chunk = self.progress(npu, seq);
            (chunk.sending, chunk.waits_since) = (Unit::AtPort, ctx.now);
            return;
        }
        self.issue_own(npu, seq, ctx);
    }

    /// Puts the fetched packet of the FSM's own message into the port buffer and fetches the next.
    pub(super) fn issue_own<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let unit = self.unit;
        let left = self.progress(npu, seq).send_left.unwrap_or(0);
        let len = left.min(unit);
        self.feed(npu, seq, len, true, ctx);
        let busy = self.occupancy_of(len);
        let chunk = self.progress(npu, seq);
        chunk.sending = Unit::Idle;
        if left > len {
            chunk.send_left = Some(left - len);
            // One FSM reads one packet after the other.
            self.fetch_own(npu, seq, ctx.now + busy, ctx);
            return;
        }
        self.own_sent(npu, seq, ctx.now + busy, ctx);
    }

    /// An own message of the FSM is in the port buffer; the next one can be read from `ready` on.
    fn own_sent<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ready: Ps, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        let Progress { phase, shape, own, owns, legs, sending_group: group, out_port: port, .. } = *chunk;
        chunk.message = None;
        let freed = match shape {
            Shape::Direct if !self.is_given_away(npu, seq) => 0,
            Shape::Direct => self.direct_len(npu, seq, own),
            Shape::Ring | Shape::Relay => self.own_message_len(npu, seq, own, group),
        };
        let more = match shape {
            Shape::Direct => self.set_up_direct(npu, seq, own + 1),
            Shape::Ring | Shape::Relay => {
                let next = (own + 1 < owns).then(|| self.own_message_len(npu, seq, own + 1, group));
                let chunk = self.progress(npu, seq);
                (chunk.own, chunk.send_left) = (own + 1, next);
                next.is_some()
            }
        };
        let may_send = more && self.may_send(npu, seq);
        if shape == Shape::Ring {
            self.end_own(npu, port, ctx);
        } else if may_send {
            self.fetch_own(npu, seq, ready, ctx);
        }
        if freed > 0 || shape == Shape::Ring {
            self.free_source(npu, usize::from(phase), u64::from(freed), ctx);
        }
        if !more && shape == Shape::Direct {
            self.free_fsm(npu, seq, ctx);
        } else if !more && legs == 1 {
            self.next_group(npu, seq, group, ctx);
        }
        self.end_phase_if_complete(npu, seq, phase, ctx);
        if shape != Shape::Direct {
            self.receive_held(npu, seq, ctx);
        }
    }

    /// Hands a packet to the network, opening its message with the first.
    fn feed<N: Network, Q>(&mut self, npu: NodeId, seq: u32, len: u32, own: bool, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.sent += u64::from(len);
        let chunk = self.progress(npu, seq);
        let id = match chunk.message {
            Some(id) => id,
            None => {
                let left = if own { chunk.send_left } else { chunk.receive_left };
                let number = if chunk.shape == Shape::Direct { 0 } else { self.sent_number(npu, seq, own) };
                let chunk = self.progress(npu, seq);
                let message = Message {
                    src: npu,
                    route: chunk.route,
                    queue: 0,
                    len: Bytes(u64::from(left.unwrap_or(0))),
                    class: TrafficClass::default(),
                    delivery: Delivery::Stream,
                    tag: Self::tag(seq, chunk.phase, chunk.gathers, number),
                    receipt: None,
                };
                let id = ctx.net.open(message);
                self.flights.begin(ctx.now);
                self.progress(npu, seq).message = Some(id);
                id
            }
        };
        ctx.net.feed(ctx.now, id, Bytes(u64::from(len)), ctx.q);
    }
}
