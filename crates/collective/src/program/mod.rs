//! Step programs: what each rank of a group does in one phase of a collective.
//!
//! A program works on a vector that is cut into [`Program::parts`] blocks. A rank runs one or more
//! *threads*; a thread is a list of steps, performed in order. A step receives at most one run of
//! consecutive blocks and sends at most one. If it does both, the runs are the same, so that an engine
//! that works on packets can forward each packet as it arrives. Threads of a rank do not wait for each
//! other, unless a step says that it does. A send does not wait for its receiver, and names the step of the
//! receiver that takes the message: that is how an arrival finds its step. The steps are MSCCL's instructions.
//!
//! Programs compute their steps, in O(1) memory, or have them [written down](Written): plans in files and schedules of other
//! tools. Both speak one language ([`step`]).
//!
//! | module | algorithms |
//! |---|---|
//! | [`ring`] | rings, one direction each |
//! | [`relay`] | all-to-all by neighbours of a ring |
//! | [`chain`] | rooted collectives along a ring that is cut at the root, pipelined |
//! | [`direct`], [`posting`] | every rank to every other at once, in some order |
//! | [`halving`] | recursive halving and doubling |
//! | [`binomial`] | the same for rooted collectives: binomial trees |
//! | [`double_tree`] | two complementary binary trees, pipelined |
//! | [`one_hop`] | a tree of depth one per rank, pipelined |
//! | [`in_switch`] | sums and copies made by the switch that joins the ranks |
//! | [`written`], [`loops`] | any, with steps that are written down and repeated |

pub mod binomial;
pub mod chain;
pub mod direct;
pub mod double_tree;
pub mod halving;
pub mod in_switch;
pub mod loops;
pub mod one_hop;
pub mod posting;
pub mod relay;
pub mod ring;
pub mod step;
pub mod walk;
pub mod written;

use loops::{Advance, WrittenStep};
pub use posting::Posting;
pub use step::{Blocks, Buffer, Detail, Named, Op, Pace, Place, Slot, Step, Way};
use written::TooLarge;
pub use written::{Frame, Pacing, Written};

use crate::kind::Kind;
use crate::rank::LineRank;
use double_tree::Trees;
use in_switch::InSwitch;
use std::sync::Arc;

/// The program of a phase, for all ranks of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A ring algorithm in one direction.
    Ring {
        /// What it achieves: all-reduce, reduce-scatter or all-gather.
        kind: Kind,
        /// Ranks of the group.
        ranks: u32,
        /// Whether data goes to the next higher rank (else the next lower).
        up: bool,
    },
    /// An all-to-all by the neighbours of a ring, in one direction.
    Relay {
        /// Ranks of the group.
        ranks: u32,
        /// Whether data goes to the next higher rank (else the next lower).
        up: bool,
    },
    /// A chain from or to the root.
    Chain {
        /// What it achieves: one of the rooted collectives.
        kind: Kind,
        /// Ranks of the group.
        ranks: u32,
        /// The root.
        root: LineRank,
        /// Blocks that a broadcast or reduce is pipelined over, at least 1.
        slices: u32,
        /// Whether data goes to the next higher rank (else the next lower).
        up: bool,
    },
    /// Every rank sends to every rank for which it has data.
    Direct {
        /// What it achieves.
        kind: Kind,
        /// Ranks of the group.
        ranks: u32,
        /// The root of a rooted collective.
        root: LineRank,
        /// The order in which each rank sends to the others.
        posting: Posting,
    },
    /// The same without a root, for ranks on a grid.
    DirectOnGrid {
        /// What it achieves.
        kind: Kind,
        /// The grid, and the order in which each rank sends to the others.
        order: direct::ServingOrder,
    },
    /// Recursive halving and doubling.
    HalvingDoubling {
        /// What it achieves: all-reduce, reduce-scatter or all-gather.
        kind: Kind,
        /// Ranks of the group.
        ranks: u32,
    },
    /// A binomial tree.
    Binomial {
        /// What it achieves: one of the rooted collectives.
        kind: Kind,
        /// Ranks of the group.
        ranks: u32,
        /// The root.
        root: LineRank,
    },
    /// Two complementary binary trees.
    DoubleBinaryTree {
        /// What they achieve: all-reduce, broadcast or reduce.
        kind: Kind,
        /// Ranks of the group.
        ranks: u32,
        /// The root of a rooted collective.
        root: LineRank,
        /// Blocks that each tree is pipelined over, at least 1.
        slices: u32,
    },
    /// A tree of depth one per rank.
    OneHopTrees {
        /// What they achieve: all-reduce, broadcast or reduce.
        kind: Kind,
        /// Ranks of the group.
        ranks: u32,
        /// The root of a rooted collective.
        root: LineRank,
        /// Blocks that each tree is pipelined over, at least 1.
        slices: u32,
    },
    /// Through a switch that adds and copies.
    InSwitch(InSwitch),
    /// Steps that are written down: a plan of a file, or a schedule of another tool.
    Written(Arc<Written>),
}

impl From<Written> for Program {
    fn from(written: Written) -> Program {
        Program::Written(Arc::new(written))
    }
}

impl Program {
    /// The same program written down, with loops where steps repeat.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn written_down(&self) -> Result<Written, TooLarge> {
        let program = self;
        let all = program.ranks() + u32::from(program.has_switch());
        let (ranks, parts) = (program.ranks(), program.parts());
        let thread = |rank, thread| {
            let slots = (0..program.steps(rank, thread)).map(move |pc| Slot { thread, pc });
            let steps = slots.map(|at| WrittenStep {
                step: program.step(rank, at),
                detail: program.detail(rank, at),
                advance: Advance::default(),
            });
            loops::find(&steps.collect::<Vec<_>>(), ranks, parts)
        };
        let of_rank = |rank| (0..program.threads()).map(move |t| thread(rank, t));
        let frame =
            Frame { parts, has_switch: program.has_switch(), pacing: program.pacing(), named: program.named().clone() };
        Written::new(frame, (0..all).map(LineRank).map(of_rank))
    }

    /// Whether a switch takes part: as rank [`Program::ranks`], which has no input and no result.
    pub fn has_switch(&self) -> bool {
        match self {
            Program::InSwitch(_) => true,
            Program::Written(written) => written.has_switch(),
            _ => false,
        }
    }

    /// Ranks of the group, a switch not counted.
    pub fn ranks(&self) -> u32 {
        match self {
            Program::Ring { ranks, .. }
            | Program::Relay { ranks, .. }
            | Program::Chain { ranks, .. }
            | Program::Direct { ranks, .. }
            | Program::HalvingDoubling { ranks, .. }
            | Program::Binomial { ranks, .. }
            | Program::DoubleBinaryTree { ranks, .. }
            | Program::OneHopTrees { ranks, .. } => *ranks,
            Program::DirectOnGrid { order, .. } => order.ranks(),
            Program::InSwitch(p) => p.ranks,
            Program::Written(written) => written.ranks(),
        }
    }

    /// Blocks that the vector is cut into, at least 1; saturates.
    #[inline]
    pub fn parts(&self) -> u32 {
        match *self {
            Program::Ring { ranks, .. } | Program::Relay { ranks, .. } => ranks,
            Program::Chain { kind, ranks, slices, .. } => chain::parts(kind, ranks, slices),
            Program::Direct { kind, ranks, .. } => direct::parts(kind, ranks),
            Program::DirectOnGrid { order, .. } => order.parts(),
            Program::HalvingDoubling { kind, ranks } => halving::parts(kind, ranks),
            Program::Binomial { kind, ranks, .. } => binomial::parts(kind, ranks),
            Program::DoubleBinaryTree { slices, .. } => slices.saturating_mul(2),
            Program::OneHopTrees { kind, ranks, slices, .. } => one_hop::shares(kind, ranks).saturating_mul(slices),
            Program::InSwitch(ref p) => p.parts(),
            Program::Written(ref written) => written.parts(),
        }
    }

    /// Threads of a rank, at least 1.
    #[inline]
    pub fn threads(&self) -> u16 {
        match *self {
            Program::DoubleBinaryTree { kind, .. } => double_tree::threads(kind).into(),
            Program::OneHopTrees { kind, .. } => one_hop::threads(kind).into(),
            Program::InSwitch(ref p) => p.threads().into(),
            Program::Written(ref written) => written.threads(),
            _ => 1,
        }
    }

    /// Which of a rank's connections to a peer the messages of a thread take. Threads have connections of their own, as
    /// the thread blocks of NCCL and MSCCL do: a tree's way up is not to wait for another tree's way down. Only pieces on
    /// their way to a switch that reduces them go one after the other, so that it has them all soon.
    #[inline]
    pub fn queue(&self, thread: u16) -> u16 {
        match self.queues() {
            0 => thread,
            queues => thread % queues,
        }
    }

    /// How many connections a rank has to a peer; with 0, each thread has its own.
    #[inline]
    fn queues(&self) -> u16 {
        match self {
            Program::InSwitch(_) => 1,
            Program::Written(written) => written.pacing().queues,
            _ => 0,
        }
    }

    /// The numbers of all steps of a rank, thread by thread.
    pub fn slots(&self, rank: LineRank) -> impl Iterator<Item = Slot> {
        let of_thread = move |thread| (0..self.steps(rank, thread)).map(move |pc| Slot { thread, pc });
        (0..self.threads()).flat_map(of_thread)
    }

    /// Number of steps of a thread of a rank; saturates.
    #[inline]
    pub fn steps(&self, rank: LineRank, thread: u16) -> u32 {
        match *self {
            Program::Ring { kind, ranks, .. } => ring::steps(kind, ranks),
            Program::Relay { ranks, .. } => relay::steps(ranks),
            Program::Chain { kind, ranks, root, slices, up } => chain::steps(kind, ranks, root.0, slices, up, rank.0),
            Program::Direct { kind, ranks, root, .. } => direct::steps(kind, ranks, root.0, rank.0),
            Program::DirectOnGrid { kind, order } => direct::steps_on_grid(kind, order),
            Program::HalvingDoubling { kind, ranks } => halving::steps(kind, ranks, rank.0),
            Program::Binomial { kind, ranks, root } => binomial::steps(kind, ranks, root.0, rank.0),
            Program::DoubleBinaryTree { kind, ranks, root, slices } => {
                double_tree::steps(Trees { kind, ranks, root: root.0 }, slices, rank.0, thread)
            }
            Program::OneHopTrees { kind, ranks, root, slices } => {
                one_hop::steps(kind, ranks, root.0, slices, rank.0, thread)
            }
            Program::InSwitch(ref p) => p.steps(rank, thread),
            Program::Written(ref written) => written.steps(rank, thread),
        }
    }

    /// A step, whose number must be below [`Program::steps`].
    #[inline]
    pub fn step(&self, rank: LineRank, at: Slot) -> Step {
        match *self {
            Program::Ring { kind, ranks, up } => ring::step(kind, ranks, up, rank.0, at.pc),
            _ => self.step_beside_rings(rank, at),
        }
    }

    /// Apart, so that the step of a ring, the most frequent by far, is small enough to be inlined.
    #[inline(never)]
    fn step_beside_rings(&self, rank: LineRank, at: Slot) -> Step {
        match *self {
            Program::Ring { kind, ranks, up } => ring::step(kind, ranks, up, rank.0, at.pc),
            Program::Relay { ranks, up } => relay::step(ranks, up, rank.0, at.pc),
            Program::Chain { kind, ranks, root, up, .. } => chain::step(kind, ranks, root.0, up, rank.0, at.pc),
            Program::Direct { kind, ranks, root, posting } => {
                direct::step(kind, ranks, root.0, rank.0, (posting, at.pc))
            }
            Program::DirectOnGrid { kind, order } => direct::step_on_grid(kind, order, rank.0, at.pc),
            Program::HalvingDoubling { kind, ranks } => halving::step(kind, ranks, rank.0, at.pc),
            Program::Binomial { kind, ranks, root } => binomial::step(kind, ranks, root.0, rank.0, at.pc),
            Program::DoubleBinaryTree { kind, ranks, root, slices } => {
                double_tree::step(Trees { kind, ranks, root: root.0 }, slices, rank.0, at)
            }
            Program::OneHopTrees { kind, ranks, root, slices } => {
                one_hop::step(kind, ranks, root.0, slices, rank.0, at)
            }
            Program::InSwitch(ref p) => p.step(rank, at),
            Program::Written(ref written) => written.step(rank, at),
        }
    }

    /// What else a step says. Steps that are computed say nothing else but that halves go round rings both ways.
    #[inline]
    pub fn detail(&self, rank: LineRank, at: Slot) -> Detail {
        match self {
            Program::Written(written) => written.detail(rank, at),
            Program::DirectOnGrid { .. } => {
                let step = self.step(rank, at);
                let way = if step.op.sends() { self.way(rank, at, &step) } else { Way::Route };
                Detail { way, ..Detail::default() }
            }
            _ => Detail::default(),
        }
    }

    /// Whether a step may wait for one of another thread, or only wait.
    #[inline]
    pub fn has_dependencies(&self) -> bool {
        matches!(self, Program::Written(written) if written.has_dependencies())
    }

    /// What ways of steps name by number.
    pub fn named(&self) -> &Named {
        match self {
            Program::Written(written) => written.named(),
            _ => Named::NONE,
        }
    }

    /// How messages that follow one another in a thread go to the network.
    pub fn pacing(&self) -> Pacing {
        match self {
            Program::Written(written) => written.pacing(),
            _ => {
                let pace = self.pace(LineRank(0), Slot::default());
                Pacing { one_by_one: pace != Pace::Free, spreads: pace == Pace::Spread, queues: self.queues() }
            }
        }
    }

    /// When a message that follows that of a step in its thread is sent. Those of trees are better sent one by one, so that every
    /// level of the tree goes on soon; those to peers that do not wait for one another are spread over the ports.
    #[inline]
    pub fn pace(&self, rank: LineRank, at: Slot) -> Pace {
        match self {
            Program::Written(written) => written.pace(rank, at),
            Program::Ring { .. } | Program::Relay { .. } | Program::HalvingDoubling { .. } => Pace::Free,
            Program::Direct { .. } | Program::DirectOnGrid { .. } | Program::OneHopTrees { .. } => Pace::Spread,
            _ => Pace::OneByOne,
        }
    }

    /// Messages that a rank of a direct algorithm sends in a round: one to every other, or two to one of them.
    #[inline]
    pub fn turns(&self) -> u32 {
        match self {
            Program::DirectOnGrid { order, .. } => order.turns(),
            _ => self.ranks() - 1,
        }
    }

    /// The way of what a step sends.
    #[inline]
    pub fn way(&self, rank: LineRank, at: Slot, step: &Step) -> Way {
        match self {
            Program::DirectOnGrid { order, .. } if order.goes_around(step.blocks) => Way::Choice(1),
            Program::Written(written) => written.detail(rank, at).way,
            _ => Way::Route,
        }
    }

    /// Whether every rank does the same as rank 0, seen from its own place: with blocks and peers at the
    /// same distance (modulo the ranks), and numbered alike.
    pub fn is_rotation_symmetric(&self) -> bool {
        match self {
            Program::Ring { .. } | Program::Relay { .. } | Program::DirectOnGrid { .. } => true,
            Program::Direct { kind, posting, .. } => !kind.is_rooted() && matches!(posting, Posting::Rotated),
            Program::OneHopTrees { kind, .. } => !kind.is_rooted(),
            Program::Chain { .. }
            | Program::HalvingDoubling { .. }
            | Program::Binomial { .. }
            | Program::DoubleBinaryTree { .. }
            | Program::InSwitch(_) => false,
            Program::Written(written) => written.is_rotation_symmetric(),
        }
    }

    /// Whether every rank does the same as rank 0 with the same blocks, through a switch.
    pub const fn is_uniform(&self) -> bool {
        matches!(self, Program::InSwitch(p) if p.is_uniform())
    }

    /// Messages that follow one another on the longest way through the program: what its latency counts.
    pub fn rounds(&self) -> u32 {
        match *self {
            Program::Written(ref written) => written.rounds(|| walk::rounds(self)),
            _ if self.ranks() < 2 => 0,
            Program::Ring { kind: Kind::AllReduce, ranks, .. } => 2 * (ranks - 1),
            Program::Ring { ranks, .. } | Program::Relay { ranks, .. } | Program::Chain { ranks, .. } => ranks - 1,
            Program::Direct { kind: Kind::AllReduce, .. } | Program::DirectOnGrid { kind: Kind::AllReduce, .. } => 2,
            Program::Direct { .. } | Program::DirectOnGrid { .. } => 1,
            Program::HalvingDoubling { kind, ranks } => halving::rounds(kind, ranks),
            Program::Binomial { ranks, .. } => ranks.ilog2(),
            Program::DoubleBinaryTree { kind: Kind::AllReduce, ranks, .. } => 2 * double_tree::depth(ranks),
            Program::DoubleBinaryTree { ranks, .. } => double_tree::depth(ranks),
            Program::OneHopTrees { kind, ranks, .. } => one_hop::rounds(kind, ranks),
            Program::InSwitch(ref p) => p.rounds(),
        }
    }

    /// The last step of a rank's first thread that sends.
    pub fn last_send(&self, rank: LineRank) -> Option<u32> {
        match *self {
            Program::Ring { kind, ranks, .. } => ring::last_send(kind, ranks),
            _ => (0..self.steps(rank, 0)).rev().find(|&pc| self.step(rank, Slot { thread: 0, pc }).op.sends()),
        }
    }
}
