//! What moves messages between ranks.
//!
//! Ranks exchange messages over *connections*: one for each lane of a rank to a peer. A connection is a ring of slots
//! ([`ring`]) with one writer and one reader. In shared memory both sides use the same ring; over TCP each has a ring
//! of its own, and a thread moves slots from one to the other, when it is asked to ([`wake`]). Whoever waits sleeps on
//! the [`bell`] of its communicator, which peers ring when they have put something into a slot or have freed one.

pub mod bell;
pub mod ring;
pub mod shared;
pub mod tcp;
pub mod wake;

use crate::bootstrap::Failure;

/// Connections of a rank to a peer are numbered: 0 for point-to-point messages, 1 and more for the threads of programs.
pub type Lane = u16;

/// A peer as a transport sees it.
pub trait Peer: Send + Sync {
    /// The ring that takes what this rank sends on a lane.
    ///
    /// # Errors
    /// A [`Failure`], if there is no memory for it.
    fn outbound(&self, lane: Lane) -> Result<ring::Writer, Failure>;

    /// The ring that holds what the peer sends on a lane.
    ///
    /// # Errors
    /// A [`Failure`], if there is no memory for it.
    fn inbound(&self, lane: Lane) -> Result<ring::Reader, Failure>;

    /// Says that slots to the peer have been filled, or that slots from it have been freed.
    fn notify(&self);

    /// The peer's segment, if the ranks share memory of their host.
    fn shared(&self) -> Option<&shared::Segment> {
        None
    }

    /// The name of the transport, e.g. `shared memory`.
    fn name(&self) -> &'static str;
}
