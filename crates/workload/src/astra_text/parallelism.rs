//! The first line: the parallelism and its options.

use super::Entry;
use super::errors::{Errors, whole};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How the work of a training iteration is divided among NPUs, with the options of the first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parallelism {
    /// `DATA`: every NPU has a copy of the model.
    Data,
    /// `MICRO`: a single collective.
    Micro,
    /// `MODEL`: all NPUs share the model.
    Model,
    /// `HYBRID_DATA_MODEL`: copies of the model along the outer dimensions, each shared along the first.
    HybridDataModel,
    /// `HYBRID_MODEL_DATA`: copies of the model along the first dimension, each shared along the outer ones.
    HybridModelData,
    /// `HYBRID_DLRM`: distributed tables, layer 0, and copies of the MLPs.
    HybridDlrm {
        /// The last layer of the bottom MLP, from zero; the tables are layer 0.
        last_bottom: u32,
    },
    /// `HYBRID_DLRM_ENHANCED`: the same with an all-to-all of gradients that the iteration does not wait for.
    HybridDlrmEnhanced {
        /// The last layer of the bottom MLP, from zero; the tables are layer 0.
        last_bottom: u32,
    },
    /// `HYBRID_TRANSFORMER`: the model is shared within groups, which are copies of each other.
    HybridTransformer {
        /// NPUs of a group that shares a model; at least one.
        group: u32,
    },
    /// `HYBRID_TRANSFORMER_FWD_IN_BCKWD`: the same, and the forward of some layers runs again during back-propagation.
    ///
    /// A *checkpoint* is a layer whose input is kept. An *initiating* layer needs, before its input gradient, an input that
    /// was not kept: it starts the recomputation from the nearest checkpoint before it. If `c` is that checkpoint and `j`
    /// the initiating layer, the forward of the layers `c`, `c + 1`, ..., `j - 1` runs again in this order, each with its
    /// computation and its forward communication; that of `j` does not. These layers are the *segment* of `j`. A file
    /// without any initiating layer recomputes nothing, whatever its checkpoints are.
    ///
    /// Segments are disjoint: an initiating layer is no checkpoint itself, and has a checkpoint between itself and the
    /// initiating layer before it. ASTRA-sim 1.0 takes other files, and then fails, leaves out layers or never ends.
    HybridTransformerFwdInBckwd {
        /// NPUs of a group that shares a model; at least one.
        group: u32,
        /// The checkpoints, from zero, each once, in the order of the file.
        checkpoints: Vec<u32>,
        /// The initiating layers, from zero, each once, in the order of the file.
        initiates: Vec<u32>,
    },
    /// `HYBRID_CUSTOMIZED`: every layer names its own.
    HybridCustomized,
}

/// The parallelism of a layer under `HYBRID_CUSTOMIZED`: one without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerParallelism {
    /// `DATA`.
    Data,
    /// `MODEL`.
    Model,
    /// `HYBRID_DATA_MODEL`.
    HybridDataModel,
    /// `HYBRID_MODEL_DATA`.
    HybridModelData,
}

impl LayerParallelism {
    /// All of them.
    pub const ALL: [LayerParallelism; 4] = [
        LayerParallelism::Data,
        LayerParallelism::Model,
        LayerParallelism::HybridDataModel,
        LayerParallelism::HybridModelData,
    ];

    /// Its word in column 13.
    pub const fn keyword(self) -> &'static str {
        match self {
            LayerParallelism::Data => "DATA",
            LayerParallelism::Model => "MODEL",
            LayerParallelism::HybridDataModel => "HYBRID_DATA_MODEL",
            LayerParallelism::HybridModelData => "HYBRID_MODEL_DATA",
        }
    }
}

/// The first word of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Data,
    Micro,
    Model,
    HybridDataModel,
    HybridModelData,
    HybridDlrm,
    HybridDlrmEnhanced,
    HybridTransformer,
    HybridTransformerFwdInBckwd,
    HybridCustomized,
}

const GROUP: &str = "model_parallel_NPU_group";
const CHECKPOINTS: &str = "checkpoints";
const INITIATES: &str = "checkpoint_initiates";
const LAST_BOTTOM: &str = "last bottom layer";
/// What later versions of the format have before that layer; ASTRA-sim 1.0 has the number alone.
const LAST_BOTTOM_LABEL: &str = "DLRM_LAST_BOTTOM_LAYER:";
const OPTION: &str = "option of the parallelism";

impl Keyword {
    const ALL: [(&str, Keyword); 10] = [
        ("DATA", Keyword::Data),
        ("MICRO", Keyword::Micro),
        ("MODEL", Keyword::Model),
        ("HYBRID_DATA_MODEL", Keyword::HybridDataModel),
        ("HYBRID_MODEL_DATA", Keyword::HybridModelData),
        ("HYBRID_DLRM", Keyword::HybridDlrm),
        ("HYBRID_DLRM_ENHANCED", Keyword::HybridDlrmEnhanced),
        ("HYBRID_TRANSFORMER", Keyword::HybridTransformer),
        ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", Keyword::HybridTransformerFwdInBckwd),
        ("HYBRID_CUSTOMIZED", Keyword::HybridCustomized),
    ];

    fn name(self) -> &'static str {
        Keyword::ALL[self as usize].0
    }

    /// What a message says is accepted.
    pub(super) fn accepted(entry: Entry) -> String {
        match entry {
            Entry::DataParallel => "DATA or MICRO".to_owned(),
            Entry::Any => format!("one of {}", Keyword::ALL.map(|(name, _)| name).join(", ")),
        }
    }

    /// Whether files of this keyword are accepted.
    pub(super) fn is_accepted(self, entry: Entry) -> bool {
        entry == Entry::Any || matches!(self, Keyword::Data | Keyword::Micro)
    }

    /// The keyword of this name, accepted or not; `None` for a name that nobody knows.
    pub(super) fn read(errors: &mut Errors, line: usize, name: &str, entry: Entry) -> Option<Keyword> {
        let keyword = Keyword::ALL.iter().find(|k| k.0 == name).map(|k| k.1);
        match keyword {
            None => errors.add(line, "parallelism", name, Keyword::accepted(entry)),
            Some(known) if !known.is_accepted(entry) => {
                let accepted = Keyword::accepted(entry);
                let accepted = format!("{accepted}; other parallelism has families of communicators");
                errors.add(line, "parallelism", name, accepted);
            }
            Some(_) => {}
        }
        keyword
    }

    /// The parallelism with its options, the words that follow the keyword. `None` where they have errors.
    pub(super) fn options(self, errors: &mut Errors, line: usize, words: &[&str]) -> Option<Parallelism> {
        let mut options = Options { errors, line, words };
        match self {
            Keyword::Data => options.end(self.name()).then_some(Parallelism::Data),
            Keyword::Micro => options.end(self.name()).then_some(Parallelism::Micro),
            Keyword::Model => options.end(self.name()).then_some(Parallelism::Model),
            Keyword::HybridDataModel => options.end(self.name()).then_some(Parallelism::HybridDataModel),
            Keyword::HybridModelData => options.end(self.name()).then_some(Parallelism::HybridModelData),
            Keyword::HybridCustomized => options.end(self.name()).then_some(Parallelism::HybridCustomized),
            Keyword::HybridDlrm => Some(Parallelism::HybridDlrm { last_bottom: options.last_bottom(self)? }),
            Keyword::HybridDlrmEnhanced => {
                Some(Parallelism::HybridDlrmEnhanced { last_bottom: options.last_bottom(self)? })
            }
            Keyword::HybridTransformer => {
                let [group] = options.sections([GROUP])?;
                let group = options.group(group);
                options.end(GROUP).then_some(Parallelism::HybridTransformer { group: group? })
            }
            Keyword::HybridTransformerFwdInBckwd => {
                let [group, checkpoints, initiates] = options.sections([GROUP, CHECKPOINTS, INITIATES])?;
                let group = options.group(group);
                let (checkpoints, initiates) =
                    (options.list(CHECKPOINTS, checkpoints), options.list(INITIATES, initiates));
                let ended = options.end(INITIATES);
                let (group, checkpoints, initiates) = (group?, checkpoints?, initiates?);
                let parallelism = Parallelism::HybridTransformerFwdInBckwd { group, checkpoints, initiates };
                ended.then_some(parallelism)
            }
        }
    }
}

/// The words after the keyword that have not been read yet.
struct Options<'e, 'w> {
    errors: &'e mut Errors,
    line: usize,
    words: &'w [&'w str],
}

impl<'w> Options<'_, 'w> {
    /// Whether nothing is left, as it has to be after the option `last`.
    fn end(&mut self, last: &str) -> bool {
        if !self.words.is_empty() {
            self.errors.add(self.line, OPTION, self.words.join(" "), format!("nothing after {last}"));
        }
        self.words.is_empty()
    }

    fn last_bottom(mut self, keyword: Keyword) -> Option<u32> {
        let words = self.words.strip_prefix(&[LAST_BOTTOM_LABEL]).unwrap_or(self.words);
        let (value, rest) = match words.split_first() {
            Some((value, rest)) => (*value, rest),
            None => ("", words),
        };
        self.words = rest;
        let last_bottom = number(value);
        if last_bottom.is_none() {
            let accepted = format!("the index of the last bottom layer, from 0, after {}", keyword.name());
            self.errors.add(self.line, LAST_BOTTOM, value, accepted);
        }
        if self.end(LAST_BOTTOM) { last_bottom } else { None }
    }

    /// The words between each of these labels and the next one. `None` where a label is not in its place: what
    /// follows it cannot be told apart.
    fn sections<const N: usize>(&mut self, names: [&str; N]) -> Option<[&'w [&'w str]; N]> {
        let mut sections: [&'w [&'w str]; N] = [&[]; N];
        for (section, name) in sections.iter_mut().zip(names) {
            let label = format!("{name}:");
            let found = self.words.first().copied().unwrap_or_default();
            if found != label {
                self.errors.add(self.line, OPTION, found, label);
                return None;
            }
            let rest = &self.words[1..];
            (*section, self.words) = rest.split_at(rest.iter().take_while(|w| !w.ends_with(':')).count());
        }
        Some(sections)
    }

    /// The size of a group of NPUs.
    fn group(&mut self, section: &[&str]) -> Option<u32> {
        let group = match section {
            [value] => number(value).filter(|&group| group > 0),
            _ => None,
        };
        if group.is_none() {
            self.errors.add(self.line, GROUP, section.join(" "), "one whole number of NPUs from 1");
        }
        group
    }

    /// A number of layers, and these layers.
    fn list(&mut self, name: &str, section: &[&str]) -> Option<Vec<u32>> {
        let Some((count, listed)) = section.split_first() else {
            self.errors.add(self.line, name, "", "a number of layers, then their indices from 0");
            return None;
        };
        if whole(count) != Some(listed.len() as u64) {
            let accepted = format!("{}, the number of layers that follow", listed.len());
            self.errors.add(self.line, name, count, accepted);
            return None;
        }
        let mut seen = BTreeSet::new();
        let mut layers = Vec::new();
        for value in listed {
            match number(value) {
                None => self.errors.add(self.line, name, value, "the index of a layer, from 0"),
                Some(layer) if !seen.insert(layer) => self.errors.add(self.line, name, value, "each layer once"),
                Some(layer) => layers.push(layer),
            }
        }
        (layers.len() == listed.len()).then_some(layers)
    }
}

fn number(value: &str) -> Option<u32> {
    whole(value).and_then(|n| u32::try_from(n).ok())
}

/// Layers that cannot initiate a recomputation, each with what would be accepted in its place.
type NoSegments = Vec<(u32, String)>;

impl Parallelism {
    /// Its keyword in a file.
    pub fn keyword(&self) -> &'static str {
        let keyword = match self {
            Parallelism::Data => Keyword::Data,
            Parallelism::Micro => Keyword::Micro,
            Parallelism::Model => Keyword::Model,
            Parallelism::HybridDataModel => Keyword::HybridDataModel,
            Parallelism::HybridModelData => Keyword::HybridModelData,
            Parallelism::HybridDlrm { .. } => Keyword::HybridDlrm,
            Parallelism::HybridDlrmEnhanced { .. } => Keyword::HybridDlrmEnhanced,
            Parallelism::HybridTransformer { .. } => Keyword::HybridTransformer,
            Parallelism::HybridTransformerFwdInBckwd { .. } => Keyword::HybridTransformerFwdInBckwd,
            Parallelism::HybridCustomized => Keyword::HybridCustomized,
        };
        keyword.name()
    }

    /// Compares options that are layers with the number of layers.
    pub(super) fn check(&self, errors: &mut Errors, line: usize, layers: u64) {
        match self {
            Parallelism::HybridDlrm { last_bottom } | Parallelism::HybridDlrmEnhanced { last_bottom }
                if u64::from(*last_bottom) + 1 >= layers =>
            {
                let accepted = format!("the index, from 0, of a layer before the last of the {layers}");
                errors.add(line, LAST_BOTTOM, last_bottom.to_string(), accepted);
            }
            Parallelism::HybridTransformerFwdInBckwd { checkpoints, initiates, .. } => {
                let mut within = true;
                for (name, listed) in [(CHECKPOINTS, checkpoints), (INITIATES, initiates)] {
                    for layer in listed.iter().filter(|&&layer| u64::from(layer) >= layers) {
                        within = false;
                        errors.add(line, name, layer.to_string(), format!("0 to {}", layers - 1));
                    }
                }
                if within {
                    for (layer, accepted) in self.segments().err().into_iter().flatten() {
                        errors.add(line, INITIATES, layer.to_string(), accepted);
                    }
                }
            }
            _ => {}
        }
    }

    /// The layers whose forward runs again, by the layer whose input gradient they run before.
    ///
    /// # Errors
    /// The initiating layers without a segment of their own.
    pub(crate) fn segments(&self) -> Result<BTreeMap<u32, Range<u32>>, NoSegments> {
        let Parallelism::HybridTransformerFwdInBckwd { checkpoints, initiates, .. } = self else {
            return Ok(BTreeMap::new());
        };
        let kept: BTreeSet<u32> = checkpoints.iter().copied().collect();
        let all: BTreeSet<u32> = initiates.iter().copied().collect();
        let mut segments = BTreeMap::new();
        let mut wrong = Vec::new();
        for &layer in initiates {
            let checkpoint = kept.range(..=layer).next_back().copied();
            let nearest = all.range(..layer).next_back().copied();
            match (checkpoint, nearest) {
                (None, _) => wrong.push((layer, "a layer with a checkpoint before it".to_owned())),
                (Some(checkpoint), _) if checkpoint == layer => {
                    wrong.push((layer, "a layer that is no checkpoint itself".to_owned()));
                }
                (Some(checkpoint), Some(other)) if other > checkpoint => {
                    let accepted =
                        format!("a layer with a checkpoint between it and layer {other}, which initiates too");
                    wrong.push((layer, accepted));
                }
                (Some(checkpoint), _) => {
                    segments.insert(layer, checkpoint..layer);
                }
            }
        }
        if wrong.is_empty() { Ok(segments) } else { Err(wrong) }
    }
}
