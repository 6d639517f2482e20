//! The steps that programs consist of: what a rank receives, does and sends at once.

use crate::rank::LineRank;

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
    /// How many; none in a message that only says that something is done.
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
    pub from: LineRank,
    /// The rank that sent blocks go to.
    pub to: LineRank,
    /// The step of that rank that takes them.
    pub into: Slot,
}

impl Step {
    /// A step that only sends.
    pub const fn send(blocks: Blocks, to: LineRank, into: Slot) -> Step {
        Step { op: Op::Send, blocks, from: to, to, into }
    }

    /// A step that only receives; `op` is [`Op::Recv`] or [`Op::RecvReduce`].
    pub const fn receive(op: Op, blocks: Blocks, from: LineRank) -> Step {
        Step { op, blocks, from, to: from, into: Slot { thread: 0, pc: 0 } }
    }
}
