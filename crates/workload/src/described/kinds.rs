//! The kinds of operators.

use super::Form::{Extent, Flag, Like, Optional, Rows};
use super::{Described, Kind, SizeOf};
use crate::operators::{
    Conv2d, INDEX_BYTES, ImageShape, Operator, add, batch_norm, bias, copy, dropout, embedding_sums, fork,
    fully_connected, global_average_pool, max_pool, product, relu, softmax_cross_entropy,
};
use crate::recurrent::{Attention, Lstm, concatenation, dense_embedding};
use crate::transformer::{
    Core, activation, combine, dispatch, experts, gated, layer_norm, of_activations, position_embedding, rms_norm,
    rotation, router,
};

/// Entries of [`KINDS`]: name, sizes with their forms, description, an optional rule between sizes, and the operator for
/// elements of so many bytes.
macro_rules! kinds {
    ($($name:literal ($($size:ident: $form:expr),+) $description:literal
        $(, if $wrong:expr => $message:expr, $accepted:expr)?; |$bytes:ident| $of:expr)+) => {
        /// All kinds, by name.
        pub const KINDS: &[Kind] = &[$(Kind {
            name: $name,
            description: $description,
            sizes: &[$(SizeOf { name: stringify!($size), form: $form }),+],
            #[expect(unused_variables, reason = "most rules need a few of the sizes")]
            check: |sizes| {
                let &[$($size),+] = sizes else { unreachable!("sizes of {}", $name) };
                $(if $wrong { return Some(($message, $accepted)); })?
                None
            },
            of: |sizes, $bytes| {
                let &[$($size),+] = sizes else { unreachable!("sizes of {}", $name) };
                $of
            },
        }),+];
    };
}

kinds! {
    "linear" (rows: Rows, inputs: Extent, outputs: Extent, bias: Flag)
        "a fully connected layer: each row of inputs times a matrix, with a bias or without";
    |bytes| weighted(fully_connected(rows, narrow(inputs), narrow(outputs), bias == 1, bytes))
        .between(product(&[rows, inputs]), product(&[rows, outputs])).keeping_its_input(bytes)

    "matmul" (rows: Rows, inputs: Extent, outputs: Extent, count: Extent)
        "products of two activations, count of them";
    |bytes| weighted(of_activations(rows, inputs, outputs, count, bytes))
        .between(
            product(&[count, product(&[rows, inputs]).saturating_add(product(&[inputs, outputs]))]),
            product(&[count, rows, outputs]),
        ).keeping_its_input(bytes)

    "embedding" (rows: Rows, vocabulary: Extent, features: Extent)
        "reads a row of a table for each token; its gradient is dense";
    |bytes| weighted(dense_embedding(narrow(vocabulary), narrow(features), rows, bytes))
        .between(rows, product(&[rows, features])).keeping(product(&[rows, INDEX_BYTES]))

    "position-embedding" (rows: Rows, positions: Extent, features: Extent)
        "adds a row of a table of positions to each token; rows of the table are read once per sequence";
    |bytes| plain(position_embedding(product(&[rows, features]), product(&[positions, features]), bytes))
        .of(product(&[rows, features]))

    "embedding-sum" (samples: Rows, tables: Extent, lookups: Extent, features: Extent, entries: Optional)
        "sums of rows of embedding tables; gradients are applied row by row, where they arrive; entries is the number of rows \
         of a table, which counts for nothing but parameters";
    |bytes| {
        let mut operator = embedding_sums(samples, tables, lookups, features, bytes);
        operator.params = product(&[tables, entries, features]);
        let rows = product(&[samples, tables, lookups]);
        weighted(operator).between(rows, product(&[samples, tables, features])).keeping(product(&[rows, INDEX_BYTES]))
    }

    "attention" (
        sequences: Rows, heads: Extent, kv_heads: Like("heads"), queries: Extent, keys: Like("queries"),
        head_size: Extent, value_size: Like("head_size"), causal: Flag, fused: Flag, dropout: Flag
    )
        "the core of attention: scores, softmax and sums of values; fused keeps scores on the chip, and then causal halves the \
         operations",
        if heads % kv_heads != 0 => format!("{heads} heads share the keys of {kv_heads}"),
            format!("kv_heads that divide {heads}");
    |bytes| {
        let (is_causal, is_fused, drops) = (causal == 1, fused == 1, dropout == 1);
        let core = Core {
            sequences, heads, kv_heads, queries, keys, head_size, value_size,
            causal: is_causal, fused: is_fused, dropout: drops,
        };
        let t = core.tensors();
        let given = t.queries.saturating_add(t.keys).saturating_add(t.values);
        let dropped = if drops { product(&[t.scores, 1 + u64::from(bytes)]) } else { 0 };
        let between = match is_fused {
            true => product(&[t.rows, Core::STATISTIC_BYTES]),
            false => product(&[t.scores, bytes.into()]).saturating_add(dropped),
        };
        let described = weighted(core.operator(bytes)).between(given, t.contexts);
        described.keeping(product(&[given, bytes.into()]).saturating_add(between))
    }

    "rotary" (rows: Rows, features: Extent)
        "turns queries and keys by angles of their positions";
    |bytes| plain(rotation(product(&[rows, features]), bytes)).of(product(&[rows, features]))

    "layer-norm" (rows: Rows, features: Extent)
        "layer normalisation with scale and shift";
    |bytes| plain(layer_norm(rows, features, bytes)).of(product(&[rows, features])).keeping_its_input(bytes)

    "rms-norm" (rows: Rows, features: Extent)
        "normalisation by the root of the mean square, with scale";
    |bytes| plain(rms_norm(rows, features, bytes)).of(product(&[rows, features])).keeping_its_input(bytes)

    "gelu" (rows: Rows, features: Extent)
        "the Gaussian error linear unit, by a hyperbolic tangent";
    |bytes| plain(activation(product(&[rows, features]), [8, 13], bytes)).of(product(&[rows, features]))
        .keeping_its_input(bytes)

    "silu" (rows: Rows, features: Extent)
        "x times its logistic function (swish)";
    |bytes| plain(activation(product(&[rows, features]), [4, 7], bytes)).of(product(&[rows, features]))
        .keeping_its_input(bytes)

    "tanh" (rows: Rows, features: Extent)
        "the hyperbolic tangent";
    |bytes| plain(activation(product(&[rows, features]), [4, 3], bytes)).of(product(&[rows, features]))
        .keeping_its_input(bytes)

    "relu" (rows: Rows, features: Extent)
        "the rectifier; keeps nothing, since the next operator keeps its output";
    |bytes| plain(relu(product(&[rows, features]), bytes)).of(product(&[rows, features]))

    "swiglu" (rows: Rows, features: Extent)
        "the product of features with silu of as many others, which are both given";
    |bytes| plain(gated(product(&[rows, features]), [5, 10], bytes))
        .between(product(&[2, rows, features]), product(&[rows, features])).keeping_its_input(bytes)

    "geglu" (rows: Rows, features: Extent)
        "the product of features with gelu of as many others, which are both given";
    |bytes| plain(gated(product(&[rows, features]), [9, 16], bytes))
        .between(product(&[2, rows, features]), product(&[rows, features])).keeping_its_input(bytes)

    "dropout" (rows: Rows, features: Extent)
        "dropout, with a mask of a byte for each element";
    |bytes| plain(dropout(product(&[rows, features]), bytes)).of(product(&[rows, features]))
        .keeping(product(&[rows, features]))

    "add" (rows: Rows, features: Extent)
        "the sum of two tensors";
    |bytes| plain(add(product(&[rows, features]), bytes))
        .between(product(&[2, rows, features]), product(&[rows, features]))

    "multiply" (rows: Rows, features: Extent)
        "the product of two tensors, element by element";
    |bytes| plain(gated(product(&[rows, features]), [1, 2], bytes))
        .between(product(&[2, rows, features]), product(&[rows, features])).keeping_its_input(bytes)

    "fork" (rows: Rows, features: Extent)
        "a tensor that is used twice: backward, the gradients of both uses are added";
    |bytes| plain(fork(product(&[rows, features]), bytes)).of(product(&[rows, features]))

    "copy" (rows: Rows, features: Extent)
        "copies a tensor, such as features that are put side by side";
    |bytes| plain(copy(product(&[rows, features]), bytes)).of(product(&[rows, features]))

    "concatenation" (rows: Rows, features: Extent)
        "puts two tensors side by side, one of which is used in several places";
    |bytes| plain(concatenation(product(&[rows, features]), bytes))
        .between(product(&[2, rows, features]), product(&[2, rows, features]))

    "softmax-cross-entropy" (rows: Rows, vocabulary: Extent)
        "the loss; logits are kept in four bytes at least";
    |bytes| plain(softmax_cross_entropy(rows, narrow(vocabulary), bytes)).between(product(&[rows, vocabulary]), rows)
        .keeping(product(&[rows, vocabulary, u64::from(bytes.max(4))]))

    "router" (rows: Rows, features: Extent, experts: Extent)
        "chooses experts for each token";
    |bytes| weighted(router(rows, features, experts, bytes))
        .between(product(&[rows, features]), product(&[rows, experts])).keeping_its_input(bytes)

    "dispatch" (rows: Rows, copies: Extent, features: Extent)
        "copies tokens into the order of experts; the experts keep the copies";
    |bytes| plain(dispatch(rows, copies, features, bytes))
        .between(product(&[rows, features]), product(&[rows, copies, features]))

    "combine" (rows: Rows, copies: Extent, features: Extent)
        "adds what experts have computed for a token, weighed by the router";
    |bytes| plain(combine(rows, copies, features, bytes))
        .between(product(&[rows, copies, features]), product(&[rows, features])).keeping_its_input(bytes)

    "experts" (experts: Extent, rows: Rows, inputs: Extent, outputs: Extent)
        "a fully connected layer for each expert, without bias; rows are those of all of them, equally many each";
    |bytes| weighted(self::experts(experts, rows, inputs, outputs, bytes))
        .between(product(&[rows, inputs]), product(&[rows, outputs])).keeping_its_input(bytes)

    "convolution" (
        samples: Extent, channels: Extent, height: Extent, width: Extent,
        filters: Extent, kernel: Extent, stride: Extent, padding: Optional
    )
        "a two-dimensional convolution with square filters, without bias",
        if is_outside(kernel, padding, [height, width]) => outside(kernel), inside(padding, [height, width]);
    |bytes| {
        let input = image(samples, channels, height, width);
        let [kernel, stride, padding] = [kernel, stride, padding].map(narrow);
        let conv = Conv2d { channels: narrow(filters), kernel, stride, padding };
        weighted(conv.operator(input, bytes)).between(input.elements(), conv.output(input).elements())
            .keeping_its_input(bytes)
    }

    "channel-bias" (samples: Extent, channels: Extent, height: Extent, width: Extent)
        "a bias for each channel, behind a convolution";
    |bytes| {
        let shape = image(samples, channels, height, width);
        plain(bias(shape, bytes)).of(shape.elements())
    }

    "batch-norm" (samples: Extent, channels: Extent, height: Extent, width: Extent)
        "batch normalisation with scale and shift, in training";
    |bytes| {
        let shape = image(samples, channels, height, width);
        plain(batch_norm(shape, bytes)).of(shape.elements()).keeping_its_input(bytes)
    }

    "max-pool" (
        samples: Extent, channels: Extent, height: Extent, width: Extent,
        window: Extent, stride: Extent, padding: Optional
    )
        "the maximum over square windows",
        if is_outside(window, padding, [height, width]) => outside(window), inside(padding, [height, width]);
    |bytes| {
        let input = image(samples, channels, height, width);
        let [window, stride, padding] = [window, stride, padding].map(narrow);
        let (operator, output) = max_pool(input, window, stride, padding, bytes);
        plain(operator).between(input.elements(), output.elements()).keeping_its_input(bytes)
    }

    "average-pool" (samples: Extent, channels: Extent, height: Extent, width: Extent)
        "the average over each channel";
    |bytes| {
        let (operator, output) = global_average_pool(image(samples, channels, height, width), bytes);
        plain(operator).between(image(samples, channels, height, width).elements(), output.elements())
    }

    "lstm" (samples: Extent, steps: Extent, inputs: Extent, hidden: Extent, directions: Extent)
        "an LSTM layer over sequences, in one direction or in both, whose outputs stand side by side",
        if directions > 2 => format!("directions is {directions}"), "1 or 2".to_owned();
    |bytes| {
        let lstm = Lstm { inputs: narrow(inputs), hidden: narrow(hidden), directions: narrow(directions) };
        let (matrices, cells) = lstm.operators(narrow(samples), narrow(steps), bytes);
        let rows = product(&[samples, steps]);
        // Of each direction, gates and states; what the next layer has as its input, it keeps.
        let kept = inputs.saturating_add(product(&[directions, 5, hidden]));
        both(matrices, cells).between(product(&[rows, inputs]), product(&[rows, directions, hidden]))
            .keeping(product(&[rows, kept, bytes.into()]))
    }

    "bahdanau-attention" (samples: Extent, units: Extent, queries: Extent, keys: Extent)
        "normalised additive attention with both projections (Bahdanau's)";
    |bytes| {
        let sizes = Attention { units: narrow(units), queries: narrow(queries), keys: narrow(keys) };
        let (matrices, between) = sizes.operators(narrow(samples), bytes);
        let (asking, asked) = (product(&[samples, queries, units]), product(&[samples, keys, units]));
        let pairs = product(&[samples, queries, keys]);
        let given = asking.saturating_add(asked);
        // Hyperbolic tangents of the sums of all pairs, and their weights.
        let kept = given.saturating_add(product(&[pairs, units])).saturating_add(pairs);
        both(matrices, between).between(given, asking).keeping(product(&[kept, bytes.into()]))
    }
}

impl Described {
    /// With so many elements that go in and come out.
    fn between(self, input_elements: u64, output_elements: u64) -> Described {
        Described { input_elements, output_elements, ..self }
    }

    /// With as many elements that come out as go in.
    fn of(self, elements: u64) -> Described {
        self.between(elements, elements)
    }

    /// With bytes that are kept for the backward pass.
    fn keeping(self, saved_bytes: u64) -> Described {
        Described { saved_bytes, ..self }
    }

    /// With the input kept for the backward pass.
    fn keeping_its_input(self, element_bytes: u32) -> Described {
        let saved_bytes = product(&[self.input_elements, element_bytes.into()]);
        self.keeping(saved_bytes)
    }
}

fn weighted(operator: Operator) -> Described {
    Described { parts: vec![(operator, true)], ..Described::default() }
}

fn plain(operator: Operator) -> Described {
    Described { parts: vec![(operator, false)], ..Described::default() }
}

/// Matrix products, and what is computed between them.
fn both(matrices: Operator, between: Operator) -> Described {
    Described { parts: vec![(matrices, true), (between, false)], ..Described::default() }
}

/// A size whose form has 32 bits.
fn narrow(size: u64) -> u32 {
    u32::try_from(size).expect("the form of the size has 32 bits")
}

fn image(samples: u64, channels: u64, height: u64, width: u64) -> ImageShape {
    let [batch, channels, height, width] = [samples, channels, height, width].map(narrow);
    ImageShape { batch, channels, height, width }
}

/// Whether a square window is larger than the padded image.
fn is_outside(window: u64, padding: u64, sides: [u64; 2]) -> bool {
    sides.iter().any(|side| window > side + 2 * padding)
}

fn outside(window: u64) -> String {
    format!("a window of {window} x {window} is larger than the padded input")
}

fn inside(padding: u64, [height, width]: [u64; 2]) -> String {
    format!("up to {}", height.min(width) + 2 * padding)
}
