//! Carries threads out on symbols. A cell of memory holds nothing, or a chunk (its number) and the set of ranks whose
//! contributions are in it: `{rank}` at the start, unions after reductions. Whatever cannot be described in this way (a sum of
//! different chunks, or a contribution that is added twice) is wrong in every collective.

use super::findings::{Findings, Kind, Remark, Site};
use super::machine::{Machine, Names, StepId};
use crate::program::Op;
use crate::rank::Rank;
use std::collections::BTreeMap;

/// Most wrong results that are listed.
const LISTED: u64 = 8;

/// What a cell of memory or of a message holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The number of the chunk.
    pub chunk: u32,
    /// The number of the set of contributors; 0 is the empty one.
    set: u32,
}

impl Value {
    /// Nothing.
    pub const NOTHING: Value = Value { chunk: 0, set: 0 };

    /// A chunk of one rank.
    pub const fn of(chunk: u32, rank: Rank) -> Value {
        Value { chunk, set: rank.0 + 1 }
    }

    /// Whether there is nothing.
    pub const fn is_nothing(self) -> bool {
        self.set == 0
    }
}

/// Sets of ranks, by number. Set 0 is empty, set `r + 1` is `{r}`; the others are unions that have been asked for.
#[derive(Debug)]
pub struct Sets {
    ranks: u32,
    words_per_set: usize,
    bits: Vec<u64>,
    unions: BTreeMap<(u32, u32), u32>,
    /// The union that has been asked for last; consecutive cells mostly have the same sets.
    last: ((u32, u32), u32),
}

impl Sets {
    /// For so many ranks.
    pub fn new(ranks: u32) -> Sets {
        let words_per_set = ranks.div_ceil(64) as usize;
        let mut bits = vec![0; words_per_set * (ranks as usize + 1)];
        for (rank, set) in (0..ranks).zip(bits.chunks_exact_mut(words_per_set.max(1)).skip(1)) {
            set[rank as usize / 64] = 1 << (rank % 64);
        }
        Sets { ranks, words_per_set, bits, unions: BTreeMap::new(), last: ((0, 0), 0) }
    }

    /// All ranks there are.
    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = Rank> + ExactSizeIterator + Clone + use<> {
        (0..self.ranks).map(Rank)
    }

    fn of(&self, set: u32) -> &[u64] {
        &self.bits[set as usize * self.words_per_set..][..self.words_per_set]
    }

    fn contains(&self, set: u32, rank: Rank) -> bool {
        self.of(set)[rank.index() / 64] >> (rank.0 % 64) & 1 == 1
    }

    fn len(&self, set: u32) -> u32 {
        self.of(set).iter().map(|w| w.count_ones()).sum()
    }

    /// The only contributor of a value, if there is one.
    pub fn only(&self, value: Value) -> Option<Rank> {
        (1..=self.ranks).contains(&value.set).then(|| Rank(value.set - 1))
    }

    /// The lowest contributor of a value that is not nothing.
    pub fn first(&self, value: Value) -> Rank {
        let first = || self.ranks().find(|&rank| self.contains(value.set, rank));
        self.only(value).or_else(first).unwrap_or_default()
    }

    /// The union, or a rank that both have.
    fn union(&mut self, a: u32, b: u32) -> Result<u32, Rank> {
        let key = (a.min(b), a.max(b));
        if self.last.0 == key {
            return Ok(self.last.1);
        }
        let union = match self.unions.get(&key) {
            Some(&known) => known,
            None => self.new_union(key)?,
        };
        self.last = (key, union);
        Ok(union)
    }

    fn new_union(&mut self, (a, b): (u32, u32)) -> Result<u32, Rank> {
        let both = self.of(a).iter().zip(self.of(b)).map(|(x, y)| x & y);
        if let Some((word, bits)) = (0u32..).zip(both).find(|w| w.1 != 0) {
            return Err(Rank(word * 64 + bits.trailing_zeros()));
        }
        let [a_start, b_start] = [a, b].map(|set| set as usize * self.words_per_set);
        let union = (self.bits.len() / self.words_per_set) as u32;
        for word in 0..self.words_per_set {
            self.bits.push(self.bits[a_start + word] | self.bits[b_start + word]);
        }
        self.unions.insert((a, b), union);
        Ok(union)
    }

    /// `rank 3`, `ranks 1, 2 and 5`, `all ranks`.
    fn name(&self, set: u32) -> String {
        let members: Vec<Rank> = self.ranks().filter(|&r| self.contains(set, r)).collect();
        let numbers = |list: &[Rank]| list.iter().map(Rank::to_string).collect::<Vec<_>>().join(", ");
        match &members[..] {
            all if all.len() as u32 == self.ranks && self.ranks > 1 => "all ranks".into(),
            [one] => format!("rank {one}"),
            [init @ .., last] if members.len() <= 8 => format!("ranks {} and {last}", numbers(init)),
            many => format!("{} ranks ({}, ...)", many.len(), numbers(&many[..many.len().min(4)])),
        }
    }

    fn value(&self, value: Value, names: &dyn Names) -> String {
        match value.is_nothing() {
            true => "nothing".into(),
            false => names.contribution(value.chunk, &self.name(value.set)),
        }
    }
}

/// What is carried out.
pub struct Run<'a> {
    /// The threads.
    pub machine: &'a Machine,
    /// What is in their memory.
    pub memory: &'a mut [Value],
    /// Who has contributed.
    pub sets: &'a mut Sets,
    /// What to call it all.
    pub names: &'a dyn Names,
}

type Wrong = (Kind, Remark);

/// Messages on their way.
struct Mail {
    /// For each step that sends, the number of its message.
    of: Vec<u32>,
    messages: Vec<Vec<Value>>,
    free: Vec<u32>,
    /// Memory for messages.
    spare: Vec<Vec<Value>>,
}

impl Mail {
    fn post(&mut self, step: StepId, message: Vec<Value>) {
        match self.free.pop() {
            Some(number) => {
                self.of[step.index()] = number;
                self.messages[number as usize] = message;
            }
            None => {
                self.of[step.index()] = self.messages.len() as u32;
                self.messages.push(message);
            }
        }
    }

    fn take(&mut self, sender: StepId) -> Vec<Value> {
        let number = self.of[sender.index()];
        self.free.push(number);
        std::mem::take(&mut self.messages[number as usize])
    }
}

impl Run<'_> {
    /// Performs the steps in `order`; `watch` sees every value that a step moves, and which of the step's values it is. False after a flaw, the first of which goes to
    /// `flaws`.
    pub fn perform(
        &mut self,
        order: &[StepId],
        mut watch: impl FnMut(&Sets, StepId, u32, Value),
        flaws: &mut Findings,
    ) -> bool {
        let mut mail =
            Mail { of: vec![0; self.machine.steps.len()], messages: Vec::new(), free: Vec::new(), spare: Vec::new() };
        for &step in order {
            if let Err((kind, remark)) = self.step(step, &mut mail, &mut watch) {
                flaws.add(kind, self.machine.site(step, self.names), remark);
                return false;
            }
        }
        true
    }

    fn step(
        &mut self,
        step: StepId,
        mail: &mut Mail,
        watch: &mut impl FnMut(&Sets, StepId, u32, Value),
    ) -> Result<(), Wrong> {
        let instruction = self.machine.step(step);
        let op = instruction.op;
        let mut message = match instruction.sender {
            // The receiver performs its step after the sender, so the message is there.
            Some(sender) if op.receives() => mail.take(sender),
            _ => mail.spare.pop().unwrap_or_default(),
        };
        let count = match op {
            Op::Nop | Op::ResidualAdd => 0,
            _ => instruction.count(),
        };
        message.resize(count as usize, Value::NOTHING);
        let (mut src, mut dst) = (instruction.src.iter(), instruction.dst.iter());
        for (nth, slot) in (0..count).zip(&mut message) {
            let (src, dst) = (src.next(), dst.next());
            let (first, operand) = match op {
                Op::Send | Op::Copy => (src, None),
                Op::Reduce => (src, dst),
                _ => (None, src),
            };
            let mut value = match first {
                Some(cell) => self.read(step, cell)?,
                None => *slot,
            };
            if let Some(cell) = operand {
                let mine = self.read(step, cell)?;
                value = self.add(value, mine)?;
            }
            watch(self.sets, step, nth, value);
            if let Some(cell) = dst {
                self.memory[cell as usize] = value;
            }
            *slot = value;
        }
        if op.sends() {
            mail.post(step, message);
        } else {
            mail.spare.push(message);
        }
        Ok(())
    }

    #[inline]
    fn read(&self, step: StepId, cell: u32) -> Result<Value, Wrong> {
        let value = self.memory[cell as usize];
        if value.is_nothing() {
            let (cell, memory) = self.names.cell(self.machine.thread_of(step).rank, cell);
            return Err((Kind::Absent, format!("uses {cell} of its {memory}, in which there is nothing yet").into()));
        }
        Ok(value)
    }

    #[inline]
    fn add(&mut self, a: Value, b: Value) -> Result<Value, Wrong> {
        if a.chunk != b.chunk {
            let (a, b) = (self.sets.value(a, self.names), self.sets.value(b, self.names));
            let accepted = format!("the same {}", self.names.unit());
            return Err((Kind::Mixed, Remark::accepting(format!("adds {a} to {b}"), accepted)));
        }
        match self.sets.union(a.set, b.set) {
            Ok(set) => Ok(Value { chunk: a.chunk, set }),
            Err(twice) => {
                let (mine, other) = (self.sets.name(b.set), self.sets.value(a, self.names));
                let message = format!("adds {other} to that of {mine}: rank {twice} counts twice");
                Err((Kind::Doubled, message.into()))
            }
        }
    }
}

/// Whose contributions a result must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Every rank's.
    All,
    /// One rank's.
    One(Rank),
}

/// What a rank must have in the end.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// The rank.
    pub rank: Rank,
    /// Which of its results, from 0.
    pub nth: u32,
    /// The number of the chunk.
    pub chunk: u32,
    /// Whose.
    pub from: From,
}

impl Sets {
    /// Whether a value is what is wanted.
    pub fn is_right(&self, value: Value, chunk: u32, from: From) -> bool {
        let whose = match from {
            From::All => self.len(value.set) == self.ranks,
            From::One(rank) => self.only(value) == Some(rank),
        };
        whose && value.chunk == chunk
    }

    /// Compares results with what was promised.
    pub fn check(&self, results: impl Iterator<Item = (Promise, Value)>, names: &dyn Names, flaws: &mut Findings) {
        let mut wrong = 0;
        for (promise, value) in results.filter(|(p, value)| !self.is_right(*value, p.chunk, p.from)) {
            wrong += 1;
            if wrong <= LISTED {
                let (kind, remark) = self.mistake(promise, value, names);
                flaws.add(kind, Site::rank(promise.rank), remark);
            }
        }
        flaws.omitted += wrong.saturating_sub(LISTED);
    }

    fn mistake(&self, Promise { nth, chunk, from, .. }: Promise, value: Value, names: &dyn Names) -> Wrong {
        let whose = match from {
            From::All => "all ranks".into(),
            From::One(one) => format!("rank {one}"),
        };
        let lost = value.is_nothing() || value.chunk == chunk && from == From::All;
        let message = format!("ends with {} in {} {nth} of its output", self.value(value, names), names.unit());
        let remark = Remark::accepting(message, names.contribution(chunk, &whose));
        (if lost { Kind::Lost } else { Kind::Misplaced }, remark)
    }
}
