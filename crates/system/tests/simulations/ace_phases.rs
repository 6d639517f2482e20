//! Phases of the ACE beyond rings of all-reduces: relays, and direct phases through switches and full meshes.

use crate::folded::{blocks, product, same_both_ways};
use crate::support::{
    CYCLE_PS, ace_spec, all_reduce, chunks_of, collective_job, fingerprint, networks, packet, resource, run,
};
use proptest::prelude::*;
use syncline_system::run_spec;
use syncline_system::spec::{
    AceSpec, AlgorithmSpec, AnalyticalSpec, BlockSpec, CollectiveKindSpec, DimAlgorithmSpec, EndpointSpec, NetworkSpec,
    PacketSpec, Spec,
};

const KINDS: [CollectiveKindSpec; 4] = [
    CollectiveKindSpec::AllReduce,
    CollectiveKindSpec::ReduceScatter,
    CollectiveKindSpec::AllGather,
    CollectiveKindSpec::AllToAll,
];

/// The package rings and the switch between packages of the first version of the ACE paper.
const ALLTOALL: [(BlockSpec, u32); 2] = [(BlockSpec::Ring, 4), (BlockSpec::Switch, 4)];

/// An engine that nothing but the network holds up.
fn plenty() -> AceSpec {
    AceSpec {
        memory_bytes_per_s: 1 << 50,
        bus_bytes_per_s: 1 << 50,
        sram_bytes: 1 << 30,
        sram_banks: 64,
        alus: 64,
        port_bytes_per_cycle: 4096,
        port_buffer_bytes: 1 << 30,
        ..ace_spec()
    }
}

fn spec(dims: &[(BlockSpec, u32)], ace: AceSpec, kind: CollectiveKindSpec, bytes: u64) -> Spec {
    let mut spec = all_reduce(product(dims), EndpointSpec::Ace(ace), bytes);
    spec.collectives.padding = true;
    spec.job = collective_job(kind, bytes);
    spec
}

/// Bytes that a rank sends per byte of the vector: of an all-to-all a block travels half the ring.
#[test]
fn what_is_sent_is_what_the_plan_says() {
    for (kind, per_16) in [
        (KINDS[0], 12 + 2 * 3 + 12), // 3/4 in the ring, 2 x 3/4 of a quarter through the switch, 3/4 in the ring
        (KINDS[1], 12 + 3),
        (KINDS[2], 12 + 3),
        (KINDS[3], 24 + 12), // 3/2 around the ring, 3/4 through the switch
    ] {
        let bytes = 1 << 20;
        for network in networks() {
            let mut spec = spec(&ALLTOALL, ace_spec(), kind, bytes);
            spec.network = network;
            let e = run(&spec).summary.endpoint;
            assert_eq!(16 * e.sent_bytes, 16 * bytes * per_16, "{kind:?} {:?}", spec.network);
            let loaded = if kind == KINDS[2] { bytes / 16 } else { bytes };
            assert_eq!(e.loaded_bytes, 16 * loaded);
            assert_eq!(e.memory_write_bytes, 16 * if kind == KINDS[1] { bytes / 16 } else { bytes });
        }
    }
}

/// One chunk through a switch: every block once over the own link and once over the peer's, packet by packet.
#[test]
fn one_chunk_through_a_switch() {
    let (n, packets) = (8u64, 16);
    let (block, wire, latency) = (256 * packets, 5, 70_000);
    for (kind, rounds) in [(KINDS[0], 2), (KINDS[1], 1), (KINDS[2], 1), (KINDS[3], 1)] {
        let mut spec = spec(&[(BlockSpec::Switch, n as u32)], plenty(), kind, n * block);
        spec.collectives.algorithm = AlgorithmSpec::Direct;
        spec.collectives.chunking = chunks_of(n * block);
        for network in [packet(true), packet(false)] {
            spec.network = network;
            // The last packet of the last block leaves after all others, and crosses the second link on its own.
            let round = (n - 1) * block * wire + 256 * wire + 2 * latency;
            let total = run(&spec).summary.total_ps;
            // Reading a packet takes a few cycles of the ports.
            let slack = rounds * (8 * CYCLE_PS + 10);
            assert!(total.abs_diff(rounds * round) <= slack, "{kind:?}: {total} is not {}", rounds * round);
        }
    }
}

/// One chunk around a ring, in one direction: message s has passed s links.
#[test]
fn one_chunk_of_a_relay() {
    for n in [2u64, 3, 4, 7] {
        let (block, wire, latency) = (256 * 8, 5, 70_000);
        let mut spec = spec(&[(BlockSpec::Ring, n as u32)], plenty(), KINDS[3], n * block);
        spec.collectives.algorithm = AlgorithmSpec::Ring;
        spec.collectives.chunking = chunks_of(n * block);
        // The first link is busy with n (n-1) / 2 blocks; each hop of the last message adds its latency.
        let on_the_wire = n * (n - 1) / 2 * block * wire;
        let total = run(&spec).summary.total_ps;
        assert!(total >= on_the_wire + latency, "{n}: {total}");
        assert!(total <= on_the_wire + (n - 1) * (latency + 256 * wire) + 8 * CYCLE_PS, "{n}: {total}");
    }
}

/// Each packet that arrives in a reduce-scatter reads, adds and writes; what is sent is read.
#[test]
fn a_direct_phase_uses_ports_and_alus() {
    let (n, bytes) = (4u64, 1 << 20);
    let busy = |bytes: u64| bytes * 1_000_000_000_000 / (64 * 1_245_000_000);
    for (kind, reads, writes, adds) in
        [(KINDS[0], 9, 6, 3), (KINDS[1], 6, 3, 3), (KINDS[2], 3, 3, 0), (KINDS[3], 3, 3, 0)]
    {
        let mut spec = spec(&[(BlockSpec::Switch, n as u32)], ace_spec(), kind, bytes);
        spec.collectives.algorithm = AlgorithmSpec::Direct;
        let results = run(&spec);
        for (name, quarters) in [("sram_read", reads), ("sram_write", writes), ("alu", adds)] {
            let expected = busy(n * quarters * bytes / 4);
            let got = resource(&results, name).0;
            assert!(got.abs_diff(expected) * 1000 <= expected, "{kind:?} {name}: {got} is not {expected}");
        }
    }
}

/// With plenty of everything the engine is as fast as the ideal endpoint, which processes whole messages.
#[test]
fn plenty_is_ideal() {
    for kind in KINDS {
        let mut ace = spec(&ALLTOALL, AceSpec { fsms: 256, ..plenty() }, kind, 8 << 20);
        ace.network = NetworkSpec::Analytical(AnalyticalSpec {});
        let engine = run(&ace).summary.total_ps;
        ace.endpoint = crate::support::ideal();
        ace.collectives.inflight = 1 << 10;
        let ideal = run(&ace).summary.total_ps;
        assert!(engine * 100 <= ideal * 115, "{kind:?}: {engine} against {ideal}");
        assert!(engine >= run(&ace).summary.lower_bound_ps, "{kind:?}");
    }
}

#[test]
fn folded_runs_are_whole_runs() {
    let shapes: [&[(BlockSpec, u32)]; 4] = [
        &ALLTOALL,
        &[(BlockSpec::Switch, 6)],
        &[(BlockSpec::Ring, 3), (BlockSpec::Ring, 4), (BlockSpec::Ring, 2)],
        &[(BlockSpec::Ring, 3), (BlockSpec::FullyConnected, 4)],
    ];
    for (dims, kind) in shapes.into_iter().flat_map(|dims| KINDS.map(|kind| (dims, kind))) {
        for network in networks() {
            let mut spec = spec(dims, ace_spec(), kind, 300_000);
            spec.network = network;
            spec.collectives.algorithm = AlgorithmSpec::HierarchicalOptimal;
            same_both_ways(&spec);
        }
    }
}

#[test]
fn what_an_engine_cannot_carry_out_is_refused() {
    let refused = |change: &dyn Fn(&mut Spec)| {
        let mut spec = spec(&[(BlockSpec::Ring, 3), (BlockSpec::Ring, 4)], ace_spec(), KINDS[0], 100_000);
        change(&mut spec);
        let error = run_spec(&spec, None).err().map(|e| e.to_string()).unwrap_or_default();
        let algorithm = spec.collectives.algorithm;
        assert!(error.contains(": an ACE carries out rings between neighbouring NPUs"), "{algorithm:?}: {error}");
    };
    refused(&|spec| spec.collectives.algorithm = AlgorithmSpec::Direct); // over other NPUs
    refused(&|spec| spec.collectives.algorithm = AlgorithmSpec::HalvingDoubling);
    refused(&|spec| spec.job = collective_job(CollectiveKindSpec::Broadcast, 1000));
    refused(&|spec| {
        spec.collectives.per_dimension = Some(vec![DimAlgorithmSpec::Ring, DimAlgorithmSpec::Direct]);
    });
    let mut small = spec(&ALLTOALL, ace_spec(), KINDS[3], 1 << 20);
    small.network = NetworkSpec::Packet(PacketSpec {
        buffer_packets: Some(8),
        deadlock_rule: syncline_system::spec::DeadlockRule::Bubble,
        ..PacketSpec::DEFAULT
    });
    assert!(
        run_spec(&small, None)
            .is_err_and(|e| e.to_string().contains("network.buffer_packets: input buffers of 2048 B"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Any product, collective and engine: it ends, ties do not matter, and a folded run is the same.
    #[test]
    fn random_engines(
        dims in blocks(), kind in 0usize..4, algorithm in 0usize..3, bytes in 1u64..300_000, chunk in 256u64..70_000,
        message in 64u32..9000, fsms in 6u32..24, sram in 0u64..300_000, network in proptest::sample::select(networks()), seed: u64, padding: bool,
    ) {
        let mut spec = spec(&dims, AceSpec { message_bytes: message, fsms, ..ace_spec() }, KINDS[kind], bytes);
        spec.collectives.algorithm =
            [AlgorithmSpec::Hierarchical, AlgorithmSpec::HierarchicalOptimal, AlgorithmSpec::SixPhase][algorithm];
        spec.collectives.chunking = chunks_of(chunk);
        spec.collectives.padding = padding;
        spec.network = network;
        let EndpointSpec::Ace(ace) = &mut spec.endpoint else { unreachable!() };
        ace.sram_bytes = 600_000 + sram;
        if padding {
            same_both_ways(&spec);
        }
        let shuffled = run_spec(&spec, Some(seed)).expect("a legal run");
        prop_assert_eq!(fingerprint(&run(&spec)), fingerprint(&shuffled));
    }
}
