//! A network with a transport: packets get lost, and are sent again when no acknowledgement has come in time.
//!
//! It is as small as a backend can be that does so, and uses all that the Network API has for transports: a seed with random
//! numbers of their own for every connection, payload apart from what is sent again, messages that fail, links that change,
//! counters of links and connections in tables of its own, acknowledgements without payload, a sender's port that is
//! held until a packet has left, and connections that take no more than a window of bytes before these are acknowledged.
//! All packets of a message go at once; when the last of them should have been acknowledged, those that were not go again, after twice the time at each
//! try. Messages share their first link only, as in the analytical backend.

use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_core::random::RandomStream;
use syncline_core::table::{Declaration, Declared, Table};
use syncline_core::{Books, Bytes, Key, NodeId, PortId, Ps, Refusal, Schedule, Wait, Wire};
use syncline_network::api::class;
use syncline_network::{
    Connection, LinkUsage, Loss, Message, MsgId, NetOut, Network, Room, Route, Segment, TrafficClass,
};
use syncline_system::networks::{BuildNetwork, LinkChange, NetworkModel, NetworkNeeds, NodeAttribute, UnlistedTimer};
use syncline_topology::{Fabric, LinkSpec, all_links};

syncline_core::table! {
    /// A row for every link that has lost a packet.
    "losses" => Losses {
        /// The node that the link leaves.
        node: Vec<String> as Text,
        /// Its port there.
        port: Vec<String> as Text,
        /// Packets that got lost on the link.
        dropped: Vec<i64> as Count,
        /// Bytes of these packets.
        dropped_bytes: Vec<i64> as Bytes,
    }
}

syncline_core::table! {
    /// A row for every connection on which a message was sent.
    "connections" => Connections {
        /// The node that sends.
        node: Vec<String> as Text,
        /// Number of the connection among those of this node.
        connection: Vec<i64> as Index,
        /// Messages that were sent.
        messages: Vec<i64> as Count,
        /// Bytes that were sent again.
        resent_bytes: Vec<i64> as Bytes,
        /// The most bytes of its messages that were not acknowledged at any time.
        peak_bytes: Vec<i64> as Bytes,
    }
}

/// The attribute of a node that loses more packets, or fewer, than others: of a hundred that reach it by a link so many.
const LOSES_OF_100: &str = "loses_of_100";

/// A network that loses packets.
#[derive(Clone, Copy, Debug)]
pub struct LossySpec {
    /// Payload of a packet, in bytes.
    pub packet: u64,
    /// Of a hundred packets so many get lost.
    pub lost_of_100: u32,
    /// From the last packet to the first time that it is sent again.
    pub timeout: Ps,
    /// A message is given up when a packet of it was lost so many times.
    pub most_tries: u32,
    /// A connection takes no message that would bring what is not acknowledged above so many bytes, unless there is nothing.
    pub window: u64,
}

impl NetworkModel for LossySpec {
    fn link_bytes(&self) -> u64 {
        100
    }

    fn takes_changes(&self) -> bool {
        true
    }

    fn attributes(&self) -> &'static [&'static str] {
        &[LOSES_OF_100]
    }

    fn tables(&self) -> Vec<&'static Declaration> {
        vec![Losses::DECLARATION, Connections::DECLARATION]
    }
}

impl BuildNetwork for LossySpec {
    type Network = Lossy;

    fn check(&self, _: &dyn Fabric, needs: &NetworkNeeds) -> Result<(), Refusal> {
        if let Some(at) = needs.attributes.iter().position(|attribute| attribute.value > 100) {
            let refusal = Refusal::of(&format!("attributes.{at}.value"), "of a hundred packets no more can get lost");
            return Err(refusal.accepting("0 to 100"));
        }
        match self.packet {
            0 => Err(Refusal::of("network.packet", "a packet needs bytes").at_least(1)),
            _ => Ok(()),
        }
    }

    fn build(&self, fabric: Arc<dyn Fabric>, needs: &NetworkNeeds) -> Lossy {
        Lossy {
            usage: LinkUsage::new(&fabric, needs.window),
            links: all_links(&fabric).map(|(node, port)| (fabric.link(node, port), true)).collect(),
            port_free: vec![Ps::ZERO; fabric.links() as usize],
            lost: vec![(0, Bytes::ZERO); fabric.links() as usize],
            loses: loses(&*fabric, self.lost_of_100, &needs.attributes),
            spec: *self,
            seed: needs.seed,
            changes: needs.changes.clone(),
            changed: 0,
            fabric,
            messages: Vec::new(),
            free: Vec::new(),
            connections: BTreeMap::new(),
            books: Books::default(),
            wire: Wire::default(),
        }
    }
}

/// Per node, how many of a hundred packets get lost on the way to it.
fn loses(fabric: &dyn Fabric, usual: u32, attributes: &[NodeAttribute]) -> Vec<u32> {
    let mut loses = vec![usual; fabric.nodes() as usize];
    attributes.iter().for_each(|attribute| loses[attribute.node.index()] = attribute.value as u32);
    loses
}

/// A message on its way.
#[derive(Clone, Debug)]
struct Flight {
    message: Message,
    /// Bytes that the sender has fed.
    fed: u64,
    /// The random numbers of its connection, and how many messages that has sent before.
    stream: RandomStream,
    number: u64,
    path: Vec<PortId>,
    /// Packets that have not arrived.
    missing: Vec<u64>,
    tries: u32,
    dst: NodeId,
    dst_port: PortId,
}

/// What a connection has sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    messages: u64,
    resent: Bytes,
    /// Bytes of messages that are not acknowledged, now and at most.
    held: u64,
    peak: u64,
    /// Whether the sender has something that was not taken.
    is_awaited: bool,
}

/// What happens to a message: its first number in a timer.
const ARRIVAL: u32 = 0;
const TIMEOUT: u32 = 1;
const ACKNOWLEDGED: u32 = 2;

/// The network.
#[derive(Debug)]
pub struct Lossy {
    spec: LossySpec,
    seed: u64,
    loses: Vec<u32>,
    fabric: Arc<dyn Fabric>,
    /// What every link is like now, and whether it is up.
    links: Vec<(LinkSpec, bool)>,
    port_free: Vec<Ps>,
    changes: Vec<LinkChange>,
    /// How many of them have come.
    changed: usize,
    messages: Vec<Flight>,
    free: Vec<MsgId>,
    /// Packets that every link has lost, and their bytes.
    lost: Vec<(u64, Bytes)>,
    connections: BTreeMap<Connection, Sent>,
    books: Books,
    wire: Wire,
    usage: LinkUsage,
}

impl Lossy {
    fn change(&mut self, now: Ps) {
        while let Some(change) = self.changes.get(self.changed).filter(|change| change.at <= now) {
            let link = self.fabric.first_link(change.node) as usize + change.port.index();
            let (spec, up) = &mut self.links[link];
            *up = change.rate.is_some();
            *spec = LinkSpec { rate: change.rate.unwrap_or(spec.rate), latency: change.latency, ..*spec };
            self.changed += 1;
        }
    }

    fn launch(&mut self, now: Ps, id: MsgId, q: &mut impl Schedule<UnlistedTimer>) {
        let flight = &mut self.messages[id.index()];
        let Message { src, route, len, queue, .. } = flight.message;
        let way = match route {
            Route::Port(port) => u64::from(port.0),
            Route::To(dst) => 1 << 32 | u64::from(dst.0),
            Route::By(dst, choice) => (u64::from(choice) + 2) << 32 | u64::from(dst.0),
        };
        flight.stream = RandomStream::new(self.seed, &[src.0.into(), way, queue.into()]);
        let sent = self.connections.entry(flight.message.connection()).or_default();
        flight.number = sent.messages;
        sent.messages += 1;
        sent.held += len.0;
        sent.peak = sent.peak.max(sent.held);
        route.append(&self.fabric, src, &mut flight.path);
        flight.missing = (0..len.0.div_ceil(self.spec.packet).max(1)).collect();
        self.books.accepted += len.0;
        self.send_missing(now, id, q);
    }

    /// Sends what has not arrived, and looks again when it should have been acknowledged.
    fn send_missing(&mut self, now: Ps, id: MsgId, q: &mut impl Schedule<UnlistedTimer>) {
        self.change(now);
        let flight = &mut self.messages[id.index()];
        let Message { src, len, .. } = flight.message;
        let (mut at, mut port, mut latency, mut is_up) = (src, PortId(0), Ps::ZERO, true);
        let (mut links, mut loses) = (Vec::new(), 0);
        for &out in &flight.path {
            let link = self.fabric.first_link(at) as usize + out.index();
            let (spec, up) = self.links[link];
            links.push((link, spec.rate));
            (latency, is_up) = (latency + spec.latency, is_up && up);
            (at, port) = self.fabric.next(at, out);
            loses = loses.max(self.loses[at.index()]);
        }
        (flight.dst, flight.dst_port) = (at, port);
        let slowest = links.iter().map(|l| l.1).min();
        let (mut left, mut arrives) = (now, now);
        let mut lost = Vec::new();
        for &packet in &flight.missing {
            let bytes = Bytes(self.spec.packet.min(len.0 - packet * self.spec.packet));
            if let Some(&(first, rate)) = links.first() {
                let start = now.max(self.port_free[first]);
                left = start + rate.time(bytes);
                self.port_free[first] = left;
                arrives = left + slowest.map_or(Ps::ZERO, |slowest| slowest.time(bytes) - rate.time(bytes)) + latency;
                for &(link, rate) in &links {
                    self.usage.add(link as u32, bytes, 1, start, start + rate.time(bytes));
                }
            }
            self.wire.sent += bytes.0;
            if flight.tries > 0 {
                self.wire.resent += bytes.0;
                self.connections.get_mut(&flight.message.connection()).expect("it has sent").resent += bytes;
            }
            let drawn = flight.number << 40 | packet << 8 | u64::from(flight.tries);
            if !is_up || flight.stream.happens(drawn, loses, 100) {
                self.wire.dropped += bytes.0;
                lost.push(packet);
                if let Some(&(first, _)) = links.first() {
                    self.lost[first] = (self.lost[first].0 + 1, self.lost[first].1 + bytes);
                }
            }
        }
        flight.missing = lost;
        let local = u32::from(port.0);
        match flight.missing.is_empty() {
            true => q.at(arrives, Key::new(class::ARRIVAL, local), UnlistedTimer(ARRIVAL, id.0)),
            false => {
                let patience = self.spec.timeout.times(1 << flight.tries.min(20));
                let out = flight.path.first().map_or(0, |port| u32::from(port.0));
                q.at(left + patience, Key::new(class::INTERNAL, out), UnlistedTimer(TIMEOUT, id.0));
            }
        }
    }
}

impl Network for Lossy {
    type Event = UnlistedTimer;

    const BOUNDS_CONNECTIONS: bool = true;

    fn takes(&mut self, connection: Connection, len: Bytes) -> bool {
        let sent = self.connections.entry(connection).or_default();
        let takes = sent.held == 0 || sent.held.saturating_add(len.0) <= self.spec.window;
        sent.is_awaited |= !takes;
        takes
    }

    fn open(&mut self, message: Message) -> MsgId {
        let entry = Flight {
            message,
            fed: 0,
            stream: RandomStream::new(self.seed, &[]),
            number: 0,
            path: Vec::new(),
            missing: Vec::new(),
            tries: 0,
            dst: message.src,
            dst_port: PortId(0),
        };
        if let Some(id) = self.free.pop() {
            self.messages[id.index()] = entry;
            return id;
        }
        self.messages.push(entry);
        MsgId(self.messages.len() as u32 - 1)
    }

    fn feed<Q: Schedule<UnlistedTimer>>(&mut self, now: Ps, id: MsgId, len: Bytes, q: &mut Q) {
        let flight = &mut self.messages[id.index()];
        flight.fed += len.0;
        if flight.fed == flight.message.len.0 {
            self.launch(now, id, q);
        }
    }

    fn send<Q: Schedule<UnlistedTimer>>(&mut self, now: Ps, message: Message, q: &mut Q) {
        let id = self.open(message);
        self.messages[id.index()].fed = message.len.0;
        self.launch(now, id, q);
    }

    fn room(&mut self, now: Ps, at: NodeId, port: PortId, _: TrafficClass, capacity: Bytes) -> Room {
        let link = self.fabric.first_link(at) as usize + port.index();
        let held = self.links[link].0.rate.time(capacity);
        let free = self.port_free[link];
        if free <= now + held { Room::Now } else { Room::At(free - held) }
    }

    fn release<Q: Schedule<UnlistedTimer>>(&mut self, _: Ps, _: NodeId, _: PortId, _: TrafficClass, _: &mut Q) {}

    fn handle<Q: Schedule<UnlistedTimer>>(&mut self, now: Ps, timer: UnlistedTimer, q: &mut Q, out: &mut Vec<NetOut>) {
        let (what, id) = (timer.0, MsgId(timer.1));
        let flight = &mut self.messages[id.index()];
        let Message { src, len, tag, receipt, .. } = flight.message;
        match what {
            TIMEOUT => {
                flight.tries += 1;
                if flight.tries < self.spec.most_tries {
                    self.send_missing(now, id, q);
                } else {
                    self.books.failed += len.0;
                    out.push(NetOut::Failed { at: src, tag, why: Loss::Unanswered { tries: flight.tries } });
                }
            }
            ARRIVAL => {
                self.books.delivered += len.0;
                let segment = Segment { len, t0: now, gap: Ps::ZERO, packets: 1 };
                out.push(NetOut::Arrived { at: flight.dst, port: flight.dst_port, tag, segment, last: true });
                // The acknowledgement goes back on links of the same latency, and needs no room on them.
                let mut at = src;
                let hop = |&port: &PortId| {
                    let latency = self.fabric.link(at, port).latency;
                    at = self.fabric.next(at, port).0;
                    latency.0
                };
                let back = Ps(flight.path.iter().map(hop).sum());
                let local = flight.path.first().map_or(0, |port| u32::from(port.0));
                q.at(now + back, Key::new(class::LEFT, local), UnlistedTimer(ACKNOWLEDGED, id.0));
            }
            _ => {
                self.free.push(id);
                let connection = flight.message.connection();
                let sent = self.connections.get_mut(&connection).expect("it has sent");
                sent.held -= len.0;
                if std::mem::take(&mut sent.is_awaited) {
                    out.push(NetOut::Takes { connection });
                }
                out.extend(receipt.map(|receipt| NetOut::Left { at: src, receipt }));
            }
        }
    }

    fn waits(&self) -> Vec<Wait> {
        let name = |flight: &Flight| format!("a message of {}", self.fabric.node_name(flight.message.src));
        let in_use = (0..).map(MsgId).zip(&self.messages).filter(|(id, _)| !self.free.contains(id));
        let what = |flight: &Flight| match flight.message.len.0 - flight.fed {
            0 => format!("{} packets to be sent again", flight.missing.len()),
            owed => format!("its sender to feed {owed} B"),
        };
        in_use.map(|(_, flight)| Wait { who: name(flight), what: what(flight) }).collect()
    }

    fn books(&self) -> Books {
        self.books
    }

    fn wire(&self) -> Wire {
        self.wire
    }

    fn usage(&self) -> &LinkUsage {
        &self.usage
    }

    fn counters(&self) -> Vec<Table> {
        let (mut losses, mut connections) = (Losses::default(), Connections::default());
        for ((node, port), &(packets, bytes)) in all_links(&self.fabric).zip(&self.lost).filter(|(_, lost)| lost.0 > 0)
        {
            losses.node.push(self.fabric.node_name(node));
            losses.port.push(self.fabric.port_name(node, port));
            losses.dropped.push(packets as i64);
            losses.dropped_bytes.push(bytes.0 as i64);
        }
        let mut of_node = BTreeMap::new();
        for (connection, sent) in self.connections.iter().filter(|(_, sent)| sent.messages > 0) {
            let number: &mut i64 = of_node.entry(connection.src).or_default();
            connections.node.push(self.fabric.node_name(connection.src));
            connections.connection.push(*number);
            connections.messages.push(sent.messages as i64);
            connections.resent_bytes.push(sent.resent.0 as i64);
            connections.peak_bytes.push(sent.peak as i64);
            *number += 1;
        }
        vec![losses.into_table(), connections.into_table()]
    }
}
