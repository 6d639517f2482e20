use super::super::frame::ACK;
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const LATENCY: u64 = 700;

fn link(store: &mut Store, limit: u64, marking: Marking) -> Link {
    let rate = Rate::new(1_000_000_000_000).expect("a byte per picosecond");
    Link::new(store, (rate, Ps(LATENCY)), limit, (100, 10), marking, RandomStream::new(1, &[]))
}

fn frame(seq: u64, wire: u16) -> Frame {
    Frame { seq, wire, flags: ECT, ..Frame::NOTHING }
}

/// A queue and a sender that takes the next frame from it when it has sent the last one: as slow as it is obvious.
#[derive(Default)]
struct Reference {
    waiting: VecDeque<Frame>,
    sending: Option<(u64, Frame)>,
    arrivals: Vec<(u64, Frame)>,
    drops: u64,
    peak: u64,
}

impl Reference {
    /// Everything up to a time, what happens at that time included.
    fn advance(&mut self, now: u64) {
        while let Some((done, frame)) = self.sending.filter(|sending| sending.0 <= now) {
            self.arrivals.push((done + LATENCY, frame));
            self.sending = self.waiting.pop_front().map(|next| (done + u64::from(next.wire), next));
        }
    }

    fn bytes(&self) -> u64 {
        self.waiting.iter().map(|frame| u64::from(frame.wire)).sum()
    }

    fn offer(&mut self, now: u64, frame: Frame, limit: u64) -> bool {
        self.advance(now);
        if self.sending.is_none() {
            self.sending = Some((now + u64::from(frame.wire), frame));
        } else if self.bytes() + u64::from(frame.wire) > limit {
            self.drops += 1;
            return false;
        } else {
            self.waiting.push_back(frame);
            self.peak = self.peak.max(self.bytes());
        }
        true
    }
}

/// Takes what arrives up to a time, the next of which arrives at `next`, and records what has begun to leave, if that is asked
/// for. Returns when the one after that arrives.
fn arrive_until(
    now: u64,
    mut next: u64,
    link: &mut Link,
    store: &mut Store,
    arrivals: &mut Vec<(u64, Frame)>,
    mut recorded: Option<&mut Vec<(u64, Frame)>>,
) -> u64 {
    while next <= now {
        if let Some(recorded) = &mut recorded {
            link.begun(store, next, |leaves, frame| recorded.push((leaves, frame)));
        }
        let (frame, later) = link.arrive(store);
        arrivals.push((next, frame));
        next = later;
    }
    next
}

proptest! {
    /// Whatever comes when, whether frames that follow each other take one entry or not, whether they are recorded, and
    /// although the link becomes the one that it is now and then: the same frames are dropped, the same wait, and all
    /// others arrive at the same times.
    #[test]
    fn agrees_with_a_queue_and_a_sender(
        frames in prop::collection::vec(
            (prop_oneof![Just(0u64), 0u64..200], prop_oneof![3 => Just(100u16), 1 => Just(10), 1 => 11u16..300], 0u32..2),
            1..120,
        ),
        limit in 0u64..3000,
        gathers: bool,
        changes in prop::collection::vec(0usize..120, 0..3),
    ) {
        let mut store = Store::default();
        let mut link = link(&mut store, limit, Marking::None);
        if gathers { link.gather_frames() } else { link.capture() }
        let mut reference = Reference::default();
        let (mut now, mut arrivals, mut next, mut busy, mut recorded) = (0, Vec::new(), NEVER, 0, Vec::new());
        let mut sent = [0; 2];
        for (number, (pause, wire, connection)) in frames.into_iter().enumerate() {
            now += pause;
            next = arrive_until(now, next, &mut link, &mut store, &mut arrivals, (!gathers).then_some(&mut recorded));
            if changes.contains(&number) {
                let same = Condition { rate: Some(link.rate), latency: Ps(LATENCY), loss_millionths: 0 };
                if !gathers {
                    link.begun(&store, now, |leaves, frame| recorded.push((leaves, frame)));
                }
                next = link.change(&mut store, now, same, |_| (), |found, to| busy += to - found.from);
            }
            let seq = &mut sent[connection as usize];
            let frame = Frame { connection, ..frame(*seq, wire) };
            *seq += u64::from(wire) - 10;
            let taken = link.offer(&mut store, now, frame, |found, to| busy += to - found.from);
            prop_assert_eq!(taken != Taken::Dropped, reference.offer(now, frame, limit));
            if number % 3 == 0 {
                prop_assert_eq!(link.waiting(&store, now), reference.bytes());
            }
            if let Taken::Alone(time) = taken {
                next = time;
            }
        }
        let recorded_too = (!gathers).then_some(&mut recorded);
        arrive_until(NEVER - 1, next, &mut link, &mut store, &mut arrivals, recorded_too);
        reference.advance(NEVER);
        prop_assert_eq!(&arrivals, &reference.arrivals);
        prop_assert_eq!((link.exceptional().drops, link.counts.peak), (reference.drops, reference.peak));
        // The link was busy for as long as its frames take to leave.
        busy += link.rest().map_or(0, |(found, to)| to - found.from);
        prop_assert_eq!(busy, arrivals.iter().map(|arrival| u64::from(arrival.1.wire)).sum::<u64>());
        if !gathers {
            let left = |&(at, frame): &(u64, Frame)| (at - LATENCY - u64::from(frame.wire), frame);
            prop_assert_eq!(recorded, arrivals.iter().map(left).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_link_fills_whole_lines_of_a_cache() {
    assert_eq!((size_of::<Link>(), align_of::<Link>(), size_of::<Frame>()), (256, 64, 24));
}

/// A window of a connection takes one entry, whatever comes between windows.
#[test]
fn frames_that_follow_each_other_take_one_entry() {
    let mut store = Store::default();
    let mut link = link(&mut store, u64::MAX, Marking::None);
    link.gather_frames();
    let entries = |link: &Link, store: &Store| {
        let (mut at, mut count) = (link.arriving, 0);
        while at != link.end {
            at = store.after(at);
            count += 1;
        }
        count
    };
    for connection in 0..10 {
        for i in 0..10 {
            link.offer(&mut store, 0, Frame { connection, ..frame(90 * i, 100) }, |_, _| ());
        }
        link.offer(&mut store, 0, Frame { connection, flags: ACK, ..frame(0, 10) }, |_, _| ());
    }
    // The very first one leaves at once, and is on its own.
    assert_eq!(entries(&link, &store), 10 * 2 + 1);
}

#[test]
fn frames_that_find_more_waiting_than_the_threshold_are_marked() {
    let mut store = Store::default();
    let mut link = link(&mut store, 10_000, Marking::Step(150));
    let marked: Vec<bool> = (0..5)
        .map(|seq| {
            link.offer(&mut store, 0, frame(seq, 100), |_, _| ());
            link.exceptional().marks > seq.saturating_sub(3)
        })
        .collect();
    // The first one is leaving; the fourth finds two waiting.
    assert_eq!((marked, link.exceptional().marks), (vec![false, false, false, true, true], 2));
}

#[test]
fn random_marks_grow_between_the_two_sizes() {
    let marks = |waiting: u64| {
        let red = Marking::Red { least: 1000, most: 3000, millionths: 200_000 };
        let mut store = Store::default();
        let mut link = link(&mut store, u64::MAX, red);
        (0..10_000)
            .filter(|_| {
                link.counts.frames += 1;
                link.marks(waiting, link.counts.frames)
            })
            .count()
    };
    assert_eq!((marks(1000), marks(3001)), (0, 10_000));
    assert!(marks(2000).abs_diff(1000) < 150, "{}", marks(2000)); // half of 20 %
}

/// A link that is down keeps what waits, loses what is on the wire, and goes on with the next frame when it is up again, at
/// another rate.
#[test]
fn a_link_goes_down_and_comes_back() {
    let mut store = Store::default();
    let mut link = link(&mut store, 10_000, Marking::None);
    (0..3).for_each(|seq| assert_ne!(link.offer(&mut store, 0, frame(seq, 100), |_, _| ()), Taken::Dropped));
    let (mut lost, mut left) = (Vec::new(), (Busy::default(), 0));
    let down = Condition { rate: None, latency: Ps(LATENCY), loss_millionths: 0 };
    assert_eq!(link.change(&mut store, 150, down, |frame| lost.push(frame.seq), |busy, to| left = (busy, to)), NEVER);
    assert_eq!((lost.as_slice(), link.waiting(&store, 150)), ([0, 1].as_slice(), 100));
    assert_eq!(link.offer(&mut store, 200, frame(3, 100), |_, _| ()), Taken::Behind);
    let slow = Condition { rate: Rate::new(500_000_000_000), latency: Ps(300), loss_millionths: 0 };
    assert_eq!(link.change(&mut store, 1000, slow, |_| (), |_, _| ()), 1500);
    assert_eq!(link.arrive(&mut store), (frame(2, 100), 1700));
    assert_eq!(link.arrive(&mut store), (frame(3, 100), NEVER));
    assert_eq!(link.exceptional().drops, 2);
    // Busy until it was down, when the second frame was leaving, and from when it was up again.
    assert_eq!((left.0, left.1), (Busy { from: 0, frames: 2, bytes: 200 }, 150));
    assert_eq!(link.rest(), Some((Busy { from: 1000, frames: 2, bytes: 200 }, 1400)));
}

/// What has begun to leave when a link becomes slower arrives as it would have.
#[test]
fn frames_on_the_wire_are_not_affected_by_another_rate() {
    let mut store = Store::default();
    let mut link = link(&mut store, 10_000, Marking::None);
    link.offer(&mut store, 0, frame(0, 100), |_, _| ());
    link.offer(&mut store, 0, frame(1, 100), |_, _| ());
    let slow = Condition { rate: Rate::new(500_000_000_000), latency: Ps(LATENCY), loss_millionths: 0 };
    assert_eq!(link.change(&mut store, 50, slow, |_| (), |_, _| ()), 100 + LATENCY);
    assert_eq!(link.arrive(&mut store).1, 100 + 200 + LATENCY);
}

#[test]
fn a_link_loses_as_many_frames_as_it_is_to() {
    let mut store = Store::default();
    let mut link = link(&mut store, u64::MAX, Marking::None);
    let rate = Rate::new(1_000_000_000_000);
    link.change(&mut store, 0, Condition { rate, latency: Ps(LATENCY), loss_millionths: 10_000 }, |_| (), |_, _| ());
    let lost = (0..100_000).filter(|&seq| link.loses(frame(seq, 100))).count();
    assert!(lost.abs_diff(1000) < 160, "{lost}");
    assert_eq!(link.exceptional().drops, lost as u64);
}
