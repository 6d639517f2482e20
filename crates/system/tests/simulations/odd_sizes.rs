//! Sizes at the edge.

use crate::support::{ace, all_reduce, baseline, collective_job, dim, ideal, run};
use syncline_system::spec::{AlgorithmSpec, ChunkingSpec, CollectiveKindSpec};

#[test]
fn nothing_and_almost_nothing() {
    for endpoint in [ideal(), baseline(), ace()] {
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

#[test]
fn every_collective_on_odd_tori() {
    for collective in [CollectiveKindSpec::AllReduce, CollectiveKindSpec::ReduceScatter, CollectiveKindSpec::AllGather]
    {
        for algorithm in [AlgorithmSpec::Ring, AlgorithmSpec::AceFourPhase, AlgorithmSpec::SixPhase] {
            for endpoint in [ideal(), baseline(), ace()] {
                let mut spec =
                    all_reduce(vec![dim(3, 50, 50_000), dim(5, 25, 90_000), dim(2, 25, 90_000)], endpoint, 0);
                spec.collectives.algorithm = algorithm;
                spec.job = collective_job(collective, 123_457);
                assert!(run(&spec).summary.total_ps > 0);
            }
        }
    }
}
