//! Where data lie in an all-to-all whose steps leave that open.
//!
//! What a rank has for another is a *parcel* of some chunks. A rank's parcels for others are its input; those for itself are
//! its output, in the order of their origins.
//!
//! Ranks send before they receive, so that input and output can be the same memory: the vector. A phase sends what is for each
//! other coordinate along its dimension, and gets as much from there, which takes the same places. So a parcel lies at the
//! place of a rank that has the coordinates of its receiver along the dimensions to come, and of its sender along those gone
//! through. Nothing is copied, and what need not move along a dimension stays where it is.
//!
//! Only what goes on along the same dimension has no such place. It lies in scratch, in the order of its message, together
//! with what of that waits there for later phases.
//!
//! A plan whose steps may overwrite what has still to be sent, by the order that its threads and dependencies give them, has
//! input and output apart. Then what waits for the next phase lies in scratch, in the order in which that one sends it, and
//! what a rank has for itself is copied.

use super::group::Group;
use super::unrolled::{PlanStep, StepId, Unrolled};
use super::{Memory, Operands};
use crate::plan::PhaseId;
use crate::program::{Buffer, Op};
use crate::rank::{LineRank, Rank};
use std::collections::{BTreeMap, BTreeSet};
use syncline_core::Refusal;

/// What one rank has for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Parcel {
    from: Rank,
    to: Rank,
}

/// A chunk of a parcel.
type Part = (Parcel, u32);

/// A message that comes to a rank.
struct Arrival {
    /// The step that takes it.
    id: StepId,
    rank: Rank,
    /// What is in it.
    parts: Vec<Part>,
    /// Whether some of it goes on along the same dimension.
    goes_on: bool,
}

/// Where the data of all steps lie, with input and output in the same memory; none if something would be overwritten.
pub(super) fn in_place(group: &Group<'_>, steps: &Unrolled) -> Result<Option<Memory>, Refusal> {
    let mut exchange = Exchange::new(group, steps, true);
    group.phases().try_for_each(|phase| exchange.lay_out(steps, phase))?;
    Ok((!exchange.overwrites).then_some(exchange.memory))
}

/// Where the data of all steps lie, with input and output apart.
pub(super) fn apart(group: &Group<'_>, steps: &Unrolled) -> Result<Memory, Refusal> {
    let mut exchange = Exchange::new(group, steps, false);
    exchange.copy_own_parcels();
    group.phases().try_for_each(|phase| exchange.lay_out(steps, phase))?;
    Ok(exchange.memory)
}

struct Exchange<'a> {
    group: &'a Group<'a>,
    /// Chunks of a parcel.
    size: u32,
    memory: Memory,
    /// Of each rank, where what has arrived lies.
    places: Vec<BTreeMap<Part, (Buffer, u32)>>,
    /// In place, what lies at a chunk of each rank's vector, if that is not what has been there from the start.
    holds: Vec<BTreeMap<u32, Part>>,
    /// In place, what the steps of the current phase put there.
    written: Vec<BTreeMap<u32, (Part, StepId)>>,
    /// Whether anything may be overwritten before it has been read.
    overwrites: bool,
}

impl<'a> Exchange<'a> {
    fn new(group: &'a Group<'a>, steps: &Unrolled, in_place: bool) -> Exchange<'a> {
        let ranks = group.ranks() as usize;
        let memory = Memory {
            in_place,
            scratch: vec![0; ranks],
            of_step: vec![Operands::default(); steps.steps.len()],
            copies: vec![Operands::default(); ranks],
        };
        let size = group.chunks() / group.ranks();
        let places = vec![BTreeMap::new(); ranks];
        let (holds, written) = (vec![BTreeMap::new(); ranks], vec![BTreeMap::new(); ranks]);
        Exchange { group, size, memory, places, holds, written, overwrites: false }
    }

    /// What a rank has for itself goes from its input to its output.
    fn copy_own_parcels(&mut self) {
        for rank in self.group.all() {
            let mut own = Operands::default();
            own.src.push(Buffer::Input, rank.0 * self.size, self.size);
            own.dst.push(Buffer::Output, rank.0 * self.size, self.size);
            self.memory.copies[rank.index()] = own;
        }
    }

    fn lay_out(&mut self, steps: &Unrolled, phase: PhaseId) -> Result<(), Refusal> {
        let group = self.group;
        let held: Vec<Vec<Parcel>> = group.all().map(|rank| held(group, rank, phase)).collect();
        let of_phase = || steps.numbered().filter(|s| s.1.phase == phase);
        let mut arrivals = Vec::new();
        for (id, step) in of_phase().filter(|s| s.1.op.receives()) {
            let parts = self.parts(step, &held)?;
            let own = group.own(step.rank, phase);
            let goes_on = parts.iter().any(|(parcel, _)| group.own(parcel.to, phase) != own);
            arrivals.push(Arrival { id, rank: step.rank, parts, goes_on });
        }
        let waiting = self.waiting(&arrivals, group.phases().find(|&next| next > phase));
        for arrival in &arrivals {
            self.receive(arrival, phase, &waiting[arrival.rank.index()]);
        }
        let mut reads = BTreeSet::new();
        for (id, step) in of_phase().filter(|s| s.1.op == Op::Send) {
            for (parcel, chunk) in self.parts(step, &held)? {
                let place = self.places[step.rank.index()].get(&(parcel, chunk)).copied();
                let input = || (parcel.from == step.rank).then(|| (Buffer::Input, parcel.to.0 * self.size + chunk));
                let (buffer, at) =
                    place.or_else(input).ok_or_else(|| step.wrong("sends what its rank does not have"))?;
                self.memory.of_step[id.index()].src.push(buffer, at, 1);
                if self.memory.in_place && buffer == self.group.whole() {
                    reads.extend(self.before_reading(step.rank, at, (parcel, chunk)).map(|write| (write, id)));
                }
            }
        }
        self.overwrites |= !steps.all_precede(&reads);
        for (holds, written) in self.holds.iter_mut().zip(&mut self.written) {
            holds.extend(std::mem::take(written).into_iter().map(|(at, (part, _))| (at, part)));
        }
        let known = |op: Op| op.receives() && !op.reduces() || matches!(op, Op::Send | Op::Nop);
        match of_phase().find(|s| !known(s.1.op)) {
            Some((_, step)) => Err(step.wrong("says not in which chunks it works")),
            None => Ok(()),
        }
    }

    /// Where in the scratch of each rank the parcels wait that the next phase finds, in the order in which it sends them.
    fn waiting(&mut self, arrivals: &[Arrival], next: Option<PhaseId>) -> Vec<BTreeMap<Parcel, u32>> {
        let mut wait = vec![BTreeSet::new(); self.memory.scratch.len()];
        let to_scratch = |arrival: &&Arrival| !arrival.goes_on && !self.memory.in_place;
        for Arrival { rank, parts, .. } in arrivals.iter().filter(to_scratch) {
            wait[rank.index()].extend(parts.iter().map(|part| part.0).filter(|parcel| parcel.to != *rank));
        }
        let in_order = |(rank, wait): (Rank, BTreeSet<Parcel>)| {
            let held = next.map_or_else(Vec::new, |next| held(self.group, rank, next));
            let begin = self.memory.scratch[rank.index()];
            let found = held.into_iter().filter(|parcel| wait.contains(parcel));
            let cells: BTreeMap<Parcel, u32> = found.zip((0..).map(|nth| begin + nth * self.size)).collect();
            self.memory.scratch[rank.index()] += cells.len() as u32 * self.size;
            cells
        };
        self.group.all().zip(wait).map(in_order).collect()
    }

    fn receive(&mut self, arrival: &Arrival, phase: PhaseId, waiting: &BTreeMap<Parcel, u32>) {
        let Arrival { id, rank, ref parts, goes_on } = *arrival;
        let output = if self.memory.in_place { self.group.whole() } else { Buffer::Output };
        for &(parcel, chunk) in parts {
            let place = match goes_on {
                _ if parcel.to == rank => (output, parcel.from.0 * self.size + chunk),
                true => {
                    let scratch = &mut self.memory.scratch[rank.index()];
                    *scratch += 1;
                    (Buffer::Scratch, *scratch - 1)
                }
                false if self.memory.in_place => (output, self.point(parcel, phase).0 * self.size + chunk),
                false => (Buffer::Scratch, waiting[&parcel] + chunk),
            };
            if self.memory.in_place && place.0 == output {
                self.overwrites |= self.written[rank.index()].insert(place.1, ((parcel, chunk), id)).is_some();
            }
            self.memory.of_step[id.index()].dst.push(place.0, place.1, 1);
            self.places[rank.index()].insert((parcel, chunk), place);
        }
    }

    /// The place of a parcel in the vector after a phase.
    fn point(&self, parcel: Parcel, phase: PhaseId) -> Rank {
        let gone_through = self.group.phases().filter(|&p| p <= phase);
        gone_through.fold(parcel.to, |at, p| self.group.peer(at, p, self.group.own(parcel.from, p)))
    }

    /// The step of this phase that overwrites what a rank reads at a chunk of its vector, and has to come after that. What has
    /// been overwritten in an earlier phase cannot be read at all.
    fn before_reading(&mut self, rank: Rank, at: u32, part: Part) -> Option<StepId> {
        let write = self.written[rank.index()].get(&at);
        if write.is_some_and(|(new, _)| *new == part) {
            return None; // it reads what has arrived
        }
        let initially = (Parcel { from: rank, to: Rank(at / self.size) }, at % self.size);
        self.overwrites |= *self.holds[rank.index()].get(&at).unwrap_or(&initially) != part;
        write.map(|(_, id)| *id)
    }

    /// What a step moves, in the order of its blocks.
    fn parts(&self, step: &PlanStep, held: &[Vec<Parcel>]) -> Result<Vec<Part>, Refusal> {
        let (line, parts) = (self.group.ranks_of_line(step.phase), self.group.program(step.phase).parts());
        let blocks = step.blocks;
        if blocks.origin >= line || blocks.first >= parts || blocks.count > parts {
            return Err(step.wrong("works on blocks that do not exist"));
        }
        let origin = self.group.peer(step.rank, step.phase, LineRank(blocks.origin));
        let held = &held[origin.index()];
        // Of each parcel for a coordinate, a block has the same part.
        let (each, parcels) = (parts / line, held.len() / line as usize);
        let chunks = self.size / each;
        let mut found = Vec::with_capacity(blocks.count as usize * parcels * chunks as usize);
        for block in (0..blocks.count).map(|nth| (blocks.first + nth) % parts) {
            let first = block % each * chunks;
            for &parcel in &held[(block / each) as usize * parcels..][..parcels] {
                found.extend((first..first + chunks).map(|chunk| (parcel, chunk)));
            }
        }
        Ok(found)
    }
}

/// What a rank holds when it enters a phase: parcels from those that differ from it along the dimensions so far, for those
/// that differ from it along the others. They are in the order of the places along this dimension and the following ones of
/// those that they are for, and then by origin.
fn held(group: &Group<'_>, rank: Rank, phase: PhaseId) -> Vec<Parcel> {
    let alike = |other: Rank, along: &dyn Fn(PhaseId) -> bool| {
        let mut dims = group.phases().filter(|&p| along(p)).map(|p| group.dim(p));
        dims.all(|dim| group.coordinate(other, dim) == group.coordinate(rank, dim))
    };
    let origins: Vec<Rank> = group.all().filter(|&from| alike(from, &|p| p >= phase)).collect();
    let mut aims: Vec<Rank> = group.all().filter(|&to| alike(to, &|p| p < phase)).collect();
    let to_come = || group.phases().filter(|&p| p >= phase);
    aims.sort_by_cached_key(|&to| to_come().map(|p| group.own(to, p).0).collect::<Vec<u32>>());
    aims.iter().flat_map(|&to| origins.iter().map(move |&from| Parcel { from, to })).collect()
}
