//! What the network is like.

use super::background::Source;
use super::link::Marking;
use super::roce::RoceConfig;
use super::switching::SwitchingConfig;
use super::tcp::TcpConfig;
use std::num::NonZeroU32;
use syncline_core::{NodeId, PortId, Ps, Resolution};

/// Which of several equally good ways frames take. Acknowledgements go back over the links that the first frame of their
/// connection took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancing {
    /// All frames of a connection take the same one, by a hash of the connection and the seed (RFC 2992: equal-cost multi-path).
    PerConnection,
    /// Every frame takes another one, at random.
    PerFrame,
}

/// A network of switches with output queues, and the transport of its hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct EthernetConfig {
    /// Classes of links within machines, such as NVLink and PCIe: they lose nothing, and have no transport. A host's ports ask
    /// connections in turn where there are such links.
    pub local_classes: Vec<u8>,
    /// What connections are like, unless they are queue pairs.
    pub tcp: TcpConfig,
    /// What queue pairs are like, if hosts have RoCE instead of TCP.
    pub roce: Option<RoceConfig>,
    /// How links are served frame by frame; `None` for first come, first served. RoCE needs it.
    pub switching: Option<SwitchingConfig>,
    /// Bytes of a frame beside its payload, which is the size of a bare acknowledgement.
    pub overhead: u32,
    /// Bytes that may wait before each link that leaves a switch.
    pub buffer: u64,
    /// Bytes that may wait before each link that leaves a host.
    pub nic_buffer: u64,
    /// How many messages of a host may have been posted without having left; `None` for any number.
    pub outstanding: Option<NonZeroU32>,
    /// When switches mark frames.
    pub marking: Marking,
    /// Whether all messages between two nodes share a connection, whatever their queue.
    pub connection_per_pair: bool,
    /// Which of several equally good ways frames take.
    pub balancing: Balancing,
    /// Connections between these nodes are sampled.
    pub watched: Vec<(NodeId, NodeId)>,
    /// Traffic beside that of the run.
    pub background: Vec<Source>,
    /// What leaves by these ports is recorded.
    pub captured: Vec<(NodeId, PortId)>,
    /// What random numbers depend on.
    pub seed: u64,
    /// The length of the windows in which the use of links is collected.
    pub window: Resolution,
}

/// Bytes that a SACK block adds to an acknowledgement (RFC 2018, section 3).
pub const BLOCK_BYTES: u32 = 8;

impl EthernetConfig {
    /// Payload of a full frame.
    pub fn segment(&self) -> u32 {
        self.roce.map_or(self.tcp.segment, |roce| roce.segment)
    }

    /// What the study of DLRM over TCP has (Rashidi et al., HOTI 2020, Tables III, IV), with the TCP of ns-3.37.
    pub const NS3: EthernetConfig = EthernetConfig {
        tcp: TcpConfig::NS3,
        local_classes: Vec::new(),
        roce: None,
        switching: None,
        overhead: 54,
        buffer: 1 << 19,
        nic_buffer: u64::MAX,
        outstanding: None,
        marking: Marking::None,
        connection_per_pair: false,
        balancing: Balancing::PerConnection,
        watched: Vec::new(),
        background: Vec::new(),
        captured: Vec::new(),
        seed: 0,
        window: Resolution::of(Ps(1_000_000)),
    };
}
