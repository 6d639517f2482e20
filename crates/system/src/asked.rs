//! Which collectives a run asks of whom, before anything is decided about how these are carried out.

use crate::errors::RunError;
use crate::families::{Families, FamilyCohort};
use crate::job::job;
use crate::machine::Machine;
use crate::spec::Spec;
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_core::{NodeId, Ps, Rate};
use syncline_topology::Fabric;

/// Ranks up to which all pairs are looked at for the shape of a communicator.
const ALL_PAIRS: u32 = 64;
/// Links that are looked at for a shape, and those of one more way.
const MOST_LINKS: usize = 1 << 18;

/// What communicators of a family are asked for that are alike.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The number of the family; 0 where a run has none.
    pub family: u8,
    /// The NPUs of each communicator by rank.
    pub members: Vec<Vec<u32>>,
    /// The shape of the first of these communicators: those with the same number have the same links between their ranks.
    pub shape: u32,
    /// Kind, root and bytes of the collectives, each once.
    pub collectives: Vec<(String, u32, u64)>,
    /// How often an iteration asks for each.
    pub counts: Vec<u32>,
}

/// What the communicators of a run are asked for.
///
/// # Errors
/// [`RunError::Spec`] if the document does not describe a run.
pub fn asked(spec_json: &str) -> Result<Vec<Asked>, RunError> {
    asked_of(&Spec::read(spec_json)?)
}

/// [`asked`], of a description that has been read.
///
/// # Errors
/// As [`asked`].
pub fn asked_of(spec: &Spec) -> Result<Vec<Asked>, RunError> {
    let fabric = Machine::new(spec)?.fabric();
    let npus = fabric.npus();
    let everybody: Vec<u32> = (0..npus).collect();
    let job = job(spec)?;
    let families = Families::new(spec, &job, npus)?;
    let mut shapes = BTreeMap::new();
    let of_cohort = |cohort: &FamilyCohort<'_>| {
        let members = cohort.spec.groups.as_ref().map_or_else(|| vec![everybody.clone()], |g| g.members.clone());
        let known = shapes.len() as u32;
        let shape = *shapes.entry(shape(&*fabric, &members[0])).or_insert(known);
        let mut asked: BTreeMap<_, u32> = BTreeMap::new();
        for &collective in &cohort.demand.collectives {
            *asked.entry(collective).or_default() += 1;
        }
        Asked {
            family: cohort.family.0,
            members,
            shape,
            collectives: asked.keys().map(|&(kind, root, bytes)| (kind.to_string(), root.0, bytes)).collect(),
            counts: asked.into_values().collect(),
        }
    };
    Ok(families.cohorts.iter().map(of_cohort).collect())
}

/// The links between ranks, numbered as they are met, with their rates and latencies: between all pairs in a small
/// communicator, and in a large one between ranks that a power of two lies between, neighbours first.
fn shape(fabric: &dyn Fabric, members: &[u32]) -> Vec<(u32, Rate, Ps)> {
    let ranks = members.len() as u32;
    let steps = |step: &u32| ranks <= ALL_PAIRS || step.is_power_of_two() || (ranks - step).is_power_of_two();
    let mut numbers = BTreeMap::new();
    let (mut found, mut path) = (Vec::new(), Vec::new());
    for step in (1..ranks).filter(steps) {
        for rank in 0..ranks {
            if found.len() > MOST_LINKS {
                return found;
            }
            let [mut at, to] = [rank, (rank + step) % ranks].map(|rank| NodeId(members[rank as usize]));
            path.clear();
            fabric.route(at, to, &mut path);
            for &port in &path {
                let known = numbers.len() as u32;
                let number = *numbers.entry((at, port)).or_insert(known);
                let link = fabric.link(at, port);
                found.push((number, link.rate, link.latency));
                at = fabric.next(at, port).0;
            }
            found.push((u32::MAX, Rate::UNLIMITED, Ps::ZERO)); // so that ways of other lengths are other shapes
        }
    }
    found
}
