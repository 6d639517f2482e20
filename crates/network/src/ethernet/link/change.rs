//! A link that becomes another one.

use super::super::clock::NEVER;
use super::super::frame::{ACK, Frame, NONE};
use super::super::store::Store;
use super::list::{is_pause, more};
use super::{APART, Busy, Condition, GATHERS, LOSES, Link, times_of};

impl Link {
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
            (self.full_time, self.bare_time) = times_of(rate, (self.full, self.bare));
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
}
