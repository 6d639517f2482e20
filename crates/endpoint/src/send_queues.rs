//! Messages that wait at their NPU until their connection has room.
//!
//! Endpoints of whole messages hand everything over through this. In a network whose connections take everything
//! ([`Network::BOUNDS_CONNECTIONS`] is false), nothing ever waits here. Elsewhere each connection is served in the order in
//! which messages come, and connections do not wait for one another.

use crate::api::Ctx;
use std::collections::{BTreeMap, VecDeque};
use syncline_core::{Bytes, Schedule, Wait};
use syncline_network::{Connection, Message, MsgId, Network, Route};
use syncline_topology::Fabric;

/// What waits for room.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// A message that is sent whole.
    Message(Message),
    /// The next bytes of a message that is fed.
    Fed(MsgId, Bytes),
}

impl Waiting {
    fn len(self) -> Bytes {
        match self {
            Waiting::Message(message) => message.len,
            Waiting::Fed(_, len) => len,
        }
    }

    fn hand_over<N: Network, Q: Schedule<N::Event>>(self, ctx: &mut Ctx<'_, N, Q>) {
        match self {
            Waiting::Message(message) => ctx.net.send(ctx.now, message, ctx.q),
            Waiting::Fed(id, len) => ctx.net.feed(ctx.now, id, len, ctx.q),
        }
    }
}

/// Queues of all connections that have no room.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueues {
    queues: BTreeMap<Connection, VecDeque<Waiting>>,
    /// Messages that are being fed, with their connections and the bytes that are still to come.
    open: BTreeMap<MsgId, (Connection, Bytes)>,
}

impl SendQueues {
    /// Sends a message as soon as its connection takes it.
    #[inline]
    pub fn send<N: Network, Q: Schedule<N::Event>>(&mut self, message: Message, ctx: &mut Ctx<'_, N, Q>) {
        if !N::BOUNDS_CONNECTIONS {
            return ctx.net.send(ctx.now, message, ctx.q);
        }
        self.pass(message.connection(), Waiting::Message(message), ctx);
    }

    /// Opens a message that [`SendQueues::feed`] feeds.
    #[inline]
    pub fn open<N: Network, Q>(&mut self, message: Message, ctx: &mut Ctx<'_, N, Q>) -> MsgId {
        let id = ctx.net.open(message);
        if N::BOUNDS_CONNECTIONS {
            self.open.insert(id, (message.connection(), message.len));
        }
        id
    }

    /// Feeds the next bytes of a message as soon as its connection takes them.
    #[inline]
    pub fn feed<N: Network, Q: Schedule<N::Event>>(&mut self, id: MsgId, len: Bytes, ctx: &mut Ctx<'_, N, Q>) {
        if !N::BOUNDS_CONNECTIONS {
            return ctx.net.feed(ctx.now, id, len, ctx.q);
        }
        let (connection, left) = self.open.get_mut(&id).expect("what is fed was opened here");
        let connection = *connection;
        *left -= len;
        if *left == Bytes::ZERO {
            self.open.remove(&id);
        }
        self.pass(connection, Waiting::Fed(id, len), ctx);
    }

    /// Hands something over, or keeps it behind what waits for the same connection.
    #[inline]
    fn pass<N: Network, Q>(&mut self, connection: Connection, next: Waiting, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<N::Event>,
    {
        let queue = self.queues.get_mut(&connection);
        if queue.is_some() || !ctx.net.takes(connection, next.len()) {
            return self.queues.entry(connection).or_default().push_back(next);
        }
        next.hand_over(ctx);
    }

    /// A connection has room again.
    pub fn serve<N: Network, Q: Schedule<N::Event>>(&mut self, connection: Connection, ctx: &mut Ctx<'_, N, Q>) {
        let Some(queue) = self.queues.get_mut(&connection) else { return };
        while let Some(&next) = queue.front() {
            if !ctx.net.takes(connection, next.len()) {
                return;
            }
            queue.pop_front();
            next.hand_over(ctx);
        }
        self.queues.remove(&connection);
    }

    /// What waits, and for which connection.
    pub fn waits(&self, fabric: &dyn Fabric) -> impl Iterator<Item = Wait> {
        self.queues.iter().map(|(connection, queue)| {
            let Connection { src, route, queue: number } = *connection;
            let (node, bytes) = (fabric.node_name(src), queue.iter().map(|next| next.len().0).sum::<u64>());
            let way = match route {
                Route::Port(port) => format!("through {}", fabric.port_name(src, port)),
                Route::To(dst) | Route::By(dst, _) => format!("to node {dst}"),
            };
            let what = format!("room on its connection {number} {way}");
            Wait { who: format!("{node}, {} message(s) or packet(s) of {bytes} B", queue.len()), what }
        })
    }
}
