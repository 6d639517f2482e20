//! Ranks in processes of their own, which are killed and stopped. A rank is this test program, started again.

use crate::support::{all_reduce, counted, failure_of, join, now, options, wait_for_failure};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;
use syncline_runtime::bootstrap::{Cause, Failure, ID_BYTES, Options, Session, UniqueId};

/// A rank in a process of its own.
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts one. `role` is what it does, see [`rank`]; `timeout` is that of calls, in seconds.
    pub fn start(
        mut command: Command,
        role: &str,
        id: Option<&UniqueId>,
        rank: u32,
        ranks: u32,
        timeout: &str,
    ) -> Process {
        let id = id.map(|id| id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let mut child = command
            .args(["processes::rank", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env("ROLE", role)
            .env("ID", id.unwrap_or_default())
            .env("RANK", rank.to_string())
            .env("RANKS", ranks.to_string())
            .env("SYNCLINE_TIMEOUT", timeout)
            .env("SYNCLINE_JOIN_TIMEOUT", "20")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Process { child, lines }
    }

    /// Starts one on this host.
    fn here(role: &str, id: Option<&UniqueId>, rank: u32, ranks: u32, timeout: &str) -> Process {
        let mut command = this_program();
        command.env("SYNCLINE_ADDRESS", "127.0.0.1");
        Process::start(command, role, id, rank, ranks, timeout)
    }

    /// The rest of the next line that begins so.
    pub fn line(&mut self, begins: &str) -> String {
        loop {
            let line = self.lines.next().expect("the process has ended").unwrap();
            // The test harness writes in front of the first line.
            if let Some(place) = line.find(begins) {
                return line[place + begins.len()..].trim().to_owned();
            }
        }
    }

    /// The id that it has created.
    pub fn id(&mut self) -> UniqueId {
        parse_id(&self.line("id ")).unwrap()
    }

    /// The failure that it is told.
    pub fn failure(&mut self) -> Failure {
        serde_json::from_str(&self.line("failed ")).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This test program.
pub fn this_program() -> Command {
    let path: PathBuf = std::env::current_exe().unwrap();
    Command::new(path)
}

fn parse_id(text: &str) -> Option<UniqueId> {
    let mut bytes = [0; ID_BYTES];
    if text.len() != 2 * ID_BYTES {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).unwrap();
    }
    Some(UniqueId::from_bytes(&bytes).unwrap())
}

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(code: i32) -> !;
}

#[test]
#[ignore = "a rank that other tests start"]
fn rank() {
    let Ok(role) = std::env::var("ROLE") else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u32>().unwrap();
    let (rank, ranks) = (number("RANK"), number("RANKS"));
    let options = Options::from_environment().unwrap();
    let id = parse_id(&std::env::var("ID").unwrap()).unwrap_or_else(|| {
        let id = UniqueId::create(&options).unwrap();
        println!("\nid {}", id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        id
    });
    if role == "host" {
        thread::sleep(Duration::from_secs(60));
        return;
    }
    if role == "messages" {
        crate::messages::rank_process(&id, rank, ranks, &options);
        return;
    }
    let session = join(&id, rank, ranks, &options).unwrap();
    if role == "fork" || role == "fork and keep" {
        fork_and_go_on(session, role == "fork");
        return;
    }
    println!("\njoined");
    let failure = match role.as_str() {
        "wait" => {
            session.begin(7, all_reduce(4)).unwrap();
            wait_for_failure(&session, 7, None)
        }
        _ => failure_of(&session),
    };
    println!("\nfailed {}", serde_json::to_string(&failure).unwrap());
}

/// Uses the session in a forked child, which stays for 5 s, and goes on. The child drops it, which closes its copy of
/// the socket, or keeps it.
fn fork_and_go_on(session: Session, drops: bool) {
    // SAFETY: the child calls nothing that another thread may hold a lock of.
    if unsafe { fork() } == 0 {
        let refused = session.begin(0, all_reduce(4)).is_err_and(|failure| failure.cause == Cause::Argument);
        if drops {
            drop(session);
        } else {
            std::mem::forget(session);
        }
        let line: &[u8] = if refused { b"\nchild refused\n" } else { b"\nchild allowed\n" };
        let _ = rustix::io::write(std::io::stdout(), line);
        thread::sleep(Duration::from_secs(5));
        // SAFETY: nothing has to be done at the end of the child.
        unsafe { _exit(0) };
    }
    session.exchange(b"before").unwrap();
    println!("\nexchanged");
    let failure = failure_of(&session);
    println!("\nfailed {}", serde_json::to_string(&failure).unwrap());
}

#[test]
fn a_rank_that_is_killed_is_noticed_within_two_seconds() {
    let options = options(600_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let mut others: Vec<Process> = (1..4).map(|rank| Process::here("idle", Some(&id), rank, 4, "600")).collect();
    let (_, wake) = counted();
    let session = Session::join(&id, 0, 4, b"", wake, &options).unwrap();
    for other in &mut others {
        other.line("joined");
    }
    let began = now();
    others[1].signal(Signal::KILL);
    while session.failure().is_none() {
        assert!(began.elapsed() < Duration::from_secs(2), "not noticed");
        thread::sleep(Duration::from_micros(100));
    }
    println!("noticed {:?} after the signal", began.elapsed());
    let failure = session.failure().unwrap();
    assert_eq!((failure.cause, failure.rank), (Cause::Died, Some(2)));
    assert_eq!(failure.message, "rank 2 has died: its process has ended, or its host cannot be reached");
    for place in [0, 2] {
        assert_eq!(others[place].failure(), failure);
    }
}

#[test]
fn a_rank_that_is_stopped_is_named_after_the_timeout() {
    let options = options(700, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let mut others: Vec<Process> = (1..3).map(|rank| Process::here("idle", Some(&id), rank, 3, "0.7")).collect();
    let session = join(&id, 0, 3, &options).unwrap();
    for other in &mut others {
        other.line("joined");
    }
    session.begin(7, all_reduce(4)).unwrap();
    others[0].signal(Signal::STOP);
    let failure = wait_for_failure(&session, 7, Some(2));
    assert_eq!((failure.cause, failure.rank, failure.call), (Cause::TimedOut, Some(1), Some(7)));
    let message = "rank 1 does not answer (its process is stopped or its host is unreachable) \
                   in call 7 (an all-reduce of 4 float32 (sum))";
    assert_eq!(failure.message, message);
    assert_eq!(others[1].failure(), failure);
    // It hears of it when it goes on.
    others[0].signal(Signal::CONT);
    assert_eq!(others[0].failure(), failure);
}

#[test]
fn the_death_of_the_servers_process_is_that_of_its_rank() {
    let mut first = Process::here("idle", None, 0, 3, "600");
    let id = first.id();
    let mut third = Process::here("idle", Some(&id), 2, 3, "600");
    let session = join(&id, 1, 3, &options(600_000, 20_000)).unwrap();
    third.line("joined");
    let began = now();
    first.signal(Signal::KILL);
    let failure = failure_of(&session);
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!((failure.cause, failure.rank), (Cause::Died, Some(0)));
    assert_eq!(third.failure(), failure);

    let mut host = Process::here("host", None, 0, 2, "600");
    let session = join(&host.id(), 0, 1, &options(600_000, 20_000)).unwrap();
    host.signal(Signal::KILL);
    let failure = failure_of(&session);
    assert_eq!((failure.cause, failure.rank), (Cause::Died, None));
    assert!(failure.message.starts_with("the process that has created the id"), "{failure}");
}

#[test]
fn ranks_judge_by_their_own_clocks_if_the_server_is_stopped() {
    let mut first = Process::here("idle", None, 0, 3, "0.5");
    let id = first.id();
    let mut third = Process::here("wait", Some(&id), 2, 3, "0.5");
    let session = join(&id, 1, 3, &options(500, 20_000)).unwrap();
    first.line("joined");
    third.line("joined");
    first.signal(Signal::STOP);
    session.begin(7, all_reduce(4)).unwrap();
    let failure = wait_for_failure(&session, 7, Some(2));
    assert_eq!((failure.cause, failure.rank, failure.call), (Cause::TimedOut, Some(0), Some(7)));
    let message = "rank 0 does not answer (its process is stopped or its host is unreachable) in call 7";
    assert_eq!(failure.message, message);
    assert_eq!(third.failure(), failure);
    first.signal(Signal::CONT);
    assert_eq!(first.failure(), failure, "the rank of the server gets another failure");
}

#[test]
fn a_forked_child_disturbs_nobody() {
    death_beside_a_child("fork");
}

#[test]
fn a_forked_child_that_holds_the_socket_hides_no_death() {
    death_beside_a_child("fork and keep");
}

#[test]
fn a_forked_child_of_the_servers_process_hides_no_death() {
    let mut first = Process::here("fork and keep", None, 0, 2, "600");
    let session = join(&first.id(), 1, 2, &options(600_000, 20_000)).unwrap();
    first.line("child ");
    session.exchange(b"after").unwrap();
    first.line("exchanged");
    let began = now();
    first.signal(Signal::KILL);
    let failure = failure_of(&session);
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!((failure.cause, failure.rank), (Cause::Died, Some(0)));
}

fn death_beside_a_child(role: &str) {
    let options = options(600_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let mut other = Process::here(role, Some(&id), 1, 2, "600");
    let session = join(&id, 0, 2, &options).unwrap();
    assert_eq!(other.line("child "), "refused");
    session.exchange(b"after").unwrap();
    other.line("exchanged");
    assert_eq!(session.failure(), None);
    // The child lives on, with copies of sockets.
    let began = now();
    other.signal(Signal::KILL);
    let failure = failure_of(&session);
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!((failure.cause, failure.rank), (Cause::Died, Some(1)));
}

#[test]
fn a_rank_that_dies_while_others_join_is_told_to_those_who_come_later() {
    let options = options(600_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let early = Process::here("idle", Some(&id), 1, 3, "600");
    let second = thread::spawn(move || join(&id, 0, 3, &options).err().unwrap());
    // Until it has joined, for which there is no sign.
    thread::sleep(Duration::from_millis(500));
    early.signal(Signal::KILL);
    let failure = second.join().unwrap();
    assert_eq!((failure.cause, failure.rank), (Cause::Died, Some(1)));
    assert_eq!(join(&id, 2, 3, &crate::support::options(600_000, 20_000)).err().unwrap(), failure);
}

#[test]
fn a_death_is_told_by_the_control_plane_before_the_broken_connection_is() {
    let options = options(600_000, 20_000);
    let id = UniqueId::create(&options).unwrap();
    let mut other = Process::here("messages", Some(&id), 1, 2, "600");
    let rank = crate::messages::exchange_with_process(&id, 0, 2, &options);
    other.line("exchanged");
    other.signal(Signal::KILL);
    let failure = failure_of(&rank.session);
    assert_eq!(failure.message, "rank 1 has died: its process has ended, or its host cannot be reached");
}
