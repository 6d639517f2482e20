//! Lays a program out for the verifier, on a line of ranks.

use super::cuts::{Cuts, Marks};
use super::findings::{Findings, Kind, Remark, Site};
use super::held::Part;
use super::layout::{Layout, Named};
use super::machine::{Cells, Connection, ConnectionId, Instruction, Machine, Names, StepId, Thread, ThreadId};
use crate::kind::Kind as Collective;
use crate::plan::PhaseId;
use crate::program::{Blocks, Detail, Op, Program, Slot, Step};
use crate::rank::{LineRank, Rank};
use std::fmt;
use syncline_core::Id;

/// The ranks of a line, a switch included, and what people call what they do.
#[derive(Clone, Copy)]
pub(super) struct LineNames<'a> {
    pub(super) phase: PhaseId,
    /// Their numbers in the group.
    pub(super) ranks: &'a [Rank],
    /// Their memory, once it is known.
    pub(super) layout: Option<&'a Layout>,
    pub(super) part: Part,
}

impl Names for LineNames<'_> {
    fn rank(&self, rank: Rank) -> Rank {
        self.ranks[rank.index()]
    }

    fn phase(&self) -> Option<PhaseId> {
        Some(self.phase)
    }

    fn thread(&self) -> &'static str {
        "thread"
    }

    fn unit(&self) -> &'static str {
        "element"
    }

    fn cell(&self, rank: Rank, cell: u32) -> (String, &'static str) {
        let layout = self.layout.expect("steps that use cells have a layout");
        layout.name(self.part.offset, cell - rank.0 * layout.cells())
    }

    fn contribution(&self, chunk: u32, whose: &str) -> String {
        self.part.contribution(chunk, whose)
    }
}

/// The steps of a program, in one array.
pub(super) struct Steps<'a> {
    program: &'a Program,
    kind: Collective,
    /// Ranks of the line, a switch not counted.
    ranks: u32,
    /// Of each thread the first step among all, and their number; as many threads for each rank.
    starts: Vec<u32>,
    steps: Vec<Step>,
    /// What else steps say; empty if they say nothing.
    details: Vec<Detail>,
    /// The places that they name.
    named: Named,
}

/// Where a step is.
#[derive(Clone, Copy)]
struct At {
    rank: LineRank,
    slot: Slot,
    id: StepId,
}

impl<'a> Steps<'a> {
    /// Those of a program, or what is wrong with their number.
    pub(super) fn new(program: &'a Program, kind: Collective) -> Result<Steps<'a>, Remark> {
        let (ranks, threads) = (program.ranks(), program.threads());
        let places = ranks + u32::from(program.has_switch());
        let mut starts = vec![0u32];
        for (rank, thread) in (0..places).flat_map(|rank| (0..threads).map(move |t| (LineRank(rank), t))) {
            let end = starts[starts.len() - 1].checked_add(program.steps(rank, thread));
            starts.push(end.ok_or("more steps than can be numbered")?);
        }
        let count = starts[starts.len() - 1] as usize;
        let is_written = matches!(program, Program::Written(_));
        let (mut steps, mut details) = (Vec::with_capacity(count), Vec::new());
        let mut named = Named::default();
        for (rank, thread) in (0..places).flat_map(|rank| (0..threads).map(move |t| (LineRank(rank), t))) {
            for pc in 0..program.steps(rank, thread) {
                let slot = Slot { thread, pc };
                let step = program.step(rank, slot);
                if is_written {
                    let detail = program.detail(rank, slot);
                    let places = [(step.op.reads_local(), detail.src), (step.op.stores(), detail.dst)];
                    let used = places.into_iter().filter(|p| p.0).filter_map(|p| p.1);
                    used.for_each(|place| named.add(place, step.blocks.count));
                    details.push(detail);
                }
                steps.push(step);
            }
        }
        Ok(Steps { program, kind, ranks, starts, steps, details, named })
    }

    /// The memory that they work in, on vectors of so many cells, which are elements or are cut as said.
    pub(super) fn layout(&self, len: u32, cuts: Option<&Cuts>) -> Result<Layout, (Kind, Remark)> {
        let parts = self.program.parts();
        let layout = Layout::new(self.kind, self.ranks, parts, len, self.named)?;
        Ok(match cuts {
            None => layout,
            Some(cuts) => layout.with_starts((0..=parts).map(|block| cuts.of_block(block, parts)).collect()),
        })
    }

    /// Marks where the blocks begin and end that steps use. False if that does not say on what they work: they name places, or
    /// blocks that do not exist.
    pub(super) fn mark(&self, marks: &mut Marks) -> bool {
        let parts = self.program.parts();
        if self.named != Named::default() || parts == 0 {
            return false;
        }
        self.steps.iter().filter(|step| step.op.reads_local() || step.op.stores()).all(|step| {
            let Blocks { first, count, .. } = step.blocks;
            let fits = first < parts && count <= parts;
            if fits {
                let end = first + count;
                marks.at_block(first, parts);
                marks.at_block(if end > parts { end - parts } else { end }, parts);
            }
            fits
        })
    }

    /// Ranks of the line, a switch included.
    fn places(&self) -> u32 {
        self.ranks + u32::from(self.program.has_switch())
    }

    /// A step among all, if the rank has it.
    fn find(&self, rank: LineRank, slot: Slot) -> Option<StepId> {
        let threads = self.program.threads();
        let thread = rank.index() * usize::from(threads) + usize::from(slot.thread);
        let steps = (slot.thread < threads).then(|| self.starts[thread + 1] - self.starts[thread])?;
        (slot.pc < steps).then(|| StepId(self.starts[thread] + slot.pc))
    }

    fn all(&self) -> impl Iterator<Item = At> {
        let threads = u32::from(self.program.threads());
        (0..).zip(self.starts.windows(2)).flat_map(move |(thread, ends)| {
            let rank = LineRank(thread / threads);
            (ends[0]..ends[1]).map(move |id| {
                let slot = Slot { thread: (thread % threads) as u16, pc: id - ends[0] };
                At { rank, slot, id: StepId(id) }
            })
        })
    }

    fn detail(&self, id: StepId) -> Detail {
        self.details.get(id.index()).copied().unwrap_or_default()
    }

    /// The threads of a line whose memory is laid out like this. What is wrong with the steps goes to `findings`. Threads share
    /// connections to a rank, if `shared`.
    pub(super) fn lower(
        &self,
        layout: &Layout,
        shared: bool,
        names: &LineNames<'_>,
        findings: &mut Findings,
    ) -> Machine {
        let mut machine = Machine::default();
        let threads = u32::from(self.program.threads());
        for (number, ends) in (0..).zip(self.starts.windows(2)) {
            let rank = Rank(number / threads);
            machine.threads.push(Thread { rank, number: number % threads, steps: ends[0]..ends[1] });
        }
        for rank in 0..self.places() {
            machine.ranks.push(rank * threads..(rank + 1) * threads);
            machine.cells.push(rank * layout.cells()..(rank + 1) * layout.cells());
        }
        machine.steps.reserve(self.steps.len());
        let mut connections = Connections::new(self.places(), shared);
        let mut is_taken = vec![false; self.steps.len()];
        for at in self.all() {
            let site = Site::step(names.rank(Rank(at.rank.0)), at.slot.thread.into(), at.slot.pc);
            let taker = match self.check(at, names, &mut is_taken) {
                Ok(taker) => taker,
                Err(Wrong { kind, remark, receiver }) => {
                    let site = receiver.map_or(site, |(rank, slot)| Site::step(rank, slot.thread.into(), slot.pc));
                    findings.add(kind, site.in_phase(Some(names.phase)), remark);
                    None
                }
            };
            if findings.is_empty() {
                match self.instruction(at, taker, layout, &mut connections, &mut machine) {
                    Ok(instruction) => machine.steps.push(instruction),
                    Err((kind, remark)) => findings.add(kind, site.in_phase(Some(names.phase)), remark),
                }
            }
        }
        if findings.is_empty() {
            machine.link_senders();
            let unsent = machine.steps.iter().zip(0..).filter(|(i, _)| i.op.receives() && i.sender.is_none());
            machine.unsent =
                unsent.map(|(_, id): (_, u32)| (StepId(id), Rank(self.steps[id as usize].from.0))).collect();
        }
        machine
    }

    fn instruction(
        &self,
        At { rank, slot, id }: At,
        taker: Option<StepId>,
        layout: &Layout,
        connections: &mut Connections,
        machine: &mut Machine,
    ) -> Result<Instruction, (Kind, Remark)> {
        let (Step { op, blocks, to, .. }, detail) = (self.steps[id.index()], self.detail(id));
        let memory = (rank.0 * layout.cells(), rank.0);
        let cells = |used, place, writes| {
            let any = used && blocks.count > 0;
            if any { layout.of(memory, blocks, place, writes) } else { Ok(Cells::NONE) }
        };
        let src = cells(op.reads_local(), detail.src, false)?;
        let dst = cells(op.stores(), detail.dst, true)?;
        let after = detail.after.and_then(|after| self.find(rank, after));
        let thread = ThreadId(rank.0 * u32::from(self.program.threads()) + u32::from(slot.thread));
        let out = op.sends().then(|| connections.find((rank, slot.thread), to, machine));
        Ok(Instruction { op, thread, src, dst, after, sender: None, taker, out })
    }

    /// Whether a step makes sense; returns the one that takes what it sends.
    fn check(&self, at: At, names: &LineNames<'_>, is_taken: &mut [bool]) -> Result<Option<StepId>, Wrong> {
        let At { rank, id, .. } = at;
        let step = self.steps[id.index()];
        self.check_dependency(at)?;
        if step.op == Op::Nop {
            return Ok(None);
        }
        let peers = [(step.op.receives(), step.from), (step.op.sends(), step.to)];
        if let Some((_, peer)) = peers.iter().find(|p| p.0 && (p.1 == rank || p.1.0 >= self.places())) {
            return Err(Wrong::here(Kind::Peer, format!("there is no other rank {peer} in its line")));
        }
        let (blocks, parts) = (step.blocks, self.program.parts());
        let exchange = self.kind == Collective::AllToAll;
        let least = u32::from(!self.program.has_switch()); // a switch also says that it is done
        let fits = blocks.first < parts && (least..=parts).contains(&blocks.count);
        if !fits || exchange && blocks.origin >= self.ranks {
            return Err(Wrong::here(Kind::Bounds, format!("the vector has no {blocks}")));
        }
        if step.op.reduces() && (exchange || blocks.count == 0) {
            return Err(Wrong::here(Kind::Operand, "adds up data of an all-to-all, or none"));
        }
        if step.op == Op::ResidualAdd {
            return Err(Wrong::here(Kind::Operand, "adds a residual, which is nobody's input"));
        }
        if step.op.sends() { self.check_receiver(at, names, is_taken).map(Some) } else { Ok(None) }
    }

    fn check_dependency(&self, At { rank, slot, id }: At) -> Result<(), Wrong> {
        let Some(after) = self.detail(id).after else { return Ok(()) };
        if self.find(rank, after).is_none() {
            return Err(Wrong::here(Kind::Dependency, format!("waits for {after}, which does not exist")));
        }
        if after.thread == slot.thread && after.pc >= slot.pc {
            return Err(Wrong::here(Kind::Dependency, format!("waits for {after}, which comes after it or is itself")));
        }
        Ok(())
    }

    /// Whether the step that a message names is there to take it.
    fn check_receiver(&self, at: At, names: &LineNames<'_>, is_taken: &mut [bool]) -> Result<StepId, Wrong> {
        let Step { to, into, blocks, .. } = self.steps[at.id.index()];
        let receiver = names.rank(Rank(to.0));
        let wrong = |why| Err(Wrong::here(Kind::Misdirected, format!("sends to {into} of rank {receiver}, but {why}")));
        let Some(id) = self.find(to, into) else { return wrong("there is no such step") };
        let takes = self.steps[id.index()];
        if !takes.op.receives() {
            return wrong("it does not receive");
        }
        if takes.from != at.rank {
            return wrong("it receives from another rank");
        }
        if std::mem::replace(&mut is_taken[id.index()], true) {
            return wrong("it has its message already");
        }
        if takes.blocks != blocks {
            let remark = format!("expects {}, receives {blocks}", takes.blocks).into();
            return Err(Wrong { kind: Kind::Mismatch, remark, receiver: Some((receiver, into)) });
        }
        Ok(id)
    }
}

/// What is wrong with a step.
struct Wrong {
    kind: Kind,
    remark: Remark,
    /// The step to blame, if it is that of a receiver.
    receiver: Option<(Rank, Slot)>,
}

impl Wrong {
    fn here(kind: Kind, remark: impl Into<Remark>) -> Wrong {
        Wrong { kind, remark: remark.into(), receiver: None }
    }
}

/// Finds the connections of one thread after the other, or of one rank after the other if threads share them.
struct Connections {
    shared: bool,
    /// The thread in question; its rank, if it shares.
    of: Option<(LineRank, u16)>,
    to: Vec<Option<ConnectionId>>,
}

impl Connections {
    fn new(places: u32, shared: bool) -> Connections {
        Connections { shared, of: None, to: vec![None; places as usize] }
    }

    fn find(&mut self, (rank, thread): (LineRank, u16), to: LineRank, machine: &mut Machine) -> ConnectionId {
        let of = (rank, if self.shared { 0 } else { thread });
        if self.of != Some(of) {
            self.of = Some(of);
            self.to.fill(None);
        }
        *self.to[to.index()].get_or_insert_with(|| {
            machine.connections.push(Connection { from: Rank(rank.0), to: Rank(to.0), channel: None });
            ConnectionId::from_index(machine.connections.len() - 1)
        })
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread {
            0 => write!(f, "step {}", self.pc),
            thread => write!(f, "step {} of thread {thread}", self.pc),
        }
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, self.origin) {
            (1, 0) => write!(f, "block {}", self.first),
            (count, 0) => write!(f, "{count} blocks from {}", self.first),
            (count, origin) => write!(f, "{count} blocks from {} of rank {origin}", self.first),
        }
    }
}
