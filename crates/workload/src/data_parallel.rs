//! Data parallelism: every NPU trains a copy of the model on its own samples, and the copies' weight
//! gradients are summed.
//!
//! One iteration, layers 0 to n-1, compute nodes in this order:
//!
//! ```text
//!   for i in 0..n:            update(i)          if it costs anything and there was an iteration before
//!                             forward(i)
//!   for i in (0..n).rev():    weight_grad(i) ──▶ all_reduce(i)      issued at once, if layer i has gradients
//!                             input_grad(i)      not for layer 0
//! ```
//!
//! `update(i)`, or `forward(i)` where there is none, waits for layer i's all-reduce of the iteration
//! before: that is where communication becomes exposed. The updates after the last iteration are
//! part of the run only if it waits for all that is in flight ([`DataParallel::ending_with`]); then they come in the
//! order in which back-propagation makes gradients:
//!
//! ```text
//!   for i in (0..n).rev():    update(i)          waits for all_reduce(i)
//! ```
//!
//! Gradients may be all-reduced in buckets ([`Buckets`]), as PyTorch's DistributedDataParallel does: layers that follow one
//! another share a collective, which is issued when the gradients of the first of them are there, the last to be
//! computed:
//!
//! ```text
//!   weight_grad(2), input_grad(2), weight_grad(1) ──▶ all_reduce(1 and 2)
//! ```
//!
//! An iteration may also end in a barrier: the next one begins when all gradients are reduced, as where one step of an
//! optimiser updates all weights (PyTorch). What back-propagation does not hide is then exposed, and no forward pass
//! hides any of it. The updates follow the barrier, so that every iteration has its own:
//!
//! ```text
//!   ... all all_reduces ──▶ barrier, then for i in 0..n: update(i)
//! ```
//!
//! Without overlap (ACE paper, Table VI, BaselineNoOverlap) the gradients of all layers are
//! all-reduced together, by one collective after the whole back-propagation, and the iteration ends
//! when it does:
//!
//! ```text
//!   ... weight_grad(0) ──▶ all_reduce(sum of all gradients) ──▶ barrier
//! ```
//!
//! A barrier is a compute node without cost (layer 0, pass `Update`); every iteration has one, the
//! last too, so the run blocks on all of its communication. The joint collective bears layer 0 and
//! pass `WeightGrad`, because layer 0's gradient completes it; its exposed time is hence reported
//! under the name of layer 0.
//!
//! Besides these waits the nodes name their data dependencies on compute nodes (a layer's forward
//! on the one before, and so on), which the order of compute implies for one engine.

use crate::graph::{ClassId, GraphSource, Node, NodeIndex, Nodes, Pass};
use crate::layer::{Cost, Layer};
use syncline_collective::Kind;
use syncline_core::Bytes;

/// Gradients that are all-reduced together.
///
/// Buckets are made in the order of the layers, and one is full once it has so many bytes. A layer is never divided, so
/// that a bucket may have more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// Bytes of the bucket of the first layers. Their gradients come last, when nothing is left to hide communication
    /// behind, so it had better be small.
    pub first: Bytes,
    /// Bytes of all others.
    pub others: Bytes,
}

impl Buckets {
    /// For each of the layers, the first one of its bucket.
    fn starts(self, layers: &[Layer]) -> Vec<usize> {
        let (mut start, mut held, mut full) = (0, Bytes::ZERO, self.first);
        let mut starts = Vec::with_capacity(layers.len());
        for (i, layer) in layers.iter().enumerate() {
            starts.push(start);
            held = Bytes(held.0.saturating_add(layer.gradient.0));
            if held >= full {
                (start, held, full) = (i + 1, Bytes::ZERO, self.others);
            }
        }
        starts
    }
}

/// Data-parallel training of a model.
#[derive(Clone, Debug)]
pub struct DataParallel {
    layers: Vec<Layer>,
    /// For each layer, the first one of those that its gradients are all-reduced with.
    starts: Vec<usize>,
    overlap: bool,
    barrier: bool,
    gradients: Bytes,
    /// The number of iterations, if updates follow the last one.
    ends_with: Option<u32>,
    iterations: u32,
    produced: NodeIndex,
    /// Per layer: the node of the iteration before that completes its gradient, or updates its weights by it.
    gradient_done: Vec<Option<NodeIndex>>,
}

impl DataParallel {
    /// Training of `layers`, given in forward order. With `overlap` each layer's gradients are
    /// all-reduced as soon as they are computed, otherwise all of them together at the end.
    ///
    /// # Panics
    /// When the gradients add up to more bytes than 64 bits count; models and importers refuse this.
    pub fn new(layers: Vec<Layer>, overlap: bool) -> DataParallel {
        let sum = layers.iter().try_fold(0, |sum: u64, l| sum.checked_add(l.gradient.0));
        let gradients = Bytes(sum.expect("gradients of 64 bits in all"));
        let gradient_done = vec![None; layers.len()];
        let starts = (0..layers.len()).collect();
        let (ends_with, iterations, produced, barrier) = (None, 0, NodeIndex(0), false);
        DataParallel { layers, starts, overlap, barrier, gradients, ends_with, iterations, produced, gradient_done }
    }

    /// The same with iterations that end when all gradients are reduced; without overlap they do so in any case.
    #[must_use]
    pub fn with_barrier(self) -> DataParallel {
        DataParallel { barrier: true, ..self }
    }

    /// The same with the updates of the last of so many iterations, which are otherwise left to a further one.
    #[must_use]
    pub fn ending_with(self, iterations: u32) -> DataParallel {
        DataParallel { ends_with: Some(iterations), ..self }
    }

    /// The same with gradients in buckets; without overlap there is one for all of them in any case.
    #[must_use]
    pub fn in_buckets(self, buckets: Buckets) -> DataParallel {
        DataParallel { starts: buckets.starts(&self.layers), ..self }
    }

    /// Bytes of each all-reduce of an iteration, in the order of the layers.
    pub fn collectives(&self) -> Vec<Bytes> {
        if !self.overlap {
            return vec![self.gradients];
        }
        let firsts = (0..self.layers.len()).filter(|&i| self.starts[i] == i);
        firsts.map(|first| self.bucket(first)).collect()
    }

    /// Bytes of the gradients of the bucket that begins with a layer.
    fn bucket(&self, first: usize) -> Bytes {
        let layers = self.layers.iter().zip(&self.starts).skip(first).take_while(|(_, start)| **start == first);
        Bytes(layers.map(|(layer, _)| layer.gradient.0).sum()) // `new` has added up all of them
    }

    /// Whether communication may overlap with back-propagation.
    pub fn overlap(&self) -> bool {
        self.overlap
    }

    /// Bytes that one iteration all-reduces.
    pub fn gradients(&self) -> Bytes {
        self.gradients
    }

    /// Appends the forward pass and returns its last node.
    fn forward(&self, nodes: &mut Nodes) -> Option<NodeIndex> {
        let mut previous = None;
        for (i, layer) in self.layers.iter().enumerate() {
            let mut weights = self.gradient_done[i];
            if self.iterations > 0 && !self.barrier {
                weights = update(nodes, i, layer, weights);
            }
            previous = Some(nodes.compute(i, Pass::Forward, &layer.forward, weights.into_iter().chain(previous)));
        }
        previous
    }

    /// Appends the updates that an iteration does not leave to the next one.
    fn updates(&mut self, nodes: &mut Nodes) {
        let count = self.layers.len();
        let order: Vec<usize> = match (self.barrier, self.ends_with) {
            (true, _) => (0..count).collect(),
            (false, Some(last)) if self.iterations + 1 == last => (0..count).rev().collect(),
            _ => return,
        };
        for i in order {
            self.gradient_done[i] = update(nodes, i, &self.layers[i], self.gradient_done[i]);
        }
    }

    /// Appends back-propagation behind `previous`; leaves in `gradient_done` what the next iteration
    /// waits for.
    fn backward(&mut self, nodes: &mut Nodes, mut previous: Option<NodeIndex>) {
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let weight_grad = nodes.compute(i, Pass::WeightGrad, &layer.weight_grad, previous);
            if self.starts[i] == i {
                let bytes = if self.overlap { self.bucket(i) } else { Bytes::ZERO };
                let reduced = (bytes > Bytes::ZERO)
                    .then(|| nodes.collective(i, Pass::WeightGrad, (Kind::AllReduce, bytes), weight_grad));
                let bucket = self.layers.iter().zip(&self.starts).enumerate().skip(i);
                for (member, (layer, _)) in bucket.take_while(|(_, (_, start))| **start == i) {
                    self.gradient_done[member] = reduced.filter(|_| layer.gradient > Bytes::ZERO);
                }
            }
            previous = Some(weight_grad);
            if i > 0 {
                previous = Some(nodes.compute(i, Pass::InputGrad, &layer.input_grad, previous));
            }
        }
        if self.gradients == Bytes::ZERO || (self.overlap && !self.barrier) {
            return;
        }
        let mut reduced: Vec<NodeIndex> = self.gradient_done.iter().copied().flatten().collect();
        reduced.dedup(); // layers of a bucket, side by side
        if let (false, Some(last)) = (self.overlap, previous) {
            reduced = vec![nodes.collective(0, Pass::WeightGrad, (Kind::AllReduce, self.gradients), last)];
        }
        let barrier = nodes.compute(0, Pass::Update, &Cost::NOTHING, reduced);
        self.gradient_done.fill(Some(barrier));
    }
}

/// Appends the update of layer `i` behind `gradient`, if it costs anything, and returns the node that its next forward waits
/// for.
pub(crate) fn update(nodes: &mut Nodes, i: usize, layer: &Layer, gradient: Option<NodeIndex>) -> Option<NodeIndex> {
    if layer.update.is_nothing() {
        return gradient;
    }
    Some(nodes.compute(i, Pass::Update, &layer.update, gradient))
}

impl GraphSource for DataParallel {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// # Panics
    /// When iterations are not asked for one after the other from zero, or have more nodes in all
    /// than [`NodeIndex`] numbers.
    fn iteration(&mut self, _: ClassId, iteration: u32) -> Vec<Node> {
        assert_eq!(iteration, self.iterations, "iterations are produced in order");
        let mut nodes = Nodes::new(self.produced);
        let last_forward = self.forward(&mut nodes);
        self.backward(&mut nodes, last_forward);
        self.updates(&mut nodes);
        self.produced = nodes.next();
        self.iterations += 1;
        nodes.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Work;
    use crate::layer::Demand;
    use Pass::{Forward, InputGrad, Update, WeightGrad};
    use proptest::prelude::*;

    fn layer(name: &str, gradient: u64, update: Cost) -> Layer {
        let cost = |flops| Cost::Kernels(vec![Demand::new(flops, 1)]);
        Layer {
            name: name.into(),
            params: gradient / 2,
            forward: cost(1),
            input_grad: cost(2),
            weight_grad: cost(3),
            update,
            gradient: Bytes(gradient),
        }
    }

    fn toy(update: &Cost) -> Vec<Layer> {
        [("a", 10), ("b", 20), ("c", 30)].iter().map(|(n, g)| layer(n, *g, update.clone())).collect()
    }

    /// Layer, pass, bytes of a collective (0 for compute), dependencies.
    fn brief(nodes: &[Node]) -> Vec<(u32, Pass, u64, Vec<u32>)> {
        let size = |work: &Work| match work {
            Work::Compute(_) => 0,
            Work::Collective { kind: Kind::AllReduce, size, .. } => size.0,
            other => panic!("{other:?} in data parallelism"),
        };
        nodes.iter().map(|n| (n.layer, n.pass, size(&n.work), n.after.iter().map(|d| d.0).collect())).collect()
    }

    #[test]
    fn overlapped_iterations_of_three_layers() {
        let mut training = DataParallel::new(toy(&Cost::NOTHING), true);
        let expected = vec![
            (0, Forward, 0, vec![]),
            (1, Forward, 0, vec![0]),
            (2, Forward, 0, vec![1]),
            (2, WeightGrad, 0, vec![2]),
            (2, WeightGrad, 30, vec![3]),
            (2, InputGrad, 0, vec![3]),
            (1, WeightGrad, 0, vec![5]),
            (1, WeightGrad, 20, vec![6]),
            (1, InputGrad, 0, vec![6]),
            (0, WeightGrad, 0, vec![8]),
            (0, WeightGrad, 10, vec![9]),
        ];
        assert_eq!(brief(&training.iteration(ClassId(0), 0)), expected);
        let second = brief(&training.iteration(ClassId(0), 1));
        let forward = [(0, Forward, 0, vec![10]), (1, Forward, 0, vec![7, 11]), (2, Forward, 0, vec![4, 12])];
        assert_eq!(second[..3], forward);
        assert_eq!(second[3], (2, WeightGrad, 0, vec![13]));
        assert_eq!(second[4], (2, WeightGrad, 30, vec![14]));
        // The third waits for the second, not for the first.
        assert_eq!(training.iteration(ClassId(0), 2)[0].after, vec![NodeIndex(21)]);
    }

    #[test]
    fn buckets_of_layers_that_follow_one_another() {
        let buckets = |first, others| Buckets { first: Bytes(first), others: Bytes(others) };
        // Layers of 10, 20 and 30 bytes.
        for (asked, starts, sizes) in [
            (buckets(1, 1), vec![0, 1, 2], vec![10, 20, 30]),
            (buckets(10, 20), vec![0, 1, 2], vec![10, 20, 30]),
            (buckets(1, 21), vec![0, 1, 1], vec![10, 50]),
            (buckets(11, 1), vec![0, 0, 2], vec![30, 30]),
            (buckets(31, 31), vec![0, 0, 0], vec![60]),
            (buckets(u64::MAX, 1), vec![0, 0, 0], vec![60]),
        ] {
            let training = DataParallel::new(toy(&Cost::NOTHING), true).in_buckets(asked);
            assert_eq!(training.starts, starts, "{asked:?}");
            assert_eq!(training.collectives(), sizes.into_iter().map(Bytes).collect::<Vec<_>>(), "{asked:?}");
        }
        let mut training = DataParallel::new(toy(&Cost::NOTHING), true).in_buckets(buckets(1, 31));
        let first = brief(&training.iteration(ClassId(0), 0));
        let backward = [
            (2, WeightGrad, 0, vec![2]),
            (2, InputGrad, 0, vec![3]),
            (1, WeightGrad, 0, vec![4]),
            (1, WeightGrad, 50, vec![5]),
            (1, InputGrad, 0, vec![5]),
            (0, WeightGrad, 0, vec![7]),
            (0, WeightGrad, 10, vec![8]),
        ];
        assert_eq!(first[3..], backward);
        // Both layers of the bucket wait for its all-reduce.
        let second = brief(&training.iteration(ClassId(0), 1));
        let forward = [(0, Forward, 0, vec![9]), (1, Forward, 0, vec![6, 10]), (2, Forward, 0, vec![6, 11])];
        assert_eq!(second[..3], forward);
    }

    #[test]
    fn without_overlap_there_is_one_bucket_for_everything() {
        let small = Buckets { first: Bytes(1), others: Bytes(1) };
        let plain = DataParallel::new(toy(&Cost::NOTHING), false);
        let mut training = plain.clone().in_buckets(small);
        assert_eq!(training.collectives(), [Bytes(60)]);
        assert_eq!(training.iteration(ClassId(0), 0), plain.clone().iteration(ClassId(0), 0));
    }

    #[test]
    fn a_barrier_ends_every_iteration_when_all_gradients_are_reduced() {
        let two = Buckets { first: Bytes(1), others: Bytes(31) };
        let mut training = DataParallel::new(toy(&Cost::NOTHING), true).in_buckets(two).with_barrier();
        let first = brief(&training.iteration(ClassId(0), 0));
        // The all-reduces of the first layer and of the two others, the earlier one last in the list of layers.
        assert_eq!(first.last(), Some(&(0, Update, 0, vec![9, 6])));
        let second = brief(&training.iteration(ClassId(0), 1));
        let forward = [(0, Forward, 0, vec![10]), (1, Forward, 0, vec![10, 11]), (2, Forward, 0, vec![10, 12])];
        assert_eq!(second[..3], forward);
        let layers = vec![layer("a", 0, Cost::NOTHING), layer("b", 5, Cost::NOTHING)];
        let mut training = DataParallel::new(layers, true).with_barrier();
        assert_eq!(brief(&training.iteration(ClassId(0), 0)).last(), Some(&(0, Update, 0, vec![3])));
        let nothing = vec![layer("a", 0, Cost::NOTHING)];
        assert_eq!(DataParallel::new(nothing, true).with_barrier().iteration(ClassId(0), 0).len(), 2);
    }

    #[test]
    fn a_layer_without_gradients_waits_for_no_bucket() {
        let layers = vec![layer("a", 0, Cost::NOTHING), layer("b", 5, Cost::NOTHING), layer("c", 0, Cost::NOTHING)];
        let everything = Buckets { first: Bytes(100), others: Bytes(100) };
        let mut training = DataParallel::new(layers, true).in_buckets(everything);
        let first = brief(&training.iteration(ClassId(0), 0));
        assert_eq!(first.last(), Some(&(0, WeightGrad, 5, vec![7])));
        let second = brief(&training.iteration(ClassId(0), 1));
        assert_eq!(second[0].3, Vec::<u32>::new());
        assert_eq!(second[1].3, vec![8, 9]);
        assert_eq!(second[2].3, vec![10]);
    }

    #[test]
    fn an_update_that_costs_something_stands_between_all_reduce_and_forward() {
        let update = Cost::Kernels(vec![Demand::new(7, 7)]);
        let mut training = DataParallel::new(toy(&update), true);
        assert!(training.iteration(ClassId(0), 0).iter().all(|n| n.pass != Update));
        let second = training.iteration(ClassId(0), 1);
        let expected = [
            (0, Update, 0, vec![10]),
            (0, Forward, 0, vec![11]),
            (1, Update, 0, vec![7]),
            (1, Forward, 0, vec![13, 12]),
            (2, Update, 0, vec![4]),
            (2, Forward, 0, vec![15, 14]),
        ];
        assert_eq!(brief(&second[..6]), expected);
        assert_eq!(second[0].work, Work::Compute(update));
    }

    #[test]
    fn a_run_that_waits_for_everything_has_the_updates_of_its_last_iteration() {
        let update = Cost::Kernels(vec![Demand::new(7, 7)]);
        let stopping = DataParallel::new(toy(&update), true);
        let mut ending = stopping.clone().ending_with(2);
        let mut stopping = stopping;
        assert_eq!(ending.iteration(ClassId(0), 0), stopping.iteration(ClassId(0), 0));
        let (all, without) = (ending.iteration(ClassId(0), 1), stopping.iteration(ClassId(0), 1));
        assert_eq!(all[..14], without);
        // The all-reduces of the second iteration are nodes 18, 21 and 24.
        let updates = [(2, Update, 0, vec![18]), (1, Update, 0, vec![21]), (0, Update, 0, vec![24])];
        assert_eq!(brief(&all[14..]), updates);
        let costless = DataParallel::new(toy(&Cost::NOTHING), true);
        assert_eq!(costless.clone().ending_with(1).iteration(ClassId(0), 0), costless.clone().iteration(ClassId(0), 0));
    }

    #[test]
    fn updates_follow_a_barrier() {
        let update = Cost::Kernels(vec![Demand::new(7, 7)]);
        let mut training = DataParallel::new(toy(&update), true).with_barrier();
        for iteration in 0..2 {
            let nodes = brief(&training.iteration(ClassId(0), iteration));
            let barrier = 15 * iteration + 11;
            let last = [(0, Update, 0, vec![barrier]), (1, Update, 0, vec![barrier]), (2, Update, 0, vec![barrier])];
            assert_eq!(nodes[12..], last);
            assert_eq!(nodes.iter().filter(|node| node.1 == Update).count(), 4); // the barrier is one
        }
        assert_eq!(brief(&training.iteration(ClassId(0), 2))[0], (0, Forward, 0, vec![27]));
        let both = DataParallel::new(toy(&update), true).with_barrier().ending_with(1).iteration(ClassId(0), 0);
        assert_eq!(both, DataParallel::new(toy(&update), true).with_barrier().iteration(ClassId(0), 0));
    }

    #[test]
    fn without_overlap_one_collective_ends_every_iteration() {
        let mut training = DataParallel::new(toy(&Cost::NOTHING), false);
        for iteration in 0..3 {
            let first = iteration * 10;
            let nodes = brief(&training.iteration(ClassId(0), iteration));
            assert_eq!(nodes.len(), 10);
            let waits = if iteration == 0 { vec![] } else { vec![first - 1] };
            assert_eq!(nodes[0], (0, Forward, 0, waits));
            assert_eq!(nodes.iter().filter(|n| n.2 > 0).count(), 1);
            assert_eq!(nodes[7], (0, WeightGrad, 0, vec![first + 6]));
            assert_eq!(nodes[8], (0, WeightGrad, 60, vec![first + 7]));
            assert_eq!(nodes[9], (0, Update, 0, vec![first + 8]));
        }
        let barrier = training.iteration(ClassId(0), 3).pop().unwrap();
        assert_eq!(barrier.work, Work::Compute(Cost::NOTHING));
    }

    #[test]
    fn without_gradients_nothing_is_communicated() {
        for overlap in [true, false] {
            let layers = vec![layer("a", 0, Cost::NOTHING), layer("b", 0, Cost::NOTHING)];
            let mut training = DataParallel::new(layers, overlap);
            for iteration in 0..2 {
                let nodes = training.iteration(ClassId(0), iteration);
                assert_eq!(nodes.len(), 5);
                assert!(nodes.iter().all(|n| matches!(n.work, Work::Compute(_)) && n.pass != Update));
                assert!(nodes[0].after.is_empty());
            }
        }
        assert!(DataParallel::new(Vec::new(), false).iteration(ClassId(0), 0).is_empty());
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn iterations_cannot_be_skipped() {
        DataParallel::new(toy(&Cost::NOTHING), true).iteration(ClassId(0), 1);
    }

    proptest! {
        #[test]
        fn dependencies_are_earlier_nodes_of_this_and_the_last_iteration(
            gradients in proptest::collection::vec((0u64..3, any::<bool>()), 0..8),
            overlap in any::<bool>(),
            first in 0u64..6,
            others in 0u64..6,
            barrier in any::<bool>(),
        ) {
            let updates = [Cost::NOTHING, Cost::Kernels(vec![Demand::new(1, 1)])];
            let layers: Vec<_> = gradients
                .iter()
                .map(|&(g, update)| layer("x", g, updates[usize::from(update)].clone()))
                .collect();
            let total: u64 = gradients.iter().map(|g| g.0).sum();
            let buckets = Buckets { first: Bytes(first), others: Bytes(others) };
            let mut training = DataParallel::new(layers, overlap).in_buckets(buckets);
            if barrier {
                training = training.with_barrier();
            }
            prop_assert_eq!(training.collectives().iter().map(|b| b.0).sum::<u64>(), total);
            let mut starts = vec![0u32];
            for iteration in 0..4 {
                let nodes = training.iteration(ClassId(0), iteration);
                let first = *starts.last().unwrap();
                let oldest = starts[starts.len().saturating_sub(2)];
                for (index, node) in (first..).zip(&nodes) {
                    prop_assert!(node.after.iter().all(|&d| d.0 < index && d.0 >= oldest));
                }
                let sent: u64 = brief(&nodes).iter().map(|n| n.2).sum();
                prop_assert_eq!(sent, total);
                starts.push(first + nodes.len() as u32);
            }
        }
    }
}
