//! What arrives around a ring: packets through SRAM ports, ALUs and port buffers.
//!
//! A chunk handles the messages of its phase in order ([`super::phase_messages`]): for each group of messages, first the
//! FSM's own ones, then what arrives, passed on packet by packet. The next group's own messages begin when
//! the last send of the current group has been issued. Sends of one chunk never overtake each other, so
//! a packet that must be passed on waits while the FSM's own messages of that group are not complete. Direct phases have no
//! such order for what arrives ([`super::direct`]).

use super::arrived_packets::{ArrivedPacket, PacketList};
use super::engine::Ace;
use super::event::{AceEvent, class};
use super::handling::Handling;
use super::message_tag::MessageTag;
use super::phase_messages as messages;
use super::ports::Waiting;
use super::progress::{Progress, State};
use super::run::{Arriving, InHand, PhaseRun, Shape};
use crate::api::{ChunkId, Ctx, port_key};
use syncline_collective::PhaseId;
use syncline_core::{NodeId, PortId, Schedule};
use syncline_network::{Network, TrafficClass};

impl Ace {
    /// Sets what a chunk receives first around a ring.
    pub(super) fn expect_first(&mut self, npu: NodeId, seq: ChunkId) {
        self.expect(npu, seq, 0, 1);
    }

    /// Sets what a chunk receives next around a ring, after the message that is complete.
    fn expect_next(&mut self, npu: NodeId, seq: ChunkId) {
        let around = self.progress(npu, seq).run().around();
        around.expected = (around.expected + 1) & MessageTag::NUMBERS;
        let Arriving { group, number, .. } = *around.arriving();
        self.expect(npu, seq, group, number + 1);
    }

    /// Sets that a message of a group, or the first one of the next group, is received next, if there is one.
    fn expect(&mut self, npu: NodeId, seq: ChunkId, group: u32, number: u32) {
        let chunk = self.progress(npu, seq);
        let phase = chunk.phase;
        let run = chunk.run();
        let groups = run.groups;
        let around = run.around();
        let (group, number) = if number > around.per_group { (group + 1, 1) } else { (group, number) };
        around.arriving = None;
        if group < groups {
            let (handling, block) = messages::arriving(&self.view(npu, seq, phase), number);
            let len = messages::part(block, groups, group);
            self.progress(npu, seq).run().around().arriving =
                Some(Arriving { group, number, handling, len, left: len });
        }
    }

    /// A packet of a phase, of `len` bytes, arrived.
    #[inline]
    pub(super) fn arrived<N: Network, Q>(
        &mut self,
        at: NodeId,
        port: PortId,
        tag: u64,
        len: u32,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let MessageTag { seq, phase, is_result, number } = MessageTag::of(tag);
        let packet = ArrivedPacket::new(len, port, is_result, number);
        let Some(run) = self.windows[at.index()].get_mut(seq).and_then(|chunk| running(chunk, phase)) else {
            let list = self.early.entry((at.0, seq, phase)).or_insert(PacketList::EMPTY);
            return self.arrived.push(list, packet);
        };
        let (Shape::Ring(around) | Shape::Relay { around, .. }) = &run.shape else {
            self.arrived.push(&mut run.arrived, packet);
            return self.add_waiting(at, seq, ctx);
        };
        let Some(Arriving { handling, .. }) = around.arriving else {
            return self.arrived.push(&mut run.arrived, packet);
        };
        let out_port = around.port;
        let in_turn = run.arrived.is_empty() && number == around.expected && run.can_receive();
        if !in_turn || handling.stores && !run.room.can_store(len) {
            self.arrived.push(&mut run.arrived, packet);
            return self.receive_waiting(at, seq, ctx);
        }
        // The common case: nothing waits, and the packet streams through.
        let start = self.banks.take(at.index(), ctx.now, handling, len);
        if start > ctx.now {
            self.hold(at, seq, packet, InHand::Fetching);
            let key = port_key(class::RECEIVED, seq, out_port);
            ctx.q.at(start, key, AceEvent::Received { npu: at.0, seq });
        } else if handling.sends && !self.space_or_wait(at, out_port, Waiting { seq, own: false }, ctx) {
            self.hold(at, seq, packet, InHand::AtPort);
            self.progress(at, seq).waits_since = ctx.now;
        } else {
            self.finish_packet(at, seq, packet, ctx);
        }
    }

    /// A packet stays in its input buffer, waiting for something.
    fn hold(&mut self, npu: NodeId, seq: ChunkId, packet: ArrivedPacket, receiving: InHand) {
        let run = self.windows[npu.index()].chunk(seq).run();
        self.arrived.push(&mut run.arrived, packet);
        run.receiving = receiving;
    }

    /// Takes SRAM ports and ALU for the first packet that waits, and handles packets as long as nothing is busy.
    pub(super) fn receive_waiting<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        loop {
            let Some(Progress { state: State::Running(run), .. }) = self.windows[npu.index()].get_mut(seq) else {
                return;
            };
            if run.arrived.is_empty() || !run.can_receive() {
                return;
            }
            let (list, room) = (run.arrived, run.room);
            let around = run.around();
            let Arriving { handling, .. } = *around.arriving();
            let (port, expected) = (around.port, around.expected);
            let ArrivedPacket { len, number, .. } = self.arrived.first(list);
            if number != expected {
                return; // it has overtaken the message that is expected
            }
            if handling.stores && !room.can_store(len) && !self.take_room(npu, seq, len, ctx.now) {
                self.progress(npu, seq).run().receiving = InHand::Turn;
                return;
            }
            self.progress(npu, seq).run().receiving = InHand::Fetching;
            let start = self.banks.take(npu.index(), ctx.now, handling, len);
            if start > ctx.now {
                let key = port_key(class::RECEIVED, seq, port);
                ctx.q.at(start, key, AceEvent::Received { npu: npu.0, seq });
                return;
            }
            if !self.pass_on(npu, seq, ctx) {
                return;
            }
        }
    }

    /// The first packet that waits has SRAM ports and ALU.
    pub(super) fn packet_received<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if let Shape::Direct(_) = self.progress(npu, seq).run().shape {
            self.add_first(npu, seq, ctx);
            self.add_waiting(npu, seq, ctx);
        } else if self.pass_on(npu, seq, ctx) {
            self.receive_waiting(npu, seq, ctx);
        }
    }

    /// Finishes the first packet that waits, passing it on if its step sends; false if it must wait for the port.
    fn pass_on<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>) -> bool
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let around = self.progress(npu, seq).run().around();
        let (sends, port) = (around.arriving().handling.sends, around.port);
        if sends && !self.space_or_wait(npu, port, Waiting { seq, own: false }, ctx) {
            let chunk = self.progress(npu, seq);
            chunk.waits_since = ctx.now;
            chunk.run().receiving = InHand::AtPort;
            return false;
        }
        self.finish_first(npu, seq, ctx);
        true
    }

    /// Finishes the first packet that waits; the port buffer has room for it if it is passed on.
    pub(super) fn finish_first<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let run = self.windows[npu.index()].chunk(seq).run();
        let packet = self.arrived.pop(&mut run.arrived);
        self.finish_packet(npu, seq, packet, ctx);
    }

    /// A packet is kept, or put into the port buffer, which has room.
    fn finish_packet<N: Network, Q>(
        &mut self,
        npu: NodeId,
        seq: ChunkId,
        packet: ArrivedPacket,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let Arriving { handling, .. } = *self.progress(npu, seq).run().around().arriving();
        let Handling { reads, stores, sends, .. } = handling;
        if sends {
            self.feed(npu, seq, packet.len, false, ctx);
        }
        ctx.net.release(ctx.now, npu, packet.port, TrafficClass::default(), ctx.q);
        let chunk = self.progress(npu, seq);
        let phase = chunk.phase;
        let run = chunk.run();
        run.receiving = InHand::Nothing;
        if stores {
            run.room.fill(packet.len);
        }
        let around = run.around();
        let arriving = around.arriving();
        arriving.left -= packet.len;
        if arriving.left > 0 {
            return;
        }
        let Arriving { number, group, len, .. } = *arriving;
        // The last message of a group is for this NPU.
        let is_last_send = sends && number + 1 == around.per_group;
        if sends {
            run.message = None;
        }
        self.expect_next(npu, seq);
        if reads {
            self.free_source(npu, phase, u64::from(len), ctx);
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
        seq: ChunkId,
        phase: PhaseId,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if running(self.progress(npu, seq), phase).is_some_and(|run| run.is_complete()) {
            self.end_phase(npu, seq, ctx);
        }
    }
}

/// What a chunk does in a phase, if it runs that.
#[inline]
fn running(chunk: &mut Progress, phase: PhaseId) -> Option<&mut PhaseRun> {
    match &mut chunk.state {
        State::Running(run) if chunk.phase == phase => Some(run),
        _ => None,
    }
}
