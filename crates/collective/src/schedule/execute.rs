//! Carries out a schedule as far as waiting goes: who has to wait for whom, and whether it ends.
//!
//! A thread performs its steps in order. A step waits for its dependency, then for its message, then for
//! room to send. Nothing that a step waits for can be taken away again, so if one order of execution
//! ends, every order does, and one is enough to find a deadlock.

use super::buffering::Buffering;
use super::machine::{Machine, NONE};
use super::report::{Findings, Kind};
use std::collections::VecDeque;

/// Most threads of a cycle that are named.
const NAMED: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Dependency,
    Message,
    Room,
}

struct Execution<'m> {
    machine: &'m Machine,
    buffering: Buffering,
    /// The next step of every thread, and whether it has received.
    cursor: Vec<(u32, bool)>,
    /// Messages that a connection holds; in rendezvous, 1 if the sender stands ready.
    held: Vec<u32>,
    /// Threads that wait for a step of this one.
    waiting: Vec<Vec<u32>>,
    ready: VecDeque<u32>,
    queued: Vec<bool>,
    order: Vec<u32>,
}

/// An order in which the steps can be performed: every step comes after its dependency, after the step
/// before it in its thread and after the one that sends it its message. `None` after a deadlock, which
/// goes to `flaws`.
pub fn order(machine: &Machine, buffering: Buffering, flaws: &mut Findings) -> Option<Vec<u32>> {
    let threads = machine.threads.len();
    let mut execution = Execution {
        machine,
        buffering,
        cursor: machine.threads.iter().map(|t| (t.steps.start, false)).collect(),
        held: vec![0; machine.connections.len()],
        waiting: vec![Vec::new(); threads],
        ready: (0..threads as u32).collect(),
        queued: vec![true; threads],
        order: Vec::with_capacity(machine.steps.len()),
    };
    while let Some(thread) = execution.ready.pop_front() {
        execution.queued[thread as usize] = false;
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
    fn advance(&mut self, thread: u32) -> bool {
        let (step, received) = self.cursor[thread as usize];
        if step == self.machine.threads[thread as usize].steps.end {
            return false;
        }
        match self.obstacle(thread) {
            Some(Wait::Dependency) => {
                let on = self.machine.steps[self.machine.steps[step as usize].after as usize].thread;
                self.waiting[on as usize].push(thread);
                false
            }
            Some(Wait::Message) => false,
            Some(Wait::Room) => {
                if self.buffering == Buffering::Rendezvous {
                    self.offer(thread);
                }
                false
            }
            None if self.machine.steps[step as usize].action.receives() && !received => {
                self.receive(thread);
                true
            }
            None => {
                if self.machine.steps[step as usize].action.sends() {
                    let out = self.machine.threads[thread as usize].out as usize;
                    self.held[out] += 1;
                    self.wake(self.machine.connections[out].receiver);
                }
                self.complete(thread);
                true
            }
        }
    }

    /// What keeps a thread from going on, if it has not finished.
    fn obstacle(&self, thread: u32) -> Option<Wait> {
        let t = &self.machine.threads[thread as usize];
        let (step, received) = self.cursor[thread as usize];
        if step == t.steps.end {
            return None;
        }
        let instruction = &self.machine.steps[step as usize];
        if instruction.after != NONE && !self.is_done(instruction.after) {
            return Some(Wait::Dependency);
        }
        if instruction.action.receives() && !received {
            return (self.held[t.back as usize] == 0).then_some(Wait::Message);
        }
        let full = match self.buffering {
            Buffering::Eager => false,
            Buffering::Slots(slots) => instruction.action.sends() && self.held[t.out as usize] >= slots,
            Buffering::Rendezvous => instruction.action.sends(),
        };
        full.then_some(Wait::Room)
    }

    fn is_done(&self, step: u32) -> bool {
        self.cursor[self.machine.steps[step as usize].thread as usize].0 > step
    }

    /// Stands ready to send; the receiver completes the step.
    fn offer(&mut self, thread: u32) {
        let out = self.machine.threads[thread as usize].out as usize;
        if self.held[out] == 0 {
            self.held[out] = 1;
            self.wake(self.machine.connections[out].receiver);
        }
    }

    fn receive(&mut self, thread: u32) {
        let back = self.machine.threads[thread as usize].back as usize;
        self.held[back] -= 1;
        self.cursor[thread as usize].1 = true;
        let sender = self.machine.connections[back].sender;
        if self.buffering == Buffering::Rendezvous {
            self.complete(sender);
        }
        self.wake(sender);
    }

    fn complete(&mut self, thread: u32) {
        let (step, _) = self.cursor[thread as usize];
        self.order.push(step);
        self.cursor[thread as usize] = (step + 1, false);
        for other in std::mem::take(&mut self.waiting[thread as usize]) {
            self.wake(other);
        }
    }

    fn wake(&mut self, thread: u32) {
        if thread != NONE && !self.queued[thread as usize] {
            self.queued[thread as usize] = true;
            self.ready.push_back(thread);
        }
    }

    /// Whom a thread waits for, and a sentence about it.
    fn reason(&self, thread: u32) -> Option<(u32, String)> {
        let wait = self.obstacle(thread)?;
        let t = &self.machine.threads[thread as usize];
        let step = self.cursor[thread as usize].0;
        let who = format!("rank {} thread block {} step {}", t.rank, t.block, step - t.steps.start);
        Some(match wait {
            Wait::Dependency => {
                let after = self.machine.steps[step as usize].after;
                let on = self.machine.steps[after as usize].thread;
                let other = &self.machine.threads[on as usize];
                let at = after - other.steps.start;
                (on, format!("{who} waits for step {at} of its thread block {}", other.block))
            }
            Wait::Message => {
                let ends = &self.machine.connections[t.back as usize];
                let (from, _, channel) = ends.name;
                (ends.sender, format!("{who} waits for a message from rank {from} on channel {channel}"))
            }
            Wait::Room => {
                let ends = &self.machine.connections[t.out as usize];
                let (_, to, channel) = ends.name;
                (ends.receiver, format!("{who} waits for rank {to} to receive on channel {channel}"))
            }
        })
    }

    /// Names a cycle of threads that wait for each other. There is one, since every thread that has not
    /// finished waits for another that has not.
    fn explain(&self, flaws: &mut Findings) {
        let finished = |t: u32| self.cursor[t as usize].0 == self.machine.threads[t as usize].steps.end;
        let threads = self.machine.threads.len() as u32;
        let stuck = (0..threads).filter(|&t| !finished(t)).count();
        let mut path: Vec<u32> = Vec::new();
        let mut seen = vec![false; threads as usize];
        let mut at = (0..threads).find(|&t| !finished(t)).unwrap_or(0);
        while !seen[at as usize] {
            seen[at as usize] = true;
            path.push(at);
            match self.reason(at) {
                Some((next, _)) if next != NONE => at = next,
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
        flaws.add(Kind::Deadlock, self.machine.site(self.cursor[cycle[first] as usize].0), message);
    }
}
