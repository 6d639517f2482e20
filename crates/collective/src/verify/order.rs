//! Carries threads out without data: which has to wait for which, and whether all of them end.
//!
//! A thread performs its steps in order. A step waits for its dependency, then for its message, then for room to send. Nothing
//! that a step waits for can be taken away again (but for room that threads share), so if one order of execution ends, every
//! order does, and one is enough to find a deadlock.

use super::buffering::Buffering;
use super::findings::{Findings, Kind};
use super::machine::{ConnectionId, Machine, Names, StepId, ThreadId};
use crate::rank::Rank;
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
    /// Messages that a connection holds.
    held: Vec<u32>,
    /// In rendezvous, whether a thread has nothing left to do for its step but to send.
    stands_ready: Vec<bool>,
    /// Threads that wait for a step of this one.
    waiting: Vec<Vec<ThreadId>>,
    ready: VecDeque<ThreadId>,
    queued: Vec<bool>,
    order: Vec<StepId>,
}

/// An order in which the steps can be performed: every step comes after its dependency, after the step
/// before it in its thread and after the one that sends it its message. `None` after a deadlock, which
/// goes to `flaws`.
pub fn find(machine: &Machine, buffering: Buffering, names: &dyn Names, flaws: &mut Findings) -> Option<Vec<StepId>> {
    let threads = machine.threads.len();
    let mut execution = Execution {
        machine,
        buffering,
        cursor: machine.threads.iter().map(|t| (t.first(), false)).collect(),
        held: vec![0; machine.connections.len()],
        stands_ready: vec![false; if buffering == Buffering::Rendezvous { threads } else { 0 }],
        waiting: vec![Vec::new(); threads],
        ready: (0..threads as u32).map(ThreadId).collect(),
        queued: vec![true; threads],
        order: Vec::with_capacity(machine.steps.len()),
    };
    match buffering {
        Buffering::SharedSlots(_) => execution.take_turns(),
        _ => execution.run(),
    }
    if execution.order.len() == machine.steps.len() {
        return Some(execution.order);
    }
    execution.explain(names, flaws);
    None
}

impl Execution<'_> {
    /// Lets threads go on, each as far as it can whenever something that it may wait for has happened.
    fn run(&mut self) {
        while let Some(thread) = self.ready.pop_front() {
            self.queued[thread.index()] = false;
            while self.advance(thread) {}
            self.wait(thread);
        }
    }

    /// Lets one rank after the other go on as far as it can, its threads by turns: for threads that share room, which another
    /// one may take away from them.
    fn take_turns(&mut self) {
        let mut progress = true;
        while progress {
            progress = false;
            for threads in &self.machine.ranks {
                let mut any = true;
                while any {
                    any = false;
                    for thread in threads.clone() {
                        any |= self.advance(ThreadId(thread));
                    }
                    progress |= any;
                }
            }
        }
    }

    /// Takes a thread one step, or half of one that receives and sends, further; false if it waits or has finished.
    fn advance(&mut self, thread: ThreadId) -> bool {
        if self.has_finished(thread) || self.obstacle(thread).is_some() {
            return false;
        }
        let (step, received) = self.cursor[thread.index()];
        let instruction = self.machine.step(step);
        if instruction.op.receives() && !received {
            self.receive(thread, step);
            if instruction.op.sends() {
                return true;
            }
        }
        if instruction.op.sends() {
            self.held[instruction.sends_on().index()] += 1;
            self.wake(self.thread_at(instruction.taker));
        }
        self.complete(thread);
        true
    }

    /// Has a thread that cannot go on woken when it can.
    fn wait(&mut self, thread: ThreadId) {
        let step = self.cursor[thread.index()].0;
        match self.obstacle(thread) {
            Some(Wait::Dependency(on)) => self.waiting[self.machine.step(on).thread.index()].push(thread),
            Some(Wait::Room) if self.buffering == Buffering::Rendezvous => self.offer(thread, step),
            _ => {}
        }
    }

    /// What keeps a thread from going on, if it has not finished.
    fn obstacle(&self, thread: ThreadId) -> Option<Wait> {
        let (step, received) = self.cursor[thread.index()];
        if self.has_finished(thread) {
            return None;
        }
        let instruction = self.machine.step(step);
        if let Some(on) = instruction.after.filter(|&on| !self.is_done(on)) {
            return Some(Wait::Dependency(on));
        }
        if instruction.op.receives() && !received {
            let is_there = instruction.sender.is_some_and(|sender| self.is_sent(sender));
            return (!is_there).then_some(Wait::Message);
        }
        let full = instruction.op.sends()
            && match self.buffering {
                Buffering::Eager => false,
                Buffering::Slots(slots) | Buffering::SharedSlots(slots) => {
                    self.held[instruction.sends_on().index()] >= slots
                }
                Buffering::Rendezvous => true,
            };
        full.then_some(Wait::Room)
    }

    fn thread_at(&self, step: Option<StepId>) -> Option<ThreadId> {
        step.map(|step| self.machine.step(step).thread)
    }

    /// Whether a message can be received.
    fn is_sent(&self, step: StepId) -> bool {
        if self.buffering != Buffering::Rendezvous {
            return self.is_done(step);
        }
        let thread = self.machine.step(step).thread;
        self.cursor[thread.index()].0 == step && self.stands_ready[thread.index()]
    }

    fn is_done(&self, step: StepId) -> bool {
        self.cursor[self.machine.step(step).thread.index()].0 > step
    }

    fn has_finished(&self, thread: ThreadId) -> bool {
        self.cursor[thread.index()].0 == self.machine.thread(thread).end()
    }

    /// Stands ready to send; the receiver completes the step.
    fn offer(&mut self, thread: ThreadId, step: StepId) {
        if !std::mem::replace(&mut self.stands_ready[thread.index()], true) {
            self.wake(self.thread_at(self.machine.step(step).taker));
        }
    }

    fn receive(&mut self, thread: ThreadId, step: StepId) {
        self.cursor[thread.index()].1 = true;
        let Some(sent) = self.machine.step(step).sender else { return };
        let (sender, connection) = (self.machine.step(sent).thread, self.machine.step(sent).sends_on());
        if self.buffering == Buffering::Rendezvous {
            self.stands_ready[sender.index()] = false;
            self.complete(sender);
        } else {
            self.held[connection.index()] -= 1;
        }
        self.wake(Some(sender));
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

    /// For each connection, a step that waits to receive what it holds.
    fn holding(&self) -> Vec<Option<StepId>> {
        let mut holding = vec![None; self.machine.connections.len()];
        for (step, instruction) in (0..).map(StepId).zip(&self.machine.steps) {
            if let (Some(connection), Some(taker)) = (instruction.out, instruction.taker) {
                let (at, received) = self.cursor[self.machine.step(taker).thread.index()];
                let is_taken = at > taker || at == taker && received;
                let waits = &mut holding[connection.index()];
                *waits = waits.or((self.is_done(step) && !is_taken).then_some(taker));
            }
        }
        holding
    }

    /// Whom a thread waits for, and a sentence about it.
    fn reason(
        &self,
        thread: ThreadId,
        holding: &[Option<StepId>],
        names: &dyn Names,
    ) -> Option<(Option<ThreadId>, String)> {
        let wait = self.obstacle(thread)?;
        let machine = self.machine;
        let (t, step, word) = (machine.thread(thread), self.cursor[thread.index()].0, names.thread());
        let who = format!("rank {} {word} {} step {}", names.rank(t.rank), t.number, machine.number_of(step));
        let instruction = machine.step(step);
        let peer = |connection: ConnectionId, end: fn(&super::machine::Connection) -> Rank| {
            let connection = machine.connection(connection);
            let channel = connection.channel.map_or(String::new(), |channel| format!(" on channel {channel}"));
            (names.rank(end(connection)), channel)
        };
        Some(match wait {
            Wait::Dependency(on) => {
                let (other, at) = (machine.thread_of(on), machine.number_of(on));
                (self.thread_at(Some(on)), format!("{who} waits for step {at} of its {word} {}", other.number))
            }
            Wait::Message => match instruction.sender {
                Some(sender) => {
                    let (from, channel) = peer(machine.step(sender).sends_on(), |c| c.from);
                    (self.thread_at(Some(sender)), format!("{who} waits for a message from rank {from}{channel}"))
                }
                None => {
                    let awaited = machine.unsent.binary_search_by_key(&step, |unsent| unsent.0);
                    let from = awaited.map_or(Rank(0), |i| names.rank(machine.unsent[i].1));
                    (None, format!("{who} waits for a message from rank {from}, which sends it none"))
                }
            },
            Wait::Room => {
                let connection = instruction.sends_on();
                let (to, channel) = peer(connection, |c| c.to);
                let awaited = match self.buffering {
                    Buffering::Rendezvous => instruction.taker,
                    _ => holding[connection.index()],
                };
                (self.thread_at(awaited), format!("{who} waits for rank {to} to receive{channel}"))
            }
        })
    }

    /// Names a cycle of threads that wait for each other, or the one that waits for what nobody sends. There is either,
    /// since every thread that has not finished waits for another that has not, or for nobody.
    fn explain(&self, names: &dyn Names, flaws: &mut Findings) {
        let holding = self.holding();
        let reason = |thread| self.reason(thread, &holding, names);
        let threads = self.machine.threads.len();
        let mut unfinished = (0..threads as u32).map(ThreadId).filter(|&thread| !self.has_finished(thread));
        let stuck = unfinished.clone().count();
        let mut path: Vec<ThreadId> = Vec::new();
        let mut seen = vec![false; threads];
        let mut at = unfinished.next().unwrap_or_default();
        while !seen[at.index()] {
            seen[at.index()] = true;
            path.push(at);
            match reason(at) {
                Some((Some(next), _)) => at = next,
                _ => break,
            }
        }
        let start = path.iter().position(|&t| t == at).unwrap_or(0);
        let cycle = &path[start..];
        let first = cycle.iter().position(|t| Some(t) == cycle.iter().min()).unwrap_or(0);
        let named: Vec<String> =
            cycle[first..].iter().chain(&cycle[..first]).take(NAMED).filter_map(|&t| reason(t).map(|r| r.1)).collect();
        let more = match cycle.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!("; and {n} more, in a circle"),
        };
        let message =
            format!("{stuck} {}s wait for ever, with {}: {}{more}", names.thread(), self.buffering, named.join("; "));
        flaws.add(Kind::Deadlock, self.machine.site(self.cursor[cycle[first].index()].0, names), message);
    }
}
