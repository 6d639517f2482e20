//! Endpoints that work on whole messages: the ideal one, the baseline and streams.
//!
//! # Interpretation
//! A chunk runs its phases in order, and in a phase the threads of its program side by side, each of
//! them step by step. A step that receives waits for its message to be complete; then the endpoint
//! works on it for a time that the cost model gives; then the step's message, if it has one, goes to
//! the network as a whole and the thread's next step begins. At most `inflight` chunks of an NPU run at
//! once. A message carries the number of the step that takes it; one that comes before its step waits.
//! A thread that sends several messages of local data in a row has no more than one of them waiting to
//! leave the NPU, or eight (more, if that has more ports) where it serves independent peers, so that it
//! does not keep those of others out of a port.
//!
//! What a step costs is told by [`costs`](crate::costs).
//!
//! With [`MessageEndpoint::packet_by_packet`] a step that receives and sends works on packets instead ([`packets`]). Where threads
//! are streams ([`StepCost::holds_threads`]), a step that sends is done when its message has left.
//!
//! # Transit
//! Where only neighbours are connected, a message for a distant NPU is forwarded by the NPUs between. With
//! `transit` the endpoints do it, as communication libraries do on such fabrics (ACE paper, section V): the
//! message goes to the next hop as a whole, is worked on there like a step that receives, copies and
//! sends, and goes on. Routes are those of the fabric. A memory always has room, so no message waits for
//! another to make way and nothing can deadlock. First come, first served: messages in transit and those of
//! the NPU itself queue for the same servers, and for the port, in the order in which they come; an NPU has
//! no more than a few messages of a thread of its own waiting (above), so neither kind starves the other.
//! Without `transit` the network's routers forward.

mod departures;
mod dependencies;
mod dimension_limit;
mod early;
mod injection;
mod packets;
mod streams;
mod tag;
mod threads;

use crate::api::{Chunk, ChunkId, Ctx, Endpoint, EpOut, MAX_IN_FLIGHT, Report, RoomId, told_apart};
use crate::costs::StepCost;
use crate::flights::Flights;
use crate::forwarding::{Forwarding, HopMessage};
use crate::kernel::{Held, Kernel};
use crate::layout::Layout;
use crate::send_queues::SendQueues;
use crate::work_done::WorkDone;
use departures::Departures;
use dependencies::Dependencies;
pub use dimension_limit::DimensionLimit;
pub(crate) use dimension_limit::Places;
use early::{EarlyMessages, EarlyPackets};
use injection::Injection;
use streams::PeerAccess;
use syncline_collective::{Op, Pace, PhaseId, Slot};
use syncline_core::{Bytes, Id, NodeId, NodeSet, PortId, Ps, Schedule, Wait};
use syncline_network::{Delivery, LINKS_OF_AN_EVENT, Message, MsgId, NetOut, Network, Route, Segment, TrafficClass};
pub(crate) use tag::{Tag, Tags};
use threads::{ActiveThreads, DENSE, Window};

/// What an NPU does with a message in transit.
const TRANSIT: Op = Op::RecvCopySend;

/// Messages of a thread that may wait to leave an NPU of few ports: as many as NCCL has buffers of a
/// connection (NCCL_STEPS).
pub const LEAVING: u16 = 8;

/// The most steps of a thread that an endpoint can tell apart.
pub const MAX_STEPS: u32 = 1 << Tags::PC_BITS;

/// The most threads of a program that computes its steps. Written ones may have
/// [more](syncline_collective::program::written::MAX_THREADS).
pub const MAX_THREADS: u16 = 1 << Tags::THREAD_BITS;

/// The most phases of a plan.
pub const MAX_PHASES: usize = 1 << Tags::PHASE_BITS;

/// The most chunks of a run whose programs have so many threads.
pub fn max_chunks(threads: u16) -> usize {
    Tags::of(threads).chunks()
}

/// A chunk on an NPU.
#[derive(Clone, Debug, Default)]
struct Running {
    started: bool,
    done: bool,
    phase: PhaseId,
    /// Threads of the phase that have steps left.
    threads_left: u16,
    /// Whether the next one is known: from the beginning of the first phase on. Apart from it, because what an NPU knows of all
    /// its chunks has to fit into a processor's cache.
    sized: bool,
    /// Bytes that the phase's blocks are cut from.
    vector: u64,
    /// When the phase began.
    began: Ps,
    /// What has arrived before its step: messages, or packets where steps take these.
    early: EarlyMessages,
    early_packets: Option<Box<EarlyPackets>>,
    /// Its active threads, where only these have state.
    active: Option<Box<ActiveThreads>>,
}

/// A thread of a chunk on an NPU.
#[derive(Clone, Copy, Debug)]
struct Thread {
    working: bool,
    finished: bool,
    /// The next step, a send, waits until a message has left.
    full: bool,
    /// Messages that have not left the NPU, of those that the thread keeps count of.
    leaving: u16,
    /// Whether the next four say what step `pc` does.
    decoded: bool,
    op: Op,
    pc: u32,
    /// The send that follows begins when fewer messages of the thread than this have not left; 0 if no
    /// send follows.
    most_leaving: u16,
    /// Bytes that it carries, where they go and which step takes them there.
    len: u64,
    route: Route,
    queue: u16,
    into: Slot,
    /// Whether that step sends it on.
    goes_on: bool,
    /// Of a step that works on packets: bytes that it has not sent, and its message, once opened.
    left: u64,
    message: Option<MsgId>,
}

const FRESH: Thread = Thread {
    working: false,
    finished: false,
    full: false,
    leaving: 0,
    decoded: false,
    op: Op::Send,
    pc: 0,
    most_leaving: 0,
    len: 0,
    route: Route::Port(PortId(0)),
    queue: 0,
    into: Slot { thread: 0, pc: 0 },
    goes_on: false,
    left: 0,
    message: None,
};

/// An endpoint that works on whole messages, with the costs of `C`.
#[derive(Debug)]
pub struct MessageEndpoint<C> {
    layout: Layout,
    cost: C,
    inflight: u32,
    /// Chunks that keys tell apart, from the oldest unfinished one of an NPU to its newest.
    span: u32,
    traced: NodeSet,
    tags: Tags,
    /// Threads that are kept for every chunk; none where only active ones are ([`threads`]).
    threads: usize,
    /// Threads that wait for steps of others, if any do.
    dependencies: Option<Dependencies>,
    /// Most messages of a thread of each NPU that wait to leave it.
    most_leaving: Vec<u16>,
    chunks: Vec<Chunk>,
    npus: Vec<Window>,
    /// Messages in transit, if it is the endpoints that forward.
    forwarding: Option<Forwarding>,
    /// Bytes of a packet, where what is sent on is worked on packet by packet.
    packet: Option<Bytes>,
    /// What waits for its place in the network, if messages do not go in the order in which they come.
    departures: Option<Departures>,
    /// Which room it is the engine of.
    room: RoomId,
    /// How many chunks it may have along a dimension at once.
    places: Places,
    /// The limit that follows, if there is one; that of all rooms belongs to their hardware.
    dimension_limit: Option<DimensionLimit>,
    /// What has arrived and not reached its program, if that takes time.
    injection: Option<Injection>,
    /// Who has to switch before it sends over PCIe, if that takes time.
    peer_access: Option<PeerAccess>,
    /// What waits for room on its connection.
    pub(crate) send_queues: SendQueues,
    sent: u64,
    /// By chunk, bytes that were sent other than in transit.
    sent_of_chunks: Vec<u64>,
    /// Messages in the network; whoever carries some of them beside these endpoints counts its own.
    pub(crate) flights: Flights,
}

impl<C: StepCost> MessageEndpoint<C> {
    /// Endpoints of all NPUs, each running at most `inflight` chunks; phases of `traced` NPUs are reported.
    /// With `transit` they forward messages for distant NPUs, on a fabric where every link of an NPU leads
    /// to another; without, the network does.
    pub fn new(layout: Layout, cost: C, inflight: u32, transit: bool, traced: &[NodeId]) -> Self {
        let (npus, threads) = (layout.npus(), layout.threads());
        MessageEndpoint {
            tags: Tags::of(threads),
            threads: if threads > DENSE { 0 } else { threads.into() },
            dependencies: layout.has_dependencies().then(Dependencies::default),
            most_leaving: (0..npus).map(|n| layout.fabric().ports(NodeId(n)).max(LEAVING)).collect(),
            traced: NodeSet::new(npus, traced),
            forwarding: transit.then(|| Forwarding::new(layout.fabric())),
            packet: None,
            departures: None,
            injection: Injection::new(cost.injection(), npus),
            peer_access: PeerAccess::new(cost.peer_access_latency(), &layout),
            layout,
            cost,
            inflight,
            span: MAX_IN_FLIGHT,
            chunks: Vec::new(),
            npus: vec![Window::default(); npus as usize],
            room: RoomId::ONLY,
            places: Places { most: None, parts: 1 },
            dimension_limit: None,
            send_queues: SendQueues::default(),
            sent: 0,
            sent_of_chunks: Vec::new(),
            flights: Flights::default(),
        }
    }

    /// The same, with at most so many chunks of an NPU along each dimension, each of which is cut into some parts
    /// ([`dimension_limit`]).
    #[must_use]
    pub fn along_each_dimension(mut self, most: Option<u32>, parts: u32) -> Self {
        self.places = Places { most, parts };
        self.dimension_limit = DimensionLimit::of([(self.places, &self.layout)].into_iter());
        self
    }

    /// Makes it the engine of one of several rooms, the hardware of which has the limit of them all. Returns what that is made
    /// of.
    pub(crate) fn take_room(&mut self, room: RoomId) -> (Places, &Layout) {
        (self.room, self.dimension_limit) = (room, None);
        (self.places, &self.layout)
    }

    /// The limit of chunks along dimensions.
    pub(crate) fn dimension_limit_mut(&mut self) -> &mut Option<DimensionLimit> {
        &mut self.dimension_limit
    }

    /// A chunk that has waited for a place along its dimension has one.
    pub(crate) fn given_place<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        self.begin_phase(npu, seq, ctx);
    }

    /// The same, sending to each place what is shortest of the so many oldest chunks ([`departures`]). Packets go as they
    /// come.
    #[must_use]
    pub fn shortest_first(mut self, urgent: Option<u32>) -> Self {
        self.departures = urgent.map(Departures::new);
        self
    }

    /// What steps cost.
    pub(crate) fn cost_mut(&mut self) -> &mut C {
        &mut self.cost
    }

    /// Keys tell so many chunks of an NPU apart.
    pub(crate) fn set_span(&mut self, chunks: u32) {
        self.span = chunks;
    }

    #[inline]
    fn thread(&mut self, npu: NodeId, seq: ChunkId, thread: u16) -> &mut Thread {
        let window = &mut self.npus[npu.index()];
        window.thread(window.place(seq), thread, self.threads)
    }

    /// Begins the work of a thread's current step if it can begin, or of one that follows it where it only waits.
    #[inline]
    fn advance<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        match self.dependencies {
            None => self.advance_step(npu, seq, thread, ctx),
            Some(_) => self.advance_with_others(npu, seq, Some(thread), ctx),
        }
    }

    /// Begins the work of a thread's current step if its message is there.
    fn advance_step<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let Thread { decoded, op, pc, .. } = *self.thread(npu, seq, thread);
        let Some(op) = (if decoded { Some(op) } else { self.decode(npu, seq, thread) }) else {
            return self.thread_finished(npu, seq, thread, ctx);
        };
        if op.receives() {
            let window = &mut self.npus[npu.index()];
            let at = window.place(seq);
            let chunk = &mut window.chunks[at];
            if chunk.early.is_empty() && chunk.early_packets.is_none() {
                return;
            }
            let tag = self.tags.tag(seq, chunk.phase, Slot { thread, pc });
            if let Some(packets) = &mut chunk.early_packets {
                let early: Vec<Segment> = packets.take(tag).collect();
                if op.sends() {
                    return early.into_iter().for_each(|segment| self.take_up(npu, seq, thread, segment, ctx));
                }
                if early.is_empty() {
                    return;
                }
            } else if !chunk.early.take(tag) {
                return;
            }
        }
        self.work(npu, seq, thread, 0, ctx);
    }

    /// Does a stage of the work of a thread's current step, whose message, if it takes one, is there. Every step does.
    #[inline(always)]
    fn work<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, stage: u8, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let t = self.thread(npu, seq, thread);
        (t.working, t.decoded) = (true, false);
        let (op, len) = (t.op, t.len);
        if self.peer_access.is_some() && op.sends() && self.switches(npu, seq, thread, ctx) {
            return;
        }
        self.cost.work(ctx.now, op, Bytes(len), WorkDone::Step { npu: npu.0, seq, thread, stage }, ctx.q);
    }

    /// What a thread's step sends.
    #[inline]
    fn message_of(&mut self, npu: NodeId, seq: ChunkId, thread: u16) -> Message {
        let window = &mut self.npus[npu.index()];
        let at = window.place(seq);
        let phase = window.chunks[at].phase;
        let Thread { pc, len, route, queue, into, most_leaving, goes_on, .. } =
            *window.thread(at, thread, self.threads);
        let tag = self.tags.tag(seq, phase, into).0;
        let receipt = match self.cost.holds_threads() {
            true => Some(self.tags.tag(seq, phase, Slot { thread, pc }).0),
            false => (most_leaving > 0).then(|| self.tags.tag(seq, phase, Slot { thread, pc: pc + 1 }).0),
        };
        let delivery = if goes_on { Delivery::Stored } else { Delivery::Whole };
        Message { src: npu, route, queue, len: Bytes(len), class: TrafficClass::default(), delivery, tag, receipt }
    }

    /// A thread's step is done: the next one begins, unless it sends and too many messages wait to leave.
    fn step_done<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, sent: bool, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let t = self.thread(npu, seq, thread);
        (t.working, t.decoded) = (false, false);
        t.pc += 1;
        if sent {
            let most = t.most_leaving;
            t.leaving += u16::from(most > 0);
            t.full = most > 0 && t.leaving >= most;
        }
        let full = t.full;
        match self.dependencies {
            None if full => {}
            None => self.advance_step(npu, seq, thread, ctx),
            Some(_) => self.step_done_with_others(npu, seq, thread, ctx),
        }
    }

    /// Works out a thread's next step, and says what that does; `None` if the phase has none left for it.
    fn decode(&mut self, npu: NodeId, seq: ChunkId, thread: u16) -> Option<Op> {
        let chunk = self.chunks[seq.index()];
        let window = &mut self.npus[npu.index()];
        let at = window.place(seq);
        let state = &mut window.chunks[at];
        let phase = state.phase;
        let view = match state.sized {
            true => self.layout.view_of(npu, chunk, phase, state.vector),
            false => self.layout.view(npu, chunk, phase),
        };
        (state.sized, state.vector) = (true, view.vector);
        let steps = view.steps(thread);
        let t = window.thread(at, thread, self.threads);
        if t.pc >= steps {
            return None;
        }
        let slot = Slot { thread, pc: t.pc };
        let step = view.step(slot);
        let len = view.len(&step);
        (t.op, t.len, t.into, t.decoded) = (step.op, len, step.into, true);
        if step.op.sends() {
            t.route = view.route(slot, &step);
            // Copies of all streams to a place take turns.
            let is_stream = self.cost.holds_threads();
            t.queue = if is_stream { 0 } else { view.program().queue(thread) };
            (t.left, t.message) = (len, None);
            t.goes_on = self.packet.is_some() && view.program().step(step.to, step.into).op.sends();
            let next = Slot { thread, pc: t.pc + 1 };
            let pace = view.pace(slot);
            let follows = pace != Pace::Free && next.pc < steps && !is_stream;
            let following = follows.then(|| view.step(next)).filter(|next| next.op == Op::Send);
            t.most_leaving = match following {
                None => 0,
                Some(after) if pace == Pace::Spread && view.route(next, &after) != t.route => {
                    self.most_leaving[npu.index()]
                }
                Some(_) => 1,
            };
        }
        Some(step.op)
    }

    /// A thread has no steps left in its phase.
    fn thread_finished<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let window = &mut self.npus[npu.index()];
        let at = window.place(seq);
        if !window.finish(at, thread, self.threads) {
            return;
        }
        let chunk = &mut window.chunks[at];
        chunk.threads_left -= 1;
        if chunk.threads_left > 0 {
            return;
        }
        let came = self.dimension_limit.as_mut().and_then(|limit| limit.end(npu, self.room, seq));
        if self.traced.contains(npu) {
            let (phase, began) = (chunk.phase, chunk.began);
            let (room, ready) = (RoomId::ONLY, came.unwrap_or(began));
            ctx.out.push(EpOut::Phase { npu, room, seq, phase, ready, began });
        }
        chunk.phase = chunk.phase.next();
        self.come_to_phase(npu, seq, ctx);
        self.give_places(npu, ctx);
    }

    /// Lets all threads of a chunk's phase begin.
    fn begin_phase<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let chunk = self.chunks[seq.index()];
        let (state, at) = self.npus[npu.index()].chunk(seq, self.threads);
        let phase = state.phase;
        let view = self.layout.view(npu, chunk, phase);
        let threads = view.threads();
        (state.threads_left, state.began) = (threads, ctx.now);
        (state.sized, state.vector) = (true, view.vector);
        self.npus[npu.index()].restart(at, self.threads, threads);
        if self.threads == 0 {
            return self.begin_threads(npu, seq, threads, ctx);
        }
        for thread in 0..threads {
            // What one thread does may bring the chunk no further than this phase: each has a part in it.
            self.advance(npu, seq, thread, ctx);
        }
    }

    /// Counts bytes of a chunk that an NPU sends of its own.
    #[inline]
    fn count_sent(&mut self, seq: ChunkId, len: Bytes) {
        self.sent += len.0;
        self.sent_of_chunks[seq.index()] += len.0;
    }

    /// Sends a message of a step of a chunk, or the first hop of it.
    #[inline]
    fn send<N: Network, Q>(&mut self, mut message: Message, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        self.count_sent(seq, message.len);
        self.flights.begin(ctx.now);
        self.take_first_hop(&mut message);
        if self.departures.is_some() && self.packet.is_none() {
            return self.send_in_turn(message, seq, ctx);
        }
        self.send_queues.send(message, ctx);
    }

    /// Sends a message as soon as it is the next one of its place.
    #[inline(never)]
    fn send_in_turn<N: Network, Q>(&mut self, message: Message, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let oldest = self.npus[message.src.index()].base;
        let next = self.departures.as_mut().and_then(|departures| departures.ready(message, seq, oldest));
        if let Some(message) = next {
            self.send_queues.send(message, ctx);
        }
    }

    /// Makes of a message its first hop, if endpoints forward it.
    #[inline]
    fn take_first_hop(&mut self, message: &mut Message) {
        let Some(forwarding) = &mut self.forwarding else { return };
        if let Some(hop) = forwarding.depart(self.layout.fabric(), *message) {
            *message = self.message_on(message.src, hop, message.receipt);
        }
    }

    /// A message on one of its hops, which it takes packet by packet if there is another.
    fn message_on(&self, src: NodeId, hop: HopMessage, receipt: Option<u64>) -> Message {
        let HopMessage { port, tag, len, delivery } = hop;
        let passes = self.packet.is_some() && Forwarding::is_passing(tag);
        let delivery = if passes { Delivery::Stored } else { delivery };
        Message { src, route: Route::Port(port), queue: 0, len, class: TrafficClass::default(), delivery, tag, receipt }
    }

    /// A message in transit, of so many bytes, is there for a stage of the work on it.
    fn pass<N: Network, Q>(&mut self, npu: NodeId, tag: u64, len: Bytes, stage: u8, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        self.cost.work(ctx.now, TRANSIT, len, WorkDone::Transit { npu: npu.0, stage }, ctx.q);
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.take_in_hand(npu, stage.into(), tag, 1);
        }
    }

    /// A stage is done with the next message in transit: it comes to its next one, or goes on.
    fn forward<N: Network, Q>(&mut self, npu: NodeId, stage: u8, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let Some(forwarding) = &mut self.forwarding else { return };
        let Some(tag) = forwarding.next_in_hand(npu, stage.into()) else { return };
        if let Some(len) = forwarding.passing(tag).filter(|_| stage + 1 < self.cost.stages(TRANSIT)) {
            return self.pass(npu, tag, len, stage + 1, ctx);
        }
        let hop = forwarding.next_hop(tag);
        self.sent += hop.len.0;
        self.flights.begin(ctx.now);
        let message = self.message_on(npu, hop, None);
        self.send_queues.send(message, ctx);
    }

    /// A message has left its NPU: the next one of its connection goes, and the thread that wants to know hears of it.
    fn left<N: Network, Q>(&mut self, npu: NodeId, receipt: u64, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let oldest = self.npus[npu.index()].base;
        let (receipt, next) = match &mut self.departures {
            Some(departures) if Departures::is_of_queue(receipt) => departures.left(receipt, oldest),
            _ => (Some(receipt), None),
        };
        if let Some(message) = next {
            self.send_queues.send(message, ctx);
        }
        if let Some(receipt) = receipt {
            self.thread_left(npu, Tag(receipt), ctx);
        }
    }

    /// A message of a thread has left its NPU.
    fn thread_left<N: Network, Q>(&mut self, npu: NodeId, tag: Tag, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let (seq, thread) = (self.tags.seq(tag), self.tags.slot(tag).thread);
        // The thread may have gone on to another phase, or it or its chunk have finished.
        let window = &self.npus[npu.index()];
        let Some(at) = seq.place_from(window.base).filter(|&at| at < window.chunks.len()) else { return };
        if window.chunks[at].phase != tag.phase() || window.active(at, thread, self.threads).is_none() {
            return;
        }
        if self.cost.holds_threads() {
            self.note_copy(npu, seq, thread, false);
            return self.step_done(npu, seq, thread, false, ctx);
        }
        let t = self.thread(npu, seq, thread);
        t.leaving -= 1;
        if std::mem::replace(&mut t.full, false) {
            self.advance(npu, seq, thread, ctx);
        }
    }

    /// A message, or some packets of it, has reached the program of an NPU, or is there to go on.
    #[inline]
    fn arrived<N: Network, Q>(
        &mut self,
        npu: NodeId,
        port: PortId,
        (tag, segment): (u64, Segment),
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let tag = match self.forwarding.as_ref().and_then(|f| f.passing(tag)) {
            Some(_) if self.packet.is_some() => return self.take_in_hand(npu, port, tag, segment, ctx),
            Some(len) => return self.pass(npu, tag, len, 0, ctx),
            None => Tag(tag),
        };
        let (seq, Slot { thread, pc }) = (self.tags.seq(tag), self.tags.slot(tag));
        let goes_on = self.packet.is_some();
        let window = &mut self.npus[npu.index()];
        let (chunk, at) = window.chunk(seq, self.threads);
        if chunk.started && chunk.phase == tag.phase() {
            let t = match self.threads {
                0 => self.begin_with_message(npu, seq, Slot { thread, pc }),
                threads => Some(&window.dense[at * threads + usize::from(thread)]),
            };
            if let Some(t) = t
                && t.decoded
                && t.pc == pc
            {
                return match goes_on && t.op.sends() {
                    true => self.take_up(npu, seq, thread, segment, ctx),
                    false => self.work(npu, seq, thread, 0, ctx),
                };
            }
        }
        let window = &mut self.npus[npu.index()];
        let chunk = &mut window.chunks[at];
        match goes_on {
            true => chunk.early_packets.get_or_insert_default().add(tag, segment),
            false => chunk.early.add(tag),
        }
    }

    fn finish<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>) {
        let window = &mut self.npus[npu.index()];
        window.chunk(seq, self.threads).0.done = true;
        window.running -= 1;
        while window.chunks.front().is_some_and(|c| c.done) {
            window.pop(self.threads);
        }
        ctx.out.push(EpOut::Done { npu, room: RoomId::ONLY, seq });
        ctx.out.push(EpOut::Room { npu, room: RoomId::ONLY });
    }
}

impl<C: StepCost, N: Network> Endpoint<N> for MessageEndpoint<C> {
    type Event = WorkDone;

    fn define(&mut self, _: RoomId, chunk: Chunk) {
        assert!(self.chunks.len() < self.tags.chunks(), "more chunks than a tag can name");
        self.chunks.push(chunk);
        self.sent_of_chunks.push(0);
        if let Some(limit) = &mut self.dimension_limit {
            limit.define(self.room, chunk.plan);
        }
    }

    fn accepts(&self, npu: NodeId, _: RoomId, _: Chunk) -> bool {
        let window = &self.npus[npu.index()];
        window.running < self.inflight && told_apart(window.base, window.next, self.span)
    }

    fn start<Q>(&mut self, npu: NodeId, _: RoomId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let window = &mut self.npus[npu.index()];
        let seq = window.next;
        window.next = seq.next();
        window.running += 1;
        window.chunk(seq, self.threads).0.started = true;
        self.come_to_phase(npu, seq, ctx);
    }

    fn network<Q>(&mut self, report: &NetOut, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        match *report {
            NetOut::Arrived { at, port, tag, segment, last } => {
                if last {
                    self.flights.end(segment.end());
                }
                self.inject(at, port, (tag, segment), ctx);
            }
            NetOut::Left { at, receipt } => self.left(at, receipt, ctx),
            NetOut::Takes { connection } => self.send_queues.serve(connection, ctx),
            NetOut::Room { .. } => {}
            NetOut::Failed { .. } => unreachable!("a run ends with its first lost message"),
        }
    }

    fn handle<Q>(&mut self, event: WorkDone, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let (npu, seq, thread, stage) = match event {
            WorkDone::Step { npu, seq, thread, stage } => (NodeId(npu), seq, thread, stage),
            WorkDone::Packet { npu, seq, thread } => return self.packet_done(NodeId(npu), seq, thread, ctx),
            WorkDone::Passing { npu, port } => return self.packet_on(NodeId(npu), PortId(port), ctx),
            WorkDone::Injected { npu } => return self.injected(NodeId(npu), ctx),
            WorkDone::Transit { npu, stage } => return self.forward(NodeId(npu), stage, ctx),
            WorkDone::Shares { npu } => {
                return self.cost.share_anew(npu as usize, ctx.now, ctx.q, ctx.out);
            }
        };
        let op = self.thread(npu, seq, thread).op;
        if stage == streams::SWITCHING {
            return self.work(npu, seq, thread, 0, ctx);
        }
        let is_held = stage == streams::HELD;
        if !is_held && stage + 1 < self.cost.stages(op) {
            return self.work(npu, seq, thread, stage + 1, ctx);
        }
        let is_stream = op.sends() && self.cost.holds_threads();
        if is_stream && !is_held && self.hold_up(npu, seq, thread, ctx) {
            return;
        }
        if op.sends() {
            let message = self.message_of(npu, seq, thread);
            self.send(message, seq, ctx);
        }
        if is_stream {
            return self.note_copy(npu, seq, thread, true);
        }
        self.step_done(npu, seq, thread, op.sends(), ctx);
    }

    fn compute<Q>(&mut self, npu: NodeId, stream: u8, kernels: &[Kernel], ctx: &mut Ctx<'_, N, Q>) -> Option<Ps>
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        self.cost.compute(npu.index(), stream, kernels, ctx.now, ctx.q, ctx.out)
    }

    fn hold<Q>(&mut self, npu: NodeId, held: Held, begins: bool, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        self.cost.hold(npu.index(), held, begins, ctx.now, ctx.q, ctx.out);
    }

    fn further_work(&self) -> u64 {
        self.forwarding.as_ref().map_or(0, |f| f.looked_up() / LINKS_OF_AN_EVENT)
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits: Vec<Wait> = self.send_queues.waits(self.layout.fabric()).collect();
        waits.extend(self.waits_for_places(self.dimension_limit.as_ref(), self.room));
        for (npu, window) in (0u32..).map(NodeId).zip(&self.npus) {
            for ((seq, c), at) in (window.base.0..).map(ChunkId).zip(&window.chunks).zip(0..) {
                if !c.started || c.done {
                    continue;
                }
                let chunk = self.chunks[seq.index()];
                let view = self.layout.view(npu, chunk, c.phase);
                let (name, phase) = (self.layout.fabric().node_name(npu), self.layout.phase_name(chunk.plan, c.phase));
                let who = |slot: Slot| format!("{name}, chunk {seq}, {phase}, {slot}");
                for (thread, t) in window.active_threads(at, self.threads) {
                    let slot = Slot { thread, pc: t.pc };
                    if t.decoded && !t.working {
                        let what = format!("the message of {}", view.sender_name(&view.step(slot)));
                        waits.push(Wait { who: who(slot), what });
                    }
                }
                for (slot, on) in self.dependencies.iter().flat_map(|d| d.waiting(npu, seq)) {
                    waits.push(Wait { who: who(slot), what: format!("{on} of its NPU") });
                }
            }
        }
        waits
    }

    fn report(&mut self, now: Ps) -> Report {
        let transit = self.forwarding.as_ref().map_or(0, |f| f.bytes);
        let (messages, network) = (self.flights.count(), self.flights.time(now));
        let sent_of_chunks = vec![std::mem::take(&mut self.sent_of_chunks)];
        let mut report = Report { sent: self.sent, sent_of_chunks, transit, messages, network, ..Report::default() };
        self.cost.report(&mut report);
        report
    }
}
