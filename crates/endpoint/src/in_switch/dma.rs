//! What a step costs an NPU whose sums are made in switches.
//!
//! Reads of a DMA that streams data out, one byte per byte sent, are charged against the memory bandwidth that
//! communication has and the bus; what arrives crosses the bus and is written, recorded always and charged
//! with `charge_writes`. Adding takes SMs: a step that adds, or passes on what it receives, is a kernel's and
//! costs what it costs the baseline (`costs`). So SMs are needed for phases that no switch can take, and for
//! no others.

use crate::api::Report;
use crate::costs::{StepCost, reads_per_byte};
use crate::message::WorkDone;
use crate::servers::RateServer;
use syncline_collective::Op;
use syncline_core::{Bytes, Ps, Rate, Schedule};

/// What communication may use of an NPU.
#[derive(Clone, Copy, Debug)]
pub struct DmaConfig {
    /// Main-memory bandwidth.
    pub memory: Rate,
    /// What its SMs can read; `None` if there are none.
    pub sms: Option<Rate>,
    /// NPU-AFI bus, each direction.
    pub bus: Rate,
    /// Whether writes to memory are charged.
    pub charge_writes: bool,
}

/// DMAs, and SMs for what DMAs cannot do.
#[derive(Clone, Debug)]
pub struct Dma {
    memory: RateServer,
    sms: Option<RateServer>,
    bus_out: RateServer,
    bus_in: RateServer,
    charge_writes: bool,
    read: u64,
    written: u64,
}

/// Whether a step is a kernel's.
pub const fn needs_sms(op: Op) -> bool {
    op.reduces() || op.receives() && op.sends()
}

impl Dma {
    /// Those of `npus` NPUs.
    pub fn new(config: DmaConfig, npus: u32) -> Dma {
        Dma {
            memory: RateServer::new("memory", config.memory, npus),
            sms: config.sms.map(|rate| RateServer::new("sm", rate, npus)),
            bus_out: RateServer::new("bus_tx", config.bus, npus),
            bus_in: RateServer::new("bus_rx", config.bus, npus),
            charge_writes: config.charge_writes,
            read: 0,
            written: 0,
        }
    }
}

impl StepCost for Dma {
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, len: Bytes, done: WorkDone, q: &mut Q) {
        let npu = done.npu().index();
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
        let mut until = ready;
        if read.0 > 0 {
            until = self.memory.serve(npu, ready, read);
            if let Some(sms) = self.sms.as_mut().filter(|_| needs_sms(op)) {
                until = until.max(sms.serve(npu, ready, read));
            }
        }
        if op.sends() {
            until = until.max(self.bus_out.serve(npu, ready, len));
        }
        q.at(until, done.key(), done);
    }

    fn report(&self, report: &mut Report) {
        report.buses = &["memory", "bus_tx", "bus_rx"];
        report.memory_read = self.read;
        report.memory_written = self.written;
        report.resources.push(self.memory.usage.clone());
        report.resources.extend(self.sms.iter().map(|s| s.usage.clone()));
        report.resources.extend([&self.bus_out, &self.bus_in].map(|s| s.usage.clone()));
    }
}
