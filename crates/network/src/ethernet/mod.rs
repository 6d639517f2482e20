//! Ethernet: switches with output queues that may overflow, and hosts whose transport copes with that.
//!
//! A frame is taken by a link's queue, leaves, and arrives at the other end, where it takes the next link or is the host's.
//! Switches store and forward and take no time to do so. Messages are parts of the bytes of a connection, one per way and
//! queue, which is open from the beginning. What a host does with a frame is [`tcp`]'s. Messages that stay on NVLink may be
//! flows instead ([`within`]), and what NICs read and write goes without events of its own then ([`passing`]).
//!
//! The backend has an inner queue ([`clock`], and a heap of timers), and runs ahead of the driver as long as nothing else can
//! happen: until the time of the driver's next event, or until a message has arrived, which the driver hears of at that time.

mod apart;
pub mod background;
mod capture;
mod clock;
pub mod config;
mod connection;
mod frame;
mod hosts;
pub mod link;
mod opening;
mod passing;
mod path;
mod paths;
mod posting;
mod rdma;
pub mod roce;
mod round_trips;
mod samples;
mod served;
mod store;
pub mod switching;
mod tables;
pub mod tcp;
mod timeline;
mod within;
mod writes;

pub use config::EthernetConfig;

use crate::api::{Connection, Message, MsgId, NetOut, Network, Room, Route, Segment, TrafficClass, class};
use crate::flow;
use crate::messages::Messages;
use crate::usage::LinkUsage;
use crate::wait_text;
use apart::Apart;
use background::Background;
use capture::Captures;
use clock::{NEVER, Tournament};
use connection::{Line, Listener, Stage, Transport};
use frame::{ACK, CWR, ECT, Frame, NONE};
use link::{Condition, Link, Taken};
use passing::Passing;
use paths::Paths;
use posting::Posting;
use prefetch_index::prefetch_index;
use rdma::Roce;
use round_trips::RoundTrips;
use samples::Samples;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use store::Store;
use switching::{Switching, SwitchingConfig};
use syncline_core::random::RandomStream;
use syncline_core::table::{Declaration, Table};
use syncline_core::{Books, Bytes, Key, NodeId, PortId, Ps, Schedule, Slab, Wait, Wire, id_type};
use syncline_topology::{Fabric, all_links};
use tcp::receiver::Blocks;
use tcp::sender::Counts;
use timeline::Timeline;
use within::Within;
use writes::{AllWrites, Writes};

/// The flags of data: by whether the network may mark it, and by whether its sender has reduced its window.
const ECT_CWR: [[u8; 2]; 2] = [[0, CWR], [ECT, ECT | CWR]];

/// Events that are handled before the driver is asked again.
const AT_A_TIME: u32 = 1 << 16;

id_type!(
    /// The SACK blocks of an acknowledgement that is under way.
    BlocksId
);

/// What the driver calls for.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// To go on with frames.
    Frames,
    /// A timer of flows within machines.
    Flows(flow::Event),
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The retransmission timer of a connection.
    Retransmission,
    /// An acknowledgement that waits.
    Acknowledgement,
    /// A change of a link, by its place in the list.
    Change,
    /// A flow beside the run begins, by the number of what makes it.
    Flow,
    /// Bytes that a NIC has written are at its GPU.
    Written,
}

/// The Ethernet backend on a fabric.
#[derive(Debug)]
pub struct Ethernet<F> {
    fabric: F,
    config: EthernetConfig,
    links: Vec<Link>,
    /// What waits before them and is on them.
    store: Store,
    clock: Tournament,
    /// What waits before links that are served frame by frame, if they are.
    switching: Option<Box<Switching>>,
    /// The queue pairs, if hosts have RoCE.
    roce: Option<Box<Roce>>,
    /// Links that are paused for ever, each because of the next one.
    deadlock: Vec<u32>,
    timers: BinaryHeap<Reverse<(u64, u32, Timer)>>,
    /// Links that become others, in the order of time.
    changes: Vec<(NodeId, PortId, Condition)>,
    /// How many of them are still to come.
    changes_left: u32,
    paths: Paths,
    /// The sending and the receiving ends of connections.
    lines: Vec<Line>,
    listeners: Vec<Listener>,
    stages: Vec<Stage>,
    /// By node: the numbers of its connections, in order of their ways.
    known: Vec<Vec<(Route, u16, u32)>>,
    /// By connection: the receiver, and the port by which bytes arrive.
    ends: Vec<(NodeId, PortId)>,
    /// By number: what they are; those that are parts of one are the same.
    connections: Vec<Connection>,
    writes: AllWrites,
    /// By connection.
    messages: Vec<Writes>,
    blocks: Slab<BlocksId, Blocks>,
    /// Messages that their senders have not fed completely.
    unfed: Messages<()>,
    /// What hosts have not posted yet, if they post a limited number of messages at once.
    posting: Option<Box<Posting>>,
    /// What is to be reported at a time.
    outbox: Vec<NetOut>,
    outbox_at: u64,
    /// The next time at which the driver's call counts; [`NEVER`] if it is not to call. Nothing happens before.
    wake: u64,
    /// The first link that leaves a switch.
    first_switch_link: u32,
    books: Books,
    counts: Counts,
    trips: RoundTrips,
    /// How long messages took from being written to their arrival, and that in thousandths of what they take alone.
    completions: RoundTrips,
    slowdowns: RoundTrips,
    timeline: Timeline,
    /// Of connections that are watched.
    samples: BTreeMap<u32, Samples>,
    dropped_payload: u64,
    /// When a frame has last arrived, and for how long nothing was on any link until a timer expired.
    active_at: u64,
    stalled: u64,
    /// Flows beside the run, if there are any.
    background: Option<Box<Background>>,
    /// What is recorded of what leaves by some ports.
    captures: Option<Box<Captures>>,
    /// Messages that stay within machines and are flows, if they are.
    within: Option<Box<Within<F>>>,
    /// What is on its way between NICs and GPUs, where that has no events of its own.
    passing: Option<Box<Passing>>,
    /// Whether nodes that are simulated as one would differ, if nodes are.
    apart: Option<Box<Apart>>,
    /// When the run was over.
    ended: Ps,
    usage: LinkUsage,
    hops: u64,
}

impl<F: Fabric> Ethernet<F> {
    /// A backend for `fabric`; `buffers` has what may wait before each link of a switch, where that is not what the
    /// configuration says.
    ///
    /// # Panics
    /// If a frame could be larger than 65,535 bytes, or if hosts have RoCE and links are not served frame by frame.
    pub fn new(fabric: F, config: EthernetConfig, buffers: &[(NodeId, u64)]) -> Self {
        let full = u16::try_from(config.segment() + config.overhead).expect("frames below 64 KiB");
        let sizes = (full, config.overhead as u16);
        let is_switch = |node: NodeId| node.0 >= fabric.npus();
        assert!(config.roce.is_none() || config.switching.is_some_and(|s| s.per_connection), "ports ask queue pairs");
        let buffer = |node: NodeId| {
            let stated = buffers.iter().rev().find(|buffer| buffer.0 == node).map(|buffer| buffer.1);
            stated.unwrap_or(config.buffer)
        };
        let is_local = |(node, port)| config.local_classes.contains(&fabric.link(node, port).class);
        let local: Vec<bool> = all_links(&fabric).map(is_local).collect();
        let served = match config.switching {
            None if local.contains(&true) => Some(SwitchingConfig::IN_TURN),
            switching => {
                switching.map(|s| SwitchingConfig { per_connection: s.per_connection || local.contains(&true), ..s })
            }
        };
        let switching =
            served.map(|served| Box::new(Switching::new(&fabric, served, (full, config.nic_buffer), buffer, local)));
        let mut store = Store::default();
        let link = |(node, port): (NodeId, PortId)| {
            let limit = if is_switch(node) { buffer(node) } else { config.nic_buffer };
            let random = RandomStream::new(config.seed, &[node.0.into(), port.0.into()]);
            let spec = fabric.link(node, port);
            // Links of a machine carry no headers.
            let segment = config.segment() as u16;
            let sizes =
                if config.local_classes.contains(&spec.class) { (segment, sizes.1.min(segment)) } else { sizes };
            Link::new(&mut store, (spec.rate, spec.latency), limit, sizes, config.marking, random)
        };
        let first_switch_link = match fabric.npus() < fabric.nodes() {
            true => fabric.first_link(NodeId(fabric.npus())),
            false => fabric.links(),
        };
        let mut links: Vec<Link> = all_links(&fabric).map(link).collect();
        let captures = Captures::new(&fabric, &config.captured, &mut links);
        if switching.is_none() {
            // What waits before the port of a host may be much.
            for (link, (node, _)) in links.iter_mut().zip(all_links(&fabric)) {
                if !is_switch(node) && !link.is_captured() {
                    link.gather_frames();
                }
            }
        }
        let sources = config.background.clone();
        let mut network = Ethernet {
            links,
            store,
            clock: Tournament::new(fabric.links().max(1)),
            switching,
            roce: config.roce.map(|roce| Box::new(Roce::new(roce))),
            deadlock: Vec::new(),
            timers: BinaryHeap::new(),
            changes: Vec::new(),
            changes_left: 0,
            paths: Paths::new(&fabric),
            posting: config.outstanding.map(|most| Box::new(Posting::new(most.get(), fabric.npus()))),
            lines: Vec::new(),
            listeners: Vec::new(),
            stages: Vec::new(),
            known: vec![Vec::new(); fabric.nodes() as usize],
            ends: Vec::new(),
            connections: Vec::new(),
            writes: AllWrites::default(),
            messages: Vec::new(),
            blocks: Slab::new(),
            unfed: Messages::new(),
            outbox: Vec::new(),
            outbox_at: 0,
            wake: NEVER,
            first_switch_link,
            books: Books::default(),
            counts: Counts::default(),
            trips: RoundTrips::default(),
            completions: RoundTrips::default(),
            slowdowns: RoundTrips::default(),
            samples: BTreeMap::new(),
            timeline: Timeline::new(),
            dropped_payload: 0,
            active_at: 0,
            stalled: 0,
            background: None,
            captures,
            within: None,
            passing: None,
            apart: Apart::new(&fabric),
            ended: Ps::ZERO,
            usage: LinkUsage::new(&fabric, config.window),
            hops: 0,
            fabric,
            config,
        };
        network.add_background(&sources);
        network
    }

    /// A link becomes another one at some time. Of several changes of a link at one time the last counts.
    ///
    /// # Panics
    /// If it is one within machines and these are fluid ([`Ethernet::with_flows`]).
    pub fn change_at(&mut self, at: Ps, node: NodeId, port: PortId, to: Condition) {
        let is_local = self.config.local_classes.contains(&self.fabric.link(node, port).class);
        assert!(self.within.is_none() || !is_local, "fluid links do not change");
        self.timers.push(Reverse((at.0, self.changes.len() as u32, Timer::Change)));
        self.changes.push((node, port, to));
        self.changes_left += 1;
    }

    fn change(&mut self, now: u64, change: u32) {
        let (node, port, to) = self.changes[change as usize];
        self.changes_left -= 1;
        let number = self.fabric.first_link(node) + u32::from(port.0);
        if self.links[number as usize].is_captured() {
            self.capture(now, number);
        }
        let mut lost = Vec::new();
        let usage = &mut self.usage;
        let report = |busy, until| usage.add_frames(number, busy, until);
        let next = self.links[number as usize].change(&mut self.store, now, to, |frame| lost.push(frame), report);
        self.clock.set(number, next);
        lost.into_iter().for_each(|frame| self.lost(now, number, frame));
        if self.switching.is_some() {
            self.changed_served(now, number);
        }
    }

    /// What senders have done.
    pub fn sender_counts(&self) -> Counts {
        self.counts
    }

    /// The tables of [`Network::counters`].
    pub fn tables() -> Vec<&'static Declaration> {
        tables::all()
    }

    /// A message whose bytes are all there.
    fn launch<Q: Schedule<Event>>(&mut self, now: Ps, message: Message, q: &mut Q) {
        if self.within.is_some() && self.launch_within(now, message, q) {
            return;
        }
        self.go_on_to(now.0);
        self.catch_up(now.0);
        self.books.accepted += message.len.0;
        let number = self.connection(message.connection());
        let at = number as usize;
        let line = &mut self.lines[at];
        if line.forth.first == NONE {
            // It stays at its node.
            self.books.delivered += message.len.0;
            if let Some(receipt) = message.receipt {
                self.report(now.0, NetOut::Left { at: message.src, receipt });
            }
            self.report(now.0, arrived(message.tag, message.len, self.ends[at], now));
        } else {
            self.post_in_turn(now.0, number, message);
        }
        let next = if self.outbox.is_empty() { self.next_time() } else { now.0 };
        self.call_at(next, q);
    }

    /// A connection gets a message.
    fn post(&mut self, now: u64, number: u32, message: Message) {
        let at = number as usize;
        // An empty message is a byte of the connection, which is not payload.
        let len = message.len.0.max(1);
        let stage = self.stages[at];
        let line = &mut self.lines[at];
        line.began_at = line.began_at.min(now);
        let end = match &mut line.transport {
            Transport::Tcp(sender) if stage.is_local => {
                sender.written += len;
                sender.written
            }
            Transport::Tcp(sender) => sender.write(Ps(now), len, &self.config.tcp),
            Transport::Roce(queue_pair) => {
                if let (Some(captures), Some(roce)) = (&mut self.captures, &self.roce) {
                    captures.post(number, len, roce.config.segment);
                }
                queue_pair.post(len)
            }
        };
        self.writes.append(&mut self.messages[at], &message, end, now);
        line.left_at = line.left_at.min(end);
        let listener = &mut self.listeners[stage.last as usize];
        listener.boundary = listener.boundary.min(end);
        self.pump(now, number);
    }

    /// Links have changed, perhaps before anything was sent.
    fn catch_up(&mut self, now: u64) {
        while let Some(&Reverse((time, number, Timer::Change))) = self.timers.peek()
            && time <= now
        {
            self.timers.pop();
            self.change(time, number);
        }
    }

    /// Something is to be reported at a time, which is the same for all that waits to be.
    fn report(&mut self, now: u64, news: NetOut) {
        self.outbox_at = now;
        self.outbox.push(news);
    }

    fn next_time(&self) -> u64 {
        let timer = self.timers.peek().map_or(NEVER, |&Reverse((time, ..))| time);
        let service = self.switching.as_ref().map_or(NEVER, |switching| switching.service.first().0);
        self.clock.first().0.min(timer).min(service)
    }

    fn call_at<Q: Schedule<Event>>(&mut self, time: u64, q: &mut Q) {
        if time < self.wake {
            self.wake = time;
            q.at(Ps(time), Key::new(class::ARRIVAL, 0), Event::Frames);
        }
    }

    /// Sends what a connection may send.
    #[inline(always)]
    fn pump(&mut self, now: u64, number: u32) {
        if self.switching.is_some() {
            return self.pump_served(now, number);
        }
        let line = &mut self.lines[number as usize];
        let config = &self.config.tcp;
        while let Some(segment) = line.sender().next(Ps(now), config, &mut self.counts) {
            let flags = ECT_CWR[usize::from(config.ecn)][usize::from(segment.reduced)];
            line.resent += u32::from(segment.again);
            let frame = line.frame(number, segment.seq, segment.len, self.config.overhead, flags);
            let (nic, usage) = (line.sent_by, &mut self.usage);
            match self.links[nic as usize]
                .offer(&mut self.store, now, frame, |busy, to| usage.add_frames(nic, busy, to))
            {
                Taken::Behind => {}
                Taken::Alone(time) => self.clock.set(nic, time),
                Taken::Dropped => {
                    self.dropped_payload += u64::from(segment.len);
                    self.timeline.at(now).drops += 1;
                }
            }
        }
        self.settle(now, number);
    }

    /// After a connection has sent something: its timer is set, and messages have left.
    #[inline(always)]
    fn settle(&mut self, now: u64, number: u32) {
        let line = &mut self.lines[number as usize];
        let (deadline, left) = match &line.transport {
            Transport::Tcp(sender) if self.switching.is_some() && self.stages[number as usize].is_local => {
                (NEVER, sender.nxt)
            }
            Transport::Tcp(sender) if self.posting.is_some() => (sender.deadline.0, sender.nxt),
            Transport::Tcp(sender) => (sender.deadline.0, sender.buffered),
            Transport::Roce(queue_pair) => (queue_pair.deadline.0, queue_pair.sent),
        };
        if deadline < line.armed {
            line.armed = deadline;
            self.timers.push(Reverse((line.armed, number, Timer::Retransmission)));
        }
        if left >= line.left_at {
            self.leave(now, number, left);
        }
    }

    /// The next frame of a link has arrived at its other end.
    #[inline(always)]
    fn arrive(&mut self, now: u64, number: u32) {
        self.hops += 1;
        if self.links[number as usize].is_captured() {
            self.capture(now, number);
        }
        let link = &mut self.links[number as usize];
        let (mut frame, next) = link.arrive(&mut self.store);
        let is_lost = link.loses(frame);
        let head = link.head();
        self.clock.set(number, next);
        if next != NEVER && head.hops == 0 {
            self.expect(head);
        }
        if is_lost {
            return self.lost(now, number, frame);
        }
        if self.switching.is_some() {
            return self.arrive_served(now, number, frame);
        }
        if frame.hops == 0 {
            return if frame.is(ACK) { self.acknowledged(now, frame) } else { self.received(now, frame) };
        }
        let out = self.paths.advance(number, &mut frame);
        self.take(now, out, frame);
    }

    /// A frame is the next one to reach its host by some link. Some hundred other events come before, in which time a processor
    /// fetches from memory what the host will look at: it was last touched long ago.
    #[inline(always)]
    fn expect(&self, frame: Frame) {
        let at = frame.connection as usize;
        if frame.is(ACK) {
            prefetch_index(&self.lines, at);
        } else {
            prefetch_index(&self.listeners, at);
            // Pauses are of no connection.
            if let Some(messages) = self.messages.get(at) {
                self.writes.expect(messages);
            }
        }
    }

    /// A frame takes a link, if there is room.
    #[inline(always)]
    fn take(&mut self, now: u64, link: u32, frame: Frame) {
        let usage = &mut self.usage;
        match self.links[link as usize].offer(&mut self.store, now, frame, |busy, to| usage.add_frames(link, busy, to))
        {
            Taken::Behind => {}
            Taken::Alone(time) => self.clock.set(link, time),
            Taken::Dropped => return self.dropped(now, frame),
        }
        if link >= self.first_switch_link {
            let window = self.timeline.at(now);
            window.peak = window.peak.max(self.links[link as usize].waiting_above(&self.store, now, window.peak));
        }
    }

    /// A frame of a host takes its first link.
    #[inline(always)]
    fn emit(&mut self, now: u64, link: u32, frame: Frame) {
        if self.switching.is_some() {
            self.take_served(now, link, frame, NONE);
        } else {
            self.take(now, link, frame);
        }
    }

    /// A frame got lost on the wire.
    #[cold]
    #[inline(never)]
    fn lost(&mut self, now: u64, link: u32, frame: Frame) {
        if self.is_local(frame) { self.replay(now, link, frame) } else { self.dropped(now, frame) }
    }

    /// Something happens in which nodes that are simulated as one differ.
    #[inline(always)]
    fn tell_apart(&mut self, why: &'static str) {
        if let Some(apart) = &mut self.apart {
            apart.why = Some(why);
        }
    }

    #[cold]
    #[inline(never)]
    fn dropped(&mut self, now: u64, frame: Frame) {
        self.timeline.at(now).drops += 1;
        self.tell_apart("a frame is lost");
        if Self::is_bare(frame) {
            if frame.blocks != NONE {
                self.blocks.remove(BlocksId(frame.blocks));
            }
        } else {
            self.dropped_payload += u64::from(frame.wire) - u64::from(self.config.overhead);
        }
    }

    /// Handles events until one is reported, the driver has one of its own, or many were handled. Says when the driver is to
    /// call again.
    fn run(&mut self, now: u64, horizon: u64) -> u64 {
        for _ in 0..AT_A_TIME {
            let (time, link) = self.clock.first();
            let timer = self.timers.peek().map_or(NEVER, |&Reverse((time, ..))| time);
            let (service, free) = self.switching.as_ref().map_or((NEVER, 0), |switching| switching.service.first());
            let next = time.min(timer).min(service);
            if next == NEVER || (next > now && (next >= horizon || !self.outbox.is_empty())) {
                return next;
            }
            // What leaves at a time makes room for what comes then, as in links that are not served.
            if service == next {
                self.serve(next, free);
            } else if time == next {
                self.active_at = next;
                self.arrive(next, link);
            } else {
                self.fire(next);
            }
            if !self.outbox.is_empty() && self.outbox_at > now {
                return self.outbox_at;
            }
        }
        self.next_time()
    }
}

fn arrived(tag: u64, len: Bytes, (at, port): (NodeId, PortId), now: Ps) -> NetOut {
    let segment = Segment { len, t0: now, gap: Ps::ZERO, packets: 1 };
    NetOut::Arrived { at, port, tag, segment, last: true }
}

impl<F: Fabric> Network for Ethernet<F> {
    type Event = Event;

    fn open(&mut self, message: Message) -> MsgId {
        self.unfed.add(message, ())
    }

    fn feed<Q: Schedule<Event>>(&mut self, now: Ps, id: MsgId, len: Bytes, q: &mut Q) {
        if self.unfed.feed(id, len) {
            let message = self.unfed[id].message;
            self.unfed.remove(id);
            self.launch(now, message, q);
        }
    }

    fn send<Q: Schedule<Event>>(&mut self, now: Ps, message: Message, q: &mut Q) {
        self.launch(now, message, q);
    }

    /// Connections wait in the host's memory, not before its port.
    fn room(&mut self, _: Ps, _: NodeId, _: PortId, _: TrafficClass, _: Bytes) -> Room {
        Room::Now
    }

    fn release<Q: Schedule<Event>>(&mut self, _: Ps, _: NodeId, _: PortId, _: TrafficClass, _: &mut Q) {}

    fn handle<Q: Schedule<Event>>(&mut self, now: Ps, event: Event, q: &mut Q, out: &mut Vec<NetOut>) {
        if let Event::Flows(event) = event {
            return self.handle_within(now, event, q, out);
        }
        if now.0 < self.wake {
            return; // an earlier call has made this one needless
        }
        self.wake = NEVER;
        let mut next = self.run(now.0, q.next_time().0);
        if self.outbox_at <= now.0 && !self.outbox.is_empty() {
            out.append(&mut self.outbox);
            next = self.next_time();
        }
        if next != NEVER && !(out.is_empty() && self.only_flows_are_left(q.next_time())) {
            self.call_at(next, q);
        }
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits: Vec<Wait> =
            self.unfed.unfed().map(|m| wait_text::unfed(&self.fabric, &m.message, m.fed())).collect();
        waits.extend(self.pauses());
        waits.extend(self.posting.iter().flat_map(|posting| posting.waits(|node| self.fabric.node_name(node))));
        for (at, writes) in self.messages.iter().enumerate().filter(|&(at, _)| !self.is_flow(at as u32)) {
            if let Some(write) = self.writes.waiting(writes).next() {
                let stage = self.stages[at];
                let what = if stage.is_local || stage.is_part() {
                    let next = self.listeners[stage.last as usize].receiver.next;
                    format!("byte {next} of its connection to arrive")
                } else {
                    format!("an acknowledgement of byte {} of its connection", self.lines[at].una())
                };
                waits.push(Wait { who: wait_text::message_on(&self.fabric, self.connections[at], write.len), what });
            }
        }
        waits
    }

    fn books(&self) -> Books {
        let within = self.within.as_ref().map_or_else(Books::default, |within| within.flow.books());
        Books {
            accepted: self.books.accepted + within.accepted,
            delivered: self.books.delivered + within.delivered,
            failed: self.books.failed + within.failed,
        }
    }

    fn wire(&self) -> Wire {
        let beside = self.background.as_ref().map_or(0, |background| background.begun_bytes);
        Wire {
            sent: self.books().accepted + beside + self.counts.resent_bytes,
            dropped: self.dropped_payload,
            resent: self.counts.resent_bytes,
        }
    }

    fn further_work(&self) -> u64 {
        self.hops + self.within.as_ref().map_or(0, |within| within.flow.further_work())
    }

    fn usage(&self) -> &LinkUsage {
        &self.usage
    }

    fn record_links(&mut self, links: &[u32], limit: usize) {
        self.usage.record(links, limit);
        if let Some(within) = &mut self.within {
            within.flow.record_links(links, limit);
        }
    }

    fn finish(&mut self, now: Ps) {
        self.ended = now;
        for number in 0..self.links.len() {
            if self.links[number].is_captured() {
                self.capture(now.0, number as u32);
            }
            if let Some((busy, to)) = self.links[number].rest() {
                self.usage.add_frames_until(number as u32, busy, to, now);
            }
        }
        if let Some(within) = &mut self.within {
            within.flow.finish(now);
            self.usage.join(within.flow.usage());
        }
    }

    fn told_apart(&self) -> Option<&'static str> {
        self.apart.as_ref()?.why
    }

    fn counters(&self) -> Vec<Table> {
        tables::fill(self)
    }
}
