//! Verifies plans of files: their programs, on all lines and in both directions.

use super::form::PlanForm;
use super::{WrittenPlan, read};
use crate::plan::{PhaseId, Plan, PlanError, Split};
use crate::program::{Program, walk};
use crate::rank::LineRank;
use crate::schedule::form::Collective;
use crate::schedule::report::{Counts, Report};
use crate::schedule::structure::MAX_CLOCKS;
use crate::verify::findings::{Remark, Site};
use crate::verify::{Buffering, Findings, Kind, Verifier};
use syncline_core::{Bytes, Grid, Refusal};

/// Most of what a plan is carried out on: steps of all ranks and phases, and blocks of all ranks.
const MOST: u64 = 1 << 26;

/// What is wrong with a plan whose steps are carried out on symbols.
///
/// # Errors
/// [`Findings`], also if it is too large for that.
pub fn verify(written: &WrittenPlan, plan: &Plan, buffering: Buffering) -> Result<(), Findings> {
    let too_large = |message: String, most: u64| {
        let mut findings = Findings::default();
        findings.add(Kind::TooLarge, Site::ALL, Remark::accepting(message, format!("up to {most}")));
        Err(findings)
    };
    let size = size(written, plan);
    if size > MOST {
        return too_large(format!("{size} steps and blocks of all ranks together"), MOST);
    }
    let clocks = plan.phase_ids().map(|phase| clocks(&plan.program(phase, true))).max().unwrap_or(0);
    if clocks > MAX_CLOCKS {
        return too_large(format!("{clocks} steps of a rank times its threads"), MAX_CLOCKS);
    }
    // Twice as many elements as there are blocks, so that a wrong number of them is not right by chance.
    let elements = plan.equal_blocks().saturating_mul(2);
    let turns = plan.phase_ids().any(|phase| plan.goes_round(phase));
    for up in [true, false].into_iter().take(1 + usize::from(turns)) {
        Verifier::new(plan, &written.grid, elements, up, buffering).verify()?;
    }
    Ok(())
}

/// Steps of all ranks and phases, and blocks of all ranks.
fn size(written: &WrittenPlan, plan: &Plan) -> u64 {
    let ranks = written.grid.iter().map(|&size| u64::from(size)).fold(1, u64::saturating_mul);
    let of_phase = |phase: PhaseId| {
        let lines = ranks / u64::from(plan.phases()[phase.index()].ranks);
        let program = plan.program(phase, true);
        let all = program.ranks() + u32::from(program.has_switch());
        let of_rank = |rank| (0..program.threads()).map(|thread| u64::from(program.steps(rank, thread))).sum::<u64>();
        (0..all).map(LineRank).map(of_rank).fold(0, u64::saturating_add).saturating_mul(lines)
    };
    let steps = plan.phase_ids().map(of_phase).fold(0, u64::saturating_add);
    steps.saturating_add(ranks.saturating_mul(plan.equal_blocks()).saturating_mul(2))
}

/// Steps of a rank times its threads, the most that a rank has: what it takes to know in which order they are done.
fn clocks(program: &Program) -> u64 {
    let all = program.ranks() + u32::from(program.has_switch());
    let steps = |rank| (0..program.threads()).map(move |thread| u64::from(program.steps(rank, thread))).sum::<u64>();
    let most = (0..all).map(LineRank).map(steps).max().unwrap_or(0);
    if program.threads() < 2 { 0 } else { most.saturating_mul(program.threads().into()) }
}

/// Reads and verifies a plan.
///
/// # Errors
/// What keeps it from being read.
pub fn report(form: &PlanForm, buffering: Buffering) -> Result<Report, Vec<Refusal>> {
    let written = read::read(form)?;
    let plan = written.plan(None).map_err(|error| vec![refusal(&error)])?;
    let flaws = verify(&written, &plan, buffering).err().unwrap_or_default();
    let is_rooted = written.kind.is_rooted();
    Ok(Report {
        name: written.name.clone(),
        collective: Collective::from(written.kind),
        in_place: true,
        root: is_rooted.then_some(written.root.0),
        root_inferred: false,
        buffering,
        verified: flaws.is_empty(),
        errors: Vec::new(),
        errors_omitted: 0,
        flaws: flaws.list,
        flaws_omitted: flaws.omitted,
        warnings: Vec::new(),
        warnings_omitted: 0,
        counts: (size(&written, &plan) <= MOST).then(|| count(&written, &plan)),
    })
}

/// Why a plan has no phases.
pub fn refusal(error: &PlanError) -> Refusal {
    match error {
        PlanError::NoProgram { kind, dim, ranks } => {
            let message = format!("there is no program for {kind} along dimension {dim} of {ranks} ranks");
            Refusal::of("programs", message).accepting("one for each phase")
        }
        PlanError::TooManyPhases(phases) => {
            let most = crate::plan::MAX_PHASES;
            Refusal::of("grid", format!("{phases} phases")).accepting(format!("up to {most}"))
        }
        PlanError::NoSuchRoot { root, ranks } => {
            Refusal::of("root", format!("there is no rank {root}")).accepting(format!("0 to {}", ranks - 1))
        }
        PlanError::Unsupported { .. } | PlanError::NoSlices { .. } => Refusal::of("programs", "a phase has no program"),
    }
}

/// What the plan amounts to, with rings that go up.
fn count(written: &WrittenPlan, plan: &Plan) -> Counts {
    let grid = Grid::new(written.grid.iter().copied());
    let elements = plan.equal_blocks();
    let split = Split { element: 1 };
    let mut sent = vec![0u64; grid.ranks() as usize];
    let (mut threads, mut steps, mut nops, mut messages) = (0, 0, 0, 0);
    for id in plan.phase_ids() {
        let (phase, program) = (plan.phases()[id.index()], plan.program(id, true));
        for (rank, sent) in (0..grid.ranks()).zip(&mut sent) {
            let coordinate = |dim: u8| grid.coordinate(rank, dim.into());
            if !plan.takes_part(id, coordinate) {
                continue;
            }
            let (_, vector) = plan.vector(id, Bytes(elements), split, coordinate);
            let own = LineRank(coordinate(phase.dim));
            for slot in program.slots(own) {
                let step = program.step(own, slot);
                threads += u32::from(slot.pc == 0);
                let does_something = u64::from(step.op != crate::program::Op::Nop);
                (steps, nops) = (steps + does_something, nops + 1 - does_something);
                if step.op.sends() {
                    messages += 1;
                    *sent += split.run(vector, program.parts(), step.blocks.first, step.blocks.count);
                }
            }
        }
    }
    let per_byte = |elements_sent: Option<&u64>| elements_sent.map_or(0.0, |&n| n as f64 / elements as f64);
    Counts {
        ranks: grid.ranks(),
        channels: 1,
        thread_blocks: threads,
        steps,
        nops,
        messages,
        chunks_sent: sent.iter().sum(),
        size_chunks: u32::try_from(elements).unwrap_or(u32::MAX),
        sent_per_byte_min: per_byte(sent.iter().min()),
        sent_per_byte_max: per_byte(sent.iter().max()),
        longest_path_steps: plan.phase_ids().map(|id| u64::from(walk::steps(&plan.program(id, true)))).sum(),
    }
}
