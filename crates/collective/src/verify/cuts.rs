//! Which elements of a vector no step tells apart.
//!
//! Steps work on whole blocks. Between two places at which a block begins or ends that a step uses, all elements go the same ways
//! and meet the same elements of other ranks, so one of them stands for all. A plan of trees for 64 ranks has 720,000 elements and
//! some 1,000 of these parts. That is so where all phases work on the whole vector, and data lies at its place in it: then both
//! ends of a message, and all phases, cut the vector alike. Where it is not so, the verifier goes element by element.

use super::layout::ELEMENTS;

/// The places between which elements are alike.
pub(super) struct Cuts {
    /// Elements of the vector.
    elements: u64,
    /// Of each element, and of the end, how many parts begin before it.
    before: Vec<u32>,
}

/// Places in a vector.
pub(super) struct Marks {
    elements: u64,
    marked: Vec<bool>,
}

impl Marks {
    /// Marks an element.
    pub(super) fn at(&mut self, element: u64) {
        self.marked[element as usize] = true;
    }

    /// Marks where a block of so many begins; with their number, where the last one ends.
    pub(super) fn at_block(&mut self, block: u32, parts: u32) {
        self.at(place(self.elements, block, parts));
    }
}

impl Cuts {
    /// Those of a vector of so many elements, at the places that are marked; none if marking fails.
    pub(super) fn new(elements: u64, mark: impl FnOnce(&mut Marks) -> bool) -> Option<Cuts> {
        let mut marks = Marks { elements, marked: vec![false; elements as usize + 1] };
        marks.at(0);
        if !mark(&mut marks) {
            return None;
        }
        let begun = |count: &mut u32, &marked: &bool| {
            let before = *count;
            *count += u32::from(marked);
            Some(before)
        };
        Some(Cuts { elements, before: marks.marked.iter().scan(0, begun).collect() })
    }

    /// How many parts there are.
    pub(super) fn count(&self) -> u64 {
        self.at(self.elements)
    }

    /// The part that begins at an element at which one does; at the end, their number.
    pub(super) fn at(&self, element: u64) -> u64 {
        self.before[element as usize].into()
    }

    /// The part with which a block begins, if a step uses the block.
    pub(super) fn of_block(&self, block: u32, parts: u32) -> u32 {
        self.before[place(self.elements, block, parts) as usize]
    }
}

/// The element at which a block of so many begins.
fn place(elements: u64, block: u32, parts: u32) -> u64 {
    if block == parts { elements } else { ELEMENTS.share(elements, parts, block).0 }
}
