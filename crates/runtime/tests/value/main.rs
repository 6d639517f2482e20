//! Reductions on memory against a slow reference, on all values of small types, all placements in memory, and by hand
//! at the edges.

mod edges;
mod placement;
mod reference;

use reference::{Reference, element_of, scalar};
use syncline_runtime::value::{Arithmetic, DataType, Instructions, Reduction};

/// The sets of instructions that this CPU has.
pub fn instructions() -> impl Iterator<Item = Instructions> {
    [Instructions::Basic, Instructions::Avx2].into_iter().filter(|one| one.present())
}

/// All reductions, with this factor.
pub fn reductions(data_type: DataType, factor: u64) -> impl Iterator<Item = Reduction> {
    Reduction::FIXED.into_iter().chain([Reduction::PreMulSum(scalar(data_type, factor))])
}

/// The bytes of elements.
pub fn bytes(data_type: DataType, elements: &[u64]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes().into_iter().take(data_type.size())).collect()
}

/// The elements of bytes.
pub fn elements(data_type: DataType, bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(data_type.size()).map(element_of).collect()
}

/// What comes of each pair of elements.
pub fn reduced(arithmetic: &Arithmetic, received: &[u64], local: &[u64]) -> Vec<u64> {
    let data_type = arithmetic.data_type();
    let (received, local) = (bytes(data_type, received), bytes(data_type, local));
    let mut result = vec![0; received.len()];
    assert_eq!(received.len(), local.len());
    // SAFETY: all three have as many bytes, and none overlap.
    unsafe { arithmetic.reduce(result.as_mut_ptr(), received.as_ptr(), local.as_ptr(), result.len()) };
    elements(data_type, &result)
}

/// What comes of each pair of elements, the local one of which is an input.
pub fn reduced_scaled(arithmetic: &Arithmetic, received: &[u64], local: &[u64]) -> Vec<u64> {
    let data_type = arithmetic.data_type();
    let (received, mut local) = (bytes(data_type, received), bytes(data_type, local));
    assert_eq!(received.len(), local.len());
    // SAFETY: both have as many bytes, and the result is where one of them is.
    unsafe { arithmetic.reduce_scaled(local.as_mut_ptr(), received.as_ptr(), local.as_ptr(), local.len()) };
    elements(data_type, &local)
}

/// What comes of each element if the reduction scales.
pub fn scaled(arithmetic: &Arithmetic, local: &[u64]) -> Vec<u64> {
    let mut local = bytes(arithmetic.data_type(), local);
    // SAFETY: it is read and written in place.
    unsafe { arithmetic.scale(local.as_mut_ptr(), local.as_ptr(), local.len()) };
    elements(arithmetic.data_type(), &local)
}

/// What comes of each element at the end.
pub fn divided(arithmetic: &Arithmetic, local: &[u64]) -> Vec<u64> {
    let mut local = bytes(arithmetic.data_type(), local);
    // SAFETY: it has that many bytes.
    unsafe { arithmetic.divide(local.as_mut_ptr(), local.len()) };
    elements(arithmetic.data_type(), &local)
}

/// Whether two elements are equal, or both NaN.
pub fn agree(reference: &Reference, a: u64, b: u64) -> bool {
    a == b || (reference.is_nan(a) && reference.is_nan(b))
}

/// Compares everything that can be done with pairs of elements with the reference.
pub fn compare(data_type: DataType, ranks: u32, factor: u64, received: &[u64], local: &[u64]) {
    let reference = Reference::new(data_type);
    for reduction in reductions(data_type, factor) {
        let inputs: Vec<u64> = local.iter().map(|&local| reference.scaled(reduction, ranks, local)).collect();
        let pairs = |local: &[u64]| -> Vec<u64> {
            let pairs = received.iter().zip(local);
            pairs.map(|(&received, &local)| reference.reduced(reduction, received, local)).collect()
        };
        let (plain, first_use) = (pairs(local), pairs(&inputs));
        let ends: Vec<u64> = local.iter().map(|&local| reference.divided(reduction, ranks, local)).collect();
        for instructions in instructions() {
            let arithmetic = Arithmetic::with(instructions, data_type, reduction, ranks).expect("a factor of the type");
            for (name, expected, results) in [
                ("reduce", &plain, reduced(&arithmetic, received, local)),
                ("reduce_scaled", &first_use, reduced_scaled(&arithmetic, received, local)),
                ("scale", &inputs, scaled(&arithmetic, local)),
                ("divide", &ends, divided(&arithmetic, local)),
            ] {
                for (i, (&result, &expected)) in results.iter().zip(expected).enumerate() {
                    assert!(
                        agree(&reference, result, expected),
                        "{name} {arithmetic:?} ({instructions:?}): {:#x}, {:#x} gives {result:#x}, not {expected:#x}",
                        received[i],
                        local[i]
                    );
                }
            }
        }
    }
}

/// A generator of elements that is the same in each run (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, 2014).
pub struct Random(pub u64);

impl Random {
    /// Any bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// An element; in half of all cases one at an edge of the type.
    pub fn element(&mut self, data_type: DataType) -> u64 {
        let bits = 8 * data_type.size() as u32;
        let all = u64::MAX >> (64 - bits);
        match self.bits() % 8 {
            0 => self.bits() % 5,
            1 => all.wrapping_sub(self.bits() % 5) & all,
            2 => (1 << (bits - 1)) + self.bits() % 5,
            3 if data_type.is_float() => top(data_type).wrapping_add(self.bits() % 5).wrapping_sub(2),
            _ => self.bits() & all,
        }
    }
}

/// The element that is infinity, or NaN if there is none.
fn top(data_type: DataType) -> u64 {
    match data_type {
        DataType::Float16 => 0x7c00,
        DataType::BFloat16 => 0x7f80,
        DataType::Float32 => u64::from(f32::INFINITY.to_bits()),
        DataType::Float64 => f64::INFINITY.to_bits(),
        DataType::Float8E5M2 => 0x7c,
        _ => 0x7f,
    }
}

#[test]
fn all_pairs_of_all_types_of_one_byte() {
    let (received, local): (Vec<u64>, Vec<u64>) = (0..65_536u64).map(|pair| (pair >> 8, pair & 0xff)).unzip();
    for data_type in DataType::ALL.into_iter().filter(|one| one.size() == 1) {
        for (ranks, factor) in [(1, 0x00), (3, 0x38), (200, 0xc1), (1024, 0x7f)] {
            compare(data_type, ranks, factor, &received, &local);
        }
    }
}

#[test]
fn all_values_of_all_types_of_two_bytes() {
    let all: Vec<u64> = (0..65_536).collect();
    for data_type in [DataType::Float16, DataType::BFloat16] {
        let mut random = Random(2);
        let others = [0, 0x8000, 1, 0x3c00, 0x3f80, 0x7bff, 0x7c00, 0x7e01, 0xff80];
        let others: Vec<u64> = others.into_iter().chain((0..3).map(|_| random.element(data_type))).collect();
        for (ranks, other) in (1..).zip(others) {
            compare(data_type, ranks, other, &all, &vec![other; all.len()]);
        }
        // In the other order, and each with another one.
        let shuffled: Vec<u64> = all.iter().map(|&element| element * 40_503 % 65_536).collect();
        compare(data_type, 6, 0x3555, &shuffled, &all);
    }
}

#[test]
fn values_of_wider_types() {
    for data_type in DataType::ALL.into_iter().filter(|one| one.size() > 2) {
        let mut random = Random(u64::from(data_type.code()));
        for ranks in [1, 2, 3, 7, 8, 255, 1000, u32::MAX] {
            let received: Vec<u64> = (0..2_000).map(|_| random.element(data_type)).collect();
            let local: Vec<u64> = (0..2_000).map(|_| random.element(data_type)).collect();
            compare(data_type, ranks, random.element(data_type), &received, &local);
        }
    }
}
