//! Traffic beside that of the run: flows that are given, and flows that arrive at random.
//!
//! A flow is a connection of its own with one message, of the same transport, and shares the links with everything else. Flows
//! that arrive at random do so as a Poisson process at each sender: the times between them are exponentially distributed, with
//! the mean at which their payload is a share of the rate of the sender's link. Receivers are drawn evenly, and sizes from a
//! distribution. All draws of a sender are its own, so that nothing else changes them.
//!
//! Nobody waits for these flows: what is not finished when the run ends is cut off. When nothing else is under way and nobody
//! has anything to do, no flow begins any more.

use super::Ethernet;
use super::clock::NEVER;
use super::connection::Stage;
use super::round_trips::RoundTrips;
use super::{Reverse, Timer};
use crate::api::{Connection, Delivery, Message, Route, TrafficClass};
use syncline_core::random::RandomStream;
use syncline_core::{Bytes, NodeId, Ps};
use syncline_topology::Fabric;

/// The most flows of a run.
pub const MOST_FLOWS: usize = 1 << 20;
/// The largest flow in bytes.
pub const LARGEST: u64 = 1 << 40;

const MILLION: u64 = 1_000_000;
const PS_PER_S: f64 = 1e12;
/// Tells draws for flows from others.
const DRAWS: u64 = 0x0062_6163_6b67_726e;

/// Where flows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Equal flows at equal distances of time.
    Given {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Payload of each.
        len: u64,
        /// When the first one begins.
        start: Ps,
        /// How many there are.
        count: u64,
        /// The time between two of them.
        every: Ps,
    },
    /// Flows that arrive at random.
    Poisson {
        /// Each of these sends.
        from: Vec<NodeId>,
        /// To one of these that it is not itself.
        to: Vec<NodeId>,
        /// The share of the rate of a sender's link that payload takes on average, in millionths.
        load_millionths: u64,
        /// How large flows are.
        sizes: Sizes,
    },
}

/// How large flows are: points of the cumulative distribution, as sizes in bytes and millionths of all flows, both of which
/// never fall. Between two points it is a straight line. What the first point has above zero are flows of exactly its size; the
/// last one has all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<(u64, u64)>);

impl Sizes {
    /// A distribution; nothing if these are no points of one.
    pub fn new(points: Vec<(u64, u64)>) -> Option<Sizes> {
        let rises = points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let ends = points.last().is_some_and(|last| last.1 == MILLION && (1..=LARGEST).contains(&last.0));
        (rises && ends).then_some(Sizes(points))
    }

    /// All flows have one size.
    pub fn fixed(size: u64) -> Option<Sizes> {
        Sizes::new(vec![(size, MILLION)])
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        let first = self.0[0].0 as f64 * self.0[0].1 as f64;
        let parts = self.0.windows(2).map(|pair| {
            let ((from, below), (to, up_to)) = (pair[0], pair[1]);
            (up_to - below) as f64 * (from as f64 + to as f64) / 2.0
        });
        parts.fold(first, |sum, part| sum + part) / MILLION as f64
    }

    /// The size below which a share of flows is, as a share of 2^64.
    fn at(&self, share: u64) -> u64 {
        // Millionths, times 2^32.
        let share = (u128::from(share) * u128::from(MILLION)) >> 32;
        let scaled = |millionths: u64| u128::from(millionths) << 32;
        let next = self.0.partition_point(|&(_, up_to)| scaled(up_to) <= share).min(self.0.len() - 1);
        let (size, up_to) = self.0[next];
        if next == 0 {
            return size.max(1);
        }
        let (before, below) = self.0[next - 1];
        let way = u128::from(size - before) * (share - scaled(below));
        let size = before + way.checked_div(scaled(up_to - below)).unwrap_or(0) as u64;
        size.max(1)
    }
}

/// A number that is exponentially distributed with a mean of one, of a number that is evenly distributed.
///
/// The logarithm is worked out with operations that IEEE 754 defines to the last bit, which that of a library is not.
fn exponential(number: u64) -> f64 {
    let number = (number >> 11) + 1; // of 2^53, and never none
    let halvings = 53 - (63 - number.leading_zeros());
    let mantissa = number as f64 / (1u64 << (53 - halvings)) as f64; // from 1 to below 2
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut power, mut sum) = (z, 0.0);
    for odd in (1..40).step_by(2) {
        sum += power / f64::from(odd);
        power *= z * z;
    }
    f64::from(halvings) * std::f64::consts::LN_2 - 2.0 * sum
}

/// What makes flows begin: the next one is due at a time.
#[derive(Clone, Debug)]
enum Generator {
    Given { source: usize, begun: u64 },
    Poisson { source: usize, from: NodeId, random: RandomStream, drawn: u64, gap_ps: f64 },
}

/// What has become of flows.
#[derive(Clone, Debug, Default)]
pub struct Background {
    sources: Vec<Source>,
    generators: Vec<Generator>,
    /// The first part of the connection of each flow, in their order.
    owners: Vec<u32>,
    /// Payload of all of them.
    pub begun_bytes: u64,
    /// Flows that have arrived completely.
    pub finished: u64,
    /// Payload of these.
    pub finished_bytes: u64,
    /// Flows that were given up.
    pub failed: u64,
    /// Flows that did not begin, because there were too many.
    pub left_out: u64,
    /// How long flows took, and that in thousandths of what they take alone.
    pub completions: RoundTrips,
    /// Likewise.
    pub slowdowns: RoundTrips,
}

impl Background {
    /// Whether a connection is that of a flow, by its first part.
    pub fn has(&self, owner: u32) -> bool {
        self.owners.binary_search(&owner).is_ok()
    }

    /// Flows that have begun.
    pub fn begun(&self) -> u64 {
        self.owners.len() as u64
    }

    /// The flow that begins now, and when the next one does.
    fn next(&mut self, generator: usize, now: u64) -> (NodeId, NodeId, u64, Option<u64>) {
        match &mut self.generators[generator] {
            Generator::Given { source, begun } => {
                let Source::Given { from, to, len, count, every, .. } = &self.sources[*source] else {
                    unreachable!("the source of a given flow is one")
                };
                *begun += 1;
                (*from, *to, *len, (*begun < *count).then(|| now.saturating_add(every.0)))
            }
            Generator::Poisson { source, from, random, drawn, gap_ps } => {
                let Source::Poisson { to, sizes, .. } = &self.sources[*source] else {
                    unreachable!("the source of random flows is one")
                };
                let others = to.len() - usize::from(to.binary_search(from).is_ok());
                let mut at = random.below(*drawn, others as u64) as usize;
                if to.binary_search(from).is_ok_and(|own| at >= own) {
                    at += 1;
                }
                let len = sizes.at(random.number(*drawn + 1));
                let next = later(now, *gap_ps, random.number(*drawn + 2));
                *drawn += 3;
                (*from, to[at], len, Some(next))
            }
        }
    }
}

/// A time after another, exponentially distributed.
fn later(now: u64, mean_ps: f64, number: u64) -> u64 {
    // A float beyond all integers becomes the last of them. Time goes on in any case.
    now.saturating_add(((exponential(number) * mean_ps) as u64).max(1)).min(NEVER - 1)
}

impl<F: Fabric> Ethernet<F> {
    /// Flows of these sources begin when it is their time.
    pub(super) fn add_background(&mut self, sources: &[Source]) {
        let mut background = Background { sources: sources.to_vec(), ..Background::default() };
        for source in &mut background.sources {
            if let Source::Poisson { to, .. } = source {
                to.sort_unstable();
                to.dedup();
            }
        }
        for (number, source) in sources.iter().enumerate() {
            match source {
                Source::Given { start, count, .. } => {
                    if *count > 0 {
                        self.due(start.0, background.generators.len());
                        background.generators.push(Generator::Given { source: number, begun: 0 });
                    }
                }
                Source::Poisson { from, to, load_millionths, sizes } => {
                    for &from in from {
                        let Some(&other) = to.iter().find(|&&to| to != from) else { continue };
                        let rate = self.rate_towards(from, other);
                        let per_s = rate * *load_millionths as f64 / MILLION as f64 / sizes.mean();
                        if per_s <= 0.0 {
                            continue;
                        }
                        let random = RandomStream::new(self.config.seed, &[DRAWS, number as u64, from.0.into()]);
                        let gap_ps = PS_PER_S / per_s;
                        self.due(later(0, gap_ps, random.number(0)), background.generators.len());
                        let generator = Generator::Poisson { source: number, from, random, drawn: 1, gap_ps };
                        background.generators.push(generator);
                    }
                }
            }
        }
        self.background = (!background.generators.is_empty()).then(|| Box::new(background));
    }

    fn due(&mut self, at: u64, generator: usize) {
        self.timers.push(Reverse((at, generator as u32, Timer::Flow)));
    }

    /// Bytes per second of the first link with a transport on the way from one NPU to another; of the first, if there is none.
    fn rate_towards(&mut self, from: NodeId, to: NodeId) -> f64 {
        let ways = self.paths.of(&self.fabric, from, Route::To(to));
        let parts = self.parts(ways);
        let part = parts.iter().find(|(is_local, _)| !is_local).or(parts.first());
        let link = part.and_then(|(_, ways)| self.paths.all(ways.forth).next());
        link.map_or(0.0, |link| self.links[link as usize].rate().bytes_per_s() as f64)
    }

    /// A flow begins.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_flow(&mut self, now: u64, generator: u32) {
        let Some(background) = self.background.as_mut().filter(|_| self.deadlock.is_empty()) else { return };
        let (from, to, len, next) = background.next(generator as usize, now);
        let number = background.owners.len();
        let is_too_many = number >= MOST_FLOWS;
        background.left_out += u64::from(is_too_many);
        if let Some(next) = next {
            self.due(next, generator as usize);
        }
        if is_too_many {
            return;
        }
        // The ways of flows are hashed, each as that of a connection of its own.
        let queue = number as u16;
        let route = Route::To(to);
        let owner = self.open_connection(Connection { src: from, route, queue }, false);
        let class = TrafficClass::default();
        let message = Message {
            src: from,
            route,
            queue,
            len: Bytes(len),
            class,
            delivery: Delivery::Whole,
            tag: 0,
            receipt: None,
        };
        if let Some(background) = &mut self.background {
            background.owners.push(owner);
            background.begun_bytes += len;
        }
        self.post(now, owner, message);
    }

    /// A flow has arrived completely, as long after it began. Whether the message of a connection was one.
    pub(super) fn flow_finished(&mut self, owner: u32, len: u64, took: u64, slowdown: u64) -> bool {
        let Some(background) = self.background.as_mut().filter(|background| background.has(owner)) else {
            return false;
        };
        background.finished += 1;
        background.finished_bytes += len;
        background.completions.add(Ps(took));
        background.slowdowns.add(Ps(slowdown));
        true
    }

    /// Whether a connection that is given up is that of a flow, which nobody misses.
    pub(super) fn flow_failed(&mut self, Stage { owner, .. }: Stage) -> bool {
        let Some(background) = self.background.as_mut().filter(|background| background.has(owner)) else {
            return false;
        };
        background.failed += 1;
        true
    }

    /// Whether a connection is that of a flow.
    pub(super) fn is_flow(&self, owner: u32) -> bool {
        self.background.as_ref().is_some_and(|background| background.has(owner))
    }

    /// Whether flows alone are left: nothing of the run is under way, and nobody has anything else to do.
    pub(super) fn only_flows_are_left(&self, next_of_others: Ps) -> bool {
        self.background.is_some()
            && next_of_others == Ps::MAX
            && self.outbox.is_empty()
            && self.books.in_flight() == Some(0)
            && self.unfed.unfed().next().is_none()
            && self.messages.iter().zip(0..).all(|(own, at)| own.have_arrived() || self.is_flow(at))
    }

    /// Flows begin, and everything else happens, up to a time before which nobody had to be told of anything.
    pub(super) fn go_on_to(&mut self, now: u64) {
        if self.background.is_some() && self.wake == NEVER {
            while self.run(0, now) < now {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_exponential() {
        let stream = RandomStream::new(3, &[]);
        let count = 200_000;
        let draws: Vec<f64> = (0..count).map(|n| exponential(stream.number(n))).collect();
        let mean = draws.iter().sum::<f64>() / count as f64;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / count as f64;
        // The second moment is 2; five standard deviations.
        assert!((mean - 1.0).abs() < 0.012 && (square - 2.0).abs() < 0.06, "{mean} {square}");
        for (number, expected) in
            [(u64::MAX, 0.0), (u64::MAX / 2, std::f64::consts::LN_2), (0, 53.0 * std::f64::consts::LN_2)]
        {
            assert!((exponential(number) - expected).abs() < 1e-14 * expected.max(1.0), "{number}");
        }
    }

    #[test]
    fn sizes_follow_their_distribution() {
        let sizes = Sizes::new(vec![(0, 0), (100, 500_000), (1100, MILLION)]).expect("points");
        assert!((sizes.mean() - (0.5 * 50.0 + 0.5 * 600.0)).abs() < 1e-9);
        assert_eq!([0, 1 << 62, 1 << 63, 3 << 62].map(|share| sizes.at(share)), [1, 50, 100, 600]);
        assert!(sizes.at(u64::MAX) <= 1100);
        let fixed = Sizes::fixed(700).expect("a size");
        assert_eq!((fixed.at(0), fixed.at(u64::MAX)), (700, 700));
        let stepped = Sizes::new(vec![(10, 250_000), (10, MILLION)]).expect("points");
        assert_eq!([0, 1 << 62, u64::MAX].map(|share| stepped.at(share)), [10, 10, 10]);
        for wrong in
            [vec![], vec![(1, 5)], vec![(5, 10), (4, MILLION)], vec![(5, 10), (6, 9), (7, MILLION)], vec![(0, MILLION)]]
        {
            assert_eq!(Sizes::new(wrong), None);
        }
    }
}
