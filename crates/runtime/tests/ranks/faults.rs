//! Ranks of one process that make different calls, or none.

use crate::support::{all_reduce, each, failure_of, now, options, sessions, threads_named, wait_for_failure};
use std::thread;
use std::time::Duration;
use syncline_runtime::bootstrap::{Cause, Failure, Session};

/// Lets each rank make call 5 with so many elements (none, if `None`) and wait; returns what each is told.
fn make_calls(all: &[Session], elements: &[Option<u64>]) -> Vec<Failure> {
    each(all.len() as u32, |rank| {
        let session = &all[rank as usize];
        for call in 0..5 {
            session.begin(call, all_reduce(4)).unwrap();
            session.end(call);
        }
        match elements[rank as usize] {
            Some(elements) => {
                session.begin(5, all_reduce(elements)).unwrap();
                wait_for_failure(session, 5, Some((rank + 1) % all.len() as u32))
            }
            None => failure_of(session),
        }
    })
}

#[test]
fn a_different_call_is_blamed_on_the_minority() {
    for (elements, rank, message) in [
        (
            vec![8, 4],
            None,
            "rank 0 asked for an all-reduce of 8 float32 (sum) in call 5, rank 1 for an all-reduce of 4 float32 (sum)",
        ),
        (
            vec![4, 4, 8],
            Some(2),
            "rank 2 asked for an all-reduce of 8 float32 (sum) in call 5, \
             where 2 others asked for an all-reduce of 4 float32 (sum)",
        ),
        (
            vec![4, 4, 8, 4],
            Some(2),
            "rank 2 asked for an all-reduce of 8 float32 (sum) in call 5, \
             where 3 others asked for an all-reduce of 4 float32 (sum)",
        ),
        (
            vec![4, 8, 8, 4],
            None,
            "ranks 0 and 3 asked for an all-reduce of 4 float32 (sum) in call 5, \
             ranks 1 and 2 for an all-reduce of 8 float32 (sum)",
        ),
        (
            vec![4, 8, 16, 4],
            Some(1),
            "rank 1 asked for an all-reduce of 8 float32 (sum) in call 5, \
             rank 2 for an all-reduce of 16 float32 (sum), where 2 others asked for an all-reduce of 4 float32 (sum)",
        ),
    ] {
        let all = sessions(elements.len() as u32, &options(600_000, 10_000));
        let began = now();
        let elements: Vec<_> = elements.into_iter().map(Some).collect();
        for failure in make_calls(&all, &elements) {
            assert_eq!((failure.cause, failure.rank, failure.call), (Cause::Mismatch, rank, Some(5)));
            assert_eq!(failure.message, message);
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

#[test]
fn a_rank_that_has_finished_a_different_call_is_found() {
    let all = sessions(3, &options(600_000, 10_000));
    // Its buffers have taken the small message of rank 0, which has gone on and left.
    all[0].begin(0, all_reduce(1)).unwrap();
    all[0].end(0);
    all[0].leave();
    all[1].begin(0, all_reduce(1000)).unwrap();
    all[2].begin(0, all_reduce(1000)).unwrap();
    let failure = wait_for_failure(&all[1], 0, Some(0));
    assert_eq!((failure.cause, failure.rank), (Cause::Mismatch, Some(0)));
    assert_eq!(failure_of(&all[2]), failure);
}

#[test]
fn a_rank_that_does_not_make_a_call_is_named_after_the_timeout() {
    let all = sessions(4, &options(400, 10_000));
    for failure in make_calls(&all, &[Some(4), Some(4), None, Some(4)]) {
        assert_eq!((failure.cause, failure.rank, failure.call), (Cause::TimedOut, Some(2), Some(5)));
        assert_eq!(failure.message, "rank 2 has not made call 5 (an all-reduce of 4 float32 (sum)) within 0.4 s");
    }
}

#[test]
fn the_rank_at_the_end_of_the_line_is_blamed_if_all_have_made_the_call() {
    let all = sessions(3, &options(400, 10_000));
    for session in &all {
        session.begin(0, all_reduce(4)).unwrap();
    }
    let failures = each(3, |rank| match rank {
        2 => failure_of(&all[2]),
        _ => wait_for_failure(&all[rank as usize], 0, Some(rank + 1)),
    });
    for failure in failures {
        assert_eq!((failure.cause, failure.rank, failure.call), (Cause::TimedOut, Some(2), Some(0)));
        let message = "call 0 (an all-reduce of 4 float32 (sum)) has made no progress for 0.4 s, and waits for rank 2";
        assert_eq!(failure.message, message);
    }
}

#[test]
fn a_call_that_moves_on_does_not_time_out() {
    let all = sessions(2, &options(500, 10_000));
    each(2, |rank| {
        let session = &all[rank as usize];
        session.begin(0, all_reduce(4)).unwrap();
        let began = now();
        while began.elapsed() < Duration::from_secs(2) {
            // Rank 1 sees something move, and rank 0 waits for it all the time.
            match rank {
                0 => session.waiting(0, Some(1)),
                _ => session.advance(),
            }
            assert_eq!(session.failure(), None);
            thread::sleep(Duration::from_millis(100));
        }
    });
    for session in &all {
        session.end(0);
    }
    // An end is an end: nobody waits any more, and nothing times out.
    thread::sleep(Duration::from_millis(800));
    assert_eq!(all[0].failure(), None);
    assert_eq!(wait_for_failure(&all[0], 1, None).rank, Some(0), "nobody has made call 1");
}

#[test]
fn a_message_that_does_not_come_is_noticed() {
    let all = sessions(3, &options(400, 10_000));
    let wait = |session: &Session| {
        for _ in 0..500 {
            session.waiting_for_message(2, 7);
            if let Some(failure) = session.failure() {
                return failure;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("no failure within 10 s");
    };
    let failure = wait(&all[0]);
    assert_eq!((failure.cause, failure.rank, failure.call), (Cause::TimedOut, Some(2), None));
    let message = "rank 2, that rank 0 waits for in a point-to-point message, has taken no part in it for 0.4 s";
    assert_eq!(failure.message, message);

    let all = sessions(3, &options(60_000, 10_000));
    all[2].leave();
    let failure = wait(&all[0]);
    assert_eq!((failure.cause, failure.rank), (Cause::Aborted, Some(2)));
}

#[test]
fn the_first_failure_that_is_reported_is_that_of_all() {
    let all = sessions(4, &options(60_000, 10_000));
    let report = |rank: u32| Failure::new(Cause::System, format!("rank {rank} has found no memory")).of_rank(rank);
    let failures = each(4, |rank| all[rank as usize].report(report(rank)));
    for (failure, session) in failures.iter().zip(&all) {
        assert_eq!(*failure, failures[0]);
        assert_eq!(session.failure().as_ref(), Some(failure));
    }
    assert!((0..4).any(|rank| failures[0] == report(rank)));
}

#[test]
fn a_difference_that_is_reported_is_looked_up() {
    let all = sessions(3, &options(60_000, 10_000));
    for (session, elements) in all.iter().zip([4, 4, 8]) {
        session.begin(0, all_reduce(elements)).unwrap();
    }
    let seen = Failure::new(Cause::Mismatch, "a message of another call has come from rank 0").of_rank(0).in_call(0);
    let failure = all[2].report(seen.clone());
    assert_eq!((failure.cause, failure.rank), (Cause::Mismatch, Some(2)));
    assert!(failure.message.starts_with("rank 2 asked for an all-reduce of 8"), "{failure}");
    // What the logs do not know is told as it was reported.
    let all = sessions(2, &options(60_000, 10_000));
    assert_eq!(all[1].report(seen.clone()), seen);
    assert_eq!(failure_of(&all[0]), seen);
}

#[test]
fn an_exchange_that_a_rank_does_not_make_times_out() {
    let all = sessions(3, &options(400, 10_000));
    let failures = each(3, |rank| match rank {
        1 => failure_of(&all[1]),
        _ => all[rank as usize].exchange(b"x").unwrap_err(),
    });
    for failure in failures {
        assert_eq!((failure.cause, failure.rank), (Cause::TimedOut, Some(1)));
        assert_eq!(failure.message, "rank 1 has not taken part in exchange 0 of the set-up within 0.4 s");
    }
}

#[test]
#[ignore = "counts threads of the whole process: run alone"]
fn threads_end_with_their_sessions() {
    drop(sessions(4, &options(10_000, 10_000)));
    for _ in 0..200 {
        if threads_named("syncline-") == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{} threads are left", threads_named("syncline-"));
}

#[test]
#[ignore = "measures"]
fn what_the_log_of_a_call_costs() {
    let all = sessions(1, &options(10_000, 10_000));
    let began = now();
    let calls = 2_000_000;
    for call in 0..calls {
        all[0].begin(call, all_reduce(u64::from(call))).unwrap();
        all[0].end(call);
    }
    let nanoseconds = began.elapsed().as_nanos() as f64 / f64::from(calls);
    println!("begin and end of a call take {nanoseconds:.0} ns");
    let began = now();
    let looks = (0..calls).filter(|_| all[0].failure().is_none()).count();
    assert_eq!(looks, calls as usize);
    println!("a look for a failure takes {:.1} ns", began.elapsed().as_nanos() as f64 / f64::from(calls));
}
