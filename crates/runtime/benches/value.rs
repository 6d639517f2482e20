//! How fast blocks of 128 KiB are reduced, beside a copy of them.
//!
//! `cargo bench -p syncline-runtime --bench value [-- float32 ...]`. A block is reduced in place (received onto
//! local), as a step of a program does it. GB/s are 10^9 bytes of the block per second of wall time, the best of
//! several trials: a copy reads them once and writes them once, a reduction reads two blocks and writes one.

use std::hint::black_box;
use syncline_runtime::value::{Arithmetic, DataType, Instructions, Reduction, Scalar};

const BLOCK: usize = 128 << 10;
const TRIALS: usize = 15;
const ROUNDS: usize = 50;

/// GB/s of something done with a block.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn speed(mut block: impl FnMut()) -> f64 {
    block();
    let trial = |_| {
        let start = std::time::Instant::now();
        (0..ROUNDS).for_each(|_| block());
        (BLOCK * ROUNDS) as f64 / start.elapsed().as_nanos() as f64
    };
    (0..TRIALS).map(trial).fold(0.0, f64::max)
}

/// Bytes with few NaNs, infinities and subnormal numbers in any type.
fn bytes(seed: usize) -> Vec<u8> {
    (0..BLOCK).map(|i| (i * 37 + seed * 101) as u8 & 0xb7 | 0x08).collect()
}

fn main() {
    let (received, mut local) = (bytes(1), bytes(2));
    let copied = speed(|| {
        local.copy_from_slice(black_box(&received));
        black_box(&mut local);
    });
    println!("copy {copied:.1} GB/s");
    let one =
        |data_type: DataType| Scalar::from_bytes(data_type, &bytes(3)[..data_type.size()]).expect("a whole element");
    println!("{:20}   sum  prod   max  sum of a scaled input  average's division", "GB/s");
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for data_type in
        DataType::ALL.into_iter().filter(|one| asked.is_empty() || asked.iter().any(|name| name == one.name()))
    {
        for instructions in [Instructions::Basic, Instructions::Avx2] {
            let with = |reduction| Arithmetic::with(instructions, data_type, reduction, 6);
            if !instructions.present() {
                continue;
            }
            let mut print = |reduce: &dyn Fn(*mut u8, *const u8)| {
                // Results must not run away to values that are slower to compute with.
                local.copy_from_slice(&bytes(2));
                print!(" {:5.1}", speed(|| reduce(black_box(local.as_mut_ptr()), black_box(received.as_ptr()))));
            };
            print!("{:14} {instructions:5?}", data_type.name());
            for reduction in [Reduction::Sum, Reduction::Prod, Reduction::Max] {
                let arithmetic = with(reduction).expect("the CPU has them");
                // SAFETY: both are blocks, of different memory.
                print(&|local, received| unsafe { arithmetic.reduce(local, received, local, BLOCK) });
            }
            let scaled = with(Reduction::PreMulSum(one(data_type))).expect("the CPU has them");
            // SAFETY: both are blocks, of different memory.
            print(&|local, received| unsafe { scaled.reduce_scaled(local, received, local, BLOCK) });
            let average = with(Reduction::Avg).expect("the CPU has them");
            if average.divides() {
                // SAFETY: it is a block.
                print(&|local, _| unsafe { average.divide(local, BLOCK) });
            }
            println!();
        }
    }
}
