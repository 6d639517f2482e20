//! Which message goes next where many chunks have one for the same place.
//!
//! Served in the order in which they come, the messages of all chunks in flight take turns: every chunk ends its phase
//! along a dimension about when the last one does, and the ports of the next dimension stand idle until then. So where
//! chunks have orders of dimensions of their own, a connection has one message at a time in the network, and of those that
//! wait the shortest goes next (Themis: Rashidi et al., ISCA 2022, smallest chunk first): a chunk that has become short in
//! one dimension is what another one waits for. Only of the `urgent` oldest chunks, though: if all short messages of a
//! collective went first, each port would have nothing but long ones left at a time of its own, and stand idle while others
//! still have the short ones for it. What newer chunks have goes, by age, when those have nothing.
//!
//! Every message goes in the end, whatever other NPUs choose, so the order cannot deadlock.

use crate::api::ChunkId;
use std::collections::BTreeMap;
use syncline_network::{Connection, Message};

/// What a node has to send on one connection.
#[derive(Clone, Debug, Default)]
struct ConnectionQueue {
    /// Whether one of its messages has not left, and the receipt that the sender of that wants.
    busy: bool,
    receipt: Option<u64>,
    /// Messages that wait: of urgent chunks by length, chunk and arrival, of others by chunk and arrival.
    urgent: BTreeMap<(u64, ChunkId, u64), Message>,
    others: BTreeMap<(ChunkId, u64), Message>,
    arrived: u64,
}

/// The messages of all NPUs that wait for those before them on their connection.
#[derive(Clone, Debug)]
pub(super) struct Departures {
    /// Chunks of an NPU whose messages go by length, counted from its oldest unfinished one.
    urgent: u32,
    numbers: BTreeMap<Connection, u64>,
    queues: Vec<ConnectionQueue>,
}

impl Departures {
    /// Tells a queue's number from the receipts of threads, which leave this bit clear.
    const MARK: u64 = 1 << 63;

    pub fn new(urgent: u32) -> Departures {
        Departures { urgent, numbers: BTreeMap::new(), queues: Vec::new() }
    }

    /// Whether a receipt is for [`Departures::left`].
    pub fn is_of_queue(receipt: u64) -> bool {
        receipt & Self::MARK != 0
    }

    /// A message of chunk `seq` is ready, at an NPU whose oldest unfinished chunk is `oldest`. Returns what goes to the
    /// network now, if its connection is free.
    pub fn ready(&mut self, message: Message, seq: ChunkId, oldest: ChunkId) -> Option<Message> {
        let number = *self.numbers.entry(message.connection()).or_insert(self.queues.len() as u64);
        if number == self.queues.len() as u64 {
            self.queues.push(ConnectionQueue::default());
        }
        let queue = &mut self.queues[number as usize];
        queue.others.insert((seq, queue.arrived), message);
        queue.arrived += 1;
        if queue.busy { None } else { self.next(number, oldest) }
    }

    /// The message of a queue has left. Returns the receipt that its sender wants, and what goes next.
    pub fn left(&mut self, receipt: u64, oldest: ChunkId) -> (Option<u64>, Option<Message>) {
        let number = receipt & !Self::MARK;
        let queue = &mut self.queues[number as usize];
        queue.busy = false;
        (queue.receipt.take(), self.next(number, oldest))
    }

    /// What goes next on a queue that is free.
    fn next(&mut self, number: u64, oldest: ChunkId) -> Option<Message> {
        let queue = &mut self.queues[number as usize];
        while let Some(other) = queue
            .others
            .first_entry()
            .filter(|other| other.key().0.place_from(oldest).unwrap_or(0) < self.urgent as usize)
        {
            // A chunk may be done at an NPU that has not sent all of it.
            let ((seq, arrived), message) = other.remove_entry();
            queue.urgent.insert((message.len.0, seq, arrived), message);
        }
        let first = queue.urgent.pop_first().map(|(_, message)| message);
        let message = first.or_else(|| queue.others.pop_first().map(|(_, message)| message))?;
        (queue.busy, queue.receipt) = (true, message.receipt);
        Some(Message { receipt: Some(Self::MARK | number), ..message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_core::{Bytes, NodeId, PortId};
    use syncline_network::{Delivery, Route, TrafficClass};

    fn message(port: u16, len: u64, receipt: Option<u64>) -> Message {
        let route = Route::Port(PortId(port));
        Message {
            src: NodeId(0),
            route,
            queue: 0,
            len: Bytes(len),
            class: TrafficClass::default(),
            delivery: Delivery::Whole,
            tag: len,
            receipt,
        }
    }

    #[test]
    fn the_shortest_of_the_oldest_chunks_goes_next() {
        let mut departures = Departures::new(4);
        let first = departures.ready(message(0, 50, Some(7)), ChunkId(0), ChunkId(0)).expect("the port is free");
        for (seq, len) in [(1, 40), (2, 30), (3, 30), (4, 10)] {
            assert_eq!(departures.ready(message(0, len, None), ChunkId(seq), ChunkId(0)), None);
        }
        let mut receipt = first.receipt.expect("queues want to know");
        assert!(Departures::is_of_queue(receipt));
        let mut order = Vec::new();
        for oldest in [0, 0, 1, 1] {
            let (theirs, next) = departures.left(receipt, ChunkId(oldest));
            assert_eq!(theirs, order.is_empty().then_some(7));
            let next = next.expect("four wait");
            order.push(next.tag);
            receipt = next.receipt.expect("queues want to know");
        }
        // With chunk 0 done, chunk 4 is among the four oldest and overtakes chunk 1.
        assert_eq!(order, [30, 30, 10, 40]);
        assert_eq!(departures.left(receipt, ChunkId(5)), (None, None));
        assert!(departures.ready(message(0, 1, None), ChunkId(6), ChunkId(5)).is_some());
    }

    #[test]
    fn places_do_not_wait_for_one_another_and_newer_chunks_go_where_older_ones_have_nothing() {
        let mut departures = Departures::new(1);
        let first = departures.ready(message(0, 5, None), ChunkId(9), ChunkId(0)).expect("nothing else is there");
        assert!(departures.ready(message(1, 5, None), ChunkId(9), ChunkId(0)).is_some());
        assert_eq!(departures.ready(message(0, 1, None), ChunkId(11), ChunkId(0)), None);
        assert_eq!(departures.ready(message(0, 2, None), ChunkId(10), ChunkId(0)), None);
        let (_, next) = departures.left(first.receipt.expect("queues want to know"), ChunkId(0));
        assert_eq!(next.map(|m| m.tag), Some(2));
    }
}
