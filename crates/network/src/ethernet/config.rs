//! What the network is like.

use super::link::Marking;
use super::tcp::TcpConfig;
use syncline_core::Ps;

/// A network of switches with output queues, and the transport of its hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct EthernetConfig {
    /// What connections are like.
    pub tcp: TcpConfig,
    /// Bytes of a frame beside its payload, which is the size of a bare acknowledgement.
    pub overhead: u32,
    /// Bytes that may wait before each link that leaves a switch.
    pub buffer: u64,
    /// Bytes that may wait before each link that leaves a host.
    pub nic_buffer: u64,
    /// When switches mark frames.
    pub marking: Marking,
    /// Whether all messages between two nodes share a connection, whatever their queue.
    pub connection_per_pair: bool,
    /// What random numbers depend on.
    pub seed: u64,
    /// The length of the windows in which the use of links is collected.
    pub window: Ps,
}

/// Bytes that a SACK block adds to an acknowledgement (RFC 2018, section 3).
pub const BLOCK_BYTES: u32 = 8;

impl EthernetConfig {
    /// What the study of DLRM over TCP has (Rashidi et al., HOTI 2020, Tables III, IV), with the TCP of ns-3.37.
    pub const NS3: EthernetConfig = EthernetConfig {
        tcp: TcpConfig::NS3,
        overhead: 54,
        buffer: 1 << 19,
        nic_buffer: u64::MAX,
        marking: Marking::None,
        connection_per_pair: false,
        seed: 0,
        window: Ps(1_000_000),
    };
}
