//! Compute kernels, as endpoints that share an NPU with compute are told of them.

use syncline_core::{Bytes, Ps};

/// Warps are counted in thousandths, as profilers report averages over the SMs.
pub const PER_WARP: u64 = 1000;

/// A kernel that runs once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// How long it takes beside nothing.
    pub alone: Ps,
    /// What it moves between the SMs and main memory.
    pub bytes: Bytes,
    /// Its warps on each SM, in thousandths ([`PER_WARP`]); positive.
    pub warps: u64,
    /// How long its SMs, and main memory, are busy with it; neither longer than it takes.
    pub busy: [Ps; 2],
}

/// What communication holds of an NPU while it is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// SMs.
    pub sms: u32,
    /// Its traffic with main memory, in bytes per second.
    pub memory: u64,
}

impl Held {
    /// Nothing.
    pub const NOTHING: Held = Held { sms: 0, memory: 0 };

    /// With what communication holds that begins, or without what it did that ends.
    pub(crate) fn change(&mut self, held: Held, begins: bool) {
        *self = match begins {
            true => Held { sms: self.sms + held.sms, memory: self.memory + held.memory },
            false => Held { sms: self.sms - held.sms, memory: self.memory - held.memory },
        };
    }
}

impl Kernel {
    /// When kernels that start now, one after the other and beside nothing, are done.
    pub fn alone(kernels: &[Kernel], now: Ps) -> Ps {
        kernels.iter().fold(now, |end, kernel| end + kernel.alone)
    }
}
