//! A network that notes the messages of some nodes, for traces.
//!
//! It does nothing else: what is under it hears and says the same as without it, at the same times.

use crate::api::{Connection, Message, MsgId, NetOut, Network, Room, TrafficClass};
use crate::noted::Noted;
use crate::usage::LinkUsage;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use syncline_core::table::Table;
use syncline_core::{Books, Bytes, NodeId, PortId, Ps, Schedule, Wait, Wire};
use syncline_topology::Fabric;

/// The messages that nodes sent or received, in the order in which they were sent, up to a limit.
#[derive(Debug)]
pub struct MessageLog {
    fabric: Arc<dyn Fabric>,
    /// Whether the messages of a node are wanted.
    wanted: Vec<bool>,
    limit: usize,
    noted: Vec<Noted>,
    /// Messages that are open, of which nothing has been fed.
    open: BTreeMap<MsgId, Message>,
    /// By destination and tag, which of those noted are under way. A destination tells its messages apart by their
    /// tags; where several have the same, they arrive in the order in which they were sent.
    under_way: BTreeMap<(NodeId, u64), VecDeque<usize>>,
    path: Vec<PortId>,
}

impl MessageLog {
    /// None yet; never more than `limit`.
    pub fn new(fabric: Arc<dyn Fabric>, nodes: &[NodeId], limit: usize) -> MessageLog {
        let mut wanted = vec![false; fabric.nodes() as usize];
        nodes.iter().for_each(|node| wanted[node.index()] = true);
        let (noted, open, under_way, path) = (Vec::new(), BTreeMap::new(), BTreeMap::new(), Vec::new());
        MessageLog { fabric, wanted, limit, noted, open, under_way, path }
    }

    fn is_full(&self) -> bool {
        self.noted.len() >= self.limit
    }

    fn sent(&mut self, now: Ps, message: &Message) {
        if self.is_full() {
            return;
        }
        self.path.clear();
        message.route.append(&*self.fabric, message.src, &mut self.path);
        let dst = self.path.iter().fold(message.src, |at, &port| self.fabric.next(at, port).0);
        if self.wanted[message.src.index()] || self.wanted[dst.index()] {
            let left_by = self.path.first().copied();
            self.under_way.entry((dst, message.tag)).or_default().push_back(self.noted.len());
            let Message { src, len, .. } = *message;
            self.noted.push(Noted { src, left_by, dst, came_by: None, len, sent: now, arrived: None });
        }
    }

    fn fed(&mut self, now: Ps, id: MsgId) {
        if let Some(message) = self.open.remove(&id) {
            self.sent(now, &message);
        }
    }

    fn heard(&mut self, reports: &[NetOut]) {
        for report in reports {
            let &NetOut::Arrived { at, port, tag, segment, last: true } = report else { continue };
            let Some(waiting) = self.under_way.get_mut(&(at, tag)) else { continue };
            let Some(place) = waiting.pop_front() else { continue };
            if waiting.is_empty() {
                self.under_way.remove(&(at, tag));
            }
            let message = &mut self.noted[place];
            message.came_by = message.left_by.map(|_| port);
            message.arrived = Some(segment.end());
        }
    }
}

/// A network, and what is noted of its messages, if anything.
#[derive(Debug)]
pub struct Recorded<N> {
    net: N,
    log: Option<Box<MessageLog>>,
}

impl<N> Recorded<N> {
    /// A network of whose messages those are noted that a log is for.
    pub fn new(net: N, log: Option<MessageLog>) -> Recorded<N> {
        Recorded { net, log: log.map(Box::new) }
    }
}

impl<N: Network> Network for Recorded<N> {
    type Event = N::Event;

    #[inline]
    fn open(&mut self, message: Message) -> MsgId {
        let id = self.net.open(message);
        if let Some(log) = self.log.as_mut().filter(|log| !log.is_full()) {
            log.open.insert(id, message);
        }
        id
    }

    #[inline]
    fn feed<Q: Schedule<Self::Event>>(&mut self, now: Ps, id: MsgId, len: Bytes, q: &mut Q) {
        if let Some(log) = &mut self.log {
            log.fed(now, id);
        }
        self.net.feed(now, id, len, q);
    }

    #[inline]
    fn send<Q: Schedule<Self::Event>>(&mut self, now: Ps, message: Message, q: &mut Q) {
        if let Some(log) = &mut self.log {
            log.sent(now, &message);
        }
        self.net.send(now, message, q);
    }

    #[inline]
    fn room(&mut self, now: Ps, at: NodeId, port: PortId, class: TrafficClass, capacity: Bytes) -> Room {
        self.net.room(now, at, port, class, capacity)
    }

    const BOUNDS_CONNECTIONS: bool = N::BOUNDS_CONNECTIONS;

    #[inline]
    fn takes(&mut self, connection: Connection, len: Bytes) -> bool {
        self.net.takes(connection, len)
    }

    #[inline]
    fn release<Q: Schedule<Self::Event>>(&mut self, now: Ps, at: NodeId, port: PortId, class: TrafficClass, q: &mut Q) {
        self.net.release(now, at, port, class, q);
    }

    #[inline]
    fn handle<Q: Schedule<Self::Event>>(&mut self, now: Ps, event: Self::Event, q: &mut Q, out: &mut Vec<NetOut>) {
        let before = out.len();
        self.net.handle(now, event, q, out);
        if let Some(log) = &mut self.log {
            log.heard(&out[before..]);
        }
    }

    fn waits(&self) -> Vec<Wait> {
        self.net.waits()
    }

    fn books(&self) -> Books {
        self.net.books()
    }

    fn wire(&self) -> Wire {
        self.net.wire()
    }

    fn further_work(&self) -> u64 {
        self.net.further_work()
    }

    fn told_apart(&self) -> Option<&'static str> {
        self.net.told_apart()
    }

    fn finish(&mut self, now: Ps) {
        self.net.finish(now);
    }

    fn usage(&self) -> &LinkUsage {
        self.net.usage()
    }

    fn record_links(&mut self, links: &[u32], limit: usize) {
        self.net.record_links(links, limit);
    }

    fn noted(&self) -> &[Noted] {
        self.log.as_ref().map_or(&[], |log| &log.noted)
    }

    fn counters(&self) -> Vec<Table> {
        self.net.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytical::{Analytical, Event};
    use crate::api::{Delivery, Route};
    use syncline_core::{EventQueue, Rate};
    use syncline_topology::{Block, Dimension, Product};

    fn message(src: u32, dst: u32, len: u64, tag: u64) -> Message {
        let (route, class, delivery) = (Route::To(NodeId(dst)), TrafficClass::default(), Delivery::Whole);
        Message { src: NodeId(src), route, queue: 0, len: Bytes(len), class, delivery, tag, receipt: None }
    }

    fn noted(nodes: &[u32], limit: usize, messages: &[Message]) -> Vec<Noted> {
        let rate = Rate::new(1_000_000_000_000).expect("a rate");
        let ring = Dimension { block: Block::Ring, size: 4, rate, latency: Ps(100), links: 1 };
        let fabric = Arc::new(Product::new(vec![ring]).expect("a ring"));
        let nodes: Vec<NodeId> = nodes.iter().map(|&node| NodeId(node)).collect();
        let log = MessageLog::new(fabric.clone(), &nodes, limit);
        let mut net = Recorded::new(Analytical::new(fabric, Ps(1000)), Some(log));
        let (mut queue, mut out) = (EventQueue::<Event>::new(), Vec::new());
        for message in messages {
            if message.tag % 2 == 0 {
                net.send(Ps(message.tag), *message, &mut queue);
            } else {
                let id = net.open(*message);
                net.feed(Ps(message.tag), id, message.len, &mut queue);
            }
        }
        while let Some((now, _, event)) = queue.pop() {
            net.handle(now, event, &mut queue, &mut out);
        }
        net.noted().to_vec()
    }

    /// A byte takes a picosecond, and a link 100.
    #[test]
    fn messages_of_the_nodes_are_noted_with_both_their_times() {
        let sent = [message(0, 1, 50, 4), message(2, 3, 9, 6), message(3, 1, 10, 7), message(0, 1, 7, 8)];
        let found = noted(&[1], 9, &sent);
        let times: Vec<_> =
            found.iter().map(|m| (m.src.0, m.dst.0, m.len.0, m.sent.0, m.arrived.map(|t| t.0))).collect();
        // The second one of node 0 waits for the first one at its port.
        assert_eq!(times, [(0, 1, 50, 4, Some(154)), (3, 1, 10, 7, Some(217)), (0, 1, 7, 8, Some(161))]);
        assert!(found.iter().all(|message| message.left_by.is_some() && message.came_by.is_some()));
    }

    #[test]
    fn no_more_than_the_limit_are_noted() {
        let sent = [message(0, 1, 5, 2), message(0, 1, 5, 3), message(0, 1, 5, 4)];
        assert_eq!(noted(&[0], 2, &sent).len(), 2);
        assert_eq!(noted(&[2], 2, &sent).len(), 0);
    }
}
