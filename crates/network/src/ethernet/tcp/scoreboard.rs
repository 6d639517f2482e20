//! What a sender knows of the bytes that are not acknowledged in order (RFC 6675, sections 1, 4).

use super::DUP_THRESH;

/// Bytes from a number to the one before another.
pub type Range = (u64, u64);

/// Which bytes above the acknowledged ones have arrived, are lost, or were sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scoreboard {
    /// Ranges that have arrived, in order, with gaps between them.
    sacked: Vec<Range>,
    /// Their bytes.
    total: u64,
    /// All bytes below this that have not arrived count as lost.
    pub lost_to: u64,
    /// HighRxt: all bytes below this that have not arrived were sent again.
    pub resent_to: u64,
    /// Ranges that arrived after they had been sent again, if they are wanted: see [`Scoreboard::with_ghosts`].
    ghosts: Option<Vec<Range>>,
}

impl Scoreboard {
    /// Nothing is known of the bytes from `una` on.
    pub fn new(una: u64) -> Scoreboard {
        Scoreboard { lost_to: una, resent_to: una, ..Scoreboard::default() }
    }

    /// The same, with an estimate of what is in flight that goes on to count what was sent again and has arrived, until it is
    /// acknowledged in order: as ns-3.37 does.
    pub fn with_ghosts(una: u64) -> Scoreboard {
        Scoreboard { ghosts: Some(Vec::new()), ..Scoreboard::new(una) }
    }

    /// Nothing counts as sent again any more, since all is lost: a timer has expired.
    pub fn lose_all(&mut self, una: u64, nxt: u64) {
        (self.lost_to, self.resent_to) = (nxt, una);
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.clear();
        }
    }

    /// Bytes above the acknowledged ones that have arrived.
    pub fn sacked(&self) -> u64 {
        self.total
    }

    /// Whether any have.
    pub fn is_empty(&self) -> bool {
        self.sacked.is_empty()
    }

    /// The end of the last range that has arrived.
    pub fn highest(&self) -> Option<u64> {
        self.sacked.last().map(|&(_, end)| end)
    }

    /// All bytes below `una` have arrived.
    pub fn acknowledge(&mut self, una: u64) {
        let gone = self.sacked.partition_point(|&(_, end)| end <= una);
        self.total -= self.sacked.drain(..gone).map(|(from, to)| to - from).sum::<u64>();
        if let Some(first) = self.sacked.first_mut().filter(|first| first.0 < una) {
            self.total -= una - first.0;
            first.0 = una;
        }
        self.lost_to = self.lost_to.max(una);
        self.resent_to = self.resent_to.max(una);
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.retain(|ghost| ghost.1 > una);
        }
    }

    /// Bytes have arrived, says a SACK block. Returns how many of them are news.
    pub fn add(&mut self, block: Range) -> u64 {
        let (mut from, mut to) = block;
        let first = self.sacked.partition_point(|&(_, end)| end < from);
        let last = self.sacked.partition_point(|&(begin, _)| begin <= to);
        if let Some(&(begin, end)) = self.sacked.get(first).filter(|_| last == first + 1)
            && begin <= from
            && to <= end
        {
            return 0;
        }
        if let Some(mut ghosts) = self.ghosts.take() {
            let mut at = from;
            while let Some(hole) = self.hole(at, to.min(self.resent_to)) {
                at = hole.1;
                ghosts.push(hole);
            }
            self.ghosts = Some(ghosts);
        }
        let mut known = 0;
        for &(begin, end) in &self.sacked[first..last] {
            (from, to) = (from.min(begin), to.max(end));
            known += end - begin;
        }
        self.sacked.splice(first..last, [(from, to)]);
        self.total += to - from - known;
        to - from - known
    }

    /// Finds out what is lost now: bytes below three ranges that have arrived, or below more than two segments that have
    /// (`IsLost`).
    pub fn update(&mut self, segment: u64) {
        let (mut ranges, mut bytes) = (0, 0);
        for &(from, to) in self.sacked.iter().rev() {
            ranges += 1;
            bytes += to - from;
            if ranges >= DUP_THRESH || bytes > u64::from(DUP_THRESH - 1) * segment {
                self.lost_to = self.lost_to.max(from);
                return;
            }
        }
    }

    /// Bytes between two numbers that have not arrived.
    fn missing(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let first = self.sacked.partition_point(|&(_, end)| end <= from);
        let ranges = self.sacked[first..].iter().take_while(|&&(begin, _)| begin < to);
        to - from - ranges.map(|&(begin, end)| end.min(to) - begin.max(from)).sum::<u64>()
    }

    /// Bytes that are in flight, as far as one can tell (`SetPipe`): what has not arrived and is not lost, and what was sent
    /// again.
    pub fn pipe(&self, una: u64, nxt: u64) -> u64 {
        let ghosts: u64 = self.ghosts.iter().flatten().map(|&(from, to)| to - from.max(una)).sum();
        self.missing(self.lost_to.max(una), nxt) + self.missing(una, self.resent_to) + ghosts
    }

    /// The first range from `from` on, and below `to`, that has not arrived.
    pub fn hole(&self, from: u64, to: u64) -> Option<Range> {
        let mut from = from;
        let first = self.sacked.partition_point(|&(_, end)| end <= from);
        for &(begin, end) in &self.sacked[first..] {
            if from < begin {
                return (from < to).then_some((from, begin.min(to)));
            }
            from = end;
        }
        (from < to).then_some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_segments_above_a_hole_make_it_lost() {
        let mut board = Scoreboard::default();
        assert_eq!(board.add((100, 200)), 100);
        board.update(100);
        assert_eq!(board.add((200, 300)), 100);
        board.update(100);
        assert_eq!((board.lost_to, board.pipe(0, 1000)), (0, 800)); // 200 bytes are not more than two segments
        assert_eq!(board.add((300, 400)), 100);
        board.update(100);
        assert_eq!((board.lost_to, board.pipe(0, 1000)), (100, 600));
        assert_eq!(board.hole(0, 100), Some((0, 100)));
        board.resent_to = 100;
        assert_eq!(board.pipe(0, 1000), 700);
    }

    #[test]
    fn three_ranges_above_a_hole_make_it_lost_however_small() {
        let mut board = Scoreboard::default();
        for begin in [10, 20, 30] {
            board.add((begin, begin + 1));
        }
        board.update(1000);
        assert_eq!(board.lost_to, 10);
    }

    proptest! {
        /// Against a byte map.
        #[test]
        fn agrees_with_a_map_of_bytes(
            changes in prop::collection::vec((0u64..60, 1u64..12, any::<bool>()), 1..60),
            resent in 0u64..80, lost in 0u64..80,
        ) {
            let mut board = Scoreboard { lost_to: lost, resent_to: resent, ..Scoreboard::default() };
            let mut map = [false; 80];
            let mut una = 0;
            for (at, len, acknowledges) in changes {
                if acknowledges {
                    una = una.max(at / 4);
                    board.acknowledge(una);
                } else if at >= una {
                    let news = (at..at + len).filter(|&i| !std::mem::replace(&mut map[i as usize], true)).count();
                    prop_assert_eq!(board.add((at, at + len)), news as u64);
                }
                let missing = |i: u64| i >= una && !map[i as usize];
                let sacked = (una..80).filter(|&i| !missing(i)).count() as u64;
                prop_assert_eq!(board.sacked(), sacked);
                let pipe = (0..80).filter(|&i| missing(i) && i >= board.lost_to).count()
                    + (0..80).filter(|&i| missing(i) && i < board.resent_to).count();
                prop_assert_eq!(board.pipe(una, 80), pipe as u64);
                let hole = (una..70).find(|&i| missing(i));
                prop_assert_eq!(board.hole(una, 70).map(|h| h.0), hole);
                if let Some((from, to)) = board.hole(una, 70) {
                    prop_assert!((from..to).all(missing) && (to == 70 || !missing(to)));
                }
            }
        }
    }
}
