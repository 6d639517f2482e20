//! The models that can be asked for by name. A new one is a file and a line in [`MODELS`].

use crate::layer::{Cost, Layer};
use crate::operators::Counted;
use crate::resnet;
use std::fmt;

/// A model of the zoo.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// What it is, for people.
    pub description: &'static str,
    layers: fn(batch: u32, element_bytes: u32, counted: Counted) -> Vec<Layer>,
}

/// All models, by name.
pub const MODELS: &[Model] = &[
    Model {
        name: "resnet18",
        description: "ResNet-18, 224 x 224 images, 1000 classes: 11.7 M parameters, 1.8 GMAC per image",
        layers: resnet::resnet18,
    },
    Model {
        name: "resnet50",
        description: "ResNet-50 v1.5, 224 x 224 images, 1000 classes: 25.6 M parameters, 4.1 GMAC per image",
        layers: resnet::resnet50,
    },
];

/// Widths that elements may have: FP8, FP16 or BF16, FP32, FP64.
pub const ELEMENT_BYTES: [u32; 4] = [1, 2, 4, 8];

/// Why a model cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// No model has this name.
    UnknownName {
        /// The name.
        name: String,
    },
    /// A batch of no samples.
    EmptyBatch,
    /// Elements of a width that no number format has.
    ElementBytes {
        /// The width.
        element_bytes: u32,
    },
    /// A batch whose demand does not fit 64 bits.
    TooLarge {
        /// Samples.
        batch: u32,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelError::UnknownName { name } => {
                let names: Vec<&str> = MODELS.iter().map(|m| m.name).collect();
                write!(f, "no model is named {name:?}; accepted: {}", names.join(", "))
            }
            ModelError::EmptyBatch => write!(f, "the batch is 0; accepted: 1 sample or more"),
            ModelError::ElementBytes { element_bytes } => {
                write!(f, "elements of {element_bytes} bytes; accepted: {ELEMENT_BYTES:?}")
            }
            ModelError::TooLarge { batch } => {
                write!(
                    f,
                    "a batch of {batch} needs more operations or bytes than 64 bits count; accepted: fewer samples"
                )
            }
        }
    }
}

impl std::error::Error for ModelError {}

/// The layers of the model `name` in forward order, for `batch` samples per NPU and iteration, with
/// activations, weights and gradients of `element_bytes` per element,
/// and the kernels that are `counted`.
pub fn build(name: &str, batch: u32, element_bytes: u32, counted: Counted) -> Result<Vec<Layer>, ModelError> {
    let model = MODELS.iter().find(|m| m.name == name);
    let model = model.ok_or_else(|| ModelError::UnknownName { name: name.to_owned() })?;
    if batch == 0 {
        return Err(ModelError::EmptyBatch);
    }
    if !ELEMENT_BYTES.contains(&element_bytes) {
        return Err(ModelError::ElementBytes { element_bytes });
    }
    let layers = (model.layers)(batch, element_bytes, counted);
    if fits(&layers) { Ok(layers) } else { Err(ModelError::TooLarge { batch }) }
}

/// Whether the demand of all layers together is below what 64 bits hold (sums saturate).
fn fits(layers: &[Layer]) -> bool {
    let passes = layers.iter().flat_map(|l| [&l.forward, &l.input_grad, &l.weight_grad, &l.update]);
    let total = passes.filter_map(Cost::demand).reduce(|a, b| a.plus(b)).unwrap_or_default();
    total.flops < u64::MAX && total.bytes < u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_model_is_found_by_its_name() {
        for model in MODELS {
            let layers = build(model.name, 1, 2, Counted::All).unwrap();
            assert!(!layers.is_empty(), "{}", model.name);
            assert_eq!(layers, (model.layers)(1, 2, Counted::All));
        }
    }

    #[test]
    fn an_unknown_name_yields_what_is_accepted() {
        let error = build("resnet51", 1, 2, Counted::All).unwrap_err();
        assert_eq!(error.to_string(), r#"no model is named "resnet51"; accepted: resnet18, resnet50"#);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert_eq!(build("resnet50", 0, 2, Counted::All), Err(ModelError::EmptyBatch));
        for element_bytes in [0, 3, 16, u32::MAX] {
            assert_eq!(
                build("resnet50", 1, element_bytes, Counted::All),
                Err(ModelError::ElementBytes { element_bytes })
            );
        }
        assert_eq!(build("resnet50", u32::MAX, 2, Counted::All), Err(ModelError::TooLarge { batch: u32::MAX }));
        assert!(build("resnet50", 1 << 20, 8, Counted::All).is_ok());
    }

    proptest! {
        #[test]
        fn demand_is_linear_in_the_batch_but_for_the_weights(batch in 1u32..2000) {
            let (one, many) = (build("resnet18", 1, 2, Counted::All).unwrap(), build("resnet18", batch, 2, Counted::All).unwrap());
            for (one, many) in one.iter().zip(&many) {
                let (a, b) = (one.forward.demand().unwrap(), many.forward.demand().unwrap());
                prop_assert_eq!(a.flops * u64::from(batch), b.flops);
                prop_assert!(b.bytes <= a.bytes * u64::from(batch));
                prop_assert_eq!(one.gradient, many.gradient);
                prop_assert_eq!(&one.update, &many.update);
            }
        }

        #[test]
        fn no_argument_panics(batch in any::<u32>(), element_bytes in 0u32..10) {
            for model in MODELS {
                if let Ok(layers) = build(model.name, batch, element_bytes, Counted::All) {
                    prop_assert!(batch > 0 && ELEMENT_BYTES.contains(&element_bytes));
                    prop_assert!(fits(&layers));
                }
            }
        }
    }
}
