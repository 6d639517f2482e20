//! Carries out a collective: the threads of the plan, step by step and chunk after chunk.
//!
//! All threads of a rank are driven by the thread of the process that made the call. Each goes through the steps of a chunk, and then on to the
//! next chunk, whatever the others do; [`WINDOW`] chunks at most are under way. Where a plan has several phases, all
//! threads of the rank end a phase before any begins the next. A step is carried out when the step that it depends on is done, its message
//! has arrived, and the slot for what it sends is free. Its work is given to a [`Worker`]; only when that is done is its message
//! published, the slot that it has read freed, and the step over for those that depend on it.

use super::memory::{Buffers, Run, Storage};
use super::ports::{Ports, mismatch};
use super::shape::{Shape, Span};
use super::worker::{WINDOW, Worker};
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

/// A step whose work has been given and is not done. Until then, the slots that it uses are its own.
struct UnderWay<G> {
    given: G,
    ends: Ends,
}

/// What a step does with slots when its work is done.
#[derive(Clone, Copy)]
struct Ends {
    /// The peer whose message it has taken.
    from: Option<u32>,
    /// The peer and the thread there that get a message, and its label.
    to: Option<(u32, u16, Label)>,
}

/// A collective that is under way on one rank.
pub(crate) struct Collective<W: Worker> {
    plan: Arc<Verified>,
    asked: Asked,
    worker: W,
    storage: Storage,
    threads: Vec<Position>,
    /// By thread.
    under_way: Vec<Option<UnderWay<W::Given>>>,
    /// What has to be done before steps of a chunk, by its place in the window.
    opening: Vec<Option<W::Given>>,
    /// Whether the next chunk to be closed is being closed, and what is left to do for it.
    is_closing: bool,
    closing: Option<W::Given>,
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

impl<W: Worker> Collective<W> {
    /// A collective of `count` elements, of a share where ranks have shares.
    ///
    /// # Safety
    /// The buffers have the sizes that the collective gives them, and stay valid and otherwise unused until it is finished.
    pub(crate) unsafe fn new(
        plan: Arc<Verified>,
        own: u32,
        count: u64,
        arithmetic: Arithmetic,
        worker: W,
        buffers: Buffers,
        asked: Asked,
    ) -> Collective<W> {
        let shape = Shape::new(&plan, own, count, arithmetic.data_type().size() as u32);
        let storage = Storage::new(&plan, shape, buffers, arithmetic);
        let threads = vec![Position::default(); plan.threads().into()];
        let under_way = threads.iter().map(|_| None).collect();
        let chunks = shape.chunks();
        let spans = vec![Vec::new(); WINDOW as usize];
        let opening = (0..WINDOW).map(|_| None).collect();
        Collective {
            plan,
            asked,
            worker,
            storage,
            threads,
            under_way,
            opening,
            is_closing: false,
            closing: None,
            spans,
            chunks,
            opened: 0,
            closed: 0,
            waits_for: None,
        }
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
            turned |= self.close_chunks()?;
            moved |= turned;
            if !turned && self.closed < self.chunks {
                return Ok(if moved { Progress::Moved } else { Progress::Waits });
            }
        }
    }

    /// Bytes of the memory that a chunk needs at most, in the order of [`Worker::rooms`].
    pub(crate) fn sizes(&self) -> [usize; 4] {
        let of = |chunk| self.storage.sizes(chunk, self.storage.shape.span(&self.plan, chunk, 0));
        // All chunks are like the first but the last one, which is shorter and may have to be padded.
        let (first, last) = (of(0), of(self.chunks.saturating_sub(1)));
        std::array::from_fn(|part| first[part].max(last[part]))
    }

    /// Whether work is under way that ends by itself.
    pub(crate) fn is_busy(&self) -> bool {
        self.closing.is_some() || self.under_way.iter().any(Option::is_some) || self.opening.iter().any(Option::is_some)
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
        if let Some(step) = &self.under_way[thread] {
            if !self.worker.is_done(&step.given)? {
                return Ok(Turn::Waits);
            }
            let ends = step.ends;
            self.under_way[thread] = None;
            self.finish(thread, ends, ports)?;
            return Ok(Turn::Done);
        }
        let at = self.threads[thread];
        if at.chunk == self.chunks {
            return Ok(Turn::Waits);
        }
        if at.chunk == self.opened {
            if at.chunk >= self.closed + WINDOW {
                return Ok(Turn::Waits);
            }
            self.open(at.chunk)?;
        }
        let place = (at.chunk % WINDOW) as usize;
        if let Some(given) = &self.opening[place] {
            if !self.worker.is_done(given)? {
                return Ok(Turn::Waits);
            }
            self.opening[place] = None;
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

    fn open(&mut self, chunk: u32) -> Result<(), Failure> {
        let shape = self.storage.shape;
        let spans = (0..self.plan.phases().len().max(1)).map(|phase| shape.span(&self.plan, chunk, phase)).collect();
        self.spans[(chunk % WINDOW) as usize] = spans;
        self.worker.on(0);
        let span = self.span(chunk, 0);
        self.storage.open(&mut self.worker, chunk, span)?;
        self.opening[(chunk % WINDOW) as usize] = self.worker.given()?;
        self.opened = chunk + 1;
        Ok(())
    }

    fn span(&self, chunk: u32, phase: usize) -> Span {
        self.spans[(chunk % WINDOW) as usize][phase]
    }

    /// Closes chunks that all threads have left behind. Returns whether any was.
    fn close_chunks(&mut self) -> Result<bool, Failure> {
        let ended = self.threads.iter().map(|at| at.chunk).min().unwrap_or(self.chunks);
        let before = self.closed;
        while self.closed < ended {
            if !self.is_closing {
                self.worker.on(0);
                let span = self.span(self.closed, 0);
                self.storage.close(&mut self.worker, self.closed, span);
                self.closing = self.worker.given()?;
                self.is_closing = true;
            }
            if let Some(given) = &self.closing
                && !self.worker.is_done(given)?
            {
                break;
            }
            (self.is_closing, self.closing) = (false, None);
            self.closed += 1;
        }
        Ok(self.closed > before)
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
        self.worker.on(thread);
        self.work((at.chunk, span), step, detail, arrived.map(|(payload, _)| payload), leaving);
        let to = to.map(|to| {
            // What is received and sent on has the same blocks.
            let bytes = bytes.unwrap_or_else(|| self.storage.length(span, step.blocks));
            (to, step.into.thread, self.label(at, step.into, bytes))
        });
        let ends = Ends { from, to };
        match self.worker.given()? {
            Some(given) => self.under_way[thread] = Some(UnderWay { given, ends }),
            None => self.finish(thread, ends, ports)?,
        }
        Ok(Turn::Done)
    }

    /// Ends a step whose work is done.
    fn finish(&mut self, thread: usize, ends: Ends, ports: &mut Ports) -> Result<(), Failure> {
        if let Some(from) = ends.from {
            ports.reader(from, lane(thread as u16))?.free();
            ports.notify(from);
        }
        if let Some((to, there, label)) = ends.to {
            ports.writer(to, lane(there))?.publish(label);
            ports.notify(to);
        }
        self.threads[thread].pc += 1;
        Ok(())
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
        let worker = &mut self.worker;
        self.storage.each_run(of, reads, writes, |Run { read, scaled, write, bytes }| {
            // SAFETY: what is read and written lies in buffers of the call or in its own memory, with so many bytes; slots have
            // room for the blocks of a message; memory of the sender is not that of the receiver.
            unsafe {
                match step.op {
                    Op::Send if scaled => worker.scale(leaving, read, bytes),
                    Op::Send => worker.copy(leaving, read, bytes),
                    Op::Recv => worker.copy(write, arrived, bytes),
                    Op::RecvCopySend => {
                        worker.copy(write, arrived, bytes);
                        worker.copy(leaving, arrived, bytes);
                    }
                    Op::RecvReduceSend => worker.reduce(leaving, arrived, read, scaled, bytes),
                    Op::RecvReduce => worker.reduce(write, arrived, read, scaled, bytes),
                    Op::RecvReduceCopySend => {
                        worker.reduce(write, arrived, read, scaled, bytes);
                        worker.copy(leaving, write, bytes);
                    }
                    Op::Copy => worker.copy(write, read, bytes),
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
        let worker = &mut self.worker;
        self.storage.each_run(of, Some(detail.dst), Some(detail.dst), |run| {
            let (mut read, mut write, mut left) = (run.read, run.write, run.bytes);
            while left > 0 {
                let bytes = left.min(addend.1);
                // SAFETY: as for the other steps; rows of both places have the same blocks.
                unsafe { worker.reduce(write, addend.0, read, false, bytes) };
                (read, write, left) = (read.wrapping_add(bytes), write.wrapping_add(bytes), left - bytes);
                addend = (addend.0.wrapping_add(bytes), addend.1 - bytes);
                if addend.1 == 0 {
                    addend = addends.next().unwrap_or((ptr::null(), left));
                }
            }
        });
    }
}

/// Every connection that a rank uses in a plan: the peer, the lane, and whether the rank sends on it.
pub(crate) fn connections(plan: &Verified, own: u32) -> Vec<(u32, crate::transport::Lane, bool)> {
    let mut all = Vec::new();
    for (phase, verse) in plan.phases().iter().enumerate() {
        if !plan.takes_part(own, phase) {
            continue;
        }
        let place = plan.place(own, phase);
        for thread in 0..verse.program.threads() {
            for pc in 0..verse.program.steps(place, thread) {
                let step = verse.program.step(place, Slot { thread, pc });
                if step.op.receives() {
                    all.push((plan.peer(own, phase, step.from), lane(thread), false));
                }
                if step.op.sends() {
                    all.push((plan.peer(own, phase, step.to), lane(step.into.thread), true));
                }
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The lane of messages to a thread.
const fn lane(thread: u16) -> crate::transport::Lane {
    thread + 1
}
