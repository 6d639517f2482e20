//! Times, such as those of round trips: counts by size of the time, with an error below one per cent.

use syncline_core::Ps;

/// Values below this have a count each, and so has every step of that many within a power of two above it.
const STEPS: u64 = 1 << 7;

/// Counts of times.
#[derive(Clone, Debug, Default)]
pub struct RoundTrips {
    counts: Vec<u64>,
    total: u64,
}

fn class_of(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = value.ilog2() - STEPS.ilog2();
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

/// The middle of the values of a class.
fn middle(class: usize) -> u64 {
    let class = class as u64;
    if class < 2 * STEPS {
        return class;
    }
    let shift = class / STEPS - 1;
    let least = (class % STEPS + STEPS) << shift;
    least + (1 << shift) / 2
}

impl RoundTrips {
    /// Something took so long.
    #[inline]
    pub fn add(&mut self, time: Ps) {
        let class = class_of(time.0);
        if class >= self.counts.len() {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] += 1;
        self.total += 1;
    }

    /// The same if each stands for so many.
    pub fn times(&self, copies: u64) -> RoundTrips {
        RoundTrips { counts: self.counts.iter().map(|count| count * copies).collect(), total: self.total * copies }
    }

    /// How many were measured.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// All classes in which anything is: the middle of each, and how many there are.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(class, &count)| (middle(class), count))
    }

    /// The time that so many of a hundred did not exceed; `None` if none was measured.
    pub fn percentile(&self, percent: u64) -> Option<Ps> {
        let rank = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let class = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Ps(middle(class)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(RoundTrips::default().percentile(50), None);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_times(times in prop::collection::vec(0u64..1 << 40, 1..200), percent in 0u64..=100) {
            let mut trips = RoundTrips::default();
            times.iter().for_each(|&time| trips.add(Ps(time)));
            let mut sorted = times;
            sorted.sort_unstable();
            let exact = sorted[((sorted.len() as u64 * percent).div_ceil(100).max(1) - 1) as usize];
            let got = trips.percentile(percent).expect("there are some").0;
            prop_assert!(got.abs_diff(exact) as f64 <= exact as f64 / 128.0, "{} {}", got, exact);
        }
    }
}
