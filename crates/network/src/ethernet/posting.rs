//! Hosts that post a limited number of messages: the others wait until the first of those has left.

use super::Ethernet;
use super::writes::NO_END;
use crate::api::{Message, NetOut};
use std::collections::VecDeque;
use syncline_core::{NodeId, Wait};
use syncline_topology::Fabric;

/// The messages of all hosts.
#[derive(Clone, Debug)]
pub struct Posting {
    /// How many messages of a host may have been posted without having left.
    most: u32,
    hosts: Vec<Host>,
    /// Messages whose turn has come, with their connections.
    due: VecDeque<(u32, Message)>,
    /// Whether these are being posted.
    is_posting: bool,
}

#[derive(Clone, Debug, Default)]
struct Host {
    posted: u32,
    waiting: VecDeque<(u32, Message)>,
}

impl Posting {
    /// So many messages at once, of so many hosts.
    pub fn new(most: u32, hosts: u32) -> Posting {
        Posting { most, hosts: vec![Host::default(); hosts as usize], due: VecDeque::new(), is_posting: false }
    }

    /// Whether the message of a connection is posted now; otherwise it is kept.
    fn takes(&mut self, number: u32, message: Message) -> bool {
        let host = &mut self.hosts[message.src.0 as usize];
        let is_free = host.posted < self.most;
        if is_free {
            host.posted += 1;
        } else {
            host.waiting.push_back((number, message));
        }
        is_free
    }

    /// A message of a host has left.
    fn left(&mut self, host: NodeId) {
        let host = &mut self.hosts[host.0 as usize];
        match host.waiting.pop_front() {
            Some(next) => self.due.push_back(next),
            None => host.posted -= 1,
        }
    }

    /// What waits for its turn.
    pub fn waits(&self, name: impl Fn(NodeId) -> String) -> impl Iterator<Item = Wait> {
        let waiting = (0..).zip(&self.hosts).filter(|(_, host)| !host.waiting.is_empty());
        waiting.map(move |(number, host)| Wait {
            who: format!("{}, {} message(s)", name(NodeId(number)), host.waiting.len()),
            what: format!("one of {} outstanding message(s) to leave", host.posted),
        })
    }
}

impl<F: Fabric> Ethernet<F> {
    /// Messages up to a byte are in the socket buffer, or were sent by a queue pair: their senders can use their memory again.
    /// Where hosts post a limited number of messages, all bytes up to there have been handed to the port.
    #[cold]
    #[inline(never)]
    pub(super) fn leave(&mut self, now: u64, number: u32, left: u64) {
        let at = number as usize;
        let counts = self.posting.is_some() && !self.is_flow(number);
        let host = self.connections[at].src;
        while left >= self.lines[at].left_at {
            let next = self.writes.leave(&mut self.messages[at]);
            self.lines[at].left_at = next.map_or(NO_END, |message| message.next_end);
            let Some(message) = next else { break };
            if let Some(receipt) = message.receipt {
                self.report(now, NetOut::Left { at: host, receipt });
            }
            if let Some(posting) = self.posting.as_mut().filter(|_| counts) {
                posting.left(host);
            }
        }
        self.post_what_is_due(now);
    }

    /// A connection gets a message, as soon as its host may post it.
    pub(super) fn post_in_turn(&mut self, now: u64, number: u32, message: Message) {
        if self.posting.as_mut().is_none_or(|posting| posting.takes(number, message)) {
            self.post(now, number, message);
        }
    }

    /// So many messages of a connection that was given up will never leave: it is the turn of others.
    pub(super) fn stay(&mut self, now: u64, owner: u32, messages: usize) {
        let host = self.connections[owner as usize].src;
        if let Some(posting) = &mut self.posting {
            (0..messages).for_each(|_| posting.left(host));
        }
        self.post_what_is_due(now);
    }

    /// Messages whose turn has come are posted, which may be the turn of others.
    fn post_what_is_due(&mut self, now: u64) {
        while let Some(posting) = self.posting.as_mut().filter(|posting| !posting.is_posting)
            && let Some((number, message)) = posting.due.pop_front()
        {
            posting.is_posting = true;
            self.post(now, number, message);
            if let Some(posting) = &mut self.posting {
                posting.is_posting = false;
            }
        }
    }
}
