//! From a description to a running simulation, and to its results.

use crate::attempt::{Attempt, Limits};
use crate::balance::Balance;
use crate::contention::Contention;
use crate::driver::{Failure, Simulation};
use crate::errors::{RunError, illegal};
use crate::event::{Queue, Timer};
use crate::executor::Executor;
use crate::memory;
use crate::pieces::LaneUse;
use crate::preview::Preview;
use crate::results::Results;
use crate::setup::RunPlan;
use crate::spec::{
    AceSpec, BusSpec, DeadlockRule, EndpointSpec, FabricSpec, ForwardingSpec, FsmSplitSpec, JobSpec, NetworkSpec, Spec,
    SwitchOffloadSpec,
};
use crate::{steady, tables};
use std::sync::Arc;
use syncline_core::{Bytes, Clock, EventQueue, NodeId, Ps, Rate};
use syncline_endpoint::ace::{FsmSplit, Transit};
use syncline_endpoint::{
    Ace, AceConfig, Baseline, BaselineConfig, Contended, Dma, DmaConfig, Endpoint, Ideal, Layout, LogGp,
    MessageEndpoint, SwitchConfig, SwitchOffload,
};
use syncline_network::{Analytical, Flow, Network, packet};
use syncline_topology::Fabric;

/// Runs the simulation that a JSON document describes (see [`crate::spec`]).
///
/// # Errors
/// [`RunError::Spec`] if it does not describe one, [`RunError::Simulation`] if it fails.
pub fn run(spec_json: &str) -> Result<Results, RunError> {
    run_spec(&serde_json::from_str(spec_json).map_err(illegal)?, None)
}

/// Sets up everything that a simulation needs but its network, stops before its first event, and says what it would do.
///
/// # Errors
/// [`RunError::Spec`] if the document does not describe a simulation that can be run.
pub fn check(spec_json: &str) -> Result<Preview, RunError> {
    check_spec(&serde_json::from_str(spec_json).map_err(illegal)?)
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
    let spec = serde_json::from_str(spec_json).map_err(illegal)?;
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
    let window = Ps(spec.output.window_ps);
    match spec.network {
        NetworkSpec::Analytical {} => {
            with_network(spec, plan, None, |fabric| Ok(Analytical::new(fabric, window)), goal)
        }
        NetworkSpec::Flow {} => with_network(spec, plan, None, |fabric| Ok(Flow::new(fabric, window)), goal),
        NetworkSpec::Packet { packet_bytes, buffer_packets, deadlock_rule, trains, sorted } => {
            let rule = match deadlock_rule {
                _ if is_mixed(spec, &plan)? => packet::DeadlockRule::Classes,
                DeadlockRule::Bubble => packet::DeadlockRule::Bubble,
                DeadlockRule::Dateline => packet::DeadlockRule::Dateline,
                DeadlockRule::None => packet::DeadlockRule::None,
            };
            let packet = Bytes(packet_bytes.into());
            let at_least = input_buffer(spec, &plan, packet)?;
            let channels = match rule {
                packet::DeadlockRule::Dateline | packet::DeadlockRule::Classes => 2,
                packet::DeadlockRule::Bubble | packet::DeadlockRule::None => 1,
            };
            let needed = at_least.saturating_mul(channels);
            if let Some(buffer) = buffer_packets.filter(|&b| b < needed) {
                return Err(illegal(format!(
                    "network.buffer_packets: input buffers of {} B, which chunks that wait inside an ACE could fill; \
                     accepted: {} B or more",
                    u64::from(buffer) * packet.0,
                    u64::from(needed) * packet.0,
                )));
            }
            // Endpoints that forward send to neighbours only, and what an ACE sends in several phases goes through its
            // port buffers, which are first come, first served.
            let in_phases = matches!(spec.endpoint, EndpointSpec::Ace(_)) && plan.layout.kinds() != (true, false);
            let turns = plan.layout.is_routed() && !plan.transit && !in_phases;
            let in_rounds = matches!(spec.fabric, FabricSpec::Graph { .. });
            let buffer = buffer_packets;
            let config =
                packet::PacketConfig { packet, buffer, at_least, rule, trains, turns, in_rounds, sorted, window };
            config.check().map_err(illegal)?;
            let network = |fabric| packet::Packet::new(fabric, config).map_err(illegal);
            with_network(spec, plan, Some(packet), network, goal)
        }
    }
}

/// Whether an ACE carries out rings and direct all-to-alls, whose packets then have channels of their own.
///
/// # Errors
/// [`RunError::Spec`] if routers were to forward there: their own rules against deadlock need all channels.
fn is_mixed(spec: &Spec, plan: &RunPlan) -> Result<bool, RunError> {
    let mixed = matches!(spec.endpoint, EndpointSpec::Ace(_)) && plan.layout.kinds() == (true, true);
    if mixed && !plan.transit {
        return Err(illegal(
            "endpoint.transit: the routers of the packet backend do not forward for an ACE that carries out rings \
             beside direct all-to-alls; accepted: endpoint",
        ));
    }
    Ok(mixed)
}

/// The packets that the endpoint needs every input buffer to hold.
fn input_buffer(spec: &Spec, plan: &RunPlan, packet: Bytes) -> Result<u32, RunError> {
    match &spec.endpoint {
        EndpointSpec::Ace(ace) => {
            Ok(Ace::input_buffer(&plan.layout, &ace_config(spec, ace, plan.transit)?, packet, plan.largest_chunk()))
        }
        EndpointSpec::Ideal { .. } | EndpointSpec::Baseline { .. } | EndpointSpec::SwitchOffload(_) => Ok(0),
    }
}

/// `packet`: what the network streams in; nothing for one without packets.
fn with_network<N>(
    spec: &Spec,
    plan: RunPlan,
    packet: Option<Bytes>,
    network: impl FnOnce(Arc<dyn Fabric>) -> Result<N, RunError>,
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
            let ace = Ace::new(layout, config, packet, chunk, window, &traced).map_err(illegal)?;
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
        Some((npu, _)) => Err(illegal(format!("job.stragglers: there is no NPU {npu}; accepted: 0 to {}", npus - 1))),
        None => Ok(()),
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
        BusSpec::Loggp { message_bytes: Some(0), .. } => Err(illegal("endpoint.buses.message_bytes: must be positive")),
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
    let bubble = !matches!(spec.network, NetworkSpec::Packet { deadlock_rule: DeadlockRule::None, .. });
    let positive = |field: &str, value: u32| match value {
        0 => Err(illegal(format!("endpoint.{field}: must be positive"))),
        n => Ok(n),
    };
    Ok(AceConfig {
        memory: rate("endpoint.memory_bytes_per_s", ace.memory_bytes_per_s)?,
        bus: rate("endpoint.bus_bytes_per_s", ace.bus_bytes_per_s)?,
        charge_writes: ace.charge_writes,
        protocol: protocol(ace.buses)?,
        clock: Clock::new(ace.clock_hz).ok_or_else(|| illegal("endpoint.clock_hz: must be positive"))?,
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
        F: FnOnce(Arc<dyn Fabric>) -> Result<N, RunError>,
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
        let mut simulation = Simulation::new(queue, network(fabric)?, endpoint(), executor, layout, config);
        let failed = |failure: Failure| RunError::Simulation(failure.to_string());
        if let Goal::Attempt(limits) = goal {
            return simulation.attempt(limits).map(Built::Attempted).map_err(failed);
        }
        let outcome = simulation.run().map_err(failed)?;
        Ok(Built::Ran(Box::new(tables::results(spec, &simulation, outcome, folding))))
    }
}
