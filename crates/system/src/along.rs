//! Groups that extend along dimensions of a product: all of it, or lines and planes side by side.

use std::collections::BTreeSet;
use syncline_collective::LineRank;
use syncline_core::{NodeId, PortId};
use syncline_endpoint::{RingOrder, Wires};
use syncline_topology::{Block, Dimension, Fabric, Product, Way};

/// The dimensions of a product along which groups extend, whose ranks run fastest along the first of them.
#[derive(Clone, Debug)]
pub struct Along<'a> {
    product: &'a Product,
    dims: Vec<u8>,
    groups: usize,
}

impl<'a> Along<'a> {
    /// One group of all NPUs.
    pub fn all(product: &'a Product) -> Along<'a> {
        Along { product, dims: (0..product.dims().len() as u8).collect(), groups: 1 }
    }

    /// So many groups along some dimensions.
    pub fn some(product: &'a Product, dims: &[u8], groups: usize) -> Along<'a> {
        Along { product, dims: dims.to_vec(), groups }
    }

    /// The product.
    pub fn product(&self) -> &'a Product {
        self.product
    }

    /// The dimensions of the product.
    pub fn classes(&self) -> &[u8] {
        &self.dims
    }

    /// A dimension of the groups.
    pub fn dim(&self, dim: usize) -> Dimension {
        self.product.dims()[usize::from(self.dims[dim])]
    }

    /// All dimensions of the groups.
    pub fn dims(&self) -> impl ExactSizeIterator<Item = Dimension> + '_ {
        (0..self.dims.len()).map(|dim| self.dim(dim))
    }

    /// The ports by which messages of an NPU to the others of its line along a dimension leave: of parallel links, those that
    /// routes take.
    pub fn first_ports(&self, npu: NodeId, dim: usize) -> BTreeSet<PortId> {
        let mut path = Vec::new();
        let first = |peer: u32| {
            path.clear();
            self.product.route(npu, NodeId(peer), &mut path);
            path.first().copied()
        };
        self.product.grid().line(npu.0, self.dims[dim].into()).filter_map(first).collect()
    }

    /// How rings run along a dimension.
    pub fn wires(&self, dim: usize) -> Wires {
        let (product, of_product, d) = (self.product, usize::from(self.dims[dim]), self.dim(dim));
        match d.block {
            _ if d.size == 1 => Wires::Routed,
            Block::Switch => Wires::Routed,
            Block::Ring => {
                let ports = (0u16..).zip(product.port_uses()).filter(|(_, u)| usize::from(u.dim) == of_product);
                Wires::Ports(ports.map(|(port, u)| (PortId(port), u.way == Way::Up)).collect())
            }
            // Steps of every size that is coprime to the number of ranks go round: rings that share no link.
            Block::FullyConnected => {
                let strides = (1..d.size).filter(|&k| greatest_common_divisor(k, d.size) == 1);
                let lane = |(stride, parallel): (u32, u16)| {
                    let place = |place| (u64::from(place) * u64::from(stride) % u64::from(d.size)) as u32;
                    let ranks = (0..d.size).map(place).map(LineRank).collect();
                    let port = product.port(of_product, Way::Across(stride), parallel);
                    let ports = port.map(|port| vec![port; d.size as usize]);
                    vec![RingOrder { ranks, ports }; self.groups]
                };
                Wires::Orders(strides.flat_map(|k| (0..d.links).map(move |p| (k, p))).map(lane).collect())
            }
        }
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
