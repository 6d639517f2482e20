//! Sizes at the edge.

use crate::support::{ace_spec, all_reduce, baseline, chunks_of, collective_job, dim, endpoints, least, run};
use proptest::prelude::*;
use syncline_system::run_spec;
use syncline_system::spec::{
    AceSpec, AlgorithmSpec, ChunkingSpec, CollectiveKindSpec, DimSpec, EndpointSpec, LanesSpec, Spec,
};

#[test]
fn nothing_and_almost_nothing() {
    for endpoint in endpoints() {
        for sizes in [&[1][..], &[2], &[3, 1], &[1, 1, 1], &[2, 2], &[5, 3], &[7]] {
            for bytes in [0, 1, 2, 3, 255, 257, 65_537] {
                let dims = sizes.iter().map(|&n| dim(n, 25, 100_000)).collect();
                let s = run(&all_reduce(dims, endpoint.clone(), bytes)).summary;
                let npus: u32 = sizes.iter().product();
                assert_eq!(s.npus, npus);
                if npus == 1 || bytes == 0 {
                    assert_eq!(s.total_ps, 0, "nothing to do on {sizes:?} with {bytes} B");
                } else {
                    assert!(s.total_ps > 100_000);
                }
            }
        }
    }
}

#[test]
fn more_chunks_than_elements() {
    let mut spec = all_reduce(vec![dim(4, 25, 100_000)], baseline(), 10);
    spec.collectives.chunking = ChunkingSpec::Count { chunks: 160 };
    assert_eq!(run(&spec).summary.chunks, 5);
}

/// A number of chunks is for collectives that are large enough; a kind's own number has the same least size.
#[test]
fn chunks_of_a_stated_number_have_a_least_size() {
    let chunks = |bytes: u64, of_kind: bool| {
        let mut spec = all_reduce(vec![dim(4, 25, 100_000)], baseline(), bytes);
        spec.collectives.least_chunk_bytes = 4096;
        match of_kind {
            true => spec.collectives.chunks_of = vec![(CollectiveKindSpec::AllReduce, 64)],
            false => spec.collectives.chunking = ChunkingSpec::Count { chunks: 64 },
        }
        run(&spec).summary
    };
    for of_kind in [false, true] {
        let found = [1, 4000, 8191, 8192, 64 * 4096 - 8, 1 << 20].map(|bytes| chunks(bytes, of_kind).chunks);
        assert_eq!(found, [1, 1, 1, 2, 63, 64]);
    }
    let mut whole = all_reduce(vec![dim(4, 25, 100_000)], baseline(), 4000);
    whole.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
    assert_eq!(chunks(4000, false).total_ps, run(&whole).summary.total_ps);
}

#[test]
fn every_collective_on_odd_tori() {
    for collective in [CollectiveKindSpec::AllReduce, CollectiveKindSpec::ReduceScatter, CollectiveKindSpec::AllGather]
    {
        for algorithm in [AlgorithmSpec::Ring, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase] {
            for endpoint in endpoints() {
                let mut spec =
                    all_reduce(vec![dim(3, 50, 50_000), dim(5, 25, 90_000), dim(2, 25, 90_000)], endpoint, 0);
                spec.collectives.algorithm = algorithm;
                spec.job = collective_job(collective, 123_457);
                assert!(run(&spec).summary.total_ps > 0);
            }
        }
    }
}

/// The least SRAM with which a description is not refused, as the refusal says.
fn least_sram(spec: &Spec) -> Option<u64> {
    run_spec(spec, None).err().map(|refused| least(&refused))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// An SRAM that holds one chunk in each partition is enough, wherever what does not divide goes: chunks, their
    /// parts in lanes and blocks of ranks are of unequal lengths, the last ones sometimes the longest.
    #[test]
    fn the_smallest_legal_sram_is_enough(
        sizes in prop::collection::vec(1u32..6, 1..4), bytes in 1u64..30_000, cut in 1u64..9000, by_count: bool,
        element in 1u32..9, lanes in 0usize..3, kind in 0usize..3,
    ) {
        let kinds = [CollectiveKindSpec::AllReduce, CollectiveKindSpec::ReduceScatter, CollectiveKindSpec::AllGather];
        let dims: Vec<DimSpec> = sizes.iter().map(|&n| dim(n, 25, 100_000)).collect();
        let with_sram = |sram_bytes: u64| {
            let mut spec = all_reduce(dims.clone(), EndpointSpec::Ace(AceSpec { sram_bytes, ..ace_spec() }), 0);
            spec.job = collective_job(kinds[kind], bytes);
            spec.collectives.lanes = [LanesSpec::Alternate, LanesSpec::Split, LanesSpec::One][lanes];
            spec.collectives.element_bytes = element;
            spec.collectives.least_chunk_bytes = cut;
            spec.collectives.chunking = match by_count {
                true => ChunkingSpec::Count { chunks: (cut % 40 + 1) as u32 },
                false => chunks_of(cut.max(bytes / 50)),
            };
            spec
        };
        prop_assume!(sizes.iter().any(|&n| n > 1));
        let least = least_sram(&with_sram(0)).expect("an engine without memory is refused");
        prop_assert!(run_spec(&with_sram(least), None).is_ok(), "{} B", least);
        prop_assert_eq!(least_sram(&with_sram(least - 1)), Some(least));
    }
}
