//! What layers report about themselves.

use crate::units::Ps;

/// A part of the simulation that cannot go on, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waits, e.g. `NPU 3, chunk 17, phase 2`.
    pub who: String,
    /// The resource it waits for, e.g. `a credit of link 3.+y`.
    pub what: String,
}

/// Windows that are kept at most, of one quantity: enough for 100 ms in windows of 0.8 us.
pub const MAX_WINDOWS: usize = 1 << 17;

/// How finely windows divide a run: their length, which doubles when there would be too many, so that a long run never
/// takes more memory than a run of that many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The length of a window, which must be positive.
    pub window: Ps,
    /// Windows that are kept at most, of one quantity, as long as they are short; at least 1.
    most: usize,
    /// The length from which on they are not: then [`MAX_WINDOWS`] are kept.
    short: Ps,
}

impl Resolution {
    /// Windows that a run decides on: thousands in a short run, and of 0.8 us in a long one.
    pub const OF_THE_RUN: Resolution = Resolution { window: Ps(784), most: 1 << 12, short: Ps(784 << 10) };

    /// Windows of a length, doubled when there would be more than [`MAX_WINDOWS`] of them.
    pub const fn of(window: Ps) -> Resolution {
        Resolution { window, most: MAX_WINDOWS, short: window }
    }

    /// The length of windows in a long run, until there are too many.
    pub const fn in_a_long_run(self) -> Ps {
        self.short
    }

    /// The windows of a length that are kept at most.
    fn most(self, length: u64) -> usize {
        if length < self.short.0 { self.most } else { MAX_WINDOWS }
    }

    /// The length of windows that cover a run of `end`: `length`, doubled until there are few enough for a table, which
    /// has `most` short ones at most.
    pub fn covering(self, length: Ps, end: Ps, most: usize) -> Ps {
        let table = Resolution { most: most.min(self.most), ..self };
        let mut covering = length;
        while end.0.div_ceil(covering.0) > table.most(covering.0) as u64 {
            covering = covering.times(2);
        }
        covering
    }
}

impl From<Ps> for Resolution {
    fn from(window: Ps) -> Resolution {
        Resolution::of(window)
    }
}

/// Busy time accumulated in windows of equal length, which doubles in a long run ([`Resolution`]).
///
/// Sums are 128 bits wide: a window of days over a million links, or of the bytes that an SRAM holds, exceeds 64.
#[derive(Clone, Debug)]
pub struct Windows {
    length: u64,
    resolution: Resolution,
    busy: Vec<u128>,
}

impl Windows {
    /// Windows of a resolution, or of a length.
    pub fn new(resolution: impl Into<Resolution>) -> Windows {
        let resolution = resolution.into();
        assert!(resolution.window.0 > 0, "a window must be longer than zero");
        Windows { length: resolution.window.0, resolution, busy: Vec::new() }
    }

    /// Adds a busy interval; intervals may overlap and come in any order.
    #[inline]
    pub fn add(&mut self, from: Ps, to: Ps) {
        self.add_weighted(from, to, 1);
    }

    /// Busy time between two times; windows that lie in part between them count in proportion, rounded down.
    pub fn between(&self, from: Ps, to: Ps) -> u64 {
        let length = u128::from(self.length);
        let windows = self.busy.iter().zip((0u128..).map(|i| i * length));
        let [from, to] = [from, to].map(|time| u128::from(time.0));
        let part = |start: u128| to.min(start + length).saturating_sub(from.max(start));
        windows.map(|(&busy, start)| (busy * part(start) / length) as u64).sum()
    }

    /// The last window that an interval up to `to`, which is positive, touches; there is one.
    #[inline]
    fn reach(&mut self, to: Ps) -> usize {
        let mut last = ((to.0 - 1) / self.length) as usize;
        while last >= self.resolution.most(self.length) {
            self.coarsen();
            last = ((to.0 - 1) / self.length) as usize;
        }
        if last >= self.busy.len() {
            self.busy.resize(last + 1, 0);
        }
        last
    }

    /// Adds an interval that counts `weight` times (the level of a quantity held over time).
    #[inline(always)]
    pub fn add_weighted(&mut self, from: Ps, to: Ps, weight: u64) {
        if to <= from || weight == 0 {
            return;
        }
        let last = self.reach(to);
        let (mut from, weight) = (from.0, u128::from(weight));
        // Most intervals lie in one window, and a division takes long.
        let mut window = if from >= last as u64 * self.length { last } else { (from / self.length) as usize };
        while window < last {
            let end = (window as u64 + 1) * self.length;
            self.busy[window] += u128::from(end - from) * weight;
            from = end;
            window += 1;
        }
        self.busy[last] += u128::from(to.0 - from) * weight;
    }

    /// Adds `busy` picoseconds spread evenly over an interval that is at least as long. What windows get is
    /// rounded, their sum is not.
    pub fn add_spread(&mut self, from: Ps, to: Ps, busy: Ps) {
        let span = to.since(from);
        assert!(busy <= span, "busy for longer than the interval");
        if busy == span {
            return self.add(from, to);
        }
        if busy == Ps::ZERO {
            return;
        }
        let last = self.reach(to);
        let first = (from.0 / self.length) as usize;
        // By `t` ps after `from`, floor(t * busy / span) has been given to windows; quotients and remainders add up.
        let (busy, span) = (u128::from(busy.0), u128::from(span.0));
        let share = |t: u64| (busy * u128::from(t) / span, busy * u128::from(t) % span);
        let (of_window, beyond) = share(self.length);
        let (mut part, mut over) = if first < last { share((first as u64 + 1) * self.length - from.0) } else { (0, 0) };
        let mut left = busy;
        for window in &mut self.busy[first..last] {
            *window += part;
            left -= part;
            over += beyond;
            part = of_window + u128::from(over >= span);
            over -= if over >= span { span } else { 0 };
        }
        self.busy[last] += left;
    }

    /// Joins windows in pairs.
    fn coarsen(&mut self) {
        let joined = self.busy.chunks(2).map(|pair| pair.iter().sum()).collect();
        (self.busy, self.length) = (joined, self.length.saturating_mul(2));
    }

    /// The same in windows of `length`, which is this length doubled any number of times.
    pub fn in_windows_of(&self, length: Ps) -> Windows {
        let mut windows = self.clone();
        while windows.length < length.0 {
            windows.coarsen();
        }
        windows
    }

    /// Adds what other windows have, which began with the same length.
    pub fn join(&mut self, other: &Windows) {
        while self.length < other.length {
            self.coarsen();
        }
        let other = other.in_windows_of(Ps(self.length));
        self.busy.resize(self.busy.len().max(other.busy.len()), 0);
        self.busy.iter_mut().zip(&other.busy).for_each(|(mine, others)| *mine += others);
    }

    /// The length of a window.
    pub fn length(&self) -> Ps {
        Ps(self.length)
    }

    /// Busy picoseconds (times weight) of each window.
    pub fn busy(&self) -> &[u128] {
        &self.busy
    }
}

/// The most that a level over time reached in each window of equal length; joined like [`Windows`].
#[derive(Clone, Debug)]
pub struct Peaks {
    length: u64,
    resolution: Resolution,
    most: Vec<u64>,
}

impl Peaks {
    /// Peaks of a level of zero, in windows of a resolution, or of a length.
    pub fn new(resolution: impl Into<Resolution>) -> Peaks {
        let resolution = resolution.into();
        assert!(resolution.window.0 > 0, "a window must be longer than zero");
        Peaks { length: resolution.window.0, resolution, most: Vec::new() }
    }

    /// The level is `level` from `from` to `to`, both included: one that lasts for no time counts.
    #[inline]
    pub fn hold(&mut self, from: Ps, to: Ps, level: u64) {
        if level == 0 {
            return;
        }
        while to.0 / self.length >= self.resolution.most(self.length) as u64 {
            self.coarsen();
        }
        let (first, last) = ((from.0 / self.length) as usize, (to.0 / self.length) as usize);
        if last >= self.most.len() {
            self.most.resize(last + 1, 0);
        }
        self.most[first..=last].iter_mut().for_each(|most| *most = level.max(*most));
    }

    fn coarsen(&mut self) {
        let joined = self.most.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
        (self.most, self.length) = (joined, self.length.saturating_mul(2));
    }

    /// The same in windows of `length`, which is this length doubled any number of times.
    pub fn in_windows_of(&self, length: Ps) -> Peaks {
        let mut peaks = self.clone();
        while peaks.length < length.0 {
            peaks.coarsen();
        }
        peaks
    }

    /// The length of a window.
    pub fn length(&self) -> Ps {
        Ps(self.length)
    }

    /// The most of each window.
    pub fn most(&self) -> &[u64] {
        &self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn peaks_are_those_of_every_window_that_a_level_touches() {
        let mut peaks = Peaks::new(Ps(10));
        peaks.hold(Ps(5), Ps(24), 3);
        peaks.hold(Ps(24), Ps(24), 9);
        peaks.hold(Ps(24), Ps(31), 1);
        peaks.hold(Ps(60), Ps(70), 0);
        assert_eq!(peaks.most(), [3, 3, 9, 1]);
        assert_eq!(peaks.in_windows_of(Ps(20)).most(), [3, 9]);
    }

    #[test]
    fn too_many_peaks_are_joined() {
        let mut peaks = Peaks::new(Ps(1));
        peaks.hold(Ps(0), Ps(0), 7);
        peaks.hold(Ps(1 << 17), Ps(1 << 17), 5);
        assert_eq!((peaks.length(), peaks.most().len()), (Ps(2), (1 << 16) + 1));
        assert_eq!((peaks.most()[0], peaks.most()[1], peaks.most()[1 << 16]), (7, 0, 5));
    }

    #[test]
    fn an_interval_is_cut_at_window_borders() {
        let mut w = Windows::new(Ps(10));
        w.add(Ps(5), Ps(25));
        w.add(Ps(30), Ps(30));
        assert_eq!(w.busy(), [5, 10, 5]);
    }

    #[test]
    fn a_part_of_an_interval_is_spread_over_it() {
        let mut w = Windows::new(Ps(10));
        w.add_spread(Ps(5), Ps(35), Ps(10));
        w.add_spread(Ps(7), Ps(7), Ps(0));
        assert_eq!(w.busy(), [1, 4, 3, 2]);
    }

    #[test]
    fn too_many_windows_are_joined() {
        let mut w = Windows::new(Ps(1));
        w.add(Ps(0), Ps(3));
        w.add(Ps(1 << 17), Ps((1 << 17) + 1));
        assert_eq!((w.length(), w.busy().len()), (Ps(2), (1 << 16) + 1));
        assert_eq!((w.busy()[0], w.busy()[1], w.busy()[1 << 16]), (2, 1, 1));
        assert_eq!(w.in_windows_of(Ps(8)).busy()[0], 3);
    }

    #[test]
    fn a_run_decides_on_its_windows() {
        let last = 784 << 10;
        for (end, length) in [
            (1, 784),
            (784 << 12, 784),
            ((784 << 12) + 1, 784 * 2),
            (last << 12, last),
            (last << 17, last),
            (last << 18, last * 2),
        ] {
            let (mut w, mut peaks) = (Windows::new(Resolution::OF_THE_RUN), Peaks::new(Resolution::OF_THE_RUN));
            w.add(Ps(0), Ps(end));
            peaks.hold(Ps(0), Ps(end - 1), 1);
            assert_eq!((w.length(), peaks.length()), (Ps(length), Ps(length)), "{end}");
            assert_eq!(w.busy().iter().sum::<u128>(), end.into());
        }
    }

    #[test]
    fn windows_of_days_do_not_wrap_around() {
        let (mut w, days) = (Windows::new(Ps(1_000)), Ps(u64::MAX));
        (0..3).for_each(|_| w.add_weighted(Ps(0), days, 1 << 30));
        w.add_spread(Ps(0), days, Ps(1 << 63));
        let expected = 3 * (1u128 << 30) * u128::from(u64::MAX) + (1 << 63);
        assert_eq!(w.busy().iter().sum::<u128>(), expected);
        assert!(w.busy().len() <= MAX_WINDOWS, "{} windows", w.busy().len());
        assert_eq!(w.between(Ps(5), Ps(5)), 0);
    }

    #[test]
    fn a_run_is_covered_by_so_many_windows_whatever_its_time() {
        let covering = |length, end| Resolution::of(Ps(length)).covering(Ps(length), end, MAX_WINDOWS).0;
        assert_eq!(covering(10, Ps(10 << 17)), 10);
        assert_eq!(covering(10, Ps((10 << 17) + 1)), 20);
        assert!(Ps::MAX.0.div_ceil(covering(1, Ps::MAX)) <= MAX_WINDOWS as u64);
        for (end, length) in [(784 * 400, 784), (784 * 401, 784 * 2), (784 << 20, 784 << 10), (784 << 28, 784 << 11)] {
            assert_eq!(Resolution::OF_THE_RUN.covering(Ps(784), Ps(end), 400), Ps(length), "{end}");
        }
    }

    #[test]
    fn windows_count_in_proportion_between_two_times() {
        let mut w = Windows::new(Ps(10));
        w.add(Ps(5), Ps(25));
        assert_eq!(w.between(Ps(0), Ps(30)), 20);
        assert_eq!(w.between(Ps(4), Ps(12)), 3 + 2);
        assert_eq!(w.between(Ps(20), Ps(100)), 5);
        assert_eq!(w.between(Ps(12), Ps(12)), 0);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(intervals in prop::collection::vec((0u64..1000, 0u64..1000), 0..50), length in 1u64..100) {
            let mut w = Windows::new(Ps(length));
            for &(from, span) in &intervals {
                w.add(Ps(from), Ps(from + span));
                w.add_spread(Ps(from), Ps(from + span), Ps(span / 3));
            }
            let total: u64 = intervals.iter().map(|i| i.1 + i.1 / 3).sum();
            prop_assert_eq!(w.busy().iter().sum::<u128>(), u128::from(total));
        }

        #[test]
        fn what_is_spread_is_even_at_the_end_of_every_window(
            length in 1u64..60, from in 0u64..1000, span in 1u64..1 << 40, part in 0.0f64..1.0, spans in 1u64..200,
        ) {
            let length = length.max(span / spans); // no windows are joined
            let busy = (span as f64 * part) as u64;
            let mut w = Windows::new(Ps(length));
            w.add_spread(Ps(from), Ps(from + span), Ps(busy));
            let until = |t: u64| u128::from(busy) * u128::from(t.clamp(from, from + span) - from) / u128::from(span);
            for (k, &given) in (0u64..).zip(w.busy()) {
                prop_assert_eq!(given, until((k + 1) * length) - until(k * length));
            }
        }
    }
}
