//! Which of several equally good ways a message takes: the rules of machines, of Clos networks, and of super-nodes.
//!
//! A rule is asked at every node at which the ways part, for one of the links that are equally good there. All of them are
//! functions of source and destination, so that a route is always the same.

use syncline_core::NodeId;

/// The rule of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Near the source the choice depends on the source and near the destination on the destination, so that every GPU has
    /// a network card of its own for what it sends and for what it receives, where there are enough; between them it depends
    /// on both, so that flows spread over spines. Ways part near the source within two hops of it, and near the destination
    /// where they meet no more than one hop before it.
    #[default]
    BySource,
    /// The number of the destination, digit by digit: where the ways part for the first time into `m`, it is the number modulo
    /// `m`, and what is left of the number after a division by `m` decides where they part next.
    ///
    /// On a fat tree that is D-mod-k routing (Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations
    /// on real life fat trees", 2010): all messages for a destination meet at one core switch, every link down from there
    /// serves one destination where there are as many links up as hosts, and no shift permutation loads a link twice.
    ByDestination,
    /// NPUs with consecutive numbers form groups of `size`. Within a group messages use links of `class` only, and of the
    /// switches there that of number `(a + b) mod switches`, with `a` and `b` the places of both in the group (Rashidi et al.,
    /// "Scalable distributed training of recommendation models", HOTI 2020, section III). Between groups they take the shortest
    /// way, and [`Routing::ByDestination`] chooses.
    InGroups {
        /// NPUs of a group.
        size: u32,
        /// The class of links within a group.
        class: u8,
    },
}

impl Routing {
    /// The class of links that a message has to take, if it is not free to take any.
    pub(crate) fn class(self, src: NodeId, dst: NodeId) -> Option<u8> {
        match self {
            Routing::InGroups { size, class } => (src.0 / size == dst.0 / size).then_some(class),
            Routing::BySource | Routing::ByDestination => None,
        }
    }

    /// The choices along a way.
    pub(crate) fn choices(self, src: NodeId, dst: NodeId) -> Choices {
        Choices { routing: self, src, dst, hops: 0, digits: dst.0 }
    }
}

/// The choices along a way from one node to another.
#[derive(Debug)]
pub(crate) struct Choices {
    routing: Routing,
    src: NodeId,
    dst: NodeId,
    hops: u32,
    /// What is left of the destination's number.
    digits: u32,
}

impl Choices {
    /// Which of `ways` links the next hop takes; `meet_near` says whether the ways over them meet near the destination.
    pub(crate) fn next(&mut self, ways: usize, meet_near: impl FnOnce() -> bool) -> usize {
        let ways = ways.max(1) as u32;
        self.hops += 1;
        let number = match self.routing {
            Routing::BySource if ways == 1 => 0,
            Routing::BySource if self.hops <= 2 => self.src.0,
            Routing::BySource if meet_near() => self.dst.0,
            Routing::BySource => scattered(self.src, self.dst),
            Routing::InGroups { size, .. } if self.src.0 / size == self.dst.0 / size => {
                self.src.0 % size + self.dst.0 % size
            }
            Routing::ByDestination | Routing::InGroups { .. } => {
                let number = self.digits;
                self.digits /= ways;
                number
            }
        };
        (number % ways) as usize
    }
}

/// A number that differs for pairs of nodes in no regular way.
fn scattered(src: NodeId, dst: NodeId) -> u32 {
    let hashed = (src.0.wrapping_mul(0x9e37_79b1) ^ dst.0.wrapping_mul(0x85eb_ca6b)).wrapping_mul(0xc2b2_ae35);
    hashed >> 16
}
