//! Plans for the machine at hand, which the planner finds.
//!
//! The planner is the command `syncline trees`: it knows machines and topology files, and packs spanning trees for the GPUs that
//! take part. One rank asks it when the communicator is made, and tells the others. So there is one planner, and whoever
//! wants to know why a plan is as it is asks the same command.

use super::Verified;
use crate::bootstrap::{Cause, EXCHANGE_BYTES, Failure};
use std::env;
use std::path::Path;
use std::process::Command;

/// What the planner is asked for, by its names. Of rooted collectives, those of the first rank.
const COLLECTIVES: [&str; 5] = ["all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce"];
/// The size that trees are chosen for: they are used for large vectors only.
const SIZE: &str = "16MiB";

/// What a user says of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// A machine's name, or a file with its topology.
    pub topology: String,
    /// The GPU of each rank, as the planner writes lists; the first ones if not given.
    pub gpus: Option<String>,
    /// The planner.
    pub command: String,
}

impl Wish {
    /// What the environment says: `SYNCLINE_TOPOLOGY`, `SYNCLINE_GPUS` and `SYNCLINE_PLANNER` (`syncline` unless given). Nothing, if
    /// there is no topology.
    pub fn from_environment() -> Option<Wish> {
        let text = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Some(Wish {
            topology: text("SYNCLINE_TOPOLOGY")?,
            gpus: text("SYNCLINE_GPUS"),
            command: text("SYNCLINE_PLANNER").unwrap_or_else(|| "syncline".into()),
        })
    }

    /// The plans for so many ranks, as texts.
    ///
    /// # Errors
    /// A [`Failure`] with what the planner has said.
    pub fn plans(&self, ranks: u32) -> Result<Vec<String>, Failure> {
        let plans = COLLECTIVES.iter().map(|collective| self.plan(collective, ranks)).collect::<Result<Vec<_>, _>>()?;
        let bytes: usize = plans.iter().map(String::len).sum();
        if 2 * bytes > EXCHANGE_BYTES {
            let message =
                format!("the plans for {} have {bytes} bytes, too many to tell the other ranks", self.topology);
            return Err(Failure::new(Cause::Argument, message));
        }
        Ok(plans)
    }

    fn plan(&self, collective: &str, ranks: u32) -> Result<String, Failure> {
        let source = if Path::new(&self.topology).exists() { "--topology-file" } else { "--machine" };
        let gpus = self.gpus.clone().unwrap_or_else(|| format!("0-{}", ranks - 1));
        let mut command = Command::new(&self.command);
        command.args(["trees", source, &self.topology, "--gpus", &gpus, "--collective", collective]);
        command.args(["--size", SIZE, "--format", "plan"]);
        // It is a program of its own: what is preloaded here is not for it.
        command.env_remove("LD_PRELOAD");
        let failed = |what: String| {
            let message = format!("the planner ({}) found no {collective} for {}: {what}", self.command, self.topology);
            Err(Failure::new(Cause::Argument, message))
        };
        match command.output() {
            Err(error) => failed(error.to_string()),
            Ok(output) if !output.status.success() => {
                let said = String::from_utf8_lossy(&output.stderr);
                failed(said.lines().map(str::trim).collect::<Vec<_>>().join("; "))
            }
            Ok(output) => String::from_utf8(output.stdout).or_else(|error| failed(error.to_string())),
        }
    }
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
