//! How many messages a connection can hold, which decides whether threads can deadlock.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a connection, from a thread of a rank to another rank, holds while the receiver is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffering {
    /// Any number of messages.
    Eager,
    /// At most so many messages (at least 1).
    Slots(u32),
    /// At most so many messages (at least 1) of all threads together. Now threads contend, and who comes first matters: a
    /// deadlock found is one, but none found proves nothing for several threads. Files do not ask for it.
    #[serde(skip)]
    SharedSlots(u32),
    /// Nothing: a send completes together with its receive.
    Rendezvous,
}

impl fmt::Display for Buffering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Buffering::Eager => write!(f, "connections that hold any number of messages"),
            Buffering::Slots(1) => write!(f, "connections that hold 1 message"),
            Buffering::Slots(slots) => write!(f, "connections that hold {slots} messages"),
            Buffering::SharedSlots(slots) => {
                write!(f, "connections that hold {slots} messages of all threads together")
            }
            Buffering::Rendezvous => write!(f, "connections that hold nothing"),
        }
    }
}
