//! Who puts the next packet into a port buffer that the network has room in.

use super::engine::Ace;
use super::event::{AceEvent, class};
use super::ports::Waiting;
use crate::api::Ctx;
use syncline_core::{Key, NodeId, PortId, Ps, Schedule};
use syncline_network::{Network, Room, TrafficClass};

impl Ace {
    /// Whether a port buffer takes a packet of a class now; if it is known when it will, a timer is set.
    pub(super) fn has_space<N: Network, Q>(
        &mut self,
        npu: NodeId,
        port: PortId,
        class: TrafficClass,
        ctx: &mut Ctx<'_, N, Q>,
    ) -> bool
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let room = ctx.net.room(ctx.now, npu, port, class, self.ports.buffer());
        if room == Room::Now {
            return true;
        }
        if let Some(time) = self.ports.look_again(npu, port, room) {
            let key = Key::new(class::PORT, port.0.into());
            ctx.q.at(time.max(ctx.now), key, AceEvent::Port { npu: npu.0, port });
        }
        false
    }

    /// Whether a port buffer takes a packet of a chunk now; if not, the packet waits for it behind others.
    pub(super) fn space_or_wait<N: Network, Q>(
        &mut self,
        npu: NodeId,
        port: PortId,
        packet: Waiting,
        ctx: &mut Ctx<'_, N, Q>,
    ) -> bool
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        if self.ports.first_waiting(npu, port).is_none() && self.has_space(npu, port, TrafficClass::default(), ctx) {
            return true;
        }
        self.ports.wait(npu, port, packet);
        false
    }

    /// Serves the packets of chunks that wait for a port while it has space.
    pub(super) fn serve_waiting<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        while let Some(Waiting { seq, own }) = self.ports.first_waiting(npu, port) {
            if !self.has_space(npu, port, TrafficClass::default(), ctx) {
                return;
            }
            let chunk = self.progress(npu, seq);
            let waited = ctx.now.since(chunk.waits_since);
            chunk.waits_since = Ps::ZERO;
            self.ports.serve(npu, port, waited);
            if own {
                self.issue_own(npu, seq, ctx);
            } else {
                self.finish_first(npu, seq, ctx);
                self.receive_waiting(npu, seq, ctx);
            }
        }
    }
}
