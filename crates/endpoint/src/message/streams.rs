//! Threads that are streams: a step that sends is done when its message has left, and may be held up before
//! ([`crate::streams`]).

use super::MessageEndpoint;
use crate::api::{ChunkId, Ctx};
use crate::costs::StepCost;
use crate::streams::Copy;
use crate::work_done::WorkDone;
use syncline_core::{Bytes, NodeId, PortId, Ps, Schedule};
use syncline_network::Route;

/// The stage of what has been held up: work has fewer.
pub(super) const HELD: u8 = u8::MAX;

impl<C: StepCost> MessageEndpoint<C> {
    /// A step is about to send. Returns whether it is held up, after which its timer comes with the stage [`HELD`].
    pub(super) fn hold_up<N, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, ctx: &mut Ctx<'_, N, Q>) -> bool
    where
        Q: Schedule<WorkDone>,
    {
        if self.cost.link_delays().is_none() {
            return false;
        }
        let t = *self.thread(npu, seq, thread);
        let port = self.first_port(npu, t.route);
        let time = self.layout.fabric().link(npu, port).rate.time(Bytes(t.len));
        let stream = (self.room.0, seq.0, thread);
        let copy = Copy { npu: npu.0, port, stream, pc: t.pc, time };
        let delay = self.cost.link_delays().map_or(Ps::ZERO, |delays| delays.delay(copy));
        if delay == Ps::ZERO {
            return false;
        }
        let done = WorkDone::Step { npu: npu.0, seq, thread, stage: HELD };
        ctx.q.at(ctx.now + delay, done.key(), done);
        true
    }

    /// A copy of a stream begins, or has left.
    pub(super) fn note_copy(&mut self, npu: NodeId, seq: ChunkId, thread: u16, begins: bool) {
        if self.cost.link_delays().is_none() {
            return;
        }
        let route = self.thread(npu, seq, thread).route;
        let port = self.first_port(npu, route);
        if let Some(delays) = self.cost.link_delays() {
            match begins {
                true => delays.begins(npu.0, port),
                false => delays.ends(npu.0, port),
            }
        }
    }

    /// The port by which a message leaves.
    fn first_port(&self, npu: NodeId, route: Route) -> PortId {
        let (fabric, mut path) = (self.layout.fabric(), Vec::new());
        match route {
            Route::Port(port) => return port,
            Route::To(there) => fabric.route(npu, there, &mut path),
            Route::By(there, choice) => fabric.route_by(npu, there, choice, &mut path),
        }
        path[0]
    }
}
