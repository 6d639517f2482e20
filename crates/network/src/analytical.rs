//! The analytical backend: no packets, no contention inside the network.
//!
//! A message of `S` bytes waits until the sender's port is free, occupies it for `S / r_first`, and
//! arrives after `S / r_min + sum of latencies`, `r_min` the slowest link of its way (design: hop
//! latency plus serialisation at the bottleneck). The sender's port is the one queue that is modelled,
//! so concurrent chunks of a collective share their link instead of each having all of it.
//!
//! Left out: contention on every link but the first, packet overheads, finite buffers.

use crate::api::{LINKS_OF_AN_EVENT, Message, MsgId, NetOut, Network, Room, Route, Segment, TrafficClass, class};
use crate::arrivals::{Arrivals, Due, Slot};
use crate::messages::{InFlight, Messages};
use crate::receipts::Receipts;
use crate::usage::LinkUsage;
use crate::wait_text;
use syncline_core::{Books, Bytes, Key, NodeId, PortId, Ps, Rate, Resolution, Schedule, Wait};
use syncline_topology::Fabric;

/// Where a message arrives, and when it leaves; known once all its bytes are there.
#[derive(Clone, Copy, Debug)]
struct End {
    node: NodeId,
    port: PortId,
    start: Ps,
}

impl End {
    /// Nothing is known yet of a message of this node.
    const fn unknown(src: NodeId) -> End {
        End { node: src, port: PortId(0), start: Ps::ZERO }
    }
}

/// What happens to a message.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The last byte of the next message of a link is on the wire.
    Left(u32),
    /// It is complete at its destination.
    Arrival(MsgId),
    /// Messages that may be several are complete at this port.
    Arrivals(Slot),
}

/// The analytical backend on a fabric.
#[derive(Debug)]
pub struct Analytical<F> {
    fabric: F,
    port_free: Vec<Ps>,
    messages: Messages<End>,
    path: Vec<PortId>,
    /// Links of all routes.
    crossed: u64,
    /// Routed and empty messages on their way, several of which may reach a port at once; made for the
    /// first of them.
    arrivals: Option<Arrivals>,
    /// Messages that have been sent.
    sent: Vec<u32>,
    receipts: Receipts,
    books: Books,
    usage: LinkUsage,
}

impl<F: Fabric> Analytical<F> {
    /// A backend for `fabric` that collects link usage in windows of `window`.
    pub fn new(fabric: F, window: impl Into<Resolution>) -> Self {
        let usage = LinkUsage::new(&fabric, window);
        let port_free = vec![Ps::ZERO; fabric.links() as usize];
        Analytical {
            fabric,
            port_free,
            messages: Messages::new(),
            path: Vec::new(),
            crossed: 0,
            arrivals: None,
            sent: Vec::new(),
            receipts: Receipts::default(),
            books: Books::default(),
            usage,
        }
    }

    fn launch(&mut self, now: Ps, id: MsgId, q: &mut impl Schedule<Event>) {
        let Message { src, route, len, receipt, .. } = self.messages[id].message;
        self.path.clear();
        route.append(&self.fabric, src, &mut self.path);
        self.crossed += self.path.len() as u64;
        self.books.accepted += len.0;
        let (mut start, mut latency, mut bottleneck) = (now, Ps::ZERO, Rate::UNLIMITED);
        let (mut at, mut arrives_by) = (src, PortId(0));
        let mut left = now;
        for (hop, &port) in self.path.iter().enumerate() {
            let (link, number) = (self.fabric.link(at, port), self.fabric.first_link(at) + u32::from(port.0));
            let serialisation = link.rate.time(len);
            if hop == 0 {
                let free = &mut self.port_free[number as usize];
                start = now.max(*free);
                *free = start + serialisation;
                left = *free;
            }
            latency += link.latency;
            bottleneck = bottleneck.min(link.rate);
            self.usage.add(number, len, 1, start, start + serialisation);
            (at, arrives_by) = self.fabric.next(at, port);
        }
        self.messages[id].way = End { node: at, port: arrives_by, start };
        let time = start + bottleneck.time(len) + latency;
        let local = u32::from(arrives_by.0);
        match route {
            // Empty messages take no time to follow one another.
            Route::Port(_) if len > Bytes::ZERO => q.at(time, Key::new(class::ARRIVAL, local), Event::Arrival(id)),
            Route::Port(_) | Route::To(_) | Route::By(..) => self.expect(time, now, id, q),
        }
        if let Some(receipt) = receipt {
            // What stays at its node leaves by no link.
            let port = self.path.first().map_or(0, |p| u32::from(p.0));
            let link = self.path.first().map_or(u32::MAX - src.0, |_| self.fabric.first_link(src) + port);
            self.receipts.add(link, src, receipt);
            q.at(left, Key::new(class::LEFT, port), Event::Left(link));
        }
    }
}

impl<F: Fabric> Analytical<F> {
    /// A message that was sent at `sent` and may not be alone will be complete at `time`.
    fn expect(&mut self, time: Ps, sent: Ps, id: MsgId, q: &mut impl Schedule<Event>) {
        const ROUTED: u32 = 1 << 16; // after messages that came over the last link alone
        let InFlight { message: Message { src, len, tag, .. }, way: End { node: dst, port: dst_port, .. }, .. } =
            self.messages[id];
        let arrivals = self.arrivals.get_or_insert_with(|| Arrivals::new(self.fabric.links(), self.fabric.nodes()));
        self.sent.resize(self.fabric.nodes() as usize, 0);
        let order = self.sent[src.index()];
        self.sent[src.index()] = order.checked_add(1).expect("a node sends fewer than 2^32 messages");
        let slot = match self.path.is_empty() {
            true => arrivals.at_home(dst),
            false => arrivals.behind(self.fabric.first_link(dst) + u32::from(dst_port.0)),
        };
        if arrivals.push(slot, Due { time, sent, order, tag, len, id }) {
            q.at(time, Key::new(class::ARRIVAL, ROUTED | u32::from(dst_port.0)), Event::Arrivals(slot));
        }
    }

    /// A message is complete.
    fn arrived(&mut self, now: Ps, id: MsgId, out: &mut Vec<NetOut>) {
        let InFlight { message: Message { len, tag, .. }, way: End { node: at, port, .. }, .. } = self.messages[id];
        self.books.delivered += len.0;
        self.messages.remove(id);
        let segment = Segment { len, t0: now, gap: Ps::ZERO, packets: 1 };
        out.push(NetOut::Arrived { at, port, tag, segment, last: true });
    }
}

impl<F: Fabric> Network for Analytical<F> {
    type Event = Event;

    fn open(&mut self, message: Message) -> MsgId {
        self.messages.add(message, End::unknown(message.src))
    }

    fn feed<Q: Schedule<Event>>(&mut self, now: Ps, id: MsgId, len: Bytes, q: &mut Q) {
        if self.messages.feed(id, len) {
            self.launch(now, id, q);
        }
    }

    fn send<Q: Schedule<Event>>(&mut self, now: Ps, message: Message, q: &mut Q) {
        let id = self.messages.add_complete(message, End::unknown(message.src));
        self.launch(now, id, q);
    }

    fn room(&mut self, now: Ps, at: NodeId, port: PortId, _: TrafficClass, capacity: Bytes) -> Room {
        let free = self.port_free[self.fabric.first_link(at) as usize + port.index()];
        let held = self.fabric.link(at, port).rate.time(capacity);
        if free <= now + held { Room::Now } else { Room::At(free - held) }
    }

    fn release<Q: Schedule<Event>>(&mut self, _: Ps, _: NodeId, _: PortId, _: TrafficClass, _: &mut Q) {}

    fn handle<Q: Schedule<Event>>(&mut self, now: Ps, event: Event, _: &mut Q, out: &mut Vec<NetOut>) {
        match event {
            Event::Arrival(id) => self.arrived(now, id, out),
            Event::Arrivals(slot) => {
                while let Some(due) = self.arrivals.as_mut().and_then(|a| a.pop(slot, now)) {
                    self.arrived(now, due.id, out);
                }
            }
            Event::Left(link) => out.extend(self.receipts.next(link)),
        }
    }

    /// What is on its way arrives, whatever becomes of the rest: only what a sender owes can be waited for.
    fn waits(&self) -> Vec<Wait> {
        self.messages.unfed().map(|m| wait_text::unfed(&self.fabric, &m.message, m.fed())).collect()
    }

    fn books(&self) -> Books {
        self.books
    }

    fn further_work(&self) -> u64 {
        self.crossed / LINKS_OF_AN_EVENT
    }

    fn finish(&mut self, now: Ps) {
        for &InFlight { message: Message { src, route, len, .. }, way: End { start, .. }, .. } in self.messages.fed() {
            self.path.clear();
            route.append(&self.fabric, src, &mut self.path);
            let mut at = src;
            for &port in &self.path {
                let link = self.fabric.first_link(at) + u32::from(port.0);
                let to = start + self.fabric.link(at, port).rate.time(len);
                self.usage.cut(link, len, start, to, now);
                (at, _) = self.fabric.next(at, port);
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
