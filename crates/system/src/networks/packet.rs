//! [`syncline_network::packet`].

use super::{BuildNetwork, NetworkModel, NetworkNeeds, NetworkSpec};
use serde::Deserialize;
use std::sync::Arc;
use syncline_core::{Bytes, Ps, Rate, Refusal};
use syncline_network::packet::{self, Packet, PacketConfig};
use syncline_topology::Fabric;

/// Packets of an input buffer with which rings move whatever is in their way.
const LEAST_BUFFER: u32 = 4;

/// Packets, credits and routers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketSpec {
    /// Payload bytes of a packet.
    pub packet_bytes: u32,
    /// Packets per input buffer; `None` for twice the bandwidth-delay product of each link.
    pub buffer_packets: Option<u32>,
    /// How ring deadlock is avoided.
    pub deadlock_rule: DeadlockRule,
    /// Whether packets of one message travel as trains where that is exact.
    pub trains: bool,
    /// Whether packets in transit through an NPU do not wait for one before them that goes elsewhere: to see what that
    /// costs.
    #[serde(default)]
    pub sorted: bool,
}

/// How the packet backend keeps rings from deadlocking.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlockRule {
    /// Bubble flow control: entering a ring takes two free slots.
    Bubble,
    /// Two virtual channels and a dateline.
    Dateline,
    /// None: for showing that one is needed.
    None,
}

impl PacketSpec {
    /// Packets of 256 B, automatic buffers, bubble flow control, trains.
    pub const DEFAULT: PacketSpec = PacketSpec {
        packet_bytes: 256,
        buffer_packets: None,
        deadlock_rule: DeadlockRule::Bubble,
        trains: true,
        sorted: false,
    };

    fn config(&self, needs: &NetworkNeeds) -> PacketConfig {
        PacketConfig {
            packet: Bytes(self.packet_bytes.into()),
            buffer: self.buffer_packets,
            at_least: needs.buffer_packets,
            rule: match self.deadlock_rule {
                _ if needs.classes > 1 => packet::DeadlockRule::Classes,
                DeadlockRule::Bubble => packet::DeadlockRule::Bubble,
                DeadlockRule::Dateline => packet::DeadlockRule::Dateline,
                DeadlockRule::None => packet::DeadlockRule::None,
            },
            trains: self.trains,
            turns: needs.turns,
            in_rounds: needs.in_rounds,
            by_precedence: needs.by_precedence,
            sorted: self.sorted,
            window: needs.window,
        }
    }
}

impl Default for PacketSpec {
    fn default() -> PacketSpec {
        PacketSpec::DEFAULT
    }
}

impl NetworkModel for PacketSpec {
    fn link_bytes(&self) -> u64 {
        900
    }

    fn packet_bytes(&self) -> Option<u32> {
        Some(self.packet_bytes)
    }

    fn coarser(&self, scale: u32) -> Option<NetworkSpec> {
        let scaled = |buffer: u32| (buffer / scale).max(buffer.min(LEAST_BUFFER));
        let packet_bytes = self.packet_bytes.saturating_mul(scale);
        let buffer_packets = self.buffer_packets.map(scaled);
        Some(NetworkSpec::Packet(PacketSpec { packet_bytes, buffer_packets, ..*self }))
    }

    fn keeps_paths(&self) -> bool {
        true
    }

    fn unfolded(&self, mut links: &mut dyn Iterator<Item = (Rate, Ps)>) -> Option<&'static str> {
        if self.deadlock_rule == DeadlockRule::Dateline {
            return Some("a dateline makes the NPUs of a ring differ");
        }
        let at_once = Iterator::any(&mut links, |(_, latency)| latency == Ps::ZERO);
        at_once.then_some("links without latency leave the order of simultaneous packets to node numbers")
    }

    fn takes_turns_at_switches(&self) -> bool {
        true
    }

    fn prevents_deadlock(&self) -> bool {
        self.deadlock_rule != DeadlockRule::None
    }
}

impl BuildNetwork for PacketSpec {
    type Network = Packet<Arc<dyn Fabric>>;

    fn check(&self, _: &dyn Fabric, needs: &NetworkNeeds) -> Result<(), Refusal> {
        if needs.classes > 1 && !needs.transit {
            // The routers' own rules against deadlock need all channels.
            let message = "the routers of the packet backend do not forward for an ACE that carries out rings beside \
                           direct all-to-alls";
            return Err(Refusal::of("endpoint.transit", message).accepting("endpoint"));
        }
        let config = self.config(needs);
        let needed = needs.buffer_packets.saturating_mul(config.rule.channels());
        if let Some(buffer) = self.buffer_packets.filter(|&b| b < needed) {
            let bytes = u64::from(buffer) * config.packet.0;
            let message = format!("input buffers of {bytes} B, which chunks that wait inside an ACE could fill");
            return Err(Refusal::of("network.buffer_packets", message).at_least(needed.into()));
        }
        config.check().map_err(|error| Refusal::from(error).within("network"))
    }

    fn build(&self, fabric: Arc<dyn Fabric>, needs: &NetworkNeeds) -> Self::Network {
        Packet::new(fabric, self.config(needs)).unwrap_or_else(|error| unreachable!("it was checked: {error:?}"))
    }
}
