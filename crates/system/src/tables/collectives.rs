//! The collectives of a run, and the phases that their chunks go through.

use super::{Ran, View, ints, optional_ints, total, wide};
use crate::cohorts::{Cohort, CohortId};
use crate::driver::PhaseSlice;
use crate::endpoints::EndpointEvent;
use crate::executor::pass_name;
use crate::graphs::Call;
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use syncline_collective::{Kind, PhaseId, PlanId};
use syncline_core::Ps;
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
        let ran = self.ran();
        let text = |f: &dyn Fn(&Ran<'_>) -> String| ran.iter().map(f).collect();
        let at = |f: &dyn Fn(&Ran<'_>) -> Option<Ps>| optional_ints(&ran, |r| f(&r).map(|t| t.0));
        Collectives {
            id: (0..ran.len() as i64).collect(),
            layer: text(&|r| self.layer_name(r.node.layer)),
            pass: text(&|r| pass_name(r.node.pass).to_string()),
            iteration: ints(&ran, |r| r.node.iteration.into()),
            kind: text(&|r| r.call.kind.to_string()),
            bytes: ints(&ran, |r| r.call.bytes),
            chunks: ints(&ran, |r| r.chunks),
            issued_ps: at(&|r| r.times.issued),
            started_ps: at(&|r| r.times.started),
            completed_ps: at(&|r| r.times.completed),
            exposed_ps: ints(&ran, |r| self.exposed_of(&r)),
        }
    }

    /// How long the main stream of the slowest NPU waited for a collective, which it may have no part in.
    fn exposed_of(&self, ran: &Ran<'_>) -> u64 {
        match self.simulation.cohorts().of(ran.call.family, self.npu) == Some(ran.cohort) {
            true => self.exposed_to(self.node(self.simulation.executor().class(self.npu), ran.call).0),
            false => 0,
        }
    }

    /// The phases that results list, each by its cohort and plan.
    pub(super) fn listed_phases(&self) -> Vec<(CohortId, PlanId, PhaseId)> {
        let mut listed = Vec::new();
        for (cohort, id) in self.simulation.cohorts().iter().zip((0..).map(CohortId)) {
            let layout = &cohort.layout;
            let plans = || layout.plan_ids().zip(layout.plans());
            let mut kinds: Vec<Kind> = plans().map(|(_, p)| p.kind()).collect();
            kinds.dedup(); // plans of a kind follow one another
            // Of each kind of collectives, the plan with the most phases.
            let longest = |kind: &Kind| {
                let of_kind = plans().filter(|(_, p)| p.kind() == *kind);
                of_kind.max_by_key(|(_, p)| p.phases().len()).map_or(PlanId(0), |(number, _)| number)
            };
            for plan in kinds.iter().map(longest) {
                listed.extend(layout.plan(plan).phase_ids().map(|phase| (id, plan, phase)));
            }
        }
        listed
    }

    pub(super) fn phases(&self) -> Phases {
        let cohorts = self.simulation.cohorts();
        let layout = |cohort: CohortId| &cohorts[cohort].layout;
        let phases = self.listed_phases();
        let of = |(cohort, plan, phase): (CohortId, PlanId, PhaseId)| {
            let kind = layout(cohort).plan(plan).kind();
            let mine =
                move |s: &&PhaseSlice| s.npu.0 == 0 && s.cohort == cohort && s.phase == phase && self.kind(s) == kind;
            self.outcome.phases.iter().filter(mine)
        };
        Phases {
            phase: ints(&phases, |(_, _, p)| p.0.into()),
            name: phases.iter().map(|&(cohort, plan, p)| self.phase_name(cohort, plan, p)).collect(),
            dim: ints(&phases, |(cohort, plan, p)| layout(cohort).plan(plan).phases()[p.index()].dim.into()),
            chunks: ints(&phases, |p| of(p).count() as u64),
            queue_ps: wide(&phases, |p| total(of(p).map(|s| (s.began - s.ready).0))),
            active_ps: wide(&phases, |p| total(of(p).map(|s| (s.ended - s.began).0))),
            fsms: ints(&phases, |p| self.fsms_of(p).map_or(0, |f| f.fsms.into())),
            fsm_peak: ints(&phases, |p| self.fsms_of(p).map_or(0, |f| f.peak.into())),
        }
    }

    /// The name of a phase, with that of the family if there are several.
    pub(super) fn phase_name(&self, cohort: CohortId, plan: PlanId, phase: PhaseId) -> String {
        let Cohort { layout, family, .. } = &self.simulation.cohorts()[cohort];
        let name = layout.phase_name(plan, phase);
        match self.spec.families.get(family.index()) {
            Some(family) => format!("{} {name}", family.name),
            None => name,
        }
    }

    pub(super) fn fsms_of(&self, (cohort, plan, phase): (CohortId, PlanId, PhaseId)) -> Option<PhaseFsms> {
        let mut all = self.outcome.report.fsms_of_phases.iter();
        all.find(|p| (p.room, p.plan, p.phase) == (cohort.room(), plan, phase)).copied()
    }

    /// The kind of the collective of a phase.
    pub(super) fn kind(&self, slice: &PhaseSlice) -> Kind {
        self.call(slice).kind
    }

    /// The collective of a phase.
    pub(super) fn call(&self, slice: &PhaseSlice) -> Call {
        let known = self.simulation.cohorts()[slice.cohort].calls().nth(slice.collective.index());
        known.expect("a chunk is of a collective that is known").1
    }
}
