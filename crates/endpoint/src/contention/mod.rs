//! The baseline whose communication and compute kernels share an NPU while both run.
//!
//! # What is shared
//! Measured slowdowns (ACE paper, section III and Fig. 4) come from two resources, which a static split
//! ([`costs`](crate::costs)) divides once and for all and this model whenever what runs changes:
//!
//! | resource | capacity | communication uses it with | a kernel uses it with |
//! |---|---|---|---|
//! | issue time of an SM | what it reads of messages, bytes/s | `comm_warps` warps on each of `comm_sms` SMs | its warps on every SM |
//! | main memory | bytes/s | all its warps | all its warps |
//!
//! Every warp is a flow; each resource is shared max-min fairly among the warps that use it ([`Filling`](syncline_core::share::Filling)):
//!
//! ```text
//!   on an SM with communication   rate of communication  = C w_comm / (w_comm + sum of w_k)        C: one SM's rate
//!   speed of kernel k by its SMs  f_k = issue time of its warps on all SMs / what they have there if it is alone
//!   in memory                     a warp of kernel k wants at most f_k D_k / warps, one of communication all it can get
//!   speed of kernel k             f_k, or less in proportion if memory gives it less than f_k D_k
//! ```
//!
//! * A kernel takes all the issue time that it is offered. Its demand `D` on memory is its bytes over its time alone,
//!   or the whole memory if that is less; so a kernel beside nothing runs exactly as if it were alone. A duration that
//!   was measured has no known demand, and counts as issue time only.
//! * Shares depend on warps, so a kernel of low occupancy takes less. Warps of several kernels add up, even to more
//!   than an SM has slots for: thread blocks that wait their turn then count as if they ran.
//! * Communication is served as in the static split, first come, first served: what a step reads goes through the SMs
//!   and through memory at once, each a server, here one whose rate varies; writes go through memory if they are
//!   charged; the bus is communication's own. Each of the two servers competes while it has work that is ready, and
//!   not in between: what communication leaves idle between messages, kernels have. Without kernels, times are those
//!   of the static split with all the memory and the same SMs.
//! * The communication of an NPU is that of all its communicators, and messages between two ranks: they have these SMs and
//!   warps together, and queue for the same two servers, whichever [room](crate::rooms) they are in.
//!
//! Rates are constant between changes: a kernel or a piece of communication starts or ends. All of it is integer arithmetic on
//! [`Share`](syncline_core::share::Share) and [`Work`](syncline_core::share::Work); ends are rounded up to the next picosecond, and nothing depends on an NPU's number.
//!
//! Left out: caches, the time that a warp waits for memory (which lowers what it wants of an SM), launches, and thread
//! blocks that must wait until others leave their SM.

mod giving_way;
mod load;
mod npu;
mod shares;

pub use giving_way::{GivingWay, Whole};
pub use load::{ContentionConfig, Load};

use crate::api::{EpOut, Report};
use crate::costs::{BaselineConfig, StepCost, reads_per_byte, writes};
use crate::kernel::Kernel;
use crate::servers::RateServer;
use crate::work_done::WorkDone;
use npu::{Npu, Outlet};
use shares::{ALONE, Rating, Sharing};
use syncline_collective::Op;
use syncline_core::share::{Share, Work};
use syncline_core::{Bytes, NodeId, Ps, Schedule};

/// All NPUs, with what runs on them.
#[derive(Debug)]
struct Running<R> {
    rating: R,
    npus: Vec<Npu>,
    out: Outlet,
}

impl<R: Rating> Running<R> {
    fn new(rating: R, out: Outlet, npus: u32) -> Running<R> {
        Running { rating, npus: (0..npus).map(|n| Npu::new(NodeId(n))).collect(), out }
    }

    /// Something begins or ends on an NPU, and shares change.
    fn change<Q: Schedule<WorkDone>>(
        &mut self,
        npu: usize,
        now: Ps,
        q: &mut Q,
        out: &mut Vec<EpOut>,
        change: impl FnOnce(&mut Npu),
    ) {
        let npu = &mut self.npus[npu];
        npu.advance(now);
        change(npu);
        npu.settle(&mut self.rating, &mut self.out, q);
        out.append(&mut self.out.outputs);
    }

    /// The timer of an NPU fires.
    fn share_anew<Q: Schedule<WorkDone>>(&mut self, npu: usize, now: Ps, q: &mut Q, out: &mut Vec<EpOut>) {
        if self.npus[npu].is_due(now) {
            self.change(npu, now, q, out, |_| {});
        }
    }
}

/// The baseline with dynamic contention, of all NPUs.
#[derive(Debug)]
pub struct Contended {
    running: Running<Sharing>,
    bus_in: RateServer,
    charge_writes: bool,
    read: u64,
    written: u64,
}

impl Contended {
    /// The NPUs, on each of which the `steady` loads run from beginning to end.
    pub fn new(config: BaselineConfig, contention: ContentionConfig, steady: Vec<Load>, npus: u32) -> Contended {
        let sharing = Sharing::new(config.memory, config.sms, contention, steady);
        Contended {
            running: Running::new(sharing, Outlet::new(RateServer::new("bus_tx", config.bus, npus)), npus),
            bus_in: RateServer::new("bus_rx", config.bus, npus),
            charge_writes: config.charge_writes,
            read: 0,
            written: 0,
        }
    }

    /// How long communication of `bytes` and a kernel of `alone` beside nothing take if everything runs that may, two
    /// streams of kernels of so many `warps` included, and all of them want all they can get; `None` for ever.
    pub fn at_worst(
        config: BaselineConfig,
        contention: ContentionConfig,
        mut steady: Vec<Load>,
        warps: u64,
        (bytes, alone): (Bytes, Ps),
    ) -> Option<(Ps, Ps)> {
        let memory = Share::of(config.memory);
        steady.iter_mut().for_each(|load| load.memory = memory);
        let kernels = [Load { warps, memory }; 2].into_iter();
        let mut sharing = Sharing::new(config.memory, config.sms, contention, steady);
        let rates = sharing.solve([true, true], kernels);
        let communication = rates.communication.into_iter().min()?;
        Some((communication.time(Work::of(bytes))?, rates.speeds[0].time(ALONE.work(alone))?))
    }
}

impl StepCost for Contended {
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, len: Bytes, done: WorkDone, q: &mut Q) {
        let npu = done.npu().index();
        let mut ready = now;
        if op.receives() {
            ready = self.bus_in.serve(npu, now, len);
        }
        self.written += if writes(op) { len.0 } else { 0 };
        let read = Bytes(reads_per_byte(op) * len.0);
        self.read += read.0;
        let step = npu::Transfer {
            ready,
            write: (writes(op) && self.charge_writes).then_some(len),
            read,
            send: op.sends().then_some(len),
            done: q.owned(done.key(), done),
        };
        let Running { rating, npus, out } = &mut self.running;
        let npu = &mut npus[npu];
        npu.advance(now);
        npu.communicate(step, out, q);
        npu.settle(rating, out, q);
        assert!(out.outputs.is_empty(), "the timer, which goes first, ends the kernels that end now");
    }

    fn compute<Q: Schedule<WorkDone>>(
        &mut self,
        npu: usize,
        stream: u8,
        kernels: &[Kernel],
        now: Ps,
        q: &mut Q,
        out: &mut Vec<EpOut>,
    ) -> Option<Ps> {
        self.running.change(npu, now, q, out, |npu| npu.compute(stream, kernels));
        None
    }

    fn share_anew<Q: Schedule<WorkDone>>(&mut self, npu: usize, now: Ps, q: &mut Q, out: &mut Vec<EpOut>) {
        self.running.share_anew(npu, now, q, out);
    }

    fn report(&self, report: &mut Report) {
        report.buses = &["memory", "bus_tx", "bus_rx"];
        report.memory_read = self.read;
        report.memory_written = self.written;
        let Outlet { memory, sms, bus, .. } = &self.running.out;
        report.resources.extend([memory, sms, &bus.usage, &self.bus_in.usage].map(Clone::clone));
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
