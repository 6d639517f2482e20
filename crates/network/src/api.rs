//! The contract between endpoints and network backends.
//!
//! ```text
//!   endpoint                         network                          endpoint
//!   send(message)         ─┐
//!   open(message)          ├─▶ ports, links, buffers ──▶ NetOut::Arrived{segment, last}
//!   feed(id, segment) ...  ┘                                          │
//!   room(port) ◀── NetOut::Room                    release(port, n) ◀─┘
//!   takes(connection) ◀── NetOut::Takes
//! ```
//!
//! * Bytes enter through a *port* of the source in the order in which they become available. What goes to one place
//!   with the same [`Message::queue`] is a *connection*, first come, first served; how those of a port share it is the
//!   backend's. What is not on
//!   the wire yet is the port's backlog; an endpoint that models a finite port buffer asks [`Network::room`] before it
//!   feeds. (A message of the flow backend takes its place in line when it is complete.)
//! * A transport that ends at a NIC holds a limited amount of what a connection has not delivered. Where a backend says so
//!   ([`Network::BOUNDS_CONNECTIONS`]), a sender asks [`Network::takes`] before it hands over a message or a packet, and
//!   keeps in the NPU what is not taken.
//! * With [`Delivery::Whole`] the destination hears once, when the last byte has arrived, and the
//!   network frees the buffer itself (the data went to a memory that always has room). With
//!   [`Delivery::Stream`] it hears of every segment when its first packet has arrived, and must give
//!   each packet's buffer slot back with [`Network::release`]; that is what lets an engine reduce and
//!   forward a packet while the rest of its message is still on the wire, and what makes a slow
//!   receiver push back on the sender. [`Delivery::Stored`] is both: it is heard of as a stream, by a
//!   receiver that always has room.
//! * A segment never announces a packet that could still be delayed. A backend without packets
//!   reports one segment per message.
//! * A message of zero bytes takes no time on a link but its latency, and arrives like any other.
//! * A backend is a state machine: it acts only inside these calls, puts its timers into the
//!   [`Schedule`] it is handed, and appends what it has to say to `out`.

use crate::noted::Noted;
use crate::usage::LinkUsage;
use syncline_core::table::Table;
use syncline_core::{Books, Bytes, NodeId, PortId, Ps, Schedule, Wait, Wire, id_type};
use syncline_topology::Fabric;

id_type!(
    /// A message in flight. Numbers are reused once a message has arrived.
    MsgId
);

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// One hop, out of this port, to whatever node is there. Needs no node number, so it is the same
    /// on every node of a symmetric fabric.
    Port(PortId),
    /// To a node, along the fabric's deterministic route.
    To(NodeId),
    /// To a node, by one of several ways that are as good ([`Fabric::route_by`]).
    By(NodeId, u16),
}

impl Route {
    /// The node, and by which way it is reached; `None` of a port.
    #[inline]
    pub fn end(self) -> Option<(NodeId, u16)> {
        match self {
            Route::Port(_) => None,
            Route::To(dst) => Some((dst, 0)),
            Route::By(dst, choice) => Some((dst, choice)),
        }
    }

    /// Appends the ports that a message takes from `src`.
    #[inline]
    pub fn append(self, fabric: &(impl Fabric + ?Sized), src: NodeId, path: &mut Vec<PortId>) {
        match self {
            Route::Port(port) => path.push(port),
            Route::To(dst) => fabric.route(src, dst, path),
            Route::By(dst, choice) => fabric.route_by(src, dst, choice, path),
        }
    }
}

/// Links of routes that are looked up in the time of an event.
pub const LINKS_OF_AN_EVENT: u64 = 16;

/// How the destination learns of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Once, when it is complete; its buffers are freed by the network as packets arrive.
    Whole,
    /// Segment by segment; its buffers are freed by the network as packets arrive.
    Stored,
    /// Segment by segment; its buffers are freed by the receiver.
    Stream,
}

/// How messages are told apart by a network that serves several kinds: by the buffers that they use, and by who goes first.
///
/// *Buffers*: a network may have buffers of its own for each such number, at both ends of a link, so that packets whose
/// receiver is not ready cannot keep out those with other buffers. *Precedence*: where several messages could be served,
/// those of larger precedence go first, whatever their buffers. Messages of a connection have equal precedence. Both share
/// a byte, since a message is copied a lot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// Precedences, of which the largest goes first.
    pub const PRECEDENCES: u8 = syncline_core::share::CLASSES;
    const BUFFERS: u8 = 0x0f;
    const PRECEDENCE_AT: u32 = 4;

    /// Messages of no precedence that use buffers below 16.
    pub const fn of_buffers(buffers: u8) -> TrafficClass {
        assert!(buffers <= Self::BUFFERS, "more buffers than a class can name");
        TrafficClass(buffers)
    }

    /// The same with a precedence below [`TrafficClass::PRECEDENCES`].
    #[must_use]
    pub const fn with_precedence(self, precedence: u8) -> TrafficClass {
        assert!(precedence < Self::PRECEDENCES, "more precedences than there are");
        TrafficClass(self.buffers() | precedence << Self::PRECEDENCE_AT)
    }

    /// What it shares buffers with.
    #[inline(always)]
    pub const fn buffers(self) -> u8 {
        self.0 & Self::BUFFERS
    }

    /// Who goes first.
    #[inline(always)]
    pub const fn precedence(self) -> u8 {
        self.0 >> Self::PRECEDENCE_AT
    }
}

/// What a node sends to one place in order: the queue pair of a NIC, or the pair of sockets of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// The sending node.
    pub src: NodeId,
    /// The way to the other end.
    pub route: Route,
    /// Which of the connections that go this way.
    pub queue: u16,
}

/// What a sender wants carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sending node.
    pub src: NodeId,
    /// The way it goes.
    pub route: Route,
    /// Which of the sender's connections to that place it takes: its queue pair, where that is a NIC's.
    pub queue: u16,
    /// Its length; zero is legal.
    pub len: Bytes,
    /// What it shares buffers with, and before whom it goes.
    pub class: TrafficClass,
    /// How the destination hears of it.
    pub delivery: Delivery,
    /// Carried along and reported on arrival; means nothing to the network.
    pub tag: u64,
    /// Reported to the sender when the last byte has left its port ([`NetOut::Left`]); `None` if the
    /// sender does not want to know.
    pub receipt: Option<u64>,
}

impl Message {
    /// The connection that it takes.
    #[inline]
    pub const fn connection(&self) -> Connection {
        Connection { src: self.src, route: self.route, queue: self.queue }
    }
}

/// `packets` packets of a message, the first at `t0`, then one every `gap`; `len` bytes in all. Every
/// packet is full but perhaps the last of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes of the segment.
    pub len: Bytes,
    /// Time of the first packet (of its last byte, on arrival).
    pub t0: Ps,
    /// Time between two packets.
    pub gap: Ps,
    /// Number of packets; 1 for a backend without packets.
    pub packets: u32,
}

impl Segment {
    /// Time of the last packet.
    pub fn end(&self) -> Ps {
        self.t0 + self.gap.times(u64::from(self.packets.saturating_sub(1)))
    }
}

/// What the network reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetOut {
    /// Bytes have arrived: all of them with [`Delivery::Whole`], else a segment.
    Arrived {
        /// The destination.
        at: NodeId,
        /// The input port they came in by.
        port: PortId,
        /// The message's tag.
        tag: u64,
        /// Which bytes, and when.
        segment: Segment,
        /// Whether the message is complete with them.
        last: bool,
    },
    /// The last byte of a message is on the wire: its sender could reuse the memory.
    Left {
        /// The sending node.
        at: NodeId,
        /// What the sender gave the message for this purpose.
        receipt: u64,
    },
    /// A transport has given a message up: none of it counts as delivered, whatever arrived of it.
    Failed {
        /// The sending node.
        at: NodeId,
        /// The message's tag.
        tag: u64,
        /// Why.
        why: Loss,
    },
    /// A port that had been reported as [`Room::Unknown`] has space again (see [`Network::room`]).
    Room {
        /// The sending node.
        at: NodeId,
        /// Its outgoing port.
        port: PortId,
    },
    /// A connection that did not take what its sender had ([`Network::takes`]) has room again: ask again now.
    Takes {
        /// The connection.
        connection: Connection,
    },
}

/// Why a transport gives a message up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It was sent so many times, and no acknowledgement came.
    Unanswered {
        /// How often.
        tries: u32,
    },
    /// There is no way to its destination any more.
    Unreachable,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Loss::Unanswered { tries } => write!(f, "it was sent {tries} times without an answer"),
            Loss::Unreachable => write!(f, "there is no way to its destination any more"),
        }
    }
}

/// Whether another packet fits a port's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It does.
    Now,
    /// It will at this time, unless something is fed before or rates change: ask again then.
    At(Ps),
    /// Nobody knows: the port waits for a credit. The network reports [`NetOut::Room`] once when the
    /// blocked packet has left; ask again then.
    Unknown,
}

/// A network backend.
pub trait Network {
    /// The backend's timers.
    type Event: Copy;

    /// Opens a message that will be fed later, in order, until `len` bytes are fed.
    fn open(&mut self, message: Message) -> MsgId;

    /// Bytes of an open message become available now. To a network of packets, one packet, which is full except at the
    /// end of the message.
    fn feed<Q: Schedule<Self::Event>>(&mut self, now: Ps, id: MsgId, len: Bytes, q: &mut Q);

    /// Sends a message whose bytes are all available now.
    fn send<Q: Schedule<Self::Event>>(&mut self, now: Ps, message: Message, q: &mut Q);

    /// Whether a packet of a class fits the buffer of an outgoing port that holds `capacity` bytes; of
    /// a network of packets, in slots of a full one. What is on the wire no longer counts, nor do classes that have
    /// buffers of their own.
    fn room(&mut self, now: Ps, at: NodeId, port: PortId, class: TrafficClass, capacity: Bytes) -> Room;

    /// Whether connections hold a limited amount of bytes, so that a sender has to ask [`Network::takes`].
    const BOUNDS_CONNECTIONS: bool = false;

    /// Whether a connection takes `len` more bytes now: a message that is sent whole, or the next bytes of one that is fed.
    /// If it does not, the network reports [`NetOut::Takes`] when it has room again, once, however often it was asked. A
    /// connection that holds nothing takes whatever comes, and one that has said yes still takes it when it comes a little
    /// later, even if other messages were handed over in between.
    fn takes(&mut self, _connection: Connection, _len: Bytes) -> bool {
        true
    }

    /// The receiver gives back the slot of one packet of such a class that arrived by an input port.
    fn release<Q: Schedule<Self::Event>>(&mut self, now: Ps, at: NodeId, port: PortId, class: TrafficClass, q: &mut Q);

    /// A timer fired.
    fn handle<Q: Schedule<Self::Event>>(&mut self, now: Ps, event: Self::Event, q: &mut Q, out: &mut Vec<NetOut>);

    /// Everything that is blocked, and on what.
    fn waits(&self) -> Vec<Wait>;

    /// Payload in and out. When all messages have arrived, the books must be settled; packets without payload, such as
    /// acknowledgements, may still be on their way then.
    fn books(&self) -> Books;

    /// What was put on the wire for that. Without losses every byte is sent once.
    fn wire(&self) -> Wire {
        Wire { sent: self.books().accepted, ..Wire::default() }
    }

    /// What has been done beyond a constant for every event and message, in the cost of an event.
    fn further_work(&self) -> u64 {
        0
    }

    /// On a folded fabric, why nodes that are simulated as one differ, once they do: then the run is not that of all nodes.
    fn told_apart(&self) -> Option<&'static str> {
        None
    }

    /// The run is over: everything that is asked for afterwards is up to date.
    fn finish(&mut self, _now: Ps) {}

    /// What every link carried.
    fn usage(&self) -> &LinkUsage;

    /// From now on notes when these links are busy, in at most `limit` spans, which [`LinkUsage::spans`] has. A backend that
    /// does not notes nothing.
    fn record_links(&mut self, _links: &[u32], _limit: usize) {}

    /// Messages that were noted, of a network that notes any ([`Recorded`](crate::Recorded)).
    fn noted(&self) -> &[Noted] {
        &[]
    }

    /// What the backend has counted beyond that, for every link, connection or switch: tables of its own, which are results
    /// of a run beside those that all runs have.
    fn counters(&self) -> Vec<Table> {
        Vec::new()
    }
}

/// Event classes of this layer in the order key; see [`syncline_core::Key`].
pub mod class {
    /// Messages have left their sender: before anything of the same time that may end them.
    pub const LEFT: u8 = 15;
    /// Packets and messages arrive.
    pub const ARRIVAL: u8 = 16;
    /// Timers inside a backend: credits come back, links fall idle.
    pub const INTERNAL: u8 = 17;
    /// Links are shared out anew among all messages: after everything else of an instant, whatever layer it
    /// belongs to, since every send of that instant counts.
    pub const SHARE: u8 = 200;
}
