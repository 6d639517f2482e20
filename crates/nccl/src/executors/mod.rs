//! Who carries calls out: [`runtime`] on memory of the host or of GPUs, [`nccl`] by handing them to NCCL itself.

pub(crate) mod nccl;
pub(crate) mod runtime;

use nccl::Nccl;
use runtime::Runtime;

/// Who carries the calls of a communicator out. All ranks have the same.
pub(crate) enum Executor {
    /// The runtime, on memory of the host or of GPUs.
    Runtime(Runtime),
    /// NCCL itself.
    Nccl(Nccl),
}
