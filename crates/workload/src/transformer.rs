//! Operators of transformers: what they ask of an NPU, from their shapes.
//!
//! What is counted is as in [`crate::operators`]: two FLOPs per multiply-accumulate, every operand read once and every result
//! written once per kernel.
//!
//! # Attention
//! The core of attention is what lies between the projections: scores, softmax and context (Vaswani et al.: "Attention Is
//! All You Need", NIPS 2017, section 3.2.1). Queries of `heads` share the keys and values of `kv_heads` (Ainslie et al.:
//! "GQA", EMNLP 2023), which makes them further rows of the same products.
//!
//! * *Not fused*: two matrix products with a kernel for scale, mask and softmax between them, as in Megatron-LM. Scores go
//!   through memory. Libraries compute all scores and mask what causality forbids, so `causal` saves nothing.
//! * *Fused*: one kernel forward and one backward, in which scores stay on the chip (Dao et al.: "FlashAttention", NeurIPS
//!   2022). Backward computes the scores again: five products to the two of forward (Dao: "FlashAttention-2", 2023, section
//!   3.1). Keys that causality forbids are skipped, so `causal` halves the FLOPs. A kernel is described as one product of
//!   queries and keys whose sums are as long as those of its products together, so that its operations are theirs; the
//!   operations of the softmax are not counted. Its second operand, keys and values, is what tiles of queries read again.
//!
//! # Mixture of experts
//! A router chooses some experts for each token (Shazeer et al.: "Outrageously Large Neural Networks", ICLR 2017; Fedus et
//! al.: "Switch Transformers", JMLR 2022). Tokens are copied into the order of experts, experts are matrix products of a
//! shape, and results are weighed and added. Experts are taken to have equally many rows.

use crate::layer::{Demand, Gemm};
use crate::operators::{Operator, dropout, gemm, kernel, moved, product};

/// The core of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Sequences.
    pub sequences: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values, a divisor of `heads`.
    pub kv_heads: u64,
    /// Positions of each sequence that ask.
    pub queries: u64,
    /// Positions of each sequence that are asked.
    pub keys: u64,
    /// Features of a query and of a key, per head.
    pub head_size: u64,
    /// Features of a value, per head.
    pub value_size: u64,
    /// Whether positions ask earlier ones only.
    pub causal: bool,
    /// Whether scores stay on the chip.
    pub fused: bool,
    /// Whether probabilities are dropped out.
    pub dropout: bool,
}

impl Core {
    /// Elements of all queries, keys, values, contexts and scores.
    pub fn tensors(self) -> CoreTensors {
        let (asking, asked) = (product(&[self.sequences, self.queries]), product(&[self.sequences, self.keys]));
        CoreTensors {
            queries: product(&[asking, self.heads, self.head_size]),
            keys: product(&[asked, self.kv_heads, self.head_size]),
            values: product(&[asked, self.kv_heads, self.value_size]),
            contexts: product(&[asking, self.heads, self.value_size]),
            scores: product(&[asking, self.heads, self.keys]),
            rows: product(&[asking, self.heads]),
        }
    }

    /// The kernels.
    pub fn operator(self, element_bytes: u32) -> Operator {
        if self.fused { self.in_one(element_bytes) } else { self.one_by_one(element_bytes) }
    }

    fn one_by_one(self, bytes: u32) -> Operator {
        let CoreTensors { queries: q, keys: k, values: v, contexts: o, scores: s, .. } = self.tensors();
        let (rows, count) = (self.rows_of_group(), product(&[self.sequences, self.kv_heads]));
        let Core { keys, head_size, value_size, .. } = self;
        let of = |shape, elements: [u64; 3]| gemm(shape, count, &elements, bytes);
        let softmax = |flops: u64, tensors: u64| kernel(product(&[flops, s]), &[product(&[tensors, s])], bytes);
        let dropped = if self.dropout { dropout(s, bytes).forward } else { Vec::new() };
        let mut forward = vec![of([rows, head_size, keys], [q, k, s]), softmax(5, 2)];
        forward.extend(&dropped);
        forward.push(of([rows, keys, value_size], [s, v, o]));
        let mut input_grad = vec![of([rows, value_size, keys], [o, v, s]), of([keys, rows, value_size], [s, o, v])];
        input_grad.extend(&dropped);
        input_grad.extend([
            softmax(4, 3),
            of([rows, keys, head_size], [s, k, q]),
            of([keys, rows, head_size], [s, q, k]),
        ]);
        Operator { forward, input_grad, ..Operator::default() }
    }

    fn in_one(self, bytes: u32) -> Operator {
        let CoreTensors { queries: q, keys: k, values: v, contexts: o, rows, .. } = self.tensors();
        let asked = if self.causal { self.keys.div_ceil(2) } else { self.keys };
        let fused = |sum: u64, elements: &[u64]| {
            let (k, v) = (moved(&[k], bytes), moved(&[v], bytes));
            let (m, n) = (self.rows_of_group(), asked);
            let count = product(&[self.sequences, self.kv_heads]);
            let shape = Gemm { m, k: sum, n, count, operands: [0, k.saturating_add(v)] };
            let statistics = product(&[rows, Self::STATISTIC_BYTES]);
            vec![Demand::of_gemm(shape, moved(elements, bytes).saturating_add(statistics))]
        };
        let Core { head_size, value_size, .. } = self;
        let sum = |keys: u64, values: u64| product(&[keys, head_size]).saturating_add(product(&[values, value_size]));
        Operator {
            forward: fused(sum(1, 1), &[q, k, v, o]),
            // Scores again and the gradients of queries and keys; those of probabilities and values.
            input_grad: fused(sum(3, 2), &[q, k, v, o, o, q, k, v]),
            ..Operator::default()
        }
    }

    /// Bytes of what a fused kernel keeps for each query of a head: the logarithm of the sum of the exponentials.
    pub const STATISTIC_BYTES: u64 = 4;

    /// Queries that ask the same keys.
    fn rows_of_group(self) -> u64 {
        product(&[self.queries, self.heads / self.kv_heads])
    }
}

/// Elements of what the core of attention works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreTensors {
    /// Queries.
    pub queries: u64,
    /// Keys.
    pub keys: u64,
    /// Values.
    pub values: u64,
    /// Sums of values: the result.
    pub contexts: u64,
    /// Scores, and probabilities.
    pub scores: u64,
    /// Queries of all heads, each a row of scores.
    pub rows: u64,
}

/// Layer normalisation with scale and shift over rows of `features`, a kernel per pass. Statistics of a row are too small to
/// count. Forward: mean, variance, normalised, scaled and shifted.
pub fn layer_norm(rows: u64, features: u64, element_bytes: u32) -> Operator {
    norm(product(&[rows, features]), product(&[2, features]), [8, 4, 9], element_bytes)
}

/// Normalisation by the root of the mean square, with scale (Zhang and Sennrich: "Root Mean Square Layer Normalization",
/// NeurIPS 2019).
pub fn rms_norm(rows: u64, features: u64, element_bytes: u32) -> Operator {
    norm(product(&[rows, features]), features, [4, 3, 7], element_bytes)
}

/// Forward reads and writes; the gradients of scale and shift are sums over input and incoming gradient; that of the input
/// reads both and writes.
fn norm(n: u64, params: u64, flops: [u64; 3], element_bytes: u32) -> Operator {
    let sweep =
        |flops: u64, tensors: u64| vec![kernel(product(&[flops, n]), &[product(&[tensors, n]), params], element_bytes)];
    let [forward, weight_grad, input_grad] = flops;
    Operator {
        params,
        forward: sweep(forward, 2),
        weight_grad: sweep(weight_grad, 2),
        input_grad: sweep(input_grad, 3),
    }
}

/// An activation function of `n` elements that takes so many operations forward and backward; backward reads its input and
/// the incoming gradient.
pub fn activation(n: u64, [forward, backward]: [u64; 2], element_bytes: u32) -> Operator {
    Operator {
        forward: vec![kernel(product(&[forward, n]), &[n, n], element_bytes)],
        input_grad: vec![kernel(product(&[backward, n]), &[n, n, n], element_bytes)],
        ..Operator::default()
    }
}

/// The product of two tensors of `n` elements, one of which passes through an activation function (Shazeer: "GLU Variants
/// Improve Transformer", 2020). Backward reads both and the incoming gradient, and writes two.
pub fn gated(n: u64, [forward, backward]: [u64; 2], element_bytes: u32) -> Operator {
    let both = product(&[2, n]);
    Operator {
        forward: vec![kernel(product(&[forward, n]), &[both, n], element_bytes)],
        input_grad: vec![kernel(product(&[backward, n]), &[both, n, both], element_bytes)],
        ..Operator::default()
    }
}

/// Turns pairs of `n` elements by angles of their positions (Su et al.: "RoFormer", 2021), in place; the angles are too
/// small to count. Backward turns gradients the other way.
pub fn rotation(n: u64, element_bytes: u32) -> Operator {
    let turn = vec![kernel(product(&[3, n]), &[n, n], element_bytes)];
    Operator { forward: turn.clone(), input_grad: turn, ..Operator::default() }
}

/// Adds a table of positions to `n` elements; `table` is its size. Rows of the table stay in a cache from one sequence to the
/// next. Its gradient is the sum over sequences.
pub fn position_embedding(n: u64, table: u64, element_bytes: u32) -> Operator {
    Operator {
        params: table,
        forward: vec![kernel(n, &[n, table, n], element_bytes)],
        weight_grad: vec![kernel(n, &[n, table], element_bytes)],
        ..Operator::default()
    }
}

/// `count` products of two activations, `m x k` times `k x n`; both have a gradient.
pub fn of_activations(m: u64, k: u64, n: u64, count: u64, element_bytes: u32) -> Operator {
    let (x, w, y) = (product(&[count, m, k]), product(&[count, k, n]), product(&[count, m, n]));
    let of = |shape, elements: [u64; 3]| gemm(shape, count, &elements, element_bytes);
    Operator {
        forward: vec![of([m, k, n], [x, w, y])],
        input_grad: vec![of([m, n, k], [y, w, x]), of([k, m, n], [x, y, w])],
        ..Operator::default()
    }
}

/// Chooses experts for each row: a product with a column per expert, and softmax and choice in one kernel.
pub fn router(rows: u64, features: u64, experts: u64, element_bytes: u32) -> Operator {
    let (x, y, weights) = (product(&[rows, features]), product(&[rows, experts]), product(&[features, experts]));
    let choice = |flops: u64, tensors: u64| kernel(product(&[flops, y]), &[product(&[tensors, y])], element_bytes);
    Operator {
        params: weights,
        forward: vec![gemm([rows, features, experts], 1, &[x, weights, y], element_bytes), choice(6, 2)],
        weight_grad: vec![choice(4, 3), gemm([features, rows, experts], 1, &[x, y, weights], element_bytes)],
        input_grad: vec![gemm([rows, experts, features], 1, &[y, weights, x], element_bytes)],
    }
}

/// Copies each of `rows` to `copies` places, as tokens to the experts that were chosen for them. Backward adds the gradients
/// of the copies.
pub fn dispatch(rows: u64, copies: u64, features: u64, element_bytes: u32) -> Operator {
    let (one, all) = (product(&[rows, features]), product(&[rows, copies, features]));
    Operator {
        forward: vec![kernel(0, &[all, all], element_bytes)],
        input_grad: vec![kernel(all, &[all, one], element_bytes)],
        ..Operator::default()
    }
}

/// Adds `copies` results for each of `rows`, weighed. Backward, the gradient goes to all of them, and their products with it
/// are the gradients of the weights.
pub fn combine(rows: u64, copies: u64, features: u64, element_bytes: u32) -> Operator {
    let (one, all) = (product(&[rows, features]), product(&[rows, copies, features]));
    Operator {
        forward: vec![kernel(product(&[2, all]), &[all, one], element_bytes)],
        input_grad: vec![kernel(product(&[3, all]), &[all, one, all], element_bytes)],
        ..Operator::default()
    }
}

/// A fully connected layer for each of `experts`, without bias, whose inputs have `rows` in all, equally many each. With
/// fewer rows than experts, only so many work.
pub fn experts(experts: u64, rows: u64, inputs: u64, outputs: u64, element_bytes: u32) -> Operator {
    let working = experts.min(rows);
    let each = rows.div_ceil(working.max(1));
    let (x, y) = (product(&[rows, inputs]), product(&[rows, outputs]));
    let weights = product(&[working, inputs, outputs]);
    let of = |shape, elements: [u64; 3]| vec![gemm(shape, working, &elements, element_bytes)];
    Operator {
        params: product(&[experts, inputs, outputs]),
        forward: of([each, inputs, outputs], [x, weights, y]),
        weight_grad: of([inputs, each, outputs], [x, y, weights]),
        input_grad: of([each, outputs, inputs], [y, weights, x]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: Core = Core {
        sequences: 2,
        heads: 6,
        kv_heads: 3,
        queries: 4,
        keys: 8,
        head_size: 5,
        value_size: 7,
        causal: false,
        fused: false,
        dropout: false,
    };

    fn product_flops(kernels: &[Demand]) -> u64 {
        kernels.iter().filter_map(|k| k.gemm).map(Gemm::flops).sum()
    }

    fn bytes(kernels: &[Demand]) -> u64 {
        kernels.iter().map(|k| k.bytes).sum()
    }

    #[test]
    fn attention_by_hand() {
        let op = CORE.operator(2);
        // 2 x 6 heads of 4 x 8 scores; sums of 5 for each, and 8 terms for each of 7 values.
        let scores = 2 * 6 * 4 * 8;
        assert_eq!(product_flops(&op.forward), 2 * scores * (5 + 7));
        assert_eq!(product_flops(&op.input_grad), 2 * product_flops(&op.forward));
        assert_eq!((op.params, op.weight_grad.len()), (0, 0));
        // Four tensors of scores: written and read by products, read and written between them.
        let (q, k, v, o) = (2 * 4 * 6 * 5, 2 * 8 * 3 * 5, 2 * 8 * 3 * 7, 2 * 4 * 6 * 7);
        assert_eq!(bytes(&op.forward), 2 * (4 * scores + q + k + v + o));
        // Two products write or read scores of each kind, three tensors between; queries, keys, values, and their gradients.
        assert_eq!(bytes(&op.input_grad), 2 * (7 * scores + 2 * (q + k + v + o)));
        let dropped = Core { dropout: true, ..CORE }.operator(2);
        assert_eq!(bytes(&dropped.forward) - bytes(&op.forward), 5 * scores);
        assert_eq!(Core { causal: true, ..CORE }.operator(2), op);
    }

    #[test]
    fn fused_attention_does_the_same_products_and_moves_no_scores() {
        let apart = CORE.operator(2);
        let fused = Core { fused: true, ..CORE }.operator(2);
        assert_eq!(product_flops(&fused.forward), product_flops(&apart.forward));
        let scores = 2 * 6 * 4 * 8;
        assert_eq!(product_flops(&fused.input_grad), product_flops(&apart.input_grad) + 2 * scores * 5);
        let (q, k, v, o) = (2 * 4 * 6 * 5, 2 * 8 * 3 * 5, 2 * 8 * 3 * 7, 2 * 4 * 6 * 7);
        assert_eq!(bytes(&fused.forward), 2 * (q + k + v + o) + 4 * 2 * 6 * 4);
        // Queries and contexts of all heads, the gradient of contexts, keys, values, and what is written.
        assert_eq!(bytes(&fused.input_grad), 2 * (2 * (q + k + v) + 2 * o) + 4 * 2 * 6 * 4);
        let causal = Core { fused: true, causal: true, ..CORE }.operator(2);
        assert_eq!(2 * product_flops(&causal.forward), product_flops(&fused.forward));
        assert_eq!(2 * product_flops(&causal.input_grad), product_flops(&fused.input_grad));
    }

    /// Keys and values are read once for each tile of the queries that ask them.
    #[test]
    fn tiles_of_queries_read_keys_and_values_again() {
        let fused = Core { fused: true, ..CORE }.operator(2);
        let (k, v) = (2 * 8 * 3 * 5, 2 * 8 * 3 * 7);
        let gemm = fused.forward[0].gemm.unwrap();
        assert_eq!(gemm.m, 8); // two heads of four queries
        assert_eq!(gemm.reread(8), 0);
        assert_eq!(gemm.reread(3), 2 * 2 * (k + v));
    }

    #[test]
    fn experts_are_fully_connected_layers() {
        let op = experts(4, 12, 5, 7, 2);
        assert_eq!(op.params, 4 * 35);
        assert_eq!(product_flops(&op.forward), 2 * 12 * 35);
        assert_eq!(bytes(&op.forward), 2 * (12 * 5 + 4 * 35 + 12 * 7));
        assert_eq!(product_flops(&op.weight_grad) + product_flops(&op.input_grad), 4 * 12 * 35);
        // One expert is a fully connected layer.
        let one = crate::operators::fully_connected(12, 5, 7, false, 2);
        assert_eq!(experts(1, 12, 5, 7, 2), one);
        // Three rows for four experts: one of them is idle, and its weights are not read.
        let few = experts(4, 3, 5, 7, 2);
        assert_eq!((few.params, product_flops(&few.forward)), (140, 2 * 3 * 35));
        assert_eq!(bytes(&few.forward), 2 * (3 * 5 + 3 * 35 + 3 * 7));
    }

    #[test]
    fn elementwise_traffic() {
        let sweeps = |kernels: &[Demand]| bytes(kernels) / (100 * 2);
        let gelu = activation(100, [8, 13], 2);
        assert_eq!((sweeps(&gelu.forward), sweeps(&gelu.input_grad)), (2, 3));
        let swiglu = gated(100, [5, 10], 2);
        assert_eq!((sweeps(&swiglu.forward), sweeps(&swiglu.input_grad)), (3, 5));
        let turned = rotation(100, 2);
        assert_eq!((sweeps(&turned.forward), sweeps(&turned.input_grad)), (2, 2));
        let norm = layer_norm(10, 10, 2);
        assert_eq!((norm.params, rms_norm(10, 10, 2).params), (20, 10));
        let passes = [&norm.forward, &norm.weight_grad, &norm.input_grad];
        assert_eq!(passes.map(|pass| sweeps(pass)), [2, 2, 3]);
        let (out, back) = (dispatch(10, 4, 10, 2), combine(10, 4, 10, 2));
        assert_eq!((sweeps(&out.forward), sweeps(&out.input_grad)), (8, 5));
        assert_eq!((sweeps(&back.forward), sweeps(&back.input_grad)), (5, 9));
    }

    #[test]
    fn a_router_is_a_small_product_and_a_choice() {
        let op = router(10, 6, 4, 2);
        assert_eq!(op.params, 24);
        assert_eq!(product_flops(&op.forward), 2 * 10 * 24);
        assert_eq!(bytes(&op.forward), 2 * (60 + 24 + 40) + 2 * 2 * 40);
        assert_eq!(product_flops(&op.weight_grad) + product_flops(&op.input_grad), 4 * 10 * 24);
    }
}
