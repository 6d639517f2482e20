//! Behaviour of the network backends, one file per behaviour.

mod support;

mod conservation;
mod credits;
mod deadlock;
mod degenerate;
mod ethernet;
mod ethernet_background;
mod ethernet_capture;
mod ethernet_inside;
mod ethernet_nics;
mod fairness;
mod ordering;
mod precedence;
mod room;
mod rounds;
mod sharing;
mod trains;
mod unloaded;
