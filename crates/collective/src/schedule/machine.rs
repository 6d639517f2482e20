//! A checked schedule as flat arrays: threads (the thread blocks of all ranks), their instructions, and
//! connections with both of their ends.

use super::contract::Contract;
use super::form::{Location, ThreadBlock};
use super::report::Site;
use super::structure::{Checked, Connection};
use crate::program::Op;
use crate::rank::Rank;
use std::collections::BTreeMap;
use std::ops::Range;
use syncline_core::id_type;

id_type!(
    /// A thread block among those of all ranks.
    ThreadId
);

id_type!(
    /// A step among those of all threads; the steps of a thread follow one another.
    StepId
);

id_type!(
    /// A connection.
    ConnectionId
);

/// A thread block.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its rank.
    pub rank: Rank,
    /// Its number within the rank.
    pub block: u32,
    /// The numbers of its instructions.
    pub steps: Range<u32>,
    /// The connection that it sends on.
    pub out: Option<ConnectionId>,
    /// The connection that it receives on.
    pub back: Option<ConnectionId>,
}

impl Thread {
    /// Its first instruction, or the first after it if it has none.
    pub fn first(&self) -> StepId {
        StepId(self.steps.start)
    }

    /// The first instruction after it.
    pub fn end(&self) -> StepId {
        StepId(self.steps.end)
    }

    /// The connection of a thread that sends, which has been found to have a peer.
    pub fn sends_on(&self) -> ConnectionId {
        self.out.expect("a thread that sends has a connection")
    }

    /// The connection of a thread that receives, which has been found to have a peer.
    pub fn receives_on(&self) -> ConnectionId {
        self.back.expect("a thread that receives has a connection")
    }
}

/// A step.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// What it does.
    pub op: Op,
    /// Its thread.
    pub thread: ThreadId,
    /// The first cell that it reads, if it does.
    pub src: Option<u32>,
    /// The first cell that it writes, if it does.
    pub dst: Option<u32>,
    /// Chunks.
    pub count: u32,
    /// The instruction that it waits for, if it does.
    pub after: Option<StepId>,
    /// The instruction that sends what it receives, if it receives.
    pub sender: Option<StepId>,
}

impl Instruction {
    /// The first cell that a step reads that has been found to have a source.
    pub fn source(&self) -> u32 {
        self.src.expect("a step that reads has a source")
    }
}

/// The threads at the ends of a connection; a connection without messages may lack one.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Source, destination and channel.
    pub name: Connection,
    /// The thread that sends.
    pub sender: Option<ThreadId>,
    /// The thread that receives.
    pub receiver: Option<ThreadId>,
}

/// A schedule, ready to be carried out.
#[derive(Debug)]
pub struct Machine {
    /// All threads, by rank and number.
    pub threads: Vec<Thread>,
    /// The numbers of the threads of each rank.
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
        let mut names: BTreeMap<Connection, ConnectionId> = BTreeMap::new();
        for (rank, blocks) in (0..).map(Rank).zip(&blocks) {
            let first = machine.threads.len() as u32;
            for block in blocks {
                machine.add_thread(rank, block, &mut names);
            }
            machine.ranks.push(first..machine.threads.len() as u32);
        }
        for (rank, blocks) in (0..).map(Rank).zip(&blocks) {
            machine.link_dependencies(rank, blocks);
        }
        machine.link_messages();
        machine
    }

    /// A thread.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }

    /// An instruction.
    pub fn step(&self, id: StepId) -> &Instruction {
        &self.steps[id.index()]
    }

    /// A connection.
    pub fn connection(&self, id: ConnectionId) -> &Ends {
        &self.connections[id.index()]
    }

    /// The thread of an instruction.
    pub fn thread_of(&self, step: StepId) -> &Thread {
        self.thread(self.step(step).thread)
    }

    /// The instruction before another one in its thread.
    pub fn previous(&self, step: StepId) -> Option<StepId> {
        (step != self.thread_of(step).first()).then(|| StepId(step.0 - 1))
    }

    /// What has to come before an instruction: the one before it in its thread, that which it waits for, and that which sends
    /// what it receives.
    pub fn before(&self, step: StepId) -> impl Iterator<Item = StepId> {
        let &Instruction { after, sender, .. } = self.step(step);
        [self.previous(step), after, sender].into_iter().flatten()
    }

    /// Where a person finds an instruction.
    pub fn site(&self, step: StepId) -> Site {
        let thread = self.thread_of(step);
        Site::step(thread.rank, thread.block, step.0 - thread.steps.start)
    }

    fn add_thread(&mut self, rank: Rank, block: &ThreadBlock, names: &mut BTreeMap<Connection, ConnectionId>) {
        let thread = ThreadId(self.threads.len() as u32);
        let out = block.send.map(|to| self.named((rank, Rank(to), block.channel), names));
        let back = block.recv.map(|from| self.named((Rank(from), rank, block.channel), names));
        if let Some(out) = out {
            self.connections[out.index()].sender = Some(thread);
        }
        if let Some(back) = back {
            self.connections[back.index()].receiver = Some(thread);
        }
        let start = self.steps.len() as u32;
        for step in &block.steps {
            let cell = |place: Option<Location>| place.map(|p| self.contract.cell(rank, p));
            let (src, dst) = (cell(step.src), cell(step.dst));
            let (op, count) = (step.op, step.count);
            self.steps.push(Instruction { op, thread, src, dst, count, after: None, sender: None });
        }
        let steps = start..self.steps.len() as u32;
        self.threads.push(Thread { rank, block: block.id, steps, out, back });
    }

    /// The connection of this name, a new one if there is none.
    fn named(&mut self, name: Connection, names: &mut BTreeMap<Connection, ConnectionId>) -> ConnectionId {
        *names.entry(name).or_insert_with(|| {
            self.connections.push(Ends { name, sender: None, receiver: None });
            ConnectionId(self.connections.len() as u32 - 1)
        })
    }

    fn link_dependencies(&mut self, rank: Rank, blocks: &[&ThreadBlock]) {
        let first = self.ranks[rank.index()].start;
        for (thread, block) in (first..).map(ThreadId).zip(blocks) {
            let start = self.thread(thread).steps.start;
            for (at, step) in (start..).map(StepId).zip(&block.steps) {
                if let Some(on) = step.depends_on {
                    let there = self.thread(ThreadId(first + on.thread_block)).steps.start;
                    self.steps[at.index()].after = Some(StepId(there + on.step));
                }
            }
        }
    }

    /// The n-th receive of a connection takes what its n-th send sends.
    fn link_messages(&mut self) {
        for ends in &self.connections {
            let (Some(sender), Some(receiver)) = (ends.sender, ends.receiver) else { continue };
            let steps_of = |thread: ThreadId| self.threads[thread.index()].steps.clone().map(StepId);
            let receives = steps_of(receiver);
            let sends = steps_of(sender).filter(|s| self.steps[s.index()].op.sends());
            let mut sends = sends.collect::<Vec<_>>().into_iter();
            for receive in receives {
                if self.steps[receive.index()].op.receives() {
                    self.steps[receive.index()].sender = sends.next();
                }
            }
        }
    }
}
