//! Ranks that die, stop, stay away, abort, fork or ask for something else.

use crate::support::{assert_well, has_compiler, on_host, start, wait};
use std::process::{Child, Command};

fn impatient(rank: u32, command: &mut Command) {
    on_host(rank, command);
    // A rank may take a while to start, but not to call.
    command.env("SYNCLINE_TIMEOUT", "2").env("SYNCLINE_JOIN_TIMEOUT", "60");
}

fn over_tcp(rank: u32, command: &mut Command) {
    impatient(rank, command);
    command.env("SYNCLINE_TRANSPORT", "tcp");
}

fn processes(scenario: &str, ranks: u32) {
    if has_compiler() {
        assert_well(start(scenario, ranks, impatient));
    }
}

/// All but the last rank end well; the last one is killed at the end, if it is not dead by then.
fn without_last(scenario: &str, ranks: u32, environment: impl Fn(u32, &mut Command)) {
    if !has_compiler() {
        return;
    }
    let mut children: Vec<Child> = start(scenario, ranks, environment);
    let mut last = children.pop().unwrap();
    assert_well(children);
    last.kill().unwrap();
    assert!(!wait(last).status.success());
}

#[test]
fn a_call_returns_when_another_thread_aborts() {
    processes("aborted", 3);
}

#[test]
fn the_death_of_a_rank_fails_calls() {
    without_last("killed", 3, impatient);
}

#[test]
fn the_death_of_a_rank_shows_without_a_call() {
    without_last("killed_silently", 3, impatient);
}

#[test]
fn a_stopped_rank_is_found() {
    without_last("stopped", 3, impatient);
}

#[test]
fn a_rank_that_does_not_call_is_named() {
    processes("absent", 2);
}

#[test]
fn a_rank_that_leaves_is_named() {
    processes("left", 3);
}

#[test]
fn different_calls_fail_on_all_ranks() {
    processes("different", 3);
}

#[test]
fn a_forked_child_is_refused_and_the_parent_goes_on() {
    processes("forked", 2);
}

#[test]
fn a_split_without_a_rank_fails_on_all() {
    processes("split_alone", 3);
}

#[test]
fn ranks_that_share_no_memory_learn_of_failures_as_well() {
    without_last("killed", 3, over_tcp);
    without_last("stopped", 3, over_tcp);
    if has_compiler() {
        assert_well(start("aborted", 3, over_tcp));
        assert_well(start("forked", 2, over_tcp));
    }
}

#[test]
fn values_of_the_environment_that_mean_nothing_are_refused() {
    if !has_compiler() {
        return;
    }
    for (variable, value, accepted) in [
        ("SYNCLINE_TRANSPORT", "udp", "\"udp\"; accepted: tcp, or unset"),
        ("SYNCLINE_P2P", "2", "\"2\"; accepted: 0, 1, or unset"),
        ("SYNCLINE_TIMEOUT", "0", "\"0\", but has to be a number of seconds above 0"),
    ] {
        for child in start("all", 1, |rank, command| {
            on_host(rank, command);
            command.env(variable, value);
        }) {
            let output = wait(child);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(&format!("{variable} is {accepted}")), "{said}");
        }
    }
}
