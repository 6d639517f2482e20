//! Progressive filling of one problem from scratch.
//!
//! A heap orders the resources by their level. Levels only rise, so an entry is a lower bound that is
//! corrected when it reaches the top, and a flow touches its resources only when it stops growing. With `R`
//! resources and `U` uses in all, this takes `O(U + R log R)` if every resource reaches the top once, and at
//! most `O(U log R)`.

use super::Share;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug)]
struct Resource {
    left: Share,
    /// Uses of it by flows that still grow.
    growing: u64,
}

impl Resource {
    fn level(&self) -> Share {
        self.left.split(self.growing)
    }
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// So many flows that are alike.
    count: u64,
    cap: Share,
    /// Where its uses begin.
    first: u32,
    /// Unlimited as long as it grows.
    share: Share,
}

/// A problem, its solution, and the memory to solve the next one in.
///
/// Resources and flows are numbered from 0 in the order in which they are added.
#[derive(Clone, Debug, Default)]
pub struct Filling {
    resources: Vec<Resource>,
    flows: Vec<Flow>,
    /// Flows (added together counted once) that still grow.
    growing: usize,
    /// The resources that flows use, by flow.
    uses: Vec<u32>,
    /// Where the users of each resource begin, and the users by resource.
    first_user: Vec<u32>,
    users: Vec<u32>,
    levels: BinaryHeap<Reverse<(Share, u32)>>,
    /// Flows with a cap, the lowest last.
    caps: Vec<(Share, u32)>,
    /// The resources of a round.
    full: Vec<u32>,
}

impl Filling {
    /// Forgets the problem.
    pub fn clear(&mut self) {
        self.resources.clear();
        self.flows.clear();
        self.uses.clear();
    }

    /// Forgets the flows of a solved problem, but not what they have taken: flows that are added now share what is left.
    pub fn clear_flows(&mut self) {
        self.flows.clear();
        self.uses.clear();
        self.resources.iter_mut().for_each(|resource| resource.growing = 0);
    }

    /// Adds a resource.
    pub fn resource(&mut self, capacity: Share) -> u32 {
        self.resources.push(Resource { left: capacity, growing: 0 });
        self.resources.len() as u32 - 1
    }

    /// Takes something from a resource before it is shared.
    pub fn take(&mut self, resource: u32, amount: Share) {
        let left = &mut self.resources[resource as usize].left;
        *left = *left - amount;
    }

    /// Adds `count` flows that are alike: they use the same resources and have the same cap.
    pub fn flows(&mut self, count: u64, cap: Share, uses: impl IntoIterator<Item = u32>) -> u32 {
        self.flows.push(Flow { count, cap, first: self.uses.len() as u32, share: Share::UNLIMITED });
        self.uses.extend(uses);
        self.flows.len() as u32 - 1
    }

    /// The rate of each of the flows that were added together.
    pub fn share(&self, flow: u32) -> Share {
        self.flows[flow as usize].share
    }

    /// What is left of a resource; for a solved problem, what nobody uses.
    pub fn left(&self, resource: u32) -> Share {
        self.resources[resource as usize].left
    }

    /// Solves the problem.
    pub fn solve(&mut self) {
        self.list_users();
        self.caps.clear();
        self.caps.extend((0u32..).zip(&self.flows).filter(|(_, f)| f.cap < Share::UNLIMITED).map(|(i, f)| (f.cap, i)));
        self.caps.sort_unstable_by_key(|&(cap, _)| Reverse(cap));
        let mut levels = std::mem::take(&mut self.levels).into_vec();
        levels.clear();
        let limits = (0u32..).zip(&self.resources).filter(|(_, r)| r.growing > 0 && r.left < Share::UNLIMITED);
        levels.extend(limits.map(|(i, r)| Reverse((r.level(), i))));
        self.levels = levels.into();
        self.growing = self.flows.len();
        while self.growing > 0 && self.round() {}
    }

    /// Finds the users of each resource.
    fn list_users(&mut self) {
        self.first_user.clear();
        self.first_user.resize(self.resources.len() + 1, 0);
        self.uses.iter().for_each(|&r| self.first_user[r as usize] += 1);
        let mut end = 0;
        for first in &mut self.first_user {
            end += *first;
            *first = end;
        }
        self.users.clear();
        self.users.resize(self.uses.len(), 0);
        let mut last = self.uses.len();
        for (i, flow) in self.flows.iter().enumerate().rev() {
            for &r in &self.uses[flow.first as usize..last] {
                self.resources[r as usize].growing += flow.count;
                self.first_user[r as usize] -= 1;
                self.users[self.first_user[r as usize] as usize] = i as u32;
            }
            last = flow.first as usize;
        }
    }

    /// Lets all flows grow until some stop; false when none grows or nothing limits them any more.
    fn round(&mut self) -> bool {
        let by_cap = self.lowest_cap();
        let by_resource = self.lowest_level();
        let level = by_resource.min(by_cap);
        if level == Share::UNLIMITED {
            return false;
        }
        if by_resource == level {
            self.find_full(level);
        }
        while let Some(&(cap, flow)) = self.caps.last().filter(|c| c.0 == level) {
            self.caps.pop();
            self.stop(flow, cap);
        }
        for i in 0..self.full.len() {
            let r = self.full[i] as usize;
            for user in self.first_user[r]..self.first_user[r + 1] {
                self.stop(self.users[user as usize], level);
            }
        }
        self.full.clear();
        true
    }

    /// The lowest cap of a growing flow.
    fn lowest_cap(&mut self) -> Share {
        while let Some(&(cap, flow)) = self.caps.last() {
            if self.flows[flow as usize].share == Share::UNLIMITED {
                return cap;
            }
            self.caps.pop();
        }
        Share::UNLIMITED
    }

    /// The lowest level of a resource.
    fn lowest_level(&mut self) -> Share {
        while let Some(mut top) = self.levels.peek_mut() {
            let Reverse((noted, r)) = *top;
            let resource = &self.resources[r as usize];
            if resource.growing == 0 {
                std::collections::binary_heap::PeekMut::pop(top);
                continue;
            }
            let level = resource.level();
            if level == noted {
                return level;
            }
            *top = Reverse((level, r));
        }
        Share::UNLIMITED
    }

    /// Finds the resources whose level is the lowest one.
    fn find_full(&mut self, lowest: Share) {
        while self.lowest_level() == lowest {
            let Some(Reverse((_, r))) = self.levels.pop() else { break };
            self.full.push(r);
        }
    }

    /// A flow stops growing, if it has not yet.
    #[inline]
    fn stop(&mut self, flow: u32, level: Share) {
        let end = self.flows.get(flow as usize + 1).map_or(self.uses.len(), |next| next.first as usize);
        let flow = &mut self.flows[flow as usize];
        if flow.share != Share::UNLIMITED {
            return;
        }
        flow.share = level;
        self.growing -= 1;
        let taken = level.times(flow.count);
        for &r in &self.uses[flow.first as usize..end] {
            let resource = &mut self.resources[r as usize];
            resource.left = resource.left - taken;
            resource.growing -= flow.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::{Problem, fill, problems};
    use super::*;
    use crate::units::Rate;
    use proptest::prelude::*;

    fn whole(units: u64) -> Share {
        Share::of(Rate::new(units).unwrap())
    }

    fn solve(capacities: &[u64], flows: &[&[u32]]) -> Vec<Share> {
        let mut filling = Filling::default();
        capacities.iter().for_each(|&c| _ = filling.resource(whole(c)));
        flows.iter().for_each(|f| _ = filling.flows(1, Share::UNLIMITED, f.iter().copied()));
        filling.solve();
        (0..flows.len() as u32).map(|f| filling.share(f)).collect()
    }

    #[test]
    fn a_line_of_two_links_is_shared_as_in_the_textbook() {
        // One flow over both links, one over each: the long one and that on the narrow link get half of
        // it, the other one the rest of the wide link.
        let shares = solve(&[10, 30], &[&[0, 1], &[0], &[1]]);
        assert_eq!(shares, [whole(5), whole(5), whole(25)]);
    }

    #[test]
    fn nothing_to_share_is_no_problem() {
        assert_eq!(solve(&[], &[]), []);
        assert_eq!(solve(&[7], &[]), []);
        assert_eq!(solve(&[], &[&[]]), [Share::UNLIMITED]);
        assert_eq!(solve(&[u64::MAX, 7], &[&[0], &[0, 1]]), [Share::UNLIMITED, whole(7)]);
    }

    #[test]
    fn one_flow_gets_the_narrowest_resource() {
        assert_eq!(solve(&[10, 7, 9], &[&[2, 0, 1]]), [whole(7)]);
    }

    #[test]
    fn a_resource_used_twice_gives_half() {
        assert_eq!(solve(&[10, 8], &[&[0, 0], &[1, 0]]), [whole(10).split(3); 2]);
    }

    #[test]
    fn what_a_cap_leaves_goes_to_the_others() {
        let mut filling = Filling::default();
        let link = filling.resource(whole(12));
        let slow = filling.flows(2, whole(1), [link]);
        let fast = filling.flows(3, Share::UNLIMITED, [link]);
        let alone = filling.flows(1, whole(5), []);
        filling.solve();
        assert_eq!([slow, fast, alone].map(|f| filling.share(f)), [whole(1), whole(10).split(3), whole(5)]);
        assert_eq!(filling.left(link), whole(10) - whole(10).split(3).times(3));
    }

    #[test]
    fn thousands_of_flows_share_like_one_group() {
        let mut filling = Filling::default();
        let link = filling.resource(whole(1_000_003));
        let flows: Vec<u32> = (0..5000).map(|_| filling.flows(1, Share::UNLIMITED, [link])).collect();
        filling.solve();
        assert!(flows.iter().all(|&f| filling.share(f) == whole(1_000_003).split(5000)));
    }

    fn solved(problem: &Problem) -> (Vec<Share>, Vec<Share>) {
        let mut filling = Filling::default();
        problem.capacities.iter().for_each(|&c| _ = filling.resource(c));
        for f in &problem.flows {
            filling.flows(f.count, f.cap, f.uses.iter().copied());
        }
        filling.solve();
        let shares = (0..problem.flows.len() as u32).map(|f| filling.share(f)).collect();
        (shares, (0..problem.capacities.len() as u32).map(|r| filling.left(r)).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn agrees_with_the_textbook(problem in problems()) {
            let (shares, left) = solved(&problem);
            prop_assert_eq!(&shares, &fill(&problem));
            prop_assert!((0..left.len()).all(|r| problem.used(&shares, r) + left[r] == problem.capacities[r]));
        }

        #[test]
        fn every_flow_has_a_bottleneck(problem in problems()) {
            let (shares, _) = solved(&problem);
            for (f, flow) in problem.flows.iter().enumerate() {
                let stopped = flow.uses.iter().any(|&r| problem.is_bottleneck(&shares, r as usize, shares[f]));
                prop_assert!(stopped || shares[f] == flow.cap, "flow {} could get more", f);
                prop_assert!(shares[f] <= flow.cap);
            }
        }

        #[test]
        fn the_order_of_flows_and_resources_means_nothing(problem in problems(), seed in any::<u64>()) {
            let (shuffled, position) = problem.shuffled(seed);
            let (expected, got) = (solved(&problem).0, solved(&shuffled).0);
            prop_assert!((0..expected.len()).all(|f| expected[f] == got[position[f]]));
        }

        #[test]
        fn flows_that_are_alike_can_be_counted(problem in problems()) {
            let mut apart = problem.clone();
            apart.flows = problem.flows.iter().flat_map(|f| {
                std::iter::repeat_n(super::super::reference::Flow { count: 1, ..f.clone() }, f.count as usize)
            }).collect();
            let mut got = solved(&apart).0.into_iter();
            for (f, share) in problem.flows.iter().zip(solved(&problem).0) {
                prop_assert!(got.by_ref().take(f.count as usize).all(|s| s == share));
            }
        }
    }
}
