//! Kernels that a host launches, one by one.
//!
//! The host runs ahead of the NPU: it takes a time for each kernel and each collective, in the order of the graph, whatever the
//! NPU does meanwhile. A node may begin when its first kernel has been launched; its other kernels are launched while it runs, and
//! what follows it may begin when these have been, too. Where the host is slower than the NPU, the NPU waits for it.

use crate::graph::{ClassId, GraphSource, Node, NodeIndex, Order, Stream, Work};
use crate::layer::{Cost, Layer};
use syncline_core::Ps;

/// A graph whose nodes a host launches.
pub struct Hosted {
    source: Box<dyn GraphSource + Send>,
    per_kernel: Ps,
    streams: Vec<Order>,
    host: Stream,
    /// By number in the graph, the number that a node has here.
    numbers: Vec<NodeIndex>,
    produced: u32,
    /// Kernels that have not been launched yet when the next node is.
    behind: u64,
}

impl Hosted {
    /// A graph of one class, whose host takes so long for a kernel.
    ///
    /// # Panics
    /// When the graph has several classes.
    pub fn new(source: Box<dyn GraphSource + Send>, per_kernel: Ps) -> Hosted {
        assert_eq!(source.classes(), 1, "one class has one host");
        let mut streams = source.streams(ClassId(0)).to_vec();
        let host = Stream(u8::try_from(streams.len()).expect("few streams"));
        streams.push(Order::Host);
        Hosted { source, per_kernel, streams, host, numbers: Vec::new(), produced: 0, behind: 0 }
    }

    /// Numbers a node.
    fn push(&mut self, nodes: &mut Vec<Node>, node: Node) -> NodeIndex {
        let number = NodeIndex(self.produced);
        self.produced = self.produced.checked_add(1).expect("a run of at most 2^32 nodes");
        nodes.push(node);
        number
    }
}

/// Kernels that are launched for a node.
fn launched(work: &Work) -> u64 {
    match work {
        Work::Compute(Cost::Kernels(kernels)) => kernels.len() as u64,
        Work::Compute(Cost::Measured(_)) => 0,
        _ => 1,
    }
}

impl GraphSource for Hosted {
    fn layers(&self) -> &[Layer] {
        self.source.layers()
    }

    fn describes(&self, layer: u32) -> bool {
        self.source.describes(layer)
    }

    fn class_name(&self, class: ClassId) -> String {
        self.source.class_name(class)
    }

    fn streams(&self, _: ClassId) -> &[Order] {
        &self.streams
    }

    fn iteration(&mut self, class: ClassId, iteration: u32) -> Vec<Node> {
        let given = self.source.iteration(class, iteration);
        let mut nodes = Vec::with_capacity(2 * given.len());
        for mut node in given {
            node.after.iter_mut().for_each(|number| *number = self.numbers[number.index()]);
            let kernels = launched(&node.work);
            if kernels > 0 {
                let work = Work::Compute(Cost::Measured(Ps(self.per_kernel.0.saturating_mul(self.behind + 1))));
                let launch = Node { layer: node.layer, pass: node.pass, stream: self.host, work, after: Vec::new() };
                let launch = self.push(&mut nodes, launch);
                node.after.push(launch);
                self.behind = kernels - 1;
            }
            let number = self.push(&mut nodes, node);
            self.numbers.push(number);
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_parallel::DataParallel;
    use crate::layer::Demand;
    use syncline_core::Bytes;

    fn layer(kernels: usize) -> Layer {
        let cost = || Cost::Kernels(vec![Demand::new(1, 1); kernels]);
        let (forward, input_grad, weight_grad) = (cost(), cost(), cost());
        Layer {
            name: "a".into(),
            params: 1,
            forward,
            input_grad,
            weight_grad,
            update: Cost::NOTHING,
            gradient: Bytes(4),
        }
    }

    #[test]
    fn a_node_begins_when_its_first_kernel_is_launched_and_the_next_when_all_of_it_are() {
        let source = DataParallel::new(vec![layer(3), layer(1)], true);
        let plain: Vec<Node> = DataParallel::new(vec![layer(3), layer(1)], true).iteration(ClassId(0), 0);
        let mut hosted = Hosted::new(Box::new(source), Ps(10));
        assert_eq!(hosted.streams(ClassId(0)), [Order::InOrder, Order::InOrder, Order::Host]);
        for iteration in 0..2 {
            let nodes = hosted.iteration(ClassId(0), iteration);
            let times: Vec<u64> = nodes.iter().filter(|node| node.stream == Stream(2)).map(time).collect();
            // Forward (3, 1), gradients of the second layer (1), its collective, its input (1), of the first (3), its collective.
            // The collective at the end is one launch, so that nothing is left to the next iteration.
            assert_eq!(times, [10, 30, 10, 10, 10, 10, 30]);
            assert_eq!(nodes.len(), 2 * plain.len());
            for pair in nodes.chunks(2) {
                assert_eq!(pair[0].stream, Stream(2));
                assert!(pair[0].after.is_empty());
            }
        }
    }

    fn time(node: &Node) -> u64 {
        match node.work {
            Work::Compute(Cost::Measured(time)) => time.0,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn dependencies_are_those_of_the_graph_and_on_the_launch() {
        let source = || DataParallel::new(vec![layer(2), layer(1)], true);
        let (mut plain, mut hosted) = (source(), Hosted::new(Box::new(source()), Ps(10)));
        let both = |iteration, plain: &mut DataParallel, hosted: &mut Hosted| {
            (plain.iteration(ClassId(0), iteration), hosted.iteration(ClassId(0), iteration))
        };
        for iteration in 0..2 {
            let (before, after) = both(iteration, &mut plain, &mut hosted);
            for (number, node) in before.iter().enumerate() {
                let here = &after[2 * number + 1];
                assert_eq!((here.layer, here.pass, &here.work), (node.layer, node.pass, &node.work));
                let mut expected: Vec<NodeIndex> = node.after.iter().map(|n| NodeIndex(2 * n.0 + 1)).collect();
                expected.push(NodeIndex(2 * (iteration * before.len() as u32 + number as u32)));
                assert_eq!(here.after, expected);
            }
        }
    }
}
