//! Text workloads of every parallelism: what is read from them, and what is wrong with them.

use syncline_collective::Kind;
use syncline_core::{Bytes, Ps};
use syncline_workload::astra_text::{
    Communication, Imported, ImportedLayer, ImportedPass, LayerParallelism, MAX_TOTAL_BYTES, Parallelism, read,
};

const KEYWORDS: &str = "one of DATA, MICRO, MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA, HYBRID_DLRM, \
                        HYBRID_DLRM_ENHANCED, HYBRID_TRANSFORMER, HYBRID_TRANSFORMER_FWD_IN_BCKWD, HYBRID_CUSTOMIZED";
const GROUP: &str = "model_parallel_NPU_group";

/// A file with this first line, and layers without any collective.
fn file(first: &str, layers: usize) -> String {
    let rows: String = (0..layers).map(|i| format!("l{i} -1 1 NONE 0 2 NONE 0 3 NONE 0 4\n")).collect();
    format!("{first}\n{layers}\n{rows}")
}

/// A file with recomputation in six layers; the two lists are given with their numbers.
fn recomputed(checkpoints: &str, initiates: &str) -> String {
    let options = format!("checkpoints: {checkpoints} checkpoint_initiates: {initiates}");
    file(&format!("HYBRID_TRANSFORMER_FWD_IN_BCKWD {GROUP}: 2 {options}"), 6)
}

/// The errors as (line, field, value, accepted).
fn errors(text: &str) -> Vec<(usize, String, String, String)> {
    let wrong = read(text).expect_err("the text has errors");
    wrong.errors.into_iter().map(|e| (e.line, e.field, e.value, e.accepted)).collect()
}

#[track_caller]
fn refused(text: &str, line: usize, field: &str, value: &str, accepted: &str) {
    assert_eq!(errors(text), [(line, field.into(), value.into(), accepted.into())], "{text}");
}

#[test]
fn every_parallelism_is_read_with_its_options() {
    let of = |first: &str| read(&file(first, 6)).unwrap_or_else(|wrong| panic!("{wrong:?}")).parallelism;
    let plain = [
        ("DATA", Parallelism::Data),
        ("MODEL", Parallelism::Model),
        ("HYBRID_DATA_MODEL", Parallelism::HybridDataModel),
        ("HYBRID_MODEL_DATA", Parallelism::HybridModelData),
        ("HYBRID_DLRM 4", Parallelism::HybridDlrm { last_bottom: 4 }),
        ("HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: 4", Parallelism::HybridDlrm { last_bottom: 4 }),
        ("HYBRID_DLRM_ENHANCED 0", Parallelism::HybridDlrmEnhanced { last_bottom: 0 }),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 16", Parallelism::HybridTransformer { group: 16 }),
    ];
    for (first, parallelism) in plain {
        assert_eq!(of(first), parallelism);
        assert_eq!(parallelism.keyword(), first.split(' ').next().unwrap());
    }
    assert_eq!(read(&file("MICRO", 1)).unwrap().parallelism, Parallelism::Micro);
    let parallelism = read(&recomputed("2 3 0", "2 2\t5 ")).unwrap().parallelism;
    let expected =
        Parallelism::HybridTransformerFwdInBckwd { group: 2, checkpoints: vec![3, 0], initiates: vec![2, 5] };
    assert_eq!(parallelism, expected);
    assert_eq!(parallelism.keyword(), "HYBRID_TRANSFORMER_FWD_IN_BCKWD");
}

#[test]
fn columns_are_read_as_they_stand() {
    let text = "HYBRID_CUSTOMIZED\n4\n\
        a -1 1 ALLGATHER 10 2 ALLTOALL 20 3 REDUCESCATTER 30 4 HYBRID_MODEL_DATA\n\
        b -1 5 NONE 0 6 ALLREDUCE 0 7 ALLREDUCE 31 0 MODEL\n\
        c -1 0 NONE 0 0 NONE 0 0 NONE 0 0 DATA\n\
        d -1 0 NONE 0 0 NONE 0 0 NONE 0 0 HYBRID_DATA_MODEL\n";
    let pass = |ns: u64, communication| ImportedPass { time: Ps(ns * 1000), communication };
    let some = |kind, bytes| Some(Communication { kind, size: Bytes(bytes) });
    let layer = |name: &str, passes: [ImportedPass; 3], ns: u64, own| ImportedLayer {
        name: name.into(),
        forward: passes[0],
        input_grad: passes[1],
        weight_grad: passes[2],
        update: Ps(ns * 1000),
        parallelism: Some(own),
    };
    let first = [
        pass(1, some(Kind::AllGather, 10)), // not multiplied by the number of ranks
        pass(2, some(Kind::AllToAll, 20)),
        pass(3, some(Kind::ReduceScatter, 30)),
    ];
    let second = [pass(5, None), pass(6, None), pass(7, some(Kind::AllReduce, 31))];
    let layers = vec![
        layer("a", first, 4, LayerParallelism::HybridModelData),
        layer("b", second, 0, LayerParallelism::Model),
        layer("c", [ImportedPass::default(); 3], 0, LayerParallelism::Data),
        layer("d", [ImportedPass::default(); 3], 0, LayerParallelism::HybridDataModel),
    ];
    let imported = Imported { parallelism: Parallelism::HybridCustomized, layers };
    assert_eq!(read(text).unwrap(), imported);
    // Of these only an all-reduce is a gradient in the sense of data parallelism.
    assert_eq!(imported.to_layers().iter().map(|l| l.gradient.0).collect::<Vec<_>>(), [0, 31, 0, 0]);
    assert!(read(&file("MODEL", 1)).unwrap().layers[0].parallelism.is_none());
}

#[test]
fn keywords_and_options_that_nobody_knows() {
    refused(&file("HYBRID", 1), 1, "parallelism", "HYBRID", KEYWORDS);
    refused(&file("model", 1), 1, "parallelism", "model", KEYWORDS);
    refused("", 1, "parallelism", "", KEYWORDS);
    for keyword in ["DATA", "MICRO", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA"] {
        let accepted = format!("nothing after {keyword}");
        refused(&file(&format!("{keyword} 4 x"), 1), 1, "option of the parallelism", "4 x", &accepted);
    }
    let customized = "HYBRID_CUSTOMIZED x\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0 DATA\n";
    refused(customized, 1, "option of the parallelism", "x", "nothing after HYBRID_CUSTOMIZED");
}

#[test]
fn the_last_bottom_layer_is_followed_by_a_top_layer() {
    for keyword in ["HYBRID_DLRM", "HYBRID_DLRM_ENHANCED"] {
        let wrong = |options: &str, field: &str, value: &str, accepted: &str| {
            refused(&file(&format!("{keyword}{options}"), 3), 1, field, value, accepted);
        };
        let index = format!("the index of the last bottom layer, from 0, after {keyword}");
        wrong("", "last bottom layer", "", &index);
        wrong(" -1", "last bottom layer", "-1", &index);
        wrong(" x", "last bottom layer", "x", &index);
        wrong(" 4294967296", "last bottom layer", "4294967296", &index);
        wrong(" DLRM_LAST_BOTTOM_LAYER: x", "last bottom layer", "x", &index);
        wrong(" DLRM_LAST_BOTTOM_LAYER:", "last bottom layer", "", &index);
        wrong(" 1 2", "option of the parallelism", "2", "nothing after last bottom layer");
        wrong(" 2", "last bottom layer", "2", "the index, from 0, of a layer before the last of the 3");
        let alone = file(&format!("{keyword} 0"), 1);
        refused(&alone, 1, "last bottom layer", "0", "the index, from 0, of a layer before the last of the 1");
        assert!(read(&file(&format!("{keyword} 1"), 3)).is_ok());
    }
}

#[test]
fn groups_of_transformers_have_a_label_and_a_number() {
    let wrong = |options: &str, field: &str, value: &str, accepted: &str| {
        refused(&file(&format!("HYBRID_TRANSFORMER {options}"), 1), 1, field, value, accepted);
    };
    let number = "one whole number of NPUs from 1";
    wrong("", "option of the parallelism", "", "model_parallel_NPU_group:");
    wrong("8", "option of the parallelism", "8", "model_parallel_NPU_group:");
    wrong("group: 8", "option of the parallelism", "group:", "model_parallel_NPU_group:");
    wrong(&format!("{GROUP}:"), GROUP, "", number);
    wrong(&format!("{GROUP}: 0"), GROUP, "0", number);
    wrong(&format!("{GROUP}: eight"), GROUP, "eight", number);
    wrong(&format!("{GROUP}: 8 8"), GROUP, "8 8", number);
    wrong(&format!("{GROUP}: 8 ep: 1"), "option of the parallelism", "ep: 1", "nothing after model_parallel_NPU_group");
}

#[test]
fn lists_of_checkpoints_have_labels_and_numbers() {
    let keyword = format!("HYBRID_TRANSFORMER_FWD_IN_BCKWD {GROUP}: 2");
    let option = "option of the parallelism";
    refused(&file(&keyword, 6), 1, option, "", "checkpoints:");
    refused(
        &file(&format!("{keyword} checkpoint_initiates: 0"), 6),
        1,
        option,
        "checkpoint_initiates:",
        "checkpoints:",
    );
    refused(&file(&format!("{keyword} checkpoints: 1 0"), 6), 1, option, "", "checkpoint_initiates:");
    refused(&recomputed("", "0"), 1, "checkpoints", "", "a number of layers, then their indices from 0");
    refused(&recomputed("2 0", "1 2"), 1, "checkpoints", "2", "1, the number of layers that follow");
    refused(&recomputed("1 0", "1 2 3"), 1, "checkpoint_initiates", "1", "2, the number of layers that follow");
    refused(&recomputed("x 0", "1 2"), 1, "checkpoints", "x", "1, the number of layers that follow");
    refused(&recomputed("1 -1", "0"), 1, "checkpoints", "-1", "the index of a layer, from 0");
    refused(&recomputed("2 0 0", "0"), 1, "checkpoints", "0", "each layer once");
    refused(&recomputed("1 0", "0 pp: 1"), 1, option, "pp: 1", "nothing after checkpoint_initiates");
}

#[test]
fn checkpoints_fit_the_layers() {
    let initiates = "checkpoint_initiates";
    refused(&recomputed("2 0 6", "1 2"), 1, "checkpoints", "6", "0 to 5");
    refused(&recomputed("1 0", "1 6"), 1, initiates, "6", "0 to 5");
    refused(&recomputed("1 3", "1 2"), 1, initiates, "2", "a layer with a checkpoint before it");
    refused(&recomputed("2 0 3", "1 3"), 1, initiates, "3", "a layer that is no checkpoint itself");
    let between = "a layer with a checkpoint between it and layer 2, which initiates too";
    refused(&recomputed("1 0", "2 4 2"), 1, initiates, "4", between);
    let between = "a layer with a checkpoint between it and layer 1, which initiates too";
    refused(&recomputed("1 0", "2 1 3"), 1, initiates, "3", between);
    for (checkpoints, initiates) in [("0", "0"), ("6 0 1 2 3 4 5", "0"), ("1 0", "1 5"), ("2 3 0", "2 4 2")] {
        assert!(read(&recomputed(checkpoints, initiates)).is_ok(), "{checkpoints}; {initiates}");
    }
}

#[test]
fn each_mistake_in_a_layer_is_named() {
    let valid = "MODEL\n2\na -1 1 ALLGATHER 9 2 ALLREDUCE 8 3 NONE 0 4\nb -1 5 NONE 0 6 NONE 0 7 NONE 0 8\n";
    assert!(read(valid).is_ok());
    let wrong = |from: &str, to: &str, line: usize, field: &str, value: &str, accepted: &str| {
        assert!(valid.contains(from), "{from}");
        refused(&valid.replacen(from, to, 1), line, field, value, accepted);
    };
    let kinds = "one of NONE, ALLREDUCE, ALLGATHER, ALLTOALL, REDUCESCATTER";
    let fused = "ALLREDUCEALLTOALL";
    wrong("ALLGATHER", fused, 3, "forward collective (column 4)", fused, kinds);
    wrong("ALLREDUCE", "allreduce", 3, "input-gradient collective (column 7)", "allreduce", kinds);
    wrong("3 NONE", "3 -", 3, "weight-gradient collective (column 10)", "-", kinds);
    let bytes = format!("whole bytes, at most {MAX_TOTAL_BYTES} in the whole file");
    wrong("ALLGATHER 9", "ALLGATHER -9", 3, "forward bytes (column 5)", "-9", &bytes);
    wrong("ALLREDUCE 8", "ALLREDUCE 8.5", 3, "input-gradient bytes (column 8)", "8.5", &bytes);
    wrong("3 NONE 0", "3 NONE 5", 3, "weight-gradient bytes (column 11)", "5", "0, as the collective is NONE");
    let times = "whole nanoseconds, at most 1000000000000000 in the whole file";
    wrong("a -1 1", "a -1 x", 3, "forward time (column 3)", "x", times);
    wrong("9 2 ", "9 -2 ", 3, "input-gradient time (column 6)", "-2", times);
    wrong("8 3 ", "8 1e3 ", 3, "weight-gradient time (column 9)", "1e3", times);
    wrong("0 8\n", "0 ?\n", 4, "update time (column 12)", "?", times);
    wrong("b -1", "b 1", 4, "reserved field (column 2)", "1", "-1");
    wrong("b -1", "a -1", 4, "layer name (column 1)", "a", "a name that no other layer has (line 3 has it)");
    wrong("0 8\n", "0 8 DATA\n", 4, "number of columns", "13", "12");
    wrong("0 8\n", "0\n", 4, "number of columns", "11", "12");
    wrong("\n2\n", "\n3\n", 2, "number of layers", "3", "2, the number of lines that follow");
    wrong("\n2\n", "\nx\n", 2, "number of layers", "x", "a whole number from 1, on the second line");
    refused("MODEL\n", 1, "number of layers", "", "a whole number from 1, on the second line");
    // Sizes of all passes count towards the total.
    let total = valid.replacen("ALLGATHER 9", &format!("ALLGATHER {MAX_TOTAL_BYTES}"), 1);
    refused(&total, 3, "input-gradient bytes (column 8)", "8", &bytes);
}

#[test]
fn a_micro_file_has_one_collective() {
    let text = |passes: &str| format!("MICRO\n1\na -1 {passes} 4\n");
    assert!(read(&text("1 NONE 0 2 NONE 0 3 ALLTOALL 8")).is_ok());
    let accepted = "NONE: only the weight gradient is communicated under MICRO";
    let forward = text("1 ALLTOALL 8 2 NONE 0 3 NONE 0");
    refused(&forward, 3, "forward collective (column 4)", "ALLTOALL", accepted);
    let input_grad = text("1 NONE 0 2 ALLREDUCE 8 3 NONE 0");
    refused(&input_grad, 3, "input-gradient collective (column 7)", "ALLREDUCE", accepted);
    refused(&file("MICRO", 2), 2, "number of layers", "2", "1 under MICRO");
}

#[test]
fn customized_layers_name_their_own_parallelism() {
    let text = |own: &str| format!("HYBRID_CUSTOMIZED\n1\na -1 1 NONE 0 2 NONE 0 3 NONE 0 4{own}\n");
    assert!(read(&text(" MODEL")).is_ok());
    refused(&text(""), 3, "number of columns", "12", "13");
    refused(&text(" MODEL x"), 3, "number of columns", "14", "13");
    let accepted = "one of DATA, MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA";
    for own in ["MICRO", "HYBRID_DLRM", "HYBRID_TRANSFORMER", "HYBRID_CUSTOMIZED", "-1"] {
        refused(&text(&format!(" {own}")), 3, "parallelism of the layer (column 13)", own, accepted);
    }
}

#[test]
fn all_errors_of_a_file_are_found_in_order_of_lines() {
    let options = format!("{GROUP}: 0 checkpoints: 1 x checkpoint_initiates: 2 1 1 pp: 1");
    let text = format!("HYBRID_TRANSFORMER_FWD_IN_BCKWD {options}\n3\na -1 x FOO 1 2 NONE 0 3 NONE 0 4\na\n");
    let found: Vec<_> =
        errors(&text).into_iter().map(|(line, field, value, _)| format!("{line} {field}={value}")).collect();
    let expected = [
        "1 model_parallel_NPU_group=0",
        "1 checkpoints=x",
        "1 checkpoint_initiates=1",
        "1 option of the parallelism=pp: 1",
        "2 number of layers=3",
        "3 forward time (column 3)=x",
        "3 forward collective (column 4)=FOO",
        "4 number of columns=1",
    ];
    assert_eq!(found, expected);
    // Two layers out of range, and a line without its own parallelism, in other files.
    let out: Vec<_> = errors(&recomputed("2 7 8", "1 9")).into_iter().map(|e| e.2).collect();
    assert_eq!(out, ["7", "8", "9"]);
}
