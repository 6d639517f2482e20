//! What is run: a collective, or the training of a model.

use super::CollectiveSpec;
use super::compute::ComputeSpec;
use super::graph::{FamilySpec, GraphSpec};
use super::kind::CollectiveKindSpec;
use crate::endpoints::LoadSpec;
use serde::Deserialize;
use std::sync::Arc;
use syncline_workload::Counted;
use syncline_workload::described::layers::{LayerSpec, RecommenderSpec};
use syncline_workload::frameworks::Framework;

/// What is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum JobSpec {
    /// One collective of every group.
    Collective {
        /// Which.
        collective: CollectiveKindSpec,
        /// Bytes of the full vector on each NPU.
        bytes: u64,
        /// The rank that is the root of a rooted collective.
        #[serde(default)]
        root: u32,
        /// What runs beside it on every NPU; only with dynamic contention.
        #[serde(default)]
        beside: Vec<LoadSpec>,
    },
    /// Iterations of a training loop.
    Training {
        /// The model.
        workload: WorkloadSpec,
        /// How the model is distributed.
        #[serde(default)]
        strategy: StrategySpec,
        /// Iterations.
        iterations: u32,
        /// Whether collectives are issued as gradients become ready, or together after back-propagation.
        overlap: bool,
        /// Which gradients are all-reduced together, where that is not layer by layer; only of data parallelism.
        #[serde(default)]
        buckets: Option<BucketSpec>,
        /// Whether an iteration ends when all gradients are reduced, rather than each layer waiting for its own in the
        /// next one; only of data parallelism.
        #[serde(default)]
        barrier: bool,
        /// Whether the run waits for collectives that are still in flight when the last
        /// back-propagation ends.
        drain: bool,
        /// Whether the weight update costs compute time.
        update: bool,
        /// NPUs that take longer to compute: the NPU, and the factor on its times.
        #[serde(default)]
        stragglers: Vec<(u32, f64)>,
        /// The NPU as compute sees it.
        compute: ComputeSpec,
        /// What the host takes to launch a kernel or a collective; it launches nothing if zero.
        #[serde(default)]
        host_kernel_ps: u64,
        /// What works on embedding tables beside the training loop; nothing does if left out.
        #[serde(default)]
        background: Option<ComputeSpec>,
    },
    /// Iterations of graphs that are written out.
    Graph {
        /// The graphs, which may have millions of nodes and are shared by all copies of a description.
        graph: Arc<GraphSpec>,
        /// Iterations.
        iterations: u32,
        /// Whether the run waits for communication that is still under way when the last main stream ends.
        drain: bool,
        /// NPUs that take longer to compute: the NPU, and the factor on its times.
        #[serde(default)]
        stragglers: Vec<(u32, f64)>,
        /// The NPU as compute sees it.
        compute: ComputeSpec,
        /// What streams beside the main one compute with; the same if left out.
        #[serde(default)]
        background: Option<ComputeSpec>,
    },
    /// Several jobs on disjoint NPUs, at the same time.
    Jobs {
        /// The jobs.
        jobs: Vec<PlacedJobSpec>,
        /// Whether the run waits for communication that is still under way when the last main stream ends.
        drain: bool,
        /// NPUs that take longer to compute: the NPU, and the factor on its times.
        #[serde(default)]
        stragglers: Vec<(u32, f64)>,
    },
}

impl JobSpec {
    /// NPUs that take longer to compute, and the factor on their times.
    pub fn stragglers(&self) -> &[(u32, f64)] {
        match self {
            JobSpec::Collective { .. } => &[],
            JobSpec::Training { stragglers, .. }
            | JobSpec::Graph { stragglers, .. }
            | JobSpec::Jobs { stragglers, .. } => stragglers,
        }
    }

    /// Why NPUs that do the same may still come to differ, if they may.
    pub fn unfolded(&self) -> Option<&str> {
        match self {
            JobSpec::Collective { .. } | JobSpec::Training { .. } => None,
            JobSpec::Graph { graph, .. } => graph.unfolded.as_deref(),
            JobSpec::Jobs { jobs, .. } => jobs.iter().find_map(|placed| placed.job.unfolded()),
        }
    }

    /// Iterations of a training loop; none of a single collective.
    pub fn iterations(&self) -> Option<u32> {
        match self {
            JobSpec::Collective { .. } => None,
            JobSpec::Training { iterations, .. } | JobSpec::Graph { iterations, .. } => Some(*iterations),
            JobSpec::Jobs { jobs, .. } => jobs.iter().filter_map(|placed| placed.job.iterations()).max(),
        }
    }
}

/// Gradients that are all-reduced together: buckets in the order of the layers, each full once it has so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketSpec {
    /// Bytes of the bucket of the first layers, whose gradients come last.
    pub first_bytes: u64,
    /// Bytes of all others.
    pub bytes: u64,
}

/// A job among several.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedJobSpec {
    /// Its name.
    pub name: String,
    /// Its NPUs, by rank.
    pub npus: Vec<u32>,
    /// They as a grid, the first dimension innermost; a line if left out.
    #[serde(default)]
    pub grid: Option<Vec<u32>>,
    /// What it runs: no collective on its own, and not several jobs.
    pub job: Box<JobSpec>,
    /// How its collectives are carried out.
    pub collectives: CollectiveSpec,
    /// Its families of communicators; if left out those that its workload asks for, or one of all its NPUs.
    #[serde(default)]
    pub families: Vec<FamilySpec>,
}

/// How a model is distributed over the NPUs.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum StrategySpec {
    /// A copy of the model on every NPU.
    #[default]
    DataParallel,
    /// Copies of the MLPs, and embedding tables distributed.
    Hybrid,
}

/// Where the layers come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "source", rename_all = "kebab-case", deny_unknown_fields)]
pub enum WorkloadSpec {
    /// The layers of a model file.
    Layers {
        /// In forward order.
        layers: Vec<LayerSpec>,
        /// Bytes of an activation, weight or gradient element.
        element_bytes: u32,
        /// Bytes of an element of the factors of linear layers' products; those of other elements if left out.
        #[serde(default)]
        linear_bytes: Option<u32>,
        /// The framework whose kernels they are; the least kernels that operators need if left out.
        #[serde(default)]
        framework: Option<Framework>,
        /// Which kernels cost time.
        kernels: Counted,
    },
    /// A recommendation model of a model file, for one of the NPUs among which its tables are distributed.
    Recommender {
        /// Its parts.
        model: RecommenderSpec,
        /// Bytes of an activation, weight or gradient element.
        element_bytes: u32,
        /// Bytes of an element of the factors of linear layers' products; those of other elements if left out.
        #[serde(default)]
        linear_bytes: Option<u32>,
        /// The framework whose kernels they are; the least kernels that operators need if left out.
        #[serde(default)]
        framework: Option<Framework>,
        /// Which kernels cost time.
        kernels: Counted,
    },
    /// The text of an ASTRA-sim 1.0 workload file.
    AstraText {
        /// The file's content.
        text: String,
    },
}
