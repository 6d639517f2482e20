//! The bytes of frames as they would be on a wire: headers of Ethernet, IPv4 and TCP, or of UDP and InfiniBand, before a
//! payload of zeros.
//!
//! | what | where it is laid down |
//! |---|---|
//! | TCP, with SACK blocks and ECN | RFC 9293, 2018 and 3168 |
//! | RoCEv2: UDP to port 4791, base transport header, AETH, ICRC | InfiniBand Architecture Specification, volume 1, chapter 9, and annex A17 |
//! | congestion notifications (CNP) | annex A17 |
//! | pauses | IEEE 802.1Qbb |
//!
//! NPU `n` has the address 10.0.0.0 + `n` + 1, and the hardware address 02:00 followed by `n`.

use super::checksums::{Crc32, internet};

/// Bytes of a frame that are kept.
pub const SNAPLEN: usize = 96;

const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const BASE: usize = 12;
const CHECK: usize = 4;

/// The port that RoCEv2 has.
const ROCE_PORT: u16 = 4791;
/// The port to which connections of TCP are.
const TCP_PORT: u16 = 5001;

/// The congestion bits of IP (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Its transport cannot be told.
    NotEct = 0,
    /// It can.
    Ect = 2,
    /// It was marked.
    Ce = 3,
}

/// Who sends a frame to whom, in which connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The node that sends it.
    pub from: u32,
    /// The node that gets it.
    pub to: u32,
    /// The connection.
    pub connection: u32,
    /// Whether it goes from the receiver of the connection to its sender.
    pub is_back: bool,
    /// Its congestion bits.
    pub ecn: Ecn,
}

/// A segment or acknowledgement of TCP.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    /// The number of its first byte.
    pub seq: u32,
    /// That of the next byte that is expected of the other end.
    pub ack: u32,
    /// Bits of the header, from FIN to CWR.
    pub flags: u8,
    /// What has arrived beyond `ack`.
    pub blocks: &'a [(u32, u32)],
    /// Payload.
    pub len: u32,
}

/// Bits of the header of TCP.
pub mod tcp_flags {
    /// There is an acknowledgement, as in everything but the first segment.
    pub const ACK: u8 = 0x10;
    /// Nothing more has been written.
    pub const PSH: u8 = 0x08;
    /// Congestion was experienced.
    pub const ECE: u8 = 0x40;
    /// The window was reduced.
    pub const CWR: u8 = 0x80;
}

/// What a frame of RoCE says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roce {
    /// Data: the operation code of a reliable connection, and payload.
    Send {
        /// Whether its message begins with it, and whether it ends.
        is_first: bool,
        /// Whether its message ends with it.
        is_last: bool,
        /// Payload.
        len: u32,
    },
    /// An acknowledgement of so many messages.
    Ack(u32),
    /// A request for the frame of its number, behind so many messages.
    Nak(u32),
    /// A notification of a mark.
    Cnp,
}

/// A frame: what is kept of it, and how long it is without the check sum of Ethernet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// The first bytes.
    pub kept: Vec<u8>,
    /// All of them.
    pub len: usize,
}

impl Bytes {
    /// Headers before a payload of zeros.
    fn new(mut headers: Vec<u8>, payload: usize) -> Bytes {
        let len = headers.len() + payload;
        headers.resize(headers.len().max(len.min(SNAPLEN)), 0);
        headers.truncate(SNAPLEN);
        Bytes { kept: headers, len }
    }
}

fn address(node: u32) -> [u8; 4] {
    (0x0a00_0000 | (node.wrapping_add(1) & 0x00ff_ffff)).to_be_bytes()
}

fn ethernet(out: &mut Vec<u8>, to: [u8; 6], from: u32, kind: u16) {
    out.extend(to);
    out.extend(hardware(from));
    out.extend(kind.to_be_bytes());
}

fn hardware(node: u32) -> [u8; 6] {
    let [a, b, c, d] = node.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// The headers of Ethernet and IPv4 before `len` further bytes.
fn ip(ends: Ends, protocol: u8, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(SNAPLEN);
    ethernet(&mut out, hardware(ends.to), ends.from, 0x0800);
    let total = u16::try_from(IP + len).unwrap_or(u16::MAX).to_be_bytes();
    // Not to be cut into fragments, and so without an identification (RFC 6864).
    let mut header =
        [0x45, ends.ecn as u8, total[0], total[1], 0, 0, 0x40, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[12..16].copy_from_slice(&address(ends.from));
    header[16..20].copy_from_slice(&address(ends.to));
    let sum = internet(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend(header);
    out
}

/// A segment of TCP. Its check sum covers a payload of zeros.
pub fn tcp(ends: Ends, segment: &Tcp<'_>) -> Bytes {
    // Ports tell all connections apart between two nodes.
    let (own, other) =
        (0x8000 | (ends.connection & 0x7fff) as u16, TCP_PORT.wrapping_add((ends.connection >> 15) as u16));
    let (from, to) = if ends.is_back { (other, own) } else { (own, other) };
    let mut options = Vec::new();
    if !segment.blocks.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * segment.blocks.len() as u8]);
        for (left, right) in segment.blocks {
            options.extend(left.to_be_bytes());
            options.extend(right.to_be_bytes());
        }
    }
    let header_len = 20 + options.len();
    let mut header = Vec::with_capacity(header_len);
    header.extend(from.to_be_bytes());
    header.extend(to.to_be_bytes());
    header.extend(segment.seq.to_be_bytes());
    header.extend(segment.ack.to_be_bytes());
    header.extend([(header_len as u8 / 4) << 4, segment.flags]);
    header.extend([0xff, 0xff, 0, 0, 0, 0]);
    header.extend(options);
    let len = header_len + segment.len as usize;
    let mut out = ip(ends, 6, len);
    let pseudo = [0, 6, (len >> 8) as u8, len as u8];
    let sum = internet(&[&out[ETHERNET + 12..ETHERNET + IP], &pseudo, &header]);
    header[16..18].copy_from_slice(&sum.to_be_bytes());
    out.extend(header);
    Bytes::new(out, segment.len as usize)
}

/// A frame of RoCEv2 with a number. Its UDP check sum is 0: there is none (RFC 768).
pub fn roce(ends: Ends, number: u32, says: Roce) -> Bytes {
    let (code, payload, asks) = match says {
        Roce::Send { is_first, is_last, len } => {
            let code = match (is_first, is_last) {
                (true, false) => 0,
                (false, false) => 1,
                (false, true) => 2,
                (true, true) => 4,
            };
            (code, len as usize, is_last)
        }
        Roce::Ack(_) | Roce::Nak(_) => (0x11, 0, false),
        Roce::Cnp => (0x81, 0, false),
    };
    let behind = match says {
        Roce::Send { .. } => 0,
        Roce::Ack(_) | Roce::Nak(_) => 4,
        Roce::Cnp => 16,
    };
    // Payload is filled up to whole words.
    let pad = payload.wrapping_neg() & 3;
    let payload = payload + pad;
    let udp_len = UDP + BASE + behind + payload + CHECK;
    let mut out = ip(ends, 17, udp_len);
    out.extend((0xc000 | (ends.connection & 0x3fff) as u16).to_be_bytes());
    out.extend(ROCE_PORT.to_be_bytes());
    out.extend(u16::try_from(udp_len).unwrap_or(u16::MAX).to_be_bytes());
    out.extend([0, 0]);
    // The first numbers are reserved; that of the sender is even.
    let queue_pair = 16 + 2 * (ends.connection & 0x003f_ffff) + u32::from(!ends.is_back);
    let to = queue_pair.to_be_bytes();
    let number = number.to_be_bytes();
    // A notification has the bit that says so, and no number.
    let congestion = if says == Roce::Cnp { 0x40 } else { 0 };
    out.extend([code, (pad as u8) << 4, 0xff, 0xff, congestion, to[1], to[2], to[3]]);
    out.extend([u8::from(asks) << 7, number[1], number[2], number[3]]);
    match says {
        Roce::Send { .. } => {}
        // As many credits as one likes; or the code of a number out of order.
        Roce::Ack(messages) => out.extend((0x1f00_0000 | (messages & 0x00ff_ffff)).to_be_bytes()),
        Roce::Nak(messages) => out.extend((0x6000_0000 | (messages & 0x00ff_ffff)).to_be_bytes()),
        Roce::Cnp => out.extend([0; 16]),
    }
    let headers = out.len();
    if headers + payload < SNAPLEN {
        out.resize(headers + payload, 0);
        let sum = invariant(&out[ETHERNET..]);
        out.extend(sum.to_le_bytes());
        return Bytes::new(out, 0);
    }
    Bytes::new(out, payload + CHECK)
}

/// The check sum of what does not change on the way: what may change counts as ones.
fn invariant(packet: &[u8]) -> u32 {
    let mut masked = packet[..IP + UDP + BASE].to_vec();
    for place in [1, 8, 10, 11, IP + 6, IP + 7, IP + UDP + 4] {
        masked[place] = 0xff;
    }
    Crc32::new().with(&[0xff; 8]).with(&masked).with(&packet[IP + UDP + BASE..]).sum()
}

/// A pause of a node's neighbour, or its end, for the priority that data has: 0.
pub fn pause(from: u32, pauses: bool) -> Bytes {
    let mut out = Vec::with_capacity(SNAPLEN);
    ethernet(&mut out, [1, 0x80, 0xc2, 0, 0, 1], from, 0x8808);
    let time = if pauses { 0xff } else { 0 };
    out.extend([1, 1, 0, 1, time, time]);
    // The least frame of Ethernet, without its check sum.
    out.resize(60, 0);
    Bytes::new(out, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends = Ends { from: 1, to: 0, connection: 3, is_back: false, ecn: Ecn::Ect };

    /// Everything sums up to all ones, the check sum included.
    fn is_valid(parts: &[&[u8]]) -> bool {
        internet(parts) == 0
    }

    #[test]
    fn segments_have_valid_check_sums_and_their_length() {
        let blocks = [(10, 20), (30, 40)];
        for (len, blocks) in [(1448, &blocks[..0]), (0, &blocks[..]), (1, &blocks[..1])] {
            let segment = Tcp { seq: u32::MAX, ack: 7, flags: tcp_flags::ACK, blocks, len };
            let frame = tcp(ENDS, &segment);
            let options = if blocks.is_empty() { 0 } else { 4 + 8 * blocks.len() };
            assert_eq!(frame.len, 54 + options + len as usize);
            assert_eq!(frame.kept.len(), frame.len.min(SNAPLEN));
            let (ip, segment) = frame.kept[14..].split_at(20);
            assert!(is_valid(&[ip]));
            assert_eq!(usize::from(ip[2]) << 8 | usize::from(ip[3]), frame.len - 14);
            let len = ((frame.len - 34) as u16).to_be_bytes();
            assert!(is_valid(&[&ip[12..], &[0, 6], &len, segment]));
        }
    }

    #[test]
    fn frames_of_roce_are_whole_words_and_end_with_their_check_sum() {
        let whole = roce(ENDS, 5, Roce::Send { is_first: true, is_last: true, len: 3 });
        assert_eq!((whole.len, whole.kept.len()), (14 + 20 + 8 + 12 + 4 + 4, whole.len));
        assert_eq!(whole.kept[14 + 28..][..2], [4, 0x10]);
        let cut = roce(ENDS, 5, Roce::Send { is_first: false, is_last: false, len: 1024 });
        assert_eq!((cut.len, cut.kept.len()), (58 + 1024, SNAPLEN));
        // What switches change does not count, and everything else does.
        let sum = |frame: &Bytes| frame.kept[frame.len - 4..].to_vec();
        let marked = roce(Ends { ecn: Ecn::Ce, ..ENDS }, 5, Roce::Send { is_first: true, is_last: true, len: 3 });
        assert_eq!(sum(&whole), sum(&marked));
        assert_ne!(sum(&whole), sum(&roce(ENDS, 6, Roce::Send { is_first: true, is_last: true, len: 3 })));
    }

    #[test]
    fn queue_pairs_differ() {
        let pair = |connection, is_back| {
            roce(Ends { connection, is_back, ..ENDS }, 0, Roce::Cnp).kept[14 + 28 + 5..][..3].to_vec()
        };
        let all: std::collections::BTreeSet<_> =
            (0..100).flat_map(|connection| [pair(connection, false), pair(connection, true)]).collect();
        assert_eq!(all.len(), 200);
    }
}
