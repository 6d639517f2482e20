//! Writes plans down.

use super::form::{LoopForm, NextForm, PlaceForm, PlanForm, ProgramForm, StepForm, VERSION};
use crate::plan::{Composition, PhaseId, Plan};
use crate::program::Detail;
use crate::program::loops::WrittenStep;
use crate::program::step::{Named, Place, Step};
use crate::program::written::{TooLarge, Written};
use crate::rank::{LineRank, Rank};
use crate::schedule::form::{Collective, WayForm};

/// What a plan does not say of itself.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// What people call it.
    pub name: String,
    /// The root of a rooted collective.
    pub root: Rank,
    /// The grid of its ranks.
    pub grid: &'a [u32],
    /// How it composes an all-reduce.
    pub composition: Composition,
    /// Whether it is one of several that differ in the order of dimensions.
    pub balanced: bool,
}

/// A plan, written down. `around` says of which phases the ranks are places of rings that have lanes.
///
/// # Errors
/// [`TooLarge`].
pub fn form(head: Head<'_>, plan: &Plan, around: impl Fn(PhaseId) -> bool) -> Result<PlanForm, TooLarge> {
    let mut programs: Vec<ProgramForm> = Vec::new();
    for (id, phase) in plan.phase_ids().zip(plan.phases()) {
        let collective = Collective::from(phase.kind);
        if programs.iter().any(|p| (p.collective, p.dim) == (collective, phase.dim)) {
            continue;
        }
        let around = around(id);
        let program = plan.program(id, true);
        let up = program.written_down()?;
        let down = if around { Some(plan.program(id, false).written_down()?) } else { None };
        let down = down.filter(|down| *down != up);
        let rotates = [Some(&up), down.as_ref()].into_iter().flatten().all(Written::is_rotation_symmetric);
        let pacing = program.pacing();
        programs.push(ProgramForm {
            collective,
            dim: phase.dim,
            blocks: program.parts(),
            around,
            switch: program.has_switch(),
            one_by_one: pacing.one_by_one,
            spreads: pacing.spreads,
            queues: pacing.queues,
            rotates,
            ranks: ranks(&up, rotates),
            down: down.map(|down| ranks(&down, rotates)),
        });
    }
    Ok(PlanForm {
        format: "syncline-plan".into(),
        version: VERSION,
        name: head.name,
        collective: plan.kind().into(),
        root: if plan.kind().is_rooted() { head.root.0 } else { 0 },
        grid: head.grid.to_vec(),
        composition: head.composition.into(),
        balanced: head.balanced,
        programs,
    })
}

/// A program that is written down, by rank and thread; of one that rotates, the first rank only.
fn ranks(written: &Written, rotates: bool) -> Vec<Vec<Vec<LoopForm>>> {
    let all = written.ranks() + u32::from(written.has_switch());
    let thread = |rank, thread| {
        let loops = written.loops(rank, thread);
        let of_loop = |(times, steps): (u32, &[WrittenStep])| LoopForm {
            times,
            steps: steps.iter().map(|s| step(s, times, written.named())).collect(),
        };
        loops.map(of_loop).collect()
    };
    let rank = |rank: LineRank| (0..written.threads_of(rank)).map(|t| thread(rank, t)).collect();
    (0..if rotates { 1 } else { all }).map(LineRank).map(rank).collect()
}

fn step(written: &WrittenStep, times: u32, named: &Named) -> StepForm {
    let WrittenStep { step, detail, advance } = *written;
    let Step { op, blocks, from, to, into } = step;
    let Detail { after, way, pace, src, dst } = detail;
    let place = |p: Place| PlaceForm { buffer: p.buffer, block: p.first };
    let (sends, receives) = (op.sends(), op.receives());
    let next = NextForm {
        block: advance.blocks,
        origin: advance.origin,
        peer: advance.peer,
        into: if sends { advance.into } else { 0 },
        after: advance.after,
    };
    StepForm {
        op,
        block: blocks.first,
        count: blocks.count,
        origin: blocks.origin,
        from: receives.then_some(from.0),
        to: sends.then_some(to.0),
        into: sends.then_some((into.thread, into.pc)),
        after: after.map(|slot| (slot.thread, slot.pc)),
        way: WayForm::of(way, named),
        pace,
        src: src.map(place),
        dst: dst.map(place),
        next: (times > 1 && next != NextForm::default()).then_some(next),
    }
}
