//! Direct algorithms: whoever has something for a rank sends it there at once, without relays.
//!
//! Rank `r` serves the others in the order `r + 1, r + 2, ...` (a *rotated* schedule), so that at any
//! time every rank is the destination of one other. An all-reduce is a reduce-scatter followed by an
//! all-gather. On a torus the distances are those of its [`Grid`].
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
    let below = |n: u32| if n >= ranks { n - ranks } else { n };
    let k = pc % (ranks - 1) + 1;
    let peers = (below(rank + k), below(rank + ranks - k));
    match kind.is_rooted() {
        false => exchange(kind, ranks, rank, pc, peers),
        // The root serves the others in turn, each of them only the root.
        true if rank == root => rooted(kind, root, rank, (peers.0, k - 1)),
        true => rooted(kind, root, rank, (root, below(rank + ranks - root) - 1)),
    }
}

/// Step `pc` of `rank` on a grid, where `r + k` means: as many coordinates further along every dimension
/// as `k` has itself. So the schedule looks the same from every place of a torus. Peers that follow one
/// another lie in different directions ([`Grid::displacement`]).
#[inline]
pub fn step_on_grid(kind: Kind, grid: Grid, rank: u32, pc: u32) -> Step {
    let ranks = grid.ranks();
    let by = grid.displacement(pc % (ranks - 1) + 1);
    exchange(kind, ranks, rank, pc, (grid.ahead(rank, by), grid.behind(rank, by)))
}

/// The sizes of a grid of ranks, the first dimension innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    sizes: [u32; Grid::MOST],
    /// From the displacement of a turn to that of the next; coprime to the number of ranks.
    stride: u32,
}

impl Grid {
    /// The most dimensions.
    pub const MOST: usize = 8;

    /// A grid; `None` if it has more than [`Grid::MOST`] dimensions of two or more ranks.
    pub fn new(sizes: &[u32]) -> Option<Grid> {
        let mut grid = Grid { sizes: [1; Self::MOST], stride: 1 };
        let longer = sizes.iter().filter(|&&size| size > 1);
        for (i, &size) in longer.enumerate() {
            *grid.sizes.get_mut(i)? = size;
        }
        // The golden section of a circle scatters best; a line needs no scattering.
        let ranks = u64::from(grid.ranks());
        if grid.sizes[1] > 1 {
            let golden = (ranks * 618 / 1000).max(1);
            let coprime = (golden..).find(|&s| greatest_common_divisor(s, ranks) == 1);
            grid.stride = coprime.map_or(1, |s| (s % ranks) as u32);
        }
        Some(grid)
    }

    /// Ranks in all.
    #[inline]
    pub fn ranks(self) -> u32 {
        self.sizes.iter().product()
    }

    /// The displacement of a turn, from 1 on: every one but zero has its turn.
    #[inline]
    pub fn displacement(self, turn: u32) -> u32 {
        if self.stride == 1 {
            return turn;
        }
        (u64::from(turn) * u64::from(self.stride) % u64::from(self.ranks())) as u32
    }

    /// The rank whose coordinates are those of `rank`, each moved by what `step` makes of it.
    #[inline]
    fn moved(self, rank: u32, by: u32, step: impl Fn(u32, u32, u32) -> u32) -> u32 {
        let (mut rank, mut by, mut stride, mut there) = (rank, by, 1, 0);
        for size in self.sizes.into_iter().take_while(|&size| size > 1) {
            there += step(rank % size, by % size, size) % size * stride;
            (rank, by, stride) = (rank / size, by / size, stride * size);
        }
        there
    }

    /// The rank at the displacement `by` from another one.
    #[inline]
    pub fn ahead(self, rank: u32, by: u32) -> u32 {
        self.moved(rank, by, |at, by, _| at + by)
    }

    /// The rank from which another one is at the displacement `by`.
    #[inline]
    pub fn behind(self, rank: u32, by: u32) -> u32 {
        self.moved(rank, by, |at, by, size| at + size - by)
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// A step of a collective without a root, between a rank and the peers ahead of it and behind it.
#[inline]
fn exchange(kind: Kind, ranks: u32, rank: u32, pc: u32, (ahead, behind): (u32, u32)) -> Step {
    let others = ranks - 1;
    // The half of a round that the step is in, and the turn of its peer.
    let (half, turn) = (pc / others, pc % others);
    let slot = |half: u32| Slot { thread: 0, pc: half * others + turn };
    let part = |origin, block| Blocks { origin, first: block, count: 1 };
    match (kind, half) {
        (Kind::AllReduce | Kind::ReduceScatter, 0) => Step::send(Blocks::one(ahead), ahead, slot(1)),
        (Kind::AllReduce | Kind::ReduceScatter, 1) => Step::receive(Op::RecvReduce, Blocks::one(rank), behind),
        (Kind::AllReduce, 2) => Step::send(Blocks::one(rank), ahead, slot(3)),
        (Kind::AllReduce, _) => Step::receive(Op::Recv, Blocks::one(behind), behind),
        (Kind::AllGather, 0) => Step::send(Blocks::one(rank), ahead, slot(1)),
        (Kind::AllGather, _) => Step::receive(Op::Recv, Blocks::one(behind), behind),
        (Kind::AllToAll, 0) => Step::send(part(rank, ahead), ahead, slot(1)),
        // The second half of an all-to-all.
        _ => Step::receive(Op::Recv, part(behind, rank), behind),
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
