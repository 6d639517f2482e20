//! The messages under way: what their senders have fed, and what a backend knows of each.

use crate::api::{Delivery, Message, MsgId};
use std::ops::{Index, IndexMut};
use syncline_core::{Bytes, Slab};

/// A message, and how much of it the network has got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight<T> {
    pub message: Message,
    /// What the backend knows of its way.
    pub way: T,
    fed: Bytes,
    /// Whether its sender has more to feed.
    open: bool,
}

impl<T> InFlight<T> {
    /// Whether its destination hears of it when it is complete, rather than segment by segment.
    #[inline(always)]
    pub fn is_whole(&self) -> bool {
        self.message.delivery == Delivery::Whole
    }

    /// Whether the network frees its slots at the destination.
    #[inline(always)]
    pub fn is_stored(&self) -> bool {
        matches!(self.message.delivery, Delivery::Whole | Delivery::Stored)
    }

    /// What the network has got of it.
    pub fn fed(&self) -> Bytes {
        self.fed
    }
}

/// All messages from when they are opened until they have arrived.
#[derive(Clone, Debug)]
pub(crate) struct Messages<T>(Slab<MsgId, InFlight<T>>);

impl<T> Messages<T> {
    /// None yet.
    pub fn new() -> Messages<T> {
        Messages(Slab::new())
    }

    /// A message is opened.
    #[inline(always)]
    pub fn add(&mut self, message: Message, way: T) -> MsgId {
        self.0.insert(InFlight { message, way, fed: Bytes::ZERO, open: true })
    }

    /// A message whose bytes are all there.
    #[inline(always)]
    pub fn add_complete(&mut self, message: Message, way: T) -> MsgId {
        self.0.insert(InFlight { message, way, fed: message.len, open: false })
    }

    /// The network has got `len` more bytes; says whether these were the last.
    ///
    /// # Panics
    /// If the message has all its bytes already, or does not hold so many.
    #[inline]
    pub fn feed(&mut self, id: MsgId, len: Bytes) -> bool {
        let flight = &mut self.0[id];
        assert!(flight.open, "fed a message that has all its bytes");
        flight.fed += len;
        assert!(flight.fed <= flight.message.len, "fed more than the message holds");
        flight.open = flight.fed < flight.message.len;
        !flight.open
    }

    /// The message has arrived. It can be read until the next one is opened.
    #[inline]
    pub fn remove(&mut self, id: MsgId) {
        self.0.remove(id);
    }

    /// Messages that have all their bytes and have not arrived.
    pub fn fed(&self) -> impl Iterator<Item = &InFlight<T>> {
        self.0.iter().filter(|flight| !flight.open)
    }

    /// Messages that lack bytes from their sender.
    pub fn unfed(&self) -> impl Iterator<Item = &InFlight<T>> {
        self.0.iter().filter(|flight| flight.open)
    }
}

impl<T> Index<MsgId> for Messages<T> {
    type Output = InFlight<T>;
    #[inline(always)]
    fn index(&self, id: MsgId) -> &InFlight<T> {
        &self.0[id]
    }
}

impl<T> IndexMut<MsgId> for Messages<T> {
    #[inline(always)]
    fn index_mut(&mut self, id: MsgId) -> &mut InFlight<T> {
        &mut self.0[id]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Route, TrafficClass};
    use syncline_core::NodeId;

    fn opened(len: u64) -> (Messages<()>, MsgId) {
        let mut messages = Messages::new();
        let route = Route::To(NodeId(1));
        let (len, delivery) = (Bytes(len), Delivery::Whole);
        let message = Message {
            src: NodeId(0),
            route,
            queue: 0,
            len,
            class: TrafficClass::default(),
            delivery,
            tag: 0,
            receipt: None,
        };
        let id = messages.add(message, ());
        (messages, id)
    }

    #[test]
    fn a_message_is_unfed_until_its_last_byte() {
        let (mut messages, id) = opened(5);
        assert!(!messages.feed(id, Bytes(3)));
        assert_eq!(messages.unfed().map(InFlight::fed).collect::<Vec<_>>(), [Bytes(3)]);
        assert!(messages.feed(id, Bytes(2)));
        assert_eq!(messages.unfed().count(), 0);
    }

    #[test]
    fn an_empty_message_is_fed_once() {
        let (mut messages, id) = opened(0);
        assert_eq!(messages.unfed().count(), 1);
        assert!(messages.feed(id, Bytes::ZERO));
    }

    #[test]
    fn what_has_arrived_lacks_nothing() {
        let (mut messages, id) = opened(5);
        messages.remove(id);
        assert_eq!(messages.unfed().count(), 0);
    }

    #[test]
    #[should_panic(expected = "fed more than the message holds")]
    fn a_message_holds_no_more_than_its_length() {
        let (mut messages, id) = opened(5);
        messages.feed(id, Bytes(6));
    }

    #[test]
    #[should_panic(expected = "fed a message that has all its bytes")]
    fn a_message_ends_once() {
        let (mut messages, id) = opened(0);
        messages.feed(id, Bytes::ZERO);
        messages.feed(id, Bytes::ZERO);
    }
}
