//! Threads that wait for steps of other threads of their NPU, and steps that only wait.
//!
//! A step whose dependency has not been done is not decoded: what arrives for it is early, until it may begin. When a step is
//! done, those that wait for it go on at the same instant. They do so from a list and not from within one another, so that a
//! chain of waits of any length takes no more room than its threads.

use super::{MessageEndpoint, Thread};
use crate::api::{ChunkId, Ctx};
use crate::costs::StepCost;
use crate::work_done::WorkDone;
use std::collections::BTreeSet;
use syncline_collective::{Op, Slot};
use syncline_core::{NodeId, Schedule};
use syncline_network::Network;

/// What waits, of all NPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Dependencies {
    /// The step that is waited for, and the one that waits.
    waiting: BTreeSet<(NodeId, ChunkId, Slot, Slot)>,
    /// Threads that may go on.
    ready: Vec<(NodeId, ChunkId, u16)>,
    /// Whether somebody works through that list.
    busy: bool,
}

impl Dependencies {
    /// The steps of a chunk that wait, and for which steps.
    pub fn waiting(&self, npu: NodeId, seq: ChunkId) -> impl Iterator<Item = (Slot, Slot)> {
        let first = (npu, seq, Slot { thread: 0, pc: 0 }, Slot { thread: 0, pc: 0 });
        let its = self.waiting.range(first..).take_while(move |w| (w.0, w.1) == (npu, seq));
        its.map(|&(_, _, on, slot)| (slot, on))
    }
}

impl<C: StepCost> MessageEndpoint<C> {
    /// Lets a thread go on, and all whose dependencies have been fulfilled.
    #[inline(never)]
    pub(super) fn advance_with_others<N: Network, Q>(
        &mut self,
        npu: NodeId,
        seq: ChunkId,
        thread: Option<u16>,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let Some(dependencies) = &mut self.dependencies else { return };
        dependencies.ready.extend(thread.map(|thread| (npu, seq, thread)));
        if std::mem::replace(&mut dependencies.busy, true) {
            return;
        }
        while let Some((npu, seq, thread)) = self.dependencies.as_mut().and_then(|d| d.ready.pop()) {
            self.advance_if_free(npu, seq, thread, ctx);
        }
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.busy = false;
        }
    }

    /// Begins a thread's current step, unless it has to wait for one of another thread.
    fn advance_if_free<N: Network, Q>(&mut self, npu: NodeId, seq: ChunkId, thread: u16, ctx: &mut Ctx<'_, N, Q>)
    where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let chunk = self.chunks[seq.index()];
        let window = &mut self.npus[npu.index()];
        let at = window.place(seq);
        let (phase, pc) = (window.chunks[at].phase, window.thread(at, thread, self.threads).pc);
        let view = self.layout.view(npu, chunk, phase);
        let slot = Slot { thread, pc };
        if pc < view.steps(thread) {
            if let Some(on) = view.after(slot)
                && !window.has_done(at, on, self.threads)
            {
                if let Some(dependencies) = &mut self.dependencies {
                    dependencies.waiting.insert((npu, seq, on, slot));
                }
                return;
            }
            if view.step(slot).op == Op::Nop {
                return self.step_done(npu, seq, thread, false, ctx);
            }
        }
        self.advance_step(npu, seq, thread, ctx);
    }

    /// A thread's step is done: those that wait for it may go on, and so may the thread, unless too many messages wait to
    /// leave.
    #[inline(never)]
    pub(super) fn step_done_with_others<N: Network, Q>(
        &mut self,
        npu: NodeId,
        seq: ChunkId,
        thread: u16,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let Thread { full, pc, .. } = *self.thread(npu, seq, thread);
        self.wake_waiters(npu, seq, Slot { thread, pc: pc - 1 });
        self.advance_with_others(npu, seq, (!full).then_some(thread), ctx);
    }

    /// A step is done: those that wait for it may go on.
    fn wake_waiters(&mut self, npu: NodeId, seq: ChunkId, done: Slot) {
        let Some(Dependencies { waiting, ready, .. }) = &mut self.dependencies else { return };
        let first = (npu, seq, done, Slot { thread: 0, pc: 0 });
        while let Some(&found) = waiting.range(first..).next().filter(|w| (w.0, w.1, w.2) == (npu, seq, done)) {
            waiting.remove(&found);
            ready.push((npu, seq, found.3.thread));
        }
    }

    /// Begins the threads of a phase of which only active ones have state: those that first send, or wait for another
    /// thread, and those whose first message came early. The others begin when their first message arrives.
    pub(super) fn begin_threads<N: Network, Q>(
        &mut self,
        npu: NodeId,
        seq: ChunkId,
        threads: u16,
        ctx: &mut Ctx<'_, N, Q>,
    ) where
        Q: Schedule<WorkDone> + Schedule<N::Event>,
    {
        let chunk = self.chunks[seq.index()];
        let window = &self.npus[npu.index()];
        let at = window.place(seq);
        let state = &window.chunks[at];
        let view = self.layout.view(npu, chunk, state.phase);
        let packets = state.early_packets.iter().flat_map(|packets| packets.tags());
        let early: BTreeSet<u16> = (state.early.rows().chain(packets))
            .filter(|tag| tag.phase() == state.phase)
            .map(|tag| self.tags.slot(tag).thread)
            .collect();
        let waits_for_message = |thread: u16| {
            let slot = Slot { thread, pc: 0 };
            view.steps(thread) > 0
                && view.step(slot).op.receives()
                && view.after(slot).is_none()
                && !early.contains(&thread)
        };
        let begins: Vec<u16> = (0..threads).filter(|&thread| !waits_for_message(thread)).collect();
        for thread in begins {
            self.advance(npu, seq, thread, ctx);
        }
    }

    /// The message of a step has come, to a chunk that keeps its active threads only: if it is the first step of a thread
    /// that waits for nothing else, the thread begins. Returns the thread if it is active.
    #[inline(never)]
    pub(super) fn begin_with_message(&mut self, npu: NodeId, seq: ChunkId, into: Slot) -> Option<&Thread> {
        let chunk = self.chunks[seq.index()];
        let window = &self.npus[npu.index()];
        let at = window.place(seq);
        let has_place = self.dimension_limit.as_ref().is_none_or(|limit| !limit.waits(npu, self.room, seq));
        let begins = has_place && into.pc == 0 && window.active(at, into.thread, self.threads).is_none();
        if begins && self.layout.view(npu, chunk, window.chunks[at].phase).after(into).is_none() {
            self.decode(npu, seq, into.thread);
        }
        self.npus[npu.index()].active(at, into.thread, self.threads)
    }
}
