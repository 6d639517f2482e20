//! Graphs of compute and communication that are written out, and the families of communicators that they name.

use super::CollectiveSpec;
use super::kind::CollectiveKindSpec;
use serde::Deserialize;
use syncline_core::Refusal;
use syncline_workload::described::request::KernelSpec;

/// A family of communicators.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilySpec {
    /// Its name.
    pub name: String,
    /// Its communicators.
    pub members: MembersSpec,
    /// How its collectives are carried out.
    pub collectives: CollectiveSpec,
    /// Who goes first where families of an NPU wait for the same thing and something chooses: the larger.
    #[serde(default)]
    pub priority: u8,
    /// Whose messages go first in the network: those of the larger.
    #[serde(default)]
    pub traffic_class: u8,
}

impl FamilySpec {
    /// The largest priority, and the largest traffic class.
    pub const MOST: u8 = syncline_network::TrafficClass::PRECEDENCES - 1;

    /// Refuses what is too large; `number` is that of the family.
    pub(crate) fn check(&self, number: usize) -> Result<(), Refusal> {
        for (field, value) in [("priority", self.priority), ("traffic_class", self.traffic_class)] {
            if value > Self::MOST {
                let words = field.replace('_', " ");
                let refusal = Refusal::of(&format!("families.{number}.{field}"), format!("a {words} of {value}"));
                return Err(refusal.accepting(format!("0 to {}", Self::MOST)));
            }
        }
        Ok(())
    }
}

/// The communicators of a family.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum MembersSpec {
    /// NPUs stand on a grid; those that differ along some of its dimensions only are a communicator.
    Grid {
        /// NPUs along each dimension, the first one innermost.
        sizes: Vec<u32>,
        /// The dimensions along which a communicator extends; its ranks run fastest along the first of them.
        along: Vec<u8>,
        /// The NPU at the origin of the grid.
        #[serde(default)]
        first: u32,
    },
    /// The members of each communicator, by rank.
    List {
        /// They may be of any sizes.
        groups: Vec<Vec<u32>>,
        /// The ranks of each as a grid, the first dimension innermost; a line if left out.
        #[serde(default)]
        grid: Option<Vec<u32>>,
    },
}

/// Graphs of classes of NPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    /// The classes. An NPU that is of none does nothing.
    pub classes: Vec<ClassSpec>,
    /// Kernels that run one after the other, for nodes to name by the number of the row: many nodes cost the same.
    #[serde(default)]
    pub costs: Vec<Vec<KernelSpec>>,
    /// Why NPUs that do the same may still come to differ, if they may: then each is simulated.
    #[serde(default)]
    pub unfolded: Option<String>,
}

/// NPUs that do the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// Its name.
    pub name: String,
    /// Its NPUs.
    pub npus: Vec<u32>,
    /// How each of its streams chooses its next node, the main one first.
    #[serde(default = "one_in_order")]
    pub streams: Vec<OrderSpec>,
    /// The nodes of an iteration.
    pub nodes: Vec<GraphNodeSpec>,
}

fn one_in_order() -> Vec<OrderSpec> {
    vec![OrderSpec::InOrder]
}

/// Which of the nodes of a stream runs next.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum OrderSpec {
    /// The next one of the list, once its dependencies are done.
    #[default]
    InOrder,
    /// Of those whose dependencies are done, the first of the list.
    ByReadiness,
    /// The next one of the list, by the host of the NPU, whose work takes nothing of the NPU.
    Host,
}

/// A node of an iteration: in JSON an object or, since there may be millions, a list of all its fields in this order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphNodeSpec {
    /// The layer that it belongs to, in results.
    pub layer: String,
    /// The pass that it belongs to.
    #[serde(default)]
    pub pass: PassSpec,
    /// The stream on which it computes.
    #[serde(default)]
    pub stream: u8,
    /// Nodes of the iteration that must be done before, by their numbers in the list.
    #[serde(default)]
    pub after: Vec<u32>,
    /// Nodes of the iteration before that must be done before.
    #[serde(default)]
    pub after_previous: Vec<u32>,
    /// What it does.
    pub work: WorkSpec,
}

/// A pass of a training iteration.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum PassSpec {
    /// Forward.
    #[default]
    Forward,
    /// Gradient with respect to the input.
    InputGrad,
    /// Gradient with respect to the weights.
    WeightGrad,
    /// Weight update.
    Update,
}

/// What a node does.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub enum WorkSpec {
    /// Computes for a time.
    Time {
        /// How long.
        time_ps: u64,
    },
    /// Computes.
    Compute {
        /// Floating-point operations.
        flops: u64,
        /// Bytes to and from main memory.
        bytes: u64,
    },
    /// Computes the kernels of a row of the table of costs.
    Kernels {
        /// The number of the row.
        cost: u32,
    },
    /// A collective.
    Collective {
        /// The number of the family.
        family: u8,
        /// Which.
        kind: CollectiveKindSpec,
        /// Bytes of the full vector on each NPU.
        bytes: u64,
        /// The rank of the root of a rooted one.
        #[serde(default)]
        root: u32,
    },
    /// A barrier: an all-reduce of one element.
    Barrier {
        /// The number of the family.
        family: u8,
    },
    /// An all-to-all with a size for each pair of ranks.
    Exchange {
        /// The number of the family.
        family: u8,
        /// By sending rank, the bytes that it sends to each rank.
        bytes: Vec<Vec<u64>>,
    },
    /// Sends a message.
    Send(MessageSpec),
    /// Receives a message.
    Recv(MessageSpec),
}

/// A message between two ranks.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSpec {
    /// The number of the family.
    pub family: u8,
    /// The other rank: so many ranks on, around the communicator.
    pub peer: i32,
    /// What messages between the two are told apart by, below 2^32 - 1.
    #[serde(default)]
    pub tag: u32,
    /// Its length.
    pub bytes: u64,
}
