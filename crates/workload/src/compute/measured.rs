//! Times of kernels from a table of measurements.
//!
//! * A product whose shape was measured takes what was measured; `m x k` times `k x n` is the same work as its transpose.
//! * Any other product has an efficiency between those of the measured shapes that are nearest. The efficiency of a kernel is the
//!   time of its roofline over its own:
//!
//!   ```text
//!   floor = max(flops / peak, bytes / bandwidth)        time = floor / efficiency
//!   lg efficiency = sum of w_i lg efficiency_i / sum of w_i,   w_i = 1 / distance_i^2,   the nearest NEAREST shapes
//!   ```
//!
//!   Distances are those of (lg m, lg k, lg n, lg count). Shapes whose `k` and `n` are multiples of `alignment` elements, and
//!   those where one is not, say nothing of each other: rows of the latter begin where memory cannot deliver them at once.
//!   That shapes between two measured ones behave like both is an
//!   assumption; tiles and waves make steps that are not seen (Shepard: "A two-dimensional interpolation function for
//!   irregularly-spaced data", ACM 1968).
//! * A shape is *outside* if one of its sizes is smaller or larger than in all measured shapes. It is given the efficiency of
//!   the nearest, and counted, since nothing speaks for that.
//! * Kernels without products are told apart by their bytes only: between two measured sizes, efficiency is interpolated in
//!   the same way; a smaller kernel takes as long as the smallest, and a larger one is as efficient as the largest.
//!   Both are outside.
//!
//! Where compute has less of an NPU than was measured, a measured time grows as the floor does.
//!
//! `lg` is a logarithm to base 2 that is linear between powers of two: it is made of additions only, so that results are the
//! same on all machines.

use crate::layer::{Demand, Gemm};
use crate::parameters::{NpuError, require_positive};
use std::num::NonZeroU32;

/// Shapes that take part in an interpolation.
pub const NEAREST: usize = 8;

/// A measured product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredProduct {
    /// Rows, terms, columns, and how many there are.
    pub shape: [u64; 4],
    /// Bytes that they move.
    pub bytes: u64,
    /// What they took, in picoseconds.
    pub time_ps: u64,
}

/// A measured kernel without products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredStream {
    /// Bytes that it moves.
    pub bytes: u64,
    /// What it took, in picoseconds.
    pub time_ps: u64,
}

/// Where a time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A model of the NPU.
    Model,
    /// A measurement of this shape.
    Measured,
    /// Measurements of shapes around it.
    Interpolated,
    /// Measurements of other shapes, with nothing on one side.
    Outside,
}

/// A table of measurements on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// By shape, each once.
    products: Vec<Point<4>>,
    /// By bytes, each once.
    streams: Vec<Point<1>>,
    /// The least and the most of each size of a product.
    range: [[u64; 2]; 4],
    /// Elements that memory delivers at once.
    alignment: u64,
    flops_per_s: f64,
    memory_bytes_per_s: f64,
}

/// A measured kernel at its place.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point<const N: usize> {
    sizes: [u64; N],
    at: [f64; N],
    seconds: f64,
    /// The logarithm of its efficiency.
    efficiency: f64,
}

impl Measurements {
    /// What was measured on a device of such a peak rate and memory bandwidth, whose memory delivers so many elements at once.
    /// Of several measurements of one shape, the first counts.
    ///
    /// # Errors
    /// [`NpuError::NotPositive`] if a size or a time is zero, or there is no product.
    pub fn new(
        products: &[MeasuredProduct],
        streams: &[MeasuredStream],
        alignment: NonZeroU32,
        flops_per_s: f64,
        memory_bytes_per_s: f64,
    ) -> Result<Measurements, NpuError> {
        require_positive(&[
            ("flops_per_s", flops_per_s),
            ("memory_bytes_per_s", memory_bytes_per_s),
            ("products", products.len() as f64),
        ])?;
        let mut points = Vec::with_capacity(products.len());
        for product in products {
            let [m, k, n, count] = product.shape;
            for size in [m, k, n, count, product.bytes, product.time_ps] {
                require_positive(&[("products", size as f64)])?;
            }
            let gemm = Gemm { m, k, n, count, operands: [0; 2] };
            let floor = floor(Demand::of_gemm(gemm, product.bytes), flops_per_s, memory_bytes_per_s);
            points.push(Point::new(product.shape, product.time_ps, floor));
        }
        let mut others = Vec::with_capacity(streams.len());
        for stream in streams {
            require_positive(&[("streams", stream.bytes as f64), ("streams", stream.time_ps as f64)])?;
            let floor = stream.bytes as f64 / memory_bytes_per_s;
            others.push(Point::new([stream.bytes], stream.time_ps, floor));
        }
        points.sort_by_key(|p: &Point<4>| p.sizes); // stable: the first of a shape stays the first
        points.dedup_by_key(|p| p.sizes);
        others.sort_by_key(|p: &Point<1>| p.sizes);
        others.dedup_by_key(|p| p.sizes);
        let range = std::array::from_fn(|axis| {
            let sizes = points.iter().map(|p| p.sizes[axis]);
            [sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0)]
        });
        let alignment = u64::from(alignment.get());
        Ok(Measurements { products: points, streams: others, range, alignment, flops_per_s, memory_bytes_per_s })
    }

    /// Seconds of a kernel on an NPU with such a peak rate and memory bandwidth, and where they come from.
    pub fn seconds(&self, demand: Demand, flops_per_s: f64, memory_bytes_per_s: f64) -> (f64, Basis) {
        let now = floor(demand, flops_per_s, memory_bytes_per_s);
        let then = floor(demand, self.flops_per_s, self.memory_bytes_per_s);
        match demand.gemm {
            Some(gemm) if ![gemm.m, gemm.k, gemm.n, gemm.count].contains(&0) => self.of_product(gemm, now, then),
            _ => self.of_stream(demand, now, then),
        }
    }

    fn of_product(&self, gemm: Gemm, now: f64, then: f64) -> (f64, Basis) {
        let Gemm { m, k, n, count, .. } = gemm;
        let ways = [[m, k, n, count], [n, k, m, count]];
        for way in ways {
            if let Ok(found) = self.products.binary_search_by_key(&way, |p| p.sizes) {
                return (self.products[found].seconds * (now / then), Basis::Measured);
            }
        }
        let is_inside =
            |way: [u64; 4]| way.iter().zip(&self.range).all(|(size, [low, high])| low <= size && size <= high);
        let basis = if ways.into_iter().any(is_inside) { Basis::Interpolated } else { Basis::Outside };
        let at = ways.map(|way| way.map(lg));
        let is_aligned = self.is_aligned(&ways[0]);
        let of_like = self.nearby(at, |point| self.is_aligned(&point.sizes) == is_aligned);
        let efficiency = of_like.or_else(|| self.nearby(at, |_| true)).expect("a product at least");
        (now / exp2(efficiency), basis)
    }

    /// Whether rows of operands begin at multiples of what memory delivers at once.
    fn is_aligned(&self, &[_, k, n, _]: &[u64; 4]) -> bool {
        k.is_multiple_of(self.alignment) && n.is_multiple_of(self.alignment)
    }

    /// The logarithm of the efficiency of the nearest shapes among some, those at small distances counting most; none
    /// if there are none.
    fn nearby(&self, ways: [[f64; 4]; 2], counts: impl Fn(&Point<4>) -> bool) -> Option<f64> {
        let mut nearest: [(f64, f64); NEAREST] = [(f64::INFINITY, 0.0); NEAREST];
        for point in self.products.iter().filter(|&point| counts(point)) {
            let distance = ways.iter().map(|way| squared(way, &point.at)).fold(f64::INFINITY, f64::min);
            if distance < nearest[NEAREST - 1].0 {
                let place = nearest.partition_point(|other| other.0 <= distance);
                nearest[place..].rotate_right(1);
                nearest[place] = (distance, point.efficiency);
            }
        }
        let found = nearest.iter().filter(|near| near.0.is_finite());
        let (sum, weights) = found.fold((0.0, 0.0), |(sum, weights), &(distance, efficiency)| {
            (sum + efficiency / distance, weights + 1.0 / distance)
        });
        (weights > 0.0).then(|| sum / weights)
    }

    fn of_stream(&self, demand: Demand, now: f64, then: f64) -> (f64, Basis) {
        let (Some(first), Some(last)) = (self.streams.first(), self.streams.last()) else {
            return (now, Basis::Model);
        };
        let bytes = demand.bytes;
        if demand.flops as f64 / self.flops_per_s > bytes as f64 / self.memory_bytes_per_s {
            return (now, Basis::Model); // not a kernel like those that were measured
        }
        if bytes < first.sizes[0] {
            return (first.seconds, Basis::Outside);
        }
        let next = self.streams.partition_point(|p| p.sizes[0] < bytes);
        let Some(above) = self.streams.get(next) else { return (now / exp2(last.efficiency), Basis::Outside) };
        if above.sizes[0] == bytes {
            return (above.seconds * (now / then), Basis::Measured);
        }
        let below = self.streams[next - 1];
        let part = (lg(bytes) - below.at[0]) / (above.at[0] - below.at[0]);
        (now / exp2(below.efficiency + part * (above.efficiency - below.efficiency)), Basis::Interpolated)
    }
}

impl<const N: usize> Point<N> {
    fn new(sizes: [u64; N], time_ps: u64, floor: f64) -> Point<N> {
        let seconds = time_ps as f64 / syncline_core::units::PS_PER_S as f64;
        Point { sizes, at: sizes.map(lg), seconds, efficiency: logarithm(floor / seconds) }
    }
}

/// The time of the roofline.
fn floor(demand: Demand, flops_per_s: f64, memory_bytes_per_s: f64) -> f64 {
    (demand.flops as f64 / flops_per_s).max(demand.bytes as f64 / memory_bytes_per_s)
}

fn squared(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

fn lg(size: u64) -> f64 {
    logarithm(size as f64)
}

/// A logarithm to base 2 of a positive normal number, linear between powers of two.
fn logarithm(number: f64) -> f64 {
    let bits = number.to_bits();
    let exponent = (bits >> MANTISSA) as f64 - BIAS;
    exponent + (bits & ((1 << MANTISSA) - 1)) as f64 / (1u64 << MANTISSA) as f64
}

/// The number of which this is the logarithm, within the range of normal numbers.
fn exp2(logarithm: f64) -> f64 {
    let exponent = logarithm.floor().clamp(1.0 - BIAS, BIAS);
    let power = f64::from_bits(((exponent + BIAS) as u64) << MANTISSA);
    power * (1.0 + (logarithm - exponent).clamp(0.0, 1.0))
}

/// Bits of the fraction of a double, and what its exponent is biased by.
const MANTISSA: u32 = 52;
const BIAS: f64 = 1023.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A device of 1 FLOP/ps and 1 B/ps.
    const RATE: f64 = 1e12;

    fn product(shape: [u64; 4], time_ps: u64) -> MeasuredProduct {
        MeasuredProduct { shape, bytes: 1, time_ps }
    }

    fn demand([m, k, n, count]: [u64; 4]) -> Demand {
        Demand::of_gemm(Gemm { m, k, n, count, operands: [0; 2] }, 1)
    }

    fn table(products: &[MeasuredProduct], streams: &[(u64, u64)]) -> Measurements {
        let streams: Vec<_> = streams.iter().map(|&(bytes, time_ps)| MeasuredStream { bytes, time_ps }).collect();
        Measurements::new(products, &streams, NonZeroU32::MIN, RATE, RATE).unwrap()
    }

    fn ps((seconds, basis): (f64, Basis)) -> (u64, Basis) {
        ((seconds * 1e12).round() as u64, basis)
    }

    #[test]
    fn a_measured_shape_takes_what_was_measured_either_way_up() {
        let table = table(&[product([8, 4, 2, 1], 777), product([8, 4, 2, 1], 999), product([2, 4, 16, 3], 55)], &[]);
        assert_eq!(ps(table.seconds(demand([8, 4, 2, 1]), RATE, RATE)), (777, Basis::Measured));
        assert_eq!(ps(table.seconds(demand([2, 4, 8, 1]), RATE, RATE)), (777, Basis::Measured));
        assert_eq!(ps(table.seconds(demand([16, 4, 2, 3]), RATE, RATE)), (55, Basis::Measured));
        // With half of the NPU it takes twice as long.
        assert_eq!(ps(table.seconds(demand([8, 4, 2, 1]), RATE / 2.0, RATE)), (1554, Basis::Measured));
    }

    #[test]
    fn halfway_between_two_shapes_efficiency_is_their_geometric_mean() {
        // 2048 and 8192 FLOPs, at a quarter and at the whole of the peak; 4096 in between, at half of it.
        let two = [product([8, 8, 16, 1], 4 * 2048), product([32, 8, 16, 1], 8192)];
        let found = table(&two, &[]).seconds(demand([16, 8, 16, 1]), RATE, RATE);
        assert_eq!(ps(found), (2 * 4096, Basis::Interpolated));
        // Four times as large as the largest: as efficient as both, mostly as the nearer one.
        let (outside, basis) = table(&two, &[]).seconds(demand([128, 8, 16, 1]), RATE, RATE);
        assert_eq!(basis, Basis::Outside);
        assert!((1.0..2.0).contains(&(outside * 1e12 / 32768.0)));
    }

    #[test]
    fn shapes_that_are_not_aligned_say_nothing_of_those_that_are() {
        let two = [product([8, 8, 16, 1], 4 * 2048), product([8, 8, 33, 1], 1_000_000)];
        let table = Measurements::new(&two, &[], NonZeroU32::new(8).unwrap(), RATE, RATE).unwrap();
        assert_eq!(ps(table.seconds(demand([8, 8, 32, 1]), RATE, RATE)), (4 * 4096, Basis::Interpolated));
        let slow = table.seconds(demand([8, 8, 31, 1]), RATE, RATE).0;
        assert!(slow > 0.9e-6);
        // Where there is no other shape, one has to do.
        let alone = Measurements::new(&two[..1], &[], NonZeroU32::new(8).unwrap(), RATE, RATE).unwrap();
        assert_eq!(ps(alone.seconds(demand([8, 8, 31, 1]), RATE, RATE)).0, 4 * 2 * 8 * 8 * 31);
    }

    #[test]
    fn kernels_without_products_are_interpolated_by_their_bytes() {
        let table = table(&[product([8, 8, 8, 1], 9)], &[(4096, 4 * 4096), (1024, 16 * 1024)]);
        let of = |bytes| ps(table.seconds(Demand::new(0, bytes), RATE, RATE));
        assert_eq!(of(1024), (16 * 1024, Basis::Measured));
        assert_eq!(of(2048), (8 * 2048, Basis::Interpolated));
        assert_eq!(of(512), (16 * 1024, Basis::Outside));
        assert_eq!(of(8192), (4 * 8192, Basis::Outside));
        assert_eq!(ps(table.seconds(Demand::new(9000, 8192), RATE, RATE)), (9000, Basis::Model));
        let nothing = self::table(&[product([8, 8, 8, 1], 9)], &[]);
        assert_eq!(ps(nothing.seconds(Demand::new(0, 77), RATE, RATE)), (77, Basis::Model));
    }

    /// The nearest shapes by sorting all of them.
    fn reference(products: &[MeasuredProduct], [m, k, n, count]: [u64; 4]) -> f64 {
        let at = |shape: [u64; 4]| shape.map(|size| logarithm(size as f64));
        let distance = |shape| {
            [[m, k, n, count], [n, k, m, count]].map(|way| squared(&at(way), &at(shape))).into_iter().reduce(f64::min)
        };
        let mut all: Vec<_> = products.iter().map(|p| (distance(p.shape).unwrap(), p)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.shape.cmp(&b.1.shape)));
        let flops = |[m, k, n, count]: [u64; 4]| (2 * m * k * n * count) as f64;
        let (mut sum, mut weights) = (0.0, 0.0);
        for (distance, p) in all.into_iter().take(NEAREST) {
            sum += logarithm(flops(p.shape) / p.time_ps as f64) / distance;
            weights += 1.0 / distance;
        }
        flops([m, k, n, count]) / exp2(sum / weights) / 1e12
    }

    proptest! {
        #[test]
        fn the_search_finds_what_sorting_finds(
            shapes in proptest::collection::btree_set([1u64..200, 1u64..200, 1u64..200, 1u64..4], 1..40),
            times in proptest::collection::vec(1000u64..1_000_000, 40), asked in [1u64..300, 1u64..300, 1u64..300, 1u64..5],
        ) {
            let products: Vec<_> = shapes.into_iter().zip(times).map(|(shape, time)| product(shape, time)).collect();
            let (found, basis) = table(&products, &[]).seconds(demand(asked), RATE, RATE);
            if basis != Basis::Measured {
                let expected = reference(&products, asked);
                prop_assert!((found - expected).abs() <= 1e-9 * expected, "{} is not {}", found, expected);
            }
        }

        #[test]
        fn the_logarithm_and_its_inverse_agree(number in 1e-300f64..1e300) {
            let again = exp2(logarithm(number));
            prop_assert!((again - number).abs() <= 1e-12 * number);
            prop_assert!((logarithm(number) - number.log2()).abs() < 0.0861);
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (products, streams, field) in [
            (vec![], vec![], "products"),
            (vec![product([0, 1, 1, 1], 1)], vec![], "products"),
            (vec![product([1; 4], 0)], vec![], "products"),
            (vec![product([1; 4], 1)], vec![MeasuredStream { bytes: 0, time_ps: 1 }], "streams"),
        ] {
            let refused = Measurements::new(&products, &streams, NonZeroU32::MIN, 1.0, 1.0);
            let Err(NpuError::NotPositive { field: named, .. }) = refused else { panic!("{field} accepted") };
            assert_eq!(named, field);
        }
    }
}
