//! The collectives of a run, and the phases that their chunks go through.

use super::{View, ints, optional_ints, total, wide};
use crate::admission::CollectiveId;
use crate::driver::PhaseSlice;
use crate::endpoints::EndpointEvent;
use crate::executor::pass_name;
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use syncline_collective::{Kind, PhaseId, PlanId};
use syncline_core::{Id, Ps};
use syncline_endpoint::Endpoint;
use syncline_endpoint::api::PhaseFsms;
use syncline_network::Network;

syncline_core::table! {
    /// A row for every collective of an iteration, in the order of the training loop.
    "collectives" => Collectives {
        /// Number of the collective.
        id: Vec<i64> as Index,
        /// Layer to which the collective belongs.
        layer: Vec<String> as Text,
        /// Pass that issued the collective.
        pass: Vec<String> as Text,
        /// Number of the iteration.
        iteration: Vec<i64> as Index,
        /// Kind of the collective.
        kind: Vec<String> as Text,
        /// Size of the collective, in the sense of nccl-tests.
        bytes: Vec<i64> as Bytes,
        /// Chunks that the collective was cut into.
        chunks: Vec<i64> as Count,
        /// Time at which the first NPU issued the collective; missing if that was not before the end of the run.
        issued_ps: Vec<Option<i64>> as Picoseconds,
        /// Time at which the first chunk was started; missing if that was not before the end of the run.
        started_ps: Vec<Option<i64>> as Picoseconds,
        /// Time at which the last NPU completed the collective; missing if that was not before the end of the run.
        completed_ps: Vec<Option<i64>> as Picoseconds,
        /// Time that the main stream of the compute engine waited for the collective.
        exposed_ps: Vec<i64> as Picoseconds,
    }
}

syncline_core::table! {
    /// A row for every phase of each kind of collective, over all chunks of the first NPU.
    "phases" => Phases {
        /// Number of the phase within its kind of collective.
        phase: Vec<i64> as Index,
        /// What is done in the phase.
        name: Vec<String> as Text,
        /// Dimension of the group along which the phase works.
        dim: Vec<i64> as Index,
        /// Chunks that went through the phase.
        chunks: Vec<i64> as Count,
        /// Time that chunks waited for the phase to begin, added up.
        queue_ps: Vec<i64> as Picoseconds,
        /// Time that chunks were in the phase, added up.
        active_ps: Vec<i64> as Picoseconds,
        /// State machines of an ACE that can run the phase; 0 for other endpoints.
        fsms: Vec<i64> as Count,
        /// Most state machines of one NPU that were ever busy with the phase at once; 0 for other endpoints.
        fsm_peak: Vec<i64> as Count,
    }
}

impl<N, E> View<'_, N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    pub(super) fn collectives(&self) -> Collectives {
        let executor = self.simulation.executor();
        let ids: Vec<CollectiveId> = (0..self.outcome.collectives.len()).map(CollectiveId::from_index).collect();
        let node = |id: CollectiveId| &executor.nodes()[executor.collectives()[id.index()].node.index()];
        let times = |id: CollectiveId| self.outcome.collectives[id.index()];
        let text = |f: &dyn Fn(CollectiveId) -> String| ids.iter().map(|&id| f(id)).collect();
        let at = |f: &dyn Fn(CollectiveId) -> Option<Ps>| optional_ints(&ids, |id| f(id).map(|t| t.0));
        Collectives {
            id: ints(&ids, |id| id.0.into()),
            layer: text(&|id| self.layer_name(node(id).layer)),
            pass: text(&|id| pass_name(node(id).pass).to_string()),
            iteration: ints(&ids, |id| node(id).iteration.into()),
            kind: text(&|id| executor.collectives()[id.index()].kind.to_string()),
            bytes: ints(&ids, |id| executor.collectives()[id.index()].bytes),
            chunks: ints(&ids, |id| self.outcome.chunks[id.index()]),
            issued_ps: at(&|id| times(id).issued),
            started_ps: at(&|id| times(id).started),
            completed_ps: at(&|id| times(id).completed),
            exposed_ps: ints(&ids, |id| self.exposed_of(id)),
        }
    }

    /// The phases that results list, each by its plan.
    pub(super) fn listed_phases(&self) -> Vec<(PlanId, PhaseId)> {
        let layout = self.simulation.layout();
        let plans = || layout.plan_ids().zip(layout.plans());
        let mut kinds: Vec<Kind> = plans().map(|(_, p)| p.kind()).collect();
        kinds.dedup(); // plans of a kind follow one another
        // Of each kind of collectives, the plan with the most phases.
        let longest = |kind: &Kind| {
            let of_kind = plans().filter(|(_, p)| p.kind() == *kind);
            of_kind.max_by_key(|(_, p)| p.phases().len()).map_or(PlanId(0), |(number, _)| number)
        };
        let each = |plan: PlanId| layout.plan(plan).phase_ids().map(move |phase| (plan, phase));
        kinds.iter().map(longest).flat_map(each).collect()
    }

    pub(super) fn phases(&self) -> Phases {
        let layout = self.simulation.layout();
        let phases = self.listed_phases();
        let of = |(plan, phase): (PlanId, PhaseId)| {
            let kind = layout.plan(plan).kind();
            let mine = move |s: &&PhaseSlice| s.npu.0 == 0 && s.phase == phase && self.kind(s.collective) == kind;
            self.outcome.phases.iter().filter(mine)
        };
        Phases {
            phase: ints(&phases, |(_, p)| p.0.into()),
            name: phases.iter().map(|&(plan, p)| layout.phase_name(plan, p)).collect(),
            dim: ints(&phases, |(plan, p)| layout.plan(plan).phases()[p.index()].dim.into()),
            chunks: ints(&phases, |p| of(p).count() as u64),
            queue_ps: wide(&phases, |p| total(of(p).map(|s| (s.began - s.ready).0))),
            active_ps: wide(&phases, |p| total(of(p).map(|s| (s.ended - s.began).0))),
            fsms: ints(&phases, |p| self.fsms_of(p).map_or(0, |f| f.fsms.into())),
            fsm_peak: ints(&phases, |p| self.fsms_of(p).map_or(0, |f| f.peak.into())),
        }
    }

    pub(super) fn fsms_of(&self, (plan, phase): (PlanId, PhaseId)) -> Option<PhaseFsms> {
        let mut all = self.outcome.report.fsms_of_phases.iter();
        all.find(|p| (p.plan, p.phase) == (plan, phase)).copied()
    }

    pub(super) fn kind(&self, collective: CollectiveId) -> Kind {
        self.simulation.executor().collectives()[collective.index()].kind
    }
}
