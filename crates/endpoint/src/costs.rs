//! What endpoints that work on whole messages charge for a step.
//!
//! # Ideal
//! ACE paper, Table VI: what is received is processed within one cycle, message by message, or packet by packet
//! ([`crate::MessageEndpoint::packet_by_packet`]), which makes it the upper bound of what streams. A message may take an
//! injection latency (HOTI 2020) from its arrival until a step may work on it.
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
//! | local copy | 1 |
//! | local reduction | 2 (both summands) |
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

use crate::api::{EpOut, Report};
use crate::kernel::{Held, Kernel};
use crate::link_delays::LinkDelays;
use crate::loggp::LogGp;
use crate::servers::RateServer;
use crate::work_done::WorkDone;
use syncline_collective::Op;
use syncline_core::{Bytes, Ps, Rate, Schedule};

/// Most stages of the work of a step.
pub const STAGES: usize = 4;

/// What a step costs an endpoint that works on whole messages.
pub trait StepCost {
    /// How long a message takes from its arrival until a step may work on it, whatever else is delayed at the time
    /// (`message::injection`).
    fn injection(&self) -> Ps {
        Ps::ZERO
    }

    /// In how many stages the work of a step comes, one after the other; at most [`STAGES`].
    fn stages(&self, _op: Op) -> u8 {
        1
    }

    /// Works on a block of `len` bytes that was ready at `now`, at the stage that `done` names, and has `done`
    /// happen, under its key, when that is done. A model that learns the time of that only in a later call keeps `done` as
    /// [`Schedule::owned`], since that call may come from another room. What comes to a stage first is done first as long as
    /// all of it is of one kind of step.
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, len: Bytes, done: WorkDone, q: &mut Q);

    /// Whether a thread is a stream: it does nothing until what it has sent has left, and what its NPU sends to a place goes in
    /// the order in which it comes, whatever thread it is of.
    fn holds_threads(&self) -> bool {
        false
    }

    /// How long an NPU with NVLinks takes, for each NPU of its group, until it can send over PCIe (`message::streams`).
    fn peer_access_latency(&self) -> Ps {
        Ps::ZERO
    }

    /// How long messages of streams are held up that share a link, if they are.
    fn link_delays(&mut self) -> Option<&mut LinkDelays> {
        None
    }

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

    /// Communication that holds something of an NPU begins there, or ends, as [`Endpoint::hold`](crate::Endpoint::hold) has it.
    fn hold<Q: Schedule<WorkDone>>(
        &mut self,
        _npu: usize,
        _held: Held,
        _begins: bool,
        _now: Ps,
        _q: &mut Q,
        _out: &mut Vec<EpOut>,
    ) {
    }

    /// What an NPU's work and kernels share may have to be shared anew: a timer that the model has set. One of
    /// a fixed split sets none.
    fn share_anew<Q: Schedule<WorkDone>>(&mut self, _npu: usize, _now: Ps, _q: &mut Q, _out: &mut Vec<EpOut>) {}

    /// Adds what was used to a report.
    fn report(&self, report: &mut Report);
}

/// Every step takes the same short time; so does one that copies or adds local data.
#[derive(Clone, Debug)]
pub struct Ideal {
    /// Time of what is received: one cycle.
    pub step: Ps,
    /// Time of what an NPU sends of its own.
    pub own: Ps,
    /// Time from the arrival of a message until it is there for a step.
    pub injection: Ps,
}

impl StepCost for Ideal {
    fn injection(&self) -> Ps {
        self.injection
    }

    #[inline]
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, _: Bytes, done: WorkDone, q: &mut Q) {
        q.at(now + if op == Op::Send { self.own } else { self.step }, done.key(), done);
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

/// What data of an NPU's steps passes: memory, SMs, and the bus to the network.
#[derive(Clone, Debug)]
pub(crate) struct Datapath {
    pub memory: RateServer,
    /// `None` if there are none, and no step needs them.
    pub sms: Option<RateServer>,
    pub bus_out: RateServer,
    pub bus_in: RateServer,
    pub charge_writes: bool,
    pub read: u64,
    pub written: u64,
}

impl Datapath {
    /// A step whose data streams through memory, SMs (if it is a kernel's) and bus at once. Apart from those who ask, so that
    /// their own work stays short enough to be part of every event.
    #[inline(never)]
    pub fn stream(&mut self, npu: usize, now: Ps, op: Op, len: Bytes, kernel: bool) -> Ps {
        let mut ready = now;
        if op.receives() {
            ready = self.bus_in.serve(npu, now, len);
        }
        if writes(op) {
            self.written += len.0;
            if self.charge_writes {
                ready = ready.max(self.memory.serve(npu, now, len));
            }
        }
        let read = Bytes(reads_per_byte(op) * len.0);
        self.read += read.0;
        let mut done = ready;
        if read.0 > 0 {
            done = self.memory.serve(npu, ready, read);
            if let Some(sms) = self.sms.as_mut().filter(|_| kernel) {
                done = done.max(sms.serve(npu, ready, read));
            }
        }
        if op.sends() {
            done = done.max(self.bus_out.serve(npu, ready, len));
        }
        done
    }

    /// Adds what was used to a report.
    pub fn report(&self, report: &mut Report) {
        report.buses = &["memory", "bus_tx", "bus_rx"];
        report.memory_read = self.read;
        report.memory_written = self.written;
        let servers = [Some(&self.memory), self.sms.as_ref(), Some(&self.bus_out), Some(&self.bus_in)];
        report.resources.extend(servers.into_iter().flatten().map(|s| s.usage.clone()));
    }
}

/// SMs and main memory.
#[derive(Clone, Debug)]
pub struct Baseline {
    path: Datapath,
    stored: bool,
}

impl Baseline {
    /// The baseline of `npus` NPUs.
    pub fn new(config: BaselineConfig, npus: u32) -> Baseline {
        let bus = |name, rate| RateServer::new(name, rate, npus).with_protocol(config.protocol);
        let path = Datapath {
            memory: bus("memory", config.memory),
            sms: Some(RateServer::new("sm", config.sms, npus)),
            bus_out: bus("bus_tx", config.bus),
            bus_in: bus("bus_rx", config.bus),
            charge_writes: config.charge_writes,
            read: 0,
            written: 0,
        };
        Baseline { path, stored: config.protocol.is_some() }
    }

    /// The places that a step whose data is stored between the buses comes to.
    fn stores(&self, op: Op) -> impl Iterator<Item = Store> {
        let uses = [
            (Store::BusIn, op.receives()),
            (Store::Write, writes(op) && self.path.charge_writes),
            (Store::Read, reads_per_byte(op) > 0),
            (Store::BusOut, op.sends()),
        ];
        uses.into_iter().filter_map(|(store, used)| used.then_some(store))
    }

    /// A stage of a step whose data is stored between the buses.
    fn stored_work(&mut self, npu: usize, now: Ps, op: Op, len: Bytes, stage: u8) -> Ps {
        let reads = reads_per_byte(op);
        let store = self.stores(op).nth(stage.into()).expect("work has as many stages as it is said to");
        let path = &mut self.path;
        match store {
            Store::BusIn => {
                path.written += len.0;
                path.bus_in.serve(npu, now, len)
            }
            Store::Write => path.memory.serve(npu, now, len),
            Store::Read => {
                path.read += reads * len.0;
                path.written += if op.receives() || !writes(op) { 0 } else { len.0 };
                let last = (0..reads).map(|_| path.memory.serve(npu, now, len)).last().unwrap_or(now);
                let sms = path.sms.as_mut().map_or(now, |sms| sms.serve(npu, now, Bytes(reads * len.0)));
                sms.max(last)
            }
            Store::BusOut => path.bus_out.serve(npu, now, len),
        }
    }
}

/// Where data that is stored between the buses has to pass.
#[derive(Clone, Copy, Debug)]
enum Store {
    BusIn,
    Write,
    Read,
    BusOut,
}

/// Whether a step writes to memory: what it receives, whatever becomes of it, or what it copies or adds locally.
pub(crate) fn writes(op: Op) -> bool {
    op.receives() || matches!(op, Op::Copy | Op::Reduce | Op::ResidualAdd)
}

/// Bytes that a step reads from memory per byte of its block.
pub(crate) fn reads_per_byte(op: Op) -> u64 {
    match op {
        Op::RecvReduceSend | Op::RecvReduceCopySend | Op::Reduce | Op::ResidualAdd => 2,
        Op::Send | Op::RecvReduce | Op::RecvCopySend | Op::Copy => 1,
        Op::Recv | Op::Nop => 0,
    }
}

impl StepCost for Baseline {
    #[inline]
    fn stages(&self, op: Op) -> u8 {
        if self.stored { self.stores(op).count() as u8 } else { 1 }
    }

    #[inline]
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, len: Bytes, done: WorkDone, q: &mut Q) {
        let npu = done.npu().index();
        let at = match self.stored {
            true => self.stored_work(npu, now, op, len, done.stage()),
            false => self.path.stream(npu, now, op, len, true),
        };
        q.at(at, done.key(), done);
    }

    fn report(&self, report: &mut Report) {
        self.path.report(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_core::Key;

    /// Ends of work in the order in which it was begun.
    #[derive(Default)]
    struct Ends(Vec<Ps>);

    impl Schedule<WorkDone> for Ends {
        fn at(&mut self, time: Ps, _: Key, _: WorkDone) {
            self.0.push(time);
        }
    }

    fn baseline(charge_writes: bool, protocol: Option<LogGp>) -> Baseline {
        let [memory, sms, bus] = [900, 700, 500].map(|gb| Rate::new(gb * 1_000_000_000).expect("positive"));
        Baseline::new(BaselineConfig { memory, sms, bus, charge_writes, protocol }, 1)
    }

    const BUS: LogGp = LogGp { latency: Ps(71_000), overhead: Ps(29_000), gap: Ps(31_000), message: Some(Bytes(4096)) };

    #[test]
    fn stages_are_the_places_that_data_comes_to() {
        let stages = |writes, protocol, op| baseline(writes, protocol).stages(op);
        for (op, written, unwritten) in
            [(Op::Send, 2, 2), (Op::RecvCopySend, 4, 3), (Op::RecvReduce, 3, 2), (Op::Recv, 2, 1)]
        {
            assert_eq!((stages(true, Some(BUS), op), stages(false, Some(BUS), op)), (written, unwritten), "{op:?}");
            assert_eq!(stages(true, None, op), 1, "{op:?}");
        }
    }

    /// Where data is stored between the buses: SMs that read 700 GB/s take longer than memory of 900 GB/s, for two bytes of each that
    /// is reduced and sent on, and for one of all others.
    #[test]
    fn sms_read_all_that_a_step_reads() {
        let len = Bytes(10_000_000);
        for (op, read) in [(Op::Send, 10), (Op::RecvCopySend, 10), (Op::RecvReduce, 10), (Op::RecvReduceSend, 20)] {
            let mut stored = baseline(false, Some(LogGp { message: None, ..BUS }));
            let stage = stored.stores(op).position(|store| matches!(store, Store::Read)).expect("it reads") as u8;
            let mut ends = Ends::default();
            stored.work(Ps(7), op, len, WorkDone::Transit { npu: 0, stage }, &mut ends);
            let expected = Rate::new(700_000_000_000).expect("positive").time(Bytes(read * 1_000_000));
            assert_eq!(ends.0, [Ps(7) + expected], "{op:?}");
        }
    }

    proptest! {
        /// Messages in transit rely on it: their events name none.
        #[test]
        fn a_stage_is_done_first_with_what_came_first(
            mut messages in prop::collection::vec((0u64..1_000_000, 0u64..100_000), 1..40), writes: bool, stored: bool,
        ) {
            messages.sort_unstable_by_key(|m| m.0);
            let mut cost = baseline(writes, stored.then_some(BUS));
            let mut came: Vec<Ps> = messages.iter().map(|m| Ps(m.0)).collect();
            for stage in 0..cost.stages(Op::RecvCopySend) {
                let mut ends = Ends::default();
                for (&at, &(_, len)) in came.iter().zip(&messages) {
                    let done = WorkDone::Transit { npu: 0, stage };
                    cost.work(at, Op::RecvCopySend, Bytes(len), done, &mut ends);
                }
                prop_assert_eq!(ends.0.len(), messages.len());
                prop_assert!(ends.0.is_sorted(), "stage {}: {:?}", stage, ends.0);
                came = ends.0;
            }
        }
    }
}
