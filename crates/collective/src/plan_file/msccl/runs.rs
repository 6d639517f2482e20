//! Chunks of buffers that a step works on, in the order of its data.

use crate::program::Buffer;
use crate::schedule::form::Location;

/// Consecutive chunks of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    buffer: Buffer,
    first: u32,
    count: u32,
}

/// Chunks in an order, as few runs as possible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(Vec<Run>);

impl Runs {
    /// Adds chunks at the end.
    pub(super) fn push(&mut self, buffer: Buffer, first: u32, count: u32) {
        match self.0.last_mut() {
            Some(last) if last.buffer == buffer && last.first + last.count == first => last.count += count,
            _ if count > 0 => self.0.push(Run { buffer, first, count }),
            _ => {}
        }
    }

    /// The same in the buffers that `lanes` lanes share, of which this is one: of every `share` chunks of a vector, each lane has
    /// as many; in scratch, the chunks of lanes follow one another, and those of this one begin at `scratch`.
    pub(super) fn in_lane(&self, lane: u32, lanes: u32, share: u32, scratch: u32) -> Runs {
        let mut all = Runs::default();
        for &Run { buffer, mut first, mut count } in &self.0 {
            if buffer == Buffer::Scratch {
                all.push(buffer, scratch + first, count);
                continue;
            }
            while count > 0 {
                let (number, inside) = (first / share, first % share);
                let part = count.min(share - inside);
                all.push(buffer, (number * lanes + lane) * share + inside, part);
                (first, count) = (first + part, count - part);
            }
        }
        all
    }

    /// Whether all chunks are of one share of a vector, of so many chunks each, and follow one another.
    pub(super) fn are_of_one_share(&self, share: u32) -> bool {
        let within = |run: &Run| run.buffer == Buffer::Scratch || run.first % share + run.count <= share;
        self.0.len() <= 1 && self.0.iter().all(within)
    }

    /// Chunks in all.
    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|run| run.count).sum()
    }

    /// Where one run ends and the next one begins, counted from the first chunk.
    pub(super) fn cuts(&self) -> impl Iterator<Item = u32> {
        let ends = self.0.iter().scan(0, |end, run| {
            *end += run.count;
            Some(*end)
        });
        ends.take(self.0.len().saturating_sub(1))
    }

    /// The chunks from number `begin` to before number `end`.
    pub(super) fn part(&self, begin: u32, end: u32) -> Runs {
        let (mut part, mut before) = (Runs::default(), 0);
        for run in &self.0 {
            let [from, to] = [begin, end].map(|at| at.clamp(before, before + run.count) - before);
            part.push(run.buffer, run.first + from, to - from);
            before += run.count;
        }
        part
    }

    /// Where chunk number `nth` lies; none if there are not so many.
    pub(super) fn at(&self, nth: u32) -> Option<Location> {
        let mut before = 0;
        let run = self.0.iter().find(|run| {
            before += run.count;
            nth < before
        })?;
        Some(Location { buffer: run.buffer, offset: run.first + run.count - (before - nth) })
    }
}
