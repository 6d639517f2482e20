//! The way of a packet: request an output, start, arrive, request the next.

use super::backlog::Backlog;
use super::port::{Link, LinkId};
use super::rule::{DeadlockRule, Lane};
use super::series::Series;
use super::trains::{Train, TrainState};
use super::{Event, Packet, Timer};
use crate::api::{MsgId, NetOut, Room, Segment, class};
use syncline_core::{Bytes, Key, NodeId, PortId, Ps, Schedule};
use syncline_topology::{Fabric, Hop};

/// What a train asks of an output port.
#[derive(Clone, Copy, Debug)]
struct Demand {
    train: Train,
    /// The link it came by, or [`LinkId::LOCAL`].
    input: LinkId,
    hop: Hop,
    /// The channel it will use behind the port.
    vc: u8,
    lane: Lane,
    /// Slots that must be free there.
    needed: u64,
}

impl<F: Fabric> Packet<F> {
    /// Packets of a message are at its source's port.
    pub(super) fn inject(
        &mut self,
        now: Ps,
        msg: MsgId,
        packets: u32,
        tail: bool,
        short: bool,
        q: &mut impl Schedule<Event>,
    ) {
        let flight = &self.messages[msg];
        let src = flight.message.src;
        let Some(path) = flight.way else {
            return self.loop_back(now, src, Train { msg, packets, state: TrainState::new(0, tail, short) }, q);
        };
        let vc = self.rule.channel_for(flight.message.class).unwrap_or(0);
        let train = Train { msg, packets, state: TrainState::new(path, tail, short).on_channel(vc) };
        let out = self.link_at(src, self.paths.hop(path).port);
        self.request(now, out, train, LinkId::LOCAL, q);
    }

    #[inline(always)]
    pub(super) fn link_at(&self, node: NodeId, port: PortId) -> LinkId {
        LinkId(self.first_link[node.index()] + u32::from(port.0))
    }

    /// The backlog of a link that packets of a channel are part of.
    #[inline(always)]
    pub(super) fn backlog(&mut self, out: LinkId, vc: u8) -> &mut Backlog {
        match (self.rule, vc) {
            (DeadlockRule::Classes, 1) => &mut self.passing[out.index()],
            _ => &mut self.backlogs[out.index()],
        }
    }

    #[inline(always)]
    fn backlogs_of_a_link(&self) -> u8 {
        1 + u8::from(self.rule == DeadlockRule::Classes)
    }

    #[inline(always)]
    fn demand(&self, out: LinkId, train: Train, input: LinkId) -> Demand {
        let hop = self.paths.hop(train.state.position());
        let vc = self.rule.next_channel(hop.enters, train.state.channel(), self.links[out.index()].wraps);
        let lane = self.rule.lane(hop.enters, vc);
        Demand { train, input, hop, vc, lane, needed: self.rule.slots_needed(lane) }
    }

    /// A train asks for an output port; it starts at once if nobody waits and its start is certain.
    #[inline]
    fn request(&mut self, now: Ps, out: LinkId, train: Train, input: LinkId, q: &mut impl Schedule<Event>) {
        if self.turns && input == LinkId::LOCAL {
            return self.stand_in_line(now, out, train, q);
        }
        let mut demand = self.demand(out, train, input);
        if self.links[out.index()].waiting == 0 {
            let most = self.most_at_once();
            while !self.links[out.index()].decides_late(now) && self.start(now, out, &mut demand, most, q).is_some() {
                if demand.train.packets == 0 {
                    return;
                }
            }
        }
        self.enqueue(out, demand);
        self.arbitrate(now, out, q);
    }

    /// Packets of the local NPU stand in line for an output port where connections take turns and transit goes first.
    fn stand_in_line(&mut self, now: Ps, out: LinkId, train: Train, q: &mut impl Schedule<Event>) {
        let (connection, precedence) = (self.messages[train.msg].message.connection(), self.precedence(train.msg));
        let backlog = &mut self.backlogs[out.index()];
        backlog.block(train.packets);
        backlog.line_up(connection, precedence, train);
        if !backlog.has_head(precedence) {
            self.next_in_line(out, precedence);
            self.arbitrate(now, out, q);
        }
    }

    /// The first packet of a precedence in line, if there is one, requests its output port.
    fn next_in_line(&mut self, out: LinkId, precedence: u8) {
        let Some(packet) = self.backlogs[out.index()].next_in_line(precedence) else { return };
        let demand = self.demand(out, packet, LinkId::LOCAL);
        self.wait(out, &demand);
    }

    /// The precedence of a message, where it counts; the same of all where it does not.
    #[inline(always)]
    fn precedence(&self, msg: MsgId) -> u8 {
        if self.by_precedence { self.messages[msg].message.class.precedence() } else { 0 }
    }

    /// How many packets of a train may start before anybody else has a chance.
    #[inline(always)]
    fn most_at_once(&self) -> u32 {
        if self.by_precedence { 1 } else { u32::MAX }
    }

    fn enqueue(&mut self, out: LinkId, demand: Demand) {
        self.wait(out, &demand);
        if demand.input == LinkId::LOCAL {
            self.backlog(out, demand.vc).block(demand.train.packets);
        } else {
            let vc = demand.train.state.channel();
            self.links[demand.input.index()].channels[usize::from(vc)].head_left = Ps::MAX;
        }
    }

    fn wait(&mut self, out: LinkId, demand: &Demand) {
        let &Demand { train, input, lane, .. } = demand;
        let gives_way = self.turns && input == LinkId::LOCAL;
        let precedence = self.precedence(train.msg);
        let link = &mut self.links[out.index()];
        if link.rounds.is_none() {
            return link.wait(lane, train, input, precedence, gives_way);
        }
        link.wait_for_turn(lane, train, input, precedence, self.messages[train.msg].message.connection());
    }

    /// Starts whatever waiting train can start, in order of precedence and of request, and arranges to be called again.
    ///
    /// That larger precedences go first keeps nobody from moving for ever. Whatever comes first in its lane, all of the lane
    /// demand the same of the next buffer, so that who stands behind could not have gone either; and whenever the wire is
    /// free, the first of *both* lanes have their chance. So a packet that could go waits only for one that does go, and of
    /// these there are finitely many, since messages are finite and each start brings one nearer to its end. And the rules
    /// say what a start must leave of a buffer, not who may start: the bubble of a ring and the order of channels behind
    /// a dateline are there in any order of starts. What smaller precedences may suffer is to wait until larger ones pause.
    ///
    /// A start in the future is decided only for the first request, if nobody can overtake it. That a
    /// later one overtakes, because the first lacks a slot or gives way, is decided when the wire is free.
    #[cold]
    fn arbitrate(&mut self, now: Ps, out: LinkId, q: &mut impl Schedule<Event>) {
        while let Some(first) = self.links[out.index()].first_lane() {
            let link = &self.links[out.index()];
            let start = now.max(link.free);
            let undecided = link.decides_late(now) || start > now && link.gives_way(first);
            if !undecided && self.grant(now, out, first, self.most_at_once(), q) {
                continue;
            }
            // Whoever overtakes gets a single packet through: the first may be able to start next.
            if start == now && self.grant(now, out, first.other(), 1, q) {
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
    fn grant(&mut self, now: Ps, out: LinkId, lane: Lane, most: u32, q: &mut impl Schedule<Event>) -> bool {
        let Some(&request) = self.links[out.index()].lanes[lane.index()].front() else { return false };
        let mut demand = self.demand(out, request.train, request.input);
        if self.start(now, out, &mut demand, most, q).is_none() {
            return false;
        }
        if request.input == LinkId::LOCAL {
            self.backlog(out, demand.vc).unblock(request.train.packets - demand.train.packets);
        }
        self.links[out.index()].leave(lane, demand.train);
        if self.turns && request.input == LinkId::LOCAL {
            self.next_in_line(out, self.precedence(request.train.msg));
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
            let waits = link.gives_way(lane);
            let (credits, needed) = (&mut link.channels[rule.channel_of(lane)].credits, rule.slots_needed(lane));
            let usable = credits.usable_at(start);
            let late = link.late || waits;
            debug_assert!(usable < needed || lane == second || late, "the first lane could have started");
            let at = if usable >= needed { Some(start) } else { credits.time_of(needed) };
            chance = [chance, at].into_iter().flatten().min();
        }
        chance
    }

    /// Up to `most` packets of a train start, back to back, when the wire is free; says when the first
    /// does, or `None` when the slots they need are not known to be free by then. Those that start leave
    /// `d.train`.
    #[inline]
    fn start(&mut self, now: Ps, out: LinkId, d: &mut Demand, most: u32, q: &mut impl Schedule<Event>) -> Option<Ps> {
        let link = &mut self.links[out.index()];
        let start = now.max(link.free);
        let wanted = if self.trains { d.train.packets.min(most) } else { 1 };
        let enough = d.needed + u64::from(wanted - 1);
        let usable = link.channels[usize::from(d.vc)].credits.enough_at(start, enough);
        if usable < d.needed {
            return None;
        }
        let flight = &self.messages[d.train.msg];
        let (whole, stored) = (d.hop.last && flight.is_whole(), d.hop.last && flight.is_stored());
        let packets = if wanted == 1 { 1 } else { link.burst(wanted, usable, d.needed, stored) };
        let (len, each) = packet_size(link, flight.message.len, self.packet, d.train);
        let starts = Series { first: start, gap: each, count: u64::from(packets) };
        link.free = starts.at(starts.count);
        self.usage.add(out.0, Bytes(len * starts.count), starts.count, start, link.free);

        let credits = &mut link.channels[usize::from(d.vc)].credits;
        if stored {
            // The slot is free on arrival, and the credit takes as long back as the packet took.
            credits.add(Series { first: start + each + link.latency + link.latency, ..starts });
        }
        credits.take(starts.count, starts.last());

        let came_on = d.train.state.channel();
        let mut moving = d.train.split(packets);
        moving.state = moving.state.on_channel(d.vc);
        if let Some(first) = put_on_wire(link, moving, starts, d.hop.last, whole, self.trains) {
            q.at(first, link.arrival_key(), Event(Timer::Arrive(out)));
        }
        let end = link.free;
        if d.input == LinkId::LOCAL && moving.state.is_tail() {
            let message = self.messages[moving.msg].message;
            if let Some(receipt) = message.receipt {
                self.receipts.add(out.0, message.src, receipt);
                q.at(end, Key::new(class::LEFT, u32::from(d.hop.port.0)), Event(Timer::Left(out)));
            }
        }
        if d.input != LinkId::LOCAL {
            self.vacate(start, end, d.input, came_on, q);
        } else if starts.last() > now {
            self.backlog(out, d.vc).decide(now, starts);
        }
        Some(start)
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
        if link.wake.set_earlier(at) {
            q.at(at, link.wake_key(), Event(Timer::Wake(out)));
        }
    }

    /// A wake-up: of all that were asked for, only the one that is still expected counts.
    pub(super) fn woken(&mut self, now: Ps, out: LinkId, q: &mut impl Schedule<Event>, news: &mut Vec<NetOut>) {
        let link = &mut self.links[out.index()];
        if !link.wake.fires(now) {
            return;
        }
        self.arbitrate(now, out, q);
        let packet = self.packet;
        for vc in 0..self.backlogs_of_a_link() {
            let backlog = self.backlog(out, vc);
            if let Some(capacity) = backlog.asked()
                && backlog.room(now, capacity, packet) == Room::Now
            {
                backlog.answered();
                let link = &self.links[out.index()];
                news.push(NetOut::Room { at: link.from, port: link.out });
            }
        }
    }

    /// If a sender waits for room and it is known when there is some, the port wakes up then.
    fn promise_room(&mut self, now: Ps, out: LinkId, q: &mut impl Schedule<Event>) {
        let packet = self.packet;
        for vc in 0..self.backlogs_of_a_link() {
            let backlog = self.backlog(out, vc);
            let Some(capacity) = backlog.asked() else { continue };
            match backlog.room(now, capacity, packet) {
                Room::Now => self.wake(now, out, q),
                Room::At(at) => self.wake(at, out, q),
                Room::Unknown => {}
            }
        }
    }

    /// A train's event at the far end of a link.
    #[inline]
    pub(super) fn arrived(&mut self, now: Ps, by: LinkId, q: &mut impl Schedule<Event>, news: &mut Vec<NetOut>) {
        let link = &mut self.links[by.index()];
        let next = link.wire.front().expect("every arrival was put on the wire");
        let hop = self.paths.hop(next.state.position());
        // In transit every packet is on its own: others may come between.
        let as_train = self.trains && hop.last;
        let train = if as_train { link.wire.pop() } else { link.wire.pop_packet(link.full) };
        let train = train.expect("the wire is not empty");
        if let Some(at) = link.wire.next_arrival() {
            q.at(at, link.arrival_key(), Event(Timer::Arrive(by)));
        }
        if hop.last {
            self.deliver(now, by, train, news);
        } else {
            self.transit(now, by, Train { state: train.state.advanced(), ..train }, q);
        }
    }

    /// A packet that goes on is in the buffer behind a link.
    #[inline]
    fn transit(&mut self, now: Ps, input: LinkId, packet: Train, q: &mut impl Schedule<Event>) {
        let link = &mut self.links[input.index()];
        let (vc, port) = (packet.state.channel(), self.paths.hop(packet.state.position()).port);
        let channel = &mut link.channels[usize::from(vc)];
        let first = channel.fifo.is_empty();
        // In a switch every packet requests its output on arrival.
        if link.sorted || first && channel.head_left <= now {
            let out = LinkId(link.onward + u32::from(port.0));
            return self.request(now, out, packet, input, q);
        }
        channel.fifo.push_back(packet);
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
        let packet = channel.fifo.pop_front().expect("a head was announced because a packet waits");
        let out = LinkId(link.onward + u32::from(self.paths.hop(packet.state.position()).port.0));
        self.request(now, out, packet, input, q);
    }

    /// A train is at its destination.
    fn deliver(&mut self, now: Ps, by: LinkId, train: Train, news: &mut Vec<NetOut>) {
        let link = &mut self.links[by.index()];
        let (at, port, gap) = (link.to, link.input, link.full);
        if !self.messages[train.msg].is_stored() {
            link.hold(train.state.channel(), train.packets);
        }
        self.announce(now, at, port, gap, train, news);
    }

    /// The destination hears of a train, if there is something to say.
    pub(super) fn announce(
        &mut self,
        now: Ps,
        at: NodeId,
        port: PortId,
        gap: Ps,
        train: Train,
        news: &mut Vec<NetOut>,
    ) {
        let flight = &self.messages[train.msg];
        let last = train.state.is_tail();
        let segment = if !flight.is_whole() {
            let gap = if train.packets > 1 { gap } else { Ps::ZERO };
            Segment { len: Bytes(self.bytes(train)), t0: now, gap, packets: train.packets }
        } else if last {
            let len = flight.message.len;
            let packets = u32::try_from(len.0.div_ceil(self.packet.0).max(1)).unwrap_or(u32::MAX);
            Segment { len, t0: now, gap: Ps::ZERO, packets }
        } else {
            return;
        };
        self.books.delivered += segment.len.0;
        news.push(NetOut::Arrived { at, port, tag: flight.message.tag, segment, last });
        if last {
            self.messages.remove(train.msg);
        }
    }

    /// Bytes of a train of at least one packet.
    pub(super) fn bytes(&self, train: Train) -> u64 {
        let full = u64::from(train.packets) * self.packet.0;
        match train.state.is_tail() {
            true => full - self.packet.0 + tail_len(self.messages[train.msg].message.len, self.packet),
            false => full,
        }
    }
}

/// Bytes of the last packet of a message of `len` bytes, in packets of up to `packet` bytes.
#[inline(always)]
fn tail_len(len: Bytes, packet: Bytes) -> u64 {
    match len.0 {
        0 => 0,
        len => (len - 1) % packet.0 + 1,
    }
}

/// Bytes and serialisation of each packet of a train, which is part of a message of `len` bytes.
#[inline(always)]
fn packet_size(link: &Link, len: Bytes, packet: Bytes, train: Train) -> (u64, Ps) {
    if train.state.is_short() {
        let len = tail_len(len, packet);
        (len, link.rate.time(Bytes(len)))
    } else {
        (packet.0, link.full)
    }
}

/// Notes the arrivals that somebody will hear of; returns the time of the first if a timer is due.
#[inline(always)]
fn put_on_wire(link: &mut Link, train: Train, starts: Series, last_hop: bool, whole: bool, trains: bool) -> Option<Ps> {
    let under_way = starts.gap + link.latency;
    let (at, due) = if !(trains && last_hop) {
        let at = starts.first + under_way;
        (at, link.wire.push_joining(train, at, link.full))
    } else if !whole {
        let at = starts.first + under_way;
        (at, link.wire.push(train, at))
    } else if train.state.is_tail() {
        let at = starts.last() + under_way;
        (at, link.wire.push(train, at))
    } else {
        return None; // the message is complete with its tail
    };
    due.then_some(at)
}
