//! Rings, in one direction: going up, rank `r` sends to `r + 1`.
//!
//! Reduce-scatter takes `N - 1` sends per rank and leaves rank `r` with the sum of block `r`; all-gather
//! starts from there and takes another `N - 1`; all-reduce is one after the other, with the last
//! reduction and the first gathering send fused (ACE paper, section IV-D, steps 3 and 4). Going down
//! mirrors it. A vector of `S` bytes therefore costs each rank `(N-1)/N * S` sent bytes for either half.

use super::step::{Blocks, Op, Slot, Step};
use crate::kind::Kind;
use crate::rank::LineRank;

/// Steps of a rank.
#[inline]
pub fn steps(kind: Kind, ranks: u32) -> u32 {
    match kind {
        _ if ranks < 2 => 0,
        Kind::AllReduce => 2 * ranks - 1,
        _ => ranks,
    }
}

/// The last step that sends: only the final receive of a ring sends nothing.
#[inline]
pub fn last_send(kind: Kind, ranks: u32) -> Option<u32> {
    steps(kind, ranks).checked_sub(2)
}

/// Step `pc` of `rank`.
#[inline]
pub fn step(kind: Kind, ranks: u32, up: bool, rank: u32, pc: u32) -> Step {
    let reduce_scatter_op = |pc| match pc {
        0 => Op::Send,
        pc if pc + 1 < ranks => Op::RecvReduceSend,
        _ => Op::RecvReduce,
    };
    let (op, distance) = match kind {
        // Step k handles the block that still has N-1-k reductions to come.
        Kind::ReduceScatter => (reduce_scatter_op(pc), pc + 1),
        Kind::AllGather if pc == 0 => (Op::Send, 0),
        Kind::AllGather if pc + 1 < ranks => (Op::RecvCopySend, pc),
        Kind::AllGather => (Op::Recv, pc),
        _ if pc + 1 < ranks => (reduce_scatter_op(pc), pc + 1),
        _ if pc + 1 == ranks => (Op::RecvReduceCopySend, pc + 1),
        _ if pc + 2 < 2 * ranks => (Op::RecvCopySend, pc + 1),
        _ => (Op::Recv, pc + 1),
    };
    // Conditional subtractions: this runs once per message, and a division would cost more than the rest.
    let below = |n: u32| if n >= ranks { n - ranks } else { n };
    let back = below(below(distance));
    let (above, under) = (below(rank + 1), below(rank + ranks - 1));
    let (block, from, to) =
        if up { (below(rank + ranks - back), under, above) } else { (below(rank + back), above, under) };
    Step {
        op,
        blocks: Blocks::one(block),
        from: LineRank(from),
        to: LineRank(to),
        into: Slot { thread: 0, pc: pc + 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::program::walk::volume::sent_blocks;

    #[test]
    fn what_each_rank_sends() {
        for (ranks, up) in (1..40).flat_map(|n| [(n, true), (n, false)]) {
            let sent = |kind, rank| sent_blocks(&Program::Ring { kind, ranks, up }, rank);
            for rank in 0..ranks {
                assert_eq!(sent(Kind::ReduceScatter, rank), ranks - 1);
                assert_eq!(sent(Kind::AllGather, rank), ranks - 1);
                assert_eq!(sent(Kind::AllReduce, rank), 2 * (ranks - 1));
            }
        }
    }

    #[test]
    fn the_last_send() {
        for kind in [Kind::ReduceScatter, Kind::AllGather, Kind::AllReduce] {
            for ranks in 1..10 {
                let ring = Program::Ring { kind, ranks, up: true };
                let written = Program::from(ring.written_down().unwrap());
                assert_eq!(ring.last_send(LineRank(0)), written.last_send(LineRank(0)), "{kind:?} {ranks}");
            }
        }
    }
}
