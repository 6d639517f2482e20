//! Where operands lie in memory.

use crate::reference::Reference;
use crate::{Random, agree, bytes, elements, instructions, reductions};
use proptest::prelude::*;
use syncline_runtime::value::{Arithmetic, DataType, Reduction};

/// What the result overwrites.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Onto {
    Neither,
    Received,
    Local,
    /// Both operands, which are the same.
    Both,
}

const ONTO: [Onto; 4] = [Onto::Neither, Onto::Received, Onto::Local, Onto::Both];

/// Bytes around each operand, which nothing may touch.
const MARGIN: usize = 40;

/// An operand, so many bytes after an address that is a multiple of 64.
fn placed(content: &[u8], offset: usize) -> (Vec<u8>, usize) {
    let mut memory = vec![0xa5; content.len() + 2 * MARGIN + 64];
    let start = memory.as_ptr().align_offset(64) + offset;
    let start = if start < MARGIN { start + 64 } else { start };
    memory.resize(start + content.len() + MARGIN, 0xa5);
    memory[start..start + content.len()].copy_from_slice(content);
    (memory, start)
}

fn check(arithmetic: &Arithmetic, ranks: u32, onto: Onto, offsets: [usize; 3], received: &[u64], local: &[u64]) {
    let data_type = arithmetic.data_type();
    let received = if onto == Onto::Both { local } else { received };
    let reference = Reference::new(data_type);
    for (scaled, name) in [(false, "reduce"), (true, "reduce_scaled")] {
        let (mut result, at) = placed(&bytes(data_type, &vec![0; local.len()]), offsets[0]);
        let (mut received_memory, received_at) = placed(&bytes(data_type, received), offsets[1]);
        let (mut local_memory, local_at) = placed(&bytes(data_type, local), offsets[2]);
        let (before_received, before_local) = (received_memory.clone(), local_memory.clone());
        // SAFETY: each operand begins within its memory and ends before its end; each memory is used by one pointer.
        let written = unsafe {
            let result = result.as_mut_ptr().add(at);
            let received = received_memory.as_mut_ptr().add(received_at);
            let local_start = local_memory.as_mut_ptr().add(local_at);
            let (result, received) = match onto {
                Onto::Neither => (result, received),
                Onto::Received => (received, received),
                Onto::Local => (local_start, received),
                Onto::Both => (local_start, local_start),
            };
            let bytes = local.len() * data_type.size();
            if scaled {
                arithmetic.reduce_scaled(result, received, local_start, bytes);
            } else {
                arithmetic.reduce(result, received, local_start, bytes);
            }
            std::slice::from_raw_parts(result, bytes).to_vec()
        };
        for (i, result) in elements(data_type, &written).into_iter().enumerate() {
            let input = if scaled { reference.scaled(arithmetic.reduction(), ranks, local[i]) } else { local[i] };
            let expected = reference.reduced(arithmetic.reduction(), received[i], input);
            assert!(
                agree(&reference, result, expected),
                "{name} {arithmetic:?} onto {onto:?} at {offsets:?}, element {i} of {}: {result:#x}, not {expected:#x}",
                local.len()
            );
        }
        // Nothing else was written.
        let clear = |memory: &mut Vec<u8>, at: usize| memory[at..at + written.len()].fill(0);
        let untouched = |mut memory: Vec<u8>, mut before: Vec<u8>, at: usize, overwritten: bool| {
            if overwritten {
                clear(&mut memory, at);
                clear(&mut before, at);
            }
            assert_eq!(memory, before, "{name} {arithmetic:?} onto {onto:?} of {} elements", local.len());
        };
        untouched(received_memory, before_received, received_at, onto == Onto::Received);
        untouched(local_memory, before_local, local_at, matches!(onto, Onto::Local | Onto::Both));
        result[at..at + written.len()].fill(0xa5);
        assert!(result.iter().all(|&byte| byte == 0xa5));
    }
}

#[test]
fn any_length_onto_either_operand_at_any_address() {
    for data_type in DataType::ALL {
        let mut random = Random(7 + u64::from(data_type.code()));
        for length in (0..=70).chain([127, 128, 129, 200]) {
            let received: Vec<u64> = (0..length).map(|_| random.element(data_type)).collect();
            let local: Vec<u64> = (0..length).map(|_| random.element(data_type)).collect();
            let offsets = [random.bits(), random.bits(), random.bits()].map(|offset| offset as usize % 64);
            for reduction in reductions(data_type, random.element(data_type)) {
                for instructions in instructions() {
                    let arithmetic = Arithmetic::with(instructions, data_type, reduction, 5).expect("of the type");
                    check(&arithmetic, 5, ONTO[length % 4], offsets, &received, &local);
                    check(&arithmetic, 5, ONTO[(length / 4) % 4], [0, 0, 0], &received, &local);
                }
            }
        }
    }
}

#[test]
fn changes_elsewhere_at_any_address() {
    for data_type in DataType::ALL {
        let mut random = Random(17 + u64::from(data_type.code()));
        for length in (0..=70).chain([200]) {
            let local: Vec<u64> = (0..length).map(|_| random.element(data_type)).collect();
            for reduction in reductions(data_type, random.element(data_type)) {
                for instructions in instructions() {
                    let arithmetic = Arithmetic::with(instructions, data_type, reduction, 5).expect("of the type");
                    let (from, from_at) = placed(&bytes(data_type, &local), random.bits() as usize % 64);
                    let (mut to, to_at) = placed(&vec![0; length * data_type.size()], random.bits() as usize % 64);
                    let size = length * data_type.size();
                    // SAFETY: each operand begins within its memory and ends before its end.
                    unsafe { arithmetic.scale(to.as_mut_ptr().add(to_at), from.as_ptr().add(from_at), size) };
                    let reference = Reference::new(data_type);
                    for (&local, result) in local.iter().zip(elements(data_type, &to[to_at..to_at + size])) {
                        let expected = reference.scaled(reduction, 5, local);
                        assert!(agree(&reference, result, expected), "{arithmetic:?} {local:#x}: {result:#x}");
                    }
                    // SAFETY: as above.
                    unsafe { arithmetic.divide(to.as_mut_ptr().add(to_at), size) };
                    for (&local, result) in local.iter().zip(elements(data_type, &to[to_at..to_at + size])) {
                        let scaled = reference.scaled(reduction, 5, local);
                        let expected = reference.divided(reduction, 5, scaled);
                        assert!(agree(&reference, result, expected), "{arithmetic:?} {local:#x}: {result:#x}");
                    }
                    to[to_at..to_at + size].fill(0xa5);
                    assert!(to.iter().all(|&byte| byte == 0xa5));
                }
            }
        }
    }
}

#[test]
fn no_elements_need_no_memory() {
    for data_type in DataType::ALL {
        for reduction in reductions(data_type, 1) {
            for instructions in instructions() {
                let arithmetic = Arithmetic::with(instructions, data_type, reduction, 2).expect("of the type");
                let (none, none_written) = (std::ptr::null(), std::ptr::null_mut());
                // SAFETY: nothing is read or written.
                unsafe {
                    arithmetic.scale(none_written, none, 0);
                    arithmetic.reduce(none_written, none, none, 0);
                    arithmetic.reduce_scaled(none_written, none, none, 0);
                    arithmetic.divide(none_written, 0);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any contributions, reduced one after the other as a ring does it.
    #[test]
    fn chains_of_ranks(
        code in 0u32..12,
        reduction in 0usize..6,
        ranks in 1u32..9,
        length in 0usize..90,
        offsets in prop::array::uniform3(0usize..64),
        seed: u64,
        vectors: bool,
    ) {
        let data_type = DataType::from_code(code).expect("a code");
        let mut random = Random(seed);
        let factor = random.element(data_type);
        let reduction = reductions(data_type, factor).nth(reduction).expect("there are six");
        let instructions = if vectors { instructions().last() } else { instructions().next() };
        let arithmetic = Arithmetic::with(instructions.expect("one"), data_type, reduction, ranks).expect("fits");
        let reference = Reference::new(data_type);
        let size = length * data_type.size();
        let first: Vec<u64> = (0..length).map(|_| random.element(data_type)).collect();
        let mut expected: Vec<u64> = first.iter().map(|&one| reference.scaled(reduction, ranks, one)).collect();
        let (mut sum, at) = placed(&bytes(data_type, &first), offsets[0]);
        // SAFETY: each operand begins within its memory and ends before its end.
        unsafe { arithmetic.scale(sum.as_mut_ptr().add(at), sum.as_ptr().add(at), size) };
        for _ in 1..ranks {
            let input: Vec<u64> = (0..length).map(|_| random.element(data_type)).collect();
            let (local, local_at) = placed(&bytes(data_type, &input), offsets[1]);
            // SAFETY: as above.
            unsafe {
                let sum = sum.as_mut_ptr().add(at);
                arithmetic.reduce_scaled(sum, sum, local.as_ptr().add(local_at), size);
            }
            for (sum, input) in expected.iter_mut().zip(input) {
                let input = reference.scaled(reduction, ranks, input);
                *sum = reference.reduced(reduction, *sum, input);
            }
        }
        // SAFETY: as above.
        unsafe { arithmetic.divide(sum.as_mut_ptr().add(at), size) };
        for (result, expected) in elements(data_type, &sum[at..at + size]).into_iter().zip(expected) {
            let expected = reference.divided(reduction, ranks, expected);
            prop_assert!(agree(&reference, result, expected), "{:?}: {:#x}, not {:#x}", arithmetic, result, expected);
        }
    }

    /// Maximum and minimum of floating-point numbers depend on no order, down to the sign of zero.
    #[test]
    fn extremes_have_no_order(code in 6u32..12, a: u64, b: u64, c: u64, larger: bool) {
        let data_type = DataType::from_code(code).expect("a code");
        let [a, b, c] = [a, b, c].map(|seed| Random(seed).element(data_type));
        let reduction = if larger { Reduction::Max } else { Reduction::Min };
        let arithmetic = Arithmetic::new(data_type, reduction, 3).expect("three ranks");
        let of = |a: u64, b: u64| crate::reduced(&arithmetic, &[a], &[b])[0];
        let reference = Reference::new(data_type);
        prop_assert!(agree(&reference, of(a, b), of(b, a)));
        prop_assert!(agree(&reference, of(of(a, b), c), of(a, of(b, c))));
    }
}
