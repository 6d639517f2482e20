//! What is to be run: a graph of compute and collectives, and what it adds up to.

mod graphs;
mod several;

use crate::collective_config::CollectiveConfig;
use crate::compute::npu;
use crate::errors::RunError;
use crate::spec::{BucketSpec, ChunkingSpec, CollectiveSpec, JobSpec, Spec, StrategySpec, WorkloadSpec, parallel};
use graphs::graphs;
use syncline_collective::{Kind, Plan, Rank};
use syncline_core::{Bytes, NodeId, Ps, Refusal};
use syncline_workload::Parallel;
use syncline_workload::astra_text::Imported;
use syncline_workload::compute::Npu;
use syncline_workload::data_parallel::{Buckets, DataParallel};
use syncline_workload::described::layers::{self, Counting};
use syncline_workload::described::{Execution, Widths};
use syncline_workload::frameworks::Framework;
use syncline_workload::graph::{ClassId, FamilyId, GraphSource, Node, Pass, PointToPoint, Stream, Work};
use syncline_workload::hosted::Hosted;
use syncline_workload::hybrid::{Hybrid, Loop, Recommender};
use syncline_workload::{Cost, Counted, Layer, astra_text};

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
    /// By class and family, the collectives that its NPUs ask for; families of which there are none may be left out.
    pub demands: Vec<Vec<Demand>>,
    /// By class, its NPUs; none if there is one class of all.
    pub classes: Vec<Vec<NodeId>>,
    /// By class, the families that its graph names.
    pub uses: Vec<Vec<FamilyId>>,
    /// Messages between two ranks of an iteration, as they are sent.
    pub sends: Vec<Sending>,
    /// Compute nodes of an iteration on an NPU, about.
    pub kernels: u64,
    /// Compute of an iteration.
    pub compute_ps: f64,
    /// Kernels of it whose times nothing measured speaks for.
    pub outside: u64,
}

/// A message that NPUs of a class send.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The class.
    pub class: ClassId,
    /// The only rank that sends it; none if all do.
    pub from: Option<Rank>,
    /// The message.
    pub message: PointToPoint,
}

/// The collectives that communicators of a family are asked for.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// All collectives of an iteration: kind, root and bytes. A kind that has none has root 0.
    pub collectives: Vec<(Kind, Rank, u64)>,
    /// Iterations.
    pub iterations: u32,
}

/// The job of a description.
///
/// # Errors
/// [`RunError::Spec`] if it describes none.
pub fn job(spec: &Spec) -> Result<Job, RunError> {
    match &spec.job {
        JobSpec::Collective { collective, bytes, root, .. } => {
            let kind = collective.kind();
            let source = Box::new(Single { kind, root: Rank(*root), size: Bytes(*bytes), layers: Vec::new() });
            let npu = Npu::new(1.0, 1.0, 1.0).map_err(Refusal::from)?;
            let demand = Demand { collectives: vec![(kind, Rank(*root), *bytes)], iterations: 1 };
            Ok(Job { drain: true, ..Job::of_all(source, demand, npu) })
        }
        JobSpec::Training {
            workload,
            strategy,
            iterations,
            overlap,
            buckets,
            barrier,
            drain,
            update,
            compute,
            host_kernel_ps,
            background,
            stragglers,
        } => {
            let npu = npu(compute)?;
            if let Some(imported) = parallel(workload) {
                if let Some(refusal) = own_gradients(*buckets, *barrier, "this parallelism has collectives of its own")
                {
                    return Err(refusal.into());
                }
                let job = imported_job(imported, *update, *overlap, (*iterations, *drain), npu)?;
                let compute_ps = job.compute_ps * slowest(stragglers)?;
                return Ok(Job { compute_ps, ..job });
            }
            let model = model(workload, *update)?;
            let background = background.as_ref().map(self::npu).transpose()?;
            let layers = model.layers();
            let passes = layers.iter().flat_map(|l| [&l.forward, &l.input_grad, &l.weight_grad, &l.update]);
            let mix: Vec<_> = passes.clone().flat_map(Cost::each).map(|kernel| (kernel, 1)).collect();
            let npu = npu.throttled(&mix);
            let slower = background.as_ref().unwrap_or(&npu);
            let compute_ps: f64 = passes.clone().map(|cost| npu.time(cost).0.max(slower.time(cost).0) as f64).sum();
            let outside = passes.map(|cost| npu.outside(cost)).sum();
            let background_runs = background.is_some();
            let loops = Loops {
                overlap: *overlap,
                buckets: *buckets,
                barrier: *barrier,
                background: background_runs,
                ends_with: drain.then_some(*iterations),
            };
            let (mut source, collectives) = source(model, *strategy, loops)?;
            if *host_kernel_ps > 0 {
                source = Box::new(Hosted::new(source, Ps(*host_kernel_ps)));
            }
            let collectives = collectives.into_iter().map(|(kind, bytes)| (kind, Rank(0), bytes)).collect();
            let demand = Demand { collectives, iterations: *iterations };
            let compute_ps = compute_ps * slowest(stragglers)?;
            Ok(Job { drain: *drain, background, compute_ps, outside, ..Job::of_all(source, demand, npu) })
        }
        JobSpec::Jobs { jobs, drain, stragglers } => {
            let job = several::several(spec, jobs, *drain)?;
            let compute_ps = job.compute_ps * slowest(stragglers)?;
            Ok(Job { compute_ps, ..job })
        }
        JobSpec::Graph { graph, iterations, drain, stragglers, compute, background } => {
            let npu = npu(compute)?;
            let background = background.as_ref().map(self::npu).transpose()?;
            let job = graphs(spec, graph, *iterations, npu)?;
            let compute_ps = job.compute_ps * slowest(stragglers)?;
            Ok(Job { drain: *drain, background, compute_ps, ..job })
        }
    }
}

/// The job of a text workload with families of communicators, which has a parallelism of its own.
fn imported_job(
    mut imported: Imported,
    update: bool,
    overlap: bool,
    (iterations, drain): (u32, bool),
    npu: Npu,
) -> Result<Job, RunError> {
    if !overlap {
        let message = "a workload of this parallelism says itself what it waits for";
        return Err(Refusal::of("job.overlap", message).accepting("true").into());
    }
    if !update {
        imported.layers.iter_mut().for_each(|layer| layer.update = Ps::ZERO);
    }
    let mut source = Parallel::new(imported);
    if drain {
        source = source.ending_with(iterations);
    }
    let mut demands = vec![Demand { iterations, ..Demand::default() }; 3];
    for (family, kind, size) in source.demands() {
        demands[family.index()].collectives.push((kind, Rank(0), size.0));
    }
    let passes = source.layers().iter().flat_map(|l| [&l.forward, &l.input_grad, &l.weight_grad, &l.update]);
    let compute_ps = passes.map(|cost| npu.time(cost).0 as f64).sum();
    let all = Demand { iterations, ..Demand::default() };
    Ok(Job { drain, compute_ps, demands: vec![demands], ..Job::of_all(Box::new(source), all, npu) })
}

/// The largest factor on the times of NPUs, at least 1.
fn slowest(stragglers: &[(u32, f64)]) -> Result<f64, RunError> {
    if let Some(s) = stragglers.iter().find(|s| !(s.1.is_finite() && s.1 > 0.0)) {
        let refusal = Refusal::of("job.stragglers", format!("a factor of {}", s.1));
        return Err(refusal.accepting("a positive number").into());
    }
    Ok(stragglers.iter().map(|s| s.1).fold(1.0, f64::max))
}

/// The model of a workload; without `update`, updates of its weights cost nothing.
fn model(workload: &WorkloadSpec, update: bool) -> Result<Model, RunError> {
    let mut model = match workload {
        WorkloadSpec::Layers { layers, element_bytes, linear_bytes, framework, kernels } => {
            let counting = counting((*element_bytes, *linear_bytes), *framework, *kernels)?;
            Model::Chain(layers::chain(layers, counting).map_err(|refusal| refusal.within("job.workload"))?)
        }
        WorkloadSpec::Recommender { model, element_bytes, linear_bytes, framework, kernels } => {
            let counting = counting((*element_bytes, *linear_bytes), *framework, *kernels)?;
            Model::Recommender(model.recommender(counting).map_err(|refusal| refusal.within("job.workload.model"))?)
        }
        WorkloadSpec::AstraText { text } => Model::Chain(astra_text::parse(text).map_err(|wrong| {
            // What is wrong with a workload of any parallelism is said of that.
            let wrong = astra_text::read(text).err().unwrap_or(wrong);
            RunError::Spec(wrong.errors.into_iter().map(|e| Refusal::from(e).within("job.workload.text")).collect())
        })?),
    };
    if !update {
        match &mut model {
            Model::Chain(layers) => layers.iter_mut().for_each(|l| l.update = Cost::NOTHING),
            Model::Recommender(m) => m.bottom.iter_mut().chain(&mut m.top).for_each(|l| l.update = Cost::NOTHING),
        }
    }
    Ok(model)
}

fn counting(
    (element_bytes, linear_bytes): (u32, Option<u32>),
    framework: Option<Framework>,
    counted: Counted,
) -> Result<Counting, RunError> {
    let widths = Widths { element_bytes, linear_bytes }.checked().map_err(|refusal| refusal.within("job.workload"))?;
    Ok(Counting { execution: Execution { widths, framework }, counted })
}

/// The layers of a model, by how it can be distributed.
#[expect(clippy::large_enum_variant, reason = "there is one per run")]
enum Model {
    /// One after the other, in forward order.
    Chain(Vec<Layer>),
    /// Tables and two MLPs.
    Recommender(Recommender),
}

impl Model {
    /// All layers, in forward order.
    fn layers(&self) -> Vec<&Layer> {
        match self {
            Model::Chain(layers) => layers.iter().collect(),
            Model::Recommender(model) => model.layers().collect(),
        }
    }
}

type Source = Box<dyn GraphSource + Send>;

/// What a description says of the training loop.
#[derive(Clone, Copy)]
struct Loops {
    overlap: bool,
    buckets: Option<BucketSpec>,
    barrier: bool,
    background: bool,
    /// The number of iterations, if the run waits for all that is in flight after the last one: it then has the updates of
    /// that too.
    ends_with: Option<u32>,
}

/// Refuses what is for the gradients of data parallelism only.
fn own_gradients(buckets: Option<BucketSpec>, barrier: bool, why: &str) -> Option<Refusal> {
    match (buckets, barrier) {
        (Some(_), _) => Some(Refusal::of("job.buckets", why).accepting("no buckets")),
        (None, true) => Some(Refusal::of("job.barrier", why).accepting("no barrier")),
        (None, false) => None,
    }
}

/// The graph of a model under a strategy, and the collectives of one of its iterations.
fn source(model: Model, strategy: StrategySpec, loops: Loops) -> Result<(Source, Vec<(Kind, u64)>), RunError> {
    let Loops { overlap, buckets, barrier, background, ends_with } = loops;
    match (model, strategy) {
        (Model::Chain(layers), StrategySpec::DataParallel) if !background => {
            let mut training = DataParallel::new(layers, overlap);
            if let Some(BucketSpec { first_bytes, bytes }) = buckets {
                training = training.in_buckets(Buckets { first: Bytes(first_bytes), others: Bytes(bytes) });
            }
            if barrier {
                training = training.with_barrier();
            }
            if let Some(last) = ends_with {
                training = training.ending_with(last);
            }
            let collectives = training.collectives().into_iter().map(|bytes| (Kind::AllReduce, bytes.0)).collect();
            Ok((Box::new(training), collectives))
        }
        (Model::Recommender(model), StrategySpec::Hybrid) => {
            if let Some(refusal) = own_gradients(buckets, barrier, "hybrid parallelism reduces layer by layer") {
                return Err(refusal.into());
            }
            let order = match (overlap, background) {
                (true, true) => Loop::BackgroundTables,
                (true, false) => Loop::Overlapped,
                (false, false) => Loop::Blocking,
                (false, true) => {
                    let refusal = Refusal::of("job.background", "without overlap, nothing runs in the background");
                    return Err(refusal.accepting("overlap, or no background").into());
                }
            };
            let mut hybrid = Hybrid::new(model, order);
            if let Some(last) = ends_with {
                hybrid = hybrid.ending_with(last);
            }
            let collectives = hybrid.collectives().into_iter().map(|(kind, size)| (kind, size.0)).collect();
            Ok((Box::new(hybrid), collectives))
        }
        (Model::Chain(_), StrategySpec::DataParallel) => {
            let refusal = Refusal::of("job.background", "the model has no embedding tables");
            Err(refusal.accepting("no background").into())
        }
        (Model::Chain(_), StrategySpec::Hybrid) => {
            let refusal =
                Refusal::of("job.strategy", "hybrid is for models with embedding tables, and this one has none");
            Err(refusal.accepting("data-parallel").into())
        }
        (Model::Recommender(_), StrategySpec::DataParallel) => {
            let refusal = Refusal::of(
                "job.strategy",
                "data-parallel is not possible, since no NPU holds all of the model's tables",
            );
            Err(refusal.accepting("hybrid").into())
        }
    }
}

impl Job {
    /// Whether kernels are outside of what was measured, in words.
    pub fn remark(&self) -> Option<String> {
        (self.outside > 0).then(|| {
            format!(
                "{} kernels of an iteration have sizes outside of those in the table of measurements: they are taken to be as \
                 efficient as the nearest ones",
                self.outside
            )
        })
    }

    /// A graph that all NPUs run, which are of one class, with communicators of one family that are asked for `demand`.
    pub fn of_all(source: Box<dyn GraphSource + Send>, demand: Demand, npu: Npu) -> Job {
        Job {
            iterations: demand.iterations,
            drain: false,
            npu,
            background: None,
            demands: vec![vec![demand]],
            classes: Vec::new(),
            uses: Vec::new(),
            sends: Vec::new(),
            kernels: 3 * source.layers().len() as u64,
            compute_ps: 0.0,
            outside: 0,
            source,
        }
    }
}

impl Demand {
    /// Every kind of collective and root that is asked for, once.
    pub fn uses(&self) -> Vec<(Kind, Rank)> {
        let mut uses: Vec<(Kind, Rank)> = self.collectives.iter().map(|c| (c.0, c.1)).collect();
        uses.sort_unstable();
        uses.dedup();
        uses
    }

    /// The kinds of collectives, each once.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self.uses().into_iter().map(|(kind, _)| kind).collect();
        kinds.dedup();
        kinds
    }

    /// Bytes of all collectives of a kind in an iteration.
    pub fn sizes(&self, kind: Kind) -> impl Iterator<Item = u64> + '_ {
        self.collectives.iter().filter(move |c| c.0 == kind).map(|c| c.2)
    }

    /// Bytes of all collectives of a kind from or to a root in an iteration.
    pub fn sizes_from(&self, kind: Kind, root: Rank) -> impl Iterator<Item = u64> + '_ {
        self.collectives.iter().filter(move |c| (c.0, c.1) == (kind, root)).map(|c| c.2)
    }

    /// Bytes of the largest collective of a kind.
    pub fn largest(&self, kind: Kind) -> u64 {
        self.sizes(kind).max().unwrap_or(0)
    }

    /// Bytes of all collectives of an iteration; saturates.
    pub fn total(&self) -> u64 {
        self.collectives.iter().map(|c| c.2).fold(0, u64::saturating_add)
    }

    /// Bytes of the largest chunk of a kind of collectives, before padding.
    pub fn largest_chunk(&self, kind: Kind, spec: &CollectiveSpec) -> u64 {
        let own = spec.chunks_of.iter().find(|of| of.0.kind() == kind).map(|of| ChunkingSpec::Count { chunks: of.1 });
        let chunking = spec.chunking_from(own.unwrap_or(spec.chunking));
        let chunks = |size: u64| chunking.chunks(size, 1).max(1);
        let carried = |size: u64| {
            let rows = spec.priced.iter().filter(|row| (row.collective.kind(), row.bytes) == (kind, size));
            rows.map(|row| row.wire_bytes).max().unwrap_or(size)
        };
        self.sizes(kind).map(carried).map(|size| size.div_ceil(chunks(size))).max().unwrap_or(0)
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
    root: Rank,
    size: Bytes,
    layers: Vec<Layer>,
}

impl GraphSource for Single {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn iteration(&mut self, _: ClassId, _: u32) -> Vec<Node> {
        let work = Work::Collective { family: FamilyId(0), kind: self.kind, root: self.root, size: self.size };
        vec![Node { layer: 0, pass: Pass::WeightGrad, stream: Stream::MAIN, work, after: Vec::new() }]
    }
}
