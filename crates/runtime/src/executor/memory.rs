//! The memory of a call: the caller's buffers, and what a plan needs beside them.
//!
//! Blocks are used where the caller has them as far as possible. A block is read from the input until the rank has stored
//! something in its place, and from the output afterwards, so that nothing is copied from one to the other beforehand. What a rank stores
//! that is not among its results goes to memory of the chunk (`temporary`). Plans that name places count buffers in equal blocks;
//! where the vector does not divide, or where input and output would be in each other's way, a chunk works on padded copies. Who copies is a [`Worker`]: pointers may be
//! those of a GPU, and are not followed here.

use super::shape::{Piece, Shape, Span, has_shares};
use super::worker::{Rooms, WINDOW, Worker};
use crate::bootstrap::Failure;
use crate::plan::{Memory, Verified};
use crate::value::Arithmetic;
use std::ptr;
use syncline_collective::Kind;
use syncline_collective::program::{Blocks, Buffer, Place};

/// The buffers of the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    pub(crate) input: *const u8,
    pub(crate) output: *mut u8,
}

/// What a chunk has beside the buffers of the caller.
#[derive(Debug)]
struct Room {
    /// Which blocks of the vector this rank has stored.
    stored: Vec<bool>,
    /// What it stores that is not among its results.
    temporary: *mut u8,
    scratch: *mut u8,
    /// The input and the output in equal blocks, or null.
    input: *mut u8,
    output: *mut u8,
}

impl Room {
    fn new() -> Room {
        let nothing = ptr::null_mut();
        Room { stored: Vec::new(), temporary: nothing, scratch: nothing, input: nothing, output: nothing }
    }
}

/// The memory of a call.
pub(super) struct Storage {
    pub(super) shape: Shape,
    buffers: Buffers,
    arithmetic: Arithmetic,
    memory: Memory,
    /// Whether blocks of an all-to-all are known by the rank that they come from.
    is_matrix: bool,
    /// Whether phases cut the vector differently, so that it is copied to the output at first.
    is_eager: bool,
    /// Whether input and output share memory.
    overlap: bool,
    rooms: Vec<Room>,
}

/// Blocks of one row that lie one behind the other, both where they are read and where they are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Where they are read, and whether they have to be scaled.
    pub(super) read: *const u8,
    pub(super) scaled: bool,
    /// Where they are written.
    pub(super) write: *mut u8,
    pub(super) bytes: usize,
}

impl Storage {
    pub(super) fn new(plan: &Verified, shape: Shape, buffers: Buffers, arithmetic: Arithmetic) -> Storage {
        let memory = plan.memory();
        let (input, output) = shape.buffers();
        let (from, to) = (buffers.input as u64, buffers.output as u64);
        let overlap = from < to + output && to < from + input;
        Storage {
            shape,
            buffers,
            arithmetic,
            memory,
            is_matrix: shape.kind == Kind::AllToAll && !memory.has_places,
            is_eager: plan.phases().len() > 1,
            overlap,
            rooms: (0..WINDOW).map(|_| Room::new()).collect(),
        }
    }

    /// Whether a chunk works on copies of input and output in equal blocks.
    fn staged(&self, span: Span) -> (bool, bool) {
        if self.is_matrix {
            return (self.overlap, false);
        }
        if !self.memory.has_places {
            return (false, false);
        }
        let padded = !self.shape.is_whole(span);
        let apart = self.memory.is_apart && (self.overlap || self.memory.writes_input);
        (padded || apart || self.arithmetic.scales(), padded)
    }

    fn room(&mut self, chunk: u32) -> &mut Room {
        &mut self.rooms[(chunk % WINDOW) as usize]
    }

    /// Blocks of the vector, all shares together.
    fn blocks(&self, span: Span) -> u32 {
        span.parts() * if has_shares(self.shape.kind) { self.shape.ranks } else { 1 }
    }

    /// Bytes of the memory that a chunk needs whose blocks in the first phase are those of a span, in the order of [`Rooms`].
    pub(super) fn sizes(&self, chunk: u32, span: Span) -> [usize; 4] {
        let (blocks, block) = (self.blocks(span) as usize, self.shape.block_bytes(span) as usize);
        let (stage_input, stage_output) = self.staged(span);
        let shares = if has_shares(self.shape.kind) { self.shape.ranks } else { 1 };
        let keeps_all = (0..shares).all(|share| self.shape.has_output(share));
        let vector = if keeps_all { 0 } else { self.shape.chunk(chunk) as usize * shares as usize };
        [
            if self.is_matrix { self.shape.ranks as usize * blocks * block } else { vector },
            self.memory.scratch as usize * block,
            if stage_input { blocks * block } else { 0 },
            if stage_output { blocks * block } else { 0 },
        ]
    }

    /// Makes room for a chunk, whose blocks in the first phase are those of a span.
    pub(super) fn open<W: Worker>(&mut self, worker: &mut W, chunk: u32, span: Span) -> Result<(), Failure> {
        let blocks = self.blocks(span);
        let sizes = self.sizes(chunk, span);
        let [temporary, scratch, input, output]: Rooms = worker.rooms(chunk % WINDOW, sizes)?;
        let room = self.room(chunk);
        room.stored.clear();
        room.stored.resize(blocks as usize, false);
        (room.temporary, room.scratch, room.input, room.output) = (temporary, scratch, input, output);
        if !input.is_null() {
            for number in 0..blocks {
                self.stage(worker, chunk, span, number);
            }
        }
        if self.is_eager {
            self.copy_all(worker, chunk);
        }
        if self.is_matrix {
            // What a rank has for itself goes no way.
            for inner in 0..span.parts() {
                let block = self.shape.own * span.parts() + inner;
                let Piece { offset, bytes, .. } = self.shape.piece(span, block);
                let own = Piece { share: self.shape.own, offset, bytes };
                let (from, _) = self.input(chunk, span, block);
                // SAFETY: both are within the buffers of the caller, or the first within the copy of the input.
                unsafe {
                    worker.copy(self.buffers.output.add(self.shape.in_output(own) as usize), from, bytes as usize)
                };
            }
        }
        Ok(())
    }

    /// Copies a block of the caller's input to its place among equal blocks.
    fn stage<W: Worker>(&mut self, worker: &mut W, chunk: u32, span: Span, number: u32) {
        let piece = self.shape.piece(span, number);
        if !self.shape.has_input(piece.share) || piece.bytes == 0 {
            return;
        }
        let at = number as usize * self.shape.block_bytes(span) as usize;
        let (scales, to) = (self.arithmetic.scales(), self.room(chunk).input.wrapping_add(at));
        // SAFETY: the caller's input has all blocks that this rank has at first. The copy has room for whole blocks and is
        // apart from the input.
        unsafe {
            let from = self.buffers.input.add(self.shape.in_input(piece) as usize);
            take(worker, scales, to, from, piece.bytes as usize);
        }
    }

    /// Copies a chunk of the input to the output, or to where the rank keeps it meanwhile.
    fn copy_all<W: Worker>(&mut self, worker: &mut W, chunk: u32) {
        let bytes = self.shape.chunk(chunk) as usize;
        if !self.shape.has_input(0) {
            return;
        }
        let start = chunk as usize * self.shape.chunk_bytes as usize;
        let to = self.output(chunk, Piece { share: 0, offset: start as u64, bytes: bytes as u64 });
        // SAFETY: a chunk lies within the vector, which input and output, or the room of the chunk, hold.
        unsafe { take(worker, self.arithmetic.scales(), to, self.buffers.input.add(start), bytes) };
    }

    /// Where a block of this rank's input lies, and whether it has to be scaled.
    fn input(&self, chunk: u32, span: Span, block: u32) -> (*const u8, bool) {
        let room = &self.rooms[(chunk % WINDOW) as usize];
        if !room.input.is_null() {
            let at = block as usize * self.shape.block_bytes(span) as usize;
            return (room.input.wrapping_add(at).cast_const(), false);
        }
        let piece = self.shape.piece(span, block);
        let offset = self.shape.in_input(piece) as usize;
        (self.buffers.input.wrapping_add(offset), self.arithmetic.scales())
    }

    /// Where this rank keeps a piece that it has stored.
    fn output(&mut self, chunk: u32, piece: Piece) -> *mut u8 {
        let shape = self.shape;
        if shape.has_output(piece.share) {
            return self.buffers.output.wrapping_add(shape.in_output(piece) as usize);
        }
        let inside = piece.offset - u64::from(chunk) * shape.chunk_bytes;
        let at = u64::from(piece.share) * shape.chunk(chunk) + inside;
        self.room(chunk).temporary.wrapping_add(at as usize)
    }

    /// Where a block of the output vector lies.
    fn result(&mut self, chunk: u32, span: Span, block: u32) -> *mut u8 {
        let at = block as usize * self.shape.block_bytes(span) as usize;
        let room = self.room(chunk);
        if !room.output.is_null() {
            return room.output.wrapping_add(at);
        }
        let piece = self.shape.piece(span, block);
        self.output(chunk, piece)
    }

    /// Where a block of an all-to-all lies that comes from a rank.
    fn cell(&mut self, chunk: u32, span: Span, origin: u32, block: u32) -> *mut u8 {
        let (own, each) = (self.shape.own, span.parts());
        if origin == own {
            return self.input(chunk, span, block).0.cast_mut();
        }
        let piece = self.shape.piece(span, block);
        if block / each == own {
            let from = Piece { share: origin, ..piece };
            return self.buffers.output.wrapping_add(self.shape.in_output(from) as usize);
        }
        let blocks = self.blocks(span) as usize;
        let at = (origin as usize * blocks + block as usize) * self.shape.block_bytes(span) as usize;
        self.room(chunk).temporary.wrapping_add(at)
    }

    /// A block's place that a step names or, without that, implies: a buffer and the number of the block in the vector that the
    /// buffer holds, or in scratch.
    fn place(&self, span: Span, blocks: Blocks, nth: u32, place: Option<Place>, writes: bool) -> (Buffer, u32) {
        let (own, each) = (self.shape.own, span.parts());
        let Some(Place { buffer, first }) = place else {
            let block = (blocks.first + nth) % self.blocks(span);
            return match self.shape.kind {
                Kind::AllToAll => {
                    let is_result = block / each == own && (writes || blocks.origin != own);
                    if is_result {
                        (Buffer::Output, blocks.origin * each + block % each)
                    } else {
                        (Buffer::Input, block)
                    }
                }
                Kind::ReduceScatter | Kind::Scatter => (Buffer::Input, block),
                _ => (Buffer::Output, block),
            };
        };
        let before = match (buffer, self.shape.kind) {
            (Buffer::Input, Kind::AllGather | Kind::Gather) | (Buffer::Output, Kind::ReduceScatter | Kind::Scatter) => {
                own * each
            }
            _ => 0,
        };
        (buffer, before + first + nth)
    }

    /// Where a step reads its `nth` block, and whether that has to be scaled.
    fn read(&mut self, chunk: u32, span: Span, blocks: Blocks, nth: u32, place: Option<Place>) -> (*const u8, bool) {
        if self.is_matrix {
            return (self.cell(chunk, span, blocks.origin, (blocks.first + nth) % self.blocks(span)), false);
        }
        let (buffer, block) = self.place(span, blocks, nth, place, false);
        match buffer {
            Buffer::Scratch => (self.scratch(chunk, span, block), false),
            Buffer::Input if self.memory.is_apart => self.input(chunk, span, block),
            _ if !self.memory.is_apart && !self.is_eager && !self.room(chunk).stored[block as usize] => {
                self.input(chunk, span, block)
            }
            _ => (self.result(chunk, span, block), false),
        }
    }

    /// Where a step writes its `nth` block.
    fn write(&mut self, chunk: u32, span: Span, blocks: Blocks, nth: u32, place: Option<Place>) -> *mut u8 {
        if self.is_matrix {
            return self.cell(chunk, span, blocks.origin, (blocks.first + nth) % self.blocks(span));
        }
        let (buffer, block) = self.place(span, blocks, nth, place, true);
        match buffer {
            Buffer::Scratch => self.scratch(chunk, span, block),
            Buffer::Input if self.memory.is_apart => self.input(chunk, span, block).0.cast_mut(),
            _ => {
                if !self.is_eager {
                    self.room(chunk).stored[block as usize] = true;
                }
                self.result(chunk, span, block)
            }
        }
    }

    fn scratch(&mut self, chunk: u32, span: Span, block: u32) -> *mut u8 {
        let at = block as usize * self.shape.block_bytes(span) as usize;
        self.room(chunk).scratch.wrapping_add(at)
    }

    /// Bytes of the `nth` of some blocks.
    fn bytes(&self, span: Span, blocks: Blocks, nth: u32) -> usize {
        if self.memory.has_places {
            return self.shape.block_bytes(span) as usize;
        }
        self.shape.piece(span, (blocks.first + nth) % self.blocks(span)).bytes as usize
    }

    /// Bytes of some blocks.
    pub(super) fn length(&self, span: Span, blocks: Blocks) -> usize {
        (0..blocks.count).map(|nth| self.bytes(span, blocks, nth)).sum()
    }

    /// Goes through the blocks of a step in rows that lie one behind the other. `reads` and `writes` are the places, if the step
    /// reads or writes at all; pointers of what it does not are null.
    pub(super) fn each_run(
        &mut self,
        (chunk, span, blocks): (u32, Span, Blocks),
        reads: Option<Option<Place>>,
        writes: Option<Option<Place>>,
        mut visit: impl FnMut(Run),
    ) {
        let mut run: Option<Run> = None;
        for nth in 0..blocks.count {
            let bytes = self.bytes(span, blocks, nth);
            if bytes == 0 {
                // It has no place of its own, but counts as stored.
                if let Some(place) = writes {
                    self.write(chunk, span, blocks, nth, place);
                }
                continue;
            }
            // What is read is found before it counts as stored.
            let (read, scaled) = reads.map_or((ptr::null(), false), |place| self.read(chunk, span, blocks, nth, place));
            let write = writes.map_or(ptr::null_mut(), |place| self.write(chunk, span, blocks, nth, place));
            match &mut run {
                Some(run)
                    if run.scaled == scaled
                        && (read.is_null() || run.read.wrapping_add(run.bytes) == read)
                        && (write.is_null() || run.write.wrapping_add(run.bytes) == write) =>
                {
                    run.bytes += bytes;
                }
                _ => {
                    if let Some(done) = run.replace(Run { read, scaled, write, bytes }) {
                        visit(done);
                    }
                }
            }
        }
        run.into_iter().for_each(visit);
    }

    /// Brings what a chunk has come to into the output, where it is not there already.
    pub(super) fn close<W: Worker>(&mut self, worker: &mut W, chunk: u32, span: Span) {
        let shape = self.shape;
        for block in 0..self.blocks(span) {
            let piece = shape.piece(span, block);
            if !shape.has_output(piece.share) || piece.bytes == 0 {
                continue;
            }
            let to = self.buffers.output.wrapping_add(shape.in_output(piece) as usize);
            if !self.is_matrix && !self.is_eager {
                let is_stored = self.memory.is_apart || self.room(chunk).stored[block as usize];
                let (from, scaled) = if is_stored {
                    (self.result(chunk, span, block).cast_const(), false)
                } else {
                    self.input(chunk, span, block)
                };
                let bytes = piece.bytes as usize;
                // SAFETY: a result has its place in the output of the caller; it comes from the input, from a padded copy, or
                // from this very place.
                unsafe {
                    if scaled {
                        worker.scale(to, from, bytes);
                    } else if from != to {
                        worker.copy(to, from, bytes);
                    }
                }
            }
            if self.arithmetic.divides() {
                // SAFETY: as above.
                unsafe { worker.divide(to, piece.bytes as usize) };
            }
        }
    }
}

/// Copies an input, scaled if the reduction asks for it.
///
/// # Safety
/// Both have so many bytes, and are the same or apart.
unsafe fn take<W: Worker>(worker: &mut W, scales: bool, to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if scales {
            worker.scale(to, from, bytes);
        } else {
            worker.copy(to, from, bytes);
        }
    }
}
