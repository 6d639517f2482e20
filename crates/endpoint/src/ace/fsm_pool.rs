//! The FSMs: which of them are busy, and with what.
//!
//! Work comes in *queues*. Each queue but the last has FSMs of its own; the last is served by all of them. Which FSM serves
//! a piece of work follows from its number in the order that all NPUs share, so that all NPUs choose alike.
//!
//! An FSM that has given its work back may leave some of it to be finished: results that are still to arrive. Of its own queue
//! it takes up work only while no more than one piece is left so. Where what an FSM sends waits for no answer (on a ring of two,
//! or in a direct phase) nothing else would keep an NPU from running ahead of one that is late, and from filling its input
//! buffers with what that cannot use yet ([`input_buffer`](super::input_buffer)).

use crate::api::ChunkId;
use crate::servers::ResourceUse;
use syncline_core::Ps;

/// Pieces of work of its own queue that an FSM may have taken up and that are not finished.
pub(super) const MOST_UNFINISHED: u8 = 2;

/// The FSMs of all NPUs.
#[derive(Debug)]
pub(super) struct FsmPool {
    /// First FSM of each queue that has some of its own, and the one behind the last of these.
    first: Vec<u32>,
    /// Per NPU and FSM.
    busy: Vec<bool>,
    /// Per NPU and FSM: work of its own queue that it has taken up and that is not finished.
    unfinished: Vec<u8>,
    /// Per NPU, and per NPU and queue: busy FSMs.
    busy_of_npu: Vec<u32>,
    busy_in_queue: Vec<u32>,
    /// The most of one NPU, in all and per queue.
    peak: u32,
    peak_in_queue: Vec<u32>,
    usage: ResourceUse,
}

impl FsmPool {
    /// `fsms` idle FSMs on each of `npus` NPUs, of which so many are each queue's own; none of the numbers is zero.
    pub fn new(per_queue: &[u32], fsms: u32, npus: u32) -> FsmPool {
        let first: Vec<u32> = (0..=per_queue.len()).map(|queue| per_queue[..queue].iter().sum()).collect();
        let (queues, npus) = (first.len(), npus as usize);
        FsmPool {
            busy: vec![false; npus * fsms as usize],
            unfinished: vec![0; npus * fsms as usize],
            busy_of_npu: vec![0; npus],
            busy_in_queue: vec![0; npus * queues],
            peak: 0,
            peak_in_queue: vec![0; queues],
            usage: ResourceUse::new("fsm", fsms),
            first,
        }
    }

    /// The first FSM that serves a queue, and the one behind the last.
    fn range(&self, queue: usize) -> (u32, u32) {
        match self.first.get(queue + 1) {
            Some(&end) => (self.first[queue], end),
            None => (0, self.usage.servers),
        }
    }

    /// FSMs that serve a queue.
    pub fn serving(&self, queue: usize) -> u32 {
        let (first, end) = self.range(queue);
        end - first
    }

    /// The FSM that serves piece `seq` of a queue's work.
    #[inline]
    pub fn server(&self, queue: usize, seq: ChunkId) -> u32 {
        let (first, end) = self.range(queue);
        first + seq.0 % (end - first)
    }

    /// The queue that an FSM serves beside the last one.
    pub fn own_queue(&self, fsm: u32) -> usize {
        self.first.partition_point(|&first| first <= fsm) - 1
    }

    fn place(&self, npu: usize, fsm: u32) -> usize {
        npu * self.usage.servers as usize + fsm as usize
    }

    /// Whether a queue has FSMs of its own.
    fn has_own(&self, queue: usize) -> bool {
        queue + 1 < self.first.len()
    }

    /// Whether an FSM can begin work of a queue.
    pub fn is_free(&self, npu: usize, queue: usize, fsm: u32) -> bool {
        let place = self.place(npu, fsm);
        !self.busy[place] && (!self.has_own(queue) || self.unfinished[place] < MOST_UNFINISHED)
    }

    /// An FSM that is free for it begins work of a queue.
    pub fn take(&mut self, npu: usize, queue: usize, fsm: u32) {
        assert!(self.is_free(npu, queue, fsm), "an FSM serves one chunk at a time, and leaves few unfinished");
        let place = self.place(npu, fsm);
        self.busy[place] = true;
        self.unfinished[place] += u8::from(self.has_own(queue));
        let (of_npu, in_queue) = (&mut self.busy_of_npu[npu], &mut self.busy_in_queue[npu * self.first.len() + queue]);
        *of_npu += 1;
        *in_queue += 1;
        self.peak = self.peak.max(*of_npu);
        self.peak_in_queue[queue] = self.peak_in_queue[queue].max(*in_queue);
    }

    /// An FSM has ended work of a queue, which has kept it busy for so long.
    pub fn give_back(&mut self, npu: usize, queue: usize, fsm: u32, busy: Ps) {
        let place = self.place(npu, fsm);
        assert!(std::mem::replace(&mut self.busy[place], false), "an FSM that is given back was busy");
        self.busy_of_npu[npu] -= 1;
        self.busy_in_queue[npu * self.first.len() + queue] -= 1;
        self.usage.serve(Ps::ZERO, busy);
    }

    /// Work of an FSM's own queue is finished; whether only that has kept the FSM from taking up more.
    pub fn finish(&mut self, npu: usize, fsm: u32) -> bool {
        let place = self.place(npu, fsm);
        self.unfinished[place] -= 1;
        !self.busy[place] && self.unfinished[place] + 1 == MOST_UNFINISHED
    }

    /// Accounts what a piece of work has waited for its FSM.
    pub fn account_wait(&mut self, wait: Ps) {
        self.usage.wait += u128::from(wait.0);
    }

    /// Busy FSMs of an NPU.
    pub fn busy(&self, npu: usize) -> u32 {
        self.busy_of_npu[npu]
    }

    /// The most busy FSMs that an NPU ever had.
    pub fn peak(&self) -> u32 {
        self.peak
    }

    /// The most FSMs that one NPU ever had busy with a queue.
    pub fn peak_in_queue(&self, queue: usize) -> u32 {
        self.peak_in_queue[queue]
    }

    /// What they did.
    pub fn usage(&self) -> &ResourceUse {
        &self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_to_the_fsms_of_its_line_in_turn_and_the_last_line_to_all() {
        let pool = FsmPool::new(&[2, 1, 3], 6, 1);
        let servers = |queue| (0..7).map(|seq| pool.server(queue, ChunkId(seq))).collect::<Vec<_>>();
        assert_eq!(servers(0), [0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(servers(1), [2; 7]);
        assert_eq!(servers(2), [3, 4, 5, 3, 4, 5, 3]);
        assert_eq!(servers(3), [0, 1, 2, 3, 4, 5, 0]);
        assert_eq!((0..4).map(|queue| pool.serving(queue)).collect::<Vec<_>>(), [2, 1, 3, 6]);
        assert_eq!((0..6).map(|fsm| pool.own_queue(fsm)).collect::<Vec<_>>(), [0, 0, 1, 2, 2, 2]);
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let mut pool = FsmPool::new(&[2, 2], 4, 2);
        pool.take(0, 0, 1);
        pool.take(0, 2, 2);
        pool.take(1, 1, 2);
        assert!(!pool.is_free(0, 0, 1) && !pool.is_free(0, 1, 2) && !pool.is_free(1, 2, 2));
        assert!(pool.is_free(0, 0, 0) && pool.is_free(1, 0, 1));
        assert_eq!((pool.busy(0), pool.busy(1), pool.peak()), (2, 1, 2));
        pool.give_back(0, 0, 1, Ps(5));
        pool.give_back(0, 2, 2, Ps(7));
        pool.give_back(1, 1, 2, Ps(0));
        pool.account_wait(Ps(3));
        assert!((0..2).all(|npu| pool.busy(npu) == 0 && (0..4).all(|fsm| pool.is_free(npu, 2, fsm))));
        pool.take(0, 0, 0);
        pool.give_back(0, 0, 0, Ps(0));
        assert_eq!((0..3).map(|queue| pool.peak_in_queue(queue)).collect::<Vec<_>>(), [1, 1, 1], "one after the other");
        assert_eq!(pool.peak(), 2);
        let usage = pool.usage();
        assert_eq!((usage.servers, usage.busy, usage.wait, usage.served), (4, 12, 3, 4));
    }

    #[test]
    fn an_fsm_leaves_one_piece_of_its_own_queue_unfinished_and_any_of_the_last() {
        let mut pool = FsmPool::new(&[1, 1], 2, 1);
        let begin_and_leave = |pool: &mut FsmPool, queue| {
            pool.take(0, queue, 0);
            pool.give_back(0, queue, 0, Ps(1));
        };
        begin_and_leave(&mut pool, 0);
        (0..5).for_each(|_| begin_and_leave(&mut pool, 2));
        assert!(pool.is_free(0, 0, 0), "one is unfinished");
        begin_and_leave(&mut pool, 0);
        assert!(!pool.is_free(0, 0, 0) && pool.is_free(0, 2, 0), "two are, of which the last queue knows nothing");
        assert!(pool.finish(0, 0), "that was all it waited for");
        pool.take(0, 0, 0);
        assert!(!pool.finish(0, 0), "it is busy");
    }

    #[test]
    #[should_panic(expected = "one chunk at a time")]
    fn a_busy_fsm_cannot_be_taken() {
        let mut pool = FsmPool::new(&[1, 1], 2, 1);
        pool.take(0, 0, 0);
        pool.take(0, 2, 0);
    }
}
