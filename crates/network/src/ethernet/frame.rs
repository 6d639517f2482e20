//! What is on the wire.

use super::path::Path;

/// A frame: a segment of a connection's bytes, or an acknowledgement of such.
///
/// 24 bytes, because links hold many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Of data, the number of its first byte in the connection; of an acknowledgement, that of the next byte that is expected.
    pub seq: u64,
    /// The links that it has to take after the present one ([`super::paths::Paths`]).
    pub route: u32,
    /// Whose it is.
    pub connection: u32,
    /// Of an acknowledgement, the number of its SACK blocks in their table, or [`NONE`].
    pub blocks: u32,
    /// Bytes on the wire.
    pub wire: u16,
    /// How many these are.
    pub hops: u8,
    /// What it is: [`ACK`], [`CE`] and so on.
    pub flags: u8,
}

/// No SACK blocks.
pub const NONE: u32 = u32::MAX;

/// An acknowledgement; data without it.
pub const ACK: u8 = 1;
/// Congestion was experienced (RFC 3168, section 5): a switch has marked it.
pub const CE: u8 = 2;
/// The receiver tells of congestion (RFC 3168, section 6.1).
pub const ECE: u8 = 4;
/// The sender has reduced its window (RFC 3168, section 6.1).
pub const CWR: u8 = 8;
/// Its transport can be told of congestion: switches may mark it instead of dropping it (RFC 3168, section 5).
pub const ECT: u8 = 16;
/// The receiver misses what comes next (InfiniBand Architecture Specification, volume 1, section 9.7.5.2.8).
pub const NAK: u8 = 32;
/// The receiver tells of a mark (DCQCN, section 3.2).
pub const CNP: u8 = 64;
/// A pause, or its end (IEEE 802.1Qbb): `connection` is the link, `seq` whether it is to pause.
pub const PFC: u8 = 128;

impl Frame {
    /// Fills places that hold no frame.
    pub const NOTHING: Frame = Frame { seq: 0, route: 0, connection: 0, blocks: NONE, wire: 0, hops: 0, flags: 0 };

    /// One of a connection that takes this way from its beginning.
    #[inline(always)]
    pub fn on(path: Path, connection: u32, seq: u64, wire: u32, flags: u8) -> Frame {
        Frame { seq, route: path.route, connection, blocks: NONE, wire: wire as u16, hops: path.links - 1, flags }
    }

    /// Whether it has all of these flags.
    #[inline(always)]
    pub fn is(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}
