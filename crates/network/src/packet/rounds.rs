//! Whose turn it is at an output of a switch: connections take turns, packet by packet.
//!
//! *Start-time fair queueing* (Goyal, Vin and Cheng 1997) with packets for units: a packet's number is the round in
//! which it is served, which is the current one, or the one after that of the packet before it on its connection. Those
//! of a round are served in the order in which they came. Each precedence has rounds of its own.

use crate::api::{Connection, TrafficClass};
use std::collections::BTreeMap;

/// The rounds of an output.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    /// By precedence, that of the packet that was served last.
    current: [u64; TrafficClass::PRECEDENCES as usize],
    /// Per connection, its precedence, and the next one that it has not had. Those that are over say no more than none.
    next: BTreeMap<Connection, (u8, u64)>,
    /// As many entries may be there before those that are over are dropped.
    most: usize,
}

impl Rounds {
    /// The round of another packet of a connection.
    pub fn join(&mut self, connection: Connection, precedence: u8) -> u64 {
        if self.next.len() > self.most {
            let current = self.current;
            self.next.retain(|_, (precedence, next)| *next > current[usize::from(*precedence)]);
            self.most = 2 * self.next.len() + 16;
        }
        let (_, next) = self.next.entry(connection).or_insert((precedence, 0));
        let round = self.current[usize::from(precedence)].max(*next);
        *next = round + 1;
        round
    }

    /// A packet of a round is served.
    pub fn served(&mut self, round: u64, precedence: u8) {
        let current = &mut self.current[usize::from(precedence)];
        *current = round.max(*current);
    }
}
