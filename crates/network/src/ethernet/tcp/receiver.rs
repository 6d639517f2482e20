//! The receiving end of a connection.

use super::{Dialect, MOST_BLOCKS, TcpConfig};
use crate::ethernet::tcp::scoreboard::Range;
use syncline_core::Ps;

/// What a segment calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An acknowledgement now (RFC 5681, section 4.2).
    Now,
    /// One later, unless more comes before ([`Receiver::deadline`]).
    Later,
}

/// SACK blocks of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Blocks {
    ranges: [Range; MOST_BLOCKS],
    len: u8,
}

impl Blocks {
    /// The blocks.
    pub fn all(&self) -> &[Range] {
        &self.ranges[..self.len.into()]
    }

    fn push(&mut self, range: Range) {
        self.ranges[usize::from(self.len)] = range;
        self.len += 1;
    }
}

/// Bytes that have arrived before others that they come after.
#[derive(Clone, Debug, Default)]
struct Early {
    /// Ranges in order, with gaps between them.
    ranges: Vec<Range>,
    /// The first bytes of the ranges that were last added to, the latest first: they are told first (RFC 2018, section 4).
    recent: Vec<u64>,
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The next byte that is expected in order.
    pub next: u64,
    early: Option<Box<Early>>,
    /// When an acknowledgement that waits is sent in any case; [`Ps::MAX`] if none waits.
    pub deadline: Ps,
    /// Bytes in order that are not acknowledged.
    owed: u32,
    /// Whether the network has marked a segment since the sender last reduced its window (RFC 3168, section 6.1.3).
    pub marked: bool,
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver { next: 0, early: None, deadline: Ps::MAX, owed: 0, marked: false }
    }
}

impl Receiver {
    /// A segment has arrived.
    #[inline(always)]
    pub fn take(&mut self, now: Ps, seq: u64, len: u32, config: &TcpConfig) -> Answer {
        if seq == self.next && self.early.is_none() {
            self.next += u64::from(len);
            if config.delayed_ack <= 1 {
                return Answer::Now;
            }
            return self.delay(now, len, config);
        }
        self.take_out_of_order((seq, seq + u64::from(len)));
        Answer::Now
    }

    /// An acknowledgement waits for more, unless enough has come (RFC 5681, section 4.2).
    fn delay(&mut self, now: Ps, len: u32, config: &TcpConfig) -> Answer {
        let (counted, is_first) = match config.dialect {
            Dialect::Rfc => (len, false),
            Dialect::Ns3 => (config.segment, self.next == u64::from(len)),
        };
        self.owed += counted;
        if self.owed >= config.delayed_ack * config.segment || is_first {
            return Answer::Now;
        }
        if self.deadline == Ps::MAX {
            self.deadline = now + config.delayed_ack_timeout;
        }
        Answer::Later
    }

    /// An acknowledgement is sent.
    #[inline(always)]
    pub fn answered(&mut self) {
        self.owed = 0;
        self.deadline = Ps::MAX;
    }

    #[cold]
    #[inline(never)]
    fn take_out_of_order(&mut self, (from, to): Range) {
        let early = self.early.get_or_insert_default();
        if to > self.next {
            let from = from.max(self.next);
            let first = early.ranges.partition_point(|&(_, end)| end < from);
            let last = early.ranges.partition_point(|&(begin, _)| begin <= to);
            let merged = &early.ranges[first..last];
            let range = merged.iter().fold((from, to), |all, range| (all.0.min(range.0), all.1.max(range.1)));
            let begins: Vec<u64> = merged.iter().map(|range| range.0).collect();
            early.recent.retain(|begin| !begins.contains(begin));
            early.recent.insert(0, range.0);
            early.ranges.splice(first..last, [range]);
        }
        if let Some(&(begin, end)) = early.ranges.first().filter(|range| range.0 <= self.next) {
            self.next = self.next.max(end);
            early.recent.retain(|&recent| recent != begin);
            early.ranges.remove(0);
        }
        if early.ranges.is_empty() {
            self.early = None;
        }
    }

    /// What has arrived out of order, the latest first (RFC 2018, section 4); none if all is in order.
    #[inline(always)]
    pub fn blocks(&self) -> Option<Blocks> {
        self.early.as_ref().map(|early| early.blocks())
    }

    /// Whether anything has arrived before what it comes after.
    pub fn has_gap(&self) -> bool {
        self.early.is_some()
    }
}

impl Early {
    #[cold]
    #[inline(never)]
    fn blocks(&self) -> Blocks {
        let mut blocks = Blocks::default();
        for &begin in self.recent.iter().take(MOST_BLOCKS) {
            let at = self.ranges.partition_point(|range| range.0 < begin);
            blocks.push(self.ranges[at]);
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_second_segment_is_acknowledged_at_once_and_a_single_one_after_a_while() {
        let config = TcpConfig { segment: 100, delayed_ack: 2, ..TcpConfig::RFC };
        let mut receiver = Receiver::default();
        assert_eq!(receiver.take(Ps(5), 0, 100, &config), Answer::Later);
        assert_eq!(receiver.deadline, Ps(5) + config.delayed_ack_timeout);
        assert_eq!(receiver.take(Ps(6), 100, 100, &config), Answer::Now);
        receiver.answered();
        assert_eq!((receiver.deadline, receiver.next), (Ps::MAX, 200));
        // What is out of order, and what fills a gap, is acknowledged at once.
        assert_eq!(receiver.take(Ps(7), 300, 100, &config), Answer::Now);
        receiver.answered();
        assert_eq!(receiver.take(Ps(7), 200, 100, &config), Answer::Now);
        assert_eq!((receiver.next, receiver.has_gap()), (400, false));
    }

    /// The block with the segment that has just come is the first, and the others follow by age (RFC 2018, section 4).
    #[test]
    fn blocks_begin_with_the_latest() {
        let mut receiver = Receiver::default();
        let mut take = |seq| {
            receiver.take(Ps(0), seq, 100, &TcpConfig::RFC);
            receiver.blocks().map(|blocks| blocks.all().to_vec()).unwrap_or_default()
        };
        assert_eq!(take(0), []);
        assert_eq!(take(200), [(200, 300)]);
        assert_eq!(take(400), [(400, 500), (200, 300)]);
        assert_eq!(take(600), [(600, 700), (400, 500), (200, 300)]);
        assert_eq!(take(800), [(800, 900), (600, 700), (400, 500)]);
        assert_eq!(take(300), [(200, 500), (800, 900), (600, 700)]);
        assert_eq!(take(100), [(800, 900), (600, 700)]);
        assert_eq!(take(500), [(800, 900)]);
        assert_eq!(take(700), []);
        assert_eq!(receiver.next, 900);
    }

    proptest! {
        /// Whatever comes, in whatever order and however often: what is next and what the blocks say agree with a byte map.
        #[test]
        fn agrees_with_a_map_of_bytes(segments in prop::collection::vec((0u64..50, 1u32..9), 1..80)) {
            let mut receiver = Receiver::default();
            let mut map = [false; 64];
            for (seq, len) in segments {
                receiver.take(Ps(0), seq, len, &TcpConfig::RFC);
                (seq..seq + u64::from(len)).for_each(|i| map[i as usize] = true);
                let next = map.iter().position(|&here| !here).expect("a gap");
                prop_assert_eq!(receiver.next, next as u64);
                for &(from, to) in receiver.blocks().unwrap_or_default().all() {
                    prop_assert!((from..to).all(|i| map[i as usize]));
                    prop_assert!(!map[from as usize - 1] && !map[to as usize]);
                }
                prop_assert_eq!(receiver.has_gap(), map[next..].iter().any(|&here| here));
            }
        }
    }
}
