//! What leaves by chosen ports, as files that tools for packets read (the format of libpcap, with nanoseconds).
//!
//! A frame is recorded when its first bit leaves, so that one that found no room is in no file, and one that got lost behind
//! the port is in it. Only links that are captured ([`Link::capture`](super::link::Link::capture)) take any time.
//!
//! What the simulation has no bytes for is filled in ([`headers`]): a connection has its number as its port, and what it
//! carries is zeros. Its first byte has the number 1, as if it had been opened by the usual three segments, and no window is
//! limited. Frames of RoCE are sends of a reliable connection, numbered from 0.

mod checksums;
mod headers;

use super::BlocksId;
use super::Ethernet;
use super::frame::{ACK, CE, CNP, CWR, ECE, ECT, Frame, NAK, NONE, PFC};
use super::link::Link;
use headers::{Bytes, Ecn, Ends, Roce, Tcp, tcp_flags};
use syncline_core::units::PS_PER_S;
use syncline_core::{NodeId, PortId};
use syncline_topology::Fabric;

/// Frames that are kept of all ports together; each has an equal part.
const MOST_FRAMES: u64 = 1 << 20;

/// What has left by a port.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Its link.
    pub link: u32,
    /// How many are in the file.
    pub frames: u64,
    /// How many more have left since it was full.
    pub left_out: u64,
    /// The file.
    pub file: Vec<u8>,
}

impl Captured {
    fn new(link: u32) -> Captured {
        let mut file = Vec::new();
        file.extend(0xa1b2_3c4d_u32.to_le_bytes());
        file.extend([2, 0, 4, 0]);
        file.extend([0; 8]);
        file.extend((headers::SNAPLEN as u32).to_le_bytes());
        file.extend(1u32.to_le_bytes()); // Ethernet
        Captured { link, frames: 0, left_out: 0, file }
    }

    /// A frame has begun to leave; only `most` are kept.
    fn add(&mut self, at: u64, most: u64, frame: impl FnOnce() -> Bytes) {
        if self.frames >= most {
            self.left_out += 1;
            return;
        }
        let frame = frame();
        self.frames += 1;
        let (seconds, rest) = (at / PS_PER_S, at % PS_PER_S);
        for number in [seconds as u32, (rest / 1000) as u32, frame.kept.len() as u32, frame.len as u32] {
            self.file.extend(number.to_le_bytes());
        }
        self.file.extend(&frame.kept);
    }
}

/// The frames of a queue pair: where its messages begin, and the number of the first frame of each.
#[derive(Clone, Debug, Default)]
struct Numbers {
    begins: Vec<(u64, u64)>,
    end: u64,
}

impl Numbers {
    fn post(&mut self, len: u64, segment: u64) {
        let frames = self.frame(self.end, segment);
        self.begins.push((self.end, frames));
        self.end += len;
    }

    /// The number of the frame that begins at a byte.
    fn frame(&self, seq: u64, segment: u64) -> u64 {
        match self.message(seq) {
            0 => seq.div_ceil(segment),
            message => {
                let (begin, first) = self.begins[message - 1];
                first + (seq - begin).div_ceil(segment)
            }
        }
    }

    /// How many messages begin up to a byte.
    fn message(&self, seq: u64) -> usize {
        self.begins.partition_point(|&(begin, _)| begin <= seq)
    }

    /// How many messages end up to a byte.
    fn ended(&self, seq: u64) -> usize {
        if seq >= self.end { self.begins.len() } else { self.message(seq).saturating_sub(1) }
    }

    /// Where the message ends that a byte is part of.
    fn end_of(&self, seq: u64) -> u64 {
        self.begins.get(self.message(seq)).map_or(self.end, |&(begin, _)| begin)
    }

    fn begins_at(&self, seq: u64) -> bool {
        self.begins.binary_search_by_key(&seq, |&(begin, _)| begin).is_ok()
    }
}

/// All that is captured.
#[derive(Clone, Debug)]
pub struct Captures {
    /// By the number of the link.
    pub ports: Vec<Captured>,
    most: u64,
    numbers: Vec<Numbers>,
}

impl Captures {
    /// Those of some ports of a fabric with such links; nothing without ports.
    pub fn new(fabric: &impl Fabric, ports: &[(NodeId, PortId)], links: &mut [Link]) -> Option<Box<Captures>> {
        let mut captured: Vec<u32> =
            ports.iter().map(|&(node, port)| fabric.first_link(node) + u32::from(port.0)).collect();
        captured.sort_unstable();
        captured.dedup();
        captured.iter().for_each(|&link| links[link as usize].capture());
        let most = MOST_FRAMES.checked_div(captured.len() as u64)?;
        Some(Box::new(Captures { ports: captured.into_iter().map(Captured::new).collect(), most, numbers: Vec::new() }))
    }

    /// A queue pair gets a message.
    pub fn post(&mut self, connection: u32, len: u64, segment: u32) {
        let at = connection as usize;
        if self.numbers.len() <= at {
            self.numbers.resize_with(at + 1, Numbers::default);
        }
        self.numbers[at].post(len, segment.into());
    }
}

impl<F: Fabric> Ethernet<F> {
    /// What has begun to leave by a captured port.
    #[cold]
    #[inline(never)]
    pub(super) fn capture(&mut self, now: u64, link: u32) {
        let mut begun = Vec::new();
        self.links[link as usize].begun(&self.store, now, |at, frame| begun.push((at, frame)));
        let Some(mut captures) = self.captures.take() else { return };
        if let Ok(place) = captures.ports.binary_search_by_key(&link, |port| port.link) {
            for (at, frame) in begun {
                let Captures { ports, most, numbers } = &mut *captures;
                ports[place].add(at, *most, || self.bytes(link, frame, numbers));
            }
        }
        self.captures = Some(captures);
    }

    fn bytes(&self, link: u32, frame: Frame, numbers: &[Numbers]) -> Bytes {
        if frame.is(PFC) {
            return headers::pause(self.sender_of(link), frame.seq != 0);
        }
        let at = frame.connection as usize;
        let (src, dst) = (self.connections[at].src.0, self.ends[at].0.0);
        let is_back = Self::is_bare(frame);
        let (from, to) = if is_back { (dst, src) } else { (src, dst) };
        let ecn = match (frame.is(CE), frame.is(ECT)) {
            (true, _) => Ecn::Ce,
            (false, true) => Ecn::Ect,
            (false, false) => Ecn::NotEct,
        };
        let ends = Ends { from, to, connection: frame.connection, is_back, ecn };
        let len = if is_back { 0 } else { u32::from(frame.wire).saturating_sub(self.config.overhead) };
        match self.roce {
            Some(_) => self.roce_bytes(ends, frame, len, numbers.get(at).unwrap_or(&Numbers::default())),
            None => self.tcp_bytes(ends, frame, len),
        }
    }

    fn tcp_bytes(&self, ends: Ends, frame: Frame, len: u32) -> Bytes {
        // Numbers of bytes begin anew after four thousand million of them.
        let number = |byte: u64| (byte as u32).wrapping_add(1);
        let mut blocks = Vec::new();
        if frame.blocks != NONE {
            blocks
                .extend(self.blocks[BlocksId(frame.blocks)].all().iter().map(|&(from, to)| (number(from), number(to))));
        }
        let mut flags = tcp_flags::ACK;
        for (mine, bit) in [(ECE, tcp_flags::ECE), (CWR, tcp_flags::CWR)] {
            flags |= if frame.is(mine) { bit } else { 0 };
        }
        if len > 0 && len < self.config.segment() {
            flags |= tcp_flags::PSH;
        }
        let (seq, ack) = if ends.is_back { (1, number(frame.seq)) } else { (number(frame.seq), 1) };
        headers::tcp(ends, &Tcp { seq, ack, flags, blocks: &blocks, len })
    }

    fn roce_bytes(&self, ends: Ends, frame: Frame, len: u32, numbers: &Numbers) -> Bytes {
        let segment = u64::from(self.config.segment());
        let number = numbers.frame(frame.seq, segment);
        let messages = numbers.ended(frame.seq) as u32;
        let (number, says) = if frame.is(CNP) {
            (0, Roce::Cnp)
        } else if frame.is(NAK) {
            (number, Roce::Nak(messages))
        } else if frame.is(ACK) {
            // The last frame that has arrived in order.
            (number.wrapping_sub(1), Roce::Ack(messages))
        } else {
            let is_last = frame.seq + u64::from(len) == numbers.end_of(frame.seq);
            (number, Roce::Send { is_first: numbers.begins_at(frame.seq), is_last, len })
        };
        headers::roce(ends, number as u32, says)
    }

    /// The node that a link leaves.
    fn sender_of(&self, link: u32) -> u32 {
        let first = |node: u32| self.fabric.first_link(NodeId(node));
        let mut nodes = 0..self.fabric.nodes();
        // The last node whose links begin no later.
        while nodes.len() > 1 {
            let middle = nodes.start + nodes.len() as u32 / 2;
            nodes = if first(middle) <= link { middle..nodes.end } else { nodes.start..middle };
        }
        nodes.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_numbered_message_by_message() {
        let mut numbers = Numbers::default();
        [250, 100, 1].into_iter().for_each(|len| numbers.post(len, 100));
        let frames = [0, 100, 200, 250, 350].map(|seq| numbers.frame(seq, 100));
        assert_eq!(frames, [0, 1, 2, 3, 4]);
        assert_eq!(numbers.frame(351, 100), 5);
        assert_eq!([0, 249, 250, 350, 351].map(|seq| numbers.ended(seq)), [0, 0, 1, 2, 3]);
        assert_eq!((numbers.end_of(200), numbers.end_of(350)), (250, 351));
        assert_eq!([0, 100, 250].map(|seq| numbers.begins_at(seq)), [true, false, true]);
    }

    #[test]
    fn a_full_file_counts_what_it_leaves_out() {
        let mut port = Captured::new(0);
        let frame = || headers::pause(3, true);
        (0..5).for_each(|n| port.add(n * 1500 + PS_PER_S, 3, frame));
        assert_eq!((port.frames, port.left_out, port.file.len()), (3, 2, 24 + 3 * (16 + 60)));
        // Seconds, nanoseconds that are rounded down, what is kept and what there was.
        let record: Vec<u32> =
            port.file[24 + 2 * 76..][..16].chunks(4).map(|n| u32::from_le_bytes([n[0], n[1], n[2], n[3]])).collect();
        assert_eq!(record, [1, 3, 60, 60]);
    }

    #[test]
    fn files_have_the_header_of_their_format() {
        let file = Captured::new(0).file;
        assert_eq!(file.len(), 24);
        assert_eq!(file[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
    }
}
