//! The accelerator collectives engine: ACE paper, section IV.
//!
//! ```text
//!  main memory ──TX DMA──▶ ┌───────────── SRAM ─────────────┐ ──RX DMA──▶ main memory
//!                          │ partition 0 │ 1 │ ... │terminal│
//!                          └──┬───────────────────────▲─────┘
//!               read port     ▼                       │ write port
//!   input buffers ──▶ FSM of the phase: ALU ──────────┴──▶ port buffer ──▶ link
//! ```
//!
//! # A chunk's way
//! 1. **Load.** When partition 0 has room the TX DMA reads the chunk through memory bandwidth and bus.
//! 2. **Queue.** A loaded chunk waits for its phase. Chunks begin a phase in their global order, each when
//!    its FSM (chunk number modulo the FSMs of the phase) is free ([`phases`]).
//! 3. **Run.** The FSM walks the ring program in groups of messages ([`dataflow`]): a block larger than
//!    a message is cut into several, and the groups follow one another (section IV-C, footnote 3).
//!    Work is done packet by packet: a packet is reduced and forwarded as it arrives. Room for the
//!    results is taken in the next partition when the phase begins, in an all-reduce from its second
//!    half on, as it becomes free; the room of a message in the own partition is given back when it has
//!    been read.
//! 4. **Drain.** After the last phase the RX DMA writes the terminal partition's data back.
//!
//! The DMAs stream a chunk over memory and bus at once. With LogGP buses ([`crate::loggp`]; first version of the paper,
//! sections 4.2 and 5) it goes as a train of messages over one bus and then over the other; nothing else crosses them.
//!
//! # All-to-all
//! Section V: direct, everybody to everybody, in a single phase that all FSMs can run ([`exchange`]). Where only
//! neighbours are connected the engines forward each other's packets ([`transit`]). Such all-to-alls may run beside
//! rings ([`mixed`]). Others, ring by ring ([`legs`]) or direct along one of several dimensions ([`direct`]), have phases
//! like an all-reduce (first version of the paper, section 5).
//!
//! # Readings of the paper
//! * An FSM is free for the next chunk of its queue once it has issued the last *send* of the current
//!   one. What still arrives for that chunk is reduced or stored as it comes. (With an FSM held until
//!   the last arrival, 4 FSMs on a ring of four 25 GB/s links cannot pass 80 % of the link, and the
//!   published 90 % of ideal would be out of reach for any memory bandwidth.)
//! * A chunk holds room in a partition only while its data is there. (If it reserved its place in the next
//!   partition when a phase begins and kept its own until the phase ends, five chunks would share the
//!   vertical and the horizontal phase of a 4x4x4 torus with 4 MB of SRAM, and ACE would reach less
//!   than half of the ideal bandwidth, where the paper has 90 %.)
//! * Chunks begin a phase, and take room in a partition, in the same order on every NPU. Without that, NPUs
//!   could give the last room to different chunks and wait for each other for ever. A chunk may store as
//!   soon as a packet fits, before it has room for all its results: no later chunk takes room until
//!   it has, and the earlier ones, which hold the rest, go on without it. (If a chunk had to find room
//!   for everything at once, what is left of a partition would lie idle while chunks wait: five
//!   chunks fit into the partitions of a 4x4x4 torus. Chunks that arrive in bunches would then
//!   stay bunched, and faster memory would slow the run by 2.5 %.)
//! * Around a ring one FSM at a time sends messages of its own through a port; packets that are forwarded go in
//!   between. Input buffers then never fill with packets whose chunk still waits to send. In relays and direct phases,
//!   where most or all of what is sent is an FSM's own, all may: one FSM reads 64 B per cycle, which at the 700 MHz of the
//!   first version is less than half of a switch's links. Input buffers are made large enough instead.
//! * A packet occupies the read port of a bank (if local data is read), an ALU (if it is reduced) and
//!   the write port of a bank (if it is kept), each for `length / 64 B` cycles, all at once; if one is
//!   busy it waits for the latest. When all are idle the packet streams through while it arrives
//!   and adds no latency of its own. Words are interleaved over the banks, so that streams take the
//!   banks in rotation and find a port as long as fewer streams than banks are active.
//! * The DMAs have SRAM ports of their own: with shared ports a 4x2x2 torus could not reach the
//!   published 90 % of ideal (reads alone would need 1.6 times what four banks give).
//! * SRAM is divided in proportion to (bandwidth of the phase's links) x (bytes a chunk brings into the
//!   phase), the terminal partition equal to the last (section IV-I).
//!
//! Left out: command decoding, interrupt latency, address generation.

mod config;
mod dataflow;
mod direct;
mod event;
mod exchange;
mod fsms;
mod held;
mod legs;
mod mixed;
mod outputs;
mod phases;
mod sram;
mod transit;

pub use config::{AceConfig, AceError, FsmSplit, Transit};
pub use event::AceEvent;

use crate::api::{Chunk, Ctx, Endpoint, EpOut, Occupancy, Report, chunk_key, told_apart};
use crate::flights::Flights;
use crate::layout::Layout;
use crate::servers::{PoolServer, RateServer, ResourceUse};
use event::class;
use held::HeldPackets;
use legs::{Handling, Shape};
use sram::{Fillings, Level, Packets, Partitions};
use std::collections::{BTreeMap, VecDeque};
use syncline_collective::{Kind, Plan, Split};
use syncline_core::{Bytes, NodeId, NodeSet, PortId, Ps, Rate, Schedule, Wait};
use syncline_network::{LINKS_OF_AN_EVENT, MsgId, NetOut, Network, Route};
use transit::Exchange;

/// Where a chunk is on its way through an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unstarted,
    Loading,
    Queued,
    Running,
    Draining,
    Done,
}

/// What a packet that a chunk handles waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// There is none.
    Idle,
    /// Room in the next partition, or the FSM's turn to send through the port.
    Turn,
    /// SRAM ports and ALU.
    Fetching,
    /// Space in the port buffer.
    AtPort,
}

/// Why a chunk does not begin its phase, or does not store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    /// It is not ready, or not at the head of its phase: its FSM serves earlier chunks.
    Turn,
    /// Its FSM is busy.
    Fsm,
    /// The next partition has no room.
    Room,
}

/// A chunk on an NPU. The fields after `phase` describe the running phase.
#[derive(Clone, Copy, Debug)]
struct Progress {
    state: State,
    phase: u8,
    shape: Shape,
    /// What becomes of the message being received.
    handling: Handling,
    receiving: Unit,
    sending: Unit,
    /// Room for the phase's results that is still to be reserved; `None` when all is.
    room_due: Option<u64>,
    /// Room that is reserved and not filled yet, as long as some is still to be reserved.
    room: u64,
    /// The way of what it sends, and its first port.
    route: Route,
    out_port: PortId,
    /// Whether what it sends is part of the result (of direct phases).
    gathers: bool,
    /// Bytes to be added, and to be stored, that have not arrived (of direct phases).
    due: [u64; 2],
    /// Own messages of a group, and arriving ones.
    owns: u32,
    legs: u32,
    /// The own message that is being sent.
    own: u32,
    /// Number, in the phase and in its group, and group of the message being received.
    expected: u32,
    pc: u32,
    group: u32,
    groups: u32,
    /// Group of the FSM's own message.
    sending_group: u32,
    /// Bytes of the message being received still to come; `None` when nothing is left to receive.
    receive_left: Option<u32>,
    /// Bytes that the FSM still has to send of its own message, `None` when it is not sending one.
    send_left: Option<u32>,
    /// The outgoing message, once opened.
    message: Option<MsgId>,
    /// Arrived packets that wait, in the pool of held packets.
    held: held::List,
    /// When the chunk was ready for its phase, and when it began it.
    ready: Ps,
    began: Ps,
    /// Since when it waits (for its phase or for a port), as far as not accounted yet; of a chunk that is written back,
    /// when all of it is across the bus.
    waits_since: Ps,
    /// What it waits for.
    blocked: Blocked,
}

const FRESH: Progress = Progress {
    state: State::Unstarted,
    phase: 0,
    shape: Shape::Ring,
    handling: Handling::PASS,
    receiving: Unit::Idle,
    sending: Unit::Idle,
    room_due: None,
    room: 0,
    route: Route::Port(PortId(0)),
    out_port: PortId(0),
    gathers: false,
    due: [0, 0],
    owns: 0,
    legs: 0,
    own: 0,
    expected: 0,
    pc: 0,
    group: 0,
    groups: 0,
    sending_group: 0,
    receive_left: None,
    send_left: None,
    message: None,
    held: held::List::EMPTY,
    ready: Ps::ZERO,
    began: Ps::ZERO,
    waits_since: Ps::ZERO,
    blocked: Blocked::Turn,
};

/// The chunks of an NPU between the oldest unfinished one and the newest it has started.
#[derive(Clone, Debug, Default)]
struct Engine {
    base: u32,
    next: u32,
    chunks: VecDeque<Progress>,
    busy_fsms: u32,
}

/// Engines of all NPUs.
#[derive(Debug)]
pub struct Ace {
    layout: Layout,
    config: AceConfig,
    ports: usize,
    /// Feeding unit on this network: a packet, or a whole message.
    unit: u32,
    /// What a port buffer holds of one kind of chunks.
    port_buffer: Bytes,
    /// How long a full one occupies an SRAM port.
    full_unit: Ps,
    port_rate: Rate,
    chunks: Vec<Chunk>,
    engines: Vec<Engine>,
    partitions: Partitions,
    /// Per plan, whether its chunks are all-to-alls.
    exchanged: Vec<bool>,
    /// The phase of rings that fills the terminal partition.
    last_phase: Option<usize>,
    /// The chunks that go through each phase, and behind the phases all-to-alls, in their order.
    lines: Vec<Vec<u32>>,
    /// Per NPU and line: how many have begun, and how many have taken room for their results.
    begun: Vec<u32>,
    roomed: Vec<u32>,
    /// Per NPU and FSM: whether it is busy.
    fsm_busy: Vec<bool>,
    /// First FSM of each phase, and the end.
    fsm_of_phase: Vec<u32>,
    /// Per NPU and port: chunks whose next packet waits for space, first come first served.
    port_queues: Vec<VecDeque<u32>>,
    port_timer: Vec<bool>,
    /// Per NPU and port: chunks whose FSMs send messages of their own through it, the sender first.
    own_senders: Vec<VecDeque<u32>>,
    pool: HeldPackets,
    /// Packets of chunks that have not begun the phase, by (NPU, chunk, phase).
    early: BTreeMap<(u32, u32, u8), held::List>,
    /// Direct all-to-alls in a single phase; of no NPU where chunks have other phases only.
    exchange: Exchange,
    memory: RateServer,
    tx_bus: RateServer,
    rx_bus: RateServer,
    sram_read: PoolServer,
    sram_write: PoolServer,
    alus: PoolServer,
    fsm_use: ResourceUse,
    sram_use: ResourceUse,
    port_use: ResourceUse,
    fsm_peak: u32,
    /// Per NPU and line: FSMs that are busy with it. Per line: the most of one NPU.
    busy_in: Vec<u32>,
    peak_in: Vec<u32>,
    active: Level,
    fillings: Fillings,
    fsm_level: Level,
    traced: NodeSet,
    memory_read: u64,
    memory_written: u64,
    sent: u64,
    flights: Flights,
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
        window: Ps,
        traced: &[NodeId],
    ) -> Result<Ace, AceError> {
        let npus = layout.npus();
        let ports = (0..npus).map(|npu| layout.fabric().ports(NodeId(npu))).max().map_or(0, usize::from);
        let exchanged: Vec<bool> = layout.plans().map(Plan::is_exchange).collect();
        let exchanges = exchanged.contains(&true);
        let beside = |(plan, &exchanged): (u8, &bool)| exchanged || layout.is_wired(plan);
        if exchanges && !(0..).zip(&exchanged).all(beside) || !exchanges && !layout.is_direct() {
            return Err(AceError::NotDirect);
        }
        let rings =
            layout.plans().zip(&exchanged).filter(|(plan, exchanged)| !**exchanged && !plan.phases().is_empty());
        let lengths: Vec<usize> = rings.map(|(plan, _)| plan.phases().len()).collect();
        let last_phase = lengths.first().map(|phases| phases - 1);
        if let Some(&other) = lengths.iter().find(|&&phases| phases != lengths[0]) {
            return Err(AceError::UnequalPhases { phases: [lengths[0], other] });
        }
        let phases = layout.plans().map(|p| p.phases().len()).max().unwrap_or(0);
        if (config.fsms as usize) < phases {
            return Err(AceError::TooFewFsms { fsms: config.fsms, phases });
        }
        let unit = packet.unwrap_or(config.message).0.min(u64::from(u32::MAX)) as u32;
        let pools = match config.transit {
            Transit::Endpoint { .. } if exchanges => ports as u32,
            _ => 0,
        };
        let packets = exchanges.then_some(Packets { unit: u64::from(unit).min(config.message.0) as u32, pools });
        let partitions = Partitions::new(&layout, config.sram.0, chunk, packets)?;
        let exchange = match packets {
            Some(packets) => Exchange::new(&layout, config.transit, ports, partitions.slots(packets), packets.unit),
            None => Exchange::none(&layout, config.transit),
        };
        let per_phase = fsms::per_phase(&layout, &config, Bytes(unit.into()), chunk);
        let fsm_of_phase = (0..=phases).map(|phase| per_phase[..phase].iter().sum()).collect();
        let rate = config.clock.bytes_per_cycle(u64::from(config.port_bytes)).unwrap_or(Rate::UNLIMITED);
        let port_buffer = match layout.kinds() {
            (true, true) => Bytes(config.port_buffer.0 / 2),
            _ => config.port_buffer,
        };
        let bus = |name, rate| RateServer::new(name, rate, npus).with_protocol(config.protocol);
        let fillings = Fillings::new(partitions.used(NodeId(0)).len(), window);
        let mut ace = Ace {
            ports,
            unit,
            port_buffer,
            full_unit: Ps::ZERO,
            port_rate: rate,
            chunks: Vec::new(),
            engines: vec![Engine::default(); npus as usize],
            partitions,
            exchanged,
            last_phase,
            lines: vec![Vec::new(); phases + 1],
            begun: vec![0; npus as usize * (phases + 1)],
            roomed: vec![0; npus as usize * (phases + 1)],
            fsm_busy: vec![false; npus as usize * config.fsms as usize],
            fsm_of_phase,
            port_queues: vec![VecDeque::new(); npus as usize * ports],
            port_timer: vec![false; npus as usize * ports],
            own_senders: vec![VecDeque::new(); npus as usize * ports],
            pool: HeldPackets::default(),
            early: BTreeMap::new(),
            exchange,
            memory: bus("memory", config.memory),
            tx_bus: bus("bus_tx", config.bus),
            rx_bus: bus("bus_rx", config.bus),
            sram_read: PoolServer::new("sram_read", config.banks, npus),
            sram_write: PoolServer::new("sram_write", config.banks, npus),
            alus: PoolServer::new("alu", config.alus, npus),
            fsm_use: ResourceUse::new("fsm", config.fsms),
            sram_use: ResourceUse::new("sram_room", 1),
            port_use: ResourceUse::new("port_buffer", ports as u32),
            fsm_peak: 0,
            busy_in: vec![0; npus as usize * (phases + 1)],
            peak_in: vec![0; phases + 1],
            active: Level::new(window),
            fillings,
            fsm_level: Level::new(window),
            traced: NodeSet::new(npus, traced),
            memory_read: 0,
            memory_written: 0,
            sent: 0,
            flights: Flights::default(),
            layout,
            config,
        };
        ace.full_unit = ace.occupancy_of(unit);
        Ok(ace)
    }

    /// Bytes of SRAM that chunks of `chunk` bytes need at least, in packets of `packet` bytes and with so many
    /// transit pools, should they be direct all-to-alls.
    pub fn sram_needed(plans: &[Plan], split: Split, chunk: Bytes, packet: u32, pools: u32) -> u64 {
        sram::needed(plans, split, chunk, Packets { unit: packet, pools })
    }

    /// Whether the engines forward packets.
    fn forwards(&self) -> bool {
        matches!(self.config.transit, Transit::Endpoint { .. })
    }

    fn phases(&self) -> usize {
        self.fsm_of_phase.len() - 1
    }

    fn kind(&self, seq: u32, phase: usize) -> Kind {
        self.layout.plan(self.chunks[seq as usize].plan).phases()[phase].kind
    }

    /// The bits of a tag that name the phase, and the one that says that the data is part of a direct phase's result.
    const PHASE_MASK: u64 = 0x7f;
    const GATHERED: u64 = 0x80;

    /// The bits beyond, but for the last ([`transit`]), are those of the message's number.
    const NUMBER: u32 = 40;
    const NUMBERS: u32 = 0x7f_ffff;

    fn tag(seq: u32, phase: u8, gathers: bool, number: u32) -> u64 {
        let gathered = if gathers { Self::GATHERED } else { 0 };
        u64::from(number) << Self::NUMBER | u64::from(seq) << 8 | gathered | u64::from(phase)
    }

    #[inline]
    fn progress(&mut self, npu: NodeId, seq: u32) -> &mut Progress {
        let engine = &mut self.engines[npu.index()];
        &mut engine.chunks[(seq - engine.base) as usize]
    }

    fn record_levels(&mut self, npu: NodeId, now: Ps) {
        if npu.0 == 0 {
            let engine = &self.engines[0];
            self.active.set(now, u64::from(!engine.chunks.is_empty()));
            self.fillings.set(now, self.partitions.used(npu));
            self.fsm_level.set(now, u64::from(engine.busy_fsms));
        }
    }

    fn drained<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.chunks[seq as usize];
        let phases = self.layout.phases(chunk.plan);
        if phases > 0 {
            let bytes = self.layout.held(npu, chunk, phases);
            self.partitions.free(npu, self.phases(), bytes);
        }
        self.complete(npu, seq, ctx);
        if phases > 0 {
            self.terminal_freed(npu, ctx);
        }
    }

    /// A chunk is complete.
    fn complete<N, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>) {
        self.progress(npu, seq).state = State::Done;
        let engine = &mut self.engines[npu.index()];
        while engine.chunks.front().is_some_and(|c| c.state == State::Done) {
            engine.chunks.pop_front();
            engine.base += 1;
        }
        self.record_levels(npu, ctx.now);
        ctx.out.push(EpOut::Done { npu, seq });
    }

    /// Bytes that an NPU loads of a chunk.
    fn brought(&self, npu: NodeId, chunk: Chunk) -> u64 {
        if self.is_exchanged(chunk) { self.exchanged(npu, chunk).0 } else { self.layout.held(npu, chunk, 0) }
    }
}

impl<N: Network> Endpoint<N> for Ace {
    type Event = AceEvent;

    fn define(&mut self, chunk: Chunk) {
        self.enlist(chunk);
        self.chunks.push(chunk);
    }

    fn accepts(&self, npu: NodeId, chunk: Chunk) -> bool {
        let engine = &self.engines[npu.index()];
        told_apart(engine.base, engine.next)
            && (self.layout.phases(chunk.plan) == 0 || self.partitions.fits(npu, 0, self.brought(npu, chunk)))
    }

    fn start<Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let engine = &mut self.engines[npu.index()];
        let seq = engine.next;
        engine.next += 1;
        engine.chunks.push_back(Progress { state: State::Loading, ..FRESH });
        let chunk = self.chunks[seq as usize];
        let mut done = ctx.now;
        let mut event = AceEvent::Drained { npu: npu.0, seq }; // nothing to communicate with nobody
        if self.layout.phases(chunk.plan) > 0 {
            let bytes = self.brought(npu, chunk);
            self.partitions.take(npu, 0, bytes);
            self.memory_read += bytes;
            done = self.load(npu.index(), ctx.now, Bytes(bytes));
            event = AceEvent::Loaded { npu: npu.0, seq };
        }
        self.record_levels(npu, ctx.now);
        ctx.q.at(done, chunk_key(class::LOADED, seq, 0), event);
    }

    #[inline]
    fn network<Q>(&mut self, report: NetOut, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        match report {
            NetOut::Arrived { at, port, tag, segment, last } => {
                if last {
                    self.flights.end(ctx.now);
                }
                match transit::is_passing(tag) {
                    true => self.packet_arrived(at, port, tag, segment.len.0 as u32, ctx),
                    false => self.arrived(at, port, tag, segment, ctx),
                }
            }
            NetOut::Left { .. } => {}
            NetOut::Failed { .. } => unreachable!("a run ends with its first lost message"),
            NetOut::Room { at, port } => self.serve_port(at, port, ctx),
        }
    }

    fn handle<Q>(&mut self, event: AceEvent, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        match event {
            AceEvent::Loaded { npu, seq } => self.queue(NodeId(npu), seq, ctx),
            AceEvent::Received { npu, seq } => self.packet_received(NodeId(npu), seq, ctx),
            AceEvent::Fetched { npu, seq } if self.is_exchanged(self.chunks[seq as usize]) => {
                self.next_own(NodeId(npu), seq, ctx);
            }
            AceEvent::Fetched { npu, seq } => self.packet_fetched(NodeId(npu), seq, ctx),
            AceEvent::Written { npu, port } => self.packet_written(NodeId(npu), PortId(port as u16), ctx),
            AceEvent::Read { npu, port } => self.packet_read(NodeId(npu), PortId(port as u16), ctx),
            AceEvent::Stored { npu } => self.packet_stored(NodeId(npu), ctx),
            AceEvent::Port { npu, port } => {
                let port = PortId(port as u16);
                self.port_timer[npu as usize * self.ports + port.index()] = false;
                self.serve_port(NodeId(npu), port, ctx);
            }
            AceEvent::Crossed { npu, seq } => self.write_across(NodeId(npu), seq, ctx),
            AceEvent::Drained { npu, seq } => {
                self.drained(NodeId(npu), seq, ctx);
                ctx.out.push(EpOut::Room { npu: NodeId(npu) });
            }
        }
    }

    fn further_work(&self) -> u64 {
        self.exchange.paths.looked_up() / LINKS_OF_AN_EVENT
    }

    fn waits(&self) -> Vec<Wait> {
        self.list_waits()
    }

    fn report(&self, now: Ps) -> Report {
        let servers = [&self.memory, &self.tx_bus, &self.rx_bus].map(|s| s.usage.clone());
        let pools = [&self.sram_read, &self.sram_write, &self.alus].map(|s| s.usage.clone());
        let own = [&self.fsm_use, &self.sram_use, &self.port_use].map(Clone::clone);
        let transit = self.exchanges().then(|| self.exchange.pool_use.clone());
        Report {
            memory_read: self.memory_read,
            memory_written: self.memory_written,
            loaded: self.memory_read,
            sent: self.sent,
            sent_by_switches: 0,
            transit: self.exchange.forwarded,
            messages: self.flights.count(),
            network: self.flights.time(now),
            buses: &["memory", "bus_tx", "bus_rx"],
            resources: servers.into_iter().chain(pools).chain(own).chain(transit).collect(),
            partitions: self.partitions.report(&self.layout),
            fsm_peak: self.fsm_peak,
            fsms: self.config.fsms,
            fsms_of_phases: self.fsms_of_phases(),
            occupancy: Some(Occupancy {
                active: self.active.until(now),
                sram: self.fillings.sum(now),
                partitions: self.partitions.shown().map(|p| self.fillings.part(p, now)).collect(),
                fsms: self.fsm_level.until(now),
            }),
        }
    }
}
