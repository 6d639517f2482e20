//! What a chunk does on an FSM: one record per shape of phase.

use super::arrived_packets::PacketList;
use super::handling::Handling;
use super::sram::Reservation;
use syncline_core::{PortId, Ps};
use syncline_network::{MsgId, Route};

/// What a packet that a chunk handles waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InHand {
    /// There is none.
    Nothing,
    /// Room in the next partition, or the FSM's turn to send through the port.
    Turn,
    /// SRAM ports and ALU.
    Fetching,
    /// Space in the port buffer.
    AtPort,
}

/// The phase that a chunk runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseRun {
    /// The packet that arrived and is in hand.
    pub receiving: InHand,
    /// The packet of an own message that is in hand.
    pub sending: InHand,
    /// Arrived packets that wait.
    pub arrived: PacketList,
    /// Room for the results.
    pub room: Reservation,
    /// The outgoing message, once opened.
    pub message: Option<MsgId>,
    /// Messages that a block is cut into.
    pub groups: u32,
    pub shape: Shape,
}

/// How the ranks of a phase work together.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Around a ring of neighbours, with one own message in every group.
    Ring(Around),
    /// An all-to-all around a ring of neighbours, with one own message for every other rank.
    Relay {
        around: Around,
        /// The own message of the group that is sent next.
        own: u32,
    },
    /// Everybody with everybody.
    Direct(Direct),
}

/// What goes around a ring: from one neighbour to the other, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// The port by which everything leaves.
    pub port: PortId,
    /// Messages that arrive in each group.
    pub per_group: u32,
    /// Number in the phase of the message being received, as its packets carry it.
    pub expected: u32,
    /// The message being received; `None` when nothing is left to receive.
    pub arriving: Option<Arriving>,
    /// The own message; `None` while the FSM is not sending one.
    pub own: Option<OwnAround>,
}

/// A message being received around a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arriving {
    /// Its group.
    pub group: u32,
    /// Its number in the group, from 1.
    pub number: u32,
    /// What becomes of it.
    pub handling: Handling,
    /// Its bytes, and those still to come.
    pub len: u32,
    pub left: u32,
}

/// A message of an FSM's own around a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnAround {
    /// Its group.
    pub group: u32,
    /// Its bytes, and those still to be sent.
    pub len: u32,
    pub left: u32,
}

/// A direct phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    /// Bytes to be added that have not arrived.
    pub to_add: u64,
    /// Bytes to be stored that have not arrived.
    pub to_store: u64,
    /// The own message that is being sent, or is next; `None` when all are sent.
    pub own: Option<OwnDirect>,
}

/// A message of an FSM's own in a direct phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnDirect {
    /// Where it stands in the program.
    pub place: DirectPlace,
    pub route: Route,
    /// The first port of its way.
    pub port: PortId,
    /// Whether it is part of the result where it arrives, rather than something to add.
    pub is_result: bool,
    /// Whether it is read for the last time, so that its room is free when it is sent.
    pub is_given_away: bool,
    /// Its bytes, and those still to be sent.
    pub len: u32,
    pub left: u32,
}

/// A message in the sends of a direct program: in every round the first message of every block goes before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectPlace {
    /// The first send of the round in the program, and how many follow one another.
    pub first: u32,
    pub sends: u32,
    /// The message of each block.
    pub group: u32,
    /// Which of the sends.
    pub turn: u32,
}

impl PhaseRun {
    /// What goes around a ring, of a phase that is not direct.
    #[inline]
    pub fn around(&mut self) -> &mut Around {
        match &mut self.shape {
            Shape::Ring(around) | Shape::Relay { around, .. } => around,
            Shape::Direct(direct) => panic!("nothing goes around a ring in a direct phase: {direct:?}"),
        }
    }

    /// The direct phase that it is.
    #[inline]
    pub fn direct(&mut self) -> &mut Direct {
        match &mut self.shape {
            Shape::Direct(direct) => direct,
            around => panic!("everybody sends to everybody in a direct phase only: {around:?}"),
        }
    }

    /// Bytes that the FSM still has to send of its own message, of which there must be one.
    #[inline]
    pub fn own_left(&mut self) -> &mut u32 {
        let left = match &mut self.shape {
            Shape::Ring(around) | Shape::Relay { around, .. } => around.own.as_mut().map(|own| &mut own.left),
            Shape::Direct(direct) => direct.own.as_mut().map(|own| &mut own.left),
        };
        left.expect("the FSM sends a message of its own")
    }

    /// The port by which the own message leaves, of which there must be one.
    #[inline]
    pub fn own_port(&self) -> PortId {
        self.port().expect("the FSM sends a message of its own")
    }

    /// The port by which everything leaves around a ring, and the own message, if there is one, in a direct phase.
    #[inline]
    pub fn port(&self) -> Option<PortId> {
        match &self.shape {
            Shape::Ring(around) | Shape::Relay { around, .. } => Some(around.port),
            Shape::Direct(direct) => direct.own.map(|own| own.port),
        }
    }

    /// Whether everything has been sent and received.
    #[inline]
    pub fn is_complete(&self) -> bool {
        match &self.shape {
            Shape::Ring(around) | Shape::Relay { around, .. } => around.arriving.is_none() && around.own.is_none(),
            Shape::Direct(direct) => !direct.receives() && direct.own.is_none(),
        }
    }

    /// Whether the next packet that arrived around a ring could be handled now: no other is in hand, and it need not wait
    /// until the FSM's own message of its group is sent.
    #[inline]
    pub fn can_receive(&self) -> bool {
        let (Shape::Ring(around) | Shape::Relay { around, .. }) = &self.shape else { return false };
        let waits = |arriving: Arriving| arriving.handling.sends && around.own.is_some();
        self.receiving == InHand::Nothing && around.arriving.is_some_and(|arriving| !waits(arriving))
    }
}

impl Around {
    /// The message being received, which there must be.
    #[inline]
    pub fn arriving(&mut self) -> &mut Arriving {
        self.arriving.as_mut().expect("what arrives is of a message that is expected")
    }
}

impl Direct {
    /// Whether anything is still to arrive.
    pub fn receives(&self) -> bool {
        self.to_add > 0 || self.to_store > 0
    }

    /// Whether there is an own message that can be sent: one of the sum when all of it is there.
    pub fn may_send(&self) -> bool {
        self.own.is_some_and(|own| !own.is_result || self.to_add == 0)
    }
}

/// What the FSM of a chunk of a direct all-to-all sends to a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerBlock {
    /// The step of the program.
    pub pc: u32,
    /// Bytes for the peer, and those of them that have not been sent.
    pub len: u64,
    pub left: u64,
    /// How its packets travel, and the first hop of their path.
    pub route: Route,
    pub position: u32,
    /// Since when its packet waits for the port.
    pub since: Ps,
}
