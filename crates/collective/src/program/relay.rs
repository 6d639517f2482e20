//! The all-to-all of a ring on which every rank sends to its neighbours only.
//!
//! Going up, rank `r` first sends `r + 1` everything that it has for the others: `N - 1` blocks. In the
//! `s`-th message it passes on the `N - s` blocks of rank `r - s + 1` that have not yet arrived, having
//! kept the one that was for itself. After `N - 1` rounds all are there, and every rank has sent
//! `N(N-1)/2` blocks: `(N-1)/2 * S` bytes, since a block travels half the ring on average. (The
//! neighbour-relayed all-to-all of ACE's first version.)

use super::step::{Blocks, Op, Slot, Step};
use crate::rank::LineRank;

/// Steps of a rank: each message is received by one step and what is left of it sent by the next.
#[inline]
pub fn steps(ranks: u32) -> u32 {
    2 * (ranks - 1)
}

/// Step `pc` of `rank`.
#[inline]
pub fn step(ranks: u32, up: bool, rank: u32, pc: u32) -> Step {
    let below = |n: u32| if n >= ranks { n - ranks } else { n };
    let (above, under) = (below(rank + 1), below(rank + ranks - 1));
    let (from, to) = if up { (under, above) } else { (above, under) };
    // Whose blocks they are, so many hops back, and how many have still to travel.
    let hops = pc.div_ceil(2);
    let (origin, count) = (below(if up { rank + ranks - hops } else { rank + hops }), ranks - 1 - pc / 2);
    let run = |nearest: u32| {
        let first = if up { nearest } else { below(nearest + ranks + 1 - count) };
        Blocks { origin, first, count }
    };
    if pc.is_multiple_of(2) {
        Step::send(run(to), LineRank(to), Slot { thread: 0, pc: pc + 1 })
    } else {
        Step::receive(Op::Recv, run(rank), LineRank(from))
    }
}

#[cfg(test)]
mod tests {
    use crate::program::Program;
    use crate::program::walk::volume::sent_blocks;

    #[test]
    fn a_block_travels_half_the_ring() {
        for (ranks, up) in (1..40).flat_map(|n| [(n, true), (n, false)]) {
            let relay = Program::Relay { ranks, up };
            for rank in 0..ranks {
                assert_eq!(sent_blocks(&relay, rank), ranks * (ranks - 1) / 2, "{rank} of {ranks}");
            }
        }
    }
}
