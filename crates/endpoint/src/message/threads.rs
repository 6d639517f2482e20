//! The threads of the chunks that an NPU runs.
//!
//! Programs of few threads keep the state of all of them in one row, from the oldest chunk to the newest. Where a program
//! has more ([`DENSE`]), such as one with a tree for every rank, a thread has state only while it is active: from its first
//! step, or the arrival of its first message, to its last step.

use super::{FRESH, Running, Thread};
use crate::api::ChunkId;
use std::collections::{BTreeMap, VecDeque};
use syncline_collective::Slot;
use syncline_core::Id;

/// The most threads of which all keep their state while their chunk is in flight.
pub(super) const DENSE: u16 = 16;

/// The threads of a chunk that has many. Looking one up is kept apart from the events of chunks that have few.
#[derive(Clone, Debug, Default)]
pub(super) struct ActiveThreads {
    active: BTreeMap<u16, Thread>,
    /// A bit for each thread that has done all its steps in the present phase.
    finished: Vec<u64>,
}

impl ActiveThreads {
    /// For a phase in which no thread has begun.
    pub fn restart(&mut self, threads: u16) {
        self.active.clear();
        self.finished.clear();
        self.finished.resize(usize::from(threads).div_ceil(64), 0);
    }

    #[inline(never)]
    pub fn get(&self, thread: u16) -> Option<&Thread> {
        self.active.get(&thread)
    }

    #[inline(never)]
    pub fn get_or_begin(&mut self, thread: u16) -> &mut Thread {
        self.active.entry(thread).or_insert(FRESH)
    }

    pub fn has_finished(&self, thread: u16) -> bool {
        self.finished.get(usize::from(thread / 64)).is_some_and(|bits| bits >> (thread % 64) & 1 == 1)
    }

    /// A thread has done all its steps; false if that was known.
    pub fn finish(&mut self, thread: u16) -> bool {
        let first = !self.has_finished(thread);
        if first {
            self.finished[usize::from(thread / 64)] |= 1 << (thread % 64);
            // Its messages may still have to leave: who reports that finds no thread, and needs none.
            self.active.remove(&thread);
        }
        first
    }

    pub fn iter(&self) -> impl Iterator<Item = (u16, &Thread)> {
        self.active.iter().map(|(&thread, t)| (thread, t))
    }
}

/// The chunks of an NPU between the oldest unfinished one and the newest it has heard of.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    pub base: ChunkId,
    pub next: ChunkId,
    pub running: u32,
    pub chunks: VecDeque<Running>,
    /// The threads of all chunks, the same number for each; none where chunks keep their active ones.
    pub dense: VecDeque<Thread>,
}

impl Window {
    /// A chunk, made known if it was not, and its place in the window. Every event of a chunk asks for it.
    #[inline(always)]
    pub fn chunk(&mut self, seq: ChunkId, threads: usize) -> (&mut Running, usize) {
        let at = self.place(seq);
        if at >= self.chunks.len() {
            self.grow(at + 1, threads);
        }
        (&mut self.chunks[at], at)
    }

    /// The place of a chunk that has been heard of.
    #[inline(always)]
    pub fn place(&self, seq: ChunkId) -> usize {
        (seq.0 - self.base.0) as usize
    }

    /// Makes room for so many chunks.
    #[cold]
    fn grow(&mut self, chunks: usize, threads: usize) {
        self.chunks.resize(chunks, Running::default());
        self.dense.resize(chunks * threads, FRESH);
    }

    /// The active threads of the chunk at a place.
    fn active_of(&mut self, at: usize) -> &mut ActiveThreads {
        self.chunks[at].active.get_or_insert_default()
    }

    /// A thread of the chunk at a place, of so many that every chunk keeps.
    #[inline(always)]
    pub fn thread(&mut self, at: usize, thread: u16, threads: usize) -> &mut Thread {
        match threads {
            0 => self.active_of(at).get_or_begin(thread),
            _ => &mut self.dense[at * threads + usize::from(thread)],
        }
    }

    /// The state of a thread that is active.
    #[inline(always)]
    pub fn active(&self, at: usize, thread: u16, threads: usize) -> Option<&Thread> {
        match threads {
            0 => self.chunks[at].active.as_ref()?.get(thread),
            _ => self.dense.get(at * threads + usize::from(thread)),
        }
    }

    /// Whether a thread has done a step of the phase that its chunk is in.
    pub fn has_done(&self, at: usize, step: Slot, threads: usize) -> bool {
        let finished = self.chunks[at].active.as_ref().is_some_and(|a| a.has_finished(step.thread));
        finished || self.active(at, step.thread, threads).is_some_and(|t| t.pc > step.pc)
    }

    /// All threads of a chunk begin anew.
    pub fn restart(&mut self, at: usize, threads: usize, count: u16) {
        match threads {
            0 => self.active_of(at).restart(count),
            _ => self.dense.range_mut(at * threads..(at + 1) * threads).for_each(|t| *t = FRESH),
        }
    }

    /// A thread has no steps left; false if that was known.
    pub fn finish(&mut self, at: usize, thread: u16, threads: usize) -> bool {
        match threads {
            0 => self.active_of(at).finish(thread),
            _ => !std::mem::replace(&mut self.dense[at * threads + usize::from(thread)].finished, true),
        }
    }

    /// The active threads of a chunk.
    pub fn active_threads(&self, at: usize, threads: usize) -> Vec<(u16, Thread)> {
        match threads {
            0 => self.chunks[at].active.iter().flat_map(|a| a.iter()).map(|(thread, t)| (thread, *t)).collect(),
            _ => (0..).zip(self.dense.range(at * threads..(at + 1) * threads).copied()).collect(),
        }
    }

    /// The oldest chunk is done.
    pub fn pop(&mut self, threads: usize) {
        self.chunks.pop_front();
        self.dense.drain(..threads);
        self.base = self.base.next();
    }
}
