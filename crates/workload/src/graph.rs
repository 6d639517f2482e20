//! Graphs of compute and communication, produced lazily, one iteration at a time.
//!
//! The system layer executes the graph of a class of equal NPUs: compute nodes of a stream run one at a
//! time in the order in which they appear; a collective is issued as soon as its dependencies are done. The
//! time an NPU's main stream is idle because its next compute node waits for a collective is
//! *exposed communication*, attributed to the collective that ends the wait; if a compute node of the
//! background stream ends it, it is a wait for background compute.

use crate::layer::Cost;
use syncline_collective::Kind;
use syncline_core::{Bytes, id_type};

id_type!(
    /// A node of a graph, by the order of production, from zero, across iterations.
    NodeIndex
);

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

/// A part of the NPU that computes on its own. Every compute node runs on one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// What the training loop waits for.
    #[default]
    Main,
    /// Beside it, with resources set aside.
    Background,
}

impl Stream {
    /// All streams, in order.
    pub const ALL: [Stream; 2] = [Stream::Main, Stream::Background];

    /// Its place among them.
    pub const fn index(self) -> usize {
        self as usize
    }
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
    /// Where it computes; without meaning for a collective.
    pub stream: Stream,
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

/// The nodes of an iteration in the making.
pub(crate) struct Nodes {
    first: NodeIndex,
    nodes: Vec<Node>,
}

impl Nodes {
    /// No nodes yet; the first one will have the number `first`.
    pub(crate) fn new(first: NodeIndex) -> Nodes {
        Nodes { first, nodes: Vec::new() }
    }

    /// The number of the next node.
    ///
    /// # Panics
    /// When a run has more nodes than [`NodeIndex`] numbers.
    pub(crate) fn next(&self) -> NodeIndex {
        let count = u32::try_from(self.nodes.len()).ok();
        NodeIndex(count.and_then(|n| self.first.0.checked_add(n)).expect("a run of at most 2^32 nodes"))
    }

    /// The nodes.
    pub(crate) fn finish(self) -> Vec<Node> {
        self.nodes
    }

    fn push(&mut self, layer: usize, pass: Pass, stream: Stream, work: Work, after: Vec<NodeIndex>) -> NodeIndex {
        let index = self.next();
        let layer = u32::try_from(layer).expect("at most 2^32 layers");
        self.nodes.push(Node { layer, pass, stream, work, after });
        index
    }

    /// Appends a compute node of the main stream.
    pub(crate) fn compute(
        &mut self,
        layer: usize,
        pass: Pass,
        cost: &Cost,
        after: impl IntoIterator<Item = NodeIndex>,
    ) -> NodeIndex {
        self.compute_on(Stream::Main, layer, pass, cost, after)
    }

    /// Appends a compute node.
    pub(crate) fn compute_on(
        &mut self,
        stream: Stream,
        layer: usize,
        pass: Pass,
        cost: &Cost,
        after: impl IntoIterator<Item = NodeIndex>,
    ) -> NodeIndex {
        self.push(layer, pass, stream, Work::Compute(cost.clone()), after.into_iter().collect())
    }

    /// Appends a collective.
    pub(crate) fn collective(
        &mut self,
        layer: usize,
        pass: Pass,
        (kind, size): (Kind, Bytes),
        after: NodeIndex,
    ) -> NodeIndex {
        self.push(layer, pass, Stream::Main, Work::Collective { kind, size }, vec![after])
    }
}
