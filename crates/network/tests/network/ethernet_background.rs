//! Traffic beside that of a run of Ethernet: given flows and flows that arrive at random.

use super::ethernet::{GBPS, RDMA, US, message, roce, star};
use super::ethernet_inside::servers;
use proptest::prelude::*;
use std::collections::BTreeMap;
use syncline_core::table::{Table, Values};
use syncline_core::{EventQueue, Key, NodeId, Ps};
use syncline_network::ethernet::background::{Sizes, Source};
use syncline_network::ethernet::config::EthernetConfig;
use syncline_network::ethernet::roce::RoceConfig;
use syncline_network::ethernet::tcp::TcpConfig;
use syncline_network::ethernet::{self, Ethernet};
use syncline_network::{NetOut, Network};
use syncline_topology::Fabric;

#[derive(Clone, Copy)]
enum Event {
    Network(ethernet::Event),
    Send(usize),
}

impl From<ethernet::Event> for Event {
    fn from(event: ethernet::Event) -> Event {
        Event::Network(event)
    }
}

struct Outcome {
    arrivals: Vec<Option<u64>>,
    end: u64,
    tables: BTreeMap<&'static str, Table>,
}

impl Outcome {
    fn ints(&self, table: &str, column: &str) -> Vec<i64> {
        match self.tables[table].values(column) {
            Some(Values::Int(values)) => values.clone(),
            Some(Values::OptionalInt(values)) => values.iter().map(|value| value.unwrap_or(-1)).collect(),
            other => panic!("{column}: {other:?}"),
        }
    }

    fn total(&self, column: &str) -> i64 {
        self.ints("transport", column)[0]
    }
}

/// Messages of the run (from, to, bytes, at), until all have arrived or nothing happens any more.
fn run(fabric: impl Fabric, config: EthernetConfig, sends: &[(u32, u32, u64, u64)]) -> Outcome {
    let mut net = Ethernet::new(fabric, config, &[]);
    let mut queue = EventQueue::new();
    for (i, send) in sends.iter().enumerate() {
        queue.push(Ps(send.3), Key::new(1, i as u32), Event::Send(i));
    }
    let (mut arrivals, mut out, mut end) = (vec![None; sends.len()], Vec::new(), 0);
    while arrivals.contains(&None)
        && let Some((now, _, event)) = queue.pop()
    {
        end = now.0;
        match event {
            Event::Network(event) => net.handle(now, event, &mut queue, &mut out),
            Event::Send(i) => {
                net.send(now, message(sends, i), &mut queue);
            }
        }
        for news in out.drain(..) {
            if let NetOut::Arrived { tag, .. } = news {
                assert_eq!(arrivals[tag as usize].replace(now.0), None, "once");
            }
        }
    }
    net.finish(Ps(end));
    assert_eq!(net.books().in_flight(), Some(0));
    let tables = net.counters().into_iter().map(|table| (table.name, table)).collect();
    Outcome { arrivals, end, tables }
}

fn configs() -> [EthernetConfig; 2] {
    [EthernetConfig { tcp: TcpConfig::RFC, ..EthernetConfig::NS3 }, roce(RoceConfig::DEFAULT, RDMA)]
}

fn given(from: u32, to: u32, len: u64, start: u64, count: u64, every: u64) -> Source {
    Source::Given { from: NodeId(from), to: NodeId(to), len, start: Ps(start), count, every: Ps(every) }
}

fn poisson(nodes: u32, load_millionths: u64, sizes: Sizes) -> Source {
    let all: Vec<NodeId> = (0..nodes).map(NodeId).collect();
    Source::Poisson { from: all.clone(), to: all, load_millionths, sizes }
}

#[test]
fn given_flows_begin_at_their_times_and_have_rows_of_their_own() {
    for config in configs() {
        let background = vec![given(1, 0, 1000, 3 * US, 3, 20 * US)];
        let outcome = run(star(3, 100, 500_000), EthernetConfig { background, ..config }, &[(2, 0, 1000, 200 * US)]);
        let Some(Values::Text(kinds)) = outcome.tables["flows"].values("kind") else { panic!("kinds") };
        assert_eq!(kinds, &["job", "background", "background", "background"]);
        assert_eq!(outcome.ints("flows", "began_ps"), [200, 3, 23, 43].map(|at: i64| at * US as i64));
        assert_eq!(outcome.ints("flows", "bytes")[1..], [1000; 3]);
        // Alone, a flow takes what it takes alone; headers and latency included.
        let (began, ended, alone) =
            (outcome.ints("flows", "began_ps"), outcome.ints("flows", "ended_ps"), outcome.ints("flows", "alone_ps"));
        (1..4).for_each(|flow| assert_eq!(ended[flow] - began[flow], alone[flow]));
        assert_eq!(alone[0], -1);
    }
}

#[test]
fn flows_share_links_with_the_run_and_do_not_delay_its_end() {
    for config in configs() {
        let sends = [(2, 0, 1_000_000, 0)];
        let alone = run(star(3, 100, 500_000), config.clone(), &sends);
        let background = vec![given(1, 0, 1 << 34, 0, 1, 0)];
        let beside = run(star(3, 100, 500_000), EthernetConfig { background, ..config }, &sends);
        assert!(beside.end > alone.end * 4 / 3, "{} {}", beside.end, alone.end);
        assert!(beside.end < alone.end * 60, "{} {}", beside.end, alone.end);
        assert_eq!((beside.total("background_flows"), beside.total("background_finished")), (1, 0));
    }
}

#[test]
fn no_flows_and_no_load_change_nothing() {
    let sends: Vec<_> = (1..6).map(|from| (from, 0, 100_000, 0)).collect();
    for config in configs() {
        let plain = run(star(6, 100, 500_000), EthernetConfig { buffer: 30_000, ..config.clone() }, &sends);
        let fixed = Sizes::fixed(1000).expect("a size");
        for background in [vec![], vec![given(1, 0, 5, 0, 0, 0)], vec![poisson(6, 0, fixed)]] {
            let config = EthernetConfig { buffer: 30_000, background, ..config.clone() };
            let other = run(star(6, 100, 500_000), config, &sends);
            assert_eq!(plain.arrivals, other.arrivals);
            assert_eq!(plain.tables, other.tables);
        }
    }
}

/// Nobody waits for flows, so that a run with nothing else to do comes to an end although they never do.
#[test]
fn flows_do_not_keep_a_run_going() {
    for config in configs() {
        let background = vec![poisson(3, 100_000, Sizes::fixed(10_000).expect("a size"))];
        let mut net = Ethernet::new(star(3, 100, 500_000), EthernetConfig { background, ..config }, &[]);
        let (mut queue, mut out, mut events) = (EventQueue::<ethernet::Event>::new(), Vec::new(), 0);
        net.send(Ps(0), message(&[(1, 0, 0, 0)], 0), &mut queue);
        let mut arrived = 0;
        while let Some((now, _, event)) = queue.pop() {
            net.handle(now, event, &mut queue, &mut out);
            arrived += out.drain(..).filter(|news| matches!(news, NetOut::Arrived { .. })).count();
            events += 1;
            assert!(events < 1000, "it ends");
        }
        assert_eq!((arrived, net.waits().len()), (1, 0));
    }
}

/// The payload that arrives at random is the load that was asked for, at every sender.
#[test]
fn the_mean_load_is_the_one_asked_for() {
    let sizes = Sizes::new(vec![(0, 0), (1000, 500_000), (9000, 1_000_000)]).expect("points");
    let (hosts, load, end) = (4u32, 0.3, 20_000 * US);
    for config in configs() {
        let background = vec![poisson(hosts, 300_000, sizes.clone())];
        let config = EthernetConfig { background, seed: 5, ..config };
        let outcome = run(star(hosts, 100, 500_000), config, &[(0, 1, 10, end)]);
        let expected = load * (100 * GBPS) as f64 * f64::from(hosts) * end as f64 / 1e12;
        let flows = expected / sizes.mean();
        // The variance of a sum of so many sizes is their number times the mean square, which is below 3 of the mean's square.
        let deviation = (3.0 / flows).sqrt();
        let found = outcome.total("background_bytes") as f64 / expected;
        assert!((found - 1.0).abs() < 5.0 * deviation, "{found} +- {deviation}");
        let begun = outcome.total("background_flows") as f64 / flows;
        assert!((begun - 1.0).abs() < 5.0 / flows.sqrt(), "{begun}");
        // At 30 % little is under way at any time.
        assert!(outcome.total("background_finished_bytes") as f64 > 0.999 * expected * found);
    }
}

/// The load is a share of what a NIC carries, although the link that leads to it carries twice as much.
#[test]
fn the_load_behind_links_of_a_machine_is_that_of_its_nic() {
    let (load, len, end) = (0.2, 10_000, 20_000 * US);
    for config in configs() {
        let (from, to, sizes) = (vec![NodeId(0)], vec![NodeId(3)], Sizes::fixed(len).expect("a size"));
        let background = vec![Source::Poisson { from, to, load_millionths: (load * 1e6) as u64, sizes }];
        let config = EthernetConfig { background, seed: 7, local_classes: vec![0, 1], ..config };
        let outcome = run(servers(), config, &[(1, 4, 10, end)]);
        let expected = load * (100 * GBPS) as f64 * end as f64 / 1e12 / len as f64;
        let found = outcome.total("background_flows") as f64;
        assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{found} instead of {expected}");
    }
}

/// Frames that arrive at random at one output wait as in a queue of Poisson arrivals and one server of fixed time (M/D/1): the
/// mean wait is load / (2 (1 - load)) service times. Many senders, of which each sends rarely, make up the arrivals.
#[test]
fn single_frames_wait_as_in_the_queue_of_one_server() {
    let (hosts, len) = (64u32, 1448u64);
    for load in [0.3, 0.6, 0.8] {
        let each = (load * 1502.0f64.recip() * 1448.0 / f64::from(hosts - 1) * 1e6) as u64;
        let background = vec![Source::Poisson {
            from: (1..hosts).map(NodeId).collect(),
            to: vec![NodeId(0)],
            load_millionths: each,
            sizes: Sizes::fixed(len).expect("a size"),
        }];
        let config =
            EthernetConfig { tcp: TcpConfig::RFC, buffer: 1 << 30, background, seed: 3, ..EthernetConfig::NS3 };
        let outcome = run(star(hosts, 100, 500_000), config, &[(0, 1, 10, 60_000 * US)]);
        // The output of the switch towards host 0 is the first link after those of the hosts.
        let waited = outcome.ints("queues", "mean_wait_ps")[hosts as usize] as f64;
        let load = each as f64 * 1e-6 * f64::from(hosts - 1) * 1502.0 / 1448.0;
        let service = 1502.0 * 8.0 / 100.0 * 1000.0;
        let expected = load / (2.0 * (1.0 - load)) * service;
        assert!((waited / expected - 1.0).abs() < 0.05, "load {load}: {waited} instead of {expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Every byte of a flow arrives once, whatever is lost on the way, and the same seed gives the same run.
    #[test]
    fn every_byte_of_flows_arrives_once(
        flows in prop::collection::vec((0u32..5, 1u32..5, 1u64..60_000, 0u64..40), 1..12),
        buffer in 6_000u64..60_000,
        seed in 0u64..1000,
        is_roce in any::<bool>(),
    ) {
        let config = configs()[usize::from(is_roce)].clone();
        let background: Vec<Source> = flows
            .iter()
            .map(|&(from, by, len, at)| given(from, (from + by) % 5, len, at * US, 2, 7 * US))
            .chain([poisson(5, 500, Sizes::fixed(3000).expect("a size"))])
            .collect();
        let config = EthernetConfig { buffer, background, seed, ..config };
        // Long enough for timeouts, of which flows may need several.
        let sends = [(0, 1, 40_000, 0), (0, 1, 10, 500_000 * US)];
        let outcome = run(star(5, 100, 500_000), config.clone(), &sends);
        let Some(Values::Text(kinds)) = outcome.tables["flows"].values("kind") else { panic!("kinds") };
        let (bytes, ended) = (outcome.ints("flows", "bytes"), outcome.ints("flows", "ended_ps"));
        let beside: Vec<usize> = (0..kinds.len()).filter(|&row| kinds[row] == "background").collect();
        let given: u64 = flows.iter().map(|flow| 2 * flow.2).sum();
        let random = outcome.total("background_flows") - 2 * flows.len() as i64;
        prop_assert_eq!(outcome.total("background_bytes"), given as i64 + 3000 * random);
        prop_assert_eq!(outcome.total("background_failed"), 0);
        if beside.len() as i64 == outcome.total("background_flows") {
            let finished = beside.iter().filter(|&&row| ended[row] >= 0);
            prop_assert_eq!(finished.clone().count() as i64, outcome.total("background_finished"));
            let arrived: i64 = finished.map(|&row| bytes[row]).sum();
            prop_assert_eq!(arrived, outcome.total("background_finished_bytes"));
        }
        let again = run(star(5, 100, 500_000), config, &sends);
        prop_assert_eq!(&outcome.tables, &again.tables);
    }
}
