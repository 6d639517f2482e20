//! What happens between "the program wants to send" and "the network has it", and between arrival and
//! "reduced".
//!
//! | endpoint | works on | resources |
//! |---|---|---|
//! | [`Ideal`] | packets | none: a fixed time for what is received |
//! | [`GivingWay`] | packets | none; kernels have what communication leaves of SMs and memory |
//! | [`Baseline`] | whole messages | memory bandwidth, SMs, NPU-AFI bus |
//! | [`Contended`] | whole messages | the same, shared with compute kernels while both run |
//! | [`Streams`] | whole messages | SMs for reductions; a thread is held by what it sends |
//! | [`SwitchOffload`] | whole messages | memory bandwidth, bus; ALUs and memory of switches; SMs where none adds |
//! | [`Ace`] | packets | DMAs, bus, SRAM partitions and ports, FSMs, ALUs, port buffers |
//!
//! Every resource is a first-come first-served server; work that finds it busy waits, and the wait is
//! accounted to it ([`servers`]). Buses may cost more than their bytes ([`loggp`]). [`api`] has the contract with the
//! layer above, [`layout`] says where programs lead.

pub mod ace;
pub mod api;
pub mod contention;
pub mod costs;
pub mod flights;
mod forwarding;
pub mod in_switch;
pub mod kernel;
pub mod layout;
pub mod link_delays;
pub mod loggp;
pub mod message;
pub mod rooms;
mod send_queues;
pub mod servers;
pub mod streams;
pub mod work_done;

pub use ace::{Ace, AceConfig, AceError};
pub use api::{Chunk, ChunkId, Ctx, Endpoint, EpOut, Post, Report, RoomId};
pub use contention::{Contended, ContentionConfig, GivingWay, Load, Whole};
pub use costs::{Baseline, BaselineConfig, Ideal};
pub use in_switch::{Dma, DmaConfig, SwitchConfig, SwitchOffload};
pub use kernel::{Held, Kernel};
pub use layout::{LaneOfGroup, Layout, RingOrder, Space, Wires};
pub use loggp::LogGp;
pub use message::MessageEndpoint;
pub use rooms::{RoomPart, Rooms, RoomsOn};
pub use streams::{StreamConfig, Streams};
pub use work_done::WorkDone;
