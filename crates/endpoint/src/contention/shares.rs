//! Who gets what of an NPU while nothing changes.

use super::load::{ContentionConfig, Load};
use crate::kernel::{Held, Kernel, PER_WARP};
use syncline_core::Rate;
use syncline_core::share::{Filling, Share};

/// The speed of a kernel beside nothing.
pub(super) const ALONE: Share = Share::of(Rate::new(1_000_000).expect("a positive rate"));

/// A solution: rates of communication on its SMs and in memory, and speeds of kernels relative to [`ALONE`].
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    pub communication: [Share; 2],
    pub speeds: Vec<Share>,
}

/// What says how fast communication and kernels go.
pub(super) trait Rating {
    /// What communication, if it has work for its SMs and for memory, and `kernels` get, while some of the NPU is held.
    fn rates<'a>(&mut self, busy: [bool; 2], held: Held, kernels: impl Iterator<Item = &'a Kernel>) -> &Rates;
}

/// The resources of an NPU, and the memory to share them in.
#[derive(Debug)]
pub(super) struct Sharing {
    memory: Share,
    /// Of one SM, and of all that communication occupies.
    sm: Share,
    comm: Share,
    sms: u64,
    comm_sms: u64,
    /// Warps of communication on an SM, in thousandths.
    comm_warps: u64,
    steady: Vec<Load>,
    filling: Filling,
    loads: Vec<Load>,
    rates: Rates,
}

impl Sharing {
    pub fn new(memory: Rate, comm: Rate, contention: ContentionConfig, steady: Vec<Load>) -> Sharing {
        Sharing {
            memory: Share::of(memory),
            sm: per_sm(comm, contention),
            comm: Share::of(comm),
            sms: contention.sms.into(),
            comm_sms: contention.comm_sms.into(),
            comm_warps: u64::from(contention.comm_warps) * PER_WARP,
            steady,
            filling: Filling::default(),
            loads: Vec::new(),
            rates: Rates::default(),
        }
    }

    /// What communication, if it has work for its SMs and for memory, and kernels get. The speeds of `kernels` come
    /// first, those of the steady loads after them.
    pub fn solve(&mut self, busy: [bool; 2], kernels: impl Iterator<Item = Load>) -> &Rates {
        self.loads.clear();
        self.loads.extend(kernels.chain(self.steady.iter().copied()));
        self.share_sms(busy[0]);
        self.share_memory(busy[1]);
        &self.rates
    }

    /// Shares an SM with communication and one without; all of either kind are alike.
    fn share_sms(&mut self, communication: bool) {
        let filling = &mut self.filling;
        filling.clear();
        let (with, without) = (filling.resource(self.sm), filling.resource(self.sm));
        for load in &self.loads {
            filling.flows(load.warps, Share::UNLIMITED, [with]);
            filling.flows(load.warps, Share::UNLIMITED, [without]);
        }
        if communication {
            filling.flows(self.comm_warps, Share::UNLIMITED, [with]);
        }
        filling.solve();
        self.rates.speeds.clear();
        let mut left = self.comm;
        for (load, flow) in self.loads.iter().zip((0..).step_by(2)) {
            let on_shared = filling.share(flow).times(load.warps).times(self.comm_sms);
            let elsewhere = filling.share(flow + 1).times(load.warps).times(self.sms - self.comm_sms);
            let alone = self.sm.split(load.warps).times(load.warps).times(self.sms);
            self.rates.speeds.push(ALONE.in_proportion(on_shared + elsewhere, alone));
            left = left - on_shared;
        }
        self.rates.communication[0] = left;
    }

    /// Shares memory among warps that want what they can use at the speed that their SMs allow.
    fn share_memory(&mut self, communication: bool) {
        let filling = &mut self.filling;
        filling.clear();
        let memory = filling.resource(self.memory);
        let wanted = |load: &Load, speed: Share| {
            let whole = load.memory.min(self.memory).split(load.warps * self.sms);
            (whole, whole.in_proportion(speed, ALONE))
        };
        for (load, &speed) in self.loads.iter().zip(&self.rates.speeds) {
            filling.flows(load.warps * self.sms, wanted(load, speed).1, [memory]);
        }
        if communication {
            filling.flows(self.comm_warps * self.comm_sms, Share::UNLIMITED, [memory]);
        }
        filling.solve();
        let mut left = self.memory;
        for ((load, speed), flow) in self.loads.iter().zip(&mut self.rates.speeds).zip(0..) {
            let ((whole, most), got) = (wanted(load, *speed), filling.share(flow));
            if got < most {
                *speed = (*speed).min(ALONE.in_proportion(got, whole));
            }
            left = left - got.times(load.warps * self.sms);
        }
        self.rates.communication[1] = left;
    }
}

impl Rating for Sharing {
    fn rates<'a>(&mut self, busy: [bool; 2], _: Held, kernels: impl Iterator<Item = &'a Kernel>) -> &Rates {
        self.solve(busy, kernels.map(Load::of))
    }
}

/// One SM's part of the rate of all that communication occupies.
pub(super) fn per_sm(sms: Rate, contention: ContentionConfig) -> Share {
    Share::of(sms).split(contention.comm_sms.into())
}
