//! What is found about a schedule.

use super::form::Collective;
use crate::verify::{Buffering, Finding};
use serde::Serialize;

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
