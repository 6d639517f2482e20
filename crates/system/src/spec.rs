//! The description of one simulation, as it crosses the binding.
//!
//! Units are fixed here: picoseconds, bytes, bytes per second, hertz. Names, units with prefixes and
//! defaults for people live in the Python package, which validates first; the checks of [`crate::build`]
//! repeat only what would otherwise make the engine panic.

mod compute;
pub(crate) mod fabric;
mod graph;
mod imported;
mod job;
mod kind;
mod plan;

pub use crate::endpoints::{
    AceSpec, BaselineSpec, BusSpec, ContentionSpec, EndpointSpec, ForwardingSpec, FsmSplitSpec, IdealSpec, LoadSpec,
    SharingSpec, StreamsSpec, SwitchOffloadSpec, TransitSpec, WholeSpec,
};
pub use crate::networks::{AnalyticalSpec, DeadlockRule, FlowSpec, NetworkSpec, PacketSpec};
pub use compute::{
    ArraySpec, BasisSpec, ComputeModelSpec, ComputeSpec, DataflowSpec, MeasurementsSpec, SparsitySpec, SramSpec,
};
pub use fabric::{BlockSpec, DimSpec, FabricSpec, GraphLinkSpec, NodeSpec, OddLinkSpec, RoutingSpec};
pub use graph::{
    ClassSpec, FamilySpec, GraphNodeSpec, GraphSpec, MembersSpec, MessageSpec, OrderSpec, PassSpec, WorkSpec,
};
pub use job::{BucketSpec, JobSpec, PlacedJobSpec, StrategySpec, WorkloadSpec};

pub(crate) use imported::parallel;
pub use kind::CollectiveKindSpec;
pub use plan::PlanSpec;
pub(crate) use plan::refusals;

use crate::errors::RunError;
use crate::known_graphs::KnownGraphs;
use crate::pieces::Chunking;
use serde::Deserialize;
use std::sync::Arc;
use syncline_core::{NodeId, Ps, Refusal, Resolution};
use syncline_endpoint::Held;

/// One simulation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The fabric.
    pub fabric: FabricSpec,
    /// Who communicates with whom; everybody with everybody if left out.
    #[serde(default)]
    pub groups: Option<GroupsSpec>,
    /// Whether equal NPUs are simulated once.
    #[serde(default)]
    pub fold: FoldSpec,
    /// The seed from which all random numbers of the run follow.
    #[serde(default)]
    pub seed: u64,
    /// Links that change during the run.
    #[serde(default)]
    pub changes: Vec<ChangeSpec>,
    /// Attributes of nodes that the network backend knows.
    #[serde(default)]
    pub attributes: Vec<AttributeSpec>,
    /// The network backend.
    pub network: NetworkSpec,
    /// The endpoint of every NPU.
    pub endpoint: EndpointSpec,
    /// How collectives are carried out.
    pub collectives: CollectiveSpec,
    /// Families of communicators, which take the place of `groups` and `collectives`.
    #[serde(default)]
    pub families: Vec<FamilySpec>,
    /// Communicators whose collectives are carried out otherwise than their family, or `collectives`, says.
    #[serde(default)]
    pub overrides: Vec<OverrideSpec>,
    /// What is run.
    pub job: JobSpec,
    /// When NPUs begin.
    #[serde(default)]
    pub start: StartSpec,
    /// What is recorded.
    pub output: OutputSpec,
    /// Runs that would take more memory are refused.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// Graphs that were built before, of which this run may have one.
    #[serde(skip)]
    pub graphs: Arc<KnownGraphs>,
}

/// A fabric in the place of one that has been read.
const UNREAD: &str = r#""fabric": {"kind": "product", "dims": []}"#;

impl Spec {
    /// Reads a description.
    ///
    /// # Errors
    /// [`RunError::Spec`] with the field that is not what it should be.
    pub fn read(json: &str) -> Result<Spec, RunError> {
        let mut input = serde_json::Deserializer::from_str(json);
        let wrong = |error: serde_path_to_error::Error<serde_json::Error>| {
            let field = error.path().to_string();
            Refusal::of(if field == "." { "" } else { &field }, error.into_inner().to_string())
        };
        let mut spec: Spec = serde_path_to_error::deserialize(&mut input).map_err(wrong)?;
        input.end().map_err(|error| Refusal::of("", error.to_string()))?;
        spec.take_families()?;
        Ok(spec)
    }

    /// Reads a description of a run on a graph that may be known.
    ///
    /// # Errors
    /// As [`Spec::read`].
    pub fn read_on(graphs: &Arc<KnownGraphs>, json: &str) -> Result<Spec, RunError> {
        let read = match graphs.read(json) {
            // What is refused is refused with places in the whole text.
            Some((fabric, rest)) => match Spec::read(&format!("{{{UNREAD}{rest}")) {
                Ok(spec) => Spec { fabric, ..spec },
                Err(_) => Spec::read(json)?,
            },
            None => Spec::read(json)?,
        };
        Ok(Spec { graphs: graphs.clone(), ..read })
    }
}

impl Spec {
    /// A description that was made instead of being read, with what reading adds.
    ///
    /// # Panics
    /// If that is refused.
    #[must_use]
    pub fn read_again(mut self) -> Spec {
        self.take_families().unwrap_or_else(|refusal| panic!("{refusal:?}"));
        self
    }
}

/// An attribute of a node that the network backend knows, such as the size of a switch's buffer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttributeSpec {
    /// Number of the node.
    pub node: u32,
    /// What the backend calls it.
    pub name: String,
    /// Its value, in the unit that its name ends with.
    pub value: u64,
}

/// A change at a stated time. Of several changes of one link at the same time the one that is listed last counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ChangeSpec {
    /// A link gets another rate and latency.
    Link {
        /// When.
        at_ps: u64,
        /// Number of the sending node.
        node: u32,
        /// Number of its port.
        port: u16,
        /// Payload rate from then on, efficiency included; `None` while the link is down.
        rate_bytes_per_s: Option<u64>,
        /// Latency from then on.
        latency_ps: u64,
    },
    /// All links from one node to another become slower, or as fast as they were, or lose packets.
    Between {
        /// When.
        at_ps: u64,
        /// Number of the sending node.
        from: u32,
        /// Number of the receiving node, its neighbour.
        to: u32,
        /// Rate from then on, in percent of what the fabric says; 0 while they are down.
        rate_percent: u8,
        /// Of a million packets so many get lost from then on.
        #[serde(default)]
        loss_millionths: u32,
    },
    /// A node, such as a NIC or a switch, becomes slower or as fast as it was: all links that leave or enter it do.
    Node {
        /// When.
        at_ps: u64,
        /// Its number.
        node: u32,
        /// Rate of its links from then on, in percent of what the fabric says; 0 while the node is down.
        rate_percent: u8,
    },
}

/// Groups of NPUs that run the collectives of the job side by side.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupsSpec {
    /// The members of each group, by rank. All groups have the same size; an NPU is in one at most.
    pub members: Vec<Vec<u32>>,
    /// The ranks of a group as a grid, the first dimension innermost; a line if left out.
    #[serde(default)]
    pub grid: Option<Vec<u32>>,
    /// The dimensions of a product along which the groups extend, if that is what they are.
    #[serde(skip)]
    pub along: Option<Vec<u8>>,
}

impl GroupsSpec {
    /// The members of each group as nodes.
    pub(crate) fn nodes(&self) -> Vec<Vec<NodeId>> {
        self.members.iter().map(|members| members.iter().map(|&npu| NodeId(npu)).collect()).collect()
    }
}

/// Communicators of a family whose collectives are carried out otherwise than the family says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideSpec {
    /// The number of the family; 0 where the description has `groups`.
    pub family: u8,
    /// The communicators, each by the NPU that is its rank 0.
    pub first: Vec<u32>,
    /// The ranks of each as a grid, where that is another one than that of the family.
    #[serde(default)]
    pub grid: Option<Vec<u32>>,
    /// How their collectives are carried out.
    pub collectives: CollectiveSpec,
}

/// Whether equal NPUs are simulated once.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum FoldSpec {
    /// Where it is exact.
    Auto,
    /// Always; where it is not exact the run is refused.
    On,
    /// Never.
    #[default]
    Off,
}

/// When NPUs begin. One begins at the sum of its offset and of what it draws.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StartSpec {
    /// NPUs that begin later than time zero: the number of the NPU, and its offset in picoseconds.
    pub offsets: Vec<(u32, u64)>,
    /// Every NPU draws a time below this, in picoseconds.
    pub jitter_ps: u64,
}

/// How a collective is carried out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveSpec {
    /// The algorithm, or the composition over dimensions.
    pub algorithm: AlgorithmSpec,
    /// Algorithms of kinds of collectives that have one of their own.
    #[serde(default)]
    pub algorithms: Vec<(CollectiveKindSpec, AlgorithmSpec)>,
    /// Plans of files, which take the place of the algorithm for the kinds of collectives that they are for.
    #[serde(default)]
    pub plans: Vec<PlanSpec>,
    /// For how many parts of a chunk each thread of a schedule does its steps, one after the other.
    #[serde(default = "once")]
    pub loops: u32,
    /// What phases do along each dimension; what suits the dimension if left out.
    #[serde(default)]
    pub per_dimension: Option<Vec<DimAlgorithmSpec>>,
    /// The order in which a rank of a direct algorithm posts its messages to the others.
    #[serde(default)]
    pub posting: PostingSpec,
    /// Blocks that trees and chains are pipelined over; 0 for as many as trials say are best.
    #[serde(default)]
    pub slices: u32,
    /// Whether every chunk is padded so that all blocks are equal.
    #[serde(default)]
    pub padding: bool,
    /// How a collective is cut into chunks.
    pub chunking: ChunkingSpec,
    /// Kinds of collectives that are cut into a number of chunks of their own.
    #[serde(default)]
    pub chunks_of: Vec<(CollectiveKindSpec, u32)>,
    /// Bytes that a chunk has at least where the number of chunks is said: smaller collectives have fewer.
    #[serde(default)]
    pub least_chunk_bytes: u64,
    /// What collectives cost by a model of software, in place of their bytes alone. Where there are any, the collectives of a
    /// communicator go one after the other.
    #[serde(default)]
    pub priced: Vec<PricedSpec>,
    /// Chunks that an NPU has in flight at most (endpoints with their own limit ignore it).
    pub inflight: u32,
    /// Chunks that an NPU has in one phase along a dimension at most, if that is limited.
    #[serde(default)]
    pub inflight_per_dimension: Option<u32>,
    /// Which of several issued collectives the next chunk is taken from.
    pub scheduling: SchedulingSpec,
    /// Kinds of collectives that go before all others, the foremost first.
    #[serde(default)]
    pub priority: Vec<CollectiveKindSpec>,
    /// How chunks use the directions and parallel links of a ring.
    pub lanes: LanesSpec,
    /// Bytes of one element; nothing is ever cut finer.
    pub element_bytes: u32,
}

impl CollectiveSpec {
    /// How collectives are cut whose size or number of chunks `spec` states.
    pub(crate) fn chunking_from(&self, spec: ChunkingSpec) -> Chunking {
        match spec {
            ChunkingSpec::Size { bytes, .. } => Chunking::Size(bytes),
            ChunkingSpec::Count { chunks } => Chunking::Count { most: chunks, least: self.least_chunk_bytes },
        }
    }
}

const fn once() -> u32 {
    1
}

/// What the collectives of one kind and size cost.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct PricedSpec {
    /// The kind.
    pub collective: CollectiveKindSpec,
    /// Bytes, as the job names them.
    pub bytes: u64,
    /// Bytes that are carried out in place of them: what protocols and the shares of links that they reach make of those.
    pub wire_bytes: u64,
    /// Picoseconds from the turn of a collective on an NPU until its first byte.
    pub launch_ps: u64,
    /// What it holds of an NPU from its turn to its end, where kernels give way.
    #[serde(default)]
    pub held: HeldSpec,
}

/// What communication holds of an NPU while it is in flight.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct HeldSpec {
    /// SMs.
    pub sms: u32,
    /// Its traffic with main memory.
    pub memory_bytes_per_s: u64,
}

impl From<HeldSpec> for Held {
    fn from(spec: HeldSpec) -> Held {
        Held { sms: spec.sms, memory: spec.memory_bytes_per_s }
    }
}

/// How ranks work together.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum AlgorithmSpec {
    /// Rings. On a product one dimension after the other (all-reduce in each; reduce-scatter inwards,
    /// all-gather outwards), elsewhere one or more rings through the whole group.
    Ring,
    /// Everybody to everybody at once.
    Direct,
    /// Recursive halving and doubling; binomial trees for rooted collectives.
    HalvingDoubling,
    /// Two complementary binary trees, pipelined.
    DoubleBinaryTree,
    /// A tree of depth one per rank, pipelined.
    OneHopTrees,
    /// Through switches that add and copy, one dimension after the other.
    InSwitch,
    /// One dimension after the other, each with the algorithm that suits it.
    Hierarchical,
    /// Reduce-scatter in the first dimension, all-reduce in each other, all-gather in the first.
    #[serde(rename = "ace-4-phase")]
    AceFourPhase,
    /// The same, by the name it has on two dimensions.
    HierarchicalOptimal,
    /// Reduce-scatter in every dimension, then all-gather in reverse order.
    SixPhase,
    /// The same, every chunk through the dimensions in the order that balances their load; of the messages that wait for
    /// a port, endpoints of whole messages send the shortest first. The balance of all chunks is not that of any few of
    /// them, so three dimensions of unequal rates need 64 chunks in flight to be within 5 % of the best mixture of orders.
    /// That is out of reach of the lower bound where one dimension is so much faster that no order can use it all.
    Themis,
}

/// What phases along a dimension do.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DimAlgorithmSpec {
    /// A ring.
    Ring,
    /// Everybody to everybody at once.
    Direct,
    /// Recursive halving and doubling; binomial trees for rooted collectives.
    HalvingDoubling,
    /// Two complementary binary trees, pipelined.
    DoubleBinaryTree,
    /// A tree of depth one per rank, pipelined.
    OneHopTrees,
    /// Through a switch that adds and copies.
    InSwitch,
}

/// The order in which a rank of a direct algorithm posts its messages to the others.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum PostingSpec {
    /// The nearest first, so that no two ranks turn to the same one at a time; on a torus, by its distances.
    #[default]
    Rotated,
    /// By number, so that all ranks turn to the same one at a time.
    Sequential,
    /// In an order of its own for every rank, drawn with the seed of the run.
    Random,
}

/// How a collective is cut into chunks.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ChunkingSpec {
    /// As many chunks as it takes, equal but for one element, or for what they are padded to.
    Size {
        /// Bytes of a chunk at most, but for the padding.
        bytes: u64,
        /// Chunks are larger where a block of a phase would be smaller than this.
        #[serde(default)]
        least_block_bytes: u64,
    },
    /// A number of chunks, equal but for one element, or for what they are padded to.
    Count {
        /// Number of chunks.
        chunks: u32,
    },
}

/// The order in which issued collectives get to run. Chunks in flight are never pre-empted.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingSpec {
    /// The earliest issued first.
    Fifo,
    /// The latest issued first.
    Lifo,
}

/// How chunks use the lanes (directions times parallel links) of a ring.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum LanesSpec {
    /// Whole chunks take the lanes in turn.
    Alternate,
    /// Every chunk is split over all lanes.
    Split,
    /// Everything goes up, on the first link.
    One,
}

/// What is recorded beside the summary.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// Length of a utilisation window; if it is not said, one that makes some hundreds of windows of a short run.
    #[serde(default)]
    pub window_ps: Option<u64>,
    /// NPUs whose slices are traced (by number); empty for no trace.
    pub trace_npus: Vec<u32>,
    /// At most so many slices.
    pub trace_limit: u32,
    /// Whether a training run is to say what one more iteration costs, if that takes a longer one ([`crate::steady`]).
    #[serde(default)]
    pub steady: bool,
}

impl OutputSpec {
    /// How finely utilisation is recorded.
    pub fn resolution(&self) -> Resolution {
        self.window_ps.map_or(Resolution::OF_THE_RUN, |length| Ps(length).into())
    }
}
