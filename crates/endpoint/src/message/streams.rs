//! Threads that are streams: a step that sends is done when its message has left, and may be held up before, as may one
//! that sends over PCIe ([`crate::streams`]).

use super::MessageEndpoint;
use crate::api::{ChunkId, Ctx};
use crate::costs::StepCost;
use crate::layout::Layout;
use crate::link_delays::Copy;
use crate::work_done::WorkDone;
use syncline_core::{Bytes, NodeId, NodeSet, PortId, Ps, Schedule};
use syncline_network::Route;

/// The stage of what has been held up: work has fewer.
pub(super) const HELD: u8 = u8::MAX;
/// That of what waits until its NPU may send over PCIe.
pub(super) const SWITCHING: u8 = u8::MAX - 1;

/// The classes of links that peer access takes where there are some, and of those that it takes else.
const NVLINKS: [&str; 2] = ["NVLink", "NVSwitch"];
const PCIE: &str = "PCIe";

/// Who may send over PCIe only after peer access has been switched.
#[derive(Clone, Debug)]
pub(super) struct PeerAccess {
    /// How long that takes.
    latency: Ps,
    /// The choice of a route that names PCIe.
    over_pcie: u16,
    /// NPUs with NVLinks.
    linked: NodeSet,
}

impl PeerAccess {
    /// For each NPU of a group it takes `each`. `None` where it takes no time, or NPUs have no choice.
    pub fn new(each: Ps, layout: &Layout) -> Option<PeerAccess> {
        let fabric = layout.fabric();
        let names = fabric.class_names();
        let class = names.iter().position(|name| name == PCIE)?;
        let over_pcie = fabric.choice_over(u8::try_from(class).ok()?)?;
        let has_nvlinks = |npu: NodeId| {
            (0..fabric.ports(npu)).any(|port| {
                let name = names.get(usize::from(fabric.link(npu, PortId(port)).class));
                name.is_some_and(|name| NVLINKS.contains(&name.as_str()))
            })
        };
        let linked: Vec<NodeId> = (0..layout.npus()).map(NodeId).filter(|&npu| has_nvlinks(npu)).collect();
        let latency = Ps(each.0.saturating_mul(layout.group_size().into()));
        let switches = latency > Ps::ZERO && !linked.is_empty();
        switches.then(|| PeerAccess { latency, over_pcie, linked: NodeSet::new(layout.npus(), &linked) })
    }
}

impl<C: StepCost> MessageEndpoint<C> {
    /// A step is about to send. Returns whether it is held up, after which its timer comes with the stage [`HELD`].
    pub(super) fn hold_up<N, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, ctx: &mut Ctx<'_, N, Q>) -> bool
    where
        Q: Schedule<WorkDone>,
    {
        if self.cost.link_delays().is_none() {
            return false;
        }
        let t = *self.thread(npu, seq, thread);
        let port = self.first_port(npu, t.route);
        let time = self.layout.fabric().link(npu, port).rate.time(Bytes(t.len));
        let stream = (self.room.0, seq.0, thread);
        let copy = Copy { npu: npu.0, port, stream, pc: t.pc, time };
        let delay = self.cost.link_delays().map_or(Ps::ZERO, |delays| delays.delay(copy));
        if delay == Ps::ZERO {
            return false;
        }
        let done = WorkDone::Step { npu: npu.0, seq, thread, stage: HELD };
        ctx.q.at(ctx.now + delay, done.key(), done);
        true
    }

    /// A step is about to work on what it sends. Returns whether that goes over PCIe and its NPU has not switched yet since
    /// the phase began, after which its timer comes with the stage [`SWITCHING`].
    #[inline(never)]
    pub(super) fn switches<N, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, ctx: &mut Ctx<'_, N, Q>) -> bool
    where
        Q: Schedule<WorkDone>,
    {
        let route = self.thread(npu, seq, thread).route;
        let Some(PeerAccess { latency, over_pcie, linked }) = &self.peer_access else { return false };
        let over = matches!(route, Route::By(_, choice) if choice == *over_pcie);
        let window = &self.npus[npu.index()];
        let until = window.chunks[window.place(seq)].began + *latency;
        if !over || !linked.contains(npu) || ctx.now >= until {
            return false;
        }
        let done = WorkDone::Step { npu: npu.0, seq, thread, stage: SWITCHING };
        ctx.q.at(until, done.key(), done);
        true
    }

    /// A copy of a stream begins, or has left.
    pub(super) fn note_copy(&mut self, npu: NodeId, seq: ChunkId, thread: u16, begins: bool) {
        if self.cost.link_delays().is_none() {
            return;
        }
        let route = self.thread(npu, seq, thread).route;
        let port = self.first_port(npu, route);
        if let Some(delays) = self.cost.link_delays() {
            match begins {
                true => delays.begins(npu.0, port),
                false => delays.ends(npu.0, port),
            }
        }
    }

    /// The port by which a message leaves.
    fn first_port(&self, npu: NodeId, route: Route) -> PortId {
        let (fabric, mut path) = (self.layout.fabric(), Vec::new());
        match route {
            Route::Port(port) => return port,
            Route::To(there) => fabric.route(npu, there, &mut path),
            Route::By(there, choice) => fabric.route_by(npu, there, choice, &mut path),
        }
        path[0]
    }
}
