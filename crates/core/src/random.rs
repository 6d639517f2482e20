//! Random numbers that do not depend on the order of events.
//!
//! The numbers from a generator with a state depend on which entity drew before. Here a number is a function of the seed of
//! the run, of the entity that draws it, and of how many numbers that entity has drawn. So an entity gets the same numbers
//! whatever others do, and whatever order simultaneous events have.

use crate::queue::SplitMix64;

/// The random numbers of one entity: a link, a connection, a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomStream(u64);

impl RandomStream {
    /// The numbers of an entity, which is named by what tells it from all others, in a run of a seed.
    pub fn new(seed: u64, entity: &[u64]) -> RandomStream {
        RandomStream(entity.iter().fold(mix(seed), |key, &part| mix(key ^ mix(part))))
    }

    /// The number that the entity draws after `drawn` others.
    pub fn number(self, drawn: u64) -> u64 {
        mix(self.0 ^ mix(drawn))
    }

    /// A whole number below `bound`, all of them equally likely to within `bound` in 2^64; 0 if there is none.
    pub fn below(self, drawn: u64, bound: u64) -> u64 {
        // The high half of the product.
        ((u128::from(self.number(drawn)) * u128::from(bound)) >> 64) as u64
    }

    /// Whether something happens to the entity at that draw that happens in `times` of `of` cases.
    ///
    /// # Panics
    /// If it happens more often than always.
    pub fn happens(self, drawn: u64, times: u32, of: u32) -> bool {
        assert!(times <= of, "{times} of {of} cases");
        self.below(drawn, of.into()) < times.into()
    }
}

fn mix(value: u64) -> u64 {
    SplitMix64(value).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_seed_entity_and_draw_alone() {
        let one = RandomStream::new(7, &[1, 2]);
        assert_eq!(one.number(3), RandomStream::new(7, &[1, 2]).number(3));
        for other in [
            RandomStream::new(8, &[1, 2]),
            RandomStream::new(7, &[2, 1]),
            RandomStream::new(7, &[1]),
            RandomStream::new(7, &[1, 2, 0]),
        ] {
            assert_ne!(one.number(3), other.number(3));
        }
        assert_ne!(one.number(3), one.number(4));
    }

    #[test]
    fn things_happen_as_often_as_they_should() {
        let stream = RandomStream::new(1, &[]);
        let hits = (0..1_000_000).filter(|&drawn| stream.happens(drawn, 1, 100)).count();
        assert!(hits.abs_diff(10_000) < 500, "{hits}"); // five standard deviations
        assert!((0..1000).all(|drawn| stream.happens(drawn, 1, 1) && !stream.happens(drawn, 0, 1)));
    }

    /// Neighbouring entities and draws have nothing in common: each bit differs in half of all cases.
    #[test]
    fn neighbours_are_independent() {
        let differing = |a: u64, b: u64| (a ^ b).count_ones();
        let pairs = (0..10_000u64).map(|i| {
            let (mine, next) = (RandomStream::new(1, &[i]), RandomStream::new(1, &[i + 1]));
            differing(mine.number(i), next.number(i)) + differing(mine.number(i), mine.number(i + 1))
        });
        let mean = f64::from(pairs.sum::<u32>()) / 20_000.0;
        assert!((mean - 32.0).abs() < 0.2, "{mean}");
    }
}
