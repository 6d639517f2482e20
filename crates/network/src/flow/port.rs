//! What a sender's port still has to send.

use super::bundle::Bundle;
use crate::api::Room;
use syncline_core::Ps;
use syncline_core::share::{Share, Work};

/// The backlog of an output port: the connections that begin there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Port {
    /// All that it was ever to send, and what of it had been sent by `since`. What connections are given beyond
    /// their end counts in both.
    total: Work,
    done: Work,
    since: Ps,
    /// Of all its connections together.
    rate: Share,
    /// When the last message was sent.
    started: Ps,
    /// Whether its sender waits for news.
    pub asked: bool,
}

impl Port {
    /// A message is sent.
    pub fn start(&mut self, now: Ps, work: Work) {
        self.total = self.total + work;
        self.started = now;
    }

    /// A connection has drained and was given this much beyond its end.
    pub fn drained(&mut self, excess: Work) {
        self.total = self.total + excess;
    }

    /// The rate of a connection changes.
    pub fn change(&mut self, now: Ps, bundle: &mut Bundle) {
        self.done = self.done + self.rate.work(now - self.since);
        self.since = now;
        let rate = bundle.rate();
        self.rate = self.rate + rate - std::mem::replace(&mut bundle.noted, rate);
    }

    /// Whether nothing that was sent earlier moves.
    pub fn stands_still(&self, now: Ps) -> bool {
        self.rate == Share::ZERO && self.started != now
    }

    /// Whether no more than `capacity` is left to send, or when that will be. `whole` is the rate of the
    /// link, which is the most that a message can get that has just been sent.
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
