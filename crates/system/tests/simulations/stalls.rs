//! Whatever the tori, an ACE that forwards goes on: rings of any length, links that differ by up to 200 times, as little
//! SRAM and as small buffers as the engine accepts.

use crate::mixed;
use crate::support::{self, ace_spec, all_to_all, chunks_of, run};
use proptest::prelude::*;
use syncline_collective::Kind;
use syncline_system::run_spec;
use syncline_system::spec::{
    AceSpec, BlockSpec, DimSpec, EndpointSpec, FoldSpec, NetworkSpec, PacketSpec, Spec, TransitSpec,
};

prop_compose! {
    /// Up to three rings, with two NPUs or more.
    pub fn rings(sizes: &'static [u32])(
        rings in prop::collection::vec(
            (prop::sample::select(sizes), prop::sample::select(&[1u64, 2, 5, 12, 25, 50, 100, 200]), 1u64..1_000),
            1..4,
        )
        .prop_filter("there is nobody to talk to", |rings| rings.iter().any(|ring| ring.0 > 1)),
    ) -> Vec<DimSpec> {
        let ring = |(size, rate, latency): (u32, u64, u64)| DimSpec {
            block: BlockSpec::Ring, size, rate_bytes_per_s: rate * 1_000_000_000, latency_ps: latency * 1_000, links: 1,
        };
        rings.into_iter().map(ring).collect()
    }
}

/// What is scarce.
#[derive(Clone, Copy, Debug)]
struct Scarce {
    sram: bool,
    banks: u32,
    port_buffer: u64,
    buffer: Option<u32>,
    fsms: u32,
}

prop_compose! {
    fn scarce()(
        sram: bool, banks in 1u32..5, packets in prop::sample::select(&[1u64, 2, 3, 16]), least: bool, fsms in 1u32..17,
    ) -> Scarce {
        Scarce { sram, banks, port_buffer: packets * 256, buffer: least.then_some(2), fsms }
    }
}

fn network(buffer_packets: Option<u32>) -> NetworkSpec {
    NetworkSpec::Packet(PacketSpec { buffer_packets, ..PacketSpec::DEFAULT })
}

/// An all-to-all of `blocks` bytes for each peer, in chunks of `chunk` of them.
fn exchange(rings: Vec<DimSpec>, block: u64, chunk: u64, scarce: Scarce) -> Spec {
    let npus: u64 = rings.iter().map(|ring| u64::from(ring.size)).product();
    let mut spec = all_to_all(rings, EndpointSpec::Ace(ace_spec()), npus * block);
    spec.collectives.chunking = chunks_of(npus * chunk);
    spec.collectives.padding = true;
    spec.network = network(scarce.buffer);
    spec.fold = FoldSpec::On;
    let ace = |sram_bytes| {
        EndpointSpec::Ace(AceSpec {
            sram_bytes,
            sram_banks: scarce.banks,
            port_buffer_bytes: scarce.port_buffer,
            fsms: scarce.fsms,
            transit: TransitSpec::Endpoint,
            ..ace_spec()
        })
    };
    spec.endpoint = ace(1);
    let least = run_spec(&spec, None).err().map_or(1, |error| support::least(&error));
    spec.endpoint = ace(if scarce.sram { least } else { least.max(ace_spec().sram_bytes) });
    spec
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn every_exchange_finishes(
        rings in rings(&[1, 2, 3, 4, 5, 6, 7, 8]), block in 1u64..4_000, chunk in 1u64..2_000, scarce in scarce(),
    ) {
        let npus: u64 = rings.iter().map(|ring| u64::from(ring.size)).product();
        // Large tori send as much in smaller blocks.
        let (block, chunk) = (1 + block * 64 / (64 + npus), 1 + chunk * 64 / (64 + npus));
        let summary = run(&exchange(rings, block, chunk.max(block / 24), scarce)).summary;
        prop_assert!(summary.endpoint.memory_write_bytes >= npus * (npus - 1) * block);
    }

}

/// So many mixes, or as many as the environment asks for: a stall may be one in a thousand.
fn mixes(usual: u32) -> ProptestConfig {
    let cases = std::env::var("STALL_CASES").map_or(usual, |cases| cases.parse().expect("a number of cases"));
    ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(mixes(100))]

    /// Beside rings, in buffers of which each kind has half, and with NPUs that come late.
    #[test]
    fn every_mix_finishes(
        (mut spec, steps) in mixed::mixes(rings(&[1, 2, 3, 4, 5])), least: bool, fsms in 6u32..40,
        message in prop::sample::select(&[256u32, 1024, 8192]),
    ) {
        mixed::engine(&mut spec).fsms = fsms;
        mixed::engine(&mut spec).message_bytes = message;
        let spec = if least { mixed::squeezed(spec, &steps) } else { spec };
        let results = mixed::run(&spec, &steps);
        prop_assert_eq!(results.summary.network.injected_bytes, results.summary.network.delivered_bytes);
    }

    /// Without all-to-alls.
    #[test]
    fn rings_alone_finish(
        (mut spec, mut steps) in mixed::mixes(rings(&[2, 3, 4, 5, 8])), fsms in 6u32..40,
        message in prop::sample::select(&[256u32, 1024, 8192]),
    ) {
        steps.retain(|step| step.kind != Kind::AllToAll);
        mixed::engine(&mut spec).fsms = fsms;
        mixed::engine(&mut spec).message_bytes = message;
        let spec = mixed::squeezed(spec, &steps);
        let results = mixed::run(&spec, &steps);
        prop_assert_eq!(results.summary.network.injected_bytes, results.summary.network.delivered_bytes);
    }
}

/// Around a ring of two an engine needs no answer before it sends for the next chunk. Where two phases share such a ring and
/// NPUs come late, one engine could fill its neighbour's buffer with one phase while that filled its own with the other.
#[test]
fn two_phases_on_a_ring_of_two_do_not_wait_for_each_other() {
    let (spec, steps) = mixed::ahead_of_each_other();
    mixed::run(&spec, &steps);
}

/// A slow last ring holds back all others: their pools and buffers are full nearly all the time.
#[test]
fn a_slow_last_ring_holds_up_without_end_nobody() {
    let ring = |size, rate: u64, latency: u64| DimSpec {
        block: BlockSpec::Ring,
        size,
        rate_bytes_per_s: rate * 1_000_000_000,
        latency_ps: latency * 1_000,
        links: 1,
    };
    let scarce = Scarce { sram: false, banks: 4, port_buffer: 4096, buffer: None, fsms: 16 };
    for rings in [
        vec![ring(7, 200, 72), ring(6, 25, 400), ring(2, 1, 400)],
        vec![ring(5, 200, 72), ring(5, 25, 400), ring(5, 2, 400)],
    ] {
        run(&exchange(rings, 24_966, 780, scarce));
    }
}
