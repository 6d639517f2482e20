//! The view of a network that every model above this crate works with.

use syncline_core::{NodeId, PortId, Ps, Rate};

/// One direction of a physical link, as seen from its sending port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Payload rate: the raw rate times the link efficiency.
    pub rate: Rate,
    /// Propagation and router latency of one hop.
    pub latency: Ps,
    /// Index of the link's class (its dimension), for statistics and reports.
    pub class: u8,
}

/// What a port is for, in terms of the dimension product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortUse {
    /// The dimension the port belongs to.
    pub dim: u8,
    /// Whether it leads to the neighbour with the next higher coordinate (else the next lower).
    pub up: bool,
    /// Which of the parallel links of this dimension and direction.
    pub parallel: u8,
}

/// Nodes with ports. Ports are numbered alike on every node.
pub trait Fabric {
    /// Number of nodes that are simulated.
    fn nodes(&self) -> u32;
    /// How many nodes of the real machine `node` stands for.
    fn multiplicity(&self, node: NodeId) -> u32;
    /// Number of ports of a node.
    fn ports(&self) -> u8;
    /// The node at the other end of an outgoing link, and the input port on which it arrives there.
    fn next(&self, node: NodeId, port: PortId) -> (NodeId, PortId);
    /// The properties of an outgoing link.
    fn link(&self, node: NodeId, port: PortId) -> LinkSpec;
    /// What a port is for.
    fn port_use(&self, port: PortId) -> PortUse;
    /// Appends the ports that a message takes from `src` to `dst` under the fabric's deterministic
    /// routing. Nothing is appended when they are the same node.
    fn route(&self, src: NodeId, dst: NodeId, path: &mut Vec<PortId>);
    /// A name for a node in messages to people, e.g. `NPU 17 (1,0,2)`.
    fn node_name(&self, node: NodeId) -> String;
    /// A name for a port in messages to people, e.g. `dim 1 up`.
    fn port_name(&self, port: PortId) -> String {
        let u = self.port_use(port);
        let way = if u.up { "up" } else { "down" };
        match u.parallel {
            0 => format!("dim {} {way}", u.dim),
            n => format!("dim {} {way} #{n}", u.dim),
        }
    }
}

impl<F: Fabric + ?Sized> Fabric for std::sync::Arc<F> {
    fn nodes(&self) -> u32 {
        (**self).nodes()
    }

    fn multiplicity(&self, node: NodeId) -> u32 {
        (**self).multiplicity(node)
    }

    fn ports(&self) -> u8 {
        (**self).ports()
    }

    fn next(&self, node: NodeId, port: PortId) -> (NodeId, PortId) {
        (**self).next(node, port)
    }

    fn link(&self, node: NodeId, port: PortId) -> LinkSpec {
        (**self).link(node, port)
    }

    fn port_use(&self, port: PortId) -> PortUse {
        (**self).port_use(port)
    }

    fn route(&self, src: NodeId, dst: NodeId, path: &mut Vec<PortId>) {
        (**self).route(src, dst, path);
    }

    fn node_name(&self, node: NodeId) -> String {
        (**self).node_name(node)
    }
}
