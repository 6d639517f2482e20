//! Where the blocks of a phase lie in the memory of the ranks of a line.

use super::findings::{Kind, Remark};
use super::machine::Cells;
use crate::kind::Kind as Collective;
use crate::plan::Split;
use crate::program::{Blocks, Buffer, Place};

/// Elements of one byte, so that all sizes can be tried.
pub(super) const ELEMENTS: Split = Split { element: 1 };

/// Most cells of a line.
const MAX_CELLS: u64 = 1 << 30;

/// What a rank's memory consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// The vector. The places of steps are places in it.
    Vector,
    /// In an all-to-all without places, a vector of each rank of the line.
    Matrix,
    /// An input and an output buffer, each with room for the vector.
    Apart,
}

/// The memory of a rank of a line, in cells that are numbered from the rank's first one.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    kind: Collective,
    /// Ranks of the line.
    ranks: u32,
    /// Blocks of the vector.
    parts: u32,
    /// Cells of the vector.
    len: u32,
    /// Of each block, and of the end, the first cell, where cells are longer than elements.
    starts: Option<Vec<u32>>,
    memory: Memory,
    /// Cells of all buffers, scratch included.
    cells: u32,
}

/// Places that the steps of a program name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) input: bool,
    pub(super) output: bool,
    /// Blocks of scratch.
    pub(super) scratch: u64,
}

impl Named {
    /// Notes the place of so many blocks.
    pub(super) fn add(&mut self, place: Place, count: u32) {
        match place.buffer {
            Buffer::Input => self.input = true,
            Buffer::Output => self.output = true,
            Buffer::Scratch => self.scratch = self.scratch.max(u64::from(place.first) + u64::from(count)),
        }
    }
}

type Wrong = (Kind, Remark);

impl Layout {
    /// The memory for a collective of so many ranks and blocks, on vectors of `len` cells.
    pub(super) fn new(kind: Collective, ranks: u32, parts: u32, len: u32, named: Named) -> Result<Layout, Wrong> {
        let any = named != Named::default();
        // The buffer that has room for the whole vector may be the vector itself; the other one is named only if it is apart.
        let is_apart = match kind {
            Collective::AllGather | Collective::Gather => named.input,
            _ => named.output,
        };
        let memory = match kind {
            _ if is_apart => Memory::Apart,
            Collective::AllToAll if !any => Memory::Matrix,
            _ => Memory::Vector,
        };
        if any && (parts == 0 || !len.is_multiple_of(parts)) {
            let message = format!("{len} elements are no {parts} blocks of equal length, which buffers are counted in");
            return Err((Kind::Sizes, message.into()));
        }
        let vectors = match memory {
            Memory::Vector => 1,
            Memory::Matrix => ranks,
            Memory::Apart => 2,
        };
        let block = if any { u64::from(len / parts) } else { 0 };
        let cells = u64::from(vectors).saturating_mul(len.into()).saturating_add(named.scratch.saturating_mul(block));
        let all = cells.saturating_mul(u64::from(ranks) + 1); // a switch has memory, too
        if all > MAX_CELLS {
            return Err((
                Kind::TooLarge,
                Remark::accepting(format!("{all} elements of a line of ranks"), format!("up to {MAX_CELLS}")),
            ));
        }
        Ok(Layout { kind, ranks, parts, len, starts: None, memory, cells: cells as u32 })
    }

    /// The same where each block, and what would follow the last one, begins at a cell that is given.
    #[must_use]
    pub(super) fn with_starts(self, starts: Vec<u32>) -> Layout {
        Layout { starts: Some(starts), ..self }
    }

    /// Cells of a rank.
    pub(super) fn cells(&self) -> u32 {
        self.cells
    }

    /// The cells of blocks at a place, or at their place in the vector. `first` is the first cell of the rank, `own` its number
    /// in the line.
    pub(super) fn of(
        &self,
        (first, own): (u32, u32),
        blocks: Blocks,
        place: Option<Place>,
        writes: bool,
    ) -> Result<Cells, Wrong> {
        match (place, self.memory) {
            (Some(place), _) => self.at(first, own, blocks, place),
            (None, Memory::Matrix) => Ok(self.in_vector(first + blocks.origin * self.len, blocks)),
            (None, _) if self.kind == Collective::AllToAll => {
                let place = self.exchanged(own, blocks, writes)?;
                self.at(first, own, blocks, place)
            }
            (None, Memory::Vector) => Ok(self.in_vector(first, blocks)),
            (None, Memory::Apart) => {
                // The buffer that holds the whole vector.
                let whole = match self.kind {
                    Collective::ReduceScatter | Collective::Scatter => first,
                    _ => first + self.len,
                };
                Ok(self.in_vector(whole, blocks))
            }
        }
    }

    /// Blocks of a vector that begins at a cell; a second run if they wrap.
    fn in_vector(&self, base: u32, blocks: Blocks) -> Cells {
        let start = |block: u32| match &self.starts {
            Some(starts) => starts[block as usize],
            None if block == self.parts => self.len,
            None => ELEMENTS.share(self.len.into(), self.parts, block).0 as u32,
        };
        let (from, end) = (start(blocks.first), blocks.first + blocks.count);
        if end <= self.parts {
            Cells::run(base + from, start(end) - from)
        } else {
            Cells::runs((base + from, self.len - from), (base, start(end - self.parts)))
        }
    }

    /// Blocks for each rank.
    pub(super) fn each(&self) -> u32 {
        self.parts / self.ranks
    }

    /// Where blocks of an all-to-all have a place of their own: those that a rank starts with in its input, those that it ends
    /// with in its output.
    fn exchanged(&self, own: u32, blocks: Blocks, writes: bool) -> Result<Place, Wrong> {
        let each = self.each();
        let is_own_input = blocks.origin == own;
        let is_own_output = blocks.first / each == own && (blocks.first + blocks.count - 1) / each == own;
        match (is_own_input, is_own_output) {
            (_, true) if writes || !is_own_input => {
                Ok(Place { buffer: Buffer::Output, first: blocks.origin * each + blocks.first % each })
            }
            (true, _) => Ok(Place { buffer: Buffer::Input, first: blocks.first }),
            _ => Err((Kind::Operand, format!("{blocks} have no place in the buffers of this rank").into())),
        }
    }

    /// Blocks at a place.
    fn at(&self, first: u32, own: u32, blocks: Blocks, place: Place) -> Result<Cells, Wrong> {
        let (block, share) = (self.len / self.parts, self.each());
        let apart = if self.memory == Memory::Apart { self.len } else { 0 };
        let vectors = if self.memory == Memory::Apart { 2 * self.len } else { self.len };
        let part = (own * share, share);
        let whole = (0, self.parts);
        let ((before, room), base) = match (place.buffer, self.kind) {
            (Buffer::Input, Collective::AllGather | Collective::Gather) => (part, 0),
            (Buffer::Input, _) => (whole, 0),
            (Buffer::Output, Collective::ReduceScatter | Collective::Scatter) => (part, apart),
            (Buffer::Output, _) => (whole, apart),
            (Buffer::Scratch, _) => ((0, u32::MAX), vectors),
        };
        if u64::from(place.first) + u64::from(blocks.count) > u64::from(room) {
            let name = place.buffer.name();
            let message =
                format!("{} blocks from {} are not all in the {name} buffer of {room}", blocks.count, place.first);
            return Err((Kind::Bounds, message.into()));
        }
        Ok(Cells::run(first + base + (before + place.first) * block, blocks.count * block))
    }

    /// The cell of a rank that a cell of the vector is loaded into. In an all-to-all, of the vector that it starts with.
    pub(super) fn start(&self, own: u32, cell: u32) -> u32 {
        if self.memory == Memory::Matrix { own * self.len + cell } else { cell }
    }

    /// The cell of a rank that holds a cell of the vector in the end. In an all-to-all, of the vector of another rank.
    pub(super) fn end(&self, origin: u32, cell: u32) -> u32 {
        match self.memory {
            Memory::Vector => cell,
            Memory::Matrix => origin * self.len + cell,
            Memory::Apart => self.len + cell,
        }
    }

    /// In an all-to-all, the first block of the vector that holds, in the end, what another rank had for this one.
    pub(super) fn received(&self, own: u32, origin: u32) -> u32 {
        let each = self.each();
        each * if self.memory == Memory::Matrix { own } else { origin }
    }

    /// What people call a cell: its number, from that of the vector's first cell, and the memory that it is in.
    pub(super) fn name(&self, offset: u64, cell: u32) -> (String, &'static str) {
        let at = |start: u32| format!("element {}", offset + u64::from(cell - start));
        let apart = self.memory == Memory::Apart;
        match cell / self.len.max(1) {
            row if self.memory == Memory::Matrix => {
                (format!("element {} of row {row}", cell % self.len.max(1)), "matrix")
            }
            0 if apart => (at(0), "input buffer"),
            0 => (at(0), "vector"),
            1 if apart => (at(self.len), "output buffer"),
            _ => (format!("element {}", cell - if apart { 2 * self.len } else { self.len }), "scratch buffer"),
        }
    }
}
