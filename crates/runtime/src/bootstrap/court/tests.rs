//! The court by a clock of its own.

use super::*;
use crate::clock;
use proptest::collection::vec;
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A court, the time, and what ranks would answer.
struct Trial {
    court: Court,
    now: Instant,
    /// By rank: what it knows of every call, or none if it is stopped.
    ranks: Vec<Option<Knowledge>>,
    waits: Vec<(u32, Wait)>,
    open: Vec<(u32, Option<u32>)>,
}

#[derive(Clone, Default)]
struct Knowledge {
    /// The digests of its calls; the last one goes on, the others have ended.
    calls: Vec<u64>,
    progress: u64,
}

impl Knowledge {
    fn of(calls: &[u64]) -> Option<Knowledge> {
        Some(Knowledge { calls: calls.to_vec(), progress: 0 })
    }

    fn entry(&self, call: u32) -> Entry {
        match self.calls.get(call as usize) {
            None => Entry::NotBegun,
            Some(&digest) => Entry::Begun { signature: signature(digest), ended: call as usize + 1 < self.calls.len() },
        }
    }
}

fn signature(digest: u64) -> Signature {
    Signature { text: format!("all-reduce of {digest} int8 (sum)"), digest }
}

impl Trial {
    fn new(ranks: Vec<Option<Knowledge>>) -> Trial {
        let court = Court::new(ranks.len() as u32, TIMEOUT);
        Trial { court, now: clock::now(), ranks, waits: Vec::new(), open: Vec::new() }
    }

    /// Lets time pass, in steps of 50 ms, in which ranks that wait announce it and ranks that run answer. Returns the
    /// verdict and when it was given.
    fn pass(&mut self, duration: Duration) -> Option<(Duration, Failure)> {
        let began = self.now;
        while self.now - began < duration {
            for &(rank, wait) in &self.waits {
                if self.ranks[rank as usize].is_some() {
                    self.court.heard(rank);
                    self.court.wait(rank, wait, self.now);
                }
            }
            for inquiry in self.court.inquiries(self.now) {
                assert!(!self.open.contains(&inquiry), "rank {} is asked again before it has answered", inquiry.0);
                self.open.push(inquiry);
            }
            if let Some(verdict) = self.court.verdict(self.now) {
                return Some((self.now - began, verdict));
            }
            let (court, ranks) = (&mut self.court, &self.ranks);
            self.open.retain(|&(rank, call)| {
                let Some(knowledge) = &ranks[rank as usize] else { return true };
                court.heard(rank);
                match call {
                    Some(call) => {
                        let next = knowledge.calls.len() as u32;
                        court.answer(rank, call, knowledge.entry(call), next, knowledge.progress);
                    }
                    None => court.here(rank),
                }
                false
            });
            self.now += PERIOD;
        }
        None
    }

    fn wait(&mut self, rank: u32, call: u32, on: Option<u32>) {
        self.waits.push((rank, Wait::Call { call, on }));
    }
}

#[test]
fn nothing_is_asked_and_nobody_blamed_as_long_as_nobody_waits() {
    let mut trial = Trial::new(vec![Knowledge::of(&[1]), Knowledge::of(&[2]), None]);
    assert_eq!(trial.pass(3 * TIMEOUT), None);
    assert!(trial.open.is_empty());
    assert_eq!(trial.court.next_look(trial.now), None);
}

#[test]
fn a_wait_that_is_over_leaves_no_trace() {
    let mut trial = Trial::new(vec![Knowledge::of(&[1]), Knowledge::of(&[])]);
    trial.wait(0, 0, Some(1));
    assert_eq!(trial.pass(TIMEOUT - Duration::from_secs(1)), None);
    trial.court.done(0, 0);
    trial.waits.clear();
    assert_eq!(trial.pass(TIMEOUT), None);
    assert_eq!(trial.court.next_look(trial.now), None, "the case is still open");
    // The next one has all of its time.
    trial.wait(0, 1, Some(1));
    let (after, failure) = trial.pass(3 * TIMEOUT).unwrap();
    assert!(after >= TIMEOUT);
    assert_eq!((failure.call, failure.rank), (Some(1), Some(0)), "neither has made call 1");
}

#[test]
fn a_rank_that_is_stopped_while_it_waits_alone_harms_nobody() {
    let mut trial = Trial::new(vec![Knowledge::of(&[1]), Knowledge::of(&[1, 1])]);
    trial.wait(0, 0, Some(1));
    assert_eq!(trial.pass(Duration::from_secs(1)), None);
    trial.ranks[0] = None;
    assert_eq!(trial.pass(3 * TIMEOUT), None);
}

#[test]
fn ranks_that_have_gone_on_are_no_failure() {
    // Rank 0 is the root of a broadcast: its call has ended, and it makes others.
    let mut trial = Trial::new(vec![Knowledge::of(&[1, 2, 3]), Knowledge::of(&[1]), Knowledge::of(&[1])]);
    trial.wait(1, 0, Some(0));
    trial.wait(2, 0, Some(1));
    assert_eq!(trial.pass(TIMEOUT / 2), None);
    let (_, failure) = trial.pass(TIMEOUT).unwrap();
    assert_eq!((failure.cause, failure.rank, failure.call), (Cause::TimedOut, Some(0), Some(0)));
}

#[test]
fn progress_anywhere_in_the_call_counts() {
    let mut trial = Trial::new(vec![Knowledge::of(&[1]); 3]);
    trial.wait(0, 0, Some(1));
    trial.wait(1, 0, Some(2));
    for _ in 0..8 {
        assert_eq!(trial.pass(TIMEOUT / 2), None);
        trial.ranks[2].as_mut().unwrap().progress += 1;
    }
    let (after, failure) = trial.pass(3 * TIMEOUT).unwrap();
    assert!(after >= TIMEOUT && after < TIMEOUT + Duration::from_secs(1));
    assert_eq!(failure.rank, Some(2));
    assert_eq!(
        failure.message,
        "call 0 (an all-reduce of 1 int8 (sum)) has made no progress for 10 s, and waits for rank 2"
    );
}

#[test]
fn ranks_in_a_circle_are_blamed_on_one_of_them() {
    let mut trial = Trial::new(vec![Knowledge::of(&[1]); 3]);
    for rank in 0..3 {
        trial.wait(rank, 0, Some((rank + 1) % 3));
    }
    let (_, failure) = trial.pass(3 * TIMEOUT).unwrap();
    assert_eq!(failure.cause, Cause::TimedOut);
    assert!(failure.rank.is_some());
}

#[test]
fn who_stops_just_before_the_time_is_over_is_blamed_rather_than_who_is_waited_for() {
    let mut trial = Trial::new(vec![Knowledge::of(&[1]); 3]);
    trial.wait(0, 0, Some(1));
    assert_eq!(trial.pass(TIMEOUT - Duration::from_millis(500)), None);
    trial.ranks[2] = None;
    let (after, failure) = trial.pass(TIMEOUT).unwrap();
    assert_eq!((failure.cause, failure.rank), (Cause::TimedOut, Some(2)));
    assert!(after >= SILENT);
}

#[test]
fn a_server_that_has_been_stopped_itself_counts_nothing_of_it() {
    let mut trial = Trial::new(vec![Knowledge::of(&[1]); 2]);
    trial.wait(0, 0, Some(1));
    assert_eq!(trial.pass(TIMEOUT / 2), None);
    trial.now += 10 * TIMEOUT;
    assert_eq!(trial.pass(TIMEOUT / 4), None);
    assert!(trial.pass(TIMEOUT).is_some());
}

#[test]
fn the_majority_is_waited_for_when_ranks_differ() {
    let mut trial = Trial::new(vec![Knowledge::of(&[1]), Knowledge::of(&[]), Knowledge::of(&[2]), Knowledge::of(&[])]);
    trial.wait(0, 0, Some(1));
    assert_eq!(trial.pass(Duration::from_millis(200)), None);
    for rank in [1, 3] {
        trial.ranks[rank] = Knowledge::of(&[1]);
    }
    let (_, failure) = trial.pass(TIMEOUT).unwrap();
    assert_eq!((failure.cause, failure.rank), (Cause::Mismatch, Some(2)));
    // But not for ever.
    let mut trial = Trial::new(vec![Knowledge::of(&[1]), None, Knowledge::of(&[2]), Knowledge::of(&[])]);
    trial.wait(0, 0, Some(1));
    let (after, failure) = trial.pass(TIMEOUT).unwrap();
    assert_eq!((failure.cause, failure.rank), (Cause::Mismatch, None));
    assert!(after < Duration::from_secs(1));
}

#[test]
fn equal_texts_of_different_calls_are_told_apart() {
    let groups = BTreeMap::from([(1, ("broadcast".to_owned(), vec![0])), (2, ("broadcast".to_owned(), vec![1]))]);
    let message = mismatch(3, &groups).message;
    assert_eq!(
        message,
        "rank 0 asked for a broadcast of another kind in call 3, rank 1 for a broadcast of another kind"
    );
}

/// What may happen to a court.
#[derive(Clone, Debug)]
enum Event {
    Wait(u32, Wait),
    Done(u32, u32),
    Answer(u32, u32, u8),
    Here(u32),
    Leave(u32, u32),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Event> {
    let wait = prop_oneof![
        (0_u32..4, proptest::option::of(0_u32..6)).prop_map(|(call, on)| Wait::Call { call, on }),
        (0_u32..6, any::<u64>()).prop_map(|(peer, progress)| Wait::Message { peer, progress }),
    ];
    prop_oneof![
        (0_u32..4, wait).prop_map(|(rank, wait)| Event::Wait(rank, wait)),
        (0_u32..4, 0_u32..4).prop_map(|(rank, call)| Event::Done(rank, call)),
        (0_u32..4, 0_u32..4, any::<u8>()).prop_map(|(rank, call, kind)| Event::Answer(rank, call, kind)),
        (0_u32..4).prop_map(Event::Here),
        (0_u32..4, 0_u32..4).prop_map(|(rank, next)| Event::Leave(rank, next)),
        (0_u64..3000).prop_map(Event::Pass),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_there_is_a_sensible_verdict_or_none(events in vec(events(), 0..120)) {
        let mut court = Court::new(4, TIMEOUT);
        let mut now = clock::now();
        let mut left = [false; 4];
        for event in events {
            match event {
                Event::Wait(rank, wait) if !left[rank as usize] => court.wait(rank, wait, now),
                Event::Done(rank, call) if !left[rank as usize] => court.done(rank, call),
                Event::Answer(rank, call, kind) if !left[rank as usize] => {
                    let entry = match kind % 4 {
                        0 => Entry::NotBegun,
                        1 => Entry::Forgotten,
                        _ => Entry::Begun { signature: signature(u64::from(kind / 128)), ended: kind % 2 == 0 },
                    };
                    court.heard(rank);
                    court.answer(rank, call, entry, call + 1, u64::from(kind));
                }
                Event::Here(rank) => court.here(rank),
                Event::Leave(rank, next) if !left[rank as usize] => {
                    left[rank as usize] = true;
                    court.leave(rank, next, vec![(0, signature(1))]);
                }
                Event::Pass(milliseconds) => now += Duration::from_millis(milliseconds),
                _ => {}
            }
            for (rank, _) in court.inquiries(now) {
                prop_assert!(!left[rank as usize], "a rank that has left is asked");
            }
            if let Some(failure) = court.verdict(now) {
                prop_assert!(failure.rank.is_none_or(|rank| rank < 4));
                prop_assert!(!failure.message.is_empty());
                if failure.cause == Cause::Aborted {
                    prop_assert!(failure.rank.is_some_and(|rank| left[rank as usize]));
                }
            }
        }
    }
}
