//! The contract between the system layer and an endpoint.
//!
//! ```text
//!   system                          endpoint                         network
//!   define(room, chunk)   once per chunk, in the order of the room's log
//!   accepts(npu)?, start(npu)      ──▶ interprets the plan's programs ──▶ send / open, feed
//!          ◀── EpOut::Room{npu}        servers, SRAM, FSMs   arrived ◀── NetOut::Arrived
//!          ◀── EpOut::Done{npu, seq}
//!   post(npu, message)             ──▶ what it costs, the message      ──▶ send
//!          ◀── EpOut::Posted{npu, handle}
//! ```
//!
//! * A *room* is what an endpoint sets aside for communicators that share a log. Chunks of a room are numbered by the order
//!   in which every NPU of it starts them. An endpoint may rely on that order: it is the same on all these NPUs, which is
//!   what makes limited slots free of deadlock. Endpoints have one room; [`Rooms`](crate::rooms::Rooms) makes one with
//!   several of endpoints with one.
//! * One value serves all NPUs: per-NPU state lives in flat arrays, and nothing an NPU does depends on
//!   its number except the bytes that its coordinates give it.
//! * An NPU may receive data of a chunk that it has not started yet; the endpoint keeps it.

use crate::kernel::{Held, Kernel};
use crate::servers::ResourceUse;
use syncline_collective::{PhaseId, PlanId};
use syncline_core::{Bytes, Key, NodeId, Peaks, PortId, Ps, Schedule, Wait, Windows, id_type};
use syncline_network::{NetOut, Network};

id_type!(
    /// A chunk by its place in the order of its room, in which every NPU of it starts them.
    ChunkId
);

id_type!(
    /// What an endpoint sets aside for communicators that share a log.
    RoomId: u16
);

impl RoomId {
    /// The room of an endpoint that has no more.
    pub const ONLY: RoomId = RoomId(0);
}

impl ChunkId {
    /// How many chunks of the global order go before this one from `base` on; `None` if it is older than that.
    #[inline(always)]
    pub const fn place_from(self, base: ChunkId) -> Option<usize> {
        match self.0.checked_sub(base.0) {
            Some(place) => Some(place as usize),
            None => None,
        }
    }
}

/// A chunk of a collective, the same on every NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its length: bytes of the vector that the collective runs over.
    pub len: Bytes,
    /// Which of the plans in the [`Layout`](crate::Layout) it follows.
    pub plan: PlanId,
    /// Which lane of every ring it takes (modulo the lanes of the ring).
    pub lane: u32,
}

/// What an endpoint works with during a call.
pub struct Ctx<'a, N, Q> {
    /// The current time.
    pub now: Ps,
    /// The network below.
    pub net: &'a mut N,
    /// The queue.
    pub q: &'a mut Q,
    /// What the endpoint has to say.
    pub out: &'a mut Vec<EpOut>,
}

/// What an endpoint says to the system layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpOut {
    /// The NPU may accept another chunk now.
    Room {
        /// The NPU.
        npu: NodeId,
        /// In which room.
        room: RoomId,
    },
    /// A phase of a chunk began or ended on an NPU (reported for traced NPUs only).
    Phase {
        /// The NPU.
        npu: NodeId,
        /// The room of the chunk.
        room: RoomId,
        /// The chunk.
        seq: ChunkId,
        /// The phase.
        phase: PhaseId,
        /// When its work was ready to begin.
        ready: Ps,
        /// When it began.
        began: Ps,
    },
    /// The chunk is complete on the NPU.
    Done {
        /// The NPU.
        npu: NodeId,
        /// The room of the chunk.
        room: RoomId,
        /// The chunk.
        seq: ChunkId,
    },
    /// A message that was posted is sent, or taken in.
    Posted {
        /// The NPU.
        npu: NodeId,
        /// What it was posted with.
        handle: u32,
    },
    /// A message that was sent and the place that it is received into are not equally long.
    Unequal {
        /// The receiving NPU.
        npu: NodeId,
        /// What it was posted with there.
        handle: u32,
        /// Bytes that were sent.
        sent: Bytes,
        /// Bytes that are received.
        received: Bytes,
    },
    /// A stream of the NPU has computed its kernels ([`Endpoint::compute`]).
    Computed {
        /// The NPU.
        npu: NodeId,
        /// The stream.
        stream: u8,
    },
}

/// A message between two ranks, as one of them posts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Whether it is sent, or received.
    pub sends: bool,
    /// The other NPU, as a number of the whole machine.
    pub peer: NodeId,
    /// What both ends know of it, so that they are matched: the family, how many ranks on it goes, and its tag.
    pub channel: (u8, u32, u32),
    /// How many messages of the channel its rank has sent, or received, before it.
    pub number: u32,
    /// Its length.
    pub len: Bytes,
    /// What the endpoint reports it with.
    pub handle: u32,
}

/// What endpoints report at the end of a run, summed over NPUs unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Main-memory bytes read for communication.
    pub memory_read: u64,
    /// Main-memory bytes written for communication.
    pub memory_written: u64,
    /// Bytes loaded into an SRAM.
    pub loaded: u64,
    /// Bytes that NPUs handed to the network, those in transit included.
    pub sent: u64,
    /// By room and chunk, bytes that NPUs handed to the network of their own.
    pub sent_of_chunks: Vec<Vec<u64>>,
    /// Bytes that switches handed to it: sums and copies.
    pub sent_by_switches: u64,
    /// Bytes that endpoints handed on for others, once per hop after the first.
    pub transit: u64,
    /// Messages handed to the network, once per hop where endpoints forward.
    pub messages: u64,
    /// Picoseconds from handing a message over until it has arrived, summed.
    pub network: u128,
    /// Every resource.
    pub resources: Vec<ResourceUse>,
    /// Names of those that carry data between NPU, memory and network.
    pub buses: &'static [&'static str],
    /// Name, capacity and largest fill of every SRAM partition.
    pub partitions: Vec<(String, u64, u64)>,
    /// Most FSMs of one NPU that were busy at once.
    pub fsm_peak: u32,
    /// FSMs of an NPU.
    pub fsms: u32,
    /// FSMs by phase; of endpoints without FSMs none.
    pub fsms_of_phases: Vec<PhaseFsms>,
    /// Of the first NPU over time: chunks held (busy share), bytes held in SRAM, busy FSMs.
    pub occupancy: Option<Occupancy>,
}

impl Report {
    /// Adds what another endpoint did on the same NPUs. Of resources that are `shared`, the first report has all there is.
    pub fn join(&mut self, other: Report, shared: impl Fn(&str) -> bool) {
        self.memory_read += other.memory_read;
        self.memory_written += other.memory_written;
        self.loaded += other.loaded;
        self.sent += other.sent;
        self.sent_of_chunks.extend(other.sent_of_chunks);
        self.sent_by_switches += other.sent_by_switches;
        self.transit += other.transit;
        self.messages += other.messages;
        self.network += other.network;
        for resource in other.resources.into_iter().filter(|resource| !shared(resource.name)) {
            match self.resources.iter_mut().find(|mine| mine.name == resource.name) {
                Some(mine) => mine.join(&resource),
                None => self.resources.push(resource),
            }
        }
        self.partitions.extend(other.partitions);
        self.fsm_peak += other.fsm_peak;
        self.fsms += other.fsms;
        self.fsms_of_phases.extend(other.fsms_of_phases);
        self.occupancy = match (self.occupancy.take(), other.occupancy) {
            (Some(mut mine), Some(others)) => {
                mine.join(&others);
                Some(mine)
            }
            (mine, others) => mine.or(others),
        };
    }
}

/// FSMs that run a phase of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseFsms {
    /// The room.
    pub room: RoomId,
    /// The plan, as [`Chunk::plan`].
    pub plan: PlanId,
    /// The phase.
    pub phase: PhaseId,
    /// How many of an NPU can run it. Phases of several plans may share FSMs.
    pub fsms: u32,
    /// The most that one NPU ever had busy with it, and with what other plans run in its place.
    pub peak: u32,
}

/// What the engine of the first NPU held over time.
#[derive(Clone, Debug)]
pub struct Occupancy {
    /// Time with at least one chunk; where several engines share an NPU, the sum of theirs.
    pub active: Windows,
    /// SRAM bytes times picoseconds.
    pub sram: Windows,
    /// The same of each partition, in the order of [`Report::partitions`], and the most bytes that it held.
    pub partitions: Vec<(Windows, Peaks)>,
    /// Busy FSMs times picoseconds.
    pub fsms: Windows,
}

impl Occupancy {
    /// Adds what another engine beside it held.
    fn join(&mut self, other: &Occupancy) {
        self.active.join(&other.active);
        self.sram.join(&other.sram);
        self.partitions.extend(other.partitions.iter().cloned());
        self.fsms.join(&other.fsms);
    }
}

/// An endpoint model, for all NPUs of a run.
pub trait Endpoint<N: Network> {
    /// Its timers.
    type Event: Copy;

    /// Makes the next chunk of a room known, before any NPU starts it.
    fn define(&mut self, room: RoomId, chunk: Chunk);

    /// Whether the NPU has room to start a chunk now.
    fn accepts(&self, npu: NodeId, room: RoomId, chunk: Chunk) -> bool;

    /// Starts the next chunk of a room on an NPU; it must have been accepted.
    fn start<Q>(&mut self, npu: NodeId, room: RoomId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<Self::Event> + Schedule<N::Event>;

    /// Posts a message between two ranks on an NPU. [`EpOut::Posted`] follows when its last byte has left, or when it has
    /// been taken in.
    ///
    /// # Panics
    /// Of endpoints that have one room, which are never asked.
    fn post<Q>(&mut self, _npu: NodeId, post: Post, _ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<Self::Event> + Schedule<N::Event>,
    {
        unreachable!("messages between two ranks are posted to rooms, not {post:?} to an endpoint that has one");
    }

    /// The network reports.
    fn network<Q>(&mut self, report: &NetOut, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<Self::Event> + Schedule<N::Event>;

    /// A stream of an NPU, which computes nothing now, computes some kernels one after the other. Returns when that
    /// will be done, if nothing that happens here changes it; otherwise [`EpOut::Computed`] follows.
    fn compute<Q>(&mut self, _npu: NodeId, _stream: u8, kernels: &[Kernel], ctx: &mut Ctx<'_, N, Q>) -> Option<Ps>
    where
        Q: Schedule<Self::Event> + Schedule<N::Event>,
    {
        Some(Kernel::alone(kernels, ctx.now))
    }

    /// Communication that holds something of an NPU begins there, or ends. Of endpoints for which kernels make no way
    /// nothing follows.
    fn hold<Q>(&mut self, _npu: NodeId, _held: Held, _begins: bool, _ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<Self::Event> + Schedule<N::Event>,
    {
    }

    /// A timer fired.
    fn handle<Q>(&mut self, event: Self::Event, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<Self::Event> + Schedule<N::Event>;

    /// Everything that waits, and for what.
    fn waits(&self) -> Vec<Wait>;

    /// What has been done beyond a constant for every event, as [`Network::further_work`].
    fn further_work(&self) -> u64 {
        0
    }

    /// What the endpoints did until `now`.
    fn report(&mut self, now: Ps) -> Report;
}

/// Event classes of this layer in the order key; see [`syncline_core::Key`].
pub mod class {
    /// Shares of communication and kernels change. As the end of compute nodes, which it may be, it goes before what
    /// else happens at the time.
    pub const SHARES: u8 = 1;
    /// Work at an endpoint is done.
    pub const WORK: u8 = 32;
    /// Work on a message in transit is done.
    pub const TRANSIT: u8 = 33;
    /// A message that has been delayed reaches its program.
    pub const INJECTED: u8 = 34;
    /// Work of threads beyond the first [`super::PARTS`] is done: the first of so many classes as it takes for all threads.
    pub const WORK_OF_MORE: u8 = 50;
}

/// Chunks of an NPU, from the oldest unfinished one to the newest, that keys tell apart.
pub const MAX_IN_FLIGHT: u32 = 1 << 16;

/// Whether an NPU whose oldest unfinished chunk is `base` may start chunk `next`, where keys tell so many `chunks` apart. Nothing waits for ever for one that
/// may not: NPUs start chunks in the same order, so the oldest needs no newer one.
#[inline]
pub const fn told_apart(base: ChunkId, next: ChunkId, chunks: u32) -> bool {
    next.0 - base.0 < chunks
}

/// The key of an event that concerns a chunk on an NPU: simultaneous events of one NPU are told apart by
/// chunk and by `part`, a port or thread. Chunks in flight together differ in the low 16 bits of their
/// number ([`told_apart`]).
#[inline]
pub fn chunk_key(class: u8, seq: ChunkId, part: u8) -> Key {
    Key::new(class, (seq.0 & 0xffff) << 8 | u32::from(part))
}

/// Ports of an NPU that keys of chunks tell apart.
pub const MAX_PORTS: usize = 1 << u8::BITS;

/// Ports or threads that [`chunk_key`] tells apart.
pub const PARTS: u16 = 1 << u8::BITS;

/// The key of the end of work of a thread of a chunk.
#[inline]
pub fn work_key(seq: ChunkId, thread: u16) -> Key {
    let class = match thread / PARTS {
        0 => class::WORK,
        further => class::WORK_OF_MORE + (further - 1) as u8,
    };
    chunk_key(class, seq, (thread % PARTS) as u8)
}

/// The key of an event that concerns a chunk at a port of an NPU.
///
/// # Panics
/// If the port is not below [`MAX_PORTS`].
#[inline]
pub fn port_key(class: u8, seq: ChunkId, port: PortId) -> Key {
    assert!(port.index() < MAX_PORTS, "port {port:?} of an NPU, of which keys tell no more than {MAX_PORTS} apart");
    chunk_key(class, seq, port.0 as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_ports_and_chunks_in_flight_apart() {
        let last = PortId(MAX_PORTS as u16 - 1);
        let keys = [(0, 0), (0, last.0), (1, 0), (MAX_IN_FLIGHT - 1, last.0)];
        let keys = keys.map(|(seq, port)| port_key(class::WORK, ChunkId(seq), PortId(port)));
        assert!(keys.is_sorted_by(|one, next| one < next), "{keys:?}");
        assert!(
            told_apart(ChunkId(7), ChunkId(6 + MAX_IN_FLIGHT), MAX_IN_FLIGHT)
                && !told_apart(ChunkId(7), ChunkId(7 + MAX_IN_FLIGHT), MAX_IN_FLIGHT)
        );
    }

    #[test]
    #[should_panic(expected = "of which keys tell no more than 256 apart")]
    fn a_port_that_keys_do_not_tell_from_others_is_refused() {
        port_key(class::WORK, ChunkId(0), PortId(MAX_PORTS as u16));
    }
}
