//! Layers with the demand of their three passes.

use crate::kernel_kind::KernelKind;
use syncline_core::{Bytes, Ps};

/// The shape of matrix products: `count` of them, each `m x k` times `k x n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Rows of the result.
    pub m: u64,
    /// Terms of each sum.
    pub k: u64,
    /// Columns of the result.
    pub n: u64,
    /// Products of this shape, one after the other.
    pub count: u64,
    /// Bytes of both factors of all products, each byte counted once: an image is smaller than its windows.
    pub operands: [u64; 2],
}

/// What a kernel, or a run of equal kernels, asks of an NPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Floating-point operations (a multiply-accumulate counts as two).
    pub flops: u64,
    /// Bytes read from and written to main memory.
    pub bytes: u64,
    /// Its matrix products, if that is what it does; their shape decides on a systolic array.
    pub gemm: Option<Gemm>,
    /// Whether the factors of its products are in the narrow data type of linear layers (FP8), for which an NPU may have a
    /// rate of its own.
    pub narrow: bool,
    /// What it does, if that is known; else products or elementwise work.
    pub kind: Option<KernelKind>,
}

/// The cost of one pass of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Kernels that run one after the other.
    Kernels(Vec<Demand>),
    /// A measured or imported duration, which no compute model changes.
    Measured(Ps),
}

impl Gemm {
    /// Operations, two per multiply-accumulate; saturates.
    pub const fn flops(self) -> u64 {
        self.m.saturating_mul(self.k).saturating_mul(self.n).saturating_mul(self.count).saturating_mul(2)
    }

    /// Bytes that are read again where a product is computed in square tiles of `tile` results along each side, and
    /// operands stay no longer than a tile takes: the first factor is read once for each column of tiles, the
    /// second once for each row of them; saturates.
    pub const fn reread(self, tile: u64) -> u64 {
        let [first, second] = self.operands;
        let (columns, rows) = (self.n.div_ceil(tile), self.m.div_ceil(tile));
        first.saturating_mul(columns.saturating_sub(1)).saturating_add(second.saturating_mul(rows.saturating_sub(1)))
    }
}

impl Demand {
    /// A kernel without matrix products.
    pub const fn new(flops: u64, bytes: u64) -> Demand {
        Demand { flops, bytes, gemm: None, narrow: false, kind: None }
    }

    /// Matrix products that move `bytes` in all.
    pub const fn of_gemm(gemm: Gemm, bytes: u64) -> Demand {
        Demand { flops: gemm.flops(), bytes, gemm: Some(gemm), narrow: false, kind: None }
    }

    /// The same, known to be a kernel of a kind.
    #[must_use]
    pub const fn as_kind(self, kind: KernelKind) -> Demand {
        Demand { kind: Some(kind), ..self }
    }

    /// The same with the factors of its products, of elements of `wide` bytes, in elements of `narrow` bytes; results stay
    /// as wide as they are. Kernels without products stay as they are.
    #[must_use]
    pub fn with_narrow_factors(self, wide: u32, narrow: u32) -> Demand {
        let Some(gemm) = self.gemm else { return self };
        let operands = gemm.operands.map(|bytes| bytes / u64::from(wide) * u64::from(narrow));
        let saved = gemm.operands.iter().zip(operands).fold(0, |sum: u64, (was, is)| sum.saturating_add(was - is));
        let bytes = self.bytes.saturating_sub(saved);
        Demand { bytes, gemm: Some(Gemm { operands, ..gemm }), narrow: true, ..self }
    }

    /// Both demands together, as a kernel without a shape; saturates.
    #[must_use]
    pub const fn plus(self, other: Demand) -> Demand {
        Demand::new(self.flops.saturating_add(other.flops), self.bytes.saturating_add(other.bytes))
    }
}

impl Cost {
    /// Its kernels; none of a measured duration.
    pub fn each(&self) -> impl Iterator<Item = Demand> + use<'_> {
        let kernels = match self {
            Cost::Kernels(kernels) => kernels.as_slice(),
            Cost::Measured(_) => &[],
        };
        kernels.iter().copied()
    }

    /// A pass that does nothing.
    pub const NOTHING: Cost = Cost::Kernels(Vec::new());

    /// Whether the pass takes no time on any NPU.
    pub fn is_nothing(&self) -> bool {
        match self {
            Cost::Kernels(kernels) => kernels.iter().all(|k| *k == Demand::default()),
            Cost::Measured(time) => *time == Ps::ZERO,
        }
    }

    /// The demand of all kernels together, or `None` for a measured duration, which has none;
    /// saturates. For reports: the time of a pass is that of its kernels one by one.
    pub fn demand(&self) -> Option<Demand> {
        match self {
            Cost::Kernels(kernels) => Some(kernels.iter().fold(Demand::default(), |sum, k| sum.plus(*k))),
            Cost::Measured(_) => None,
        }
    }
}

/// A layer of a model, as the training loop sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its name, unique within the model.
    pub name: String,
    /// Trainable parameters; zero where an importer cannot know them.
    pub params: u64,
    /// The forward pass.
    pub forward: Cost,
    /// The gradient with respect to the layer's input; nothing for the first layer.
    pub input_grad: Cost,
    /// The gradient with respect to the layer's weights.
    pub weight_grad: Cost,
    /// The weight update after the gradient has been all-reduced; runs before the layer's next forward.
    pub update: Cost,
    /// Bytes of weight gradient that data parallelism all-reduces; zero for none.
    pub gradient: Bytes,
}
