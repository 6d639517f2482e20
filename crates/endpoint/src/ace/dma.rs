//! The DMAs between main memory and the SRAM.
//!
//! A chunk streams over memory and bus at once, so it is there when the slower is done. With LogGP buses
//! ([`crate::loggp`]) it goes as a train of messages over one bus and then over the other: memory is asked for what is
//! written back when the first message is across, so that the TX DMA can use it until then. The DMAs have SRAM ports of
//! their own.

use super::config::AceConfig;
use crate::loggp::Train;
use crate::servers::{RateServer, ResourceUse};
use syncline_core::{Bytes, Ps};

/// The DMAs of all NPUs.
#[derive(Debug)]
pub(super) struct Dmas {
    memory: RateServer,
    tx_bus: RateServer,
    rx_bus: RateServer,
    charge_writes: bool,
    /// Whether buses have a protocol, so that memory and bus come one after the other.
    in_trains: bool,
    /// Bytes.
    read: u64,
    written: u64,
}

/// What becomes of a chunk that is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteBack {
    /// It is in memory at this time.
    Done(Ps),
    /// It is across the bus at these times, and memory is to be asked for when its first message is
    /// ([`Dmas::write_across`]).
    Crossing(Train),
}

impl Dmas {
    /// Those of `npus` NPUs, all idle.
    pub fn new(config: &AceConfig, npus: u32) -> Dmas {
        let server = |name, rate| RateServer::new(name, rate, npus).with_protocol(config.protocol);
        Dmas {
            memory: server("memory", config.memory),
            tx_bus: server("bus_tx", config.bus),
            rx_bus: server("bus_rx", config.bus),
            charge_writes: config.charge_writes,
            in_trains: config.protocol.is_some(),
            read: 0,
            written: 0,
        }
    }

    /// The TX DMA loads a chunk; returns when it has.
    pub fn load(&mut self, npu: usize, now: Ps, bytes: Bytes) -> Ps {
        self.read += bytes.0;
        if self.in_trains {
            let read = self.memory.transfer(npu, Train::at(now), bytes);
            return self.tx_bus.transfer(npu, read, bytes).last;
        }
        self.memory.serve(npu, now, bytes).max(self.tx_bus.serve(npu, now, bytes))
    }

    /// The RX DMA writes a chunk back.
    pub fn write_back(&mut self, npu: usize, now: Ps, bytes: Bytes) -> WriteBack {
        if !self.in_trains {
            return WriteBack::Done(self.store(npu, now, bytes));
        }
        self.written += bytes.0;
        let across = self.rx_bus.transfer(npu, Train::at(now), bytes);
        if self.charge_writes { WriteBack::Crossing(across) } else { WriteBack::Done(across.last) }
    }

    /// A chunk that is across the bus goes to memory; returns when it is there.
    pub fn write_across(&mut self, npu: usize, across: Train, bytes: Bytes) -> Ps {
        self.memory.transfer(npu, across, bytes).last
    }

    /// The RX DMA writes the next bytes of a stream; returns when it has.
    pub fn store(&mut self, npu: usize, now: Ps, bytes: Bytes) -> Ps {
        self.written += bytes.0;
        let across = self.rx_bus.stream(npu, now, bytes);
        let ready = if self.in_trains { across } else { now };
        if self.charge_writes { across.max(self.memory.stream(npu, ready, bytes)) } else { across }
    }

    /// Bytes read from memory so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Bytes written to memory so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What memory, the bus to the SRAM and the bus from it did.
    pub fn usage(&self) -> [&ResourceUse; 3] {
        [&self.memory.usage, &self.tx_bus.usage, &self.rx_bus.usage]
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::config;
    use super::*;
    use crate::loggp::LogGp;
    use syncline_core::Rate;

    const MS: u64 = 1_000_000_000;

    /// Memory of 1 B/ns and buses of so many bytes per microsecond, or with a protocol that costs nothing.
    fn dmas(bus: u64, charge_writes: bool, free_protocol: bool) -> Dmas {
        let [memory, bus] = [1000, bus].map(|bytes| Rate::new(bytes * 1_000_000).expect("positive"));
        let nothing = LogGp { latency: Ps::ZERO, overhead: Ps::ZERO, gap: Ps::ZERO, message: Some(Bytes(100)) };
        Dmas::new(&AceConfig { memory, bus, charge_writes, protocol: free_protocol.then_some(nothing), ..config() }, 2)
    }

    #[test]
    fn the_slower_of_memory_and_bus_sets_the_pace() {
        for (bus, time) in [(2000, 1000), (1000, 1000), (500, 2000)] {
            let mut dmas = dmas(bus, false, false);
            let ends: Vec<Ps> = (0..3).map(|_| dmas.load(0, Ps(0), Bytes(1_000_000))).collect();
            assert_eq!(ends, [1, 2, 3].map(|n| Ps(n * time * 1_000_000)), "bus of {bus} B/us");
            assert_eq!(dmas.load(1, Ps(7), Bytes(0)), Ps(7), "another NPU, and nothing to load");
            assert_eq!((dmas.read(), dmas.written()), (3_000_000, 0));
        }
    }

    #[test]
    fn writes_take_memory_if_they_are_charged() {
        for (charged, end) in [(false, MS), (true, 2 * MS)] {
            let mut dmas = dmas(2000, charged, false);
            dmas.load(0, Ps(0), Bytes(1_000_000));
            let done = dmas.write_back(0, Ps(0), Bytes(1_000_000));
            // The bus takes half of the time that memory does, which is busy with the load until then.
            let WriteBack::Done(done) = done else { panic!("no train without a protocol: {done:?}") };
            assert_eq!(done, Ps(if charged { end } else { MS / 2 }));
            assert_eq!((dmas.read(), dmas.written()), (1_000_000, 1_000_000));
        }
    }

    #[test]
    fn a_train_crosses_one_bus_after_the_other() {
        let mut dmas = dmas(1000, true, true);
        let done = dmas.write_back(0, Ps(0), Bytes(250));
        let across = Train { first: Ps(100_000), last: Ps(250_000) };
        assert_eq!(done, WriteBack::Crossing(across));
        // The second one is as fast, and begins when the first message is there: after 100 B.
        assert_eq!(dmas.write_across(0, across, Bytes(250)), Ps(350_000));
        assert_eq!(dmas.load(1, Ps(0), Bytes(250)), Ps(350_000));
        let mut free = self::dmas(1000, false, true);
        assert_eq!(free.write_back(0, Ps(0), Bytes(250)), WriteBack::Done(Ps(250_000)));
    }

    #[test]
    fn what_is_stored_bit_by_bit_is_counted_like_a_chunk() {
        let (mut parts, mut whole) = (dmas(500, true, false), dmas(500, true, false));
        let ends: Vec<Ps> = [300, 0, 700].into_iter().map(|len| parts.store(0, Ps(0), Bytes(len))).collect();
        assert_eq!(whole.store(0, Ps(0), Bytes(1000)), ends[2]);
        assert!(ends.is_sorted());
        assert_eq!(parts.written(), whole.written());
    }
}
