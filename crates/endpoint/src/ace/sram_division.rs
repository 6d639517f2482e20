//! How the SRAM is divided into partitions: ACE paper, section IV-I.

use super::config::AceError;
use super::packet::LEAST_SLOTS;
use super::sram::Division;
use crate::layout::Layout;
use syncline_collective::{PhaseId, Plan, Split};
use syncline_core::{Bytes, Id, NodeId, PortId};

/// The packets of direct all-to-alls, which need room beside that of chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassingPackets {
    /// Bytes of a packet.
    pub unit: u32,
    /// Transit pools of an NPU.
    pub pools: u32,
}

impl PassingPackets {
    /// The least that the terminal partition and the transit pools may hold.
    fn least(self) -> [u64; 2] {
        [self.unit.into(), LEAST_SLOTS * u64::from(self.unit) * u64::from(self.pools)]
    }
}

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
pub(super) fn divide_sram(
    layout: &Layout,
    sram: u64,
    chunk: Bytes,
    packets: Option<PassingPackets>,
) -> Result<Division, AceError> {
    let fabric = layout.fabric();
    let phases = layout.plans().map(|p| p.phases().len()).max().unwrap_or(0);
    let ports = fabric.ports(NodeId(0)); // of a product, as every NPU's
    let mut weights = vec![0u128; phases + 1];
    let mut needs = vec![0u64; phases + 1];
    let mut reserve = 0;
    let mut bandwidths = Vec::new();
    let mut brought_by_all_to_alls = Vec::new();
    for plan in layout.plan_ids() {
        let bytes_before = |phase| layout.held_at_most(plan, chunk, PhaseId::from_index(phase));
        let count = layout.phases(plan);
        if layout.plan(plan).is_exchange() {
            let brought = bytes_before(0);
            needs[0] = needs[0].max(brought);
            brought_by_all_to_alls.push(u128::from(brought.max(1)));
            continue;
        }
        for (phase, p) in layout.plan(plan).phases().iter().enumerate() {
            let links =
                (0..ports).map(|q| fabric.link(NodeId(0), PortId(q))).filter(|l| l.class == layout.link_class(p.dim));
            let bandwidth: u128 = links.map(|l| u128::from(l.rate.bytes_per_s())).sum();
            weights[phase] += bandwidth * u128::from(bytes_before(phase).max(1));
            if phase == 0 {
                bandwidths.push(bandwidth);
            }
            needs[phase] = needs[phase].max(bytes_before(phase));
        }
        needs[phases] = needs[phases].max(bytes_before(count));
    }
    let first = bandwidths.iter().sum::<u128>() / (bandwidths.len() as u128).max(1);
    weights[0] += first * brought_by_all_to_alls.iter().sum::<u128>();
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
    Ok(Division { capacity: divide(sram, &weights, &needs), terminal: phases, reserve })
}

/// Packets that each transit pool holds.
pub(super) fn slots(division: &Division, packets: PassingPackets) -> u32 {
    let PassingPackets { unit, pools } = packets;
    let pool = division.capacity.last().map_or(0, |all| all / u64::from(pools.max(1)) / u64::from(unit.max(1)));
    u32::try_from(pool).unwrap_or(u32::MAX)
}

/// What a partition is called: by the phase whose chunks it holds, or by what it is for.
pub(super) fn partition_name(layout: &Layout, partition: usize) -> String {
    let plan = layout.plan_ids().max_by_key(|&p| layout.phases(p)).unwrap_or_default();
    match partition.checked_sub(layout.phases(plan)) {
        None => layout.phase_name(plan, PhaseId::from_index(partition)),
        Some(0) => "terminal".to_string(),
        Some(_) => "transit".to_string(),
    }
}

/// Bytes of SRAM in which the partitions hold one chunk each; what `packets` need if there are direct all-to-alls only.
pub(super) fn needed(plans: &[Plan], split: Split, chunk: Bytes, packets: PassingPackets) -> u64 {
    let mut needs = Vec::new();
    let mut terminal = 0;
    let (all_to_alls, others): (Vec<&Plan>, Vec<&Plan>) = plans.iter().partition(|plan| plan.is_exchange());
    for plan in others {
        let count = plan.phases().len();
        needs.resize(needs.len().max(count), 0);
        for (phase, need) in needs.iter_mut().enumerate().take(count) {
            *need = plan.held_at_most(PhaseId::from_index(phase), chunk, split).max(*need);
        }
        terminal = plan.held_at_most(PhaseId::from_index(count), chunk, split).max(terminal);
    }
    if !all_to_alls.is_empty() {
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

#[cfg(test)]
mod tests {
    use super::super::config::tests::all_reduce;
    use super::*;
    use proptest::prelude::*;
    use syncline_core::Ps;

    #[test]
    fn partitions_are_proportional_but_never_too_small() {
        assert_eq!(divide(100, &[2, 1, 1], &[10, 10, 10]), [50, 25, 25]);
        // The second would get 10: it gets its 40, and the others share the rest 2 to 1.
        assert_eq!(divide(100, &[6, 1, 3], &[0, 40, 0]), [40, 40, 20]);
        assert_eq!(divide(30, &[1000, 1, 1], &[10, 10, 10]), [10, 10, 10]);
    }

    /// ACE paper, section IV-I: (bandwidth of the phase's links) x (bytes that a chunk brings into it), and the terminal
    /// partition is as large as the last one. Of a chunk, the ring of four leaves a quarter.
    #[test]
    fn partitions_are_as_bandwidth_and_bytes_of_phases_and_the_terminal_as_the_last() {
        let layout = all_reduce(&[(4, 200), (2, 25), (3, 50)], Ps(1));
        let division = divide_sram(&layout, 800_000, Bytes(4096), None).expect("there is room");
        // 2 links of 200, 25, 50 and 200 B/s; a whole chunk, then a quarter.
        let parts = [200 * 4, 25, 50, 200, 200].map(|weight| 800_000 * weight / 1275);
        assert_eq!((&division.capacity[..], division.terminal, division.reserve), (&parts[..], 4, 0));
    }

    proptest! {
        #[test]
        fn nobody_gets_less_than_it_needs_and_no_more_than_all_is_given(
            parts in prop::collection::vec((1u128..1_000_000, 0u64..1_000_000), 1..8), more in 0u64..10_000_000,
        ) {
            let (weights, needs): (Vec<u128>, Vec<u64>) = parts.into_iter().unzip();
            let sram = needs.iter().sum::<u64>() + more;
            let capacity = divide(sram, &weights, &needs);
            prop_assert!(capacity.iter().zip(&needs).all(|(capacity, need)| capacity >= need));
            let given: u64 = capacity.iter().sum();
            prop_assert!(given <= sram && sram - given < capacity.len() as u64, "{} of {}", given, sram);
        }
    }
}
