//! The ways of frames, as lists of links in one array.

use crate::api::Route;
use std::collections::BTreeMap;
use syncline_core::{NodeId, PortId};
use syncline_topology::Fabric;

/// A way from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The place of its first link.
    pub place: u32,
    /// How many links it has.
    pub links: u8,
}

/// The ways of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// To the receiver.
    pub forth: Path,
    /// Over the same links back, in their other direction.
    pub back: Path,
    /// The receiver.
    pub end: NodeId,
    /// The port that the last link leads to.
    pub by: PortId,
}

impl Ways {
    /// The part from one link to the one before another, and back over the same.
    #[must_use]
    pub fn part(self, from: u8, to: u8) -> Ways {
        let links = to - from;
        let forth = Path { place: self.forth.place + u32::from(from), links };
        let back = Path { place: self.back.place + u32::from(self.back.links - to), links };
        Ways { forth, back, ..self }
    }
}

/// All ways that connections take.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    links: Vec<u32>,
    /// Those of which there are several, among which frames are spread.
    known: BTreeMap<(NodeId, Route), Ways>,
}

impl Paths {
    /// The link at a place.
    #[inline(always)]
    pub fn link(&self, place: u32) -> u32 {
        self.links[place as usize]
    }

    /// The links of a way, in their order.
    pub fn all(&self, path: Path) -> &[u32] {
        &self.links[path.place as usize..][..path.links.into()]
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
        let (mut end, mut by) = (src, PortId(0));
        let mut back = Vec::with_capacity(ports.len());
        for &port in &ports {
            (end, by) = fabric.next(end, port);
            back.push(by);
        }
        back.reverse();
        Ways { forth: self.keep(fabric, src, &ports), back: self.keep(fabric, end, &back), end, by }
    }

    fn keep(&mut self, fabric: &impl Fabric, src: NodeId, ports: &[PortId]) -> Path {
        let place = self.links.len() as u32;
        let mut at = src;
        for &port in ports {
            self.links.push(fabric.first_link(at) + u32::from(port.0));
            at = fabric.next(at, port).0;
        }
        Path { place, links: u8::try_from(ports.len()).expect("a way of up to 255 links") }
    }
}
