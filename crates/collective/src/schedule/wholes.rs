//! Which steps are parts of one.
//!
//! A step of a schedule works on consecutive chunks of a buffer, and on no more than a runtime moves at once. What an algorithm
//! sends as one message may be more than that, and becomes several steps. A file may say which of them are parts of one whole.
//! Such a whole is carried out as one step, which sends one message, where nobody can tell the difference but by its time:
//! nothing comes between its parts, nobody waits for a part but the last, and both ends of a message have the same parts.

use super::form::{Schedule, ScheduleStep};
use crate::verify::findings::{Findings, Kind, Site};
use crate::verify::machine::{Machine, StepId};
use std::collections::{BTreeMap, BTreeSet};
use syncline_core::Id;

/// Whether any step of a schedule says that it is a part of a whole.
pub(super) fn are_named(schedule: &Schedule) -> bool {
    schedule.ranks.iter().flat_map(|r| &r.thread_blocks).flat_map(|b| &b.steps).any(|s| s.whole.is_some())
}

/// The wholes of a schedule that have several parts.
#[derive(Default)]
pub(super) struct Wholes {
    /// The first part of the whole of each other part.
    first: BTreeMap<StepId, StepId>,
    /// All parts of each whole, in order, by the first one.
    parts: BTreeMap<StepId, Vec<StepId>>,
}

impl Wholes {
    /// The wholes of the steps of all threads, each in the order of its rows.
    ///
    /// # Errors
    /// Parts that cannot be carried out as one.
    pub(super) fn new(
        machine: &Machine,
        steps: &[&ScheduleStep],
        threads: &[Vec<Vec<StepId>>],
    ) -> Result<Wholes, Findings> {
        let mut thread_of = vec![0u32; steps.len()];
        for (number, row) in (0..).zip(threads.iter().flatten()) {
            row.iter().for_each(|id| thread_of[id.index()] = number);
        }
        let mut finder = Finder { machine, steps, thread_of, wholes: Wholes::default(), findings: Findings::default() };
        threads.iter().flatten().for_each(|row| finder.gather(row));
        finder.check_waits();
        finder.check_messages();
        if finder.findings.is_empty() { Ok(finder.wholes) } else { Err(finder.findings) }
    }

    /// The step whose place a step has: the first part of its whole.
    pub(super) fn first(&self, id: StepId) -> StepId {
        self.first.get(&id).copied().unwrap_or(id)
    }

    /// The other parts of a whole, by its first part.
    pub(super) fn others(&self, first: StepId) -> &[StepId] {
        self.parts.get(&first).map_or(&[], |parts| &parts[1..])
    }

    /// All parts of the whole of a step.
    fn of(&self, id: StepId) -> Vec<StepId> {
        self.parts.get(&self.first(id)).cloned().unwrap_or_else(|| vec![id])
    }
}

struct Finder<'a> {
    machine: &'a Machine,
    steps: &'a [&'a ScheduleStep],
    /// The thread of each step, among those of all ranks.
    thread_of: Vec<u32>,
    wholes: Wholes,
    findings: Findings,
}

impl Finder<'_> {
    /// Puts the steps of a thread together that are parts of one.
    fn gather(&mut self, row: &[StepId]) {
        let (mut seen, mut last) = (BTreeSet::new(), None);
        for &id in row {
            let (whole, before) = (self.steps[id.index()].whole, last.replace(id));
            let Some(whole) = whole else { continue };
            match before.filter(|before| self.steps[before.index()].whole == Some(whole)) {
                Some(before) => self.add(id, before),
                None if !seen.insert(whole) => {
                    self.find(id, format!("does not follow the other parts of whole {whole} of its thread"));
                }
                None => {}
            }
        }
    }

    /// Adds a step to the whole of the step before.
    fn add(&mut self, id: StepId, before: StepId) {
        let machine = self.machine;
        let (step, other) = (machine.step(id), machine.step(before));
        let peers = |step: StepId| {
            let rank = |other: Option<StepId>| other.map(|other| machine.thread_of(other).rank);
            (rank(machine.step(step).sender), rank(machine.step(step).taker))
        };
        if step.op != other.op || peers(id) != peers(before) {
            self.find(id, "is a part of the same whole as the step before it, but has another type or peer".into());
        } else if step.after.is_some_and(|on| !self.is_of_thread(on, id)) {
            self.find(id, "waits for another thread in the middle of its whole".into());
        } else {
            let first = self.wholes.first(before);
            self.wholes.first.insert(id, first);
            self.wholes.parts.entry(first).or_insert_with(|| vec![first]).push(id);
        }
    }

    fn is_of_thread(&self, other: StepId, id: StepId) -> bool {
        self.thread_of[other.index()] == self.thread_of[id.index()]
    }

    /// What waits for a whole waits for its end.
    fn check_waits(&mut self) {
        for id in (0..self.steps.len()).map(StepId::from_index) {
            let Some(on) = self.machine.step(id).after.filter(|&on| !self.is_of_thread(on, id)) else { continue };
            if self.wholes.of(on).last() != Some(&on) {
                self.find(id, "waits for a part of a whole that is not its last one".into());
            }
        }
    }

    /// The parts of a message are the same at both ends.
    fn check_messages(&mut self) {
        for id in (0..self.steps.len()).map(StepId::from_index) {
            let Some(taker) = self.machine.step(id).taker else { continue };
            let takers: Vec<Option<StepId>> =
                self.wholes.of(id).iter().map(|&part| self.machine.step(part).taker).collect();
            if takers != self.wholes.of(taker).into_iter().map(Some).collect::<Vec<_>>() {
                self.find(id, "sends a part of a whole that is received as a part of another one".into());
            }
        }
    }

    fn find(&mut self, id: StepId, message: String) {
        let (thread, number) = (self.machine.thread_of(id), self.machine.number_of(id));
        self.findings.add(Kind::Whole, Site::step(thread.rank, thread.number, number), message);
    }
}
