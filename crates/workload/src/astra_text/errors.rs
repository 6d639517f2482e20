//! Errors of a file, and its numbers.

use super::FieldError;

/// The errors of a file.
#[derive(Default)]
pub(super) struct Errors(Vec<FieldError>);

impl Errors {
    /// One more of them. A long value is shortened.
    pub(super) fn add(
        &mut self,
        line: usize,
        field: impl Into<String>,
        value: impl AsRef<str>,
        accepted: impl Into<String>,
    ) {
        const SHOWN: usize = 60;
        let value = value.as_ref();
        let mut shown: String = value.chars().take(SHOWN).collect();
        if shown.len() < value.len() {
            shown.push_str("...");
        }
        self.0.push(FieldError { line, field: field.into(), value: shown, accepted: accepted.into() });
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, by line.
    pub(super) fn finish(mut self) -> Vec<FieldError> {
        self.0.sort_by_key(|e| e.line);
        self.0
    }
}

/// A whole number from zero in decimal digits, without a sign.
pub(super) fn whole(value: &str) -> Option<u64> {
    value.bytes().all(|b| b.is_ascii_digit()).then(|| value.parse().ok()).flatten()
}
