//! Carries plans out on real buffers of real processes.
//!
//! ```text
//!   bootstrap: id ─▶ session of all ranks (members, control plane, failures)
//!        │
//!   communicator ── plan (verified, cached) ─▶ executor: threads of steps, chunk after chunk
//!        │                                        │ messages of one slot at most
//!        │                                        ▼
//!        └──────────── transport: a ring per (rank, thread) and peer: shared memory | TCP
//!   device: memory of GPUs, through the driver of CUDA if there is one
//!   value: data types, and reductions in the stated order
//! ```
//!
//! The executor is a state machine that a thread of the caller drives; it knows rings and nothing of what moves them. A step means here
//! what it means to the simulator and to the verifier ([`syncline_collective::program::step`]).

pub mod bootstrap;
mod clock;
pub mod communicator;
pub mod device;
mod digest;
mod executor;
pub mod plan;
pub mod transport;
pub mod value;
