//! What a systolic array waits for: operands that its SRAM has to fetch from main memory.
//!
//! An array has three memories on the chip, for inputs (the first factor), weights (the second) and outputs, each
//! double-buffered: while a fold works on one half, the other takes in what the next fold needs, and what the
//! fold before has left is written out (Samajdar et al., ISPASS 2020, section II). A fold whose successor's operands are
//! not there in time makes the array wait:
//!
//! ```text
//!   total = fetch(0) + sum over folds f of max(fold, fetch(f + 1) + write(f - 1)) + write(last)     cycles
//!   stalls = total - folds * fold
//! ```
//!
//! `fetch` and `write` are bytes over the bandwidth of main memory, rounded up to cycles. Folds are worked on row by row: an outer
//! loop with an inner one. What is the same in all of an inner loop, or comes back in each, is fetched once if half of its
//! memory holds it, else again by every fold that needs it:
//!
//! | stationary | outer loop | inner loop | kept for the inner loop | kept for all | partial sums |
//! |---|---|---|---|---|---|
//! | output | rows of m | columns of n | rows of inputs | weights | stay in the array |
//! | weight | columns of n | terms of k | | inputs | a column of outputs |
//! | input | columns of m | terms of k | | weights | a row of outputs |
//!
//! Partial sums that half of the memory of outputs cannot hold are written and read again by each fold. They are as wide as
//! results. A piece of an operand has its share of the operand's bytes, so that the windows of a
//! convolution, which overlap, take no more than the image.
//!
//! Left out: banks and ports of the memories, a row buffer's hits and misses in main memory, and folds that begin before all
//! of their operands are there.

use super::Dataflow;
use crate::layer::Gemm;

/// The memories of an array, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sram {
    /// For the first factor.
    pub inputs: u64,
    /// For the second factor.
    pub weights: u64,
    /// For results, and partial sums.
    pub outputs: u64,
}

/// What products take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Cycles, those of waiting included; saturates.
    pub cycles: u64,
    /// Bytes that main memory moves; saturates.
    pub moved: u64,
}

/// The folds of a product.
pub(super) struct Folds {
    dataflow: Dataflow,
    /// `m`, `k` and `n`, and the elements of a fold along each.
    sizes: [u64; 3],
    pieces: [u64; 3],
    /// Bytes of the first factor, the second, and the result of all products, and how many products these are.
    bytes: [u64; 3],
    count: u64,
    /// Whether the memories of inputs, weights and outputs keep what comes back.
    keeps: [bool; 3],
    /// Cycles of a fold.
    fold: u64,
    bytes_per_cycle: f64,
}

const M: usize = 0;
const K: usize = 1;
const N: usize = 2;

impl Folds {
    /// The folds of each of the products of a shape, none of whose sizes is zero, which move `results` bytes beside their
    /// operands. `array` has rows and columns.
    pub fn new(
        dataflow: Dataflow,
        array: [u64; 2],
        fold: u64,
        sram: Sram,
        gemm: Gemm,
        results: u64,
        bytes_per_cycle: f64,
    ) -> Folds {
        let [rows, columns] = array;
        let sizes = [gemm.m, gemm.k, gemm.n];
        let pieces = match dataflow {
            Dataflow::OutputStationary => [rows, gemm.k, columns],
            Dataflow::WeightStationary => [gemm.m, rows, columns],
            Dataflow::InputStationary => [columns, rows, gemm.n],
        };
        let bytes = [gemm.operands[0], gemm.operands[1], results];
        let folds =
            Folds { dataflow, sizes, pieces, bytes, count: gemm.count, keeps: [true; 3], fold, bytes_per_cycle };
        let of_first = |piece: [bool; 3], operand| folds.share(operand, piece, [0, 0]);
        let kept = match dataflow {
            Dataflow::OutputStationary => [of_first([true, false, false], 0), of_first([false; 3], 1), 0],
            Dataflow::WeightStationary => [of_first([false; 3], 0), 0, of_first([false, false, true], 2)],
            Dataflow::InputStationary => [0, of_first([false; 3], 1), of_first([true, false, false], 2)],
        };
        let halves = [sram.inputs / 2, sram.weights / 2, sram.outputs / 2];
        Folds { keeps: std::array::from_fn(|i| kept[i] <= halves[i]), ..folds }
    }

    /// The sizes that the outer and the inner loop go through.
    fn loops(&self) -> [usize; 2] {
        match self.dataflow {
            Dataflow::OutputStationary => [M, N],
            Dataflow::WeightStationary => [N, K],
            Dataflow::InputStationary => [M, K],
        }
    }

    /// Folds of the outer and of the inner loop.
    pub fn numbers(&self) -> [u64; 2] {
        self.loops().map(|size| self.sizes[size].div_ceil(self.pieces[size]))
    }

    /// Bytes of an operand (0 and 1 the factors, 2 the result) of one product: all of it, or what belongs to a fold along the
    /// sizes that `cut` names.
    fn share(&self, operand: usize, cut: [bool; 3], fold: [u64; 2]) -> u64 {
        let [outer, inner] = self.loops();
        let mut share = u128::from(self.bytes[operand]);
        let mut of = u128::from(self.count);
        for (size, number) in [(outer, fold[0]), (inner, fold[1])] {
            if cut[size] {
                let left = self.sizes[size] - number * self.pieces[size];
                share *= u128::from(left.min(self.pieces[size]));
                of *= u128::from(self.sizes[size]);
            }
        }
        u64::try_from(share.div_ceil(of)).unwrap_or(u64::MAX)
    }

    /// Bytes that a fold needs and that are not on the chip.
    pub fn fetched(&self, fold: [u64; 2]) -> u64 {
        let [outer, inner] = fold;
        let if_due = |is_due: bool, bytes: u64| if is_due { bytes } else { 0 };
        let [inputs, weights, outputs] = self.keeps;
        match self.dataflow {
            Dataflow::OutputStationary => {
                let first = if_due(inner == 0 || !inputs, self.share(0, [true, false, false], fold));
                first.saturating_add(if_due(outer == 0 || !weights, self.share(1, [false, false, true], fold)))
            }
            Dataflow::WeightStationary => {
                let first = if_due(outer == 0 || !inputs, self.share(0, [false, true, false], fold));
                let sums = if_due(inner > 0 && !outputs, self.share(2, [false, false, true], fold));
                first.saturating_add(self.share(1, [false, true, true], fold)).saturating_add(sums)
            }
            Dataflow::InputStationary => {
                let second = if_due(outer == 0 || !weights, self.share(1, [false, true, false], fold));
                let sums = if_due(inner > 0 && !outputs, self.share(2, [true, false, false], fold));
                second.saturating_add(self.share(0, [true, true, false], fold)).saturating_add(sums)
            }
        }
    }

    /// Bytes that a fold leaves for main memory.
    pub fn written(&self, fold: [u64; 2]) -> u64 {
        let is_last = fold[1] + 1 == self.numbers()[1];
        let cut = match self.dataflow {
            Dataflow::OutputStationary => return self.share(2, [true, false, true], fold),
            Dataflow::WeightStationary => [false, false, true],
            Dataflow::InputStationary => [true, false, false],
        };
        if is_last || !self.keeps[2] { self.share(2, cut, fold) } else { 0 }
    }

    /// Cycles in which main memory moves so many bytes.
    pub fn cycles(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.bytes_per_cycle).ceil() as u64 // the conversion saturates
    }

    /// From the beginning of a fold to that of the next: its own cycles, or those that main memory takes meanwhile.
    pub fn slot(&self, fold: [u64; 2]) -> u64 {
        let [outer, inner] = fold;
        let [outers, inners] = self.numbers();
        let next = match (outer + 1 < outers, inner + 1 < inners) {
            (_, true) => self.fetched([outer, inner + 1]),
            (true, false) => self.fetched([outer + 1, 0]),
            (false, false) => 0,
        };
        let previous = match (outer > 0, inner > 0) {
            (_, true) => self.written([outer, inner - 1]),
            (true, false) => self.written([outer - 1, inners - 1]),
            (false, false) => 0,
        };
        self.fold.max(self.cycles(next.saturating_add(previous)))
    }

    /// All products, one after the other, in a time that does not depend on the number of folds: all folds but the first
    /// two and the last two of a loop are alike.
    pub fn taken(&self) -> Taken {
        let [outers, inners] = self.numbers();
        let last = [outers - 1, inners - 1];
        let mut one = Taken {
            cycles: self.cycles(self.fetched([0, 0])).saturating_add(self.cycles(self.written(last))),
            moved: 0,
        };
        for (outer, of_outer) in alike(outers) {
            for (inner, of_inner) in alike(inners) {
                let folds = of_outer.saturating_mul(of_inner);
                let fold = [outer, inner];
                let moved = self.fetched(fold).saturating_add(self.written(fold));
                one.cycles = one.cycles.saturating_add(self.slot(fold).saturating_mul(folds));
                one.moved = one.moved.saturating_add(moved.saturating_mul(folds));
            }
        }
        Taken { cycles: one.cycles.saturating_mul(self.count), moved: one.moved.saturating_mul(self.count) }
    }
}

/// Of the folds of a loop those that differ, and how many are like each.
fn alike(folds: u64) -> impl Iterator<Item = (u64, u64)> {
    let middle = (folds > 4).then(|| (2, folds - 4));
    let first = (0..folds.min(2)).map(|fold| (fold, 1));
    let last = (folds.saturating_sub(2).max(2)..folds).map(|fold| (fold, 1));
    first.chain(middle).chain(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Half of a memory on the chip: the pieces that it holds, by where they begin.
    struct Half {
        bytes: u64,
        holds: Vec<[u64; 2]>,
    }

    impl Half {
        /// Bytes to fetch for a piece; it is held from now on if there is room for all that would come back.
        fn fetch(&mut self, piece: [u64; 2], bytes: u64, all_that_comes_back: u64) -> u64 {
            if self.holds.contains(&piece) {
                return 0;
            }
            if all_that_comes_back <= self.bytes {
                self.holds.push(piece);
            }
            bytes
        }
    }

    /// What each fold fetches and writes, from walking through the elements of a product in pieces of 4 x 4, each element of
    /// `width` bytes.
    fn transfers(dataflow: Dataflow, sram: Sram, gemm: Gemm, width: u64) -> Vec<[u64; 2]> {
        let Gemm { m, k, n, .. } = gemm;
        let half = |bytes: u64| Half { bytes: bytes / 2, holds: Vec::new() };
        let (mut inputs, mut weights) = (half(sram.inputs), half(sram.weights));
        let to = |begin: u64, size: u64| size.min(begin + 4) - begin;
        let mut found = Vec::new();
        match dataflow {
            Dataflow::OutputStationary => {
                for row in (0..m).step_by(4) {
                    inputs.holds.clear();
                    for column in (0..n).step_by(4) {
                        let (rows, columns) = (to(row, m), to(column, n));
                        let first = inputs.fetch([row, 0], rows * k * width, m.min(4) * k * width);
                        let second = weights.fetch([0, column], k * columns * width, k * n * width);
                        found.push([first + second, rows * columns * width]);
                    }
                }
            }
            // Inputs stationary is the same with the factors exchanged.
            _ => {
                let of_inputs = dataflow == Dataflow::InputStationary;
                let (m, n) = if of_inputs { (n, m) } else { (m, n) };
                let mut streamed = if of_inputs { weights } else { inputs };
                for column in (0..n).step_by(4) {
                    for term in (0..k).step_by(4) {
                        let (terms, columns) = (to(term, k), to(column, n));
                        let streams = streamed.fetch([0, term], m * terms * width, m * k * width);
                        let sums = m * columns * width;
                        let spills = m * n.min(4) * width > sram.outputs / 2;
                        let read = if spills && term > 0 { sums } else { 0 };
                        let written = if spills || term + 4 >= k { sums } else { 0 };
                        found.push([streams + terms * columns * width + read, written]);
                    }
                }
            }
        }
        found
    }

    /// The folds one by one, of 10 cycles each.
    fn walked(transfers: &[[u64; 2]], bytes_per_cycle: f64) -> Taken {
        let cycles_of = |bytes: u64| (bytes as f64 / bytes_per_cycle).ceil() as u64;
        let mut taken = Taken { cycles: cycles_of(transfers[0][0]), moved: 0 };
        for (number, [fetched, written]) in transfers.iter().enumerate() {
            let next = transfers.get(number + 1).map_or(0, |next| next[0]);
            let previous = if number == 0 { 0 } else { transfers[number - 1][1] };
            taken.cycles += cycles_of(next + previous).max(10);
            taken.moved += fetched + written;
        }
        taken.cycles += cycles_of(transfers[transfers.len() - 1][1]);
        taken
    }

    fn folds(dataflow: Dataflow, sram: Sram, gemm: Gemm, results: u64, bytes_per_cycle: f64) -> Folds {
        Folds::new(dataflow, [4, 4], 10, sram, gemm, results, bytes_per_cycle)
    }

    fn gemm(m: u64, k: u64, n: u64) -> Gemm {
        Gemm { m, k, n, count: 1, operands: [m * k, k * n] }
    }

    const NONE: Sram = Sram { inputs: 0, weights: 0, outputs: 0 };
    const PLENTY: Sram = Sram { inputs: 1 << 40, weights: 1 << 40, outputs: 1 << 40 };

    #[test]
    fn what_fits_is_moved_once_and_what_does_not_again_by_fold() {
        // 8 x 8 by 8 x 12 on 4 x 4, a byte an element: factors of 64 and 96 bytes, results of 96.
        let shape = gemm(8, 8, 12);
        for dataflow in [Dataflow::OutputStationary, Dataflow::WeightStationary, Dataflow::InputStationary] {
            assert_eq!(folds(dataflow, PLENTY, shape, 96, 1.0).taken().moved, 64 + 96 + 96);
        }
        // Rows of inputs for each of three columns of outputs; weights for each of two rows.
        let moved = |dataflow| folds(dataflow, NONE, shape, 96, 1.0).taken().moved;
        assert_eq!(moved(Dataflow::OutputStationary), 3 * 64 + 2 * 96 + 96);
        // Inputs for each of three columns; sums of two folds are written twice and read once.
        assert_eq!(moved(Dataflow::WeightStationary), 3 * 64 + 96 + 3 * 96);
        assert_eq!(moved(Dataflow::InputStationary), 64 + 2 * 96 + 3 * 96);
    }

    #[test]
    fn half_of_a_memory_keeps_what_the_other_half_does_not_hold() {
        let shape = gemm(8, 8, 12);
        let moved = |sram| folds(Dataflow::OutputStationary, sram, shape, 96, 1.0).taken().moved;
        // Four rows of inputs have 32 bytes, all weights 96.
        assert_eq!(moved(Sram { inputs: 64, ..NONE }), 64 + 2 * 96 + 96);
        assert_eq!(moved(Sram { inputs: 63, ..NONE }), 3 * 64 + 2 * 96 + 96);
        assert_eq!(moved(Sram { weights: 192, ..NONE }), 3 * 64 + 96 + 96);
        assert_eq!(moved(Sram { weights: 191, ..NONE }), 3 * 64 + 2 * 96 + 96);
        // A column of outputs has 8 x 4 of them.
        let moved =
            |outputs| folds(Dataflow::WeightStationary, Sram { outputs, ..PLENTY }, shape, 96, 1.0).taken().moved;
        assert_eq!((moved(64), moved(63)), (64 + 96 + 96, 64 + 96 + 3 * 96));
    }

    #[test]
    fn a_fast_memory_leaves_the_first_fetch_and_the_last_write_to_wait_for() {
        // Two rows and three columns of folds of 10 cycles; the first needs 32 + 32 bytes, the last leaves 16.
        let fast = folds(Dataflow::OutputStationary, PLENTY, gemm(8, 8, 12), 96, 64.0).taken();
        assert_eq!(fast.cycles, 1 + 6 * 10 + 1);
        // At 1 byte per cycle a fold waits for 32 bytes of weights and 16 of results: by hand, row by row.
        let slow = folds(Dataflow::OutputStationary, PLENTY, gemm(8, 8, 12), 96, 1.0).taken();
        assert_eq!(slow.cycles, 64 + (32 + (32 + 16) + (32 + 16)) + (16 + 16 + 16) + 16);
    }

    proptest! {
        #[test]
        fn the_closed_form_is_a_walk_over_the_folds(
            (m, k, n) in (1u64..60, 1u64..60, 1u64..60), count in 1u64..4, (inputs, weights, outputs) in
            (0u64..4000, 0u64..4000, 0u64..4000), width in 1u64..5, bytes_per_cycle in 0.5f64..200.0,
        ) {
            let sram = Sram { inputs, weights, outputs };
            let operands = [width * m * k * count, width * k * n * count];
            let (gemm, results) = (Gemm { m, k, n, count, operands }, width * m * n * count);
            for dataflow in [Dataflow::OutputStationary, Dataflow::WeightStationary, Dataflow::InputStationary] {
                let of = |sram| folds(dataflow, sram, gemm, results, bytes_per_cycle);
                let taken = of(sram).taken();
                let one = walked(&transfers(dataflow, sram, gemm, width), bytes_per_cycle);
                prop_assert_eq!(taken, Taken { cycles: count * one.cycles, moved: count * one.moved });
                // Every byte moves once at least, and no faster than memory and array allow.
                prop_assert!(taken.moved >= operands[0] + operands[1] + results);
                prop_assert!(taken.cycles as f64 >= taken.moved as f64 / bytes_per_cycle);
                let [outers, inners] = of(sram).numbers();
                prop_assert!(taken.cycles >= outers * inners * 10 * count);
                let more = of(Sram { inputs: inputs + 500, ..sram }).taken();
                prop_assert!(more.cycles <= taken.cycles && more.moved <= taken.moved);
            }
        }
    }
}
