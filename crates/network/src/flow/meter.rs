//! How busy links are: the bytes that they move over their rate.

use crate::usage::LinkUsage;
use syncline_core::share::{Share, Work};
use syncline_core::{Bytes, Ps};

#[derive(Clone, Copy, Debug)]
struct Link {
    capacity: Share,
    /// What it moves, and since when.
    rate: Share,
    since: Ps,
    /// What has been moved and was too little to make the link busy for a picosecond.
    rest: Work,
}

/// Notes the usage of links whenever their load changes.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    links: Vec<Link>,
    usage: LinkUsage,
}

impl Meter {
    pub fn new(capacities: Vec<Share>, usage: LinkUsage) -> Meter {
        let link = |capacity| Link { capacity, rate: Share::ZERO, since: Ps::ZERO, rest: Work::ZERO };
        Meter { links: capacities.into_iter().map(link).collect(), usage }
    }

    /// A message will take a link.
    pub fn message(&mut self, link: u32, len: Bytes) {
        self.usage.add_message(link, len);
    }

    /// From now on a link moves this much.
    pub fn set(&mut self, number: u32, now: Ps, rate: Share) {
        let link = &mut self.links[number as usize];
        let (from, old) = (link.since, link.rate);
        (link.since, link.rate) = (now, rate);
        if old == Share::ZERO || from == now {
            return;
        }
        let busy = if old == link.capacity {
            now - from
        } else {
            let (busy, rest) = link.capacity.whole_time(link.rest + old.work(now - from));
            link.rest = rest;
            busy
        };
        self.usage.add_busy(number, from, now, busy);
    }

    /// Notes what links have moved until now.
    pub fn finish(&mut self, now: Ps) {
        for number in 0..self.links.len() {
            self.set(number as u32, now, self.links[number].rate);
        }
    }

    /// So much of a message that was to take a link has not left by it.
    pub fn not_moved(&mut self, link: u32, len: Bytes) {
        self.usage.take_back(link, len);
    }

    /// From now on notes when these links are busy.
    pub fn record(&mut self, links: &[u32], limit: usize) {
        self.usage.record(links, limit);
    }

    pub fn usage(&self) -> &LinkUsage {
        &self.usage
    }
}
