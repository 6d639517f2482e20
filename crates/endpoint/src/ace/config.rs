//! Parameters of an engine, and why one cannot be built.

use crate::api::MAX_PORTS;
use crate::loggp::LogGp;
use syncline_core::{Bytes, Clock, Rate, Refusal};

/// Parameters of the engine.
#[derive(Clone, Copy, Debug)]
pub struct AceConfig {
    /// Main-memory bandwidth of the DMAs.
    pub memory: Rate,
    /// NPU-AFI bus, each direction.
    pub bus: Rate,
    /// Whether the RX DMA's writes are charged against the memory bandwidth.
    pub charge_writes: bool,
    /// What a message of the DMAs costs the buses to the NPU and to memory beside its bytes.
    pub protocol: Option<LogGp>,
    /// Clock.
    pub clock: Clock,
    /// SRAM in all.
    pub sram: Bytes,
    /// Banks of the SRAM.
    pub banks: u32,
    /// Bytes per cycle of a bank's read port, of its write port, and of an ALU.
    pub port_bytes: u32,
    /// ALUs.
    pub alus: u32,
    /// Finite state machines.
    pub fsms: u32,
    /// How they are divided among phases.
    pub fsm_split: FsmSplit,
    /// Largest message.
    pub message: Bytes,
    /// Buffer of each output port.
    pub port_buffer: Bytes,
    /// Who forwards the packets of an all-to-all that are for distant NPUs.
    pub transit: Transit,
}

/// How FSMs are divided among phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsmSplit {
    /// Evenly; the first phases have one more.
    Even,
    /// By how long a chunk keeps an FSM of each.
    Need,
}

/// Who forwards packets at the NPUs on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// The routers of the network.
    Network,
    /// The engines, on a fabric where every link of an NPU leads to another.
    Endpoint {
        /// Whether a packet that enters a ring leaves a slot of the pool there free; without, rings deadlock.
        bubble: bool,
    },
}

/// Why an engine cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AceError {
    /// A phase whose messages pass other NPUs, or that is neither a ring nor direct; or a direct all-to-all over other
    /// NPUs together with something else than rings.
    NotDirect,
    /// A phase whose steps are written, and those of no algorithm that FSMs know.
    Written {
        /// The name of the phase.
        phase: String,
    },
    /// Collectives over rings with different numbers of phases, whose results would meet in the terminal partition
    /// in no order.
    UnequalPhases {
        /// Two such numbers.
        phases: [usize; 2],
    },
    /// The partitions do not hold a chunk each, or the transit pools not two packets each.
    SramTooSmall {
        /// The SRAM asked for.
        sram: u64,
        /// Transit pools.
        pools: u32,
        /// The least that works for the chunks of this run.
        needed: u64,
    },
    /// More ports of an NPU than keys tell apart.
    TooManyPorts {
        /// The ports.
        ports: usize,
    },
    /// Fewer FSMs than phases.
    TooFewFsms {
        /// FSMs asked for.
        fsms: u32,
        /// Phases of the collective.
        phases: usize,
    },
}

impl From<AceError> for Refusal {
    /// Names no field where it depends on all of a description what keeps the engine from being used.
    fn from(error: AceError) -> Refusal {
        match error {
            AceError::NotDirect => Refusal::of(
                "",
                "an ACE carries out rings between neighbouring NPUs, direct phases without an NPU on the way, and direct \
                 all-to-alls",
            )
            .accepting(
                "all-reduce, reduce-scatter, all-gather and all-to-all over the whole of a product, with ring algorithms \
                 along its rings and direct ones along switches and full meshes, and direct all-to-all",
            ),
            AceError::Written { phase } => {
                let message = format!("the FSMs of an ACE cannot carry out what the plan has for {phase}");
                Refusal::of("", message).accepting("plans whose steps are those of rings, of relays around them, or direct")
            }
            AceError::TooManyPorts { ports } => Refusal::of("", format!("an NPU with {ports} ports has no ACE"))
                .accepting(format!("NPUs of up to {MAX_PORTS} ports")),
            AceError::UnequalPhases { phases: [one, other] } => {
                let message = "an ACE carries out collectives over rings with equally many phases";
                Refusal::of("", format!("{message}, not {one} and {other}"))
                    .accepting("one kind of them beside all-to-alls")
            }
            AceError::SramTooSmall { sram, pools, needed } => {
                let transit = if pools > 0 { ", or not two packets in each transit pool" } else { "" };
                let message = format!("the partitions of an ACE's SRAM of {sram} B do not hold one chunk each{transit}");
                Refusal::of("sram_bytes", message).at_least(needed).accepting("smaller chunks")
            }
            AceError::TooFewFsms { fsms, phases } => {
                Refusal::of("fsms", format!("{fsms} FSMs of an ACE are too few for {phases} phases")).at_least(phases as u64)
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::layout::{Layout, Space, Wires};
    use std::sync::Arc;
    use syncline_collective::{Algorithm, Axis, Composition, Kind, Plan, PlanRequest, Rank, Split};
    use syncline_core::Ps;
    use syncline_topology::{Block, Dimension, Product, Way};

    /// An all-reduce, in the first dimension first, over rings of these sizes and bytes per second.
    pub fn all_reduce(rings: &[(u32, u64)], latency: Ps) -> Layout {
        let ring = |&(size, rate): &(u32, u64)| {
            let rate = Rate::new(rate).expect("positive");
            Dimension { block: Block::Ring, size, rate, latency, links: 1 }
        };
        let torus = Product::new(rings.iter().map(ring).collect()).expect("a torus");
        let wires = |dim| {
            let port = |way| torus.port(dim, way, 0).expect("a ring has both ways");
            Wires::Ports(vec![(port(Way::Up), true), (port(Way::Down), false)])
        };
        let wires: Vec<Wires> = (0..rings.len()).map(wires).collect();
        let axes: Vec<Axis> = rings.iter().map(|&(size, _)| Axis { size, algorithm: Algorithm::Ring }).collect();
        let (kind, composition) = (Kind::AllReduce, Composition::LocalFirst);
        let plan =
            Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(0), order: None }).expect("a plan");
        let space = Space::whole(rings.iter().map(|ring| ring.0).collect());
        Layout::new(Arc::new(torus), space, vec![plan], &wires, Split { element: 1 })
    }

    /// An engine for tests of its parts, with cycles of a nanosecond.
    pub fn config() -> AceConfig {
        AceConfig {
            memory: Rate::UNLIMITED,
            bus: Rate::UNLIMITED,
            charge_writes: false,
            protocol: None,
            clock: Clock::new(1_000_000_000).expect("a positive frequency"),
            sram: Bytes(1 << 20),
            banks: 4,
            port_bytes: 64,
            alus: 4,
            fsms: 16,
            fsm_split: FsmSplit::Even,
            message: Bytes(8192),
            port_buffer: Bytes(4096),
            transit: Transit::Network,
        }
    }
}
