//! What FSMs send of their own: read packet by packet, and put into port buffers.

use super::engine::Ace;
use super::event::{AceEvent, class};
use super::handling::Handling;
use super::message_tag::MessageTag;
use super::phase_messages as messages;
use super::ports::Waiting;
use super::run::{Arriving, InHand, OwnAround, Shape};
use crate::api::{ChunkId, Ctx, port_key};
use syncline_collective::{Kind, Op};
use syncline_core::{Bytes, NodeId, PortId, Ps, Schedule};
use syncline_network::{Delivery, Message, Network, Route, TrafficClass};

/// The connection that engines use to each place: they have no more than one.
pub(super) const QUEUE: u16 = 0;

impl Ace {
    /// The FSM sends a message of its own; around a ring as soon as no other FSM sends one through the port.
    pub(super) fn begin_own<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        chunk.waits_since = ctx.now;
        let run = chunk.run();
        run.sending = InHand::Turn;
        if let Shape::Ring(around) = &run.shape {
            let port = around.port;
            if !self.ports.begin_sending(npu, port, seq) {
                return;
            }
        }
        self.fetch_own(npu, seq, ctx.now, ctx);
    }

    /// An FSM's own message around a ring is issued: the next FSM may send one.
    fn end_own<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if let Some(seq) = self.ports.end_sending(npu, port) {
            let waited = ctx.now - self.progress(npu, seq).waits_since;
            self.ports.account_wait(waited);
            self.fetch_own(npu, seq, ctx.now, ctx);
        }
    }

    /// The FSM fetches the next packet of its own message, not before `ready`.
    pub(super) fn fetch_own<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ready: Ps, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let packet = self.packet;
        let chunk = self.progress(npu, seq);
        let phase = chunk.phase;
        let run = chunk.run();
        let is_ring = matches!(run.shape, Shape::Ring(_));
        let (port, left) = (run.own_port(), *run.own_left());
        run.sending = InHand::Fetching;
        // What an all-gather around a ring sends of its own is also the NPU's part of the result. No step of the program
        // says so, for which it is in the result from the beginning; an engine moves it to the next partition.
        let stores = is_ring && self.kind(seq, phase) == Kind::AllGather;
        let handling = Handling { stores, ..Handling::of(Op::Send) };
        let start = self.banks.take(npu.index(), ready, handling, left.min(packet));
        if start > ctx.now {
            ctx.q.at(start, port_key(class::FETCHED, seq, port), AceEvent::Fetched { npu: npu.0, seq });
        } else {
            self.packet_fetched(npu, seq, ctx);
        }
    }

    /// A packet of the FSM's own message has been read.
    pub(super) fn packet_fetched<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let port = self.progress(npu, seq).run().own_port();
        if self.space_or_wait(npu, port, Waiting { seq, own: true }, ctx) {
            return self.issue_own(npu, seq, ctx);
        }
        let chunk = self.progress(npu, seq);
        chunk.waits_since = ctx.now;
        chunk.run().sending = InHand::AtPort;
    }

    /// Puts the fetched packet of the FSM's own message into the port buffer and fetches the next.
    pub(super) fn issue_own<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let packet = self.packet;
        let left = *self.progress(npu, seq).run().own_left();
        let len = left.min(packet);
        self.feed(npu, seq, len, true, ctx);
        let busy = self.banks.time(len);
        let run = self.progress(npu, seq).run();
        run.sending = InHand::Nothing;
        if left > len {
            *run.own_left() -= len;
            // One FSM reads one packet after the other.
            return self.fetch_own(npu, seq, ctx.now + busy, ctx);
        }
        run.message = None;
        match run.shape {
            Shape::Ring(_) | Shape::Relay { .. } => self.own_sent_around(npu, seq, ctx.now + busy, ctx),
            Shape::Direct(_) => self.own_sent_directly(npu, seq, ctx.now + busy, ctx),
        }
    }

    /// An own message around a ring is in the port buffer; the next one can be read from `ready` on.
    fn own_sent_around<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ready: Ps, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        let phase = chunk.phase;
        let run = chunk.run();
        let groups = run.groups;
        let is_ring = matches!(run.shape, Shape::Ring(_));
        // The own message of a relay that follows in the group.
        let next = match &mut run.shape {
            Shape::Ring(_) | Shape::Direct(_) => None,
            Shape::Relay { own, .. } => {
                *own += 1;
                Some(*own)
            }
        };
        let around = run.around();
        let (port, per_group) = (around.port, around.per_group);
        let OwnAround { group, len, .. } = around.own.take().expect("what is sent is an own message");
        let view = self.view(npu, seq, phase);
        let next = next.filter(|&own| own < messages::own_messages(&view));
        let next_len = next.map(|own| messages::part(messages::own_block(&view, own), groups, group));
        self.progress(npu, seq).run().around().own = next_len.map(|len| OwnAround { group, len, left: len });
        if is_ring {
            self.end_own(npu, port, ctx);
        } else if next.is_some() {
            self.fetch_own(npu, seq, ready, ctx);
        }
        if len > 0 || is_ring {
            self.free_source(npu, phase, u64::from(len), ctx);
        }
        // Where nothing is passed on, this was the last send of the group.
        if next.is_none() && per_group == 1 {
            self.next_group(npu, seq, group, ctx);
        }
        self.end_phase_if_complete(npu, seq, phase, ctx);
        self.receive_waiting(npu, seq, ctx);
    }

    /// The last send of a group around a ring is issued: the FSM goes on to the next group, or is free.
    pub(super) fn next_group<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, group: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if group + 1 == self.progress(npu, seq).run().groups {
            return self.free_fsm(npu, seq, ctx);
        }
        self.set_up_own(npu, seq, group + 1);
        self.begin_own(npu, seq, ctx);
    }

    /// Sets up the first own message of a group around a ring.
    pub(super) fn set_up_own(&mut self, npu: NodeId, seq: ChunkId, group: u32) {
        let chunk = self.progress(npu, seq);
        let (phase, groups) = (chunk.phase, chunk.run().groups);
        let len = messages::part(messages::own_block(&self.view(npu, seq, phase), 0), groups, group);
        let run = self.progress(npu, seq).run();
        if let Shape::Relay { own, .. } = &mut run.shape {
            *own = 0;
        }
        run.around().own = Some(OwnAround { group, len, left: len });
    }

    /// Hands a packet to the network, opening its message with the first: one of the FSM's own message, or of one that it
    /// passes on.
    pub(super) fn feed<N: Network, Q>(
        &mut self,
        npu: NodeId,
        seq: ChunkId,
        len: u32,
        own: bool,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.sent += u64::from(len);
        self.sent_of_chunks[seq.index()] += u64::from(len);
        let id = match self.progress(npu, seq).run().message {
            Some(id) => id,
            None => {
                let message = self.outgoing(npu, seq, own);
                let id = ctx.net.open(message);
                self.flights.begin(ctx.now);
                self.progress(npu, seq).run().message = Some(id);
                id
            }
        };
        ctx.net.feed(ctx.now, id, Bytes(u64::from(len)), ctx.q);
    }

    /// The message of which a chunk sends a first packet: the FSM's own one, or the one that it passes on.
    fn outgoing(&mut self, npu: NodeId, seq: ChunkId, own: bool) -> Message {
        let chunk = self.progress(npu, seq);
        let phase = chunk.phase;
        let run = *chunk.run();
        let (route, len, is_result, number) = match run.shape {
            Shape::Direct(direct) => {
                let own = direct.own.expect("a direct phase passes nothing on");
                (own.route, own.left, own.is_result, 0)
            }
            Shape::Ring(around) | Shape::Relay { around, .. } => {
                let view = self.view(npu, seq, phase);
                let (group, number, len) = if own {
                    let OwnAround { group, left, .. } = around.own.expect("the FSM sends a message of its own");
                    let index = if let Shape::Relay { own, .. } = run.shape { own } else { 0 };
                    (group, messages::number_of_own(&view, index), left)
                } else {
                    let Arriving { group, number, left, .. } = around.arriving.expect("a message is passed on");
                    (group, messages::number_passed_on(&view, number), left)
                };
                // The number in the phase, as the receiver counts.
                let number = group.wrapping_mul(around.per_group).wrapping_add(number - 1) & MessageTag::NUMBERS;
                (Route::Port(around.port), len, false, number)
            }
        };
        let tag = MessageTag { seq, phase, is_result, number }.tag();
        let len = Bytes(u64::from(len));
        Message {
            src: npu,
            route,
            queue: QUEUE,
            len,
            class: TrafficClass::default(),
            delivery: Delivery::Stream,
            tag,
            receipt: None,
        }
    }
}
