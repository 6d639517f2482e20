//! Which chunk is next.
//!
//! All NPUs must start chunks in the same order: with a limited number in flight, NPUs that picked
//! differently would wait for each other for ever. The order is therefore written once, in a log. The
//! first NPU that has room for a chunk and none left to follow in the log picks among the collectives
//! that *it* has issued: those of the foremost kind, if kinds have priority, and among them by the
//! scheduling policy; everybody else follows. Chunks in flight are never pre-empted. An NPU that comes to
//! a collective it has not issued yet waits for its own training loop.

use crate::balance::{Balance, Loads};
use crate::pieces::Pieces;
use syncline_collective::{Kind, PlanId};
use syncline_core::{Bytes, Id, NodeId, Ps, id_type};
use syncline_endpoint::{Chunk, ChunkId};

id_type!(
    /// A collective of a run, numbered in the order of its graph node.
    CollectiveId
);

/// Which issued collective the next chunk is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The earliest issued.
    Fifo,
    /// The latest issued.
    Lifo,
}

#[derive(Clone, Debug)]
struct Collective {
    kind: Kind,
    /// Its first plan.
    plan: PlanId,
    pieces: Pieces,
    /// The next piece to enter the log.
    next: u64,
    /// Pieces that entered it (empty ones do not).
    entered: u64,
}

#[derive(Clone, Debug, Default)]
struct Follower {
    /// Entries of the log that the NPU has started.
    started: usize,
    issued: Vec<bool>,
    /// Pieces of each collective that are done.
    done: Vec<u64>,
}

/// The log of chunks, and how far each NPU is in it.
#[derive(Debug)]
pub struct Admission {
    policy: Policy,
    /// Kinds that go first, the foremost first.
    priority: Vec<Kind>,
    balance: Option<Balance>,
    /// With a balance, how busy the dimensions are.
    loads: Loads,
    collectives: Vec<Collective>,
    /// Collectives that some NPU issued and whose pieces are not all in the log, in order of issue, and when that was.
    open: Vec<(Ps, CollectiveId)>,
    /// Whether a collective that has begun to enter the log enters it to its end before another one.
    whole: bool,
    /// By collective, whether it may be entered, if that is not up to who issues it.
    permitted: Option<Vec<bool>>,
    log: Vec<(CollectiveId, Chunk)>,
    npus: Vec<Follower>,
}

/// The chunk that an NPU may start next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Its collective.
    pub collective: CollectiveId,
    /// The chunk.
    pub chunk: Chunk,
    /// Whether it must be entered into the log first ([`Admission::enter`]).
    pub new: bool,
}

impl Admission {
    /// An empty log for `npus` NPUs. Kinds of `priority` go before all others; those of a `balance` have as
    /// many plans as it has orders.
    pub fn new(policy: Policy, priority: Vec<Kind>, balance: Option<Balance>, npus: u32) -> Admission {
        let loads = balance.as_ref().map_or_else(Vec::new, Balance::idle);
        let npus = vec![Follower::default(); npus as usize];
        let (collectives, open, log) = (Vec::new(), Vec::new(), Vec::new());
        Admission { policy, priority, balance, loads, collectives, open, whole: false, permitted: None, log, npus }
    }

    /// Enters every collective to its end before another one.
    pub fn enter_whole(&mut self) {
        self.whole = true;
    }

    /// Enters collectives only when that has been [permitted](Admission::permit).
    pub fn hold(&mut self) {
        self.permitted = Some(Vec::new());
    }

    /// Permits that a collective, which is known, is entered; true if it has nothing to enter.
    pub fn permit(&mut self, id: CollectiveId) -> bool {
        let permitted = self.permitted.get_or_insert_default();
        permitted.resize(permitted.len().max(id.index() + 1), false);
        permitted[id.index()] = true;
        let c = &mut self.collectives[id.index()];
        skip_empty(c);
        c.next == c.pieces.count()
    }

    fn is_permitted(&self, id: CollectiveId) -> bool {
        self.permitted.as_ref().is_none_or(|p| p.get(id.index()).copied().unwrap_or(false))
    }

    /// Makes the next collective known; `plan` is its first.
    pub fn add(&mut self, kind: Kind, plan: PlanId, pieces: Pieces) {
        self.collectives.push(Collective { kind, plan, pieces, next: 0, entered: 0 });
    }

    /// Number of known collectives.
    pub fn collectives(&self) -> usize {
        self.collectives.len()
    }

    /// An NPU issues a collective; true if there is nothing to do for it.
    pub fn issue(&mut self, npu: NodeId, id: CollectiveId, now: Ps) -> bool {
        let follower = &mut self.npus[npu.index()];
        follower.issued.resize(self.collectives.len(), false);
        follower.done.resize(self.collectives.len(), 0);
        follower.issued[id.index()] = true;
        let c = &mut self.collectives[id.index()];
        if c.entered == 0 {
            skip_empty(c);
            if c.next < c.pieces.count() && self.open.iter().all(|open| open.1 != id) {
                self.open.push((now, id));
                if self.permitted.is_some() {
                    // Several NPUs may issue different ones in an instant, in no order.
                    self.open.sort_unstable();
                }
            }
        }
        c.entered == 0 && c.next == c.pieces.count()
    }

    fn is_issued(&self, npu: NodeId, id: CollectiveId) -> bool {
        self.npus[npu.index()].issued.get(id.index()).copied().unwrap_or(false)
    }

    /// How many kinds go before a collective.
    fn rank(&self, id: CollectiveId) -> usize {
        let kind = self.collectives[id.index()].kind;
        self.priority.iter().position(|&k| k == kind).unwrap_or(self.priority.len())
    }

    /// The balance that a kind of collectives takes part in.
    fn balance_of(&self, kind: Kind) -> Option<&Balance> {
        self.balance.as_ref().filter(|b| b.kinds.contains(&kind))
    }

    /// The chunk that an NPU may start next; `None` while nothing that it has issued is its turn.
    pub fn next(&self, npu: NodeId) -> Option<Next> {
        if let Some(&(collective, chunk)) = self.log.get(self.npus[npu.index()].started) {
            return self.is_issued(npu, collective).then_some(Next { collective, chunk, new: false });
        }
        self.choice(|id| self.is_issued(npu, id))
    }

    /// The chunk that is entered next if it is up to some NPUs.
    pub fn next_of(&self, npus: &[NodeId]) -> Option<Next> {
        self.choice(|id| npus.iter().any(|&npu| self.is_issued(npu, id)))
    }

    /// The next chunk of the collectives that have been issued.
    fn choice(&self, is_issued: impl Fn(CollectiveId) -> bool) -> Option<Next> {
        let open = self.open.iter().map(|open| open.1);
        let issued = open.filter(|&id| is_issued(id) && self.is_permitted(id));
        // Of those with the least rank, the first; but before all of them the one that has begun.
        let key = |&id: &CollectiveId| (!(self.whole && self.collectives[id.index()].entered > 0), self.rank(id));
        let pick = match self.policy {
            Policy::Fifo => issued.min_by_key(key),
            Policy::Lifo => issued.rev().min_by_key(key),
        };
        let collective = pick?;
        let c = &self.collectives[collective.index()];
        let (len, lane) = c.pieces.piece(c.next);
        let lane = lane.unwrap_or(self.log.len() as u32);
        let order = self.balance_of(c.kind).map_or(0, |b| b.next(&self.loads, lane, Bytes(len), c.kind).0);
        // A kind with a balance has as many plans, one after the other, as the balance has orders.
        let plan = PlanId::from_index(c.plan.index() + order);
        Some(Next { collective, chunk: Chunk { len: Bytes(len), plan, lane }, new: true })
    }

    /// Enters a chunk that [`Admission::next`] proposed; true if it is the last one of its collective.
    pub fn enter(&mut self, id: CollectiveId, chunk: Chunk) -> bool {
        self.log.push((id, chunk));
        let c = &mut self.collectives[id.index()];
        if let Some(balance) = self.balance.as_ref().filter(|b| b.kinds.contains(&c.kind)) {
            let added = balance.next(&self.loads, chunk.lane, chunk.len, c.kind).1;
            for (lanes, added) in self.loads.iter_mut().zip(added) {
                let taken = chunk.lane as usize % lanes.len();
                lanes[taken] += added;
            }
        }
        c.next += 1;
        c.entered += 1;
        skip_empty(c);
        let is_last = c.next == c.pieces.count();
        if is_last {
            self.open.retain(|open| open.1 != id);
        }
        is_last
    }

    /// An NPU has started its next chunk of the log.
    pub fn started(&mut self, npu: NodeId) {
        self.npus[npu.index()].started += 1;
    }

    /// A chunk is done on an NPU: its collective, and whether that is complete there.
    pub fn done(&mut self, npu: NodeId, seq: ChunkId) -> (CollectiveId, bool) {
        let id = self.log[seq.index()].0;
        let c = &self.collectives[id.index()];
        let done = &mut self.npus[npu.index()].done[id.index()];
        *done += 1;
        assert!(*done <= c.entered, "a chunk is done twice");
        (id, *done == c.entered && c.next == c.pieces.count())
    }

    /// By collective, pieces that entered the log.
    pub fn all_pieces(&self) -> impl Iterator<Item = u64> {
        self.collectives.iter().map(|c| c.entered)
    }

    /// The collective that a chunk belongs to.
    pub fn collective_of(&self, seq: ChunkId) -> CollectiveId {
        self.log[seq.index()].0
    }
}

fn skip_empty(c: &mut Collective) {
    while c.next < c.pieces.count() && c.pieces.piece(c.next).0 == 0 {
        c.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::{Chunking, LaneUse, cut};
    use syncline_collective::Split;

    fn pieces(size: u64, chunking: Chunking) -> Pieces {
        cut(Bytes(size), chunking, LaneUse::Alternate, Split { element: 1 }, None)
    }

    fn order(policy: Policy, issue: &[u32], sizes: &[u64]) -> Vec<u32> {
        let mut a = Admission::new(policy, vec![], None, 1);
        sizes.iter().for_each(|&s| a.add(Kind::AllReduce, PlanId(0), pieces(s, Chunking::Size(10))));
        issue.iter().for_each(|&id| {
            a.issue(NodeId(0), CollectiveId(id), Ps(0));
        });
        let mut order = Vec::new();
        while let Some(next) = a.next(NodeId(0)) {
            a.enter(next.collective, next.chunk);
            a.started(NodeId(0));
            order.push(next.collective.0);
        }
        order
    }

    #[test]
    fn the_latest_or_the_earliest_issued_goes_first() {
        assert_eq!(order(Policy::Lifo, &[2, 1, 0], &[15, 5, 25]), [0, 0, 1, 2, 2, 2]);
        assert_eq!(order(Policy::Fifo, &[2, 1, 0], &[15, 5, 25]), [2, 2, 2, 1, 0, 0]);
    }

    #[test]
    fn a_kind_with_priority_goes_before_what_waits_whenever_it_is_issued() {
        for (policy, rest) in [(Policy::Lifo, [2, 2, 0]), (Policy::Fifo, [0, 2, 2])] {
            let mut a = Admission::new(policy, vec![Kind::AllToAll], None, 1);
            let kinds = [Kind::AllReduce, Kind::AllToAll, Kind::AllReduce, Kind::AllToAll];
            kinds.into_iter().for_each(|kind| a.add(kind, PlanId(0), pieces(20, Chunking::Size(10))));
            let mut order = Vec::new();
            let mut start = |a: &mut Admission, chunks: usize| {
                for _ in 0..chunks {
                    let Some(next) = a.next(NodeId(0)) else { return };
                    a.enter(next.collective, next.chunk);
                    a.started(NodeId(0));
                    order.push(next.collective.0);
                }
            };
            a.issue(NodeId(0), CollectiveId(0), Ps(0));
            start(&mut a, 1); // in flight, and stays
            for id in [1, 2, 3] {
                a.issue(NodeId(0), CollectiveId(id), Ps(0));
            }
            start(&mut a, 9);
            let exchanges = if policy == Policy::Lifo { [3, 3, 1, 1] } else { [1, 1, 3, 3] };
            assert_eq!(order, [&[0], &exchanges[..], &rest[..]].concat());
        }
    }

    #[test]
    fn a_follower_waits_until_it_has_issued_what_the_log_says() {
        let mut a = Admission::new(Policy::Lifo, vec![], None, 2);
        a.add(Kind::AllReduce, PlanId(0), pieces(5, Chunking::Size(10)));
        a.add(Kind::AllReduce, PlanId(0), pieces(5, Chunking::Size(10)));
        a.issue(NodeId(0), CollectiveId(1), Ps(0));
        let first = a.next(NodeId(0)).expect("it has issued 1");
        assert!(first.new);
        a.enter(first.collective, first.chunk);
        a.started(NodeId(0));
        a.issue(NodeId(1), CollectiveId(0), Ps(0));
        assert_eq!(a.next(NodeId(1)), None);
        a.issue(NodeId(1), CollectiveId(1), Ps(0));
        assert_eq!(a.next(NodeId(1)), Some(Next { new: false, ..first }));
    }

    #[test]
    fn nothing_is_complete_at_once() {
        let mut a = Admission::new(Policy::Lifo, vec![], None, 1);
        a.add(Kind::AllReduce, PlanId(0), pieces(0, Chunking::Size(10)));
        assert!(a.issue(NodeId(0), CollectiveId(0), Ps(0)));
        assert_eq!(a.next(NodeId(0)), None);
    }
}
