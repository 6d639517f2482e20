//! The switches' part in programs with a switch.

use crate::api::{Chunk, ChunkId, Ctx, Report, work_key};
use crate::flights::Flights;
use crate::layout::{Layout, PhaseView};
use crate::message::{Tag, Tags};
use crate::send_queues::SendQueues;
use crate::servers::RateServer;
use crate::work_done::WorkDone;
use std::collections::{BTreeMap, BTreeSet};
use syncline_collective::program::in_switch::InSwitch;
use syncline_collective::{LineRank, PhaseId, Program, Rank, Slot};
use syncline_core::{Bytes, NodeId, PortId, Ps, Rate, Schedule, Wait};
use syncline_network::{Delivery, Message, Network, Route, TrafficClass};

/// What a switch can do.
#[derive(Clone, Copy, Debug)]
pub struct SwitchConfig {
    /// Bytes per second that the ALU of a port takes in; unlimited if it adds as bytes arrive.
    pub reduce: Rate,
    /// Partial sums that it holds.
    pub memory: Bytes,
    /// From the last addition to a piece, or its arrival where nothing is added, to its departure.
    pub latency: Ps,
}

/// Which members of which line a port of a switch leads to.
#[derive(Clone, Copy, Debug)]
struct Seat {
    /// Its line, among all.
    line: u32,
    /// Members of the line for which it stands: more than one on a folded fabric.
    count: u32,
}

/// The ranks that a switch connects along a dimension.
#[derive(Clone, Debug)]
struct Line {
    /// Rank and port of those that are simulated.
    members: Vec<(LineRank, PortId)>,
    /// One of them.
    npu: NodeId,
}

/// A piece of a chunk, in the order in which pieces that are done at once leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PieceId {
    seq: ChunkId,
    thread: u16,
    phase: PhaseId,
    line: u32,
    /// The first of its steps.
    first: u32,
}

/// A piece of which not everything has arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    arrived: u32,
    /// When what has arrived has passed the ALUs.
    added: Ps,
}

#[derive(Clone, Debug, Default)]
struct Switch {
    open: BTreeMap<PieceId, Open>,
    /// Pieces that will leave, per chunk and thread in order of time.
    leaving: BTreeSet<(ChunkId, u16, Ps, PieceId)>,
    /// Bytes of partial sums, and the most that there were.
    stored: u64,
    peak: u64,
}

/// The program of a phase in which a switch has a part.
fn program<'a>(view: &PhaseView<'a>) -> &'a InSwitch {
    match view.program() {
        Program::InSwitch(program) => program,
        _ => unreachable!("switches have a part in no other programs"),
    }
}

/// All switches of a fabric.
#[derive(Debug)]
pub struct Switches {
    layout: Layout,
    tags: Tags,
    config: SwitchConfig,
    chunks: Vec<Chunk>,
    /// The first switch, and the number of its first link.
    first: NodeId,
    first_link: u32,
    /// Per dimension and port of all switches.
    seats: Vec<Vec<Option<Seat>>>,
    lines: Vec<Line>,
    alus: RateServer,
    switches: Vec<Switch>,
    sent: u64,
}

impl Switches {
    /// The switches of a layout's fabric.
    pub fn new(layout: Layout, config: SwitchConfig) -> Switches {
        let fabric = layout.fabric();
        let first = NodeId(fabric.npus());
        let count = fabric.nodes() - first.0;
        let first_link = if count == 0 { fabric.links() } else { fabric.first_link(first) };
        let links = fabric.links() - first_link;
        let mut lines: Vec<Line> = Vec::new();
        let mut numbers: BTreeMap<(usize, NodeId, (u32, Rank)), u32> = BTreeMap::new();
        let mut seats = vec![vec![None; links as usize]; layout.dimensions()];
        let mut taken = 0u64;
        for (dim, seats) in seats.iter_mut().enumerate() {
            for npu in (0..layout.npus()).map(NodeId).filter(|&n| layout.takes_part(n)) {
                let Some(up) = layout.switch_port(npu, dim) else { continue };
                let (switch, port) = fabric.next(npu, up);
                let (line, rank) = layout.line(npu, dim);
                // A folded switch has one line, whose members may be representatives from several of the machine's.
                let line = if layout.is_folded() { (0, Rank(0)) } else { line };
                let number = *numbers.entry((dim, switch, line)).or_insert(lines.len() as u32);
                if number as usize == lines.len() {
                    lines.push(Line { members: Vec::new(), npu });
                }
                lines[number as usize].members.push((rank, port));
                let link = fabric.first_link(switch) - first_link + u32::from(port.0);
                let ports = fabric.link_multiplicity(switch, port) / fabric.multiplicity(switch);
                seats[link as usize] = Some(Seat { line: number, count: ports as u32 });
                taken += 1;
            }
        }
        lines.iter_mut().for_each(|line| line.members.sort_unstable());
        let mut alus = RateServer::new("switch_alu", config.reduce, links);
        alus.usage.servers = taken.div_ceil(u64::from(layout.npus()).max(1)).max(1) as u32;
        let switches = vec![Switch::default(); count as usize];
        let tags = Tags::of(layout.threads());
        Switches { layout, tags, config, chunks: Vec::new(), first, first_link, seats, lines, alus, switches, sent: 0 }
    }

    /// Whether a node is a switch.
    pub fn contains(&self, node: NodeId) -> bool {
        node >= self.first
    }

    /// Makes the next chunk known.
    pub fn define(&mut self, chunk: Chunk) {
        self.chunks.push(chunk);
    }

    fn view(&self, id: PieceId) -> PhaseView<'_> {
        let npu = self.lines[id.line as usize].npu;
        self.layout.view(npu, self.chunks[id.seq.index()], id.phase)
    }

    /// A message has arrived by a port.
    pub fn arrived<Q>(&mut self, (at, port): (NodeId, PortId), tag: u64, len: Bytes, now: Ps, q: &mut Q)
    where
        Q: Schedule<WorkDone>,
    {
        let tag = Tag(tag);
        let (seq, phase, slot) = (self.tags.seq(tag), tag.phase(), self.tags.slot(tag));
        let dim = self.layout.plan(self.chunks[seq.index()].plan).phases()[phase.index()].dim;
        let link = (self.layout.fabric().first_link(at) - self.first_link + u32::from(port.0)) as usize;
        let seat = self.seats[usize::from(dim)][link].expect("only members of a line send to its switch");
        let id = PieceId { seq, thread: slot.thread, phase, line: seat.line, first: slot.pc };
        let program = program(&self.view(id));
        let (piece, reduces) = (program.piece(slot), program.reduces());
        let id = PieceId { first: piece.first, ..id };
        let added = if reduces { self.alus.serve(link, now, len) } else { now };
        let switch = &mut self.switches[(at.0 - self.first.0) as usize];
        let open = switch.open.entry(id).or_default();
        if open.arrived == 0 && reduces {
            switch.stored += len.0;
            switch.peak = switch.peak.max(switch.stored);
        }
        open.arrived += seat.count;
        open.added = open.added.max(added);
        if open.arrived == piece.receives {
            let leaves = open.added + self.config.latency;
            switch.open.remove(&id);
            switch.leaving.insert((seq, slot.thread, leaves, id));
            q.at(leaves, work_key(seq, slot.thread), WorkDone::Step { npu: at.0, seq, thread: slot.thread, stage: 0 });
        }
    }

    /// A piece of a thread of a chunk leaves a switch.
    pub(super) fn complete<N: Network, Q>(
        &mut self,
        node: NodeId,
        seq: ChunkId,
        thread: u16,
        (flights, send_queues): (&mut Flights, &mut SendQueues),
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let at = (node.0 - self.first.0) as usize;
        let leaving = &mut self.switches[at].leaving;
        let least = PieceId { seq, thread, phase: PhaseId(0), line: 0, first: 0 };
        let next = leaving.range((seq, thread, ctx.now, least)..).next().copied();
        let next = next.expect("an event for every piece that leaves");
        leaving.remove(&next);
        let (_, _, due, id) = next;
        assert_eq!((id.seq, id.thread, due), (seq, thread, ctx.now), "an event at the time of each piece");
        let line = &self.lines[id.line as usize];
        let view = self.view(id);
        let program = program(&view);
        let piece = program.piece(Slot { thread, pc: id.first });
        let len = view.len(&view.switch_step(Slot { thread, pc: piece.first }));
        let mut sent = 0;
        for &(rank, port) in &line.members {
            let Some(pc) = program.sends_to(piece, rank) else { continue };
            let step = view.switch_step(Slot { thread, pc });
            let len = view.len(&step);
            sent += len;
            let tag = self.tags.tag(seq, id.phase, step.into).0;
            let (src, route) = (node, Route::Port(port));
            let (len, delivery) = (Bytes(len), Delivery::Whole);
            let message =
                Message { src, route, queue: 0, len, class: TrafficClass::default(), delivery, tag, receipt: None };
            flights.begin(ctx.now);
            send_queues.send(message, ctx);
        }
        if program.reduces() {
            self.switches[at].stored -= len;
        }
        self.sent += sent;
    }

    /// What is waited for.
    pub fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (node, switch) in (self.first.0..).map(NodeId).zip(&self.switches) {
            for (id, open) in &switch.open {
                let phase = self.layout.phase_name(self.chunks[id.seq.index()].plan, id.phase);
                let name = self.layout.fabric().node_name(node);
                waits.push(Wait {
                    who: format!("{name}, chunk {}, {phase}, piece at step {}", id.seq, id.first),
                    what: format!("its other members ({} are in)", open.arrived),
                });
            }
        }
        waits
    }

    /// Adds what the switches did to a report.
    pub fn report(&self, report: &mut Report) {
        report.sent_by_switches = self.sent;
        report.resources.push(self.alus.usage.clone());
        let peak = self.switches.iter().map(|s| s.peak).max().unwrap_or(0);
        report.partitions.push(("switch memory".into(), self.config.memory.0, peak));
    }
}
