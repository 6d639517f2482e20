//! Graphs of compute and communication, produced lazily, one iteration at a time.
//!
//! The system layer executes the graph of a class of equal NPUs: compute nodes run one at a time in
//! the order in which they appear; a collective is issued as soon as its dependencies are done. The
//! time an NPU's compute engine is idle because the next compute node waits for a collective is
//! *exposed communication*, attributed to the collective that ends the wait.

use crate::layer::Cost;
use syncline_collective::Kind;
use syncline_core::Bytes;

/// Numbers the nodes of a graph in the order of their production, from zero, across iterations.
pub type NodeIndex = u32;

/// The part of a training iteration that a node belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Forward.
    Forward,
    /// Gradient with respect to the input.
    InputGrad,
    /// Gradient with respect to the weights.
    WeightGrad,
    /// Weight update.
    Update,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Occupies the compute engine.
    Compute(Cost),
    /// A collective of the NPU's group over `size` bytes (of the full vector).
    Collective {
        /// Which one.
        kind: Kind,
        /// Bytes of the full vector on each NPU.
        size: Bytes,
    },
}

/// A node of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The layer it belongs to.
    pub layer: u32,
    /// The pass it belongs to.
    pub pass: Pass,
    /// What it does.
    pub work: Work,
    /// Nodes that must be done before, all of them produced earlier.
    pub after: Vec<NodeIndex>,
}

/// A parallelisation strategy applied to a model, for one class of equal NPUs.
pub trait GraphSource {
    /// The layers that nodes refer to.
    fn layers(&self) -> &[crate::layer::Layer];

    /// The nodes of an iteration, to be numbered on from those of the iterations before. They depend
    /// only on nodes of this iteration and of the one before.
    fn iteration(&mut self, iteration: u32) -> Vec<Node>;
}
