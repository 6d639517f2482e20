//! The messages of connections: where each ends in the bytes of its connection, in order.

use crate::api::Message;
use syncline_core::{Bytes, Slab, id_type};

id_type!(
    /// A message that has not arrived.
    WriteId
);

/// A message as a part of the bytes of a connection. There may be millions, and what comes next was last touched long ago, so
/// that each is one line of a processor's cache, and tells where the one after it ends.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Write {
    /// Its length, without the byte that an empty message is in the connection.
    pub len: Bytes,
    /// When it was written.
    pub at: u64,
    /// What is reported on its arrival.
    pub tag: u64,
    /// What its sender wants to hear when it has left.
    pub receipt: Option<u64>,
    next: Option<WriteId>,
    /// The byte after the last one of that.
    next_end: u64,
}

/// The messages of a connection that have not arrived, or not left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writes {
    /// The next one to arrive.
    first: Option<WriteId>,
    last: Option<WriteId>,
    /// The next one to leave.
    unsent: Option<WriteId>,
}

/// All messages.
#[derive(Clone, Debug, Default)]
pub struct AllWrites(Slab<WriteId, Write>);

/// Later than all bytes.
pub const NO_END: u64 = u64::MAX;

impl AllWrites {
    /// A connection gets a message that ends at `end`.
    pub fn append(&mut self, writes: &mut Writes, message: &Message, end: u64, at: u64) {
        let Message { len, tag, receipt, .. } = *message;
        let id = self.0.insert(Write { len, at, tag, receipt, next: None, next_end: NO_END });
        if let Some(last) = writes.last {
            let last = &mut self.0[last];
            (last.next, last.next_end) = (Some(id), end);
        }
        writes.last = Some(id);
        writes.first.get_or_insert(id);
        writes.unsent.get_or_insert(id);
    }

    /// Whether all messages have arrived.
    pub fn is_empty(writes: &Writes) -> bool {
        writes.first.is_none()
    }

    /// How many messages have not left.
    pub fn staying(&self, writes: &Writes) -> usize {
        std::iter::successors(writes.unsent, |&id| self.0[id].next).count()
    }

    /// The next message leaves. Says where the one after it ends, too.
    pub fn leave(&mut self, writes: &mut Writes) -> Option<(Write, u64)> {
        let write = self.0[writes.unsent?];
        writes.unsent = write.next;
        Some((write, write.next_end))
    }

    /// The next message has arrived, and has left before. Says where the one after it ends, too.
    pub fn arrive(&mut self, writes: &mut Writes) -> Option<(Write, u64)> {
        let id = writes.first?;
        let write = self.0[id];
        self.0.remove(id);
        writes.first = write.next;
        if write.next.is_none() {
            writes.last = None;
        }
        Some((write, write.next_end))
    }

    /// None of the messages of a connection will arrive any more. Returns those that have not.
    pub fn give_up(&mut self, writes: &mut Writes) -> Vec<Write> {
        let lost: Vec<Write> = self.waiting(writes).copied().collect();
        let mut next = writes.first;
        while let Some(id) = next {
            next = self.0[id].next;
            self.0.remove(id);
        }
        *writes = Writes::default();
        lost
    }

    /// The messages of a connection that have not arrived.
    pub fn waiting<'a>(&'a self, writes: &Writes) -> impl Iterator<Item = &'a Write> {
        std::iter::successors(writes.first, |&id| self.0[id].next).map(|id| &self.0[id])
    }
}
