//! Communicators as programs hold them.
//!
//! [`registry`] has them by their handles; [`jobs`] makes them, and has ranks agree on who serves them ([`agreement`]).

mod agreement;
pub(crate) mod jobs;
pub(crate) mod registry;
mod split;
