//! The language of steps: what a rank receives, does and sends at once.
//!
//! One language serves generated algorithms, plans in files and schedules of other tools. A step says *what* of the vector it
//! works on ([`Blocks`]), with whom, and which step takes what it sends. Written steps may say more ([`Detail`]): where
//! their data lies, if that is not its place in the vector, a step of another thread that they wait for, and the way that
//! their message goes.

use crate::rank::LineRank;
use serde::{Deserialize, Serialize};

/// What a step does, in the order of its name. In files they have MSCCL's short names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Sends local data.
    #[serde(rename = "s")]
    Send,
    /// Receives and keeps.
    #[serde(rename = "r")]
    Recv,
    /// Receives, keeps and sends on.
    #[serde(rename = "rcs")]
    RecvCopySend,
    /// Receives, adds the local data, sends the sum on without keeping it.
    #[serde(rename = "rrs")]
    RecvReduceSend,
    /// Receives, adds the local data, keeps the sum.
    #[serde(rename = "rrc")]
    RecvReduce,
    /// Receives, adds the local data, keeps the sum and sends it on.
    #[serde(rename = "rrcs")]
    RecvReduceCopySend,
    /// Copies local data to another place.
    #[serde(rename = "cpy")]
    Copy,
    /// Adds local data to that at another place.
    #[serde(rename = "re")]
    Reduce,
    /// Adds a residual, which is nobody's input: no collective has a place for it, but files may name it.
    #[serde(rename = "ra")]
    ResidualAdd,
    /// Only waits for the step that it depends on.
    #[serde(rename = "nop")]
    Nop,
}

impl Op {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Send => "s",
            Op::Recv => "r",
            Op::RecvCopySend => "rcs",
            Op::RecvReduceSend => "rrs",
            Op::RecvReduce => "rrc",
            Op::RecvReduceCopySend => "rrcs",
            Op::Copy => "cpy",
            Op::Reduce => "re",
            Op::ResidualAdd => "ra",
            Op::Nop => "nop",
        }
    }

    /// Whether the step takes a message.
    pub const fn receives(self) -> bool {
        !matches!(self, Op::Send | Op::Copy | Op::Reduce | Op::ResidualAdd | Op::Nop)
    }

    /// Whether the step sends a message.
    pub const fn sends(self) -> bool {
        matches!(self, Op::Send | Op::RecvReduceSend | Op::RecvReduceCopySend | Op::RecvCopySend)
    }

    /// Whether the step works on what its rank has, without a message.
    pub const fn is_local(self) -> bool {
        matches!(self, Op::Copy | Op::Reduce | Op::ResidualAdd | Op::Nop)
    }

    /// Whether the step adds local data to what it received, or to other local data.
    pub const fn reduces(self) -> bool {
        matches!(self, Op::RecvReduceSend | Op::RecvReduce | Op::RecvReduceCopySend | Op::Reduce | Op::ResidualAdd)
    }

    /// Whether the step reads local data, which in files is its source.
    pub const fn reads_local(self) -> bool {
        self.reduces() || matches!(self, Op::Send | Op::Copy)
    }

    /// Whether the step keeps what it received or computed, which in files has a destination.
    pub const fn stores(self) -> bool {
        !matches!(self, Op::Send | Op::RecvReduceSend | Op::Nop)
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
    pub thread: u16,
    /// Its number in the thread.
    pub pc: u32,
}

/// One step of a rank: what every event of a run needs to know. What else a written step may say is its [`Detail`].
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
    /// The same step, where what has no meaning for what it does is the same for all steps that do so.
    #[must_use]
    pub const fn normal(self) -> Step {
        const NOBODY: LineRank = LineRank(0);
        let zero = Slot { thread: 0, pc: 0 };
        match (self.op.receives(), self.op.sends()) {
            (true, true) => self,
            (true, false) => Step { to: self.from, into: zero, ..self },
            (false, true) => Step { from: self.to, ..self },
            (false, false) => Step { from: NOBODY, to: NOBODY, into: zero, ..self },
        }
    }

    /// A step that only sends.
    pub const fn send(blocks: Blocks, to: LineRank, into: Slot) -> Step {
        Step { op: Op::Send, blocks, from: to, to, into }
    }

    /// A step that only receives; `op` is [`Op::Recv`] or [`Op::RecvReduce`].
    pub const fn receive(op: Op, blocks: Blocks, from: LineRank) -> Step {
        Step { op, blocks, from, to: from, into: Slot { thread: 0, pc: 0 } }
    }
}

/// A buffer of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Buffer {
    /// What the collective starts from.
    #[serde(rename = "i")]
    Input,
    /// What it produces.
    #[serde(rename = "o")]
    Output,
    /// Room for what is under way.
    #[serde(rename = "s")]
    Scratch,
}

impl Buffer {
    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Buffer::Input => "input",
            Buffer::Output => "output",
            Buffer::Scratch => "scratch",
        }
    }
}

/// The first of some blocks of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The buffer.
    pub buffer: Buffer,
    /// The block's number within it.
    pub first: u32,
}

/// The way that a message goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Along the fabric's route.
    #[default]
    Route,
    /// Along another route that is as good, by its number among these.
    Choice(u16),
    /// By links of a class, such as PCIe where there are NVLinks, too; by its number among the classes that the program names
    /// ([`super::Written::named`]).
    Over(u8),
    /// Through nodes of the fabric; by their number among those that the program names.
    Through(u16),
    /// By one of the parallel links to the peer, by its number among these.
    Link(u16),
}

/// What the ways of a program's messages name by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Classes of links.
    pub classes: Vec<String>,
    /// The nodes that a message passes, in order.
    pub through: Vec<Vec<String>>,
}

impl Named {
    /// Nothing.
    pub const NONE: &Named = &Named { classes: Vec::new(), through: Vec::new() };
}

/// When the message that follows another one in its thread is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// At once.
    Free,
    /// When the one before has entered its port.
    #[default]
    OneByOne,
    /// When few of those before have still to enter their ports, if it goes another way; else when all have.
    Spread,
}

/// What a written step may say beyond what all steps do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// A step of another thread of its rank that has to be done before.
    pub after: Option<Slot>,
    /// The way of what it sends.
    pub way: Way,
    /// When a message that follows it is sent, if that is not as in all the program.
    pub pace: Option<Pace>,
    /// Where the data that it reads lies; `None` for its place in the vector.
    pub src: Option<Place>,
    /// Where the data that it writes lies; `None` for its place in the vector.
    pub dst: Option<Place>,
}
