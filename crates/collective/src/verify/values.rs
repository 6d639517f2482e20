//! Symbolic data: per rank and element the set of contributors, as bits; in an all-to-all, tokens.

use super::flaw::Flaw;
use super::verifier::Verifier;
use crate::kind::Kind;
use crate::plan::PhaseId;
use crate::program::Slot;
use crate::rank::{LineRank, Rank};
use std::ops::Range;

/// Sets of contributors of consecutive elements, so many words each.
pub(super) type Sets = Vec<u64>;

/// The elements of all ranks.
pub(super) struct Vectors {
    elements: usize,
    /// Words of a set.
    words_per_set: usize,
    sets: Sets,
}

/// The rank of the lowest bit that is set.
fn first_bit(words: impl Iterator<Item = u64>) -> Option<Rank> {
    (0..).zip(words).find(|w| w.1 != 0).map(|(i, w)| Rank(i * 64 + w.trailing_zeros()))
}

impl Vectors {
    /// Those of all ranks, and of as many switches as there are more of `all`, which hold nothing.
    pub(super) fn new(verifier: &Verifier<'_>, all: u32) -> Vectors {
        let (ranks, elements) = (verifier.ranks(), verifier.elements as usize);
        let words_per_set = ranks.div_ceil(64) as usize;
        let mut vectors = Vectors { elements, words_per_set, sets: vec![0; all as usize * elements * words_per_set] };
        for rank in verifier.all() {
            let [(offset, len), _] = verifier.ends(rank);
            for element in offset..offset + len {
                vectors.set_mut(rank, element)[rank.index() / 64] = 1 << (rank.0 % 64);
            }
        }
        vectors
    }

    fn range(&self, rank: Rank, element: u64) -> Range<usize> {
        let start = (rank.index() * self.elements + element as usize) * self.words_per_set;
        start..start + self.words_per_set
    }

    fn set(&self, rank: Rank, element: u64) -> &[u64] {
        &self.sets[self.range(rank, element)]
    }

    fn set_mut(&mut self, rank: Rank, element: u64) -> &mut [u64] {
        let range = self.range(rank, element);
        &mut self.sets[range]
    }

    /// Copies local elements out; each must have a contributor.
    pub(super) fn copy(
        &self,
        (rank, phase, at): (Rank, PhaseId, Slot),
        elements: impl Iterator<Item = u64>,
    ) -> Result<Sets, Flaw> {
        let mut sets = Sets::new();
        for element in elements {
            let set = self.set(rank, element);
            if set.iter().all(|&w| w == 0) {
                return Err(Flaw::Absent { rank, phase, at, element });
            }
            sets.extend_from_slice(set);
        }
        Ok(sets)
    }

    /// Adds local elements to what was received.
    pub(super) fn add(
        &self,
        (rank, phase, at): (Rank, PhaseId, Slot),
        elements: impl Iterator<Item = u64>,
        received: &mut Sets,
    ) -> Result<(), Flaw> {
        for (element, theirs) in elements.zip(received.chunks_exact_mut(self.words_per_set)) {
            let mine = self.set(rank, element);
            if mine.iter().all(|&w| w == 0) {
                return Err(Flaw::Absent { rank, phase, at, element });
            }
            if let Some(contributor) = first_bit(mine.iter().zip(&*theirs).map(|(a, b)| a & b)) {
                return Err(Flaw::Doubled { rank, element, contributor });
            }
            theirs.iter_mut().zip(mine).for_each(|(a, b)| *a |= b);
        }
        Ok(())
    }

    /// Keeps what was received.
    pub(super) fn store(&mut self, rank: Rank, elements: impl Iterator<Item = u64>, received: &Sets) {
        let words = self.words_per_set;
        for (element, theirs) in elements.zip(received.chunks_exact(words)) {
            self.set_mut(rank, element).copy_from_slice(theirs);
        }
    }

    /// Whether everybody has what it must have in the end.
    pub(super) fn check(&self, verifier: &Verifier<'_>) -> Result<(), Flaw> {
        let sums = matches!(verifier.plan.kind(), Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce);
        let mut expected: Vec<Sets> = vec![vec![0; self.words_per_set]; self.elements];
        for rank in verifier.all() {
            let [(offset, len), _] = verifier.ends(rank);
            // Who had an element at first has to be in all results: one rank, or in sums all of them.
            assert!(!sums || len == verifier.elements);
            for set in &mut expected[offset as usize..(offset + len) as usize] {
                set[rank.index() / 64] |= 1 << (rank.0 % 64);
            }
        }
        for rank in verifier.all() {
            let [_, (offset, len)] = verifier.ends(rank);
            for element in offset..offset + len {
                let (expected, got) = (&expected[element as usize], self.set(rank, element));
                let only = |a: &[u64], b: &[u64]| first_bit(a.iter().zip(b).map(|(a, b)| a & !b));
                if let Some(contributor) = only(expected, got) {
                    return Err(Flaw::Lost { rank, element, contributor });
                }
                if let Some(contributor) = only(got, expected) {
                    return Err(Flaw::Misplaced { rank, element, contributor });
                }
            }
        }
        Ok(())
    }
}

/// What one rank has for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Token {
    from: Rank,
    to: Rank,
}

/// The tokens of an all-to-all.
pub(super) struct Tokens {
    /// Per rank: what it holds between phases.
    held: Vec<Vec<Token>>,
    /// Per phase and rank: what its blocks were when it entered.
    blocks: Vec<Vec<Vec<Vec<Token>>>>,
    /// Per rank: which blocks of which ranks of its line it has, in the current phase. What is for a rank is one block, or
    /// as many as a program makes of it.
    present: Vec<Vec<bool>>,
}

impl Tokens {
    pub(super) fn new(verifier: &Verifier<'_>) -> Tokens {
        let ranks = verifier.ranks();
        Tokens {
            held: verifier.all().map(|from| verifier.all().map(|to| Token { from, to }).collect()).collect(),
            blocks: vec![vec![Vec::new(); ranks as usize]; verifier.programs.len()],
            present: vec![Vec::new(); ranks as usize],
        }
    }

    pub(super) fn enter(&mut self, verifier: &Verifier<'_>, rank: Rank, phase: PhaseId) {
        let p = verifier.plan.phases()[phase.index()];
        let mut blocks = vec![Vec::new(); p.ranks as usize];
        for token in self.held[rank.index()].drain(..) {
            blocks[verifier.coordinate(token.to, p.dim) as usize].push(token);
        }
        self.blocks[phase.index()][rank.index()] = blocks;
        let (own, parts) = (verifier.coordinate(rank, p.dim), verifier.programs[phase.index()].parts());
        self.present[rank.index()] = (0..p.ranks * parts).map(|cell| cell / parts == own).collect();
    }

    pub(super) fn leave(&mut self, verifier: &Verifier<'_>, rank: Rank, phase: PhaseId) {
        let p = verifier.plan.phases()[phase.index()];
        let (own, parts) = (verifier.coordinate(rank, p.dim), verifier.programs[phase.index()].parts());
        let each = parts / p.ranks;
        let whole = |origin: &u32| {
            let first = (origin * parts + own * each) as usize;
            each > 0 && self.present[rank.index()][first..first + each as usize].iter().all(|&present| present)
        };
        for origin in (0..p.ranks).filter(whole) {
            let origin = verifier.peer(rank, p.dim, LineRank(origin));
            let arrived = &self.blocks[phase.index()][origin.index()][own as usize];
            self.held[rank.index()].extend_from_slice(arrived);
        }
    }

    /// Whether a rank has all of these blocks; the first missing one is the error.
    pub(super) fn has(&self, rank: Rank, mut cells: impl Iterator<Item = u64>) -> Result<(), u64> {
        cells.find(|&cell| !self.present[rank.index()][cell as usize]).map_or(Ok(()), Err)
    }

    /// Keeps what was received.
    pub(super) fn store(&mut self, rank: Rank, cells: impl Iterator<Item = u64>) {
        cells.for_each(|cell| self.present[rank.index()][cell as usize] = true);
    }

    /// Whether everybody has what is for it, once, and nothing else.
    pub(super) fn check(&mut self) -> Result<(), Flaw> {
        for (rank, held) in (0..).map(Rank).zip(&mut self.held) {
            held.sort_unstable();
            let element = u64::from(rank.0);
            if let Some(token) = held.iter().find(|t| t.to != rank) {
                return Err(Flaw::Misplaced { rank, element: token.to.0.into(), contributor: token.from });
            }
            if let Some(twice) = held.windows(2).find(|w| w[0] == w[1]) {
                return Err(Flaw::Doubled { rank, element, contributor: twice[0].from });
            }
            let ranks = self.present.len() as u32;
            if let Some(from) = (0..ranks).map(Rank).find(|&from| held.get(from.index()).is_none_or(|t| t.from != from))
            {
                return Err(Flaw::Lost { rank, element, contributor: from });
            }
        }
        Ok(())
    }
}
