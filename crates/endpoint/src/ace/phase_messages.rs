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
use syncline_collective::{LineRank, Op, Program, Slot, Split, Step};
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
    /// The pattern of a program that an engine can carry out ([`Layout::is_direct`](crate::Layout::is_direct)). Of others
    /// it means nothing: they are refused when the engine is built, after it was asked how large its input buffers must be.
    pub fn of(program: &Program) -> Pattern {
        match program {
            Program::Relay { .. } => Pattern::Relay,
            Program::Direct { .. } | Program::DirectOnGrid { .. } => Pattern::Direct,
            _ => Pattern::Ring,
        }
    }
}

/// A step of the NPU's only thread.
fn step(view: &PhaseView<'_>, pc: u32) -> Step {
    view.step(Slot { thread: 0, pc })
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
        let step = step(view, number);
        return (Handling::of(step.op), view.len(&step));
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
        Pattern::Ring | Pattern::Direct => view.len(&step(view, own)),
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
fn relayed_block(view: &PhaseView<'_>, step: &Step, nearest: LineRank, place: u32) -> u64 {
    let run = step.blocks;
    let block = if run.first == nearest.0 { run.first + place } else { run.first + run.count - 1 - place };
    view.share(block % view.program().parts())
}

/// Bytes that arrive in a direct phase: to be added, and to be stored.
pub(super) fn direct_arrivals(view: &PhaseView<'_>) -> (u64, u64) {
    let (mut to_add, mut to_store) = (0, 0);
    for pc in 0..view.steps(0) {
        let step = step(view, pc);
        if !step.op.sends() {
            *(if step.op.reduces() { &mut to_add } else { &mut to_store }) += view.len(&step);
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
        let step = step(view, place.first + place.turn);
        let len = part(view.len(&step), groups, place.group);
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

/// Bytes that an NPU sends to its peers in a direct all-to-all of all members: all but its own share.
///
/// In closed form, as [`bytes_of_peers`], rather than as the sum over the sends of the program: there is one for every
/// member, and an NPU is asked whether it has room for a chunk far more often than it starts one.
pub(super) fn bytes_for_peers(view: &PhaseView<'_>) -> u64 {
    view.vector - view.kept()
}

/// Bytes that an NPU receives in a direct all-to-all of all members: from each other one as much as it keeps of its own.
pub(super) fn bytes_of_peers(view: &PhaseView<'_>) -> u64 {
    u64::from(view.program().ranks() - 1) * view.kept()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Chunk;
    use crate::layout::{Layout, Space, Wires};
    use std::sync::Arc;
    use syncline_collective::plan::{Algorithm, Axis, Composition, Plan, PlanRequest};
    use syncline_collective::{Kind, PhaseId, PlanId, Posting, Rank};
    use syncline_core::{NodeId, Ps, Rate};
    use syncline_topology::{Block, Dimension, Product, Way};

    /// One phase of an algorithm on a ring of so many NPUs, of which direct ones are told that it is even a grid.
    fn layout(kind: Kind, algorithm: Algorithm, ranks: u32, grid: Option<&[u32]>) -> Layout {
        layout_in(Posting::Rotated, kind, algorithm, ranks, grid)
    }

    /// The same, with direct messages posted in an order.
    fn layout_in(posting: Posting, kind: Kind, algorithm: Algorithm, ranks: u32, grid: Option<&[u32]>) -> Layout {
        let ring = Dimension { block: Block::Ring, size: ranks, rate: Rate::UNLIMITED, latency: Ps(1), links: 1 };
        let ring = Product::new(vec![ring]).expect("a ring");
        let port = |way| ring.port(0, way, 0).expect("a ring has both ways");
        let wires = [Wires::Ports(vec![(port(Way::Up), true), (port(Way::Down), false)])];
        let (composition, axes) = (Composition::PerDimension, [Axis { size: ranks, algorithm }]);
        let plan =
            Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(0), order: None }).expect("a plan");
        let plan = grid.map_or(plan.clone(), |sizes| plan.on_grid(sizes, &vec![true; sizes.len()]));
        let plan = plan.posted(posting);
        Layout::new(Arc::new(ring), Space::whole(vec![ranks]), vec![plan], &wires, Split { element: 1 })
    }

    /// The phase at an NPU, of a chunk of so many bytes, in one direction of the ring.
    fn view(layout: &Layout, npu: u32, len: u64, lane: u32) -> PhaseView<'_> {
        layout.view(NodeId(npu), Chunk { len: Bytes(len), plan: PlanId(0), lane }, PhaseId(0))
    }

    /// Lengths of what a rank sends around a ring in a group, by the number that they have for the neighbour.
    fn sent_around(view: &PhaseView<'_>) -> Vec<(u32, u64)> {
        let own = (0..own_messages(view)).map(|own| (number_of_own(view, own), own_block(view, own)));
        let passed = (1..=arriving_messages(view)).filter_map(|number| {
            let (handling, block) = arriving(view, number);
            handling.sends.then(|| (number_passed_on(view, number), block))
        });
        own.chain(passed).collect()
    }

    #[test]
    fn a_neighbour_expects_what_is_sent_around_a_ring_in_the_order_in_which_it_is_sent() {
        let kinds = [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll];
        for (kind, ranks, lane) in kinds.into_iter().flat_map(|k| (2..8).flat_map(move |n| [(k, n, 0), (k, n, 1)])) {
            let layout = layout(kind, Algorithm::Ring, ranks, None);
            for (npu, len) in (0..ranks).flat_map(|npu| [0, 1, 10, 1000].map(|len| (npu, len))) {
                let next = if lane == 0 { (npu + 1) % ranks } else { (npu + ranks - 1) % ranks };
                let (here, there) = (view(&layout, npu, len, lane), view(&layout, next, len, lane));
                let expected: Vec<(u32, u64)> =
                    (1..=arriving_messages(&there)).map(|number| (number, arriving(&there, number).1)).collect();
                assert_eq!(sent_around(&here), expected, "{kind:?} on {ranks}, NPU {npu}, {len} B, lane {lane}");
            }
        }
    }

    #[test]
    fn a_relay_has_a_message_for_every_hop_of_a_block() {
        for ranks in 2..9 {
            let layout = layout(Kind::AllToAll, Algorithm::Ring, ranks, None);
            let view = view(&layout, ranks / 2, 997, 0);
            assert_eq!((own_messages(&view), arriving_messages(&view)), (ranks - 1, ranks * (ranks - 1) / 2));
            let kept = (1..=arriving_messages(&view)).filter(|&number| arriving(&view, number).0.stores).count();
            assert_eq!(kept as u32, ranks - 1, "one block of every other rank is for this one");
        }
    }

    /// The own messages of a direct phase, with their bytes and whether they are part of the result.
    fn direct_messages(view: &PhaseView<'_>, groups: u32) -> Vec<(DirectPlace, u64, bool)> {
        let mut from = direct_round(view, 0);
        std::iter::from_fn(|| {
            let (place, step, len) = direct_message(view, groups, from?)?;
            from = Some(DirectPlace { turn: place.turn + 1, ..place });
            Some((place, u64::from(len), sends_result(view, &step)))
        })
        .collect()
    }

    #[test]
    fn a_direct_phase_sends_and_receives_what_its_kind_asks_for() {
        let grids: [(u32, Option<&[u32]>); 6] =
            [(2, None), (5, None), (8, None), (6, Some(&[2, 3])), (9, Some(&[3, 3])), (4, Some(&[4]))];
        for ((ranks, grid), len) in grids.into_iter().flat_map(|grid| [0, 3, 1000, 1001].map(|len| (grid, len))) {
            let kinds = [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll];
            let orders = [Posting::Rotated, Posting::Sequential, Posting::Random(3)];
            for (kind, posting) in kinds.into_iter().flat_map(|kind| orders.map(|posting| (kind, posting))) {
                let layout = layout_in(posting, kind, Algorithm::Direct, ranks, grid);
                for npu in 0..ranks {
                    let view = view(&layout, npu, len, 0);
                    let (mine, others) = (view.kept(), u64::from(ranks - 1));
                    let rest = view.vector - mine;
                    let (added, stored, contributed, announced) = match kind {
                        Kind::AllReduce => (mine * others, rest, rest, mine * others),
                        Kind::ReduceScatter => (mine * others, 0, rest, 0),
                        Kind::AllGather => (0, rest, 0, mine * others),
                        _ => (0, bytes_of_peers(&view), 0, bytes_for_peers(&view)),
                    };
                    let messages = direct_messages(&view, 3);
                    let sum = |result| messages.iter().filter(|m| m.2 == result).map(|m| m.1).sum::<u64>();
                    let told = format!("{kind:?} on {ranks} {grid:?}, NPU {npu}, {len} B");
                    assert_eq!(direct_arrivals(&view), (added, stored), "{told}");
                    assert_eq!((sum(false), sum(true)), (contributed, announced), "{told}");
                    assert!(messages.iter().all(|m| m.1 > 0), "{told}");
                }
            }
        }
    }

    #[test]
    fn the_first_message_of_every_block_goes_before_the_second() {
        let layout = layout(Kind::AllReduce, Algorithm::Direct, 4, None);
        let messages = direct_messages(&view(&layout, 0, 4000, 0), 2);
        let order: Vec<(u32, u32, u32)> = messages.iter().map(|m| (m.0.first, m.0.group, m.0.turn)).collect();
        let round = |first| (0..2).flat_map(move |group| (0..3).map(move |turn| (first, group, turn)));
        assert_eq!(order, round(0).chain(round(6)).collect::<Vec<_>>());
    }

    #[test]
    fn groups_share_a_block() {
        for (block, groups) in [(0, 1), (1, 3), (10, 3), (1 << 20, 7)] {
            assert_eq!((0..groups).map(|group| u64::from(part(block, groups, group))).sum::<u64>(), block);
        }
    }
}
