//! The lines after the first: the number of layers, and the layers.

use super::errors::{Errors, whole};
use super::parallelism::{Keyword, LayerParallelism};
use super::{Communication, Entry, ImportedLayer, ImportedPass, MAX_TOTAL_BYTES, MAX_TOTAL_NS};
use std::collections::BTreeMap;
use syncline_collective::Kind;
use syncline_core::{Bytes, Ps};

/// The names of collectives, and what they mean.
const COLLECTIVES: [(&str, Option<Kind>); 5] = [
    ("NONE", None),
    ("ALLREDUCE", Some(Kind::AllReduce)),
    ("ALLGATHER", Some(Kind::AllGather)),
    ("ALLTOALL", Some(Kind::AllToAll)),
    ("REDUCESCATTER", Some(Kind::ReduceScatter)),
];
const COLUMNS: usize = 12;
const NAMES: [&str; COLUMNS + 1] = [
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
    "parallelism of the layer (column 13)",
];

/// Which collectives a pass may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Any,
    /// None, for this reason.
    Nothing(&'static str),
    /// An all-reduce or none, for this reason.
    AllReduce(&'static str),
}

impl Allowed {
    /// The names of what is allowed.
    fn names(self) -> impl Iterator<Item = &'static str> {
        let count = match self {
            Allowed::Any => COLLECTIVES.len(),
            Allowed::Nothing(_) => 1,
            Allowed::AllReduce(_) => 2,
        };
        COLLECTIVES.iter().take(count).map(|c| c.0)
    }

    /// What a message says is accepted in place of `name`, which is not.
    fn instead_of(self, name: &str) -> String {
        let names: Vec<_> = self.names().collect();
        match self {
            Allowed::Nothing(why) | Allowed::AllReduce(why) if COLLECTIVES.iter().any(|c| c.0 == name) => {
                format!("{}: {why}", names.join(" or "))
            }
            _ => format!("one of {}", names.join(", ")),
        }
    }
}

/// What the lines of layers look like.
#[derive(Clone, Copy)]
pub(super) struct Form {
    columns: usize,
    /// Of forward, input gradient and weight gradient.
    collectives: [Allowed; 3],
}

impl Form {
    /// The form under a keyword; `None` stands for one that nobody knows.
    pub(super) fn of(keyword: Option<Keyword>, entry: Entry) -> Form {
        let data_parallel = matches!(keyword, Some(Keyword::Data | Keyword::Micro)) && entry == Entry::DataParallel;
        let collectives = if data_parallel {
            let nothing = Allowed::Nothing("only weight gradients are communicated under DATA and MICRO");
            [nothing, nothing, Allowed::AllReduce("weight gradients are all-reduced under DATA and MICRO")]
        } else if keyword == Some(Keyword::Micro) {
            let nothing = Allowed::Nothing("only the weight gradient is communicated under MICRO");
            [nothing, nothing, Allowed::Any]
        } else {
            [Allowed::Any; 3]
        };
        let columns = if keyword == Some(Keyword::HybridCustomized) { COLUMNS + 1 } else { COLUMNS };
        Form { columns, collectives }
    }
}

/// The errors so far, and what later lines are checked against.
#[derive(Default)]
pub(super) struct Reader<'t> {
    pub(super) errors: Errors,
    name_lines: BTreeMap<&'t str, usize>,
    total_ns: u64,
    total_bytes: u64,
}

impl<'t> Reader<'t> {
    /// The second line.
    pub(super) fn count(&mut self, line: usize, fields: &[&str]) -> Option<u64> {
        let count = whole(fields[0]).filter(|&n| n > 0 && fields.len() == 1);
        if count.is_none() {
            let accepted = "a whole number from 1, on the second line";
            self.errors.add(line, "number of layers", fields.join(" "), accepted);
        }
        count
    }

    /// Compares the declared number of layers with that of lines.
    pub(super) fn check_count(&mut self, line: usize, declared: u64, found: usize, keyword: Option<Keyword>) {
        if declared != found as u64 {
            let accepted = format!("{found}, the number of lines that follow");
            self.errors.add(line, "number of layers", declared.to_string(), accepted);
        } else if keyword == Some(Keyword::Micro) && declared != 1 {
            self.errors.add(line, "number of layers", declared.to_string(), "1 under MICRO");
        }
    }

    /// A layer's line, or `None` where it has errors.
    pub(super) fn layer(&mut self, line: usize, fields: &[&'t str], form: Form) -> Option<ImportedLayer> {
        let before = self.errors.len();
        if fields.len() != form.columns {
            self.errors.add(line, "number of columns", fields.len().to_string(), form.columns.to_string());
            return None;
        }
        self.name(line, fields[0]);
        if fields[1] != "-1" {
            self.errors.add(line, NAMES[1], fields[1], "-1");
        }
        let times = [2, 5, 8, 11].map(|column| self.time(line, column, fields[column]));
        let [forward, input_grad, weight_grad] =
            [0, 1, 2].map(|pass| self.collective(line, 3 + 3 * pass, fields, form.collectives[pass]));
        let parallelism = fields.get(COLUMNS).and_then(|name| self.parallelism(line, name));
        if self.errors.len() > before {
            return None;
        }
        let pass = |time: Option<Ps>, communication| Some(ImportedPass { time: time?, communication });
        Some(ImportedLayer {
            name: fields[0].to_owned(),
            forward: pass(times[0], forward)?,
            input_grad: pass(times[1], input_grad)?,
            weight_grad: pass(times[2], weight_grad)?,
            update: times[3]?,
            parallelism,
        })
    }

    fn name(&mut self, line: usize, name: &'t str) {
        if let Some(&first) = self.name_lines.get(name) {
            self.errors.add(line, NAMES[0], name, format!("a name that no other layer has (line {first} has it)"));
        } else {
            self.name_lines.insert(name, line);
        }
    }

    fn parallelism(&mut self, line: usize, name: &str) -> Option<LayerParallelism> {
        let parallelism = LayerParallelism::ALL.into_iter().find(|p| p.keyword() == name);
        if parallelism.is_none() {
            let names = LayerParallelism::ALL.map(LayerParallelism::keyword);
            self.errors.add(line, NAMES[COLUMNS], name, format!("one of {}", names.join(", ")));
        }
        parallelism
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
                self.errors.add(line, NAMES[column], value, accepted);
                None
            }
        }
    }

    /// A collective in `column` with its bytes in the next. `None` where there is none, or an error.
    fn collective(&mut self, line: usize, column: usize, fields: &[&str], allowed: Allowed) -> Option<Communication> {
        let (name, size) = (fields[column], fields[column + 1]);
        if !allowed.names().any(|n| n == name) {
            self.errors.add(line, NAMES[column], name, allowed.instead_of(name));
        }
        let total = whole(size).and_then(|n| self.total_bytes.checked_add(n)).filter(|&t| t <= MAX_TOTAL_BYTES);
        let Some(total) = total else {
            let accepted = format!("whole bytes, at most {MAX_TOTAL_BYTES} in the whole file");
            self.errors.add(line, NAMES[column + 1], size, accepted);
            return None;
        };
        let bytes = Bytes(total - self.total_bytes);
        self.total_bytes = total;
        if name == "NONE" && bytes > Bytes::ZERO {
            self.errors.add(line, NAMES[column + 1], size, "0, as the collective is NONE");
        }
        let kind = COLLECTIVES.iter().find(|c| c.0 == name)?.1?;
        (bytes > Bytes::ZERO).then_some(Communication { kind, size: bytes })
    }
}
