//! Packets of direct all-to-alls, and how they are named in the network.

use crate::api::ChunkId;
use syncline_core::Ps;
use syncline_network::Segment;

/// Packets that a transit pool holds at least: the one that enters, and the bubble.
pub(super) const LEAST_SLOTS: u64 = 2;

/// A packet of an all-to-all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Its chunk.
    pub seq: ChunkId,
    /// The hop that it is on, or takes next, in the table of paths.
    pub position: u32,
    /// Its bytes.
    pub len: u32,
    /// Since when it waits.
    pub since: Ps,
}

/// Tells packets of direct all-to-alls from those of other phases, which leave this bit clear.
const MARK: u64 = 1 << 63;

impl Packet {
    /// The packet with a tag that has just arrived.
    pub fn arrived(tag: u64, len: u32, now: Ps) -> Packet {
        Packet { seq: ChunkId(tag as u32), position: ((tag & !MARK) >> 32) as u32, len, since: now }
    }

    /// Its name in the network.
    ///
    /// # Panics
    /// If its place in the table of paths is not below 2^31.
    pub fn tag(&self) -> u64 {
        assert!(self.position >> 31 == 0, "place {} in the table of paths, more than a tag can name", self.position);
        MARK | u64::from(self.position) << 32 | u64::from(self.seq.0)
    }
}

/// The bytes of a packet that has arrived.
///
/// # Panics
/// If it is several packets, or has 2^32 bytes or more: an engine feeds one packet at a time, of fewer bytes.
#[inline]
pub(super) fn packet_bytes(segment: &Segment) -> u32 {
    assert_eq!(segment.packets, 1, "packets are fed, and so arrive, one by one");
    u32::try_from(segment.len.0).expect("a packet of less than 4 GiB")
}

/// Whether a tag names a packet of a direct all-to-all.
#[inline]
pub(super) fn is_of_all_to_all(tag: u64) -> bool {
    tag & MARK != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_known_by_its_tag() {
        for (seq, position) in [(0, 0), (u32::MAX, 0), (3, 0x7fff_ffff)] {
            let packet = Packet { seq: ChunkId(seq), position, len: 9, since: Ps(7) };
            assert!(is_of_all_to_all(packet.tag()));
            assert_eq!(Packet::arrived(packet.tag(), 9, Ps(7)), packet);
        }
    }

    #[test]
    #[should_panic(expected = "place 2147483648 in the table of paths, more than a tag can name")]
    fn a_place_too_far_on_has_no_tag() {
        Packet { seq: ChunkId(0), position: 1 << 31, len: 9, since: Ps(7) }.tag();
    }
}
