//! Properties of random files of every parallelism that has layers to choose.

use super::{Communicated, collectives, sorted, training, without_places};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fmt::Write;
use syncline_collective::Kind;
use syncline_workload::astra_parallel::{ALL_NPUS, DATA_GROUPS, MODEL_GROUPS};
use syncline_workload::{ClassId, FamilyId, GraphSource, Pass, Work};

/// A layer: which collective each pass has, and how many bytes; whether the update takes time; its own parallelism.
type Row = ([(usize, u64); 3], bool, usize);

const KINDS: [(&str, Option<Kind>); 5] = [
    ("NONE", None),
    ("ALLREDUCE", Some(Kind::AllReduce)),
    ("ALLGATHER", Some(Kind::AllGather)),
    ("ALLTOALL", Some(Kind::AllToAll)),
    ("REDUCESCATTER", Some(Kind::ReduceScatter)),
];
const OWN: [&str; 4] = ["DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA"];

/// A legal file, with what an iteration of it communicates.
#[derive(Debug)]
struct Legal {
    text: String,
    expected: Vec<Communicated>,
    /// Layers whose forward runs twice.
    again: BTreeSet<u32>,
}

fn legal(keyword: usize, rows: &[Row], gaps: &[(u32, u32)], last_bottom: usize) -> Legal {
    let count = rows.len() as u32;
    let (mut checkpoints, mut initiates, mut again) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut next = 0;
    for (skipped, length) in gaps {
        let (from, to) = (next + skipped, next + skipped + length);
        if to < count {
            checkpoints.push(from.to_string());
            initiates.push(to.to_string());
            again.extend(from..to);
            next = to + 1;
        }
    }
    let list = |layers: &[String]| format!("{} {}", layers.len(), layers.join(" "));
    let recompute = format!("checkpoints: {} checkpoint_initiates: {}", list(&checkpoints), list(&initiates));
    let last_bottom = last_bottom % (rows.len() - 1);
    let (first, families): (String, [FamilyId; 2]) = match keyword {
        0 => ("DATA".into(), [ALL_NPUS; 2]),
        1 => ("MODEL".into(), [ALL_NPUS; 2]),
        2 => ("HYBRID_DATA_MODEL".into(), [MODEL_GROUPS, DATA_GROUPS]),
        3 => ("HYBRID_MODEL_DATA".into(), [MODEL_GROUPS, DATA_GROUPS]),
        4 => (format!("HYBRID_DLRM {last_bottom}"), [ALL_NPUS; 2]),
        5 => (format!("HYBRID_DLRM_ENHANCED {last_bottom}"), [ALL_NPUS; 2]),
        6 => ("HYBRID_TRANSFORMER model_parallel_NPU_group: 3".into(), [MODEL_GROUPS, DATA_GROUPS]),
        7 => {
            let first = format!("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 3 {recompute}");
            (first, [MODEL_GROUPS, DATA_GROUPS])
        }
        _ => ("HYBRID_CUSTOMIZED".into(), [ALL_NPUS; 2]),
    };
    if keyword != 7 {
        again.clear();
    }
    let mixed = rows.iter().any(|r| r.2 == 2);
    let (mut text, mut expected) = (format!("{first}\n{count}\n"), Vec::new());
    for (i, (passes, updates, own)) in (0..).zip(rows) {
        write!(text, "l{i} -1").unwrap();
        let [model, data] = match (keyword, own) {
            (8, 2) => [MODEL_GROUPS, DATA_GROUPS],
            (8, 3) if mixed => [DATA_GROUPS, MODEL_GROUPS],
            (8, 3) => [MODEL_GROUPS, DATA_GROUPS],
            _ => families,
        };
        let kinds = [(Pass::Forward, model), (Pass::InputGrad, model), (Pass::WeightGrad, data)];
        for ((kind, bytes), (pass, family)) in passes.iter().zip(kinds) {
            let (name, kind) = KINDS[*kind];
            let bytes = if kind.is_some() { *bytes } else { 0 };
            write!(text, " 1 {name} {bytes}").unwrap();
            if let (Some(kind), true) = (kind, bytes > 0) {
                expected.push((i, pass, family, kind, bytes));
                if pass == Pass::Forward && again.contains(&i) {
                    expected.push((i, pass, family, kind, bytes));
                }
            }
        }
        write!(text, " {}", u32::from(*updates)).unwrap();
        text.push_str(&if keyword == 8 { format!(" {}\n", OWN[*own]) } else { "\n".to_owned() });
    }
    Legal { text, expected: sorted(expected), again }
}

fn legal_files() -> impl Strategy<Value = Legal> {
    let pass = || (0..KINDS.len(), 0u64..4);
    let row = ([pass(), pass(), pass()], any::<bool>(), 0..OWN.len());
    let gaps = proptest::collection::vec((0u32..3, 1u32..4), 0..4);
    (0usize..9, proptest::collection::vec(row, 2..9), gaps, any::<usize>())
        .prop_map(|(keyword, rows, gaps, last_bottom)| legal(keyword, &rows, &gaps, last_bottom))
}

proptest! {
    #[test]
    fn an_iteration_communicates_exactly_what_the_columns_say(file in legal_files()) {
        let mut training = training(&file.text);
        for iteration in 0..3 {
            let nodes = training.iteration(ClassId(0), iteration);
            prop_assert_eq!(sorted(collectives(&nodes)), file.expected.clone(), "{}", file.text);
            let forwards = nodes.iter().filter(|n| n.pass == Pass::Forward && matches!(n.work, Work::Compute(_)));
            let layers = training.layers().len();
            prop_assert_eq!(forwards.count(), layers + file.again.len(), "{}", file.text);
        }
        prop_assert_eq!(sorted(training.demands()), without_places(&file.expected));
    }

    #[test]
    fn nodes_wait_for_earlier_ones_of_this_and_the_last_iteration(file in legal_files()) {
        let mut training = training(&file.text);
        let mut starts = vec![0u32];
        for iteration in 0..4 {
            let nodes = training.iteration(ClassId(0), iteration);
            let first = *starts.last().unwrap();
            let oldest = starts[starts.len().saturating_sub(2)];
            for (index, node) in (first..).zip(&nodes) {
                prop_assert!(node.after.iter().all(|&d| d.0 < index && d.0 >= oldest), "{index} {node:?}");
                let distinct: BTreeSet<_> = node.after.iter().collect();
                prop_assert_eq!(distinct.len(), node.after.len(), "{} {:?}", index, node);
            }
            starts.push(first + nodes.len() as u32);
        }
    }

    #[test]
    fn whatever_is_communicated_is_waited_for_before_it_is_communicated_again(file in legal_files()) {
        let mut training = training(&file.text);
        let mut nodes = training.iteration(ClassId(0), 0);
        let first = nodes.len();
        nodes.extend(training.iteration(ClassId(0), 1));
        let awaited: BTreeSet<_> = nodes
            .iter()
            .filter(|n| matches!(n.work, Work::Compute(_)))
            .flat_map(|n| n.after.iter().map(|d| d.0 as usize))
            .collect();
        for (index, node) in nodes[..first].iter().enumerate() {
            let communicates = matches!(node.work, Work::Collective { .. });
            prop_assert!(!communicates || awaited.contains(&index), "{index} {node:?} of\n{}", file.text);
        }
    }
}
