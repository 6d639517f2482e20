//! Where frames are while they wait or are on the wire: lists of chunks, one list per link.
//!
//! A chunk that becomes empty is the next one to be filled, so that the memory in use is that of the frames there are, and most
//! of it is in a cache near the processor. A ring per link would go round through all the memory that it has ever needed.

use super::frame::Frame;

/// Frames of a chunk.
const CHUNK: u32 = 32;

/// The frames of all links. A place is the number of a chunk times the frames of one, plus where in it.
#[derive(Clone, Debug, Default)]
pub struct Store {
    frames: Vec<Frame>,
    /// By chunk: where its list goes on.
    next: Vec<u32>,
    /// Chunks without frames.
    free: Vec<u32>,
}

impl Store {
    /// The first place of an empty list.
    pub fn open(&mut self) -> u32 {
        let chunk = self.free.pop().unwrap_or_else(|| self.add());
        chunk * CHUNK
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self) -> u32 {
        self.frames.resize(self.frames.len() + CHUNK as usize, Frame::NOTHING);
        self.next.push(0);
        self.next.len() as u32 - 1
    }

    /// The frame at a place.
    #[inline(always)]
    pub fn at(&self, place: u32) -> &Frame {
        &self.frames[place as usize]
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn at_mut(&mut self, place: u32) -> &mut Frame {
        &mut self.frames[place as usize]
    }

    /// The end of a list that has one entry more than before.
    #[inline(always)]
    pub fn extend(&mut self, end: u32) -> u32 {
        if (end + 1).is_multiple_of(CHUNK) {
            let next = self.open();
            self.next[(end / CHUNK) as usize] = next;
            next
        } else {
            end + 1
        }
    }

    /// The place after another one.
    #[inline(always)]
    pub fn after(&self, place: u32) -> u32 {
        if (place + 1).is_multiple_of(CHUNK) { self.next[(place / CHUNK) as usize] } else { place + 1 }
    }

    /// The place after the first one of a list, which is given up.
    #[inline(always)]
    pub fn give_up(&mut self, place: u32) -> u32 {
        if (place + 1).is_multiple_of(CHUNK) {
            self.free.push(place / CHUNK);
        }
        self.after(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Lists are queues, whatever happens to others, and take no more chunks than their frames need.
        #[test]
        fn lists_are_queues(steps in prop::collection::vec((0usize..3, any::<bool>()), 0..400)) {
            let mut store = Store::default();
            let mut lists: Vec<(u32, u32, VecDeque<u64>)> =
                (0..3).map(|_| store.open()).map(|place| (place, place, VecDeque::new())).collect();
            let mut most = 3;
            for (seq, (list, adds)) in steps.into_iter().enumerate() {
                let (first, end, frames) = &mut lists[list];
                if adds {
                    store.at_mut(*end).seq = seq as u64;
                    *end = store.extend(*end);
                    frames.push_back(seq as u64);
                } else if let Some(seq) = frames.pop_front() {
                    prop_assert_eq!(store.at(*first).seq, seq);
                    *first = store.give_up(*first);
                }
                prop_assert_eq!(first == end, frames.is_empty());
                most = most.max(lists.iter().map(|list| list.2.len() as u32 / CHUNK + 2).sum());
            }
            prop_assert!(store.next.len() as u32 <= most);
        }
    }
}
