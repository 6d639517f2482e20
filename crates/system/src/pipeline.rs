//! How many slices a pipeline has that nobody has said.
//!
//! Trees and chains pass a chunk of `S` bytes on in `k` slices of `m = S/k`. Whatever the fabric, the last slice arrives
//! after
//!
//! ```text
//!   T(k) = fill(m) + k * period(m)
//! ```
//!
//! `fill` is the way of one slice through all stages, `period` what another slice costs the slowest of them. More slices
//! shorten the first, which has the latencies and `m` times the length of the way, and lengthen the second by what a
//! message costs beside its bytes. The latency of links is no such cost: slices follow one another on their way. What is,
//! and how many messages share a link, depends on endpoint, network and routes, so both are not computed but
//! measured: the collective is simulated with up to 64 slices of that size, or more where that takes less than twice as
//! long as one slice, and `T` is linear in their number beyond. A long block goes in 16 to 64 larger packets instead
//! of thousands: who waits for whom is the same, and each hop but the first takes up to such a part of the block longer.
//!
//! Of all powers of two whose time is within 2 % of the best, the least is taken: slices cost events.
//!
//! Left out: several chunks in flight, which overlap one another's fill.

use crate::spec::{ChunkingSpec, CollectiveKindSpec, FoldSpec, JobSpec, Spec};
use std::collections::BTreeMap;
use syncline_collective::{Algorithm, Kind, Phase, Plan, Rank};
use syncline_core::Ps;

/// The most slices that are tried.
const MOST: u64 = 4096;
/// Packets of a block in a trial, at least and at most, if the run has as many, and of all blocks of [`SETTLED`] slices.
/// Where a block has more in the run, those of the trial are larger.
const PACKETS: (u64, u64) = (16, 64);
const PACKETS_OF_A_TRIAL: u64 = 1 << 19;
/// Messages of a trial. Where a few slices have more, the machine is so large that trials would take longer than
/// what they are for.
const MESSAGES: u64 = 40_000;
/// Slices of a trial after which another one costs what the next will.
const SETTLED: u64 = 64;
/// Work of all trials together, with what each sets up: a quarter of a second.
const WORK: u64 = 1_000_000;
/// Slices when no trial can tell.
const UNTRIED: u32 = 64;
/// In percent, how much longer than the best time the time with fewer slices may be.
const CLOSE: u128 = 102;

/// Runs a description to its end: its simulated time in picoseconds. The work of it, with what it sets up, is taken from
/// what is left; `None` if there is not as much, or if it cannot be run.
pub type TryOut = fn(&Spec, left: &mut u64) -> Option<u64>;

/// What is to be pipelined.
pub struct Pipelined<'a> {
    /// The run.
    pub spec: &'a Spec,
    /// The collective.
    pub kind: Kind,
    /// Its root.
    pub root: Rank,
    /// Bytes of the largest chunk.
    pub chunk: u64,
    /// Its plan with one slice.
    pub plan: &'a Plan,
    /// Ranks of all groups.
    pub ranks: u64,
    /// Runs trials.
    pub try_out: TryOut,
}

/// Trials that have been made.
struct Trials {
    /// Bytes of a slice and number of slices, and what they took.
    times: BTreeMap<(u64, u64), u128>,
    /// Work that further ones may cost.
    left: u64,
}

/// The slices in which a phase passes on a chunk, if it is a pipeline.
pub fn slices_of(phase: &Phase) -> Option<u32> {
    match phase.algorithm {
        Algorithm::Chain { slices } => matches!(phase.kind, Kind::Broadcast | Kind::Reduce).then_some(slices),
        Algorithm::InSwitch { .. } => None, // has pieces of a message
        algorithm => algorithm.slices(),
    }
}

impl Pipelined<'_> {
    /// The number of slices with which a chunk takes about the least time.
    pub fn slices(&self) -> u32 {
        let unit = self.plan.equal_blocks().saturating_mul(self.spec.collectives.element_bytes.into());
        let most = (self.chunk / unit.max(1)).clamp(1, MOST);
        if most == 1 || self.plan.phases().iter().all(|p| slices_of(p).is_none()) {
            return 1;
        }
        // Both ways through a tree are busy at once only when there are more slices than stages, and ports that take both in
        // turn find their rhythm later.
        let stages = u64::from(self.plan.steps()) + 1;
        let few = (4 * stages).next_power_of_two().max(SETTLED).min(MESSAGES / self.messages().max(1));
        self.best(most, few).unwrap_or(UNTRIED.min(most as u32))
    }

    /// Messages of a slice, roughly.
    fn messages(&self) -> u64 {
        let of_rank = |phase: &Phase| match phase.algorithm {
            Algorithm::OneHopTrees { .. } => 2 * u64::from(phase.ranks),
            Algorithm::DoubleBinaryTree { .. } => 4,
            _ => 1,
        };
        self.plan.phases().iter().map(of_rank).sum::<u64>().saturating_mul(self.ranks)
    }

    /// The least power of two up to `most` whose time is close to the best one's, by trials from `few` slices on.
    fn best(&self, most: u64, few: u64) -> Option<u32> {
        let few = 1 << few.checked_ilog2().filter(|&log| log > 0)?;
        let mut trials = Trials { times: BTreeMap::new(), left: WORK };
        let mut times: Vec<(u64, u128)> = Vec::new();
        for k in (0..=most.ilog2()).map(|log| 1 << log) {
            times.extend(self.time(self.chunk.div_ceil(k), k, few, &mut trials).map(|time| (k, time)));
            // Beyond the best number the time only rises.
            if times.len() > 3 && times[times.len() - 4..].is_sorted_by(|a, b| a.1 * 105 < b.1 * 100) {
                break;
            }
        }
        let best = times.iter().map(|t| t.1).min()?;
        times.iter().find(|t| t.1 * 100 <= best * CLOSE).map(|t| t.0 as u32)
    }

    /// Time of `k` slices of so many bytes, in ps; `None` if no trial can tell.
    fn time(&self, slice: u64, k: u64, mut few: u64, trials: &mut Trials) -> Option<u128> {
        while few < k {
            let (half, full) = (self.trial(slice, few / 2, trials)?, self.trial(slice, few, trials)?);
            // The first slices have long arrived, and what comes back meets what goes out.
            if half >= 2 * self.trial(slice, 1, trials)? {
                let more = full.saturating_sub(half) * u128::from(k - few);
                return Some(full + more / u128::from(few - few / 2));
            }
            few *= 2;
            if few > MESSAGES / self.messages().max(1) {
                return None;
            }
        }
        self.trial(slice, k, trials)
    }

    /// How many times larger packets are in a trial of slices of so many bytes. What an engine takes in has a size of its
    /// own.
    fn scale(&self, slice: u64, packet: u32) -> u32 {
        let packets = PACKETS_OF_A_TRIAL / SETTLED / self.messages().max(1);
        let of_block = slice / self.plan.equal_blocks().max(1) / u64::from(packet.max(1));
        match self.spec.endpoint.model().has_packets() {
            true => 1,
            false => {
                (of_block / packets.clamp(PACKETS.0, PACKETS.1)).clamp(1, u64::from(u32::MAX / packet.max(1))) as u32
            }
        }
    }

    /// What a chunk of `k` slices of `slice` bytes takes in the simulation.
    fn trial(&self, slice: u64, k: u64, trials: &mut Trials) -> Option<u128> {
        if let Some(&time) = trials.times.get(&(slice, k)) {
            return Some(time);
        }
        if trials.left == 0 {
            return None;
        }
        let mut spec = self.spec.clone();
        let bytes = slice.checked_mul(k)?;
        spec.job = JobSpec::Collective {
            collective: CollectiveKindSpec::of(self.kind),
            bytes,
            root: self.root.0,
            beside: Vec::new(),
        };
        spec.collectives.slices = k as u32;
        spec.collectives.chunking = ChunkingSpec::Count { chunks: 1 };
        spec.output.trace_npus.clear();
        spec.output.window_ps = Some(Ps::HORIZON.0); // of which nobody reads any
        if let Some(packet) = spec.network.model().packet_bytes() {
            let coarser = spec.network.model().coarser(self.scale(slice, packet));
            spec.network = coarser.unwrap_or(spec.network);
        }
        if spec.fold == FoldSpec::On {
            spec.fold = FoldSpec::Auto;
        }
        let time = (self.try_out)(&spec, &mut trials.left)?.into();
        trials.times.insert((slice, k), time);
        Some(time)
    }
}
