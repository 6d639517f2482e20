//! The engines of all NPUs: what they are made of.

use super::arrived_packets::{ArrivedPackets, PacketList};
use super::banks::Banks;
use super::chunk_order::ChunkOrder;
use super::config::{AceConfig, AceError, Transit};
use super::dma::Dmas;
use super::fsm_pool::FsmPool;
use super::fsm_split;
use super::levels::Levels;
use super::phase_messages::Pattern;
use super::ports::Ports;
use super::progress::{Progress, Window};
use super::receipts::Receipts;
use super::sram::Sram;
use super::sram_division::{self, PassingPackets};
use super::transit_pools::TransitPools;
use crate::api::{Chunk, ChunkId, MAX_IN_FLIGHT, MAX_PORTS};
use crate::flights::Flights;
use crate::layout::{Layout, PhaseView};
use std::collections::BTreeMap;
use syncline_collective::{Kind, PhaseId, Plan, PlanId, Split};
use syncline_core::{Bytes, Id, NodeId, NodeSet, Ps, Resolution};
use syncline_topology::Paths;

/// Engines of all NPUs.
#[derive(Debug)]
pub struct Ace {
    pub(super) layout: Layout,
    pub(super) config: AceConfig,
    /// Bytes of a full packet: on a network without packets, of a message.
    pub(super) packet: u32,
    /// Chunks that keys tell apart, from the oldest unfinished one of an NPU to its newest.
    pub(super) span: u32,
    pub(super) chunks: Vec<Chunk>,
    pub(super) windows: Vec<Window>,
    /// Most phases of a plan. Chunks stand in a queue for each phase, direct all-to-alls in one behind them.
    pub(super) phases: usize,
    pub(super) order: ChunkOrder,
    pub(super) sram: Sram,
    pub(super) banks: Banks,
    pub(super) dmas: Dmas,
    pub(super) fsms: FsmPool,
    pub(super) ports: Ports,
    /// Packets that still occupy an input buffer, and those of chunks that have not begun the phase, by (NPU, chunk, phase).
    pub(super) arrived: ArrivedPackets,
    pub(super) early: BTreeMap<(u32, ChunkId, PhaseId), PacketList>,
    /// Per plan, whether its chunks are direct all-to-alls of all members.
    all_to_all: Vec<bool>,
    /// The phase of rings that fills the terminal partition.
    pub(super) last_phase: Option<PhaseId>,
    /// Of direct all-to-alls: the ways of packets, where packets stand, and what is still to come.
    pub(super) paths: Paths,
    pub(super) pools: TransitPools,
    pub(super) receipts: Receipts,
    /// What the first NPU holds.
    pub(super) levels: Levels,
    pub(super) traced: NodeSet,
    /// Bytes handed to the network.
    pub(super) sent: u64,
    /// By chunk, those that were handed over other than in transit.
    pub(super) sent_of_chunks: Vec<u64>,
    pub(super) flights: Flights,
}

impl Ace {
    /// Engines for all NPUs of the layout, on a network that is fed in packets of `packet` bytes (or in
    /// whole messages), for chunks of at most `chunk` bytes. Occupancy of the first NPU is recorded in
    /// windows of `window`; phases of `traced` NPUs are reported.
    ///
    /// # Errors
    /// An [`AceError`] when the SRAM or the FSMs cannot serve these chunks.
    pub fn new(
        layout: Layout,
        config: AceConfig,
        packet: Option<Bytes>,
        chunk: Bytes,
        window: Resolution,
        traced: &[NodeId],
    ) -> Result<Ace, AceError> {
        let npus = layout.npus();
        let ports = (0..npus).map(|npu| layout.fabric().ports(NodeId(npu))).max().map_or(0, usize::from);
        if ports > MAX_PORTS {
            return Err(AceError::TooManyPorts { ports });
        }
        let all_to_all: Vec<bool> = layout.plans().map(Plan::is_exchange).collect();
        if let Some(phase) = layout.written_phase() {
            return Err(AceError::Written { phase });
        }
        let exchanges = all_to_all.contains(&true);
        let last_phase = last_phase_of_rings(&layout, &all_to_all)?;
        let phases = layout.plans().map(|p| p.phases().len()).max().unwrap_or(0);
        if (config.fsms as usize) < phases {
            return Err(AceError::TooFewFsms { fsms: config.fsms, phases });
        }
        let unit = packet.unwrap_or(config.message).0.min(u64::from(u32::MAX)) as u32;
        let (pools, bubble) = match config.transit {
            Transit::Endpoint { bubble } if exchanges => (ports as u32, bubble),
            Transit::Endpoint { .. } | Transit::Network => (0, false),
        };
        let passing = exchanges.then_some(PassingPackets { unit: u64::from(unit).min(config.message.0) as u32, pools });
        let division = sram_division::divide_sram(&layout, config.sram.0, chunk, passing)?;
        let (transit_pools, receipts) = match passing {
            Some(packets) => {
                let slots = sram_division::slots(&division, packets);
                (TransitPools::new(npus, ports, slots, packets.unit, bubble), Receipts::new(npus))
            }
            None => (TransitPools::new(0, 0, 0, 0, false), Receipts::new(0)),
        };
        // Where there are chunks of both kinds, each has half of a port buffer.
        let port_buffer = match layout.kinds() {
            (true, true) => Bytes(config.port_buffer.0 / 2),
            _ => config.port_buffer,
        };
        let per_phase = fsm_split::per_phase(&layout, &config, Bytes(unit.into()), chunk);
        Ok(Ace {
            packet: unit,
            span: MAX_IN_FLIGHT,
            chunks: Vec::new(),
            windows: vec![Window::default(); npus as usize],
            phases,
            order: ChunkOrder::new(phases + 1, npus),
            levels: Levels::new(division.capacity.len(), window),
            sram: Sram::new(division, npus),
            banks: Banks::new(&config, unit, npus),
            dmas: Dmas::new(&config, npus),
            fsms: FsmPool::new(&per_phase, config.fsms, npus),
            ports: Ports::new(npus, ports, port_buffer),
            arrived: ArrivedPackets::default(),
            early: BTreeMap::new(),
            all_to_all,
            last_phase,
            paths: Paths::new(layout.fabric()),
            pools: transit_pools,
            receipts,
            traced: NodeSet::new(npus, traced),
            sent: 0,
            sent_of_chunks: Vec::new(),
            flights: Flights::default(),
            layout,
            config,
        })
    }

    /// Bytes of SRAM that chunks of `chunk` bytes need at least, in packets of `packet` bytes and with so many
    /// transit pools, should they be direct all-to-alls.
    pub fn sram_needed(plans: &[Plan], split: Split, chunk: Bytes, packet: u32, pools: u32) -> u64 {
        sram_division::needed(plans, split, chunk, PassingPackets { unit: packet, pools })
    }

    /// Whether there are direct all-to-alls.
    pub(super) fn has_all_to_alls(&self) -> bool {
        self.all_to_all.contains(&true)
    }

    /// Whether the chunks of a plan are direct all-to-alls.
    #[inline]
    pub(super) fn is_all_to_all(&self, plan: PlanId) -> bool {
        self.all_to_all[plan.index()]
    }

    /// The plan of a chunk.
    #[inline]
    pub(super) fn plan_of(&self, seq: ChunkId) -> PlanId {
        self.chunks[seq.index()].plan
    }

    /// The queue in which a chunk stands in a phase: that of the phase, or that of direct all-to-alls.
    #[inline]
    pub(super) fn queue_of(&self, seq: ChunkId, phase: PhaseId) -> usize {
        if self.is_all_to_all(self.plan_of(seq)) { self.phases } else { phase.index() }
    }

    /// What a phase of a chunk achieves.
    pub(super) fn kind(&self, seq: ChunkId, phase: PhaseId) -> Kind {
        self.layout.plan(self.plan_of(seq)).phases()[phase.index()].kind
    }

    /// A chunk that is under way.
    #[inline]
    pub(super) fn progress(&mut self, npu: NodeId, seq: ChunkId) -> &mut Progress {
        self.windows[npu.index()].chunk(seq)
    }

    /// A phase of a chunk as an NPU sees it.
    #[inline]
    pub(super) fn view(&self, npu: NodeId, seq: ChunkId, phase: PhaseId) -> PhaseView<'_> {
        self.layout.view(npu, self.chunks[seq.index()], phase)
    }

    /// Whether a phase takes room for its results before it begins, rather than before it stores the
    /// first of them: an all-reduce around a ring, which stores nothing in its first half, does not.
    ///
    /// It is the kind of the phase that decides, and not whether the program's first step that receives stores: on a ring
    /// of two ranks it does, since there is no step between the first sending and the last reduction.
    pub(super) fn takes_room_at_once(&self, seq: ChunkId, phase: PhaseId) -> bool {
        let program = self.layout.plan(self.plan_of(seq)).program(phase, true);
        self.kind(seq, phase) != Kind::AllReduce || Pattern::of(&program) == Pattern::Direct
    }

    /// Takes down what the first NPU holds from now on.
    pub(super) fn record_levels(&mut self, npu: NodeId, now: Ps) {
        if npu.0 == 0 {
            self.levels.set(now, !self.windows[0].is_empty(), self.sram.used(npu), self.fsms.busy(0));
        }
    }
}

/// The last phase of plans over rings, if there are any; an error if these plans have different numbers of phases, or are
/// none that an engine can carry out beside direct all-to-alls, or without them.
fn last_phase_of_rings(layout: &Layout, all_to_all: &[bool]) -> Result<Option<PhaseId>, AceError> {
    let exchanges = all_to_all.contains(&true);
    let beside = |(plan, &all_to_all): (PlanId, &bool)| all_to_all || layout.is_wired(plan);
    if exchanges && !layout.plan_ids().zip(all_to_all).all(beside) || !exchanges && !layout.is_direct() {
        return Err(AceError::NotDirect);
    }
    let rings = layout.plans().zip(all_to_all).filter(|(plan, all_to_all)| !**all_to_all && !plan.phases().is_empty());
    let lengths: Vec<usize> = rings.map(|(plan, _)| plan.phases().len()).collect();
    match lengths.iter().find(|&&phases| phases != lengths[0]) {
        Some(&other) => Err(AceError::UnequalPhases { phases: [lengths[0], other] }),
        None => Ok(lengths.first().map(|phases| PhaseId::from_index(phases - 1))),
    }
}
