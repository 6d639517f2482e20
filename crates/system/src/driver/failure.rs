//! Why runs fail, for people.

use std::fmt;
use syncline_core::{Books, Ps, Wait};
use syncline_network::Loss;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing happens any more, and work is left.
    Stalled {
        /// When.
        at: Ps,
        /// Who waits for what.
        waits: Vec<Wait>,
    },
    /// What would happen next lies beyond the end of simulated time.
    Endless {
        /// The last time at which anything happened.
        at: Ps,
    },
    /// A transport has given a message up.
    MessageLost {
        /// When.
        at: Ps,
        /// The NPU that sent it.
        from: String,
        /// Why.
        why: Loss,
    },
    /// Ranks of a communicator disagree on what they do together.
    Mismatch {
        /// When.
        at: Ps,
        /// What one of them does.
        one: String,
        /// What another one does.
        other: String,
    },
    /// Nodes that are simulated as one differ: the run has to be carried out with all of them.
    ToldApart {
        /// Why.
        why: &'static str,
    },
    /// Whoever started it wants it no longer.
    Cancelled {
        /// When.
        at: Ps,
    },
    /// The books do not balance.
    NotConserved {
        /// The network's account.
        books: Books,
        /// Bytes the endpoints sent, switches included.
        sent: u64,
    },
}

/// Waits that a message lists; the rest is counted.
pub(super) const WAITS_SHOWN: usize = 20;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Stalled { at, waits } if waits.is_empty() => write!(
                f,
                "the simulation stalled at {at}: nothing can happen any more, and no part waits for another, which is an \
                 error of the engine that is worth a report"
            ),
            Failure::Stalled { at, waits } => {
                write!(
                    f,
                    "the simulation stalled at {at}: nothing can happen any more, but {} parts wait",
                    waits.len()
                )?;
                for Wait { who, what } in waits.iter().take(WAITS_SHOWN) {
                    write!(f, "\n  {who} waits for {what}")?;
                }
                match waits.len().saturating_sub(WAITS_SHOWN) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            Failure::Endless { at } => write!(
                f,
                "simulated time is over: what follows the last event, at {at}, lies beyond {:.0} days (2^63 ps)",
                (Ps::HORIZON.as_s() / 86_400.0).floor()
            ),
            Failure::MessageLost { at, from, why } => {
                write!(f, "at {at} the network gave up a message of {from}: {why}")
            }
            Failure::Mismatch { at, one, other } => {
                write!(f, "at {at} ranks of a communicator disagree: {one}, but {other}")
            }
            Failure::ToldApart { why } => write!(f, "NPUs that are simulated as one differ: {why}"),
            Failure::Cancelled { at } => write!(f, "the simulation was cancelled at {at}"),
            Failure::NotConserved { books, sent } => write!(
                f,
                "bytes are not conserved: endpoints sent {sent}, the network took {}, delivered {} and gave up {}",
                books.accepted, books.delivered, books.failed
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_in_which_nothing_waits_is_an_error_of_the_engine() {
        let text = Failure::Stalled { at: Ps(7), waits: Vec::new() }.to_string();
        assert!(text.contains("an error of the engine") && !text.contains("0 parts"), "{text}");
    }
}
