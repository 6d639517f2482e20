//! The messages of connections: where each ends in the bytes of its connection, in order.
//!
//! There may be millions under way, and each was last touched long before it arrives. So a message is one line of a processor's
//! cache, tells where the one after it ends, and can be fetched from memory when its arrival is near.

use crate::api::Message;
use syncline_core::{Bytes, Slab, id_type};

id_type!(
    /// A message that has not arrived.
    WriteId
);

/// A message as a part of the bytes of a connection.
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
    /// The byte after the last one of the next message of the connection, or [`NO_END`].
    pub next_end: u64,
    /// That message, or [`NONE`].
    next: WriteId,
}

/// The messages of a connection that have not arrived, or not left; [`NONE`] where there are none. It is a part of every
/// connection, so that it has no room for `Option`s.
#[derive(Clone, Copy, Debug)]
pub struct Writes {
    /// The next one to arrive.
    first: WriteId,
    last: WriteId,
    /// The next one to leave.
    unsent: WriteId,
}

/// All messages.
#[derive(Clone, Debug, Default)]
pub struct AllWrites(Slab<WriteId, Write>);

/// No message.
const NONE: WriteId = WriteId(u32::MAX);

/// Later than all bytes.
pub const NO_END: u64 = u64::MAX;

impl Writes {
    /// Of a connection that has no messages.
    pub const NOTHING: Writes = Writes { first: NONE, last: NONE, unsent: NONE };

    /// Whether all messages have arrived.
    pub fn have_arrived(&self) -> bool {
        self.first == NONE
    }
}

impl AllWrites {
    /// A connection gets a message that ends at `end`.
    pub fn append(&mut self, writes: &mut Writes, message: &Message, end: u64, at: u64) {
        let Message { len, tag, receipt, .. } = *message;
        let id = self.0.insert(Write { len, at, tag, receipt, next_end: NO_END, next: NONE });
        if writes.last == NONE {
            writes.first = id;
        } else {
            let last = &mut self.0[writes.last];
            (last.next, last.next_end) = (id, end);
        }
        writes.last = id;
        if writes.unsent == NONE {
            writes.unsent = id;
        }
    }

    /// The next message will soon arrive.
    #[inline(always)]
    pub fn expect(&self, writes: &Writes) {
        self.0.expect(writes.first);
    }

    fn get(&self, id: WriteId) -> Option<&Write> {
        (id != NONE).then(|| &self.0[id])
    }

    /// How many messages have not left.
    pub fn staying(&self, writes: &Writes) -> usize {
        self.all_from(writes.unsent).count()
    }

    /// The next message leaves.
    pub fn leave(&mut self, writes: &mut Writes) -> Option<Write> {
        let write = *self.get(writes.unsent)?;
        writes.unsent = write.next;
        Some(write)
    }

    /// The next message has arrived, and has left before.
    pub fn arrive(&mut self, writes: &mut Writes) -> Option<Write> {
        let write = *self.get(writes.first)?;
        self.0.remove(writes.first);
        writes.first = write.next;
        if write.next == NONE {
            writes.last = NONE;
        }
        Some(write)
    }

    /// None of the messages of a connection will arrive any more. Returns those that have not.
    pub fn give_up(&mut self, writes: &mut Writes) -> Vec<Write> {
        writes.unsent = NONE;
        std::iter::from_fn(|| self.arrive(writes)).collect()
    }

    /// The messages of a connection that have not arrived.
    pub fn waiting<'a>(&'a self, writes: &Writes) -> impl Iterator<Item = &'a Write> {
        self.all_from(writes.first)
    }

    fn all_from(&self, first: WriteId) -> impl Iterator<Item = &Write> {
        std::iter::successors(self.get(first), |write| self.get(write.next))
    }
}
