//! What counters of fixed width can hold: refused before a run starts, where they could overflow.

use crate::collective_config::CollectiveConfig;
use crate::endpoints::Contention;
use crate::errors::RunError;
use crate::job::Demand;
use crate::machine::Machine;
use crate::pieces::Chunking;
use crate::place::Placement;
use crate::spec::Spec;
use crate::too_many::too_many;
use syncline_collective::{Algorithm, LineRank, PhaseId, Plan, Program};
use syncline_core::{Bytes, NodeId, Ps, Rate, Refusal};
use syncline_endpoint::Wires;
use syncline_endpoint::message::{MAX_PHASES, MAX_STEPS, MAX_THREADS, max_chunks};
use syncline_topology::{Block, Dimension, Fabric, all_links};

// A plan has no more phases than a message can name.
const _: () = assert!(syncline_collective::plan::MAX_PHASES <= MAX_PHASES);

/// Refuses programs with more threads or steps than messages can name.
///
/// # Errors
/// [`RunError::Spec`] with the field, the number and the most.
pub fn check_programs(spec: &Spec, placement: &Placement) -> Result<(), RunError> {
    if !spec.endpoint.model().numbers_steps() {
        return Ok(());
    }
    let phases = placement.plans.iter().flat_map(|plan| plan.phase_ids().map(move |phase| (plan, phase)));
    for (plan, phase) in phases {
        let (threads, steps) = threads_and_steps(plan, phase);
        let is_written = matches!(plan.program(phase, true), Program::Written(_));
        if threads > MAX_THREADS && !is_written {
            return Err(too_many("algorithm", threads.into(), "threads of a rank", MAX_THREADS.into()));
        }
        if steps >= u64::from(MAX_STEPS) {
            let field = match (is_written, spec.collectives.slices) {
                (true, _) => "plans",
                (false, 0) => "algorithm",
                (false, _) => "slices",
            };
            return Err(too_many(field, steps, "steps of a rank in a phase", u64::from(MAX_STEPS) - 1));
        }
    }
    Ok(())
}

/// Refuses runs with more chunks than messages can name.
///
/// # Errors
/// [`RunError::Spec`] with the number and the most.
pub fn check_chunks(placement: &Placement, demand: &Demand, config: &CollectiveConfig) -> Result<(), RunError> {
    let mut chunks = 0u64;
    for kind in demand.kinds() {
        let Some(plan) = placement.plans.iter().find(|plan| plan.kind() == kind) else { continue };
        let pieces = demand.sizes(kind).map(|size| config.pieces(plan, Bytes(size)).count());
        chunks = chunks.saturating_add(pieces.fold(0, u64::saturating_add));
    }
    let phases = placement.plans.iter().flat_map(|plan| plan.phase_ids().map(|phase| plan.program(phase, true)));
    let most = max_chunks(phases.map(|program| program.threads()).max().unwrap_or(1)) as u64;
    match chunks.saturating_mul(demand.iterations.into()) {
        all if all < most => Ok(()),
        all => Err(too_many("chunking", all, "chunks of all collectives", most - 1)),
    }
}

/// The threads of a phase, and the most steps that one has; of programs on many ranks, that of some ranks.
fn threads_and_steps(plan: &Plan, phase: PhaseId) -> (u16, u64) {
    const LOOKED_AT: u32 = 1 << 12;
    let p = plan.phases()[phase.index()];
    if let Algorithm::OneHopTrees { slices } = p.algorithm {
        let most = 4 * u64::from(slices) * u64::from(p.ranks);
        if most > u64::from(u32::MAX) {
            return (1, most);
        }
    }
    let program: Program = plan.program(phase, true);
    let threads = program.threads();
    let apart = (p.ranks / LOOKED_AT).max(1) as usize;
    let ranks = (0..p.ranks).step_by(apart).chain([p.root.0, p.ranks.saturating_sub(1)]);
    let steps = ranks.map(LineRank).flat_map(|rank| (0..threads).map(move |thread| (rank, thread)));
    (threads, steps.map(|(rank, thread)| u64::from(program.steps(rank, thread))).max().unwrap_or(0))
}

/// A number of links that no way between two NPUs that work together exceeds: of a product, from how far its groups reach
/// along each dimension; of a machine, more than any sensible way has.
pub fn longest_way(machine: &Machine, placement: &Placement) -> u32 {
    const OF_MACHINE: u32 = 64;
    let Machine::Product(product) = machine else { return OF_MACHINE.min(machine.fabric().nodes()) };
    if !is_routed(placement) {
        return 1;
    }
    // Along each dimension, how far the members of any group lie apart.
    let mut apart: Vec<u32> = product.dims().iter().map(|d| d.size - 1).collect();
    if let Some(groups) = &placement.space.groups {
        let spread = |members: &[NodeId], dim| {
            let places = || members.iter().map(|&npu| product.coordinate(npu, dim));
            places().max().unwrap_or(0) - places().min().unwrap_or(0)
        };
        let of_all = |dim| groups.iter().map(|members| spread(members, dim)).max().unwrap_or(0);
        apart = (0..apart.len()).map(of_all).collect();
    }
    let along = |(d, apart): (&Dimension, u32)| match d.block {
        Block::Ring => apart.min(d.size / 2),
        Block::FullyConnected => apart.min(1),
        Block::Switch => 2 * apart.min(1),
    };
    product.dims().iter().zip(apart).map(along).sum::<u32>().max(1)
}

/// Whether messages go farther than to a neighbour along a ring.
fn is_routed(placement: &Placement) -> bool {
    let mut phases = placement.plans.iter().flat_map(|plan| plan.phase_ids().map(move |phase| (plan, phase)));
    phases.any(|(plan, phase)| {
        let dim = plan.phases()[phase.index()].dim;
        !plan.goes_round(phase) || !matches!(placement.wires[usize::from(dim)], Wires::Ports(_))
    })
}

/// The rates and latencies that links have: of a product, which may have millions, each at least once.
fn link_kinds(machine: &Machine) -> Vec<(Rate, Ps)> {
    match machine {
        Machine::Product(product) => product.link_kinds().collect(),
        Machine::Graph(graph) => {
            let link = |(node, port)| graph.link(node, port);
            all_links(&**graph).map(link).map(|l| (l.rate, l.latency)).collect()
        }
    }
}

/// Refuses runs that could outlast simulated time (2^63 ps are 106 days), by a bound that hardly any run exceeds: every
/// byte through the slowest server four times per phase, in each of the endpoints that it passes, and one after the
/// other, every step of every chunk waiting for the longest link as often as the longest way has links, `hops`. With
/// `transit` endpoints forward at each of them. (The driver ends a run that exceeds it all the same.)
///
/// # Errors
/// [`RunError::Spec`] with the time or the bytes.
pub fn check_span(
    spec: &Spec,
    machine: &Machine,
    placement: &Placement,
    (demand, config, compute_ps): (&Demand, &CollectiveConfig, f64),
    contention: Option<&Contention>,
    (hops, transit): (u32, bool),
) -> Result<(), RunError> {
    const SPAN: f64 = Ps::HORIZON.0 as f64;
    let passes = if transit { hops } else { 1 };
    let fabric = machine.fabric();
    let links = link_kinds(machine);
    let endpoint = spec.endpoint.model().at_worst(contention)?;
    let slowest = links.iter().map(|l| l.0.bytes_per_s()).min().unwrap_or(u64::MAX).min(endpoint.slowest);
    let phases = placement.plans.iter().map(|p| p.phases().len()).max().unwrap_or(0) as f64;
    let steps = placement.plans.iter().map(|p| f64::from(p.steps())).fold(0.0, f64::max);
    let latency = links.iter().map(|l| l.1.0).max().unwrap_or(0) as f64 + endpoint.per_hop;
    let bytes = demand.total() as f64 * f64::from(demand.iterations);
    let collectives = f64::from(demand.iterations) * demand.collectives.len() as f64;
    let cuts = config.chunking_of.iter().map(|of| of.1).chain([config.chunking]);
    let most_chunks = cuts.map(|chunking| match chunking {
        Chunking::Size(size) | Chunking::AtMost(size) => bytes / size as f64 + collectives,
        Chunking::Count { most, .. } => f64::from(most) * collectives,
    });
    let chunks = most_chunks.fold(0.0, f64::max);
    let compute = compute_ps * f64::from(demand.iterations) * endpoint.stretch;
    let carried = bytes * f64::from(passes) * phases * 2.0 * f64::from(fabric.npus());
    if carried >= SPAN {
        let refusal = Refusal::of("", format!("the run may move {carried:.2e} bytes"));
        return Err(refusal.accepting("up to 9.2e18 over all NPUs").into());
    }
    let on_wires = bytes * f64::from(passes) * 4.0 * phases * (1e12 / slowest.max(1) as f64 + endpoint.per_byte);
    let most =
        on_wires + chunks * steps * (f64::from(hops) * latency + f64::from(passes) * endpoint.per_step) + compute;
    if most < SPAN {
        return Ok(());
    }
    let days = most / 1e12 / 86_400.0;
    let refusal = Refusal::of("", format!("the run may take {days:.0} days of simulated time"));
    Err(refusal.accepting("up to 106 days").into())
}
