//! Schedules for tests: a small language to write them, and well-known algorithms in it.

use proptest::prelude::*;
use syncline_collective::schedule::{
    Collective, Dependency, Format, Location, Protocol, Schedule, ScheduleRank, ScheduleStep, ThreadBlock,
};
use syncline_collective::{Buffer, Op};

pub const I: Buffer = Buffer::Input;
pub const O: Buffer = Buffer::Output;
pub const S: Buffer = Buffer::Scratch;

/// A place in a buffer.
pub fn at(buffer: Buffer, offset: u32) -> Option<Location> {
    Some(Location { buffer, offset })
}

/// A schedule without steps; all ranks have equal buffers.
pub fn empty(collective: Collective, in_place: bool, ranks: u32, [input, output, scratch]: [u32; 3]) -> Schedule {
    let rank = |id| ScheduleRank {
        id,
        input_chunks: input,
        output_chunks: output,
        scratch_chunks: scratch,
        thread_blocks: vec![],
    };
    Schedule {
        format: Format::SynclinePlan,
        version: 1,
        name: "test".into(),
        collective,
        in_place,
        root: None,
        protocol: Protocol::Simple,
        min_bytes: None,
        max_bytes: None,
        threads: None,
        channels: None,
        chunks_per_loop: None,
        pacing: None,
        ranks: (0..ranks).map(rank).collect(),
    }
}

/// Adds a thread block and returns its number.
pub fn block(schedule: &mut Schedule, rank: u32, send: Option<u32>, recv: Option<u32>, channel: u32) -> u32 {
    let blocks = &mut schedule.ranks[rank as usize].thread_blocks;
    let id = blocks.len() as u32;
    blocks.push(ThreadBlock { id, send, recv, thread: None, channel, steps: vec![] });
    id
}

/// Adds a step.
pub fn step(
    schedule: &mut Schedule,
    (rank, block): (u32, u32),
    op: Op,
    src: Option<Location>,
    dst: Option<Location>,
    count: u32,
) {
    let steps = &mut schedule.ranks[rank as usize].thread_blocks[block as usize].steps;
    let id = steps.len() as u32;
    steps.push(ScheduleStep {
        id,
        op,
        src,
        dst,
        count,
        depends_on: None,
        way: None,
        pace: None,
        whole: None,
        has_dependents: false,
    });
}

/// Lets the last step of a thread block wait for a step of another of its rank.
pub fn wait_for(schedule: &mut Schedule, (rank, block): (u32, u32), on: Dependency) {
    let blocks = &mut schedule.ranks[rank as usize].thread_blocks;
    blocks[on.thread_block as usize].steps[on.step as usize].has_dependents = true;
    blocks[block as usize].steps.last_mut().expect("a step that waits").depends_on = Some(on);
}

/// Lets the last step of a thread block wait for the last step, so far, of another of its rank.
pub fn wait_for_last(schedule: &mut Schedule, at: (u32, u32), other: u32) {
    let steps = &schedule.ranks[at.0 as usize].thread_blocks[other as usize].steps;
    let step = steps.last().expect("a step to wait for").id;
    wait_for(schedule, at, Dependency { thread_block: other, step });
}

/// Adds a `nop` that waits, for the dependencies beyond the one that a step can have.
pub fn nop_after_last(schedule: &mut Schedule, (rank, block): (u32, u32), other: u32) {
    step(schedule, (rank, block), Op::Nop, None, None, 0);
    wait_for_last(schedule, (rank, block), other);
}

/// Ring all-reduce; `count` chunks per block, `channels` rings side by side.
pub fn ring_all_reduce(ranks: u32, channels: u32, count: u32, in_place: bool) -> Schedule {
    let size = ranks * channels * count;
    let mut s = empty(Collective::AllReduce, in_place, ranks, [size, size, 0]);
    let out = if in_place { I } else { O };
    for rank in 0..ranks {
        for channel in 0..channels {
            let (next, prev) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            let alone = ranks == 1;
            let b = (rank, block(&mut s, rank, (!alone).then_some(next), (!alone).then_some(prev), channel));
            let chunk = |back: u32| ((rank + 2 * ranks - back) % ranks * channels + channel) * count;
            if alone {
                if !in_place {
                    step(&mut s, b, Op::Copy, at(I, chunk(0)), at(O, chunk(0)), count);
                }
                continue;
            }
            step(&mut s, b, Op::Send, at(I, chunk(0)), None, count);
            for j in 1..ranks - 1 {
                step(&mut s, b, Op::RecvReduceSend, at(I, chunk(j)), None, count);
            }
            let last = chunk(ranks - 1);
            step(&mut s, b, Op::RecvReduceCopySend, at(I, last), at(out, last), count);
            for j in 1..ranks {
                let op = if j + 1 < ranks { Op::RecvCopySend } else { Op::Recv };
                step(&mut s, b, op, None, at(out, chunk(j - 1)), count);
            }
        }
    }
    s
}

/// Ring all-gather.
pub fn ring_all_gather(ranks: u32, channels: u32, count: u32, in_place: bool) -> Schedule {
    let share = channels * count;
    let mut s = empty(Collective::AllGather, in_place, ranks, [share, share * ranks, 0]);
    for rank in 0..ranks {
        for channel in 0..channels {
            let (next, prev) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            let alone = ranks == 1;
            let b = (rank, block(&mut s, rank, (!alone).then_some(next), (!alone).then_some(prev), channel));
            let own = channel * count;
            if !in_place {
                step(&mut s, b, Op::Copy, at(I, own), at(O, rank * share + own), count);
            }
            if alone {
                continue;
            }
            step(&mut s, b, Op::Send, at(I, own), None, count);
            for j in 1..ranks {
                let op = if j + 1 < ranks { Op::RecvCopySend } else { Op::Recv };
                step(&mut s, b, op, None, at(O, (rank + ranks - j) % ranks * share + own), count);
            }
        }
    }
    s
}

/// Ring reduce-scatter.
pub fn ring_reduce_scatter(ranks: u32, channels: u32, count: u32, in_place: bool) -> Schedule {
    let share = channels * count;
    let mut s = empty(Collective::ReduceScatter, in_place, ranks, [share * ranks, share, 0]);
    for rank in 0..ranks {
        for channel in 0..channels {
            let (next, prev) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            let alone = ranks == 1;
            let b = (rank, block(&mut s, rank, (!alone).then_some(next), (!alone).then_some(prev), channel));
            let own = channel * count;
            if alone {
                if !in_place {
                    step(&mut s, b, Op::Copy, at(I, own), at(O, own), count);
                }
                continue;
            }
            let chunk = |j: u32| (rank + 2 * ranks - 1 - j) % ranks * share + own;
            step(&mut s, b, Op::Send, at(I, chunk(0)), None, count);
            for j in 1..ranks - 1 {
                step(&mut s, b, Op::RecvReduceSend, at(I, chunk(j)), None, count);
            }
            step(&mut s, b, Op::RecvReduce, at(I, rank * share + own), at(O, own), count);
        }
    }
    s
}

/// All-reduce on a binary tree (children of `r` are `2r+1` and `2r+2`), in place: one thread block per
/// child, which takes the child's sum on the way up and hands the result down, and one for the parent.
pub fn tree_all_reduce(ranks: u32, channels: u32, count: u32) -> Schedule {
    let size = channels * count;
    let mut s = empty(Collective::AllReduce, true, ranks, [size, 0, 0]);
    for rank in 0..ranks {
        for channel in 0..channels {
            let chunk = at(I, channel * count);
            let children: Vec<u32> = (2 * rank + 1..2 * rank + 3).filter(|&c| c < ranks).collect();
            let mut last = None;
            let mut down = vec![];
            for &child in &children {
                let b = (rank, block(&mut s, rank, Some(child), Some(child), channel));
                step(&mut s, b, Op::RecvReduce, chunk, chunk, count);
                if let Some(other) = last {
                    wait_for_last(&mut s, b, other);
                }
                last = Some(b.1);
                down.push(b);
            }
            if rank > 0 {
                let parent = (rank - 1) / 2;
                let b = (rank, block(&mut s, rank, Some(parent), Some(parent), channel));
                step(&mut s, b, Op::Send, chunk, None, count);
                if let Some(other) = last {
                    wait_for_last(&mut s, b, other);
                }
                step(&mut s, b, Op::Recv, None, chunk, count);
                last = Some(b.1);
            }
            for b in down {
                step(&mut s, b, Op::Send, chunk, None, count);
                if last != Some(b.1) {
                    wait_for_last(&mut s, b, last.expect("children"));
                }
            }
        }
    }
    s
}

/// All-reduce in place that goes around twice: rank 0 to the last and back adds up, the second time the sum
/// is written. That everybody has read before it writes, only the way of the messages says.
pub fn twice_around(ranks: u32, channels: u32, chunks: u32) -> Schedule {
    let size = channels * chunks;
    let mut s = empty(Collective::AllReduce, true, ranks, [size, 0, 0]);
    if ranks == 1 {
        return s;
    }
    for rank in 0..ranks {
        let (next, prev) = (Some((rank + 1) % ranks), Some((rank + ranks - 1) % ranks));
        for channel in 0..channels {
            let first = (rank, block(&mut s, rank, next, prev.filter(|_| rank > 0), channel));
            let back = (rank == 0).then(|| (rank, block(&mut s, rank, None, prev, channel)));
            let onward = next.filter(|&n| n > 0);
            let second = (rank, block(&mut s, rank, onward, prev.filter(|_| rank > 0), channel + channels));
            for chunk in channel * chunks..(channel + 1) * chunks {
                let op = if rank == 0 { Op::Send } else { Op::RecvReduceSend };
                step(&mut s, first, op, at(I, chunk), None, 1);
                if let Some(back) = back {
                    step(&mut s, back, Op::Recv, None, at(I, chunk), 1);
                    step(&mut s, second, Op::Send, at(I, chunk), None, 1);
                    wait_for_last(&mut s, second, back.1);
                } else {
                    let op = if onward.is_some() { Op::RecvCopySend } else { Op::Recv };
                    step(&mut s, second, op, None, at(I, chunk), 1);
                }
            }
        }
    }
    s
}

/// All-to-all with one thread block per peer and direction.
pub fn direct_all_to_all(ranks: u32, channels: u32, count: u32) -> Schedule {
    let share = channels * count;
    let mut s = empty(Collective::AllToAll, false, ranks, [ranks * share, ranks * share, 0]);
    for rank in 0..ranks {
        for channel in 0..channels {
            let chunk = |peer: u32| peer * share + channel * count;
            let own = (rank, block(&mut s, rank, None, None, 0));
            step(&mut s, own, Op::Copy, at(I, chunk(rank)), at(O, chunk(rank)), count);
            for peer in (0..ranks).filter(|&p| p != rank) {
                let b = (rank, block(&mut s, rank, Some(peer), None, channel));
                step(&mut s, b, Op::Send, at(I, chunk(peer)), None, count);
                let b = (rank, block(&mut s, rank, None, Some(peer), channel));
                step(&mut s, b, Op::Recv, None, at(O, chunk(peer)), count);
            }
        }
    }
    s
}

/// All-to-all on a grid of `x` by `y` ranks: what is for another column goes there first, waits in scratch, and goes on along
/// the column.
pub fn staged_all_to_all(x: u32, y: u32) -> Schedule {
    let ranks = x * y;
    let mut s = empty(Collective::AllToAll, false, ranks, [ranks, ranks, ranks]);
    for rank in 0..ranks {
        let (column, row) = (rank % x, rank / x);
        let at_place = |column: u32, row: u32| row * x + column;
        let own = (rank, block(&mut s, rank, None, None, 0));
        step(&mut s, own, Op::Copy, at(I, rank), at(O, rank), 1);
        let mut arrivals = vec![None; x as usize];
        for other in (0..x).filter(|&other| other != column) {
            let peer = at_place(other, row);
            let b = (rank, block(&mut s, rank, Some(peer), Some(peer), 0));
            for there in 0..y {
                step(&mut s, b, Op::Send, at(I, at_place(other, there)), None, 1);
                let into = if there == row { at(O, peer) } else { at(S, at_place(other, there)) };
                step(&mut s, b, Op::Recv, None, into, 1);
            }
            arrivals[other as usize] = Some(b.1);
        }
        for other in (0..y).filter(|&other| other != row) {
            let peer = at_place(column, other);
            let b = (rank, block(&mut s, rank, Some(peer), Some(peer), 0));
            for there in 0..x {
                let from = if there == column { at(I, peer) } else { at(S, at_place(there, other)) };
                step(&mut s, b, Op::Send, from, None, 1);
                if let Some(arrival) = arrivals[there as usize] {
                    wait_for(&mut s, b, Dependency { thread_block: arrival, step: 2 * other + 1 });
                }
                step(&mut s, b, Op::Recv, None, at(O, at_place(there, other)), 1);
            }
        }
    }
    s
}

/// All-reduce in place in one round: everybody sends everything to everybody; the received vectors
/// wait in scratch until the own one has been sent.
pub fn direct_all_reduce(ranks: u32, count: u32) -> Schedule {
    let mut s = empty(Collective::AllReduce, true, ranks, [count, 0, ranks * count]);
    for rank in 0..ranks {
        let peers: Vec<u32> = (0..ranks).filter(|&p| p != rank).collect();
        let sum = (rank, block(&mut s, rank, None, None, 0));
        let mut others = vec![];
        for &peer in &peers {
            let b = (rank, block(&mut s, rank, Some(peer), Some(peer), 0));
            step(&mut s, b, Op::Send, at(I, 0), None, count);
            step(&mut s, b, Op::Recv, None, at(S, peer * count), count);
            others.push(b.1);
        }
        for (i, &peer) in peers.iter().enumerate() {
            if i == 0 {
                for &other in &others[1..] {
                    nop_after_last(&mut s, sum, other);
                }
            }
            step(&mut s, sum, Op::Reduce, at(S, peer * count), at(I, 0), count);
            if i == 0 {
                wait_for_last(&mut s, sum, others[0]);
            }
        }
    }
    s
}

/// Broadcast down a chain that starts at the root.
pub fn chain_broadcast(ranks: u32, root: u32, chunks: u32) -> Schedule {
    let mut s = empty(Collective::Broadcast, false, ranks, [0, chunks, 0]);
    s.ranks[root as usize].input_chunks = chunks;
    for place in 0..ranks {
        let rank = (root + place) % ranks;
        let next = (place + 1 < ranks).then_some((rank + 1) % ranks);
        let prev = (place > 0).then_some((rank + ranks - 1) % ranks);
        let b = (rank, block(&mut s, rank, next, prev, 0));
        for chunk in 0..chunks {
            if place == 0 {
                step(&mut s, b, Op::Copy, at(I, chunk), at(O, chunk), 1);
            }
            match (place == 0, next.is_some()) {
                (true, true) => step(&mut s, b, Op::Send, at(O, chunk), None, 1),
                (true, false) => {}
                (false, true) => step(&mut s, b, Op::RecvCopySend, None, at(O, chunk), 1),
                (false, false) => step(&mut s, b, Op::Recv, None, at(O, chunk), 1),
            }
        }
    }
    s
}

/// Reduction down a chain that ends at the root.
pub fn chain_reduce(ranks: u32, root: u32, chunks: u32) -> Schedule {
    let mut s = empty(Collective::Reduce, false, ranks, [chunks, 0, 0]);
    s.ranks[root as usize].output_chunks = chunks;
    for place in 0..ranks {
        let rank = (root + 1 + place) % ranks;
        let next = (rank != root).then_some((rank + 1) % ranks);
        let prev = (place > 0).then_some((rank + ranks - 1) % ranks);
        let b = (rank, block(&mut s, rank, next, prev, 0));
        for chunk in 0..chunks {
            match (prev.is_some(), next.is_some()) {
                (false, false) => step(&mut s, b, Op::Copy, at(I, chunk), at(O, chunk), 1),
                (false, true) => step(&mut s, b, Op::Send, at(I, chunk), None, 1),
                (true, true) => step(&mut s, b, Op::RecvReduceSend, at(I, chunk), None, 1),
                (true, false) => step(&mut s, b, Op::RecvReduce, at(I, chunk), at(O, chunk), 1),
            }
        }
    }
    s
}

/// Gather straight to the root, or scatter straight from it.
pub fn star(collective: Collective, ranks: u32, root: u32, share: u32, in_place: bool) -> Schedule {
    let gathers = collective == Collective::Gather;
    let sizes = if gathers { [share, 0, 0] } else { [0, share, 0] };
    let mut s = empty(collective, in_place, ranks, sizes);
    let (whole, part) = if gathers { (O, I) } else { (I, O) };
    let r = &mut s.ranks[root as usize];
    *(if gathers { &mut r.output_chunks } else { &mut r.input_chunks }) = share * ranks;
    if !in_place {
        let b = (root, block(&mut s, root, None, None, 0));
        let (src, dst) = if gathers { (at(I, 0), at(O, root * share)) } else { (at(I, root * share), at(O, 0)) };
        step(&mut s, b, Op::Copy, src, dst, share);
    }
    for rank in (0..ranks).filter(|&r| r != root) {
        let (from, to) = if gathers { (rank, root) } else { (root, rank) };
        let (here, there) =
            if gathers { (at(part, 0), at(whole, rank * share)) } else { (at(whole, rank * share), at(part, 0)) };
        let b = (from, block(&mut s, from, Some(to), None, 0));
        step(&mut s, b, Op::Send, here, None, share);
        let b = (to, block(&mut s, to, None, Some(from), 0));
        step(&mut s, b, Op::Recv, None, there, share);
    }
    s
}

/// One of these.
pub fn any_schedule() -> impl Strategy<Value = Schedule> {
    (0u32..11, 1u32..=12, 1u32..4, 1u32..4, any::<bool>(), any::<u32>()).prop_map(
        |(kind, ranks, channels, count, in_place, root)| match kind {
            0 => ring_all_reduce(ranks, channels, count, in_place),
            1 => ring_all_gather(ranks, channels, count, in_place),
            2 => ring_reduce_scatter(ranks, channels, count, in_place),
            3 => tree_all_reduce(ranks, channels, count),
            4 => direct_all_to_all(ranks, channels, count),
            5 => direct_all_reduce(ranks, count),
            6 => chain_broadcast(ranks, root % ranks, count),
            7 => chain_reduce(ranks, root % ranks, count),
            8 => twice_around(ranks, channels, count),
            9 => staged_all_to_all(ranks.div_ceil(channels), channels),
            _ => {
                let collective = if channels > 1 { Collective::Gather } else { Collective::Scatter };
                star(collective, ranks, root % ranks, count, in_place)
            }
        },
    )
}
