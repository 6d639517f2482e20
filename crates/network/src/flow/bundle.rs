//! Messages that are under way between the same nodes.

use crate::api::{Connection, MsgId, Route};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Index, IndexMut};
use syncline_core::Ps;
use syncline_core::share::{GroupId, Share, Work};

/// The messages of a connection, which are served in the order in which they were sent.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    connection: Connection,
    pub first_link: u32,
    pub latency: Ps,
    rate: Share,
    /// What the port has been told of the bundle.
    pub noted: Share,
    /// When `given` was up to date.
    since: Ps,
    /// What has been given since the bundle began, and what that will be when the last message has drained.
    given: Work,
    end: Work,
    /// What `given` will be when a message has drained, in the order of sending.
    messages: VecDeque<(Work, MsgId)>,
}

impl Bundle {
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Gives the messages, one after the other, what is theirs until now.
    #[inline]
    pub fn advance(&mut self, now: Ps) {
        self.given = self.given + self.rate.work(now - self.since);
        self.since = now;
    }

    /// Another message is sent, which drains after those before it. Says what it adds to all that the bundle was ever to
    /// be given: its work, and what has been given to nobody since the one before it drained within this picosecond.
    pub fn queue(&mut self, now: Ps, id: MsgId, work: Work) -> Work {
        self.advance(now);
        let added = self.excess() + work;
        self.end = self.end + added;
        self.messages.push_back((self.end, id));
        added
    }

    /// What has been given after the end of the last message.
    pub fn excess(&self) -> Work {
        self.given.less(self.end)
    }

    /// The messages have this rate from now on.
    pub fn set_rate(&mut self, now: Ps, rate: Share) {
        self.advance(now);
        self.rate = rate;
    }

    /// The rate of what is being sent.
    pub fn rate(&self) -> Share {
        if self.is_empty() { Share::ZERO } else { self.rate }
    }

    /// When the first message has drained at this rate, if nothing changes.
    pub fn drains_at(&self) -> Ps {
        let Some(&(end, _)) = self.messages.front() else { return Ps::MAX };
        let rest = self.rate.time(end.less(self.given)).unwrap_or(Ps::MAX);
        Ps(self.since.0.saturating_add(rest.0))
    }

    /// What is left of every message, as of the last time the bundle was advanced.
    pub fn left(&self) -> impl Iterator<Item = (MsgId, Work)> + '_ {
        self.messages.iter().scan(self.given, |given, &(end, id)| {
            let left = end.less(*given);
            *given = end.max(*given);
            Some((id, left))
        })
    }

    /// Takes out the first message if it has drained. It does at a whole picosecond; what it did not need of that was for
    /// the next one.
    pub fn take_drained(&mut self) -> Option<MsgId> {
        let &(end, id) = self.messages.front()?;
        if end > self.given {
            return None;
        }
        self.messages.pop_front();
        Some(id)
    }
}

/// The bundles, by the numbers of their flows in the pool of links.
#[derive(Clone, Debug)]
pub(super) struct Bundles {
    bundles: Vec<Bundle>,
    /// Per link, the first connection of messages that take no other.
    one_hop: Vec<Option<GroupId>>,
    others: BTreeMap<Connection, GroupId>,
}

impl Bundles {
    /// None, on so many links.
    pub fn new(links: u32) -> Bundles {
        Bundles { bundles: Vec::new(), one_hop: vec![None; links as usize], others: BTreeMap::new() }
    }

    /// The bundle of a connection whose messages leave by `first_link`.
    pub fn find(&self, connection: Connection, first_link: u32) -> Option<GroupId> {
        match connection {
            Connection { route: Route::Port(_), queue: 0, .. } => self.one_hop[first_link as usize],
            other => self.others.get(&other).copied(),
        }
    }

    /// Begins a bundle.
    pub fn open(&mut self, id: GroupId, connection: Connection, first_link: u32, latency: Ps) {
        let fresh = |messages| Bundle {
            connection,
            first_link,
            latency,
            rate: Share::ZERO,
            noted: Share::ZERO,
            since: Ps::ZERO,
            given: Work::ZERO,
            end: Work::ZERO,
            messages,
        };
        match self.bundles.get_mut(id.index()) {
            Some(old) => *old = fresh(std::mem::take(&mut old.messages)),
            None => self.bundles.push(fresh(VecDeque::new())),
        }
        match connection {
            Connection { route: Route::Port(_), queue: 0, .. } => self.one_hop[first_link as usize] = Some(id),
            other => _ = self.others.insert(other, id),
        }
    }

    /// Those that have messages.
    pub fn open_ones(&mut self) -> impl Iterator<Item = &mut Bundle> {
        self.bundles.iter_mut().filter(|bundle| !bundle.is_empty())
    }

    /// Ends a bundle that has no messages.
    pub fn close(&mut self, id: GroupId) {
        let Bundle { connection, first_link, .. } = self[id];
        match connection {
            Connection { route: Route::Port(_), queue: 0, .. } => self.one_hop[first_link as usize] = None,
            other => _ = self.others.remove(&other),
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
