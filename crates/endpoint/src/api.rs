//! The contract between the system layer and an endpoint.
//!
//! ```text
//!   system                          endpoint                         network
//!   define(chunk)   once per chunk, in the global order of chunks
//!   accepts(npu)?, start(npu, seq) ──▶ interprets the plan's programs ──▶ send / open, feed
//!          ◀── EpOut::Room{npu}        servers, SRAM, FSMs   arrived ◀── NetOut::Arrived
//!          ◀── EpOut::Done{npu, seq}
//! ```
//!
//! * Chunks are numbered by the order in which every NPU starts them. An endpoint may rely on that
//!   order: it is the same on all NPUs, which is what makes limited slots free of deadlock.
//! * One value serves all NPUs: per-NPU state lives in flat arrays, and nothing an NPU does depends on
//!   its number except the bytes that its coordinates give it.
//! * An NPU may receive data of a chunk that it has not started yet; the endpoint keeps it.

use crate::servers::ResourceUse;
use std::sync::Arc;
use syncline_collective::{Kind, Plan, Program, RingKind, Split, Step};
use syncline_core::{Bytes, Key, NodeId, PortId, Ps, Schedule, Wait, Windows};
use syncline_network::{NetOut, Network};
use syncline_topology::{Fabric, Torus};

/// A chunk of a collective, the same on every NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its length: bytes of the vector that the collective runs over.
    pub len: Bytes,
    /// Which of the plans in the [`Layout`] it follows.
    pub plan: u8,
    /// Which lane of every ring it takes (modulo the lanes of the ring).
    pub lane: u32,
}

/// What all endpoints know of the machine: where programs lead on the fabric, and which bytes of a chunk
/// each node works on.
#[derive(Clone, Debug)]
pub struct Layout {
    torus: Arc<Torus>,
    /// Per node and dimension, shared by the copies that layers hold.
    coordinates: Arc<[u32]>,
    plans: Vec<PlanLayout>,
    split: Split,
}

#[derive(Clone, Debug)]
struct PlanLayout {
    plan: Plan,
    phases: Vec<PhaseLayout>,
}

#[derive(Clone, Debug)]
struct PhaseLayout {
    dim: u8,
    /// Per lane: the program, and the port that its sends leave by.
    lanes: Vec<(Program, PortId)>,
}

/// How one phase of a chunk looks from one NPU.
#[derive(Clone, Copy, Debug)]
pub struct PhaseView<'a> {
    /// The program.
    pub program: &'a Program,
    /// The port that its sends leave by.
    pub port: PortId,
    /// The NPU's rank in its group.
    pub rank: u32,
    /// Bytes that the phase's blocks are cut from.
    pub vector: u64,
    split: Split,
}

impl PhaseView<'_> {
    /// Number of steps.
    pub fn steps(&self) -> u32 {
        self.program.steps(self.rank)
    }

    /// A step and the length of its block.
    pub fn step(&self, pc: u32) -> (Step, u64) {
        let step = self.program.step(self.rank, pc);
        (step, self.split.share(self.vector, self.program.ranks(), step.block).1)
    }
}

/// The two directions of every parallel link, or only one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// All directions and parallel links of a ring.
    All,
    /// Up, on the first link.
    One,
}

impl Layout {
    /// The layout of `plans` on a torus; blocks are cut by `split`.
    pub fn new(torus: Arc<Torus>, plans: Vec<Plan>, split: Split, lanes: Lanes) -> Layout {
        let lanes_of = |dim: u8| -> Vec<PortId> {
            let ports = (0..torus.ports()).map(PortId).filter(|&p| torus.port_use(p).dim == dim);
            ports.take(if lanes == Lanes::One { 1 } else { usize::MAX }).collect()
        };
        let layout = |plan: Plan| {
            let phase = |(i, p): (usize, &syncline_collective::Phase)| PhaseLayout {
                dim: p.dim,
                lanes: lanes_of(p.dim)
                    .into_iter()
                    .map(|port| (plan.program(i, torus.port_use(port).up), port))
                    .collect(),
            };
            let phases = plan.phases().iter().enumerate().map(phase).collect();
            PlanLayout { phases, plan }
        };
        let plans = plans.into_iter().map(layout).collect();
        let nodes = (0..torus.nodes()).map(NodeId);
        let dims = 0..torus.dims().len();
        let coordinates = nodes.flat_map(|n| dims.clone().map(move |d| (n, d))).map(|(n, d)| torus.coordinate(n, d));
        Layout { coordinates: coordinates.collect(), torus, plans, split }
    }

    /// The fabric.
    pub fn torus(&self) -> &Torus {
        &self.torus
    }

    /// A plan.
    pub fn plan(&self, plan: u8) -> &Plan {
        &self.plans[usize::from(plan)].plan
    }

    /// All plans.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.plans.iter().map(|p| &p.plan)
    }

    /// Number of phases of a plan.
    pub fn phases(&self, plan: u8) -> usize {
        self.plans[usize::from(plan)].phases.len()
    }

    /// Most lanes that any ring has.
    pub fn lanes(&self) -> usize {
        let phases = self.plans.iter().flat_map(|p| &p.phases);
        phases.map(|p| p.lanes.len()).max().unwrap_or(1)
    }

    /// A phase of a chunk as an NPU sees it.
    pub fn view(&self, npu: NodeId, chunk: Chunk, phase: usize) -> PhaseView<'_> {
        let plan = &self.plans[usize::from(chunk.plan)].plan;
        let (_, vector) = plan.vector(phase, chunk.len, self.split, self.coordinates(npu));
        self.view_of(npu, chunk, phase, vector)
    }

    /// The coordinates of a node.
    #[inline]
    fn coordinates(&self, npu: NodeId) -> impl Fn(u8) -> u32 + '_ {
        let dims = self.torus.dims().len();
        let mine = &self.coordinates[npu.index() * dims..][..dims];
        move |d| mine[usize::from(d)]
    }

    /// A phase of a chunk as an NPU sees it, where its vector is known already.
    #[inline]
    pub fn view_of(&self, npu: NodeId, chunk: Chunk, phase: usize, vector: u64) -> PhaseView<'_> {
        let PhaseLayout { dim, lanes } = &self.plans[usize::from(chunk.plan)].phases[phase];
        let (program, port) = &lanes[chunk.lane as usize % lanes.len()];
        PhaseView { program, port: *port, rank: self.coordinates(npu)(*dim), vector, split: self.split }
    }

    /// The bytes that an NPU holds before `phase`, or after the last one if `phase` is their number.
    pub fn held(&self, npu: NodeId, chunk: Chunk, phase: usize) -> u64 {
        let p = &self.plans[usize::from(chunk.plan)];
        let coordinate = self.coordinates(npu);
        match p.plan.phases().get(phase) {
            Some(ph) => {
                let (_, vector) = p.plan.vector(phase, chunk.len, self.split, &coordinate);
                match ph.kind {
                    RingKind::AllGather => self.split.share(vector, ph.ranks, coordinate(ph.dim)).1,
                    _ => vector,
                }
            }
            None => p.plan.ends(chunk.len, self.split, coordinate)[1].1,
        }
    }

    /// A name for a phase, e.g. `reduce-scatter dim 0`.
    pub fn phase_name(&self, plan: u8, phase: usize) -> String {
        let p = &self.plan(plan).phases()[phase];
        let kind = match p.kind {
            RingKind::ReduceScatter => "reduce-scatter",
            RingKind::AllGather => "all-gather",
            RingKind::AllReduce => "all-reduce",
        };
        format!("{kind} dim {}", p.dim)
    }

    /// The plan of a collective, if it is among the plans.
    pub fn plan_of(&self, kind: Kind) -> Option<u8> {
        self.plans.iter().position(|p| p.plan.kind() == kind).map(|i| i as u8)
    }
}

/// What an endpoint works with during a call.
pub struct Ctx<'a, N, Q> {
    /// The current time.
    pub now: Ps,
    /// The network below.
    pub net: &'a mut N,
    /// The queue.
    pub q: &'a mut Q,
    /// What the endpoint has to say.
    pub out: &'a mut Vec<EpOut>,
}

/// What an endpoint says to the system layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpOut {
    /// The NPU may accept another chunk now.
    Room {
        /// The NPU.
        npu: NodeId,
    },
    /// A phase of a chunk began or ended on an NPU (reported for traced NPUs only).
    Phase {
        /// The NPU.
        npu: NodeId,
        /// The chunk.
        seq: u32,
        /// The phase.
        phase: u8,
        /// When its work was ready to begin.
        ready: Ps,
        /// When it began.
        began: Ps,
    },
    /// The chunk is complete on the NPU.
    Done {
        /// The NPU.
        npu: NodeId,
        /// The chunk.
        seq: u32,
    },
}

/// What endpoints report at the end of a run, summed over NPUs unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Main-memory bytes read for communication.
    pub memory_read: u64,
    /// Main-memory bytes written for communication.
    pub memory_written: u64,
    /// Bytes loaded into an SRAM.
    pub loaded: u64,
    /// Bytes handed to the network.
    pub sent: u64,
    /// Every resource.
    pub resources: Vec<ResourceUse>,
    /// Name, capacity and largest fill of every SRAM partition.
    pub partitions: Vec<(String, u64, u64)>,
    /// Most FSMs of one NPU that were busy at once.
    pub fsm_peak: u32,
    /// FSMs of an NPU.
    pub fsms: u32,
    /// Of the first NPU over time: chunks held (busy share), bytes held in SRAM, busy FSMs.
    pub occupancy: Option<Occupancy>,
}

/// What the engine of the first NPU held over time.
#[derive(Clone, Debug)]
pub struct Occupancy {
    /// Time with at least one chunk.
    pub active: Windows,
    /// SRAM bytes times picoseconds.
    pub sram: Windows,
    /// Busy FSMs times picoseconds.
    pub fsms: Windows,
}

/// An endpoint model, for all NPUs of a run.
pub trait Endpoint<N: Network> {
    /// Its timers.
    type Event: Copy;

    /// Makes the next chunk of the global order known, before any NPU starts it.
    fn define(&mut self, chunk: Chunk);

    /// Whether the NPU has room to start a chunk now.
    fn accepts(&self, npu: NodeId, chunk: Chunk) -> bool;

    /// Starts the next chunk of the global order on an NPU; it must have been accepted.
    fn start<Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<Self::Event> + Schedule<N::Event>;

    /// The network reports.
    fn network<Q>(&mut self, report: NetOut, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<Self::Event> + Schedule<N::Event>;

    /// A timer fired.
    fn handle<Q>(&mut self, event: Self::Event, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<Self::Event> + Schedule<N::Event>;

    /// Everything that waits, and for what.
    fn waits(&self) -> Vec<Wait>;

    /// What the endpoints did until `now`.
    fn report(&self, now: Ps) -> Report;
}

/// Event classes of this layer in the order key; see [`syncline_core::Key`].
pub mod class {
    /// Work at an endpoint is done.
    pub const WORK: u8 = 32;
}

/// The key of an event that concerns a chunk on an NPU: simultaneous events of one NPU are told apart by
/// port and chunk. Chunks in flight together differ in the low 16 bits of their number.
#[inline]
pub fn chunk_key(class: u8, seq: u32, port: PortId) -> Key {
    Key::new(class, (seq & 0xffff) << 8 | u32::from(port.0))
}
