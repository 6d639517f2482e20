//! The flow backend: messages as fluid, links shared max-min fairly.
//!
//! # The model
//! * A *connection* is what a node sends to one place with the same [`Message::queue`]: out of one of its ports to the
//!   neighbour there, or along a route to a node. Its messages go one after the other, in the order in which they were sent, or in which the last of
//!   their bytes was fed. A queue pair of a NIC, a DMA engine and the port of an engine between neighbours do that.
//! * The message whose turn it is is a *flow*: it holds all links of its route at once and drains at one rate, that of
//!   its connection's max-min fair share ([`syncline_core::share`]), however many messages wait behind it. All shares are
//!   found anew whenever connections fall busy or idle, once for each point in time, after everything else that
//!   happens then.
//! * Its last byte arrives the sum of the latencies after it has drained. So alone it takes
//!   `S / r_min + sum of latencies` (the first term rounded up to 1 ps), which is what the analytical
//!   backend says; the packet backend adds a packet's time for every further hop.
//! * A message of no bytes takes the latencies, behind those before it on its connection; a message to the node itself
//!   takes no time and is reported on port 0. Links of [`Rate::UNLIMITED`] limit nothing.
//! * A route that takes a link twice has half of it: on a folded fabric a link stands for several.
//!
//! Work that remains is counted exactly, in fixed point, so that times do not drift as rates change. A flow
//! drains at a whole picosecond, the first one by which all is done; what it did not need of that is for the next message.
//! Shares are rounded down by less than `1 / Share::PER_UNIT` B/s, which at 1 GB/s makes up a picosecond in 6000 s.
//!
//! # What is shared, and what queues
//! *Between connections links are shared fairly*, those of one sender included: the queue pairs of a NIC take turns,
//! packet by packet, so that no message stands behind one that goes elsewhere and is held up there. An all-to-all
//! through one port of a switch is that case. *What goes to the same place queues*: it would gain nothing from sharing,
//! and the first of its messages would come as late as the last. Chunks of a collective that follow one another around
//! a ring are that case: shared, all of them would finish a dimension at the end, and the next one would lie idle until then.
//! The packet backend does the same, but for engines whose ports are first come, first served wherever messages go.
//!
//! # Classes
//! Links are shared out class by class ([`TrafficClass::precedence`]), from the largest to the smallest: a class shares max-min
//! fairly what larger ones leave of each link. A message that finds nothing left stands still, and goes on when rates are
//! found anew; the largest class always moves, so that this happens. A flow whose narrowest link lies further on leaves some
//! of its first links to smaller classes.
//!
//! # What senders are told
//! A port's backlog is what its connections have left; bytes of a message that is not complete do not count.
//! [`Room::At`] takes for granted that rates stay as they are, or, for what has just been sent, that the
//! link is all there is: whoever is told a time asks again then. It is late only if rates rise meanwhile. With several
//! classes they may rise a lot, so a time after the next change of rates is [`Room::Unknown`] until then, and so is that of a
//! port that stands still.
//!
//! # Order
//! Messages that reach one port at the same time are reported in the order of `arrivals`. What is equal
//! there is told apart by nothing that the destination hears of. So results depend neither on the order
//! of simultaneous events nor on node numbers.
//!
//! # Usage
//! A link that moves `b` bytes is busy for `b / rate` ([`LinkUsage`]), spread evenly over the time
//! between two changes of its flows. Of a run that is cut short, it has what was moved until then.
//!
//! # How far it is from packets
//! Where neighbours send to each other the two agree to a packet's time. Over several hops they differ where a fluid is
//! no picture of queues: random loads take 0.85 to 1.9 times as long with packets, in the median as long (a test holds
//! these bounds). The reasons:
//! * Order. Packets that meet go one after the other, so the links further on fall idle while it is not their turn.
//! * Waiting for others. A packet behind the head of an input queue waits even if its own output is
//!   idle, and a buffer that is full of packets for one output keeps out those for another.
//!
//! # How it is computed
//! A *bundle* is a connection that has messages. It is enough to know what it has been given since it fell busy: a message
//! has drained when that is what the messages up to this one need. So a message that finds its connection busy costs
//! nothing but its place in line. A tree of minima holds the next drain of every bundle, and one timer the first of all.
//!
//! Finding rates costs time in proportion to the connections that share links, directly or through others, with
//! one that comes or goes, except those that are slower than all that come and go. So loads are cheap whose
//! flows end together or are apart: a million equal flows, all to all on one switch, are two changes. Dear
//! are flows that are all connected and all different.
//!
//! | module | |
//! |---|---|
//! | `bundle` | connections |
//! | `deadlines` | the first drain of all |
//! | `port` | what a sender's port still has to send |
//! | `meter` | how busy links are |
//!
//! # Left out
//! Packets: a long message holds up a short one on its own connection only, and nothing waits for the head of a queue.
//! Finite buffers: nothing pushes back on a sender but its share. The time that rates take to settle
//! (round trips of a transport). A flow holds the last link from the start, though its first byte is not
//! there yet, and leaves the first link at once with the last.

mod bundle;
mod deadlines;
mod meter;
mod port;

use crate::api::{
    Connection, LINKS_OF_AN_EVENT, Message, MsgId, NetOut, Network, Room, Route, Segment, TrafficClass, class,
};
use crate::arrivals::{self, Arrivals, Due};
use crate::messages::{InFlight, Messages};
use crate::receipts::Receipts;
use crate::usage::LinkUsage;
use crate::wait_text;
use bundle::Bundles;
use deadlines::Deadlines;
use meter::Meter;
use port::Port;
use syncline_core::share::{GroupId, Pool, ResourceId, Share, Work};
use syncline_core::{Alarm, Books, Bytes, Key, NodeId, PortId, Ps, Rate, Resolution, Schedule, Wait};
use syncline_topology::{Fabric, all_links};

/// Uses of links that are solved, or passed over, in the time of an event.
const USES_OF_AN_EVENT: u64 = 8;

/// A timer of the flow backend.
#[derive(Clone, Copy, Debug)]
pub struct Event(Timer);

/// Events are copied through the queue; a driver's own event should still fit 8 bytes.
const _: () = assert!(size_of::<Event>() <= 8);

#[derive(Clone, Copy, Debug)]
enum Timer {
    /// Messages are complete at this port.
    Arrive(arrivals::Slot),
    /// Connections fall busy or idle.
    Share,
    /// A message that takes no time has left this node.
    Left(NodeId),
}

/// The way of a message; known once all its bytes are there.
#[derive(Clone, Copy, Debug)]
struct Journey {
    /// It takes no link.
    stays: bool,
    /// When it started, and how many messages its source had started before.
    sent: Ps,
    order: u32,
    dst: NodeId,
    dst_port: PortId,
}

/// The flow backend on a fabric.
#[derive(Debug)]
pub struct Flow<F> {
    fabric: F,
    messages: Messages<Journey>,
    /// Messages that each node has started.
    started: Vec<u32>,
    pool: Pool,
    bundles: Bundles,
    deadlines: Deadlines,
    /// Bundles that are new or have another message to send since rates were found.
    stale: Vec<GroupId>,
    /// Bundles of which a flow has drained.
    due: Vec<u32>,
    ports: Vec<Port>,
    arrivals: Arrivals,
    /// Senders that want to know, of messages that take no time and of those that drain now.
    receipts: Receipts,
    left: Vec<(u64, NodeId)>,
    meter: Meter,
    /// When rates are found anew.
    next: Alarm,
    /// Whether there were connections of several classes when they last were, and senders that wait for the next time.
    mixed: bool,
    asked: Vec<(NodeId, PortId)>,
    recomputations: u64,
    books: Books,
    path: Vec<PortId>,
    /// Links of all routes.
    crossed: u64,
    uses: Vec<ResourceId>,
}

impl<F: Fabric> Flow<F> {
    /// A backend for `fabric` that collects link usage in windows of `window`.
    pub fn new(fabric: F, window: impl Into<Resolution>) -> Self {
        let capacity = |(node, port)| Share::of(fabric.link(node, port).rate);
        let capacities: Vec<Share> = all_links(&fabric).map(capacity).collect();
        Flow {
            messages: Messages::new(),
            started: vec![0; fabric.nodes() as usize],
            pool: Pool::new(capacities.iter().copied()),
            bundles: Bundles::new(fabric.links()),
            deadlines: Deadlines::default(),
            stale: Vec::new(),
            due: Vec::new(),
            ports: vec![Port::default(); capacities.len()],
            arrivals: Arrivals::new(fabric.links(), fabric.nodes()),
            receipts: Receipts::default(),
            left: Vec::new(),
            meter: Meter::new(capacities, LinkUsage::new(&fabric, window)),
            next: Alarm::default(),
            mixed: false,
            asked: Vec::new(),
            recomputations: 0,
            books: Books::default(),
            path: Vec::new(),
            crossed: 0,
            uses: Vec::new(),
            fabric,
        }
    }

    /// How often rates have been found anew.
    pub fn recomputations(&self) -> u64 {
        self.recomputations
    }

    /// All bytes of a message are there.
    fn launch(&mut self, now: Ps, id: MsgId, q: &mut impl Schedule<Event>) {
        let Message { src, route, len, .. } = self.messages[id].message;
        self.path.clear();
        route.append(&self.fabric, src, &mut self.path);
        self.crossed += self.path.len() as u64;
        self.uses.clear();
        let (mut at, mut arrives_by, mut latency) = (src, PortId(0), Ps::ZERO);
        for &port in &self.path {
            let (link, number) = (self.fabric.link(at, port), self.fabric.first_link(at) + u32::from(port.0));
            latency += link.latency;
            self.meter.message(number, len);
            if link.rate != Rate::UNLIMITED {
                self.uses.push(ResourceId(number));
            }
            (at, arrives_by) = self.fabric.next(at, port);
        }
        let order = self.started[src.index()];
        self.started[src.index()] = order.checked_add(1).expect("a node sends fewer than 2^32 messages");
        let stays = self.path.is_empty();
        self.messages[id].way = Journey { stays, sent: now, order, dst: at, dst_port: arrives_by };
        let first = self.fabric.first_link(src) + self.path.first().map_or(0, |port| u32::from(port.0));
        let mut connection = self.messages[id].message.connection();
        if let Route::By(dst, 0) = route {
            connection.route = Route::To(dst); // the same way
        }
        // A message of no bytes waits for those before it on its connection, and for nobody else.
        if self.uses.is_empty() || len == Bytes::ZERO && self.bundles.find(connection, first).is_none() {
            if let Some(receipt) = self.messages[id].message.receipt {
                self.receipts.add(src.0, src, receipt);
                q.at(now, Key::new(class::LEFT, 0), Event(Timer::Left(src)));
            }
            return self.on_its_way(now + latency, id, q);
        }
        self.queue(now, id, connection, first, latency, q);
    }

    /// A message stands in line on its connection; one that is new has no rate until rates are found anew.
    fn queue(
        &mut self,
        now: Ps,
        id: MsgId,
        connection: Connection,
        first_link: u32,
        latency: Ps,
        q: &mut impl Schedule<Event>,
    ) {
        let work = Work::of(self.messages[id].message.len);
        let bundle = self.bundles.find(connection, first_link).unwrap_or_else(|| {
            let class = self.messages[id].message.class.precedence();
            let bundle = self.pool.add_of_class(&self.uses, Share::UNLIMITED, class);
            self.bundles.open(bundle, connection, first_link, latency);
            self.stale.push(bundle);
            self.share_at(now, q);
            bundle
        });
        debug_assert_eq!(
            self.pool.class(bundle),
            self.messages[id].message.class.precedence(),
            "messages of a connection have equal precedence"
        );
        let added = self.bundles[bundle].queue(now, id, work);
        self.ports[first_link as usize].start(now, added);
    }

    /// Asks for rates to be found anew at `time`, unless that happens earlier anyway.
    fn share_at(&mut self, time: Ps, q: &mut impl Schedule<Event>) {
        if self.next.set_earlier(time) {
            q.at(time, Key::new(class::SHARE, 0), Event(Timer::Share));
        }
    }

    /// Messages that have drained go, and connections get their rates.
    fn share(&mut self, now: Ps, q: &mut impl Schedule<Event>, out: &mut Vec<NetOut>) {
        self.drain(now, q, out);
        self.pool.recompute();
        self.recomputations += 1;
        self.mixed = self.pool.is_mixed();
        for &link in self.pool.solved() {
            self.meter.set(link.0, now, self.pool.used(link));
        }
        for group in self.pool.changed().iter().copied().chain(self.stale.drain(..)) {
            let bundle = &mut self.bundles[group];
            if !bundle.is_empty() {
                bundle.set_rate(now, self.pool.share(group));
                self.ports[bundle.first_link as usize].change(now, bundle);
                self.deadlines.set(group.index(), bundle.drains_at());
            }
        }
        self.share_at(self.deadlines.first(), q);
        self.tell_of_room(out);
    }

    /// Senders that could not be told when their port has room ask again, now that rates are known.
    fn tell_of_room(&mut self, out: &mut Vec<NetOut>) {
        self.asked.sort_unstable();
        for (at, port) in self.asked.drain(..) {
            self.ports[self.fabric.first_link(at) as usize + port.index()].asked = false;
            out.push(NetOut::Room { at, port });
        }
    }

    /// Takes out the messages that have drained by now.
    fn drain(&mut self, now: Ps, q: &mut impl Schedule<Event>, out: &mut Vec<NetOut>) {
        let mut due = std::mem::take(&mut self.due);
        self.deadlines.until(now, &mut due);
        for group in due.drain(..).map(GroupId) {
            let (first_link, latency) = (self.bundles[group].first_link as usize, self.bundles[group].latency);
            self.bundles[group].advance(now);
            while let Some(id) = self.bundles[group].take_drained() {
                let Message { src: at, receipt, .. } = self.messages[id].message;
                self.left.extend(receipt.map(|receipt| (receipt, at)));
                self.on_its_way(now + latency, id, q);
            }
            let bundle = &mut self.bundles[group];
            if bundle.is_empty() {
                self.ports[first_link].drained(bundle.excess());
                bundle.set_rate(now, Share::ZERO);
                self.ports[first_link].change(now, bundle);
                self.pool.leave(group);
                self.deadlines.set(group.index(), Ps::MAX);
                self.bundles.close(group);
            } else {
                self.stale.push(group);
            }
        }
        self.due = due;
        // A sender hears of what left at once in an order of its own, not in that of the bundles.
        self.left.sort_unstable();
        out.extend(self.left.drain(..).map(|(receipt, at)| NetOut::Left { at, receipt }));
    }

    /// The last byte of a message has left its port and will be there at `time`.
    fn on_its_way(&mut self, time: Ps, id: MsgId, q: &mut impl Schedule<Event>) {
        let InFlight { message: Message { len, tag, .. }, way, .. } = self.messages[id];
        let Journey { stays, sent, order, dst, dst_port } = way;
        let slot = if stays {
            self.arrivals.at_home(dst)
        } else {
            self.arrivals.behind(self.fabric.first_link(dst) + u32::from(dst_port.0))
        };
        if self.arrivals.push(slot, Due { time, sent, order, tag, len, id }) {
            q.at(time, Key::new(class::ARRIVAL, u32::from(dst_port.0)), Event(Timer::Arrive(slot)));
        }
    }
}

impl<F: Fabric> Network for Flow<F> {
    type Event = Event;

    fn open(&mut self, message: Message) -> MsgId {
        let way = Journey { stays: false, sent: Ps::MAX, order: 0, dst: message.src, dst_port: PortId(0) };
        self.messages.add(message, way)
    }

    fn feed<Q: Schedule<Event>>(&mut self, now: Ps, id: MsgId, len: Bytes, q: &mut Q) {
        let complete = self.messages.feed(id, len);
        self.books.accepted += len.0;
        if complete {
            self.launch(now, id, q);
        }
    }

    fn send<Q: Schedule<Event>>(&mut self, now: Ps, message: Message, q: &mut Q) {
        let id = self.open(message);
        self.feed(now, id, message.len, q);
    }

    fn room(&mut self, now: Ps, at: NodeId, port: PortId, _: TrafficClass, capacity: Bytes) -> Room {
        let whole = Share::of(self.fabric.link(at, port).rate);
        let state = &mut self.ports[self.fabric.first_link(at) as usize + port.index()];
        match state.room(now, Work::of(capacity), whole) {
            // Where there are classes, a rate may rise from nothing to everything when a larger class has drained.
            Room::At(time) if self.mixed && (time > self.deadlines.first() || state.stands_still(now)) => {
                if !std::mem::replace(&mut state.asked, true) {
                    self.asked.push((at, port));
                }
                Room::Unknown
            }
            room => room,
        }
    }

    fn release<Q: Schedule<Event>>(&mut self, _: Ps, _: NodeId, _: PortId, _: TrafficClass, _: &mut Q) {}

    fn handle<Q: Schedule<Event>>(&mut self, now: Ps, Event(timer): Event, q: &mut Q, out: &mut Vec<NetOut>) {
        match timer {
            Timer::Arrive(slot) => {
                while let Some(Due { id, len, tag, .. }) = self.arrivals.pop(slot, now) {
                    let Journey { dst: at, dst_port: port, .. } = self.messages[id].way;
                    self.books.delivered += len.0;
                    self.messages.remove(id);
                    let segment = Segment { len, t0: now, gap: Ps::ZERO, packets: 1 };
                    out.push(NetOut::Arrived { at, port, tag, segment, last: true });
                }
            }
            Timer::Share if self.next.fires(now) => self.share(now, q, out),
            Timer::Share => {}
            Timer::Left(node) => out.extend(self.receipts.next(node.0)),
        }
    }

    fn waits(&self) -> Vec<Wait> {
        self.messages.unfed().map(|m| wait_text::unfed(&self.fabric, &m.message, m.fed())).collect()
    }

    fn books(&self) -> Books {
        self.books
    }

    fn further_work(&self) -> u64 {
        self.pool.effort() / USES_OF_AN_EVENT + self.crossed / LINKS_OF_AN_EVENT
    }

    fn finish(&mut self, now: Ps) {
        self.meter.finish(now);
        for bundle in self.bundles.open_ones() {
            bundle.advance(now);
            for (id, left) in bundle.left() {
                let Message { src, route, len, .. } = self.messages[id].message;
                let left = left.whole_bytes().min(len);
                self.path.clear();
                route.append(&self.fabric, src, &mut self.path);
                let mut at = src;
                for &port in &self.path {
                    self.meter.not_moved(self.fabric.first_link(at) + u32::from(port.0), left);
                    (at, _) = self.fabric.next(at, port);
                }
            }
        }
    }

    fn usage(&self) -> &LinkUsage {
        self.meter.usage()
    }

    fn record_links(&mut self, links: &[u32], limit: usize) {
        self.meter.record(links, limit);
    }
}
