//! Reductions of single elements, slowly and by other means than the library: integers in `i128`, small
//! floating-point numbers by looking the nearest one up in a table of all of them.

use syncline_runtime::value::{DataType, Reduction, Scalar};

/// A small floating-point format, written out.
pub struct Format {
    exponent_bits: i32,
    mantissa_bits: i32,
    bias: i32,
    /// The code of the greatest finite number, and of what is greater.
    greatest: u32,
    overflow: u32,
    /// Magnitudes from here on are NaN.
    first_nan: u32,
    /// Finite magnitudes, in ascending order, which is the order of their codes.
    magnitudes: Vec<f64>,
}

impl Format {
    fn new(
        (exponent_bits, mantissa_bits, bias): (i32, i32, i32),
        greatest: u32,
        overflow: u32,
        first_nan: u32,
    ) -> Format {
        let mut format =
            Format { exponent_bits, mantissa_bits, bias, greatest, overflow, first_nan, magnitudes: Vec::new() };
        format.magnitudes = (0..=greatest).map(|code| format.decode(code)).collect();
        assert!(format.magnitudes.is_sorted());
        format
    }

    fn sign_bit(&self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The number with this code, from its fields.
    pub fn decode(&self, code: u32) -> f64 {
        let magnitude = code & (self.sign_bit() - 1);
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let fraction = f64::from(magnitude & ((1 << self.mantissa_bits) - 1)) / 2f64.powi(self.mantissa_bits);
        let number = if magnitude >= self.first_nan {
            f64::NAN
        } else if magnitude > self.greatest {
            f64::INFINITY
        } else if exponent == 0 {
            fraction * 2f64.powi(1 - self.bias)
        } else {
            (1.0 + fraction) * 2f64.powi(exponent - self.bias)
        };
        if code & self.sign_bit() == 0 { number } else { -number }
    }

    /// The code of the nearest number; of the even one of two that are as near. NaN is any code of it.
    pub fn encode(&self, number: f64) -> u32 {
        if number.is_nan() {
            return self.first_nan;
        }
        let sign = if number.is_sign_negative() { self.sign_bit() } else { 0 };
        let magnitude = number.abs();
        // The number that would follow the greatest one.
        let last = self.magnitudes[self.greatest as usize];
        let beyond = last + (last - self.magnitudes[self.greatest as usize - 1]);
        let at = |code: usize| self.magnitudes.get(code).copied().unwrap_or(beyond);
        let above = self.magnitudes.partition_point(|&one| one < magnitude);
        let code = if magnitude >= beyond {
            self.greatest as usize + 1
        } else if above == 0 {
            0
        } else {
            let (down, up) = (magnitude - at(above - 1), at(above) - magnitude);
            let even = if above.is_multiple_of(2) { above } else { above - 1 };
            if down < up {
                above - 1
            } else if up < down {
                above
            } else {
                even
            }
        };
        sign | if code as u32 > self.greatest { self.overflow } else { code as u32 }
    }
}

/// A data type, with what its operations need.
pub struct Reference {
    data_type: DataType,
    format: Option<Format>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Sum,
    Product,
    Larger,
    Smaller,
}

impl Reference {
    pub fn new(data_type: DataType) -> Reference {
        let format = match data_type {
            DataType::Float16 => Some(Format::new((5, 10, 15), 0x7bff, 0x7c00, 0x7c01)),
            DataType::BFloat16 => Some(Format::new((8, 7, 127), 0x7f7f, 0x7f80, 0x7f81)),
            // OCP's table of E4M3: S.1111.110 is 448, S.1111.111 is NaN, and there is no infinity.
            DataType::Float8E4M3 => Some(Format::new((4, 3, 7), 0x7e, 0x7e, 0x7f)),
            // OCP's table of E5M2: S.11110.11 is 57,344, S.11111.00 is infinity, and S.11111.01 and greater are NaN.
            DataType::Float8E5M2 => Some(Format::new((5, 2, 15), 0x7b, 0x7b, 0x7d)),
            _ => None,
        };
        Reference { data_type, format }
    }

    pub fn format(&self) -> &Format {
        self.format.as_ref().expect("a small floating-point format")
    }

    fn is_signed(&self) -> bool {
        matches!(self.data_type, DataType::Int8 | DataType::Int32 | DataType::Int64)
    }

    fn bits(&self) -> u32 {
        8 * self.data_type.size() as u32
    }

    /// The integer that an element is, from its bits.
    fn integer(&self, element: u64) -> i128 {
        let value = i128::from(element);
        if self.is_signed() && element >> (self.bits() - 1) == 1 { value - (1 << self.bits()) } else { value }
    }

    /// The bits of an integer, which wraps around.
    fn wrapped(&self, integer: i128) -> u64 {
        integer.rem_euclid(1 << self.bits()) as u64
    }

    /// The number that an element of a floating-point type is.
    fn number(&self, element: u64) -> f64 {
        match self.data_type {
            DataType::Float32 => f64::from(f32::from_bits(element as u32)),
            DataType::Float64 => f64::from_bits(element),
            _ => self.format().decode(element as u32),
        }
    }

    /// The element of a number. For `f32` it has been rounded to `f64` before, which does no harm: that has more than
    /// twice as many bits.
    fn rounded(&self, number: f64) -> u64 {
        match self.data_type {
            DataType::Float32 => u64::from((number as f32).to_bits()),
            DataType::Float64 => number.to_bits(),
            _ => u64::from(self.format().encode(number)),
        }
    }

    pub fn is_nan(&self, element: u64) -> bool {
        self.data_type.is_float() && self.number(element).is_nan()
    }

    pub fn pair(&self, operation: Operation, received: u64, local: u64) -> u64 {
        if self.data_type.is_float() {
            let (a, b) = (self.number(received), self.number(local));
            return match operation {
                Operation::Sum => self.rounded(a + b),
                Operation::Product => self.rounded(a * b),
                // A number rather than NaN, and +0 rather than -0 if it is the larger that is asked for.
                _ if a.is_nan() => local,
                _ if b.is_nan() => received,
                Operation::Larger if a > b || (a == b && a.is_sign_positive()) => received,
                Operation::Smaller if a < b || (a == b && a.is_sign_negative()) => received,
                _ => local,
            };
        }
        let (a, b) = (self.integer(received), self.integer(local));
        match operation {
            Operation::Sum => self.wrapped(a + b),
            Operation::Product => self.wrapped(a.wrapping_mul(b)),
            Operation::Larger => self.wrapped(a.max(b)),
            Operation::Smaller => self.wrapped(a.min(b)),
        }
    }

    /// What inputs are multiplied by.
    fn factor(&self, reduction: Reduction, ranks: u32) -> Option<u64> {
        match reduction {
            Reduction::PreMulSum(factor) => Some(element(factor)),
            // NCCL makes a `float` of 1/ranks and then an element of it; only `double` is an exception.
            Reduction::Avg if self.data_type == DataType::Float64 => Some((1.0 / f64::from(ranks)).to_bits()),
            Reduction::Avg if self.data_type.is_float() => {
                Some(self.rounded(f64::from((1.0 / f64::from(ranks)) as f32)))
            }
            _ => None,
        }
    }

    pub fn scaled(&self, reduction: Reduction, ranks: u32, local: u64) -> u64 {
        match self.factor(reduction, ranks) {
            Some(factor) => self.pair(Operation::Product, local, factor),
            None => local,
        }
    }

    pub fn reduced(&self, reduction: Reduction, received: u64, local: u64) -> u64 {
        let operation = match reduction {
            Reduction::Prod => Operation::Product,
            Reduction::Max => Operation::Larger,
            Reduction::Min => Operation::Smaller,
            Reduction::Sum | Reduction::Avg | Reduction::PreMulSum(_) => Operation::Sum,
        };
        self.pair(operation, received, local)
    }

    pub fn divided(&self, reduction: Reduction, ranks: u32, local: u64) -> u64 {
        if reduction != Reduction::Avg || self.data_type.is_float() {
            return local;
        }
        // Rust cuts off, as C does.
        self.wrapped(self.integer(local) / i128::from(ranks))
    }
}

/// The element with these bytes.
pub fn element_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |element, &byte| element << 8 | u64::from(byte))
}

/// The bits of a scalar.
pub fn element(scalar: Scalar) -> u64 {
    element_of(scalar.bytes())
}

/// The scalar with these bits.
pub fn scalar(data_type: DataType, element: u64) -> Scalar {
    Scalar::from_bytes(data_type, &element.to_le_bytes()[..data_type.size()]).expect("as many bytes as an element has")
}
