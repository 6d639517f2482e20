//! Connections share links max-min fairly, each of which sends one message after the other.

use crate::support::{Outcome, Play, Supply, below, flows, packets, play, play_shuffled, star, torus};
use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, EventQueue, NodeId, PortId, Ps, Rate};
use syncline_network::flow::Event;
use syncline_network::{DeadlockRule, Delivery, Flow, Message, NetOut, Network, Room, Route, TrafficClass};
use syncline_topology::{Block, Dimension, Fabric, LinkSpec, Product};

/// 1 GB/s: a byte takes a nanosecond.
const RATE: u64 = 1_000_000_000;
const NS: u64 = 1_000;
const LATENCY: u64 = 100 * NS;

fn line(npus: u32) -> Product {
    torus(&[(npus, RATE, LATENCY)])
}

/// A message to `dst`, sent at `at` nanoseconds.
fn message(at: u64, src: u32, dst: u32, len: u64) -> Play {
    Play { at: Ps(at * NS), ..Play::whole(src, Route::To(NodeId(dst)), len) }
}

/// Arrivals in nanoseconds, without the latency of so many hops each.
fn drained(outcome: &Outcome, hops: &[u64]) -> Vec<u64> {
    let drained = outcome.arrivals.iter().zip(hops).map(|(t, h)| t.0 - h * LATENCY);
    drained.map(|t| if t % NS == 0 { t / NS } else { panic!("{t} ps is no whole nanosecond") }).collect()
}

#[test]
fn k_connections_on_a_link_take_k_times_as_long() {
    let fabric = star(17, RATE, LATENCY);
    for k in 1..=16 {
        let plays: Vec<Play> = (1..=k).map(|dst| message(0, 0, dst, 720_720)).collect();
        let outcome = play(flows(&fabric), &fabric, &plays).finished();
        assert_eq!(drained(&outcome, &vec![2; k as usize]), vec![u64::from(k) * 720_720; k as usize]);
        assert_eq!(outcome.total_busy, 2 * u128::from(u64::from(k) * 720_720 * NS));
    }
}

#[test]
fn messages_of_a_connection_go_one_after_the_other() {
    // Over a port, and to a node over several hops: with the whole rate, in the order of sending, as by packets.
    let fabric = line(8);
    let lens = [700, 0, 1_234, 4_321, 0];
    for (route, hops) in [(Route::Port(PortId(0)), 1), (Route::To(NodeId(3)), 3)] {
        let plays = lens.map(|len| Play::whole(0, route, len));
        let outcome = play(flows(&fabric), &fabric, &plays).finished();
        assert_eq!(drained(&outcome, &[hops; 5]), [700, 700, 1_934, 6_255, 6_255], "{route:?}");
        assert!(outcome.reports.iter().any(|told| told == &[0, 1, 2, 3, 4]));
    }
}

#[test]
fn queues_between_the_same_two_are_connections_of_their_own() {
    // A third each, over a port and through a switch; then the longer one has all.
    for (fabric, route, other, hops) in [
        (star(3, RATE, LATENCY), Route::To(NodeId(1)), Route::To(NodeId(2)), [2, 2, 2]),
        (line(8), Route::Port(PortId(0)), Route::To(NodeId(3)), [1, 1, 3]),
    ] {
        let second = Play { queue: 1, ..Play::whole(0, route, 2_000) };
        let plays = [Play::whole(0, route, 1_000), second, Play::whole(0, other, 1_000)];
        let outcome = play(flows(&fabric), &fabric, &plays).finished();
        assert_eq!(drained(&outcome, &hops), [3_000, 4_000, 3_000], "{route:?}");
    }
}

#[test]
fn a_connection_has_one_share_however_much_it_has_to_send() {
    // Four messages to a node and one to another: a half each, and all of the link once the one has drained.
    let fabric = star(3, RATE, LATENCY);
    let mut plays = vec![message(0, 0, 1, 1_000); 4];
    plays.push(message(0, 0, 2, 1_500));
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!(drained(&outcome, &[2; 5]), [2_000, 3_500, 4_500, 5_500, 3_000]);
    // A message that finds its connection busy changes nobody's rate.
    plays.push(message(500, 0, 1, 1_000));
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!(drained(&outcome, &[2; 6]), [2_000, 3_500, 4_500, 5_500, 3_000, 6_500]);
}

#[test]
fn connections_that_start_one_after_the_other_finish_as_worked_out() {
    // 0 to 1 us: A alone has 1000 B done. To 4 us: A and B at a half, 1500 B each. To 7.6 us: A, B and C
    // at a third; A (3700 B) has 1200 to go and is done at 7.6 us. Then B (3300 B) has 600 to go at a
    // half and is done at 8.8 us; C (2000 B) has 800 to go, 600 of them next to B, the rest alone.
    let fabric = star(4, RATE, LATENCY);
    let plays = [message(0, 0, 1, 3_700), message(1_000, 0, 2, 3_300), message(4_000, 0, 3, 2_000)];
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!(drained(&outcome, &[2; 3]), [7_600, 8_800, 9_000]);
}

#[test]
fn a_long_flow_meets_one_on_each_of_its_links() {
    // The textbook's line: all get a half.
    let fabric = line(8);
    let plays = [message(0, 0, 2, 500), message(0, 0, 1, 1_000), message(0, 1, 2, 2_000)];
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!(drained(&outcome, &[2, 1, 1]), [1_000, 1_500, 2_500]);
}

#[test]
fn what_a_bottleneck_leaves_goes_to_the_others() {
    // Three flows on the first link have a third each; the flow on the second has what one of them leaves.
    let fabric = line(8);
    let through = Play { route: Route::Port(PortId(0)), ..message(0, 0, 1, 300) };
    let plays = [message(0, 0, 2, 300), message(0, 0, 1, 300), through, message(0, 1, 2, 600)];
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!(drained(&outcome, &[2, 1, 1, 1]), [900, 900, 900, 900]);
}

#[test]
fn a_parking_lot_is_shared_by_all_who_leave_through_the_same_link() {
    // Every node sends to the last one: the last link is shared by all, no other link limits anyone.
    let fabric = line(12);
    let plays: Vec<Play> = (0..5).map(|src| message(0, src, 5, 1_000)).collect();
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!(drained(&outcome, &[5, 4, 3, 2, 1]), [5_000; 5]);
}

#[test]
fn incast_shares_the_receivers_link() {
    let n = 9;
    let fabric = star(n, RATE, LATENCY);
    let plays: Vec<Play> = (1..n).map(|src| message(0, src, 0, 1_000)).collect();
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!(drained(&outcome, &[2; 8]), [8_000; 8]);
    // A message from the receiver goes the other way and has all of its link.
    let plays: Vec<Play> = plays.into_iter().chain([message(0, 0, 3, 1_000)]).collect();
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!(drained(&outcome, &[2; 9])[8], 1_000);
}

#[test]
fn all_to_all_on_a_switch_takes_what_a_port_takes() {
    for n in [2u32, 3, 8, 64] {
        let fabric = star(n, RATE, LATENCY);
        let pairs = (0..n).flat_map(|src| (0..n).filter(move |&dst| dst != src).map(move |dst| (src, dst)));
        let plays: Vec<Play> = pairs.map(|(src, dst)| message(0, src, dst, 1_000)).collect();
        let outcome = play(flows(&fabric), &fabric, &plays).finished();
        let expected = u64::from(n - 1) * 1_000 * NS + 2 * LATENCY;
        // A share of 1/63 is rounded.
        assert!(outcome.arrivals.iter().all(|t| (expected..=expected + 1).contains(&t.0)), "{n}");
    }
}

#[test]
fn a_slow_link_behind_holds_up_only_its_own_flows() {
    let fabric = torus(&[(4, RATE, LATENCY), (4, RATE / 10, LATENCY)]);
    let plays = [message(0, 0, 5, 100), message(0, 0, 1, 900)];
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    assert_eq!(drained(&outcome, &[2, 1]), [1_000, 1_000]);
}

#[test]
fn messages_that_arrive_together_are_reported_as_they_were_sent() {
    let fabric = line(4);
    let equal = play(flows(&fabric), &fabric, &[message(0, 0, 1, 1_000); 5]).finished();
    let told = equal.reports.iter().find(|r| !r.is_empty()).expect("reports");
    assert_eq!(told, &[0, 1, 2, 3, 4]);
}

#[test]
fn a_message_is_a_flow_once_it_is_fed_completely() {
    let fabric = star(3, RATE, LATENCY);
    let fed = Play { supply: Supply::Every(Ps(100 * NS)), ..message(0, 0, 1, 4 * 256) };
    let outcome = play(flows(&fabric), &fabric, &[fed, message(0, 0, 2, 1_000)]).finished();
    // The last packet is fed after 300 ns; then both drain at a half until the second is done.
    assert_eq!(drained(&outcome, &[2, 2]), [2_024, 1_700]);
    // On one connection the order is that of completion.
    let outcome = play(flows(&fabric), &fabric, &[fed, message(0, 0, 1, 1_000)]).finished();
    assert_eq!(drained(&outcome, &[2, 2]), [2_024, 1_000]);
}

#[test]
fn times_do_not_drift_over_thousands_of_changes() {
    // One long message, and short ones of another connection that come and go: the link is never idle.
    let fabric = line(4);
    let mut plays = vec![message(0, 0, 1, 10_000_000)];
    let through = |i: u64| Play { route: Route::Port(PortId(0)), ..message(i * 997, 0, 1, 500 + i % 7) };
    plays.extend((0..3_000).map(through));
    let short: u64 = plays[1..].iter().map(|p| p.len).sum();
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    let last = outcome.arrivals.iter().max().expect("arrivals").0 - LATENCY;
    let work = (10_000_000 + short) * NS;
    // A flow drains at a whole picosecond; what it does not need of that is lost.
    assert!((work..=work + 3_001).contains(&last), "{} ps late", last as i64 - work as i64);
    assert!(outcome.total_busy.abs_diff(u128::from(work)) <= 3_001);
}

#[test]
fn room_comes_as_the_backlog_drains() {
    let fabric = line(4);
    let mut net = flows(&fabric);
    let mut queue: EventQueue<Event> = EventQueue::new();
    let port = PortId(0);
    let message = |tag| Message {
        src: NodeId(0),
        route: Route::Port(port),
        queue: 0,
        len: Bytes(1_000),
        class: TrafficClass::default(),
        delivery: Delivery::Whole,
        tag,
        receipt: None,
    };
    let mut out = Vec::new();
    net.send(Ps::ZERO, message(0), &mut queue);
    net.send(Ps::ZERO, message(1), &mut queue);
    let room = |net: &mut Flow<Product>, ns: u64, capacity| {
        net.room(Ps(ns * NS), NodeId(0), port, TrafficClass::default(), Bytes(capacity))
    };
    assert_eq!(room(&mut net, 0, 2_000), Room::Now);
    assert_eq!(room(&mut net, 0, 500), Room::At(Ps(1_500 * NS)));
    let (now, _, event) = queue.pop().expect("rates are found");
    net.handle(now, event, &mut queue, &mut out);
    assert_eq!(room(&mut net, 700, 500), Room::At(Ps(1_500 * NS)));
    assert_eq!(room(&mut net, 700, 1_299), Room::At(Ps(701 * NS)));
    assert_eq!(room(&mut net, 700, 1_300), Room::Now);
    assert_eq!(net.room(Ps(700 * NS), NodeId(0), PortId(1), TrafficClass::default(), Bytes(0)), Room::Now);
    // A message that is not complete does not count.
    let open = net.open(message(2));
    net.feed(Ps(700 * NS), open, Bytes(999), &mut queue);
    assert_eq!(room(&mut net, 700, 1_300), Room::Now);
    while let Some((now, _, event)) = queue.pop() {
        net.handle(now, event, &mut queue, &mut out);
    }
    assert_eq!(room(&mut net, 2_100, 0), Room::Now);
    assert_eq!(out.iter().filter(|news| matches!(news, NetOut::Arrived { .. })).count(), 2);
}

/// Two flows of 2,000 bytes, each its own message after one of 500, into one receiver, until they end or for so long.
fn into_one_receiver(fabric: &Product, until: Ps) -> Flow<Product> {
    let mut net = Flow::new(fabric.clone(), Ps(1_000 * NS));
    let mut queue: EventQueue<Event> = EventQueue::new();
    for (src, len) in [(1, 500), (2, 500), (1, 1_500), (2, 1_500)] {
        let message = Message {
            src: NodeId(src),
            route: Route::To(NodeId(0)),
            len: Bytes(len),
            queue: 0,
            class: TrafficClass::default(),
            delivery: Delivery::Whole,
            tag: 0,
            receipt: None,
        };
        net.send(Ps::ZERO, message, &mut queue);
    }
    let mut out = Vec::new();
    while let Some((now, _, event)) = queue.pop().filter(|&(now, ..)| now <= until) {
        net.handle(now, event, &mut queue, &mut out);
    }
    net
}

#[test]
fn a_shared_link_is_busy_for_its_part() {
    // The receiver's link is busy throughout, each sender's link for half of the time.
    let fabric = star(3, RATE, LATENCY);
    let net = into_one_receiver(&fabric, Ps::MAX);
    let usage = net.usage();
    let receiver = fabric.first_link(NodeId(3));
    assert_eq!((usage.busy(receiver), usage.bytes(receiver)), (Ps(4_000 * NS), Bytes(4_000)));
    for src in [1, 2] {
        let link = fabric.first_link(NodeId(src));
        assert_eq!((usage.busy(link), usage.bytes(link)), (Ps(2_000 * NS), Bytes(2_000)));
    }
    assert_eq!(usage.windows()[0].busy(), [u128::from(2_000 * NS); 4], "one link and two halves in each microsecond");
}

#[test]
fn of_a_run_that_is_cut_short_links_have_what_they_moved() {
    let fabric = star(3, RATE, LATENCY);
    for end in [0, 1, 700, 1_500, 2_600, 3_999, 4_000].map(|ns| Ps(ns * NS)) {
        let mut net = into_one_receiver(&fabric, end);
        net.finish(end);
        let usage = net.usage();
        let receiver = fabric.first_link(NodeId(3));
        assert_eq!((usage.busy(receiver), usage.bytes(receiver)), (end, Bytes((end.0 / NS).next_multiple_of(2))));
        for src in [1, 2] {
            let link = fabric.first_link(NodeId(src));
            assert_eq!((usage.busy(link), usage.bytes(link)), (Ps(end.0 / 2), Bytes((end.0 / NS).div_ceil(2))));
        }
        assert_eq!(usage.windows()[0].busy().iter().sum::<u128>(), 2 * u128::from(end.0));
    }
}

/// A product of one or two dimensions of any kind.
fn random_fabric(rng: &mut SplitMix64) -> Product {
    let rates = [25_600_000_000, 25_600_000_000, 188_000_000_000, 23_500_000_000];
    let dims = 1 + rng.below(2);
    let dimension = |_| Dimension {
        block: [Block::Ring, Block::FullyConnected, Block::Switch][rng.below(3)],
        size: 2 + rng.below(5) as u32,
        rate: Rate::new(rates[rng.below(rates.len())]).expect("positive"),
        latency: Ps([1_000, 72_289, 401_606][rng.below(3)]),
        links: 1 + rng.below(2) as u16,
    };
    Product::new((0..dims).map(dimension).collect()).expect("a small product")
}

/// The links of a message's way.
fn links_of(fabric: &Product, play: &Play) -> Vec<(u32, Rate)> {
    let mut path = Vec::new();
    play.route.append(fabric, play.src, &mut path);
    let mut at = play.src;
    let mut link = |&port: &PortId| {
        let link = (fabric.first_link(at) + u32::from(port.0), fabric.link(at, port).rate);
        at = fabric.next(at, port).0;
        link
    };
    path.iter().map(&mut link).collect()
}

fn random_plays(rng: &mut SplitMix64, fabric: &Product, count: usize, spread: u64) -> Vec<Play> {
    let nodes = u64::from(fabric.npus());
    let play = |_| {
        let (src, dst) = (below(rng, nodes) as u32, below(rng, nodes) as u32);
        let len = 256 * (1 + below(rng, 400));
        Play { at: Ps(below(rng, spread + 1)), ..Play::whole(src, Route::To(NodeId(dst)), len) }
    };
    (0..count).map(play).collect()
}

/// When the last message has arrived.
fn end(outcome: &Outcome) -> f64 {
    outcome.arrivals.iter().max().expect("arrivals").as_s()
}

#[test]
fn random_loads_keep_the_bounds_of_their_links() {
    for case in 0..300 {
        let rng = &mut SplitMix64(case);
        let fabric = random_fabric(rng);
        let count = 1 + rng.below(200);
        let plays = random_plays(rng, &fabric, count, 2_000_000);
        let outcome = play(flows(&fabric), &fabric, &plays).finished();
        let mut work = vec![0u64; fabric.links() as usize];
        let mut all = 0u64;
        for (p, arrival) in plays.iter().zip(&outcome.arrivals) {
            let links = links_of(&fabric, p);
            let alone = links.iter().map(|l| l.1.time(Bytes(p.len)).0).max().unwrap_or(0);
            assert!(arrival.0 >= p.at.0 + alone, "SEED={case}: sooner than alone");
            for (link, rate) in links {
                work[link as usize] += rate.time(Bytes(p.len)).0;
                all += 1;
            }
        }
        let end = outcome.arrivals.iter().max().expect("arrivals").0;
        assert!(end >= *work.iter().max().expect("links"), "SEED={case}: more than a link can");
        let busy: u128 = work.iter().map(|&w| u128::from(w)).sum();
        assert!(outcome.total_busy.abs_diff(busy) <= u128::from(2 * all), "SEED={case}: busy time is lost");
    }
}

#[test]
fn loaded_fabrics_take_about_as_long_as_with_packets() {
    // The bounds are findings, not laws: see the documentation of the flow backend for the reasons.
    let mut ratios = Vec::new();
    for case in 0..150 {
        let rng = &mut SplitMix64(case);
        let fabric = random_fabric(rng);
        let (count, spread) = (20 + rng.below(200), [0, 1_000_000, 10_000_000][case as usize % 3]);
        let plays = random_plays(rng, &fabric, count, spread);
        let fluid = end(&play(flows(&fabric), &fabric, &plays).finished());
        let with = |rule, buffer| {
            let net = packets(&fabric, rule, buffer, true);
            end(&play(net, &fabric, &plays).finished()) / fluid
        };
        let never_full = with(DeadlockRule::Bubble, Some(1 << 20));
        for ratio in [never_full, with(DeadlockRule::Bubble, None), with(DeadlockRule::Dateline, None)] {
            assert!((0.85..1.9).contains(&ratio), "SEED={case}: {ratio} times as long");
        }
        ratios.push(never_full);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    assert!((0.98..1.05).contains(&median), "in the median {median} times as long");
}

/// One node of a ring that stands for all of them: its links lead back to it.
#[derive(Debug)]
struct Folded;

impl Fabric for Folded {
    fn nodes(&self) -> u32 {
        1
    }

    fn npus(&self) -> u32 {
        1
    }

    fn ports(&self, _: NodeId) -> u16 {
        2
    }

    fn first_link(&self, _: NodeId) -> u32 {
        0
    }

    fn links(&self) -> u32 {
        2
    }

    fn next(&self, node: NodeId, port: PortId) -> (NodeId, PortId) {
        (node, PortId(1 - port.0))
    }

    fn link(&self, _: NodeId, _: PortId) -> LinkSpec {
        LinkSpec { rate: Rate::new(RATE).expect("positive"), latency: Ps(LATENCY), class: 0 }
    }

    fn class_names(&self) -> Vec<String> {
        vec!["ring".to_owned()]
    }

    fn route(&self, _: NodeId, dst: NodeId, path: &mut Vec<PortId>) {
        path.extend((0..dst.0).map(|_| PortId(0)));
    }

    fn node_name(&self, _: NodeId) -> String {
        "NPU".to_owned()
    }

    fn port_name(&self, _: NodeId, port: PortId) -> String {
        port.0.to_string()
    }
}

#[test]
fn a_link_that_stands_for_all_shares_like_all() {
    // Every node sends one, two and three hops up. On the folded ring a route takes its link as often.
    let (n, lens) = (9, [700, 1_234, 4_321]);
    let sends = |src| (1..).zip(lens).map(move |(hops, len)| message(0, src, (src + hops) % n, len));
    let whole = play(flows(&line(n)), &line(n), &(0..n).flat_map(sends).collect::<Vec<_>>()).finished();
    let mut net = Flow::new(Folded, Ps(1_000_000));
    let (mut queue, mut out) = (EventQueue::<Event>::new(), Vec::new());
    for (hops, len) in (1..).zip(lens) {
        let (route, tag) = (Route::To(NodeId(hops)), u64::from(hops - 1));
        let message = Message {
            src: NodeId(0),
            route,
            queue: 0,
            len: Bytes(len),
            class: TrafficClass::default(),
            delivery: Delivery::Whole,
            tag,
            receipt: None,
        };
        net.send(Ps::ZERO, message, &mut queue);
    }
    let mut arrivals = [Ps::MAX; 3];
    while let Some((now, _, event)) = queue.pop() {
        net.handle(now, event, &mut queue, &mut out);
        for news in out.drain(..) {
            let NetOut::Arrived { tag, .. } = news else { continue };
            arrivals[tag as usize] = now;
        }
    }
    assert!(whole.arrivals.chunks(3).all(|node| node == arrivals), "{arrivals:?}");
    assert_eq!(whole.total_busy, u128::from(n) * u128::from(net.usage().busy(0).0));
}

#[test]
fn thousands_of_flows_finish() {
    // 30 messages from each of 256 nodes to random ones, of random length: nearly all end at a time of
    // their own, and all change the rates of all others.
    let fabric = star(256, 25_000_000_000, LATENCY);
    let rng = &mut SplitMix64(9);
    let plays = random_plays(rng, &fabric, 256 * 30, 1_000);
    let outcome = play(flows(&fabric), &fabric, &plays).finished();
    let shuffled = play_shuffled(flows(&fabric), &fabric, &plays, 1).finished();
    assert_eq!((outcome.arrivals, outcome.total_busy), (shuffled.arrivals, shuffled.total_busy));
}
