//! The written form of a schedule, which is also the format of plan files (`syncline-plan`).
//!
//! The vocabulary is MSCCL's. A rank has an input, an output and a scratch buffer, counted in chunks, and
//! runs its thread blocks side by side. A thread block sends to at most one peer and receives from at
//! most one, and performs its steps in order. A step may wait for a step of another thread block of
//! its rank. Messages of one connection (source, destination, channel) are received in the order in
//! which they were sent.

use crate::kind::Kind;
use crate::program::{Buffer, Named, Op, Pace, Pacing, Way};
use serde::{Deserialize, Serialize};

/// The version of the format that this engine reads.
pub const VERSION: u32 = 1;

/// The name of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// The only one.
    #[default]
    #[serde(rename = "syncline-plan")]
    SynclinePlan,
}

/// What a schedule is to achieve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Everybody ends with the sum of all inputs.
    #[serde(rename = "allreduce")]
    AllReduce,
    /// Everybody ends with everybody's input.
    #[serde(rename = "allgather")]
    AllGather,
    /// Everybody ends with its part of the sum.
    ReduceScatter,
    /// Everybody ends with its part of everybody's input.
    #[serde(rename = "alltoall")]
    AllToAll,
    /// Everybody ends with the root's input.
    Broadcast,
    /// The root ends with the sum of all inputs.
    Reduce,
    /// The root ends with everybody's input.
    Gather,
    /// Everybody ends with its part of the root's input.
    Scatter,
    /// Something else, which only its author could check.
    Custom,
}

impl From<Kind> for Collective {
    fn from(kind: Kind) -> Collective {
        match kind {
            Kind::AllReduce => Collective::AllReduce,
            Kind::ReduceScatter => Collective::ReduceScatter,
            Kind::AllGather => Collective::AllGather,
            Kind::AllToAll => Collective::AllToAll,
            Kind::Broadcast => Collective::Broadcast,
            Kind::Reduce => Collective::Reduce,
            Kind::Gather => Collective::Gather,
            Kind::Scatter => Collective::Scatter,
        }
    }
}

impl Collective {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "allreduce",
            Collective::AllGather => "allgather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::AllToAll => "alltoall",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::Custom => "custom",
        }
    }

    /// The kind of collective of a program; none of what only its author could check.
    pub const fn kind(self) -> Option<Kind> {
        Some(match self {
            Collective::AllReduce => Kind::AllReduce,
            Collective::AllGather => Kind::AllGather,
            Collective::ReduceScatter => Kind::ReduceScatter,
            Collective::AllToAll => Kind::AllToAll,
            Collective::Broadcast => Kind::Broadcast,
            Collective::Reduce => Kind::Reduce,
            Collective::Gather => Kind::Gather,
            Collective::Scatter => Kind::Scatter,
            Collective::Custom => return None,
        })
    }

    /// Whether one rank is special.
    pub const fn has_root(self) -> bool {
        matches!(self, Collective::Broadcast | Collective::Reduce | Collective::Gather | Collective::Scatter)
    }
}

/// How the runtime that a schedule is written for moves data; without meaning for its correctness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// Large messages.
    #[default]
    Simple,
    /// Flags beside every word.
    LL,
    /// Flags in lines of 128 bytes.
    LL128,
}

/// The way of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WayForm {
    /// Another route that is as good as the fabric's, by its number: 1 is the other way round a ring.
    Choice(u16),
    /// By links of a class, such as `PCIe`.
    Over(String),
    /// By one of the parallel links to the receiver, by its number from 0.
    Link(u16),
    /// Through these nodes of the fabric, in order.
    Through(Vec<String>),
}

impl WayForm {
    /// A way, whose names are numbers in `named`; none for the fabric's route.
    pub fn of(way: Way, named: &Named) -> Option<WayForm> {
        match way {
            Way::Route => None,
            Way::Choice(choice) => Some(WayForm::Choice(choice)),
            Way::Over(class) => Some(WayForm::Over(named.classes[usize::from(class)].clone())),
            Way::Through(nodes) => Some(WayForm::Through(named.through[usize::from(nodes)].clone())),
            Way::Link(link) => Some(WayForm::Link(link)),
        }
    }

    /// The way of a step, whose names are numbers in `named`; those that are new are added there.
    pub fn way(&self, named: &mut Named) -> Way {
        match self {
            WayForm::Choice(choice) => Way::Choice(*choice),
            WayForm::Link(link) => Way::Link(*link),
            WayForm::Over(class) => Way::Over(u8::try_from(number(class, &mut named.classes)).unwrap_or(u8::MAX)),
            WayForm::Through(nodes) => {
                Way::Through(u16::try_from(number(nodes, &mut named.through)).unwrap_or(u16::MAX))
            }
        }
    }
}

/// The number of a name among those that are known, to which it is added if it is new.
fn number<T: Clone + PartialEq>(name: &T, known: &mut Vec<T>) -> usize {
    known.iter().position(|one| one == name).unwrap_or_else(|| {
        known.push(name.clone());
        known.len() - 1
    })
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// `syncline-plan`.
    pub format: Format,
    /// [`VERSION`].
    pub version: u32,
    /// What people call it.
    #[serde(default)]
    pub name: String,
    /// What it is to achieve.
    pub collective: Collective,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// The root, where there is one and the file says so.
    #[serde(default)]
    pub root: Option<u32>,
    /// For the runtime.
    #[serde(default)]
    pub protocol: Protocol,
    /// Smallest message that a runtime uses the schedule for.
    #[serde(default)]
    pub min_bytes: Option<u64>,
    /// Largest message that a runtime uses the schedule for.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// Threads of a thread block.
    #[serde(default)]
    pub threads: Option<u32>,
    /// Channels, if the file states their number.
    #[serde(default)]
    pub channels: Option<u32>,
    /// Chunks of the larger buffer, if the file states their number.
    #[serde(default)]
    pub chunks_per_loop: Option<u32>,
    /// How messages of a thread follow one another; as those of thread blocks if the file does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// The ranks, in any order.
    pub ranks: Vec<ScheduleRank>,
}

/// What one rank does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRank {
    /// The rank's number.
    pub id: u32,
    /// Chunks of the input buffer.
    pub input_chunks: u32,
    /// Chunks of the output buffer.
    pub output_chunks: u32,
    /// Chunks of the scratch buffer.
    pub scratch_chunks: u32,
    /// What runs side by side, in any order.
    pub thread_blocks: Vec<ThreadBlock>,
}

/// A sequence of steps with its connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadBlock {
    /// Its number within the rank.
    pub id: u32,
    /// The rank that it sends to.
    pub send: Option<u32>,
    /// The rank that it receives from.
    pub recv: Option<u32>,
    /// The thread of which it is a part. Thread blocks of a thread do their steps one after the other, in the order in which
    /// they wait for one another, and share the thread's connections. A thread of its own if the file does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The channel of both connections.
    pub channel: u32,
    /// The steps, in order.
    pub steps: Vec<ScheduleStep>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleStep {
    /// Its number within the thread block.
    pub id: u32,
    /// What it does.
    #[serde(rename = "type")]
    pub op: Op,
    /// The local chunks that it reads, for the operations of [`Op::reads_local`].
    #[serde(default)]
    pub src: Option<Location>,
    /// The local chunks that it writes, for the operations of [`Op::stores`].
    #[serde(default)]
    pub dst: Option<Location>,
    /// Chunks; none for `nop`, and for a message without data (`s` and `r` that name no chunks), which only orders steps.
    #[serde(default)]
    pub count: u32,
    /// The step that it waits for.
    #[serde(default)]
    pub depends_on: Option<Dependency>,
    /// The way of its message, if that is not the fabric's route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<WayForm>,
    /// When a message that follows this one in its thread is sent, if that is not as in all the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// The number of the whole of which the step is a part. Steps of a thread in a row with the same number are carried out as
    /// one, and their messages as one. A whole by itself if the file does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<u32>,
    /// Whether a runtime has to announce its end, because some step waits for it.
    #[serde(default)]
    pub has_dependents: bool,
}

/// The first of some chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Location {
    /// The buffer.
    pub buffer: Buffer,
    /// The chunk's number within it.
    pub offset: u32,
}

/// A step of the same rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dependency {
    /// Its thread block.
    pub thread_block: u32,
    /// Its number there.
    pub step: u32,
}
