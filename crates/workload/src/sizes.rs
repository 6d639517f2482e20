//! What a model is built for, and why it may be that it cannot be built.

use crate::operators::Counted;

/// What a model is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Samples per NPU and iteration.
    pub batch: u32,
    /// Bytes of an element of activations, weights and gradients.
    pub element_bytes: u32,
    /// Which kernels cost time.
    pub counted: Counted,
    /// Tokens of a sentence, for models of sequences; each has its own default.
    pub sequence: Option<u32>,
    /// NPUs that train together, for models that are distributed over them.
    pub ranks: u32,
}

/// Widths that elements may have: FP8, FP16 or BF16, FP32, FP64.
pub const ELEMENT_BYTES: [u32; 4] = [1, 2, 4, 8];

/// Why a model cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// No model has this name.
    UnknownName {
        /// The name.
        name: String,
    },
    /// A batch of no samples.
    EmptyBatch,
    /// Elements of a width that no number format has.
    ElementBytes {
        /// The width.
        element_bytes: u32,
    },
    /// A batch whose demand does not fit 64 bits.
    TooLarge {
        /// Samples.
        batch: u32,
    },
    /// A number of NPUs over which the model cannot be distributed.
    Ranks {
        /// The number.
        ranks: u32,
        /// The largest that can be.
        most: u32,
    },
    /// A length of sequences where there are none, or sequences without tokens.
    Sequence {
        /// The model.
        name: &'static str,
        /// The length.
        sequence: u32,
        /// Whether the model has sequences.
        has_sequence: bool,
    },
}
