//! What is to be run: a graph of compute and collectives, and what it adds up to.

use crate::driver::CollectiveConfig;
use crate::errors::{RunError, illegal};
use crate::place::{Placement, kind};
use crate::spec::{ChunkingSpec, CollectiveSpec, JobSpec, KernelsSpec, Spec, WorkloadSpec};
use syncline_collective::Kind;
use syncline_core::Bytes;
use syncline_workload::compute::Npu;
use syncline_workload::data_parallel::DataParallel;
use syncline_workload::graph::{GraphSource, Node, Pass, Work};
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
    /// The kinds of its collectives, each once.
    pub kinds: Vec<Kind>,
    /// The root of rooted ones.
    pub root: u32,
    /// Bytes of the largest collective.
    pub largest: Bytes,
    /// Bytes of all collectives of an iteration.
    pub sizes: Vec<u64>,
    /// Bytes of all collectives of an iteration.
    pub total: Bytes,
    /// Collectives of an iteration.
    pub collectives: usize,
    /// Compute of an iteration.
    pub compute_ps: f64,
}

/// The job of a description.
///
/// # Errors
/// [`RunError::Spec`] if it describes none.
pub fn job(spec: &Spec) -> Result<Job, RunError> {
    match &spec.job {
        JobSpec::Collective { collective, bytes, root } => {
            let (kind, root) = (kind(*collective), *root);
            let source = Box::new(Single { kind, size: Bytes(*bytes), layers: Vec::new() });
            let npu = Npu::new(1.0, 1.0, 1.0).map_err(illegal)?;
            let (kinds, largest, total, sizes) = (vec![kind], Bytes(*bytes), Bytes(*bytes), vec![*bytes]);
            let (collectives, compute_ps) = (1, 0.0);
            Ok(Job {
                source,
                iterations: 1,
                drain: true,
                npu,
                kinds,
                root,
                largest,
                sizes,
                total,
                collectives,
                compute_ps,
            })
        }
        JobSpec::Training { workload, iterations, overlap, drain, update, compute, stragglers } => {
            let mut layers = layers(workload)?;
            if !update {
                layers.iter_mut().for_each(|l| l.update = Cost::NOTHING);
            }
            let npu = Npu::new(compute.flops_per_s, compute.memory_bytes_per_s, compute.scale).map_err(illegal)?;
            let sizes: Vec<u64> = layers.iter().map(|l| l.gradient.0).collect();
            let total = Bytes(sizes.iter().copied().fold(0, u64::saturating_add));
            let sizes = if *overlap { sizes } else { vec![total.0] };
            let largest = Bytes(sizes.iter().copied().max().unwrap_or(0));
            let passes = layers.iter().flat_map(|l| [&l.forward, &l.input_grad, &l.weight_grad, &l.update]);
            let compute_ps = passes.map(|cost| npu.time(cost).0 as f64).sum();
            let (collectives, kinds) = (layers.len(), vec![Kind::AllReduce]);
            let source = Box::new(DataParallel::new(layers, *overlap));
            let slowest = stragglers.iter().map(|s| s.1).fold(1.0, f64::max);
            if let Some(s) = stragglers.iter().find(|s| !(s.1.is_finite() && s.1 > 0.0)) {
                return Err(illegal(format!("job.stragglers: a factor of {}; accepted: a positive number", s.1)));
            }
            let compute_ps: f64 = compute_ps;
            let compute_ps = compute_ps * slowest;
            let (iterations, drain) = (*iterations, *drain);
            Ok(Job { source, iterations, drain, npu, kinds, root: 0, largest, sizes, total, collectives, compute_ps })
        }
    }
}

fn layers(workload: &WorkloadSpec) -> Result<Vec<Layer>, RunError> {
    match workload {
        WorkloadSpec::Model { name, batch, element_bytes, kernels } => {
            let counted = match kernels {
                KernelsSpec::All => Counted::All,
                KernelsSpec::Weighted => Counted::Weighted,
            };
            models::build(name, *batch, *element_bytes, counted).map_err(illegal)
        }
        WorkloadSpec::AstraText { text } => astra_text::parse(text).map_err(illegal),
    }
}

impl Job {
    /// Bytes of its largest chunk, before padding.
    pub fn largest_chunk(&self, spec: &CollectiveSpec) -> u64 {
        match spec.chunking {
            ChunkingSpec::Size { bytes, .. } => bytes.min(self.largest.0),
            ChunkingSpec::Count { chunks } => self.largest.0.div_ceil(u64::from(chunks.max(1))),
        }
    }

    /// Whether all blocks of all its chunks are of equal length on all ranks; if not, why.
    pub fn is_even(&self, placement: &Placement, config: &CollectiveConfig) -> Result<(), String> {
        for plan in &placement.plans {
            let unit = plan.equal_blocks().saturating_mul(config.split.element.into());
            for &bytes in &self.sizes {
                let pieces = config.pieces(plan, Bytes(bytes));
                // Pieces get shorter along a chunk and along the collective: if the first and last of both are
                // multiples, and so of equal length, the others are.
                let count = pieces.count();
                let probes = [0, count.saturating_sub(u64::from(config.parts())), count.saturating_sub(1)];
                let lens = probes.into_iter().filter(|&i| i < count).map(|i| pieces.piece(i).0);
                if let Some(len) = lens.into_iter().find(|len| len % unit != 0) {
                    return Err(format!(
                        "blocks are of unequal length: a chunk of {len} B is no multiple of {unit} B, and padding is off"
                    ));
                }
            }
        }
        Ok(())
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
        vec![Node { layer: 0, pass: Pass::WeightGrad, work, after: Vec::new() }]
    }
}
