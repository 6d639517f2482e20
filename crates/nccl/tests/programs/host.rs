//! Communicators on memory of the host.

use crate::support::{assert_well, client, command, has_compiler, here, on_host, start, wait};

fn processes(scenario: &str, ranks: u32) {
    if has_compiler() {
        assert_well(start(scenario, ranks, on_host));
    }
}

fn threads(scenario: &str, ranks: u32) {
    if has_compiler() {
        let mut command = command(client());
        on_host(0, &mut command);
        assert_well(vec![command.args(["threads", scenario, &ranks.to_string()]).spawn().unwrap()]);
    }
}

#[test]
fn all_collectives_types_and_reductions_among_processes() {
    processes("all", 1);
    processes("all", 2);
    processes("all", 3);
}

#[test]
fn all_collectives_types_and_reductions_among_threads() {
    threads("all", 4);
}

#[test]
fn all_collectives_types_and_reductions_over_tcp() {
    if has_compiler() {
        assert_well(start("all", 2, |rank, command| {
            on_host(rank, command);
            command.env("SYNCLINE_TRANSPORT", "tcp");
        }));
    }
}

#[test]
fn several_communicators_at_once() {
    processes("several", 2);
    threads("several", 3);
}

#[test]
fn threads_use_communicators_of_their_own_at_once() {
    processes("concurrent", 2);
    threads("concurrent", 2);
}

#[test]
fn a_split_orders_ranks_by_key_and_leaves_out_those_without_color() {
    processes("split", 4);
    threads("split", 5);
}

#[test]
fn one_thread_has_all_ranks() {
    threads("one_thread", 1);
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    processes("refusals", 1);
    processes("refusals", 2);
}

#[test]
fn a_communicator_of_the_host_can_have_settings_of_its_own() {
    if has_compiler() {
        assert_well(start("own_settings", 2, |_, _| ()));
    }
}

#[test]
fn a_split_keeps_timeout_and_plans() {
    if !has_compiler() {
        return;
    }
    let plan = here().join("../runtime/tests/plans/msccl-all-reduce-ring.json");
    assert_well(start("split_keeps", 3, |_, command| {
        command.env("SYNCLINE_TIMEOUT", "300").env("PLAN", &plan);
    }));
}

#[test]
fn what_is_done_is_said_on_demand() {
    if !has_compiler() {
        return;
    }
    for level in ["info", "trace"] {
        let children = start("left", 2, |rank, command| {
            on_host(rank, command);
            command.env("SYNCLINE_DEBUG", level);
        });
        for (rank, child) in children.into_iter().enumerate() {
            let output = wait(child);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
            assert!(said.lines().all(|line| line.starts_with("syncline: ")), "{said}");
            assert!(said.contains(&format!("rank {rank} of 2 is served on memory of the host")), "{said}");
            assert_eq!(said.contains("ncclAllReduce: result 0"), level == "trace", "{said}");
            assert_eq!(said.contains("(result 6)"), rank == 0, "{said}");
        }
    }
}
