//! The graphs of all classes, as far as they have been expanded.

use crate::admission::CollectiveId;
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_collective::{Kind, Rank};
use syncline_core::{Bytes, Id, Ps};
use syncline_endpoint::Kernel;
use syncline_workload::compute::{KernelTime, Npu};
use syncline_workload::graph::{
    ClassId, FamilyId, GraphSource, Node, NodeIndex, Order, Pass, PointToPoint, RelativeRank, Stream, Work,
};

/// A node of the expanded graph of a class, shared by all its NPUs.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// Layer it belongs to.
    pub layer: u32,
    /// Pass it belongs to.
    pub pass: Pass,
    /// Iteration it belongs to.
    pub iteration: u32,
    /// Where it computes.
    pub stream: Stream,
    /// What it does.
    pub work: NodeWork,
    /// What has to be done before.
    pub after: Vec<NodeIndex>,
    /// What waits for it.
    pub before: Vec<NodeIndex>,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeWork {
    /// Computes for this long.
    Compute(Ps),
    /// Runs a collective.
    Collective(Call),
    /// Sends a message.
    Send(Post),
    /// Receives a message.
    Recv(Post),
    /// Exchanges messages with all ranks.
    Exchange(Exchange),
}

/// An all-to-all with a size for each pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The family of the communicator.
    pub family: FamilyId,
    /// How many of these the graph has of that family before it.
    pub number: u32,
    /// Where its sizes are ([`ClassGraph::sizes`]).
    sizes: u32,
}

/// A collective that a graph asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The family of the communicator.
    pub family: FamilyId,
    /// Its place among the collectives of that family, in the order of the graph.
    pub id: CollectiveId,
    /// Which collective.
    pub kind: Kind,
    /// The root of a rooted one.
    pub root: Rank,
    /// Bytes of the full vector.
    pub bytes: u64,
}

/// A message that a graph sends or receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Between whom, with which tag and length.
    pub message: PointToPoint,
    /// How many messages in the same direction, of the same family, peer and tag, the graph has before it.
    pub number: u32,
}

/// The graph of a class.
#[derive(Debug, Default)]
pub struct ClassGraph {
    streams: Vec<Order>,
    nodes: Vec<GraphNode>,
    /// The kernels of each node, where endpoints say how long they take.
    kernels: Vec<Vec<Kernel>>,
    /// By family, the nodes of its collectives.
    calls: Vec<Vec<NodeIndex>>,
    /// Sizes of exchanges.
    sizes: Vec<Arc<[Bytes]>>,
    /// How many messages were sent and received, by direction, family, peer and tag.
    posts: BTreeMap<(bool, FamilyId, i32, u32), u32>,
    /// Iterations that were asked for.
    expanded: u32,
}

impl ClassGraph {
    /// The order of each stream.
    pub fn streams(&self) -> &[Order] {
        &self.streams
    }

    /// Expanded nodes.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// A node.
    #[inline]
    pub fn node(&self, node: NodeIndex) -> &GraphNode {
        &self.nodes[node.index()]
    }

    /// The kernels of a compute node, if endpoints say how long they take.
    pub fn kernels(&self, node: NodeIndex) -> &[Kernel] {
        self.kernels.get(node.index()).map_or(&[], Vec::as_slice)
    }

    /// The nodes of the collectives of a family, in order.
    pub fn calls(&self, family: FamilyId) -> &[NodeIndex] {
        self.calls.get(family.index()).map_or(&[], Vec::as_slice)
    }

    /// The collective that a node asks for.
    ///
    /// # Panics
    /// If it asks for none.
    pub fn call(&self, node: NodeIndex) -> Call {
        match self.node(node).work {
            NodeWork::Collective(call) => call,
            other => panic!("a node that runs a collective, not {other:?}"),
        }
    }

    /// Bytes of each message of an exchange: those from the first rank to each rank, then those from the second one.
    pub fn sizes(&self, exchange: Exchange) -> &Arc<[Bytes]> {
        &self.sizes[exchange.sizes as usize]
    }

    /// A message of a node, with its number among those like it.
    fn post(&mut self, sends: bool, message: PointToPoint) -> Post {
        let number = self.posts.entry((sends, message.family, message.peer.0, message.tag)).or_insert(0);
        *number += 1;
        Post { message, number: *number - 1 }
    }
}

/// What compute nodes run on, and how long they take there.
#[derive(Clone, Debug)]
pub struct Computers {
    /// The main stream's.
    pub main: Npu,
    /// That of all other streams.
    pub background: Npu,
    /// Warps of a kernel on an SM, in thousandths, if the endpoints say how long kernels take.
    pub contended: Option<u64>,
}

impl Computers {
    /// What a stream has.
    pub fn of(&self, stream: Stream) -> &Npu {
        if stream == Stream::MAIN { &self.main } else { &self.background }
    }
}

/// The graphs of all classes.
pub struct Graphs {
    source: Box<dyn GraphSource + Send>,
    iterations: u32,
    classes: Vec<ClassGraph>,
}

impl Graphs {
    /// The graphs of a source, none of which is expanded yet.
    pub fn new(source: Box<dyn GraphSource + Send>, iterations: u32) -> Graphs {
        let class =
            |class: u16| ClassGraph { streams: source.streams(ClassId(class)).to_vec(), ..ClassGraph::default() };
        Graphs { classes: (0..source.classes()).map(class).collect(), source, iterations }
    }

    /// The source.
    pub fn source(&self) -> &dyn GraphSource {
        &*self.source
    }

    /// The graph of a class.
    #[inline]
    pub fn of(&self, class: ClassId) -> &ClassGraph {
        &self.classes[class.index()]
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Expands the next iteration of a class; false when there is none with a node.
    pub fn expand(&mut self, class: ClassId, computers: &Computers) -> bool {
        let graph = &mut self.classes[class.index()];
        let before = graph.nodes.len();
        while graph.expanded < self.iterations && graph.nodes.len() == before {
            let iteration = graph.expanded;
            graph.expanded += 1;
            for node in self.source.iteration(class, iteration) {
                append(graph, node, iteration, computers);
            }
        }
        graph.nodes.len() > before
    }
}

/// Appends a node to a graph.
fn append(graph: &mut ClassGraph, node: Node, iteration: u32, computers: &Computers) {
    let index = NodeIndex::from_index(graph.nodes.len());
    for &dependency in &node.after {
        graph.nodes[dependency.index()].before.push(index);
    }
    let model = computers.of(node.stream);
    if let Some(warps) = computers.contended {
        graph.kernels.push(match &node.work {
            Work::Compute(cost) => {
                let kernel = |of: KernelTime| Kernel { alone: of.time, bytes: of.moved, warps, busy: of.busy };
                model.kernel_times(cost).map(kernel).collect()
            }
            _ => Vec::new(),
        });
    }
    let work = match node.work {
        Work::Compute(cost) => NodeWork::Compute(model.time(&cost)),
        Work::Collective { family, kind, root, size } => {
            if graph.calls.len() <= family.index() {
                graph.calls.resize(family.index() + 1, Vec::new());
            }
            let calls = &mut graph.calls[family.index()];
            let id = CollectiveId::from_index(calls.len());
            calls.push(index);
            NodeWork::Collective(Call { family, id, kind, root, bytes: size.0 })
        }
        Work::Exchange { family, sizes } => {
            // Iterations repeat the same sizes.
            let known = graph.sizes.iter().position(|known| Arc::ptr_eq(known, &sizes));
            let place = known.unwrap_or_else(|| {
                graph.sizes.push(sizes);
                graph.sizes.len() - 1
            });
            let (peer, tag, size) = (RelativeRank(0), PointToPoint::OF_EXCHANGES, Bytes::ZERO);
            let Post { number, .. } = graph.post(true, PointToPoint { family, peer, tag, size });
            NodeWork::Exchange(Exchange { family, number, sizes: place as u32 })
        }
        Work::Send(message) => NodeWork::Send(graph.post(true, message)),
        Work::Recv(message) => NodeWork::Recv(graph.post(false, message)),
    };
    let (layer, pass, stream) = (node.layer, node.pass, node.stream);
    graph.nodes.push(GraphNode { layer, pass, iteration, stream, work, after: node.after, before: Vec::new() });
}
