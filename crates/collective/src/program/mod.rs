//! Step programs: what each rank of a group does in one phase of a collective.
//!
//! A program works on a vector that is cut into [`Program::parts`] blocks. A rank runs one or more
//! *threads*; a thread is a list of steps, performed in order, each of which receives at most one run
//! of blocks and sends at most one, always the same one, so that an engine that works on packets can
//! forward each packet as it arrives. Threads of a rank need not wait for each other. A send does not
//! wait for its receiver, and names the step that will take it: that is how arrivals find their step.
//! The vocabulary is that of MSCCL's fused instructions.
//!
//! | module | algorithms |
//! |---|---|
//! | [`ring`] | rings, one direction each |
//! | [`direct`] | everybody to everybody at once |

pub mod direct;
pub mod ring;

use crate::kind::Kind;

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

/// Consecutive blocks of a vector, wrapping from the last to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// In an all-to-all, the rank whose vector they come from (block `i` is for rank `i`); else 0.
    pub origin: u32,
    /// The first of them.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Blocks {
    /// One block of a vector that all ranks share.
    pub const fn one(block: u32) -> Blocks {
        Blocks { origin: 0, first: block, count: 1 }
    }
}

/// A step of a rank, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Its thread.
    pub thread: u8,
    /// Its number in the thread.
    pub pc: u32,
}

/// One step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub op: Op,
    /// The blocks that it receives, sends or both.
    pub blocks: Blocks,
    /// The rank that received blocks come from.
    pub from: u32,
    /// The rank that sent blocks go to.
    pub to: u32,
    /// The step of that rank that takes them.
    pub into: Slot,
}

impl Step {
    /// A step that only sends.
    pub const fn send(blocks: Blocks, to: u32, into: Slot) -> Step {
        Step { op: Op::Send, blocks, from: to, to, into }
    }

    /// A step that only receives; `op` is [`Op::Recv`] or [`Op::RecvReduce`].
    pub const fn receive(op: Op, blocks: Blocks, from: u32) -> Step {
        Step { op, blocks, from, to: from, into: Slot { thread: 0, pc: 0 } }
    }
}

/// The program of a phase, for all ranks of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A ring algorithm in one direction.
    Ring {
        /// What it achieves: all-reduce, reduce-scatter or all-gather.
        kind: Kind,
        /// Ranks of the group.
        ranks: u32,
        /// Whether data goes to the next higher rank (else the next lower).
        up: bool,
    },
    /// Everybody sends to everybody whom it has something for.
    Direct {
        /// What it achieves.
        kind: Kind,
        /// Ranks of the group.
        ranks: u32,
        /// The root of a rooted collective.
        root: u32,
    },
    /// Written-out steps, one list per rank: tests and schedules of other tools.
    Explicit {
        /// Blocks that the vector is cut into.
        parts: u32,
        /// The steps of each rank, in one thread.
        steps: std::sync::Arc<[Vec<Step>]>,
    },
}

impl Program {
    /// Ranks of the group.
    pub fn ranks(&self) -> u32 {
        match self {
            Program::Ring { ranks, .. } | Program::Direct { ranks, .. } => *ranks,
            Program::Explicit { steps, .. } => steps.len() as u32,
        }
    }

    /// Blocks that the vector is cut into, at least 1.
    #[inline]
    pub fn parts(&self) -> u32 {
        match *self {
            Program::Ring { ranks, .. } => ranks,
            Program::Direct { kind, ranks, .. } => direct::parts(kind, ranks),
            Program::Explicit { parts, .. } => parts,
        }
    }

    /// Threads of a rank, at least 1.
    #[inline]
    pub fn threads(&self) -> u8 {
        match self {
            Program::Ring { .. } | Program::Direct { .. } | Program::Explicit { .. } => 1,
        }
    }

    /// Number of steps of a thread of a rank.
    #[inline]
    pub fn steps(&self, rank: u32, _thread: u8) -> u32 {
        match *self {
            Program::Ring { kind, ranks, .. } => ring::steps(kind, ranks),
            Program::Direct { kind, ranks, root } => direct::steps(kind, ranks, root, rank),
            Program::Explicit { ref steps, .. } => steps[rank as usize].len() as u32,
        }
    }

    /// A step, whose number must be below [`Program::steps`].
    #[inline]
    pub fn step(&self, rank: u32, at: Slot) -> Step {
        match *self {
            Program::Ring { kind, ranks, up } => ring::step(kind, ranks, up, rank, at.pc),
            Program::Direct { kind, ranks, root } => direct::step(kind, ranks, root, rank, at.pc),
            Program::Explicit { ref steps, .. } => steps[rank as usize][at.pc as usize],
        }
    }

    /// Whether every rank does the same as rank 0, seen from its own place: with blocks and peers at the
    /// same distance (modulo the ranks), and numbered alike.
    pub const fn is_rotation_symmetric(&self) -> bool {
        match self {
            Program::Ring { .. } => true,
            Program::Direct { kind, .. } => !kind.is_rooted(),
            Program::Explicit { .. } => false,
        }
    }

    /// Messages that follow one another on the longest way through the program: what its latency counts.
    pub fn rounds(&self) -> u32 {
        match *self {
            Program::Ring { ranks: 0 | 1, .. } => 0,
            Program::Ring { kind: Kind::AllReduce, ranks, .. } => 2 * (ranks - 1),
            Program::Ring { ranks, .. } => ranks - 1,
            Program::Direct { ranks: 0 | 1, .. } => 0,
            Program::Direct { kind: Kind::AllReduce, .. } => 2,
            Program::Direct { .. } => 1,
            Program::Explicit { ref steps, .. } => steps.iter().map(|s| s.len() as u32).max().unwrap_or(0),
        }
    }

    /// The last step of a rank's first thread that sends.
    pub fn last_send(&self, rank: u32) -> Option<u32> {
        match *self {
            Program::Ring { kind, ranks, .. } => ring::last_send(kind, ranks),
            _ => (0..self.steps(rank, 0)).rev().find(|&pc| self.step(rank, Slot { thread: 0, pc }).op.sends()),
        }
    }
}
