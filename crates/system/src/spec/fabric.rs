//! NPUs, switches and links.

use serde::Deserialize;

/// NPUs, switches and links.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FabricSpec {
    /// A product of dimensions, the first one innermost.
    Product {
        /// The dimensions.
        dims: Vec<DimSpec>,
        /// Links that are slower, or farther, than their dimension says.
        #[serde(default)]
        odd_links: Vec<OddLinkSpec>,
    },
    /// A fabric of any shape.
    Graph {
        /// How many nodes, the first ones, are NPUs.
        npus: u32,
        /// All nodes.
        nodes: Vec<NodeSpec>,
        /// Names of the link classes.
        classes: Vec<String>,
        /// Directed links.
        links: Vec<GraphLinkSpec>,
        /// Which of several equally good ways messages take.
        #[serde(default)]
        routing: RoutingSpec,
    },
}

/// Which of several equally good ways messages take ([`syncline_topology::Routing`]).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum RoutingSpec {
    /// As machines do: near the source, the source chooses.
    #[default]
    Source,
    /// D-mod-k: the digits of the destination's number.
    Destination,
    /// Groups of NPUs with consecutive numbers and switches of their own, chosen by the sum of both places.
    Groups {
        /// NPUs of a group.
        size: u32,
        /// Index of the class of links within a group.
        class: u8,
    },
}

/// A directed link of a product that is not like the others.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OddLinkSpec {
    /// The NPU that sends through it.
    pub npu: u32,
    /// The dimension it belongs to.
    pub dim: u8,
    /// Where it leads: `up` or `down` a ring, to the `switch`, or `+k` coordinates across.
    pub way: String,
    /// Which of the parallel links.
    #[serde(default)]
    pub parallel: u16,
    /// Payload rate, efficiency included.
    pub rate_bytes_per_s: u64,
    /// Latency.
    pub latency_ps: u64,
}

/// One dimension of a product.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DimSpec {
    /// How the NPUs along it are connected.
    pub block: BlockSpec,
    /// NPUs along the dimension.
    pub size: u32,
    /// Payload rate of one link and direction, efficiency included.
    pub rate_bytes_per_s: u64,
    /// Latency of one hop.
    pub latency_ps: u64,
    /// Parallel links per direction and neighbour.
    pub links: u16,
}

/// How the NPUs along a dimension are connected.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum BlockSpec {
    /// A bidirectional ring.
    Ring,
    /// Everybody to everybody.
    FullyConnected,
    /// Everybody to one switch.
    Switch,
}

/// A node of a graph.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// What people call it.
    pub name: String,
    /// `npu`, or any kind of node that only forwards.
    pub kind: String,
}

/// A directed link of a graph.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GraphLinkSpec {
    /// Number of the sending node.
    pub from: u32,
    /// Number of the receiving node.
    pub to: u32,
    /// Payload rate, efficiency included.
    pub rate_bytes_per_s: u64,
    /// Latency.
    pub latency_ps: u64,
    /// Index of its class.
    pub class: u8,
}
