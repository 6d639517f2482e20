//! What messages cost the buses of an endpoint.

use super::{WorstCase, zero};
use serde::Deserialize;
use syncline_core::{Bytes, Ps, Refusal};
use syncline_endpoint::LogGp;

/// Crossings of buses of a step, at most.
const CROSSINGS: f64 = 5.0;

/// What a message costs the buses to memory and to the AFI beside its bytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum BusSpec {
    /// Nothing.
    #[default]
    Rate,
    /// [`syncline_endpoint::LogGp`].
    Loggp {
        /// L.
        latency_ps: u64,
        /// o.
        overhead_ps: u64,
        /// g.
        gap_ps: u64,
        /// Largest message of a transfer; `None`: it is one.
        message_bytes: Option<u64>,
    },
}

impl BusSpec {
    /// The protocol of the buses, if messages cost more than their bytes.
    ///
    /// # Errors
    /// A [`Refusal`] of messages without bytes.
    pub(super) fn protocol(self) -> Result<Option<LogGp>, Refusal> {
        match self {
            BusSpec::Rate => Ok(None),
            BusSpec::Loggp { message_bytes: Some(0), .. } => Err(zero("buses.message_bytes")),
            BusSpec::Loggp { latency_ps, overhead_ps, gap_ps, message_bytes } => Ok(Some(LogGp {
                latency: Ps(latency_ps),
                overhead: Ps(overhead_ps),
                gap: Ps(gap_ps),
                message: message_bytes.map(Bytes),
            })),
        }
    }

    /// What messages cost at worst, beside servers of which the slowest serves so many bytes per second.
    pub(super) fn at_worst(self, slowest: u64) -> WorstCase {
        let (per_step, per_byte) = match self {
            BusSpec::Rate => (0.0, 0.0),
            BusSpec::Loggp { latency_ps, overhead_ps, gap_ps, message_bytes } => {
                let apart = overhead_ps.max(gap_ps) as f64;
                let message = CROSSINGS * (latency_ps as f64 + 2.0 * overhead_ps as f64 + apart);
                (message, message_bytes.map_or(0.0, |n| CROSSINGS * apart / n.max(1) as f64))
            }
        };
        WorstCase { slowest, per_step, per_byte, ..WorstCase::NONE }
    }
}
