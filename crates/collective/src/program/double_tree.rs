//! Double binary trees, as in NCCL (after Sanders, Speck and Träff 2009).
//!
//! Each of two trees carries half of the vector, cut into slices: up the tree they are reduced, down the
//! tree they are broadcast. A rank that has children in one tree is a leaf in the other, so that all
//! links are busy both ways.
//!
//! A tree stands on positions `0..N`. Position 0 is the root and has one child, the largest power of two
//! below `N`; the others form an in-order binary tree. Position `p`, whose lowest set bit is `b`, has the
//! children `p - b/2` and `p + b/2`, and its parent is `p` with bit `b` cleared and bit `2b` set. Where
//! `p + b/2` does not exist its place is taken by the first existing one of `p + b/4, p + b/8, ...`. So
//! odd positions are leaves, and the tree is `ceil(log2 N)` deep.
//!
//! | | position of rank `r` in the first tree | in the second tree |
//! |---|---|---|
//! | all-reduce, `N` even | `r` | `N - 1 - r`, its mirror |
//! | all-reduce, `N` odd | `r` | `r - 1 mod N`, shifted |
//! | rooted, `N` odd | `v = r - root mod N` | 0 for `v = 0`, else `N - v` |
//! | rooted, `N` even | `v = r - root mod N` | 0 for `v = 0`, else `v + 1`, and 1 for `v = N - 1` |
//!
//! Mirror and shift change odd into even, so inner positions of one tree are leaves of the other. In an
//! all-reduce of an odd number this fails for rank 0 alone, which has one child in either. The two-tree
//! of a rooted collective is that of Sanders et al.: the root stands above two complementary trees of the
//! other `N - 1` and feeds, or drains, both.
//!
//! | | rounds | bytes sent by a rank with `c` children in both trees together, root of `t` of them |
//! |---|---|---|
//! | all-reduce | `2 ceil(log2 N)` | `(2 - t + c) * S/2`, at most `2S`; all ranks together `2(N-1) S` |
//! | broadcast | `ceil(log2 N)` | `c * S/2`, at most `S` |
//! | reduce | `ceil(log2 N)` | `S`, the root nothing |
//!
//! Threads of a rank, of the first tree and then of the second: up (with the root's turning round) and
//! down; a rooted collective has one of them per tree.

use super::step::{Blocks, Op, Slot, Step};
use crate::kind::Kind;
use crate::rank::LineRank;

/// Threads of a rank.
#[inline]
pub const fn threads(kind: Kind) -> u8 {
    if matches!(kind, Kind::AllReduce) { 4 } else { 2 }
}

/// Depth of a tree: hops from its root to its farthest leaf.
#[inline]
pub fn depth(ranks: u32) -> u32 {
    ranks.next_power_of_two().ilog2()
}

/// The ranks of a program and who is where in a tree.
#[derive(Clone, Copy, Debug)]
pub struct Trees {
    /// What they are for: an all-reduce, a broadcast or a reduce.
    pub kind: Kind,
    /// Ranks of the group.
    pub ranks: u32,
    /// The root of a rooted collective.
    pub root: u32,
}

impl Trees {
    /// The position of a rank.
    #[inline]
    pub fn position(self, tree: u8, rank: u32) -> u32 {
        let n = self.ranks;
        if self.kind == Kind::AllReduce {
            return match (tree, n % 2) {
                (0, _) => rank,
                (_, 0) => n - 1 - rank,
                _ => below(rank + n - 1, n),
            };
        }
        match (tree, below(rank + n - self.root, n)) {
            (0, v) | (_, v @ 0) => v,
            (_, v) if n % 2 == 1 => n - v,
            (_, v) => below(v, n - 1) + 1,
        }
    }

    /// The rank at a position.
    #[inline]
    pub fn rank(self, tree: u8, position: u32) -> u32 {
        let n = self.ranks;
        if self.kind == Kind::AllReduce {
            return match (tree, n % 2) {
                (0, _) => position,
                (_, 0) => n - 1 - position,
                _ => below(position + 1, n),
            };
        }
        let v = match (tree, position) {
            (0, p) | (_, p @ 0) => p,
            (_, p) if n % 2 == 1 => n - p,
            (_, 1) => n - 1,
            (_, p) => p - 1,
        };
        below(self.root + v, n)
    }

    /// The position above another one, which must not be 0.
    #[inline]
    pub fn parent(self, position: u32) -> u32 {
        let bit = position & position.wrapping_neg();
        let up = (position ^ bit) | bit << 1;
        if up < self.ranks { up } else { position ^ bit }
    }

    /// The positions below another one, in order, and how many they are.
    #[inline]
    pub fn children(self, position: u32) -> ([u32; 2], u32) {
        let beyond = self.ranks - 1 - position;
        let reach = if position == 0 { u32::MAX } else { (position & position.wrapping_neg()) / 2 };
        match (reach.min(beyond), position) {
            (_, p) if reach == 0 => ([p; 2], 0),
            (0, p) => ([if p == 0 { 0 } else { p - reach }; 2], u32::from(p > 0)),
            (right, 0) => ([1 << right.ilog2(); 2], 1),
            (right, p) => ([p - reach, p + (1 << right.ilog2())], 2),
        }
    }
}

#[inline]
fn below(n: u32, ranks: u32) -> u32 {
    if n >= ranks { n - ranks } else { n }
}

/// The tree of a thread, and whether the thread goes down it.
#[inline]
fn role(kind: Kind, thread: u16) -> (u8, bool) {
    let thread = thread as u8; // one of `threads`
    match kind {
        Kind::AllReduce => (thread / 2, thread % 2 == 1),
        _ => (thread, kind == Kind::Broadcast),
    }
}

#[inline]
fn thread(kind: Kind, tree: u8, down: bool) -> u16 {
    u16::from(if kind == Kind::AllReduce { 2 * tree + u8::from(down) } else { tree })
}

/// Steps of a rank for a slice.
#[inline]
fn steps_of_slice(trees: Trees, position: u32, down: bool) -> u32 {
    let turns = position == 0 && down && trees.kind == Kind::AllReduce;
    if turns || trees.ranks < 2 { 0 } else { trees.children(position).1.max(1) }
}

/// Steps of a thread of a rank; saturates.
#[inline]
pub fn steps(trees: Trees, slices: u32, rank: u32, thread: u16) -> u32 {
    let (tree, down) = role(trees.kind, thread);
    slices.saturating_mul(steps_of_slice(trees, trees.position(tree, rank), down))
}

/// A step of a rank.
#[inline]
pub fn step(trees: Trees, slices: u32, rank: u32, at: Slot) -> Step {
    let (tree, down) = role(trees.kind, at.thread);
    let position = trees.position(tree, rank);
    let (children, count) = trees.children(position);
    // One or two steps per slice.
    let (slice, i) = if count < 2 { (at.pc, 0) } else { (at.pc / 2, at.pc % 2) };
    let blocks = Blocks::one(u32::from(tree) * slices + slice);
    let name = |position| LineRank(trees.rank(tree, position));
    let child = children[i as usize];
    let into = |position: u32, down: bool, turn: u32| Slot {
        thread: thread(trees.kind, tree, down),
        pc: slice * steps_of_slice(trees, position, down) + turn,
    };
    let send_down = || Step::send(blocks, name(child), into(child, true, 0));
    if position == 0 {
        return match trees.kind {
            Kind::Broadcast => send_down(),
            Kind::Reduce => Step::receive(Op::RecvReduce, blocks, name(child)),
            _ => Step { op: Op::RecvReduceCopySend, from: name(child), ..send_down() },
        };
    }
    let parent = trees.parent(position);
    // The second of two children stands to the right of its parent.
    let turn = if trees.children(parent).1 == 2 { u32::from(position > parent) } else { 0 };
    let send_up = || Step::send(blocks, name(parent), into(parent, false, turn));
    match (down, count) {
        (false, 0) => send_up(),
        (false, _) if i + 1 < count => Step::receive(Op::RecvReduce, blocks, name(child)),
        (false, _) => Step { op: Op::RecvReduceSend, from: name(child), ..send_up() },
        (true, 0) => Step::receive(Op::Recv, blocks, name(parent)),
        (true, _) if i == 0 => Step { op: Op::RecvCopySend, from: name(parent), ..send_down() },
        (true, _) => send_down(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::program::walk::volume::sent_blocks;

    fn trees(kind: Kind, ranks: u32, root: u32) -> Trees {
        Trees { kind, ranks, root }
    }

    /// Children of a rank in each tree.
    fn children(trees: Trees, rank: u32) -> [u32; 2] {
        [0, 1].map(|tree| trees.children(trees.position(tree, rank)).1)
    }

    #[test]
    fn the_trees_of_ten() {
        let t = trees(Kind::AllReduce, 10, 0);
        let below = |p| t.children(p).0[..t.children(p).1 as usize].to_vec();
        assert_eq!((0..10).map(below).collect::<Vec<_>>()[..5], [vec![8], vec![], vec![1, 3], vec![], vec![2, 6]]);
        assert_eq!((below(6), below(8), below(9)), (vec![5, 7], vec![4, 9], vec![]));
    }

    #[test]
    fn parents_and_children_agree_and_all_hang_together() {
        for ranks in 1..200 {
            let t = trees(Kind::AllReduce, ranks, 0);
            let mut deepest = 0;
            for p in 1..ranks {
                let (children, count) = t.children(t.parent(p));
                assert!(children[..count as usize].contains(&p), "{p} of {ranks}");
                let way = std::iter::successors(Some(p), |&p| (p > 0).then(|| t.parent(p)));
                deepest = deepest.max(way.count() as u32 - 1);
            }
            assert_eq!((0..ranks).map(|p| t.children(p).1).sum::<u32>(), ranks - 1);
            assert_eq!(deepest, depth(ranks), "{ranks}");
        }
    }

    #[test]
    fn inner_ranks_of_one_tree_are_leaves_of_the_other() {
        for ranks in 2..130 {
            for rank in 0..ranks {
                let [a, b] = children(trees(Kind::AllReduce, ranks, 0), rank);
                let exception = ranks % 2 == 1 && rank == 0 && (a, b) == (1, 1);
                assert!(a == 0 || b == 0 || exception, "{rank} of {ranks}: {a} and {b} children");
                let root = ranks / 3;
                let [a, b] = children(trees(Kind::Broadcast, ranks, root), rank);
                assert!(
                    a == 0 || b == 0 || rank == root && (a, b) == (1, 1),
                    "{rank} of {ranks}: {a} and {b} children"
                );
            }
        }
    }

    #[test]
    fn ranks_and_positions_are_one_to_one() {
        for (ranks, kind) in (1..40).flat_map(|n| [(n, Kind::AllReduce), (n, Kind::Reduce)]) {
            for (root, tree, rank) in (0..ranks).flat_map(|s| (0..ranks).flat_map(move |r| [(s, 0, r), (s, 1, r)])) {
                let t = trees(kind, ranks, root);
                assert_eq!(t.rank(tree, t.position(tree, rank)), rank, "{tree} {root} {ranks}");
            }
        }
    }

    #[test]
    fn what_each_rank_sends() {
        for (ranks, slices) in (2..70).flat_map(|n| [(n, 1), (n, 3)]) {
            let root = ranks / 3;
            let mut total = 0;
            for rank in 0..ranks {
                let sent =
                    |kind| sent_blocks(&Program::DoubleBinaryTree { kind, ranks, root: LineRank(root), slices }, rank);
                let all_reduce = trees(Kind::AllReduce, ranks, root);
                let roots = [0, 1].map(|tree| u32::from(all_reduce.position(tree, rank) == 0)).iter().sum::<u32>();
                let c = children(all_reduce, rank).iter().sum::<u32>();
                assert_eq!(sent(Kind::AllReduce), (2 - roots + c) * slices);
                assert!(sent(Kind::AllReduce) <= 4 * slices);
                total += sent(Kind::AllReduce);
                let c = children(trees(Kind::Broadcast, ranks, root), rank).iter().sum::<u32>();
                assert_eq!(sent(Kind::Broadcast), c * slices);
                assert!(c <= 2);
                assert_eq!(sent(Kind::Reduce), if rank == root { 0 } else { 2 * slices });
            }
            assert_eq!(total, 4 * (ranks - 1) * slices);
        }
    }
}
