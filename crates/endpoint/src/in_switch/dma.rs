//! What a step costs an NPU whose sums are made in switches.
//!
//! Reads of a DMA that streams data out, one byte per byte sent, are charged against the memory bandwidth that
//! communication has and the bus; what arrives crosses the bus and is written, recorded always and charged
//! with `charge_writes`. Adding takes SMs: a step that adds, or passes on what it receives, is a kernel's and
//! costs what it costs the baseline (`costs`). So SMs are needed for phases that no switch can take, and for
//! no others.

use crate::api::Report;
use crate::costs::{Datapath, StepCost};
use crate::servers::RateServer;
use crate::work_done::WorkDone;
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
pub struct Dma(Datapath);

/// Whether a step is a kernel's.
pub const fn needs_sms(op: Op) -> bool {
    op.reduces() || op.receives() && op.sends()
}

impl Dma {
    /// Those of `npus` NPUs.
    pub fn new(config: DmaConfig, npus: u32) -> Dma {
        Dma(Datapath {
            memory: RateServer::new("memory", config.memory, npus),
            sms: config.sms.map(|rate| RateServer::new("sm", rate, npus)),
            bus_out: RateServer::new("bus_tx", config.bus, npus),
            bus_in: RateServer::new("bus_rx", config.bus, npus),
            charge_writes: config.charge_writes,
            read: 0,
            written: 0,
        })
    }
}

impl StepCost for Dma {
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, len: Bytes, done: WorkDone, q: &mut Q) {
        let at = self.0.stream(done.npu().index(), now, op, len, needs_sms(op));
        q.at(at, done.key(), done);
    }

    fn report(&self, report: &mut Report) {
        self.0.report(report);
    }
}
