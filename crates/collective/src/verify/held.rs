//! What ranks hold between phases, and in which of its memory a line works on it.

use super::data::{From, Promise, Sets, Value};
use super::findings::Findings;
use super::layout::Layout;
use super::machine::Names;
use super::pass::Pass;
use crate::kind::Kind as Collective;
use crate::plan::{Phase, PhaseId};
use crate::rank::{LineRank, Rank};

/// The part of what a rank holds that a phase works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where it begins.
    pub(super) offset: u64,
    /// Its cells.
    pub(super) len: u32,
    /// In an all-to-all, into how many cells is cut what a rank has for another.
    units: Option<u32>,
}

impl Part {
    /// What people call what a rank has put in; in an all-to-all, a unit of what it has for another.
    pub(super) fn contribution(&self, chunk: u32, whose: &str) -> String {
        match self.units {
            None => format!("element {chunk} of {whose}"),
            Some(1) => format!("data of {whose} for rank {chunk}"),
            Some(units) => format!("part {} of the data of {whose} for rank {}", chunk % units, chunk / units),
        }
    }
}

/// What all ranks hold between phases.
///
/// In an all-to-all, a rank holds something for a rank, or of a rank, or both: what is for ranks with other coordinates along
/// the dimensions still to come, from ranks with other coordinates along those that have been gone through. So there is one
/// datum for each point of the grid, whose coordinates are those of the sender along the latter dimensions, and of the receiver
/// along the former. A phase exchanges the meaning of one coordinate.
pub(super) struct Held {
    /// Cells of a rank.
    width: u32,
    memory: Vec<Value>,
    /// In an all-to-all, cells of a datum.
    units: Option<u32>,
    /// Who has contributed.
    pub(super) sets: Sets,
}

/// Where what a rank of a line holds lies in the line's memory. All runs are equally long.
pub(super) struct Moves {
    /// For each rank of the line, in pairs: the first cell of a run in what it holds, and in its memory.
    load: Vec<Vec<(u32, u32)>>,
    /// The same, for what it holds in the end.
    store: Vec<Vec<(u32, u32)>>,
    run: u32,
}

impl Held {
    /// What ranks start with.
    pub(super) fn new(pass: &Pass<'_>) -> Held {
        let ranks = pass.ranks();
        let units = (pass.plan.kind() == Collective::AllToAll).then(|| units(pass));
        let cells = units.map_or(pass.elements, |units| u64::from(ranks) * u64::from(units));
        let all = cells.checked_mul(ranks.into()).filter(|&all| all <= u32::MAX.into());
        let all = all.expect("no more data than can be numbered");
        let width = cells as u32; // no more than all
        let mut memory = vec![Value::NOTHING; all as usize];
        for rank in pass.all() {
            let (first, len) = if units.is_some() { (0, cells) } else { pass.ends(rank)[0] };
            let start = rank.index() * width as usize;
            for chunk in first..first + len {
                memory[start + chunk as usize] = Value::of(chunk as u32, rank);
            }
        }
        Held { width, memory, units, sets: Sets::new(ranks) }
    }

    /// What a line works on in a phase.
    pub(super) fn part(&self, pass: &Pass<'_>, first: Rank, phase: PhaseId) -> Part {
        let (offset, len) = pass.vector(first, phase);
        match self.units {
            Some(_) => Part { offset: 0, len: self.width, units: self.units },
            None => Part { offset, len: len as u32, units: None }, // no more than the width
        }
    }

    /// How a phase moves what the ranks of a line hold.
    pub(super) fn moves(&self, pass: &Pass<'_>, phase: &Phase, part: Part, layout: &Layout) -> Moves {
        let Some(units) = self.units else {
            let offset = part.offset as u32; // no more than the width
            let same = |cell| vec![vec![(offset, cell)]; phase.ranks as usize];
            return Moves { load: same(layout.start(0, 0)), store: same(layout.end(0, 0)), run: part.len };
        };
        let (each, coordinate) = (layout.each(), |rank| pass.coordinate(rank, phase.dim));
        let run = units / each;
        // All that differs along other dimensions moves alike.
        let alike: Vec<u32> = pass.all().filter(|&rank| coordinate(rank) == 0).map(|rank| rank.0).collect();
        let stride = pass.peer(Rank(0), phase.dim, LineRank(1)).0;
        let runs = |own: u32, cell: &dyn Fn(u32, u32, u32) -> u32| -> Vec<(u32, u32)> {
            let mut runs = Vec::with_capacity((phase.ranks * each) as usize * alike.len());
            for (other, piece) in (0..phase.ranks).flat_map(|other| (0..each).map(move |piece| (other, piece))) {
                let first = cell(own, other, piece);
                for (nth, point) in (0..).zip(&alike) {
                    runs.push(((point + other * stride) * units + piece * run, first + nth * run));
                }
            }
            runs
        };
        let block = alike.len() as u32 * run;
        let load = |own, other, piece| layout.start(own, (other * each + piece) * block);
        let store = |own, other, piece| layout.end(other, (layout.received(own, other) + piece) * block);
        let all = |cell: &dyn Fn(u32, u32, u32) -> u32| (0..phase.ranks).map(|own| runs(own, cell)).collect();
        Moves { load: all(&load), store: all(&store), run }
    }

    /// Puts what the ranks of a line hold into the line's memory.
    pub(super) fn load(&self, moves: &Moves, ranks: &[Rank], layout: &Layout, memory: &mut [Value]) {
        for (rank, (there, runs)) in ranks.iter().zip((0..).zip(&moves.load)) {
            for &(from, to) in runs {
                let from = rank.index() * self.width as usize + from as usize;
                let to = (there * layout.cells() + to) as usize;
                let run = moves.run as usize;
                memory[to..to + run].copy_from_slice(&self.memory[from..from + run]);
            }
        }
    }

    /// Takes what the ranks of a line hold in the end from the line's memory.
    pub(super) fn store(&mut self, moves: &Moves, ranks: &[Rank], layout: &Layout, memory: &[Value]) {
        for (rank, (there, runs)) in ranks.iter().zip((0..).zip(&moves.store)) {
            for &(to, from) in runs {
                let to = rank.index() * self.width as usize + to as usize;
                let from: usize = (there * layout.cells() + from) as usize;
                let run = moves.run as usize;
                self.memory[to..to + run].copy_from_slice(&memory[from..from + run]);
            }
        }
    }

    /// Whether everybody has what it must have in the end.
    pub(super) fn check(&self, pass: &Pass<'_>, findings: &mut Findings) {
        let kind = pass.plan.kind();
        let owners = if self.units.is_some() { Vec::new() } else { owners(pass) };
        let promises = pass.all().flat_map(|rank| {
            let (first, len) = if self.units.is_some() { (0, u64::from(self.width)) } else { pass.ends(rank)[1] };
            let owners = &owners;
            (first as u32..(first + len) as u32).map(move |cell| match self.units {
                Some(units) => {
                    let (from, unit) = (From::One(Rank(cell / units)), cell % units);
                    Promise { rank, nth: cell, chunk: rank.0 * units + unit, from }
                }
                None => {
                    let from = if kind.is_summed() { From::All } else { From::One(owners[cell as usize]) };
                    Promise { rank, nth: cell, chunk: cell, from }
                }
            })
        });
        let value = |p: &Promise| self.memory[p.rank.index() * self.width as usize + p.nth as usize];
        let names = ResultNames(Part { offset: 0, len: self.width, units: self.units });
        self.sets.check(promises.map(|p| (p, value(&p))), &names, findings);
    }
}

/// Into how many cells is cut what a rank has for another, so that every phase can cut it into its pieces.
fn units(pass: &Pass<'_>) -> u32 {
    let pieces = pass.programs.iter().map(|program| (program.parts() / program.ranks().max(1)).max(1));
    pieces.fold(1, |units, pieces| {
        let common = (1..=units.min(pieces)).rev().find(|d| units.is_multiple_of(*d) && pieces.is_multiple_of(*d));
        (units / common.unwrap_or(1)).saturating_mul(pieces)
    })
}

/// The rank that starts with each element; in sums, all of them do.
fn owners(pass: &Pass<'_>) -> Vec<Rank> {
    let mut owners = vec![Rank(0); pass.elements as usize];
    for rank in pass.all() {
        let [(first, len), _] = pass.ends(rank);
        assert!(!pass.plan.kind().is_summed() || len == pass.elements, "all ranks contribute to all of a sum");
        owners[first as usize..(first + len) as usize].fill(rank);
    }
    owners
}

/// What people call results.
struct ResultNames(Part);

impl Names for ResultNames {
    fn rank(&self, rank: Rank) -> Rank {
        rank
    }

    fn phase(&self) -> Option<PhaseId> {
        None
    }

    fn thread(&self) -> &'static str {
        "thread"
    }

    fn unit(&self) -> &'static str {
        "element"
    }

    fn cell(&self, _: Rank, cell: u32) -> (String, &'static str) {
        (format!("element {cell}"), "output")
    }

    fn contribution(&self, chunk: u32, whose: &str) -> String {
        self.0.contribution(chunk, whose)
    }
}
