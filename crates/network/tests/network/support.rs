//! A driver for tests: owns the event queue, plays a list of messages, notes when they arrive.

use std::collections::VecDeque;
use std::sync::Arc;
use syncline_core::queue::SplitMix64;
use syncline_core::{Books, Bytes, EventQueue, Key, NodeId, PortId, Ps, Rate, Schedule, Wait};
use syncline_network::{
    DeadlockRule, Delivery, Flow, Message, MsgId, NetOut, Network, Packet, PacketConfig, Room, Route, Segment,
    TrafficClass,
};
use syncline_topology::{Block, Dimension, Fabric, Graph, GraphLink, GraphNode, LinkSpec, Product};

/// Bytes of a packet in all tests.
pub const P: u64 = 256;

/// How a message's bytes become available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// All at once.
    AtOnce,
    /// A packet every so often.
    Every(Ps),
    /// A packet whenever the port has room for it.
    WhenRoom { capacity: Bytes },
}

/// A message to be played.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    pub at: Ps,
    pub src: NodeId,
    pub route: Route,
    pub queue: u16,
    pub len: u64,
    pub class: TrafficClass,
    pub delivery: Delivery,
    pub supply: Supply,
    /// For streams: packet `i` is released `(i % 7) * hold` after it has arrived.
    pub hold: Ps,
}

impl Play {
    /// All bytes at time zero, delivered whole.
    pub fn whole(src: u32, route: Route, len: u64) -> Play {
        Play {
            at: Ps::ZERO,
            src: NodeId(src),
            route,
            queue: 0,
            len,
            class: TrafficClass::default(),
            delivery: Delivery::Whole,
            supply: Supply::AtOnce,
            hold: Ps::ZERO,
        }
    }

    /// All bytes at time zero, each packet released `(i % 7) * hold` after its arrival.
    pub fn stream(src: u32, route: Route, len: u64, hold: Ps) -> Play {
        Play { delivery: Delivery::Stream, hold, ..Play::whole(src, route, len) }
    }
}

/// What became of the messages.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time of arrival per message; [`Ps::MAX`] for those that never arrived.
    pub arrivals: Vec<Ps>,
    /// What was told of each message, in order.
    pub segments: Vec<Vec<Segment>>,
    /// Per node and input port, the messages that were complete there, in order.
    pub reports: Vec<Vec<u64>>,
    pub waits: Vec<Wait>,
    pub books: Books,
    pub total_bytes: u64,
    pub total_busy: u128,
    pub packet_hops: u64,
    pub events: u64,
}

impl Outcome {
    /// Asserts that everything arrived and nothing is left behind.
    pub fn finished(self) -> Outcome {
        assert!(self.waits.is_empty(), "blocked: {:#?}", &self.waits[..self.waits.len().min(5)]);
        assert!(self.arrivals.iter().all(|&t| t != Ps::MAX), "a message never arrived");
        assert!(self.books.are_settled(), "{:?}", self.books);
        self
    }
}

#[derive(Clone, Copy)]
enum Event<E> {
    Network(E),
    Begin(u32),
    Feed(u32),
    Release(NodeId, PortId, TrafficClass),
}

/// Wraps the network's events into the driver's.
struct Timers<'a, E>(&'a mut EventQueue<Event<E>>);

impl<E: Copy> Schedule<E> for Timers<'_, E> {
    fn at(&mut self, time: Ps, key: Key, event: E) {
        self.0.push(time, key, Event::Network(event));
    }
}

const BEGIN: u8 = 32;
const FEED: u8 = 33;
const RELEASE: u8 = 34;

struct Player<'a, N: Network> {
    net: N,
    queue: EventQueue<Event<N::Event>>,
    plays: &'a [Play],
    fabric: &'a dyn Fabric,
    ids: Vec<MsgId>,
    fed: Vec<u64>,
    received: Vec<u64>,
    /// Messages that wait for news of room, per node and port.
    waiting: Vec<VecDeque<u32>>,
    arrivals: Vec<Ps>,
    segments: Vec<Vec<Segment>>,
    reports: Vec<Vec<u64>>,
    /// Orders the messages of one node.
    locals: Vec<u32>,
}

/// Plays messages on a network until nothing happens any more.
pub fn play<N: Network>(net: N, fabric: &dyn Fabric, plays: &[Play]) -> Outcome {
    play_on(net, fabric, plays, EventQueue::new())
}

/// The same with events of equal time and key in random order.
pub fn play_shuffled<N: Network>(net: N, fabric: &dyn Fabric, plays: &[Play], seed: u64) -> Outcome {
    play_on(net, fabric, plays, EventQueue::shuffling(seed))
}

fn play_on<N: Network>(net: N, fabric: &dyn Fabric, plays: &[Play], queue: EventQueue<Event<N::Event>>) -> Outcome {
    let mut of_node = vec![0; fabric.nodes() as usize];
    let locals = plays.iter().map(|p| {
        of_node[p.src.index()] += 1;
        of_node[p.src.index()]
    });
    let player = Player {
        net,
        queue,
        plays,
        fabric,
        ids: vec![MsgId(0); plays.len()],
        fed: vec![0; plays.len()],
        received: vec![0; plays.len()],
        waiting: vec![VecDeque::new(); fabric.links() as usize],
        arrivals: vec![Ps::MAX; plays.len()],
        segments: vec![Vec::new(); plays.len()],
        // A node without ports hears of what it sends itself in the slot after all others.
        reports: vec![Vec::new(); fabric.links() as usize + 1],
        locals: locals.collect(),
    };
    player.run()
}

impl<N: Network> Player<'_, N> {
    fn run(mut self) -> Outcome {
        for i in 0..self.plays.len() {
            self.queue.push(self.plays[i].at, Key::new(BEGIN, self.locals[i]), Event::Begin(i as u32));
        }
        let mut out = Vec::new();
        while let Some((now, _, event)) = self.queue.pop() {
            match event {
                Event::Network(e) => self.net.handle(now, e, &mut Timers(&mut self.queue), &mut out),
                Event::Begin(i) => self.begin(now, i),
                Event::Feed(i) => self.feed(now, i),
                Event::Release(at, port, class) => {
                    self.net.release(now, at, port, class, &mut Timers(&mut self.queue));
                }
            }
            for news in out.drain(..) {
                match news {
                    NetOut::Arrived { at, port, tag, segment, last } => self.arrived(at, port, tag, segment, last),
                    NetOut::Room { at, port } => self.room(now, at, port),
                    NetOut::Left { .. } | NetOut::Failed { .. } | NetOut::Takes { .. } => {}
                }
            }
        }
        let usage = self.net.usage();
        Outcome {
            waits: self.net.waits(),
            books: self.net.books(),
            total_bytes: usage.total_bytes() as u64,
            total_busy: (0..self.fabric.links()).map(|l| u128::from(usage.busy(l).0)).sum(),
            packet_hops: usage.packet_hops(),
            events: self.queue.popped(),
            arrivals: self.arrivals,
            segments: self.segments,
            reports: self.reports,
        }
    }

    fn begin(&mut self, now: Ps, i: u32) {
        let play = self.plays[i as usize];
        let message = Message {
            src: play.src,
            route: play.route,
            queue: play.queue,
            len: Bytes(play.len),
            class: play.class,
            delivery: play.delivery,
            tag: u64::from(i),
            receipt: None,
        };
        if play.supply == Supply::AtOnce {
            self.net.send(now, message, &mut Timers(&mut self.queue));
        } else {
            self.ids[i as usize] = self.net.open(message);
            self.feed(now, i);
        }
    }

    fn feed(&mut self, now: Ps, i: u32) {
        let play = self.plays[i as usize];
        let key = Key::new(FEED, self.locals[i as usize]);
        if let (Supply::WhenRoom { capacity }, Some(port)) = (play.supply, self.first_port(&play)) {
            let link = self.link(play.src, port);
            match self.net.room(now, play.src, port, play.class, capacity) {
                Room::Now => {}
                Room::At(at) => return self.queue.push(at, key, Event::Feed(i)),
                Room::Unknown => return self.waiting[link].push_back(i),
            }
        }
        let len = P.min(play.len - self.fed[i as usize]);
        self.net.feed(now, self.ids[i as usize], Bytes(len), &mut Timers(&mut self.queue));
        self.fed[i as usize] += len;
        if self.fed[i as usize] < play.len {
            let pause = if let Supply::Every(pause) = play.supply { pause } else { Ps::ZERO };
            self.queue.push(now + pause, key, Event::Feed(i));
        }
    }

    fn arrived(&mut self, at: NodeId, port: PortId, tag: u64, segment: Segment, last: bool) {
        let play = self.plays[tag as usize];
        let received = &mut self.received[tag as usize];
        for i in 0..u64::from(segment.packets) {
            let arrival = segment.t0 + segment.gap.times(i);
            if !matches!(play.delivery, Delivery::Whole | Delivery::Stored) {
                let pause = play.hold.times(*received % 7);
                *received += 1;
                self.queue.push(
                    arrival + pause,
                    Key::new(RELEASE, u32::from(port.0)),
                    Event::Release(at, port, play.class),
                );
            }
        }
        self.segments[tag as usize].push(segment);
        if last {
            let input = self.link(at, port);
            self.reports[input].push(tag);
            assert_eq!(self.arrivals[tag as usize], Ps::MAX, "a message arrived twice");
            self.arrivals[tag as usize] = segment.t0 + segment.gap.times(u64::from(segment.packets) - 1);
            let len: u64 = self.segments[tag as usize].iter().map(|s| s.len.0).sum();
            assert_eq!(len, play.len, "announced more or less than was sent");
        }
    }

    fn room(&mut self, now: Ps, at: NodeId, port: PortId) {
        let link = self.link(at, port);
        let asked = std::mem::take(&mut self.waiting[link]);
        assert!(!asked.is_empty(), "told of room without having asked");
        // Whether a sender learns the time beforehand or is told at that time, it acts as one event.
        for i in asked {
            self.queue.push(now, Key::new(FEED, self.locals[i as usize]), Event::Feed(i));
        }
    }

    fn link(&self, node: NodeId, port: PortId) -> usize {
        self.fabric.first_link(node) as usize + port.index()
    }

    fn first_port(&self, play: &Play) -> Option<PortId> {
        let mut path = Vec::new();
        play.route.append(self.fabric, play.src, &mut path);
        path.first().copied()
    }
}

/// A torus whose dimensions have these sizes, rates (bytes per second) and latencies (ps).
pub fn torus(dims: &[(u32, u64, u64)]) -> Product {
    let dimension = |&(size, rate, latency): &(u32, u64, u64)| Dimension {
        block: Block::Ring,
        size,
        rate: Rate::new(rate).expect("positive"),
        latency: Ps(latency),
        links: 1,
    };
    Product::new(dims.iter().map(dimension).collect()).expect("a small torus")
}

/// NPUs around one switch, with a rate (bytes per second) and a latency (ps).
pub fn star(npus: u32, rate: u64, latency: u64) -> Product {
    let rate = Rate::new(rate).expect("positive");
    let line = Dimension { block: Block::Switch, size: npus, rate, latency: Ps(latency), links: 1 };
    Product::new(vec![line]).expect("a small star")
}

/// A random fabric: a product of any blocks, or a graph of NPUs and switches that hang together.
pub fn any_fabric(rng: &mut SplitMix64) -> Arc<dyn Fabric> {
    let rate = |rng: &mut SplitMix64| Rate::new(1_000_000_000 * (1 + below(rng, 100))).expect("positive");
    if below(rng, 2) == 0 {
        let block = |rng: &mut SplitMix64| [Block::Ring, Block::FullyConnected, Block::Switch][rng.below(3)];
        let dims = (0..1 + below(rng, 3)).map(|_| Dimension {
            block: block(rng),
            size: 1 + below(rng, 4) as u32,
            rate: rate(rng),
            latency: Ps(1 + below(rng, 500_000)),
            links: 1 + below(rng, 2) as u16,
        });
        return Arc::new(Product::new(dims.collect()).expect("a small product"));
    }
    let (npus, switches) = (2 + below(rng, 6) as u32, below(rng, 4) as u32);
    let all = npus + switches;
    let nodes = (0..all).map(|n| GraphNode { name: format!("node {n}"), forwards: true }).collect();
    let mut links = Vec::new();
    let tree: Vec<(u32, u32)> = (1..all).map(|n| (below(rng, n.into()) as u32, n)).collect();
    let more = (0..below(rng, 6)).map(|_| (below(rng, all.into()) as u32, below(rng, all.into()) as u32));
    for (a, b) in tree.into_iter().chain(more.collect::<Vec<_>>()).filter(|(a, b)| a != b) {
        let spec = LinkSpec::new(rate(rng), Ps(1 + below(rng, 500_000)), 0);
        links.extend([(a, b), (b, a)].map(|(from, to)| GraphLink { from: NodeId(from), to: NodeId(to), spec }));
    }
    let everybody: Vec<NodeId> = (0..npus).map(NodeId).collect();
    Arc::new(Graph::new(nodes, npus, vec!["link".into()], links, &everybody).expect("a tree connects all"))
}

/// A packet backend.
pub fn packets<F: Fabric + Clone>(fabric: &F, rule: DeadlockRule, buffer: Option<u32>, trains: bool) -> Packet<F> {
    let config = PacketConfig { packet: Bytes(P), buffer, rule, trains, ..PacketConfig::DEFAULT };
    Packet::new(fabric.clone(), config).expect("a legal configuration")
}

/// A packet backend whose messages go one after the other, for neighbours.
pub fn one_hop<F: Fabric + Clone>(fabric: &F, rule: DeadlockRule, buffer: Option<u32>, trains: bool) -> Packet<F> {
    let config = PacketConfig { packet: Bytes(P), buffer, rule, trains, turns: false, ..PacketConfig::DEFAULT };
    Packet::new(fabric.clone(), config).expect("a legal configuration")
}

/// A packet backend in which larger precedences go first.
pub fn by_precedence<F: Fabric + Clone>(
    fabric: &F,
    rule: DeadlockRule,
    buffer: Option<u32>,
    (trains, turns): (bool, bool),
) -> Packet<F> {
    let packet = Bytes(P);
    let config = PacketConfig { packet, buffer, rule, trains, turns, by_precedence: true, ..PacketConfig::DEFAULT };
    Packet::new(fabric.clone(), config).expect("a legal configuration")
}

/// A flow backend.
pub fn flows<F: Fabric + Clone>(fabric: &F) -> Flow<F> {
    Flow::new(fabric.clone(), Ps(1_000_000))
}

/// A random number below `n`.
pub fn below(rng: &mut SplitMix64, n: u64) -> u64 {
    rng.below(n as usize) as u64
}
