//! From a description to a running simulation, and to its results.

use crate::attempt::{Attempt, Limits};
use crate::balance::Balance;
use crate::contention::Contention;
use crate::driver::{Failure, Simulation};
use crate::errors::RunError;
use crate::event::{Queue, Timer};
use crate::executor::Executor;
use crate::memory;
use crate::networks::{BuildNetwork, NetworkModel, NetworkNeeds, WithNetwork};
use crate::pieces::LaneUse;
use crate::place;
use crate::preview::Preview;
use crate::results::Results;
use crate::setup::RunPlan;
use crate::spec::{
    AceSpec, BusSpec, EndpointSpec, FabricSpec, ForwardingSpec, FsmSplitSpec, JobSpec, Spec, SwitchOffloadSpec,
};
use crate::{steady, tables};
use std::sync::Arc;
use syncline_collective::Kind;
use syncline_core::{Bytes, Clock, EventQueue, NodeId, Ps, Rate, Refusal};
use syncline_endpoint::ace::{FsmSplit, Transit};
use syncline_endpoint::{
    Ace, AceConfig, Baseline, BaselineConfig, Contended, Dma, DmaConfig, Endpoint, Ideal, Layout, LogGp,
    MessageEndpoint, SwitchConfig, SwitchOffload,
};
use syncline_network::Network;
use syncline_topology::Fabric;

/// Runs the simulation that a JSON document describes (see [`crate::spec`]).
///
/// # Errors
/// [`RunError::Spec`] if it does not describe one, [`RunError::Simulation`] if it fails.
pub fn run(spec_json: &str) -> Result<Results, RunError> {
    run_spec(&Spec::read(spec_json)?, None)
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
    let plan = RunPlan::new(spec)?;
    let preview = plan.preview(spec);
    memory::check(spec, &plan, &preview)?;
    build(spec, plan, Goal::Check).map(|_| preview)
}

/// Runs the simulation that a JSON document describes, until a limit is passed.
///
/// # Errors
/// As [`run`].
pub fn attempt(spec_json: &str, limits: Limits) -> Result<Attempt, RunError> {
    let spec = Spec::read(spec_json)?;
    attempt_plan(&spec, RunPlan::new(&spec)?, limits)
}

/// Runs a simulation that has been set up from a description, until a limit is passed.
///
/// # Errors
/// As [`run`].
pub fn attempt_plan(spec: &Spec, plan: RunPlan, limits: Limits) -> Result<Attempt, RunError> {
    match build(spec, plan, Goal::Attempt(limits))? {
        Built::Attempted(attempt) => Ok(attempt),
        Built::Checked | Built::Ran(_) => unreachable!("an attempt was asked for"),
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
    Attempted(Attempt),
    Ran(Box<Results>),
}

/// Runs a simulation. With `shuffle`, simultaneous events of equal key are shuffled by that seed, which
/// must not change anything.
///
/// # Errors
/// As [`run`].
pub fn run_spec(spec: &Spec, shuffle: Option<u64>) -> Result<Results, RunError> {
    let mut results = run_plan(spec, RunPlan::new(spec)?, shuffle)?;
    if let (true, Some(longer)) = (spec.output.steady, steady::longer(spec, &results.summary)) {
        let goal = Goal::Run { shuffle, until_settled: true };
        // Should more iterations than were asked for fail, what was asked for has not.
        if let Ok(Built::Ran(longer)) = RunPlan::new(&longer).and_then(|plan| build(&longer, plan, goal)) {
            results.summary.steady = longer.summary.steady.or(results.summary.steady);
        }
    }
    Ok(results)
}

/// Runs a simulation that has been set up from a description.
///
/// # Errors
/// As [`run`].
pub fn run_plan(spec: &Spec, plan: RunPlan, shuffle: Option<u64>) -> Result<Results, RunError> {
    match build(spec, plan, Goal::Run { shuffle, until_settled: false })? {
        Built::Ran(results) => Ok(*results),
        Built::Checked | Built::Attempted(_) => unreachable!("a run was asked for"),
    }
}

fn build(spec: &Spec, plan: RunPlan, goal: Goal) -> Result<Built, RunError> {
    spec.network.with(OnNetwork { spec, plan, goal })
}

/// A simulation that lacks its network and its endpoint.
struct OnNetwork<'a> {
    spec: &'a Spec,
    plan: RunPlan,
    goal: Goal,
}

impl WithNetwork for OnNetwork<'_> {
    type Output = Result<Built, RunError>;

    fn with<B: BuildNetwork>(self, network: &B) -> Result<Built, RunError> {
        let OnNetwork { spec, plan, goal } = self;
        let needs = network_needs(spec, &plan, network)?;
        network.check(&needs)?;
        with_network(
            spec,
            plan,
            network.packet_bytes().map(|n| Bytes(n.into())),
            |fabric| network.build(fabric, &needs),
            goal,
        )
    }
}

/// What a run needs of its network.
fn network_needs(spec: &Spec, plan: &RunPlan, network: &impl NetworkModel) -> Result<NetworkNeeds, RunError> {
    let (rings, direct) = plan.layout.kinds();
    let ace = match &spec.endpoint {
        EndpointSpec::Ace(ace) => Some(ace),
        EndpointSpec::Ideal { .. } | EndpointSpec::Baseline { .. } | EndpointSpec::SwitchOffload(_) => None,
    };
    let buffer_packets = match (ace, network.packet_bytes()) {
        (Some(ace), Some(packet)) => {
            let config = ace_config(spec, ace, plan.transit)?;
            Ace::input_buffer(&plan.layout, &config, Bytes(packet.into()), plan.largest_chunk())
        }
        _ => 0,
    };
    // Endpoints that forward send to neighbours only, and what an ACE sends in several phases goes through its port
    // buffers, which are first come, first served.
    let in_phases = ace.is_some() && (rings, direct) != (true, false);
    Ok(NetworkNeeds {
        buffer_packets,
        two_channels: ace.is_some() && rings && direct,
        transit: plan.transit,
        turns: plan.layout.is_routed() && !plan.transit && !in_phases,
        in_rounds: matches!(spec.fabric, FabricSpec::Graph { .. }),
        window: Ps(spec.output.window_ps),
    })
}

/// `packet`: what the network streams in; nothing for one without packets.
fn with_network<N>(
    spec: &Spec,
    plan: RunPlan,
    packet: Option<Bytes>,
    network: impl FnOnce(Arc<dyn Fabric>) -> N,
    goal: Goal,
) -> Result<Built, RunError>
where
    N: Network,
    N::Event: Timer,
{
    let traced = traced(&spec.output.trace_npus, &plan.layout, plan.folding.npus)?;
    check_stragglers(spec, plan.folding.npus)?;
    let inflight = match plan.config.lanes {
        LaneUse::Split(n) => spec.collectives.inflight.saturating_mul(n),
        LaneUse::Alternate => spec.collectives.inflight,
    };
    let urgent = plan.config.balance.as_ref().map(Balance::urgent);
    let (layout, transit, npus) = (plan.layout.clone(), plan.transit, plan.layout.npus());
    let contention = plan.contention.clone();
    let chunk = plan.largest_chunk();
    let run = Run { spec, plan, network, traced: &traced, goal };
    match &spec.endpoint {
        EndpointSpec::Ideal { step_latency_ps, forwarding, .. } => {
            let step = Ps(*step_latency_ps);
            let (own, packet) = match forwarding {
                ForwardingSpec::Messages => (step, None),
                ForwardingSpec::Packets => (Ps::ZERO, packet),
            };
            let cost = Ideal { step, own };
            run.with(|| {
                let ideal = MessageEndpoint::new(layout, cost, inflight, transit, &traced);
                ideal.packet_by_packet(packet).shortest_first(urgent)
            })
        }
        EndpointSpec::Baseline {
            memory_bytes_per_s, sm_bytes_per_s, bus_bytes_per_s, charge_writes, buses, ..
        } => {
            let rates = [*memory_bytes_per_s, *sm_bytes_per_s, *bus_bytes_per_s];
            let config = BaselineConfig { protocol: protocol(*buses)?, ..baseline_config(rates, *charge_writes)? };
            match contention {
                None => run.with(|| {
                    let cost = Baseline::new(config, npus);
                    MessageEndpoint::new(layout, cost, inflight, transit, &traced).shortest_first(urgent)
                }),
                Some(Contention { config: shared, loads, .. }) => run.with(|| {
                    let cost = Contended::new(config, shared, loads, npus);
                    MessageEndpoint::new(layout, cost, inflight, transit, &traced).shortest_first(urgent)
                }),
            }
        }
        EndpointSpec::Ace(ace) => {
            let config = ace_config(spec, ace, transit)?;
            let window = Ps(spec.output.window_ps);
            let refused = |error| ace_refused(spec, Refusal::from(error));
            let ace = Ace::new(layout, config, packet, chunk, window, &traced).map_err(refused)?;
            run.with(|| ace)
        }
        EndpointSpec::SwitchOffload(offload) => {
            // Slots of switches are for so many chunks, whether or not these are parts of split ones.
            let inflight = spec.collectives.inflight;
            let (dma, switch) = switch_offload(offload)?;
            run.with(|| SwitchOffload::new(layout, Dma::new(dma, npus), switch, inflight, &traced))
        }
    }
}

/// Refuses stragglers that are none of the machine's `npus` NPUs.
fn check_stragglers(spec: &Spec, npus: u32) -> Result<(), RunError> {
    let JobSpec::Training { stragglers, .. } = &spec.job else { return Ok(()) };
    match stragglers.iter().find(|s| s.0 >= npus) {
        Some((npu, _)) => Err(no_such_npu("job.stragglers", *npu, npus)),
        None => Ok(()),
    }
}

/// The simulated NPUs whose slices are recorded, of a machine of `npus` NPUs.
fn traced(numbers: &[u32], layout: &Layout, npus: u32) -> Result<Vec<NodeId>, RunError> {
    if let Some(n) = numbers.iter().find(|&&n| n >= npus) {
        return Err(no_such_npu("output.trace_npus", *n, npus));
    }
    let mut traced: Vec<NodeId> = numbers.iter().filter_map(|&n| layout.simulated(NodeId(n))).collect();
    traced.push(NodeId(0)); // the phases table is the first NPU's
    traced.sort_unstable();
    traced.dedup();
    Ok(traced)
}

fn no_such_npu(field: &str, npu: u32, npus: u32) -> RunError {
    Refusal::of(field, format!("there is no NPU {npu}")).accepting(format!("0 to {}", npus - 1)).into()
}

fn zero(field: &str) -> RunError {
    Refusal::of(field, "must be positive").at_least(1).into()
}

/// What an ACE is refused for. What it can carry out depends on the fabric, on groups, on the collective and on its
/// algorithm: the first of them that keeps it from being used is to blame.
fn ace_refused(spec: &Spec, refusal: Refusal) -> RunError {
    if !refusal.field.is_empty() {
        return refusal.within("endpoint").into();
    }
    let kind = match spec.job {
        JobSpec::Collective { collective, .. } => Some(place::kind(collective)),
        JobSpec::Training { .. } => None,
    };
    let another = |field: &str, accepted: &str| {
        Refusal::of(field, refusal.message.clone()).accepting(format!("{accepted}; or another endpoint"))
    };
    let kinds = "all-reduce, reduce-scatter, all-gather, all-to-all";
    let blamed = match &spec.fabric {
        _ if kind == Some(Kind::AllToAll) => None,
        FabricSpec::Graph { .. } => Some(another("fabric", "a topology string")),
        FabricSpec::Product { .. } if spec.groups.is_some() => {
            Some(another("groups", "none: the whole of the topology"))
        }
        FabricSpec::Product { .. } => kind.filter(|kind| kind.is_rooted()).map(|_| another("job.collective", kinds)),
    };
    blamed.unwrap_or_else(|| refusal.within("collectives.algorithm")).into()
}

fn rate(field: &str, bytes_per_s: u64) -> Result<Rate, RunError> {
    Rate::new(bytes_per_s).ok_or_else(|| zero(field))
}

/// What a baseline has: rates of memory, SMs and bus, a bus that costs a message no more than its bytes.
///
/// # Errors
/// [`RunError::Spec`] if one of them is zero.
pub fn baseline_config([memory, sms, bus]: [u64; 3], charge_writes: bool) -> Result<BaselineConfig, RunError> {
    Ok(BaselineConfig {
        memory: rate("endpoint.memory_bytes_per_s", memory)?,
        sms: rate("endpoint.sm_bytes_per_s", sms)?,
        bus: rate("endpoint.bus_bytes_per_s", bus)?,
        charge_writes,
        protocol: None,
    })
}

fn protocol(buses: BusSpec) -> Result<Option<LogGp>, RunError> {
    match buses {
        BusSpec::Rate => Ok(None),
        BusSpec::Loggp { message_bytes: Some(0), .. } => Err(zero("endpoint.buses.message_bytes")),
        BusSpec::Loggp { latency_ps, overhead_ps, gap_ps, message_bytes } => Ok(Some(LogGp {
            latency: Ps(latency_ps),
            overhead: Ps(overhead_ps),
            gap: Ps(gap_ps),
            message: message_bytes.map(Bytes),
        })),
    }
}

fn switch_offload(offload: &SwitchOffloadSpec) -> Result<(DmaConfig, SwitchConfig), RunError> {
    let dma = DmaConfig {
        memory: rate("endpoint.memory_bytes_per_s", offload.memory_bytes_per_s)?,
        sms: Rate::new(offload.sm_bytes_per_s),
        bus: rate("endpoint.bus_bytes_per_s", offload.bus_bytes_per_s)?,
        charge_writes: offload.charge_writes,
    };
    let switch = SwitchConfig {
        reduce: match offload.switch_reduce_bytes_per_s {
            None => Rate::UNLIMITED,
            Some(limited) => rate("endpoint.switch_reduce_bytes_per_s", limited)?,
        },
        memory: Bytes(offload.switch_memory_bytes),
        latency: Ps(offload.switch_latency_ps),
    };
    Ok((dma, switch))
}

fn ace_config(spec: &Spec, ace: &AceSpec, transit: bool) -> Result<AceConfig, RunError> {
    let bubble = spec.network.model().prevents_deadlock();
    let positive = |field: &str, value: u32| match value {
        0 => Err(zero(&format!("endpoint.{field}"))),
        n => Ok(n),
    };
    Ok(AceConfig {
        memory: rate("endpoint.memory_bytes_per_s", ace.memory_bytes_per_s)?,
        bus: rate("endpoint.bus_bytes_per_s", ace.bus_bytes_per_s)?,
        charge_writes: ace.charge_writes,
        protocol: protocol(ace.buses)?,
        clock: Clock::new(ace.clock_hz).ok_or_else(|| zero("endpoint.clock_hz"))?,
        sram: Bytes(ace.sram_bytes),
        banks: positive("sram_banks", ace.sram_banks)?,
        port_bytes: positive("port_bytes_per_cycle", ace.port_bytes_per_cycle)?,
        alus: positive("alus", ace.alus)?,
        fsms: positive("fsms", ace.fsms)?,
        fsm_split: match ace.fsm_split {
            FsmSplitSpec::Even => FsmSplit::Even,
            FsmSplitSpec::Need => FsmSplit::Need,
        },
        message: Bytes(positive("message_bytes", ace.message_bytes)?.into()),
        port_buffer: Bytes(ace.port_buffer_bytes),
        transit: if transit { Transit::Endpoint { bubble } } else { Transit::Network },
    })
}

/// A simulation that lacks only its endpoint. What takes memory is not built before it is known to be run.
struct Run<'a, F> {
    spec: &'a Spec,
    plan: RunPlan,
    network: F,
    traced: &'a [NodeId],
    goal: Goal,
}

impl<F> Run<'_, F> {
    fn with<N, E>(self, endpoint: impl FnOnce() -> E) -> Result<Built, RunError>
    where
        F: FnOnce(Arc<dyn Fabric>) -> N,
        N: Network,
        N::Event: Timer,
        E: Endpoint<N>,
        E::Event: Timer,
    {
        let Run { spec, plan, network, traced, goal } = self;
        let (shuffle, until_settled) = match goal {
            Goal::Check => return Ok(Built::Checked),
            Goal::Attempt(_) => (None, false),
            Goal::Run { shuffle, until_settled } => (shuffle, until_settled),
        };
        let RunPlan { fabric, job, layout, config, contention, folding, .. } = plan;
        let mut executor =
            Executor::new(job.source, job.iterations, job.npu, layout.npus(), Ps(spec.output.window_ps), traced);
        if let Some(npu) = job.background {
            executor.set_background(npu);
        }
        if let JobSpec::Training { stragglers, .. } = &spec.job {
            let simulated = |&(npu, factor): &(u32, f64)| Some((layout.simulated(NodeId(npu))?, factor));
            executor.slow_down(stragglers.iter().filter_map(simulated));
        }
        if let Some(contention) = contention {
            executor.contend(contention.kernel_warps);
        }
        if until_settled {
            executor.stop_when_settled();
        }
        let queue = Queue(shuffle.map_or_else(EventQueue::new, EventQueue::shuffling));
        let mut simulation = Simulation::new(queue, network(fabric), endpoint(), executor, layout, config);
        let failed = |failure: Failure| RunError::Simulation(failure.to_string());
        if let Goal::Attempt(limits) = goal {
            return simulation.attempt(limits).map(Built::Attempted).map_err(failed);
        }
        let outcome = simulation.run().map_err(failed)?;
        Ok(Built::Ran(Box::new(tables::results(spec, &simulation, outcome, folding))))
    }
}
