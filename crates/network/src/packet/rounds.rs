//! Whose turn it is at an output of a switch: connections take turns, packet by packet.
//!
//! *Start-time fair queueing* (Goyal, Vin and Cheng 1997) with packets for units: a packet's number is the round in
//! which it is served, which is the current one, or the one after that of the packet before it on its connection. Those
//! of a round are served in the order in which they came.

use crate::api::Connection;
use std::collections::BTreeMap;

/// The rounds of an output.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    /// That of the packet that was served last.
    current: u64,
    /// Per connection, the next one that it has not had. Those that are over say no more than none.
    next: BTreeMap<Connection, u64>,
    /// As many entries may be there before those that are over are dropped.
    most: usize,
}

impl Rounds {
    /// The round of another packet of a connection.
    pub fn join(&mut self, connection: Connection) -> u64 {
        if self.next.len() > self.most {
            let current = self.current;
            self.next.retain(|_, next| *next > current);
            self.most = 2 * self.next.len() + 16;
        }
        let next = self.next.entry(connection).or_default();
        let round = self.current.max(*next);
        *next = round + 1;
        round
    }

    /// A packet of a round is served.
    pub fn served(&mut self, round: u64) {
        self.current = self.current.max(round);
    }
}
