//! Frames that leave one after the other.

/// Frames that left without a pause between them, not yet in the statistics of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// When the first one began to leave.
    pub from: u64,
    /// Frames.
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}
