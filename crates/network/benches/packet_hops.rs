//! Packet-hops per second of wall time on a loaded 4x8x4 torus with the links of the ACE paper.
//!
//! `cargo bench -p syncline-network`. Simulated end times are printed too: they are behaviour and must
//! not change unnoticed, while the wall time is cost.

use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, EventQueue, NodeId, PortId, Ps, Rate};
use syncline_network::{Delivery, Message, NetOut, Network, Packet, PacketConfig, Route};
use syncline_topology::{Dimension, Fabric, Torus};

/// Bytes of a message.
const MESSAGE: Bytes = Bytes(8192);
/// Messages of a node (per port, one hop; in all, many hops) that are under way at a time.
const WINDOW: u64 = 4;

/// 188 GB/s within a package, 23.5 GB/s between packages; 90 and 500 cycles at 1.245 GHz.
fn torus() -> Torus {
    let dimension = |size, rate, latency| Dimension {
        size,
        rate: Rate::new(rate).expect("positive"),
        latency: Ps(latency),
        links: 1,
    };
    Torus::new(vec![
        dimension(4, 188_000_000_000, 72_289),
        dimension(8, 23_500_000_000, 401_606),
        dimension(4, 23_500_000_000, 401_606),
    ])
    .expect("128 nodes")
}

/// The next message of the sender that `tag` names.
type Next<'a> = &'a mut dyn FnMut(u64) -> Message;

/// Keeps `senders` senders busy until `messages` messages have arrived.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn run(name: &str, trains: bool, senders: u64, messages: u64, next: Next) {
    let config = PacketConfig { trains, ..PacketConfig::DEFAULT };
    let mut net = Packet::new(torus(), config).expect("a legal configuration");
    let mut queue: EventQueue<syncline_network::packet::Event> = EventQueue::new();
    let mut out = Vec::new();
    let start = std::time::Instant::now();
    let mut sent = 0;
    for tag in (0..senders).cycle().take((senders * WINDOW) as usize) {
        net.send(Ps::ZERO, next(tag), &mut queue);
        sent += 1;
    }
    while let Some((now, _, event)) = queue.pop() {
        net.handle(now, event, &mut queue, &mut out);
        for news in out.drain(..) {
            let NetOut::Arrived { tag, .. } = news else { continue };
            if sent < messages {
                net.send(now, next(tag), &mut queue);
                sent += 1;
            }
        }
    }
    let s = start.elapsed().as_secs_f64();
    assert!(net.audit().holds() && net.waits().is_empty());
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
    let (nodes, ports) = (u64::from(fabric.nodes()), u64::from(fabric.ports()));
    let message = |src, route, tag| Message { src, route, len: MESSAGE, delivery: Delivery::Whole, tag };
    let mut neighbour = |tag: u64| {
        let (src, port) = (NodeId((tag / ports) as u32), PortId((tag % ports) as u8));
        message(src, Route::Port(port), tag)
    };
    run("one hop, packets", false, nodes * ports, 1_000_000, &mut neighbour);
    run("one hop, trains", true, nodes * ports, 1_000_000, &mut neighbour);
    for (name, trains) in [("uniform random, packets", false), ("uniform random, trains", true)] {
        let mut rngs: Vec<_> = (0..nodes).map(SplitMix64).collect();
        let mut anywhere = |tag: u64| {
            let dst = NodeId(rngs[tag as usize].below(nodes as usize) as u32);
            message(NodeId(tag as u32), Route::To(dst), tag)
        };
        run(name, trains, nodes, 100_000, &mut anywhere);
    }
}
