//! What NCCL serves: a program that is linked with a stand-in for NCCL's library, before which ours is preloaded, or
//! in the place of which it is.

use crate::interface::listed;
use crate::support::{command, compile, folder, has_compiler, library, start, unused, wait};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// What NCCL gets from each rank of `forwarded calls`, beyond the id of the communicator, which is for rank 0 alone.
const SERVED: &str = "\
    ncclCommInitRankConfig ncclCommCount ncclCommUserRank ncclCommCuDevice ncclCommGetAsyncError ncclAllReduce \
    ncclBcast ncclGroupStart ncclBroadcast ncclGroupEnd ncclReduce ncclGroupStart ncclSend ncclRecv ncclGroupEnd \
    ncclRedOpCreatePreMulSum ncclRedOpDestroy ncclMemAlloc ncclMemFree ncclCommSplit ncclCommSplit ncclAllGather \
    ncclCommDestroy ncclGetUniqueId ncclGroupStart ncclCommInitRank ncclCommInitRank ncclGroupEnd \
    ncclCommGetAsyncError ncclCommGetAsyncError ncclCommCuDevice ncclCommCuDevice ncclReduceScatter \
    ncclReduceScatter ncclCommAbort ncclCommAbort ncclCommInitAll ncclCommDestroy ncclCommDestroy ncclCommDestroy \
    ncclCommFinalize ncclCommDestroy ncclCommInitRank ncclCommDestroy";

/// The folder with the stand-ins, `libnccl.so.2` and `libcuda.so.1`.
fn fake() -> &'static Path {
    static FAKE: OnceLock<PathBuf> = OnceLock::new();
    FAKE.get_or_init(|| {
        let place = folder().join("fake-nccl");
        fs::create_dir_all(&place).unwrap();
        for (name, source) in [("libnccl.so.2", "fake_nccl.c"), ("libcuda.so.1", "fake_cuda.c")] {
            let built = compile("fake", &["-shared", "-fPIC", &format!("-Wl,-soname,{name}"), source]);
            fs::rename(built, place.join(name)).unwrap();
        }
        place
    })
}

/// A folder with ours under the name of NCCL's.
fn in_its_place() -> PathBuf {
    let place = unused("place");
    fs::create_dir_all(&place).unwrap();
    fs::copy(library(), place.join("libnccl.so.2")).unwrap();
    place
}

fn fake_library() -> PathBuf {
    fake().join("libnccl.so.2")
}

/// A program that is linked with the stand-in.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let place = fake().display().to_string();
        let (search, run_path) = (format!("-L{place}"), format!("-Wl,-rpath,{place}"));
        compile("forwarded", &["forwarded.c", &search, &run_path, "-l:libnccl.so.2", "-l:libcuda.so.1", "-ldl"])
    })
}

/// Runs `forwarded calls` as two processes. Returns what each has printed, and what NCCL has got from it.
fn run(environment: impl Fn(usize, &mut Command)) -> Vec<(Output, String)> {
    let id = unused("id");
    let start = |rank: usize| {
        let log = unused("log");
        let mut command = command(program());
        command.arg("calls").args([rank.to_string(), "2".into()]).arg(&id).env("FAKE_NCCL_LOG", &log);
        environment(rank, &mut command);
        (command.spawn().unwrap(), log)
    };
    let children: Vec<_> = (0..2).map(start).collect();
    let end = |(child, log)| (wait(child), fs::read_to_string(log).unwrap_or_default());
    children.into_iter().map(end).collect()
}

fn assert_served(results: &[(Output, String)]) {
    for (rank, (output, log)) in results.iter().enumerate() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rank {rank}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "served\n", "rank {rank}: {said}");
        let first = if rank == 0 { "ncclGetUniqueId " } else { "" };
        assert_eq!(log.lines().collect::<Vec<_>>().join(" "), format!("{first}{SERVED}"));
        // Each process has a rank 0: of the common communicator, or of the one in its group. It says so once.
        let version = "is served by NCCL 2.21.5: ";
        assert_eq!((said.lines().count(), said.matches(version).count()), (1, 1), "{said}");
    }
}

#[test]
fn preloaded_all_functions_are_ours() {
    if !has_compiler() {
        return;
    }
    let names = &listed("nccl-2.21.5.txt") | &listed("newer.txt");
    let output = command(program()).arg("symbols").args(&names).env("LD_PRELOAD", library()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), names.len());
    let ours = library();
    assert!(text.lines().all(|line| line.ends_with(&*ours.to_string_lossy())), "{text}");
}

#[test]
fn preloaded_before_nccl_it_hands_communicators_to_it() {
    if has_compiler() {
        assert_served(&run(|_, command| {
            command.env("LD_PRELOAD", library());
        }));
        // Also under NCCL's name, as long as it is another file.
        let ours = in_its_place().join("libnccl.so.2");
        assert_served(&run(|_, command| {
            command.env("LD_PRELOAD", &ours);
        }));
    }
}

#[test]
fn in_the_place_of_nccl_it_hands_communicators_to_a_named_one() {
    if !has_compiler() {
        return;
    }
    let place = in_its_place();
    assert_served(&run(|_, command| {
        command.env("LD_LIBRARY_PATH", &place).env("SYNCLINE_NCCL_LIBRARY", fake_library());
    }));
    for (output, log) in run(|_, command| {
        command.env("LD_LIBRARY_PATH", &place);
    }) {
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.starts_with("result 5: ") && printed.contains("Syncline's own library"), "{printed}");
        assert_eq!(log, "");
    }
}

#[test]
fn on_the_host_nccl_gets_nothing() {
    if !has_compiler() {
        return;
    }
    let results = run(|_, command| {
        command.env("LD_PRELOAD", library()).env("SYNCLINE_DEVICE", "cpu");
    });
    // The program expects a GPU. Who sees first that there is none ends, perhaps before the other has joined.
    assert!(results.iter().any(|(output, _)| String::from_utf8_lossy(&output.stderr).contains("device == 5")));
    assert!(results.iter().all(|(_, log)| log.is_empty()), "{results:?}");
}

/// What the ranks of a communicator print that cannot be made.
fn without(environment: impl Fn(u32, &mut Command)) -> Vec<String> {
    let children = start("without_nccl", 2, environment);
    let end = |child| {
        let output = wait(child);
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    children.into_iter().map(end).collect()
}

/// What sets the environment of a rank.
type Environment<'a> = &'a dyn Fn(u32, &mut Command);

#[test]
fn ranks_decide_together_whether_there_is_nccl() {
    if !has_compiler() {
        return;
    }
    let cases: [(Environment, &str); 4] = [
        (
            &|rank, command| {
                let missing = Path::new("/nowhere/libnccl.so").to_path_buf();
                command.env("SYNCLINE_NCCL_LIBRARY", if rank == 0 { fake_library() } else { missing });
            },
            "rank 1 finds no NCCL (SYNCLINE_NCCL_LIBRARY is /nowhere/libnccl.so: ",
        ),
        (&|_, _| (), "rank 0 finds no NCCL (libnccl.so.2: cannot open shared object file"),
        (
            &|rank, command| {
                command.env("SYNCLINE_NCCL_LIBRARY", fake_library());
                command.env("FAKE_NCCL_VERSION", if rank == 0 { "22105" } else { "22304" });
            },
            "rank 0 finds NCCL 2.21.5 but rank 1 NCCL 2.23.4",
        ),
        (
            &|rank, command| {
                command.env("SYNCLINE_NCCL_LIBRARY", fake_library());
                command.env("SYNCLINE_DEVICE", if rank == 0 { "cuda" } else { "cpu" });
            },
            "SYNCLINE_DEVICE is cuda for rank 0 and cpu for rank 1",
        ),
    ];
    for (environment, text) in cases {
        for printed in without(environment) {
            assert!(printed.starts_with("result 5: ncclCommInitRank: ") && printed.contains(text), "{printed}");
        }
    }
}
