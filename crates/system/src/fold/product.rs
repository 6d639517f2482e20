//! Which NPUs of a product of dimensions are alike.
//!
//! Every step of their programs takes as long a block of the vector to an NPU at the same displacement. This module colours
//! the NPUs by that; refinement by the machine around them (`topology::quotient`) does the rest.

use super::{Doings, groups, oddity};
use crate::place::Placement;
use crate::spec::Spec;
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_collective::{PhaseId, Plan, Posting, Program, Rank, Way};
use syncline_core::{Grid, NodeId};
use syncline_endpoint::Wires;
use syncline_topology::quotient::{classes_of_uniform, is_comparable, refine};
use syncline_topology::{Fabric, Product, Quotient};

/// Displacements that are looked at before a check is called too long.
const MOST_PEERS: u64 = 20_000_000;

/// The folded fabric, and how many NPUs of the machine each NPU that takes part stands for.
///
/// # Errors
/// Why NPUs do not fold.
pub(super) fn quotient(
    spec: &Spec,
    product: &Arc<Product>,
    placements: &[&mut Placement],
    doings: Doings<'_>,
) -> Result<(Quotient, u64), String> {
    let (first, others) = placements.split_first().ok_or("there are no communicators")?;
    let mut colours = colours(product, first)?;
    for placement in others {
        combine(&mut colours, &self::colours(product, placement)?);
    }
    let everybody = product.npus() as usize;
    if !doings.classes.is_empty() {
        let classes: Vec<u32> = doings.classes.iter().map(|class| u32::from(class.0)).collect();
        combine(&mut colours[..everybody], &classes);
        combine(&mut colours[..everybody], &by_sends(product, placements, doings));
    }
    mark(&mut colours, spec.start.offsets.iter().copied().filter(|offset| offset.1 > 0));
    if !spec.job.stragglers().is_empty() {
        mark(&mut colours, spec.job.stragglers().iter().map(|&(npu, factor)| (npu, factor.to_bits())));
    }
    let colours = if product.is_uniform() && colours[..product.npus() as usize].iter().all(|&c| c == colours[0]) {
        classes_of_uniform(product)
    } else {
        refine(&**product, &colours).ok_or_else(|| incomparable(product))?
    };
    let quotient = Quotient::new(product.clone(), &colours);
    if quotient.npus() == product.npus() && product.npus() > 1 {
        return Err(format!("no two NPUs are alike{}", oddity(spec)));
    }
    let taking_part = doings.taking_part(product.npus(), placements);
    let active = |&n: &u32| taking_part.contains(quotient.representatives()[n as usize]);
    let mut sizes = (0..quotient.npus()).filter(active).map(|n| quotient.multiplicity(NodeId(n)));
    let multiplicity = sizes.next().unwrap_or(1);
    if sizes.any(|m| m != multiplicity) {
        return Err(format!("the classes of equal NPUs are of different sizes{}", oddity(spec)));
    }
    // A port of a switch's class stands for those of several NPUs. The packets of one class that are for
    // another come by different inputs of the switch, and by one of its class: as long as there is one class
    // they are served in the same order, but packets of others would come in between at other times.
    let classes = (0..quotient.npus()).filter(active).count();
    let switched = quotient.nodes() > quotient.npus();
    if classes > 1 && switched && spec.network.model().takes_turns_at_switches() {
        return Err(format!("{classes} kinds of NPUs share switches, whose packets take turns{}", oddity(spec)));
    }
    Ok((quotient, multiplicity))
}

/// Tells apart what other colours tell apart, too.
fn combine(colours: &mut [u32], others: &[u32]) {
    let mut seen: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (colour, &other) in colours.iter_mut().zip(others) {
        let next = seen.len() as u32;
        *colour = *seen.entry((*colour, other)).or_insert(next);
    }
}

/// Colours by the displacements of all whom an NPU sends messages to, and by the rank where lengths depend on it.
fn by_sends(product: &Product, placements: &[&mut Placement], doings: Doings<'_>) -> Vec<u32> {
    let grid = product.grid();
    let displacement = |from: u32, to: u32| grid.rank((0..grid.dims()).map(|d| grid.displacement(from, to, d)));
    let mut all = vec![Vec::new(); product.npus() as usize];
    for (placement, family) in placements.iter().zip(doings.families) {
        let groups = groups(placement, product.npus());
        for send in doings.sends.iter().filter(|send| send.message.family == *family) {
            for members in groups.iter() {
                for (rank, &member) in (0..).map(Rank).zip(members) {
                    if doings.classes[member.index()] == send.class && send.from.is_none_or(|from| from == rank) {
                        let peer = members[send.message.peer.of(rank, members.len() as u32).index()];
                        all[member.index()].push((displacement(member.0, peer.0), send.from));
                    }
                }
            }
        }
    }
    let mut seen: BTreeMap<Vec<(u32, Option<Rank>)>, u32> = BTreeMap::new();
    let mut colour = |peers: Vec<(u32, Option<Rank>)>| {
        let next = seen.len() as u32;
        *seen.entry(peers).or_insert(next)
    };
    all.into_iter().map(&mut colour).collect()
}

fn incomparable(product: &Product) -> String {
    format!("{} NPUs are too many and too different to compare", product.npus())
}

/// Gives NPUs that differ from the others, as those that compute more slowly or begin later, colours of their own, one for
/// each way in which they do.
fn mark(colours: &mut [u32], odd: impl Iterator<Item = (u32, u64)>) {
    let mut next = colours.iter().max().map_or(0, |&c| c + 1);
    let mut seen: BTreeMap<(u32, u64), u32> = BTreeMap::new();
    for (npu, way) in odd {
        let Some(colour) = colours.get_mut(npu as usize) else { continue };
        *colour = *seen.entry((*colour, way)).or_insert_with(|| {
            next += 1;
            next - 1
        });
    }
}

/// A colour per node: equal for NPUs that do the same.
fn colours(product: &Product, placement: &Placement) -> Result<Vec<u32>, String> {
    let mut lines = Vec::new();
    for plan in &placement.plans {
        for (phase, p) in plan.phase_ids().zip(plan.phases()) {
            let program = plan.program(phase, true);
            if program.has_switch() && placement.space.groups.is_some() {
                return Err("groups share the switches that reduce for them".into());
            }
            if matches!(program, Program::Direct { posting: Posting::Sequential | Posting::Random(_), .. }) {
                return Err("the order in which a rank posts its messages depends on its number".into());
            }
            if names_links(&program) {
                return Err(format!("steps of {} along dimension {} name links", p.kind, p.dim));
            }
            if !program.is_rotation_symmetric() && !program.is_uniform() {
                return Err(format!("the ranks of {} along dimension {} have different roles", p.kind, p.dim));
            }
            lines.push((p.dim, p.ranks));
        }
    }
    lines.sort_unstable();
    lines.dedup();
    let nodes = product.nodes() as usize;
    let Some(groups) = &placement.space.groups else {
        // Ranks are NPU numbers, so a rank's peers are at the same displacements from everywhere. A group
        // that sees the product as a line is one only if there is no more than a line, or it goes by the
        // product's distances.
        let on_grid = |p: &Plan| matches!(p.program(PhaseId(0), true), Program::DirectOnGrid { .. });
        let sizes = &placement.space.sizes;
        let of_all = |p: &Plan| p.phases().iter().any(|p| sizes.len() == 1 || usize::from(p.dim) == sizes.len());
        let line = product.dims().iter().filter(|d| d.size > 1).count() <= 1;
        let flat = !line && placement.plans.iter().any(|p| of_all(p) && !on_grid(p));
        return if flat {
            by_displacement(product, &[(0..product.npus()).map(NodeId).collect()], placement, &lines)
        } else {
            Ok(vec![0; nodes])
        };
    };
    by_displacement(product, groups, placement, &lines)
}

/// Whether steps of a program go by links that they name, which lead somewhere else on the folded fabric.
fn names_links(program: &Program) -> bool {
    let Program::Written(written) = program else { return false };
    written.distinct_steps().iter().any(|step| matches!(step.detail.way, Way::Link(_)))
}

/// Colours by the displacements of all whom an NPU works with, along each dimension of its group.
fn by_displacement(
    product: &Product,
    groups: &[Vec<NodeId>],
    placement: &Placement,
    lines: &[(u8, u32)],
) -> Result<Vec<u32>, String> {
    if !is_comparable(product) {
        return Err(incomparable(product));
    }
    let members: u64 = groups.iter().map(|g| g.len() as u64).sum();
    let peers: u64 = lines.iter().map(|&(_, ranks)| u64::from(ranks)).sum();
    if members * peers > MOST_PEERS {
        return Err(format!("{members} NPUs with {peers} peers each are too many to compare"));
    }
    let displacement = |from: NodeId, to: NodeId| {
        let grid = product.grid();
        grid.rank((0..grid.dims()).map(|d| grid.displacement(from.0, to.0, d)))
    };
    let grid = Grid::new(placement.space.sizes.iter().copied()).with_line_of_all();
    let mut colours = vec![0; product.nodes() as usize];
    let mut seen: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    for (group, members) in groups.iter().enumerate() {
        for (rank, &member) in (0u32..).zip(members) {
            let mut all = Vec::new();
            for &(dim, ranks) in lines {
                let at = grid.coordinate(rank, dim.into());
                let peer = |k: u32| members[grid.moved(rank, dim.into(), at, (at + k) % ranks) as usize];
                all.extend((1..ranks).map(|k| displacement(member, peer(k))));
                // Rings in orders of their own: who comes next, and through which port.
                let Wires::Orders(lanes) = &placement.wires[usize::from(dim)] else { continue };
                for ring in lanes.iter().map(|lane| &lane[group]) {
                    let place = ring.ranks.iter().position(|&r| r.0 == at).unwrap_or(0);
                    let next = ring.ranks[(place + 1) % ring.ranks.len()].0;
                    all.push(displacement(member, peer((next + ranks - at) % ranks)));
                    all.push(ring.ports.as_ref().map_or(0, |ports| u32::from(ports[place].0)));
                }
            }
            let next = seen.len() as u32 + 1;
            colours[member.index()] = *seen.entry(all).or_insert(next);
        }
    }
    Ok(colours)
}
