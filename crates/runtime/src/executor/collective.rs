//! Carries out a collective: the threads of the plan, step by step and chunk after chunk.
//!
//! All threads of a rank are driven by the thread of the process that made the call. Each goes through the steps of a chunk, and then on to the
//! next chunk, whatever the others do; [`WINDOW`] chunks at most are under way. Where a plan has several phases, all
//! threads of the rank end a phase before any begins the next. A step is carried out when the step that it depends on is done, its message
//! has arrived, and the slot for what it sends is free.

use super::memory::{Buffers, Run, Storage, WINDOW};
use super::ports::{Ports, mismatch};
use super::shape::{Shape, Span};
use super::{Asked, Progress};
use crate::bootstrap::Failure;
use crate::plan::Verified;
use crate::transport::ring::Label;
use crate::value::Arithmetic;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use syncline_collective::program::{Detail, Op, Slot, Step};

/// Where a thread of a rank is. Positions are ordered as they are gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    chunk: u32,
    phase: u16,
    pc: u32,
}

/// A collective that is under way on one rank.
pub(crate) struct Collective {
    plan: Arc<Verified>,
    asked: Asked,
    arithmetic: Arithmetic,
    storage: Storage,
    threads: Vec<Position>,
    /// What blocks are cut from, by phase, of the chunks that are open.
    spans: Vec<Vec<Span>>,
    chunks: u32,
    /// Chunks that have been opened and closed.
    opened: u32,
    closed: u32,
    /// The peer that the last thread waits for that could not go on.
    waits_for: Option<u32>,
}

/// What one turn of a thread came to.
enum Turn {
    Done,
    Waits,
}

impl Collective {
    /// A collective of `count` elements, of a share where ranks have shares.
    ///
    /// # Safety
    /// The buffers have the sizes that the collective gives them, and stay valid and otherwise unused until it is finished.
    pub(crate) unsafe fn new(
        plan: Arc<Verified>,
        own: u32,
        count: u64,
        arithmetic: Arithmetic,
        buffers: Buffers,
        asked: Asked,
    ) -> Collective {
        let shape = Shape::new(&plan, own, count, arithmetic.data_type().size() as u32);
        let storage = Storage::new(&plan, shape, buffers, arithmetic);
        let threads = vec![Position::default(); plan.threads().into()];
        let chunks = shape.chunks();
        let spans = vec![Vec::new(); WINDOW as usize];
        Collective { plan, asked, arithmetic, storage, threads, spans, chunks, opened: 0, closed: 0, waits_for: None }
    }

    /// Goes on as far as possible.
    pub(crate) fn poll(&mut self, ports: &mut Ports) -> Result<Progress, Failure> {
        let mut moved = false;
        loop {
            if self.closed == self.chunks {
                return Ok(Progress::Finished);
            }
            let mut turned = false;
            for thread in 0..self.threads.len() {
                while let Turn::Done = self.turn(thread, ports)? {
                    turned = true;
                }
            }
            self.close_chunks();
            moved |= turned;
            if !turned && self.closed < self.chunks {
                return Ok(if moved { Progress::Moved } else { Progress::Waits });
            }
        }
    }

    /// The peer that it waits for.
    pub(crate) fn waits_for(&self) -> Option<u32> {
        self.waits_for
    }

    /// What was asked for.
    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
    }

    fn steps(&self, thread: usize, phase: usize) -> u32 {
        let (own, Some(verse)) = (self.storage.shape.own, self.plan.phases().get(phase)) else { return 0 };
        if thread >= usize::from(verse.program.threads()) || !self.plan.takes_part(own, phase) {
            return 0;
        }
        verse.program.steps(self.plan.place(own, phase), thread as u16)
    }

    /// Carries out the next step of a thread, or brings it to the next phase or chunk.
    fn turn(&mut self, thread: usize, ports: &mut Ports) -> Result<Turn, Failure> {
        let at = self.threads[thread];
        if at.chunk == self.chunks {
            return Ok(Turn::Waits);
        }
        if at.chunk == self.opened {
            if at.chunk >= self.closed + WINDOW {
                return Ok(Turn::Waits);
            }
            self.open(at.chunk);
        }
        let phase = usize::from(at.phase);
        if at.pc < self.steps(thread, phase) {
            return self.step(thread, at, ports);
        }
        let next = if phase + 1 < self.plan.phases().len() {
            let has_ended = |(other, there): (usize, &Position)| {
                (there.chunk, there.phase) > (at.chunk, at.phase)
                    || (there.chunk, there.phase) == (at.chunk, at.phase) && there.pc >= self.steps(other, phase)
            };
            if !self.threads.iter().enumerate().all(has_ended) {
                return Ok(Turn::Waits);
            }
            Position { phase: at.phase + 1, pc: 0, ..at }
        } else {
            Position { chunk: at.chunk + 1, phase: 0, pc: 0 }
        };
        self.threads[thread] = next;
        Ok(Turn::Done)
    }

    fn open(&mut self, chunk: u32) {
        let shape = self.storage.shape;
        let spans = (0..self.plan.phases().len().max(1)).map(|phase| shape.span(&self.plan, chunk, phase)).collect();
        self.spans[(chunk % WINDOW) as usize] = spans;
        self.storage.open(chunk, self.span(chunk, 0));
        self.opened = chunk + 1;
    }

    fn span(&self, chunk: u32, phase: usize) -> Span {
        self.spans[(chunk % WINDOW) as usize][phase]
    }

    /// Closes chunks that all threads have left behind.
    fn close_chunks(&mut self) {
        let ended = self.threads.iter().map(|at| at.chunk).min().unwrap_or(self.chunks);
        while self.closed < ended {
            self.storage.close(self.closed, self.span(self.closed, 0));
            self.closed += 1;
        }
    }

    /// Carries out a step, if nothing is missing.
    fn step(&mut self, thread: usize, at: Position, ports: &mut Ports) -> Result<Turn, Failure> {
        let (own, phase) = (self.storage.shape.own, usize::from(at.phase));
        let (place, slot) = (self.plan.place(own, phase), Slot { thread: thread as u16, pc: at.pc });
        let program = &self.plan.phases()[phase].program;
        let (step, detail) = (program.step(place, slot), program.detail(place, slot));
        if let Some(after) = detail.after
            && self.threads[usize::from(after.thread)] <= (Position { pc: after.pc, ..at })
        {
            return Ok(Turn::Waits);
        }
        let span = self.span(at.chunk, phase);
        let peer = |there| self.plan.peer(own, phase, there);
        let (from, to) = (step.op.receives().then(|| peer(step.from)), step.op.sends().then(|| peer(step.to)));
        let mut arrived = None;
        if let Some(from) = from {
            let Some((label, payload)) = ports.reader(from, lane(slot.thread))?.first() else {
                self.waits_for = Some(from);
                return Ok(Turn::Waits);
            };
            let bytes = self.storage.length(span, step.blocks);
            let expected = self.label(at, slot, bytes);
            if label != expected {
                return Err(mismatch(from, &self.asked, label, expected));
            }
            arrived = Some((payload, bytes));
        }
        let mut leaving = None;
        if let Some(to) = to {
            let writer = ports.writer(to, lane(step.into.thread))?;
            if writer.room() == 0 {
                self.waits_for = Some(to);
                return Ok(Turn::Waits);
            }
            leaving = Some(writer.payload());
        }
        let bytes = arrived.map(|(_, bytes)| bytes);
        self.work((at.chunk, span), step, detail, arrived.map(|(payload, _)| payload), leaving);
        if let Some(from) = from {
            ports.reader(from, lane(slot.thread))?.free();
            ports.notify(from);
        }
        if let Some(to) = to {
            // What is received and sent on has the same blocks.
            let bytes = bytes.unwrap_or_else(|| self.storage.length(span, step.blocks));
            let label = self.label(at, step.into, bytes);
            ports.writer(to, lane(step.into.thread))?.publish(label);
            ports.notify(to);
        }
        self.threads[thread].pc += 1;
        Ok(Turn::Done)
    }

    fn label(&self, at: Position, into: Slot, bytes: usize) -> Label {
        Label {
            bytes: bytes as u32, // a slot at most
            call: self.asked.call,
            digest: self.asked.request.digest,
            chunk: at.chunk,
            phase: at.phase,
            thread: into.thread,
            pc: into.pc,
        }
    }

    /// Moves and adds the data of a step.
    fn work(
        &mut self,
        (chunk, span): (u32, Span),
        step: Step,
        detail: Detail,
        arrived: Option<NonNull<u8>>,
        leaving: Option<NonNull<u8>>,
    ) {
        let arithmetic = self.arithmetic;
        let of = (chunk, span, step.blocks);
        let (mut arrived, mut leaving) = (
            arrived.map_or(ptr::null(), |p| p.as_ptr().cast_const()),
            leaving.map_or(ptr::null_mut(), NonNull::as_ptr),
        );
        let reads = step.op.reads_local().then_some(detail.src);
        let writes = step.op.stores().then_some(detail.dst);
        if step.op == Op::Reduce {
            self.reduce_local(of, detail);
            return;
        }
        self.storage.each_run(of, reads, writes, |Run { read, scaled, write, bytes }| {
            // SAFETY: what is read and written lies in buffers of the call or in its own memory, with so many bytes; slots have
            // room for the blocks of a message; memory of the sender is not that of the receiver.
            unsafe {
                match step.op {
                    Op::Send if scaled => arithmetic.scale(leaving, read, bytes),
                    Op::Send => ptr::copy_nonoverlapping(read, leaving, bytes),
                    Op::Recv => ptr::copy_nonoverlapping(arrived, write, bytes),
                    Op::RecvCopySend => {
                        ptr::copy_nonoverlapping(arrived, write, bytes);
                        ptr::copy_nonoverlapping(arrived, leaving, bytes);
                    }
                    Op::RecvReduceSend if scaled => arithmetic.reduce_scaled(leaving, arrived, read, bytes),
                    Op::RecvReduceSend => arithmetic.reduce(leaving, arrived, read, bytes),
                    Op::RecvReduce if scaled => arithmetic.reduce_scaled(write, arrived, read, bytes),
                    Op::RecvReduce => arithmetic.reduce(write, arrived, read, bytes),
                    Op::RecvReduceCopySend => {
                        if scaled {
                            arithmetic.reduce_scaled(write, arrived, read, bytes);
                        } else {
                            arithmetic.reduce(write, arrived, read, bytes);
                        }
                        ptr::copy_nonoverlapping(write, leaving, bytes);
                    }
                    Op::Copy => ptr::copy(read, write, bytes),
                    Op::Reduce | Op::ResidualAdd | Op::Nop => {}
                }
            }
            arrived = arrived.wrapping_add(if arrived.is_null() { 0 } else { bytes });
            leaving = leaving.wrapping_add(if leaving.is_null() { 0 } else { bytes });
        });
    }

    /// Adds local data to that at another place. Only plans with places do so, whose inputs are scaled beforehand.
    fn reduce_local(&mut self, of: (u32, Span, syncline_collective::Blocks), detail: Detail) {
        let mut addends = Vec::new();
        self.storage.each_run(of, Some(detail.src), None, |run| addends.push((run.read, run.bytes)));
        let mut addends = addends.into_iter();
        let mut addend = addends.next().unwrap_or((ptr::null(), 0));
        let arithmetic = self.arithmetic;
        self.storage.each_run(of, Some(detail.dst), Some(detail.dst), |run| {
            let (mut read, mut write, mut left) = (run.read, run.write, run.bytes);
            while left > 0 {
                let bytes = left.min(addend.1);
                // SAFETY: as for the other steps; rows of both places have the same blocks.
                unsafe { arithmetic.reduce(write, addend.0, read, bytes) };
                (read, write, left) = (read.wrapping_add(bytes), write.wrapping_add(bytes), left - bytes);
                addend = (addend.0.wrapping_add(bytes), addend.1 - bytes);
                if addend.1 == 0 {
                    addend = addends.next().unwrap_or((ptr::null(), left));
                }
            }
        });
    }
}

/// The lane of messages to a thread.
const fn lane(thread: u16) -> crate::transport::Lane {
    thread + 1
}
