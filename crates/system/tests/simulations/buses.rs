//! LogGP buses in whole runs, and the accounting of waits and crossings.

use crate::folded::{blocks, product, same_both_ways};
use crate::support::{ace_spec, all_reduce, baseline, chunks_of, collective_job, dim, fingerprint, networks, run};
use crate::transit::pair;
use proptest::prelude::*;
use syncline_system::run_spec;
use syncline_system::spec::{
    AceSpec, AlgorithmSpec, BaselineSpec, BusSpec, ChunkingSpec, CollectiveKindSpec, EndpointSpec, LanesSpec, Spec,
    TransitSpec,
};

const L: u64 = 71_429;
const O: u64 = 28_572;
const G: u64 = 30_000;
const BUSES: BusSpec = BusSpec::Loggp { latency_ps: L, overhead_ps: O, gap_ps: G, message_bytes: None };
/// Picoseconds per byte of the memory bus and of the NIC bus.
const MEMORY: u64 = 1;
const NIC: u64 = 2;

fn loggp_baseline(buses: BusSpec) -> EndpointSpec {
    EndpointSpec::Baseline(BaselineSpec {
        memory_bytes_per_s: 1_000_000_000_000 / MEMORY,
        sm_bytes_per_s: u64::MAX,
        bus_bytes_per_s: 1_000_000_000_000 / NIC,
        charge_writes: true,
        buses,
        transit: TransitSpec::Network,
        contention: None,
    })
}

fn loggp_ace(buses: BusSpec) -> EndpointSpec {
    EndpointSpec::Ace(AceSpec {
        memory_bytes_per_s: 1_000_000_000_000 / MEMORY,
        bus_bytes_per_s: 1_000_000_000_000 / NIC,
        charge_writes: true,
        buses,
        ..ace_spec()
    })
}

/// A message of `len` bytes crosses an idle bus.
fn crosses(len: u64, ps_per_byte: u64) -> u64 {
    2 * O + L + len * ps_per_byte
}

fn ring(n: u64, block: u64) -> Spec {
    let mut spec = all_reduce(vec![dim(n as u32, 50, 500_000)], loggp_baseline(BUSES), n * block);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    spec.collectives.lanes = LanesSpec::One;
    spec
}

/// Of one chunk around a ring nothing waits but the second read of a reduction, for the first one.
#[test]
fn one_chunk_of_a_baseline() {
    for n in [2u64, 3, 5, 8] {
        for block in [256 * 8u64, 256 * 4096] {
            let spec = ring(n, block);
            let (memory, nic) = (crosses(block, MEMORY), crosses(block, NIC));
            let apart = (block * MEMORY).max(G);
            let wire = block * 20 + 500_000;
            let reduced = wire + nic + memory + (apart + memory) + nic;
            let passed_on = wire + nic + memory + memory + nic;
            let expected = (memory + nic) + (n - 1) * reduced + (n - 2) * passed_on + (wire + nic + memory);
            let summary = run(&spec).summary;
            assert_eq!(summary.total_ps, expected, "{n} x {block}");
            let parts = summary.endpoint.breakdown;
            assert_eq!((parts.chunks, parts.chunk_queue_ps), (n, 0));
            assert_eq!((parts.messages, parts.network_ps), (n * 2 * (n - 1), u128::from(n * 2 * (n - 1) * wire)));
            assert_eq!(parts.bus_queue_ps, (n * (n - 1) * apart).into());
            // Per NPU: what arrives and leaves over the NIC bus; writes, and two reads per reduction, one per other send.
            let (arrivals, sends) = (2 * (n - 1), 2 * (n - 1));
            let accesses = arrivals + 2 * (n - 1) + (n - 1);
            assert_eq!(parts.bus_transfer_ps, (n * ((arrivals + sends) * nic + accesses * memory)).into());
        }
    }
}

/// Chunks that must wait for one another wait for what those before them take.
#[test]
fn chunks_queue_for_those_before_them() {
    let mut spec = ring(4, 3 * 2048);
    spec.collectives.inflight = 1;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 3 };
    let parts = run(&spec).summary;
    let each = parts.total_ps / 3;
    assert_eq!(parts.endpoint.breakdown.chunk_queue_ps, (4 * (each + 2 * each)).into());
}

/// The DMAs move a chunk as a train over both buses, at the pace of the slower one, to and fro.
#[test]
fn one_chunk_of_an_engine() {
    let (chunk, message) = (64 << 10, 4 << 10);
    let engine = |endpoint| {
        let mut spec = all_reduce(vec![dim(4, 50, 500_000)], endpoint, chunk);
        spec.collectives.chunking = chunks_of(chunk);
        run(&spec).summary
    };
    let free = AceSpec { memory_bytes_per_s: u64::MAX, bus_bytes_per_s: u64::MAX, ..ace_spec() };
    let inside = engine(EndpointSpec::Ace(free)).total_ps;
    for (message_bytes, count, len) in [(None, 1, chunk), (Some(message), chunk / message, message)] {
        let buses = BusSpec::Loggp { latency_ps: L, overhead_ps: O, gap_ps: G, message_bytes };
        let summary = engine(loggp_ace(buses));
        let pace = (len * NIC).max(G);
        let to = crosses(len, MEMORY) + (count - 1) * pace + crosses(len, NIC);
        assert_eq!(summary.total_ps, inside + 2 * to, "{count} messages");
    }
}

/// A message in transit crosses both buses on its way in and on its way out, at every hop.
#[test]
fn a_message_is_forwarded_over_the_buses() {
    let bytes = 100 * 256;
    for hops in 1..5 {
        let spec = pair(hops, loggp_baseline(BUSES), CollectiveKindSpec::Broadcast, bytes);
        let each = 2 * (crosses(bytes, MEMORY) + crosses(bytes, NIC)) + 40 * bytes + 100_000;
        assert_eq!(run(&spec).summary.total_ps, u64::from(hops) * each, "{hops} hops");
    }
}

/// Packets of a direct all-to-all are one message for as long as they come faster than the bus carries them.
#[test]
fn packets_stream_over_the_buses() {
    for (packets, hops) in [(1, 1), (1, 3), (40, 1), (40, 3)] {
        let block = packets * 256;
        let spec = pair(hops, loggp_ace(BUSES), CollectiveKindSpec::AllToAll, 2 * block);
        let loaded = crosses(block, MEMORY) + crosses(block, NIC);
        let carried = (packets + u64::from(hops) - 1) * 256 * 40 + u64::from(hops) * 100_000;
        let expected = loaded + carried + crosses(256, NIC) + crosses(256, MEMORY);
        let total = run(&spec).summary.total_ps;
        let queue = if packets == 1 { 0 } else { 2 * (G + 4 * 256 * NIC) };
        assert!((expected..=expected + queue).contains(&total), "{packets} over {hops} hops: {total}, not {expected}");
    }
}

/// Costs per message make small messages slow, and more of any of them never helps.
#[test]
fn costs_add_up() {
    let total = |latency_ps, overhead_ps, gap_ps| {
        let buses = BusSpec::Loggp { latency_ps, overhead_ps, gap_ps, message_bytes: Some(4096) };
        [loggp_baseline(buses), loggp_ace(buses)].map(|endpoint| {
            let mut spec = all_reduce(product(&[(syncline_system::spec::BlockSpec::Ring, 4)]), endpoint, 4 << 20);
            spec.collectives.padding = true;
            run(&spec).summary.total_ps
        })
    };
    let free = total(0, 0, 0);
    for costly in [total(L, 0, 0), total(0, O, 0), total(0, 0, G)] {
        assert!(costly[0] > free[0] && costly[1] > free[1], "{costly:?} after {free:?}");
    }
    assert!(total(0, 0, 4 * G)[0] > 3 * total(0, 0, G)[0], "the gap is what limits messages of 4 KiB");
}

#[test]
fn plain_buses_are_not_affected() {
    let spec = all_reduce(vec![dim(4, 50, 500_000)], baseline(), 1 << 20);
    let parts = run(&spec).summary.endpoint;
    let busy: u128 = parts.resources.iter().filter(|r| r.resource != "sm").map(|r| r.busy_ps).sum();
    assert_eq!(parts.breakdown.bus_transfer_ps, busy);
    assert!(parts.resources.iter().all(|r| r.transfer_ps == r.busy_ps));
}

#[test]
fn more_time_than_can_be_counted_is_refused() {
    let buses = BusSpec::Loggp { latency_ps: 1 << 62, overhead_ps: 0, gap_ps: 0, message_bytes: None };
    for endpoint in [loggp_baseline(buses), loggp_ace(buses)] {
        let spec = all_reduce(vec![dim(4, 50, 500_000)], endpoint, 1 << 20);
        assert!(run_spec(&spec, None).is_err_and(|e| e.to_string().contains("days of simulated time")));
    }
    let none = BusSpec::Loggp { latency_ps: 1, overhead_ps: 1, gap_ps: 1, message_bytes: Some(0) };
    let spec = all_reduce(vec![dim(4, 50, 500_000)], loggp_baseline(none), 1 << 20);
    assert!(run_spec(&spec, None).is_err_and(|e| e.to_string().contains("endpoint.buses.message_bytes")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn folded_runs_and_shuffled_ones_are_the_same(
        dims in blocks(), kind in 0usize..4, bytes in 1u64..200_000, chunk in 256u64..60_000, inflight in 1u32..6,
        costs in prop::array::uniform3(0u64..100_000), message in prop::option::of(100u64..20_000), engine: bool,
        network in prop::sample::select(networks()), seed: u64,
    ) {
        let [latency_ps, overhead_ps, gap_ps] = costs;
        let buses = BusSpec::Loggp { latency_ps, overhead_ps, gap_ps, message_bytes: message };
        let endpoint = if engine { loggp_ace(buses) } else { loggp_baseline(buses) };
        let mut spec = all_reduce(product(&dims), endpoint, bytes);
        let kinds = [CollectiveKindSpec::AllReduce, CollectiveKindSpec::ReduceScatter, CollectiveKindSpec::AllGather,
            CollectiveKindSpec::AllToAll];
        spec.job = collective_job(kinds[kind], bytes);
        spec.collectives.algorithm = AlgorithmSpec::Hierarchical;
        spec.collectives.padding = true;
        spec.collectives.chunking = chunks_of(chunk);
        spec.collectives.inflight = inflight;
        spec.network = network;
        same_both_ways(&spec);
        let shuffled = run_spec(&spec, Some(seed)).expect("a legal run");
        prop_assert_eq!(fingerprint(&run(&spec)), fingerprint(&shuffled));
    }
}
