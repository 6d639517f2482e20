//! The list of a link: its entries, of which the first ones are in the link itself.

use super::super::frame::{ACK, Frame, NONE};
use super::super::store::Store;
use super::{APART, GROUP, Link};

/// How many frames follow an entry of the list that have the next bytes of the same connection, each as large as the largest one.
/// As data has no SACK blocks, there is room for this in their place.
#[inline(always)]
pub(super) fn more(entry: &Frame) -> u32 {
    if entry.is(ACK) { 0 } else { entry.blocks.wrapping_sub(NONE) }
}

/// An entry that is no frame: the next one leaves at this time.
pub(super) fn pause(until: u64) -> Frame {
    Frame { seq: until, wire: 0, ..Frame::NOTHING }
}

#[inline(always)]
pub(super) fn is_pause(entry: &Frame) -> bool {
    entry.wire == 0
}

impl Link {
    /// The first entry of the list is taken out.
    #[inline(always)]
    pub(super) fn advance(&mut self, store: &mut Store) {
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
    pub(super) fn append(&mut self, store: &mut Store, entry: Frame) {
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
    pub(super) fn entry(&self, store: &Store, place: u32) -> Frame {
        if place.wrapping_sub(self.arriving) < self.ahead.into() {
            self.front[(place % GROUP) as usize]
        } else {
            *store.at(place)
        }
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(super) fn entry_mut<'a>(&'a mut self, store: &'a mut Store, place: u32) -> &'a mut Frame {
        if place.wrapping_sub(self.arriving) < self.ahead.into() {
            &mut self.front[(place % GROUP) as usize]
        } else {
            store.at_mut(place)
        }
    }

    /// The next frame to arrive, if there is one.
    #[inline(always)]
    pub(in crate::ethernet) fn head(&self) -> Frame {
        self.front[(self.arriving % GROUP) as usize]
    }

    /// Puts a frame at the end of the list.
    #[inline(always)]
    pub(super) fn push(&mut self, store: &mut Store, frame: Frame, leaves: u64) {
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
    pub(super) fn gather(&mut self, store: &mut Store, frame: Frame) -> bool {
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
}
