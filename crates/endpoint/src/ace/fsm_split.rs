//! How FSMs are divided among phases.
//!
//! ACE paper, section IV-E: every phase has one FSM or several; how many is not said. Its first version spreads them evenly.
//!
//! *By need.* A chunk goes through all phases, so all have the same rate `r` of chunks in the long run, at most what the
//! slowest links allow. By Little's law a phase then has `r t` FSMs busy, of which `t` is how long a chunk keeps one:
//!
//! ```text
//! t = groups x max(hops x (latency + packet / rate) + owns x message / rate, sends x message / rate)
//! ```
//!
//! `owns` messages of a group are the FSM's own and `sends` are all that it sends; the last one that it passes on has
//! come `hops` hops since it sent its first (a ring of n NPUs: 2n-3 in an all-reduce, n-2 otherwise). FSMs are divided in
//! proportion to `t`: as many as needed if there are as many, and if not, all phases lack the same part. A phase
//! has one at least, and what is left over goes to the largest remainders.
//!
//! Left out: waits for room, banks and ports.

use super::config::{AceConfig, FsmSplit};
use super::phase_messages::{Pattern, arriving_messages, groups, largest_block, own_messages};
use crate::api::Chunk;
use crate::layout::Layout;
use syncline_collective::PhaseId;
use syncline_core::{Bytes, Id, PortId, Ps, Rate};

/// FSMs of each phase, for chunks of at most `chunk` bytes in packets of `packet`. No phase has none if there are as
/// many FSMs as phases.
pub(super) fn per_phase(layout: &Layout, config: &AceConfig, packet: Bytes, chunk: Bytes) -> Vec<u32> {
    let phases = layout.plans().map(|p| p.phases().len()).max().unwrap_or(0);
    let mut times = vec![1; phases];
    if config.fsm_split == FsmSplit::Need {
        for (plan, p) in layout.plan_ids().zip(layout.plans()).filter(|(_, p)| !p.is_exchange()) {
            for (phase, time) in times.iter_mut().enumerate().take(p.phases().len()) {
                let chunk = Chunk { len: chunk, plan, lane: 0 };
                *time = busy(layout, config, packet, chunk, PhaseId::from_index(phase)).max(*time);
            }
        }
    }
    divide(config.fsms, &times)
}

/// How long a chunk keeps an FSM of a phase, in picoseconds.
fn busy(layout: &Layout, config: &AceConfig, packet: Bytes, chunk: Chunk, phase: PhaseId) -> u128 {
    let (fabric, npu) = (layout.fabric(), layout.first());
    let view = layout.view(npu, chunk, phase);
    let dim = layout.link_class(layout.plan(chunk.plan).phases()[phase.index()].dim);
    let links = (0..fabric.ports(npu)).map(|port| fabric.link(npu, PortId(port))).filter(|link| link.class == dim);
    let slowest = |(rate, latency): (Rate, Ps), link: syncline_topology::LinkSpec| {
        (rate.min(link.rate), latency.max(link.latency))
    };
    let (rate, latency) = links.fold((Rate::UNLIMITED, Ps::ZERO), slowest);
    let groups = groups(&view, config.message);
    let message = Bytes(largest_block(&view).div_ceil(groups));
    let owns = own_messages(&view);
    let (hops, sends) = match Pattern::of(view.program()) {
        // A hop for every step but the first, which only sends, and the last, which only receives. As many are sent as
        // arrive: those that are for the NPU itself are as many as its own.
        Pattern::Ring | Pattern::Relay => (view.steps(0).saturating_sub(2), arriving_messages(&view)),
        Pattern::Direct => (1, owns),
    };
    let times = |count: u32, time: Ps| u128::from(count) * u128::from(time.0);
    let hop = Ps(latency.0.saturating_add(rate.time(Bytes(packet.0.min(message.0))).0));
    let way = times(hops, hop) + times(owns, rate.time(message));
    u128::from(groups) * way.max(times(sends, rate.time(message)))
}

/// Divides FSMs in proportion to weights, none of which is zero; at least one each, the rest by largest remainders, and of
/// equal ones to the first.
fn divide(fsms: u32, weights: &[u128]) -> Vec<u32> {
    let mut shares = vec![0; weights.len()];
    loop {
        let open: Vec<usize> = (0..weights.len()).filter(|&i| shares[i] == 0).collect();
        let left = u128::from(fsms) - shares.iter().map(|&share| u128::from(share)).sum::<u128>().min(fsms.into());
        let total: u128 = open.iter().map(|&i| weights[i]).sum();
        let small: Vec<usize> = open.iter().copied().filter(|&i| left * weights[i] < total).collect();
        if !small.is_empty() {
            small.into_iter().for_each(|i| shares[i] = 1);
            continue;
        }
        open.iter().for_each(|&i| shares[i] = (left * weights[i] / total) as u32);
        let spare = left.saturating_sub(open.iter().map(|&i| u128::from(shares[i])).sum()) as usize;
        let mut by_remainder = open;
        by_remainder.sort_by_key(|&i| (std::cmp::Reverse(left * weights[i] % total), i));
        by_remainder.into_iter().take(spare).for_each(|i| shares[i] += 1);
        return shares;
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::{all_reduce, config};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_phase_has_one_at_least_and_the_rest_in_proportion() {
        assert_eq!(divide(16, &[1, 1, 1, 1]), [4, 4, 4, 4]);
        assert_eq!(divide(18, &[7, 7, 7, 7]), [5, 5, 4, 4]);
        assert_eq!(divide(16, &[1, 9, 4, 1]), [1, 10, 4, 1]); // 1.07, 9.6, 4.27 and 1.07
        assert_eq!(divide(5, &[1, 1000, 1, 1]), [1, 2, 1, 1]);
        assert_eq!(divide(4, &[1, 1000, 1, 1]), [1, 1, 1, 1]);
        assert!(divide(4, &[]).is_empty());
    }

    /// Where latency is all that counts, a chunk keeps an FSM for the hops from its first message to its last: n - 2 of n NPUs in a
    /// reduce-scatter or an all-gather, 2n - 3 in an all-reduce.
    #[test]
    fn by_need_fsms_are_as_the_hops_of_phases() {
        let config = AceConfig { fsm_split: FsmSplit::Need, ..config() };
        for (local, others) in [(4, vec![4]), (5, vec![2, 3]), (7, vec![3, 6, 2])] {
            let rings: Vec<(u32, u64)> = std::iter::once(&local).chain(&others).map(|&n| (n, 1 << 40)).collect();
            let layout = all_reduce(&rings, Ps(1_000_000_000));
            let between = others.iter().map(|n| 2 * n - 3);
            let hops: Vec<u32> = std::iter::once(local - 2).chain(between).chain([local - 2]).collect();
            let fsms = 3 * hops.iter().sum::<u32>();
            let found = per_phase(&layout, &AceConfig { fsms, ..config }, Bytes(256), Bytes(4096));
            assert_eq!(found, hops.iter().map(|hops| 3 * hops).collect::<Vec<_>>(), "{local} {others:?}");
            let even = AceConfig { fsms: 2 * hops.len() as u32, fsm_split: FsmSplit::Even, ..config };
            assert_eq!(per_phase(&layout, &even, Bytes(256), Bytes(4096)), vec![2; hops.len()]);
        }
    }

    proptest! {
        #[test]
        fn all_are_given_and_nobody_is_far_from_the_proportion(
            weights in prop::collection::vec(1u128..10_000_000_000, 1..8), more in 0u32..40,
        ) {
            let fsms = weights.len() as u32 + more;
            let shares = divide(fsms, &weights);
            prop_assert_eq!(shares.iter().sum::<u32>(), fsms);
            for (a, wa) in shares.iter().zip(&weights) {
                prop_assert!(*a >= 1);
                for (b, wb) in shares.iter().zip(&weights) {
                    prop_assert!(wa < wb || a >= b, "who needs more has no fewer");
                }
            }
        }

        #[test]
        fn alike_phases_have_even_shares(phases in 1u32..8, more in 0u32..40, weight in 1u128..1_000_000_000) {
            let fsms = phases + more;
            let even: Vec<u32> = (0..phases).map(|p| fsms / phases + u32::from(p < fsms % phases)).collect();
            prop_assert_eq!(divide(fsms, &vec![weight; phases as usize]), even);
        }
    }
}
