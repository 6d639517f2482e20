//! Ranks as threads, and an executor that does nothing but wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use syncline_runtime::bootstrap::{Failure, Options, Request, Session, UniqueId};

/// The time, to compare with what is promised about how long a fault goes unnoticed.
#[expect(clippy::disallowed_methods, reason = "faults of real processes are noticed by real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Options for ranks of this host, with timeouts in milliseconds.
pub fn options(call_ms: u64, join_ms: u64) -> Options {
    Options {
        call_timeout: Duration::from_millis(call_ms),
        join_timeout: Duration::from_millis(join_ms),
        address: Some("127.0.0.1".to_owned()),
        ..Options::default()
    }
}

/// Joins, with the rank's number as its publication.
pub fn join(id: &UniqueId, rank: u32, ranks: u32, options: &Options) -> Result<Session, Failure> {
    Session::join(id, rank, ranks, &rank.to_le_bytes(), Box::new(|| {}), options)
}

/// All ranks of a communicator, joined by threads of this process.
pub fn sessions(ranks: u32, options: &Options) -> Vec<Session> {
    let id = UniqueId::create(options).unwrap();
    each(ranks, |rank| join(&id, rank, ranks, options).unwrap())
}

/// Does something for each rank in a thread of its own, and returns what came of it, by rank.
pub fn each<T: Send>(ranks: u32, of_rank: impl Fn(u32) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let of_rank = &of_rank;
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || of_rank(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// An all-reduce of so many elements.
pub fn all_reduce(elements: u64) -> Request {
    let text = |words: &[u64; 4]| format!("all-reduce of {} float32 (sum)", words[0]);
    Request { digest: elements.wrapping_mul(0x9e37_79b9_7f4a_7c15), words: [elements, 0, 0, 0], text }
}

/// Announces that a rank waits in a call until the communicator fails.
pub fn wait_for_failure(session: &Session, call: u32, on: Option<u32>) -> Failure {
    for _ in 0..1000 {
        session.waiting(call, on);
        if let Some(failure) = session.failure() {
            return failure;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("rank {} has waited for 20 s in vain", session.rank());
}

/// Waits, without a call, for the communicator to fail.
pub fn failure_of(session: &Session) -> Failure {
    for _ in 0..1000 {
        if let Some(failure) = session.failure() {
            return failure;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("rank {} has not heard of a failure within 10 s", session.rank());
}

/// A function for a session to call, and how often it has.
pub fn counted() -> (Arc<AtomicU32>, Box<dyn Fn() + Send + Sync>) {
    let count = Arc::new(AtomicU32::new(0));
    let of_session = Arc::clone(&count);
    let wake = move || {
        of_session.fetch_add(1, Ordering::SeqCst);
    };
    (count, Box::new(wake))
}

/// Threads of this process whose names begin so. Names are cut to 15 bytes by the system.
pub fn threads_named(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with(prefix)).count()
}
