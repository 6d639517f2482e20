//! Training as text workloads describe it: who communicates what, and what waits for it.

mod random;

use std::fmt::Write;
use std::path::Path;
use syncline_collective::Kind::{self, AllGather, AllReduce, AllToAll};
use syncline_core::{Bytes, Ps};
use syncline_workload::astra_parallel::{ALL_NPUS, DATA_GROUPS, MODEL_GROUPS, Placement};
use syncline_workload::astra_text::{self, Parallelism};
use syncline_workload::{ClassId, Cost, DataParallel, FamilyId, GraphSource, Node, Order, Parallel, Pass, Work};

/// The numbers of the sample `DLRM_HybridParallel.txt` of ASTRA-sim 1.0.
const DLRM: &str = "HYBRID_DLRM 4
8
Embedding -1 300 ALLTOALL 98304 300 ALLTOALL 98304 300 NONE 0 98
MLP_Bottom_0 -1 1280 NONE 0 794 NONE 0 896 ALLREDUCE 13312 13
MLP_Bottom_1 -1 2560 NONE 0 2560 NONE 0 1792 ALLREDUCE 524288 524
MLP_Bottom_2 -1 2560 NONE 0 2560 NONE 0 1792 ALLREDUCE 524288 524
MLP_Bottom_3 -1 800 NONE 0 1280 NONE 0 800 ALLREDUCE 16384 16
MLP_Top_0 -1 6400 NONE 0 6400 NONE 0 4480 ALLREDUCE 1064960 1065
MLP_Top_1 -1 2560 NONE 0 2560 NONE 0 1792 ALLREDUCE 524288 524
MLP_Top_2 -1 2560 NONE 0 2560 NONE 0 1792 ALLREDUCE 524288 524
";

/// The numbers of the sample `MLP_HybridParallel_Data_Model.txt` of ASTRA-sim 1.0.
const MLP: &str = "HYBRID_DATA_MODEL
6
layer_64_2_mlp0 -1 32291 ALLGATHER 37632 32291 ALLREDUCE 37632 32291 ALLREDUCE 37632 3229
layer_64_2_mlp1 -1 7488 ALLGATHER 65536 7488 ALLREDUCE 65536 7488 ALLREDUCE 65536 749
layer_64_2_mlp2 -1 7488 ALLGATHER 65536 7488 ALLREDUCE 65536 7488 ALLREDUCE 65536 749
layer_64_2_mlp3 -1 14144 ALLGATHER 147456 14144 ALLREDUCE 147456 14144 ALLREDUCE 147456 1414
layer_64_2_mlp4 -1 7488 ALLGATHER 65536 7488 ALLREDUCE 65536 7488 ALLREDUCE 65536 749
layer_64_2_mlp5 -1 9984 ALLGATHER 65536 9984 ALLREDUCE 65536 9984 ALLREDUCE 65536 998
";

/// A collective: its layer, its pass, and what it is.
type Communicated = (u32, Pass, FamilyId, Kind, u64);

fn training(text: &str) -> Parallel {
    Parallel::new(astra_text::read(text).unwrap_or_else(|wrong| panic!("{wrong:?} in\n{text}")))
}

fn collectives(nodes: &[Node]) -> Vec<Communicated> {
    let collective = |n: &Node| match n.work {
        Work::Collective { family, kind, size, .. } => Some((n.layer, n.pass, family, kind, size.0)),
        Work::Compute(_) => None,
        ref other => panic!("{other:?} in training"),
    };
    nodes.iter().filter_map(collective).collect()
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

fn without_places(all: &[Communicated]) -> Vec<(FamilyId, Kind, Bytes)> {
    sorted(all.iter().map(|&(_, _, family, kind, size)| (family, kind, Bytes(size))).collect())
}

/// The text of a sample, which is `inline` whether or not the file is there to compare it with.
fn sample(name: &str, inline: &'static str) -> &'static str {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/astra").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&text), words(inline), "{name}");
            assert_eq!(astra_text::read(&text), astra_text::read(inline));
        }
        Err(_) => eprintln!("not compared with its file: {} is not there", path.display()),
    }
    inline
}

/// Nodes, one a line: number, pass and layer, the collective if it is one, and the nodes that it waits for.
fn listing(nodes: &[Node], first: usize) -> String {
    let mut text = String::new();
    for (number, node) in (first..).zip(nodes) {
        let pass = match node.pass {
            Pass::Forward => 'F',
            Pass::InputGrad => 'I',
            Pass::WeightGrad => 'W',
            Pass::Update => 'U',
        };
        write!(text, "{number} {pass}{}", node.layer).unwrap();
        if let Work::Collective { family, kind, size, .. } = &node.work {
            let family = ["model", "data", "all"][usize::from(family.0)];
            write!(text, " {kind} {} {family}", size.0).unwrap();
        }
        if !node.after.is_empty() {
            let after: Vec<_> = node.after.iter().map(|n| n.0.to_string()).collect();
            write!(text, " < {}", after.join(" ")).unwrap();
        }
        text.push('\n');
    }
    text
}

/// The first iteration, and the forward part of the second.
fn two(text: &str) -> (String, String) {
    let mut training = training(text);
    let nodes = training.iteration(ClassId(0), 0);
    let second = training.iteration(ClassId(0), 1);
    let back = second.iter().position(|n| matches!(n.pass, Pass::InputGrad | Pass::WeightGrad)).unwrap();
    (listing(&nodes, 0), listing(&second[..back], nodes.len()))
}

fn lines(expected: &[&str]) -> String {
    expected.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_dlrm_sample_communicates_what_its_columns_say() {
    let text = sample("DLRM_HybridParallel.txt", DLRM);
    let mut training = training(text);
    let expected = [
        (0, Pass::Forward, ALL_NPUS, AllToAll, 98_304),
        (0, Pass::InputGrad, ALL_NPUS, AllToAll, 98_304),
        (1, Pass::WeightGrad, ALL_NPUS, AllReduce, 13_312),
        (2, Pass::WeightGrad, ALL_NPUS, AllReduce, 524_288),
        (3, Pass::WeightGrad, ALL_NPUS, AllReduce, 524_288),
        (4, Pass::WeightGrad, ALL_NPUS, AllReduce, 16_384),
        (5, Pass::WeightGrad, ALL_NPUS, AllReduce, 1_064_960),
        (6, Pass::WeightGrad, ALL_NPUS, AllReduce, 524_288),
        (7, Pass::WeightGrad, ALL_NPUS, AllReduce, 524_288),
    ];
    for iteration in 0..3 {
        assert_eq!(sorted(collectives(&training.iteration(ClassId(0), iteration))), expected);
    }
    assert_eq!(sorted(training.demands()), without_places(&expected));
    assert_eq!(training.placement(), Placement::AllNpus);
    assert_eq!(training.imported().parallelism, Parallelism::HybridDlrm { last_bottom: 4 });
}

#[test]
fn the_mlp_sample_communicates_what_its_columns_say() {
    let text = sample("MLP_HybridParallel_Data_Model.txt", MLP);
    let mut training = training(text);
    let expected = [
        (0, Pass::Forward, MODEL_GROUPS, AllGather, 37_632),
        (0, Pass::InputGrad, MODEL_GROUPS, AllReduce, 37_632),
        (0, Pass::WeightGrad, DATA_GROUPS, AllReduce, 37_632),
        (1, Pass::Forward, MODEL_GROUPS, AllGather, 65_536),
        (1, Pass::InputGrad, MODEL_GROUPS, AllReduce, 65_536),
        (1, Pass::WeightGrad, DATA_GROUPS, AllReduce, 65_536),
        (2, Pass::Forward, MODEL_GROUPS, AllGather, 65_536),
        (2, Pass::InputGrad, MODEL_GROUPS, AllReduce, 65_536),
        (2, Pass::WeightGrad, DATA_GROUPS, AllReduce, 65_536),
        (3, Pass::Forward, MODEL_GROUPS, AllGather, 147_456),
        (3, Pass::InputGrad, MODEL_GROUPS, AllReduce, 147_456),
        (3, Pass::WeightGrad, DATA_GROUPS, AllReduce, 147_456),
        (4, Pass::Forward, MODEL_GROUPS, AllGather, 65_536),
        (4, Pass::InputGrad, MODEL_GROUPS, AllReduce, 65_536),
        (4, Pass::WeightGrad, DATA_GROUPS, AllReduce, 65_536),
        (5, Pass::Forward, MODEL_GROUPS, AllGather, 65_536),
        (5, Pass::InputGrad, MODEL_GROUPS, AllReduce, 65_536),
        (5, Pass::WeightGrad, DATA_GROUPS, AllReduce, 65_536),
    ];
    for iteration in 0..3 {
        assert_eq!(sorted(collectives(&training.iteration(ClassId(0), iteration))), expected);
    }
    assert_eq!(sorted(training.demands()), without_places(&expected));
    assert_eq!(training.placement(), Placement::ModelInner);
}

/// Compute time of an iteration, in nanoseconds.
fn compute_ns(nodes: &[Node]) -> u64 {
    let time = |n: &Node| match &n.work {
        Work::Compute(Cost::Measured(Ps(ps))) => ps / 1000,
        _ => 0,
    };
    nodes.iter().map(time).sum()
}

#[test]
fn iterations_of_the_samples_compute_for_the_sum_of_their_columns() {
    // Everything but the input gradient of the tables, 300 ns.
    let mut dlrm = training(DLRM);
    assert_eq!(compute_ns(&dlrm.iteration(ClassId(0), 0)), 19_020 + 18_714 + 13_644);
    assert_eq!(compute_ns(&dlrm.iteration(ClassId(0), 1)), 19_020 + 18_714 + 13_644 + 3288);
    let mut mlp = training(MLP);
    assert_eq!(compute_ns(&mlp.iteration(ClassId(0), 0)), 3 * 78_883);
    assert_eq!(compute_ns(&mlp.iteration(ClassId(0), 1)), 3 * 78_883 + 7888);
}

/// Two layers that communicate in every pass, the second without an update.
const BOTH: &str = "2
a -1 1 ALLGATHER 10 2 ALLREDUCE 20 3 REDUCESCATTER 30 4
b -1 5 ALLREDUCE 11 6 ALLTOALL 21 7 ALLREDUCE 31 0
";

/// What [`BOTH`] becomes in the loop of model and hybrid parallelism, for families of these names.
fn both(model: &str, data: &str) -> (String, String) {
    let first = lines(&[
        "0 F0",
        "1 F0 all-gather 10 MODEL < 0",
        "2 F1 < 1", // blocked by the first layer's collective
        "3 F1 all-reduce 11 MODEL < 2",
        "4 I1 < 3",
        "5 I1 all-to-all 21 MODEL < 4",
        "6 W1 < 4", // meanwhile
        "7 W1 all-reduce 31 DATA < 6",
        "8 I0 < 6 5", // blocked by the input gradient's collective, not by that of the weight gradient
        "9 I0 all-reduce 20 MODEL < 8",
        "10 W0 < 8",
        "11 W0 reduce-scatter 30 DATA < 10",
    ]);
    let second = lines(&[
        "12 U0 < 11 9",
        "13 F0 < 12",
        "14 F0 all-gather 10 MODEL < 13",
        "15 F1 < 7 14",
        "16 F1 all-reduce 11 MODEL < 15",
    ]);
    let named = |text: String| text.replace("MODEL", model).replace("DATA", data);
    (named(first), named(second))
}

#[test]
fn model_and_hybrid_parallelism_block_on_activations_and_input_gradients() {
    let of = |first_line: &str| two(&format!("{first_line}\n{BOTH}"));
    assert_eq!(of("MODEL"), both("all", "all"));
    assert_eq!(of("HYBRID_DATA_MODEL"), both("model", "data"));
    assert_eq!(of("HYBRID_MODEL_DATA"), both("model", "data"));
    assert_eq!(of("HYBRID_TRANSFORMER model_parallel_NPU_group: 8"), both("model", "data"));
    let none = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 checkpoints: 1 0 checkpoint_initiates: 0";
    assert_eq!(of(none), both("model", "data"));
}

#[test]
fn the_placement_says_who_shares_a_model() {
    let of = |first_line: &str| training(&format!("{first_line}\n{BOTH}")).placement();
    assert_eq!(of("DATA"), Placement::AllNpus);
    assert_eq!(of("MODEL"), Placement::AllNpus);
    assert_eq!(of("HYBRID_DLRM_ENHANCED 0"), Placement::AllNpus);
    assert_eq!(of("HYBRID_DATA_MODEL"), Placement::ModelInner);
    assert_eq!(of("HYBRID_MODEL_DATA"), Placement::ModelOuter);
    assert_eq!(of("HYBRID_TRANSFORMER model_parallel_NPU_group: 8"), Placement::ModelGroups(8));
    let recomputed =
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 0 checkpoint_initiates: 0";
    assert_eq!(of(recomputed), Placement::ModelGroups(4));
}

#[test]
fn without_collectives_computation_waits_for_computation_only() {
    let text = "MODEL\n2\na -1 1 NONE 0 2 ALLREDUCE 0 3 NONE 0 4\nb -1 5 NONE 0 6 NONE 0 7 NONE 0 8\n";
    let expected = lines(&["0 F0", "1 F1 < 0", "2 I1 < 1", "3 W1 < 2", "4 I0 < 3", "5 W0 < 4"]);
    assert_eq!(two(text), (expected, lines(&["6 U0", "7 F0 < 6", "8 U1", "9 F1 < 8 7"])));
    assert_eq!(training(text).demands(), []);
}

#[test]
fn each_customized_layer_communicates_as_its_own_parallelism_says() {
    let row = |name: &str, own: &str| format!("{name} -1 1 ALLGATHER 10 2 ALLREDUCE 20 3 REDUCESCATTER 30 4 {own}\n");
    let families = |rows: &[&str]| {
        let text: String = rows.iter().enumerate().map(|(i, own)| row(&i.to_string(), own)).collect();
        let mut training = training(&format!("HYBRID_CUSTOMIZED\n{}\n{text}", rows.len()));
        let all = sorted(collectives(&training.iteration(ClassId(0), 0)));
        let found: Vec<_> = all.chunks(3).map(|c| [c[0].2, c[1].2, c[2].2]).collect();
        (training.placement(), found)
    };
    let everyone = [ALL_NPUS; 3];
    let straight = [MODEL_GROUPS, MODEL_GROUPS, DATA_GROUPS];
    let exchanged = [DATA_GROUPS, DATA_GROUPS, MODEL_GROUPS];
    assert_eq!(families(&["DATA", "MODEL"]), (Placement::AllNpus, vec![everyone, everyone]));
    assert_eq!(families(&["HYBRID_DATA_MODEL", "DATA"]), (Placement::ModelInner, vec![straight, everyone]));
    assert_eq!(families(&["MODEL", "HYBRID_MODEL_DATA"]), (Placement::ModelOuter, vec![everyone, straight]));
    let mixed = families(&["HYBRID_MODEL_DATA", "HYBRID_DATA_MODEL", "MODEL"]);
    assert_eq!(mixed, (Placement::ModelInner, vec![exchanged, straight, everyone]));
    // The loop is that of hybrid parallelism.
    let text = BOTH.replace("30 4", "30 4 HYBRID_DATA_MODEL").replace("31 0", "31 0 HYBRID_DATA_MODEL");
    assert_eq!(two(&format!("HYBRID_CUSTOMIZED\n{text}")), both("model", "data"));
}

#[test]
fn recomputation_runs_the_forward_of_a_segment_before_its_input_gradient() {
    let row = |i: u32| format!("l{i} -1 1 ALLGATHER 1{i} 1 ALLREDUCE 2{i} 1 ALLREDUCE 3{i} 0\n");
    let rows: String = (0..5).map(row).collect();
    let options = "model_parallel_NPU_group: 2 checkpoints: 2 3 0 checkpoint_initiates: 2 2 4";
    let (first, second) = two(&format!("HYBRID_TRANSFORMER_FWD_IN_BCKWD {options}\n5\n{rows}"));
    let expected = lines(&[
        "0 F0",
        "1 F0 all-gather 10 model < 0",
        "2 F1 < 1",
        "3 F1 all-gather 11 model < 2",
        "4 F2 < 3",
        "5 F2 all-gather 12 model < 4",
        "6 F3 < 5",
        "7 F3 all-gather 13 model < 6",
        "8 F4 < 7",
        "9 F4 all-gather 14 model < 8",
        "10 F3 < 9", // again, for layer 4
        "11 F3 all-gather 13 model < 10",
        "12 I4 < 11",
        "13 I4 all-reduce 24 model < 12",
        "14 W4 < 12",
        "15 W4 all-reduce 34 data < 14",
        "16 I3 < 14 13",
        "17 I3 all-reduce 23 model < 16",
        "18 W3 < 16",
        "19 W3 all-reduce 33 data < 18",
        "20 F0 < 18 17", // again, for layer 2
        "21 F0 all-gather 10 model < 20",
        "22 F1 < 21",
        "23 F1 all-gather 11 model < 22",
        "24 I2 < 23",
        "25 I2 all-reduce 22 model < 24",
        "26 W2 < 24",
        "27 W2 all-reduce 32 data < 26",
        "28 I1 < 26 25",
        "29 I1 all-reduce 21 model < 28",
        "30 W1 < 28",
        "31 W1 all-reduce 31 data < 30",
        "32 I0 < 30 29",
        "33 I0 all-reduce 20 model < 32",
        "34 W0 < 32",
        "35 W0 all-reduce 30 data < 34",
    ]);
    assert_eq!(first, expected);
    assert!(second.starts_with("36 F0 < 35 33\n37 F0 all-gather 10 model < 36\n38 F1 < 31 37\n"), "{second}");
}

#[test]
fn data_parallelism_is_that_of_layers() {
    let texts = [
        "DATA\n3\na -1 1 NONE 0 2 NONE 0 3 ALLREDUCE 8 4\nb -1 5 NONE 0 6 NONE 0 7 NONE 0 8\nc -1 5 NONE 0 6 NONE 0 7 ALLREDUCE 9 0\n",
        "MICRO\n1\nconv1 -1 5 NONE 0 5 NONE 0 5  ALLREDUCE 1048576 5",
    ];
    for text in texts {
        let layers = astra_text::parse(text).unwrap();
        let mut parallel = training(text);
        assert_eq!(parallel.layers(), layers);
        let mut data_parallel = DataParallel::new(layers, true);
        for iteration in 0..3 {
            let mut expected = data_parallel.iteration(ClassId(0), iteration);
            for node in &mut expected {
                if let Work::Collective { family, .. } = &mut node.work {
                    *family = ALL_NPUS;
                }
            }
            assert_eq!(parallel.iteration(ClassId(0), iteration), expected);
        }
    }
}

#[test]
fn data_parallelism_blocks_on_whatever_else_it_communicates() {
    let first = lines(&[
        "0 F0",
        "1 F0 all-gather 10 all < 0",
        "2 F1 < 1",
        "3 F1 all-reduce 11 all < 2",
        "4 W1 < 3",
        "5 W1 all-reduce 31 all < 4",
        "6 I1 < 4",
        "7 I1 all-to-all 21 all < 6",
        "8 W0 < 7",
        "9 W0 reduce-scatter 30 all < 8",
        "10 I0 < 8",
        "11 I0 all-reduce 20 all < 10",
    ]);
    let (found, second) = two(&format!("DATA\n{BOTH}"));
    assert_eq!(found, first);
    assert!(second.starts_with("12 U0 < 9 11\n13 F0 < 12\n"), "{second}");
}

/// Tables, two bottom layers, two top layers.
const RECOMMENDER: &str = "5
tables -1 1 ALLTOALL 7 1 ALLTOALL 8 1 NONE 0 5
b0 -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 10 0
b1 -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 20 0
t0 -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 30 0
t1 -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 40 0
";

#[test]
fn bottom_layers_overlap_with_the_all_to_alls_of_the_tables() {
    let first = [
        "0 F0",
        "1 F0 all-to-all 7 all < 0",
        "2 F1", // meanwhile
        "3 F2 < 2",
        "4 F3 < 3 1", // the vectors have come
        "5 F4 < 4",
        "6 W4 < 5",
        "7 W4 all-reduce 40 all < 6",
        "8 I4 < 6",
        "9 W3 < 8",
        "10 W3 all-reduce 30 all < 9",
        "11 I3 < 9",
        "12 I0 all-to-all 8 all < 11",
        "13 W2 < 11", // meanwhile
        "14 W2 all-reduce 20 all < 13",
        "15 I2 < 13",
        "16 W1 < 15",
        "17 W1 all-reduce 10 all < 16",
        "18 I1 < 16",
        "19 W0 < 18 12", // the gradients have come
    ];
    let (found, second) = two(&format!("HYBRID_DLRM 2\n{RECOMMENDER}"));
    assert_eq!(found, lines(&first));
    let expected = [
        "20 U0",
        "21 F0 < 20",
        "22 F0 all-to-all 7 all < 21",
        "23 F1 < 17",
        "24 F2 < 14 23",
        "25 F3 < 10 24 22",
        "26 F4 < 7 25",
    ];
    assert_eq!(second, lines(&expected));
    // Enhanced, the gradients are waited for by the next update.
    let (found, second) = two(&format!("HYBRID_DLRM_ENHANCED 2\n{RECOMMENDER}"));
    assert_eq!(found, lines(&first).replace("19 W0 < 18 12", "19 W0 < 18"));
    assert_eq!(second, lines(&expected).replace("20 U0\n", "20 U0 < 12\n"));
}

#[test]
fn mlps_of_recommendation_models_block_on_what_their_columns_say() {
    let text = "HYBRID_DLRM 0\n2\ntables -1 1 ALLTOALL 7 1 ALLTOALL 8 1 ALLREDUCE 9 0\nt -1 1 ALLGATHER 1 1 ALLREDUCE 2 1 NONE 0 0\n";
    let expected = lines(&[
        "0 F0",
        "1 F0 all-to-all 7 all < 0",
        "2 F1 < 1",
        "3 F1 all-gather 1 all < 2",
        "4 W1 < 3",
        "5 I1 < 4",
        "6 I1 all-reduce 2 all < 5",
        "7 I0 all-to-all 8 all < 6",
        "8 W0 < 6 7",
        "9 W0 all-reduce 9 all < 8",
    ]);
    let (first, second) = two(text);
    assert_eq!(first, expected);
    assert!(second.starts_with("10 F0 < 9\n"), "{second}");
}

/// In the order in which gradients are made; each waits for what the next forward of its layer would wait for.
#[test]
fn a_run_that_waits_for_everything_has_the_updates_of_its_last_iteration() {
    let mut stopping = training(MLP);
    let mut ending = stopping.clone().ending_with(2);
    assert_eq!(ending.iteration(ClassId(0), 0), stopping.iteration(ClassId(0), 0));
    let (all, without) = (ending.iteration(ClassId(0), 1), stopping.iteration(ClassId(0), 1));
    let (same, updates) = all.split_at(without.len());
    assert_eq!(same, without);
    let further = stopping.iteration(ClassId(0), 2);
    let mut next: Vec<&Node> = further.iter().filter(|node| node.pass == Pass::Update).collect();
    next.reverse();
    assert_eq!(updates.iter().collect::<Vec<_>>(), next);
    assert_eq!(updates.len(), 6);
}

#[test]
fn nodes_compute_for_the_time_of_their_columns() {
    let mut training = training(&format!("MODEL\n{BOTH}"));
    training.iteration(ClassId(0), 0);
    let nodes = training.iteration(ClassId(0), 1);
    let times: Vec<_> = nodes
        .iter()
        .filter_map(|n| match n.work {
            Work::Compute(Cost::Measured(time)) => Some((n.layer, n.pass, time.0)),
            _ => None,
        })
        .collect();
    let expected = [
        (0, Pass::Update, 4000),
        (0, Pass::Forward, 1000),
        (1, Pass::Forward, 5000),
        (1, Pass::InputGrad, 6000),
        (1, Pass::WeightGrad, 7000),
        (0, Pass::InputGrad, 2000),
        (0, Pass::WeightGrad, 3000),
    ];
    assert_eq!(times, expected);
    assert_eq!((training.classes(), training.streams(ClassId(0))), (1, &[Order::InOrder][..]));
    assert_eq!(training.layers().iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
#[should_panic(expected = "in order")]
fn iterations_cannot_be_skipped() {
    training(DLRM).iteration(ClassId(0), 1);
}

#[test]
#[should_panic(expected = "a top layer follows")]
fn a_recommendation_model_has_a_top_layer() {
    let mut imported = astra_text::read(DLRM).unwrap();
    imported.parallelism = Parallelism::HybridDlrm { last_bottom: 7 };
    Parallel::new(imported);
}
