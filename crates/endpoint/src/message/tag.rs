//! How messages name the step that takes them.

use crate::api::ChunkId;
use syncline_collective::{PhaseId, Slot};

/// Names the step of a chunk that takes a message, in 63 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(pub(crate) u64);

/// How the tags of a run are made up: step, phase, thread, chunk, the lowest bits first. The more threads there are, the
/// fewer chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    thread_bits: u32,
}

impl Tags {
    pub(super) const PC_BITS: u32 = 23;
    pub(super) const PHASE_BITS: u32 = 5;
    /// Bits for threads, at least.
    pub(super) const THREAD_BITS: u32 = 4;
    const THREAD: u32 = Self::PC_BITS + Self::PHASE_BITS;

    /// Tags for programs of so many threads.
    pub(crate) fn of(threads: u16) -> Tags {
        let needed = u32::from(threads.max(1) - 1).checked_ilog2().map_or(0, |bit| bit + 1);
        Tags { thread_bits: needed.max(Self::THREAD_BITS) }
    }

    /// Chunks that tags tell apart: one bit says that it is a [`Forwarding`](crate::forwarding::Forwarding)'s number.
    pub(super) const fn chunks(self) -> usize {
        1 << (63 - Self::THREAD - self.thread_bits)
    }

    /// The name of a step of a chunk. What it cannot name is refused before a run starts: steps, threads, phases and
    /// chunks by the limits of the system, which are made of the same constants.
    ///
    /// # Panics
    /// If the step, its thread, its phase or the chunk has a number that is too large.
    #[inline]
    pub(crate) fn tag(self, seq: ChunkId, phase: PhaseId, into: Slot) -> Tag {
        // The thread's number among those of all chunks, which does not fit if the chunk's is too large.
        let thread = u64::from(seq.0) << self.thread_bits | u64::from(into.thread);
        let excess = into.pc >> Self::PC_BITS
            | u32::from(into.thread) >> self.thread_bits
            | u32::from(phase.0 >> Self::PHASE_BITS)
            | (thread >> (63 - Self::THREAD)) as u32;
        if excess != 0 {
            self.too_large(seq, phase, into);
        }
        Tag(u64::from(into.pc) | u64::from(phase.0) << Self::PC_BITS | thread << Self::THREAD)
    }

    /// Apart from [`Tags::tag`], which every message passes.
    #[cold]
    #[inline(never)]
    fn too_large(self, seq: ChunkId, phase: PhaseId, into: Slot) -> ! {
        assert!(into.pc >> Self::PC_BITS == 0, "step {} of a thread, more than a tag can name", into.pc);
        let thread = into.thread;
        assert!(u32::from(thread) >> self.thread_bits == 0, "thread {thread} of a program, more than a tag can name");
        assert!(phase.0 >> Self::PHASE_BITS == 0, "phase {phase} of a plan, more than a tag can name");
        panic!("chunk {seq} of a run, more than a tag can name");
    }

    #[inline]
    pub(crate) fn seq(self, tag: Tag) -> ChunkId {
        ChunkId((tag.0 >> (Self::THREAD + self.thread_bits)) as u32)
    }

    #[inline]
    pub(crate) fn slot(self, tag: Tag) -> Slot {
        let thread = (tag.0 >> Self::THREAD) as u16 & ((1 << self.thread_bits) - 1);
        Slot { thread, pc: tag.0 as u32 & ((1 << Self::PC_BITS) - 1) }
    }
}

impl Tag {
    #[inline]
    pub(crate) fn phase(self) -> PhaseId {
        PhaseId((self.0 >> Tags::PC_BITS) as u8 & ((1 << Tags::PHASE_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Tags = Tags { thread_bits: Tags::THREAD_BITS };
    const LAST_PHASE: PhaseId = PhaseId((1 << Tags::PHASE_BITS) - 1);

    fn last_slot(tags: Tags) -> Slot {
        Slot { thread: (1 << tags.thread_bits) - 1, pc: (1 << Tags::PC_BITS) - 1 }
    }

    fn last_chunk(tags: Tags) -> ChunkId {
        ChunkId(tags.chunks() as u32 - 1)
    }

    #[test]
    fn there_are_as_many_bits_for_threads_as_it_takes() {
        let bits = [(1, 4), (16, 4), (17, 5), (1024, 10), (1025, 11), (4096, 12)];
        assert!(bits.iter().all(|&(threads, bits)| Tags::of(threads).thread_bits == bits));
    }

    #[test]
    fn the_largest_numbers_come_back_and_leave_one_bit_clear() {
        for tags in [FEW, Tags::of(100), Tags::of(4096)] {
            let tag = tags.tag(last_chunk(tags), LAST_PHASE, last_slot(tags));
            let numbers = (tags.seq(tag), tag.phase(), tags.slot(tag), tag.0 >> 63);
            assert_eq!(numbers, (last_chunk(tags), LAST_PHASE, last_slot(tags), 0));
        }
    }

    #[test]
    #[should_panic(expected = "step 8388608 of a thread, more than a tag can name")]
    fn a_step_that_is_too_far_on_has_no_tag() {
        FEW.tag(last_chunk(FEW), LAST_PHASE, Slot { pc: last_slot(FEW).pc + 1, ..last_slot(FEW) });
    }

    #[test]
    #[should_panic(expected = "thread 16 of a program, more than a tag can name")]
    fn a_thread_too_many_has_no_tag() {
        FEW.tag(last_chunk(FEW), LAST_PHASE, Slot { thread: last_slot(FEW).thread + 1, ..last_slot(FEW) });
    }

    #[test]
    #[should_panic(expected = "phase 32 of a plan, more than a tag can name")]
    fn a_phase_too_many_has_no_tag() {
        FEW.tag(last_chunk(FEW), PhaseId(LAST_PHASE.0 + 1), last_slot(FEW));
    }

    #[test]
    #[should_panic(expected = "chunk 2147483648 of a run, more than a tag can name")]
    fn a_chunk_too_many_has_no_tag() {
        FEW.tag(ChunkId(last_chunk(FEW).0 + 1), LAST_PHASE, last_slot(FEW));
    }
}
