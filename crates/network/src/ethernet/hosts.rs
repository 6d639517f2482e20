//! The backend's part for hosts with TCP, for messages that are complete, and for timers of either transport.

use super::clock::NEVER;
use super::config::BLOCK_BYTES;
use super::connection::{Stage, Transport};
use super::frame::{ACK, CE, CWR, ECE, Frame, NONE};
use super::samples::{Sample, Samples};
use super::tcp::receiver::Answer;
use super::tcp::sender::Ack;
use super::writes::NO_END;
use super::{BlocksId, Ethernet, Timer, arrived};
use crate::api::NetOut;
use std::cmp::Reverse;
use syncline_core::Ps;
use syncline_topology::Fabric;

impl<F: Fabric> Ethernet<F> {
    /// A host has got a segment.
    #[inline(always)]
    pub(super) fn received(&mut self, now: u64, frame: Frame) {
        let listener = &mut self.listeners[frame.connection as usize];
        let len = u32::from(frame.wire) - self.config.overhead;
        if self.config.tcp.ecn {
            listener.hear(frame.is(CE), frame.is(CWR), self.config.tcp.control);
        }
        let answer = listener.receiver.take(Ps(now), frame.seq, len, &self.config.tcp);
        let is_complete = listener.receiver.next >= listener.boundary;
        match answer {
            Answer::Now => self.answer(now, frame.connection),
            Answer::Later => {
                let deadline = listener.receiver.deadline.0;
                if deadline < listener.armed {
                    listener.armed = deadline;
                    self.timers.push(Reverse((deadline, frame.connection, Timer::Acknowledgement)));
                }
            }
        }
        if is_complete && !self.stages[frame.connection as usize].is_part() {
            self.complete(now, frame.connection);
        }
    }

    /// Sends an acknowledgement.
    #[inline(always)]
    pub(super) fn answer(&mut self, now: u64, connection: u32) {
        let listener = &mut self.listeners[connection as usize];
        listener.receiver.answered();
        let flags = if listener.receiver.marked { ACK | ECE } else { ACK };
        let nic = listener.back.first;
        let mut frame = Frame::on(listener.back, connection, listener.receiver.next, self.config.overhead, flags);
        if self.config.tcp.sack
            && let Some(blocks) = listener.receiver.blocks()
        {
            frame.wire += (BLOCK_BYTES as usize * blocks.all().len()) as u16;
            frame.blocks = self.blocks.insert(blocks).0;
        }
        self.emit(now, nic, frame);
    }

    /// Messages are complete.
    #[cold]
    #[inline(never)]
    pub(super) fn complete(&mut self, now: u64, connection: u32) {
        let (at, owner) = (connection as usize, self.stages[connection as usize].owner as usize);
        let here = self.listeners[at].receiver.next;
        while here >= self.listeners[at].boundary {
            let Some(message) = self.writes.arrive(&mut self.messages[owner]) else { break };
            self.listeners[at].boundary = message.next_end;
            let took = now - message.at;
            let alone = u128::from(self.alone(owner as u32, message.len.0)).max(1);
            let slowdown = u64::try_from(u128::from(took) * 1000 / alone).unwrap_or(u64::MAX);
            if self.flow_finished(owner as u32, message.len.0, took, slowdown) {
                continue;
            }
            self.books.delivered += message.len.0;
            self.completions.add(Ps(took));
            self.slowdowns.add(Ps(slowdown));
            self.report(now, arrived(message.tag, message.len, self.ends[at], Ps(now)));
        }
        self.listeners[at].ended_at = now;
    }

    /// A host has got an acknowledgement.
    #[inline(always)]
    pub(super) fn acknowledged(&mut self, now: u64, frame: Frame) {
        let line = &mut self.lines[frame.connection as usize];
        let (config, counts) = (&self.config.tcp, &mut self.counts);
        let mut ack = Ack { next: frame.seq, blocks: &[], marked: frame.is(ECE) };
        let trip = if frame.blocks == NONE {
            line.sender().acknowledge(Ps(now), ack, config, counts)
        } else {
            let id = BlocksId(frame.blocks);
            ack.blocks = self.blocks[id].all();
            let trip = line.sender().acknowledge(Ps(now), ack, config, counts);
            self.blocks.remove(id);
            trip
        };
        if let Some(trip) = trip {
            self.trips.add(trip);
            line.trips.add(now, trip);
        }
        if line.is_watched {
            self.sample(now, frame.connection, trip);
        }
        self.pump(now, frame.connection);
    }

    /// The state of a connection that is watched.
    #[cold]
    #[inline(never)]
    pub(super) fn sample(&mut self, at: u64, number: u32, trip: Option<Ps>) {
        let trip = trip.map(|trip| trip.0);
        let sample = match &mut self.lines[number as usize].transport {
            Transport::Roce(queue_pair) => {
                let rate = self.roce.as_ref().and_then(|roce| queue_pair.rate(at, &roce.config));
                Sample { at, cwnd: None, ssthresh: None, rate, trip, flight: queue_pair.sent - queue_pair.una }
            }
            Transport::Tcp(sender) => {
                let ssthresh = Some(sender.window.ssthresh).filter(|&size| size < u64::MAX);
                let flight = sender.nxt - sender.una;
                Sample { at, cwnd: Some(sender.window.cwnd), ssthresh, rate: None, trip, flight }
            }
        };
        self.samples.entry(number).or_insert_with(Samples::new).add(sample);
    }

    /// The earliest timer fires.
    #[cold]
    #[inline(never)]
    pub(super) fn fire(&mut self, now: u64) {
        let Some(Reverse((time, number, timer))) = self.timers.pop() else { return };
        match timer {
            Timer::Retransmission => self.expire(now, time, number),
            Timer::Change => self.change(now, number),
            Timer::Flow => self.begin_flow(now, number),
            Timer::Written => self.written(now, number),
            Timer::Acknowledgement => {
                let listener = &mut self.listeners[number as usize];
                if listener.armed == time {
                    listener.armed = NEVER;
                    match listener.receiver.deadline.0 {
                        NEVER => {}
                        deadline if deadline <= now => self.answer(now, number),
                        deadline => {
                            listener.armed = deadline;
                            self.timers.push(Reverse((deadline, number, timer)));
                        }
                    }
                }
            }
        }
    }

    /// The retransmission timer of a connection fires, as it was set at some time.
    pub(super) fn expire(&mut self, now: u64, time: u64, number: u32) {
        let line = &mut self.lines[number as usize];
        if line.armed != time {
            return; // an earlier one was set since
        }
        line.armed = NEVER;
        if !self.deadlock.is_empty() {
            return;
        }
        let deadline = line.deadline().0;
        if deadline > now {
            // It was set anew; off if that is never.
            line.armed = deadline;
            if line.armed != NEVER {
                self.timers.push(Reverse((line.armed, number, Timer::Retransmission)));
            }
            return;
        }
        let counts = &mut self.counts;
        let (goes_on, tries) = match (&mut line.transport, &self.roce) {
            (Transport::Roce(queue_pair), Some(roce)) => {
                (queue_pair.expire(now, &roce.config, counts), queue_pair.tries())
            }
            (Transport::Roce(_), None) => unreachable!("queue pairs are those of RoCE"),
            (Transport::Tcp(sender), _) => (sender.expire(Ps(now), &self.config.tcp, counts), sender.tries()),
        };
        self.timeline.at(now).timeouts += u64::from(goes_on);
        self.lines[number as usize].timeouts += u32::from(goes_on);
        self.look_for_deadlock();
        if self.clock.first().0 == NEVER {
            self.stalled += now - self.active_at;
            self.active_at = now;
        }
        if goes_on {
            self.pump(now, number);
        } else {
            *self.lines[number as usize].deadline() = Ps::MAX;
            let Stage { owner, last, .. } = self.stages[number as usize];
            // Whatever of it is still under way counts for nothing.
            self.listeners[last as usize].boundary = NO_END;
            let is_flow = self.flow_failed(self.stages[number as usize]);
            let host = self.connections[owner as usize].src;
            let staying = self.writes.staying(&self.messages[owner as usize]);
            for message in self.writes.give_up(&mut self.messages[owner as usize]) {
                if is_flow {
                    continue;
                }
                self.books.failed += message.len.0;
                let why = crate::Loss::Unanswered { tries: tries + 1 };
                self.report(now, NetOut::Failed { at: host, tag: message.tag, why });
            }
            if !is_flow {
                self.stay(now, owner, staying);
            }
        }
    }
}
