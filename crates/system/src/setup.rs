//! A run before its network and endpoints: what is run, where, how its collectives are laid out, and
//! whether it is folded.

use crate::admission::Policy;
use crate::bound::{Bound, Task, lower_bound};
use crate::cohorts::{CohortPart, Precedence};
use crate::collective_config::{CollectiveConfig, Priced};
use crate::endpoints::Contention;
use crate::errors::RunError;
use crate::families::{Families, FamilyCohort};
use crate::fold::{Doings, Folding, fold};
use crate::job::{Demand, Job, job};
use crate::limits;
use crate::machine::Machine;
use crate::memory;
use crate::offload;
use crate::pieces::{Chunking, LaneUse};
use crate::pipeline::TryOut;
use crate::place::Placement;
use crate::spec::{
    ChunkingSpec, CollectiveKindSpec, CollectiveSpec, FoldSpec, GroupsSpec, JobSpec, LanesSpec, LoadSpec, PricedSpec,
    SchedulingSpec, Spec,
};
use std::sync::Arc;
use syncline_collective::{Kind, Plan, Rank};
use syncline_core::{Bytes, Id, NodeId, Ps, Refusal};
use syncline_endpoint::Layout;
use syncline_topology::Fabric;
use syncline_workload::{ClassId, FamilyId};

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
    /// The machine, unfolded.
    machine: Machine,
}

impl Folded {
    /// What no schedule can beat, if the run is a single collective.
    pub fn bound(&self, spec: &Spec) -> Option<Bound> {
        let JobSpec::Collective { bytes, root, collective, .. } = spec.job else { return None };
        let task = Task { kind: collective.kind(), bytes, root: Rank(root) };
        let grid = spec.groups.as_ref().and_then(|g| g.grid.as_deref());
        let groups = spec.groups.as_ref().map(GroupsSpec::nodes);
        let switches_add = spec.endpoint.model().adding_switches().is_some();
        Some(lower_bound(&self.machine, groups.as_deref(), grid, switches_add, task))
    }
}

/// What is to be run, where, and how its collectives are laid out.
pub struct RunPlan {
    /// What is simulated: the machine, or its quotient.
    pub fabric: Arc<dyn Fabric>,
    /// What is run.
    pub job: Job,
    /// The communicators that it names: one cohort of them, or several.
    pub cohorts: Vec<CohortPart>,
    /// The class of every NPU of the whole machine; none if there is one class.
    pub classes: Arc<[ClassId]>,
    /// The order in which collectives may be entered into logs, where it matters.
    pub precedence: Option<Precedence>,
    /// Cohorts in which collectives are asked for, of the NPU that is in most of them.
    pub share: u32,
    /// Whether the endpoints forward what is for distant NPUs.
    pub transit: bool,
    /// How communication and compute share an NPU, unless the split is fixed.
    pub contention: Option<Contention>,
    /// What became of the machine.
    pub folding: Folded,
}

impl RunPlan {
    /// Sets a run up; `try_out` runs trials.
    ///
    /// # Errors
    /// [`RunError::Spec`] if the description is not a legal run.
    pub fn new(spec: &Spec, try_out: TryOut) -> Result<RunPlan, RunError> {
        RunPlan::with(spec, try_out, || job(spec))
    }

    /// Sets up a run of a job that is made instead of the described one.
    ///
    /// # Errors
    /// [`RunError::Spec`] if that is not a legal run.
    pub fn with(
        spec: &Spec,
        try_out: TryOut,
        job: impl FnOnce() -> Result<Job, RunError>,
    ) -> Result<RunPlan, RunError> {
        let machine = Machine::new(spec)?;
        let transit = machine.transit(spec)?;
        if spec.output.window_ps == Some(0) {
            return Err(Refusal::of("output.window_ps", "a window must be longer than zero").at_least(1).into());
        }
        let npus = machine.fabric().npus();
        let job = job()?;
        let families = Families::new(spec, &job, npus)?;
        let share = families.share();
        let mut remarks: Vec<String> = job.remark().into_iter().collect();
        let mut cohorts = Vec::new();
        let mut contention = None;
        for cohort in &families.cohorts {
            let of = OfCohort { machine: &machine, transit, job: &job, demand: &cohort.demand, share };
            let (placement, config, shared) = of.set_up(&cohort.spec, try_out, &mut remarks)?;
            cohorts.push((cohort, placement, config));
            contention = shared;
        }
        memory::check_fold(spec, &machine)?;
        let endpoint = spec.endpoint.model();
        let offloaded = match &cohorts[..] {
            [(_, placement, _)] => endpoint.adding_switches().map(|_| offload::summary(&placement.plans)),
            _ => None,
        };
        let (fabric, multiplicity, unfolded) = match folded(spec, &machine, (&job, &families.classes), &mut cohorts) {
            Folding::Folded(fabric, multiplicity) => (fabric, multiplicity, None),
            Folding::Unfolded(reason) if spec.fold == FoldSpec::On => {
                let refusal = Refusal::of("fold", format!("the run cannot be folded: {reason}"));
                return Err(refusal.accepting("auto, off").into());
            }
            Folding::Unfolded(reason) => (machine.fabric(), 1, Some(reason)),
        };
        memory::check_fabric(spec, &*fabric, unfolded.as_deref())?;
        let folding = Folded { npus, multiplicity, unfolded, remarks, offloaded, machine };
        let part = |(cohort, placement, config): (&FamilyCohort<'_>, Placement, CollectiveConfig)| CohortPart {
            family: cohort.family,
            demand: cohort.demand.clone(),
            first_plans: placement.first_plans.clone(),
            layout: placement.layout(fabric.clone()),
            config,
        };
        let cohorts = cohorts.into_iter().map(part).collect();
        let precedence = families.precedence();
        let classes = families.classes;
        Ok(RunPlan { fabric, job, cohorts, classes, precedence, share, transit, contention, folding })
    }

    /// The same once more, if it is that of the job that `spec` describes: a run begins with a job of its own.
    ///
    /// # Errors
    /// None where this was made of `spec`.
    pub fn again(&self, spec: &Spec) -> Result<RunPlan, RunError> {
        Ok(RunPlan {
            fabric: self.fabric.clone(),
            job: job(spec)?,
            cohorts: self.cohorts.clone(),
            classes: self.classes.clone(),
            precedence: self.precedence.clone(),
            share: self.share,
            transit: self.transit,
            contention: self.contention.clone(),
            folding: self.folding.clone(),
        })
    }

    /// The layout of the first cohort.
    pub fn layout(&self) -> &Layout {
        &self.cohorts[0].layout
    }

    /// What is made before the first event: NPUs and links.
    pub fn setup(&self) -> u64 {
        u64::from(self.fabric.npus()) + u64::from(self.fabric.links())
    }

    /// No chunk of a cohort is larger.
    pub fn largest_chunk(&self, cohort: &CohortPart) -> Bytes {
        Bytes(cohort.demand.largest_piece(cohort.layout.plans(), &cohort.config))
    }
}

/// What a cohort is set up for.
struct OfCohort<'a> {
    machine: &'a Machine,
    transit: bool,
    job: &'a Job,
    demand: &'a Demand,
    /// Rooms that the NPU with most of them has at its endpoint.
    share: u32,
}

impl OfCohort<'_> {
    /// Where the collectives of a cohort run, and how; and how an NPU is shared. The groups and the collectives of `spec` are
    /// those of the cohort.
    fn set_up(
        &self,
        spec: &Spec,
        try_out: TryOut,
        remarks: &mut Vec<String>,
    ) -> Result<(Placement, CollectiveConfig, Option<Contention>), RunError> {
        let &OfCohort { machine, transit, job, demand, .. } = self;
        let endpoint = spec.endpoint.model();
        let c = &spec.collectives;
        if c.element_bytes == 0 || c.inflight == 0 {
            return Err(Refusal::of("collectives", "element_bytes and inflight must be positive").into());
        }
        if let Some(most) = c.inflight_per_dimension {
            let field = "collectives.inflight_per_dimension";
            if most == 0 {
                return Err(Refusal::of(field, "a dimension needs a chunk").at_least(1).into());
            }
            if !endpoint.limits_dimensions() {
                let refusal = Refusal::of(field, "this endpoint does not limit the chunks along a dimension");
                return Err(refusal.accepting("none, or another endpoint").into());
            }
        }
        let placement = Placement::new(spec, machine, demand, try_out)?;
        limits::check_programs(spec, &placement)?;
        let split = placement.split;
        let mut config = CollectiveConfig {
            policy: if c.scheduling == SchedulingSpec::Lifo { Policy::Lifo } else { Policy::Fifo },
            priority: c.priority.iter().map(|kind| kind.kind()).collect(),
            chunking: chunking(c, c.chunking, "chunking")?,
            chunking_of: chunkings(c)?,
            priced: priced(&c.priced)?,
            lanes: if c.lanes == LanesSpec::Split { LaneUse::Split(placement.lanes()) } else { LaneUse::Alternate },
            split,
            padding: c.padding,
            balance: placement.balance.clone(),
            inflight: c.inflight,
            inflight_per_dimension: c.inflight_per_dimension,
        };
        let pools = if transit { machine.fabric().ports(NodeId(0)).into() } else { 0 };
        if let ChunkingSpec::Size { bytes, least_block_bytes } = c.chunking {
            let packet = spec.network.model().packet_bytes();
            let fits = |chunk: u64| endpoint.holds(&placement.plans, split, Bytes(chunk), packet, (pools, self.share));
            let bytes = with_larger_chunks(&placement, demand, (bytes, least_block_bytes), fits, remarks);
            config.chunking = Chunking::Size(bytes);
            if !fits(demand.largest_piece(placement.plans.iter(), &config)) {
                config.chunking = Chunking::AtMost(bytes);
            }
        }
        let beside: &[LoadSpec] = match &spec.job {
            JobSpec::Collective { beside, .. } => beside,
            JobSpec::Training { .. } | JobSpec::Graph { .. } | JobSpec::Jobs { .. } => &[],
        };
        let contention = endpoint.contention(beside)?;
        let hops = limits::longest_way(machine, &placement);
        let asked = (demand, &config, job.compute_ps);
        limits::check_span(spec, machine, &placement, asked, contention.as_ref(), (hops, transit))?;
        limits::check_chunks(&placement, demand, &config)?;
        Ok((placement, config, contention))
    }
}

/// Folds a run if it may and can be.
fn folded(
    spec: &Spec,
    machine: &Machine,
    (job, classes): (&Job, &[ClassId]),
    cohorts: &mut [(&FamilyCohort<'_>, Placement, CollectiveConfig)],
) -> Folding {
    let even = cohorts.iter().try_for_each(|(cohort, placement, config)| placement.is_even(&cohort.demand, config));
    let families: Vec<FamilyId> = cohorts.iter().map(|(cohort, ..)| cohort.family).collect();
    let mut placements: Vec<&mut Placement> = cohorts.iter_mut().map(|(_, placement, _)| placement).collect();
    let idle = ClassId::from_index(job.classes.len());
    fold(spec, machine, &mut placements, Doings { classes, idle, sends: &job.sends, families: &families }, even)
}

/// Bytes of a chunk: `bytes`, or more where a block of some phase would be smaller than `least`; but no
/// more than the largest collective has, padded, or than the endpoints have room for.
fn with_larger_chunks(
    placement: &Placement,
    demand: &Demand,
    (bytes, least): (u64, u64),
    fits: impl Fn(u64) -> bool,
    remarks: &mut Vec<String>,
) -> u64 {
    let finest = placement.plans.iter().map(Plan::finest).max().unwrap_or(1);
    let largest = demand.kinds().into_iter().map(|kind| demand.largest(kind)).max().unwrap_or(0);
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

/// How kinds of collectives are cut that have numbers of chunks of their own.
fn chunkings(c: &CollectiveSpec) -> Result<Vec<(Kind, Chunking)>, RunError> {
    let of = |&(kind, chunks): &(CollectiveKindSpec, u32)| {
        Ok((kind.kind(), chunking(c, ChunkingSpec::Count { chunks }, "chunks_of")?))
    };
    c.chunks_of.iter().map(of).collect()
}

/// What collectives cost, where it is said.
fn priced(rows: &[PricedSpec]) -> Result<Vec<Priced>, RunError> {
    let of = |row: &PricedSpec| {
        if row.wire_bytes == 0 && row.bytes > 0 {
            let refusal = Refusal::of("collectives.priced", format!("{} B are carried out as none", row.bytes));
            return Err(refusal.at_least(1).into());
        }
        let (kind, bytes) = (row.collective.kind(), Bytes(row.bytes));
        Ok(Priced { kind, bytes, wire: Bytes(row.wire_bytes), launch: Ps(row.launch_ps), held: row.held.into() })
    };
    rows.iter().map(of).collect()
}

/// How collectives are cut, if that is legal.
fn chunking(c: &CollectiveSpec, spec: ChunkingSpec, field: &str) -> Result<Chunking, RunError> {
    if let ChunkingSpec::Size { bytes: 0, .. } | ChunkingSpec::Count { chunks: 0 } = spec {
        let refusal = Refusal::of(field, "a chunk needs at least one byte, and a collective at least one chunk");
        return Err(refusal.within("collectives").into());
    }
    Ok(c.chunking_from(spec))
}
