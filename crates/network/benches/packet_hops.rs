//! Packet-hops per second of wall time on a loaded 4x8x4 torus with the links of the ACE paper.
//!
//! `cargo bench -p syncline-network`. Simulated end times are printed too: they are behaviour and must
//! not change unnoticed, while the wall time is cost.

use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, EventQueue, Key, NodeId, PortId, Ps, Rate};
use syncline_network::{Delivery, Message, NetOut, Network, Packet, PacketConfig, Route, TrafficClass, packet};
use syncline_topology::{Block, Dimension, Fabric, Product};

/// Bytes of a message.
const MESSAGE: Bytes = Bytes(8192);
/// Messages of a node (per port, one hop; in all, many hops) that are under way at a time.
const WINDOW: u32 = 4;

/// 188 GB/s within a package, 23.5 GB/s between packages; 90 and 500 cycles at 1.245 GHz.
fn torus() -> Product {
    let dimension = |size, rate, latency| Dimension {
        block: Block::Ring,
        size,
        rate: Rate::new(rate).expect("positive"),
        latency: Ps(latency),
        links: 1,
    };
    Product::new(vec![
        dimension(4, 188_000_000_000, 72_289),
        dimension(8, 23_500_000_000, 401_606),
        dimension(4, 23_500_000_000, 401_606),
    ])
    .expect("128 nodes")
}

/// An event of the network, or a sender that sends its next message.
#[derive(Clone, Copy)]
enum Event {
    Network(packet::Event),
    Send(u32),
}

impl From<packet::Event> for Event {
    fn from(event: packet::Event) -> Event {
        Event::Network(event)
    }
}

/// What is sent and how: by how many senders per node, how many messages each, and the next one of a sender.
struct Traffic<'a> {
    /// Messages take one hop and go one after the other, as engines between neighbours have them; else in turns.
    between_neighbours: bool,
    per_node: u32,
    messages: u32,
    next: &'a mut dyn FnMut(u32) -> Message,
}

/// Every sender keeps [`WINDOW`] messages under way until it has sent all of its own.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn run(name: &str, trains: bool, traffic: Traffic) {
    let config = PacketConfig { trains, turns: !traffic.between_neighbours, ..PacketConfig::DEFAULT };
    let fabric = torus();
    let senders = fabric.nodes() * traffic.per_node;
    let mut net = Packet::new(fabric, config).expect("a legal configuration");
    let mut queue: EventQueue<Event> = EventQueue::new();
    let mut out = Vec::new();
    let start = std::time::Instant::now();
    let mut unsent = vec![traffic.messages; senders as usize];
    // A sender acts in an event of its own node, so that ties between nodes do not matter.
    let key = |sender| Key::new(32, sender % traffic.per_node);
    for sender in (0..WINDOW).flat_map(|_| 0..senders) {
        queue.push(Ps::ZERO, key(sender), Event::Send(sender));
    }
    while let Some((now, _, event)) = queue.pop() {
        match event {
            Event::Network(event) => net.handle(now, event, &mut queue, &mut out),
            Event::Send(sender) if unsent[sender as usize] > 0 => {
                unsent[sender as usize] -= 1;
                net.send(now, (traffic.next)(sender), &mut queue);
            }
            Event::Send(_) => {}
        }
        for news in out.drain(..) {
            let NetOut::Arrived { tag, .. } = news else { continue };
            queue.push(now, key(tag as u32), Event::Send(tag as u32));
        }
    }
    let s = start.elapsed().as_secs_f64();
    assert!(net.books().are_settled() && net.waits().is_empty());
    let hops = net.usage().packet_hops();
    println!(
        "{name:>26}: {:7.2} million packet-hops/s, {:5.2} events per packet-hop ({hops} packet-hops, {} simulated)",
        hops as f64 / s / 1e6,
        queue.popped() as f64 / hops as f64,
        queue.now(),
    );
}

fn main() {
    let fabric = torus();
    let (nodes, ports) = (fabric.nodes(), u32::from(fabric.ports(NodeId(0))));
    let message = |src, route, sender| Message {
        src: NodeId(src),
        route,
        queue: 0,
        len: MESSAGE,
        class: TrafficClass::default(),
        delivery: Delivery::Whole,
        tag: u64::from(sender),
        receipt: None,
    };
    for (name, trains) in [("one hop, packets", false), ("one hop, trains", true)] {
        let mut next = |sender| message(sender / ports, Route::Port(PortId((sender % ports) as u16)), sender);
        run(name, trains, Traffic { between_neighbours: true, per_node: ports, messages: 1_300, next: &mut next });
    }
    for (name, trains) in [("uniform random, packets", false), ("uniform random, trains", true)] {
        let mut rngs: Vec<_> = (0..u64::from(nodes)).map(SplitMix64).collect();
        let mut next = |sender: u32| {
            let dst = NodeId(rngs[sender as usize].below(nodes as usize) as u32);
            message(sender, Route::To(dst), sender)
        };
        run(name, trains, Traffic { between_neighbours: false, per_node: 1, messages: 800, next: &mut next });
    }
}
