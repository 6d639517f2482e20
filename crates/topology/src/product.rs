//! Products of dimensions: rings, fully connected groups and switches (design section 3; the tori of
//! the ACE paper, section V and Table V; the building blocks of the ASTRA-sim tutorial).
//!
//! NPU numbers run fastest in the first dimension. The NPUs that differ in one dimension only are a
//! *line* of that dimension. What a dimension of two or more NPUs gives every NPU:
//!
//! | block | ports per parallel link |
//! |---|---|
//! | ring | one up, one down; a ring of two keeps both links, which lead to the same neighbour (Table V) |
//! | fully connected | one to each other NPU of the line, by displacement |
//! | switch | one, to the switch of the line |
//!
//! A dimension of one NPU has neither ports nor switches. Switches are numbered after the NPUs, by
//! dimension and line; their ports lead to the NPUs of the line in order.
//!
//! Messages are routed dimension by dimension in order (XYZ); on a ring the shorter way round. When both ways are equally
//! long, a message goes up or down by its displacement alone, so that routes look alike from every NPU, and one with the
//! mirrored displacement goes the other way, so that both ways carry the same in an all-to-all. A displacement that is its
//! own mirror image leads to the far side of one or more dimensions of even size. If there are several such dimensions, as
//! many of these messages go up as down. If a ring is the only one, there is one such message per NPU, and both ways
//! ([`Fabric::route_by`]) are equally good. Which of several parallel links a message takes depends on its displacement in
//! the dimension.

use crate::fabric::{Fabric, LinkSpec};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use syncline_core::{Grid, NodeId, PortId, Ps, Rate, Refusal};

/// How the NPUs of a line are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// A bidirectional ring.
    Ring,
    /// Every NPU to every other.
    FullyConnected,
    /// Every NPU to one switch.
    Switch,
}

/// One dimension of a product topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// How its lines are connected.
    pub block: Block,
    /// NPUs of a line.
    pub size: u32,
    /// Payload rate of one link and direction (link efficiency included).
    pub rate: Rate,
    /// Latency of one hop.
    pub latency: Ps,
    /// Parallel links per direction and neighbour.
    pub links: u16,
}

impl Dimension {
    /// Ports that the dimension gives an NPU.
    fn ports(&self) -> u64 {
        let (size, links) = (u64::from(self.size), u64::from(self.links));
        match self.block {
            _ if size == 1 => 0,
            Block::Ring => 2 * links,
            Block::FullyConnected => (size - 1) * links,
            Block::Switch => links,
        }
    }

    pub(crate) fn has_switches(&self) -> bool {
        self.block == Block::Switch && self.size > 1
    }
}

/// Where a port of an NPU leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the next higher coordinate of a ring.
    Up,
    /// To the next lower coordinate of a ring.
    Down,
    /// So many coordinates further in a fully connected line.
    Across(u32),
    /// To the switch of the line.
    Switch,
}

/// What a port of an NPU is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortUse {
    /// The dimension it belongs to.
    pub dim: u8,
    /// Where it leads.
    pub way: Way,
    /// Which of the parallel links.
    pub parallel: u16,
}

/// Why a product cannot be built.
#[expect(missing_docs, reason = "the fields say what the variant's name and message say")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProductError {
    /// No dimension at all.
    Empty,
    /// A dimension of no nodes.
    NoNodes { dim: usize },
    /// A dimension without links.
    NoLinks { dim: usize },
    /// More nodes than 32-bit numbers can name.
    TooManyNodes { nodes: u128 },
    /// More ports on a node than can be numbered.
    TooManyPorts { ports: u64 },
    /// More links in all than can be numbered.
    TooManyLinks { links: u128 },
    /// More dimensions than statistics keep apart.
    TooManyDimensions { dims: usize },
}

impl From<ProductError> for Refusal {
    fn from(error: ProductError) -> Refusal {
        let of_dim = |dim: usize, what: &str| {
            Refusal::of(&format!("dims.{dim}"), format!("dimension {dim} has no {what}")).accepting("1 or more")
        };
        let up_to = |count: String, most: u64| Refusal::of("dims", count).accepting(format!("up to {most}"));
        match error {
            ProductError::Empty => Refusal::of("dims", "a topology needs at least one dimension"),
            ProductError::NoNodes { dim } => of_dim(dim, "nodes"),
            ProductError::NoLinks { dim } => of_dim(dim, "links"),
            ProductError::TooManyNodes { nodes } => up_to(format!("{nodes} nodes"), Product::MAX_NPUS.into()),
            ProductError::TooManyPorts { ports } => {
                up_to(format!("{ports} ports on one node"), Product::MAX_PORTS.into())
            }
            ProductError::TooManyLinks { links } => up_to(format!("{links} links"), Product::MAX_LINKS.into()),
            ProductError::TooManyDimensions { dims } => up_to(format!("{dims} dimensions"), Product::MAX_DIMS as u64),
        }
    }
}

/// A product of dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    dims: Vec<Dimension>,
    grid: Grid,
    ports: Vec<PortUse>,
    /// Per dimension, the first port of an NPU.
    first_port: Vec<u16>,
    /// Per dimension, the number of its first switch and of that switch's first link.
    first_switch: Vec<(u32, u32)>,
    npus: u32,
    nodes: u32,
    links: u32,
    /// Links that are not like the others of their dimension, by number.
    odd: BTreeMap<u32, (Rate, Ps)>,
}

impl Product {
    /// The most NPUs of a product.
    pub const MAX_NPUS: u32 = 1 << 26;
    /// The most ports of a node.
    pub const MAX_PORTS: u16 = u16::MAX;
    /// The most links.
    pub const MAX_LINKS: u32 = 1 << 30;
    /// The most dimensions.
    pub const MAX_DIMS: usize = 255;

    /// Builds the product of the given dimensions, the first one innermost.
    ///
    /// # Errors
    /// A [`ProductError`] when a dimension is empty or the product too large.
    pub fn new(dims: Vec<Dimension>) -> Result<Product, ProductError> {
        if dims.is_empty() {
            return Err(ProductError::Empty);
        }
        if dims.len() > Self::MAX_DIMS {
            return Err(ProductError::TooManyDimensions { dims: dims.len() });
        }
        for (dim, d) in dims.iter().enumerate() {
            if d.size == 0 {
                return Err(ProductError::NoNodes { dim });
            }
            if d.links == 0 {
                return Err(ProductError::NoLinks { dim });
            }
        }
        let npus = dims.iter().try_fold(1u128, |n, d| n.checked_mul(u128::from(d.size))).unwrap_or(u128::MAX);
        if npus > u128::from(Self::MAX_NPUS) {
            return Err(ProductError::TooManyNodes { nodes: npus });
        }
        let of_npu: u64 = dims.iter().map(Dimension::ports).sum();
        let of_switch = |d: &Dimension| u64::from(d.has_switches()) * u64::from(d.size) * u64::from(d.links);
        let most = of_npu.max(dims.iter().map(of_switch).max().unwrap_or(0));
        if most > u64::from(Self::MAX_PORTS) {
            return Err(ProductError::TooManyPorts { ports: most });
        }
        let down: u128 = dims.iter().filter(|d| d.has_switches()).map(|d| npus * u128::from(d.links)).sum();
        let links = npus * u128::from(of_npu) + down;
        if links > u128::from(Self::MAX_LINKS) {
            return Err(ProductError::TooManyLinks { links });
        }
        Ok(Self::numbered(dims, npus as u32, links as u32))
    }

    /// Numbers ports, switches and links.
    fn numbered(dims: Vec<Dimension>, npus: u32, links: u32) -> Product {
        let (mut ports, mut first_port) = (Vec::new(), Vec::new());
        for (dim, d) in (0u8..).zip(&dims) {
            first_port.push(ports.len() as u16);
            let mut port = |way, parallel| ports.push(PortUse { dim, way, parallel });
            match d.block {
                _ if d.size == 1 => {}
                Block::Ring => (0..d.links).for_each(|parallel| {
                    port(Way::Up, parallel);
                    port(Way::Down, parallel);
                }),
                Block::FullyConnected => (1..d.size)
                    .flat_map(|across| (0..d.links).map(move |parallel| (across, parallel)))
                    .for_each(|(across, parallel)| port(Way::Across(across), parallel)),
                Block::Switch => (0..d.links).for_each(|parallel| port(Way::Switch, parallel)),
            }
        }
        let (mut nodes, mut link) = (npus, npus * ports.len() as u32);
        let first_switch = dims.iter().map(|d| {
            let first = (nodes, link);
            if d.has_switches() {
                nodes += npus / d.size;
                link += npus * u32::from(d.links);
            }
            first
        });
        let first_switch = first_switch.collect();
        assert_eq!(link, links, "links are counted as they are numbered");
        let grid = Grid::new(dims.iter().map(|d| d.size));
        Product { dims, grid, ports, first_port, first_switch, npus, nodes, links, odd: BTreeMap::new() }
    }

    /// Gives one directed link a rate and latency of its own.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn set_link(&mut self, node: NodeId, port: PortId, rate: Rate, latency: Ps) {
        assert!(port.0 < self.ports(node), "a link has a port");
        self.odd.insert(self.first_link(node) + u32::from(port.0), (rate, latency));
    }

    /// The coordinates of its NPUs.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The dimensions, the first one innermost.
    pub fn dims(&self) -> &[Dimension] {
        &self.dims
    }

    /// The rates and latencies that its links have, each at least once.
    pub fn link_kinds(&self) -> impl Iterator<Item = (Rate, Ps)> + '_ {
        let longer = self.dims.iter().filter(|d| d.size > 1).map(|d| (d.rate, d.latency));
        longer.chain(self.odd.values().copied())
    }

    /// Whether all links of a dimension are alike, so that the product looks the same from every NPU.
    pub fn is_uniform(&self) -> bool {
        self.odd.is_empty()
    }

    /// The coordinate of an NPU along a dimension.
    #[inline]
    pub fn coordinate(&self, npu: NodeId, dim: usize) -> u32 {
        self.grid.coordinate(npu.0, dim)
    }

    /// The NPU with `coordinate` along `dim` and otherwise the coordinates of `npu`.
    #[inline]
    pub fn with_coordinate(&self, npu: NodeId, dim: usize, coordinate: u32) -> NodeId {
        NodeId(self.grid.with_coordinate(npu.0, dim, coordinate))
    }

    /// What the ports of every NPU are for.
    pub fn port_uses(&self) -> &[PortUse] {
        &self.ports
    }

    /// The port of an NPU for a use; `None` along a dimension of one NPU.
    pub fn port(&self, dim: usize, way: Way, parallel: u16) -> Option<PortId> {
        let wanted = PortUse { dim: dim as u8, way, parallel };
        self.ports.iter().position(|&p| p == wanted).map(|i| PortId(i as u16))
    }

    /// How far up one NPU lies from another along a dimension, going round.
    fn displacement(&self, src: NodeId, dst: NodeId, dim: usize) -> u32 {
        self.grid.displacement(src.0, dst.0, dim)
    }

    /// Which way a message takes along a dimension in which both are equally long: up if its displacement comes before
    /// the mirrored one, in the order of numbers. If it is its own mirror image, the other dimensions in which it goes
    /// half-way decide.
    fn tie_goes_down(&self, src: NodeId, dst: NodeId, dim: usize) -> bool {
        let mut half_ways = 0;
        for (other, d) in self.dims.iter().enumerate().rev().filter(|&(other, _)| other != dim) {
            let away = self.displacement(src, dst, other);
            match (2 * away).cmp(&d.size) {
                _ if away == 0 => {}
                Ordering::Less => return false,
                Ordering::Greater => return true,
                Ordering::Equal => half_ways += 1,
            }
        }
        half_ways % 2 == 1
    }

    /// Appends the ports of the shortest way; where both ways round a ring are equally long, of the `other` one.
    fn path(&self, src: NodeId, dst: NodeId, other: bool, path: &mut Vec<PortId>) {
        for (dim, d) in self.dims.iter().enumerate() {
            let away = self.displacement(src, dst, dim);
            if away == 0 {
                continue;
            }
            let parallel = (away % u32::from(d.links)) as u16;
            let first = self.first_port[dim];
            match d.block {
                Block::Ring => {
                    let (hops, port) = match d.size - away {
                        down if down < away || down == away && self.tie_goes_down(src, dst, dim) != other => {
                            (down, first + 2 * (down % u32::from(d.links)) as u16 + 1)
                        }
                        _ => (away, first + 2 * parallel),
                    };
                    path.extend((0..hops).map(|_| PortId(port)));
                }
                Block::FullyConnected => path.push(PortId(first + (away - 1) as u16 * d.links + parallel)),
                Block::Switch => {
                    let member = self.coordinate(dst, dim) as u16;
                    path.extend([PortId(first + parallel), PortId(member * d.links + parallel)]);
                }
            }
        }
    }

    /// The dimension and line of a switch, and the NPU of the line with coordinate 0.
    fn line(&self, switch: NodeId) -> (usize, NodeId) {
        let dim = self.first_switch.partition_point(|&(first, _)| first <= switch.0) - 1;
        // Of dimensions without switches, which share the number, the last one counts.
        let line = switch.0 - self.first_switch[dim].0;
        (dim, NodeId(self.grid.first_of_line(line, dim)))
    }

    /// The switch of an NPU's line.
    fn switch_of(&self, npu: NodeId, dim: usize) -> NodeId {
        NodeId(self.first_switch[dim].0 + self.grid.line_number(npu.0, dim))
    }
}

impl Fabric for Product {
    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn npus(&self) -> u32 {
        self.npus
    }

    fn ports(&self, node: NodeId) -> u16 {
        if node.0 < self.npus {
            self.ports.len() as u16
        } else {
            let d = &self.dims[self.line(node).0];
            d.size as u16 * d.links
        }
    }

    fn first_link(&self, node: NodeId) -> u32 {
        if node.0 < self.npus {
            node.0 * self.ports.len() as u32
        } else {
            let dim = self.line(node).0;
            let (first, link) = self.first_switch[dim];
            link + (node.0 - first) * self.dims[dim].size * u32::from(self.dims[dim].links)
        }
    }

    fn links(&self) -> u32 {
        self.links
    }

    fn next(&self, node: NodeId, port: PortId) -> (NodeId, PortId) {
        if node.0 >= self.npus {
            let (dim, first) = self.line(node);
            let links = self.dims[dim].links;
            let there = NodeId(self.grid.moved(first.0, dim, 0, (port.0 / links).into()));
            return (there, PortId(self.first_port[dim] + port.0 % links));
        }
        let PortUse { dim, way, parallel } = self.ports[port.index()];
        let dim = usize::from(dim);
        let (size, links) = (self.dims[dim].size, self.dims[dim].links);
        let at = self.coordinate(node, dim);
        let moved = |by: u32| NodeId(self.grid.moved(node.0, dim, at, (at + by) % size));
        match way {
            // A packet that travels up arrives on the port that faces down; ports come in such pairs.
            Way::Up => (moved(1), PortId(port.0 + 1)),
            Way::Down => (moved(size - 1), PortId(port.0 - 1)),
            Way::Across(by) => {
                let back = self.first_port[dim] + (size - by - 1) as u16 * links + parallel;
                (moved(by), PortId(back))
            }
            Way::Switch => (self.switch_of(node, dim), PortId(at as u16 * links + parallel)),
        }
    }

    fn link(&self, node: NodeId, port: PortId) -> LinkSpec {
        let dim = if node.0 < self.npus { self.ports[port.index()].dim } else { self.line(node).0 as u8 };
        let d = &self.dims[usize::from(dim)];
        let (mut rate, mut latency) = (d.rate, d.latency);
        if !self.odd.is_empty()
            && let Some(&odd) = self.odd.get(&(self.first_link(node) + u32::from(port.0)))
        {
            (rate, latency) = odd;
        }
        LinkSpec { rate, latency, class: dim }
    }

    fn class_names(&self) -> Vec<String> {
        (0..self.dims.len()).map(|dim| format!("dim {dim}")).collect()
    }

    fn ring(&self, node: NodeId, port: PortId) -> Option<u8> {
        let used = (node.0 < self.npus).then(|| self.ports[port.index()])?;
        matches!(used.way, Way::Up | Way::Down).then_some(used.dim)
    }

    fn closes_ring(&self, node: NodeId, port: PortId) -> bool {
        if node.0 >= self.npus {
            return false;
        }
        let PortUse { dim, way, .. } = self.ports[port.index()];
        let (at, size) = (self.coordinate(node, usize::from(dim)), self.dims[usize::from(dim)].size);
        match way {
            Way::Up => at + 1 == size,
            Way::Down => at == 0,
            Way::Across(_) | Way::Switch => false,
        }
    }

    fn route(&self, src: NodeId, dst: NodeId, path: &mut Vec<PortId>) {
        self.path(src, dst, false, path);
    }

    /// Two where the destination is opposite on some ring: round every such ring one way, or the other.
    fn routes(&self, src: NodeId, dst: NodeId) -> u16 {
        let opposite = |(dim, d): (usize, &Dimension)| {
            let away = self.displacement(src, dst, dim);
            d.block == Block::Ring && away != 0 && 2 * away == d.size
        };
        1 + u16::from(self.dims.iter().enumerate().any(opposite))
    }

    fn route_by(&self, src: NodeId, dst: NodeId, choice: u16, path: &mut Vec<PortId>) {
        self.path(src, dst, choice % 2 == 1, path);
    }

    fn distance(&self, src: NodeId, dst: NodeId) -> u32 {
        let along = |(dim, d): (usize, &Dimension)| match (d.block, self.displacement(src, dst, dim)) {
            (_, 0) => 0,
            (Block::Ring, away) => away.min(d.size - away),
            (Block::FullyConnected, _) => 1,
            (Block::Switch, _) => 2,
        };
        self.dims.iter().enumerate().map(along).sum()
    }

    fn node_name(&self, node: NodeId) -> String {
        if node.0 >= self.npus {
            let (dim, first) = self.line(node);
            return format!("switch of dim {dim} at NPU {first}");
        }
        let at: Vec<String> = (0..self.dims.len()).map(|d| self.coordinate(node, d).to_string()).collect();
        format!("NPU {node} ({})", at.join(","))
    }

    fn port_name(&self, node: NodeId, port: PortId) -> String {
        let number = |parallel: u16| if parallel == 0 { String::new() } else { format!(" #{parallel}") };
        if node.0 >= self.npus {
            let (dim, _) = self.line(node);
            let links = self.dims[dim].links;
            return format!("dim {dim} to coordinate {}{}", port.0 / links, number(port.0 % links));
        }
        let PortUse { dim, way, parallel } = self.ports[port.index()];
        let way = match way {
            Way::Up => "up".to_string(),
            Way::Down => "down".to_string(),
            Way::Across(by) => format!("+{by}"),
            Way::Switch => "to its switch".to_string(),
        };
        format!("dim {dim} {way}{}", number(parallel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::all_links;
    use proptest::prelude::*;

    fn product(dims: &[(Block, u32)], links: u16) -> Product {
        let rate = Rate::new(1_000_000_000).unwrap();
        let dim = |&(block, size): &(Block, u32)| Dimension { block, size, rate, latency: Ps(1), links };
        Product::new(dims.iter().map(dim).collect()).unwrap()
    }

    fn dims() -> impl Strategy<Value = Vec<(Block, u32)>> {
        let block = prop::sample::select(vec![Block::Ring, Block::FullyConnected, Block::Switch]);
        prop::collection::vec((block, 1u32..6), 1..5)
    }

    #[test]
    fn a_ring_of_two_has_both_links() {
        let t = product(&[(Block::Ring, 4), (Block::Ring, 2), (Block::Ring, 2)], 1);
        assert_eq!(t.ports(NodeId(0)), 6);
        let (up, down) = (t.port(1, Way::Up, 0).unwrap(), t.port(1, Way::Down, 0).unwrap());
        assert_eq!(t.next(NodeId(0), up), (NodeId(4), down));
        assert_eq!(t.next(NodeId(0), down), (NodeId(4), up));
    }

    #[test]
    fn a_switch_stands_on_every_line() {
        let t = product(&[(Block::FullyConnected, 3), (Block::Switch, 4)], 2);
        assert_eq!((t.npus(), t.nodes(), t.ports(NodeId(0)), t.ports(NodeId(12))), (12, 15, 6, 8));
        assert_eq!(t.links(), 12 * 6 + 12 * 2);
        let mut path = Vec::new();
        t.route(NodeId(0), NodeId(11), &mut path); // two across, then three along the switch
        assert_eq!(path.len(), 3);
        assert_eq!(t.node_name(NodeId(14)), "switch of dim 1 at NPU 2");
        assert_eq!(t.port_name(NodeId(14), PortId(7)), "dim 1 to coordinate 3 #1");
    }

    #[test]
    fn impossible_products_are_refused() {
        let d = Dimension { block: Block::Ring, size: 4096, rate: Rate::UNLIMITED, latency: Ps(0), links: 1 };
        assert_eq!(Product::new(vec![]), Err(ProductError::Empty));
        assert_eq!(Product::new(vec![d; 6]), Err(ProductError::TooManyNodes { nodes: 1 << 72 }));
        assert_eq!(Product::new(vec![Dimension { size: 0, ..d }]), Err(ProductError::NoNodes { dim: 0 }));
        let full = Dimension { block: Block::FullyConnected, size: 40_000, links: 2, ..d };
        assert_eq!(Product::new(vec![full]), Err(ProductError::TooManyPorts { ports: 79_998 }));
        let many = Dimension { size: 1 << 13, links: 1 << 7, ..d };
        assert_eq!(Product::new(vec![many, many]), Err(ProductError::TooManyLinks { links: 1 << 35 }));
    }

    proptest! {
        #[test]
        fn routes_arrive_by_the_shortest_way(dims in dims(), links in 1u16..3, a in any::<u32>(), b in any::<u32>()) {
            let t = product(&dims, links);
            let (src, dst) = (NodeId(a % t.npus()), NodeId(b % t.npus()));
            let mut path = Vec::new();
            t.route(src, dst, &mut path);
            let end = path.iter().fold(src, |n, &p| t.next(n, p).0);
            prop_assert_eq!(end, dst);
            let shortest: u32 = (0..dims.len()).map(|d| {
                let away = t.coordinate(src, d).abs_diff(t.coordinate(dst, d));
                match dims[d] {
                    _ if away == 0 => 0,
                    (Block::Ring, size) => away.min(size - away),
                    (Block::FullyConnected, _) => 1,
                    (Block::Switch, _) => 2,
                }
            }).sum();
            prop_assert_eq!(path.len() as u32, shortest);
            prop_assert_eq!(t.distance(src, dst), shortest);
        }

        /// Both ways round a ring carry the same of an all-to-all, if half of what goes to the far side of the only even
        /// dimension takes the other route.
        #[test]
        fn all_to_alls_use_both_ways_round(dims in dims(), links in 1u16..3) {
            let t = product(&dims, links);
            let mut hops = vec![[0u32; 2]; dims.len()];
            let even = dims.iter().filter(|d| d.1 % 2 == 0).count();
            for dst in (0..t.npus()).map(NodeId) {
                let alone = even == 1 && (0..dims.len()).all(|d| {
                    let away = t.displacement(NodeId(0), dst, d);
                    away == 0 || 2 * away == dims[d].1
                });
                for other in [false, true] {
                    let (mut path, mut at) = (Vec::new(), NodeId(0));
                    if alone && other { t.route_by(at, dst, 1, &mut path) } else { t.route(at, dst, &mut path) }
                    for port in path {
                        let used = (at.0 < t.npus()).then(|| t.port_uses()[port.index()]);
                        match used.map(|used| (used.way, usize::from(used.dim))) {
                            Some((Way::Up, dim)) => hops[dim][0] += 1,
                            Some((Way::Down, dim)) => hops[dim][1] += 1,
                            _ => {}
                        }
                        at = t.next(at, port).0;
                    }
                    prop_assert_eq!(at, dst);
                }
            }
            prop_assert!(hops.iter().all(|[up, down]| up == down), "{:?}", hops);
        }

        #[test]
        fn every_link_leads_back(dims in dims(), links in 1u16..3) {
            let t = product(&dims, links);
            for (node, port) in all_links(&t) {
                let (there, arrives) = t.next(node, port);
                prop_assert_eq!(t.next(there, arrives), (node, port));
            }
        }

        #[test]
        fn links_are_numbered_without_gaps(dims in dims(), links in 1u16..3) {
            let t = product(&dims, links);
            let numbers: Vec<u32> = all_links(&t).map(|(n, p)| t.first_link(n) + u32::from(p.0)).collect();
            prop_assert_eq!(numbers, (0..t.links()).collect::<Vec<_>>());
        }

        /// What lets one NPU stand for all: seen from any NPU, an NPU at the same displacement is
        /// reached through the same ports (of NPUs).
        #[test]
        fn routes_look_alike_from_every_npu(dims in dims(), links in 1u16..3, a in any::<u32>(), b in any::<u32>()) {
            let t = product(&dims, links);
            let (src, by) = (NodeId(a % t.npus()), NodeId(b % t.npus()));
            let dst = (0..dims.len()).fold(src, |n, d| {
                t.with_coordinate(n, d, (t.coordinate(n, d) + t.coordinate(by, d)) % dims[d].1)
            });
            let ports = |src: NodeId, dst: NodeId| {
                let mut path = Vec::new();
                t.route(src, dst, &mut path);
                let mut at = src;
                let mut ports = Vec::new();
                for port in path {
                    if at.0 < t.npus() {
                        ports.push(port);
                    }
                    at = t.next(at, port).0;
                }
                ports
            };
            prop_assert_eq!(ports(src, dst), ports(NodeId(0), by));
        }
    }
}
