//! Behaviour of the network backends, one file per behaviour.

mod support;

mod conservation;
mod credits;
mod deadlock;
mod degenerate;
mod fairness;
mod ordering;
mod room;
mod precedence;
mod rounds;
mod sharing;
mod trains;
mod unloaded;
