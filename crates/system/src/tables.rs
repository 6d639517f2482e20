//! The tables and the summary of a run.
//!
//! What their columns hold is declared in [`crate::facts`].

mod windows;

use crate::bound::Bound;
use crate::driver::{Outcome, PhaseSlice, Simulation};
use crate::endpoints::EndpointEvent;
use crate::executor::{PassSpan, pass_name};
use crate::networks::NetworkEvent;
use crate::results::{
    Breakdown, Column, EndpointSummary, Exposed, NetworkSummary, PartitionSummary, PassSummary, PhaseFsmsSummary,
    ResourceSummary, Results, Summary, Table,
};
use crate::setup::Folded;
use crate::spec::{JobSpec, Spec};
use crate::steady;
use crate::timer::Timer;
use std::collections::BTreeMap;
use syncline_collective::Kind;
use syncline_core::{NodeId, PortId, Ps};
use syncline_endpoint::Endpoint;
use syncline_endpoint::Report;
use syncline_endpoint::api::PhaseFsms;
use syncline_network::Network;
use syncline_topology::all_links;
use syncline_workload::Stream;

/// The results of a finished simulation.
pub fn results<N, E>(spec: &Spec, simulation: &Simulation<N, E>, outcome: Outcome, folded: Folded) -> Results
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    let fabric = simulation.layout().fabric();
    let copies = all_links(fabric).map(|(node, port)| fabric.link_multiplicity(node, port)).collect();
    let view = View { spec, simulation, outcome: &outcome, npu: slowest(simulation), folded, copies };
    let tables = vec![
        view.layers(),
        view.collectives(),
        view.phases(),
        view.links(),
        view.resources(),
        view.windows(),
        view.sram(),
        view.slices(),
    ];
    Results { summary: view.summary(), tables }
}

/// The NPU that computed its last node last; the first of them.
fn slowest<N, E>(simulation: &Simulation<N, E>) -> NodeId
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    let npus = simulation.layout().npus();
    let end = |n: u32| simulation.executor().finished(NodeId(n)).unwrap_or(Ps::ZERO);
    NodeId((0..npus).rev().max_by_key(|&n| end(n)).unwrap_or(0))
}

fn pass_summary(span: &PassSpan, report: &Report) -> PassSummary {
    PassSummary {
        iteration: span.iteration,
        pass: if span.backward { "backward" } else { "forward" },
        from_ps: span.from.0,
        to_ps: span.to.0,
        engine_active_ps: report.occupancy.as_ref().map_or(0, |o| o.active.between(span.from, span.to)),
    }
}

struct View<'a, N: Network, E: Endpoint<N>> {
    spec: &'a Spec,
    simulation: &'a Simulation<N, E>,
    outcome: &'a Outcome,
    npu: NodeId,
    folded: Folded,
    /// Links of the machine for which each simulated one stands.
    copies: Vec<u64>,
}

fn ints<T: Copy>(values: &[T], f: impl Fn(T) -> u64) -> Column {
    wide(values, |v| f(v).into())
}

/// A column of integers of which some may exceed 64 bits: the largest that these hold stands for them.
fn wide<T: Copy>(values: &[T], f: impl Fn(T) -> u128) -> Column {
    Column::Int(values.iter().map(|&v| i64::try_from(f(v)).unwrap_or(i64::MAX)).collect())
}

fn optional_ints<T: Copy>(values: &[T], f: impl Fn(T) -> Option<u64>) -> Column {
    let of = |v| f(v).map(|v| i64::try_from(v).unwrap_or(i64::MAX));
    Column::OptionalInt(values.iter().map(|&v| of(v)).collect())
}

impl<N, E> View<'_, N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    fn layer_name(&self, layer: u32) -> String {
        let layers = self.simulation.executor().source().layers();
        layers.get(layer as usize).map_or_else(|| "collective".to_string(), |l| l.name.clone())
    }

    /// The number of a node of the machine for which a simulated one stands; switches keep their own.
    fn node_number(&self, node: NodeId) -> u32 {
        let layout = self.simulation.layout();
        if node.0 < layout.npus() { layout.whole(node).0 } else { node.0 }
    }

    fn exposed_of(&self, collective: u32) -> u64 {
        let exposures = self.simulation.executor().exposures(self.npu);
        exposures.iter().filter(|e| e.collective == collective).map(|e| (e.to - e.from).0).sum()
    }

    /// How long a training run went on after the last node of the main stream; a collective has nothing but its wait.
    fn drained(&self) -> u64 {
        match self.spec.job {
            JobSpec::Training { .. } => {
                let finished = self.simulation.executor().finished(self.npu);
                self.outcome.end.since(finished.unwrap_or(self.outcome.end)).0
            }
            JobSpec::Collective { .. } => 0,
        }
    }

    fn summary(&self) -> Summary {
        let executor = self.simulation.executor();
        let usage = self.simulation.network().usage();
        let fabric = self.simulation.layout().fabric();
        let each = || (0..fabric.links()).zip(self.copies.iter().copied());
        let links = self.copies.iter().sum();
        let busy: u128 = each().map(|(l, n)| u128::from(usage.busy(l).0) * u128::from(n)).sum();
        let m = self.folded.multiplicity;
        let end = self.outcome.end.0;
        let mut exposed: Vec<Exposed> = Vec::new();
        for e in executor.exposures(self.npu) {
            let node = &executor.nodes()[executor.collectives()[e.collective as usize].node as usize];
            let (layer, pass) = (self.layer_name(node.layer), pass_name(node.pass).to_string());
            let time = (e.to - e.from).0;
            match exposed.iter_mut().find(|x| x.layer == layer && x.pass == pass) {
                Some(x) => x.exposed_ps += time,
                None => exposed.push(Exposed { layer, pass, exposed_ps: time }),
            }
        }
        let report = &self.outcome.report;
        let ends = match self.spec.job {
            JobSpec::Training { .. } => executor.iteration_ends(),
            JobSpec::Collective { .. } => Vec::new(),
        };
        Summary {
            npus: self.folded.npus,
            simulated_npus: fabric.npus(),
            unfolded: self.folded.unfolded.clone(),
            npu: self.simulation.layout().whole(self.npu).0,
            total_ps: end,
            iterations: match self.spec.job {
                JobSpec::Training { iterations, .. } => iterations,
                JobSpec::Collective { .. } => 0,
            },
            iteration_ends_ps: ends.iter().map(|end| end.at.0).collect(),
            steady: steady::steady(&ends),
            compute_ps: executor.compute(self.npu, Stream::Main).0,
            compute_alone_ps: executor.compute_alone(self.npu, Stream::Main).0,
            background_compute_ps: executor.compute(self.npu, Stream::Background).0,
            background_compute_alone_ps: executor.compute_alone(self.npu, Stream::Background).0,
            background_wait_ps: executor.background_waits(self.npu).iter().map(|&(from, to)| (to - from).0).sum(),
            exposed_ps: exposed.iter().map(|e| e.exposed_ps).sum(),
            drain_ps: self.drained(),
            exposed_by: exposed,
            passes: executor.passes.iter().map(|span| pass_summary(span, report)).collect(),
            steps: self.simulation.layout().plans().map(syncline_collective::Plan::steps).max().unwrap_or(0),
            chunks: self.outcome.chunks.iter().sum(),
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
                sent_bytes: (report.sent - report.transit) * m,
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
            lower_bound_ps: self.folded.bound.as_ref().map_or(0, |b| b.time.0),
            lower_bound_by: self.folded.bound.as_ref().map_or(String::new(), |b| b.by.clone()),
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
        let layout = self.simulation.layout();
        let named = |place: (u8, usize)| {
            let PhaseFsms { fsms, peak, .. } = self.fsms_of(place)?;
            Some(PhaseFsmsSummary { phase: layout.phase_name(place.0, place.1), fsms, fsm_peak: peak })
        };
        self.listed_phases().into_iter().filter_map(named).collect()
    }

    fn fsms_of(&self, (plan, phase): (u8, usize)) -> Option<PhaseFsms> {
        let mut all = self.outcome.report.fsms_of_phases.iter();
        all.find(|p| (p.plan, usize::from(p.phase)) == (plan, phase)).copied()
    }

    /// A link that had to carry more than it can in the time of the run: the backend ignores contention.
    fn contention(&self) -> Option<String> {
        let (fabric, usage) = (self.simulation.layout().fabric(), self.simulation.network().usage());
        let end = self.outcome.end;
        let finished = self.outcome.collectives.iter().all(|c| c.completed.is_some());
        let (link, busy) =
            (0..fabric.links()).map(|l| (l, usage.busy(l))).max_by_key(|&(l, busy)| (busy, u32::MAX - l))?;
        let bound = self.folded.bound.as_ref().filter(|bound| bound.time > end);
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

    fn layers(&self) -> Table {
        let executor = self.simulation.executor();
        let layers = executor.source().layers();
        let updates = match &self.spec.job {
            JobSpec::Training { update, .. } => *update,
            JobSpec::Collective { .. } => false,
        };
        // A layer that runs in both streams runs in the main one only to begin with.
        let mut streams = vec![Stream::Main; layers.len()];
        for node in executor.nodes().iter().filter(|n| n.stream == Stream::Background) {
            if let Some(stream) = streams.get_mut(node.layer as usize) {
                *stream = Stream::Background;
            }
        }
        let mut of_layer: Vec<Vec<u32>> = vec![Vec::new(); layers.len()];
        for (id, c) in (0u32..).zip(executor.collectives()) {
            if let Some(ids) = of_layer.get_mut(executor.nodes()[c.node as usize].layer as usize) {
                ids.push(id);
            }
        }
        // Collectives of an iteration of which nothing was issued are not known to the driver.
        let times = |id: &u32| self.outcome.collectives.get(*id as usize).copied().unwrap_or_default();
        let mean = |ids: &Vec<u32>, f: &dyn Fn(&u32) -> Option<u64>| {
            let known: Vec<u64> = ids.iter().filter_map(f).collect();
            known.iter().sum::<u64>().checked_div(known.len() as u64)
        };
        let raw = |id: &u32| Some((times(id).completed? - times(id).issued?).0);
        let queued = |id: &u32| Some((times(id).started? - times(id).issued?).0);
        let all: Vec<_> = layers.iter().zip(&of_layer).collect();
        let timed: Vec<_> = layers.iter().zip(streams).collect();
        Table::new(
            "layers",
            vec![
                ("index", Column::Int((0..all.len() as i64).collect())),
                ("layer", Column::Text(layers.iter().map(|l| l.name.clone()).collect())),
                ("params", ints(&all, |(l, _)| l.params)),
                ("gradient_bytes", ints(&all, |(l, _)| l.gradient.0)),
                ("forward_ps", ints(&timed, |(l, s)| executor.time(s, &l.forward).0)),
                ("input_grad_ps", ints(&timed, |(l, s)| executor.time(s, &l.input_grad).0)),
                ("weight_grad_ps", ints(&timed, |(l, s)| executor.time(s, &l.weight_grad).0)),
                ("update_ps", ints(&timed, |(l, s)| if updates { executor.time(s, &l.update).0 } else { 0 })),
                ("compute_ps", ints(executor.compute_by_layer(self.npu), |busy| busy)),
                ("collectives", ints(&all, |(_, ids)| ids.len() as u64)),
                (
                    "comm_bytes",
                    ints(&all, |(_, ids)| ids.iter().map(|&i| executor.collectives()[i as usize].bytes).sum()),
                ),
                ("raw_latency_ps", optional_ints(&all, |(_, ids)| mean(ids, &raw))),
                ("queue_ps", optional_ints(&all, |(_, ids)| mean(ids, &queued))),
                ("exposed_ps", ints(&all, |(_, ids)| ids.iter().map(|&id| self.exposed_of(id)).sum())),
            ],
        )
    }

    fn collectives(&self) -> Table {
        let executor = self.simulation.executor();
        let ids: Vec<u32> = (0..self.outcome.collectives.len() as u32).collect();
        let node = |id: u32| &executor.nodes()[executor.collectives()[id as usize].node as usize];
        let times = |id: u32| self.outcome.collectives[id as usize];
        let text = |f: &dyn Fn(u32) -> String| Column::Text(ids.iter().map(|&id| f(id)).collect());
        let at = |f: &dyn Fn(u32) -> Option<Ps>| optional_ints(&ids, |id| f(id).map(|t| t.0));
        Table::new(
            "collectives",
            vec![
                ("id", ints(&ids, u64::from)),
                ("layer", text(&|id| self.layer_name(node(id).layer))),
                ("pass", text(&|id| pass_name(node(id).pass).to_string())),
                ("iteration", ints(&ids, |id| node(id).iteration.into())),
                ("kind", text(&|id| executor.collectives()[id as usize].kind.to_string())),
                ("bytes", ints(&ids, |id| executor.collectives()[id as usize].bytes)),
                ("chunks", ints(&ids, |id| self.outcome.chunks[id as usize])),
                ("issued_ps", at(&|id| times(id).issued)),
                ("started_ps", at(&|id| times(id).started)),
                ("completed_ps", at(&|id| times(id).completed)),
                ("exposed_ps", ints(&ids, |id| self.exposed_of(id))),
            ],
        )
    }

    /// The phases that results list, each by its plan.
    fn listed_phases(&self) -> Vec<(u8, usize)> {
        let layout = self.simulation.layout();
        let plans = || (0u8..).zip(layout.plans());
        let mut kinds: Vec<Kind> = plans().map(|(_, p)| p.kind()).collect();
        kinds.dedup(); // plans of a kind follow one another
        // Of each kind of collectives, the plan with the most phases.
        let longest = |kind: &Kind| {
            let of_kind = plans().filter(|(_, p)| p.kind() == *kind);
            of_kind.max_by_key(|(_, p)| p.phases().len()).map_or(0, |(number, _)| number)
        };
        let each = |plan: u8| (0..layout.phases(plan)).map(move |phase| (plan, phase));
        kinds.iter().map(longest).flat_map(each).collect()
    }

    fn phases(&self) -> Table {
        let layout = self.simulation.layout();
        let phases = self.listed_phases();
        let of = |(plan, phase): (u8, usize)| {
            let kind = layout.plan(plan).kind();
            let mine =
                move |s: &&PhaseSlice| s.npu.0 == 0 && usize::from(s.phase) == phase && self.kind(s.collective) == kind;
            self.outcome.phases.iter().filter(mine)
        };
        Table::new(
            "phases",
            vec![
                ("phase", ints(&phases, |(_, p)| p as u64)),
                ("name", Column::Text(phases.iter().map(|&(plan, p)| layout.phase_name(plan, p)).collect())),
                ("dim", ints(&phases, |(plan, p)| layout.plan(plan).phases()[p].dim.into())),
                ("chunks", ints(&phases, |p| of(p).count() as u64)),
                ("queue_ps", ints(&phases, |p| of(p).map(|s| (s.began - s.ready).0).sum())),
                ("active_ps", ints(&phases, |p| of(p).map(|s| (s.ended - s.began).0).sum())),
                ("fsms", ints(&phases, |p| self.fsms_of(p).map_or(0, |f| f.fsms.into()))),
                ("fsm_peak", ints(&phases, |p| self.fsms_of(p).map_or(0, |f| f.peak.into()))),
            ],
        )
    }

    fn kind(&self, collective: u32) -> Kind {
        self.simulation.executor().collectives()[collective as usize].kind
    }

    fn links(&self) -> Table {
        let fabric = self.simulation.layout().fabric();
        let usage = self.simulation.network().usage();
        let links: Vec<(NodeId, PortId)> = all_links(fabric).collect();
        let numbers: Vec<u32> = (0..fabric.links()).collect();
        Table::new(
            "links",
            vec![
                ("node", ints(&links, |(n, _)| self.node_number(n).into())),
                ("copies", Column::Int(self.copies.iter().map(|&n| n as i64).collect())),
                ("port", Column::Text(links.iter().map(|&(n, p)| fabric.port_name(n, p)).collect())),
                ("dim", ints(&numbers, |l| usage.class(l).into())),
                ("bytes", ints(&numbers, |l| usage.bytes(l).0)),
                ("busy_ps", ints(&numbers, |l| usage.busy(l).0)),
            ],
        )
    }

    fn resources(&self) -> Table {
        let resources: Vec<_> = self.outcome.report.resources.iter().collect();
        let m = self.folded.multiplicity;
        Table::new(
            "resources",
            vec![
                ("resource", Column::Text(resources.iter().map(|r| r.name.to_string()).collect())),
                ("servers", ints(&resources, |r| r.servers.into())),
                ("busy_ps", wide(&resources, |r| r.busy * u128::from(m))),
                ("wait_ps", wide(&resources, |r| r.wait * u128::from(m))),
                ("transfer_ps", wide(&resources, |r| r.transfer * u128::from(m))),
                ("served", ints(&resources, |r| r.served * m)),
            ],
        )
    }

    fn slices(&self) -> Table {
        let mut slices = Slices { limit: self.spec.output.trace_limit as usize, ..Slices::default() };
        for &npu in &self.spec.output.trace_npus {
            if let Some(npu) = self.simulation.layout().simulated(NodeId(npu)) {
                self.slices_of(npu, &mut slices);
            }
        }
        let Slices { npu, track, name, start, end, .. } = slices;
        Table::new(
            "slices",
            vec![
                ("npu", Column::Int(npu)),
                ("track", Column::Text(track)),
                ("name", Column::Text(name)),
                ("start_ps", Column::Int(start)),
                ("end_ps", Column::Int(end)),
            ],
        )
    }

    fn slices_of(&self, npu: NodeId, slices: &mut Slices) {
        let executor = self.simulation.executor();
        let end = self.outcome.end;
        let title = |node: u32| {
            let n = &executor.nodes()[node as usize];
            format!("{} {}", self.layer_name(n.layer), pass_name(n.pass))
        };
        for &(_, node, from, to) in executor.slices.iter().filter(|s| s.0 == npu) {
            let track = match executor.nodes()[node as usize].stream {
                Stream::Main => "compute",
                Stream::Background => "background compute",
            };
            slices.push(npu, track.into(), title(node), from, to.min(end));
        }
        for &(from, to) in executor.background_waits(npu) {
            slices.push(npu, "exposed".into(), "waits for background compute".into(), from, to);
        }
        for e in executor.exposures(npu) {
            let node = executor.collectives()[e.collective as usize].node;
            slices.push(npu, "exposed".into(), format!("waits for {}", title(node)), e.from, e.to);
        }
        for (id, times) in self.outcome.collectives.iter().enumerate() {
            if let Some(issued) = times.issued {
                let node = &executor.nodes()[executor.collectives()[id].node as usize];
                let track = format!("collective {}", self.layer_name(node.layer));
                let mut name = format!("{} of iteration {}", executor.collectives()[id].kind, node.iteration);
                if times.completed.is_none() {
                    name += ", in flight at the end";
                }
                slices.push(npu, track, name, issued, times.completed.unwrap_or(end));
            }
        }
        let layout = self.simulation.layout();
        let mut by_phase: BTreeMap<(Kind, u8), Vec<&PhaseSlice>> = BTreeMap::new();
        for s in self.outcome.phases.iter().filter(|s| s.npu == npu) {
            by_phase.entry((self.kind(s.collective), s.phase)).or_default().push(s);
        }
        for ((kind, phase), mut of_phase) in by_phase {
            let plan = (0u8..).zip(layout.plans()).find(|(_, p)| p.kind() == kind).map_or(0, |(number, _)| number);
            of_phase.sort_by_key(|s| (s.began, s.seq));
            let mut free: Vec<Ps> = Vec::new(); // per slot, when it falls free
            for s in of_phase {
                let slot = free.iter().position(|&f| f <= s.began).unwrap_or(free.len());
                free.resize(free.len().max(slot + 1), Ps::ZERO);
                free[slot] = s.ended;
                let name = self
                    .layer_name(executor.nodes()[executor.collectives()[s.collective as usize].node as usize].layer);
                let track = format!("phase {phase} {} slot {slot:02}", layout.phase_name(plan, usize::from(phase)));
                slices.push(npu, track, format!("{name} chunk {}", s.seq), s.began, s.ended);
            }
        }
    }
}

#[derive(Default)]
struct Slices {
    limit: usize,
    npu: Vec<i64>,
    track: Vec<String>,
    name: Vec<String>,
    start: Vec<i64>,
    end: Vec<i64>,
}

impl Slices {
    fn push(&mut self, npu: NodeId, track: String, name: String, start: Ps, end: Ps) {
        if self.npu.len() < self.limit {
            self.npu.push(npu.0.into());
            self.track.push(track);
            self.name.push(name);
            self.start.push(start.0 as i64);
            self.end.push(end.0 as i64);
        }
    }
}

fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
