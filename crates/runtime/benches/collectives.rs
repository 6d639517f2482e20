//! How long collectives take between processes of this host, beside the rate of copies.
//!
//! `cargo bench -p syncline-runtime --bench collectives` prints a table; results are checked. Ranks are processes, since threads would share more
//! than ranks do.

use std::env;
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncline_collective::Kind;
use syncline_runtime::bootstrap::{ID_BYTES, Options, UniqueId};
use syncline_runtime::communicator::{Communicator, Operation, run};
use syncline_runtime::plan::library::Library;
use syncline_runtime::value::{Arithmetic, DataType, Reduction};

const SIZES: [usize; 9] = [8, 1 << 10, 16 << 10, 128 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];
const RANK: &str = "SYNCLINE_BENCH_RANK";

fn options() -> Options {
    Options { address: Some("127.0.0.1".into()), call_timeout: Duration::from_secs(30), ..Options::default() }
}

fn main() {
    if let Ok(text) = env::var(RANK) {
        let mut parts = text.split(' ');
        let (rank, ranks) = (parts.next().unwrap().parse().unwrap(), parts.next().unwrap().parse().unwrap());
        let bytes: Vec<u8> = parts.map(|part| part.parse().unwrap()).collect();
        member(&UniqueId::from_bytes(bytes[..].try_into().unwrap()).unwrap(), rank, ranks);
        return;
    }
    println!(
        "copy of 64 MiB: {:.1} GB/s; of 128 KiB, over and over: {:.1} GB/s",
        copy_rate(64 << 20),
        copy_rate(128 << 10)
    );
    for ranks in [2, 4] {
        let id = UniqueId::create(&options()).unwrap();
        let bytes: [u8; ID_BYTES] = *id.as_bytes();
        let text: Vec<String> = bytes.iter().map(u8::to_string).collect();
        let start = |rank: u32| {
            let variable = format!("{rank} {ranks} {}", text.join(" "));
            Command::new(env::current_exe().unwrap()).env(RANK, variable).spawn().unwrap()
        };
        let children: Vec<_> = (0..ranks).map(start).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
    }
}

/// Bytes per nanosecond.
#[expect(clippy::disallowed_methods, reason = "a benchmark reports wall time")]
fn copy_rate(bytes: usize) -> f64 {
    let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
    let times = (1 << 30) / bytes;
    let start = Instant::now();
    for _ in 0..times {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }
    (times * bytes) as f64 / start.elapsed().as_nanos() as f64
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reports wall time")]
fn member(id: &UniqueId, rank: u32, ranks: u32) {
    let communicator = Arc::new(Communicator::join(id, rank, ranks, &options(), Library::default()).unwrap());
    let arithmetic = Arithmetic::new(DataType::Float32, Reduction::Sum, ranks).unwrap();
    if rank == 0 {
        println!(
            "{ranks} ranks, all-reduce of float32, in place\n{:>12} {:>12} {:>10} {:>10}",
            "bytes", "median us", "least us", "GB/s"
        );
    }
    for bytes in SIZES {
        let mut vector = vec![0.0f32; bytes / 4];
        let count = vector.len() as u64;
        let call = |vector: &mut [f32]| {
            let operation = Operation::Collective {
                kind: Kind::AllReduce,
                root: 0,
                count,
                arithmetic,
                input: vector.as_ptr().cast(),
                output: vector.as_mut_ptr().cast(),
            };
            // SAFETY: the vector lives until the call returns.
            unsafe { run(&[(communicator.clone(), operation)]) }.unwrap();
        };
        vector.fill(1.0);
        call(&mut vector);
        assert!(vector.iter().all(|&value| value == ranks as f32));
        vector.fill(0.0);
        let turns = (1 << 30) / bytes.max(1 << 16) / 4;
        let mut times: Vec<f64> = (0..turns.clamp(5, 500))
            .map(|_| {
                let start = Instant::now();
                call(&mut vector);
                start.elapsed().as_nanos() as f64 / 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        if rank == 0 {
            println!("{bytes:>12} {median:>12.1} {:>10.1} {:>10.2}", times[0], bytes as f64 / median / 1e3);
        }
    }
}
