//! [`syncline_endpoint::SwitchOffload`]. Which lines have a switch, and in how many pieces they use it, is found in
//! [`crate::offload`].

use super::{
    AddingSwitches, BuildEndpoint, Contention, EndpointModel, EndpointParts, Rooms, WithEndpoint, WorstCase, rate,
};
use serde::Deserialize;
use syncline_core::{Bytes, Ps, Rate, Refusal};
use syncline_endpoint::{Dma, DmaConfig, SwitchConfig, SwitchOffload};
use syncline_network::Network;

/// DMAs at the NPUs, switches that add and copy (defaults in the Python schema).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchOffloadSpec {
    /// Main-memory bandwidth that communication may use.
    pub memory_bytes_per_s: u64,
    /// What the SMs given to communication can read per second; 0 if there are none.
    pub sm_bytes_per_s: u64,
    /// NPU-AFI bus, each direction.
    pub bus_bytes_per_s: u64,
    /// Whether memory writes are charged as well as recorded.
    pub charge_writes: bool,
    /// What the ALU of each port of a switch takes in; `None` if it adds as bytes arrive.
    pub switch_reduce_bytes_per_s: Option<u64>,
    /// Partial sums that a switch holds.
    pub switch_memory_bytes: u64,
    /// From the last addition to a piece to its departure.
    pub switch_latency_ps: u64,
    /// Largest message, and piece.
    pub message_bytes: u64,
}

impl Default for SwitchOffloadSpec {
    /// NPUs that keep up with any link, and SMs for what no switch takes; switches that hold 1 MiB of sums.
    fn default() -> SwitchOffloadSpec {
        SwitchOffloadSpec {
            memory_bytes_per_s: 1_000_000_000_000,
            sm_bytes_per_s: 6 * 79_680_000_000,
            bus_bytes_per_s: 500_000_000_000,
            charge_writes: false,
            switch_reduce_bytes_per_s: Some(400_000_000_000),
            switch_memory_bytes: 1 << 20,
            switch_latency_ps: 90_000,
            message_bytes: 4096,
        }
    }
}

impl SwitchOffloadSpec {
    fn config(&self) -> Result<(DmaConfig, SwitchConfig), Refusal> {
        let dma = DmaConfig {
            memory: rate("memory_bytes_per_s", self.memory_bytes_per_s)?,
            sms: Rate::new(self.sm_bytes_per_s),
            bus: rate("bus_bytes_per_s", self.bus_bytes_per_s)?,
            charge_writes: self.charge_writes,
        };
        let switch = SwitchConfig {
            reduce: match self.switch_reduce_bytes_per_s {
                None => Rate::UNLIMITED,
                Some(limited) => rate("switch_reduce_bytes_per_s", limited)?,
            },
            memory: Bytes(self.switch_memory_bytes),
            latency: Ps(self.switch_latency_ps),
        };
        Ok((dma, switch))
    }
}

impl EndpointModel for SwitchOffloadSpec {
    fn adding_switches(&self) -> Option<AddingSwitches> {
        Some(AddingSwitches {
            memory_bytes: self.switch_memory_bytes,
            message_bytes: self.message_bytes,
            has_sms: self.sm_bytes_per_s > 0,
        })
    }

    fn at_worst(&self, _contention: Option<&Contention>) -> Result<WorstCase, Refusal> {
        let reduce = self.switch_reduce_bytes_per_s.unwrap_or(u64::MAX);
        let sms = if self.sm_bytes_per_s > 0 { self.sm_bytes_per_s } else { u64::MAX };
        let slowest = self.memory_bytes_per_s.min(self.bus_bytes_per_s).min(reduce).min(sms);
        Ok(WorstCase { slowest, per_hop: self.switch_latency_ps as f64, ..WorstCase::NONE })
    }
}

impl BuildEndpoint for SwitchOffloadSpec {
    fn build<N: Network + 'static, W: WithEndpoint<N>>(&self, rooms: Rooms<'_>, then: W) -> Result<W::Output, Refusal> {
        let (dma, switch) = self.config()?;
        // Slots of switches are for so many chunks, whether or not these are parts of split ones.
        let EndpointParts { layout, inflight, inflight_per_dimension, traced, .. } = rooms.only()?;
        let npus = layout.npus();
        Ok(then.with(|| {
            let endpoint = SwitchOffload::new(layout, Dma::new(dma, npus), switch, inflight, traced);
            endpoint.along_each_dimension(inflight_per_dimension)
        }))
    }
}
