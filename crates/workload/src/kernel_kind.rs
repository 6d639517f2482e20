//! What kernels do, as far as GPU libraries differ in how fast they do it.
//!
//! A [`Demand`](crate::layer::Demand) counts operations and bytes; its kind says which kernel of a library does them. The
//! calibrated model of GPUs ([`crate::compute::gpu`]) has constants for each kind; other compute models ignore it.

use serde::{Deserialize, Serialize};

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelKind {
    /// Matrix products.
    Product(Layout),
    /// A convolution as a product of windows that are never written out.
    Convolution(ConvolutionKernel),
    /// The core of attention in one kernel.
    Attention(AttentionKernel),
    /// What memory bounds.
    Memory(Traffic),
}

/// A kernel that memory bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Which one.
    pub kernel: MemoryKernel,
    /// Whether its elements have four bytes or more.
    #[serde(default)]
    pub wide: bool,
    /// How long the work of one block of threads is, where that matters; 0 of other kernels. Of sums over rows and of statistics
    /// of planes, the columns or channels, of which a block has one; of a softmax, the elements of a row; of an
    /// update, those of the longest chunk.
    #[serde(default)]
    pub columns: u32,
}

impl Traffic {
    /// Of elements of two bytes.
    pub const fn of(kernel: MemoryKernel) -> Traffic {
        Traffic { kernel, wide: false, columns: 0 }
    }
}

/// How the two factors of a product lie in memory, row by row or transposed, as cuBLAS names it. The three passes of a linear
/// layer are these three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// The second factor is transposed: forward.
    Nt,
    /// None is: the gradient of the input.
    Nn,
    /// The first factor is: the gradient of the weights.
    Tn,
}

/// In which order the elements of images lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageLayout {
    /// The channels of a pixel next to each other (`channels_last`).
    #[default]
    Nhwc,
    /// A plane for each channel.
    Nchw,
}

/// A kernel of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvolutionKernel {
    /// Its pass, named by the product that a linear layer has there.
    pub pass: Layout,
    /// Whether its input had too few channels and was padded, and the layout it came from.
    #[serde(default)]
    pub padded: Option<ImageLayout>,
}

/// A kernel of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionKernel {
    /// Whether it computes gradients.
    pub backward: bool,
    /// Whether positions attend to earlier ones only.
    pub causal: bool,
    /// Sequences times heads of queries.
    pub heads: u64,
    /// Queries of each.
    pub queries: u64,
    /// Keys of each.
    pub keys: u64,
    /// Features of a query and a key, per head.
    pub head_size: u64,
}

/// What a kernel that memory bounds does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKernel {
    /// Reads and writes elements in order: activations, additions, copies.
    Elementwise,
    /// The same of views whose elements are not next to each other.
    Strided,
    /// Exchanges rows and columns.
    Transpose,
    /// Changes the type of elements.
    Cast,
    /// Draws a mask and applies it.
    Dropout,
    /// Normalises rows.
    Norm,
    /// The same by their root mean square.
    RmsNorm,
    /// The gradient of the input of a normalisation.
    NormGradient,
    /// Sums over rows, for each of so many columns: gradients of biases, scales and shifts.
    ColumnSum,
    /// Such sums of the gradients of a normalisation's scale and shift.
    NormSum,
    /// Softmax over rows.
    Softmax,
    /// Its gradient.
    SoftmaxGradient,
    /// Cross-entropy of rows as long as a vocabulary.
    Loss,
    /// Its gradient.
    LossGradient,
    /// Reads rows of a table.
    Lookup,
    /// Adds rows to the gradient of a table.
    LookupGradient,
    /// Normalises channels over a batch, in NHWC.
    BatchNorm,
    /// Its gradient.
    BatchNormGradient,
    /// Normalises channels over a batch, in NCHW.
    PlaneNorm,
    /// Its gradient.
    PlaneNormGradient,
    /// Changes the order of an image's dimensions, or pads its channels.
    Reorder,
    /// Maxima or means over windows.
    Pool,
    /// Their gradient.
    PoolGradient,
    /// An optimiser's step over many tensors.
    Update,
}

impl MemoryKernel {
    /// All of them.
    pub const ALL: [MemoryKernel; 24] = [
        MemoryKernel::Elementwise,
        MemoryKernel::Strided,
        MemoryKernel::Transpose,
        MemoryKernel::Cast,
        MemoryKernel::Dropout,
        MemoryKernel::Norm,
        MemoryKernel::RmsNorm,
        MemoryKernel::NormGradient,
        MemoryKernel::ColumnSum,
        MemoryKernel::NormSum,
        MemoryKernel::Softmax,
        MemoryKernel::SoftmaxGradient,
        MemoryKernel::Loss,
        MemoryKernel::LossGradient,
        MemoryKernel::Lookup,
        MemoryKernel::LookupGradient,
        MemoryKernel::BatchNorm,
        MemoryKernel::BatchNormGradient,
        MemoryKernel::PlaneNorm,
        MemoryKernel::PlaneNormGradient,
        MemoryKernel::Reorder,
        MemoryKernel::Pool,
        MemoryKernel::PoolGradient,
        MemoryKernel::Update,
    ];
}
