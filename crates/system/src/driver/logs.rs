//! How chunks come into logs, and NPUs start them.

use super::{ENTER, Simulation};
use crate::admission::{CollectiveId, Next};
use crate::cohorts::CohortId;
use crate::endpoints::EndpointEvent;
use crate::event::Event;
use crate::executor::WaitEnd;
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use syncline_core::{Key, NodeId, Ps};
use syncline_endpoint::{ChunkId, Ctx, Endpoint};
use syncline_network::Network;

impl<N, E> Simulation<N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    /// Lets an NPU start chunks of all its communicators as long as it accepts them.
    pub(super) fn offer_all(&mut self, npu: NodeId, now: Ps) {
        let mut next = 0; // what it does may not add to its cohorts
        loop {
            let Some(cohort) = self.cohorts.of_npu(npu).nth(next) else { return };
            next += 1;
            self.offer(npu, cohort, now);
        }
    }

    /// Lets an NPU start chunks of a cohort as long as it accepts them.
    pub(super) fn offer(&mut self, npu: NodeId, id: CohortId, now: Ps) {
        while let Some(next) = self.cohorts[id].admission.next(npu) {
            if !self.ep.accepts(npu, id.room(), next.chunk) {
                return;
            }
            if next.new {
                if self.cohorts.waits_for_instant() {
                    if self.cohorts.ask_to_enter(id) {
                        self.queue.0.push(now, Key::new(ENTER, 0), Event::Enter);
                    }
                    return;
                }
                self.enter(id, next);
            }
            if !self.has_turn(npu, id, next.collective, now) {
                return;
            }
            self.start(npu, id, next.collective, now);
        }
    }

    /// Enters a chunk into the log of a cohort.
    pub(super) fn enter(&mut self, id: CohortId, Next { collective, chunk, .. }: Next) {
        let is_last = self.cohorts[id].admission.enter(collective, chunk);
        self.ep.define(id.room(), chunk);
        if is_last {
            self.cohorts.entered(id, collective);
        }
    }

    /// Starts the next chunk of the log of a cohort on an NPU that accepts it.
    pub(super) fn start(&mut self, npu: NodeId, id: CohortId, collective: CollectiveId, now: Ps) {
        let cohort = &mut self.cohorts[id];
        let times = &mut cohort.times[collective.index()];
        times.started.get_or_insert(now);
        self.started.0 += 1;
        self.started.1 += u128::from(now.since(times.issued.unwrap_or(now)).0);
        cohort.admission.started(npu);
        let Self { queue: q, net, ep, ep_out: out, .. } = self;
        ep.start(npu, id.room(), &mut Ctx { now, net, q, out });
    }

    /// Enters chunks into all logs in which any NPU has asked for that, one after the other, as long as one does.
    pub(super) fn enter_all(&mut self, now: Ps) {
        for id in self.cohorts.that_asked() {
            let npus: Vec<NodeId> = (0..self.npus).map(NodeId).collect();
            let takes_part = |npu: &NodeId| self.cohorts[id].layout.takes_part(*npu);
            let members: Vec<NodeId> = npus.into_iter().filter(takes_part).collect();
            loop {
                let admission = &self.cohorts[id].admission;
                let wants = |npu: &&NodeId| {
                    let next = admission.next(**npu);
                    next.is_some_and(|next| next.new && self.ep.accepts(**npu, id.room(), next.chunk))
                };
                let wanting: Vec<NodeId> = members.iter().filter(wants).copied().collect();
                let Some(next) = admission.next_of(&wanting) else { break };
                self.enter(id, next);
                for &npu in &members {
                    self.offer(npu, id, now);
                }
            }
        }
    }

    /// Lets chunks of collectives start that were to wait until others had begun, now that these have; whether there are any
    /// such collectives.
    pub(super) fn enter_what_may(&mut self, now: Ps) -> bool {
        let mut any = false;
        loop {
            let (id, added) = match self.cohorts.permit(&self.executor) {
                Ok(Some(permitted)) => permitted,
                Ok(None) => return any,
                Err(disagree) => {
                    self.mismatch.get_or_insert(disagree);
                    return true;
                }
            };
            self.incomplete += added;
            any = true;
            for npu in (0..self.npus).map(NodeId) {
                if self.cohorts[id].layout.takes_part(npu) {
                    self.offer(npu, id, now);
                }
            }
        }
    }

    pub(super) fn chunk_done(&mut self, npu: NodeId, cohort: CohortId, seq: ChunkId, now: Ps) {
        let (id, complete) = self.cohorts[cohort].admission.done(npu, seq);
        if complete {
            self.mark_complete(npu, cohort, id, now);
            self.turn_ends(npu, cohort, now);
            self.act(npu, now);
        }
    }

    /// A collective is complete on an NPU; what its training loop does next is left in `actions`.
    pub(super) fn mark_complete(&mut self, npu: NodeId, cohort: CohortId, id: CollectiveId, now: Ps) {
        let cohort = &mut self.cohorts[cohort];
        let times = &mut cohort.times[id.index()];
        times.complete_on += 1;
        if times.complete_on == cohort.participants {
            times.completed = Some(now);
            self.incomplete -= 1;
        }
        let node = self.executor.graph(npu).calls(cohort.family)[id.index()];
        self.executor.communicated(npu, node, WaitEnd::Communication(node), now, &mut self.actions);
    }
}
