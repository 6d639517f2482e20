//! Ranks that find each other, or do not.

use crate::support::{all_reduce, counted, each, failure_of, join, now, options, sessions, wait_for_failure};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;
use syncline_runtime::bootstrap::{Cause, EXCHANGE_BYTES, Options, PUBLICATION_BYTES, Session, UniqueId};

#[test]
fn ranks_see_what_all_have_published_and_exchanged() {
    for ranks in [1, 2, 4, 9] {
        let options = options(10_000, 10_000);
        let id = UniqueId::create(&options).unwrap();
        let gathered = each(ranks, |rank| {
            let session = join(&id, rank, ranks, &options).unwrap();
            let first = session.exchange(&[rank as u8; 3]).unwrap();
            let second = session.exchange(&vec![rank as u8; rank as usize * 1000]).unwrap();
            (session.publications().to_vec(), first, second)
        });
        for (publications, first, second) in gathered {
            let numbers: Vec<u32> = (0..ranks).collect();
            assert_eq!(publications, numbers.iter().map(|rank| rank.to_le_bytes().to_vec()).collect::<Vec<_>>());
            assert_eq!(first, numbers.iter().map(|&rank| vec![rank as u8; 3]).collect::<Vec<_>>());
            assert_eq!(second, numbers.iter().map(|&rank| vec![rank as u8; rank as usize * 1000]).collect::<Vec<_>>());
        }
        assert!(TcpStream::connect(id.server()).is_err(), "the server still listens");
    }
}

#[test]
fn the_longest_publications_and_exchanges_arrive() {
    let options = options(10_000, 10_000);
    let id = UniqueId::create(&options).unwrap();
    each(3, |rank| {
        let published = vec![rank as u8; PUBLICATION_BYTES];
        let session = Session::join(&id, rank, 3, &published, Box::new(|| {}), &options).unwrap();
        assert!(
            session
                .publications()
                .iter()
                .enumerate()
                .all(|(rank, bytes)| bytes[..] == vec![rank as u8; PUBLICATION_BYTES])
        );
        let gathered = session.exchange(&vec![rank as u8; EXCHANGE_BYTES]).unwrap();
        assert!(gathered.iter().enumerate().all(|(rank, bytes)| bytes[..] == vec![rank as u8; EXCHANGE_BYTES]));
        let failure = session.exchange(&vec![0; EXCHANGE_BYTES + 1]).unwrap_err();
        assert_eq!(failure.cause, Cause::Argument);
    });
}

#[test]
fn an_id_that_has_been_changed_is_refused() {
    let id = UniqueId::create(&options(1000, 200)).unwrap();
    assert_eq!(UniqueId::from_bytes(id.as_bytes()).unwrap(), id);
    for place in 0..128 {
        let mut bytes = *id.as_bytes();
        bytes[place] ^= 4;
        assert_eq!(UniqueId::from_bytes(&bytes).unwrap_err().cause, Cause::Argument, "byte {place}");
    }
    assert!(!format!("{id:?}").contains(&format!("{:?}", &id.as_bytes()[40..72])), "the secret is printed");
}

#[test]
fn a_rank_that_never_joins_is_named_to_all_others() {
    let options = options(10_000, 300);
    let id = UniqueId::create(&options).unwrap();
    let began = now();
    let failures = each(2, |place| join(&id, place * 2, 4, &options).err().unwrap());
    assert!(began.elapsed() < Duration::from_secs(2));
    for failure in failures {
        assert_eq!((failure.cause, failure.rank), (Cause::TimedOut, Some(1)));
        assert_eq!(failure.message, "ranks 1 and 3 have not joined within 0.3 s");
    }
    assert!(TcpStream::connect(id.server()).is_err(), "the server still listens");
    let late = join(&id, 1, 4, &options).err().unwrap();
    assert_eq!(late.cause, Cause::Died);
}

#[test]
fn ranks_that_contradict_each_other_are_all_told() {
    for (joins, message) in [
        (vec![(0, 3), (1, 3), (1, 3)], "two processes have joined as rank 1"),
        (vec![(0, 2), (2, 2)], "rank 2 is out of range: with 2 ranks they are 0 to 1"),
        (vec![(0, 2), (0, 0)], "rank 0 says that there are 0 ranks; there have to be between 1 and 65536"),
    ] {
        let options = options(10_000, 5000);
        let id = UniqueId::create(&options).unwrap();
        let failures = each(joins.len() as u32, |place| {
            let (rank, ranks) = joins[place as usize];
            join(&id, rank, ranks, &options).err().unwrap()
        });
        for failure in failures {
            assert_eq!((failure.cause, failure.message.as_str()), (Cause::Argument, message));
        }
    }
    let options = options(10_000, 5000);
    let id = UniqueId::create(&options).unwrap();
    let failures = each(2, |rank| join(&id, rank, rank + 2, &options).err().unwrap());
    assert_eq!(failures[0], failures[1]);
    let either = [
        "rank 1 says that there are 3 ranks, but rank 0 says 2",
        "rank 0 says that there are 2 ranks, but rank 1 says 3",
    ];
    assert!(either.contains(&failures[0].message.as_str()), "{}", failures[0]);
}

#[test]
fn two_hundred_sessions_live_at_once_in_one_process() {
    let options = options(20_000, 20_000);
    let ids: Vec<UniqueId> = (0..50).map(|_| UniqueId::create(&options).unwrap()).collect();
    let all = each(200, |place| {
        let session = join(&ids[place as usize / 4], place % 4, 4, &options).unwrap();
        let gathered = session.exchange(&place.to_le_bytes()).unwrap();
        assert_eq!(gathered, (0..4).map(|rank| (place / 4 * 4 + rank).to_le_bytes().to_vec()).collect::<Vec<_>>());
        session
    });
    // One that fails harms none of the others.
    all[9].abort();
    assert_eq!(failure_of(&all[10]).message, "rank 1 has aborted the communicator");
    let failed = all.iter().filter(|session| session.failure().is_some()).count();
    assert!((2..=4).contains(&failed), "{failed}");
    each(200, |place| all[place as usize].leave());
}

#[test]
fn leaving_disturbs_nobody_and_aborting_everybody() {
    let options = options(10_000, 10_000);
    let id = UniqueId::create(&options).unwrap();
    let all = each(3, |rank| {
        let (count, wake) = counted();
        (Session::join(&id, rank, 3, b"", wake, &options).unwrap(), count)
    });
    all[0].0.leave();
    assert!(all[1..].iter().all(|(session, _)| session.failure().is_none()), "a goodbye is taken for a failure");
    assert!(all[0].0.begin(0, all_reduce(4)).is_err(), "a rank that has left makes a call");
    all[2].0.abort();
    for (session, count) in &all[1..] {
        let failure = failure_of(session);
        assert_eq!((failure.cause, failure.rank), (Cause::Aborted, Some(2)));
        session.leave();
        assert_eq!(count.load(Ordering::SeqCst), 1, "the session has not woken its rank, or too often");
    }
}

#[test]
fn an_exchange_without_a_rank_that_has_left_fails_at_once() {
    let all = sessions(3, &options(600_000, 10_000));
    all[0].leave();
    let failure = all[1].exchange(b"").unwrap_err();
    assert_eq!((failure.cause, failure.rank), (Cause::Aborted, Some(0)));
    assert_eq!(failure_of(&all[2]), failure);
}

#[test]
fn a_call_that_a_rank_has_left_without_fails_at_once() {
    let all = sessions(3, &options(600_000, 10_000));
    for session in &all {
        session.begin(0, all_reduce(4)).unwrap();
        session.end(0);
    }
    all[0].leave();
    all[1].begin(1, all_reduce(8)).unwrap();
    let failure = wait_for_failure(&all[1], 1, Some(0));
    assert_eq!((failure.cause, failure.rank, failure.call), (Cause::Aborted, Some(0), Some(1)));
    assert_eq!(
        failure.message,
        "rank 0 has left the communicator without making call 1 (an all-reduce of 8 float32 (sum))"
    );
    assert_eq!(failure_of(&all[2]), failure);
}

#[test]
fn the_default_address_can_be_connected_to() {
    let options = Options { join_timeout: Duration::from_secs(5), ..Options::default() };
    let id = UniqueId::create(&options).unwrap();
    assert!(join(&id, 0, 1, &options).is_ok());
    let options = Options { address: Some("::1".to_owned()), ..options };
    let id = UniqueId::create(&options).unwrap();
    assert!(id.server().is_ipv6());
    assert!(join(&id, 0, 1, &options).is_ok());
}
