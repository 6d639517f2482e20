//! What is found about a schedule.

use super::buffering::Buffering;
use super::form::Collective;
use crate::rank::Rank;
use serde::Serialize;
use std::fmt;

/// Most findings of one sort that are kept; the others are counted.
pub const MAX_FINDINGS: usize = 1000;

/// What is wrong, remarkable or unusual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    // Errors: what is written is not a schedule of the collective that it names.
    /// Ranks, thread blocks or steps are not numbered from 0.
    Ids,
    /// A buffer has not the size that the collective gives it.
    Sizes,
    /// A peer that cannot be.
    Peer,
    /// A step without what its type needs.
    Operand,
    /// Chunks outside their buffer.
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
    /// More than this verifier takes.
    TooLarge,
    // Flaws: carried out, the schedule goes wrong.
    /// Thread blocks wait for each other.
    Deadlock,
    /// Two thread blocks use a chunk in no particular order, and one of them writes.
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
    /// The thread block, if it is about one.
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
    /// The thread block.
    pub thread_block: Option<u32>,
    /// The step.
    pub step: Option<u32>,
}

impl Site {
    /// The schedule as a whole.
    pub const ALL: Site = Site { rank: None, thread_block: None, step: None };

    /// A rank.
    pub const fn rank(rank: Rank) -> Site {
        Site { rank: Some(rank), thread_block: None, step: None }
    }

    /// A thread block.
    pub const fn block(rank: Rank, thread_block: u32) -> Site {
        Site { rank: Some(rank), thread_block: Some(thread_block), step: None }
    }

    /// A step.
    pub const fn step(rank: Rank, thread_block: u32, step: u32) -> Site {
        Site { rank: Some(rank), thread_block: Some(thread_block), step: Some(step) }
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
        let Site { rank, thread_block, step } = site;
        let Remark { message, accepted } = remark.into();
        self.list.push(Finding { kind, rank: rank.map(|rank| rank.0), thread_block, step, message, accepted });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// What a schedule amounts to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counts {
    /// Ranks.
    pub ranks: u32,
    /// Channels that are used.
    pub channels: u32,
    /// Thread blocks of all ranks.
    pub thread_blocks: u32,
    /// Steps of all ranks that do something.
    pub steps: u64,
    /// Steps of all ranks that only wait.
    pub nops: u64,
    /// Messages.
    pub messages: u64,
    /// Chunks that are sent, hop by hop.
    pub chunks_sent: u64,
    /// Chunks of the whole vector, which is what the size of the collective is counted in.
    pub size_chunks: u32,
    /// Bytes that a rank sends per byte of the collective's size, at least.
    pub sent_per_byte_min: f64,
    /// Bytes that a rank sends per byte of the collective's size, at most.
    pub sent_per_byte_max: f64,
    /// Steps of the longest chain in which each has to wait for the one before.
    pub longest_path_steps: u64,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The schedule's name.
    pub name: String,
    /// What it is to achieve.
    pub collective: Collective,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// The root, where the collective has one and the schedule could be carried out.
    pub root: Option<u32>,
    /// Whether the root was found from what the schedule does.
    pub root_inferred: bool,
    /// What connections were taken to hold.
    pub buffering: Buffering,
    /// Whether nothing is wrong.
    pub verified: bool,
    /// What makes it no schedule of the collective.
    pub errors: Vec<Finding>,
    /// How many errors there are beyond those listed.
    pub errors_omitted: u64,
    /// What goes wrong when it is carried out.
    pub flaws: Vec<Finding>,
    /// How many flaws there are beyond those listed.
    pub flaws_omitted: u64,
    /// What a runtime may stumble over.
    pub warnings: Vec<Finding>,
    /// How many warnings there are beyond those listed.
    pub warnings_omitted: u64,
    /// What it amounts to; absent if there are errors.
    pub counts: Option<Counts>,
}
