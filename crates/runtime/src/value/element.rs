//! Elements, and what can be done with two of them.

use std::num::Wrapping;
use std::ops::{Add, Mul};

/// One element, or several beside each other: what a loop takes at once.
///
/// Operands are what was received and what is local, in this order.
pub(super) trait Values: Copy {
    /// The type of one element; of the element itself, if this is one.
    type One: Values<One = Self::One>;
    /// This element everywhere.
    fn all(one: Self::One) -> Self;
    fn sum(self, local: Self) -> Self;
    fn product(self, local: Self) -> Self;
}

/// Those that have a maximum and a minimum.
pub(super) trait Ordered: Values {
    fn larger(self, local: Self) -> Self;
    fn smaller(self, local: Self) -> Self;
}

/// Those that averages are divided of.
pub(super) trait Divisible: Values {
    /// Divides, toward zero.
    fn quotient(self, ranks: u32) -> Self;
}

/// The type of an element.
pub(super) trait Element: Ordered + Values<One = Self> {
    /// What a loop takes at once, to add and to multiply.
    type Several: Values<One = Self>;
    /// The same for one that is compiled for AVX2 and F16C.
    type SeveralByAvx2: Values<One = Self>;
    /// What a loop takes at once to find the larger or the smaller, and to divide.
    type Row: Ordered + Values<One = Self>;
}

/// The type of a floating-point number.
pub(super) trait Real: Element {
    /// 1/ranks.
    fn share(ranks: u32) -> Self;
}

/// Elements in a row. The loop over them is left to the compiler, which makes vectors of them.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Row<E, const N: usize>([E; N]);

impl<E: Copy, const N: usize> Row<E, N> {
    #[inline(always)]
    fn each(mut self, local: Self, pair: impl Fn(E, E) -> E) -> Self {
        for i in 0..N {
            self.0[i] = pair(self.0[i], local.0[i]);
        }
        self
    }
}

impl<E: Values<One = E>, const N: usize> Values for Row<E, N> {
    type One = E;

    #[inline(always)]
    fn all(one: E) -> Self {
        Row([one; N])
    }

    #[inline(always)]
    fn sum(self, local: Self) -> Self {
        self.each(local, E::sum)
    }

    #[inline(always)]
    fn product(self, local: Self) -> Self {
        self.each(local, E::product)
    }
}

impl<E: Ordered + Values<One = E>, const N: usize> Ordered for Row<E, N> {
    #[inline(always)]
    fn larger(self, local: Self) -> Self {
        self.each(local, E::larger)
    }

    #[inline(always)]
    fn smaller(self, local: Self) -> Self {
        self.each(local, E::smaller)
    }
}

impl<E: Divisible + Values<One = E>, const N: usize> Divisible for Row<E, N> {
    #[inline(always)]
    fn quotient(mut self, ranks: u32) -> Self {
        for element in &mut self.0 {
            *element = element.quotient(ranks);
        }
        self
    }
}

impl<T> Values for Wrapping<T>
where
    T: Copy,
    Wrapping<T>: Copy + Add<Output = Wrapping<T>> + Mul<Output = Wrapping<T>>,
{
    type One = Self;

    #[inline(always)]
    fn all(one: Self) -> Self {
        one
    }

    #[inline(always)]
    fn sum(self, local: Self) -> Self {
        self + local
    }

    #[inline(always)]
    fn product(self, local: Self) -> Self {
        self * local
    }
}

impl<T> Ordered for Wrapping<T>
where
    Wrapping<T>: Values + Ord,
{
    #[inline(always)]
    fn larger(self, local: Self) -> Self {
        self.max(local)
    }

    #[inline(always)]
    fn smaller(self, local: Self) -> Self {
        self.min(local)
    }
}

/// Integers, with how a quotient is made of a number and of how many ranks there are.
macro_rules! integers {
    ($($integer:ty: $quotient:expr,)*) => { $(
        impl Element for Wrapping<$integer> {
            type Several = Self::Row;
            type SeveralByAvx2 = Self::Row;
            type Row = Row<Self, { 64 / size_of::<$integer>() }>;
        }

        impl Divisible for Wrapping<$integer> {
            #[inline(always)]
            fn quotient(self, ranks: u32) -> Self {
                Wrapping($quotient(self.0, ranks))
            }
        }
    )* };
}

integers! {
    i8: |number, ranks| quotient(number, ranks) as i8,
    u8: |number, ranks| quotient(number, ranks) as u8,
    i32: quotient,
    u32: |number: u32, ranks| number / ranks,
    i64: |number: i64, ranks| number / i64::from(ranks),
    u64: |number: u64, ranks| number / u64::from(ranks),
}

/// A quotient, toward zero. CPUs divide vectors of `f64`, but not of integers. A quotient of integers below 2^32 that
/// is no integer is further from the next one than the 2^-53 of it by which `f64` may err, so that the rest is cut
/// off rightly.
#[inline(always)]
fn quotient(number: impl Into<i32>, ranks: u32) -> i32 {
    let quotient = f64::from(number.into()) / f64::from(ranks);
    // SAFETY: it is a number not greater than one of `i32`, as there is at least one rank.
    unsafe { quotient.to_int_unchecked() }
}

/// The bits of a floating-point number, as a signed integer.
pub(super) trait Pattern: Copy + Ord {
    const LEAST: Self;
    const GREATEST: Self;
    /// Turns sign and magnitude into two's complement less one if negative: numbers are then ordered as integers, -0
    /// before +0, and NaNs lie beyond the infinities.
    fn folded(self) -> Self;
    /// All bits differ: what folding makes of the negative of the number whose bits these are.
    fn negated(self) -> Self;
}

macro_rules! patterns {
    ($($integer:ty)*) => { $(
        impl Pattern for $integer {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;

            #[inline(always)]
            fn folded(self) -> Self {
                self ^ ((self >> (Self::BITS - 1)) & Self::MAX)
            }

            #[inline(always)]
            fn negated(self) -> Self {
                !self
            }
        }
    )* };
}

patterns!(i8 i16 i32 i64);

/// A floating-point number as bits.
pub(super) trait Float: Copy {
    type Pattern: Pattern;
    /// The greatest positive number, infinity if there is one. Beyond it, patterns are NaN.
    const TOP: Self::Pattern;
    fn pattern(self) -> Self::Pattern;
    fn from_pattern(pattern: Self::Pattern) -> Self;
}

/// The larger of two numbers. It compares patterns, because comparing numbers says nothing of zeros, and takes
/// subnormal numbers for zeros where a thread's CPU flushes them.
#[inline(always)]
pub(super) fn larger<F: Float>(received: F, local: F) -> F {
    let (received, local) = (received.pattern(), local.pattern());
    F::from_pattern(if rank_below::<F>(received) > rank_below::<F>(local) { received } else { local })
}

/// The smaller of two numbers.
#[inline(always)]
pub(super) fn smaller<F: Float>(received: F, local: F) -> F {
    let (received, local) = (received.pattern(), local.pattern());
    F::from_pattern(if rank_above::<F>(received) < rank_above::<F>(local) { received } else { local })
}

/// A rank among numbers, in which NaN is below them.
#[inline(always)]
fn rank_below<F: Float>(pattern: F::Pattern) -> F::Pattern {
    let rank = pattern.folded();
    if rank > F::TOP { F::Pattern::LEAST } else { rank }
}

/// A rank among numbers, in which NaN is above them.
#[inline(always)]
fn rank_above<F: Float>(pattern: F::Pattern) -> F::Pattern {
    let rank = pattern.folded();
    if rank < F::TOP.negated() { F::Pattern::GREATEST } else { rank }
}

impl Float for f32 {
    type Pattern = i32;
    const TOP: i32 = f32::INFINITY.to_bits() as i32;

    #[inline(always)]
    fn pattern(self) -> i32 {
        self.to_bits() as i32
    }

    #[inline(always)]
    fn from_pattern(pattern: i32) -> Self {
        f32::from_bits(pattern as u32)
    }
}

impl Float for f64 {
    type Pattern = i64;
    const TOP: i64 = f64::INFINITY.to_bits() as i64;

    #[inline(always)]
    fn pattern(self) -> i64 {
        self.to_bits() as i64
    }

    #[inline(always)]
    fn from_pattern(pattern: i64) -> Self {
        f64::from_bits(pattern as u64)
    }
}

macro_rules! floats {
    ($($float:ty)*) => { $(
        impl Values for $float {
            type One = Self;

            #[inline(always)]
            fn all(one: Self) -> Self {
                one
            }

            #[inline(always)]
            fn sum(self, local: Self) -> Self {
                self + local
            }

            #[inline(always)]
            fn product(self, local: Self) -> Self {
                self * local
            }
        }

        impl Ordered for $float {
            #[inline(always)]
            fn larger(self, local: Self) -> Self {
                larger(self, local)
            }

            #[inline(always)]
            fn smaller(self, local: Self) -> Self {
                smaller(self, local)
            }
        }

        impl Element for $float {
            type Several = Self::Row;
            type SeveralByAvx2 = Self::Row;
            type Row = Row<Self, { 64 / size_of::<$float>() }>;
        }

        impl Real for $float {
            fn share(ranks: u32) -> Self {
                (1.0 / f64::from(ranks)) as $float
            }
        }
    )* };
}

floats!(f32 f64);
