//! Whether a run can be folded: one NPU simulated for each class of NPUs that are alike.
//!
//! NPUs are alike if the machine looks the same from them and they do the same: then they are in the same state at every time,
//! and one stands for all, exactly. On products of dimensions ([`product`]) NPUs have coordinates, so that it is enough to
//! compare at which displacements they work with others. On fabrics of any shape ([`graph`]) permutations of the NPUs are tried
//! out, since routes may depend on numbers.

mod graph;
mod product;

use crate::job::Sending;
use crate::machine::Machine;
use crate::place::Placement;
use crate::spec::{FabricSpec, FoldSpec, Spec};
use std::borrow::Cow;
use std::sync::Arc;
use syncline_core::{NodeId, NodeSet};
use syncline_topology::{Fabric, Quotient, all_links};
use syncline_workload::{ClassId, FamilyId};

/// What comes of an attempt to fold.
#[derive(Debug)]
pub enum Folding {
    /// The fabric to simulate, and how many NPUs of the machine each of its NPUs stands for.
    Folded(Arc<dyn Fabric>, u64),
    /// Why everything is simulated.
    Unfolded(String),
}

/// What NPUs do, as far as it decides which of them are alike.
#[derive(Clone, Copy, Debug)]
pub struct Doings<'a> {
    /// The class of every NPU; none if there is one class.
    pub classes: &'a [ClassId],
    /// The class of NPUs that do nothing.
    pub idle: ClassId,
    /// Messages between two ranks.
    pub sends: &'a [Sending],
    /// By cohort, its family.
    pub families: &'a [FamilyId],
}

/// The groups of a placement on a machine of `npus` NPUs, which are all one if it has none.
fn groups(placement: &Placement, npus: u32) -> Cow<'_, [Vec<NodeId>]> {
    match &placement.space.groups {
        Some(groups) => Cow::Borrowed(groups),
        None => Cow::Owned(vec![(0..npus).map(NodeId).collect()]),
    }
}

impl Doings<'_> {
    /// NPUs that are in a communicator or whose class has a graph, of `npus` NPUs.
    fn taking_part(&self, npus: u32, placements: &[&mut Placement]) -> NodeSet {
        let groups = placements.iter().map(|placement| placement.space.groups.as_deref());
        let members = match groups.collect::<Option<Vec<&[Vec<NodeId>]>>>() {
            Some(groups) => groups.into_iter().flatten().flatten().copied().collect(),
            None => (0..npus).map(NodeId).collect::<Vec<NodeId>>(),
        };
        let busy = (0..).map(NodeId).zip(self.classes).filter(|(_, class)| **class != self.idle).map(|(npu, _)| npu);
        NodeSet::new(npus, &members.into_iter().chain(busy).collect::<Vec<NodeId>>())
    }
}

/// Folds a run if it may and can be; on success the spaces of the placements, one for each cohort of communicators, name the
/// representatives. `even` says why blocks are of different lengths, if they are.
pub fn fold(
    spec: &Spec,
    machine: &Machine,
    placements: &mut [&mut Placement],
    doings: Doings<'_>,
    even: Result<(), String>,
) -> Folding {
    match try_fold(spec, machine, placements, doings, even) {
        Ok((quotient, multiplicity)) => {
            for placement in placements {
                placement.space.representatives = Some(quotient.representatives().to_vec());
            }
            Folding::Folded(Arc::new(quotient), multiplicity)
        }
        Err(reason) => Folding::Unfolded(reason),
    }
}

fn try_fold(
    spec: &Spec,
    machine: &Machine,
    placements: &[&mut Placement],
    doings: Doings<'_>,
    even: Result<(), String>,
) -> Result<(Quotient, u64), String> {
    if spec.fold == FoldSpec::Off {
        return Err("folding is turned off".into());
    }
    if !spec.changes.is_empty() {
        return Err("links change during the run".into());
    }
    if !spec.attributes.is_empty() {
        return Err("nodes have attributes of their own".into());
    }
    if spec.start.jitter_ps > 1 {
        return Err("NPUs begin at random times".into());
    }
    if let Some(reason) = spec.job.unfolded() {
        return Err(reason.into());
    }
    if let Some(reason) = spec.endpoint.model().unfolded() {
        return Err(reason.into());
    }
    let (quotient, multiplicity) = match machine {
        Machine::Product(product) => {
            if let Some(reason) = spec.network.model().unfolded(&mut product.link_kinds()) {
                return Err(reason.into());
            }
            even?;
            product::quotient(spec, product, placements, doings)?
        }
        Machine::Graph(graph) => {
            let links = &mut all_links(&**graph).map(|(node, port)| graph.link(node, port));
            let mut kinds = links.map(|link| (link.rate, link.latency));
            if let Some(reason) = spec.network.model().unfolded(&mut kinds) {
                return Err(reason.into());
            }
            graph::quotient(spec, graph, placements, doings, &even)?
        }
    };
    if let Some(n) = spec.output.trace_npus.iter().find(|&&n| !quotient.representatives().contains(&NodeId(n))) {
        return Err(format!("NPU {n} is to be traced, but another NPU would represent it"));
    }
    Ok((quotient, multiplicity))
}

/// What a description has that makes NPUs differ, for people.
fn oddity(spec: &Spec) -> String {
    let link = match &spec.fabric {
        FabricSpec::Product { odd_links, .. } => {
            odd_links.first().map(|l| format!(" (a link of NPU {} is slower)", l.npu))
        }
        FabricSpec::Graph { .. } => None,
    };
    let straggler = spec.job.stragglers().first().map(|s| format!(" (NPU {} computes more slowly)", s.0));
    let late = spec.start.offsets.first().map(|s| format!(" (NPU {} begins later)", s.0));
    link.or(straggler).or(late).unwrap_or_default()
}
