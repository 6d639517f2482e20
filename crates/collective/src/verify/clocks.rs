//! Which accesses to shared data happened before which (Lamport's relation, kept in vector clocks).
//!
//! The clock of a thread has one entry per thread of its line: the number of that thread's steps that
//! are known to be over or under way. A message carries the clock of its sender. An access in
//! step `pc` of thread `t` happened before the present one of another thread if the latter's entry for
//! `t` is above `pc`. Lines on which every rank has a single thread need none of this.

use super::flaw::Flaw;
use crate::plan::PhaseId;
use crate::program::Slot;
use crate::rank::{LineRank, Rank};

/// A vector clock: a message's, or a thread's.
pub(super) type Clock = Box<[u32]>;

/// The clocks of a rank's threads, and who touched its data last, within a phase.
#[derive(Default)]
pub(super) struct Clocks {
    rank: Rank,
    phase: PhaseId,
    threads: usize,
    /// Where the rank's own entries begin.
    own: usize,
    clocks: Vec<Clock>,
    /// Per cell: the last write, thread and step + 1.
    written: Vec<(u16, u32)>,
    /// Per cell and thread: step + 1 of the last read.
    read: Vec<u32>,
}

impl Clocks {
    /// For a rank at place `at` of a line of `ranks`, with `threads` threads each and `cells` data.
    pub(super) fn new((rank, phase): (Rank, PhaseId), at: LineRank, ranks: u32, threads: u16, cells: usize) -> Clocks {
        if threads < 2 {
            return Clocks::default();
        }
        let threads = usize::from(threads);
        let clock = vec![0; ranks as usize * threads].into_boxed_slice();
        Clocks {
            rank,
            phase,
            threads,
            own: at.index() * threads,
            clocks: vec![clock; threads],
            written: vec![(0, 0); cells],
            read: vec![0; cells * threads],
        }
    }

    fn idle(&self) -> bool {
        self.threads == 0
    }

    /// A step is under way.
    pub(super) fn begin(&mut self, at: Slot) {
        if !self.idle() {
            let thread = usize::from(at.thread);
            self.clocks[thread][self.own + thread] = at.pc + 1;
        }
    }

    /// The clock that a message takes along.
    pub(super) fn stamp(&self, thread: u16) -> Clock {
        if self.idle() { Clock::default() } else { self.clocks[usize::from(thread)].clone() }
    }

    /// A message has been received.
    pub(super) fn join(&mut self, thread: u16, stamp: &[u32]) {
        if !self.idle() {
            self.clocks[usize::from(thread)]
                .iter_mut()
                .zip(stamp)
                .for_each(|(mine, &theirs)| *mine = theirs.max(*mine));
        }
    }

    /// A step reads or writes a cell.
    pub(super) fn touch(&mut self, at: Slot, cell: usize, write: bool) -> Result<(), Flaw> {
        if self.idle() {
            return Ok(());
        }
        let known = |thread: usize| self.clocks[usize::from(at.thread)][self.own + thread];
        let race = |thread: u16, steps: u32| Flaw::Race {
            rank: self.rank,
            phase: self.phase,
            element: cell as u64,
            at,
            other: Slot { thread, pc: steps - 1 },
        };
        let (writer, steps) = self.written[cell];
        if known(usize::from(writer)) < steps {
            return Err(race(writer, steps));
        }
        let read = &self.read[cell * self.threads..][..self.threads];
        if write {
            if let Some(reader) = (0..self.threads).find(|&t| known(t) < read[t]) {
                return Err(race(reader as u16, read[reader]));
            }
            self.written[cell] = (at.thread, at.pc + 1);
        } else {
            self.read[cell * self.threads + usize::from(at.thread)] = at.pc + 1;
        }
        Ok(())
    }
}
