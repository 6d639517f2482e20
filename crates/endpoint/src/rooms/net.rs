//! The network as a room sees it: with connections of its own.
//!
//! What a room names its messages by means nothing to others. So a message has a number of its own in the network, under
//! which its name is kept until it has arrived.

use super::timers::{Below, Lower};
use crate::api::RoomId;
use syncline_core::table::Table;
use syncline_core::{Books, Bytes, NodeId, PortId, Ps, Schedule, Slab, Wait, Wire, id_type};
use syncline_network::{Connection, LinkUsage, Message, MsgId, NetOut, Network, Room, TrafficClass};

id_type!(
    /// The number of a name.
    MarkId
);

/// Connections of a room to one place, as bits of their number; the other bits name the room.
const QUEUE_BITS: u32 = 12;

/// Where in a tag the room is named.
const ROOM_AT: u32 = 32;

/// The names of messages and receipts that are under way.
#[derive(Debug, Default)]
pub(super) struct Marks(Slab<MarkId, u64>);

impl Marks {
    fn keep(&mut self, name: u64, room: RoomId) -> u64 {
        u64::from(room.0) << ROOM_AT | u64::from(self.0.insert(name).0)
    }

    /// The room that has given a name, and the name, which is forgotten if it is the `last` time that it is asked for.
    pub fn read(&mut self, mark: u64, last: bool) -> (RoomId, u64) {
        let id = MarkId(mark as u32);
        let name = self.0[id];
        if last {
            self.0.remove(id);
        }
        (RoomId((mark >> ROOM_AT) as u16), name)
    }
}

/// A room's part of the network.
#[derive(Debug)]
pub struct RoomNet<'a, N> {
    pub(super) net: &'a mut N,
    pub(super) marks: &'a mut Marks,
    pub(super) room: RoomId,
    /// What tells the rooms of an NPU apart in connections.
    pub(super) number: u8,
    /// The precedence of its messages, if they have one in common.
    pub(super) precedence: u8,
}

/// The number among the rooms of an NPU of the room that a connection belongs to, and the connection as that names it.
pub(super) fn of_room(connection: Connection) -> (u8, Connection) {
    let queue = connection.queue & ((1 << QUEUE_BITS) - 1);
    ((connection.queue >> QUEUE_BITS) as u8, Connection { queue, ..connection })
}

impl<N: Network> RoomNet<'_, N> {
    fn queue(&self, queue: u16) -> u16 {
        assert!(queue >> QUEUE_BITS == 0, "connection {queue} to a place, of which a room has {}", 1 << QUEUE_BITS);
        u16::from(self.number) << QUEUE_BITS | queue
    }

    /// A message of the room, as the network has it.
    fn outside(&mut self, message: Message) -> Message {
        let class = match self.precedence {
            0 => message.class,
            precedence => message.class.with_precedence(precedence),
        };
        Message {
            class,
            queue: self.queue(message.queue),
            tag: self.marks.keep(message.tag, self.room),
            receipt: message.receipt.map(|receipt| self.marks.keep(receipt, self.room)),
            ..message
        }
    }
}

impl<N: Network> Network for RoomNet<'_, N> {
    type Event = Below<N::Event>;

    fn open(&mut self, message: Message) -> MsgId {
        let message = self.outside(message);
        self.net.open(message)
    }

    fn feed<Q: Schedule<Self::Event>>(&mut self, now: Ps, id: MsgId, len: Bytes, q: &mut Q) {
        self.net.feed(now, id, len, &mut Lower(q));
    }

    fn send<Q: Schedule<Self::Event>>(&mut self, now: Ps, message: Message, q: &mut Q) {
        let message = self.outside(message);
        self.net.send(now, message, &mut Lower(q));
    }

    fn room(&mut self, now: Ps, at: NodeId, port: PortId, class: TrafficClass, capacity: Bytes) -> Room {
        self.net.room(now, at, port, class, capacity)
    }

    const BOUNDS_CONNECTIONS: bool = N::BOUNDS_CONNECTIONS;

    fn takes(&mut self, connection: Connection, len: Bytes) -> bool {
        let queue = self.queue(connection.queue);
        self.net.takes(Connection { queue, ..connection }, len)
    }

    fn release<Q: Schedule<Self::Event>>(&mut self, now: Ps, at: NodeId, port: PortId, class: TrafficClass, q: &mut Q) {
        self.net.release(now, at, port, class, &mut Lower(q));
    }

    fn handle<Q: Schedule<Self::Event>>(&mut self, _: Ps, _: Self::Event, _: &mut Q, _: &mut Vec<NetOut>) {
        unreachable!("the network below has its timers from the queue");
    }

    fn waits(&self) -> Vec<Wait> {
        self.net.waits()
    }

    fn books(&self) -> Books {
        self.net.books()
    }

    fn wire(&self) -> Wire {
        self.net.wire()
    }

    fn further_work(&self) -> u64 {
        self.net.further_work()
    }

    fn usage(&self) -> &LinkUsage {
        self.net.usage()
    }

    fn counters(&self) -> Vec<Table> {
        self.net.counters()
    }
}
