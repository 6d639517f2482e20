//! Descriptions of simulations, small enough to read.

use syncline_system::spec::{
    AceSpec, AlgorithmSpec, BaselineSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, CollectiveSpec, DimSpec,
    EndpointSpec, FabricSpec, FoldSpec, ForwardingSpec, IdealSpec, JobSpec, LanesSpec, NetworkSpec, OutputSpec,
    PacketSpec, PostingSpec, SchedulingSpec, Spec, StartSpec, SwitchOffloadSpec, TransitSpec,
};
use syncline_system::{Results, RunError, run_spec};

pub const CYCLE_PS: u64 = 804;

pub fn dim(size: u32, rate_gbs: u64, latency_ps: u64) -> DimSpec {
    DimSpec { block: BlockSpec::Ring, size, rate_bytes_per_s: rate_gbs * 1_000_000_000, latency_ps, links: 1 }
}

/// The torus of the ACE paper, with the rates of Table V.
pub fn ace_torus(sizes: [u32; 3]) -> Vec<DimSpec> {
    let link = |i: usize| if i == 0 { (188_000_000_000, 72_290) } else { (23_500_000_000, 401_607) };
    let dims = sizes.iter().enumerate();
    let ring = |(i, &size): (usize, &u32)| DimSpec {
        block: BlockSpec::Ring,
        size,
        rate_bytes_per_s: link(i).0,
        latency_ps: link(i).1,
        links: 1,
    };
    dims.map(ring).collect()
}

pub fn packet(trains: bool) -> NetworkSpec {
    NetworkSpec::Packet(PacketSpec { trains, ..PacketSpec::DEFAULT })
}

/// The backends in which a message takes the time of its payload, and NPUs that are alike take the same: those without a
/// transport, whose frames have headers and may get lost.
pub fn exact_networks() -> Vec<NetworkSpec> {
    let is_exact = |network: &NetworkSpec| network.model().unfolded(&mut std::iter::empty()).is_none();
    NetworkSpec::all().into_iter().filter(is_exact).collect()
}

/// These, and packets one by one.
pub fn networks() -> Vec<NetworkSpec> {
    [exact_networks(), vec![packet(false)]].concat()
}

/// The least number that would do in place of what a run is refused for.
pub fn least(refused: &RunError) -> u64 {
    let RunError::Spec(refusals) = refused else { panic!("{refused}") };
    refusals[0].least.unwrap_or_else(|| panic!("{refused}"))
}

pub fn ideal() -> EndpointSpec {
    EndpointSpec::Ideal(IdealSpec::default())
}

/// The ideal endpoint that passes packets on as they come, without latency.
pub fn streaming(step_latency_ps: u64) -> EndpointSpec {
    EndpointSpec::Ideal(IdealSpec {
        step_latency_ps,
        injection_latency_ps: 0,
        forwarding: ForwardingSpec::Packets,
        ..IdealSpec::default()
    })
}

pub fn baseline() -> EndpointSpec {
    EndpointSpec::Baseline(BaselineSpec::default())
}

pub fn ace_spec() -> AceSpec {
    AceSpec::default()
}

pub fn ace() -> EndpointSpec {
    EndpointSpec::Ace(ace_spec())
}

pub fn switch_offload_spec() -> SwitchOffloadSpec {
    SwitchOffloadSpec::default()
}

pub fn switch_offload() -> EndpointSpec {
    EndpointSpec::SwitchOffload(switch_offload_spec())
}

/// Every endpoint that works on any fabric: those without switches that add and copy.
pub fn endpoints() -> Vec<EndpointSpec> {
    EndpointSpec::all().into_iter().filter(|endpoint| endpoint.model().adding_switches().is_none()).collect()
}

/// Who forwards for an endpoint, where its description says so.
fn transit(endpoint: &mut EndpointSpec) -> Option<&mut TransitSpec> {
    match endpoint {
        EndpointSpec::Ideal(IdealSpec { transit, .. })
        | EndpointSpec::Baseline(BaselineSpec { transit, .. })
        | EndpointSpec::Ace(AceSpec { transit, .. }) => Some(transit),
        _ => None,
    }
}

/// An endpoint that forwards itself what is for distant NPUs.
pub fn forwarding(mut endpoint: EndpointSpec) -> EndpointSpec {
    match transit(&mut endpoint) {
        Some(transit) => *transit = TransitSpec::Endpoint,
        None => panic!("this endpoint does not forward: {endpoint:?}"),
    }
    endpoint
}

/// Every endpoint of which [`forwarding`] makes one that forwards.
pub fn forwarders() -> Vec<EndpointSpec> {
    endpoints().into_iter().filter(|endpoint| transit(&mut endpoint.clone()).is_some()).collect()
}

/// A direct all-to-all of one chunk of `bytes`, through the endpoints.
pub fn all_to_all(dims: Vec<DimSpec>, endpoint: EndpointSpec, bytes: u64) -> Spec {
    let mut spec = all_reduce(dims, forwarding(endpoint), bytes);
    spec.collectives.algorithm = AlgorithmSpec::Direct;
    spec.job = collective_job(CollectiveKindSpec::AllToAll, bytes);
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    spec
}

/// A collective whose root, if it has one, is rank 0.
pub fn collective_job(collective: CollectiveKindSpec, bytes: u64) -> JobSpec {
    JobSpec::Collective { collective, bytes, root: 0, beside: vec![] }
}

/// Chunks of a size.
pub fn chunks_of(bytes: u64) -> ChunkingSpec {
    ChunkingSpec::Size { bytes, least_block_bytes: 0 }
}

/// The dimensions of a description's product.
pub fn dims(spec: &mut Spec) -> &mut Vec<DimSpec> {
    match &mut spec.fabric {
        FabricSpec::Product { dims, .. } => dims,
        FabricSpec::Graph { .. } => panic!("not a product"),
    }
}

/// A single all-reduce: 64 KiB chunks, 32 in flight, on the packet backend.
pub fn all_reduce(dims: Vec<DimSpec>, endpoint: EndpointSpec, bytes: u64) -> Spec {
    Spec {
        families: Vec::new(),
        overrides: Vec::new(),
        fabric: FabricSpec::Product { dims, odd_links: vec![] },
        groups: None,
        fold: FoldSpec::Off,
        seed: 0,
        changes: vec![],
        attributes: vec![],
        network: packet(true),
        endpoint,
        collectives: CollectiveSpec {
            algorithm: AlgorithmSpec::AceFourPhase,
            algorithms: vec![],
            plans: vec![],
            per_dimension: None,
            posting: PostingSpec::Rotated,
            slices: 0,
            padding: false,
            chunking: chunks_of(65_536),
            chunks_of: vec![],
            least_chunk_bytes: 0,
            priced: vec![],
            inflight: 32,
            inflight_per_dimension: None,
            loops: 1,
            scheduling: SchedulingSpec::Lifo,
            priority: vec![],
            lanes: LanesSpec::Alternate,
            element_bytes: 2,
        },
        job: collective_job(CollectiveKindSpec::AllReduce, bytes),
        start: StartSpec::default(),
        output: OutputSpec { window_ps: Some(803_213), trace_npus: vec![], trace_limit: 1000, steady: false },
        memory_limit_bytes: None,
        graphs: std::sync::Arc::default(),
    }
}

pub fn run(spec: &Spec) -> Results {
    run_spec(spec, None).unwrap_or_else(|error| panic!("{error}\n{spec:?}"))
}

/// The summary as text, for comparing runs to the last bit.
pub fn fingerprint(results: &Results) -> String {
    serde_json::to_string(&results.summary).expect("a summary is plain data")
}

/// What a summary says of a resource: busy and waiting time.
pub fn resource(results: &Results, name: &str) -> (u64, u64) {
    let found = results.summary.endpoint.resources.iter().find(|r| r.resource == name);
    let found = found.unwrap_or_else(|| panic!("no resource {name}"));
    (found.busy_ps as u64, found.wait_ps as u64)
}

/// The summary without what tells a folded run from one of the whole machine.
pub fn summary_but_fold(results: &Results) -> String {
    let mut summary = results.summary.clone();
    (summary.simulated_npus, summary.events, summary.unfolded) = (0, 0, None);
    serde_json::to_string(&summary).expect("a summary is plain data")
}
