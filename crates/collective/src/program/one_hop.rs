//! One-hop trees, for ranks that are one hop from each other, as behind NVSwitches. Every rank is the root of a
//! tree of depth one for its share of the data (Blink, section 3.5 on the DGX-2).
//!
//! An all-reduce cuts the vector into one share per rank; each share is reduced to its root and
//! broadcast from there. A broadcast cuts it into one share per rank other than the source, which sends
//! each of them its share; they pass it on to the others. A reduce mirrors that. Shares are pipelined
//! over slices, so that a slice is broadcast while the next one is reduced: in this the all-reduce differs from
//! the direct one.
//!
//! | | rounds | bytes sent by a rank |
//! |---|---|---|
//! | all-reduce | 2 | `2(N-1)/N * S` |
//! | broadcast | 2, on two ranks 1 | `S` by the source, `(N-2)/(N-1) * S` by the others |
//! | reduce | 2, on two ranks 1 | `S`, the destination nothing |
//!
//! Block `i * slices + s` is slice `s` of the `i`-th share. Threads of a rank: sending what it adds to the
//! shares of others; being the root of its own share; receiving what the others are root of. In a
//! broadcast the first of them, in a reduce the last is missing.

use super::step::{Blocks, Op, Slot, Step};
use crate::kind::Kind;
use crate::rank::LineRank;

/// Threads of a rank.
#[inline]
pub const fn threads(kind: Kind) -> u8 {
    if matches!(kind, Kind::AllReduce) { 3 } else { 2 }
}

/// Shares of the vector, at least 1.
#[inline]
pub fn shares(kind: Kind, ranks: u32) -> u32 {
    if kind == Kind::AllReduce { ranks } else { (ranks - 1).max(1) }
}

/// Messages on the longest way.
#[inline]
pub fn rounds(kind: Kind, ranks: u32) -> u32 {
    match (kind, ranks) {
        (_, 0 | 1) => 0,
        (Kind::Broadcast | Kind::Reduce, 2) => 1,
        _ => 2,
    }
}

#[inline]
fn below(n: u32, ranks: u32) -> u32 {
    if n >= ranks { n - ranks } else { n }
}

/// Steps of a thread for a slice.
#[inline]
fn steps_of_slice(kind: Kind, ranks: u32, root: u32, rank: u32, thread: u16) -> u32 {
    let others = ranks - 1;
    match (kind, thread) {
        _ if others == 0 => 0,
        (Kind::AllReduce, 1) => 2 * others - 1,
        (Kind::AllReduce, _) => others,
        // The root does all in its first thread when it sends, in its second when it receives.
        _ if rank == root => others * u32::from((kind == Kind::Broadcast) == (thread == 0)),
        // The root of a share, which two ranks have nobody to share with.
        (Kind::Broadcast, 0) | (Kind::Reduce, 1) => (others - 1).max(1),
        _ => others - 1,
    }
}

/// Steps of a thread of a rank; saturates.
#[inline]
pub fn steps(kind: Kind, ranks: u32, root: u32, slices: u32, rank: u32, thread: u16) -> u32 {
    slices.saturating_mul(steps_of_slice(kind, ranks, root, rank, thread))
}

/// A step of a rank.
#[inline]
pub fn step(kind: Kind, ranks: u32, root: u32, slices: u32, rank: u32, at: Slot) -> Step {
    let each = steps_of_slice(kind, ranks, root, rank, at.thread);
    let (slice, i) = (at.pc / each, at.pc % each);
    let share = |index: u32| Blocks::one(index * slices + slice);
    match kind {
        Kind::AllReduce => all_reduce(ranks, rank, at.thread, (slice, i), share),
        _ => rooted(kind, ranks, root, rank, (slice, i), at.thread, share),
    }
}

#[inline]
fn all_reduce(ranks: u32, rank: u32, thread: u16, (slice, i): (u32, u32), share: impl Fn(u32) -> Blocks) -> Step {
    let others = ranks - 1;
    // Peers are served in the order of their distance upwards and heard in that downwards.
    let ahead = |k: u32| below(rank + k, ranks);
    let behind = |k: u32| below(rank + ranks - k, ranks);
    let result = |k: u32| Slot { thread: 2, pc: slice * others + k - 1 };
    match thread {
        0 => {
            let into = Slot { thread: 1, pc: slice * (2 * others - 1) + i };
            Step::send(share(ahead(i + 1)), LineRank(ahead(i + 1)), into)
        }
        1 if i + 1 < others => Step::receive(Op::RecvReduce, share(rank), LineRank(behind(i + 1))),
        1 if i + 1 == others => Step {
            op: Op::RecvReduceCopySend,
            blocks: share(rank),
            from: LineRank(behind(others)),
            to: LineRank(ahead(1)),
            into: result(1),
        },
        1 => Step::send(share(rank), LineRank(ahead(i + 2 - others)), result(i + 2 - others)),
        _ => Step::receive(Op::Recv, share(behind(i + 1)), LineRank(behind(i + 1))),
    }
}

#[inline]
fn rooted(
    kind: Kind,
    ranks: u32,
    root: u32,
    rank: u32,
    (slice, i): (u32, u32),
    thread: u16,
    share: impl Fn(u32) -> Blocks,
) -> Step {
    let leaves = ranks - 1;
    // Ranks other than the root, counted from it, and their shares.
    let name = |leaf: u32| LineRank(below(root + 1 + leaf, ranks));
    let me = below(rank + ranks - root, ranks).wrapping_sub(1);
    let ahead = |k: u32| below(me + k, leaves);
    let behind = |k: u32| below(me + leaves - k, leaves);
    let others = leaves - 1;
    let at_owner = |thread: u16, turn: u32| Slot { thread, pc: slice * others.max(1) + turn };
    let exchange = |k: u32| Slot { thread: 1, pc: slice * others + k - 1 };
    match (kind, rank == root, thread) {
        (Kind::Broadcast, true, _) => Step::send(share(i), name(i), at_owner(0, 0)),
        (Kind::Broadcast, _, 0) if others == 0 => Step::receive(Op::Recv, share(me), LineRank(root)),
        (Kind::Broadcast, _, 0) => {
            let send = Step::send(share(me), name(ahead(i + 1)), exchange(i + 1));
            if i == 0 { Step { op: Op::RecvCopySend, from: LineRank(root), ..send } } else { send }
        }
        (Kind::Broadcast, ..) => Step::receive(Op::Recv, share(behind(i + 1)), name(behind(i + 1))),
        (_, true, _) => Step::receive(Op::RecvReduce, share(i), name(i)),
        (_, _, 0) => Step::send(share(ahead(i + 1)), name(ahead(i + 1)), at_owner(1, i)),
        _ => {
            let send = Step::send(share(me), LineRank(root), Slot { thread: 1, pc: slice * leaves + me });
            match others {
                0 => send,
                _ if i + 1 < others => Step::receive(Op::RecvReduce, share(me), name(behind(i + 1))),
                _ => Step { op: Op::RecvReduceSend, from: name(behind(i + 1)), ..send },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::program::walk::volume::sent_blocks;

    #[test]
    fn what_each_rank_sends() {
        for (ranks, slices) in (2..20).flat_map(|n| [(n, 1), (n, 3)]) {
            for (root, rank) in (0..ranks).flat_map(|root| (0..ranks).map(move |rank| (root, rank))) {
                let sent =
                    |kind| sent_blocks(&Program::OneHopTrees { kind, ranks, root: LineRank(root), slices }, rank);
                let all = |kind| shares(kind, ranks) * slices;
                assert_eq!(sent(Kind::AllReduce), 2 * (ranks - 1) * slices);
                let is_root = rank == root;
                assert_eq!(sent(Kind::Broadcast), if is_root { all(Kind::Broadcast) } else { (ranks - 2) * slices });
                assert_eq!(sent(Kind::Reduce), if is_root { 0 } else { all(Kind::Reduce) });
            }
        }
    }
}
