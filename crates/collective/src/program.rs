//! Step programs: what each rank of a group does in one phase of a collective.
//!
//! A program works on a vector that is cut into as many blocks as the group has ranks. Every step
//! receives at most one block and sends at most one, always the same one, so an engine that works on
//! packets can forward each packet as it arrives. The vocabulary is that of MSCCL's fused
//! instructions.
//!
//! # Rings
//! Going up, rank `r` sends to `r + 1`. Reduce-scatter takes `N - 1` sends per rank and leaves rank `r`
//! with the sum of block `r`; all-gather starts from there and takes another `N - 1`; all-reduce is
//! one after the other, with the last reduction and the first gathering send fused (ACE paper,
//! section IV-D, steps 3 and 4). Going down mirrors it. A vector of `S` bytes therefore costs each
//! rank `(N-1)/N * S` sent bytes for either half.

/// What a step does, in the order of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sends local data.
    Send,
    /// Receives, adds the local data, sends the sum on without keeping it.
    RecvReduceSend,
    /// Receives, adds the local data, keeps the sum.
    RecvReduce,
    /// Receives, adds the local data, keeps the sum and sends it on.
    RecvReduceCopySend,
    /// Receives, keeps and sends on.
    RecvCopySend,
    /// Receives and keeps.
    Recv,
}

impl Op {
    /// Whether the step takes a message.
    pub const fn receives(self) -> bool {
        !matches!(self, Op::Send)
    }

    /// Whether the step sends a message.
    pub const fn sends(self) -> bool {
        !matches!(self, Op::RecvReduce | Op::Recv)
    }

    /// Whether the step adds local data to what it received.
    pub const fn reduces(self) -> bool {
        matches!(self, Op::RecvReduceSend | Op::RecvReduce | Op::RecvReduceCopySend)
    }

    /// Whether the step reads local data.
    pub const fn reads_local(self) -> bool {
        self.reduces() || matches!(self, Op::Send)
    }

    /// Whether the step keeps what it received or computed.
    pub const fn stores(self) -> bool {
        matches!(self, Op::RecvReduce | Op::RecvReduceCopySend | Op::RecvCopySend | Op::Recv)
    }
}

/// One step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub op: Op,
    /// The block that it receives, sends or both.
    pub block: u32,
    /// Where a received block comes from, relative to the own rank (modulo the group).
    pub from: i32,
    /// Where a sent block goes, relative to the own rank (modulo the group).
    pub to: i32,
}

/// What a ring program achieves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// Rank `r` ends with the sum of block `r`.
    ReduceScatter,
    /// Every rank ends with every block; rank `r` starts with block `r`.
    AllGather,
    /// Every rank ends with the sum of every block.
    AllReduce,
}

/// The program of a phase, for all ranks of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A ring algorithm in one direction.
    Ring {
        /// What it achieves.
        kind: RingKind,
        /// Ranks of the group.
        ranks: u32,
        /// Whether data goes to the next higher rank (else the next lower).
        up: bool,
    },
    /// Written-out steps, one list per rank: imported schedules and tests.
    Explicit(std::sync::Arc<[Vec<Step>]>),
}

impl Program {
    /// Ranks of the group.
    pub fn ranks(&self) -> u32 {
        match self {
            Program::Ring { ranks, .. } => *ranks,
            Program::Explicit(steps) => steps.len() as u32,
        }
    }

    /// Number of steps of a rank.
    #[inline]
    pub fn steps(&self, rank: u32) -> u32 {
        match *self {
            Program::Ring { ranks: 0 | 1, .. } => 0,
            Program::Ring { kind: RingKind::AllReduce, ranks, .. } => 2 * ranks - 1,
            Program::Ring { ranks, .. } => ranks,
            Program::Explicit(ref steps) => steps[rank as usize].len() as u32,
        }
    }

    /// Step `pc` of `rank`, which must be below [`Program::steps`].
    #[inline]
    pub fn step(&self, rank: u32, pc: u32) -> Step {
        match *self {
            Program::Ring { kind, ranks, up } => ring_step(kind, ranks, up, rank, pc),
            Program::Explicit(ref steps) => steps[rank as usize][pc as usize],
        }
    }

    /// The last step of `rank` that sends, if any does.
    #[inline]
    pub fn last_send(&self, rank: u32) -> Option<u32> {
        match *self {
            Program::Ring { ranks: 0 | 1, .. } => None,
            // Only the final receive of a ring sends nothing.
            Program::Ring { .. } => Some(self.steps(rank) - 2),
            Program::Explicit(ref steps) => steps[rank as usize].iter().rposition(|s| s.op.sends()).map(|pc| pc as u32),
        }
    }
}

#[inline]
fn ring_step(kind: RingKind, ranks: u32, up: bool, rank: u32, pc: u32) -> Step {
    let reduce_scatter_op = |pc| match pc {
        0 => Op::Send,
        pc if pc + 1 < ranks => Op::RecvReduceSend,
        _ => Op::RecvReduce,
    };
    let (op, distance) = match kind {
        // Step k handles the block that still has N-1-k reductions to come.
        RingKind::ReduceScatter => (reduce_scatter_op(pc), pc + 1),
        RingKind::AllGather if pc == 0 => (Op::Send, 0),
        RingKind::AllGather if pc + 1 < ranks => (Op::RecvCopySend, pc),
        RingKind::AllGather => (Op::Recv, pc),
        RingKind::AllReduce if pc + 1 < ranks => (reduce_scatter_op(pc), pc + 1),
        RingKind::AllReduce if pc + 1 == ranks => (Op::RecvReduceCopySend, pc + 1),
        RingKind::AllReduce if pc + 2 < 2 * ranks => (Op::RecvCopySend, pc + 1),
        RingKind::AllReduce => (Op::Recv, pc + 1),
    };
    // Conditional subtractions: this runs once per message, and a division would cost more than the rest.
    let below = |n: u32| if n >= ranks { n - ranks } else { n };
    let back = below(below(distance));
    let block = if up { below(rank + ranks - back) } else { below(rank + back) };
    let to = if up { 1 } else { -1 };
    Step { op, block, from: -to, to }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_send() {
        for kind in [RingKind::ReduceScatter, RingKind::AllGather, RingKind::AllReduce] {
            for ranks in 1..10 {
                let ring = Program::Ring { kind, ranks, up: true };
                let steps: Vec<Vec<Step>> =
                    (0..ranks).map(|r| (0..ring.steps(r)).map(|pc| ring.step(r, pc)).collect()).collect();
                let explicit = Program::Explicit(steps.into());
                assert_eq!(ring.last_send(0), explicit.last_send(0), "{kind:?} {ranks}");
            }
        }
    }
}
