//! Lanes side by side.
//!
//! A ring goes round in two directions, and over parallel links. An algorithm that uses them all cuts what it works on into as
//! many equal parts, each of which goes through all phases in a lane of its own. In a schedule, lanes are thread blocks on
//! channels of their own that work on other chunks.
//!
//! Each lane has the same part of every share of the vector, so that rank `r` has the share of its number in all of them. A
//! vector that has no shares is cut in as many as there are ranks, if that keeps the chunks of every step together, and else
//! lanes have one part after the other.

use super::group::Group;
use super::unrolled::Unrolled;
use super::{Memory, Operands, exchange, vector};
use crate::kind::Kind;
use crate::rank::Rank;
use crate::schedule::form::ThreadBlock;
use syncline_core::Refusal;

/// Where the data of all lanes lie, in buffers that they share.
pub(super) fn lay_out(lanes: &[(Group<'_>, Unrolled)]) -> Result<Vec<Memory>, Refusal> {
    let mut memories = each_alone(lanes)?;
    let (Some((group, _)), count) = (lanes.first(), lanes.len() as u32) else { return Ok(memories) };
    if count == 1 {
        return Ok(memories);
    }
    let share = share(group, &memories);
    let mut scratch = vec![0; group.ranks() as usize];
    for (lane, ((_, steps), memory)) in (0..).zip(lanes.iter().zip(&mut memories)) {
        let before = |rank: Rank| scratch[rank.index()];
        let of_steps = memory.of_step.iter_mut().zip(steps.steps.iter().map(|step| before(step.rank)));
        let copies = memory.copies.iter_mut().zip(group.all().map(before));
        for (Operands { src, dst }, before) in of_steps.chain(copies) {
            *src = src.in_lane(lane, count, share, before);
            *dst = dst.in_lane(lane, count, share, before);
        }
        scratch.iter_mut().zip(&memory.scratch).for_each(|(all, own)| *all += own);
    }
    Ok(memories)
}

/// Where the data of each lane would lie if it were the only one.
fn each_alone(lanes: &[(Group<'_>, Unrolled)]) -> Result<Vec<Memory>, Refusal> {
    let is_exchange = |group: &Group<'_>| group.kind() == Kind::AllToAll && !group.names_places();
    if !lanes.iter().any(|(group, _)| is_exchange(group)) {
        return lanes.iter().map(|(group, steps)| vector::lay_out(group, steps)).collect();
    }
    let in_place: Option<Vec<Memory>> =
        lanes.iter().map(|(group, steps)| exchange::in_place(group, steps)).collect::<Result<_, _>>()?;
    match in_place {
        Some(memories) => Ok(memories),
        None => lanes.iter().map(|(group, steps)| exchange::apart(group, steps)).collect(),
    }
}

/// Chunks of which each lane has as many, one lane after the other.
fn share(group: &Group<'_>, memories: &[Memory]) -> u32 {
    let (chunks, ranks) = (group.chunks(), group.ranks());
    let keeps_together = |share| {
        let mut operands = memories.iter().flat_map(|memory| &memory.of_step);
        operands.all(|operands| operands.src.are_of_one_share(share) && operands.dst.are_of_one_share(share))
    };
    match group.kind() {
        Kind::AllReduce | Kind::Broadcast | Kind::Reduce => {
            let is_cut = chunks.is_multiple_of(ranks) && keeps_together(chunks / ranks);
            if is_cut { chunks / ranks } else { chunks }
        }
        _ => chunks / ranks,
    }
}

/// Threads of a lane: as many as any rank has in any of them.
pub(super) fn threads(lanes: &[Vec<Vec<ThreadBlock>>]) -> u32 {
    let last = lanes.iter().flatten().flatten().filter_map(|block| block.thread).max();
    last.map_or(0, |last| last + 1)
}

/// The thread blocks of all lanes, rank by rank. Each lane has threads and channels of its own.
pub(super) fn side_by_side(lanes: Vec<Vec<Vec<ThreadBlock>>>) -> Vec<Vec<ThreadBlock>> {
    let threads = threads(&lanes);
    let mut ranks: Vec<Vec<ThreadBlock>> = Vec::new();
    let mut channels = 0;
    for (lane, of_ranks) in (0..).zip(lanes) {
        let used = of_ranks.iter().flatten().map(|block| block.channel + 1).max().unwrap_or(0);
        ranks.resize(of_ranks.len(), Vec::new());
        for (blocks, of_lane) in ranks.iter_mut().zip(of_ranks) {
            let before = blocks.len() as u32;
            for mut block in of_lane {
                block.id += before;
                block.channel += channels;
                block.thread = block.thread.map(|thread| thread + lane * threads);
                let waits = block.steps.iter_mut().filter_map(|step| step.depends_on.as_mut());
                waits.for_each(|on| on.thread_block += before);
                blocks.push(block);
            }
        }
        channels += used;
    }
    // A thread that is one thread block of the same number need not be named.
    for blocks in &mut ranks {
        if blocks.iter().all(|block| block.thread == Some(block.id)) {
            blocks.iter_mut().for_each(|block| block.thread = None);
        }
    }
    ranks
}
