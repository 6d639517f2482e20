//! Packets that have arrived and wait in input buffers.

use syncline_core::PortId;

/// A list of held packets in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    head: u32,
    tail: u32,
}

const NIL: u32 = u32::MAX;

impl List {
    /// No packets.
    pub const EMPTY: List = List { head: NIL, tail: NIL };

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.head == NIL
    }
}

/// A packet that still occupies an input buffer.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Its bytes.
    pub len: u32,
    /// The buffer.
    pub port: PortId,
    /// In a direct phase: whether it is part of the result, rather than something to add.
    pub gathered: bool,
    /// Around a ring: the number of its message, as the receiver expects them.
    pub number: u32,
    next: u32,
}

impl Held {
    /// A packet that is in no list.
    pub const fn new(len: u32, port: PortId, gathered: bool, number: u32) -> Held {
        Held { len, port, gathered, number, next: NIL }
    }
}

/// Arrived packets that still occupy an input buffer, in lists, pooled.
#[derive(Debug)]
pub struct HeldPackets {
    slots: Vec<Held>,
    free: u32,
}

impl Default for HeldPackets {
    fn default() -> Self {
        HeldPackets { slots: Vec::new(), free: NIL }
    }
}

impl HeldPackets {
    /// Appends a packet; before those of later messages, which a network without packets may have let overtake it.
    pub fn push(&mut self, list: &mut List, entry: Held) {
        let at = if self.free == NIL {
            self.slots.push(entry);
            self.slots.len() as u32 - 1
        } else {
            let at = self.free;
            self.free = self.slots[at as usize].next;
            self.slots[at as usize] = entry;
            at
        };
        // Numbers begin anew after 23 bits.
        let is_later = |slot: u32| (self.slots[slot as usize].number.wrapping_sub(entry.number) << 9) as i32 > 0;
        if list.tail == NIL || !is_later(list.tail) {
            match list.tail {
                NIL => list.head = at,
                tail => self.slots[tail as usize].next = at,
            }
            list.tail = at;
            return;
        }
        let (mut before, mut next) = (NIL, list.head);
        while !is_later(next) {
            (before, next) = (next, self.slots[next as usize].next);
        }
        self.slots[at as usize].next = next;
        match before {
            NIL => list.head = at,
            before => self.slots[before as usize].next = at,
        }
    }

    /// The first packet of a list that is not empty.
    pub fn first(&self, list: List) -> Held {
        self.slots[list.head as usize]
    }

    /// Takes it out.
    pub fn pop(&mut self, list: &mut List) {
        let at = list.head;
        list.head = self.slots[at as usize].next;
        if list.head == NIL {
            list.tail = NIL;
        }
        self.slots[at as usize].next = self.free;
        self.free = at;
    }
}
