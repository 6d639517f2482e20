//! How long kernels take.

use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use syncline_workload::compute::gpu::Gpu;
use syncline_workload::compute::tiles::Tiles;

/// What the compute engine of an NPU has left beside communication.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeSpec {
    /// Peak rate of the SMs that compute has.
    pub flops_per_s: f64,
    /// Memory bandwidth that compute has.
    pub memory_bytes_per_s: f64,
    /// Factor on the time of every kernel.
    pub scale: f64,
    /// What says how long a kernel takes; the roofline if left out.
    #[serde(default)]
    pub model: ComputeModelSpec,
    /// Results along each side of a tile of a matrix product, which reads its operands from main memory; every operand is read
    /// once if left out.
    #[serde(default)]
    pub tile: Option<NonZeroU32>,
    /// How sparse the second factor of products is; dense if left out.
    #[serde(default)]
    pub sparsity: Option<SparsitySpec>,
    /// What passes before each kernel begins.
    #[serde(default)]
    pub launch_ps: u64,
    /// What computes products whose factors are in the narrow data type of linear layers; as all others if left out.
    #[serde(default)]
    pub narrow: Option<Box<ComputeSpec>>,
}

/// What says how long a kernel takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ComputeModelSpec {
    /// Peak rate or memory bandwidth.
    #[default]
    Roofline,
    /// Systolic arrays in place of the SMs.
    Systolic(ArraySpec),
    /// Matrix products in tiles and waves over SMs.
    Tiles(Tiles),
    /// The kernels of a calibrated GPU.
    Gpu(Box<Gpu>),
    /// A table of measurements.
    Table(MeasurementsSpec),
}

/// Systolic arrays.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// Rows of processing elements.
    pub rows: u32,
    /// Columns of processing elements.
    pub columns: u32,
    /// What stays in them.
    pub dataflow: DataflowSpec,
    /// Cycles per second that compute has.
    pub clock_hz: f64,
    /// Arrays among which a product is divided.
    #[serde(default = "one")]
    pub arrays: NonZeroU32,
    /// Their memories on the chip; if left out, main memory limits a product by its bandwidth only.
    #[serde(default)]
    pub sram: Option<SramSpec>,
}

/// The memories of an array.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SramSpec {
    /// For inputs.
    pub inputs_bytes: u64,
    /// For weights.
    pub weights_bytes: u64,
    /// For outputs.
    pub outputs_bytes: u64,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// What stays in the elements of a systolic array.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DataflowSpec {
    /// Sums.
    OutputStationary,
    /// Weights.
    WeightStationary,
    /// Inputs.
    InputStationary,
}

/// Measurements of kernels on one device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurementsSpec {
    /// Products: rows, terms, columns, how many, bytes, picoseconds.
    pub products: Vec<[u64; 6]>,
    /// Kernels without products: bytes, picoseconds.
    pub streams: Vec<[u64; 2]>,
    /// Elements that the memory of the device delivers at once.
    pub alignment: NonZeroU32,
    /// Peak rate of the device.
    pub flops_per_s: f64,
    /// Its memory bandwidth.
    pub memory_bytes_per_s: f64,
}

/// How sparse the second factor of products is.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SparsitySpec {
    /// The part of elements that are not zero.
    Density(f64),
    /// Of each so many neighbours, so many are kept: `[kept, of]`.
    Structured([u32; 2]),
}

/// Where a time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BasisSpec {
    /// A model of the NPU.
    Model,
    /// A measurement of this shape.
    Measured,
    /// Measurements of shapes around it.
    Interpolated,
    /// Measurements of other shapes, with nothing on one side.
    Outside,
}
