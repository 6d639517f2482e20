//! The view of a network that every model above this crate works with.

use syncline_core::{NodeId, PortId, Ps, Rate};

/// One direction of a physical link, as seen from its sending port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Payload rate: the raw rate times the link efficiency.
    pub rate: Rate,
    /// Propagation and router latency of one hop.
    pub latency: Ps,
    /// Index of the link's class (its dimension in a product), for statistics and reports.
    pub class: u8,
}

/// Nodes with ports, and the links between them.
///
/// Nodes are numbered NPUs first, then switches. A node's ports are numbered from 0; each is both the
/// sending end of one link and the receiving end of another (the reverse link). Links are numbered by
/// sending node and port: link `first_link(node) + port`.
///
/// *Destinations.* Only [`Fabric::route`] takes a node that need not be simulated: `dst` is a number of
/// the whole machine, which on a folded fabric differs from the numbers of the simulated nodes.
pub trait Fabric: std::fmt::Debug + Send + Sync {
    /// Number of nodes that are simulated.
    fn nodes(&self) -> u32;
    /// How many of them are NPUs; they come first.
    fn npus(&self) -> u32;
    /// How many NPUs of the real machine an NPU stands for.
    fn multiplicity(&self, _node: NodeId) -> u64 {
        1
    }
    /// How many links of the real machine a link stands for.
    fn link_multiplicity(&self, _node: NodeId, _port: PortId) -> u64 {
        1
    }
    /// Number of ports of a node.
    fn ports(&self, node: NodeId) -> u16;
    /// The number of a node's first link.
    fn first_link(&self, node: NodeId) -> u32;
    /// Number of links of all nodes.
    fn links(&self) -> u32;
    /// The node at the other end of an outgoing link, and the input port on which it arrives there.
    fn next(&self, node: NodeId, port: PortId) -> (NodeId, PortId);
    /// The properties of an outgoing link.
    fn link(&self, node: NodeId, port: PortId) -> LinkSpec;
    /// Number of link classes, and the name of each.
    fn class_names(&self) -> Vec<String>;
    /// The ring that an outgoing link belongs to, as a number that differs for rings that a route may
    /// take one after the other; `None` for links that are part of no cycle of waiting packets.
    fn ring(&self, _node: NodeId, _port: PortId) -> Option<u8> {
        None
    }
    /// Whether an outgoing link closes its ring: the place for a dateline.
    fn closes_ring(&self, _node: NodeId, _port: PortId) -> bool {
        false
    }
    /// Appends the ports that a message takes from `src` to `dst` under the fabric's deterministic
    /// routing. Nothing is appended when they are the same node.
    fn route(&self, src: NodeId, dst: NodeId, path: &mut Vec<PortId>);
    /// How many ways there are from `src` to `dst` that are as good as that of [`Fabric::route`], itself included. A three-level
    /// fat tree of switches with 32 ports has 256, so a byte is not enough; fabrics with more than 16 bits can tell apart say
    /// that they have as many as these can, and use no others.
    fn routes(&self, _src: NodeId, _dst: NodeId) -> u16 {
        1
    }
    /// Appends the ports of one of these ways, by its number modulo how many there are; number 0 is that of
    /// [`Fabric::route`]. Or, with a number of [`Fabric::choice_over`], a way over links of a class,
    /// or of [`Fabric::choice_through`] one through named nodes: nothing if there is none.
    fn route_by(&self, src: NodeId, dst: NodeId, _choice: u16, path: &mut Vec<PortId>) {
        self.route(src, dst, path);
    }
    /// The choice with which [`Fabric::route_by`] gives a way whose first and last link are of a class of links, between them
    /// by nodes that are no NPUs; `None` if the fabric knows no such ways.
    fn choice_over(&self, _class: u8) -> Option<u16> {
        None
    }
    /// The choice with which [`Fabric::route_by`] gives the way that passes these nodes, one after the other: nothing between
    /// NPUs that they do not connect. `None` if the fabric knows no such ways, if NPUs are among the nodes, or if too many
    /// ways have been asked for.
    fn choice_through(&self, _nodes: &[NodeId]) -> Option<u16> {
        None
    }
    /// The number of links of that route.
    fn distance(&self, src: NodeId, dst: NodeId) -> u32 {
        let mut path = Vec::new();
        self.route(src, dst, &mut path);
        path.len() as u32
    }
    /// A name for a node in messages to people, e.g. `NPU 17 (1,0,2)`.
    fn node_name(&self, node: NodeId) -> String;
    /// A name for a port in messages to people, e.g. `dim 1 up`.
    fn port_name(&self, node: NodeId, port: PortId) -> String;
}

impl<F: Fabric + ?Sized> Fabric for std::sync::Arc<F> {
    fn nodes(&self) -> u32 {
        (**self).nodes()
    }

    fn npus(&self) -> u32 {
        (**self).npus()
    }

    fn multiplicity(&self, node: NodeId) -> u64 {
        (**self).multiplicity(node)
    }

    fn link_multiplicity(&self, node: NodeId, port: PortId) -> u64 {
        (**self).link_multiplicity(node, port)
    }

    fn ports(&self, node: NodeId) -> u16 {
        (**self).ports(node)
    }

    fn first_link(&self, node: NodeId) -> u32 {
        (**self).first_link(node)
    }

    fn links(&self) -> u32 {
        (**self).links()
    }

    fn next(&self, node: NodeId, port: PortId) -> (NodeId, PortId) {
        (**self).next(node, port)
    }

    fn link(&self, node: NodeId, port: PortId) -> LinkSpec {
        (**self).link(node, port)
    }

    fn class_names(&self) -> Vec<String> {
        (**self).class_names()
    }

    fn ring(&self, node: NodeId, port: PortId) -> Option<u8> {
        (**self).ring(node, port)
    }

    fn closes_ring(&self, node: NodeId, port: PortId) -> bool {
        (**self).closes_ring(node, port)
    }

    fn route(&self, src: NodeId, dst: NodeId, path: &mut Vec<PortId>) {
        (**self).route(src, dst, path);
    }

    fn routes(&self, src: NodeId, dst: NodeId) -> u16 {
        (**self).routes(src, dst)
    }

    fn choice_over(&self, class: u8) -> Option<u16> {
        (**self).choice_over(class)
    }

    fn choice_through(&self, nodes: &[NodeId]) -> Option<u16> {
        (**self).choice_through(nodes)
    }

    fn route_by(&self, src: NodeId, dst: NodeId, choice: u16, path: &mut Vec<PortId>) {
        (**self).route_by(src, dst, choice, path);
    }

    fn distance(&self, src: NodeId, dst: NodeId) -> u32 {
        (**self).distance(src, dst)
    }

    fn node_name(&self, node: NodeId) -> String {
        (**self).node_name(node)
    }

    fn port_name(&self, node: NodeId, port: PortId) -> String {
        (**self).port_name(node, port)
    }
}

/// Every link of a fabric, by sending node and port, in the order of link numbers.
pub fn all_links(fabric: &(impl Fabric + ?Sized)) -> impl Iterator<Item = (NodeId, PortId)> + '_ {
    let ports = |node| (0..fabric.ports(node)).map(move |port| (node, PortId(port)));
    (0..fabric.nodes()).map(NodeId).flat_map(ports)
}
