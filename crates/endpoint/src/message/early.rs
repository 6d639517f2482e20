//! What arrives before its step, of a chunk on an NPU.
//!
//! Of whole messages only the steps have to be known that take them. Where NPUs send to many others at once, such as in an
//! all-to-all, nearly all messages come before their steps, so that a bit for each is what is kept.

use super::tag::Tag;
use syncline_network::Segment;

/// The steps whose messages are there.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyMessages {
    /// By number of the row, ascending.
    rows: Vec<Row>,
}

/// Some of 64 steps that follow one another in order of tags.
#[derive(Clone, Copy, Debug)]
struct Row {
    number: u64,
    steps: u64,
}

impl EarlyMessages {
    /// The place of a step's row, if it is there, or where it belongs; the number of that row, and the step's bit in it.
    #[inline]
    fn find(&self, tag: Tag) -> (Result<usize, usize>, u64, u64) {
        let number = tag.0 / 64;
        (self.rows.binary_search_by_key(&number, |row| row.number), number, 1 << (tag.0 % 64))
    }

    /// Whether no message is there.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The message of a step is there.
    #[inline]
    pub fn add(&mut self, tag: Tag) {
        match self.find(tag) {
            (Ok(place), _, step) => self.rows[place].steps |= step,
            (Err(place), number, step) => self.rows.insert(place, Row { number, steps: step }),
        }
    }

    /// Takes the message of a step; false if it is not there.
    #[inline]
    pub fn take(&mut self, tag: Tag) -> bool {
        let (Ok(place), _, step) = self.find(tag) else { return false };
        let row = &mut self.rows[place];
        let is_there = row.steps & step != 0;
        row.steps &= !step;
        if row.steps == 0 {
            self.rows.remove(place);
        }
        is_there
    }

    /// A step of each row, which has the thread and the phase of all of them.
    pub fn rows(&self) -> impl Iterator<Item = Tag> {
        self.rows.iter().map(|row| Tag(row.number * 64))
    }
}

/// The same with the packets of each message, where steps take them one by one.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyPackets {
    /// In order of tags, and for a tag in that of arrival.
    segments: Vec<(Tag, Segment)>,
}

impl EarlyPackets {
    /// Packets for a step are there.
    pub fn add(&mut self, tag: Tag, segment: Segment) {
        let place = self.segments.partition_point(|&(other, _)| other <= tag);
        self.segments.insert(place, (tag, segment));
    }

    /// Takes all packets for a step.
    pub fn take(&mut self, tag: Tag) -> impl Iterator<Item = Segment> {
        let first = self.segments.partition_point(|&(other, _)| other < tag);
        let after = self.segments.partition_point(|&(other, _)| other <= tag);
        self.segments.drain(first..after).map(|(_, segment)| segment)
    }

    /// The tags of what is there.
    pub fn tags(&self) -> impl Iterator<Item = Tag> {
        self.segments.iter().map(|&(tag, _)| tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const FAR: u64 = 1 << 40;

    proptest! {
        /// What is there is what came and was not taken, in whatever order.
        #[test]
        fn messages_are_a_set(steps in prop::collection::vec((prop_oneof![0u64..200, FAR..FAR + 70], any::<bool>()), 0..300)) {
            let (mut early, mut expected) = (EarlyMessages::default(), BTreeSet::new());
            for (tag, comes) in steps {
                if comes {
                    early.add(Tag(tag));
                    expected.insert(tag);
                } else {
                    prop_assert_eq!(early.take(Tag(tag)), expected.remove(&tag));
                }
                prop_assert_eq!(early.is_empty(), expected.is_empty());
                let rows: BTreeSet<u64> = expected.iter().map(|tag| tag / 64 * 64).collect();
                prop_assert_eq!(early.rows().map(|tag| tag.0).collect::<Vec<_>>(), rows.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
