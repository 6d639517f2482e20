//! Who carries calls out: [`runtime`] on memory of the host or of GPUs, [`nccl`] by handing them to NCCL itself.

pub(crate) mod nccl;
pub(crate) mod runtime;
