//! Programs whose steps are written down, instead of being computed.
//!
//! A thread is a row of *bodies*: some steps, and how often they are repeated. From one repetition to the next the numbers in
//! a step advance by constants: blocks modulo those of the vector, ranks modulo the ranks, steps that take a message by as
//! many as the receiver has done meanwhile. So what an algorithm does for slice after slice, or for peer after peer, takes no
//! more memory than what it does for one. All steps lie in one array; a thread costs two numbers.

use super::loops::{Advance, Loop, WrittenStep};
use super::step::{Blocks, Detail, Named, Op, Pace, Place, Slot, Step};
use crate::rank::LineRank;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::OnceLock;
use syncline_core::Refusal;

/// The most threads of a rank.
pub const MAX_THREADS: usize = 1 << 12;

/// How messages that follow one another in a thread go to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pacing {
    /// Whether a thread that sends several messages of its own in a row puts one at a time into its port.
    pub one_by_one: bool,
    /// Whether messages in a row to different peers do not wait for one another, but for a few of them.
    pub spreads: bool,
    /// How many connections a rank has to a peer: threads whose numbers differ by a multiple of it share one. With 0, each has
    /// its own.
    pub queues: u16,
}

impl Pacing {
    /// When a message that follows another one is sent.
    #[inline]
    pub const fn pace(self) -> Pace {
        match (self.one_by_one, self.spreads) {
            (false, _) => Pace::Free,
            (true, false) => Pace::OneByOne,
            (true, true) => Pace::Spread,
        }
    }

    /// What runtimes do with thread blocks: they have connections of their own, and put one message at a time into them.
    pub const OF_THREAD_BLOCKS: Pacing = Pacing { one_by_one: true, spreads: false, queues: 0 };
}

/// Some steps of a thread, and how often they are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Body {
    /// The number of its first step in the thread, in the first repetition.
    first_pc: u32,
    /// Its first step among all.
    first_step: u32,
    /// Its steps.
    len: u32,
    times: u32,
}

/// A program whose steps are written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    parts: u32,
    ranks: u32,
    has_switch: bool,
    pacing: Pacing,
    /// What ways of steps name by number.
    named: Named,
    /// Whether a step waits for one of another thread, or does nothing else.
    has_dependencies: bool,
    /// Whether a step has a pace of its own.
    has_paces: bool,
    most_threads: u16,
    /// The first thread of each rank among all, and their number.
    first_thread: Vec<u32>,
    /// The first body of each thread among all, and their number.
    first_body: Vec<u32>,
    bodies: Vec<Body>,
    steps: Vec<WrittenStep>,
    rounds: Known,
}

/// A number that takes long to find out, once it is known. It follows from the steps, so that it is equal where they are.
#[derive(Clone, Debug, Default)]
struct Known(OnceLock<u32>);

impl PartialEq for Known {
    fn eq(&self, _: &Known) -> bool {
        true
    }
}

impl Eq for Known {}

/// What a program is, besides its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Blocks that the vector is cut into, at least 1.
    pub parts: u32,
    /// Whether the last of the ranks is a switch.
    pub has_switch: bool,
    /// How messages go to the network.
    pub pacing: Pacing,
    /// What ways of steps name by number.
    pub named: Named,
}

/// Why steps make no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLarge {
    /// More threads of a rank than [`MAX_THREADS`].
    Threads {
        /// The rank.
        rank: u32,
        /// Its threads.
        threads: usize,
    },
    /// More steps than can be counted.
    Steps,
}

impl TooLarge {
    /// What a person reads.
    pub fn refusal(self) -> Refusal {
        match self {
            TooLarge::Threads { rank, threads } => {
                Refusal::of("", format!("rank {rank} has {threads} threads")).accepting(format!("up to {MAX_THREADS}"))
            }
            TooLarge::Steps => {
                Refusal::of("", "the steps or blocks are more than can be counted").accepting("up to 2^32")
            }
        }
    }
}

impl Written {
    /// The program of these loops, by rank and thread; a rank may have fewer threads than another.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn new(
        frame: Frame,
        ranks: impl IntoIterator<Item = impl IntoIterator<Item = impl IntoIterator<Item = Loop>>>,
    ) -> Result<Written, TooLarge> {
        let Frame { parts, has_switch, pacing, named } = frame;
        let mut written = Written {
            parts,
            ranks: 0,
            has_switch,
            pacing,
            named,
            has_dependencies: false,
            has_paces: false,
            most_threads: 1,
            first_thread: vec![0],
            first_body: vec![0],
            bodies: Vec::new(),
            steps: Vec::new(),
            rounds: Known::default(),
        };
        for (rank, threads) in (0u32..).zip(ranks) {
            let mut count = 0usize;
            for thread in threads {
                written.add_thread(thread)?;
                count += 1;
            }
            if count > MAX_THREADS {
                return Err(TooLarge::Threads { rank, threads: count });
            }
            written.most_threads = written.most_threads.max(count as u16);
            written.first_thread.push(counted(written.first_body.len() - 1)?);
        }
        written.ranks = written.first_thread.len() as u32 - 1 - u32::from(has_switch);
        written.steps.shrink_to_fit();
        written.bodies.shrink_to_fit();
        Ok(written)
    }

    fn add_thread(&mut self, loops: impl IntoIterator<Item = Loop>) -> Result<(), TooLarge> {
        let mut pc = 0u32;
        for Loop { times, steps } in loops {
            let (first_step, len) = (counted(self.steps.len())?, counted(steps.len())?);
            self.bodies.push(Body { first_pc: pc, first_step, len, times });
            pc = len.checked_mul(times).and_then(|n| n.checked_add(pc)).ok_or(TooLarge::Steps)?;
            self.has_dependencies |= steps.iter().any(|s| s.detail.after.is_some() || s.step.op == Op::Nop);
            self.has_paces |= steps.iter().any(|s| s.detail.pace.is_some());
            self.steps.extend(steps);
        }
        self.first_body.push(counted(self.bodies.len())?);
        Ok(())
    }

    /// The program of steps that are not repeated, by rank and thread.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn of_steps(frame: Frame, ranks: &[Vec<Vec<Step>>]) -> Result<Written, TooLarge> {
        let once = |step: &Step| Loop { times: 1, steps: vec![WrittenStep::from(*step)] };
        Written::new(frame, ranks.iter().map(|threads| threads.iter().map(move |steps| steps.iter().map(once))))
    }

    /// Ranks, a switch not counted.
    #[inline]
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Blocks of the vector.
    #[inline]
    pub const fn parts(&self) -> u32 {
        self.parts
    }

    /// Whether the last rank is a switch.
    pub const fn has_switch(&self) -> bool {
        self.has_switch
    }

    /// Messages that follow one another on the longest way, which are counted when they are first asked for.
    pub fn rounds(&self, count: impl FnOnce() -> u32) -> u32 {
        *self.rounds.0.get_or_init(count)
    }

    /// How messages go to the network.
    #[inline]
    pub const fn pacing(&self) -> Pacing {
        self.pacing
    }

    /// When a message that follows that of a step in its thread is sent.
    #[inline]
    pub fn pace(&self, rank: LineRank, at: Slot) -> Pace {
        let own = if self.has_paces { self.detail(rank, at).pace } else { None };
        own.unwrap_or_else(|| self.pacing.pace())
    }

    /// What ways of steps name by number.
    pub fn named(&self) -> &Named {
        &self.named
    }

    /// Whether a step waits for one of another thread, or only waits.
    #[inline]
    pub const fn has_dependencies(&self) -> bool {
        self.has_dependencies
    }

    /// The most threads that a rank has.
    #[inline]
    pub const fn threads(&self) -> u16 {
        self.most_threads
    }

    /// All steps as they are written, each once.
    pub fn distinct_steps(&self) -> &[WrittenStep] {
        &self.steps
    }

    /// The same with all details changed, such as the numbers of classes of links.
    #[must_use]
    pub fn with_details(mut self, mut change: impl FnMut(&mut Detail)) -> Written {
        self.steps.iter_mut().for_each(|s| change(&mut s.detail));
        self
    }

    /// Whether every rank does the same as rank 0, seen from its own place: with blocks and peers at the same distance, modulo
    /// blocks and ranks.
    pub fn is_rotation_symmetric(&self) -> bool {
        if self.has_switch || !self.parts.is_multiple_of(self.ranks.max(1)) {
            return false;
        }
        let each = self.parts / self.ranks.max(1);
        let turned = |number: u32, by: u32, size: u32| ((u64::from(number) + u64::from(by)) % u64::from(size)) as u32;
        let alike = |rank: LineRank, at: Slot| {
            let [mine, first] = [rank, LineRank(0)].map(|r| (self.step(r, at).normal(), self.detail(r, at)));
            let Step { op, blocks, from, to, into } = first.0;
            let peer = |r: LineRank| if op.is_local() { r } else { LineRank(turned(r.0, rank.0, self.ranks)) };
            let blocks = Blocks {
                origin: if mine.0.blocks.origin == blocks.origin {
                    blocks.origin
                } else {
                    turned(blocks.origin, rank.0, self.ranks)
                },
                first: turned(blocks.first, rank.0 * each, self.parts),
                ..blocks
            };
            mine == (Step { op, blocks, from: peer(from), to: peer(to), into }, first.1)
        };
        (1..self.ranks).map(LineRank).all(|rank| {
            (0..self.most_threads).all(|thread| {
                let steps = self.steps(rank, thread);
                steps == self.steps(LineRank(0), thread) && (0..steps).all(|pc| alike(rank, Slot { thread, pc }))
            })
        })
    }

    /// The same for so many parts of the vector, one after the other, and whether the blocks of every step still follow one
    /// another. A thread begins the next loop when it has done all its steps of one, whatever the others do. Each `share`
    /// blocks of the vector are cut into as many parts, so that ranks have the same shares as before. Places are those of the
    /// first loop.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn looped(&self, times: u32, share: u32) -> Result<(Written, bool), TooLarge> {
        let parts = self.parts.checked_mul(times).ok_or(TooLarge::Steps)?;
        let mut is_regular = true;
        let mut step = |rank: LineRank, at: Slot| {
            let (mut step, detail) = (self.step(rank, at), self.detail(rank, at));
            let Blocks { first, count, .. } = step.blocks;
            is_regular &= first % share + count <= share;
            step.blocks.first = first / share * share * times + first % share;
            let advance = Advance {
                blocks: share as i32,
                into: if step.op.sends() { self.steps(step.to, step.into.thread) } else { 0 },
                after: detail.after.map_or(0, |on| self.steps(rank, on.thread)),
                ..Advance::default()
            };
            WrittenStep { step, detail, advance }
        };
        let mut thread = |rank: LineRank, thread: u16| {
            let steps = (0..self.steps(rank, thread)).map(|pc| step(rank, Slot { thread, pc })).collect();
            [Loop { times, steps }]
        };
        let ranks: Vec<Vec<[Loop; 1]>> = (0..self.ranks + u32::from(self.has_switch))
            .map(LineRank)
            .map(|rank| (0..self.threads_of(rank)).map(|t| thread(rank, t)).collect())
            .collect();
        let frame = Frame { parts, has_switch: self.has_switch, pacing: self.pacing, named: self.named.clone() };
        Ok((Written::new(frame, ranks)?, is_regular))
    }

    /// The threads of a rank.
    pub fn threads_of(&self, rank: LineRank) -> u16 {
        let [first, end] = [0, 1].map(|i| self.first_thread[rank.index() + i]);
        (end - first) as u16 // up to `most_threads`
    }

    /// The loops of a thread.
    pub fn loops(&self, rank: LineRank, thread: u16) -> impl Iterator<Item = (u32, &[WrittenStep])> {
        self.bodies_of(rank, thread).iter().map(|b| (b.times, &self.steps[range(b)]))
    }

    #[inline]
    fn bodies_of(&self, rank: LineRank, thread: u16) -> &[Body] {
        let at = self.first_thread[rank.index()] + u32::from(thread);
        if at >= self.first_thread[rank.index() + 1] {
            return &[];
        }
        &self.bodies[self.first_body[at as usize] as usize..self.first_body[at as usize + 1] as usize]
    }

    /// Number of steps of a thread of a rank.
    #[inline]
    pub fn steps(&self, rank: LineRank, thread: u16) -> u32 {
        self.bodies_of(rank, thread).last().map_or(0, |b| b.first_pc + b.len * b.times)
    }

    /// A step as it is written, and the number of its repetition.
    #[inline]
    fn find(&self, rank: LineRank, at: Slot) -> (&WrittenStep, u32) {
        let bodies = self.bodies_of(rank, at.thread);
        let body = match bodies {
            [only] => only,
            _ => &bodies[bodies.partition_point(|b| b.first_pc <= at.pc) - 1],
        };
        let inside = at.pc - body.first_pc;
        let (round, nth) = if body.times == 1 { (0, inside) } else { (inside / body.len, inside % body.len) };
        (&self.steps[(body.first_step + nth) as usize], round)
    }

    /// A step, whose number must be below [`Written::steps`].
    #[inline]
    pub fn step(&self, rank: LineRank, at: Slot) -> Step {
        let (written, round) = self.find(rank, at);
        if round == 0 {
            return written.step;
        }
        let (Step { op, blocks, from, to, into }, by) = (written.step, written.advance);
        let peer = |rank: LineRank| LineRank(moved(rank.0, by.peer, round, self.ranks));
        Step {
            op,
            blocks: Blocks {
                origin: moved(blocks.origin, by.origin, round, self.ranks),
                first: moved(blocks.first, by.blocks, round, self.parts),
                count: blocks.count,
            },
            from: peer(from),
            to: peer(to),
            into: Slot { pc: into.pc.wrapping_add(by.into.wrapping_mul(round)), ..into },
        }
    }

    /// What else a step says.
    #[inline]
    pub fn detail(&self, rank: LineRank, at: Slot) -> Detail {
        let (written, round) = self.find(rank, at);
        if round == 0 {
            return written.detail;
        }
        let (Detail { after, way, pace, src, dst }, by) = (written.detail, written.advance);
        let place = |p: Place| Place { first: moved(p.first, by.blocks, round, self.parts), ..p };
        Detail {
            after: after.map(|slot| Slot { pc: slot.pc.wrapping_add(by.after.wrapping_mul(round)), ..slot }),
            way,
            pace,
            src: src.map(place),
            dst: dst.map(place),
        }
    }
}

fn range(body: &Body) -> Range<usize> {
    body.first_step as usize..(body.first_step + body.len) as usize
}

fn counted(n: usize) -> Result<u32, TooLarge> {
    u32::try_from(n).map_err(|_| TooLarge::Steps)
}

/// A number after so many rounds of `by`, modulo `size`.
#[inline]
fn moved(number: u32, by: i32, round: u32, size: u32) -> u32 {
    match by {
        0 => number,
        _ => (i64::from(number) + i64::from(by) * i64::from(round)).rem_euclid(i64::from(size.max(1))) as u32,
    }
}
