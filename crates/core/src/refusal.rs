//! Why a description is refused, as data, so that the author can be told in the terms of the file that they wrote.

use serde::Serialize;
use std::fmt;

/// Why a description is no legal simulation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The field to blame, its names from the outermost inwards; empty for the description as a whole.
    pub field: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What is accepted in its place, beside `least`.
    pub accepted: Option<String>,
    /// The least number that is accepted, in the unit of the field.
    pub least: Option<u64>,
    /// The wrong value, if it is not the whole value of the field.
    pub value: Option<String>,
    /// The line of the text in which it is, counted from 1; none if the number exceeds 32 bits.
    pub line: Option<u32>,
}

impl Refusal {
    /// Of a field, whose names are separated by dots; of the whole description without any.
    pub fn of(field: &str, message: impl Into<String>) -> Refusal {
        let field = field.split('.').filter(|name| !name.is_empty()).map(String::from).collect();
        Refusal { field, message: message.into(), accepted: None, least: None, value: None, line: None }
    }

    /// With what would do.
    #[must_use]
    pub fn accepting(mut self, accepted: impl Into<String>) -> Refusal {
        self.accepted = Some(accepted.into());
        self
    }

    /// With the least number that would do.
    #[must_use]
    pub fn at_least(mut self, least: u64) -> Refusal {
        self.least = Some(least);
        self
    }

    /// Of what is divided equally among so many: the least number is that of all of them together.
    #[must_use]
    pub fn of_share(mut self, shares: u32) -> Refusal {
        if let Some(least) = self.least.as_mut().filter(|_| shares > 1) {
            *least = least.saturating_mul(shares.into());
            self.message = format!("{}, in each of {shares} equal parts", self.message);
        }
        self
    }

    /// Of a line of a text, from one.
    #[must_use]
    pub fn in_line(mut self, line: usize) -> Refusal {
        self.line = u32::try_from(line).ok();
        self
    }

    /// Of a field within a section, whose names are separated by dots.
    #[must_use]
    pub fn within(mut self, section: &str) -> Refusal {
        self.field.splice(0..0, section.split('.').map(String::from));
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field.join("."))?;
        }
        f.write_str(&self.message)?;
        match (self.least, &self.accepted) {
            (None, None) => Ok(()),
            (None, Some(accepted)) => write!(f, "; accepted: {accepted}"),
            (Some(least), None) => write!(f, "; accepted: {least} or more"),
            (Some(least), Some(accepted)) => write!(f, "; accepted: {least} or more, or {accepted}"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_a_sentence() {
        assert_eq!(Refusal::of("", "nothing").to_string(), "nothing");
        let small = Refusal::of("sram_bytes", "too small").at_least(7).within("endpoint");
        assert_eq!(small.field, ["endpoint", "sram_bytes"]);
        assert_eq!(small.to_string(), "endpoint.sram_bytes: too small; accepted: 7 or more");
        assert_eq!(
            small.accepting("smaller chunks").to_string(),
            "endpoint.sram_bytes: too small; accepted: 7 or more, or smaller chunks"
        );
    }
}
