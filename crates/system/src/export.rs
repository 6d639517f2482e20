//! Writes down the plan that a description's collective would follow.

use crate::build::try_out;
use crate::errors::RunError;
use crate::place::{composition, is_balanced};
use crate::setup::RunPlan;
use crate::spec::{FoldSpec, JobSpec, Spec};
use syncline_collective::plan_file::PlanForm;
use syncline_collective::plan_file::msccl::{self, Lane};
use syncline_collective::plan_file::write::{Head, form};
use syncline_collective::schedule::{Schedule, limits};
use syncline_collective::{Composition, LineRank, PhaseId, Plan, PlanId, Rank};
use syncline_core::Refusal;
use syncline_endpoint::{LaneOfGroup, Layout};

/// The number of the plan that is written: that of the collective, or the first of those that differ in the order of dimensions.
const PLAN: PlanId = PlanId(0);
/// The most instances of a schedule: as many as a runtime has channels.
const MOST_INSTANCES: usize = limits::CHANNELS as usize;

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
    let to_write = ToWrite::new(spec)?;
    let around = |phase: PhaseId| to_write.around[phase.index()];
    form(to_write.head(), &to_write.plan, around).map_err(|error| error.refusal().into())
}

/// The same as a schedule in the vocabulary of MSCCL, which has all lanes that the run has, so many times side by side.
///
/// # Errors
/// As [`export`], and with what that cannot hold.
pub fn schedule(spec_json: &str, instances: u32) -> Result<Schedule, RunError> {
    schedule_spec(&Spec::read(spec_json)?, instances)
}

/// [`schedule`], of a description that has been read.
///
/// # Errors
/// As [`schedule`].
pub fn schedule_spec(spec: &Spec, instances: u32) -> Result<Schedule, RunError> {
    let to_write = ToWrite::new(&Spec { fold: FoldSpec::Off, ..spec.clone() })?;
    if to_write.balanced {
        let message = "each chunk takes the order of dimensions that balances their load while it runs";
        return Err(Refusal::of("plan", message).accepting("the format plan, or algorithms of one order").into());
    }
    let instances = instances as usize;
    if !(1..=MOST_INSTANCES).contains(&instances) {
        let refusal = Refusal::of("instances", format!("there are {instances} instances"));
        return Err(refusal.accepting(format!("1 to {MOST_INSTANCES}")).into());
    }
    let once = to_write.lanes();
    let lanes: Vec<Vec<Lane>> = once.iter().cycle().take(once.len() * instances).cloned().collect();
    msccl::schedule(&to_write.head(), &to_write.plan, &lanes).map_err(RunError::Spec)
}

/// A plan, and what is written at its head.
struct ToWrite {
    /// The layout of the run, and the number of the plan there.
    layout: Layout,
    plan: Plan,
    /// For each phase, whether its ranks are places of rings that have lanes.
    around: Vec<bool>,
    root: Rank,
    grid: Vec<u32>,
    composition: Composition,
    balanced: bool,
}

impl ToWrite {
    fn new(spec: &Spec) -> Result<ToWrite, RunError> {
        if !matches!(spec.job, JobSpec::Collective { .. }) {
            let refusal = Refusal::of("job", "only the plan of a collective can be written");
            return Err(refusal.accepting("a collective").into());
        }
        let run = RunPlan::new(spec, try_out)?;
        let c = &spec.collectives;
        let (composition, balanced) = match c.plans.first() {
            Some(written) => written.written().map(|plan| (plan.composition, plan.balanced))?,
            None => (composition(c.algorithm), is_balanced(c.algorithm)),
        };
        let plan = run.layout().plan(PLAN).clone();
        let around =
            plan.phase_ids().map(|phase| plan.goes_round(phase) && run.layout().goes_round(PLAN, phase)).collect();
        let (layout, root, grid) = (run.layout().clone(), run.cohorts[0].first_plans[0].root, run.layout().sizes());
        Ok(ToWrite { layout, plan, around, root, grid, composition, balanced })
    }

    /// What is done in each phase of each lane.
    fn lanes(&self) -> Vec<Vec<Lane>> {
        let of_phase = |number: usize| {
            move |phase: PhaseId| {
                let LaneOfGroup { program, order, links } = self.layout.lane(PLAN, phase, number);
                Lane { program: program.clone(), order: order.map(<[LineRank]>::to_vec), links }
            }
        };
        let lanes = self.plan.phase_ids().map(|phase| self.layout.lanes_of(PLAN, phase)).max().unwrap_or(1);
        (0..lanes).map(|number| self.plan.phase_ids().map(of_phase(number)).collect()).collect()
    }

    fn head(&self) -> Head<'_> {
        let ToWrite { root, ref grid, composition, balanced, .. } = *self;
        Head { name: String::new(), root, grid, composition, balanced }
    }
}
