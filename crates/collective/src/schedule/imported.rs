//! Schedules as programs.
//!
//! A schedule says where chunks lie, a program which blocks of the vector a step works on. What a step moves is seen when the
//! schedule is carried out on symbols, which its verification does anyway. The vector is that of the collective, cut into as
//! many blocks as it has chunks.

use super::carry_out;
use super::contract::Contract;
use super::form::{Collective, Location, Schedule};
use super::report::Report;
use crate::program::loops;
use crate::program::written::{Advance, Frame, Pacing, TooLarge, Written, WrittenStep};
use crate::program::{Blocks, Buffer, Detail, Place, Slot, Step, Way};
use crate::rank::{LineRank, Rank};
use crate::verify::Buffering;
use crate::verify::data::{Sets, Value};
use crate::verify::findings::{Findings, Kind, Site};
use crate::verify::machine::{Machine, StepId};
use syncline_core::Refusal;

/// What runtimes do with a thread block: it has connections of its own, and puts one message at a time into them.
const PACING: Pacing = Pacing { one_by_one: true, spreads: false, one_queue: false };

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
    let importer = Importer { machine: &machine, contract: &contract, schedule, moves };
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
    machine: &'a Machine,
    schedule: &'a Schedule,
    contract: &'a Contract,
    moves: Vec<Move>,
}

impl Importer<'_> {
    fn program(&self) -> Result<Written, TooLarge> {
        let (ranks, parts) = (self.machine.ranks.len() as u32, self.contract.size);
        let thread = move |thread: u32| {
            let steps = self.machine.threads[thread as usize].steps.clone();
            let written: Vec<WrittenStep> = steps.map(|step| self.written(StepId(step))).collect();
            loops::find(&written, ranks, parts)
        };
        let frame = Frame { parts, pacing: PACING, ..Frame::default() };
        Written::new(frame, self.machine.ranks.iter().map(|threads| threads.clone().map(thread)))
    }

    fn written(&self, id: StepId) -> WrittenStep {
        let (machine, instruction) = (self.machine, self.machine.step(id));
        let peer = |other: Option<StepId>| LineRank(other.map_or(0, |other| machine.thread_of(other).rank.0));
        let step = Step {
            op: instruction.op,
            blocks: self.moves[id.index()].blocks,
            from: peer(instruction.sender),
            to: peer(instruction.taker),
            into: instruction.taker.map_or_else(Slot::default, |taker| self.slot(taker)),
        };
        // Steps of a thread follow one another in any case.
        let after = instruction.after.filter(|&on| machine.step(on).thread != instruction.thread);
        let [src, dst] = [instruction.src, instruction.dst].map(|cells| self.place(id, cells.iter().next()?));
        let detail = Detail { after: after.map(|on| self.slot(on)), way: Way::Route, src, dst };
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

    fn slot(&self, step: StepId) -> Slot {
        let thread = self.machine.thread_of(step);
        // A program has no more threads than a number of this width can count; others become none.
        Slot { thread: thread.number as u16, pc: step.0 - thread.steps.start }
    }
}
