//! The communicators that an imported workload asks for.

use super::graph::{FamilySpec, MembersSpec};
use super::{FabricSpec, JobSpec, PlacedJobSpec, Spec, WorkloadSpec};
use syncline_core::{Grid, Refusal};
use syncline_workload::astra_parallel::Placement;
use syncline_workload::astra_text::{self, Imported, Parallelism};

/// A text workload of another parallelism than that of data, which has families of communicators.
pub(crate) fn parallel(workload: &WorkloadSpec) -> Option<Imported> {
    let WorkloadSpec::AstraText { text } = workload else { return None };
    let imported = astra_text::read(text).ok()?; // what is wrong with it is said where it is read as a job
    (!matches!(imported.parallelism, Parallelism::Data | Parallelism::Micro)).then_some(imported)
}

impl Spec {
    /// Gives a run whose workload asks for several families of communicators these families, in place of its one group: model
    /// groups, data groups, and all NPUs, as [`syncline_workload::astra_parallel`] numbers them.
    ///
    /// # Errors
    /// A [`Refusal`] of a workload whose model groups are not equally large.
    pub(crate) fn take_families(&mut self) -> Result<(), Refusal> {
        if let JobSpec::Jobs { jobs, .. } = &self.job {
            let mut jobs = jobs.clone();
            self.families.clear();
            for placed in &mut jobs {
                self.place(placed)?;
            }
            let JobSpec::Jobs { jobs: own, .. } = &mut self.job else { return Ok(()) };
            *own = jobs;
            return Ok(());
        }
        let JobSpec::Training { workload, .. } = &self.job else { return Ok(()) };
        let Some(imported) = parallel(workload).filter(|_| self.families.is_empty()) else { return Ok(()) };
        let placement = syncline_workload::Parallel::new(imported).placement();
        let one = |groups: &super::GroupsSpec| groups.members.len() == 1;
        if self.groups.as_ref().is_some_and(|groups| !one(groups)) {
            return Ok(()); // which is refused: families have groups of their own
        }
        let groups = self.groups.take();
        let sizes = match (&self.fabric, &groups) {
            (FabricSpec::Product { dims, .. }, None) => dims.iter().map(|dim| dim.size).collect(),
            (FabricSpec::Graph { npus, .. }, None) => vec![*npus],
            (_, Some(groups)) => groups.grid.clone().unwrap_or_else(|| vec![groups.members[0].len() as u32]),
        };
        let members = groups.map(|groups| groups.members[0].clone());
        let npus = sizes.iter().product::<u32>();
        if let Placement::ModelGroups(group) = placement
            && !npus.is_multiple_of(group)
        {
            let refusal = Refusal::of("job.workload.text", format!("model groups of {group} among {npus} NPUs"));
            return Err(refusal.accepting(format!("a divisor of {npus}")).in_line(1));
        }
        let [model, data] = families(placement, &sizes);
        let all: Vec<u8> = (0..sizes.len() as u8).collect();
        let family = |name: &str, part: Part| FamilySpec {
            name: name.into(),
            members: part.members(&sizes, members.as_deref()),
            collectives: self.collectives.clone(),
            priority: 0,
            traffic_class: 0,
        };
        self.families = vec![family("model", model), family("data", data), family("all", Part::Along(all))];
        Ok(())
    }
}

impl Spec {
    /// Gives one of several jobs its families, and appends them to those of the run.
    fn place(&mut self, placed: &mut PlacedJobSpec) -> Result<(), Refusal> {
        let mut alone = self.clone();
        alone.job = (*placed.job).clone();
        alone.collectives = placed.collectives.clone();
        alone.families = std::mem::take(&mut placed.families);
        alone.groups =
            Some(super::GroupsSpec { members: vec![placed.npus.clone()], grid: placed.grid.clone(), along: None });
        alone.take_families()?;
        placed.families = alone.families;
        if placed.families.is_empty() {
            let members = MembersSpec::List { groups: vec![placed.npus.clone()], grid: placed.grid.clone() };
            let (name, collectives) = ("all".to_string(), placed.collectives.clone());
            placed.families.push(FamilySpec { name, members, collectives, priority: 0, traffic_class: 0 });
        }
        let named =
            |family: &FamilySpec| FamilySpec { name: format!("{} {}", placed.name, family.name), ..family.clone() };
        self.families.extend(placed.families.iter().map(named));
        Ok(())
    }
}

/// What a communicator has of the NPUs of a run.
enum Part {
    /// Those that differ along some dimensions only.
    Along(Vec<u8>),
    /// So many that follow one another.
    Consecutive(u32),
    /// One of each so many.
    Strided(u32),
}

/// The model groups and the data groups.
fn families(placement: Placement, sizes: &[u32]) -> [Part; 2] {
    let all: Vec<u8> = (0..sizes.len() as u8).collect();
    let (inner, outer) = all.split_at(1);
    match placement {
        Placement::AllNpus => [Part::Along(all.clone()), Part::Along(all)],
        Placement::ModelInner => [Part::Along(inner.to_vec()), Part::Along(outer.to_vec())],
        Placement::ModelOuter => [Part::Along(outer.to_vec()), Part::Along(inner.to_vec())],
        Placement::ModelGroups(group) => {
            // Whole dimensions, if that is what so many NPUs are.
            let mut reach = 1u32;
            for dim in 0..=sizes.len() {
                if reach == group {
                    let (inner, outer) = all.split_at(dim);
                    return [Part::Along(inner.to_vec()), Part::Along(outer.to_vec())];
                }
                reach = reach.saturating_mul(sizes.get(dim).copied().unwrap_or(0));
            }
            [Part::Consecutive(group), Part::Strided(group)]
        }
    }
}

impl Part {
    /// The communicators among NPUs that stand on a grid: all of a fabric, or those that are given.
    fn members(self, sizes: &[u32], given: Option<&[u32]>) -> MembersSpec {
        let npus = sizes.iter().product::<u32>();
        let npu = |place: u32| given.map_or(place, |given| given[place as usize]);
        let (groups, grid): (Vec<Vec<u32>>, Option<Vec<u32>>) = match self {
            Part::Along(along) if given.is_none() => {
                return match along.is_empty() {
                    true => MembersSpec::List { groups: (0..npus).map(|npu| vec![npu]).collect(), grid: None },
                    false => MembersSpec::Grid { sizes: sizes.to_vec(), along, first: 0 },
                };
            }
            Part::Along(along) => {
                let grid = Grid::new(sizes.iter().copied());
                let mut groups = std::collections::BTreeMap::<Vec<u32>, Vec<u32>>::new();
                for place in 0..npus {
                    let others = (0..sizes.len()).filter(|&dim| !along.contains(&(dim as u8)));
                    let key = others.map(|dim| grid.coordinate(place, dim)).collect();
                    groups.entry(key).or_default().push(npu(place));
                }
                let shape = along.iter().map(|&dim| sizes[usize::from(dim)]).collect();
                (groups.into_values().collect(), (along.len() > 1).then_some(shape))
            }
            Part::Consecutive(count) => {
                let groups =
                    (0..npus.div_ceil(count)).map(|g| (g * count..((g + 1) * count).min(npus)).map(npu).collect());
                (groups.collect(), cut(sizes, count).map(|(inside, _)| inside))
            }
            Part::Strided(count) => {
                let strided = |first| (first..npus).step_by(count as usize).map(npu).collect();
                ((0..count.min(npus)).map(strided).collect(), cut(sizes, count).map(|(_, across)| across))
            }
        };
        MembersSpec::List { groups, grid: grid.filter(|sizes| sizes.len() > 1) }
    }
}

/// The shapes of `count` NPUs that follow one another on a grid, and of those that are `count` apart; none where these are no
/// boxes of the grid.
fn cut(sizes: &[u32], count: u32) -> Option<(Vec<u32>, Vec<u32>)> {
    let (mut inside, mut across, mut left) = (Vec::new(), Vec::new(), count);
    for &size in sizes {
        let part = if left.is_multiple_of(size) { size } else { left };
        if !size.is_multiple_of(part) {
            return None;
        }
        inside.push(part);
        across.push(size / part);
        left /= part;
    }
    inside.retain(|&size| size > 1);
    across.retain(|&size| size > 1);
    Some((inside, across))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups within a server, of several servers, and of what is no box of servers.
    #[test]
    fn model_groups_that_are_parts_of_servers_know_the_servers() {
        assert_eq!(cut(&[8, 2], 2), Some((vec![2], vec![4, 2])));
        assert_eq!(cut(&[8, 4], 16), Some((vec![8, 2], vec![2])));
        assert_eq!(cut(&[8, 2], 16), Some((vec![8, 2], vec![])));
        assert_eq!(cut(&[6, 2], 4), None);
        let MembersSpec::List { groups, grid } = Part::Strided(2).members(&[4, 2], None) else { panic!("a list") };
        assert_eq!((groups, grid), (vec![vec![0, 2, 4, 6], vec![1, 3, 5, 7]], Some(vec![2, 2])));
    }
}
