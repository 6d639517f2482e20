//! When which link has something to do: the inner queue of the backend.
//!
//! A link is a queue, so that only its next event matters, and what is under way on all others is in order already. There are
//! as many entries as links, however many frames wait, and the earliest is found by a tournament: a tree whose leaves are the
//! links and whose nodes hold the earlier one of their two children. A change costs a step per level, up to the first one where
//! another link is earlier before and after it: half of all changes, such as a frame that is going to arrive when many others have,
//! are a matter of one or two levels.
//!
//! Of equal times the one that was set first goes first. Ties are no rarity: acknowledgements of one receiver come at a distance
//! of whole frames, and so do the frames that they let others send. If the numbers of links decided, some hosts would always
//! find the last place of a queue taken by the same others.

/// Later than everything.
pub const NEVER: u64 = u64::MAX;

/// The next events of all links.
#[derive(Clone, Debug)]
pub struct Tournament {
    /// Time, order and link: first the leaves' common ancestor at 1, then each level, the leaves last. Node `i` has the children
    /// `2 i` and `2 i + 1`.
    nodes: Vec<u128>,
    leaves: usize,
    /// How often something was set.
    set: u64,
}

/// Bits for the number of a link; the other half of an entry without its time is the order.
const LINK_BITS: u32 = 24;

#[inline(always)]
fn entry(time: u64, order: u64, link: u32) -> u128 {
    u128::from(time) << 64 | u128::from(order << LINK_BITS | u64::from(link))
}

impl Tournament {
    /// Nothing to do on any of so many links.
    ///
    /// # Panics
    /// If there are 2^24 links or more.
    pub fn new(links: u32) -> Tournament {
        assert!(links < 1 << LINK_BITS, "up to 2^24 links");
        let leaves = (links as usize).next_power_of_two();
        Tournament { nodes: vec![u128::MAX; 2 * leaves], leaves, set: 0 }
    }

    /// The time of the earliest event, and its link.
    #[inline(always)]
    pub fn first(&self) -> (u64, u32) {
        let first = self.nodes[1];
        ((first >> 64) as u64, first as u32 & ((1 << LINK_BITS) - 1))
    }

    /// When a link has something to do.
    pub fn time(&self, link: u32) -> u64 {
        (self.nodes[self.leaves + link as usize] >> 64) as u64
    }

    /// A link's next event is at another time.
    #[inline(always)]
    pub fn set(&mut self, link: u32, time: u64) {
        let mut at = self.leaves + link as usize;
        if time == NEVER && self.nodes[at] >> 64 == u128::from(NEVER) {
            return;
        }
        self.set += 1;
        let mut earlier = entry(time, self.set, link);
        self.nodes[at] = earlier;
        while at > 1 {
            earlier = earlier.min(self.nodes[at ^ 1]);
            at /= 2;
            if self.nodes[at] == earlier {
                return; // as before, and so is everything above
            }
            self.nodes[at] = earlier;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_single_link_has_a_clock() {
        let mut clock = Tournament::new(1);
        assert_eq!(clock.first().0, NEVER);
        clock.set(0, 7);
        assert_eq!(clock.first(), (7, 0));
    }

    proptest! {
        #[test]
        fn the_earliest_of_all_links_goes_first(
            links in 1u32..40,
            changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0u64..20, Just(NEVER)]), 1..200),
        ) {
            let mut clock = Tournament::new(links);
            let mut times = vec![(NEVER, 0); links as usize];
            for (order, (link, time)) in changes.into_iter().enumerate() {
                let link = link.index(links as usize);
                times[link] = (time, order);
                clock.set(link as u32, time);
                let (link, &(time, _)) = times.iter().enumerate().min_by_key(|&(_, at)| at).expect("a link");
                prop_assert_eq!(clock.first().0, time);
                if time < NEVER {
                    prop_assert_eq!(clock.first().1, link as u32);
                }
            }
        }
    }
}
