//! What a sender's port still has to send.

use super::bundle::Bundle;
use crate::api::Room;
use syncline_core::Ps;
use syncline_core::share::{Share, Work};

/// The backlog of an output port: the flows that begin there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Port {
    /// All that it was ever to send, and what of it had been sent by `since`. What flows are given beyond
    /// their end counts in both.
    total: Work,
    done: Work,
    since: Ps,
    /// Of all its flows together.
    rate: Share,
    /// When the last flow started.
    started: Ps,
}

impl Port {
    /// A flow starts.
    pub fn start(&mut self, now: Ps, work: Work) {
        self.total = self.total + work;
        self.started = now;
    }

    /// A flow has drained and was given this much beyond its end.
    pub fn drained(&mut self, excess: Work) {
        self.total = self.total + excess;
    }

    /// The rate or the flows of a bundle change.
    pub fn change(&mut self, now: Ps, bundle: &mut Bundle) {
        self.done = self.done + self.rate.work(now - self.since);
        self.since = now;
        let rate = bundle.together();
        self.rate = self.rate + rate - std::mem::replace(&mut bundle.noted, rate);
    }

    /// Whether no more than `capacity` is left to send, or when that will be. `whole` is the rate of the
    /// link, which is the most that a flow can get that has just started.
    pub fn room(&self, now: Ps, capacity: Work, whole: Share) -> Room {
        let left = self.total.less(self.done + self.rate.work(now.since(self.since)));
        let excess = left.less(capacity);
        if excess == Work::ZERO {
            return Room::Now;
        }
        let rate = if self.started == now || self.rate == Share::ZERO { whole } else { self.rate };
        let wait = rate.time(excess).unwrap_or(Ps::MAX).max(Ps(1));
        Room::At(Ps(now.0.saturating_add(wait.0)))
    }
}
