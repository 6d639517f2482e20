//! From a description to a running simulation, and to its results.

use crate::admission::{Chunking, LaneUse, Policy};
use crate::bound::{Bound, Task, lower_bound};
use crate::driver::{CollectiveConfig, Simulation};
use crate::event::{Queue, Timer};
use crate::executor::Executor;
use crate::fold::{Folding, fold};
use crate::place::{Machine, Placement, kind};
use crate::results::Results;
use crate::spec::{
    AceSpec, ChunkingSpec, DeadlockRule, EndpointSpec, FoldSpec, JobSpec, KernelsSpec, LanesSpec, NetworkSpec,
    SchedulingSpec, Spec, WorkloadSpec,
};
use crate::tables;
use std::fmt;
use std::sync::Arc;
use syncline_collective::{Kind, Plan};
use syncline_core::{Bytes, Clock, EventQueue, NodeId, Ps, Rate};
use syncline_endpoint::{Ace, AceConfig, Baseline, BaselineConfig, Endpoint, Ideal, Layout, MessageEndpoint};
use syncline_network::{Analytical, Network, packet};
use syncline_topology::{Fabric, all_links};
use syncline_workload::compute::Npu;
use syncline_workload::data_parallel::DataParallel;
use syncline_workload::graph::{GraphSource, Node, Pass, Work};
use syncline_workload::{Cost, Counted, Layer, astra_text, models};

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The description is not a legal simulation.
    Spec(String),
    /// The simulation failed: it stalled or lost bytes.
    Simulation(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Spec(message) | RunError::Simulation(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for RunError {}

pub(crate) fn illegal(what: impl fmt::Display) -> RunError {
    RunError::Spec(what.to_string())
}

/// Runs the simulation that a JSON document describes (see [`crate::spec`]).
///
/// # Errors
/// [`RunError::Spec`] if it does not describe one, [`RunError::Simulation`] if it fails.
pub fn run(spec_json: &str) -> Result<Results, RunError> {
    run_spec(&serde_json::from_str(spec_json).map_err(illegal)?, None)
}

/// Builds everything that a simulation needs and stops before its first event.
///
/// # Errors
/// [`RunError::Spec`] if the document does not describe a simulation that can be run.
pub fn check(spec_json: &str) -> Result<(), RunError> {
    build(&serde_json::from_str(spec_json).map_err(illegal)?, Goal::Check).map(|_| ())
}

/// What is done with a simulation that has been built.
#[derive(Clone, Copy)]
enum Goal {
    /// Nothing.
    Check,
    /// It is run, with ties shuffled if there is a seed.
    Run(Option<u64>),
}

/// Runs a simulation. With `shuffle`, simultaneous events of equal key are shuffled by that seed, which
/// must not change anything.
///
/// # Errors
/// As [`run`].
pub fn run_spec(spec: &Spec, shuffle: Option<u64>) -> Result<Results, RunError> {
    let results = build(spec, Goal::Run(shuffle))?;
    Ok(results.expect("a run that does not fail has results"))
}

fn build(spec: &Spec, goal: Goal) -> Result<Option<Results>, RunError> {
    let plan = RunPlan::new(spec)?;
    let window = Ps(spec.output.window_ps);
    match spec.network {
        NetworkSpec::Analytical {} => {
            let net = Analytical::new(plan.fabric.clone(), window);
            with_network(spec, plan, net, goal)
        }
        NetworkSpec::Packet { packet_bytes, buffer_packets, deadlock_rule, trains } => {
            let rule = match deadlock_rule {
                DeadlockRule::Bubble => packet::DeadlockRule::Bubble,
                DeadlockRule::Dateline => packet::DeadlockRule::Dateline,
                DeadlockRule::None => packet::DeadlockRule::None,
            };
            let packet = Bytes(packet_bytes.into());
            let at_least = input_buffer(spec, &plan, packet)?;
            let channels = if rule == packet::DeadlockRule::Dateline { 2 } else { 1 };
            let needed = at_least.saturating_mul(channels);
            if let Some(buffer) = buffer_packets.filter(|&b| b < needed) {
                return Err(illegal(format!(
                    "network.buffer_packets: {buffer} packets per input buffer, which chunks that wait inside an \
                     ACE could fill; accepted: {needed} or more"
                )));
            }
            let config = packet::PacketConfig { packet, buffer: buffer_packets, at_least, rule, trains, window };
            let net = packet::Packet::new(plan.fabric.clone(), config).map_err(illegal)?;
            with_network(spec, plan, net, goal)
        }
    }
}

/// The packets that the endpoint needs every input buffer to hold.
fn input_buffer(spec: &Spec, plan: &RunPlan, packet: Bytes) -> Result<u32, RunError> {
    match &spec.endpoint {
        EndpointSpec::Ace(ace) => Ok(Ace::input_buffer(&plan.layout, &ace_config(ace)?, packet, plan.largest_chunk())),
        EndpointSpec::Ideal { .. } | EndpointSpec::Baseline { .. } => Ok(0),
    }
}

/// How a run was folded.
#[derive(Clone, Debug)]
pub struct Folded {
    /// NPUs of the machine.
    pub npus: u32,
    /// NPUs for which each simulated NPU that takes part stands.
    pub multiplicity: u64,
    /// Why it was not folded, if it was not.
    pub unfolded: Option<String>,
    /// What people should know of how the run was set up.
    pub remarks: Vec<String>,
    /// What no schedule of a single collective can beat.
    pub bound: Option<Bound>,
}

/// What is to be run, independent of network and endpoint.
struct Job {
    source: Box<dyn GraphSource + Send>,
    iterations: u32,
    drain: bool,
    npu: Npu,
    kinds: Vec<Kind>,
    root: u32,
    /// The largest collective, and all collectives of an iteration.
    largest: Bytes,
    /// Sizes of all collectives.
    sizes: Vec<u64>,
    total: Bytes,
    collectives: usize,
    /// Compute of an iteration.
    compute_ps: f64,
}

fn job(spec: &Spec) -> Result<Job, RunError> {
    match &spec.job {
        JobSpec::Collective { collective, bytes, root } => {
            let (kind, root) = (kind(*collective), *root);
            let source = Box::new(Single { kind, size: Bytes(*bytes), layers: Vec::new() });
            let npu = Npu::new(1.0, 1.0, 1.0).map_err(illegal)?;
            let (kinds, largest, total, sizes) = (vec![kind], Bytes(*bytes), Bytes(*bytes), vec![*bytes]);
            let (collectives, compute_ps) = (1, 0.0);
            Ok(Job {
                source,
                iterations: 1,
                drain: true,
                npu,
                kinds,
                root,
                largest,
                sizes,
                total,
                collectives,
                compute_ps,
            })
        }
        JobSpec::Training { workload, iterations, overlap, drain, update, compute } => {
            let mut layers = layers(workload)?;
            if !update {
                layers.iter_mut().for_each(|l| l.update = Cost::NOTHING);
            }
            let npu = Npu::new(compute.flops_per_s, compute.memory_bytes_per_s, compute.scale).map_err(illegal)?;
            let sizes: Vec<u64> = layers.iter().map(|l| l.gradient.0).collect();
            let total = Bytes(sizes.iter().copied().fold(0, u64::saturating_add));
            let sizes = if *overlap { sizes } else { vec![total.0] };
            let largest = Bytes(sizes.iter().copied().max().unwrap_or(0));
            let passes = layers.iter().flat_map(|l| [&l.forward, &l.input_grad, &l.weight_grad, &l.update]);
            let compute_ps = passes.map(|cost| npu.time(cost).0 as f64).sum();
            let (collectives, kinds) = (layers.len(), vec![Kind::AllReduce]);
            let source = Box::new(DataParallel::new(layers, *overlap));
            let (iterations, drain) = (*iterations, *drain);
            Ok(Job { source, iterations, drain, npu, kinds, root: 0, largest, sizes, total, collectives, compute_ps })
        }
    }
}

fn layers(workload: &WorkloadSpec) -> Result<Vec<Layer>, RunError> {
    match workload {
        WorkloadSpec::Model { name, batch, element_bytes, kernels } => {
            let counted = match kernels {
                KernelsSpec::All => Counted::All,
                KernelsSpec::Weighted => Counted::Weighted,
            };
            models::build(name, *batch, *element_bytes, counted).map_err(illegal)
        }
        WorkloadSpec::AstraText { text } => astra_text::parse(text).map_err(illegal),
    }
}

impl Job {
    /// Whether all blocks of all its chunks are of equal length on all ranks; if not, why.
    fn is_even(&self, placement: &Placement, config: &CollectiveConfig) -> Result<(), String> {
        for plan in &placement.plans {
            let unit = plan.equal_blocks().saturating_mul(config.split.element.into());
            for &bytes in &self.sizes {
                let pieces = config.pieces(plan, Bytes(bytes));
                // Pieces get shorter along a chunk and along the collective: if the first and last of both are
                // multiples, and so of equal length, the others are.
                let count = pieces.count();
                let probes = [0, count.saturating_sub(u64::from(config.parts())), count.saturating_sub(1)];
                let lens = probes.into_iter().filter(|&i| i < count).map(|i| pieces.piece(i).0);
                if let Some(len) = lens.into_iter().find(|len| len % unit != 0) {
                    return Err(format!(
                        "blocks are of unequal length: a chunk of {len} B is no multiple of {unit} B, and padding is off"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// A graph of a single collective.
struct Single {
    kind: Kind,
    size: Bytes,
    layers: Vec<Layer>,
}

impl GraphSource for Single {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn iteration(&mut self, _: u32) -> Vec<Node> {
        let work = Work::Collective { kind: self.kind, size: self.size };
        vec![Node { layer: 0, pass: Pass::WeightGrad, work, after: Vec::new() }]
    }
}

/// What is to be run, where, and how its collectives are laid out.
struct RunPlan {
    fabric: Arc<dyn Fabric>,
    job: Job,
    layout: Layout,
    config: CollectiveConfig,
    folding: Folded,
}

impl RunPlan {
    fn new(spec: &Spec) -> Result<RunPlan, RunError> {
        let machine = Machine::new(spec)?;
        if spec.output.window_ps == 0 {
            return Err(illegal("output.window_ps: a window needs a length"));
        }
        let c = &spec.collectives;
        if c.element_bytes == 0 || c.inflight == 0 {
            return Err(illegal("collectives: element_bytes and inflight must be positive"));
        }
        let job = job(spec)?;
        let fabric = machine.fabric();
        let mut placement = Placement::new(spec, &machine, &job.kinds, job.root)?;
        let split = placement.split;
        let mut config = CollectiveConfig {
            policy: if c.scheduling == SchedulingSpec::Lifo { Policy::Lifo } else { Policy::Fifo },
            chunking: chunking(c.chunking)?,
            lanes: if c.lanes == LanesSpec::Split { LaneUse::Split(placement.lanes()) } else { LaneUse::Alternate },
            split,
            padding: c.padding,
            drain: job.drain,
        };
        let mut remarks = Vec::new();
        if let ChunkingSpec::Size { bytes, least_block_bytes } = c.chunking {
            config.chunking = Chunking::Size(grown(spec, &placement, &job, (bytes, least_block_bytes), &mut remarks));
        }
        check_span(spec, &*fabric, &placement, &job, &config)?;
        let bound = match spec.job {
            JobSpec::Collective { bytes, root, collective } => {
                let task = Task { kind: kind(collective), bytes, root };
                let grid = spec.groups.as_ref().and_then(|g| g.grid.as_deref());
                Some(lower_bound(&machine, placement.space.groups.as_deref(), grid, task))
            }
            JobSpec::Training { .. } => None,
        };
        let even = job.is_even(&placement, &config);
        let (fabric, multiplicity, unfolded) = match fold(spec, &machine, &mut placement, even) {
            Folding::Folded(fabric, multiplicity) => (fabric, multiplicity, None),
            Folding::Unfolded(reason) if spec.fold == FoldSpec::On => {
                return Err(illegal(format!("fold: the run cannot be folded: {reason}; accepted: auto, off")));
            }
            Folding::Unfolded(reason) => (fabric, 1, Some(reason)),
        };
        let npus = machine.fabric().npus();
        let folding = Folded { npus, multiplicity, unfolded, remarks, bound };
        let layout = placement.layout(fabric.clone());
        Ok(RunPlan { fabric, job, layout, config, folding })
    }

    /// No chunk of the run is larger.
    fn largest_chunk(&self) -> Bytes {
        match self.config.chunking {
            Chunking::Size(bytes) => self.job.largest.min(Bytes(bytes)),
            Chunking::Count(n) => {
                let element = u64::from(self.config.split.element);
                Bytes(self.job.largest.0.div_ceil(u64::from(n)).next_multiple_of(element))
            }
        }
    }
}

/// Refuses runs that could outlast simulated time (2^63 ps are 106 days), by a bound that no run
/// exceeds: every byte through the slowest server four times per phase and one after the other,
/// every step of every chunk waiting for the longest link.
fn check_span(
    spec: &Spec,
    fabric: &dyn Fabric,
    placement: &Placement,
    job: &Job,
    config: &CollectiveConfig,
) -> Result<(), RunError> {
    const SPAN: f64 = (1u64 << 63) as f64;
    let links = || all_links(fabric).map(|(node, port)| fabric.link(node, port));
    let mut slowest = links().map(|l| l.rate.bytes_per_s()).min().unwrap_or(u64::MAX);
    match &spec.endpoint {
        EndpointSpec::Ideal { .. } => {}
        EndpointSpec::Baseline { memory_bytes_per_s: m, sm_bytes_per_s: s, bus_bytes_per_s: b, .. } => {
            slowest = slowest.min(*m).min(*s).min(*b);
        }
        EndpointSpec::Ace(ace) => slowest = slowest.min(ace.memory_bytes_per_s).min(ace.bus_bytes_per_s),
    }
    let phases = placement.plans.iter().map(|p| p.phases().len()).max().unwrap_or(0) as f64;
    let steps = placement.plans.iter().map(|p| f64::from(p.steps())).fold(0.0, f64::max);
    let latency = links().map(|l| l.latency.0).max().unwrap_or(0) as f64;
    let bytes = job.total.0 as f64 * f64::from(job.iterations);
    let chunks = match config.chunking {
        Chunking::Size(size) => bytes / size as f64 + f64::from(job.iterations) * job.collectives as f64,
        Chunking::Count(n) => f64::from(n) * f64::from(job.iterations) * job.collectives as f64,
    };
    let compute = job.compute_ps * f64::from(job.iterations);
    let carried = bytes * phases * 2.0 * f64::from(fabric.npus());
    if carried >= SPAN {
        return Err(illegal(format!("the run may move {carried:.2e} bytes; accepted: up to 9.2e18 over all NPUs")));
    }
    let most = bytes * 4.0 * phases * 1e12 / slowest.max(1) as f64 + chunks * steps * latency + compute;
    if most < SPAN {
        return Ok(());
    }
    let days = most / 1e12 / 86_400.0;
    Err(illegal(format!("the run may take {days:.0} days of simulated time; accepted: up to 106 days")))
}

/// Bytes of a chunk: `bytes`, or more where a block of some phase would be smaller than `least`; but no
/// more than the largest collective has, or than the SRAM of an ACE can take.
fn grown(spec: &Spec, placement: &Placement, job: &Job, (bytes, least): (u64, u64), remarks: &mut Vec<String>) -> u64 {
    let finest = placement.plans.iter().map(Plan::finest).max().unwrap_or(1);
    let wanted = least.saturating_mul(finest).min(job.largest.0).max(bytes);
    if wanted == bytes {
        return bytes;
    }
    let (plans, split) = (&placement.plans, placement.split);
    let fits = |chunk: u64| match &spec.endpoint {
        EndpointSpec::Ace(ace) => Ace::sram_needed(plans.iter(), split, Bytes(chunk)) <= ace.sram_bytes,
        EndpointSpec::Ideal { .. } | EndpointSpec::Baseline { .. } => true,
    };
    let unit = plans.iter().map(Plan::equal_blocks).max().unwrap_or(1).saturating_mul(split.element.into());
    let (mut low, mut high) = (bytes / unit, wanted / unit); // in units; `low` is taken if nothing fits
    if fits(wanted) {
        low = high;
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if fits(middle * unit) { low = middle } else { high = middle }
    }
    let chunk = (low * unit).max(bytes);
    let block = chunk / finest;
    let why = format!(
        "chunks of {chunk} B instead of {bytes} B, so that steps carry {block} B instead of {} B",
        bytes / finest
    );
    remarks.push(match chunk < wanted / unit * unit {
        true => format!("{why}; the SRAM has no room for steps of {least} B"),
        false => why,
    });
    chunk
}

fn with_network<N>(spec: &Spec, plan: RunPlan, net: N, goal: Goal) -> Result<Option<Results>, RunError>
where
    N: Network,
    N::Event: Timer,
{
    let chunk = plan.largest_chunk();
    let RunPlan { job, layout, config, folding, .. } = plan;
    let npus = layout.npus();
    let window = Ps(spec.output.window_ps);
    let traced = traced(&spec.output.trace_npus, &layout, folding.npus)?;
    let executor = Executor::new(job.source, job.iterations, job.npu, npus, window, &traced);
    let inflight = match config.lanes {
        LaneUse::Split(n) => spec.collectives.inflight.saturating_mul(n),
        LaneUse::Alternate => spec.collectives.inflight,
    };
    let run = Run { spec, net, executor, layout: layout.clone(), config, folding, goal };
    match &spec.endpoint {
        EndpointSpec::Ideal { step_latency_ps } => {
            let cost = Ideal { step: Ps(*step_latency_ps) };
            run.with(MessageEndpoint::new(layout, cost, inflight, &traced))
        }
        EndpointSpec::Baseline { memory_bytes_per_s, sm_bytes_per_s, bus_bytes_per_s, charge_writes } => {
            let config = BaselineConfig {
                memory: rate("endpoint.memory_bytes_per_s", *memory_bytes_per_s)?,
                sms: rate("endpoint.sm_bytes_per_s", *sm_bytes_per_s)?,
                bus: rate("endpoint.bus_bytes_per_s", *bus_bytes_per_s)?,
                charge_writes: *charge_writes,
            };
            run.with(MessageEndpoint::new(layout, Baseline::new(config, npus), inflight, &traced))
        }
        EndpointSpec::Ace(ace) => {
            let packet = run.net.packet_size();
            let ace = Ace::new(layout, ace_config(ace)?, packet, chunk, window, &traced).map_err(illegal)?;
            run.with(ace)
        }
    }
}

fn chunking(spec: ChunkingSpec) -> Result<Chunking, RunError> {
    match spec {
        ChunkingSpec::Size { bytes: 0, .. } | ChunkingSpec::Count { chunks: 0 } => {
            Err(illegal("collectives.chunking: a chunk needs bytes, a collective chunks"))
        }
        ChunkingSpec::Size { bytes, .. } => Ok(Chunking::Size(bytes)),
        ChunkingSpec::Count { chunks } => Ok(Chunking::Count(chunks)),
    }
}

/// The simulated NPUs whose slices are recorded, of a machine of `npus` NPUs.
fn traced(numbers: &[u32], layout: &Layout, npus: u32) -> Result<Vec<NodeId>, RunError> {
    if let Some(n) = numbers.iter().find(|&&n| n >= npus) {
        return Err(illegal(format!("output.trace_npus: there is no NPU {n}; accepted: 0 to {}", npus - 1)));
    }
    let mut traced: Vec<NodeId> = numbers.iter().filter_map(|&n| layout.simulated(NodeId(n))).collect();
    traced.push(NodeId(0)); // the phases table is the first NPU's
    traced.sort_unstable();
    traced.dedup();
    Ok(traced)
}

fn rate(field: &str, bytes_per_s: u64) -> Result<Rate, RunError> {
    Rate::new(bytes_per_s).ok_or_else(|| illegal(format!("{field}: must be positive")))
}

fn ace_config(ace: &AceSpec) -> Result<AceConfig, RunError> {
    let positive = |field: &str, value: u32| match value {
        0 => Err(illegal(format!("endpoint.{field}: must be positive"))),
        n => Ok(n),
    };
    Ok(AceConfig {
        memory: rate("endpoint.memory_bytes_per_s", ace.memory_bytes_per_s)?,
        bus: rate("endpoint.bus_bytes_per_s", ace.bus_bytes_per_s)?,
        charge_writes: ace.charge_writes,
        clock: Clock::new(ace.clock_hz).ok_or_else(|| illegal("endpoint.clock_hz: must be positive"))?,
        sram: Bytes(ace.sram_bytes),
        banks: positive("sram_banks", ace.sram_banks)?,
        port_bytes: positive("port_bytes_per_cycle", ace.port_bytes_per_cycle)?,
        alus: positive("alus", ace.alus)?,
        fsms: positive("fsms", ace.fsms)?,
        message: Bytes(positive("message_bytes", ace.message_bytes)?.into()),
        port_buffer: Bytes(ace.port_buffer_bytes),
    })
}

/// A simulation that lacks only its endpoint.
struct Run<'a, N> {
    spec: &'a Spec,
    net: N,
    executor: Executor,
    layout: Layout,
    config: CollectiveConfig,
    folding: Folded,
    goal: Goal,
}

impl<N> Run<'_, N>
where
    N: Network,
    N::Event: Timer,
{
    fn with<E>(self, ep: E) -> Result<Option<Results>, RunError>
    where
        E: Endpoint<N>,
        E::Event: Timer,
    {
        let Goal::Run(shuffle) = self.goal else { return Ok(None) };
        let queue = Queue(shuffle.map_or_else(EventQueue::new, EventQueue::shuffling));
        let mut simulation = Simulation::new(queue, self.net, ep, self.executor, self.layout, self.config);
        let outcome = simulation.run().map_err(|failure| RunError::Simulation(failure.to_string()))?;
        Ok(Some(tables::results(self.spec, &simulation, outcome, self.folding)))
    }
}
