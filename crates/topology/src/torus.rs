//! Products of bidirectional rings: the tori of the ACE paper (section V, Table V).
//!
//! Node numbers run fastest in the first dimension. Every node has, per dimension of two or more
//! nodes and per parallel link, one port up and one port down; a ring of two nodes keeps both of its
//! links, which then lead to the same neighbour (Table V counts links per NPU). A dimension of one
//! node has no ports. Messages are routed dimension by dimension in order (XYZ), the shorter way
//! round, and upwards when both ways are equally long.

use crate::fabric::{Fabric, LinkSpec, PortUse};
use std::fmt;
use syncline_core::{NodeId, PortId, Ps, Rate};

/// One dimension of a product topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Nodes along the dimension.
    pub size: u32,
    /// Payload rate of one link and direction (link efficiency included).
    pub rate: Rate,
    /// Latency of one hop.
    pub latency: Ps,
    /// Parallel links per direction and neighbour.
    pub links: u8,
}

/// Why a product of rings cannot be built.
#[expect(missing_docs, reason = "the fields say what the variant's name and message say")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TorusError {
    /// No dimension at all.
    Empty,
    /// A dimension of no nodes.
    NoNodes { dim: usize },
    /// A dimension without links.
    NoLinks { dim: usize },
    /// More nodes than 32-bit numbers can name.
    TooManyNodes { nodes: u128 },
    /// More ports on a node than can be numbered.
    TooManyPorts { ports: u32 },
}

impl fmt::Display for TorusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TorusError::Empty => write!(f, "a topology needs at least one dimension"),
            TorusError::NoNodes { dim } => write!(f, "dimension {dim} has no nodes; accepted: 1 or more"),
            TorusError::NoLinks { dim } => write!(f, "dimension {dim} has no links; accepted: 1 to 32"),
            TorusError::TooManyNodes { nodes } => {
                write!(f, "{nodes} nodes; accepted: up to {}", Torus::MAX_NODES)
            }
            TorusError::TooManyPorts { ports } => write!(f, "{ports} ports per node; accepted: up to 64"),
        }
    }
}

impl std::error::Error for TorusError {}

/// A product of bidirectional rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    dims: Vec<Dimension>,
    strides: Vec<u32>,
    ports: Vec<PortUse>,
    nodes: u32,
}

impl Torus {
    /// The largest torus that can be built.
    pub const MAX_NODES: u32 = 1 << 26;

    /// Builds the torus of the given dimensions, the first one innermost.
    ///
    /// # Errors
    /// A [`TorusError`] when a dimension is empty or the product too large.
    pub fn new(dims: Vec<Dimension>) -> Result<Torus, TorusError> {
        if dims.is_empty() {
            return Err(TorusError::Empty);
        }
        for (dim, d) in dims.iter().enumerate() {
            if d.size == 0 {
                return Err(TorusError::NoNodes { dim });
            }
            if d.links == 0 {
                return Err(TorusError::NoLinks { dim });
            }
        }
        let nodes = dims.iter().try_fold(1u128, |n, d| n.checked_mul(u128::from(d.size))).unwrap_or(u128::MAX);
        if nodes > u128::from(Self::MAX_NODES) {
            return Err(TorusError::TooManyNodes { nodes });
        }
        let mut strides = Vec::with_capacity(dims.len());
        let mut stride = 1;
        let mut ports = Vec::new();
        for (dim, d) in dims.iter().enumerate() {
            strides.push(stride);
            stride *= d.size;
            if d.size > 1 {
                for parallel in 0..d.links {
                    for up in [true, false] {
                        ports.push(PortUse { dim: dim as u8, up, parallel });
                    }
                }
            }
        }
        if ports.len() > 64 {
            return Err(TorusError::TooManyPorts { ports: ports.len() as u32 });
        }
        Ok(Torus { dims, strides, ports, nodes: nodes as u32 })
    }

    /// The dimensions, the first one innermost.
    pub fn dims(&self) -> &[Dimension] {
        &self.dims
    }

    /// The coordinate of a node along a dimension.
    #[inline]
    pub fn coordinate(&self, node: NodeId, dim: usize) -> u32 {
        node.0 / self.strides[dim] % self.dims[dim].size
    }

    /// The node with `coordinate` along `dim` and otherwise the coordinates of `node`.
    #[inline]
    pub fn with_coordinate(&self, node: NodeId, dim: usize, coordinate: u32) -> NodeId {
        NodeId(node.0 - self.coordinate(node, dim) * self.strides[dim] + coordinate * self.strides[dim])
    }

    /// The port of a dimension, direction and parallel link; `None` along a dimension of one node.
    pub fn port(&self, dim: usize, up: bool, parallel: u8) -> Option<PortId> {
        let wanted = PortUse { dim: dim as u8, up, parallel };
        self.ports.iter().position(|&p| p == wanted).map(|i| PortId(i as u8))
    }
}

impl Fabric for Torus {
    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn multiplicity(&self, _node: NodeId) -> u32 {
        1
    }

    fn ports(&self) -> u8 {
        self.ports.len() as u8
    }

    fn next(&self, node: NodeId, port: PortId) -> (NodeId, PortId) {
        let PortUse { dim, up, .. } = self.ports[port.index()];
        let (dim, size) = (usize::from(dim), self.dims[usize::from(dim)].size);
        let step = if up { 1 } else { size - 1 };
        let there = self.with_coordinate(node, dim, (self.coordinate(node, dim) + step) % size);
        // A packet that travels up arrives on the port that faces down; ports come in such pairs.
        (there, PortId(port.0 ^ 1))
    }

    fn link(&self, _node: NodeId, port: PortId) -> LinkSpec {
        let dim = self.ports[port.index()].dim;
        let d = &self.dims[usize::from(dim)];
        LinkSpec { rate: d.rate, latency: d.latency, class: dim }
    }

    fn port_use(&self, port: PortId) -> PortUse {
        self.ports[port.index()]
    }

    fn route(&self, src: NodeId, dst: NodeId, path: &mut Vec<PortId>) {
        for (dim, d) in self.dims.iter().enumerate() {
            let up = (self.coordinate(dst, dim) + d.size - self.coordinate(src, dim)) % d.size;
            let down = (d.size - up) % d.size;
            let (hops, port) =
                if up <= down { (up, self.port(dim, true, 0)) } else { (down, self.port(dim, false, 0)) };
            path.extend(port.into_iter().cycle().take(hops as usize));
        }
    }

    fn node_name(&self, node: NodeId) -> String {
        let at: Vec<String> = (0..self.dims.len()).map(|d| self.coordinate(node, d).to_string()).collect();
        format!("NPU {node} ({})", at.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn torus(sizes: &[u32], links: u8) -> Torus {
        let rate = Rate::new(1_000_000_000).unwrap();
        Torus::new(sizes.iter().map(|&size| Dimension { size, rate, latency: Ps(1), links }).collect()).unwrap()
    }

    #[test]
    fn a_ring_of_two_has_both_links() {
        let t = torus(&[4, 2, 2], 1);
        assert_eq!(t.ports(), 6);
        let (up, down) = (t.port(1, true, 0).unwrap(), t.port(1, false, 0).unwrap());
        assert_eq!(t.next(NodeId(0), up), (NodeId(4), down));
        assert_eq!(t.next(NodeId(0), down), (NodeId(4), up));
    }

    #[test]
    fn impossible_products_are_refused() {
        let d = Dimension { size: 4096, rate: Rate::UNLIMITED, latency: Ps(0), links: 1 };
        assert_eq!(Torus::new(vec![]), Err(TorusError::Empty));
        assert_eq!(Torus::new(vec![d; 6]), Err(TorusError::TooManyNodes { nodes: 1 << 72 }));
        assert_eq!(Torus::new(vec![Dimension { size: 0, ..d }]), Err(TorusError::NoNodes { dim: 0 }));
        assert_eq!(
            Torus::new(vec![Dimension { size: 2, links: 40, ..d }]),
            Err(TorusError::TooManyPorts { ports: 80 })
        );
    }

    proptest! {
        #[test]
        fn routes_arrive_by_the_shortest_way(
            sizes in prop::collection::vec(1u32..6, 1..5), links in 1u8..3, a in any::<u32>(), b in any::<u32>(),
        ) {
            let t = torus(&sizes, links);
            let (src, dst) = (NodeId(a % t.nodes()), NodeId(b % t.nodes()));
            let mut path = Vec::new();
            t.route(src, dst, &mut path);
            let end = path.iter().fold(src, |n, &p| t.next(n, p).0);
            prop_assert_eq!(end, dst);
            let shortest: u32 = (0..sizes.len()).map(|d| {
                let away = t.coordinate(src, d).abs_diff(t.coordinate(dst, d));
                away.min(sizes[d] - away)
            }).sum();
            prop_assert_eq!(path.len() as u32, shortest);
        }

        #[test]
        fn every_link_leads_back(sizes in prop::collection::vec(1u32..6, 1..5), links in 1u8..3) {
            let t = torus(&sizes, links);
            for n in 0..t.nodes() {
                for p in 0..t.ports() {
                    let (there, arrives) = t.next(NodeId(n), PortId(p));
                    prop_assert_eq!(t.next(there, arrives), (NodeId(n), PortId(p)));
                }
            }
        }
    }
}
