//! The messages of connections: where each ends in the bytes of its connection, in order.

use crate::api::Message;
use syncline_core::{Slab, id_type};

id_type!(
    /// A message that has not arrived.
    WriteId
);

/// A message as a part of the bytes of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// The message.
    pub message: Message,
    /// The byte after its last one.
    pub end: u64,
    /// When it was written.
    pub at: u64,
    next: Option<WriteId>,
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
    pub fn append(&mut self, writes: &mut Writes, message: Message, end: u64, at: u64) {
        let id = self.0.insert(Write { message, end, at, next: None });
        if let Some(last) = writes.last {
            self.0[last].next = Some(id);
        }
        writes.last = Some(id);
        writes.first.get_or_insert(id);
        writes.unsent.get_or_insert(id);
    }

    /// Where the next message to arrive ends.
    pub fn next_end(&self, writes: &Writes) -> u64 {
        writes.first.map_or(NO_END, |id| self.0[id].end)
    }

    /// The payload of the next message to arrive.
    pub fn len_of(&self, writes: &Writes) -> Option<u64> {
        writes.first.map(|id| self.0[id].message.len.0)
    }

    /// How many messages have not left.
    pub fn staying(&self, writes: &Writes) -> usize {
        std::iter::successors(writes.unsent, |&id| self.0[id].next).count()
    }

    /// Where the next message to leave ends.
    pub fn next_to_leave(&self, writes: &Writes) -> u64 {
        writes.unsent.map_or(NO_END, |id| self.0[id].end)
    }

    /// The next message leaves.
    pub fn leave(&mut self, writes: &mut Writes) -> Option<Message> {
        let write = self.0[writes.unsent?];
        writes.unsent = write.next;
        Some(write.message)
    }

    /// The next message has arrived, and has left before. Returns when it was written, too.
    pub fn arrive(&mut self, writes: &mut Writes) -> Option<(Message, u64)> {
        let id = writes.first?;
        let Write { message, next, at, .. } = self.0[id];
        self.0.remove(id);
        writes.first = next;
        if next.is_none() {
            writes.last = None;
        }
        Some((message, at))
    }

    /// None of the messages of a connection will arrive any more. Returns those that have not.
    pub fn give_up(&mut self, writes: &mut Writes) -> Vec<Message> {
        let mut lost = Vec::new();
        let mut next = writes.first;
        while let Some(id) = next {
            lost.push(self.0[id].message);
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
