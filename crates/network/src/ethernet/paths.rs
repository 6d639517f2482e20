//! The ways of frames.
//!
//! A frame carries the last part of its way as the ports by which it leaves the nodes ahead, as many as fit into its `route`.
//! Before that, `route` is a place in a table, which has the next port, then those after it, and at last what is carried. The
//! ways of all connections together are larger than a cache, so that to look up every link of every frame would take most of
//! the time of a large network.

use super::frame::{Frame, NONE};
use super::path::Path;
use crate::api::Route;
use std::collections::BTreeMap;
use syncline_core::{NodeId, PortId};
use syncline_topology::{Fabric, all_links};

/// The ways of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// To the receiver.
    pub forth: Path,
    /// Over the same links back, in their other direction.
    pub back: Path,
    /// The receiver, and the port that the last link leads to.
    pub end: (NodeId, PortId),
}

/// All ways that connections take.
#[derive(Clone, Debug)]
pub struct Paths {
    /// By link: the first link of the node that it leads to.
    next: Vec<u32>,
    /// Bits of a port, and how many ports a frame carries.
    bits: u32,
    carried: u8,
    /// Ports before those that are carried, each path's followed by these.
    table: Vec<u32>,
    /// Those of which there are several, among which frames are spread.
    known: BTreeMap<(NodeId, Route), Ways>,
}

impl Paths {
    /// No ways yet.
    pub fn new(fabric: &impl Fabric) -> Paths {
        let most = (0..fabric.nodes()).map(|node| fabric.ports(NodeId(node))).max().unwrap_or(0);
        let bits = u32::from(most).max(2).next_power_of_two().ilog2();
        let next = all_links(fabric).map(|(node, port)| fabric.first_link(fabric.next(node, port).0)).collect();
        Paths { next, bits, carried: (u32::BITS / bits) as u8, table: Vec::new(), known: BTreeMap::new() }
    }

    /// The link that a frame takes after another one.
    #[inline(always)]
    pub fn advance(&self, link: u32, frame: &mut Frame) -> u32 {
        let port = if frame.hops <= self.carried {
            let port = frame.route & ((1 << self.bits) - 1);
            frame.route >>= self.bits;
            port
        } else {
            self.look_up(frame)
        };
        frame.hops -= 1;
        self.next[link as usize] + port
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self, frame: &mut Frame) -> u32 {
        let place = frame.route as usize;
        frame.route += 1;
        if frame.hops == self.carried + 1 {
            frame.route = self.table[place + 1];
        }
        self.table[place]
    }

    /// The links of a way, in their order.
    pub fn all(&self, path: Path) -> impl Iterator<Item = u32> {
        let hops = path.links.saturating_sub(1);
        let mut frame = Frame { route: path.route, hops, ..Frame::NOTHING };
        let mut link = path.first;
        (0..path.links).map(move |i| {
            if i > 0 {
                link = self.advance(link, &mut frame);
            }
            link
        })
    }

    /// The ways of a route, which are the same whenever they are asked for.
    ///
    /// # Panics
    /// If it has more links than a frame can count.
    pub fn of(&mut self, fabric: &impl Fabric, src: NodeId, route: Route) -> Ways {
        if let Some(&ways) = self.known.get(&(src, route)) {
            return ways;
        }
        let ways = self.lay(fabric, src, route);
        self.known.insert((src, route), ways);
        ways
    }

    /// The ways of a route for one connection.
    ///
    /// # Panics
    /// If it has more links than a frame can count.
    pub fn lay(&mut self, fabric: &impl Fabric, src: NodeId, route: Route) -> Ways {
        let mut ports = Vec::new();
        route.append(fabric, src, &mut ports);
        let number = |node: NodeId, port: PortId| fabric.first_link(node) + u32::from(port.0);
        let mut end = (src, PortId(0));
        let (mut forth, mut back) = (Vec::with_capacity(ports.len()), Vec::with_capacity(ports.len()));
        for port in ports {
            forth.push(number(end.0, port));
            end = fabric.next(end.0, port);
            back.push(number(end.0, end.1));
        }
        back.reverse();
        Ways { forth: self.keep(&forth), back: self.keep(&back), end }
    }

    /// The part of a connection's ways from one link to the one before another, and back over the same.
    pub fn part(&mut self, ways: Ways, from: usize, to: usize) -> Ways {
        let forth: Vec<u32> = self.all(ways.forth).collect();
        let back: Vec<u32> = self.all(ways.back).collect();
        let links = back.len();
        Ways { forth: self.keep(&forth[from..to]), back: self.keep(&back[links - to..links - from]), ..ways }
    }

    fn keep(&mut self, links: &[u32]) -> Path {
        let first = links.first().copied().unwrap_or(NONE);
        let ports: Vec<u32> = links.windows(2).map(|pair| pair[1] - self.next[pair[0] as usize]).collect();
        let (before, last) = ports.split_at(ports.len().saturating_sub(self.carried.into()));
        let mut route = last.iter().rev().fold(0, |route, port| route << self.bits | port);
        if !before.is_empty() {
            self.table.extend(before);
            self.table.push(route);
            route = (self.table.len() - before.len() - 1) as u32;
        }
        Path { first, route, links: u8::try_from(links.len()).expect("a way of up to 255 links") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_core::{Ps, Rate};
    use syncline_topology::{Block, Dimension, Product};

    proptest! {
        /// Whatever number of ports a node has and of links a way: all of them, in their order, and back over the same.
        #[test]
        fn a_way_is_that_of_the_fabric(sizes in prop::collection::vec(2u32..40, 1..3), a in any::<u32>(), b in any::<u32>()) {
            let (rate, latency) = (Rate::new(1_000_000_000).expect("positive"), Ps(1000));
            let ring = |&size: &u32| Dimension { block: Block::Ring, size, rate, latency, links: 1 };
            let fabric = Product::new(sizes.iter().map(ring).collect()).expect("a torus");
            let (a, b) = (NodeId(a % fabric.npus()), NodeId(b % fabric.npus()));
            let mut paths = Paths::new(&fabric);
            let ways = paths.lay(&fabric, a, Route::To(b));
            let mut ports = Vec::new();
            fabric.route(a, b, &mut ports);
            let (mut at, mut links) = ((a, PortId(0)), Vec::new());
            for port in ports {
                links.push(fabric.first_link(at.0) + u32::from(port.0));
                at = fabric.next(at.0, port);
            }
            prop_assert_eq!(paths.all(ways.forth).collect::<Vec<_>>(), links.clone());
            let ends: Vec<(NodeId, PortId)> = all_links(&fabric).collect();
            let turned = |link: &u32| {
                let (node, port) = fabric.next(ends[*link as usize].0, ends[*link as usize].1);
                fabric.first_link(node) + u32::from(port.0)
            };
            prop_assert_eq!(paths.all(ways.back).collect::<Vec<_>>(), links.iter().rev().map(turned).collect::<Vec<_>>());
            let (from, to) = (links.len() / 3, links.len() / 2);
            let part = paths.part(ways, from, to);
            prop_assert_eq!(paths.all(part.forth).collect::<Vec<_>>(), &links[from..to]);
            prop_assert_eq!(part.back.links, part.forth.links);
        }
    }
}
