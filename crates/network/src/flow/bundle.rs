//! Messages that are under way between the same nodes.

use crate::api::MsgId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::{Index, IndexMut};
use syncline_core::share::{GroupId, Share, Work};
use syncline_core::{NodeId, Ps};

/// What the messages of a bundle have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// One hop over a link.
    Link(u32),
    /// The route from a node to another.
    Between(NodeId, NodeId),
}

/// Flows with the same route and therefore the same rate.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    way: Way,
    pub first_link: u32,
    pub latency: Ps,
    rate: Share,
    /// What the port has been told of the bundle.
    pub noted: Share,
    /// When `given` was up to date.
    since: Ps,
    /// What a flow has been given that has been there since the bundle began.
    given: Work,
    /// What `given` will be when a flow has drained.
    flows: BinaryHeap<Reverse<(Work, MsgId)>>,
}

impl Bundle {
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Gives the flows what is theirs until now.
    #[inline]
    pub fn advance(&mut self, now: Ps) {
        self.given = self.given + self.rate.work(now - self.since);
        self.since = now;
    }

    /// Another flow starts.
    pub fn start(&mut self, now: Ps, id: MsgId, work: Work) {
        self.advance(now);
        self.flows.push(Reverse((self.given + work, id)));
    }

    /// Each flow has this rate from now on.
    pub fn set_rate(&mut self, now: Ps, rate: Share) {
        self.advance(now);
        self.rate = rate;
    }

    /// The rate of all flows together.
    pub fn together(&self) -> Share {
        self.rate.times(self.flows.len() as u64)
    }

    /// When the next flow has drained at this rate, if nothing changes.
    pub fn drains_at(&self) -> Ps {
        let Some(Reverse((end, _))) = self.flows.peek() else { return Ps::MAX };
        let rest = self.rate.time(end.less(self.given)).unwrap_or(Ps::MAX);
        Ps(self.since.0.saturating_add(rest.0))
    }

    /// Takes out a flow that has drained, with what it has been given beyond its end: in its last
    /// picosecond it drains at the full rate.
    pub fn take_drained(&mut self) -> Option<(MsgId, Work)> {
        let end = self.flows.peek()?.0.0;
        if end > self.given {
            return None;
        }
        let Reverse((_, id)) = self.flows.pop()?;
        Some((id, self.given.less(end)))
    }
}

/// The bundles, by the numbers of their groups in the pool of links.
#[derive(Clone, Debug)]
pub(super) struct Bundles {
    bundles: Vec<Bundle>,
    /// Per link, the bundle of messages that take no other.
    one_hop: Vec<Option<GroupId>>,
    between: BTreeMap<(NodeId, NodeId), GroupId>,
}

impl Bundles {
    /// None, on so many links.
    pub fn new(links: u32) -> Bundles {
        Bundles { bundles: Vec::new(), one_hop: vec![None; links as usize], between: BTreeMap::new() }
    }

    pub fn find(&self, way: Way) -> Option<GroupId> {
        match way {
            Way::Link(link) => self.one_hop[link as usize],
            Way::Between(src, dst) => self.between.get(&(src, dst)).copied(),
        }
    }

    /// Begins a bundle.
    pub fn open(&mut self, id: GroupId, way: Way, first_link: u32, latency: Ps) {
        let fresh = |flows| Bundle {
            way,
            first_link,
            latency,
            rate: Share::ZERO,
            noted: Share::ZERO,
            since: Ps::ZERO,
            given: Work::ZERO,
            flows,
        };
        match self.bundles.get_mut(id.index()) {
            Some(old) => *old = fresh(std::mem::take(&mut old.flows)),
            None => self.bundles.push(fresh(BinaryHeap::new())),
        }
        match way {
            Way::Link(link) => self.one_hop[link as usize] = Some(id),
            Way::Between(src, dst) => _ = self.between.insert((src, dst), id),
        }
    }

    /// Ends a bundle that has no flows.
    pub fn close(&mut self, id: GroupId) {
        match self[id].way {
            Way::Link(link) => self.one_hop[link as usize] = None,
            Way::Between(src, dst) => _ = self.between.remove(&(src, dst)),
        }
    }
}

impl Index<GroupId> for Bundles {
    type Output = Bundle;
    #[inline]
    fn index(&self, id: GroupId) -> &Bundle {
        &self.bundles[id.index()]
    }
}

impl IndexMut<GroupId> for Bundles {
    #[inline]
    fn index_mut(&mut self, id: GroupId) -> &mut Bundle {
        &mut self.bundles[id.index()]
    }
}
