//! What a port has been fed and has not yet put on its wire.
//!
//! It is kept in slots of a packet, as input buffers are: a short packet takes one like a full one. Counted in bytes, short
//! packets that leave could make no room for full ones, and a ring could lose the space in which its packets move.

use super::series::Series;
use super::trains::Train;
use crate::api::{Connection, Room};
use std::collections::VecDeque;
use syncline_core::{Bytes, Ps};

/// The local packets of one output port that have not started.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    /// When those start whose start is decided, in order.
    decided: VecDeque<Series>,
    /// How many wait for a credit.
    blocked: u64,
    /// A sender was told [`Room::Unknown`] and waits to be told more; the capacity it asked with.
    asked: Option<Bytes>,
    /// Packets that have not requested the port: connections, which are what goes to one place, in the order of their
    /// turns, and the trains of each in the order in which they were fed.
    pub line: VecDeque<InLine>,
    /// By precedence, as bits, whether a packet before them has requested and not started.
    heads: u8,
}

/// Packets that stand in line.
#[derive(Clone, Copy, Debug)]
pub(super) struct InLine {
    connection: Connection,
    /// That of the connection.
    precedence: u8,
    pub train: Train,
}

impl Backlog {
    /// Packets will start at these times.
    #[inline(always)]
    pub fn decide(&mut self, now: Ps, starts: Series) {
        if let Some(last) = self.decided.back_mut() {
            if last.extend(starts) {
                return;
            }
            self.forget(now);
        }
        self.decided.push_back(starts);
    }

    /// Packets wait for a credit.
    pub fn block(&mut self, packets: u32) {
        self.blocked += u64::from(packets);
    }

    /// Packets no longer wait for a credit.
    pub fn unblock(&mut self, packets: u32) {
        self.blocked -= u64::from(packets);
    }

    /// Packets stand in line, behind those of their connection.
    pub fn line_up(&mut self, connection: Connection, precedence: u8, train: Train) {
        let waiting = InLine { connection, precedence, train };
        match self.line.iter().rposition(|other| other.connection == connection) {
            Some(last) => self.line.insert(last + 1, waiting),
            None => self.line.push_back(waiting),
        }
    }

    /// Whether a packet of a precedence has requested and not started.
    pub fn has_head(&self, precedence: u8) -> bool {
        self.heads >> precedence & 1 != 0
    }

    /// The packet of a precedence whose turn it is leaves the line to request the port; the connection that it is of goes
    /// behind the others.
    pub fn next_in_line(&mut self, precedence: u8) -> Option<Train> {
        self.heads &= !(1 << precedence);
        let first = self.line.iter().position(|other| other.precedence == precedence)?;
        self.heads |= 1 << precedence;
        let connection = self.line[first].connection;
        let packet = self.line[first].train.split(1);
        if self.line[first].train.packets == 0 {
            self.line.remove(first);
        }
        // Trains of a connection are neighbours: all of them go to the back together.
        let own = self.line.iter().skip(first).take_while(|other| other.connection == connection).count();
        if first == 0 {
            self.line.rotate_left(own);
        } else {
            let own: Vec<InLine> = self.line.drain(first..first + own).collect();
            self.line.extend(own);
        }
        Some(packet)
    }

    /// Whether a packet of at most `packet` bytes fits next to the backlog in `capacity` bytes.
    pub fn room(&mut self, now: Ps, capacity: Bytes, packet: Bytes) -> Room {
        let slots = (capacity.0 / packet.0.max(1)).max(1); // a capacity below a packet counts as one
        if self.blocked >= slots {
            return Room::Unknown;
        }
        self.forget(now);
        let decided: u64 = self.decided.iter().map(|starts| starts.count).sum();
        let mut excess = (self.blocked + decided + 1).saturating_sub(slots);
        for starts in &self.decided {
            if excess == 0 {
                break;
            }
            if excess <= starts.count {
                return Room::At(starts.at(excess - 1));
            }
            excess -= starts.count;
        }
        Room::Now
    }

    /// A sender waits for news; the largest capacity asked with is the first to have room.
    pub fn ask(&mut self, capacity: Bytes) {
        self.asked = self.asked.max(Some(capacity));
    }

    /// The capacity with which a sender waits for news.
    pub fn asked(&self) -> Option<Bytes> {
        self.asked
    }

    /// The sender has been told.
    pub fn answered(&mut self) {
        self.asked = None;
    }

    /// Drops the packets that have started.
    fn forget(&mut self, now: Ps) {
        while let Some(starts) = self.decided.front_mut() {
            let started = starts.until(now);
            if started < starts.count {
                if started > 0 {
                    starts.skip(started);
                }
                break;
            }
            self.decided.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_when_enough_has_started() {
        let mut b = Backlog::default();
        for start in [10, 20, 30, 40] {
            b.decide(Ps(0), Series::once(Ps(start)));
        }
        let mut room = |now, capacity| b.room(Ps(now), Bytes(capacity), Bytes(256));
        assert_eq!(room(0, 5 * 256), Room::Now);
        assert_eq!(room(0, 4 * 256), Room::At(Ps(10)));
        assert_eq!(room(0, 256), Room::At(Ps(40)));
        assert_eq!(room(0, 1), Room::At(Ps(40)));
        assert_eq!(room(25, 3 * 256 - 1), Room::At(Ps(30)));
        assert_eq!(room(25, 3 * 256), Room::Now);
        assert_eq!(room(40, 256), Room::Now);
    }

    #[test]
    fn blocked_packets_leave_the_answer_open() {
        let mut b = Backlog::default();
        b.block(1);
        assert_eq!(b.room(Ps(0), Bytes(256), Bytes(256)), Room::Unknown);
        assert_eq!(b.room(Ps(0), Bytes(512), Bytes(256)), Room::Now);
        b.unblock(1);
        assert_eq!(b.room(Ps(0), Bytes(256), Bytes(256)), Room::Now);
    }
}
