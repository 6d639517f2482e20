//! Sparse matrix products: the second factor has zeros that are neither stored nor multiplied.
//!
//! A product of `k` terms a sum then has fewer, and its second factor fewer bytes, but an index beside them:
//!
//! | | terms | bytes of the second factor |
//! |---|---|---|
//! | density `d` | `ceil(k d)` | `d` of them, and a bit for each element, kept or not |
//! | `kept` of each `of` neighbours | `kept` of each `of` | `kept / of` of them, and `log2(of)` bits for each kept element |
//!
//! 2 of 4 is what the tensor cores of GPUs since the A100 do at twice the dense rate (Mishra et al.: "Accelerating Sparse Deep
//! Neural Networks", 2021, section 3), with two bits for each kept element. The bitmap is one of the formats of SCALE-Sim v3
//! (Raj et al., 2025). With a density, zeros are taken to be spread so evenly that all sums are as long as their average: a bound
//! that arrays approach only with buffers that even out differences.
//!
//! All matrix products are taken to be sparse, also those that have no weights among their factors.

use crate::layer::{Demand, Gemm};

/// How sparse the second factor of products is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sparsity {
    /// The part of elements that are not zero, above 0 and up to 1.
    Density(f64),
    /// Of each so many neighbours along a sum, so many are kept.
    Structured {
        /// Elements that are kept, at least one.
        kept: u32,
        /// Of so many, at least as many as are kept.
        of: u32,
    },
}

impl Sparsity {
    /// What is left of a kernel.
    #[must_use]
    pub fn left_of(self, demand: Demand) -> Demand {
        let Some(gemm) = demand.gemm else { return demand };
        let Gemm { m, k, n, count, operands: [first, second] } = gemm;
        let elements = u128::from(k) * u128::from(n) * u128::from(count);
        let (terms, values, index_bits) = match self {
            Sparsity::Density(density) => {
                ((k as f64 * density).ceil() as u64, (second as f64 * density).ceil() as u64, elements)
            }
            Sparsity::Structured { kept, of } => {
                let (kept, of) = (u64::from(kept), u64::from(of));
                let terms = k / of * kept + (k % of).min(kept);
                let values = share(second, terms, k);
                let bits = u128::from(of.next_power_of_two().trailing_zeros());
                (terms, values, u128::from(terms) * u128::from(n) * u128::from(count) * bits)
            }
        };
        let index = u64::try_from(index_bits.div_ceil(8)).unwrap_or(u64::MAX);
        let left = values.saturating_add(index);
        let gemm = Gemm { m, k: terms, n, count, operands: [first, left] };
        let bytes = demand.bytes.saturating_sub(second).saturating_add(left);
        Demand { narrow: demand.narrow, kind: demand.kind, ..Demand::of_gemm(gemm, bytes) }
    }
}

/// The part of an operand's bytes that so many of all terms have.
fn share(bytes: u64, part: u64, all: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(part);
    u64::try_from(share.div_ceil(u128::from(all.max(1)))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn product(m: u64, k: u64, n: u64) -> Demand {
        let gemm = Gemm { m, k, n, count: 1, operands: [2 * m * k, 2 * k * n] };
        Demand::of_gemm(gemm, 2 * (m * k + k * n + m * n))
    }

    #[test]
    fn two_of_four_halve_the_operations_and_keep_two_bits_for_each_kept_element() {
        let dense = product(64, 1024, 32);
        let left = Sparsity::Structured { kept: 2, of: 4 }.left_of(dense);
        assert_eq!(left.flops, dense.flops / 2);
        // 1024 x 32 weights of two bytes: 64 KiB. Half of them is 32 KiB, and 16,384 indices of two bits are 4 KiB.
        assert_eq!(dense.bytes - left.bytes, (64 - 32 - 4) * 1024);
        assert_eq!(left.gemm.unwrap().operands, [2 * 64 * 1024, 36 * 1024]);
    }

    #[test]
    fn a_density_shortens_sums_and_keeps_a_bit_for_each_element() {
        let dense = product(64, 1024, 32);
        let left = Sparsity::Density(0.25).left_of(dense);
        assert_eq!(left.gemm.map(|g| [g.m, g.k, g.n]), Some([64, 256, 32]));
        assert_eq!(dense.bytes - left.bytes, (64 - 16 - 4) * 1024);
        let other = Demand::new(7, 9);
        assert_eq!(Sparsity::Density(0.25).left_of(other), other, "no product, nothing to leave out");
    }

    /// Terms of a sum that are kept, one by one.
    fn counted(k: u64, kept: u64, of: u64) -> u64 {
        (0..k).filter(|term| term % of < kept).count() as u64
    }

    proptest! {
        #[test]
        fn kept_terms_are_those_that_are_counted(
            (m, k, n) in (1u64..50, 1u64..200, 1u64..50), kept in 1u32..8, more in 0u32..8,
        ) {
            let of = kept + more;
            let left = Sparsity::Structured { kept, of }.left_of(product(m, k, n)).gemm.unwrap();
            prop_assert_eq!(left.k, counted(k, kept.into(), of.into()));
            prop_assert_eq!([left.m, left.n], [m, n]);
        }
    }
}
