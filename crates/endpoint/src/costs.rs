//! What endpoints that work on whole messages charge for a step.
//!
//! # Ideal
//! ACE paper, Table VI: whatever arrives is processed within one cycle. The upper bound.
//!
//! # Baseline
//! SMs drive the collective through main memory (ACE paper, sections III and VI-A). Per byte of a block:
//!
//! | step | read from memory |
//! |---|---|
//! | send, copy and send | 1 (the data that goes out) |
//! | reduce and send, with or without a copy | 2 (local and received) |
//! | last reduction, not sent | 1 (the paper's count: 2 per byte *sent*; what the first send does not need, the last reduction does) |
//! | last receive | 0 |
//!
//! which makes 2 per byte sent in reduce-scatter, 1 in all-gather, 1.5 on average. Received bytes cross
//! the bus and are written to memory: recorded, and charged only with `charge_writes`. Reading streams
//! through three servers at once (memory bandwidth, SMs, the bus towards the AFI); the step is done
//! when the slowest is. Left out: kernel launches and caches.
//!
//! With LogGP buses ([`crate::loggp`]) a block is stored between them (first version of the ACE paper, section 4.2
//! and Fig. 7b): it crosses the NIC bus, is written to memory (if writes are charged), the data of the step is read, one
//! transfer per block, and what is sent crosses the NIC bus. The memory bandwidth of communication is the bandwidth of
//! its bus. A step asks for each bus when it is there, so that other steps use a bus while it is on another.

use crate::api::Report;
use crate::loggp::LogGp;
use crate::servers::RateServer;
use syncline_collective::Op;
use syncline_core::{Bytes, Ps, Rate};

/// Most stages of the work of a step.
pub const STAGES: usize = 4;

/// What a step costs an endpoint that works on whole messages.
pub trait StepCost {
    /// When the work of a step on a block of `len` bytes that was ready at `now` is done; or, if it comes in several
    /// stages, when the given one is, and the number of the next. The first is 0.
    fn work(&mut self, npu: usize, now: Ps, op: Op, len: Bytes, stage: u8) -> (Ps, Option<u8>);

    /// Adds what was used to a report.
    fn report(&self, report: &mut Report);
}

/// Every step takes the same short time.
#[derive(Clone, Debug)]
pub struct Ideal {
    /// Time per step: one cycle.
    pub step: Ps,
}

impl StepCost for Ideal {
    fn work(&mut self, _: usize, now: Ps, _: Op, _: Bytes, _: u8) -> (Ps, Option<u8>) {
        (now + self.step, None)
    }

    fn report(&self, _: &mut Report) {}
}

/// What the baseline's communication may use.
#[derive(Clone, Copy, Debug)]
pub struct BaselineConfig {
    /// Main-memory bandwidth.
    pub memory: Rate,
    /// What its SMs can read.
    pub sms: Rate,
    /// NPU-AFI bus, each direction.
    pub bus: Rate,
    /// Whether writes to memory are charged.
    pub charge_writes: bool,
    /// What a message costs the buses to the NIC and to memory beside its bytes.
    pub protocol: Option<LogGp>,
}

/// SMs and main memory.
#[derive(Clone, Debug)]
pub struct Baseline {
    memory: RateServer,
    sms: RateServer,
    bus_out: RateServer,
    bus_in: RateServer,
    charge_writes: bool,
    stored: bool,
    read: u64,
    written: u64,
}

impl Baseline {
    /// The baseline of `npus` NPUs.
    pub fn new(config: BaselineConfig, npus: u32) -> Baseline {
        let bus = |name, rate| RateServer::new(name, rate, npus).with_protocol(config.protocol);
        Baseline {
            memory: bus("memory", config.memory),
            sms: RateServer::new("sm", config.sms, npus),
            bus_out: bus("bus_tx", config.bus),
            bus_in: bus("bus_rx", config.bus),
            charge_writes: config.charge_writes,
            stored: config.protocol.is_some(),
            read: 0,
            written: 0,
        }
    }

    pub(crate) fn reads_per_byte(op: Op) -> u64 {
        match op {
            Op::RecvReduceSend | Op::RecvReduceCopySend => 2,
            Op::Send | Op::RecvReduce | Op::RecvCopySend => 1,
            Op::Recv => 0,
        }
    }
}

impl Baseline {
    /// The stages of a step whose data is stored between the buses: over the NIC bus, into memory, out of memory,
    /// over the NIC bus.
    fn stored_work(&mut self, npu: usize, now: Ps, op: Op, len: Bytes, stage: u8) -> (Ps, Option<u8>) {
        let reads = Self::reads_per_byte(op);
        let stages = [op.receives(), op.receives() && self.charge_writes, reads > 0, op.sends()];
        let after = |from: u8| (from..).zip(&stages[usize::from(from)..]).find_map(|(s, used)| used.then_some(s));
        let stage = after(stage).expect("every step sends or receives");
        let done = match stage {
            0 => {
                self.written += len.0;
                self.bus_in.serve(npu, now, len)
            }
            1 => self.memory.serve(npu, now, len),
            2 => {
                self.read += reads * len.0;
                let last = (0..reads).map(|_| self.memory.serve(npu, now, len)).last();
                self.sms.serve(npu, now, Bytes(reads * len.0)).max(last.unwrap_or(now))
            }
            _ => self.bus_out.serve(npu, now, len),
        };
        (done, after(stage + 1))
    }

    /// A step whose data streams through memory, SMs and bus at once.
    fn streamed_work(&mut self, npu: usize, now: Ps, op: Op, len: Bytes) -> Ps {
        let mut ready = now;
        if op.receives() {
            self.written += len.0;
            ready = self.bus_in.serve(npu, now, len);
            if self.charge_writes {
                ready = ready.max(self.memory.serve(npu, now, len));
            }
        }
        let read = Bytes(Self::reads_per_byte(op) * len.0);
        self.read += read.0;
        let mut done = ready;
        if read.0 > 0 {
            done = self.memory.serve(npu, ready, read).max(self.sms.serve(npu, ready, read));
        }
        if op.sends() {
            done = done.max(self.bus_out.serve(npu, ready, len));
        }
        done
    }
}

impl StepCost for Baseline {
    #[inline]
    fn work(&mut self, npu: usize, now: Ps, op: Op, len: Bytes, stage: u8) -> (Ps, Option<u8>) {
        match self.stored {
            true => self.stored_work(npu, now, op, len, stage),
            false => (self.streamed_work(npu, now, op, len), None),
        }
    }

    fn report(&self, report: &mut Report) {
        report.buses = &["memory", "bus_tx", "bus_rx"];
        report.memory_read = self.read;
        report.memory_written = self.written;
        report.resources.extend([&self.memory, &self.sms, &self.bus_out, &self.bus_in].map(|s| s.usage.clone()));
    }
}
