//! Data types of a collective operation, and how its contributions are reduced.
//!
//! Names, codes and meanings are those of NCCL, so that a program finds here what it gets on GPUs. What a reduction
//! does with values at the edges of a type:
//!
//! * **Integers** wrap around. An average adds, and divides the sum by the number of ranks at the end, toward zero.
//! * **Floating point.** Each operation is done once and rounded to nearest even in the data type; the types of 8 and
//!   16 bits do it in `f32`, which gives the same bits as one exact operation that is rounded once. An average
//!   multiplies each input by 1/ranks before it is used, and the factor and the product are rounded to the data type
//!   too: sums of `float16` do not overflow, and for more than 1,023 ranks the factor of [`DataType::Float8E4M3`] is
//!   zero.
//! * **Overflow** gives infinity, but in the types of 8 bits the largest finite number, of the same sign (448 in
//!   E4M3, 57,344 in E5M2); so do sums and products that are infinite because an operand was. This is the saturating
//!   conversion of the OCP specification of 8-bit floating point (OFP8 1.0), which CUDA's types of 8 bits have and
//!   which NCCL's reductions therefore do. PyTorch's own conversions give NaN (E4M3, up to 2.11) or infinity (E5M2)
//!   instead.
//! * **NaN.** Sums and products are NaN if an operand is. Maximum and minimum leave NaN out: they are NaN only if
//!   both operands are. This is what CUDA's `fmax`, `fmin`, `__hmax` and `__hmin` do, and NCCL with them;
//!   `torch.maximum` differs. Which NaN comes out is not said, except that there is but one in the types of 8 bits,
//!   `0x7f`, unless an operand is passed on by a maximum or minimum.
//! * **Zeros.** For maximum and minimum, -0 is less than +0, so that their results depend on no order of the ranks.
//! * **Subnormal numbers** are kept. A thread that has told its CPU to flush those of `f32` and `f64` flushes them
//!   here too.
//!
//! [`Arithmetic`] does it on memory: loops over elements, compiled once for any CPU and once for the vectors of
//! newer ones ([`Instructions`]).

mod arithmetic;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod element;
mod formats;
mod loops;
mod small;

pub use arithmetic::{Arithmetic, Unsupported};
pub use loops::Instructions;

/// A type of the elements of a buffer. Its discriminant is its code in NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// `i8`.
    Int8 = 0,
    /// `u8`; also what PyTorch sends booleans as.
    Uint8 = 1,
    /// `i32`.
    Int32 = 2,
    /// `u32`.
    Uint32 = 3,
    /// `i64`.
    Int64 = 4,
    /// `u64`.
    Uint64 = 5,
    /// IEEE 754's binary16.
    Float16 = 6,
    /// `f32`.
    Float32 = 7,
    /// `f64`.
    Float64 = 8,
    /// The upper half of an `f32`.
    BFloat16 = 9,
    /// OCP's 8-bit floating point with 4 bits of exponent: up to 448, no infinities, NaN is `0x7f` and `0xff`.
    Float8E4M3 = 10,
    /// OCP's 8-bit floating point with 5 bits of exponent: the upper half of a binary16, up to 57,344.
    Float8E5M2 = 11,
}

impl DataType {
    /// All, by code.
    pub const ALL: [DataType; 12] = [
        DataType::Int8,
        DataType::Uint8,
        DataType::Int32,
        DataType::Uint32,
        DataType::Int64,
        DataType::Uint64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::BFloat16,
        DataType::Float8E4M3,
        DataType::Float8E5M2,
    ];

    /// The type with this code of NCCL (`ncclDataType_t`).
    pub fn from_code(code: u32) -> Option<DataType> {
        DataType::ALL.get(code as usize).copied()
    }

    /// Its code in NCCL (`ncclDataType_t`).
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Its name, as in PyTorch.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::Int8 => "int8",
            DataType::Uint8 => "uint8",
            DataType::Int32 => "int32",
            DataType::Uint32 => "uint32",
            DataType::Int64 => "int64",
            DataType::Uint64 => "uint64",
            DataType::Float16 => "float16",
            DataType::Float32 => "float32",
            DataType::Float64 => "float64",
            DataType::BFloat16 => "bfloat16",
            DataType::Float8E4M3 => "float8_e4m3fn",
            DataType::Float8E5M2 => "float8_e5m2",
        }
    }

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            DataType::Int8 | DataType::Uint8 | DataType::Float8E4M3 | DataType::Float8E5M2 => 1,
            DataType::Float16 | DataType::BFloat16 => 2,
            DataType::Int32 | DataType::Uint32 | DataType::Float32 => 4,
            DataType::Int64 | DataType::Uint64 | DataType::Float64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        self.code() >= DataType::Float16.code()
    }
}

/// A value of a data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scalar {
    data_type: DataType,
    /// Its bytes in memory, followed by zeros.
    bytes: [u8; 8],
}

impl Scalar {
    /// The value whose bytes in memory these are; none unless there are as many as an element has.
    pub fn from_bytes(data_type: DataType, bytes: &[u8]) -> Option<Scalar> {
        let mut all = [0; 8];
        (bytes.len() == data_type.size()).then(|| {
            all[..bytes.len()].copy_from_slice(bytes);
            Scalar { data_type, bytes: all }
        })
    }

    /// Its type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Its bytes in memory.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.data_type.size()]
    }
}

/// How contributions are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// They are added.
    Sum,
    /// They are multiplied.
    Prod,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Their average.
    Avg,
    /// Each is multiplied by this factor, and the products are added.
    PreMulSum(Scalar),
}

impl Reduction {
    /// Those without a factor, by code.
    pub const FIXED: [Reduction; 5] = [Reduction::Sum, Reduction::Prod, Reduction::Max, Reduction::Min, Reduction::Avg];

    /// The reduction with this code of NCCL (`ncclRedOp_t`). Those with a factor get codes of their own at run time,
    /// from 5.
    pub fn from_code(code: u32) -> Option<Reduction> {
        Reduction::FIXED.get(code as usize).copied()
    }

    /// Its code in NCCL (`ncclRedOp_t`), unless it has a factor.
    pub const fn code(self) -> Option<u32> {
        match self {
            Reduction::Sum => Some(0),
            Reduction::Prod => Some(1),
            Reduction::Max => Some(2),
            Reduction::Min => Some(3),
            Reduction::Avg => Some(4),
            Reduction::PreMulSum(_) => None,
        }
    }

    /// Its name, as in PyTorch.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Prod => "prod",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::Avg => "avg",
            Reduction::PreMulSum(_) => "premul_sum",
        }
    }
}
