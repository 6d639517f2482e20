//! Recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005).
//!
//! On `N = 2^L` ranks, a reduce-scatter halves the part of the vector that a rank works on in each of
//! `L` rounds: it sends the half that it gives up to its partner, and adds what the partner sends of the
//! half that it keeps. All-gather is the reverse, and all-reduce is one after the other.
//!
//! Partners of reduce-scatter are `N/2, N/4, ..., 1` ranks apart, so that the runs are consecutive and
//! rank `r` is left with block `r`. An all-reduce is free to leave the blocks elsewhere in between: it
//! works with distances `1, 2, ..., N/2`, so that its large messages go to near ranks, and rank `r` owns
//! the block whose number is `r` with its bits reversed.
//!
//! # Any number of ranks
//! Other numbers are folded onto `P = 2^L < N` *nodes*, node `i` being the ranks from `iN/P` to
//! `(i+1)N/P - 1`: one rank or, evenly spread, two neighbours. Two neighbours first add up their
//! vectors, each one half of it: the half that the node keeps in the first round is summed up by one
//! (the *active* rank), the half that it gives up by the other, which sends it to the partner at once
//! and then rests (Rabenseifner's exchange of halves, which is cheaper by half than moving whole
//! vectors, without his collecting the halves again, since they part in the next round anyhow). The
//! all-gather ends in the same way: the resting rank takes the half that comes from the partner, and
//! the neighbours exchange halves.
//!
//! | | rounds | bytes of a rank |
//! |---|---|---|
//! | reduce-scatter, all-gather on `2^L` | `L` | `(N-1)/N * S` |
//! | all-reduce on `2^L` | `2L` | `2(N-1)/N * S` |
//! | reduce-scatter, folded | `L + 2` | sent: `(N-1)/N * S`, by a resting rank `S` |
//! | all-gather, folded | `L + 2` | received: `(N-1)/N * S`, by a resting rank `S` |
//! | all-reduce, folded | `2L + 2` | sent, in `S/P`: `2P-2` by a node of one, `(5P-4)/2` if active, `3P/2` if resting |
//!
//! (`L + 1` rounds instead of `L + 2` if `N - P` is a power of two: see [`rounds`].) In a folded
//! all-gather an active rank sends about `3/2 * S`, since its half goes to two ranks in the end.
//! Folding therefore costs an all-reduce two rounds and at most half a vector.

use super::step::{Blocks, Op, Slot, Step};
use crate::kind::Kind;
use crate::rank::LineRank;

/// Blocks of the vector.
#[inline]
pub fn parts(kind: Kind, ranks: u32) -> u32 {
    if kind == Kind::AllReduce { 1 << levels(ranks) } else { ranks }
}

/// `L`.
#[inline]
pub fn levels(ranks: u32) -> u32 {
    ranks.ilog2()
}

/// Messages on the longest way.
#[inline]
pub fn rounds(kind: Kind, ranks: u32) -> u32 {
    let (levels, pairs) = (levels(ranks), ranks - (1 << levels(ranks)));
    match (kind, pairs) {
        (Kind::AllReduce, 0) => 2 * levels,
        (Kind::AllReduce, _) => 2 * levels + 2,
        (_, 0) => levels,
        // With a message in every round, the way from a node leads to its complement. Evenly spread
        // over a power of two, none of a power of two of pairs has a pair for its complement.
        _ => levels + if pairs.is_power_of_two() { 1 } else { 2 },
    }
}

/// What a rank is to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It is the node.
    Single,
    /// Of two neighbours, the one that acts for both.
    Active,
    /// The other one.
    Resting,
}

/// The nodes of a group. Nodes are numbered by the run of the vector that they end up with, which in
/// an all-reduce is not their order: see [`Nodes::turned`].
#[derive(Clone, Copy)]
struct Nodes {
    kind: Kind,
    ranks: u32,
    levels: u32,
}

/// A rank's place among the nodes.
#[derive(Clone, Copy)]
struct Position {
    node: u32,
    role: Role,
}

impl Nodes {
    fn new(kind: Kind, ranks: u32) -> Nodes {
        Nodes { kind, ranks, levels: levels(ranks) }
    }

    /// Between the order of nodes by rank and by run: either way.
    fn turned(self, node: u32) -> u32 {
        if self.kind == Kind::AllReduce { node.reverse_bits() >> (32 - self.levels) } else { node }
    }

    /// The first rank of the `i`-th node by rank.
    fn start(self, i: u32) -> u32 {
        ((u64::from(i) * u64::from(self.ranks)) >> self.levels) as u32
    }

    /// The half of the vector that a node keeps in the first round.
    fn kept_half(self, node: u32) -> u32 {
        node >> (self.levels - 1)
    }

    /// The rank of a node that handles a half of the vector.
    fn holder(self, node: u32, half: u32) -> u32 {
        let i = self.turned(node);
        if half == 0 { self.start(i) } else { self.start(i + 1) - 1 }
    }

    /// The rank that acts for a node.
    fn active(self, node: u32) -> u32 {
        self.holder(node, self.kept_half(node))
    }

    /// The other rank of a node of two, or the only one.
    fn resting(self, node: u32) -> u32 {
        self.holder(node, 1 - self.kept_half(node))
    }

    fn is_pair(self, node: u32) -> bool {
        self.active(node) != self.resting(node)
    }

    fn position(self, rank: u32) -> Position {
        let i = ((u64::from(rank) + 1) << self.levels).div_ceil(u64::from(self.ranks)) as u32 - 1;
        let node = self.turned(i);
        let role = match (self.is_pair(node), self.active(node) == rank) {
            (false, _) => Role::Single,
            (true, true) => Role::Active,
            (true, false) => Role::Resting,
        };
        Position { node, role }
    }

    /// The role of the rank that acts for a node.
    fn acting_role(self, node: u32) -> Role {
        if self.is_pair(node) { Role::Active } else { Role::Single }
    }

    /// The run of the vector that is left to a node after so many rounds of halving.
    fn run(self, node: u32, rounds: u32) -> Blocks {
        let left = self.levels - rounds;
        let first = node >> left << left;
        let (first, end) = match self.kind {
            Kind::AllReduce => (first, first + (1 << left)),
            _ => (self.start(first), self.start(first + (1 << left))),
        };
        Blocks { origin: 0, first, count: end - first }
    }

    /// The run of half a vector.
    fn half(self, half: u32) -> Blocks {
        self.run(half << (self.levels - 1), 1)
    }

    /// Whom a node works with in a round of halving.
    fn partner(self, node: u32, round: u32) -> u32 {
        node ^ 1 << (self.levels - 1 - round)
    }

    /// Steps of a rank while it reduces.
    fn reducing(self, role: Role) -> u32 {
        match (self.kind, role) {
            (Kind::AllGather, _) => 0,
            (_, Role::Single) => 2 * self.levels,
            (_, Role::Active) => 2 * self.levels + 1,
            (_, Role::Resting) => 2,
        }
    }

    /// Steps of a rank while it gathers.
    fn gathering(self, role: Role) -> u32 {
        match (self.kind, role) {
            (Kind::ReduceScatter, _) => 0,
            (_, Role::Single) => 2 * self.levels,
            (_, Role::Active) => 2 * self.levels + 1,
            (_, Role::Resting) => 2,
        }
    }

    /// The steps between: a pair hands over the resting rank's block.
    fn handing_over(self, role: Role) -> u32 {
        u32::from(self.kind != Kind::AllReduce && role != Role::Single)
    }

    fn first_gathering(self, role: Role) -> u32 {
        self.reducing(role) + self.handing_over(role)
    }
}

const fn slot(pc: u32) -> Slot {
    Slot { thread: 0, pc }
}

/// Steps of a rank.
#[inline]
pub fn steps(kind: Kind, ranks: u32, rank: u32) -> u32 {
    if ranks < 2 {
        return 0;
    }
    let nodes = Nodes::new(kind, ranks);
    let role = nodes.position(rank).role;
    nodes.first_gathering(role) + nodes.gathering(role)
}

/// Step `pc` of `rank`.
#[inline]
pub fn step(kind: Kind, ranks: u32, rank: u32, pc: u32) -> Step {
    let nodes = Nodes::new(kind, ranks);
    let position = nodes.position(rank);
    let (reducing, gathering) = (nodes.reducing(position.role), nodes.first_gathering(position.role));
    if pc < reducing {
        nodes.reduce(position, pc)
    } else if pc < gathering {
        nodes.hand_over(position)
    } else {
        nodes.gather(position, pc - gathering)
    }
}

impl Nodes {
    /// A step of the halving.
    fn reduce(self, Position { node, role }: Position, pc: u32) -> Step {
        let kept = self.kept_half(node);
        match (role, pc) {
            (Role::Resting, 0) => Step::send(self.half(kept), LineRank(self.active(node)), slot(1)),
            (Role::Resting, _) => {
                let to = self.partner(node, 0);
                let into = slot(self.reduces_at(to, 0));
                let (from, to) = (self.active(node), self.active(to));
                Step {
                    op: Op::RecvReduceSend,
                    blocks: self.half(1 - kept),
                    from: LineRank(from),
                    to: LineRank(to),
                    into,
                }
            }
            (Role::Active, 0) => Step::send(self.half(1 - kept), LineRank(self.resting(node)), slot(1)),
            (Role::Active, 1) => Step::receive(Op::RecvReduce, self.half(kept), LineRank(self.resting(node))),
            _ => {
                let pc = if role == Role::Active { pc - 1 } else { pc };
                let round = pc / 2;
                let partner = self.partner(node, round);
                if pc % 2 == 0 {
                    let into = slot(self.reduces_at(partner, round));
                    Step::send(self.run(partner, round + 1), LineRank(self.active(partner)), into)
                } else {
                    // In the first round a pair's resting rank sends.
                    let from = if round == 0 { self.resting(partner) } else { self.active(partner) };
                    Step::receive(Op::RecvReduce, self.run(node, round + 1), LineRank(from))
                }
            }
        }
    }

    /// The step in which the rank that acts for a node takes the message of a round of halving.
    fn reduces_at(self, node: u32, round: u32) -> u32 {
        2 * round + if self.is_pair(node) { 2 } else { 1 }
    }

    /// The block of a pair's resting rank changes hands: to it after reducing, from it before gathering.
    fn hand_over(self, Position { node, role }: Position) -> Step {
        let (active, resting) = (self.active(node), self.resting(node));
        match (role == Role::Active, self.kind == Kind::ReduceScatter) {
            (true, true) => Step::send(Blocks::one(resting), LineRank(resting), slot(self.reducing(Role::Resting))),
            (false, true) => Step::receive(Op::Recv, Blocks::one(resting), LineRank(active)),
            (true, false) => Step::receive(Op::Recv, Blocks::one(resting), LineRank(resting)),
            (false, false) => Step::send(Blocks::one(resting), LineRank(active), slot(0)),
        }
    }

    /// A step of the doubling, the first one being 0.
    fn gather(self, Position { node, role }: Position, step: u32) -> Step {
        let kept = self.kept_half(node);
        let last = 2 * (self.levels - 1);
        match role {
            Role::Resting if step == 0 => {
                let (from, to) = (self.active(self.partner(node, 0)), self.active(node));
                let into = slot(self.first_gathering(Role::Active) + last + 2);
                Step { op: Op::RecvCopySend, blocks: self.half(1 - kept), from: LineRank(from), to: LineRank(to), into }
            }
            Role::Resting => Step::receive(Op::Recv, self.half(kept), LineRank(self.active(node))),
            Role::Active if step == last + 1 => {
                let into = slot(self.first_gathering(Role::Resting) + 1);
                Step::send(self.half(kept), LineRank(self.resting(node)), into)
            }
            Role::Active if step == last + 2 => {
                Step::receive(Op::Recv, self.half(1 - kept), LineRank(self.resting(node)))
            }
            _ => {
                // Backwards through the rounds of the halving.
                let round = self.levels - 1 - step / 2;
                let partner = self.partner(node, round);
                if step % 2 == 1 {
                    return Step::receive(Op::Recv, self.run(partner, round + 1), LineRank(self.active(partner)));
                }
                // In the last round a pair's resting rank receives.
                let (to, at) = match self.acting_role(partner) {
                    Role::Active if round == 0 => (self.resting(partner), self.first_gathering(Role::Resting)),
                    role => (self.active(partner), self.first_gathering(role) + step + 1),
                };
                Step::send(self.run(node, round + 1), LineRank(to), slot(at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::program::walk::volume::{received_blocks, sent_blocks};

    #[test]
    fn what_each_rank_sends_and_receives() {
        for ranks in 2..140 {
            let (power, nodes) = (1 << levels(ranks), Nodes::new(Kind::AllGather, ranks));
            for rank in 0..ranks {
                let halving = |kind| Program::HalvingDoubling { kind, ranks };
                let rests = u32::from(nodes.position(rank).role == Role::Resting);
                let context = format!("rank {rank} of {ranks}");
                assert_eq!(sent_blocks(&halving(Kind::ReduceScatter), rank), ranks - 1 + rests, "{context}");
                assert_eq!(received_blocks(&halving(Kind::AllGather), rank), ranks - 1 + rests, "{context}");
                assert!(2 * sent_blocks(&halving(Kind::AllGather), rank) <= 3 * ranks + 2 * levels(ranks), "{context}");
                let all_reduce = match Nodes::new(Kind::AllReduce, ranks).position(rank).role {
                    Role::Single => 2 * power - 2,
                    Role::Active => (5 * power - 4) / 2,
                    Role::Resting => 3 * power / 2,
                };
                assert_eq!(sent_blocks(&halving(Kind::AllReduce), rank), all_reduce, "{context}");
            }
        }
    }

    #[test]
    fn the_large_messages_of_an_all_reduce_go_to_neighbours() {
        let first = step(Kind::AllReduce, 16, 6, 0);
        assert_eq!((first.to.0, first.blocks.count), (7, 8));
        let first = step(Kind::ReduceScatter, 16, 6, 0);
        assert_eq!((first.to.0, first.blocks.first, first.blocks.count), (14, 8, 8));
    }

    #[test]
    fn pairs_are_neighbours_and_evenly_spread() {
        let nodes = Nodes::new(Kind::ReduceScatter, 12);
        let pairs: Vec<_> =
            (0..8).filter(|&i| nodes.is_pair(i)).map(|i| (nodes.start(i), nodes.start(i + 1))).collect();
        assert_eq!(pairs, [(1, 3), (4, 6), (7, 9), (10, 12)]);
    }
}
