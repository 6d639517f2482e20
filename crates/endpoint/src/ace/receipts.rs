//! What NPUs are still to receive of direct all-to-alls.

use crate::api::ChunkId;
use std::collections::VecDeque;
use syncline_core::NodeId;

/// Bytes that are still to be received and stored, of the chunks that an NPU has received something of.
#[derive(Debug)]
pub(super) struct Receipts {
    /// Per NPU: chunk and bytes, in the order of chunks.
    due: Vec<VecDeque<(ChunkId, u64)>>,
}

impl Receipts {
    /// Nothing received, of so many NPUs.
    pub fn new(npus: u32) -> Receipts {
        Receipts { due: vec![VecDeque::new(); npus as usize] }
    }

    fn find(&self, npu: NodeId, seq: ChunkId) -> Result<usize, usize> {
        self.due[npu.index()].binary_search_by_key(&seq, |&(seq, _)| seq)
    }

    /// Bytes of a chunk that an NPU is still to receive, if it has received some.
    pub fn due(&self, npu: NodeId, seq: ChunkId) -> Option<u64> {
        self.find(npu, seq).ok().map(|at| self.due[npu.index()][at].1)
    }

    /// An NPU has received some of a chunk; so many bytes are still to come.
    pub fn set_due(&mut self, npu: NodeId, seq: ChunkId, bytes: u64) {
        match self.find(npu, seq) {
            Ok(at) => self.due[npu.index()][at].1 = bytes,
            Err(at) => self.due[npu.index()].insert(at, (seq, bytes)),
        }
    }

    /// A chunk is done.
    pub fn forget(&mut self, npu: NodeId, seq: ChunkId) {
        if let Ok(at) = self.find(npu, seq) {
            self.due[npu.index()].remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_known_by_npu_and_chunk_until_the_chunk_is_done() {
        let mut receipts = Receipts::new(2);
        let npu = NodeId(1);
        for (seq, bytes) in [(5, 100), (2, 7), (5, 70), (9, 1), (2, 0)] {
            receipts.set_due(npu, ChunkId(seq), bytes);
        }
        assert_eq!([2, 5, 7, 9].map(|seq| receipts.due(npu, ChunkId(seq))), [Some(0), Some(70), None, Some(1)]);
        assert_eq!(receipts.due(NodeId(0), ChunkId(5)), None);
        receipts.forget(npu, ChunkId(2));
        receipts.forget(npu, ChunkId(7));
        assert_eq!([2, 5, 9].map(|seq| receipts.due(npu, ChunkId(seq))), [None, Some(70), Some(1)]);
    }
}
