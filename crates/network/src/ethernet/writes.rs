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
    /// How many have not left.
    pub left_behind: u32,
}

/// All messages.
#[derive(Clone, Debug, Default)]
pub struct AllWrites(Slab<WriteId, Write>);

/// Later than all bytes.
pub const NO_END: u64 = u64::MAX;

impl AllWrites {
    /// A connection gets a message that ends at `end`.
    pub fn append(&mut self, writes: &mut Writes, message: Message, end: u64) {
        let id = self.0.insert(Write { message, end, next: None });
        if let Some(last) = writes.last {
            self.0[last].next = Some(id);
        }
        writes.last = Some(id);
        writes.first.get_or_insert(id);
        writes.unsent.get_or_insert(id);
        writes.left_behind += 1;
    }

    /// Where the next message to arrive ends.
    pub fn next_end(&self, writes: &Writes) -> u64 {
        writes.first.map_or(NO_END, |id| self.0[id].end)
    }

    /// Where the next message to leave ends.
    pub fn next_to_leave(&self, writes: &Writes) -> u64 {
        writes.unsent.map_or(NO_END, |id| self.0[id].end)
    }

    /// The next message leaves.
    pub fn leave(&mut self, writes: &mut Writes) -> Option<Message> {
        let write = self.0[writes.unsent?];
        writes.unsent = write.next;
        writes.left_behind -= 1;
        Some(write.message)
    }

    /// The next message has arrived, and has left before.
    pub fn arrive(&mut self, writes: &mut Writes) -> Option<Message> {
        let id = writes.first?;
        let Write { message, next, .. } = self.0[id];
        self.0.remove(id);
        writes.first = next;
        if next.is_none() {
            writes.last = None;
        }
        Some(message)
    }

    /// The messages of a connection that have not arrived.
    pub fn waiting<'a>(&'a self, writes: &Writes) -> impl Iterator<Item = &'a Write> {
        std::iter::successors(writes.first, |&id| self.0[id].next).map(|id| &self.0[id])
    }
}
