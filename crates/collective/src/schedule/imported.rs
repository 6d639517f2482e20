//! Schedules as programs.
//!
//! A schedule says where chunks lie, a program which blocks of the vector a step works on. What a step moves is seen when the
//! schedule is carried out on symbols, which its verification does anyway. The vector is that of the collective, cut into as
//! many blocks as it has chunks.

use super::carry_out;
use super::contract::Contract;
use super::form::{Collective, Location, Schedule};
use super::report::Report;
use super::threads::Threads;
use crate::program::loops::{self, Advance, WrittenStep};
use crate::program::written::{Frame, Pacing, TooLarge, Written};
use crate::program::{Blocks, Buffer, Detail, Place, Slot, Step, Way};
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
    /// Whether the chunks of each step follow one another in the vector. Of a step whose chunks do not, the program only knows
    /// the first and how many there are.
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
    let regular = moves.iter().all(|m| m.is_regular);
    let threads = Threads::new(&machine, schedule);
    let has_ways = schedule.ranks.iter().flat_map(|r| &r.thread_blocks).flat_map(|b| &b.steps).any(|s| s.way.is_some());
    let importer = Importer { threads, machine: &machine, contract: &contract, schedule, moves, has_ways };
    let program = importer.program().map_err(|error| NotImported::Wrong(too_large(error)))?;
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
    /// Whether the blocks are what it moves, each chunk the one after the chunk before.
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
}

struct Importer<'a> {
    threads: Threads,
    machine: &'a Machine,
    schedule: &'a Schedule,
    contract: &'a Contract,
    moves: Vec<Move>,
    /// Whether any step says which way its message goes.
    has_ways: bool,
}

impl Importer<'_> {
    fn program(&self) -> Result<Written, TooLarge> {
        let (ranks, parts) = (self.machine.ranks.len() as u32, self.contract.size);
        let mut classes = Vec::new();
        let mut written = |row: &Vec<StepId>| -> Vec<WrittenStep> {
            row.iter().map(|step| self.written(*step, &mut classes)).collect()
        };
        let of_rank = |rows: &Vec<Vec<StepId>>| rows.iter().map(&mut written).collect();
        let all: Vec<Vec<Vec<WrittenStep>>> = self.threads.steps.iter().map(of_rank).collect();
        let frame = Frame {
            parts,
            pacing: self.schedule.pacing.unwrap_or(Pacing::OF_THREAD_BLOCKS),
            classes,
            ..Frame::default()
        };
        let loops = |steps: &Vec<WrittenStep>| loops::find(steps, ranks, parts);
        Written::new(frame, all.iter().map(|rows| rows.iter().map(loops)))
    }

    fn written(&self, id: StepId, classes: &mut Vec<String>) -> WrittenStep {
        let (machine, instruction) = (self.machine, self.machine.step(id));
        let peer = |other: Option<StepId>| LineRank(other.map_or(0, |other| machine.thread_of(other).rank.0));
        let step = Step {
            op: instruction.op,
            blocks: self.moves[id.index()].blocks,
            from: peer(instruction.sender),
            to: peer(instruction.taker),
            into: instruction.taker.and_then(|taker| self.slot(taker)).unwrap_or_default(),
        };
        // Steps of a thread follow one another in any case.
        let thread = self.slot(id).map(|slot| slot.thread);
        let after = instruction.after.and_then(|on| self.slot(on)).filter(|on| Some(on.thread) != thread);
        let [src, dst] = [instruction.src, instruction.dst].map(|cells| self.place(id, cells.iter().next()?));
        let detail = Detail { after, way: self.way(id, classes), src, dst };
        WrittenStep { step: step.normal(), detail, advance: Advance::default() }
    }

    /// Where a step works, if that is not the place of its blocks in the vector.
    fn place(&self, id: StepId, cell: u32) -> Option<Place> {
        let contract = self.contract;
        let rank = self.machine.thread_of(id).rank;
        let named = contract.location(rank, cell);
        let Location { buffer, offset } = if self.schedule.in_place { contract.in_whole(rank, named) } else { named };
        let Move { blocks, is_regular } = self.moves[id.index()];
        // In an all-to-all, the same place is that of blocks of several vectors.
        let one_vector = self.schedule.in_place && self.schedule.collective != Collective::AllToAll;
        let in_vector = one_vector && buffer != Buffer::Scratch && is_regular && offset == blocks.first;
        (!in_vector).then_some(Place { buffer, first: offset })
    }

    fn slot(&self, step: StepId) -> Option<Slot> {
        self.threads.slot(step).map(|(thread, pc)| Slot { thread, pc })
    }

    /// The way of what a step sends.
    fn way(&self, id: StepId, classes: &mut Vec<String>) -> Way {
        if !self.has_ways {
            return Way::Route;
        }
        let thread = self.machine.thread_of(id);
        let rank = self.schedule.ranks.iter().find(|r| r.id == thread.rank.0);
        let block = rank.and_then(|r| r.thread_blocks.iter().find(|b| b.id == thread.number));
        let step = block.and_then(|b| b.steps.get((id.0 - thread.steps.start) as usize));
        step.and_then(|step| step.way.as_ref()).map_or(Way::Route, |way| way.way(classes))
    }
}
