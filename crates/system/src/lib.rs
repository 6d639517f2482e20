//! The training loop, the order of collectives and chunks, and the results.
//!
//! ```text
//!   spec (JSON) ─▶ build: fabric, plans, endpoint, graph ─▶ driver::Simulation<N, E>
//!        executor: compute nodes, waits, exposed time          │ one event queue
//!        admission: which chunk is next, on every NPU alike    ▼
//!                                        tables + summary ◀─ run to the end
//! ```

pub mod admission;
mod along;
pub mod asked;
pub mod attempt;
pub mod balance;
pub mod bound;
pub mod build;
pub mod cohorts;
pub mod collective_config;
pub mod compute;
pub mod describe;
pub mod driver;
pub mod endpoints;
pub mod errors;
pub mod event;
pub mod executor;
pub mod export;
pub mod families;
pub mod fold;
pub mod graphs;
pub mod job;
mod known_graphs;
pub mod limits;
pub mod listing;
pub mod machine;
pub mod memory;
pub mod monitor;
pub mod networks;
pub mod offload;
pub mod pieces;
pub mod pipeline;
pub mod place;
mod plans;
pub mod preview;
pub mod results;
pub mod run_memory;
pub mod setup;
pub mod spec;
pub mod start;
pub mod steady;
pub mod tables;
pub mod timer;
mod too_many;
pub mod turns;

pub use asked::{asked, asked_of};
pub use attempt::{Attempt, Limits};
pub use build::{Prepared, attempt, attempt_spec, check, check_spec, run, run_observed, run_spec};
pub use compute::times;
pub use describe::{Facts, describe};
pub use errors::RunError;
pub use export::export;
pub use known_graphs::KnownGraphs;
pub use listing::listing;
pub use monitor::{Cancellation, Monitor};
pub use preview::Preview;
pub use results::{Results, Summary};
pub use spec::Spec;
pub use syncline_core::table::{Column, Table, Values};
