//! Writes the steps of thread blocks, and what they wait for.

use super::connections::{Block, Connections};
use super::group::Group;
use super::pieces::{self, Cuts};
use super::runs::Runs;
use super::unrolled::{StepId, Unrolled};
use super::{Memory, Operands};
use crate::program::{Op, Pace};
use crate::rank::Rank;
use crate::schedule::form::{Dependency, ScheduleStep, ThreadBlock, WayForm};
use std::collections::{BTreeMap, BTreeSet};

/// The thread blocks of all ranks.
pub(super) fn write(
    group: &Group<'_>,
    steps: &Unrolled,
    connections: &Connections,
    memory: &Memory,
    cuts: &Cuts,
) -> Vec<Vec<ThreadBlock>> {
    let waits = vec![Vec::new(); steps.steps.len()];
    let pace = group.pacing().pace();
    let mut writer = Writer { group, steps, connections, memory, cuts, pace, waits };
    group.all().map(|rank| writer.rank(rank)).collect()
}

struct Writer<'a> {
    group: &'a Group<'a>,
    steps: &'a Unrolled,
    connections: &'a Connections,
    memory: &'a Memory,
    /// Where each step is cut into several.
    cuts: &'a Cuts,
    /// When a message that follows another one is sent, as a rule.
    pace: Pace,
    /// The steps that each step waits for.
    waits: Vec<Vec<StepId>>,
}

impl Writer<'_> {
    fn rank(&mut self, rank: Rank) -> Vec<ThreadBlock> {
        self.find_waits(rank);
        let block = |(id, block): (u32, &Block)| {
            let all = &self.connections.all;
            let [out, back] = [block.out, block.back].map(|id| id.map(|id| all[id.index()]));
            let channel = out.or(back).map_or(0, |c| c.channel);
            let (send, recv) = (out.map(|c| c.to.0), back.map(|c| c.from.0));
            ThreadBlock { id, send, recv, thread: None, channel, steps: Vec::new() }
        };
        let mut blocks: Vec<ThreadBlock> = (0..).zip(&self.connections.blocks[rank.index()]).map(block).collect();
        let of_rank: Vec<StepId> = (0..self.steps.threads_of(rank))
            .flat_map(|thread| self.steps.through_phases(rank, thread))
            .filter(|&id| self.steps.step(id).op != Op::Nop)
            .collect();
        // Where each step ends up, which others have to know before they are written themselves.
        let mut lengths = vec![0u32; blocks.len()];
        let mut last: BTreeMap<StepId, Dependency> = BTreeMap::new();
        for &id in &of_rank {
            let thread_block = self.block_of(id);
            let length = &mut lengths[thread_block as usize];
            *length += (self.waits[id.index()].len().max(1) + self.cuts[id.index()].len()) as u32;
            last.insert(id, Dependency { thread_block, step: *length - 1 });
        }
        self.name_threads(&of_rank, &mut blocks);
        let (wholes, paces) = (self.wholes(&of_rank), self.paces(&of_rank));
        for &id in &of_rank {
            let (op, Operands { src, dst }) = (self.steps.step(id).op, &self.memory.of_step[id.index()]);
            let waits: Vec<Dependency> = self.waits[id.index()].iter().map(|on| last[on]).collect();
            let count = src.count().max(dst.count()); // equal, where it has both
            let step = self.steps.step(id);
            let way = self.group.way(rank, step.phase, step.detail.way).filter(|_| op.sends());
            let (whole, pace) = (wholes.get(&id).copied(), paces.get(&id).copied());
            let moves = Moves { op, src, dst, count, cuts: &self.cuts[id.index()], whole, way, pace };
            add(&mut blocks[self.block_of(id) as usize].steps, &moves, &waits);
        }
        self.add_copies(rank, &mut blocks);
        let awaited: BTreeSet<(u32, u32)> = blocks
            .iter()
            .flat_map(|b| &b.steps)
            .filter_map(|s| s.depends_on)
            .map(|on| (on.thread_block, on.step))
            .collect();
        for (thread_block, step) in awaited {
            blocks[thread_block as usize].steps[step as usize].has_dependents = true;
        }
        blocks
    }

    /// The number within its thread of each step of a rank that is written as several.
    fn wholes(&self, of_rank: &[StepId]) -> BTreeMap<StepId, u32> {
        let (mut wholes, mut last): (BTreeMap<StepId, u32>, _) = (BTreeMap::new(), None);
        let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
        for (nth, &id) in of_rank.iter().enumerate() {
            let goes_on = of_rank.get(nth + 1).is_some_and(|&next| self.steps.step(next).lane > 0);
            if self.steps.step(id).lane == 0 {
                let is_cut = goes_on || !self.cuts[id.index()].is_empty();
                last = is_cut.then(|| {
                    let count = counts.entry(self.steps.step(id).at.thread).or_default();
                    *count += 1;
                    *count - 1
                });
            }
            wholes.extend(last.map(|number| (id, number)));
        }
        wholes
    }

    /// The pace of each step of a rank that is followed by a message, if it is not that of the schedule; of a step that is
    /// written as several, at the first. Phases do not wait for each other's messages.
    fn paces(&self, of_rank: &[StepId]) -> BTreeMap<StepId, Pace> {
        let pace = |pair: &[StepId]| {
            let [step, next] = [pair[0], pair[1]].map(|id| self.steps.step(id));
            let is_followed = step.op.sends() && next.op == Op::Send && step.at.thread == next.at.thread;
            let pace = match step.phase == next.phase {
                true => self.group.program(step.phase).pace(self.group.own(step.rank, step.phase), step.at),
                false => Pace::Free,
            };
            (is_followed && pace != self.pace).then_some((pair[0], pace))
        };
        let firsts: Vec<StepId> = of_rank.iter().copied().filter(|&id| self.steps.step(id).lane == 0).collect();
        firsts.windows(2).filter_map(pace).collect()
    }

    fn block_of(&self, id: StepId) -> u32 {
        self.connections.of_step[id.index()]
    }

    /// What is copied beside the steps, in a thread block of its own.
    fn add_copies(&self, rank: Rank, blocks: &mut Vec<ThreadBlock>) {
        let Operands { src, dst } = &self.memory.copies[rank.index()];
        let count = src.count();
        if count == 0 {
            return;
        }
        let mut steps = Vec::new();
        let cuts = pieces::small_enough(&src.cuts().chain(dst.cuts()).collect(), count);
        let whole = (!cuts.is_empty()).then_some(0);
        add(&mut steps, &Moves { op: Op::Copy, src, dst, count, cuts: &cuts, whole, way: None, pace: None }, &[]);
        let id = blocks.len() as u32;
        let thread = blocks.iter().filter_map(|block| block.thread).max().map_or(0, |last| last + 1);
        blocks.push(ThreadBlock { id, send: None, recv: None, thread: Some(thread), channel: 0, steps });
    }

    /// Says of which threads the thread blocks of a rank are parts.
    fn name_threads(&self, of_rank: &[StepId], blocks: &mut [ThreadBlock]) {
        for &id in of_rank {
            blocks[self.block_of(id) as usize].thread = Some(self.steps.step(id).at.thread.into());
        }
    }

    /// Finds what the steps of a rank wait for: for what they say; where they begin a phase, for its last steps so far; and
    /// for the steps before them in their threads.
    fn find_waits(&mut self, rank: Rank) {
        let mut done: Vec<StepId> = Vec::new();
        for phase in self.group.phases() {
            let mut last_ones = Vec::new();
            for thread in 0..self.steps.threads_of(rank) {
                let mut last: Option<StepId> = None;
                let mut said: Vec<StepId> = Vec::new();
                for id in self.steps.thread(phase, rank, thread).map(StepId) {
                    let step = self.steps.step(id);
                    step.after.into_iter().for_each(|on| self.real(on, &mut said));
                    if step.op == Op::Nop {
                        continue; // the next step waits for it
                    }
                    match last {
                        Some(last) => said.push(last),
                        None => said.extend(&done),
                    }
                    self.waits[id.index()] = self.needed(id, std::mem::take(&mut said));
                    last = Some(id);
                }
                last_ones.extend(last);
            }
            if !last_ones.is_empty() {
                done = last_ones;
            }
        }
    }

    /// The steps that somebody waits for who waits for a step: that one or, if it only waits itself, what it waits for and the
    /// steps before it.
    fn real(&self, on: StepId, found: &mut Vec<StepId>) {
        let (mut open, mut seen) = (vec![on], BTreeSet::new());
        while let Some(id) = open.pop() {
            let step = self.steps.step(id);
            if step.op != Op::Nop {
                found.push(id);
            } else if seen.insert(id) {
                open.extend(self.steps.previous(id));
                open.extend(step.after);
            }
        }
    }

    /// Those of the steps that a step has to be told to wait for: of each other thread block, the last one.
    fn needed(&self, id: StepId, said: Vec<StepId>) -> Vec<StepId> {
        let own = self.block_of(id);
        let is_last = |on: StepId| said.iter().all(|&other| self.block_of(other) != self.block_of(on) || other <= on);
        let mut needed = Vec::new();
        for &on in &said {
            if self.block_of(on) != own && is_last(on) && !needed.contains(&on) {
                needed.push(on);
            }
        }
        needed
    }
}

/// What a step moves, and how.
struct Moves<'a> {
    op: Op,
    src: &'a Runs,
    dst: &'a Runs,
    count: u32,
    /// Where it is cut into several steps.
    cuts: &'a [u32],
    /// Its number, if it is written as several.
    whole: Option<u32>,
    way: Option<WayForm>,
    /// When the message that follows is sent, if that is not as in all the schedule.
    pace: Option<Pace>,
}

/// Adds a step that waits for several others, in as many pieces as it is cut into. A step waits for one other; before one that
/// waits for more there are steps that do nothing but wait.
fn add(steps: &mut Vec<ScheduleStep>, moves: &Moves<'_>, waits: &[Dependency]) {
    let Moves { op, src, dst, count, cuts, whole, pace, ref way } = *moves;
    let (mut depends_on, nops) = waits.split_last().map_or((None, waits), |(last, nops)| (Some(*last), nops));
    let step = |steps: &[ScheduleStep], op, depends_on| {
        let (id, [src, dst], count) = (steps.len() as u32, [None; 2], 0);
        let (way, pace, whole, has_dependents) = (None, None, None, false);
        ScheduleStep { id, op, src, dst, count, depends_on, way, pace, whole, has_dependents }
    };
    for on in nops {
        steps.push(step(steps, Op::Nop, Some(*on)));
    }
    let mut begin = 0;
    for end in cuts.iter().copied().chain([count]) {
        let (src, dst, way) = (src.at(begin), dst.at(begin), way.clone());
        steps.push(ScheduleStep {
            src,
            dst,
            count: end - begin,
            way,
            pace,
            whole,
            ..step(steps, op, depends_on.take())
        });
        begin = end;
    }
}
