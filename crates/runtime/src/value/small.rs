//! Floating-point types of 8 and 16 bits. They are worked on in `f32`: widened exactly, and rounded to nearest even.
//!
//! Everything is written without branches, so that the compiler makes vectors of it. No step handles a subnormal
//! `f32`, except with bfloat16 (whose subnormal numbers they are): a CPU that flushes those changes nothing.

use super::element::{Element, Float, Ordered, Pattern, Real, Row, Values, larger, smaller};

/// A number of the format `F`, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Small<F: Format>(pub F::Bits);

/// A format: a sign, an exponent and a mantissa of fewer bits than those of `f32`.
pub(super) trait Format: Copy + 'static {
    /// Its bits.
    type Bits: Copy;
    /// Its bits, as a signed integer.
    type Pattern: Pattern;
    /// The greatest positive number, infinity if there is one.
    const TOP: Self::Pattern;
    /// What a loop with AVX2 and F16C takes at once, to add and to multiply.
    type SeveralByAvx2: Values<One = Small<Self>>;
    fn pattern(bits: Self::Bits) -> Self::Pattern;
    fn from_pattern(pattern: Self::Pattern) -> Self::Bits;
    fn widen(bits: Self::Bits) -> f32;
    fn narrow(number: f32) -> Self::Bits;
}

/// IEEE 754's binary16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binary16;

/// The upper half of an `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Brain;

/// OCP's 8 bits with 4 of exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct E4M3;

/// OCP's 8 bits with 5 of exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct E5M2;

impl<F: Format> Small<F> {
    #[inline(always)]
    pub(super) fn widen(self) -> f32 {
        F::widen(self.0)
    }

    #[inline(always)]
    pub(super) fn narrow(number: f32) -> Self {
        Small(F::narrow(number))
    }
}

impl<F: Format> Float for Small<F> {
    type Pattern = F::Pattern;
    const TOP: F::Pattern = F::TOP;

    #[inline(always)]
    fn pattern(self) -> F::Pattern {
        F::pattern(self.0)
    }

    #[inline(always)]
    fn from_pattern(pattern: F::Pattern) -> Self {
        Small(F::from_pattern(pattern))
    }
}

impl<F: Format> Values for Small<F> {
    type One = Self;

    #[inline(always)]
    fn all(one: Self) -> Self {
        one
    }

    #[inline(always)]
    fn sum(self, local: Self) -> Self {
        Small::narrow(self.widen() + local.widen())
    }

    #[inline(always)]
    fn product(self, local: Self) -> Self {
        Small::narrow(self.widen() * local.widen())
    }
}

impl<F: Format> Ordered for Small<F> {
    #[inline(always)]
    fn larger(self, local: Self) -> Self {
        larger(self, local)
    }

    #[inline(always)]
    fn smaller(self, local: Self) -> Self {
        smaller(self, local)
    }
}

impl<F: Format> Element for Small<F> {
    type Several = Many<F>;
    type SeveralByAvx2 = F::SeveralByAvx2;
    type Row = Row<Self, 32>;
}

/// How many numbers [`Many`] has: enough that the compiler leaves the loops over them loops, which it makes vectors
/// of.
const MANY: usize = 64;

/// Many numbers, which are widened, worked on and narrowed in turn.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Many<F: Format>([F::Bits; MANY]);

impl<F: Format> Many<F> {
    #[inline(always)]
    fn widen(self) -> [f32; MANY] {
        let mut wide = [0.0; MANY];
        for (wide, bits) in wide.iter_mut().zip(self.0) {
            *wide = F::widen(bits);
        }
        wide
    }

    #[inline(always)]
    fn narrow(mut self, wide: [f32; MANY]) -> Self {
        for (bits, wide) in self.0.iter_mut().zip(wide) {
            *bits = F::narrow(wide);
        }
        self
    }
}

impl<F: Format> Values for Many<F> {
    type One = Small<F>;

    #[inline(always)]
    fn all(one: Small<F>) -> Self {
        Many([one.0; MANY])
    }

    #[inline(always)]
    fn sum(self, local: Self) -> Self {
        let mut wide = self.widen();
        for (sum, local) in wide.iter_mut().zip(local.widen()) {
            *sum += local;
        }
        self.narrow(wide)
    }

    #[inline(always)]
    fn product(self, local: Self) -> Self {
        let mut wide = self.widen();
        for (product, local) in wide.iter_mut().zip(local.widen()) {
            *product *= local;
        }
        self.narrow(wide)
    }
}

impl<F: Format> Real for Small<F> {
    /// First rounded to `f32` and then to the format, as NCCL does it.
    fn share(ranks: u32) -> Self {
        Small::narrow((1.0 / f64::from(ranks)) as f32)
    }
}
