//! Timers of the engine, and their place in the order of events.

use crate::api::ChunkId;
use syncline_core::PortId;

/// Timers of the engine.
#[derive(Clone, Copy, Debug)]
pub enum AceEvent {
    /// The TX DMA has loaded a chunk.
    Loaded {
        /// The NPU.
        npu: u32,
        /// The chunk.
        seq: ChunkId,
    },
    /// A packet of the chunk's receiving side has SRAM ports and ALU.
    Received {
        /// The NPU.
        npu: u32,
        /// The chunk.
        seq: ChunkId,
    },
    /// A packet that the chunk's FSM sends of its own has its SRAM port.
    Fetched {
        /// The NPU.
        npu: u32,
        /// The chunk.
        seq: ChunkId,
    },
    /// The first packet of an input buffer has its SRAM port, in an all-to-all.
    Written {
        /// The NPU.
        npu: u32,
        /// The input port.
        port: PortId,
    },
    /// The next packet that goes through a port has been read, in an all-to-all.
    Read {
        /// The NPU.
        npu: u32,
        /// The output port.
        port: PortId,
    },
    /// The RX DMA has written the next packet of an all-to-all.
    Stored {
        /// The NPU.
        npu: u32,
    },
    /// A port buffer has space again.
    Port {
        /// The NPU.
        npu: u32,
        /// The port.
        port: PortId,
    },
    /// The first message of a chunk that the RX DMA writes back is across the bus.
    Crossed {
        /// The NPU.
        npu: u32,
        /// The chunk.
        seq: ChunkId,
    },
    /// The RX DMA has written a chunk back.
    Drained {
        /// The NPU.
        npu: u32,
        /// The chunk.
        seq: ChunkId,
    },
}

/// Event classes in the order key, after those of [`crate::api::class`].
pub(super) mod class {
    pub const LOADED: u8 = 40;
    pub const RECEIVED: u8 = 41;
    pub const FETCHED: u8 = 42;
    pub const PORT: u8 = 43;
    pub const DRAINED: u8 = 44;
    pub const WRITTEN: u8 = 45;
    pub const READ: u8 = 46;
    pub const STORED: u8 = 47;
}
