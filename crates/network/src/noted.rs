//! What is noted of a message.

use syncline_core::{Bytes, NodeId, PortId, Ps};

/// A message that was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The node that sent it.
    pub src: NodeId,
    /// The port that it left by; none of what a node sends to itself.
    pub left_by: Option<PortId>,
    /// The node that it went to.
    pub dst: NodeId,
    /// The port that it came in by, where it has arrived.
    pub came_by: Option<PortId>,
    /// Its length.
    pub len: Bytes,
    /// When the network got its first byte.
    pub sent: Ps,
    /// When its last byte arrived, if it did.
    pub arrived: Option<Ps>,
}
