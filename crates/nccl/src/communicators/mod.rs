//! Communicators as programs hold them.
//!
//! [`registry`] has them by their handles, and [`jobs`] makes them: ranks agree on who serves them ([`agreement`]), or on
//! how one of them is divided ([`split`]). [`slot`] takes what NCCL makes.

mod agreement;
pub(crate) mod jobs;
pub(crate) mod registry;
pub(crate) mod slot;
mod split;
