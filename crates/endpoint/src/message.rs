//! Endpoints that work on whole messages: the ideal one and the baseline.
//!
//! # Interpretation
//! A chunk runs its phases in order, and in a phase the steps of its program in order. A step that
//! receives waits for its message to be complete; then the endpoint works on it for a time that the
//! cost model gives; then the step's message, if it has one, goes to the network as a whole and the
//! next step begins. At most `inflight` chunks of an NPU run at once.
//!
//! # Ideal
//! ACE paper, Table VI: whatever arrives is processed within one cycle. The upper bound.
//!
//! # Baseline
//! SMs drive the collective through main memory (ACE paper, sections III and VI-A). Per byte of a block:
//!
//! | step | read from memory |
//! |---|---|
//! | send, copy and send | 1 (the data that goes out) |
//! | reduce and send, with or without a copy | 2 (local and received) |
//! | last reduction, not sent | 1 (the paper's count: 2 per byte *sent*; what the first send does not need, the last reduction does) |
//! | last receive | 0 |
//!
//! which makes 2 per byte sent in reduce-scatter, 1 in all-gather, 1.5 on average. Received bytes cross
//! the bus and are written to memory: recorded, and charged only with `charge_writes`. Reading streams
//! through three servers at once (memory bandwidth, SMs, the bus towards the AFI); the step is done
//! when the slowest is. Left out: kernel launches and caches.

use crate::api::{Chunk, Ctx, Endpoint, EpOut, Layout, Report, chunk_key, class};
use crate::servers::RateServer;
use std::collections::VecDeque;
use syncline_collective::Op;
use syncline_collective::plan::MAX_PHASES;
use syncline_core::{Bytes, NodeId, NodeSet, PortId, Ps, Rate, Schedule, Wait};
use syncline_network::{Delivery, Message, NetOut, Network, Route};

/// What a step costs an endpoint that works on whole messages.
pub trait StepCost {
    /// When the work of a step on a block of `len` bytes that was ready at `now` is done.
    fn work(&mut self, npu: usize, now: Ps, op: Op, len: Bytes) -> Ps;

    /// Adds what was used to a report.
    fn report(&self, report: &mut Report);
}

/// Every step takes the same short time.
#[derive(Clone, Debug)]
pub struct Ideal {
    /// Time per step: one cycle.
    pub step: Ps,
}

impl StepCost for Ideal {
    fn work(&mut self, _: usize, now: Ps, _: Op, _: Bytes) -> Ps {
        now + self.step
    }

    fn report(&self, _: &mut Report) {}
}

/// What the baseline's communication may use.
#[derive(Clone, Copy, Debug)]
pub struct BaselineConfig {
    /// Main-memory bandwidth.
    pub memory: Rate,
    /// What its SMs can read.
    pub sms: Rate,
    /// NPU-AFI bus, each direction.
    pub bus: Rate,
    /// Whether writes to memory are charged.
    pub charge_writes: bool,
}

/// SMs and main memory.
#[derive(Clone, Debug)]
pub struct Baseline {
    memory: RateServer,
    sms: RateServer,
    bus_out: RateServer,
    bus_in: RateServer,
    charge_writes: bool,
    read: u64,
    written: u64,
}

impl Baseline {
    /// The baseline of `npus` NPUs.
    pub fn new(config: BaselineConfig, npus: u32) -> Baseline {
        Baseline {
            memory: RateServer::new("memory", config.memory, npus),
            sms: RateServer::new("sm", config.sms, npus),
            bus_out: RateServer::new("bus_tx", config.bus, npus),
            bus_in: RateServer::new("bus_rx", config.bus, npus),
            charge_writes: config.charge_writes,
            read: 0,
            written: 0,
        }
    }

    fn reads_per_byte(op: Op) -> u64 {
        match op {
            Op::RecvReduceSend | Op::RecvReduceCopySend => 2,
            Op::Send | Op::RecvReduce | Op::RecvCopySend => 1,
            Op::Recv => 0,
        }
    }
}

impl StepCost for Baseline {
    fn work(&mut self, npu: usize, now: Ps, op: Op, len: Bytes) -> Ps {
        let mut ready = now;
        if op.receives() {
            self.written += len.0;
            ready = self.bus_in.serve(npu, now, len);
            if self.charge_writes {
                ready = ready.max(self.memory.serve(npu, now, len));
            }
        }
        let read = Bytes(Self::reads_per_byte(op) * len.0);
        self.read += read.0;
        let mut done = ready;
        if read.0 > 0 {
            done = self.memory.serve(npu, ready, read).max(self.sms.serve(npu, ready, read));
        }
        if op.sends() {
            done = done.max(self.bus_out.serve(npu, ready, len));
        }
        done
    }

    fn report(&self, report: &mut Report) {
        report.memory_read = self.read;
        report.memory_written = self.written;
        report.resources.extend([&self.memory, &self.sms, &self.bus_out, &self.bus_in].map(|s| s.usage.clone()));
    }
}

/// A step's work is done.
#[derive(Clone, Copy, Debug)]
pub struct StepDone {
    npu: u32,
    seq: u32,
}

/// A chunk on an NPU.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    started: bool,
    working: bool,
    done: bool,
    phase: u8,
    pc: u32,
    /// Whether the next three say what step `pc` does, the length of its block, and where it sends.
    decoded: bool,
    op: Op,
    port: PortId,
    len: u64,
    /// Bytes that the phase's blocks are cut from; `None` until the phase begins.
    vector: Option<u64>,
    /// When the phase began.
    began: Ps,
    /// Messages that have arrived and not been taken, by phase.
    arrived: [u16; MAX_PHASES],
}

const FRESH: Cursor = Cursor {
    started: false,
    working: false,
    done: false,
    phase: 0,
    pc: 0,
    decoded: false,
    op: Op::Send,
    port: PortId(0),
    len: 0,
    vector: None,
    began: Ps::ZERO,
    arrived: [0; MAX_PHASES],
};

/// The chunks of an NPU between the oldest unfinished one and the newest it has heard of.
#[derive(Clone, Debug, Default)]
struct Window {
    base: u32,
    next: u32,
    running: u32,
    cursors: VecDeque<Cursor>,
}

impl Window {
    fn cursor(&mut self, seq: u32) -> &mut Cursor {
        let at = (seq - self.base) as usize;
        if at >= self.cursors.len() {
            self.cursors.resize(at + 1, FRESH);
        }
        &mut self.cursors[at]
    }
}

/// An endpoint that works on whole messages, with the costs of `C`.
#[derive(Debug)]
pub struct MessageEndpoint<C> {
    layout: Layout,
    cost: C,
    inflight: u32,
    traced: NodeSet,
    chunks: Vec<Chunk>,
    npus: Vec<Window>,
    sent: u64,
}

impl<C: StepCost> MessageEndpoint<C> {
    /// Endpoints of all NPUs, each running at most `inflight` chunks; phases of `traced` NPUs are reported.
    pub fn new(layout: Layout, cost: C, inflight: u32, traced: &[NodeId]) -> Self {
        use syncline_topology::Fabric;
        let npus = layout.torus().nodes();
        let traced = NodeSet::new(npus, traced);
        MessageEndpoint {
            layout,
            cost,
            inflight,
            traced,
            chunks: Vec::new(),
            npus: vec![Window::default(); npus as usize],
            sent: 0,
        }
    }

    fn tag(seq: u32, phase: u8) -> u64 {
        u64::from(seq) << 8 | u64::from(phase)
    }

    /// Begins the work of the current step if it can begin.
    fn advance<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<StepDone> + Schedule<N::Event>,
    {
        if !self.npus[npu.index()].cursor(seq).decoded && !self.decode(npu, seq, ctx) {
            self.finish(npu, seq, ctx);
            return;
        }
        let cursor = self.npus[npu.index()].cursor(seq);
        if cursor.op.receives() {
            let Some(left) = cursor.arrived[usize::from(cursor.phase)].checked_sub(1) else { return };
            cursor.arrived[usize::from(cursor.phase)] = left;
        }
        (cursor.working, cursor.decoded) = (true, false);
        let (op, len, port) = (cursor.op, cursor.len, cursor.port);
        let done = self.cost.work(npu.index(), ctx.now, op, Bytes(len));
        ctx.q.at(done, chunk_key(class::WORK, seq, port), StepDone { npu: npu.0, seq });
    }

    /// Works out the chunk's next step, in a later phase if this one is at its end; false if none is left.
    fn decode<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>) -> bool {
        let chunk = self.chunks[seq as usize];
        let cursor = self.npus[npu.index()].cursor(seq);
        while usize::from(cursor.phase) < self.layout.phases(chunk.plan) {
            let phase = usize::from(cursor.phase);
            let view = match cursor.vector {
                Some(vector) => self.layout.view_of(npu, chunk, phase, vector),
                None => self.layout.view(npu, chunk, phase),
            };
            cursor.vector = Some(view.vector);
            if cursor.pc < view.steps() {
                let (step, len) = view.step(cursor.pc);
                (cursor.op, cursor.len, cursor.port, cursor.decoded) = (step.op, len, view.port, true);
                return true;
            }
            if self.traced.contains(npu) {
                let (phase, began) = (cursor.phase, cursor.began);
                ctx.out.push(EpOut::Phase { npu, seq, phase, ready: began, began });
            }
            (cursor.phase, cursor.pc) = (cursor.phase + 1, 0);
            (cursor.began, cursor.vector) = (ctx.now, None);
        }
        false
    }

    fn finish<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>) {
        let window = &mut self.npus[npu.index()];
        window.cursor(seq).done = true;
        window.running -= 1;
        while window.cursors.front().is_some_and(|c| c.done) {
            window.cursors.pop_front();
            window.base += 1;
        }
        ctx.out.push(EpOut::Done { npu, seq });
        ctx.out.push(EpOut::Room { npu });
    }
}

impl<C: StepCost, N: Network> Endpoint<N> for MessageEndpoint<C> {
    type Event = StepDone;

    fn define(&mut self, chunk: Chunk) {
        self.chunks.push(chunk);
    }

    fn accepts(&self, npu: NodeId, _: Chunk) -> bool {
        self.npus[npu.index()].running < self.inflight
    }

    fn start<Q>(&mut self, npu: NodeId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<StepDone> + Schedule<N::Event>,
    {
        let window = &mut self.npus[npu.index()];
        let seq = window.next;
        window.next += 1;
        window.running += 1;
        let cursor = window.cursor(seq);
        (cursor.started, cursor.began) = (true, ctx.now);
        self.advance(npu, seq, ctx);
    }

    fn network<Q>(&mut self, report: NetOut, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<StepDone> + Schedule<N::Event>,
    {
        let NetOut::Arrived { at, tag, .. } = report else { return };
        let (seq, phase) = ((tag >> 8) as u32, (tag & 0xff) as u8);
        let cursor = self.npus[at.index()].cursor(seq);
        cursor.arrived[usize::from(phase)] += 1;
        if cursor.started && !cursor.working && cursor.phase == phase {
            self.advance(at, seq, ctx);
        }
    }

    fn handle<Q>(&mut self, StepDone { npu, seq }: StepDone, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<StepDone> + Schedule<N::Event>,
    {
        let npu = NodeId(npu);
        let cursor = self.npus[npu.index()].cursor(seq);
        cursor.working = false;
        let (op, len, port, phase) = (cursor.op, cursor.len, cursor.port, cursor.phase);
        cursor.pc += 1;
        if op.sends() {
            self.sent += len;
            let message = Message {
                src: npu,
                route: Route::Port(port),
                len: Bytes(len),
                delivery: Delivery::Whole,
                tag: Self::tag(seq, phase),
            };
            ctx.net.send(ctx.now, message, ctx.q);
        }
        self.advance(npu, seq, ctx);
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (npu, window) in (0u32..).zip(&self.npus) {
            for (seq, c) in (window.base..).zip(&window.cursors) {
                if c.started && !c.done && !c.working {
                    use syncline_topology::Fabric;
                    let name = self.layout.torus().node_name(NodeId(npu));
                    let phase = self.layout.phase_name(self.chunks[seq as usize].plan, usize::from(c.phase));
                    waits.push(Wait {
                        who: format!("{name}, chunk {seq}, {phase}, step {}", c.pc),
                        what: "the message of its neighbour".into(),
                    });
                }
            }
        }
        waits
    }

    fn report(&self, _: Ps) -> Report {
        let mut report = Report { sent: self.sent, ..Report::default() };
        self.cost.report(&mut report);
        report
    }
}
