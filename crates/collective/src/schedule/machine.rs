//! A checked schedule as flat arrays: threads (the thread blocks of all ranks), their instructions, and
//! connections with both of their ends.

use super::contract::Contract;
use super::form::{Action, Place, ThreadBlock};
use super::report::Site;
use super::structure::{Checked, Connection};
use std::collections::BTreeMap;
use std::ops::Range;

/// In place of an index that is not there.
pub const NONE: u32 = u32::MAX;

/// A thread block.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its rank.
    pub rank: u32,
    /// Its number within the rank.
    pub block: u32,
    /// Its instructions.
    pub steps: Range<u32>,
    /// The connection that it sends on.
    pub out: u32,
    /// The connection that it receives on.
    pub back: u32,
}

/// A step.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// What it does.
    pub action: Action,
    /// Its thread.
    pub thread: u32,
    /// The first cell that it reads, or [`NONE`].
    pub src: u32,
    /// The first cell that it writes, or [`NONE`].
    pub dst: u32,
    /// Chunks.
    pub count: u32,
    /// The instruction that it waits for, or [`NONE`].
    pub after: u32,
    /// The instruction that sends what it receives, or [`NONE`].
    pub sender: u32,
}

/// The threads at the ends of a connection; a connection without messages may lack one.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Source, destination and channel.
    pub name: Connection,
    /// The thread that sends, or [`NONE`].
    pub sender: u32,
    /// The thread that receives, or [`NONE`].
    pub receiver: u32,
}

/// A schedule, ready to be carried out.
#[derive(Debug)]
pub struct Machine {
    /// All threads, by rank and number.
    pub threads: Vec<Thread>,
    /// The threads of each rank.
    pub ranks: Vec<Range<u32>>,
    /// All instructions, by thread.
    pub steps: Vec<Instruction>,
    /// All connections.
    pub connections: Vec<Ends>,
    /// Memory and promises.
    pub contract: Contract,
}

impl Machine {
    /// Lays a checked schedule out.
    pub fn new(checked: Checked<'_>) -> Machine {
        let Checked { ranks: blocks, contract } = checked;
        let mut machine =
            Machine { threads: Vec::new(), ranks: Vec::new(), steps: Vec::new(), connections: Vec::new(), contract };
        let mut names: BTreeMap<Connection, u32> = BTreeMap::new();
        for (rank, blocks) in (0u32..).zip(&blocks) {
            let first = machine.threads.len() as u32;
            for block in blocks {
                machine.add_thread(rank, block, &mut names);
            }
            machine.ranks.push(first..machine.threads.len() as u32);
        }
        for (rank, blocks) in blocks.iter().enumerate() {
            machine.link_dependencies(rank, blocks);
        }
        machine.link_messages();
        machine
    }

    /// Where a person finds an instruction.
    pub fn site(&self, step: u32) -> Site {
        let thread = &self.threads[self.steps[step as usize].thread as usize];
        Site::step(thread.rank, thread.block, step - thread.steps.start)
    }

    fn add_thread(&mut self, rank: u32, block: &ThreadBlock, names: &mut BTreeMap<Connection, u32>) {
        let thread = self.threads.len() as u32;
        let out = block.send.map_or(NONE, |to| self.connection((rank, to, block.channel), names));
        let back = block.recv.map_or(NONE, |from| self.connection((from, rank, block.channel), names));
        if out != NONE {
            self.connections[out as usize].sender = thread;
        }
        if back != NONE {
            self.connections[back as usize].receiver = thread;
        }
        let start = self.steps.len() as u32;
        for step in &block.steps {
            let cell = |place: Option<Place>| place.map_or(NONE, |p| self.contract.cell(rank, p));
            let (src, dst) = (cell(step.src), cell(step.dst));
            let (action, count) = (step.action, step.count);
            self.steps.push(Instruction { action, thread, src, dst, count, after: NONE, sender: NONE });
        }
        let steps = start..self.steps.len() as u32;
        self.threads.push(Thread { rank, block: block.id, steps, out, back });
    }

    fn connection(&mut self, name: Connection, names: &mut BTreeMap<Connection, u32>) -> u32 {
        *names.entry(name).or_insert_with(|| {
            self.connections.push(Ends { name, sender: NONE, receiver: NONE });
            self.connections.len() as u32 - 1
        })
    }

    fn link_dependencies(&mut self, rank: usize, blocks: &[&ThreadBlock]) {
        let first = self.ranks[rank].start;
        for (thread, block) in (first..).zip(blocks) {
            let start = self.threads[thread as usize].steps.start;
            for (at, step) in (start..).zip(&block.steps) {
                if let Some(on) = step.depends_on {
                    self.steps[at as usize].after =
                        self.threads[(first + on.thread_block) as usize].steps.start + on.step;
                }
            }
        }
    }

    /// The n-th receive of a connection takes what its n-th send sends.
    fn link_messages(&mut self) {
        for ends in &self.connections {
            if ends.sender == NONE || ends.receiver == NONE {
                continue;
            }
            let sends = self.threads[ends.sender as usize].steps.clone();
            let receives = self.threads[ends.receiver as usize].steps.clone();
            let mut sends = sends.filter(|&s| self.steps[s as usize].action.sends()).collect::<Vec<_>>().into_iter();
            for receive in receives {
                if self.steps[receive as usize].action.receives() {
                    self.steps[receive as usize].sender = sends.next().unwrap_or(NONE);
                }
            }
        }
    }
}
