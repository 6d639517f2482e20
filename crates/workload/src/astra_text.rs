//! Text workloads of ASTRA-sim 1.0.
//!
//! ```text
//! DATA
//! 2
//! conv1  -1  13003 NONE 0  12864 NONE 0  32291 ALLREDUCE 37632  3229
//! fc     -1  16416 NONE 0  27708 NONE 0   9220 ALLREDUCE 8192000 922
//! ```
//!
//! The first line names the parallelism, the second the number of layers; then comes one line per
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
//!
//! Times are nanoseconds, as in ASTRA-sim 1.0 (2.x reads the same files as microseconds). They become
//! [`Cost::Measured`]: no compute model changes them, only its scale. Sizes are bytes. The file names no number
//! format, so [`Layer::params`] is zero.
//!
//! # What is accepted
//! `DATA`: layers communicate nothing but weight gradients, by `ALLREDUCE`; other collectives in
//! such a file would need waits that data parallelism does not have, and are refused rather than
//! ignored. `MICRO`: one layer of which only the weight gradient's collective counts, as in ASTRA-sim;
//! its times are checked and dropped. The other keywords (model and hybrid parallelism) are recognised
//! and refused.
//!
//! Blank lines, trailing blanks, CRLF and a missing last newline make no difference. All errors of
//! a file are found, not only the first.

use crate::layer::{Cost, Layer};
use std::collections::BTreeMap;
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
/// All gradients of a file together: a pebibyte.
pub const MAX_TOTAL_BYTES: u64 = 1 << 50;

const MICRO: &str = "MICRO";
const DATA: &str = "DATA";
const REFUSED: [&str; 8] = [
    "MODEL",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "HYBRID_DLRM",
    "HYBRID_DLRM_ENHANCED",
    "HYBRID_TRANSFORMER",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD",
    "HYBRID_CUSTOMIZED",
];
const ACCEPTED_KEYWORDS: &str = "DATA or MICRO";
const COLLECTIVES: [&str; 5] = ["NONE", "ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCESCATTER"];
const COLUMNS: usize = 12;
const NAMES: [&str; COLUMNS] = [
    "layer name (column 1)",
    "reserved field (column 2)",
    "forward time (column 3)",
    "forward collective (column 4)",
    "forward bytes (column 5)",
    "input-gradient time (column 6)",
    "input-gradient collective (column 7)",
    "input-gradient bytes (column 8)",
    "weight-gradient time (column 9)",
    "weight-gradient collective (column 10)",
    "weight-gradient bytes (column 11)",
    "update time (column 12)",
];

/// The layers that `text` describes, in forward order, or everything that is wrong with it. Every
/// error holds the line, the field, the value and what would be accepted.
pub fn parse(text: &str) -> Result<Vec<Layer>, ImportError> {
    let mut reader = Reader::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = (1..)
        .zip(text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()))
        .filter(|(_, fields)| !fields.is_empty());
    let mode = match lines.next() {
        Some((line, fields)) => reader.keyword(line, &fields),
        None => {
            reader.error(1, "parallelism", "", ACCEPTED_KEYWORDS);
            None
        }
    };
    let declared = lines.next().map(|(line, fields)| (line, reader.count(line, &fields)));
    if declared.is_none() && !text.trim().is_empty() {
        reader.error(text.lines().count().max(1), "number of layers", "", "a whole number from 1, on the second line");
    }
    let mut layers = Vec::new();
    let mut found = 0usize;
    for (line, fields) in lines {
        found += 1;
        layers.extend(reader.layer(line, &fields, mode));
    }
    if let Some((line, Some(count))) = declared {
        reader.check_count(line, count, found, mode);
    }
    reader.errors.sort_by_key(|e| e.line);
    if reader.errors.is_empty() { Ok(layers) } else { Err(ImportError { errors: reader.errors }) }
}

/// The parallelism of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Data,
    Micro,
    /// Recognised and refused: only the form of the layers is checked.
    Refused {
        columns: usize,
    },
}

/// The errors so far, and what later lines are checked against.
#[derive(Default)]
struct Reader<'t> {
    errors: Vec<FieldError>,
    name_lines: BTreeMap<&'t str, usize>,
    total_ns: u64,
    total_bytes: u64,
}

impl<'t> Reader<'t> {
    fn error(&mut self, line: usize, field: impl Into<String>, value: &str, accepted: impl Into<String>) {
        const SHOWN: usize = 60;
        let mut shown: String = value.chars().take(SHOWN).collect();
        if shown.len() < value.len() {
            shown.push_str("...");
        }
        self.errors.push(FieldError { line, field: field.into(), value: shown, accepted: accepted.into() });
    }

    /// The first line. `None` for a keyword that nobody knows.
    fn keyword(&mut self, line: usize, fields: &[&str]) -> Option<Mode> {
        let keyword = fields[0];
        let mode = match keyword {
            DATA => Mode::Data,
            MICRO => Mode::Micro,
            _ if REFUSED.contains(&keyword) => {
                let accepted = format!("{ACCEPTED_KEYWORDS}; model and hybrid parallelism are not supported");
                self.error(line, "parallelism", keyword, accepted);
                // The layers of this keyword name their own parallelism in one more column.
                let columns = if keyword == "HYBRID_CUSTOMIZED" { COLUMNS + 1 } else { COLUMNS };
                return Some(Mode::Refused { columns });
            }
            _ => {
                self.error(line, "parallelism", keyword, ACCEPTED_KEYWORDS);
                return None;
            }
        };
        if fields.len() > 1 {
            self.error(line, "option of the parallelism", &fields[1..].join(" "), format!("nothing after {keyword}"));
        }
        Some(mode)
    }

    /// The second line.
    fn count(&mut self, line: usize, fields: &[&str]) -> Option<u64> {
        let count = fields[0].parse::<u64>().ok().filter(|&n| n > 0);
        if count.is_none() || fields.len() > 1 {
            self.error(line, "number of layers", &fields.join(" "), "a whole number from 1, on the second line");
            return None;
        }
        count
    }

    fn check_count(&mut self, line: usize, declared: u64, found: usize, mode: Option<Mode>) {
        if declared != found as u64 {
            let accepted = format!("{found}, the number of lines that follow");
            self.error(line, "number of layers", &declared.to_string(), accepted);
        } else if mode == Some(Mode::Micro) && declared != 1 {
            self.error(line, "number of layers", &declared.to_string(), "1 under MICRO");
        }
    }

    /// A layer's line. `None` where it has errors, or is not to be understood under this parallelism.
    fn layer(&mut self, line: usize, fields: &[&'t str], mode: Option<Mode>) -> Option<Layer> {
        let before = self.errors.len();
        let columns = if let Some(Mode::Refused { columns }) = mode { columns } else { COLUMNS };
        if fields.len() != columns {
            self.error(line, "number of columns", &fields.len().to_string(), columns.to_string());
            return None;
        }
        self.name(line, fields[0]);
        if fields[1] != "-1" {
            self.error(line, NAMES[1], fields[1], "-1");
        }
        let [forward, input_grad, weight_grad, update] = [2, 5, 8, 11].map(|c| self.time(line, c, fields[c]));
        let strict = matches!(mode, Some(Mode::Data | Mode::Micro));
        for column in [3, 6] {
            self.collective(line, column, fields, if strict { &COLLECTIVES[..1] } else { &COLLECTIVES });
        }
        let gradient = self.collective(line, 9, fields, if strict { &COLLECTIVES[..2] } else { &COLLECTIVES });
        if self.errors.len() > before {
            return None;
        }
        let cost =
            |time: Option<Ps>| if mode == Some(Mode::Micro) { Some(Cost::NOTHING) } else { time.map(Cost::Measured) };
        Some(Layer {
            name: fields[0].to_owned(),
            params: 0,
            forward: cost(forward)?,
            input_grad: cost(input_grad)?,
            weight_grad: cost(weight_grad)?,
            update: cost(update)?,
            gradient: gradient?,
        })
    }

    fn name(&mut self, line: usize, name: &'t str) {
        if let Some(&first) = self.name_lines.get(name) {
            self.error(line, NAMES[0], name, format!("a name that no other layer has (line {first} has it)"));
        } else {
            self.name_lines.insert(name, line);
        }
    }

    /// A duration in nanoseconds.
    fn time(&mut self, line: usize, column: usize, value: &str) -> Option<Ps> {
        let total = whole(value).and_then(|ns| self.total_ns.checked_add(ns)).filter(|&t| t <= MAX_TOTAL_NS);
        match total {
            Some(total) => {
                let time = Ps((total - self.total_ns) * 1000);
                self.total_ns = total;
                Some(time)
            }
            None => {
                let accepted = format!("whole nanoseconds, at most {MAX_TOTAL_NS} in the whole file");
                self.error(line, NAMES[column], value, accepted);
                None
            }
        }
    }

    /// A collective in `column` with its bytes in the next; nothing is `NONE 0`.
    fn collective(&mut self, line: usize, column: usize, fields: &[&str], accepted: &[&str]) -> Option<Bytes> {
        let (kind, size) = (fields[column], fields[column + 1]);
        let known = accepted.contains(&kind);
        if !known {
            let why = match (COLLECTIVES.contains(&kind), accepted.len()) {
                (true, 1) => "NONE: only weight gradients are communicated under DATA and MICRO".to_owned(),
                (true, _) => {
                    format!("{}: weight gradients are all-reduced under DATA and MICRO", accepted.join(" or "))
                }
                (false, _) => format!("one of {}", accepted.join(", ")),
            };
            self.error(line, NAMES[column], kind, why);
        }
        let total = whole(size).and_then(|n| self.total_bytes.checked_add(n)).filter(|&t| t <= MAX_TOTAL_BYTES);
        let Some(total) = total else {
            let accepted = format!("whole bytes, at most {MAX_TOTAL_BYTES} in the whole file");
            self.error(line, NAMES[column + 1], size, accepted);
            return None;
        };
        let bytes = Bytes(total - self.total_bytes);
        self.total_bytes = total;
        if kind == "NONE" && bytes > Bytes::ZERO {
            self.error(line, NAMES[column + 1], size, "0, as the collective is NONE");
        }
        known.then_some(bytes)
    }
}

/// A whole number from zero in decimal digits, without a sign.
fn whole(value: &str) -> Option<u64> {
    value.bytes().all(|b| b.is_ascii_digit()).then(|| value.parse().ok()).flatten()
}
