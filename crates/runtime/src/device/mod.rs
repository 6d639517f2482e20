//! Memory of GPUs.
//!
//! ```text
//!   program's stream ─▶ event ─▶ queue: a thread of the communicator carries calls out, in order
//!        │                         │   executor with OnDevice: copies and kernels on the engine's streams, an event after each step
//!        └── waits for a word ◀────┘   (rings stay in memory of the host, which the GPU reaches)
//! ```
//!
//! * `driver`: the functions of `libcuda.so.1`, found at run time.
//! * [`Gpu`]: a GPU by a context of the program on it, and the kernels there.
//! * `engine`: what a communicator has there.
//! * `direct`: payloads of messages in memory of GPUs.
//! * [`Queue`]: calls that are ordered by streams.
//! * `watch`: whether a thread is held up in a call of the driver.

pub(crate) mod direct;
mod driver;
pub(crate) mod engine;
mod gpu;
mod queue;
mod watch;

pub use gpu::Gpu;
pub(crate) use gpu::Registered;
pub use queue::{Call, Queue};
