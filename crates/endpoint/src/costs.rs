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

use crate::api::{EpOut, Report};
use crate::contention::Kernel;
use crate::message::WorkDone;
use crate::servers::RateServer;
use syncline_collective::Op;
use syncline_core::{Bytes, Ps, Rate, Schedule};

/// What a step costs an endpoint that works on whole messages.
pub trait StepCost {
    /// Works on a block of `len` bytes that was ready at `now`, and has `done` happen, under its key, when the
    /// work is done. What comes first is done first as long as all of it is of one kind of step.
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, len: Bytes, done: WorkDone, q: &mut Q);

    /// A stream of an NPU computes some kernels, as [`Endpoint::compute`](crate::Endpoint::compute) has it.
    fn compute<Q: Schedule<WorkDone>>(
        &mut self,
        _npu: usize,
        _stream: u8,
        kernels: &[Kernel],
        now: Ps,
        _q: &mut Q,
        _out: &mut Vec<EpOut>,
    ) -> Option<Ps> {
        Some(Kernel::alone(kernels, now))
    }

    /// What an NPU's work and kernels share may have to be shared anew: a timer that the model has set. One of
    /// a fixed split sets none.
    fn share_anew<Q: Schedule<WorkDone>>(
        &mut self,
        _npu: usize,
        _generation: u32,
        _now: Ps,
        _q: &mut Q,
        _out: &mut Vec<EpOut>,
    ) {
    }

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
    #[inline]
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, _: Op, _: Bytes, done: WorkDone, q: &mut Q) {
        q.at(now + self.step, done.key(), done);
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

    /// When a step on a block that is ready at `now` is done.
    #[inline]
    fn serve(&mut self, npu: usize, now: Ps, op: Op, len: Bytes) -> Ps {
        let mut ready = now;
        if op.receives() {
            self.written += len.0;
            ready = self.bus_in.serve(npu, now, len);
            if self.charge_writes {
                ready = ready.max(self.memory.serve(npu, now, len));
            }
        }
        let read = Bytes(reads_per_byte(op) * len.0);
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

/// Bytes that a step of the baseline reads from memory per byte of its block.
pub(crate) fn reads_per_byte(op: Op) -> u64 {
    match op {
        Op::RecvReduceSend | Op::RecvReduceCopySend => 2,
        Op::Send | Op::RecvReduce | Op::RecvCopySend => 1,
        Op::Recv => 0,
    }
}

impl StepCost for Baseline {
    #[inline]
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, len: Bytes, done: WorkDone, q: &mut Q) {
        let at = self.serve(done.npu().index(), now, op, len);
        q.at(at, done.key(), done);
    }

    fn report(&self, report: &mut Report) {
        report.memory_read = self.read;
        report.memory_written = self.written;
        report.resources.extend([&self.memory, &self.sms, &self.bus_out, &self.bus_in].map(|s| s.usage.clone()));
    }
}
