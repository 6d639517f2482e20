//! What a phase's program says, message by message: which ones an FSM sends of its own, and what becomes of those that
//! arrive.
//!
//! A block larger than a message is cut into several; the first messages of all blocks are a *group*, and the groups follow
//! one another (ACE paper, section IV-C, footnote 3).
//!
//! | pattern | own messages of a group | arriving messages of a group |
//! |---|---|---|
//! | ring | one | one per further step of the program |
//! | relay (all-to-all by neighbours) | one for each block of the program's first step, the nearest rank's first | one for each block that a step receives, the nearest rank's first: that is for this one, the others are passed on |
//! | direct (no NPU between) | one for each send of a round | see [`super::direct`] |
//!
//! Messages of rings and relays arrive from one neighbour in the order of this table, since an FSM passes on what
//! arrives only after its own messages of the group.
//!
//! Messages are numbered in their group from 1, as the steps of a ring that receive them are. A step of a relay carries a
//! run of blocks, of which an engine makes a message each, so that a block can be passed on while the next one arrives; the
//! number of such a message is its place in the runs of all steps before, of which the program says how long they are.

use super::handling::Handling;
use super::run::DirectPlace;
use crate::layout::PhaseView;
use syncline_collective::{Op, Program, Slot, Split, Step};
use syncline_core::Bytes;

/// How the ranks of a phase work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Around a ring of neighbours.
    Ring,
    /// An all-to-all around a ring of neighbours.
    Relay,
    /// Everybody with everybody.
    Direct,
}

impl Pattern {
    /// The pattern of a program that an engine can carry out ([`Layout::is_direct`](crate::Layout::is_direct)).
    pub fn of(program: &Program) -> Pattern {
        match program {
            Program::Relay { .. } => Pattern::Relay,
            Program::Direct { .. } | Program::DirectOnGrid { .. } => Pattern::Direct,
            _ => Pattern::Ring,
        }
    }
}

/// A step of the NPU's only thread, without the length of what it carries.
fn step(view: &PhaseView<'_>, pc: u32) -> Step {
    view.program().step(view.rank, Slot { thread: 0, pc })
}

/// Messages that the largest block of a phase is cut into.
pub(super) fn groups(view: &PhaseView<'_>, message: Bytes) -> u64 {
    largest_block(view).div_ceil(message.0).max(1)
}

/// Bytes of the largest block of a phase.
pub(super) fn largest_block(view: &PhaseView<'_>) -> u64 {
    view.vector.div_ceil(u64::from(view.program().ranks()))
}

/// The bytes of a block that a group carries.
pub(super) fn part(block: u64, groups: u32, group: u32) -> u32 {
    Split { element: 1 }.share(block, groups, group).1 as u32
}

/// An FSM's own messages of a group.
pub(super) fn own_messages(view: &PhaseView<'_>) -> u32 {
    match Pattern::of(view.program()) {
        Pattern::Ring => 1,
        Pattern::Relay => step(view, 0).blocks.count,
        Pattern::Direct => view.program().turns(),
    }
}

/// Arriving messages of a group around a ring.
pub(super) fn arriving_messages(view: &PhaseView<'_>) -> u32 {
    match Pattern::of(view.program()) {
        Pattern::Ring => view.steps(0) - 1,
        Pattern::Relay => blocks_before(view, view.steps(0)),
        Pattern::Direct => 0,
    }
}

/// What becomes of an arriving message around a ring, and the bytes of the block that it is of.
pub(super) fn arriving(view: &PhaseView<'_>, number: u32) -> (Handling, u64) {
    if Pattern::of(view.program()) == Pattern::Ring {
        let (step, block) = view.step(Slot { thread: 0, pc: number });
        return (Handling::of(step.op), block);
    }
    let (pc, place) = relayed(view, number);
    let step = step(view, pc);
    let handling = if place == 0 { Handling::of(step.op) } else { Handling::PASS };
    (handling, relayed_block(view, &step, view.rank, place))
}

/// The bytes of the block of an FSM's own message around a ring.
pub(super) fn own_block(view: &PhaseView<'_>, own: u32) -> u64 {
    match Pattern::of(view.program()) {
        Pattern::Relay => {
            let step = step(view, 0);
            relayed_block(view, &step, step.to, own)
        }
        Pattern::Ring | Pattern::Direct => view.step(Slot { thread: 0, pc: own }).1,
    }
}

/// The number that an FSM's own message around a ring has for the neighbour.
pub(super) fn number_of_own(view: &PhaseView<'_>, own: u32) -> u32 {
    let into = step(view, 0).into.pc;
    match Pattern::of(view.program()) {
        Pattern::Relay => blocks_before(view, into) + own + 1,
        Pattern::Ring | Pattern::Direct => into,
    }
}

/// The number that an arriving message around a ring has for the neighbour to which it is passed on.
pub(super) fn number_passed_on(view: &PhaseView<'_>, number: u32) -> u32 {
    match Pattern::of(view.program()) {
        Pattern::Relay => {
            // What has arrived, but for the block that was for this rank, is what the next step sends.
            let (pc, place) = relayed(view, number);
            blocks_before(view, step(view, pc + 1).into.pc) + place
        }
        Pattern::Ring | Pattern::Direct => step(view, number).into.pc,
    }
}

/// Blocks that the steps of a relay before `pc` receive.
fn blocks_before(view: &PhaseView<'_>, pc: u32) -> u32 {
    (0..pc).map(|pc| step(view, pc)).filter(|step| step.op.receives()).map(|step| step.blocks.count).sum()
}

/// The step that takes an arriving message of a relay, and its place among the blocks of that, the nearest rank's first.
fn relayed(view: &PhaseView<'_>, number: u32) -> (u32, u32) {
    let (mut pc, mut place) = (0, number - 1);
    loop {
        let step = step(view, pc);
        if step.op.receives() {
            if place < step.blocks.count {
                return (pc, place);
            }
            place -= step.blocks.count;
        }
        pc += 1;
    }
}

/// The bytes of a block in the run of a relay's step, counted from the nearest rank, where the run begins or ends.
fn relayed_block(view: &PhaseView<'_>, step: &Step, nearest: u32, place: u32) -> u64 {
    let run = step.blocks;
    let block = if run.first == nearest { run.first + place } else { run.first + run.count - 1 - place };
    view.share(block % view.program().parts())
}

/// Bytes that arrive in a direct phase: to be added, and to be stored.
pub(super) fn direct_arrivals(view: &PhaseView<'_>) -> (u64, u64) {
    let (mut to_add, mut to_store) = (0, 0);
    for pc in 0..view.steps(0) {
        if !step(view, pc).op.sends() {
            let (step, len) = view.step(Slot { thread: 0, pc });
            *(if step.op.reduces() { &mut to_add } else { &mut to_store }) += len;
        }
    }
    (to_add, to_store)
}

/// The first round of a direct phase from step `pc` on: its sends follow one another in the program.
pub(super) fn direct_round(view: &PhaseView<'_>, pc: u32) -> Option<DirectPlace> {
    let sends = |&pc: &u32| step(view, pc).op == Op::Send;
    let first = (pc..view.steps(0)).find(sends)?;
    let count = (first..view.steps(0)).take_while(sends).count() as u32;
    Some(DirectPlace { first, sends: count, group: 0, turn: 0 })
}

/// The first own message of a direct phase from a place on that has any bytes: its place, its step and its length.
pub(super) fn direct_message(
    view: &PhaseView<'_>,
    groups: u32,
    mut place: DirectPlace,
) -> Option<(DirectPlace, Step, u32)> {
    loop {
        if place.turn == place.sends {
            (place.turn, place.group) = (0, place.group + 1);
        }
        if place.group == groups {
            place = direct_round(view, place.first + place.sends)?;
        }
        let (step, block) = view.step(Slot { thread: 0, pc: place.first + place.turn });
        let len = part(block, groups, place.group);
        if len > 0 {
            return Some((place, step, len));
        }
        place.turn += 1;
    }
}

/// Whether what a step of a direct phase sends is part of the result where it arrives, rather than something to add.
pub(super) fn sends_result(view: &PhaseView<'_>, step: &Step) -> bool {
    !view.program().step(step.to, step.into).op.reduces()
}
