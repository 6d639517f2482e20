//! Symmetries of a run: permutations of NPUs after which it is the same run.
//!
//! On fabrics of any shape nodes that look alike need not do the same to each other, because a route may depend on the numbers
//! of its ends. So nothing is concluded from the shape. A permutation of NPUs is tried by what is all that a network
//! sees of a run: the ways of its messages. It is a symmetry if NPUs do the same as their images, with the images of those
//! with whom they do it, and if taking the way of a message to that of its image takes every link to one link, with equal
//! rate, latency and class, and nodes to nodes. Then whatever happens at some time happens at the images, too.
//!
//! Symmetries make up a group, whose *orbits* of nodes and links are the classes of a [`Quotient`](crate::Quotient): of each of
//! them one stands for all. A message of one of `m` NPUs stands for `m`, one on each of `m` links; so all orbits of links and of
//! NPUs that take part must have `m` members, which is checked before a symmetry is [added](Symmetries::add).
//!
//! *Order.* Simultaneous events of a node are ordered by its ports, so symmetries keep the order of an NPU's ports.
//! Switches are different: they may lead to any number of nodes of an orbit. Where outputs serve requests in an order
//! ([`Outputs::InOrder`]), a request must find the same ones before it in the quotient. That is so if all that an output
//! sends comes by one orbit of links, because what comes at a time by the links of an orbit then leaves by different outputs;
//! and if every input is an orbit of its own there, in an order of ports that symmetries keep.

use crate::fabric::{Fabric, all_links};
use crate::quotient::{Orbits, Quotient};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use syncline_core::{NodeId, PortId};

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// To an NPU, by one of the ways that [`Fabric::route_by`] has.
    To(NodeId, u16),
    /// To whatever is at a port.
    Port(PortId),
}

/// What NPUs do: for each of them that takes part, where it sends to, with a number for the purpose. Those of alike NPUs are in
/// equal order.
pub type Targets = Vec<Option<Vec<(u32, Target)>>>;

/// How the outputs of switches serve what is sent through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// All of it at once.
    AtOnce,
    /// One after the other.
    InOrder,
}

/// Why a permutation is no symmetry, or is not added, for people: the later ones are nearer to being one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlike {
    /// NPUs do something else than their images.
    Doings(String),
    /// Messages take other ways than their images.
    Ways(String),
    /// What is alike is of different number.
    Numbers(String),
    /// Requests at an output would be served in another order.
    Order(String),
}

impl Unlike {
    /// How far it has come.
    pub const fn nearness(&self) -> u8 {
        match self {
            Unlike::Doings(_) => 0,
            Unlike::Ways(_) => 1,
            Unlike::Numbers(_) => 2,
            Unlike::Order(_) => 3,
        }
    }

    /// What it says.
    pub fn why(&self) -> &str {
        let (Unlike::Doings(why) | Unlike::Ways(why) | Unlike::Numbers(why) | Unlike::Order(why)) = self;
        why
    }
}

/// Links on ways that are looked at before a check is called too long: a second.
const MOST_LINKS: usize = 10_000_000;

/// No link or node.
const NONE: u32 = u32::MAX;

/// The ways of the messages of a run.
#[derive(Debug)]
pub struct Ways {
    /// Per NPU, the place of each target that is not one of those before it, and the links on the way there.
    paths: Vec<Vec<(usize, Box<[u32]>)>>,
    /// Per link, its sender and its reverse.
    senders: Vec<NodeId>,
    reverses: Vec<u32>,
    /// Links on ways, and their reverses.
    used: Vec<u32>,
    /// Per output of a switch, the links that lead there, in the order of ports, if outputs serve in order.
    inputs: BTreeMap<u32, Vec<u32>>,
}

/// The symmetries of a run that have been found so far.
#[derive(Debug)]
pub struct Symmetries<'a> {
    fabric: &'a dyn Fabric,
    outputs: Outputs,
    targets: &'a Targets,
    ways: &'a Ways,
    /// Outputs at which all symmetries keep the order of inputs.
    ordered: BTreeSet<u32>,
    nodes: Classes,
    links: Classes,
}

impl Ways {
    /// Those of what NPUs send.
    ///
    /// # Errors
    /// Why they are not looked for, if they are too many.
    pub fn new(fabric: &dyn Fabric, outputs: Outputs, targets: &Targets) -> Result<Ways, String> {
        let senders: Vec<NodeId> = all_links(fabric).map(|(node, _)| node).collect();
        let reverse = |(node, port)| {
            let (there, arrives) = fabric.next(node, port);
            fabric.first_link(there) + u32::from(arrives.0)
        };
        let reverses: Vec<u32> = all_links(fabric).map(reverse).collect();
        let mut on_ways = 0;
        let mut is_used = vec![false; senders.len()];
        let mut inputs: BTreeMap<u32, BTreeSet<(u32, u32)>> = BTreeMap::new();
        let mut paths = Vec::with_capacity(targets.len());
        let mut ports = Vec::new();
        for (npu, of_npu) in (0..).map(NodeId).zip(targets) {
            let of_npu = of_npu.as_deref().unwrap_or_default();
            let mut seen = BTreeSet::new();
            let mut of_paths = Vec::new();
            for (place, &(_, target)) in of_npu.iter().enumerate().filter(|(_, target)| seen.insert(target.1)) {
                ports.clear();
                match target {
                    Target::To(dst, choice) => fabric.route_by(npu, dst, choice, &mut ports),
                    Target::Port(port) => ports.push(port),
                }
                let mut at = npu;
                let mut path = Vec::with_capacity(ports.len());
                for &port in &ports {
                    let link = fabric.first_link(at) + u32::from(port.0);
                    if let Some(&input) = path.last()
                        && at.0 >= fabric.npus()
                        && outputs == Outputs::InOrder
                    {
                        inputs.entry(link).or_default().insert((reverses[input as usize], input));
                    }
                    path.push(link);
                    at = fabric.next(at, port).0;
                }
                on_ways += path.len();
                if on_ways > MOST_LINKS {
                    return Err("the ways of messages are too many to compare".into());
                }
                for &link in &path {
                    is_used[link as usize] = true;
                    is_used[reverses[link as usize] as usize] = true;
                }
                of_paths.push((place, path.into_boxed_slice()));
            }
            paths.push(of_paths);
        }
        let used = (0..fabric.links()).filter(|&link| is_used[link as usize]).collect();
        let inputs = inputs.into_iter().map(|(output, all)| (output, all.into_iter().map(|(_, link)| link).collect()));
        Ok(Ways { paths, senders, reverses, used, inputs: inputs.collect() })
    }
}

impl<'a> Symmetries<'a> {
    /// Those of a run in which NPUs send in these ways: none so far.
    pub fn new(fabric: &'a dyn Fabric, outputs: Outputs, targets: &'a Targets, ways: &'a Ways) -> Symmetries<'a> {
        let (nodes, links) = (Classes::new(fabric.nodes()), Classes::new(fabric.links()));
        let ordered = ways.inputs.keys().copied().collect();
        Symmetries { fabric, outputs, targets, ways, ordered, nodes, links }
    }

    /// How many NPUs that take part one of them stands for.
    pub fn multiplicity(&self) -> u64 {
        let first = self.targets.iter().position(Option::is_some).unwrap_or(0);
        self.nodes.size(first as u32).into()
    }

    /// Adds the permutation that takes every NPU to its image, which does the same ([`Symmetries::compare`]), if it is a
    /// symmetry and orbits stay of equal size.
    ///
    /// # Errors
    /// Why not.
    pub fn add(&mut self, images: &[NodeId]) -> Result<(), Unlike> {
        let Images { nodes: node_images, links: link_images, .. } = self.follow(images)?;
        let (mut nodes, mut links) = (self.nodes.clone(), self.links.clone());
        let image = |images: &[u32], of: u32| Some(images[of as usize]).filter(|&image| image != NONE);
        for node in 0..self.fabric.nodes() {
            nodes.join(node, image(&node_images, node).unwrap_or(node));
        }
        for &link in &self.ways.used {
            links.join(link, image(&link_images, link).unwrap_or(link));
        }
        self.check_sizes(&nodes, &links)?;
        let keeps_order = |(&output, inputs): (&u32, &Vec<u32>)| {
            let ports = inputs.iter().map(|&input| self.ways.reverses[link_images[input as usize] as usize]);
            (self.ordered.contains(&output) && ports.is_sorted()).then_some(output)
        };
        let ordered: BTreeSet<u32> = self.ways.inputs.iter().filter_map(keeps_order).collect();
        if self.outputs == Outputs::InOrder {
            self.check_order(&links, &ordered)?;
        }
        (self.nodes, self.links, self.ordered) = (nodes, links, ordered);
        Ok(())
    }

    /// Whether NPUs do the same as their images.
    ///
    /// # Errors
    /// Which of them do not.
    pub fn compare(&self, images: &[NodeId]) -> Result<(), Unlike> {
        let same = |&(one, other): &(&(u32, Target), &(u32, Target))| {
            one.0 == other.0
                && match (one.1, other.1) {
                    (Target::To(a, by), Target::To(b, other_by)) => images[a.index()] == b && by == other_by,
                    (Target::Port(_), Target::Port(_)) => true,
                    _ => false,
                }
        };
        for (npu, (here, image)) in (0..).map(NodeId).zip(self.targets.iter().zip(images)) {
            let alike = match (here, &self.targets[image.index()]) {
                (Some(here), Some(there)) => {
                    here.len() == there.len() && here.iter().zip(there).all(|pair| same(&pair))
                }
                (here, there) => here.is_none() && there.is_none(),
            };
            if !alike {
                let (one, other) = (self.fabric.node_name(npu), self.fabric.node_name(*image));
                return Err(Unlike::Doings(format!("{one} and {other} work with others in different ways")));
            }
        }
        Ok(())
    }

    /// Where links and nodes are taken by taking ways to those of images.
    fn follow(&self, images: &[NodeId]) -> Result<Images, Unlike> {
        let fabric = self.fabric;
        let mut found = Images::new(fabric);
        for (npu, image) in (0..).map(NodeId).zip(images) {
            let all = found.set_node(npu, *image);
            debug_assert!(all, "images are those of a permutation");
        }
        for (npu, (of_npu, image)) in (0..).map(NodeId).zip(self.ways.paths.iter().zip(images)) {
            let of_image = &self.ways.paths[image.index()];
            let differ = || {
                let (one, other) = (fabric.node_name(npu), fabric.node_name(*image));
                Unlike::Ways(format!("messages of {one} and of {other} take ways that do not correspond"))
            };
            if of_npu.len() != of_image.len() {
                return Err(differ());
            }
            for ((place, path), (there, other)) in of_npu.iter().zip(of_image) {
                if place != there || path.len() != other.len() {
                    return Err(differ());
                }
                let both = |(&one, &two): (&u32, &u32)| {
                    // Most links are on many ways: a link that has its image has been looked at, and its reverse.
                    found.links[one as usize] == two
                        || self.is_like(&mut found, one, two)
                            && self.is_like(
                                &mut found,
                                self.ways.reverses[one as usize],
                                self.ways.reverses[two as usize],
                            )
                };
                if !path.iter().zip(other).all(both) {
                    return Err(differ());
                }
            }
        }
        for npu in (0..fabric.npus()).map(NodeId) {
            let first = fabric.first_link(npu);
            let ports = (first..first + u32::from(fabric.ports(npu))).map(|link| found.links[link as usize]);
            if !ports.filter(|&image| image != NONE).is_sorted() {
                let (one, other) = (fabric.node_name(npu), fabric.node_name(images[npu.index()]));
                return Err(Unlike::Order(format!(
                    "the ports of {one} and of {other} are numbered in different orders"
                )));
            }
        }
        Ok(found)
    }

    /// Takes a link to another one; false if that is unlike it, or if either has been taken elsewhere.
    fn is_like(&self, found: &mut Images, link: u32, image: u32) -> bool {
        let end = |link: u32| {
            let node = self.ways.senders[link as usize];
            let port = PortId((link - self.fabric.first_link(node)) as u16);
            (node, self.fabric.next(node, port).0, self.fabric.link(node, port))
        };
        let ((from, to, spec), (image_from, image_to, image_spec)) = (end(link), end(image));
        spec == image_spec
            && found.set_link(link, image)
            && found.set_node(from, image_from)
            && found.set_node(to, image_to)
    }

    /// Whether orbits of NPUs that take part, and of links, have equally many members.
    fn check_sizes(&self, nodes: &Classes, links: &Classes) -> Result<(), Unlike> {
        let mut active = (0..self.fabric.npus()).filter(|&npu| self.takes_part(npu));
        let Some(first) = active.next() else { return Ok(()) };
        let size = nodes.size(first);
        if let Some(other) = active.find(|&npu| nodes.size(npu) != size) {
            let (one, two) = (self.fabric.node_name(NodeId(first)), self.fabric.node_name(NodeId(other)));
            let sizes = format!("{one} is one of {size} like it and {two} one of {}", nodes.size(other));
            return Err(Unlike::Numbers(sizes));
        }
        match self.ways.used.iter().find(|&&link| links.size(link) != size) {
            Some(&link) => {
                let node = self.ways.senders[link as usize];
                let port = PortId((link - self.fabric.first_link(node)) as u16);
                let name = format!("{}, {}", self.fabric.node_name(node), self.fabric.port_name(node, port));
                Err(Unlike::Numbers(format!("{size} NPUs that are alike share {} links ({name})", links.size(link))))
            }
            None => Ok(()),
        }
    }

    /// Whether requests at the outputs of switches find the same ones before them if a link stands for its orbit.
    fn check_order(&self, links: &Classes, ordered: &BTreeSet<u32>) -> Result<(), Unlike> {
        let place = |link: u32| {
            let node = self.ways.senders[link as usize];
            self.fabric.node_name(node)
        };
        for (&output, inputs) in &self.ways.inputs {
            let orbits: BTreeSet<u32> = inputs.iter().map(|&input| links.of(input)).collect();
            if orbits.len() > 1 && (orbits.len() < inputs.len() || !ordered.contains(&output)) {
                let kinds = orbits.len();
                let turns = format!("packets from {kinds} kinds of NPUs take turns at {}", place(output));
                return Err(Unlike::Order(turns));
            }
        }
        for (_, path) in self.ways.paths.iter().flatten() {
            let outputs = path.iter().filter(|&&link| self.ways.senders[link as usize].0 >= self.fabric.npus());
            let mut seen = BTreeSet::new();
            if let Some(&again) = outputs.into_iter().find(|&&link| !seen.insert(links.of(link))) {
                let turns = format!("messages pass several nodes like {}, where packets take turns", place(again));
                return Err(Unlike::Order(turns));
            }
        }
        Ok(())
    }

    /// Whether an NPU takes part.
    fn takes_part(&self, npu: u32) -> bool {
        self.targets[npu as usize].is_some()
    }

    /// The fabric whose nodes and links are the orbits.
    pub fn quotient(&self, whole: Arc<dyn Fabric>) -> Quotient {
        let npus = self.fabric.npus();
        let passed: BTreeSet<NodeId> = self.ways.used.iter().map(|&link| self.ways.senders[link as usize]).collect();
        // NPUs that take no part are all alike, and so are other nodes on no way.
        let is_idle = |&node: &u32| match node < npus {
            true => !self.takes_part(node),
            false => !passed.contains(&NodeId(node)),
        };
        let first_idle = [(0..npus).find(is_idle), (npus..self.fabric.nodes()).find(is_idle)];
        let class = |node: u32| match first_idle[usize::from(node >= npus)] {
            Some(first) if is_idle(&node) => first,
            _ => self.nodes.of(node),
        };
        let nodes = (0..self.fabric.nodes()).map(class).collect();
        let mut links = vec![None; self.ways.senders.len()];
        for &link in &self.ways.used {
            links[link as usize] = Some(self.links.of(link));
        }
        Quotient::of_orbits(whole, &Orbits { nodes, links })
    }
}

/// Where a permutation takes links and nodes.
struct Images {
    links: Vec<u32>,
    link_of: Vec<u32>,
    nodes: Vec<u32>,
    node_of: Vec<u32>,
}

impl Images {
    fn new(fabric: &dyn Fabric) -> Images {
        let (links, nodes) = (vec![NONE; fabric.links() as usize], vec![NONE; fabric.nodes() as usize]);
        Images { link_of: links.clone(), links, node_of: nodes.clone(), nodes }
    }

    fn set(images: &mut [u32], of: &mut [u32], one: u32, image: u32) -> bool {
        let (known, known_of) = (&mut images[one as usize], &mut of[image as usize]);
        if *known == NONE && *known_of == NONE {
            (*known, *known_of) = (image, one);
        }
        *known == image && *known_of == one
    }

    fn set_link(&mut self, link: u32, image: u32) -> bool {
        Images::set(&mut self.links, &mut self.link_of, link, image)
    }

    fn set_node(&mut self, node: NodeId, image: NodeId) -> bool {
        Images::set(&mut self.nodes, &mut self.node_of, node.0, image.0)
    }
}

/// Classes that are joined; each has the number of its first member.
#[derive(Clone, Debug)]
struct Classes {
    parents: Vec<u32>,
    sizes: Vec<u32>,
}

impl Classes {
    fn new(members: u32) -> Classes {
        Classes { parents: (0..members).collect(), sizes: vec![1; members as usize] }
    }

    fn of(&self, member: u32) -> u32 {
        let mut at = member;
        while self.parents[at as usize] != at {
            at = self.parents[at as usize];
        }
        at
    }

    fn size(&self, member: u32) -> u32 {
        self.sizes[self.of(member) as usize]
    }

    fn join(&mut self, one: u32, other: u32) {
        let (a, b) = (self.of(one), self.of(other));
        if a != b {
            let (first, second) = (a.min(b), a.max(b));
            self.parents[second as usize] = first;
            self.sizes[first as usize] += self.sizes[second as usize];
            // Later members find the first one at once.
            (self.parents[one as usize], self.parents[other as usize]) = (first, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, GraphLink, GraphNode, LinkSpec};
    use syncline_core::{Ps, Rate};

    /// NPUs, then switches; links both ways between pairs of nodes, of so many bytes per second.
    fn fabric(npus: u32, switches: u32, pairs: &[(u32, u32, u64)]) -> Arc<Graph> {
        let nodes = (0..npus + switches).map(|n| GraphNode { name: format!("N{n}"), forwards: true }).collect();
        let both = |&(a, b, rate): &(u32, u32, u64)| {
            let (from, to) = (NodeId(a), NodeId(b));
            let spec = LinkSpec::new(Rate::new(rate).unwrap(), Ps(5), 0);
            [GraphLink { from, to, spec }, GraphLink { from: to, to: from, spec }]
        };
        let all: Vec<NodeId> = (0..npus).map(NodeId).collect();
        Arc::new(Graph::new(nodes, npus, vec!["x".into()], pairs.iter().flat_map(both).collect(), &all).unwrap())
    }

    /// Every NPU sends to the next one.
    fn ring(npus: u32) -> Targets {
        (0..npus).map(|n| Some(vec![(0, Target::To(NodeId((n + 1) % npus), 0))])).collect()
    }

    fn rotated(npus: u32, by: u32) -> Vec<NodeId> {
        (0..npus).map(|n| NodeId((n + by) % npus)).collect()
    }

    fn attempt(symmetries: &mut Symmetries<'_>, images: &[NodeId]) -> Result<u64, Unlike> {
        symmetries.compare(images)?;
        symmetries.add(images)?;
        Ok(symmetries.multiplicity())
    }

    #[test]
    fn a_star_folds_to_one_npu_and_a_slice_of_its_switch() {
        // A second switch, to which nobody sends, has a link of its own kind from one of the NPUs.
        let star = fabric(4, 2, &[(0, 4, 10), (1, 4, 10), (2, 4, 10), (3, 4, 10), (2, 5, 7)]);
        let targets = ring(4);
        let ways = Ways::new(&*star, Outputs::InOrder, &targets).unwrap();
        let mut symmetries = Symmetries::new(&*star, Outputs::InOrder, &targets, &ways);
        assert_eq!(attempt(&mut symmetries, &rotated(4, 1)), Ok(4));
        let quotient = symmetries.quotient(star.clone());
        assert_eq!((quotient.npus(), quotient.nodes(), quotient.multiplicity(NodeId(0))), (1, 3, 4));
        let links: u64 = all_links(&quotient).map(|(node, port)| quotient.link_multiplicity(node, port)).sum();
        assert_eq!(links, u64::from(star.links()));
        // Ports lead to ports that lead back.
        for (node, port) in all_links(&quotient) {
            let (there, arrives) = quotient.next(node, port);
            assert_eq!(quotient.next(there, arrives), (node, port));
        }
        let mut path = Vec::new();
        quotient.route(NodeId(0), NodeId(1), &mut path);
        assert_eq!(path.iter().fold(NodeId(0), |at, &port| quotient.next(at, port).0), NodeId(0));
        assert_eq!(path.len(), 2);
    }

    #[test]
    fn what_is_unlike_is_said() {
        let star = fabric(4, 1, &[(0, 4, 10), (1, 4, 10), (2, 4, 9), (3, 4, 10)]);
        let targets = ring(4);
        let ways = Ways::new(&*star, Outputs::AtOnce, &targets).unwrap();
        let mut symmetries = Symmetries::new(&*star, Outputs::AtOnce, &targets, &ways);
        assert!(matches!(attempt(&mut symmetries, &rotated(4, 1)), Err(Unlike::Ways(_))));
        let reversed: Vec<NodeId> = (0..4).rev().map(NodeId).collect();
        assert!(matches!(attempt(&mut symmetries, &reversed), Err(Unlike::Doings(_))));
        assert_eq!(symmetries.multiplicity(), 1);
    }

    /// Two switches with two NPUs each, and a link between them that messages of two NPUs share.
    #[test]
    fn npus_that_share_a_link_are_not_one() {
        let pairs = fabric(4, 2, &[(0, 4, 10), (1, 4, 10), (2, 5, 10), (3, 5, 10), (4, 5, 10)]);
        let across = |n: u32| Some(vec![(0, Target::To(NodeId((n + 2) % 4), 0))]);
        let targets: Targets = (0..4).map(across).collect();
        let ways = Ways::new(&*pairs, Outputs::AtOnce, &targets).unwrap();
        let mut symmetries = Symmetries::new(&*pairs, Outputs::AtOnce, &targets, &ways);
        let inside = [1, 0, 3, 2].map(NodeId);
        assert!(matches!(attempt(&mut symmetries, &inside), Err(Unlike::Numbers(_))));
        assert_eq!(attempt(&mut symmetries, &rotated(4, 2)), Ok(2));
        assert_eq!(symmetries.quotient(pairs.clone()).npus(), 2);
        // The outputs of the shared link take packets of both NPUs, in the order of their ports on either side.
        let ways = Ways::new(&*pairs, Outputs::InOrder, &targets).unwrap();
        let mut in_order = Symmetries::new(&*pairs, Outputs::InOrder, &targets, &ways);
        assert_eq!(attempt(&mut in_order, &rotated(4, 2)), Ok(2));
        let crossed = [3, 2, 1, 0].map(NodeId);
        let ways = Ways::new(&*pairs, Outputs::InOrder, &targets).unwrap();
        let mut in_order = Symmetries::new(&*pairs, Outputs::InOrder, &targets, &ways);
        assert!(matches!(attempt(&mut in_order, &crossed), Err(Unlike::Order(_))));
    }
}
