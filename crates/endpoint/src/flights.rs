//! How long messages are in the network.

use syncline_core::Ps;

/// Messages of all NPUs from the time when they are handed to the network until they have arrived.
///
/// Only the sums of both times are kept: their difference is the sum of the flights, whichever message is whose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flights {
    begun: u64,
    ended: u64,
    beginnings: u128,
    ends: u128,
}

impl Flights {
    /// A message is handed over; the first bytes of it, if it is a stream.
    #[inline]
    pub fn begin(&mut self, now: Ps) {
        self.begun += 1;
        self.beginnings += u128::from(now.0);
    }

    /// The last byte of a message has arrived.
    #[inline]
    pub fn end(&mut self, now: Ps) {
        self.ended += 1;
        self.ends += u128::from(now.0);
    }

    /// Messages so far.
    pub fn count(&self) -> u64 {
        self.begun
    }

    /// Time in the network until `now`, summed over messages, those still under way included.
    pub fn time(&self, now: Ps) -> u128 {
        let under_way = u128::from(self.begun - self.ended) * u128::from(now.0);
        self.ends + under_way - self.beginnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flights_add_up_whoever_arrives_first() {
        let mut flights = Flights::default();
        flights.begin(Ps(10));
        flights.begin(Ps(20));
        flights.end(Ps(25));
        assert_eq!((flights.count(), flights.time(Ps(30))), (2, 25));
        flights.end(Ps(90));
        assert_eq!(flights.time(Ps(100)), 85);
    }
}
