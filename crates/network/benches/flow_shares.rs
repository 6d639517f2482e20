//! How often rates can be found anew, and how many flows that carries, per second of wall time.
//!
//! `cargo bench -p syncline-network --bench flow_shares`. Simulated end times are printed too: they are
//! behaviour and must not change unnoticed, while the wall time is cost.

use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, EventQueue, NodeId, PortId, Ps, Rate};
use syncline_network::{Delivery, Flow, Message, NetOut, Network, Route, TrafficClass, flow};
use syncline_topology::{Block, Dimension, Fabric, Product};

/// Runs end here at the latest: where all flows differ, each of them changes the rates of all others.
const RECOMPUTATIONS: u64 = 50_000;
/// And the flows that are changed in all of them together.
const CHANGES: u64 = 400_000_000;

fn product(block: Block, sizes: &[u32]) -> Product {
    let dimension = |&size| Dimension {
        block,
        size,
        rate: Rate::new(25_000_000_000).expect("positive"),
        latency: Ps(500_000),
        links: 1,
    };
    Product::new(sizes.iter().map(dimension).collect()).expect("a fabric")
}

/// Each of `senders` sends `messages`, one after the other; `next` makes them.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn run(name: &str, fabric: Product, senders: u32, messages: u32, mut next: impl FnMut(u32) -> Message) {
    let mut net = Flow::new(fabric, Ps(1_000_000));
    let mut queue: EventQueue<flow::Event> = EventQueue::new();
    let mut out = Vec::new();
    let (mut done, start) = (0u64, std::time::Instant::now());
    let mut unsent = vec![messages - 1; senders as usize];
    (0..senders).for_each(|sender| net.send(Ps::ZERO, next(sender), &mut queue));
    while net.recomputations() < RECOMPUTATIONS.min(CHANGES / u64::from(senders))
        && let Some((now, _, event)) = queue.pop()
    {
        net.handle(now, event, &mut queue, &mut out);
        for news in out.drain(..) {
            let NetOut::Arrived { tag, .. } = news else { continue };
            done += 1;
            let unsent = &mut unsent[tag as usize];
            if *unsent > 0 {
                *unsent -= 1;
                net.send(now, next(tag as u32), &mut queue);
            }
        }
    }
    let s = start.elapsed().as_secs_f64();
    println!(
        "{name:>34}: {:9.0} flows/s, {:8.0} recomputations/s ({done} flows, {senders} at a time; {} simulated)",
        done as f64 / s,
        net.recomputations() as f64 / s,
        queue.now(),
    );
}

fn message(src: u32, route: Route, len: u64, sender: u32) -> Message {
    Message {
        src: NodeId(src),
        route,
        queue: 0,
        len: Bytes(len),
        class: TrafficClass::default(),
        delivery: Delivery::Whole,
        tag: u64::from(sender),
        receipt: None,
    }
}

/// Every sender of a node keeps one message of random length to a random node under way.
fn random(name: &str, fabric: Product, per_node: u32, messages: u32) {
    let (npus, rng) = (fabric.npus(), &mut SplitMix64(1));
    let next = |sender: u32| {
        let dst = NodeId(rng.below(npus as usize) as u32);
        message(sender / per_node, Route::To(dst), 50_000 + rng.below(100_000) as u64, sender)
    };
    run(name, fabric, npus * per_node, messages, next);
}

fn main() {
    let torus = || product(Block::Ring, &[4, 8, 4]);
    let ports = u32::from(torus().ports(NodeId(0)));
    run("torus 4x8x4, one hop, equal", torus(), 128 * ports, 500, |sender| {
        message(sender / ports, Route::Port(PortId((sender % ports) as u16)), 8_192, sender)
    });
    let rng = &mut SplitMix64(1);
    run("torus 4x8x4, one hop, random", torus(), 128 * ports, 500, |sender| {
        let port = PortId((sender % ports) as u16);
        message(sender / ports, Route::Port(port), 4_096 + rng.below(8_192) as u64, sender)
    });
    random("torus 4x8x4, any node, random", torus(), 4, 20);
    for npus in [64, 256, 1024] {
        let name = format!("switch of {npus}, all to all, equal");
        run(&name, product(Block::Switch, &[npus]), npus * (npus - 1), 2, |sender| {
            let (src, by) = (sender / (npus - 1), sender % (npus - 1));
            message(src, Route::To(NodeId((src + by + 1) % npus)), 65_536, sender)
        });
    }
    random("switch of 64, any node, random", product(Block::Switch, &[64]), 4, 100);
    random("switch of 1024, any node, random", product(Block::Switch, &[1024]), 1, 10);
    random("switch of 1024, 100 each, random", product(Block::Switch, &[1024]), 100, 1);
}
