//! Which NICs connections between servers take.

use super::ethernet::{GBPS, Outcome, RDMA, Send, roce, run};
use std::collections::BTreeSet;
use std::sync::Arc;
use syncline_core::table::Values;
use syncline_core::{NodeId, Ps, Rate};
use syncline_network::ethernet::config::{Balancing, EthernetConfig};
use syncline_network::ethernet::roce::RoceConfig;
use syncline_topology::{Graph, GraphLink, GraphNode, LinkSpec};

const GPUS: u32 = 4;
const EDGES: u32 = 10;
const CORES: u32 = 14;

/// Two servers of two GPUs and two NICs, all four on one switch of PCIe; each NIC has an edge switch, and each of these two cores.
/// So there are eight ways between GPUs of different servers that are equally good.
fn servers() -> Arc<Graph> {
    let names = (0..GPUS).map(|n| format!("GPU {n}")).chain((0..2).map(|n| format!("PCIe {n}")));
    let names = names.chain((0..4).map(|n| format!("NIC {n}"))).chain((0..4).map(|n| format!("edge {n}")));
    let nodes = names.chain((0..2).map(|n| format!("core {n}")));
    let nodes = nodes.map(|name| GraphNode { name, forwards: false }).collect();
    let link = |from: u32, to: u32, gbps: u64, class| {
        let spec = LinkSpec::new(Rate::new(gbps * GBPS).expect("positive"), Ps(500_000), class);
        GraphLink { from: NodeId(from), to: NodeId(to), spec }
    };
    let pairs = (0..GPUS).flat_map(|n| {
        let (hub, nic, edge) = (GPUS + n / 2, 6 + n, EDGES + n);
        [(n, hub, 200, 0), (hub, nic, 200, 0), (nic, edge, 100, 1), (edge, CORES, 100, 1), (edge, CORES + 1, 100, 1)]
    });
    let links = pairs.flat_map(|(a, b, gbps, class)| [link(a, b, gbps, class), link(b, a, gbps, class)]);
    let everybody: Vec<NodeId> = (0..GPUS).map(NodeId).collect();
    let classes = vec!["PCIe".into(), "Ethernet".into()];
    Arc::new(Graph::new(nodes, GPUS, classes, links.collect(), &everybody).expect("connected"))
}

/// Bytes by link, with the names of its ends, of links that carry data.
fn carried(outcome: &Outcome) -> BTreeSet<(String, String)> {
    let queues = &outcome.tables["queues"];
    let texts = |column: &str| match queues.values(column) {
        Some(Values::Text(texts)) => texts.clone(),
        other => panic!("{column}: {other:?}"),
    };
    let Some(Values::Int(bytes)) = queues.values("sent_bytes") else { panic!("no bytes") };
    let ends = texts("node").into_iter().zip(texts("to"));
    ends.zip(bytes).filter(|&(_, &bytes)| bytes > 1_000_000).map(|(ends, _)| ends).collect()
}

fn config(seed: u64) -> EthernetConfig {
    EthernetConfig { seed, local_classes: vec![0], ..roce(RoceConfig::DEFAULT, RDMA) }
}

/// Both GPUs of a server send: each has a NIC of its own, whatever the seed, so neither waits for the other.
#[test]
fn a_gpu_has_a_nic_of_its_own() {
    let sends: [Send; 2] = [(0, 2, 2_000_000, 0), (1, 3, 2_000_000, 0)];
    let alone = run(servers(), config(0), &sends[..1], &[]).end();
    let (mut cores, mut ends) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..24 {
        let first = run(servers(), config(seed), &sends[..1], &[]);
        let carried = carried(&first);
        assert!(carried.contains(&("PCIe 0".into(), "NIC 0".into())), "{carried:?}");
        cores.extend(carried.iter().filter(|link| link.1.starts_with("core")).cloned());
        ends.extend(carried.into_iter().filter(|link| link.1 == "PCIe 1"));
        // The cores are drawn, and both connections may have drawn the same one, or end at one NIC.
        let both = run(servers(), config(seed), &sends, &[]).end();
        assert!(both == alone || both > alone + alone / 2, "{both} {alone}");
    }
    assert_eq!((cores.len(), ends.len()), (2, 1), "{cores:?} {ends:?}");
}

/// Frames that are spread over ways keep to the NICs, too: they are the transport's.
#[test]
fn frames_are_not_spread_over_nics() {
    let spread = EthernetConfig { balancing: Balancing::PerFrame, ..config(1) };
    let carried = carried(&run(servers(), spread, &[(1, 2, 4_000_000, 0)], &[]));
    let nics: Vec<_> = carried.iter().filter(|link| link.1.starts_with("NIC")).collect();
    assert_eq!(nics.len(), 2, "{carried:?}"); // one of either server
}
