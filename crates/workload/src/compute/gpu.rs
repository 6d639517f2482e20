//! A calibrated GPU: what the kernels of its libraries take, by kind, shape and size.
//!
//! Each kind of kernel has one equation, here or in the module that is named. The constants are fractions of the GPU's published
//! peak rate and memory bandwidth, fitted to measured kernels; they come from Python, which keeps them with the data that
//! they were fitted to.
//!
//! | kind | equation |
//! |---|---|
//! | products | tiles and waves ([`super::tiles`]), with a rate for each layout and what passes before the tiles begin |
//! | attention | blocks of queries on SMs ([`attention`]) |
//! | bound by memory | `start + bytes / (efficiency * bandwidth)`, and for sums over rows not faster than a rate per column |
//!
//! A kernel that states no kind is a product if it has a shape, and elementwise work if it has none.

mod attention;
mod power;

use super::tiles::Tiles;
use crate::kernel_kind::{KernelKind, Layout, MemoryKernel, Traffic};
use crate::layer::Demand;
use crate::parameters::{NpuError, require_positive};
use serde::Deserialize;
use std::collections::BTreeMap;
use syncline_core::units::PS_PER_S;

pub use attention::Attention;
pub use power::Power;

/// The constants of a GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Of products.
    pub products: Tiles,
    /// Of attention, of the library that computes it.
    pub attention: Attention,
    /// Of kernels that memory bounds.
    pub memory: Memory,
    /// What it may draw; without a limit its clock never falls.
    #[serde(default)]
    pub power: Option<Power>,
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
    /// The fraction of the memory bandwidth at which a sum over rows reads each of its columns.
    pub per_column: f64,
}

impl Gpu {
    /// Refuses what describes no GPU.
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if something is zero that must not be, or a kind of kernels has no efficiency.
    pub fn checked(self) -> Result<Gpu, NpuError> {
        let Gpu { products, attention, memory, power } = self;
        for kind in MemoryKernel::ALL {
            require_positive(&[("efficiency", memory.efficiency.get(&kind).copied().unwrap_or_default())])?;
        }
        for &wide in memory.efficiency_wide.values() {
            require_positive(&[("efficiency_wide", wide)])?;
        }
        require_positive(&[("per_column", memory.per_column)])?;
        let power = power.map(Power::checked).transpose()?;
        Ok(Gpu { products: products.checked()?, attention: attention.checked()?, memory, power })
    }

    /// Seconds of a kernel that moves `moved` bytes, on a GPU with such a peak rate and memory bandwidth.
    pub fn seconds(&self, demand: Demand, moved: u64, flops_per_s: f64, memory_bytes_per_s: f64) -> f64 {
        match (demand.kind, demand.gemm) {
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
            (Some(KernelKind::Memory(kernel)), None) => self.memory.seconds(kernel, moved, memory_bytes_per_s),
            _ => self.memory.seconds(Traffic::of(MemoryKernel::Elementwise), moved, memory_bytes_per_s),
        }
    }
}

impl Memory {
    /// The fraction of the memory bandwidth that a large kernel reaches.
    fn reached(&self, of: Traffic) -> f64 {
        let narrow = self.efficiency[&of.kernel];
        let large = if of.wide { self.efficiency_wide.get(&of.kernel).copied().unwrap_or(narrow) } else { narrow };
        if of.columns == 0 { large } else { large.min(self.per_column * f64::from(of.columns)) }
    }

    /// Seconds of a kernel that moves so many bytes.
    fn seconds(&self, of: Traffic, bytes: u64, memory_bytes_per_s: f64) -> f64 {
        let start_ps = self.starts_ps.get(&of.kernel).copied().unwrap_or(self.start_ps);
        start_ps as f64 / PS_PER_S as f64 + bytes as f64 / (self.reached(of) * memory_bytes_per_s)
    }
}

#[cfg(test)]
mod tests;
