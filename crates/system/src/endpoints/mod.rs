//! Endpoints, a module each: what a description of one says, and everything that the rest of the system asks of it.
//!
//! An endpoint is named here once, in the list at the end; its timers stand beside it.

mod ace;
mod baseline;
mod buses;
mod contention;
mod ideal;
mod rooms;
mod streams;
mod switch_offload;

pub use ace::{AceSpec, FsmSplitSpec};
pub use baseline::BaselineSpec;
pub use buses::BusSpec;
pub use contention::{Contention, ContentionSpec, LoadSpec};
pub use ideal::{ForwardingSpec, IdealSpec, WholeSpec};
pub use rooms::Rooms;
pub use streams::{SharingSpec, StreamsSpec};
pub use switch_offload::SwitchOffloadSpec;

use crate::timer::{Timer, timers};
use serde::Deserialize;
use syncline_collective::{Kind, Plan, Split};
use syncline_core::{Bytes, NodeId, Ps, Rate, Refusal, Resolution};
use syncline_endpoint::WorkDone;
use syncline_endpoint::ace::AceEvent;
use syncline_endpoint::{Endpoint, Layout};
use syncline_network::Network;

/// Bytes of memory that a simulated NPU takes in layout, training loop and endpoint, without its chunks.
const NPU_BYTES: u64 = 700;

/// What the rest of the system asks of an endpoint.
pub trait EndpointModel {
    /// Who forwards what is for distant NPUs.
    fn transit(&self) -> TransitSpec {
        TransitSpec::Network
    }

    /// The kinds of collectives that it carries out.
    fn kinds(&self) -> &'static [Kind] {
        &Kind::ALL
    }

    /// Bytes of memory that a simulated NPU takes, without its chunks.
    fn npu_bytes(&self) -> u64 {
        NPU_BYTES
    }

    /// Chunks of an NPU that are in flight at most, where a description says `inflight` and the largest one has so many
    /// bytes.
    fn in_flight(&self, inflight: u32, _chunk_bytes: u64) -> u64 {
        4 * u64::from(inflight) // the oldest may be behind
    }

    /// Whether it can limit the chunks of an NPU along each dimension.
    fn limits_dimensions(&self) -> bool {
        true
    }

    /// Whether every message carries the number of its step, of which there are so many.
    fn numbers_steps(&self) -> bool {
        true
    }

    /// Whether it cuts what it sends into packets of a size of its own.
    fn has_packets(&self) -> bool {
        false
    }

    /// Whether it has room for a chunk of plans, cut like this, in a network of such packets, where transit takes so many
    /// pools, and an NPU has so many rooms.
    fn holds(&self, _plans: &[Plan], _split: Split, _chunk: Bytes, _packet: Option<u32>, _room: (u32, u32)) -> bool {
        true
    }

    /// The switches that add and copy for it.
    fn adding_switches(&self) -> Option<AddingSwitches> {
        None
    }

    /// From the call of a collective on an NPU until it may begin there.
    fn start_latency(&self) -> Ps {
        Ps::ZERO
    }

    /// Why NPUs that are alike may take different times, if they may.
    fn unfolded(&self) -> Option<&'static str> {
        None
    }

    /// How communication and compute share an NPU, and what runs beside a collective; `None` if their split is fixed.
    ///
    /// # Errors
    /// A [`Refusal`] of what cannot be shared.
    fn contention(&self, beside: &[LoadSpec]) -> Result<Option<Contention>, Refusal> {
        contention::none(beside)
    }

    /// Whether it says how long kernels take, though it shares nothing with them.
    fn times_kernels(&self) -> bool {
        false
    }

    /// What bytes and messages cost it at worst.
    ///
    /// # Errors
    /// A [`Refusal`] of a field of the description.
    fn at_worst(&self, contention: Option<&Contention>) -> Result<WorstCase, Refusal>;

    /// What it needs of the network.
    ///
    /// # Errors
    /// A [`Refusal`] of a field of the description.
    fn needs(&self, _parts: &EndpointParts<'_>) -> Result<EndpointNeeds, Refusal> {
        Ok(EndpointNeeds::default())
    }
}

/// An endpoint that can be built.
pub trait BuildEndpoint: EndpointModel {
    /// Builds it, if `then` wants it to.
    ///
    /// # Errors
    /// A [`Refusal`] of a field of the description, or one without a field where it cannot carry out the collectives.
    fn build<N: Network + 'static, W: WithEndpoint<N>>(&self, rooms: Rooms<'_>, then: W) -> Result<W::Output, Refusal>;
}

/// Does something with an endpoint, of whatever type.
pub trait WithEndpoint<N: Network> {
    /// What comes of it.
    type Output;

    /// Does it. What takes memory is built by `endpoint` when it is called.
    fn with<E: Endpoint<N, Event: Timer<Layer = EndpointEvent>>>(self, endpoint: impl FnOnce() -> E) -> Self::Output;
}

/// What an endpoint is built of, or a room of one.
#[derive(Clone, Debug)]
pub struct EndpointParts<'a> {
    /// Where programs lead.
    pub layout: Layout,
    /// The rooms that the NPU with most of them has.
    pub share: u32,
    /// The largest chunk.
    pub largest_chunk: Bytes,
    /// Payload of a packet; `None` in a network without packets.
    pub packet: Option<Bytes>,
    /// Whether the network keeps packets from waiting for each other in a circle.
    pub prevents_deadlock: bool,
    /// Whether endpoints forward, instead of the network.
    pub transit: bool,
    /// Chunks that an NPU has in flight at most, unless the endpoint has limits of its own.
    pub inflight: u32,
    /// Chunks that an NPU has in one phase along a dimension at most, if that is limited.
    pub inflight_per_dimension: Option<u32>,
    /// Parts of a chunk that go round different lanes, each a chunk of the endpoint.
    pub parts: u32,
    /// By size, whether the shortest message goes first: the chunks to which that applies.
    pub urgent: Option<u32>,
    /// How communication and compute share an NPU.
    pub contention: Option<Contention>,
    /// The seed of random numbers.
    pub seed: u64,
    /// The length of the windows in which the use of resources is collected.
    pub window: Resolution,
    /// NPUs whose phases are reported.
    pub traced: &'a [NodeId],
}

impl EndpointParts<'_> {
    /// Parts of chunks that an NPU has in flight at most.
    fn parts_in_flight(&self) -> u32 {
        self.inflight.saturating_mul(self.parts)
    }
}

/// What an endpoint needs of the network.
#[derive(Clone, Copy, Debug)]
pub struct EndpointNeeds {
    /// Packets that every input buffer holds at least, for each traffic class.
    pub buffer_packets: u32,
    /// Traffic classes that have buffers of their own.
    pub classes: u8,
    /// Whether what leaves through a port has to do so in the order in which it was handed over.
    pub in_order: bool,
}

impl Default for EndpointNeeds {
    /// Nothing but a network.
    fn default() -> EndpointNeeds {
        EndpointNeeds { buffer_packets: 0, classes: 1, in_order: false }
    }
}

/// What bytes and messages cost an endpoint at worst.
#[derive(Clone, Copy, Debug)]
pub struct WorstCase {
    /// The slowest of its servers, in bytes per second.
    pub slowest: u64,
    /// Picoseconds of a step beside its bytes, on all buses together.
    pub per_step: f64,
    /// Picoseconds of a byte beside its time at servers.
    pub per_byte: f64,
    /// Picoseconds that a hop takes longer than the link.
    pub per_hop: f64,
    /// How many times longer compute takes.
    pub stretch: f64,
}

impl WorstCase {
    /// Nothing takes any time.
    const NONE: WorstCase = WorstCase { slowest: u64::MAX, per_step: 0.0, per_byte: 0.0, per_hop: 0.0, stretch: 1.0 };
}

/// Switches that add and copy for endpoints.
#[derive(Clone, Copy, Debug)]
pub struct AddingSwitches {
    /// Partial sums that a switch holds, in bytes.
    pub memory_bytes: u64,
    /// Largest message, and piece.
    pub message_bytes: u64,
    /// Whether NPUs have SMs for what no switch does.
    pub has_sms: bool,
}

/// Who forwards messages at the NPUs on their way.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum TransitSpec {
    /// The endpoints, through their memory or SRAM.
    Endpoint,
    /// The routers of the network.
    #[default]
    Network,
}

/// A field of an endpoint that has to be positive.
fn zero(field: &str) -> Refusal {
    Refusal::of(field, "must be positive").at_least(1).within("endpoint")
}

/// A rate that has to be positive.
fn rate(field: &str, bytes_per_s: u64) -> Result<Rate, Refusal> {
    Rate::new(bytes_per_s).ok_or_else(|| zero(field))
}

macro_rules! endpoints {
    ($($name:ident($text:literal, $spec:ty)),+ $(,)?) => {
        /// An endpoint and its parameters.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(tag = "kind")]
        #[expect(missing_docs, reason = "each variant holds the description of the endpoint it is named after")]
        pub enum EndpointSpec {
            $(#[serde(rename = $text)] $name($spec)),+
        }

        impl EndpointSpec {
            /// What the rest of the system asks of it.
            pub fn model(&self) -> &dyn EndpointModel {
                match self {
                    $(EndpointSpec::$name(spec) => spec),+
                }
            }

            /// Builds it ([`BuildEndpoint::build`]).
            ///
            /// # Errors
            /// As there.
            pub fn build<N: Network + 'static, W: WithEndpoint<N>>(
                &self,
                rooms: Rooms<'_>,
                then: W,
            ) -> Result<W::Output, Refusal> {
                match self {
                    $(EndpointSpec::$name(spec) => spec.build(rooms, then)),+
                }
            }

            /// Every endpoint, with parameters that are usual.
            pub fn all() -> Vec<EndpointSpec> {
                vec![$(EndpointSpec::$name(<$spec>::default())),+]
            }
        }
    };
}

endpoints! {
    Ideal("ideal", IdealSpec),
    Baseline("baseline", BaselineSpec),
    Ace("ace", AceSpec),
    SwitchOffload("switch-offload", SwitchOffloadSpec),
    Streams("streams", StreamsSpec),
}

timers!(EndpointEvent, "Timers of endpoints.": Message(WorkDone), Ace(AceEvent));
