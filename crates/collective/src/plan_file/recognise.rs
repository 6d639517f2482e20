//! Finds the algorithm that a written program is.
//!
//! A program that does step by step what an algorithm does is that algorithm: it is computed instead of looked up, an ACE can
//! carry it out, and it folds. Nothing else about a run changes.

use crate::kind::Kind;
use crate::program::direct::ServingOrder;
use crate::program::in_switch::InSwitch;
use crate::program::one_hop;
use crate::program::{Detail, Op, Posting, Program, Slot};
use crate::rank::LineRank;

/// What a line does, and how the fabric looks from its ranks.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// What it achieves.
    pub kind: Kind,
    /// The number of the root on it.
    pub root: LineRank,
    /// The order in which a direct algorithm serves ranks that stand on a grid of the fabric's.
    pub order: Option<ServingOrder>,
    /// The order in which a direct algorithm posts messages.
    pub posting: Posting,
}

/// The algorithm that a program is, or itself. `up` says which way it goes if it goes round.
pub fn recognised(program: Program, line: Line, around: bool, up: bool) -> Program {
    let candidates = if around { around_a_ring(&program, line, up) } else { elsewhere(&program, line) };
    candidates.into_iter().find(|candidate| candidate.does_the_same_as(&program)).unwrap_or(program)
}

/// What goes from neighbour to neighbour.
fn around_a_ring(program: &Program, line: Line, up: bool) -> Vec<Program> {
    let (kind, ranks) = (line.kind, program.ranks());
    match kind {
        _ if ranks < 2 => Vec::new(),
        Kind::AllToAll => vec![Program::Relay { ranks, up }],
        Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather => vec![Program::Ring { kind, ranks, up }],
        _ => vec![Program::Chain { kind, ranks, root: line.root, slices: program.parts(), up }],
    }
}

/// What is routed.
fn elsewhere(program: &Program, line: Line) -> Vec<Program> {
    let Line { kind, root, order, posting } = line;
    let (ranks, parts) = (program.ranks(), program.parts());
    if ranks < 2 {
        return Vec::new();
    }
    if program.has_switch() {
        let slots = u8::try_from(program.threads()).unwrap_or(u8::MAX);
        return match kind {
            Kind::AllToAll | Kind::Gather | Kind::Scatter => Vec::new(),
            _ => vec![Program::InSwitch(InSwitch { kind, ranks, root, slices: parts, slots })],
        };
    }
    let trees = matches!(kind, Kind::AllReduce | Kind::Broadcast | Kind::Reduce);
    let mut found = Vec::new();
    found.extend(
        order.filter(|o| o.ranks() == ranks && !kind.is_rooted()).map(|order| Program::DirectOnGrid { kind, order }),
    );
    found.push(Program::Direct { kind, ranks, root, posting });
    match kind {
        Kind::AllToAll => {}
        _ if kind.is_rooted() => found.push(Program::Binomial { kind, ranks, root }),
        _ => found.push(Program::HalvingDoubling { kind, ranks }),
    }
    if trees && parts.is_multiple_of(2) {
        found.push(Program::DoubleBinaryTree { kind, ranks, root, slices: parts / 2 });
    }
    let shares = one_hop::shares(kind, ranks);
    if trees && parts.is_multiple_of(shares) {
        found.push(Program::OneHopTrees { kind, ranks, root, slices: parts / shares });
    }
    // Routed rings and chains: those of imported schedules, which know nothing of lanes.
    found.extend([true, false].into_iter().flat_map(|up| around_a_ring(program, line, up)));
    found
}

impl Program {
    /// Whether both programs do the same: the same steps with the same details, paced alike where that matters. Where data
    /// lies does not count.
    pub fn does_the_same_as(&self, other: &Program) -> bool {
        let all = self.ranks() + u32::from(self.has_switch());
        let alike = (self.ranks(), self.has_switch(), self.parts(), self.threads())
            == (other.ranks(), other.has_switch(), other.parts(), other.threads());
        let mut in_a_row = false;
        let same_steps = alike
            && (0..all).map(LineRank).all(|rank| {
                (0..self.threads()).all(|thread| {
                    let steps = self.steps(rank, thread);
                    let mut sent = false;
                    steps == other.steps(rank, thread)
                        && (0..steps).all(|pc| {
                            let at = Slot { thread, pc };
                            let says = |p: &Program| {
                                let detail = Detail { src: None, dst: None, ..p.detail(rank, at) };
                                (p.step(rank, at).normal(), detail)
                            };
                            let mine = says(self);
                            in_a_row |= sent && mine.0.op == Op::Send;
                            sent = mine.0.op.sends();
                            mine == says(other)
                        })
                })
            });
        let (mine, theirs) = (self.pacing(), other.pacing());
        let paced_alike = !in_a_row || (mine.one_by_one, mine.spreads) == (theirs.one_by_one, theirs.spreads);
        same_steps && paced_alike && (0..self.threads()).all(|thread| self.queue(thread) == other.queue(thread))
    }
}
