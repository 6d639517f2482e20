//! Flows that come and go on fixed resources.
//!
//! Flows that are alike (same resources, same cap) form a *group*, which costs as much as one flow.
//! [`Pool::recompute`] solves again only what may have changed, and the result is that of solving
//! everything. Two facts limit it:
//!
//! * Flows below the lowest level that is touched keep their rates. Progressive filling runs as before
//!   up to there: a resource that lost a flow of rate `x` has its level above every round before `x`,
//!   and a new flow grows at least to the least `floor(capacity / uses)` of its resources, since that is
//!   their level in the first round and levels never fall. The lower flows are taken off the capacities.
//! * The remaining flows form parts that share no resource. Parts without a touched resource keep their rates.
//!
//! Where flows are of several classes, `classes` shares resources out by class.

mod classes;

pub use classes::CLASSES;

use super::{Filling, Share};
use crate::id_type;
use crate::slab::Slab;

id_type!(
    /// A resource of a [`Pool`], in the order in which the capacities were given.
    ResourceId
);

id_type!(
    /// A group of flows of a [`Pool`]. Numbers are reused once the last flow has left.
    GroupId
);

#[derive(Clone, Debug)]
struct Resource {
    capacity: Share,
    used: Share,
    /// Uses of it by all flows.
    uses: u64,
    users: Vec<User>,
    touched: Touched,
    /// The last recomputation that saw it, and its number there.
    seen: u64,
    local: u32,
}

/// How a resource was touched since the last recomputation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Touched {
    No,
    /// Flows have left.
    Lost,
    /// Flows have come (and perhaps left).
    Gained,
}

#[derive(Clone, Copy, Debug)]
struct User {
    group: GroupId,
    /// Which use of the group.
    at: u32,
}

/// One use of a resource, and where it stands among the users there.
#[derive(Clone, Copy, Debug)]
struct Use {
    resource: ResourceId,
    at: u32,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// Unlimited until it is known.
    share: Share,
    cap: Share,
    count: u32,
    seen: u64,
    first: u32,
    uses: u32,
    class: u8,
}

/// Shares of resources between flows that come and go.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    resources: Vec<Resource>,
    groups: Slab<GroupId, Group>,
    uses: Vec<Use>,
    /// Unused runs of `uses`, by length.
    unused_runs: Vec<Vec<u32>>,
    /// Resources touched since the last recomputation.
    touched: Vec<ResourceId>,
    /// No rate below this one can change.
    lowest: Share,
    /// Whether flows of several classes were there at the last recomputation or have been since.
    mixed: bool,
    classes: classes::Classes,
    /// New groups that use nothing.
    alone: Vec<GroupId>,
    /// Recomputations so far.
    seen: u64,
    /// Uses of resources that all of them looked at.
    effort: u64,
    filling: Filling,
    /// The part that is being solved: resources and groups in the order of their numbers there.
    part: Vec<ResourceId>,
    members: Vec<GroupId>,
    solved: Vec<ResourceId>,
    changed: Vec<GroupId>,
}

impl Pool {
    /// A pool of resources with these capacities.
    pub fn new(capacities: impl IntoIterator<Item = Share>) -> Pool {
        let resource = |capacity| Resource {
            capacity,
            used: Share::ZERO,
            uses: 0,
            users: Vec::new(),
            touched: Touched::No,
            seen: 0,
            local: 0,
        };
        let resources = capacities.into_iter().map(resource).collect();
        Pool { resources, lowest: Share::UNLIMITED, ..Pool::default() }
    }

    /// A flow comes that forms a new group. A resource that is named several times is used as often.
    pub fn add(&mut self, uses: &[ResourceId], cap: Share) -> GroupId {
        self.add_of_class(uses, cap, 0)
    }

    /// The same of a class below [`CLASSES`], of which larger ones take what they can before smaller ones get anything.
    /// Where there are several, capacities must be limited.
    pub fn add_of_class(&mut self, uses: &[ResourceId], cap: Share, class: u8) -> GroupId {
        let first = self.run(uses.len());
        let group = Group { share: Share::UNLIMITED, cap, count: 1, seen: 0, first, uses: uses.len() as u32, class };
        let id = self.groups.insert(group);
        for (i, &resource) in (0u32..).zip(uses) {
            let users = &mut self.resources[resource.index()].users;
            self.uses[(first + i) as usize] = Use { resource, at: users.len() as u32 };
            users.push(User { group: id, at: i });
        }
        if uses.is_empty() {
            self.alone.push(id);
        }
        self.mixed |= self.classes.come(class);
        self.gained(id);
        id
    }

    /// Another flow comes to a group.
    pub fn join(&mut self, id: GroupId) {
        self.groups[id].count += 1;
        self.gained(id);
    }

    /// A flow leaves its group; says whether it was the last one, with which the group goes.
    pub fn leave(&mut self, id: GroupId) -> bool {
        let Group { first, uses, share, class, .. } = self.groups[id];
        self.groups[id].count -= 1;
        self.lowest = self.lowest.min(share);
        self.classes.touch(class);
        for i in first..first + uses {
            let resource = self.uses[i as usize].resource;
            self.resources[resource.index()].uses -= 1;
            self.touch(resource, Touched::Lost);
        }
        let last = self.groups[id].count == 0;
        if last {
            self.classes.go(class);
            self.remove(id);
        }
        last
    }

    /// The rate of each flow of a group, as of the last recomputation; unlimited before the first.
    #[inline]
    pub fn share(&self, id: GroupId) -> Share {
        self.groups[id].share
    }

    /// What all flows together use of a resource, as of the last recomputation.
    #[inline]
    pub fn used(&self, resource: ResourceId) -> Share {
        self.resources[resource.index()].used
    }

    /// Groups whose rate is another one since the last recomputation, in no order that means anything.
    pub fn changed(&self) -> &[GroupId] {
        &self.changed
    }

    /// Resources that the last recomputation looked at: all whose use may have changed.
    pub fn solved(&self) -> &[ResourceId] {
        &self.solved
    }

    /// What recomputations have cost so far: the uses of resources that they looked at.
    pub fn effort(&self) -> u64 {
        self.effort
    }

    /// Shares everything out among the flows that are there now.
    pub fn recompute(&mut self) {
        self.changed.clear();
        self.solved.clear();
        self.seen += 1;
        for id in std::mem::take(&mut self.alone) {
            let group = &mut self.groups[id];
            if group.uses == 0 && group.count > 0 {
                group.share = group.cap;
                self.changed.push(id);
            }
        }
        if self.mixed {
            return self.recompute_by_class();
        }
        let lowest = self.lowest_touched();
        let mut touched = std::mem::take(&mut self.touched);
        for &resource in &touched {
            self.resources[resource.index()].touched = Touched::No;
            if self.resources[resource.index()].seen != self.seen {
                self.gather(resource, lowest);
                self.filling.solve();
                self.take_over();
            }
        }
        touched.clear();
        (self.touched, self.lowest) = (touched, Share::UNLIMITED);
        self.classes.forget();
    }

    /// The rate below which nothing changes.
    fn lowest_touched(&self) -> Share {
        let resources = self.touched.iter().map(|r| &self.resources[r.index()]);
        let gained = resources.filter(|r| r.touched == Touched::Gained && r.uses > 0);
        gained.map(|r| r.capacity.split(r.uses)).fold(self.lowest, Share::min)
    }

    /// Puts the part of a resource into the problem: what is connected by flows of at least `lowest`.
    fn gather(&mut self, resource: ResourceId, lowest: Share) {
        self.filling.clear();
        self.part.clear();
        self.members.clear();
        self.see(resource);
        let mut next = 0;
        while next < self.part.len() {
            let resource = self.part[next];
            self.effort += self.resources[resource.index()].users.len() as u64;
            for user in 0..self.resources[resource.index()].users.len() {
                let id = self.resources[resource.index()].users[user].group;
                let group = &mut self.groups[id];
                if group.share < lowest {
                    self.filling.take(next as u32, group.share.times(u64::from(group.count)));
                } else if group.seen != self.seen {
                    group.seen = self.seen;
                    self.members.push(id);
                    self.add_to_problem(id);
                }
            }
            next += 1;
        }
    }

    fn add_to_problem(&mut self, id: GroupId) {
        let Group { cap, count, first, uses, .. } = self.groups[id];
        for i in first..first + uses {
            self.see(self.uses[i as usize].resource);
        }
        let local = |i| self.resources[self.uses[i as usize].resource.index()].local;
        self.filling.flows(u64::from(count), cap, (first..first + uses).map(local));
    }

    /// Makes a resource part of the problem.
    fn see(&mut self, id: ResourceId) {
        let resource = &mut self.resources[id.index()];
        if resource.seen != self.seen {
            resource.seen = self.seen;
            resource.local = self.filling.resource(resource.capacity);
            self.part.push(id);
        }
    }

    /// Takes the solution over.
    fn take_over(&mut self) {
        self.take_shares();
        self.take_uses();
    }

    /// Takes over the rates of those that are in the problem.
    fn take_shares(&mut self) {
        for (i, &id) in (0u32..).zip(&self.members) {
            let share = self.filling.share(i);
            if std::mem::replace(&mut self.groups[id].share, share) != share {
                self.changed.push(id);
            }
        }
    }

    /// Takes over what is used of resources.
    fn take_uses(&mut self) {
        for (i, &id) in (0u32..).zip(&self.part) {
            let resource = &mut self.resources[id.index()];
            resource.used = resource.capacity - self.filling.left(i);
        }
        self.solved.append(&mut self.part);
    }

    fn gained(&mut self, id: GroupId) {
        let Group { first, uses, cap, class, .. } = self.groups[id];
        self.lowest = self.lowest.min(cap);
        self.classes.touch(class);
        for i in first..first + uses {
            let resource = self.uses[i as usize].resource;
            self.resources[resource.index()].uses += 1;
            self.touch(resource, Touched::Gained);
        }
    }

    fn touch(&mut self, id: ResourceId, how: Touched) {
        let touched = &mut self.resources[id.index()].touched;
        if *touched == Touched::No {
            self.touched.push(id);
        }
        if *touched != Touched::Gained {
            *touched = how;
        }
    }

    /// Forgets a group.
    fn remove(&mut self, id: GroupId) {
        let Group { first, uses, .. } = self.groups[id];
        for i in first..first + uses {
            let Use { resource, at } = self.uses[i as usize];
            let users = &mut self.resources[resource.index()].users;
            users.swap_remove(at as usize);
            if let Some(&User { group, at: moved }) = users.get(at as usize) {
                let its_first = self.groups[group].first;
                self.uses[(its_first + moved) as usize].at = at;
            }
        }
        if let Some(runs) = self.unused_runs.get_mut(uses as usize) {
            runs.push(first);
        }
        self.groups.remove(id);
    }

    /// Room for so many uses in a row.
    fn run(&mut self, len: usize) -> u32 {
        if self.unused_runs.len() <= len {
            self.unused_runs.resize(len + 1, Vec::new());
        }
        self.unused_runs[len].pop().unwrap_or_else(|| {
            let first = self.uses.len();
            self.uses.resize(first + len, Use { resource: ResourceId(0), at: 0 });
            first as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::{Flow, Problem, fill, fill_by_class, flows, problems};
    use super::*;
    use crate::units::Rate;
    use proptest::prelude::*;

    fn whole(units: u64) -> Share {
        Share::of(Rate::new(units).unwrap())
    }

    #[test]
    fn flows_share_and_get_all_when_alone_again() {
        let mut pool = Pool::new([whole(10)]);
        let first = pool.add(&[ResourceId(0)], Share::UNLIMITED);
        let second = pool.add(&[ResourceId(0)], Share::UNLIMITED);
        pool.join(second);
        pool.recompute();
        assert_eq!((pool.share(first), pool.share(second)), (whole(10).split(3), whole(10).split(3)));
        assert!(!pool.leave(second) && pool.leave(second));
        pool.recompute();
        assert_eq!((pool.share(first), pool.used(ResourceId(0))), (whole(10), whole(10)));
        assert_eq!(pool.changed(), [first]);
        assert!(pool.leave(first));
        pool.recompute();
        assert_eq!(pool.used(ResourceId(0)), Share::ZERO);
    }

    #[test]
    fn what_shares_nothing_is_left_alone() {
        let mut pool = Pool::new([whole(10), whole(10)]);
        pool.add(&[ResourceId(0)], Share::UNLIMITED);
        pool.recompute();
        let other = pool.add(&[ResourceId(1)], Share::UNLIMITED);
        pool.recompute();
        assert_eq!((pool.changed(), pool.solved()), (&[other][..], &[ResourceId(1)][..]));
    }

    #[test]
    fn slower_flows_are_left_alone() {
        // Eight flows on the narrow link, of which one goes on over the wide one.
        let mut pool = Pool::new([whole(8), whole(100)]);
        (0..7).for_each(|_| _ = pool.add(&[ResourceId(0)], Share::UNLIMITED));
        pool.add(&[ResourceId(0), ResourceId(1)], Share::UNLIMITED);
        pool.recompute();
        let fast = pool.add(&[ResourceId(1)], Share::UNLIMITED);
        pool.recompute();
        assert_eq!((pool.share(fast), pool.solved()), (whole(99), &[ResourceId(1)][..]));
    }

    #[test]
    fn a_flow_that_uses_nothing_gets_its_cap() {
        let mut pool = Pool::new([]);
        let (capped, free) = (pool.add(&[], whole(3)), pool.add(&[], Share::UNLIMITED));
        pool.recompute();
        assert_eq!((pool.share(capped), pool.share(free)), (whole(3), Share::UNLIMITED));
        assert!(pool.leave(capped) && pool.leave(free));
        pool.recompute();
        assert_eq!(pool.changed(), []);
    }

    /// Something that happens to a pool.
    #[derive(Clone, Debug)]
    enum Step {
        Add(Flow, u8),
        Join(usize),
        Leave(usize),
        Recompute,
    }

    /// Steps with flows of so many classes.
    fn steps(classes: u8) -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (flows(), 0..classes).prop_map(|(flow, class)| Step::Add(flow, class)),
            1 => any::<usize>().prop_map(Step::Join),
            4 => any::<usize>().prop_map(Step::Leave),
            4 => Just(Step::Recompute),
        ];
        prop::collection::vec(step, 0..80)
    }

    /// Plays steps and compares the rates at every recomputation with those of the textbook.
    fn play(
        capacities: &[Share],
        steps: Vec<Step>,
        textbook: &dyn Fn(&Problem, &[u8]) -> Vec<Share>,
    ) -> Result<(), TestCaseError> {
        let mut pool = Pool::new(capacities.iter().copied());
        let mut groups: Vec<(GroupId, Flow, u8)> = Vec::new();
        let mut known: std::collections::BTreeMap<GroupId, Share> = Default::default();
        for step in steps {
            match step {
                Step::Add(mut flow, class) => {
                    flow.uses.iter_mut().for_each(|r| *r %= capacities.len() as u32);
                    let uses: Vec<_> = flow.uses.iter().map(|&r| ResourceId(r)).collect();
                    let id = pool.add_of_class(&uses, flow.cap, class);
                    groups.push((id, Flow { count: 1, ..flow }, class));
                }
                Step::Join(i) if !groups.is_empty() => {
                    let i = i % groups.len();
                    groups[i].1.count += 1;
                    pool.join(groups[i].0);
                }
                Step::Leave(i) if !groups.is_empty() => {
                    let i = i % groups.len();
                    groups[i].1.count -= 1;
                    let gone = pool.leave(groups[i].0);
                    prop_assert_eq!(gone, groups[i].1.count == 0);
                    if gone {
                        known.remove(&groups.swap_remove(i).0);
                    }
                }
                Step::Join(_) | Step::Leave(_) => {}
                Step::Recompute => {
                    pool.recompute();
                    let flows = groups.iter().map(|g| g.1.clone()).collect();
                    let problem = Problem { capacities: capacities.to_vec(), flows };
                    let classes: Vec<u8> = groups.iter().map(|g| g.2).collect();
                    let expected = textbook(&problem, &classes);
                    let got: Vec<Share> = groups.iter().map(|g| pool.share(g.0)).collect();
                    prop_assert_eq!(&got, &expected);
                    for r in 0..capacities.len() {
                        prop_assert_eq!(pool.used(ResourceId(r as u32)), problem.used(&expected, r));
                    }
                    for ((id, ..), share) in groups.iter().zip(expected) {
                        let news = known.insert(*id, share) != Some(share);
                        prop_assert!(!news || share == Share::UNLIMITED || pool.changed().contains(id));
                    }
                }
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// Whatever comes and goes, the rates are those of solving everything from scratch.
        #[test]
        fn agrees_with_the_textbook(Problem { capacities, .. } in problems(), steps in steps(1)) {
            play(&capacities, steps, &|problem, _| fill(problem))?;
        }

        /// The same with several classes, some of which come and go as a whole.
        #[test]
        fn agrees_with_the_textbook_class_by_class(Problem { capacities, .. } in problems(), steps in steps(3)) {
            play(&capacities, steps, &fill_by_class)?;
        }

        /// All of one class are as they are without.
        #[test]
        fn one_class_is_like_another(Problem { capacities, .. } in problems(), steps in steps(1), class in 0..CLASSES) {
            let of_class = |step| match step {
                Step::Add(flow, _) => Step::Add(flow, class),
                other => other,
            };
            play(&capacities, steps.into_iter().map(of_class).collect(), &|problem, _| fill(problem))?;
        }
    }
}
