//! From a description to a running simulation, and to its results.

use crate::attempt::{Attempt, End, Ending, Limits};
use crate::balance::Balance;
use crate::cohorts::{CohortPart, Cohorts};
use crate::driver::{Failure, Simulation};
use crate::endpoints::{EndpointEvent, EndpointParts, Rooms, WithEndpoint};
use crate::errors::RunError;
use crate::event::Queue;
use crate::executor::Executor;
use crate::graphs::{Computers, Graphs};
use crate::monitor::Monitor;
use crate::networks::{BuildNetwork, NetworkEvent, NetworkNeeds, WithNetwork, conditions};
use crate::pieces::LaneUse;
use crate::preview::Preview;
use crate::results::Results;
use crate::setup::RunPlan;
use crate::spec::{FabricSpec, FoldSpec, JobSpec, Spec};
use crate::timer::Timer;
use crate::{run_memory, start, steady, tables};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use syncline_collective::Kind;
use syncline_core::{Bytes, EventQueue, NodeId, PortId, Refusal};
use syncline_endpoint::kernel::PER_WARP;
use syncline_endpoint::{Endpoint, Layout};
use syncline_network::{MessageLog, Network, Recorded};
use syncline_topology::{Fabric, all_links};
use syncline_workload::ClassId;

/// Runs the simulation that a JSON document describes (see [`crate::spec`]); `monitor` sees how far it is, and may end it.
///
/// # Errors
/// [`RunError::Spec`] if it does not describe one, [`RunError::Simulation`] if it fails, [`RunError::Cancelled`] if it
/// was ended.
pub fn run(spec_json: &str, monitor: &Arc<Monitor>) -> Result<Results, RunError> {
    run_observed(&Spec::read(spec_json)?, monitor)
}

/// [`run`], of a description that has been read.
///
/// # Errors
/// As [`run`].
pub fn run_observed(spec: &Spec, monitor: &Arc<Monitor>) -> Result<Results, RunError> {
    run_to_the_end(spec, plan(spec)?, None, monitor)
}

/// Sets up everything that a simulation needs but its network, stops before its first event, and says what it would do.
///
/// # Errors
/// [`RunError::Spec`] if the document does not describe a simulation that can be run.
pub fn check(spec_json: &str) -> Result<Preview, RunError> {
    check_spec(&Spec::read(spec_json)?)
}

/// [`check`], of a description that has been read.
///
/// # Errors
/// As [`check`].
pub fn check_spec(spec: &Spec) -> Result<Preview, RunError> {
    let plan = plan(spec)?;
    let preview = looked_at(spec, &plan)?;
    build(spec, plan, Goal::Check, &Arc::default()).map(|_| preview)
}

/// What running a plan would be, if there is memory for it.
fn looked_at(spec: &Spec, plan: &RunPlan) -> Result<Preview, RunError> {
    let mut preview = plan.preview(spec);
    preview.memory_bytes = run_memory::of_run(spec, plan, &preview);
    run_memory::check(spec, plan, &preview)?;
    Ok(preview)
}

/// A simulation that has been set up, to be begun and then run without being set up again.
pub struct Prepared {
    spec: Spec,
    /// What has been set up, until it is run: that takes enough memory without.
    plan: Mutex<Option<RunPlan>>,
    preview: Preview,
}

impl Prepared {
    /// Sets up the simulation that a JSON document describes.
    ///
    /// # Errors
    /// As [`check`].
    pub fn new(spec_json: &str) -> Result<Prepared, RunError> {
        Prepared::of(Spec::read(spec_json)?)
    }

    /// [`Prepared::new`], of a description that has been read.
    ///
    /// # Errors
    /// As [`check`].
    pub fn of(spec: Spec) -> Result<Prepared, RunError> {
        let plan = plan(&spec)?;
        let preview = looked_at(&spec, &plan)?;
        build(&spec, plan.again(&spec)?, Goal::Check, &Arc::default())?;
        Ok(Prepared { spec, plan: Mutex::new(Some(plan)), preview })
    }

    /// What [`check`] says of it.
    pub fn preview(&self) -> &Preview {
        &self.preview
    }

    /// As [`attempt`].
    ///
    /// # Errors
    /// As [`run`].
    pub fn attempt(&self, limits: Limits, monitor: &Arc<Monitor>) -> Result<Attempt, RunError> {
        let kept = self.kept().as_ref().map(|plan| plan.again(&self.spec));
        attempt_plan(&self.spec, kept.unwrap_or_else(|| plan(&self.spec))?, limits, monitor)
    }

    /// As [`run`]. What has been set up is of use once.
    ///
    /// # Errors
    /// As [`run`].
    pub fn run(&self, monitor: &Arc<Monitor>) -> Result<Results, RunError> {
        let kept = self.kept().take();
        run_to_the_end(&self.spec, kept.map_or_else(|| plan(&self.spec), Ok)?, None, monitor)
    }

    fn kept(&self) -> MutexGuard<'_, Option<RunPlan>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets a run up.
///
/// # Errors
/// [`RunError::Spec`] if the description is not a legal run.
pub fn plan(spec: &Spec) -> Result<RunPlan, RunError> {
    RunPlan::new(spec, try_out)
}

/// Runs trials for [`RunPlan`]: see [`TryOut`](crate::pipeline::TryOut).
pub fn try_out(spec: &Spec, left: &mut u64) -> Option<(u64, u64)> {
    let plan = plan(spec).ok()?;
    let setup = plan.setup();
    if setup > *left {
        *left = 0;
        return None;
    }
    *left -= setup;
    let limits = Limits { time_ps: u64::MAX, work: *left };
    let end = attempt_plan(spec, plan, limits, &Arc::default()).ok()?.end;
    *left -= end.work.min(*left);
    (end.ending == Ending::Complete).then_some((end.time_ps, end.work))
}

/// Runs the simulation that a JSON document describes, until a limit is passed.
///
/// # Errors
/// As [`run`].
pub fn attempt(spec_json: &str, limits: Limits, monitor: &Arc<Monitor>) -> Result<Attempt, RunError> {
    attempt_spec(&Spec::read(spec_json)?, limits, monitor)
}

/// [`attempt`], of a description that has been read.
///
/// # Errors
/// As [`run`].
pub fn attempt_spec(spec: &Spec, limits: Limits, monitor: &Arc<Monitor>) -> Result<Attempt, RunError> {
    attempt_plan(spec, plan(spec)?, limits, monitor)
}

/// Runs a simulation that has been set up from a description, until a limit is passed.
///
/// # Errors
/// As [`run`].
pub fn attempt_plan(spec: &Spec, plan: RunPlan, limits: Limits, monitor: &Arc<Monitor>) -> Result<Attempt, RunError> {
    let (slices, phases) = (plan.slices(), plan.phases());
    match build(spec, plan, Goal::Attempt(limits), monitor)? {
        Built::Attempted(end) => Ok(Attempt { end, slices, phases }),
        Built::Checked | Built::Ran(_) | Built::ToldApart(_) => unreachable!("an attempt was asked for"),
    }
}

/// What is done with a simulation that has been built.
#[derive(Clone, Copy)]
enum Goal {
    /// Nothing.
    Check,
    /// It is run until a limit is passed.
    Attempt(Limits),
    /// It is run.
    Run {
        /// Shuffles ties by this seed.
        shuffle: Option<u64>,
        /// To the end, or until it is known what one more iteration costs.
        until_settled: bool,
    },
}

/// What came of that.
enum Built {
    Checked,
    Attempted(End),
    Ran(Box<Results>),
    /// NPUs that are simulated as one differ, for this reason.
    ToldApart(&'static str),
}

/// Runs a simulation. With `shuffle`, simultaneous events of equal key are shuffled by that seed, which
/// must not change anything.
///
/// # Errors
/// As [`run`].
pub fn run_spec(spec: &Spec, shuffle: Option<u64>) -> Result<Results, RunError> {
    run_to_the_end(spec, plan(spec)?, shuffle, &Arc::default())
}

/// Runs what has been set up, and for longer if the description asks what one more iteration costs.
fn run_to_the_end(
    spec: &Spec,
    plan: RunPlan,
    shuffle: Option<u64>,
    monitor: &Arc<Monitor>,
) -> Result<Results, RunError> {
    let mut results = run_plan_observed(spec, plan, shuffle, monitor)?;
    if let (true, Some(longer)) = (spec.output.steady, steady::longer(spec, &results.summary)) {
        let goal = Goal::Run { shuffle, until_settled: true };
        // Should more iterations than were asked for fail, what was asked for has not.
        match self::plan(&longer).and_then(|plan| build(&longer, plan, goal, monitor)) {
            Ok(Built::Ran(longer)) => results.summary.steady = longer.summary.steady.or(results.summary.steady),
            Err(RunError::Cancelled) => return Err(RunError::Cancelled),
            _ => {}
        }
    }
    Ok(results)
}

/// Runs a simulation that has been set up from a description.
///
/// # Errors
/// As [`run`].
pub fn run_plan(spec: &Spec, plan: RunPlan, shuffle: Option<u64>) -> Result<Results, RunError> {
    run_plan_observed(spec, plan, shuffle, &Arc::default())
}

/// The same, which `monitor` sees and may end.
///
/// # Errors
/// As [`run`].
pub fn run_plan_observed(
    spec: &Spec,
    plan: RunPlan,
    shuffle: Option<u64>,
    monitor: &Arc<Monitor>,
) -> Result<Results, RunError> {
    match build(spec, plan, Goal::Run { shuffle, until_settled: false }, monitor)? {
        Built::Ran(results) => Ok(*results),
        Built::Checked | Built::Attempted(_) | Built::ToldApart(_) => unreachable!("a run was asked for"),
    }
}

/// Runs a simulation on a backend that is not listed in [`crate::networks`], such as one of tests, in place of the one that
/// is described.
///
/// # Errors
/// As [`run`].
pub fn run_on(spec: &Spec, network: &impl BuildNetwork, shuffle: Option<u64>) -> Result<Results, RunError> {
    let goal = Goal::Run { shuffle, until_settled: false };
    match build_on(spec, network, plan(spec)?, goal, &Arc::default())? {
        Built::Ran(results) => Ok(*results),
        Built::Checked | Built::Attempted(_) | Built::ToldApart(_) => unreachable!("a run was asked for"),
    }
}

fn build(spec: &Spec, plan: RunPlan, goal: Goal, monitor: &Arc<Monitor>) -> Result<Built, RunError> {
    spec.network.with(OnNetwork { spec, plan, goal, monitor })
}

/// Does with a simulation what is to be done with it. A folded one in which NPUs turn out to differ is given up, and all of them
/// are simulated.
fn build_on<B: BuildNetwork>(
    spec: &Spec,
    network: &B,
    plan: RunPlan,
    goal: Goal,
    monitor: &Arc<Monitor>,
) -> Result<Built, RunError> {
    match assemble(spec, network, plan, goal, monitor)? {
        Built::ToldApart(why) if spec.fold == FoldSpec::On => {
            let refusal = Refusal::of("fold", format!("the run cannot be folded: {why}"));
            Err(refusal.accepting("auto, off").into())
        }
        Built::ToldApart(why) => {
            let spec = Spec { fold: FoldSpec::Off, ..spec.clone() };
            let mut plan = self::plan(&spec)?;
            looked_at(&spec, &plan)?;
            plan.folding.unfolded = Some(why.into());
            assemble(&spec, network, plan, goal, monitor)
        }
        built => Ok(built),
    }
}

/// A simulation that lacks its network and its endpoint.
struct OnNetwork<'a> {
    spec: &'a Spec,
    plan: RunPlan,
    goal: Goal,
    monitor: &'a Arc<Monitor>,
}

impl WithNetwork for OnNetwork<'_> {
    type Output = Result<Built, RunError>;

    fn with<B: BuildNetwork>(self, network: &B) -> Result<Built, RunError> {
        build_on(self.spec, network, self.plan, self.goal, self.monitor)
    }
}

/// Puts a simulation together, and does with it what is to be done.
fn assemble<B: BuildNetwork>(
    spec: &Spec,
    network: &B,
    plan: RunPlan,
    goal: Goal,
    monitor: &Arc<Monitor>,
) -> Result<Built, RunError> {
    let traced = traced(&spec.output.trace_npus, plan.layout(), plan.folding.npus)?;
    check_stragglers(spec, plan.folding.npus)?;
    start::check(spec, plan.folding.npus)?;
    let part = |cohort: &CohortPart| EndpointParts {
        layout: cohort.layout.clone(),
        share: plan.share,
        largest_chunk: plan.largest_chunk(cohort),
        packet: network.packet_bytes().map(|n| Bytes(n.into())),
        prevents_deadlock: network.prevents_deadlock(),
        transit: plan.transit,
        inflight: cohort.config.inflight,
        inflight_per_dimension: cohort.config.inflight_per_dimension,
        parts: match cohort.config.lanes {
            LaneUse::Split(n) => n,
            LaneUse::Alternate => 1,
        },
        urgent: cohort.config.balance.as_ref().map(Balance::urgent),
        contention: plan.contention.clone(),
        seed: spec.seed,
        window: spec.output.resolution(),
        traced: &traced,
    };
    let parts: Vec<EndpointParts<'_>> = plan.cohorts.iter().map(part).collect();
    let rooms = Rooms::new(spec, &plan, parts)?;
    let asked = rooms.needs(spec.endpoint.model())?;
    let is_routed = plan.cohorts.iter().any(|cohort| cohort.layout.is_routed()) || rooms.are_several();
    let needs = NetworkNeeds {
        buffer_packets: asked.buffer_packets,
        classes: asked.classes,
        transit: plan.transit,
        // Endpoints that forward send to neighbours only.
        turns: is_routed && !plan.transit && !asked.in_order,
        in_rounds: matches!(spec.fabric, FabricSpec::Graph { .. }),
        by_precedence: rooms.have_precedences(),
        window: spec.output.resolution(),
        seed: spec.seed,
        changes: conditions::changes(spec, &*plan.fabric, network)?,
        attributes: conditions::attributes(spec, &*plan.fabric, network)?,
    };
    network.check(&*plan.fabric, &needs)?;
    let recorded = match goal {
        Goal::Run { .. } => recorded(&spec.output.trace_npus, plan.layout()),
        Goal::Check | Goal::Attempt(_) => Vec::new(),
    };
    let make = |fabric: Arc<dyn Fabric>| {
        let limit = spec.output.trace_limit as usize;
        let mut net = network.build(fabric.clone(), &needs);
        if recorded.is_empty() {
            return Recorded::new(net, None);
        }
        net.record_links(&links_of(&*fabric, &recorded), limit);
        Recorded::new(net, Some(MessageLog::new(fabric, &recorded, limit)))
    };
    let run = Run { spec, plan, network: make, traced: &traced, goal, monitor };
    spec.endpoint.build(rooms, run).map_err(|refusal| blamed(spec, refusal))?
}

/// The simulated NPUs whose links and messages are recorded.
fn recorded(numbers: &[u32], layout: &Layout) -> Vec<NodeId> {
    let mut found: Vec<NodeId> = numbers.iter().filter_map(|&n| layout.simulated(NodeId(n))).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The links that leave from NPUs, and those that come to them from a switch.
fn links_of(fabric: &dyn Fabric, npus: &[NodeId]) -> Vec<u32> {
    let is_theirs = |&(_, (node, port)): &(u32, (NodeId, PortId))| {
        let to = fabric.next(node, port).0;
        npus.binary_search(&node).is_ok() || node.0 >= fabric.npus() && npus.binary_search(&to).is_ok()
    };
    (0..).zip(all_links(fabric)).filter(is_theirs).map(|(number, _)| number).collect()
}

/// Refuses stragglers that are none of the machine's `npus` NPUs.
fn check_stragglers(spec: &Spec, npus: u32) -> Result<(), RunError> {
    match spec.job.stragglers().iter().find(|s| s.0 >= npus) {
        Some((npu, _)) => Err(RunError::no_such_npu("job.stragglers", *npu, npus)),
        None => Ok(()),
    }
}

/// The simulated NPUs whose slices are recorded, of a machine of `npus` NPUs.
fn traced(numbers: &[u32], layout: &Layout, npus: u32) -> Result<Vec<NodeId>, RunError> {
    if let Some(n) = numbers.iter().find(|&&n| n >= npus) {
        return Err(RunError::no_such_npu("output.trace_npus", *n, npus));
    }
    let mut traced: Vec<NodeId> = numbers.iter().filter_map(|&n| layout.simulated(NodeId(n))).collect();
    traced.push(NodeId(0)); // the phases table is the first NPU's
    traced.sort_unstable();
    traced.dedup();
    Ok(traced)
}

/// What an endpoint is refused for. What it can carry out depends on the fabric, on groups, on the collective and on its
/// algorithm: the first of them that keeps it from being used is to blame.
fn blamed(spec: &Spec, refusal: Refusal) -> RunError {
    if !refusal.field.is_empty() {
        return refusal.into();
    }
    let kind = match spec.job {
        JobSpec::Collective { collective, .. } => Some(collective.kind()),
        JobSpec::Training { .. } | JobSpec::Graph { .. } | JobSpec::Jobs { .. } => None,
    };
    let another = |field: &str, accepted: &str| {
        Refusal::of(field, refusal.message.clone()).accepting(format!("{accepted}; or another endpoint"))
    };
    let kinds = spec.endpoint.model().kinds();
    let blamed = match &spec.fabric {
        _ if kind == Some(Kind::AllToAll) => None,
        FabricSpec::Graph { .. } => Some(another("fabric", "a topology string")),
        FabricSpec::Product { .. } if spec.groups.is_some() => {
            Some(another("groups", "none: the whole of the topology"))
        }
        FabricSpec::Product { .. } => kind.filter(|kind| !kinds.contains(kind)).map(|_| {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            another("job.collective", &names.join(", "))
        }),
    };
    let way = if spec.collectives.plans.is_empty() { "collectives.algorithm" } else { "collectives.plans.0" };
    blamed.unwrap_or_else(|| refusal.within(way)).into()
}

/// A simulation that lacks only its endpoint. What takes memory is not built before it is known to be run.
struct Run<'a, F> {
    spec: &'a Spec,
    plan: RunPlan,
    network: F,
    traced: &'a [NodeId],
    goal: Goal,
    monitor: &'a Arc<Monitor>,
}

impl<N, F> WithEndpoint<N> for Run<'_, F>
where
    N: Network<Event: Timer<Layer = NetworkEvent>>,
    F: FnOnce(Arc<dyn Fabric>) -> N,
{
    type Output = Result<Built, RunError>;

    fn with<E: Endpoint<N, Event: Timer<Layer = EndpointEvent>>>(self, endpoint: impl FnOnce() -> E) -> Self::Output {
        let Run { spec, plan, network, traced, goal, monitor } = self;
        let (shuffle, until_settled) = match goal {
            Goal::Check => return Ok(Built::Checked),
            Goal::Attempt(_) => (None, false),
            Goal::Run { shuffle, until_settled } => (shuffle, until_settled),
        };
        let RunPlan { fabric, job, cohorts, classes, precedence, contention, folding, .. } = plan;
        let layout = cohorts[0].layout.clone();
        let whole = |npu: u32| layout.whole(NodeId(npu)).index();
        let of_npus = (0..layout.npus()).map(|npu| classes.get(whole(npu)).copied().unwrap_or_default());
        let of_npus: Vec<ClassId> = of_npus.collect();
        let times_kernels = spec.endpoint.model().times_kernels();
        let computers = Computers {
            background: job.background.unwrap_or_else(|| job.npu.clone()),
            main: job.npu,
            contended: contention.map(|contention| contention.kernel_warps).or(times_kernels.then_some(PER_WARP)),
        };
        let graphs = Graphs::new(job.source, job.iterations);
        let mut executor = Executor::new(graphs, computers, &of_npus, spec.output.resolution(), traced);
        let simulated = |&(npu, factor): &(u32, f64)| Some((layout.simulated(NodeId(npu))?, factor));
        executor.slow_down(spec.job.stragglers().iter().filter_map(simulated));
        let late = start::later(spec, folding.npus);
        executor.hold_back(late.filter_map(|(npu, at)| Some((layout.simulated(npu)?, at))));
        if until_settled {
            executor.stop_when_settled();
        }
        let queue = Queue(shuffle.map_or_else(EventQueue::new, EventQueue::shuffling));
        let cohorts = Cohorts::new(cohorts, classes, precedence);
        let mut simulation = Simulation::new(queue, network(fabric), endpoint(), executor, cohorts, job.drain);
        simulation.launch_after(spec.endpoint.model().start_latency());
        simulation.observed_by(monitor.clone());
        let failed = |failure: Failure| match failure {
            Failure::ToldApart { why } => Ok(Built::ToldApart(why)),
            Failure::Cancelled { .. } => Err(RunError::Cancelled),
            failure => Err(RunError::Simulation(failure.to_string())),
        };
        if let Goal::Attempt(limits) = goal {
            return simulation.attempt(limits).map(Built::Attempted).or_else(failed);
        }
        match simulation.run() {
            Ok(outcome) => Ok(Built::Ran(Box::new(tables::results(spec, &simulation, outcome, folding)))),
            Err(failure) => failed(failure),
        }
    }
}
