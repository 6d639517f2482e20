//! Several endpoints of a kind on the same NPUs, one for each log of communicators.
//!
//! Communicators that share a log ([`RoomId`]) have an endpoint of their own, with chunk slots, SRAM, FSMs and pools in
//! transit of their own, in the network with connections of their own, and with input buffers that hold what each of them may
//! keep waiting there. What the endpoints of an NPU
//! share is its hardware ([`Engine::Hardware`]): servers of memory, buses, SMs, SRAM ports and ALUs, each of which serves one
//! piece of work after the other. So work of one room never waits for another room to do anything but to finish a piece of
//! work that is under way, and a room makes progress as it would alone. When a piece of work is done, the room that asked for it
//! hears of it. Where the time of that depends on what else runs, it may be found out while another room uses the hardware
//! ([`Schedule::owned`]).
//!
//! *Priority* decides where rooms of an NPU wait for the same thing and somebody chooses: at the port of an ACE, when the
//! network has room for another packet, and among simultaneous events. Servers serve what has come first, whoever it is of.
//! Who goes second waits until the first ones have nothing to put into the port, which ends, since they are finite. What is
//! in the network already is told apart by its *precedence* there, which all messages of a room have.
//!
//! Messages between two ranks are [posted](Post) beside them ([`point_to_point`]).

mod engine;
mod net;
mod point_to_point;
mod timers;

pub use engine::{Engine, PostWork, Shared};
pub use net::RoomNet;
pub use timers::{MAX_NPUS, MAX_NUMBERS, MAX_ROOMS, RoomQueue, RoomTimer};

use crate::api::{Chunk, Ctx, Endpoint, EpOut, MAX_IN_FLIGHT, Post, Report, RoomId};
use crate::kernel::{Held, Kernel};
use net::Marks;
use point_to_point::Posts;
use std::sync::Arc;
use syncline_core::{NodeId, Ps, Schedule, Wait};
use syncline_network::{NetOut, Network};
use syncline_topology::Fabric;
use timers::unmarked;

/// What a room is made of.
#[derive(Debug)]
pub struct RoomPart<E> {
    /// Its endpoint.
    pub engine: E,
    /// What tells it from the other rooms of an NPU, below [`POSTS`]. Of simultaneous events of rooms those of smaller
    /// numbers come first, so on each NPU rooms of larger priority have smaller numbers.
    pub number: u8,
    /// Which rooms are told first that a port has room: those of larger priority.
    pub priority: u8,
    /// The precedence of its messages in the network.
    pub precedence: u8,
}

/// What tells messages between two ranks from the rooms of an NPU.
pub const POSTS: u8 = MAX_NUMBERS - 1;

/// Endpoints of all rooms.
#[derive(Debug)]
pub struct Rooms<E: Engine> {
    rooms: Vec<RoomPart<E>>,
    hardware: E::Hardware,
    marks: Marks,
    posts: Posts,
    /// By NPU, and the number among its rooms, the room.
    by_number: Vec<RoomId>,
    /// Those of larger priority first.
    by_priority: Vec<RoomId>,
    fabric: Arc<dyn Fabric>,
    /// The numbers of NPUs in the whole machine, where they stand for others.
    whole: Option<Arc<[NodeId]>>,
}

/// The machine on which rooms are.
#[derive(Clone, Debug)]
pub struct RoomsOn {
    /// The fabric that is simulated.
    pub fabric: Arc<dyn Fabric>,
    /// The numbers of its NPUs in the whole machine, where they stand for others.
    pub whole: Option<Arc<[NodeId]>>,
    /// The rooms of each NPU.
    pub rooms: Vec<Vec<RoomId>>,
    /// By family, the precedence of its messages between two ranks.
    pub precedences: Vec<u8>,
}

impl<E: Engine> Rooms<E> {
    /// The endpoints of rooms, on `hardware` that has no other use.
    ///
    /// # Panics
    /// If there are more rooms or NPUs than timers and keys tell apart.
    pub fn new(mut rooms: Vec<RoomPart<E>>, mut hardware: E::Hardware, on: RoomsOn) -> Rooms<E> {
        let npus = on.fabric.npus();
        assert!(rooms.len() < MAX_ROOMS && npus <= MAX_NPUS, "{} rooms on {npus} NPUs", rooms.len());
        let mut by_number = vec![RoomId(u16::MAX); npus as usize * usize::from(MAX_NUMBERS)];
        for (npu, of_npu) in on.rooms.iter().enumerate() {
            for &room in of_npu {
                let number = rooms[room.index()].number;
                assert!(number < POSTS, "room {number} of an NPU, of which keys tell {POSTS} apart");
                let place = &mut by_number[npu * usize::from(MAX_NUMBERS) + usize::from(number)];
                assert_eq!(*place, RoomId(u16::MAX), "rooms of an NPU are told apart by their numbers");
                *place = room;
            }
        }
        for room in &mut rooms {
            room.engine.tell_apart(MAX_IN_FLIGHT / u32::from(MAX_NUMBERS));
        }
        E::share(rooms.iter_mut().map(|room| &mut room.engine), &mut hardware);
        let mut by_priority: Vec<RoomId> = (0..rooms.len() as u16).map(RoomId).collect();
        by_priority.sort_by_key(|room| std::cmp::Reverse(rooms[room.index()].priority));
        let RoomsOn { fabric, whole, precedences, .. } = on;
        let (marks, posts) = (Marks::default(), Posts::new(npus, precedences));
        Rooms { rooms, hardware, marks, posts, by_number, by_priority, fabric, whole }
    }

    /// The room of messages between two ranks.
    fn of_posts(&self) -> RoomId {
        RoomId(self.rooms.len() as u16)
    }

    /// Lets the endpoint of a room do something, and then those of chunks that have what they waited for.
    fn inside<N: Network + 'static, Q, R>(
        &mut self,
        room: RoomId,
        ctx: &mut Ctx<'_, N, Q>,
        act: impl for<'a, 'b> FnOnce(&mut E, &mut Ctx<'a, RoomNet<'b, N>, RoomQueue<'b, Q>>) -> R,
    ) -> R
    where
        Q: Schedule<E::Timer> + Schedule<N::Event>,
    {
        let result = self.inside_one(room, ctx, act);
        while let Some((room, npu, seq)) = E::next_to_resume(&mut self.hardware) {
            self.inside_one(room, ctx, |engine, ctx| engine.resume(npu, seq, ctx));
        }
        result
    }

    /// Lets the endpoint of a room do something.
    fn inside_one<N: Network, Q, R>(
        &mut self,
        room: RoomId,
        ctx: &mut Ctx<'_, N, Q>,
        act: impl for<'a, 'b> FnOnce(&mut E, &mut Ctx<'a, RoomNet<'b, N>, RoomQueue<'b, Q>>) -> R,
    ) -> R {
        let RoomPart { engine, number, precedence, .. } = &mut self.rooms[room.index()];
        let before = ctx.out.len();
        engine.exchange(&mut self.hardware);
        let (number, precedence) = (*number, *precedence);
        let mut net = RoomNet { net: &mut *ctx.net, marks: &mut self.marks, room, number, precedence };
        let mut queue = RoomQueue { queue: &mut *ctx.q, room, number };
        let mut inner = Ctx { now: ctx.now, net: &mut net, q: &mut queue, out: &mut *ctx.out };
        let result = act(engine, &mut inner);
        engine.exchange(&mut self.hardware);
        for out in &mut ctx.out[before..] {
            if let EpOut::Room { room: of, .. } | EpOut::Phase { room: of, .. } | EpOut::Done { room: of, .. } = out {
                *of = room;
            }
        }
        result
    }

    /// Lets messages between two ranks do something.
    fn with_posts<N: Network, Q, R>(
        &mut self,
        ctx: &mut Ctx<'_, N, Q>,
        act: impl for<'a, 'b> FnOnce(&mut Posts, &mut E::Hardware, &mut Ctx<'a, RoomNet<'b, N>, RoomQueue<'b, Q>>) -> R,
    ) -> R {
        let (room, number) = (self.of_posts(), POSTS);
        // Each of these messages says itself which precedence it has.
        let mut net = RoomNet { net: &mut *ctx.net, marks: &mut self.marks, room, number, precedence: 0 };
        let mut queue = RoomQueue { queue: &mut *ctx.q, room, number };
        let mut inner = Ctx { now: ctx.now, net: &mut net, q: &mut queue, out: &mut *ctx.out };
        act(&mut self.posts, &mut self.hardware, &mut inner)
    }

    fn whole(&self, npu: NodeId) -> NodeId {
        self.whole.as_ref().map_or(npu, |whole| whole[npu.index()])
    }
}

impl<E, N> Endpoint<N> for Rooms<E>
where
    N: Network + 'static,
    E: Engine + for<'b> Endpoint<RoomNet<'b, N>, Event = <E as Engine>::Timer>,
{
    type Event = E::Timer;

    fn define(&mut self, room: RoomId, chunk: Chunk) {
        let engine = &mut self.rooms[room.index()].engine;
        engine.exchange(&mut self.hardware);
        engine.define(RoomId::ONLY, chunk);
        engine.exchange(&mut self.hardware);
    }

    fn accepts(&self, npu: NodeId, room: RoomId, chunk: Chunk) -> bool {
        self.rooms[room.index()].engine.accepts(npu, RoomId::ONLY, chunk)
    }

    fn start<Q>(&mut self, npu: NodeId, room: RoomId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<E::Timer> + Schedule<N::Event>,
    {
        self.inside(room, ctx, |engine, ctx| engine.start(npu, RoomId::ONLY, ctx));
    }

    fn post<Q>(&mut self, npu: NodeId, post: Post, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<E::Timer> + Schedule<N::Event>,
    {
        self.with_posts(ctx, |posts, hardware, ctx| posts.post::<E, _, _>(npu, post, hardware, ctx));
    }

    fn network<Q>(&mut self, report: &NetOut, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<E::Timer> + Schedule<N::Event>,
    {
        match *report {
            NetOut::Arrived { at, port, tag, segment, last } => {
                let (room, tag) = self.marks.read(tag, last);
                if room == self.of_posts() {
                    self.posts.flights.end(ctx.now);
                    return self.with_posts(ctx, |posts, hardware, ctx| {
                        posts.arrived::<E, _, _>(at, tag, segment.len, hardware, ctx);
                    });
                }
                let report = NetOut::Arrived { at, port, tag, segment, last };
                self.inside(room, ctx, |engine, ctx| engine.network(&report, ctx));
            }
            NetOut::Left { at, receipt } => {
                let (room, receipt) = self.marks.read(receipt, true);
                if room == self.of_posts() {
                    return self.with_posts(ctx, |posts, _, ctx| posts.left(at, receipt, ctx));
                }
                self.inside(room, ctx, |engine, ctx| engine.network(&NetOut::Left { at, receipt }, ctx));
            }
            NetOut::Takes { connection } => {
                let (number, connection) = net::of_room(connection);
                if number == POSTS {
                    return self.with_posts(ctx, |posts, _, ctx| posts.serve(connection, ctx));
                }
                let npu = connection.src.index() * usize::from(MAX_NUMBERS);
                let room = self.by_number[npu + usize::from(number)];
                self.inside(room, ctx, |engine, ctx| engine.network(&NetOut::Takes { connection }, ctx));
            }
            // A port has space: whoever waits for it asks again.
            NetOut::Room { .. } => {
                for i in 0..self.by_priority.len() {
                    let room = self.by_priority[i];
                    self.inside(room, ctx, |engine, ctx| engine.network(report, ctx));
                }
            }
            NetOut::Failed { .. } => unreachable!("a run ends with its first lost message"),
        }
    }

    fn compute<Q>(&mut self, npu: NodeId, stream: u8, kernels: &[Kernel], ctx: &mut Ctx<'_, N, Q>) -> Option<Ps>
    where
        Q: Schedule<E::Timer> + Schedule<N::Event>,
    {
        self.inside(RoomId::ONLY, ctx, |engine, ctx| engine.compute(npu, stream, kernels, ctx))
    }

    fn hold<Q>(&mut self, npu: NodeId, held: Held, begins: bool, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<E::Timer> + Schedule<N::Event>,
    {
        self.inside(RoomId::ONLY, ctx, |engine, ctx| engine.hold(npu, held, begins, ctx));
    }

    fn handle<Q>(&mut self, event: E::Timer, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<E::Timer> + Schedule<N::Event>,
    {
        let (room, event) = unmarked(event);
        if room == self.of_posts() {
            let worked = E::worked(event);
            let itself = self.whole(worked.0);
            return self.with_posts(ctx, |posts, hardware, ctx| {
                posts.worked::<E, _, _>(worked, itself, hardware, ctx);
            });
        }
        self.inside(room, ctx, |engine, ctx| engine.handle(event, ctx));
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits = self.posts.waits(&*self.fabric);
        for (number, RoomPart { engine, .. }) in (0..).zip(&self.rooms) {
            waits.extend(engine.waits_for_others(RoomId(number), &self.hardware));
            waits.extend(engine.waits());
        }
        waits
    }

    fn further_work(&self) -> u64 {
        self.rooms.iter().map(|room| room.engine.further_work()).sum()
    }

    fn report(&mut self, now: Ps) -> Report {
        let mut all = Report::default();
        for (i, room) in self.rooms.iter_mut().enumerate() {
            // The hardware is reported once.
            if i == 0 {
                room.engine.exchange(&mut self.hardware);
            }
            let mut report = room.engine.report(now);
            report.fsms_of_phases.iter_mut().for_each(|phase| phase.room = RoomId(i as u16));
            if i == 0 {
                room.engine.exchange(&mut self.hardware);
                all = report;
            } else {
                all.join(report, E::is_shared);
            }
        }
        all.sent += self.posts.sent;
        all.messages += self.posts.flights.count();
        all.network += self.posts.flights.time(now);
        all
    }
}
