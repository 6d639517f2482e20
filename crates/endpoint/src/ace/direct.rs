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

use super::arrived_packets::ArrivedPacket;
use super::engine::Ace;
use super::event::{AceEvent, class};
use super::handling::Handling;
use super::phase_messages as messages;
use super::progress::{Progress, State};
use super::run::{Direct, DirectPlace, InHand, OwnDirect, Shape};
use crate::api::{ChunkId, Ctx, port_key};
use syncline_collective::{Op, Slot};
use syncline_core::{NodeId, PortId, Ps, Schedule};
use syncline_network::{Network, Route, TrafficClass};

impl Ace {
    /// Sets up what a chunk of a direct phase expects, and its first own message.
    pub(super) fn begin_direct<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let phase = self.progress(npu, seq).phase;
        let view = self.view(npu, seq, phase);
        let (to_add, to_store) = messages::direct_arrivals(&view);
        let first = messages::direct_round(&view, 0);
        let own = first.and_then(|first| self.own_message_from(npu, seq, first));
        let direct = Direct { to_add, to_store, own };
        self.progress(npu, seq).run().shape = Shape::Direct(direct);
        if direct.own.is_none() {
            self.free_fsm(npu, seq, ctx);
        } else if direct.may_send() {
            self.begin_own(npu, seq, ctx);
        }
        self.end_phase_if_complete(npu, seq, phase, ctx);
    }

    /// The first own message of a direct phase from a place on that has any bytes.
    fn own_message_from(&mut self, npu: NodeId, seq: ChunkId, place: DirectPlace) -> Option<OwnDirect> {
        let chunk = self.progress(npu, seq);
        let (phase, groups) = (chunk.phase, chunk.run().groups);
        let view = self.view(npu, seq, phase);
        let (place, step, len) = messages::direct_message(&view, groups, place)?;
        let route = view.route(Slot { thread: 0, pc: place.first + place.turn }, &step);
        let is_result = messages::sends_result(&view, &step);
        // The NPU has its own share in its result; the other ranks' are read once, for them.
        let is_given_away = !view.is_own(&step);
        Some(OwnDirect { place, route, port: self.first_port(npu, route), is_result, is_given_away, len, left: len })
    }

    /// The port by which a route leaves an NPU.
    pub(super) fn first_port(&self, npu: NodeId, route: Route) -> PortId {
        let mut path = Vec::new();
        route.append(self.layout.fabric(), npu, &mut path);
        path[0]
    }

    /// An own message of a direct phase is in the port buffer; the next one can be read from `ready` on.
    pub(super) fn own_sent_directly<N: Network, Q>(
        &mut self,
        npu: NodeId,
        seq: ChunkId,
        ready: Ps,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.progress(npu, seq);
        let phase = chunk.phase;
        let sent = chunk.run().direct().own.expect("what is sent is an own message");
        let next = self.own_message_from(npu, seq, DirectPlace { turn: sent.place.turn + 1, ..sent.place });
        let direct = self.progress(npu, seq).run().direct();
        direct.own = next;
        if direct.may_send() {
            self.fetch_own(npu, seq, ready, ctx);
        }
        if sent.is_given_away {
            self.free_source(npu, phase, u64::from(sent.len), ctx);
        }
        if next.is_none() {
            self.free_fsm(npu, seq, ctx);
        }
        self.end_phase_if_complete(npu, seq, phase, ctx);
    }

    /// Handles the packets that wait, as long as nothing is busy.
    pub(super) fn add_waiting<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        loop {
            let Some(Progress { state: State::Running(run), .. }) = self.windows[npu.index()].get(seq) else { return };
            let is_direct = matches!(run.shape, Shape::Direct(_));
            if !is_direct || run.arrived.is_empty() || run.receiving != InHand::Nothing {
                return;
            }
            let packet = self.arrived.first(run.arrived);
            let op = if packet.is_result { Op::Recv } else { Op::RecvReduce };
            let start = self.banks.take(npu.index(), ctx.now, Handling::of(op), packet.len);
            if start > ctx.now {
                self.progress(npu, seq).run().receiving = InHand::Fetching;
                let key = port_key(class::RECEIVED, seq, packet.port);
                return ctx.q.at(start, key, AceEvent::Received { npu: npu.0, seq });
            }
            self.add_first(npu, seq, ctx);
        }
    }

    /// The first packet that waits is added to the sum, or stored.
    pub(super) fn add_first<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let chunk = self.windows[npu.index()].chunk(seq);
        let phase = chunk.phase;
        let run = chunk.run();
        let ArrivedPacket { len, port, is_result, .. } = self.arrived.pop(&mut run.arrived);
        ctx.net.release(ctx.now, npu, port, TrafficClass::default(), ctx.q);
        run.receiving = InHand::Nothing;
        let direct = run.direct();
        *(if is_result { &mut direct.to_store } else { &mut direct.to_add }) -= u64::from(len);
        let summed = !is_result && direct.to_add == 0;
        let waits_for_sum = direct.own.is_some_and(|own| own.is_result) && run.sending == InHand::Nothing;
        if summed && waits_for_sum {
            self.begin_own(npu, seq, ctx);
        }
        self.end_phase_if_complete(npu, seq, phase, ctx);
    }
}
