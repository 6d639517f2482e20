//! Whole simulations, one file per behaviour.

mod accounting;
mod ace_phases;
mod agreement;
mod algorithms;
mod bounds;
mod buses;
mod closed_forms;
mod contention;
mod dimension_limits;
mod failures;
mod folded;
mod hybrid;
mod layers;
mod losses;
mod lossy_network;
mod mixed;
mod monotone;
mod odd_sizes;
mod offload;
mod slices;
mod stalls;
mod steady;
mod support;
mod themis;
mod training;
mod transit;
