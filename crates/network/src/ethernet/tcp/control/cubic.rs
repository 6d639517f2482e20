//! CUBIC (RFC 9438): after a loss the window follows a cubic function of time around its size before the loss.
//!
//! That of ns-3.37 ends slow start when acknowledgements have come for longer than a round trip takes (hybrid slow start, "ack
//! train"), where it knows round trips to the millisecond, so that those of a data centre take no time. Until the first loss it
//! grows by at least a segment per twenty acknowledgements, and it never follows Reno.

use super::{Acked, TcpConfig, Window, newreno};
use crate::ethernet::tcp::Dialect;
use syncline_core::Ps;
use syncline_core::units::PS_PER_S;

/// How fast the window grows, in segments per cubic second (section 5).
const C: f64 = 0.4;
/// What is left of the window after a loss (section 4.6).
const BETA: f64 = 0.7;
/// The growth of a Reno-like window per round trip that gives as much as Reno has (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Segments of the window from which hybrid slow start may end it.
const TRAIN: u64 = 16;
/// The most acknowledgements for a segment before the first loss, in ns-3.37.
const SLOWEST: f64 = 20.0;

/// What a sender knows of its losses. Windows are in segments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cubic {
    /// When the present round trip of slow start began, and the byte whose acknowledgement ends it.
    round: (Ps, u64),
    /// The shortest round trip, as far as the clock tells.
    shortest: Option<Ps>,
    /// Whether there was a loss.
    has_lost: bool,
    /// W_max: the window before the last loss.
    most: f64,
    /// The present stage of congestion avoidance, if there is one.
    epoch: Option<Epoch>,
}

/// Congestion avoidance since the last loss.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Epoch {
    began: Ps,
    /// Seconds until the window is W_max again (K, equation 2).
    k: f64,
    /// W_est: the window that Reno would have (section 4.3).
    reno: f64,
    /// Smallest round trip that was seen.
    rtt: f64,
}

impl Cubic {
    /// New bytes were acknowledged.
    pub fn grow(&mut self, window: &mut Window, acked: &Acked, config: &TcpConfig) {
        if window.cwnd < window.ssthresh {
            newreno::grow(window, acked, config);
            if config.dialect == Dialect::Ns3 {
                self.look_for_train(window, acked, config);
            }
            return;
        }
        let segment = f64::from(config.segment);
        let cwnd = window.cwnd as f64 / segment;
        // Without a loss before, the present window is the plateau (section 4.8).
        let most = if self.epoch.is_none() { self.most.max(cwnd) } else { self.most };
        self.most = most;
        let begun = || Epoch { began: acked.now, k: ((most - cwnd) / C).cbrt(), reno: cwnd, rtt: 0.0 };
        let epoch = self.epoch.get_or_insert_with(begun);
        if let Some(rtt) = acked.rtt {
            let rtt = rtt.as_s();
            epoch.rtt = if epoch.rtt == 0.0 { rtt } else { epoch.rtt.min(rtt) };
        }
        let t = (acked.now - epoch.began).0 as f64 / PS_PER_S as f64;
        let k = epoch.k;
        let at = |t: f64| C * (t - k).powi(3) + most; // equation 1
        let acked_segments = acked.bytes as f64 / segment;
        let alpha = if epoch.reno < most { ALPHA } else { 1.0 };
        epoch.reno += alpha * acked_segments / cwnd; // equation 4
        let target = at(t + epoch.rtt).clamp(cwnd, 1.5 * cwnd); // section 4.2
        let follows_reno = config.dialect == Dialect::Rfc && at(t) < epoch.reno;
        let new = if follows_reno { epoch.reno } else { cwnd + (target - cwnd) / cwnd * acked_segments };
        let least = if config.dialect == Dialect::Ns3 && !self.has_lost { cwnd + 1.0 / SLOWEST } else { cwnd };
        window.cwnd = (new.max(least) * segment) as u64;
    }

    /// Ends slow start when acknowledgements have come for longer than a round trip takes.
    fn look_for_train(&mut self, window: &mut Window, acked: &Acked, config: &TcpConfig) {
        if let Some(Ps(rtt)) = acked.rtt {
            let rtt = Ps(rtt - rtt % config.granularity.0);
            self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        }
        if acked.una > self.round.1 {
            self.round = (acked.now, acked.nxt);
        } else if let Some(shortest) = self.shortest.filter(|_| window.cwnd >= TRAIN * u64::from(config.segment))
            && acked.now - self.round.0 > shortest
        {
            window.ssthresh = window.cwnd;
        }
    }

    /// The window after a loss (sections 4.6, 4.7).
    pub fn threshold(&mut self, window: &Window, config: &TcpConfig) -> u64 {
        let segment = f64::from(config.segment);
        let cwnd = window.cwnd as f64 / segment;
        // A flow that could not come back to its window before leaves room to others (fast convergence).
        self.most = if cwnd < self.most { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.epoch = None;
        self.has_lost = true;
        ((cwnd * BETA * segment) as u64).max(2 * u64::from(config.segment))
    }

    /// After a timeout the window grows anew from where slow start ends (section 4.8).
    pub fn on_timeout(&mut self) {
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1000;

    /// Acknowledgements of a full window per round trip, without a loss, from a window of 70 after one at 100.
    fn after_a_loss(rtt: Ps, seconds: f64) -> f64 {
        let config = TcpConfig { segment: SEGMENT as u32, ..TcpConfig::RFC };
        let mut cubic = Cubic::default();
        let cwnd = cubic.threshold(&Window { cwnd: 100 * SEGMENT, ssthresh: 0 }, &config);
        let mut window = Window { cwnd, ssthresh: cwnd };
        assert_eq!(cwnd, 70 * SEGMENT);
        let (mut now, mut una) = (0, 0);
        while Ps(now).as_s() < seconds {
            let segments = window.cwnd / SEGMENT;
            for i in 0..segments {
                una += SEGMENT;
                let now = Ps(now + rtt.0 * i / segments);
                let acked = Acked { now, bytes: SEGMENT, una, nxt: una, rtt: Some(rtt), marked: false };
                cubic.grow(&mut window, &acked, &config);
            }
            now += rtt.0;
        }
        window.cwnd as f64 / SEGMENT as f64
    }

    /// The window is at its plateau after K = cbrt(100 (1 - 0.7) / 0.4) = 4.2 s, and beyond it at twice that time.
    #[test]
    fn the_window_follows_the_cubic_function() {
        let rtt = Ps(PS_PER_S / 10);
        let k = (30.0_f64 / C).cbrt();
        let mid = C * (k / 2.0 - k).powi(3) + 100.0;
        assert!((after_a_loss(rtt, k / 2.0) - mid).abs() < 3.0, "{} {mid}", after_a_loss(rtt, k / 2.0));
        assert!((after_a_loss(rtt, k) - 100.0).abs() < 3.0);
        assert!(after_a_loss(rtt, 2.0 * k) > 120.0);
    }

    /// With round trips of data centres Reno grows faster, and is followed.
    #[test]
    fn it_is_no_slower_than_reno() {
        let rtt = Ps(PS_PER_S / 10_000);
        // 0.53 segments per round trip up to the plateau.
        assert!((after_a_loss(rtt, 0.005) - (70.0 + ALPHA * 50.0)).abs() < 3.0, "{}", after_a_loss(rtt, 0.005));
    }
}
