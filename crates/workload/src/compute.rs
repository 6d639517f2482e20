//! Compute time: the roofline of an NPU, or a systolic array beside its memory.
//!
//! A kernel needs `flops` operations and moves `bytes` between the NPU and its main memory. Both go on
//! at the same time, so the slower one decides (Williams, Waterman, Patterson: "Roofline", CACM 2009):
//!
//! ```text
//!   t(kernel) = scale * max(flops / flops_per_s, bytes / memory_bytes_per_s)
//!   t(pass)   = sum of t(kernel)          kernels of a pass run one after the other
//! ```
//!
//! `flops_per_s` and `memory_bytes_per_s` are what communication leaves of the NPU: with 74 of 80 SMs
//! at 120 TFLOP/s and 450 of 900 GB/s, 111 TFLOP/s and 450 GB/s (ACE paper, Table VI). `scale`
//! stretches every kernel alike; a calibrated profile may set it, and it leaves measured durations
//! alone.
//!
//! With a systolic array ([`crate::systolic`]) in place of the SMs, matrix products take as long as the array
//! needs for their shape, or as memory needs for their bytes; everything else goes at memory speed, by
//! vector units that keep up with it.
//!
//! Left out: launch overheads, caches across kernels, tiles that do not fill the SMs, and that
//! elementwise kernels cannot use the matrix units (they are bound by memory long before).
//!
//! Each kernel's time is rounded to the nearest picosecond, once. The arithmetic is IEEE double
//! precision without transcendental functions, hence equal on all machines.

use crate::layer::{Cost, Demand};
use crate::systolic::Array;
use std::fmt;
use syncline_core::units::PS_PER_S;
use syncline_core::{Bytes, Ps};

/// Why an NPU cannot be described by the numbers given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NpuError {
    /// A parameter that is zero, negative, infinite or not a number.
    NotPositive {
        /// The parameter.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}

impl fmt::Display for NpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NpuError::NotPositive { field, value } => {
                write!(f, "{field} is {value}; accepted: a finite number above zero")
            }
        }
    }
}

impl std::error::Error for NpuError {}

/// The part of an NPU that computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Npu {
    flops_per_s: f64,
    memory_bytes_per_s: f64,
    scale: f64,
    array: Option<Array>,
}

impl Npu {
    /// An NPU with a peak of `flops_per_s` (a multiply-accumulate counts as two), main memory of
    /// `memory_bytes_per_s`, and all kernel times multiplied by `scale` (1 for none).
    pub fn new(flops_per_s: f64, memory_bytes_per_s: f64, scale: f64) -> Result<Npu, NpuError> {
        for (field, value) in
            [("flops_per_s", flops_per_s), ("memory_bytes_per_s", memory_bytes_per_s), ("scale", scale)]
        {
            if !(value.is_finite() && value > 0.0) {
                return Err(NpuError::NotPositive { field, value });
            }
        }
        Ok(Npu { flops_per_s, memory_bytes_per_s, scale, array: None })
    }

    /// The same with a systolic array, which replaces the peak rate.
    #[must_use]
    pub fn with_array(self, array: Array) -> Npu {
        Npu { array: Some(array), ..self }
    }

    /// Peak rate in floating-point operations per second.
    pub fn flops_per_s(&self) -> f64 {
        self.flops_per_s
    }

    /// Main-memory bandwidth in bytes per second.
    pub fn memory_bytes_per_s(&self) -> f64 {
        self.memory_bytes_per_s
    }

    /// The factor on every kernel time.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The time of one pass; saturates at [`Ps::MAX`].
    pub fn time(&self, cost: &Cost) -> Ps {
        match cost {
            Cost::Kernels(kernels) => Ps(kernels.iter().fold(0, |sum: u64, k| sum.saturating_add(self.kernel(*k).0))),
            Cost::Measured(time) => *time,
        }
    }

    /// The kernels of one pass: how long each takes, and the bytes that it moves, which are unknown (0) where the
    /// time was measured. Their times add up to [`time`](Npu::time).
    pub fn kernels<'a>(&self, cost: &'a Cost) -> impl Iterator<Item = (Ps, Bytes)> + use<'a> {
        let npu = *self;
        let (kernels, measured) = match cost {
            Cost::Kernels(kernels) => (&kernels[..], None),
            Cost::Measured(time) => (&[][..], Some((*time, Bytes::ZERO))),
        };
        kernels.iter().map(move |&k| (npu.kernel(k), Bytes(k.bytes))).chain(measured)
    }

    /// The time of one kernel, to the nearest picosecond; saturates at [`Ps::MAX`].
    pub fn kernel(&self, demand: Demand) -> Ps {
        let compute_s = match (self.array, demand.gemm) {
            (None, _) => demand.flops as f64 / self.flops_per_s,
            (Some(array), Some(gemm)) => array.seconds(gemm),
            (Some(_), None) => 0.0,
        };
        let memory_s = demand.bytes as f64 / self.memory_bytes_per_s;
        let ps = (compute_s.max(memory_s) * self.scale * PS_PER_S as f64).round();
        Ps(ps as u64) // the conversion saturates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Gemm;
    use crate::systolic::Dataflow;

    fn npu(scale: f64) -> Npu {
        Npu::new(120e12, 900e9, scale).unwrap()
    }

    #[test]
    fn the_slower_of_compute_and_memory_decides() {
        // The ridge of 120 TFLOP/s and 900 GB/s lies at 133.3 operations per byte.
        assert_eq!(npu(1.0).kernel(Demand::new(120_000_000, 9)), Ps(1_000_000));
        assert_eq!(npu(1.0).kernel(Demand::new(120, 900_000)), Ps(1_000_000));
        assert_eq!(npu(1.0).kernel(Demand::default()), Ps::ZERO);
    }

    #[test]
    fn kernels_run_one_after_the_other() {
        let compute = Demand::new(240_000_000, 900_000);
        let memory = Demand::new(120_000_000, 1_800_000);
        // One roofline over the sum of both would say 3 us.
        assert_eq!(npu(1.0).time(&Cost::Kernels(vec![compute, memory])), Ps(4_000_000));
        assert_eq!(npu(1.0).time(&Cost::NOTHING), Ps::ZERO);
        let cost = Cost::Kernels(vec![compute, memory]);
        let kernels = [(Ps(2_000_000), Bytes(900_000)), (Ps(2_000_000), Bytes(1_800_000))];
        assert!(npu(1.0).kernels(&cost).eq(kernels));
        assert!(npu(1.0).kernels(&Cost::Measured(Ps(7))).eq([(Ps(7), Bytes::ZERO)]));
    }

    #[test]
    fn each_kernel_is_rounded_once_to_the_nearest_picosecond() {
        // A byte takes 1.111 ps: rounded after the sum, three kernels would take 3.33 ps.
        let byte = Demand::new(0, 1);
        assert_eq!(npu(1.0).time(&Cost::Kernels(vec![byte; 12])), Ps(12));
        assert_eq!(npu(1.0).kernel(Demand::new(0, 12)), Ps(13));
        assert_eq!(npu(1.5).kernel(byte), Ps(2)); // 1.667 ps
    }

    #[test]
    fn the_scale_leaves_measured_durations_alone() {
        let kernels = Cost::Kernels(vec![Demand::new(0, 900_000)]);
        assert_eq!(npu(0.25).time(&kernels), Ps(250_000));
        assert_eq!(npu(0.25).time(&Cost::Measured(Ps(77))), Ps(77));
    }

    #[test]
    fn a_systolic_array_times_products_and_leaves_the_rest_to_memory() {
        let array = Array::new(256, 256, Dataflow::OutputStationary, 1e9).unwrap();
        let npu = npu(1.0).with_array(array);
        let gemm = Gemm { m: 256, k: 234, n: 256, count: 2 };
        assert_eq!(npu.kernel(Demand::of_gemm(gemm, 9)), Ps(2_000_000)); // two folds of 1000 cycles
        assert_eq!(npu.kernel(Demand::of_gemm(gemm, 2_700_000)), Ps(3_000_000));
        assert_eq!(npu.kernel(Demand::new(u64::MAX, 900_000)), Ps(1_000_000));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for (field, result) in [
                ("flops_per_s", Npu::new(bad, 1.0, 1.0)),
                ("memory_bytes_per_s", Npu::new(1.0, bad, 1.0)),
                ("scale", Npu::new(1.0, 1.0, bad)),
            ] {
                let Err(NpuError::NotPositive { field: named, .. }) = result else {
                    panic!("{field} = {bad} accepted")
                };
                assert_eq!(named, field);
            }
        }
    }

    #[test]
    fn absurd_demand_saturates() {
        let slow = Npu::new(f64::MIN_POSITIVE, f64::MIN_POSITIVE, 1.0).unwrap();
        let all = Demand::new(u64::MAX, u64::MAX);
        assert_eq!(slow.time(&Cost::Kernels(vec![all, all])), Ps::MAX);
    }
}
