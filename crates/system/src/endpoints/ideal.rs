//! [`syncline_endpoint::Ideal`].

use super::{BuildEndpoint, Contention, EndpointModel, EndpointParts, Rooms, TransitSpec, WithEndpoint, WorstCase};
use serde::Deserialize;
use syncline_core::{Ps, Refusal};
use syncline_endpoint::{Ideal, MessageEndpoint};
use syncline_network::Network;

/// Every message is processed in a fixed time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdealSpec {
    /// Time from the arrival of a message to the next step (one cycle).
    pub step_latency_ps: u64,
    /// Time from the arrival of a message until the NPU has it for a step, a pure delay.
    #[serde(default)]
    pub injection_latency_ps: u64,
    /// What is passed on when it has arrived.
    #[serde(default)]
    pub forwarding: ForwardingSpec,
    /// Who forwards what is for distant NPUs.
    #[serde(default)]
    pub transit: TransitSpec,
}

/// What the ideal endpoint passes on as soon as it has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardingSpec {
    /// Whole messages.
    #[default]
    Messages,
    /// Packets, where the network has them.
    Packets,
}

impl Default for IdealSpec {
    /// A cycle of 1245 MHz, rounded up, whole messages, and routers that forward.
    fn default() -> IdealSpec {
        IdealSpec {
            step_latency_ps: 804,
            injection_latency_ps: 0,
            forwarding: ForwardingSpec::Messages,
            transit: TransitSpec::Network,
        }
    }
}

impl EndpointModel for IdealSpec {
    fn transit(&self) -> TransitSpec {
        self.transit
    }

    fn at_worst(&self, _contention: Option<&Contention>) -> Result<WorstCase, Refusal> {
        if self.injection_latency_ps > 0 && self.forwarding == ForwardingSpec::Packets {
            let refusal = Refusal::of("injection_latency_ps", "packets that are passed on as they arrive have none");
            return Err(refusal.accepting("0, or forwarding of messages").within("endpoint"));
        }
        Ok(WorstCase { per_step: self.injection_latency_ps as f64, ..WorstCase::NONE })
    }
}

impl BuildEndpoint for IdealSpec {
    fn build<N: Network + 'static, W: WithEndpoint<N>>(&self, rooms: Rooms<'_>, then: W) -> Result<W::Output, Refusal> {
        let (step, injection) = (Ps(self.step_latency_ps), Ps(self.injection_latency_ps));
        let costs = |parts: &EndpointParts<'_>| match self.forwarding {
            ForwardingSpec::Messages => (Ideal { step, own: step, injection }, None),
            ForwardingSpec::Packets => (Ideal { step, own: Ps::ZERO, injection }, parts.packet),
        };
        let engine = |parts: EndpointParts<'_>| {
            let (inflight, (per_dimension, of_chunk)) =
                (parts.parts_in_flight(), (parts.inflight_per_dimension, parts.parts));
            let (cost, packet) = costs(&parts);
            let ideal = MessageEndpoint::new(parts.layout, cost, inflight, parts.transit, parts.traced);
            ideal.packet_by_packet(packet).shortest_first(parts.urgent).along_each_dimension(per_dimension, of_chunk)
        };
        rooms.build(engine, |parts| costs(parts).0.into(), then)
    }
}
