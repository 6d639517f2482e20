//! Edges of the types, by hand.

use crate::reference::{Reference, scalar};
use crate::{divided, instructions, reduced, reduced_scaled, scaled};
use half::f16;
use syncline_runtime::value::{Arithmetic, DataType, Instructions, Reduction, Scalar, Unsupported};

/// What comes of a pair of elements with all instructions there are, which must be the same.
fn pair(data_type: DataType, reduction: Reduction, received: u64, local: u64) -> u64 {
    let results: Vec<u64> = instructions()
        .map(|instructions| {
            let arithmetic = Arithmetic::with(instructions, data_type, reduction, 1).expect("of the type");
            // Many, so that vectors are used too.
            let results = reduced(&arithmetic, &[received; 100], &[local; 100]);
            assert!(results.iter().all(|&result| result == results[0]), "{results:x?}");
            results[0]
        })
        .collect();
    assert!(results.iter().all(|&result| result == results[0]), "{data_type:?} {reduction:?} {results:x?}");
    results[0]
}

#[test]
fn codes_names_and_sizes() {
    let names = DataType::ALL.map(|data_type| (data_type.code(), data_type.name(), data_type.size()));
    // `ncclDataType_t` of nccl.h, where 2 is also ncclInt and 6, 7 and 8 are also ncclHalf, ncclFloat and ncclDouble.
    let expected = [
        (0, "int8", 1),
        (1, "uint8", 1),
        (2, "int32", 4),
        (3, "uint32", 4),
        (4, "int64", 8),
        (5, "uint64", 8),
        (6, "float16", 2),
        (7, "float32", 4),
        (8, "float64", 8),
        (9, "bfloat16", 2),
        (10, "float8_e4m3fn", 1),
        (11, "float8_e5m2", 1),
    ];
    assert_eq!(names, expected);
    assert!(DataType::ALL.iter().all(|&one| DataType::from_code(one.code()) == Some(one)));
    assert_eq!(DataType::from_code(12), None);
    assert_eq!(DataType::ALL.iter().filter(|one| one.is_float()).count(), 6);
    let names = Reduction::FIXED.map(|reduction| (reduction.code(), reduction.name()));
    assert_eq!(names, [(Some(0), "sum"), (Some(1), "prod"), (Some(2), "max"), (Some(3), "min"), (Some(4), "avg")]);
    assert!(Reduction::FIXED.iter().all(|&one| Reduction::from_code(one.code().expect("fixed")) == Some(one)));
    assert_eq!(Reduction::from_code(5), None);
    assert_eq!(Reduction::PreMulSum(scalar(DataType::Int8, 3)).code(), None);
}

#[test]
fn scalars_have_the_size_of_their_type() {
    assert_eq!(Scalar::from_bytes(DataType::Float16, &[1]), None);
    assert_eq!(Scalar::from_bytes(DataType::Float16, &[1, 2, 3]), None);
    let scalar = Scalar::from_bytes(DataType::Float16, &[1, 2]).expect("two bytes");
    assert_eq!((scalar.data_type(), scalar.bytes()), (DataType::Float16, &[1, 2][..]));
}

#[test]
fn what_is_unsupported_is_said() {
    let factor = scalar(DataType::Float32, 0);
    let error = Arithmetic::new(DataType::Float16, Reduction::PreMulSum(factor), 2).expect_err("another type");
    assert_eq!(error, Unsupported::Factor { data: DataType::Float16, factor: DataType::Float32 });
    assert_eq!(
        error.to_string(),
        "the factor of the reduction is float32 and the data float16; both must be of one type"
    );
    let error = Arithmetic::new(DataType::Int8, Reduction::Avg, 0).expect_err("no ranks");
    assert_eq!(
        (error, error.to_string().as_str()),
        (Unsupported::NoRanks, "0 ranks are reduced; at least 1 is needed")
    );
    for missing in [Instructions::Basic, Instructions::Avx2].into_iter().filter(|one| !one.present()) {
        let error = Arithmetic::with(missing, DataType::Int8, Reduction::Sum, 1).expect_err("no such instructions");
        assert_eq!(error, Unsupported::Instructions(missing));
    }
}

#[test]
fn who_scales_and_who_divides() {
    for data_type in DataType::ALL {
        let of = |reduction| {
            let arithmetic = Arithmetic::new(data_type, reduction, 4).expect("of the type");
            (arithmetic.scales(), arithmetic.divides())
        };
        for reduction in [Reduction::Sum, Reduction::Prod, Reduction::Max, Reduction::Min] {
            assert_eq!(of(reduction), (false, false));
        }
        assert_eq!(of(Reduction::Avg), (data_type.is_float(), !data_type.is_float()));
        assert_eq!(of(Reduction::PreMulSum(scalar(data_type, 1))), (true, false));
    }
}

#[test]
fn integers_wrap_around() {
    assert_eq!(pair(DataType::Int8, Reduction::Sum, 0x7f, 0x01), 0x80);
    assert_eq!(pair(DataType::Uint8, Reduction::Sum, 0xff, 0x02), 0x01);
    assert_eq!(pair(DataType::Int32, Reduction::Prod, 0x8000_0000, 0xffff_ffff), 0x8000_0000);
    assert_eq!(pair(DataType::Uint64, Reduction::Prod, 1 << 63, 3), 1 << 63);
    assert_eq!(pair(DataType::Int8, Reduction::Max, 0xff, 0x01), 0x01);
    assert_eq!(pair(DataType::Uint8, Reduction::Max, 0xff, 0x01), 0xff);
}

#[test]
fn averages_of_integers_are_cut_off_toward_zero() {
    let average = |data_type, ranks, sum: i64| {
        let arithmetic = Arithmetic::new(data_type, Reduction::Avg, ranks).expect("at least a rank");
        let mask = u64::MAX >> (64 - 8 * data_type.size());
        let result = divided(&arithmetic, &[sum as u64 & mask])[0];
        // The sign, again.
        if result > mask / 2 { (result | !mask) as i64 } else { result as i64 }
    };
    for signed in [DataType::Int8, DataType::Int32, DataType::Int64] {
        assert_eq!([-7, -8, -1, 7, 8].map(|sum| average(signed, 4, sum)), [-1, -2, 0, 1, 2], "{signed:?}");
    }
    assert_eq!(average(DataType::Int8, 1, -128), -128);
    assert_eq!(average(DataType::Int8, 200, -128), 0);
    assert_eq!(average(DataType::Uint8, 2, 255), 127);
    assert_eq!(average(DataType::Int32, 3, i64::from(i32::MIN)), -715_827_882);
    assert_eq!(average(DataType::Int64, 3, i64::MIN), i64::MIN / 3);
    assert_eq!(average(DataType::Uint64, 2, -1), i64::MAX);
    assert_eq!(average(DataType::Uint32, u32::MAX, 0xffff_ffff), 1);
}

#[test]
fn averages_of_numbers_multiply_first() {
    // 40,000 + 40,000 would be infinite in float16.
    let arithmetic = Arithmetic::new(DataType::Float16, Reduction::Avg, 2).expect("two ranks");
    let big = u64::from(f16::from_f32(40_000.0).to_bits());
    let first = scaled(&arithmetic, &[big])[0];
    assert_eq!(reduced_scaled(&arithmetic, &[first], &[big])[0], big);
    // A third in float32, and 1/1,024 in a type whose smallest number is twice as much: a tie, which goes to zero.
    let third = Arithmetic::new(DataType::Float32, Reduction::Avg, 3).expect("three ranks");
    assert_eq!(scaled(&third, &[u64::from(1f32.to_bits())])[0], u64::from((1f32 / 3.0).to_bits()));
    let one = 0x38;
    for (ranks, share) in [(512, 0x01), (1023, 0x01), (1024, 0x00)] {
        let arithmetic = Arithmetic::new(DataType::Float8E4M3, Reduction::Avg, ranks).expect("ranks");
        assert_eq!(scaled(&arithmetic, &[one])[0], share, "{ranks}");
    }
}

#[test]
fn overflow_of_small_numbers() {
    // 65,504 + 16 is a tie between that and what would be 65,536.
    let half = |number: f32| u64::from(f16::from_f32(number).to_bits());
    assert_eq!(pair(DataType::Float16, Reduction::Sum, half(65_504.0), half(15.99)), half(65_504.0));
    assert_eq!(pair(DataType::Float16, Reduction::Sum, half(65_504.0), half(16.0)), 0x7c00);
    assert_eq!(pair(DataType::BFloat16, Reduction::Sum, 0xff7f, 0xff7f), 0xff80);
    // E4M3: 448 + 448 saturates; there is no infinity. -448 * 448 too.
    assert_eq!(pair(DataType::Float8E4M3, Reduction::Sum, 0x7e, 0x7e), 0x7e);
    assert_eq!(pair(DataType::Float8E4M3, Reduction::Prod, 0xfe, 0x7e), 0xfe);
    // E5M2: so does 57,344 + 57,344, and infinity plus one.
    assert_eq!(pair(DataType::Float8E5M2, Reduction::Sum, 0x7b, 0x7b), 0x7b);
    assert_eq!(pair(DataType::Float8E5M2, Reduction::Sum, 0xfc, 0x3c), 0xfb);
    // The maximum is what one of the ranks has.
    assert_eq!(pair(DataType::Float8E5M2, Reduction::Max, 0x7c, 0x3c), 0x7c);
}

#[test]
fn sums_and_products_with_nan_are_nan() {
    for (data_type, nan, one) in [
        (DataType::Float16, 0x7e00, 0x3c00),
        (DataType::BFloat16, 0xffc0, 0x3f80),
        (DataType::Float32, 0x7fc0_0000, 0x3f80_0000),
        (DataType::Float64, 0x7ff8 << 48, 0x3ff0 << 48),
        (DataType::Float8E4M3, 0xff, 0x38),
        (DataType::Float8E5M2, 0x7d, 0x3c),
    ] {
        let reference = Reference::new(data_type);
        for reduction in [Reduction::Sum, Reduction::Prod] {
            for result in [pair(data_type, reduction, nan, one), pair(data_type, reduction, one, nan)] {
                assert!(reference.is_nan(result), "{data_type:?} {reduction:?} {result:#x}");
                assert!(data_type.size() > 1 || result == 0x7f);
            }
        }
        for reduction in [Reduction::Max, Reduction::Min] {
            assert_eq!(pair(data_type, reduction, nan, one), one);
            assert_eq!(pair(data_type, reduction, one, nan), one);
            assert!(reference.is_nan(pair(data_type, reduction, nan, nan)));
        }
    }
    // The difference of infinities.
    assert!(Reference::new(DataType::Float16).is_nan(pair(DataType::Float16, Reduction::Sum, 0x7c00, 0xfc00)));
    assert_eq!(pair(DataType::Float8E5M2, Reduction::Sum, 0x7c, 0xfc), 0x7f);
}

#[test]
fn zeros_have_signs() {
    for data_type in DataType::ALL.into_iter().filter(|one| one.is_float()) {
        let negative = 1 << (8 * data_type.size() - 1);
        for (a, b) in [(0, negative), (negative, 0)] {
            assert_eq!(pair(data_type, Reduction::Max, a, b), 0, "{data_type:?}");
            assert_eq!(pair(data_type, Reduction::Min, a, b), negative, "{data_type:?}");
            assert_eq!(pair(data_type, Reduction::Sum, a, b), 0, "{data_type:?}");
            assert_eq!(pair(data_type, Reduction::Prod, a, b), negative, "{data_type:?}");
        }
        assert_eq!(pair(data_type, Reduction::Sum, negative, negative), negative, "{data_type:?}");
    }
}

/// NCCL widens 8 bits to binary16, works there, and converts back; the library does it in `f32`. For all pairs that
/// is the same.
#[test]
fn eight_bits_as_nccl_does_it() {
    for data_type in [DataType::Float8E4M3, DataType::Float8E5M2] {
        let reference = Reference::new(data_type);
        let format = reference.format();
        let half = |code: u64| f16::from_f64(format.decode(code as u32));
        let (received, local): (Vec<u64>, Vec<u64>) = (0..65_536u64).map(|pair| (pair >> 8, pair & 0xff)).unzip();
        for instructions in instructions() {
            for reduction in [Reduction::Sum, Reduction::Prod] {
                let arithmetic = Arithmetic::with(instructions, data_type, reduction, 1).expect("of the type");
                let results = reduced(&arithmetic, &received, &local);
                for ((&a, &b), &result) in received.iter().zip(&local).zip(&results) {
                    let between = if reduction == Reduction::Sum { half(a) + half(b) } else { half(a) * half(b) };
                    let expected = u64::from(format.encode(between.to_f64()));
                    assert!(
                        result == expected || (reference.is_nan(result) && between.is_nan()),
                        "{arithmetic:?} {a:#x} {b:#x}: {result:#x}, not {expected:#x}"
                    );
                }
            }
        }
    }
}
