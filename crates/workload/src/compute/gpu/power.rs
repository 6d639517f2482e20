//! The clock that a limit of power leaves.
//!
//! A GPU lowers the clock of its SMs until what it draws on average keeps the limit. Kernels that memory bounds do not slow down by
//! that, products do, so that the clock depends on the mix: products alone hold the least rate. With `x` the fraction of the full
//! clock and `T(x)` what the kernels of the mix take at it,
//!
//! ```text
//!   energy(x) = idle T(x) + (per_flop flops + streaming T_memory) x
//! ```
//!
//! must not exceed `limit T(x)`. An operation takes the energy of a capacitance at the supply's voltage, `C V^2`, and the voltage
//! goes about with the root of the clock over the range in which a GPU works, so that the energy goes with the clock: products in
//! iterations that torch.compile fuses, which leave less time for other kernels, are slower than in eager ones by what this says
//! (`lab.gpu_kernels`). Operations are those of tensor cores: products, convolutions and attention. Left out: time in which the GPU
//! waits, which would leave more for the rest, and the temperature.

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
    /// Picojoules of an operation of tensor cores at the full clock, in products, convolutions and attention.
    pub per_flop_pj: f64,
    /// Watts beside those while a kernel runs that memory bounds, at the full clock.
    pub streaming_w: f64,
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
        let Power { limit_w, idle_w, per_flop_pj, streaming_w } = self;
        require_positive(&[("limit_w", limit_w), ("idle_w", idle_w)])?;
        require_positive(&[("per_flop_pj", per_flop_pj), ("streaming_w", streaming_w)])?;
        Ok(self)
    }

    /// The fraction of the full clock at which kernels keep the limit that have so many operations of tensor cores, and take so
    /// many seconds, of which those of kernels that memory bounds are `streaming_s`.
    pub fn clock(self, flops: f64, streaming_s: f64, seconds: impl Fn(f64) -> f64) -> f64 {
        let keeps = |clock: f64| {
            let time_s = seconds(clock);
            let of_work_j = self.per_flop_pj * flops * JOULES_PER_PJ + self.streaming_w * streaming_s;
            self.idle_w * time_s + of_work_j * clock <= self.limit_w * time_s
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
