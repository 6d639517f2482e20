//! The messages under way.

use crate::api::{Delivery, Message, MsgId};
use syncline_core::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unused,
    /// More bytes are to be fed.
    Open,
    /// All bytes are in the network.
    Fed,
}

/// A message and how much of it the network has got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub message: Message,
    /// Where its path begins in the table of paths; `None` when it stays on its node.
    pub path: Option<u32>,
    pub fed: u64,
    state: State,
}

impl Flight {
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
}

/// The table of messages.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    flights: Vec<Flight>,
    unused: Vec<MsgId>,
    packet: u64,
}

impl Messages {
    /// A table of messages that travel in packets of `packet` bytes.
    pub fn new(packet: Bytes) -> Messages {
        Messages { flights: Vec::new(), unused: Vec::new(), packet: packet.0 }
    }

    pub fn add(&mut self, message: Message, path: Option<u32>) -> MsgId {
        let flight = Flight { message, path, fed: 0, state: State::Open };
        match self.unused.pop() {
            Some(id) => {
                self.flights[id.index()] = flight;
                id
            }
            None => {
                self.flights.push(flight);
                MsgId(self.flights.len() as u32 - 1)
            }
        }
    }

    #[inline(always)]
    pub fn get(&self, id: MsgId) -> &Flight {
        &self.flights[id.index()]
    }

    /// The network has got `len` more bytes; says whether these were the last.
    pub fn feed(&mut self, id: MsgId, len: Bytes) -> bool {
        let flight = &mut self.flights[id.index()];
        assert!(flight.state == State::Open, "fed a message that has all its bytes");
        flight.fed += len.0;
        assert!(flight.fed <= flight.message.len.0, "fed more than the message holds");
        let complete = flight.fed == flight.message.len.0;
        if complete {
            flight.state = State::Fed;
        }
        complete
    }

    /// The message has arrived.
    pub fn remove(&mut self, id: MsgId) {
        self.flights[id.index()].state = State::Unused;
        self.unused.push(id);
    }

    /// Messages that lack bytes from their sender.
    pub fn hungry(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().filter(|f| f.state == State::Open)
    }

    /// Bytes of the last packet of a message.
    pub fn tail_len(&self, id: MsgId) -> u64 {
        match self.get(id).message.len.0 {
            0 => 0,
            len => (len - 1) % self.packet + 1,
        }
    }
}
