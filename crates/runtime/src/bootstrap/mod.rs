//! How the ranks of a communicator find each other, and learn of each other's failures.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a call cannot be finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What sort of failure.
    pub cause: Cause,
    /// The rank that is to blame, if there is one.
    pub rank: Option<u32>,
    /// The number of the call, from 0, if it is about one.
    pub call: Option<u32>,
    /// For a person: one sentence without a full stop, which names the rank and the call.
    pub message: String,
}

/// Sorts of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The process of a rank has ended, or its host cannot be reached.
    Died,
    /// A rank does not answer, or has not made the call in time.
    TimedOut,
    /// Ranks have made different calls.
    Mismatch,
    /// A rank has given the communicator up.
    Aborted,
    /// The operating system has refused something.
    System,
    /// The caller has asked for what there is not.
    Argument,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// What a rank asks for in a call. All ranks have to ask for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// For a person, e.g. `all-reduce of 1024 float32 (sum)`.
    pub text: String,
    /// A digest of all that has to be the same.
    pub digest: u64,
}
