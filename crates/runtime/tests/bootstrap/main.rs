//! Sessions of ranks in one process and in several, with all that can go wrong.

mod faults;
mod hostile;
mod joining;
mod processes;
mod support;
