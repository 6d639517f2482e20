//! Refuses more of something than can be named.

use crate::errors::RunError;
use syncline_core::Refusal;

/// The refusal of so many of something, of which there may be so many at most.
pub fn too_many(field: &str, count: u64, what: &str, most: u64) -> RunError {
    Refusal::of(field, format!("{count} {what}")).accepting(format!("up to {most}")).within("collectives").into()
}

/// Plans that chunks can name.
const MAX_PLANS: usize = 1 << u8::BITS;

/// Refuses more plans than chunks can name.
///
/// # Errors
/// [`RunError::Spec`] with the number and the most.
pub fn check_plans(plans: usize) -> Result<(), RunError> {
    match plans {
        ..=MAX_PLANS => Ok(()),
        _ => Err(too_many("algorithm", plans as u64, "orders of dimensions of all kinds", MAX_PLANS as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_plans_as_chunks_can_name_are_taken() {
        assert!(check_plans(MAX_PLANS).is_ok());
        assert!(check_plans(MAX_PLANS + 1).unwrap_err().to_string().contains("collectives.algorithm"));
    }
}
