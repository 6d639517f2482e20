//! The packet backend: input-buffered routers, credits, virtual cut-through.
//!
//! # The model
//! * A message travels in packets of `P` bytes; its last packet may be shorter and takes just its own
//!   time. A packet occupies a link for `len / rate` (rounded up to 1 ps) and is at the other end one
//!   latency after that. So an unloaded message of `S` bytes takes `S/r + (h-1) P/r + sum of
//!   latencies` over `h` hops of rate `r` (and up to 1 ps of rounding per packet).
//! * Every input port has a buffer of `B` packets. A packet that starts takes a credit of the buffer
//!   ahead; the credit is back one latency after the slot is free. A packet in transit frees its slot
//!   when it has left the node completely, a packet at its destination on arrival
//!   ([`Delivery::Whole`](crate::Delivery::Whole), [`Delivery::Stored`](crate::Delivery::Stored)) or when the
//!   receiver releases it.
//! * Packets for the local NPU leave the input queue at once. Those in transit through an NPU stand in
//!   line, one queue per input port and virtual channel, and only the head of a queue requests an
//!   output; the next packet becomes head when it starts. In a switch every packet requests its output on
//!   arrival, so that none waits for another that goes elsewhere (virtual output queues).
//! * An output serves requests in the order in which they were made. Among requests of one instant,
//!   those of arriving packets come before those of new heads, each by input port. Packets of the local NPU give
//!   way to those in transit: one starts when the wire is free and none in transit can start. What the NPU
//!   has fed stands in line, one queue per output port, in which *connections* take turns packet by packet;
//!   without `turns` all of it has requested at once, in order, and gives way to nobody. A connection is
//!   what an NPU sends to one place, in the order in which it is fed: the queue pairs of a NIC take turns, and
//!   each of them works off one request after the other.
//! * With `in_rounds` the outputs of switches serve connections in turn, packet by packet, instead of requests in order
//!   (`rounds`); see below.
//! * Rings are kept free of deadlock by a [`DeadlockRule`].
//! * A message to the node itself takes no time and is reported on port 0.
//!
//! # Routers and switches
//! *Routers of NPUs*, on rings and tori, have a queue per input port and virtual channel, as in Garnet: a packet behind the
//! head waits for it. *Switches* have virtual output queues, which is what PCIe switches (the data book of PLX's PEX 8532),
//! Ethernet and InfiniBand switches do: no packet waits for one that goes elsewhere. What is left is that packets for
//! different outputs share an input's buffer, as they share the credits of a lane or the pause of a priority class:
//! one output that is overloaded for long can fill it.
//!
//! *Transit goes first.* Were a router's own packets to take turns with those in transit, as inputs of equal rank do, they
//! would have half of the link where a ring of 32 leaves them an eighth in an all-to-all. Transit would then back up until
//! all buffers around the ring are full, and what moves in a full ring is its holes: links that are wanted all the
//! time are idle for want of credits, however large the buffers are (a quarter of the time there, with half of the
//! buffers each, by datelines, two thirds). Real routers of tori let in new packets last for this reason: the *rotary rule*
//! of the Alpha 21364's (Mukherjee et al., ASPLOS 2002), as in a traffic circle. So does this one, and rings then
//! carry all that their links can. Who is upstream of a hot spot is served first.
//!
//! *What is left* is head-of-line blocking: a packet that turns into another dimension and finds its output busy holds
//! up those behind it that go elsewhere. It is why input queues saturate below the rate of their links (at 59 % with
//! random traffic through one switch with many inputs: Karol, Hluchyj and Morgan 1987), and real where packets follow
//! fixed routes in one queue per channel. It is the whole of it: with `sorted` inputs and buffers that never fill,
//! all-to-alls on 8x8, 16x16 and 8x8x8 come within 1 to 3 % of their bound, where the same buffers without sorting
//! change nothing. (With buffers of the usual size sorting makes most of them worse, by up to twice the time: what
//! waits for an output that is behind then fills the buffer that all share.) Routers that spread packets over all
//! shortest ways have less of it: 85 to 95 % of the peak was measured of all-to-alls on Blue Gene/Q. Direct
//! all-to-alls, whose loads are even at any time, reach 99 % on rings, 83 to 89 % on 4x8x4, 94 % on 16x16 (78 % at
//! worst) and 73 to 81 % on 8x8x8 here.
//!
//! *Who gets an output.* Where each input of a switch is one sender, order of requests is fair. Machines have several
//! GPUs behind an input: on their way to a NIC those on its own PCIe switch compete with one link from the CPU that
//! carries what all others send. Served by input, the near GPUs are done early, and then the link between the sockets,
//! slower than the NIC, is all that is left. Hosts do not share their NICs like that: a NIC fetches what it sends from the
//! memory of the GPUs, for one queue pair after the other, so that how far a GPU is away does not matter; and transports with
//! congestion control even out what meets further on. `in_rounds` models this. It needs to tell senders apart, so
//! that it is for fabrics that are not folded; products keep the order of requests.
//!
//! # Precedence
//! With `by_precedence` an output serves waiting requests of larger precedence first
//! ([`TrafficClass::precedence`]); among equal ones all is as above: transit before local packets, connections and rounds in
//! turn. So at a sender's port a message of larger precedence overtakes all that has been fed and has not started, and at a
//! switch all that waits for the same output. A packet on the wire is not interrupted. No packet is decided to start before
//! the wire is free, and trains start packet by packet, since whoever comes until then may go first.
//!
//! *The limit*: buffers are shared. A packet of large precedence stands in the input queue of a router behind all that came
//! before it, and finds a buffer full that others have filled; it gets a free slot first if it asks first, but no slot is
//! kept for it, which is what keeps rings moving: a packet that stays in its ring may take the only slot while one of
//! larger precedence waits for two to enter. Networks that keep a buffer for each class, as Ethernet with priority flow
//! control does, have less of this.
//!
//! # How it is computed
//! The start of a packet is decided as soon as it is certain: when its request is the first of its
//! port and the credits it needs are known to be there by the time the wire is free (where connections take turns, when
//! it is free). Then the only
//! event of the packet is its arrival at the next node. Otherwise it waits in a *lane* of its port
//! (`rule`), and the port wakes up when the wire or a credit may let it go.
//!
//! With `trains`, packets of a message that start back to back travel as one train: one event and
//! constant work for a whole message over one hop, if the buffers hold a round trip. At a node in
//! transit every packet is on its own again. Completion times are the same with and without.
//!
//! Results do not depend on the order of simultaneous events at different nodes, nor on `trains`,
//! provided that links have a latency: what one node does then reaches another only later. A sender
//! that is told of [`Room`] at some time must act at that time in the same way whether it knew before
//! ([`Room::At`]) or is told then ([`NetOut::Room`]), because that difference is one of bookkeeping.
//!
//! | module | |
//! |---|---|
//! | `router` | the way of a packet |
//! | `port` | a link: its output port and the buffer behind it |
//! | `rounds` | whose turn it is at a switch |
//! | `rule` | deadlock rules |
//! | `credits` | which slots are free, and when |
//! | `backlog` | bytes at a port that are not on the wire |
//! | `trains` | packets |
//! | `loopback` | messages from a node to itself |
//! | `series` | evenly spaced points in time |
//! | `waits` | who waits for what |
//!
//! # Left out
//! Flits, and with them the delay of a head before it is routed; the time a packet takes through the
//! crossbar, which has the speed to move packets from one input to several outputs at once; packet
//! headers (part of the link efficiency); errors and retransmission; adaptive routes; buffers and shares of rate for each
//! precedence.

mod backlog;
mod credits;
mod loopback;
mod port;
mod rounds;
mod router;
mod rule;
mod series;
mod trains;
mod waits;

pub use rule::DeadlockRule;

use crate::api::{LINKS_OF_AN_EVENT, Message, MsgId, NetOut, Network, Room, Route, TrafficClass};
use crate::messages::Messages;
use crate::receipts::Receipts;
use crate::usage::LinkUsage;
use backlog::Backlog;
use loopback::Loopback;
use port::{Link, LinkId};
use syncline_core::{Books, Bytes, NodeId, PortId, Ps, Refusal, Resolution, Schedule, Wait};
use syncline_topology::{Fabric, Paths, all_links};

/// What can be chosen about the packet backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketConfig {
    /// Bytes of a full packet.
    pub packet: Bytes,
    /// Packets that an input buffer holds; `None` for twice the bandwidth-delay product of the
    /// round trip of its link (per virtual channel).
    pub buffer: Option<u32>,
    /// Packets that an automatic input buffer holds at least (per virtual channel).
    pub at_least: u32,
    /// How rings are kept free of deadlock.
    pub rule: DeadlockRule,
    /// Whether packets that follow each other are handled as one. Gives the same times, sooner.
    pub trains: bool,
    /// Whether connections take turns at their sender's port, packet by packet, and what is in transit there goes before
    /// them. If not, messages go one after the other, in the order of request with transit: for traffic between
    /// neighbours, whose engines decide themselves what goes when, and of which trains can be made.
    pub turns: bool,
    /// Whether connections take turns at the outputs of switches as well, where they do at their sender's port. For
    /// fabrics whose nodes all stand for themselves.
    pub in_rounds: bool,
    /// Whether messages of larger precedence go first ([`TrafficClass::precedence`]). Otherwise all are equal; starts are then
    /// decided as soon as they are certain, and trains travel as one.
    pub by_precedence: bool,
    /// Whether packets in transit through an NPU request their outputs on arrival, as in a switch, instead of one after
    /// the other. To see what head-of-line blocking costs.
    pub sorted: bool,
    /// The length of the windows in which link usage is collected.
    pub window: Resolution,
}

impl PacketConfig {
    /// Packets of 256 B, automatic buffers, bubble flow control, trains, windows of 1 us.
    pub const DEFAULT: PacketConfig = PacketConfig {
        packet: Bytes(256),
        buffer: None,
        at_least: 0,
        rule: DeadlockRule::Bubble,
        trains: true,
        turns: true,
        in_rounds: false,
        by_precedence: false,
        sorted: false,
        window: Resolution::of(Ps(1_000_000)),
    };

    /// Whether packets can move.
    ///
    /// # Errors
    /// A [`PacketError`] if none ever could.
    pub fn check(&self) -> Result<(), PacketError> {
        let PacketConfig { packet, buffer, rule, window, .. } = *self;
        if packet == Bytes::ZERO {
            return Err(PacketError::EmptyPackets);
        }
        if window.window == Ps::ZERO {
            return Err(PacketError::EmptyWindows);
        }
        match buffer.filter(|&b| b < rule.smallest_buffer()) {
            Some(packets) => Err(PacketError::SmallBuffer { packets, rule }),
            None => Ok(()),
        }
    }
}

impl Default for PacketConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why a packet backend cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// Packets of no bytes.
    EmptyPackets,
    /// Usage windows of no length.
    EmptyWindows,
    /// A buffer in which no packet could ever move.
    SmallBuffer {
        /// The packets it holds.
        packets: u32,
        /// The rule that needs more.
        rule: DeadlockRule,
    },
}

impl From<PacketError> for Refusal {
    fn from(error: PacketError) -> Refusal {
        match error {
            PacketError::EmptyPackets => Refusal::of("packet_bytes", "packets of 0 bytes").at_least(1),
            PacketError::EmptyWindows => Refusal::of("window_ps", "usage windows of 0 ps").at_least(1),
            PacketError::SmallBuffer { packets, rule } => {
                let message = format!("input buffers of {packets} packets under the rule {rule:?}");
                Refusal::of("buffer_packets", message).at_least(rule.smallest_buffer().into())
            }
        }
    }
}

/// A timer of the packet backend.
#[derive(Clone, Copy, Debug)]
pub struct Event(Timer);

/// Events are copied through the queue; a driver's own event should still fit 8 bytes.
const _: () = assert!(size_of::<Event>() <= 8);

#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The next train on a link's wire is due at its far end.
    Arrive(LinkId),
    /// A link may be able to start a waiting train.
    Wake(LinkId),
    /// The next packet in transit becomes head of its input queue (link, virtual channel).
    Head(LinkId, u8),
    /// A node hears of what it sent to itself.
    Loopback(NodeId),
    /// The last packet of the next message of a link has left its sender.
    Left(LinkId),
}

/// The packet backend on a fabric.
#[derive(Debug)]
pub struct Packet<F> {
    fabric: F,
    /// Per node, its first link.
    first_link: Vec<u32>,
    packet: Bytes,
    rule: DeadlockRule,
    trains: bool,
    turns: bool,
    by_precedence: bool,
    links: Vec<Link>,
    /// Per node and input port, the link that ends there.
    link_into: Vec<LinkId>,
    backlogs: Vec<Backlog>,
    /// Those of classes beside the first, where they have a channel of their own.
    passing: Vec<Backlog>,
    loopbacks: Vec<Loopback>,
    /// With where its path begins in the table of paths; `None` of what stays on its node.
    messages: Messages<Option<u32>>,
    receipts: Receipts,
    paths: Paths,
    books: Books,
    usage: LinkUsage,
}

impl<F: Fabric> Packet<F> {
    /// A backend for `fabric`.
    ///
    /// # Errors
    /// A [`PacketError`] when no packet could ever move.
    pub fn new(fabric: F, config: PacketConfig) -> Result<Self, PacketError> {
        config.check()?;
        let PacketConfig { packet, buffer, at_least, rule, trains, turns, in_rounds, by_precedence, sorted, window } =
            config;
        let choices = (in_rounds && turns, sorted, by_precedence);
        let link = |from| Link::new(&fabric, rule, packet, (buffer, at_least), choices, from);
        let mut links: Vec<Link> = Vec::with_capacity(fabric.links() as usize);
        links.extend(all_links(&fabric).map(link));
        let mut link_into = vec![LinkId::LOCAL; links.len()];
        for (id, link) in links.iter().enumerate() {
            link_into[link.onward as usize + link.input.index()] = LinkId(id as u32);
        }
        Ok(Packet {
            first_link: (0..fabric.nodes()).map(|n| fabric.first_link(NodeId(n))).collect(),
            packet,
            rule,
            trains,
            // Nothing is in transit that local packets could take turns with.
            turns: turns && rule != DeadlockRule::Classes,
            by_precedence,
            backlogs: vec![Backlog::default(); links.len()],
            passing: vec![Backlog::default(); if rule == DeadlockRule::Classes { links.len() } else { 0 }],
            links,
            link_into,
            loopbacks: vec![Loopback::default(); fabric.nodes() as usize],
            messages: Messages::new(),
            receipts: Receipts::default(),
            paths: Paths::new(&fabric),
            books: Books::default(),
            usage: LinkUsage::new(&fabric, window),
            fabric,
        })
    }
}

impl<F: Fabric> Network for Packet<F> {
    type Event = Event;

    fn open(&mut self, message: Message) -> MsgId {
        let path = match message.route {
            Route::Port(port) => Some(self.paths.through(port)),
            Route::To(dst) => self.paths.between(&self.fabric, message.src, (dst, 0)),
            Route::By(dst, choice) => self.paths.between(&self.fabric, message.src, (dst, choice)),
        };
        self.messages.add(message, path)
    }

    fn feed<Q: Schedule<Event>>(&mut self, now: Ps, id: MsgId, len: Bytes, q: &mut Q) {
        let tail = self.messages.feed(id, len);
        assert!(len == self.packet || tail && len < self.packet, "fed something that is not a packet");
        self.books.accepted += len.0;
        self.inject(now, id, 1, tail, len < self.packet, q);
    }

    fn send<Q: Schedule<Event>>(&mut self, now: Ps, message: Message, q: &mut Q) {
        let id = self.open(message);
        self.messages.feed(id, message.len);
        self.books.accepted += message.len.0;
        let (mut full, rest) = (message.len.0 / self.packet.0, message.len.0 % self.packet.0);
        let short = rest > 0 || full == 0;
        while full > 0 {
            let packets = u32::try_from(full).unwrap_or(u32::MAX);
            full -= u64::from(packets);
            self.inject(now, id, packets, full == 0 && !short, false, q);
        }
        if short {
            self.inject(now, id, 1, true, true, q);
        }
    }

    fn room(&mut self, now: Ps, at: NodeId, port: PortId, class: TrafficClass, capacity: Bytes) -> Room {
        let (out, packet) = (self.link_at(at, port), self.packet);
        let vc = self.rule.channel_for(class).unwrap_or(0);
        let backlog = self.backlog(out, vc);
        let room = backlog.room(now, capacity, packet);
        if room == Room::Unknown {
            backlog.ask(capacity);
        }
        room
    }

    fn release<Q: Schedule<Event>>(&mut self, now: Ps, at: NodeId, port: PortId, class: TrafficClass, q: &mut Q) {
        if port == loopback::PORT && self.loopbacks[at.index()].release() {
            return;
        }
        let id = self.link_into[self.link_at(at, port).index()];
        let link = &mut self.links[id.index()];
        let released = link.release(now, self.rule.channel_for(class));
        assert!(released, "released a slot that the NPU does not hold");
        if released && link.waiting > 0 {
            let wake = (now + link.latency).max(link.free);
            self.wake(wake, id, q);
        }
    }

    fn handle<Q: Schedule<Event>>(&mut self, now: Ps, Event(timer): Event, q: &mut Q, out: &mut Vec<NetOut>) {
        match timer {
            Timer::Arrive(link) => self.arrived(now, link, q, out),
            Timer::Wake(link) => self.woken(now, link, q, out),
            Timer::Head(link, vc) => self.head(now, link, vc, q),
            Timer::Loopback(node) => self.looped_back(now, node, out),
            Timer::Left(link) => out.extend(self.receipts.next(link.0)),
        }
    }

    fn further_work(&self) -> u64 {
        self.paths.looked_up() / LINKS_OF_AN_EVENT
    }

    fn waits(&self) -> Vec<Wait> {
        self.blocked()
    }

    fn books(&self) -> Books {
        self.books
    }

    /// What is decided to start later starts as soon as the wire is free, so that wires are busy without a pause from
    /// now on.
    fn finish(&mut self, now: Ps) {
        for (id, link) in self.links.iter().enumerate() {
            if link.free > now {
                let len = link.rate.size(link.free - now).min(self.usage.bytes(id as u32));
                self.usage.cut(id as u32, len, now, link.free, now);
            }
        }
    }

    fn usage(&self) -> &LinkUsage {
        &self.usage
    }

    fn record_links(&mut self, links: &[u32], limit: usize) {
        self.usage.record(links, limit);
    }
}
