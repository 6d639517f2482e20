//! Max-min fair sharing in integers.
//!
//! *Flows* use *resources* of limited capacity: messages use links, kernels memory bandwidth and SMs.
//! An allocation is max-min fair when no flow can get more but at the cost of one that has no more
//! (Bertsekas and Gallager, *Data Networks*, section 6.5.2). It is found by *progressive filling*: the
//! rates of all flows grow together until a resource is used up; the flows on it stay at that level,
//! the others grow on.
//!
//! # The definition, in integers
//! Rates are [`Share`]s, integer multiples of 1 / [`Share::PER_UNIT`] units per second. In rounds:
//! 1. The level of a resource is `floor(what is left of it / growing uses of it)`.
//! 2. The round's level is the least of all resources and of the caps of growing flows.
//! 3. *All* flows with a use of *any* resource at that level, and all with that cap, stop growing there;
//!    each use takes the level from what is left of its resource.
//!
//! Step 3 is what makes the result a function of the *set* of flows. Stopping the flows of one resource
//! at a time would not: what the division leaves over (less than one share per flow) would go to
//! whichever resource came last. Levels never fall from round to round, since a resource above the
//! round's level has at least that much left for each use.
//!
//! # The error
//! A resource that stops flows has less than one share per use left over. So the result is *exactly*
//! max-min fair for capacities that are smaller than the given ones by less than
//! `uses / PER_UNIT` units per second: for a thousand flows on a link by less than 0.2 mB/s. Nothing is
//! ever above capacity. `PER_UNIT` is a multiple of 1 to 16 and of 128, so that common shares are exact.
//!
//! A flow may use a resource several times, and then takes that multiple of its rate there. (On a folded
//! fabric one link stands for several on a route.) A flow without resources gets its cap.
//!
//! # Classes
//! Flows may be of classes, the larger ones first: the flows of the largest class share everything max-min fairly, those of
//! the next one what that leaves of each resource, and so on. A flow that finds nothing left has a rate of zero until
//! something changes. What a division leaves over counts as left.
//!
//! | | |
//! |---|---|
//! | [`Share`], [`Work`] | rates and amounts in fixed point |
//! | [`Filling`] | progressive filling of one problem from scratch |
//! | [`Pool`] | flows that come and go; solves again only what may have changed |

mod fill;
mod pool;
#[cfg(test)]
mod reference;

pub use fill::Filling;
pub use pool::{CLASSES, GroupId, Pool, ResourceId};

use crate::units::{Bytes, PS_PER_S, Ps, Rate};
use std::ops::{Add, Sub};

/// A rate in fixed point: an integer multiple of 1 / [`Share::PER_UNIT`] units (bytes) per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Share(u128);

impl Share {
    /// Shares in one unit per second: 8 times the least common multiple of 1 to 16. With it the work of
    /// 2^64 bytes still fits 127 bits.
    pub const PER_UNIT: u128 = 8 * 720_720;
    /// Nothing.
    pub const ZERO: Share = Share(0);
    /// A rate that nothing limits.
    pub const UNLIMITED: Share = Share(u128::MAX);

    /// The whole of a rate.
    pub const fn of(rate: Rate) -> Share {
        match rate.bytes_per_s() {
            u64::MAX => Share::UNLIMITED,
            n => Share(n as u128 * Share::PER_UNIT),
        }
    }

    /// One of `n` equal parts, rounded down. `n` must be positive.
    #[inline]
    pub fn split(self, n: u64) -> Share {
        Share(self.0 / u128::from(n))
    }

    /// What `n` such shares are together.
    #[inline]
    pub fn times(self, n: u64) -> Share {
        Share(self.0 * u128::from(n))
    }

    /// What is done at this rate in some time.
    #[inline]
    pub fn work(self, time: Ps) -> Work {
        match u64::try_from(self.0) {
            Ok(rate) => Work(u128::from(rate) * u128::from(time.0)),
            Err(_) => Work(self.0.saturating_mul(u128::from(time.0))),
        }
    }

    /// How long some work takes at this rate, rounded up to the next picosecond; `None` for ever.
    #[inline]
    pub fn time(self, work: Work) -> Option<Ps> {
        match self {
            Share::UNLIMITED => Some(Ps::ZERO),
            Share::ZERO => (work == Work::ZERO).then_some(Ps::ZERO),
            Share(rate) => u64::try_from(work.0.div_ceil(rate)).ok().map(Ps),
        }
    }

    /// The picoseconds in which `self` does `work`, rounded down, and the work that is left over. The
    /// rate must be neither zero nor unlimited.
    #[inline]
    pub fn whole_time(self, work: Work) -> (Ps, Work) {
        (Ps((work.0 / self.0) as u64), Work(work.0 % self.0))
    }

    /// As much of it as `part` is of `whole`, rounded down where their product fits 128 bits; all of it where they
    /// are equal. It must be limited, `whole` positive and no less than `part`.
    pub fn in_proportion(self, part: Share, whole: Share) -> Share {
        // A product of two large numbers is kept within 128 bits at the cost of their last ones.
        let bits = |share: Share| 128 - share.0.leading_zeros();
        let surplus = (bits(self) + bits(whole)).saturating_sub(128);
        Share(self.0 * (part.0 >> surplus) / (whole.0 >> surplus))
    }
}

impl Add for Share {
    type Output = Share;
    #[inline(always)]
    fn add(self, rhs: Share) -> Share {
        Share(self.0 + rhs.0)
    }
}

impl Sub for Share {
    type Output = Share;
    #[inline(always)]
    fn sub(self, rhs: Share) -> Share {
        assert!(self.0 >= rhs.0, "more than the whole was shared out");
        Share(self.0 - rhs.0)
    }
}

/// An amount of work: what a rate of one [`Share`] does in a picosecond is 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Work(u128);

impl Work {
    /// None.
    pub const ZERO: Work = Work(0);

    /// The work of moving some bytes.
    pub const fn of(bytes: Bytes) -> Work {
        Work(bytes.0 as u128 * PS_PER_S as u128 * Share::PER_UNIT)
    }

    /// What is left of it after `done`.
    #[inline(always)]
    pub const fn less(self, done: Work) -> Work {
        Work(self.0.saturating_sub(done.0))
    }

    /// The bytes of which it is the work, rounded down.
    pub const fn whole_bytes(self) -> Bytes {
        Bytes((self.0 / Work::of(Bytes(1)).0) as u64)
    }

    /// The rate that does it in some time, rounded down. `time` must be positive.
    pub fn over(self, time: Ps) -> Share {
        Share(self.0 / u128::from(time.0))
    }
}

impl Add for Work {
    type Output = Work;
    #[inline(always)]
    fn add(self, rhs: Work) -> Work {
        Work(self.0 + rhs.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn common_shares_are_exact() {
        let whole = Share::of(Rate::new(1).unwrap());
        assert!((1..=16).chain([18, 20, 24, 32, 64, 128]).all(|n| whole.split(n).times(n) == whole));
    }

    #[test]
    fn the_largest_work_fits() {
        let all = Work::of(Bytes(u64::MAX));
        assert_eq!(Share::of(Rate::new(PS_PER_S).unwrap()).time(all), Some(Ps(u64::MAX)));
        assert_eq!(Share::of(Rate::new(1).unwrap()).time(all), None);
        assert_eq!(Share::UNLIMITED.time(all), Some(Ps::ZERO));
        assert_eq!((Share::ZERO.time(all), Share::ZERO.time(Work::ZERO)), (None, Some(Ps::ZERO)));
    }

    #[test]
    fn proportions_are_exact_where_they_fit() {
        let whole = |n| Share::of(Rate::new(n).unwrap());
        assert_eq!(whole(12).in_proportion(whole(2), whole(3)), whole(8));
        assert_eq!(Share(10).in_proportion(Share(2), Share(3)), Share(6));
        let huge = Share(u128::MAX / 3);
        assert_eq!(huge.in_proportion(huge, huge), huge);
        assert_eq!(Work::of(Bytes(12)).over(Ps(PS_PER_S / 2)), whole(24));
    }

    proptest! {
        #[test]
        fn a_proportion_is_never_above_and_hardly_below(
            share in 1u128..1 << 80, whole in 1u128..1 << 100, percent in 0u128..101,
        ) {
            let got = Share(share).in_proportion(Share(whole / 100 * percent), Share(whole));
            prop_assert!(got.0 <= share);
            let exact = share as f64 * (whole / 100 * percent) as f64 / whole as f64;
            prop_assert!((got.0 as f64 - exact).abs() <= 1.0 + exact * 1e-12, "{} instead of {}", got.0, exact);
        }

        #[test]
        fn the_whole_of_a_rate_takes_the_time_of_the_rate(size in 0u64..1 << 60, rate in 1_000_000u64..u64::MAX) {
            let rate = Rate::new(rate).unwrap();
            prop_assert_eq!(Share::of(rate).time(Work::of(Bytes(size))), Some(rate.time(Bytes(size))));
        }

        #[test]
        fn work_inverts_time(size in 0u64..1 << 40, rate in 1u64..1 << 50, n in 1u64..5000) {
            let share = Share::of(Rate::new(rate).unwrap()).split(n);
            let work = Work::of(Bytes(size));
            if let Some(time) = share.time(work) {
                prop_assert!(share.work(time) >= work);
                prop_assert!(time == Ps::ZERO || share.work(time - Ps(1)) < work);
            }
        }
    }
}
