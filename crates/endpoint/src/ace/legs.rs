//! What a phase does, message by message: which ones an FSM sends of its own, and what becomes of those that arrive.
//!
//! | shape | own messages of a group | arriving messages of a group |
//! |---|---|---|
//! | ring | one | one per further step of the program |
//! | relay (all-to-all by neighbours) | one for each other rank, the nearest first | of each other rank, the nearest first, what has not reached its NPU yet: the first is for this one, the others are passed on |
//! | direct (no NPU between) | one for each other rank, and half | see [`super::direct`] |
//!
//! Messages of rings and relays arrive from one neighbour in the order of this table, since an FSM passes on what
//! arrives only after its own messages of the group.

use super::{Ace, AceConfig, Progress, fsms};
use crate::api::Chunk;
use crate::layout::{Layout, PhaseView};
use syncline_collective::{Op, Program, Slot, Split};
use syncline_core::{Bytes, NodeId};

/// What a packet needs of the engine, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handling {
    /// Local data is read.
    pub reads: bool,
    /// It is added to local data.
    pub reduces: bool,
    /// It is kept.
    pub stores: bool,
    /// It leaves through a port.
    pub sends: bool,
}

impl Handling {
    /// On its way to another NPU.
    pub const PASS: Handling = Handling { reads: false, reduces: false, stores: false, sends: true };

    /// What a step of a program needs.
    pub const fn of(op: Op) -> Handling {
        Handling { reads: op.reads_local(), reduces: op.reduces(), stores: op.stores(), sends: op.sends() }
    }
}

/// How the ranks of a phase work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Around a ring of neighbours.
    Ring,
    /// An all-to-all around a ring of neighbours.
    Relay,
    /// Everybody with everybody.
    Direct,
}

impl Shape {
    /// The shape of a program that an engine can carry out.
    pub fn of(program: &Program) -> Shape {
        match program {
            Program::Relay { .. } => Shape::Relay,
            Program::Direct { .. } | Program::DirectOnGrid { .. } => Shape::Direct,
            _ => Shape::Ring,
        }
    }
}

/// Own messages of a group, and arriving ones.
pub fn messages(view: &PhaseView<'_>) -> (u32, u32) {
    let ranks = view.program().ranks();
    match Shape::of(view.program()) {
        Shape::Ring => (1, view.steps(0) - 1),
        Shape::Relay => (ranks - 1, ranks * (ranks - 1) / 2),
        Shape::Direct => (view.program().turns(), 0),
    }
}

/// What becomes of the arriving message `leg` of a group (from 1), and the block that it is of.
fn leg(view: &PhaseView<'_>, leg: u32) -> (Handling, u64) {
    if Shape::of(view.program()) == Shape::Ring {
        let (step, block) = view.step(Slot { thread: 0, pc: leg });
        return (Handling::of(step.op), block);
    }
    let (_, at) = relayed(view.program().ranks(), leg);
    let handling = if at == 0 { Handling::of(Op::Recv) } else { Handling::PASS };
    (handling, view.share(ahead(view, at)))
}

/// How many hops ago an arriving message of a relay was sent, and how many it has still to go: those of a rank are for
/// this rank and the next ones, as far as it has not been reached.
fn relayed(ranks: u32, leg: u32) -> (u32, u32) {
    let (mut left, mut back) = (leg - 1, 1);
    while left >= ranks - back {
        (left, back) = (left - (ranks - back), back + 1);
    }
    (back, left)
}

/// The number of the neighbour's arriving message that an arriving one which is sent on becomes.
fn onward(view: &PhaseView<'_>, leg: u32) -> u32 {
    match Shape::of(view.program()) {
        Shape::Relay => {
            let ranks = view.program().ranks();
            leg + ranks - relayed(ranks, leg).0 - 1
        }
        Shape::Ring | Shape::Direct => leg + 1,
    }
}

/// The rank that a relay reaches after so many hops.
fn ahead(view: &PhaseView<'_>, hops: u32) -> u32 {
    let Program::Relay { ranks, up } = *view.program() else { return view.rank };
    (if up { view.rank + hops } else { view.rank + ranks - hops }) % ranks
}

impl Ace {
    /// Packets of `packet` bytes that an input buffer must hold so that chunks which wait (for SRAM room,
    /// or for their FSM's own send) cannot fill it and keep out those they wait for, for every FSM that a phase has per
    /// lane, and the bubble: around a ring a message, and one more that is under way; of a relay what arrives of two
    /// groups, since a neighbour begins the next when the last send of one is issued; of a direct phase what
    /// all others send before they need an answer. Packets of direct all-to-alls in a single phase wait for nobody who waits
    /// for them: none.
    pub fn input_buffer(layout: &Layout, config: &AceConfig, packet: Bytes, chunk: Bytes) -> u32 {
        if layout.kinds() == (true, false) {
            return 0;
        }
        let most = fsms::per_phase(layout, config, packet, chunk).into_iter().max().unwrap_or(config.fsms);
        let fsms = |lanes: usize| u64::from(most.div_ceil(lanes.max(1) as u32));
        let packets_of = |bytes: u64| bytes.div_ceil(packet.0.max(1)).max(1);
        let message = config.message.0.min(chunk.0);
        let mut needed = packets_of(message).saturating_mul(fsms(layout.lanes()) + 1);
        for (plan, p) in (0u8..).zip(layout.plans()).filter(|(_, p)| !p.is_exchange()) {
            for phase in 0..p.phases().len() {
                let view = layout.view(layout.first(), Chunk { len: chunk, plan, lane: 0 }, phase);
                let block = view.vector.div_ceil(u64::from(view.program().ranks()));
                let groups = block.div_ceil(config.message.0).max(1);
                let (owns, legs) = messages(&view);
                let messages = match Shape::of(view.program()) {
                    Shape::Ring => continue,
                    Shape::Relay => u64::from(legs) * groups.min(2),
                    Shape::Direct => u64::from(owns) * groups,
                };
                let each = packets_of(block.min(config.message.0)).saturating_mul(messages);
                needed = needed.max(each.saturating_mul(fsms(layout.lanes_of(plan, phase)) + 1));
            }
        }
        u32::try_from(needed.saturating_add(2)).unwrap_or(u32::MAX)
    }

    /// A chunk's running phase as its NPU sees it.
    pub(super) fn running(&self, npu: NodeId, seq: u32) -> (&Progress, PhaseView<'_>) {
        let engine = &self.engines[npu.index()];
        let progress = &engine.chunks[(seq - engine.base) as usize];
        (progress, self.layout.view(npu, self.chunks[seq as usize], usize::from(progress.phase)))
    }

    /// What becomes of an arriving message and its length: the part of its block that its group carries.
    pub(super) fn arriving(&self, npu: NodeId, seq: u32, number: u32, group: u32) -> (Handling, u32) {
        let (chunk, view) = self.running(npu, seq);
        let (handling, block) = leg(&view, number);
        (handling, part(block, chunk.groups, group))
    }

    /// Length of an own message of a ring or relay.
    pub(super) fn own_message_len(&self, npu: NodeId, seq: u32, own: u32, group: u32) -> u32 {
        let (chunk, view) = self.running(npu, seq);
        let block = match chunk.shape {
            Shape::Relay => view.share(ahead(&view, own + 1)),
            Shape::Ring | Shape::Direct => view.step(Slot { thread: 0, pc: own }).1,
        };
        part(block, chunk.groups, group)
    }

    /// The number that a message of a ring or relay has for its receiver, counted over the groups.
    pub(super) fn sent_number(&self, npu: NodeId, seq: u32, own: bool) -> u32 {
        let (chunk, view) = self.running(npu, seq);
        let (group, leg) = match own {
            true => (chunk.sending_group, chunk.own + 1),
            false => (chunk.group, onward(&view, chunk.pc)),
        };
        group.wrapping_mul(chunk.legs).wrapping_add(leg - 1) & Self::NUMBERS
    }

    /// The block that a rank keeps for itself while it sends the others: of the result in direct phases and relays,
    /// where it stays at its place.
    pub(super) fn kept(&self, npu: NodeId, seq: u32) -> u64 {
        let (chunk, view) = self.running(npu, seq);
        if chunk.shape == Shape::Ring { 0 } else { view.kept() }
    }
}

/// The bytes of a block that a group carries.
pub fn part(block: u64, groups: u32, group: u32) -> u32 {
    Split { element: 1 }.share(block, groups, group).1 as u32
}
