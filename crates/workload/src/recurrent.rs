//! Operators of recurrent networks with attention: what they ask of an NPU, from their shapes.
//!
//! # LSTM layers run as a library runs them
//! The products with the layer's input do not depend on earlier steps and are one matrix product over
//! the whole sequence. Those with the hidden state follow one another, a product per step, and each reads
//! the recurrent weights again: 8 MiB of them (1024 units in FP16) are more than a cache holds, and
//! kernels that keep them in registers for the whole sequence (Diamos et al.: "Persistent RNNs", ICML
//! 2016) pay off for batches of a few sequences, not for a hundred. This makes training bound by memory:
//! a step with 128 sequences does 99 operations per byte. The cell (three sigmoids, two hyperbolic tangents,
//! products and sum) is a kernel per step and keeps the activated gates for backward. Backward, steps
//! go the other way round; the gradients of the weights and of the input are again one product each over the
//! whole sequence (Appleyard, Kociský, Blunsom: "Optimizing Performance of Recurrent Neural Networks on
//! GPUs", 2016, on these kernels).
//!
//! # Attention
//! Bahdanau's, normalised (Bahdanau, Cho, Bengio, ICLR 2015; Salimans and Kingma, NIPS 2016): every pair
//! of a decoder and an encoder position scores `v . tanh(W_q q + W_k k + b)`. The sums of all pairs are a
//! tensor in main memory, over which elementwise kernels go one by one, as everywhere
//! ([`crate::operators`]). Queries of all positions are known before (teacher forcing), so that nothing
//! happens step by step.
//!
//! Left out: dropout, packing of sequences, beam search, gradient clipping.

use crate::operators::{Operator, gemm, kernel, product};

/// The size of an LSTM layer and of what it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lstm {
    /// Features of its input.
    pub inputs: u32,
    /// Hidden units per direction.
    pub hidden: u32,
    /// 1, or 2 for one LSTM forwards and one backwards, whose outputs are put side by side.
    pub directions: u32,
}

impl Lstm {
    /// Operations of the cell per hidden unit and step: gates, state and output.
    const CELL_FLOPS: u64 = 9;
    /// The same of its gradient.
    const CELL_GRAD_FLOPS: u64 = 20;

    /// The layer's matrix products, and the cells between them, over `steps` steps of `batch` sequences.
    /// Both LSTM biases are trained; the gradient through time belongs to the weight-gradient pass,
    /// which needs it first.
    pub fn operators(self, batch: u32, steps: u32, element_bytes: u32) -> (Operator, Operator) {
        let (batch, steps) = (u64::from(batch), u64::from(steps));
        let (inputs, hidden) = (u64::from(self.inputs), u64::from(self.hidden));
        let (gates, rows) = (product(&[4, hidden]), product(&[batch, steps]));
        let (input_weights, hidden_weights) = (product(&[inputs, gates]), product(&[hidden, gates]));
        let biases = product(&[2, gates]);
        let (x, all_gates, all_hidden) = (product(&[rows, inputs]), product(&[rows, gates]), product(&[rows, hidden]));
        let reread = product(&[steps, hidden_weights]);
        let each = |kernels: Vec<_>| (0..self.directions).flat_map(|_| kernels.clone()).collect::<Vec<_>>();
        let matrices = Operator {
            params: product(&[self.directions.into(), input_weights + hidden_weights + biases]),
            forward: each(vec![
                gemm([rows, inputs, gates], 1, &[x, input_weights, biases, all_gates], element_bytes),
                // Added to the products with the input.
                gemm([batch, hidden, gates], steps, &[all_hidden, reread, all_gates, all_gates], element_bytes),
            ]),
            weight_grad: each(vec![
                gemm([batch, gates, hidden], steps, &[all_gates, reread, all_hidden, all_hidden], element_bytes),
                gemm([inputs, rows, gates], 1, &[x, all_gates, input_weights], element_bytes),
                gemm([hidden, rows, gates], 1, &[all_hidden, all_gates, hidden_weights], element_bytes),
                kernel(all_gates, &[all_gates, biases], element_bytes),
            ]),
            input_grad: each(vec![gemm([rows, gates, inputs], 1, &[all_gates, input_weights, x], element_bytes)]),
        };
        // Forward: gates and state read, activated gates, state and output written. Backward: activated gates,
        // both states and the gradients of output and state read, those of gates and state written.
        let cell =
            |flops, tensors| kernel(product(&[flops, all_hidden]), &[product(&[tensors, all_hidden])], element_bytes);
        let cells = Operator {
            forward: each(vec![cell(Self::CELL_FLOPS, 4 + 1 + 4 + 1 + 1)]),
            weight_grad: each(vec![cell(Self::CELL_GRAD_FLOPS, 4 + 2 + 2 + 4 + 1)]),
            ..Operator::default()
        };
        (matrices, cells)
    }
}

/// The size of normalised Bahdanau attention between `queries` and `keys` positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Features of queries, keys and scores.
    pub units: u32,
    /// Positions that ask.
    pub queries: u32,
    /// Positions that are asked.
    pub keys: u32,
}

impl Attention {
    /// Its matrix products, and the elementwise kernels between them, for `batch` pairs of sequences.
    pub fn operators(self, batch: u32, element_bytes: u32) -> (Operator, Operator) {
        let (batch, units) = (u64::from(batch), u64::from(self.units));
        let (queries, keys) = (u64::from(self.queries), u64::from(self.keys));
        let (asking, asked) = (product(&[batch, queries]), product(&[batch, keys]));
        let pairs = product(&[asking, keys]);
        let sums = product(&[pairs, units]);
        let (q, k, weights) = (product(&[asking, units]), product(&[asked, units]), product(&[units, units]));
        let product_of = |shape, count, elements: &[u64]| gemm(shape, count, elements, element_bytes);
        let matrices = Operator {
            // Both projections; the score vector, its scale and its bias.
            params: product(&[2, weights]) + 2 * units + 1,
            forward: vec![
                product_of([asked, units, units], 1, &[k, weights, k]),
                product_of([asking, units, units], 1, &[q, weights, q]),
                product_of([pairs, units, 1], 1, &[sums, units, pairs]),
                product_of([queries, keys, units], batch, &[pairs, k, q]),
            ],
            weight_grad: vec![
                product_of([queries, units, keys], batch, &[q, k, pairs]),
                product_of([keys, queries, units], batch, &[pairs, q, k]),
                product_of([units, pairs, 1], 1, &[sums, pairs, units]),
                product_of([pairs, 1, units], 1, &[pairs, units, sums]),
                product_of([units, asking, units], 1, &[q, q, weights]),
                product_of([units, asked, units], 1, &[k, k, weights]),
            ],
            input_grad: vec![
                product_of([asking, units, units], 1, &[q, weights, q]),
                product_of([asked, units, units], 1, &[k, weights, k]),
            ],
        };
        let sweep = |flops: u64, n: u64, elements: &[u64]| kernel(product(&[flops, n]), elements, element_bytes);
        let between = Operator {
            forward: vec![
                sweep(1, sums, &[q, k, sums]),
                sweep(1, sums, &[sums, sums]),    // bias
                sweep(4, sums, &[sums, sums]),    // hyperbolic tangent
                sweep(4, pairs, &[pairs, pairs]), // softmax
            ],
            weight_grad: vec![
                sweep(3, pairs, &[pairs, pairs, pairs]),
                sweep(2, sums, &[sums, sums, sums]),
                sweep(1, sums, &[sums, units]),
                // Summed over keys for the queries, and the other way round.
                sweep(1, sums, &[sums, q]),
                sweep(1, sums, &[sums, k]),
            ],
            ..Operator::default()
        };
        (matrices, between)
    }
}

/// Two tensors of `each` elements put side by side, one of which goes to several places: backward, its
/// gradient is added to that of the others.
pub fn concatenation(each: u64, element_bytes: u32) -> Operator {
    let both = product(&[2, each]);
    Operator {
        forward: vec![kernel(0, &[both, both], element_bytes)],
        input_grad: vec![kernel(each, &[both, each, each, each], element_bytes)],
        ..Operator::default()
    }
}

/// A table of `entries` vectors of `width`, of which `lookups` are read. Its gradient is dense, as an
/// all-reduce needs it: zeros, to which the gradients of what was read are added.
pub fn dense_embedding(entries: u32, width: u32, lookups: u64, element_bytes: u32) -> Operator {
    let table = product(&[entries.into(), width.into()]);
    let read = product(&[lookups, width.into()]);
    Operator {
        params: table,
        forward: vec![kernel(0, &[read, read], element_bytes)],
        weight_grad: vec![kernel(0, &[table], element_bytes), kernel(read, &[read, read, read], element_bytes)],
        input_grad: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Demand, Gemm};

    fn flops(kernels: &[Demand]) -> u64 {
        kernels.iter().filter(|k| k.gemm.is_some()).map(|k| k.flops).sum()
    }

    #[test]
    fn an_lstm_by_hand() {
        let (op, cells) = Lstm { inputs: 3, hidden: 2, directions: 1 }.operators(5, 7, 2);
        assert_eq!(op.params, 3 * 8 + 2 * 8 + 16);
        // 35 rows; per row, 3 and 2 features to 8 gates.
        let inputs = Gemm { m: 35, k: 3, n: 8, count: 1, operands: [2 * 105, 2 * 24] };
        assert_eq!(op.forward[0], Demand::of_gemm(inputs, 2 * (105 + 24 + 16 + 280)));
        // Seven steps, each of which reads 16 weights.
        let step = Gemm { m: 5, k: 2, n: 8, count: 7, operands: [2 * 7 * 10, 2 * 7 * 16] };
        assert_eq!(op.forward[1], Demand::of_gemm(step, 2 * 7 * (5 * 2 + 16 + 2 * 5 * 8)));
        assert_eq!(flops(&op.forward), 2 * 35 * 8 * (3 + 2));
        // Backward does everything twice: once for weights, once for what came in.
        assert_eq!(flops(&op.weight_grad) + flops(&op.input_grad), 2 * flops(&op.forward));
        assert_eq!(cells.forward[0].bytes, 2 * 11 * 70);
        assert_eq!(cells.weight_grad[0].bytes, 2 * 13 * 70);
    }

    #[test]
    fn two_directions_are_two_layers() {
        let one = Lstm { inputs: 8, hidden: 4, directions: 1 }.operators(2, 3, 2);
        let two = Lstm { inputs: 8, hidden: 4, directions: 2 }.operators(2, 3, 2);
        assert_eq!(two.0.params, 2 * one.0.params);
        assert_eq!(flops(&two.0.forward), 2 * flops(&one.0.forward));
        assert_eq!(two.1.forward.len(), 2 * one.1.forward.len());
    }

    #[test]
    fn a_step_of_a_large_layer_is_bound_by_memory() {
        let (op, _) = Lstm { inputs: 1024, hidden: 1024, directions: 1 }.operators(128, 25, 2);
        let (input, step) = (op.forward[0], op.forward[1]);
        assert!(input.flops / input.bytes > 133 && step.flops / step.bytes < 133, "{input:?}, {step:?}");
        assert_eq!(step.flops / step.bytes, 99);
    }

    #[test]
    fn attention_by_hand() {
        let (op, between) = Attention { units: 4, queries: 3, keys: 5 }.operators(2, 2);
        assert_eq!(op.params, 2 * 16 + 4 + 4 + 1);
        // Keys, queries, 30 scores of 4 units, contexts of 6 queries over 5 keys.
        assert_eq!(flops(&op.forward), 2 * (10 * 16 + 6 * 16 + 30 * 4 + 30 * 4));
        assert_eq!(flops(&op.weight_grad) + flops(&op.input_grad), 2 * flops(&op.forward));
        assert_eq!(between.forward[1].bytes, 2 * 2 * 120);
    }

    #[test]
    fn the_gradient_of_a_table_is_as_large_as_the_table() {
        let op = dense_embedding(100, 4, 6, 2);
        assert_eq!(op.weight_grad.iter().map(|k| k.bytes).sum::<u64>(), 2 * (400 + 3 * 24));
        assert_eq!((op.params, op.forward[0].bytes), (400, 2 * 2 * 24));
    }
}
