//! Messages between NPUs, and the backends that carry them.
//!
//! The API ([`api::Network`]) is two-sided and asynchronous and speaks of *segments*, not of whole
//! messages: a message is opened, fed with bytes as they become available, reported at its
//! destination as it arrives, and its receiver gives the buffer space back. [`api`] has the contract;
//! each backend is one module and one line here.
//!
//! | backend | models |
//! |---|---|
//! | [`analytical`] | the sender's port, then hop latency and serialisation at the bottleneck; no contention beyond the first link |
//! | [`flow`] | concurrent messages share links max-min fairly; no packets |
//! | [`ethernet`] | switches with output queues that overflow or make senders pause, and TCP or RoCE |
//! | [`packet`] | packets, input-buffered routers, credits, dimension-order routes; exact packet trains |

pub mod analytical;
pub mod api;
mod arrivals;
pub mod busy;
pub mod ethernet;
pub mod flow;
mod messages;
pub mod noted;
pub mod packet;
mod receipts;
pub mod recorded;
pub mod spans;
pub mod usage;
mod wait_text;

pub use analytical::Analytical;
pub use api::{
    Connection, Delivery, LINKS_OF_AN_EVENT, Loss, Message, MsgId, NetOut, Network, Room, Route, Segment, TrafficClass,
};
pub use ethernet::{Ethernet, EthernetConfig};
pub use flow::Flow;
pub use noted::Noted;
pub use packet::{DeadlockRule, Packet, PacketConfig, PacketError};
pub use recorded::{MessageLog, Recorded};
pub use spans::{Span, Spans};
pub use usage::LinkUsage;
