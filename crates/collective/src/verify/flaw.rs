//! What can be wrong with a schedule.

use crate::plan::PhaseId;
use crate::program::{Blocks, Slot};
use crate::rank::{LineRank, Rank};
use std::fmt;

/// Why a schedule is rejected. Ranks are those of the whole grid, and after them the switches; `element` counts
/// within the chunk, and in an all-to-all is the rank that the data is for.
#[expect(missing_docs, reason = "the fields are the numbers that the message of the variant names")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A program for another number of ranks than its phase has.
    WrongSize { phase: PhaseId, expected: u32, got: u32 },
    /// A step that names a rank that is not in the group, or its own.
    NoSuchPeer { rank: Rank, phase: PhaseId, at: Slot, peer: LineRank },
    /// A step that works on blocks that the vector does not have, or on none.
    NoSuchBlocks { rank: Rank, phase: PhaseId, at: Slot, blocks: Blocks },
    /// A step that adds in an all-to-all, or where there are no blocks.
    NothingToAdd { rank: Rank, phase: PhaseId, at: Slot },
    /// A message to a step that does not take it.
    WrongStep { rank: Rank, phase: PhaseId, at: Slot, to: Rank, into: Slot, why: Misdirection },
    /// A message of other blocks than the step that takes it expects.
    Mismatch { rank: Rank, phase: PhaseId, at: Slot, expected: Blocks, got: Blocks },
    /// A step that sends or adds data that its rank does not have.
    Absent { rank: Rank, phase: PhaseId, at: Slot, element: u64 },
    /// A contribution that is added, or delivered, twice.
    Doubled { rank: Rank, element: u64, contributor: Rank },
    /// A contribution that a rank must have in the end, and has not.
    Lost { rank: Rank, element: u64, contributor: Rank },
    /// A contribution that a rank has in the end where there must be other data.
    Misplaced { rank: Rank, element: u64, contributor: Rank },
    /// Two threads that access an element in no particular order, at least one of them writing.
    Race { rank: Rank, phase: PhaseId, element: u64, at: Slot, other: Slot },
    /// Threads that wait for ever.
    Deadlock { stuck: Vec<Wait> },
}

/// Waits that the message of a deadlock lists.
const MOST_LISTED: usize = 16;

/// Why a step does not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdirection {
    /// The receiver has no such step.
    NoSuchStep,
    /// The step does not receive.
    DoesNotReceive,
    /// The step receives from another rank.
    OtherSender,
    /// Another message came first.
    Taken,
}

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Its rank.
    pub rank: Rank,
    /// Its phase.
    pub phase: PhaseId,
    /// Its step.
    pub at: Slot,
    /// What for.
    pub awaited: Awaited,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A message of this rank.
    Message(Rank),
    /// Room for a message to this rank.
    Room(Rank),
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread {
            0 => write!(f, "step {}", self.pc),
            thread => write!(f, "step {} of thread {thread}", self.pc),
        }
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, self.origin) {
            (1, 0) => write!(f, "block {}", self.first),
            (count, 0) => write!(f, "{count} blocks from {}", self.first),
            (count, origin) => write!(f, "{count} blocks from {} of rank {origin}", self.first),
        }
    }
}

impl fmt::Display for Misdirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misdirection::NoSuchStep => write!(f, "there is no such step"),
            Misdirection::DoesNotReceive => write!(f, "it does not receive"),
            Misdirection::OtherSender => write!(f, "it receives from another rank"),
            Misdirection::Taken => write!(f, "it has its message already"),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait { rank, phase, at, awaited } = self;
        match awaited {
            Awaited::Message(from) => write!(f, "rank {rank}, phase {phase}, {at} waits for a message of rank {from}"),
            Awaited::Room(to) => write!(f, "rank {rank}, phase {phase}, {at} waits for room at rank {to}"),
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::WrongSize { phase, expected, got } => {
                write!(f, "phase {phase}: the program is for {got} ranks; there are {expected}")
            }
            Flaw::NoSuchPeer { rank, phase, at, peer } => {
                write!(f, "rank {rank}, phase {phase}, {at}: there is no other rank {peer} in its group")
            }
            Flaw::NoSuchBlocks { rank, phase, at, blocks } => {
                write!(f, "rank {rank}, phase {phase}, {at}: the vector has no {blocks}")
            }
            Flaw::NothingToAdd { rank, phase, at } => {
                write!(f, "rank {rank}, phase {phase}, {at}: adds up data of an all-to-all")
            }
            Flaw::WrongStep { rank, phase, at, to, into, why } => {
                write!(f, "rank {rank}, phase {phase}, {at}: sends to {into} of rank {to}, but {why}")
            }
            Flaw::Mismatch { rank, phase, at, expected, got } => {
                write!(f, "rank {rank}, phase {phase}, {at}: expects {expected}, receives {got}")
            }
            Flaw::Absent { rank, phase, at, element } => {
                write!(f, "rank {rank}, phase {phase}, {at}: uses element {element}, which it does not have")
            }
            Flaw::Doubled { rank, element, contributor } => {
                write!(f, "rank {rank}: the contribution of {contributor} to element {element} is there twice")
            }
            Flaw::Lost { rank, element, contributor } => {
                write!(f, "rank {rank}: the contribution of {contributor} to element {element} is lost")
            }
            Flaw::Misplaced { rank, element, contributor } => {
                write!(f, "rank {rank}: element {element} holds a contribution of {contributor} that is not its own")
            }
            Flaw::Race { rank, phase, element, at, other } => {
                write!(f, "rank {rank}, phase {phase}: {at} and {other} use element {element} in no particular order")
            }
            Flaw::Deadlock { stuck } => {
                write!(f, "deadlock")?;
                stuck.iter().take(MOST_LISTED).try_for_each(|wait| write!(f, "; {wait}"))?;
                match stuck.len().saturating_sub(MOST_LISTED) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
        }
    }
}

impl std::error::Error for Flaw {}
