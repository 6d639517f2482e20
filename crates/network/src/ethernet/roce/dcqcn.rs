//! DCQCN: the rate of a sender, by the marks that its receiver tells of (Zhu et al., "Congestion Control for Large-Scale RDMA
//! Deployments", SIGCOMM 2015, section 3 and Figure 7).
//!
//! A notification cuts the rate, and the timers and the byte counter that follow let it grow again. Nothing depends on the rate
//! but when the next frame may leave, so that what timers have done is worked out when that is asked.

use syncline_core::{Ps, Rate};

/// Parameters of the sender (reaction point) and the receiver (notification point).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DcqcnConfig {
    /// Weight of a notification in the estimate of congestion (g).
    pub gain: f64,
    /// A receiver tells of marks once in this time at most (N).
    pub notification: Ps,
    /// The estimate falls when no notification has come for this time (K).
    pub alpha_timer: Ps,
    /// The rate grows each time that this time is over (T).
    pub rate_timer: Ps,
    /// The rate grows each time that so many bytes were sent (B).
    pub byte_counter: u64,
    /// Rounds of fast recovery before the target grows (F).
    pub rounds: u32,
    /// What the target grows by in additive increase, in bytes per second (R_AI).
    pub additive: f64,
    /// What it grows by in hyper increase, times the rounds of that (R_HAI of 802.1Qau, from which the paper takes the phase).
    pub hyper: f64,
    /// Least rate, in bytes per second.
    pub least: f64,
}

impl DcqcnConfig {
    /// The published parameters (section 5.2 and Figure 14 of the paper). It gives none for hyper increase and for the least
    /// rate: ten times the additive increase, as in 802.1Qau, and a single step of it.
    pub const PUBLISHED: DcqcnConfig = DcqcnConfig {
        gain: 1.0 / 256.0,
        notification: Ps(50_000_000),
        alpha_timer: Ps(55_000_000),
        rate_timer: Ps(55_000_000),
        byte_counter: 10_000_000,
        rounds: 5,
        additive: 5e6,
        hyper: 50e6,
        least: 5e6,
    };
}

/// The rate of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dcqcn {
    /// The rate of the link, in bytes per second: no connection is faster.
    line: f64,
    /// The present rate (R_C) and the one that it returns to (R_T).
    current: f64,
    target: f64,
    /// The estimate of congestion.
    alpha: f64,
    /// When the estimate falls next, and when the rate grows next.
    falls_at: u64,
    grows_at: u64,
    /// Bytes since the byte counter was last full.
    bytes: u64,
    /// How often the timer has expired and the byte counter was full since the last notification.
    by_timer: u32,
    by_bytes: u32,
    /// Whether the rate is below the link's.
    limits: bool,
}

impl Dcqcn {
    /// A connection that begins at the rate of its link (section 3.3: there is no slow start).
    pub fn new(line: Rate) -> Dcqcn {
        let line = line.bytes_per_s() as f64;
        Dcqcn {
            line,
            current: line,
            target: line,
            alpha: 1.0,
            falls_at: u64::MAX,
            grows_at: u64::MAX,
            bytes: 0,
            by_timer: 0,
            by_bytes: 0,
            limits: false,
        }
    }

    /// A notification has come: the rate falls (equation 1).
    pub fn notified(&mut self, now: u64, config: &DcqcnConfig) {
        self.advance(now, config);
        self.target = self.current;
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(config.least.min(self.line));
        self.alpha = (1.0 - config.gain) * self.alpha + config.gain;
        self.falls_at = now + config.alpha_timer.0;
        self.grows_at = now + config.rate_timer.0;
        (self.bytes, self.by_timer, self.by_bytes) = (0, 0, 0);
        self.limits = true;
    }

    /// So many bytes leave. Returns how long they take at the present rate; zero if nothing but the link limits them.
    pub fn sent(&mut self, now: u64, bytes: u64, config: &DcqcnConfig) -> u64 {
        if !self.limits {
            return 0;
        }
        self.advance(now, config);
        self.bytes += bytes;
        while self.limits && self.bytes >= config.byte_counter {
            self.bytes -= config.byte_counter;
            self.by_bytes += 1;
            self.grow(config);
        }
        if self.limits { (bytes as f64 * 1e12 / self.current).ceil() as u64 } else { 0 }
    }

    /// The present rate, in bytes per second.
    pub fn rate(&mut self, now: u64, config: &DcqcnConfig) -> f64 {
        self.advance(now, config);
        self.current
    }

    /// What timers have done until now.
    fn advance(&mut self, now: u64, config: &DcqcnConfig) {
        while self.limits && self.grows_at <= now {
            self.grows_at += config.rate_timer.0;
            self.by_timer += 1;
            self.grow(config);
        }
        // Equation 2.
        while self.falls_at <= now && self.alpha > 0.0 {
            self.falls_at += config.alpha_timer.0;
            self.alpha *= 1.0 - config.gain;
            if self.alpha < 1e-12 {
                self.alpha = 0.0;
            }
        }
    }

    /// Fast recovery, additive or hyper increase, by how many rounds there were (Figure 7; equations 3 and 4).
    fn grow(&mut self, config: &DcqcnConfig) {
        let (most, least) = (self.by_timer.max(self.by_bytes), self.by_timer.min(self.by_bytes));
        if least > config.rounds {
            self.target += f64::from(least - config.rounds) * config.hyper;
        } else if most > config.rounds {
            self.target += config.additive;
        }
        self.target = self.target.min(self.line);
        self.current = f64::midpoint(self.target, self.current);
        if self.line - self.current < 1e-3 * self.line && self.target >= self.line {
            self.current = self.line;
            self.limits = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: DcqcnConfig = DcqcnConfig::PUBLISHED;
    const US: u64 = 1_000_000;

    fn fresh() -> Dcqcn {
        Dcqcn::new(Rate::new(5_000_000_000).expect("40 Gb/s"))
    }

    #[test]
    fn the_first_notification_halves_the_rate() {
        let mut rate = fresh();
        assert_eq!(rate.sent(0, 1000, &CONFIG), 0);
        rate.notified(0, &CONFIG);
        assert_eq!((rate.current, rate.target, rate.alpha), (2.5e9, 5e9, 1.0));
        assert_eq!(rate.sent(0, 1000, &CONFIG), 400_000);
    }

    /// Five rounds of the timer halve the distance to the target each (equation 3); the estimate falls by 1/256 each.
    #[test]
    fn fast_recovery_returns_to_the_target() {
        let mut rate = fresh();
        rate.notified(0, &CONFIG);
        rate.notified(0, &CONFIG); // The target is what the first one has left.
        for round in 1..=5 {
            let expected = 2.5e9 - 1.25e9 / f64::from(1 << round);
            assert!((rate.rate(u64::from(round as u32) * 55 * US, &CONFIG) - expected).abs() < 1.0);
        }
        assert!((rate.alpha - (255.0_f64 / 256.0).powi(5)).abs() < 1e-9);
        // Then the target grows by 40 Mb/s.
        rate.rate(6 * 55 * US, &CONFIG);
        assert_eq!(rate.target, 2.5e9 + 5e6);
    }

    /// With more than five rounds of both the timer and the byte counter.
    #[test]
    fn hyper_increase_needs_both() {
        let mut rate = fresh();
        rate.notified(0, &CONFIG);
        rate.notified(0, &CONFIG);
        (0..7).for_each(|_| {
            rate.sent(1, CONFIG.byte_counter, &CONFIG);
        });
        assert_eq!(rate.target, 2.5e9 + 2.0 * 5e6); // rounds 6 and 7 are additive
        rate.rate(6 * 55 * US, &CONFIG);
        assert_eq!(rate.target, 2.5e9 + 7.0 * 5e6 + 50e6); // five more, and a hyper one
    }

    /// A notification begins everything anew: bytes that were counted before it, and rounds of counter and timer (Figure 7).
    #[test]
    fn the_byte_counter_begins_anew_with_a_notification() {
        let most = CONFIG.byte_counter;
        let mut rate = fresh();
        rate.notified(0, &CONFIG);
        rate.sent(1, 3 * most + most - 1, &CONFIG);
        assert_eq!((rate.by_bytes, rate.bytes), (3, most - 1));
        rate.notified(2, &CONFIG);
        let cut = rate.current;
        rate.sent(3, most - 1, &CONFIG);
        assert_eq!(rate.current, cut, "what was sent before the notification does not count");
        rate.sent(4, 1, &CONFIG);
        assert_eq!((rate.by_bytes, rate.current), (1, f64::midpoint(rate.target, cut)));
        // Five rounds of fast recovery are due again, in which the target stays.
        let target = rate.target;
        rate.sent(5, 4 * most, &CONFIG);
        assert_eq!((rate.by_bytes, rate.target), (5, target));
        rate.sent(6, most, &CONFIG);
        assert_eq!(rate.target, target + CONFIG.additive);
    }

    /// The timer begins anew as well.
    #[test]
    fn the_timer_begins_anew_with_a_notification() {
        let mut rate = fresh();
        rate.notified(0, &CONFIG);
        rate.rate(4 * 55 * US, &CONFIG);
        rate.notified(4 * 55 * US + 54 * US, &CONFIG);
        let (cut, target) = (rate.current, rate.target);
        assert_eq!(rate.rate(4 * 55 * US + 108 * US, &CONFIG), cut, "55 us have not passed since");
        assert_eq!(rate.rate(4 * 55 * US + 109 * US, &CONFIG), f64::midpoint(target, cut));
        assert_eq!((rate.by_timer, rate.target), (1, target));
    }

    /// The estimate falls 55 us after the last notification, not after the first (equation 2).
    #[test]
    fn a_notification_puts_off_the_fall_of_the_estimate() {
        let mut rate = fresh();
        rate.notified(0, &CONFIG);
        rate.rate(55 * US, &CONFIG);
        rate.notified(100 * US, &CONFIG);
        let alpha = rate.alpha;
        rate.rate(154 * US, &CONFIG);
        assert_eq!(rate.alpha, alpha);
        rate.rate(155 * US, &CONFIG);
        assert_eq!(rate.alpha, alpha * (1.0 - CONFIG.gain));
    }

    #[test]
    fn it_ends_at_the_rate_of_the_link_and_is_never_below_the_least() {
        let mut rate = fresh();
        (0..10_000).for_each(|_| rate.notified(0, &CONFIG));
        assert_eq!(rate.current, CONFIG.least);
        assert_eq!(rate.rate(1_000_000 * US, &CONFIG), 5e9);
        assert!(!rate.limits);
    }
}
