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
//! long as one slice, and `T` is linear in their number beyond. Eight slices tell of a chain, and on a large machine as many
//! as a trial may cost. A long block goes in 16 to 64 larger packets instead of thousands: who waits for whom is the same,
//! and each hop but the first takes up to such a part of the block longer.
//!
//! Of all powers of two whose time is within 2 % of the best, the least is taken: slices cost events. Where trials of all of
//! them cost too many, the best is found by bisection, as `T` falls up to it and rises beyond; and where the best number
//! itself does, a smaller one is taken.
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
/// Slices of a trial after which another one costs what the next will.
const SETTLED: u64 = 64;
/// The same of a chain, each of whose stages waits for the one before it and nothing else.
const CHAINED: u64 = 8;
/// Work that a chunk may cost in all its slices; and where a trial of so many slices that another one costs what the next
/// will costs too much itself.
const WORK_OF_A_CHUNK: u64 = 2_400_000;
const WORK_OF_A_GUESS: u64 = 600_000;
/// Work of all trials together, with what each sets up: a quarter of a second.
const WORK: u64 = 1_000_000;
/// What a single one may cost at most: one over this of it.
const SHARE: u64 = 8;
/// Slices when no trial can tell, at most.
const UNTRIED: u64 = 64;
/// Events of a message, roughly.
const EVENTS: u64 = 4;
/// In percent, how much longer than the best time the time with fewer slices may be.
const CLOSE: u128 = 102;

/// Runs a description to its end: its simulated time in picoseconds and its work. That work, with what it sets up, is taken from
/// what is left; `None` if there is not as much, or if it cannot be run.
pub type TryOut = fn(&Spec, left: &mut u64) -> Option<(u64, u64)>;

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
    /// By bytes of a slice and number of slices.
    known: BTreeMap<(u64, u64), Trial>,
    /// What another slice of those that were tried last costs.
    work_of_a_slice: u64,
    /// Slices of a trial at most.
    most: u64,
    /// Work that further ones may cost.
    left: u64,
}

/// What a trial took.
#[derive(Clone, Copy)]
struct Trial {
    /// Picoseconds.
    time: u128,
    work: u64,
}

/// The slices in which a phase passes on a chunk, if it is a pipeline.
pub fn slices_of(phase: &Phase) -> Option<u32> {
    match phase.algorithm {
        Algorithm::Chain { slices } => matches!(phase.kind, Kind::Broadcast | Kind::Reduce).then_some(slices),
        Algorithm::InSwitch { .. } => None, // has pieces of a message
        algorithm => algorithm.slices(),
    }
}

/// The first number of a range that has a property, which all after it have as well; the last one if none has it.
fn first(mut low: u32, mut high: u32, mut has: impl FnMut(u32) -> bool) -> u32 {
    while low < high {
        let middle = low.midpoint(high);
        if has(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
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
        let few = if self.is_chained() { CHAINED } else { (4 * stages).next_power_of_two().max(SETTLED) };
        self.best(most, few)
    }

    /// Whether all that is in slices passes along chains.
    fn is_chained(&self) -> bool {
        let is_chain = |phase: &Phase| matches!(phase.algorithm, Algorithm::Chain { .. });
        self.plan.phases().iter().all(|phase| is_chain(phase) || slices_of(phase).is_none())
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
    fn best(&self, most: u64, few: u64) -> u32 {
        let mut trials = Trials { known: BTreeMap::new(), work_of_a_slice: 0, most: u64::MAX, left: WORK };
        let whole = self.trial(self.chunk, 1, &mut trials);
        let smallest = self.trial(self.chunk.div_ceil(most), 1, &mut trials);
        if let (Some(whole), Some(smallest)) = (whole, smallest)
            && whole.time * 100 <= smallest.time * CLOSE
        {
            return 1; // several slices take longer than the way of one of them
        }
        let one = whole.map_or(EVENTS * self.messages(), |whole| whole.work).max(1);
        trials.most = WORK / SHARE / one;
        let untried = UNTRIED.min(WORK_OF_A_GUESS / one).clamp(1, most) as u32;
        let Some(log) = few.min(trials.most).checked_ilog2().filter(|&log| log > 0) else { return untried };
        let few = 1 << log;
        let mut seen: BTreeMap<u32, Option<u128>> = BTreeMap::new();
        // What no trial can tell takes too long.
        let mut time = |log: u32| {
            let k = 1 << log;
            let taken = || self.time(self.chunk.div_ceil(k), k, few, &mut trials);
            seen.entry(log).or_insert_with(taken).unwrap_or(u128::MAX)
        };
        // Up to the best number the time falls, and beyond it rises, but for rhythms that some numbers find and others do not.
        let last = most.ilog2();
        let trials = 2 * few + 3 * few / 2 * u64::from(last.saturating_sub(few.ilog2()));
        if one.saturating_mul(trials) <= WORK {
            for log in 0..=last {
                time(log);
            }
        } else {
            let best = first(0, last, |log| time(log) <= time(log + 1));
            let close = time(best).saturating_mul(CLOSE) / 100;
            first(0, best, |log| time(log) <= close);
        }
        let close = seen.values().flatten().min().map(|least| least.saturating_mul(CLOSE) / 100);
        seen.iter().find(|(_, time)| time.is_some() && **time <= close).map_or(untried, |(&log, _)| 1 << log)
    }

    /// Time of `k` slices of so many bytes, in ps; `None` if no trial can tell.
    fn time(&self, slice: u64, k: u64, mut few: u64, trials: &mut Trials) -> Option<u128> {
        if trials.work_of_a_slice.saturating_mul(k) > WORK_OF_A_CHUNK {
            return None;
        }
        while few < k {
            let (half, full) = (self.trial(slice, few / 2, trials)?, self.trial(slice, few, trials)?);
            // The first slices have long arrived, and what comes back meets what goes out.
            let settled = self.is_chained() || half.time >= 2 * self.trial(slice, 1, trials)?.time;
            if settled || 2 * few > trials.most {
                let (added, more) = (few - few / 2, k - few);
                trials.work_of_a_slice = full.work.saturating_sub(half.work) / added;
                let most = if settled { WORK_OF_A_CHUNK } else { WORK_OF_A_GUESS };
                let longer = full.time.saturating_sub(half.time) * u128::from(more) / u128::from(added);
                return (trials.work_of_a_slice.saturating_mul(k) <= most).then_some(full.time + longer);
            }
            few *= 2;
        }
        self.trial(slice, k, trials).map(|trial| trial.time)
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
    fn trial(&self, slice: u64, k: u64, trials: &mut Trials) -> Option<Trial> {
        if let Some(&known) = trials.known.get(&(slice, k)) {
            return Some(known);
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
        spec.fold = FoldSpec::Auto; // whatever the run does: what it costs must not decide differently
        let (time, work) = (self.try_out)(&spec, &mut trials.left)?;
        let trial = Trial { time: time.into(), work };
        trials.known.insert((slice, k), trial);
        Some(trial)
    }
}
