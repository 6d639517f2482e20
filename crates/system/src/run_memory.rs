//! How much memory a run will take, before it takes it: what is kept for every chunk and message, beside NPUs and links
//! ([`crate::memory`]).

use crate::errors::RunError;
use crate::memory::{AT_REST, fitting, of_fabric, of_groups, refused};
use crate::preview::Preview;
use crate::setup::RunPlan;
use crate::spec::{FabricSpec, JobSpec, Spec};
use syncline_collective::Program;
use syncline_core::NodeId;
use syncline_core::stats::MAX_WINDOWS;
use syncline_endpoint::Layout;
use syncline_endpoint::message::LEAVING;

/// A chunk of the run in the log and in the endpoint, both of which move as they grow, and each of its phases on a traced
/// NPU.
const CHUNK: u64 = 110;
const PHASE: u64 = 56;
/// A chunk in flight on an NPU, and each of its threads.
const RUNNING: u64 = 240;
const THREAD: u64 = 120;
/// A message in flight, with the events that move it.
const MESSAGE: u64 = 220;
/// A message of a traced NPU that is noted, a span of its links, and their places in the tables.
const NOTED: u64 = 400;
/// A link of a path: its hop, and its port in the table of known paths, both of which grow.
const PATH_LINK: u64 = 12;
/// A node of a graph of a file: as text, as it is checked, and on an NPU that runs it.
const NODE: u64 = 4_500;
/// A window of one quantity, and its place in the tables.
const WINDOW: u64 = 60;

/// Bytes that a run will take.
pub(crate) fn of_run(spec: &Spec, plan: &RunPlan, preview: &Preview) -> u64 {
    let layouts = || plan.cohorts.iter().map(|cohort| &cohort.layout);
    let phases = layouts().flat_map(|l| l.plans()).map(|p| p.phases().len()).max().unwrap_or(0) as u64;
    let traced = spec.output.trace_npus.len() as u64 + 1;
    let chunks = preview.chunks.saturating_mul(CHUNK + traced * phases * PHASE);
    let (npus, in_flight) = (u64::from(preview.simulated_npus), in_flight(spec, plan, preview));
    let threads = layouts().map(Layout::threads).max().unwrap_or(1);
    let running = npus.saturating_mul(in_flight).saturating_mul(RUNNING + u64::from(threads) * THREAD);
    let under_way = npus.saturating_mul(in_flight).saturating_mul(layouts().map(under_way).max().unwrap_or(1));
    let messages = under_way.min(preview.messages).saturating_mul(MESSAGE);
    let noted = if spec.output.trace_npus.is_empty() { 0 } else { u64::from(spec.output.trace_limit) };
    let noted = noted.min(preview.messages) * NOTED;
    let series = 16 + plan.fabric.class_names().len() as u64;
    let window = spec.output.resolution().in_a_long_run();
    let windows = preview.lower_bound_ps.checked_div(window.0).unwrap_or(0).saturating_mul(4);
    let windows = windows.clamp(1 << 13, MAX_WINDOWS as u64) * series * WINDOW;
    let paths = of_paths(spec, plan, preview);
    let nodes = of_graphs(spec);
    let connections = of_connections(spec, preview);
    let fabric = of_fabric(spec, &*plan.fabric);
    let parts = [fabric, of_groups(spec), nodes, chunks, running, messages, noted, windows, paths, connections];
    parts.into_iter().fold(AT_REST, u64::saturating_add)
}

/// Bytes of graphs of files.
fn of_graphs(spec: &Spec) -> u64 {
    let JobSpec::Graph { graph, .. } = &spec.job else { return 0 };
    graph.classes.iter().map(|class| class.nodes.len() as u64 * NODE).sum()
}

/// Bytes of the paths between NPUs that are not neighbours, each of which is kept once by routers of packets and by
/// endpoints that forward. On a product, pairs at the same displacement share theirs, of which there may be two.
fn of_paths(spec: &Spec, plan: &RunPlan, preview: &Preview) -> u64 {
    if !plan.transit && !spec.network.model().keeps_paths() {
        return 0;
    }
    let npus = u64::from(preview.npus);
    let pairs = if matches!(spec.fabric, FabricSpec::Product { .. }) { 2 * npus } else { npus * npus };
    let paths = pairs.min(preview.messages / preview.chunks.max(1));
    let links = paths as f64 * preview.message_hops as f64 / preview.messages.max(1) as f64;
    (links as u64).saturating_mul(PATH_LINK)
}

/// Bytes of the connections of a transport: as many as a chunk has messages, each between other NPUs.
fn of_connections(spec: &Spec, preview: &Preview) -> u64 {
    let npus = u64::from(preview.npus);
    let connections = (preview.messages / preview.chunks.max(1)).min(npus.saturating_mul(npus));
    let message = preview.byte_hops / preview.message_hops.max(1);
    connections.saturating_mul(spec.network.model().connection_bytes(message))
}

/// Messages of a chunk and NPU that are under way at once: of threads that go on when a message has come, one and the next.
fn under_way(layout: &Layout) -> u64 {
    let fabric = layout.fabric();
    let at_once = u64::from(fabric.ports(NodeId(0)).max(LEAVING));
    let phases = layout.plans().flat_map(|plan| plan.phase_ids().map(|phase| plan.program(phase, true)));
    let of_phase =
        |program: Program| u64::from(program.threads()) * if program.pacing().one_by_one { at_once } else { 2 };
    phases.map(of_phase).max().unwrap_or(1)
}

/// Chunks of an NPU that are in flight at once.
fn in_flight(spec: &Spec, plan: &RunPlan, preview: &Preview) -> u64 {
    let inflight = plan.cohorts.iter().map(|cohort| cohort.config.inflight).max().unwrap_or(1);
    let most = spec.endpoint.model().in_flight(inflight, preview.chunk_bytes);
    most.saturating_mul(plan.share.into()).min(preview.chunks)
}

/// Refuses a run that takes more than it may.
///
/// # Errors
/// [`RunError::Spec`] with what would fit.
pub fn check(spec: &Spec, plan: &RunPlan, preview: &Preview) -> Result<(), RunError> {
    let Some(limit) = spec.memory_limit_bytes else { return Ok(()) };
    let needed = preview.memory_bytes;
    if needed <= limit {
        return Ok(());
    }
    if of_paths(spec, plan, preview) > limit {
        let fits = "an algorithm that sends to neighbours";
        return Err(refused("collectives.algorithm", "routes over many links take", needed, limit, fits));
    }
    let in_flight = in_flight(spec, plan, preview);
    let chunks = (preview.chunks as f64 * limit.saturating_sub(AT_REST) as f64 / needed as f64) as u64;
    let (field, fits) = if in_flight > 1 && preview.chunks > 2 * in_flight {
        ("collectives.chunking", format!("about {chunks} chunks instead of {}", preview.chunks))
    } else if in_flight > 1 {
        ("collectives.inflight", format!("about {} chunks in flight at once", chunks.clamp(1, in_flight)))
    } else {
        ("fabric.npus", format!("about {} NPUs that are simulated", fitting(preview.simulated_npus, needed, limit)))
    };
    Err(refused(field, "the run takes", needed, limit, &fits))
}
