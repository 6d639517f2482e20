//! One link: the output port that feeds it, and the input buffer at its other end.

use super::credits::Credits;
use super::rounds::Rounds;
use super::rule::{DeadlockRule, Lane};
use super::series::Series;
use super::trains::{Train, Wire};
use std::collections::VecDeque;
use syncline_core::{Alarm, Bytes, Key, NodeId, PortId, Ps, Rate, id_type};
use syncline_topology::Fabric;

use crate::api::{Connection, TrafficClass, class};

id_type!(
    /// A link and its input buffer, numbered by sending node and port.
    LinkId
);

impl LinkId {
    /// In the place of the link that a packet came by: it comes from the local NPU.
    pub(super) const LOCAL: LinkId = LinkId(u32::MAX);
}

/// A train that has requested an output port and was not granted it at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortRequest {
    /// Orders the requests of a port: by precedence, then what gives way behind what does not, then by number or round.
    pub number: u64,
    pub train: Train,
    /// The link it came by.
    pub input: LinkId,
}

impl PortRequest {
    /// In the number of a request: behind all of its precedence without it.
    const GIVES_WAY: u64 = 1 << 60;
    /// In the number of a request: how many precedences go before it.
    const BEHIND_AT: u32 = 61;
    /// In the number of a request: the round in which it is served.
    const ROUND: u64 = Self::GIVES_WAY - 1;

    /// The part of a number that says who goes first.
    const fn behind(precedence: u8) -> u64 {
        ((TrafficClass::PRECEDENCES - 1 - precedence) as u64) << Self::BEHIND_AT
    }

    /// Its precedence.
    const fn precedence(&self) -> u8 {
        TrafficClass::PRECEDENCES - 1 - (self.number >> Self::BEHIND_AT) as u8
    }
}

/// One virtual channel: credits on the sender's side, a queue on the receiver's.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub credits: Credits,
    /// Packets in transit behind the head. The head itself has requested its output.
    pub fifo: VecDeque<Train>,
    /// When the last head left the queue; [`Ps::MAX`] while it waits for its output.
    pub head_left: Ps,
}

impl Channel {
    fn new(slots: u32) -> Channel {
        Channel { credits: Credits::new(slots), fifo: VecDeque::new(), head_left: Ps::ZERO }
    }
}

/// Slots that the local NPU holds, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub vc: u8,
    pub packets: u64,
}

/// A link with both of its ends. What every packet touches comes first, to share cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Link {
    /// When the wire is free for another packet.
    pub free: Ps,
    /// Serialisation of a full packet.
    pub full: Ps,
    pub latency: Ps,
    pub wire: Wire,
    /// Requests in all lanes.
    pub waiting: u32,
    /// The first link of the receiving node.
    pub onward: u32,
    pub from: NodeId,
    pub to: NodeId,
    pub out: PortId,
    pub input: PortId,
    /// Whether the link closes its ring.
    pub wraps: bool,
    /// Whether packets leave the buffer behind it in any order: that of a switch.
    pub sorted: bool,
    /// Whether starts are decided no sooner than the wire is free, since whoever comes until then may go first.
    pub late: bool,
    /// Of a switch where connections take turns: whose turn it is.
    pub rounds: Option<Box<Rounds>>,
    pub channels: [Channel; 2],
    /// From the start of a packet that is not in transit until its credit is back, in packets.
    pub round_trip: u64,
    /// The first wake-up that is still to come.
    pub wake: Alarm,
    pub lanes: [VecDeque<PortRequest>; 2],
    pub requests: u64,
    pub held: VecDeque<Held>,
    pub rate: Rate,
}

impl Link {
    pub fn new(
        fabric: &impl Fabric,
        rule: DeadlockRule,
        packet: Bytes,
        (buffer, at_least): (Option<u32>, u32),
        (in_rounds, sorted, by_precedence): (bool, bool, bool),
        (from, out): (NodeId, PortId),
    ) -> Link {
        let (to, input) = fabric.next(from, out);
        let spec = fabric.link(from, out);
        let full = spec.rate.time(packet);
        let slots = buffer.unwrap_or_else(|| {
            automatic_buffer(full, spec.latency, rule).max(at_least.saturating_mul(rule.channels()))
        });
        let second = slots / 2 * (rule.channels() - 1);
        Link {
            free: Ps::ZERO,
            full,
            latency: spec.latency,
            round_trip: match full.0 {
                0 => u64::MAX,
                full => spec.latency.0.saturating_mul(2).saturating_add(full).div_ceil(full),
            },
            wire: Wire::default(),
            wake: Alarm::default(),
            waiting: 0,
            from,
            to,
            out,
            input,
            onward: fabric.first_link(to),
            wraps: fabric.closes_ring(from, out),
            sorted: sorted || to.0 >= fabric.npus(),
            late: by_precedence || in_rounds && from.0 >= fabric.npus(),
            rounds: (in_rounds && from.0 >= fabric.npus()).then(Box::default),
            channels: [Channel::new(slots - second), Channel::new(second)],
            lanes: Default::default(),
            requests: 0,
            held: VecDeque::new(),
            rate: spec.rate,
        }
    }

    /// The key of packets that arrive at the other end.
    #[inline(always)]
    pub fn arrival_key(&self) -> Key {
        Key::new(class::ARRIVAL, u32::from(self.input.0))
    }

    /// The key of wake-ups of the output port.
    #[inline(always)]
    pub fn wake_key(&self) -> Key {
        Key::new(class::INTERNAL, u32::from(self.out.0))
    }

    /// The key under which the next packet of an input queue becomes its head: after all wake-ups.
    #[inline(always)]
    pub fn head_key(&self, vc: u8) -> Key {
        const AFTER_ALL_PORTS: u32 = 1 << 16;
        Key::new(class::INTERNAL, AFTER_ALL_PORTS + 2 * u32::from(self.input.0) + u32::from(vc))
    }

    /// The lane of the request that was made first.
    pub fn first_lane(&self) -> Option<Lane> {
        let number = |lane: &Lane| self.lanes[lane.index()].front().map(|r| r.number);
        Lane::ALL.into_iter().filter(|lane| number(lane).is_some()).min_by_key(number)
    }

    /// A train joins a lane: by precedence, and in order of request, but what gives way stays behind all that does not.
    pub fn wait(&mut self, lane: Lane, train: Train, input: LinkId, precedence: u8, gives_way: bool) {
        let gives_way = if gives_way { PortRequest::GIVES_WAY } else { 0 };
        let number = self.requests | gives_way | PortRequest::behind(precedence);
        let lane = &mut self.lanes[lane.index()];
        let at = lane.len() - lane.iter().rev().take_while(|request| request.number > number).count();
        lane.insert(at, PortRequest { number, train, input });
        self.requests += 1;
        self.waiting += 1;
    }

    /// A packet of a connection joins a lane where connections take turns.
    pub fn wait_for_turn(&mut self, lane: Lane, train: Train, input: LinkId, precedence: u8, connection: Connection) {
        let Some(rounds) = &mut self.rounds else { return self.wait(lane, train, input, precedence, false) };
        let number = rounds.join(connection, precedence) | PortRequest::behind(precedence);
        let lane = &mut self.lanes[lane.index()];
        let at = lane.partition_point(|request| request.number <= number);
        lane.insert(at, PortRequest { number, train, input });
        self.waiting += 1;
    }

    /// Whether nothing is decided now, since another request may come first until the wire is free.
    #[inline(always)]
    pub fn decides_late(&self, now: Ps) -> bool {
        self.late && self.free > now
    }

    /// Whether the first request of a lane gives way to all that come before it starts.
    pub fn gives_way(&self, lane: Lane) -> bool {
        self.lanes[lane.index()].front().is_some_and(|request| request.number & PortRequest::GIVES_WAY != 0)
    }

    /// Of the first train of a lane only `rest` still waits.
    pub fn leave(&mut self, lane: Lane, rest: Train) {
        let lane = &mut self.lanes[lane.index()];
        if let (Some(rounds), Some(request)) = (&mut self.rounds, lane.front()) {
            rounds.served(request.number & PortRequest::ROUND, request.precedence());
        }
        if rest.packets == 0 {
            lane.pop_front();
            self.waiting -= 1;
        } else if let Some(request) = lane.front_mut() {
            request.train = rest;
        }
    }

    /// How many of `packets` packets can start one right behind the other from `start`, given that
    /// the first can. `usable` is the number of credits at `start`, of which `needed` must be there
    /// for each; `returns` says that the credits of the packets themselves come back on their own.
    pub fn burst(&self, packets: u32, usable: u64, needed: u64, returns: bool) -> u32 {
        let spare = usable - needed + 1;
        // With a round trip's worth of credits, returning ones keep pace for ever.
        if returns && spare >= self.round_trip {
            packets
        } else {
            u32::try_from(spare).map_or(packets, |spare| packets.min(spare))
        }
    }

    /// The local NPU holds slots of a channel until it releases them.
    pub fn hold(&mut self, vc: u8, packets: u32) {
        match self.held.back_mut() {
            Some(held) if held.vc == vc => held.packets += u64::from(packets),
            _ => self.held.push_back(Held { vc, packets: u64::from(packets) }),
        }
    }

    /// The slot that has been held longest, of a channel if one is given, is free from `now`; false when none was
    /// held.
    pub fn release(&mut self, now: Ps, channel: Option<u8>) -> bool {
        let first = match channel {
            Some(vc) => self.held.iter().position(|held| held.vc == vc),
            None => Some(0),
        };
        let Some((first, held)) = first.and_then(|i| Some((i, self.held.get_mut(i)?))) else { return false };
        let vc = held.vc;
        held.packets -= 1;
        if held.packets == 0 {
            self.held.remove(first);
        }
        self.channels[usize::from(vc)].credits.add(Series::once(now + self.latency));
        true
    }
}

/// Slots that keep a link busy: twice the bandwidth-delay product of its round trip, and some.
fn automatic_buffer(full: Ps, latency: Ps, rule: DeadlockRule) -> u32 {
    const MAX: u64 = 1 << 20; // for links that are faster than any buffer
    const MIN: u64 = 8;
    let round_trip = latency.0.saturating_mul(2).saturating_add(full.0).checked_div(full.0).unwrap_or(MAX);
    let slots = (2 * round_trip.min(MAX) + 4).max(MIN);
    slots as u32 * rule.channels()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_buffers_cover_two_round_trips() {
        // 256 B at 23.5 GB/s take 10.894 ns, a round trip 814.106 ns or 74 packets.
        assert_eq!(automatic_buffer(Ps(10_894), Ps(401_606), DeadlockRule::Bubble), 152);
        assert_eq!(automatic_buffer(Ps(10_894), Ps(0), DeadlockRule::Bubble), 8);
        assert_eq!(automatic_buffer(Ps(0), Ps(1), DeadlockRule::None), (1 << 21) + 4);
    }
}
