//! Where data lie in all collectives but an all-to-all: at their places in the vector, if steps do not say otherwise.

use super::group::Group;
use super::runs::Runs;
use super::unrolled::{PlanStep, Unrolled};
use super::{Memory, Operands};
use crate::program::{Buffer, Op, Place};
use crate::rank::Rank;
use syncline_core::Refusal;

/// Where the data of all steps lie.
pub(super) fn lay_out(group: &Group<'_>, steps: &Unrolled) -> Result<Memory, Refusal> {
    let vector = Vector { group, owners: group.owners() };
    let mut scratch = vec![0; group.ranks() as usize];
    let mut of_step = Vec::with_capacity(steps.steps.len());
    for step in &steps.steps {
        let place = |place| vector.runs(step, place);
        let mut operands = Operands::default();
        if step.op.reads_local() {
            operands.src = place(step.detail.src)?;
        }
        if step.op.stores() {
            operands.dst = place(step.detail.dst)?;
        }
        let places = [(step.op.reads_local(), step.detail.src), (step.op.stores(), step.detail.dst)];
        let used = places.into_iter().filter_map(|(is, place)| place.filter(|p| is && p.buffer == Buffer::Scratch));
        for place in used {
            let (_, block) = group.vector(step.rank, step.phase);
            let end = (place.first + step.blocks.count) * block;
            scratch[step.rank.index()] = end.max(scratch[step.rank.index()]);
        }
        of_step.push(operands);
    }
    let copies = vec![Operands::default(); scratch.len()];
    Ok(Memory { in_place: !group.are_apart(), scratch, of_step, copies })
}

struct Vector<'a> {
    group: &'a Group<'a>,
    /// The rank of each share, where every rank has one.
    owners: Option<Vec<Rank>>,
}

impl Vector<'_> {
    /// Where blocks of a step lie that says so, or does not.
    fn runs(&self, step: &PlanStep, place: Option<Place>) -> Result<Runs, Refusal> {
        if step.op == Op::Nop {
            return Ok(Runs::default());
        }
        let (base, block) = self.group.vector(step.rank, step.phase);
        let parts = self.group.program(step.phase).parts();
        let (first, count) = (place.map_or(step.blocks.first, |p| p.first), step.blocks.count);
        let mut runs = Runs::default();
        match place {
            // As in a buffer of its own; blocks are of one size in all buffers.
            Some(place) if place.buffer == Buffer::Scratch || self.group.are_apart() => {
                let fits = first.checked_add(count).and_then(|end| end.checked_mul(block));
                fits.ok_or_else(|| step.wrong("lies outside of any buffer"))?;
                runs.push(place.buffer, first * block, count * block);
            }
            _ if first >= parts || count > parts => return Err(step.wrong("works on blocks that do not exist")),
            _ => {
                for nth in 0..count {
                    let first = self.group.block(step.phase, (first + nth) % parts);
                    self.push(&mut runs, base + first * block, block);
                }
            }
        }
        Ok(runs)
    }

    /// Adds consecutive chunks of the vector, which lie share by share.
    fn push(&self, runs: &mut Runs, mut first: u32, count: u32) {
        let (whole, end) = (self.group.whole(), first + count);
        let Some(owners) = &self.owners else { return runs.push(whole, first, count) };
        let share = self.group.chunks() / self.group.ranks();
        while first < end {
            let (index, inside) = (first / share, first % share);
            let count = (share - inside).min(end - first);
            runs.push(whole, owners[index as usize].0 * share + inside, count);
            first += count;
        }
    }
}
