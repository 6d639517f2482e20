//! Packets that have arrived and wait in input buffers, in lists whose entries are pooled.

use syncline_core::PortId;

/// A list of arrived packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketList {
    head: u32,
    tail: u32,
}

const NIL: u32 = u32::MAX;

impl PacketList {
    /// No packets.
    pub const EMPTY: PacketList = PacketList { head: NIL, tail: NIL };

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.head == NIL
    }
}

/// A packet that still occupies an input buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivedPacket {
    /// Its bytes.
    pub len: u32,
    /// The buffer.
    pub port: PortId,
    /// In a direct phase: whether it is part of the result, rather than something to add.
    pub is_result: bool,
    /// Around a ring: the number of its message, as the receiver expects them.
    pub number: u32,
    next: u32,
}

impl ArrivedPacket {
    /// A packet that is in no list.
    pub const fn new(len: u32, port: PortId, is_result: bool, number: u32) -> ArrivedPacket {
        ArrivedPacket { len, port, is_result, number, next: NIL }
    }
}

/// Arrived packets that still occupy an input buffer, in lists, pooled.
#[derive(Debug)]
pub(super) struct ArrivedPackets {
    slots: Vec<ArrivedPacket>,
    free: u32,
}

impl Default for ArrivedPackets {
    fn default() -> Self {
        ArrivedPackets { slots: Vec::new(), free: NIL }
    }
}

impl ArrivedPackets {
    /// Appends a packet; before those of later messages, which a network without packets may have let overtake it.
    pub fn push(&mut self, list: &mut PacketList, entry: ArrivedPacket) {
        let at = if self.free == NIL {
            self.slots.push(entry);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 packets that wait at once")
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
    pub fn first(&self, list: PacketList) -> ArrivedPacket {
        self.slots[list.head as usize]
    }

    /// Takes the first packet out of a list that is not empty.
    pub fn pop(&mut self, list: &mut PacketList) -> ArrivedPacket {
        let at = list.head;
        let packet = self.slots[at as usize];
        list.head = self.slots[at as usize].next;
        if list.head == NIL {
            list.tail = NIL;
        }
        self.slots[at as usize].next = self.free;
        self.free = at;
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u32, len: u32) -> ArrivedPacket {
        ArrivedPacket::new(len, PortId(0), false, number)
    }

    fn drain(packets: &mut ArrivedPackets, list: &mut PacketList) -> Vec<(u32, u32)> {
        std::iter::from_fn(|| {
            (!list.is_empty()).then(|| {
                let first = packets.first(*list);
                let taken = packets.pop(list);
                assert_eq!((first.number, first.len), (taken.number, taken.len));
                (taken.number, taken.len)
            })
        })
        .collect()
    }

    #[test]
    fn packets_of_a_message_stay_in_order_and_messages_that_were_overtaken_go_first() {
        let (mut packets, mut list) = (ArrivedPackets::default(), PacketList::EMPTY);
        for (number, len) in [(4, 1), (4, 2), (3, 3), (5, 4), (3, 5), (4, 6)] {
            packets.push(&mut list, packet(number, len));
        }
        assert_eq!(drain(&mut packets, &mut list), [(3, 3), (3, 5), (4, 1), (4, 2), (4, 6), (5, 4)]);
    }

    #[test]
    fn numbers_begin_anew() {
        let (mut packets, mut list) = (ArrivedPackets::default(), PacketList::EMPTY);
        for number in [0, 0x7f_ffff, 1] {
            packets.push(&mut list, packet(number, 1));
        }
        assert_eq!(drain(&mut packets, &mut list), [(0x7f_ffff, 1), (0, 1), (1, 1)]);
    }

    #[test]
    fn places_that_are_given_back_are_used_again() {
        let mut packets = ArrivedPackets::default();
        let mut lists = [PacketList::EMPTY; 3];
        for round in 0..5 {
            for (list, len) in lists.iter_mut().zip(0..) {
                packets.push(list, packet(round, len));
                packets.push(list, packet(round, len + 10));
            }
            for (list, len) in lists.iter_mut().zip(0..) {
                assert_eq!(drain(&mut packets, list), [(round, len), (round, len + 10)]);
            }
        }
        assert_eq!(packets.slots.len(), 6, "no more places than packets at a time");
    }
}
