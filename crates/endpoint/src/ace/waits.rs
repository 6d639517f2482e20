//! What everything unfinished waits for, for people.

use super::engine::Ace;
use super::progress::{Blocked, Progress, State};
use super::run::{Arriving, InHand, PhaseRun, Shape};
use crate::api::ChunkId;
use syncline_core::{NodeId, PortId, Wait};

impl Ace {
    /// What every unfinished chunk waits for, and packets of direct all-to-alls.
    pub(super) fn list_waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (npu, window) in (0..).map(NodeId).zip(&self.windows) {
            if self.has_all_to_alls() {
                self.list_packet_waits(npu, &mut waits);
            }
            for (seq, chunk) in window.iter() {
                let Some(what) = self.wait_of(npu, seq, chunk) else { continue };
                let name = self.layout.fabric().node_name(npu);
                let phase = self.layout.phase_name(self.plan_of(seq), chunk.phase);
                waits.push(Wait { who: format!("{name}, chunk {seq}, {phase}"), what });
            }
        }
        waits
    }

    /// What a chunk waits for; nothing while DMAs move it.
    fn wait_of(&self, npu: NodeId, seq: ChunkId, chunk: &Progress) -> Option<String> {
        Some(match &chunk.state {
            State::Loading | State::Draining { .. } | State::Done => return None,
            State::Queued => match self.blocked_by(npu, self.queue_of(seq, chunk.phase), seq) {
                Some(Blocked::Fsm) => "its FSM".into(),
                Some(Blocked::Room) => "room in the next SRAM partition".into(),
                _ => "its turn behind earlier chunks".into(),
            },
            State::Exchanging(block) => self.wait_for_peers(npu, seq, block.as_ref()),
            State::Running(_) if chunk.blocked == Blocked::Room => "room in the next SRAM partition".into(),
            State::Running(run) => self.wait_in_phase(npu, run),
        })
    }

    fn wait_in_phase(&self, npu: NodeId, run: &PhaseRun) -> String {
        let port = || run.port().map_or_else(String::new, |port| self.layout.fabric().port_name(npu, port));
        match &run.shape {
            _ if run.sending == InHand::Turn => format!("its turn to send through {}", port()),
            _ if run.receiving == InHand::AtPort || run.sending == InHand::AtPort => {
                format!("space in the port buffer of {}", port())
            }
            Shape::Direct(direct) => {
                format!("{} B to add and {} B to store from the other NPUs", direct.to_add, direct.to_store)
            }
            Shape::Ring(around) | Shape::Relay { around, .. } => match around.arriving {
                Some(Arriving { group, number, .. }) => format!("message {group} of step {number} of its neighbour"),
                None => "the end of what it sends".into(),
            },
        }
    }

    /// What packets of direct all-to-alls wait for on an NPU.
    fn list_packet_waits(&self, npu: NodeId, waits: &mut Vec<Wait>) {
        let fabric = self.layout.fabric();
        let name = fabric.node_name(npu);
        for port in (0..fabric.ports(npu)).map(PortId) {
            let here = fabric.port_name(npu, port);
            if let Some((packet, count)) = self.pools.first_arrived(npu, port) {
                let what = match self.paths.hop(packet.position).last {
                    true => "room in the terminal SRAM partition".into(),
                    false => {
                        let next = self.paths.hop(packet.position + 1);
                        let out = fabric.port_name(npu, next.port);
                        match self.pools.slots_needed(next.enters) {
                            1 => format!("a free slot in the transit pool of {out}"),
                            slots => format!("{slots} free slots in the transit pool of {out}, as it enters that ring"),
                        }
                    }
                };
                let who =
                    format!("{name}, {count} packet(s) in the input buffer {here}, first one of chunk {}", packet.seq);
                waits.push(Wait { who, what });
            }
            if let Some((packet, count)) = self.pools.first_pooled(npu, port) {
                let seq = packet.seq;
                let who = format!("{name}, {count} packet(s) in the transit pool of {here}, first one of chunk {seq}");
                waits.push(Wait { who, what: format!("space in the port buffer of {here}") });
            }
        }
    }
}
