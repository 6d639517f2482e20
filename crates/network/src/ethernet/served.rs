//! The backend's part for links that are served frame by frame ([`super::switching`]).

use super::apart::SEVERAL_IN_LINE;
use super::connection::{Line, Transport};
use super::frame::{ACK, CE, CNP, ECT, Frame, NAK, NONE, PFC};
use super::link::{Marking, Taken};
use super::roce::sender::Next;
use super::switching::{Admission, Switching};
use super::tcp::TcpConfig;
use super::{ECT_CWR, Ethernet};
use syncline_core::{NodeId, Ps, Wait};
use syncline_topology::{Fabric, all_links};

/// The most that a NIC reads ahead of a connection.
const MOST_READ_AHEAD: u64 = 1 << 20;

impl<F: Fabric> Ethernet<F> {
    fn ports(&mut self) -> &mut Switching {
        self.switching.as_mut().expect("links are served frame by frame")
    }

    /// A connection sends what it may, or is put in line.
    #[inline(never)]
    pub(super) fn pump_served(&mut self, now: u64, number: u32) {
        if self.passes(number) {
            if self.read(now, number) {
                self.pump_served(now, self.stages[number as usize].after);
            }
            return;
        }
        if !self.ports().asks_connections() {
            while let Some(frame) = self.tcp_frame(now, number) {
                let nic = self.first_link_of(number);
                self.take_served(now, nic, frame, NONE);
            }
            return self.settle(now, number);
        }
        let Line { forth, queued, .. } = &mut self.lines[number as usize];
        let link = forth.first;
        if !std::mem::replace(queued, true) {
            let origin = self.origin(number);
            if let Some(apart) = &mut self.apart {
                apart.line_up(now, link, origin);
            }
            self.ports().nics[link as usize].add(number);
        }
        self.wake_link(now, link);
    }

    /// The link of the last frame that was made.
    fn first_link_of(&self, number: u32) -> u32 {
        self.lines[number as usize].sent_by
    }

    /// The next frame of a TCP connection.
    fn tcp_frame(&mut self, now: u64, number: u32) -> Option<Frame> {
        let line = &mut self.lines[number as usize];
        let segment = line.sender().next(Ps(now), &self.config.tcp, &mut self.counts)?;
        let flags = ECT_CWR[usize::from(self.config.tcp.ecn)][usize::from(segment.reduced)];
        line.resent += u32::from(segment.again);
        Some(line.frame(number, segment.seq, segment.len, self.config.overhead, flags))
    }

    /// The next bytes that cross links of a machine: as they are, and no more than the NIC has room for.
    fn local_frame(&mut self, number: u32) -> Option<Frame> {
        let stage = self.stages[number as usize];
        let taken = match stage.after {
            NONE => u64::MAX,
            after => self.lines[after as usize].una().saturating_add(self.read_ahead()),
        };
        let segment = u64::from(self.config.segment());
        let line = &mut self.lines[number as usize];
        let sender = line.sender();
        let seq = sender.nxt;
        let len = (sender.written - seq).min(segment);
        if len == 0 || seq + len > taken {
            return None;
        }
        sender.nxt += len;
        Some(line.frame(number, seq, len as u32, 0, 0))
    }

    /// What a NIC reads of a connection beyond what is acknowledged.
    pub(super) fn read_ahead(&self) -> u64 {
        let window = self.config.roce.map_or(self.config.tcp.window, |roce| roce.window);
        window.clamp(self.config.segment().into(), MOST_READ_AHEAD)
    }

    /// Bytes have arrived over links of a machine, or at the NIC before such: they go on, or their messages are complete.
    fn arrive_at_stage(&mut self, now: u64, number: u32, before: u64) {
        let stage = self.stages[number as usize];
        let news = self.listeners[number as usize].receiver.next - before;
        if stage.after == NONE {
            if self.listeners[number as usize].receiver.next >= self.listeners[number as usize].boundary {
                self.complete(now, number);
            }
        } else if news > 0 && self.passes(stage.after) {
            self.write_through(now, stage.after, news);
        } else if news > 0 {
            self.write(now, stage.after, news);
            self.pump(now, stage.after);
        }
    }

    /// Bytes are to be sent by a connection that goes on with those of another one.
    pub(super) fn write(&mut self, now: u64, number: u32, len: u64) {
        match &mut self.lines[number as usize].transport {
            Transport::Tcp(sender) if self.stages[number as usize].is_local => sender.written += len,
            Transport::Tcp(sender) => {
                sender.write(Ps(now), len, &self.config.tcp);
            }
            Transport::Roce(queue_pair) => queue_pair.extend(len),
        }
    }

    /// A frame was lost on a link of a machine, which sends it again by itself.
    pub(super) fn replay(&mut self, now: u64, link: u32, frame: Frame) {
        self.take_served(now, link, frame, NONE);
    }

    /// Whether a frame crosses links of a machine.
    pub(super) fn is_local(&self, frame: Frame) -> bool {
        !frame.is(PFC) && self.stages.get(frame.connection as usize).is_some_and(|stage| stage.is_local)
    }

    /// What a connection has to send now.
    fn next_of(&mut self, now: u64, number: u32) -> Result<Frame, Option<u64>> {
        if self.stages[number as usize].is_local {
            return self.local_frame(number).ok_or(None);
        }
        if self.passing.is_some() {
            self.take_reads(now, number);
        }
        let Some(roce) = &self.roce else {
            return self.tcp_frame(now, number).ok_or_else(|| self.next_read(number));
        };
        let resent = self.counts.resent;
        let queue_pair = self.lines[number as usize].queue_pair();
        let next = queue_pair.next(now, self.config.overhead, &roce.config, &mut self.counts);
        match next {
            Next::Frame(seq, len) => {
                let flags = if roce.config.dcqcn.is_some() { ECT } else { 0 };
                self.lines[number as usize].resent += (self.counts.resent - resent) as u32;
                Ok(self.lines[number as usize].frame(number, seq, len, self.config.overhead, flags))
            }
            Next::At(time) => Err(Some(time)),
            Next::Nothing => Err(self.next_read(number)),
        }
    }

    /// Asks the connections of a link in turn.
    fn ask(&mut self, now: u64, link: u32) -> Option<(u32, Frame)> {
        while let Some(number) = self.ports().nics[link as usize].next(now) {
            match self.next_of(now, number) {
                Ok(frame) => {
                    self.ports().nics[link as usize].add(number);
                    return Some((number, frame));
                }
                Err(Some(time)) => {
                    self.tell_lines_apart(time, link, number);
                    self.ports().nics[link as usize].add_at(time, number);
                }
                Err(None) => self.lines[number as usize].queued = false,
            }
        }
        None
    }

    /// The NPU, or the switch that adds, whose bytes a connection carries.
    fn origin(&self, number: u32) -> NodeId {
        self.connections[self.stages[number as usize].owner as usize].src
    }

    /// A connection will be in line for a link at a time. Of several the one goes first that was opened first, and in which order
    /// several NPUs have opened theirs may differ among nodes that are alike.
    fn tell_lines_apart(&mut self, time: u64, link: u32, number: u32) {
        if let (Some(apart), Some(switching)) = (&self.apart, &self.switching)
            && apart.why.is_none()
            && switching.nics[link as usize].at(time).any(|other| self.origin(other) != self.origin(number))
        {
            self.tell_apart(SEVERAL_IN_LINE);
        }
    }

    /// There is something to send by a link.
    fn wake_link(&mut self, now: u64, link: u32) {
        let free = self.links[link as usize].free();
        if free <= now {
            self.serve(now, link);
        } else if !self.ports().is_planned(link) {
            self.ports().plan(link, free);
        }
    }

    /// A link may be free: the next frame leaves.
    #[inline(never)]
    pub(super) fn serve(&mut self, now: u64, link: u32) {
        let free = self.links[link as usize].free();
        if free > now {
            return self.ports().plan(link, free);
        }
        if let Some((held, goes_on)) = self.ports().next(link) {
            let frame = held.frame;
            if !frame.is(PFC) {
                self.links[link as usize].counts.waited += u128::from(frame.wire) * u128::from(now - held.since);
            }
            self.transmit(now, link, frame);
            if goes_on {
                self.pause(now, held.from, false);
            }
            return;
        }
        let paused = self.ports().ports[link as usize].is_paused();
        if !paused && let Some((number, frame)) = self.ask(now, link) {
            // Frames that are spread over several ways may leave by another port of the host.
            let by = self.first_link_of(number);
            if by == link {
                self.transmit(now, link, frame);
            } else {
                self.take_served(now, by, frame, NONE);
                self.ports().plan(link, now);
            }
            self.settle(now, number);
            return self.read_on(now, number);
        }
        self.ports().plan(link, free);
    }

    /// A frame leaves by a link that is free.
    fn transmit(&mut self, now: u64, link: u32, frame: Frame) {
        let usage = &mut self.usage;
        match self.links[link as usize].offer(&mut self.store, now, frame, |busy, to| usage.add_frames(link, busy, to))
        {
            Taken::Alone(time) => self.clock.set(link, time),
            Taken::Behind | Taken::Dropped => {}
        }
        let free = self.links[link as usize].free();
        self.ports().plan(link, free);
    }

    /// A frame takes a link, at once or when its turn comes, if there is room.
    #[inline(never)]
    pub(super) fn take_served(&mut self, now: u64, link: u32, mut frame: Frame, from: u32) {
        let at = link as usize;
        let free = self.links[at].free();
        let ports = self.switching.as_mut().expect("links are served frame by frame");
        if free <= now && ports.ports[at].is_clear(ports.class(frame)) {
            return self.transmit(now, link, frame);
        }
        let (waiting, queued) = (ports.ports[at].waiting, ports.ports[at].queued);
        let may_be_marked = self.config.marking != Marking::None && frame.is(ECT);
        let marked = may_be_marked && self.links[at].marks(waiting, queued);
        let drawn = may_be_marked && self.config.marking.draws(waiting);
        if marked {
            frame.flags |= CE;
        }
        let admission = ports.queue(now, link, frame, from);
        if let Some(apart) = self.apart.as_mut().filter(|_| drawn) {
            apart.why = Some("a switch draws whether it marks a frame");
        }
        let link_at = &mut self.links[at];
        if admission == Admission::Refused {
            link_at.exceptions().drop(frame.wire);
            return self.dropped(now, frame);
        }
        link_at.exceptions().marks += u64::from(marked);
        let counts = &mut link_at.counts;
        counts.peak = counts.peak.max(ports.ports[at].waiting);
        if link >= self.first_switch_link {
            let window = self.timeline.at(now);
            window.peak = window.peak.max(ports.ports[at].waiting);
        }
        if !ports.is_planned(link) {
            ports.plan(link, free.max(now));
        }
        if admission == Admission::WaitsAndPauses {
            self.pause(now, from, true);
        }
    }

    /// Tells the other end of a link to pause, or to go on.
    fn pause(&mut self, now: u64, input: u32, pauses: bool) {
        self.timeline.at(now).pauses += u64::from(pauses);
        self.tell_apart("a switch pauses its senders");
        if let Some((back, frame)) = self.ports().pause(input, pauses) {
            self.take_served(now, back, frame, NONE);
        }
    }

    /// A frame has arrived at the end of a link.
    #[inline(never)]
    pub(super) fn arrive_served(&mut self, now: u64, link: u32, mut frame: Frame) {
        if frame.is(PFC) {
            self.ports().hear(now, frame);
            if frame.seq == 0 {
                self.wake_link(now, frame.connection);
            }
        } else if frame.hops > 0 {
            let out = self.paths.advance(link, &mut frame);
            if let Some(apart) = &mut self.apart {
                apart.come(now, link, Some(out));
            }
            self.take_served(now, out, frame, link);
        } else {
            if let Some(apart) = &mut self.apart {
                apart.come(now, link, None);
            }
            self.arrive_at_host(now, frame);
        }
    }

    fn arrive_at_host(&mut self, now: u64, frame: Frame) {
        let number = frame.connection;
        let stage = self.stages[number as usize];
        let before = self.listeners[number as usize].receiver.next;
        if stage.is_local {
            let bytes = &mut self.listeners[number as usize].receiver;
            // Nothing of the configuration of TCP matters to which bytes have arrived.
            bytes.take(Ps(now), frame.seq, frame.wire.into(), &TcpConfig::RFC);
            return self.arrive_at_stage(now, number, before);
        }
        if self.roce.is_some() {
            self.arrive_at_queue_pair(now, frame);
        } else if frame.is(ACK) {
            self.acknowledged(now, frame);
        } else {
            self.received(now, frame);
        }
        if stage.is_part() {
            self.arrive_at_stage(now, number, before);
            if stage.before != NONE && (self.passing.is_none() || Self::is_bare(frame)) {
                // What is acknowledged makes room at the NIC.
                self.pump(now, stage.before);
            }
        }
    }

    /// A link has become another one.
    pub(super) fn changed_served(&mut self, now: u64, link: u32) {
        if self.links[link as usize].is_down() {
            self.ports().forget(now, link);
            let back = self.ports().back_of(link);
            if back != NONE {
                self.serve(now, back);
            }
        }
        self.serve(now, link);
    }

    /// Finds out whether pauses wait for each other, unless a link that changes may still end that.
    pub(super) fn look_for_deadlock(&mut self) {
        if let Some(switching) = self.switching.as_ref().filter(|_| self.changes_left == 0) {
            self.deadlock = switching.deadlock();
        }
    }

    /// Why links are paused that will be so for ever.
    pub(super) fn pauses(&self) -> Vec<Wait> {
        let cycle = self.switching.as_ref().map_or_else(Vec::new, |switching| switching.deadlock());
        let links: Vec<_> = all_links(&self.fabric).collect();
        let named = |link: u32| {
            let (node, port) = links[link as usize];
            let end = self.fabric.next(node, port).0;
            (format!("the link from {} to {}", self.fabric.node_name(node), self.fabric.node_name(end)), end)
        };
        let wait = |(i, &link): (usize, &u32)| {
            let ((who, end), (next, _)) = (named(link), named(cycle[(i + 1) % cycle.len()]));
            let buffer = self.fabric.node_name(end);
            Wait { who, what: format!("the buffer of {buffer}, which is full of frames for {next} (PFC deadlock)") }
        };
        cycle.iter().enumerate().map(wait).collect()
    }

    /// Whether a frame has no payload.
    pub(super) fn is_bare(frame: Frame) -> bool {
        frame.flags & (ACK | NAK | CNP | PFC) != 0
    }
}
