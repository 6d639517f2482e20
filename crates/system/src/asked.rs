//! Which collectives a run asks of whom, before anything is decided about how these are carried out.

use crate::errors::RunError;
use crate::families::Families;
use crate::job::job;
use crate::machine::Machine;
use crate::spec::Spec;
use serde::Serialize;

/// What communicators of a family are asked for that are alike.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The number of the family; 0 where a run has none.
    pub family: u8,
    /// The NPUs of each communicator by rank.
    pub members: Vec<Vec<u32>>,
    /// Kind, root and bytes of the collectives, each once.
    pub collectives: Vec<(String, u32, u64)>,
}

/// What the communicators of a run are asked for.
///
/// # Errors
/// [`RunError::Spec`] if the document does not describe a run.
pub fn asked(spec_json: &str) -> Result<Vec<Asked>, RunError> {
    let spec = Spec::read(spec_json)?;
    let npus = Machine::new(&spec)?.fabric().npus();
    let everybody: Vec<u32> = (0..npus).collect();
    let job = job(&spec)?;
    let families = Families::new(&spec, &job, npus)?;
    let of_cohort = |cohort: &crate::families::FamilyCohort<'_>| {
        let mut collectives = cohort.demand.collectives.clone();
        collectives.sort_unstable();
        collectives.dedup();
        Asked {
            family: cohort.family.0,
            members: cohort.spec.groups.as_ref().map_or_else(|| vec![everybody.clone()], |g| g.members.clone()),
            collectives: collectives.into_iter().map(|(kind, root, bytes)| (kind.to_string(), root.0, bytes)).collect(),
        }
    };
    Ok(families.cohorts.iter().map(of_cohort).collect())
}
