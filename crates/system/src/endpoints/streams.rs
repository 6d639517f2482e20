//! [`syncline_endpoint::Streams`].

use super::{BuildEndpoint, Contention, EndpointModel, EndpointParts, Rooms, WithEndpoint, WorstCase, rate};
use serde::Deserialize;
use syncline_core::{Ps, Refusal};
use syncline_endpoint::link_delays::PER_CHUNK;
use syncline_endpoint::{MessageEndpoint, StreamConfig, Streams};
use syncline_network::Network;

/// Copies and kernels in the streams of GPUs (defaults in the Python schema).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsSpec {
    /// Issue and synchronisation of a copy to another NPU.
    pub copy_overhead_ps: u64,
    /// Launch of a kernel.
    pub kernel_overhead_ps: u64,
    /// Wait for the event that something has arrived.
    pub event_overhead_ps: u64,
    /// Bytes of a chunk that the kernels of an NPU reduce per second.
    pub reduce_bytes_per_s: u64,
    /// From the call of a collective on an NPU until its first command.
    pub start_latency_ps: u64,
    /// Switching peer access from NVLinks to PCIe and back, for each GPU of the communicator.
    #[serde(default)]
    pub peer_access_latency_ps: u64,
    /// How streams share a link.
    #[serde(default)]
    pub sharing: SharingSpec,
    /// With delayed sharing, the longest delay of a chunk in thousandths of its time on the link.
    #[serde(default)]
    pub delay_per_mille: u32,
}

/// How streams share a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharingSpec {
    /// Chunk by chunk.
    #[default]
    Fair,
    /// Chunk by chunk, where a chunk that finds another stream at the link comes later by a random time.
    Delayed,
}

impl Default for StreamsSpec {
    /// Commands of some microseconds, and a third of the memory bandwidth of a V100.
    fn default() -> StreamsSpec {
        StreamsSpec {
            copy_overhead_ps: 6_000_000,
            kernel_overhead_ps: 4_000_000,
            event_overhead_ps: 2_000_000,
            reduce_bytes_per_s: 300_000_000_000,
            start_latency_ps: 0,
            peer_access_latency_ps: 0,
            sharing: SharingSpec::Fair,
            delay_per_mille: 0,
        }
    }
}

impl StreamsSpec {
    fn config(&self, seed: u64) -> Result<StreamConfig, Refusal> {
        Ok(StreamConfig {
            copy_overhead: Ps(self.copy_overhead_ps),
            kernel_overhead: Ps(self.kernel_overhead_ps),
            event_overhead: Ps(self.event_overhead_ps),
            peer_access_latency: Ps(self.peer_access_latency_ps),
            reduce_rate: rate("reduce_bytes_per_s", self.reduce_bytes_per_s)?,
            delayed: self.is_random().then_some((self.delay_per_mille, seed)),
        })
    }

    /// Whether any random number is drawn.
    fn is_random(&self) -> bool {
        self.sharing == SharingSpec::Delayed && self.delay_per_mille > 0
    }
}

impl EndpointModel for StreamsSpec {
    fn start_latency(&self) -> Ps {
        Ps(self.start_latency_ps)
    }

    fn unfolded(&self) -> Option<&'static str> {
        self.is_random().then_some("chunks of streams are delayed at random")
    }

    fn at_worst(&self, _contention: Option<&Contention>) -> Result<WorstCase, Refusal> {
        let commands = [self.copy_overhead_ps, self.kernel_overhead_ps, self.event_overhead_ps];
        let waits = [self.start_latency_ps, self.peer_access_latency_ps];
        let per_step = commands.iter().chain(&waits).map(|&time| time as f64).sum();
        // A chunk takes its time on the link once more for each whole time that it is delayed.
        let delays = if self.is_random() { 1.0 + f64::from(self.delay_per_mille) / f64::from(PER_CHUNK) } else { 1.0 };
        let slowest = (self.reduce_bytes_per_s as f64 / delays) as u64;
        Ok(WorstCase { slowest, per_step, ..WorstCase::NONE })
    }
}

impl BuildEndpoint for StreamsSpec {
    fn build<N: Network + 'static, W: WithEndpoint<N>>(&self, rooms: Rooms<'_>, then: W) -> Result<W::Output, Refusal> {
        let config = self.config(rooms.parts()[0].seed)?;
        let cost = |parts: &EndpointParts<'_>| Streams::new(config, parts.layout.npus());
        let engine = |parts: EndpointParts<'_>| {
            let (cost, inflight) = (cost(&parts), parts.parts_in_flight());
            let EndpointParts { layout, urgent, traced, inflight_per_dimension, parts, .. } = parts;
            let endpoint = MessageEndpoint::new(layout, cost, inflight, false, traced);
            endpoint.shortest_first(urgent).along_each_dimension(inflight_per_dimension, parts)
        };
        rooms.build(engine, |parts| cost(parts).into(), then)
    }
}
