//! Slow start and congestion avoidance of RFC 5681, which NewReno (RFC 6582) keeps.

use super::{Acked, TcpConfig, Window};
use crate::ethernet::tcp::Dialect;

/// New bytes were acknowledged (section 3.1).
#[inline(always)]
pub fn grow(window: &mut Window, acked: &Acked, config: &TcpConfig) {
    let segment = u64::from(config.segment);
    if window.cwnd < window.ssthresh {
        // Equation 2.
        window.cwnd += if config.dialect == Dialect::Rfc { acked.bytes.min(segment) } else { segment };
    } else {
        // Equation 3.
        window.cwnd += (segment * segment / window.cwnd).max(1);
    }
}

/// The threshold after a loss with `flight` bytes in flight (equation 4).
pub fn threshold(flight: u64, config: &TcpConfig) -> u64 {
    (flight / 2).max(2 * u64::from(config.segment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_core::Ps;

    fn acked(bytes: u64) -> Acked {
        Acked { now: Ps(0), bytes, una: 0, nxt: 0, rtt: None, marked: false }
    }

    #[test]
    fn the_window_doubles_in_slow_start_and_gains_a_segment_per_round_trip_after_it() {
        let config = TcpConfig { segment: 1000, ..TcpConfig::RFC };
        let mut window = Window { cwnd: 10_000, ssthresh: 20_000 };
        (0..10).for_each(|_| grow(&mut window, &acked(1000), &config));
        assert_eq!(window.cwnd, 20_000);
        (0..20).for_each(|_| grow(&mut window, &acked(1000), &config));
        assert!((20_900..=21_000).contains(&window.cwnd), "{}", window.cwnd);
    }

    #[test]
    fn small_acknowledgements_count_as_they_are_unless_bytes_are_not_counted() {
        let mut window = Window { cwnd: 10_000, ssthresh: 20_000 };
        grow(&mut window, &acked(10), &TcpConfig { segment: 1000, ..TcpConfig::RFC });
        assert_eq!(window.cwnd, 10_010);
        grow(&mut window, &acked(10), &TcpConfig { segment: 1000, ..TcpConfig::NS3 });
        assert_eq!(window.cwnd, 11_010);
    }

    #[test]
    fn a_loss_halves_what_is_in_flight() {
        let config = TcpConfig { segment: 1000, ..TcpConfig::RFC };
        assert_eq!((threshold(50_000, &config), threshold(3000, &config)), (25_000, 2000));
    }
}
