//! How much memory NPUs and links take, before they take it.
//!
//! An estimate in bytes that were measured on runs of all backends and endpoints and rounded up. What exceeds the limit is
//! refused, with what would fit: an allocation that fails ends the process. What a whole run takes is found in
//! [`crate::run_memory`].

use crate::errors::RunError;
use crate::machine::Machine;
use crate::spec::{FoldSpec, Spec};
use syncline_core::Refusal;
use syncline_topology::Fabric;

/// What the process takes before it simulates.
pub(crate) const AT_REST: u64 = 85_000_000;
/// A node of a machine that is looked at for folding: its colour before and after a round, and its class.
const COLOURED: u64 = 40;
/// A member of a group: in the description, in the placement and in the layout.
const MEMBER: u64 = 24;
/// Bytes of the NPUs and links that are simulated.
pub(crate) fn of_fabric(spec: &Spec, fabric: &dyn Fabric) -> u64 {
    let npu = spec.endpoint.model().npu_bytes();
    let links = u64::from(fabric.links()).saturating_mul(spec.network.model().link_bytes());
    u64::from(fabric.npus()).saturating_mul(npu).saturating_add(links)
}

/// Bytes of the groups.
pub(crate) fn of_groups(spec: &Spec) -> u64 {
    spec.groups.as_ref().map_or(0, |g| g.members.iter().map(|members| members.len() as u64 * MEMBER).sum())
}

/// A refusal of what needs more than it may take, with what would fit.
pub(crate) fn refused(field: &str, what: &str, needed: u64, limit: u64, fits: &str) -> RunError {
    let size = |bytes: u64| match bytes {
        0..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    };
    let message = format!("{what} about {} of memory, of which {} may be taken", size(needed), size(limit));
    Refusal::of(field, message).accepting(format!("{fits}; or a larger --memory-limit")).into()
}

/// NPUs that fit, of so many that need so much.
pub(crate) fn fitting(npus: u32, needed: u64, limit: u64) -> u64 {
    let share = limit.saturating_sub(AT_REST) as f64 / needed.max(1) as f64;
    (f64::from(npus) * share) as u64
}

/// Refuses to look for NPUs that are alike where that takes too much memory.
///
/// # Errors
/// [`RunError::Spec`] with what would fit.
pub fn check_fold(spec: &Spec, machine: &Machine) -> Result<(), RunError> {
    let Some(limit) = spec.memory_limit_bytes else { return Ok(()) };
    let fabric = machine.fabric();
    let folds = spec.fold != FoldSpec::Off && matches!(machine, Machine::Product(_));
    let nodes = if folds { u64::from(fabric.nodes()) * COLOURED } else { 0 };
    let needed = AT_REST.saturating_add(nodes).saturating_add(of_groups(spec));
    if needed <= limit {
        return Ok(());
    }
    let fits = format!("about {} NPUs", fitting(fabric.npus(), needed, limit));
    Err(refused("fabric.npus", &format!("{} NPUs take", fabric.npus()), needed, limit, &fits))
}

/// Refuses to simulate more NPUs and links than fit.
///
/// # Errors
/// [`RunError::Spec`] with what would fit, and why the run is not folded.
pub fn check_fabric(spec: &Spec, fabric: &dyn Fabric, unfolded: Option<&str>) -> Result<(), RunError> {
    let Some(limit) = spec.memory_limit_bytes else { return Ok(()) };
    let needed = of_fabric(spec, fabric).saturating_add(of_groups(spec)).saturating_add(AT_REST);
    if needed <= limit {
        return Ok(());
    }
    let npus = fabric.npus();
    let why = unfolded.map_or(String::new(), |why| format!(" (which are not folded: {why})"));
    let fits = format!("about {} NPUs that are simulated", fitting(npus, needed, limit));
    Err(refused("fabric.npus", &format!("{npus} simulated NPUs{why} take"), needed, limit, &fits))
}
