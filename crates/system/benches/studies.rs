//! Whole simulations, one core: `cargo bench -p syncline-system`.
//!
//! The virtual result of each is checked; wall time and the largest resident set are reported. The tori
//! of rings at 50 GiB/s and 500 ns are those for which ASTRA-sim's analytical backend takes 49 s and 1.4 GB
//! (ring of 2048), 17 s (16x16x16) and 17 s and 0.95 GB (16x16x64).

use syncline_system::spec::{
    AceSpec, AlgorithmSpec, AnalyticalSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, CollectiveSpec, ComputeSpec,
    DimSpec, EndpointSpec, FabricSpec, FoldSpec, ForwardingSpec, IdealSpec, JobSpec, LanesSpec, NetworkSpec,
    OutputSpec, PacketSpec, PostingSpec, SchedulingSpec, Spec, StartSpec, TransitSpec,
};

const GIB_50: u64 = 50 << 30;
/// With 32 samples in FP16, as the package's file says.
const RESNET_50: &str = include_str!("../tests/fixtures/resnet50.json");

fn rings(dims: &[(u32, u64, u64)]) -> FabricSpec {
    let dim = |&(size, rate_bytes_per_s, latency_ps): &(u32, u64, u64)| DimSpec {
        block: BlockSpec::Ring,
        size,
        rate_bytes_per_s,
        latency_ps,
        links: 1,
    };
    FabricSpec::Product { dims: dims.iter().map(dim).collect(), odd_links: vec![] }
}

/// The torus of the ACE paper (Table V).
fn ace_torus(sizes: [u32; 3]) -> FabricSpec {
    let link = |dim: usize| if dim == 0 { (188_000_000_000, 72_290) } else { (23_500_000_000, 401_607) };
    let dims: Vec<_> = sizes.iter().enumerate().map(|(i, &size)| (size, link(i).0, link(i).1)).collect();
    rings(&dims)
}

fn packets() -> NetworkSpec {
    NetworkSpec::Packet(PacketSpec { trains: true, ..PacketSpec::DEFAULT })
}

/// An all-reduce in `chunks` chunks, all in flight, on a torus of equal rings.
fn all_reduce(sizes: &[u32], bytes: u64, chunks: u32, network: NetworkSpec) -> Spec {
    let dims: Vec<_> = sizes.iter().map(|&size| (size, GIB_50, 500_000)).collect();
    Spec {
        families: Vec::new(),
        overrides: Vec::new(),
        fabric: rings(&dims),
        groups: None,
        fold: FoldSpec::Off,
        seed: 0,
        changes: vec![],
        attributes: vec![],
        network,
        endpoint: EndpointSpec::Ideal(IdealSpec {
            gives_way: None,
            step_latency_ps: 10_000,
            injection_latency_ps: 0,
            forwarding: ForwardingSpec::Messages,
            transit: TransitSpec::Network,
        }),
        collectives: CollectiveSpec {
            algorithm: AlgorithmSpec::SixPhase,
            algorithms: vec![],
            plans: vec![],
            per_dimension: None,
            posting: PostingSpec::Rotated,
            slices: 0,
            padding: true,
            chunking: ChunkingSpec::Count { chunks },
            chunks_of: vec![],
            least_chunk_bytes: 0,
            priced: vec![],
            inflight: chunks,
            inflight_per_dimension: None,
            loops: 1,
            scheduling: SchedulingSpec::Lifo,
            priority: vec![],
            lanes: LanesSpec::Alternate,
            element_bytes: 4,
        },
        job: JobSpec::Collective { collective: CollectiveKindSpec::AllReduce, bytes, root: 0, beside: vec![] },
        start: StartSpec::default(),
        output: OutputSpec { window_ps: Some(100_000_000), trace_npus: vec![], trace_limit: 0, steady: false },
        memory_limit_bytes: None,
        graphs: std::sync::Arc::default(),
    }
}

/// With ACE (Tables III, V and VI).
fn with_ace(sizes: [u32; 3], bytes: u64) -> Spec {
    let mut spec = all_reduce(&[1], bytes, 1, packets());
    spec.fabric = ace_torus(sizes);
    spec.endpoint = EndpointSpec::Ace(AceSpec::default());
    spec.collectives.algorithm = AlgorithmSpec::AceFourPhase;
    spec.collectives.chunking = ChunkingSpec::Size { bytes: 65_536, least_block_bytes: 256 };
    spec.collectives.inflight = 16;
    spec.collectives.element_bytes = 2;
    spec
}

/// Two iterations of ResNet-50 with FP16 gradients on 4x8x4, drained: 118 million packet-hops.
fn resnet50(fold: FoldSpec) -> Spec {
    let mut spec = with_ace([4, 8, 4], 0);
    spec.fold = fold;
    spec.collectives.chunking = ChunkingSpec::Size { bytes: 65_536, least_block_bytes: 0 };
    let workload = serde_json::from_str(RESNET_50).expect("a workload");
    spec.job = JobSpec::Training {
        host_kernel_ps: 0,
        workload,
        strategy: syncline_system::spec::StrategySpec::DataParallel,
        iterations: 2,
        overlap: true,
        buckets: None,
        barrier: false,
        drain: true,
        update: false,
        stragglers: vec![],
        compute: ComputeSpec {
            flops_per_s: 120e12,
            memory_bytes_per_s: 772e9,
            scale: 0.065,
            tile: std::num::NonZeroU32::new(384),
            ..ComputeSpec::default()
        },
        background: None,
    };
    spec
}

/// The largest resident set since the last call, in bytes, where the system tells.
fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse::<u64>();
    let _ = std::fs::write("/proc/self/clear_refs", "5"); // begins anew
    Some(kilobytes.ok()? * 1000)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn measure(name: &str, spec: &Spec, simulated_ps: u64) {
    peak_rss();
    let start = std::time::Instant::now();
    let summary = syncline_system::run_spec(spec, None).expect("it runs to its end").summary;
    let s = start.elapsed().as_secs_f64();
    assert_eq!(summary.total_ps, simulated_ps, "{name}");
    let rss = peak_rss().map_or(String::new(), |bytes| format!(", {} MB", bytes / 1_000_000));
    println!(
        "{name}: {s:.2} s{rss}, {} of {} NPUs simulated, {:.1} million events, {:.1} million packet-hops",
        summary.simulated_npus,
        summary.npus,
        summary.events as f64 / 1e6,
        summary.network.packet_hops as f64 / 1e6,
    );
}

fn main() {
    let analytical = || NetworkSpec::Analytical(AnalyticalSpec {});
    measure("ring of 2048, 1 MiB, 1 chunk", &all_reduce(&[2048], 1 << 20, 1, analytical()), 2_127_004_478);
    measure("16x16x16, 1 GiB, 4 chunks", &all_reduce(&[16, 16, 16], 1 << 30, 4, analytical()), 19_339_512_240);
    measure("16x16x64, 1 GiB, 1 chunk", &all_reduce(&[16, 16, 64], 1 << 30, 1, analytical()), 40_092_478_704);
    measure("8x8x8, 1 GiB, 64 chunks, packet trains", &all_reduce(&[8, 8, 8], 1 << 30, 64, packets()), 17_502_826_304);
    let mut million = with_ace([128, 128, 64], 64_000_000);
    million.fold = FoldSpec::On;
    measure("128x128x64, ACE, 64 MB, packets, folded", &million, 2_373_413_829);
    measure("4x8x4, ACE, ResNet-50, packets, folded", &resnet50(FoldSpec::On), 3_369_362_532);
    measure("4x8x4, ACE, ResNet-50, packets", &resnet50(FoldSpec::Off), 3_369_362_532);
}
