//! Chains: the ranks in a row from the root, or to it; each sends to its neighbours only.
//!
//! The ranks are those of a ring that is cut at the root. `d` is a rank's distance from the root along
//! the chain; going up, data moves to the next higher rank.
//!
//! | | bytes sent by the rank at distance `d` | message |
//! |---|---|---|
//! | broadcast | `S`, the last one nothing | `S / slices` |
//! | reduce | `S`, the root nothing | `S / slices` |
//! | scatter | `(N-1-d)/N * S`: what is for those behind, the farthest first | `S / N` |
//! | gather | `(N-d)/N * S`, the root nothing: its own, then what those behind send, the nearest first | `S / N` |
//!
//! All take `N - 1` rounds. Broadcast and reduce are pipelined over slices: a slice moves on while the
//! next one arrives, so that the whole takes `(N - 2 + slices) * S / slices` bytes' time on each link
//! instead of `(N-1) * S`. Scatter and gather are pipelined by their blocks.

use super::step::{Blocks, Op, Slot, Step};
use crate::kind::Kind;
use crate::rank::LineRank;

/// Blocks of the vector.
#[inline]
pub fn parts(kind: Kind, ranks: u32, slices: u32) -> u32 {
    match kind {
        Kind::Broadcast | Kind::Reduce => slices,
        _ => ranks,
    }
}

/// Steps of a rank.
#[inline]
pub fn steps(kind: Kind, ranks: u32, root: u32, slices: u32, up: bool, rank: u32) -> u32 {
    match (kind, distance(kind, ranks, root, up, rank)) {
        _ if ranks < 2 => 0,
        (Kind::Broadcast | Kind::Reduce, _) => slices,
        (_, 0) => ranks - 1,
        (_, d) => ranks - d,
    }
}

/// Hops between a rank and the root, the way that the data goes.
#[inline]
fn distance(kind: Kind, ranks: u32, root: u32, up: bool, rank: u32) -> u32 {
    let outwards = matches!(kind, Kind::Broadcast | Kind::Scatter);
    let (from, to) = if outwards == up { (root, rank) } else { (rank, root) };
    if to >= from { to - from } else { to + ranks - from }
}

/// Step `pc` of `rank`.
#[inline]
pub fn step(kind: Kind, ranks: u32, root: u32, up: bool, rank: u32, pc: u32) -> Step {
    let below = |n: u32| if n >= ranks { n - ranks } else { n };
    let d = distance(kind, ranks, root, up, rank);
    let (above, under) = (below(rank + 1), below(rank + ranks - 1));
    let (from, to) = if up { (under, above) } else { (above, under) };
    let last = d == ranks - 1;
    // The rank at distance `x` and its block.
    let block_of = |x: u32| {
        let outwards = matches!(kind, Kind::Broadcast | Kind::Scatter);
        Blocks::one(below(if outwards == up { root + x } else { root + ranks - x }))
    };
    let (op, blocks, into) = match kind {
        Kind::Broadcast if d == 0 => (Op::Send, Blocks::one(pc), pc),
        Kind::Broadcast => (if last { Op::Recv } else { Op::RecvCopySend }, Blocks::one(pc), pc),
        Kind::Reduce if d == 0 => (Op::RecvReduce, Blocks::one(pc), pc),
        Kind::Reduce => (if last { Op::Send } else { Op::RecvReduceSend }, Blocks::one(pc), pc),
        Kind::Scatter if d == 0 => (Op::Send, block_of(ranks - 1 - pc), pc),
        Kind::Scatter => {
            let own = ranks - 1 - pc == d;
            (if own { Op::Recv } else { Op::RecvCopySend }, block_of(ranks - 1 - pc), pc)
        }
        // To the root: the root itself has no block of its own to send first.
        _ if d == 0 => (Op::Recv, block_of(pc + 1), pc),
        _ => (if pc == 0 { Op::Send } else { Op::RecvCopySend }, block_of(d + pc), if d == 1 { pc } else { pc + 1 }),
    };
    match op {
        Op::Send => Step::send(blocks, LineRank(to), Slot { thread: 0, pc: into }),
        Op::Recv | Op::RecvReduce => Step::receive(op, blocks, LineRank(from)),
        _ => Step { op, blocks, from: LineRank(from), to: LineRank(to), into: Slot { thread: 0, pc: into } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::program::walk::volume::sent_blocks;

    #[test]
    fn what_each_rank_sends() {
        for (ranks, slices, up) in (1..12).flat_map(|n| [(n, 1, true), (n, 3, false), (n, 4, true)]) {
            for (root, rank) in (0..ranks).flat_map(|root| (0..ranks).map(move |rank| (root, rank))) {
                for kind in [Kind::Broadcast, Kind::Reduce, Kind::Scatter, Kind::Gather] {
                    let chain = Program::Chain { kind, ranks, root: LineRank(root), slices, up };
                    let d = distance(kind, ranks, root, up, rank);
                    let expected = match kind {
                        Kind::Broadcast => slices * u32::from(d + 1 < ranks),
                        Kind::Reduce => slices * u32::from(d > 0),
                        Kind::Scatter => ranks - 1 - d,
                        _ => (ranks - d) * u32::from(d > 0),
                    };
                    assert_eq!(sent_blocks(&chain, rank), expected, "{kind} to or from {root}: {rank} of {ranks}");
                }
            }
        }
    }
}
