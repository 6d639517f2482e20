//! The symbolic verifier.
//!
//! Runs a plan on data that records who contributed to it, one set of ranks per element, and rejects a
//! schedule that loses, doubles or misplaces a contribution, uses what is not there, sends a message to a
//! step that does not expect it, lets two threads race, or can deadlock under the stated [`Buffering`].
//!
//! # What is executed
//! A rank goes through the phases in order, by itself; messages belong to a phase, so a rank may be a phase
//! ahead of another. In a phase its threads advance independently, each through its steps in order, a step
//! first receiving, then sending. Whether a step can be performed is decided by its own thread and by
//! messages that nobody else can take, and performing one never keeps another from being performed (a
//! Kahn network: for that reason slots are counted per *connection*, from one thread of a rank to
//! another rank, as in NCCL's channels). So if one order of execution deadlocks, every order does, and what
//! arrives where does not depend on the order either.
//!
//! What could depend on the order is the data that threads of a rank share. Two accesses to an element
//! by different threads of a rank in a phase, of which one at least is a write, must be ordered by
//! messages (*happened before*, tracked with vector clocks); else it is a [`Flaw::Race`], also where both
//! add to the element, since a read-modify-write is not atomic. With no race, one execution stands for all.
//!
//! # All-to-all
//! Data is not an element but a *token*, what one rank has for another. When a rank enters a phase, its
//! block `j` is everything it holds for ranks with coordinate `j` along the phase's dimension; when it
//! leaves, it holds what arrived for its own coordinate. Sizes play no part.
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
//!
//! Elements that a program works on are those of [`Plan::vector`] cut by [`Split`] into elements of one
//! byte, so all sizes can be tried: empty blocks travel as empty messages.

pub mod buffering;
pub mod data;
pub mod findings;
mod held;
mod layout;
mod line;
pub mod machine;
pub mod order;
pub mod race;
mod verifier;

pub use buffering::Buffering;
pub use findings::{Finding, Findings, Kind, Site};
pub use verifier::Verifier;
