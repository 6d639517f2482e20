//! How collectives are cut into chunks, and chunks into the parts of lanes.
//!
//! A collective of `S` bytes in chunks of `c` has `ceil(S / c)` of them, over which its bytes are spread
//! evenly: the lengths of two pieces differ by one unit at most, which is what a chunk is padded to, or an element.
//! A chunk is longer than `c` where that is no multiple of the unit, by less than a unit. Cut into full chunks and a
//! rest, a collective that is a few bytes longer than its chunks would take all the rounds of a chunk for the rest.
//!
//! A number of chunks is for collectives that are large enough: chunks of a few bytes take all rounds for next to nothing.
//! So a chunk has a least size there, and a smaller collective has fewer chunks.

use syncline_collective::Split;
use syncline_core::Bytes;

/// How collectives are cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// Chunks of a size, up to what they are padded by.
    Size(u64),
    /// Chunks of a size at most, where there is no memory for more; but no less than a unit.
    AtMost(u64),
    /// A number of chunks, but no more than there are units, and none that is smaller than the least size.
    Count {
        /// Chunks of a collective that is large enough.
        most: u32,
        /// Bytes of a chunk at least, unless the whole collective has fewer.
        least: u64,
    },
}

impl Chunking {
    /// Chunks of a collective of `size` bytes whose chunks are multiples of `unit` bytes, before those are left out that
    /// would have no unit.
    pub fn chunks(self, size: u64, unit: u64) -> u64 {
        match self {
            Chunking::Size(bytes) => size.div_ceil(bytes.max(1)),
            Chunking::AtMost(bytes) => size.div_ceil((bytes / unit).max(1).saturating_mul(unit)),
            Chunking::Count { most, least } => u64::from(most).min((size / least.max(1)).max(1)),
        }
    }
}

/// How chunks use the lanes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneUse {
    /// Chunks take the lanes in turn.
    Alternate,
    /// A chunk is split over so many lanes.
    Split(u32),
}

/// Cuts a collective of `size` bytes into pieces: chunks, or with [`LaneUse::Split`] their parts, each
/// with its lane (`None`: in turn). With `pad`, pieces are multiples of so many bytes, and hold less than one of these
/// more than the collective; without, they are multiples of an element, the last one with what is left of a broken one.
pub fn cut(size: Bytes, chunking: Chunking, lanes: LaneUse, split: Split, pad: Option<u64>) -> Pieces {
    let parts = match lanes {
        LaneUse::Alternate => 1,
        LaneUse::Split(n) => n,
    };
    let unit = pad.unwrap_or(split.element.into());
    let chunks = chunking.chunks(size.0, unit.saturating_mul(parts.into()));
    let (units, rest) = match pad {
        Some(_) => (size.0.div_ceil(unit), 0),
        None => (size.0 / unit, size.0 % unit),
    };
    let count = chunks.min(size.0.div_ceil(unit)).saturating_mul(parts.into());
    Pieces { unit, each: units.checked_div(count).unwrap_or(0), longer: units % count.max(1), rest, count, parts }
}

/// The pieces of a collective, computed on demand.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    /// Bytes that the lengths of all pieces are a multiple of.
    unit: u64,
    /// Units of a piece.
    each: u64,
    /// Pieces that have one more: the first ones.
    longer: u64,
    /// Bytes that the last piece has beside its units.
    rest: u64,
    count: u64,
    parts: u32,
}

impl Pieces {
    /// Number of pieces, empty ones included.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Length of the longest piece.
    pub fn largest(&self) -> u64 {
        self.runs().map(|(len, _)| len).max().unwrap_or(0)
    }

    /// Bytes of all pieces; saturates.
    pub fn total(&self) -> u64 {
        self.runs().fold(0, |total, (len, count)| len.saturating_mul(count).saturating_add(total))
    }

    /// Pieces of equal length that follow one another: their length and number.
    pub fn runs(self) -> impl Iterator<Item = (u64, u64)> {
        let last = u64::from(self.count > 0);
        let runs = [(0, self.longer), (self.longer, self.count - self.longer - last), (self.count - last, last)];
        runs.into_iter().filter(|run| run.1 > 0).map(move |(first, count)| (self.piece(first).0, count))
    }

    /// Length of a piece, and its lane if it is bound to one.
    pub fn piece(&self, index: u64) -> (u64, Option<u32>) {
        let units = self.each + u64::from(index < self.longer);
        let rest = if index + 1 == self.count { self.rest } else { 0 };
        let lane = (self.parts > 1).then(|| (index % u64::from(self.parts)) as u32);
        (units.saturating_mul(self.unit).saturating_add(rest), lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lengths(pieces: Pieces) -> Vec<u64> {
        (0..pieces.count()).map(|i| pieces.piece(i).0).collect()
    }

    #[test]
    fn a_byte_more_than_a_chunk_leaves_no_crumb() {
        let cut =
            |size, pad| lengths(cut(Bytes(size), Chunking::Size(1000), LaneUse::Alternate, Split { element: 1 }, pad));
        assert_eq!(cut(1001, None), [501, 500]);
        assert_eq!(cut(1000, Some(45)), [1035]);
        assert_eq!(cut(1035, Some(45)), [540, 495]);
        assert_eq!(cut(10_000, Some(45)).len(), 10);
        assert_eq!(cut(0, Some(45)), [0; 0]);
    }

    /// More pieces than are counted are not taken for few: what is done with so many refuses them.
    #[test]
    fn the_number_of_pieces_does_not_wrap() {
        let cut = |chunking, pad| cut(Bytes(1 << 62), chunking, LaneUse::Split(8), Split { element: 1 }, pad);
        assert_eq!(cut(Chunking::Size(1), None).count(), u64::MAX);
        assert_eq!(cut(Chunking::AtMost(1), Some(1)).count(), 1 << 62);
        let count = Chunking::Count { most: u32::MAX, least: 1 };
        assert_eq!(cut(count, None).count(), 8 * u64::from(u32::MAX));
        assert_eq!(cut(Chunking::Size(1), Some(u64::MAX)).largest(), u64::MAX, "padding");
    }

    #[test]
    fn where_memory_is_short_no_chunk_is_longer_than_said() {
        let cut = |size| cut(Bytes(size), Chunking::AtMost(1000), LaneUse::Split(2), Split { element: 1 }, Some(45));
        assert_eq!(lengths(cut(1000)), [270, 270, 270, 225]);
        assert_eq!(cut(990).largest(), 495);
    }

    #[test]
    fn a_number_of_chunks_leaves_none_below_the_least_size() {
        let chunking = Chunking::Count { most: 1024, least: 4096 };
        let cut = |size, lanes| cut(Bytes(size), chunking, lanes, Split { element: 4 }, None);
        let chunks = |size| lengths(cut(size, LaneUse::Alternate));
        assert_eq!(chunks(4000), [4000]);
        assert_eq!(chunks(8188), [8188]);
        assert_eq!(chunks(8192), [4096, 4096]);
        assert_eq!(chunks(4096 * 1024 - 4).len(), 1023);
        assert_eq!(chunks(1 << 30), [1 << 20; 1024]);
        assert_eq!(chunks(0), [0; 0]);
        assert_eq!(lengths(cut(8192, LaneUse::Split(2))), [2048; 4], "parts of a chunk may be smaller");
    }

    proptest! {
        #[test]
        fn pieces_hold_everything_and_are_even(
            size in 0u64..100_000, n in 1u64..5000, way in 0usize..3, parts in 1u32..5, element in 1u32..9,
            blocks in prop::option::of(1u64..60), least in 0u64..3000,
        ) {
            let count = Chunking::Count { most: n as u32, least };
            let chunking = [Chunking::Size(n), Chunking::AtMost(n), count][way];
            let lanes = if parts == 1 { LaneUse::Alternate } else { LaneUse::Split(parts) };
            let unit = blocks.unwrap_or(1) * u64::from(element);
            let p = cut(Bytes(size), chunking, lanes, Split { element }, blocks.map(|_| unit));
            let lens = lengths(p);
            let sum: u64 = lens.iter().sum();
            let padding = if blocks.is_some() { size.next_multiple_of(unit) - size } else { 0 };
            prop_assert_eq!(sum, size + padding);
            prop_assert!(blocks.is_none() || lens.iter().all(|len| len % unit == 0));
            let ends = || (lens.iter().max().copied().unwrap_or(0), lens.iter().min().copied().unwrap_or(0));
            prop_assert!(ends().0 - ends().1 < 2 * unit);
            prop_assert_eq!(ends().0, p.largest());
            let runs: Vec<u64> = p.runs().flat_map(|(len, count)| vec![len; count as usize]).collect();
            prop_assert_eq!(&runs, &lens);
            match chunking {
                Chunking::Size(n) => prop_assert!(p.largest() < n.max(1) + unit),
                Chunking::AtMost(n) => prop_assert!(p.largest() <= n.max(unit * u64::from(parts))),
                Chunking::Count { most, least } => {
                    prop_assert!(p.count() <= u64::from(most) * u64::from(parts));
                    let shortest = lens.chunks(parts as usize).map(|chunk| chunk.iter().sum::<u64>()).min();
                    prop_assert!(shortest.unwrap_or(size) + unit * u64::from(parts) > least.min(size));
                }
            }
        }
    }
}
