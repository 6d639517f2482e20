//! What an NPU computes and when it must communicate.
//!
//! ```text
//!   model (resnet50, ...) ─┐                       ┌─▶ compute::Npu: Demand ─▶ Ps
//!   astra_text (importer) ─┴─▶ Vec<Layer> ─▶ graph ┘
//!                                            GraphSource: nodes of one iteration, with dependencies
//! ```
//!
//! A layer carries demand (FLOPs and bytes), never a duration, unless the duration was measured; the
//! compute model turns demand into time with what the system configuration leaves of the NPU. A
//! parallelisation strategy is a [`graph::GraphSource`] and nothing else.

pub mod graph;
pub mod layer;

pub use graph::{Collective, GraphSource, Node, NodeIndex, Pass, Work};
pub use layer::{Cost, Demand, Layer};
