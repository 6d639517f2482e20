//! When switches mark frames.

use syncline_core::random::RandomStream;

/// When a switch marks frames that may be marked (RFC 3168, section 5), by how much waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// Never.
    None,
    /// Frames that find more bytes than these waiting (DCTCP, RFC 8257, section 3.1).
    Step(u64),
    /// None below the first size, all above the second, and between them with a probability that grows from zero to the one
    /// that is given (random early detection on the present length, as DCQCN, section 3.1, has it).
    Red {
        /// Below so many bytes nothing is marked.
        least: u64,
        /// Above so many everything is.
        most: u64,
        /// The probability just below that, in millionths.
        millionths: u32,
    },
}

impl Marking {
    /// Whether that a frame is marked which finds so many bytes waiting depends on a number that is drawn.
    pub fn draws(self, waiting: u64) -> bool {
        matches!(self, Marking::Red { least, most, millionths } if waiting > least && waiting <= most && millionths > 0)
    }

    /// Whether a frame that finds so many bytes waiting is marked; `drawn` tells it from all others.
    pub fn marks(self, random: RandomStream, waiting: u64, drawn: u64) -> bool {
        match self {
            Marking::None => false,
            Marking::Step(size) => waiting > size,
            Marking::Red { least, most, millionths } => {
                if waiting <= least || waiting > most {
                    return waiting > most;
                }
                let share = u128::from(waiting - least) * u128::from(millionths) / u128::from(most - least);
                random.below(drawn, 1_000_000) < share as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 100,000 frames that find so much waiting are marked.
    fn marked(marking: Marking, waiting: u64) -> usize {
        let random = RandomStream::new(7, &[]);
        (0..100_000).filter(|&drawn| marking.marks(random, waiting, drawn)).count()
    }

    #[test]
    fn a_step_marks_what_finds_more_than_its_size() {
        assert_eq!([0, 1000, 1001].map(|waiting| marked(Marking::Step(1000), waiting)), [0, 0, 100_000]);
        assert!(![1000, 1001].map(|waiting| Marking::Step(1000).draws(waiting)).contains(&true));
    }

    #[test]
    fn between_two_sizes_the_share_grows_and_above_them_all_are_marked() {
        let red = Marking::Red { least: 1000, most: 3000, millionths: 400_000 };
        assert_eq!([0, 1000, 3001].map(|waiting| marked(red, waiting)), [0, 0, 100_000]);
        for (waiting, share) in [(1500, 10_000), (2000, 20_000), (3000, 40_000)] {
            assert!(marked(red, waiting).abs_diff(share) < 600, "{waiting}");
        }
        assert_eq!([1000, 1001, 3000, 3001].map(|waiting| red.draws(waiting)), [false, true, true, false]);
    }
}
