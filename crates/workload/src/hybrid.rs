//! Hybrid parallelism of recommendation models: every NPU has a copy of the MLPs and a part of the tables.
//!
//! The samples of an NPU need vectors of all tables, so an all-to-all brings them after the lookup, and another one
//! takes their gradients back (HOTI 2020, section III-A and Fig. 3; ACE paper, section V). One iteration,
//! compute nodes in this order:
//!
//! ```text
//!   lookup ──▶ all_to_all                        meanwhile:
//!   forward of the bottom MLP
//!   forward of the interaction                   waits for the all_to_all
//!   forward, then back-propagation of the top MLP, each layer's weight_grad ──▶ all_reduce
//!   input_grad of the interaction ──▶ all_to_all meanwhile:
//!   back-propagation of the bottom MLP, each layer's weight_grad ──▶ all_reduce
//!   application of gradients to the tables       waits for the second all_to_all
//! ```
//!
//! The next iteration begins with its lookup, which finds the tables up to date; a layer of the MLPs waits for
//! its all-reduce as in data parallelism ([`crate::data_parallel`]). An iteration contains the application of its
//! gradients to the tables, the last one too. The weights of the MLPs are updated in the next iteration; after the last
//! one if the run waits for all that is in flight ([`Hybrid::ending_with`]).
//!
//! Without overlap (ACE paper, Table VI, BaselineNoOverlap) nothing is computed while anything is communicated: the
//! bottom MLP waits for the forward all-to-all, and after back-propagation the gradients of all MLP layers are
//! all-reduced together beside the second all-to-all. The joint all-reduce bears the bottom MLP's first layer.
//!
//! # Tables in the background
//! Successive iterations rarely share rows, so lookups need not wait for updates (ACE paper, section VI-D). On the
//! background stream, iteration `i` looks up what iteration `i + 1` needs, and issues its all-to-all at once; then it
//! applies the gradients of iteration `i - 1`, as soon as they have arrived:
//!
//! ```text
//!   background:   lookup(i + 1) ──▶ all_to_all    apply(i - 1)
//! ```
//!
//! The first lookup has nothing to hide behind and runs on the main stream. The gradients of the last iteration
//! are not applied within the run, as little as the weights of the MLPs are, unless it waits for all that is in flight; its
//! lookup for an iteration that does not come is.

use crate::data_parallel::update;
use crate::graph::{ClassId, GraphSource, Node, NodeIndex, Nodes, Pass, Stream};
use crate::layer::Layer;
use std::ops::Range;
use syncline_collective::Kind;
use syncline_core::Bytes;

/// A recommendation model, by what happens where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommender {
    /// An NPU's part of the tables: lookup forward, application of gradients as weight gradient.
    pub embedding: Layer,
    /// The all-to-all of looked-up vectors, and of their gradients: bytes that an NPU puts in, and gets.
    pub exchange: Bytes,
    /// The MLP of dense features.
    pub bottom: Vec<Layer>,
    /// Where features meet.
    pub interaction: Layer,
    /// The MLP behind.
    pub top: Vec<Layer>,
}

impl Recommender {
    /// All layers: embedding, bottom MLP, interaction, top MLP.
    pub fn layers(&self) -> impl Iterator<Item = &Layer> {
        [&self.embedding].into_iter().chain(&self.bottom).chain([&self.interaction]).chain(&self.top)
    }
}

/// How tables and communication fit into the training loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Nothing is computed while anything is communicated.
    Blocking,
    /// Communication overlaps with compute; tables are worked on in line.
    Overlapped,
    /// The same, with tables in the background.
    BackgroundTables,
}

/// Hybrid-parallel training of a recommendation model.
#[derive(Clone, Debug)]
pub struct Hybrid {
    layers: Vec<Layer>,
    bottom: Range<usize>,
    top: Range<usize>,
    exchange: Bytes,
    order: Loop,
    /// The number of iterations, if updates follow the last one.
    ends_with: Option<u32>,
    iterations: u32,
    produced: NodeIndex,
    /// Per layer: the node of the iteration before that completes its gradient.
    gradient_done: Vec<Option<NodeIndex>>,
    /// The last compute node of the iteration before.
    last: Option<NodeIndex>,
    /// With background tables: the all-to-all that brings the next iteration its vectors.
    fetched: Option<NodeIndex>,
    /// With background tables: the all-to-all that brings the last iteration's gradients to the tables.
    returned: Option<NodeIndex>,
}

/// The place of the tables among the layers.
const EMBEDDING: usize = 0;

impl Hybrid {
    /// Training of a model.
    ///
    /// # Panics
    /// When the gradients add up to more bytes than 64 bits count; models refuse this.
    pub fn new(model: Recommender, order: Loop) -> Hybrid {
        let layers: Vec<Layer> = model.layers().cloned().collect();
        let sum = layers.iter().try_fold(0, |sum: u64, l| sum.checked_add(l.gradient.0));
        assert!(sum.is_some(), "gradients of 64 bits in all");
        let bottom = 1..1 + model.bottom.len();
        let top = bottom.end + 1..layers.len();
        Hybrid {
            gradient_done: vec![None; layers.len()],
            layers,
            bottom,
            top,
            exchange: model.exchange,
            order,
            ends_with: None,
            iterations: 0,
            produced: NodeIndex(0),
            last: None,
            fetched: None,
            returned: None,
        }
    }

    /// The same with the updates of the last of so many iterations, which are otherwise left to a further one.
    #[must_use]
    pub fn ending_with(self, iterations: u32) -> Hybrid {
        Hybrid { ends_with: Some(iterations), ..self }
    }

    /// The collectives of an iteration in the steady state.
    pub fn collectives(&self) -> Vec<(Kind, Bytes)> {
        let gradients = self.layers.iter().map(|l| l.gradient).filter(|g| *g > Bytes::ZERO);
        let mut all = vec![(Kind::AllToAll, self.exchange); 2];
        match self.order {
            Loop::Blocking => all.push((Kind::AllReduce, self.gradients())),
            Loop::Overlapped | Loop::BackgroundTables => all.extend(gradients.map(|g| (Kind::AllReduce, g))),
        }
        all
    }

    /// Bytes that one iteration all-reduces.
    fn gradients(&self) -> Bytes {
        Bytes(self.layers.iter().map(|l| l.gradient.0).sum())
    }

    fn interaction(&self) -> usize {
        self.bottom.end
    }

    /// Appends a lookup and its all-to-all, and returns the latter.
    fn look_up(&self, nodes: &mut Nodes, stream: Stream) -> NodeIndex {
        let lookup = nodes.compute_on(stream, EMBEDDING, Pass::Forward, &self.layers[EMBEDDING].forward, self.last);
        nodes.collective(EMBEDDING, Pass::Forward, (Kind::AllToAll, self.exchange), lookup)
    }

    /// Appends the application of gradients to the tables, once `arrived` is done.
    fn apply(&self, nodes: &mut Nodes, stream: Stream, arrived: impl IntoIterator<Item = NodeIndex>) -> NodeIndex {
        nodes.compute_on(stream, EMBEDDING, Pass::WeightGrad, &self.layers[EMBEDDING].weight_grad, arrived)
    }

    /// Appends what the tables do beside this iteration, and returns the all-to-all that it waits for.
    fn tables(&mut self, nodes: &mut Nodes) -> NodeIndex {
        if self.order != Loop::BackgroundTables {
            return self.look_up(nodes, Stream::MAIN);
        }
        let fetched = match self.fetched {
            Some(fetched) => fetched,
            None => self.look_up(nodes, Stream::MAIN),
        };
        self.fetched = Some(self.look_up(nodes, Stream::BACKGROUND));
        if let Some(returned) = self.returned {
            self.apply(nodes, Stream::BACKGROUND, [returned]);
        }
        fetched
    }

    /// Appends the forward pass of the `range` of layers.
    fn forward(&self, nodes: &mut Nodes, range: Range<usize>, mut previous: Option<NodeIndex>) -> Option<NodeIndex> {
        for i in range {
            let layer = &self.layers[i];
            let mut weights = self.gradient_done[i];
            if self.iterations > 0 {
                weights = update(nodes, i, layer, weights);
            }
            previous = Some(nodes.compute(i, Pass::Forward, &layer.forward, weights.into_iter().chain(previous)));
        }
        previous
    }

    /// Appends what the last iteration leaves to none: updates of the MLPs, in the order in which back-propagation makes
    /// gradients, and the application of gradients that tables in the background are behind with.
    fn finish(&mut self, nodes: &mut Nodes) {
        for i in self.top.clone().rev().chain(self.bottom.clone().rev()) {
            self.gradient_done[i] = update(nodes, i, &self.layers[i], self.gradient_done[i]);
        }
        if let Some(returned) = self.returned {
            self.apply(nodes, Stream::BACKGROUND, [returned]);
        }
    }

    /// Appends the back-propagation of the `range` of layers; the input of layer `first` needs no gradient.
    fn backward(
        &mut self,
        nodes: &mut Nodes,
        range: Range<usize>,
        first: Option<usize>,
        mut previous: NodeIndex,
    ) -> NodeIndex {
        for i in range.rev() {
            let layer = &self.layers[i];
            previous = nodes.compute(i, Pass::WeightGrad, &layer.weight_grad, [previous]);
            if self.order != Loop::Blocking && layer.gradient > Bytes::ZERO {
                let reduce = (Kind::AllReduce, layer.gradient);
                self.gradient_done[i] = Some(nodes.collective(i, Pass::WeightGrad, reduce, previous));
            }
            if first != Some(i) {
                previous = nodes.compute(i, Pass::InputGrad, &layer.input_grad, [previous]);
            }
        }
        previous
    }
}

impl GraphSource for Hybrid {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// # Panics
    /// When iterations are not asked for one after the other from zero, or have more nodes in all
    /// than [`NodeIndex`] numbers.
    fn iteration(&mut self, _: ClassId, iteration: u32) -> Vec<Node> {
        assert_eq!(iteration, self.iterations, "iterations are produced in order");
        let (bottom, top, middle) = (self.bottom.clone(), self.top.clone(), self.interaction());
        let mut nodes = Nodes::new(self.produced);
        let fetched = self.tables(&mut nodes);
        let blocked = (self.order == Loop::Blocking).then_some(fetched);
        let features = self.forward(&mut nodes, bottom.clone(), blocked);
        let met = features.into_iter().chain([fetched]);
        let met = nodes.compute(middle, Pass::Forward, &self.layers[middle].forward, met);
        let output = self.forward(&mut nodes, top.clone(), Some(met)).unwrap_or(met);
        let apart = self.backward(&mut nodes, top, None, output);
        let apart = nodes.compute(middle, Pass::InputGrad, &self.layers[middle].input_grad, [apart]);
        let give_back = (EMBEDDING, Pass::WeightGrad, (Kind::AllToAll, self.exchange));
        let last = match self.order {
            Loop::Blocking => {
                let last = self.backward(&mut nodes, bottom.clone(), Some(bottom.start), apart);
                let returned = nodes.collective(give_back.0, give_back.1, give_back.2, last);
                let reduce = (Kind::AllReduce, self.gradients());
                let reduced = nodes.collective(bottom.start, Pass::WeightGrad, reduce, last);
                let applied = self.apply(&mut nodes, Stream::MAIN, [returned, reduced]);
                self.gradient_done.fill(Some(applied));
                applied
            }
            Loop::Overlapped => {
                let returned = nodes.collective(give_back.0, give_back.1, give_back.2, apart);
                self.backward(&mut nodes, bottom.clone(), Some(bottom.start), apart);
                self.apply(&mut nodes, Stream::MAIN, [returned])
            }
            Loop::BackgroundTables => {
                self.returned = Some(nodes.collective(give_back.0, give_back.1, give_back.2, apart));
                self.backward(&mut nodes, bottom.clone(), Some(bottom.start), apart)
            }
        };
        if self.ends_with == Some(iteration + 1) {
            self.finish(&mut nodes);
        }
        self.last = Some(last);
        self.produced = nodes.next();
        self.iterations += 1;
        nodes.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Work;
    use crate::layer::{Cost, Demand};
    use Pass::{Forward, InputGrad, Update, WeightGrad};

    fn layer(name: &str, gradient: u64, update: &Cost) -> Layer {
        let cost = |flops| Cost::Kernels(vec![Demand::new(flops, 1)]);
        Layer {
            name: name.into(),
            params: gradient / 2,
            forward: cost(1),
            input_grad: cost(2),
            weight_grad: cost(3),
            update: update.clone(),
            gradient: Bytes(gradient),
        }
    }

    /// Tables (layer 0), bottom layers 1 and 2, interaction 3, top layer 4.
    fn toy(update: &Cost) -> Recommender {
        Recommender {
            embedding: layer("tables", 0, &Cost::NOTHING),
            exchange: Bytes(7),
            bottom: vec![layer("b0", 10, update), layer("b1", 20, update)],
            interaction: layer("meet", 0, &Cost::NOTHING),
            top: vec![layer("t0", 30, update)],
        }
    }

    type Brief = (u32, Pass, Stream, Option<(Kind, u64)>, Vec<u32>);

    fn brief(nodes: &[Node]) -> Vec<Brief> {
        let collective = |work: &Work| match work {
            Work::Collective { kind, size, .. } => Some((*kind, size.0)),
            _ => None,
        };
        nodes
            .iter()
            .map(|n| (n.layer, n.pass, n.stream, collective(&n.work), n.after.iter().map(|d| d.0).collect()))
            .collect()
    }

    fn main(layer: u32, pass: Pass, after: &[u32]) -> Brief {
        (layer, pass, Stream::MAIN, None, after.to_vec())
    }

    fn beside(pass: Pass, after: &[u32]) -> Brief {
        (0, pass, Stream::BACKGROUND, None, after.to_vec())
    }

    fn reduce(layer: u32, bytes: u64, after: u32) -> Brief {
        (layer, WeightGrad, Stream::MAIN, Some((Kind::AllReduce, bytes)), vec![after])
    }

    fn exchange(pass: Pass, after: u32) -> Brief {
        (0, pass, Stream::MAIN, Some((Kind::AllToAll, 7)), vec![after])
    }

    #[test]
    fn a_run_that_waits_for_everything_has_the_updates_of_its_last_iteration() {
        let update = Cost::Kernels(vec![Demand::new(7, 7)]);
        for (order, beside) in [(Loop::Blocking, 0), (Loop::Overlapped, 0), (Loop::BackgroundTables, 1)] {
            let mut stopping = Hybrid::new(toy(&update), order);
            let mut ending = stopping.clone().ending_with(2);
            assert_eq!(ending.iteration(ClassId(0), 0), stopping.iteration(ClassId(0), 0));
            let (all, without) = (ending.iteration(ClassId(0), 1), stopping.iteration(ClassId(0), 1));
            let (same, last) = all.split_at(without.len());
            assert_eq!(same, without);
            let (updates, applied) = last.split_at(3);
            assert_eq!(
                updates.iter().map(|node| (node.layer, node.pass)).collect::<Vec<_>>(),
                [4, 2, 1].map(|l| (l, Update))
            );
            assert_eq!(
                applied.iter().map(|node| (node.layer, node.stream)).collect::<Vec<_>>(),
                vec![(0, Stream::BACKGROUND); beside]
            );
        }
    }

    #[test]
    fn overlapped_iterations() {
        let mut training = Hybrid::new(toy(&Cost::NOTHING), Loop::Overlapped);
        let expected = vec![
            main(0, Forward, &[]),
            exchange(Forward, 0),
            main(1, Forward, &[]), // meanwhile
            main(2, Forward, &[2]),
            main(3, Forward, &[3, 1]), // the vectors have come
            main(4, Forward, &[4]),
            main(4, WeightGrad, &[5]),
            reduce(4, 30, 6),
            main(4, InputGrad, &[6]),
            main(3, InputGrad, &[8]),
            exchange(WeightGrad, 9),
            main(2, WeightGrad, &[9]), // meanwhile
            reduce(2, 20, 11),
            main(2, InputGrad, &[11]),
            main(1, WeightGrad, &[13]),
            reduce(1, 10, 14),
            main(0, WeightGrad, &[10]), // the gradients have come
        ];
        assert_eq!(brief(&training.iteration(ClassId(0), 0)), expected);
        let second = brief(&training.iteration(ClassId(0), 1));
        assert_eq!(second[0], main(0, Forward, &[16]));
        assert_eq!(second[2], main(1, Forward, &[15]));
        assert_eq!(second[3], main(2, Forward, &[12, 19]));
        assert_eq!(second[5], main(4, Forward, &[7, 21]));
        assert_eq!(second.len(), expected.len());
    }

    #[test]
    fn blocking_iterations_compute_nothing_while_they_communicate() {
        let mut training = Hybrid::new(toy(&Cost::NOTHING), Loop::Blocking);
        let expected = vec![
            main(0, Forward, &[]),
            exchange(Forward, 0),
            main(1, Forward, &[1]), // a blocking wait
            main(2, Forward, &[2]),
            main(3, Forward, &[3, 1]),
            main(4, Forward, &[4]),
            main(4, WeightGrad, &[5]),
            main(4, InputGrad, &[6]),
            main(3, InputGrad, &[7]),
            main(2, WeightGrad, &[8]),
            main(2, InputGrad, &[9]),
            main(1, WeightGrad, &[10]),
            exchange(WeightGrad, 11),
            reduce(1, 60, 11),
            main(0, WeightGrad, &[12, 13]),
        ];
        assert_eq!(brief(&training.iteration(ClassId(0), 0)), expected);
        let second = brief(&training.iteration(ClassId(0), 1));
        assert_eq!(second[0], main(0, Forward, &[14]));
        assert_eq!(second[2], main(1, Forward, &[14, 16]));
    }

    #[test]
    fn background_tables_run_one_iteration_ahead_and_one_behind() {
        let mut training = Hybrid::new(toy(&Cost::NOTHING), Loop::BackgroundTables);
        let first = brief(&training.iteration(ClassId(0), 0));
        let expected = [
            main(0, Forward, &[]),
            exchange(Forward, 0),
            beside(Forward, &[]),
            exchange(Forward, 2),
            main(1, Forward, &[]),
            main(2, Forward, &[4]),
            main(3, Forward, &[5, 1]),
        ];
        assert_eq!(first[..7], expected);
        assert_eq!(first[12], exchange(WeightGrad, 11));
        assert_eq!(first.len(), 18);
        assert_eq!(first[17], reduce(1, 10, 16)); // nothing is applied here
        let second = brief(&training.iteration(ClassId(0), 1));
        assert_eq!(second[..3], [beside(Forward, &[16]), exchange(Forward, 18), beside(WeightGrad, &[12])]);
        assert_eq!(second[3], main(1, Forward, &[17]));
        assert_eq!(second[5], main(3, Forward, &[22, 3])); // what the first iteration fetched
        let third = brief(&training.iteration(ClassId(0), 2));
        assert!(third.iter().any(|n| *n == main(3, Forward, &[third_features(&third), 19])), "{third:?}");
    }

    /// The number of the third iteration's last bottom layer.
    fn third_features(third: &[Brief]) -> u32 {
        let place = third.iter().position(|n| (n.0, n.1) == (3, Forward)).expect("an interaction");
        third[place].4[0]
    }

    #[test]
    fn updates_of_the_mlps_stand_before_their_layers() {
        let update = Cost::Kernels(vec![Demand::new(7, 7)]);
        let mut training = Hybrid::new(toy(&update), Loop::Overlapped);
        assert!(training.iteration(ClassId(0), 0).iter().all(|n| n.pass != Update));
        let second = brief(&training.iteration(ClassId(0), 1));
        assert_eq!(second.iter().filter(|n| n.1 == Update).count(), 3);
        assert_eq!(second[2..4], [main(1, Update, &[15]), main(1, Forward, &[19])]);
    }

    #[test]
    fn announced_collectives_are_those_of_an_iteration() {
        for order in [Loop::Blocking, Loop::Overlapped, Loop::BackgroundTables] {
            let mut training = Hybrid::new(toy(&Cost::NOTHING), order);
            let mut announced: Vec<_> = training.collectives().into_iter().map(|(kind, size)| (kind, size.0)).collect();
            training.iteration(ClassId(0), 0);
            let mut found: Vec<_> = brief(&training.iteration(ClassId(0), 1)).into_iter().filter_map(|n| n.3).collect();
            announced.sort();
            found.sort();
            assert_eq!(announced, found, "{order:?}");
        }
    }

    #[test]
    fn dependencies_are_nodes_of_this_and_the_last_iteration() {
        for order in [Loop::Blocking, Loop::Overlapped, Loop::BackgroundTables] {
            let mut training = Hybrid::new(toy(&Cost::NOTHING), order);
            let mut starts = vec![0u32];
            for iteration in 0..4 {
                let nodes = training.iteration(ClassId(0), iteration);
                let first = starts[starts.len() - 1];
                let oldest = starts[starts.len().saturating_sub(2)];
                for (index, node) in (first..).zip(&nodes) {
                    assert!(node.after.iter().all(|&d| d.0 < index && d.0 >= oldest), "{order:?}: {node:?}");
                }
                starts.push(first + nodes.len() as u32);
            }
        }
    }
}
