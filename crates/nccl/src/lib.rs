//! The interface of NCCL 2.21.5, in a library that programs load instead of NCCL's or before it.
//!
//! ```text
//!   exports: nccl*, pnccl* ─▶ entry: no panic gets out, failures become codes
//!      │
//!   group: what a thread keeps until its group ends
//!      │
//!   communicators: registry: what a handle stands for
//!      │           jobs ─▶ agreement: which executor, decided by all ranks together
//!      ▼
//!   executors: runtime: on memory of the host, or of GPUs | nccl: NCCL itself
//!      │
//!   abi, error, log, device: what NCCL passes, how calls fail, what is said, what the environment asks for
//! ```
//!
//! Each layer uses those below it. `docs/runtime.md` says what each function does.

pub mod abi;
mod communicators;
mod device;
mod error;
mod executors;
mod exports;
mod group;
mod log;
