//! The ideal endpoint, beside whose communication kernels have what it leaves of the NPU.
//!
//! For communication whose own time a model of software states: it is not served by the NPU, but holds SMs and takes memory
//! bandwidth as long as it is in flight ([`Held`]). Of S SMs and a bandwidth B it leaves S - c and B - b; a kernel that keeps
//! SMs busy for t, and memory for m, then takes
//!
//! ```text
//!   max(alone, t S / (S - c), m B / (B - b))
//! ```
//!
//! Thread blocks of communication stay on their SMs to the end, so all but one SM may be held. Memory serves whoever asks, so
//! kernels that want it have half of it at least.
//!
//! What is done of a kernel when communication begins or ends, stays done; the rest goes on at the new speed.

use super::Running;
use super::npu::Outlet;
use super::shares::{ALONE, Rates, Rating};
use crate::api::{EpOut, Report};
use crate::costs::{Ideal, StepCost};
use crate::kernel::{Held, Kernel};
use crate::servers::{RateServer, ResourceUse};
use crate::work_done::WorkDone;
use syncline_collective::Op;
use syncline_core::{Bytes, Ps, Rate, Schedule};

/// What an NPU has.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    /// SMs; positive.
    pub sms: u32,
    /// Main-memory bandwidth, in bytes per second; positive.
    pub memory: u64,
}

impl Whole {
    /// How long a kernel takes beside what is held.
    pub fn time(self, kernel: &Kernel, held: Held) -> Ps {
        let sms = u64::from(self.sms.saturating_sub(held.sms).max(1));
        let memory = self.memory.saturating_sub(held.memory).max(self.memory.div_ceil(2));
        let stretched = |busy: Ps, whole: u64, left: u64| {
            let time = (u128::from(busy.0) * u128::from(whole)).div_ceil(left.into());
            Ps(u64::try_from(time).unwrap_or(u64::MAX))
        };
        let [on_sms, in_memory] = kernel.busy;
        let on_sms = stretched(on_sms, self.sms.into(), sms);
        kernel.alone.max(on_sms).max(stretched(in_memory, self.memory, memory))
    }
}

/// The speeds of kernels on an NPU.
#[derive(Debug)]
struct LeftTo {
    whole: Whole,
    rates: Rates,
}

impl Rating for LeftTo {
    fn rates<'a>(&mut self, _: [bool; 2], held: Held, kernels: impl Iterator<Item = &'a Kernel>) -> &Rates {
        let speed = |kernel: &Kernel| ALONE.work(kernel.alone).over(self.whole.time(kernel, held));
        self.rates.speeds.clear();
        self.rates.speeds.extend(kernels.map(speed));
        &self.rates
    }
}

/// What was held over time.
#[derive(Debug, Default)]
struct Account {
    npus: Vec<Holding>,
    /// Communication that held something.
    begun: u64,
}

/// The same of an NPU.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    /// What is held now, and since when.
    held: Held,
    since: Ps,
    /// SMs, and bytes per second, times picoseconds.
    sums: [u128; 2],
}

impl Account {
    fn change(&mut self, npu: usize, now: Ps, held: Held, begins: bool) {
        let of = &mut self.npus[npu];
        let time = u128::from((now - of.since).0);
        of.sums[0] += u128::from(of.held.sms) * time;
        of.sums[1] += u128::from(of.held.memory) * time;
        of.since = now;
        of.held.change(held, begins);
        self.begun += u64::from(begins);
    }

    /// The same as time in which all of it would have been held. NPUs that are alike have the same, to the last picosecond.
    fn usage(&self, whole: Whole) -> [ResourceUse; 2] {
        let of = |name, place: usize, whole: u128| {
            let busy = self.npus.iter().map(|npu| npu.sums[place] / whole).sum();
            ResourceUse { busy, transfer: busy, served: self.begun, ..ResourceUse::new(name, 1) }
        };
        [of("held_sms", 0, whole.sms.into()), of("held_memory", 1, whole.memory.into())]
    }
}

/// The ideal endpoint beside which kernels give way, of all NPUs.
#[derive(Debug)]
pub struct GivingWay {
    ideal: Ideal,
    running: Running<LeftTo>,
    account: Account,
}

impl GivingWay {
    /// The endpoint of so many NPUs.
    pub fn new(ideal: Ideal, whole: Whole, npus: u32) -> GivingWay {
        let out = Outlet::new(RateServer::new("bus_tx", Rate::UNLIMITED, 0)); // nothing is served by the NPU
        let running = Running::new(LeftTo { whole, rates: Rates::default() }, out, npus);
        let account = Account { npus: vec![Holding::default(); npus as usize], begun: 0 };
        GivingWay { ideal, running, account }
    }
}

impl StepCost for GivingWay {
    fn injection(&self) -> Ps {
        self.ideal.injection()
    }

    #[inline]
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, len: Bytes, done: WorkDone, q: &mut Q) {
        self.ideal.work(now, op, len, done, q);
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

    fn hold<Q: Schedule<WorkDone>>(
        &mut self,
        npu: usize,
        held: Held,
        begins: bool,
        now: Ps,
        q: &mut Q,
        out: &mut Vec<EpOut>,
    ) {
        self.account.change(npu, now, held, begins);
        self.running.change(npu, now, q, out, |npu| npu.hold(held, begins));
    }

    fn share_anew<Q: Schedule<WorkDone>>(&mut self, npu: usize, now: Ps, q: &mut Q, out: &mut Vec<EpOut>) {
        self.running.share_anew(npu, now, q, out);
    }

    fn report(&self, report: &mut Report) {
        report.resources.extend(self.account.usage(self.running.rating.whole));
    }
}
