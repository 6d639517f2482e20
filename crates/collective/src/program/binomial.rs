//! Binomial trees: the rooted collectives by recursive halving and doubling, for any root and size.
//!
//! `v` is a rank's number counted from the root, modulo `N`. The parent of `v` is `v` without its lowest
//! set bit, so that the subtree of `v` is the run from `v` to below `v + lowbit(v)`, cut at `N`: its
//! blocks travel as one run. Outwards, the largest subtree is served first; inwards, the smallest one.
//!
//! | | bytes sent by `v` |
//! |---|---|
//! | broadcast | `S` to each child; the root has `ceil(log2 N)` of them |
//! | reduce | `S`, the root nothing |
//! | scatter | `(size of its subtree - 1)/N * S` |
//! | gather | `(size of its subtree)/N * S`, the root nothing |
//!
//! The longest way has `floor(log2 N)` messages, the most bits that are set in any `v`; served one after
//! the other, the root's children take the time of `ceil(log2 N)`.

use super::step::{Blocks, Op, Slot, Step};
use crate::kind::Kind;
use crate::rank::LineRank;

/// Blocks of the vector.
#[inline]
pub fn parts(kind: Kind, ranks: u32) -> u32 {
    match kind {
        Kind::Broadcast | Kind::Reduce => 1,
        _ => ranks,
    }
}

/// Children of `v`: they are `v + 1, v + 2, v + 4, ...`.
#[inline]
fn children(ranks: u32, v: u32) -> u32 {
    (ranks - v).next_power_of_two().ilog2().min(v.trailing_zeros())
}

/// The blocks of the subtree of `v`.
#[inline]
fn subtree(ranks: u32, root: u32, v: u32) -> Blocks {
    let count = if v == 0 { ranks } else { (ranks - v).min(1 << v.trailing_zeros()) };
    Blocks { origin: 0, first: below(root + v, ranks), count }
}

#[inline]
fn below(n: u32, ranks: u32) -> u32 {
    if n >= ranks { n - ranks } else { n }
}

/// Steps of a rank.
#[inline]
pub fn steps(kind: Kind, ranks: u32, root: u32, rank: u32) -> u32 {
    let v = below(rank + ranks - root, ranks);
    let children = children(ranks, v);
    match kind {
        _ if v == 0 => children,
        // What comes from the parent goes on to the first child as it comes, and the reverse.
        Kind::Broadcast | Kind::Reduce => children.max(1),
        _ => children + 1,
    }
}

/// Step `pc` of `rank`.
#[inline]
pub fn step(kind: Kind, ranks: u32, root: u32, rank: u32, pc: u32) -> Step {
    let v = below(rank + ranks - root, ranks);
    let children = children(ranks, v);
    let name = |v: u32| LineRank(below(root + v, ranks));
    let bit = v.trailing_zeros();
    let parent = || name(v & (v - 1));
    // A step of the children, counted from the first one served.
    let child = |i: u32, outwards: bool| v + (1 << if outwards { children - 1 - i } else { i });
    let blocks =
        |v| if matches!(kind, Kind::Broadcast | Kind::Reduce) { Blocks::one(0) } else { subtree(ranks, root, v) };
    let zero = Slot { thread: 0, pc: 0 };
    // Inwards, the child that differs in bit `i` is its parent's `i`-th.
    let parents_turn = Slot { thread: 0, pc: bit };
    match kind {
        Kind::Broadcast | Kind::Scatter if v == 0 => {
            let child = child(pc, true);
            Step::send(blocks(child), name(child), zero)
        }
        Kind::Broadcast if children == 0 => Step::receive(Op::Recv, blocks(v), parent()),
        Kind::Broadcast if pc == 0 => {
            Step { op: Op::RecvCopySend, blocks: blocks(v), from: parent(), to: name(child(0, true)), into: zero }
        }
        Kind::Broadcast => Step::send(blocks(v), name(child(pc, true)), zero),
        Kind::Scatter if pc == 0 => Step::receive(Op::Recv, blocks(v), parent()),
        Kind::Scatter => {
            let child = child(pc - 1, true);
            Step::send(blocks(child), name(child), zero)
        }
        Kind::Reduce if v > 0 && children == 0 => Step::send(blocks(v), parent(), parents_turn),
        Kind::Reduce if v > 0 && pc + 1 == children => {
            let from = name(child(pc, false));
            Step { op: Op::RecvReduceSend, blocks: blocks(v), from, to: parent(), into: parents_turn }
        }
        Kind::Reduce => Step::receive(Op::RecvReduce, blocks(v), name(child(pc, false))),
        _ if pc < children => {
            let child = child(pc, false);
            Step::receive(Op::Recv, blocks(child), name(child))
        }
        _ => Step::send(blocks(v), parent(), parents_turn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::program::walk::volume::sent_blocks;

    #[test]
    fn what_each_rank_sends() {
        for (ranks, root) in (1..40).flat_map(|n| [(n, 0), (n, n / 2), (n, n - 1)]) {
            for v in 0..ranks {
                let rank = below(root + v, ranks);
                let size = (0..ranks).filter(|w| ancestors(*w).contains(&v)).count() as u32;
                let children = (1..ranks).filter(|w| w & (w - 1) == v).count() as u32;
                let sent = |kind| sent_blocks(&Program::Binomial { kind, ranks, root: LineRank(root) }, rank);
                assert_eq!(sent(Kind::Broadcast), children);
                assert_eq!(sent(Kind::Reduce), u32::from(v > 0));
                assert_eq!(sent(Kind::Scatter), size - 1);
                assert_eq!(sent(Kind::Gather), if v > 0 { size } else { 0 });
                if v == 0 {
                    assert_eq!(1u32.checked_shl(children).unwrap(), ranks.next_power_of_two());
                }
            }
        }
    }

    /// `v` and all above it.
    fn ancestors(v: u32) -> Vec<u32> {
        std::iter::successors(Some(v), |&v| (v > 0).then(|| v & (v - 1))).collect()
    }
}
