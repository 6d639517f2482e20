//! Fabrics of any shape: machines, clusters, imported topologies.
//!
//! Messages take a path with the fewest hops, and among these the one on which a probe of 1 MiB, sent hop by
//! hop, arrives first; a [`Routing`] chooses among equal ones. GPUs do not forward for others, with one exception:
//! if two participants have no other connection, participants forward. Then all routes go *up* and then *down* a
//! spanning tree (Autonet's up*/down* routing, Schroeder et al. 1991), since messages on shortest paths through
//! endpoints could wait for each other in a cycle.
//!
//! *Numbers of ways.* At every node a way goes on over one of the links that are equally good. Those of a pair are
//! numbered from the one that the routing prefers: of the links at a node it comes first, and the others follow in
//! their order, each with as many numbers as there are ways behind it. Numbers above these stand for ways that pass given
//! nodes, by the order in which they were asked for, and the last ones for classes of links.

mod costs;
mod ways;

use crate::fabric::{Fabric, LinkSpec};
use crate::routing::Routing;
use costs::{AllEntering, Costs, UNREACHABLE};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{OnceLock, PoisonError, RwLock};
use syncline_core::{Bytes, NodeId, PortId, Ps, Rate, Refusal};

/// A node of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// What people call it, e.g. `GPU 3`.
    pub name: String,
    /// Whether it may forward messages of others if nothing else connects them (switches always do).
    pub forwards: bool,
}

/// A directed link of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphLink {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// What it can do.
    pub spec: LinkSpec,
}

/// Why a graph is not a fabric.
#[expect(missing_docs, reason = "the fields say what the variant's name and message say")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// No NPU.
    Empty,
    /// A link names a node that is not there.
    NoSuchNode { link: usize, node: u32 },
    /// A link leads to its own node.
    SelfLoop { link: usize, node: String },
    /// More links from a node to another than back.
    OneWay { from: String, to: String },
    /// Too many links in all.
    TooManyLinks { links: usize },
    /// Too many links from a node.
    TooManyPorts { node: String, links: usize },
    /// A link class without a name.
    NoSuchClass { link: usize, class: u8 },
    /// A routing by groups of no NPUs, or over a class of links that there is none of.
    NoSuchGroups { size: u32, class: u8 },
    /// Participants that cannot reach each other.
    Disconnected { from: String, to: String },
}

impl From<GraphError> for Refusal {
    fn from(error: GraphError) -> Refusal {
        let of_link = |link: usize, what: String| Refusal::of(&format!("links.{link}"), what);
        match error {
            GraphError::Empty => Refusal::of("npus", "a fabric needs at least one NPU"),
            GraphError::NoSuchNode { link, node } => of_link(link, format!("there is no node {node}")),
            GraphError::SelfLoop { link, node } => of_link(link, format!("a link from {node} to itself")),
            GraphError::OneWay { from, to } => {
                Refusal::of("links", format!("there are more links from {from} to {to} than back"))
                    .accepting("links in both directions")
            }
            GraphError::TooManyLinks { links } => {
                Refusal::of("links", format!("{links} links")).accepting(format!("up to {}", Graph::MAX_LINKS))
            }
            GraphError::TooManyPorts { node, links } => Refusal::of("links", format!("{links} links from {node}"))
                .accepting(format!("up to {} from a node", Graph::MAX_PORTS)),
            GraphError::NoSuchClass { link, class } => of_link(link, format!("there is no link class {class}")),
            GraphError::NoSuchGroups { size, class } => {
                Refusal::of("routing", format!("there are no groups of {size} NPUs with links of class {class}"))
                    .accepting("at least one NPU, and a class of links that the fabric has")
            }
            GraphError::Disconnected { from, to } => {
                Refusal::of("links", format!("there is no route from {from} to {to}"))
            }
        }
    }
}

const PROBE: Bytes = Bytes(1 << 20);

/// A fabric of any shape.
#[derive(Debug)]
pub struct Graph {
    nodes: Vec<GraphNode>,
    npus: u32,
    classes: Vec<String>,
    /// By sending node, then as given.
    links: Vec<GraphLink>,
    first_link: Vec<u32>,
    /// Per link, the port by which it arrives.
    arrives: Vec<PortId>,
    /// Links by the node that they lead to.
    entering: AllEntering,
    /// Per node, its depth and number in the spanning tree; only where endpoints forward.
    tree: Option<Vec<(u32, u32)>>,
    /// Which of several equal ways messages take.
    routing: Routing,
    /// Per NPU, the one switch that all its links lead to, where every way to it ends but for the last hop; the NPU itself, if
    /// they lead to several nodes. NPUs behind a switch share the tables that follow.
    gates: Vec<NodeId>,
    /// Per gate, the cost from every switch; with a tree, from every node before and after the first step down.
    costs: Vec<OnceLock<Costs>>,
    /// Per gate, how many ways there are from every switch, up to `MAX_WAYS`; with a tree from every node likewise.
    ways: Vec<OnceLock<Box<[u16]>>>,
    /// Per class of links and destination, the cost from every switch of a way whose last link is of the class.
    costs_over: Vec<OnceLock<Costs>>,
    /// The nodes of ways that have been asked for: see [`Fabric::choice_through`].
    through: RwLock<Vec<Box<[NodeId]>>>,
}

impl Graph {
    /// The most links, counted in both directions.
    pub const MAX_LINKS: usize = 1 << 22;
    /// The most links from a node: its ports have numbers of 16 bits.
    pub const MAX_PORTS: usize = u16::MAX as usize;
    /// The first number that stands for a class of links.
    const CLASSES: u16 = u16::MAX - 256;
    /// The most ways through given nodes; numbers of them are below those of classes.
    pub const MAX_THROUGH: u16 = 1 << 14;
    /// The most ways between two nodes that are told apart: the numbers above stand for ways through given nodes.
    pub const MAX_WAYS: u16 = Self::CLASSES - Self::MAX_THROUGH;

    /// Builds a fabric of which `npus` nodes, the first ones, are NPUs. `participants` must be able to
    /// reach each other.
    ///
    /// # Errors
    /// A [`GraphError`].
    pub fn new(
        nodes: Vec<GraphNode>,
        npus: u32,
        classes: Vec<String>,
        mut links: Vec<GraphLink>,
        participants: &[NodeId],
    ) -> Result<Graph, GraphError> {
        let count = nodes.len() as u32;
        if npus == 0 || npus > count {
            return Err(GraphError::Empty);
        }
        if links.len() > Self::MAX_LINKS {
            return Err(GraphError::TooManyLinks { links: links.len() });
        }
        for (link, l) in links.iter().enumerate() {
            if let Some(node) = [l.from.0, l.to.0].into_iter().find(|&n| n >= count) {
                return Err(GraphError::NoSuchNode { link, node });
            }
            if l.from == l.to {
                return Err(GraphError::SelfLoop { link, node: nodes[l.from.index()].name.clone() });
            }
            if usize::from(l.spec.class) >= classes.len() {
                return Err(GraphError::NoSuchClass { link, class: l.spec.class });
            }
        }
        links.sort_by_key(|l| l.from);
        let first_link: Vec<u32> = (0..=count).map(|n| links.partition_point(|l| l.from.0 < n) as u32).collect();
        let ports = |node: &usize| (first_link[node + 1] - first_link[*node]) as usize;
        if let Some(node) = (0..nodes.len()).find(|node| ports(node) > Self::MAX_PORTS) {
            return Err(GraphError::TooManyPorts { node: nodes[node].name.clone(), links: ports(&node) });
        }
        let mut graph = Graph {
            arrives: Vec::new(),
            entering: AllEntering::default(),
            tree: None,
            routing: Routing::BySource,
            gates: (0..npus).map(NodeId).collect(),
            costs: unknown(count),
            ways: unknown(count),
            costs_over: (0..classes.len() * npus as usize).map(|_| OnceLock::new()).collect(),
            through: RwLock::default(),
            nodes,
            npus,
            classes,
            links,
            first_link,
        };
        graph.arrives = graph.pair_links()?;
        graph.entering = graph.all_entering();
        graph.gates = (0..npus).map(|npu| graph.gate(NodeId(npu))).collect();
        graph.connect(participants)?;
        Ok(graph)
    }

    /// The same fabric with another rule for equally good ways.
    ///
    /// # Errors
    /// A [`GraphError`] if there is no class of such a number, or NPUs of a group do not reach each other over its links.
    pub fn with_routing(mut self, routing: Routing) -> Result<Graph, GraphError> {
        self.routing = routing;
        let Routing::InGroups { size, class } = routing else { return Ok(self) };
        if size == 0 || usize::from(class) >= self.classes.len() {
            return Err(GraphError::NoSuchGroups { size, class });
        }
        let mut path = Vec::new();
        for (a, b) in (0..self.npus).flat_map(|a| (a / size * size..a).map(move |b| (NodeId(a), NodeId(b)))) {
            path.clear();
            self.route_over(class, a, b, &mut path);
            if path.is_empty() {
                return Err(GraphError::Disconnected { from: self.name(a), to: self.name(b) });
            }
        }
        Ok(self)
    }

    /// Which of several equally good ways messages take.
    pub fn routing(&self) -> Routing {
        self.routing
    }

    /// The switch that all links of an NPU lead to, if there is one; else the NPU.
    fn gate(&self, npu: NodeId) -> NodeId {
        let links = self.out_links(npu);
        let first = links.first().map_or(npu, |link| link.to);
        if first.0 >= self.npus && links.iter().all(|link| link.to == first) { first } else { npu }
    }

    /// Pairs the i-th link from a node to another with the i-th one back; returns arrival ports.
    fn pair_links(&self) -> Result<Vec<PortId>, GraphError> {
        let mut between: BTreeMap<(NodeId, NodeId), Vec<PortId>> = BTreeMap::new();
        for (number, l) in (0u32..).zip(&self.links) {
            let port = PortId((number - self.first_link[l.from.index()]) as u16);
            between.entry((l.from, l.to)).or_default().push(port);
        }
        let mut taken: BTreeMap<(NodeId, NodeId), usize> = BTreeMap::new();
        let back = |l: &GraphLink| {
            let nth = taken.entry((l.from, l.to)).or_default();
            *nth += 1;
            let one_way = || GraphError::OneWay { from: self.name(l.from), to: self.name(l.to) };
            between.get(&(l.to, l.from)).and_then(|ports| ports.get(*nth - 1)).copied().ok_or_else(one_way)
        };
        self.links.iter().map(back).collect()
    }

    /// Makes sure that participants reach each other, through other participants if there is no other way.
    fn connect(&mut self, participants: &[NodeId]) -> Result<(), GraphError> {
        let Some(&first) = participants.first() else { return Ok(()) };
        if self.share_switches(participants) {
            return Ok(());
        }
        let apart = |graph: &Graph| {
            participants.iter().find_map(|&to| {
                let gate = graph.gates[to.index()];
                let costs = graph.costs_to(gate);
                let from = participants.iter().find(|&&p| graph.cost(costs, p, false, gate) == UNREACHABLE)?;
                Some(GraphError::Disconnected { from: graph.name(*from), to: graph.name(to) })
            })
        };
        if apart(self).is_some() {
            self.tree = Some(self.spanning_tree(first));
            self.gates = (0..self.npus).map(NodeId).collect();
            (self.costs, self.ways) = (unknown(self.nodes.len() as u32), unknown(self.nodes.len() as u32));
        }
        apart(self).map_or(Ok(()), Err)
    }

    /// Whether one network of switches connects all participants: the common case, without a look at
    /// every pair.
    fn share_switches(&self, participants: &[NodeId]) -> bool {
        let Some(&first) = participants.first() else { return true };
        let switches = self.out_links(first).iter().map(|l| l.to).filter(|n| n.0 >= self.npus);
        switches.into_iter().any(|switch| {
            let mut reached = vec![false; self.nodes.len()];
            let mut queue = VecDeque::from([switch]);
            reached[switch.index()] = true;
            while let Some(at) = queue.pop_front() {
                for link in self.out_links(at) {
                    let seen = std::mem::replace(&mut reached[link.to.index()], true);
                    if !seen && link.to.0 >= self.npus {
                        queue.push_back(link.to);
                    }
                }
            }
            participants.iter().all(|p| reached[p.index()])
        })
    }

    fn name(&self, node: NodeId) -> String {
        self.nodes[node.index()].name.clone()
    }

    /// Depth and number of every node in a breadth-first tree.
    fn spanning_tree(&self, root: NodeId) -> Vec<(u32, u32)> {
        let mut depth = vec![(u32::MAX, 0); self.nodes.len()];
        let mut queue = VecDeque::from([root]);
        depth[root.index()] = (0, root.0);
        while let Some(at) = queue.pop_front() {
            for link in self.out_links(at) {
                if depth[link.to.index()].0 == u32::MAX {
                    depth[link.to.index()] = (depth[at.index()].0 + 1, link.to.0);
                    queue.push_back(link.to);
                }
            }
        }
        depth
    }

    fn out_links(&self, node: NodeId) -> &[GraphLink] {
        &self.links[self.first_link[node.index()] as usize..self.first_link[node.index() + 1] as usize]
    }

    /// Whether a link leads up the tree.
    fn leads_up(&self, link: &GraphLink) -> bool {
        self.tree.as_ref().is_some_and(|depth| depth[link.to.index()] < depth[link.from.index()])
    }

    /// Whether messages of others may pass a node.
    fn forwards(&self, node: NodeId) -> bool {
        node.0 >= self.npus || (self.tree.is_some() && self.nodes[node.index()].forwards)
    }

    /// Appends the ports of the way over links of a class, if there is one.
    fn route_over(&self, class: u8, src: NodeId, dst: NodeId, path: &mut Vec<PortId>) {
        let costs = self.costs_over(class, dst);
        let from = path.len();
        let mut choices = self.routing.choices(src, dst);
        let mut at = src;
        while at != dst {
            let allowed = |link: &GraphLink| {
                let ends = at == src || link.to == dst;
                (link.to == dst || link.to.0 >= self.npus) && (!ends || link.spec.class == class)
            };
            let cost = |link: &GraphLink| self.cost_with(link, self.cost_from(costs, link.to, dst));
            let links = || (0u16..).zip(self.out_links(at)).filter(|(_, link)| allowed(link));
            let Some(best) = links().map(|(_, link)| cost(link)).min().filter(|c| c.0 != u32::MAX) else {
                return path.truncate(from);
            };
            let equal = || links().filter(|(_, link)| cost(link) == best);
            let (port, link) = equal().nth(choices.next(equal().count(), || false)).expect("one of them is the best");
            path.push(PortId(port));
            at = link.to;
        }
    }

    /// Appends the ports of the way through these nodes, if links lead from each to the next: of parallel ones the best.
    fn route_through(&self, nodes: &[NodeId], src: NodeId, dst: NodeId, path: &mut Vec<PortId>) {
        let from = path.len();
        let mut choices = self.routing.choices(src, dst);
        let mut at = src;
        for &next in nodes.iter().chain([&dst]) {
            let links = || (0u16..).zip(self.out_links(at)).filter(|(_, link)| link.to == next);
            let cost = |link: &GraphLink| self.cost_with(link, (0, 0));
            let Some(best) = links().map(|(_, link)| cost(link)).min() else { return path.truncate(from) };
            let equal = || links().filter(|(_, link)| cost(link) == best);
            let (port, _) = equal().nth(choices.next(equal().count(), || false)).expect("one of them is the best");
            path.push(PortId(port));
            at = next;
        }
    }

    /// Whether a link leads down the tree, if there is one.
    fn goes_down(&self, link: &GraphLink) -> bool {
        self.tree.is_some() && !self.leads_up(link)
    }
}

/// A table that is filled in when it is first needed, for each of so many nodes.
fn unknown<T>(nodes: u32) -> Vec<OnceLock<T>> {
    (0..nodes).map(|_| OnceLock::new()).collect()
}

impl Fabric for Graph {
    fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    fn npus(&self) -> u32 {
        self.npus
    }

    fn ports(&self, node: NodeId) -> u16 {
        self.out_links(node).len() as u16
    }

    fn first_link(&self, node: NodeId) -> u32 {
        self.first_link[node.index()]
    }

    fn links(&self) -> u32 {
        self.links.len() as u32
    }

    fn next(&self, node: NodeId, port: PortId) -> (NodeId, PortId) {
        let link = self.first_link[node.index()] as usize + port.index();
        (self.links[link].to, self.arrives[link])
    }

    fn link(&self, node: NodeId, port: PortId) -> LinkSpec {
        self.out_links(node)[port.index()].spec
    }

    fn class_names(&self) -> Vec<String> {
        self.classes.clone()
    }

    fn route(&self, src: NodeId, dst: NodeId, path: &mut Vec<PortId>) {
        self.route_by(src, dst, 0, path);
    }

    fn routes(&self, src: NodeId, dst: NodeId) -> u16 {
        if src == dst || self.routing.class(src, dst).is_some() { 1 } else { self.ways(src, false, dst) }
    }

    fn choice_over(&self, class: u8) -> Option<u16> {
        (usize::from(class) < self.classes.len()).then_some(Self::CLASSES + u16::from(class))
    }

    fn choice_through(&self, nodes: &[NodeId]) -> Option<u16> {
        if !nodes.iter().all(|node| (self.npus..self.nodes.len() as u32).contains(&node.0)) {
            return None;
        }
        let mut known = self.through.write().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|way| **way == *nodes).unwrap_or(known.len());
        if place == known.len() && place < usize::from(Self::MAX_THROUGH) {
            known.push(nodes.into());
        }
        (place < known.len()).then_some(Self::MAX_WAYS + place as u16)
    }

    fn route_by(&self, src: NodeId, dst: NodeId, choice: u16, path: &mut Vec<PortId>) {
        let over = choice.checked_sub(Self::CLASSES).map(|class| class as u8);
        if let Some(class) = over.filter(|&class| usize::from(class) < self.classes.len()) {
            return self.route_over(class, src, dst, path);
        }
        if (Self::MAX_WAYS..Self::CLASSES).contains(&choice) {
            let known = self.through.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(nodes) = known.get(usize::from(choice - Self::MAX_WAYS)) {
                return self.route_through(nodes, src, dst, path);
            }
        }
        if let Some(class) = self.routing.class(src, dst) {
            return self.route_over(class, src, dst, path);
        }
        let mut number = if choice == 0 { 0 } else { choice % self.routes(src, dst).max(1) };
        let mut choices = self.routing.choices(src, dst);
        let (mut at, mut down) = (src, false);
        while at != dst {
            let onward = self.onward(at, down, dst);
            let meet_near = || self.meet_near(onward.clone(), down, dst);
            let preferred = choices.next(onward.clone().count(), meet_near);
            let mut in_turn = onward.clone().skip(preferred).chain(onward.take(preferred));
            let chosen = in_turn.find(|(_, link)| {
                let behind = if number == 0 || link.to == dst {
                    1
                } else {
                    self.ways(link.to, down || self.goes_down(link), dst)
                };
                let is_behind = number < behind;
                number -= if is_behind { 0 } else { behind };
                is_behind
            });
            let Some((port, link)) = chosen else { return };
            down |= self.goes_down(link);
            path.push(port);
            at = link.to;
        }
    }

    fn node_name(&self, node: NodeId) -> String {
        self.name(node)
    }

    fn port_name(&self, node: NodeId, port: PortId) -> String {
        let link = &self.out_links(node)[port.index()];
        format!("{} to {}", self.classes[usize::from(link.spec.class)], self.nodes[link.to.index()].name)
    }
}

impl LinkSpec {
    /// A link of a class.
    pub fn new(rate: Rate, latency: Ps, class: u8) -> LinkSpec {
        LinkSpec { rate, latency, class }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph(npus: u32, switches: u32, pairs: &[(u32, u32)]) -> Result<Graph, GraphError> {
        let nodes = (0..npus + switches).map(|n| GraphNode { name: format!("N{n}"), forwards: true }).collect();
        let spec = LinkSpec::new(Rate::new(1_000_000_000).unwrap(), Ps(5), 0);
        let both = |&(a, b): &(u32, u32)| {
            let (from, to) = (NodeId(a), NodeId(b));
            [GraphLink { from, to, spec }, GraphLink { from: to, to: from, spec }]
        };
        let participants: Vec<NodeId> = (0..npus).map(NodeId).collect();
        Graph::new(nodes, npus, vec!["link".into()], pairs.iter().flat_map(both).collect(), &participants)
    }

    fn way(graph: &Graph, src: u32, dst: u32) -> Vec<u32> {
        let mut path = Vec::new();
        graph.route(NodeId(src), NodeId(dst), &mut path);
        let mut at = NodeId(src);
        let mut nodes = vec![src];
        for port in path {
            at = graph.next(at, port).0;
            nodes.push(at.0);
        }
        nodes
    }

    #[test]
    fn endpoints_forward_only_where_nothing_else_connects() {
        // 0 - 1 - 2 in a line, and a switch between 0 and 2.
        let with_switch = graph(3, 1, &[(0, 1), (1, 2), (0, 3), (3, 2)]).unwrap();
        assert_eq!(way(&with_switch, 0, 2), [0, 3, 2]);
        let line = graph(3, 0, &[(0, 1), (1, 2)]).unwrap();
        assert_eq!(way(&line, 0, 2), [0, 1, 2]);
        let apart = graph(4, 0, &[(0, 1), (2, 3)]);
        assert_eq!(apart.err(), Some(GraphError::Disconnected { from: "N2".into(), to: "N0".into() }));
    }

    /// The links of all nodes together may have larger numbers than the ports of one.
    #[test]
    fn a_node_has_so_many_ports() {
        let star = |npus: u32| graph(npus, 1, &(0..npus).map(|n| (n, npus)).collect::<Vec<_>>());
        let most = star(65_535).unwrap();
        assert_eq!((most.ports(NodeId(65_535)), way(&most, 0, 65_534)), (65_535, vec![0, 65_535, 65_534]));
        let refused = GraphError::TooManyPorts { node: "N65536".into(), links: 65_536 };
        assert_eq!(star(65_536).err(), Some(refused));
    }

    #[test]
    fn flows_spread_over_parallel_links() {
        let g = graph(4, 2, &[(0, 4), (0, 5), (1, 4), (1, 5), (2, 4), (2, 5), (3, 4), (3, 5)]).unwrap();
        assert_ne!(way(&g, 0, 2)[1], way(&g, 1, 2)[1]);
    }

    /// Three servers of two PCIe switches, each with two NPUs and two NICs; NICs of the same place share a leaf.
    #[test]
    fn every_npu_sends_and_receives_by_a_nic_of_its_own() {
        let (pcie, nic, leaf, spine) = (|npu: u32| 12 + npu / 2, |npu: u32| 18 + npu, |nic: u32| 30 + nic % 4, 34);
        let of_npu = |npu: u32| [(npu, pcie(npu)), (pcie(npu), nic(npu)), (nic(npu), leaf(npu))];
        let pairs: Vec<_> = (0..12).flat_map(of_npu).chain((30..34).map(|leaf| (leaf, spine))).collect();
        let g = graph(12, 23, &pairs).unwrap();
        for src in 0..12 {
            for dst in (0..12).filter(|dst| dst / 4 != src / 4 && dst % 4 / 2 != src % 4 / 2) {
                let expected = [src, pcie(src), nic(src), leaf(src), spine, leaf(dst), nic(dst), pcie(dst), dst];
                assert_eq!(way(&g, src, dst), expected);
            }
        }
    }

    /// Two NPUs with a direct link of one class, and two switches in a row between them by links of other classes.
    #[test]
    fn a_way_over_a_class_of_links_begins_and_ends_with_it() {
        let nodes = (0..4).map(|n| GraphNode { name: format!("N{n}"), forwards: true }).collect();
        let rate = Rate::new(1_000_000_000).unwrap();
        let both = |(a, b, class): (u32, u32, u8)| {
            let (from, to, spec) = (NodeId(a), NodeId(b), LinkSpec::new(rate, Ps(5), class));
            [GraphLink { from, to, spec }, GraphLink { from: to, to: from, spec }]
        };
        let links = [(0, 1, 0), (0, 1, 0), (0, 2, 1), (2, 3, 2), (3, 1, 1)].into_iter().flat_map(both).collect();
        let classes = ["NVLink", "PCIe", "QPI", "unused"].map(String::from).to_vec();
        let g = Graph::new(nodes, 2, classes, links, &[NodeId(0), NodeId(1)]).unwrap();
        let hops = |class: u8| {
            let mut path = Vec::new();
            g.route_by(NodeId(0), NodeId(1), g.choice_over(class).unwrap(), &mut path);
            path.len()
        };
        assert_eq!((hops(0), hops(1), hops(2), hops(3)), (1, 3, 0, 0));
        assert_eq!(g.choice_over(4), None);
    }

    proptest! {
        /// On random connected graphs without switches: every route arrives, goes up before it goes
        /// down, and links lead back.
        #[test]
        fn routes_arrive(
            n in 2u32..9, extra in prop::collection::vec((any::<u32>(), any::<u32>()), 0..12), seed in any::<u32>(),
        ) {
            let tree = (1..n).map(|i| (seed.rotate_left(i) % i, i));
            let more = extra.iter().map(|&(a, b)| (a % n, b % n)).filter(|(a, b)| a != b);
            let g = graph(n, 0, &tree.chain(more).collect::<Vec<_>>()).unwrap();
            for a in 0..n {
                for b in 0..n {
                    let nodes = way(&g, a, b);
                    prop_assert_eq!(nodes.last(), Some(&b));
                    let Some(tree) = &g.tree else { continue };
                    let ups: Vec<bool> = nodes.windows(2).map(|w| tree[w[1] as usize] < tree[w[0] as usize]).collect();
                    prop_assert!(ups.windows(2).all(|w| w[0] || !w[1]), "{:?} goes up after down", nodes);
                }
                for p in 0..g.ports(NodeId(a)) {
                    let (there, arrives) = g.next(NodeId(a), PortId(p));
                    prop_assert_eq!(g.next(there, arrives), (NodeId(a), PortId(p)));
                }
            }
        }
    }
}
