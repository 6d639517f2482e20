//! Ranks on two hosts, which are network name spaces with a cable between them.

use crate::processes::{Process, this_program};
use std::process::Command;
use syncline_runtime::bootstrap::Cause;

/// Two name spaces, which are removed at the end.
struct Hosts([String; 2]);

/// Runs ip(8) and says whether it has succeeded.
fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|output| output.status.success())
}

impl Hosts {
    /// None, if this is not permitted here.
    fn new() -> Option<Hosts> {
        let names = ["a", "b"].map(|end| format!("syncline{}{end}", std::process::id()));
        if !ip(&format!("netns add {}", names[0])) {
            return None;
        }
        let hosts = Hosts(names);
        let [a, b] = &hosts.0;
        let made = ip(&format!("netns add {b}"))
            && ip(&format!("-n {a} link add cable0 type veth peer name cable0 netns {b}"))
            && [a, b].into_iter().zip(1..).all(|(host, number)| {
                ip(&format!("-n {host} link set lo up"))
                    && ip(&format!("-n {host} address add 10.77.0.{number}/24 dev cable0"))
                    && ip(&format!("-n {host} link set cable0 up"))
            });
        made.then_some(hosts)
    }

    /// A rank on one of them, which uses the cable. Time-outs are 3 s.
    fn start(&self, host: usize, id: Option<&syncline_runtime::bootstrap::UniqueId>) -> Process {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[host]]).arg(this_program().get_program());
        command.env("SYNCLINE_SOCKET_IFNAME", "=cable0");
        Process::start(command, "messages", id, host as u32, 2, "3")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.0 {
            ip(&format!("netns delete {name}"));
        }
    }
}

#[test]
fn ranks_of_two_hosts_exchange_messages_and_notice_a_cut_cable() {
    let Some(hosts) = Hosts::new() else {
        println!("skipped: making network name spaces is not permitted here");
        return;
    };
    let mut first = hosts.start(0, None);
    let id = first.id();
    assert_eq!(id.server().ip().to_string(), "10.77.0.1");
    let mut second = hosts.start(1, Some(&id));
    first.line("exchanged");
    second.line("exchanged");
    assert!(ip(&format!("-n {} link set cable0 down", hosts.0[0])));
    for (process, other) in [(&mut first, 1), (&mut second, 0)] {
        let failure = process.failure();
        // The system may find out before the time is over that the host cannot be reached.
        assert!([Cause::TimedOut, Cause::Died].contains(&failure.cause), "{failure}");
        assert_eq!(failure.rank, Some(other));
        println!("{failure}");
    }
}
