//! Lays a checked schedule out for the verifier: its thread blocks are the threads, its chunks the cells.

use super::contract::Contract;
use super::form::{Location, ThreadBlock};
use super::structure::{Channel, Checked};
use crate::plan::PhaseId;
use crate::program::Buffer;
use crate::rank::Rank;
use crate::verify::machine::{Cells, Connection, ConnectionId, Instruction, Machine, Names, StepId, Thread, ThreadId};
use std::collections::BTreeMap;
use syncline_core::Id;

/// The ends of a connection; one without messages may lack one.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    sender: Option<ThreadId>,
    receiver: Option<ThreadId>,
}

struct Lowering<'a> {
    contract: &'a Contract,
    machine: Machine,
    names: BTreeMap<Channel, ConnectionId>,
    ends: Vec<Ends>,
}

/// The threads of a checked schedule.
pub fn machine(Checked { ranks: blocks, contract }: &Checked<'_>) -> Machine {
    let mut lowering = Lowering { contract, machine: Machine::default(), names: BTreeMap::new(), ends: Vec::new() };
    for (rank, blocks) in (0..).map(Rank).zip(blocks) {
        let first = lowering.machine.threads.len() as u32;
        for block in blocks {
            lowering.add_thread(rank, block);
        }
        lowering.machine.ranks.push(first..lowering.machine.threads.len() as u32);
        lowering.machine.cells.push(contract.cells_of(rank));
    }
    for (rank, blocks) in (0..).map(Rank).zip(blocks) {
        lowering.link_dependencies(rank, blocks);
    }
    lowering.link_messages();
    lowering.machine
}

impl Lowering<'_> {
    fn add_thread(&mut self, rank: Rank, block: &ThreadBlock) {
        let thread = ThreadId::from_index(self.machine.threads.len());
        let out = block.send.map(|to| self.named((rank, Rank(to), block.channel)));
        let back = block.recv.map(|from| self.named((Rank(from), rank, block.channel)));
        if let Some(out) = out {
            self.ends[out.index()].sender = Some(thread);
        }
        if let Some(back) = back {
            self.ends[back.index()].receiver = Some(thread);
        }
        let start = self.machine.steps.len() as u32;
        for step in &block.steps {
            let cells = |place: Option<Location>| {
                place.map_or(Cells::NONE, |p| Cells::run(self.contract.cell(rank, p), step.count))
            };
            let (op, src, dst) = (step.op, cells(step.src), cells(step.dst));
            let out = out.filter(|_| op.sends());
            let instruction = Instruction { op, thread, src, dst, after: None, sender: None, taker: None, out };
            self.machine.steps.push(instruction);
        }
        let steps = start..self.machine.steps.len() as u32;
        self.machine.threads.push(Thread { rank, number: block.id, steps });
    }

    /// The connection of this name, a new one if there is none.
    fn named(&mut self, name: Channel) -> ConnectionId {
        let (from, to, channel) = name;
        *self.names.entry(name).or_insert_with(|| {
            self.machine.connections.push(Connection { from, to, channel: Some(channel) });
            self.ends.push(Ends::default());
            ConnectionId::from_index(self.ends.len() - 1)
        })
    }

    fn link_dependencies(&mut self, rank: Rank, blocks: &[&ThreadBlock]) {
        let first = self.machine.ranks[rank.index()].start;
        for (thread, block) in (first..).map(ThreadId).zip(blocks) {
            let start = self.machine.thread(thread).steps.start;
            for (at, step) in (start..).map(StepId).zip(&block.steps) {
                if let Some(on) = step.depends_on {
                    let there = self.machine.thread(ThreadId(first + on.thread_block)).steps.start;
                    self.machine.steps[at.index()].after = Some(StepId(there + on.step));
                }
            }
        }
    }

    /// The n-th receive of a connection takes what its n-th send sends.
    fn link_messages(&mut self) {
        for ends in &self.ends {
            let (Some(sender), Some(receiver)) = (ends.sender, ends.receiver) else { continue };
            let steps_of = |thread: ThreadId| self.machine.thread(thread).steps.clone().map(StepId);
            let (mut receives, sends) = (steps_of(receiver), steps_of(sender));
            for send in sends {
                if self.machine.step(send).op.sends() {
                    let taker = receives.find(|&receive| self.machine.step(receive).op.receives());
                    self.machine.steps[send.index()].taker = taker;
                }
            }
        }
        self.machine.link_senders();
    }
}

/// What people call the parts of a schedule.
pub struct FileNames<'a> {
    /// Where chunks lie.
    pub contract: &'a Contract,
}

impl Names for FileNames<'_> {
    fn rank(&self, rank: Rank) -> Rank {
        rank
    }

    fn phase(&self) -> Option<PhaseId> {
        None
    }

    fn thread(&self) -> &'static str {
        "thread block"
    }

    fn unit(&self) -> &'static str {
        "chunk"
    }

    fn cell(&self, rank: Rank, cell: u32) -> (String, &'static str) {
        let Location { buffer, offset } = self.contract.location(rank, cell);
        (
            format!("chunk {offset}"),
            match buffer {
                Buffer::Input => "input buffer",
                Buffer::Output => "output buffer",
                Buffer::Scratch => "scratch buffer",
            },
        )
    }
}
