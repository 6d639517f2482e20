//! Packet by packet: what a step passes on, and what is in transit, goes on as it arrives.
//!
//! A packet that a step receives and sends is worked on for as long as the cost model says and then goes on, whatever
//! has arrived of its message; so does a packet for a distant NPU. What ends at its receiver is heard of when it is
//! complete, as with whole messages, and what a step sends of its own goes into the port at once. The steps of a thread
//! follow one another, so that a packet of the next message waits until the last one of this has been passed on.
//!
//! On a ring where messages go `R` rounds in blocks of `k` packets, of time `p` each on links of latency `L`, with a
//! cost of `c` per packet,
//!
//! ```text
//!   (R - 1) max(p + L + c, k p) + k p + L + c
//! ```
//!
//! where whole messages take `R (k p + L + c)`: packets that come around before a rank has sent its own block queue for the
//! port.

use super::MessageEndpoint;
use crate::api::{ChunkId, Ctx};
use crate::costs::StepCost;
use crate::work_done::WorkDone;
use syncline_collective::Op;
use syncline_core::{Bytes, NodeId, PortId, Schedule};
use syncline_network::{Network, Segment};

impl<C: StepCost> MessageEndpoint<C> {
    /// The same, working on packets of so many bytes where the network tells of them.
    #[must_use]
    pub fn packet_by_packet(self, packet: Option<Bytes>) -> Self {
        MessageEndpoint { packet, ..self }
    }

    /// Works on packets of the step that a thread is at.
    pub(super) fn take_up<N: Network, Q>(
        &mut self,
        npu: NodeId,
        seq: ChunkId,
        thread: u16,
        segment: Segment,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let op = self.thread(npu, seq, thread).op;
        self.work_on(segment, op, WorkDone::Packet { npu: npu.0, seq, thread }, ctx);
    }

    /// Works on every packet of a segment when it is there.
    fn work_on<N: Network, Q>(&mut self, segment: Segment, op: Op, done: WorkDone, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let packet = self.packet.unwrap_or(segment.len);
        let mut left = segment.len;
        for i in 0..segment.packets {
            let at = segment.t0 + segment.gap.times(i.into());
            let len = left.min(packet);
            left = Bytes(left.0 - len.0);
            self.cost.work(at.max(ctx.now), op, len, done, ctx.q);
        }
    }

    /// A packet of a thread's step goes on; with the last one the step is done.
    pub(super) fn packet_done<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let id = match self.thread(npu, seq, thread).message {
            Some(id) => id,
            None => {
                let mut message = self.message_of(npu, seq, thread);
                self.count_sent(seq, message.len);
                self.flights.begin(ctx.now);
                self.take_first_hop(&mut message);
                let id = self.send_queues.open(message, ctx);
                self.thread(npu, seq, thread).message = Some(id);
                id
            }
        };
        let packet = self.packet.unwrap_or(Bytes(u64::MAX)).0;
        let t = self.thread(npu, seq, thread);
        let len = t.left.min(packet);
        t.left -= len;
        let complete = t.left == 0;
        self.send_queues.feed(id, Bytes(len), ctx);
        if complete {
            self.step_done(npu, seq, thread, true, ctx);
        }
    }

    /// Works on packets in transit that came by a port.
    pub(super) fn take_in_hand<N: Network, Q>(
        &mut self,
        npu: NodeId,
        port: PortId,
        tag: u64,
        segment: Segment,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.take_in_hand(npu, port.index(), tag, segment.packets);
        }
        self.work_on(segment, super::TRANSIT, WorkDone::Passing { npu: npu.0, port: port.0 }, ctx);
    }

    /// The next packet in transit that came by a port goes on.
    pub(super) fn packet_on<N: Network, Q>(&mut self, npu: NodeId, port: PortId, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let packet = self.packet.unwrap_or(Bytes(u64::MAX));
        let Some(mut forwarding) = self.forwarding.take() else { return };
        if let Some(tag) = forwarding.next_in_hand(npu, port.index()) {
            let id = forwarding.onward(tag).unwrap_or_else(|| {
                let hop = forwarding.hop_of_packets(tag);
                self.sent += hop.len.0;
                self.flights.begin(ctx.now);
                let message = self.message_on(npu, hop, None);
                let id = self.send_queues.open(message, ctx);
                forwarding.opened(tag, id);
                id
            });
            self.send_queues.feed(id, forwarding.next_packet(tag, packet), ctx);
        }
        self.forwarding = Some(forwarding);
    }
}
