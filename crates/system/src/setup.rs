//! A run before its network and endpoints: what is run, where, how its collectives are laid out, and
//! whether it is folded.

use crate::admission::Policy;
use crate::bound::{Bound, Task, lower_bound};
use crate::build::baseline_config;
use crate::contention::{self, Contention};
use crate::driver::CollectiveConfig;
use crate::errors::{RunError, illegal};
use crate::fold::{Folding, fold};
use crate::job::{Job, job};
use crate::pieces::{Chunking, LaneUse};
use crate::place::{Machine, Placement, kind};
use crate::spec::{
    BusSpec, ChunkingSpec, EndpointSpec, FoldSpec, JobSpec, LanesSpec, NetworkSpec, SchedulingSpec, Spec,
};
use serde::Serialize;
use std::sync::Arc;
use syncline_collective::{Kind, Plan, Slot};
use syncline_core::{Bytes, NodeId};
use syncline_endpoint::{Ace, Chunk, Layout};
use syncline_topology::{Fabric, all_links};

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
    /// Of switch offload: what is done in switches, and what is left to the NPUs.
    pub offloaded: Option<String>,
    /// What no schedule of a single collective can beat.
    pub bound: Option<Bound>,
}

/// What is to be run, where, and how its collectives are laid out.
pub struct RunPlan {
    /// What is simulated: the machine, or its quotient.
    pub fabric: Arc<dyn Fabric>,
    /// What is run.
    pub job: Job,
    /// Where its collectives lead.
    pub layout: Layout,
    /// How they are carried out.
    pub config: CollectiveConfig,
    /// Whether the endpoints forward what is for distant NPUs.
    pub transit: bool,
    /// How communication and compute share an NPU, unless the split is fixed.
    pub contention: Option<Contention>,
    /// What became of the machine.
    pub folding: Folded,
}

impl RunPlan {
    /// Sets a run up.
    ///
    /// # Errors
    /// [`RunError::Spec`] if the description is not a legal run.
    pub fn new(spec: &Spec) -> Result<RunPlan, RunError> {
        RunPlan::with(spec, |ranks| job(spec, ranks))
    }

    /// Sets up a run of a job that is made for groups of so many NPUs, instead of the described one.
    ///
    /// # Errors
    /// [`RunError::Spec`] if that is not a legal run.
    pub fn with(spec: &Spec, job: impl FnOnce(u32) -> Result<Job, RunError>) -> Result<RunPlan, RunError> {
        let machine = Machine::new(spec)?;
        let transit = machine.transit(spec)?;
        if spec.output.window_ps == 0 {
            return Err(illegal("output.window_ps: a window needs a length"));
        }
        let c = &spec.collectives;
        if c.element_bytes == 0 || c.inflight == 0 {
            return Err(illegal("collectives: element_bytes and inflight must be positive"));
        }
        let fabric = machine.fabric();
        let ranks = spec.groups.as_ref().and_then(|g| g.members.first()).map_or(fabric.npus(), |g| g.len() as u32);
        let job = job(ranks)?;
        let mut placement = Placement::new(spec, &machine, &job)?;
        let split = placement.split;
        let mut config = CollectiveConfig {
            policy: if c.scheduling == SchedulingSpec::Lifo { Policy::Lifo } else { Policy::Fifo },
            priority: c.priority.iter().copied().map(kind).collect(),
            chunking: chunking(c.chunking)?,
            lanes: if c.lanes == LanesSpec::Split { LaneUse::Split(placement.lanes()) } else { LaneUse::Alternate },
            split,
            padding: c.padding,
            balance: placement.balance.clone(),
            drain: job.drain,
        };
        let mut remarks = Vec::new();
        let pools = if transit { fabric.ports(NodeId(0)).into() } else { 0 };
        if let ChunkingSpec::Size { bytes, least_block_bytes } = c.chunking {
            let fits = |chunk: u64| sram_holds(spec, &placement, chunk, pools);
            let bytes = grown(&placement, &job, (bytes, least_block_bytes), fits, &mut remarks);
            config.chunking = Chunking::Size(bytes);
            if !fits(job.largest_piece(placement.plans.iter(), &config)) {
                config.chunking = Chunking::AtMost(bytes);
            }
        }
        let passes = if transit { machine.diameter() } else { 1 };
        let contention = contention::of(spec)?;
        check_span(spec, &*fabric, &placement, (&job, &config), contention.as_ref(), passes)?;
        let bound = match spec.job {
            JobSpec::Collective { bytes, root, collective, .. } => {
                let task = Task { kind: kind(collective), bytes, root };
                let grid = spec.groups.as_ref().and_then(|g| g.grid.as_deref());
                let switches_add = matches!(spec.endpoint, EndpointSpec::SwitchOffload(_));
                Some(lower_bound(&machine, placement.space.groups.as_deref(), grid, switches_add, task))
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
        let offloaded =
            matches!(spec.endpoint, EndpointSpec::SwitchOffload(_)).then(|| crate::offload::said(&placement.plans));
        let folding = Folded { npus, multiplicity, unfolded, remarks, offloaded, bound };
        let layout = placement.layout(fabric.clone());
        Ok(RunPlan { fabric, job, layout, config, transit, contention, folding })
    }

    /// No chunk of the run is larger.
    pub fn largest_chunk(&self) -> Bytes {
        Bytes(self.job.largest_piece(self.layout.plans(), &self.config))
    }
}

/// Refuses runs that could outlast simulated time (2^63 ps are 106 days), by a bound that no run
/// exceeds: every byte through the slowest server four times per phase, in each of the `passes` endpoints that it passes,
/// and one after the other, every step of every chunk waiting for the longest link.
fn check_span(
    spec: &Spec,
    fabric: &dyn Fabric,
    placement: &Placement,
    (job, config): (&Job, &CollectiveConfig),
    contention: Option<&Contention>,
    passes: u32,
) -> Result<(), RunError> {
    const SPAN: f64 = (1u64 << 63) as f64;
    let links = || all_links(fabric).map(|(node, port)| fabric.link(node, port));
    let mut stretched = 1.0;
    let mut slowest = links().map(|l| l.rate.bytes_per_s()).min().unwrap_or(u64::MAX);
    let buses = match &spec.endpoint {
        EndpointSpec::Ideal { .. } => BusSpec::Rate,
        EndpointSpec::Baseline { memory_bytes_per_s: m, sm_bytes_per_s: s, bus_bytes_per_s: b, buses, .. } => {
            slowest = slowest.min(*m).min(*s).min(*b);
            if let Some(contention) = contention {
                let (rate, stretch) = contention.at_worst(baseline_config([*m, *s, *b], false)?);
                slowest = slowest.min(rate as u64);
                stretched = stretch;
            }
            *buses
        }
        EndpointSpec::Ace(ace) => {
            slowest = slowest.min(ace.memory_bytes_per_s).min(ace.bus_bytes_per_s);
            ace.buses
        }
        EndpointSpec::SwitchOffload(o) => {
            slowest = slowest.min(o.memory_bytes_per_s).min(o.bus_bytes_per_s);
            slowest = slowest.min(o.switch_reduce_bytes_per_s.unwrap_or(u64::MAX));
            slowest = slowest.min(if o.sm_bytes_per_s > 0 { o.sm_bytes_per_s } else { u64::MAX });
            BusSpec::Rate
        }
    };
    // Every step crosses buses five times at most.
    let (per_step, per_byte) = match buses {
        BusSpec::Rate => (0.0, 0.0),
        BusSpec::Loggp { latency_ps, overhead_ps, gap_ps, message_bytes } => {
            let apart = overhead_ps.max(gap_ps) as f64;
            let message = 5.0 * (latency_ps as f64 + 2.0 * overhead_ps as f64 + apart);
            (message, message_bytes.map_or(0.0, |n| 5.0 * apart / n.max(1) as f64))
        }
    };
    let phases = placement.plans.iter().map(|p| p.phases().len()).max().unwrap_or(0) as f64;
    let steps = placement.plans.iter().map(|p| f64::from(p.steps())).fold(0.0, f64::max);
    let mut latency = links().map(|l| l.latency.0).max().unwrap_or(0) as f64;
    if let EndpointSpec::SwitchOffload(o) = &spec.endpoint {
        latency += o.switch_latency_ps as f64;
    }
    let bytes = job.total() as f64 * f64::from(job.iterations);
    let collectives = f64::from(job.iterations) * job.collectives.len() as f64;
    let chunks = match config.chunking {
        Chunking::Size(size) | Chunking::AtMost(size) => bytes / size as f64 + collectives,
        Chunking::Count(n) => f64::from(n) * collectives,
    };
    let compute = job.compute_ps * f64::from(job.iterations) * stretched;
    let carried = bytes * f64::from(passes) * phases * 2.0 * f64::from(fabric.npus());
    if carried >= SPAN {
        return Err(illegal(format!("the run may move {carried:.2e} bytes; accepted: up to 9.2e18 over all NPUs")));
    }
    let on_wires = bytes * f64::from(passes) * 4.0 * phases * (1e12 / slowest.max(1) as f64 + per_byte);
    let most = on_wires + chunks * steps * (latency + f64::from(passes) * per_step) + compute;
    if most < SPAN {
        return Ok(());
    }
    let days = most / 1e12 / 86_400.0;
    Err(illegal(format!("the run may take {days:.0} days of simulated time; accepted: up to 106 days")))
}

/// Whether an ACE of so many transit pools has SRAM for chunks of `chunk` bytes; other endpoints have room for any.
fn sram_holds(spec: &Spec, placement: &Placement, chunk: u64, pools: u32) -> bool {
    let EndpointSpec::Ace(ace) = &spec.endpoint else { return true };
    let packet = match spec.network {
        NetworkSpec::Packet { packet_bytes, .. } => packet_bytes.min(ace.message_bytes),
        NetworkSpec::Analytical {} | NetworkSpec::Flow {} => ace.message_bytes,
    };
    Ace::sram_needed(&placement.plans, placement.split, Bytes(chunk), packet, pools) <= ace.sram_bytes
}

/// Bytes of a chunk: `bytes`, or more where a block of some phase would be smaller than `least`; but no
/// more than the largest collective has, padded, or than the endpoints have room for.
fn grown(
    placement: &Placement,
    job: &Job,
    (bytes, least): (u64, u64),
    fits: impl Fn(u64) -> bool,
    remarks: &mut Vec<String>,
) -> u64 {
    let finest = placement.plans.iter().map(Plan::finest).max().unwrap_or(1);
    let largest = job.kinds.iter().map(|&kind| job.largest(kind)).max().unwrap_or(0);
    let wanted = least.saturating_mul(finest).min(largest).max(bytes);
    if wanted == bytes {
        return bytes;
    }
    let blocks = placement.plans.iter().map(Plan::equal_blocks).max().unwrap_or(1);
    let unit = blocks.saturating_mul(placement.split.element.into());
    let (mut low, mut high) = (bytes / unit, wanted.div_ceil(unit)); // in units; `low` is taken if nothing fits
    if fits(high * unit) {
        low = high;
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if fits(middle * unit) { low = middle } else { high = middle }
    }
    let chunk = (low * unit).max(bytes);
    let block = chunk / finest;
    let why = format!(
        "chunks of up to {chunk} B instead of {bytes} B, so that steps carry {block} B instead of {} B",
        bytes / finest
    );
    remarks.push(match chunk < wanted {
        true => format!("{why}; the SRAM has no room for steps of {least} B"),
        false => why,
    });
    chunk
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

/// What a run will do, known before its first event; counts are those of the first NPU that takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// NPUs of the machine.
    pub npus: u32,
    /// NPUs that will be simulated.
    pub simulated_npus: u32,
    /// Why the run will not be folded, if it will not.
    pub unfolded: Option<String>,
    /// Rounds of messages of a chunk.
    pub steps: u32,
    /// Chunks of all collectives.
    pub chunks: u64,
    /// Messages sent.
    pub messages_per_npu: u64,
    /// Bytes sent.
    pub bytes_sent_per_npu: u64,
    /// Bytes of all all-reduces of an iteration: in training, the gradients that an NPU holds.
    pub gradient_bytes: u64,
    /// What no schedule of a single collective can beat.
    pub lower_bound_ps: u64,
    /// Of switch offload: what is done in switches, and what is left to the NPUs.
    pub offloaded: Option<String>,
    /// Remarks for people.
    pub warnings: Vec<String>,
}

impl RunPlan {
    /// Looks ahead.
    pub fn preview(&self) -> Preview {
        let layout = &self.layout;
        let npu = layout.first();
        let (mut chunks, mut messages, mut bytes) = (0, 0, 0u64);
        for (plan, number) in layout.plans().zip(0u8..) {
            for size in self.job.sizes(plan.kind()) {
                for (len, count) in self.config.pieces(plan, Bytes(size)).runs() {
                    let (sends, sent) = self.sends(npu, Chunk { len: Bytes(len), plan: number, lane: 0 });
                    chunks += count;
                    messages += sends * count;
                    bytes = bytes.saturating_add(sent.saturating_mul(count));
                }
            }
        }
        let times = u64::from(self.job.iterations);
        Preview {
            npus: self.folding.npus,
            simulated_npus: layout.npus(),
            unfolded: self.folding.unfolded.clone(),
            steps: layout.plans().map(Plan::steps).max().unwrap_or(0),
            chunks: chunks * times,
            messages_per_npu: messages * times,
            bytes_sent_per_npu: bytes.saturating_mul(times),
            gradient_bytes: self.job.sizes(Kind::AllReduce).fold(0, u64::saturating_add),
            lower_bound_ps: self.folding.bound.as_ref().map_or(0, |b| b.time.0),
            offloaded: self.folding.offloaded.clone(),
            warnings: self.folding.remarks.clone(),
        }
    }

    /// Messages and bytes that an NPU sends for a chunk.
    fn sends(&self, npu: NodeId, chunk: Chunk) -> (u64, u64) {
        let (mut messages, mut bytes) = (0, 0);
        for phase in 0..self.layout.phases(chunk.plan) {
            let view = self.layout.view(npu, chunk, phase);
            for thread in 0..view.threads() {
                for pc in 0..view.steps(thread) {
                    let (step, len) = view.step(Slot { thread, pc });
                    if step.op.sends() {
                        (messages, bytes) = (messages + 1, bytes + len);
                    }
                }
            }
        }
        (messages, bytes)
    }
}
