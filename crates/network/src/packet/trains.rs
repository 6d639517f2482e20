//! Trains of packets in a pool, and the queues that they stand in.

use crate::api::MsgId;
use syncline_core::id_type;

id_type!(
    /// A train in the pool. Numbers are reused.
    TrainId
);

/// No train.
const NIL: TrainId = TrainId(u32::MAX);

/// Where a train is on its path, and what kind of packets it has, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    const TAIL: u32 = 1 << 31;
    const SHORT: u32 = 1 << 30;
    const VC: u32 = 1 << 29;
    const POSITION: u32 = Self::VC - 1;

    /// The beginning of a path, on channel 0.
    #[inline(always)]
    pub fn new(position: u32, tail: bool, short: bool) -> Place {
        debug_assert!(position <= Self::POSITION, "more paths than a train can name");
        Place(position | if tail { Self::TAIL } else { 0 } | if short { Self::SHORT } else { 0 })
    }

    /// The index of the current hop in the table of paths.
    #[inline(always)]
    pub fn position(self) -> u32 {
        self.0 & Self::POSITION
    }

    /// The train has the last packet of its message.
    #[inline(always)]
    pub fn is_tail(self) -> bool {
        self.0 & Self::TAIL != 0
    }

    /// The train is the one packet of its message that is not full.
    #[inline(always)]
    pub fn is_short(self) -> bool {
        self.0 & Self::SHORT != 0
    }

    /// The virtual channel of the buffer that it is in or under way to.
    #[inline(always)]
    pub fn channel(self) -> u8 {
        u8::from(self.0 & Self::VC != 0)
    }

    /// The same on another channel.
    #[inline(always)]
    pub fn on_channel(self, vc: u8) -> Place {
        Place(self.0 & !Self::VC | if vc == 0 { 0 } else { Self::VC })
    }

    /// The next hop of the path.
    #[inline(always)]
    pub fn advanced(self) -> Place {
        Place(self.0 + 1)
    }

    /// The same without the last packet of the message.
    #[inline(always)]
    pub fn without_tail(self) -> Place {
        Place(self.0 & !Self::TAIL)
    }
}

/// Consecutive packets of one message. All are full, but for a short packet on its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    pub msg: MsgId,
    pub packets: u32,
    pub place: Place,
    /// The next train in the queue that this one stands in, or in the list of unused ones.
    next: TrainId,
}

/// All trains: every packet under way is in exactly one of them.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    trains: Vec<Train>,
    unused: TrainId,
}

impl Pool {
    pub fn new() -> Pool {
        Pool { trains: Vec::new(), unused: NIL }
    }

    /// A new train.
    #[inline(always)]
    pub fn add(&mut self, msg: MsgId, packets: u32, place: Place) -> TrainId {
        let train = Train { msg, packets, place, next: NIL };
        let id = self.unused;
        if id == NIL {
            self.trains.push(train);
            TrainId(self.trains.len() as u32 - 1)
        } else {
            self.unused = self.trains[id.index()].next;
            self.trains[id.index()] = train;
            id
        }
    }

    /// Takes the first `packets` packets off a train of more than that.
    pub fn split(&mut self, id: TrainId, packets: u32) -> TrainId {
        let train = &mut self.trains[id.index()];
        debug_assert!(packets < train.packets, "nothing would be left");
        train.packets -= packets;
        let (msg, place) = (train.msg, train.place.without_tail());
        self.add(msg, packets, place)
    }

    /// The train is no more.
    #[inline(always)]
    pub fn remove(&mut self, id: TrainId) {
        self.trains[id.index()].next = self.unused;
        self.unused = id;
    }

    #[inline(always)]
    pub fn get(&self, id: TrainId) -> Train {
        self.trains[id.index()]
    }

    /// The first `packets` packets of a train of more than that need not be followed any longer.
    #[inline(always)]
    pub fn shorten(&mut self, id: TrainId, packets: u32) {
        let train = &mut self.trains[id.index()];
        debug_assert!(packets < train.packets, "nothing would be left");
        train.packets -= packets;
    }

    /// The train moves to the next hop of its path; returns its new place.
    #[inline(always)]
    pub fn advance(&mut self, id: TrainId) -> Place {
        let place = &mut self.trains[id.index()].place;
        *place = place.advanced();
        *place
    }

    /// The train is under way to a buffer of this channel.
    #[inline(always)]
    pub fn set_channel(&mut self, id: TrainId, vc: u8) {
        let place = &mut self.trains[id.index()].place;
        *place = place.on_channel(vc);
    }
}

/// A first-in first-out queue of trains, threaded through the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    head: TrainId,
    tail: TrainId,
}

impl Queue {
    pub const EMPTY: Queue = Queue { head: NIL, tail: NIL };

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    #[inline(always)]
    pub fn front(&self) -> Option<TrainId> {
        (self.head != NIL).then_some(self.head)
    }

    #[inline(always)]
    pub fn push(&mut self, pool: &mut Pool, id: TrainId) {
        pool.trains[id.index()].next = NIL;
        if self.head == NIL {
            self.head = id;
        } else {
            pool.trains[self.tail.index()].next = id;
        }
        self.tail = id;
    }

    #[inline(always)]
    pub fn pop(&mut self, pool: &Pool) -> Option<TrainId> {
        let id = self.front()?;
        self.head = pool.trains[id.index()].next;
        Some(id)
    }

    /// The trains of the queue, in order.
    pub fn iter<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = Train> + 'a {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let train = (next != NIL).then(|| pool.get(next))?;
            next = train.next;
            Some(train)
        })
    }
}
