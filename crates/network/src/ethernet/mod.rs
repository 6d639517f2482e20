//! Ethernet: switches with output queues that may overflow, and hosts whose transport copes with that.
//!
//! A frame is taken by a link's queue, leaves, and arrives at the other end, where it takes the next link or is the host's.
//! Switches store and forward and take no time to do so. Messages are parts of the bytes of a connection, one per way and
//! queue, which is open from the beginning. What a host does with a frame is [`tcp`]'s.
//!
//! The backend has an inner queue ([`clock`], and a heap of timers), and runs ahead of the driver as long as nothing else can
//! happen: until the time of the driver's next event, or until a message has arrived, which the driver hears of at that time.

mod clock;
pub mod config;
mod connection;
mod frame;
pub mod link;
mod paths;
mod rdma;
pub mod roce;
mod round_trips;
mod samples;
mod served;
pub mod switching;
mod tables;
pub mod tcp;
mod timeline;
mod writes;

pub use config::EthernetConfig;

use crate::api::{Connection, Message, MsgId, NetOut, Network, Room, Route, Segment, TrafficClass, class};
use crate::messages::Messages;
use crate::usage::LinkUsage;
use crate::wait_text;
use clock::{NEVER, Tournament};
use config::{BLOCK_BYTES, Balancing};
use connection::{Line, Listener, Spread, Stage, first};
use frame::{ACK, CE, CWR, ECE, ECT, Frame, NONE};
use link::{Condition, Link, Taken};
use paths::{Paths, Ways};
use rdma::Roce;
use round_trips::RoundTrips;
use samples::{Sample, Samples};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use switching::{Switching, SwitchingConfig};
use syncline_core::random::RandomStream;
use syncline_core::table::{Declaration, Table};
use syncline_core::{Books, Bytes, Key, NodeId, PortId, Ps, Rate, Schedule, Slab, Wait, Wire, id_type};
use syncline_topology::{Fabric, all_links};
use tcp::receiver::{Answer, Blocks};
use tcp::sender::{Ack, Counts};
use timeline::Timeline;
use writes::{AllWrites, NO_END, Writes};

/// The flags of data: by whether the network may mark it, and by whether its sender has reduced its window.
const ECT_CWR: [[u8; 2]; 2] = [[0, CWR], [ECT, ECT | CWR]];

/// Events that are handled before the driver is asked again.
const AT_A_TIME: u32 = 1 << 16;

id_type!(
    /// The SACK blocks of an acknowledgement that is under way.
    BlocksId
);

/// The driver's call to go on.
#[derive(Clone, Copy, Debug)]
pub struct Event;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The retransmission timer of a connection.
    Retransmission,
    /// An acknowledgement that waits.
    Acknowledgement,
    /// A change of a link, by its place in the list.
    Change,
}

/// The Ethernet backend on a fabric.
#[derive(Debug)]
pub struct Ethernet<F> {
    fabric: F,
    config: EthernetConfig,
    links: Vec<Link>,
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
    paths: Paths,
    /// The sending and the receiving ends of connections.
    lines: Vec<Line>,
    listeners: Vec<Listener>,
    stages: Vec<Stage>,
    known: BTreeMap<Connection, u32>,
    ways: Vec<Ways>,
    sources: Vec<NodeId>,
    writes: AllWrites,
    /// By connection.
    messages: Vec<Writes>,
    blocks: Slab<BlocksId, Blocks>,
    /// Messages that their senders have not fed completely.
    unfed: Messages<()>,
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
        let link = |(node, port): (NodeId, PortId)| {
            let limit = if is_switch(node) { buffer(node) } else { config.nic_buffer };
            let random = RandomStream::new(config.seed, &[node.0.into(), port.0.into()]);
            let spec = fabric.link(node, port);
            Link::new(spec.rate, spec.latency, limit, sizes, config.marking, random)
        };
        let first_switch_link = match fabric.npus() < fabric.nodes() {
            true => fabric.first_link(NodeId(fabric.npus())),
            false => fabric.links(),
        };
        Ethernet {
            links: all_links(&fabric).map(link).collect(),
            clock: Tournament::new(fabric.links().max(1)),
            switching,
            roce: config.roce.map(|roce| Box::new(Roce::new(roce))),
            deadlock: Vec::new(),
            timers: BinaryHeap::new(),
            changes: Vec::new(),
            paths: Paths::default(),
            lines: Vec::new(),
            listeners: Vec::new(),
            stages: Vec::new(),
            known: BTreeMap::new(),
            ways: Vec::new(),
            sources: Vec::new(),
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
            timeline: Timeline::new(config.window.0.max(1)),
            dropped_payload: 0,
            active_at: 0,
            stalled: 0,
            ended: Ps::ZERO,
            usage: LinkUsage::new(&fabric, config.window),
            hops: 0,
            fabric,
            config,
        }
    }

    /// A link becomes another one at some time. Of several changes of a link at one time the last counts.
    pub fn change_at(&mut self, at: Ps, node: NodeId, port: PortId, to: Condition) {
        self.timers.push(Reverse((at.0, self.changes.len() as u32, Timer::Change)));
        self.changes.push((node, port, to));
    }

    fn change(&mut self, now: u64, change: u32) {
        let (node, port, to) = self.changes[change as usize];
        let number = self.fabric.first_link(node) + u32::from(port.0);
        let mut lost = Vec::new();
        let next = self.links[number as usize].change(now, to, |frame| lost.push(frame));
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

    /// The connection of a message, which is opened if it is new.
    fn connection(&mut self, mut key: Connection) -> u32 {
        if self.config.connection_per_pair {
            key.queue = 0;
        }
        if let Some(&number) = self.known.get(&key) {
            return number;
        }
        let number = self.lines.len() as u32;
        let (route, spread) = self.balance(key);
        let ways = self.paths.of(&self.fabric, key.src, route);
        self.known.insert(key, number);
        let parts = self.parts(ways);
        let watched = self.config.watched.contains(&(key.src, ways.end));
        if let [(is_local, ways)] = parts[..] {
            self.open_line(Stage::only(number, is_local), ways);
            self.lines[number as usize].spread = spread;
            self.lines[number as usize].is_watched = watched;
            self.sources.push(key.src);
            return number;
        }
        let last = number + parts.len() as u32 - 1;
        for (at, (is_local, ways)) in (number..).zip(parts) {
            let before = if at == number { NONE } else { at - 1 };
            let after = if at == last { NONE } else { at + 1 };
            self.open_line(Stage { is_local, before, after, owner: number, last }, ways);
            self.lines[at as usize].is_watched = watched && !is_local;
            self.sources.push(key.src);
        }
        number
    }

    /// The parts of a way: within the machine of the sender, between NICs, and within the machine of the receiver.
    fn parts(&self, ways: Ways) -> Vec<(bool, Ways)> {
        let links = self.paths.all(ways.forth);
        let is_local = |link: &u32| self.switching.as_ref().is_some_and(|switching| switching.is_local(*link));
        let remote = |link: &u32| !is_local(link);
        let Some(first) = links.iter().position(remote) else { return vec![(!links.is_empty(), ways)] };
        let last = links.iter().rposition(remote).unwrap_or(first) + 1;
        [(true, 0, first), (false, first, last), (true, last, links.len())]
            .into_iter()
            .filter(|&(_, from, to)| from < to)
            .map(|(is_local, from, to)| (is_local, ways.part(from as u8, to as u8)))
            .collect()
    }

    fn open_line(&mut self, stage: Stage, ways: Ways) {
        let nic = first(self.paths.all(ways.forth));
        let line = Line::new(&self.config.tcp, ways, nic, self.round_trip(ways));
        self.lines.push(line);
        if let Some(roce) = &mut self.roce {
            let line = self.links.get(nic as usize).map_or(Rate::UNLIMITED, Link::rate);
            roce.open(line);
        }
        self.listeners.push(Listener::new(ways, first(self.paths.all(ways.back))));
        self.messages.push(Writes::default());
        self.stages.push(stage);
        self.ways.push(ways);
    }

    /// The way of a connection, of several that are equally good; and all of them, if its frames are spread.
    fn balance(&mut self, key: Connection) -> (Route, Option<Box<Spread>>) {
        let Route::To(dst) = key.route else { return (key.route, None) };
        let ways = self.fabric.routes(key.src, dst);
        if ways <= 1 {
            return (key.route, None);
        }
        let random = RandomStream::new(self.config.seed, &[key.src.0.into(), dst.0.into(), key.queue.into()]);
        let hashed = Route::By(dst, random.below(0, ways.into()) as u16);
        if self.config.balancing == Balancing::PerConnection {
            return (hashed, None);
        }
        let all = (0..ways).map(|way| {
            let forth = self.paths.of(&self.fabric, key.src, Route::By(dst, way)).forth;
            (forth, first(self.paths.all(forth)))
        });
        let all = all.collect();
        (hashed, Some(Box::new(Spread::new(all, random))))
    }

    /// How long a full segment and its acknowledgement take when nothing else is under way.
    fn round_trip(&self, ways: Ways) -> Ps {
        let (full, bare) = (self.config.segment() + self.config.overhead, self.config.overhead);
        let time = |path, size: u32| -> u64 {
            self.paths.all(path).iter().map(|&link| self.links[link as usize].alone(size as u16)).sum()
        };
        Ps(time(ways.forth, full) + time(ways.back, bare))
    }

    /// How long a message of a connection takes when nothing else is under way and no window limits it: its frames one after
    /// the other at the slowest link, and one of them on all others.
    fn alone(&self, owner: u32, len: u64) -> u64 {
        let segment = u64::from(self.config.segment());
        let mut slowest = 0;
        let mut sum = 0;
        for number in owner..=self.stages[owner as usize].last {
            let overhead = if self.stages[number as usize].is_local { 0 } else { u64::from(self.config.overhead) };
            let (frames, last) = (len.max(1).div_ceil(segment), (len.max(1) - 1) % segment + 1);
            for &link in self.paths.all(self.ways[number as usize].forth) {
                let link = &self.links[link as usize];
                sum += link.alone((last + overhead) as u16);
                let bytes = (frames - 1) * (segment + overhead);
                slowest = slowest.max(link.rate().time(Bytes(bytes)).0);
            }
        }
        sum + slowest
    }

    /// A message whose bytes are all there.
    fn launch<Q: Schedule<Event>>(&mut self, now: Ps, message: Message, q: &mut Q) {
        self.catch_up(now.0);
        self.books.accepted += message.len.0;
        let number = self.connection(message.connection());
        let at = number as usize;
        let line = &mut self.lines[at];
        if line.nic == NONE {
            // It stays at its node.
            self.books.delivered += message.len.0;
            if let Some(receipt) = message.receipt {
                self.report(now.0, NetOut::Left { at: message.src, receipt });
            }
            self.report(now.0, arrived(&message, self.ways[at], now));
        } else {
            // An empty message is a byte of the connection, which is not payload.
            let len = message.len.0.max(1);
            let stage = self.stages[at];
            line.began_at = line.began_at.min(now.0);
            let end = match &mut self.roce {
                _ if stage.is_local => {
                    line.sender.written += len;
                    line.sender.written
                }
                Some(roce) => roce.senders[at].post(len),
                None => line.sender.write(now, len, &self.config.tcp),
            };
            self.writes.append(&mut self.messages[at], message, end, now.0);
            line.left_at = line.left_at.min(end);
            let listener = &mut self.listeners[stage.last as usize];
            listener.boundary = listener.boundary.min(end);
            self.pump(now.0, number);
        }
        let next = if self.outbox.is_empty() { self.next_time() } else { now.0 };
        self.call_at(next, q);
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
            q.at(Ps(time), Key::new(class::ARRIVAL, 0), Event);
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
        while let Some(segment) = line.sender.next(Ps(now), config, &mut self.counts) {
            let flags = ECT_CWR[usize::from(config.ecn)][usize::from(segment.reduced)];
            line.resent += u32::from(segment.again);
            let frame = line.frame(number, segment.seq, segment.len, self.config.overhead, flags);
            let (nic, usage) = (line.sent_by, &mut self.usage);
            match self.links[nic as usize].offer(now, frame, |busy, to| usage.add_frames(nic, busy, to)) {
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
        let (deadline, left) = match &self.roce {
            _ if self.stages[number as usize].is_local => (NEVER, line.sender.nxt),
            Some(roce) => (roce.senders[number as usize].deadline.0, roce.senders[number as usize].sent),
            None => (line.sender.deadline.0, line.sender.buffered),
        };
        if deadline < line.armed {
            line.armed = deadline;
            self.timers.push(Reverse((line.armed, number, Timer::Retransmission)));
        }
        if left >= line.left_at {
            self.leave(now, number, left);
        }
    }

    /// Messages up to a byte are in the socket buffer, or were sent by a queue pair: their senders can use their memory again.
    #[cold]
    #[inline(never)]
    fn leave(&mut self, now: u64, number: u32, left: u64) {
        let at = number as usize;
        while left >= self.writes.next_to_leave(&self.messages[at]) {
            let Some(message) = self.writes.leave(&mut self.messages[at]) else { break };
            if let Some(receipt) = message.receipt {
                self.report(now, NetOut::Left { at: message.src, receipt });
            }
        }
        self.lines[at].left_at = self.writes.next_to_leave(&self.messages[at]);
    }

    /// The next frame of a link has arrived at its other end.
    #[inline(always)]
    fn arrive(&mut self, now: u64, number: u32) {
        self.hops += 1;
        let link = &mut self.links[number as usize];
        let (mut frame, next) = link.arrive();
        let is_lost = link.loses(frame);
        self.clock.set(number, next);
        if is_lost {
            return self.lost(now, number, frame);
        }
        if self.switching.is_some() {
            return self.arrive_served(now, number, frame);
        }
        if frame.hops == 0 {
            return if frame.is(ACK) { self.acknowledged(now, frame) } else { self.received(now, frame) };
        }
        let out = self.paths.link(frame.place);
        frame.place += 1;
        frame.hops -= 1;
        self.take(now, out, frame);
    }

    /// A frame takes a link, if there is room.
    #[inline(always)]
    fn take(&mut self, now: u64, link: u32, frame: Frame) {
        let usage = &mut self.usage;
        match self.links[link as usize].offer(now, frame, |busy, to| usage.add_frames(link, busy, to)) {
            Taken::Behind => {}
            Taken::Alone(time) => self.clock.set(link, time),
            Taken::Dropped => return self.dropped(now, frame),
        }
        if link >= self.first_switch_link {
            let window = self.timeline.at(now);
            window.peak = window.peak.max(self.links[link as usize].held());
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

    #[cold]
    #[inline(never)]
    fn dropped(&mut self, now: u64, frame: Frame) {
        self.timeline.at(now).drops += 1;
        if Self::is_bare(frame) {
            if frame.blocks != NONE {
                self.blocks.remove(BlocksId(frame.blocks));
            }
        } else {
            self.dropped_payload += u64::from(frame.wire) - u64::from(self.config.overhead);
        }
    }

    /// A host has got a segment.
    #[inline(always)]
    fn received(&mut self, now: u64, frame: Frame) {
        let listener = &mut self.listeners[frame.connection as usize];
        let len = u32::from(frame.wire) - self.config.overhead;
        if self.config.tcp.ecn {
            listener.hear(frame.is(CE), frame.is(CWR), self.config.tcp.control);
        }
        let answer = listener.receiver.take(Ps(now), frame.seq, len, &self.config.tcp);
        let is_complete = listener.receiver.next >= listener.boundary;
        match answer {
            Answer::Now => self.answer(now, frame.connection),
            Answer::Later => {
                let deadline = listener.receiver.deadline.0;
                if deadline < listener.armed {
                    listener.armed = deadline;
                    self.timers.push(Reverse((deadline, frame.connection, Timer::Acknowledgement)));
                }
            }
        }
        if is_complete && !self.stages[frame.connection as usize].is_part() {
            self.complete(now, frame.connection);
        }
    }

    /// Sends an acknowledgement.
    #[inline(always)]
    fn answer(&mut self, now: u64, connection: u32) {
        let listener = &mut self.listeners[connection as usize];
        listener.receiver.answered();
        let mut frame = Frame {
            seq: listener.receiver.next,
            connection,
            place: listener.back.place + 1,
            blocks: NONE,
            wire: self.config.overhead as u16,
            hops: listener.back.links - 1,
            flags: if listener.receiver.marked { ACK | ECE } else { ACK },
        };
        if self.config.tcp.sack
            && let Some(blocks) = listener.receiver.blocks()
        {
            frame.wire += (BLOCK_BYTES as usize * blocks.all().len()) as u16;
            frame.blocks = self.blocks.insert(blocks).0;
        }
        let nic = listener.nic;
        self.emit(now, nic, frame);
    }

    /// Messages are complete.
    #[cold]
    #[inline(never)]
    fn complete(&mut self, now: u64, connection: u32) {
        let (at, owner) = (connection as usize, self.stages[connection as usize].owner as usize);
        while self.listeners[at].receiver.next >= self.writes.next_end(&self.messages[owner]) {
            let Some((message, written)) = self.writes.arrive(&mut self.messages[owner]) else { break };
            self.books.delivered += message.len.0;
            self.completions.add(Ps(now - written));
            let alone = u128::from(self.alone(owner as u32, message.len.0)).max(1);
            self.slowdowns.add(Ps(u64::try_from(u128::from(now - written) * 1000 / alone).unwrap_or(u64::MAX)));
            self.report(now, arrived(&message, self.ways[at], Ps(now)));
        }
        self.listeners[at].ended_at = now;
        self.listeners[at].boundary = self.writes.next_end(&self.messages[owner]);
    }

    /// A host has got an acknowledgement.
    #[inline(always)]
    fn acknowledged(&mut self, now: u64, frame: Frame) {
        let line = &mut self.lines[frame.connection as usize];
        let (config, counts) = (&self.config.tcp, &mut self.counts);
        let mut ack = Ack { next: frame.seq, blocks: &[], marked: frame.is(ECE) };
        let trip = if frame.blocks == NONE {
            line.sender.acknowledge(Ps(now), ack, config, counts)
        } else {
            let id = BlocksId(frame.blocks);
            ack.blocks = self.blocks[id].all();
            let trip = line.sender.acknowledge(Ps(now), ack, config, counts);
            self.blocks.remove(id);
            trip
        };
        if let Some(trip) = trip {
            self.trips.add(trip);
        }
        if line.is_watched {
            self.sample(now, frame.connection, trip);
        }
        self.pump(now, frame.connection);
    }

    /// The state of a connection that is watched.
    #[cold]
    #[inline(never)]
    fn sample(&mut self, at: u64, number: u32, trip: Option<Ps>) {
        let trip = trip.map(|trip| trip.0);
        let sample = match &mut self.roce {
            Some(roce) => {
                let sender = &mut roce.senders[number as usize];
                let (rate, flight) = (sender.rate(at, &roce.config), sender.sent - sender.una);
                Sample { at, cwnd: None, ssthresh: None, rate, trip, flight }
            }
            None => {
                let sender = &self.lines[number as usize].sender;
                let ssthresh = Some(sender.window.ssthresh).filter(|&size| size < u64::MAX);
                let flight = sender.nxt - sender.una;
                Sample { at, cwnd: Some(sender.window.cwnd), ssthresh, rate: None, trip, flight }
            }
        };
        self.samples.entry(number).or_insert_with(Samples::new).add(sample);
    }

    /// The earliest timer fires.
    #[cold]
    #[inline(never)]
    fn fire(&mut self, now: u64) {
        let Some(Reverse((time, number, timer))) = self.timers.pop() else { return };
        match timer {
            Timer::Retransmission => self.expire(now, time, number),
            Timer::Change => self.change(now, number),
            Timer::Acknowledgement => {
                let listener = &mut self.listeners[number as usize];
                if listener.armed == time {
                    listener.armed = NEVER;
                    match listener.receiver.deadline.0 {
                        NEVER => {}
                        deadline if deadline <= now => self.answer(now, number),
                        deadline => {
                            listener.armed = deadline;
                            self.timers.push(Reverse((deadline, number, timer)));
                        }
                    }
                }
            }
        }
    }

    /// The retransmission timer of a connection fires, as it was set at some time.
    fn expire(&mut self, now: u64, time: u64, number: u32) {
        let line = &mut self.lines[number as usize];
        if line.armed != time {
            return; // an earlier one was set since
        }
        line.armed = NEVER;
        if !self.deadlock.is_empty() {
            return;
        }
        let deadline = match &self.roce {
            Some(roce) => roce.senders[number as usize].deadline.0,
            None => line.sender.deadline.0,
        };
        if deadline > now {
            // It was set anew; off if that is never.
            line.armed = deadline;
            if line.armed != NEVER {
                self.timers.push(Reverse((line.armed, number, Timer::Retransmission)));
            }
            return;
        }
        let (goes_on, tries) = match &mut self.roce {
            Some(roce) => {
                let sender = &mut roce.senders[number as usize];
                (sender.expire(now, &roce.config, &mut self.counts), sender.tries())
            }
            None => (line.sender.expire(Ps(now), &self.config.tcp, &mut self.counts), line.sender.tries()),
        };
        self.timeline.at(now).timeouts += u64::from(goes_on);
        self.lines[number as usize].timeouts += u32::from(goes_on);
        self.look_for_deadlock();
        if self.clock.first().0 == NEVER {
            self.stalled += now - self.active_at;
            self.active_at = now;
        }
        if goes_on {
            self.pump(now, number);
        } else {
            match &mut self.roce {
                Some(roce) => roce.senders[number as usize].deadline = Ps::MAX,
                None => self.lines[number as usize].sender.deadline = Ps::MAX,
            }
            let Stage { owner, last, .. } = self.stages[number as usize];
            // Whatever of it is still under way counts for nothing.
            self.listeners[last as usize].boundary = NO_END;
            for message in self.writes.give_up(&mut self.messages[owner as usize]) {
                self.books.failed += message.len.0;
                let why = crate::Loss::Unanswered { tries: tries + 1 };
                self.report(now, NetOut::Failed { at: message.src, tag: message.tag, why });
            }
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

fn arrived(message: &Message, ways: Ways, now: Ps) -> NetOut {
    let segment = Segment { len: message.len, t0: now, gap: Ps::ZERO, packets: 1 };
    NetOut::Arrived { at: ways.end, port: ways.by, tag: message.tag, segment, last: true }
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

    fn handle<Q: Schedule<Event>>(&mut self, now: Ps, _: Event, q: &mut Q, out: &mut Vec<NetOut>) {
        if now.0 < self.wake {
            return; // an earlier call has made this one needless
        }
        self.wake = NEVER;
        let mut next = self.run(now.0, q.next_time().0);
        if self.outbox_at <= now.0 && !self.outbox.is_empty() {
            out.append(&mut self.outbox);
            next = self.next_time();
        }
        if next != NEVER {
            self.call_at(next, q);
        }
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits: Vec<Wait> =
            self.unfed.unfed().map(|m| wait_text::unfed(&self.fabric, &m.message, m.fed())).collect();
        waits.extend(self.pauses());
        for (at, writes) in self.messages.iter().enumerate() {
            if let Some(write) = self.writes.waiting(writes).next() {
                let una = self.roce.as_ref().map_or(self.lines[at].sender.una, |roce| roce.senders[at].una);
                let stage = self.stages[at];
                let what = if stage.is_local || stage.is_part() {
                    let next = self.listeners[stage.last as usize].receiver.next;
                    format!("byte {next} of its connection to arrive")
                } else {
                    format!("an acknowledgement of byte {una} of its connection")
                };
                waits.push(Wait { who: wait_text::message(&self.fabric, &write.message), what });
            }
        }
        waits
    }

    fn books(&self) -> Books {
        self.books
    }

    fn wire(&self) -> Wire {
        Wire {
            sent: self.books.accepted + self.counts.resent_bytes,
            dropped: self.dropped_payload,
            resent: self.counts.resent_bytes,
        }
    }

    fn further_work(&self) -> u64 {
        self.hops
    }

    fn usage(&self) -> &LinkUsage {
        &self.usage
    }

    fn finish(&mut self, now: Ps) {
        self.ended = now;
        for number in 0..self.links.len() {
            if let Some((busy, to)) = self.links[number].rest() {
                self.usage.add_frames(number as u32, busy, to.min(now.0));
            }
        }
    }

    fn counters(&self) -> Vec<Table> {
        tables::fill(self)
    }
}
