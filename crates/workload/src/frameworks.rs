//! The kernels that training frameworks launch on GPUs for an operator.
//!
//! [`crate::operators`] and [`crate::transformer`] count the least that an operator needs. Frameworks launch more kernels, or fuse
//! those of several operators, and keep some tensors wider:
//!
//! * *eager*: PyTorch as it is. A kernel for every operation: rotary positions are two products, a negation, a concatenation and a
//!   sum for queries and for keys; gradients that meet are added; gradients of the parts of a fused projection are put
//!   side by side; the gradient of a loss is filled with zeros before it is written.
//! * *compile*: PyTorch with `torch.compile`. Chains of elementwise operations are one kernel, with the normalisation that
//!   follows or precedes.
//! * *megatron*: Megatron-LM. Bias and GELU, and bias, dropout and residual addition, are one kernel each; rotary positions are
//!   one; cross-entropy is a chain of FP32 operations over logits that tensor-parallel ranks divide.
//!
//! Which kernels these are was read in profiles of PyTorch 2.11 and in the sources of Megatron-LM (`megatron/core/fusions`,
//! `tensor_parallel/cross_entropy.py`).
//!
//! Convolutions and what follows them depend on the layout of images ([`images`]); what optimisers launch is in [`updates`].
//!
//! Under *autocast*, weights and the residual stream are wider than products: weights are cast before they are used and their
//! gradients are cast back; normalisations run in the wide type, and their results are cast.

mod images;
pub mod updates;

use crate::kernel_kind::{AttentionKernel, ImageLayout, KernelKind, Layout, MemoryKernel, Traffic};
use crate::layer::Demand;
use crate::operators::{Operator, product};
use serde::Deserialize;

use MemoryKernel::{
    Cast, ColumnSum, Dropout, Elementwise, Lookup, LookupGradient, Loss, LossGradient, Norm, NormGradient, NormSum,
    RmsNorm, Softmax, SoftmaxGradient, Strided,
};

/// Whose kernels an NPU runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fusion {
    /// PyTorch as it is.
    Eager,
    /// PyTorch with `torch.compile`.
    Compile,
    /// Megatron-LM.
    Megatron,
}

/// How a framework runs operators whose activations have elements of the width of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    /// Whose kernels.
    pub kernels: Fusion,
    /// Bytes of an element of the weights that are cast at every use, and of the residual stream beside them; as many as those
    /// of activations without autocast.
    pub wide_bytes: u32,
    /// Bytes of a logit where the loss is computed.
    pub loss_bytes: u32,
    /// Bytes of an element of the residual stream, where it is not as wide as weights: that of convolutional networks is as
    /// narrow as products, even under autocast.
    #[serde(default)]
    pub residual_bytes: Option<u32>,
    /// How images lie in memory.
    #[serde(default)]
    pub layout: ImageLayout,
}

/// The sizes of an operator, in the order of its kind, and the bytes of an element.
#[derive(Clone, Copy)]
struct Of<'a> {
    sizes: &'a [u64],
    framework: Framework,
    bytes: u64,
}

/// A kernel that moves so many elements of so many bytes.
fn memory(kernel: MemoryKernel, elements: u64, bytes: u64) -> Demand {
    let kind = KernelKind::Memory(Traffic { wide: bytes >= WIDE, ..Traffic::of(kernel) });
    Demand::new(0, product(&[elements, bytes])).as_kind(kind)
}

/// A sum over rows of a matrix of so many elements.
fn column_sum(kernel: MemoryKernel, elements: u64, columns: u64, bytes: u64) -> Demand {
    let columns = u32::try_from(columns).unwrap_or(u32::MAX);
    let kind = KernelKind::Memory(Traffic { kernel, wide: bytes >= WIDE, columns });
    Demand::new(elements, product(&[elements, bytes])).as_kind(kind)
}

/// Bytes of an element that is wide.
const WIDE: u64 = 4;

impl Framework {
    /// The kernels of an operator of a kind, whose plain kernels are given.
    #[must_use]
    pub fn launches(self, kind: &str, sizes: &[u64], plain: Operator, element_bytes: u32) -> Operator {
        let of = Of { sizes, framework: self, bytes: element_bytes.into() };
        let kernels = match kind {
            "linear" => of.linear(plain.clone()),
            "attention" => of.attention(plain.clone()),
            "rotary" => of.rotary(),
            "layer-norm" => of.norm(Norm),
            "rms-norm" => of.norm(RmsNorm),
            "gelu" | "silu" | "tanh" => of.activation(),
            "swiglu" | "geglu" => of.gated(),
            "dropout" => of.dropout(),
            "add" => of.add(),
            "embedding" => of.embedding(),
            "softmax-cross-entropy" => of.loss(),
            "convolution" => of.convolution(plain.clone()),
            "channel-bias" => of.channel_bias(),
            "batch-norm" => of.batch_norm(),
            "max-pool" => of.max_pool(),
            // Where the ways meet again, their sum counts the gradients that meet here.
            "fork" => Operator::default(),
            _ => of.as_described(plain.clone()),
        };
        Operator { params: plain.params, ..kernels }
    }
}

impl Of<'_> {
    fn is_eager(self) -> bool {
        self.framework.kernels == Fusion::Eager
    }

    fn is_autocast(self) -> bool {
        self.wide() > self.bytes
    }

    /// Bytes of an element of weights.
    fn wide(self) -> u64 {
        u64::from(self.framework.wide_bytes).max(self.bytes)
    }

    /// Bytes of an element of the residual stream.
    fn residual(self) -> u64 {
        self.framework.residual_bytes.map_or(self.wide(), |bytes| u64::from(bytes).max(self.bytes))
    }

    /// Rows times features, of kinds that have these two sizes.
    fn elements(self) -> u64 {
        product(&[self.sizes[0], self.sizes[1]])
    }

    /// So many tensors of `elements` of activations.
    fn tensors(self, kernel: MemoryKernel, tensors: u64, elements: u64) -> Demand {
        memory(kernel, product(&[tensors, elements]), self.bytes)
    }

    /// A cast from the wide type to that of products, which vectors do; none without autocast.
    fn narrowed(self, elements: u64) -> Option<Demand> {
        self.is_autocast().then(|| memory(Elementwise, elements, self.wide() + self.bytes))
    }

    /// A cast back, which moves element by element.
    fn widened(self, elements: u64) -> Option<Demand> {
        self.is_autocast().then(|| memory(Cast, elements, self.wide() + self.bytes))
    }

    /// The kernels as they are described, each product with the layout of its pass.
    fn as_described(self, plain: Operator) -> Operator {
        let with = |kernels: Vec<Demand>, layout| {
            let known = |kernel: Demand| match kernel.gemm {
                Some(_) => kernel.as_kind(KernelKind::Product(layout)),
                None => kernel,
            };
            kernels.into_iter().map(known).collect()
        };
        Operator {
            params: plain.params,
            forward: with(plain.forward, Layout::Nt),
            weight_grad: with(plain.weight_grad, Layout::Tn),
            input_grad: with(plain.input_grad, Layout::Nn),
        }
    }

    /// The bias is added in the epilogue of the product, its gradient is a sum over rows.
    fn linear(self, plain: Operator) -> Operator {
        let &[rows, _, outputs, bias] = self.sizes else { unreachable!("sizes of linear") };
        let params = plain.params;
        let mut kernels = self.as_described(plain);
        kernels.forward.splice(0..0, self.narrowed(params));
        if bias == 1 {
            kernels.weight_grad.push(column_sum(ColumnSum, product(&[rows, outputs]), outputs, self.bytes));
        }
        kernels.weight_grad.extend(self.widened(params));
        kernels
    }

    /// Gradients of queries, keys and values are put side by side, or added where they are of projections of their own.
    fn attention(self, plain: Operator) -> Operator {
        let &[sequences, heads, kv_heads, queries, keys, head_size, value_size, causal, fused, _] = self.sizes else {
            unreachable!("sizes of attention")
        };
        let features = |heads, positions, size| product(&[sequences, heads, positions, size]);
        let given = features(heads, queries, head_size)
            .saturating_add(features(kv_heads, keys, head_size))
            .saturating_add(features(kv_heads, keys, value_size));
        let mut kernels = if fused == 1 {
            let shape = AttentionKernel {
                backward: false,
                causal: causal == 1,
                heads: product(&[sequences, heads]),
                queries,
                keys,
                head_size,
            };
            let with = |kernels: Vec<Demand>, backward| {
                let kind = KernelKind::Attention(AttentionKernel { backward, ..shape });
                kernels.into_iter().map(|kernel| kernel.as_kind(kind)).collect()
            };
            Operator {
                forward: with(plain.forward, false),
                input_grad: with(plain.input_grad, true),
                ..Operator::default()
            }
        } else {
            self.scores(plain)
        };
        kernels.input_grad.push(self.tensors(Elementwise, 2, given));
        kernels
    }

    /// Attention whose scores go through memory.
    fn scores(self, plain: Operator) -> Operator {
        let columns = u32::try_from(self.sizes[4]).unwrap_or(u32::MAX);
        let with = |kernels: Vec<Demand>, layout, softmax: MemoryKernel| {
            let known = |kernel: Demand| match kernel.gemm {
                Some(_) => kernel.as_kind(KernelKind::Product(layout)),
                None => {
                    kernel.as_kind(KernelKind::Memory(Traffic { kernel: softmax, wide: self.bytes >= WIDE, columns }))
                }
            };
            kernels.into_iter().map(known).collect()
        };
        Operator {
            forward: with(plain.forward, Layout::Nt, Softmax),
            input_grad: with(plain.input_grad, Layout::Nn, SoftmaxGradient),
            ..Operator::default()
        }
    }

    fn rotary(self) -> Operator {
        let n = self.elements();
        let turn = if self.is_eager() {
            // Products with cosines and sines, the negation of a half, the concatenation of both halves, and the sum.
            [2, 1, 2, 2, 3].map(|tensors| self.tensors(Strided, tensors, n)).to_vec()
        } else {
            vec![self.tensors(Elementwise, 2, n)]
        };
        Operator { forward: turn.clone(), input_grad: turn, ..Operator::default() }
    }

    fn norm(self, kernel: MemoryKernel) -> Operator {
        let (n, wide) = (self.elements(), self.wide());
        let sweep = |kernel, tensors| memory(kernel, product(&[tensors, n]), wide);
        let mut forward = vec![sweep(kernel, 2)];
        forward.extend(self.narrowed(n));
        let mut weight_grad = Vec::from_iter(self.widened(n));
        weight_grad.push(column_sum(NormSum, product(&[2, n]), self.sizes[1], wide));
        Operator { params: 0, forward, weight_grad, input_grad: vec![sweep(NormGradient, 3)] }
    }

    fn activation(self) -> Operator {
        let n = self.elements();
        Operator {
            forward: vec![self.tensors(Elementwise, 2, n)],
            input_grad: vec![self.tensors(Elementwise, 3, n)],
            ..Operator::default()
        }
    }

    /// The activation and the product; their gradients, and the sum of the gradients of both projections.
    fn gated(self) -> Operator {
        let n = self.elements();
        let each = |tensors: &[u64]| tensors.iter().map(|&count| self.tensors(Elementwise, count, n)).collect();
        let (forward, input_grad) =
            if self.is_eager() { (each(&[2, 3]), each(&[3, 3, 3])) } else { (each(&[3]), each(&[5])) };
        Operator { forward, input_grad, ..Operator::default() }
    }

    fn dropout(self) -> Operator {
        let n = self.elements();
        let with_mask = |kernel| {
            let demand = self.tensors(kernel, 2, n);
            Demand { bytes: demand.bytes.saturating_add(n), ..demand }
        };
        match self.framework.kernels {
            // Part of the kernel that adds to the residual stream, which writes the mask.
            Fusion::Megatron => Operator {
                forward: vec![memory(Elementwise, n, 1)],
                input_grad: vec![with_mask(Elementwise)],
                ..Operator::default()
            },
            _ => Operator {
                forward: vec![with_mask(Dropout)],
                input_grad: vec![with_mask(Elementwise)],
                ..Operator::default()
            },
        }
    }

    /// The gradients of both ways meet where they began. Under autocast what is added is narrow, and so is its gradient.
    fn add(self) -> Operator {
        let (n, residual) = (self.elements(), self.residual());
        let sweep = |tensors| memory(Elementwise, product(&[tensors, n]), residual);
        match self.framework.kernels {
            // The normalisation that follows has the sum at hand, and adds the gradients.
            Fusion::Compile => Operator { forward: vec![sweep(2)], input_grad: vec![sweep(1)], ..Operator::default() },
            _ => {
                let forward = vec![memory(Elementwise, n, 2 * residual + self.bytes)];
                let cast = memory(Elementwise, n, residual + self.bytes);
                let input_grad = std::iter::once(sweep(3)).chain((residual > self.bytes).then_some(cast)).collect();
                Operator { forward, input_grad, ..Operator::default() }
            }
        }
    }

    fn embedding(self) -> Operator {
        let &[rows, vocabulary, features] = self.sizes else { unreachable!("sizes of embedding") };
        let (read, table) = (product(&[rows, features]), product(&[vocabulary, features]));
        let sweep = |kernel, elements| memory(kernel, elements, self.wide());
        Operator {
            forward: vec![sweep(Lookup, product(&[2, read]))],
            weight_grad: vec![sweep(Elementwise, table), sweep(LookupGradient, read)],
            ..Operator::default()
        }
    }

    fn loss(self) -> Operator {
        let (n, loss) = (self.elements(), u64::from(self.framework.loss_bytes));
        let sweep = |kernel, tensors| memory(kernel, product(&[tensors, n]), loss);
        let cast = |kernel| (loss > self.bytes).then(|| memory(kernel, n, loss + self.bytes));
        let mut forward = Vec::from_iter(cast(Cast));
        let mut input_grad = Vec::new();
        match self.framework.kernels {
            // The largest logit, differences, exponentials, their sum, quotients; backward, their product with the gradient.
            Fusion::Megatron => {
                forward.extend([1, 2, 2, 1, 2].map(|tensors| sweep(Elementwise, tensors)));
                input_grad.push(sweep(Elementwise, 2));
            }
            _ => {
                forward.push(sweep(Loss, 2));
                input_grad.extend([sweep(Elementwise, 1), sweep(LossGradient, 3)]);
            }
        }
        input_grad.extend(cast(Elementwise));
        Operator { forward, input_grad, ..Operator::default() }
    }
}

#[cfg(test)]
mod tests;
