//! The ports of the SRAM's banks, and the ALUs between them.
//!
//! A packet takes the read port of a bank if local data is read, an ALU if it is added, and the write port of a bank if
//! it is kept, each for `length / width` cycles, rounded up to whole ones, and all of them at once: it waits for the
//! latest. Data is interleaved over the banks, so that any bank serves.

use super::config::AceConfig;
use super::handling::Handling;
use crate::servers::{PoolServer, ResourceUse};
use syncline_core::{Bytes, Ps, Rate};

/// Bank ports and ALUs of all NPUs.
#[derive(Debug)]
pub(super) struct Banks {
    read: PoolServer,
    write: PoolServer,
    alus: PoolServer,
    /// Bytes of a cycle, and of a second.
    width: u32,
    rate: Rate,
    /// Bytes of a full packet, and how long it takes.
    full: (u32, Ps),
}

impl Banks {
    /// Those of `npus` NPUs, all idle, for packets of at most `packet` bytes.
    pub fn new(config: &AceConfig, packet: u32, npus: u32) -> Banks {
        let rate = config.clock.bytes_per_cycle(u64::from(config.port_bytes)).unwrap_or(Rate::UNLIMITED);
        let mut banks = Banks {
            read: PoolServer::new("sram_read", config.banks, npus),
            write: PoolServer::new("sram_write", config.banks, npus),
            alus: PoolServer::new("alu", config.alus, npus),
            width: config.port_bytes,
            rate,
            full: (packet, Ps::ZERO),
        };
        banks.full.1 = banks.time(packet);
        banks
    }

    /// How long a packet takes a port or an ALU.
    #[inline]
    pub fn time(&self, len: u32) -> Ps {
        // The time of a full packet is known; it is asked for most often.
        if len == self.full.0 && self.full.1 > Ps::ZERO {
            return self.full.1;
        }
        self.rate.time(Bytes(u64::from(len.next_multiple_of(self.width))))
    }

    /// Takes what a packet of `len` bytes needs, from when all of it is free, and accounts its wait to what is free last.
    /// Returns when that is.
    #[inline]
    pub fn take(&mut self, npu: usize, now: Ps, handling: Handling, len: u32) -> Ps {
        let Handling { reads, reduces, stores, .. } = handling;
        let busy = self.time(len);
        let mut start = now;
        let mut cause = None;
        let idle = (0, Ps::ZERO);
        let (read, read_free) = if reads { self.read.earliest(npu) } else { idle };
        let (write, write_free) = if stores { self.write.earliest(npu) } else { idle };
        let (alu, alu_free) = if reduces { self.alus.earliest(npu) } else { idle };
        if read_free > start {
            (start, cause) = (read_free, Some(&mut self.read.usage));
        }
        if write_free > start {
            (start, cause) = (write_free, Some(&mut self.write.usage));
        }
        if alu_free > start {
            (start, cause) = (alu_free, Some(&mut self.alus.usage));
        }
        if let Some(cause) = cause {
            cause.wait += u128::from((start - now).0);
        }
        if reads {
            self.read.occupy(npu, read, start, busy);
        }
        if stores {
            self.write.occupy(npu, write, start, busy);
        }
        if reduces {
            self.alus.occupy(npu, alu, start, busy);
        }
        start
    }

    /// What read ports, write ports and ALUs did.
    pub fn usage(&self) -> [&ResourceUse; 3] {
        [&self.read.usage, &self.write.usage, &self.alus.usage]
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::config;
    use super::*;
    use syncline_collective::Op;

    /// One NPU with two banks and one ALU of 64 B per cycle of 1 ns.
    fn banks() -> Banks {
        Banks::new(&AceConfig { banks: 2, alus: 1, ..config() }, 256, 1)
    }

    #[test]
    fn a_packet_takes_whole_cycles() {
        let banks = banks();
        for (len, cycles) in [(0, 0), (1, 1), (64, 1), (65, 2), (256, 4), (1000, 16)] {
            assert_eq!(banks.time(len), Ps(cycles * 1000), "{len} B");
        }
    }

    #[test]
    fn reads_rotate_over_the_banks_and_then_wait() {
        let mut banks = banks();
        let read = Handling::of(Op::Send);
        let starts: Vec<Ps> = (0..5).map(|_| banks.take(0, Ps(0), read, 256)).collect();
        assert_eq!(starts, [0, 0, 4000, 4000, 8000].map(Ps));
        assert_eq!(banks.usage().map(|usage| (usage.served, usage.wait)), [(5, 16_000), (0, 0), (0, 0)]);
    }

    #[test]
    fn all_that_a_packet_needs_is_taken_at_once_and_its_wait_is_the_latest_ones() {
        let mut banks = banks();
        let [add, store] = [Op::RecvReduceCopySend, Op::Recv].map(Handling::of);
        assert_eq!(banks.take(0, Ps(0), add, 256), Ps(0));
        // A bank would be free, but the ALU is not; so the write port that this takes is taken from then on.
        assert_eq!(banks.take(0, Ps(0), add, 256), Ps(4000));
        assert_eq!(banks.take(0, Ps(1000), store, 64), Ps(4000));
        let [read, write, alu] = banks.usage();
        assert_eq!((read.wait, write.wait, alu.wait), (0, 3000, 4000));
        assert_eq!((read.busy, write.busy, alu.busy), (8000, 9000, 8000));
    }

    #[test]
    fn what_only_passes_takes_nothing() {
        let mut banks = banks();
        (0..9).for_each(|_| assert_eq!(banks.take(0, Ps(0), Handling::PASS, 256), Ps(0)));
        assert!(banks.usage().iter().all(|usage| usage.busy == 0));
    }
}
