//! What is verified: a plan, the ranks that carry it out, and what their connections hold.

use crate::plan::{PhaseId, Plan, Split};
use crate::program::Program;
use crate::rank::{LineRank, Rank};
use syncline_core::{Bytes, Grid};

/// What a connection, from a thread of a rank to another rank, holds while the receiver is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffering {
    /// Any number of messages.
    Eager,
    /// At most so many messages (at least 1).
    Slots(u32),
    /// At most so many messages (at least 1) of all threads together. Now threads contend, and who comes
    /// first matters: a deadlock found is one, but none found proves nothing for several threads.
    SharedSlots(u32),
    /// Nothing: a send completes together with its receive.
    Rendezvous,
}

/// The ranks of a product of dimensions, and the programs they run.
pub struct Verifier<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Where the ranks stand.
    pub grid: Grid,
    /// Elements of the chunk.
    pub elements: u64,
    /// What connections hold.
    pub buffering: Buffering,
    /// The program of each phase.
    pub programs: Vec<Program>,
}

pub(super) const ELEMENTS: Split = Split { element: 1 };

impl<'a> Verifier<'a> {
    /// A verifier for a plan on a grid of these `sizes`, whose rings all go up (or all down).
    pub fn new(plan: &'a Plan, sizes: &[u32], elements: u64, up: bool, buffering: Buffering) -> Verifier<'a> {
        let programs = plan.phase_ids().map(|p| plan.program(p, up)).collect();
        Verifier { plan, grid: Grid::new(sizes.iter().copied()), elements, buffering, programs }
    }

    pub(super) fn ranks(&self) -> u32 {
        self.grid.ranks()
    }

    /// All ranks of the group.
    pub(super) fn all(&self) -> impl Iterator<Item = Rank> + Clone + use<> {
        (0..self.ranks()).map(Rank)
    }

    /// The number of a rank in the lines along a dimension.
    pub(super) fn on_line(&self, rank: Rank, dim: u8) -> LineRank {
        LineRank(self.coordinate(rank, dim))
    }

    pub(super) fn coordinate(&self, rank: Rank, dim: u8) -> u32 {
        self.grid.coordinate(rank.0, dim.into())
    }

    /// The rank of a line that has another coordinate in the line's dimension.
    pub(super) fn peer(&self, rank: Rank, dim: u8, there: LineRank) -> Rank {
        Rank(self.grid.with_coordinate(rank.0, dim.into(), there.0))
    }

    pub(super) fn takes_part(&self, rank: Rank, phase: PhaseId) -> bool {
        self.plan.takes_part(phase, |d| self.coordinate(rank, d))
    }

    /// Offset and length of the part of the chunk that a rank works on.
    pub(super) fn vector(&self, rank: Rank, phase: PhaseId) -> (u64, u64) {
        self.plan.vector(phase, Bytes(self.elements), ELEMENTS, |d| self.coordinate(rank, d))
    }

    /// Offset and length of what a rank holds at first and at last.
    pub(super) fn ends(&self, rank: Rank) -> [(u64, u64); 2] {
        self.plan.ends(Bytes(self.elements), ELEMENTS, |d| self.coordinate(rank, d))
    }
}
