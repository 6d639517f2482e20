//! Systolic arrays: how many cycles a matrix product takes.
//!
//! An array of `R x C` processing elements multiplies in *folds*: the two *spatial* dimensions of the
//! product are cut into pieces of `R` and `C`, and the *temporal* one streams through. A fold fills the
//! array along its diagonals and empties it along its rows:
//!
//! ```text
//!   fold = 2 R + C + T - 2                          cycles
//!   gemm = ceil(S_R / R) * ceil(S_C / C) * fold
//! ```
//!
//! | stationary | spatial rows `S_R` | spatial columns `S_C` | temporal `T` |
//! |---|---|---|---|
//! | output | m | n | k |
//! | weight | k | n | m |
//! | input | k | m | n |
//!
//! for `m x k` times `k x n`, the weights being the second factor (Samajdar et al.: "A Systematic
//! Methodology for Characterizing Scalability of DNN Accelerators using SCALE-Sim", ISPASS 2020, section
//! III, equations 1 to 4 and its table of mappings). With outputs stationary the `R` cycles beside the skew of
//! `R + C + T - 2` shift the results out, with weights or inputs stationary they load them. A fold that does
//! not fill the array takes as long as one that does.
//!
//! # Memory
//! With the sizes of its memories on the chip ([`Sram`]), an array waits for operands that are not there in time, and fetches
//! again what its memories cannot keep ([`sram`]). Without, main memory limits a product only by its bandwidth: every
//! operand is moved once, and the larger of both times counts.
//!
//! # Several arrays
//! A product is divided among arrays of equal size: `P = P_count * P_m * P_n` of them get the products of a batch, and the
//! rows and columns of results, in equal parts; that is the scaling out of the same paper (section IV, equations 5 and 6),
//! with results in place of what is spatial, so that no sums are left to be added across arrays. The division that takes
//! the least time is taken, the first of those that are equal. Arrays share the bandwidth of main memory
//! equally and each fetches what it needs by itself, also what others need.
//!
//! Left out: overlap of a fold's end with the beginning of the next, and a network between arrays that would pass
//! operands on.

mod sram;

use crate::layer::{Demand, Gemm};
use crate::parameters::{NpuError, require_positive};
use sram::Folds;
use std::num::NonZeroU32;

pub use sram::{Sram, Taken};

/// What stays in the processing elements while the rest streams through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dataflow {
    /// Sums stay.
    OutputStationary,
    /// The second factor stays.
    WeightStationary,
    /// The first factor stays.
    InputStationary,
}

/// A systolic array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array {
    rows: u32,
    columns: u32,
    dataflow: Dataflow,
    cycles_per_s: f64,
    arrays: NonZeroU32,
    sram: Option<Sram>,
}

impl Array {
    /// An array of `rows x columns` elements, each of which multiplies and accumulates once per cycle.
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if it has no element or no clock.
    pub fn new(rows: u32, columns: u32, dataflow: Dataflow, cycles_per_s: f64) -> Result<Array, NpuError> {
        require_positive(&[("rows", rows.into()), ("columns", columns.into()), ("clock_hz", cycles_per_s)])?;
        Ok(Array { rows, columns, dataflow, cycles_per_s, arrays: NonZeroU32::MIN, sram: None })
    }

    /// So many of these arrays, among which products are divided.
    #[must_use]
    pub fn times(self, arrays: NonZeroU32) -> Array {
        Array { arrays, ..self }
    }

    /// The same with memories on the chip, of each array.
    #[must_use]
    pub fn with_sram(self, sram: Sram) -> Array {
        Array { sram: Some(sram), ..self }
    }

    /// Seconds that products take beside a main memory of so many bytes per second, and the bytes that it moves.
    pub fn timed(&self, demand: Demand, gemm: Gemm, memory_bytes_per_s: f64) -> (f64, u64) {
        let results = demand.bytes.saturating_sub(gemm.operands[0]).saturating_sub(gemm.operands[1]);
        let best = divisions(self.arrays.get().into())
            .map(|ways| self.divided(ways, gemm, results, memory_bytes_per_s))
            .min_by_key(|taken| taken.cycles);
        let taken = best.expect("one division at least");
        let seconds = taken.cycles as f64 / self.cycles_per_s;
        match self.sram {
            Some(_) => (seconds, taken.moved),
            None => (seconds.max(demand.bytes as f64 / memory_bytes_per_s), demand.bytes),
        }
    }

    /// What the array takes that has the most to do, and what all of them move, if products are divided so many ways by
    /// count, rows and columns.
    fn divided(&self, ways: [u64; 3], gemm: Gemm, results: u64, memory_bytes_per_s: f64) -> Taken {
        if [gemm.m, gemm.k, gemm.n, gemm.count].contains(&0) {
            return Taken::default();
        }
        let sizes = [gemm.count, gemm.m, gemm.n];
        let [count, m, n]: [u64; 3] = std::array::from_fn(|i| sizes[i].div_ceil(ways[i]));
        let working = (0..3).fold(1, |all: u64, i| all.saturating_mul(sizes[i].div_ceil(sizes[i].div_ceil(ways[i]))));
        let share = |bytes: u64, parts: [(u64, u64); 2]| {
            let of = |bytes: u128, (part, all): (u64, u64)| (bytes * u128::from(part)).div_ceil(u128::from(all));
            u64::try_from(parts.into_iter().fold(u128::from(bytes), of)).unwrap_or(u64::MAX)
        };
        let (products, rows, columns) = ((count, gemm.count), (m, gemm.m), (n, gemm.n));
        let operands = [share(gemm.operands[0], [products, rows]), share(gemm.operands[1], [products, columns])];
        let part = Gemm { m, k: gemm.k, n, count, operands };
        let Some(sram) = self.sram else { return Taken { cycles: self.cycles(part), moved: 0 } };
        let results = share(share(results, [products, rows]), [columns, (1, 1)]);
        let bytes_per_cycle = memory_bytes_per_s / working as f64 / self.cycles_per_s;
        let array = [self.rows.into(), self.columns.into()];
        let fold = self.fold(part);
        let taken = Folds::new(self.dataflow, array, fold, sram, part, results, bytes_per_cycle).taken();
        Taken { moved: taken.moved.saturating_mul(working), ..taken }
    }

    /// Cycles of a fold; saturates.
    fn fold(&self, gemm: Gemm) -> u64 {
        let temporal = match self.dataflow {
            Dataflow::OutputStationary => gemm.k,
            Dataflow::WeightStationary => gemm.m,
            Dataflow::InputStationary => gemm.n,
        };
        temporal.saturating_add(2 * u64::from(self.rows) + u64::from(self.columns) - 2)
    }

    /// Cycles of all products of a shape on one array that waits for nothing; saturates.
    pub fn cycles(&self, gemm: Gemm) -> u64 {
        let Gemm { m, k, n, count, .. } = gemm;
        if [m, k, n].contains(&0) {
            return 0;
        }
        let (spatial_rows, spatial_columns) = match self.dataflow {
            Dataflow::OutputStationary => (m, n),
            Dataflow::WeightStationary => (k, n),
            Dataflow::InputStationary => (k, m),
        };
        let (rows, columns) = (u64::from(self.rows), u64::from(self.columns));
        let folds = spatial_rows.div_ceil(rows).saturating_mul(spatial_columns.div_ceil(columns));
        folds.saturating_mul(self.fold(gemm)).saturating_mul(count)
    }
}

/// All ways to write a number of arrays as a product of three.
fn divisions(arrays: u64) -> impl Iterator<Item = [u64; 3]> {
    let divisors = move |of: u64| (1..=of).filter(move |by| of.is_multiple_of(*by));
    divisors(arrays).flat_map(move |a| divisors(arrays / a).map(move |b| [a, b, arrays / a / b]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DATAFLOWS: [Dataflow; 3] =
        [Dataflow::OutputStationary, Dataflow::WeightStationary, Dataflow::InputStationary];

    fn array(rows: u32, columns: u32, dataflow: Dataflow) -> Array {
        Array::new(rows, columns, dataflow, 1.0).unwrap()
    }

    /// Cycles until the last sum of an output-stationary fold has left the array, element by element: operands
    /// move one element per cycle, sums then leave by the last row, one row per cycle.
    fn walk_output_stationary(rows: usize, columns: usize, terms: usize) -> u64 {
        let mut left = vec![vec![None; columns]; rows];
        let mut above = vec![vec![None; columns]; rows];
        let mut added = vec![vec![0; columns]; rows];
        let mut cycle = 0;
        while added.iter().flatten().any(|&n| n < terms) {
            for r in (0..rows).rev() {
                for c in (0..columns).rev() {
                    let fed = |skew: usize| (cycle >= skew && cycle - skew < terms).then(|| cycle - skew);
                    left[r][c] = if c == 0 { fed(r) } else { left[r][c - 1] };
                    above[r][c] = if r == 0 { fed(c) } else { above[r - 1][c] };
                    assert_eq!(left[r][c], above[r][c], "factors of one term meet");
                    added[r][c] += usize::from(left[r][c].is_some());
                }
            }
            cycle += 1;
        }
        (cycle + rows) as u64
    }

    /// The folds one after the other.
    fn walk_folds(array: &Array, gemm: Gemm) -> u64 {
        let (spatial, temporal) = match array.dataflow {
            Dataflow::OutputStationary => ((gemm.m, gemm.n), gemm.k),
            Dataflow::WeightStationary => ((gemm.k, gemm.n), gemm.m),
            Dataflow::InputStationary => ((gemm.k, gemm.m), gemm.n),
        };
        let (rows, columns) = (u64::from(array.rows), u64::from(array.columns));
        let mut cycles = 0;
        for _ in 0..gemm.count {
            for _ in (0..spatial.0).step_by(rows as usize) {
                for _ in (0..spatial.1).step_by(columns as usize) {
                    // Load or drain, then the skew of the operands until the far corner has the last one.
                    cycles += rows + (rows - 1) + (columns - 1) + temporal;
                }
            }
        }
        cycles
    }

    #[test]
    fn a_fold_is_what_a_walk_through_its_elements_takes() {
        for (rows, columns, terms) in [(1, 1, 1), (1, 4, 3), (4, 1, 3), (3, 5, 7), (8, 8, 2)] {
            let gemm = Gemm { m: rows as u64, k: terms as u64, n: columns as u64, count: 1, operands: [0; 2] };
            let closed = array(rows as u32, columns as u32, Dataflow::OutputStationary).cycles(gemm);
            assert_eq!(closed, walk_output_stationary(rows, columns, terms), "{rows} x {columns}, {terms}");
        }
    }

    #[test]
    fn layers_of_papers_by_hand() {
        // A 3 x 3 convolution of ResNet-50, 64 to 64 channels on 32 images of 56 x 56, on 256 x 256:
        // 100,352 windows of 576 elements.
        let conv = Gemm { m: 100_352, k: 576, n: 64, count: 1, operands: [0; 2] };
        assert_eq!(array(256, 256, Dataflow::OutputStationary).cycles(conv), 392 * (766 + 576));
        assert_eq!(array(256, 256, Dataflow::WeightStationary).cycles(conv), 3 * (766 + 100_352));
        assert_eq!(array(256, 256, Dataflow::InputStationary).cycles(conv), 3 * 392 * (766 + 64));
        // A step of an LSTM of 1024 with 128 sequences: 128 x 1024 by 1024 x 4096, 25 times.
        let step = Gemm { m: 128, k: 1024, n: 4096, count: 25, operands: [0; 2] };
        assert_eq!(array(256, 256, Dataflow::WeightStationary).cycles(step), 25 * 4 * 16 * (766 + 128));
    }

    #[test]
    fn nothing_takes_no_time_and_nonsense_is_refused() {
        assert_eq!(
            array(2, 2, Dataflow::OutputStationary).cycles(Gemm { m: 0, k: 4, n: 4, count: 1, operands: [0; 2] }),
            0
        );
        for (rows, columns, clock) in [(0, 1, 1.0), (1, 0, 1.0), (1, 1, 0.0), (1, 1, f64::NAN)] {
            assert!(Array::new(rows, columns, Dataflow::OutputStationary, clock).is_err());
        }
    }

    proptest! {
        /// The division that takes the least time, each array as if it were alone with its part and its share of memory.
        #[test]
        fn several_arrays_with_memories_are_as_many_single_ones(
            arrays in 1u32..9, (m, k, n) in (1u64..9, 1u64..60, 1u64..9), count in 1u64..4, width in 1u64..5,
            memory in 0.5f64..200.0, (inputs, weights, outputs) in (0u64..2000, 0u64..2000, 0u64..2000),
        ) {
            let all = u64::from(arrays);
            let (m, n, count) = (m * all, n * all, count * all); // every division is into equal parts
            for dataflow in DATAFLOWS {
                let one = array(4, 4, dataflow).with_sram(Sram { inputs, weights, outputs });
                let timed = |of: Array, gemm: Gemm, bytes_per_s: f64| {
                    let results = width * gemm.m * gemm.n * gemm.count;
                    let bytes = gemm.operands[0] + gemm.operands[1] + results;
                    of.timed(Demand::of_gemm(gemm, bytes), gemm, bytes_per_s)
                };
                let shaped = |m: u64, n: u64, count: u64| {
                    Gemm { m, k, n, count, operands: [width * m * k * count, width * k * n * count] }
                };
                let mut least = (f64::INFINITY, 0);
                for counts in (1..=all).filter(|by| all % by == 0) {
                    for rows in (1..=all / counts).filter(|by| all / counts % by == 0) {
                        let part = shaped(m / rows, n / (all / counts / rows), count / counts);
                        let (seconds, moved) = timed(one, part, memory / f64::from(arrays));
                        if seconds < least.0 {
                            least = (seconds, moved * all);
                        }
                    }
                }
                let several = one.times(NonZeroU32::new(arrays).unwrap());
                prop_assert_eq!(timed(several, shaped(m, n, count), memory), least);
            }
        }

        #[test]
        fn the_closed_form_is_the_sum_over_folds(
            rows in 1u32..40, columns in 1u32..40, m in 1u64..300, k in 1u64..300, n in 1u64..300, count in 1u64..4,
        ) {
            for dataflow in DATAFLOWS {
                let (array, gemm) = (array(rows, columns, dataflow), Gemm { m, k, n, count, operands: [0; 2] });
                prop_assert_eq!(array.cycles(gemm), walk_folds(&array, gemm));
                // No array does more than one multiply-accumulate per element and cycle.
                let elements = u64::from(rows) * u64::from(columns);
                prop_assert!(2 * array.cycles(gemm) * elements >= gemm.flops());
            }
        }
    }
}
