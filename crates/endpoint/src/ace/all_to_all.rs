//! A chunk of a direct all-to-all: what an NPU sends of its own, and what it receives.
//!
//! An all-to-all has a single phase, which every FSM can run (ACE paper, section V). What goes to others is
//! loaded into the first partition; the FSM of the chunk serves the peers in the order of the program, and puts the
//! packets for each into the port buffer of their route. It is free when it has issued the last. A
//! packet is read when there is room for it, one after the other. What a peer has got is given back to the
//! partition.
//!
//! What arrives is final: it goes through the terminal partition to memory packet by packet, whether or not the NPU
//! has begun the chunk itself. The chunk is done when everything is sent and everything is stored. What stays
//! with the NPU is never moved. So main memory is read once for every byte that is injected and written once for
//! every byte that is received, however far it goes.
//!
//! Left out: messages. Nothing waits for a message of an all-to-all to be complete, so packets go one by one.

use super::config::Transit;
use super::engine::Ace;
use super::event::{AceEvent, class};
use super::packet::Packet;
use super::phase_messages::bytes_of_peers;
use super::progress::{Progress, State};
use super::run::PeerBlock;
use crate::api::{ChunkId, Ctx, EpOut, RoomId, chunk_key};
use syncline_collective::{PhaseId, Slot};
use syncline_core::{NodeId, Ps, Schedule};
use syncline_network::{Network, Route};

impl Ace {
    /// Bytes of a chunk that an NPU is still to receive and store, whether or not it has begun the chunk.
    fn still_due(&self, npu: NodeId, seq: ChunkId) -> u64 {
        let due = self.receipts.due(npu, seq);
        due.unwrap_or_else(|| bytes_of_peers(&self.view(npu, seq, PhaseId(0))))
    }

    /// The chunk's FSM begins.
    pub(super) fn begin_all_to_all<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if self.turn_to_peer(npu, seq, 0) {
            self.next_packet(npu, seq, ctx);
        } else {
            self.end_sending(npu, seq, ctx);
        }
    }

    /// The FSM turns to the next peer that gets something, from step `pc` on; false if there is none.
    fn turn_to_peer(&mut self, npu: NodeId, seq: ChunkId, pc: u32) -> bool {
        let view = self.layout.view(npu, self.chunks[seq.index()], PhaseId(0));
        let mut steps = (pc..view.steps(0)).map(|pc| (pc, view.step(Slot { thread: 0, pc })));
        let found = steps.find(|(_, step)| step.op.sends() && view.len(step) > 0).map(|(pc, step)| {
            let len = view.len(&step);
            let route = view.route(Slot { thread: 0, pc }, &step);
            let paths = &mut self.paths;
            let path = match route {
                Route::Port(port) => Some(paths.through(port)),
                Route::To(dst) => paths.between(self.layout.fabric(), npu, (dst, 0)),
                Route::By(dst, choice) => paths.between(self.layout.fabric(), npu, (dst, choice)),
            };
            let position = path.expect("a peer is another NPU");
            PeerBlock { pc, len, left: len, route, position, since: Ps::ZERO }
        });
        self.progress(npu, seq).state = State::Exchanging(found);
        found.is_some()
    }

    /// The FSM has issued its last packet.
    fn end_sending<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.free_fsm(npu, seq, ctx);
        self.finish_if_complete(npu, seq, ctx);
    }

    /// The FSM has a packet for its peer.
    pub(super) fn next_packet<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let now = ctx.now;
        let block = self.progress(npu, seq).peer_block();
        block.since = now;
        let position = block.position;
        self.line_up(npu, self.paths.hop(position).port, seq, ctx);
    }

    /// The packet that a chunk's FSM sends next: the first hop of its path, and its length.
    pub(super) fn own_packet(&mut self, npu: NodeId, seq: ChunkId) -> (u32, u32) {
        let longest = u64::from(self.pools.slot_bytes());
        let block = self.progress(npu, seq).peer_block();
        (block.position, block.left.min(longest) as u32)
    }

    /// The route of that packet: to the neighbour, or all the way if the network forwards.
    pub(super) fn own_route(&mut self, npu: NodeId, seq: ChunkId) -> Route {
        let PeerBlock { route, position, .. } = *self.progress(npu, seq).peer_block();
        match self.config.transit {
            Transit::Endpoint { .. } => Route::Port(self.paths.hop(position).port),
            Transit::Network => route,
        }
    }

    /// A packet of a chunk's own goes into the port buffer.
    pub(super) fn issue_own_packet<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let (_, len) = self.own_packet(npu, seq);
        let busy = self.banks.time(len);
        let block = self.progress(npu, seq).peer_block();
        block.left -= u64::from(len);
        let PeerBlock { pc, len: all, left, position, since, .. } = *block;
        self.ports.account_wait(ctx.now - since);
        let route = self.own_route(npu, seq);
        // What the network carries all the way is at its destination when it arrives, as after the last hop.
        let position = match self.config.transit {
            Transit::Endpoint { .. } => position,
            Transit::Network => self.paths.through(self.paths.hop(position).port),
        };
        self.send_packet(npu, Packet { seq, position, len, since: ctx.now }, route, ctx);
        if left == 0 {
            self.sram.free(npu, 0, all);
            self.record_levels(npu, ctx.now);
            ctx.out.push(EpOut::Room { npu, room: RoomId::ONLY });
            if !self.turn_to_peer(npu, seq, pc + 1) {
                return self.end_sending(npu, seq, ctx);
            }
        }
        // One FSM reads one packet after the other.
        ctx.q.at(ctx.now + busy, chunk_key(class::FETCHED, seq, 0), AceEvent::Fetched { npu: npu.0, seq });
    }

    /// A packet of a chunk is in memory.
    pub(super) fn received<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, len: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let left = self.still_due(npu, seq) - u64::from(len);
        self.receipts.set_due(npu, seq, left);
        self.finish_if_complete(npu, seq, ctx);
    }

    /// Ends a chunk if everything has been sent and received.
    fn finish_if_complete<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let Some(Progress { state: State::Exchanging(None), ready, began, .. }) = self.windows[npu.index()].get(seq)
        else {
            return;
        };
        let (ready, began) = (*ready, *began);
        if self.still_due(npu, seq) > 0 {
            return;
        }
        self.receipts.forget(npu, seq);
        if self.traced.contains(npu) {
            ctx.out.push(EpOut::Phase { npu, room: RoomId::ONLY, seq, phase: PhaseId(0), ready, began });
        }
        self.complete(npu, seq, ctx);
        ctx.out.push(EpOut::Room { npu, room: RoomId::ONLY });
    }

    /// What an unfinished chunk waits for, given what it still sends.
    pub(super) fn wait_for_peers(&self, npu: NodeId, seq: ChunkId, block: Option<&PeerBlock>) -> String {
        let Some(block) = block else { return format!("{} B of its peers", self.still_due(npu, seq)) };
        let hop = self.paths.hop(block.position);
        let name = self.layout.fabric().port_name(npu, hop.port);
        match self.pools.may_enter(npu, hop.port, hop.enters) {
            true => format!("space in the port buffer of {name}"),
            false => format!("a free slot in the transit pool of {name}"),
        }
    }
}
