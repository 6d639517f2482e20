//! The training loops of ASTRA-sim 1.0: text workloads of every parallelism ([`crate::astra_text`]) as graphs.
//!
//! All NPUs do the same, on a main stream in order. What a pass communicates begins when it has been computed. The columns
//! of the file say what is communicated; nothing is left out, and nothing is added.
//!
//! # Who communicates
//! | family | members of a communicator |
//! |---|---|
//! | [`MODEL_GROUPS`] | NPUs that share a copy of the model |
//! | [`DATA_GROUPS`] | NPUs with the same part of it |
//! | [`ALL_NPUS`] | all NPUs |
//!
//! | parallelism | forward, input gradient | weight gradient |
//! |---|---|---|
//! | `DATA`, `MICRO`, `MODEL`, `HYBRID_DLRM*` | all NPUs | all NPUs |
//! | `HYBRID_DATA_MODEL`, `HYBRID_MODEL_DATA`, `HYBRID_TRANSFORMER*` | model groups | data groups |
//! | `HYBRID_CUSTOMIZED` | as the layer's own parallelism | as the layer's own parallelism |
//!
//! A star stands for what follows in the names of variants. Which NPUs form the groups depends on the topology;
//! [`Parallel::placement`] says what the file asks for.
//!
//! # Model and hybrid parallelism
//! `MODEL`, `HYBRID_DATA_MODEL`, `HYBRID_MODEL_DATA`, `HYBRID_TRANSFORMER` and `HYBRID_CUSTOMIZED`, layers 0 to n-1, compute
//! nodes in this order:
//!
//! ```text
//!   for i in 0..n:            update(i)        if it costs anything and there was an iteration before
//!                             forward(i)       ──▶ its collective, waited for by forward(i + 1)
//!   for i in (0..n).rev():    input_grad(i)    ──▶ its collective, waited for by input_grad(i - 1)
//!                             weight_grad(i)   ──▶ its collective, waited for by layer i's next update or forward
//! ```
//!
//! The last layer's forward collective is waited for by its input gradient. So the collective of an input gradient overlaps
//! with the same layer's weight gradient only, and that of a weight gradient with all that follows. The input
//! gradient of layer 0 is computed too, as in ASTRA-sim 1.0; its collective is waited for by the next iteration's first node.
//!
//! # Recomputation
//! `HYBRID_TRANSFORMER_FWD_IN_BCKWD` does the same, with the forward of the segment that a layer initiates before its input
//! gradient. [`Parallelism::HybridTransformerFwdInBckwd`] says which layers these are.
//!
//! ```text
//!                             forward(c)       waits for the collective of input_grad(j + 1)
//!                             ...              each waits for the forward collective of the one before
//!                             forward(j - 1)   ──▶ its collective, waited for by input_grad(j)
//!                             input_grad(j)
//! ```
//!
//! # Data parallelism
//! `DATA` and `MICRO` run as in [`crate::data_parallel`], of which they have the nodes if weight gradients alone communicate:
//!
//! ```text
//!   for i in 0..n:            update(i), forward(i)
//!   for i in (0..n).rev():    weight_grad(i)   ──▶ its collective
//!                             input_grad(i)    not for layer 0, unless it communicates
//! ```
//!
//! A forward or input gradient that communicates is waited for as above. Times of a `MICRO` file do not count.
//!
//! # Recommendation models
//! Of `HYBRID_DLRM`, layer 0 is the tables, then come the bottom MLP up to `last_bottom` and the top MLP:
//!
//! ```text
//!   forward of the tables     ──▶ all-to-all   meanwhile:
//!   forward of the bottom MLP
//!   forward of the top MLP                     its first layer waits for the all-to-all
//!   back-propagation of the top MLP, each layer's weight_grad before its input_grad
//!   after input_grad of its first layer        ──▶ all-to-all   meanwhile:
//!   back-propagation of the bottom MLP, the same
//!   weight_grad of the tables                  waits for the second all-to-all
//! ```
//!
//! The all-to-alls stand in the forward and the input-gradient columns of layer 0; they may be any other collective. The input
//! gradient of layer 0 is not computed: its time is not used. Weight gradients, and forwards or input gradients of the MLPs
//! that communicate, are waited for as above. `HYBRID_DLRM_ENHANCED` differs in the second all-to-all: the next update or
//! forward of the tables waits for it, in place of their weight gradient.
//!
//! # Differences from ASTRA-sim 1.0
//! * There, collectives of some columns are left out: those of weight gradients under `MODEL`, those of the input gradient of
//!   layer 0 except under `HYBRID_TRANSFORMER*`, those of forwards and input gradients under `DATA` and of
//!   the MLPs under `HYBRID_DLRM*`. Here a column that names a collective has one; write `NONE` to leave it out.
//! * There, the tables of `HYBRID_DLRM` wait for the second all-to-all after their weight gradient, although that needs what the
//!   all-to-all brings, and `HYBRID_DLRM_ENHANCED` never waits for it.
//! * Updates are computed on the main stream before a layer's next forward, and after the last iteration if the run waits for
//!   all that is in flight ([`Parallel::ending_with`]). There, their time extends the collective.

use crate::astra_text::{Communication, Imported, ImportedPass, LayerParallelism, Parallelism};
use crate::graph::{ClassId, FamilyId, GraphSource, Node, NodeIndex, Nodes, Order, Pass};
use crate::layer::Layer;
use std::collections::BTreeMap;
use std::ops::Range;
use syncline_collective::Kind;
use syncline_core::Bytes;

/// The groups of NPUs that share a copy of the model.
pub const MODEL_GROUPS: FamilyId = FamilyId(0);
/// The groups of NPUs that have the same part of the model.
pub const DATA_GROUPS: FamilyId = FamilyId(1);
/// All NPUs.
pub const ALL_NPUS: FamilyId = FamilyId(2);

/// Which NPUs form the groups of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// There are no groups: all NPUs communicate together.
    AllNpus,
    /// Model groups are the lines along the first dimension; data groups extend along all other dimensions.
    ModelInner,
    /// Data groups are the lines along the first dimension; model groups extend along all other dimensions.
    ModelOuter,
    /// Model groups are so many consecutive NPUs; a data group has one NPU of each of them, all in the same place.
    ModelGroups(u32),
}

/// Training as a text workload describes it.
#[derive(Clone, Debug)]
pub struct Parallel {
    imported: Imported,
    layers: Vec<Layer>,
    placement: Placement,
    segments: BTreeMap<usize, Range<usize>>,
    /// The number of iterations, if updates follow the last one.
    ends_with: Option<u32>,
    iterations: u32,
    produced: NodeIndex,
    /// Per layer: collectives of the iteration before that its next update or forward waits for.
    pending: Vec<Vec<NodeIndex>>,
}

/// A pass that has been appended.
#[derive(Clone, Copy)]
struct Appended {
    computed: NodeIndex,
    communicated: Option<NodeIndex>,
}

impl Appended {
    /// The node after which its result is where it is needed.
    fn done(self) -> NodeIndex {
        self.communicated.unwrap_or(self.computed)
    }
}

impl Parallel {
    /// Training of a workload.
    ///
    /// # Panics
    /// For a workload that [`crate::astra_text::read`] refuses: one without layers, with a last bottom layer that
    /// no top layer follows, with checkpoints that do not fit the layers, or with a layer without its own parallelism under
    /// `HYBRID_CUSTOMIZED`.
    pub fn new(imported: Imported) -> Parallel {
        let count = imported.layers.len();
        assert!(count > 0, "a workload has layers");
        if let Some(last_bottom) = last_bottom(&imported.parallelism) {
            assert!(last_bottom + 1 < count, "a top layer follows the last bottom layer");
        }
        let segments = imported.parallelism.segments().expect("each initiating layer has a segment of its own");
        let segments: BTreeMap<usize, Range<usize>> =
            segments.into_iter().map(|(j, s)| (j as usize, s.start as usize..s.end as usize)).collect();
        assert!(segments.keys().all(|&j| j < count), "initiating layers are layers");
        Parallel {
            layers: imported.to_layers(),
            placement: placement(&imported),
            segments,
            ends_with: None,
            iterations: 0,
            produced: NodeIndex(0),
            pending: vec![Vec::new(); count],
            imported,
        }
    }

    /// The same with the updates of the last of so many iterations, which are otherwise left to a further one.
    #[must_use]
    pub fn ending_with(self, iterations: u32) -> Parallel {
        Parallel { ends_with: Some(iterations), ..self }
    }

    /// The workload.
    pub fn imported(&self) -> &Imported {
        &self.imported
    }

    /// Which NPUs form the communicators of [`MODEL_GROUPS`] and [`DATA_GROUPS`].
    ///
    /// If a `HYBRID_CUSTOMIZED` file has layers of both `HYBRID_DATA_MODEL` and `HYBRID_MODEL_DATA`, the families have the
    /// places that the former ask for. Those of the latter are the same groups with their parts exchanged, so that layers of
    /// `HYBRID_MODEL_DATA` then use each family in place of the other.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The collectives of an iteration in the steady state, in no particular order. Sizes are bytes of the full vector on
    /// each NPU.
    pub fn demands(&self) -> Vec<(FamilyId, Kind, Bytes)> {
        let passes = [Pass::Forward, Pass::InputGrad, Pass::WeightGrad];
        let once = (0..self.layers.len()).flat_map(|i| passes.map(|pass| (i, pass)));
        let again = self.segments.values().flat_map(|segment| segment.clone().map(|i| (i, Pass::Forward)));
        once.chain(again)
            .filter_map(|(i, pass)| {
                let Communication { kind, size } = self.columns(i, pass).communication?;
                Some((self.family(i, pass), kind, size))
            })
            .collect()
    }

    /// What the file says of a pass of layer `i` that can communicate.
    fn columns(&self, i: usize, pass: Pass) -> ImportedPass {
        let layer = &self.imported.layers[i];
        match pass {
            Pass::Forward => layer.forward,
            Pass::InputGrad => layer.input_grad,
            Pass::WeightGrad => layer.weight_grad,
            Pass::Update => ImportedPass { time: layer.update, communication: None },
        }
    }

    /// Who communicates in a pass of layer `i`.
    fn family(&self, i: usize, pass: Pass) -> FamilyId {
        let everyone = (ALL_NPUS, ALL_NPUS);
        let groups = (MODEL_GROUPS, DATA_GROUPS);
        let exchanged = (DATA_GROUPS, MODEL_GROUPS);
        let (model, data) = match &self.imported.parallelism {
            Parallelism::Data
            | Parallelism::Micro
            | Parallelism::Model
            | Parallelism::HybridDlrm { .. }
            | Parallelism::HybridDlrmEnhanced { .. } => everyone,
            Parallelism::HybridDataModel
            | Parallelism::HybridModelData
            | Parallelism::HybridTransformer { .. }
            | Parallelism::HybridTransformerFwdInBckwd { .. } => groups,
            Parallelism::HybridCustomized => match self.imported.layers[i].parallelism {
                Some(LayerParallelism::HybridModelData) if self.placement == Placement::ModelInner => exchanged,
                Some(LayerParallelism::HybridDataModel | LayerParallelism::HybridModelData) => groups,
                Some(LayerParallelism::Data | LayerParallelism::Model) | None => everyone,
            },
        };
        if pass == Pass::WeightGrad { data } else { model }
    }

    /// Appends what a pass of layer `i` communicates, if anything.
    fn communicate(&self, nodes: &mut Nodes, i: usize, pass: Pass, after: NodeIndex) -> Option<NodeIndex> {
        let Communication { kind, size } = self.columns(i, pass).communication?;
        Some(nodes.collective_of(self.family(i, pass), i, pass, (kind, size), after))
    }

    /// Appends a pass of layer `i` with what it communicates.
    fn pass(&self, nodes: &mut Nodes, i: usize, pass: Pass, after: impl IntoIterator<Item = NodeIndex>) -> Appended {
        let layer = &self.layers[i];
        let cost = match pass {
            Pass::Forward => &layer.forward,
            Pass::InputGrad => &layer.input_grad,
            Pass::WeightGrad => &layer.weight_grad,
            Pass::Update => &layer.update,
        };
        let computed = nodes.compute(i, pass, cost, after);
        Appended { computed, communicated: self.communicate(nodes, i, pass, computed) }
    }

    /// Appends the first forward of layer `i` in this iteration, and its update before it.
    fn forward(&self, nodes: &mut Nodes, i: usize, inputs: impl IntoIterator<Item = NodeIndex>) -> Appended {
        let mut weights = self.pending[i].clone();
        if self.iterations > 0 && !self.layers[i].update.is_nothing() {
            weights = vec![self.pass(nodes, i, Pass::Update, weights).computed];
        }
        self.pass(nodes, i, Pass::Forward, weights.into_iter().chain(inputs))
    }

    /// Appends the updates after the last iteration, in the order in which back-propagation makes gradients.
    fn updates(&self, nodes: &mut Nodes) {
        for i in (0..self.layers.len()).rev().filter(|&i| !self.layers[i].update.is_nothing()) {
            self.pass(nodes, i, Pass::Update, self.pending[i].clone());
        }
    }

    /// Appends the forward of layers, each of which waits for the one before.
    fn forwards(&self, nodes: &mut Nodes, range: Range<usize>, input: Option<NodeIndex>) -> Option<NodeIndex> {
        range.fold(input, |input, i| Some(self.forward(nodes, i, input).done()))
    }

    /// Appends the weight gradient of layer `i`, whose collective the layer's next update or forward waits for.
    fn weight_grad(&mut self, nodes: &mut Nodes, i: usize, after: impl IntoIterator<Item = NodeIndex>) -> NodeIndex {
        let appended = self.pass(nodes, i, Pass::WeightGrad, after);
        self.pending[i].extend(appended.communicated);
        appended.computed
    }

    /// Appends back-propagation in which the weight gradient of a layer comes before its input gradient, from
    /// the last layer of the range to its first. Returns the node that ends it.
    fn weights_first(&mut self, nodes: &mut Nodes, range: Range<usize>, mut arrived: NodeIndex) -> NodeIndex {
        for i in range.rev() {
            let weight_grad = self.weight_grad(nodes, i, [arrived]);
            arrived = self.pass(nodes, i, Pass::InputGrad, [weight_grad]).done();
        }
        arrived
    }

    /// Appends an iteration of data parallelism.
    fn data_parallel(&mut self, nodes: &mut Nodes) {
        let count = self.layers.len();
        let output = self.forwards(nodes, 0..count, None).expect("a workload has layers");
        self.pending.iter_mut().for_each(Vec::clear);
        let arrived = self.weights_first(nodes, 1..count, output);
        let weight_grad = self.weight_grad(nodes, 0, [arrived]);
        if self.columns(0, Pass::InputGrad).communication.is_some() {
            let input_grad = self.pass(nodes, 0, Pass::InputGrad, [weight_grad]);
            self.pending[0].extend(input_grad.communicated);
        }
    }

    /// Appends an iteration of model or hybrid parallelism.
    fn model_parallel(&mut self, nodes: &mut Nodes) {
        let count = self.layers.len();
        let output = self.forwards(nodes, 0..count, None).expect("a workload has layers");
        self.pending.iter_mut().for_each(Vec::clear);
        let mut arrived = vec![output];
        for i in (0..count).rev() {
            for again in self.segments.get(&i).cloned().into_iter().flatten() {
                arrived = vec![self.pass(nodes, again, Pass::Forward, arrived).done()];
            }
            let input_grad = self.pass(nodes, i, Pass::InputGrad, arrived);
            let weight_grad = self.weight_grad(nodes, i, [input_grad.computed]);
            arrived = [weight_grad].into_iter().chain(input_grad.communicated).collect();
            if i == 0 {
                self.pending[0].extend(input_grad.communicated);
            }
        }
    }

    /// Appends an iteration of a recommendation model.
    fn recommender(&mut self, nodes: &mut Nodes, last_bottom: usize) {
        let (tables, first_top, count) = (0, last_bottom + 1, self.layers.len());
        let fetched = self.forward(nodes, tables, None).done();
        let features = self.forwards(nodes, 1..first_top, None);
        let met = self.forward(nodes, first_top, features.into_iter().chain([fetched])).done();
        let output = self.forwards(nodes, first_top + 1..count, Some(met)).unwrap_or(met);
        self.pending.iter_mut().for_each(Vec::clear);
        let apart = self.weights_first(nodes, first_top..count, output);
        let returned = self.communicate(nodes, tables, Pass::InputGrad, apart);
        let arrived = self.weights_first(nodes, 1..first_top, apart);
        let (now, later) = match self.imported.parallelism {
            Parallelism::HybridDlrmEnhanced { .. } => (None, returned),
            _ => (returned, None),
        };
        self.weight_grad(nodes, tables, [arrived].into_iter().chain(now));
        self.pending[tables].extend(later);
    }
}

/// The last layer of the bottom MLP, of a recommendation model.
fn last_bottom(parallelism: &Parallelism) -> Option<usize> {
    match parallelism {
        Parallelism::HybridDlrm { last_bottom } | Parallelism::HybridDlrmEnhanced { last_bottom } => {
            Some(*last_bottom as usize)
        }
        _ => None,
    }
}

/// Which NPUs form the groups.
fn placement(imported: &Imported) -> Placement {
    match &imported.parallelism {
        Parallelism::Data
        | Parallelism::Micro
        | Parallelism::Model
        | Parallelism::HybridDlrm { .. }
        | Parallelism::HybridDlrmEnhanced { .. } => Placement::AllNpus,
        Parallelism::HybridDataModel => Placement::ModelInner,
        Parallelism::HybridModelData => Placement::ModelOuter,
        Parallelism::HybridTransformer { group } | Parallelism::HybridTransformerFwdInBckwd { group, .. } => {
            Placement::ModelGroups(*group)
        }
        Parallelism::HybridCustomized => {
            let own: Vec<_> = imported
                .layers
                .iter()
                .map(|l| l.parallelism.expect("each layer has a parallelism of its own"))
                .collect();
            let has = |parallelism| own.contains(&parallelism);
            match (has(LayerParallelism::HybridDataModel), has(LayerParallelism::HybridModelData)) {
                (true, _) => Placement::ModelInner,
                (false, true) => Placement::ModelOuter,
                (false, false) => Placement::AllNpus,
            }
        }
    }
}

impl GraphSource for Parallel {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn streams(&self, _: ClassId) -> &[Order] {
        &[Order::InOrder]
    }

    /// # Panics
    /// When iterations are not asked for one after the other from zero, or have more nodes in all
    /// than [`NodeIndex`] numbers.
    fn iteration(&mut self, _: ClassId, iteration: u32) -> Vec<Node> {
        assert_eq!(iteration, self.iterations, "iterations are produced in order");
        let mut nodes = Nodes::new(self.produced);
        match self.imported.parallelism {
            Parallelism::Data | Parallelism::Micro => self.data_parallel(&mut nodes),
            Parallelism::HybridDlrm { last_bottom } | Parallelism::HybridDlrmEnhanced { last_bottom } => {
                self.recommender(&mut nodes, last_bottom as usize);
            }
            Parallelism::Model
            | Parallelism::HybridDataModel
            | Parallelism::HybridModelData
            | Parallelism::HybridTransformer { .. }
            | Parallelism::HybridTransformerFwdInBckwd { .. }
            | Parallelism::HybridCustomized => self.model_parallel(&mut nodes),
        }
        if self.ends_with == Some(iteration + 1) {
            self.updates(&mut nodes);
        }
        self.produced = nodes.next();
        self.iterations += 1;
        nodes.finish()
    }
}
