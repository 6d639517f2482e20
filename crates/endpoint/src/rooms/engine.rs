//! What an endpoint has to be for several of its kind to stand on the same NPUs.

use super::timers::RoomTimer;
use crate::api::{ChunkId, Ctx, RoomId};
use crate::costs::StepCost;
use crate::message::{DimensionLimit, MessageEndpoint};
use crate::work_done::WorkDone;
use syncline_collective::Op;
use syncline_core::{Bytes, NodeId, Ps, Schedule, Wait};
use syncline_network::Network;

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

    /// Makes the engines those of rooms, in order. What the first of them was made with is what all of them use, through the
    /// hardware.
    fn share<'a>(engines: impl Iterator<Item = &'a mut Self>, hardware: &mut Self::Hardware)
    where
        Self: 'a;

    /// A chunk of a room that waited for something that rooms share, and has it now. The room has to be
    /// [told](Engine::resume).
    fn next_to_resume(_hardware: &mut Self::Hardware) -> Option<(RoomId, NodeId, ChunkId)> {
        None
    }

    /// Lets a chunk go on that has what it [waited](Engine::next_to_resume) for.
    fn resume<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, _ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<Self::Timer> + Schedule<N::Event>,
    {
        unreachable!("chunk {seq} of NPU {npu:?} waits for nothing that rooms share");
    }

    /// What chunks of a room wait for that rooms share.
    fn waits_for_others(&self, _room: RoomId, _hardware: &Self::Hardware) -> Vec<Wait> {
        Vec::new()
    }

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

/// What the rooms of endpoints of whole messages share.
#[derive(Clone, Debug)]
pub struct Shared<C> {
    /// What steps cost.
    cost: C,
    /// How many chunks of an NPU may work along a dimension, of whatever room.
    limit: Option<DimensionLimit>,
}

impl<C> From<C> for Shared<C> {
    fn from(cost: C) -> Shared<C> {
        Shared { cost, limit: None }
    }
}

impl<C: StepCost> Engine for MessageEndpoint<C> {
    type Timer = WorkDone;
    type Hardware = Shared<C>;

    fn share<'a>(engines: impl Iterator<Item = &'a mut Self>, hardware: &mut Shared<C>)
    where
        C: 'a,
    {
        let of_room = |(room, engine): (u16, &'a mut Self)| {
            if room == 0 {
                std::mem::swap(engine.cost_mut(), &mut hardware.cost);
            }
            engine.take_room(RoomId(room))
        };
        hardware.limit = DimensionLimit::of((0..).zip(engines).map(of_room));
    }

    fn next_to_resume(hardware: &mut Shared<C>) -> Option<(RoomId, NodeId, ChunkId)> {
        hardware.limit.as_mut().and_then(DimensionLimit::next_given)
    }

    fn resume<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        self.given_place(npu, seq, ctx);
    }

    fn waits_for_others(&self, room: RoomId, hardware: &Shared<C>) -> Vec<Wait> {
        self.waits_for_places(hardware.limit.as_ref(), room).collect()
    }

    fn exchange(&mut self, hardware: &mut Shared<C>) {
        std::mem::swap(self.cost_mut(), &mut hardware.cost);
        std::mem::swap(self.dimension_limit_mut(), &mut hardware.limit);
    }

    fn is_shared(_: &str) -> bool {
        true // whatever steps cost
    }

    fn tell_apart(&mut self, chunks: u32) {
        self.set_span(chunks);
    }

    fn stages(hardware: &Shared<C>, op: Op) -> u8 {
        hardware.cost.stages(op)
    }

    fn work<Q: Schedule<WorkDone>>(hardware: &mut Shared<C>, work: PostWork, now: Ps, q: &mut Q) {
        let PostWork { npu, id, op, len, stage } = work;
        // What is received is delayed from when both it and its place are there.
        let now = if op.receives() && stage == 0 { now + hardware.cost.injection() } else { now };
        hardware.cost.work(now, op, len, WorkDone::Step { npu: npu.0, seq: id, thread: 0, stage }, q);
    }

    fn worked(timer: WorkDone) -> (NodeId, ChunkId, u8) {
        match timer {
            WorkDone::Step { npu, seq, stage, .. } => (NodeId(npu), seq, stage),
            other => unreachable!("messages between two ranks set no timer {other:?}"),
        }
    }
}
