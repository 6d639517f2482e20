//! Runs on graphs of machines fold where that is exact, and then are the runs of the whole machines, to the last bit.

use crate::families::{class, graph, list, named, node, reduce, time};
use crate::support::{
    all_reduce, baseline, chunks_of, collective_job, dim, ideal, networks, packet, run, summary_but_fold,
};
use proptest::prelude::*;
use syncline_system::spec::{
    AlgorithmSpec, CollectiveKindSpec, DimAlgorithmSpec, EndpointSpec, FabricSpec, FamilySpec, FlowSpec, FoldSpec,
    GraphLinkSpec, GroupsSpec, MessageSpec, NetworkSpec, NodeSpec, RoutingSpec, Spec, WorkSpec,
};
use syncline_system::{Results, Values, run_spec};

/// Servers on a network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    pub(crate) servers: u32,
    pub(crate) gpus: u32,
    /// Switches of a server that lead to all its GPUs; none for links from each GPU to the next one, and back to the first.
    pub(crate) inside: u32,
    /// GPUs that share a NIC.
    pub(crate) sharing: u32,
    /// GPUs of a number, and of those before it, have a leaf of their own; one for all if 1.
    pub(crate) leaves: u32,
    /// Spines above several leaves.
    pub(crate) spines: u32,
    /// A link that is slower than the others.
    pub(crate) slow: Option<u32>,
}

impl Cluster {
    pub(crate) const DGX: Cluster =
        Cluster { servers: 4, gpus: 8, inside: 1, sharing: 1, leaves: 1, spines: 1, slow: None };

    fn npus(&self) -> u32 {
        self.servers * self.gpus
    }

    fn fabric(&self) -> FabricSpec {
        let &Cluster { servers, gpus, inside, sharing, leaves, spines, slow } = self;
        let npus = self.npus();
        let mut nodes: Vec<NodeSpec> = Vec::new();
        let mut add = |name: String, kind: &str| {
            nodes.push(NodeSpec { name, kind: kind.into() });
            nodes.len() as u32 - 1
        };
        let mut links: Vec<(u32, u32, u64, u64, u8)> = Vec::new();
        for npu in 0..npus {
            add(format!("GPU {npu}"), "npu");
        }
        let leaf: Vec<u32> = (0..leaves).map(|leaf| add(format!("leaf {leaf}"), "switch")).collect();
        for server in 0..servers {
            let gpu = |i: u32| server * gpus + i % gpus;
            for switch in 0..inside {
                let switch = add(format!("NVSwitch {server}/{switch}"), "switch");
                links.extend((0..gpus).map(|i| (gpu(i), switch, 150_000_000_000, 300_000, 0)));
            }
            if inside == 0 && gpus > 1 {
                links.extend((0..gpus).map(|i| (gpu(i), gpu(i + 1), 50_000_000_000, 200_000, 0)));
            }
            for first in (0..gpus).step_by(sharing as usize) {
                let nic = add(format!("NIC {server}/{first}"), "nic");
                let own = first..gpus.min(first + sharing);
                links.extend(own.map(|i| (gpu(i), nic, 32_000_000_000, 400_000, 1)));
                links.push((nic, leaf[(first / sharing % leaves) as usize], 25_000_000_000, 1_000_000, 2));
            }
        }
        if leaves > 1 {
            for spine in 0..spines {
                let spine = add(format!("spine {spine}"), "switch");
                links.extend(leaf.iter().map(|&leaf| (leaf, spine, 100_000_000_000, 900_000, 2)));
            }
        }
        if let Some(slow) = slow {
            let count = links.len();
            links[slow as usize % count].2 /= 2;
        }
        let both = |&(from, to, rate_bytes_per_s, latency_ps, class): &(u32, u32, u64, u64, u8)| {
            let link = |from, to| GraphLinkSpec { from, to, rate_bytes_per_s, latency_ps, class };
            [link(from, to), link(to, from)]
        };
        let classes = ["NVLink", "PCIe", "InfiniBand"].map(String::from).to_vec();
        FabricSpec::Graph {
            npus,
            nodes,
            classes,
            links: links.iter().flat_map(both).collect(),
            routing: RoutingSpec::default(),
        }
    }

    /// A collective of all GPUs, or of each server's.
    pub(crate) fn spec(
        &self,
        algorithm: AlgorithmSpec,
        endpoint: EndpointSpec,
        network: NetworkSpec,
        shape: Shape,
    ) -> Spec {
        let mut spec = all_reduce(vec![dim(2, 1, 1)], endpoint, 400_000);
        spec.fabric = self.fabric();
        spec.network = network;
        spec.collectives.algorithm = algorithm;
        spec.collectives.padding = true;
        let all = || vec![(0..self.npus()).collect::<Vec<u32>>()];
        let servers = || (0..self.servers).map(|s| (s * self.gpus..(s + 1) * self.gpus).collect()).collect();
        spec.groups = match shape {
            Shape::Line => None,
            Shape::Grid => Some(GroupsSpec { members: all(), grid: Some(vec![self.gpus, self.servers]), along: None }),
            Shape::Servers => Some(GroupsSpec { members: servers(), grid: None, along: None }),
        };
        spec
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Line,
    Grid,
    Servers,
}

/// Bytes and busy time of all links of each class, and their number.
fn loads(results: &Results) -> Vec<[i64; 3]> {
    let table = results.tables.iter().find(|table| table.name == "links").expect("links have a table");
    let column = |name: &str| {
        let found = table.columns.iter().find(|column| column.0.name == name).expect("the column is declared");
        let Values::Int(values) = &found.1 else { panic!("{name} has integers") };
        values.clone()
    };
    let (copies, class, bytes, busy) = (column("copies"), column("dim"), column("bytes"), column("busy_ps"));
    let mut all = vec![[0; 3]; 3];
    for (i, &copies) in copies.iter().enumerate() {
        let [count, sum, time] = &mut all[class[i] as usize];
        (*count, *sum, *time) = (*count + copies, *sum + copies * bytes[i], *time + copies * busy[i]);
    }
    all
}

/// Runs both ways, compares everything but the cost of the runs, and says how many NPUs were simulated, or why all were.
pub(crate) fn compared(spec: &Spec) -> Result<u32, String> {
    compared_to(&run(&Spec { fold: FoldSpec::Off, ..spec.clone() }), spec)
}

pub(crate) fn compared_to(whole: &Results, spec: &Spec) -> Result<u32, String> {
    let folded = run(&Spec { fold: FoldSpec::Auto, ..spec.clone() });
    assert_eq!(summary_but_fold(whole), summary_but_fold(&folded), "{spec:?}");
    let of_frames = ["transport", "completions", "slowdowns", "congestion"];
    for name in ["collectives", "phases", "resources", "windows", "sram", "layers"].into_iter().chain(of_frames) {
        let table = |r: &Results| r.tables.iter().find(|t| t.name == name).cloned();
        assert_eq!(table(whole), table(&folded), "{name} of {spec:?}");
    }
    assert_eq!(loads(whole), loads(&folded), "{spec:?}");
    folded.summary.unfolded.map_or(Ok(folded.summary.simulated_npus), Err)
}

#[test]
fn a_cluster_with_a_nic_for_each_gpu_folds_to_one() {
    for endpoint in [ideal(), baseline()] {
        for network in networks() {
            for algorithm in [AlgorithmSpec::Hierarchical, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase] {
                let spec = Cluster::DGX.spec(algorithm, endpoint.clone(), network.clone(), Shape::Grid);
                assert_eq!(compared(&spec), Ok(1), "{algorithm:?} {network:?}");
            }
            let spec = Cluster::DGX.spec(AlgorithmSpec::DoubleBinaryTree, endpoint.clone(), network, Shape::Servers);
            // Ranks of trees have different roles, servers are alike.
            assert_eq!(compared(&spec), Ok(8));
        }
    }
}

#[test]
fn gpus_that_share_a_nic_fold_with_those_of_other_servers() {
    for network in networks() {
        for (sharing, simulated) in [(2, 2), (4, 4), (8, 8)] {
            let cluster = Cluster { sharing, ..Cluster::DGX };
            let mut spec = cluster.spec(AlgorithmSpec::Hierarchical, baseline(), network.clone(), Shape::Grid);
            assert!(compared(&spec).is_ok_and(|npus| npus <= 8) || spec.network.model().takes_turns_at_switches());
            spec.collectives.per_dimension = Some(vec![DimAlgorithmSpec::Ring; 2]);
            // Packets of several GPUs take turns where these are not in the same order everywhere.
            let turns = spec.network.model().takes_turns_at_switches();
            match compared(&spec) {
                Ok(npus) => assert!(npus == simulated, "{npus} of {sharing}"),
                Err(why) => assert!(turns && why.contains("take turns"), "{why}"),
            }
            spec.groups = None;
            (spec.collectives.algorithm, spec.collectives.per_dimension) = (AlgorithmSpec::Ring, None);
            let ring = compared(&spec);
            assert!(ring.as_ref().is_ok_and(|&npus| npus == 8), "{ring:?}");
        }
    }
}

/// Servers whose GPUs are wired as a ring have rings along it.
#[test]
fn compositions_follow_the_wires() {
    for (inside, suits) in [(0, DimAlgorithmSpec::Ring), (2, DimAlgorithmSpec::Direct)] {
        let cluster = Cluster { inside, ..Cluster::DGX };
        let flow = NetworkSpec::Flow(FlowSpec::default());
        let mut spec = cluster.spec(AlgorithmSpec::Hierarchical, ideal(), flow, Shape::Grid);
        let found = run(&spec).summary;
        spec.collectives.per_dimension = Some(vec![suits, DimAlgorithmSpec::Direct]);
        let stated = run(&spec).summary;
        assert_eq!((found.total_ps, found.steps), (stated.total_ps, stated.steps), "{suits:?}");
    }
}

#[test]
fn what_differs_is_said() {
    let flow = || NetworkSpec::Flow(FlowSpec::default());
    let dgx = Cluster::DGX;
    let slow = Cluster { slow: Some(3), ..dgx };
    let grid = |cluster: &Cluster| cluster.spec(AlgorithmSpec::Hierarchical, ideal(), flow(), Shape::Grid);
    let why = |spec: &Spec| compared(spec).expect_err("it does not fold");
    assert!(why(&grid(&slow)).contains("take ways that do not correspond"), "{}", why(&grid(&slow)));
    let mut traced = grid(&dgx);
    traced.output.trace_npus = vec![5];
    assert!(why(&traced).contains("NPU 5 is to be traced"));
    let trees = dgx.spec(AlgorithmSpec::DoubleBinaryTree, ideal(), flow(), Shape::Line);
    assert!(why(&trees).contains("different roles"), "{}", why(&trees));
    let mut root = grid(&dgx);
    root.job = collective_job(CollectiveKindSpec::Broadcast, 10_000);
    assert!(why(&root).contains("the root of a broadcast"), "{}", why(&root));
    let error = run_spec(&Spec { fold: FoldSpec::On, ..trees }, None).expect_err("it cannot fold").to_string();
    assert!(error.contains("fold") && error.contains("different roles"), "{error}");
}

/// Tensor groups in servers, data groups across them, and a pipeline from server to server.
#[derive(Clone, Debug)]
struct Training {
    cluster: Cluster,
    /// Servers of a replica, which are its stages.
    stages: u32,
    /// By collective: which family, and bytes.
    collectives: Vec<(u8, u64)>,
    /// How far on a rank of a server sends so many bytes in an exchange, and whether the first rank sends more.
    exchange: (Vec<u64>, bool),
    algorithms: [AlgorithmSpec; 2],
    inflight: u32,
}

impl Training {
    fn spec(&self, endpoint: EndpointSpec, network: NetworkSpec) -> Spec {
        let &Training { cluster: Cluster { servers, gpus, .. }, stages, .. } = self;
        let stages = if servers.is_multiple_of(stages) { stages } else { 1 };
        let npu = |server: u32, gpu: u32| server * gpus + gpu;
        let groups = |members: Vec<Vec<u32>>| members;
        let family = |name: &str, members: Vec<Vec<u32>>, algorithm| {
            let mut spec = list(name, &members.iter().map(Vec::as_slice).collect::<Vec<_>>());
            spec.collectives.algorithm = algorithm;
            spec.collectives.padding = true;
            spec.collectives.inflight = self.inflight;
            spec.collectives.chunking = chunks_of(20_000);
            spec
        };
        let tensor = groups((0..servers).map(|s| (0..gpus).map(|g| npu(s, g)).collect()).collect());
        let of_stage = |stage: u32| (0..servers).filter(move |server| server % stages == stage);
        let data = (0..stages).flat_map(|stage| (0..gpus).map(move |g| (stage, g)));
        let data = data.map(|(stage, g)| of_stage(stage).map(|s| npu(s, g)).collect()).collect();
        let replicas = servers / stages;
        let pipeline = (0..replicas).flat_map(|r| (0..gpus).map(move |g| (r, g)));
        let pipeline = pipeline.map(|(r, g)| (0..stages).map(|s| npu(r * stages + s, g)).collect()).collect();
        let families: Vec<FamilySpec> = vec![
            family("tensor", tensor, self.algorithms[0]),
            family("data", groups(data), self.algorithms[1]),
            family("pipeline", groups(pipeline), AlgorithmSpec::Direct),
        ];
        let of = |stage: u32| {
            let mut nodes = vec![node(time(1_000 * u64::from(1 + stage)), &[])];
            for &(family, bytes) in &self.collectives {
                nodes.push(node(reduce(family, bytes), &[0]));
            }
            let message = |peer, tag| MessageSpec { family: 2, peer, tag, bytes: 30_000 };
            if stage > 0 {
                nodes.push(named("in", WorkSpec::Recv(message(-1, 0)), &[]));
            }
            if stage + 1 < stages {
                nodes.push(named("out", WorkSpec::Send(message(1, 0)), &[0]));
            }
            let (sizes, uneven) = &self.exchange;
            let size = |from: u32, to: u32| {
                let on = (to + gpus - from) % gpus;
                if on == 0 { 0 } else { sizes[on as usize % sizes.len()] + u64::from(*uneven && from == 0) * 777 }
            };
            let bytes = (0..gpus).map(|from| (0..gpus).map(|to| size(from, to)).collect()).collect();
            nodes.push(named("experts", WorkSpec::Exchange { family: 0, bytes }, &[0]));
            let npus = of_stage(stage).flat_map(|s| (0..gpus).map(move |g| npu(s, g)));
            class(&format!("stage {stage}"), npus, nodes)
        };
        let mut spec = graph(vec![dim(2, 1, 1)], endpoint, network, families, (0..stages).map(of).collect());
        spec.fabric = self.cluster.fabric();
        spec
    }
}

#[test]
fn stages_fold_over_replicas_and_gpus() {
    let training = Training {
        cluster: Cluster::DGX,
        stages: 2,
        collectives: vec![(0, 100_000), (1, 50_000), (0, 20_000)],
        exchange: (vec![9_000, 8_000, 7_000], false),
        algorithms: [AlgorithmSpec::Direct, AlgorithmSpec::Ring],
        inflight: 2,
    };
    for endpoint in [ideal(), baseline()] {
        for network in networks() {
            // Where packets take turns, those of both stages do at switches, so that only the servers of a stage are alike.
            let turns = network.model().takes_turns_at_switches();
            let simulated = if turns { 4 } else { 2 };
            assert_eq!(compared(&training.spec(endpoint.clone(), network.clone())), Ok(simulated), "{network:?}");
            let uneven = Training { exchange: (vec![9_000], true), ..training.clone() };
            // Ranks differ then, so that servers of a stage are left, of which two share a leaf's outputs with other stages.
            match compared(&uneven.spec(endpoint.clone(), network)) {
                Ok(npus) => assert_eq!(npus, 16),
                Err(why) => assert!(turns && why.contains("take turns"), "{why}"),
            }
        }
    }
}

pub(crate) fn cluster() -> impl Strategy<Value = Cluster> {
    let sizes = (1u32..5, prop::sample::select(vec![1u32, 2, 3, 4, 6]), 0u32..3, 1u32..4);
    let slow = prop::option::weighted(0.15, 0u32..100);
    (sizes, 1u32..4, 1u32..4, slow).prop_map(|((servers, gpus, inside, sharing), leaves, spines, slow)| Cluster {
        servers,
        gpus,
        inside,
        sharing,
        leaves,
        spines,
        slow,
    })
}

pub(crate) fn algorithm() -> impl Strategy<Value = AlgorithmSpec> {
    prop::sample::select(vec![
        AlgorithmSpec::Ring,
        AlgorithmSpec::Direct,
        AlgorithmSpec::Hierarchical,
        AlgorithmSpec::AceFourPhase,
        AlgorithmSpec::HalvingDoubling,
        AlgorithmSpec::DoubleBinaryTree,
        AlgorithmSpec::OneHopTrees,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_folded_collective_is_the_whole_one(
        cluster in cluster(),
        algorithm in algorithm(),
        shape in prop::sample::select(vec![Shape::Line, Shape::Grid, Shape::Servers]),
        kind in prop::sample::select(vec![
            CollectiveKindSpec::AllReduce, CollectiveKindSpec::AllToAll, CollectiveKindSpec::AllGather,
            CollectiveKindSpec::Broadcast,
        ]),
        bytes in 1u64..60_000,
    ) {
        for endpoint in [ideal(), baseline()] {
            for network in networks() {
                let mut spec = cluster.spec(algorithm, endpoint.clone(), network, shape);
                spec.job = collective_job(kind, bytes);
                // Not every algorithm has every collective.
                if let Ok(whole) = run_spec(&spec, None) {
                    let _ = compared_to(&whole, &spec);
                }
            }
        }
    }

    #[test]
    fn a_folded_training_is_the_whole_one(
        cluster in cluster(),
        stages in 1u32..4,
        collectives in prop::collection::vec((0u8..2, 1u64..50_000), 0..5),
        exchange in (prop::collection::vec(0u64..20_000, 1..4), any::<bool>()),
        algorithms in [algorithm(), algorithm()],
        inflight in 1u32..3,
    ) {
        let training = Training { cluster, stages, collectives, exchange, algorithms, inflight };
        for endpoint in [ideal(), baseline()] {
            for network in [NetworkSpec::Flow(FlowSpec::default()), packet(true)] {
                let spec = training.spec(endpoint.clone(), network);
                // Not every algorithm has every collective.
                if let Ok(whole) = run_spec(&spec, None) {
                    let _ = compared_to(&whole, &spec);
                }
            }
        }
    }
}
