//! Time, sizes and rates as integers.
//!
//! Simulated time is an integer number of picoseconds, a size an integer number of bytes, a rate an
//! integer number of bytes per second. Serialisation times are computed exactly and rounded *up* to
//! the next picosecond, so a link is never faster than its rate. Floating point appears only where
//! a result is printed.
//!
//! # Overflow
//! Nothing wraps around, in release builds either. Sums and multiples saturate, so that a time that is
//! too large stays later than all others, and the driver ends a run whose next event lies beyond
//! [`Ps::HORIZON`]. Sizes saturate too; what a run may move in all is bounded before it starts. A negative
//! difference is a defect of the engine, and panics.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// Picoseconds in a second.
pub const PS_PER_S: u64 = 1_000_000_000_000;

/// A point in simulated time or a duration, in picoseconds (2^63 ps are 106 days).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ps(pub u64);

impl Ps {
    /// The beginning of a simulation, and the empty duration.
    pub const ZERO: Ps = Ps(0);
    /// Later than any event; stands for "not known yet".
    pub const MAX: Ps = Ps(u64::MAX);
    /// The end of simulated time, 2^63 ps: nothing that happens later is simulated.
    pub const HORIZON: Ps = Ps(1 << 63);

    /// The value in seconds, for reports only.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// The time from `earlier` to `self`, or zero when `self` is not later.
    #[inline(always)]
    pub fn since(self, earlier: Ps) -> Ps {
        Ps(self.0.saturating_sub(earlier.0))
    }

    /// `n` times this duration; saturates.
    #[inline(always)]
    pub const fn times(self, n: u64) -> Ps {
        Ps(self.0.saturating_mul(n))
    }
}

impl Add for Ps {
    type Output = Ps;
    #[inline(always)]
    fn add(self, rhs: Ps) -> Ps {
        Ps(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Ps {
    #[inline(always)]
    fn add_assign(&mut self, rhs: Ps) {
        *self = *self + rhs;
    }
}

impl Sub for Ps {
    type Output = Ps;
    #[inline(always)]
    fn sub(self, rhs: Ps) -> Ps {
        assert!(self.0 >= rhs.0, "negative duration");
        Ps(self.0 - rhs.0)
    }
}

impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ps", self.0),
            1_000..1_000_000 => write!(f, "{:.3} ns", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.3} us", self.0 as f64 / 1e6),
            1_000_000_000..PS_PER_S => write!(f, "{:.3} ms", self.0 as f64 / 1e9),
            _ => write!(f, "{:.3} s", self.as_s()),
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);
}

impl Add for Bytes {
    type Output = Bytes;
    #[inline(always)]
    fn add(self, rhs: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Bytes {
    #[inline(always)]
    fn add_assign(&mut self, rhs: Bytes) {
        *self = *self + rhs;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    #[inline(always)]
    fn sub(self, rhs: Bytes) -> Bytes {
        assert!(self.0 >= rhs.0, "negative size");
        Bytes(self.0 - rhs.0)
    }
}

impl SubAssign for Bytes {
    #[inline(always)]
    fn sub_assign(&mut self, rhs: Bytes) {
        *self = *self - rhs;
    }
}

/// A positive rate in bytes per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(u64);

impl Rate {
    /// A rate that never limits anything: any size takes no time.
    pub const UNLIMITED: Rate = Rate(u64::MAX);

    /// A rate of `bytes_per_s`, or `None` for zero: nothing would ever pass.
    pub const fn new(bytes_per_s: u64) -> Option<Rate> {
        match bytes_per_s {
            0 => None,
            n => Some(Rate(n)),
        }
    }

    /// Bytes per second.
    pub const fn bytes_per_s(self) -> u64 {
        self.0
    }

    /// The time that `size` takes at this rate, rounded up to the next picosecond; saturates.
    #[inline]
    pub fn time(self, size: Bytes) -> Ps {
        // 64-bit arithmetic suffices up to 18 MB; larger sizes take the slow 128-bit division.
        const EXACT_IN_64_BITS: u64 = u64::MAX / PS_PER_S;
        if self.0 == u64::MAX {
            Ps::ZERO
        } else if size.0 <= EXACT_IN_64_BITS {
            Ps((size.0 * PS_PER_S).div_ceil(self.0))
        } else {
            let ps = (u128::from(size.0) * u128::from(PS_PER_S)).div_ceil(u128::from(self.0));
            Ps(u64::try_from(ps).unwrap_or(u64::MAX))
        }
    }

    /// So many percent of this rate, at least one byte per second; `None` for none. A rate without a limit keeps none.
    pub fn percent(self, percent: u8) -> Option<Rate> {
        let part = u128::from(self.0) * u128::from(percent) / 100;
        match (percent, self) {
            (0, _) => None,
            (_, Rate::UNLIMITED) => Some(self),
            _ => Some(Rate(u64::try_from(part).unwrap_or(u64::MAX).max(1))),
        }
    }

    /// The whole bytes that pass in `time`.
    pub fn size(self, time: Ps) -> Bytes {
        let bytes = u128::from(time.0) * u128::from(self.0) / u128::from(PS_PER_S);
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// A clock, for turning published cycle counts into time once, at the boundary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock(Rate);

impl Clock {
    /// A clock of `hz` cycles per second, or `None` for zero.
    pub const fn new(hz: u64) -> Option<Clock> {
        match Rate::new(hz) {
            None => None,
            Some(rate) => Some(Clock(rate)),
        }
    }

    /// Cycles per second.
    pub const fn hz(self) -> u64 {
        self.0.bytes_per_s()
    }

    /// The time of `n` cycles, rounded up to the next picosecond.
    pub fn cycles(self, n: u64) -> Ps {
        self.0.time(Bytes(n))
    }

    /// The rate of something that handles `bytes` per cycle.
    pub fn bytes_per_cycle(self, bytes: u64) -> Option<Rate> {
        Rate::new(self.hz().checked_mul(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_of_a_rate_is_a_rate_unless_it_is_none() {
        let rate = Rate::new(250).expect("positive");
        assert_eq!((rate.percent(100), rate.percent(50)), (Some(rate), Rate::new(125)));
        assert_eq!((rate.percent(0), Rate(3).percent(1)), (None, Rate::new(1)));
        assert_eq!(Rate::UNLIMITED.percent(1), Some(Rate::UNLIMITED));
        assert_eq!(Rate(u64::MAX - 1).percent(200), Some(Rate(u64::MAX)));
    }

    #[test]
    fn serialisation_is_rounded_up() {
        let link = Rate::new(23_500_000_000).unwrap();
        assert_eq!(link.time(Bytes(256)), Ps(10_894)); // 10893.6 ps
        assert_eq!(link.time(Bytes(0)), Ps::ZERO);
    }

    #[test]
    fn cycles_at_a_clock() {
        let clock = Clock::new(1_245_000_000).unwrap();
        assert_eq!(clock.cycles(500), Ps(401_607)); // 401.606 ns
        assert_eq!(clock.bytes_per_cycle(64).unwrap().bytes_per_s(), 79_680_000_000);
    }

    #[test]
    fn nothing_wraps_around() {
        let late = Ps(u64::MAX - 1);
        assert_eq!((late + Ps(5), late.times(3)), (Ps::MAX, Ps::MAX));
        assert_eq!(Bytes(u64::MAX) + Bytes(1), Bytes(u64::MAX));
        let (mut time, mut size) = (late, Bytes(u64::MAX));
        time += late;
        size += size;
        assert_eq!((time, size), (Ps::MAX, Bytes(u64::MAX)));
        assert_eq!(Rate::new(1).unwrap().time(Bytes(1 << 30)), Ps::MAX);
    }

    #[test]
    #[should_panic(expected = "negative duration")]
    fn no_duration_is_negative() {
        assert_eq!(Ps(1) - std::hint::black_box(Ps(2)), Ps::ZERO);
    }

    #[test]
    fn a_zero_rate_does_not_exist() {
        assert!(Rate::new(0).is_none());
        assert!(Clock::new(0).is_none());
    }

    proptest! {
        #[test]
        fn time_is_the_exact_ceiling(size in any::<u64>(), rate in 1u64..u64::MAX) {
            let exact = (u128::from(size) * u128::from(PS_PER_S)).div_ceil(u128::from(rate));
            let expected = u64::try_from(exact).unwrap_or(u64::MAX);
            prop_assert_eq!(Rate::new(rate).unwrap().time(Bytes(size)).0, expected);
        }

        #[test]
        fn size_inverts_time(size in 0u64..1 << 40, rate in 1u64..1 << 40) {
            let rate = Rate::new(rate).unwrap();
            prop_assert!(rate.size(rate.time(Bytes(size))).0 >= size);
        }
    }
}
