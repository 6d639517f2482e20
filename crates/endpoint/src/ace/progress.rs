//! How far the chunks of an NPU are.

use super::run::{PeerBlock, PhaseRun};
use crate::api::ChunkId;
use std::collections::VecDeque;
use syncline_collective::PhaseId;
use syncline_core::{Id, Ps};

/// Where a chunk is on its way through an engine.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// The TX DMA loads it.
    Loading,
    /// It is ready for its phase.
    Queued,
    /// It runs the phase.
    Running(PhaseRun),
    /// It is a direct all-to-all whose FSM sends to a peer, or has sent everything.
    Exchanging(Option<PeerBlock>),
    /// The RX DMA writes it back.
    Draining {
        /// When all of it is across the bus, if memory is asked for before.
        across: Option<Ps>,
    },
    /// It is complete, and an older one is not.
    Done,
}

/// Why a chunk does not begin its phase, or does not store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// It is not ready, or not at the head of its phase: its FSM serves earlier chunks.
    Turn,
    /// Its FSM is busy.
    Fsm,
    /// The next partition has no room.
    Room,
}

/// A chunk on an NPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub state: State,
    pub phase: PhaseId,
    /// When it was ready for its phase, and when it began it.
    pub ready: Ps,
    pub began: Ps,
    /// Since when it waits (for its phase or for a port), as far as not accounted yet.
    pub waits_since: Ps,
    /// What it waits for.
    pub blocked: Blocked,
}

impl Progress {
    /// A chunk that is being loaded.
    pub const LOADING: Progress = Progress {
        state: State::Loading,
        phase: PhaseId(0),
        ready: Ps::ZERO,
        began: Ps::ZERO,
        waits_since: Ps::ZERO,
        blocked: Blocked::Turn,
    };

    /// The phase that it runs, which must be one with messages.
    #[inline]
    pub fn run(&mut self) -> &mut PhaseRun {
        match &mut self.state {
            State::Running(run) => run,
            other => panic!("only a chunk that runs a phase handles its packets: {other:?}"),
        }
    }

    /// What it sends to a peer, which must be a direct all-to-all that has not sent everything.
    #[inline]
    pub fn peer_block(&mut self) -> &mut PeerBlock {
        match &mut self.state {
            State::Exchanging(Some(block)) => block,
            other => panic!("only a direct all-to-all that has not sent all sends to its peers: {other:?}"),
        }
    }
}

/// The chunks of an NPU between the oldest unfinished one and the newest it has started.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    base: ChunkId,
    chunks: VecDeque<Progress>,
}

impl Window {
    /// Number of the oldest chunk that is not done.
    pub fn base(&self) -> ChunkId {
        self.base
    }

    /// Number of the chunk that is started next.
    pub fn next(&self) -> ChunkId {
        ChunkId(self.base.0 + self.chunks.len() as u32)
    }

    /// Whether no chunk is under way.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The next chunk starts; returns its number.
    pub fn start(&mut self) -> ChunkId {
        let seq = self.next();
        self.chunks.push_back(Progress::LOADING);
        seq
    }

    /// A chunk, if it has started and is not done with all before it.
    #[inline]
    pub fn get(&self, seq: ChunkId) -> Option<&Progress> {
        self.chunks.get(seq.place_from(self.base)?)
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, seq: ChunkId) -> Option<&mut Progress> {
        self.chunks.get_mut(seq.place_from(self.base)?)
    }

    /// A chunk that is under way.
    #[inline]
    pub fn chunk(&mut self, seq: ChunkId) -> &mut Progress {
        &mut self.chunks[(seq.0 - self.base.0) as usize]
    }

    /// All that are under way, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (ChunkId, &Progress)> {
        (self.base.0..).map(ChunkId).zip(&self.chunks)
    }

    /// A chunk is done.
    pub fn finish(&mut self, seq: ChunkId) {
        self.chunk(seq).state = State::Done;
        while matches!(self.chunks.front(), Some(Progress { state: State::Done, .. })) {
            self.chunks.pop_front();
            self.base = self.base.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_reaches_from_the_oldest_unfinished_chunk_to_the_newest() {
        let mut window = Window::default();
        assert_eq!([window.start(), window.start(), window.start()], [0, 1, 2].map(ChunkId));
        window.finish(ChunkId(1));
        assert_eq!((window.base(), window.next()), (ChunkId(0), ChunkId(3)), "a newer one is done first");
        assert!(matches!(window.get(ChunkId(1)), Some(Progress { state: State::Done, .. })));
        window.finish(ChunkId(0));
        assert_eq!((window.base(), window.next()), (ChunkId(2), ChunkId(3)));
        assert!(
            window.get(ChunkId(1)).is_none() && window.get(ChunkId(2)).is_some() && window.get(ChunkId(3)).is_none()
        );
        window.finish(ChunkId(2));
        assert!(window.is_empty() && window.start() == ChunkId(3));
    }
}
