//! Carries out what a rank was asked for, on real buffers.
//!
//! A call is a state machine: [`collective`] for plans, [`exchange`] for messages from one rank to another. `poll` takes it as far as it can go
//! without waiting; who drives it decides how to wait, and may drive several at once.

pub(crate) mod collective;
pub(crate) mod exchange;
mod memory;
pub(crate) mod ports;
mod shape;
#[cfg(test)]
mod tests;
pub(crate) mod worker;

pub(crate) use memory::Buffers;

use crate::bootstrap::Request;
use crate::plan::Verified;

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is done.
    Finished,
    /// It has moved, and waits now.
    Moved,
    /// It waits, as before.
    Waits,
}

/// What a rank was asked for, as it is told to the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The number of the call.
    pub(crate) call: u32,
    /// What has to be the same on all ranks.
    pub(crate) request: Request,
}

/// Into what chunks a plan cuts a call of `count` elements of so many bytes: the bytes of a chunk (of a share, where
/// ranks have shares), and how many there are.
pub(crate) fn chunks(plan: &Verified, own: u32, count: u64, element: u32) -> (u64, u32) {
    let shape = shape::Shape::new(plan, own, count, element);
    (shape.chunk_bytes, shape.chunks())
}
