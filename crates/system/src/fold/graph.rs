//! Which NPUs of a fabric of any shape are alike.
//!
//! What NPUs do is written down as whom they send to, in an order that is the same for NPUs that do the same; a permutation
//! of the NPUs that keeps all of it, and the ways of the messages, is a symmetry of the run (`topology::symmetry`). Tried are
//! rotations: of blocks of NPUs that follow one another by number, or by group and rank. They take servers to servers,
//! GPUs to others of their server, groups to groups, and ranks to ranks of a ring or of a dimension.

use super::{Doings, groups};
use crate::place::Placement;
use crate::spec::Spec;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use syncline_collective::{LineRank, PhaseId, Plan, Posting, Program, Rank, Way};
use syncline_core::{Grid, NodeId};
use syncline_endpoint::Wires;
use syncline_topology::symmetry::{Outputs, Symmetries, Target, Targets, Unlike};
use syncline_topology::{Fabric, Graph, Quotient};

/// Steps that are looked at before a check is called too long.
const MOST_STEPS: u64 = 20_000_000;
/// Permutations that are tried: those of 2^10 NPUs in several orders.
const MOST_TRIES: usize = 400;

/// The folded fabric, and how many NPUs of the machine each NPU that takes part stands for.
///
/// # Errors
/// Why NPUs do not fold.
pub(super) fn quotient(
    spec: &Spec,
    graph: &Arc<Graph>,
    placements: &[&mut Placement],
    doings: Doings<'_>,
    even: &Result<(), String>,
) -> Result<(Quotient, u64), String> {
    let npus = graph.npus();
    let taking_part = doings.taking_part(npus, placements);
    let mut run = Run::new(npus);
    run.targets = oddities(spec, doings, npus);
    for npu in (0..npus).map(NodeId).filter(|&npu| !taking_part.contains(npu)) {
        run.targets[npu.index()] = None;
    }
    for (number, placement) in placements.iter().enumerate() {
        run.add(placement, doings, number)?;
    }
    let members: Vec<NodeId> = (0..npus).map(NodeId).filter(|&npu| taking_part.contains(npu)).collect();
    // Of a collective from or to a root nothing else has to be known.
    let mut refused: Option<String> = None;
    let mut tried = run.rotations(&members).take(MOST_TRIES);
    if !tried.any(|images| run.check_ranks(&images, even).map_err(|why| refused.get_or_insert(why)).is_ok()) {
        return Err(refused.map_or_else(|| "one NPU takes part".into(), |why| unlike(&why)));
    }
    let in_order = spec.network.model().takes_turns_at_switches();
    let outputs = if in_order { Outputs::InOrder } else { Outputs::AtOnce };
    let ways = spec.graphs.ways(graph, outputs, &run.targets)?;
    let mut symmetries = Symmetries::new(&**graph, outputs, &run.targets, &ways);
    // Of all that fails, what is nearest to a symmetry tells most.
    let mut why: Option<Unlike> = None;
    for images in run.rotations(&members).take(MOST_TRIES) {
        // What ranks are tells more than that they do not do the same.
        let ranks = run.check_ranks(&images, even).map_err(Unlike::Doings);
        let added = ranks.and_then(|()| symmetries.compare(&images)).and_then(|()| symmetries.add(&images));
        if let Err(reason) = added
            && why.as_ref().is_none_or(|known| known.nearness() < reason.nearness())
        {
            why = Some(reason);
        }
        if symmetries.multiplicity() == members.len() as u64 {
            break;
        }
    }
    match symmetries.multiplicity() {
        ..=1 => Err(match why {
            Some(reason) => unlike(reason.why()),
            None => "one NPU takes part".into(),
        }),
        multiplicity => Ok((symmetries.quotient(graph.clone()), multiplicity)),
    }
}

/// That no permutation is a symmetry, with what is nearest to a reason.
fn unlike(why: &str) -> String {
    format!("no rotation of NPUs that was tried leaves the run as it is: {why}")
}

/// NPUs that differ in class, speed or start differ in their first target, which is themselves.
fn oddities(spec: &Spec, doings: Doings<'_>, npus: u32) -> Targets {
    let mut ways: Vec<(u32, u64, u64)> = vec![(0, 1f64.to_bits(), 0); npus as usize];
    for (way, class) in ways.iter_mut().zip(doings.classes) {
        way.0 = class.0.into();
    }
    for &(npu, factor) in spec.job.stragglers() {
        ways.get_mut(npu as usize).into_iter().for_each(|way| way.1 = factor.to_bits());
    }
    for &(npu, offset) in &spec.start.offsets {
        ways.get_mut(npu as usize).into_iter().for_each(|way| way.2 = offset);
    }
    let mut seen = BTreeMap::new();
    let number = |(npu, way): (u32, &(u32, u64, u64))| {
        let next = seen.len() as u32;
        Some(vec![(*seen.entry(*way).or_insert(next), Target::To(NodeId(npu), 0))])
    };
    (0..).zip(&ways).map(number).collect()
}

/// What is run, as far as it decides which NPUs are alike.
struct Run {
    targets: Targets,
    /// Purposes that have been numbered.
    purposes: u32,
    steps: u64,
    cohorts: Vec<Ranks>,
}

/// The ranks of a cohort.
struct Ranks {
    /// Members by group and rank.
    members: Vec<NodeId>,
    /// Per member NPU, its rank.
    of: Vec<Option<Rank>>,
    grid: Grid,
    /// Per dimension, why ranks along it cannot take each other's places.
    roles: Vec<Result<(), String>>,
}

impl Run {
    fn new(npus: u32) -> Run {
        Run { targets: vec![None; npus as usize], purposes: u32::from(u16::MAX), steps: 0, cohorts: Vec::new() }
    }

    /// Adds what the members of a cohort do.
    fn add(&mut self, placement: &Placement, doings: Doings<'_>, cohort: usize) -> Result<(), String> {
        let npus = self.targets.len() as u32;
        let groups = &*groups(placement, npus);
        let grid = Grid::new(placement.space.sizes.iter().copied());
        let grid = if placement.wires.len() > grid.dims() { grid.with_line_of_all() } else { grid };
        let mut roles: Vec<Result<(), String>> = vec![Ok(()); grid.dims_with_lines()];
        let mut differ: Option<String> = None;
        for plan in placement.plans.iter().filter(|plan| plan.kind().is_rooted()) {
            differ = Some(format!("the root of a {} is unlike other ranks", plan.kind()));
        }
        for plan in &placement.plans {
            for phase in plan.phase_ids() {
                self.add_phase(placement, groups, &grid, (plan, phase))?;
                if let Err(why) = check_role(plan, phase) {
                    roles[usize::from(plan.phases()[phase.index()].dim)] = Err(why);
                }
            }
        }
        let family = doings.families[cohort];
        for send in doings.sends.iter().filter(|send| send.message.family == family) {
            self.purposes += 1;
            for members in groups {
                for (rank, &member) in (0..).map(Rank).zip(members) {
                    let sends = doings.classes[member.index()] == send.class;
                    if sends && send.from.is_none_or(|from| from == rank) {
                        let peer = send.message.peer.of(rank, members.len() as u32);
                        self.sends(member, Target::To(members[peer.index()], 0));
                    }
                }
            }
        }
        if doings.sends.iter().any(|send| send.message.family == family && send.from.is_some()) {
            differ = Some("the sizes of an exchange depend on ranks".into());
        }
        if let Some(why) = differ {
            roles.iter_mut().for_each(|role| *role = Err(why.clone()));
        }
        let mut of = vec![None; npus as usize];
        for members in groups {
            for (rank, &member) in (0..).map(Rank).zip(members) {
                of[member.index()] = Some(rank);
            }
        }
        self.cohorts.push(Ranks { members: groups.concat(), of, grid, roles });
        Ok(())
    }

    fn sends(&mut self, npu: NodeId, target: Target) {
        let purpose = self.purposes;
        self.targets[npu.index()].get_or_insert_default().push((purpose, target));
    }

    /// Adds whom the members of groups send to in a phase, lane by lane.
    fn add_phase(
        &mut self,
        placement: &Placement,
        groups: &[Vec<NodeId>],
        grid: &Grid,
        (plan, phase): (&Plan, PhaseId),
    ) -> Result<(), String> {
        let dim = usize::from(plan.phases()[phase.index()].dim);
        let wires = &placement.wires[dim];
        let lanes = match wires {
            Wires::Orders(lanes) if plan.goes_round(phase) => lanes.len(),
            Wires::Ports(_) => return Err("rings are wired as on products of dimensions".into()),
            _ => 1,
        };
        let mut known: BTreeMap<u32, Vec<(LineRank, u16)>> = BTreeMap::new();
        for lane in 0..lanes {
            self.purposes += 1;
            for (group, members) in groups.iter().enumerate() {
                for (rank, &member) in (0u32..).zip(members) {
                    if !plan.takes_part(phase, |dim| grid.coordinate(rank, dim.into())) {
                        continue;
                    }
                    let at = grid.coordinate(rank, dim);
                    let node = |there: LineRank| members[grid.moved(rank, dim, at, there.0) as usize];
                    match wires {
                        Wires::Orders(lanes) if plan.goes_round(phase) => {
                            let ring = &lanes[lane][group];
                            let place = ring.ranks.iter().position(|&r| r.0 == at).unwrap_or(0);
                            let next = node(ring.ranks[(place + 1) % ring.ranks.len()]);
                            let port = ring.ports.as_ref().map(|ports| Target::Port(ports[place]));
                            self.sends(member, port.unwrap_or(Target::To(next, 0)));
                        }
                        _ => {
                            let peers = match known.entry(at) {
                                Entry::Occupied(known) => known.into_mut(),
                                Entry::Vacant(place) => {
                                    place.insert(peers(plan, phase, LineRank(at), &mut self.steps)?)
                                }
                            };
                            for &(peer, choice) in &*peers {
                                self.sends(member, Target::To(node(peer), choice));
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Rotations of blocks of NPUs, those first that would fold most.
    fn rotations(&self, members: &[NodeId]) -> impl Iterator<Item = Vec<NodeId>> {
        let npus = self.targets.len();
        let mut orders = vec![members.to_vec()];
        for cohort in &self.cohorts {
            if cohort.members.len() == members.len() && !orders.contains(&cohort.members) {
                orders.push(cohort.members.clone());
            }
        }
        let count = members.len();
        let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
        let mut tries: Vec<(usize, usize, usize)> = Vec::new();
        for order in 0..orders.len() {
            for block in divisors(count) {
                tries.extend(divisors(block).filter(|&step| step < block).map(|step| (order, block, step)));
            }
        }
        tries.sort_by_key(|&(order, block, step)| (std::cmp::Reverse((block / step, block)), order));
        tries.into_iter().map(move |(order, block, step)| {
            let mut images: Vec<NodeId> = (0..npus as u32).map(NodeId).collect();
            for (place, npu) in orders[order].iter().enumerate() {
                let there = place / block * block + (place % block + step) % block;
                images[npu.index()] = orders[order][there];
            }
            images
        })
    }

    /// Whether members take the places only of ranks that do the same.
    fn check_ranks(&self, images: &[NodeId], even: &Result<(), String>) -> Result<(), String> {
        for cohort in &self.cohorts {
            for &member in &cohort.members {
                let image = images[member.index()];
                let (Some(rank), Some(there)) = (cohort.of[member.index()], cohort.of[image.index()]) else {
                    return Err(format!("NPU {member} and NPU {image} are not in communicators of the same kind"));
                };
                if rank == there {
                    continue;
                }
                even.clone()?;
                for (dim, role) in cohort.roles.iter().enumerate() {
                    let along = |rank: Rank| cohort.grid.coordinate(rank.0, dim);
                    if role.is_err() && along(rank) != along(there) {
                        role.clone()?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether the ranks of a phase can take each other's places.
fn check_role(plan: &Plan, phase: PhaseId) -> Result<(), String> {
    let (program, of_phase) = (plan.program(phase, true), plan.phases()[phase.index()]);
    if matches!(program, Program::Direct { posting: Posting::Sequential | Posting::Random(_), .. }) {
        return Err("the order in which a rank posts its messages depends on its number".into());
    }
    if !program.is_rotation_symmetric() {
        return Err(format!("the ranks of {} along dimension {} have different roles", of_phase.kind, of_phase.dim));
    }
    Ok(())
}

/// Whom a rank sends to in a phase, in the order of its first messages, and by which way.
fn peers(plan: &Plan, phase: PhaseId, rank: LineRank, looked_at: &mut u64) -> Result<Vec<(LineRank, u16)>, String> {
    let program = plan.program(phase, true);
    let of_phase = plan.phases()[phase.index()];
    if program.has_switch() {
        return Err("runs in which switches reduce are folded on products of dimensions only".into());
    }
    // Around a ring all messages of a rank go to the next one.
    let steps = if matches!(program, Program::Ring { .. } | Program::Relay { .. }) { 1 } else { usize::MAX };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for slot in program.slots(rank).take(steps) {
        *looked_at += 1;
        if *looked_at > MOST_STEPS {
            return Err("the steps of ranks are too many to compare".into());
        }
        let step = program.step(rank, slot);
        if !step.op.sends() {
            continue;
        }
        let choice = match program.way(rank, slot, &step) {
            Way::Route => 0,
            Way::Choice(choice) => choice,
            Way::Over(_) | Way::Link(_) | Way::Through(_) => {
                return Err(format!("steps of {} along dimension {} name links or nodes", of_phase.kind, of_phase.dim));
            }
        };
        if seen.insert((step.to, choice)) {
            found.push((step.to, choice));
        }
    }
    Ok(found)
}
