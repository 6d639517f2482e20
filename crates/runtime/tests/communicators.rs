//! Communicators whose ranks are threads of this process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use syncline_collective::Kind;
use syncline_runtime::bootstrap::{Cause, Failure, Options, UniqueId};
use syncline_runtime::communicator::{Communicator, Operation, run};
use syncline_runtime::plan::library::Library;
use syncline_runtime::value::{Arithmetic, DataType, Reduction};

fn options() -> Options {
    Options { call_timeout: Duration::from_secs(2), address: Some("127.0.0.1".into()), ..Options::default() }
}

/// Runs each rank of a communicator in a thread.
fn with_ranks<T: Send>(ranks: u32, body: impl Fn(Arc<Communicator>) -> T + Sync) -> Vec<T> {
    let id = UniqueId::create(&options()).unwrap();
    thread::scope(|scope| {
        let start = |rank| {
            let (id, body) = (&id, &body);
            scope.spawn(move || {
                let communicator = Communicator::join(id, rank, ranks, &options(), Library::default()).unwrap();
                body(Arc::new(communicator))
            })
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn sum(ranks: u32) -> Arithmetic {
    Arithmetic::new(DataType::Float32, Reduction::Sum, ranks).unwrap()
}

/// An all-reduce in place.
fn call(communicator: &Communicator, vector: &mut [f32]) -> Operation {
    Operation::Collective {
        kind: Kind::AllReduce,
        root: 0,
        count: vector.len() as u64,
        arithmetic: sum(communicator.ranks()),
        input: vector.as_ptr().cast(),
        output: vector.as_mut_ptr().cast(),
    }
}

fn all_reduce(communicator: &Arc<Communicator>, vector: &mut [f32]) -> Result<(), Failure> {
    let call = call(communicator, vector);
    // SAFETY: the vector lives until the call returns.
    unsafe { run(&[(communicator.clone(), call)]) }
}

#[test]
fn sums_of_many_calls() {
    for ranks in [1, 2, 3, 5] {
        with_ranks(ranks, |communicator| {
            for count in [0usize, 1, 5, 1000, 300_000] {
                let mut vector: Vec<f32> = (0..count).map(|i| (i as u32 + communicator.rank()) as f32).collect();
                all_reduce(&communicator, &mut vector).unwrap();
                let ranks_sum = ranks * (ranks - 1) / 2;
                assert!((0..count).all(|i| vector[i] == (i as u32 * ranks + ranks_sum) as f32));
            }
        });
    }
}

#[test]
fn everybody_sends_to_everybody_in_one_group() {
    const COUNT: usize = 100_000;
    with_ranks(4, |communicator| {
        let own = communicator.rank();
        let outgoing: Vec<Vec<u32>> = (0..4).map(|peer| vec![own * 10 + peer; COUNT]).collect();
        let mut incoming: Vec<Vec<u32>> = vec![vec![0; COUNT]; 4];
        let bytes = 4 * COUNT as u64;
        let mut calls = Vec::new();
        for peer in 0..4 {
            let from = outgoing[peer as usize].as_ptr().cast();
            let into = incoming[peer as usize].as_mut_ptr().cast();
            calls.push((communicator.clone(), Operation::Recv { peer, bytes, into }));
            calls.push((communicator.clone(), Operation::Send { peer, bytes, from }));
            // Nothing is also a message.
            calls.push((communicator.clone(), Operation::Send { peer, bytes: 0, from: std::ptr::null() }));
            calls.push((communicator.clone(), Operation::Recv { peer, bytes: 0, into: std::ptr::null_mut() }));
        }
        // SAFETY: all vectors live until the call returns.
        unsafe { run(&calls) }.unwrap();
        for peer in 0..4 {
            assert!(incoming[peer as usize].iter().all(|&value| value == peer * 10 + own));
        }
    });
}

/// As one thread does it that has several ranks.
#[test]
fn ranks_of_one_thread_call_in_a_group() {
    let id = UniqueId::create(&options()).unwrap();
    let communicators: Vec<Arc<Communicator>> = thread::scope(|scope| {
        let join = |rank| {
            let id = &id;
            scope.spawn(move || Communicator::join(id, rank, 3, &options(), Library::default()).unwrap())
        };
        let threads: Vec<_> = (0..3).map(join).collect();
        threads.into_iter().map(|thread| Arc::new(thread.join().unwrap())).collect()
    });
    let mut vectors: Vec<Vec<f32>> = (0..3).map(|rank| vec![rank as f32; 500_000]).collect();
    for _ in 0..3 {
        let calls: Vec<_> = communicators
            .iter()
            .zip(&mut vectors)
            .map(|(communicator, vector)| {
                let call = Operation::Collective {
                    kind: Kind::AllReduce,
                    root: 0,
                    count: vector.len() as u64,
                    arithmetic: sum(3),
                    input: vector.as_ptr().cast(),
                    output: vector.as_mut_ptr().cast(),
                };
                (communicator.clone(), call)
            })
            .collect();
        // SAFETY: the vectors live until the call returns.
        unsafe { run(&calls) }.unwrap();
    }
    assert!(vectors.iter().flatten().all(|&value| value == 27.0));
}

#[test]
fn a_rank_that_asks_for_something_else_is_named() {
    for (ranks, odd) in [(2, 1), (3, 2), (4, 0)] {
        let failures = with_ranks(ranks, |communicator| {
            let mut vector = vec![1.0; 64];
            all_reduce(&communicator, &mut vector).unwrap();
            let count = if communicator.rank() == odd { 63 } else { 64 };
            all_reduce(&communicator, &mut vector[..count]).unwrap_err()
        });
        for failure in failures {
            println!("{failure}");
            assert_eq!((failure.cause, failure.call), (Cause::Mismatch, Some(1)));
            assert!(failure.message.contains("63") && failure.message.contains("64"), "{failure}");
            assert!(ranks == 2 || failure.rank == Some(odd), "{failure}");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it must not hang")]
fn a_rank_that_does_not_call_is_named() {
    let start = Instant::now();
    let failures = with_ranks(3, |communicator| {
        if communicator.rank() == 1 {
            thread::sleep(Duration::from_secs(5));
            return communicator.failure();
        }
        all_reduce(&communicator, &mut [1.0; 64]).err()
    });
    assert!(start.elapsed() < Duration::from_secs(10));
    for failure in failures {
        let failure = failure.unwrap();
        println!("{failure}");
        assert_eq!((failure.cause, failure.rank, failure.call), (Cause::TimedOut, Some(1), Some(0)));
    }
}

#[test]
fn an_abort_unblocks_all() {
    let failures = with_ranks(3, |communicator| {
        if communicator.rank() == 2 {
            return None;
        }
        if communicator.rank() == 1 {
            let other = communicator.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(200));
                other.abort();
            });
        }
        all_reduce(&communicator, &mut [1.0; 64]).err()
    });
    // Rank 2 has left by then, or rank 1 has aborted: whichever was noticed first.
    for failure in failures.into_iter().take(2) {
        let failure = failure.unwrap();
        println!("{failure}");
        assert!(
            matches!(failure.cause, Cause::Aborted | Cause::Died | Cause::Mismatch | Cause::TimedOut),
            "{failure:?}"
        );
    }
}

#[test]
fn a_call_that_is_refused_takes_those_of_its_group_with_it() {
    let ids = [(); 2].map(|()| UniqueId::create(&options()).unwrap());
    let refuses = AtomicUsize::new(0);
    let ready = Barrier::new(2);
    let rank = |rank: u32| {
        let join = |id| Arc::new(Communicator::join(id, rank, 2, &options(), Library::default()).unwrap());
        let mut both = [join(&ids[0]), join(&ids[1])];
        if rank == 0 {
            // Communicators are gone through in the order of their addresses. The one that refuses is the last.
            let last = usize::from(Arc::as_ptr(&both[1]) > Arc::as_ptr(&both[0]));
            both[last].abort();
            let mut vectors = [vec![1f32; 10], vec![1f32; 10]];
            let (mut message, bytes) = ([0u8; 4], 4);
            let mut calls: Vec<_> = both.iter().zip(&mut vectors).map(|(c, v)| (c.clone(), call(c, v))).collect();
            let into = message.as_mut_ptr();
            calls.push((both[1 - last].clone(), Operation::Recv { peer: 1, bytes, into }));
            // SAFETY: buffers live until the call returns.
            assert_eq!(unsafe { run(&calls) }.unwrap_err().cause, Cause::Aborted);
            assert_eq!(vectors[1 - last], vec![1f32; 10], "it was made");
            refuses.store(last, Ordering::SeqCst);
        }
        ready.wait();
        both.swap(0, refuses.load(Ordering::SeqCst));
        // What was not made has no number: the other one works on.
        for _ in 0..2 {
            let mut vector = vec![rank as f32; 10];
            all_reduce(&both[1], &mut vector).unwrap();
            assert_eq!(vector, vec![1f32; 10]);
        }
        let (peer, bytes, mut buffer) = (1 - rank, 4, [rank as u8; 4]);
        let message = match rank {
            0 => Operation::Recv { peer, bytes, into: buffer.as_mut_ptr() },
            _ => Operation::Send { peer, bytes, from: buffer.as_ptr() },
        };
        // SAFETY: as above.
        unsafe { run(&[(both[1].clone(), message)]) }.unwrap();
        assert_eq!(buffer, [1; 4]);
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| rank(1));
        rank(0);
        other.join().unwrap();
    });
}
