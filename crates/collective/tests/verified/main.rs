//! Every plan goes through the symbolic verifier; broken programs of each kind are rejected.

mod broken;
mod buffers;
#[path = "../schedules/build.rs"]
mod build;
mod grids;
mod held;
mod imported;
mod lines;
mod parts;
mod places;
mod support;
mod written;
