//! How many chunks of an NPU work along a dimension at once.
//!
//! All chunks of an NPU count, of whatever communicator: an engine of a room ([`crate::rooms`]) shares the limit with those of the
//! other rooms. Where chunks of a communicator are cut into parts that go round different lanes, each part counts as its share
//! of a chunk.
//!
//! A chunk may visit a dimension several times: in a reduce-scatter and later in an all-gather. The limit holds for the first
//! visits of all chunks, for their second ones, and so on, each apart: a chunk in its first visit may wait for NPUs whose
//! chunks are in their second one, so the two must not take places from each other.
//!
//! # Why it does not deadlock
//! Places are given in the global order of chunks, in which they come into logs, of whatever room: a chunk begins a visit when
//! fewer older chunks than the limit have still to end theirs, whether or not they have come to it, or even been started on
//! the NPU. So the oldest unfinished chunk of the run may always go on, on all NPUs that have started it. That all its NPUs do
//! start it holds as without a limit ("Why nothing waits in a circle" in `ARCHITECTURE.md`): they may wait for older chunks of its room to
//! leave their slots, and for collectives that precede it in their graphs, the chunks of which came into logs before it. All
//! of these are older, hence done.

use super::MessageEndpoint;
use crate::api::{ChunkId, Ctx, RoomId};
use crate::costs::StepCost;
use crate::layout::Layout;
use crate::work_done::WorkDone;
use std::collections::VecDeque;
use syncline_collective::{PhaseId, PlanId};
use syncline_core::{Id, NodeId, Ps, Schedule, Wait};
use syncline_network::Network;

/// A place, in units of which parts of chunks take some.
const PLACE: u64 = 1 << 40;

/// A visit to a dimension: which one, and which of a plan's visits to it, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Visit {
    dim: u8,
    number: usize,
}

/// What a room asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Chunks of an NPU along a dimension at most, if that is limited.
    pub most: Option<u32>,
    /// Parts into which its chunks are cut.
    pub parts: u32,
}

/// A room, as far as the limit is concerned.
#[derive(Clone, Debug)]
struct OfRoom {
    places: Places,
    /// The visits of every plan, one for each phase.
    visits: Vec<Vec<Visit>>,
    members: Vec<NodeId>,
    /// By chunk, its place in the order of the chunks of all rooms.
    order: Vec<u32>,
}

impl OfRoom {
    fn new(places: Places, layout: &Layout) -> OfRoom {
        let visits = |dims: Vec<u8>| {
            let visit = |(at, &dim)| Visit { dim, number: dims[..at].iter().filter(|&&d| d == dim).count() };
            dims.iter().enumerate().map(visit).collect()
        };
        let dims = layout.plans().map(|plan| plan.phases().iter().map(|phase| layout.link_class(phase.dim)).collect());
        let visits = dims.map(visits).collect();
        let members = (0..layout.npus()).map(NodeId).filter(|&npu| layout.takes_part(npu)).collect();
        OfRoom { places, visits, members, order: Vec::new() }
    }
}

/// What a chunk does on an NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// It has not come to the phase.
    NotYet,
    /// It waits for a place since then.
    Waits(Ps),
    /// It has come to the phase then, and has a place.
    Works(Ps),
}

/// A chunk on an NPU that is not done there.
#[derive(Clone, Copy, Debug)]
struct Visitor {
    order: u32,
    room: RoomId,
    seq: ChunkId,
    plan: PlanId,
    phase: PhaseId,
    does: Does,
}

/// The limit, and the chunks that have come into a log and are not done.
#[derive(Clone, Debug, Default)]
pub struct DimensionLimit {
    rooms: Vec<OfRoom>,
    /// Chunks of all rooms so far.
    chunks: u32,
    /// By NPU, the oldest first.
    visitors: Vec<VecDeque<Visitor>>,
    /// Chunks of other rooms that were given places and have to be told of it.
    given: VecDeque<(RoomId, NodeId, ChunkId)>,
}

impl DimensionLimit {
    /// That of rooms with layouts on the same NPUs; `None` if no room has one.
    pub(crate) fn of<'a>(rooms: impl Iterator<Item = (Places, &'a Layout)>) -> Option<DimensionLimit> {
        let mut npus = 0;
        let of_room = |(places, layout): (Places, &Layout)| {
            npus = layout.npus() as usize;
            OfRoom::new(places, layout)
        };
        let rooms: Vec<OfRoom> = rooms.map(of_room).collect();
        let is_limited = rooms.iter().any(|room| room.places.most.is_some());
        let visitors = vec![VecDeque::new(); npus];
        is_limited.then(|| DimensionLimit { rooms, visitors, ..DimensionLimit::default() })
    }

    /// The next chunk of a room has come into its log.
    pub(super) fn define(&mut self, room: RoomId, plan: PlanId) {
        let of_room = &mut self.rooms[room.index()];
        let (order, seq) = (self.chunks, ChunkId::from_index(of_room.order.len()));
        of_room.order.push(order);
        self.chunks += 1;
        if of_room.visits[plan.index()].is_empty() {
            return;
        }
        let visitor = Visitor { order, room, seq, plan, phase: PhaseId(0), does: Does::NotYet };
        of_room.members.iter().for_each(|npu| self.visitors[npu.index()].push_back(visitor));
    }

    /// Where a chunk is among those of an NPU.
    fn place(&self, npu: NodeId, room: RoomId, seq: ChunkId) -> Option<usize> {
        let order = self.rooms[room.index()].order[seq.index()];
        self.visitors[npu.index()].binary_search_by_key(&order, |visitor| visitor.order).ok()
    }

    /// A chunk comes to its next phase; whether it has a place there.
    pub(super) fn come(&mut self, npu: NodeId, room: RoomId, seq: ChunkId, now: Ps) -> bool {
        let at = self.place(npu, room, seq).expect("a chunk with a phase left is not done");
        let has_place = self.has_place(npu, at);
        self.visitors[npu.index()][at].does = if has_place { Does::Works(now) } else { Does::Waits(now) };
        has_place
    }

    fn visit(&self, visitor: &Visitor) -> Visit {
        self.rooms[visitor.room.index()].visits[visitor.plan.index()][visitor.phase.index()]
    }

    /// Whether there is a place for a chunk along the dimension of its phase, given all older chunks of its NPU.
    fn has_place(&self, npu: NodeId, at: usize) -> bool {
        let visitors = &self.visitors[npu.index()];
        let visit = self.visit(&visitors[at]);
        let Some(most) = self.rooms[visitors[at].room.index()].places.most else { return true };
        if at < most as usize {
            return true; // none takes more than a place
        }
        let mut left = u64::from(most) * PLACE;
        for older in visitors.range(..at) {
            let room = &self.rooms[older.room.index()];
            if room.visits[older.plan.index()][older.phase.index()..].contains(&visit) {
                left = left.saturating_sub(PLACE.div_ceil(room.places.parts.into()));
                if left == 0 {
                    return false;
                }
            }
        }
        true
    }

    /// A chunk ends a phase. Returns when it had come to it.
    pub(super) fn end(&mut self, npu: NodeId, room: RoomId, seq: ChunkId) -> Option<Ps> {
        let at = self.place(npu, room, seq)?;
        let visitors = &mut self.visitors[npu.index()];
        let visitor = &mut visitors[at];
        let came = match visitor.does {
            Does::Works(since) | Does::Waits(since) => Some(since),
            Does::NotYet => None,
        };
        (visitor.phase, visitor.does) = (visitor.phase.next(), Does::NotYet);
        if visitor.phase.index() == self.rooms[room.index()].visits[visitor.plan.index()].len() {
            visitors.remove(at);
        }
        came
    }

    /// Gives a place to the oldest chunk of an NPU that has waited for one and can have it now.
    pub(super) fn give(&mut self, npu: NodeId) -> Option<(RoomId, ChunkId)> {
        let mut full = Vec::new(); // where the oldest chunk of a room that waits has no place, nor have its others
        let visitors = &self.visitors[npu.index()];
        let mut waiting = (0..visitors.len()).filter(|&at| matches!(visitors[at].does, Does::Waits(_)));
        let at = waiting.find(|&at| {
            let what = (visitors[at].room, self.visit(&visitors[at]));
            let has_place = !full.contains(&what) && self.has_place(npu, at);
            if !has_place && !full.contains(&what) {
                full.push(what);
            }
            has_place
        })?;
        let visitor = &mut self.visitors[npu.index()][at];
        if let Does::Waits(since) = visitor.does {
            visitor.does = Does::Works(since);
        }
        Some((visitor.room, visitor.seq))
    }

    /// Whether a chunk waits for a place.
    pub(super) fn waits(&self, npu: NodeId, room: RoomId, seq: ChunkId) -> bool {
        let does = self.place(npu, room, seq).map(|at| self.visitors[npu.index()][at].does);
        matches!(does, Some(Does::Waits(_)))
    }

    /// The chunks of a room that wait for a place: the NPU, the chunk, its plan and its phase.
    fn waiting(&self, room: RoomId) -> impl Iterator<Item = (NodeId, ChunkId, PlanId, PhaseId)> {
        let all =
            self.visitors.iter().zip(0..).flat_map(|(visitors, npu)| visitors.iter().map(move |v| (NodeId(npu), v)));
        let waiting = all.filter(move |(_, v)| v.room == room && matches!(v.does, Does::Waits(_)));
        waiting.map(|(npu, v)| (npu, v.seq, v.plan, v.phase))
    }

    /// The next chunk of another room that was given a place, which has to be told of it.
    pub(crate) fn next_given(&mut self) -> Option<(RoomId, NodeId, ChunkId)> {
        self.given.pop_front()
    }
}

impl<C: StepCost> MessageEndpoint<C> {
    /// A chunk has come to its next phase, which begins now unless it waits for a place along its dimension.
    pub(super) fn come_to_phase<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let phase = self.npus[npu.index()].chunk(seq, self.threads).0.phase;
        if phase.index() == self.layout.phases(self.chunks[seq.index()].plan) {
            return self.finish(npu, seq, ctx);
        }
        if let Some(limit) = &mut self.dimension_limit
            && !limit.come(npu, self.room, seq, ctx.now)
        {
            return;
        }
        self.begin_phase(npu, seq, ctx);
    }

    /// Lets chunks of an NPU that have waited for places along dimensions have those that there are.
    pub(super) fn give_places<N: Network, Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        while let Some(limit) = &mut self.dimension_limit
            && let Some((room, seq)) = limit.give(npu)
        {
            if room == self.room {
                self.begin_phase(npu, seq, ctx);
            } else {
                limit.given.push_back((room, npu, seq));
            }
        }
    }

    /// What chunks of a room wait for that have come to a phase and have no place along its dimension.
    pub(crate) fn waits_for_places<'a>(
        &'a self,
        limit: Option<&'a DimensionLimit>,
        room: RoomId,
    ) -> impl Iterator<Item = Wait> + 'a {
        limit.into_iter().flat_map(move |limit| limit.waiting(room)).map(|(npu, seq, plan, phase)| {
            let (name, phase) = (self.layout.fabric().node_name(npu), self.layout.phase_name(plan, phase));
            Wait {
                who: format!("{name}, chunk {seq}, {phase}"),
                what: "older chunks to end their phases along its dimension".into(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: impl Into<Option<u32>>, parts: u32) -> Places {
        Places { most: most.into(), parts }
    }

    /// Rooms of one NPU with two plans: one visits dimension 0, dimension 1 and dimension 0 again, the other one dimension 1 and
    /// dimension 0.
    fn limit(rooms: &[Places]) -> DimensionLimit {
        let visits = |dims: &[(u8, usize)]| dims.iter().map(|&(dim, number)| Visit { dim, number }).collect();
        let visits = vec![visits(&[(0, 0), (1, 0), (0, 1)]), visits(&[(1, 0), (0, 0)])];
        let of_room = |&places| OfRoom { places, visits: visits.clone(), members: vec![NodeId(0)], order: Vec::new() };
        let rooms = rooms.iter().map(of_room).collect();
        DimensionLimit { rooms, visitors: vec![VecDeque::new()], ..DimensionLimit::default() }
    }

    /// Whether a chunk may begin a phase after older chunks of the same NPU, each of a room, with a plan and at a phase.
    fn admits(rooms: &[Places], chunk: (u16, u8, u8), older: &[(u16, u8, u8)]) -> bool {
        let mut limit = limit(rooms);
        for &(room, plan, phase) in older.iter().chain([&chunk]) {
            limit.define(RoomId(room), PlanId(plan));
            limit.visitors[0].back_mut().expect("a chunk of the NPU").phase = PhaseId(phase);
        }
        limit.has_place(NodeId(0), older.len())
    }

    #[test]
    fn older_chunks_go_first_whether_they_have_come_or_not() {
        let one = |(plan, phase), older: &[(u8, u8)]| {
            let older: Vec<_> = older.iter().map(|&(plan, phase)| (0, plan, phase)).collect();
            admits(&[places(1, 1)], (0, plan, phase), &older)
        };
        assert!(one((0, 0), &[]));
        assert!(!one((0, 0), &[(0, 0)]));
        assert!(one((0, 0), &[(0, 1), (0, 2)]), "both have ended their first visits");
        assert!(!one((1, 0), &[(0, 0)]), "the older one has still to come to dimension 1");
        assert!(!one((0, 0), &[(1, 0)]), "which has still to come to dimension 0");
        assert!(one((0, 2), &[(1, 0), (1, 1)]), "the second visit is of the other plan only");
        assert!(admits(&[places(2, 1)], (0, 0, 0), &[(0, 0, 0), (0, 0, 1)]));
        assert!(!admits(&[places(2, 1)], (0, 0, 0), &[(0, 0, 0), (0, 1, 1)]));
    }

    #[test]
    fn chunks_of_other_rooms_count() {
        let rooms = [places(2, 1), places(3, 1), places(None, 1)];
        assert!(admits(&rooms, (0, 0, 0), &[(1, 0, 0)]));
        assert!(!admits(&rooms, (0, 0, 0), &[(1, 0, 0), (2, 1, 0)]), "two others are as many as there are places");
        assert!(admits(&rooms, (1, 0, 0), &[(1, 0, 0), (2, 1, 0)]), "another room has a place more");
        assert!(admits(&rooms, (2, 0, 0), &[(0, 0, 0); 9]), "a room without a limit waits for nobody");
    }

    /// Three parts of a chunk count as one, among their like and beside whole chunks.
    #[test]
    fn parts_count_as_their_share_of_a_chunk() {
        let rooms = [places(2, 3), places(2, 1)];
        for parts in 0..8 {
            assert_eq!(admits(&rooms, (0, 0, 0), &vec![(0, 0, 0); parts]), parts < 6, "{parts} parts");
            assert_eq!(admits(&rooms, (1, 0, 0), &vec![(0, 0, 0); parts]), parts < 6, "{parts} parts");
        }
        assert!(!admits(&rooms, (1, 0, 0), &[(0, 0, 0), (0, 0, 0), (0, 0, 0), (1, 0, 0)]));
    }

    #[test]
    fn places_are_given_to_the_oldest_of_all_rooms() {
        let mut limit = limit(&[places(1, 1), places(1, 1)]);
        let npu = NodeId(0);
        for room in [0, 1, 0] {
            limit.define(RoomId(room), PlanId(0));
        }
        let (first, second, third) = ((RoomId(0), ChunkId(0)), (RoomId(1), ChunkId(0)), (RoomId(0), ChunkId(1)));
        assert!(limit.come(npu, first.0, first.1, Ps(1)));
        assert!(!limit.come(npu, third.0, third.1, Ps(2)));
        assert_eq!(limit.give(npu), None);
        assert_eq!(limit.end(npu, first.0, first.1), Some(Ps(1)));
        assert_eq!(limit.give(npu), None, "the second chunk is older than the third, and has not come yet");
        assert!(limit.come(npu, second.0, second.1, Ps(3)));
        limit.end(npu, second.0, second.1);
        assert!(limit.waits(npu, third.0, third.1));
        assert_eq!(limit.give(npu), Some(third));
        assert!(!limit.waits(npu, third.0, third.1));
        assert_eq!(limit.end(npu, third.0, third.1), Some(Ps(2)), "it came to its phase when it began to wait");
    }
}
