//! Kernels of convolutional networks, by the layout of images.
//!
//! In NHWC a convolution is a matrix product whose rows are windows that are never written out (an implicit product); with a
//! filter of one pixel that moves by one it is a plain product. Channels that are no multiple of eight are padded first.
//! In NCHW cuDNN changes the order of both tensors and of the filters to NHWC and that of the result back, except for filters
//! of one pixel on planes of a multiple of eight pixels, which are products for each image.
//!
//! Batch normalisation is cuDNN's in NHWC: one kernel forward, which sweeps the tensor three times, and one backward, which
//! does so five times. In NCHW it is PyTorch's own (`aten/src/ATen/native/cuda/Normalization.cuh`): statistics, a small kernel
//! for what is kept of them, and the transformation; backward one kernel. Statistics and gradients have one block of threads
//! for each channel. Both layouts count batches in a kernel of its own. Maxima over windows keep an index of eight bytes for
//! each result (`DilatedMaxPool2d.cu`).
//!
//! These are the kernels of FP16 in NHWC and of BF16 in NCHW, of PyTorch 2.11: in FP16 and NCHW cuDNN normalises, in BF16 and NHWC
//! PyTorch does, which nothing measured tells apart yet.

use super::{Of, column_sum, memory};
use crate::kernel_kind::{ConvolutionKernel, ImageLayout, KernelKind, Layout, MemoryKernel, Traffic};
use crate::layer::{Demand, Gemm};
use crate::operators::{Operator, product};

use MemoryKernel::{
    BatchNorm, BatchNormGradient, ColumnSum, Elementwise, PlaneNorm, PlaneNormGradient, Pool, PoolGradient, Reorder,
};

/// Channels that implicit products work on at once.
const CHANNELS: u64 = 8;
/// Pixels of a plane, of which products in NCHW need a multiple.
const PIXELS: u64 = 8;
/// Bytes of an index of a maximum, and of a count of batches.
const INDEX_BYTES: u64 = 8;

/// A convolution's sizes.
#[derive(Clone, Copy)]
struct Convolution {
    samples: u64,
    channels: u64,
    pixels: u64,
    filters: u64,
    taps: u64,
    /// Positions of the input for each window.
    step: u64,
    windows: u64,
    bytes: u64,
}

impl Convolution {
    /// Channels with those that are padded.
    fn padded(self) -> u64 {
        self.channels.next_multiple_of(CHANNELS)
    }

    /// Whether it is a product of pixels.
    fn is_product(self, padding: u64) -> bool {
        self.taps == 1 && self.step == 1 && padding == 0 && self.padded() == self.channels
    }

    /// Elements of the input, padded; those that windows read; weights; results.
    fn tensors(self) -> [u64; 4] {
        let input = product(&[self.samples, self.padded(), self.pixels]);
        let read = if self.taps < self.step { product(&[input / self.step, self.taps]) } else { input };
        let weights = product(&[self.padded(), self.taps, self.filters]);
        [input, read, weights, product(&[self.windows, self.filters])]
    }

    /// The implicit products of the three passes. Where windows step over positions, those positions of the input that lie
    /// alike between windows are a product each in the gradient of the input, and have a part of the taps.
    fn kernels(self, layout: ImageLayout) -> [Demand; 3] {
        let [input, read, weights, results] = self.tensors();
        let (windows, filters) = (self.windows, self.filters);
        let row = product(&[self.padded(), self.taps]);
        let classes = self.step.min(self.taps);
        let taps = product(&[filters, self.taps]).div_ceil(classes);
        let flops = product(&[2, windows, self.channels, self.taps, filters]);
        let padded = (self.padded() > self.channels).then_some(layout);
        let of = |pass, [m, k, n, count]: [u64; 4], factors: [u64; 2], result| {
            let operands = factors.map(|elements| product(&[elements, self.bytes]));
            let gemm = Gemm { m, k, n, count, operands };
            let bytes = product(&[factors[0].saturating_add(factors[1]).saturating_add(result), self.bytes]);
            let kind = KernelKind::Convolution(ConvolutionKernel { pass, padded });
            Demand { flops, ..Demand::of_gemm(gemm, bytes) }.as_kind(kind)
        };
        [
            of(Layout::Nt, [windows, row, filters, 1], [read, weights], results),
            of(Layout::Tn, [row, windows, filters, 1], [read, results], weights),
            of(Layout::Nn, [windows, taps, self.padded(), classes], [results, weights], input),
        ]
    }

    /// A product for each image in the forward pass and in the gradient of the input, one over all images for that of weights.
    fn by_image(self) -> [Demand; 3] {
        let [input, _, weights, results] = self.tensors();
        let bytes = product(&[input.saturating_add(weights).saturating_add(results), self.bytes]);
        let of = |layout, [m, k, n, count]: [u64; 4], factors: [u64; 2]| {
            let operands = factors.map(|elements| product(&[elements, self.bytes]));
            Demand::of_gemm(Gemm { m, k, n, count, operands }, bytes).as_kind(KernelKind::Product(layout))
        };
        let (channels, filters, pixels, samples) = (self.channels, self.filters, self.pixels, self.samples);
        [
            of(Layout::Nn, [filters, channels, pixels, samples], [weights, input]),
            of(Layout::Nt, [filters, self.windows, channels, 1], [results, input]),
            of(Layout::Tn, [channels, filters, pixels, samples], [weights, results]),
        ]
    }
}

impl Of<'_> {
    fn is_nchw(self) -> bool {
        self.framework.layout == ImageLayout::Nchw
    }

    pub(super) fn convolution(self, plain: Operator) -> Operator {
        let &[samples, channels, height, width, filters, kernel, stride, padding] = self.sizes else {
            unreachable!("sizes of convolution")
        };
        let windows = plain.forward[0].gemm.expect("convolutions are products").m;
        let of = Convolution {
            samples,
            channels,
            pixels: product(&[height, width]),
            filters,
            taps: product(&[kernel, kernel]),
            step: product(&[stride, stride]),
            windows,
            bytes: self.bytes,
        };
        let params = plain.params;
        let is_product = of.is_product(padding);
        let mut kernels = if is_product && !self.is_nchw() {
            self.as_described(plain)
        } else if is_product && of.pixels.is_multiple_of(PIXELS) {
            let [forward, weight_grad, input_grad] = of.by_image().map(|kernel| vec![kernel]);
            Operator { params, forward, weight_grad, input_grad }
        } else {
            self.implicit(of, params)
        };
        kernels.forward.splice(0..0, self.narrowed(params));
        kernels.weight_grad.extend(self.widened(params));
        kernels
    }

    /// Implicit products, with what brings tensors into their order and the result back.
    fn implicit(self, of: Convolution, params: u64) -> Operator {
        let [forward, weight_grad, input_grad] = of.kernels(self.framework.layout);
        let [input, _, weights, results] = of.tensors();
        let padded = of.padded() > of.channels;
        // Elements without padding and with it.
        let input = [product(&[of.samples, of.channels, of.pixels]), input];
        let weights = [params, weights];
        let reordered = |[from, to]: [u64; 2]| memory(Reorder, from.saturating_add(to), self.bytes);
        let around = |kernel, tensors: [[u64; 2]; 3]| {
            let [first, second, result] = tensors.map(|tensor| {
                let is_moved = self.is_nchw() || tensor[0] != tensor[1];
                is_moved.then(|| reordered(tensor))
            });
            first.into_iter().chain(second).chain([kernel]).chain(result).collect()
        };
        debug_assert!(padded || input[0] == input[1]);
        let results = [results; 2];
        Operator {
            params,
            forward: around(forward, [input, weights, results]),
            weight_grad: around(weight_grad, [input, results, weights]),
            input_grad: around(input_grad, [results, weights, input]),
        }
    }

    /// Behind a convolution: an addition of its own, and a sum over pixels.
    pub(super) fn channel_bias(self) -> Operator {
        let &[samples, channels, height, width] = self.sizes else { unreachable!("sizes of channel-bias") };
        let n = product(&[samples, channels, height, width]);
        Operator {
            forward: vec![self.tensors(Elementwise, 2, n)],
            weight_grad: vec![column_sum(ColumnSum, n, channels, self.bytes)],
            ..Operator::default()
        }
    }

    pub(super) fn batch_norm(self) -> Operator {
        let &[samples, channels, height, width] = self.sizes else { unreachable!("sizes of batch-norm") };
        let n = product(&[samples, channels, height, width]);
        let by_channel = |kernel, sweeps| {
            let columns = u32::try_from(channels).unwrap_or(u32::MAX);
            let kind = KernelKind::Memory(Traffic { columns, ..Traffic::of(kernel) });
            Demand::new(0, product(&[sweeps, n, self.bytes])).as_kind(kind)
        };
        let counted = memory(Elementwise, 2, INDEX_BYTES);
        if self.is_nchw() {
            let kept = memory(Elementwise, product(&[4, channels]), 4);
            Operator {
                forward: vec![counted, by_channel(PlaneNorm, 1), kept, self.tensors(PlaneNorm, 2, n)],
                input_grad: vec![by_channel(PlaneNormGradient, 5)],
                ..Operator::default()
            }
        } else {
            Operator {
                forward: vec![counted, self.tensors(BatchNorm, 3, n)],
                input_grad: vec![self.tensors(BatchNormGradient, 5, n)],
                ..Operator::default()
            }
        }
    }

    /// A thread for each result reads all of its window, from the cache where windows overlap; backward a thread for each element
    /// of the gradient looks through the windows that have it.
    pub(super) fn max_pool(self) -> Operator {
        let &[samples, channels, height, width, window, stride, padding] = self.sizes else {
            unreachable!("sizes of max-pool")
        };
        let along = |side: u64| (side + 2 * padding - window) / stride + 1;
        let results = product(&[samples, channels, along(height), along(width)]);
        let input = product(&[samples, channels, height, width]);
        let of = |kernel, elements, bytes| {
            Demand::new(0, product(&[elements, bytes])).as_kind(KernelKind::Memory(Traffic::of(kernel)))
        };
        let read = product(&[window, window, self.bytes]);
        Operator {
            forward: vec![of(Pool, results, read.saturating_add(self.bytes + INDEX_BYTES))],
            input_grad: vec![of(PoolGradient, input, 2 * self.bytes + INDEX_BYTES)],
            ..Operator::default()
        }
    }
}

#[cfg(test)]
mod tests;
