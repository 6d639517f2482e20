//! Runs over RoCE fold until something happens in which alike NPUs differ, and are those of the whole machines, to the last bit.

use crate::folded_graphs::{Cluster, Shape, algorithm, cluster, compared, compared_to};
use crate::support::{baseline, collective_job, ideal, run};
use proptest::prelude::*;
use syncline_system::networks::{DcqcnSpec, EthernetSpec, MarkingSpec, RoceSpec, SwitchingSpec};
use syncline_system::run_spec;
use syncline_system::spec::{AlgorithmSpec, CollectiveKindSpec, FoldSpec, NetworkSpec, Spec};

/// RoCE with DCQCN and pauses between servers; with flows on NVLink, or frames.
fn roce(flows: bool) -> EthernetSpec {
    let dcqcn = DcqcnSpec {
        gain: 1.0 / 256.0,
        notification_ps: 50_000_000,
        alpha_timer_ps: 55_000_000,
        rate_timer_ps: 55_000_000,
        byte_counter_bytes: 10_000_000,
        rounds: 5,
        additive_bytes_per_s: 5_000_000,
        hyper_bytes_per_s: 50_000_000,
        least_bytes_per_s: 5_000_000,
    };
    EthernetSpec {
        local_classes: vec!["NVLink".into(), "PCIe".into()],
        flow_classes: if flows { vec!["NVLink".into()] } else { vec![] },
        roce: Some(Box::new(RoceSpec { selective_repeat: false, dcqcn: Some(dcqcn) })),
        switching: Some(SwitchingSpec { alpha_256ths: None, pauses: true, headroom_bytes: None, per_connection: true }),
        segment_bytes: 4096,
        overhead_bytes: 62,
        window_bytes: 1 << 40,
        min_rto_ps: 67_108_864_000,
        retries: 7,
        marking: MarkingSpec::Red { least_bytes: 5_000, most_bytes: 200_000, millionths: 10_000 },
        ..EthernetSpec::default()
    }
}

fn on(cluster: &Cluster, algorithm: AlgorithmSpec, network: EthernetSpec, shape: Shape) -> Spec {
    cluster.spec(algorithm, ideal(), NetworkSpec::Ethernet(network), shape)
}

#[test]
fn rails_fold_to_one_npu() {
    for flows in [false, true] {
        for algorithm in [AlgorithmSpec::Hierarchical, AlgorithmSpec::SixPhase] {
            let spec = on(&Cluster::DGX, algorithm, roce(flows), Shape::Grid);
            assert_eq!(compared(&spec), Ok(1), "{algorithm:?} {flows}");
        }
    }
}

/// Acknowledgements overtake data at leaves, so that frames wait there now and then: whether the next one is marked is drawn.
#[test]
fn a_mark_that_is_drawn_tells_nodes_apart() {
    let mut network = roce(true);
    network.marking = MarkingSpec::Red { least_bytes: 0, most_bytes: 200_000, millionths: 10_000 };
    let mut spec = on(&Cluster::DGX, AlgorithmSpec::Hierarchical, network, Shape::Grid);
    spec.job = collective_job(CollectiveKindSpec::AllReduce, 32_000_000);
    spec.collectives.chunking = crate::support::chunks_of(1_000_000);
    let why = compared(&spec).expect_err("the NPUs differ");
    assert!(why.contains("draws whether it marks"), "{why}");
    let error = run_spec(&Spec { fold: FoldSpec::On, ..spec }, None).expect_err("it cannot fold").to_string();
    assert!(error.contains("fold") && error.contains(&why), "{error}");
}

/// GPUs of one NIC send at the same time: which of them goes first is not the same on all servers.
#[test]
fn gpus_that_get_in_line_for_a_nic_are_told_apart() {
    let cluster = Cluster { servers: 2, gpus: 6, sharing: 2, ..Cluster::DGX };
    let mut spec = on(&cluster, AlgorithmSpec::Hierarchical, roce(true), Shape::Grid);
    spec.job = collective_job(CollectiveKindSpec::AllToAll, 1);
    let why = compared(&spec).expect_err("the NPUs differ");
    assert!(why.contains("for a NIC at the same picosecond"), "{why}");
}

/// Flows within servers take as long as the flow backend says, to the last bit. Frames take a little longer, since they are stored
/// before they are forwarded; with trees, less than a hundredth may be won again, since messages that share a link come one after
/// the other, and the first of them can be sent on earlier.
#[test]
fn flows_within_servers_are_those_of_the_flow_backend() {
    for algorithm in [AlgorithmSpec::Ring, AlgorithmSpec::Direct, AlgorithmSpec::DoubleBinaryTree] {
        let time = |network: NetworkSpec| {
            let mut spec = Cluster::DGX.spec(algorithm, baseline(), network, Shape::Servers);
            spec.job = collective_job(CollectiveKindSpec::AllReduce, 4_000_000);
            run(&spec).summary.total_ps
        };
        let flow = time(NetworkSpec::Flow(Default::default()));
        let (flows, frames) = (NetworkSpec::Ethernet(roce(true)), NetworkSpec::Ethernet(roce(false)));
        assert_eq!(time(flows), flow);
        let ratio = time(frames) as f64 / flow as f64;
        assert!((0.99..1.25).contains(&ratio), "{algorithm:?} {ratio}");
    }
}

/// Both treatments of NVLink agree on collectives of servers and rails.
#[test]
fn flows_and_frames_within_servers_agree() {
    let time = |flows: bool| {
        let mut spec = on(&Cluster::DGX, AlgorithmSpec::Hierarchical, roce(flows), Shape::Grid);
        spec.job = collective_job(CollectiveKindSpec::AllReduce, 32_000_000);
        spec.collectives.chunking = crate::support::chunks_of(8_000_000);
        run(&spec).summary.total_ps as f64
    };
    let ratio = time(false) / time(true);
    assert!((0.99..1.03).contains(&ratio), "{ratio}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_folded_collective_over_roce_is_the_whole_one(
        cluster in cluster(),
        algorithm in algorithm(),
        shape in prop::sample::select(vec![Shape::Line, Shape::Grid, Shape::Servers]),
        kind in prop::sample::select(vec![
            CollectiveKindSpec::AllReduce, CollectiveKindSpec::AllToAll, CollectiveKindSpec::AllGather,
        ]),
        bytes in 1u64..400_000,
        flows in any::<bool>(),
        marks in any::<bool>(),
        buffer in prop::sample::select(vec![20_000u64, 1 << 19]),
        pauses in any::<bool>(),
    ) {
        let mut network = roce(flows);
        network.buffer_bytes = buffer;
        network.switching.as_mut().expect("frames are served").pauses = pauses;
        if !marks {
            network.marking = MarkingSpec::None;
        }
        for endpoint in [ideal(), baseline()] {
            let network = NetworkSpec::Ethernet(network.clone());
            let mut spec = cluster.spec(algorithm, endpoint, network, shape);
            spec.job = collective_job(kind, bytes);
            // Not every algorithm has every collective.
            if let Ok(whole) = run_spec(&spec, None) {
                let _ = compared_to(&whole, &spec);
            }
        }
    }
}
