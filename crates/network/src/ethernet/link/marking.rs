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
