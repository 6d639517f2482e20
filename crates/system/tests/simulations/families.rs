//! Families of communicators, and classes of NPUs with graphs of their own.

use crate::contention::contended;
use crate::support::{
    ace, all_reduce, baseline, chunks_of, dim, forwarding, ideal, packet, run, streaming, summary_but_fold,
};
use proptest::prelude::*;
use std::sync::Arc;
use syncline_system::spec::{
    AceSpec, AlgorithmSpec, BlockSpec, ChunkingSpec, ClassSpec, CollectiveKindSpec, CollectiveSpec, ComputeSpec,
    DimSpec, EndpointSpec, FamilySpec, FlowSpec, FoldSpec, GraphNodeSpec, GraphSpec, JobSpec, LanesSpec, MembersSpec,
    MessageSpec, NetworkSpec, OrderSpec, PacketSpec, PassSpec, PlacedJobSpec, SchedulingSpec, Spec, WorkSpec,
};
use syncline_system::{Results, RunError, Values, run_spec};

pub fn node(work: WorkSpec, after: &[u32]) -> GraphNodeSpec {
    named("a", work, after)
}

pub fn named(layer: &str, work: WorkSpec, after: &[u32]) -> GraphNodeSpec {
    let (layer, after) = (layer.to_string(), after.to_vec());
    GraphNodeSpec { layer, pass: PassSpec::Forward, stream: 0, after, after_previous: vec![], work }
}

pub fn time(time_ps: u64) -> WorkSpec {
    WorkSpec::Time { time_ps }
}

pub fn reduce(family: u8, bytes: u64) -> WorkSpec {
    WorkSpec::Collective { family, kind: CollectiveKindSpec::AllReduce, bytes, root: 0 }
}

fn message(peer: i32, tag: u32, bytes: u64) -> MessageSpec {
    MessageSpec { family: 0, peer, tag, bytes }
}

pub fn class(name: &str, npus: impl IntoIterator<Item = u32>, nodes: Vec<GraphNodeSpec>) -> ClassSpec {
    let (name, npus) = (name.to_string(), npus.into_iter().collect());
    ClassSpec { name, npus, streams: vec![OrderSpec::InOrder], nodes }
}

pub fn compute() -> ComputeSpec {
    ComputeSpec { flops_per_s: 1e12, memory_bytes_per_s: 1e12, scale: 1.0, ..ComputeSpec::default() }
}

pub fn collectives() -> CollectiveSpec {
    let spec = all_reduce(vec![dim(2, 1, 1)], ideal(), 1).collectives;
    CollectiveSpec { algorithm: AlgorithmSpec::Ring, ..spec }
}

pub fn list(name: &str, groups: &[&[u32]]) -> FamilySpec {
    let groups = groups.iter().map(|group| group.to_vec()).collect();
    let members = MembersSpec::List { groups, grid: None };
    FamilySpec { name: name.into(), members, collectives: collectives(), priority: 0, traffic_class: 0 }
}

pub fn on_grid(name: &str, sizes: &[u32], along: &[u8]) -> FamilySpec {
    let members = MembersSpec::Grid { sizes: sizes.to_vec(), along: along.to_vec(), first: 0 };
    FamilySpec { name: name.into(), members, collectives: collectives(), priority: 0, traffic_class: 0 }
}

/// Graphs on a fabric.
pub fn graph(
    dims: Vec<DimSpec>,
    endpoint: EndpointSpec,
    network: NetworkSpec,
    families: Vec<FamilySpec>,
    classes: Vec<ClassSpec>,
) -> Spec {
    let mut spec = all_reduce(dims, endpoint, 0);
    spec.network = network;
    spec.families = families;
    spec.job = JobSpec::Graph {
        graph: GraphSpec { classes, costs: vec![], unfolded: None }.into(),
        iterations: 1,
        drain: true,
        stragglers: vec![],
        compute: compute(),
        background: None,
    };
    spec
}

pub fn flow() -> NetworkSpec {
    NetworkSpec::Flow(FlowSpec::default())
}

pub fn switch(size: u32, rate_gbs: u64, latency_ps: u64) -> DimSpec {
    DimSpec { block: BlockSpec::Switch, ..dim(size, rate_gbs, latency_ps) }
}

/// GPipe on `stages` stages with `micro` micro-batches, forward of `f` and backward of `b`, with messages of no bytes.
fn pipeline(stages: u32, micro: u32, replicas: u32, (f, b): (u64, u64)) -> Spec {
    let first = |stage: u32| stage == 0;
    let last = |stage: u32| stage == stages - 1;
    let stage_of = |stage: u32| {
        let mut nodes = Vec::new();
        for i in 0..micro {
            let mut after = vec![];
            if !first(stage) {
                nodes.push(named(&format!("r{i}"), WorkSpec::Recv(message(-1, 0, 0)), &[]));
                after.push(nodes.len() as u32 - 1);
            }
            nodes.push(named(&format!("f{i}"), time(f), &after));
            if !last(stage) {
                let done = nodes.len() as u32 - 1;
                nodes.push(named(&format!("s{i}"), WorkSpec::Send(message(1, 0, 0)), &[done]));
            }
        }
        for i in 0..micro {
            let mut after = vec![];
            if !last(stage) {
                nodes.push(named(&format!("rb{i}"), WorkSpec::Recv(message(1, 1, 0)), &[]));
                after.push(nodes.len() as u32 - 1);
            }
            nodes.push(named(&format!("b{i}"), time(b), &after));
            if !first(stage) {
                let done = nodes.len() as u32 - 1;
                nodes.push(named(&format!("sb{i}"), WorkSpec::Send(message(-1, 1, 0)), &[done]));
            }
        }
        class(&format!("stage {stage}"), (0..replicas).map(|r| r * stages + stage), nodes)
    };
    let family = on_grid("pipeline", &[stages, replicas], &[0]);
    let free = syncline_system::spec::IdealSpec { step_latency_ps: 0, ..Default::default() };
    let dims = vec![switch(stages * replicas, 1, 0)];
    graph(dims, EndpointSpec::Ideal(free), flow(), vec![family], (0..stages).map(stage_of).collect())
}

#[test]
fn the_bubble_of_a_pipeline_is_exact_when_communication_is_free() {
    for (stages, micro, replicas) in [(4, 8, 2), (2, 1, 1), (3, 7, 3), (1, 4, 2)] {
        let (f, b) = (1000, 2000);
        let results = run(&pipeline(stages, micro, replicas, (f, b)));
        let summary = &results.summary;
        let (p, m) = (u64::from(stages), u64::from(micro));
        assert_eq!(summary.total_ps, (m + p - 1) * (f + b));
        assert_eq!((summary.compute_ps, summary.bubble_ps), (m * (f + b), (p - 1) * (f + b)), "{stages} {micro}");
        assert_eq!(summary.exposed_ps + summary.background_wait_ps + summary.drain_ps, 0);
    }
}

#[test]
fn two_stages_that_wait_for_each_other_are_both_named() {
    let stage = |name: &str, npu: u32, peer: i32| {
        let nodes = vec![
            named("in", WorkSpec::Recv(message(peer, 0, 8)), &[]),
            named("work", time(10), &[0]),
            named("out", WorkSpec::Send(message(peer, 0, 8)), &[1]),
        ];
        class(name, [npu], nodes)
    };
    let classes = vec![stage("one", 0, 1), stage("two", 1, -1)];
    let spec = graph(vec![switch(2, 1, 0)], ideal(), flow(), vec![list("pair", &[&[0, 1]])], classes);
    let error = run_spec(&spec, None).expect_err("a deadlock").to_string();
    for part in [
        "NPU 0, compute of work forward of iteration 0 of class one waits for the receive from rank +1 of in",
        "NPU 1, compute of work forward of iteration 0 of class two waits for the receive from rank -1 of in",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

/// A single collective as a graph runs as it does without, whatever carries it out.
#[test]
fn a_room_is_as_good_as_an_endpoint_of_its_own() {
    let torus = || crate::support::ace_torus([4, 2, 2]);
    let networks = || [NetworkSpec::all(), vec![packet(false)]].concat();
    for endpoint in [ideal(), streaming(804), baseline(), contended(baseline()), ace()] {
        for network in networks() {
            for (kind, algorithm) in [
                (CollectiveKindSpec::AllReduce, AlgorithmSpec::AceFourPhase),
                (CollectiveKindSpec::AllReduce, AlgorithmSpec::Ring),
                (CollectiveKindSpec::ReduceScatter, AlgorithmSpec::Ring),
                (CollectiveKindSpec::AllToAll, AlgorithmSpec::Direct),
            ] {
                let endpoint = match kind {
                    CollectiveKindSpec::AllToAll => forwarding(endpoint.clone()),
                    _ => endpoint.clone(),
                };
                let mut alone = all_reduce(torus(), endpoint.clone(), 0);
                alone.network = network.clone();
                alone.collectives.algorithm = algorithm;
                alone.job = JobSpec::Collective { collective: kind, bytes: 1_000_000, root: 0, beside: vec![] };
                let mut family = list("all", &[&(0..16).collect::<Vec<u32>>()]);
                family.collectives = alone.collectives.clone();
                let work = WorkSpec::Collective { family: 0, kind, bytes: 1_000_000, root: 0 };
                let classes = vec![class("all", 0..16, vec![node(work, &[])])];
                let graph = graph(torus(), endpoint.clone(), network.clone(), vec![family], classes);
                let times = |results: &Results| {
                    let summary = &results.summary;
                    let network = (summary.network.link_bytes, summary.network.packet_hops);
                    (summary.total_ps, network, summary.endpoint.sent_bytes, summary.endpoint.breakdown.network_ps)
                };
                assert_eq!(times(&run(&alone)), times(&run(&graph)), "{kind:?} {algorithm:?} {endpoint:?} {network:?}");
            }
        }
    }
}

#[test]
fn groups_of_three_and_of_five_take_the_time_of_their_rings() {
    // On a switch, one chunk of S bytes around a ring of n: 2 (n - 1) steps of S/n bytes over two links.
    let mut family = list("data", &[&[0, 1, 2], &[3, 4, 5, 6, 7]]);
    family.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    family.collectives.lanes = LanesSpec::One;
    let free = syncline_system::spec::IdealSpec { step_latency_ps: 0, ..Default::default() };
    let classes = vec![class("all", 0..8, vec![node(reduce(0, 30_000), &[]), node(time(1), &[0])])];
    let spec = graph(vec![switch(8, 1, 500)], EndpointSpec::Ideal(free), flow(), vec![family], classes);
    let results = run(&spec);
    let ring = |n: u64| 2 * (n - 1) * (30_000 / n * 1000 + 2 * 500);
    let table = results.tables.iter().find(|table| table.name == "collectives").expect("a table");
    let completed = table.columns.iter().find(|column| column.0.name == "completed_ps").expect("a column");
    let Values::OptionalInt(completed) = &completed.1 else { panic!("times may be missing") };
    assert_eq!(*completed, [Some(ring(3) as i64), Some(ring(5) as i64)]);
    assert_eq!(results.summary.total_ps, ring(5) + 1);
}

#[test]
fn an_exchange_has_a_size_for_each_pair() {
    // The busiest port sends, and another one receives, 3000 B at 1 GB/s over two links.
    let bytes = vec![vec![7, 1_000, 2_000], vec![3_000, 0, 0], vec![0, 500, 9]];
    let free = || EndpointSpec::Ideal(syncline_system::spec::IdealSpec { step_latency_ps: 0, ..Default::default() });
    let spec = |bytes: Vec<Vec<u64>>| {
        let nodes =
            vec![named("tokens", WorkSpec::Exchange { family: 0, bytes }, &[]), named("experts", time(1), &[0])];
        let all = class("all", 0..3, nodes);
        graph(vec![switch(3, 1, 500)], free(), flow(), vec![list("expert", &[&[0, 1, 2]])], vec![all])
    };
    let summary = run(&spec(bytes.clone())).summary;
    assert_eq!((summary.total_ps, summary.exposed_ps), (3_000_000 + 2 * 500 + 1, 3_000_000 + 2 * 500));
    assert_eq!(summary.endpoint.sent_bytes, 6_500);
    let error = run_spec(&spec(vec![vec![0]]), None).expect_err("one size for three ranks").to_string();
    assert!(error.contains("exchange of tokens") && error.contains("one of 3 ranks"), "{error}");
    let Err(RunError::Spec(refusals)) = run_spec(&spec(vec![vec![0, 1], vec![1]]), None) else { panic!("uneven") };
    assert_eq!(refusals[0].field.join("."), "job.graph.classes.0.nodes.0.work.bytes");
}

/// Two jobs on a ring of four, each on two NPUs that lie opposite each other.
pub fn two_jobs(jobs: &[u32]) -> Spec {
    let placed = |&first: &u32| {
        let nodes = vec![named("grad", reduce(0, 100_000), &[]), named("next", time(7), &[0])];
        let mut own = collectives();
        own.chunking = ChunkingSpec::Count { chunks: 1 };
        own.lanes = LanesSpec::One;
        PlacedJobSpec {
            name: format!("job {first}"),
            npus: vec![first, first + 2],
            grid: None,
            job: Box::new(JobSpec::Graph {
                graph: GraphSpec {
                    classes: vec![class("all", [first, first + 2], nodes)],
                    costs: vec![],
                    unfolded: None,
                }
                .into(),
                iterations: 1,
                drain: true,
                stragglers: vec![],
                compute: compute(),
                background: None,
            }),
            collectives: own,
            families: vec![],
        }
    };
    let free = syncline_system::spec::IdealSpec { step_latency_ps: 0, ..Default::default() };
    let mut spec = all_reduce(vec![dim(4, 1, 500)], EndpointSpec::Ideal(free), 0);
    spec.network = flow();
    spec.job = JobSpec::Jobs { jobs: jobs.iter().map(placed).collect(), drain: true, stragglers: vec![] };
    Spec::read_again(spec)
}

#[test]
fn two_jobs_on_the_same_links_get_half_of_them_each() {
    // Each sends 50 kB twice over two links; every link of the ring is on the ways of both jobs.
    let time = |share: u64| 2 * (50_000 * 1_000 * share + 2 * 500) + 7;
    assert_eq!(run(&two_jobs(&[0])).summary.total_ps, time(1));
    assert_eq!(run(&two_jobs(&[1])).summary.total_ps, time(1));
    let both = run(&two_jobs(&[0, 1])).summary;
    assert_eq!(both.total_ps, time(2));
    let names: Vec<&str> = both.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["job 0 all", "job 1 all"]);
    assert!(both.classes.iter().all(|class| class.total_ps - class.drain_ps == time(2)));
}

#[test]
fn streams_by_readiness_take_what_is_ready() {
    // In order, the second node keeps the third waiting, which is ready at once; by readiness it does not.
    let nodes = || {
        vec![named("wait", reduce(0, 1_000), &[]), named("late", time(5), &[0]), named("soon", time(7_000_000), &[])]
    };
    let spec = |order: OrderSpec| {
        let all = ClassSpec { streams: vec![order], ..class("all", 0..2, nodes()) };
        graph(vec![switch(2, 1, 500_000)], ideal(), flow(), vec![list("pair", &[&[0, 1]])], vec![all])
    };
    let (in_order, ready) = (run(&spec(OrderSpec::InOrder)).summary, run(&spec(OrderSpec::ByReadiness)).summary);
    assert_eq!(ready.total_ps, 7_000_005);
    assert_eq!((ready.exposed_ps, ready.compute_ps), (0, 7_000_005));
    assert_eq!(in_order.total_ps, in_order.exposed_ps + 7_000_005);
    assert!(in_order.exposed_ps > 2_000_000);
}

#[test]
fn ranks_that_disagree_are_named() {
    let of = |name: &str, npu: u32, bytes| class(name, [npu], vec![named("grad", reduce(0, bytes), &[])]);
    let classes = vec![of("one", 0, 100), of("two", 1, 200)];
    let spec = graph(vec![switch(2, 1, 0)], ideal(), flow(), vec![list("pair", &[&[0, 1]])], classes);
    let error = run_spec(&spec, None).expect_err("a mismatch").to_string();
    assert!(error.contains("all-reduce of 100 B") && error.contains("all-reduce of 200 B"), "{error}");
    assert!(error.contains("class one") && error.contains("class two"), "{error}");

    let send = class("one", [0], vec![node(WorkSpec::Send(message(1, 0, 10)), &[])]);
    let receive = class("two", [1], vec![node(WorkSpec::Recv(message(1, 0, 11)), &[])]);
    let spec = graph(vec![switch(2, 1, 0)], ideal(), flow(), vec![list("pair", &[&[0, 1]])], vec![send, receive]);
    let error = run_spec(&spec, None).expect_err("unequal lengths").to_string();
    assert!(error.contains("receives 11 B") && error.contains("10 B were sent"), "{error}");
}

#[test]
fn what_there_is_not_is_refused_by_field() {
    let refused = |change: fn(&mut Spec)| {
        let classes = vec![class("all", 0..4, vec![node(reduce(0, 100), &[])])];
        let mut spec = graph(vec![switch(4, 1, 0)], ideal(), flow(), vec![list("pair", &[&[0, 1], &[2, 3]])], classes);
        change(&mut spec);
        match run_spec(&spec, None) {
            Err(RunError::Spec(refusals)) => refusals[0].field.join("."),
            other => panic!("{:?}", other.map(|results| results.summary)),
        }
    };
    fn classes(spec: &mut Spec) -> &mut Vec<ClassSpec> {
        match &mut spec.job {
            JobSpec::Graph { graph, .. } => &mut Arc::make_mut(graph).classes,
            other => panic!("{other:?}"),
        }
    }
    type Change = fn(&mut Spec);
    let cases: [(Change, &str); 11] = [
        (|spec| classes(spec)[0].nodes[0].work = reduce(1, 1), "job.graph.classes.0.nodes.0.work.family"),
        (|spec| classes(spec)[0].nodes[0].after = vec![0], "job.graph.classes.0.nodes.0.after"),
        (|spec| classes(spec)[0].nodes[0].after_previous = vec![9], "job.graph.classes.0.nodes.0.after_previous"),
        (|spec| classes(spec)[0].nodes[0].stream = 1, "job.graph.classes.0.nodes.0.stream"),
        (|spec| classes(spec)[0].npus = vec![4], "job.graph.classes.0.npus"),
        (|spec| classes(spec)[0].npus = vec![1, 1], "job.graph.classes.0.npus"),
        (|spec| spec.families = vec![list("pair", &[&[0, 1]])], "job.graph.classes.0.npus"),
        (|spec| spec.families = vec![list("pair", &[&[0, 1], &[1, 2]])], "families.0.members.groups"),
        (|spec| spec.families = vec![on_grid("pair", &[4, 2], &[0])], "families.0.members.sizes"),
        (|spec| spec.families[0].priority = 8, "families.0.priority"),
        (|spec| spec.families[0].traffic_class = 200, "families.0.traffic_class"),
    ];
    for (change, field) in cases {
        assert_eq!(refused(change), field);
    }
}

/// By family, priority and traffic class: none, or any.
fn ranks() -> impl Strategy<Value = [(u8, u8); 4]> {
    prop_oneof![Just([(0, 0); 4]), prop::array::uniform4((0u8..8, 0u8..8)), prop::array::uniform4((0u8..2, 0u8..2))]
}

/// By family, how many chunks an NPU has along a dimension: none is limited, all or some.
fn places() -> impl Strategy<Value = [Option<u32>; 4]> {
    let some = prop::array::uniform4(prop::option::of(1u32..4));
    prop_oneof![Just([None; 4]), prop::array::uniform4((1u32..3).prop_map(Some)), some]
}

/// Random NPUs in random communicators, which call for collectives in any order, and wait for some of them.
#[derive(Clone, Debug)]
pub struct Crowd {
    npus: u32,
    /// By family, which group an NPU is in; groups of one are left out.
    families: Vec<Vec<u32>>,
    /// By NPU, the order in which it issues the collectives.
    orders: Vec<Vec<usize>>,
    /// By NPU and collective, an earlier collective for which it waits before it issues that one, if it is not negative.
    waits: Vec<Vec<i32>>,
    /// By collective, family and bytes.
    collectives: Vec<(usize, u64)>,
    inflight: u32,
    /// By family, chunks along a dimension.
    places: [Option<u32>; 4],
    chunk: u64,
    lifo: bool,
    /// By family, priority and traffic class.
    ranks: [(u8, u8); 4],
}

pub fn crowd() -> impl Strategy<Value = Crowd> {
    (2u32..9, 1usize..4, 1usize..7).prop_flat_map(|(npus, families, collectives)| {
        let groups = prop::collection::vec(prop::collection::vec(0u32..3, npus as usize), families);
        let orders =
            prop::collection::vec(Just((0..collectives).collect::<Vec<usize>>()).prop_shuffle(), npus as usize);
        let waits = prop::collection::vec(prop::collection::vec(-8i32..6, collectives), npus as usize);
        let collectives = prop::collection::vec((0..families, 1u64..5_000), collectives);
        let rest = ((1u32..3, places()), 100u64..3_000, any::<bool>(), ranks());
        (Just(npus), groups, (orders, waits), collectives, rest).prop_map(
            |(npus, families, (orders, waits), collectives, ((inflight, places), chunk, lifo, ranks))| Crowd {
                npus,
                families,
                orders,
                waits,
                collectives,
                inflight,
                places,
                chunk,
                lifo,
                ranks,
            },
        )
    })
}

impl Crowd {
    fn groups(&self, family: usize) -> Vec<Vec<u32>> {
        let of = |group: u32| (0..self.npus).filter(|&n| self.families[family][n as usize] == group).collect();
        (0..3).map(of).filter(|group: &Vec<u32>| !group.is_empty()).collect()
    }

    /// Every NPU is a class of its own, which computes a little before it issues each of its collectives.
    pub fn spec(&self, endpoint: EndpointSpec, network: NetworkSpec) -> Spec {
        let family = |family: usize| {
            let groups = self.groups(family);
            let mut spec = list(&format!("f{family}"), &groups.iter().map(Vec::as_slice).collect::<Vec<_>>());
            (spec.collectives.inflight, spec.collectives.inflight_per_dimension) = (self.inflight, self.places[family]);
            spec.collectives.chunking = chunks_of(self.chunk);
            spec.collectives.scheduling = if self.lifo { SchedulingSpec::Lifo } else { SchedulingSpec::Fifo };
            (spec.priority, spec.traffic_class) = self.ranks[family];
            spec
        };
        let class_of = |npu: u32| {
            // Collectives are matched by their order in the graph, which is the same on all; that of their issue is not.
            let count = self.collectives.len() as u32;
            let order = &self.orders[npu as usize];
            let mut nodes: Vec<GraphNodeSpec> = (0..count).map(|i| node(time(1_000 + u64::from(i)), &[])).collect();
            for (number, &(family, bytes)) in self.collectives.iter().enumerate() {
                let place = order.iter().position(|&n| n == number).expect("each has a place") as u32;
                let earlier = self.waits[npu as usize][number];
                let waits = u32::try_from(earlier).ok().filter(|&earlier| (earlier as usize) < number);
                let after: Vec<u32> = [place].into_iter().chain(waits.map(|earlier| count + earlier)).collect();
                nodes.push(node(reduce(family as u8, bytes), &after));
            }
            class(&format!("{npu}"), [npu], nodes)
        };
        let families = (0..self.families.len()).map(family).collect();
        graph(vec![switch(self.npus, 1, 500)], endpoint, network, families, (0..self.npus).map(class_of).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn overlapping_communicators_always_finish(crowd in crowd(), which in 0usize..9, shuffle in any::<u64>()) {
        let endpoint = [ideal(), baseline(), contended(baseline())][which % 3].clone();
        let network = [flow(), packet(true), NetworkSpec::Analytical(Default::default())][which / 3].clone();
        let spec = crowd.spec(endpoint, network);
        let results = run(&spec);
        let shuffled = run_spec(&spec, Some(shuffle)).expect("it has run before");
        prop_assert_eq!(summary_but_fold(&results), summary_but_fold(&shuffled));
    }
}

/// Communicators along the dimensions of a torus, which call for collectives in any order without waiting for them.
#[derive(Clone, Debug)]
pub struct Lattice {
    sizes: [u32; 3],
    /// By family, the dimensions along which it extends.
    along: Vec<Vec<u8>>,
    /// By NPU, the order in which it issues the collectives.
    orders: Vec<Vec<usize>>,
    /// By NPU, how much later than others it issues each.
    late: Vec<u64>,
    /// By collective, family, kind and bytes.
    collectives: Vec<(usize, CollectiveKindSpec, u64)>,
    chunk: u64,
    inflight: u32,
    /// By family, chunks along a dimension, of endpoints that limit them.
    places: [Option<u32>; 4],
    lifo: bool,
    /// Whether families of one dimension exchange with each other directly.
    direct: bool,
    /// By family, priority and traffic class; the last one is that of messages.
    ranks: [(u8, u8); 4],
}

pub fn lattice() -> impl Strategy<Value = Lattice> {
    let dims = prop::sample::subsequence(vec![0u8, 1, 2], 1..=2).prop_shuffle();
    let kinds = prop::sample::select(vec![
        CollectiveKindSpec::AllReduce,
        CollectiveKindSpec::ReduceScatter,
        CollectiveKindSpec::AllGather,
        CollectiveKindSpec::AllToAll,
    ]);
    let sizes = prop::array::uniform3(2u32..4);
    (sizes, prop::collection::vec((dims, kinds), 1..4), 1usize..6).prop_flat_map(|(sizes, families, count)| {
        let npus = sizes.iter().product::<u32>() as usize;
        let orders = prop::collection::vec(Just((0..count).collect::<Vec<usize>>()).prop_shuffle(), npus);
        let late = prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 0u64..20_000_000], npus);
        let of = 0..families.len();
        let collectives = prop::collection::vec((of, 1u64..20_000), count);
        let rest = (512u64..4_096, (1u32..3, places()), any::<bool>(), any::<bool>(), ranks());
        (Just(sizes), Just(families), (orders, late), collectives, rest).prop_map(
            |(sizes, families, (orders, late), collectives, (chunk, (inflight, places), lifo, direct, ranks))| {
                // An ACE carries out collectives of equally many phases, so each family has one kind.
                let kinds: Vec<CollectiveKindSpec> = families.iter().map(|family| family.1).collect();
                let of_family = |(family, bytes): (usize, u64)| (family, kinds[family], bytes);
                let collectives = collectives.into_iter().map(of_family).collect();
                let along = families.into_iter().map(|family| family.0).collect();
                Lattice { sizes, along, orders, late, collectives, chunk, inflight, places, lifo, direct, ranks }
            },
        )
    })
}

impl Lattice {
    fn spec(&self, endpoint: EndpointSpec, network: NetworkSpec) -> Spec {
        let family = |(number, along): (usize, &Vec<u8>)| {
            let mut spec = on_grid(&format!("f{number}"), &self.sizes, along);
            spec.collectives.algorithm = match self.direct && along.len() == 1 {
                true => AlgorithmSpec::Direct,
                false => AlgorithmSpec::Ring,
            };
            spec.collectives.inflight = self.inflight;
            if endpoint.model().limits_dimensions() {
                spec.collectives.inflight_per_dimension = self.places[number];
            }
            spec.collectives.chunking = chunks_of(self.chunk);
            spec.collectives.padding = true;
            spec.collectives.scheduling = if self.lifo { SchedulingSpec::Lifo } else { SchedulingSpec::Fifo };
            (spec.priority, spec.traffic_class) = self.ranks[number];
            spec
        };
        let class_of = |(npu, order): (usize, &Vec<usize>)| {
            let count = self.collectives.len() as u64;
            let mut nodes: Vec<GraphNodeSpec> =
                (0..count).map(|i| node(time(1_000 + i + self.late[npu]), &[])).collect();
            for (number, &(family, kind, bytes)) in self.collectives.iter().enumerate() {
                let place = order.iter().position(|&n| n == number).expect("each has a place") as u32;
                let work = WorkSpec::Collective { family: family as u8, kind, bytes, root: 0 };
                nodes.push(node(work, &[place]));
            }
            class(&format!("{npu}"), [npu as u32], nodes)
        };
        let families = self.along.iter().enumerate().map(family).collect();
        let dims = self.sizes.iter().map(|&size| dim(size, 1, 500)).collect();
        graph(dims, endpoint, network, families, self.orders.iter().enumerate().map(class_of).collect())
    }
}

/// An ACE with the smallest SRAM and the smallest input buffers that it is not refused with.
fn smallest(lattice: &Lattice, network: impl Fn(Option<u32>) -> NetworkSpec) -> Spec {
    let with = |sram_bytes: u64, buffer: Option<u32>| {
        let ace = AceSpec { sram_bytes, message_bytes: 512, ..crate::support::ace_spec() };
        lattice.spec(EndpointSpec::Ace(ace), network(buffer))
    };
    let refused = |spec: &Spec| run_spec(spec, None).err().map(|error| crate::support::least(&error));
    let sram = refused(&with(1, None)).expect("an SRAM of one byte is too small");
    let spec = with(sram, Some(1));
    match refused(&spec) {
        Some(buffer) => with(sram, Some(buffer as u32)),
        None => spec,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn communicators_along_a_torus_always_finish(lattice in lattice(), which in 0u32..5, shuffle in any::<u64>()) {
        let packets = |buffer_packets| NetworkSpec::Packet(PacketSpec { buffer_packets, ..PacketSpec::DEFAULT });
        let spec = match which {
            0 => lattice.spec(ideal(), flow()),
            1 => lattice.spec(baseline(), packets(None)),
            2 => lattice.spec(contended(baseline()), packets(None)),
            3 => smallest(&lattice, |_| flow()),
            _ => smallest(&lattice, packets),
        };
        let results = run(&spec);
        let shuffled = run_spec(&spec, Some(shuffle)).expect("it has run before");
        prop_assert_eq!(summary_but_fold(&results), summary_but_fold(&shuffled));
    }
}

/// The same of one class, or of two that are told apart by the coordinate along a dimension, and messages around it.
pub fn alike(lattice: &Lattice, two: bool, endpoint: EndpointSpec, network: NetworkSpec) -> Spec {
    let mut spec = lattice.spec(endpoint, network);
    let JobSpec::Graph { graph, .. } = &mut spec.job else { panic!("a graph") };
    let npus = lattice.sizes.iter().product::<u32>();
    let count = graph.classes[0].nodes.len() as u32;
    let mut classes = Vec::new();
    for part in 0u32..if two { 2 } else { 1 } {
        let own = |npu: &u32| !two || npu.is_multiple_of(lattice.sizes[0]) == (part == 0);
        let mut nodes = graph.classes[0].nodes.clone();
        nodes.push(node(time(5_000 * u64::from(part + 1)), &[count - 1]));
        let family = spec.families.len() as u8;
        let message = |peer| MessageSpec { family, peer, tag: 0, bytes: 3_000 };
        nodes.push(node(WorkSpec::Send(message(1)), &[count]));
        nodes.push(node(WorkSpec::Recv(message(-1)), &[]));
        nodes.push(node(time(1), &[count + 2]));
        classes.push(class(&format!("{part}"), (0..npus).filter(own), nodes));
    }
    Arc::make_mut(graph).classes = classes;
    let (priority, traffic_class) = lattice.ranks[3];
    spec.families.push(FamilySpec { priority, traffic_class, ..on_grid("around", &lattice.sizes, &[0]) });
    spec.fold = FoldSpec::Off;
    spec
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_folded_run_is_the_whole_one(lattice in lattice(), two in any::<bool>()) {
        // Along a dimension of three, the two classes are of different sizes.
        let two = two && lattice.sizes[0] == 2;
        for endpoint in [ideal(), baseline(), contended(baseline()), ace()] {
            for network in [flow(), packet(true), NetworkSpec::Analytical(Default::default())] {
                let whole = alike(&lattice, two, endpoint.clone(), network);
                let folded = Spec { fold: FoldSpec::On, ..whole.clone() };
                let (whole, folded) = (run(&whole), run(&folded));
                prop_assert!(folded.summary.simulated_npus < whole.summary.simulated_npus);
                prop_assert_eq!(summary_but_fold(&whole), summary_but_fold(&folded));
            }
        }
    }
}
