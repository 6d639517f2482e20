//! Evenly spaced points in time: how a train of packets is described in constant space.

use syncline_core::Ps;

/// `count` points in time (at least one), the first at `first`, then one every `gap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub first: Ps,
    pub gap: Ps,
    pub count: u64,
}

impl Series {
    /// A single point.
    #[inline(always)]
    pub const fn once(at: Ps) -> Series {
        Series { first: at, gap: Ps::ZERO, count: 1 }
    }

    /// Point number `i`. No series is longer than its message takes on its slowest link, which is refused before the start
    /// where it does not fit: nothing overflows here.
    #[inline(always)]
    pub const fn at(&self, i: u64) -> Ps {
        Ps(self.first.0 + self.gap.0 * i)
    }

    /// The last point.
    #[inline(always)]
    pub const fn last(&self) -> Ps {
        self.at(self.count - 1)
    }

    /// How many points lie at or before `t`.
    #[inline(always)]
    pub fn until(&self, t: Ps) -> u64 {
        if t < self.first {
            0
        } else if self.count == 1 || t.0 < self.first.0 + self.gap.0 {
            1 // the common case, without a division
        } else if t >= self.last() {
            self.count
        } else {
            (t.0 - self.first.0) / self.gap.0 + 1
        }
    }

    /// Drops the first `n` points, fewer than there are.
    #[inline(always)]
    pub fn skip(&mut self, n: u64) {
        debug_assert!(n < self.count, "a series holds at least one point");
        self.first = self.at(n);
        self.count -= n;
    }

    /// Continues with `next` if the spacing allows it.
    #[inline(always)]
    pub fn extend(&mut self, next: Series) -> bool {
        if next.first < self.last() {
            return false;
        }
        let step = next.first - self.last();
        let fits = (self.count == 1 || step == self.gap) && (next.count == 1 || step == next.gap);
        if fits {
            self.gap = step;
            self.count += next.count;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn until_counts(first in 0u64..50, gap in 0u64..10, count in 1u64..20, t in 0u64..300) {
            let s = Series { first: Ps(first), gap: Ps(gap), count };
            let expected = (0..count).filter(|&i| s.at(i) <= Ps(t)).count() as u64;
            prop_assert_eq!(s.until(Ps(t)), expected);
        }

        #[test]
        fn extending_keeps_all_points(a in (0u64..9, 0u64..4, 1u64..4), b in (0u64..30, 0u64..4, 1u64..4)) {
            let series = |(first, gap, count)| Series { first: Ps(first), gap: Ps(gap), count };
            let points = |s: Series| (0..s.count).map(move |i| s.at(i)).collect::<Vec<_>>();
            let (mut whole, next) = (series(a), series(b));
            let expected = [points(whole), points(next)].concat();
            if whole.extend(next) {
                prop_assert_eq!(points(whole), expected);
            }
        }
    }
}
