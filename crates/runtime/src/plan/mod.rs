//! Plans that may be executed: those that have been verified, and that fit the connections of the runtime.
//!
//! The verifier shows that a plan is right and that it ends on connections that hold as many messages as those of the runtime ([`Buffering::Slots`]). The runtime has a
//! ring for each rank and each thread of its peers, and a rank takes the messages of a ring in their order. That is the same if
//! all messages to a thread come from one thread of each sender, in the order in which they are taken. This is checked here, too, so that a
//! plan that could wait forever is refused before anything is sent.

pub mod library;
pub mod planner;

use crate::bootstrap::{Cause, Failure};
use crate::digest;
use crate::transport::ring::{SLOT_BYTES, SLOTS};
use serde::Deserialize;
use std::collections::BTreeMap;
use syncline_collective::plan_file::{self, PlanForm, WrittenPlan, read};
use syncline_collective::program::{Buffer, Op, Program, Slot};
use syncline_collective::schedule::{self, NotImported, Schedule, imported};
use syncline_collective::verify::{Buffering, Findings, Verifier};
use syncline_collective::{Algorithm, Axis, Composition, Kind, LineRank, PhaseId, Plan, PlanRequest, Rank};
use syncline_core::{Grid, Id, Refusal};

/// The most threads that a rank may have: each has connections of its own.
pub const MAX_THREADS: u16 = 256;

/// What the connections of the runtime hold.
const BUFFERING: Buffering = Buffering::Slots(SLOTS);

/// A plan that has been verified. There is no other way to make one.
#[derive(Debug)]
pub struct Verified {
    name: String,
    plan: Plan,
    grid: Grid,
    root: u32,
    phases: Vec<Verse>,
    memory: Memory,
    digest: u64,
}

/// A phase of a verified plan.
#[derive(Debug)]
pub(crate) struct Verse {
    pub(crate) program: Program,
    pub(crate) dim: u8,
    /// Blocks of the largest message.
    pub(crate) most_blocks: u32,
}

/// What memory the steps of a plan work on, as in [`syncline_collective::verify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Whether input and output are apart: data are in the input at first and expected in the output.
    pub(crate) is_apart: bool,
    /// Whether a step writes to the input, where that is apart.
    pub(crate) writes_input: bool,
    /// Whether places are named, so that blocks are equally long.
    pub(crate) has_places: bool,
    /// Blocks of scratch.
    pub(crate) scratch: u32,
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::new(Cause::Argument, message)
}

fn refusals(list: &[Refusal]) -> Failure {
    let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
    refused(format!("the plan cannot be executed: {}", texts.join("; ")))
}

impl Verified {
    /// The plan of an algorithm on a line of ranks.
    ///
    /// # Errors
    /// A [`Failure`] that says what is not supported.
    pub fn of_algorithm(algorithm: Algorithm, kind: Kind, ranks: u32, root: u32) -> Result<Verified, Failure> {
        let axes = [Axis { size: ranks, algorithm }];
        let request =
            PlanRequest { kind, composition: Composition::PerDimension, axes: &axes, root: Rank(root), order: None };
        let plan = Plan::new(request).map_err(|error| refusals(&[plan_file::verify::refusal(&error)]))?;
        Verified::new(algorithm.name().into(), plan, &[ranks], root)
    }

    /// The plan in a text: JSON of `syncline-plan`. Version 2 is that of plans, version 1 that of schedules of other tools, such
    /// as MSCCL's.
    ///
    /// # Errors
    /// A [`Failure`] that says what is wrong with it.
    pub fn of_json(text: &str) -> Result<Verified, Failure> {
        /// What both versions have.
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let no_plan = |error: serde_json::Error| refused(format!("this is no plan: {error}"));
        let Head { version } = serde_json::from_str(text).map_err(no_plan)?;
        if version == schedule::form::VERSION {
            return Verified::of_schedule(serde_json::from_str(text).map_err(no_plan)?, None);
        }
        let form: PlanForm = serde_json::from_str(text).map_err(no_plan)?;
        let written = read::read(&form).map_err(|list| refusals(&list))?;
        Verified::of_written(&written)
    }

    /// The plan of a schedule of another tool. Steps that are parts of one by the file are carried out by themselves, as the runtimes
    /// do that schedules are written for.
    ///
    /// # Errors
    /// A [`Failure`] that says what is wrong with it.
    pub fn of_schedule(mut schedule: Schedule, root: Option<u32>) -> Result<Verified, Failure> {
        let blocks = schedule.ranks.iter_mut().flat_map(|rank| &mut rank.thread_blocks);
        blocks.flat_map(|block| &mut block.steps).for_each(|step| step.whole = None);
        let report = schedule::verify(&schedule, root, BUFFERING).map_err(|refusal| refusals(&[refusal]))?;
        if !report.verified {
            let list = report.errors.into_iter().chain(report.flaws).collect();
            let findings = Findings { list, omitted: report.errors_omitted + report.flaws_omitted };
            return Err(refused(format!("the schedule is wrong: {findings}")));
        }
        let program = imported(&schedule, report.root).map_err(|error| match error {
            NotImported::Refused(refusal) => refusals(&[refusal]),
            NotImported::Wrong(findings) => refused(format!("the schedule is wrong: {findings}")),
        })?;
        let written = WrittenPlan::of_imported(&schedule.name, program);
        Verified::of_sound(written.name.clone(), planned(&written)?, &written.grid, written.root.0)
    }

    /// A plan with written programs.
    ///
    /// # Errors
    /// A [`Failure`] that says what is wrong with it.
    pub fn of_written(written: &WrittenPlan) -> Result<Verified, Failure> {
        Verified::new(written.name.clone(), planned(written)?, &written.grid, written.root.0)
    }

    fn new(name: String, plan: Plan, sizes: &[u32], root: u32) -> Result<Verified, Failure> {
        let elements = plan.equal_blocks().saturating_mul(2);
        Verifier::new(&plan, sizes, elements, true, BUFFERING)
            .verify()
            .map_err(|findings| refused(format!("the plan is wrong: {findings}")))?;
        Verified::of_sound(name, plan, sizes, root)
    }

    /// A plan that is right, if it fits the runtime.
    fn of_sound(name: String, plan: Plan, sizes: &[u32], root: u32) -> Result<Verified, Failure> {
        let sizes = sizes.iter().copied();
        let grid = Grid::checked(sizes).ok_or_else(|| refused("the grid of ranks is too large"))?;
        let whole = |kind| matches!(kind, Kind::AllReduce | Kind::Broadcast | Kind::Reduce);
        if plan.phases().len() > 1 && !whole(plan.kind()) {
            let message =
                format!("a plan of {} over several dimensions gives ranks other shares than their own", plan.kind());
            return Err(refused(message));
        }
        let mut phases = Vec::new();
        let mut memory = Memory { is_apart: false, writes_input: false, has_places: false, scratch: 0 };
        for (id, phase) in plan.phase_ids().zip(plan.phases()) {
            let program = plan.program(id, true);
            if program.has_switch() {
                return Err(refused("a plan with a switch that computes cannot be executed by its ranks alone"));
            }
            if program.threads() > MAX_THREADS {
                return Err(refused(format!("{} threads of a rank; accepted: up to {MAX_THREADS}", program.threads())));
            }
            let most_blocks = check(&program, phase.kind, &mut memory)?;
            if !whole(phase.kind) && !program.parts().is_multiple_of(phase.ranks) {
                return Err(refused(format!("{} blocks do not divide among {} ranks", program.parts(), phase.ranks)));
            }
            phases.push(Verse { program, dim: phase.dim, most_blocks });
        }
        if phases.len() > 1 && memory.has_places {
            return Err(refused("a plan of several phases whose steps name places"));
        }
        let digest = digest(&name, phases.iter().map(|phase| &phase.program));
        Ok(Verified { name, plan, grid, root, phases, memory, digest })
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The collective.
    pub fn kind(&self) -> Kind {
        self.plan.kind()
    }

    /// Its ranks.
    pub fn ranks(&self) -> u32 {
        self.grid.ranks()
    }

    /// The root of a rooted collective; else 0.
    pub fn root(&self) -> u32 {
        self.root
    }

    /// A number that differs where plans do, by name or by steps.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn grid(&self) -> &Grid {
        &self.grid
    }

    pub(crate) fn phases(&self) -> &[Verse] {
        &self.phases
    }

    pub(crate) fn memory(&self) -> Memory {
        self.memory
    }

    /// The most threads that a phase has.
    pub(crate) fn threads(&self) -> u16 {
        self.phases.iter().map(|phase| phase.program.threads()).max().unwrap_or(1)
    }

    /// The rank that has another place in the line of a phase.
    pub(crate) fn peer(&self, rank: u32, phase: usize, there: LineRank) -> u32 {
        self.grid.with_coordinate(rank, self.phases[phase].dim.into(), there.0)
    }

    /// The place of a rank in the line of a phase.
    pub(crate) fn place(&self, rank: u32, phase: usize) -> LineRank {
        LineRank(self.grid.coordinate(rank, self.phases[phase].dim.into()))
    }

    /// Whether a rank has steps in a phase.
    pub(crate) fn takes_part(&self, rank: u32, phase: usize) -> bool {
        self.plan.takes_part(PhaseId::from_index(phase), |dim| self.grid.coordinate(rank, dim.into()))
    }
}

/// The phases of a written plan.
fn planned(written: &WrittenPlan) -> Result<Plan, Failure> {
    written.plan(None).map_err(|error| refusals(&[plan_file::verify::refusal(&error)]))
}

/// The digest of a name and all steps.
fn digest<'a>(name: &str, programs: impl Iterator<Item = &'a Program>) -> u64 {
    let mut digest = digest::of(name.as_bytes());
    for program in programs {
        for rank in (0..program.ranks()).map(LineRank) {
            for at in program.slots(rank) {
                let step = format!("{:?}{:?}", program.step(rank, at), program.detail(rank, at));
                digest = digest::of_more(digest, step.as_bytes());
            }
        }
    }
    digest
}

/// Checks that messages are taken in the order of their connections, and notes what memory the steps name. Returns the blocks of
/// the largest message.
fn check(program: &Program, kind: Kind, memory: &mut Memory) -> Result<u32, Failure> {
    let mut most = 1;
    // By receiver, its thread and the sender: the sender's thread, and the last step that takes a message.
    let mut last: BTreeMap<(u32, u16, u32), (u16, u32)> = BTreeMap::new();
    for rank in (0..program.ranks()).map(LineRank) {
        for at in program.slots(rank) {
            let step = program.step(rank, at);
            if step.op == Op::ResidualAdd {
                return Err(refused("a plan that adds a residual, for which a collective has no buffer"));
            }
            let detail = program.detail(rank, at);
            for (place, writes) in [(detail.src, false), (detail.dst, true)] {
                let Some(place) = place else { continue };
                memory.has_places = true;
                let end = place.first.saturating_add(step.blocks.count);
                match place.buffer {
                    Buffer::Scratch => memory.scratch = memory.scratch.max(end),
                    buffer => {
                        memory.is_apart |= (buffer == Buffer::Input) == matches!(kind, Kind::AllGather | Kind::Gather);
                        memory.writes_input |= writes && buffer == Buffer::Input;
                    }
                }
            }
            // In reduce-scatter and scatter, a step without a place works in the input.
            memory.writes_input |=
                step.op.stores() && detail.dst.is_none() && matches!(kind, Kind::ReduceScatter | Kind::Scatter);
            if step.op.sends() {
                most = most.max(step.blocks.count);
                let Slot { thread, pc } = step.into;
                let now = (at.thread, pc);
                if let Some(before) = last.insert((step.to.0, thread, rank.0), now)
                    && (before.0 != now.0 || before.1 >= now.1)
                {
                    return Err(refused(format!(
                        "rank {}, thread {thread} takes messages of rank {rank} in another order than they are sent",
                        step.to,
                    )));
                }
            }
        }
    }
    if most as usize * 16 > SLOT_BYTES {
        return Err(refused(format!("a message of {most} blocks; accepted: up to {}", SLOT_BYTES / 16)));
    }
    Ok(most)
}
