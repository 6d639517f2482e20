//! What the links of a fabric carried, collected alike by every backend.

use syncline_core::{Bytes, NodeId, PortId, Ps, Windows};
use syncline_topology::Fabric;

/// Bytes and busy time per link, and busy time per link class in windows.
#[derive(Clone, Debug)]
pub struct LinkUsage {
    ports: usize,
    classes: Vec<u8>,
    bytes: Vec<u64>,
    busy: Vec<u64>,
    windows: Vec<Windows>,
    packet_hops: u64,
}

impl LinkUsage {
    /// Usage of all links of `fabric`, with the busy time of each class in windows of `window`.
    pub fn new(fabric: &impl Fabric, window: Ps) -> LinkUsage {
        let ports = usize::from(fabric.ports());
        let links = ports * fabric.nodes() as usize;
        let classes: Vec<u8> = (0..fabric.ports()).map(|p| fabric.port_use(PortId(p)).dim).collect();
        let count = classes.iter().max().map_or(0, |&c| usize::from(c) + 1);
        LinkUsage {
            ports,
            classes,
            bytes: vec![0; links],
            busy: vec![0; links],
            windows: vec![Windows::new(window); count],
            packet_hops: 0,
        }
    }

    /// A link was busy from `from` to `to` with `packets` packets of together `len` bytes.
    #[inline]
    pub fn add(&mut self, at: NodeId, port: PortId, len: Bytes, packets: u64, from: Ps, to: Ps) {
        let link = at.index() * self.ports + port.index();
        self.bytes[link] += len.0;
        self.busy[link] += to.0 - from.0;
        self.packet_hops += packets;
        self.windows[usize::from(self.classes[port.index()])].add(from, to);
    }

    /// Bytes that the link behind a port carried.
    pub fn bytes(&self, at: NodeId, port: PortId) -> Bytes {
        Bytes(self.bytes[at.index() * self.ports + port.index()])
    }

    /// Time that the link behind a port was busy.
    pub fn busy(&self, at: NodeId, port: PortId) -> Ps {
        Ps(self.busy[at.index() * self.ports + port.index()])
    }

    /// Bytes that all links carried.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Busy time of all links together.
    pub fn total_busy(&self) -> u128 {
        self.busy.iter().map(|&b| u128::from(b)).sum()
    }

    /// Packets times links (messages times links for a backend without packets).
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    /// Busy time per window of all links of each class (dimension).
    pub fn windows(&self) -> &[Windows] {
        &self.windows
    }
}
