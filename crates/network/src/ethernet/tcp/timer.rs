//! The retransmission timeout (RFC 6298).

use super::TcpConfig;
use syncline_core::Ps;

/// What is known of the round-trip time of a connection, and the timeout that follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    smoothed: u64,
    variation: u64,
    /// How often the timeout has been doubled since the last measurement (rule 5.5).
    pub doubled: u32,
}

impl RoundTrip {
    /// After the first measurement, which the handshake made (rule 2.2).
    pub fn first(measured: Ps) -> RoundTrip {
        RoundTrip { smoothed: measured.0, variation: measured.0 / 2, doubled: 0 }
    }

    /// A segment that was sent once has been acknowledged after so long (rule 2.3, with alpha = 1/8 and beta = 1/4).
    #[inline]
    pub fn measure(&mut self, measured: Ps) {
        let off = self.smoothed.abs_diff(measured.0);
        self.variation = self.variation - self.variation / 4 + off / 4;
        self.smoothed = self.smoothed - self.smoothed / 8 + measured.0 / 8;
    }

    /// The smoothed round-trip time.
    pub fn smoothed(&self) -> Ps {
        Ps(self.smoothed)
    }

    /// The present timeout (rules 2.3 to 2.5 and 5.5).
    #[inline]
    pub fn timeout(&self, config: &TcpConfig) -> Ps {
        let timeout = self.smoothed + config.granularity.0.max(4 * self.variation);
        let timeout = timeout.max(config.min_rto.0);
        let doubled = u128::from(timeout) << self.doubled.min(40);
        Ps(u64::try_from(doubled).unwrap_or(u64::MAX).min(config.max_rto.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    #[test]
    fn the_timeout_follows_mean_and_variation() {
        let config = TcpConfig { min_rto: Ps(0), granularity: Ps(MS), ..TcpConfig::RFC };
        let mut trip = RoundTrip::first(Ps(100 * MS));
        assert_eq!(trip.timeout(&config), Ps(300 * MS)); // R + 4 R/2
        trip.measure(Ps(180 * MS));
        // RTTVAR = 3/4 50 + 1/4 80 = 57.5; SRTT = 7/8 100 + 1/8 180 = 110.
        assert_eq!(trip.timeout(&config), Ps(340 * MS));
        assert_eq!(trip.smoothed(), Ps(110 * MS));
    }

    #[test]
    fn it_has_bounds_and_doubles_between_them() {
        let mut trip = RoundTrip::first(Ps(1000));
        assert_eq!(trip.timeout(&TcpConfig::RFC), Ps(50 * MS));
        trip.doubled = 3;
        assert_eq!(trip.timeout(&TcpConfig::RFC), Ps(400 * MS));
        trip.doubled = 60;
        assert_eq!(trip.timeout(&TcpConfig::RFC), Ps(60_000 * MS));
    }
}
