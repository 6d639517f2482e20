//! Another way to judge a schedule: carry it out on numbers, the thread blocks in a random order, many
//! times. What the verifier accepts must come out right every time. It shares no code with the verifier.

use std::collections::{BTreeMap, VecDeque};
use syncline_collective::schedule::{Collective, Location, Schedule};
use syncline_collective::{Buffer, Op};

/// A small generator (splitmix64), so that an execution depends on its seed alone.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// What is in hand between the parts of a step.
struct Cursor {
    step: usize,
    part: Part,
    hand: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Begin,
    Write,
    Send,
}

fn input(rank: u32, chunk: u32) -> u64 {
    Random(u64::from(rank) << 32 | u64::from(chunk)).next()
}

/// Cells of a rank under a name of a buffer; in place, names lead to the same cells.
struct Memory {
    cells: Vec<BTreeMap<(Buffer, u32), u64>>,
    in_place: bool,
    collective: Collective,
    share: u32,
}

impl Memory {
    fn key(&self, rank: usize, buffer: Buffer, offset: u32) -> (Buffer, u32) {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast, Gather, Reduce, ReduceScatter, Scatter};
        let shift = rank as u32 * self.share;
        match (self.in_place, self.collective, buffer) {
            (true, AllReduce | AllToAll | Broadcast | Reduce, Buffer::Output) => (Buffer::Input, offset),
            (true, AllGather | Gather, Buffer::Input) => (Buffer::Output, shift + offset),
            (true, ReduceScatter | Scatter, Buffer::Output) => (Buffer::Input, shift + offset),
            _ => (buffer, offset),
        }
    }

    fn read(&self, rank: usize, place: Location, i: u32) -> u64 {
        let key = self.key(rank, place.buffer, place.offset + i);
        self.cells[rank].get(&key).copied().unwrap_or(0xdead_beef)
    }

    fn write(&mut self, rank: usize, place: Location, i: u32, value: u64) {
        let key = self.key(rank, place.buffer, place.offset + i);
        self.cells[rank].insert(key, value);
    }
}

/// Carries a schedule without structural errors out in a random order; connections hold `slots` messages.
pub fn run(schedule: &Schedule, root: u32, slots: usize, seed: u64) -> Result<(), String> {
    let mut random = Random(seed);
    let ranks = schedule.ranks.len() as u32;
    let whole = schedule.ranks.iter().map(|r| r.input_chunks.max(r.output_chunks)).max().unwrap_or(0);
    let mut memory = Memory {
        cells: vec![BTreeMap::new(); ranks as usize],
        in_place: schedule.in_place,
        collective: schedule.collective,
        share: whole / ranks,
    };
    for rank in 0..ranks {
        let start = match schedule.collective {
            Collective::AllGather | Collective::Gather => whole / ranks,
            _ => whole,
        };
        for chunk in 0..start {
            memory.write(rank as usize, Location { buffer: Buffer::Input, offset: chunk }, 0, input(rank, chunk));
        }
    }
    let mut threads: Vec<(usize, usize, Cursor)> = vec![];
    for (r, rank) in schedule.ranks.iter().enumerate() {
        for b in 0..rank.thread_blocks.len() {
            threads.push((r, b, Cursor { step: 0, part: Part::Begin, hand: vec![] }));
        }
    }
    let mut done: Vec<Vec<usize>> = schedule.ranks.iter().map(|r| vec![0; r.thread_blocks.len()]).collect();
    let mut messages: BTreeMap<(usize, u32, u32), VecDeque<Vec<u64>>> = BTreeMap::new();
    let mut idle = 0;
    // A thread that cannot go on is simply asked again later; long silence means that nobody can.
    while idle < 40 * threads.len() + 40 {
        if threads.is_empty() {
            break;
        }
        let pick = random.below(threads.len());
        let (rank, number, cursor) = &mut threads[pick];
        let (rank, block) = (*rank, &schedule.ranks[*rank].thread_blocks[*number]);
        idle += 1;
        let Some(step) = block.steps.get(cursor.step) else {
            threads.swap_remove(pick);
            continue;
        };
        match cursor.part {
            Part::Begin => {
                if step.depends_on.is_some_and(|d| done[rank][d.thread_block as usize] <= d.step as usize) {
                    continue;
                }
                let mut hand = vec![];
                if step.op.receives() {
                    let queue = messages.entry((block.recv.unwrap() as usize, rank as u32, block.channel)).or_default();
                    let Some(message) = queue.pop_front() else { continue };
                    hand = message;
                }
                for i in 0..step.count {
                    let local = step.src.map(|src| memory.read(rank, src, i));
                    match step.op {
                        Op::Send | Op::Copy => hand.push(local.unwrap()),
                        Op::Reduce => {
                            hand.push(local.unwrap().wrapping_add(memory.read(rank, step.dst.unwrap(), i)));
                        }
                        Op::RecvReduceSend | Op::RecvReduce | Op::RecvReduceCopySend => {
                            hand[i as usize] = hand[i as usize].wrapping_add(local.unwrap());
                        }
                        _ => {}
                    }
                }
                cursor.hand = hand;
                cursor.part = Part::Write;
            }
            Part::Write => {
                if let Some(dst) = step.dst {
                    for (i, &value) in (0u32..).zip(&cursor.hand) {
                        memory.write(rank, dst, i, value);
                    }
                }
                cursor.part = Part::Send;
            }
            Part::Send => {
                if step.op.sends() {
                    let queue = messages.entry((rank, block.send.unwrap(), block.channel)).or_default();
                    if queue.len() >= slots {
                        continue;
                    }
                    queue.push_back(std::mem::take(&mut cursor.hand));
                }
                cursor.step += 1;
                cursor.part = Part::Begin;
                done[rank][*number] = cursor.step;
            }
        }
        idle = 0;
    }
    if !threads.is_empty() {
        return Err(format!("{} thread blocks are stuck", threads.len()));
    }
    if messages.values().any(|q| !q.is_empty()) {
        return Err("messages are left".into());
    }
    judge(schedule.collective, &memory, ranks, whole, root)
}

fn judge(collective: Collective, memory: &Memory, ranks: u32, whole: u32, root: u32) -> Result<(), String> {
    let share = whole / ranks;
    let sum = |chunk: u32| (0..ranks).fold(0u64, |s, r| s.wrapping_add(input(r, chunk)));
    for rank in 0..ranks {
        let result = |j: u32| memory.read(rank as usize, Location { buffer: Buffer::Output, offset: j }, 0);
        let wanted: Vec<u64> = match collective {
            Collective::AllReduce => (0..whole).map(sum).collect(),
            Collective::Reduce if rank == root => (0..whole).map(sum).collect(),
            Collective::Broadcast => (0..whole).map(|j| input(root, j)).collect(),
            Collective::AllGather => (0..whole).map(|j| input(j / share, j % share)).collect(),
            Collective::Gather if rank == root => (0..whole).map(|j| input(j / share, j % share)).collect(),
            Collective::ReduceScatter => (0..share).map(|j| sum(rank * share + j)).collect(),
            Collective::Scatter => (0..share).map(|j| input(root, rank * share + j)).collect(),
            Collective::AllToAll => (0..whole).map(|j| input(j / share, rank * share + j % share)).collect(),
            _ => vec![],
        };
        for (j, wanted) in (0u32..).zip(wanted) {
            if result(j) != wanted {
                return Err(format!("rank {rank} chunk {j} is wrong"));
            }
        }
    }
    Ok(())
}
