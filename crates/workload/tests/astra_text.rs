//! The importer of ASTRA-sim 1.0 text workloads, from outside.

use proptest::prelude::*;
use std::path::Path;
use syncline_core::{Bytes, Ps, Refusal};
use syncline_workload::astra_text::{MAX_TOTAL_BYTES, MAX_TOTAL_NS, parse, read};
use syncline_workload::{ClassId, Cost, DataParallel, GraphSource, Layer, Node, Npu, Parallel, Work};

fn sample(name: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/astra").join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        eprintln!("skipped: {} is not there", path.display());
    }
    text
}

fn total_ps(layers: &[Layer], passes: impl Fn(&Layer) -> Vec<&Cost>) -> u64 {
    let time = |cost: &Cost| match cost {
        Cost::Measured(time) => time.0,
        Cost::Kernels(_) => panic!("an imported time is measured"),
    };
    layers.iter().flat_map(&passes).map(time).sum()
}

/// The errors of a text as (line, field, value).
fn errors(text: &str) -> Vec<(usize, String, String)> {
    let error = parse(text).expect_err("the text has errors");
    assert!(!error.errors.is_empty());
    assert!(error.errors.iter().all(|e| !e.accepted.is_empty()));
    error.errors.into_iter().map(|e| (e.line, e.field, e.value)).collect()
}

fn one(text: &str) -> (usize, String, String) {
    let mut all = errors(text);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

const VALID: &str = "DATA\n2\na -1 1 NONE 0 2 NONE 0 3 ALLREDUCE 8 4\nb -1 5 NONE 0 6 NONE 0 7 NONE 0 8\n";

#[test]
fn a_file_with_tabs_blanks_and_crlf() {
    let layers = parse(include_str!("fixtures/three_layers.txt")).unwrap();
    assert_eq!(layers.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["stem", "body", "head"]);
    assert_eq!(layers.iter().map(|l| l.gradient.0).collect::<Vec<_>>(), [4096, 65_536, 0]);
    let body = Layer {
        name: "body".into(),
        params: 0,
        forward: Cost::Measured(Ps(200_000)),
        input_grad: Cost::Measured(Ps(190_000)),
        weight_grad: Cost::Measured(Ps(220_000)),
        update: Cost::Measured(Ps(22_000)),
        gradient: Bytes(65_536),
    };
    assert_eq!(layers[1], body);
}

#[test]
fn layout_makes_no_difference() {
    let plain = parse(VALID).unwrap();
    assert_eq!(parse(&VALID.replace('\n', "\r\n")).unwrap(), plain);
    assert_eq!(parse(&VALID.replace(' ', " \t ").replace('\n', "\t \n\n")).unwrap(), plain);
    assert_eq!(parse(VALID.trim_end()).unwrap(), plain);
    assert_eq!(parse(&format!("\u{feff}\n{VALID}\n  \n")).unwrap(), plain);
}

#[test]
fn resnet50_of_astra_sim() {
    let Some(text) = sample("Resnet50_DataParallel.txt") else { return };
    let layers = parse(&text).unwrap();
    assert_eq!(layers.len(), 54);
    assert_eq!((layers[0].name.as_str(), layers[53].name.as_str()), ("conv1", "fc1000"));
    let passes_ps = total_ps(&layers, |l| vec![&l.forward, &l.input_grad, &l.weight_grad]);
    assert_eq!(passes_ps, 1_095_314_000, "1.10 ms");
    assert_eq!(total_ps(&layers, |l| vec![&l.update]), 33_789_000);
    let gradients: u64 = layers.iter().map(|l| l.gradient.0).sum();
    assert_eq!(gradients, 102_011_648, "102 MB: four bytes per weight of convolutions and classifier");
    // An iteration leaves out the input gradient of the first layer, and updates what is there before.
    let npu = Npu::new(1.0, 1.0, 1.0).unwrap();
    let mut training = DataParallel::new(layers, true);
    let mut compute_ps = |iteration| {
        let nodes = training.iteration(ClassId(0), iteration);
        let time = |n: &Node| if let Work::Compute(cost) = &n.work { npu.time(cost).0 } else { 0 };
        nodes.iter().map(time).sum::<u64>()
    };
    assert_eq!(compute_ps(0), 1_082_450_000);
    assert_eq!(compute_ps(1), 1_082_450_000 + 33_789_000);
}

#[test]
fn micro_is_one_collective() {
    let mut texts = vec!["MICRO\n1\nconv1 -1 5 NONE 0 5 NONE 0 5  ALLREDUCE 1048576 5".to_owned()];
    texts.extend(sample("microAllReduce.txt"));
    for text in texts {
        let mut training = DataParallel::new(parse(&text).unwrap(), true);
        let nodes = training.iteration(ClassId(0), 0);
        let sizes: Vec<u64> = nodes
            .iter()
            .filter_map(|n| match &n.work {
                Work::Collective { size, .. } => Some(size.0),
                Work::Compute(cost) => {
                    assert!(cost.is_nothing());
                    None
                }
                other => panic!("{other:?} of a single collective"),
            })
            .collect();
        assert_eq!(sizes, [1_048_576]);
    }
    let two = VALID.replace("DATA", "MICRO");
    assert_eq!(one(&two), (2, "number of layers".into(), "2".into()));
}

#[test]
fn other_parallelism_is_recognised_and_refused() {
    for file in ["DLRM_HybridParallel.txt", "MLP_HybridParallel_Data_Model.txt"] {
        let Some(text) = sample(file) else { return };
        let error = parse(&text).unwrap_err();
        assert_eq!(error.errors.len(), 1, "{error:?}");
        assert_eq!((error.errors[0].line, error.errors[0].field.as_str()), (1, "parallelism"));
        assert!(error.errors[0].accepted.starts_with("DATA or MICRO; other parallelism"), "{error:?}");
    }
    let unknown = parse(&VALID.replace("DATA", "data")).unwrap_err();
    let refusal = Refusal::from(unknown.errors[0].clone());
    assert_eq!(refusal.to_string(), "parallelism: this is not a legal parallelism; accepted: DATA or MICRO");
    assert_eq!((refusal.line, refusal.value.as_deref()), (Some(1), Some("data")));
}

#[test]
fn each_mistake_is_named() {
    let replaced = |from: &str, to: &str| {
        assert!(VALID.contains(from), "{from}");
        one(&VALID.replacen(from, to, 1))
    };
    let at = |line: usize, field: &str, value: &str| (line, field.to_owned(), value.to_owned());
    assert_eq!(replaced("\n2\n", "\n3\n"), at(2, "number of layers", "3"));
    assert_eq!(replaced("\n2\n", "\n2 2\n"), at(2, "number of layers", "2 2"));
    assert_eq!(replaced("\n2\n", "\n-2\n"), at(2, "number of layers", "-2"));
    assert_eq!(replaced("DATA", "DATA 4"), at(1, "option of the parallelism", "4"));
    assert_eq!(replaced("b -1", "a -1"), at(4, "layer name (column 1)", "a"));
    assert_eq!(replaced("a -1", "a 0"), at(3, "reserved field (column 2)", "0"));
    assert_eq!(replaced("-1 1 NONE", "-1 -1 NONE"), at(3, "forward time (column 3)", "-1"));
    assert_eq!(replaced("-1 1 NONE", "-1 1.5 NONE"), at(3, "forward time (column 3)", "1.5"));
    assert_eq!(replaced("-1 1 NONE", "-1 +1 NONE"), at(3, "forward time (column 3)", "+1"));
    assert_eq!(replaced("1 NONE 0", "1 ALLREDUCE 8"), at(3, "forward collective (column 4)", "ALLREDUCE"));
    assert_eq!(replaced("2 NONE 0", "2 ALLTOALL 8"), at(3, "input-gradient collective (column 7)", "ALLTOALL"));
    assert_eq!(replaced("1 NONE 0", "1 NONE 8"), at(3, "forward bytes (column 5)", "8"));
    assert_eq!(replaced("ALLREDUCE", "ALLGATHER"), at(3, "weight-gradient collective (column 10)", "ALLGATHER"));
    assert_eq!(replaced("ALLREDUCE", "allreduce"), at(3, "weight-gradient collective (column 10)", "allreduce"));
    let huge = "99999999999999999999";
    assert_eq!(replaced("ALLREDUCE 8", &format!("ALLREDUCE {huge}")), at(3, "weight-gradient bytes (column 11)", huge));
    assert_eq!(replaced("0 8\n", &format!("0 {huge}\n")), at(4, "update time (column 12)", huge));
    assert_eq!(replaced("8 4", "8 4 5"), at(3, "number of columns", "13"));
    assert_eq!(replaced("8 4", "8"), at(3, "number of columns", "11"));
}

#[test]
fn totals_are_bounded() {
    let time = VALID.replacen("-1 1 NONE", &format!("-1 {MAX_TOTAL_NS} NONE"), 1);
    assert_eq!(errors(&time).len(), 7); // every later time but the first
    let bytes = VALID.replacen("ALLREDUCE 8", &format!("ALLREDUCE {MAX_TOTAL_BYTES}"), 1);
    assert_eq!(parse(&bytes).unwrap()[0].gradient, Bytes(MAX_TOTAL_BYTES));
    let bytes = bytes.replacen("7 NONE 0", "7 ALLREDUCE 1", 1);
    assert_eq!(one(&bytes), (4, "weight-gradient bytes (column 11)".into(), "1".into()));
}

#[test]
fn files_that_end_early() {
    assert_eq!(one(""), (1, "parallelism".into(), String::new()));
    assert_eq!(one(" \n\n"), (1, "parallelism".into(), String::new()));
    assert_eq!(one("DATA\n"), (1, "number of layers".into(), String::new()));
    assert_eq!(
        errors("DATA 4\n").iter().map(|e| e.1.as_str()).collect::<Vec<_>>(),
        ["option of the parallelism", "number of layers"]
    );
    assert_eq!(one("DATA\n1\n"), (2, "number of layers".into(), "1".into()));
    assert_eq!(one("DATA\n0\n"), (2, "number of layers".into(), "0".into()));
}

#[test]
fn all_errors_are_reported_in_order_of_lines() {
    let text = "HYBRID_DLRM 4\n5\na -1 x NONE 0 2 NONE 0 3 FOO 8 4\nb\na -1 1 NONE 0 2 NONE 0 3 ALLREDUCE -8 4\n";
    let fields: Vec<_> =
        errors(text).into_iter().map(|(line, field, value)| format!("{line} {field}={value}")).collect();
    assert_eq!(
        fields,
        [
            "1 parallelism=HYBRID_DLRM",
            "2 number of layers=5",
            "3 forward time (column 3)=x",
            "3 weight-gradient collective (column 10)=FOO",
            "4 number of columns=1",
            "5 layer name (column 1)=a",
            "5 weight-gradient bytes (column 11)=-8",
        ]
    );
}

#[test]
fn long_values_are_shortened() {
    let (_, _, value) = one(&VALID.replacen("-1 1 NONE", &format!("-1 {} NONE", "é".repeat(1000)), 1));
    assert_eq!(value, format!("{}...", "é".repeat(60)));
}

/// Times, whether there is a collective, its bytes.
type Row = ([u32; 4], bool, u32);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec((any::<[u32; 4]>(), any::<bool>(), any::<u32>()), 1..20)
}

fn write(rows: &[Row], blank: &str, end: &str) -> String {
    let mut text = format!("DATA{end}{}{end}", rows.len());
    for (i, ([f, i_g, w, u], reduces, bytes)) in rows.iter().enumerate() {
        let (kind, bytes) = if *reduces { ("ALLREDUCE", *bytes) } else { ("NONE", 0) };
        let fields = format!("layer{i} -1 {f} NONE 0 {i_g} NONE 0 {w} {kind} {bytes} {u}");
        text.push_str(&fields.replace(' ', blank));
        text.push_str(end);
    }
    text
}

/// First lines, many of them legal for files of some layers.
fn first_lines() -> impl Strategy<Value = String> {
    prop_oneof![
        "DATA|MODEL|HYBRID_DATA_MODEL|HYBRID_MODEL_DATA|HYBRID_CUSTOMIZED",
        "HYBRID_DLRM(_ENHANCED)?( [0-9]){0,2}",
        "HYBRID_TRANSFORMER model_parallel_NPU_group: [0-3]",
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: [1-3] checkpoints: 2 [0-2] [0-9] checkpoint_initiates: [12] [0-9]( [0-9])?",
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(rows in rows(), blank in "[ \t]{1,3}", end in "[ \t]{0,2}\r?\n") {
        let layers = parse(&write(&rows, &blank, &end)).unwrap();
        prop_assert_eq!(layers.len(), rows.len());
        for (i, (layer, (times, reduces, bytes))) in layers.iter().zip(&rows).enumerate() {
            let [forward, input_grad, weight_grad, update] =
                times.map(|ns| Cost::Measured(Ps(u64::from(ns) * 1000)));
            let gradient = Bytes(if *reduces { u64::from(*bytes) } else { 0 });
            let name = format!("layer{i}");
            let expected = Layer { name, params: 0, forward, input_grad, weight_grad, update, gradient };
            prop_assert_eq!(layer, &expected);
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>(), body in "(DATA|MICRO|MODEL)\n[ -~\n\t]{0,200}") {
        for text in [text, body] {
            for error in [parse(&text).err(), read(&text).err()].into_iter().flatten() {
                prop_assert!(!error.errors.is_empty());
            }
        }
    }

    #[test]
    fn whatever_is_read_can_be_trained(first in first_lines(), rows in rows()) {
        let text = write(&rows, " ", "\n").replacen("DATA", &first, 1);
        match read(&text) {
            Ok(imported) => {
                let mut training = Parallel::new(imported);
                let found = (0..2).map(|i| training.iteration(ClassId(0), i).len());
                prop_assert!(found.min() > Some(rows.len()), "{}", text);
            }
            Err(error) => {
                prop_assert!(!error.errors.is_empty());
                prop_assert!(error.errors.is_sorted_by_key(|e| e.line));
            }
        }
    }

    #[test]
    fn mutated_files_never_panic(
        rows in rows(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), "[ -~\n\té]{0,3}"), 1..6),
    ) {
        let mut text: Vec<char> = write(&rows, "\t", "\n").chars().collect();
        for (at, insert) in cuts {
            let at = at.index(text.len());
            text.splice(at..(at + 1).min(text.len()), insert.chars());
            if text.is_empty() {
                break;
            }
        }
        let text: String = text.into_iter().collect();
        match parse(&text) {
            Ok(layers) => prop_assert!(!layers.is_empty()),
            Err(error) => {
                let lines = text.lines().count().max(1);
                prop_assert!(error.errors.iter().all(|e| (1..=lines).contains(&e.line)));
                prop_assert!(error.errors.is_sorted_by_key(|e| e.line));
            }
        }
    }
}
