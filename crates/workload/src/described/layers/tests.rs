//! Layers by hand.

use super::super::{Execution, Widths};
use super::*;

const FP16: Counting = Counting { execution: Execution::of(2), counted: Counted::All };

fn operator(kind: &str, sizes: &[(&str, u64)]) -> OperatorSpec {
    let sizes = sizes.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    OperatorSpec { kind: kind.to_owned(), sizes }
}

fn layer(name: &str, operators: &[OperatorSpec]) -> LayerSpec {
    LayerSpec { name: name.to_owned(), operators: operators.to_vec(), shared: 0 }
}

/// An operator on rows of features.
fn of_rows(kind: &str, rows: u64, features: u64) -> OperatorSpec {
    operator(kind, &[("rows", rows), ("features", features)])
}

/// An operator on one square image.
fn of_image(kind: &str, channels: u64, side: u64, more: &[(&str, u64)]) -> OperatorSpec {
    let shape = [("samples", 1), ("channels", channels), ("height", side), ("width", side)];
    operator(kind, &[&shape[..], more].concat())
}

fn linear(rows: u64, inputs: u64, outputs: u64) -> OperatorSpec {
    operator("linear", &[("rows", rows), ("inputs", inputs), ("outputs", outputs), ("bias", 1)])
}

fn kernels(cost: &Cost) -> &[Demand] {
    match cost {
        Cost::Kernels(kernels) => kernels,
        Cost::Measured(_) => panic!("a model has no measured times"),
    }
}

/// Bytes of each kernel.
fn bytes(cost: &Cost) -> Vec<u64> {
    kernels(cost).iter().map(|kernel| kernel.bytes).collect()
}

#[test]
fn backward_kernels_of_what_follows_run_before_the_weight_gradient() {
    let operators = [
        of_rows("layer-norm", 3, 6),
        of_rows("fork", 3, 6),
        linear(3, 6, 4),
        of_rows("relu", 3, 4),
        of_rows("layer-norm", 3, 4),
    ];
    let parts = operators.each_ref().map(|o| o.described(2).unwrap().parts.remove(0).0);
    let [before, fork, product, relu, behind] = &parts;
    let described = layer("x", &operators);
    let found = described.layer(false, FP16).unwrap();
    assert_eq!(kernels(&found.forward), parts.each_ref().map(|o| o.forward.clone()).concat());
    let weight_grad = [&behind.weight_grad, &behind.input_grad, &relu.input_grad, &product.weight_grad];
    assert_eq!(kernels(&found.weight_grad), weight_grad.map(Clone::clone).concat());
    let input_grad = [&product.input_grad, &fork.input_grad, &before.weight_grad, &before.input_grad];
    assert_eq!(kernels(&found.input_grad), input_grad.map(Clone::clone).concat());
    assert!([&behind.weight_grad, &relu.input_grad, &fork.input_grad].iter().all(|kernels| !kernels.is_empty()));
    // Norms have scale and shift.
    let params = 2 * 6 + (6 * 4 + 4) + 2 * 4;
    assert_eq!((found.params, found.gradient, kernels(&found.update).len()), (params, Bytes(2 * params), 1));
    assert!(described.layer(true, FP16).unwrap().input_grad.is_nothing());
    // What is not counted has parameters all the same.
    let weighted = described.layer(false, Counting { counted: Counted::Weighted, ..FP16 }).unwrap();
    assert_eq!(kernels(&weighted.forward), product.forward);
    assert_eq!(
        (kernels(&weighted.weight_grad), kernels(&weighted.input_grad)),
        (&product.weight_grad[..], &product.input_grad[..])
    );
    assert_eq!((weighted.params, weighted.gradient), (found.params, found.gradient));
}

/// The second bottleneck of ResNet-50's first stage: 256 channels, 64 within.
#[test]
fn a_residual_block_by_hand() {
    let convolution = |channels, filters| {
        of_image("convolution", channels, 56, &[("filters", filters), ("kernel", 1), ("stride", 1)])
    };
    let elements = |channels: u64| channels * 56 * 56;
    let x = 2 * elements(256); // bytes of a stage's activation
    let weights = 2 * 64 * 256;
    let conv1 = [
        of_rows("fork", 1, elements(256)),
        convolution(256, 64),
        of_image("batch-norm", 64, 56, &[]),
        of_rows("relu", 1, elements(64)),
    ];
    // Input gradient: the convolution's, then the addition of the shortcut's.
    let conv1 = layer("layer1.1.conv1", &conv1).layer(false, FP16).unwrap();
    assert_eq!(bytes(&conv1.input_grad), [x + x / 4 + weights, 3 * x]);
    let conv3 = [
        convolution(64, 256),
        of_image("batch-norm", 256, 56, &[]),
        of_rows("add", 1, elements(256)),
        of_rows("relu", 1, elements(256)),
    ];
    let conv3 = layer("layer1.1.conv3", &conv3).layer(false, FP16).unwrap();
    // Convolution, two kernels of batch norm, addition, ReLU.
    assert_eq!(bytes(&conv3.forward), [x / 4 + weights + x, x, 2 * x, 3 * x, 2 * x]);
    // ReLU, two kernels of batch norm, convolution.
    assert_eq!(bytes(&conv3.weight_grad), [3 * x, 2 * x, 3 * x, x / 4 + weights + x]);
}

/// Layers of VGG-16.
#[test]
fn layers_without_norms_by_hand() {
    let fp32 = Counting { execution: Execution::of(4), ..FP16 };
    let (x, y) = (4 * 128 * 112 * 112, 4 * 128 * 56 * 56); // an activation of the second block, and its pool's
    let weights = 4 * 128 * 128 * 9;
    let conv2_2 = [
        of_image("convolution", 128, 112, &[("filters", 128), ("kernel", 3), ("stride", 1), ("padding", 1)]),
        of_image("channel-bias", 128, 112, &[]),
        of_rows("relu", 1, 128 * 112 * 112),
        of_image("max-pool", 128, 112, &[("window", 2), ("stride", 2)]),
    ];
    let conv2_2 = layer("conv2_2", &conv2_2).layer(false, fp32).unwrap();
    // Convolution, bias, ReLU, pool.
    assert_eq!(bytes(&conv2_2.forward), [2 * x + weights, 2 * x, 2 * x, x + y]);
    // Pool, ReLU, bias, convolution; then the gradient of the input.
    assert_eq!(bytes(&conv2_2.weight_grad), [2 * (x + y), 3 * x, x, 2 * x + weights]);
    assert_eq!(bytes(&conv2_2.input_grad), [2 * x + weights]);
    assert_eq!(conv2_2.params, 128 * 128 * 9 + 128);
    let hidden = 4 * 4096;
    let fc7 = layer("fc7", &[linear(1, 4096, 4096), of_rows("relu", 1, 4096), of_rows("dropout", 1, 4096)]);
    let fc7 = fc7.layer(false, fp32).unwrap();
    // Matrix product with bias, ReLU, dropout with its mask of one byte.
    assert_eq!(bytes(&fc7.forward)[1..], [2 * hidden, 2 * hidden + 4096]);
    assert_eq!(bytes(&fc7.weight_grad)[..2], [2 * hidden + 4096, 3 * hidden]);
}

/// An LSTM layer of a decoder: its input is added to its output, and stands beside the context of the attention.
#[test]
fn a_recurrent_layer_by_hand() {
    let (rows, units) = (3 * 7, 1024);
    let sizes = [("samples", 3), ("steps", 7), ("inputs", 2 * units), ("hidden", units), ("directions", 1)];
    let operators = [
        of_rows("fork", rows, units),
        of_rows("concatenation", rows, units),
        operator("lstm", &sizes),
        of_rows("add", rows, units),
    ];
    let found = layer("decoder.3", &operators).layer(false, FP16).unwrap();
    let parts: Vec<Operator> =
        operators.iter().flat_map(|o| o.described(2).unwrap().parts).map(|(operator, _)| operator).collect();
    let [fork, side_by_side, products, cells, _] = &parts[..] else { panic!("an LSTM has two parts") };
    assert_eq!(found.params, 4 * units * 3 * units + 2 * 4 * units);
    // Backward, the cells come before the products; gradients of what is used twice are added at the end.
    assert_eq!(
        kernels(&found.weight_grad),
        [&cells.weight_grad[..], &cells.input_grad, &products.weight_grad].concat()
    );
    let input_grad = [&products.input_grad[..], &side_by_side.weight_grad, &side_by_side.input_grad, &fork.input_grad];
    assert_eq!(kernels(&found.input_grad), input_grad.concat());
}

#[test]
fn only_the_first_layer_of_a_chain_has_no_input_gradient() {
    let layers = chain(&[layer("a", &[linear(2, 3, 4)]), layer("b", &[linear(2, 4, 5)])], FP16).unwrap();
    assert!(layers[0].input_grad.is_nothing() && !layers[1].input_grad.is_nothing());
}

#[test]
fn layers_beyond_64_bits_are_refused() {
    let huge = of_rows("add", 1 << 53, 1 << 7);
    let layers: Vec<_> = (0..9).map(|n| layer(&n.to_string(), &[huge.clone(), huge.clone()])).collect();
    let refusal = chain(&layers, FP16).unwrap_err().to_string();
    assert!(refusal.starts_with("layers: all layers together need more"), "{refusal}");
    assert!(chain(&layers[..1], FP16).is_ok());
}

/// Two tables of three elements a row, MLPs of two layers and of one.
fn tables() -> RecommenderSpec {
    let sums = [("samples", 8), ("tables", 2), ("lookups", 5), ("features", 3), ("entries", 100)];
    RecommenderSpec {
        embedding: layer("embedding", &[operator("embedding-sum", &sums)]),
        exchange_bytes: 96,
        bottom: vec![layer("bottom.0", &[linear(8, 9, 4)]), layer("bottom.1", &[linear(8, 4, 3)])],
        interaction: layer("interaction", &[of_rows("copy", 8, 9)]),
        top: vec![layer("top.0", &[linear(8, 9, 1)])],
    }
}

#[test]
fn a_recommender_applies_the_gradients_of_tables_and_reduces_those_of_mlps() {
    let model = tables().recommender(FP16).unwrap();
    assert_eq!(model.exchange, Bytes(96));
    let names: Vec<_> = model.layers().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["embedding", "bottom.0", "bottom.1", "interaction", "top.0"]);
    let gradients: Vec<_> = model.layers().map(|l| l.gradient.0 / 2).collect();
    assert_eq!(gradients, [0, 9 * 4 + 4, 4 * 3 + 3, 0, 9 + 1]);
    assert_eq!(model.layers().map(|l| l.params).collect::<Vec<_>>(), gradients);
    // A lookup reads a row and its index; to apply a gradient, rows are read and written.
    let (rows, sums) = (8 * 2 * 5, 8 * 2 * 3 * 2);
    assert_eq!(bytes(&model.embedding.forward), [rows * (3 * 2 + 8) + sums]);
    assert_eq!(bytes(&model.embedding.weight_grad), [rows * (2 * 3 * 2 + 8) + sums]);
    assert!(model.embedding.update.is_nothing());
    assert!(model.interaction.weight_grad.is_nothing() && !model.interaction.forward.is_nothing());
    let without: Vec<_> = model.layers().filter(|l| l.input_grad.is_nothing()).map(|l| l.name.as_str()).collect();
    assert_eq!(without, ["embedding", "bottom.0"]);
}

#[test]
fn a_recommender_without_mlps_is_refused() {
    let refusal = |model: RecommenderSpec| model.recommender(FP16).unwrap_err().to_string();
    assert_eq!(
        refusal(RecommenderSpec { bottom: vec![], ..tables() }),
        "bottom: there are no layers; accepted: 1 or more"
    );
    assert_eq!(refusal(RecommenderSpec { top: vec![], ..tables() }), "top: there are no layers; accepted: 1 or more");
    let wrong = vec![layer("top.0", &[operator("linear", &[("rows", 0)])])];
    let named = refusal(RecommenderSpec { top: wrong, ..tables() });
    assert!(named.starts_with("top.0.operators.0.sizes.rows: rows is 0"), "{named}");
}

#[test]
fn only_the_products_of_linear_layers_are_narrow() {
    let of = |linear_bytes: Option<u32>| {
        let execution = Execution { widths: Widths { element_bytes: 2, linear_bytes }, framework: None };
        let layer = LayerSpec {
            name: "block".into(),
            operators: vec![
                operator("linear", &[("rows", 8), ("inputs", 4), ("outputs", 16)]),
                operator(
                    "attention",
                    &[("sequences", 1), ("heads", 2), ("queries", 4), ("head_size", 8), ("fused", 1)],
                ),
                operator("router", &[("rows", 8), ("features", 4), ("experts", 2)]),
                operator("experts", &[("experts", 2), ("rows", 8), ("inputs", 4), ("outputs", 3)]),
            ],
            shared: 0,
        };
        layer.layer(false, Counting { execution, counted: Counted::All }).unwrap()
    };
    let (wide, narrow) = (of(None), of(Some(1)));
    assert_eq!((wide.params, wide.gradient, &wide.update), (narrow.params, narrow.gradient, &narrow.update));
    let kernels = |cost: &Cost| match cost {
        Cost::Kernels(kernels) => kernels.clone(),
        Cost::Measured(_) => unreachable!("operators are computed"),
    };
    let mut saved = Vec::new();
    for (before, after) in [(&wide.forward, &narrow.forward), (&wide.weight_grad, &narrow.weight_grad)] {
        for (before, after) in kernels(before).into_iter().zip(kernels(after)) {
            assert_eq!((before.flops, before.narrow), (after.flops, false));
            if after.narrow {
                saved.push(before.bytes - after.bytes);
            } else {
                assert_eq!(before, after);
            }
        }
    }
    // Forward, 8 x 4 inputs and 4 x 16 weights, and of experts as many inputs and 2 x 4 x 3 weights; behind, gradients of
    // experts: 8 x 4 and 8 x 3 of their weights, 8 x 3 and 24 of their inputs; and 8 x 4 and 8 x 16 of the weights.
    assert_eq!(saved, [96, 56, 56, 48, 160]);
}

#[test]
fn narrow_factors_are_refused_that_are_none() {
    let refused =
        |element_bytes, linear_bytes| Widths { element_bytes, linear_bytes }.checked().unwrap_err().to_string();
    assert_eq!(refused(3, None), "element_bytes: elements of 3 bytes; accepted: [1, 2, 4, 8]");
    assert_eq!(refused(2, Some(4)), "linear_bytes: elements of 4 bytes; accepted: [1, 2]");
}
