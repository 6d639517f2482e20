//! Operators of networks: what they ask of an NPU, from their shapes; those of recurrent networks are
//! in [`crate::recurrent`].
//!
//! # What is counted
//! * FLOPs: two per multiply-accumulate of convolutions and fully connected layers (multiplications
//!   with padding included, as is usual); a few per element for the rest, which memory bounds anyway.
//! * Bytes: a kernel reads each operand once from main memory and writes each result once. That is
//!   the least an algorithm without a cache across kernels can do; real kernels may re-read tiles.
//! * The gradient with respect to the input and the one with respect to the weights are kernels of
//!   their own, as in cuDNN (`ConvolutionBackwardData`, `ConvolutionBackwardFilter`).
//!
//! # Kernels are not fused
//! Batch norm, ReLU, the residual addition, pooling and the loss are kernels of their own, the way
//! an eager framework (PyTorch) runs them in training. The alternative, elementwise work in the epilogue
//! of the convolution, is what *inference* does, where batch norm is a constant scale and shift. In
//! training the mean and variance of the convolution's whole output must be known before the first
//! element can be normalised, and the backward pass needs the convolution's output and the
//! normalised one again, so both are written to memory regardless. For the same reason batch norm is
//! two kernels per direction, a reduction and a transformation: three sweeps over an activation
//! forward and five backward (on these sweeps and what it takes to save some of them: Jung et al.,
//! "Restructuring Batch Normalization to Accelerate CNN Training", SysML 2019). This makes training
//! strongly memory-bound: ResNet-50 with 32 samples in FP16 moves 15.4 GB for 784 GFLOP, 51 operations
//! per byte, where an NPU of 120 TFLOP/s and 900 GB/s balances at 133. Were elementwise work free but for
//! the operands it adds, a third of the bytes would remain.
//!
//! # Which pass a kernel belongs to
//! A layer is one weighted operator with what precedes and follows it ([`crate::described::layers`]). Its weight gradient needs
//! the gradient at the output of the weighted operator, so the backward kernels of what follows run first and belong to the
//! layer's weight-gradient pass; its input-gradient pass is the weighted operator's own, and then that of what precedes.
//!
//! Left out: data loading, random augmentation, metrics, gradient clipping, running statistics.

use crate::layer::{Demand, Gemm};
use serde::Deserialize;

/// Multiplies, saturating: a demand beyond 64 bits stays recognisable as such.
pub(crate) fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |p: u64, &f| p.saturating_mul(f))
}

/// A batch of images with channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageShape {
    /// Samples.
    pub batch: u32,
    /// Channels, or features.
    pub channels: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

impl ImageShape {
    /// Elements in all; saturates.
    pub fn elements(self) -> u64 {
        product(&[self.batch.into(), self.channels.into(), self.height.into(), self.width.into()])
    }
}

/// The kernels of an operator, by pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// Trainable parameters.
    pub params: u64,
    /// Forward.
    pub forward: Vec<Demand>,
    /// Gradient with respect to the parameters; runs before `input_grad`, which may use it.
    pub weight_grad: Vec<Demand>,
    /// Gradient with respect to the input.
    pub input_grad: Vec<Demand>,
}

/// A kernel that does `flops` operations and moves `elements` of `element_bytes` each.
pub(crate) fn kernel(flops: u64, elements: &[u64], element_bytes: u32) -> Demand {
    Demand::new(flops, moved(elements, element_bytes))
}

/// `count` matrix products of `m x k` and `k x n` that move `elements` of `element_bytes` in all: those of the first
/// factor, of the second, and what else there is.
pub(crate) fn gemm([m, k, n]: [u64; 3], count: u64, elements: &[u64], element_bytes: u32) -> Demand {
    let operand = |i: usize| elements.get(i).map_or(0, |&n| moved(&[n], element_bytes));
    Demand::of_gemm(Gemm { m, k, n, count, operands: [operand(0), operand(1)] }, moved(elements, element_bytes))
}

pub(crate) fn moved(elements: &[u64], element_bytes: u32) -> u64 {
    let sum = elements.iter().fold(0, |sum: u64, &n| sum.saturating_add(n));
    sum.saturating_mul(element_bytes.into())
}

/// The parameters of a two-dimensional convolution without bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    /// Output channels.
    pub channels: u32,
    /// Rows and columns of the filter.
    pub kernel: u32,
    /// Step between applications of the filter, in both directions.
    pub stride: u32,
    /// Zeros added at each side.
    pub padding: u32,
}

impl Conv2d {
    /// The shape of the output.
    ///
    /// # Panics
    /// When the stride is zero or the filter larger than the padded input: the model is wrong.
    pub fn output(self, input: ImageShape) -> ImageShape {
        let (height, width) = windows(input, self.kernel, self.stride, self.padding);
        ImageShape { batch: input.batch, channels: self.channels, height, width }
    }

    /// The operator: `y = x * w` forward, `dx = dy * w` and `dw = x * dy` backward, with equally many
    /// multiply-accumulates each. As matrix products, the windows of the input are the rows of one factor
    /// (im2col); the gradient of the input is that of the windows, added up where they overlap.
    ///
    /// # Panics
    /// As [`Conv2d::output`].
    pub fn operator(self, input: ImageShape, element_bytes: u32) -> Operator {
        let output = self.output(input);
        let (side, channels) = (u64::from(self.kernel), u64::from(self.channels));
        let window = product(&[input.channels.into(), side, side]);
        let windows = ImageShape { channels: 1, ..output }.elements();
        let params = product(&[window, channels]);
        // Each pass reads two of the three tensors and writes the third.
        let (x, y) = (input.elements(), output.elements());
        let pass = |shape, elements: [u64; 3]| vec![gemm(shape, 1, &elements, element_bytes)];
        Operator {
            params,
            forward: pass([windows, window, channels], [x, params, y]),
            weight_grad: pass([window, windows, channels], [x, y, params]),
            input_grad: pass([windows, channels, window], [y, params, x]),
        }
    }
}

/// Rows and columns of windows that fit.
fn windows(input: ImageShape, kernel: u32, stride: u32, padding: u32) -> (u32, u32) {
    assert!(stride > 0, "a window that does not move");
    let count = |side: u32| {
        let free = (u64::from(side) + 2 * u64::from(padding)).checked_sub(kernel.into());
        let free = free.expect("the window is larger than the padded input");
        u32::try_from(free / u64::from(stride) + 1).expect("an output side of 32 bits")
    };
    (count(input.height), count(input.width))
}

/// A bias for each channel, behind a convolution: a kernel of its own that reads and writes the whole activation, where
/// that of a fully connected layer is part of the matrix product. Its gradient is the sum of the incoming one over each
/// channel; the gradient of the input is the incoming one, and costs nothing.
pub fn bias(shape: ImageShape, element_bytes: u32) -> Operator {
    let n = shape.elements();
    Operator {
        params: shape.channels.into(),
        forward: vec![kernel(n, &[n, n], element_bytes)],
        weight_grad: vec![kernel(n, &[n], element_bytes)],
        ..Operator::default()
    }
}

/// A fully connected layer of `rows` samples, `inputs` to `outputs` features, with a bias that is added
/// in the epilogue of the matrix product, or without one.
pub fn fully_connected(rows: u64, inputs: u32, outputs: u32, bias: bool, element_bytes: u32) -> Operator {
    let (inputs, outputs) = (u64::from(inputs), u64::from(outputs));
    let (x, y, weights) = (product(&[rows, inputs]), product(&[rows, outputs]), product(&[inputs, outputs]));
    let params = if bias { weights.saturating_add(outputs) } else { weights };
    Operator {
        params,
        forward: vec![gemm([rows, inputs, outputs], 1, &[x, params, y], element_bytes)],
        weight_grad: vec![gemm([inputs, rows, outputs], 1, &[x, y, params], element_bytes)],
        input_grad: vec![gemm([rows, outputs, inputs], 1, &[y, weights, x], element_bytes)],
    }
}

/// Batch normalisation with scale and shift, in training. The vectors per channel (mean, variance,
/// parameters and their gradients) are too small to count.
pub fn batch_norm(shape: ImageShape, element_bytes: u32) -> Operator {
    let n = shape.elements();
    let sweep = |flops: u64, tensors: u64| kernel(product(&[flops, n]), &[product(&[tensors, n])], element_bytes);
    Operator {
        params: product(&[2, shape.channels.into()]),
        // Sum and sum of squares of x; then y = a x + b.
        forward: vec![sweep(3, 1), sweep(2, 2)],
        // Sums of dy and of dy times normalised x, which are the parameters' gradients; then
        // dx = a dy + b x + c.
        weight_grad: vec![sweep(5, 2)],
        input_grad: vec![sweep(4, 3)],
    }
}

/// Rectifier of `n` elements. Backward reads the gradient and the output, whose sign is the mask.
pub fn relu(n: u64, element_bytes: u32) -> Operator {
    Operator {
        forward: vec![kernel(n, &[n, n], element_bytes)],
        input_grad: vec![kernel(n, &[n, n, n], element_bytes)],
        ..Operator::default()
    }
}

/// Dropout of `n` elements: a mask of one byte for each, which is drawn and applied forward, and applied backward.
pub fn dropout(n: u64, element_bytes: u32) -> Operator {
    let mut demand = kernel(product(&[2, n]), &[n, n], element_bytes);
    demand.bytes = demand.bytes.saturating_add(n);
    Operator { forward: vec![demand], input_grad: vec![demand], ..Operator::default() }
}

/// Residual addition of two tensors of `n` elements. Its gradient is the incoming one, on both ways, and
/// costs nothing here; where the two ways began, [`fork`] adds their gradients.
pub fn add(n: u64, element_bytes: u32) -> Operator {
    Operator { forward: vec![kernel(n, &[n, n, n], element_bytes)], ..Operator::default() }
}

/// A tensor of `n` elements used twice: nothing forward; backward, the gradients of both uses are added.
pub fn fork(n: u64, element_bytes: u32) -> Operator {
    Operator { input_grad: vec![kernel(n, &[n, n, n], element_bytes)], ..Operator::default() }
}

/// Maximum over square windows, with the shape of its output. Backward finds the maxima again from
/// input and output (cuDNN's form) and writes the whole gradient.
///
/// # Panics
/// As [`Conv2d::output`].
pub fn max_pool(
    input: ImageShape,
    window: u32,
    stride: u32,
    padding: u32,
    element_bytes: u32,
) -> (Operator, ImageShape) {
    let (height, width) = windows(input, window, stride, padding);
    let output = ImageShape { height, width, ..input };
    let (x, y) = (input.elements(), output.elements());
    let compares = product(&[y, window.into(), window.into()]);
    let operator = Operator {
        forward: vec![kernel(compares, &[x, y], element_bytes)],
        input_grad: vec![kernel(compares, &[x, y, y, x], element_bytes)],
        ..Operator::default()
    };
    (operator, output)
}

/// Average over each channel, with the shape of its output.
pub fn global_average_pool(input: ImageShape, element_bytes: u32) -> (Operator, ImageShape) {
    let output = ImageShape { height: 1, width: 1, ..input };
    let demand = kernel(input.elements(), &[input.elements(), output.elements()], element_bytes);
    (Operator { forward: vec![demand], input_grad: vec![demand], ..Operator::default() }, output)
}

/// Sums of rows of `tables` embedding tables, `lookups` rows of `width` elements for each of `samples` samples and each table
/// (`EmbeddingBag` in PyTorch). A lookup reads a row and its index. The gradient is applied where it arrives, row by row:
/// indices and gradient are read, rows are read and written, which is their update too. Rows are taken to be in main
/// memory, however often they are used.
pub fn embedding_sums(samples: u64, tables: u64, lookups: u64, width: u64, element_bytes: u32) -> Operator {
    let sums = product(&[samples, tables]);
    let rows = product(&[sums, lookups]);
    let (gathered, summed) = (product(&[rows, width]), product(&[sums, width]));
    let with_indices = |elements: &[u64]| {
        let kernel = kernel(gathered, elements, element_bytes);
        Demand { bytes: kernel.bytes.saturating_add(product(&[rows, INDEX_BYTES])), ..kernel }
    };
    Operator {
        forward: vec![with_indices(&[gathered, summed])],
        weight_grad: vec![with_indices(&[summed, gathered, gathered])],
        ..Operator::default()
    }
}

/// Bytes of the index of a row of an embedding table.
pub const INDEX_BYTES: u64 = 8;

/// A copy of `n` elements, such as features that are put side by side; backward, they are taken apart again.
pub fn copy(n: u64, element_bytes: u32) -> Operator {
    let copy = vec![kernel(0, &[n, n], element_bytes)];
    Operator { forward: copy.clone(), input_grad: copy, ..Operator::default() }
}

/// Softmax with cross-entropy of `rows` samples over `classes`. Forward: maximum, difference, exponential, sum, quotient;
/// backward: probability minus label, over the batch size. Labels and the loss are too small to count.
pub fn softmax_cross_entropy(rows: u64, classes: u32, element_bytes: u32) -> Operator {
    let n = product(&[rows, classes.into()]);
    Operator {
        forward: vec![kernel(product(&[5, n]), &[n, n], element_bytes)],
        input_grad: vec![kernel(product(&[2, n]), &[n, n], element_bytes)],
        ..Operator::default()
    }
}

/// Stochastic gradient descent with momentum and weight decay, per parameter six operations. The
/// optimiser keeps its weights and momenta in at least four bytes (Micikevicius et al.: "Mixed
/// Precision Training", ICLR 2018): it reads the gradient, reads and writes both, and where the
/// model's elements are narrower writes them a copy.
pub fn sgd_momentum(params: u64, element_bytes: u32) -> Demand {
    let narrow = u64::from(element_bytes);
    let wide = narrow.max(4);
    let copy = if narrow < wide { narrow } else { 0 };
    Demand::new(product(&[6, params]), product(&[params, narrow + 4 * wide + copy]))
}

/// Widths that elements may have: FP8, FP16 or BF16, FP32, FP64.
pub const ELEMENT_BYTES: [u32; 4] = [1, 2, 4, 8];

/// Which kernels of a model cost time.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// All of them.
    #[default]
    All,
    /// Only those of operators with weights of their own (convolutions, fully connected and recurrent
    /// layers, attention, embeddings), as in simulators whose compute model knows little else (the
    /// source of the ACE paper's compute times among them).
    Weighted,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape { batch: 2, channels: 3, height: 8, width: 10 }; // 480 elements

    #[test]
    fn convolution_by_hand() {
        let conv = Conv2d { channels: 5, kernel: 3, stride: 2, padding: 1 };
        assert_eq!(conv.output(SHAPE), ImageShape { batch: 2, channels: 5, height: 4, width: 5 });
        let op = conv.operator(SHAPE, 2);
        assert_eq!(op.params, 135);
        // 40 windows of 27 elements, 5 channels; 480 + 135 + 200 elements of two bytes.
        let pass = |m, k, n, operands: [u64; 2]| {
            let gemm = Some(Gemm { m, k, n, count: 1, operands: operands.map(|elements| 2 * elements) });
            vec![Demand { flops: 10_800, bytes: 1_630, gemm, ..Demand::default() }]
        };
        assert_eq!(op.forward, pass(40, 27, 5, [480, 135]));
        assert_eq!(op.weight_grad, pass(27, 40, 5, [480, 200]));
        assert_eq!(op.input_grad, pass(40, 5, 27, [200, 135]));
    }

    #[test]
    fn fully_connected_by_hand() {
        let op = fully_connected(4, 10, 3, true, 2);
        assert_eq!(op.params, 33);
        let gemm = |m, k, n, operands| Gemm { m, k, n, count: 1, operands };
        assert_eq!(op.forward, vec![Demand::of_gemm(gemm(4, 10, 3, [80, 66]), 2 * (40 + 33 + 12))]);
        assert_eq!(op.weight_grad, vec![Demand::of_gemm(gemm(10, 4, 3, [80, 24]), 2 * (40 + 33 + 12))]);
        assert_eq!(op.input_grad, vec![Demand::of_gemm(gemm(4, 3, 10, [24, 60]), 2 * (40 + 30 + 12))]);
        assert!([&op.forward, &op.weight_grad, &op.input_grad].iter().all(|pass| pass[0].flops == 240));
        assert_eq!(fully_connected(4, 10, 3, false, 2).params, 30);
    }

    #[test]
    fn batch_norm_sweeps_three_times_forward_and_five_times_backward() {
        let op = batch_norm(SHAPE, 2);
        let sweeps = |kernels: &[Demand]| kernels.iter().map(|k| k.bytes).sum::<u64>() / (480 * 2);
        assert_eq!((sweeps(&op.forward), sweeps(&op.weight_grad) + sweeps(&op.input_grad)), (3, 5));
        assert_eq!(op.params, 6);
    }

    #[test]
    fn elementwise_traffic() {
        let sweeps = |kernels: &[Demand]| kernels.iter().map(|k| k.bytes).sum::<u64>() / (480 * 4);
        let (relu, add, fork) = (relu(480, 4), add(480, 4), fork(480, 4));
        assert_eq!((sweeps(&relu.forward), sweeps(&relu.input_grad)), (2, 3));
        assert_eq!((sweeps(&add.forward), sweeps(&add.input_grad)), (3, 0));
        assert_eq!((sweeps(&fork.forward), sweeps(&fork.input_grad)), (0, 3));
    }

    #[test]
    fn bias_and_dropout_by_hand() {
        let op = bias(SHAPE, 2);
        assert_eq!(op.params, 3);
        assert_eq!((op.forward[0].bytes, op.weight_grad[0].bytes), (2 * 2 * 480, 2 * 480));
        assert!(op.input_grad.is_empty());
        let op = dropout(480, 2);
        assert_eq!((op.params, &op.weight_grad), (0, &vec![]));
        assert_eq!((op.forward[0].bytes, op.input_grad[0].bytes), (480 * 5, 480 * 5));
    }

    #[test]
    fn pooling_by_hand() {
        let (op, out) = max_pool(SHAPE, 2, 2, 0, 1);
        assert_eq!(out, ImageShape { batch: 2, channels: 3, height: 4, width: 5 });
        assert_eq!(op.forward, vec![Demand::new(480, 480 + 120)]);
        assert_eq!(op.input_grad, vec![Demand::new(480, 2 * (480 + 120))]);
        let (op, out) = global_average_pool(SHAPE, 1);
        assert_eq!(out.elements(), 6);
        assert_eq!(op.forward, vec![Demand::new(480, 486)]);
    }

    #[test]
    fn the_optimiser_keeps_a_wide_copy_of_narrow_weights() {
        assert_eq!(sgd_momentum(10, 2).bytes, 10 * (2 + 16 + 2));
        assert_eq!(sgd_momentum(10, 4).bytes, 10 * (4 + 16));
        assert_eq!(sgd_momentum(10, 8).bytes, 10 * (8 + 32));
    }

    #[test]
    fn demand_beyond_64_bits_saturates() {
        let huge = ImageShape { batch: u32::MAX, channels: u32::MAX, height: u32::MAX, width: u32::MAX };
        assert_eq!(huge.elements(), u64::MAX);
        assert_eq!(relu(huge.elements(), 8).forward[0].bytes, u64::MAX);
        assert_eq!(fully_connected(u64::MAX, u32::MAX, u32::MAX, true, 8).forward[0].flops, u64::MAX);
    }

    #[test]
    #[should_panic(expected = "larger than the padded input")]
    fn a_filter_larger_than_its_input_is_a_mistake() {
        Conv2d { channels: 1, kernel: 9, stride: 1, padding: 0 }.output(SHAPE);
    }
}
