//! How chunks enter and leave phases.

use super::legs::{self, Shape};
use super::{Ace, AceEvent, Blocked, Progress, State, Unit, class, held};
use crate::api::{Ctx, EpOut, PhaseFsms, chunk_key};
use crate::loggp::Train;
use syncline_collective::Kind;
use syncline_core::{Bytes, NodeId, Ps, Schedule, Wait};
use syncline_network::{Network, Route};

impl Ace {
    /// A chunk is ready for its phase.
    pub(super) fn queue<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        (chunk.state, chunk.ready, chunk.waits_since) = (State::Queued, ctx.now, ctx.now);
        chunk.blocked = Blocked::Turn;
        let line = self.line(npu, seq);
        self.begin_phase(npu, line, ctx);
    }

    /// A chunk that is ready for its next phase, if it is the one of this line.
    pub(super) fn queued(&self, npu: NodeId, line: usize, seq: u32) -> Option<&Progress> {
        let engine = &self.engines[npu.index()];
        let chunk = engine.chunks.get(seq.checked_sub(engine.base)? as usize)?;
        (chunk.state == State::Queued && self.line(npu, seq) == line).then_some(chunk)
    }

    /// Whether the next chunk of a line can begin its phase; if not, which resource it waits for.
    fn blocked_by(&self, npu: NodeId, line: usize, seq: u32) -> Option<Blocked> {
        if self.queued(npu, line, seq).is_none() {
            return Some(Blocked::Turn);
        }
        if self.fsm_busy[self.fsm(npu, line, seq)] {
            return Some(Blocked::Fsm);
        }
        let needs_room = line < self.phases() && self.takes_room_at_once(seq, line);
        (needs_room && !self.may_take_room(npu, line, seq)).then_some(Blocked::Room)
    }

    /// Whether a phase takes room for its results before it begins, rather than before it stores the
    /// first of them: an all-reduce around a ring, which stores nothing in its first half, does not.
    fn takes_room_at_once(&self, seq: u32, phase: usize) -> bool {
        let program = self.layout.plan(self.chunks[seq as usize].plan).program(phase, true);
        self.kind(seq, phase) != Kind::AllReduce || Shape::of(&program) == Shape::Direct
    }

    /// Whether it is a chunk's turn to take room for the results of its phase, and there is room.
    fn may_take_room(&self, npu: NodeId, phase: usize, seq: u32) -> bool {
        let (to, bytes) = self.destination(npu, seq, phase);
        self.next_to_room(npu, phase) == Some(seq) && self.partitions.fits(npu, to, bytes)
    }

    /// Reserves room for the results of a chunk's phase, as much as there is of what it still needs, if it
    /// is its turn; whether a packet of `len` bytes can be stored.
    pub(super) fn take_room(&mut self, npu: NodeId, seq: u32, len: u32, now: Ps) -> bool {
        let phase = usize::from(self.progress(npu, seq).phase);
        if self.next_to_room(npu, phase) == Some(seq) {
            let (to, _) = self.destination(npu, seq, phase);
            let left = self.partitions.left(npu, to);
            let chunk = self.progress(npu, seq);
            let due = chunk.room_due.unwrap_or(0);
            let taken = due.min(left);
            chunk.room += taken;
            chunk.room_due = (due > taken).then_some(due - taken);
            self.partitions.take(npu, to, taken);
            if due == taken {
                self.has_room(npu, phase);
            }
            self.record_levels(npu, now);
        }
        let chunk = self.progress(npu, seq);
        let (can_store, waited) = (chunk.can_store(len), chunk.blocked == Blocked::Room);
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
    pub(super) fn room_freed<N: Network, Q>(&mut self, npu: NodeId, phase: usize, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.begin_phase(npu, phase, ctx);
        loop {
            let Some(seq) = self.next_to_room(npu, phase) else { return };
            let engine = &self.engines[npu.index()];
            let Some(&chunk) = seq.checked_sub(engine.base).and_then(|i| engine.chunks.get(i as usize)) else { return };
            let runs = chunk.state == State::Running && usize::from(chunk.phase) == phase;
            let waits = runs && chunk.receiving == Unit::Turn;
            if !(waits || runs && chunk.room > 0) || !self.take_room(npu, seq, 1, ctx.now) {
                return;
            }
            if waits {
                self.progress(npu, seq).receiving = Unit::Idle;
                self.receive_held(npu, seq, ctx);
            }
            if self.next_to_room(npu, phase) == Some(seq) {
                return;
            }
        }
    }

    /// Local data has been read, for the only time in its phase: its room is given back.
    pub(super) fn free_source<N: Network, Q>(&mut self, npu: NodeId, phase: usize, bytes: u64, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.partitions.free(npu, phase, bytes);
        self.record_levels(npu, ctx.now);
        match phase {
            0 => ctx.out.push(EpOut::Room { npu }),
            _ => self.room_freed(npu, phase - 1, ctx),
        }
    }

    /// The partition that a phase of a chunk fills, and how many bytes.
    pub(super) fn destination(&self, npu: NodeId, seq: u32, phase: usize) -> (usize, u64) {
        let chunk = self.chunks[seq as usize];
        let last = phase + 1 == self.layout.phases(chunk.plan);
        (if last { self.phases() } else { phase + 1 }, self.layout.held(npu, chunk, phase + 1))
    }

    /// The first FSM that serves a line, and the one behind the last.
    fn fsms_of(&self, line: usize) -> (u32, u32) {
        match line == self.phases() {
            true => (0, self.config.fsms),
            false => (self.fsm_of_phase[line], self.fsm_of_phase[line + 1]),
        }
    }

    /// FSMs of every phase of every plan.
    pub(super) fn fsms_of_phases(&self) -> Vec<PhaseFsms> {
        let of_plan = |(plan, exchanged): (u8, bool)| {
            (0..self.layout.phases(plan)).map(move |phase| {
                let line = if exchanged { self.phases() } else { phase };
                let (first, end) = self.fsms_of(line);
                PhaseFsms { plan, phase: phase as u8, fsms: end - first, peak: self.peak_in[line] }
            })
        };
        (0..).zip(self.exchanged.iter().copied()).flat_map(of_plan).collect()
    }

    /// The FSM of a chunk: of those of the phase, or of all if it is an all-to-all.
    pub(super) fn fsm(&self, npu: NodeId, line: usize, seq: u32) -> usize {
        let (first, end) = self.fsms_of(line);
        npu.index() * self.config.fsms as usize + (first + seq % (end - first)) as usize
    }

    /// Lets the chunks of a line begin their phase, in their order, as long as FSMs and room last.
    pub(super) fn begin_phase<N: Network, Q>(&mut self, npu: NodeId, line: usize, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        loop {
            let Some(seq) = self.next_to_begin(npu, line) else { return };
            match self.blocked_by(npu, line, seq) {
                Some(Blocked::Turn) => return,
                Some(reason) => {
                    self.account_wait(npu, seq, ctx.now);
                    self.progress(npu, seq).blocked = reason;
                    return;
                }
                None => {
                    self.begins(npu, line);
                    self.run(npu, seq, line, ctx);
                }
            }
        }
    }

    /// Accounts what a queued chunk has waited since the last look to what it was blocked by.
    fn account_wait(&mut self, npu: NodeId, seq: u32, now: Ps) {
        let chunk = self.progress(npu, seq);
        let waited = now - chunk.waits_since;
        chunk.waits_since = now;
        match chunk.blocked {
            Blocked::Room => self.sram_use.wait += u128::from(waited.0),
            Blocked::Fsm | Blocked::Turn => self.fsm_use.wait += u128::from(waited.0),
        }
    }

    /// Starts a chunk's phase.
    fn run<N: Network, Q>(&mut self, npu: NodeId, seq: u32, line: usize, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let (phase, fsm) = (line, self.fsm(npu, line, seq));
        self.fsm_busy[fsm] = true;
        self.engines[npu.index()].busy_fsms += 1;
        self.fsm_peak = self.fsm_peak.max(self.engines[npu.index()].busy_fsms);
        let place = self.place_in(npu, line);
        self.busy_in[place] += 1;
        self.peak_in[line] = self.peak_in[line].max(self.busy_in[place]);
        self.record_levels(npu, ctx.now);
        if line == self.phases() {
            self.account_wait(npu, seq, ctx.now);
            let chunk = self.progress(npu, seq);
            (chunk.state, chunk.began) = (State::Running, ctx.now);
            return self.run_exchange(npu, seq, ctx);
        }
        let view = self.layout.view(npu, self.chunks[seq as usize], phase);
        let block = view.vector.div_ceil(u64::from(view.program().ranks()));
        let groups = block.div_ceil(self.config.message.0).max(1) as u32;
        let (shape, port, (owns, legs)) = (Shape::of(view.program()), view.port(), legs::messages(&view));
        let waiting = self.early.remove(&(npu.0, seq, phase as u8)).unwrap_or(held::List::EMPTY);
        let now = ctx.now;
        self.account_wait(npu, seq, now);
        let (_, due) = self.destination(npu, seq, phase);
        let chunk = self.progress(npu, seq);
        chunk.state = State::Running;
        if let Some(port) = port {
            (chunk.out_port, chunk.route) = (port, Route::Port(port));
        }
        (chunk.shape, chunk.owns, chunk.legs, chunk.gathers) = (shape, owns, legs, false);
        (chunk.groups, chunk.held) = (groups, waiting);
        (chunk.pc, chunk.group) = (0, 0);
        (chunk.receiving, chunk.sending) = (Unit::Idle, Unit::Idle);
        (chunk.room, chunk.room_due) = (0, Some(due));
        (chunk.began, chunk.blocked) = (now, Blocked::Turn);
        if self.takes_room_at_once(seq, phase) {
            self.take_room(npu, seq, 0, now);
        }
        let kept = self.kept(npu, seq);
        if shape == Shape::Direct {
            self.begin_direct(npu, seq, ctx);
            self.direct_held(npu, seq, ctx);
        } else {
            self.expect_next(npu, seq, true);
            self.begin_own(npu, seq, ctx);
            self.receive_held(npu, seq, ctx);
        }
        if kept > 0 {
            self.free_source(npu, phase, kept, ctx);
        }
    }

    /// The last send of a chunk's phase is issued: its FSM may go on.
    pub(super) fn free_fsm<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = *self.progress(npu, seq);
        let line = self.line(npu, seq);
        let (fsm, place) = (self.fsm(npu, line, seq), self.place_in(npu, line));
        self.fsm_busy[fsm] = false;
        self.busy_in[place] -= 1;
        self.engines[npu.index()].busy_fsms -= 1;
        self.fsm_use.serve(Ps::ZERO, ctx.now - chunk.began);
        self.record_levels(npu, ctx.now);
        self.fsm_freed(npu, fsm, ctx);
    }

    /// Everything of a phase has been sent and received.
    pub(super) fn end_phase<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.chunks[seq as usize];
        let p = *self.progress(npu, seq);
        let phase = usize::from(p.phase);
        assert!(p.room_due.is_none(), "a phase ends with its results stored");
        if self.traced.contains(npu) {
            ctx.out.push(EpOut::Phase { npu, seq, phase: p.phase, ready: p.ready, began: p.began });
        }
        if phase + 1 == self.layout.phases(chunk.plan) {
            self.drain(npu, seq, ctx);
        } else {
            self.progress(npu, seq).phase += 1;
            self.queue(npu, seq, ctx);
        }
    }

    /// When the TX DMA has loaded a chunk.
    pub(super) fn load(&mut self, npu: usize, now: Ps, bytes: Bytes) -> Ps {
        match self.config.protocol {
            None => self.memory.serve(npu, now, bytes).max(self.tx_bus.serve(npu, now, bytes)),
            Some(_) => {
                let read = self.memory.transfer(npu, Train::at(now), bytes);
                self.tx_bus.transfer(npu, read, bytes).last
            }
        }
    }

    /// The RX DMA writes a finished chunk back.
    fn drain<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.progress(npu, seq).state = State::Draining;
        let bytes = self.drained_bytes(npu, seq);
        let key = chunk_key(class::DRAINED, seq, 0);
        if self.config.protocol.is_none() {
            let done = self.write_back(npu, bytes, ctx.now);
            return ctx.q.at(done, key, AceEvent::Drained { npu: npu.0, seq });
        }
        self.memory_written += bytes.0;
        let across = self.rx_bus.transfer(npu.index(), Train::at(ctx.now), bytes);
        if !self.config.charge_writes {
            return ctx.q.at(across.last, key, AceEvent::Drained { npu: npu.0, seq });
        }
        // Memory is asked for when data is there, so that the TX DMA can use it until then.
        self.progress(npu, seq).waits_since = across.last;
        ctx.q.at(across.first, key, AceEvent::Crossed { npu: npu.0, seq });
    }

    fn drained_bytes(&self, npu: NodeId, seq: u32) -> Bytes {
        let chunk = self.chunks[seq as usize];
        Bytes(self.layout.held(npu, chunk, self.layout.phases(chunk.plan)))
    }

    /// The first message of a chunk that is written back is across the bus.
    pub(super) fn write_across<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let across = Train { first: ctx.now, last: self.progress(npu, seq).waits_since };
        let written = self.memory.transfer(npu.index(), across, self.drained_bytes(npu, seq));
        ctx.q.at(written.last, chunk_key(class::DRAINED, seq, 0), AceEvent::Drained { npu: npu.0, seq });
    }

    /// The RX DMA streams bytes to memory; returns when it is done.
    pub(super) fn write_back(&mut self, npu: NodeId, bytes: Bytes, now: Ps) -> Ps {
        self.memory_written += bytes.0;
        let across = self.rx_bus.stream(npu.index(), now, bytes);
        let stored = if self.config.protocol.is_some() { across } else { now };
        match self.config.charge_writes {
            true => across.max(self.memory.stream(npu.index(), stored, bytes)),
            false => across,
        }
    }

    /// What every unfinished chunk waits for.
    pub(super) fn list_waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (n, engine) in (0u32..).zip(&self.engines) {
            let npu = NodeId(n);
            if self.exchanges() {
                self.list_packet_waits(npu, &mut waits);
            }
            for (seq, c) in (engine.base..).zip(&engine.chunks) {
                let plan = self.chunks[seq as usize].plan;
                let what = match c.state {
                    State::Unstarted | State::Loading | State::Draining | State::Done => continue,
                    State::Queued => match self.blocked_by(npu, self.line(npu, seq), seq) {
                        Some(Blocked::Fsm) => "its FSM".into(),
                        Some(Blocked::Room) => "room in the next SRAM partition".into(),
                        _ => "its turn behind earlier chunks".to_string(),
                    },
                    State::Running if self.is_exchanged(self.chunks[seq as usize]) => self.exchange_wait(npu, seq),
                    State::Running if c.blocked == Blocked::Room => "room in the next SRAM partition".into(),
                    State::Running if c.sending == Unit::Turn => {
                        format!("its turn to send through {}", self.layout.fabric().port_name(npu, c.out_port))
                    }
                    State::Running if c.receiving == Unit::AtPort || c.sending == Unit::AtPort => {
                        format!("space in the port buffer of {}", self.layout.fabric().port_name(npu, c.out_port))
                    }
                    State::Running if c.shape == Shape::Direct => {
                        format!("{} B to add and {} B to store from the other NPUs", c.due[0], c.due[1])
                    }
                    State::Running => format!("message {} of step {} of its neighbour", c.group, c.pc),
                };
                let name = self.layout.fabric().node_name(npu);
                let phase = self.layout.phase_name(plan, usize::from(c.phase));
                waits.push(Wait { who: format!("{name}, chunk {seq}, {phase}"), what });
            }
        }
        waits
    }
}
