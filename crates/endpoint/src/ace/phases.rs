//! How chunks enter and leave phases.

use super::arrived_packets::PacketList;
use super::dma::WriteBack;
use super::engine::Ace;
use super::event::{AceEvent, class};
use super::phase_messages::{self as messages, Pattern};
use super::progress::{Blocked, Progress, State};
use super::run::{Around, Direct, InHand, PhaseRun, Shape};
use super::sram::Reservation;
use crate::api::{Chunk, ChunkId, Ctx, EpOut, RoomId, chunk_key};
use crate::loggp::Train;
use syncline_collective::PhaseId;
use syncline_core::{Bytes, Id, NodeId, Ps, Schedule};
use syncline_network::Network;

impl Ace {
    /// A chunk is loaded if its partition has room; with nothing to communicate it is complete.
    pub(super) fn load<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.chunks[seq.index()];
        let mut done = ctx.now;
        let mut event = AceEvent::Drained { npu: npu.0, seq }; // nothing to communicate with nobody
        if self.layout.phases(chunk.plan) > 0 {
            let bytes = self.bytes_loaded(npu, chunk);
            self.sram.take(npu, 0, bytes);
            done = self.dmas.load(npu.index(), ctx.now, Bytes(bytes));
            event = AceEvent::Loaded { npu: npu.0, seq };
        }
        self.record_levels(npu, ctx.now);
        ctx.q.at(done, chunk_key(class::LOADED, seq, 0), event);
    }

    /// Bytes that an NPU loads of a chunk.
    pub(super) fn bytes_loaded(&self, npu: NodeId, chunk: Chunk) -> u64 {
        match self.is_all_to_all(chunk.plan) {
            true => messages::bytes_for_peers(&self.layout.view(npu, chunk, PhaseId(0))),
            false => self.layout.held(npu, chunk, PhaseId(0)),
        }
    }

    /// A chunk is ready for its phase.
    pub(super) fn queue<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        (chunk.state, chunk.ready, chunk.waits_since) = (State::Queued, ctx.now, ctx.now);
        chunk.blocked = Blocked::Turn;
        let phase = chunk.phase;
        self.begin_phases(npu, self.queue_of(seq, phase), ctx);
    }

    /// A chunk that is ready for its next phase, if it is the one of this queue.
    pub(super) fn queued(&self, npu: NodeId, queue: usize, seq: ChunkId) -> Option<&Progress> {
        let chunk = self.windows[npu.index()].get(seq)?;
        (matches!(chunk.state, State::Queued) && self.queue_of(seq, chunk.phase) == queue).then_some(chunk)
    }

    /// Whether the next chunk of a queue can begin its phase; if not, what it waits for.
    pub(super) fn blocked_by(&self, npu: NodeId, queue: usize, seq: ChunkId) -> Option<Blocked> {
        if self.queued(npu, queue, seq).is_none() {
            return Some(Blocked::Turn);
        }
        if !self.fsms.is_free(npu.index(), queue, self.fsms.server(queue, seq)) {
            return Some(Blocked::Fsm);
        }
        if queue == self.phases {
            return None;
        }
        let phase = PhaseId::from_index(queue);
        let waits = self.takes_room_at_once(seq, phase) && !self.may_take_room(npu, phase, seq);
        waits.then_some(Blocked::Room)
    }

    /// Whether it is a chunk's turn to take room for the results of its phase, and there is room.
    fn may_take_room(&self, npu: NodeId, phase: PhaseId, seq: ChunkId) -> bool {
        let (to, bytes) = self.destination(npu, seq, phase);
        self.order.next_to_take_room(npu.index(), phase.index()) == Some(seq) && self.sram.fits(npu, to, bytes)
    }

    /// Reserves room for the results of a chunk's phase, as much as there is of what it still needs, if it
    /// is its turn; whether a packet of `len` bytes can be stored.
    pub(super) fn take_room(&mut self, npu: NodeId, seq: ChunkId, len: u32, now: Ps) -> bool {
        let phase = self.progress(npu, seq).phase;
        if self.order.next_to_take_room(npu.index(), phase.index()) == Some(seq) {
            let to = self.destination_of(seq, phase);
            if self.sram.reserve(npu, to, &mut self.windows[npu.index()].chunk(seq).run().room) {
                self.order.has_room(npu.index(), phase.index());
            }
            self.record_levels(npu, now);
        }
        let chunk = self.progress(npu, seq);
        let (can_store, waited) = (chunk.run().room.can_store(len), chunk.blocked == Blocked::Room);
        if !can_store && !waited {
            (chunk.blocked, chunk.waits_since) = (Blocked::Room, now);
        }
        if can_store && waited {
            self.account_wait(npu, seq, now);
            self.progress(npu, seq).blocked = Blocked::Turn;
        }
        can_store
    }

    /// The partition that `phase` fills may have room again: chunks that wait for it go on.
    pub(super) fn room_freed<N: Network, Q>(&mut self, npu: NodeId, phase: PhaseId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.begin_phases(npu, phase.index(), ctx);
        loop {
            let Some(seq) = self.order.next_to_take_room(npu.index(), phase.index()) else { return };
            let Some(chunk) = self.windows[npu.index()].get(seq) else { return };
            let State::Running(run) = &chunk.state else { return };
            if chunk.phase != phase {
                return;
            }
            let waits = run.receiving == InHand::Turn;
            if !(waits || run.room.is_open()) || !self.take_room(npu, seq, 1, ctx.now) {
                return;
            }
            if waits {
                self.progress(npu, seq).run().receiving = InHand::Nothing;
                self.receive_waiting(npu, seq, ctx);
            }
            if self.order.next_to_take_room(npu.index(), phase.index()) == Some(seq) {
                return;
            }
        }
    }

    /// Local data has been read, for the only time in its phase: its room is given back.
    pub(super) fn free_source<N: Network, Q>(
        &mut self,
        npu: NodeId,
        phase: PhaseId,
        bytes: u64,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.sram.free(npu, phase.index(), bytes);
        self.record_levels(npu, ctx.now);
        match phase.0 {
            0 => ctx.out.push(EpOut::Room { npu, room: RoomId::ONLY }),
            later => self.room_freed(npu, PhaseId(later - 1), ctx),
        }
    }

    /// The partition that a phase of a chunk fills.
    fn destination_of(&self, seq: ChunkId, phase: PhaseId) -> usize {
        let next = phase.index() + 1;
        if next == self.layout.phases(self.plan_of(seq)) { self.phases } else { next }
    }

    /// The partition that a phase of a chunk fills, and how many bytes.
    pub(super) fn destination(&self, npu: NodeId, seq: ChunkId, phase: PhaseId) -> (usize, u64) {
        (self.destination_of(seq, phase), self.layout.held(npu, self.chunks[seq.index()], phase.next()))
    }

    /// Lets the chunks of a queue begin their phase, in their order, as long as FSMs and room last.
    pub(super) fn begin_phases<N: Network, Q>(&mut self, npu: NodeId, queue: usize, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        loop {
            let Some(seq) = self.order.next_to_begin(npu.index(), queue) else { return };
            match self.blocked_by(npu, queue, seq) {
                Some(Blocked::Turn) => return,
                Some(reason) => {
                    self.account_wait(npu, seq, ctx.now);
                    self.progress(npu, seq).blocked = reason;
                    return;
                }
                None => {
                    self.order.begin(npu.index(), queue);
                    self.begin_phase(npu, seq, queue, ctx);
                }
            }
        }
    }

    /// Accounts what a chunk has waited since the last look to what it was blocked by.
    fn account_wait(&mut self, npu: NodeId, seq: ChunkId, now: Ps) {
        let chunk = self.progress(npu, seq);
        let waited = now - chunk.waits_since;
        chunk.waits_since = now;
        match chunk.blocked {
            Blocked::Room => self.sram.account_wait(waited),
            Blocked::Fsm | Blocked::Turn => self.fsms.account_wait(waited),
        }
    }

    /// A chunk begins its phase.
    fn begin_phase<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, queue: usize, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.fsms.take(npu.index(), queue, self.fsms.server(queue, seq));
        self.record_levels(npu, ctx.now);
        self.account_wait(npu, seq, ctx.now);
        self.progress(npu, seq).began = ctx.now;
        if queue == self.phases {
            return self.begin_all_to_all(npu, seq, ctx);
        }
        let phase = PhaseId::from_index(queue);
        let run = self.new_run(npu, seq, phase);
        let chunk = self.progress(npu, seq);
        (chunk.state, chunk.blocked) = (State::Running(run), Blocked::Turn);
        if self.takes_room_at_once(seq, PhaseId::from_index(queue)) {
            self.take_room(npu, seq, 0, ctx.now);
        }
        // The block that a rank keeps for itself while it sends the others lies among the results in direct phases and
        // relays, where it stays at its place.
        let kept = match run.shape {
            Shape::Ring(_) => 0,
            Shape::Relay { .. } | Shape::Direct(_) => self.view(npu, seq, phase).kept(),
        };
        if let Shape::Direct(_) = run.shape {
            self.begin_direct(npu, seq, ctx);
            self.add_waiting(npu, seq, ctx);
        } else {
            self.set_up_own(npu, seq, 0);
            self.expect_first(npu, seq);
            self.begin_own(npu, seq, ctx);
            self.receive_waiting(npu, seq, ctx);
        }
        if kept > 0 {
            self.free_source(npu, phase, kept, ctx);
        }
    }

    /// A phase of a chunk in which nothing has been done yet.
    fn new_run(&mut self, npu: NodeId, seq: ChunkId, phase: PhaseId) -> PhaseRun {
        let arrived = self.early.remove(&(npu.0, seq, phase)).unwrap_or(PacketList::EMPTY);
        let (_, bytes) = self.destination(npu, seq, phase);
        let view = self.view(npu, seq, phase);
        let around = || Around {
            port: view.port().expect("rings that an engine carries out go over a port"),
            per_group: messages::arriving_messages(&view),
            expected: 0,
            arriving: None,
            own: None,
        };
        let shape = match Pattern::of(view.program()) {
            Pattern::Ring => Shape::Ring(around()),
            Pattern::Relay => Shape::Relay { around: around(), own: 0 },
            Pattern::Direct => Shape::Direct(Direct { to_add: 0, to_store: 0, own: None }),
        };
        PhaseRun {
            receiving: InHand::Nothing,
            sending: InHand::Nothing,
            arrived,
            room: Reservation::of(bytes),
            message: None,
            groups: messages::groups(&view, self.config.message) as u32,
            shape,
        }
    }

    /// The last send of a chunk's phase is issued: its FSM may go on.
    pub(super) fn free_fsm<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        let (phase, busy) = (chunk.phase, ctx.now - chunk.began);
        let queue = self.queue_of(seq, phase);
        let fsm = self.fsms.server(queue, seq);
        self.fsms.give_back(npu.index(), queue, fsm, busy);
        self.record_levels(npu, ctx.now);
        self.fsm_freed(npu, fsm, ctx);
    }

    /// Everything of a phase has been sent and received.
    pub(super) fn end_phase<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let traced = self.traced.contains(npu);
        let phases = self.layout.phases(self.plan_of(seq));
        let chunk = self.progress(npu, seq);
        let queue = chunk.phase.index();
        assert!(chunk.run().room.is_complete(), "a phase ends with its results stored");
        if traced {
            let Progress { phase, ready, began, .. } = *chunk;
            ctx.out.push(EpOut::Phase { npu, room: RoomId::ONLY, seq, phase, ready, began });
        }
        if chunk.phase.index() + 1 == phases {
            self.drain(npu, seq, ctx);
        } else {
            chunk.phase = chunk.phase.next();
            self.queue(npu, seq, ctx);
        }
        if self.fsms.finish(npu.index(), self.fsms.server(queue, seq)) {
            self.begin_phases(npu, queue, ctx);
        }
    }

    /// The RX DMA writes a finished chunk back.
    fn drain<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let bytes = self.bytes_drained(npu, seq);
        let (across, time, event) = match self.dmas.write_back(npu.index(), ctx.now, bytes) {
            WriteBack::Done(time) => (None, time, AceEvent::Drained { npu: npu.0, seq }),
            WriteBack::Crossing(train) => (Some(train.last), train.first, AceEvent::Crossed { npu: npu.0, seq }),
        };
        self.progress(npu, seq).state = State::Draining { across };
        ctx.q.at(time, chunk_key(class::DRAINED, seq, 0), event);
    }

    fn bytes_drained(&self, npu: NodeId, seq: ChunkId) -> Bytes {
        let chunk = self.chunks[seq.index()];
        Bytes(self.layout.held(npu, chunk, PhaseId::from_index(self.layout.phases(chunk.plan))))
    }

    /// The first message of a chunk that is written back is across the bus.
    pub(super) fn crossed<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let State::Draining { across: Some(last) } = self.progress(npu, seq).state else {
            panic!("only what is written back in trains crosses the bus before memory");
        };
        let bytes = self.bytes_drained(npu, seq);
        let written = self.dmas.write_across(npu.index(), Train { first: ctx.now, last }, bytes);
        ctx.q.at(written, chunk_key(class::DRAINED, seq, 0), AceEvent::Drained { npu: npu.0, seq });
    }

    /// A chunk is in main memory again.
    pub(super) fn drained<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let had_phases = self.layout.phases(self.plan_of(seq)) > 0;
        if had_phases {
            let bytes = self.bytes_drained(npu, seq);
            self.sram.free(npu, self.phases, bytes.0);
        }
        self.complete(npu, seq, ctx);
        if had_phases {
            self.terminal_freed(npu, ctx);
        }
        ctx.out.push(EpOut::Room { npu, room: RoomId::ONLY });
    }

    /// A chunk is complete.
    pub(super) fn complete<N, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>) {
        self.windows[npu.index()].finish(seq);
        self.record_levels(npu, ctx.now);
        ctx.out.push(EpOut::Done { npu, room: RoomId::ONLY, seq });
    }
}
