//! What endpoints forward on fabrics where only neighbours are connected.

use crate::support::{
    self, ace, ace_spec, ace_torus, all_reduce, all_to_all, baseline, collective_job, dim, dims, fingerprint,
    forwarders, forwarding, ideal, networks, packet, run,
};
use syncline_system::spec::{
    AceSpec, AlgorithmSpec, BaselineSpec, BlockSpec, ChunkingSpec, CollectiveKindSpec, DeadlockRule, DimSpec,
    EndpointSpec, FlowSpec, FoldSpec, GroupsSpec, JobSpec, NetworkSpec, PacketSpec, Spec, TransitSpec,
};
use syncline_system::{Results, RunError, run_spec};

const KIB: u64 = 1024;

/// A torus of slow links, so that packets and messages outrun them.
fn torus(sizes: &[u32]) -> Vec<DimSpec> {
    sizes.iter().map(|&size| dim(size, 25, 100_000)).collect()
}

/// The sum over all displacements of the hops to get there.
fn hops(sizes: &[u32]) -> u64 {
    let npus: u64 = sizes.iter().map(|&s| u64::from(s)).product();
    let along = |&size: &u32| (0..size).map(|d| u64::from(d.min(size - d))).sum::<u64>() * (npus / u64::from(size));
    sizes.iter().map(along).sum()
}

/// The bytes of an all-to-all that every NPU has for every other, in one chunk.
fn exchange(sizes: &[u32], endpoint: EndpointSpec, block: u64) -> Spec {
    let npus: u32 = sizes.iter().product();
    all_to_all(torus(sizes), endpoint, u64::from(npus) * block)
}

#[test]
fn the_baseline_reads_at_every_hop() {
    for sizes in [&[4][..], &[5], &[2, 3], &[3, 1, 4], &[8], &[2]] {
        let npus: u64 = sizes.iter().map(|&s| u64::from(s)).product();
        let (block, pairs) = (6 * KIB, npus * (npus - 1));
        for network in networks() {
            let mut spec = exchange(sizes, baseline(), block);
            spec.network = network;
            let summary = run(&spec).summary;
            let all = npus * hops(sizes) * block;
            assert_eq!(summary.endpoint.memory_read_bytes, all, "{sizes:?}");
            assert_eq!(summary.endpoint.memory_write_bytes, all, "{sizes:?}");
            assert_eq!((summary.network.injected_bytes, summary.network.link_bytes), (all, all.into()));
            assert_eq!(summary.endpoint.transit_bytes, all - pairs * block);
            assert_eq!(summary.endpoint.sent_bytes, pairs * block);
        }
    }
}

#[test]
fn an_ace_touches_memory_only_at_the_ends() {
    for sizes in [&[4][..], &[5], &[2, 3], &[3, 1, 4], &[8], &[2]] {
        let npus: u64 = sizes.iter().map(|&s| u64::from(s)).product();
        let (block, pairs) = (6 * KIB, npus * (npus - 1));
        for network in networks() {
            for endpoint in [ace(), forwarding(ace())] {
                let mut spec = exchange(sizes, ace(), block);
                spec.network = network.clone();
                spec.endpoint = endpoint;
                let summary = run(&spec).summary;
                let forwarded = match spec.endpoint.model().transit() {
                    TransitSpec::Endpoint => npus * hops(sizes) * block - pairs * block,
                    TransitSpec::Network => 0,
                };
                assert_eq!(summary.endpoint.memory_read_bytes, pairs * block, "{sizes:?}");
                assert_eq!(summary.endpoint.memory_write_bytes, pairs * block, "{sizes:?}");
                assert_eq!(summary.endpoint.transit_bytes, forwarded);
                assert_eq!(summary.network.link_bytes, (npus * hops(sizes) * block).into());
            }
        }
    }
}

/// Two NPUs of a ring that lie `hops` apart; the others only forward.
pub fn pair(hops: u32, endpoint: EndpointSpec, kind: CollectiveKindSpec, bytes: u64) -> Spec {
    let mut spec = all_to_all(torus(&[2 * hops + 1]), endpoint, bytes);
    spec.groups = Some(GroupsSpec { members: vec![vec![0, hops]], grid: None, along: None });
    spec.job = JobSpec::Collective { collective: kind, bytes, root: 0, beside: vec![] };
    spec
}

/// Bytes over 25 GB/s, the latency of a hop, and the rates of the baseline.
const fn ps(bytes: u64, gbs: u64) -> u64 {
    (bytes * 1000).div_ceil(gbs)
}
const HOP: u64 = 100_000;

#[test]
fn a_message_is_stored_and_forwarded_whole_by_the_baseline() {
    // 450 GB/s of memory are the slowest of what a read passes, the bus takes 500.
    let bytes = 100 * 256;
    for network in networks() {
        for (hops, charged) in (1..6).flat_map(|h| [(h, false), (h, true)]) {
            let mut endpoint = baseline();
            let EndpointSpec::Baseline(BaselineSpec { charge_writes, .. }) = &mut endpoint else {
                panic!("a baseline")
            };
            *charge_writes = charged;
            let mut spec = pair(hops, endpoint, CollectiveKindSpec::Broadcast, bytes);
            spec.network = network.clone();
            let (read, arrive) = (ps(bytes, 450), ps(bytes, if charged { 450 } else { 500 }));
            let expected = u64::from(hops) * (read + ps(bytes, 25) + HOP + arrive);
            assert_eq!(run(&spec).summary.total_ps, expected, "{hops} hops");
        }
    }
}

#[test]
fn packets_stream_through_the_sram_of_an_ace() {
    for packets in [1, 2, 40] {
        let block = packets * 256;
        for hops in 1..6 {
            let spec = pair(hops, ace(), CollectiveKindSpec::AllToAll, 2 * block);
            let loaded = ps(block, 128);
            let carried = (packets + u64::from(hops) - 1) * ps(256, 25) + u64::from(hops) * HOP;
            assert_eq!(run(&spec).summary.total_ps, loaded + carried + ps(256, 500), "{packets} over {hops} hops");
        }
    }
}

#[test]
fn neighbours_need_no_transit() {
    for endpoint in forwarders() {
        for algorithm in [AlgorithmSpec::Ring, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase] {
            let mut spec = all_reduce(ace_torus([4, 2, 3]), endpoint.clone(), 300_000);
            spec.collectives.algorithm = algorithm;
            let routed = run(&spec);
            spec.endpoint = forwarding(endpoint.clone());
            assert_eq!(fingerprint(&run(&spec)), fingerprint(&routed));
        }
    }
    // Nor does a fabric on which no NPU lies between others.
    for (block, endpoint) in [BlockSpec::Switch, BlockSpec::FullyConnected]
        .into_iter()
        .flat_map(|b| forwarders().into_iter().map(move |endpoint| (b, endpoint)))
    {
        let mut spec = all_to_all(vec![DimSpec { block, ..dim(6, 25, 100_000) }], endpoint.clone(), 600_000);
        let asked = run(&spec);
        spec.endpoint = endpoint;
        assert_eq!(fingerprint(&run(&spec)), fingerprint(&asked));
    }
}

/// Both directions of every ring are busy at any time, whoever forwards: an all-to-all takes what its links need, and
/// little more.
#[test]
fn an_all_to_all_keeps_both_directions_busy() {
    for (sizes, most) in [(&[2][..], 1.05), (&[4], 1.05), (&[7], 1.05), (&[16], 1.1), (&[32], 1.1), (&[6, 3], 1.2)] {
        let npus: u64 = sizes.iter().map(|&s| u64::from(s)).product();
        let longest = u64::from(*sizes.iter().max().expect("a ring"));
        let block = 96 * KIB;
        // Hops along the longest dimension, over both of its directions.
        let load = npus * hops(&[longest as u32]) / longest * block / 2;
        for (network, forwards) in networks().into_iter().flat_map(|n| [(n.clone(), false), (n, true)]) {
            if !network.model().has_contention() && !forwards {
                continue; // it knows no links but the first
            }
            let mut spec = exchange(sizes, ideal(), block);
            spec.collectives.padding = true; // only equal blocks are halved
            if !forwards {
                spec.endpoint = ideal();
            }
            spec.network = network;
            let time = run(&spec).summary.total_ps - longest.div_ceil(2) * 100_000;
            let ratio = time as f64 / (load * 40) as f64;
            assert!(ratio < most, "{sizes:?} {:?} {forwards}: {ratio}", spec.network);
        }
    }
}

/// Near and far displacements take turns along all dimensions at once, so that all links are busy at any time: an
/// all-to-all on a torus takes little more than its lower bound. Where routers forward packets, what is left is their
/// head-of-line blocking; flows have none.
#[test]
fn an_all_to_all_on_a_torus_keeps_all_dimensions_busy() {
    let cases: [(&[u32], [f64; 3]); 2] = [(&[4, 8, 4], [1.02, 1.02, 1.22]), (&[7, 9], [1.1, 1.02, 1.18])];
    for (sizes, most) in cases {
        let runs = [(NetworkSpec::Flow(FlowSpec {}), false), (packet(true), true), (packet(true), false)];
        for ((network, forwards), most) in runs.into_iter().zip(most) {
            let mut spec = exchange(sizes, ideal(), 64 * KIB);
            if !forwards {
                spec.endpoint = ideal();
            }
            (spec.collectives.padding, spec.network) = (true, network);
            let summary = run(&spec).summary;
            let ratio = summary.total_ps as f64 / summary.lower_bound_ps as f64;
            assert!(ratio < most, "{sizes:?} {:?} {forwards}: {ratio}", spec.network);
        }
    }
}

/// Routers of tori carry less than their links can because packets wait for one before them that goes elsewhere: without
/// that, and with buffers that never fill, hardly anything is lost; such buffers alone do not help.
#[test]
fn what_routers_of_tori_lose_is_head_of_line_blocking() {
    let over_bound = |sizes: &[u32], sorted| {
        let mut spec = exchange(sizes, ideal(), 32 * KIB);
        (spec.endpoint, spec.fold) = (ideal(), FoldSpec::On); // routers forward
        spec.collectives.padding = true;
        spec.network = NetworkSpec::Packet(PacketSpec {
            packet_bytes: 1024,
            buffer_packets: Some(1 << 13),
            sorted,
            ..PacketSpec::DEFAULT
        });
        let summary = run(&spec).summary;
        summary.total_ps as f64 / summary.lower_bound_ps as f64
    };
    for sizes in [&[6, 6][..], &[4, 8, 4], &[8, 8, 8]] {
        let (sorted, in_line) = (over_bound(sizes, true), over_bound(sizes, false));
        assert!(sorted < 1.03 && in_line > sorted + 0.01, "{sizes:?}: {sorted} and {in_line}");
    }
}

/// The outcome of a run with the least SRAM that the engine accepts, in chunks of `chunk` bytes.
fn squeezed(
    sizes: &[u32],
    rule: DeadlockRule,
    bytes: u64,
    chunk: u64,
    change: impl Fn(&mut AceSpec),
) -> Result<Results, RunError> {
    let least = |sram_bytes| {
        let mut spec = all_to_all(torus(sizes), ace(), bytes);
        spec.network =
            NetworkSpec::Packet(PacketSpec { buffer_packets: Some(2), deadlock_rule: rule, ..PacketSpec::DEFAULT });
        spec.collectives.chunking = crate::support::chunks_of(chunk);
        let mut ace = AceSpec { sram_bytes, transit: TransitSpec::Endpoint, port_buffer_bytes: 256, ..ace_spec() };
        change(&mut ace);
        spec.endpoint = EndpointSpec::Ace(ace);
        spec
    };
    let refused = run_spec(&least(1), None).expect_err("an SRAM of one byte");
    let sram = support::least(&refused);
    assert!(refused.to_string().contains("or not two packets in each transit pool"), "{refused}");
    assert!(run_spec(&least(sram - 1), None).is_err(), "{sram} B are the least");
    run_spec(&least(sram), None)
}

/// The tornado of every distance, through pools of two packets: many chunks would be in flight but for the SRAM.
#[test]
fn saturated_tori_keep_moving() {
    for sizes in [&[3][..], &[4], &[5], &[6], &[7], &[8], &[3, 3], &[4, 2, 2], &[4, 4, 4], &[5, 6]] {
        let npus: u64 = sizes.iter().map(|&s| u64::from(s)).product();
        for rule in [DeadlockRule::Bubble, DeadlockRule::Dateline] {
            let (bytes, chunk) = (npus * 16 * KIB, npus * KIB);
            let summary =
                squeezed(sizes, rule, bytes, chunk, |_| {}).unwrap_or_else(|e| panic!("{sizes:?}: {e}")).summary;
            assert_eq!(summary.endpoint.memory_write_bytes, npus * (npus - 1) * 16 * KIB, "{sizes:?}");
            let pools = summary.endpoint.partitions.iter().find(|p| p.phase == "transit");
            let pools = pools.unwrap_or_else(|| panic!("no pools on {sizes:?}"));
            assert!(pools.peak_bytes <= pools.capacity_bytes);
        }
        // More chunks in flight, in small packets of their own.
        let mut spec = all_to_all(torus(sizes), ace(), npus * 16 * KIB);
        spec.collectives.chunking = crate::support::chunks_of(npus * 512);
        let EndpointSpec::Ace(ace) = &mut spec.endpoint else { panic!("an ACE") };
        (ace.sram_bytes, ace.transit) = (npus * 512 * 40, TransitSpec::Endpoint);
        run(&spec);
    }
}

#[test]
fn without_the_bubble_rings_lock_up() {
    for sizes in [&[6][..], &[8]] {
        let npus: u64 = sizes.iter().map(|&s| u64::from(s)).product();
        let error = squeezed(sizes, DeadlockRule::None, npus * 64 * KIB, npus * 64 * KIB, |_| {});
        let error = error.err().map(|e| e.to_string()).unwrap_or_else(|| panic!("{sizes:?} finished"));
        for words in [
            "the simulation stalled at",
            "packet(s) in the input buffer dim 0 ",
            "waits for a free slot in the transit pool of dim 0 ",
            "packet(s) in the transit pool of dim 0 ",
            "waits for space in the port buffer of dim 0 ",
        ] {
            assert!(error.contains(words), "{words} in {error}");
        }
    }
}

#[test]
fn simultaneous_events_commute() {
    for endpoint in forwarders() {
        for network in networks() {
            let mut spec = all_to_all(ace_torus([3, 4, 2]), endpoint.clone(), 24 * 4 * KIB);
            spec.network = network;
            spec.collectives.chunking = ChunkingSpec::Count { chunks: 5 };
            let once = fingerprint(&run(&spec));
            for seed in 0..4 {
                let again = run_spec(&spec, Some(seed)).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(fingerprint(&again), once, "{spec:?}");
            }
        }
        let mut spec = all_to_all(ace_torus([3, 4, 2]), endpoint, 24 * 40 * KIB);
        let trains = run(&spec).summary.total_ps;
        spec.network = packet(false);
        assert_eq!(run(&spec).summary.total_ps, trains, "trains change nothing");
    }
}

#[test]
fn no_endpoint_beats_the_bound() {
    for endpoint in forwarders() {
        for sizes in [[8, 1, 1], [4, 4, 1], [3, 4, 2]] {
            let mut spec = all_to_all(ace_torus(sizes), endpoint.clone(), 1 << 20);
            spec.collectives.chunking = crate::support::chunks_of(65_536);
            let summary = run(&spec).summary;
            assert!(summary.total_ps >= summary.lower_bound_ps, "{sizes:?}");
        }
    }
}

#[test]
fn what_endpoints_cannot_forward_is_refused() {
    let mut spec = all_to_all(torus(&[4, 3]), baseline(), 1 << 20);
    dims(&mut spec)[1].block = BlockSpec::Switch;
    let error = run_spec(&spec, None).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(
        error.starts_with("endpoint.transit: endpoints do not forward to and from switches; accepted: "),
        "{error}"
    );
    // Through fully connected groups they do: from one dimension to the next.
    dims(&mut spec)[1].block = BlockSpec::FullyConnected;
    for endpoint in forwarders() {
        spec.endpoint = forwarding(endpoint);
        let summary = run(&spec).summary;
        let forwarded = summary.network.link_bytes - u128::from(summary.endpoint.sent_bytes);
        assert_eq!(u128::from(summary.endpoint.transit_bytes), forwarded);
        assert!(summary.endpoint.transit_bytes > 0);
    }
    // Dimension by dimension there is nothing to forward; other collectives over distant NPUs an ACE does not have.
    spec.collectives.algorithm = AlgorithmSpec::Hierarchical;
    assert_eq!(run(&spec).summary.endpoint.transit_bytes, 0);
    spec.collectives.algorithm = AlgorithmSpec::Direct;
    spec.job = collective_job(CollectiveKindSpec::AllReduce, 1 << 20);
    let error = run_spec(&spec, None).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(
        error.starts_with("collectives.algorithm: an ACE carries out rings between neighbouring NPUs, direct phases"),
        "{error}"
    );
}
