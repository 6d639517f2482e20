//! Messages between two ranks, and all-to-alls of them.

use super::Simulation;
use crate::endpoints::EndpointEvent;
use crate::executor::WaitEnd;
use crate::graphs::{Exchange, NodeWork, Post as GraphPost};
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use syncline_collective::Rank;
use syncline_core::{Bytes, NodeId, Ps};
use syncline_endpoint::{Ctx, Endpoint, Post};
use syncline_network::Network;
use syncline_workload::{NodeIndex, PointToPoint};

impl<N, E> Simulation<N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    /// Posts a message between two ranks.
    pub(super) fn post(&mut self, npu: NodeId, node: NodeIndex, post: GraphPost, sends: bool, now: Ps) {
        let GraphPost { message, number } = post;
        let Some((peer, apart)) = self.cohorts.peer(message.family, npu, message.peer, sends) else {
            let end = WaitEnd::Communication(node);
            return self.executor.communicated(npu, node, end, now, &mut self.actions);
        };
        let channel = (message.family.0, apart, message.tag);
        self.hand_over(npu, Post { sends, peer, channel, number, len: message.size, handle: node.0 }, now);
    }

    pub(super) fn hand_over(&mut self, npu: NodeId, post: Post, now: Ps) {
        self.incomplete += 1;
        let Self { queue: q, net, ep, ep_out: out, .. } = self;
        ep.post(npu, post, &mut Ctx { now, net, q, out });
    }

    /// Posts all messages of an all-to-all with a size for each pair, the nearest rank first. Messages of no bytes are none.
    pub(super) fn exchange(&mut self, npu: NodeId, node: NodeIndex, exchange: Exchange, now: Ps) {
        let sizes = self.executor.graph(npu).sizes(exchange).clone();
        let mut posts = Vec::new();
        if let Some(id) = self.cohorts.of(exchange.family, npu) {
            let layout = &self.cohorts[id].layout;
            let (ranks, rank) = (layout.group_size(), layout.rank(npu).0);
            if sizes.len() as u64 != u64::from(ranks) * u64::from(ranks) {
                let name = self.executor.name(self.executor.class(npu), self.executor.graph(npu).node(node));
                let one = format!("the {name} has {} sizes", sizes.len());
                self.mismatch.get_or_insert((one, format!("NPU {npu} is one of {ranks} ranks")));
                return;
            }
            let len = |from: u32, to: u32| sizes[(from * ranks + to) as usize];
            for on in 1..ranks {
                let (to, from) = ((rank + on) % ranks, (rank + ranks - on) % ranks);
                let channel = (exchange.family.0, on, PointToPoint::OF_EXCHANGES);
                for (sends, other, len) in [(true, to, len(rank, to)), (false, from, len(from, rank))] {
                    let peer = layout.member(npu, Rank(other));
                    posts.push(Post { sends, peer, channel, number: exchange.number, len, handle: node.0 });
                }
            }
        }
        posts.retain(|post| post.len > Bytes::ZERO);
        if posts.is_empty() {
            return self.executor.communicated(npu, node, WaitEnd::Communication(node), now, &mut self.actions);
        }
        self.exchanging.insert((npu, node), posts.len());
        posts.into_iter().for_each(|post| self.hand_over(npu, post, now));
    }

    /// A message and the place for it are not equally long.
    #[cold]
    pub(super) fn unequal(&mut self, npu: NodeId, node: NodeIndex, sent: Bytes, received: Bytes) {
        let name = self.executor.name(self.executor.class(npu), self.executor.graph(npu).node(node));
        let one = format!("NPU {npu} receives {} B by the {name}", received.0);
        self.mismatch.get_or_insert((one, format!("{} B were sent", sent.0)));
    }

    /// A message between two ranks is sent, or received.
    pub(super) fn posted(&mut self, npu: NodeId, node: NodeIndex, now: Ps) {
        self.incomplete -= 1;
        if let Some(left) = self.exchanging.get_mut(&(npu, node)) {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.exchanging.remove(&(npu, node));
        }
        let end = match self.executor.graph(npu).node(node).work {
            NodeWork::Send(post) | NodeWork::Recv(post) => {
                let peer = self.cohorts.peer(post.message.family, npu, post.message.peer, true);
                match peer.is_some_and(|(peer, _)| self.cohorts.class(peer) != self.executor.class(npu)) {
                    true => WaitEnd::OtherClass(node),
                    false => WaitEnd::Communication(node),
                }
            }
            _ => WaitEnd::Communication(node),
        };
        self.executor.communicated(npu, node, end, now, &mut self.actions);
        self.act(npu, now);
    }
}
