//! Messages between two ranks.
//!
//! What is sent is read from memory and handed to the network as a whole, which routes it; it is sent when its last byte has
//! left the NPU. What arrives goes to a memory that always has room, whether or not the receiver has posted a place for it,
//! and is taken in when both are there. So no message waits for another one, and nothing is held while anybody waits.
//! Messages of a channel (the same distance in ranks within a communicator, the same tag) are matched by their order.
//!
//! Left out: rendezvous. A library that waits for the receiver before it sends large messages is not faster than this.

use super::engine::{Engine, PostWork};
use crate::api::{ChunkId, Ctx, EpOut, Post};
use crate::flights::Flights;
use crate::send_queues::SendQueues;
use std::collections::BTreeMap;
use syncline_collective::Op;
use syncline_core::{Bytes, Id, NodeId, Schedule, Wait};
use syncline_network::{Delivery, Message, Network, Route, TrafficClass};
use syncline_topology::Fabric;

/// Bits of a message's name that number the messages of a channel.
const NUMBER_BITS: u32 = 32;

/// A message of a channel as it is known at the NPU that receives it.
#[derive(Clone, Copy, Debug, Default)]
struct Incoming {
    /// The place that is posted for it: its length, and what it is reported with.
    place: Option<(Bytes, u32)>,
    /// The message: its length.
    arrived: Option<Bytes>,
}

/// Messages that are worked on, or under way.
#[derive(Debug)]
pub(super) struct Posts {
    /// The number of the next message that an NPU works on.
    next: Vec<ChunkId>,
    /// What NPUs send, by its number there, until it has left.
    sending: BTreeMap<(NodeId, ChunkId), Post>,
    /// What they take in: what it is reported with, and its length.
    taking: BTreeMap<(NodeId, ChunkId), (u32, Bytes)>,
    /// What they expect or have been sent, by channel and number.
    incoming: BTreeMap<(NodeId, u32, u32), Incoming>,
    channels: BTreeMap<(u8, u32, u32), u32>,
    queues: SendQueues,
    /// By family, the precedence of its messages.
    precedences: Vec<u8>,
    pub sent: u64,
    pub flights: Flights,
}

impl Posts {
    /// None, on so many NPUs, of families whose messages have these precedences.
    pub fn new(npus: u32, precedences: Vec<u8>) -> Posts {
        Posts {
            next: vec![ChunkId(0); npus as usize],
            sending: BTreeMap::new(),
            taking: BTreeMap::new(),
            incoming: BTreeMap::new(),
            channels: BTreeMap::new(),
            queues: SendQueues::default(),
            precedences,
            sent: 0,
            flights: Flights::default(),
        }
    }

    fn number(&mut self, npu: NodeId) -> ChunkId {
        let next = &mut self.next[npu.index()];
        std::mem::replace(next, next.next())
    }

    fn channel(&mut self, post: &Post) -> u32 {
        let next = self.channels.len() as u32;
        *self.channels.entry(post.channel).or_insert(next)
    }

    /// A message is posted.
    pub fn post<E: Engine, N, Q: Schedule<E::Timer>>(
        &mut self,
        npu: NodeId,
        post: Post,
        hardware: &mut E::Hardware,
        ctx: &mut Ctx<'_, N, Q>,
    ) {
        if post.sends {
            let id = self.number(npu);
            self.sending.insert((npu, id), post);
            return E::work(hardware, PostWork { npu, id, op: Op::Send, len: post.len, stage: 0 }, ctx.now, ctx.q);
        }
        let key = (npu, self.channel(&post), post.number);
        self.incoming.entry(key).or_default().place = Some((post.len, post.handle));
        self.take_in::<E, N, Q>(key, hardware, ctx);
    }

    /// A message has arrived, by its name in the network.
    pub fn arrived<E: Engine, N, Q: Schedule<E::Timer>>(
        &mut self,
        npu: NodeId,
        name: u64,
        len: Bytes,
        hardware: &mut E::Hardware,
        ctx: &mut Ctx<'_, N, Q>,
    ) {
        let key = (npu, (name >> NUMBER_BITS) as u32, name as u32);
        self.incoming.entry(key).or_default().arrived = Some(len);
        self.take_in::<E, N, Q>(key, hardware, ctx);
    }

    /// Takes a message in, if it and its place are both there.
    fn take_in<E: Engine, N, Q: Schedule<E::Timer>>(
        &mut self,
        key: (NodeId, u32, u32),
        hardware: &mut E::Hardware,
        ctx: &mut Ctx<'_, N, Q>,
    ) {
        let Some(&Incoming { place: Some((len, handle)), arrived: Some(sent) }) = self.incoming.get(&key) else {
            return;
        };
        self.incoming.remove(&key);
        let npu = key.0;
        if sent != len {
            return ctx.out.push(EpOut::Unequal { npu, handle, sent, received: len });
        }
        let id = self.number(npu);
        self.taking.insert((npu, id), (handle, len));
        E::work(hardware, PostWork { npu, id, op: Op::Recv, len, stage: 0 }, ctx.now, ctx.q);
    }

    /// A stage of the work on a message is done. `itself` is the number of the NPU in the whole machine.
    pub fn worked<E: Engine, N: Network, Q>(
        &mut self,
        (npu, id, stage): (NodeId, ChunkId, u8),
        itself: NodeId,
        hardware: &mut E::Hardware,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<E::Timer> + Schedule<N::Event>,
    {
        let (op, len) = match (self.sending.get(&(npu, id)), self.taking.get(&(npu, id))) {
            (Some(post), _) => (Op::Send, post.len),
            (None, Some(&(_, len))) => (Op::Recv, len),
            (None, None) => unreachable!("work is on a message that there is"),
        };
        if stage + 1 < E::stages(hardware, op) {
            return E::work(hardware, PostWork { npu, id, op, len, stage: stage + 1 }, ctx.now, ctx.q);
        }
        if let Some((handle, _)) = self.taking.remove(&(npu, id)) {
            return ctx.out.push(EpOut::Posted { npu, handle });
        }
        let post = self.sending[&(npu, id)];
        let name = u64::from(self.channel(&post)) << NUMBER_BITS | u64::from(post.number);
        if post.peer == itself {
            self.left(npu, u64::from(id.0), ctx);
            return self.arrived::<E, N, Q>(npu, name, len, hardware, ctx);
        }
        self.sent += len.0;
        self.flights.begin(ctx.now);
        let precedence = self.precedences[usize::from(post.channel.0)];
        // Messages of a connection have equal precedence.
        let (queue, class) = (precedence.into(), TrafficClass::default().with_precedence(precedence));
        let (route, delivery, receipt) = (Route::To(post.peer), Delivery::Whole, Some(u64::from(id.0)));
        self.queues.send(Message { src: npu, route, queue, len, class, delivery, tag: name, receipt }, ctx);
    }

    /// A message has left its NPU.
    pub fn left<N, Q>(&mut self, npu: NodeId, receipt: u64, ctx: &mut Ctx<'_, N, Q>) {
        let post = self.sending.remove(&(npu, ChunkId(receipt as u32)));
        let handle = post.expect("what leaves is being sent").handle;
        ctx.out.push(EpOut::Posted { npu, handle });
    }

    /// A connection has room again.
    pub fn serve<N: Network, Q: Schedule<N::Event>>(
        &mut self,
        connection: syncline_network::Connection,
        ctx: &mut Ctx<'_, N, Q>,
    ) {
        self.queues.serve(connection, ctx);
    }

    /// What is waited for.
    pub fn waits(&self, fabric: &dyn Fabric) -> Vec<Wait> {
        let mut waits: Vec<Wait> = self.queues.waits(fabric).collect();
        let name = |channel: u32| self.channels.iter().find(|(_, number)| **number == channel).map(|(name, _)| *name);
        for (&(npu, channel, number), incoming) in &self.incoming {
            let Some((_, on, tag)) = name(channel) else { continue };
            let what = format!("message {number} of tag {tag} from {on} ranks before");
            if incoming.place.is_some() {
                waits.push(Wait { who: fabric.node_name(npu), what });
            }
        }
        waits
    }
}
