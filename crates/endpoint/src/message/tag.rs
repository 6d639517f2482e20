//! How messages name the step that takes them.

use crate::api::ChunkId;
use syncline_collective::{PhaseId, Slot};

/// Names the step of a chunk that takes a message, in 63 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(pub(crate) u64);

impl Tag {
    pub(super) const PC_BITS: u32 = 23;
    pub(super) const THREAD_BITS: u32 = 4;
    pub(super) const PHASE_BITS: u32 = 5;
    const SLOT_BITS: u32 = Self::PC_BITS + Self::THREAD_BITS + Self::PHASE_BITS;
    /// Chunks that tags tell apart: one bit says that it is a [`Forwarding`]'s number.
    pub(super) const CHUNKS: usize = 1 << (63 - Self::SLOT_BITS);

    #[inline]
    pub(crate) fn new(seq: ChunkId, phase: PhaseId, into: Slot) -> Tag {
        assert!(
            into.pc >> Self::PC_BITS == 0 && into.thread >> Self::THREAD_BITS == 0,
            "more steps than a tag can name"
        );
        let slot = u64::from(into.pc)
            | u64::from(into.thread) << Self::PC_BITS
            | u64::from(phase.0) << (Self::PC_BITS + Self::THREAD_BITS);
        Tag(slot | u64::from(seq.0) << Self::SLOT_BITS)
    }

    #[inline]
    pub(crate) fn seq(self) -> ChunkId {
        ChunkId((self.0 >> Self::SLOT_BITS) as u32)
    }

    #[inline]
    pub(crate) fn phase(self) -> PhaseId {
        PhaseId((self.0 >> (Self::PC_BITS + Self::THREAD_BITS)) as u8 & ((1 << Self::PHASE_BITS) - 1))
    }

    #[inline]
    pub(crate) fn slot(self) -> Slot {
        let thread = (self.0 >> Self::PC_BITS) as u8 & ((1 << Self::THREAD_BITS) - 1);
        Slot { thread, pc: self.0 as u32 & ((1 << Self::PC_BITS) - 1) }
    }
}
