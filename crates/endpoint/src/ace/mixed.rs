//! All-reduces and direct all-to-alls side by side.
//!
//! An engine whose training needs both (ACE paper, footnote 6) has chunks of both kinds at once. They share what an NPU
//! has: the order in which chunks start, the first partition and the terminal one, banks, ALUs, DMAs, links, and the
//! FSMs, each of which serves the chunks of one phase and every all-to-all whose number, modulo all FSMs, is its own
//! (section V). An FSM serves one chunk at a time, and first the one that was ready first.
//!
//! Nothing else is shared: what a port buffer and an input buffer hold is divided, half for each kind, as virtual
//! channels divide them, and forwarded packets have their pools ([`transit`](super::transit)).
//!
//! # Why it does not deadlock
//! *An all-to-all that has begun waits for no ring.* Its packets go through port buffers, channels and pools of their
//! own; what arrives goes into the terminal partition, where results leave room for a packet, which the RX DMA empties;
//! banks, DMAs and links serve one after the other. So its FSM issues all it has, whatever rings do.
//!
//! *A ring waits for rings before it, and for all-to-alls that have begun.* Chunks begin a phase and take room in the
//! order of their numbers, as they do without all-to-alls. What holds an FSM is a ring before it or an
//! all-to-all that has begun; in the terminal partition packets leave sooner or later, and take no more than
//! is set aside for them while results wait.
//!
//! *The first partition.* Suppose nothing moves, and take the first unfinished ring. Where it has started
//! it waits for nobody. Where it has not, only all-to-alls that have not begun can fill the first partition, and these
//! wait for FSMs: those are free, since rings before it have finished and later ones have not started. If it was not
//! even asked for, its NPU computes or waits for a collective that the others had finished before they asked for this
//! ring: an all-to-all whose chunks come before it, to which the same applies.

use super::{Ace, AceEvent, Blocked, State};
use crate::api::{Chunk, Ctx};
use syncline_core::{NodeId, PortId, Schedule};
use syncline_network::Network;

impl Ace {
    /// Whether there are all-to-alls.
    pub(super) fn exchanges(&self) -> bool {
        self.exchanged.contains(&true)
    }

    /// Whether a chunk is an all-to-all.
    #[inline]
    pub(super) fn is_exchanged(&self, chunk: Chunk) -> bool {
        self.exchanged[usize::from(chunk.plan)]
    }

    /// Puts the next chunk into the lines in which it will stand.
    pub(super) fn enlist(&mut self, chunk: Chunk) {
        let (seq, phases) = (self.chunks.len() as u32, self.phases());
        let lines = match self.is_exchanged(chunk) {
            true => phases..phases + 1,
            false => 0..self.layout.phases(chunk.plan),
        };
        self.lines[lines].iter_mut().for_each(|line| line.push(seq));
    }

    /// The line in which a chunk stands: its phase, or that of all-to-alls.
    pub(super) fn line(&self, npu: NodeId, seq: u32) -> usize {
        if self.is_exchanged(self.chunks[seq as usize]) {
            return self.phases();
        }
        let engine = &self.engines[npu.index()];
        usize::from(engine.chunks[(seq - engine.base) as usize].phase)
    }

    pub(super) fn place_in(&self, npu: NodeId, line: usize) -> usize {
        npu.index() * self.lines.len() + line
    }

    /// The chunk whose turn it is to begin a line's phase.
    pub(super) fn next_to_begin(&self, npu: NodeId, line: usize) -> Option<u32> {
        self.lines[line].get(self.begun[self.place_in(npu, line)] as usize).copied()
    }

    /// The chunk whose turn it is to take room for the results of a phase.
    pub(super) fn next_to_room(&self, npu: NodeId, phase: usize) -> Option<u32> {
        self.lines[phase].get(self.roomed[self.place_in(npu, phase)] as usize).copied()
    }

    /// The next chunk of a line begins.
    pub(super) fn begins(&mut self, npu: NodeId, line: usize) {
        let place = self.place_in(npu, line);
        self.begun[place] += 1;
    }

    /// The next chunk has all the room for the results of a phase.
    pub(super) fn has_room(&mut self, npu: NodeId, phase: usize) {
        let place = self.place_in(npu, phase);
        self.roomed[place] += 1;
    }

    /// An FSM is free: of the two chunks that it could serve, the one that was ready first goes first.
    pub(super) fn fsm_freed<N: Network, Q>(&mut self, npu: NodeId, fsm: usize, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let number = fsm % self.config.fsms as usize;
        let phase = self.fsm_of_phase.partition_point(|&first| first as usize <= number) - 1;
        let ready = |line| {
            let seq = self.next_to_begin(npu, line)?;
            let chunk = self.queued(npu, line, seq).filter(|_| self.fsm(npu, line, seq) == fsm)?;
            Some((chunk.ready, seq))
        };
        let mut lines = [phase, self.phases()];
        if let (Some(ring), Some(exchange)) = (ready(lines[0]), ready(lines[1]))
            && exchange < ring
        {
            lines.reverse();
        }
        lines.into_iter().for_each(|line| self.begin_phase(npu, line, ctx));
    }

    /// Whether results wait for room in the terminal partition.
    pub(super) fn wants_terminal(&self, npu: NodeId) -> bool {
        let engine = &self.engines[npu.index()];
        let Some(phase) = self.last_phase else { return false };
        let place = self.next_to_room(npu, phase).and_then(|seq| seq.checked_sub(engine.base));
        let chunk = place.and_then(|at| engine.chunks.get(at as usize));
        chunk.is_some_and(|c| {
            let there = matches!(c.state, State::Queued | State::Running) && usize::from(c.phase) == phase;
            there && c.blocked == Blocked::Room
        })
    }

    /// The terminal partition may have room again: results go before packets.
    pub(super) fn terminal_freed<N: Network, Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if let Some(phase) = self.last_phase {
            self.room_freed(npu, phase, ctx);
        }
        self.admit_blocked(npu, ctx);
    }

    /// A port buffer may have space again.
    pub(super) fn serve_port<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let passing = self.exchanges();
        let packets_first = passing && self.takes_turns(npu, port);
        if packets_first {
            self.serve_outlet(npu, port, ctx);
        }
        self.serve_queue(npu, port, ctx);
        if passing && !packets_first {
            self.serve_outlet(npu, port, ctx);
        }
    }
}
