//! The vocabulary that every layer of Syncline shares.
//!
//! ```text
//!   units   Ps, Bytes, Rate, Clock      integer physics: no float decides an order of events
//!   ids     NodeId, PortId, ...         typed 32-bit indices into flat arrays
//!   grid    Grid                        ranks and their coordinates
//!   refusal Refusal                     what is wrong with a description, as data
//!   queue   EventQueue, Key, Schedule   the one monotone queue, owned by the driver
//!   alarm   Alarm                       a timer that can be set again before it has fired
//!   slab    Slab                        entries that come and go, and their numbers
//!   random  Stream                      random numbers that do not depend on the order of events
//!   share   Share, Filling, Pool        max-min fair sharing, in fixed point
//!   books   Books, Wire                 payload accepted and delivered, and bytes on the wire
//!   stats   Windows, Peaks, Wait, ...   what layers report about themselves
//!   table   Column, Table, Field        columns and fields of results, with units and meanings
//! ```
//!
//! Layers are state machines without I/O. They are handed `now`, an input and a [`queue::Schedule`]
//! to put their own timers in; they never see the wall clock, a thread, or each other.

pub mod alarm;
pub mod books;
pub mod grid;
pub mod ids;
pub mod queue;
pub mod random;
pub mod refusal;
pub mod share;
pub mod slab;
pub mod stats;
pub mod table;
pub mod units;

pub use alarm::Alarm;
pub use books::{Books, Wire};
pub use grid::Grid;
pub use ids::{Id, NodeId, NodeSet, PortId};
pub use queue::{EventQueue, Key, Owned, Schedule};
pub use refusal::Refusal;
pub use slab::Slab;
pub use stats::{Peaks, Resolution, Wait, Windows};
pub use units::{Bytes, Clock, Ps, Rate};
