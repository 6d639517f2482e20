//! Matrix products in tiles and waves: efficiency by shape.
//!
//! A GPU cuts the result of a product into tiles and gives each to a streaming multiprocessor (SM), which works through all
//! terms of its sums in steps of `depth`. SMs that have a tile each work at the same time; the last wave of
//! tiles takes as long as the others, however few they are (NVIDIA: "Matrix Multiplication Background User's Guide",
//! sections 3 and 4, "tile quantization" and "wave quantization"):
//!
//! ```text
//!   tiles = ceil(m / rows) * ceil(n / columns) * count * splits
//!   waves = ceil(tiles / sms)
//!   terms = ceil(k / splits / depth) * depth + fill
//!   t     = waves * 2 rows columns terms / (sustained * peak / sms)
//! ```
//!
//! `sustained` is the fraction of an SM's peak rate that a tile of that size reaches in the middle of its sums, a declared
//! constant: larger tiles use each operand more often. `fill` are the terms that an SM could have worked on while a tile begins and
//! ends. Of all tile sizes and splits, that which takes the least time is taken, as libraries choose by a heuristic or by
//! trying. A product is never faster than memory: its bytes move at `sustained_memory` of the bandwidth. Where sums are
//! split (split-k), each part writes a result in FP32, and these are read again.
//!
//! All products of a kernel are side by side, as in a batched product; steps of a recurrent layer are not, and are taken to be
//! faster than they can be. Left out: the order in which tiles run and what of it is found in the cache, and clocks that depend
//! on power.

use crate::layer::Gemm;
use crate::parameters::{NpuError, require_positive};

/// Bytes of a partial sum.
const PARTIAL_BYTES: u64 = 4;

/// A size of tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tile {
    /// Rows of the result.
    pub rows: u32,
    /// Columns of the result.
    pub columns: u32,
    /// The fraction of an SM's peak rate that is reached.
    pub sustained: f64,
}

/// How products are cut, and how fast the parts are.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiles {
    sizes: Vec<Tile>,
    splits: Vec<u32>,
    depth: u32,
    fill: u32,
    sms: u32,
    sustained_memory: f64,
}

impl Tiles {
    /// Tiles of any of these sizes on so many SMs, sums in steps of `depth` terms and in any of so many `splits`, `fill` terms
    /// more for each tile, and a fraction of the memory bandwidth that kernels reach.
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if something is zero, or there is no size or no split.
    pub fn new(
        sizes: Vec<Tile>,
        splits: Vec<u32>,
        depth: u32,
        fill: u32,
        sms: u32,
        sustained_memory: f64,
    ) -> Result<Tiles, NpuError> {
        require_positive(&[
            ("tiles", sizes.len() as f64),
            ("splits", splits.len() as f64),
            ("depth", depth.into()),
            ("sms", sms.into()),
            ("sustained_memory", sustained_memory),
        ])?;
        for tile in &sizes {
            require_positive(&[
                ("tiles", tile.rows.into()),
                ("tiles", tile.columns.into()),
                ("tiles", tile.sustained),
            ])?;
        }
        for &split in &splits {
            require_positive(&[("splits", split.into())])?;
        }
        Ok(Tiles { sizes, splits, depth, fill, sms, sustained_memory })
    }

    /// The fraction of the memory bandwidth that kernels reach.
    pub fn sustained_memory(&self) -> f64 {
        self.sustained_memory
    }

    /// Seconds of products that move `bytes`, on an NPU with such a peak rate and memory bandwidth.
    pub fn seconds(&self, gemm: Gemm, bytes: u64, flops_per_s: f64, memory_bytes_per_s: f64) -> f64 {
        if [gemm.m, gemm.k, gemm.n, gemm.count].contains(&0) {
            return bytes as f64 / (memory_bytes_per_s * self.sustained_memory);
        }
        let per_sm = flops_per_s / f64::from(self.sms);
        let ways = self.sizes.iter().flat_map(|tile| self.splits.iter().map(move |&split| (tile, u64::from(split))));
        let seconds = |(tile, split): (&Tile, u64)| {
            let (rows, columns) = (u64::from(tile.rows), u64::from(tile.columns));
            let results = gemm.m.div_ceil(rows).saturating_mul(gemm.n.div_ceil(columns)).saturating_mul(gemm.count);
            let waves = results.saturating_mul(split).div_ceil(self.sms.into());
            let depth = u64::from(self.depth);
            let terms = gemm.k.div_ceil(split).div_ceil(depth).saturating_mul(depth).saturating_add(self.fill.into());
            let flops = 2.0 * rows as f64 * columns as f64 * terms as f64;
            let compute_s = waves as f64 * flops / (per_sm * tile.sustained);
            let partial = if split == 1 { 0 } else { 2 * split * PARTIAL_BYTES };
            let partials = gemm.m.saturating_mul(gemm.n).saturating_mul(gemm.count).saturating_mul(partial);
            let moved = bytes.saturating_add(partials);
            compute_s.max(moved as f64 / (memory_bytes_per_s * self.sustained_memory))
        };
        ways.map(seconds).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMORY: f64 = f64::MAX;

    fn gemm(m: u64, k: u64, n: u64, count: u64) -> Gemm {
        Gemm { m, k, n, count, operands: [0; 2] }
    }

    /// One size on 10 SMs of 1 FLOP/s each.
    fn tiles(rows: u32, columns: u32, splits: &[u32], fill: u32) -> Tiles {
        let tile = Tile { rows, columns, sustained: 0.5 };
        Tiles::new(vec![tile], splits.to_vec(), 8, fill, 10, 1.0).unwrap()
    }

    #[test]
    fn the_last_tile_and_the_last_wave_take_as_long_as_full_ones() {
        let of = |m, k, n, count| tiles(4, 2, &[1], 0).seconds(gemm(m, k, n, count), 0, 10.0, MEMORY);
        let wave = 2.0 * 4.0 * 2.0 * 16.0 / 0.5;
        assert_eq!(of(4, 16, 20, 1), wave); // ten tiles
        assert_eq!(of(3, 9, 19, 1), wave); // ten that are not full
        assert_eq!(of(4, 16, 21, 1), 2.0 * wave); // eleven
        assert_eq!(of(4, 16, 4, 5), wave); // two tiles for each of five products
        assert_eq!(of(0, 16, 4, 5), 0.0);
    }

    #[test]
    fn splits_fill_a_wave_and_pay_with_partial_sums() {
        let of = |splits: &[u32], memory| tiles(4, 2, splits, 8).seconds(gemm(4, 80, 4, 1), 64, 10.0, memory);
        assert_eq!(of(&[1], MEMORY), 2.0 * 8.0 * 88.0 / 0.5);
        assert_eq!(of(&[1, 5], MEMORY), 2.0 * 8.0 * 24.0 / 0.5);
        // 64 bytes, and five FP32 numbers for each of 16 results that are written and read.
        assert_eq!(of(&[5], 0.5), (64 + 2 * 5 * 4 * 16) as f64 / 0.5);
        assert_eq!(of(&[1, 5], 0.01), 64.0 / 0.01);
    }

    #[test]
    fn a_table_of_sizes_gives_the_best() {
        let sizes = vec![Tile { rows: 8, columns: 8, sustained: 0.8 }, Tile { rows: 4, columns: 4, sustained: 0.4 }];
        let both = Tiles::new(sizes, vec![1], 1, 0, 10, 1.0).unwrap();
        // A full wave of large tiles is faster, a part of one slower.
        assert_eq!(both.seconds(gemm(80, 1, 8, 1), 0, 10.0, MEMORY), 128.0 / 0.8);
        assert_eq!(both.seconds(gemm(4, 1, 40, 1), 0, 10.0, MEMORY), 32.0 / 0.4);
    }

    /// Tiles given to SMs one by one: each takes the next one when it is done with one.
    fn walked(rows: u64, columns: u64, sms: usize, gemm: Gemm) -> u64 {
        let mut busy = vec![0u64; sms];
        for _ in 0..gemm.count {
            for _ in (0..gemm.m).step_by(rows as usize) {
                for _ in (0..gemm.n).step_by(columns as usize) {
                    let next = busy.iter_mut().min().unwrap();
                    *next += 2 * rows * columns * gemm.k;
                }
            }
        }
        busy.into_iter().max().unwrap()
    }

    proptest! {
        #[test]
        fn waves_are_what_a_walk_over_the_tiles_takes(
            (m, k, n) in (1u64..80, 1u64..40, 1u64..80), count in 1u64..4, rows in 1u32..20, columns in 1u32..20, sms in 1u32..9,
        ) {
            let tile = Tile { rows, columns, sustained: 1.0 };
            let tiles = Tiles::new(vec![tile], vec![1], 1, 0, sms, 1.0).unwrap();
            let gemm = gemm(m, k, n, count);
            let walked = walked(rows.into(), columns.into(), sms as usize, gemm);
            prop_assert_eq!(tiles.seconds(gemm, 0, f64::from(sms), MEMORY), walked as f64);
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let tile = Tile { rows: 1, columns: 1, sustained: 1.0 };
        for (sizes, splits, depth, sms, memory, field) in [
            (vec![], vec![1], 1, 1, 1.0, "tiles"),
            (vec![Tile { rows: 0, ..tile }], vec![1], 1, 1, 1.0, "tiles"),
            (vec![Tile { sustained: f64::NAN, ..tile }], vec![1], 1, 1, 1.0, "tiles"),
            (vec![tile], vec![], 1, 1, 1.0, "splits"),
            (vec![tile], vec![0], 1, 1, 1.0, "splits"),
            (vec![tile], vec![1], 0, 1, 1.0, "depth"),
            (vec![tile], vec![1], 1, 0, 1.0, "sms"),
            (vec![tile], vec![1], 1, 1, 0.0, "sustained_memory"),
        ] {
            let Err(NpuError::NotPositive { field: named, .. }) = Tiles::new(sizes, splits, depth, 0, sms, memory)
            else {
                panic!("{field} accepted")
            };
            assert_eq!(named, field);
        }
    }
}
