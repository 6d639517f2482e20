//! Rings and direct all-to-alls beside each other in an ACE.

use crate::support::{
    self, ace, ace_spec, ace_torus, all_reduce, all_to_all, chunks_of, exact_networks, forwarders, ideal, networks,
    packet, summary_but_fold,
};
use proptest::prelude::*;
use syncline_collective::{Kind, Rank};
use syncline_core::{Bytes, Ps};
use syncline_system::build::{run_plan, try_out};
use syncline_system::job::{Demand, Job};
use syncline_system::setup::RunPlan;
use syncline_system::spec::{
    AceSpec, AlgorithmSpec, CollectiveKindSpec, ComputeSpec, DimSpec, EndpointSpec, FabricSpec, FoldSpec, JobSpec,
    LanesSpec, NetworkSpec, PacketSpec, SchedulingSpec, Spec, StrategySpec, TransitSpec, WorkloadSpec,
};
use syncline_system::{Results, RunError};
use syncline_workload::compute::Npu;
use syncline_workload::graph::{ClassId, FamilyId, GraphSource, Node, NodeIndex, Pass, Stream, Work};
use syncline_workload::{Cost, Layer, astra_text};

/// A collective, and how long the NPU computes before it issues it; whether it waits for that first.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub kind: Kind,
    bytes: u64,
    compute: u64,
    waits: bool,
}

/// An NPU that computes and issues collectives in turn.
struct Mix {
    steps: Vec<Step>,
    layers: Vec<Layer>,
}

impl GraphSource for Mix {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn iteration(&mut self, _: ClassId, _: u32) -> Vec<Node> {
        let node = |work, after| Node { layer: 0, pass: Pass::WeightGrad, stream: Stream::MAIN, work, after };
        let mut nodes = Vec::new();
        for step in &self.steps {
            // Nodes alternate: compute, collective.
            let before = (nodes.len() as u32).checked_sub(1).filter(|_| step.waits).map(NodeIndex);
            nodes.push(node(Work::Compute(Cost::Measured(Ps(step.compute))), before.into_iter().collect()));
            let size = Bytes(step.bytes);
            let work = Work::Collective { family: FamilyId(0), kind: step.kind, root: Rank(0), size };
            nodes.push(node(work, vec![NodeIndex(nodes.len() as u32 - 1)]));
        }
        nodes
    }
}

fn job(steps: &[Step]) -> Job {
    let text = "DATA\n1\na -1 0 NONE 0 0 NONE 0 0 NONE 0 0\n";
    let collectives = steps.iter().map(|s| (s.kind, Rank(0), s.bytes)).collect();
    let source = Box::new(Mix { steps: steps.to_vec(), layers: astra_text::parse(text).expect("a layer") });
    let npu = Npu::new(1.0, 1.0, 1.0).expect("an NPU");
    let compute_ps = steps.iter().map(|s| s.compute as f64).sum();
    Job { drain: true, compute_ps, ..Job::of_all(source, Demand { collectives, iterations: 1 }, npu) }
}

fn outcome(spec: &Spec, steps: &[Step], shuffle: Option<u64>) -> Result<Results, RunError> {
    run_plan(spec, RunPlan::with(spec, try_out, || Ok(job(steps)))?, shuffle)
}

pub fn run(spec: &Spec, steps: &[Step]) -> Results {
    outcome(spec, steps, None).unwrap_or_else(|error| panic!("{error}\n{spec:?}\n{steps:?}"))
}

/// Engines that forward, in chunks of `chunk`, and NPUs some of which may be slow.
fn spec(sizes: [u32; 3], chunk: u64, stragglers: &[(u32, f64)]) -> Spec {
    spec_on(ace_torus(sizes), chunk, stragglers)
}

fn spec_on(rings: Vec<DimSpec>, chunk: u64, stragglers: &[(u32, f64)]) -> Spec {
    let mut spec = all_reduce(rings, crate::support::forwarding(ace()), 0);
    spec.collectives.chunking = chunks_of(chunk);
    spec.collectives.algorithms = vec![(CollectiveKindSpec::AllToAll, AlgorithmSpec::Direct)];
    spec.job = JobSpec::Training {
        host_kernel_ps: 0,
        workload: WorkloadSpec::AstraText { text: String::new() },
        strategy: StrategySpec::DataParallel,
        iterations: 1,
        overlap: true,
        buckets: None,
        barrier: false,
        drain: true,
        update: false,
        stragglers: stragglers.to_vec(),
        compute: ComputeSpec { flops_per_s: 1.0, memory_bytes_per_s: 1.0, scale: 1.0, ..ComputeSpec::default() },
        background: None,
    };
    spec
}

pub fn engine(spec: &mut Spec) -> &mut AceSpec {
    match &mut spec.endpoint {
        EndpointSpec::Ace(ace) => ace,
        _ => panic!("not an ACE"),
    }
}

fn step(kind: Kind, bytes: u64) -> Step {
    Step { kind, bytes, compute: 0, waits: false }
}

/// On rings of two and four NPUs, two of which come late, all-reduces in chunks whose parts go round different lanes.
pub fn ahead_of_each_other() -> (Spec, Vec<Step>) {
    let ring = |size| DimSpec { size, ..crate::support::dim(size, 1, 1000) };
    let mut spec = spec_on(vec![ring(2), ring(4)], 964, &[(3, 5.9), (7, 5.3)]);
    spec.collectives.algorithm = AlgorithmSpec::SixPhase;
    spec.collectives.lanes = LanesSpec::Split;
    let reduce = |compute| Step { compute, ..step(Kind::AllReduce, 21_208) };
    (spec, vec![step(Kind::AllToAll, 4), reduce(8_156_535), reduce(2_466_484)])
}

/// What the refusal of a run would accept at least.
fn least(spec: &Spec, steps: &[Step]) -> u64 {
    support::least(&outcome(spec, steps, None).expect_err("a run that is refused"))
}

/// As little SRAM and buffers as the engine accepts.
pub fn squeezed(mut spec: Spec, steps: &[Step]) -> Spec {
    engine(&mut spec).sram_bytes = 1;
    let sram = least(&spec, steps);
    engine(&mut spec).sram_bytes = sram;
    engine(&mut spec).port_buffer_bytes = 256;
    let buffers = |buffer_packets| {
        NetworkSpec::Packet(PacketSpec { buffer_packets: Some(buffer_packets), ..PacketSpec::DEFAULT })
    };
    spec.network = buffers(2);
    spec.network = buffers(least(&spec, steps) as u32);
    spec
}

/// Bytes that an engine writes to its memory: the results of all-reduces, and what others have for it.
fn written(npus: u64, steps: &[Step]) -> u64 {
    let of = |s: &Step| match s.kind {
        Kind::AllReduce => npus * s.bytes,
        _ => (npus - 1) * s.bytes,
    };
    steps.iter().map(of).sum()
}

#[test]
fn both_kinds_move_what_they_move_alone() {
    let steps = [step(Kind::AllReduce, 480_000), step(Kind::AllToAll, 240_000), step(Kind::AllReduce, 48_000)];
    let spec = spec([4, 3, 2], 48_000, &[]);
    let both = run(&spec, &steps).summary;
    let (rings, exchange) = (run(&spec, &[steps[0], steps[2]]).summary, run(&spec, &steps[1..2]).summary);
    assert_eq!(both.endpoint.memory_write_bytes, written(24, &steps));
    assert_eq!(both.endpoint.transit_bytes, exchange.endpoint.transit_bytes);
    let sum = |f: fn(&syncline_system::Summary) -> u64| (f(&both), f(&rings) + f(&exchange));
    for (both, apart) in [
        sum(|s| s.network.link_bytes as u64),
        sum(|s| s.endpoint.memory_read_bytes),
        sum(|s| s.endpoint.sent_bytes),
        sum(|s| s.endpoint.memory_write_bytes),
    ] {
        assert_eq!(both, apart);
    }
    // Side by side they take less than one after the other, and no less than the longer one.
    assert!(both.total_ps < rings.total_ps + exchange.total_ps);
    assert!(both.total_ps > rings.total_ps.max(exchange.total_ps));
}

/// What has priority is hardly slower for what goes on beside it.
#[test]
fn an_exchange_passes_rings_that_wait() {
    let latency = |steps: &[Step], priority: bool| {
        let mut spec = spec([4, 2, 2], 64 << 10, &[]);
        if priority {
            spec.collectives.priority = vec![CollectiveKindSpec::AllToAll];
        }
        let results = run(&spec, steps);
        let table = results.tables.iter().find(|t| t.name == "collectives").expect("a table").clone();
        let column = |name: &str| match table.values(name).expect("a column") {
            syncline_system::Values::OptionalInt(values) => values.last().expect("a collective").expect("a time"),
            _ => panic!("{name} is not a number"),
        };
        column("completed_ps") - column("issued_ps")
    };
    let exchange = Step { compute: 20_000_000, ..step(Kind::AllToAll, 1 << 20) };
    let alone = latency(&[exchange], false);
    let rings = [step(Kind::AllReduce, 16 << 20), exchange];
    let mut fifo = 0;
    for priority in [false, true] {
        let took = latency(&rings, priority);
        assert!(took < 4 * alone, "{took} beside rings, {alone} alone");
        fifo = fifo.max(took);
    }
    assert!(fifo > alone);
}

#[test]
fn routers_leave_it_to_the_engines() {
    let mut spec = spec([4, 2, 2], 65_536, &[]);
    engine(&mut spec).transit = TransitSpec::Network;
    let steps = [step(Kind::AllReduce, 65_536), step(Kind::AllToAll, 65_536)];
    let error = outcome(&spec, &steps, None).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.starts_with("endpoint.transit: ") && error.ends_with("; accepted: endpoint"), "{error}");
    // Where there are no buffers, routers have nothing to fill.
    for network in exact_networks().into_iter().filter(|network| network.model().packet_bytes().is_none()) {
        spec.network = network;
        let summary = run(&spec, &steps).summary;
        assert_eq!(summary.endpoint.transit_bytes, 0);
        assert_eq!(summary.endpoint.memory_write_bytes, written(16, &steps));
    }
}

#[test]
fn the_sram_holds_a_chunk_of_each_kind() {
    // Phases that begin with 36, 9, 9 and 9 KiB; results of 36 KiB and a packet; two packets for each of six ports.
    let mut spec = spec([4, 3, 3], 36 << 10, &[]);
    engine(&mut spec).sram_bytes = 1;
    let steps = [step(Kind::AllReduce, 36 << 10), step(Kind::AllToAll, 36 << 10)];
    assert_eq!(least(&spec, &steps), (36 + 9 + 9 + 9 + 36) * 1024 + 256 + 2 * 6 * 256);
}

prop_compose! {
    /// Collectives of a kind over rings, and all-to-alls; at least one of each.
    fn steps()(
        ring in prop_oneof![4 => Just(Kind::AllReduce), 1 => Just(Kind::ReduceScatter), 1 => Just(Kind::AllGather)],
        steps in prop::collection::vec((any::<bool>(), 1u64..15_000, 0u64..40_000_000, any::<bool>()), 2..9),
    ) -> Vec<Step> {
        let step = |(i, (passing, bytes, compute, waits))| {
            let passing = if i < 2 { i == 1 } else { passing };
            let kind = if passing { Kind::AllToAll } else { ring };
            Step { kind, bytes: 4 * bytes, compute, waits }
        };
        steps.into_iter().enumerate().map(step).collect()
    }
}

prop_compose! {
    fn tori()(
        sizes in prop_oneof![
            (3u32..9).prop_map(|n| [n, 1, 1]),
            (3u32..9).prop_map(|n| [1, n, 1]),
            (1u32..5, 1u32..5, 2u32..4).prop_map(|(a, b, c)| [a, b, c]),
        ],
    ) -> Vec<DimSpec> {
        ace_torus(sizes)
    }
}

prop_compose! {
    pub fn mixes(rings: impl Strategy<Value = Vec<DimSpec>>)(
        rings in rings, steps in steps(), chunk in 125u64..3_000, algorithm in 0usize..3, fifo: bool, priority in 0usize..3,
        slow in prop::collection::vec((0u32..32, 1.0f64..8.0), 0..3), lanes in 0usize..3,
    ) -> (Spec, Vec<Step>) {
        let npus = rings.iter().map(|ring| ring.size).product::<u32>();
        let slow: Vec<(u32, f64)> = slow.into_iter().map(|(npu, factor)| (npu % npus, factor)).collect();
        let mut spec = spec_on(rings, 4 * chunk, &slow);
        let c = &mut spec.collectives;
        let all_reduce = steps.iter().any(|s| s.kind == Kind::AllReduce);
        let algorithm = if all_reduce { algorithm } else { 0 };
        c.algorithm = [AlgorithmSpec::Ring, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase][algorithm];
        c.scheduling = if fifo { SchedulingSpec::Fifo } else { SchedulingSpec::Lifo };
        c.priority = [vec![], vec![CollectiveKindSpec::AllToAll], vec![CollectiveKindSpec::AllReduce]][priority].clone();
        c.lanes = [LanesSpec::Alternate, LanesSpec::Split, LanesSpec::One][lanes];
        (spec, steps)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(250) })]

    /// As little room as there may be, and NPUs that come late: everything finishes, and all bytes arrive.
    #[test]
    fn squeezed_mixes_finish((spec, steps) in mixes(tori())) {
        let npus: u64 = match &spec.fabric {
            FabricSpec::Product { dims, .. } => dims.iter().map(|d| u64::from(d.size)).product(),
            FabricSpec::Graph { .. } => unreachable!("a torus"),
        };
        let spec = squeezed(spec, &steps);
        let summary = run(&spec, &steps).summary;
        if steps.iter().all(|s| matches!(s.kind, Kind::AllReduce | Kind::AllToAll)) {
            let uneven = steps.len() as u64 * npus * npus * 4096; // blocks of unequal length
            prop_assert!(summary.endpoint.memory_write_bytes.abs_diff(written(npus, &steps)) <= uneven);
        }
        prop_assert_eq!(summary.network.injected_bytes, summary.network.delivered_bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(120) })]

    /// Folded or not, shuffled or not, packet by packet or in trains.
    #[test]
    fn a_mix_is_the_same_however_it_is_computed((mut spec, steps) in mixes(tori()), seed: u64, network in proptest::sample::select(networks())) {
        let JobSpec::Training { stragglers, .. } = &mut spec.job else { unreachable!("training") };
        let alike = stragglers.is_empty();
        spec.network = network;
        spec.collectives.padding = true;
        engine(&mut spec).sram_bytes = 200_000;
        let once = run(&spec, &steps);
        let shuffled = outcome(&spec, &steps, Some(seed)).unwrap_or_else(|e| panic!("{e}"));
        // Only how often a port is looked at in vain depends on what came first in an instant.
        prop_assert_eq!(summary_but_fold(&once), summary_but_fold(&shuffled));
        if alike {
            spec.fold = FoldSpec::On;
            prop_assert_eq!(summary_but_fold(&once), summary_but_fold(&run(&spec, &steps)));
        }
        if let NetworkSpec::Packet(PacketSpec { trains, .. }) = spec.network {
            spec.fold = FoldSpec::Off;
            spec.network = packet(!trains);
            prop_assert_eq!(once.summary.total_ps, run(&spec, &steps).summary.total_ps);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(60) })]

    /// An endpoint that takes a cycle for everything is the fastest to forward, but for what whole messages lose to packets
    /// that stream, and for the luck of order at a port.
    #[test]
    fn an_ideal_endpoint_forwards_fastest(
        a in 1u32..6, b in 1u32..5, c in 2u32..5, bytes in 1u64..8_000, chunk in 8u64..8_000,
    ) {
        let npus = u64::from(a * b * c);
        let total = |endpoint| {
            let mut spec = all_to_all(ace_torus([a, b, c]), endpoint, npus * 4 * bytes);
            spec.collectives.chunking = chunks_of(npus * 4 * chunk);
            spec.collectives.inflight = 10_000; // an ACE has no such limit
            crate::support::run(&spec).summary.total_ps
        };
        let fastest = total(ideal());
        for endpoint in forwarders() {
            prop_assert!(total(endpoint) * 10 >= fastest * 8);
        }
    }
}

#[test]
fn engines_of_few_machines_serve_both() {
    // As many FSMs as phases: an all-to-all waits for each of them in turn.
    let mut spec = spec([4, 3, 2], 48_000, &[(3, 2.0)]);
    *engine(&mut spec) = AceSpec { fsms: 4, transit: TransitSpec::Endpoint, ..ace_spec() };
    let steps: Vec<Step> = (0..12u64)
        .map(|i| Step {
            kind: if i % 2 == 0 { Kind::AllReduce } else { Kind::AllToAll },
            bytes: 240_000,
            compute: 10_000_000,
            waits: i % 5 == 4,
        })
        .collect();
    let summary = run(&spec, &steps).summary;
    assert_eq!(summary.endpoint.memory_write_bytes, written(24, &steps));
    assert_eq!(summary.endpoint.fsm_peak, 4);
}
