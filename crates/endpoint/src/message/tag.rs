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

    /// The name of a step of a chunk. What it cannot name is refused before a run starts: steps, threads, phases and
    /// chunks by the limits of the system, which are made of the same constants.
    ///
    /// # Panics
    /// If the step, its thread, its phase or the chunk has a number that is too large.
    #[inline]
    pub(crate) fn new(seq: ChunkId, phase: PhaseId, into: Slot) -> Tag {
        let excess =
            into.pc >> Self::PC_BITS | u32::from(into.thread >> Self::THREAD_BITS | phase.0 >> Self::PHASE_BITS);
        if excess != 0 || seq.index() >= Self::CHUNKS {
            Self::too_large(seq, phase, into);
        }
        let slot = u64::from(into.pc)
            | u64::from(into.thread) << Self::PC_BITS
            | u64::from(phase.0) << (Self::PC_BITS + Self::THREAD_BITS);
        Tag(slot | u64::from(seq.0) << Self::SLOT_BITS)
    }

    /// Apart from [`Tag::new`], which every message passes.
    #[cold]
    #[inline(never)]
    fn too_large(seq: ChunkId, phase: PhaseId, into: Slot) -> ! {
        assert!(into.pc >> Self::PC_BITS == 0, "step {} of a thread, more than a tag can name", into.pc);
        assert!(into.thread >> Self::THREAD_BITS == 0, "thread {} of a program, more than a tag can name", into.thread);
        assert!(phase.0 >> Self::PHASE_BITS == 0, "phase {phase} of a plan, more than a tag can name");
        panic!("chunk {seq} of a run, more than a tag can name");
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

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Slot = Slot { thread: (1 << Tag::THREAD_BITS) - 1, pc: (1 << Tag::PC_BITS) - 1 };
    const LAST_PHASE: PhaseId = PhaseId((1 << Tag::PHASE_BITS) - 1);
    const LAST_CHUNK: ChunkId = ChunkId(Tag::CHUNKS as u32 - 1);

    #[test]
    fn the_largest_numbers_come_back_and_leave_one_bit_clear() {
        let tag = Tag::new(LAST_CHUNK, LAST_PHASE, LAST);
        assert_eq!((tag.seq(), tag.phase(), tag.slot(), tag.0 >> 63), (LAST_CHUNK, LAST_PHASE, LAST, 0));
    }

    #[test]
    #[should_panic(expected = "step 8388608 of a thread, more than a tag can name")]
    fn a_step_that_is_too_far_on_has_no_tag() {
        Tag::new(LAST_CHUNK, LAST_PHASE, Slot { pc: LAST.pc + 1, ..LAST });
    }

    #[test]
    #[should_panic(expected = "thread 16 of a program, more than a tag can name")]
    fn a_thread_too_many_has_no_tag() {
        Tag::new(LAST_CHUNK, LAST_PHASE, Slot { thread: LAST.thread + 1, ..LAST });
    }

    #[test]
    #[should_panic(expected = "phase 32 of a plan, more than a tag can name")]
    fn a_phase_too_many_has_no_tag() {
        Tag::new(LAST_CHUNK, PhaseId(LAST_PHASE.0 + 1), LAST);
    }

    #[test]
    #[should_panic(expected = "chunk 2147483648 of a run, more than a tag can name")]
    fn a_chunk_too_many_has_no_tag() {
        Tag::new(ChunkId(LAST_CHUNK.0 + 1), LAST_PHASE, LAST);
    }
}
