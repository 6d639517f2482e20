//! What the engine of one NPU holds over time.

use crate::api::Occupancy;
use syncline_core::{Peaks, Ps, Resolution, Windows};

/// A quantity of one NPU that changes in steps, integrated over windows.
#[derive(Clone, Debug)]
struct Level {
    windows: Windows,
    since: Ps,
    level: u64,
}

impl Level {
    /// A level of zero, in windows of `window`.
    fn new(window: Resolution) -> Level {
        Level { windows: Windows::new(window), since: Ps::ZERO, level: 0 }
    }

    /// The level from `now` on.
    fn set(&mut self, now: Ps, level: u64) {
        if level != self.level {
            self.windows.add_weighted(self.since, now, self.level);
            (self.since, self.level) = (now, level);
        }
    }

    /// The integral until `now`.
    fn until(&self, now: Ps) -> Windows {
        let mut windows = self.windows.clone();
        windows.add_weighted(self.since, now, self.level);
        windows
    }
}

/// What the partitions of one NPU hold over time.
#[derive(Clone, Debug)]
struct Fillings {
    sum: Level,
    parts: Vec<(Level, Peaks)>,
}

impl Fillings {
    /// Of so many partitions, all empty, in windows of `window`.
    fn new(partitions: usize, window: Resolution) -> Fillings {
        let part = (Level::new(window), Peaks::new(window));
        Fillings { sum: Level::new(window), parts: vec![part; partitions] }
    }

    /// What each holds from `now` on.
    fn set(&mut self, now: Ps, used: &[u64]) {
        for ((level, peaks), &used) in self.parts.iter_mut().zip(used) {
            if used != level.level {
                // A window's border belongs to the next one only.
                if now > level.since {
                    peaks.hold(level.since, Ps(now.0 - 1), level.level);
                }
                level.set(now, used);
                peaks.hold(now, now, used);
            }
        }
        self.sum.set(now, used.iter().sum());
    }

    /// The integral over all partitions until `now`.
    fn sum(&self, now: Ps) -> Windows {
        self.sum.until(now)
    }

    /// The integral over a partition until `now`, and its peaks.
    fn part(&self, partition: usize, now: Ps) -> (Windows, Peaks) {
        let (level, peaks) = &self.parts[partition];
        let mut peaks = peaks.clone();
        peaks.hold(level.since, now, level.level);
        (level.until(now), peaks)
    }
}

/// What an engine holds over time: chunks, bytes in its SRAM, busy FSMs.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    /// One if it has a chunk, and zero if not.
    active: Level,
    fillings: Fillings,
    fsms: Level,
}

impl Levels {
    /// Of an idle engine with so many partitions, in windows of `window`.
    pub fn new(partitions: usize, window: Resolution) -> Levels {
        Levels { active: Level::new(window), fillings: Fillings::new(partitions, window), fsms: Level::new(window) }
    }

    /// What it has from `now` on: whether any chunk, which bytes in each partition, and how many busy FSMs.
    pub fn set(&mut self, now: Ps, active: bool, partitions: &[u64], fsms: u32) {
        self.active.set(now, u64::from(active));
        self.fillings.set(now, partitions);
        self.fsms.set(now, u64::from(fsms));
    }

    /// What it had until `now`; of some of the partitions.
    pub fn until(&self, now: Ps, partitions: impl Iterator<Item = usize>) -> Occupancy {
        Occupancy {
            active: self.active.until(now),
            sram: self.fillings.sum(now),
            partitions: partitions.map(|p| self.fillings.part(p, now)).collect(),
            fsms: self.fsms.until(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filling_has_means_and_peaks_of_every_window() {
        let mut fillings = Fillings::new(2, Ps(10).into());
        fillings.set(Ps(0), &[4, 0]);
        fillings.set(Ps(12), &[4, 7]);
        fillings.set(Ps(12), &[4, 2]); // seven for no time
        fillings.set(Ps(20), &[1, 2]);
        let (held, most) = fillings.part(0, Ps(35));
        assert_eq!((held.busy(), most.most()), (&[40, 40, 10, 5][..], &[4, 4, 1, 1][..]));
        let (held, most) = fillings.part(1, Ps(35));
        assert_eq!((held.busy(), most.most()), (&[0, 16, 20, 10][..], &[0, 7, 2, 2][..]));
        assert_eq!(fillings.sum(Ps(35)).busy(), [40, 56, 30, 15]);
    }

    #[test]
    fn an_engine_is_active_while_it_has_a_chunk() {
        let mut levels = Levels::new(1, Ps(10).into());
        levels.set(Ps(5), true, &[3], 2);
        levels.set(Ps(15), true, &[0], 1);
        levels.set(Ps(20), false, &[0], 0);
        let had = levels.until(Ps(30), 0..1);
        assert_eq!(had.active.busy(), [5, 10]);
        assert_eq!(had.fsms.busy(), [10, 15]);
        assert_eq!((had.sram.busy(), had.partitions.len()), (&[15, 15][..], 1));
    }
}
