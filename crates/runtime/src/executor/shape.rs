//! Where the blocks of a vector lie in the buffers of a call.
//!
//! A call works on its vector in *chunks*, each of which goes through the whole plan, so that no message is larger than a slot. Where
//! ranks have shares of the vector (reduce-scatter, all-gather, all-to-all, gather, scatter), a chunk takes the same part of
//! each share; else it is a part of the vector.

use crate::plan::Verified;
use crate::transport::ring::SLOT_BYTES;
use syncline_collective::{Kind, PhaseId, Split};
use syncline_core::{Bytes, Id};

/// A vector, and how it is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) ranks: u32,
    /// The rank that executes.
    pub(super) own: u32,
    pub(super) root: u32,
    /// Bytes of an element.
    pub(super) element: u32,
    /// Bytes of the vector or, where ranks have shares of it, of a share.
    pub(super) bytes: u64,
    /// Bytes of them that a chunk takes; the last one may take fewer.
    pub(super) chunk_bytes: u64,
    /// Whether blocks are equally long, the last ones of the vector cut short.
    pub(super) equal_blocks: bool,
}

/// The part of a vector that blocks are cut from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Bytes before it: in the vector or, where ranks have shares, in each share.
    offset: u64,
    bytes: u64,
    /// Blocks that it is cut into.
    parts: u32,
}

impl Span {
    /// Blocks of the vector or, where ranks have shares, of a share.
    pub(super) fn parts(&self) -> u32 {
        self.parts
    }
}

/// A block of the vector in the buffers of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The rank whose share it is in, where ranks have shares.
    pub(super) share: u32,
    /// Bytes before it: in the vector or in the share.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Chunks of a large vector, at least: so many can be under way in a chain of ranks.
const CHUNKS: u64 = 8;
/// Blocks are not cut below so many bytes only to have more chunks.
const LEAST_BLOCK_BYTES: u64 = 16 << 10;

/// Whether ranks have shares of the vector.
pub(super) const fn has_shares(kind: Kind) -> bool {
    !matches!(kind, Kind::AllReduce | Kind::Broadcast | Kind::Reduce)
}

impl Shape {
    /// The shape of a call of `count` elements, of a share where ranks have shares.
    pub(super) fn new(plan: &Verified, own: u32, count: u64, element: u32) -> Shape {
        let mut shape = Shape {
            kind: plan.kind(),
            ranks: plan.ranks(),
            own,
            root: plan.root(),
            element,
            bytes: count * u64::from(element),
            chunk_bytes: 0,
            equal_blocks: plan.memory().has_places,
        };
        shape.chunk_bytes = shape.bytes.max(1);
        // The largest chunk whose messages fit into slots, found by halving.
        while shape.chunk_bytes > u64::from(element) && shape.largest_message(plan) > SLOT_BYTES as u64 {
            shape.chunk_bytes = shape.rounded(plan, shape.chunk_bytes / 2);
        }
        let mut smaller = shape;
        while smaller.bytes.div_ceil(smaller.chunk_bytes) < CHUNKS
            && smaller.largest_message(plan) >= 2 * LEAST_BLOCK_BYTES
        {
            shape = smaller;
            smaller.chunk_bytes = smaller.rounded(plan, smaller.chunk_bytes / 2);
        }
        if smaller.largest_message(plan) >= LEAST_BLOCK_BYTES { smaller } else { shape }
    }

    /// A size of chunks rounded up to equal blocks, and to whole elements in any case.
    fn rounded(&self, plan: &Verified, bytes: u64) -> u64 {
        let blocks = match plan.phases() {
            [] => 1,
            [only] => u64::from(only.program.parts()) / if has_shares(self.kind) { u64::from(self.ranks) } else { 1 },
            _ => plan.plan().equal_blocks(),
        };
        let unit = blocks.saturating_mul(self.element.into()).max(u64::from(self.element));
        // Vectors of fewer elements than blocks have blocks without elements.
        if unit >= 2 * bytes { bytes.next_multiple_of(self.element.into()) } else { bytes.next_multiple_of(unit) }
    }

    /// Bytes of the largest message of a chunk, or a bit more.
    fn largest_message(&self, plan: &Verified) -> u64 {
        let of_phase = |(phase, verse): (usize, &crate::plan::Verse)| {
            let parts = verse.program.parts();
            let longest = if has_shares(self.kind) {
                self.longest_block(self.chunk_bytes, parts / self.ranks)
            } else {
                // Of all ranks, the first has the longest part where lengths do not divide, or the last.
                let (_, len) = self.vector_of(plan, phase, self.chunk_bytes, 0);
                let (_, last) = self.vector_of(plan, phase, self.chunk_bytes, self.ranks - 1);
                self.longest_block(len.max(last), parts)
            };
            longest * u64::from(verse.most_blocks)
        };
        plan.phases().iter().enumerate().map(of_phase).max().unwrap_or(0)
    }

    fn longest_block(&self, bytes: u64, parts: u32) -> u64 {
        (bytes / u64::from(self.element)).div_ceil(parts.into()) * u64::from(self.element)
    }

    fn vector_of(&self, plan: &Verified, phase: usize, bytes: u64, rank: u32) -> (u64, u64) {
        let coordinate = |dim: u8| plan.grid().coordinate(rank, dim.into());
        plan.plan().vector(PhaseId::from_index(phase), Bytes(bytes), self.split(), coordinate)
    }

    fn split(&self) -> Split {
        Split { element: self.element }
    }

    /// Chunks of the call.
    pub(super) fn chunks(&self) -> u32 {
        self.bytes.div_ceil(self.chunk_bytes) as u32
    }

    /// Bytes of a chunk.
    pub(super) fn chunk(&self, chunk: u32) -> u64 {
        (self.bytes - u64::from(chunk) * self.chunk_bytes).min(self.chunk_bytes)
    }

    /// What the blocks of a phase are cut from in a chunk.
    pub(super) fn span(&self, plan: &Verified, chunk: u32, phase: usize) -> Span {
        let (start, len) = (u64::from(chunk) * self.chunk_bytes, self.chunk(chunk));
        let Some(verse) = plan.phases().get(phase) else {
            // A rank that is alone has no phases, and one block.
            return Span { offset: start, bytes: len, parts: 1 };
        };
        let parts = verse.program.parts();
        if has_shares(self.kind) {
            return Span { offset: start, bytes: len, parts: parts / self.ranks };
        }
        let (offset, bytes) = self.vector_of(plan, phase, len, self.own);
        Span { offset: start + offset, bytes, parts }
    }

    /// A block of a span; in an all-to-all, of any vector.
    pub(super) fn piece(&self, span: Span, block: u32) -> Piece {
        let (share, block) = if has_shares(self.kind) { (block / span.parts, block % span.parts) } else { (0, block) };
        let (inside, bytes) = if self.equal_blocks {
            let length = self.block_bytes(span);
            let from = (u64::from(block) * length).min(span.bytes);
            (from, (span.bytes - from).min(length))
        } else {
            self.split().share(span.bytes, span.parts, block)
        };
        Piece { share, offset: span.offset + inside, bytes }
    }

    /// Bytes of the longest block of a span, which all have where blocks are equally long.
    pub(super) fn block_bytes(&self, span: Span) -> u64 {
        self.longest_block(span.bytes, span.parts)
    }

    /// Whether equally long blocks cover a span without a rest.
    pub(super) fn is_whole(&self, span: Span) -> bool {
        self.block_bytes(span) * u64::from(span.parts) == span.bytes
    }

    /// Whether this rank's input has what is in a share.
    pub(super) fn has_input(&self, share: u32) -> bool {
        match self.kind {
            Kind::AllGather | Kind::Gather => share == self.own,
            Kind::Broadcast | Kind::Scatter => self.own == self.root,
            Kind::AllReduce | Kind::Reduce | Kind::ReduceScatter | Kind::AllToAll => true,
        }
    }

    /// Whether this rank's output has room for what is in a share.
    pub(super) fn has_output(&self, share: u32) -> bool {
        match self.kind {
            Kind::ReduceScatter | Kind::Scatter => share == self.own,
            Kind::Reduce | Kind::Gather => self.own == self.root,
            Kind::AllReduce | Kind::Broadcast | Kind::AllGather | Kind::AllToAll => true,
        }
    }

    /// Bytes before a piece in this rank's input.
    pub(super) fn in_input(&self, piece: Piece) -> u64 {
        match self.kind {
            Kind::ReduceScatter | Kind::Scatter | Kind::AllToAll => u64::from(piece.share) * self.bytes + piece.offset,
            _ => piece.offset,
        }
    }

    /// Bytes before a piece in this rank's output. In an all-to-all, `piece.share` is the rank that it comes from.
    pub(super) fn in_output(&self, piece: Piece) -> u64 {
        match self.kind {
            Kind::AllGather | Kind::Gather | Kind::AllToAll => u64::from(piece.share) * self.bytes + piece.offset,
            _ => piece.offset,
        }
    }

    /// Bytes of this rank's input and output; 0 where it has none.
    pub(super) fn buffers(&self) -> (u64, u64) {
        let (own, all) = (self.bytes, self.bytes * u64::from(self.ranks));
        let if_root = |bytes| if self.own == self.root { bytes } else { 0 };
        match self.kind {
            Kind::AllReduce => (own, own),
            Kind::Broadcast => (if_root(own), own),
            Kind::Reduce => (own, if_root(own)),
            Kind::ReduceScatter => (all, own),
            Kind::AllGather => (own, all),
            Kind::AllToAll => (all, all),
            Kind::Gather => (own, if_root(all)),
            Kind::Scatter => (if_root(all), own),
        }
    }
}
