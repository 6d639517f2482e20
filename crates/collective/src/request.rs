//! What is asked of the verifier from outside: a schedule or a plan, in JSON.

use crate::plan_file::{self, PlanForm};
use crate::schedule::{Schedule, verify};
use crate::verify::Buffering;
use serde::Deserialize;
use syncline_core::Refusal;

/// What is asked for, as it crosses the binding.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// The root; from the schedule, or from what it does, if not given.
    pub root: Option<u32>,
    /// What connections hold.
    pub buffering: Buffering,
    /// The schedule.
    #[serde(default)]
    pub schedule: Option<Schedule>,
    /// Or the plan.
    #[serde(default)]
    pub plan: Option<PlanForm>,
}

/// Verifies the schedule, or the plan, of a [`VerifyRequest`] in JSON, and returns a [`Report`] in JSON.
///
/// # Errors
/// [`Refusal`]s, also for what is not a request.
pub fn verify_json(text: &str) -> Result<String, Vec<Refusal>> {
    let request: VerifyRequest = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        vec![Refusal::of("schedule", message.strip_suffix(&place).unwrap_or(&message)).in_line(error.line())]
    })?;
    let refused = |field: &str, message: &str| Err(vec![Refusal::of(field, message)]);
    let report = match (&request.schedule, &request.plan) {
        (Some(schedule), None) => verify(schedule, request.root, request.buffering).map_err(|refusal| vec![refusal])?,
        (None, Some(_)) if request.buffering == Buffering::Slots(0) => {
            return refused("buffering", "connections that hold nothing pass nothing on");
        }
        (None, Some(plan)) if request.root.is_some_and(|root| root != plan.root) => {
            return refused("root", &format!("the plan is for root {}", plan.root));
        }
        (None, Some(plan)) => plan_file::verify::report(plan, request.buffering)?,
        _ => return refused("schedule", "a schedule or a plan, and not both"),
    };
    serde_json::to_string(&report).map_err(|error| vec![Refusal::of("schedule", error.to_string())])
}
