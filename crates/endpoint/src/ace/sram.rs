//! The SRAM: its partitions, and levels over time.

use super::AceError;
use super::transit::LEAST_SLOTS;
use crate::layout::Layout;
use syncline_collective::{Plan, Split};
use syncline_core::{Bytes, NodeId, Peaks, PortId, Ps, Windows};

/// What an all-to-all needs beside room for chunks.
#[derive(Clone, Copy, Debug)]
pub struct Packets {
    /// Bytes of a packet.
    pub unit: u32,
    /// Transit pools of an NPU.
    pub pools: u32,
}

impl Packets {
    /// The least that the terminal partition and the transit pools may hold.
    fn least(self) -> [u64; 2] {
        [self.unit.into(), LEAST_SLOTS * u64::from(self.unit) * u64::from(self.pools)]
    }
}

/// Partitions of the SRAM of all NPUs: one per phase, and the terminal one; in all-to-alls the transit pools
/// behind it.
#[derive(Clone, Debug)]
pub struct Partitions {
    capacity: Vec<u64>,
    /// Per NPU and partition.
    used: Vec<u64>,
    peak: Vec<u64>,
    /// The partition behind those of phases, and what results leave there for a packet of an all-to-all.
    terminal: usize,
    reserve: u64,
}

impl Partitions {
    /// Divides `sram` bytes for chunks of at most `chunk` bytes: in proportion to (bandwidth of the
    /// phase's links) x (bytes that a chunk brings into the phase), the terminal partition equal to the
    /// last (ACE paper, section IV-I); where several plans share a phase number, the mean. A partition
    /// that would not hold one chunk gets room for one before the rest is divided.
    ///
    /// An all-to-all (`packets`) holds no results, so its terminal partition needs room for one packet only; its
    /// transit pools, if there are any, get a partition as large as the others, and need two packets each.
    ///
    /// Where all-reduces and all-to-alls run side by side, both load into the first partition: its bandwidth is that of
    /// the all-reduce's first phase, its chunk the mean of what the two bring (section IV-I, footnote 9). The terminal
    /// partition has room for a packet beyond the results of a chunk, and the transit pools are as large as it is.
    ///
    /// # Errors
    /// [`AceError::SramTooSmall`] when the partitions cannot all hold a chunk.
    pub fn new(layout: &Layout, sram: u64, chunk: Bytes, packets: Option<Packets>) -> Result<Partitions, AceError> {
        let fabric = layout.fabric();
        let phases = layout.plans().map(|p| p.phases().len()).max().unwrap_or(0);
        let ports = fabric.ports(NodeId(0)); // of a product, as every NPU's
        let mut weights = vec![0u128; phases + 1];
        let mut needs = vec![0u64; phases + 1];
        let mut reserve = 0;
        let mut bandwidths = Vec::new();
        let mut exchanged = Vec::new();
        for plan in 0..layout.plans().count() as u8 {
            let held = |phase| layout.held_at_most(plan, chunk, phase);
            let count = layout.phases(plan);
            if layout.plan(plan).is_exchange() {
                let brought = held(0);
                needs[0] = needs[0].max(brought);
                exchanged.push(u128::from(brought.max(1)));
                continue;
            }
            for (phase, p) in layout.plan(plan).phases().iter().enumerate() {
                let links = (0..ports).map(|q| fabric.link(NodeId(0), PortId(q))).filter(|l| l.class == p.dim);
                let bandwidth: u128 = links.map(|l| u128::from(l.rate.bytes_per_s())).sum();
                weights[phase] += bandwidth * u128::from(held(phase).max(1));
                if phase == 0 {
                    bandwidths.push(bandwidth);
                }
                needs[phase] = needs[phase].max(held(phase));
            }
            needs[phases] = needs[phases].max(held(count));
        }
        let first = bandwidths.iter().sum::<u128>() / (bandwidths.len() as u128).max(1);
        weights[0] += first * exchanged.iter().sum::<u128>();
        // Sums over the plans that have a phase, made comparable with those of phases that others have.
        let plans = layout.plans().count() as u128;
        for (phase, weight) in weights.iter_mut().enumerate().take(phases) {
            let sharing = layout.plans().filter(|p| p.phases().len() > phase).count() as u128;
            *weight = *weight * plans / sharing;
        }
        weights[phases] = weights[phases.saturating_sub(1)];
        if let Some(packets) = packets {
            let [terminal, pools] = packets.least();
            needs[phases] += terminal;
            needs.push(pools);
            if bandwidths.is_empty() {
                weights = vec![1, 1];
            } else {
                reserve = terminal;
            }
            weights.push(if pools > 0 { weights[phases] } else { 0 });
        }
        let needed = needs.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
        if needed > sram {
            return Err(AceError::SramTooSmall { sram, pools: packets.map_or(0, |p| p.pools), needed });
        }
        let capacity = divide(sram, &weights, &needs);
        let used = vec![0; capacity.len() * layout.npus() as usize];
        Ok(Partitions { peak: vec![0; capacity.len()], capacity, used, terminal: phases, reserve })
    }

    /// Packets that each transit pool holds.
    pub fn slots(&self, packets: Packets) -> u32 {
        let Packets { unit, pools } = packets;
        let pool = self.capacity.last().map_or(0, |all| all / u64::from(pools.max(1)) / u64::from(unit.max(1)));
        u32::try_from(pool).unwrap_or(u32::MAX)
    }

    fn slot(&self, npu: NodeId, partition: usize) -> usize {
        npu.index() * self.capacity.len() + partition
    }

    /// Whether `bytes` more of a chunk fit.
    pub fn fits(&self, npu: NodeId, partition: usize, bytes: u64) -> bool {
        bytes <= self.left(npu, partition)
    }

    /// Whether a packet of `len` bytes fits into the terminal partition beside `held` bytes of others. While
    /// results wait for room there (`wanted`), packets get no more than is set aside for them.
    pub fn fits_packet(&self, npu: NodeId, len: u64, held: u64, wanted: bool) -> bool {
        len <= self.free_bytes(npu, self.terminal) && (!wanted || held + len <= self.reserve)
    }

    /// Bytes that chunks may reserve.
    pub fn left(&self, npu: NodeId, partition: usize) -> u64 {
        let reserve = if partition == self.terminal { self.reserve } else { 0 };
        self.free_bytes(npu, partition).saturating_sub(reserve)
    }

    fn free_bytes(&self, npu: NodeId, partition: usize) -> u64 {
        self.capacity[partition] - self.used[self.slot(npu, partition)]
    }

    /// Reserves room.
    pub fn take(&mut self, npu: NodeId, partition: usize, bytes: u64) {
        let slot = self.slot(npu, partition);
        self.used[slot] += bytes;
        assert!(self.used[slot] <= self.capacity[partition], "SRAM partition {partition} overflows");
        self.peak[partition] = self.peak[partition].max(self.used[slot]);
    }

    /// Gives room back.
    pub fn free(&mut self, npu: NodeId, partition: usize, bytes: u64) {
        let slot = self.slot(npu, partition);
        assert!(self.used[slot] >= bytes, "SRAM partition {partition} gives back more than it holds");
        self.used[slot] -= bytes;
    }

    /// Bytes reserved on an NPU, by partition.
    pub fn used(&self, npu: NodeId) -> &[u64] {
        &self.used[self.slot(npu, 0)..][..self.capacity.len()]
    }

    /// Those that exist: all-to-alls whose packets others forward have no transit pools.
    pub fn shown(&self) -> impl Iterator<Item = usize> {
        (0..self.capacity.len()).filter(|&p| p <= self.terminal || self.capacity[p] > 0)
    }

    /// Name, capacity and largest fill of every partition.
    pub fn report(&self, layout: &Layout) -> Vec<(String, u64, u64)> {
        let plan = (0..layout.plans().count() as u8).max_by_key(|&p| layout.phases(p)).unwrap_or(0);
        let phases = layout.phases(plan);
        let name = |p: usize| match p.checked_sub(phases) {
            None => layout.phase_name(plan, p),
            Some(0) => "terminal".to_string(),
            Some(_) => "transit".to_string(),
        };
        self.shown().map(|p| (name(p), self.capacity[p], self.peak[p])).collect()
    }
}

/// Bytes of SRAM in which the partitions hold one chunk each; what `packets` need if there are direct all-to-alls only.
pub fn needed(plans: &[Plan], split: Split, chunk: Bytes, packets: Packets) -> u64 {
    let mut needs = Vec::new();
    let mut terminal = 0;
    let (exchanges, others): (Vec<&Plan>, Vec<&Plan>) = plans.iter().partition(|plan| plan.is_exchange());
    for plan in others {
        let count = plan.phases().len();
        needs.resize(needs.len().max(count), 0);
        for (phase, need) in needs.iter_mut().enumerate().take(count) {
            *need = plan.held_at_most(phase, chunk, split).max(*need);
        }
        terminal = plan.held_at_most(count, chunk, split).max(terminal);
    }
    if !exchanges.is_empty() {
        needs.resize(needs.len().max(1), 0);
        needs[0] = chunk.0.max(needs[0]);
        needs.extend(packets.least());
    }
    needs.into_iter().fold(terminal, u64::saturating_add)
}

/// Divides `sram` in proportion to `weights`, but gives nobody less than it needs (in all at most `sram`).
fn divide(sram: u64, weights: &[u128], needs: &[u64]) -> Vec<u64> {
    let mut fixed = vec![false; needs.len()];
    loop {
        let taken: u64 = needs.iter().zip(&fixed).filter(|(_, fixed)| **fixed).map(|(need, _)| need).sum();
        let free = u128::from(sram - taken);
        let total: u128 = weights.iter().zip(&fixed).filter(|(_, fixed)| !**fixed).map(|(w, _)| w).sum();
        let share = |i: usize| if fixed[i] { needs[i] } else { (free * weights[i] / total.max(1)) as u64 };
        let capacity: Vec<u64> = (0..needs.len()).map(share).collect();
        let short: Vec<usize> = (0..needs.len()).filter(|&i| capacity[i] < needs[i]).collect();
        if short.is_empty() {
            return capacity;
        }
        short.into_iter().for_each(|i| fixed[i] = true);
    }
}

/// A quantity of one NPU that changes in steps, integrated over windows.
#[derive(Clone, Debug)]
pub struct Level {
    windows: Windows,
    since: Ps,
    level: u64,
}

impl Level {
    /// A level of zero, in windows of `window`.
    pub fn new(window: Ps) -> Level {
        Level { windows: Windows::new(window), since: Ps::ZERO, level: 0 }
    }

    /// The level from `now` on.
    pub fn set(&mut self, now: Ps, level: u64) {
        if level != self.level {
            self.windows.add_weighted(self.since, now, self.level);
            (self.since, self.level) = (now, level);
        }
    }

    /// The integral until `now`.
    pub fn until(&self, now: Ps) -> Windows {
        let mut windows = self.windows.clone();
        windows.add_weighted(self.since, now, self.level);
        windows
    }
}

/// What the partitions of one NPU hold over time.
#[derive(Clone, Debug)]
pub struct Fillings {
    sum: Level,
    parts: Vec<(Level, Peaks)>,
}

impl Fillings {
    /// Of so many partitions, all empty, in windows of `window`.
    pub fn new(partitions: usize, window: Ps) -> Fillings {
        let part = (Level::new(window), Peaks::new(window));
        Fillings { sum: Level::new(window), parts: vec![part; partitions] }
    }

    /// What each holds from `now` on.
    pub fn set(&mut self, now: Ps, used: &[u64]) {
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
    pub fn sum(&self, now: Ps) -> Windows {
        self.sum.until(now)
    }

    /// The integral over a partition until `now`, and its peaks.
    pub fn part(&self, partition: usize, now: Ps) -> (Windows, Peaks) {
        let (level, peaks) = &self.parts[partition];
        let mut peaks = peaks.clone();
        peaks.hold(level.since, now, level.level);
        (level.until(now), peaks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filling_has_means_and_peaks_of_every_window() {
        let mut fillings = Fillings::new(2, Ps(10));
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
    fn partitions_are_proportional_but_never_too_small() {
        assert_eq!(divide(100, &[2, 1, 1], &[10, 10, 10]), [50, 25, 25]);
        // The second would get 10: it gets its 40, and the others share the rest 2 to 1.
        assert_eq!(divide(100, &[6, 1, 3], &[0, 40, 0]), [40, 40, 20]);
        assert_eq!(divide(30, &[1000, 1, 1], &[10, 10, 10]), [10, 10, 10]);
    }
}
