//! Conversions of small floating-point types to and from `f32`.

use super::small::{Binary16, Brain, E4M3, E5M2, Format, Many};

/// Bits of the mantissa of `f32` that its format keeps.
const MANTISSA: u32 = f32::MANTISSA_DIGITS - 1;
/// What `f32` adds to its exponents.
const BIAS: u32 = 127;

/// Widens the sign, `EXPONENT` bits of exponent and `KEPT` bits of mantissa at the lower end of `bits`. Exponents are
/// as IEEE 754 has them; magnitudes that are greater than `largest` become infinite or, with bits of mantissa, NaN.
#[inline(always)]
fn widened<const EXPONENT: u32, const KEPT: u32>(bits: u32, largest: u32) -> f32 {
    let bias = (1 << (EXPONENT - 1)) - 1;
    let sign = (bits >> (EXPONENT + KEPT)) << 31;
    let magnitude = bits & ((1 << (EXPONENT + KEPT)) - 1);
    let shifted = magnitude << (MANTISSA - KEPT);
    let normal = shifted + ((BIAS - bias) << MANTISSA);
    // A subnormal number counts multiples of the smallest one, which is 2^(1 - bias - KEPT).
    let smallest = f32::from_bits((BIAS + 1 - bias - KEPT) << MANTISSA);
    let subnormal = (magnitude as i32 as f32 * smallest).to_bits();
    let finite = if magnitude < 1 << KEPT { subnormal } else { normal };
    f32::from_bits(sign | if magnitude > largest { shifted | f32::INFINITY.to_bits() } else { finite })
}

/// Rounds to nearest even. Magnitudes that are greater than `limit` become `limit`, and NaN becomes `nan`.
#[inline(always)]
fn narrowed<const EXPONENT: u32, const KEPT: u32>(number: f32, limit: u32, nan: u32) -> u32 {
    let bias = (1 << (EXPONENT - 1)) - 1;
    let magnitude = number.abs().to_bits();
    let sign = (number.to_bits() ^ magnitude) >> (31 - EXPONENT - KEPT);
    let dropped = MANTISSA - KEPT;
    // Just less than half of the last bit that is kept, and one more if that bit is set: a tie goes to an even
    // number.
    let half = (1 << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1);
    let normal = (magnitude.wrapping_add(half) >> dropped).wrapping_sub((BIAS - bias) << KEPT);
    // Subnormal numbers are multiples of the smallest one. A sum with the power of two whose last bit weighs as much
    // is rounded to one.
    let power = (BIAS + 1 - bias + dropped) << MANTISSA;
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(power)).to_bits().wrapping_sub(power);
    let least_normal = (BIAS + 1 - bias) << MANTISSA;
    let rounded = if magnitude < least_normal { subnormal } else { normal };
    let limited = if rounded > limit { limit } else { rounded };
    if magnitude > f32::INFINITY.to_bits() { nan } else { sign | limited }
}

impl Format for Binary16 {
    type Bits = u16;
    type Pattern = i16;
    const TOP: i16 = 0x7c00;
    #[cfg(target_arch = "x86_64")]
    type SeveralByAvx2 = super::avx2::Halves;
    #[cfg(not(target_arch = "x86_64"))]
    type SeveralByAvx2 = Many<Binary16>;

    #[inline(always)]
    fn pattern(bits: u16) -> i16 {
        bits as i16
    }

    #[inline(always)]
    fn from_pattern(pattern: i16) -> u16 {
        pattern as u16
    }

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        widened::<5, 10>(bits.into(), 0x7bff)
    }

    #[inline(always)]
    fn narrow(number: f32) -> u16 {
        // NaN as the conversion of F16C makes it: quiet, with its sign and what fits of the rest.
        let bits = number.to_bits();
        let nan = bits >> 16 & 0x8000 | 0x7e00 | bits >> 13 & 0x1ff;
        narrowed::<5, 10>(number, 0x7c00, nan) as u16
    }
}

impl Format for Brain {
    type Bits = u16;
    type Pattern = i16;
    const TOP: i16 = 0x7f80;
    type SeveralByAvx2 = Many<Brain>;

    #[inline(always)]
    fn pattern(bits: u16) -> i16 {
        bits as i16
    }

    #[inline(always)]
    fn from_pattern(pattern: i16) -> u16 {
        pattern as u16
    }

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    #[inline(always)]
    fn narrow(number: f32) -> u16 {
        let bits = number.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        (if number.is_nan() { 0x7fc0 } else { rounded }) as u16
    }
}

impl Format for E4M3 {
    type Bits = u8;
    type Pattern = i8;
    const TOP: i8 = 0x7e;
    #[cfg(target_arch = "x86_64")]
    type SeveralByAvx2 = super::avx2::Bytes<E4M3>;
    #[cfg(not(target_arch = "x86_64"))]
    type SeveralByAvx2 = Many<E4M3>;

    #[inline(always)]
    fn pattern(bits: u8) -> i8 {
        bits as i8
    }

    #[inline(always)]
    fn from_pattern(pattern: i8) -> u8 {
        pattern as u8
    }

    #[inline(always)]
    fn widen(bits: u8) -> f32 {
        widened::<4, 3>(bits.into(), 0x7e)
    }

    #[inline(always)]
    fn narrow(number: f32) -> u8 {
        narrowed::<4, 3>(number, 0x7e, 0x7f) as u8
    }
}

impl Format for E5M2 {
    type Bits = u8;
    type Pattern = i8;
    const TOP: i8 = 0x7c;
    #[cfg(target_arch = "x86_64")]
    type SeveralByAvx2 = super::avx2::Bytes<E5M2>;
    #[cfg(not(target_arch = "x86_64"))]
    type SeveralByAvx2 = Many<E5M2>;

    #[inline(always)]
    fn pattern(bits: u8) -> i8 {
        bits as i8
    }

    #[inline(always)]
    fn from_pattern(pattern: i8) -> u8 {
        pattern as u8
    }

    #[inline(always)]
    fn widen(bits: u8) -> f32 {
        widened::<5, 2>(bits.into(), 0x7b)
    }

    #[inline(always)]
    fn narrow(number: f32) -> u8 {
        narrowed::<5, 2>(number, 0x7b, 0x7f) as u8
    }
}
