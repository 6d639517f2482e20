//! A link with the output queue before it: store and forward, first come, first served.
//!
//! The frames of a link leave in the order in which they came, so that when one leaves, and when it arrives at the other end,
//! is known as soon as it is taken. Nothing happens in between: the queue before the link and what is on the wire are one
//! ring, of which only the next arrival is an event. How much waits is worked out when somebody asks, from the times at which
//! frames leave. Times are worked out anew when the link changes.

use super::clock::NEVER;
use super::frame::{CE, ECT, Frame, PFC};
use syncline_core::random::RandomStream;
use syncline_core::{Bytes, Ps, Rate};

/// When a switch marks frames that may be marked (RFC 3168, section 5), by how much waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// Never.
    None,
    /// Frames that find more bytes than these waiting (DCTCP, RFC 8257, section 3.1).
    Step(u64),
    /// None below the first size, all above the second, and between them with a probability that grows from zero to the one
    /// that is given (random early detection on the present length, as DCQCN, section 3.1, has it).
    Red {
        /// Below so many bytes nothing is marked.
        least: u64,
        /// Above so many everything is.
        most: u64,
        /// The probability just below that, in millionths.
        millionths: u32,
    },
}

/// A frame that waits or is on the wire.
#[derive(Clone, Copy, Debug)]
struct Queued {
    frame: Frame,
    /// When its first byte leaves.
    leaves: u64,
}

/// What has come of frames that wanted to take a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that were taken.
    pub frames: u64,
    /// Bytes of these on the wire.
    pub bytes: u64,
    /// Frames that found no room, or were lost on the wire.
    pub drops: u64,
    /// Bytes of these on the wire.
    pub dropped_bytes: u64,
    /// Frames that were marked.
    pub marks: u64,
    /// The most bytes that waited at a time.
    pub peak: u64,
    /// Bytes that waited times the picoseconds that they did.
    pub waited: u128,
}

/// Frames that left without a pause between them, not yet in the statistics of links.
#[derive(Clone, Copy, Debug, Default)]
pub struct Busy {
    /// When the first one began to leave.
    pub from: u64,
    /// Frames.
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// What a link makes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It goes after others.
    Behind,
    /// It is the only one, and arrives at this time.
    Alone(u64),
    /// There is no room for it.
    Dropped,
}

/// A link and its queue.
#[derive(Clone, Debug)]
pub struct Link {
    ring: Vec<Queued>,
    /// In the ring, modulo its length: the next to arrive, the next to leave, and the end.
    arriving: u32,
    leaving: u32,
    end: u32,
    /// When all that was taken has left; [`NEVER`] while the link is down.
    free: u64,
    /// Bytes that wait: all but those of the frame that is leaving.
    waiting: u64,
    /// How many may wait.
    limit: u64,
    latency: u64,
    /// How long frames of the two usual sizes take to leave.
    full: (u16, u64),
    bare: (u16, u64),
    rate: Rate,
    marking: Marking,
    random: RandomStream,
    /// What has come of frames.
    pub counts: Counts,
    busy: Busy,
    /// Of a million frames so many get lost on the wire, and how many have been drawn.
    loss: Option<Box<(u32, u64)>>,
    /// Whether what leaves is recorded, and up to where in the ring that has been done.
    pub is_captured: bool,
    captured: u32,
}

/// What a link is like from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its rate; `None` while it is down.
    pub rate: Option<Rate>,
    /// Its latency.
    pub latency: Ps,
    /// Of a million frames so many get lost on the wire.
    pub loss_millionths: u32,
}

impl Link {
    /// A link with a queue of at most `limit` bytes; frames of the two sizes are the usual ones.
    pub fn new(rate: Rate, latency: Ps, limit: u64, sizes: (u16, u16), marking: Marking, random: RandomStream) -> Link {
        let time = |size: u16| (size, rate.time(Bytes(size.into())).0);
        Link {
            ring: Vec::new(),
            arriving: 0,
            leaving: 0,
            end: 0,
            free: 0,
            waiting: 0,
            limit,
            latency: latency.0,
            full: time(sizes.0),
            bare: time(sizes.1),
            rate,
            marking,
            random,
            counts: Counts::default(),
            busy: Busy::default(),
            loss: None,
            is_captured: false,
            captured: 0,
        }
    }

    /// The link is another one from now on. Frames that wait go on to wait, those that have begun to leave are not affected unless
    /// it is down: then they are lost, and `lose` hears of them. Says when the next frame arrives.
    pub fn change(&mut self, now: u64, to: Condition, mut lose: impl FnMut(Frame)) -> u64 {
        self.waiting(now);
        let begun = self.leaving.wrapping_sub(self.arriving);
        let arrivals: Vec<u64> = (0..begun).map(|i| self.arrives(self.at(self.arriving.wrapping_add(i)))).collect();
        // When the frame that is leaving has left.
        let left = if self.leaving == self.end { self.free } else { self.at(self.leaving).leaves };
        self.loss =
            (to.loss_millionths > 0).then(|| Box::new((to.loss_millionths, self.loss.as_ref().map_or(0, |l| l.1))));
        self.latency = to.latency.0;
        if let Some(rate) = to.rate {
            self.rate = rate;
            self.full.1 = rate.time(Bytes(self.full.0.into())).0;
            self.bare.1 = rate.time(Bytes(self.bare.0.into())).0;
            for (i, arrives) in arrivals.into_iter().enumerate() {
                let at = self.arriving.wrapping_add(i as u32);
                let takes = self.serialisation(self.at(at).frame.wire) + self.latency;
                self.at_mut(at).leaves = arrives.wrapping_sub(takes);
            }
        } else {
            while self.arriving != self.leaving {
                let frame = self.at(self.arriving).frame;
                self.lost(frame);
                lose(frame);
                self.arriving = self.arriving.wrapping_add(1);
            }
        }
        let mut leaves = if left == NEVER { now } else { left.max(now) };
        let mut at = self.leaving;
        while at != self.end {
            let Queued { frame, leaves: before } = *self.at(at);
            let after = if to.rate.is_some() { leaves } else { NEVER };
            let waits = |leaves: u64| if leaves == NEVER { 0 } else { u128::from(leaves - now) };
            self.counts.waited += u128::from(frame.wire) * waits(after);
            self.counts.waited -= u128::from(frame.wire) * waits(before);
            self.at_mut(at).leaves = after;
            leaves += self.serialisation(frame.wire);
            at = at.wrapping_add(1);
        }
        self.free = if to.rate.is_some() { leaves } else { NEVER };
        if self.arriving == self.end { NEVER } else { self.arrives(self.at(self.arriving)) }
    }

    /// Whether a frame that has just arrived got lost on the wire.
    #[inline(always)]
    pub fn loses(&mut self, frame: Frame) -> bool {
        self.loss.is_some() && self.loses_now(frame)
    }

    #[cold]
    fn loses_now(&mut self, frame: Frame) -> bool {
        let Some(loss) = &mut self.loss else { return false };
        if frame.is(PFC) {
            // A pause lasts no longer than its frame says and is repeated, so that a lost one would not matter for long. Here
            // it lasts until it is ended, and never gets lost.
            return false;
        }
        loss.1 += 1;
        // Other numbers than those of marks.
        let is_lost = self.random.happens(u64::MAX - loss.1, loss.0, 1_000_000);
        if is_lost {
            self.lost(frame);
        }
        is_lost
    }

    fn lost(&mut self, frame: Frame) {
        self.counts.drops += 1;
        self.counts.dropped_bytes += u64::from(frame.wire);
    }

    fn at_mut(&mut self, place: u32) -> &mut Queued {
        let mask = self.ring.len() - 1;
        &mut self.ring[place as usize & mask]
    }

    #[inline(always)]
    fn serialisation(&self, wire: u16) -> u64 {
        if wire == self.full.0 {
            self.full.1
        } else if wire == self.bare.0 {
            self.bare.1
        } else {
            self.rate.time(Bytes(wire.into())).0
        }
    }

    #[inline(always)]
    fn at(&self, place: u32) -> &Queued {
        &self.ring[place as usize & (self.ring.len() - 1)]
    }

    /// When a frame is at the other end. What was on the wire when the link became slower has left before time began, perhaps.
    #[inline(always)]
    fn arrives(&self, queued: &Queued) -> u64 {
        match self.free {
            NEVER => NEVER,
            _ => queued.leaves.wrapping_add(self.serialisation(queued.frame.wire) + self.latency),
        }
    }

    /// Bytes that wait at a time, which is no earlier than those asked before.
    #[inline(always)]
    pub fn waiting(&mut self, now: u64) -> u64 {
        while self.leaving != self.end {
            let next = self.at(self.leaving);
            if next.leaves > now {
                break;
            }
            self.waiting -= u64::from(next.frame.wire);
            self.leaving = self.leaving.wrapping_add(1);
        }
        self.waiting
    }

    /// A frame wants to take the link. Says how long a pause there was before it, with what left before that.
    #[inline(always)]
    pub fn offer(&mut self, now: u64, mut frame: Frame, report: impl FnOnce(Busy, u64)) -> Taken {
        let waiting = self.waiting(now);
        let wire = u64::from(frame.wire);
        let leaves = if self.free > now {
            if waiting + wire > self.limit {
                self.counts.drops += 1;
                self.counts.dropped_bytes += wire;
                return Taken::Dropped;
            }
            self.waiting += wire;
            self.counts.peak = self.counts.peak.max(self.waiting);
            self.free
        } else {
            if self.busy.frames > 0 && self.free < now {
                report(self.busy, self.free);
                self.busy = Busy::default();
            }
            if self.busy.frames == 0 {
                self.busy.from = now;
            }
            now
        };
        if self.marking != Marking::None && frame.is(ECT) && self.marks(waiting, self.counts.frames) {
            frame.flags |= CE;
            self.counts.marks += 1;
        }
        self.counts.frames += 1;
        self.counts.bytes += wire;
        self.busy.frames += 1;
        self.busy.bytes += wire;
        let alone = self.arriving == self.end;
        if self.end.wrapping_sub(self.arriving) as usize == self.ring.len() {
            self.grow();
        }
        if leaves == NEVER {
            self.push(Queued { frame, leaves });
            return if alone { Taken::Alone(NEVER) } else { Taken::Behind };
        }
        self.counts.waited += u128::from(wire) * u128::from(leaves - now);
        self.free = leaves + self.serialisation(frame.wire);
        self.push(Queued { frame, leaves });
        if leaves == now {
            // It leaves at once, and nothing before it waits.
            self.leaving = self.end;
        }
        if alone { Taken::Alone(self.free + self.latency) } else { Taken::Behind }
    }

    #[inline(always)]
    fn push(&mut self, queued: Queued) {
        let mask = self.ring.len() - 1;
        self.ring[self.end as usize & mask] = queued;
        self.end = self.end.wrapping_add(1);
    }

    /// Whether a frame that finds so many bytes waiting is marked; `drawn` tells it from all others.
    pub fn marks(&self, waiting: u64, drawn: u64) -> bool {
        match self.marking {
            Marking::None => false,
            Marking::Step(size) => waiting > size,
            Marking::Red { least, most, millionths } => {
                if waiting <= least || waiting > most {
                    return waiting > most;
                }
                let share = u128::from(waiting - least) * u128::from(millionths) / u128::from(most - least);
                self.random.below(drawn, 1_000_000) < share as u64
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let held = self.ring.len();
        let all: Vec<Queued> = (0..held as u32).map(|i| *self.at(self.arriving.wrapping_add(i))).collect();
        let nothing = Queued { frame: Frame::NOTHING, leaves: NEVER };
        (self.leaving, self.end) = (self.leaving.wrapping_sub(self.arriving), held as u32);
        self.captured = self.captured.wrapping_sub(self.arriving);
        self.arriving = 0;
        self.ring = all;
        self.ring.resize((2 * held).max(4), nothing);
    }

    /// The next frame has arrived at the other end: takes it out, and says when the one after it does.
    #[inline(always)]
    pub fn arrive(&mut self) -> (Frame, u64) {
        let frame = self.at(self.arriving).frame;
        if self.leaving == self.arriving {
            self.leaving = self.leaving.wrapping_add(1);
            self.waiting -= u64::from(frame.wire);
        }
        self.arriving = self.arriving.wrapping_add(1);
        let next = if self.arriving == self.end { NEVER } else { self.arrives(self.at(self.arriving)) };
        (frame, next)
    }

    /// Frames that have begun to leave since this was last asked, and when each did. To be asked before any of them arrives or
    /// the link becomes another one.
    pub fn begun(&mut self, now: u64, mut record: impl FnMut(u64, Frame)) {
        self.waiting(now);
        while self.captured != self.leaving {
            let Queued { frame, leaves } = *self.at(self.captured);
            record(leaves, frame);
            self.captured = self.captured.wrapping_add(1);
        }
    }

    /// Bytes that waited when that was last worked out: when the last frame was taken.
    #[inline(always)]
    pub fn held(&self) -> u64 {
        self.waiting
    }

    /// When all that was taken has left; [`NEVER`] while the link is down.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Whether nothing can leave.
    pub fn is_down(&self) -> bool {
        self.free == NEVER
    }

    /// How many bytes a second it carries.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// How long a frame takes to the other end when nothing waits.
    pub fn alone(&self, wire: u16) -> u64 {
        self.serialisation(wire) + self.latency
    }

    /// What has left since the statistics were told last, and until when.
    pub fn rest(&mut self) -> Option<(Busy, u64)> {
        let busy = std::mem::take(&mut self.busy);
        (busy.frames > 0).then_some((busy, self.free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const LATENCY: u64 = 700;

    fn link(limit: u64, marking: Marking) -> Link {
        let rate = Rate::new(1_000_000_000_000).expect("a byte per picosecond");
        Link::new(rate, Ps(LATENCY), limit, (100, 10), marking, RandomStream::new(1, &[]))
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

    proptest! {
        /// Whatever comes when: the same frames are dropped, the same wait, and all others arrive at the same times.
        #[test]
        fn agrees_with_a_queue_and_a_sender(
            frames in prop::collection::vec((0u64..200, prop_oneof![Just(100u16), Just(10), 1u16..300]), 1..120),
            limit in 0u64..900,
        ) {
            let mut link = link(limit, Marking::None);
            let mut reference = Reference::default();
            let (mut now, mut arrivals, mut next, mut busy) = (0, Vec::new(), NEVER, 0);
            for (seq, (pause, wire)) in frames.into_iter().enumerate() {
                now += pause;
                while next <= now {
                    let at = next;
                    let (frame, later) = link.arrive();
                    arrivals.push((at, frame));
                    next = later;
                }
                let frame = frame(seq as u64, wire);
                let taken = link.offer(now, frame, |found, to| busy += to - found.from);
                prop_assert_eq!(taken != Taken::Dropped, reference.offer(now, frame, limit));
                prop_assert_eq!(link.waiting(now), reference.bytes());
                if let Taken::Alone(time) = taken {
                    next = time;
                }
            }
            while next < NEVER {
                let at = next;
                let (frame, later) = link.arrive();
                arrivals.push((at, frame));
                next = later;
            }
            reference.advance(NEVER);
            prop_assert_eq!(&arrivals, &reference.arrivals);
            prop_assert_eq!((link.counts.drops, link.counts.peak), (reference.drops, reference.peak));
            // The link was busy for as long as its frames take to leave.
            busy += link.rest().map_or(0, |(found, to)| to - found.from);
            prop_assert_eq!(busy, arrivals.iter().map(|arrival| u64::from(arrival.1.wire)).sum::<u64>());
        }
    }

    #[test]
    fn frames_that_find_more_waiting_than_the_threshold_are_marked() {
        let mut link = link(10_000, Marking::Step(150));
        let marked: Vec<bool> = (0..5)
            .map(|seq| {
                link.offer(0, frame(seq, 100), |_, _| ());
                link.counts.marks > seq.saturating_sub(3)
            })
            .collect();
        // The first one is leaving; the fourth finds two waiting.
        assert_eq!((marked, link.counts.marks), (vec![false, false, false, true, true], 2));
    }

    #[test]
    fn random_marks_grow_between_the_two_sizes() {
        let marks = |waiting: u64| {
            let red = Marking::Red { least: 1000, most: 3000, millionths: 200_000 };
            let mut link = link(u64::MAX, red);
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
        let mut link = link(10_000, Marking::None);
        (0..3).for_each(|seq| assert_ne!(link.offer(0, frame(seq, 100), |_, _| ()), Taken::Dropped));
        let mut lost = Vec::new();
        let down = Condition { rate: None, latency: Ps(LATENCY), loss_millionths: 0 };
        assert_eq!(link.change(150, down, |frame| lost.push(frame.seq)), NEVER);
        assert_eq!((lost.as_slice(), link.waiting(150)), ([0, 1].as_slice(), 100));
        assert_eq!(link.offer(200, frame(3, 100), |_, _| ()), Taken::Behind);
        let slow = Condition { rate: Rate::new(500_000_000_000), latency: Ps(300), loss_millionths: 0 };
        assert_eq!(link.change(1000, slow, |_| ()), 1500);
        assert_eq!(link.arrive(), (frame(2, 100), 1700));
        assert_eq!(link.arrive(), (frame(3, 100), NEVER));
        assert_eq!(link.counts.drops, 2);
    }

    /// What has begun to leave when a link becomes slower arrives as it would have.
    #[test]
    fn frames_on_the_wire_are_not_affected_by_another_rate() {
        let mut link = link(10_000, Marking::None);
        link.offer(0, frame(0, 100), |_, _| ());
        link.offer(0, frame(1, 100), |_, _| ());
        let slow = Condition { rate: Rate::new(500_000_000_000), latency: Ps(LATENCY), loss_millionths: 0 };
        assert_eq!(link.change(50, slow, |_| ()), 100 + LATENCY);
        assert_eq!(link.arrive().1, 100 + 200 + LATENCY);
    }

    #[test]
    fn a_link_loses_as_many_frames_as_it_is_to() {
        let mut link = link(u64::MAX, Marking::None);
        let rate = Rate::new(1_000_000_000_000);
        link.change(0, Condition { rate, latency: Ps(LATENCY), loss_millionths: 10_000 }, |_| ());
        let lost = (0..100_000).filter(|&seq| link.loses(frame(seq, 100))).count();
        assert!(lost.abs_diff(1000) < 160, "{lost}");
        assert_eq!(link.counts.drops, lost as u64);
    }
}
