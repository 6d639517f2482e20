//! What happened when, in a bounded number of windows of equal length.

/// The most windows, and the length that they begin with: a microsecond.
const MOST: usize = 1 << 13;
const LEAST: u64 = 1_000_000;

/// What happened in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The longest queue.
    pub peak: u64,
    /// Frames without a place, or lost on a wire.
    pub drops: u64,
    /// Retransmission timers that expired.
    pub timeouts: u64,
    /// Pauses that switches asked for.
    pub pauses: u64,
}

impl Window {
    fn with(self, other: Window) -> Window {
        Window {
            peak: self.peak.max(other.peak),
            drops: self.drops + other.drops,
            timeouts: self.timeouts + other.timeouts,
            pauses: self.pauses + other.pauses,
        }
    }
}

/// All windows. Their length doubles when there would be too many.
#[derive(Clone, Debug)]
pub struct Timeline {
    length: u64,
    windows: Vec<Window>,
    /// The present window, and when it ends.
    present: Window,
    at: usize,
    ends: u64,
}

impl Timeline {
    /// Windows of the shortest length.
    pub fn new() -> Timeline {
        Timeline::of(LEAST)
    }

    fn of(length: u64) -> Timeline {
        Timeline { length, windows: Vec::new(), present: Window::default(), at: 0, ends: length }
    }

    /// The window of a time, which is no earlier than others that were asked for.
    #[inline(always)]
    pub fn at(&mut self, now: u64) -> &mut Window {
        if now >= self.ends {
            self.turn(now);
        }
        &mut self.present
    }

    #[cold]
    fn turn(&mut self, now: u64) {
        self.keep();
        while now / self.length >= MOST as u64 {
            self.windows =
                self.windows.chunks(2).map(|pair| pair.iter().fold(Window::default(), |a, &b| a.with(b))).collect();
            self.length = self.length.saturating_mul(2);
        }
        self.at = (now / self.length) as usize;
        self.ends = (self.at as u64 + 1).saturating_mul(self.length);
        // Several may have become one.
        self.present = self.windows.get(self.at).copied().unwrap_or_default();
    }

    fn keep(&mut self) {
        if self.at >= self.windows.len() {
            self.windows.resize(self.at + 1, Window::default());
        }
        self.windows[self.at] = self.present;
    }

    /// When windows begin, and what happened in each, up to the last one in which anything did.
    pub fn all(&self) -> Vec<(u64, Window)> {
        let mut done = self.clone();
        done.keep();
        done.windows.into_iter().enumerate().map(|(i, window)| (i as u64 * self.length, window)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However far apart things happen, none is lost, and each is in its window.
        #[test]
        fn everything_is_in_its_window(pauses in prop::collection::vec(0u64..3_000_000, 1..60), length in 1u64..2000) {
            let mut timeline = Timeline::of(length);
            let mut times = Vec::new();
            let mut now = 0;
            for pause in pauses {
                now += pause;
                times.push(now);
                let window = timeline.at(now);
                window.drops += 1;
                window.peak = window.peak.max(now);
            }
            let all = timeline.all();
            prop_assert!(all.len() <= MOST);
            prop_assert_eq!(all.iter().map(|(_, window)| window.drops).sum::<u64>(), times.len() as u64);
            let length = timeline.length;
            for (start, window) in all {
                let within: Vec<u64> = times.iter().copied().filter(|time| (start..start + length).contains(time)).collect();
                prop_assert_eq!(window.drops, within.len() as u64);
                prop_assert_eq!(window.peak, within.last().copied().unwrap_or(0));
            }
        }
    }
}
