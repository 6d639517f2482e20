//! The port of a host that asks its connections for frames, one after the other.

use super::super::clock::NEVER;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Connections that may have something to send.
#[derive(Clone, Debug, Default)]
pub struct Nic {
    /// Those to be asked, in turn.
    ready: VecDeque<u32>,
    /// Those that have something, but not before a time.
    later: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Nic {
    /// A connection may have something to send. It is not in line yet.
    pub fn add(&mut self, connection: u32) {
        self.ready.push_back(connection);
    }

    /// A connection has something to send at a time.
    pub fn add_at(&mut self, time: u64, connection: u32) {
        self.later.push(Reverse((time, connection)));
    }

    /// Those that have something to send at a time.
    pub fn at(&self, time: u64) -> impl Iterator<Item = u32> {
        self.later.iter().filter(move |later| later.0.0 == time).map(|later| later.0.1)
    }

    /// The connection to be asked now.
    pub fn next(&mut self, now: u64) -> Option<u32> {
        while let Some(&Reverse((time, connection))) = self.later.peek() {
            if time > now {
                break;
            }
            self.later.pop();
            self.ready.push_back(connection);
        }
        self.ready.pop_front()
    }

    /// When a connection is to be asked next: 0 for as soon as the link is free.
    pub fn next_at(&self) -> u64 {
        if self.ready.is_empty() { self.later.peek().map_or(NEVER, |&Reverse((time, _))| time) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_turns_once_their_time_has_come() {
        let mut nic = Nic::default();
        assert_eq!((nic.next(0), nic.next_at()), (None, NEVER));
        nic.add(1);
        nic.add_at(50, 2);
        nic.add(3);
        assert_eq!((nic.next(0), nic.next_at()), (Some(1), 0));
        nic.add(1);
        assert_eq!((nic.next(0), nic.next(0), nic.next(0)), (Some(3), Some(1), None));
        assert_eq!((nic.at(49).count(), nic.at(50).collect::<Vec<_>>()), (0, vec![2]));
        assert_eq!((nic.next_at(), nic.next(49), nic.next(50)), (50, None, Some(2)));
    }
}
