//! The sender's view of the free slots in one virtual channel of the buffer behind its link.

use super::series::Series;
use std::collections::VecDeque;
use syncline_core::Ps;

/// Slots that are free, and those of which it is known when they will be.
///
/// A link sends its packets in order, so a credit that is usable when the link falls idle is as good
/// as any other: such credits are only counted. Later ones are kept as time series, in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Credits {
    /// Usable ones; some of `coming` may have become usable since they were counted.
    usable: u64,
    coming: VecDeque<Series>,
}

impl Credits {
    /// A channel of `slots` free slots.
    pub fn new(slots: u32) -> Credits {
        Credits { usable: u64::from(slots), coming: VecDeque::new() }
    }

    /// Credits that are usable at `t`. `t` must not decrease from call to call.
    #[inline(always)]
    pub fn usable_at(&mut self, t: Ps) -> u64 {
        while let Some(next) = self.coming.front_mut() {
            let n = next.until(t);
            self.usable += n;
            if n < next.count {
                if n > 0 {
                    next.skip(n);
                }
                break;
            }
            self.coming.pop_front();
        }
        self.usable
    }

    /// Credits that are usable at `t`, or some of them if these are `enough`: most packets find more
    /// than enough, and need not look at those that are coming.
    #[inline(always)]
    pub fn enough_at(&mut self, t: Ps, enough: u64) -> u64 {
        if self.usable >= enough { self.usable } else { self.usable_at(t) }
    }

    /// Takes `n` credits that are usable at `t`, the time at which the last of them is needed.
    #[inline(always)]
    pub fn take(&mut self, n: u64, t: Ps) {
        let usable = if n > self.usable { self.usable_at(t) } else { self.usable };
        debug_assert!(usable >= n, "took a credit that is not there");
        self.usable = usable - n;
    }

    /// When there will be `n` usable credits, as far as it is known.
    pub fn time_of(&self, n: u64) -> Option<Ps> {
        let mut missing = n.checked_sub(self.usable)?;
        if missing == 0 {
            return None;
        }
        for series in &self.coming {
            if missing <= series.count {
                return Some(series.at(missing - 1));
            }
            missing -= series.count;
        }
        None
    }

    /// Slots will be free, as seen by the sender, at these times.
    #[inline(always)]
    pub fn add(&mut self, times: Series) {
        let Some(last) = self.coming.back_mut() else { return self.coming.push_back(times) };
        if last.extend(times) {
            return;
        }
        if last.last() <= times.first {
            self.coming.push_back(times);
        } else {
            (0..times.count).for_each(|i| self.insert(times.at(i)));
        }
    }

    /// Adds one credit anywhere among those that are coming.
    fn insert(&mut self, t: Ps) {
        let at = self.coming.partition_point(|s| s.last() <= t);
        let Some(series) = self.coming.get_mut(at) else {
            self.coming.push_back(Series::once(t));
            return;
        };
        // Everything before `at` is earlier than `t`; what is left of `series` may still be.
        let earlier = series.until(t);
        if earlier > 0 {
            let head = Series { count: earlier, ..*series };
            series.skip(earlier);
            self.coming.insert(at, head);
            self.coming.insert(at + 1, Series::once(t));
        } else {
            self.coming.insert(at, Series::once(t));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list of times: series in any order, looked at and taken as time goes on.
        #[test]
        fn agrees_with_a_list(
            slots in 0u32..4,
            steps in prop::collection::vec((0u64..40, 0u64..6, 1u64..5, 0u64..20, 0u64..4), 1..60),
        ) {
            let mut credits = Credits::new(slots);
            let mut list = vec![Ps::ZERO; slots as usize];
            let mut now = 0;
            for (delay, gap, count, passes, wanted) in steps {
                let times = Series { first: Ps(now + delay), gap: Ps(gap), count };
                credits.add(times);
                list.extend((0..count).map(|i| times.at(i)));
                list.sort();
                now += passes;
                let usable = list.iter().filter(|&&t| t <= Ps(now)).count() as u64;
                prop_assert_eq!(credits.usable_at(Ps(now)), usable);
                let n = wanted.min(usable);
                credits.take(n, Ps(now));
                list.drain(..n as usize);
                for n in (usable - n + 1)..6 {
                    prop_assert_eq!(credits.time_of(n), list.get(n as usize - 1).copied());
                }
            }
        }
    }
}
