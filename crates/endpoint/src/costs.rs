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

use crate::api::Report;
use crate::servers::RateServer;
use syncline_collective::Op;
use syncline_core::{Bytes, Ps, Rate};

/// What a step costs an endpoint that works on whole messages.
pub trait StepCost {
    /// When the work of a step on a block of `len` bytes that was ready at `now` is done.
    fn work(&mut self, npu: usize, now: Ps, op: Op, len: Bytes) -> Ps;

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
    fn work(&mut self, _: usize, now: Ps, _: Op, _: Bytes) -> Ps {
        now + self.step
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
}

/// SMs and main memory.
#[derive(Clone, Debug)]
pub struct Baseline {
    memory: RateServer,
    sms: RateServer,
    bus_out: RateServer,
    bus_in: RateServer,
    charge_writes: bool,
    read: u64,
    written: u64,
}

impl Baseline {
    /// The baseline of `npus` NPUs.
    pub fn new(config: BaselineConfig, npus: u32) -> Baseline {
        Baseline {
            memory: RateServer::new("memory", config.memory, npus),
            sms: RateServer::new("sm", config.sms, npus),
            bus_out: RateServer::new("bus_tx", config.bus, npus),
            bus_in: RateServer::new("bus_rx", config.bus, npus),
            charge_writes: config.charge_writes,
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

impl StepCost for Baseline {
    fn work(&mut self, npu: usize, now: Ps, op: Op, len: Bytes) -> Ps {
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

    fn report(&self, report: &mut Report) {
        report.memory_read = self.read;
        report.memory_written = self.written;
        report.resources.extend([&self.memory, &self.sms, &self.bus_out, &self.bus_in].map(|s| s.usage.clone()));
    }
}
