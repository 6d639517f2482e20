//! A data type with a reduction.

use super::element::{Divisible, Element, Real};
use super::loops::{
    Compiled, Constant, Instructions, Larger, Loop, Operands, Pairs, Product, Products, Quotients, ScaledSums, Smaller,
    Sum, compiled,
};
use super::small::{Binary16, Brain, E4M3, E5M2, Small};
use super::{DataType, Reduction, Scalar};
use std::num::Wrapping;
use std::{error, fmt, ptr};

/// What cannot be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The factor of [`Reduction::PreMulSum`] is of another type than the data.
    Factor {
        /// The type of the data.
        data: DataType,
        /// That of the factor.
        factor: DataType,
    },
    /// There are no ranks to average over.
    NoRanks,
    /// The CPU lacks these instructions.
    Instructions(Instructions),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Factor { data, factor } => {
                let (data, factor) = (data.name(), factor.name());
                write!(out, "the factor of the reduction is {factor} and the data {data}; both must be of one type")
            }
            Unsupported::NoRanks => write!(out, "0 ranks are reduced; at least 1 is needed"),
            Unsupported::Instructions(missing) => write!(out, "this CPU has no {missing:?} instructions"),
        }
    }
}

impl error::Error for Unsupported {}

/// What is computed when a number of ranks reduces data of one type: the loops for it, and the constants they use.
///
/// For all of its methods on memory: pointers need no alignment; `bytes` is a multiple of the size of an element, may
/// be 0, and each pointer has so many to read or, for results, to read and write.
#[derive(Clone, Copy)]
pub struct Arithmetic {
    data_type: DataType,
    reduction: Reduction,
    ranks: u32,
    constant: Constant,
    reduce: Compiled,
    /// If inputs are scaled.
    scaling: Option<Scaling>,
    /// If results are divided.
    divide: Option<Compiled>,
}

#[derive(Clone, Copy)]
struct Scaling {
    scale: Compiled,
    reduce: Compiled,
}

impl fmt::Debug for Arithmetic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arithmetic { data_type, reduction, ranks, .. } = self;
        out.debug_struct("Arithmetic")
            .field("data_type", data_type)
            .field("reduction", reduction)
            .field("ranks", ranks)
            .finish_non_exhaustive()
    }
}

impl Arithmetic {
    /// With the best instructions of this CPU.
    ///
    /// # Errors
    /// [`Unsupported`], if the factor of the reduction is of another type, or there are no ranks.
    pub fn new(data_type: DataType, reduction: Reduction, ranks: u32) -> Result<Arithmetic, Unsupported> {
        Arithmetic::with(Instructions::best(), data_type, reduction, ranks)
    }

    /// With these instructions, for comparisons.
    ///
    /// # Errors
    /// [`Unsupported`], if the factor of the reduction is of another type, there are no ranks, or the CPU lacks the
    /// instructions.
    pub fn with(
        instructions: Instructions,
        data_type: DataType,
        reduction: Reduction,
        ranks: u32,
    ) -> Result<Arithmetic, Unsupported> {
        if !instructions.present() {
            return Err(Unsupported::Instructions(instructions));
        }
        if ranks == 0 {
            return Err(Unsupported::NoRanks);
        }
        if let Reduction::PreMulSum(factor) = reduction
            && factor.data_type() != data_type
        {
            return Err(Unsupported::Factor { data: data_type, factor: factor.data_type() });
        }
        let request = Request { instructions, data_type, reduction, ranks };
        Ok(match data_type {
            DataType::Int8 => request.integers::<Wrapping<i8>>(),
            DataType::Uint8 => request.integers::<Wrapping<u8>>(),
            DataType::Int32 => request.integers::<Wrapping<i32>>(),
            DataType::Uint32 => request.integers::<Wrapping<u32>>(),
            DataType::Int64 => request.integers::<Wrapping<i64>>(),
            DataType::Uint64 => request.integers::<Wrapping<u64>>(),
            DataType::Float16 => request.reals::<Small<Binary16>>(),
            DataType::Float32 => request.reals::<f32>(),
            DataType::Float64 => request.reals::<f64>(),
            DataType::BFloat16 => request.reals::<Small<Brain>>(),
            DataType::Float8E4M3 => request.reals::<Small<E4M3>>(),
            DataType::Float8E5M2 => request.reals::<Small<E5M2>>(),
        })
    }

    /// The type of the data.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// How it is reduced.
    pub fn reduction(&self) -> Reduction {
        self.reduction
    }

    /// How many ranks reduce.
    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// What inputs are multiplied by, as the bytes of an element and zeros; none, if they are not scaled.
    pub(crate) fn factor(&self) -> Option<[u8; 8]> {
        match self.constant {
            Constant::Factor(bytes) => Some(bytes),
            Constant::None | Constant::Divisor(_) => None,
        }
    }

    /// Whether inputs are scaled before they are used: by the factor of [`Reduction::PreMulSum`], or by 1/ranks for
    /// an average of floating-point numbers.
    pub fn scales(&self) -> bool {
        self.scaling.is_some()
    }

    /// Whether results are divided at the end: by the number of ranks, for an average of integers.
    pub fn divides(&self) -> bool {
        self.divide.is_some()
    }

    /// Writes what `src` has, scaled if inputs are, to `dst`.
    ///
    /// # Safety
    /// See [`Arithmetic`]. The two begin at the same place or do not overlap.
    pub unsafe fn scale(&self, dst: *mut u8, src: *const u8, bytes: usize) {
        self.check(bytes);
        // SAFETY: as demanded of the caller.
        unsafe {
            match self.scaling {
                Some(scaling) => (scaling.scale)(self.operands(dst, ptr::null(), src, bytes)),
                None => ptr::copy(src, dst, bytes),
            }
        }
    }

    /// Combines each element of `received` with that of `local`, in this order, and writes the result to `dst`.
    ///
    /// # Safety
    /// See [`Arithmetic`]. `dst` begins where one of the others does or does not overlap it, for either of them.
    pub unsafe fn reduce(&self, dst: *mut u8, received: *const u8, local: *const u8, bytes: usize) {
        self.check(bytes);
        // SAFETY: as demanded of the caller.
        unsafe { (self.reduce)(self.operands(dst, received, local, bytes)) }
    }

    /// Combines each element of `received` with that of `local`, which is an input that has not been used before: it
    /// is scaled first, if inputs are.
    ///
    /// # Safety
    /// See [`Arithmetic`]. `dst` begins where one of the others does or does not overlap it, for either of them.
    pub unsafe fn reduce_scaled(&self, dst: *mut u8, received: *const u8, local: *const u8, bytes: usize) {
        self.check(bytes);
        let reduce = self.scaling.map_or(self.reduce, |scaling| scaling.reduce);
        // SAFETY: as demanded of the caller.
        unsafe { reduce(self.operands(dst, received, local, bytes)) }
    }

    /// Divides all elements of `dst`, if results are divided.
    ///
    /// # Safety
    /// See [`Arithmetic`].
    pub unsafe fn divide(&self, dst: *mut u8, bytes: usize) {
        self.check(bytes);
        if let Some(divide) = self.divide {
            // SAFETY: as demanded of the caller.
            unsafe { divide(self.operands(dst, ptr::null(), dst, bytes)) }
        }
    }

    fn check(&self, bytes: usize) {
        debug_assert!(bytes.is_multiple_of(self.data_type.size()), "{bytes} bytes are no whole elements");
    }

    fn operands(&self, result: *mut u8, received: *const u8, local: *const u8, bytes: usize) -> Operands {
        Operands { result, received, local, bytes, constant: self.constant }
    }
}

/// What is to be built.
#[derive(Clone, Copy)]
struct Request {
    instructions: Instructions,
    data_type: DataType,
    reduction: Reduction,
    ranks: u32,
}

impl Request {
    fn integers<E: Element<Row: Divisible> + Divisible>(self) -> Arithmetic {
        match self.reduction {
            Reduction::Avg => Arithmetic {
                constant: Constant::Divisor(self.ranks),
                divide: Some(compiled::<Quotients<E::Row>, Quotients<E::Row>>(self.instructions)),
                ..self.sums::<E>()
            },
            other => self.common::<E>(other),
        }
    }

    fn reals<E: Real>(self) -> Arithmetic {
        match self.reduction {
            Reduction::Avg => self.scaled::<E>(factor(E::share(self.ranks))),
            other => self.common::<E>(other),
        }
    }

    fn common<E: Element>(self, reduction: Reduction) -> Arithmetic {
        match reduction {
            Reduction::Sum | Reduction::Avg => self.sums::<E>(),
            Reduction::Prod => self.plain::<Pairs<Product, E::Several>, Pairs<Product, E::SeveralByAvx2>>(),
            Reduction::Max => self.plain::<Pairs<Larger, E::Row>, Pairs<Larger, E::Row>>(),
            Reduction::Min => self.plain::<Pairs<Smaller, E::Row>, Pairs<Smaller, E::Row>>(),
            Reduction::PreMulSum(Scalar { bytes, .. }) => self.scaled::<E>(Constant::Factor(bytes)),
        }
    }

    fn sums<E: Element>(self) -> Arithmetic {
        self.plain::<Pairs<Sum, E::Several>, Pairs<Sum, E::SeveralByAvx2>>()
    }

    fn scaled<E: Element>(self, constant: Constant) -> Arithmetic {
        let scaling = Scaling {
            scale: compiled::<Products<E::Several>, Products<E::SeveralByAvx2>>(self.instructions),
            reduce: compiled::<ScaledSums<E::Several>, ScaledSums<E::SeveralByAvx2>>(self.instructions),
        };
        Arithmetic { constant, scaling: Some(scaling), ..self.sums::<E>() }
    }

    fn plain<Basic: Loop, Avx2: Loop>(self) -> Arithmetic {
        Arithmetic {
            data_type: self.data_type,
            reduction: self.reduction,
            ranks: self.ranks,
            constant: Constant::None,
            reduce: compiled::<Basic, Avx2>(self.instructions),
            scaling: None,
            divide: None,
        }
    }
}

/// The bytes of an element.
fn factor<E: Element>(element: E) -> Constant {
    const { assert!(size_of::<E>() <= 8) };
    let mut bytes = [0u8; 8];
    // SAFETY: an element has no more bytes, none of which are padding.
    unsafe { bytes.as_mut_ptr().cast::<E>().write_unaligned(element) };
    Constant::Factor(bytes)
}
