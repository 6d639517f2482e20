//! Folding: one simulated node for each class of nodes that are alike.
//!
//! A partition of the nodes is *equitable* here if nodes of a class cannot be told apart by looking
//! around: NPUs of a class have the same ports, each leading over an equal link to the same class and
//! arriving there by the same port; switches of a class have equal numbers of equal links to each
//! class. [`refine`] finds the coarsest equitable partition that is finer than a given colouring (colour
//! refinement, Weisfeiler and Leman 1968), and [`Quotient`] is the fabric whose nodes are its classes.
//!
//! If in addition all NPUs of a class run the same program, through the same ports, a simulation of the
//! quotient is the simulation of the whole machine, exactly: whatever happens at the representative at
//! some time happens at every node of its class, because nothing that orders events knows a node's
//! number (ARCHITECTURE, "Time, order, determinism"). A class of switches keeps one port for every kind
//! of port: a slice of the switch that serves one NPU of each class.
//!
//! Left out: switches that are connected to switches, whose routes depend on more than classes. Fabrics of any shape are folded by
//! [symmetries](crate::symmetry) that keep routes; their orbits are the classes then ([`Quotient::of_orbits`]).

use crate::fabric::{Fabric, LinkSpec, all_links};
use crate::product::Product;
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_core::{NodeId, PortId};

/// What can be seen of a link from its sending node, given the colours of nodes.
type View = (u64, u64, u8, u32, u16);

/// All that tells a node from others: its colour, whether it is an NPU, and what it sees.
type Signature = (u32, bool, Box<[View]>);

fn view(fabric: &dyn Fabric, colours: &[u32], node: NodeId, port: PortId) -> View {
    let LinkSpec { rate, latency, class } = fabric.link(node, port);
    let (there, arrives) = fabric.next(node, port);
    // Ports of an NPU have a meaning, ports of a switch are all alike.
    let arrives = if there.0 < fabric.npus() { arrives.0 } else { 0 };
    (rate.bytes_per_s(), latency.0, class, colours[there.index()], arrives)
}

/// Looks at ports after which nodes are too many and too different to compare: a second.
const MOST_LOOKS: u64 = 1 << 25;
/// What it costs to find a node's like, in looks at each of its ports.
const FINDING: u64 = 8;
/// Ports of nodes that differ which are kept at once.
const MOST_KEPT: u64 = 1 << 21;

/// The partition of a product whose NPUs are all of one colour, where all links of a dimension are alike: that of
/// [`refine`], without a look around. Its NPUs are a class, and so are the switches of each dimension.
pub fn classes_of_uniform(product: &Product) -> Vec<u32> {
    let mut colours = vec![0; product.npus() as usize];
    let switched = product.dims().iter().filter(|d| d.has_switches());
    for (colour, d) in (1..).zip(switched) {
        colours.resize(colours.len() + (product.npus() / d.size) as usize, colour);
    }
    colours
}

/// The coarsest equitable partition of a connected fabric that is finer than `colours` (one per node): a colour per node,
/// numbered from 0 in the order of first appearance. `None` where nodes are too many and too different to compare.
pub fn refine(fabric: &dyn Fabric, colours: &[u32]) -> Option<Vec<u32>> {
    refine_within(fabric, colours, MOST_LOOKS, MOST_KEPT)
}

/// Whether all ports can be looked at once before that takes too long.
pub fn is_comparable(fabric: &dyn Fabric) -> bool {
    u64::from(fabric.links()) <= MOST_LOOKS
}

fn refine_within(fabric: &dyn Fabric, colours: &[u32], most_looks: u64, most_kept: u64) -> Option<Vec<u32>> {
    if !is_comparable(fabric) {
        return None;
    }
    let mut colours = renumber(colours.iter().copied());
    let mut looks = 0;
    loop {
        let mut kept = 0;
        let count = colours.iter().max().map_or(0, |&c| c + 1);
        let mut around: Vec<View> = Vec::new();
        let mut seen: BTreeMap<Signature, u32> = BTreeMap::new();
        let mut next = Vec::with_capacity(colours.len());
        let mut last: Option<(Signature, u32)> = None;
        for node in (0..fabric.nodes()).map(NodeId) {
            let is_npu = node.0 < fabric.npus();
            around.clear();
            around.extend((0..fabric.ports(node)).map(|p| view(fabric, &colours, node, PortId(p))));
            if !is_npu {
                around.sort_unstable();
            }
            // Neighbouring numbers are mostly alike: no need to look up what was just seen.
            let own = colours[node.index()];
            if let Some(((colour, npu, views), number)) = &last
                && (*colour, *npu, &views[..]) == (own, is_npu, &around[..])
            {
                next.push(*number);
                looks += around.len() as u64;
                continue;
            }
            let key = (own, is_npu, around.clone().into_boxed_slice());
            let new = seen.len() as u32;
            let number = *seen.entry(key.clone()).or_insert(new);
            looks += FINDING * around.len() as u64;
            kept += if number == new { around.len() as u64 } else { 0 };
            if looks > most_looks || kept > most_kept {
                return None;
            }
            last = Some((key, number));
            next.push(number);
        }
        let found = seen.len() as u32;
        colours = renumber(next.into_iter());
        if found == count {
            return Some(colours);
        }
        if one_of_a_kind(fabric, &colours) {
            return Some((0..fabric.nodes()).collect());
        }
        if looks > most_looks {
            return None;
        }
    }
}

/// Whether some node is unlike all others where there are only NPUs: then no two of them are alike in the end. A
/// neighbour through a port of such a node is the only one at the other end, and so on throughout the fabric.
fn one_of_a_kind(fabric: &dyn Fabric, colours: &[u32]) -> bool {
    let mut members = vec![0u32; colours.iter().max().map_or(0, |&c| c as usize + 1)];
    colours.iter().for_each(|&colour| members[colour as usize] += 1);
    fabric.nodes() == fabric.npus() && members.contains(&1)
}

/// What a link can do: rate, latency and class.
type LinkKind = (u64, u64, u8);

fn link_kind(fabric: &dyn Fabric, node: NodeId, port: PortId) -> LinkKind {
    let LinkSpec { rate, latency, class } = fabric.link(node, port);
    (rate.bytes_per_s(), latency.0, class)
}

fn renumber(colours: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbers = BTreeMap::new();
    let mut number = |colour| {
        let next = numbers.len() as u32;
        *numbers.entry(colour).or_insert(next)
    };
    colours.map(&mut number).collect()
}

/// One port of a class.
#[derive(Clone, Copy, Debug)]
struct ClassPort {
    /// A port of the whole machine that it stands for: the representative's, where it has one; of a switch the first one of
    /// its kind.
    whole: (NodeId, PortId),
    to: NodeId,
    arrives: PortId,
    /// Links of the whole machine that it stands for.
    links: u64,
}

/// Orbits of the symmetries of a run: each has the number of one of its members.
#[derive(Clone, Debug)]
pub struct Orbits {
    /// Per node, its orbit.
    pub nodes: Vec<u32>,
    /// Per link, its orbit if messages take it or its reverse. Every node of an orbit has equally many links of an orbit of
    /// links, NPUs one at most.
    pub links: Vec<Option<u32>>,
}

/// What the ports of a node are in the quotient.
#[derive(Clone, Debug)]
enum Naming {
    /// Per class of switches, the kinds of its ports in order; the ports of NPUs keep their numbers.
    Kinds(Vec<Vec<View>>),
    /// Per link, the port of the class.
    Links(Vec<PortId>),
}

/// The fabric of the classes of an equitable partition.
#[derive(Clone, Debug)]
pub struct Quotient {
    whole: Arc<dyn Fabric>,
    class_of: Vec<u32>,
    /// Per class, its first node.
    representatives: Vec<NodeId>,
    sizes: Vec<u64>,
    npus: u32,
    ports: Vec<Vec<ClassPort>>,
    first_link: Vec<u32>,
    naming: Naming,
}

impl Quotient {
    /// The quotient of `whole` by a partition that [`refine`] returned.
    pub fn new(whole: Arc<dyn Fabric>, colours: &[u32]) -> Quotient {
        let mut quotient = Quotient::of_classes(whole, colours);
        let kinds_of = |class: usize| {
            let node = quotient.representatives[class];
            let mut kinds: Vec<View> = Vec::new();
            if node.0 >= quotient.whole.npus() {
                for port in (0..quotient.whole.ports(node)).map(PortId) {
                    let kind = view(&*quotient.whole, colours, node, port);
                    if !kinds.contains(&kind) {
                        kinds.push(kind);
                    }
                }
            }
            kinds
        };
        let kinds: Vec<Vec<View>> = (0..quotient.sizes.len()).map(kinds_of).collect();
        quotient.naming = Naming::Kinds(kinds.clone());
        let ports = kinds.iter().enumerate().map(|(class, kinds)| quotient.class_ports(class, kinds));
        let ports = ports.collect();
        quotient.with_ports(ports)
    }

    /// The nodes of a quotient.
    fn of_classes(whole: Arc<dyn Fabric>, class_of: &[u32]) -> Quotient {
        let npus_of_whole = whole.npus();
        let classes = class_of.iter().max().map_or(0, |&c| c as usize + 1);
        let mut representatives = vec![NodeId(u32::MAX); classes];
        let mut sizes = vec![0u64; classes];
        for (node, &class) in (0u32..).zip(class_of) {
            sizes[class as usize] += 1;
            let first = &mut representatives[class as usize];
            *first = (*first).min(NodeId(node));
        }
        // Classes are numbered in the order of nodes, and NPUs come first.
        let npus = representatives.iter().filter(|r| r.0 < npus_of_whole).count() as u32;
        Quotient {
            class_of: class_of.to_vec(),
            representatives,
            sizes,
            npus,
            ports: Vec::new(),
            first_link: Vec::new(),
            naming: Naming::Links(Vec::new()),
            whole,
        }
    }

    fn with_ports(mut self, ports: Vec<Vec<ClassPort>>) -> Quotient {
        let mut links = 0;
        for ports in &ports {
            self.first_link.push(links);
            links += ports.len() as u32;
        }
        self.first_link.push(links);
        self.ports = ports;
        self
    }

    fn class_ports(&self, class: usize, kinds: &[View]) -> Vec<ClassPort> {
        let node = self.representatives[class];
        let all = || (0..self.whole.ports(node)).map(PortId);
        let class_port = |port: PortId, count: u64| {
            let (there, arrives) = self.whole.next(node, port);
            let to = NodeId(self.class_of[there.index()]);
            let links = self.sizes[class] * count;
            ClassPort { whole: (node, port), to, arrives: self.port_of(there, arrives), links }
        };
        if node.0 < self.whole.npus() {
            return all().map(|port| class_port(port, 1)).collect();
        }
        let kind_of = |port| view(&*self.whole, &self.class_of, node, port);
        let of_kind = |kind: &View| {
            let mut same = all().filter(|&p| kind_of(p) == *kind);
            same.next().map(|first| class_port(first, 1 + same.count() as u64))
        };
        kinds.iter().filter_map(of_kind).collect()
    }

    /// The quotient of `whole` by the orbits of symmetries. The ports of an NPU keep their numbers. Links on which there are no
    /// messages need not correspond to each other: in the quotient they lead back to where they come from, and are there for
    /// the sake of their number.
    pub fn of_orbits(whole: Arc<dyn Fabric>, orbits: &Orbits) -> Quotient {
        let mut quotient = Quotient::of_classes(whole.clone(), &renumber(orbits.nodes.iter().copied()));
        let ends: Vec<(NodeId, PortId)> = all_links(&*whole).collect();
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        orbits.links.iter().flatten().for_each(|&orbit| *sizes.entry(orbit).or_default() += 1);
        // Per class, the orbit of each of its ports, or of one without messages what its links can do.
        let mut kinds: Vec<Vec<Result<u32, LinkKind>>> = vec![Vec::new(); quotient.sizes.len()];
        let mut numbers: BTreeMap<(usize, u32), PortId> = BTreeMap::new();
        let mut unused: BTreeMap<(usize, LinkKind), (u64, (NodeId, PortId))> = BTreeMap::new();
        for (&(node, port), &orbit) in ends.iter().zip(&orbits.links) {
            let class = quotient.class_of[node.index()] as usize;
            let (representative, is_npu) = (node == quotient.representatives[class], node.0 < whole.npus());
            match orbit {
                Some(orbit) if representative => {
                    let next = PortId(kinds[class].len() as u16);
                    let number = *numbers.entry((class, orbit)).or_insert(next);
                    if number == next {
                        kinds[class].push(Ok(orbit));
                    }
                }
                Some(_) => {}
                None => {
                    let kind = link_kind(&*whole, node, port);
                    unused.entry((class, kind)).or_insert((0, (node, port))).0 += 1;
                    if representative && is_npu {
                        kinds[class].push(Err(kind));
                    }
                }
            }
        }
        for &(class, kind) in unused.keys() {
            if !kinds[class].contains(&Err(kind)) {
                kinds[class].push(Err(kind));
            }
        }
        let number = |(&(node, _), &orbit): (&(NodeId, PortId), &Option<u32>)| {
            let class = quotient.class_of[node.index()] as usize;
            orbit.map_or(PortId(0), |orbit| numbers[&(class, orbit)])
        };
        let naming: Vec<PortId> = ends.iter().zip(&orbits.links).map(number).collect();
        let link_at = |node: NodeId, port: PortId| (whole.first_link(node) + u32::from(port.0)) as usize;
        let first_of = |class: usize, orbit: u32| {
            let node = quotient.representatives[class];
            let ports = (0..whole.ports(node)).map(PortId);
            ports.into_iter().find(|&port| orbits.links[link_at(node, port)] == Some(orbit))
        };
        let ports_of = |(class, kinds): (usize, &Vec<Result<u32, LinkKind>>)| {
            let mut found = Vec::new();
            for (number, kind) in (0..).map(PortId).zip(kinds) {
                let node = quotient.representatives[class];
                found.push(match *kind {
                    Ok(orbit) => {
                        let port = first_of(class, orbit).expect("the orbit is one of a port of the representative");
                        let (there, arrives) = whole.next(node, port);
                        let to = NodeId(quotient.class_of[there.index()]);
                        let arrives = naming[link_at(there, arrives)];
                        ClassPort { whole: (node, port), to, arrives, links: sizes[&orbit] }
                    }
                    Err(kind) => {
                        let (links, example) = unused[&(class, kind)];
                        let alike = kinds.iter().filter(|k| **k == Err(kind)).count() as u64;
                        let before = kinds[..number.index()].iter().filter(|k| **k == Err(kind)).count() as u64;
                        let links = links / alike + u64::from(before < links % alike);
                        let own = number.0 < whole.ports(node) && node.0 < whole.npus();
                        let example = if own { (node, number) } else { example };
                        ClassPort { whole: example, to: NodeId(class as u32), arrives: number, links }
                    }
                });
            }
            found
        };
        let ports = kinds.iter().enumerate().map(ports_of).collect();
        quotient.naming = Naming::Links(naming);
        quotient.with_ports(ports)
    }

    /// The port of a class that a node's port belongs to.
    fn port_of(&self, node: NodeId, port: PortId) -> PortId {
        match &self.naming {
            Naming::Links(ports) => ports[self.whole.first_link(node) as usize + port.index()],
            Naming::Kinds(_) if node.0 < self.whole.npus() => port,
            Naming::Kinds(kinds) => {
                let kind = view(&*self.whole, &self.class_of, node, port);
                let kinds = &kinds[self.class_of[node.index()] as usize];
                PortId(kinds.iter().position(|k| *k == kind).unwrap_or(0) as u16)
            }
        }
    }

    /// The nodes of the whole machine that the NPUs of the quotient stand for.
    pub fn representatives(&self) -> &[NodeId] {
        &self.representatives[..self.npus as usize]
    }

    /// Makes ports of the folded fabric of those that a path takes in the whole one.
    fn translate(&self, src: NodeId, path: &mut [PortId]) {
        let mut at = self.representatives[src.index()];
        for port in path {
            let next = self.whole.next(at, *port).0;
            *port = self.port_of(at, *port);
            at = next;
        }
    }
}

impl Fabric for Quotient {
    fn nodes(&self) -> u32 {
        self.representatives.len() as u32
    }

    fn npus(&self) -> u32 {
        self.npus
    }

    fn multiplicity(&self, node: NodeId) -> u64 {
        self.sizes[node.index()]
    }

    fn link_multiplicity(&self, node: NodeId, port: PortId) -> u64 {
        self.ports[node.index()][port.index()].links
    }

    fn ports(&self, node: NodeId) -> u16 {
        self.ports[node.index()].len() as u16
    }

    fn first_link(&self, node: NodeId) -> u32 {
        self.first_link[node.index()]
    }

    fn links(&self) -> u32 {
        self.first_link[self.ports.len()]
    }

    fn next(&self, node: NodeId, port: PortId) -> (NodeId, PortId) {
        let ClassPort { to, arrives, .. } = self.ports[node.index()][port.index()];
        (to, arrives)
    }

    fn link(&self, node: NodeId, port: PortId) -> LinkSpec {
        let (node, port) = self.ports[node.index()][port.index()].whole;
        self.whole.link(node, port)
    }

    fn class_names(&self) -> Vec<String> {
        self.whole.class_names()
    }

    fn ring(&self, node: NodeId, port: PortId) -> Option<u8> {
        let (node, port) = self.ports[node.index()][port.index()].whole;
        self.whole.ring(node, port)
    }

    fn route(&self, src: NodeId, dst: NodeId, path: &mut Vec<PortId>) {
        let from = path.len();
        self.whole.route(self.representatives[src.index()], dst, path);
        self.translate(src, &mut path[from..]);
    }

    fn routes(&self, src: NodeId, dst: NodeId) -> u16 {
        self.whole.routes(self.representatives[src.index()], dst)
    }

    fn route_by(&self, src: NodeId, dst: NodeId, choice: u16, path: &mut Vec<PortId>) {
        let from = path.len();
        self.whole.route_by(self.representatives[src.index()], dst, choice, path);
        self.translate(src, &mut path[from..]);
    }

    fn distance(&self, src: NodeId, dst: NodeId) -> u32 {
        self.whole.distance(self.representatives[src.index()], dst)
    }

    fn node_name(&self, node: NodeId) -> String {
        self.whole.node_name(self.representatives[node.index()])
    }

    fn port_name(&self, node: NodeId, port: PortId) -> String {
        let (node, port) = self.ports[node.index()][port.index()].whole;
        self.whole.port_name(node, port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Dimension, Graph, GraphLink, GraphNode, Product};
    use proptest::prelude::*;
    use syncline_core::{Ps, Rate};

    fn product(dims: &[(Block, u32)]) -> Arc<dyn Fabric> {
        let dim = |&(block, size): &(Block, u32)| Dimension {
            block,
            size,
            rate: Rate::new(1_000_000_000).unwrap(),
            latency: Ps(1),
            links: 1,
        };
        Arc::new(Product::new(dims.iter().map(dim).collect()).unwrap())
    }

    #[test]
    fn a_product_folds_to_one_npu_and_a_slice_of_each_switch() {
        let whole = product(&[(Block::Ring, 4), (Block::FullyConnected, 3), (Block::Switch, 5)]);
        let colours = refine(&*whole, &vec![0; whole.nodes() as usize]).unwrap();
        let q = Quotient::new(whole.clone(), &colours);
        assert_eq!((q.nodes(), q.npus(), q.multiplicity(NodeId(0)), q.multiplicity(NodeId(1))), (2, 1, 60, 12));
        assert_eq!((q.ports(NodeId(0)), q.ports(NodeId(1)), q.links()), (5, 1, 6));
        assert_eq!(q.link_multiplicity(NodeId(1), PortId(0)), 60);
        let links: u64 = crate::all_links(&q).map(|(n, p)| q.link_multiplicity(n, p)).sum();
        assert_eq!(links, u64::from(whole.links()));
        let mut path = Vec::new();
        q.route(NodeId(0), NodeId(59), &mut path);
        assert_eq!(path, [1, 3, 4, 0].map(PortId)); // down, two across, to the switch, back to an NPU
        assert_eq!(path.iter().fold(NodeId(0), |at, &p| q.next(at, p).0), NodeId(0));
    }

    #[test]
    fn a_marked_node_is_told_apart_by_its_distance() {
        let whole = product(&[(Block::Ring, 6)]);
        let mut colours = vec![0; 6];
        colours[2] = 1;
        // Ports have directions, so the two neighbours of the marked node are not alike.
        assert_eq!(refine(&*whole, &colours).unwrap(), [0, 1, 2, 3, 4, 5]);
        colours[5] = 1;
        assert_eq!(refine(&*whole, &colours).unwrap(), [0, 1, 2, 0, 1, 2]);
        let half = product(&[(Block::Switch, 4)]);
        let colours = refine(&*half, &[0, 0, 1, 1, 0]).unwrap();
        assert_eq!(colours, [0, 0, 1, 1, 2]);
        let q = Quotient::new(half, &colours);
        assert_eq!((q.npus(), q.ports(NodeId(2)), q.link_multiplicity(NodeId(2), PortId(1))), (2, 2, 2));
    }

    #[test]
    fn far_from_a_single_node_nothing_need_be_compared() {
        let whole = product(&[(Block::Ring, 1 << 16), (Block::Ring, 3)]);
        let mut colours = vec![0; 3 << 16];
        colours[7] = 1;
        assert_eq!(refine(&*whole, &colours), Some((0..3 << 16).collect()));
    }

    #[test]
    fn a_slow_link_breaks_the_symmetry() {
        let nodes = (0..4).map(|i| GraphNode { name: format!("N{i}"), forwards: true }).collect();
        let spec = |rate| LinkSpec::new(Rate::new(rate).unwrap(), Ps(1), 0);
        let links = (0..4u32).flat_map(|i| {
            let (a, b) = (NodeId(i), NodeId((i + 1) % 4));
            let rate = if i == 1 { 5 } else { 10 };
            [GraphLink { from: a, to: b, spec: spec(rate) }, GraphLink { from: b, to: a, spec: spec(rate) }]
        });
        let all: Vec<NodeId> = (0..4).map(NodeId).collect();
        let ring = Graph::new(nodes, 4, vec!["x".into()], links.collect(), &all).unwrap();
        assert_eq!(refine(&ring, &[0; 4]).unwrap().iter().max(), Some(&3));
    }

    #[test]
    fn what_is_too_large_to_compare_is_not_compared() {
        let whole = product(&[(Block::Ring, 64), (Block::Ring, 64)]);
        let mut colours = vec![0; 4096];
        (colours[2], colours[34 + 32 * 64]) = (1, 1); // opposite each other
        assert!(refine_within(&*whole, &colours, 1 << 28, 1 << 21).is_some());
        assert_eq!(refine_within(&*whole, &colours, 1 << 16, 1 << 21), None);
        assert_eq!(refine_within(&*whole, &colours, 1 << 28, 1 << 12), None);
    }

    fn dims() -> impl Strategy<Value = Vec<(Block, u32)>> {
        let block = prop::sample::select(vec![Block::Ring, Block::FullyConnected, Block::Switch]);
        prop::collection::vec((block, 1u32..5), 1..5)
    }

    proptest! {
        #[test]
        fn a_uniform_product_needs_no_look_around(dims in dims(), links in 1u16..3) {
            let rate = Rate::new(1_000_000_000).unwrap();
            let dim = |&(block, size): &(Block, u32)| Dimension { block, size, rate, latency: Ps(1), links };
            let whole = Product::new(dims.iter().map(dim).collect()).unwrap();
            let looked_at = refine(&whole, &vec![0; whole.nodes() as usize]).unwrap();
            prop_assert!(whole.is_uniform());
            prop_assert_eq!(classes_of_uniform(&whole), looked_at);
        }
    }
}
