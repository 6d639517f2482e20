//! The two ends of a connection, with what their host has to know of them.

use super::clock::NEVER;
use super::frame::NONE;
use super::paths::{Path, Ways};
use super::tcp::TcpConfig;
use super::tcp::control::ControlKind;
use super::tcp::receiver::Receiver;
use super::tcp::sender::Sender;
use super::writes::NO_END;
use syncline_core::Ps;
use syncline_core::random::RandomStream;

/// The sending end.
#[derive(Clone, Debug)]
pub struct Line {
    /// The transport.
    pub sender: Sender,
    /// The way to the receiver.
    pub forth: Path,
    /// Its first link, or [`NONE`] if both ends are at one node.
    pub nic: u32,
    /// For when its timer is in the heap; [`NEVER`] if it is not.
    pub armed: u64,
    /// The next message leaves when bytes up to here are in the socket buffer.
    pub left_at: u64,
    /// The ways among which frames are spread, each with its first link, if they are.
    pub spread: Option<Box<Spread>>,
}

/// Equally good ways among which frames are spread.
#[derive(Clone, Debug)]
pub struct Spread {
    ways: Vec<(Path, u32)>,
    random: RandomStream,
    sent: u64,
}

impl Spread {
    /// The next frame takes the next of these ways, at random.
    pub fn new(ways: Vec<(Path, u32)>, random: RandomStream) -> Spread {
        Spread { ways, random, sent: 0 }
    }

    /// The way of the next frame, and its first link.
    pub fn next(&mut self) -> (Path, u32) {
        self.sent += 1;
        self.ways[self.random.below(self.sent, self.ways.len() as u64) as usize]
    }
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The transport.
    pub receiver: Receiver,
    /// The next message is complete when bytes up to here are there.
    pub boundary: u64,
    /// For when its timer is in the heap.
    pub armed: u64,
    /// The way to the sender.
    pub back: Path,
    /// Its first link.
    pub nic: u32,
}

impl Line {
    /// The sending end of a new connection.
    pub fn new(config: &TcpConfig, ways: Ways, first: u32, round_trip: Ps) -> Line {
        let sender = Sender::new(config, round_trip);
        Line { sender, forth: ways.forth, nic: first, armed: NEVER, left_at: NO_END, spread: None }
    }
}

impl Listener {
    /// The receiving end of a new connection.
    pub fn new(ways: Ways, first: u32) -> Listener {
        Listener { receiver: Receiver::default(), boundary: NO_END, armed: NEVER, back: ways.back, nic: first }
    }

    /// A segment says whether the network has marked it, and whether its sender has reduced its window. DCTCP tells of every
    /// mark (RFC 8257, section 3.2), others until the sender has reacted (RFC 3168, section 6.1.3).
    pub fn hear(&mut self, marked: bool, reduced: bool, control: ControlKind) {
        let keeps = control != ControlKind::Dctcp && self.receiver.marked && !reduced;
        self.receiver.marked = marked || keeps;
    }
}

/// The first link of a way, or [`NONE`].
pub fn first(links: &[u32]) -> u32 {
    links.first().copied().unwrap_or(NONE)
}
