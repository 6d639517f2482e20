//! The backend's part for hosts with RoCE ([`super::roce`]).

use super::frame::{ACK, CE, CNP, Frame, NAK, NONE};
use super::roce::receiver::{Reply, Responder};
use super::roce::{Repeat, RoceConfig};
use super::tcp::scoreboard::Range;
use super::{BlocksId, Ethernet};
use syncline_topology::Fabric;

/// The queue pairs.
#[derive(Clone, Debug)]
pub struct Roce {
    /// What they are like.
    pub config: RoceConfig,
    /// The receiving ends, by connection; the sending ones are those of [`Line`](super::connection::Line).
    pub responders: Vec<Responder>,
    /// Requests for what is missing.
    pub naks: u64,
    /// Notifications of marks.
    pub notifications: u64,
}

impl Roce {
    /// No queue pairs.
    pub fn new(config: RoceConfig) -> Roce {
        Roce { config, responders: Vec::new(), naks: 0, notifications: 0 }
    }
}

impl<F: Fabric> Ethernet<F> {
    /// A host has got a frame.
    pub(super) fn arrive_at_queue_pair(&mut self, now: u64, frame: Frame) {
        let Some(roce) = &self.roce else { return };
        let at = frame.connection as usize;
        if frame.is(CNP) {
            self.lines[at].queue_pair().notified(now, &roce.config);
            return;
        }
        if !Self::is_bare(frame) {
            return self.take_request(now, frame);
        }
        let mut told: (usize, [Range; super::tcp::MOST_BLOCKS]) = (0, [(0, 0); super::tcp::MOST_BLOCKS]);
        if frame.blocks != NONE {
            let blocks = self.blocks[BlocksId(frame.blocks)].all();
            told.0 = blocks.len();
            told.1[..blocks.len()].copy_from_slice(blocks);
            self.blocks.remove(BlocksId(frame.blocks));
        }
        let news = (frame.is(NAK), &told.1[..told.0]);
        let trip = self.lines[at].queue_pair().acknowledge(now, frame.seq, news, &roce.config, &mut self.counts);
        if let Some(trip) = trip {
            self.trips.add(trip);
            self.lines[at].trips.add(now, trip);
        }
        if self.lines[at].is_watched {
            self.sample(now, frame.connection, trip);
        }
        self.pump(now, frame.connection);
    }

    /// Bytes of a message.
    fn take_request(&mut self, now: u64, frame: Frame) {
        let Some(roce) = &mut self.roce else { return };
        let at = frame.connection as usize;
        let len = u32::from(frame.wire) - self.config.overhead;
        let listener = &mut self.listeners[at];
        let notifies = match &roce.config.dcqcn {
            Some(dcqcn) if frame.is(CE) => roce.responders[at].notifies(now, dcqcn),
            _ => false,
        };
        // Where bytes go on over links of a machine, it is not known here where a message ends, and nothing waits.
        let boundary = if self.stages[at].is_part() { 0 } else { listener.boundary };
        let reply = roce.responders[at].take(&mut listener.receiver, (frame.seq, len), boundary, &roce.config);
        let is_complete = listener.receiver.next >= boundary;
        roce.notifications += u64::from(notifies);
        roce.naks += u64::from(reply == Reply::Nak);
        if notifies {
            self.reply(now, frame.connection, CNP);
        }
        match reply {
            Reply::Nothing => {}
            Reply::Ack => self.reply(now, frame.connection, ACK),
            Reply::Nak => self.reply(now, frame.connection, NAK),
        }
        if is_complete && !self.stages[at].is_part() {
            self.complete(now, frame.connection);
        }
    }

    /// Sends an answer without payload.
    fn reply(&mut self, now: u64, connection: u32, flags: u8) {
        let listener = &self.listeners[connection as usize];
        let nic = listener.back.first;
        let mut frame = Frame::on(listener.back, connection, listener.receiver.next, self.config.overhead, flags);
        let tells = self.roce.as_ref().is_some_and(|roce| roce.config.repeat == Repeat::Selective);
        if tells
            && flags != CNP
            && let Some(blocks) = listener.receiver.blocks()
        {
            frame.blocks = self.blocks.insert(blocks).0;
        }
        self.emit(now, nic, frame);
    }
}
