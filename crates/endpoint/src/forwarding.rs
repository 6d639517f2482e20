//! Messages that endpoints forward hop by hop, whole or packet by packet: which are under way, and where they go
//! next.
//!
//! A message carries the number of its journey instead of the tag of the step that takes it; on the last hop it
//! carries that tag again. The number is a mere handle: one-hop messages that reach a port come from the
//! same neighbour, in an order that no tag has a part in. Going packet by packet, a message is on several hops at once,
//! and is a journey of its own on each.

use crate::costs::STAGES;
use std::collections::VecDeque;
use syncline_core::{Bytes, NodeId, PortId, Slab, id_type};
use syncline_network::{Delivery, Message, MsgId};
use syncline_topology::{Fabric, Paths};

id_type!(
    /// The number of a journey: the lower half of the tag that it gives its message.
    JourneyId
);

impl JourneyId {
    fn of(tag: u64) -> JourneyId {
        JourneyId(tag as u32)
    }
}

/// A message on its way over several hops.
#[derive(Clone, Copy, Debug)]
struct Journey {
    tag: u64,
    len: Bytes,
    /// How it arrives.
    delivery: Delivery,
    /// Where it is on its path.
    position: u32,
    /// Going packet by packet: the message that its next hop is, once opened, and the bytes that are to go there.
    onward: Option<MsgId>,
    left: Bytes,
}

/// One hop of a message: the port it takes, and the tag it carries there.
#[derive(Clone, Copy, Debug)]
pub struct HopMessage {
    /// The port.
    pub port: PortId,
    /// The tag.
    pub tag: u64,
    /// Length of the message.
    pub len: Bytes,
    /// How the message arrives in the end.
    pub delivery: Delivery,
}

/// The messages in transit of all NPUs.
#[derive(Debug)]
pub struct Forwarding {
    paths: Paths,
    journeys: Slab<JourneyId, Journey>,
    /// Per NPU and line, the tags of what it works on, and of how many packets, first come, first served. There is a
    /// line for each stage of the work, or for each port that packets come by.
    in_hand: Vec<VecDeque<(u64, u32)>>,
    lines: usize,
    /// Bytes that were forwarded.
    pub bytes: u64,
}

impl Forwarding {
    /// Tells a journey's number from the tag of a step, which leaves this bit clear.
    pub const MARK: u64 = 1 << 63;

    /// Nothing under way on a fabric.
    pub fn new(fabric: &dyn Fabric) -> Forwarding {
        let ports = (0..fabric.npus()).map(|npu| usize::from(fabric.ports(NodeId(npu)))).max();
        let lines = ports.unwrap_or(0).max(STAGES);
        Forwarding {
            paths: Paths::new(fabric),
            journeys: Slab::new(),
            in_hand: vec![VecDeque::new(); fabric.npus() as usize * lines],
            lines,
            bytes: 0,
        }
    }

    /// Links of the ways of all messages that have set out.
    pub fn looked_up(&self) -> u64 {
        self.paths.looked_up()
    }

    /// A message sets out for a node, given by its number in the whole machine; `None` if it is there, or goes by a port.
    pub fn depart(&mut self, fabric: &dyn Fabric, message: Message) -> Option<HopMessage> {
        let Message { src, tag, len, delivery, route, .. } = message;
        let position = self.paths.between(fabric, src, route.end()?)?;
        Some(self.hop(Journey { tag, len, delivery, position, onward: None, left: len }))
    }

    /// The hop that a message takes now: it keeps its tag if that is the last one.
    fn hop(&mut self, journey: Journey) -> HopMessage {
        let Journey { tag, len, delivery, position, .. } = journey;
        let taken = self.paths.hop(position);
        if taken.last {
            return HopMessage { port: taken.port, tag, len, delivery };
        }
        let number = self.journeys.insert(journey);
        HopMessage { port: taken.port, tag: Self::MARK | u64::from(number.0), len, delivery }
    }

    /// Whether what has this tag goes on from where it arrives.
    #[inline]
    pub fn is_passing(tag: u64) -> bool {
        tag & Self::MARK != 0
    }

    /// Length of a message with this tag if it goes on from the NPU where it has arrived.
    #[inline]
    pub fn passing(&self, tag: u64) -> Option<Bytes> {
        Self::is_passing(tag).then(|| self.journeys[JourneyId::of(tag)].len)
    }

    /// A line of an NPU's work has taken up a message, or packets of one, with which it will be done after those before.
    pub fn take_in_hand(&mut self, npu: NodeId, line: usize, tag: u64, packets: u32) {
        self.in_hand[npu.index() * self.lines + line].push_back((tag, packets));
    }

    /// The tag of the message or packet that a line of an NPU's work is done with.
    pub fn next_in_hand(&mut self, npu: NodeId, line: usize) -> Option<u64> {
        let line = &mut self.in_hand[npu.index() * self.lines + line];
        let (tag, packets) = line.front_mut()?;
        let tag = *tag;
        *packets -= 1;
        if *packets == 0 {
            line.pop_front();
        }
        Some(tag)
    }

    /// The next hop of a message that an NPU is done with.
    pub fn next_hop(&mut self, tag: u64) -> HopMessage {
        let number = JourneyId::of(tag);
        let mut journey = self.journeys[number];
        self.journeys.remove(number);
        self.bytes += journey.len.0;
        journey.position += 1;
        self.hop(journey)
    }

    /// The message that the packets of another go on with, once opened.
    pub fn onward(&self, tag: u64) -> Option<MsgId> {
        self.journeys[JourneyId::of(tag)].onward
    }

    /// The next hop of a message whose first packet an NPU is done with.
    pub fn hop_of_packets(&mut self, tag: u64) -> HopMessage {
        let journey = self.journeys[JourneyId::of(tag)];
        self.hop(Journey { position: journey.position + 1, onward: None, left: journey.len, ..journey })
    }

    /// That hop is this message.
    pub fn opened(&mut self, tag: u64, id: MsgId) {
        self.journeys[JourneyId::of(tag)].onward = Some(id);
    }

    /// Length of the next packet, of at most so many bytes, that goes on; after the last one the hop before is over.
    pub fn next_packet(&mut self, tag: u64, packet: Bytes) -> Bytes {
        let number = JourneyId::of(tag);
        let journey = &mut self.journeys[number];
        let len = journey.left.min(packet);
        journey.left = Bytes(journey.left.0 - len.0);
        self.bytes += len.0;
        if journey.left == Bytes::ZERO {
            self.journeys.remove(number);
        }
        len
    }
}
