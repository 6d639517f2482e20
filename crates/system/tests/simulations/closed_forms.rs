//! Times that can be written down.

use crate::support::{CYCLE_PS, all_reduce, collective_job, dim, dims, ideal, networks, packet, run, streaming};
use syncline_system::spec::{
    AlgorithmSpec, BaselineSpec, BusSpec, ChunkingSpec, CollectiveKindSpec, EndpointSpec, LanesSpec, TransitSpec,
};

/// One chunk on a ring: `N - 1` messages of `S / (2 N)` per half and direction, one after another, and a
/// cycle per step.
#[test]
fn one_chunk_on_a_ring() {
    for n in [2u64, 3, 4, 5, 8, 16, 31] {
        for (kind, sends, steps) in [
            (CollectiveKindSpec::AllReduce, 2 * (n - 1), 2 * n - 1),
            (CollectiveKindSpec::ReduceScatter, n - 1, n),
            (CollectiveKindSpec::AllGather, n - 1, n),
        ] {
            let block = 256 * 40;
            let bytes = 2 * n * block;
            let mut spec = all_reduce(vec![dim(n as u32, 50, 500_000)], ideal(), bytes);
            spec.collectives.algorithm = AlgorithmSpec::Ring;
            spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
            spec.collectives.lanes = LanesSpec::Split;
            spec.job = collective_job(kind, bytes);
            let expected = sends * (block * 1000 / 50 + 500_000) + steps * CYCLE_PS;
            for network in networks() {
                spec.network = network;
                assert_eq!(run(&spec).summary.total_ps, expected, "{kind:?} on {n}: {:?}", spec.network);
            }
        }
    }
}

/// What a phase of a ring takes where every rank sends blocks of `packets` packets of time `wire` in so many rounds: a
/// rank passes packets on a cycle after they have arrived, and the last message ends where it arrives. From when a rank
/// has sent its own block, a round takes no longer than a block on the wire.
fn streamed(rounds: u64, packets: u64, wire: u64, latency: u64) -> u64 {
    let hop = wire + latency + CYCLE_PS;
    (rounds - 1) * hop.max(packets * wire) + packets * wire + latency + CYCLE_PS
}

/// Packets do not wait for the rest of their message, unless for the port: with 40 packets they come around the smallest
/// ring before the block of the rank itself has left, with 200 everywhere.
#[test]
fn packets_are_a_pipeline_around_a_ring() {
    let wire = 256 * 20;
    for (n, packets) in [2u64, 3, 4, 5, 8, 16, 31].into_iter().flat_map(|n| [1, 2, 40, 200].map(|k| (n, k))) {
        for (kind, rounds) in [
            (CollectiveKindSpec::AllReduce, 2 * (n - 1)),
            (CollectiveKindSpec::ReduceScatter, n - 1),
            (CollectiveKindSpec::AllGather, n - 1),
        ] {
            let bytes = 2 * n * 256 * packets;
            let mut spec = all_reduce(vec![dim(n as u32, 50, 500_000)], streaming(CYCLE_PS), bytes);
            spec.collectives.algorithm = AlgorithmSpec::Ring;
            spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
            spec.collectives.lanes = LanesSpec::Split;
            spec.job = collective_job(kind, bytes);
            let expected = streamed(rounds, packets, wire, 500_000);
            for network in [packet(false), packet(true)] {
                spec.network = network;
                let total = run(&spec).summary.total_ps;
                assert_eq!(total, expected, "{kind:?} of {packets} packets on {n}: {:?}", spec.network);
            }
        }
    }
}

/// In one direction the same chunk is twice as long on the wire.
#[test]
fn one_direction_carries_it_all() {
    let (n, block) = (8u64, 256 * 40);
    let bytes = n * block;
    let mut spec = all_reduce(vec![dim(n as u32, 50, 500_000)], ideal(), bytes);
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    spec.collectives.lanes = LanesSpec::One;
    let expected = 2 * (n - 1) * (block * 20 + 500_000) + (2 * n - 1) * CYCLE_PS;
    assert_eq!(run(&spec).summary.total_ps, expected);
}

/// The phases of one chunk follow one another, each with its share of the data.
#[test]
fn four_phases_of_one_chunk() {
    let bytes = 2 * 4 * 8 * 4 * 256u64;
    let mut spec = all_reduce(vec![dim(4, 200, 70_000), dim(8, 25, 400_000), dim(4, 25, 300_000)], ideal(), bytes);
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    spec.collectives.lanes = LanesSpec::Split;
    let half = bytes / 2;
    let local = 3 * (half / 4 * 5 + 70_000) + 4 * CYCLE_PS;
    let vertical = 14 * (half / 4 / 8 * 40 + 400_000) + 15 * CYCLE_PS;
    let horizontal = 6 * (half / 4 / 4 * 40 + 300_000) + 7 * CYCLE_PS;
    assert_eq!(run(&spec).summary.total_ps, 2 * local + vertical + horizontal);
    spec.endpoint = streaming(CYCLE_PS);
    let packets = bytes / 2 / 4 / 256;
    let local = streamed(3, packets, 256 * 5, 70_000);
    let vertical = streamed(14, packets / 8, 256 * 40, 400_000);
    let horizontal = streamed(6, packets / 4, 256 * 40, 300_000);
    assert_eq!(run(&spec).summary.total_ps, 2 * local + vertical + horizontal);
}

/// Many chunks on a ring are limited by its links: `2 (N-1)/N S` bytes through two ports.
#[test]
fn many_chunks_reach_the_bandwidth_bound() {
    let (n, bytes) = (8u64, 64 << 20);
    let mut spec = all_reduce(vec![dim(n as u32, 50, 500_000)], ideal(), bytes);
    spec.collectives.inflight = 64;
    let bound = 2 * (n - 1) * bytes / n * 1000 / 100;
    let total = run(&spec).summary.total_ps;
    assert!(total >= bound, "{total} beats the bound {bound}");
    assert!(total < bound + bound / 20, "{total} is far from the bound {bound}");
}

/// Parallel links carry parallel lanes.
#[test]
fn parallel_links_divide_the_time_on_the_wire() {
    let n = 4u64;
    let block = 256 * 40;
    let bytes = 4 * n * block; // four lanes: two links up, two down
    let mut spec = all_reduce(vec![dim(n as u32, 50, 500_000)], ideal(), bytes);
    dims(&mut spec)[0].links = 2;
    spec.collectives.algorithm = AlgorithmSpec::Ring;
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    spec.collectives.lanes = LanesSpec::Split;
    assert_eq!(run(&spec).summary.total_ps, 2 * (n - 1) * (block * 20 + 500_000) + (2 * n - 1) * CYCLE_PS);
}

/// The baseline's slowest server sets the pace of a large message: 1.5 bytes read per byte sent.
#[test]
fn the_baseline_is_limited_by_its_memory() {
    let bytes = 64u64 << 20;
    let mut spec = all_reduce(vec![dim(4, 1000, 1000)], ideal(), bytes);
    spec.endpoint = EndpointSpec::Baseline(BaselineSpec {
        memory_bytes_per_s: 10_000_000_000,
        sm_bytes_per_s: 1_000_000_000_000,
        bus_bytes_per_s: 1_000_000_000_000,
        charge_writes: false,
        buses: BusSpec::Rate,
        transit: TransitSpec::Network,
        contention: None,
    });
    let sent = 2 * 3 * bytes / 4;
    let bound = sent * 3 / 2 * 1000 / 10;
    let total = run(&spec).summary.total_ps;
    assert!((bound..bound + bound / 50).contains(&total), "{total} against {bound}");
}
