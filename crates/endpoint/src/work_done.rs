//! Timers of endpoints that work on messages.

use crate::api::{ChunkId, class, work_key};
use syncline_core::{Key, NodeId};

/// Work is done, or a stage of it.
#[derive(Clone, Copy, Debug)]
pub enum WorkDone {
    /// A step's.
    Step {
        /// The NPU, or the switch that had a piece to work on.
        npu: u32,
        /// The chunk.
        seq: ChunkId,
        /// The thread.
        thread: u16,
        /// The stage.
        stage: u8,
    },
    /// That on the next packet that a step passes on.
    Packet {
        /// The NPU.
        npu: u32,
        /// The chunk.
        seq: ChunkId,
        /// The thread.
        thread: u16,
    },
    /// That on the next message in transit.
    Transit {
        /// The NPU.
        npu: u32,
        /// The stage.
        stage: u8,
    },
    /// That on the next packet in transit which came by a port.
    Passing {
        /// The NPU.
        npu: u32,
        /// The port.
        port: u16,
    },
    /// None yet: a message reaches its program ([`StepCost::injection`](crate::costs::StepCost::injection)).
    Injected {
        /// The NPU.
        npu: u32,
    },
    /// None yet, but what it is shared with changes ([`contention`](crate::contention)).
    Shares {
        /// The NPU.
        npu: u32,
    },
}

impl WorkDone {
    /// The NPU.
    #[inline]
    pub fn npu(self) -> NodeId {
        match self {
            WorkDone::Step { npu, .. }
            | WorkDone::Packet { npu, .. }
            | WorkDone::Transit { npu, .. }
            | WorkDone::Passing { npu, .. }
            | WorkDone::Injected { npu }
            | WorkDone::Shares { npu } => NodeId(npu),
        }
    }

    /// The stage of the work; the first is 0.
    #[inline]
    pub fn stage(self) -> u8 {
        match self {
            WorkDone::Step { stage, .. } | WorkDone::Transit { stage, .. } => stage,
            WorkDone::Packet { .. }
            | WorkDone::Passing { .. }
            | WorkDone::Injected { .. }
            | WorkDone::Shares { .. } => 0,
        }
    }

    /// Its place among simultaneous events. A stage is done with messages in transit in the order in which they came,
    /// so that no event need name one; nor need those of delayed messages, all of which are delayed equally.
    #[inline]
    pub fn key(self) -> Key {
        match self {
            WorkDone::Step { seq, thread, .. } | WorkDone::Packet { seq, thread, .. } => work_key(seq, thread),
            WorkDone::Transit { stage, .. } => Key::new(class::TRANSIT, stage.into()),
            WorkDone::Passing { port, .. } => Key::new(class::TRANSIT, port.into()),
            WorkDone::Injected { .. } => Key::new(class::INJECTED, 0),
            WorkDone::Shares { .. } => Key::new(class::SHARES, 0),
        }
    }
}
