//! The engine as the layers above and below see it.

use super::engine::Ace;
use super::event::AceEvent;
use super::packet::{Packet, is_of_all_to_all, packet_bytes};
use super::sram_division::partition_name;
use crate::api::{Chunk, Ctx, Endpoint, PhaseFsms, Report, RoomId, told_apart};
use syncline_collective::{PhaseId, PlanId};
use syncline_core::{Id, NodeId, Ps, Schedule, Wait};
use syncline_network::{LINKS_OF_AN_EVENT, NetOut, Network};

impl<N: Network> Endpoint<N> for Ace {
    type Event = AceEvent;

    fn define(&mut self, _: RoomId, chunk: Chunk) {
        self.enlist(chunk);
        self.sent_of_chunks.push(0);
    }

    fn accepts(&self, npu: NodeId, _: RoomId, chunk: Chunk) -> bool {
        let window = &self.windows[npu.index()];
        told_apart(window.base(), window.next(), self.span)
            && (self.layout.phases(chunk.plan) == 0 || self.sram.fits(npu, 0, self.bytes_loaded(npu, chunk)))
    }

    fn start<Q>(&mut self, npu: NodeId, _: RoomId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        let seq = self.windows[npu.index()].start();
        self.load(npu, seq, ctx);
    }

    #[inline]
    fn network<Q>(&mut self, report: &NetOut, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        match *report {
            NetOut::Arrived { at, port, tag, ref segment, last } => {
                if last {
                    self.flights.end(ctx.now);
                }
                let len = packet_bytes(segment);
                if is_of_all_to_all(tag) {
                    let packet = Packet::arrived(tag, len, ctx.now);
                    self.packet_arrived(at, port, packet, ctx);
                } else {
                    self.arrived(at, port, tag, len, ctx);
                }
            }
            NetOut::Left { .. } => {}
            NetOut::Failed { .. } => unreachable!("a run ends with its first lost message"),
            NetOut::Room { at, port } => self.serve_port(at, port, ctx),
            NetOut::Takes { connection } => {
                let port = self.first_port(connection.src, connection.route);
                self.serve_port(connection.src, port, ctx);
            }
        }
    }

    fn handle<Q>(&mut self, event: AceEvent, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<AceEvent> + Schedule<N::Event>,
    {
        match event {
            AceEvent::Loaded { npu, seq } => self.queue(NodeId(npu), seq, ctx),
            AceEvent::Received { npu, seq } => self.packet_received(NodeId(npu), seq, ctx),
            AceEvent::Fetched { npu, seq } if self.is_all_to_all(self.plan_of(seq)) => {
                self.next_packet(NodeId(npu), seq, ctx);
            }
            AceEvent::Fetched { npu, seq } => self.packet_fetched(NodeId(npu), seq, ctx),
            AceEvent::Written { npu, port } => self.packet_written(NodeId(npu), port, ctx),
            AceEvent::Read { npu, port } => self.packet_read(NodeId(npu), port, ctx),
            AceEvent::Stored { npu } => self.packet_stored(NodeId(npu), ctx),
            AceEvent::Port { npu, port } => {
                let (npu, port) = (NodeId(npu), port);
                self.ports.timer_fired(npu, port);
                self.serve_port(npu, port, ctx);
            }
            AceEvent::Crossed { npu, seq } => self.crossed(NodeId(npu), seq, ctx),
            AceEvent::Drained { npu, seq } => self.drained(NodeId(npu), seq, ctx),
        }
    }

    fn further_work(&self) -> u64 {
        self.paths.looked_up() / LINKS_OF_AN_EVENT
    }

    fn waits(&self) -> Vec<Wait> {
        self.list_waits()
    }

    fn report(&mut self, now: Ps) -> Report {
        let own = [self.fsms.usage(), self.sram.usage(), self.ports.usage()];
        let transit = self.has_all_to_alls().then(|| self.pools.usage());
        let resources = self.dmas.usage().into_iter().chain(self.banks.usage()).chain(own).chain(transit);
        let partition = |p| {
            let (capacity, peak) = self.sram.filling(p);
            (partition_name(&self.layout, p), capacity, peak)
        };
        Report {
            memory_read: self.dmas.read(),
            memory_written: self.dmas.written(),
            loaded: self.dmas.read(),
            sent: self.sent,
            sent_of_chunks: vec![std::mem::take(&mut self.sent_of_chunks)],
            sent_by_switches: 0,
            transit: self.pools.forwarded(),
            messages: self.flights.count(),
            network: self.flights.time(now),
            buses: &["memory", "bus_tx", "bus_rx"],
            resources: resources.cloned().collect(),
            // An engine that is asked for nothing has a room in name only.
            partitions: self.sram.partitions().filter(|_| self.layout.plan_ids().len() > 0).map(partition).collect(),
            fsm_peak: self.fsms.peak(),
            fsms: if self.layout.plan_ids().len() > 0 { self.config.fsms } else { 0 },
            fsms_of_phases: self.fsms_of_phases(),
            occupancy: Some(
                self.levels.until(now, self.sram.partitions().filter(|_| self.layout.plan_ids().len() > 0)),
            ),
        }
    }
}

impl Ace {
    /// FSMs of every phase of every plan.
    fn fsms_of_phases(&self) -> Vec<PhaseFsms> {
        let of_plan = |plan: PlanId| {
            (0..self.layout.phases(plan)).map(move |phase| {
                let queue = if self.is_all_to_all(plan) { self.phases } else { phase };
                let (fsms, peak) = (self.fsms.serving(queue), self.fsms.peak_in_queue(queue));
                PhaseFsms { room: RoomId::ONLY, plan, phase: PhaseId::from_index(phase), fsms, peak }
            })
        };
        self.layout.plan_ids().flat_map(of_plan).collect()
    }
}
