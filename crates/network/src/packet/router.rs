//! The way of a packet: request an output, start, arrive, request the next.

use super::messages::Messages;
use super::paths::Hop;
use super::port::{Link, LinkId};
use super::rule::Lane;
use super::series::Series;
use super::trains::{Place, TrainId};
use super::{Event, Packet, Timer};
use crate::api::{MsgId, NetOut, Room, Segment};
use syncline_core::{Bytes, NodeId, PortId, Ps, Schedule};
use syncline_topology::Fabric;

/// What a train asks of an output port.
#[derive(Clone, Copy, Debug)]
struct Demand {
    train: TrainId,
    /// The link it came by, or [`LinkId::LOCAL`].
    input: LinkId,
    hop: Hop,
    place: Place,
    /// The channel it will use behind the port.
    vc: u8,
    lane: Lane,
    /// Slots that must be free there.
    needed: u64,
    /// How many packets may start at once.
    most: u32,
}

impl<F: Fabric> Packet<F> {
    /// Packets of a message are at its source's port.
    pub(super) fn inject(
        &mut self,
        now: Ps,
        id: MsgId,
        packets: u32,
        tail: bool,
        short: bool,
        q: &mut impl Schedule<Event>,
    ) {
        let flight = self.messages.get(id);
        let src = flight.message.src;
        let Some(path) = flight.path else {
            let train = self.pool.add(id, packets, Place::new(0, tail, short));
            return self.loop_back(now, src, train, q);
        };
        let train = self.pool.add(id, packets, Place::new(path, tail, short));
        let out = self.link_at(src, self.paths.hop(path).port);
        self.request(now, out, train, LinkId::LOCAL, q);
    }

    #[inline(always)]
    pub(super) fn link_at(&self, node: NodeId, port: PortId) -> LinkId {
        LinkId(node.0 * self.ports + u32::from(port.0))
    }

    #[inline(always)]
    fn demand(&self, out: LinkId, train: TrainId, input: LinkId) -> Demand {
        let place = self.pool.get(train).place;
        let hop = self.paths.hop(place.position());
        let vc = self.rule.next_channel(hop.enters, place.channel(), self.links[out.index()].wraps);
        let lane = self.rule.lane(hop.enters, vc);
        let most = if self.trains { u32::MAX } else { 1 };
        Demand { train, input, hop, place, vc, lane, needed: self.rule.slots_needed(lane), most }
    }

    /// A train asks for an output port; it starts at once if nobody waits and its start is certain.
    #[inline]
    fn request(&mut self, now: Ps, out: LinkId, train: TrainId, input: LinkId, q: &mut impl Schedule<Event>) {
        let demand = self.demand(out, train, input);
        if self.links[out.index()].waiting == 0 {
            loop {
                let link = &mut self.links[out.index()];
                let start = now.max(link.free);
                let usable = link.channels[usize::from(demand.vc)].credits.usable_at(start);
                if usable < demand.needed {
                    break;
                }
                if self.depart(now, start, out, demand, usable, q) {
                    return;
                }
            }
        }
        self.enqueue(out, demand);
        self.arbitrate(now, out, q);
    }

    fn enqueue(&mut self, out: LinkId, demand: Demand) {
        self.links[out.index()].wait(demand.lane, demand.train, demand.input);
        if demand.input == LinkId::LOCAL {
            let train = self.pool.get(demand.train);
            let bytes = self.bytes(train.msg, train.packets, train.place);
            self.backlogs[out.index()].block(bytes);
        } else {
            self.links[demand.input.index()].channels[usize::from(demand.place.channel())].head_left = Ps::MAX;
        }
    }

    /// Starts whatever waiting train can start, in order of request, and arranges to be called again.
    ///
    /// A start in the future is decided only for the first request: nobody can overtake it. That a
    /// later one overtakes, because the first lacks a slot, is decided when the wire is free.
    #[cold]
    fn arbitrate(&mut self, now: Ps, out: LinkId, q: &mut impl Schedule<Event>) {
        while let Some(first) = self.links[out.index()].first_lane() {
            let start = now.max(self.links[out.index()].free);
            // Whoever overtakes gets a single packet through: the first may be able to start next.
            if self.grant(now, start, out, first, u32::MAX, q)
                || (start == now && self.grant(now, start, out, first.other(), 1, q))
            {
                continue;
            }
            if let Some(at) = self.next_chance(out, start, first.other()) {
                self.wake(at, out, q);
            }
            break;
        }
        self.promise_room(now, out, q);
    }

    /// Starts up to `most` packets of the first train of a lane; false when none can start.
    fn grant(&mut self, now: Ps, start: Ps, out: LinkId, lane: Lane, most: u32, q: &mut impl Schedule<Event>) -> bool {
        let Some(&request) = self.links[out.index()].lanes[lane.index()].front() else { return false };
        let mut demand = self.demand(out, request.train, request.input);
        demand.most = demand.most.min(most);
        let usable = self.links[out.index()].channels[usize::from(demand.vc)].credits.usable_at(start);
        if usable < demand.needed {
            return false;
        }
        let before = self.pool.get(request.train);
        let all = self.depart(now, start, out, demand, usable, q);
        if request.input == LinkId::LOCAL {
            let left = if all { 0 } else { self.bytes(before.msg, self.pool.get(request.train).packets, before.place) };
            let started = self.bytes(before.msg, before.packets, before.place) - left;
            self.backlogs[out.index()].unblock(started);
        }
        if all {
            self.links[out.index()].leave(lane);
        }
        true
    }

    /// When a waiting train may be able to start, if that is known. Nobody can before `start`, and at
    /// `start` at most the lane `second`.
    fn next_chance(&mut self, out: LinkId, start: Ps, second: Lane) -> Option<Ps> {
        let (rule, link) = (self.rule, &mut self.links[out.index()]);
        let mut chance = None;
        for lane in Lane::ALL {
            if link.lanes[lane.index()].is_empty() {
                continue;
            }
            let (credits, needed) = (&mut link.channels[rule.channel_of(lane)].credits, rule.slots_needed(lane));
            let usable = credits.usable_at(start);
            debug_assert!(usable < needed || lane == second, "the first lane could have started");
            let at = if usable >= needed { Some(start) } else { credits.time_of(needed) };
            chance = [chance, at].into_iter().flatten().min();
        }
        chance
    }

    /// Packets of a train start on a link, as many as can; true when all of them have.
    #[inline]
    fn depart(
        &mut self,
        now: Ps,
        start: Ps,
        out: LinkId,
        d: Demand,
        usable: u64,
        q: &mut impl Schedule<Event>,
    ) -> bool {
        let train = self.pool.get(d.train);
        let whole = d.hop.last && self.messages.get(train.msg).is_whole();
        let link = &mut self.links[out.index()];
        let packets = match train.packets.min(d.most) {
            1 => 1,
            n => link.burst(n, usable, d.needed, whole),
        };
        let (len, each) = packet_size(link, &self.messages, self.packet, train.msg, d.place);
        let starts = Series { first: start, gap: each, count: u64::from(packets) };
        let end = starts.at(starts.count);
        link.free = end;
        self.usage.add(link.from, link.out, Bytes(len * starts.count), starts.count, start, end);

        let credits = &mut link.channels[usize::from(d.vc)].credits;
        if whole {
            // The slot is free on arrival, and the credit takes as long back as the packet took.
            credits.add(Series { first: start + each + link.latency + link.latency, ..starts });
        }
        credits.take(starts.count, starts.last());

        let all = packets == train.packets;
        let first_arrival = start + each + link.latency;
        if whole && self.trains && !(all && d.place.is_tail()) {
            // Nobody hears of these packets: their message is complete with its tail.
            if all {
                self.pool.remove(d.train);
            } else {
                self.pool.shorten(d.train, packets);
            }
        } else {
            let moving = if all { d.train } else { self.pool.split(d.train, packets) };
            self.pool.set_channel(moving, d.vc);
            link.wire.push(&mut self.pool, moving);
            let at = if whole { end + link.latency } else { first_arrival };
            q.at(at, link.arrival_key(), Event(Timer::Arrive(out)));
        }
        if d.input != LinkId::LOCAL {
            self.vacate(start, end, d.input, d.place.channel(), q);
        } else if starts.last() > now {
            self.backlogs[out.index()].decide(now, starts, len);
        }
        all
    }

    /// The head of an input queue starts at `start` and has left its buffer at `end`.
    #[inline]
    fn vacate(&mut self, start: Ps, end: Ps, input: LinkId, vc: u8, q: &mut impl Schedule<Event>) {
        let link = &mut self.links[input.index()];
        let channel = &mut link.channels[usize::from(vc)];
        let credit = end + link.latency;
        channel.credits.add(Series::once(credit));
        channel.head_left = start;
        if !channel.fifo.is_empty() {
            q.at(start, link.head_key(vc), Event(Timer::Head(input, vc)));
        }
        if link.waiting > 0 {
            let at = credit.max(link.free);
            self.wake(at, input, q);
        }
    }

    /// The output port of a link looks at its requests at `at`, or earlier.
    pub(super) fn wake(&mut self, at: Ps, out: LinkId, q: &mut impl Schedule<Event>) {
        let link = &mut self.links[out.index()];
        if at < link.wake {
            link.wake = at;
            q.at(at, link.wake_key(), Event(Timer::Wake(out)));
        }
    }

    /// A wake-up: of all that were asked for, only the one that is still expected counts.
    pub(super) fn woken(&mut self, now: Ps, out: LinkId, q: &mut impl Schedule<Event>, news: &mut Vec<NetOut>) {
        let link = &mut self.links[out.index()];
        if link.wake != now {
            return;
        }
        link.wake = Ps::MAX;
        self.arbitrate(now, out, q);
        let backlog = &mut self.backlogs[out.index()];
        if let Some(capacity) = backlog.asked()
            && backlog.room(now, capacity, self.packet) == Room::Now
        {
            backlog.answered();
            let link = &self.links[out.index()];
            news.push(NetOut::Room { at: link.from, port: link.out });
        }
    }

    /// If a sender waits for room and it is known when there is some, the port wakes up then.
    fn promise_room(&mut self, now: Ps, out: LinkId, q: &mut impl Schedule<Event>) {
        let backlog = &mut self.backlogs[out.index()];
        let Some(capacity) = backlog.asked() else { return };
        match backlog.room(now, capacity, self.packet) {
            Room::Now => self.wake(now, out, q),
            Room::At(at) => self.wake(at, out, q),
            Room::Unknown => {}
        }
    }

    /// A train's event at the far end of a link.
    #[inline]
    pub(super) fn arrived(&mut self, now: Ps, by: LinkId, q: &mut impl Schedule<Event>, news: &mut Vec<NetOut>) {
        let link = &mut self.links[by.index()];
        let id = link.wire.front().expect("every arrival was put on the wire");
        let train = self.pool.get(id);
        let hop = self.paths.hop(train.place.position());
        if hop.last {
            link.wire.pop(&self.pool);
            self.deliver(now, by, id, news);
        } else if train.packets == 1 {
            link.wire.pop(&self.pool);
            self.transit(now, by, id, q);
        } else {
            // In transit every packet is on its own: others may come between.
            let one = self.pool.split(id, 1);
            q.at(now + link.full, link.arrival_key(), Event(Timer::Arrive(by)));
            self.transit(now, by, one, q);
        }
    }

    /// A packet that goes on is in the buffer behind a link.
    #[inline]
    fn transit(&mut self, now: Ps, input: LinkId, id: TrainId, q: &mut impl Schedule<Event>) {
        let place = self.pool.advance(id);
        let link = &mut self.links[input.index()];
        let (vc, onward) = (place.channel(), link.onward);
        let channel = &mut link.channels[usize::from(vc)];
        if channel.fifo.is_empty() && channel.head_left <= now {
            let out = LinkId(onward + u32::from(self.paths.hop(place.position()).port.0));
            return self.request(now, out, id, input, q);
        }
        let first = channel.fifo.is_empty();
        channel.fifo.push(&mut self.pool, id);
        if first && channel.head_left != Ps::MAX {
            let at = channel.head_left;
            q.at(at, link.head_key(vc), Event(Timer::Head(input, vc)));
        }
    }

    /// The next packet of an input queue becomes its head and requests its output.
    pub(super) fn head(&mut self, now: Ps, input: LinkId, vc: u8, q: &mut impl Schedule<Event>) {
        let link = &mut self.links[input.index()];
        let channel = &mut link.channels[usize::from(vc)];
        debug_assert!(channel.head_left <= now, "the queue still has a head");
        let Some(id) = channel.fifo.pop(&self.pool) else { return };
        let onward = link.onward;
        let port = self.paths.hop(self.pool.get(id).place.position()).port;
        self.request(now, LinkId(onward + u32::from(port.0)), id, input, q);
    }

    /// A train is at its destination.
    fn deliver(&mut self, now: Ps, by: LinkId, id: TrainId, news: &mut Vec<NetOut>) {
        let train = self.pool.get(id);
        let link = &mut self.links[by.index()];
        let (at, port, gap) = (link.to, link.input, link.full);
        if !self.messages.get(train.msg).is_whole() {
            link.hold(train.place.channel(), train.packets);
        }
        self.announce(now, at, port, gap, id, news);
    }

    /// The destination hears of a train, if there is something to say, and the train is no more.
    pub(super) fn announce(&mut self, now: Ps, at: NodeId, port: PortId, gap: Ps, id: TrainId, news: &mut Vec<NetOut>) {
        let train = self.pool.get(id);
        let flight = self.messages.get(train.msg);
        let last = train.place.is_tail();
        let segment = if !flight.is_whole() {
            let len = Bytes(self.bytes(train.msg, train.packets, train.place));
            let gap = if train.packets > 1 { gap } else { Ps::ZERO };
            Some(Segment { len, t0: now, gap, packets: train.packets })
        } else if last {
            let len = flight.message.len;
            let packets = u32::try_from(len.0.div_ceil(self.packet.0).max(1)).unwrap_or(u32::MAX);
            Some(Segment { len, t0: now, gap: Ps::ZERO, packets })
        } else {
            None
        };
        if let Some(segment) = segment {
            self.audit.delivered += segment.len.0;
            news.push(NetOut::Arrived { at, port, tag: flight.message.tag, segment, last });
        }
        if last {
            self.messages.remove(train.msg);
        }
        self.pool.remove(id);
    }

    /// Bytes of a train.
    pub(super) fn bytes(&self, msg: MsgId, packets: u32, place: Place) -> u64 {
        let full = u64::from(packets) * self.packet.0;
        if place.is_tail() { full - self.packet.0 + self.messages.tail_len(msg) } else { full }
    }
}

/// Bytes and serialisation of each packet of a train.
#[inline(always)]
fn packet_size(link: &Link, messages: &Messages, packet: Bytes, msg: MsgId, place: Place) -> (u64, Ps) {
    if place.is_short() {
        let len = messages.tail_len(msg);
        (len, link.rate.time(Bytes(len)))
    } else {
        (packet.0, link.full)
    }
}
