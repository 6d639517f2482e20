//! Switch offload: switches add and copy, NPUs only move data.
//!
//! The placement of collective offload that the ACE paper holds against its own (section IV-B, Table II);
//! NVIDIA's shared-memory switches (its reference [29]) and Mellanox SHARP are of this kind. NPUs interpret
//! their programs as with the baseline ([`message`](crate::message)), at the cost of [`Dma`]; phases whose
//! program has a switch ([`in_switch`](syncline_collective::program::in_switch)) exchange messages with the
//! switch of their line, whose part [`Switches`] plays.
//!
//! # A switch
//! works on whole pieces. A piece that arrives by a port passes the port's ALU at `reduce` bytes per second
//! (each port has its own, so ports do not disturb one another); when the pieces of all members have passed,
//! the sum leaves `latency` later by the ports of those that want it. What is only copied passes no ALU. Messages
//! that leave are the network's: they queue at the switch's ports, which have no bound.
//!
//! All-reduce of `S` bytes in `k` pieces over links of rate `r` and latency `a`, with ALUs of rate `u` and NPUs
//! that keep up with their links:
//!
//! ```text
//!     S/r + S/k/u + t + S/k/r + 2a      if u >= r and the slots of the switch cover a round trip
//!     S/k/r + S/u + t + S/k/r + 2a      if u <  r
//! ```
//!
//! and S bytes read and S bytes written at every NPU, by no SM; with the NPU's own `2 S/k/b` for moving a piece over
//! its bus.
//!
//! # Memory
//! A piece takes room from its first arrival until its sum has left. Every chunk has the same number of slots,
//! so that `inflight` chunks of all lines of a switch fit its memory; in what order pieces use a slot, and why
//! that cannot deadlock, is the program's. Left out: the bits of a piece that says which members are in,
//! precision of sums, faults.

mod dma;
mod switches;

pub use dma::{Dma, DmaConfig, needs_sms};
pub use switches::{SwitchConfig, Switches};

use crate::api::{Chunk, Ctx, Endpoint, Report, RoomId};
use crate::layout::Layout;
use crate::message::MessageEndpoint;
use crate::work_done::WorkDone;
use syncline_core::{NodeId, Ps, Schedule, Wait};
use syncline_network::{NetOut, Network};

/// NPUs with DMAs, and switches that add and copy.
#[derive(Debug)]
pub struct SwitchOffload {
    npus: MessageEndpoint<Dma>,
    switches: Switches,
}

impl SwitchOffload {
    /// Endpoints of all NPUs, each running at most `inflight` chunks, and of the switches between them; phases of
    /// `traced` NPUs are reported.
    pub fn new(layout: Layout, dma: Dma, switch: SwitchConfig, inflight: u32, traced: &[NodeId]) -> SwitchOffload {
        let switches = Switches::new(layout.clone(), switch);
        SwitchOffload { npus: MessageEndpoint::new(layout, dma, inflight, false, traced), switches }
    }

    /// The same, with at most so many chunks of an NPU along each dimension.
    #[must_use]
    pub fn along_each_dimension(self, most: Option<u32>) -> SwitchOffload {
        SwitchOffload { npus: self.npus.along_each_dimension(most, 1), ..self }
    }
}

impl<N: Network> Endpoint<N> for SwitchOffload {
    type Event = WorkDone;

    fn define(&mut self, room: RoomId, chunk: Chunk) {
        self.switches.define(chunk);
        Endpoint::<N>::define(&mut self.npus, room, chunk);
    }

    fn accepts(&self, npu: NodeId, room: RoomId, chunk: Chunk) -> bool {
        Endpoint::<N>::accepts(&self.npus, npu, room, chunk)
    }

    fn start<Q>(&mut self, npu: NodeId, room: RoomId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        self.npus.start(npu, room, ctx);
    }

    fn network<Q>(&mut self, report: &NetOut, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        match *report {
            NetOut::Arrived { at, port, tag, segment, .. } if self.switches.contains(at) => {
                self.npus.flights.end(ctx.now);
                self.switches.arrived((at, port), tag, segment.len, ctx.now, ctx.q);
            }
            _ => self.npus.network(report, ctx),
        }
    }

    fn handle<Q>(&mut self, event: WorkDone, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        match event {
            WorkDone::Step { npu, seq, thread, .. } if self.switches.contains(NodeId(npu)) => {
                let MessageEndpoint { flights, send_queues, .. } = &mut self.npus;
                self.switches.complete(NodeId(npu), seq, thread, (flights, send_queues), ctx);
            }
            _ => self.npus.handle(event, ctx),
        }
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits = Endpoint::<N>::waits(&self.npus);
        waits.extend(self.switches.waits());
        waits
    }

    fn report(&mut self, now: Ps) -> Report {
        let mut report = Endpoint::<N>::report(&mut self.npus, now);
        self.switches.report(&mut report);
        report
    }
}
