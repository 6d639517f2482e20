//! Why a run has no result.

use std::fmt;

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The description is not a legal simulation.
    Spec(String),
    /// The simulation failed: it stalled or lost bytes.
    Simulation(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Spec(message) | RunError::Simulation(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for RunError {}

pub(crate) fn illegal(what: impl fmt::Display) -> RunError {
    RunError::Spec(what.to_string())
}
