//! The event queue: a monotone radix queue over simulated time.
//!
//! Entries are kept in levels by the highest base-64 digit in which their time differs from the
//! current time, so an entry moves down at most once per digit and no comparison tree is walked.
//!
//! # Order
//! Events leave in the order of `(time, key)`. A [`Key`] names the class of an event and a port local
//! to one node, never the node itself: a key that knew the node would break the symmetry that folding
//! rests on. Events with equal time and key therefore sit on different nodes and must commute; their
//! order is deterministic but not part of the contract, and [`EventQueue::shuffling`] lets a test
//! shuffle them.

use crate::units::Ps;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Orders simultaneous events: the class first, then a number local to one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(u32);

impl Key {
    /// A key of an event class (lower goes first) and a local port, slot or lane below 2^24.
    #[inline(always)]
    pub const fn new(class: u8, local: u32) -> Key {
        assert!(local < 1 << 24, "a key has 24 bits for what is local to a node");
        Key((class as u32) << 24 | local)
    }

    /// The key of the same event in one of several parts of a node, each of which has events like those of the others: the
    /// uppermost `bits` of what is local to the node tell these apart, and what was in them no longer counts.
    #[inline(always)]
    #[must_use]
    pub const fn of_part(self, part: u8, bits: u32) -> Key {
        let rest = 24 - bits;
        Key(self.0 & (0xff << 24 | ((1 << rest) - 1)) | (part as u32) << rest)
    }
}

/// An event and its key as the queue holds them for its owner, who may be one of several users of a model.
#[derive(Clone, Copy, Debug)]
pub struct Owned<E> {
    /// The key.
    pub key: Key,
    /// The event.
    pub event: E,
}

/// Where a layer puts its timers.
pub trait Schedule<E> {
    /// Asks for `event` at `time`, which must not lie in the past.
    fn at(&mut self, time: Ps, key: Key, event: E);

    /// An event of the present user of a model, as the queue will hold it. A model that does not know yet when work will be
    /// done keeps this with the work.
    fn owned(&self, key: Key, event: E) -> Owned<E> {
        Owned { key, event }
    }

    /// Asks for an event of an owner at `time`, whoever uses the model at present.
    fn at_for_owner(&mut self, time: Ps, Owned { key, event }: Owned<E>) {
        self.at(time, key, event);
    }

    /// No event of any layer happens before this time, unless it is asked for from now on. A layer with a queue of its own may
    /// go so far without asking. Where it is not known it is [`Ps::ZERO`].
    fn next_time(&self) -> Ps {
        Ps::ZERO
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: u64,
    key: Key,
    event: E,
}

/// An event that was added at its own time, ordered by key and, among equals, by age.
#[derive(Clone, Copy, Debug)]
struct Late<E> {
    key: Key,
    pushed: u64,
    event: E,
}

impl<E> Late<E> {
    fn rank(&self) -> (Key, u64) {
        (self.key, self.pushed)
    }
}

impl<E> PartialEq for Late<E> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<E> Eq for Late<E> {}

impl<E> PartialOrd for Late<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Late<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;

/// A deterministic monotone priority queue of events of type `E`.
#[derive(Debug)]
pub struct EventQueue<E> {
    now: u64,
    /// Events of time `now` that were added before, the next one last.
    due: Vec<Entry<E>>,
    /// Events of time `now` that were added since: a heap, as 10^5 NPUs may all act at one time.
    late: BinaryHeap<Reverse<Late<E>>>,
    slots: Vec<Vec<Entry<E>>>,
    /// The earliest time of each slot, which may hold many entries and be asked for often; the latest possible if it is empty.
    earliest: Vec<u64>,
    /// Per level, a bit for each slot that holds entries.
    occupied: [u64; LEVELS],
    len: usize,
    popped: u64,
    shuffle: Option<SplitMix64>,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        EventQueue {
            now: 0,
            due: Vec::new(),
            late: BinaryHeap::new(),
            slots: (0..LEVELS * SLOTS).map(|_| Vec::new()).collect(),
            earliest: vec![u64::MAX; LEVELS * SLOTS],
            occupied: [0; LEVELS],
            len: 0,
            popped: 0,
            shuffle: None,
        }
    }

    /// A queue that shuffles events of equal time and key: the test that they commute.
    pub fn shuffling(seed: u64) -> Self {
        EventQueue { shuffle: Some(SplitMix64(seed)), ..Self::new() }
    }

    /// The time of the last event that left.
    pub fn now(&self) -> Ps {
        Ps(self.now)
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Events that have left so far.
    pub fn popped(&self) -> u64 {
        self.popped
    }

    /// Adds an event.
    ///
    /// # Panics
    /// When `time` lies before the current time: a layer that asks for the past is broken.
    #[inline]
    pub fn push(&mut self, time: Ps, key: Key, event: E) {
        assert!(time.0 >= self.now, "event in the past: {time} < {}", Ps(self.now));
        self.len += 1;
        let entry = Entry { time: time.0, key, event };
        if time.0 != self.now {
            self.file(entry);
        } else if self.shuffle.is_some() {
            self.insert_anywhere(entry);
        } else {
            let pushed = self.popped + self.len as u64;
            self.late.push(Reverse(Late { key, pushed, event: entry.event }));
        }
    }

    /// The time of the next event; [`Ps::MAX`] if none waits.
    pub fn next_time(&self) -> Ps {
        if !self.due.is_empty() || !self.late.is_empty() {
            return Ps(self.now);
        }
        let Some(level) = self.occupied.iter().position(|&bits| bits != 0) else { return Ps::MAX };
        let slot = self.occupied[level].trailing_zeros() as usize;
        Ps(self.earliest[level * SLOTS + slot])
    }

    /// Removes the next event. (A run has one loop that does.)
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(Ps, Key, E)> {
        if self.due.is_empty() && self.late.is_empty() && !self.advance() {
            return None;
        }
        self.len -= 1;
        self.popped += 1;
        // Among equals the newcomer goes last.
        let newcomer = match (self.late.peek(), self.due.last()) {
            (Some(Reverse(late)), Some(due)) => late.key < due.key,
            (late, _) => late.is_some(),
        };
        if newcomer {
            let Reverse(late) = self.late.pop()?;
            return Some((Ps(self.now), late.key, late.event));
        }
        let entry = self.due.pop()?;
        Some((Ps(entry.time), entry.key, entry.event))
    }

    #[inline(always)]
    fn file(&mut self, entry: Entry<E>) {
        let level = (u64::BITS - 1 - (entry.time ^ self.now).leading_zeros()) / DIGIT_BITS;
        let slot = (entry.time >> (level * DIGIT_BITS)) as usize % SLOTS;
        let at = level as usize * SLOTS + slot;
        self.occupied[level as usize] |= 1 << slot;
        self.earliest[at] = self.earliest[at].min(entry.time);
        self.slots[at].push(entry);
    }

    /// Adds an event of the current time anywhere among its equals.
    fn insert_anywhere(&mut self, entry: Entry<E>) {
        let Some(rng) = &mut self.shuffle else { return };
        let first = self.due.partition_point(|e| e.key > entry.key);
        let ties = self.due[first..].partition_point(|e| e.key == entry.key);
        self.due.insert(first + rng.below(ties + 1), entry);
    }

    /// Moves to the next time at which something happens; false when nothing waits.
    fn advance(&mut self) -> bool {
        let Some(level) = self.occupied.iter().position(|&bits| bits != 0) else { return false };
        let slot = self.occupied[level].trailing_zeros() as usize;
        self.occupied[level] &= !(1 << slot);
        let at = level * SLOTS + slot;
        let earliest = std::mem::replace(&mut self.earliest[at], u64::MAX);
        if level == 0 {
            // One slot of the lowest level is one picosecond: all its entries are due together.
            std::mem::swap(&mut self.due, &mut self.slots[at]);
            self.now = earliest;
        } else {
            let mut entries = std::mem::take(&mut self.slots[at]);
            self.now = earliest;
            for &entry in &entries {
                if entry.time == self.now {
                    self.due.push(entry);
                } else {
                    self.file(entry);
                }
            }
            entries.clear();
            self.slots[at] = entries; // keeps its allocation
        }
        if self.due.len() > 1 {
            if let Some(rng) = &mut self.shuffle {
                rng.shuffle(&mut self.due);
            } else {
                self.due.reverse();
            }
            self.due.sort_by_key(|e| std::cmp::Reverse(e.key));
        }
        true
    }
}

impl<Inner, E: Copy + From<Inner>> Schedule<Inner> for EventQueue<E> {
    #[inline(always)]
    fn at(&mut self, time: Ps, key: Key, event: Inner) {
        self.push(time, key, event.into());
    }

    fn next_time(&self) -> Ps {
        EventQueue::next_time(self)
    }
}

/// A small seeded generator (Steele, Lea and Flood's SplitMix64 constants).
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must be positive.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_leave_by_class_then_port_then_insertion() {
        let mut q = EventQueue::new();
        q.push(Ps(5), Key::new(1, 0), "second");
        q.push(Ps(5), Key::new(0, 7), "first");
        q.push(Ps(5), Key::new(1, 1), "third");
        q.push(Ps(5), Key::new(1, 1), "fourth");
        let order: Vec<_> = std::iter::from_fn(|| q.pop()).map(|(_, _, e)| e).collect();
        assert_eq!(order, ["first", "second", "third", "fourth"]);
    }

    #[test]
    #[should_panic(expected = "event in the past")]
    fn the_past_is_refused() {
        let mut q = EventQueue::new();
        q.push(Ps(5), Key::new(0, 0), ());
        q.pop();
        q.push(Ps(4), Key::new(0, 0), ());
    }

    proptest! {
        /// Against a sorted list, with pushes between pops, times of every magnitude and many ties.
        #[test]
        fn agrees_with_a_sorted_list(
            steps in prop::collection::vec((0u32..48, any::<u64>(), 0u32..4, 0usize..3), 1..400),
            shuffle in any::<bool>(),
        ) {
            let mut q = if shuffle { EventQueue::shuffling(7) } else { EventQueue::new() };
            let mut model: Vec<(u64, Key, usize)> = Vec::new();
            let mut now = 0;
            for (age, (bits, random, local, pops)) in steps.into_iter().enumerate() {
                let time = now + (random & ((1u64 << bits) - 1));
                let age = if shuffle { 0 } else { age };
                q.push(Ps(time), Key::new(0, local), age);
                model.push((time, Key::new(0, local), age));
                for _ in 0..pops {
                    model.sort();
                    prop_assert_eq!(q.next_time().0, model.first().map_or(u64::MAX, |first| first.0));
                    let expected = (!model.is_empty()).then(|| model.remove(0));
                    let got = q.pop().map(|(t, k, age)| (t.0, k, age));
                    prop_assert_eq!(got, expected);
                    now = got.map_or(now, |g| g.0);
                }
                prop_assert_eq!(q.len(), model.len());
            }
        }
    }
}
