//! Executes a schedule without data: which thread has to wait for which, and whether the schedule ends.
//!
//! A thread performs its steps in order. A step waits for its dependency, then for its message, then for
//! room to send. Nothing that a step waits for can be taken away again, so if one order of execution
//! ends, every order does, and one is enough to find a deadlock.

use super::buffering::Buffering;
use super::machine::{Machine, StepId, ThreadId};
use super::report::{Findings, Kind};
use std::collections::VecDeque;

/// Most threads of a cycle that are named.
const NAMED: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// For this step to be done.
    Dependency(StepId),
    Message,
    Room,
}

struct Execution<'m> {
    machine: &'m Machine,
    buffering: Buffering,
    /// The next step of every thread, and whether it has received.
    cursor: Vec<(StepId, bool)>,
    /// Messages that a connection holds; in rendezvous, 1 if the sender stands ready.
    held: Vec<u32>,
    /// Threads that wait for a step of this one.
    waiting: Vec<Vec<ThreadId>>,
    ready: VecDeque<ThreadId>,
    queued: Vec<bool>,
    order: Vec<StepId>,
}

/// An order in which the steps can be performed: every step comes after its dependency, after the step
/// before it in its thread and after the one that sends it its message. `None` after a deadlock, which
/// goes to `flaws`.
pub fn order(machine: &Machine, buffering: Buffering, flaws: &mut Findings) -> Option<Vec<StepId>> {
    let threads = machine.threads.len();
    let mut execution = Execution {
        machine,
        buffering,
        cursor: machine.threads.iter().map(|t| (t.first(), false)).collect(),
        held: vec![0; machine.connections.len()],
        waiting: vec![Vec::new(); threads],
        ready: (0..threads as u32).map(ThreadId).collect(),
        queued: vec![true; threads],
        order: Vec::with_capacity(machine.steps.len()),
    };
    while let Some(thread) = execution.ready.pop_front() {
        execution.queued[thread.index()] = false;
        while execution.advance(thread) {}
    }
    if execution.order.len() == machine.steps.len() {
        return Some(execution.order);
    }
    execution.explain(flaws);
    None
}

impl Execution<'_> {
    /// Takes a thread one step, or half of one, further; false if it waits or has finished.
    fn advance(&mut self, thread: ThreadId) -> bool {
        let (step, received) = self.cursor[thread.index()];
        if self.has_finished(thread) {
            return false;
        }
        let op = self.machine.step(step).op;
        match self.obstacle(thread) {
            Some(Wait::Dependency(on)) => {
                self.waiting[self.machine.step(on).thread.index()].push(thread);
                false
            }
            Some(Wait::Message) => false,
            Some(Wait::Room) => {
                if self.buffering == Buffering::Rendezvous {
                    self.offer(thread);
                }
                false
            }
            None if op.receives() && !received => {
                self.receive(thread);
                true
            }
            None => {
                if op.sends() {
                    let out = self.machine.thread(thread).sends_on();
                    self.held[out.index()] += 1;
                    self.wake(self.machine.connection(out).receiver);
                }
                self.complete(thread);
                true
            }
        }
    }

    /// What keeps a thread from going on, if it has not finished.
    fn obstacle(&self, thread: ThreadId) -> Option<Wait> {
        let t = self.machine.thread(thread);
        let (step, received) = self.cursor[thread.index()];
        if self.has_finished(thread) {
            return None;
        }
        let instruction = self.machine.step(step);
        if let Some(on) = instruction.after.filter(|&on| !self.is_done(on)) {
            return Some(Wait::Dependency(on));
        }
        if instruction.op.receives() && !received {
            return (self.held[t.receives_on().index()] == 0).then_some(Wait::Message);
        }
        let full = match self.buffering {
            Buffering::Eager => false,
            Buffering::Slots(slots) => instruction.op.sends() && self.held[t.sends_on().index()] >= slots,
            Buffering::Rendezvous => instruction.op.sends(),
        };
        full.then_some(Wait::Room)
    }

    fn is_done(&self, step: StepId) -> bool {
        self.cursor[self.machine.step(step).thread.index()].0 > step
    }

    fn has_finished(&self, thread: ThreadId) -> bool {
        self.cursor[thread.index()].0 == self.machine.thread(thread).end()
    }

    /// Stands ready to send; the receiver completes the step.
    fn offer(&mut self, thread: ThreadId) {
        let out = self.machine.thread(thread).sends_on();
        if self.held[out.index()] == 0 {
            self.held[out.index()] = 1;
            self.wake(self.machine.connection(out).receiver);
        }
    }

    fn receive(&mut self, thread: ThreadId) {
        let back = self.machine.thread(thread).receives_on();
        self.held[back.index()] -= 1;
        self.cursor[thread.index()].1 = true;
        let sender = self.machine.connection(back).sender;
        if let (Buffering::Rendezvous, Some(sender)) = (self.buffering, sender) {
            self.complete(sender);
        }
        self.wake(sender);
    }

    fn complete(&mut self, thread: ThreadId) {
        let (step, _) = self.cursor[thread.index()];
        self.order.push(step);
        self.cursor[thread.index()] = (StepId(step.0 + 1), false);
        for other in std::mem::take(&mut self.waiting[thread.index()]) {
            self.wake(Some(other));
        }
    }

    fn wake(&mut self, thread: Option<ThreadId>) {
        if let Some(thread) = thread.filter(|thread| !self.queued[thread.index()]) {
            self.queued[thread.index()] = true;
            self.ready.push_back(thread);
        }
    }

    /// Whom a thread waits for, and a sentence about it.
    fn reason(&self, thread: ThreadId) -> Option<(Option<ThreadId>, String)> {
        let wait = self.obstacle(thread)?;
        let t = self.machine.thread(thread);
        let step = self.cursor[thread.index()].0;
        let who = format!("rank {} thread block {} step {}", t.rank, t.block, step.0 - t.steps.start);
        Some(match wait {
            Wait::Dependency(on) => {
                let other = self.machine.thread_of(on);
                let at = on.0 - other.steps.start;
                (
                    Some(self.machine.step(on).thread),
                    format!("{who} waits for step {at} of its thread block {}", other.block),
                )
            }
            Wait::Message => {
                let ends = self.machine.connection(t.receives_on());
                let (from, _, channel) = ends.name;
                (ends.sender, format!("{who} waits for a message from rank {from} on channel {channel}"))
            }
            Wait::Room => {
                let ends = self.machine.connection(t.sends_on());
                let (_, to, channel) = ends.name;
                (ends.receiver, format!("{who} waits for rank {to} to receive on channel {channel}"))
            }
        })
    }

    /// Names a cycle of threads that wait for each other. There is one, since every thread that has not
    /// finished waits for another that has not.
    fn explain(&self, flaws: &mut Findings) {
        let threads = self.machine.threads.len();
        let mut unfinished = (0..threads as u32).map(ThreadId).filter(|&thread| !self.has_finished(thread));
        let stuck = unfinished.clone().count();
        let mut path: Vec<ThreadId> = Vec::new();
        let mut seen = vec![false; threads];
        let mut at = unfinished.next().unwrap_or_default();
        while !seen[at.index()] {
            seen[at.index()] = true;
            path.push(at);
            match self.reason(at) {
                Some((Some(next), _)) => at = next,
                _ => break,
            }
        }
        let start = path.iter().position(|&t| t == at).unwrap_or(0);
        let cycle = &path[start..];
        let first = cycle.iter().position(|t| Some(t) == cycle.iter().min()).unwrap_or(0);
        let named: Vec<String> = cycle[first..]
            .iter()
            .chain(&cycle[..first])
            .take(NAMED)
            .filter_map(|&t| self.reason(t).map(|r| r.1))
            .collect();
        let more = match cycle.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!("; and {n} more, in a circle"),
        };
        let message =
            format!("{stuck} thread blocks wait for ever, with {}: {}{more}", self.buffering, named.join("; "));
        flaws.add(Kind::Deadlock, self.machine.site(self.cursor[cycle[first].index()].0), message);
    }
}
