//! The clock that a limit of power leaves.
//!
//! A GPU lowers the clock of its SMs until what it draws on average keeps the limit. Kernels that memory bounds do not slow down by
//! that, products do, so that the clock depends on the mix: products alone hold the least rate. With `x` the fraction of the full
//! clock and `T(x)` what the kernels of the mix take at it,
//!
//! ```text
//!   energy(x) = idle T(x) + per_flop flops (1 - scaling + scaling x) + per_byte bytes
//! ```
//!
//! must not exceed `limit T(x)`. An operation takes less energy at a lower clock, since that takes less voltage: `scaling` is
//! the part of its energy that falls. Left out: time in which the GPU waits, which would leave more for the rest, and the
//! temperature.

use crate::parameters::{NpuError, require_positive};
use serde::Deserialize;

/// What a GPU may draw, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Watts that it may draw on average.
    pub limit_w: f64,
    /// Watts that it draws without work.
    pub idle_w: f64,
    /// Picojoules of an operation of a product at the full clock.
    pub per_flop_pj: f64,
    /// The part of that which falls in proportion to the clock.
    pub scaling: f64,
    /// Picojoules of a byte to or from main memory, and of what a kernel does with it.
    pub per_byte_pj: f64,
}

/// The lowest clock: what is left is drawn whatever the clock is.
const LOWEST: f64 = 0.05;
/// Halvings of the interval in which the clock is looked for.
const STEPS: usize = 40;
const JOULES_PER_PJ: f64 = 1e-12;

impl Power {
    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if something is zero that must not be.
    pub fn checked(self) -> Result<Power, NpuError> {
        let Power { limit_w, idle_w, per_flop_pj, scaling, per_byte_pj } = self;
        require_positive(&[("limit_w", limit_w), ("idle_w", idle_w), ("per_flop_pj", per_flop_pj)])?;
        require_positive(&[("per_byte_pj", per_byte_pj), ("scaling", 1.0 - scaling)])?;
        Ok(self)
    }

    /// The fraction of the full clock at which kernels of so many operations and bytes, which take `seconds` of the clock, keep
    /// the limit.
    pub fn clock(self, flops: f64, bytes: f64, seconds: impl Fn(f64) -> f64) -> f64 {
        let keeps = |clock: f64| {
            let time_s = seconds(clock);
            let of_products_j = self.per_flop_pj * flops * (1.0 - self.scaling + self.scaling * clock) * JOULES_PER_PJ;
            let of_traffic_j = self.per_byte_pj * bytes * JOULES_PER_PJ;
            self.idle_w * time_s + of_products_j + of_traffic_j <= self.limit_w * time_s
        };
        if keeps(1.0) {
            return 1.0;
        }
        let (mut low, mut high) = (LOWEST, 1.0);
        for _ in 0..STEPS {
            let middle = f64::midpoint(low, high);
            if keeps(middle) { low = middle } else { high = middle }
        }
        low
    }
}
