//! Ratios of integers, in lowest terms.

use serde::Serialize;
use std::cmp::Ordering;

/// The greatest common divisor; of 0 and a number, that number.
pub const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A number that is not negative, as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ratio {
    /// Numerator.
    pub num: u64,
    /// Denominator, at least 1.
    pub den: u64,
}

impl Ratio {
    /// Nothing.
    pub const ZERO: Ratio = Ratio { num: 0, den: 1 };

    /// `num / den`, where `den` is not 0.
    pub const fn new(num: u64, den: u64) -> Ratio {
        assert!(den != 0, "a ratio has a denominator");
        let common = gcd(num, den);
        Ratio { num: num / common, den: den / common }
    }

    /// A whole number.
    pub const fn whole(num: u64) -> Ratio {
        Ratio { num, den: 1 }
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Ratio) -> Ordering {
        let cross = |a: u64, b: u64| u128::from(a) * u128::from(b);
        cross(self.num, other.den).cmp(&cross(other.num, self.den))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_terms_and_order() {
        assert_eq!(Ratio::new(6, 4), Ratio { num: 3, den: 2 });
        assert_eq!(Ratio::new(0, 7), Ratio::ZERO);
        assert!(Ratio::new(2, 3) < Ratio::new(3, 4));
        assert!(Ratio::new(u64::MAX, 2) > Ratio::new(u64::MAX, 3));
    }
}
