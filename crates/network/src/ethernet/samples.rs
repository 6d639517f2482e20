//! How the state of chosen connections develops, in a bounded number of samples.

/// The state of a sender when it has heard of the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at: u64,
    /// Congestion window and slow-start threshold of TCP; `None` of a queue pair, and of a threshold that was never reached.
    pub cwnd: Option<u64>,
    /// The slow-start threshold.
    pub ssthresh: Option<u64>,
    /// The rate of a queue pair, in bytes per second.
    pub rate: Option<u64>,
    /// The round trip that was measured, if one was.
    pub trip: Option<u64>,
    /// Bytes that are not acknowledged.
    pub flight: u64,
}

/// Samples of a connection: all of them, or every second, fourth and so on.
#[derive(Clone, Debug)]
pub struct Samples {
    every: u64,
    seen: u64,
    kept: Vec<Sample>,
}

/// The most samples of a connection.
const MOST: usize = 1 << 15;

impl Samples {
    /// None so far.
    pub fn new() -> Samples {
        Samples { every: 1, seen: 0, kept: Vec::new() }
    }

    /// There is another one.
    pub fn add(&mut self, sample: Sample) {
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == MOST {
                let mut number = 0;
                self.kept.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.every *= 2;
            }
            if self.seen.is_multiple_of(self.every) {
                self.kept.push(sample);
            }
        }
        self.seen += 1;
    }

    /// Those that were kept.
    pub fn all(&self) -> &[Sample] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_series_are_thinned_out_evenly() {
        let mut samples = Samples::new();
        for at in 0..5 * MOST as u64 {
            samples.add(Sample { at, cwnd: None, ssthresh: None, rate: None, trip: None, flight: 0 });
        }
        assert!(samples.all().len() <= MOST && samples.all().len() > MOST / 2);
        assert!(samples.all().iter().enumerate().all(|(i, sample)| sample.at == 8 * i as u64));
    }
}
