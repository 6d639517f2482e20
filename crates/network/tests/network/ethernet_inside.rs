//! Ethernet between servers in which bytes are a fluid.

use super::ethernet::{GBPS, Outcome, RDMA, Send, US, drive, roce};
use proptest::prelude::*;
use std::sync::Arc;
use syncline_core::{NodeId, PortId, Ps, Rate};
use syncline_network::ethernet::Ethernet;
use syncline_network::ethernet::config::EthernetConfig;
use syncline_network::ethernet::link::Condition;
use syncline_network::ethernet::roce::{Repeat, RoceConfig};
use syncline_network::ethernet::tcp::TcpConfig;
use syncline_topology::{Graph, GraphLink, GraphNode, LinkSpec};

const LATENCY: u64 = 500_000;
/// Picoseconds of a byte on NVLink, on PCIe and between NICs.
const NVLINK: u64 = 10;
const PCIE: u64 = 40;
const NETWORK: u64 = 80;

/// Two servers of three GPUs, each with a switch of NVLinks (800 Gb/s), and for each GPU a NIC of 100 Gb/s behind PCIe of 200 Gb/s.
pub(crate) fn servers() -> Arc<Graph> {
    let names = ["switch A", "switch B"].map(String::from).into_iter();
    let names = (0..6).map(|n| format!("GPU {n}")).chain(names).chain((0..6).map(|n| format!("NIC {n}")));
    let names = names.chain(["network".to_string()]);
    let nodes = names.map(|name| GraphNode { name, forwards: false }).collect();
    let link = |from: u32, to: u32, gbps: u64, class| {
        let spec = LinkSpec::new(Rate::new(gbps * GBPS).expect("positive"), Ps(LATENCY), class);
        GraphLink { from: NodeId(from), to: NodeId(to), spec }
    };
    let inside = (0..6).map(|gpu| (gpu, 6 + gpu / 3, 800, 0));
    let outside = (0..6).flat_map(|gpu| [(gpu, 8 + gpu, 200, 1), (8 + gpu, 14, 100, 2)]);
    let links = inside.chain(outside);
    let links = links.flat_map(|(a, b, gbps, class)| [link(a, b, gbps, class), link(b, a, gbps, class)]);
    let everybody: Vec<NodeId> = (0..6).map(NodeId).collect();
    let classes = vec!["NVLink".into(), "PCIe".into(), "InfiniBand".into()];
    Arc::new(Graph::new(nodes, 6, classes, links.collect(), &everybody).expect("connected"))
}

fn network(config: EthernetConfig, is_fluid: bool) -> Ethernet<Arc<Graph>> {
    let network = Ethernet::new(servers(), EthernetConfig { local_classes: vec![0, 1], ..config }, &[]);
    if is_fluid { network.with_flows(servers(), vec![0]) } else { network }
}

fn run(config: EthernetConfig, sends: &[Send]) -> Outcome {
    drive(network(config, true), sends)
}

fn rdma() -> EthernetConfig {
    roce(RoceConfig::DEFAULT, RDMA)
}

#[test]
fn a_transfer_over_nvlink_takes_its_bytes_and_two_latencies() {
    let outcome = run(rdma(), &[(0, 1, 1_000_000, 0)]);
    assert_eq!(outcome.end(), 1_000_000 * NVLINK + 2 * LATENCY);
    assert_eq!((outcome.total("transport", "segments_sent"), outcome.total("queues", "frames")), (0, 0));
}

/// Both have half of the link to GPU 1 until the first one has drained.
#[test]
fn two_transfers_share_a_link() {
    let outcome = run(rdma(), &[(0, 1, 1_000_000, 0), (2, 1, 3_000_000, 0)]);
    let ends = [2_000_000, 4_000_000].map(|bytes| Some(bytes * NVLINK + 2 * LATENCY));
    assert_eq!(outcome.arrivals, ends);
}

/// A frame is read before it leaves, and written when it has arrived; the link between NICs limits the others. NVLink is another
/// link: what goes there at the same time changes nothing.
#[test]
fn what_crosses_pcie_and_the_network_takes_the_time_of_its_frames() {
    let config = rdma();
    let (segment, overhead) = (u64::from(config.segment()), u64::from(config.overhead));
    let expected = 1001 * (segment + overhead) * NETWORK + 2 * segment * PCIE + 4 * LATENCY;
    let alone = run(config.clone(), &[(0, 3, 1000 * segment, 0)]);
    assert_eq!(alone.end(), expected);
    assert_eq!(alone.total("transport", "segments_sent"), 1000);
    let both = run(config, &[(0, 3, 1000 * segment, 0), (0, 1, 50_000_000, 0), (4, 3, 50_000_000, 0)]);
    assert_eq!(both.arrivals[0], Some(expected));
}

/// Links of PCIe carry the same bytes either way, and no event moves them.
#[test]
fn links_within_servers_count_what_they_carry() {
    let sends = [(0, 3, 300_000, 0), (1, 3, 200_000, 0), (4, 2, 100_000, 5 * US)];
    let [fluid, frames] = [true, false].map(|is_fluid| drive(network(rdma(), is_fluid), &sends));
    for column in ["frames", "sent_bytes"] {
        assert_eq!(fluid.total("queues", column), frames.total("queues", column), "{column}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost between servers: bytes arrive once.
    #[test]
    fn everything_arrives_once(
        sends in prop::collection::vec((0u32..6, 0u32..6, 0u64..200_000, 0u64..20_000_000), 1..12),
        loss in 0u32..100_000, selective in any::<bool>(), tcp in any::<bool>(), seed in 0u64..50, window in 1_000u64..200_000,
    ) {
        let repeat = if selective { Repeat::Selective } else { Repeat::GoBackN };
        let pairs = RoceConfig { repeat, timeout: Ps(200 * US), retries: 100, window: window.max(1024), ..RoceConfig::DEFAULT };
        let mut config = EthernetConfig { seed, ..roce(pairs, RDMA) };
        if tcp {
            let tcp = TcpConfig { segment: 1000, min_rto: Ps(200 * US), retries: 100, window, ..TcpConfig::RFC };
            config = EthernetConfig { roce: None, switching: None, tcp, ..config };
        }
        let mut network = network(config, true);
        let lossy = Condition { rate: Rate::new(100 * GBPS), latency: Ps(LATENCY), loss_millionths: loss };
        network.change_at(Ps(0), NodeId(14), PortId(0), lossy);
        let outcome = drive(network, &sends);
        prop_assert_eq!(outcome.arrivals.iter().flatten().count(), sends.len(), "{:?}", outcome.waits);
    }

    /// Messages take as long as with frames on all links, but for the frames that these store on NVLink.
    #[test]
    fn frames_take_as_long(
        sends in prop::collection::vec((0u32..6, 0u32..6, 100_000u64..2_000_000, 0u64..20_000_000), 1..10),
    ) {
        let [fluid, frames] = [true, false].map(|is_fluid| drive(network(rdma(), is_fluid), &sends).end().max(1) as f64);
        prop_assert!((0.93..1.07).contains(&(frames / fluid)), "{frames} {fluid}");
    }
}
