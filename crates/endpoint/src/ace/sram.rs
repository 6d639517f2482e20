//! The SRAM: its partitions, and the room that chunks have in them.
//!
//! Who needs room reserves it ([`Reservation`]), as much of it as there is and the rest when more is free, and may fill
//! what it has before it has all. In the terminal partition results leave a reserve to packets that pass.

use crate::servers::ResourceUse;
use syncline_core::{NodeId, Ps};

/// How an SRAM is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Bytes of each partition.
    pub capacity: Vec<u64>,
    /// The partition that results leave for main memory. Behind it there may be one for transit pools.
    pub terminal: usize,
    /// Bytes that reservations leave free there.
    pub reserve: u64,
}

/// The SRAM of all NPUs.
#[derive(Debug)]
pub(super) struct Sram {
    division: Division,
    /// Per NPU and partition: bytes that are taken.
    used: Vec<u64>,
    /// Per partition: the most on one NPU.
    peak: Vec<u64>,
    usage: ResourceUse,
}

/// Room that a chunk needs for the results of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    /// Bytes that are still to be reserved; `None` when all are.
    missing: Option<u64>,
    /// Bytes that are reserved and not filled yet, as long as some are missing.
    unfilled: u64,
}

impl Reservation {
    /// Room of so many bytes, none of which is reserved yet.
    pub const fn of(bytes: u64) -> Reservation {
        Reservation { missing: Some(bytes), unfilled: 0 }
    }

    /// Whether all of it is reserved.
    pub const fn is_complete(&self) -> bool {
        self.missing.is_none()
    }

    /// Whether there is room for a packet.
    #[inline]
    pub fn can_store(&self, len: u32) -> bool {
        self.missing.is_none() || self.unfilled >= u64::from(len.max(1))
    }

    /// Whether some of it is reserved, and neither filled nor known to be enough.
    pub const fn is_open(&self) -> bool {
        self.unfilled > 0
    }

    /// A packet is stored, for which there is room.
    #[inline]
    pub fn fill(&mut self, len: u32) {
        if self.missing.is_some() {
            self.unfilled -= u64::from(len);
        }
    }
}

impl Sram {
    /// Empty partitions of `npus` NPUs.
    pub fn new(division: Division, npus: u32) -> Sram {
        let partitions = division.capacity.len();
        let (used, peak) = (vec![0; partitions * npus as usize], vec![0; partitions]);
        Sram { division, used, peak, usage: ResourceUse::new("sram_room", 1) }
    }

    fn place(&self, npu: NodeId, partition: usize) -> usize {
        npu.index() * self.division.capacity.len() + partition
    }

    /// Whether `bytes` more of a chunk fit.
    pub fn fits(&self, npu: NodeId, partition: usize, bytes: u64) -> bool {
        bytes <= self.left(npu, partition)
    }

    /// Whether a packet of `len` bytes fits into the terminal partition beside `others` bytes of packets. While
    /// results wait for room there (`wanted`), packets get no more than is set aside for them.
    pub fn fits_packet(&self, npu: NodeId, len: u64, others: u64, wanted: bool) -> bool {
        len <= self.unused(npu, self.division.terminal) && (!wanted || others + len <= self.division.reserve)
    }

    /// Bytes that chunks may take.
    fn left(&self, npu: NodeId, partition: usize) -> u64 {
        let reserve = if partition == self.division.terminal { self.division.reserve } else { 0 };
        self.unused(npu, partition).saturating_sub(reserve)
    }

    fn unused(&self, npu: NodeId, partition: usize) -> u64 {
        self.division.capacity[partition] - self.used[self.place(npu, partition)]
    }

    /// Takes room.
    pub fn take(&mut self, npu: NodeId, partition: usize, bytes: u64) {
        let place = self.place(npu, partition);
        self.used[place] += bytes;
        assert!(self.used[place] <= self.division.capacity[partition], "SRAM partition {partition} overflows");
        self.peak[partition] = self.peak[partition].max(self.used[place]);
    }

    /// Gives room back.
    pub fn free(&mut self, npu: NodeId, partition: usize, bytes: u64) {
        let place = self.place(npu, partition);
        assert!(self.used[place] >= bytes, "SRAM partition {partition} gives back more than it holds");
        self.used[place] -= bytes;
    }

    /// Reserves what is missing of some room, as much as is left; whether that completes it.
    pub fn reserve(&mut self, npu: NodeId, partition: usize, room: &mut Reservation) -> bool {
        let missing = room.missing.unwrap_or(0);
        let taken = missing.min(self.left(npu, partition));
        self.take(npu, partition, taken);
        room.unfilled += taken;
        room.missing = (missing > taken).then_some(missing - taken);
        room.is_complete()
    }

    /// Bytes taken on an NPU, by partition.
    pub fn used(&self, npu: NodeId) -> &[u64] {
        &self.used[self.place(npu, 0)..][..self.division.capacity.len()]
    }

    /// The partitions that exist: where no packets pass through engines, there are no transit pools.
    pub fn partitions(&self) -> impl Iterator<Item = usize> {
        (0..self.division.capacity.len()).filter(|&p| p <= self.division.terminal || self.division.capacity[p] > 0)
    }

    /// Bytes of a partition, and the most of them that one NPU ever took.
    pub fn filling(&self, partition: usize) -> (u64, u64) {
        (self.division.capacity[partition], self.peak[partition])
    }

    /// Accounts what a chunk has waited for room.
    pub fn account_wait(&mut self, wait: Ps) {
        self.usage.wait += u128::from(wait.0);
    }

    /// What waited for room.
    pub fn usage(&self) -> &ResourceUse {
        &self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two partitions, the second of them the terminal one with a reserve, and no transit pools; on two NPUs.
    fn sram() -> Sram {
        Sram::new(Division { capacity: vec![100, 70, 0], terminal: 1, reserve: 20 }, 2)
    }

    const NPU: NodeId = NodeId(1);

    #[test]
    fn what_is_taken_is_given_back() {
        let mut sram = sram();
        sram.take(NPU, 0, 60);
        sram.take(NPU, 0, 40);
        assert!(!sram.fits(NPU, 0, 1) && sram.fits(NPU, 0, 0) && sram.fits(NodeId(0), 0, 100));
        sram.free(NPU, 0, 100);
        assert!(sram.fits(NPU, 0, 100) && !sram.fits(NPU, 0, 101));
        assert_eq!((sram.used(NPU), sram.filling(0)), (&[0, 0, 0][..], (100, 100)));
    }

    #[test]
    fn a_partition_without_capacity_takes_nothing_and_is_not_shown() {
        let mut sram = sram();
        sram.take(NPU, 2, 0);
        assert!(!sram.fits(NPU, 2, 1));
        assert_eq!(sram.partitions().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    #[should_panic(expected = "overflows")]
    fn an_overflow_stops_the_run() {
        sram().take(NPU, 0, 101);
    }

    #[test]
    #[should_panic(expected = "more than it holds")]
    fn an_underflow_stops_the_run() {
        let mut sram = sram();
        sram.take(NodeId(0), 0, 50);
        sram.free(NPU, 0, 1);
    }

    #[test]
    fn results_leave_room_for_a_packet_and_packets_no_more_than_that_while_results_wait() {
        let mut sram = sram();
        assert!(sram.fits(NPU, 1, 50) && !sram.fits(NPU, 1, 51));
        assert!(sram.fits_packet(NPU, 70, 0, false) && !sram.fits_packet(NPU, 71, 0, false));
        assert!(sram.fits_packet(NPU, 15, 5, true) && !sram.fits_packet(NPU, 15, 6, true));
        sram.take(NPU, 1, 50);
        assert!(sram.fits_packet(NPU, 20, 0, true) && !sram.fits_packet(NPU, 21, 0, false));
    }

    #[test]
    fn room_is_reserved_as_it_becomes_free() {
        let mut sram = sram();
        sram.take(NPU, 0, 90);
        let mut room = Reservation::of(30);
        assert!(!room.can_store(0) && !room.is_open());
        assert!(!sram.reserve(NPU, 0, &mut room));
        assert!(room.can_store(10) && !room.can_store(11) && room.is_open());
        room.fill(10);
        assert!(!room.can_store(1));
        sram.free(NPU, 0, 90);
        assert!(sram.reserve(NPU, 0, &mut room));
        assert!(room.is_complete() && room.can_store(20));
        assert_eq!(sram.used(NPU)[0], 30);
        let mut nothing = Reservation::of(0);
        assert!(sram.reserve(NPU, 0, &mut nothing) && nothing.is_complete(), "no bytes are always there");
    }

    proptest! {
        #[test]
        fn reservations_take_what_they_ask_for_however_it_comes(
            wanted in prop::collection::vec(0u64..60, 1..20), busy in 0u64..=100,
        ) {
            let mut sram = sram();
            sram.take(NPU, 0, busy);
            let mut freed = busy;
            for bytes in wanted {
                let mut room = Reservation::of(bytes);
                while !sram.reserve(NPU, 0, &mut room) {
                    prop_assert!(freed > 0, "all is free, and {} of 100 B are not found", bytes);
                    sram.free(NPU, 0, 1);
                    freed -= 1;
                }
                prop_assert_eq!(sram.used(NPU)[0], freed + bytes);
                sram.free(NPU, 0, bytes);
            }
            prop_assert!(sram.filling(0).1 <= 100);
        }
    }
}
