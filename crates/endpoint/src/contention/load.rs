//! What communication and kernels ask of an NPU that they share.

use crate::kernel::Kernel;
use syncline_core::share::{Share, Work};

/// What communication and kernels share, beside the resources of [`BaselineConfig`](crate::BaselineConfig): its `memory`
/// is all of the NPU's, its `sms` those that communication occupies. Of its `protocol` this model makes no use: messages
/// cost buses their bytes.
#[derive(Clone, Copy, Debug)]
pub struct ContentionConfig {
    /// SMs of the NPU.
    pub sms: u32,
    /// SMs that communication occupies; no more than there are.
    pub comm_sms: u32,
    /// Warps of communication on each of them.
    pub comm_warps: u32,
}

/// What a kernel asks of an NPU while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Its warps on each SM, in thousandths ([`PER_WARP`](crate::kernel::PER_WARP)); positive.
    pub warps: u64,
    /// What it moves from and to main memory beside nothing.
    pub memory: Share,
}

impl Load {
    /// What a kernel asks.
    pub(super) fn of(kernel: &Kernel) -> Load {
        Load { warps: kernel.warps, memory: Work::of(kernel.bytes).over(kernel.alone) }
    }
}
