//! Text workloads of ASTRA-sim 1.0.
//!
//! ```text
//! DATA
//! 2
//! conv1  -1  13003 NONE 0  12864 NONE 0  32291 ALLREDUCE 37632  3229
//! fc     -1  16416 NONE 0  27708 NONE 0   9220 ALLREDUCE 8192000 922
//! ```
//!
//! The first line names the parallelism and its options, the second the number of layers; then comes one line per
//! layer. Columns are separated by blanks or tabs:
//!
//! | column | meaning |
//! |---|---|
//! | 1 | name of the layer |
//! | 2 | reserved, -1 |
//! | 3, 4, 5 | forward: compute time, collective, bytes |
//! | 6, 7, 8 | input gradient: the same |
//! | 9, 10, 11 | weight gradient: the same |
//! | 12 | update time, after the weight gradient's collective |
//! | 13 | under `HYBRID_CUSTOMIZED` only: the layer's own parallelism |
//!
//! Times are nanoseconds, as in ASTRA-sim 1.0 (2.x reads the same files as microseconds). They become
//! [`Cost::Measured`]: no compute model changes them, only its scale. Sizes are bytes. The file names no number
//! format, so [`Layer::params`] is zero.
//!
//! A collective is `ALLREDUCE`, `ALLGATHER`, `ALLTOALL` or `REDUCESCATTER`. `NONE`, or a size of zero, means that the
//! pass communicates nothing. The fused collectives that ASTRA-sim 1.0 knows besides are refused.
//!
//! # The size of an all-gather
//! A size stands for the full vector on each NPU, as everywhere in Syncline, whatever the collective is. That matters for
//! `ALLGATHER`: ASTRA-sim 2.x, which reads the same number by way of a Chakra trace, takes it for the contribution of one
//! rank, so that its vector is larger by the number of ranks. The number is kept as it stands in the file.
//!
//! # Parallelism
//! | first line | options |
//! |---|---|
//! | `DATA`, `MICRO`, `MODEL`, `HYBRID_DATA_MODEL`, `HYBRID_MODEL_DATA`, `HYBRID_CUSTOMIZED` | none |
//! | `HYBRID_DLRM`, `HYBRID_DLRM_ENHANCED` | index of the last bottom layer |
//! | `HYBRID_TRANSFORMER` | `model_parallel_NPU_group: G` |
//! | `HYBRID_TRANSFORMER_FWD_IN_BCKWD` | the same, then `checkpoints: n i1 .. in checkpoint_initiates: m j1 .. jm` |
//!
//! Layers are counted from zero, so that under `HYBRID_DLRM` the embedding is layer 0 and the last bottom layer of four is
//! layer 4. A top layer has to follow it. What checkpoints mean is said at [`Parallelism::HybridTransformerFwdInBckwd`].
//!
//! # Two entries
//! [`read`] accepts every parallelism and any collective in every pass; [`crate::astra_parallel`] makes a graph of
//! the result. Under `MICRO` only the weight gradient may communicate, since ASTRA-sim looks at no other column.
//!
//! [`parse`] is for [`crate::data_parallel`], which communicates weight gradients only, by all-reduce. It accepts `DATA`
//! and `MICRO` without any other collective, and refuses everything else rather than ignoring it.
//!
//! Blank lines, trailing blanks, CRLF and a missing last newline make no difference. All errors of
//! a file are found, not only the first.

mod errors;
mod parallelism;
mod reader;

pub use parallelism::{LayerParallelism, Parallelism};

use crate::layer::{Cost, Layer};
use parallelism::Keyword;
use reader::{Form, Reader};
use syncline_collective::Kind;
use syncline_core::{Bytes, Ps, Refusal};

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Line, from one.
    pub line: usize,
    /// The field, e.g. `weight-gradient bytes (column 11)`.
    pub field: String,
    /// What stands there, shortened where it is long.
    pub value: String,
    /// What would be accepted.
    pub accepted: String,
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Refusal {
        let FieldError { line, field, value, accepted } = error;
        let message = if value.is_empty() { "this is missing".into() } else { format!("this is not a legal {field}") };
        let refusal = Refusal::of("", message).accepting(accepted).in_line(line);
        Refusal { field: vec![field], value: Some(value), ..refusal }
    }
}

/// All that is wrong with a file, by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The errors, at least one.
    pub errors: Vec<FieldError>,
}

/// All compute times of a file together: a million seconds. Simulated time ends at 213 days.
pub const MAX_TOTAL_NS: u64 = 1_000_000_000_000_000;
/// All sizes of a file together: a pebibyte.
pub const MAX_TOTAL_BYTES: u64 = 1 << 50;

/// A collective of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Communication {
    /// Which one.
    pub kind: Kind,
    /// Bytes of the full vector on each NPU, as they stand in the file; not zero.
    pub size: Bytes,
}

/// A pass of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportedPass {
    /// How long it computes.
    pub time: Ps,
    /// What it communicates then.
    pub communication: Option<Communication>,
}

/// A layer, as its line describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedLayer {
    /// Its name, unique within the file.
    pub name: String,
    /// Columns 3 to 5.
    pub forward: ImportedPass,
    /// Columns 6 to 8.
    pub input_grad: ImportedPass,
    /// Columns 9 to 11.
    pub weight_grad: ImportedPass,
    /// How long the update of the weights takes, after the weight gradient's collective.
    pub update: Ps,
    /// Its own parallelism; under `HYBRID_CUSTOMIZED` all layers have one, otherwise none has.
    pub parallelism: Option<LayerParallelism>,
}

/// A text workload, as it stands in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The first line.
    pub parallelism: Parallelism,
    /// The layers in forward order, at least one.
    pub layers: Vec<ImportedLayer>,
}

impl Imported {
    /// The layers without their communication, except that [`Layer::gradient`] holds the bytes of weight gradient that are
    /// all-reduced. Under `MICRO` passes take no time, as only the collective of such a file counts.
    pub fn to_layers(&self) -> Vec<Layer> {
        let cost = |time| if self.parallelism == Parallelism::Micro { Cost::NOTHING } else { Cost::Measured(time) };
        let layer = |layer: &ImportedLayer| Layer {
            name: layer.name.clone(),
            params: 0,
            forward: cost(layer.forward.time),
            input_grad: cost(layer.input_grad.time),
            weight_grad: cost(layer.weight_grad.time),
            update: cost(layer.update),
            gradient: match layer.weight_grad.communication {
                Some(Communication { kind: Kind::AllReduce, size }) => size,
                _ => Bytes::ZERO,
            },
        };
        self.layers.iter().map(layer).collect()
    }
}

/// The layers of a data-parallel workload, in forward order.
///
/// # Errors
/// Everything that is wrong with `text`, by line: the line, the field, the value and what would be accepted. A parallelism
/// other than `DATA` and `MICRO` is wrong here, and so is a collective that is not the all-reduce of a weight gradient.
pub fn parse(text: &str) -> Result<Vec<Layer>, ImportError> {
    Ok(scan(text, Entry::DataParallel)?.to_layers())
}

/// The workload that `text` describes, of any parallelism.
///
/// # Errors
/// Everything that is wrong with `text`, by line: the line, the field, the value and what would be accepted.
pub fn read(text: &str) -> Result<Imported, ImportError> {
    scan(text, Entry::Any)
}

/// Which files are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// What [`parse`] accepts.
    DataParallel,
    /// What [`read`] accepts.
    Any,
}

fn scan(text: &str, entry: Entry) -> Result<Imported, ImportError> {
    let mut reader = Reader::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = (1..)
        .zip(text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()))
        .filter(|(_, fields)| !fields.is_empty());
    let first = lines.next();
    let keyword = match &first {
        Some((line, fields)) => Keyword::read(&mut reader.errors, *line, fields[0], entry),
        None => {
            reader.errors.add(1, "parallelism", "", Keyword::accepted(entry));
            None
        }
    };
    let parallelism = match (&first, keyword) {
        (Some((line, fields)), Some(keyword)) if keyword.is_accepted(entry) => {
            keyword.options(&mut reader.errors, *line, &fields[1..])
        }
        _ => None,
    };
    let declared = lines.next().map(|(line, fields)| (line, reader.count(line, &fields)));
    if declared.is_none() && !text.trim().is_empty() {
        let accepted = "a whole number from 1, on the second line";
        reader.errors.add(text.lines().count().max(1), "number of layers", "", accepted);
    }
    let form = Form::of(keyword, entry);
    let mut layers = Vec::new();
    let mut found = 0usize;
    for (line, fields) in lines {
        found += 1;
        layers.extend(reader.layer(line, &fields, form));
    }
    if let Some((line, Some(count))) = declared {
        reader.check_count(line, count, found, keyword);
        if let (Some((line, _)), Some(parallelism)) = (&first, &parallelism) {
            parallelism.check(&mut reader.errors, *line, count);
        }
    }
    let errors = reader.errors.finish();
    match parallelism {
        Some(parallelism) if errors.is_empty() => Ok(Imported { parallelism, layers }),
        _ => Err(ImportError { errors }),
    }
}
