//! Injection latency: what an NPU receives reaches its programs some time after it has arrived.
//!
//! HOTI 2020 (sections III-C and IV-C) stands so for the copies between a network interface and where an NPU computes, a
//! constant for every message that a node receives and processes. It is a pure delay: while a message is delayed, the NPU
//! sends, and delays others, any number at a time. So a collective in which `m` messages follow one another takes `m`
//! latencies longer, however many messages come at once: 2 for an all-reduce and 1 for an all-to-all of direct messages, `2
//! ceil(log2 N)` for double binary trees on `N` ranks. It is apart from what a step costs
//! ([`StepCost::work`](crate::costs::StepCost::work)), which a thread does for one message after the other, and for what it
//! sends of its own, too.
//!
//! Left out: what copies take of memory bandwidth.

use super::MessageEndpoint;
use crate::api::Ctx;
use crate::costs::StepCost;
use crate::work_done::WorkDone;
use std::collections::VecDeque;
use syncline_core::{NodeId, PortId, Ps, Schedule};
use syncline_network::{Network, Segment};

/// A message that has arrived and not reached its program.
#[derive(Clone, Copy, Debug)]
struct Delayed {
    port: PortId,
    tag: u64,
    segment: Segment,
}

/// The latency, and the messages of every NPU that it delays.
#[derive(Clone, Debug)]
pub(super) struct Injection {
    latency: Ps,
    /// By NPU, in the order of arrival, which is that in which they reach their programs: all are delayed equally.
    delayed: Vec<VecDeque<Delayed>>,
}

impl Injection {
    /// That of `npus` NPUs; `None` if there is no latency.
    pub fn new(latency: Ps, npus: u32) -> Option<Injection> {
        (latency > Ps::ZERO).then(|| Injection { latency, delayed: vec![VecDeque::new(); npus as usize] })
    }
}

impl<C: StepCost> MessageEndpoint<C> {
    /// A message has arrived: it reaches its program now, or later.
    #[inline]
    pub(super) fn inject<N: Network, Q>(
        &mut self,
        npu: NodeId,
        port: PortId,
        (tag, segment): (u64, Segment),
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let Some(injection) = &mut self.injection else { return self.arrived(npu, port, (tag, segment), ctx) };
        injection.delayed[npu.index()].push_back(Delayed { port, tag, segment });
        let event = WorkDone::Injected { npu: npu.0 };
        ctx.q.at(ctx.now + injection.latency, event.key(), event);
    }

    /// The message that has been delayed longest at an NPU reaches its program.
    pub(super) fn injected<N: Network, Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let delayed = self.injection.as_mut().and_then(|injection| injection.delayed[npu.index()].pop_front());
        let Delayed { port, tag, segment } = delayed.expect("there is an event for each message that is delayed");
        self.arrived(npu, port, (tag, segment), ctx);
    }
}
