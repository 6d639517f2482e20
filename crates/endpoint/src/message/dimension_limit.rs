//! How many chunks of an NPU work along a dimension at once.
//!
//! A chunk may visit a dimension several times: in a reduce-scatter and later in an all-gather. The limit holds for the first
//! visits of all chunks, for their second ones, and so on, each apart: a chunk in its first visit may wait for NPUs whose
//! chunks are in their second one, so the two must not take places from each other.
//!
//! # Why it does not deadlock
//! Places are given in the global order of chunks: a chunk begins a visit when fewer older chunks than the limit have still
//! to end theirs, whether or not they have come to it. So the oldest unfinished chunk of the run may always go on, on all
//! NPUs.

use super::MessageEndpoint;
use crate::api::{ChunkId, Ctx};
use crate::costs::StepCost;
use crate::work_done::WorkDone;
use std::collections::BTreeMap;
use syncline_collective::{PhaseId, Plan, PlanId};
use syncline_core::{NodeId, Ps, Schedule, Wait};
use syncline_network::Network;

/// A visit to a dimension: which one, and which of a plan's visits to it, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    dim: u8,
    number: usize,
}

/// A chunk that has come to a phase.
#[derive(Clone, Copy, Debug)]
struct Visitor {
    /// When it came.
    since: Ps,
    waits: bool,
}

/// The limit, and the chunks that have come to a phase and not ended it.
#[derive(Clone, Debug)]
pub(super) struct DimensionLimit {
    most: u32,
    /// The visits of every plan, one for each phase.
    visits: Vec<Vec<Visit>>,
    visitors: BTreeMap<(NodeId, ChunkId), Visitor>,
}

impl DimensionLimit {
    /// At most `most` chunks of each NPU along a dimension, of chunks that follow these plans.
    pub fn new<'a>(most: u32, plans: impl Iterator<Item = &'a Plan>) -> DimensionLimit {
        let visits = |plan: &Plan| {
            let dims: Vec<u8> = plan.phases().iter().map(|phase| phase.dim).collect();
            let visit = |(at, &dim)| Visit { dim, number: dims[..at].iter().filter(|&&d| d == dim).count() };
            dims.iter().enumerate().map(visit).collect()
        };
        DimensionLimit { most, visits: plans.map(visits).collect(), visitors: BTreeMap::new() }
    }

    /// A chunk comes to a phase of its plan.
    pub fn come(&mut self, npu: NodeId, seq: ChunkId, now: Ps) {
        self.visitors.insert((npu, seq), Visitor { since: now, waits: true });
    }

    /// The visit that a phase of a plan is.
    fn visit(&self, plan: PlanId, phase: PhaseId) -> Visit {
        self.visits[plan.index()][phase.index()]
    }

    /// Whether a chunk of a plan may begin a phase, given the plans and phases of all older chunks of its NPU that are not
    /// done.
    pub fn admits(&self, (plan, phase): (PlanId, PhaseId), older: impl Iterator<Item = (PlanId, PhaseId)>) -> bool {
        let visit = self.visit(plan, phase);
        let visits_later = |(plan, phase): &(PlanId, PhaseId)| {
            self.visits[plan.index()].get(phase.index()..).is_some_and(|later| later.contains(&visit))
        };
        older.filter(visits_later).take(self.most as usize).count() < self.most as usize
    }

    /// A chunk begins the phase to which it has come.
    pub fn begin(&mut self, npu: NodeId, seq: ChunkId) {
        if let Some(visitor) = self.visitors.get_mut(&(npu, seq)) {
            visitor.waits = false;
        }
    }

    /// A chunk ends a phase. Returns when it had come to it.
    pub fn end(&mut self, npu: NodeId, seq: ChunkId) -> Option<Ps> {
        self.visitors.remove(&(npu, seq)).map(|visitor| visitor.since)
    }

    /// The chunks of an NPU that wait for a place, the oldest first.
    pub fn waiting(&self, npu: NodeId) -> impl Iterator<Item = ChunkId> {
        let its = self.visitors.range((npu, ChunkId(0))..=(npu, ChunkId(u32::MAX)));
        its.filter(|(_, visitor)| visitor.waits).map(|(&(_, seq), _)| seq)
    }

    /// Whether a chunk waits for a place.
    pub fn waits(&self, npu: NodeId, seq: ChunkId) -> bool {
        self.visitors.get(&(npu, seq)).is_some_and(|visitor| visitor.waits)
    }
}

impl<C: StepCost> MessageEndpoint<C> {
    /// A chunk has come to its next phase, which begins now unless it waits for a place along its dimension.
    pub(super) fn come_to_phase<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let phase = self.npus[npu.index()].chunk(seq, self.threads).0.phase;
        if phase.index() == self.layout.phases(self.chunks[seq.index()].plan) {
            return self.finish(npu, seq, ctx);
        }
        if let Some(limit) = &mut self.dimension_limit {
            limit.come(npu, seq, ctx.now);
            if !self.has_place(npu, seq) {
                return;
            }
        }
        self.begin_phase(npu, seq, ctx);
    }

    /// Whether there is a place for a chunk along the dimension of its phase.
    fn has_place(&self, npu: NodeId, seq: ChunkId) -> bool {
        let window = &self.npus[npu.index()];
        let place = |seq: ChunkId| (seq.0 - window.base.0) as usize;
        let of = |seq: ChunkId| (self.chunks[seq.index()].plan, window.chunks[place(seq)].phase);
        let older = (window.base.0..seq.0).map(ChunkId).filter(|&older| !window.chunks[place(older)].done).map(of);
        self.dimension_limit.as_ref().is_none_or(|limit| limit.admits(of(seq), older))
    }

    /// The oldest chunk of an NPU that has waited for a place along a dimension, and has one now.
    pub(super) fn next_of_dimension(&self, npu: NodeId) -> Option<ChunkId> {
        let limit = self.dimension_limit.as_ref()?;
        let mut full = Vec::new(); // where the oldest one that waits has no place, nor have the others
        limit.waiting(npu).find(|&seq| {
            let phase = self.npus[npu.index()].chunks[(seq.0 - self.npus[npu.index()].base.0) as usize].phase;
            let visit = limit.visit(self.chunks[seq.index()].plan, phase);
            let has_place = !full.contains(&visit) && self.has_place(npu, seq);
            if !has_place && !full.contains(&visit) {
                full.push(visit);
            }
            has_place
        })
    }

    /// What a chunk that has come to a phase waits for, if that is a place along its dimension.
    pub(super) fn wait_for_place(&self, npu: NodeId, seq: ChunkId, phase: PhaseId) -> Option<Wait> {
        self.dimension_limit.as_ref().filter(|limit| limit.waits(npu, seq))?;
        let name = self.layout.fabric().node_name(npu);
        let phase = self.layout.phase_name(self.chunks[seq.index()].plan, phase);
        Some(Wait {
            who: format!("{name}, chunk {seq}, {phase}"),
            what: "older chunks to end their phases along its dimension".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two plans: one visits dimension 0, dimension 1 and dimension 0 again, the other one dimension 1 and dimension 0.
    fn limit(most: u32) -> DimensionLimit {
        let visits = |dims: &[(u8, usize)]| dims.iter().map(|&(dim, number)| Visit { dim, number }).collect();
        let visits = vec![visits(&[(0, 0), (1, 0), (0, 1)]), visits(&[(1, 0), (0, 0)])];
        DimensionLimit { most, visits, visitors: BTreeMap::new() }
    }

    fn at(plan: u8, phase: u8) -> (PlanId, PhaseId) {
        (PlanId(plan), PhaseId(phase))
    }

    #[test]
    fn older_chunks_go_first_whether_they_have_come_or_not() {
        let one = limit(1);
        assert!(one.admits(at(0, 0), [].into_iter()));
        assert!(!one.admits(at(0, 0), [at(0, 0)].into_iter()));
        assert!(one.admits(at(0, 0), [at(0, 1), at(0, 2)].into_iter()), "both have ended their first visits");
        assert!(!one.admits(at(1, 0), [at(0, 0)].into_iter()), "the older one has still to come to dimension 1");
        assert!(!one.admits(at(0, 0), [at(1, 0)].into_iter()), "which has still to come to dimension 0");
        assert!(one.admits(at(0, 2), [at(1, 0), at(1, 1)].into_iter()), "the second visit is of the other plan only");
        let two = limit(2);
        assert!(two.admits(at(0, 0), [at(0, 0), at(0, 1)].into_iter()));
        assert!(!two.admits(at(0, 0), [at(0, 0), at(1, 1)].into_iter()));
    }
}
