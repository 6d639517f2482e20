//! Small floating-point types by the conversions of F16C, between binary16 and `f32`.
//!
//! Operations are for functions that are compiled for AVX2 and F16C, into which they are inlined. Only
//! [`super::loops`] has such functions, which it calls on CPUs that have both.

use super::element::Values;
use super::small::{Binary16, E4M3, E5M2, Format, Small};
use std::arch::x86_64::*;

/// Infinity in binary16.
const INFINITY: i16 = 0x7c00;

/// Eight numbers of binary16.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Halves([u16; 8]);

impl Halves {
    #[inline(always)]
    fn widen(self) -> __m256 {
        // SAFETY: both are 16 bytes, and any bits are a value of either. The CPU has F16C.
        unsafe { _mm256_cvtph_ps(std::mem::transmute::<[u16; 8], __m128i>(self.0)) }
    }

    #[inline(always)]
    fn narrow(wide: __m256) -> Halves {
        // SAFETY: both are 16 bytes, and any bits are a value of either. The CPU has F16C.
        unsafe {
            let narrow = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide);
            Halves(std::mem::transmute::<__m128i, [u16; 8]>(narrow))
        }
    }

    /// The product, times a power of two.
    #[inline(always)]
    fn product_times(self, local: Self, power: f32) -> Self {
        // SAFETY: the CPU has AVX2.
        Halves::narrow(unsafe { _mm256_mul_ps(_mm256_mul_ps(self.widen(), local.widen()), _mm256_set1_ps(power)) })
    }
}

impl Values for Halves {
    type One = Small<Binary16>;

    #[inline(always)]
    fn all(one: Small<Binary16>) -> Self {
        Halves([one.0; 8])
    }

    #[inline(always)]
    fn sum(self, local: Self) -> Self {
        // SAFETY: the CPU has AVX2.
        Halves::narrow(unsafe { _mm256_add_ps(self.widen(), local.widen()) })
    }

    #[inline(always)]
    fn product(self, local: Self) -> Self {
        // SAFETY: the CPU has AVX2.
        Halves::narrow(unsafe { _mm256_mul_ps(self.widen(), local.widen()) })
    }
}

/// A format of 8 bits whose exponent is the lower end of that of binary16: a number is that binary16, times a power
/// of two.
///
/// Sums and products are rounded to binary16 and then to 8 bits. That this gives what rounding once gives is a matter
/// of so few bits that all pairs of numbers can be tried, as tests do.
pub(super) trait PartOfBinary16: Format<Bits = u8> {
    /// What a number is greater by than the binary16 that stands for it.
    const POWER: f32;
    /// Bits of the mantissa of binary16 that are dropped.
    const DROPPED: u32;
    /// The greatest finite magnitude.
    const LARGEST: u16;
    /// NaN.
    const NAN: i16 = 0x7f;
}

impl PartOfBinary16 for E4M3 {
    const POWER: f32 = 256.0;
    const DROPPED: u32 = 7;
    const LARGEST: u16 = 0x7e;
}

impl PartOfBinary16 for E5M2 {
    const POWER: f32 = 1.0;
    const DROPPED: u32 = 8;
    const LARGEST: u16 = 0x7b;
}

/// Sixteen numbers of a format of 8 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bytes<F: PartOfBinary16>([F::Bits; 16]);

impl<F: PartOfBinary16> Bytes<F> {
    /// The binary16s that stand for the numbers.
    #[inline(always)]
    fn widen(self) -> [Halves; 2] {
        // SAFETY: they have as many bytes, and any bits are a value. The CPU has AVX2.
        unsafe {
            let bytes = _mm256_cvtepu8_epi16(std::mem::transmute::<[u8; 16], __m128i>(self.0));
            let all = _mm256_slli_epi16::<8>(bytes);
            let halves = if F::DROPPED == 8 {
                all
            } else {
                let sign = _mm256_and_si256(all, _mm256_set1_epi16(i16::MIN));
                let magnitude = _mm256_srli_epi16::<1>(_mm256_and_si256(all, _mm256_set1_epi16(i16::MAX)));
                // What is NaN in a type without infinities is a number in binary16.
                let greatest = _mm256_set1_epi16((F::LARGEST << F::DROPPED) as i16);
                let nan = _mm256_and_si256(_mm256_cmpgt_epi16(magnitude, greatest), _mm256_set1_epi16(INFINITY));
                _mm256_or_si256(_mm256_or_si256(sign, magnitude), nan)
            };
            std::mem::transmute::<__m256i, [Halves; 2]>(halves)
        }
    }

    /// The numbers that binary16s stand for.
    #[inline(always)]
    fn narrow(halves: [Halves; 2]) -> Self {
        // SAFETY: they have as many bytes, and any bits are a value. The CPU has AVX2.
        unsafe {
            let halves = std::mem::transmute::<[Halves; 2], __m256i>(halves);
            let shift = _mm_cvtsi32_si128(F::DROPPED as i32);
            let magnitude = _mm256_and_si256(halves, _mm256_set1_epi16(i16::MAX));
            // Just less than half of the last bit that is kept, and one more if that bit is set: a tie goes to an
            // even number.
            let half = _mm256_set1_epi16((1 << (F::DROPPED - 1)) - 1);
            let odd = _mm256_and_si256(_mm256_srl_epi16(magnitude, shift), _mm256_set1_epi16(1));
            let rounded = _mm256_srl_epi16(_mm256_add_epi16(_mm256_add_epi16(magnitude, half), odd), shift);
            let limited = _mm256_min_epu16(rounded, _mm256_set1_epi16(F::LARGEST as i16));
            let sign = _mm256_and_si256(_mm256_srli_epi16::<8>(halves), _mm256_set1_epi16(0x80));
            let nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(INFINITY));
            let numbers = _mm256_blendv_epi8(_mm256_or_si256(limited, sign), _mm256_set1_epi16(F::NAN), nan);
            let low = _mm256_castsi256_si128(numbers);
            let packed = _mm_packus_epi16(low, _mm256_extracti128_si256::<1>(numbers));
            Bytes(std::mem::transmute::<__m128i, [u8; 16]>(packed))
        }
    }

    #[inline(always)]
    fn each(self, local: Self, pair: impl Fn(Halves, Halves) -> Halves) -> Self {
        let ([low, high], [local_low, local_high]) = (self.widen(), local.widen());
        Bytes::narrow([pair(low, local_low), pair(high, local_high)])
    }
}

impl<F: PartOfBinary16> Values for Bytes<F> {
    type One = Small<F>;

    #[inline(always)]
    fn all(one: Small<F>) -> Self {
        Bytes([one.0; 16])
    }

    #[inline(always)]
    fn sum(self, local: Self) -> Self {
        self.each(local, Halves::sum)
    }

    #[inline(always)]
    fn product(self, local: Self) -> Self {
        self.each(local, |received, local| received.product_times(local, F::POWER))
    }
}
