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

use super::transit::Packet;
use super::{Ace, AceEvent, class};
use crate::api::{Chunk, Ctx, EpOut, chunk_key};
use syncline_collective::Slot;
use syncline_core::{NodeId, Ps, Schedule};
use syncline_network::{Network, Route};

/// An NPU's share in a chunk of an all-to-all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub seq: u32,
    /// The step of the program that is being carried out.
    pc: u32,
    /// Bytes for its peer, and those of them that have not been sent.
    block: u64,
    left: u64,
    /// How its packets travel, and the first hop of their path.
    route: Route,
    pub position: u32,
    /// Since when its packet waits for the port.
    since: Ps,
    /// Whether all is sent.
    sent: bool,
    /// Bytes that are to be received and stored.
    pub due: u64,
}

impl Ace {
    /// Bytes that an NPU sends and receives in a chunk.
    pub(super) fn exchanged(&self, npu: NodeId, chunk: Chunk) -> (u64, u64) {
        let view = self.layout.view(npu, chunk, 0);
        let kept = view.kept();
        (view.vector - kept, u64::from(view.program().ranks() - 1) * kept)
    }

    /// An NPU's share in a chunk that it has begun or received something of.
    pub(super) fn share(&mut self, npu: NodeId, seq: u32) -> &mut Share {
        let known = self.exchange.shares[npu.index()].binary_search_by_key(&seq, |share| share.seq);
        let at = known.unwrap_or_else(|at| {
            let (_, due) = self.exchanged(npu, self.chunks[seq as usize]);
            let route = Route::To(npu);
            let new = Share { seq, pc: 0, block: 0, left: 0, route, position: 0, since: Ps::ZERO, sent: false, due };
            self.exchange.shares[npu.index()].insert(at, new);
            at
        });
        &mut self.exchange.shares[npu.index()][at]
    }

    /// The chunk's FSM begins.
    pub(super) fn run_exchange<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if self.turn_to_peer(npu, seq, 0) {
            self.next_own(npu, seq, ctx);
        } else {
            self.end_sending(npu, seq, ctx);
        }
    }

    /// The FSM turns to the next peer that gets something, from step `pc` on; false if there is none.
    fn turn_to_peer(&mut self, npu: NodeId, seq: u32, pc: u32) -> bool {
        let view = self.layout.view(npu, self.chunks[seq as usize], 0);
        let mut steps = (pc..view.steps(0)).map(|pc| (pc, view.step(Slot { thread: 0, pc })));
        let Some((pc, (step, len))) = steps.find(|(_, (step, len))| step.op.sends() && *len > 0) else { return false };
        let route = view.route(&step);
        let paths = &mut self.exchange.paths;
        let path = match route {
            Route::Port(port) => Some(paths.through(port)),
            Route::To(dst) => paths.between(self.layout.fabric(), npu, (dst, 0)),
            Route::By(dst, choice) => paths.between(self.layout.fabric(), npu, (dst, choice)),
        };
        let position = path.expect("a peer is another NPU");
        let share = self.share(npu, seq);
        (share.pc, share.block, share.left) = (pc, len, len);
        (share.route, share.position) = (route, position);
        true
    }

    /// The FSM has issued its last packet.
    fn end_sending<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.share(npu, seq).sent = true;
        self.free_fsm(npu, seq, ctx);
        self.finish_exchange(npu, seq, ctx);
    }

    /// The FSM has a packet for its peer.
    pub(super) fn next_own<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let share = self.share(npu, seq);
        share.since = ctx.now;
        let position = share.position;
        self.line_up(npu, self.exchange.paths.hop(position).port, seq, ctx);
    }

    /// Length of the packet that a chunk's FSM sends next.
    pub(super) fn own_len(&mut self, npu: NodeId, seq: u32) -> u32 {
        let unit = u64::from(self.exchange.unit);
        self.share(npu, seq).left.min(unit) as u32
    }

    /// A packet of a chunk's own goes into the port buffer.
    pub(super) fn issue_own_packet<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let len = self.own_len(npu, seq);
        let busy = self.occupancy_of(len);
        let forwards = self.forwards();
        let share = self.share(npu, seq);
        share.left -= u64::from(len);
        let Share { pc, block, left, route, position, since, .. } = *share;
        self.port_use.serve(ctx.now - since, Ps::ZERO);
        // What the network carries all the way is at its destination when it arrives, as after the last hop.
        let first = self.exchange.paths.hop(position).port;
        let (route, position) = match forwards {
            true => (Route::Port(first), position),
            false => (route, self.exchange.paths.through(first)),
        };
        self.send_packet(npu, Packet { seq, position, len, since: ctx.now }, route, ctx);
        if left == 0 {
            self.partitions.free(npu, 0, block);
            self.record_levels(npu, ctx.now);
            ctx.out.push(EpOut::Room { npu });
            if !self.turn_to_peer(npu, seq, pc + 1) {
                return self.end_sending(npu, seq, ctx);
            }
        }
        // One FSM reads one packet after the other.
        ctx.q.at(ctx.now + busy, chunk_key(class::FETCHED, seq, 0), AceEvent::Fetched { npu: npu.0, seq });
    }

    /// A packet of a chunk is in memory.
    pub(super) fn received<N: Network, Q>(&mut self, npu: NodeId, seq: u32, len: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        self.share(npu, seq).due -= u64::from(len);
        self.finish_exchange(npu, seq, ctx);
    }

    /// Ends a chunk if everything has been sent and received.
    fn finish_exchange<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let shares = &mut self.exchange.shares[npu.index()];
        let Ok(at) = shares.binary_search_by_key(&seq, |share| share.seq) else { return };
        if !shares[at].sent || shares[at].due > 0 {
            return;
        }
        shares.remove(at);
        if self.traced.contains(npu) {
            let p = *self.progress(npu, seq);
            ctx.out.push(EpOut::Phase { npu, seq, phase: 0, ready: p.ready, began: p.began });
        }
        self.complete(npu, seq, ctx);
        ctx.out.push(EpOut::Room { npu });
    }

    /// What an unfinished chunk waits for.
    pub(super) fn exchange_wait(&self, npu: NodeId, seq: u32) -> String {
        let shares = &self.exchange.shares[npu.index()];
        match shares.iter().find(|share| share.seq == seq) {
            Some(share) if !share.sent => self.own_wait(npu, share.position),
            Some(share) => format!("{} B of its peers", share.due),
            None => "its peers".into(),
        }
    }
}
