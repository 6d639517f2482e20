//! What an NPU computes and when it must communicate.
//!
//! ```text
//!   described (model files) ─┐                    ┌─▶ compute::Npu: Cost ─▶ Ps
//!   astra_text (importer)   ─┴─▶ layers ─▶ graph ─┘
//!                                 data_parallel, hybrid, astra_parallel: nodes of one iteration, with dependencies
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
//! | [`described`] | the same for operators that are data: kinds by name, with sizes; models are layers of them |
//! | [`data_parallel`] | training with a copy of the model on every NPU |
//! | [`hosted`] | kernels that a host launches, one by one |
//! | [`hybrid`] | training with copies of the MLPs and distributed tables |
//! | [`astra_text`] | text workloads of ASTRA-sim 1.0 |
//! | [`astra_parallel`] | training as such a workload describes it, of every parallelism |
//!
//! ```
//! use syncline_workload::described::Execution;
//! use syncline_workload::described::layers::{Counting, LayerSpec, chain};
//! use syncline_workload::{ClassId, Counted, DataParallel, GraphSource, Npu, Work};
//!
//! let layers: Vec<LayerSpec> = serde_json::from_str(
//!     r#"[{"name": "hidden", "operators": [
//!             {"kind": "linear", "sizes": {"rows": 32, "inputs": 784, "outputs": 512}},
//!             {"kind": "relu", "sizes": {"rows": 32, "features": 512}}]},
//!         {"name": "classes", "operators": [
//!             {"kind": "linear", "sizes": {"rows": 32, "inputs": 512, "outputs": 10}},
//!             {"kind": "softmax-cross-entropy", "sizes": {"rows": 32, "vocabulary": 10}}]}]"#,
//! )
//! .expect("a list of layers");
//! let layers = chain(&layers, Counting { execution: Execution::of(2), counted: Counted::All })?;
//! let mut training = DataParallel::new(layers, true);
//! let nodes = training.iteration(ClassId(0), 0);
//! let collectives = nodes.iter().filter(|n| matches!(n.work, Work::Collective { .. })).count();
//! assert_eq!(collectives, 2);
//! let npu = Npu::new(1e12, 1e9, 1.0)?;
//! let compute_s: f64 = nodes
//!     .iter()
//!     .map(|n| match &n.work {
//!         Work::Compute(cost) => npu.time(cost).as_s(),
//!         _ => 0.0,
//!     })
//!     .sum();
//! assert!(compute_s > (784.0 * 512.0 + 512.0 * 10.0) * 2.0 / 1e9); // all weights are read
//! # Ok::<(), syncline_core::Refusal>(())
//! ```

pub mod astra_parallel;
pub mod astra_text;
pub mod compute;
pub mod data_parallel;
pub mod described;
pub mod frameworks;
pub mod graph;
pub mod hosted;
pub mod hybrid;
pub mod kernel_kind;
pub mod layer;
pub mod listed;
pub mod operators;
mod parameters;
pub mod recurrent;
pub mod systolic;
pub mod transformer;

pub use astra_parallel::Parallel;
pub use astra_text::{FieldError, ImportError};
pub use compute::{Npu, NpuError};
pub use data_parallel::{Buckets, DataParallel};
pub use graph::{
    ClassId, FamilyId, GraphSource, Node, NodeIndex, Order, Pass, PointToPoint, RelativeRank, Stream, Work,
};
pub use hybrid::{Hybrid, Recommender};
pub use kernel_kind::KernelKind;
pub use layer::{Cost, Demand, Gemm, Layer};
pub use operators::Counted;
