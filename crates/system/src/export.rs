//! Writes down the plan that a description's collective would follow.

use crate::build::try_out;
use crate::errors::RunError;
use crate::place::{composition, is_balanced};
use crate::setup::RunPlan;
use crate::spec::{JobSpec, Spec};
use syncline_collective::plan_file::PlanForm;
use syncline_collective::plan_file::write::{Head, form};
use syncline_collective::program::written::TooLarge;
use syncline_core::Refusal;

/// The plan of the collective that a JSON document describes, as it runs on the described fabric. It has no name.
///
/// # Errors
/// [`RunError::Spec`] if it describes no run of a collective, or one whose plan is too large to be written.
pub fn export(spec_json: &str) -> Result<PlanForm, RunError> {
    export_spec(&Spec::read(spec_json)?)
}

/// [`export`], of a description that has been read.
///
/// # Errors
/// As [`export`].
pub fn export_spec(spec: &Spec) -> Result<PlanForm, RunError> {
    if !matches!(spec.job, JobSpec::Collective { .. }) {
        return Err(Refusal::of("job", "only the plan of a collective can be written")
            .accepting("a collective")
            .into());
    }
    let plan = RunPlan::new(spec, try_out)?;
    let c = &spec.collectives;
    let (composition, balanced) = match c.plans.first() {
        Some(written) => written.written().map(|plan| (plan.composition, plan.balanced))?,
        None => (composition(c.algorithm), is_balanced(c.algorithm)),
    };
    let grid = plan.layout.sizes();
    let head = Head { name: String::new(), root: plan.job.root, grid: &grid, composition, balanced };
    let first = plan.layout.plans().next().expect("a collective has a plan");
    form(head, first).map_err(|error| too_large(error).into())
}

fn too_large(error: TooLarge) -> Refusal {
    match error {
        TooLarge::Threads { rank, threads } => Refusal::of("", format!("rank {rank} has {threads} threads"))
            .accepting(format!("up to {}", syncline_collective::program::written::MAX_THREADS)),
        TooLarge::Steps => Refusal::of("", "the plan has more steps than can be counted").accepting("up to 2^32"),
    }
}
