//! The backend's part for what NICs read and write, where links within machines are fluid: no event for each frame.
//!
//! A NIC reads the bytes of a connection from its GPU, and writes those that arrive to the GPU, over links such as PCIe's, which
//! have no losses and no transport here. When bytes cross them depends on nothing but what crosses them before. So it is worked
//! out at once, link by link: each takes what comes in turn, at its rate ([`super::link::Link::pass`]), as links that are
//! served frame by frame do. What differs is the order where ways of different length meet at a link, by the time that bytes
//! take to get there, and that connections of a GPU do not take turns frame by frame: each reads ahead by so much as hides the way
//! to the NIC. Frames between NICs are what they always are, and leave when their bytes are there.

use super::connection::Transport;
use super::frame::NONE;
use super::{Ethernet, Timer};
use std::cmp::Reverse;
use std::collections::VecDeque;
use syncline_topology::Fabric;

/// What a connection reads ahead of what its NIC sends: some round trips between a NIC and its GPU.
const READ_AHEAD: u64 = 1 << 16;

/// What is on its way between NICs and GPUs.
#[derive(Clone, Debug, Default)]
pub struct Passing {
    /// By connection between NICs: when bytes are at its NIC, and how many.
    reads: Vec<VecDeque<(u64, u64)>>,
    /// By connection from a NIC to its GPU: how many bytes of it will have arrived at the next times at which a message may be
    /// complete.
    writes: Vec<VecDeque<u64>>,
}

impl Passing {
    /// Room for so many connections.
    pub fn reach(&mut self, connections: usize) {
        self.reads.resize_with(connections, VecDeque::new);
        self.writes.resize_with(connections, VecDeque::new);
    }
}

impl<F: Fabric> Ethernet<F> {
    /// Whether bytes of a connection cross links of a machine without events of their own.
    #[inline(always)]
    pub(super) fn passes(&self, number: u32) -> bool {
        let stage = self.stages[number as usize];
        self.passing.is_some() && stage.is_local && stage.is_part()
    }

    /// A connection reads for its NIC what it may. Whether that is anything.
    pub(super) fn read(&mut self, now: u64, number: u32) -> bool {
        let after = self.stages[number as usize].after;
        let next = &self.lines[after as usize];
        let sent = match &next.transport {
            Transport::Roce(queue_pair) => queue_pair.sent,
            Transport::Tcp(sender) => sender.nxt,
        };
        let most = next.una().saturating_add(self.read_ahead()).min(sent + READ_AHEAD);
        let segment = u64::from(self.config.segment());
        let before = self.lines[number as usize].sender().nxt;
        loop {
            let sender = self.lines[number as usize].sender();
            let len = (sender.written - sender.nxt).min(segment);
            if len == 0 || sender.nxt + len > most {
                break;
            }
            sender.nxt += len;
            let time = self.pass(now, number, len);
            if let Some(passing) = &mut self.passing {
                passing.reads[after as usize].push_back((time, len));
            }
        }
        let has_read = self.lines[number as usize].sender().nxt > before;
        if has_read {
            self.settle(now, number);
        }
        has_read
    }

    /// Bytes cross the links of a connection, from now on. Returns when they are at its end.
    fn pass(&mut self, now: u64, number: u32, len: u64) -> u64 {
        let mut time = now;
        let path = self.lines[number as usize].forth;
        for link in self.paths.all(path) {
            if let Some(apart) = &mut self.apart {
                apart.cross(now, path.first, link);
            }
            let usage = &mut self.usage;
            let report = |busy, to| usage.add_frames(link, busy, to);
            time = self.links[link as usize].pass(time, len as u16, report);
        }
        time
    }

    /// The bytes that have been read by now are there for a connection between NICs to send.
    pub(super) fn take_reads(&mut self, now: u64, number: u32) {
        let Some(passing) = &mut self.passing else { return };
        let reads = &mut passing.reads[number as usize];
        let mut len = 0;
        while let Some(&(time, more)) = reads.front()
            && time <= now
        {
            len += more;
            reads.pop_front();
        }
        if len > 0 {
            self.write(now, number, len);
        }
    }

    /// When the next bytes have been read.
    pub(super) fn next_read(&self, number: u32) -> Option<u64> {
        Some(self.passing.as_ref()?.reads[number as usize].front()?.0)
    }

    /// After a frame of a connection has left its NIC, more is read.
    #[inline]
    pub(super) fn read_on(&mut self, now: u64, number: u32) {
        let before = self.stages[number as usize].before;
        if before != NONE && self.passing.is_some() {
            self.read(now, before);
        }
    }

    /// Bytes have arrived at a NIC and go on to its GPU.
    pub(super) fn write_through(&mut self, now: u64, number: u32, mut len: u64) {
        let segment = u64::from(self.config.segment());
        let mut time = now;
        while len > 0 {
            let piece = len.min(segment);
            time = self.pass(now, number, piece);
            len -= piece;
            let sender = self.lines[number as usize].sender();
            sender.written += piece;
            sender.nxt += piece;
        }
        let there = self.lines[number as usize].sender().nxt;
        if there >= self.listeners[number as usize].boundary
            && let Some(passing) = &mut self.passing
        {
            passing.writes[number as usize].push_back(there);
            self.timers.push(Reverse((time, number, Timer::Written)));
        }
    }

    /// Bytes are at a GPU, and a message may be complete with them.
    pub(super) fn written(&mut self, now: u64, number: u32) {
        let there = self.passing.as_mut().and_then(|passing| passing.writes[number as usize].pop_front());
        self.listeners[number as usize].receiver.next = there.expect("its timer was set when it was sent");
        self.complete(now, number);
    }
}
