//! The symbolic verifier.
//!
//! Runs a plan on data that records who contributed to it, one symbol per element, and rejects a
//! schedule that loses, doubles or misplaces a contribution, sends what is not there, mismatches a send
//! with its receive, or can deadlock under the stated [`Buffering`].
//!
//! Execution is by rank: each performs its steps in order, a step first receiving, then sending. That
//! is a deterministic Kahn network, so if one order of execution deadlocks, every order does.

use crate::kind::Kind;
use crate::plan::{Plan, Split};
use crate::program::{Op, Program, Slot, Step};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use syncline_core::Bytes;

/// What a channel between two ranks holds while the receiver is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffering {
    /// Any number of messages.
    Eager,
    /// At most so many messages (at least 1).
    Slots(u32),
    /// Nothing: a send completes together with its receive.
    Rendezvous,
}

/// Why a schedule is rejected. Ranks are node numbers; `element` counts within the chunk.
#[expect(missing_docs, reason = "the fields are the numbers that the message of the variant names")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A contribution was added twice.
    Doubled { rank: u32, element: u64, contributor: u32 },
    /// A rank ends without a contribution that it must have.
    Lost { rank: u32, element: u64, contributor: u32 },
    /// A rank ends with a contribution where there must be other data.
    Misplaced { rank: u32, element: u64, contributor: u32 },
    /// A rank sends or reduces data that it does not have.
    Absent { rank: u32, phase: u32, pc: u32, element: u64 },
    /// A received block is not the one that the step expects.
    Mismatch { rank: u32, phase: u32, pc: u32, expected: u64, got: u64 },
    /// Messages that nobody receives.
    Unreceived { from: u32, to: u32, messages: u64 },
    /// Ranks that wait for ever, each with its phase and step.
    Deadlock { stuck: Vec<(u32, u32, u32)> },
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Doubled { rank, element, contributor } => {
                write!(f, "rank {rank}: the contribution of {contributor} to element {element} is added twice")
            }
            Flaw::Lost { rank, element, contributor } => {
                write!(f, "rank {rank}: the contribution of {contributor} to element {element} is lost")
            }
            Flaw::Misplaced { rank, element, contributor } => {
                write!(
                    f,
                    "rank {rank}: element {element} holds a contribution of {contributor} that does not belong there"
                )
            }
            Flaw::Absent { rank, phase, pc, element } => {
                write!(f, "rank {rank}, phase {phase}, step {pc}: uses element {element}, which it does not have")
            }
            Flaw::Mismatch { rank, phase, pc, expected, got } => {
                write!(
                    f,
                    "rank {rank}, phase {phase}, step {pc}: expects the block at {expected}, receives the one at {got}"
                )
            }
            Flaw::Unreceived { from, to, messages } => {
                write!(f, "{messages} messages from rank {from} to rank {to} are never received")
            }
            Flaw::Deadlock { stuck } => {
                write!(f, "deadlock:")?;
                stuck.iter().try_for_each(|(rank, phase, pc)| write!(f, " rank {rank} at phase {phase} step {pc};"))
            }
        }
    }
}

/// Who contributed to an element; one bit per rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contributors(Vec<u64>);

impl Contributors {
    fn of(rank: u32) -> Self {
        let mut bits = vec![0; rank as usize / 64 + 1];
        bits[rank as usize / 64] = 1 << (rank % 64);
        Contributors(bits)
    }

    fn contains(&self, rank: u32) -> bool {
        self.0.get(rank as usize / 64).is_some_and(|w| w >> (rank % 64) & 1 == 1)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&w| w == 0)
    }

    /// Adds `other`; the rank that both have, if there is one, is returned instead.
    fn add(&mut self, other: &Contributors) -> Result<(), u32> {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (i, (mine, &theirs)) in self.0.iter_mut().zip(&other.0).enumerate() {
            let both = *mine & theirs;
            if both != 0 {
                return Err(i as u32 * 64 + both.trailing_zeros());
            }
            *mine |= theirs;
        }
        Ok(())
    }
}

/// The ranks of a product of dimensions, and the programs they run.
pub struct Verifier<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Sizes of the dimensions.
    pub sizes: &'a [u32],
    /// Elements of the chunk.
    pub elements: u64,
    /// What channels hold.
    pub buffering: Buffering,
    /// The program of each phase.
    pub programs: Vec<Program>,
}

type Channel = (u32, u32, u32); // phase, from, to
type Block = (u64, Vec<Contributors>); // offset in the chunk, data

struct Run<'v, 'a> {
    v: &'v Verifier<'a>,
    data: Vec<Vec<Contributors>>,
    /// Per rank: phase, step, and the block in hand once the step has received.
    cursor: Vec<(u32, u32, Option<Block>)>,
    channels: BTreeMap<Channel, VecDeque<Block>>,
}

impl<'a> Verifier<'a> {
    /// A verifier for a plan whose rings all go up (or all down).
    pub fn new(plan: &'a Plan, sizes: &'a [u32], elements: u64, up: bool, buffering: Buffering) -> Verifier<'a> {
        let programs = (0..plan.phases().len()).map(|p| plan.program(p, up)).collect();
        Verifier { plan, sizes, elements, buffering, programs }
    }

    /// Runs the plan.
    ///
    /// # Errors
    /// The first [`Flaw`] found.
    pub fn verify(&self) -> Result<(), Flaw> {
        let ranks: u32 = self.sizes.iter().product();
        let split = Split { element: 1 };
        let mut run = Run {
            v: self,
            data: (0..ranks)
                .map(|rank| {
                    let mut data = vec![Contributors::default(); self.elements as usize];
                    let [(offset, len), _] = self.plan.ends(Bytes(self.elements), split, |d| self.coordinate(rank, d));
                    for e in offset..offset + len {
                        data[e as usize] = Contributors::of(rank);
                    }
                    data
                })
                .collect(),
            cursor: vec![(0, 0, None); ranks as usize],
            channels: BTreeMap::new(),
        };
        run.run_all()?;
        run.check_result(split)
    }

    fn coordinate(&self, rank: u32, dim: u8) -> u32 {
        let dim = usize::from(dim);
        rank / self.sizes[..dim].iter().product::<u32>() % self.sizes[dim]
    }

    fn peer(&self, rank: u32, dim: u8, there: u32) -> u32 {
        let stride: u32 = self.sizes[..usize::from(dim)].iter().product();
        let at = self.coordinate(rank, dim);
        rank - at * stride + there * stride
    }

    /// The current step of a rank, with its own rank in the group and the bytes of the block.
    fn step(&self, rank: u32, phase: u32, pc: u32) -> (Step, u64, u64) {
        let p = self.plan.phases()[phase as usize];
        let step = self.programs[phase as usize].step(self.coordinate(rank, p.dim), Slot { thread: 0, pc });
        let split = Split { element: 1 };
        let (base, len) = self.plan.vector(phase as usize, Bytes(self.elements), split, |d| self.coordinate(rank, d));
        let (offset, share) = split.share(len, self.programs[phase as usize].parts(), step.blocks.first);
        (step, base + offset, share)
    }
}

impl Run<'_, '_> {
    fn run_all(&mut self) -> Result<(), Flaw> {
        loop {
            let mut progress = false;
            for rank in 0..self.cursor.len() as u32 {
                while self.advance(rank)? {
                    progress = true;
                }
            }
            if !progress {
                break;
            }
        }
        let phases = self.v.programs.len() as u32;
        let stuck: Vec<_> = (0u32..).zip(&self.cursor).filter(|c| c.1.0 < phases).map(|(r, c)| (r, c.0, c.1)).collect();
        if !stuck.is_empty() {
            return Err(Flaw::Deadlock { stuck });
        }
        match self.channels.iter().find(|c| !c.1.is_empty()) {
            Some((&(_, from, to), queue)) => Err(Flaw::Unreceived { from, to, messages: queue.len() as u64 }),
            None => Ok(()),
        }
    }

    /// One receive or one send of a rank; false when it must wait or has finished.
    fn advance(&mut self, rank: u32) -> Result<bool, Flaw> {
        let (phase, pc, ref in_hand) = self.cursor[rank as usize];
        let Some(program) = self.v.programs.get(phase as usize) else { return Ok(false) };
        let dim = self.v.plan.phases()[phase as usize].dim;
        if pc == program.steps(self.v.coordinate(rank, dim), 0) {
            self.cursor[rank as usize] = (phase + 1, 0, None);
            return Ok(true);
        }
        let (step, offset, len) = self.v.step(rank, phase, pc);
        if step.op.receives() && in_hand.is_none() {
            let from = self.v.peer(rank, dim, step.from);
            let Some(block) = self.channels.get_mut(&(phase, from, rank)).and_then(VecDeque::pop_front) else {
                return Ok(false);
            };
            if (block.0, block.1.len() as u64) != (offset, len) {
                return Err(Flaw::Mismatch { rank, phase, pc, expected: offset, got: block.0 });
            }
            let block = self.receive(rank, (phase, pc), step.op, block)?;
            self.cursor[rank as usize].2 = Some(block);
            return Ok(true);
        }
        if step.op.sends() {
            let to = self.v.peer(rank, dim, step.to);
            if !self.can_send(phase, rank, to) {
                return Ok(false);
            }
            let block = match step.op {
                Op::Send => (offset, self.data[rank as usize][offset as usize..(offset + len) as usize].to_vec()),
                _ => self.cursor[rank as usize].2.take().unwrap_or_default(),
            };
            if let Some(hole) = block.1.iter().position(Contributors::is_empty) {
                return Err(Flaw::Absent { rank, phase, pc, element: offset + hole as u64 });
            }
            self.channels.entry((phase, rank, to)).or_default().push_back(block);
        }
        self.cursor[rank as usize] = (phase, pc + 1, None);
        Ok(true)
    }

    fn can_send(&self, phase: u32, from: u32, to: u32) -> bool {
        let waiting = self.channels.get(&(phase, from, to)).map_or(0, VecDeque::len);
        match self.v.buffering {
            Buffering::Eager => true,
            Buffering::Slots(slots) => waiting < slots as usize,
            Buffering::Rendezvous => {
                let (p, pc, ref in_hand) = self.cursor[to as usize];
                let dim = self.v.plan.phases()[phase as usize].dim;
                let steps = self.v.programs[phase as usize].steps(self.v.coordinate(to, dim), 0);
                p == phase && pc < steps && in_hand.is_none() && waiting == 0 && {
                    let step = self.v.step(to, p, pc).0;
                    step.op.receives() && self.v.peer(to, dim, step.from) == from
                }
            }
        }
    }

    fn receive(&mut self, rank: u32, at: (u32, u32), op: Op, (offset, mut block): Block) -> Result<Block, Flaw> {
        let local = &mut self.data[rank as usize][offset as usize..offset as usize + block.len()];
        for (i, (theirs, mine)) in block.iter_mut().zip(local).enumerate() {
            let element = offset + i as u64;
            if op.reduces() {
                if mine.is_empty() {
                    return Err(Flaw::Absent { rank, phase: at.0, pc: at.1, element });
                }
                theirs.add(mine).map_err(|contributor| Flaw::Doubled { rank, element, contributor })?;
            }
            if op.stores() {
                *mine = theirs.clone();
            }
        }
        Ok((offset, block))
    }

    fn check_result(&self, split: Split) -> Result<(), Flaw> {
        let ranks = self.cursor.len() as u32;
        let owner_of = |element: u64| {
            (0..ranks).find(|&r| {
                let [(offset, len), _] = self.v.plan.ends(Bytes(self.v.elements), split, |d| self.v.coordinate(r, d));
                (offset..offset + len).contains(&element)
            })
        };
        for rank in 0..ranks {
            let [_, (offset, len)] = self.v.plan.ends(Bytes(self.v.elements), split, |d| self.v.coordinate(rank, d));
            for element in offset..offset + len {
                let got = &self.data[rank as usize][element as usize];
                for contributor in 0..ranks {
                    let expected = match self.v.plan.kind() {
                        Kind::AllGather => owner_of(element) == Some(contributor),
                        _ => true,
                    };
                    match (expected, got.contains(contributor)) {
                        (true, false) => return Err(Flaw::Lost { rank, element, contributor }),
                        (false, true) => return Err(Flaw::Misplaced { rank, element, contributor }),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}
