//! Collective algorithms as step programs.
//!
//! ```text
//!   algorithm + dimensions ─▶ Plan: phases ─▶ Program per phase ─▶ Step(rank, pc)
//!                                       │
//!                                       └─▶ share: which bytes a node works on
//!   verify: runs any plan on symbolic data and rejects what loses, doubles, misplaces or deadlocks
//! ```
//!
//! Programs are pure and shared by all chunks; a chunk carries only a cursor (phase, step).

pub mod plan;
pub mod program;
pub mod schedule;
pub mod verify;

pub use plan::{Algorithm, Kind, Phase, Plan, PlanError, Split};
pub use program::{Op, Program, RingKind, Step};
