//! Network backends, a module each: what a description of one says, and everything that the rest of the system asks of it.
//!
//! A backend is named here once, in the list at the end.

mod analytical;
mod background;
pub(crate) mod conditions;
mod ethernet;
mod flow;
mod packet;

pub use analytical::AnalyticalSpec;
pub use background::BackgroundSpec;
pub use ethernet::{DcqcnSpec, EthernetSpec, MarkingSpec, RoceSpec, SwitchingSpec};
pub use flow::FlowSpec;
pub use packet::{DeadlockRule, PacketSpec};

use crate::timer::{Timer, timers};
use serde::Deserialize;
use std::sync::Arc;
use syncline_core::table::Declaration;
use syncline_core::{NodeId, PortId, Ps, Rate, Refusal, Resolution};
use syncline_network::Network;
use syncline_topology::Fabric;

/// What the rest of the system asks of a backend.
pub trait NetworkModel {
    /// Bytes of memory that a link takes.
    fn link_bytes(&self) -> u64;

    /// Bytes of a packet; `None` for a backend without packets.
    fn packet_bytes(&self) -> Option<u32> {
        None
    }

    /// The same with packets that are so many times larger, in a network that has packets: for trials.
    fn coarser(&self, _scale: u32) -> Option<NetworkSpec> {
        None
    }

    /// Whether it keeps the way between any two NPUs that send to each other.
    fn keeps_paths(&self) -> bool {
        false
    }

    /// Bytes that it keeps for a connection of which messages of so many bytes on average are under way.
    fn connection_bytes(&self, _message: u64) -> u64 {
        0
    }

    /// Classes of links: messages that take no others are flows, of which nothing moves packet by packet.
    fn flow_classes(&self) -> &[String] {
        &[]
    }

    /// Whether a link carries no more than it can, however many messages share it.
    fn has_contention(&self) -> bool {
        true
    }

    /// Why runs are not folded on a fabric with links of these rates and latencies, whatever is run.
    fn unfolded(&self, _links: &mut dyn Iterator<Item = (Rate, Ps)>) -> Option<&'static str> {
        None
    }

    /// Whether what NPUs send through a switch is served in an order that depends on how many of them there are.
    fn takes_turns_at_switches(&self) -> bool {
        false
    }

    /// Whether links can change during a run.
    fn takes_changes(&self) -> bool {
        false
    }

    /// Names of the attributes that a node may have: of a switch, say, the size of its buffer. What they mean, which values
    /// they may have and what is taken where one is not stated is the backend's.
    fn attributes(&self) -> &'static [&'static str] {
        &[]
    }

    /// The tables that it adds to the results of a run ([`Network::counters`]).
    fn tables(&self) -> Vec<&'static Declaration> {
        Vec::new()
    }

    /// Whether circles of packets that wait for each other are prevented.
    fn prevents_deadlock(&self) -> bool {
        true
    }
}

/// A backend that can be built.
pub trait BuildNetwork: NetworkModel {
    /// The backend.
    type Network: Network<Event: Timer<Layer = NetworkEvent>> + 'static;

    /// Whether it can be what a run needs on a fabric, without building it.
    ///
    /// # Errors
    /// A [`Refusal`] of a field of the description.
    fn check(&self, _fabric: &dyn Fabric, _needs: &NetworkNeeds) -> Result<(), Refusal> {
        Ok(())
    }

    /// Builds it for a fabric, of what [`BuildNetwork::check`] does not refuse.
    fn build(&self, fabric: Arc<dyn Fabric>, needs: &NetworkNeeds) -> Self::Network;
}

/// What a run needs of its network.
#[derive(Clone, Debug)]
pub struct NetworkNeeds {
    /// Packets that every input buffer holds at least, for each traffic class.
    pub buffer_packets: u32,
    /// Traffic classes that have buffers of their own.
    pub classes: u8,
    /// Whether endpoints forward, instead of the network.
    pub transit: bool,
    /// Whether connections take turns at their sender's port.
    pub turns: bool,
    /// Whether they take turns at the outputs of switches as well, where they do at their sender's port.
    pub in_rounds: bool,
    /// Whether messages are of different precedence, and larger ones go first where the backend chooses.
    pub by_precedence: bool,
    /// The length of the windows in which the use of links is collected.
    pub window: Resolution,
    /// What random numbers depend on ([`syncline_core::random`]): a backend that draws some makes a
    /// [`RandomStream`](syncline_core::random::RandomStream) of it for every link, or whatever else draws.
    pub seed: u64,
    /// Links that change during the run, in the order of time.
    pub changes: Vec<LinkChange>,
    /// What nodes have of the attributes that the backend knows ([`NetworkModel::attributes`]). Of several of one node and
    /// name the last one counts.
    pub attributes: Vec<NodeAttribute>,
}

/// An attribute of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAttribute {
    /// The node.
    pub node: NodeId,
    /// Which one it is.
    pub name: &'static str,
    /// Its value, in the unit that its name ends with.
    pub value: u64,
}

/// A link that gets another rate and latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// When.
    pub at: Ps,
    /// The node that sends through it.
    pub node: NodeId,
    /// Its port.
    pub port: PortId,
    /// Payload rate from then on; `None` while it is down.
    pub rate: Option<Rate>,
    /// Latency from then on.
    pub latency: Ps,
    /// Of a million packets so many get lost from then on.
    pub loss_millionths: u32,
}

/// Does something with a backend, of whatever type.
pub trait WithNetwork {
    /// What comes of it.
    type Output;

    /// Does it.
    fn with<B: BuildNetwork>(self, network: &B) -> Self::Output;
}

/// A timer of a backend that is not listed below, such as one of tests ([`crate::build::run_on`]): two numbers that the
/// backend knows the meaning of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlistedTimer(pub u32, pub u32);

macro_rules! networks {
    ($($name:ident($text:literal, $spec:ty, $timer:ty)),+ $(,)?) => {
        /// A network backend and its parameters.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(tag = "backend")]
        #[expect(missing_docs, reason = "each variant holds the description of the backend it is named after")]
        pub enum NetworkSpec {
            $(#[serde(rename = $text)] $name($spec)),+
        }

        impl NetworkSpec {
            /// What the rest of the system asks of it.
            pub fn model(&self) -> &dyn NetworkModel {
                match self {
                    $(NetworkSpec::$name(spec) => spec),+
                }
            }

            /// Does something with the backend itself.
            pub fn with<W: WithNetwork>(&self, what: W) -> W::Output {
                match self {
                    $(NetworkSpec::$name(spec) => what.with(spec)),+
                }
            }

            /// Every backend, with parameters that are usual.
            pub fn all() -> Vec<NetworkSpec> {
                vec![$(NetworkSpec::$name(<$spec>::default())),+]
            }
        }

        timers!(
            NetworkEvent, "Timers of network backends.":
            $($name($timer),)+
            Unlisted(UnlistedTimer)
        );
    };
}

networks! {
    Analytical("analytical", AnalyticalSpec, syncline_network::analytical::Event),
    Flow("flow", FlowSpec, syncline_network::flow::Event),
    Packet("packet", PacketSpec, syncline_network::packet::Event),
    Ethernet("ethernet", EthernetSpec, syncline_network::ethernet::Event),
}
