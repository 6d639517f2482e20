//! Carries out a schedule on symbols. A chunk of memory holds nothing, or a chunk of the inputs (its
//! number) and the set of ranks whose contributions are in it: `{rank}` at the start, unions after
//! reductions. Whatever cannot be described in this way (a sum of different chunks, or a contribution that
//! is added twice) is wrong in every collective.

use super::contract::From;
use super::machine::{Machine, StepId};
use super::report::{Findings, Kind, Remark, Site};
use crate::program::Op;
use crate::rank::Rank;
use std::collections::{BTreeMap, VecDeque};

/// Most wrong results that are listed.
const LISTED: u64 = 8;

/// What a chunk of memory or of a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    chunk: u32,
    /// Index of the set of contributors; 0 is the empty one.
    set: u32,
}

const NOTHING: Value = Value { chunk: 0, set: 0 };

/// Sets of ranks, each stored once. Set 0 is empty, set `r + 1` is `{r}`.
struct Sets {
    words_per_set: usize,
    bits: Vec<u64>,
    index: BTreeMap<Vec<u64>, u32>,
    unions: BTreeMap<(u32, u32), u32>,
    ranks: u32,
}

/// The set of one rank.
fn set_of(rank: Rank) -> u32 {
    rank.0 + 1
}

impl Sets {
    fn new(ranks: u32) -> Sets {
        let words_per_set = ranks.div_ceil(64) as usize;
        let mut sets = Sets { words_per_set, bits: Vec::new(), index: BTreeMap::new(), unions: BTreeMap::new(), ranks };
        sets.intern(vec![0; words_per_set]);
        for rank in (0..ranks).map(Rank) {
            let mut bits = vec![0; words_per_set];
            bits[rank.index() / 64] = 1 << (rank.0 % 64);
            sets.intern(bits);
        }
        sets
    }

    fn intern(&mut self, bits: Vec<u64>) -> u32 {
        let next = self.index.len() as u32;
        *self.index.entry(bits).or_insert_with_key(|bits| {
            self.bits.extend(bits);
            next
        })
    }

    fn of(&self, set: u32) -> &[u64] {
        &self.bits[set as usize * self.words_per_set..][..self.words_per_set]
    }

    fn contains(&self, set: u32, rank: Rank) -> bool {
        self.of(set)[rank.index() / 64] >> (rank.0 % 64) & 1 == 1
    }

    /// The lowest rank of a set that is not empty.
    fn first(&self, set: u32) -> Rank {
        if (1..=self.ranks).contains(&set) {
            return Rank(set - 1);
        }
        let word = (0..).zip(self.of(set)).find(|w| *w.1 != 0);
        word.map_or(Rank(0), |(i, bits): (u32, _)| Rank(i * 64 + bits.trailing_zeros()))
    }

    fn len(&self, set: u32) -> u32 {
        self.of(set).iter().map(|w| w.count_ones()).sum()
    }

    /// The union, or a rank that both have.
    fn union(&mut self, a: u32, b: u32) -> Result<u32, Rank> {
        let key = (a.min(b), a.max(b));
        if let Some(&known) = self.unions.get(&key) {
            return Ok(known);
        }
        let both = self.of(a).iter().zip(self.of(b)).map(|(x, y)| x & y);
        if let Some((word, bits)) = (0u32..).zip(both).find(|w| w.1 != 0) {
            return Err(Rank(word * 64 + bits.trailing_zeros()));
        }
        let bits = self.of(a).iter().zip(self.of(b)).map(|(x, y)| x | y).collect();
        let union = self.intern(bits);
        self.unions.insert(key, union);
        Ok(union)
    }

    /// `rank 3`, `ranks 1, 2 and 5`, `all ranks`.
    fn name(&self, set: u32) -> String {
        let members: Vec<Rank> = (0..self.ranks).map(Rank).filter(|&r| self.contains(set, r)).collect();
        let numbers = |list: &[Rank]| list.iter().map(Rank::to_string).collect::<Vec<_>>().join(", ");
        match &members[..] {
            all if all.len() as u32 == self.ranks && self.ranks > 1 => "all ranks".into(),
            [one] => format!("rank {one}"),
            [init @ .., last] if members.len() <= 8 => format!("ranks {} and {last}", numbers(init)),
            many => format!("{} ranks ({}, ...)", many.len(), numbers(&many[..many.len().min(4)])),
        }
    }

    fn value(&self, value: Value) -> String {
        if value.set == 0 { "nothing".into() } else { format!("chunk {} of {}", value.chunk, self.name(value.set)) }
    }
}

/// A chunk that a step moves, for those who want to know what steps do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Which of the step's chunks.
    pub nth: u32,
    /// Its number in the inputs.
    pub chunk: u32,
    /// The rank that it comes from, the lowest of several.
    pub contributor: Rank,
    /// Whether others have contributed.
    pub is_sum: bool,
}

struct Run<'m> {
    machine: &'m Machine,
    sets: Sets,
    memory: Vec<Value>,
    messages: Vec<VecDeque<Value>>,
}

/// Performs the steps in `order` and compares the results with the contract. Returns the root, which is
/// `given` or else the rank that fits the results best. `watch` sees every chunk that a step moves.
pub fn run(
    machine: &Machine,
    order: &[StepId],
    has_root: bool,
    given: Option<Rank>,
    mut watch: impl FnMut(&Machine, StepId, Moved),
    flaws: &mut Findings,
) -> Option<Rank> {
    let mut run = Run {
        machine,
        sets: Sets::new(machine.ranks.len() as u32),
        memory: vec![NOTHING; machine.contract.cells() as usize],
        messages: vec![VecDeque::new(); machine.connections.len()],
    };
    for rank in (0..run.sets.ranks).map(Rank) {
        for (cell, chunk) in machine.contract.start(rank) {
            run.memory[cell as usize] = Value { chunk, set: set_of(rank) };
        }
    }
    for &step in order {
        if let Err((kind, message)) = run.perform(step, &mut watch) {
            flaws.add(kind, machine.site(step), message);
            return given;
        }
    }
    let root = match (has_root, given) {
        (false, _) => None,
        (true, None) => Some(run.likely_root()),
        (true, given) => given,
    };
    if let Some(root) = root
        && !machine.contract.can_be_root(root)
    {
        let message = "this rank is taken for the root, but its buffer has no room for the whole vector";
        flaws.add(Kind::Lost, Site::rank(root), message);
        return Some(root);
    }
    run.check(root.unwrap_or_default(), flaws);
    root
}

type Wrong = (Kind, Remark);

impl Run<'_> {
    fn perform(&mut self, step: StepId, watch: &mut impl FnMut(&Machine, StepId, Moved)) -> Result<(), Wrong> {
        let instruction = *self.machine.step(step);
        let thread = self.machine.thread(instruction.thread);
        let rank = thread.rank;
        for i in 0..instruction.count {
            let mut value = match instruction.op {
                Op::Nop | Op::ResidualAdd => return Ok(()),
                Op::Send | Op::Copy | Op::Reduce => self.read(rank, instruction.source() + i)?,
                // The receiver performs its step after the sender, so the message is there.
                _ => self.messages[thread.receives_on().index()].pop_front().unwrap_or(NOTHING),
            };
            let operand = match instruction.op {
                Op::RecvReduceSend | Op::RecvReduce | Op::RecvReduceCopySend => instruction.src,
                Op::Reduce => instruction.dst,
                _ => None,
            };
            if let Some(operand) = operand {
                let mine = self.read(rank, operand + i)?;
                value = self.add(value, mine)?;
            }
            let contributor = self.sets.first(value.set);
            watch(
                self.machine,
                step,
                Moved { nth: i, chunk: value.chunk, contributor, is_sum: value.set != set_of(contributor) },
            );
            if let Some(first) = instruction.dst {
                self.memory[(first + i) as usize] = value;
            }
            if instruction.op.sends() {
                self.messages[thread.sends_on().index()].push_back(value);
            }
        }
        Ok(())
    }

    fn read(&self, rank: Rank, cell: u32) -> Result<Value, Wrong> {
        let value = self.memory[cell as usize];
        if value.set == 0 {
            let message = format!("uses {}, in which there is nothing yet", self.place(rank, cell));
            return Err((Kind::Absent, message.into()));
        }
        Ok(value)
    }

    fn add(&mut self, a: Value, b: Value) -> Result<Value, Wrong> {
        if a.chunk != b.chunk {
            let (a, b) = (self.sets.value(a), self.sets.value(b));
            return Err((Kind::Mixed, Remark::accepting(format!("adds {a} to {b}"), "the same chunk")));
        }
        match self.sets.union(a.set, b.set) {
            Ok(set) => Ok(Value { chunk: a.chunk, set }),
            Err(twice) => {
                let (mine, other) = (self.sets.name(b.set), self.sets.name(a.set));
                let message = format!("adds chunk {} of {other} to that of {mine}: rank {twice} counts twice", a.chunk);
                Err((Kind::Doubled, message.into()))
            }
        }
    }

    fn place(&self, rank: Rank, cell: u32) -> String {
        let location = self.machine.contract.location(rank, cell);
        format!("chunk {} of its {} buffer", location.offset, location.buffer.name())
    }

    fn is_right(&self, value: Value, chunk: u32, from: From) -> bool {
        let whose = match from {
            From::All => self.sets.len(value.set) == self.sets.ranks,
            From::One(rank) => value.set == set_of(rank),
        };
        whose && value.chunk == chunk
    }

    /// The rank with which most results are right, the lowest of several.
    fn likely_root(&self) -> Rank {
        let contract = &self.machine.contract;
        let ranks = (0..self.sets.ranks).map(Rank);
        let mut right = vec![0u64; ranks.len()];
        for rank in ranks.clone() {
            for (cell, chunk, from) in contract.end(rank, rank) {
                let value = self.memory[cell as usize];
                let root = if contract.sends_from_root() { Rank(value.set.wrapping_sub(1)) } else { rank };
                let wanted = if contract.sends_from_root() { From::One(root) } else { from };
                if value.set != 0 && root.0 < self.sets.ranks && self.is_right(value, chunk, wanted) {
                    right[root.index()] += 1;
                }
            }
        }
        let candidates = ranks.rev().filter(|&rank| contract.can_be_root(rank));
        candidates.max_by_key(|&rank| right[rank.index()]).unwrap_or_default()
    }

    fn check(&self, root: Rank, flaws: &mut Findings) {
        let mut wrong = 0;
        for rank in (0..self.sets.ranks).map(Rank) {
            for (cell, chunk, from) in self.machine.contract.end(rank, root) {
                let value = self.memory[cell as usize];
                if self.is_right(value, chunk, from) {
                    continue;
                }
                wrong += 1;
                if wrong <= LISTED {
                    let (kind, message) = self.mistake(rank, cell, value, (chunk, from));
                    flaws.add(kind, Site::rank(rank), message);
                }
            }
        }
        flaws.omitted += wrong.saturating_sub(LISTED);
    }

    fn mistake(&self, rank: Rank, cell: u32, value: Value, (chunk, from): (u32, From)) -> Wrong {
        let whose = match from {
            From::All => "all ranks".into(),
            From::One(one) => format!("rank {one}"),
        };
        let lost = value.set == 0 || value.chunk == chunk && from == From::All;
        let message = format!("ends with {} in {}", self.sets.value(value), self.place_of_result(rank, cell));
        let remark = Remark::accepting(message, format!("chunk {chunk} of {whose}"));
        (if lost { Kind::Lost } else { Kind::Misplaced }, remark)
    }

    /// In place, a result lies in both buffers; people look for it in the output.
    fn place_of_result(&self, rank: Rank, cell: u32) -> String {
        let first = self.machine.contract.end(rank, rank).next().map_or(cell, |e| e.0);
        format!("chunk {} of its output", cell - first)
    }
}
