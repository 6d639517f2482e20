//! Ethernet whose links are served frame by frame: RoCE, pauses, shared buffers, DCQCN.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_core::table::{Table, Values};
use syncline_core::{Bytes, EventQueue, Key, NodeId, PortId, Ps, Rate, Schedule, Wait};
use syncline_network::ethernet::background::{Sizes, Source};
use syncline_network::ethernet::config::EthernetConfig;
use syncline_network::ethernet::link::{Condition, Marking};
use syncline_network::ethernet::roce::dcqcn::DcqcnConfig;
use syncline_network::ethernet::roce::{Repeat, RoceConfig};
use syncline_network::ethernet::switching::SwitchingConfig;
use syncline_network::ethernet::switching::buffer::Sharing;
use syncline_network::ethernet::tcp::TcpConfig;
use syncline_network::ethernet::{self, Ethernet};
use syncline_network::{Delivery, Message, NetOut, Network, Route, TrafficClass};
use syncline_topology::{Block, Dimension, Fabric, Graph, GraphLink, GraphNode, LinkSpec, Product};

pub(crate) const GBPS: u64 = 125_000_000;
pub(crate) const US: u64 = 1_000_000;

/// First come, first served, each port with its buffer.
const PLAIN: SwitchingConfig = SwitchingConfig {
    sharing: Sharing::PerPort,
    flow_control: false,
    headroom: None,
    per_connection: false,
    control_first: false,
};
pub(crate) const RDMA: SwitchingConfig =
    SwitchingConfig { flow_control: true, per_connection: true, control_first: true, ..PLAIN };

pub(crate) fn roce(roce: RoceConfig, switching: SwitchingConfig) -> EthernetConfig {
    let marking = match roce.dcqcn {
        Some(_) => Marking::Red { least: 5_000, most: 200_000, millionths: 10_000 },
        None => Marking::None,
    };
    EthernetConfig { roce: Some(roce), switching: Some(switching), overhead: 62, marking, ..EthernetConfig::NS3 }
}

pub(crate) fn star(hosts: u32, gbps: u64, latency: u64) -> Product {
    let rate = Rate::new(gbps * GBPS).expect("positive");
    let link = Dimension { block: Block::Switch, size: hosts, rate, latency: Ps(latency), links: 1 };
    Product::new(vec![link]).expect("a star")
}

/// From, to, bytes, at.
pub(crate) type Send = (u32, u32, u64, u64);

/// One of these messages, with its place as tag.
pub(crate) fn message(sends: &[Send], i: usize) -> Message {
    let (src, dst, len, _) = sends[i];
    Message {
        src: NodeId(src),
        route: Route::To(NodeId(dst)),
        queue: 0,
        len: Bytes(len),
        class: TrafficClass::default(),
        delivery: Delivery::Whole,
        tag: i as u64,
        receipt: None,
    }
}

pub(crate) struct Outcome {
    pub(crate) arrivals: Vec<Option<u64>>,
    pub(crate) failed: usize,
    pub(crate) waits: Vec<Wait>,
    pub(crate) tables: BTreeMap<String, Table>,
}

impl Outcome {
    pub(crate) fn total(&self, table: &str, column: &str) -> i64 {
        match self.tables[table].values(column) {
            Some(Values::Int(values)) => values.iter().sum(),
            other => panic!("{column}: {other:?}"),
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.arrivals.iter().map(|at| at.expect("everything arrives")).max().unwrap_or(0)
    }
}

#[derive(Clone, Copy)]
enum Event {
    Network(ethernet::Event),
    Begin(usize),
}

impl From<ethernet::Event> for Event {
    fn from(event: ethernet::Event) -> Event {
        Event::Network(event)
    }
}

struct Timers<'a>(&'a mut EventQueue<Event>);

impl Schedule<ethernet::Event> for Timers<'_> {
    fn at(&mut self, time: Ps, key: Key, event: ethernet::Event) {
        self.0.push(time, key, event.into());
    }
}

pub(crate) fn run<F: Fabric>(
    fabric: F,
    config: EthernetConfig,
    sends: &[Send],
    changes: &[(u64, u32, u16, Condition)],
) -> Outcome {
    let mut net = Ethernet::new(fabric, config, &[]);
    for &(at, node, port, to) in changes {
        net.change_at(Ps(at), NodeId(node), PortId(port), to);
    }
    drive(net, sends)
}

pub(crate) fn drive<F: Fabric>(mut net: Ethernet<F>, sends: &[Send]) -> Outcome {
    let mut queue = EventQueue::new();
    for (i, send) in sends.iter().enumerate() {
        queue.push(Ps(send.3), Key::new(1, i as u32), Event::Begin(i));
    }
    let mut outcome = Outcome { arrivals: vec![None; sends.len()], failed: 0, waits: vec![], tables: BTreeMap::new() };
    let (mut out, mut last) = (Vec::new(), Ps::ZERO);
    while let Some((now, _, event)) = queue.pop() {
        last = now;
        match event {
            Event::Network(event) => net.handle(now, event, &mut Timers(&mut queue), &mut out),
            Event::Begin(i) => {
                net.send(now, message(sends, i), &mut Timers(&mut queue));
            }
        }
        for news in out.drain(..) {
            match news {
                NetOut::Arrived { tag, .. } => {
                    assert_eq!(outcome.arrivals[tag as usize].replace(now.0), None, "once");
                }
                NetOut::Failed { .. } => outcome.failed += 1,
                _ => {}
            }
        }
    }
    net.finish(last);
    let books = net.books();
    assert!(books.in_flight().is_some(), "{books:?}");
    outcome.waits = net.waits();
    outcome.tables = net.counters().into_iter().map(|table| (table.name.to_string(), table)).collect();
    outcome
}

pub(crate) fn incast(hosts: u32, len: u64) -> Vec<Send> {
    (1..hosts).map(|host| (host, 0, len, 0)).collect()
}

/// A frame of 1024 B has 1086 B on the wire: at 100 Gb/s 86.88 ns on each of two links, one after the other on the first.
#[test]
fn a_message_takes_the_time_of_its_frames() {
    let outcome = run(star(2, 100, 500_000), roce(RoceConfig::DEFAULT, RDMA), &[(0, 1, 10 * 1024 + 100, 0)], &[]);
    assert_eq!(outcome.end(), 11 * 86_880 + 162 * 80 + 2 * 500_000);
    assert_eq!(outcome.total("transport", "segments_sent"), 11);
    assert_eq!(outcome.total("transport", "retransmissions"), 0);
}

/// A host that posts one message at a time hands its last byte to the port before it posts the next one: the windows of two
/// connections do not add up.
#[test]
fn messages_wait_for_those_that_are_outstanding() {
    let window = 10 * 1448;
    let sends = [(0, 1, 10 * window, 0), (0, 2, 1448, 0), (0, 1, 1448, 0), (3, 2, 1448, 0)];
    let with = |outstanding| {
        let tcp = TcpConfig { window, ..TcpConfig::NS3 };
        let config = EthernetConfig { tcp, outstanding: NonZeroU32::new(outstanding), ..EthernetConfig::NS3 };
        run(star(4, 100, 500_000), config, &sends, &[]).arrivals.into_iter().map(Option::unwrap).collect::<Vec<u64>>()
    };
    let (all, one) = (with(0), with(1));
    assert_eq!((one[0], one[3]), (all[0], all[3]), "nothing is ahead of these");
    // The window of the first connection is full after ten frames; the other message leaves behind them.
    assert_eq!(all[1], 11 * 1502 * 80 + 1502 * 80 + 2 * 500_000);
    // One at a time, it leaves right behind the last of a hundred frames. The third waits for its window in either case.
    assert_eq!(one[1], one[0] + 1502 * 80);
    assert_eq!(one[2], all[2]);
    assert_eq!(with(2)[1], all[1], "two at a time");
}

/// What first come, first served does is the same whether the order is known in advance or found frame by frame.
#[test]
fn links_that_are_served_do_what_links_do() {
    for (hosts, len, buffer) in [(2, 3_000_000, 1 << 19), (9, 400_000, 20_000), (17, 100_000, 60_000)] {
        let sends: Vec<Send> = (1..hosts).map(|host| (host, 0, len, u64::from(host) * 37_123)).collect();
        let config = EthernetConfig { tcp: TcpConfig::RFC, buffer, ..EthernetConfig::NS3 };
        let fast = run(star(hosts, 100, 500_000), config.clone(), &sends, &[]);
        let served = EthernetConfig { switching: Some(PLAIN), ..config };
        let slow = run(star(hosts, 100, 500_000), served, &sends, &[]);
        assert_eq!(fast.arrivals, slow.arrivals);
        for column in ["segments_sent", "retransmissions", "drops", "rto_events", "max_queue_bytes"] {
            assert_eq!(fast.total("transport", column), slow.total("transport", column), "{column}");
        }
        assert_eq!(fast.total("queues", "mean_wait_ps"), slow.total("queues", "mean_wait_ps"));
    }
}

/// Pauses keep the buffer from overflowing, and the bottleneck busy.
#[test]
fn an_incast_without_losses_takes_the_time_of_its_bytes() {
    let outcome = run(star(17, 100, 500_000), roce(RoceConfig::DEFAULT, RDMA), &incast(17, 1 << 20), &[]);
    assert_eq!((outcome.total("transport", "drops"), outcome.total("transport", "retransmissions")), (0, 0));
    assert!(outcome.total("transport", "pauses") > 0);
    let bytes = 16 * 1024 * 1086;
    let least = Rate::new(100 * GBPS).expect("positive").time(Bytes(bytes)).0;
    assert!(outcome.end() > least && outcome.end() < least + 10 * US, "{} {least}", outcome.end());
}

#[test]
fn without_pauses_an_incast_loses_frames_and_gets_there() {
    let without = SwitchingConfig { flow_control: false, ..RDMA };
    for repeat in [Repeat::GoBackN, Repeat::Selective] {
        let config = RoceConfig { repeat, timeout: Ps(500 * US), ..RoceConfig::DEFAULT };
        let outcome = run(star(9, 100, 500_000), roce(config, without), &incast(9, 1 << 20), &[]);
        outcome.end();
        assert!(outcome.total("transport", "drops") > 0);
    }
}

/// Selective repeat sends again what was lost; go-back-N as much as was under way with each of them, about 26 frames of a round trip
/// of 2.3 us.
#[test]
fn what_is_sent_again_is_what_is_lost_or_everything_from_there_on() {
    let lossy = Condition { rate: Rate::new(100 * GBPS), latency: Ps(500_000), loss_millionths: 2_000 };
    let resent = |repeat| {
        let config = RoceConfig { repeat, timeout: Ps(500 * US), ..RoceConfig::DEFAULT };
        let outcome = run(star(2, 100, 500_000), roce(config, RDMA), &[(0, 1, 20 << 20, 0)], &[(0, 0, 0, lossy)]);
        (outcome.total("transport", "retransmissions"), outcome.total("transport", "drops"))
    };
    let (again, lost) = resent(Repeat::Selective);
    assert!(lost > 20 && again >= lost && again <= lost + 2, "{again} {lost}");
    let (again, lost) = resent(Repeat::GoBackN);
    assert!((20 * lost..32 * lost).contains(&again), "{again} {lost}");
}

/// With less headroom than what is on its way, frames are lost although their senders pause.
#[test]
fn too_little_headroom_loses_frames() {
    let drops = |headroom| {
        let switching = SwitchingConfig { headroom: Some(headroom), ..RDMA };
        run(star(9, 100, 5_000_000), roce(RoceConfig::DEFAULT, switching), &incast(9, 1 << 22), &[])
            .total("transport", "drops")
    };
    // 10 us there and back at 12.5 GB/s, and three frames.
    assert!(drops(100_000) > 0);
    assert_eq!(drops(130_000), 0);
}

fn graph(npus: u32, switches: u32, pairs: &[(u32, u32)], gbps: u64) -> Graph {
    let node = |n: u32| GraphNode {
        name: if n < npus { format!("GPU {n}") } else { format!("switch {}", n - npus) },
        forwards: false,
    };
    let rate = Rate::new(gbps * GBPS).expect("positive");
    let link = |from, to| GraphLink { from: NodeId(from), to: NodeId(to), spec: LinkSpec::new(rate, Ps(500_000), 0) };
    let links = pairs.iter().flat_map(|&(a, b)| [link(a, b), link(b, a)]).collect();
    let everybody: Vec<NodeId> = (0..npus).map(NodeId).collect();
    Graph::new((0..npus + switches).map(node).collect(), npus, vec!["link".into()], links, &everybody)
        .expect("connected")
}

/// Four switches in a ring, each with a host that sends to the one two switches on: every link of the ring waits for the next.
#[test]
fn pauses_round_a_ring_end_in_a_deadlock_that_is_named() {
    let ring: Vec<(u32, u32)> = (0..5).flat_map(|i| [(i, 5 + i), (5 + i, 5 + (i + 1) % 5)]).collect();
    let sends: Vec<Send> = (0..5).flat_map(|i| std::iter::repeat_n((i, (i + 2) % 5, 1 << 24, 0), 2)).collect();
    let config = EthernetConfig { buffer: 40_000, ..roce(RoceConfig::DEFAULT, RDMA) };
    let outcome = run(Arc::new(graph(5, 5, &ring, 100)), config.clone(), &sends, &[]);
    // Flows that arrive beside the run would do so for ever, but end with it.
    let (from, sizes) = ((0..5).map(NodeId).collect::<Vec<_>>(), Sizes::fixed(1000).expect("a size"));
    let background = vec![Source::Poisson { to: from.clone(), from, load_millionths: 10_000, sizes }];
    let beside = run(Arc::new(graph(5, 5, &ring, 100)), EthernetConfig { background, ..config }, &sends, &[]);
    assert_eq!(beside.waits.iter().filter(|wait| wait.what.contains("deadlock")).count(), 5);
    assert!(outcome.arrivals.iter().any(Option::is_none));
    let first = &outcome.waits[0];
    assert!(first.who.starts_with("the link from switch"), "{first:?}");
    assert!(first.what.contains("PFC deadlock"), "{first:?}");
    assert_eq!(outcome.waits.iter().filter(|wait| wait.what.contains("deadlock")).count(), 5);
    // With a link less there is no ring, and no deadlock.
    let line: Vec<(u32, u32)> = ring.into_iter().filter(|&pair| pair != (9, 5)).collect();
    let config = EthernetConfig { buffer: 40_000, ..roce(RoceConfig::DEFAULT, RDMA) };
    run(Arc::new(graph(5, 5, &line, 100)), config, &sends, &[]).end();
}

/// Two switches: an incast behind the second one makes it pause the link between them, and a flow that shares that link but not
/// the bottleneck suffers.
#[test]
fn pauses_propagate_to_those_who_do_not_cause_them() {
    let pairs = [(0, 6), (1, 6), (2, 6), (3, 7), (4, 7), (5, 7), (6, 7)];
    let mut sends: Vec<Send> = vec![(2, 4, 1 << 21, 0)];
    let alone = run(Arc::new(graph(6, 2, &pairs, 100)), roce(RoceConfig::DEFAULT, RDMA), &sends, &[]).end();
    sends.extend([(0, 3, 1 << 22, 0), (1, 3, 1 << 22, 0), (5, 3, 1 << 22, 0)]);
    let outcome = run(Arc::new(graph(6, 2, &pairs, 100)), roce(RoceConfig::DEFAULT, RDMA), &sends, &[]);
    let victim = outcome.arrivals[0].expect("it arrives");
    assert_eq!(outcome.total("transport", "drops"), 0);
    // With a third of the link it would take three times as long; the two others have 2/3 of the bottleneck, as by turns.
    assert!(victim > 2 * alone, "{victim} {alone}");
    assert!(outcome.total("transport", "pauses") > 10);
}

/// The fluid model of DCQCN (Zhu et al., "ECN or Delay", CoNEXT 2016, equation 11) has all flows at their share, and marks of a
/// probability that is the cube root of R_AI N^2 / (tau' C^2) (1/B + N / (T C))^2, in packets. What comes before the fixed point
/// is the same in a shorter run, and is taken off. (With eight flows the rates oscillate, and the fixed point is not reached.)
#[test]
fn dcqcn_shares_a_bottleneck_and_marks_as_often_as_its_fluid_model() {
    for flows in [2_u32, 4] {
        let config = RoceConfig { dcqcn: Some(DcqcnConfig::PUBLISHED), ..RoceConfig::DEFAULT };
        let config = EthernetConfig { buffer: 4 << 20, ..roce(config, RDMA) };
        let run = |len| {
            let outcome = run(star(flows + 1, 40, 500_000), config.clone(), &incast(flows + 1, len), &[]);
            assert_eq!(outcome.total("transport", "drops"), 0);
            (outcome.end(), outcome.total("transport", "marks") as f64, outcome)
        };
        let len = 50_000_000;
        let (short, long) = (run(len), run(4 * len));
        let frames = f64::from(flows) * (3 * len) as f64 / 1024.0;
        let line = 40.0 / 8.0 / 1086.0 * 1e9; // packets a second
        let step = DcqcnConfig::PUBLISHED.additive / 1086.0;
        let tau = 55e-6;
        let n = f64::from(flows);
        let sum = 1086.0 / 1e7 + n / (tau * line);
        let p = (step * n * n / (tau * line * line) * sum * sum).cbrt();
        let marked = (long.1 - short.1) / frames;
        assert!((marked / p - 1.0).abs() < 0.1, "{flows} flows: {marked} {p}");
        let (taken, least) = ((long.0 - short.0) as f64, frames / line * 1e12);
        assert!(taken < 1.03 * least, "{flows} flows: {taken} {least}");
        let first = long.2.arrivals.iter().flatten().min().expect("one");
        assert!(*first > long.0 * 9 / 10, "{flows} flows: {:?}", long.2.arrivals);
    }
}

/// The last frames of a message get lost: nothing is on a link until the timeout, but for the round trip.
#[test]
fn time_that_only_timeouts_end_is_counted() {
    let down = Condition { rate: None, latency: Ps(500_000), loss_millionths: 0 };
    let up = Condition { rate: Rate::new(100 * GBPS), ..down };
    let config = EthernetConfig { tcp: TcpConfig::RFC, ..EthernetConfig::NS3 };
    let changes = [(300_000, 0, 0, down), (10 * US, 0, 0, up)];
    let outcome = run(star(2, 100, 500_000), config, &[(0, 1, 1448, 0)], &changes);
    let alone = 2 * 120_160 + 2 * 500_000;
    assert_eq!(outcome.total("transport", "rto_events"), 1);
    assert_eq!(outcome.end(), 50_000 * US + alone);
    assert_eq!(outcome.total("transport", "rto_stalled_ps"), 50_000 * US as i64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the rates, latencies, sizes and the buffer: with headroom for what is on its way nothing is lost.
    #[test]
    fn pauses_lose_nothing(
        hosts in 3u32..12, gbps in prop::sample::select(vec![10u64, 100, 400]), latency in 0u64..3_000_000,
        len in 1u64..600_000, spare in 2_500u64..100_000, dynamic in any::<bool>(), back in any::<bool>(),
    ) {
        let headroom = 2 * gbps * latency / 8000 + 4 * 1086 + 128;
        let sharing = if dynamic { Sharing::Dynamic(256) } else { Sharing::PerPort };
        let repeat = if back { Repeat::GoBackN } else { Repeat::Selective };
        let config = RoceConfig { repeat, ..RoceConfig::DEFAULT };
        let config = EthernetConfig { buffer: headroom + spare, ..roce(config, SwitchingConfig { sharing, ..RDMA }) };
        let mut sends = incast(hosts, len);
        sends.extend((0..hosts).map(|host| (host, (host + 1) % hosts, len / 2 + 1, u64::from(host) * 1000)));
        let outcome = run(star(hosts, gbps, latency), config, &sends, &[]);
        outcome.end();
        prop_assert_eq!(outcome.total("transport", "drops"), 0);
        prop_assert_eq!(outcome.total("transport", "retransmissions"), 0);
    }

    /// Whatever gets lost, and however little room there is: every byte arrives once, or the connection is given up; the same
    /// seed gives the same run.
    #[test]
    fn everything_arrives_or_is_given_up(
        hosts in 2u32..7, len in 0u64..300_000, loss in 0u32..300_000, buffer in 1_100u64..60_000, seed in 0u64..100,
        selective in any::<bool>(), pauses in any::<bool>(), dynamic in any::<bool>(), window in 100u64..200_000,
        down in prop::option::of((0u64..400, 1u64..2_000)), every in 1u32..5, tcp in any::<bool>(), fifo in any::<bool>(),
        outstanding in 0u32..4,
    ) {
        let sharing = if dynamic { Sharing::Dynamic(128) } else { Sharing::PerPort };
        let headroom = Some(buffer / 2);
        let switching = SwitchingConfig {
            sharing, headroom, flow_control: pauses, per_connection: !tcp || !fifo, control_first: !tcp,
        };
        let repeat = if selective { Repeat::Selective } else { Repeat::GoBackN };
        let timeout = Ps(200 * US);
        let pairs = RoceConfig { repeat, window, timeout, acknowledge_every: every, ..RoceConfig::DEFAULT };
        let outstanding = NonZeroU32::new(outstanding);
        let mut config = EthernetConfig { buffer, seed, outstanding, ..roce(pairs, switching) };
        if tcp {
            let min_rto = Ps(200 * US);
            config = EthernetConfig { roce: None, tcp: TcpConfig { segment: 1000, min_rto, ..TcpConfig::RFC }, ..config };
        }
        let rate = Rate::new(100 * GBPS);
        let lossy = Condition { rate, latency: Ps(500_000), loss_millionths: loss };
        let mut changes = vec![(0, 0, 0, lossy)];
        if let Some((at, long)) = down {
            changes.push((at * US, 1, 0, Condition { rate: None, ..lossy }));
            changes.push(((at + long) * US, 1, 0, Condition { loss_millionths: 0, ..lossy }));
        }
        let mut sends: Vec<Send> = incast(hosts, len);
        sends.extend((1..hosts).map(|host| (0, host, len / 3, u64::from(host) * 5 * US)));
        let once = || {
            let outcome = run(star(hosts, 100, 500_000), config.clone(), &sends, &changes);
            let arrived = outcome.arrivals.iter().flatten().count();
            assert_eq!(arrived + outcome.failed, sends.len(), "{:?}", outcome.waits);
            (outcome.arrivals.clone(), outcome.total("transport", "segments_sent"), outcome.total("transport", "drops"))
        };
        prop_assert_eq!(once(), once());
    }
}

/// Two servers: GPUs 0 and 1 with a switch of their own, and each with a NIC behind a slower local link; GPUs 2 and 3 likewise.
fn servers() -> Arc<Graph> {
    let (npus, names) = (4, ["switch A", "switch B", "NIC 0", "NIC 1", "NIC 2", "NIC 3", "network"]);
    let names = (0..npus).map(|n| format!("GPU {n}")).chain(names.map(String::from));
    let nodes = names.map(|name| GraphNode { name, forwards: false }).collect();
    let link = |from: u32, to: u32, gbps: u64, class| {
        let spec = LinkSpec::new(Rate::new(gbps * GBPS).expect("positive"), Ps(500_000), class);
        GraphLink { from: NodeId(from), to: NodeId(to), spec }
    };
    let mut pairs = vec![(0, 4, 800, 0), (1, 4, 800, 0), (2, 5, 800, 0), (3, 5, 800, 0)];
    pairs.extend((0..4).flat_map(|gpu| [(gpu, 6 + gpu, 200, 0), (6 + gpu, 10, 100, 1)]));
    let links = pairs.iter().flat_map(|&(a, b, gbps, class)| [link(a, b, gbps, class), link(b, a, gbps, class)]);
    let everybody: Vec<NodeId> = (0..npus).map(NodeId).collect();
    let classes = vec!["NVLink".into(), "InfiniBand".into()];
    Arc::new(Graph::new(nodes, npus, classes, links.collect(), &everybody).expect("connected"))
}

fn on_servers(config: EthernetConfig) -> EthernetConfig {
    EthernetConfig { local_classes: vec![0], ..config }
}

/// Within a server no header, no acknowledgement, no window: bytes at the rate of the links. The last frame crosses two.
#[test]
fn links_of_a_machine_have_no_transport() {
    let config = on_servers(EthernetConfig { tcp: TcpConfig::RFC, ..EthernetConfig::NS3 });
    let outcome = run(servers(), config, &[(0, 1, 1000 * 1448, 0)], &[]);
    assert_eq!(outcome.end(), 1001 * 14_480 + 2 * 500_000);
    assert_eq!((outcome.total("transport", "segments_sent"), outcome.total("queues", "frames")), (0, 2000));
}

/// Between servers the bottleneck is the network, with headers; what comes before and after it is latency and three frames.
#[test]
fn a_transport_runs_between_nics() {
    for config in [roce(RoceConfig::DEFAULT, RDMA), EthernetConfig { tcp: TcpConfig::RFC, ..EthernetConfig::NS3 }] {
        let (segment, overhead) = (u64::from(config.segment()), u64::from(config.overhead));
        let outcome = run(servers(), on_servers(config), &[(0, 2, 1000 * segment, 0)], &[]);
        let bottleneck = 1001 * (segment + overhead) * 80 + 2 * segment * 40 + 4 * 500_000;
        // The first window of TCP is ten segments, and its round trip between NICs a little over 2 us.
        assert!((bottleneck..bottleneck + 2 * US).contains(&outcome.end()), "{} {bottleneck}", outcome.end());
        assert_eq!(outcome.total("transport", "segments_sent"), 1000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost between servers, and whatever links of machines go down: bytes arrive once.
    #[test]
    fn everything_arrives_across_servers(
        sends in prop::collection::vec((0u32..4, 0u32..4, 0u64..200_000, 0u64..20_000_000), 1..12),
        loss in 0u32..100_000, buffer in 2_000u64..60_000, selective in any::<bool>(), tcp in any::<bool>(),
        pauses in any::<bool>(), broken in prop::option::of((0u64..30, 1u64..500)), seed in 0u64..50, outstanding in 0u32..3,
    ) {
        let repeat = if selective { Repeat::Selective } else { Repeat::GoBackN };
        let pairs = RoceConfig { repeat, timeout: Ps(200 * US), retries: 100, ..RoceConfig::DEFAULT };
        let mut config = roce(pairs, SwitchingConfig { flow_control: pauses, headroom: Some(buffer / 3), ..RDMA });
        if tcp {
            let min_rto = Ps(200 * US);
            let tcp = TcpConfig { segment: 1000, min_rto, retries: 100, ..TcpConfig::RFC };
            config = EthernetConfig { roce: None, switching: None, tcp, ..config };
        }
        config = on_servers(EthernetConfig { buffer, seed, outstanding: NonZeroU32::new(outstanding), ..config });
        let lossy = Condition { rate: Rate::new(100 * GBPS), latency: Ps(500_000), loss_millionths: loss };
        let mut changes = vec![(0, 10, 0, lossy)];
        if let Some((at, long)) = broken {
            let up = Condition { rate: Rate::new(800 * GBPS), latency: Ps(500_000), loss_millionths: 0 };
            changes.push((at * US, 0, 0, Condition { rate: None, ..up }));
            changes.push(((at + long) * US, 0, 0, up));
        }
        let outcome = run(servers(), config, &sends, &changes);
        prop_assert_eq!(outcome.arrivals.iter().flatten().count(), sends.len(), "{:?}", outcome.waits);
    }
}

/// What happened when, and how long messages took: a flow alone takes what it takes alone, and one of two at a bottleneck twice that.
#[test]
fn tables_tell_when_and_how_long() {
    let lone = run(star(3, 100, 500_000), roce(RoceConfig::DEFAULT, RDMA), &[(1, 0, 1 << 20, 0)], &[]);
    let slowdown = |outcome: &Outcome| match outcome.tables["slowdowns"].values("slowdown") {
        Some(Values::Float(values)) => values.clone(),
        other => panic!("{other:?}"),
    };
    assert!(slowdown(&lone).iter().all(|times| (1.0..1.005).contains(times)), "{:?}", slowdown(&lone));
    assert_eq!(lone.total("completions", "messages"), 1);
    let pair = run(star(3, 100, 500_000), roce(RoceConfig::DEFAULT, RDMA), &incast(3, 1 << 20), &[]);
    assert!(slowdown(&pair).iter().all(|&times| (1.9..2.01).contains(&times)), "{:?}", slowdown(&pair));
    let without = SwitchingConfig { flow_control: false, ..RDMA };
    let config = RoceConfig { timeout: Ps(500 * US), ..RoceConfig::DEFAULT };
    let lossy = run(star(9, 100, 500_000), roce(config, without), &incast(9, 1 << 20), &[]);
    for (count, of) in [("drops", "drops"), ("timeouts", "rto_events"), ("pauses", "pauses")] {
        assert_eq!(lossy.total("congestion", count), lossy.total("transport", of), "{count}");
    }
    match lossy.tables["congestion"].values("peak_queue_bytes") {
        Some(Values::Int(peaks)) => assert_eq!(peaks.iter().max(), Some(&lossy.total("transport", "max_queue_bytes"))),
        other => panic!("{other:?}"),
    }
}

/// A window starts with ten segments and doubles; a queue pair has a rate. Every connection has its row.
#[test]
fn watched_connections_tell_how_they_develop() {
    let watched = vec![(NodeId(1), NodeId(0))];
    let tcp = EthernetConfig { tcp: TcpConfig::RFC, watched: watched.clone(), ..EthernetConfig::NS3 };
    let outcome = run(star(3, 100, 500_000), tcp, &incast(3, 100 * 1448), &[]);
    let column = |outcome: &Outcome, name: &str| match outcome.tables["watched"].values(name) {
        Some(Values::OptionalInt(values)) => values.clone(),
        Some(Values::Int(values)) => values.iter().copied().map(Some).collect(),
        other => panic!("{other:?}"),
    };
    let windows = column(&outcome, "cwnd_bytes");
    assert_eq!(windows.len(), 100);
    assert_eq!((windows[0], windows[99]), (Some(11 * 1448), Some(110 * 1448)));
    assert_eq!(column(&outcome, "flight_bytes")[99], Some(0));
    assert_eq!(outcome.total("flows", "bytes"), 2 * 100 * 1448);
    let config = RoceConfig { dcqcn: Some(DcqcnConfig::PUBLISHED), ..RoceConfig::DEFAULT };
    let rdma = EthernetConfig { watched, ..roce(config, RDMA) };
    let outcome = run(star(3, 100, 500_000), rdma, &incast(3, 1 << 21), &[]);
    let rates = column(&outcome, "rate_bytes_per_s");
    assert_eq!((rates.len(), rates[0]), (2048, Some(12_500_000_000)));
    assert!(rates.iter().flatten().any(|&rate| rate <= 6_250_000_000));
}
