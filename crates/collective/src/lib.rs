//! Collective algorithms as step programs.
//!
//! ```text
//!   algorithm + dimensions ─▶ Plan: phases ─▶ Program per phase ─▶ Step(rank, pc)
//!                                       │
//!                                       └─▶ share: which bytes a rank works on
//!   themis: the order of dimensions for each chunk
//!   schedule: collectives written out in files ─▶ the same Program
//!   verify: runs plans and schedules on symbolic data; rejects loss, duplication, misplacement, races and deadlock
//! ```
//!
//! Programs are pure and shared by all chunks; a chunk carries only a cursor (phase, step).

pub mod kind;
pub mod plan;
pub mod plan_file;
pub mod program;
pub mod rank;
pub mod request;
pub mod schedule;
pub mod split;
pub mod themis;
pub mod verify;

pub use kind::Kind;
pub use plan::{
    Algorithm, Axis, Composition, Phase, PhaseId, Plan, PlanError, PlanId, PlanRequest, Split, WrittenPhase,
};
pub use program::{Blocks, Buffer, Detail, Op, Pace, Place, Posting, Program, Slot, Step, Way, Written};
pub use rank::{LineRank, Rank};
