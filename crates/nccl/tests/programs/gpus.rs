//! Communicators on memory of GPUs, with a stand-in for the driver of CUDA (`fake_device.cpp`), whose work is late at odd
//! times. Nothing of this shows that a true driver does the same.

use crate::support::{assert_well, client, command, fake_device, has_compiler, has_cxx, start, wait};
use std::process::{Child, Command};

fn can_run() -> bool {
    has_compiler() && has_cxx()
}

/// Ranks are on GPUs of their own.
fn apart(_: u32, command: &mut Command) {
    command.env("LD_LIBRARY_PATH", fake_device()).env("CLIENT_GPUS", "8");
    command.env("SYNCLINE_TIMEOUT", "20").env("SYNCLINE_JOIN_TIMEOUT", "60");
}

/// The driver waits for all work of a GPU before it takes memory.
fn strict(rank: u32, command: &mut Command) {
    apart(rank, command);
    command.env("FAKE_CUDA_STRICT", "1");
}

/// All ranks are on one GPU.
fn together(rank: u32, command: &mut Command) {
    apart(rank, command);
    command.env("CLIENT_GPUS", "1");
}

/// Without shared memory between ranks.
fn over_tcp(rank: u32, command: &mut Command) {
    apart(rank, command);
    command.env("SYNCLINE_TRANSPORT", "tcp");
}

fn processes(scenario: &str, ranks: u32, environment: impl Fn(u32, &mut Command)) {
    if can_run() {
        assert_well(start(scenario, ranks, environment));
    }
}

fn threads(scenario: &str, ranks: u32) {
    if can_run() {
        let mut command = command(client());
        strict(0, &mut command);
        assert_well(vec![command.args(["threads", scenario, &ranks.to_string()]).spawn().unwrap()]);
    }
}

/// All but the last rank end well; the last one is killed at the end, if it is not dead by then.
fn without_last(scenario: &str, ranks: u32) {
    if !can_run() {
        return;
    }
    let mut children: Vec<Child> = start(scenario, ranks, |rank, command| {
        apart(rank, command);
        command.env("SYNCLINE_TIMEOUT", "2");
    });
    let mut last = children.pop().unwrap();
    assert_well(children);
    last.kill().unwrap();
    assert!(!wait(last).status.success());
}

#[test]
fn all_collectives_types_and_reductions_among_processes() {
    processes("all", 1, apart);
    processes("all", 2, together);
    processes("all", 3, strict);
}

#[test]
fn all_collectives_types_and_reductions_among_threads() {
    threads("all", 4);
}

#[test]
fn all_collectives_types_and_reductions_over_tcp() {
    processes("all", 2, over_tcp);
}

/// Payloads go through memory of the host where the driver does not let GPUs reach each other, and where that is asked for.
#[test]
fn gpus_that_do_not_reach_each_other() {
    for (variable, value) in
        [("FAKE_CUDA_PEERS", "0"), ("FAKE_CUDA_FAIL", "cuIpcOpenMemHandle_v2:1"), ("SYNCLINE_P2P", "0")]
    {
        processes("bits", 2, |rank, command| {
            apart(rank, command);
            command.env(variable, value);
        });
    }
}

#[test]
fn what_carries_messages_is_said() {
    if !can_run() {
        return;
    }
    for (variable, value, name) in [
        ("CLIENT_GPUS", "1", "memory of GPUs"),
        ("CLIENT_GPUS", "2", "memory of GPUs"),
        ("FAKE_CUDA_PEERS", "0", "shared memory"),
        ("SYNCLINE_P2P", "0", "shared memory"),
        ("SYNCLINE_TRANSPORT", "tcp", "TCP"),
    ] {
        let children = start("captured", 2, |rank, command| {
            apart(rank, command);
            command.env(variable, value).env("SYNCLINE_DEBUG", "info");
        });
        for (rank, child) in children.into_iter().enumerate() {
            let output = wait(child);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let bus = if (variable, value) == ("CLIENT_GPUS", "1") { 16 } else { 16 + rank };
            let line = format!("rank {rank} of 2 is served on the GPU 0000:{bus:02x}:00.0, over {name}\n");
            assert!(output.status.success() && said.contains(&line), "{line}{said}");
        }
    }
}

#[test]
fn bits_are_those_of_the_host() {
    processes("bits", 2, together);
    processes("bits", 3, apart);
}

#[test]
fn plans_of_files() {
    for ranks in [4, 6] {
        processes("plans", ranks, |rank, command| {
            apart(rank, command);
            command.env("CLIENT_PLANS", crate::support::here().join("../runtime/tests/plans"));
        });
    }
}

#[test]
fn streams_of_the_driver_itself() {
    for stream in ["0", "1", "2"] {
        processes("several", 2, |rank, command| {
            apart(rank, command);
            command.env("CLIENT_STREAM", stream);
        });
    }
}

#[test]
fn several_communicators_and_streams_at_once() {
    processes("several", 3, together);
    processes("concurrent", 2, apart);
    processes("ahead", 2, together);
    processes("ahead", 3, strict);
    threads("split", 4);
}

#[test]
fn one_thread_has_all_ranks() {
    threads("one_thread", 1);
}

#[test]
fn a_stream_that_is_captured_is_refused() {
    processes("captured", 2, apart);
}

#[test]
fn failures_of_ranks_release_streams_and_are_told() {
    without_last("killed", 3);
    without_last("killed_silently", 3);
    without_last("stopped", 3);
    processes("aborted", 3, apart);
    processes("different", 3, apart);
}

#[test]
fn a_failure_of_the_driver_is_that_of_all_ranks() {
    for call in ["cuMemcpyAsync:90", "cuLaunchKernel:30", "cuEventQuery:150"] {
        processes("driver_fails", 2, |rank, command| {
            apart(rank, command);
            if rank == 1 {
                command.env("FAKE_CUDA_FAIL", call);
            }
        });
    }
}

/// The driver makes nothing new while a copy to memory that is not pinned waits for a call. Calls need nothing new.
#[test]
fn a_copy_that_waits_for_a_call_does_not_keep_it_from_the_driver() {
    processes("waiting", 2, apart);
    processes("waiting", 3, together);
}

#[test]
fn a_copy_that_holds_up_the_driver_is_told_and_streams_are_released() {
    processes("held_up", 2, |rank, command| {
        apart(rank, command);
        command.env("SYNCLINE_TIMEOUT", "2").env("FAKE_CUDA_HOLDS", "1");
    });
}

/// That no communicator is made, as there is no NCCL either, and that all ranks say why Syncline does not serve.
fn assert_refused(text: &str, environment: impl Fn(u32, &mut Command)) {
    for child in start("without_nccl", 2, environment) {
        let output = wait(child);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let right = format!("result 5: ncclCommInitRank: no executor: {text}, and rank 0 finds no NCCL");
        assert!(printed.starts_with(&right), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn why_syncline_does_not_serve_is_said_by_all_ranks() {
    if !can_run() {
        return;
    }
    let text =
        "Syncline cannot serve the GPU of rank 1 (cuModuleLoadData fails with CUDA_ERROR_UNKNOWN: unknown error)";
    assert_refused(text, |rank, command| {
        apart(rank, command);
        if rank == 1 {
            command.env("FAKE_CUDA_FAIL", "cuModuleLoadData:1");
        }
    });
    assert_refused("SYNCLINE_DEVICE is nccl", |rank, command| {
        apart(rank, command);
        command.env("SYNCLINE_DEVICE", "nccl");
    });
    // A rank that uses no GPU.
    let text = "Syncline cannot serve the GPU of rank 0 (no context of CUDA is current in the thread that joins)";
    assert_refused(text, |rank, command| {
        apart(rank, command);
        if rank == 0 {
            command.env_remove("CLIENT_GPUS");
        }
    });
}
