//! What an NPU computes and when it must communicate.
//!
//! ```text
//!   models (resnet50, ...) ─┐                    ┌─▶ compute::Npu: Cost ─▶ Ps
//!   astra_text (importer)  ─┴─▶ layers ─▶ graph ─┘
//!                                data_parallel, hybrid, astra_parallel: nodes of one iteration, with dependencies
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
//! | [`compute`] | how long kernels take: a roofline, tiles and waves, measurements; [`systolic`] an array |
//! | [`operators`], [`recurrent`], [`transformer`] | the demand of operators, from their shapes; what is counted and what is not fused |
//! | [`described`] | the same for operators that are data: kinds by name, with sizes |
//! | [`models`] | the models by name: [`plain`] (AlexNet, VGG-16), [`resnet`], [`gnmt`], [`dlrm`] |
//! | [`data_parallel`] | training with a copy of the model on every NPU |
//! | [`hybrid`] | training with copies of the MLPs and distributed tables |
//! | [`astra_text`] | text workloads of ASTRA-sim 1.0 |
//! | [`astra_parallel`] | training as such a workload describes it, of every parallelism |
//!
//! ```
//! use syncline_workload::models::{self, Built, Sizes};
//! use syncline_workload::{ClassId, Counted, DataParallel, GraphSource, Npu, Work};
//!
//! let npu = Npu::new(120e12, 900e9, 1.0)?;
//! let sizes = Sizes { batch: 32, element_bytes: 2, counted: Counted::All, sequence: None, ranks: 1 };
//! let Built::Chain(layers) = models::build("resnet50", &sizes)? else { panic!("its layers form a chain") };
//! let mut training = DataParallel::new(layers, true);
//! let nodes = training.iteration(ClassId(0), 0);
//! let collectives = nodes.iter().filter(|n| matches!(n.work, Work::Collective { .. })).count();
//! assert_eq!(collectives, 54);
//! let compute_s: f64 = nodes
//!     .iter()
//!     .map(|n| match &n.work {
//!         Work::Compute(cost) => npu.time(cost).as_s(),
//!         _ => 0.0,
//!     })
//!     .sum();
//! assert!(compute_s > 32.0 * 24.5e9 / 120e12); // the FLOP bound
//! # Ok::<(), syncline_core::Refusal>(())
//! ```

pub mod astra_parallel;
pub mod astra_text;
pub mod compute;
pub mod data_parallel;
pub mod described;
pub mod dlrm;
pub mod gnmt;
pub mod graph;
pub mod hybrid;
pub mod layer;
pub mod listed;
pub mod models;
pub mod operators;
mod parameters;
pub mod plain;
pub mod recurrent;
pub mod resnet;
mod sizes;
pub mod systolic;
pub mod transformer;

pub use astra_parallel::Parallel;
pub use astra_text::{FieldError, ImportError};
pub use compute::{Npu, NpuError};
pub use data_parallel::{Buckets, DataParallel};
pub use dlrm::Recommender;
pub use graph::{
    ClassId, FamilyId, GraphSource, Node, NodeIndex, Order, Pass, PointToPoint, RelativeRank, Stream, Work,
};
pub use hybrid::Hybrid;
pub use layer::{Cost, Demand, Gemm, Layer};
pub use models::ModelError;
pub use operators::Counted;
