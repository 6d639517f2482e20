//! Plans of files: schedules that take the place of an algorithm.

use crate::errors::RunError;
use serde::{Deserialize, Deserializer};
use std::sync::{Arc, OnceLock};
use syncline_collective::plan_file::{PlanForm, WrittenPlan, read};
use syncline_collective::schedule::Schedule;
use syncline_collective::schedule::imported::{NotImported, imported};
use syncline_collective::verify::{Finding, Findings};
use syncline_core::Refusal;

/// A plan of a file. Copies of a description share it, and what was made of it: a run is set up several times.
#[derive(Clone, Debug)]
pub struct PlanSpec(Arc<(Source, OnceLock<Read>)>);

/// What a plan is read as.
type Read = Result<Arc<WrittenPlan>, Vec<Refusal>>;

/// The plan in one of its forms.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    /// A plan.
    #[serde(default)]
    plan: Option<PlanForm>,
    /// A schedule that is written out step by step, as in MSCCL.
    #[serde(default)]
    schedule: Option<Schedule>,
    /// The root of that, if the file does not say it.
    #[serde(default)]
    root: Option<u32>,
    /// Whether its steps are carried out as they are written, even if they are those of a built-in algorithm.
    #[serde(default)]
    literal: bool,
    /// Bytes of the largest collective that it is for, if there are plans for larger ones.
    #[serde(default)]
    up_to_bytes: Option<u64>,
}

impl<'de> Deserialize<'de> for PlanSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PlanSpec, D::Error> {
        Source::deserialize(deserializer).map(|source| PlanSpec(Arc::new((source, OnceLock::new()))))
    }
}

impl PlanSpec {
    /// The plan, read.
    ///
    /// # Errors
    /// [`RunError::Spec`] with all that is wrong, by the fields of this section.
    pub fn written(&self) -> Result<Arc<WrittenPlan>, RunError> {
        let (source, read) = &*self.0;
        read.get_or_init(|| source.read().map(Arc::new)).clone().map_err(RunError::Spec)
    }

    /// Whether its steps are carried out as they are written, even if they are those of a built-in algorithm.
    pub fn is_literal(&self) -> bool {
        self.0.0.literal
    }

    /// Bytes of the largest collective that it is for.
    pub fn up_to(&self) -> u64 {
        self.0.0.up_to_bytes.unwrap_or(u64::MAX)
    }

    /// A plan that has been written down, to be carried out step by step.
    pub fn literally(plan: PlanForm) -> PlanSpec {
        let source = Source { plan: Some(plan), literal: true, ..Source::default() };
        PlanSpec(Arc::new((source, OnceLock::new())))
    }

    /// A plan that has been made in memory.
    pub fn ready(plan: WrittenPlan) -> PlanSpec {
        let source = Source::default();
        PlanSpec(Arc::new((source, OnceLock::from(Ok(Arc::new(plan))))))
    }

    /// A schedule of another tool.
    pub fn of_schedule(schedule: Schedule) -> PlanSpec {
        let source = Source { schedule: Some(schedule), ..Source::default() };
        PlanSpec(Arc::new((source, OnceLock::new())))
    }
}

impl Source {
    fn read(&self) -> Result<WrittenPlan, Vec<Refusal>> {
        let within = |section: &str, refusals: Vec<Refusal>| {
            let named = |refusal: Refusal| if section.is_empty() { refusal } else { refusal.within(section) };
            refusals.into_iter().map(named).collect()
        };
        match (&self.plan, &self.schedule) {
            (Some(form), None) => read::read(form).map_err(|refusals| within("plan", refusals)),
            (None, Some(schedule)) => match imported(schedule, self.root) {
                Ok(imported) => Ok(WrittenPlan::of_imported(&schedule.name, imported)),
                Err(NotImported::Refused(refusal)) => Err(vec![refusal.within("schedule")]),
                Err(NotImported::Wrong(findings)) => Err(within("schedule", refusals(findings))),
            },
            _ => Err(vec![Refusal::of("", "neither a plan nor a schedule, or both").accepting("one of them")]),
        }
    }
}

/// What is wrong with a schedule, in the form of refusals.
pub(crate) fn refusals(findings: Findings) -> Vec<Refusal> {
    let refusal = |finding: Finding| {
        let (place, Finding { message, accepted, .. }) = (finding.place(), finding);
        let message = if place.is_empty() { message } else { format!("{place}: {message}") };
        Refusal { accepted, ..Refusal::of("", message) }
    };
    findings.list.into_iter().map(refusal).collect()
}
