//! Direct algorithms: whoever has something for a rank sends it there at once, without relays.
//!
//! Rank `r` serves the others in the order `r + 1, r + 2, ...` (a *rotated* schedule), so that at any
//! time every rank is the destination of one other. An all-reduce is a reduce-scatter followed by an
//! all-gather.
//!
//! | | rounds | bytes sent by a rank |
//! |---|---|---|
//! | reduce-scatter, all-gather, all-to-all | 1 | `(N-1)/N * S` |
//! | all-reduce | 2 | `2(N-1)/N * S` |
//! | broadcast, scatter | 1 | `(N-1) * S`, `(N-1)/N * S` by the root, nothing by the others |
//! | reduce, gather | 1 | `S`, `S/N`; the root nothing |

use super::{Blocks, Op, Slot, Step};
use crate::kind::Kind;

/// Blocks of the vector.
#[inline]
pub fn parts(kind: Kind, ranks: u32) -> u32 {
    match kind {
        Kind::Broadcast | Kind::Reduce => 1,
        _ => ranks,
    }
}

/// Steps of a rank.
#[inline]
pub fn steps(kind: Kind, ranks: u32, root: u32, rank: u32) -> u32 {
    let others = ranks - 1;
    match kind {
        Kind::AllReduce => 4 * others,
        Kind::ReduceScatter | Kind::AllGather | Kind::AllToAll => 2 * others,
        _ if rank == root => others,
        _ => others.min(1),
    }
}

/// Step `pc` of `rank`.
#[inline]
pub fn step(kind: Kind, ranks: u32, root: u32, rank: u32, pc: u32) -> Step {
    let others = ranks - 1;
    // The half of a round that the step is in, and the distance to its peer.
    let (half, k) = (pc / others, pc % others + 1);
    let below = |n: u32| if n >= ranks { n - ranks } else { n };
    let (ahead, behind) = (below(rank + k), below(rank + ranks - k));
    let slot = |half: u32| Slot { thread: 0, pc: half * others + k - 1 };
    let part = |origin, block| Blocks { origin, first: block, count: 1 };
    match (kind, half) {
        (Kind::AllReduce | Kind::ReduceScatter, 0) => Step::send(Blocks::one(ahead), ahead, slot(1)),
        (Kind::AllReduce | Kind::ReduceScatter, 1) => Step::receive(Op::RecvReduce, Blocks::one(rank), behind),
        (Kind::AllReduce, 2) => Step::send(Blocks::one(rank), ahead, slot(3)),
        (Kind::AllReduce, _) => Step::receive(Op::Recv, Blocks::one(behind), behind),
        (Kind::AllGather, 0) => Step::send(Blocks::one(rank), ahead, slot(1)),
        (Kind::AllGather, _) => Step::receive(Op::Recv, Blocks::one(behind), behind),
        (Kind::AllToAll, 0) => Step::send(part(rank, ahead), ahead, slot(1)),
        (Kind::AllToAll, _) => Step::receive(Op::Recv, part(behind, rank), behind),
        _ => {
            rooted(kind, root, rank, if rank == root { (ahead, k - 1) } else { (root, below(rank + ranks - root) - 1) })
        }
    }
}

/// The step of a rooted collective between a rank and its peer; `turn` is when the root serves it.
fn rooted(kind: Kind, root: u32, rank: u32, (peer, turn): (u32, u32)) -> Step {
    let leaf = if rank == root { peer } else { rank };
    let blocks = Blocks::one(if matches!(kind, Kind::Broadcast | Kind::Reduce) { 0 } else { leaf });
    let outwards = matches!(kind, Kind::Broadcast | Kind::Scatter);
    match (rank == root, outwards) {
        (true, true) => Step::send(blocks, peer, Slot { thread: 0, pc: 0 }),
        (false, false) => Step::send(blocks, peer, Slot { thread: 0, pc: turn }),
        (true, false) if kind == Kind::Reduce => Step::receive(Op::RecvReduce, blocks, peer),
        (true, false) | (false, true) => Step::receive(Op::Recv, blocks, peer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::program::walk::volume::sent_blocks;

    #[test]
    fn what_each_rank_sends() {
        for (ranks, root) in (1..12).flat_map(|n| (0..n).map(move |root| (n, root))) {
            for (rank, kind) in (0..ranks).flat_map(|r| Kind::ALL.map(|k| (r, k))) {
                let expected = match (kind, rank == root) {
                    (Kind::AllReduce, _) => 2 * (ranks - 1),
                    (Kind::ReduceScatter | Kind::AllGather | Kind::AllToAll, _) => ranks - 1,
                    (Kind::Broadcast | Kind::Scatter, is_root) => (ranks - 1) * u32::from(is_root),
                    (Kind::Reduce | Kind::Gather, is_root) => u32::from(!is_root),
                };
                assert_eq!(sent_blocks(&Program::Direct { kind, ranks, root }, rank), expected, "{kind}");
            }
        }
    }
}
