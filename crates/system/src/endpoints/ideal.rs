//! [`syncline_endpoint::Ideal`].

use super::{BuildEndpoint, Contention, EndpointModel, EndpointParts, Rooms, TransitSpec, WithEndpoint, WorstCase};
use serde::Deserialize;
use syncline_core::{Bytes, Ps, Refusal};
use syncline_endpoint::costs::StepCost;
use syncline_endpoint::{GivingWay, Ideal, MessageEndpoint, Whole};
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
    /// What an NPU has, if kernels give way to what communication holds of it.
    #[serde(default)]
    pub gives_way: Option<WholeSpec>,
}

/// What an NPU has of what kernels and communication share.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WholeSpec {
    /// SMs.
    pub sms: u32,
    /// Main-memory bandwidth.
    pub memory_bytes_per_s: u64,
}

impl WholeSpec {
    fn checked(self) -> Result<Whole, Refusal> {
        if self.sms == 0 || self.sms > 1 << 16 {
            let refusal = Refusal::of("endpoint.gives_way.sms", format!("{} SMs", self.sms));
            return Err(refusal.accepting("1 to 65536"));
        }
        if self.memory_bytes_per_s == 0 {
            let refusal = Refusal::of("endpoint.gives_way.memory_bytes_per_s", "0 B/s of memory");
            return Err(refusal.at_least(1));
        }
        Ok(Whole { sms: self.sms, memory: self.memory_bytes_per_s })
    }
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
            gives_way: None,
        }
    }
}

impl EndpointModel for IdealSpec {
    fn transit(&self) -> TransitSpec {
        self.transit
    }

    fn times_kernels(&self) -> bool {
        self.gives_way.is_some()
    }

    fn at_worst(&self, _contention: Option<&Contention>) -> Result<WorstCase, Refusal> {
        if self.injection_latency_ps > 0 && self.forwarding == ForwardingSpec::Packets {
            let refusal = Refusal::of("injection_latency_ps", "packets that are passed on as they arrive have none");
            return Err(refusal.accepting("0, or forwarding of messages").within("endpoint"));
        }
        // All SMs but one may be held, and half of the memory bandwidth.
        let stretch = match self.gives_way.map(WholeSpec::checked).transpose()? {
            Some(whole) => f64::from(whole.sms.max(2)),
            None => 1.0,
        };
        Ok(WorstCase { per_step: self.injection_latency_ps as f64, stretch, ..WorstCase::NONE })
    }
}

impl BuildEndpoint for IdealSpec {
    fn build<N: Network + 'static, W: WithEndpoint<N>>(&self, rooms: Rooms<'_>, then: W) -> Result<W::Output, Refusal> {
        let (step, injection) = (Ps(self.step_latency_ps), Ps(self.injection_latency_ps));
        let costs = |parts: &EndpointParts<'_>| match self.forwarding {
            ForwardingSpec::Messages => (Ideal { step, own: step, injection }, None),
            ForwardingSpec::Packets => (Ideal { step, own: Ps::ZERO, injection }, parts.packet),
        };
        fn engine<C: StepCost>(parts: EndpointParts<'_>, cost: C, packet: Option<Bytes>) -> MessageEndpoint<C> {
            let (inflight, (per_dimension, of_chunk)) =
                (parts.parts_in_flight(), (parts.inflight_per_dimension, parts.parts));
            let ideal = MessageEndpoint::new(parts.layout, cost, inflight, parts.transit, parts.traced);
            ideal.packet_by_packet(packet).shortest_first(parts.urgent).along_each_dimension(per_dimension, of_chunk)
        }
        let Some(whole) = self.gives_way else {
            let of = |parts: EndpointParts<'_>| {
                let (cost, packet) = costs(&parts);
                engine::<Ideal>(parts, cost, packet)
            };
            return rooms.build(of, |parts| costs(parts).0.into(), then);
        };
        let whole = whole.checked()?;
        let cost = |parts: &EndpointParts<'_>| GivingWay::new(costs(parts).0, whole, parts.layout.npus());
        let of = |parts: EndpointParts<'_>| {
            let (cost, packet) = (cost(&parts), costs(&parts).1);
            engine::<GivingWay>(parts, cost, packet)
        };
        rooms.build(of, |parts| cost(parts).into(), then)
    }
}
