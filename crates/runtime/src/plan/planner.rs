//! Plans for the machine at hand, which the planner finds.
//!
//! The planner is the command `syncline`: it knows machines and topology files, detects the machine that it runs on
//! (`syncline topology detect`), and packs spanning trees for the GPUs that take part (`syncline trees`). One rank asks
//! it when the communicator is made, and tells the others. So there is one planner, and whoever wants to know why a
//! plan is as it is asks the same command.

use super::Verified;
use crate::bootstrap::{Cause, EXCHANGE_BYTES, Failure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// What the planner is asked for, by its names. Of rooted collectives, those of the first rank.
const COLLECTIVES: [&str; 5] = ["all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce"];
/// The size that trees are chosen for: they are used for large vectors only.
const SIZE: &str = "16MiB";
/// What is given in place of a machine's name, to have the machine detected.
const DETECT: &str = "detect";
/// The same, to have no trees.
const NONE: &str = "none";

/// What a user says of the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wish {
    /// Where its topology is found.
    pub topology: Topology,
    /// The GPU of each rank, as the planner writes lists; the first ones if not given.
    pub gpus: Option<String>,
    /// The planner.
    pub command: String,
}

/// Where a topology is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topology {
    /// It is that of a machine of this name, or in this file.
    Given(String),
    /// It is detected. If the ranks have GPUs, their PCI addresses, by rank and with commas between.
    Detected(Option<String>),
}

impl Topology {
    /// What is meant by a word, or by none, of ranks with GPUs at these PCI addresses.
    pub fn of(word: Option<String>, gpus: &[Option<String>]) -> Option<Topology> {
        let addresses: Option<Vec<&str>> = gpus.iter().map(Option::as_deref).collect();
        let addresses = addresses.filter(|list| !list.is_empty()).map(|list| list.join(","));
        match word {
            Some(word) if word == DETECT => Some(Topology::Detected(addresses)),
            Some(word) if word == NONE => None,
            Some(word) => Some(Topology::Given(word)),
            None => addresses.map(|addresses| Topology::Detected(Some(addresses))),
        }
    }
}

/// What the planner has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Plans, as texts.
    pub plans: Vec<String>,
    /// Whether the library's own algorithms serve if the plans turn out to be of no use.
    pub may_fail: bool,
    /// What to tell those who want to know.
    pub note: String,
}

/// What `syncline topology detect` has found.
#[derive(Deserialize)]
struct Detected {
    source: String,
    gpus: Vec<u32>,
    trees_links: Option<String>,
    reason: String,
    content: String,
}

impl Wish {
    /// What the environment says: `SYNCLINE_TOPOLOGY`, `SYNCLINE_GPUS` and `SYNCLINE_PLANNER` (`syncline` unless
    /// given). `gpus` are the PCI addresses of the GPUs of the ranks, where they have some: then the machine is
    /// detected if it is not given.
    pub fn from_environment(gpus: &[Option<String>]) -> Option<Wish> {
        let text = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let topology = Topology::of(text("SYNCLINE_TOPOLOGY"), gpus)?;
        let (gpus, command) = (text("SYNCLINE_GPUS"), text("SYNCLINE_PLANNER"));
        Some(Wish { topology, gpus, command: command.unwrap_or_else(|| "syncline".into()) })
    }

    /// The plans for so many ranks, which are all on this host or not.
    ///
    /// # Errors
    /// A [`Failure`] with what the planner has said, if the topology was given. A machine that cannot be detected is no
    /// failure.
    pub fn answer(&self, ranks: u32, is_one_host: bool) -> Result<Answer, Failure> {
        /// What has been found on this machine, which stays as it is.
        static FOUND: Mutex<BTreeMap<(Wish, u32), Answer>> = Mutex::new(BTreeMap::new());
        let addresses = match &self.topology {
            Topology::Given(name) => {
                let source = if Path::new(name).exists() { "--topology-file" } else { "--machine" };
                let gpus = self.gpus.clone().unwrap_or_else(|| first(ranks));
                let asked = Asked { name, topology: &[source, name], content: None, gpus: &gpus };
                let plans = self.plans(&asked).map_err(|message| Failure::new(Cause::Argument, message))?;
                return Ok(Answer { plans, may_fail: false, note: format!("trees on {name}, GPUs {gpus}") });
            }
            Topology::Detected(addresses) => addresses.as_deref(),
        };
        let none = |why: String| Answer { note: format!("no trees: {why}"), ..Answer::default() };
        if !is_one_host {
            return Ok(none("the ranks are on several hosts, whose topology is not detected".into()));
        }
        if ranks < 3 {
            return Ok(none("two ranks have one way to each other".into()));
        }
        let key = (self.clone(), ranks);
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = found.entry(key).or_insert_with(|| self.detected(ranks, addresses).unwrap_or_else(none));
        Ok(answer.clone())
    }

    fn detected(&self, ranks: u32, addresses: Option<&str>) -> Result<Answer, String> {
        let mut command = self.planner();
        let wanted = self.gpus.clone().or_else(|| addresses.map(str::to_owned)).unwrap_or_else(|| first(ranks));
        command.args(["topology", "detect", "--json", "--gpus", &wanted]);
        let found: Detected = serde_json::from_str(&started(command).and_then(ended)?)
            .map_err(|error| format!("what {} has detected cannot be read: {error}", self.command))?;
        let Some(links) = &found.trees_links else { return Err(format!("{}: {}", found.source, found.reason)) };
        let topology = ["--topology-file", "-", "--links", links];
        let gpus = found.gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let asked = Asked { name: &found.source, topology: &topology, content: Some(&found.content), gpus: &gpus };
        let plans = self.plans(&asked)?;
        Ok(Answer { plans, may_fail: true, note: format!("trees by {}, GPUs {gpus}: {}", found.source, found.reason) })
    }

    fn plans(&self, asked: &Asked<'_>) -> Result<Vec<String>, String> {
        let started: Vec<_> = COLLECTIVES.iter().map(|collective| self.start(collective, asked)).collect();
        // All are waited for, whatever comes of the first ones.
        let plans: Vec<Result<String, String>> = started.into_iter().map(|started| started.and_then(ended)).collect();
        let named = |(plan, collective): (Result<String, String>, &&str)| {
            plan.map_err(|what| {
                format!("the planner ({}) found no {collective} for {}: {what}", self.command, asked.name)
            })
        };
        let plans = plans.into_iter().zip(&COLLECTIVES).map(named).collect::<Result<Vec<_>, _>>()?;
        let bytes: usize = plans.iter().map(String::len).sum();
        if 2 * bytes > EXCHANGE_BYTES {
            return Err(format!("the plans for {} have {bytes} bytes, too many to tell the other ranks", asked.name));
        }
        Ok(plans)
    }

    fn start(&self, collective: &str, asked: &Asked<'_>) -> Result<Child, String> {
        let mut command = self.planner();
        command.arg("trees").args(asked.topology).args(["--gpus", asked.gpus, "--collective", collective]);
        command.args(["--size", SIZE, "--format", "plan"]);
        if let Some(content) = asked.content {
            command.stdin(memory(content).map_err(|error| format!("a topology cannot be handed over: {error}"))?);
        }
        started(command)
    }

    fn planner(&self) -> Command {
        let mut command = Command::new(&self.command);
        // It is a program of its own: what is preloaded here is not for it.
        command.env_remove("LD_PRELOAD").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// What trees are asked for.
struct Asked<'a> {
    /// What people call the topology.
    name: &'a str,
    /// How the planner is told of it.
    topology: &'a [&'a str],
    /// What it reads.
    content: Option<&'a str>,
    gpus: &'a str,
}

/// The first GPUs.
fn first(ranks: u32) -> String {
    format!("0-{}", ranks - 1)
}

fn started(mut command: Command) -> Result<Child, String> {
    command.spawn().map_err(|error| format!("{} cannot be run: {error}", command.get_program().display()))
}

/// What a command has said when it has ended, or why it has failed.
fn ended(child: Child) -> Result<String, String> {
    match child.wait_with_output() {
        Err(error) => Err(error.to_string()),
        Ok(output) if !output.status.success() => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(said.lines().map(str::trim).collect::<Vec<_>>().join("; "))
        }
        Ok(output) => String::from_utf8(output.stdout).map_err(|error| error.to_string()),
    }
}

/// A file in memory with a text, at its beginning. A pipe could break, and the signal end the program.
fn memory(text: &str) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("syncline-topology", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Verifies plans of texts, for so many ranks.
///
/// # Errors
/// A [`Failure`] that says what is wrong with one of them.
pub fn verified(texts: &[String], ranks: u32) -> Result<Vec<Verified>, Failure> {
    texts
        .iter()
        .map(|text| {
            let plan = Verified::of_json(text)?;
            if plan.ranks() == ranks {
                return Ok(plan);
            }
            let message = format!("the plan {} is for {} ranks, not {ranks}", plan.name(), plan.ranks());
            Err(Failure::new(Cause::Argument, message))
        })
        .collect()
}
