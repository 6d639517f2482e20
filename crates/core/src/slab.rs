//! Entries that come and go, in a flat array. An entry has a number as long as it exists; later entries use the number again.
//!
//! The number that became vacant last is used next, and a new one only if none is vacant. So the array is as long as the
//! largest number of entries that ever existed at once, and which entry gets which number depends only on the order of
//! [`Slab::insert`] and [`Slab::remove`].

use crate::ids::Id;
use prefetch_index::prefetch_index;
use std::ops::{Index, IndexMut};

/// Things of type `T`, named by numbers of type `I`.
#[derive(Clone, Debug)]
pub struct Slab<I, T> {
    /// What has last had each number.
    things: Vec<T>,
    /// Whether it is still there.
    occupied: Vec<bool>,
    /// Numbers that name nothing, the one to be given next at the end.
    vacant: Vec<I>,
}

impl<I, T> Default for Slab<I, T> {
    fn default() -> Self {
        Slab { things: Vec::new(), occupied: Vec::new(), vacant: Vec::new() }
    }
}

impl<I: Id, T> Slab<I, T> {
    /// Nothing yet.
    pub fn new() -> Slab<I, T> {
        Slab::default()
    }

    /// Takes a thing in; says its number.
    ///
    /// # Panics
    /// If there are more things than numbers.
    #[inline(always)]
    pub fn insert(&mut self, thing: T) -> I {
        match self.vacant.pop() {
            Some(id) => {
                self.things[id.index()] = thing;
                self.occupied[id.index()] = true;
                id
            }
            None => {
                let id = I::from_index(self.things.len());
                self.things.push(thing);
                self.occupied.push(true);
                id
            }
        }
    }

    /// A thing will soon be looked at: it is fetched from memory meanwhile. Whether the number names anything does not matter.
    #[inline(always)]
    pub fn expect(&self, id: I) {
        prefetch_index(&self.things, id.index());
    }

    /// Its number no longer names the thing, which can be read until the number is given again.
    ///
    /// # Panics
    /// If the number names nothing.
    #[inline]
    pub fn remove(&mut self, id: I) {
        let occupied = &mut self.occupied[id.index()];
        assert!(*occupied, "removed a thing that is not there");
        *occupied = false;
        self.vacant.push(id);
    }

    /// All things that are there, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.things.iter().zip(&self.occupied).filter(|(_, occupied)| **occupied).map(|(thing, _)| thing)
    }
}

impl<I: Id, T> Index<I> for Slab<I, T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, id: I) -> &T {
        &self.things[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Slab<I, T> {
    #[inline(always)]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.things[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    crate::id_type!(
        /// The number of a thing of these tests.
        ThingId
    );

    #[test]
    fn the_number_that_became_vacant_last_is_given_next() {
        let mut slab: Slab<ThingId, char> = Slab::new();
        let ids = ['a', 'b', 'c'].map(|thing| slab.insert(thing).0);
        assert_eq!(ids, [0, 1, 2]);
        slab.remove(ThingId(0));
        slab.remove(ThingId(2));
        assert_eq!(slab[ThingId(2)], 'c', "it can still be read");
        assert_eq!(['d', 'e', 'f'].map(|thing| slab.insert(thing).0), [2, 0, 3]);
        assert_eq!(slab.iter().collect::<String>(), "ebdf");
    }

    #[test]
    #[should_panic(expected = "removed a thing that is not there")]
    fn nothing_is_removed_twice() {
        let mut slab: Slab<ThingId, ()> = Slab::new();
        let id = slab.insert(());
        slab.remove(id);
        slab.remove(id);
    }

    proptest! {
        /// Whatever comes and goes, a number names what it was given for, and no number is wasted.
        #[test]
        fn numbers_name_what_they_were_given_for(steps in prop::collection::vec((any::<bool>(), any::<usize>()), 0..200)) {
            let mut slab: Slab<ThingId, usize> = Slab::new();
            let mut named: BTreeMap<ThingId, usize> = BTreeMap::new();
            let mut most = 0;
            for (comes, value) in steps {
                if comes || named.is_empty() {
                    prop_assert!(named.insert(slab.insert(value), value).is_none(), "a number that names another thing");
                } else {
                    let id = *named.keys().nth(value % named.len()).unwrap();
                    named.remove(&id);
                    slab.remove(id);
                }
                most = most.max(named.len());
                prop_assert!(named.iter().all(|(&id, &value)| slab[id] == value));
                prop_assert!(named.keys().all(|id| id.index() < most));
                prop_assert!(slab.iter().eq(named.values()));
                prop_assert_eq!(slab.things.len(), most);
            }
        }
    }
}
