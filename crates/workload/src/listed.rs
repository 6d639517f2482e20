//! Graphs that are written out: the nodes of an iteration of each class, which every iteration repeats.

use crate::graph::{ClassId, GraphSource, Node, NodeIndex, Order, Pass, Stream, Work};
use crate::layer::{Cost, Layer};
use syncline_core::{Bytes, Id};

/// A node of an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedNode {
    /// The layer it belongs to.
    pub layer: u32,
    /// The pass it belongs to.
    pub pass: Pass,
    /// Where it computes; without meaning for communication.
    pub stream: Stream,
    /// What it does.
    pub work: Work,
    /// Nodes of the same iteration that must be done before, by their numbers in it; all of them smaller.
    pub after: Vec<u32>,
    /// Nodes of the iteration before that must be done before.
    pub after_previous: Vec<u32>,
}

/// A class: its name, its streams, and the nodes of an iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedClass {
    /// Its name.
    pub name: String,
    /// The order of each of its streams, the main one first; there is at least one.
    pub streams: Vec<Order>,
    /// The nodes of an iteration.
    pub nodes: Vec<ListedNode>,
}

/// Graphs that are written out.
#[derive(Clone, Debug)]
pub struct Listed {
    layers: Vec<Layer>,
    classes: Vec<ListedClass>,
}

impl Listed {
    /// Of classes, whose nodes belong to layers of these names.
    ///
    /// # Panics
    /// If a node names a layer, a stream or a node that there is not, or one that does not come before it.
    pub fn new(layers: Vec<String>, classes: Vec<ListedClass>) -> Listed {
        for class in &classes {
            for (number, node) in class.nodes.iter().enumerate() {
                assert!((node.layer as usize) < layers.len(), "layer {} of node {number}", node.layer);
                assert!(node.stream.index() < class.streams.len(), "stream {} of node {number}", node.stream.0);
                assert!(node.after.iter().all(|&n| (n as usize) < number), "node {number} is after an earlier one");
                let known = |&n: &u32| (n as usize) < class.nodes.len();
                assert!(node.after_previous.iter().all(known), "node {number} is after one that there is");
            }
        }
        let layer = |name: String| Layer {
            name,
            params: 0,
            forward: Cost::NOTHING,
            input_grad: Cost::NOTHING,
            weight_grad: Cost::NOTHING,
            gradient: Bytes::ZERO,
            update: Cost::NOTHING,
        };
        Listed { layers: layers.into_iter().map(layer).collect(), classes }
    }

    /// The classes.
    pub fn listed(&self) -> &[ListedClass] {
        &self.classes
    }
}

impl GraphSource for Listed {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn describes(&self, _layer: u32) -> bool {
        false
    }

    fn classes(&self) -> u16 {
        self.classes.len() as u16
    }

    fn class_name(&self, class: ClassId) -> String {
        self.classes[class.index()].name.clone()
    }

    fn streams(&self, class: ClassId) -> &[Order] {
        &self.classes[class.index()].streams
    }

    fn iteration(&mut self, class: ClassId, iteration: u32) -> Vec<Node> {
        let nodes = &self.classes[class.index()].nodes;
        let first = nodes.len() * iteration as usize;
        let at = |first: usize, n: u32| NodeIndex::from_index(first + n as usize);
        let node = |n: &ListedNode| {
            let here = n.after.iter().map(|&n| at(first, n));
            let previous = n.after_previous.iter().filter(|_| iteration > 0);
            let before = previous.map(|&n| at(first - nodes.len(), n));
            let (layer, pass, stream, work) = (n.layer, n.pass, n.stream, n.work.clone());
            Node { layer, pass, stream, work, after: before.chain(here).collect() }
        };
        nodes.iter().map(node).collect()
    }
}
