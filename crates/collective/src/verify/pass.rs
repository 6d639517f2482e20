//! One execution of a plan, and who takes part in it with what.

use super::buffering::Buffering;
use super::cuts::Cuts;
use super::layout::ELEMENTS;
use crate::plan::{PhaseId, Plan};
use crate::program::Program;
use crate::rank::{LineRank, Rank};
use syncline_core::{Bytes, Grid};

/// One execution of a plan, on elements or on parts of the vector.
pub(super) struct Pass<'a> {
    pub(super) plan: &'a Plan,
    pub(super) grid: &'a Grid,
    pub(super) buffering: Buffering,
    pub(super) programs: &'a [Program],
    /// What the vector is counted in: its elements, or the parts that stand for them.
    pub(super) elements: u64,
    /// Elements of the vector.
    pub(super) whole: u64,
    pub(super) cuts: Option<&'a Cuts>,
}

impl Pass<'_> {
    /// Ranks of the group.
    pub(super) fn ranks(&self) -> u32 {
        self.grid.ranks()
    }

    /// All ranks of the group.
    pub(super) fn all(&self) -> impl Iterator<Item = Rank> + Clone + use<> {
        (0..self.ranks()).map(Rank)
    }

    /// The coordinate of a rank in a dimension.
    pub(super) fn coordinate(&self, rank: Rank, dim: u8) -> u32 {
        self.grid.coordinate(rank.0, dim.into())
    }

    /// The rank of a line that has another coordinate in the line's dimension.
    pub(super) fn peer(&self, rank: Rank, dim: u8, there: LineRank) -> Rank {
        Rank(self.grid.with_coordinate(rank.0, dim.into(), there.0))
    }

    /// Whether a rank takes part in a phase.
    pub(super) fn takes_part(&self, rank: Rank, phase: PhaseId) -> bool {
        self.plan.takes_part(phase, |d| self.coordinate(rank, d))
    }

    /// Offset and length of the part of the chunk that a rank works on.
    pub(super) fn vector(&self, rank: Rank, phase: PhaseId) -> (u64, u64) {
        self.cut(self.plan.vector(phase, Bytes(self.whole), ELEMENTS, |d| self.coordinate(rank, d)))
    }

    /// Offset and length of what a rank holds at first and at last.
    pub(super) fn ends(&self, rank: Rank) -> [(u64, u64); 2] {
        self.plan.ends(Bytes(self.whole), ELEMENTS, |d| self.coordinate(rank, d)).map(|run| self.cut(run))
    }

    /// Offset and length in what the vector is counted in.
    fn cut(&self, (first, len): (u64, u64)) -> (u64, u64) {
        match self.cuts {
            None => (first, len),
            Some(cuts) => (cuts.at(first), cuts.at(first + len) - cuts.at(first)),
        }
    }
}
