//! How large input buffers have to be, so that packets which wait there keep out nobody they wait for.
//!
//! A packet leaves an input buffer at once, unless its chunk has not begun the phase, has still to send its own message of the
//! group (*rings*, *relays*), or has no room for results (all-reduces around a ring). It then waits for something that other
//! packets may have to come by the same link for: those of another chunk of the phase, or of another phase around the same ring.
//! So the buffer behind a link holds all packets that can wait in it at a time, and two more, which the rule against deadlock of
//! the network asks for. How many can wait follows from what keeps the FSMs of the NPU before the link from sending more, FSM
//! by FSM, since all NPUs have the same FSM handle a chunk, and those of a phase handle their chunks in the same order. Let
//! there be `n` ranks around the ring, of which NPU 0 lies behind the link, has not sent its own message of a group, and is
//! followed by NPUs 1 to n-1, the last of which lies before the link.
//!
//! * *A reduce-scatter or an all-gather* has n-1 sends in a group, the first of which waits for nobody and each other one for
//!   an arrival. NPU k therefore sends k messages at most. The last one sends all n-1, goes on to the next group (or chunk)
//!   and sends its own message of that; NPU n-2, which it would hear from next, has not sent its last one and stays behind. That
//!   makes n messages.
//! * *An all-reduce* has 2(n-1) sends, so that it makes n-1 messages. But NPU 0 may have begun and lack room for what it stores,
//!   from its arrival n-1 on. It has passed on n-2 then, the last NPU is up to n-1 sends further, the end of the group, and
//!   sends its own message of the next: n+1 messages wait.
//! * *A relay* is like a reduce-scatter, of runs of messages: all of a group, and the own ones of the next.
//! * *With two ranks* nothing is passed on but in an all-reduce, and *in a direct phase* nothing at all: an FSM has sent
//!   everything without an answer. It has two chunks at most that are not finished ([`MOST_UNFINISHED`]), and NPU 0 not
//!   having begun, none of those that it is to have messages of can be. All messages of two chunks wait.
//!
//! A buffer that is full would then have packets in it which wait for the port of NPU 0, and that for the next buffer around the
//! ring, which is full as well, and so on: all n are. But of each group around a ring no more than n messages, and of each FSM no more
//! than two groups, are under way at a time, which is less than n such buffers hold. So no buffer is ever full for good.
//!
//! FSMs of several phases send around the same ring, and their packets add up. Each FSM serves one lane where
//! chunks take the lanes in turn and the number of FSMs is a multiple of theirs, and otherwise all lanes.
//!
//! Packets of direct all-to-alls in a single phase wait for nobody who waits for them, and need nothing.

use super::config::AceConfig;
use super::engine::Ace;
use super::fsm_pool::MOST_UNFINISHED;
use super::fsm_split;
use super::phase_messages::{Pattern, arriving_messages, groups, largest_block, own_messages};
use crate::api::Chunk;
use crate::layout::{Layout, PhaseView};
use std::collections::BTreeMap;
use syncline_collective::{Kind, PhaseId};
use syncline_core::{Bytes, PortId};

/// Packets beside those that wait: what the network's rule against deadlock asks for.
const BUBBLE: u64 = 2;

impl Ace {
    /// Packets of `packet` bytes that an input buffer must hold, for chunks of at most `chunk` bytes, which take the lanes of
    /// rings in turn or not.
    pub fn input_buffer(layout: &Layout, config: &AceConfig, packet: Bytes, chunk: Bytes, in_turn: bool) -> u32 {
        if layout.kinds() == (true, false) {
            return 0;
        }
        let fsms = fsm_split::per_phase(layout, config, packet, chunk);
        // By port that a phase sends through, which is none if it may be any, and by phase: the most of any plan.
        let mut waiting: BTreeMap<(Option<PortId>, PhaseId), u64> = BTreeMap::new();
        for (plan, p) in layout.plan_ids().zip(layout.plans()).filter(|(_, p)| !p.is_exchange()) {
            for (phase, kind) in p.phase_ids().zip(p.phases().iter().map(|phase| phase.kind)) {
                let lanes = layout.lanes_of(plan, phase) as u32;
                let of_phase = fsms.get(phase.index()).map_or(config.fsms, |&fsms| fsms);
                let fsms = if in_turn && of_phase.is_multiple_of(lanes) { of_phase / lanes } else { of_phase };
                for lane in 0..lanes {
                    let view = layout.view(layout.first(), Chunk { len: chunk, plan, lane }, phase);
                    let message = largest_block(&view).min(config.message.0);
                    let packets = message.div_ceil(packet.0.max(1)).max(1);
                    let messages = waiting_messages(&view, kind, config.message);
                    let most = waiting.entry((view.port(), phase)).or_default();
                    *most = messages.saturating_mul(packets).saturating_mul(fsms.into()).max(*most);
                }
            }
        }
        let through = |port| {
            let theirs = waiting.iter().filter(|((p, _), _)| p.is_none_or(|p| Some(p) == port));
            theirs.fold(BUBBLE, |sum, (_, &most)| sum.saturating_add(most))
        };
        let needed = waiting.keys().map(|&(port, _)| through(port)).max().unwrap_or(BUBBLE);
        u32::try_from(needed).unwrap_or(u32::MAX)
    }
}

/// Messages of an FSM before a link that may wait behind it.
fn waiting_messages(view: &PhaseView<'_>, kind: Kind, message: Bytes) -> u64 {
    let (own, arriving) = (u64::from(own_messages(view)), u64::from(arriving_messages(view)));
    match Pattern::of(view.program()) {
        Pattern::Ring if kind == Kind::AllReduce => u64::from(view.program().ranks()) + 1,
        Pattern::Ring | Pattern::Relay if arriving > 1 => arriving + own,
        Pattern::Ring | Pattern::Relay | Pattern::Direct => {
            own.saturating_mul(groups(view, message)).saturating_mul(MOST_UNFINISHED.into())
        }
    }
}
