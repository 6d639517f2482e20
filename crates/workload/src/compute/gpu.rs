//! A calibrated GPU: what the kernels of its libraries take, by kind, shape and size.
//!
//! Each kind of kernel has one equation, here or in the module that is named. The constants are fractions of the GPU's published
//! peak rate and memory bandwidth, fitted to measured kernels; they come from Python, which keeps them with the data that
//! they were fitted to.
//!
//! | kind | equation |
//! |---|---|
//! | products | tiles and waves ([`super::tiles`]), with a rate for each layout and what passes before the tiles begin |
//! | convolutions | the same equation with constants of its own, at a fraction of the rate where channels were padded |
//! | attention | blocks of queries on SMs ([`attention`]) |
//! | bound by memory | `start + bytes / bandwidth sqrt(1 / efficiency^2 + 1 / (per_column columns)^2)`, the second term of kernels that have columns: each is the work of one block of threads |
//!
//! A kernel that states no kind is a product if it has a shape, and elementwise work if it has none.
//!
//! Two kinds have another bound than bytes. A softmax over rows of more than 1,024 elements is done by a block of threads for each row,
//! which goes through it three times: each doubling of the row adds `per_doubling` to the time of an element, whose width does
//! not matter. An update of many tensors gives each block of threads a chunk of up to 65,536 elements; the longest takes
//! `per_element`, and `t = start + sqrt((chunk per_element)^2 + (bytes / bandwidth)^2)`: small updates take as long as a chunk.
//!
//! Blocks of statistics of planes have 512 threads, of which an SM has 2,048 at a time: with more channels than SMs have room for,
//! blocks begin in waves, which all take their `start`.
//!
//! All of them see the bandwidth of memory with the cache in front of it: a kernel that moves `b` bytes finds
//! `h = max(0, 1 - b / cache)` of them there, where they pass `gain` times as fast,
//!
//! ```text
//!   bandwidth = memory bandwidth / (1 - h + h / gain)
//! ```
//!
//! since kernels work on what others have just written, and what they write stays in the cache until they end. On an H100 (50 MB)
//! additions and copies of 6 to 800 MB show it.

mod attention;
mod power;

use super::tiles::Tiles;
use crate::kernel_kind::{ConvolutionKernel, ImageLayout, KernelKind, Layout, MemoryKernel, Traffic};
use crate::layer::Demand;
use crate::parameters::{NpuError, require_positive};
use serde::Deserialize;
use std::collections::BTreeMap;
use syncline_core::units::PS_PER_S;

pub use attention::Attention;
pub use power::Power;

/// Elements of the longest row whose softmax a warp does.
const WARP_ROW: f64 = 1024.0;
/// Blocks of statistics that an SM has at a time.
const BLOCKS: u32 = 4;

/// The constants of a GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Of products.
    pub products: Tiles,
    /// Of convolutions; those of products if left out.
    #[serde(default)]
    pub convolutions: Option<Convolutions>,
    /// Of attention, of the library that computes it.
    pub attention: Attention,
    /// Of kernels that memory bounds.
    pub memory: Memory,
    /// What it may draw; without a limit its clock never falls.
    #[serde(default)]
    pub power: Option<Power>,
}

/// The constants of convolutions that are implicit products.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Convolutions {
    /// Of those whose channels are as many as kernels work on at once.
    pub products: Tiles,
    /// The fraction of the rate that is left where channels were padded, in NHWC and in NCHW.
    pub padded: [f64; 2],
}

/// A cache in front of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// How much it holds.
    pub bytes: u64,
    /// How many times as fast as the memory it is.
    pub gain: f64,
}

/// The constants of kernels that memory bounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// What passes between the start of a kernel and that of its traffic.
    pub start_ps: u64,
    /// The same of kinds for which it is not as for most.
    pub starts_ps: BTreeMap<MemoryKernel, u64>,
    /// The fraction of the memory bandwidth that large kernels reach, for every kind.
    pub efficiency: BTreeMap<MemoryKernel, f64>,
    /// The same of elements of four bytes, for kinds for which it is not as for two.
    pub efficiency_wide: BTreeMap<MemoryKernel, f64>,
    /// The fraction of the memory bandwidth at which each column is worked on, of kinds that have columns.
    pub per_column: BTreeMap<MemoryKernel, f64>,
    /// What an element of a chunk of an update takes.
    pub per_element_ps: f64,
    /// What each doubling of the rows of a softmax beyond those of a warp adds to the time of an element, as a part of it.
    pub per_doubling: f64,
    /// What is in front of the memory.
    #[serde(default)]
    pub cache: Option<Cache>,
}

impl Gpu {
    /// Refuses what describes no GPU.
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if something is zero that must not be, or a kind of kernels has no efficiency.
    pub fn checked(self) -> Result<Gpu, NpuError> {
        let Gpu { products, convolutions, attention, memory, power } = self;
        for kind in MemoryKernel::ALL {
            require_positive(&[("efficiency", memory.efficiency.get(&kind).copied().unwrap_or_default())])?;
        }
        for &wide in memory.efficiency_wide.values() {
            require_positive(&[("efficiency_wide", wide)])?;
        }
        for &rate in memory.per_column.values() {
            require_positive(&[("per_column", rate)])?;
        }
        require_positive(&[("per_element_ps", memory.per_element_ps), ("per_doubling", memory.per_doubling)])?;
        if let Some(Cache { bytes, gain }) = memory.cache {
            require_positive(&[("bytes", bytes as f64), ("gain", gain)])?;
        }
        let convolutions = convolutions.map(Convolutions::checked).transpose()?;
        let power = power.map(Power::checked).transpose()?;
        Ok(Gpu { products: products.checked()?, convolutions, attention: attention.checked()?, memory, power })
    }

    /// Seconds of a kernel that moves `moved` bytes, on a GPU with such a peak rate and memory bandwidth.
    pub fn seconds(&self, demand: Demand, moved: u64, flops_per_s: f64, memory_bytes_per_s: f64) -> f64 {
        let memory_bytes_per_s = self.memory.cached(moved, memory_bytes_per_s);
        match (demand.kind, demand.gemm) {
            (Some(KernelKind::Convolution(kernel)), Some(gemm)) => match &self.convolutions {
                Some(of) => {
                    let flops_per_s = flops_per_s * of.fraction(kernel);
                    of.products.seconds(gemm, kernel.pass, moved, flops_per_s, memory_bytes_per_s)
                }
                None => self.products.seconds(gemm, kernel.pass, moved, flops_per_s, memory_bytes_per_s),
            },
            (Some(KernelKind::Product(layout)), Some(gemm)) => {
                self.products.seconds(gemm, layout, moved, flops_per_s, memory_bytes_per_s)
            }
            (Some(KernelKind::Attention(shape)), Some(gemm)) => {
                let bound_s =
                    moved as f64 / (memory_bytes_per_s * self.memory.reached(Traffic::of(MemoryKernel::Elementwise)));
                self.attention
                    .seconds(shape, gemm.k, flops_per_s / f64::from(self.products.sms), self.products.sms)
                    .max(bound_s)
            }
            (_, Some(gemm)) => self.products.seconds(gemm, Layout::Nt, moved, flops_per_s, memory_bytes_per_s),
            (Some(KernelKind::Memory(kernel)), None) => {
                self.memory.seconds(kernel, self.products.sms, moved, memory_bytes_per_s)
            }
            _ => {
                let kernel = Traffic::of(MemoryKernel::Elementwise);
                self.memory.seconds(kernel, self.products.sms, moved, memory_bytes_per_s)
            }
        }
    }
}

impl Convolutions {
    fn checked(self) -> Result<Convolutions, NpuError> {
        for fraction in self.padded {
            require_positive(&[("padded", fraction)])?;
        }
        Ok(Convolutions { products: self.products.checked()?, ..self })
    }

    /// The fraction of the rate that is left.
    fn fraction(&self, of: ConvolutionKernel) -> f64 {
        match of.padded {
            None => 1.0,
            Some(ImageLayout::Nhwc) => self.padded[0],
            Some(ImageLayout::Nchw) => self.padded[1],
        }
    }
}

impl Memory {
    /// The bandwidth that a kernel sees which moves so many bytes.
    fn cached(&self, moved: u64, memory_bytes_per_s: f64) -> f64 {
        let Some(Cache { bytes, gain }) = self.cache else { return memory_bytes_per_s };
        let found = (1.0 - moved as f64 / bytes as f64).max(0.0);
        memory_bytes_per_s / (1.0 - found + found / gain)
    }

    /// The fraction of the memory bandwidth that a large kernel reaches.
    fn reached(&self, of: Traffic) -> f64 {
        let narrow = self.efficiency[&of.kernel];
        let large = if of.wide { self.efficiency_wide.get(&of.kernel).copied().unwrap_or(narrow) } else { narrow };
        match self.per_column.get(&of.kernel) {
            Some(rate) if of.columns > 0 => (1.0 / large).hypot(1.0 / (rate * f64::from(of.columns))).recip(),
            _ => large,
        }
    }

    /// Seconds of a kernel that moves so many bytes, on so many SMs.
    fn seconds(&self, of: Traffic, sms: u32, bytes: u64, memory_bytes_per_s: f64) -> f64 {
        let start_ps = self.starts_ps.get(&of.kernel).copied().unwrap_or(self.start_ps);
        let waves = match of.kernel {
            MemoryKernel::PlaneNorm | MemoryKernel::PlaneNormGradient => {
                (f64::from(of.columns) / f64::from(BLOCKS * sms)).max(1.0)
            }
            _ => 1.0,
        };
        waves * start_ps as f64 / PS_PER_S as f64 + self.moving_s(of, bytes as f64, memory_bytes_per_s)
    }

    /// Seconds from the start of its traffic.
    fn moving_s(&self, of: Traffic, bytes: f64, memory_bytes_per_s: f64) -> f64 {
        let traffic_s = bytes / (self.reached(of) * memory_bytes_per_s);
        let length = f64::from(of.columns);
        match of.kernel {
            MemoryKernel::Update => traffic_s.hypot(length * self.per_element_ps / PS_PER_S as f64),
            MemoryKernel::Softmax => {
                let least_s = bytes / (self.efficiency[&MemoryKernel::Elementwise] * memory_bytes_per_s);
                let of_two_bytes_s = if of.wide { traffic_s / 2.0 } else { traffic_s };
                let doublings = (length / WARP_ROW).log2().max(0.0);
                least_s.max(of_two_bytes_s * (1.0 + self.per_doubling * doublings))
            }
            _ => traffic_s,
        }
    }
}

#[cfg(test)]
mod tests;
