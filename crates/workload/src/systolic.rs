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
//! The array's own SRAM is double-buffered: the operands of a fold are fetched during the one before, so
//! that main memory limits a product only by its bandwidth ([`crate::compute`] takes the larger of both).
//! Left out: operands that the SRAM cannot keep and several folds fetch, and overlap of a fold's end with
//! the beginning of the next.

use crate::layer::Gemm;
use crate::parameters::{NpuError, require_positive};

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
}

impl Array {
    /// An array of `rows x columns` elements, each of which multiplies and accumulates once per cycle.
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if it has no element or no clock.
    pub fn new(rows: u32, columns: u32, dataflow: Dataflow, cycles_per_s: f64) -> Result<Array, NpuError> {
        require_positive(&[("rows", rows.into()), ("columns", columns.into()), ("clock_hz", cycles_per_s)])?;
        Ok(Array { rows, columns, dataflow, cycles_per_s })
    }

    /// Cycles of all products of a shape; saturates.
    pub fn cycles(&self, gemm: Gemm) -> u64 {
        let Gemm { m, k, n, count, .. } = gemm;
        if [m, k, n].contains(&0) {
            return 0;
        }
        let (spatial_rows, spatial_columns, temporal) = match self.dataflow {
            Dataflow::OutputStationary => (m, n, k),
            Dataflow::WeightStationary => (k, n, m),
            Dataflow::InputStationary => (k, m, n),
        };
        let (rows, columns) = (u64::from(self.rows), u64::from(self.columns));
        let fold = temporal.saturating_add(2 * rows + columns - 2);
        let folds = spatial_rows.div_ceil(rows).saturating_mul(spatial_columns.div_ceil(columns));
        folds.saturating_mul(fold).saturating_mul(count)
    }

    /// Seconds of all products of a shape.
    pub fn seconds(&self, gemm: Gemm) -> f64 {
        self.cycles(gemm) as f64 / self.cycles_per_s
    }
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
