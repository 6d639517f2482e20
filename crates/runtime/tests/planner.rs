//! How the planner is asked for plans. It is a script here (`planner.sh`), which notes how it is called and what it reads.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use syncline_runtime::plan::planner::{Topology, Wish};

const DETECTED: &str = r#"{"schema_version": 1, "source": "the tool", "gpus": [5, 1, 4], "trees_links": "nvlink",
    "reason": "because", "notes": [], "content": "a topology"}"#;

/// A planner, and the file with its notes. The script is linked and not written: a file that was being written when
/// another test started a process cannot be executed ("text file busy") until that process has let go of it.
fn planner(name: &str, detects: &str) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("planner-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder); // of a process that had the same number
    fs::create_dir_all(&folder).unwrap();
    let (script, notes) = (folder.join("planner"), folder.join("notes"));
    fs::write(folder.join("detected"), detects).unwrap();
    symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/planner.sh"), &script).unwrap();
    (script, notes)
}

fn wish(topology: Topology, gpus: Option<&str>, script: &Path) -> Wish {
    Wish { topology, gpus: gpus.map(str::to_owned), command: script.display().to_string() }
}

#[test]
fn a_machine_is_detected_where_all_ranks_have_gpus_unless_something_else_is_said() {
    let gpus = ["0000:07:00.0", "0000:0a:00.0"].map(|address| Some(address.to_owned()));
    let all = Topology::Detected(Some("0000:07:00.0,0000:0a:00.0".into()));
    let said = |word: &str, gpus: &[Option<String>]| Topology::of(Some(word.into()), gpus);
    assert_eq!(Topology::of(None, &gpus), Some(all.clone()));
    assert_eq!(Topology::of(None, &[gpus[0].clone(), None]), None);
    assert_eq!(Topology::of(None, &[]), None);
    assert_eq!(said("detect", &gpus), Some(all));
    assert_eq!(said("detect", &[None, None]), Some(Topology::Detected(None)));
    assert_eq!(said("none", &gpus), None);
    assert_eq!(said("dgx1v", &gpus), Some(Topology::Given("dgx1v".into())));
}

#[test]
fn a_machine_is_detected_once_for_its_gpus() {
    let (script, notes) = planner("once", DETECTED);
    let addresses = "0000:86:00.0,0000:07:00.0,0000:85:00.0";
    let wish = wish(Topology::Detected(Some(addresses.into())), None, &script);
    let answer = wish.answer(3, true).unwrap();
    assert_eq!((answer.plans.len(), answer.may_fail), (5, true));
    assert_eq!(answer.note, "trees by the tool, GPUs 5,1,4: because");
    assert_eq!(wish.answer(3, true).unwrap(), answer);
    let notes = fs::read_to_string(notes).unwrap();
    let mut lines: Vec<&str> = notes.lines().collect();
    assert_eq!(lines.remove(0), format!("topology detect --json --gpus {addresses}: "));
    // They are found at the same time.
    lines.sort_unstable();
    let line = |collective| {
        format!(
            "trees --topology-file - --links nvlink --gpus 5,1,4 --collective {collective} --size 16MiB --format plan: \
             a topology"
        )
    };
    assert_eq!(lines, ["all-gather", "all-reduce", "broadcast", "reduce", "reduce-scatter"].map(line));
}

#[test]
fn what_a_user_says_of_gpus_goes_before() {
    let (script, notes) = planner("named", DETECTED);
    wish(Topology::Detected(None), Some("1,4,5"), &script).answer(3, true).unwrap();
    wish(Topology::Detected(None), None, &script).answer(4, true).unwrap();
    let notes = fs::read_to_string(notes).unwrap();
    assert!(notes.starts_with("topology detect --json --gpus 1,4,5: \n"), "{notes}");
    assert!(notes.contains("topology detect --json --gpus 0-3: \n"), "{notes}");
}

#[test]
fn a_machine_that_is_not_detected_is_no_failure() {
    let no_trees = DETECTED.replace(r#""nvlink""#, "null");
    for (name, detects, said) in [
        ("fails", "", "no trees: "),
        ("garbage", "{}", "has detected cannot be read: missing field `source`"),
        ("useless", no_trees.as_str(), "no trees: the tool: because"),
    ] {
        let (script, _) = planner(name, detects);
        let answer = wish(Topology::Detected(None), None, &script).answer(3, true).unwrap();
        assert!(answer.plans.is_empty() && answer.note.contains(said), "{answer:?}");
    }
    let nowhere = wish(Topology::Detected(None), None, Path::new("/nowhere/planner"));
    assert!(nowhere.answer(3, true).unwrap().note.contains("/nowhere/planner cannot be run"));
    assert!(nowhere.answer(2, true).unwrap().note.contains("two ranks have one way"));
    assert!(nowhere.answer(3, false).unwrap().note.contains("on several hosts"));
}

#[test]
fn a_machine_that_is_given_has_to_be_known() {
    let (script, notes) = planner("given", DETECTED);
    let given = |gpus, script| wish(Topology::Given("dgx1v".into()), gpus, script);
    let answer = given(None, &script).answer(3, false).unwrap();
    assert_eq!((answer.plans.len(), answer.may_fail), (5, false));
    let notes = fs::read_to_string(notes).unwrap();
    assert!(notes.contains("trees --machine dgx1v --gpus 0-2 --collective all-reduce --size 16MiB"), "{notes}");
    let failure = given(Some("0,1,2"), Path::new("/nowhere/planner")).answer(3, true).unwrap_err();
    assert!(failure.message.contains("found no all-reduce for dgx1v: /nowhere/planner cannot be run"), "{failure:?}");
}
