//! What an NPU computes and when it must communicate.
//!
//! ```text
//!   models (resnet50, ...) ─┐                        ┌─▶ compute::Npu: Cost ─▶ Ps
//!   astra_text (importer)  ─┴─▶ Vec<Layer> ─▶ graph ─┘
//!                                   data_parallel: nodes of one iteration, with dependencies
//! ```
//!
//! A layer carries demand (FLOPs and bytes), never a duration, unless the duration was measured; the
//! compute model turns demand into time with what the system configuration leaves of the NPU. A
//! parallelisation strategy is a [`graph::GraphSource`] and nothing else.
//!
//! | module | what it holds |
//! |---|---|
//! | [`layer`] | layers and the cost of their passes |
//! | [`graph`] | nodes of compute and communication, and who produces them |
//! | [`compute`] | the roofline of an NPU |
//! | [`operators`] | the demand of operators, from their shapes; what is counted and what is not fused |
//! | [`models`] | the models by name; [`resnet`] the first of them |
//! | [`data_parallel`] | training with a copy of the model on every NPU |
//! | [`astra_text`] | text workloads of ASTRA-sim 1.0 |
//!
//! ```
//! use syncline_workload::{Counted, DataParallel, GraphSource, Npu, Work, models};
//!
//! let npu = Npu::new(120e12, 900e9, 1.0)?;
//! let mut training = DataParallel::new(models::build("resnet50", 32, 2, Counted::All)?, true);
//! let nodes = training.iteration(0);
//! let collectives = nodes.iter().filter(|n| matches!(n.work, Work::Collective { .. })).count();
//! assert_eq!(collectives, 54);
//! let compute_s: f64 = nodes
//!     .iter()
//!     .map(|n| match &n.work {
//!         Work::Compute(cost) => npu.time(cost).as_s(),
//!         Work::Collective { .. } => 0.0,
//!     })
//!     .sum();
//! assert!(compute_s > 32.0 * 24.5e9 / 120e12); // the FLOP bound
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod astra_text;
pub mod compute;
pub mod data_parallel;
pub mod graph;
pub mod layer;
pub mod models;
pub mod operators;
pub mod resnet;

pub use astra_text::{FieldError, ImportError};
pub use compute::{Npu, NpuError};
pub use data_parallel::DataParallel;
pub use graph::{GraphSource, Node, NodeIndex, Pass, Work};
pub use layer::{Cost, Demand, Layer};
pub use models::ModelError;
pub use operators::Counted;
