//! Changing one parameter moves the result the right way, and waits belong to their resource.

use crate::support::{
    ace, ace_spec, ace_torus, all_reduce, baseline, collective_job, dim, dims, endpoints, forwarding, ideal, resource,
    run, streaming,
};
use proptest::prelude::*;
use syncline_system::Results;
use syncline_system::spec::{
    AceSpec, AlgorithmSpec, BaselineSpec, BusSpec, ChunkingSpec, CollectiveKindSpec, EndpointSpec, LanesSpec,
    TransitSpec,
};

fn ace_run(change: impl FnOnce(&mut AceSpec)) -> Results {
    let mut ace = ace_spec();
    change(&mut ace);
    run(&all_reduce(ace_torus([4, 4, 2]), EndpointSpec::Ace(ace), 16 << 20))
}

fn baseline_run(memory: u64, sms: u64, bus: u64) -> Results {
    let endpoint = EndpointSpec::Baseline(BaselineSpec {
        memory_bytes_per_s: memory * 1_000_000_000,
        sm_bytes_per_s: sms * 79_680_000_000,
        bus_bytes_per_s: bus * 1_000_000_000,
        charge_writes: false,
        buses: BusSpec::Rate,
        transit: TransitSpec::Network,
        contention: None,
    });
    run(&all_reduce(ace_torus([4, 4, 2]), endpoint, 16 << 20))
}

/// Twice a resource never costs more than 1 %.
fn no_slower(more: &Results, less: &Results, what: &str) {
    let (more, less) = (more.summary.total_ps, less.summary.total_ps);
    assert!(more <= less + less / 100, "twice the {what}: {more} after {less}");
}

/// A resource of an ACE, and how there is more of it.
type Multiply = (&'static str, fn(&mut AceSpec, u32));

#[test]
fn doubling_a_resource_of_ace_never_slows_it() {
    let doublings: [Multiply; 7] = [
        ("memory", |a, n| a.memory_bytes_per_s *= u64::from(n)),
        ("bus", |a, n| a.bus_bytes_per_s *= u64::from(n)),
        ("banks", |a, n| a.sram_banks *= n),
        ("alus", |a, n| a.alus *= n),
        ("fsms", |a, n| a.fsms *= n),
        ("sram", |a, n| a.sram_bytes *= u64::from(n)),
        ("port buffer", |a, n| a.port_buffer_bytes *= u64::from(n)),
    ];
    let usual = ace_run(|_| ());
    for (what, multiply) in doublings {
        let (twice, four_times) = (ace_run(|a| multiply(a, 2)), ace_run(|a| multiply(a, 4)));
        no_slower(&twice, &usual, what);
        no_slower(&four_times, &twice, what);
    }
}

/// On a 4x4x4 torus the partitions between the phases hold five chunks, and memory beyond the knee changes only
/// how the chunks are bunched.
#[test]
fn more_memory_than_enough_never_slows_ace() {
    let total = |memory_gbs: u64| {
        let ace = AceSpec { memory_bytes_per_s: memory_gbs * 1_000_000_000, ..ace_spec() };
        run(&all_reduce(ace_torus([4, 4, 4]), EndpointSpec::Ace(ace), 4 << 20))
    };
    let mut before = total(128);
    for memory_gbs in [256, 512] {
        let after = total(memory_gbs);
        no_slower(&after, &before, "memory");
        before = after;
    }
}

#[test]
fn more_of_a_resource_ends_its_waits() {
    let wait = |r: &Results, name| resource(r, name).1;
    let scarce = ace_run(|a| a.memory_bytes_per_s = 30_000_000_000);
    let plenty = ace_run(|a| a.memory_bytes_per_s = 3_000_000_000_000);
    assert!(wait(&plenty, "memory") < wait(&scarce, "memory") / 20);
    let scarce = ace_run(|a| a.alus = 1);
    let plenty = ace_run(|a| a.alus = 64);
    assert!(wait(&scarce, "alu") > 0 && wait(&plenty, "alu") == 0);
    let scarce = ace_run(|a| a.sram_banks = 1);
    let plenty = ace_run(|a| a.sram_banks = 64);
    assert!(wait(&scarce, "sram_read") > 0 && wait(&plenty, "sram_read") == 0);
    assert!(wait(&scarce, "sram_write") > 0 && wait(&plenty, "sram_write") == 0);
    let scarce = ace_run(|a| a.fsms = 4);
    let plenty = ace_run(|a| {
        a.fsms = 256;
        a.sram_bytes = 256 << 20;
    });
    assert!(wait(&plenty, "fsm") < wait(&scarce, "fsm") / 20, "{} {}", wait(&plenty, "fsm"), wait(&scarce, "fsm"));
    assert_eq!(wait(&plenty, "sram_room"), 0);
}

#[test]
fn more_of_a_resource_never_slows_the_baseline() {
    let base = baseline_run(100, 2, 100);
    for (more, what, resource_name) in [
        (baseline_run(200, 2, 100), "memory", "memory"),
        (baseline_run(100, 4, 100), "SMs", "sm"),
        (baseline_run(100, 2, 200), "bus", "bus_tx"),
    ] {
        no_slower(&more, &base, what);
        assert!(resource(&more, resource_name).1 <= resource(&base, resource_name).1, "waits for {what}");
    }
    let plenty = baseline_run(100_000, 1000, 100_000);
    for name in ["memory", "sm", "bus_tx", "bus_rx"] {
        assert!(resource(&plenty, name).1 < resource(&base, name).1 / 100, "{name}");
    }
}

#[test]
fn faster_and_shorter_links_help_everybody() {
    for endpoint in endpoints() {
        let spec = all_reduce(ace_torus([4, 4, 2]), endpoint, 4 << 20);
        let before = run(&spec);
        let mut faster = spec.clone();
        dims(&mut faster).iter_mut().for_each(|d| d.rate_bytes_per_s *= 2);
        no_slower(&run(&faster), &before, "link rate");
        let mut shorter = spec;
        dims(&mut shorter).iter_mut().for_each(|d| d.latency_ps /= 2);
        no_slower(&run(&shorter), &before, "link speed of light");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Nothing beats an ideal endpoint that passes packets on without latency, in an all-reduce of one chunk. Messages of several
    /// that are in flight together, and those of an all-to-all, come to the ports in an order that no endpoint chooses, which
    /// may be somewhat better or worse; against an ACE, which has a window of its own, and in all-to-alls there is always
    /// one chunk. Every block has an element at least: an ACE leaves out empty messages of an all-to-all.
    #[test]
    fn the_ideal_endpoint_is_the_bound(
        sizes in prop::collection::vec(1u32..7, 1..4), log in 0f64..11.0, chunks in 1u32..40, inflight in 1u32..40,
        engine: bool, exchange: bool, split: bool, latency in prop::sample::select(&[10_000u64, 100_000, 1_000_000][..]),
    ) {
        let chunks = if engine || exchange { 1 } else { chunks };
        let bytes = 2 * (f64::from(sizes.iter().product::<u32>()) * log.exp2()) as u64;
        let total = |endpoint: EndpointSpec| {
            let dims = sizes.iter().zip([188, 25, 50]).map(|(&n, gbs)| dim(n, gbs, latency)).collect();
            let mut spec = all_reduce(dims, forwarding(endpoint), bytes);
            if exchange {
                spec.collectives.algorithm = AlgorithmSpec::Direct;
                spec.job = collective_job(CollectiveKindSpec::AllToAll, bytes);
            }
            spec.collectives.chunking = ChunkingSpec::Count { chunks };
            spec.collectives.inflight = inflight;
            spec.collectives.lanes = if split { LanesSpec::Split } else { LanesSpec::Alternate };
            run(&spec).summary.total_ps
        };
        let bound = total(forwarding(streaming(0)));
        let other = total(if engine { ace() } else { baseline() });
        let slack = if chunks == 1 && !exchange { other / 100 } else { other / 5 };
        prop_assert!(bound <= other + slack, "{} beats {}", other, bound);
    }
}

/// A block more or less does not make a chunk that holds next to nothing and takes as long as any other.
#[test]
fn chunks_leave_no_crumb() {
    let time = |bytes, padding| {
        let mut spec = all_reduce([3, 5, 3].map(|n| dim(n, 50, 500_000)).to_vec(), baseline(), bytes);
        spec.collectives.algorithm = AlgorithmSpec::SixPhase;
        spec.collectives.inflight = 1;
        spec.collectives.padding = padding;
        let s = run(&spec).summary;
        (s.total_ps, s.chunks)
    };
    for padding in [false, true] {
        let ((under, one), (full, still_one)) = (time(65_520, padding), time(65_536, padding));
        assert_eq!((one, still_one), (1, 1));
        assert!(under <= full && full < under + under / 50, "{under} {full}");
        assert_eq!(time(65_538, padding).1, 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// One chunk after the other along rings, more bytes take longer, and a few more of them little longer unless they make another
    /// chunk. Chunks that run side by side overlap the better the more they are, and may be faster where they just
    /// become more.
    #[test]
    fn more_bytes_take_longer(
        sizes in prop::collection::vec(1u32..6, 1..4), chunk in 8_000u64..100_000, bytes in 1u64..300_000, more in 1u64..4000,
        by_count: bool, endpoint in 0usize..3, algorithm in 0usize..3, lanes in 0usize..3, padding: bool,
    ) {
        let endpoint = [ideal(), baseline(), streaming(1000)][endpoint].clone();
        let algorithm = [AlgorithmSpec::SixPhase, AlgorithmSpec::AceFourPhase, AlgorithmSpec::Ring][algorithm];
        let time = |bytes: u64| {
            let dims = sizes.iter().zip([188, 25, 50]).map(|(&n, gbs)| dim(n, gbs, 100_000)).collect();
            let mut spec = all_reduce(dims, endpoint.clone(), bytes);
            spec.collectives.algorithm = algorithm;
            spec.collectives.inflight = 1;
            spec.collectives.padding = padding;
            spec.collectives.lanes = [LanesSpec::Alternate, LanesSpec::Split, LanesSpec::One][lanes];
            if by_count {
                spec.collectives.chunking = ChunkingSpec::Count { chunks: chunk as u32 % 20 + 1 };
            } else {
                spec.collectives.chunking = ChunkingSpec::Size { bytes: chunk, least_block_bytes: 0 };
            }
            let s = run(&spec).summary;
            (s.total_ps, s.chunks)
        };
        let ((few, chunks), (many, more_chunks)) = (time(bytes), time(bytes + more));
        prop_assert!(many >= few - few / 50, "{} B take {} ps, {} B {}", bytes, few, bytes + more, many);
        if chunks == more_chunks {
            // Every byte goes over the slowest link twice in every dimension at most; blocks are padded.
            let blocks: u64 = 2 * sizes.iter().map(|&n| u64::from(n)).product::<u64>();
            let wire = 2 * 3 * 40 * (more + blocks) * 4;
            prop_assert!(many <= few + few / 50 + wire, "{} B take {} ps, {} B {}", bytes, few, bytes + more, many);
        }
    }
}
