//! Packet-hops per second of wall time over Ethernet: hosts on one switch, TCP with the settings of the study of DLRM over TCP
//! (Rashidi et al., HOTI 2020), all-reduces by direct exchange and by double binary trees.
//!
//! `cargo bench -p syncline-network --bench ethernet_hops`. A packet-hop is a frame that crosses a link, acknowledgements
//! included. Simulated end times are printed too: they are behaviour and must not change unnoticed, while the wall time is cost.

use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, EventQueue, Key, NodeId, Ps, Rate};
use syncline_network::ethernet::config::EthernetConfig;
use syncline_network::ethernet::{self, Ethernet};
use syncline_network::{Delivery, Message, NetOut, Network, Route, TrafficClass};
use syncline_topology::{Block, Dimension, Product};

/// Hosts begin at a random time below this.
const JITTER_PS: usize = 1_000_000;

fn star(hosts: u32) -> Product {
    let link = Dimension {
        block: Block::Switch,
        size: hosts,
        rate: Rate::new(12_500_000_000).expect("positive"),
        latency: Ps(500_000),
        links: 1,
    };
    Product::new(vec![link]).expect("a star")
}

/// An event of the network, or a host that begins.
#[derive(Clone, Copy)]
enum Event {
    Network(ethernet::Event),
    Begin(u32),
}

impl From<ethernet::Event> for Event {
    fn from(event: ethernet::Event) -> Event {
        Event::Network(event)
    }
}

/// Who sends what when: what a host sends first, and what it sends when a message has arrived.
trait Pattern {
    fn begin(&mut self, host: u32, send: &mut dyn FnMut(Post));
    fn arrived(&mut self, host: u32, tag: u64, send: &mut dyn FnMut(Post));
    fn is_done(&self) -> bool;
}

/// A message to send.
struct Post {
    src: u32,
    dst: u32,
    len: u64,
    queue: u16,
    tag: u64,
}

/// Every host sends a part of its vector to every other one, and the sum of the parts that it got when it has all of them.
struct Direct {
    hosts: u32,
    part: u64,
    got: Vec<u32>,
}

impl Direct {
    fn post(&self, host: u32, send: &mut dyn FnMut(Post)) {
        for i in 1..self.hosts {
            send(Post { src: host, dst: (host + i) % self.hosts, len: self.part, queue: 0, tag: 0 });
        }
    }
}

impl Pattern for Direct {
    fn begin(&mut self, host: u32, send: &mut dyn FnMut(Post)) {
        self.post(host, send);
    }

    fn arrived(&mut self, host: u32, _: u64, send: &mut dyn FnMut(Post)) {
        self.got[host as usize] += 1;
        if self.got[host as usize] == self.hosts - 1 {
            self.post(host, send);
        }
    }

    fn is_done(&self) -> bool {
        self.got.iter().all(|&got| got == 2 * (self.hosts - 1))
    }
}

/// Two binary trees, in which the leaves of one are the inner nodes of the other; each has half of the vector, in chunks.
struct Trees {
    hosts: u32,
    chunks: u32,
    len: u64,
    /// By tree and host: the parent, the children, how many chunks each child has sent, how many went up and down.
    up: [Vec<Option<u32>>; 2],
    down: [Vec<Vec<u32>>; 2],
    from: [Vec<Vec<u32>>; 2],
    reduced: [Vec<u32>; 2],
    done: u32,
}

impl Trees {
    fn new(hosts: u32, chunks: u32, vector: u64) -> Trees {
        assert!(hosts.is_multiple_of(2), "the second tree is the mirror image of the first one");
        // In order: odd numbers are leaves, and host 0 is the root above the rest.
        let parent = |host: u32| -> Option<u32> {
            let bit = 1 << host.trailing_zeros().min(31);
            if host == 0 {
                return None;
            }
            let up = (host ^ bit) | bit << 1;
            Some(if up < hosts { up } else { host ^ bit })
        };
        let mirror = |host: u32| hosts - 1 - host;
        let up =
            [(0..hosts).map(parent).collect::<Vec<_>>(), (0..hosts).map(|h| parent(mirror(h)).map(mirror)).collect()];
        let down = [0, 1].map(|t: usize| {
            (0..hosts)
                .map(|h| (0..hosts).filter(|&c| up[t][c as usize] == Some(h)).collect())
                .collect::<Vec<Vec<u32>>>()
        });
        let from = [0, 1].map(|t: usize| down[t].iter().map(|d| vec![0; d.len()]).collect());
        let none = || vec![0; hosts as usize];
        Trees { hosts, chunks, len: vector / 2 / u64::from(chunks), up, down, from, reduced: [none(), none()], done: 0 }
    }

    fn post(&self, tree: usize, src: u32, dst: u32, down: bool) -> Post {
        let queue = 2 * tree as u16 + u16::from(down);
        Post { src, dst, len: self.len, queue, tag: u64::from(src) << 8 | u64::from(queue) }
    }

    /// Sends up what all children have sent; the root sends it down.
    fn reduce(&mut self, tree: usize, host: u32, send: &mut dyn FnMut(Post)) {
        let at = host as usize;
        let ready = self.from[tree][at].iter().copied().min().unwrap_or(self.chunks);
        while self.reduced[tree][at] < ready {
            self.reduced[tree][at] += 1;
            match self.up[tree][at] {
                Some(up) => send(self.post(tree, host, up, false)),
                None => self.spread(tree, host, send),
            }
        }
    }

    fn spread(&mut self, tree: usize, host: u32, send: &mut dyn FnMut(Post)) {
        self.done += 1;
        for &child in &self.down[tree][host as usize] {
            send(self.post(tree, host, child, true));
        }
    }
}

impl Pattern for Trees {
    fn begin(&mut self, host: u32, send: &mut dyn FnMut(Post)) {
        (0..2)
            .filter(|&tree| self.down[tree][host as usize].is_empty())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|tree| self.reduce(tree, host, send));
    }

    fn arrived(&mut self, host: u32, tag: u64, send: &mut dyn FnMut(Post)) {
        let (src, tree) = ((tag >> 8) as u32, (tag >> 1 & 1) as usize);
        if tag & 1 == 1 {
            return self.spread(tree, host, send);
        }
        let child = self.down[tree][host as usize].iter().position(|&c| c == src).expect("a child");
        self.from[tree][host as usize][child] += 1;
        self.reduce(tree, host, send);
    }

    fn is_done(&self) -> bool {
        self.done == 2 * self.hosts * self.chunks
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn run(name: &str, hosts: u32, buffer: u64, pattern: &mut dyn Pattern) {
    let config = EthernetConfig { buffer, seed: 1, ..EthernetConfig::NS3 };
    let mut net = Ethernet::new(star(hosts), config, &[]);
    let mut queue: EventQueue<Event> = EventQueue::new();
    let mut random = SplitMix64(1);
    for host in 0..hosts {
        queue.push(Ps(random.below(JITTER_PS) as u64), Key::new(32, 0), Event::Begin(host));
    }
    let (mut out, mut posts) = (Vec::new(), Vec::new());
    let start = std::time::Instant::now();
    let mut end = Ps::ZERO;
    while let Some((now, _, event)) = queue.pop() {
        match event {
            Event::Network(event) => net.handle(now, event, &mut queue, &mut out),
            Event::Begin(host) => pattern.begin(host, &mut |post| posts.push(post)),
        }
        for news in out.drain(..) {
            if let NetOut::Arrived { at, tag, .. } = news {
                pattern.arrived(at.0, tag, &mut |post| posts.push(post));
            }
        }
        for Post { src, dst, len, queue: thread, tag } in posts.drain(..) {
            let message = Message {
                src: NodeId(src),
                route: Route::To(NodeId(dst)),
                queue: thread,
                len: Bytes(len),
                class: TrafficClass::default(),
                delivery: Delivery::Whole,
                tag,
                receipt: None,
            };
            net.send(now, message, &mut queue);
        }
        end = now;
        if pattern.is_done() {
            break;
        }
    }
    assert!(pattern.is_done(), "it ends");
    let wall = start.elapsed();
    net.finish(end);
    let hops = net.usage().packet_hops();
    let counts = net.sender_counts();
    println!(
        "{name:<40} {hops:>11} packet-hops {:>8.3} s {:>6.2} M/s  simulated {:>12.3} us, {} resent, {} timeouts",
        wall.as_secs_f64(),
        hops as f64 / wall.as_secs_f64() / 1e6,
        end.as_s() * 1e6,
        counts.resent,
        counts.timeouts,
    );
}

fn main() {
    let direct =
        |hosts: u32, vector: u64| Direct { hosts, part: vector / u64::from(hosts), got: vec![0; hosts as usize] };
    let large = 8 << 20;
    run("direct, 8 hosts, 8 MiB", 8, large, &mut direct(8, 8 << 20));
    run("direct, 128 hosts, 16 MiB", 128, large, &mut direct(128, 16 << 20));
    run("direct, 128 hosts, 16 MiB, small buffers", 128, 512 << 10, &mut direct(128, 16 << 20));
    run("direct, 128 hosts, 64 MiB", 128, large, &mut direct(128, 64 << 20));
    run("double binary tree, 128 hosts, 16 MiB", 128, large, &mut Trees::new(128, 128, 16 << 20));
    run("double binary tree, 128 hosts, 64 MiB", 128, large, &mut Trees::new(128, 512, 64 << 20));
}
