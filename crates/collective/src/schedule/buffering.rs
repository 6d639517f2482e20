//! How many messages a connection can hold, which decides whether a schedule can deadlock.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a connection holds while the receiver is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffering {
    /// Any number of messages.
    Eager,
    /// At most so many messages (at least 1).
    Slots(u32),
    /// Nothing: a send completes together with its receive.
    Rendezvous,
}

impl fmt::Display for Buffering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Buffering::Eager => write!(f, "connections that hold any number of messages"),
            Buffering::Slots(1) => write!(f, "connections that hold 1 message"),
            Buffering::Slots(slots) => write!(f, "connections that hold {slots} messages"),
            Buffering::Rendezvous => write!(f, "connections that hold nothing"),
        }
    }
}
