//! Packet-hops per second of wall time over Ethernet: TCP with the settings of the study of DLRM over TCP (Rashidi et al., HOTI
//! 2020), all-reduces of hosts on one switch by direct exchange and by double binary trees, and an all-to-all on a fat tree; and
//! RoCE between servers, of which the GPUs with equal numbers exchange by rings over a switch of their own.
//!
//! `cargo bench -p syncline-network --bench ethernet_hops` runs the short ones, and with `-- NAME` all whose name contains that,
//! such as `-- "fat tree"`. A packet-hop is a frame that crosses a link, acknowledgements included. Simulated end times are
//! printed too: they are behaviour and must not change unnoticed, while the wall time is cost.

use std::sync::Arc;
use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, EventQueue, Key, NodeId, Ps, Rate};
use syncline_network::ethernet::config::EthernetConfig;
use syncline_network::ethernet::link::Marking;
use syncline_network::ethernet::roce::RoceConfig;
use syncline_network::ethernet::roce::dcqcn::DcqcnConfig;
use syncline_network::ethernet::switching::SwitchingConfig;
use syncline_network::ethernet::{self, Ethernet};
use syncline_network::{Delivery, Message, NetOut, Network, Route, TrafficClass};
use syncline_topology::{Block, Dimension, Fabric, Graph, GraphLink, GraphNode, LinkSpec, Product, Routing};

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

/// A three-level fat tree of switches with `2 * half` ports.
fn fat_tree(half: u32) -> Graph {
    let (pods, npus) = (2 * half, 2 * half * half * half);
    let (aggregations, cores) = (npus + pods * half, npus + 2 * pods * half);
    let mut pairs: Vec<(u32, u32)> = (0..npus).map(|host| (host, npus + host / half)).collect();
    for (switch, i) in (0..pods * half).flat_map(|switch| (0..half).map(move |i| (switch, i))) {
        pairs.push((npus + switch, aggregations + switch / half * half + i));
        pairs.push((aggregations + switch, cores + switch % half * half + i));
    }
    let spec = LinkSpec::new(Rate::new(12_500_000_000).expect("positive"), Ps(500_000), 0);
    let both = |(a, b)| [(a, b), (b, a)].map(|(from, to)| GraphLink { from: NodeId(from), to: NodeId(to), spec });
    let names = (0..cores + half * half).map(|node| GraphNode { name: format!("node {node}"), forwards: true });
    let everybody: Vec<NodeId> = (0..npus).map(NodeId).collect();
    let links = pairs.into_iter().flat_map(both).collect();
    Graph::new(names.collect(), npus, vec!["link".to_owned()], links, &everybody)
        .and_then(|graph| graph.with_routing(Routing::ByDestination))
        .expect("a fat tree")
}

/// Servers of eight GPUs, of which two and two NICs have a switch of PCIe; NICs with equal numbers have a leaf below a spine.
fn rails(servers: u32) -> Graph {
    let npus = 8 * servers;
    let (hubs, nics, leaves) = (npus, npus + npus / 2, 2 * npus + npus / 2);
    let link = |from: u32, to: u32, mbps: u64, class| {
        let spec = LinkSpec::new(Rate::new(mbps * 1_000_000).expect("positive"), Ps(400_000), class);
        GraphLink { from: NodeId(from), to: NodeId(to), spec }
    };
    let pairs = (0..npus).flat_map(|gpu| {
        let hub = hubs + gpu / 2;
        [(gpu, hub, 26_240, 0), (hub, nics + gpu, 26_240, 0), (nics + gpu, leaves + gpu % 8, 25_000, 1)]
    });
    let spine = (0..8).map(|leaf| (leaves + leaf, leaves + 8, 200_000, 1));
    let links =
        pairs.chain(spine).flat_map(|(a, b, mbps, class)| [link(a, b, mbps, class), link(b, a, mbps, class)]).collect();
    let names = (0..leaves + 9).map(|node| GraphNode { name: format!("node {node}"), forwards: false });
    let everybody: Vec<NodeId> = (0..npus).map(NodeId).collect();
    Graph::new(names.collect(), npus, vec!["PCIe".to_owned(), "InfiniBand".to_owned()], links, &everybody)
        .expect("servers")
}

/// RoCE with frames of 4 KiB, DCQCN and pauses, between NICs.
fn rdma() -> EthernetConfig {
    let roce = RoceConfig { segment: 4096, dcqcn: Some(DcqcnConfig::PUBLISHED), ..RoceConfig::DEFAULT };
    EthernetConfig {
        local_classes: vec![0],
        roce: Some(roce),
        switching: Some(SwitchingConfig { flow_control: true, control_first: true, ..SwitchingConfig::IN_TURN }),
        overhead: 62,
        marking: Marking::Red { least: 5_000, most: 200_000, millionths: 10_000 },
        ..EthernetConfig::NS3
    }
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

/// Every host sends a part of its vector to every other one. In a second round it sends the sum of the parts that it got, when it
/// has all of them.
struct Direct {
    hosts: u32,
    rounds: u32,
    part: u64,
    got: Vec<u32>,
}

impl Direct {
    fn new(hosts: u32, rounds: u32, vector: u64) -> Direct {
        Direct { hosts, rounds, part: vector / u64::from(hosts), got: vec![0; hosts as usize] }
    }

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
        if self.rounds > 1 && self.got[host as usize] == self.hosts - 1 {
            self.post(host, send);
        }
    }

    fn is_done(&self) -> bool {
        self.got.iter().all(|&got| got == self.rounds * (self.hosts - 1))
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

/// All-reduces around the rings of GPUs with equal numbers, several side by side: a GPU sends a part to the next server when the
/// one before it has sent one.
struct Rings {
    servers: u32,
    rings: u32,
    part: u64,
    left: u64,
}

impl Rings {
    fn new(servers: u32, rings: u32, vector: u64) -> Rings {
        let left = u64::from(8 * servers) * u64::from(rings) * 2 * u64::from(servers - 1);
        Rings { servers, rings, part: vector / u64::from(servers), left }
    }

    fn post(&self, src: u32, queue: u16, step: u64) -> Post {
        let dst = (src + 8) % (8 * self.servers);
        Post { src, dst, len: self.part, queue, tag: step << 16 | u64::from(queue) }
    }
}

impl Pattern for Rings {
    fn begin(&mut self, host: u32, send: &mut dyn FnMut(Post)) {
        (0..self.rings as u16).for_each(|ring| send(self.post(host, ring, 0)));
    }

    fn arrived(&mut self, host: u32, tag: u64, send: &mut dyn FnMut(Post)) {
        self.left -= 1;
        let step = (tag >> 16) + 1;
        if step < 2 * u64::from(self.servers - 1) {
            send(self.post(host, tag as u16, step));
        }
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

fn over_tcp(name: &str, fabric: impl Fabric, buffer: u64, pattern: &mut dyn Pattern) {
    let hosts = fabric.npus();
    let config = EthernetConfig { buffer, seed: 1, ..EthernetConfig::NS3 };
    run(name, hosts, Ethernet::new(fabric, config, &[]), pattern);
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn run(name: &str, hosts: u32, mut net: Ethernet<impl Fabric>, pattern: &mut dyn Pattern) {
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

/// Whether an argument asks for the case of this name; short ones are run without arguments, too.
fn is_wanted(name: &str, is_short: bool) -> bool {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if wanted.is_empty() { is_short } else { wanted.iter().any(|part| name.contains(part.as_str())) }
}

fn main() {
    let large = 8 << 20;
    for (hosts, mib, buffer, kind) in
        [(8, 8, large, ""), (128, 16, large, ""), (128, 16, 512 << 10, ", small buffers"), (128, 64, large, "")]
    {
        let name = format!("direct, {hosts} hosts, {mib} MiB{kind}");
        if is_wanted(&name, true) {
            over_tcp(&name, star(hosts), buffer, &mut Direct::new(hosts, 2, mib << 20));
        }
    }
    for (mib, chunks) in [(16, 128), (64, 512)] {
        let name = format!("double binary tree, 128 hosts, {mib} MiB");
        if is_wanted(&name, true) {
            over_tcp(&name, star(128), large, &mut Trees::new(128, chunks, mib << 20));
        }
    }
    for (is_fluid, kind) in [(false, "frames inside"), (true, "flows inside")] {
        let name = format!("rings over RoCE, 16 servers, 4 x 16 MiB, {kind}");
        if is_wanted(&name, true) {
            let net = Ethernet::new(Arc::new(rails(16)), rdma(), &[]);
            let net = if is_fluid { net.with_flows(Arc::new(rails(16)), Vec::new()) } else { net };
            run(&name, 128, net, &mut Rings::new(16, 4, 16 << 20));
        }
    }
    // The largest one has more than a million connections.
    for (half, mib, buffer, kind) in [
        (4, 16, large, ""),
        (6, 16, large, ""),
        (8, 16, large, ""),
        (8, 64, large, ""),
        (8, 64, 512 << 10, ", small buffers"),
    ] {
        let hosts = 2 * half * half * half;
        let name = format!("all-to-all on a fat tree, {hosts} hosts, {mib} MiB{kind}");
        if is_wanted(&name, half == 4) {
            over_tcp(&name, fat_tree(half), buffer, &mut Direct::new(hosts, 1, mib << 20));
        }
    }
}
