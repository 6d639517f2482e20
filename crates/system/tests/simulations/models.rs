//! What tests train: models of the package as Python describes them to the engine, and small networks.

use std::collections::BTreeMap;
use syncline_system::spec::WorkloadSpec;
use syncline_workload::Counted;
use syncline_workload::described::OperatorSpec;
use syncline_workload::described::layers::LayerSpec;

/// ResNet-50 with 32 samples in FP16.
pub fn resnet50() -> WorkloadSpec {
    described(include_str!("../fixtures/resnet50.json"))
}

/// DLRM with 64 samples on each of 16 NPUs, in FP16. With whole tables, lookups of an NPU cost the same on up to 64 of them: on
/// half as many it has twice the tables, for half the samples.
pub fn dlrm() -> WorkloadSpec {
    described(include_str!("../fixtures/dlrm.json"))
}

/// `tests/models/test_engine_fixtures.py` tests that these files are what the package's models are.
fn described(json: &str) -> WorkloadSpec {
    serde_json::from_str(json).expect("a workload")
}

fn operator(kind: &str, sizes: &[(&str, u64)]) -> OperatorSpec {
    let sizes: BTreeMap<String, u64> = sizes.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    OperatorSpec { kind: kind.to_owned(), sizes }
}

fn of_layers(layers: Vec<LayerSpec>) -> WorkloadSpec {
    WorkloadSpec::Layers { layers, element_bytes: 2, linear_bytes: None, framework: None, kernels: Counted::All }
}

/// Four convolutions with batch norm, each of which halves the image, and a classifier: 2.1 million parameters, 8 images.
pub fn convolutional() -> WorkloadSpec {
    let samples = ("samples", 8);
    let image = |channels, side| [samples, ("channels", channels), ("height", side), ("width", side)];
    let stage = |(inputs, filters, side): (u64, u64, u64)| {
        let filter = [("filters", filters), ("kernel", 3), ("stride", 2), ("padding", 1)];
        let operators = vec![
            operator("convolution", &[&image(inputs, 2 * side)[..], &filter].concat()),
            operator("batch-norm", &image(filters, side)),
            operator("relu", &[("rows", 8), ("features", filters * side * side)]),
        ];
        LayerSpec { name: format!("conv{side}"), operators, shared: 0 }
    };
    let mut layers: Vec<LayerSpec> = [(3, 64, 56), (64, 128, 28), (128, 256, 14), (256, 512, 7)].map(stage).into();
    let classes = vec![
        operator("average-pool", &image(512, 7)),
        operator("linear", &[("rows", 8), ("inputs", 512), ("outputs", 1000), ("bias", 1)]),
        operator("softmax-cross-entropy", &[("rows", 8), ("vocabulary", 1000)]),
    ];
    layers.push(LayerSpec { name: "classes".to_owned(), operators: classes, shared: 0 });
    of_layers(layers)
}

/// A translator of 8 pairs of sentences of 20 tokens: an LSTM layer on each side, with attention between them.
pub fn recurrent() -> WorkloadSpec {
    let (samples, steps, units, vocabulary) = (8, 20, 256, 4000);
    let lstm = |directions| {
        let sizes =
            [("samples", samples), ("steps", steps), ("inputs", units), ("hidden", units), ("directions", directions)];
        vec![operator("lstm", &sizes)]
    };
    let (rows, words) = (("rows", samples * steps), ("vocabulary", vocabulary));
    let layer =
        |(name, operators): (&str, Vec<OperatorSpec>)| LayerSpec { name: name.to_owned(), operators, shared: 0 };
    let layers = [
        ("embedding", vec![operator("embedding", &[("rows", 2 * samples * steps), words, ("features", units)])]),
        ("encoder", lstm(2)),
        ("decoder", lstm(1)),
        (
            "attention",
            vec![operator(
                "bahdanau-attention",
                &[("samples", samples), ("units", units), ("queries", steps), ("keys", steps)],
            )],
        ),
        (
            "projection",
            vec![
                operator("linear", &[rows, ("inputs", units), ("outputs", vocabulary), ("bias", 1)]),
                operator("softmax-cross-entropy", &[rows, words]),
            ],
        ),
    ];
    of_layers(layers.map(layer).into())
}
