//! The communicators of a description, sorted into cohorts.

use crate::cohorts::{CohortId, Group, Members, Precedence, Signed, sign};
use crate::errors::RunError;
use crate::job::{Demand, Job};
use crate::spec::{FabricSpec, FamilySpec, GroupsSpec, MembersSpec, Spec};
use std::borrow::Cow;
use std::sync::Arc;
use syncline_core::{Grid, Id, NodeId, Refusal};
use syncline_workload::{ClassId, FamilyId};

/// A cohort of a description.
#[derive(Debug)]
pub struct FamilyCohort<'a> {
    /// Its family.
    pub family: FamilyId,
    /// What its communicators are asked for.
    pub demand: Demand,
    /// The description with the groups of the cohort, and with the collectives of its family.
    pub spec: Cow<'a, Spec>,
}

/// The cohorts of a description.
#[derive(Debug)]
pub struct Families<'a> {
    /// In the order of families; at least one.
    pub cohorts: Vec<FamilyCohort<'a>>,
    /// The class of every NPU; none if there is one class of all.
    pub classes: Arc<[ClassId]>,
    signed: Option<(Signed, Vec<Group>)>,
}

impl<'a> Families<'a> {
    /// Those of a description for `npus` NPUs.
    ///
    /// # Errors
    /// [`RunError::Spec`] if families or classes are none of these NPUs.
    pub fn new(spec: &'a Spec, job: &Job, npus: u32) -> Result<Families<'a>, RunError> {
        let classes = classes(job, npus)?;
        if spec.families.is_empty() && spec.overrides.is_empty() {
            let demand = job.demands[0][0].clone();
            let cohorts = vec![FamilyCohort { family: FamilyId(0), demand, spec: Cow::Borrowed(spec) }];
            return Ok(Families { cohorts, classes, signed: None });
        }
        let families = match (&spec.families[..], &spec.groups) {
            ([], _) => Cow::Owned(vec![only_family(spec, npus)]),
            (families, None) => Cow::Borrowed(families),
            (_, Some(_)) => {
                return Err(Refusal::of("groups", "families have groups of their own").accepting("none").into());
            }
        };
        let mut groups = Vec::new();
        for (number, family) in families.iter().enumerate() {
            family.check(number)?;
            let members = members(&family.members, number, npus)?;
            let family = FamilyId(u8::try_from(number).map_err(|_| too_many(families.len()))?);
            groups.extend(members.into_iter().map(|members| Group { family, own_way: None, members }));
        }
        take_overrides(spec, &mut groups)?;
        check_uses(spec, job, &groups)?;
        let all = if classes.is_empty() { vec![ClassId(0); npus as usize] } else { classes.to_vec() };
        let signed = sign(&groups, &all);
        let cohort = |(family, numbers): &(FamilyId, Vec<usize>)| {
            let described = &families[family.index()];
            let own = groups[numbers[0]].own_way.map(|number| &spec.overrides[usize::from(number)]);
            let members: Vec<&Vec<NodeId>> = numbers.iter().map(|&group| &groups[group].members).collect();
            let own_grid = own.and_then(|own| own.grid.clone());
            let along = if own_grid.is_some() { None } else { along(spec, &described.members) };
            let everybody = along.is_none() && members.len() == 1 && members[0].iter().map(|npu| npu.0).eq(0..npus);
            let grid = match &described.members {
                _ if own_grid.is_some() => own_grid,
                MembersSpec::Grid { sizes, along, .. } if along.len() > 1 => {
                    Some(along.iter().map(|&dim| sizes[usize::from(dim)]).collect())
                }
                MembersSpec::Grid { .. } => None,
                MembersSpec::List { grid, .. } => grid.clone(),
            };
            let numbers = |group: &&Vec<NodeId>| group.iter().map(|npu| npu.0).collect();
            let mut of_cohort = spec.clone();
            (of_cohort.families, of_cohort.overrides) = (Vec::new(), Vec::new());
            of_cohort.collectives = own.map_or(&described.collectives, |own| &own.collectives).clone();
            of_cohort.groups = (!everybody || grid.is_some()).then(|| GroupsSpec {
                members: members.iter().map(numbers).collect(),
                grid,
                along,
            });
            let demand = demand(job, *family, members[0].iter().map(|npu| all[npu.index()]));
            FamilyCohort { family: *family, demand, spec: Cow::Owned(of_cohort) }
        };
        let cohorts = signed.cohorts.iter().map(cohort).collect();
        Ok(Families { cohorts, classes, signed: Some((signed, groups)) })
    }

    /// Cohorts in which collectives are asked for, of the NPU that is in most of them.
    pub fn share(&self) -> u32 {
        let Some((signed, _)) = &self.signed else { return 1 };
        let asked = |cohort: &&CohortId| !self.cohorts[cohort.index()].demand.collectives.is_empty();
        let of_role = |(_, cohorts): &(ClassId, Vec<CohortId>)| cohorts.iter().filter(asked).count() as u32;
        signed.roles.iter().map(of_role).max().unwrap_or(1).max(1)
    }

    /// The order in which collectives may be entered into logs; none where there is one class, with one cohort of each
    /// family.
    pub fn precedence(&self) -> Option<Precedence> {
        let (signed, groups) = self.signed.as_ref()?;
        let alone = signed.cohorts.windows(2).all(|pair| pair[0].0 != pair[1].0);
        if alone && self.classes.is_empty() {
            return None;
        }
        let members = |(family, numbers): &(FamilyId, Vec<usize>)| {
            let members = &groups[numbers[0]].members;
            Members { family: *family, roles: members.iter().map(|npu| signed.colours[npu.index()] as usize).collect() }
        };
        let classes: Vec<ClassId> = signed.roles.iter().map(|role| role.0).collect();
        Some(Precedence::new(&classes, signed.cohorts.iter().map(members).collect()))
    }
}

/// What communicators are asked for whose members are of some classes: all that have part in them ask for the same.
fn demand(job: &Job, family: FamilyId, classes: impl Iterator<Item = ClassId>) -> Demand {
    let of_class = |class: ClassId| job.demands.get(class.index())?.get(family.index());
    let most = classes.filter_map(of_class).max_by_key(|demand| demand.collectives.len());
    most.cloned().unwrap_or_else(|| Demand { iterations: job.iterations, ..Demand::default() })
}

fn too_many(families: usize) -> Refusal {
    Refusal::of("families", format!("{families} families")).accepting(format!("up to {}", u8::MAX))
}

/// The class of every NPU; none if there is one class of all.
fn classes(job: &Job, npus: u32) -> Result<Arc<[ClassId]>, RunError> {
    if job.classes.is_empty() {
        return Ok(Arc::default());
    }
    // NPUs of no class are of the last one, which does nothing.
    let idle = ClassId::from_index(job.classes.len());
    let mut classes = vec![idle; npus as usize];
    for (number, members) in job.classes.iter().enumerate() {
        for npu in members {
            let field = format!("job.graph.classes.{number}.npus");
            let Some(class) = classes.get_mut(npu.index()) else {
                return Err(RunError::no_such_npu(&field, npu.0, npus));
            };
            if *class != idle {
                let refusal = Refusal::of(&field, format!("NPU {npu} is of two classes"));
                return Err(refusal.accepting("each NPU in at most one class").into());
            }
            *class = ClassId::from_index(number);
        }
    }
    Ok(classes.into())
}

/// Refuses NPUs whose class names a family in which they have no communicator.
fn check_uses(spec: &Spec, job: &Job, groups: &[Group]) -> Result<(), RunError> {
    for (class, uses) in job.uses.iter().enumerate() {
        for &family in uses {
            let known = |npu: &&NodeId| groups.iter().any(|g| g.family == family && g.members.contains(npu));
            if let Some(npu) = job.classes[class].iter().find(|npu| !known(npu)) {
                let name = &spec.families[family.index()].name;
                let message = format!("NPU {npu} has no communicator of family {name}, which its graph names");
                let refusal = Refusal::of(&format!("job.graph.classes.{class}.npus"), message);
                return Err(refusal.accepting("NPUs that are in a communicator of every family that is named").into());
            }
        }
    }
    Ok(())
}

/// The one family of a description that has none: its groups, or all NPUs.
fn only_family(spec: &Spec, npus: u32) -> FamilySpec {
    let (groups, grid) = match &spec.groups {
        Some(groups) => (groups.members.clone(), groups.grid.clone()),
        None => (vec![(0..npus).collect()], None),
    };
    let (members, collectives) = (MembersSpec::List { groups, grid }, spec.collectives.clone());
    FamilySpec { name: "all".into(), members, collectives, priority: 0, traffic_class: 0 }
}

/// Marks the communicators whose collectives are carried out otherwise than their family says.
fn take_overrides(spec: &Spec, groups: &mut [Group]) -> Result<(), Refusal> {
    for (number, own) in (0u16..).zip(&spec.overrides) {
        for &first in &own.first {
            let named = |g: &&mut Group| g.family == FamilyId(own.family) && g.members[0] == NodeId(first);
            match groups.iter_mut().find(named) {
                Some(group) if group.own_way.is_none() => group.own_way = Some(number),
                group => {
                    let why = if group.is_some() { "is named twice" } else { "is none of the family" };
                    let message = format!("the communicator whose rank 0 is NPU {first} {why}");
                    let refusal = Refusal::of(&format!("overrides.{number}.first"), message);
                    return Err(refusal.accepting("each communicator of a family once at most"));
                }
            }
        }
    }
    Ok(())
}

/// The dimensions of a product along which the communicators of a family extend, if they are described like that.
fn along(spec: &Spec, members: &MembersSpec) -> Option<Vec<u8>> {
    let (FabricSpec::Product { dims, .. }, MembersSpec::Grid { sizes, along, first: 0 }) = (&spec.fabric, members)
    else {
        return None;
    };
    (!along.is_empty() && dims.iter().map(|dim| dim.size).eq(sizes.iter().copied())).then(|| along.clone())
}

/// The communicators of a family.
fn members(spec: &MembersSpec, family: usize, npus: u32) -> Result<Vec<Vec<NodeId>>, RunError> {
    let field = |name: &str| format!("families.{family}.members.{name}");
    let groups = match spec {
        MembersSpec::List { groups, .. } => {
            groups.iter().map(|members| members.iter().map(|&npu| NodeId(npu)).collect()).collect()
        }
        MembersSpec::Grid { sizes, along, first } => on_grid(sizes, along, *first, npus, &field)?,
    };
    let mut seen = vec![false; npus as usize];
    if groups.is_empty() || groups.iter().any(Vec::is_empty) {
        let refusal = Refusal::of(&field("groups"), "a communicator without members, or no communicator");
        return Err(refusal.accepting("at least one communicator, each of at least one NPU").into());
    }
    for npu in groups.iter().flatten() {
        let Some(seen) = seen.get_mut(npu.index()) else {
            return Err(RunError::no_such_npu(&field("groups"), npu.0, npus));
        };
        if std::mem::replace(seen, true) {
            let refusal = Refusal::of(&field("groups"), format!("NPU {npu} is listed twice"));
            return Err(refusal.accepting("each NPU in at most one communicator of a family").into());
        }
    }
    Ok(groups)
}

/// NPUs that stand on a grid and differ along some of its dimensions only.
fn on_grid(
    sizes: &[u32],
    along: &[u8],
    first: u32,
    npus: u32,
    field: &impl Fn(&str) -> String,
) -> Result<Vec<Vec<NodeId>>, RunError> {
    let count = sizes.iter().try_fold(1u32, |count, &size| count.checked_mul(size)).filter(|&count| count > 0);
    let Some(count) = count.filter(|&count| u64::from(first) + u64::from(count) <= u64::from(npus)) else {
        let refusal = Refusal::of(&field("sizes"), format!("a grid of {sizes:?} NPUs from NPU {first} on"));
        return Err(refusal.accepting(format!("positive sizes, for {npus} NPUs in all")).into());
    };
    let mut once = along.to_vec();
    once.sort_unstable();
    once.dedup();
    if once.len() != along.len() || once.last().is_some_and(|&dim| usize::from(dim) >= sizes.len()) {
        let refusal = Refusal::of(&field("along"), format!("along dimensions {along:?}"));
        return Err(refusal.accepting(format!("each of the dimensions 0 to {} once at most", sizes.len() - 1)).into());
    }
    let grid = Grid::new(sizes.iter().copied());
    let inside = Grid::new(along.iter().map(|&dim| sizes[usize::from(dim)]));
    let at_origin = |npu: &u32| along.iter().all(|&dim| grid.coordinate(*npu, dim.into()) == 0);
    let member = |origin: u32, rank: u32| {
        let moved = along.iter().zip(inside.coordinates(rank));
        NodeId(first + moved.fold(origin, |npu, (&dim, to)| grid.moved(npu, dim.into(), 0, to)))
    };
    let group = |origin: u32| (0..inside.ranks()).map(|rank| member(origin, rank)).collect();
    Ok((0..count).filter(at_origin).map(group).collect())
}
