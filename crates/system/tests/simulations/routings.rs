//! Networks of switches as descriptions: routings that are refused, and what compositions do along their dimensions.

use crate::support::{all_reduce, dim, ideal, run};
use syncline_system::spec::{
    AlgorithmSpec, DimAlgorithmSpec, FabricSpec, FlowSpec, GraphLinkSpec, GroupsSpec, NetworkSpec, NodeSpec,
    RoutingSpec, Spec,
};
use syncline_system::{RunError, run_spec};

const LATENCY: u64 = 500_000;

/// Three super-nodes of four NPUs with two local switches each, and a global switch.
fn super_nodes(routing: RoutingSpec, algorithm: AlgorithmSpec) -> Spec {
    let (npus, switches) = (12, 6);
    let kind = |node: u32| if node < npus { "npu" } else { "switch" };
    let nodes = (0..=npus + switches).map(|n| NodeSpec { name: format!("N{n}"), kind: kind(n).into() }).collect();
    let local = (0..npus).flat_map(|npu| [0, 1].map(|s| (npu, npus + npu / 4 * 2 + s, 10_000_000_000, 0)));
    let global = (0..npus).map(|npu| (npu, npus + switches, 5_000_000_000, 1));
    let both = |(a, b, rate_bytes_per_s, class)| {
        let link = |from, to| GraphLinkSpec { from, to, rate_bytes_per_s, latency_ps: LATENCY, class };
        [link(a, b), link(b, a)]
    };
    let mut spec = all_reduce(vec![dim(2, 1, 1)], ideal(), 1_200_000);
    spec.fabric = FabricSpec::Graph {
        npus,
        nodes,
        classes: ["scale-up", "scale-out"].map(String::from).to_vec(),
        links: local.chain(global).flat_map(both).collect(),
        routing,
    };
    spec.network = NetworkSpec::Flow(FlowSpec {});
    spec.groups = Some(GroupsSpec { members: vec![(0..npus).collect()], grid: Some(vec![4, 3]), along: None });
    spec.collectives.algorithm = algorithm;
    spec
}

fn refusal(routing: RoutingSpec) -> String {
    match run_spec(&super_nodes(routing, AlgorithmSpec::Hierarchical), None) {
        Err(refused @ RunError::Spec(_)) => refused.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn groups_are_of_npus_that_share_switches() {
    assert!(
        refusal(RoutingSpec::Groups { size: 0, class: 0 }).contains("fabric.routing: there are no groups of 0 NPUs")
    );
    assert!(refusal(RoutingSpec::Groups { size: 4, class: 2 }).contains("links of class 2"));
    assert!(refusal(RoutingSpec::Groups { size: 6, class: 0 }).contains("there is no route from N4 to N0"));
}

/// Along dimensions that are switches NPUs send directly, as on products of switches.
#[test]
fn compositions_are_direct_in_networks_of_switches() {
    for routing in [RoutingSpec::Groups { size: 4, class: 0 }, RoutingSpec::Source] {
        let time = |per_dimension: Option<Vec<DimAlgorithmSpec>>| {
            let mut spec = super_nodes(routing, AlgorithmSpec::HierarchicalOptimal);
            spec.collectives.per_dimension = per_dimension;
            run(&spec).summary.total_ps
        };
        let by = |program| time(Some(vec![program; 2]));
        assert_eq!(time(None), by(DimAlgorithmSpec::Direct));
        assert_ne!(by(DimAlgorithmSpec::Direct), by(DimAlgorithmSpec::Ring));
    }
}
