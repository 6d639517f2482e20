//! Why a run has no result.

use std::fmt;
use syncline_core::Refusal;

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The description is not a legal simulation; at least one reason.
    Spec(Vec<Refusal>),
    /// The simulation failed: it stalled or lost bytes.
    Simulation(String),
    /// It was ended from outside ([`crate::Monitor`]).
    Cancelled,
}

impl RunError {
    /// The refusal of a field that names an NPU which is none of the machine's `npus` NPUs.
    pub fn no_such_npu(field: &str, npu: u32, npus: u32) -> RunError {
        Refusal::of(field, format!("there is no NPU {npu}")).accepting(format!("0 to {}", npus - 1)).into()
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Spec(refusals) => {
                let lines: Vec<String> = refusals.iter().map(Refusal::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            RunError::Simulation(message) => f.write_str(message),
            RunError::Cancelled => f.write_str("the simulation was cancelled"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<Refusal> for RunError {
    fn from(refusal: Refusal) -> RunError {
        RunError::Spec(vec![refusal])
    }
}
