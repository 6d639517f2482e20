//! The summary: the headline of a run, and the totals of its layers.

use super::{View, share};
use crate::bound::Bound;
use crate::cohorts::CohortId;
use crate::endpoints::EndpointEvent;
use crate::executor::{MainWait, PassSpan, WaitEnd, pass_name};
use crate::networks::NetworkEvent;
use crate::results::{
    Breakdown, ClassSummary, EndpointSummary, Exposed, NetworkSummary, PartitionSummary, PassSummary, PhaseFsmsSummary,
    ResourceSummary, Summary,
};
use crate::spec::JobSpec;
use crate::steady;
use crate::timer::Timer;
use syncline_collective::{PhaseId, Plan, PlanId};
use syncline_core::{Id, NodeId};
use syncline_endpoint::api::PhaseFsms;
use syncline_endpoint::{Endpoint, Report};
use syncline_network::Network;
use syncline_topology::all_links;
use syncline_workload::ClassId;

fn pass_summary(span: &PassSpan, report: &Report) -> PassSummary {
    PassSummary {
        iteration: span.iteration,
        pass: if span.backward { "backward" } else { "forward" },
        from_ps: span.from.0,
        to_ps: span.to.0,
        engine_active_ps: report.occupancy.as_ref().map_or(0, |o| o.active.between(span.from, span.to)),
    }
}

impl<N, E> View<'_, N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    /// How long a training run went on after the last node of the main stream; a collective has nothing but its wait.
    fn drained(&self) -> u64 {
        match self.spec.job {
            JobSpec::Training { .. } | JobSpec::Graph { .. } | JobSpec::Jobs { .. } => {
                let finished = self.simulation.executor().finished(self.npu);
                self.outcome.end.since(finished.unwrap_or(self.outcome.end)).0
            }
            JobSpec::Collective { .. } => 0,
        }
    }

    /// What the NPUs of each class did, if there are several classes with a graph.
    fn classes(&self) -> Vec<ClassSummary> {
        let executor = self.simulation.executor();
        let layout = self.simulation.layout();
        let busy = (0..executor.graphs().classes()).map(ClassId::from_index);
        let busy: Vec<ClassId> = busy.filter(|&class| !executor.graphs().of(class).nodes().is_empty()).collect();
        if busy.len() < 2 {
            return Vec::new();
        }
        let of = |class: ClassId| {
            let npus = (0..layout.npus()).map(NodeId).filter(|&npu| executor.class(npu) == class);
            let npus: Vec<NodeId> = npus.collect();
            let ended = |npu: NodeId| executor.finished(npu).unwrap_or(self.outcome.end);
            let slowest = npus.iter().copied().rev().max_by_key(|&npu| ended(npu)).unwrap_or(NodeId(0));
            let waits = |end: fn(&WaitEnd) -> bool| -> u64 {
                executor.waits_of(slowest).iter().filter(|wait| end(&wait.end)).map(MainWait::time).sum()
            };
            ClassSummary {
                name: executor.source().class_name(class),
                npus: npus.len() as u64 * self.folded.multiplicity,
                npu: layout.whole(slowest).0,
                total_ps: self.outcome.end.since(executor.start(slowest)).0,
                compute_ps: executor.compute(slowest).0,
                exposed_ps: waits(|end| matches!(end, WaitEnd::Communication(_))),
                bubble_ps: waits(|end| matches!(end, WaitEnd::OtherClass(_))),
                background_wait_ps: waits(|end| *end == WaitEnd::Compute),
                drain_ps: self.outcome.end.since(ended(slowest)).0,
            }
        };
        busy.into_iter().map(of).collect()
    }

    pub(super) fn summary(&self) -> Summary {
        let executor = self.simulation.executor();
        let usage = self.simulation.network().usage();
        let fabric = self.simulation.layout().fabric();
        let each = || (0..fabric.links()).zip(self.copies.iter().copied());
        let links = self.copies.iter().sum();
        let busy: u128 = each().map(|(l, n)| u128::from(usage.busy(l).0) * u128::from(n)).sum();
        let m = self.folded.multiplicity;
        let end = self.outcome.end.0;
        let mut exposed: Vec<Exposed> = Vec::new();
        for wait in executor.waits_of(self.npu) {
            let Some(node) = wait.exposed_to() else { continue };
            let node = executor.graph(self.npu).node(node);
            let (layer, pass) = (self.layer_name(node.layer), pass_name(node.pass).to_string());
            let time = wait.time();
            match exposed.iter_mut().find(|x| x.layer == layer && x.pass == pass) {
                Some(x) => x.exposed_ps += time,
                None => exposed.push(Exposed { layer, pass, exposed_ps: time }),
            }
        }
        let report = &self.outcome.report;
        let cohorts = || self.simulation.cohorts().iter();
        let iterations = self.spec.job.iterations();
        let ends = if iterations.is_some() { executor.iteration_ends() } else { Vec::new() };
        let waits = |end: fn(&WaitEnd) -> bool| -> u64 {
            executor.waits_of(self.npu).iter().filter(|wait| end(&wait.end)).map(MainWait::time).sum()
        };
        Summary {
            npus: self.folded.npus,
            simulated_npus: fabric.npus(),
            unfolded: self.folded.unfolded.clone(),
            npu: self.simulation.layout().whole(self.npu).0,
            total_ps: end,
            iterations: iterations.unwrap_or(0),
            iteration_ends_ps: ends.iter().map(|end| end.at.0).collect(),
            steady: steady::of_job(&self.spec.job, &ends),
            compute_ps: executor.compute(self.npu).0,
            compute_alone_ps: executor.compute_alone(self.npu).0,
            background_compute_ps: executor.background_compute(self.npu).0,
            background_compute_alone_ps: executor.background_compute_alone(self.npu).0,
            background_wait_ps: waits(|end| *end == WaitEnd::Compute),
            bubble_ps: waits(|end| matches!(end, WaitEnd::OtherClass(_))),
            classes: self.classes(),
            exposed_ps: exposed.iter().map(|e| e.exposed_ps).sum(),
            drain_ps: self.drained(),
            exposed_by: exposed,
            passes: executor.passes.iter().map(|span| pass_summary(span, report)).collect(),
            steps: cohorts().flat_map(|cohort| cohort.layout.plans()).map(Plan::steps).max().unwrap_or(0),
            chunks: self.outcome.chunks.iter().flatten().sum(),
            network: NetworkSummary {
                link_bytes: each().map(|(l, n)| u128::from(usage.bytes(l).0) * u128::from(n)).sum(),
                injected_bytes: self.outcome.books.accepted * m,
                delivered_bytes: self.outcome.books.delivered * m,
                dropped_bytes: self.outcome.wire.dropped * m,
                resent_bytes: self.outcome.wire.resent * m,
                links,
                mean_link_utilisation: share(busy, u128::from(links) * u128::from(end)),
                packet_hops: usage.packet_hops() * m,
            },
            endpoint: EndpointSummary {
                memory_read_bytes: report.memory_read * m,
                memory_write_bytes: report.memory_written * m,
                loaded_bytes: report.loaded * m,
                sent_bytes: self.outcome.payload * m,
                sent_by_switches_bytes: report.sent_by_switches * m,
                transit_bytes: report.transit * m,
                resources: report
                    .resources
                    .iter()
                    .map(|r| ResourceSummary {
                        resource: r.name.to_string(),
                        servers: r.servers,
                        busy_ps: r.busy * u128::from(m),
                        wait_ps: r.wait * u128::from(m),
                        transfer_ps: r.transfer * u128::from(m),
                        served: r.served * m,
                    })
                    .collect(),
                partitions: report
                    .partitions
                    .iter()
                    .map(|(phase, capacity, peak)| PartitionSummary {
                        phase: phase.clone(),
                        capacity_bytes: *capacity,
                        peak_bytes: *peak,
                    })
                    .collect(),
                fsm_peak: report.fsm_peak,
                fsms: report.fsms,
                phases: self.fsms_of_phases(),
                breakdown: self.breakdown(),
            },
            events: self.outcome.events,
            lower_bound_ps: self.bound.as_ref().map_or(0, |b| b.time.0),
            lower_bound_by: self.bound.as_ref().map_or(String::new(), |b| b.by.clone()),
            offloaded: self.folded.offloaded.clone(),
            warnings: self.folded.remarks.iter().cloned().chain(self.contention()).collect(),
        }
    }

    fn breakdown(&self) -> Breakdown {
        let (report, m) = (&self.outcome.report, self.folded.multiplicity);
        let buses = || report.resources.iter().filter(|r| report.buses.contains(&r.name));
        let over_all = |picoseconds: u128| picoseconds * u128::from(m);
        Breakdown {
            chunks: self.outcome.started.0 * m,
            chunk_queue_ps: over_all(self.outcome.started.1),
            messages: report.messages * m,
            bus_queue_ps: over_all(buses().map(|r| r.wait).sum()),
            bus_transfer_ps: over_all(buses().map(|r| r.transfer).sum()),
            network_ps: over_all(report.network),
        }
    }

    fn fsms_of_phases(&self) -> Vec<PhaseFsmsSummary> {
        let named = |place: (CohortId, PlanId, PhaseId)| {
            let PhaseFsms { fsms, peak, .. } = self.fsms_of(place)?;
            Some(PhaseFsmsSummary { phase: self.phase_name(place.0, place.1, place.2), fsms, fsm_peak: peak })
        };
        self.listed_phases().into_iter().filter_map(named).collect()
    }

    /// A link that had to carry more than it can in the time of the run: the backend ignores contention.
    fn contention(&self) -> Option<String> {
        let (fabric, usage) = (self.simulation.layout().fabric(), self.simulation.network().usage());
        let end = self.outcome.end;
        let finished = self.outcome.collectives.iter().flatten().all(|c| c.completed.is_some());
        let (link, busy) =
            (0..fabric.links()).map(|l| (l, usage.busy(l))).max_by_key(|&(l, busy)| (busy, u32::MAX - l))?;
        let bound = self.bound.as_ref().filter(|bound| bound.time > end);
        if let (true, true, Some(bound)) = (finished, busy <= end, bound) {
            let Bound { time, by } = bound;
            if self.spec.network.model().has_contention() {
                return Some(format!(
                    "the result is {end}, but no schedule takes less than {time} ({by}): the bound or this backend is \
                     wrong, which is worth a report"
                ));
            }
            return Some(format!(
                "this backend ignores contention: the result is {end}, but no schedule takes less than {time} ({by}); \
                 the flow and packet backends share links"
            ));
        }
        if !finished || busy <= end {
            return None;
        }
        let (node, port) = all_links(fabric).nth(link as usize)?;
        Some(format!(
            "this backend ignores contention: {} of {} alone would need {busy} for what it carries, but the result is \
             {end}; the flow and packet backends share links",
            fabric.port_name(node, port),
            fabric.node_name(node),
        ))
    }
}
