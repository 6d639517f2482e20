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

use super::clock::NEVER;
use super::frame::{ACK, CE, ECT, Frame, NONE, PFC};
use super::store::Store;
use syncline_core::random::RandomStream;
use syncline_core::units::PS_PER_S;
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

/// How many frames follow an entry of the list that have the next bytes of the same connection, each as large as the largest one.
/// As data has no SACK blocks, there is room for this in their place.
#[inline(always)]
fn more(entry: &Frame) -> u32 {
    if entry.is(ACK) { 0 } else { entry.blocks.wrapping_sub(NONE) }
}

/// An entry that is no frame: the next one leaves at this time.
fn pause(until: u64) -> Frame {
    Frame { seq: until, wire: 0, ..Frame::NOTHING }
}

#[inline(always)]
fn is_pause(entry: &Frame) -> bool {
    entry.wire == 0
}

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

/// Frames that left without a pause between them, not yet in the statistics of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let time = |size: u16| rate.time(Bytes(size.into())).0;
        Link {
            head_at: NEVER,
            arriving: place,
            leaving: place,
            end: place,
            left: 0,
            free: 0,
            latency: latency.0,
            full_time: time(sizes.0),
            bare_time: u32::try_from(time(sizes.1)).unwrap_or(u32::MAX),
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

    /// The link is another one from now on. Frames that wait go on to wait, those that have begun to leave are not affected unless
    /// it is down: then they are lost, and `lose` hears of them, and `report` of what has left until now. Says when the next frame
    /// arrives.
    pub fn change(
        &mut self,
        store: &mut Store,
        now: u64,
        to: Condition,
        mut lose: impl FnMut(Frame),
        report: impl FnOnce(Busy, u64),
    ) -> u64 {
        self.waiting(store, now);
        let (mut frames, begun) = self.take_all(store);
        let mut waiting = frames.split_off(begun);
        let takes = |link: &Link, frame: &Frame| link.serialisation(frame.wire) + link.latency;
        let arrivals: Vec<u64> = frames.iter().map(|(frame, at)| at.wrapping_add(takes(self, frame))).collect();
        // When the frame that is leaving has left.
        let left = waiting.first().map_or(self.free, |&(_, leaves)| leaves);
        self.rare.loss.0 = to.loss_millionths;
        self.set(LOSES, to.loss_millionths > 0);
        self.latency = to.latency.0;
        if let Some(rate) = to.rate {
            self.rate = rate;
            self.full_time = rate.time(Bytes(self.full.into())).0;
            self.bare_time = u32::try_from(rate.time(Bytes(self.bare.into())).0).unwrap_or(u32::MAX);
            for ((frame, leaves), arrives) in frames.iter_mut().zip(arrivals) {
                // What was on the wire when the link became slower has left before time began, perhaps.
                *leaves = arrives.wrapping_sub(takes(self, frame));
            }
        } else {
            self.rare.captured = 0;
            for (frame, _) in frames.drain(..) {
                self.rare.exceptions.drop(frame.wire);
                lose(frame);
            }
        }
        if to.rate.is_none() && left != NEVER {
            // What waits is not carried yet.
            let bytes = waiting.iter().map(|(frame, _)| u64::from(frame.wire)).sum::<u64>();
            let Busy { from, frames, bytes: all } = self.busy();
            let busy = Busy { from, frames: frames - waiting.len() as u64, bytes: all - bytes };
            if busy.frames > 0 {
                report(busy, left.min(now));
            }
            self.rare.told = (self.rare.told.0 + busy.frames, self.rare.told.1 + busy.bytes);
        }
        if left == NEVER {
            self.rare.busy_from = now;
        }
        let mut free = match left {
            NEVER => now,
            _ if waiting.is_empty() => left,
            _ => left.max(now),
        };
        for (frame, leaves) in &mut waiting {
            let before = std::mem::replace(leaves, if to.rate.is_some() { free } else { NEVER });
            let waits = |leaves: u64| if leaves == NEVER { 0 } else { u128::from(leaves - now) };
            self.counts.waited += u128::from(frame.wire) * waits(*leaves);
            self.counts.waited -= u128::from(frame.wire) * waits(before);
            free += self.serialisation(frame.wire);
        }
        for (frame, leaves) in frames {
            self.push(store, frame, leaves);
            self.leaving = self.end;
            self.free = self.after(&frame, leaves);
        }
        // Where nothing waits, the list says nothing about when the next frame leaves.
        self.set(APART, waiting.is_empty());
        for (frame, leaves) in waiting {
            self.free = if self.arriving == self.end { leaves } else { self.free };
            self.push(store, frame, leaves);
            self.free = if leaves == NEVER { NEVER } else { self.after(&frame, leaves) };
        }
        self.free = if to.rate.is_some() { free } else { NEVER };
        self.next_arrival()
    }

    /// Empties the list. Says which frames were in it, when each leaves, and how many have begun to do so. From now on each has an
    /// entry.
    fn take_all(&mut self, store: &mut Store) -> (Vec<(Frame, u64)>, usize) {
        let (mut frames, mut leaves, mut begun) = (Vec::new(), self.head_at, None);
        while self.arriving != self.end {
            let entry = self.entry(store, self.arriving);
            if self.arriving == self.leaving {
                begun = Some(frames.len() + self.left as usize);
            }
            if is_pause(&entry) {
                leaves = entry.seq;
            } else {
                let blocks = if entry.is(ACK) { entry.blocks } else { NONE };
                for i in 0..=u64::from(more(&entry)) {
                    frames.push((Frame { seq: entry.seq + i * self.payload(), blocks, ..entry }, leaves));
                    leaves = if self.free == NEVER { NEVER } else { self.after(&entry, leaves) };
                }
            }
            self.advance(store);
        }
        (self.leaving, self.left) = (self.end, 0);
        self.set(GATHERS, false);
        let begun = begun.unwrap_or(frames.len());
        (frames, begun)
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

    /// The first entry of the list is taken out.
    #[inline(always)]
    fn advance(&mut self, store: &mut Store) {
        self.arriving = store.give_up(self.arriving);
        self.ahead -= 1;
        if self.ahead == 0 && self.arriving != self.end {
            // As many as there are of its group.
            let rest = GROUP - self.arriving % GROUP;
            let count = rest.min(self.end.wrapping_sub(self.arriving));
            for place in self.arriving..self.arriving + count {
                self.front[(place % GROUP) as usize] = *store.at(place);
            }
            self.ahead = count as u8;
        }
    }

    /// An entry is put at the end of the list.
    #[inline(always)]
    fn append(&mut self, store: &mut Store, entry: Frame) {
        let place = self.end;
        let is_ahead =
            place.wrapping_sub(self.arriving) == self.ahead.into() && (self.ahead == 0 || !place.is_multiple_of(GROUP));
        if is_ahead {
            self.front[(place % GROUP) as usize] = entry;
            self.ahead += 1;
        } else {
            *store.at_mut(place) = entry;
        }
        self.last = place;
        self.end = store.extend(place);
    }

    /// The entry at a place of the list.
    #[inline(always)]
    fn entry(&self, store: &Store, place: u32) -> Frame {
        if place.wrapping_sub(self.arriving) < self.ahead.into() {
            self.front[(place % GROUP) as usize]
        } else {
            *store.at(place)
        }
    }

    /// The same, to be changed.
    #[inline(always)]
    fn entry_mut<'a>(&'a mut self, store: &'a mut Store, place: u32) -> &'a mut Frame {
        if place.wrapping_sub(self.arriving) < self.ahead.into() {
            &mut self.front[(place % GROUP) as usize]
        } else {
            store.at_mut(place)
        }
    }

    /// The next frame to arrive, if there is one.
    #[inline(always)]
    fn head(&self) -> Frame {
        self.front[(self.arriving % GROUP) as usize]
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

    /// Puts a frame at the end of the list.
    #[inline(always)]
    fn push(&mut self, store: &mut Store, frame: Frame, leaves: u64) {
        if self.arriving == self.end {
            self.head_at = leaves;
        } else if leaves != self.free || self.has(APART) {
            let is_next = self.leaving == self.end;
            self.append(store, pause(leaves));
            if is_next {
                self.leaving = self.end;
            }
        }
        self.set(APART, false);
        if self.leaving == self.end {
            self.leaving_at = leaves;
        }
        self.append(store, frame);
    }

    /// Whether a frame is the next one of those in the last entry, which waits at least in part: then it is one of them now.
    #[inline(always)]
    fn gather(&mut self, store: &mut Store, frame: Frame) -> bool {
        if self.leaving == self.end || frame.is(ACK) || frame.wire != self.full {
            return false;
        }
        let payload = self.payload();
        let last = self.entry_mut(store, self.last);
        let more = more(last);
        let next = Frame { seq: last.seq + u64::from(more + 1) * payload, blocks: NONE, ..*last };
        if next != frame || more == u32::MAX - 1 {
            return false;
        }
        last.blocks = last.blocks.wrapping_add(1);
        true
    }

    /// Whether a frame that finds so many bytes waiting is marked; `drawn` tells it from all others.
    pub fn marks(&self, waiting: u64, drawn: u64) -> bool {
        match self.rare.marking {
            Marking::None => false,
            Marking::Step(size) => waiting > size,
            Marking::Red { least, most, millionths } => {
                if waiting <= least || waiting > most {
                    return waiting > most;
                }
                let share = u128::from(waiting - least) * u128::from(millionths) / u128::from(most - least);
                self.rare.random.below(drawn, 1_000_000) < share as u64
            }
        }
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

#[cfg(test)]
mod tests {
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
                while next <= now {
                    let at = next;
                    if !gathers {
                        link.begun(&store, at, |leaves, frame| recorded.push((leaves, frame)));
                    }
                    let (frame, later) = link.arrive(&mut store);
                    arrivals.push((at, frame));
                    next = later;
                }
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
            while next < NEVER {
                let at = next;
                if !gathers {
                    link.begun(&store, at, |leaves, frame| recorded.push((leaves, frame)));
                }
                let (frame, later) = link.arrive(&mut store);
                arrivals.push((at, frame));
                next = later;
            }
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
        assert_eq!(
            link.change(&mut store, 150, down, |frame| lost.push(frame.seq), |busy, to| left = (busy, to)),
            NEVER
        );
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
        link.change(
            &mut store,
            0,
            Condition { rate, latency: Ps(LATENCY), loss_millionths: 10_000 },
            |_| (),
            |_, _| (),
        );
        let lost = (0..100_000).filter(|&seq| link.loses(frame(seq, 100))).count();
        assert!(lost.abs_diff(1000) < 160, "{lost}");
        assert_eq!(link.exceptional().drops, lost as u64);
    }
}
