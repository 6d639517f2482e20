//! Compiling C programs, and running them as the ranks of a communicator.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// How often it is looked whether a program has ended, and what is slept in between. No program takes nearly as long.
const LOOKS: u32 = 24_000;
const NAP: Duration = Duration::from_millis(5);

/// The folder of the crate.
pub fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The library that is tested: the one that the environment names (`TESTED_LIBRARY`), or which cargo has built next to
/// this program.
pub fn library() -> PathBuf {
    if let Some(named) = env::var_os("TESTED_LIBRARY") {
        return named.into();
    }
    let program = env::current_exe().unwrap();
    let library = program.with_file_name("libsyncline_nccl.so");
    assert!(library.exists(), "{} does not exist", library.display());
    library
}

/// A folder for what is compiled. Those of test runs that have ended are removed.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
        for entry in fs::read_dir(all).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let process = name.strip_prefix("nccl-").filter(|process| process.parse::<u32>().is_ok());
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // Another test run may be quicker.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = all.join(format!("nccl-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    })
}

/// A name that no other test has.
pub fn unused(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    folder().join(format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Whether there is a C compiler.
pub fn has_compiler() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
        if !found {
            eprintln!("there is no cc: nothing is tested");
        }
        found
    })
}

/// Compiles with what is given behind the usual options, and those of the environment (`C_FLAGS`). Returns the file.
pub fn compile(output: &str, arguments: &[&str]) -> PathBuf {
    let output = unused(output);
    let flags = env::var("C_FLAGS").unwrap_or_default();
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(here().join("include"))
        .arg("-o")
        .arg(&output)
        .args(flags.split_whitespace())
        .args(arguments)
        .current_dir(here().join("tests/c"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    output
}

/// Whether there is a C++ compiler, for the stand-in for the driver of CUDA.
pub fn has_cxx() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success());
        if !found {
            eprintln!("there is no c++: nothing is tested on GPUs");
        }
        found
    })
}

/// The folder with the stand-in for the driver of CUDA whose GPUs do something, as `libcuda.so.1`.
pub fn fake_device() -> &'static Path {
    static FAKE: OnceLock<PathBuf> = OnceLock::new();
    FAKE.get_or_init(|| {
        let place = folder().join("fake-device");
        fs::create_dir_all(&place).unwrap();
        let compiled = Command::new("c++")
            // As for the GPU: no product is added without being rounded.
            .args(["-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"])
            .args(["-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1", "-I"])
            .arg(here().join("../runtime/kernels"))
            .arg("-o")
            .arg(place.join("libcuda.so.1"))
            .arg("fake_device.cpp")
            .current_dir(here().join("tests/c"))
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        place
    })
}

/// The client with all scenarios, linked with the library.
pub fn client() -> &'static Path {
    static CLIENT: OnceLock<PathBuf> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let library = library();
        let folder = library.parent().unwrap().display().to_string();
        let (search, run_path) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
        let sources = ["main.c", "memory.c", "collectives.c", "lifecycle.c", "failures.c", "bits.c"];
        compile("client", &[&sources[..], &[&search, &run_path, "-lsyncline_nccl", "-ldl"]].concat())
    })
}

/// A command with an environment that this one does not leak into.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SYNCLINE_")) {
        command.env_remove(name);
    }
    // Cargo names folders there in which an older library may be.
    command.env_remove("LD_LIBRARY_PATH");
    command.env("SYNCLINE_ADDRESS", "127.0.0.1").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for a program to end, and ends it if it takes too long.
pub fn wait(mut child: Child) -> Output {
    for _ in 0..LOOKS {
        if child.try_wait().unwrap().is_some() {
            return child.wait_with_output().unwrap();
        }
        thread::sleep(NAP);
    }
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    panic!("a program has not ended: {}", String::from_utf8_lossy(&output.stderr));
}

/// Starts a scenario of the client as so many processes.
pub fn start(scenario: &str, ranks: u32, environment: impl Fn(u32, &mut Command)) -> Vec<Child> {
    let file = unused("id");
    let start = |rank: u32| {
        let mut command = command(client());
        command.arg("processes").arg(scenario).args([rank.to_string(), ranks.to_string()]).arg(&file);
        environment(rank, &mut command);
        command.spawn().unwrap()
    };
    (0..ranks).map(start).collect()
}

/// On memory of the host.
pub fn on_host(_: u32, command: &mut Command) {
    command.env("SYNCLINE_DEVICE", "cpu");
}

/// That programs have ended well, and have said nothing.
pub fn assert_well(children: Vec<Child>) {
    for (rank, child) in children.into_iter().enumerate() {
        let output = wait(child);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "rank {rank}: {}: {said}", output.status);
    }
}
