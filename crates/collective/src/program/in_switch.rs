//! Collectives through a switch that reduces and copies (ACE paper, section IV-B and Tables I and II: the
//! switch-based offload; NVIDIA's shared-memory switches, its reference [29], and Mellanox SHARP).
//!
//! The ranks of a line are attached to a switch, which is a rank as well: number `ranks`, with no input
//! and no result of its own. The vector is cut into pieces. A rank sends a piece once, the switch adds what
//! comes from all ranks, and sends the sum to those that want it; or it copies what comes from one rank to
//! all others. Per byte of the vector of `N` ranks:
//!
//! | | a rank sends | a rank receives |
//! |---|---|---|
//! | all-reduce | 1 | 1 |
//! | reduce-scatter | 1 | 1/N |
//! | reduce | 1 | 1 at the root, else 0 |
//! | all-gather | 1/N | (N-1)/N |
//! | broadcast | 1 at the root, else 0 | 1 at the others |
//!
//! All-to-all, gather and scatter have neither a sum nor a copy, so a switch can save nothing there.
//!
//! # Slots
//! The switch holds the partial sums of few pieces at a time. Thread `t` of every rank works through the
//! pieces `t`, `t + slots`, `t + 2 slots`, ...: it sends one and waits for its sum before it sends the next. A
//! rank that needs no sum gets an empty message instead. So a slot of the switch never holds more than one
//! piece, and a line needs memory for `slots` pieces. This cannot deadlock, whichever rank is late: all ranks
//! take the pieces of a slot in the same order, slots do not wait for one another, and nothing keeps a rank
//! from sending the first incomplete piece of a slot. (SwitchML has such self-clocked slots: Sapio et al.,
//! NSDI 2021.) Copies are not partial sums, so no rank waits before it sends one.
//!
//! Pieces of a reduce-scatter or all-gather are the shares of the ranks.

use super::step::{Blocks, Op, Slot, Step};
use crate::kind::Kind;
use crate::rank::LineRank;

/// How a line of ranks goes through a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InSwitch {
    /// What it achieves: anything but all-to-all, gather and scatter.
    pub kind: Kind,
    /// Ranks, the switch not counted.
    pub ranks: u32,
    /// The root of a rooted collective.
    pub root: LineRank,
    /// Pieces of the vector where it is not scattered, at least 1.
    pub slices: u32,
    /// Pieces that a line has in the switch at once, at least 1.
    pub slots: u8,
}

/// A piece at the switch: steps of its thread that belong together, receives first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first of its steps.
    pub first: u32,
    /// Messages that it takes.
    pub receives: u32,
}

impl InSwitch {
    /// Whether the switch adds.
    pub const fn reduces(&self) -> bool {
        matches!(self.kind, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce)
    }

    /// Whether all ranks do the same with the same blocks.
    pub const fn is_uniform(&self) -> bool {
        matches!(self.kind, Kind::AllReduce)
    }

    /// Blocks of the vector.
    pub const fn parts(&self) -> u32 {
        match self.kind {
            Kind::ReduceScatter | Kind::AllGather => self.ranks,
            _ => self.slices,
        }
    }

    /// What the threads share out: pieces, or in an all-gather one turn for those of all ranks.
    const fn turns(&self) -> u32 {
        match self.kind {
            Kind::ReduceScatter => self.ranks,
            Kind::AllGather => 1,
            _ => self.slices,
        }
    }

    /// Threads of a rank.
    pub const fn threads(&self) -> u8 {
        let turns = self.turns();
        if turns < self.slots as u32 { turns as u8 } else { self.slots }
    }

    /// How many turns a thread has.
    const fn turns_of(&self, thread: u16) -> u32 {
        let threads = self.threads() as u32;
        (self.turns() + threads - 1 - thread as u32) / threads
    }

    /// Messages that follow one another: a piece up and down, as often as a slot is used.
    pub const fn rounds(&self) -> u32 {
        match self.kind {
            Kind::Broadcast | Kind::AllGather => 2,
            _ => self.turns_of(0).saturating_mul(2),
        }
    }

    /// Steps of a thread of a rank, or of the switch; saturates.
    #[inline]
    pub fn steps(&self, rank: LineRank, thread: u16) -> u32 {
        if self.ranks < 2 {
            return 0;
        }
        let each = match self.kind {
            _ if rank.0 == self.ranks => self.steps_of_turn(),
            Kind::AllGather => self.ranks,
            Kind::Broadcast => 1,
            _ => 2,
        };
        self.turns_of(thread).saturating_mul(each)
    }

    /// Steps of the switch for a turn.
    const fn steps_of_turn(&self) -> u32 {
        match self.kind {
            Kind::AllGather => self.ranks.saturating_mul(self.ranks),
            Kind::Broadcast => self.ranks,
            _ => 2 * self.ranks,
        }
    }

    /// Steps of the switch for a piece.
    const fn steps_of_piece(&self) -> u32 {
        if self.reduces() { 2 * self.ranks } else { self.ranks }
    }

    /// Most steps of a thread of the switch, which may be more than [`InSwitch::steps`] can count.
    pub const fn steps_at_switch(&self) -> u64 {
        self.turns_of(0) as u64 * self.steps_of_turn() as u64
    }

    /// A step of a rank, or of the switch.
    #[inline]
    pub fn step(&self, rank: LineRank, at: Slot) -> Step {
        if rank.0 == self.ranks { self.of_switch(at) } else { self.of_rank(rank.0, at) }
    }

    /// The blocks of a turn that a rank gets from the switch.
    fn result(&self, turn: u32, rank: u32) -> Blocks {
        let gets = match self.kind {
            Kind::ReduceScatter => rank == turn,
            Kind::Reduce => rank == self.root.0,
            _ => true,
        };
        Blocks { origin: 0, first: turn, count: gets.into() }
    }

    /// The place of `other` among all ranks but `rank`.
    const fn place(rank: u32, other: u32) -> u32 {
        if other < rank { other } else { other - 1 }
    }

    /// The rank at a place among all but `rank`.
    const fn other(rank: u32, place: u32) -> u32 {
        if place < rank { place } else { place + 1 }
    }

    fn of_rank(&self, rank: u32, Slot { thread, pc }: Slot) -> Step {
        let (n, switch) = (self.ranks, LineRank(self.ranks));
        let turn = |round: u32| u32::from(thread) + round * u32::from(self.threads());
        let at_switch = |pc: u32| Slot { thread, pc };
        match self.kind {
            Kind::AllGather if pc == 0 => Step::send(Blocks::one(rank), switch, at_switch(rank * n)),
            Kind::AllGather => Step::receive(Op::Recv, Blocks::one(Self::other(rank, pc - 1)), switch),
            Kind::Broadcast if rank == self.root.0 => Step::send(Blocks::one(turn(pc)), switch, at_switch(pc * n)),
            Kind::Broadcast => Step::receive(Op::Recv, Blocks::one(turn(pc)), switch),
            _ if pc.is_multiple_of(2) => Step::send(Blocks::one(turn(pc / 2)), switch, at_switch(pc * n + rank)),
            _ => Step::receive(Op::Recv, self.result(turn(pc / 2), rank), switch),
        }
    }

    fn of_switch(&self, Slot { thread, pc }: Slot) -> Step {
        let n = self.ranks;
        let (round, i) = (pc / self.steps_of_turn(), pc % self.steps_of_turn());
        let turn = u32::from(thread) + round * u32::from(self.threads());
        let into = |pc: u32| Slot { thread, pc };
        if self.reduces() {
            return match i {
                0 => Step::receive(Op::Recv, Blocks::one(turn), LineRank(0)),
                i if i < n => Step::receive(Op::RecvReduce, Blocks::one(turn), LineRank(i)),
                i => Step::send(self.result(turn, i - n), LineRank(i - n), into(2 * round + 1)),
            };
        }
        let (owner, block) = match self.kind {
            Kind::AllGather => (i / n, i / n),
            _ => (self.root.0, turn),
        };
        if i.is_multiple_of(n) {
            return Step::receive(Op::Recv, Blocks::one(block), LineRank(owner));
        }
        let to = Self::other(owner, i % n - 1);
        let pc = match self.kind {
            Kind::AllGather => 1 + Self::place(to, owner),
            _ => round,
        };
        Step::send(Blocks::one(block), LineRank(to), into(pc))
    }

    /// The piece that a step of the switch belongs to.
    #[inline]
    pub fn piece(&self, at: Slot) -> Piece {
        let first = at.pc - at.pc % self.steps_of_piece();
        Piece { first, receives: if self.reduces() { self.ranks } else { 1 } }
    }

    /// The step of the switch that sends a piece to a rank; `None` for the rank that it comes from.
    #[inline]
    pub fn sends_to(&self, piece: Piece, LineRank(rank): LineRank) -> Option<u32> {
        if self.reduces() {
            return Some(piece.first + self.ranks + rank);
        }
        let owner = match self.kind {
            Kind::AllGather => piece.first / self.ranks,
            _ => self.root.0,
        };
        (rank != owner).then(|| piece.first + 1 + Self::place(owner, rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::program::walk::volume::{received_blocks, sent_blocks};

    const KINDS: [Kind; 5] = [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Broadcast, Kind::Reduce];

    fn all() -> impl Iterator<Item = InSwitch> {
        let sizes = (2..9).flat_map(|n| [(n, 1, 1), (n, 5, 2), (n, 4, 16)]);
        sizes.flat_map(|(ranks, slices, slots)| {
            KINDS.map(|kind| InSwitch { kind, ranks, root: LineRank(ranks / 2), slices, slots })
        })
    }

    /// The table of volumes.
    #[test]
    fn what_each_rank_sends_and_receives() {
        for p in all() {
            let InSwitch { kind, ranks, root, slices, .. } = p;
            for rank in 0..ranks {
                let is_root = u32::from(rank == root.0);
                let expected = match kind {
                    Kind::AllReduce => (slices, slices),
                    Kind::ReduceScatter => (ranks, 1),
                    Kind::AllGather => (1, ranks - 1),
                    Kind::Broadcast => (slices * is_root, slices * (1 - is_root)),
                    _ => (slices, slices * is_root),
                };
                let program = Program::InSwitch(p);
                assert_eq!((sent_blocks(&program, rank), received_blocks(&program, rank)), expected, "{p:?} {rank}");
            }
        }
    }

    /// What an endpoint relies on that takes messages of a piece in any order.
    #[test]
    fn pieces_are_receives_followed_by_sends() {
        for p in all() {
            for thread in 0..u16::from(p.threads()) {
                for pc in 0..p.steps(LineRank(p.ranks), thread) {
                    let piece = p.piece(Slot { thread, pc });
                    let step = p.step(LineRank(p.ranks), Slot { thread, pc });
                    assert_eq!(step.op.receives(), pc < piece.first + piece.receives, "{p:?} {pc}");
                    if step.op.sends() {
                        assert_eq!(p.sends_to(piece, step.to), Some(pc), "{p:?}");
                    }
                }
            }
        }
    }
}
