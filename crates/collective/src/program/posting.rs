//! The order in which a rank of a direct algorithm posts its messages to the others.
//!
//! Whatever order it posts in, a rank takes what arrives in the rotated order, so that a sender knows which step takes
//! its message without knowing what others do.

use syncline_core::random::RandomStream;

/// The order in which a rank posts its messages to the others. It is the same in both rounds of an all-reduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Posting {
    /// The nearest first, `r + 1, r - 1, r + 2, ...` modulo the ranks: no two ranks turn to the same one at a time.
    #[default]
    Rotated,
    /// By number, `0, 1, 2, ...`: all ranks turn to the same one at a time.
    Sequential,
    /// In an order of its own for every rank, drawn from this seed.
    Random(u64),
}

impl Posting {
    /// The rank to which `rank` of `ranks` posts its message number `turn`, from 0.
    #[inline]
    pub fn peer(self, ranks: u32, rank: u32, turn: u32) -> u32 {
        let above = match self {
            Posting::Rotated => displacement(ranks, turn),
            Posting::Sequential => return turn + u32::from(turn >= rank),
            Posting::Random(seed) => 1 + shuffled(RandomStream::new(seed, &[ENTITY, rank.into()]), ranks - 1, turn),
        };
        let peer = u64::from(rank) + u64::from(above);
        (peer % u64::from(ranks)) as u32
    }
}

/// How far up the rank is that has a turn on a line: 1, then `ranks - 1`, then 2, ...
#[inline]
pub(super) fn displacement(ranks: u32, turn: u32) -> u32 {
    if turn.is_multiple_of(2) { turn / 2 + 1 } else { ranks - turn.div_ceil(2) }
}

/// What tells the random numbers of posting orders from those of others: "posting" in ASCII.
const ENTITY: u64 = 0x70_6f_73_74_69_6e_67;

/// Where a random permutation of the numbers below `count` leads one of them, without keeping the permutation.
///
/// A swap-or-not shuffle (Hoang, Morris and Rogaway, "An enciphering scheme based on a card shuffle", CRYPTO 2012): every
/// round pairs each number with its mirror image at a random place, and throws a coin for every pair whether they swap. As
/// many rounds as six times the bits of `count` are enough for their proof, and twelve more where there are few of these.
fn shuffled(stream: RandomStream, count: u32, index: u32) -> u32 {
    let count = u64::from(count);
    let rounds = 12 + 6 * u64::from(u64::BITS - count.leading_zeros());
    (0..rounds).fold(u64::from(index), |at, round| {
        let mirror = (stream.below(round, count) + count - at) % count;
        let coin = (round + 1) << u32::BITS | at.max(mirror);
        if stream.happens(coin, 1, 2) { mirror } else { at }
    }) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn order(posting: Posting, ranks: u32, rank: u32) -> Vec<u32> {
        (0..ranks - 1).map(|turn| posting.peer(ranks, rank, turn)).collect()
    }

    #[test]
    fn a_rank_posts_to_every_other_one_once() {
        for posting in [Posting::Rotated, Posting::Sequential, Posting::Random(0), Posting::Random(u64::MAX)] {
            for (ranks, rank) in (1..70).flat_map(|ranks| (0..ranks).map(move |rank| (ranks, rank))) {
                let mut peers = order(posting, ranks, rank);
                peers.sort_unstable();
                let others: Vec<u32> = (0..ranks).filter(|&peer| peer != rank).collect();
                assert_eq!(peers, others, "{posting:?} on {ranks}");
            }
            // The largest group whose steps are counted in 32 bits four times over.
            let ranks = u32::MAX / 4;
            assert!([0, 1, ranks / 2, ranks - 2].into_iter().all(|turn| posting.peer(ranks, ranks - 1, turn) < ranks));
        }
    }

    #[test]
    fn orders_are_what_they_are_called() {
        assert_eq!(order(Posting::Rotated, 6, 4), [5, 3, 0, 2, 1]);
        assert_eq!(order(Posting::Sequential, 6, 4), [0, 1, 2, 3, 5]);
        let random = |seed, rank| order(Posting::Random(seed), 40, rank);
        assert_eq!(random(1, 7), random(1, 7));
        assert_ne!(random(1, 7), random(2, 7), "another seed");
        let away = |rank: u32| random(1, rank).into_iter().map(|peer| (peer + 40 - rank) % 40).collect::<Vec<u32>>();
        assert_ne!(away(7), away(8), "every rank has an order of its own");
    }

    /// Every order of a few ranks is as likely as any other: chi-square tests that a fair one fails once in a million.
    #[test]
    fn all_orders_are_equally_likely() {
        for (ranks, orders, most) in [(3u32, 2u32, 24.0), (4, 6, 37.0), (5, 24, 69.0), (6, 120, 203.0)] {
            let mut seen: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
            let draws = 400 * orders;
            for seed in 0..draws {
                *seen.entry(order(Posting::Random(seed.into()), ranks, 1)).or_default() += 1;
            }
            assert_eq!(seen.len(), orders as usize);
            let expected = f64::from(draws) / f64::from(orders);
            let chi_square: f64 = seen.values().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
            assert!(chi_square < most, "{ranks} ranks: {chi_square}");
        }
    }

    /// At any time, ranks turn to others as if each had thrown dice: so many of them to the most frequent.
    #[test]
    fn random_orders_of_ranks_are_independent() {
        let ranks = 64;
        let mut at_most = 0;
        let mut alone = 0;
        for turn in 0..ranks - 1 {
            let mut senders = vec![0u32; ranks as usize];
            (0..ranks).for_each(|rank| senders[Posting::Random(5).peer(ranks, rank, turn) as usize] += 1);
            at_most += senders.iter().max().unwrap();
            alone += senders.iter().filter(|&&n| n == 0).count();
        }
        let turns = f64::from(ranks - 1);
        let (mean, idle) = (f64::from(at_most) / turns, alone as f64 / turns);
        // 64 balls in 64 bins: (1 - 1/64)^64 of them stay empty, and the fullest holds 4.2 in the mean.
        assert!((idle - 64.0 * (1.0f64 - 1.0 / 64.0).powi(64)).abs() < 1.0, "{idle}");
        assert!((3.7..4.8).contains(&mean), "{mean}");
    }
}
