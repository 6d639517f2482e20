//! The written form of a plan, field by field.

use crate::plan::Composition;
use crate::program::step::{Buffer, Op, Pace};
use crate::schedule::form::{Collective, WayForm};
use serde::{Deserialize, Serialize};

/// The version of the format.
pub const VERSION: u32 = 2;

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanForm {
    /// `syncline-plan`.
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// What people call it.
    #[serde(default)]
    pub name: String,
    /// What it achieves.
    pub collective: Collective,
    /// The root of a rooted collective.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub root: u32,
    /// The ranks as a grid, the first dimension innermost; a line if there is one dimension.
    pub grid: Vec<u32>,
    /// How an all-reduce is composed over the dimensions.
    #[serde(default, skip_serializing_if = "CompositionForm::is_default")]
    pub composition: CompositionForm,
    /// Whether every chunk goes through the dimensions in an order of its own, which balances them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub balanced: bool,
    /// What the lines along each dimension do.
    pub programs: Vec<ProgramForm>,
}

/// What lines along a dimension do in phases of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramForm {
    /// What it achieves.
    pub collective: Collective,
    /// The dimension of the grid.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dim: u8,
    /// Blocks that the vector is cut into.
    pub blocks: u32,
    /// Whether ranks are places of a ring, on which messages go from neighbour to neighbour over the fabric's lanes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub around: bool,
    /// Whether the last rank is the switch that joins the others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub switch: bool,
    /// Pacing: messages of a thread that follow one another enter its port one by one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub one_by_one: bool,
    /// Pacing: messages in a row to different peers wait for a few others only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub spreads: bool,
    /// Pacing: how many connections a rank has to a peer. Threads whose numbers differ by a multiple of it share one; with 0,
    /// each has its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queues: u16,
    /// Whether only rank 0 is written, since every rank does the same seen from its own place: with ranks and blocks at the
    /// same distance, modulo their numbers.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rotates: bool,
    /// Of each rank its threads, of each thread its loops.
    pub ranks: Vec<Vec<Vec<LoopForm>>>,
    /// The same around the ring the other way; as `ranks` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Vec<Vec<Vec<LoopForm>>>>,
}

/// Some steps, and how often they are repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopForm {
    /// How often.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub times: u32,
    /// The steps, with the numbers of the first time.
    pub steps: Vec<StepForm>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepForm {
    /// What it does.
    pub op: Op,
    /// The first of the blocks that it works on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub block: u32,
    /// How many blocks.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// In an all-to-all, the rank whose data they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub origin: u32,
    /// The rank that it receives from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// The rank that it sends to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// Thread and number of the step there that takes the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<(u16, u32)>,
    /// Thread and number of a step of the same rank that has to be done before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<(u16, u32)>,
    /// The way of the message, if that is not the fabric's route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<WayForm>,
    /// When a message that follows this one in its thread is sent, if that is not as in all the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Where the data lies that it reads, if that is not its place in the vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<PlaceForm>,
    /// Where it puts data, if that is not its place in the vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<PlaceForm>,
    /// What changes from one repetition to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextForm>,
}

/// The first of some blocks of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceForm {
    /// `i`, `o` or `s`: input, output or scratch.
    pub buffer: Buffer,
    /// The block's number within it.
    pub block: u32,
}

/// What changes in a step from one repetition to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NextForm {
    /// Blocks, and places in buffers, modulo the blocks of the vector.
    #[serde(skip_serializing_if = "is_zero")]
    pub block: i32,
    /// The rank whose data they are, modulo the ranks.
    #[serde(skip_serializing_if = "is_zero")]
    pub origin: i32,
    /// Sender and receiver, modulo the ranks.
    #[serde(skip_serializing_if = "is_zero")]
    pub peer: i32,
    /// The number of the step that takes the message.
    #[serde(skip_serializing_if = "is_zero")]
    pub into: u32,
    /// The number of the step that has to be done before.
    #[serde(skip_serializing_if = "is_zero")]
    pub after: u32,
}

/// How an all-reduce is composed over dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompositionForm {
    /// In each dimension in turn.
    #[default]
    PerDimension,
    /// Reduce-scatter in the first dimension, all-reduce in the others, all-gather in the first.
    LocalFirst,
    /// Reduce-scatter in every dimension, then all-gather in reverse order.
    AllScattered,
}

impl CompositionForm {
    fn is_default(&self) -> bool {
        *self == CompositionForm::default()
    }
}

impl From<Composition> for CompositionForm {
    fn from(composition: Composition) -> CompositionForm {
        match composition {
            Composition::PerDimension => CompositionForm::PerDimension,
            Composition::LocalFirst => CompositionForm::LocalFirst,
            Composition::AllScattered => CompositionForm::AllScattered,
        }
    }
}

impl From<CompositionForm> for Composition {
    fn from(form: CompositionForm) -> Composition {
        match form {
            CompositionForm::PerDimension => Composition::PerDimension,
            CompositionForm::LocalFirst => Composition::LocalFirst,
            CompositionForm::AllScattered => Composition::AllScattered,
        }
    }
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_one(n: &u32) -> bool {
    *n == 1
}

fn is_zero<N: Default + PartialEq>(n: &N) -> bool {
    *n == N::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_false(is: &bool) -> bool {
    !*is
}
