//! Where data lie in an all-to-all whose steps leave that open.
//!
//! What a rank has for another is a *parcel* of some chunks. A rank's parcels for others are its input; those for itself are
//! its output, in the order of their origins. What else is under way lies in scratch, in cells that are written once:
//!
//! * What has come to its coordinate along the dimension of a phase waits for the next one, in the order in which that one
//!   sends it.
//! * A message with blocks that go on along the same dimension lies together, in the order of the message, so that it can be
//!   passed on as it is. What of it is for the rank itself is copied to the output by the way: nobody waits for that.
//!
//! Nothing else is copied. Parcels that need not move along a dimension stay where they are, in the input too.

use super::group::Group;
use super::runs::Runs;
use super::unrolled::{PlanStep, StepId, Unrolled};
use super::{CopyAside, Memory, Operands};
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

/// Where the data of all steps lie.
pub(super) fn lay_out(group: &Group<'_>, steps: &Unrolled) -> Result<Memory, Refusal> {
    let ranks = group.ranks() as usize;
    let memory = Memory {
        in_place: false,
        scratch: vec![0; ranks],
        of_step: vec![Operands::default(); steps.steps.len()],
        copies: group.all().map(|_| Vec::new()).collect(),
    };
    let size = group.chunks() / group.ranks();
    let mut exchange = Exchange { group, size, memory, places: vec![BTreeMap::new(); ranks] };
    for rank in group.all() {
        let mut own = CopyAside { after: None, src: Runs::default(), dst: Runs::default() };
        own.src.push(Buffer::Input, rank.0 * size, size);
        own.dst.push(Buffer::Output, rank.0 * size, size);
        exchange.memory.copies[rank.index()].push(own);
    }
    for phase in group.phases() {
        exchange.lay_out(steps, phase)?;
    }
    Ok(exchange.memory)
}

struct Exchange<'a> {
    group: &'a Group<'a>,
    /// Chunks of a parcel.
    size: u32,
    memory: Memory,
    /// Of each rank, where what has arrived lies.
    places: Vec<BTreeMap<Part, (Buffer, u32)>>,
}

impl Exchange<'_> {
    fn lay_out(&mut self, steps: &Unrolled, phase: PhaseId) -> Result<(), Refusal> {
        let group = self.group;
        let held: Vec<Vec<Parcel>> = group.all().map(|rank| held(group, rank, phase)).collect();
        let of_phase = || steps.numbered().filter(|s| s.1.phase == phase);
        let mut arrivals = Vec::new();
        for (id, step) in of_phase().filter(|s| s.1.op.receives()) {
            let parts = self.parts(step, &held)?;
            let own = group.own(step.rank, phase).0;
            let goes_on = parts.iter().any(|(parcel, _)| group.coordinate(parcel.to, group.dim(phase)) != own);
            arrivals.push(Arrival { id, rank: step.rank, parts, goes_on });
        }
        let waiting = self.waiting(&arrivals, group.phases().find(|&next| next > phase));
        for arrival in &arrivals {
            self.receive(arrival, &waiting[arrival.rank.index()]);
        }
        for (id, step) in of_phase().filter(|s| s.1.op == Op::Send) {
            for (parcel, chunk) in self.parts(step, &held)? {
                let place = self.places[step.rank.index()].get(&(parcel, chunk)).copied();
                let input = || (parcel.from == step.rank).then(|| (Buffer::Input, parcel.to.0 * self.size + chunk));
                let (buffer, at) =
                    place.or_else(input).ok_or_else(|| step.wrong("sends what its rank does not have"))?;
                self.memory.of_step[id.index()].src.push(buffer, at, 1);
            }
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
        for Arrival { rank, parts, .. } in arrivals.iter().filter(|arrival| !arrival.goes_on) {
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

    fn receive(&mut self, arrival: &Arrival, waiting: &BTreeMap<Parcel, u32>) {
        let Arrival { id, rank, ref parts, goes_on } = *arrival;
        let begin = self.memory.scratch[rank.index()];
        let mut copy = CopyAside { after: Some(id), src: Runs::default(), dst: Runs::default() };
        for (nth, &(parcel, chunk)) in (begin..).zip(parts) {
            let result = (Buffer::Output, parcel.from.0 * self.size + chunk);
            let place = match (goes_on, parcel.to == rank) {
                (true, false) => (Buffer::Scratch, nth),
                (true, true) => {
                    copy.src.push(Buffer::Scratch, nth, 1);
                    copy.dst.push(result.0, result.1, 1);
                    (Buffer::Scratch, nth)
                }
                (false, true) => result,
                (false, false) => (Buffer::Scratch, waiting[&parcel] + chunk),
            };
            self.memory.of_step[id.index()].dst.push(place.0, place.1, 1);
            self.places[rank.index()].insert((parcel, chunk), place);
        }
        if goes_on {
            self.memory.scratch[rank.index()] += parts.len() as u32;
        }
        if copy.src.count() > 0 {
            self.memory.copies[rank.index()].push(copy);
        }
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
/// that differ from it along the others. They are in the order of the coordinates along this dimension and the following ones
/// of those that they are for, and then by origin.
fn held(group: &Group<'_>, rank: Rank, phase: PhaseId) -> Vec<Parcel> {
    let alike = |other: Rank, along: &dyn Fn(PhaseId) -> bool| {
        let mut dims = group.phases().filter(|&p| along(p)).map(|p| group.dim(p));
        dims.all(|dim| group.coordinate(other, dim) == group.coordinate(rank, dim))
    };
    let origins: Vec<Rank> = group.all().filter(|&from| alike(from, &|p| p >= phase)).collect();
    let mut aims: Vec<Rank> = group.all().filter(|&to| alike(to, &|p| p < phase)).collect();
    let to_come = || group.phases().filter(|&p| p >= phase);
    aims.sort_by_cached_key(|&to| to_come().map(|p| group.coordinate(to, group.dim(p))).collect::<Vec<u32>>());
    aims.iter().flat_map(|&to| origins.iter().map(move |&from| Parcel { from, to })).collect()
}
