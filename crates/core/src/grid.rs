//! Ranks that stand on a grid, and their coordinates there (a mixed-radix number system).
//!
//! A [`Grid`] of `n` dimensions of sizes `s_0 .. s_(n-1)` has `s_0 * .. * s_(n-1)` ranks, which are numbered with the first
//! dimension running fastest:
//!
//! ```text
//!   stride of dimension d = s_0 * .. * s_(d-1)
//!   rank = sum over all d of coordinate(d) * stride(d),   0 <= coordinate(d) < s_d
//! ```
//!
//! The ranks that differ in their coordinate along one dimension only are a *line* of that dimension: `s_d` ranks, `stride(d)`
//! apart. Lines of a dimension are numbered in the order of their first ranks. A grid without dimensions has one rank.

/// A digit of a number in a mixed-radix system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    /// Its value: the coordinate, below `size`.
    pub value: u32,
    /// Its radix: the ranks of a line.
    pub size: u32,
    /// What it counts: the number of ranks from one of the line to the next.
    pub stride: u32,
}

/// The digits of `number`, one per size, the fastest first. What the sizes leave of the number is dropped.
///
/// For code that keeps its sizes in an array of its own; whoever asks for single coordinates has a [`Grid`].
#[inline(always)]
pub fn digits(number: u32, sizes: impl IntoIterator<Item = u32>) -> impl Iterator<Item = Digit> {
    sizes.into_iter().scan((number, 1), |(rest, stride), size| {
        let digit = Digit { value: *rest % size, size, stride: *stride };
        (*rest, *stride) = (*rest / size, *stride * size);
        Some(digit)
    })
}

/// A dimension: ranks of a line, and ranks from one of them to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    size: u32,
    stride: u32,
}

/// The shape of a grid of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// One per dimension, and one more if the line of all ranks is a dimension too.
    extents: Vec<Extent>,
    dims: usize,
    ranks: u32,
}

impl Grid {
    /// A grid of these sizes, the first dimension fastest.
    ///
    /// # Panics
    /// If a size is 0, or there are more ranks than 32-bit numbers count.
    pub fn new(sizes: impl IntoIterator<Item = u32>) -> Grid {
        Grid::checked(sizes).expect("the sizes of a grid are positive, and its ranks fit 32 bits")
    }

    /// A grid of these sizes; `None` if a size is 0, or there are more ranks than 32-bit numbers count.
    pub fn checked(sizes: impl IntoIterator<Item = u32>) -> Option<Grid> {
        let (mut extents, mut ranks) = (Vec::new(), 1u32);
        for size in sizes {
            extents.push(Extent { size, stride: ranks });
            ranks = ranks.checked_mul(size).filter(|&ranks| ranks > 0)?;
        }
        Some(Grid { dims: extents.len(), extents, ranks })
    }

    /// The same grid with one dimension more, which has a single line: that of all ranks in order. It is no part of the
    /// number of dimensions and of the coordinates that make up a rank.
    #[must_use]
    pub fn with_line_of_all(mut self) -> Grid {
        self.extents.truncate(self.dims);
        self.extents.push(Extent { size: self.ranks, stride: 1 });
        self
    }

    /// Dimensions, the line of all ranks not counted.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Dimensions along which there are lines: the line of all ranks counts if it is one.
    pub fn dims_with_lines(&self) -> usize {
        self.extents.len()
    }

    /// Ranks in all, at least 1.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Ranks of a line.
    #[inline]
    pub fn size(&self, dim: usize) -> u32 {
        self.extents[dim].size
    }

    /// The number of ranks from one of a line to the next.
    #[inline]
    pub fn stride(&self, dim: usize) -> u32 {
        self.extents[dim].stride
    }

    /// The coordinate of a rank along a dimension.
    #[inline]
    pub fn coordinate(&self, rank: u32, dim: usize) -> u32 {
        let Extent { size, stride } = self.extents[dim];
        rank / stride % size
    }

    /// The coordinates of a rank along all dimensions with lines.
    pub fn coordinates(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        self.extents.iter().map(move |&Extent { size, stride }| rank / stride % size)
    }

    /// The rank with these coordinates, one per dimension.
    ///
    /// # Panics
    /// If there are not as many coordinates as dimensions, or one is not below the size.
    pub fn rank(&self, coordinates: impl IntoIterator<Item = u32>) -> u32 {
        let mut coordinates = coordinates.into_iter();
        let rank = self.extents[..self.dims].iter().map(|&Extent { size, stride }| {
            let coordinate = coordinates.next().expect("a coordinate per dimension");
            assert!(coordinate < size, "coordinate {coordinate} of a dimension of {size} ranks");
            coordinate * stride
        });
        let rank = rank.sum();
        assert!(coordinates.next().is_none(), "a dimension per coordinate");
        rank
    }

    /// The rank of the same line with another coordinate.
    #[inline]
    pub fn with_coordinate(&self, rank: u32, dim: usize, coordinate: u32) -> u32 {
        self.moved(rank, dim, self.coordinate(rank, dim), coordinate)
    }

    /// The rank with coordinate `to` on the line of a rank that has coordinate `from`: [`Grid::with_coordinate`] for those who
    /// know the rank's own, without a division.
    #[inline]
    pub fn moved(&self, rank: u32, dim: usize, from: u32, to: u32) -> u32 {
        let stride = self.extents[dim].stride;
        rank - from * stride + to * stride
    }

    /// How far up one rank's coordinate lies from another's along a dimension, going round: below the dimension's size.
    #[inline]
    pub fn displacement(&self, from: u32, to: u32, dim: usize) -> u32 {
        let (from, to) = (self.coordinate(from, dim), self.coordinate(to, dim));
        if to >= from { to - from } else { self.extents[dim].size - (from - to) }
    }

    /// The ranks of the line of a rank, by coordinate.
    pub fn line(&self, rank: u32, dim: usize) -> impl Iterator<Item = u32> + Clone + use<> {
        let Extent { size, stride } = self.extents[dim];
        let first = rank - rank / stride % size * stride;
        (0..size).map(move |coordinate| first + coordinate * stride)
    }

    /// Lines of a dimension.
    #[inline]
    pub fn lines(&self, dim: usize) -> u32 {
        self.ranks / self.extents[dim].size
    }

    /// The number of a rank's line among those of a dimension.
    #[inline]
    pub fn line_number(&self, rank: u32, dim: usize) -> u32 {
        let Extent { size, stride } = self.extents[dim];
        rank / (stride * size) * stride + rank % stride
    }

    /// The first rank of a line, by the line's number: the one with coordinate 0.
    #[inline]
    pub fn first_of_line(&self, line: u32, dim: usize) -> u32 {
        let Extent { size, stride } = self.extents[dim];
        line / stride * stride * size + line % stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts from 0 up to `rank` as an odometer does.
    fn counted(sizes: &[u32], rank: u32) -> Vec<u32> {
        let mut at = vec![0; sizes.len()];
        for _ in 0..rank {
            for (digit, &size) in at.iter_mut().zip(sizes) {
                *digit += 1;
                if *digit < size {
                    break;
                }
                *digit = 0;
            }
        }
        at
    }

    /// All ranks whose coordinates are those of `rank`, but perhaps along `dim`.
    fn searched_line(sizes: &[u32], rank: u32, dim: usize) -> Vec<u32> {
        let mine = counted(sizes, rank);
        let ranks: u32 = sizes.iter().product();
        let same = |other: &u32| {
            let theirs = counted(sizes, *other);
            (0..sizes.len()).all(|d| d == dim || mine[d] == theirs[d])
        };
        (0..ranks).filter(same).collect()
    }

    fn sizes() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(prop::sample::select(vec![1u32, 1, 2, 3, 4, 5, 7]), 0..5)
            .prop_filter("few ranks", |sizes| sizes.iter().product::<u32>() <= 300)
    }

    proptest! {
        #[test]
        fn coordinates_are_those_of_counting(sizes in sizes(), pick in any::<u32>()) {
            let grid = Grid::new(sizes.iter().copied());
            let rank = pick % grid.ranks();
            let expected = counted(&sizes, rank);
            prop_assert_eq!(grid.dims(), sizes.len());
            prop_assert_eq!(grid.coordinates(rank).collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!((0..grid.dims()).map(|d| grid.coordinate(rank, d)).collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(digits(rank, sizes.iter().copied()).map(|d| d.value).collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(grid.rank(expected), rank);
            for (d, digit) in digits(rank, sizes.iter().copied()).enumerate() {
                prop_assert_eq!((digit.size, digit.stride), (grid.size(d), grid.stride(d)));
            }
        }

        #[test]
        fn lines_are_those_that_are_searched_for(sizes in sizes(), pick in any::<u32>(), to in any::<u32>()) {
            let grid = Grid::new(sizes.iter().copied());
            let rank = pick % grid.ranks();
            for dim in 0..grid.dims() {
                let line = searched_line(&sizes, rank, dim);
                prop_assert_eq!(grid.line(rank, dim).collect::<Vec<_>>(), line.clone());
                let to = to % grid.size(dim);
                prop_assert_eq!(grid.with_coordinate(rank, dim, to), line[to as usize]);
                prop_assert_eq!(grid.moved(rank, dim, grid.coordinate(rank, dim), to), line[to as usize]);
                // Steps up from this rank, going round, until the other one is reached.
                let place = line.iter().position(|&r| r == rank).unwrap();
                let steps = (0..line.len()).find(|k| line[(place + k) % line.len()] == line[to as usize]).unwrap();
                prop_assert_eq!(grid.displacement(rank, line[to as usize], dim) as usize, steps);
                // Lines are numbered in the order of their first ranks.
                let firsts: Vec<u32> = (0..grid.ranks()).filter(|&r| searched_line(&sizes, r, dim)[0] == r).collect();
                let number = firsts.iter().position(|&first| first == line[0]).unwrap() as u32;
                prop_assert_eq!(grid.lines(dim) as usize, firsts.len());
                prop_assert_eq!(grid.line_number(rank, dim), number);
                prop_assert_eq!(grid.first_of_line(number, dim), line[0]);
            }
        }
    }

    #[test]
    fn the_largest_grids() {
        let widest = Grid::new([65_535, 65_537]);
        let last = u32::MAX - 1;
        assert_eq!((widest.ranks(), widest.coordinates(last).collect::<Vec<_>>()), (u32::MAX, vec![65_534, 65_536]));
        assert_eq!(widest.rank([65_534, 65_536]), last);
        assert_eq!((widest.line_number(last, 1), widest.first_of_line(65_534, 1)), (65_534, 65_534));
        assert_eq!((widest.line_number(last, 0), widest.first_of_line(65_536, 0)), (65_536, last - 65_534));
        let line = Grid::new([u32::MAX, 1]);
        assert_eq!((line.displacement(last, 0, 0), line.displacement(0, last, 0)), (1, last));
        assert_eq!((line.with_coordinate(last, 0, 5), line.coordinate(last, 1)), (5, 0));
        assert_eq!(Grid::checked([65_536, 65_536]), None);
        assert_eq!(Grid::checked([4, 0, 4]), None);
    }

    #[test]
    fn a_grid_without_dimensions_has_one_rank() {
        let point = Grid::new([]);
        assert_eq!((point.dims(), point.ranks(), point.rank([]), point.coordinates(0).count()), (0, 1, 0, 0));
    }

    #[test]
    fn the_line_of_all_ranks_is_a_dimension_of_its_own() {
        let grid = Grid::new([2, 3]).with_line_of_all();
        assert_eq!((grid.dims(), grid.dims_with_lines(), grid.size(2), grid.stride(2), grid.lines(2)), (2, 3, 6, 1, 1));
        assert_eq!(grid.coordinates(5).collect::<Vec<_>>(), [1, 2, 5]);
        assert_eq!((grid.with_coordinate(5, 2, 1), grid.rank([1, 2])), (1, 5));
        assert_eq!(grid.line(4, 2).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(grid.clone().with_line_of_all(), grid);
    }

    #[test]
    #[should_panic(expected = "coordinate 3 of a dimension of 3 ranks")]
    fn coordinates_lie_within_their_dimension() {
        Grid::new([2, 3]).rank([1, 3]);
    }
}
