//! [`syncline_endpoint::Baseline`], and [`Contended`] where it shares the NPU with compute.

use super::{
    BuildEndpoint, BusSpec, Contention, ContentionSpec, EndpointModel, EndpointParts, LoadSpec, Rooms, TransitSpec,
    WithEndpoint, WorstCase, contention, rate,
};
use serde::Deserialize;
use syncline_core::Refusal;
use syncline_endpoint::costs::StepCost;
use syncline_endpoint::{Baseline, BaselineConfig, Contended, MessageEndpoint};
use syncline_network::Network;

/// SMs drive the collective through main memory.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineSpec {
    /// Main-memory bandwidth that communication may use: with dynamic contention all there is.
    pub memory_bytes_per_s: u64,
    /// What the SMs given to communication can read per second.
    pub sm_bytes_per_s: u64,
    /// NPU-AFI bus, each direction.
    pub bus_bytes_per_s: u64,
    /// Whether memory writes are charged as well as recorded.
    pub charge_writes: bool,
    /// What a message costs the buses beside its bytes.
    #[serde(default)]
    pub buses: BusSpec,
    /// Who forwards what is for distant NPUs.
    #[serde(default)]
    pub transit: TransitSpec,
    /// How communication and compute share the NPU while both run; a fixed split if left out.
    #[serde(default)]
    pub contention: Option<ContentionSpec>,
}

impl Default for BaselineSpec {
    /// The one that is good at communication of the ACE paper (Table VI): 450 GB/s of memory and 6 SMs.
    fn default() -> BaselineSpec {
        BaselineSpec {
            memory_bytes_per_s: 450_000_000_000,
            sm_bytes_per_s: 6 * 79_680_000_000,
            bus_bytes_per_s: 500_000_000_000,
            charge_writes: false,
            buses: BusSpec::Rate,
            transit: TransitSpec::Network,
            contention: None,
        }
    }
}

impl BaselineSpec {
    fn config(&self) -> Result<BaselineConfig, Refusal> {
        Ok(BaselineConfig {
            memory: rate("memory_bytes_per_s", self.memory_bytes_per_s)?,
            sms: rate("sm_bytes_per_s", self.sm_bytes_per_s)?,
            bus: rate("bus_bytes_per_s", self.bus_bytes_per_s)?,
            charge_writes: self.charge_writes,
            protocol: self.buses.protocol()?,
        })
    }
}

impl EndpointModel for BaselineSpec {
    fn transit(&self) -> TransitSpec {
        self.transit
    }

    fn contention(&self, beside: &[LoadSpec]) -> Result<Option<Contention>, Refusal> {
        let Some(shared) = &self.contention else {
            return contention::none(beside);
        };
        if self.buses != BusSpec::Rate {
            let message = "with dynamic contention, a message costs its bytes only";
            return Err(Refusal::of("endpoint.buses", message).accepting("rate"));
        }
        let rates = [("memory_bytes_per_s", self.memory_bytes_per_s), ("sm_bytes_per_s", self.sm_bytes_per_s)];
        shared.with(beside, rates).map(Some)
    }

    fn at_worst(&self, contention: Option<&Contention>) -> Result<WorstCase, Refusal> {
        let slowest = self.memory_bytes_per_s.min(self.sm_bytes_per_s).min(self.bus_bytes_per_s);
        let alone = self.buses.at_worst(slowest);
        let Some(contention) = contention else { return Ok(alone) };
        let (rate, stretch) = contention.at_worst(BaselineConfig { charge_writes: false, ..self.config()? });
        Ok(WorstCase { slowest: slowest.min(rate as u64), stretch, ..alone })
    }
}

impl BuildEndpoint for BaselineSpec {
    fn build<N: Network + 'static, W: WithEndpoint<N>>(&self, rooms: Rooms<'_>, then: W) -> Result<W::Output, Refusal> {
        let config = self.config()?;
        fn engine<C: StepCost>(parts: EndpointParts<'_>, cost: C) -> MessageEndpoint<C> {
            let inflight = parts.parts_in_flight();
            let EndpointParts { layout, transit, urgent, traced, inflight_per_dimension, parts, .. } = parts;
            let endpoint = MessageEndpoint::new(layout, cost, inflight, transit, traced);
            endpoint.shortest_first(urgent).along_each_dimension(inflight_per_dimension, parts)
        }
        match rooms.contention() {
            None => {
                let cost = |parts: &EndpointParts<'_>| Baseline::new(config, parts.layout.npus());
                rooms.build(|parts| engine::<Baseline>(parts.clone(), cost(&parts)), |parts| cost(parts).into(), then)
            }
            Some(Contention { config: shared, loads, .. }) => {
                let cost =
                    |parts: &EndpointParts<'_>| Contended::new(config, shared, loads.clone(), parts.layout.npus());
                rooms.build(|parts| engine::<Contended>(parts.clone(), cost(&parts)), |parts| cost(parts).into(), then)
            }
        }
    }
}
