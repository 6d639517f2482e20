//! The two ends of a connection, with what their host has to know of them.

use super::clock::NEVER;
use super::frame::{Frame, NONE};
use super::path::Path;
use super::paths::Ways;
use super::roce::sender::Sender as QueuePair;
use super::tcp::control::ControlKind;
use super::tcp::receiver::Receiver;
use super::tcp::sender::Sender;
use super::writes::NO_END;
use syncline_core::Ps;
use syncline_core::random::RandomStream;

/// Where a connection stands among those that carry the same bytes one after the other: links of a machine have no transport,
/// so that bytes cross them as they are, and a transport carries them between NICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Whether it crosses links of a machine only.
    pub is_local: bool,
    /// The one before and the one after it, or [`NONE`].
    pub before: u32,
    /// What arrives is sent on by it.
    pub after: u32,
    /// The first of all, which has the messages.
    pub owner: u32,
    /// The last of all, at whose end messages arrive.
    pub last: u32,
}

impl Stage {
    /// The only one, with the number `number`.
    pub fn only(number: u32, is_local: bool) -> Stage {
        Stage { is_local, before: NONE, after: NONE, owner: number, last: number }
    }

    /// Whether there are others.
    pub fn is_part(self) -> bool {
        self.owner != self.last
    }
}

/// What brings the bytes of a connection to its other end.
#[derive(Clone, Debug)]
pub enum Transport {
    /// TCP; or nothing, over links of a machine, where `written` and `nxt` count what is to be sent and what was.
    Tcp(Sender),
    /// RoCE.
    Roce(QueuePair),
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct Line {
    /// The transport.
    pub transport: Transport,
    /// The way to the receiver.
    pub forth: Path,
    /// For when its timer is in the heap; [`NEVER`] if it is not.
    pub armed: u64,
    /// The next message leaves when bytes up to here are in the socket buffer.
    pub left_at: u64,
    /// Whether it is in the line of a port that asks its connections.
    pub queued: bool,
    /// Whether it is sampled.
    pub is_watched: bool,
    /// When its first message came.
    pub began_at: u64,
    /// Segments that were sent again.
    pub resent: u32,
    /// Timers that expired.
    pub timeouts: u32,
    /// Its round trips.
    pub trips: SampledTrips,
    /// The first link of the last frame that was made.
    pub sent_by: u32,
    /// The ways among which frames are spread, if they are.
    pub spread: Option<Box<Spread>>,
}

/// The round trips of a connection: the first that is measured in each millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampledTrips {
    next_at: u64,
    sum: u64,
    count: u32,
}

impl SampledTrips {
    /// Picoseconds between samples.
    const APART: u64 = 1_000_000_000;

    /// A round trip was measured.
    #[inline]
    pub fn add(&mut self, now: u64, trip: Ps) {
        if now >= self.next_at {
            self.next_at = (now / Self::APART + 1) * Self::APART;
            self.sum += trip.0;
            self.count += 1;
        }
    }

    /// The mean of the samples, if there are any.
    pub fn mean(&self) -> Option<Ps> {
        self.sum.checked_div(self.count.into()).map(Ps)
    }
}

/// Equally good ways among which frames are spread.
#[derive(Clone, Debug)]
pub struct Spread {
    ways: Vec<Path>,
    random: RandomStream,
    sent: u64,
}

impl Spread {
    /// The next frame takes the next of these ways, at random.
    pub fn new(ways: Vec<Path>, random: RandomStream) -> Spread {
        Spread { ways, random, sent: 0 }
    }

    /// The way of the next frame.
    pub fn next(&mut self) -> Path {
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
    /// When a message was last complete.
    pub ended_at: u64,
    /// The way to the sender.
    pub back: Path,
}

impl Line {
    /// The sending end of a new connection.
    pub fn new(transport: Transport, ways: Ways) -> Line {
        Line {
            transport,
            forth: ways.forth,
            armed: NEVER,
            left_at: NO_END,
            queued: false,
            is_watched: false,
            began_at: NEVER,
            resent: 0,
            timeouts: 0,
            trips: SampledTrips::default(),
            sent_by: ways.forth.first,
            spread: None,
        }
    }

    /// That of TCP, or of links of a machine.
    #[inline(always)]
    pub fn sender(&mut self) -> &mut Sender {
        match &mut self.transport {
            Transport::Tcp(sender) => sender,
            Transport::Roce(_) => unreachable!("the connection has RoCE"),
        }
    }

    /// That of RoCE.
    #[inline(always)]
    pub fn queue_pair(&mut self) -> &mut QueuePair {
        match &mut self.transport {
            Transport::Roce(queue_pair) => queue_pair,
            Transport::Tcp(_) => unreachable!("the connection has TCP"),
        }
    }

    /// All bytes below are acknowledged.
    pub fn una(&self) -> u64 {
        match &self.transport {
            Transport::Tcp(sender) => sender.una,
            Transport::Roce(queue_pair) => queue_pair.una,
        }
    }

    /// When the retransmission timer expires; [`Ps::MAX`] if it is off.
    #[inline(always)]
    pub fn deadline(&mut self) -> &mut Ps {
        match &mut self.transport {
            Transport::Tcp(sender) => &mut sender.deadline,
            Transport::Roce(queue_pair) => &mut queue_pair.deadline,
        }
    }

    /// A frame of the connection `number`, on its way or on the next of several.
    #[inline(always)]
    pub fn frame(&mut self, number: u32, seq: u64, len: u32, overhead: u32, flags: u8) -> Frame {
        let mut forth = self.forth;
        if let Some(spread) = &mut self.spread {
            forth = spread.next();
            self.sent_by = forth.first;
        }
        Frame::on(forth, number, seq, len + overhead, flags)
    }
}

impl Listener {
    /// The receiving end of a new connection.
    pub fn new(ways: Ways) -> Listener {
        Listener { receiver: Receiver::default(), boundary: NO_END, armed: NEVER, ended_at: NEVER, back: ways.back }
    }

    /// A segment says whether the network has marked it, and whether its sender has reduced its window. DCTCP tells of every
    /// mark (RFC 8257, section 3.2), others until the sender has reacted (RFC 3168, section 6.1.3).
    pub fn hear(&mut self, marked: bool, reduced: bool, control: ControlKind) {
        let keeps = control != ControlKind::Dctcp && self.receiver.marked && !reduced;
        self.receiver.marked = marked || keeps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Connection, Route};
    use crate::ethernet::Writes;
    use crate::ethernet::roce::receiver::Responder;
    use syncline_core::{NodeId, PortId};

    #[test]
    fn one_round_trip_counts_in_each_millisecond() {
        let ms = 1_000_000_000;
        let mut trips = SampledTrips::default();
        assert_eq!(trips.mean(), None);
        for (at, trip) in [(5, 100), (ms - 1, 900), (ms, 300), (ms + 7, 900), (4 * ms + 1, 500), (5 * ms - 1, 900)] {
            trips.add(at, Ps(trip));
        }
        assert_eq!(trips.mean(), Some(Ps(300)));
    }

    /// What a connection that is idle takes.
    #[test]
    fn connections_are_small() {
        let ends = size_of::<Line>() + size_of::<Listener>();
        let named = size_of::<(NodeId, PortId)>() + size_of::<Connection>() + size_of::<(Route, u16, u32)>();
        let rest = size_of::<Stage>() + named + size_of::<Writes>();
        assert!(ends + rest <= 424, "{ends} {rest}");
        // And of RoCE, with the room for the end of a message.
        let of_roce = size_of::<Responder>() + 4 * size_of::<u64>();
        assert!(ends + rest + of_roce <= 480, "{ends} {rest} {of_roce}");
    }
}
