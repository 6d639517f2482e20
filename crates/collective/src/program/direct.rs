//! Direct algorithms: a rank sends its data straight to the rank that needs it, without relays.
//!
//! Rank `r` sends to the others in the order `r + 1, r - 1, r + 2, ...` (a *rotated* schedule). So at any time every rank
//! is the destination of exactly one other, and both directions of a ring carry the same. An all-reduce is a
//! reduce-scatter followed by an all-gather. On a torus, the order is given by [`ServingOrder`]. Other orders of sending
//! are those of [`Posting`]; what arrives is always taken in the rotated order.
//!
//! | | rounds | bytes sent by a rank |
//! |---|---|---|
//! | reduce-scatter, all-gather, all-to-all | 1 | `(N-1)/N * S` |
//! | all-reduce | 2 | `2(N-1)/N * S` |
//! | broadcast, scatter | 1 | `(N-1) * S`, `(N-1)/N * S` by the root, nothing by the others |
//! | reduce, gather | 1 | `S`, `S/N`; the root nothing |

use super::posting::{Posting, displacement};
use super::step::{Blocks, Op, Slot, Step};
use crate::kind::Kind;
use crate::rank::LineRank;
use syncline_core::grid::{Digit, digits};

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
pub fn step(kind: Kind, ranks: u32, root: u32, rank: u32, (posting, pc): (Posting, u32)) -> Step {
    let below = |n: u32| if n >= ranks { n - ranks } else { n };
    let turns = ranks - 1;
    let (half, turn) = (pc / turns, pc % turns);
    let by = displacement(ranks, turn);
    let behind = below(rank + ranks - by);
    let (ahead, taken) = match posting {
        Posting::Rotated => (below(rank + by), turn),
        _ => {
            let ahead = posting.peer(ranks, rank, turn);
            (ahead, turn_of(ranks, below(ahead + ranks - rank)))
        }
    };
    match kind.is_rooted() {
        false => exchange(kind, (half, turns, taken), rank, (ahead, behind), |rank| (rank, 1)),
        // The root serves the others in turn, each of them only the root.
        true if rank == root && matches!(kind, Kind::Broadcast | Kind::Scatter) => {
            rooted(kind, root, rank, (ahead, turn))
        }
        true if rank == root => rooted(kind, root, rank, (below(rank + by), turn)),
        true => rooted(kind, root, rank, (root, turn_of(ranks, below(rank + ranks - root)))),
    }
}

/// The turn of a displacement.
#[inline]
fn turn_of(ranks: u32, by: u32) -> u32 {
    if 2 * by <= ranks { 2 * by - 2 } else { 2 * (ranks - by) - 1 }
}

/// Steps of a rank on a order.
#[inline]
pub fn steps_on_grid(kind: Kind, order: ServingOrder) -> u32 {
    if kind == Kind::AllReduce { 4 * order.turns() } else { 2 * order.turns() }
}

/// Step `pc` of `rank` on a grid, where `r + k` means: as many coordinates further along every dimension
/// as `k` has itself. So the schedule looks the same from every place of a torus, and keeps all directions of it busy
/// ([`ServingOrder`]).
#[inline]
pub fn step_on_grid(kind: Kind, order: ServingOrder, rank: u32, pc: u32) -> Step {
    let turns = order.turns();
    let (by, half) = order.displacement(pc % turns);
    let each = order.parts() / order.ranks();
    let blocks = |rank: u32| match half {
        None => (rank * each, each),
        Some(half) => (rank * each + half, 1),
    };
    exchange(kind, (pc / turns, turns, pc % turns), rank, (order.ahead(rank, by), order.behind(rank, by)), blocks)
}

/// The order in which a rank serves the others, on a grid of ranks whose first dimension is innermost.
///
/// *Displacements* are numbers of ranks: where a rank is that rank 0 sends to. One follows its mirror image, which lies as
/// far the other way along every dimension, so that on a torus the load of both directions of every ring is the same at
/// any time. Those that are their own mirror images, on the far side of dimensions of even size, come first.
///
/// Few messages of a rank are under way at a time, and a link is idle if none of them needs it. So the links of all
/// dimensions are to be loaded alike at any time, and not only in the end: near and far displacements take turns along
/// every dimension at once. With `x` steps along a ring of even size `n` go those with `x + n/2`, which are `n/2 - x` long:
/// both together are twice the mean, along all dimensions. Along a ring of odd size steps of `(n-1)/2` from one to the next
/// visit all places and do nearly the same. Neighbours come last, so that the last messages are soon there.
///
/// Where a ring is the only dimension of even size, its one rank on the far side gets half a block each way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServingOrder {
    sizes: [u32; ServingOrder::MOST],
    /// Whether blocks are halves, of which the rank on the far side gets one each way round.
    halved: bool,
}

impl ServingOrder {
    /// The most dimensions.
    pub const MOST: usize = 8;

    /// The order on a grid of these sizes, whose dimensions are `rings` or not; `None` if it has more than [`ServingOrder::MOST`] dimensions of two or more
    /// ranks.
    pub fn new(sizes: &[u32], rings: &[bool]) -> Option<ServingOrder> {
        let mut order = ServingOrder { sizes: [1; Self::MOST], halved: false };
        let longer = sizes.iter().filter(|&&size| size > 1);
        for (i, &size) in longer.enumerate() {
            *order.sizes.get_mut(i)? = size;
        }
        let mut even = sizes.iter().zip(rings).filter(|(size, _)| size.is_multiple_of(2));
        order.halved = even.next().is_some_and(|(_, ring)| *ring) && even.next().is_none();
        Some(order)
    }

    /// Ranks in all.
    #[inline]
    pub fn ranks(self) -> u32 {
        self.sizes.iter().product()
    }

    /// Blocks of the vector.
    #[inline]
    pub fn parts(self) -> u32 {
        self.ranks() * (1 + u32::from(self.halved))
    }

    /// Messages of a rank in a round.
    #[inline]
    pub fn turns(self) -> u32 {
        self.ranks() - 1 + u32::from(self.halved)
    }

    /// Whether a message of these blocks goes round the ring the other way.
    #[inline]
    pub fn goes_around(self, blocks: Blocks) -> bool {
        self.halved && blocks.count == 1 && blocks.first % 2 == 1
    }

    /// Ranks along the first dimensions.
    #[inline]
    fn ranks_below(self, dims: usize) -> u32 {
        self.sizes[..dims].iter().product()
    }

    /// Displacements along the first dimensions that are their own mirror images: those along any of the ones of even size.
    #[inline]
    fn far_sides(self, dims: usize) -> u32 {
        (1 << self.sizes[..dims].iter().filter(|size| size.is_multiple_of(2)).count()) - 1
    }

    /// Displacements along the first dimensions, of which each stands for its mirror image as well.
    #[inline]
    fn pairs(self, dims: usize) -> u32 {
        (self.ranks_below(dims) - 1 - self.far_sides(dims)) / 2
    }

    /// The displacement of a turn: every one but zero has its turn; that of halves has two, and then which of them.
    #[inline]
    pub fn displacement(self, turn: u32) -> (u32, Option<u32>) {
        if self.halved && turn < 2 {
            return (self.far_side(1), Some(turn));
        }
        let first = self.far_sides(Self::MOST) + u32::from(self.halved);
        if turn < first {
            return (self.far_side(turn + 1), None);
        }
        let by = self.of_pair(Self::MOST, self.pairs(Self::MOST) - 1 - (turn - first) / 2);
        (if (turn - first).is_multiple_of(2) { by } else { self.behind(0, by) }, None)
    }

    /// The displacement half-way along those dimensions of even size whose bits are set.
    fn far_side(self, mut bits: u32) -> u32 {
        let mut by = 0;
        for Digit { size, stride, .. } in digits(0, self.sizes).filter(|d| d.size.is_multiple_of(2)) {
            by += bits % 2 * (size / 2) * stride;
            bits /= 2;
        }
        by
    }

    /// Half of the size along all of the first dimensions, rounded down, or along those of even size only.
    fn half_way(self, dims: usize, odd_ones: bool) -> u32 {
        let along = |d: usize| match odd_ones || self.sizes[d].is_multiple_of(2) {
            true => self.sizes[d] / 2 * self.ranks_below(d),
            false => 0,
        };
        (0..dims).map(along).sum()
    }

    /// The displacement that stands for pair number `index` along the first dimensions. Of consecutive ones, one is far
    /// where the other is near.
    fn of_pair(self, dims: usize, mut index: u32) -> u32 {
        let last = dims - 1;
        let (size, below) = (self.sizes[last], self.ranks_below(last));
        let most = (size - 1) / 2;
        if !size.is_multiple_of(2) {
            // All places along the last dimension with every pair of the others, then those with the others' far sides.
            let (pairs, far_sides) = (self.pairs(last), self.far_sides(last) + 1);
            if index < pairs * size {
                return self.of_pair(last, index % pairs) + place(size, pairs, index) * below;
            }
            index -= pairs * size;
            return self.far_side(from_both_ends(far_sides, index % far_sides))
                + (1 + from_both_ends(most, index / far_sides)) * below;
        }
        // All that are less than half-way along the last dimension: as near as the one, so far is the other.
        let two_by_two = most / 2 * 2 * below;
        if index < two_by_two {
            let (others, by) = (index / 2 % below, 1 + index / 2 / below);
            return match index.is_multiple_of(2) {
                true => others + by * below,
                false => self.ahead(others, self.half_way(last, true)) + (most + 1 - by) * below,
            };
        }
        index -= two_by_two;
        if most % 2 == 1 {
            if index < below {
                return self.scattered(last, index) + most.div_ceil(2) * below;
            }
            index -= below;
        }
        // The pairs of the other dimensions, not at all and half-way along the last one.
        let others = self.of_pair(last, index / 2);
        match index.is_multiple_of(2) {
            true => others,
            false => self.ahead(others, self.half_way(last, false)) + size / 2 * below,
        }
    }

    /// Displacement number `index` along the first dimensions, of all that there are. Of consecutive ones, one is far where
    /// the other is near.
    fn scattered(self, dims: usize, index: u32) -> u32 {
        let Some(last) = dims.checked_sub(1) else { return 0 };
        let (size, below) = (self.sizes[last], self.ranks_below(last));
        if !size.is_multiple_of(2) {
            return self.scattered(last, index % below) + place(size, below, index) * below;
        }
        let (others, by) = (index / 2 % below, index / 2 / below);
        match index.is_multiple_of(2) {
            true => others + by * below,
            false => self.ahead(others, self.half_way(last, true)) + (by + size / 2) * below,
        }
    }

    /// The rank whose coordinates are those of `rank`, each moved by what `step` makes of it.
    #[inline]
    fn moved(self, rank: u32, by: u32, step: impl Fn(u32, u32, u32) -> u32) -> u32 {
        let longer = || self.sizes.into_iter().take_while(|&size| size > 1);
        let along = |(at, by): (Digit, Digit)| step(at.value, by.value, at.size) % at.size * at.stride;
        digits(rank, longer()).zip(digits(by, longer())).map(along).sum()
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

/// The place along a ring of odd size, where all of its places meet all of so many other things, one of each from `index` to
/// the next. Places follow one another in steps of just below half-way round, which visit all of them.
fn place(size: u32, others: u32, index: u32) -> u32 {
    let all_met = others / greatest_common_divisor(others, size) * size;
    let (step, steps) = (u64::from(size / 2), u64::from(index + index / all_met));
    (step * steps % u64::from(size)) as u32
}

/// The numbers below `count` in the order 0, `count - 1`, 1, `count - 2`, ...
fn from_both_ends(count: u32, index: u32) -> u32 {
    if index.is_multiple_of(2) { index / 2 } else { count - 1 - index / 2 }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// A step of a collective without a root, in a half of a round that has so many `turns`: to the peer ahead, which takes
/// the message in its turn `taken`, or from the peer behind. `of` names the blocks of a rank that have the turn: the first
/// of them, and how many.
#[inline]
fn exchange(
    kind: Kind,
    (half, turns, taken): (u32, u32, u32),
    rank: u32,
    (ahead, behind): (u32, u32),
    of: impl Fn(u32) -> (u32, u32),
) -> Step {
    let slot = |half: u32| Slot { thread: 0, pc: half * turns + taken };
    let blocks = |origin, (first, count)| Blocks { origin, first, count };
    match (kind, half) {
        (Kind::AllReduce | Kind::ReduceScatter, 0) => Step::send(blocks(0, of(ahead)), LineRank(ahead), slot(1)),
        (Kind::AllReduce | Kind::ReduceScatter, 1) => {
            Step::receive(Op::RecvReduce, blocks(0, of(rank)), LineRank(behind))
        }
        (Kind::AllReduce, 2) => Step::send(blocks(0, of(rank)), LineRank(ahead), slot(3)),
        (Kind::AllReduce, _) => Step::receive(Op::Recv, blocks(0, of(behind)), LineRank(behind)),
        (Kind::AllGather, 0) => Step::send(blocks(0, of(rank)), LineRank(ahead), slot(1)),
        (Kind::AllGather, _) => Step::receive(Op::Recv, blocks(0, of(behind)), LineRank(behind)),
        (Kind::AllToAll, 0) => Step::send(blocks(rank, of(ahead)), LineRank(ahead), slot(1)),
        // The second half of an all-to-all.
        _ => Step::receive(Op::Recv, blocks(behind, of(rank)), LineRank(behind)),
    }
}

/// The step of a rooted collective between a rank and its peer; `turn` is when the root serves it.
fn rooted(kind: Kind, root: u32, rank: u32, (peer, turn): (u32, u32)) -> Step {
    let leaf = if rank == root { peer } else { rank };
    let blocks = Blocks::one(if matches!(kind, Kind::Broadcast | Kind::Reduce) { 0 } else { leaf });
    let outwards = matches!(kind, Kind::Broadcast | Kind::Scatter);
    match (rank == root, outwards) {
        (true, true) => Step::send(blocks, LineRank(peer), Slot { thread: 0, pc: 0 }),
        (false, false) => Step::send(blocks, LineRank(peer), Slot { thread: 0, pc: turn }),
        (true, false) if kind == Kind::Reduce => Step::receive(Op::RecvReduce, blocks, LineRank(peer)),
        (true, false) | (false, true) => Step::receive(Op::Recv, blocks, LineRank(peer)),
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
                assert_eq!(
                    sent_blocks(
                        &Program::Direct { kind, ranks, root: LineRank(root), posting: Posting::Rotated },
                        rank
                    ),
                    expected,
                    "{kind}"
                );
            }
        }
    }

    /// Every displacement has its turn, next to its mirror image; halves have two.
    #[test]
    fn displacements_come_in_pairs() {
        let grids: [&[u32]; 12] = [
            &[1],
            &[2],
            &[3],
            &[8],
            &[31],
            &[2, 2],
            &[4, 3],
            &[3, 5],
            &[4, 8, 4],
            &[2, 3, 5],
            &[6, 1, 7],
            &[2, 2, 2, 3],
        ];
        for (sizes, ring) in grids.into_iter().flat_map(|sizes| [(sizes, false), (sizes, true)]) {
            let order = ServingOrder::new(sizes, &vec![ring; sizes.len()]).expect("few dimensions");
            let even = sizes.iter().filter(|size| size.is_multiple_of(2)).count();
            assert_eq!(order.turns(), order.ranks() - 1 + u32::from(ring && even == 1), "{sizes:?}");
            let turns: Vec<_> = (0..order.turns()).map(|turn| order.displacement(turn)).collect();
            let alone = turns.iter().take_while(|(by, _)| order.behind(0, *by) == *by).count();
            let mut seen: Vec<u32> = turns.iter().filter(|(_, half)| *half != Some(1)).map(|(by, _)| *by).collect();
            seen.sort_unstable();
            assert_eq!(seen, (1..order.ranks()).collect::<Vec<_>>(), "{sizes:?}");
            for pair in turns[alone..].chunks(2) {
                assert!(pair[1].0 == order.behind(0, pair[0].0) && pair[0].0 != pair[1].0, "{sizes:?}");
            }
        }
    }

    #[test]
    fn a_root_serves_both_ways_in_turn() {
        for ranks in 2..20 {
            let order: Vec<u32> = (0..ranks - 1).map(|turn| displacement(ranks, turn)).collect();
            assert!(order.iter().zip(0..).all(|(&by, turn)| turn_of(ranks, by) == turn), "{order:?}");
            assert!(order.chunks(2).all(|two| two.len() == 1 || two[0] + two[1] == ranks), "{order:?}");
        }
    }
}
