//! What the numbers that describe an NPU must be.

use syncline_core::Refusal;

/// Why an NPU cannot be described by the numbers given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NpuError {
    /// A parameter that is zero, negative, infinite or not a number.
    NotPositive {
        /// The parameter.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}

impl From<NpuError> for Refusal {
    fn from(error: NpuError) -> Refusal {
        let NpuError::NotPositive { field, value } = error;
        Refusal::of(field, format!("{field} is {value}")).accepting("a finite number above zero")
    }
}

/// Refuses the first of the named numbers that is not finite and above zero.
///
/// # Errors
/// [`NpuError::NotPositive`] with its name and value.
pub(crate) fn require_positive(numbers: &[(&'static str, f64)]) -> Result<(), NpuError> {
    let is_positive = |value: f64| value.is_finite() && value > 0.0;
    match numbers.iter().find(|(_, value)| !is_positive(*value)) {
        None => Ok(()),
        Some(&(field, value)) => Err(NpuError::NotPositive { field, value }),
    }
}
