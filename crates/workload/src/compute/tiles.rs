//! Matrix products in tiles and waves: efficiency by shape.
//!
//! A GPU cuts the result of a product into tiles and gives each to a streaming multiprocessor (SM), which works through all
//! terms of its sums in steps of `depth`. SMs that have a tile each work at the same time; the last wave of
//! tiles takes as long as the others, however few they are (NVIDIA: "Matrix Multiplication Background User's Guide",
//! sections 3 and 4, "tile quantization" and "wave quantization"):
//!
//! ```text
//!   tiles     = ceil(m / rows) * ceil(n / columns) * count * splits
//!   waves     = ceil(tiles / sms)
//!   terms     = ceil(ceil(k / splits) / depth) * depth + fill
//!   fraction  = sustained * x / (x + reuse),       x = rows columns / (rows + columns)
//!   compute   = waves * 2 rows columns terms / (fraction * peak / sms)
//!   memory    = (bytes + partial sums) / (sustained_memory * bandwidth)
//!   t         = max(compute, memory), and split_overhead if splits > 1
//! ```
//!
//! `sustained` is the fraction of its peak rate that an SM would reach with endlessly large tiles, and `reuse` says how much less it
//! is with others: a tile does `x` operations for each element of operands that it takes in, and at `x = reuse` it reaches
//! half. `fill` are the terms that an SM could have worked on while a tile begins and ends. Of all sizes and splits, those
//! that take the least time are taken, as libraries choose by a heuristic or by trying. Where sums are split (split-k), each part
//! writes a result in FP32, which a second kernel reads and adds. All of these are declared constants; docs/compute.md says which
//! values fit a GPU, and how well.
//!
//! Rows of operands that do not begin at multiples of what memory delivers at once, because `k` or `n` is no multiple of
//! `alignment` elements of two bytes (half as many of four, twice as many of one), are read piece by piece: SMs then reach
//! `misaligned` of that rate (same guide, section 2).
//!
//! All products of a kernel are side by side, as in a batched product; steps of a recurrent layer are not, and are taken to be
//! faster than they can be. Left out: the order in which tiles run and what of it is found in the cache, and clocks that depend
//! on power.

use crate::kernel_kind::Layout;
use crate::layer::Gemm;
use crate::parameters::{NpuError, require_positive};
use serde::Deserialize;
use syncline_core::units::PS_PER_S;

/// Bytes of a partial sum.
const PARTIAL_BYTES: u64 = 4;

/// How products are cut, and how fast the parts are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiles {
    /// Rows and columns of tiles.
    #[serde(rename = "tiles")]
    pub sizes: Vec<[u32; 2]>,
    /// Into how many parts sums may be split.
    pub splits: Vec<u32>,
    /// Terms of a step.
    pub depth: u32,
    /// Terms that could have been worked on while a tile begins and ends.
    pub fill: f64,
    /// SMs that compute has.
    pub sms: u32,
    /// The fraction of the peak rate that endless tiles reach.
    pub sustained: f64,
    /// Operations per element of operands at which half of it is reached.
    pub reuse: f64,
    /// The fraction of the memory bandwidth that kernels reach.
    pub sustained_memory: f64,
    /// What a split costs beside its partial sums.
    pub split_overhead_ps: u64,
    /// Elements of two bytes that memory delivers at once.
    pub alignment: u32,
    /// The fraction of the rate that is left where `k` or `n` is no multiple of it.
    pub misaligned: f64,
    /// What passes between the start of a product and that of its tiles.
    #[serde(default)]
    pub start_ps: u64,
    /// The part of the last wave that takes as long as if it were full.
    #[serde(default = "one")]
    pub last_wave: f64,
    /// The fraction of the rate that is left where no factor is transposed, and where the first is.
    #[serde(default = "as_fast")]
    pub layouts: [f64; 2],
}

fn one() -> f64 {
    1.0
}

fn as_fast() -> [f64; 2] {
    [1.0; 2]
}

impl Tiles {
    /// Refuses what describes no products.
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if something is zero that must not be, or there is no size or no split.
    pub fn checked(self) -> Result<Tiles, NpuError> {
        require_positive(&[
            ("tiles", self.sizes.len() as f64),
            ("splits", self.splits.len() as f64),
            ("depth", self.depth.into()),
            ("sms", self.sms.into()),
            ("sustained", self.sustained),
            ("sustained_memory", self.sustained_memory),
            ("alignment", self.alignment.into()),
            ("misaligned", self.misaligned),
            ("layouts", self.layouts[0]),
            ("layouts", self.layouts[1]),
        ])?;
        if self.last_wave != 0.0 {
            require_positive(&[("last_wave", self.last_wave)])?;
        }
        if self.fill != 0.0 {
            require_positive(&[("fill", self.fill)])?;
        }
        if self.reuse != 0.0 {
            require_positive(&[("reuse", self.reuse)])?;
        }
        for &side in self.sizes.iter().flatten() {
            require_positive(&[("tiles", side.into())])?;
        }
        for &split in &self.splits {
            require_positive(&[("splits", split.into())])?;
        }
        Ok(self)
    }

    /// Elements that memory delivers at once, of the width that the second factor says.
    fn aligned(&self, gemm: Gemm) -> u64 {
        let elements = gemm.k.saturating_mul(gemm.n).saturating_mul(gemm.count);
        let of_two = u64::from(self.alignment);
        match (gemm.operands[1] as f64 / elements as f64).round() as u64 {
            1 => 2 * of_two,
            4 => (of_two / 2).max(1),
            _ => of_two,
        }
    }

    /// Seconds of products that move `bytes`, on an NPU with such a peak rate and memory bandwidth.
    pub fn seconds(&self, gemm: Gemm, layout: Layout, bytes: u64, flops_per_s: f64, memory_bytes_per_s: f64) -> f64 {
        let memory = memory_bytes_per_s * self.sustained_memory;
        if [gemm.m, gemm.k, gemm.n, gemm.count].contains(&0) {
            return bytes as f64 / memory;
        }
        let alignment = self.aligned(gemm);
        let is_aligned = gemm.k.is_multiple_of(alignment) && gemm.n.is_multiple_of(alignment);
        let reached = match layout {
            _ if !is_aligned => self.misaligned,
            Layout::Nt => 1.0,
            Layout::Nn => self.layouts[0],
            Layout::Tn => self.layouts[1],
        };
        let per_sm = flops_per_s / f64::from(self.sms) * reached;
        let overhead_of_split_s = self.split_overhead_ps as f64 / PS_PER_S as f64;
        let mut least = f64::INFINITY;
        for &[rows, columns] in &self.sizes {
            let (rows, columns) = (u64::from(rows), u64::from(columns));
            let operations = rows as f64 * columns as f64 / (rows + columns) as f64;
            let rate = per_sm * self.sustained * operations / (operations + self.reuse);
            let results = gemm.m.div_ceil(rows).saturating_mul(gemm.n.div_ceil(columns)).saturating_mul(gemm.count);
            for &split in &self.splits {
                let split = u64::from(split);
                let tiles = results.saturating_mul(split);
                let whole = tiles.div_ceil(self.sms.into()) as f64;
                let waves = whole - (1.0 - self.last_wave) * (whole - (tiles as f64 / f64::from(self.sms)).max(1.0));
                let depth = u64::from(self.depth);
                let steps = gemm.k.div_ceil(split).div_ceil(depth);
                let terms = steps.saturating_mul(depth) as f64 + self.fill;
                let compute_s = waves * 2.0 * rows as f64 * columns as f64 * terms / rate;
                let partial = if split == 1 { 0 } else { 2 * split * PARTIAL_BYTES };
                let partials = gemm.m.saturating_mul(gemm.n).saturating_mul(gemm.count).saturating_mul(partial);
                let memory_s = bytes.saturating_add(partials) as f64 / memory;
                let overhead_s = if split == 1 { 0.0 } else { overhead_of_split_s };
                least = least.min(compute_s.max(memory_s) + overhead_s);
            }
        }
        least + self.start_ps as f64 / PS_PER_S as f64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMORY: f64 = f64::MAX;

    fn gemm(m: u64, k: u64, n: u64, count: u64) -> Gemm {
        Gemm { m, k, n, count, operands: [0; 2] }
    }

    /// One size on 10 SMs of 1 FLOP/s each.
    pub fn tiles(rows: u32, columns: u32, splits: &[u32], fill: u32) -> Tiles {
        Tiles {
            sizes: vec![[rows, columns]],
            splits: splits.to_vec(),
            depth: 8,
            fill: fill.into(),
            sms: 10,
            sustained: 0.5,
            reuse: 0.0,
            sustained_memory: 1.0,
            split_overhead_ps: 0,
            alignment: 1,
            misaligned: 1.0,
            start_ps: 0,
            last_wave: 1.0,
            layouts: [1.0; 2],
        }
    }

    #[test]
    fn the_last_tile_and_the_last_wave_take_as_long_as_full_ones() {
        let of = |m, k, n, count| tiles(4, 2, &[1], 0).seconds(gemm(m, k, n, count), Layout::Nt, 0, 10.0, MEMORY);
        let wave = 2.0 * 4.0 * 2.0 * 16.0 / 0.5;
        assert_eq!(of(4, 16, 20, 1), wave); // ten tiles
        assert_eq!(of(3, 9, 19, 1), wave); // ten that are not full
        assert_eq!(of(4, 16, 21, 1), 2.0 * wave); // eleven
        assert_eq!(of(4, 16, 4, 5), wave); // two tiles for each of five products
        assert_eq!(of(0, 16, 4, 5), 0.0);
    }

    #[test]
    fn splits_fill_a_wave_and_pay_with_partial_sums_and_a_second_kernel() {
        let of =
            |splits: &[u32], memory| tiles(4, 2, splits, 8).seconds(gemm(4, 80, 4, 1), Layout::Nt, 64, 10.0, memory);
        assert_eq!(of(&[1], MEMORY), 2.0 * 8.0 * 88.0 / 0.5);
        assert_eq!(of(&[1, 5], MEMORY), 2.0 * 8.0 * 24.0 / 0.5);
        // 64 bytes, and five FP32 numbers for each of 16 results that are written and read.
        assert_eq!(of(&[5], 0.5), f64::from(64 + 2 * 5 * 4 * 16) / 0.5);
        assert_eq!(of(&[1, 5], 0.01), 64.0 / 0.01);
        let slower = Tiles { split_overhead_ps: 100 * PS_PER_S, ..tiles(4, 2, &[1, 5], 8) };
        assert_eq!(slower.seconds(gemm(4, 80, 4, 1), Layout::Nt, 64, 10.0, MEMORY), 100.0 + 2.0 * 8.0 * 24.0 / 0.5);
    }

    #[test]
    fn larger_tiles_use_operands_more_often_and_smaller_ones_fill_waves() {
        let both = Tiles { sizes: vec![[8, 8], [4, 4]], depth: 1, sustained: 1.0, reuse: 2.0, ..tiles(1, 1, &[1], 0) };
        // 4 and 2 operations per element: two thirds and a half of the peak.
        let of = |m, n| both.seconds(gemm(m, 3, n, 1), Layout::Nt, 0, 10.0, MEMORY);
        assert!((of(80, 8) - 3.0 * 128.0 * 1.5).abs() < 1e-9); // a full wave of large tiles
        assert!((of(4, 40) - 3.0 * 32.0 * 2.0).abs() < 1e-9); // half a wave of them, or a full one of small ones
    }

    #[test]
    fn what_is_not_aligned_is_slower() {
        let of = |k, n| {
            Tiles { alignment: 8, misaligned: 0.25, ..tiles(4, 2, &[1], 0) }.seconds(
                gemm(4, k, n, 1),
                Layout::Nt,
                0,
                10.0,
                MEMORY,
            )
        };
        assert_eq!([of(16, 9), of(15, 8)], [4.0 * of(16, 16); 2]);
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
            (m, k, n) in (1u64..80, 1u64..40, 1u64..80), count in 1u64..4, rows in 1u32..20, columns in 1u32..20,
            sms in 1u32..9,
        ) {
            let tiles = Tiles { depth: 1, sms, sustained: 1.0, ..tiles(rows, columns, &[1], 0) };
            let gemm = gemm(m, k, n, count);
            let walked = walked(rows.into(), columns.into(), sms as usize, gemm) as f64;
            let seconds = tiles.seconds(gemm, Layout::Nt, 0, f64::from(sms), MEMORY);
            prop_assert!((seconds - walked).abs() <= 1e-9 * walked);
        }
    }

    #[test]
    fn wider_elements_need_fewer_of_them_to_be_aligned() {
        let tiles = Tiles { alignment: 8, misaligned: 0.25, ..tiles(4, 2, &[1], 0) };
        let of = |n, bytes| {
            let gemm = Gemm { operands: [4 * 16 * bytes, 16 * n * bytes], ..gemm(4, 16, n, 1) };
            tiles.seconds(gemm, Layout::Nt, 0, 10.0, MEMORY)
        };
        let wave = 2.0 * 4.0 * 2.0 * 16.0 / 0.5;
        assert_eq!([of(16, 1), of(8, 2), of(4, 4)], [wave; 3]);
        assert_eq!([of(8, 1), of(4, 2), of(2, 4)], [4.0 * wave; 3]);
        let tiles = Tiles { layouts: [0.5, 0.25], ..tiles };
        let of_layouts = |n| {
            [Layout::Nt, Layout::Nn, Layout::Tn].map(|layout| tiles.seconds(gemm(4, 16, n, 1), layout, 0, 10.0, MEMORY))
        };
        assert_eq!(of_layouts(16), [wave, 2.0 * wave, 4.0 * wave]);
        assert_eq!(of_layouts(2), [4.0 * wave; 3]); // rows that begin anywhere are as slow in all
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let good = || tiles(1, 1, &[1], 0);
        for (bad, field) in [
            (Tiles { sizes: vec![], ..good() }, "tiles"),
            (Tiles { sizes: vec![[0, 1]], ..good() }, "tiles"),
            (Tiles { splits: vec![], ..good() }, "splits"),
            (Tiles { splits: vec![0], ..good() }, "splits"),
            (Tiles { depth: 0, ..good() }, "depth"),
            (Tiles { sms: 0, ..good() }, "sms"),
            (Tiles { sustained: f64::NAN, ..good() }, "sustained"),
            (Tiles { sustained_memory: 0.0, ..good() }, "sustained_memory"),
            (Tiles { alignment: 0, ..good() }, "alignment"),
            (Tiles { misaligned: 0.0, ..good() }, "misaligned"),
            (Tiles { reuse: -1.0, ..good() }, "reuse"),
            (Tiles { fill: -1.0, ..good() }, "fill"),
        ] {
            let Err(NpuError::NotPositive { field: named, .. }) = bad.checked() else { panic!("{field} accepted") };
            assert_eq!(named, field);
        }
        assert!(good().checked().is_ok());
    }
}
