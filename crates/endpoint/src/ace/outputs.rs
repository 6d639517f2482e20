//! Port buffers: who puts the next packet into one.

use super::{Ace, AceEvent, Unit, class};
use crate::api::Ctx;
use syncline_core::{Key, NodeId, PortId, Ps, Schedule};
use syncline_network::{Network, Room, TrafficClass};

impl Ace {
    /// Whether a port buffer takes a packet now; if not, the chunk is queued for it.
    pub(super) fn port_has_room<N: Network, Q>(
        &mut self,
        npu: NodeId,
        port: PortId,
        seq: u32,
        own: bool,
        ctx: &mut Ctx<'_, N, Q>,
    ) -> bool
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let at = npu.index() * self.ports + port.index();
        if self.port_queues[at].is_empty() {
            match ctx.net.room(ctx.now, npu, port, TrafficClass::default(), self.port_buffer) {
                Room::Now => return true,
                Room::At(t) => self.wake_port(npu, port, t, ctx),
                Room::Unknown => {}
            }
        }
        // What is under way goes before what an FSM sends of its own: chunks that have begun are finished
        // first, and give their SRAM back.
        if own {
            self.port_queues[at].push_back(seq);
        } else {
            let engine = &self.engines[npu.index()];
            let is_own = |s: &&u32| engine.chunks[(**s - engine.base) as usize].sending == Unit::AtPort;
            let own = self.port_queues[at].iter().rev().take_while(is_own).count();
            let before = self.port_queues[at].len() - own;
            self.port_queues[at].insert(before, seq);
        }
        false
    }

    pub(super) fn wake_port<N: Network, Q>(&mut self, npu: NodeId, port: PortId, t: Ps, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let at = npu.index() * self.ports + port.index();
        if !self.port_timer[at] {
            self.port_timer[at] = true;
            let key = Key::new(class::PORT, port.0.into());
            ctx.q.at(t.max(ctx.now), key, AceEvent::Port { npu: npu.0, port: u32::from(port.0) });
        }
    }

    /// Serves the chunks that wait for a port, first come first served, while it has space.
    pub(super) fn serve_queue<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let at = npu.index() * self.ports + port.index();
        while let Some(&seq) = self.port_queues[at].front() {
            match ctx.net.room(ctx.now, npu, port, TrafficClass::default(), self.port_buffer) {
                Room::Now => {}
                Room::At(t) => return self.wake_port(npu, port, t, ctx),
                Room::Unknown => return,
            }
            self.port_queues[at].pop_front();
            let chunk = self.progress(npu, seq);
            let waited = ctx.now.since(chunk.waits_since);
            chunk.waits_since = Ps::ZERO;
            let own = chunk.sending == Unit::AtPort;
            self.port_use.serve(waited, Ps::ZERO);
            if own {
                self.issue_own(npu, seq, ctx);
            } else {
                self.finish_held(npu, seq, ctx);
                self.receive_held(npu, seq, ctx);
            }
        }
    }
}
