//! A way of frames.

/// A way from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its first link, or [`NONE`](super::frame::NONE) if it has none.
    pub first: u32,
    /// What comes after it ([`Frame::route`](super::frame::Frame::route)).
    pub route: u32,
    /// How many links it has.
    pub links: u8,
}
