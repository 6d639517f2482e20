//! Who puts the next packet into a port buffer that the network has room in.

use super::engine::Ace;
use super::event::{AceEvent, class};
use super::own_messages::QUEUE;
use super::ports::Waiting;
use super::run::{Direct, Shape};
use crate::api::Ctx;
use syncline_core::{Bytes, Key, NodeId, PortId, Ps, Schedule};
use syncline_network::{Connection, Network, Room, Route, TrafficClass};

impl Ace {
    /// Whether a port buffer takes a packet of a class now, for a connection by this route. If it is known when the buffer
    /// will, a timer is set; otherwise the network reports.
    pub(super) fn has_space<N: Network, Q>(
        &mut self,
        npu: NodeId,
        port: PortId,
        class: TrafficClass,
        route: impl FnOnce(&mut Ace) -> Route,
        ctx: &mut Ctx<'_, N, Q>,
    ) -> bool
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let room = ctx.net.room(ctx.now, npu, port, class, self.ports.buffer());
        if room == Room::Now {
            return !N::BOUNDS_CONNECTIONS || {
                let connection = Connection { src: npu, route: route(self), queue: QUEUE };
                ctx.net.takes(connection, Bytes(self.packet.into()))
            };
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
        let route = |ace: &mut Ace| ace.route_of(npu, port, packet);
        let class = TrafficClass::default();
        if self.ports.first_waiting(npu, port).is_none() && self.has_space(npu, port, class, route, ctx) {
            return true;
        }
        self.ports.wait(npu, port, packet);
        false
    }

    /// The route of a packet that leaves by a port: to the neighbour there, but in a direct phase to wherever it ends.
    #[inline]
    fn route_of(&mut self, npu: NodeId, port: PortId, packet: Waiting) -> Route {
        match self.progress(npu, packet.seq).run().shape {
            Shape::Direct(Direct { own: Some(own), .. }) if packet.own => own.route,
            _ => Route::Port(port),
        }
    }

    /// Serves the packets of chunks that wait for a port while it has space.
    pub(super) fn serve_waiting<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        while let Some(packet) = self.ports.first_waiting(npu, port) {
            let route = |ace: &mut Ace| ace.route_of(npu, port, packet);
            if !self.has_space(npu, port, TrafficClass::default(), route, ctx) {
                return;
            }
            let Waiting { seq, own } = packet;
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
