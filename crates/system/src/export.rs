//! Writes down the plan that a description's collective would follow.

use crate::build::try_out;
use crate::errors::RunError;
use crate::place::{composition, is_balanced};
use crate::setup::RunPlan;
use crate::spec::{JobSpec, Spec};
use syncline_collective::plan_file::write::{Head, form};
use syncline_collective::plan_file::{PlanForm, msccl};
use syncline_collective::program::written::TooLarge;
use syncline_collective::schedule::Schedule;
use syncline_collective::{Composition, LineRank, PhaseId, Plan, PlanId, Program, Rank, WrittenPhase};
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
    let to_write = ToWrite::new(spec)?;
    let around = |phase: PhaseId| to_write.around[phase.index()];
    form(to_write.head(), &to_write.plan, around).map_err(|error| too_large(error).into())
}

/// The same as a schedule in the vocabulary of MSCCL: one direction of each ring.
///
/// # Errors
/// As [`export`], and with what that cannot hold.
pub fn schedule(spec_json: &str) -> Result<Schedule, RunError> {
    schedule_spec(&Spec::read(spec_json)?)
}

/// [`schedule`], of a description that has been read.
///
/// # Errors
/// As [`schedule`].
pub fn schedule_spec(spec: &Spec) -> Result<Schedule, RunError> {
    let to_write = ToWrite::new(spec)?;
    let plan = to_write.in_order_of_rings()?;
    msccl::schedule(&to_write.head(), &plan).map_err(RunError::Spec)
}

/// A plan, and what is written at its head.
struct ToWrite {
    plan: Plan,
    /// For each phase, whether its ranks are places of rings that have lanes, the program of the first of these, and its order.
    around: Vec<bool>,
    orders: Vec<(Program, Option<Vec<LineRank>>)>,
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
        let (id, plan) = (PlanId(0), run.layout.plans().next().expect("a collective has a plan").clone());
        let around = plan.phase_ids().map(|phase| run.layout.goes_round(id, phase)).collect();
        let first_lane = |phase| {
            let (program, order) = run.layout.first_lane(id, phase);
            (program.clone(), order.map(<[LineRank]>::to_vec))
        };
        let orders = plan.phase_ids().map(first_lane).collect();
        Ok(ToWrite { plan, around, orders, root: run.job.root, grid: run.layout.sizes(), composition, balanced })
    }

    /// The plan with rings in the order in which they run on the fabric, which a schedule has no other word for.
    fn in_order_of_rings(&self) -> Result<Plan, RunError> {
        if self.orders.iter().all(|(_, order)| order.is_none()) {
            return Ok(self.plan.clone());
        }
        let phase = |(program, order): &(Program, Option<Vec<LineRank>>)| {
            let up = match order {
                Some(_) if matches!(program, Program::Relay { .. }) => {
                    let message = "the ring has an order of its own, in which what is relayed is not consecutive";
                    return Err(Refusal::of("plan", message).accepting("the format plan, or direct"));
                }
                Some(order) => program.in_order(order).map_err(too_large)?,
                None => program.clone(),
            };
            Ok(WrittenPhase { around: false, down: up.clone(), up })
        };
        let programs = self.orders.iter().map(phase).collect::<Result<_, Refusal>>()?;
        Ok(self.plan.clone().written_as(programs))
    }

    fn head(&self) -> Head<'_> {
        let ToWrite { root, ref grid, composition, balanced, .. } = *self;
        Head { name: String::new(), root, grid, composition, balanced }
    }
}

fn too_large(error: TooLarge) -> Refusal {
    match error {
        TooLarge::Threads { rank, threads } => Refusal::of("", format!("rank {rank} has {threads} threads"))
            .accepting(format!("up to {}", syncline_collective::program::written::MAX_THREADS)),
        TooLarge::Steps => Refusal::of("", "the plan has more steps than can be counted").accepting("up to 2^32"),
    }
}
