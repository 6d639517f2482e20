//! Progressive filling as the textbook has it, and random problems: what the solvers are held against.

use super::Share;
use crate::queue::SplitMix64;
use proptest::prelude::*;
use std::ops::Sub;

#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub count: u64,
    pub cap: Share,
    pub uses: Vec<u32>,
}

impl Flow {
    fn uses_of(&self, resource: usize) -> u64 {
        self.uses.iter().filter(|&&r| r as usize == resource).count() as u64
    }
}

#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub capacities: Vec<Share>,
    pub flows: Vec<Flow>,
}

impl Problem {
    /// What is used of a resource.
    pub fn used(&self, shares: &[Share], resource: usize) -> Share {
        let used = |(f, &share): (&Flow, &Share)| share.times(f.count * f.uses_of(resource));
        self.flows.iter().zip(shares).filter(|(f, _)| f.uses_of(resource) > 0).map(used).fold(Share::ZERO, |a, b| a + b)
    }

    /// Whether a resource is used up, but for less than a share per use, and nobody on it has more than `share`.
    pub fn is_bottleneck(&self, shares: &[Share], resource: usize, share: Share) -> bool {
        let users = self.flows.iter().zip(shares).filter(|(f, _)| f.uses_of(resource) > 0);
        let uses: u64 = users.clone().map(|(f, _)| f.count * f.uses_of(resource)).sum();
        let left = self.capacities[resource] - self.used(shares, resource);
        left < Share(u128::from(uses)) && users.clone().all(|(_, &other)| other <= share)
    }

    /// The same in another order, and where each flow has gone.
    pub fn shuffled(&self, seed: u64) -> (Problem, Vec<usize>) {
        let rng = &mut SplitMix64(seed);
        let mut order = |n: usize| {
            let mut order: Vec<usize> = (0..n).collect();
            (1..n).rev().for_each(|i| order.swap(i, rng.below(i + 1)));
            order
        };
        let (resources, flows) = (order(self.capacities.len()), order(self.flows.len()));
        let mut shuffled = self.clone();
        for (i, &at) in resources.iter().enumerate() {
            shuffled.capacities[at] = self.capacities[i];
        }
        for (i, &at) in flows.iter().enumerate() {
            let uses = self.flows[i].uses.iter().rev().map(|&r| resources[r as usize] as u32).collect();
            shuffled.flows[at] = Flow { uses, ..self.flows[i].clone() };
        }
        (shuffled, flows)
    }
}

/// The definition, word by word.
pub(super) fn fill(problem: &Problem) -> Vec<Share> {
    let mut shares = vec![None; problem.flows.len()];
    loop {
        let level = |r: usize| {
            let (mut left, mut growing) = (problem.capacities[r], 0);
            for (flow, share) in problem.flows.iter().zip(&shares) {
                let uses = flow.count * flow.uses_of(r);
                match share {
                    _ if uses == 0 => {}
                    Some(share) => left = left - Share::times(*share, uses),
                    None => growing += uses,
                }
            }
            if growing == 0 { Share::UNLIMITED } else { left.split(growing) }
        };
        let levels: Vec<Share> = (0..problem.capacities.len()).map(level).collect();
        let growing = |f: &usize| shares[*f].is_none();
        let caps = (0..shares.len()).filter(growing).map(|f| problem.flows[f].cap);
        let lowest = levels.iter().copied().chain(caps).min().unwrap_or(Share::UNLIMITED);
        if lowest == Share::UNLIMITED {
            return shares.into_iter().map(|s| s.unwrap_or(Share::UNLIMITED)).collect();
        }
        let stops = |f: &Flow| f.cap == lowest || f.uses.iter().any(|&r| levels[r as usize] == lowest);
        for (flow, share) in problem.flows.iter().zip(&mut shares) {
            if share.is_none() && stops(flow) {
                *share = Some(lowest);
            }
        }
    }
}

/// Several classes, word by word: the largest shares everything out among its flows, the next one what that leaves, and so
/// on. `classes` has the class of each flow.
pub(super) fn fill_by_class(problem: &Problem, classes: &[u8]) -> Vec<Share> {
    let mut shares = vec![Share::ZERO; problem.flows.len()];
    for class in (0..=classes.iter().copied().max().unwrap_or(0)).rev() {
        let of_class: Vec<usize> = (0..shares.len()).filter(|&f| classes[f] == class).collect();
        let larger = |f: &usize| classes[*f] > class;
        let left = |r: usize| {
            let taken = |f: usize| shares[f].times(problem.flows[f].count * problem.flows[f].uses_of(r));
            let users = (0..shares.len()).filter(larger).filter(|&f| problem.flows[f].uses_of(r) > 0);
            users.map(taken).fold(problem.capacities[r], Share::sub)
        };
        let capacities = (0..problem.capacities.len()).map(left).collect();
        let flows = of_class.iter().map(|&f| problem.flows[f].clone()).collect();
        for (&f, share) in of_class.iter().zip(fill(&Problem { capacities, flows })) {
            shares[f] = share;
        }
    }
    shares
}

/// Small problems with many ties, tiny capacities (where rounding shows), repeated uses and caps.
pub(super) fn problems() -> impl Strategy<Value = Problem> {
    let capacity = prop_oneof![1u128..60, (1u128..8).prop_map(|c| c * 1_000), 1u128..1 << 70].prop_map(Share);
    (prop::collection::vec(capacity, 1..7), prop::collection::vec(flows(), 0..14)).prop_map(
        |(capacities, mut flows)| {
            let resources = capacities.len() as u32;
            flows.iter_mut().flat_map(|f| &mut f.uses).for_each(|r| *r %= resources);
            Problem { capacities, flows }
        },
    )
}

/// Random flows on up to 5040 resources.
pub(super) fn flows() -> impl Strategy<Value = Flow> {
    let cap = prop_oneof![3 => Just(Share::UNLIMITED), 1 => (1u128..40).prop_map(Share)];
    (1u64..4, cap, prop::collection::vec(0u32..5040, 0..4)).prop_map(|(count, cap, uses)| Flow { count, cap, uses })
}
