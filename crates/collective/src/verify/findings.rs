//! What a verification finds, in one vocabulary for schedules of files and plans of programs.

use crate::plan::PhaseId;
use crate::rank::Rank;
use serde::Serialize;
use std::fmt;

/// Most findings of one sort that are kept; the others are counted.
pub const MAX_FINDINGS: usize = 1000;

/// What is wrong, remarkable or unusual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    // Errors: what is written is not a schedule of the collective that it names, or no program of the plan.
    /// Ranks, thread blocks or steps are not numbered from 0.
    Ids,
    /// A buffer has not the size that the collective gives it, or a program not that of its phase.
    Sizes,
    /// A peer that cannot be.
    Peer,
    /// A step without what its type needs.
    Operand,
    /// Chunks outside their buffer, or blocks outside the vector.
    Bounds,
    /// Two thread blocks share a connection.
    Connection,
    /// A dependency on what does not exist or comes later.
    Dependency,
    /// More is sent than received.
    Unreceived,
    /// More is received than sent.
    Unsent,
    /// A message is received with another size than it was sent with.
    Count,
    /// A message to a step that does not take it.
    Misdirected,
    /// A message of other blocks than the step that takes it expects.
    Mismatch,
    /// Steps that are parts of one by the file, and cannot be carried out as one.
    Whole,
    /// More than this verifier takes.
    TooLarge,
    // Flaws: carried out, it goes wrong.
    /// Threads wait for each other, or for what never comes.
    Deadlock,
    /// Two threads use a chunk in no particular order, and one of them writes.
    Race,
    /// A chunk is used before anything is in it.
    Absent,
    /// A contribution is added twice.
    Doubled,
    /// Different chunks are added to each other.
    Mixed,
    /// A result lacks a contribution.
    Lost,
    /// A result holds what belongs elsewhere.
    Misplaced,
    // Warnings.
    /// More than the MSCCL runtime takes.
    Limit,
    /// A step waits for one that does not announce its end.
    Unannounced,
    /// A chain of `nop`s that the MSCCL runtime refuses.
    Chain,
    /// An out-of-place schedule changes its input.
    InputWritten,
    /// Numbers in the head of the file that do not fit the rest.
    Head,
}

/// One finding and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What sort of finding.
    pub kind: Kind,
    /// The rank, if it is about one.
    pub rank: Option<u32>,
    /// The phase, in a plan, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<u8>,
    /// The thread (in files, the thread block), if it is about one.
    pub thread_block: Option<u32>,
    /// The step, if it is about one.
    pub step: Option<u32>,
    /// For a person, without the place.
    pub message: String,
    /// What would do in its place.
    pub accepted: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.accepted.iter().try_for_each(|accepted| write!(f, "; accepted: {accepted}"))
    }
}

impl Finding {
    /// Where it is, for a person: `rank 3, phase 1, thread 0, step 2`; nothing if it is about the whole.
    pub fn place(&self) -> String {
        let Finding { rank, phase, thread_block, step, .. } = *self;
        let phase = phase.map(u32::from);
        let parts = [("rank", rank), ("phase", phase), ("thread", thread_block), ("step", step)];
        parts.into_iter().filter_map(|(name, n)| Some(format!("{name} {}", n?))).collect::<Vec<_>>().join(", ")
    }
}

/// What a finding says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    message: String,
    accepted: Option<String>,
}

impl Remark {
    /// What is wrong, and what would do in its place.
    pub fn accepting(message: impl Into<String>, accepted: impl Into<String>) -> Remark {
        Remark { message: message.into(), accepted: Some(accepted.into()) }
    }
}

impl From<&str> for Remark {
    fn from(message: &str) -> Remark {
        Remark { message: message.into(), accepted: None }
    }
}

impl From<String> for Remark {
    fn from(message: String) -> Remark {
        Remark { message, accepted: None }
    }
}

/// Where something is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The rank.
    pub rank: Option<Rank>,
    /// The phase, in a plan.
    pub phase: Option<PhaseId>,
    /// The thread; in files, the thread block.
    pub thread: Option<u32>,
    /// The step.
    pub step: Option<u32>,
}

impl Site {
    /// The schedule or plan as a whole.
    pub const ALL: Site = Site { rank: None, phase: None, thread: None, step: None };

    /// A rank.
    pub const fn rank(rank: Rank) -> Site {
        Site { rank: Some(rank), ..Site::ALL }
    }

    /// A thread.
    pub const fn block(rank: Rank, thread: u32) -> Site {
        Site { thread: Some(thread), ..Site::rank(rank) }
    }

    /// A step.
    pub const fn step(rank: Rank, thread: u32, step: u32) -> Site {
        Site { step: Some(step), ..Site::block(rank, thread) }
    }

    /// The same in a phase.
    #[must_use]
    pub const fn in_phase(self, phase: Option<PhaseId>) -> Site {
        Site { phase, ..self }
    }
}

/// Findings in the order in which they were made; a bounded number of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first [`MAX_FINDINGS`].
    pub list: Vec<Finding>,
    /// How many there were beyond.
    pub omitted: u64,
}

impl Findings {
    /// Adds one.
    pub fn add(&mut self, kind: Kind, site: Site, remark: impl Into<Remark>) {
        if self.list.len() == MAX_FINDINGS {
            self.omitted += 1;
            return;
        }
        let Site { rank, phase, thread, step } = site;
        let Remark { message, accepted } = remark.into();
        let (rank, phase) = (rank.map(|rank| rank.0), phase.map(|phase| phase.0));
        self.list.push(Finding { kind, rank, phase, thread_block: thread, step, message, accepted });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Findings that a message lists.
const SHOWN: usize = 4;

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, finding) in self.list.iter().take(SHOWN).enumerate() {
            let (apart, place) = (if i == 0 { "" } else { "\n" }, finding.place());
            match &place[..] {
                "" => write!(f, "{apart}{finding}")?,
                place => write!(f, "{apart}{place}: {finding}")?,
            }
        }
        match self.list.len().saturating_sub(SHOWN) as u64 + self.omitted {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Findings {}
