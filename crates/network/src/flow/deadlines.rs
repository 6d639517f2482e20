//! The first of many deadlines that move all the time: a tree of minima.
//!
//! Unlike a heap of entries it holds no superseded ones, and a change that does not become the first of
//! its neighbours ends where it is.

use syncline_core::Ps;

/// A deadline for each number from 0; [`Ps::MAX`] is none.
#[derive(Clone, Debug)]
pub(super) struct Deadlines {
    /// Node `i` is the lesser of nodes `2 i` and `2 i + 1`; the last half are the deadlines.
    tree: Vec<Ps>,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines { tree: vec![Ps::MAX; 2] }
    }
}

impl Deadlines {
    fn leaves(&self) -> usize {
        self.tree.len() / 2
    }

    /// Changes a deadline.
    pub fn set(&mut self, number: usize, deadline: Ps) {
        if number >= self.leaves() {
            self.grow(number);
        }
        let mut at = self.leaves() + number;
        self.tree[at] = deadline;
        while at > 1 {
            let first = self.tree[at].min(self.tree[at ^ 1]);
            at /= 2;
            if self.tree[at] == first {
                break;
            }
            self.tree[at] = first;
        }
    }

    /// Makes room for a number.
    fn grow(&mut self, number: usize) {
        let (leaves, old) = ((number + 1).next_power_of_two(), self.leaves());
        let mut tree = vec![Ps::MAX; 2 * leaves];
        tree[leaves..leaves + old].copy_from_slice(&self.tree[old..]);
        for at in (1..leaves).rev() {
            tree[at] = tree[2 * at].min(tree[2 * at + 1]);
        }
        self.tree = tree;
    }

    /// The first deadline.
    #[inline]
    pub fn first(&self) -> Ps {
        self.tree[1]
    }

    /// Appends all numbers whose deadline is `time` or earlier.
    pub fn until(&self, time: Ps, numbers: &mut Vec<u32>) {
        self.search(1, time, numbers);
    }

    fn search(&self, at: usize, time: Ps, numbers: &mut Vec<u32>) {
        if self.tree[at] > time || time == Ps::MAX {
            return;
        }
        if at >= self.leaves() {
            numbers.push((at - self.leaves()) as u32);
        } else {
            self.search(2 * at, time, numbers);
            self.search(2 * at + 1, time, numbers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_list(steps in prop::collection::vec((0usize..70, 0u64..40), 0..200), time in 0u64..40) {
            let mut deadlines = Deadlines::default();
            let mut list = vec![Ps::MAX; 70];
            for (number, deadline) in steps {
                let deadline = if deadline < 35 { Ps(deadline) } else { Ps::MAX };
                deadlines.set(number, deadline);
                list[number] = deadline;
                prop_assert_eq!(Some(&deadlines.first()), list.iter().min());
            }
            let mut due = Vec::new();
            deadlines.until(Ps(time), &mut due);
            let expected: Vec<u32> = (0..70).filter(|&i| list[i as usize] <= Ps(time)).collect();
            prop_assert_eq!(due, expected);
        }
    }
}
