//! What the links of a fabric carried, collected alike by every backend.

use crate::busy::Busy;
use crate::spans::{Span, Spans};
use syncline_core::{Bytes, NodeId, PortId, Ps, Resolution, Windows};
use syncline_topology::{Fabric, all_links};

/// Bytes and busy time per link, and busy time per link class in windows.
#[derive(Clone, Debug)]
pub struct LinkUsage {
    classes: Vec<u8>,
    bytes: Vec<u64>,
    busy: Vec<u64>,
    windows: Vec<Windows>,
    packet_hops: u64,
    spans: Option<Box<Spans>>,
}

impl LinkUsage {
    /// Usage of all links of `fabric`, with the busy time of each class in windows of `window`.
    pub fn new(fabric: &impl Fabric, window: impl Into<Resolution>) -> LinkUsage {
        let links = fabric.links() as usize;
        let class = |(node, port): (NodeId, PortId)| fabric.link(node, port).class;
        LinkUsage {
            classes: all_links(fabric).map(class).collect(),
            bytes: vec![0; links],
            busy: vec![0; links],
            windows: vec![Windows::new(window); fabric.class_names().len()],
            packet_hops: 0,
            spans: None,
        }
    }

    /// From now on notes when these links are busy, in at most `limit` spans.
    pub fn record(&mut self, links: &[u32], limit: usize) {
        self.spans = Some(Box::new(Spans::new(self.links(), links, limit)));
    }

    /// When the links that were asked for were busy, link by link in the order of time.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.as_ref().map_or_else(Vec::new, |spans| spans.in_order())
    }

    /// A link, by its number, was busy from `from` to `to` with `packets` packets of together `len` bytes.
    #[inline]
    pub fn add(&mut self, link: u32, len: Bytes, packets: u64, from: Ps, to: Ps) {
        if let Some(spans) = &mut self.spans {
            spans.add(link, from, to, to - from);
        }
        let link = link as usize;
        self.bytes[link] += len.0;
        self.busy[link] = self.busy[link].saturating_add((to - from).0);
        self.packet_hops += packets;
        self.windows[usize::from(self.classes[link])].add(from, to);
    }

    /// A link was busy with frames from when the first one began to leave until `to`.
    pub(crate) fn add_frames(&mut self, link: u32, busy: Busy, to: u64) {
        self.add(link, Bytes(busy.bytes), busy.frames, Ps(busy.from), Ps(to.max(busy.from)));
    }

    /// The same of a link that is busy until `to`, where the run ends at `end`: what would leave after that has not been
    /// carried.
    pub(crate) fn add_frames_until(&mut self, link: u32, busy: Busy, to: u64, end: Ps) {
        self.add_frames(link, busy, to.min(end.0));
        let late = to.saturating_sub(end.0.max(busy.from));
        if late > 0 {
            self.take_back(link, share(Bytes(busy.bytes), late, to - busy.from));
        }
    }

    /// A link will carry a message of `len` bytes; [`LinkUsage::add_busy`] says when.
    #[inline]
    pub fn add_message(&mut self, link: u32, len: Bytes) {
        self.bytes[link as usize] += len.0;
        self.packet_hops += 1;
    }

    /// So much of what [`LinkUsage::add_message`] was told of has not been carried.
    pub(crate) fn take_back(&mut self, link: u32, len: Bytes) {
        self.bytes[link as usize] -= len.0;
    }

    /// The run ends at `end`: of what [`LinkUsage::add`] was told of, `len` bytes from `from` to `to`, the rest has not
    /// been carried. Bytes leave evenly.
    pub(crate) fn cut(&mut self, link: u32, len: Bytes, from: Ps, to: Ps, end: Ps) {
        let late = to.0.saturating_sub(end.max(from).0);
        if late > 0 {
            self.take_back(link, share(len, late, (to - from).0));
            let busy = &mut self.busy[link as usize];
            *busy = busy.saturating_sub(late);
        }
    }

    /// A link was busy for `busy` of the time from `from` to `to`, evenly.
    #[inline]
    pub fn add_busy(&mut self, link: u32, from: Ps, to: Ps, busy: Ps) {
        if let Some(spans) = &mut self.spans {
            spans.add(link, from, to, busy);
        }
        let link = link as usize;
        self.busy[link] = self.busy[link].saturating_add(busy.0);
        self.windows[usize::from(self.classes[link])].add_spread(from, to, busy);
    }

    /// Adds what the same links carried beside that.
    pub fn join(&mut self, other: &LinkUsage) {
        self.bytes.iter_mut().zip(&other.bytes).for_each(|(mine, others)| *mine += others);
        self.busy.iter_mut().zip(&other.busy).for_each(|(mine, others)| *mine = mine.saturating_add(*others));
        self.windows.iter_mut().zip(&other.windows).for_each(|(mine, others)| mine.join(others));
        self.packet_hops += other.packet_hops;
        if let (Some(mine), Some(others)) = (&mut self.spans, &other.spans) {
            mine.join(others);
        }
    }

    /// Links that are counted.
    pub fn links(&self) -> u32 {
        self.busy.len() as u32
    }

    /// Bytes that a link carried.
    pub fn bytes(&self, link: u32) -> Bytes {
        Bytes(self.bytes[link as usize])
    }

    /// Time that a link was busy; saturates where a backend lets it carry more than it can.
    pub fn busy(&self, link: u32) -> Ps {
        Ps(self.busy[link as usize])
    }

    /// The class of a link.
    pub fn class(&self, link: u32) -> u8 {
        self.classes[link as usize]
    }

    /// Bytes that all links carried.
    pub fn total_bytes(&self) -> u128 {
        self.bytes.iter().map(|&bytes| u128::from(bytes)).sum()
    }

    /// Packets times links (messages times links for a backend without packets).
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    /// Busy time per window of all links of each class.
    pub fn windows(&self) -> &[Windows] {
        &self.windows
    }
}

/// `part / whole` of `len`, rounded down.
fn share(len: Bytes, part: u64, whole: u64) -> Bytes {
    Bytes((u128::from(len.0) * u128::from(part) / u128::from(whole)) as u64)
}
