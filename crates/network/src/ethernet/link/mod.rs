//! A link with the output queue before it: store and forward, first come, first served.
//!
//! The frames of a link leave in the order in which they came, so that when one leaves, and when it arrives at the other end,
//! is known as soon as it is taken. Nothing happens in between: the queue before the link and what is on the wire are one
//! list, of which only the next arrival is an event. How much waits is worked out when somebody asks, from the times at which
//! frames leave. Times are worked out anew when the link changes.
//!
//! A list has no times: a frame leaves when the one before it has left. Where there was a pause, the list says so. The queue of a
//! host may be long, with the whole window of every connection, so that frames which follow each other there and differ in their
//! number only take one place.

mod change;
mod list;
mod marking;
#[cfg(test)]
mod tests;

pub use marking::Marking;

use super::clock::NEVER;
use super::frame::{CE, ECT, Frame, NONE, PFC};
use super::store::Store;
use crate::busy::Busy;
use list::{is_pause, more};
use syncline_core::random::RandomStream;
use syncline_core::units::PS_PER_S;
use syncline_core::{Bytes, Ps, Rate};

/// What has come of frames that wanted to take a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that were taken.
    pub frames: u64,
    /// Bytes of these on the wire.
    pub bytes: u64,
    /// The most bytes that waited at a time.
    pub peak: u64,
    /// Bytes that waited times the picoseconds that they did.
    pub waited: u128,
}

/// The frames that were not just taken and carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exceptions {
    /// Frames that found no room, or were lost on the wire.
    pub drops: u64,
    /// Bytes of these on the wire.
    pub dropped_bytes: u64,
    /// Frames that were marked.
    pub marks: u64,
}

impl Exceptions {
    /// A frame of so many bytes is not carried.
    pub fn drop(&mut self, wire: u16) {
        self.drops += 1;
        self.dropped_bytes += u64::from(wire);
    }
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

/// Entries that a link fetches at once: those of the same group, of so many.
const GROUP: u32 = 4;

/// A link and its queue.
///
/// Its fields are in the order in which they are needed: when a frame arrives, when one is taken, and what is counted then. A large
/// network has more links than fit into a cache near the processor, and more frames. That is why the first entries of the
/// list are here, too: most frames do not wait until they are fetched.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Link {
    /// When the next frame to arrive leaves.
    head_at: u64,
    /// In the store: the next to arrive, the next to leave as far as that was worked out, and the end.
    arriving: u32,
    leaving: u32,
    end: u32,
    /// How many frames of the entry at `leaving` have left.
    left: u32,
    /// When all that was taken has left; [`NEVER`] while the link is down.
    free: u64,
    latency: u64,
    /// How long the larger one of the two usual sizes takes to leave.
    full_time: u64,
    /// How long the smaller one does, if that is less than [`u32::MAX`].
    bare_time: u32,
    /// The last entry.
    last: u32,
    /// The two usual sizes.
    full: u16,
    bare: u16,
    /// How many entries from `arriving` on are in `front`, and not in the store.
    ahead: u8,
    /// What holds of it: [`CAPTURED`] and so on.
    states: u8,
    /// By place, modulo their number.
    front: [Frame; GROUP as usize],
    /// When the entry at `leaving` leaves.
    leaving_at: u64,
    /// Bytes that wait: all but those of the frame that is leaving, as far as that was worked out.
    waiting: u64,
    /// How many may wait.
    limit: u64,
    rate: Rate,
    rare: Box<Rare>,
    /// What has come of frames.
    pub counts: Counts,
}

/// What leaves is recorded.
const CAPTURED: u8 = 1;
/// Frames that follow each other and differ in their number only take one entry.
const GATHERS: u8 = 2;
/// Frames may be marked.
const MARKS: u8 = 4;
/// Frames may get lost.
const LOSES: u8 = 8;
/// The next frame leaves at a time of its own, however busy the link is.
const APART: u8 = 16;

/// What is needed when a link has been idle, and what few links need.
#[derive(Clone, Debug)]
struct Rare {
    /// Since when the link has been busy, and what had come of frames before.
    busy_from: u64,
    told: (u64, u64),
    exceptions: Exceptions,
    marking: Marking,
    random: RandomStream,
    /// Of a million frames so many get lost on the wire, and how many have been drawn.
    loss: (u32, u64),
    /// How many of the frames in the list are recorded.
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

/// How long frames of the two usual sizes take to leave; of the smaller ones, `u32::MAX` if that is too long to be kept.
fn times_of(rate: Rate, (full, bare): (u16, u16)) -> (u64, u32) {
    let time = |size: u16| rate.time(Bytes(size.into())).0;
    (time(full), u32::try_from(time(bare)).unwrap_or(u32::MAX))
}

impl Link {
    /// A link with a queue of at most `limit` bytes in a store; frames of the two sizes are the usual ones.
    pub fn new(
        store: &mut Store,
        (rate, latency): (Rate, Ps),
        limit: u64,
        sizes: (u16, u16),
        marking: Marking,
        random: RandomStream,
    ) -> Link {
        let place = store.open();
        let (full_time, bare_time) = times_of(rate, sizes);
        Link {
            head_at: NEVER,
            arriving: place,
            leaving: place,
            end: place,
            left: 0,
            free: 0,
            latency: latency.0,
            full_time,
            bare_time,
            last: place,
            full: sizes.0,
            bare: sizes.1,
            ahead: 0,
            states: if marking == Marking::None { 0 } else { MARKS },
            front: [Frame::NOTHING; GROUP as usize],
            leaving_at: NEVER,
            waiting: 0,
            limit,
            rate,
            rare: Box::new(Rare {
                busy_from: 0,
                told: (0, 0),
                exceptions: Exceptions::default(),
                marking,
                random,
                loss: (0, 0),
                captured: 0,
            }),
            counts: Counts::default(),
        }
    }

    /// Whether a frame that has just arrived got lost on the wire.
    #[inline(always)]
    pub fn loses(&mut self, frame: Frame) -> bool {
        self.has(LOSES) && self.loses_now(frame)
    }

    #[cold]
    fn loses_now(&mut self, frame: Frame) -> bool {
        if frame.is(PFC) {
            // A pause lasts no longer than its frame says and is repeated, so that a lost one would not matter for long. Here
            // it lasts until it is ended, and never gets lost.
            return false;
        }
        let Rare { random, loss: (millionths, drawn), .. } = &mut *self.rare;
        *drawn += 1;
        // Other numbers than those of marks.
        let is_lost = random.happens(u64::MAX - *drawn, *millionths, 1_000_000);
        if is_lost {
            self.rare.exceptions.drop(frame.wire);
        }
        is_lost
    }

    #[inline(always)]
    fn serialisation(&self, wire: u16) -> u64 {
        // Data and acknowledgements come in no order that could be foretold, so that there is no branch between them.
        let usual = if wire == self.full { self.full_time } else { self.bare_time.into() };
        if (wire == self.full) | (wire == self.bare && self.bare_time < u32::MAX) { usual } else { self.unusual(wire) }
    }

    #[cold]
    #[inline(never)]
    fn unusual(&self, wire: u16) -> u64 {
        self.rate.time(Bytes(wire.into())).0
    }

    /// Bytes of a full frame beside its headers.
    #[inline(always)]
    fn payload(&self) -> u64 {
        u64::from(self.full - self.bare)
    }

    /// When the frame after another one leaves.
    #[inline(always)]
    fn after(&self, frame: &Frame, leaves: u64) -> u64 {
        leaves.wrapping_add(self.serialisation(frame.wire))
    }

    #[inline(always)]
    fn has(&self, state: u8) -> bool {
        self.states & state != 0
    }

    #[inline(always)]
    fn set(&mut self, state: u8, holds: bool) {
        self.states = if holds { self.states | state } else { self.states & !state };
    }

    /// What leaves is recorded.
    pub fn capture(&mut self) {
        self.set(CAPTURED, true);
    }

    /// Whether what leaves is recorded.
    #[inline(always)]
    pub fn is_captured(&self) -> bool {
        self.has(CAPTURED)
    }

    /// Frames that follow each other and differ in their number only take one entry, until the link becomes another one.
    pub fn gather_frames(&mut self) {
        self.set(GATHERS, true);
    }

    /// When the next frame is at the other end.
    #[inline(always)]
    fn next_arrival(&self) -> u64 {
        if self.arriving == self.end || self.free == NEVER {
            return NEVER;
        }
        self.head_at.wrapping_add(self.serialisation(self.head().wire) + self.latency)
    }

    /// Bytes that wait at a time, which is no earlier than those asked before.
    #[inline(always)]
    pub fn waiting(&mut self, store: &Store, now: u64) -> u64 {
        while self.leaving != self.end && self.leaving_at <= now {
            let next = self.entry(store, self.leaving);
            self.waiting -= u64::from(next.wire);
            self.leaving_at = self.after(&next, self.leaving_at);
            if self.left < more(&next) {
                self.left += 1;
            } else {
                self.leaving = store.after(self.leaving);
                self.left = 0;
                let next = self.entry(store, self.leaving);
                if self.leaving != self.end && is_pause(&next) {
                    self.leaving_at = next.seq;
                    self.leaving = store.after(self.leaving);
                }
            }
        }
        self.waiting
    }

    /// Whether more than so many bytes could wait, given how long the link is busy. To find out how many do takes longer.
    #[inline(always)]
    fn could_wait(&self, now: u64, bytes: u64) -> bool {
        let busy = self.free.saturating_sub(now);
        u128::from(busy) * u128::from(self.rate.bytes_per_s()) > u128::from(bytes) * u128::from(PS_PER_S)
    }

    /// Bytes that wait if they are more than `least`; otherwise as many or fewer.
    #[inline(always)]
    pub fn waiting_above(&mut self, store: &Store, now: u64, least: u64) -> u64 {
        if self.could_wait(now, least) { self.waiting(store, now) } else { 0 }
    }

    /// A frame wants to take the link. Says how long a pause there was before it, with what left before that.
    #[inline(always)]
    pub fn offer(&mut self, store: &mut Store, now: u64, mut frame: Frame, report: impl FnOnce(Busy, u64)) -> Taken {
        let wire = u64::from(frame.wire);
        let waits = self.free > now;
        if waits {
            let room = self.limit.checked_sub(wire);
            if room.is_none_or(|room| self.waiting_above(store, now, room) > room) {
                self.rare.exceptions.drop(frame.wire);
                return Taken::Dropped;
            }
        } else {
            self.fall_busy(now, report);
            // Nothing waits.
            self.waiting(store, now);
        }
        if self.has(MARKS) && frame.is(ECT) {
            let waiting = self.waiting(store, now);
            if self.marks(waiting, self.counts.frames) {
                frame.flags |= CE;
                self.rare.exceptions.marks += 1;
            }
        }
        self.counts.frames += 1;
        self.counts.bytes += wire;
        let alone = self.arriving == self.end;
        if !waits {
            self.push(store, frame, now);
            // It leaves at once.
            self.leaving = self.end;
            self.free = now + self.serialisation(frame.wire);
            return if alone { Taken::Alone(self.free + self.latency) } else { Taken::Behind };
        }
        self.waiting += wire;
        let leaves = self.free;
        if !(self.has(GATHERS) && self.gather(store, frame)) {
            self.push(store, frame, leaves);
        }
        if leaves != NEVER {
            self.counts.waited += u128::from(wire) * u128::from(leaves - now);
            self.free = leaves + self.serialisation(frame.wire);
        }
        let peak = self.waiting_above(store, now, self.counts.peak);
        self.counts.peak = self.counts.peak.max(peak);
        match (alone, leaves) {
            (false, _) => Taken::Behind,
            (true, NEVER) => Taken::Alone(NEVER),
            (true, _) => Taken::Alone(self.free + self.latency),
        }
    }

    /// Bytes cross the link when their turn comes: nothing is held, and nothing is ever too much. Returns when they are at the
    /// other end. Reports as [`Link::offer`] does.
    #[inline]
    pub fn pass(&mut self, now: u64, wire: u16, report: impl FnOnce(Busy, u64)) -> u64 {
        if self.free <= now {
            self.fall_busy(now, report);
        }
        let begins = self.free.max(now);
        self.counts.frames += 1;
        self.counts.bytes += u64::from(wire);
        self.counts.waited += u128::from(wire) * u128::from(begins - now);
        self.free = begins + self.serialisation(wire);
        self.free + self.latency
    }

    /// Something begins to leave at once: what left before is reported if there was a pause.
    #[inline(always)]
    fn fall_busy(&mut self, now: u64, report: impl FnOnce(Busy, u64)) {
        if self.free < now {
            let busy = self.busy();
            if busy.frames > 0 {
                report(busy, self.free);
                self.rare.told = (self.counts.frames, self.counts.bytes);
            }
        }
        if self.rare.told.0 == self.counts.frames {
            self.rare.busy_from = now;
        }
    }

    /// Whether a frame that finds so many bytes waiting is marked; `drawn` tells it from all others.
    pub fn marks(&self, waiting: u64, drawn: u64) -> bool {
        self.rare.marking.marks(self.rare.random, waiting, drawn)
    }

    /// The next frame has arrived at the other end: takes it out, and says when the one after it does.
    #[inline(always)]
    pub fn arrive(&mut self, store: &mut Store) -> (Frame, u64) {
        let mut frame = self.head();
        self.head_at = self.after(&frame, self.head_at);
        let is_leaving = self.leaving == self.arriving;
        let has_left = !is_leaving || self.left > 0;
        if !has_left {
            self.waiting -= u64::from(frame.wire);
            self.leaving_at = self.head_at;
        }
        if self.has(GATHERS) && more(&frame) > 0 {
            self.left -= u32::from(is_leaving && has_left);
            let next = Frame { seq: frame.seq + self.payload(), blocks: frame.blocks.wrapping_sub(1), ..frame };
            self.front[(self.arriving % GROUP) as usize] = next;
            frame.blocks = NONE;
            return (frame, self.next_arrival());
        }
        self.advance(store);
        if self.arriving != self.end && is_pause(&self.head()) {
            self.head_at = self.head().seq;
            self.advance(store);
        }
        if is_leaving {
            (self.leaving, self.leaving_at, self.left) = (self.arriving, self.head_at, 0);
        }
        if self.has(CAPTURED) {
            self.rare.captured = self.rare.captured.saturating_sub(1);
        }
        (frame, self.next_arrival())
    }

    /// Frames that have begun to leave since this was last asked, and when each did. To be asked before any of them arrives or
    /// the link becomes another one.
    pub fn begun(&mut self, store: &Store, now: u64, mut record: impl FnMut(u64, Frame)) {
        self.waiting(store, now);
        let (mut at, mut leaves, mut number) = (self.arriving, self.head_at, 0);
        while at != self.leaving {
            let entry = self.entry(store, at);
            if is_pause(&entry) {
                leaves = entry.seq;
            } else {
                number += 1;
                if number > self.rare.captured {
                    record(leaves, entry);
                }
                leaves = self.after(&entry, leaves);
            }
            at = store.after(at);
        }
        self.rare.captured = number;
    }

    /// The frames that were not just taken and carried.
    pub fn exceptions(&mut self) -> &mut Exceptions {
        &mut self.rare.exceptions
    }

    /// The same.
    pub fn exceptional(&self) -> Exceptions {
        self.rare.exceptions
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
        let busy = self.busy();
        if busy.frames == 0 || self.is_down() {
            return None;
        }
        self.rare.told = (self.counts.frames, self.counts.bytes);
        Some((busy, self.free))
    }

    fn busy(&self) -> Busy {
        let (frames, bytes) = self.rare.told;
        Busy { from: self.rare.busy_from, frames: self.counts.frames - frames, bytes: self.counts.bytes - bytes }
    }
}
