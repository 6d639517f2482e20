//! DCTCP (RFC 8257): a mark reduces the window by as much as the share of marked bytes says.

use super::{Acked, TcpConfig, Window};

/// One, as a share of marked bytes.
const ONE: u64 = 1 << 20;
/// The weight of the last window's share is 2 to the minus this (g = 1/16, section 4.2).
const GAIN_SHIFT: u32 = 4;

/// What a sender knows of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dctcp {
    /// The estimated share of bytes that are marked (DCTCP.Alpha, section 3.3), of [`ONE`].
    alpha: u64,
    /// Bytes acknowledged in the present window, and those of them that were marked.
    acked: u64,
    marked: u64,
    /// The window ends when this byte is acknowledged (DCTCP.WindowEnd).
    end: u64,
}

impl Default for Dctcp {
    /// Alpha is one at first, so that the first mark is not underestimated (section 4.2).
    fn default() -> Dctcp {
        Dctcp { alpha: ONE, acked: 0, marked: 0, end: 0 }
    }
}

impl Dctcp {
    /// New bytes were acknowledged (section 3.3, steps 1 to 8).
    #[inline]
    pub fn hear(&mut self, acked: &Acked) {
        self.acked += acked.bytes;
        if acked.marked {
            self.marked += acked.bytes;
        }
        if acked.una > self.end {
            let share = self.marked * ONE / self.acked.max(1);
            self.alpha = self.alpha - (self.alpha >> GAIN_SHIFT) + (share >> GAIN_SHIFT);
            (self.acked, self.marked, self.end) = (0, 0, acked.nxt);
        }
    }

    /// The window after a mark: cwnd (1 - alpha / 2) (section 3.4).
    pub fn threshold(&self, window: &Window, config: &TcpConfig) -> u64 {
        let less = u128::from(window.cwnd) * u128::from(self.alpha) / u128::from(2 * ONE);
        (window.cwnd - less as u64).max(2 * u64::from(config.segment))
    }

    /// The estimated share of marked bytes.
    pub fn alpha(&self) -> f64 {
        self.alpha as f64 / ONE as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_core::Ps;

    fn windows(dctcp: &mut Dctcp, windows: u64, marked_of_10: u64) {
        let mut una = dctcp.end;
        for _ in 0..windows * 10 {
            una += 1000;
            let marked = (una / 1000) % 10 < marked_of_10;
            dctcp.hear(&Acked { now: Ps(0), bytes: 1000, una, nxt: una + 9000, rtt: None, marked });
        }
    }

    #[test]
    fn alpha_tends_to_the_share_of_marked_bytes() {
        let mut dctcp = Dctcp::default();
        windows(&mut dctcp, 200, 3);
        assert!((dctcp.alpha() - 0.3).abs() < 0.01, "{}", dctcp.alpha());
        windows(&mut dctcp, 200, 0);
        assert!(dctcp.alpha() < 0.01, "{}", dctcp.alpha());
    }

    #[test]
    fn all_marked_halves_the_window_and_few_marks_hardly_reduce_it() {
        let mut dctcp = Dctcp::default();
        let window = Window { cwnd: 100_000, ssthresh: 0 };
        assert_eq!(dctcp.threshold(&window, &TcpConfig::RFC), 50_000);
        windows(&mut dctcp, 200, 1);
        assert!((94_000..96_000).contains(&dctcp.threshold(&window, &TcpConfig::RFC)));
    }
}
