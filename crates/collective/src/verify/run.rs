//! The execution of a plan, step by step.

use super::clocks::{Clock, Clocks};
use super::flaw::{Awaited, Flaw, Misdirection, Wait};
use super::values::{Sets, Tokens, Vectors};
use super::verifier::{Buffering, ELEMENTS, Verifier};
use crate::kind::Kind;
use crate::plan::{PhaseId, Split};
use crate::program::{Blocks, Op, Slot, Step};
use crate::rank::{LineRank, Rank};
use std::collections::BTreeMap;
use syncline_core::Id;

/// Data on its way.
struct Message {
    /// Who sent it: rank and thread.
    from: (Rank, u16),
    sets: Sets,
    clock: Clock,
}

/// Where a rank is.
#[derive(Default)]
struct Cursor {
    phase: PhaseId,
    /// Its number in the phase.
    own: LineRank,
    /// The part of the chunk that it works on: offset and length.
    vector: (u64, u64),
    /// Per thread the number of its step and, once that has received, what it will send on.
    threads: Vec<(u32, Option<Sets>)>,
}

impl Verifier<'_> {
    /// Runs the plan.
    ///
    /// # Errors
    /// The first [`Flaw`] found.
    ///
    /// # Panics
    /// If there is not one program per phase.
    pub fn verify(&self) -> Result<(), Flaw> {
        assert_eq!(self.programs.len(), self.plan.phases().len(), "one program per phase");
        for (phase, (program, expected)) in self.plan.phase_ids().zip(self.programs.iter().zip(self.plan.phases())) {
            if program.ranks() != expected.ranks {
                return Err(Flaw::WrongSize { phase, expected: expected.ranks, got: program.ranks() });
            }
        }
        Run::new(self).run_all()
    }
}

struct Run<'v, 'a> {
    verifier: &'v Verifier<'a>,
    data: Data,
    /// Switches that take part: for each its phase and the first rank of its line. They are numbered after
    /// the ranks.
    switches: Vec<(PhaseId, Rank)>,
    cursors: Vec<Cursor>,
    clocks: Vec<Clocks>,
    /// Per receiver, by phase and step.
    mail: Vec<BTreeMap<(PhaseId, Slot), Message>>,
    /// Messages on their way through each connection.
    under_way: BTreeMap<(Rank, u16, Rank), u32>,
}

enum Data {
    Vectors(Vectors),
    Tokens(Tokens),
}

/// A step of a rank, and the data that it works on.
#[derive(Clone, Copy)]
struct Work {
    rank: Rank,
    phase: PhaseId,
    at: Slot,
    step: Step,
    /// Elements of the chunk, or cells of an all-to-all: up to two ranges, the second one if blocks wrap.
    cells: [(u64, u64); 2],
}

impl Work {
    fn cells(&self) -> impl Iterator<Item = u64> + use<> {
        let [a, b] = self.cells;
        (a.0..a.1).chain(b.0..b.1)
    }

    fn place(&self) -> (Rank, PhaseId, Slot) {
        (self.rank, self.phase, self.at)
    }
}

impl<'v, 'a> Run<'v, 'a> {
    fn new(verifier: &'v Verifier<'a>) -> Self {
        let with_switch = verifier.plan.phase_ids().zip(&verifier.programs).filter(|(_, program)| program.has_switch());
        let of_phase = |(phase, _): (PhaseId, _)| {
            let dim = verifier.plan.phases()[phase.index()].dim;
            let leads = move |&rank: &Rank| verifier.coordinate(rank, dim) == 0 && verifier.takes_part(rank, phase);
            verifier.all().filter(leads).map(move |rank| (phase, rank))
        };
        let switches: Vec<(PhaseId, Rank)> = with_switch.flat_map(of_phase).collect();
        let all = verifier.ranks() + switches.len() as u32;
        let data = match verifier.plan.kind() {
            Kind::AllToAll => Data::Tokens(Tokens::new(verifier)),
            _ => Data::Vectors(Vectors::new(verifier, all)),
        };
        Run {
            verifier,
            data,
            switches,
            cursors: (0..all).map(|_| Cursor::default()).collect(),
            clocks: (0..all).map(|_| Clocks::default()).collect(),
            mail: (0..all).map(|_| BTreeMap::new()).collect(),
            under_way: BTreeMap::new(),
        }
    }

    /// The phase of a switch and the first rank of its line.
    fn as_switch(&self, rank: Rank) -> Option<(PhaseId, Rank)> {
        rank.0.checked_sub(self.verifier.ranks()).map(|i| self.switches[i as usize])
    }

    /// Whom a step of a rank names as `there`.
    fn peer(&self, rank: Rank, phase: PhaseId, there: LineRank) -> Rank {
        let line = self.verifier.plan.phases()[phase.index()];
        let member = self.as_switch(rank).map_or(rank, |(_, first)| first);
        if there.0 < line.ranks {
            return self.verifier.peer(member, line.dim, there);
        }
        let first = self.verifier.peer(member, line.dim, LineRank(0));
        let place = self.switches.binary_search(&(phase, first)).expect("a line that takes part has a switch");
        Rank(self.verifier.ranks() + place as u32)
    }

    fn run_all(mut self) -> Result<(), Flaw> {
        let all = (0..self.cursors.len()).map(Rank::from_index);
        all.clone().for_each(|rank| self.enter(rank));
        let mut progress = true;
        while progress {
            progress = false;
            for rank in all.clone() {
                while self.advance_rank(rank)? {
                    progress = true;
                }
            }
        }
        let stuck: Vec<Wait> = all.flat_map(|rank| self.waits(rank)).collect();
        if !stuck.is_empty() {
            return Err(Flaw::Deadlock { stuck });
        }
        assert!(self.mail.iter().all(BTreeMap::is_empty), "a message is for a step, and all steps are done");
        match &mut self.data {
            Data::Vectors(vectors) => vectors.check(self.verifier),
            Data::Tokens(tokens) => tokens.check(),
        }
    }

    /// Prepares a rank for its phase, or for the next one that it takes part in.
    fn enter(&mut self, rank: Rank) {
        let verifier = self.verifier;
        let switch = self.as_switch(rank);
        let cursor = &mut self.cursors[rank.index()];
        let concerns = |phase| switch.map_or_else(|| verifier.takes_part(rank, phase), |(own, _)| own == phase);
        while (cursor.phase.index()) < verifier.programs.len() && !concerns(cursor.phase) {
            cursor.phase = cursor.phase.next();
        }
        let phase = cursor.phase;
        let Some(program) = verifier.programs.get(phase.index()) else { return cursor.threads.clear() };
        cursor.threads = (0..program.threads()).map(|_| (0, None)).collect();
        let line = verifier.plan.phases()[phase.index()];
        let cells = match &mut self.data {
            Data::Vectors(_) => verifier.elements as usize,
            Data::Tokens(tokens) => {
                tokens.enter(verifier, rank, phase);
                (line.ranks * line.ranks) as usize
            }
        };
        (cursor.own, cursor.vector) = match switch {
            None => (verifier.on_line(rank, line.dim), verifier.vector(rank, phase)),
            Some((_, first)) => (LineRank(line.ranks), verifier.vector(first, phase)),
        };
        let places = line.ranks + u32::from(program.has_switch());
        self.clocks[rank.index()] = Clocks::new((rank, phase), cursor.own, places, program.threads(), cells);
    }

    /// One receive or send of each thread of a rank, or its change of phase; false if it must wait.
    fn advance_rank(&mut self, rank: Rank) -> Result<bool, Flaw> {
        let Cursor { phase, own, .. } = self.cursors[rank.index()];
        let Some(program) = self.verifier.programs.get(phase.index()) else { return Ok(false) };
        let (mut progress, mut finished) = (false, true);
        for thread in 0..program.threads() {
            let pc = self.cursors[rank.index()].threads[usize::from(thread)].0;
            if pc < program.steps(own, thread) {
                finished = false;
                progress |= self.advance(rank, phase, Slot { thread, pc })?;
            }
        }
        if finished {
            if let Data::Tokens(tokens) = &mut self.data {
                tokens.leave(self.verifier, rank, phase);
            }
            self.cursors[rank.index()].phase = phase.next();
            self.enter(rank);
        }
        Ok(progress || finished)
    }

    /// A step with its data, if it makes sense.
    fn work(&self, rank: Rank, phase: PhaseId, at: Slot) -> Result<Work, Flaw> {
        let (program, line) = (&self.verifier.programs[phase.index()], self.verifier.plan.phases()[phase.index()]);
        let Cursor { own, vector: (base, len), .. } = self.cursors[rank.index()];
        let step = program.step(own, at);
        let peers = [(step.op.receives(), step.from), (step.op.sends(), step.to)];
        let places = line.ranks + u32::from(program.has_switch());
        if let Some(&(_, peer)) = peers.iter().find(|p| p.0 && (p.1 == own || p.1.0 >= places)) {
            return Err(Flaw::NoSuchPeer { rank, phase, at, peer });
        }
        let (blocks, parts) = (step.blocks, program.parts());
        let tokens = line.kind == Kind::AllToAll;
        let least = u32::from(!program.has_switch()); // a switch also says that it is done
        let fits = blocks.first < parts && (least..=parts).contains(&blocks.count);
        if !fits || tokens && (!parts.is_multiple_of(line.ranks) || blocks.origin >= line.ranks) {
            return Err(Flaw::NoSuchBlocks { rank, phase, at, blocks });
        }
        if step.op.reduces() && (tokens || blocks.count == 0) {
            return Err(Flaw::NothingToAdd { rank, phase, at });
        }
        let cells = if tokens {
            let base = u64::from(blocks.origin) * u64::from(parts);
            ranges(base, parts.into(), parts, blocks)
        } else {
            ranges(base, len, parts, blocks)
        };
        Ok(Work { rank, phase, at, step, cells })
    }

    /// One receive or one send of a thread; false if it must wait.
    fn advance(&mut self, rank: Rank, phase: PhaseId, at: Slot) -> Result<bool, Flaw> {
        let work = self.work(rank, phase, at)?;
        let thread = usize::from(at.thread);
        if work.step.op.receives() && self.cursors[rank.index()].threads[thread].1.is_none() {
            let Some(message) = self.mail[rank.index()].remove(&(phase, at)) else { return Ok(false) };
            *self.under_way.get_mut(&self.connection(message.from, rank)).expect("it was under way") -= 1;
            let sets = self.receive(&work, message)?;
            if work.step.op.sends() {
                self.cursors[rank.index()].threads[thread].1 = Some(sets);
                return Ok(true);
            }
        }
        if work.step.op.sends() && !self.send(&work)? {
            return Ok(false);
        }
        self.cursors[rank.index()].threads[thread].0 += 1;
        Ok(true)
    }

    /// Takes a message: returns what is to be sent on.
    fn receive(&mut self, work: &Work, message: Message) -> Result<Sets, Flaw> {
        let (clocks, mut sets) = (&mut self.clocks[work.rank.index()], message.sets);
        clocks.begin(work.at);
        clocks.join(work.at.thread, &message.clock);
        let op = work.step.op;
        for (access, write) in [(op.reduces(), false), (op.stores(), true)] {
            if access {
                work.cells().try_for_each(|cell| clocks.touch(work.at, cell as usize, write))?;
            }
        }
        match &mut self.data {
            Data::Vectors(vectors) => {
                if op.reduces() {
                    vectors.add(work.place(), work.cells(), &mut sets)?;
                }
                if op.stores() {
                    vectors.store(work.rank, work.cells(), &sets);
                }
            }
            Data::Tokens(tokens) => tokens.store(work.rank, work.cells()),
        }
        Ok(sets)
    }

    /// Sends what the step has in hand, or local data; false if there is no room.
    fn send(&mut self, work: &Work) -> Result<bool, Flaw> {
        let Work { rank, phase, at, step, .. } = *work;
        let to = self.peer(rank, phase, step.to);
        self.check_receiver(work, to)?;
        if !self.has_room(work, to) {
            return Ok(false);
        }
        let in_hand = self.cursors[rank.index()].threads[usize::from(at.thread)].1.take();
        let sets = match in_hand {
            Some(sets) => sets,
            None => self.local(work)?,
        };
        let message = Message { from: (rank, at.thread), sets, clock: self.clocks[rank.index()].stamp(at.thread) };
        self.mail[to.index()].insert((phase, step.into), message);
        *self.under_way.entry(self.connection((rank, at.thread), to)).or_default() += 1;
        Ok(true)
    }

    /// Local data to be sent.
    fn local(&mut self, work: &Work) -> Result<Sets, Flaw> {
        assert_eq!(work.step.op, Op::Send);
        let clocks = &mut self.clocks[work.rank.index()];
        clocks.begin(work.at);
        work.cells().try_for_each(|cell| clocks.touch(work.at, cell as usize, false))?;
        let (rank, phase, at) = work.place();
        match &self.data {
            Data::Vectors(vectors) => vectors.copy(work.place(), work.cells()),
            Data::Tokens(tokens) => match tokens.has(rank, work.cells()) {
                Ok(()) => Ok(Sets::new()),
                Err(cell) => {
                    let parts = u64::from(self.verifier.programs[phase.index()].parts());
                    Err(Flaw::Absent { rank, phase, at, element: cell % parts })
                }
            },
        }
    }

    /// Whether the step that a message names is there to take it.
    fn check_receiver(&self, work: &Work, to: Rank) -> Result<(), Flaw> {
        let Work { rank, phase, at, step, .. } = *work;
        let into = step.into;
        let wrong = |why| Err(Flaw::WrongStep { rank, phase, at, to, into, why });
        let program = &self.verifier.programs[phase.index()];
        if into.thread >= program.threads() || into.pc >= program.steps(step.to, into.thread) {
            return wrong(Misdirection::NoSuchStep);
        }
        let takes = program.step(step.to, into);
        if !takes.op.receives() {
            return wrong(Misdirection::DoesNotReceive);
        }
        if takes.from != self.cursors[rank.index()].own {
            return wrong(Misdirection::OtherSender);
        }
        let cursor = &self.cursors[to.index()];
        let passed = cursor.phase > phase
            || cursor.phase == phase && {
                let (pc, in_hand) = &cursor.threads[usize::from(into.thread)];
                *pc > into.pc || *pc == into.pc && in_hand.is_some()
            };
        if passed || self.mail[to.index()].contains_key(&(phase, into)) {
            return wrong(Misdirection::Taken);
        }
        if takes.blocks != step.blocks {
            let (expected, got) = (takes.blocks, step.blocks);
            return Err(Flaw::Mismatch { rank: to, phase, at: into, expected, got });
        }
        Ok(())
    }

    /// What a thread of a rank sends through to another rank.
    fn connection(&self, (rank, thread): (Rank, u16), to: Rank) -> (Rank, u16, Rank) {
        let shared = matches!(self.verifier.buffering, Buffering::SharedSlots(_));
        (rank, if shared { 0 } else { thread }, to)
    }

    fn has_room(&self, work: &Work, to: Rank) -> bool {
        let connection = self.connection((work.rank, work.at.thread), to);
        let under_way = || self.under_way.get(&connection).copied().unwrap_or(0);
        match self.verifier.buffering {
            Buffering::Eager => true,
            Buffering::Slots(slots) | Buffering::SharedSlots(slots) => under_way() < slots,
            Buffering::Rendezvous => {
                let (cursor, into) = (&self.cursors[to.index()], work.step.into);
                cursor.phase == work.phase
                    && matches!(cursor.threads[usize::from(into.thread)], (pc, None) if pc == into.pc)
            }
        }
    }

    /// What the threads of a rank wait for.
    fn waits(&self, rank: Rank) -> Vec<Wait> {
        let cursor = &self.cursors[rank.index()];
        let Cursor { phase, own, .. } = *cursor;
        let Some(program) = self.verifier.programs.get(phase.index()) else { return Vec::new() };
        let wait = |(thread, (pc, in_hand)): (u16, &(u32, Option<Sets>))| {
            let at = Slot { thread, pc: *pc };
            (*pc < program.steps(own, thread)).then(|| {
                let step = program.step(own, at);
                let awaited = if step.op.receives() && in_hand.is_none() {
                    Awaited::Message(self.peer(rank, phase, step.from))
                } else {
                    Awaited::Room(self.peer(rank, phase, step.to))
                };
                Wait { rank, phase, at, awaited }
            })
        };
        (0..).zip(&cursor.threads).filter_map(wait).collect()
    }
}

/// Where blocks of a vector at `base` are: from, to; a second range if they wrap.
fn ranges(base: u64, len: u64, parts: u32, blocks: Blocks) -> [(u64, u64); 2] {
    let start = |block: u32| base + if block == parts { len } else { Split::share(ELEMENTS, len, parts, block).0 };
    let end = blocks.first + blocks.count;
    if end <= parts {
        [(start(blocks.first), start(end)), (0, 0)]
    } else {
        [(start(blocks.first), base + len), (base, start(end - parts))]
    }
}
