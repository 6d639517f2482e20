//! Compositions of phases over the dimensions of a fabric.
//!
//! A [`Plan`] lists the phases of a collective. In each phase a node forms a group with the nodes that
//! differ from it along one dimension, its coordinate being its rank, and the group runs a ring
//! program on the bytes that the node works on there. Reduce-scatter narrows these bytes to the node's
//! share, the matching all-gather widens them again, so all groups of a phase work on their own part
//! of the vector:
//!
//! | algorithm | all-reduce over dimensions 0, 1, 2 | bytes sent per byte, sizes L, V, H |
//! |---|---|---|
//! | per dimension | AR 0, AR 1, AR 2 | 2(L-1)/L + 2(V-1)/V + 2(H-1)/H |
//! | local first (ACE section V) | RS 0, AR 1, AR 2, AG 0 | 2(L-1)/L + (2(V-1)/V + 2(H-1)/H) / L |
//! | all scattered (tutorial's 6 phases) | RS 0, RS 1, RS 2, AG 2, AG 1, AG 0 | 2(LVH-1)/(LVH) |
//!
//! Reduce-scatter and all-gather alone go through the dimensions inwards and outwards. Dimensions of
//! one node have no phase.

use crate::program::{Program, RingKind};
use std::fmt;
use syncline_core::Bytes;

/// Most phases that a plan may have; endpoints keep a counter per phase.
pub const MAX_PHASES: usize = 16;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Everybody ends with the sum of all vectors.
    AllReduce,
    /// Everybody ends with its share of the sum.
    ReduceScatter,
    /// Everybody starts with its share and ends with the vector.
    AllGather,
}

/// How an all-reduce is composed over dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// An all-reduce of everything in each dimension in turn.
    PerDimension,
    /// Reduce-scatter in the first dimension, all-reduce of the share in each other, all-gather in the
    /// first: three phases on two dimensions, the ACE paper's four on three.
    LocalFirst,
    /// Reduce-scatter in every dimension, then all-gather in the reverse order.
    AllScattered,
}

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What the groups do.
    pub kind: RingKind,
    /// The dimension along which groups lie.
    pub dim: u8,
    /// Ranks of a group.
    pub ranks: u32,
    /// How many reduce-scatters narrow the vector before the blocks of this phase are cut from it.
    depth: u8,
}

/// The phases of a collective on a product of dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    kind: Kind,
    phases: Vec<Phase>,
    /// Dimensions and sizes in the order in which reduce-scatters narrow the vector.
    scattered: Vec<(u8, u32)>,
}

/// Why a plan cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// More phases than [`MAX_PHASES`].
    TooManyPhases(usize),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::TooManyPhases(n) => write!(f, "{n} phases; accepted: up to {MAX_PHASES}"),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// The plan of a collective over dimensions of the given sizes, the first one innermost.
    ///
    /// # Errors
    /// [`PlanError::TooManyPhases`].
    pub fn new(kind: Kind, algorithm: Algorithm, sizes: &[u32]) -> Result<Plan, PlanError> {
        let dims: Vec<(u8, u32)> = (0u8..).zip(sizes.iter().copied()).filter(|d| d.1 > 1).collect();
        let (inner, outer) = dims.split_at(dims.len().min(1));
        let scattered = match (kind, algorithm) {
            (Kind::AllReduce, Algorithm::PerDimension) => &[],
            (Kind::AllReduce, Algorithm::LocalFirst) => inner,
            _ => &dims[..],
        };
        let phase = |kind, (dim, ranks), depth: usize| Phase { kind, dim, ranks, depth: depth as u8 };
        let scatter = scattered.iter().enumerate().map(|(i, &d)| phase(RingKind::ReduceScatter, d, i));
        let gather = scattered.iter().enumerate().rev().map(|(i, &d)| phase(RingKind::AllGather, d, i));
        let phases: Vec<Phase> = match (kind, algorithm) {
            (Kind::ReduceScatter, _) => scatter.collect(),
            (Kind::AllGather, _) => gather.collect(),
            (Kind::AllReduce, Algorithm::PerDimension) => {
                dims.iter().map(|&d| phase(RingKind::AllReduce, d, 0)).collect()
            }
            (Kind::AllReduce, Algorithm::LocalFirst) => {
                let across = outer.iter().map(|&d| phase(RingKind::AllReduce, d, 1));
                scatter.chain(across).chain(gather).collect()
            }
            (Kind::AllReduce, Algorithm::AllScattered) => scatter.chain(gather).collect(),
        };
        if phases.len() > MAX_PHASES {
            return Err(PlanError::TooManyPhases(phases.len()));
        }
        Ok(Plan { kind, phases, scattered: scattered.to_vec() })
    }

    /// The collective.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The phases in order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The program of a phase, going up or down the ring.
    pub fn program(&self, phase: usize, up: bool) -> Program {
        let Phase { kind, ranks, .. } = self.phases[phase];
        Program::Ring { kind, ranks, up }
    }

    /// The part of a chunk of `len` bytes that a node works on in `phase`: offset and length. The
    /// blocks of the phase are cut from it. `coordinate(dim)` are the node's coordinates.
    pub fn vector(&self, phase: usize, len: Bytes, split: Split, coordinate: impl Fn(u8) -> u32) -> (u64, u64) {
        let depth = usize::from(self.phases[phase].depth);
        self.scattered[..depth].iter().fold((0, len.0), |(offset, len), &(dim, ranks)| {
            let (inside, share) = split.share(len, ranks, coordinate(dim));
            (offset + inside, share)
        })
    }

    /// The part of a chunk that a node holds before (reduce-scatter, all-reduce: all of it) or, for
    /// all-gather, the share it starts with; and likewise what it ends with.
    pub fn ends(&self, len: Bytes, split: Split, coordinate: impl Fn(u8) -> u32) -> [(u64, u64); 2] {
        let share = self.scattered.iter().fold((0, len.0), |(offset, len), &(dim, ranks)| {
            let (inside, share) = split.share(len, ranks, coordinate(dim));
            (offset + inside, share)
        });
        match self.kind {
            Kind::AllReduce => [(0, len.0); 2],
            Kind::ReduceScatter => [(0, len.0), share],
            Kind::AllGather => [share, (0, len.0)],
        }
    }

    /// Steps of a chunk over all phases, as messages one after another: `N - 1` per half of a ring.
    pub fn steps(&self) -> u32 {
        let steps = |p: &Phase| match p.kind {
            RingKind::AllReduce => 2 * (p.ranks - 1),
            _ => p.ranks - 1,
        };
        self.phases.iter().map(steps).sum()
    }
}

/// How a vector is cut into blocks: never finer than an element, the first blocks one element longer
/// where it does not divide, left-over bytes of a broken element at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Bytes of an element, at least 1.
    pub element: u32,
}

impl Split {
    /// Offset and length of part `index` of `parts` of `len` bytes.
    #[inline]
    pub fn share(self, len: u64, parts: u32, index: u32) -> (u64, u64) {
        let (unit, parts, index) = (u64::from(self.element), u64::from(parts), u64::from(index));
        let (elements, broken) = (len / unit, len % unit);
        let (each, longer) = (elements / parts, elements % parts);
        let offset = (index * each + index.min(longer)) * unit;
        let mut share = (each + u64::from(index < longer)) * unit;
        if index + 1 == parts {
            share += broken;
        }
        (offset, share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: Split = Split { element: 1 };

    #[test]
    fn the_four_phases_of_ace() {
        let plan = Plan::new(Kind::AllReduce, Algorithm::LocalFirst, &[4, 8, 4]).unwrap();
        let got: Vec<_> = plan.phases().iter().map(|p| (p.kind, p.dim, p.ranks)).collect();
        let (rs, ar, ag) = (RingKind::ReduceScatter, RingKind::AllReduce, RingKind::AllGather);
        assert_eq!(got, [(rs, 0, 4), (ar, 1, 8), (ar, 2, 4), (ag, 0, 4)]);
        let vector = |phase| plan.vector(phase, Bytes(65_536), BYTES, |_| 0).1;
        assert_eq!([vector(0), vector(1), vector(2), vector(3)], [65_536, 16_384, 16_384, 65_536]);
    }

    /// Tutorial, "Baseline all-reduce on the hierarchical topologies": 12 MB on 2x2x3 (local,
    /// horizontal, vertical): the data *entering* each phase.
    #[test]
    fn the_six_phases_of_the_tutorial() {
        let plan = Plan::new(Kind::AllReduce, Algorithm::AllScattered, &[2, 2, 3]).unwrap();
        let entering = |p: usize| {
            let vector = plan.vector(p, Bytes(12), BYTES, |_| 0).1;
            match plan.phases()[p].kind {
                RingKind::AllGather => vector / u64::from(plan.phases()[p].ranks),
                _ => vector,
            }
        };
        assert_eq!((0..6).map(entering).collect::<Vec<_>>(), [12, 6, 3, 1, 3, 6]);
    }

    #[test]
    fn dimensions_of_one_node_have_no_phase() {
        let plan = Plan::new(Kind::AllReduce, Algorithm::LocalFirst, &[1, 4, 1]).unwrap();
        assert_eq!(plan.phases().len(), 2);
        assert!(Plan::new(Kind::AllGather, Algorithm::LocalFirst, &[1]).unwrap().phases().is_empty());
    }

    proptest! {
        #[test]
        fn shares_cover_the_vector(len in 0u64..10_000, parts in 1u32..40, element in 1u32..9) {
            let split = Split { element };
            let mut end = 0;
            for i in 0..parts {
                let (offset, share) = split.share(len, parts, i);
                if share > 0 {
                    prop_assert_eq!(offset, end);
                    end += share;
                }
                prop_assert!(share.abs_diff(len / u64::from(parts)) <= 2 * u64::from(element));
            }
            prop_assert_eq!(end, len);
        }
    }
}
