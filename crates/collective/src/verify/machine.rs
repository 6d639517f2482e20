//! What is verified, as flat arrays: the threads of all ranks, their instructions, and the connections between them. Schedules
//! of files and lines of ranks that run a program are laid out in this way.

use super::findings::Site;
use crate::plan::PhaseId;
use crate::program::Op;
use crate::rank::Rank;
use std::ops::Range;
use syncline_core::id_type;

id_type!(
    /// A thread among those of all ranks.
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

/// Cells of memory: two runs, of which the second one is needed where blocks wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    runs: [(u32, u32); 2],
}

impl Cells {
    /// No cells.
    pub const NONE: Cells = Cells { runs: [(0, 0); 2] };

    /// So many cells from the first one on.
    pub const fn run(first: u32, len: u32) -> Cells {
        Cells { runs: [(first, len), (0, 0)] }
    }

    /// Two runs, one after the other: the first cell and the number of each.
    pub const fn runs(one: (u32, u32), other: (u32, u32)) -> Cells {
        Cells { runs: [one, other] }
    }

    /// How many.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.runs[0].1 + self.runs[1].1
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One by one.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let [a, b] = self.runs;
        (a.0..a.0 + a.1).chain(b.0..b.0 + b.1)
    }

    /// Whether others begin where they end, or there are none of either.
    pub fn goes_on_in(&self, others: Cells) -> bool {
        let [first, last] = [self.iter().last(), others.iter().next()];
        first.map(|cell| cell + 1) == last
    }

    /// Whether a cell is one of them.
    pub fn contains(&self, cell: u32) -> bool {
        self.runs.iter().any(|&(first, len)| (first..first + len).contains(&cell))
    }
}

/// A thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its rank.
    pub rank: Rank,
    /// Its number within the rank.
    pub number: u32,
    /// The numbers of its instructions.
    pub steps: Range<u32>,
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
}

/// A step. It receives, reads and writes before it sends.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// What it does.
    pub op: Op,
    /// Its thread.
    pub thread: ThreadId,
    /// The cells that it reads, and adds to what it receives.
    pub src: Cells,
    /// The cells that it writes, and that a [`Op::Reduce`] reads before.
    pub dst: Cells,
    /// The instruction that it waits for, if it does.
    pub after: Option<StepId>,
    /// The instruction that sends what it receives, if it receives and one does.
    pub sender: Option<StepId>,
    /// The instruction that takes what it sends, if it sends.
    pub taker: Option<StepId>,
    /// The connection that it sends on, if it sends.
    pub out: Option<ConnectionId>,
}

impl Instruction {
    /// Cells that it moves.
    #[inline]
    pub fn count(&self) -> u32 {
        self.src.len().max(self.dst.len())
    }

    /// The connection of a step that sends.
    pub fn sends_on(&self) -> ConnectionId {
        self.out.expect("a step that sends has a connection")
    }
}

/// A connection from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The rank that sends.
    pub from: Rank,
    /// The rank that receives.
    pub to: Rank,
    /// Its channel, where connections have one.
    pub channel: Option<u32>,
}

/// Threads, ready to be carried out.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// All threads, by rank and number.
    pub threads: Vec<Thread>,
    /// The numbers of the threads of each rank.
    pub ranks: Vec<Range<u32>>,
    /// The cells of each rank.
    pub cells: Vec<Range<u32>>,
    /// All instructions, by thread.
    pub steps: Vec<Instruction>,
    /// All connections.
    pub connections: Vec<Connection>,
    /// The receives that nobody sends to, in order, and the rank that each awaits.
    pub unsent: Vec<(StepId, Rank)>,
}

impl Machine {
    /// A thread.
    #[inline]
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }

    /// An instruction.
    #[inline]
    pub fn step(&self, id: StepId) -> &Instruction {
        &self.steps[id.index()]
    }

    /// A connection.
    pub fn connection(&self, id: ConnectionId) -> &Connection {
        &self.connections[id.index()]
    }

    /// The thread of an instruction.
    pub fn thread_of(&self, step: StepId) -> &Thread {
        self.thread(self.step(step).thread)
    }

    /// The number of an instruction within its thread.
    pub fn number_of(&self, step: StepId) -> u32 {
        step.0 - self.thread_of(step).steps.start
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
    pub fn site(&self, step: StepId, names: &dyn Names) -> Site {
        let thread = self.thread_of(step);
        Site::step(names.rank(thread.rank), thread.number, self.number_of(step)).in_phase(names.phase())
    }

    /// Lets each receive know who sends to it, from what sends know; a receive without a sender stays so.
    pub fn link_senders(&mut self) {
        for step in (0..self.steps.len() as u32).map(StepId) {
            if let Some(taker) = self.step(step).taker {
                self.steps[taker.index()].sender = Some(step);
            }
        }
    }
}

/// What people call the parts of a machine, whose numbers are its own.
pub trait Names {
    /// A rank's number in the group.
    fn rank(&self, rank: Rank) -> Rank;

    /// The phase of a plan.
    fn phase(&self) -> Option<PhaseId>;

    /// What a thread is called.
    fn thread(&self) -> &'static str;

    /// What the unit of data is called.
    fn unit(&self) -> &'static str;

    /// A cell of a rank, and the memory that it is in: `chunk 3`, `input buffer`.
    fn cell(&self, rank: Rank, cell: u32) -> (String, &'static str);

    /// What ranks have put in: `chunk 3 of rank 2`.
    fn contribution(&self, chunk: u32, whose: &str) -> String {
        format!("{} {chunk} of {whose}", self.unit())
    }
}
