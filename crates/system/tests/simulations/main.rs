//! Whole simulations, one file per behaviour.

mod accounting;
mod agreement;
mod algorithms;
mod bounds;
mod closed_forms;
mod contention;
mod failures;
mod folded;
mod hybrid;
mod monotone;
mod odd_sizes;
mod support;
mod training;
mod transit;
