//! [`syncline_endpoint::Ace`].

use super::{
    BuildEndpoint, BusSpec, Contention, EndpointModel, EndpointNeeds, EndpointParts, Rooms, TransitSpec, WithEndpoint,
    WorstCase, rate, zero,
};
use serde::Deserialize;
use syncline_collective::{Kind, Plan, Split};
use syncline_core::{Bytes, Clock, Refusal};
use syncline_endpoint::ace::{AceHardware, FsmSplit, Transit};
use syncline_endpoint::{Ace, AceConfig};
use syncline_network::Network;

/// Bytes of memory that an NPU takes with an engine beside it: its servers, queues and levels.
const ENGINE_BYTES: u64 = 3_000;

/// Parameters of an ACE (design defaults in the Python schema).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AceSpec {
    /// Main-memory bandwidth of the two DMAs.
    pub memory_bytes_per_s: u64,
    /// NPU-AFI bus, each direction.
    pub bus_bytes_per_s: u64,
    /// Whether memory writes of the RX DMA are charged as well as recorded.
    pub charge_writes: bool,
    /// What a message of the DMAs costs the buses beside its bytes.
    #[serde(default)]
    pub buses: BusSpec,
    /// Clock of the engine.
    pub clock_hz: u64,
    /// SRAM in all.
    pub sram_bytes: u64,
    /// Banks of the SRAM; each reads and writes `port_bytes_per_cycle`.
    pub sram_banks: u32,
    /// Width of SRAM ports, ALUs and buses.
    pub port_bytes_per_cycle: u32,
    /// ALUs.
    pub alus: u32,
    /// Finite state machines.
    pub fsms: u32,
    /// How they are divided among phases.
    #[serde(default)]
    pub fsm_split: FsmSplitSpec,
    /// Largest message.
    pub message_bytes: u32,
    /// Buffer of each output port.
    pub port_buffer_bytes: u64,
    /// Who forwards what is for distant NPUs.
    #[serde(default)]
    pub transit: TransitSpec,
}

/// How the FSMs of an ACE are divided among phases.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum FsmSplitSpec {
    /// Evenly.
    #[default]
    Even,
    /// By how long a chunk keeps an FSM of each.
    Need,
}

impl Default for AceSpec {
    /// The design point of the ACE paper (Tables III and V): 4 MB of SRAM, 16 FSMs, 128 GB/s of memory.
    fn default() -> AceSpec {
        AceSpec {
            memory_bytes_per_s: 128_000_000_000,
            bus_bytes_per_s: 500_000_000_000,
            charge_writes: false,
            buses: BusSpec::Rate,
            clock_hz: 1_245_000_000,
            sram_bytes: 4 << 20,
            sram_banks: 4,
            port_bytes_per_cycle: 64,
            alus: 4,
            fsms: 16,
            fsm_split: FsmSplitSpec::Even,
            message_bytes: 8192,
            port_buffer_bytes: 4096,
            transit: TransitSpec::Network,
        }
    }
}

impl AceSpec {
    fn config(&self, parts: &EndpointParts<'_>) -> Result<AceConfig, Refusal> {
        let positive = |field: &str, value: u32| match value {
            0 => Err(zero(field)),
            n => Ok(n),
        };
        // Every room of an NPU has as much; what does not divide is nobody's.
        let share = parts.share.max(1);
        Ok(AceConfig {
            memory: rate("memory_bytes_per_s", self.memory_bytes_per_s)?,
            bus: rate("bus_bytes_per_s", self.bus_bytes_per_s)?,
            charge_writes: self.charge_writes,
            protocol: self.buses.protocol()?,
            clock: Clock::new(self.clock_hz).ok_or_else(|| zero("clock_hz"))?,
            sram: Bytes(self.sram_bytes / u64::from(share)),
            banks: positive("sram_banks", self.sram_banks)?,
            port_bytes: positive("port_bytes_per_cycle", self.port_bytes_per_cycle)?,
            alus: positive("alus", self.alus)?,
            fsms: positive("fsms", self.fsms)? / share,
            fsm_split: match self.fsm_split {
                FsmSplitSpec::Even => FsmSplit::Even,
                FsmSplitSpec::Need => FsmSplit::Need,
            },
            message: Bytes(positive("message_bytes", self.message_bytes)?.into()),
            port_buffer: Bytes(self.port_buffer_bytes),
            transit: match parts.transit {
                true => Transit::Endpoint { bubble: parts.prevents_deadlock },
                false => Transit::Network,
            },
        })
    }
}

impl EndpointModel for AceSpec {
    fn transit(&self) -> TransitSpec {
        self.transit
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll]
    }

    fn npu_bytes(&self) -> u64 {
        ENGINE_BYTES
    }

    fn limits_dimensions(&self) -> bool {
        false // its FSMs do
    }

    fn in_flight(&self, _inflight: u32, chunk_bytes: u64) -> u64 {
        self.sram_bytes.checked_div(chunk_bytes).unwrap_or(1).max(1)
    }

    fn numbers_steps(&self) -> bool {
        false // the messages of a phase are counted modulo a power of two
    }

    fn has_packets(&self) -> bool {
        true
    }

    fn holds(&self, plans: &[Plan], split: Split, chunk: Bytes, packet: Option<u32>, room: (u32, u32)) -> bool {
        let (pools, share) = room;
        let packet = packet.map_or(self.message_bytes, |packet| packet.min(self.message_bytes));
        Ace::sram_needed(plans, split, chunk, packet, pools) <= self.sram_bytes / u64::from(share.max(1))
    }

    fn at_worst(&self, _contention: Option<&Contention>) -> Result<WorstCase, Refusal> {
        Ok(self.buses.at_worst(self.memory_bytes_per_s.min(self.bus_bytes_per_s)))
    }

    fn needs(&self, parts: &EndpointParts<'_>) -> Result<EndpointNeeds, Refusal> {
        let config = self.config(parts)?;
        let (rings, direct) = parts.layout.kinds();
        let in_turn = parts.parts == 1;
        let buffer = |packet| Ace::input_buffer(&parts.layout, &config, packet, parts.largest_chunk, in_turn);
        Ok(EndpointNeeds {
            buffer_packets: parts.packet.map_or(0, buffer),
            // What is in transit goes on whatever becomes of the runs that packets around rings wait for.
            classes: if rings && direct { 2 } else { 1 },
            // What is sent in several phases goes through port buffers, which are first come, first served.
            in_order: (rings, direct) != (true, false),
        })
    }
}

impl BuildEndpoint for AceSpec {
    fn build<N: Network + 'static, W: WithEndpoint<N>>(&self, rooms: Rooms<'_>, then: W) -> Result<W::Output, Refusal> {
        let config = self.config(&rooms.parts()[0])?;
        let mut engines = Vec::new();
        let mut refusals = Vec::new();
        for part in rooms.parts() {
            let EndpointParts { layout, packet, largest_chunk, window, traced, share, .. } = part.clone();
            match Ace::new(layout, config, packet, largest_chunk, window, traced) {
                Ok(ace) => engines.push(ace),
                Err(error) => refusals.push(Refusal::from(error).of_share(share)),
            }
        }
        // The one that needs most says what would do for all.
        if let Some(refusal) = refusals.into_iter().rev().max_by_key(|refusal| refusal.least) {
            return Err(if refusal.field.is_empty() { refusal } else { refusal.within("endpoint") });
        }
        let hardware = |part: &EndpointParts<'_>| {
            let packet = part.packet.unwrap_or(config.message).0.min(u64::from(u32::MAX)) as u32;
            AceHardware::new(&config, packet, part.layout.npus())
        };
        let mut engines = engines.into_iter();
        rooms.build(|_| engines.next().expect("an engine is made for each room"), hardware, then)
    }
}
