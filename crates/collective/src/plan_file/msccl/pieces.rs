//! Cuts steps whose chunks do not follow one another, and steps of more chunks than MSCCL takes.
//!
//! A message of several pieces is several messages. Programs count on it that a connection holds one message, so that all
//! ranks can send before they receive; a connection of MSCCL holds [`SLOTS`]. Messages of more pieces go over several
//! connections side by side, each with so many of them.

use super::unrolled::{PlanStep, StepId, Unrolled};
use super::{Memory, Operands};
use crate::schedule::limits::{CHUNKS_PER_STEP, SLOTS};
use std::collections::{BTreeMap, BTreeSet};
use syncline_core::Refusal;

/// Where each step is cut into several, counted from its first chunk.
pub(super) type Cuts = Vec<Vec<u32>>;

/// Cuts steps where their chunks do not follow one another, and where those do not with which they have to agree. These are
/// the other end of a message and, where a step receives and sends at once, that of its other message.
pub(super) fn cuts(steps: &Unrolled, operands: &[Operands]) -> Result<Cuts, Refusal> {
    // Messages that are passed on are cut alike.
    let origins = steps.origins()?;
    let mut of_origin: BTreeMap<StepId, (BTreeSet<u32>, u32)> = BTreeMap::new();
    for (&origin, Operands { src, dst }) in origins.iter().zip(operands) {
        let (cuts, count) = of_origin.entry(origin).or_default();
        cuts.extend(src.cuts().chain(dst.cuts()));
        *count = src.count().max(dst.count()); // equal, where it has both
    }
    let of_origin: BTreeMap<StepId, Vec<u32>> =
        of_origin.into_iter().map(|(origin, (cuts, count))| (origin, small_enough(&cuts, count))).collect();
    Ok(origins.iter().map(|origin| of_origin[origin].clone()).collect())
}

/// Where so many chunks are cut, if they are cut in some places anyhow, so that no piece is larger than MSCCL takes. What is cut
/// for that is cut as evenly as chunks allow.
pub(super) fn small_enough(cuts: &BTreeSet<u32>, count: u32) -> Vec<u32> {
    let (mut all, mut begin) = (Vec::new(), 0);
    for end in cuts.iter().copied().chain([count]) {
        let pieces = (end - begin).div_ceil(CHUNKS_PER_STEP).max(1);
        let (each, longer) = ((end - begin) / pieces, (end - begin) % pieces);
        all.extend((1..pieces).map(|nth| begin + nth * each + nth.min(longer)));
        all.extend((end < count).then_some(end));
        begin = end;
    }
    all
}

/// Steps of no more pieces than a connection holds: what is cut into more becomes several steps, whose messages go over
/// connections side by side.
pub(super) fn spread(steps: Unrolled, memory: Memory, cuts: Cuts) -> (Unrolled, Memory, Cuts) {
    if cuts.iter().all(|cuts| cuts.len() < SLOTS) {
        return (steps, memory, cuts);
    }
    let mut starts = vec![0u32];
    for cuts in &cuts {
        starts.push(starts[starts.len() - 1] + (cuts.len() as u32 + 1).div_ceil(SLOTS as u32));
    }
    let last = |id: StepId| StepId(starts[id.index() + 1] - 1);
    let (mut spread, mut of_step, mut cuts_of_step) = (Vec::new(), Vec::new(), Vec::new());
    for (((id, step), operands), cuts) in steps.numbered().zip(&memory.of_step).zip(&cuts) {
        let Operands { src, dst } = operands;
        let count = src.count().max(dst.count());
        let ends: Vec<u32> = cuts.iter().copied().chain([count]).collect();
        let mut begin = 0;
        for (lane, ends) in (0..).zip(ends.chunks(SLOTS)) {
            let beside = |id: StepId| StepId(starts[id.index()] + lane);
            spread.push(PlanStep {
                lane,
                taker: step.taker.map(beside),
                sender: step.sender.map(beside),
                after: step.after.filter(|_| lane == 0).map(last), // the others follow the first
                ..*step
            });
            let (&end, inner) = ends.split_last().unwrap_or((&count, &[]));
            of_step.push(Operands { src: src.part(begin, end), dst: dst.part(begin, end) });
            cuts_of_step.push(inner.iter().map(|cut| cut - begin).collect());
            begin = end;
        }
        assert_eq!(spread.len() as u32, starts[id.index() + 1], "as many steps as there is room for");
    }
    (steps.renumbered(spread, &starts), Memory { of_step, ..memory }, cuts_of_step)
}
