//! What is to be run: a graph of compute and collectives, and what it adds up to.

use crate::driver::CollectiveConfig;
use crate::errors::RunError;
use crate::spec::{
    ChunkingSpec, CollectiveSpec, ComputeSpec, DataflowSpec, JobSpec, KernelsSpec, Spec, StrategySpec, WorkloadSpec,
};
use syncline_collective::{Kind, Plan, Rank};
use syncline_core::{Bytes, Refusal};
use syncline_workload::compute::Npu;
use syncline_workload::data_parallel::DataParallel;
use syncline_workload::graph::{GraphSource, Node, Pass, Stream, Work};
use syncline_workload::hybrid::{Hybrid, Loop};
use syncline_workload::models::{Built, Sizes};
use syncline_workload::systolic::{Array, Dataflow};
use syncline_workload::{Cost, Counted, Layer, astra_text, models};

/// What is to be run, independent of network and endpoint.
pub struct Job {
    /// The graph.
    pub source: Box<dyn GraphSource + Send>,
    /// Iterations of it.
    pub iterations: u32,
    /// Whether the run waits for collectives in flight at its end.
    pub drain: bool,
    /// What computes.
    pub npu: Npu,
    /// What computes in the background, if anything does.
    pub background: Option<Npu>,
    /// The kinds of its collectives, each once.
    pub kinds: Vec<Kind>,
    /// The root of rooted ones.
    pub root: Rank,
    /// All collectives of an iteration: kind and bytes.
    pub collectives: Vec<(Kind, u64)>,
    /// Compute of an iteration.
    pub compute_ps: f64,
}

/// The job of a description, for groups of `ranks` NPUs.
///
/// # Errors
/// [`RunError::Spec`] if it describes none.
pub fn job(spec: &Spec, ranks: u32) -> Result<Job, RunError> {
    match &spec.job {
        JobSpec::Collective { collective, bytes, root, .. } => {
            let kind = collective.kind();
            Ok(Job {
                source: Box::new(Single { kind, size: Bytes(*bytes), layers: Vec::new() }),
                iterations: 1,
                drain: true,
                npu: Npu::new(1.0, 1.0, 1.0).map_err(Refusal::from)?,
                background: None,
                kinds: vec![kind],
                root: Rank(*root),
                collectives: vec![(kind, *bytes)],
                compute_ps: 0.0,
            })
        }
        JobSpec::Training {
            workload,
            strategy,
            iterations,
            overlap,
            drain,
            update,
            compute,
            background,
            stragglers,
        } => {
            let model = model(workload, ranks, *update)?;
            let npu = npu(compute)?;
            let background = background.as_ref().map(self::npu).transpose()?;
            let slower = background.unwrap_or(npu);
            let layers = model.layers();
            let passes = layers.iter().flat_map(|l| [&l.forward, &l.input_grad, &l.weight_grad, &l.update]);
            let compute_ps: f64 = passes.map(|cost| npu.time(cost).0.max(slower.time(cost).0) as f64).sum();
            let (source, collectives) = source(model, *strategy, *overlap, background.is_some())?;
            let mut kinds: Vec<Kind> = collectives.iter().map(|c| c.0).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let slowest = stragglers.iter().map(|s| s.1).fold(1.0, f64::max);
            if let Some(s) = stragglers.iter().find(|s| !(s.1.is_finite() && s.1 > 0.0)) {
                let refusal = Refusal::of("job.stragglers", format!("a factor of {}", s.1));
                return Err(refusal.accepting("a positive number").into());
            }
            let (iterations, drain, compute_ps) = (*iterations, *drain, compute_ps * slowest);
            Ok(Job { source, iterations, drain, npu, background, kinds, root: Rank(0), collectives, compute_ps })
        }
    }
}

fn npu(spec: &ComputeSpec) -> Result<Npu, RunError> {
    let refused = |error| Refusal::from(error).within("job.compute");
    let mut npu = Npu::new(spec.flops_per_s, spec.memory_bytes_per_s, spec.scale).map_err(refused)?;
    if let Some(tile) = spec.tile {
        npu = npu.with_tile(tile);
    }
    let Some(array) = &spec.array else { return Ok(npu) };
    let dataflow = match array.dataflow {
        DataflowSpec::OutputStationary => Dataflow::OutputStationary,
        DataflowSpec::WeightStationary => Dataflow::WeightStationary,
        DataflowSpec::InputStationary => Dataflow::InputStationary,
    };
    Ok(npu.with_array(Array::new(array.rows, array.columns, dataflow, array.clock_hz).map_err(refused)?))
}

/// The model of a workload for `ranks` NPUs; without `update`, updates of its weights cost nothing.
fn model(workload: &WorkloadSpec, ranks: u32, update: bool) -> Result<Built, RunError> {
    let mut built = match workload {
        WorkloadSpec::Model { name, batch, element_bytes, kernels, sequence } => {
            let counted = match kernels {
                KernelsSpec::All => Counted::All,
                KernelsSpec::Weighted => Counted::Weighted,
            };
            let (batch, element_bytes, sequence) = (*batch, *element_bytes, *sequence);
            models::build(name, &Sizes { batch, element_bytes, counted, sequence, ranks }).map_err(Refusal::from)?
        }
        WorkloadSpec::AstraText { text } => Built::Chain(astra_text::parse(text).map_err(|wrong| {
            RunError::Spec(wrong.errors.into_iter().map(|e| Refusal::from(e).within("job.workload.text")).collect())
        })?),
    };
    if !update {
        match &mut built {
            Built::Chain(layers) => layers.iter_mut().for_each(|l| l.update = Cost::NOTHING),
            Built::Recommender(m) => m.bottom.iter_mut().chain(&mut m.top).for_each(|l| l.update = Cost::NOTHING),
        }
    }
    Ok(built)
}

type Source = Box<dyn GraphSource + Send>;

/// The graph of a model under a strategy, and the collectives of one of its iterations.
fn source(
    model: Built,
    strategy: StrategySpec,
    overlap: bool,
    background: bool,
) -> Result<(Source, Vec<(Kind, u64)>), RunError> {
    match (model, strategy) {
        (Built::Chain(layers), StrategySpec::DataParallel) if !background => {
            let sizes = layers.iter().map(|l| l.gradient.0);
            let sizes = if overlap { sizes.collect() } else { vec![sizes.fold(0, u64::saturating_add)] };
            let collectives = sizes.into_iter().map(|bytes| (Kind::AllReduce, bytes)).collect();
            Ok((Box::new(DataParallel::new(layers, overlap)), collectives))
        }
        (Built::Recommender(model), StrategySpec::Hybrid) => {
            let order = match (overlap, background) {
                (true, true) => Loop::BackgroundTables,
                (true, false) => Loop::Overlapped,
                (false, false) => Loop::Blocking,
                (false, true) => {
                    let refusal = Refusal::of("job.background", "without overlap, nothing runs in the background");
                    return Err(refusal.accepting("overlap, or no background").into());
                }
            };
            let hybrid = Hybrid::new(model, order);
            let collectives = hybrid.collectives().into_iter().map(|(kind, size)| (kind, size.0)).collect();
            Ok((Box::new(hybrid), collectives))
        }
        (Built::Chain(_), StrategySpec::DataParallel) => {
            let refusal = Refusal::of("job.background", "the model has no embedding tables");
            Err(refusal.accepting("no background").into())
        }
        (Built::Chain(_), StrategySpec::Hybrid) => {
            let refusal =
                Refusal::of("job.strategy", "hybrid is for models with embedding tables, and this one has none");
            Err(refusal.accepting("data-parallel").into())
        }
        (Built::Recommender(_), StrategySpec::DataParallel) => {
            let refusal = Refusal::of(
                "job.strategy",
                "data-parallel is not possible, since no NPU holds all of the model's tables",
            );
            Err(refusal.accepting("hybrid").into())
        }
    }
}

impl Job {
    /// Bytes of all collectives of a kind in an iteration.
    pub fn sizes(&self, kind: Kind) -> impl Iterator<Item = u64> + '_ {
        self.collectives.iter().filter(move |c| c.0 == kind).map(|c| c.1)
    }

    /// Bytes of the largest collective of a kind.
    pub fn largest(&self, kind: Kind) -> u64 {
        self.sizes(kind).max().unwrap_or(0)
    }

    /// Bytes of all collectives of an iteration; saturates.
    pub fn total(&self) -> u64 {
        self.collectives.iter().map(|c| c.1).fold(0, u64::saturating_add)
    }

    /// Bytes of the largest chunk of a kind of collectives, before padding.
    pub fn largest_chunk(&self, kind: Kind, spec: &CollectiveSpec) -> u64 {
        let chunks = |size: u64| match spec.chunking {
            ChunkingSpec::Size { bytes, .. } => size.div_ceil(bytes.max(1)).max(1),
            ChunkingSpec::Count { chunks } => chunks.max(1).into(),
        };
        self.sizes(kind).map(|size| size.div_ceil(chunks(size))).max().unwrap_or(0)
    }

    /// Bytes of the longest chunk or part of one under any of the plans; that of the largest collective of a kind may be
    /// shorter than that of a smaller one, which has fewer.
    pub fn largest_piece<'a>(&self, plans: impl Iterator<Item = &'a Plan>, config: &CollectiveConfig) -> u64 {
        let of = |plan: &Plan| self.sizes(plan.kind()).map(|size| config.pieces(plan, Bytes(size)).largest()).max();
        plans.filter_map(of).max().unwrap_or(0)
    }
}

/// A graph of a single collective.
struct Single {
    kind: Kind,
    size: Bytes,
    layers: Vec<Layer>,
}

impl GraphSource for Single {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn iteration(&mut self, _: u32) -> Vec<Node> {
        let work = Work::Collective { kind: self.kind, size: self.size };
        vec![Node { layer: 0, pass: Pass::WeightGrad, stream: Stream::Main, work, after: Vec::new() }]
    }
}
