//! The models that can be asked for by name. A new one is a file and a line in [`MODELS`].

use crate::dlrm::{Recommender, dlrm};
use crate::gnmt::gnmt;
use crate::layer::{Cost, Layer};
use crate::{plain, resnet};
use syncline_core::Refusal;

pub use crate::sizes::{ELEMENT_BYTES, ModelError, Sizes};

/// How a model is made, which is also how it can be distributed.
#[derive(Clone, Copy, Debug)]
enum Architecture {
    /// One layer after the other.
    Chain(fn(&Sizes) -> Vec<Layer>),
    /// Tables and two MLPs.
    Recommender(fn(&Sizes) -> Result<Recommender, ModelError>),
}

/// A model of the zoo.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// What it is, for people.
    pub description: &'static str,
    /// Whether its samples are sequences, whose length can be chosen.
    pub has_sequence: bool,
    architecture: Architecture,
}

impl Model {
    /// Whether it is too large for one NPU, so that its embedding tables are distributed.
    pub const fn is_distributed(&self) -> bool {
        matches!(self.architecture, Architecture::Recommender(_))
    }
}

/// A model in some size.
#[expect(clippy::large_enum_variant, reason = "there is one per run")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// Layers in forward order.
    Chain(Vec<Layer>),
    /// Tables and two MLPs.
    Recommender(Recommender),
}

/// All models, by name.
pub const MODELS: &[Model] = &[
    Model {
        name: "alexnet",
        description: "AlexNet in one tower, 224 x 224 images, 1000 classes: 61.1 M parameters, 0.7 GMAC per image",
        has_sequence: false,
        architecture: Architecture::Chain(plain::alexnet),
    },
    Model {
        name: "vgg16",
        description: "VGG-16, 224 x 224 images, 1000 classes: 138.4 M parameters, 15.5 GMAC per image",
        has_sequence: false,
        architecture: Architecture::Chain(plain::vgg16),
    },
    Model {
        name: "resnet18",
        description: "ResNet-18, 224 x 224 images, 1000 classes: 11.7 M parameters, 1.8 GMAC per image",
        has_sequence: false,
        architecture: Architecture::Chain(resnet::resnet18),
    },
    Model {
        name: "resnet50",
        description: "ResNet-50 v1.5, 224 x 224 images, 1000 classes: 25.6 M parameters, 4.1 GMAC per image",
        has_sequence: false,
        architecture: Architecture::Chain(resnet::resnet50),
    },
    Model {
        name: "gnmt",
        description: "GNMT, 8 + 8 LSTM layers of 1024, 32,320 words: 244.6 M parameters, 0.2 GMAC per pair of words",
        has_sequence: true,
        architecture: Architecture::Chain(gnmt),
    },
    Model {
        name: "dlrm",
        description: "DLRM of HOTI 2020, 64 tables, MLPs of 7 and 12 layers: 57.4 M parameters beside the tables",
        has_sequence: false,
        architecture: Architecture::Recommender(dlrm),
    },
];

impl From<ModelError> for Refusal {
    /// Of a field of the description of a model, but for what depends on the fabric.
    fn from(error: ModelError) -> Refusal {
        match error {
            ModelError::UnknownName { name } => {
                let names: Vec<&str> = MODELS.iter().map(|m| m.name).collect();
                Refusal::of("job.workload.name", format!("no model is named {name:?}")).accepting(names.join(", "))
            }
            ModelError::EmptyBatch => Refusal::of("job.workload.batch", "the batch is 0").accepting("1 sample or more"),
            ModelError::ElementBytes { element_bytes } => {
                Refusal::of("job.workload.element_bytes", format!("elements of {element_bytes} bytes"))
                    .accepting(format!("{ELEMENT_BYTES:?}"))
            }
            ModelError::TooLarge { batch } => {
                let message = format!("a batch of {batch} needs more operations or bytes than 64 bits count");
                Refusal::of("job.workload.batch", message).accepting("fewer samples")
            }
            ModelError::Ranks { ranks, most } => {
                Refusal::of("fabric", format!("the tables cannot be divided evenly among {ranks} NPUs"))
                    .accepting(format!("a divisor of 64, or a multiple of 64 that divides {most}"))
            }
            ModelError::Sequence { name, sequence, has_sequence } => {
                let without = if has_sequence { String::new() } else { format!(": {name} has none") };
                let message = format!("sequences of {sequence} tokens{without}");
                Refusal::of("job.workload.sequence", message).accepting(if has_sequence {
                    "1 token or more"
                } else {
                    "no sequence"
                })
            }
        }
    }
}

impl Built {
    /// All layers, in forward order.
    pub fn layers(&self) -> Vec<&Layer> {
        match self {
            Built::Chain(layers) => layers.iter().collect(),
            Built::Recommender(model) => model.layers().collect(),
        }
    }
}

/// The model `name` in the given sizes.
///
/// # Errors
/// A [`ModelError`] if there is no such model, or not in these sizes.
pub fn build(name: &str, sizes: &Sizes) -> Result<Built, ModelError> {
    let model = MODELS.iter().find(|m| m.name == name);
    let model = model.ok_or_else(|| ModelError::UnknownName { name: name.to_owned() })?;
    let Sizes { batch, element_bytes, .. } = *sizes;
    if batch == 0 {
        return Err(ModelError::EmptyBatch);
    }
    if !ELEMENT_BYTES.contains(&element_bytes) {
        return Err(ModelError::ElementBytes { element_bytes });
    }
    if let Some(sequence) = sizes.sequence.filter(|&tokens| tokens == 0 || !model.has_sequence) {
        return Err(ModelError::Sequence { name: model.name, sequence, has_sequence: model.has_sequence });
    }
    let built = match model.architecture {
        Architecture::Chain(layers) => Built::Chain(layers(sizes)),
        Architecture::Recommender(model) => Built::Recommender(model(sizes)?),
    };
    if fits(&built) { Ok(built) } else { Err(ModelError::TooLarge { batch }) }
}

/// Whether the demand of all layers together is below what 64 bits hold (sums saturate).
fn fits(built: &Built) -> bool {
    let layers = built.layers();
    let passes = layers.iter().flat_map(|l| [&l.forward, &l.input_grad, &l.weight_grad, &l.update]);
    let total = passes.filter_map(Cost::demand).reduce(|a, b| a.plus(b)).unwrap_or_default();
    total.flops < u64::MAX && total.bytes < u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::Counted;
    use proptest::prelude::*;

    fn sizes(batch: u32, element_bytes: u32) -> Sizes {
        Sizes { batch, element_bytes, counted: Counted::All, sequence: None, ranks: 1 }
    }

    #[test]
    fn every_model_is_found_by_its_name() {
        for model in MODELS {
            let built = build(model.name, &sizes(1, 2)).unwrap();
            assert!(!built.layers().is_empty(), "{}", model.name);
            assert!(model.description.len() < 110, "{}", model.name);
        }
    }

    #[test]
    fn an_unknown_name_yields_what_is_accepted() {
        let error = build("resnet51", &sizes(1, 2)).unwrap_err();
        assert_eq!(Refusal::from(error).accepted.as_deref(), Some("alexnet, vgg16, resnet18, resnet50, gnmt, dlrm"));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert_eq!(build("resnet50", &sizes(0, 2)), Err(ModelError::EmptyBatch));
        for element_bytes in [0, 3, 16, u32::MAX] {
            assert_eq!(build("resnet50", &sizes(1, element_bytes)), Err(ModelError::ElementBytes { element_bytes }));
        }
        assert_eq!(build("resnet50", &sizes(u32::MAX, 2)), Err(ModelError::TooLarge { batch: u32::MAX }));
        assert!(build("resnet50", &sizes(1 << 20, 8)).is_ok());
        for (name, sequence) in [("resnet18", 20), ("dlrm", 20), ("gnmt", 0)] {
            let error = build(name, &Sizes { sequence: Some(sequence), ..sizes(1, 2) }).unwrap_err();
            let refusal = Refusal::from(error);
            assert!(refusal.message.starts_with(&format!("sequences of {sequence} tokens")), "{refusal}");
        }
    }

    /// The shape of matrix products is another way to count their operations.
    #[test]
    fn shapes_and_operations_agree_everywhere() {
        for model in MODELS {
            let built = build(model.name, &sizes(3, 2)).unwrap();
            let mut products = 0;
            for layer in built.layers() {
                for pass in [&layer.forward, &layer.input_grad, &layer.weight_grad] {
                    let Cost::Kernels(kernels) = pass else { panic!("a model has no measured times") };
                    for kernel in kernels.iter().filter(|k| k.gemm.is_some()) {
                        assert_eq!(kernel.gemm.map(crate::Gemm::flops), Some(kernel.flops), "{}", layer.name);
                        products += 1;
                    }
                }
            }
            assert!(products > 20, "{}", model.name);
        }
    }

    proptest! {
        #[test]
        fn demand_is_linear_in_the_batch_but_for_the_weights(batch in 1u32..2000) {
            for name in ["alexnet", "vgg16", "resnet18", "gnmt", "dlrm"] {
                let (one, many) = (build(name, &sizes(1, 2)).unwrap(), build(name, &sizes(batch, 2)).unwrap());
                for (one, many) in one.layers().into_iter().zip(many.layers()) {
                    let (a, b) = (one.forward.demand().unwrap(), many.forward.demand().unwrap());
                    prop_assert_eq!(a.flops * u64::from(batch), b.flops);
                    prop_assert!(b.bytes <= a.bytes * u64::from(batch));
                    prop_assert_eq!(one.gradient, many.gradient);
                    prop_assert_eq!(&one.update, &many.update);
                }
            }
        }

        #[test]
        fn no_argument_panics(
            batch in any::<u32>(), element_bytes in 0u32..10, sequence in any::<Option<u32>>(), ranks in any::<u32>(),
        ) {
            for model in MODELS {
                let sizes = Sizes { batch, element_bytes, counted: Counted::All, sequence, ranks };
                if let Ok(built) = build(model.name, &sizes) {
                    prop_assert!(batch > 0 && ELEMENT_BYTES.contains(&element_bytes));
                    prop_assert!(fits(&built));
                }
            }
        }
    }
}
