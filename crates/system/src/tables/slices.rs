//! What traced NPUs did, and when.

use super::{Ran, View};
use crate::cohorts::CohortId;
use crate::driver::PhaseSlice;
use crate::endpoints::EndpointEvent;
use crate::executor::{WaitEnd, pass_name};
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use std::collections::BTreeMap;
use syncline_collective::{Kind, PhaseId, PlanId};
use syncline_core::{NodeId, Ps};
use syncline_endpoint::Endpoint;
use syncline_network::Network;
use syncline_workload::NodeIndex;
use syncline_workload::Stream;

syncline_core::table! {
    /// A row for every span of time on a track of a traced NPU; those of a track are disjoint.
    "slices" => Slices {
        /// Number of the NPU.
        npu: Vec<i64> as Index,
        /// Track that the span is on.
        track: Vec<String> as Text,
        /// Activity during the span.
        name: Vec<String> as Text,
        /// Time at which the span began.
        start_ps: Vec<i64> as Picoseconds,
        /// Time at which the span ended.
        end_ps: Vec<i64> as Picoseconds,
    }
}

impl<N, E> View<'_, N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    pub(super) fn slices(&self) -> Slices {
        let mut slices = Recorder { limit: self.spec.output.trace_limit as usize, ..Recorder::default() };
        for &whole in &self.spec.output.trace_npus {
            if let Some(npu) = self.simulation.layout().simulated(NodeId(whole)) {
                slices.npu = whole;
                self.slices_of(npu, &mut slices);
            }
        }
        slices.recorded
    }

    fn slices_of(&self, npu: NodeId, slices: &mut Recorder) {
        let executor = self.simulation.executor();
        let end = self.outcome.end;
        let title = |node: NodeIndex| {
            let n = executor.graph(npu).node(node);
            format!("{} {}", self.layer_name(n.layer), pass_name(n.pass))
        };
        for &(_, node, from, to) in executor.slices.iter().filter(|s| s.0 == npu) {
            let track = match executor.graph(npu).node(node).stream {
                Stream::MAIN => "compute".to_string(),
                Stream::BACKGROUND => "background compute".to_string(),
                Stream(number) => format!("compute of stream {number}"),
            };
            slices.push(track, title(node), from, to.min(end));
        }
        let of = |end: fn(&WaitEnd) -> bool| executor.waits_of(npu).iter().filter(move |wait| end(&wait.end));
        for wait in of(|end| *end == WaitEnd::Compute) {
            slices.push("exposed".into(), "waits for background compute".into(), wait.from, wait.to);
        }
        for wait in of(|end| *end != WaitEnd::Compute) {
            if let WaitEnd::Communication(node) | WaitEnd::OtherClass(node) = wait.end {
                slices.push("exposed".into(), format!("waits for {}", title(node)), wait.from, wait.to);
            }
        }
        let cohorts = self.simulation.cohorts();
        let takes_part = |cohort: CohortId| cohorts.iter().len() == 1 || cohorts[cohort].layout.takes_part(npu);
        for Ran { call, node, times, .. } in self.ran().into_iter().filter(|ran| takes_part(ran.cohort)) {
            if let Some(issued) = times.issued {
                let track = format!("collective {}", self.layer_name(node.layer));
                let mut name = format!("{} of iteration {}", call.kind, node.iteration);
                if times.completed.is_none() {
                    name += ", in flight at the end";
                }
                slices.push(track, name, issued, times.completed.unwrap_or(end));
            }
        }
        let mut by_phase: BTreeMap<(CohortId, Kind, PhaseId), Vec<&PhaseSlice>> = BTreeMap::new();
        for s in self.outcome.phases.iter().filter(|s| s.npu == npu) {
            by_phase.entry((s.cohort, self.kind(s), s.phase)).or_default().push(s);
        }
        for ((cohort, kind, phase), mut of_phase) in by_phase {
            let layout = &cohorts[cohort].layout;
            let plan = layout
                .plan_ids()
                .zip(layout.plans())
                .find(|(_, p)| p.kind() == kind)
                .map_or(PlanId(0), |(number, _)| number);
            of_phase.sort_by_key(|s| (s.began, s.seq));
            let mut free: Vec<Ps> = Vec::new(); // per slot, when it falls free
            for s in of_phase {
                let slot = free.iter().position(|&f| f <= s.began).unwrap_or(free.len());
                free.resize(free.len().max(slot + 1), Ps::ZERO);
                free[slot] = s.ended;
                let name = self.layer_name(self.node(executor.class(npu), self.call(s)).1.layer);
                let track = format!("phase {phase} {} slot {slot:02}", self.phase_name(cohort, plan, phase));
                slices.push(track, format!("{name} chunk {}", s.seq), s.began, s.ended);
            }
        }
    }
}

/// Spans up to the limit that was asked for.
#[derive(Default)]
struct Recorder {
    /// The NPU, by its number in the whole machine.
    npu: u32,
    limit: usize,
    recorded: Slices,
}

impl Recorder {
    fn push(&mut self, track: String, name: String, start: Ps, end: Ps) {
        let spans = &mut self.recorded;
        if spans.npu.len() < self.limit {
            spans.npu.push(self.npu.into());
            spans.track.push(track);
            spans.name.push(name);
            spans.start_ps.push(start.0 as i64);
            spans.end_ps.push(end.0 as i64);
        }
    }
}
