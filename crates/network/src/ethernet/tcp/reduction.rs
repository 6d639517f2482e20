//! Proportional rate reduction (RFC 6937, section 3).

/// How much a recovery has delivered and sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// prr_delivered: bytes that arrived since the recovery began, as far as acknowledgements tell.
    delivered: u64,
    /// prr_out: bytes that were sent since then.
    out: u64,
    /// RecoverFS: bytes that were in flight then.
    flight: u64,
}

impl Reduction {
    /// A recovery begins with so many bytes in flight.
    pub fn begin(flight: u64) -> Reduction {
        Reduction { delivered: 0, out: 0, flight: flight.max(1) }
    }

    /// Bytes were sent, new ones or again.
    pub fn sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// An acknowledgement says that `delivered` more bytes have arrived, and `pipe` are estimated to be in flight. Returns the
    /// new window. Below the target the slow start reduction bound is used if it `catches_up`, and otherwise no more is sent than
    /// arrives. The first segment is sent whatever else holds.
    pub fn window(&mut self, delivered: u64, pipe: u64, ssthresh: u64, segment: u64, catches_up: bool) -> u64 {
        self.delivered += delivered;
        let send = if pipe > ssthresh {
            let share = u128::from(self.delivered) * u128::from(ssthresh);
            let share = share.div_ceil(u128::from(self.flight));
            u64::try_from(share).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            let caught_up = self.delivered.saturating_sub(self.out).max(delivered) + segment;
            let limit = if catches_up { caught_up } else { delivered };
            limit.min(ssthresh - pipe)
        };
        pipe + if self.out == 0 { send.max(segment) } else { send }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty segments in flight, the first one lost, NewReno's half as the target: one segment goes for every two that arrive, and
    /// at the end as many are in flight as the target says (RFC 6937, section 4.1, first example).
    #[test]
    fn half_of_what_arrives_is_sent() {
        let mut reduction = Reduction::begin(20);
        let (mut pipe, mut sent) = (20 - 1, 0);
        for arrived in 3..20 {
            let delivered = if arrived == 3 { 3 } else { 1 };
            pipe -= delivered;
            let window = reduction.window(delivered, pipe, 10, 1, true);
            while pipe < window {
                pipe += 1;
                sent += 1;
                reduction.sent(1);
            }
        }
        assert_eq!((pipe, sent), (10, 10));
    }

    #[test]
    fn the_first_segment_always_goes() {
        let mut reduction = Reduction::begin(1000);
        assert_eq!(reduction.window(0, 900, 500, 100, true), 1000);
    }

    /// Below the target the window grows again, by one segment more than what arrives.
    #[test]
    fn below_the_target_it_catches_up() {
        let mut reduction = Reduction::begin(20);
        reduction.sent(1);
        assert_eq!(reduction.window(1, 3, 10, 1, true), 5);
        assert_eq!(reduction.window(1, 9, 10, 1, true), 10);
    }
}
