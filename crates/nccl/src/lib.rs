//! The interface of NCCL 2.21.5, in a library that programs load instead of NCCL's or before it.
//!
//! ```text
//!   exports: nccl*, pnccl* ─▶ exports::entry: no panic gets out, failures become codes
//!        │
//!   registry: what a handle stands for        group: what a thread keeps until its group ends
//!        │                                      │
//!        │        jobs ─▶ agreement: which executor, decided by all ranks together
//!        ▼
//!   runtime: on memory of the host, or of GPUs | nccl: NCCL itself
//! ```
//!
//! `docs/runtime.md` says what each function does.

pub mod abi;
mod communicators;
mod device;
mod error;
mod executors;
mod exports;
mod group;
mod log;
