//! Compute time: how long kernels take on an NPU.
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
//! stretches every kernel alike; a calibrated profile may set it. It stretches durations that a file states as well.
//!
//! # Other models
//! A model of the SMs may take the place of the peak rate ([`Npu::with_array`], [`Npu::with_tiles`],
//! [`Npu::with_measurements`]): a systolic array ([`crate::systolic`]), products in tiles and waves ([`tiles`]), or a table of
//! measurements ([`measured`]). Matrix products then take what the model says of their shape. What is no product goes at
//! memory speed, by vector units that keep up with it, or takes what was measured.
//!
//! Whatever the model, products may be sparse ([`sparsity`]), and every kernel begins with a declared launch overhead:
//!
//! ```text
//!   t(kernel) = launch + scale * t(model)
//! ```
//!
//! Products of linear layers may be in a narrower data type than all else, as in training with FP8 ([`Npu::with_narrow`]): they
//! then take what another NPU of that rate says.
//!
//! # Operands that are read again
//! How many bytes a matrix product moves depends on how long operands stay on the chip. At best each is read once; that
//! is the default. With `tile`, products are computed in square tiles of so many results along each side, and
//! each tile reads its rows of the first factor and its columns of the second (the model of blocked products: Goto and
//! van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 2008, for caches; tiles
//! of thread blocks on GPUs). A large product then does `tile / element_bytes` operations per byte: 192 with
//! 384 results in FP16, where a GPU's 256 x 128 tiles would do 85 if nothing were shared between SMs, and several
//! hundred if all that run together found each other's operands in a cache.
//!
//! Left out: caches across kernels, and that elementwise kernels cannot use the matrix units (they are bound by memory long
//! before).
//!
//! Each kernel's time is rounded to the nearest picosecond, once. The arithmetic is IEEE double
//! precision without transcendental functions, hence equal on all machines.

pub mod gpu;
pub mod measured;
pub mod sparsity;
pub mod tiles;

use crate::layer::{Cost, Demand};
use crate::parameters::require_positive;
use crate::systolic::Array;
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_core::units::PS_PER_S;
use syncline_core::{Bytes, Ps};

use crate::kernel_kind::{KernelKind, Layout};
use gpu::Gpu;
use measured::{Basis, Measurements};
use sparsity::Sparsity;
use tiles::Tiles;

pub use crate::parameters::NpuError;

/// The part of an NPU that computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Npu {
    flops_per_s: f64,
    memory_bytes_per_s: f64,
    scale: f64,
    model: Model,
    /// Results along each side of a tile of a matrix product.
    tile: Option<NonZeroU32>,
    sparsity: Option<Sparsity>,
    launch: Ps,
    /// What computes products in the narrow data type of linear layers.
    narrow: Option<Arc<Npu>>,
}

/// What says how long kernels take.
#[derive(Clone, Debug, PartialEq)]
enum Model {
    Roofline,
    Systolic(Array),
    Tiles(Arc<Tiles>),
    Gpu(Arc<Gpu>),
    Measured(Arc<Measurements>),
}

/// What a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// How long it runs, its launch included.
    pub time: Ps,
    /// Bytes that it moves between the NPU and main memory, operands that are read again included.
    pub moved: Bytes,
    /// Where the time comes from.
    pub basis: Basis,
}

/// What a kernel takes of what it may share with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// How long it runs, its launch included.
    pub time: Ps,
    /// Bytes that it moves between the NPU and main memory.
    pub moved: Bytes,
    /// How long its SMs, and main memory, are busy with it: the longer one is what it takes but for its launch.
    pub busy: [Ps; 2],
}

impl Npu {
    /// An NPU with a peak of `flops_per_s` (a multiply-accumulate counts as two), main memory of
    /// `memory_bytes_per_s`, and all kernel times multiplied by `scale` (1 for none).
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if one of them is not a positive finite number.
    pub fn new(flops_per_s: f64, memory_bytes_per_s: f64, scale: f64) -> Result<Npu, NpuError> {
        require_positive(&[
            ("flops_per_s", flops_per_s),
            ("memory_bytes_per_s", memory_bytes_per_s),
            ("scale", scale),
        ])?;
        let (model, tile, sparsity, launch, narrow) = (Model::Roofline, None, None, Ps::ZERO, None);
        Ok(Npu { flops_per_s, memory_bytes_per_s, scale, model, tile, sparsity, launch, narrow })
    }

    /// The same with a systolic array, which replaces the peak rate.
    #[must_use]
    pub fn with_array(self, array: Array) -> Npu {
        Npu { model: Model::Systolic(array), ..self }
    }

    /// The same with matrix products in tiles and waves, for which the peak rate is that of all SMs.
    #[must_use]
    pub fn with_tiles(self, tiles: Tiles) -> Npu {
        Npu { model: Model::Tiles(Arc::new(tiles)), ..self }
    }

    /// The same with the constants of a GPU, for which the peak rate is that of all SMs.
    #[must_use]
    pub fn with_gpu(self, gpu: Gpu) -> Npu {
        Npu { model: Model::Gpu(Arc::new(gpu)), ..self }
    }

    /// The same with times from a table; the peak rate and the memory bandwidth say what compute has of the device.
    #[must_use]
    pub fn with_measurements(self, table: Measurements) -> Npu {
        Npu { model: Model::Measured(Arc::new(table)), ..self }
    }

    /// The same with matrix products that are computed in square tiles, each of which reads its operands from main
    /// memory ([`Gemm::reread`](crate::Gemm::reread)); without, every operand is read once.
    #[must_use]
    pub fn with_tile(self, tile: NonZeroU32) -> Npu {
        Npu { tile: Some(tile), ..self }
    }

    /// The same with sparse matrix products.
    #[must_use]
    pub fn with_sparsity(self, sparsity: Sparsity) -> Npu {
        Npu { sparsity: Some(sparsity), ..self }
    }

    /// The same with a time that passes before each kernel begins, and that nothing stretches.
    #[must_use]
    pub fn with_launch(self, launch: Ps) -> Npu {
        Npu { launch, ..self }
    }

    /// The same, but products whose factors are in the narrow data type of linear layers ([`Demand::narrow`]) take what
    /// another NPU says.
    #[must_use]
    pub fn with_narrow(self, narrow: Npu) -> Npu {
        Npu { narrow: Some(Arc::new(narrow)), ..self }
    }

    /// The same at the clock at which it keeps its limit of power while it runs these kernels over and over, each so often.
    #[must_use]
    pub fn throttled(self, kernels: &[(Demand, u64)]) -> Npu {
        let Model::Gpu(gpu) = &self.model else { return self };
        let Some(power) = gpu.power else { return self };
        let sum = |of: &dyn Fn(Demand) -> f64| kernels.iter().fold(0.0, |sum, &(k, count)| sum + count as f64 * of(k));
        let flops = sum(&|kernel| self.on_tensor_cores(kernel));
        let unscaled = Npu { scale: 1.0, ..self.clone() };
        let seconds = |clock| {
            let npu = unscaled.at(clock);
            sum(&|kernel| npu.timed(kernel).time.as_s())
        };
        let streaming_s =
            sum(&|kernel| if is_on_tensor_cores(kernel) { 0.0 } else { unscaled.timed(kernel).time.as_s() });
        self.at(power.clock(flops, streaming_s, seconds))
    }

    /// The same at a fraction of its clock.
    fn at(&self, clock: f64) -> Npu {
        let narrow = self.narrow.as_deref().map(|npu| Arc::new(npu.at(clock)));
        Npu { flops_per_s: self.flops_per_s * clock, narrow, ..self.clone() }
    }

    /// Operations of tensor cores of a kernel. Those of a narrow type count for less, since tensor cores at their peak draw the
    /// same power in all types.
    fn on_tensor_cores(&self, kernel: Demand) -> f64 {
        let narrowed = match &self.narrow {
            Some(narrow) if kernel.narrow => self.flops_per_s / narrow.flops_per_s,
            _ => 1.0,
        };
        if is_on_tensor_cores(kernel) { kernel.flops as f64 * narrowed } else { 0.0 }
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
            Cost::Measured(time) => self.measured(*time),
        }
    }

    /// The kernels of one pass: how long each takes, and the bytes that it moves, which are unknown (0) where the
    /// time was measured. Their times add up to [`time`](Npu::time).
    pub fn kernels<'a>(&'a self, cost: &'a Cost) -> impl Iterator<Item = (Ps, Bytes)> + use<'a> {
        let (kernels, measured) = match cost {
            Cost::Kernels(kernels) => (&kernels[..], None),
            Cost::Measured(time) => (&[][..], Some((self.measured(*time), Bytes::ZERO))),
        };
        let both = |timed: Timed| (timed.time, timed.moved);
        kernels.iter().map(move |&k| both(self.timed(k))).chain(measured)
    }

    /// The same with how long each keeps SMs and memory busy. A time that was measured is one of SMs.
    pub fn kernel_times<'a>(&'a self, cost: &'a Cost) -> impl Iterator<Item = KernelTime> + use<'a> {
        let (kernels, measured) = match cost {
            Cost::Kernels(kernels) => (&kernels[..], None),
            Cost::Measured(time) => (&[][..], Some(self.measured(*time))),
        };
        let of_sms = |time| KernelTime { time, moved: Bytes::ZERO, busy: [time, Ps::ZERO] };
        kernels.iter().map(move |&k| self.kernel_time(k)).chain(measured.map(of_sms))
    }

    /// What one kernel takes, and how long it keeps SMs and memory busy.
    fn kernel_time(&self, demand: Demand) -> KernelTime {
        if let (true, Some(narrow)) = (demand.narrow, &self.narrow) {
            return narrow.kernel_time(demand);
        }
        let Timed { time, moved, .. } = self.timed(demand);
        let demand = self.sparsity.map_or(demand, |sparsity| sparsity.left_of(demand));
        let whole = Ps(time.0.saturating_sub(self.launch.0));
        let in_ps = |seconds: f64| Ps((seconds * self.scale * PS_PER_S as f64).round() as u64).min(whole);
        let [on_sms, in_memory] = [demand.flops as f64 / self.flops_per_s, moved.0 as f64 / self.memory_bytes_per_s];
        let busy = match (&self.model, demand.gemm) {
            (Model::Roofline, _) => [on_sms, in_memory].map(in_ps),
            (_, None) => [in_ps(on_sms), whole],
            // Memory may bound products that need less of it than its peak.
            (_, Some(_)) if in_ps(2.0 * in_memory) < whole => [whole, in_ps(in_memory)],
            (_, Some(_)) => {
                let (without_memory, ..) = Npu { memory_bytes_per_s: f64::MAX, ..self.clone() }.modelled(demand);
                let on_sms = in_ps(without_memory);
                [on_sms, if on_sms < whole { whole } else { in_ps(in_memory) }]
            }
        };
        KernelTime { time, moved, busy }
    }

    /// The time of one kernel, to the nearest picosecond; saturates at [`Ps::MAX`].
    pub fn kernel(&self, demand: Demand) -> Ps {
        self.timed(demand).time
    }

    /// Kernels of a pass whose times nothing measured speaks for.
    pub fn outside(&self, cost: &Cost) -> u64 {
        match (&self.model, cost) {
            (Model::Measured(_), Cost::Kernels(kernels)) => {
                kernels.iter().filter(|&&kernel| self.timed(kernel).basis == Basis::Outside).count() as u64
            }
            _ => 0,
        }
    }

    /// What one kernel takes. One that does nothing is not launched.
    pub fn timed(&self, demand: Demand) -> Timed {
        if let (true, Some(narrow)) = (demand.narrow, &self.narrow) {
            return narrow.timed(demand);
        }
        if demand == Demand::default() {
            return Timed { time: Ps::ZERO, moved: Bytes::ZERO, basis: Basis::Model };
        }
        let demand = self.sparsity.map_or(demand, |sparsity| sparsity.left_of(demand));
        let (seconds, moved, basis) = self.modelled(demand);
        let ps = (seconds * self.scale * PS_PER_S as f64).round();
        let time = Ps((ps as u64).saturating_add(self.launch.0)); // the conversion saturates
        Timed { time, moved: Bytes(moved), basis }
    }

    /// Seconds, bytes that are moved, and where the seconds come from.
    fn modelled(&self, demand: Demand) -> (f64, u64, Basis) {
        let (flops_per_s, memory) = (self.flops_per_s, self.memory_bytes_per_s);
        let moved = self.moved(demand);
        let memory_s = moved as f64 / memory;
        match (&self.model, demand.gemm) {
            (Model::Roofline, _) => ((demand.flops as f64 / flops_per_s).max(memory_s), moved, Basis::Model),
            (Model::Systolic(array), Some(gemm)) => {
                let (seconds, moved) = array.timed(Demand { bytes: moved, ..demand }, gemm, memory);
                (seconds, moved, Basis::Model)
            }
            (Model::Systolic(_), None) => (memory_s, moved, Basis::Model),
            (Model::Tiles(tiles), Some(gemm)) => {
                (tiles.seconds(gemm, Layout::Nt, moved, flops_per_s, memory), moved, Basis::Model)
            }
            (Model::Gpu(gpu), _) => (gpu.seconds(demand, moved, flops_per_s, memory), moved, Basis::Model),
            (Model::Tiles(tiles), None) => (memory_s / tiles.sustained_memory, moved, Basis::Model),
            (Model::Measured(table), _) => {
                let (seconds, basis) = table.seconds(demand, flops_per_s, memory);
                (seconds, demand.bytes, basis)
            }
        }
    }

    /// A time that a file states; exact where nothing is scaled.
    fn measured(&self, time: Ps) -> Ps {
        if self.scale == 1.0 { time } else { Ps((time.0 as f64 * self.scale).round() as u64) }
    }

    /// What a kernel moves between the NPU and main memory, operands that are read again included.
    fn moved(&self, demand: Demand) -> u64 {
        let reread = match (self.tile, demand.gemm) {
            (Some(tile), Some(gemm)) => gemm.reread(tile.get().into()),
            _ => 0,
        };
        demand.bytes.saturating_add(reread)
    }
}

/// Whether a kernel works on tensor cores: products, convolutions and attention.
fn is_on_tensor_cores(kernel: Demand) -> bool {
    kernel.gemm.is_some() || matches!(kernel.kind, Some(KernelKind::Attention(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Gemm;
    use crate::systolic::Dataflow;
    use proptest::prelude::*;

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
    fn sms_and_memory_are_busy_for_what_they_do_of_a_kernel() {
        let busy = |npu: &Npu, demand| {
            let cost = Cost::Kernels(vec![demand]);
            npu.kernel_times(&cost).map(|of| of.busy).collect::<Vec<_>>()
        };
        let npu = npu(1.0);
        assert_eq!(busy(&npu, Demand::new(240_000_000, 900_000)), [[Ps(2_000_000), Ps(1_000_000)]]);
        assert_eq!(
            busy(&npu.clone().with_launch(Ps(7)), Demand::new(120_000_000, 1_800_000)),
            [[Ps(1_000_000), Ps(2_000_000)]]
        );
        let array = Array::new(256, 256, Dataflow::OutputStationary, 1e9).unwrap();
        let gemm = Gemm { m: 256, k: 234, n: 256, count: 2, operands: [0; 2] };
        let npu = npu.with_array(array);
        assert_eq!(busy(&npu, Demand::of_gemm(gemm, 450_000)), [[Ps(2_000_000), Ps(500_000)]]);
        assert_eq!(busy(&npu, Demand::of_gemm(gemm, 1_800_000)), [[Ps(2_000_000), Ps(2_000_000)]]);
        assert_eq!(busy(&npu, Demand::of_gemm(gemm, 2_700_000)), [[Ps(2_000_000), Ps(3_000_000)]]);
        let measured: Vec<_> = npu.kernel_times(&Cost::Measured(Ps(7))).map(|of| of.busy).collect();
        assert_eq!(measured, [[Ps(7), Ps::ZERO]]);
    }

    #[test]
    fn the_scale_stretches_measured_durations_too() {
        let kernels = Cost::Kernels(vec![Demand::new(0, 900_000)]);
        assert_eq!(npu(0.25).time(&kernels), Ps(250_000));
        assert_eq!(npu(1.0).time(&Cost::Measured(Ps((1 << 60) + 1))), Ps((1 << 60) + 1));
        assert_eq!(npu(0.25).time(&Cost::Measured(Ps(77))), Ps(19));
        assert!(npu(3.0).kernels(&Cost::Measured(Ps(7))).eq([(Ps(21), Bytes::ZERO)]));
    }

    #[test]
    fn a_systolic_array_times_products_and_leaves_the_rest_to_memory() {
        let array = Array::new(256, 256, Dataflow::OutputStationary, 1e9).unwrap();
        let npu = npu(1.0).with_array(array);
        let gemm = Gemm { m: 256, k: 234, n: 256, count: 2, operands: [0; 2] };
        assert_eq!(npu.kernel(Demand::of_gemm(gemm, 9)), Ps(2_000_000)); // two folds of 1000 cycles
        assert_eq!(npu.kernel(Demand::of_gemm(gemm, 2_700_000)), Ps(3_000_000));
        assert_eq!(npu.kernel(Demand::new(u64::MAX, 900_000)), Ps(1_000_000));
    }

    #[test]
    fn narrow_products_take_what_their_own_rate_says() {
        let double = npu(1.0).with_narrow(Npu::new(240e12, 900e9, 1.0).unwrap());
        let gemm = Gemm { m: 1000, k: 1000, n: 60, count: 1, operands: [2_000_000, 120_000] };
        let wide = Demand::of_gemm(gemm, 2_240_000);
        let narrow = wide.with_narrow_factors(2, 1);
        assert_eq!((narrow.flops, narrow.bytes), (wide.flops, 1_180_000));
        assert_eq!(narrow.gemm.unwrap().operands, [1_000_000, 60_000]);
        let bound =
            |flops_per_s, bytes: u64| Npu::new(flops_per_s, 900e9, 1.0).unwrap().kernel(Demand::new(wide.flops, bytes));
        assert_eq!(double.kernel(wide), bound(120e12, wide.bytes));
        assert_eq!(double.kernel(narrow), bound(240e12, narrow.bytes));
        assert_eq!(npu(1.0).kernel(narrow), bound(120e12, narrow.bytes)); // no rate of its own
        let kernel = Demand::new(7, 9);
        assert_eq!(kernel.with_narrow_factors(2, 1), kernel);
    }

    /// Bytes that a walk over the tiles of a product reads of its factors.
    fn walked(gemm: Gemm, tile: u64, element_bytes: u64) -> u64 {
        let mut read = 0;
        for row in (0..gemm.m).step_by(tile as usize) {
            for column in (0..gemm.n).step_by(tile as usize) {
                let (rows, columns) = (tile.min(gemm.m - row), tile.min(gemm.n - column));
                read += (rows + columns) * gemm.k * element_bytes;
            }
        }
        read * gemm.count
    }

    proptest! {
        #[test]
        fn tiles_read_what_a_walk_over_them_reads(
            (m, k, n) in (1u64..200, 1u64..50, 1u64..200), count in 1u64..4, tile in 1u32..250, written in 0u64..1000,
        ) {
            let factors = [2 * m * k * count, 2 * k * n * count];
            let gemm = Gemm { m, k, n, count, operands: factors };
            let demand = Demand::of_gemm(gemm, factors[0] + factors[1] + written);
            let memory = Npu::new(f64::MAX, PS_PER_S as f64, 1.0).unwrap(); // a byte per picosecond
            let tiled = memory.clone().with_tile(NonZeroU32::new(tile).unwrap());
            prop_assert_eq!(tiled.kernel(demand), Ps(walked(gemm, tile.into(), 2) + written));
            prop_assert_eq!(memory.kernel(demand), Ps(demand.bytes));
            // What shares the memory with a product has to wait for the same bytes.
            let moved: Vec<Bytes> = tiled.kernels(&Cost::Kernels(vec![demand])).map(|k| k.1).collect();
            prop_assert_eq!(moved, [Bytes(walked(gemm, tile.into(), 2) + written)]);
        }
    }

    #[test]
    fn several_arrays_divide_what_one_computes() {
        let array = Array::new(256, 256, Dataflow::OutputStationary, 1e9).unwrap();
        let four = npu(1.0).with_array(array.times(NonZeroU32::new(4).unwrap()));
        let of = |m, n, count| four.kernel(Demand::of_gemm(Gemm { m, k: 234, n, count, operands: [0; 2] }, 9));
        // Folds of 1000 cycles: four products, four rows of folds, or two rows of two columns, one for each array.
        assert_eq!([of(256, 256, 4), of(1024, 256, 1), of(512, 512, 1)], [Ps(1_000_000); 3]);
        assert_eq!(of(256, 256, 1), Ps(1_000_000), "three arrays have nothing to do");
        assert_eq!(of(512, 512, 3), Ps(3_000_000));
    }

    #[test]
    fn a_launch_comes_before_every_kernel_and_is_not_scaled() {
        let launched = npu(2.0).with_launch(Ps(500));
        assert_eq!(launched.kernel(Demand::new(0, 900)), Ps(2_500));
        assert_eq!(launched.time(&Cost::Kernels(vec![Demand::new(0, 900); 3])), Ps(7_500));
        assert_eq!(launched.kernel(Demand::default()), Ps::ZERO, "nothing is launched for nothing");
        assert_eq!(launched.time(&Cost::Measured(Ps(7))), Ps(14));
    }

    #[test]
    fn sparse_products_take_what_is_left_of_them() {
        let sparse = npu(1.0).with_sparsity(Sparsity::Structured { kept: 2, of: 4 });
        let gemm = Gemm { m: 1000, k: 1200, n: 1000, count: 1, operands: [0; 2] };
        assert_eq!(sparse.kernel(Demand::of_gemm(gemm, 0)), Ps(10_000_000));
        assert_eq!(npu(1.0).kernel(Demand::of_gemm(gemm, 0)), Ps(20_000_000));
    }

    #[test]
    fn a_kernel_without_products_has_no_tiles() {
        let tiled = npu(1.0).with_tile(NonZeroU32::MIN);
        assert_eq!(tiled.kernel(Demand::new(120, 900_000)), Ps(1_000_000));
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
