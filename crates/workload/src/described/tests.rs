use super::*;
use proptest::prelude::*;

fn spec(kind: &str, sizes: &[(&str, u64)]) -> OperatorSpec {
    let sizes = sizes.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    OperatorSpec { kind: kind.to_owned(), sizes }
}

fn described(kind: &str, sizes: &[(&str, u64)]) -> Described {
    spec(kind, sizes).described(2).unwrap_or_else(|refusal| panic!("{kind}: {refusal}"))
}

/// A layer of GPT: sequences of `s` tokens, `b` of them, `h` features, `a` heads.
fn gpt_layer(s: u64, b: u64, h: u64, a: u64) -> Vec<Described> {
    let rows = ("rows", s * b);
    let linear = |inputs, outputs| described("linear", &[rows, ("inputs", inputs), ("outputs", outputs), ("bias", 1)]);
    let each = |kind: &str, features| described(kind, &[rows, ("features", features)]);
    let core = [("sequences", b), ("heads", a), ("queries", s), ("head_size", h / a), ("dropout", 1)];
    vec![
        each("layer-norm", h),
        linear(h, 3 * h),
        described("attention", &core),
        linear(h, h),
        each("dropout", h),
        each("add", h),
        each("layer-norm", h),
        linear(h, 4 * h),
        each("gelu", 4 * h),
        linear(4 * h, h),
        each("dropout", h),
        each("add", h),
    ]
}

/// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", equation 1.
#[test]
fn a_layer_of_gpt_keeps_what_is_published() {
    for (s, b, h, a) in [(2048, 1, 12_288, 96), (1024, 4, 1600, 25), (8, 3, 12, 2)] {
        let kept: u64 = gpt_layer(s, b, h, a).iter().map(|operator| operator.saved_bytes).sum();
        assert_eq!(kept, s * b * h * 34 + 5 * a * s * s * b);
        // The table of section 4.1, by the parts of the layer: norms, attention and its dropout, MLP and its dropout.
        let each: Vec<u64> = gpt_layer(s, b, h, a).iter().map(|operator| operator.saved_bytes).collect();
        assert_eq!(each[0] + each[6], 4 * s * b * h);
        assert_eq!(each[1..6].iter().sum::<u64>(), 11 * s * b * h + 5 * a * s * s * b);
        assert_eq!(each[7..].iter().sum::<u64>(), 19 * s * b * h);
    }
}

/// Fused attention keeps queries, keys and values (6 of the 34), but of the scores only a number for each row.
#[test]
fn fused_attention_keeps_no_scores() {
    let sizes = [("sequences", 3), ("heads", 4), ("queries", 100), ("head_size", 8), ("fused", 1)];
    assert_eq!(described("attention", &sizes).saved_bytes, 6 * 3 * 100 * 32 + 4 * 3 * 4 * 100);
}

/// Narayanan et al. ("Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021),
/// appendix: 24 B s h^2 + 4 B s^2 h forward, twice that backward.
#[test]
fn products_of_a_layer_of_gpt_are_as_published() {
    let (s, b, h, a) = (2048, 4, 1024, 16);
    let sum = |pass: fn(&Passes) -> &Vec<Demand>| -> u64 {
        let passes = gpt_layer(s, b, h, a).into_iter().map(|operator| operator.passes(Counted::All));
        passes.map(|p| pass(&p).iter().filter_map(|k| k.gemm).map(crate::Gemm::flops).sum::<u64>()).sum()
    };
    let forward = 24 * b * s * h * h + 4 * b * s * s * h;
    assert_eq!(sum(|p| &p.forward), forward);
    assert_eq!(sum(|p| &p.weight_grad) + sum(|p| &p.input_grad), 2 * forward);
    let params: u64 = gpt_layer(s, b, h, a).iter().map(Described::params).sum();
    assert_eq!(params, 12 * h * h + 13 * h);
}

#[test]
fn what_is_kept_and_what_comes_out_by_hand() {
    let image = [("samples", 2), ("channels", 3), ("height", 8), ("width", 10)]; // 480 elements
    let with = |more: &[(&'static str, u64)]| [&image[..], more].concat();
    let conv = described("convolution", &with(&[("filters", 5), ("kernel", 3), ("stride", 2), ("padding", 1)]));
    assert_eq!((conv.params(), conv.input_elements, conv.output_elements, conv.saved_bytes), (135, 480, 200, 960));
    let pool = described("max-pool", &with(&[("window", 2), ("stride", 2)]));
    assert_eq!((pool.input_elements, pool.output_elements, pool.saved_bytes), (480, 120, 960));
    let relu = described("relu", &[("rows", 2), ("features", 240)]);
    assert_eq!((relu.output_elements, relu.saved_bytes), (480, 0));
    let loss = described("softmax-cross-entropy", &[("rows", 10), ("vocabulary", 7)]);
    assert_eq!((loss.output_elements, loss.saved_bytes), (10, 4 * 70));
    let table = described("embedding", &[("rows", 10), ("vocabulary", 7), ("features", 4)]);
    assert_eq!((table.params(), table.output_elements, table.saved_bytes), (28, 40, 80));
    let lstm = [("samples", 3), ("steps", 5), ("inputs", 4), ("hidden", 8), ("directions", 2)];
    let lstm = described("lstm", &lstm);
    assert_eq!((lstm.output_elements, lstm.saved_bytes), (15 * 16, 2 * 15 * (4 + 2 * 5 * 8)));
    let gated = described("swiglu", &[("rows", 10), ("features", 6)]);
    assert_eq!((gated.input_elements, gated.output_elements, gated.saved_bytes), (120, 60, 240));
    let sums = [("samples", 2), ("tables", 3), ("lookups", 5), ("features", 4), ("entries", 100)];
    let sums = described("embedding-sum", &sums);
    assert_eq!((sums.params(), sums.output_elements, sums.saved_bytes), (1200, 24, 8 * 30));
}

#[test]
fn only_weighted_operators_are_counted_if_asked() {
    let sizes = [("samples", 3), ("steps", 5), ("inputs", 4), ("hidden", 8), ("directions", 1)];
    let lstm = described("lstm", &sizes);
    let (all, weighted) = (lstm.passes(Counted::All), lstm.passes(Counted::Weighted));
    assert_eq!((all.forward.len(), weighted.forward.len()), (3, 2));
    // Backward, the cells come first.
    assert_eq!(all.weight_grad[1..], weighted.weight_grad);
    let norm = described("layer-norm", &[("rows", 3), ("features", 4)]);
    assert_eq!(norm.passes(Counted::Weighted), Passes::default());
    assert_eq!(norm.params(), 8);
}

#[test]
fn what_is_wrong_is_named_with_what_is_accepted() {
    let wrong = |kind: &str, sizes: &[(&str, u64)]| spec(kind, sizes).described(2).unwrap_err().to_string();
    let linear = [("rows", 1), ("inputs", 2), ("outputs", 3)];
    assert!(wrong("liner", &linear).starts_with("kind: no kind of operators is named \"liner\"; accepted: linear, "));
    assert_eq!(
        wrong("linear", &[("row", 1)]),
        "sizes: linear has no size \"row\"; accepted: rows, inputs, outputs, bias"
    );
    assert_eq!(wrong("linear", &linear[1..]), "sizes.rows: this size is missing; accepted: 1 to 9007199254740992");
    let outputs = [("rows", 1), ("inputs", 2), ("outputs", 1 << 32)];
    assert_eq!(wrong("linear", &outputs), "sizes.outputs: outputs is 4294967296; accepted: 1 to 4294967295");
    let biased = [&linear[..], &[("bias", 2)]].concat();
    assert_eq!(wrong("linear", &biased), "sizes.bias: bias is 2; accepted: 0 to 1");
    let heads = [("sequences", 1), ("heads", 6), ("kv_heads", 4), ("queries", 2), ("head_size", 2)];
    assert_eq!(wrong("attention", &heads), "sizes: 6 heads share the keys of 4; accepted: kv_heads that divide 6");
    let pool = [("samples", 1), ("channels", 1), ("height", 4), ("width", 9), ("window", 5), ("stride", 1)];
    assert!(wrong("max-pool", &pool).ends_with("larger than the padded input; accepted: up to 4"));
    let huge = [("rows", 1 << 53), ("inputs", u64::from(u32::MAX)), ("outputs", u64::from(u32::MAX))];
    assert!(wrong("linear", &huge).contains("more operations or bytes than 64 bits count"));
}

#[test]
fn requests_are_answered_in_order() {
    let answer = request::answer(
        r#"{"element_bytes": 2, "operators": [
            {"kind": "add", "sizes": {"rows": 2, "features": 3}},
            {"kind": "linear", "sizes": {"rows": 2, "inputs": 3, "outputs": 4}}]}"#,
    );
    let expected = r#"[{"params":0,"saved_bytes":0,"input_elements":12,"output_elements":6,"#;
    let answer = answer.unwrap();
    assert!(answer.starts_with(expected), "{answer}");
    let gemm = r#""forward":[{"flops":48,"bytes":52,"gemm":{"m":2,"k":3,"n":4,"count":1,"operands":[12,24]}}]"#;
    assert!(answer.contains(gemm), "{answer}");
    let wrong = |request: &str| request::answer(request).unwrap_err().to_string();
    assert_eq!(
        wrong(r#"{"element_bytes": 3, "operators": []}"#),
        "element_bytes: elements of 3 bytes; accepted: [1, 2, 4, 8]"
    );
    let second = r#"{"element_bytes": 2, "operators": [{"kind": "add", "sizes": {"rows": 2, "features": 3}},
        {"kind": "add", "sizes": {"rows": 0, "features": 3}}]}"#;
    assert!(wrong(second).starts_with("operators.1.sizes.rows: rows is 0"), "{}", wrong(second));
}

proptest! {
    /// Whatever the sizes are, there is an operator or a refusal.
    #[test]
    fn no_size_panics(
        kind in 0..KINDS.len(), values in prop::collection::vec(any::<u64>(), 10), bits in prop::collection::vec(0u32..64, 10),
        element_bytes in prop::sample::select(vec![1u32, 2, 4, 8]),
    ) {
        let kind = &KINDS[kind];
        let value = |i: usize| values[i] >> bits[i];
        let sizes = kind.sizes.iter().enumerate().map(|(i, size)| (size.name.to_owned(), value(i)));
        let spec = OperatorSpec { kind: kind.name.to_owned(), sizes: sizes.collect() };
        if let Ok(described) = spec.described(element_bytes) {
            prop_assert!(!described.is_beyond_64_bits());
            let Passes { forward, weight_grad, input_grad } = described.passes(Counted::All);
            for kernel in [forward, weight_grad, input_grad].concat() {
                prop_assert!(kernel.gemm.is_none_or(|gemm| gemm.flops() == kernel.flops));
            }
        }
    }

    /// Twice the rows are twice the work, but for weights.
    #[test]
    fn demand_grows_with_the_rows(kind in 0..KINDS.len(), rows in 1u64..1000) {
        let kind = &KINDS[kind];
        let with = |rows: u64| {
            let value = |size: &SizeOf| match (size.form, size.name) {
                (Form::Rows, _) | (_, "samples") => rows,
                (Form::Flag, _) => 0,
                (_, "directions" | "stride" | "padding" | "kernel" | "window") => 1,
                _ => 4,
            };
            let sizes = kind.sizes.iter().map(|size| (size.name.to_owned(), value(size))).collect();
            OperatorSpec { kind: kind.name.to_owned(), sizes }.described(2).unwrap()
        };
        let (one, two) = (with(8 * rows), with(16 * rows));
        prop_assert_eq!(one.params(), two.params());
        // The second factor of products of activations, and what attention asks, do not grow with the rows.
        prop_assert!(one.saved_bytes <= two.saved_bytes && two.saved_bytes <= 2 * one.saved_bytes);
        prop_assert_eq!(2 * one.output_elements, two.output_elements);
        let flops = |d: &Described| d.passes(Counted::All).forward.iter().map(|k| k.flops).sum::<u64>();
        prop_assert_eq!(2 * flops(&one), flops(&two));
        let bytes = |d: &Described| d.passes(Counted::All).forward.iter().map(|k| k.bytes).sum::<u64>();
        prop_assert!(bytes(&one) <= bytes(&two) && bytes(&two) <= 2 * bytes(&one));
    }
}
