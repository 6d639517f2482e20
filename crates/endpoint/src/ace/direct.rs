//! Direct phases: everybody sends to everybody, through links and switches without an NPU between.
//!
//! A rank sends to each other one its block (reduce-scatter, all-to-all), or its own block to all of them
//! (all-gather); an all-reduce is one after the other (first version of the ACE paper, section 5: the i-th rank reduces
//! the i-th messages and then sends the sum to all). Blocks are cut into messages, and the first message goes to everybody
//! before the second, in the order of the program.
//!
//! # SRAM
//! A chunk takes room for all of its results when it begins the phase. With that its own block lies among the results:
//! contributions are added to it as they arrive, in whatever order (each packet reads, adds and writes), and the sum is
//! read once for every other rank. What it sends of the other blocks is read once, and gives its room back.
//!
//! Results always have room, so that nothing that arrives waits for anything but ports and ALUs once the chunk has begun
//! its phase; what comes for chunks that have not stays in input buffers that are large enough for what
//! the FSMs of all others can send before ([`Ace::input_buffer`]).

use super::held::Held;
use super::legs::{Handling, Shape, part};
use super::{Ace, AceEvent, State, Unit, class};
use crate::api::{Ctx, chunk_key};
use syncline_collective::{Kind, Op, Slot};
use syncline_core::{NodeId, PortId, Schedule};
use syncline_network::{Network, Route, TrafficClass};

impl Ace {
    /// Sets up what a chunk of a direct phase expects, and its first own message.
    pub(super) fn begin_direct<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let (chunk, view) = self.running(npu, seq);
        let (phase, kind) = (chunk.phase, self.kind(seq, usize::from(chunk.phase)));
        let (mine, others) = (view.kept(), u64::from(view.program().ranks()) - 1);
        let due = match kind {
            Kind::AllReduce => [mine * others, view.vector - mine],
            Kind::ReduceScatter => [mine * others, 0],
            Kind::AllGather => [0, view.vector - mine],
            _ => [0, mine * others],
        };
        let chunk = self.progress(npu, seq);
        chunk.due = due;
        chunk.receive_left = (due != [0, 0]).then_some(0);
        if self.set_up_direct(npu, seq, 0) {
            if self.may_send(npu, seq) {
                self.begin_own(npu, seq, ctx);
            }
        } else {
            self.free_fsm(npu, seq, ctx);
        }
        self.end_phase_if_complete(npu, seq, phase, ctx);
    }

    /// Sets up the first own message from number `own` on that has any bytes; false if there is none.
    pub(super) fn set_up_direct(&mut self, npu: NodeId, seq: u32, own: u32) -> bool {
        let (chunk, view) = self.running(npu, seq);
        let (phase, others, groups) = (usize::from(chunk.phase), chunk.owns, chunk.groups);
        let halves = if self.kind(seq, phase) == Kind::AllReduce { 2 } else { 1 };
        let message = |own: u32| {
            let (half, group, turn) = (own / (others * groups), own / others % groups, own % others);
            let (step, block) = view.step(Slot { thread: 0, pc: half * 2 * others + turn });
            (own, half, part(block, groups, group), view.route(&step))
        };
        let found = (own..halves * others * groups).map(message).find(|m| m.2 > 0);
        let Some((own, half, len, route)) = found else {
            self.progress(npu, seq).send_left = None;
            return false;
        };
        let gathers = half == 1 || matches!(self.kind(seq, phase), Kind::AllGather | Kind::AllToAll);
        let port = self.first_port(npu, route);
        let chunk = self.progress(npu, seq);
        (chunk.own, chunk.send_left, chunk.route, chunk.out_port, chunk.gathers) =
            (own, Some(len), route, port, gathers);
        true
    }

    fn first_port(&self, npu: NodeId, route: Route) -> PortId {
        let mut path = Vec::new();
        route.append(self.layout.fabric(), npu, &mut path);
        path[0]
    }

    /// Whether the own message that is set up can be sent: the sum when all of it is there.
    pub(super) fn may_send(&mut self, npu: NodeId, seq: u32) -> bool {
        let chunk = self.progress(npu, seq);
        !chunk.gathers || chunk.due[0] == 0
    }

    /// Length of an own message of the first half.
    pub(super) fn direct_len(&self, npu: NodeId, seq: u32, own: u32) -> u32 {
        let (chunk, _) = self.running(npu, seq);
        self.own_message_len(npu, seq, own % chunk.owns, own / chunk.owns)
    }

    /// Whether an own message of a direct phase is read for the last time, so that its room is free.
    pub(super) fn is_given_away(&self, npu: NodeId, seq: u32) -> bool {
        let (chunk, _) = self.running(npu, seq);
        !chunk.gathers || self.kind(seq, usize::from(chunk.phase)) == Kind::AllToAll
    }

    /// Handles the packets that are held, as long as nothing is busy.
    pub(super) fn direct_held<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        loop {
            let engine = &self.engines[npu.index()];
            let Some(chunk) = seq.checked_sub(engine.base).and_then(|i| engine.chunks.get(i as usize)) else { return };
            let runs = chunk.state == State::Running && chunk.shape == Shape::Direct;
            if !runs || chunk.held.is_empty() || chunk.receiving != Unit::Idle {
                return;
            }
            let packet = self.pool.first(chunk.held);
            let op = if packet.gathered { Op::Recv } else { Op::RecvReduce };
            let start = self.take_ports(npu.index(), ctx.now, Handling::of(op), packet.len);
            if start > ctx.now {
                self.progress(npu, seq).receiving = Unit::Fetching;
                let key = chunk_key(class::RECEIVED, seq, packet.port.0 as u8);
                return ctx.q.at(start, key, AceEvent::Received { npu: npu.0, seq });
            }
            self.finish_direct(npu, seq, ctx);
        }
    }

    /// The first held packet is added to the sum, or stored.
    pub(super) fn finish_direct<N: Network, Q>(&mut self, npu: NodeId, seq: u32, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let packet = self.pop_held(npu, seq);
        ctx.net.release(ctx.now, npu, packet.port, TrafficClass::default(), ctx.q);
        let chunk = self.progress(npu, seq);
        let Held { len, gathered, .. } = packet;
        chunk.receiving = Unit::Idle;
        chunk.due[usize::from(gathered)] -= u64::from(len);
        chunk.receive_left = (chunk.due != [0, 0]).then_some(0);
        let phase = chunk.phase;
        let summed = !gathered && chunk.due[0] == 0;
        if summed && chunk.gathers && chunk.send_left.is_some() && chunk.sending == Unit::Idle {
            self.begin_own(npu, seq, ctx);
        }
        self.end_phase_if_complete(npu, seq, phase, ctx);
    }
}
