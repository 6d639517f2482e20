//! The symbolic verifier.
//!
//! Carries threads of steps out on data that records what it is and who contributed to it, and rejects what loses, doubles or
//! misplaces a contribution, uses what is not there, sends a message to a step that does not expect it, lets two threads race,
//! or can deadlock under the stated [`Buffering`]. What it finds it reports as [`Findings`], with their places.
//!
//! ```text
//!   schedules of files ─▶ crate::schedule ──┐
//!                                           ├─▶ machine ─▶ order ─▶ race ─▶ data
//!   plans of programs ──▶ verifier, line ───┘     flat       does it   are uses   symbols:
//!                         held, layout: memory    arrays     end?      ordered?   are results right?
//! ```
//!
//! # What is executed
//! A [`machine::Machine`] has threads, which advance independently, each through its steps in order. A step waits for the step
//! that it depends on, receives, reads and writes, and sends. Whether it can be performed is decided by its own thread, by what
//! it depends on, and by a message that nobody else can take, and performing one never keeps another from being performed (a
//! Kahn network: for that reason slots are counted per *connection*, from one thread of a rank to another rank, as in NCCL's
//! channels). So if one order of execution deadlocks, every order does, and what arrives where does not depend on the order
//! either.
//!
//! What could depend on the order is the data that threads of a rank share. Two accesses to a cell by different threads of a
//! rank, of which one at least is a write, must be ordered by messages and dependencies (*happened before*, tracked with vector
//! clocks); else it is a race, also where both add to the cell, since a read-modify-write is not atomic. With no race, one
//! execution stands for all.
//!
//! # Plans
//! In a plan a rank goes through the phases in order, by itself; messages belong to a phase, so a rank may be a phase ahead of
//! another. The verifier lets all ranks finish a phase before any begins the next, and one line of ranks go after the other:
//! since one order stands for all, that is no restriction. So each line of each phase is a machine of its own, and lines whose
//! vectors are equally long are the same machine. The threads of a phase begin when all those of the rank's phase before have
//! ended, which puts their uses of data in order.
//!
//! The data are the elements of [`Plan::vector`](crate::Plan::vector), cut by [`Split`](crate::Split) into elements of one
//! byte, so all sizes can be tried: empty blocks travel as empty messages. Where all phases work on the whole vector, elements
//! that no step tells apart are carried out as one (`cuts`). That decides whether a plan is right; what is wrong with another one
//! is said by going through it element by element.
//!
//! # All-to-all
//! What one rank has for another is cut into as many cells as the pieces that programs make of it; sizes play no part. In a
//! phase along a dimension of `n` ranks, a rank has a matrix of blocks by the rank of its line that they come from (rows) and
//! their place in that rank's vector (columns). It starts with its own row, block `j` of which is everything it holds for ranks
//! with coordinate `j`, and ends with what is in the columns for its own coordinate. Between phases, what it holds is renamed
//! cell by cell.
//!
//! # Places
//! Steps work on blocks where these lie in the vector, unless they name other places ([`Detail`](crate::Detail)). Scratch is
//! empty at first and as large as places say. The input is what a rank starts with in the phase, the output what it ends with,
//! and places in them count from their first block. The one of them that has room for the whole vector (the input, but in
//! gather and all-gather the output) is the vector itself, as long as no step names the other. If one does, they are apart: data
//! are in the input at first and expected in the output, and a step without places works in the output; in reduce-scatter and
//! scatter, whose output has no room for the vector, in the input. In an all-to-all with places there is no matrix: blocks of
//! the own vector lie in the input, those for the own rank in the output, and others have to be given a place in scratch.
//! Buffers are counted in blocks, which then have to be equally long.
//!
//! # Switches
//! A program may have a switch, a further rank of every line that begins with nothing and from which nothing is
//! asked in the end. It is there in its phase only. Between ranks and switches messages of no blocks are legal, which
//! say that something is done.
//!
//! # Freedom from deadlock
//! What each algorithm needs, on two ranks or more (a test holds this table):
//!
//! | program | slots per connection | why not less |
//! |---|---|---|
//! | ring, relayed all-to-all | 1 | all ranks send before they receive |
//! | direct: rooted | none | |
//! | direct: others | 1 | all ranks send before they receive |
//! | chain, binomial tree | none | no cycles of ranks |
//! | halving-doubling | 1 | partners send to each other before they receive |
//! | double binary trees | none | a thread only waits for threads nearer to the leaf it began with |
//! | one-hop trees, all-reduce | none | a thread only waits for threads of an earlier stage |
//! | one-hop trees, rooted | none | |
//! | in the switch: all-gather | 1 | all ranks send before they receive |
//! | in the switch: others | none | a slot of the switch takes a piece of all ranks before it sends |
//!
//! Threads need slots of their own: where those of a rank share a connection, the messages of one can keep
//! out those that the receiver waits for. The all-reduce of one-hop trees then deadlocks with fewer slots than
//! slices, that of double binary trees can on two ranks, where each is above and below the other.

pub mod buffering;
mod cuts;
pub mod data;
pub mod findings;
mod held;
mod layout;
mod line;
pub mod machine;
pub mod order;
mod pass;
pub mod race;
mod verifier;

pub use buffering::Buffering;
pub use findings::{Finding, Findings, Kind, Site};
pub use verifier::Verifier;
