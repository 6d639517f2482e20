//! What an endpoint has to be for several of its kind to stand on the same NPUs.

use super::timers::RoomTimer;
use crate::api::ChunkId;
use crate::costs::StepCost;
use crate::message::MessageEndpoint;
use crate::work_done::WorkDone;
use syncline_collective::Op;
use syncline_core::{Bytes, NodeId, Ps, Schedule};

/// Work on a message between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostWork {
    /// The NPU.
    pub npu: NodeId,
    /// The number of the message there.
    pub id: ChunkId,
    /// Whether it is sent ([`Op::Send`]) or taken in ([`Op::Recv`]).
    pub op: Op,
    /// Its length.
    pub len: Bytes,
    /// The stage of the work.
    pub stage: u8,
}

/// An endpoint of which several share the hardware of each NPU: whatever serves one piece of work after the other, so that
/// nobody waits there for anything but its turn. Everything that work holds while it waits is each one's own.
pub trait Engine {
    /// Its timers.
    type Timer: RoomTimer;
    /// What is shared.
    type Hardware;

    /// Takes the hardware, or gives it back: both change places.
    fn exchange(&mut self, hardware: &mut Self::Hardware);

    /// Whether a resource that it reports is part of the hardware.
    fn is_shared(resource: &str) -> bool;

    /// Keys tell so many chunks of an NPU apart, from its oldest unfinished one to its newest.
    fn tell_apart(&mut self, chunks: u32);

    /// In how many stages work on a message between two ranks comes.
    fn stages(hardware: &Self::Hardware, op: Op) -> u8;

    /// Works on such a message; the timer tells which one when that is done.
    fn work<Q: Schedule<Self::Timer>>(hardware: &mut Self::Hardware, work: PostWork, now: Ps, q: &mut Q);

    /// The NPU, the message and the stage of such a timer.
    fn worked(timer: Self::Timer) -> (NodeId, ChunkId, u8);
}

impl<C: StepCost> Engine for MessageEndpoint<C> {
    type Timer = WorkDone;
    type Hardware = C;

    fn exchange(&mut self, hardware: &mut C) {
        std::mem::swap(self.cost_mut(), hardware);
    }

    fn is_shared(_: &str) -> bool {
        true // whatever steps cost
    }

    fn tell_apart(&mut self, chunks: u32) {
        self.set_span(chunks);
    }

    fn stages(hardware: &C, op: Op) -> u8 {
        hardware.stages(op)
    }

    fn work<Q: Schedule<WorkDone>>(hardware: &mut C, work: PostWork, now: Ps, q: &mut Q) {
        let PostWork { npu, id, op, len, stage } = work;
        hardware.work(now, op, len, WorkDone::Step { npu: npu.0, seq: id, thread: 0, stage }, q);
    }

    fn worked(timer: WorkDone) -> (NodeId, ChunkId, u8) {
        match timer {
            WorkDone::Step { npu, seq, stage, .. } => (NodeId(npu), seq, stage),
            other => unreachable!("messages between two ranks set no timer {other:?}"),
        }
    }
}
