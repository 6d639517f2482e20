//! Ranks in one process and in several, on one host and on two, with all that can go wrong.

mod faults;
mod hostile;
mod joining;
mod messages;
mod namespaces;
mod processes;
mod support;
