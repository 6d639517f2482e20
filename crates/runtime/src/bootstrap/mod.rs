//! How the ranks of a communicator find each other, and learn of each other's failures.
//!
//! ```text
//!   UniqueId::create ─▶ server: a thread of the process that creates the id
//!                         │ one TCP connection to each rank; the server's end is read by that one thread
//!   Session::join ────▶ control thread of each rank: answers inquiries, takes verdicts
//!                         │ an atomic flag, a lock
//!   Session ───────────▶ the rank's own threads: begin, end, waiting, failure
//! ```
//!
//! A rank joins by presenting the token of the [`UniqueId`]; who does not is disconnected without an answer. When all
//! have joined, each gets what the others have published, the server stops listening, and from then on it watches:
//!
//! * A rank whose connection or process ends without a goodbye has died. All others are told at once.
//! * A rank that waits in a call for longer than 50 ms says so ([`Session::waiting`]). The server then asks all ranks
//!   what they know of that call. If they have made different calls, all get a [`Cause::Mismatch`]; if nothing moves for
//!   the timeout, the rank that does not answer, has not made the call, or is waited for is named in a
//!   [`Cause::TimedOut`].
//! * If the server itself is silent, ranks judge by their own clocks ([`Session::waiting`]).
//!
//! The first failure stays the failure of the communicator, and all ranks get the same one.
//!
//! What is left out: nothing is encrypted, so that whoever can read the network can read the token; and when the
//! process of the server ends after its own rank has said goodbye, the remaining ranks go on, but deaths among them are
//! noticed by timeout only.

pub(crate) mod address;
mod calls;
pub(crate) mod codec;
pub(crate) mod connection;
mod control;
mod court;
pub(crate) mod id;
mod message;
mod options;
pub(crate) mod process;
mod server;
mod session;
pub(crate) mod texts;
pub(crate) mod token;

pub use calls::Request;
pub use id::{ID_BYTES, UniqueId};
pub use message::PUBLICATION_BYTES;
pub use options::Options;
pub use session::{EXCHANGE_BYTES, Session};

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
    /// A GPU or its driver has failed, or lacks what is needed.
    Device,
    /// The caller has asked for what there is not.
    Argument,
}

impl Failure {
    /// A failure that is about no rank and no call.
    pub fn new(cause: Cause, message: impl Into<String>) -> Failure {
        Failure { cause, rank: None, call: None, message: message.into() }
    }

    /// The same failure, as that of a rank.
    #[must_use]
    pub fn of_rank(self, rank: u32) -> Failure {
        Failure { rank: Some(rank), ..self }
    }

    /// The same failure, in a call.
    #[must_use]
    pub fn in_call(self, call: u32) -> Failure {
        Failure { call: Some(call), ..self }
    }

    /// The operating system has refused `what`.
    pub fn system(what: &str, error: impl fmt::Display) -> Failure {
        Failure::new(Cause::System, format!("the system refuses {what}: {error}"))
    }
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
