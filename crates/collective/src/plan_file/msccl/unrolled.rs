//! The steps of a plan, one by one: for all phases, ranks and threads, with the messages between them.

use super::group::Group;
use crate::plan::PhaseId;
use crate::program::{Blocks, Detail, Op, Slot};
use crate::rank::{LineRank, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use syncline_core::{Id, Refusal, id_type};

id_type!(
    /// A step among those of all phases, ranks and threads. Steps of a rank that follow one another in a thread have
    /// ascending numbers, also from one phase to the next.
    StepId
);

/// A step of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanStep {
    pub(super) op: Op,
    pub(super) rank: Rank,
    pub(super) phase: PhaseId,
    pub(super) at: Slot,
    pub(super) blocks: Blocks,
    pub(super) detail: Detail,
    /// Which of several connections side by side its messages take.
    pub(super) lane: u32,
    /// The step that takes what it sends, if it sends.
    pub(super) taker: Option<StepId>,
    /// The step that sends what it takes, if it receives.
    pub(super) sender: Option<StepId>,
    /// A step of another thread of its rank that has to be done before.
    pub(super) after: Option<StepId>,
}

/// All steps.
pub(super) struct Unrolled {
    pub(super) steps: Vec<PlanStep>,
    /// The steps of each thread, by phase and rank. Ranks that take no part in a phase have no threads in it.
    threads: Vec<Vec<Vec<Range<u32>>>>,
}

impl Unrolled {
    /// The steps of a plan, if they fit each other.
    pub(super) fn new(group: &Group<'_>) -> Result<Unrolled, Refusal> {
        let mut all = Unrolled { steps: Vec::new(), threads: Vec::new() };
        for phase in group.phases() {
            let program = group.program(phase);
            let mut ranks = Vec::with_capacity(group.ranks() as usize);
            for rank in group.all() {
                let own = group.own(rank, phase);
                let threads = if group.takes_part(rank, phase) { program.threads() } else { 0 };
                let mut of_rank = Vec::with_capacity(threads.into());
                for thread in 0..threads {
                    let start = all.steps.len() as u32;
                    for pc in 0..program.steps(own, thread) {
                        let at = Slot { thread, pc };
                        let (step, detail) = (program.step(own, at), program.detail(own, at));
                        let (op, blocks) = (step.op, step.blocks);
                        let [taker, sender, after] = [None; 3];
                        all.steps.push(PlanStep { op, rank, phase, at, blocks, detail, lane: 0, taker, sender, after });
                    }
                    of_rank.push(start..all.steps.len() as u32);
                }
                ranks.push(of_rank);
            }
            all.threads.push(ranks);
        }
        (0..all.steps.len()).map(StepId::from_index).try_for_each(|id| all.link(group, id))?;
        match all.steps.iter().find(|s| s.op.receives() && s.sender.is_none()) {
            Some(step) => Err(step.wrong("waits for a message that nobody sends")),
            None => Ok(all),
        }
    }

    /// The same threads with more steps, which come in the place of each step from the numbers `starts` on.
    pub(super) fn renumbered(mut self, steps: Vec<PlanStep>, starts: &[u32]) -> Unrolled {
        for thread in self.threads.iter_mut().flatten().flatten() {
            *thread = starts[thread.start as usize]..starts[thread.end as usize];
        }
        Unrolled { steps, ..self }
    }

    /// Finds the other steps that a step names.
    fn link(&mut self, group: &Group<'_>, id: StepId) -> Result<(), Refusal> {
        let step = self.steps[id.index()];
        let own = group.own(step.rank, step.phase);
        let named = group.program(step.phase).step(own, step.at);
        let places = group.ranks_of_line(step.phase);
        let peers = [(step.op.receives(), named.from), (step.op.sends(), named.to)];
        if let Some((_, peer)) = peers.into_iter().find(|p| p.0 && (p.1 == own || p.1.0 >= places)) {
            return Err(step.wrong(&format!("has rank {peer} for its peer")));
        }
        if let Some(after) = step.detail.after {
            let found = self.find(step.phase, step.rank, after);
            let found = found.filter(|_| after.thread != step.at.thread || after.pc < step.at.pc);
            self.steps[id.index()].after =
                Some(found.ok_or_else(|| step.wrong("waits for a step that does not exist, or comes later"))?);
        }
        if step.op != Op::Nop && step.blocks.count == 0 {
            return Err(step.wrong("works on no blocks, for which MSCCL has no word"));
        }
        if step.op.sends() {
            let taker = self.find(step.phase, group.peer(step.rank, step.phase, named.to), named.into);
            let takes = |id: &StepId| {
                let taker = &self.steps[id.index()];
                let from: LineRank = group.program(step.phase).step(named.to, named.into).from;
                taker.op.receives() && taker.sender.is_none() && from == own && taker.blocks == step.blocks
            };
            let taker = taker.filter(takes).ok_or_else(|| step.wrong("sends what no step takes"))?;
            self.steps[id.index()].taker = Some(taker);
            self.steps[taker.index()].sender = Some(id);
        }
        Ok(())
    }

    fn find(&self, phase: PhaseId, rank: Rank, at: Slot) -> Option<StepId> {
        let steps = self.thread(phase, rank, at.thread);
        (at.pc < steps.len() as u32).then(|| StepId(steps.start + at.pc))
    }

    /// For each step, the one that first sends what it takes; itself, if it takes nothing.
    pub(super) fn origins(&self) -> Result<Vec<StepId>, Refusal> {
        let mut origins: Vec<Option<StepId>> = vec![None; self.steps.len()];
        for id in (0..self.steps.len()).map(StepId::from_index) {
            let mut way = vec![id];
            let origin = loop {
                let at = way[way.len() - 1];
                match (origins[at.index()], self.step(at).sender) {
                    (Some(known), _) => break known,
                    (None, None) => break at,
                    (None, Some(_)) if way.len() > self.steps.len() => {
                        return Err(self.step(at).wrong("passes on what it has sent itself"));
                    }
                    (None, Some(sender)) => way.push(sender),
                }
            };
            way.iter().for_each(|step| origins[step.index()] = Some(origin));
        }
        Ok(origins.into_iter().flatten().collect())
    }

    /// Most threads that a rank has in a phase.
    pub(super) fn threads_of(&self, rank: Rank) -> u16 {
        self.threads.iter().map(|ranks| ranks[rank.index()].len()).max().unwrap_or(0) as u16
    }

    /// The steps of a thread in a phase.
    pub(super) fn thread(&self, phase: PhaseId, rank: Rank, thread: u16) -> Range<u32> {
        self.threads[phase.index()][rank.index()].get(usize::from(thread)).cloned().unwrap_or_default()
    }

    /// The steps of a thread through all phases, which go one after the other.
    pub(super) fn through_phases(&self, rank: Rank, thread: u16) -> impl Iterator<Item = StepId> + Clone {
        (0..self.threads.len()).flat_map(move |p| self.thread(PhaseId::from_index(p), rank, thread)).map(StepId)
    }

    /// A step.
    pub(super) fn step(&self, id: StepId) -> &PlanStep {
        &self.steps[id.index()]
    }

    /// All steps and their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (StepId, &PlanStep)> {
        (0..).map(StepId).zip(&self.steps)
    }

    /// Whether the second step of each pair comes before the first one, by the order of threads and by what steps say that they
    /// wait for. Pairs are of one rank and phase.
    pub(super) fn all_precede(&self, pairs: &BTreeSet<(StepId, StepId)>) -> bool {
        let mut known: Option<(StepId, BTreeMap<u16, u32>)> = None;
        pairs.iter().all(|&(step, before)| {
            let [there, here] = [before, step].map(|id| self.step(id).at);
            if there.thread == here.thread {
                return there.pc < here.pc;
            }
            if known.as_ref().is_none_or(|(of, _)| *of != step) {
                known = Some((step, self.known_before(step)));
            }
            let done = known.as_ref().and_then(|(_, done)| done.get(&there.thread));
            done.is_some_and(|&pc| there.pc <= pc)
        })
    }

    /// The last step of each thread of a phase that is known to be done before a step; of its own thread, it is itself.
    fn known_before(&self, step: StepId) -> BTreeMap<u16, u32> {
        let mut done: BTreeMap<u16, u32> = BTreeMap::new();
        let mut open = vec![step];
        while let Some(id) = open.pop() {
            let Slot { thread, pc } = self.step(id).at;
            // What comes before what is known has been seen.
            let seen = done.insert(thread, pc).map_or(0, |known| known + 1);
            if seen > pc {
                done.insert(thread, seen - 1);
                continue;
            }
            open.extend((id.0 - (pc - seen)..=id.0).filter_map(|id| self.step(StepId(id)).after));
        }
        done
    }

    /// The step before another one in its thread and phase.
    pub(super) fn previous(&self, id: StepId) -> Option<StepId> {
        (self.step(id).at.pc > 0).then(|| StepId(id.0 - 1))
    }
}

impl PlanStep {
    /// What is wrong with it.
    pub(super) fn wrong(&self, what: &str) -> Refusal {
        let PlanStep { op, rank, phase, at: Slot { thread, pc }, .. } = self;
        let name = op.name();
        Refusal::of(
            "plan",
            format!("in phase {phase}, step {pc} of thread {thread} of rank {rank} (type {name}) {what}"),
        )
    }
}
