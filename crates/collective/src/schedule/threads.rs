//! Which thread blocks are parts of one thread, and the order of its steps.
//!
//! A thread block has one peer either way; a thread may have several. A file may say of which thread a block is a part. The
//! blocks of such a thread do their steps one after the other, since each waits for the one before, so that they are one row of
//! steps. Steps that only wait for others of their thread have then nothing to wait for, and are left out. Steps that are
//! parts of one whole have one place.

use crate::program::Op;
use crate::program::written::MAX_THREADS;
use crate::rank::Rank;
use crate::schedule::form::{Schedule, ScheduleStep};
use crate::schedule::wholes::{self, Wholes};
use crate::verify::findings::Findings;
use crate::verify::machine::{Machine, StepId};
use std::ops::Range;

/// The steps of each thread of each rank, in order.
pub(super) struct Threads {
    /// By rank and thread; of a whole, its first part.
    pub(super) steps: Vec<Vec<Vec<StepId>>>,
    /// Where each step stands: thread, and place in it. Of a step that is left out, the place of the one before, if any.
    places: Vec<(u16, Option<u32>)>,
    /// Steps that are parts of one.
    pub(super) wholes: Wholes,
}

impl Threads {
    /// The threads of a schedule that has been verified, and whose steps are these.
    ///
    /// # Errors
    /// Steps that are parts of one by the file, and cannot be carried out as one.
    pub(super) fn new(machine: &Machine, schedule: &Schedule, steps: &[&ScheduleStep]) -> Result<Threads, Findings> {
        let mut rows_of_ranks = Vec::with_capacity(machine.ranks.len());
        for (rank, of_rank) in (0..).map(Rank).zip(&machine.ranks) {
            let names = names(schedule, rank);
            let groups = groups(of_rank.clone(), &names);
            let rows: Option<Vec<Vec<StepId>>> = groups.iter().map(|group| in_a_row(machine, group)).collect();
            // Blocks that do not follow one another are threads of their own, whatever the file says.
            rows_of_ranks.push(
                rows.unwrap_or_else(|| of_rank.clone().map(|thread| steps_of(machine, thread).collect()).collect()),
            );
        }
        let wholes = match wholes::are_named(schedule) {
            true => Wholes::new(machine, steps, &rows_of_ranks)?,
            false => Wholes::default(),
        };
        let mut threads = Threads { steps: Vec::new(), places: vec![(0, None); machine.steps.len()], wholes };
        for rows in rows_of_ranks {
            for (number, row) in (0..).zip(&rows) {
                row.iter().for_each(|id| threads.places[id.index()].0 = number);
            }
            let rows = rows.into_iter().map(|row| threads.without_idle_steps(machine, row)).collect();
            threads.steps.push(rows);
        }
        Ok(threads)
    }

    /// Gives the steps of a row their places, without those that have nothing to wait for and all parts of wholes but the first.
    fn without_idle_steps(&mut self, machine: &Machine, row: Vec<StepId>) -> Vec<StepId> {
        let mut kept: Vec<StepId> = Vec::with_capacity(row.len());
        for id in row {
            let step = machine.step(id);
            let waits_for_others = step.after.is_some_and(|on| self.places[on.index()].0 != self.places[id.index()].0);
            if self.wholes.first(id) == id && (step.op != Op::Nop || waits_for_others) {
                kept.push(id);
            }
            self.places[id.index()].1 = (kept.len() as u32).checked_sub(1);
        }
        kept
    }

    /// Thread and place of a step, or of the one before if it is left out; none if there is no such step.
    pub(super) fn slot(&self, id: StepId) -> Option<(u16, u32)> {
        let (thread, place) = self.places[id.index()];
        place.map(|place| (thread, place))
    }
}

/// Of which thread each thread block of a rank is a part, by its number.
fn names(schedule: &Schedule, rank: Rank) -> Vec<Option<u32>> {
    let found = schedule.ranks.iter().find(|r| r.id == rank.0);
    let mut blocks: Vec<(u32, Option<u32>)> =
        found.map_or(Vec::new(), |r| r.thread_blocks.iter().map(|b| (b.id, b.thread)).collect());
    blocks.sort_unstable();
    blocks.into_iter().map(|(_, thread)| thread).collect()
}

/// The thread blocks of each thread: first those that are named, at the place of their name, then the others in their order.
/// Names beyond all threads name nothing.
fn groups(blocks: Range<u32>, names: &[Option<u32>]) -> Vec<Vec<u32>> {
    let named = names.iter().filter_map(|&name| name).map(|name| name.saturating_add(1)).max().unwrap_or(0);
    if named as usize > MAX_THREADS {
        return blocks.map(|block| vec![block]).collect();
    }
    let of = |wanted: Option<u32>| {
        let blocks = blocks.clone().zip(names).filter(move |(_, name)| **name == wanted);
        blocks.map(|(block, _)| block)
    };
    let mut groups: Vec<Vec<u32>> = (0..named).map(|name| of(Some(name)).collect()).collect();
    groups.extend(of(None).map(|block| vec![block]));
    groups
}

fn steps_of(machine: &Machine, thread: u32) -> impl Iterator<Item = StepId> + use<> {
    machine.threads[thread as usize].steps.clone().map(StepId)
}

/// The steps of some thread blocks one after the other, if each waits for the one before. Steps that only wait belong to the
/// step that follows them.
fn in_a_row(machine: &Machine, blocks: &[u32]) -> Option<Vec<StepId>> {
    if let [only] = blocks {
        return Some(steps_of(machine, *only).collect());
    }
    let mut rest: Vec<Vec<Vec<StepId>>> = blocks.iter().map(|&block| units(machine, block)).collect();
    rest.iter_mut().for_each(|units| units.reverse());
    let mut done = vec![false; machine.steps.len()];
    let within = |on: StepId| blocks.contains(&machine.step(on).thread.0);
    let mut row = Vec::new();
    while rest.iter().any(|units| !units.is_empty()) {
        let may_be_next = |units: &Vec<Vec<StepId>>| {
            let waits = units.last()?.iter().filter_map(|&id| machine.step(id).after.filter(|&on| within(on)));
            let own = units.last()?;
            waits.into_iter().all(|on| done[on.index()] || own.contains(&on)).then_some(())
        };
        let mut ready = (0..rest.len()).filter(|&i| may_be_next(&rest[i]).is_some());
        let (first, None) = (ready.next()?, ready.next()) else { return None };
        let unit = rest[first].pop()?;
        unit.iter().for_each(|id| done[id.index()] = true);
        row.extend(unit);
    }
    Some(row)
}

/// The steps of a thread block, each with those before it that only wait.
fn units(machine: &Machine, block: u32) -> Vec<Vec<StepId>> {
    let mut units: Vec<Vec<StepId>> = vec![Vec::new()];
    for id in steps_of(machine, block) {
        units.last_mut().expect("there is one").push(id);
        if machine.step(id).op != Op::Nop {
            units.push(Vec::new());
        }
    }
    units.retain(|unit| !unit.is_empty());
    units
}
