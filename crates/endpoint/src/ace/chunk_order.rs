//! Whose turn it is: chunks begin phases, and take room for their results, in the same order on every NPU.
//!
//! A *queue* is a sequence of chunks that is the same on all NPUs. Each NPU has come to some place in every queue, once with
//! beginning and once with taking room.

use crate::api::ChunkId;
use std::ops::Range;

/// The queues, and how far each NPU is in them.
#[derive(Debug)]
pub(super) struct ChunkOrder {
    queues: Vec<Vec<ChunkId>>,
    /// Per NPU and queue: how many chunks have begun, and how many have all room for their results.
    begun: Vec<u32>,
    with_room: Vec<u32>,
}

impl ChunkOrder {
    /// So many empty queues.
    pub fn new(queues: usize, npus: u32) -> ChunkOrder {
        let places = vec![0; npus as usize * queues];
        ChunkOrder { queues: vec![Vec::new(); queues], begun: places.clone(), with_room: places }
    }

    /// A chunk stands behind all others in some queues.
    pub fn append(&mut self, seq: ChunkId, queues: Range<usize>) {
        self.queues[queues].iter_mut().for_each(|queue| queue.push(seq));
    }

    fn place(&self, npu: usize, queue: usize) -> usize {
        npu * self.queues.len() + queue
    }

    /// The chunk of a queue whose turn it is to begin on an NPU.
    #[inline]
    pub fn next_to_begin(&self, npu: usize, queue: usize) -> Option<ChunkId> {
        self.queues[queue].get(self.begun[self.place(npu, queue)] as usize).copied()
    }

    /// The next chunk of a queue begins on an NPU.
    pub fn begin(&mut self, npu: usize, queue: usize) {
        let place = self.place(npu, queue);
        self.begun[place] += 1;
    }

    /// The chunk of a queue whose turn it is to take room on an NPU.
    #[inline]
    pub fn next_to_take_room(&self, npu: usize, queue: usize) -> Option<ChunkId> {
        self.queues[queue].get(self.with_room[self.place(npu, queue)] as usize).copied()
    }

    /// The next chunk of a queue has all the room that it needs on an NPU.
    pub fn has_room(&mut self, npu: usize, queue: usize) {
        let place = self.place(npu, queue);
        self.with_room[place] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_npu_comes_to_the_chunks_of_a_line_in_the_same_order() {
        let mut order = ChunkOrder::new(3, 2);
        for (seq, queues) in [(0, 0..2), (1, 2..3), (2, 0..1), (3, 0..2)] {
            order.append(ChunkId(seq), queues);
        }
        let mut seen = [[0; 3]; 3].map(|_| Vec::new());
        for (queue, seen) in seen.iter_mut().enumerate() {
            while let Some(seq) = order.next_to_begin(1, queue) {
                seen.push(seq.0);
                order.begin(1, queue);
            }
        }
        assert_eq!(seen, [vec![0, 2, 3], vec![0, 3], vec![1]]);
        assert_eq!(order.next_to_begin(0, 0), Some(ChunkId(0)), "another NPU has begun nothing");
        assert_eq!(order.next_to_take_room(1, 0), Some(ChunkId(0)), "nor has the one taken room");
        order.has_room(1, 0);
        assert_eq!(order.next_to_take_room(1, 0), Some(ChunkId(2)));
    }

    #[test]
    fn a_line_goes_on_when_a_chunk_comes() {
        let mut order = ChunkOrder::new(1, 1);
        assert_eq!(order.next_to_begin(0, 0), None);
        order.append(ChunkId(7), 0..1);
        assert_eq!(order.next_to_begin(0, 0), Some(ChunkId(7)));
    }
}
