//! Graphs of compute and communication, produced lazily, one iteration at a time.
//!
//! NPUs that do the same are a *class*, which has a graph; the system layer executes it on each of them. Compute nodes run
//! on streams: one node of a stream at a time, in the order of the graph or as they become ready ([`Order`]). A node that
//! communicates begins as soon as its dependencies are done. It names a *family* of communicators and its peers relative to
//! the NPU's own rank, so that all NPUs of a class have the same graph.
//!
//! The time that an NPU's main stream is idle because its next compute node waits for communication is *exposed
//! communication*, attributed to the node that ends the wait; for a message of another class it is *bubble*, and if a compute
//! node of another stream ends it, it is a wait for background compute.
//!
//! Collectives of a communicator are matched by their order: the first of its family in one member's graph is the first in
//! every other's. Messages between two ranks are matched in the same way among those of equal tag.

use crate::layer::Cost;
use std::sync::Arc;
use syncline_collective::{Kind, Rank};
use syncline_core::{Bytes, id_type};

id_type!(
    /// A node of the graph of a class, by the order of production, from zero, across iterations.
    NodeIndex
);

id_type!(
    /// NPUs that run the same graph.
    ClassId: u16
);

id_type!(
    /// A family of communicators.
    FamilyId: u8
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

/// A part of the NPU that computes on its own, by its number in the class. Every compute node runs on one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream(pub u8);

impl Stream {
    /// What the training loop waits for.
    pub const MAIN: Stream = Stream(0);
    /// Beside it, with resources set aside.
    pub const BACKGROUND: Stream = Stream(1);

    /// Its place among the streams of its class.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which of the nodes of a stream runs next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The next one in the order of production, once its dependencies are done.
    #[default]
    InOrder,
    /// Of those whose dependencies are done, the first in the order of production.
    ByReadiness,
    /// The next one in the order of production, by the host of the NPU: it takes nothing of what kernels and communication
    /// share.
    Host,
}

/// Which of several ranks is meant, from the point of view of another one of its communicator: so many ranks on, around
/// the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelativeRank(pub i32);

impl RelativeRank {
    /// The rank that is meant by a rank of a communicator of `size` ranks.
    pub fn of(self, rank: Rank, size: u32) -> Rank {
        Rank((i64::from(rank.0) + i64::from(self.0)).rem_euclid(i64::from(size)) as u32)
    }
}

/// A message between two ranks of a communicator, as one of them sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointToPoint {
    /// The communicator's family.
    pub family: FamilyId,
    /// The other rank.
    pub peer: RelativeRank,
    /// What messages between the two are told apart by; not [`PointToPoint::OF_EXCHANGES`].
    pub tag: u32,
    /// Its length.
    pub size: Bytes,
}

impl PointToPoint {
    /// The tag of the messages of an all-to-all with a size for each pair.
    pub const OF_EXCHANGES: u32 = u32::MAX;
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Occupies a stream of the compute engine.
    Compute(Cost),
    /// A collective of the NPU's communicator.
    Collective {
        /// The communicator's family.
        family: FamilyId,
        /// Which one.
        kind: Kind,
        /// The root of a rooted one.
        root: Rank,
        /// Bytes of the full vector on each NPU.
        size: Bytes,
    },
    /// An all-to-all of the NPU's communicator with a size for each pair, all messages at once; done when all that the NPU
    /// sends has left it and all that it receives has been taken in.
    Exchange {
        /// The communicator's family.
        family: FamilyId,
        /// Bytes of each message: those from the first rank, to each rank in order, then those from the second one, and so on.
        sizes: Arc<[Bytes]>,
    },
    /// Sends a message; done when its last byte has left the NPU.
    Send(PointToPoint),
    /// Receives a message; done when all of it has been taken in.
    Recv(PointToPoint),
}

/// A node of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The layer it belongs to.
    pub layer: u32,
    /// The pass it belongs to.
    pub pass: Pass,
    /// Where it computes; without meaning for communication.
    pub stream: Stream,
    /// What it does.
    pub work: Work,
    /// Nodes that must be done before, all of them produced earlier.
    pub after: Vec<NodeIndex>,
}

/// A parallelisation strategy applied to a model, or any other work of NPUs: a graph for each class of NPUs.
pub trait GraphSource {
    /// The layers that nodes refer to.
    fn layers(&self) -> &[crate::layer::Layer];

    /// Whether a layer says what it has and what its passes cost; otherwise it is a name, and its nodes alone say what they do.
    fn describes(&self, _layer: u32) -> bool {
        true
    }

    /// Number of classes.
    fn classes(&self) -> u16 {
        1
    }

    /// The name of a class, for people.
    fn class_name(&self, class: ClassId) -> String {
        class.to_string()
    }

    /// The streams of a class, the main one first. All sources that have not said otherwise have a main stream and one in
    /// the background, both in order.
    fn streams(&self, _class: ClassId) -> &[Order] {
        &[Order::InOrder; 2]
    }

    /// The nodes of an iteration of a class, to be numbered on from those of the iterations before. They depend
    /// only on nodes of this iteration and of those before. The iterations of a class are asked for in order.
    fn iteration(&mut self, class: ClassId, iteration: u32) -> Vec<Node>;
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
        self.compute_on(Stream::MAIN, layer, pass, cost, after)
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

    /// Appends a collective of the first family, whose root, if it has one, is its first rank.
    pub(crate) fn collective(
        &mut self,
        layer: usize,
        pass: Pass,
        collective: (Kind, Bytes),
        after: NodeIndex,
    ) -> NodeIndex {
        self.collective_of(FamilyId(0), layer, pass, collective, after)
    }

    /// Appends a collective of a family, whose root, if it has one, is its first rank.
    pub(crate) fn collective_of(
        &mut self,
        family: FamilyId,
        layer: usize,
        pass: Pass,
        (kind, size): (Kind, Bytes),
        after: NodeIndex,
    ) -> NodeIndex {
        let work = Work::Collective { family, kind, root: Rank(0), size };
        self.push(layer, pass, Stream::MAIN, work, vec![after])
    }
}
