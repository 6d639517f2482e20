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
//! is set aside for them while results wait. What other rings send ahead does not keep its packets out of an input buffer, which
//! has room for all of that ([`input_buffer`](super::input_buffer)).
//!
//! *The first partition.* Suppose nothing moves, and take the first unfinished ring. Where it has started
//! it waits for nobody. Where it has not, only all-to-alls that have not begun can fill the first partition, and these
//! wait for FSMs: those are free, since rings before it have finished and later ones have not started. If it was not
//! even asked for, its NPU computes or waits for a collective that the others had finished before they asked for this
//! ring: an all-to-all whose chunks come before it, to which the same applies.

use super::engine::Ace;
use super::event::AceEvent;
use super::progress::{Blocked, State};
use crate::api::{Chunk, ChunkId, Ctx};
use syncline_core::{Id, NodeId, PortId, Schedule};
use syncline_network::Network;

impl Ace {
    /// Puts the next chunk into the queues in which it will stand.
    pub(super) fn enlist(&mut self, chunk: Chunk) {
        let queues = match self.is_all_to_all(chunk.plan) {
            true => self.phases..self.phases + 1,
            false => 0..self.layout.phases(chunk.plan),
        };
        self.order.append(ChunkId::from_index(self.chunks.len()), queues);
        self.chunks.push(chunk);
    }

    /// An FSM is free: of the two chunks that it could serve, the one that was ready first goes first.
    pub(super) fn fsm_freed<N: Network, Q>(&mut self, npu: NodeId, fsm: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let ready = |queue| {
            let seq = self.order.next_to_begin(npu.index(), queue)?;
            let chunk = self.queued(npu, queue, seq).filter(|_| self.fsms.server(queue, seq) == fsm)?;
            Some((chunk.ready, seq))
        };
        let mut queues = [self.fsms.own_queue(fsm), self.phases];
        if let (Some(ring), Some(all_to_all)) = (ready(queues[0]), ready(queues[1]))
            && all_to_all < ring
        {
            queues.reverse();
        }
        queues.into_iter().for_each(|queue| self.begin_phases(npu, queue, ctx));
    }

    /// Whether results wait for room in the terminal partition.
    pub(super) fn results_wait_for_terminal(&self, npu: NodeId) -> bool {
        let Some(phase) = self.last_phase else { return false };
        let first = self.order.next_to_take_room(npu.index(), phase.index());
        first.and_then(|seq| self.windows[npu.index()].get(seq)).is_some_and(|chunk| {
            let is_there = matches!(chunk.state, State::Queued | State::Running(_)) && chunk.phase == phase;
            is_there && chunk.blocked == Blocked::Room
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
        self.admit_to_terminal(npu, ctx);
    }

    /// A port buffer may have space again.
    pub(super) fn serve_port<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let has_packets = self.has_all_to_alls();
        let packets_first = has_packets && self.pools.go_before_rings(npu, port);
        if packets_first {
            self.serve_outlet(npu, port, ctx);
        }
        self.serve_waiting(npu, port, ctx);
        if has_packets && !packets_first {
            self.serve_outlet(npu, port, ctx);
        }
    }
}
