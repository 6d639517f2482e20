//! Operators as data: a kind and its sizes by name, as model files have them.
//!
//! [`KINDS`] is the list of kinds. An entry says which sizes a kind has, calls the formulas of [`crate::operators`],
//! [`crate::recurrent`] and [`crate::transformer`], and says what goes in, what comes out, and what is kept until the backward
//! pass. A new kind is one entry.
//!
//! # What is kept for the backward pass
//! As Korthikanti et al. count ("Reducing Activation Recomputation in Large Transformer Models", MLSys 2023, section 4.1): each
//! operator keeps what its own gradients need, which for most is their input; a tensor that two operators need is counted by
//! one of them. So what is needed as an output is counted by the operator behind, whose input it is: ReLU and the core of fused
//! attention keep no output. Masks of dropout take a byte an element, indices eight. Vectors of statistics and parameters are
//! too small to count, except for those of fused attention, and logits are kept in four bytes at least. A layer of GPT keeps
//! 34 + 5 a s / h bytes for each token and hidden element, as in their equation 1.
//!
//! # Weighted operators
//! Kernels of matrix products and embeddings are *weighted* ([`Counted::Weighted`]); all others are not, norms among them,
//! though these have parameters.

mod kinds;
pub mod layers;
pub mod request;

use crate::frameworks::Framework;
use crate::layer::Demand;
use crate::operators::{Counted, ELEMENT_BYTES, Operator};
use serde::Deserialize;
use std::collections::BTreeMap;
use syncline_core::Refusal;

pub use kinds::KINDS;

/// An operator of a model file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct OperatorSpec {
    /// The name of its kind, one of [`KINDS`].
    pub kind: String,
    /// Its sizes by name.
    pub sizes: BTreeMap<String, u64>,
}

/// What values a size can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 1 to 2^32 - 1.
    Extent,
    /// 1 to 2^53: what grows with the batch.
    Rows,
    /// 0 for no, which it is if left out, or 1 for yes.
    Flag,
    /// 0, which it is if left out, to 2^32 - 1.
    Optional,
    /// As [`Form::Extent`]; if left out, it equals another size that comes before.
    Like(&'static str),
}

impl Form {
    /// The least and the largest value.
    pub const fn range(self) -> (u64, u64) {
        match self {
            Form::Extent | Form::Like(_) => (1, u32::MAX as u64),
            Form::Rows => (1, 1 << 53),
            Form::Flag => (0, 1),
            Form::Optional => (0, u32::MAX as u64),
        }
    }

    /// Whether it can be left out.
    pub const fn is_optional(self) -> bool {
        !matches!(self, Form::Extent | Form::Rows)
    }
}

/// A size of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeOf {
    /// Its name.
    pub name: &'static str,
    /// What values it can have.
    pub form: Form,
}

/// A kind of operators.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it does, for people.
    pub description: &'static str,
    /// Its sizes.
    pub sizes: &'static [SizeOf],
    /// What is wrong with sizes each of which is legal: what the message says, and what is accepted.
    check: fn(&[u64]) -> Option<(String, String)>,
    /// Of sizes in the order of `sizes`, and of elements of so many bytes.
    of: fn(&[u64], u32) -> Described,
}

/// What an operator asks of an NPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Its kernels in forward order; whether they are of a weighted operator.
    pub parts: Vec<(Operator, bool)>,
    /// Bytes that are kept until the backward pass.
    pub saved_bytes: u64,
    /// Elements that go in, parameters not included.
    pub input_elements: u64,
    /// Elements that come out.
    pub output_elements: u64,
}

/// Widths of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Bytes of an element of activations, weights and gradients.
    pub element_bytes: u32,
    /// Bytes of an element of the factors of linear layers' products, if these are in a narrower data type (FP8).
    pub linear_bytes: Option<u32>,
}

/// How operators are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Widths of elements.
    pub widths: Widths,
    /// The framework whose kernels they are; the least kernels that operators need if there is none.
    pub framework: Option<Framework>,
}

impl Execution {
    /// The least kernels of operators whose elements have so many bytes everywhere.
    pub const fn of(element_bytes: u32) -> Execution {
        Execution { widths: Widths::of(element_bytes), framework: None }
    }
}

/// Kinds of operators that are linear layers, whose products training in FP8 computes in FP8.
const LINEAR: [&str; 2] = ["linear", "experts"];

impl Widths {
    /// Elements of so many bytes everywhere.
    pub const fn of(element_bytes: u32) -> Widths {
        Widths { element_bytes, linear_bytes: None }
    }

    /// Refuses widths that no data type has, and factors of linear layers that are wider than other elements.
    ///
    /// # Errors
    /// A [`Refusal`] of `element_bytes` or `linear_bytes`.
    pub fn checked(self) -> Result<Widths, Refusal> {
        let refuse = |field: &str, bytes: u32, accepted: &[u32]| {
            let refusal = Refusal::of(field, format!("elements of {bytes} bytes"));
            Err(refusal.accepting(format!("{accepted:?}")))
        };
        if !ELEMENT_BYTES.contains(&self.element_bytes) {
            return refuse("element_bytes", self.element_bytes, &ELEMENT_BYTES);
        }
        let narrower: Vec<u32> = ELEMENT_BYTES.into_iter().filter(|&bytes| bytes <= self.element_bytes).collect();
        match self.linear_bytes {
            Some(bytes) if !narrower.contains(&bytes) => refuse("linear_bytes", bytes, &narrower),
            _ => Ok(self),
        }
    }
}

/// The kernels of an operator by pass, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    /// Forward.
    pub forward: Vec<Demand>,
    /// The gradient with respect to the parameters, and what it needs first.
    pub weight_grad: Vec<Demand>,
    /// The gradient with respect to the input.
    pub input_grad: Vec<Demand>,
}

impl Described {
    /// Trainable parameters.
    pub fn params(&self) -> u64 {
        self.parts.iter().fold(0, |sum: u64, (operator, _)| sum.saturating_add(operator.params))
    }

    /// The kernels that are counted.
    pub fn passes(&self, counted: Counted) -> Passes {
        let mut passes = Passes::default();
        let parts = || self.parts.iter().filter(|(_, weighted)| *weighted || counted == Counted::All).map(|(o, _)| o);
        parts().for_each(|o| passes.forward.extend(&o.forward));
        parts().rev().for_each(|o| passes.weight_grad.extend(&o.weight_grad));
        parts().rev().for_each(|o| passes.input_grad.extend(&o.input_grad));
        passes
    }
}

impl OperatorSpec {
    /// The operator as it is carried out.
    ///
    /// # Errors
    /// As [`OperatorSpec::described`].
    pub fn described_in(&self, Execution { widths, framework }: Execution) -> Result<Described, Refusal> {
        let (kind, sizes) = self.checked()?;
        let mut described = kind.described(&sizes, widths.element_bytes)?;
        if let Some(framework) = framework {
            for (operator, _) in &mut described.parts {
                let plain = std::mem::take(operator);
                *operator = framework.launches(kind.name, &sizes, plain, widths.element_bytes);
            }
        }
        match widths.linear_bytes {
            Some(bytes) if LINEAR.contains(&self.kind.as_str()) => {
                Ok(described.with_narrow_factors(widths.element_bytes, bytes))
            }
            _ => Ok(described),
        }
    }

    /// The operator of elements of so many bytes.
    ///
    /// # Errors
    /// A [`Refusal`] of the kind, or of a size, with what is accepted.
    pub fn described(&self, element_bytes: u32) -> Result<Described, Refusal> {
        let (kind, sizes) = self.checked()?;
        kind.described(&sizes, element_bytes)
    }

    /// Its kind and its sizes, in the order of the kind.
    fn checked(&self) -> Result<(&'static Kind, Vec<u64>), Refusal> {
        let kind = KINDS.iter().find(|kind| kind.name == self.kind).ok_or_else(|| {
            let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            Refusal::of("kind", format!("no kind of operators is named {:?}", self.kind)).accepting(names.join(", "))
        })?;
        if let Some(name) = self.sizes.keys().find(|name| kind.sizes.iter().all(|size| size.name != name.as_str())) {
            let names: Vec<&str> = kind.sizes.iter().map(|size| size.name).collect();
            let refusal = Refusal::of("sizes", format!("{} has no size {name:?}", kind.name));
            return Err(refusal.accepting(names.join(", ")));
        }
        let mut sizes = Vec::with_capacity(kind.sizes.len());
        for size in kind.sizes {
            let value = self.sizes.get(size.name).copied().or_else(|| match size.form {
                Form::Extent | Form::Rows => None,
                Form::Flag | Form::Optional => Some(0),
                Form::Like(other) => {
                    kind.sizes.iter().position(|s| s.name == other).and_then(|i| sizes.get(i).copied())
                }
            });
            let (least, most) = size.form.range();
            match value {
                Some(value) if (least..=most).contains(&value) => sizes.push(value),
                found => {
                    let message = found.map_or("this size is missing".to_owned(), |n| format!("{} is {n}", size.name));
                    let field = format!("sizes.{}", size.name);
                    return Err(Refusal::of(&field, message).accepting(format!("{least} to {most}")));
                }
            }
        }
        if let Some((message, accepted)) = (kind.check)(&sizes) {
            return Err(Refusal::of("sizes", message).accepting(accepted));
        }
        Ok((kind, sizes))
    }
}

impl Kind {
    /// An operator of legal sizes, of elements of so many bytes.
    fn described(&self, sizes: &[u64], element_bytes: u32) -> Result<Described, Refusal> {
        let described = (self.of)(sizes, element_bytes);
        if described.is_beyond_64_bits() {
            let message = "it needs more operations or bytes than 64 bits count";
            return Err(Refusal::of("sizes", message).accepting("smaller sizes"));
        }
        Ok(described)
    }
}

impl Described {
    /// The same with the factors of its products narrower ([`Demand::with_narrow_factors`]).
    fn with_narrow_factors(mut self, wide: u32, narrow: u32) -> Described {
        for (operator, _) in &mut self.parts {
            for kernels in [&mut operator.forward, &mut operator.weight_grad, &mut operator.input_grad] {
                kernels.iter_mut().for_each(|kernel| *kernel = kernel.with_narrow_factors(wide, narrow));
            }
        }
        self
    }

    /// Whether a number is beyond 64 bits; sums saturate.
    fn is_beyond_64_bits(&self) -> bool {
        let Passes { forward, weight_grad, input_grad } = self.passes(Counted::All);
        let all = forward.iter().chain(&weight_grad).chain(&input_grad);
        let sum = all.fold(Demand::default(), |sum, kernel| sum.plus(*kernel));
        [sum.flops, sum.bytes, self.params(), self.saved_bytes, self.input_elements, self.output_elements]
            .contains(&u64::MAX)
    }
}

#[cfg(test)]
mod tests;
