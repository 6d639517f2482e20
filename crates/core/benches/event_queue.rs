//! Push+pop pairs per second with 10^5 pending events: delays like those of a loaded torus, and none.
//!
//! `cargo bench -p syncline-core`. The order of what leaves is checked; the wall time is reported.

use std::hint::black_box;
use syncline_core::queue::SplitMix64;
use syncline_core::{EventQueue, Key, Ps};

const PENDING: usize = 100_000;
const PAIRS: u64 = 20_000_000;

fn main() {
    for (name, span) in [("uniform 1 us", 1_000_000), ("uniform 500 ns", 500_000), ("uniform 16 ms", 16_000_000_000)] {
        run(name, span);
    }
    at_once();
}

/// 10^5 NPUs act at one time, and what each does leads to more at that time.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn at_once() {
    const ROUNDS: u32 = 20;
    let mut q: EventQueue<[u32; 3]> = EventQueue::new();
    for i in 0..PENDING {
        q.push(Ps(1), Key::new(0, 0), [i as u32; 3]);
    }
    let start = std::time::Instant::now();
    let mut last = Key::new(0, 0);
    while let Some((t, key, e)) = q.pop() {
        assert!(t == Ps(1) && key >= last);
        last = key;
        let round = q.popped() as u32 / PENDING as u32 + 1;
        if round <= ROUNDS {
            q.push(t, Key::new(0, round), black_box(e));
        }
    }
    let s = start.elapsed().as_secs_f64();
    println!("{:>16}: {:6.1} million push+pop pairs per second", "at one time", q.popped() as f64 / s / 1e6);
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn run(name: &str, span: usize) {
    let mut rng = SplitMix64(42);
    let mut q: EventQueue<[u32; 3]> = EventQueue::new();
    for i in 0..PENDING {
        q.push(Ps(rng.below(span) as u64), Key::new(0, 0), [i as u32; 3]);
    }
    let start = std::time::Instant::now();
    let mut last = Ps::ZERO;
    for _ in 0..PAIRS {
        let (t, key, e) = q.pop().expect("the queue never runs dry");
        assert!(t >= last);
        last = t;
        q.push(Ps(t.0 + 1 + rng.below(span) as u64), key, black_box(e));
    }
    let s = start.elapsed().as_secs_f64();
    println!("{name:>16}: {:6.1} million push+pop pairs per second ({last} simulated)", PAIRS as f64 / s / 1e6);
}
