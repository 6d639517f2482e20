//! How large input buffers have to be.

use super::config::AceConfig;
use super::engine::Ace;
use super::fsm_split;
use super::phase_messages::{Pattern, arriving_messages, groups, largest_block, own_messages};
use crate::api::Chunk;
use crate::layout::Layout;
use syncline_core::Bytes;

impl Ace {
    /// Packets of `packet` bytes that an input buffer must hold so that chunks which wait (for SRAM room,
    /// or for their FSM's own send) cannot fill it and keep out those they wait for, for every FSM that a phase has per
    /// lane, and the bubble: around a ring a message, and one more that is under way; of a relay what arrives of two
    /// groups, since a neighbour begins the next when the last send of one is issued; of a direct phase what
    /// all others send before they need an answer. Packets of direct all-to-alls in a single phase wait for nobody who waits
    /// for them: none.
    pub fn input_buffer(layout: &Layout, config: &AceConfig, packet: Bytes, chunk: Bytes) -> u32 {
        if layout.kinds() == (true, false) {
            return 0;
        }
        let most = fsm_split::per_phase(layout, config, packet, chunk).into_iter().max().unwrap_or(config.fsms);
        let fsms = |lanes: usize| u64::from(most.div_ceil(lanes.max(1) as u32));
        let packets_of = |bytes: u64| bytes.div_ceil(packet.0.max(1)).max(1);
        let message = config.message.0.min(chunk.0);
        let mut needed = packets_of(message).saturating_mul(fsms(layout.lanes()) + 1);
        for (plan, p) in layout.plan_ids().zip(layout.plans()).filter(|(_, p)| !p.is_exchange()) {
            for phase in p.phase_ids() {
                let view = layout.view(layout.first(), Chunk { len: chunk, plan, lane: 0 }, phase);
                let groups = groups(&view, config.message);
                let messages = match Pattern::of(view.program()) {
                    Pattern::Ring => continue,
                    Pattern::Relay => u64::from(arriving_messages(&view)) * groups.min(2),
                    Pattern::Direct => u64::from(own_messages(&view)) * groups,
                };
                let each = packets_of(largest_block(&view).min(config.message.0)).saturating_mul(messages);
                needed = needed.max(each.saturating_mul(fsms(layout.lanes_of(plan, phase)) + 1));
            }
        }
        u32::try_from(needed.saturating_add(2)).unwrap_or(u32::MAX)
    }
}
