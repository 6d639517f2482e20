//! Whole messages that endpoints forward hop by hop: which are under way, and where they go next.
//!
//! A message carries the number of its journey instead of the tag of the step that takes it; on the last hop it
//! carries that tag again. The number is a mere handle: one-hop messages that reach a port come from the
//! same neighbour, in an order that no tag has a part in.

use crate::costs::STAGES;
use std::collections::VecDeque;
use syncline_core::{Bytes, NodeId, PortId};
use syncline_topology::{Fabric, Paths};

/// A message on its way over several hops.
#[derive(Clone, Copy, Debug)]
struct Journey {
    tag: u64,
    len: Bytes,
    /// Where it is on its path.
    position: u32,
}

/// One hop of a message: the port it takes, and the tag it carries there.
#[derive(Clone, Copy, Debug)]
pub struct Leg {
    /// The port.
    pub port: PortId,
    /// The tag.
    pub tag: u64,
    /// Length of the message.
    pub len: Bytes,
}

/// The messages in transit of all NPUs.
#[derive(Debug)]
pub struct Forwarding {
    paths: Paths,
    journeys: Vec<Journey>,
    unused: Vec<u32>,
    /// Per NPU and stage of the work, the tags of the messages that it works on, first come, first served.
    in_hand: Vec<VecDeque<u64>>,
    /// Bytes that were forwarded.
    pub bytes: u64,
}

impl Forwarding {
    /// Tells a journey's number from the tag of a step, which leaves this bit clear.
    pub const MARK: u64 = 1 << 63;

    /// Nothing under way on a fabric.
    pub fn new(fabric: &dyn Fabric) -> Forwarding {
        Forwarding {
            paths: Paths::new(fabric),
            journeys: Vec::new(),
            unused: Vec::new(),
            in_hand: vec![VecDeque::new(); fabric.npus() as usize * STAGES],
            bytes: 0,
        }
    }

    /// A message sets out for a node, given by its number in the whole machine; `None` if it is there.
    pub fn depart(&mut self, fabric: &dyn Fabric, src: NodeId, dst: NodeId, tag: u64, len: Bytes) -> Option<Leg> {
        let position = self.paths.between(fabric, src, dst)?;
        let hop = self.paths.hop(position);
        if hop.last {
            return Some(Leg { port: hop.port, tag, len });
        }
        let journey = Journey { tag, len, position };
        let number = match self.unused.pop() {
            Some(number) => {
                self.journeys[number as usize] = journey;
                number
            }
            None => {
                self.journeys.push(journey);
                self.journeys.len() as u32 - 1
            }
        };
        Some(Leg { port: hop.port, tag: Self::MARK | u64::from(number), len })
    }

    /// Length of a message with this tag if it goes on from the NPU where it has arrived.
    #[inline]
    pub fn passing(&self, tag: u64) -> Option<Bytes> {
        (tag & Self::MARK != 0).then(|| self.journeys[tag as u32 as usize].len)
    }

    /// A stage of an NPU's work has taken up a message, with which it will be done after those before.
    pub fn take_in_hand(&mut self, npu: NodeId, stage: u8, tag: u64) {
        self.in_hand[npu.index() * STAGES + usize::from(stage)].push_back(tag);
    }

    /// The tag of the message that a stage of an NPU's work is done with.
    pub fn next_in_hand(&mut self, npu: NodeId, stage: u8) -> Option<u64> {
        self.in_hand[npu.index() * STAGES + usize::from(stage)].pop_front()
    }

    /// The next hop of a message that an NPU is done with.
    pub fn next_leg(&mut self, tag: u64) -> Leg {
        let number = tag as u32;
        let journey = &mut self.journeys[number as usize];
        journey.position += 1;
        let Journey { tag, len, position } = *journey;
        let hop = self.paths.hop(position);
        self.bytes += len.0;
        if !hop.last {
            return Leg { port: hop.port, tag: Self::MARK | u64::from(number), len };
        }
        self.unused.push(number);
        Leg { port: hop.port, tag, len }
    }
}
