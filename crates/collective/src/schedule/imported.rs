//! Schedules as programs.
//!
//! A schedule says where chunks lie, a program which blocks of the vector a step works on. What a step moves is seen when the
//! schedule is carried out on symbols, which its verification does anyway. The vector is that of the collective, cut into as
//! many blocks as it has chunks.

use super::contract::Contract;
use super::form::{Collective, Location, Schedule, ScheduleStep};
use super::report::Report;
use super::threads::Threads;
use super::{carry_out, steps_in_order};
use crate::program::loops::{self, Advance, WrittenStep};
use crate::program::written::{Frame, Pacing, TooLarge, Written};
use crate::program::{Blocks, Buffer, Detail, Named, Place, Slot, Step, Way};
use crate::rank::{LineRank, Rank};
use crate::verify::Buffering;
use crate::verify::data::{Sets, Value};
use crate::verify::findings::{Findings, Kind, Site};
use crate::verify::machine::{Machine, StepId};
use syncline_core::Refusal;

/// A schedule that has been verified, as a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// What it achieves.
    pub kind: crate::Kind,
    /// The root; rank 0 where there is none.
    pub root: Rank,
    /// Its thread blocks as threads of the same numbers, and its steps. A place is stated where it is not that of the blocks
    /// in the vector, and always if input and output do not share memory; where they do, it counts from the beginning of the
    /// buffer that holds the whole vector.
    pub program: Written,
    /// Whether the chunks of each step follow one another in the vector, and where they lie. Of a step whose chunks do not, the
    /// program only knows the first and how many there are.
    pub regular: bool,
}

/// Why a schedule does not become a program.
#[derive(Clone, Debug, PartialEq)]
pub enum NotImported {
    /// There is nothing to hold it against.
    Refused(Refusal),
    /// It is wrong, or too large for a program.
    Wrong(Findings),
}

impl From<Refusal> for NotImported {
    fn from(refusal: Refusal) -> NotImported {
        NotImported::Refused(refusal)
    }
}

/// Verifies a schedule, on connections that hold any number of messages, and turns it into a program. The root is that of the
/// schedule, or found from what it does, if not given.
///
/// # Errors
/// [`NotImported`].
pub fn imported(schedule: &Schedule, root: Option<u32>) -> Result<Imported, NotImported> {
    let mut moves: Vec<Move> = Vec::new();
    let outcome = carry_out(schedule, root, Buffering::Eager, |(machine, contract), sets, step, nth, value| {
        moves.resize(machine.steps.len(), Move::NOTHING);
        moves[step.index()].add(contract, sets, nth, value);
    })?;
    let Report { verified, errors, flaws, errors_omitted, flaws_omitted, root, .. } = outcome.report;
    let (Some((machine, contract)), Some(kind), true) = (outcome.lowered, schedule.collective.kind(), verified) else {
        let list = errors.into_iter().chain(flaws).collect();
        return Err(NotImported::Wrong(Findings { list, omitted: errors_omitted + flaws_omitted }));
    };
    moves.resize(machine.steps.len(), Move::NOTHING);
    let steps = steps_in_order(schedule);
    let threads = Threads::new(&machine, schedule, &steps).map_err(NotImported::Wrong)?;
    let importer = Importer { threads, machine: &machine, contract: &contract, schedule, steps, moves };
    let (program, regular) = importer.program().map_err(|error| NotImported::Wrong(too_large(error)))?;
    let root = Rank(root.unwrap_or(0));
    Ok(Imported { kind, root, program, regular })
}

fn too_large(error: TooLarge) -> Findings {
    let mut findings = Findings::default();
    match error {
        TooLarge::Threads { rank, threads } => {
            findings.add(
                Kind::TooLarge,
                Site::rank(Rank(rank)),
                format!("{threads} thread blocks are too many for a program"),
            );
        }
        TooLarge::Steps => findings.add(Kind::TooLarge, Site::ALL, "too many steps for a program"),
    }
    findings
}

/// What a step moves.
#[derive(Clone, Copy, Debug)]
struct Move {
    blocks: Blocks,
    /// Whether the blocks are what it moves, each chunk the one after the chunk before, also where they lie.
    is_regular: bool,
}

impl Move {
    const NOTHING: Move = Move { blocks: Blocks { origin: 0, first: 0, count: 0 }, is_regular: true };

    fn add(&mut self, contract: &Contract, sets: &Sets, nth: u32, value: Value) {
        let (origin, block) = contract.in_vector(value.chunk, sets.first(value));
        if nth == 0 {
            self.blocks = Blocks { origin, first: block, count: 0 };
        }
        let next = (u64::from(self.blocks.first) + u64::from(nth)) % u64::from(contract.size);
        // A sum is a block of the vector only where the vector is summed.
        let whole = contract.is_summed() || sets.only(value).is_some();
        self.is_regular &= whole && origin == self.blocks.origin && u64::from(block) == next && nth < contract.size;
        self.blocks.count += 1;
    }

    /// Both one after the other, in a vector of so many blocks.
    fn and(mut self, other: Move, size: u32) -> Move {
        let next = (u64::from(self.blocks.first) + u64::from(self.blocks.count)) % u64::from(size);
        self.blocks.count += other.blocks.count;
        self.is_regular &= other.is_regular
            && (other.blocks.origin, u64::from(other.blocks.first)) == (self.blocks.origin, next)
            && self.blocks.count <= size;
        self
    }
}

struct Importer<'a> {
    threads: Threads,
    machine: &'a Machine,
    schedule: &'a Schedule,
    contract: &'a Contract,
    /// The steps of the schedule, in the order of the machine's.
    steps: Vec<&'a ScheduleStep>,
    moves: Vec<Move>,
}

impl Importer<'_> {
    /// The program, and whether the chunks of each of its steps follow one another.
    fn program(&self) -> Result<(Written, bool), TooLarge> {
        let (ranks, parts) = (self.machine.ranks.len() as u32, self.contract.size);
        let (mut named, mut regular) = (Named::default(), true);
        let mut written = |row: &Vec<StepId>| -> Vec<WrittenStep> {
            row.iter().map(|step| self.written(*step, &mut named, &mut regular)).collect()
        };
        let of_rank = |rows: &Vec<Vec<StepId>>| rows.iter().map(&mut written).collect();
        let all: Vec<Vec<Vec<WrittenStep>>> = self.threads.steps.iter().map(of_rank).collect();
        let frame = Frame {
            parts,
            pacing: self.schedule.pacing.unwrap_or(Pacing::OF_THREAD_BLOCKS),
            named,
            ..Frame::default()
        };
        let loops = |steps: &Vec<WrittenStep>| loops::find(steps, ranks, parts);
        Ok((Written::new(frame, all.iter().map(|rows| rows.iter().map(loops)))?, regular))
    }

    fn written(&self, id: StepId, named: &mut Named, regular: &mut bool) -> WrittenStep {
        let (machine, instruction) = (self.machine, self.machine.step(id));
        let peer = |other: Option<StepId>| LineRank(other.map_or(0, |other| machine.thread_of(other).rank.0));
        let moved = self.moved(id);
        *regular &= moved.is_regular;
        let step = Step {
            op: instruction.op,
            blocks: moved.blocks,
            from: peer(instruction.sender),
            to: peer(instruction.taker),
            into: instruction.taker.and_then(|taker| self.slot(taker)).unwrap_or_default(),
        };
        // Steps of a thread follow one another in any case.
        let thread = self.slot(id).map(|slot| slot.thread);
        let after = instruction.after.and_then(|on| self.slot(on)).filter(|on| Some(on.thread) != thread);
        let [src, dst] = [instruction.src, instruction.dst].map(|cells| self.place(id, moved, cells.iter().next()?));
        let way = self.steps[id.index()].way.as_ref().map_or(Way::Route, |way| way.way(named));
        let detail = Detail { after, way, pace: self.steps[id.index()].pace, src, dst };
        WrittenStep { step: step.normal(), detail, advance: Advance::default() }
    }

    /// What the parts of a whole move.
    fn moved(&self, first: StepId) -> Move {
        let mut moved = self.moves[first.index()];
        let mut before = first;
        for &part in self.threads.wholes.others(first) {
            moved = moved.and(self.moves[part.index()], self.contract.size);
            let [one, next] = [before, part].map(|id| self.machine.step(id));
            moved.is_regular &= one.src.goes_on_in(next.src) && one.dst.goes_on_in(next.dst);
            before = part;
        }
        moved
    }

    /// Where a step works, if that is not the place of its blocks in the vector.
    fn place(&self, id: StepId, moved: Move, cell: u32) -> Option<Place> {
        let contract = self.contract;
        let rank = self.machine.thread_of(id).rank;
        let named = contract.location(rank, cell);
        let Location { buffer, offset } = if self.schedule.in_place { contract.in_whole(rank, named) } else { named };
        let Move { blocks, is_regular } = moved;
        // In an all-to-all, the same place is that of blocks of several vectors.
        let one_vector = self.schedule.in_place && self.schedule.collective != Collective::AllToAll;
        let in_vector = one_vector && buffer != Buffer::Scratch && is_regular && offset == blocks.first;
        (!in_vector).then_some(Place { buffer, first: offset })
    }

    fn slot(&self, step: StepId) -> Option<Slot> {
        self.threads.slot(step).map(|(thread, pc)| Slot { thread, pc })
    }
}
