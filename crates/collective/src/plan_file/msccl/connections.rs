//! Which messages share a connection, which connections share a thread block, and on which channels.
//!
//! Messages from a thread of one rank to a thread of another go over one connection if that is possible. It is not where one
//! step receives and sends at once: its thread block has both connections, and no others. And it is not where messages are
//! taken in another order than they are sent. Then they are divided among several connections, which may divide others in
//! turn, until every connection leads from one thread block to one thread block.
//!
//! A thread block sends and receives on the same channel, so connections of a thread block have one channel, and with them
//! all that are reached from thread block to thread block. Such a *string* of connections gets the lowest channel on which
//! none of its connections exists already.

use super::unrolled::{StepId, Unrolled};
use crate::program::Op;
use crate::rank::Rank;
use crate::schedule::limits;
use std::collections::{BTreeMap, BTreeSet};
use syncline_core::{Id, Refusal, id_type};

id_type!(
    /// A connection: one direction of a channel between two ranks.
    ConnectionId
);

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) channel: u32,
}

/// A thread block, without its steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// What it sends on.
    pub(super) out: Option<ConnectionId>,
    /// What it receives on.
    pub(super) back: Option<ConnectionId>,
}

/// The thread blocks of all ranks and their connections.
pub(super) struct Connections {
    pub(super) all: Vec<Connection>,
    /// The thread blocks of each rank, thread by thread.
    pub(super) blocks: Vec<Vec<Block>>,
    /// The thread block of each step, by its number in the rank. What only waits is done by the next step.
    pub(super) of_step: Vec<u32>,
    /// The string of each connection.
    strings: Vec<u32>,
}

impl Connections {
    /// Divides the steps of all ranks among thread blocks, before `choose_channels`: each on channel 0.
    pub(super) fn new(steps: &Unrolled, ranks: u32) -> Result<Connections, Refusal> {
        let messages = Messages::new(steps);
        let ends = |sender: &StepId| {
            let taker = steps.step(*sender).taker.expect("what is sent is taken");
            Connection { from: steps.step(*sender).rank, to: steps.step(taker).rank, channel: 0 }
        };
        let all: Vec<Connection> = messages.shared.iter().map(|senders| ends(&senders[0])).collect();
        let mut pairs = Pairs::new(&all);
        for (id, step) in steps.numbered() {
            if let (Some(back), Some(out)) = messages.of(steps, id)
                && pairs.out_of[back.index()].is_none()
                && !pairs.join(back, out)
            {
                let message = "receives and sends at once what comes from where it goes, which takes two channels";
                return Err(step.wrong(message));
            }
        }
        let (mut of_step, mut blocks_of_ranks) = (vec![0; steps.steps.len()], Vec::new());
        for rank in (0..ranks).map(Rank) {
            let mut blocks = Vec::new();
            for thread in 0..steps.threads_of(rank) {
                let does_something = |&id: &StepId| steps.step(id).op != Op::Nop;
                let steps_of_thread: Vec<StepId> = steps.through_phases(rank, thread).filter(does_something).collect();
                let mut uses: Vec<Use> = steps_of_thread.iter().map(|&id| messages.of(steps, id)).collect();
                pairs.pair_up(&uses, &all);
                complete(&mut uses, &pairs);
                let mut numbers: BTreeMap<Use, u32> = BTreeMap::new();
                for (id, (back, out)) in steps_of_thread.into_iter().zip(uses) {
                    of_step[id.index()] = *numbers.entry((back, out)).or_insert_with(|| {
                        blocks.push(Block { out, back });
                        blocks.len() as u32 - 1
                    });
                }
            }
            blocks_of_ranks.push(blocks);
        }
        let strings = (0..all.len()).map(|id| pairs.root(ConnectionId::from_index(id))).collect();
        Ok(Connections { all, blocks: blocks_of_ranks, of_step, strings })
    }

    /// Gives each string of connections the lowest channel that it can have.
    pub(super) fn choose_channels(&mut self) {
        // In the order of the thread blocks that they come to first, so that what is read in gets the same channels again.
        let (mut strings, mut seen) = (vec![Vec::new(); self.all.len()], vec![false; self.all.len()]);
        let mut order = Vec::new();
        for id in self.blocks.iter().flatten().flat_map(|block| [block.out, block.back]).flatten() {
            let string = self.strings[id.index()] as usize;
            if strings[string].is_empty() {
                order.push(string);
            }
            if !std::mem::replace(&mut seen[id.index()], true) {
                strings[string].push(id);
            }
        }
        let mut used: BTreeSet<(u32, Rank, Rank)> = BTreeSet::new();
        let mut crowd: BTreeMap<(u32, Rank, bool), usize> = BTreeMap::new();
        for string in order.into_iter().map(|string| std::mem::take(&mut strings[string])) {
            let mut own: BTreeMap<(Rank, bool), usize> = BTreeMap::new();
            for id in &string {
                let Connection { from, to, .. } = self.all[id.index()];
                [(from, true), (to, false)].into_iter().for_each(|end| *own.entry(end).or_default() += 1);
            }
            let fits = |channel: &u32| {
                let is_free = |id: &ConnectionId| {
                    let Connection { from, to, .. } = self.all[id.index()];
                    !used.contains(&(*channel, from, to))
                };
                let has_room = |(&(rank, sends), &count): (&(Rank, bool), &usize)| {
                    let others = crowd.get(&(*channel, rank, sends)).copied().unwrap_or(0);
                    // One that is a crowd by itself is refused later.
                    others == 0 || others + count <= limits::BLOCKS_PER_CHANNEL
                };
                string.iter().all(is_free) && own.iter().all(has_room)
            };
            let channel = (0..).find(fits).expect("there are more channels than connections");
            for ((rank, sends), count) in own {
                *crowd.entry((channel, rank, sends)).or_default() += count;
            }
            for id in string {
                let connection = &mut self.all[id.index()];
                connection.channel = channel;
                used.insert((channel, connection.from, connection.to));
            }
        }
    }

    /// How many steps of the plan each thread block of each rank does.
    pub(super) fn steps_of_blocks(&self, steps: &Unrolled) -> BTreeMap<(Rank, u32), usize> {
        let mut counts = BTreeMap::new();
        for (id, step) in steps.numbered().filter(|s| s.1.op != Op::Nop) {
            *counts.entry((step.rank, self.of_step[id.index()])).or_default() += 1;
        }
        counts
    }
}

/// What a step receives and sends on.
type Use = (Option<ConnectionId>, Option<ConnectionId>);

/// Gives each step the other connection of its thread block, and those that have none the thread block of the steps around
/// them.
fn complete(uses: &mut [Use], pairs: &Pairs) {
    for (back, out) in uses.iter_mut() {
        *out = out.or_else(|| back.and_then(|back| pairs.out_of[back.index()]));
        *back = back.or_else(|| out.and_then(|out| pairs.back_of[out.index()]));
    }
    let mut current = uses.iter().copied().find(|u| *u != (None, None)).unwrap_or_default();
    for used in uses {
        if *used == (None, None) {
            *used = current;
        }
        current = *used;
    }
}

/// Messages by their connections. A message has the number of the step that sends it.
struct Messages {
    /// The messages of each connection, as they are sent.
    shared: Vec<Vec<StepId>>,
    /// The connection of each message.
    connection: Vec<Option<ConnectionId>>,
}

/// Messages that can share a connection.
struct Sharing {
    messages: Vec<StepId>,
    /// The connection that their senders receive them on, if a step does both, and the one that their receivers send them on.
    before: Option<ConnectionId>,
    beyond: Option<ConnectionId>,
    /// The last step that takes one.
    last: StepId,
}

impl Messages {
    fn new(steps: &Unrolled) -> Messages {
        // From thread to thread, in the order in which they are sent.
        let mut between: BTreeMap<(Rank, u16, Rank, u16, u32), Vec<StepId>> = BTreeMap::new();
        for (id, step) in steps.numbered() {
            if let Some(taker) = step.taker {
                let taker = steps.step(taker);
                let ends = (step.rank, step.at.thread, taker.rank, taker.at.thread, step.lane);
                between.entry(ends).or_default().push(id);
            }
        }
        let mut messages =
            Messages { shared: between.into_values().collect(), connection: vec![None; steps.steps.len()] };
        for (nth, senders) in messages.shared.iter().enumerate() {
            senders.iter().for_each(|s| messages.connection[s.index()] = Some(ConnectionId::from_index(nth)));
        }
        while messages.divide(steps) {}
        messages
    }

    /// What a step receives and sends on.
    fn of(&self, steps: &Unrolled, id: StepId) -> Use {
        let sender = steps.step(id).sender;
        (sender.and_then(|sender| self.connection[sender.index()]), self.connection[id.index()])
    }

    /// Divides messages that cannot share their connection; false if all can.
    fn divide(&mut self, steps: &Unrolled) -> bool {
        let mut divided = false;
        for nth in 0..self.shared.len() {
            let mut groups: Vec<Sharing> = Vec::new();
            for &message in &self.shared[nth] {
                let last = steps.step(message).taker.expect("what is sent is taken");
                let (before, beyond) = (self.of(steps, message).0, self.of(steps, last).1);
                let one = Sharing { messages: vec![message], before, beyond, last };
                match groups.iter_mut().find(|group| group.takes(&one)) {
                    Some(group) => group.add(one),
                    None => groups.push(one),
                }
            }
            let mut groups = groups.into_iter().map(|group| group.messages);
            self.shared[nth] = groups.next().unwrap_or_default();
            for messages in groups {
                divided = true;
                let connection = ConnectionId::from_index(self.shared.len());
                messages.iter().for_each(|m| self.connection[m.index()] = Some(connection));
                self.shared.push(messages);
            }
        }
        divided
    }
}

impl Sharing {
    /// Whether another message can come after these.
    fn takes(&self, other: &Sharing) -> bool {
        let fits = |mine: Option<ConnectionId>, theirs: Option<ConnectionId>| {
            mine.is_none() || theirs == mine || theirs.is_none()
        };
        fits(self.before, other.before) && fits(self.beyond, other.beyond) && self.last < other.last
    }

    fn add(&mut self, other: Sharing) {
        self.messages.extend(other.messages);
        self.before = self.before.or(other.before);
        self.beyond = self.beyond.or(other.beyond);
        self.last = other.last;
    }
}

/// Which connections share a thread block: one that it receives on and one that it sends on.
struct Pairs {
    /// The one that is sent on, of one that is received on.
    out_of: Vec<Option<ConnectionId>>,
    /// The one that is received on, of one that is sent on.
    back_of: Vec<Option<ConnectionId>>,
    /// Strings of connections: each leads to another one of its string, or is the root.
    parent: Vec<u32>,
    /// What ranks the connections of a string join, by its root.
    ends: Vec<BTreeSet<(Rank, Rank)>>,
}

impl Pairs {
    fn new(all: &[Connection]) -> Pairs {
        Pairs {
            out_of: vec![None; all.len()],
            back_of: vec![None; all.len()],
            parent: (0..all.len() as u32).collect(),
            ends: all.iter().map(|c| BTreeSet::from([(c.from, c.to)])).collect(),
        }
    }

    /// The root of a connection's string.
    fn root(&mut self, id: ConnectionId) -> u32 {
        let mut at = id.0;
        while self.parent[at as usize] != at {
            let next = self.parent[self.parent[at as usize] as usize];
            self.parent[at as usize] = next;
            at = next;
        }
        at
    }

    /// Lets two connections share a thread block; false if that would bring two between the same ranks into a string.
    fn join(&mut self, back: ConnectionId, out: ConnectionId) -> bool {
        let (a, b) = (self.root(back), self.root(out));
        if a != b {
            let (large, small) =
                if self.ends[a as usize].len() < self.ends[b as usize].len() { (b, a) } else { (a, b) };
            let ends = std::mem::take(&mut self.ends[small as usize]);
            if !ends.is_disjoint(&self.ends[large as usize]) {
                self.ends[small as usize] = ends;
                return false;
            }
            self.ends[large as usize].extend(ends);
            self.parent[small as usize] = large;
        }
        self.out_of[back.index()] = Some(out);
        self.back_of[out.index()] = Some(back);
        true
    }

    fn are_free(&self, back: ConnectionId, out: ConnectionId) -> bool {
        self.out_of[back.index()].is_none() && self.back_of[out.index()].is_none()
    }

    /// Pairs up what a thread receives on and sends on, so that it needs few thread blocks: first with the same peer, then in
    /// steps that follow one another, which then need not wait for one another, then whatever is left.
    fn pair_up(&mut self, uses: &[Use], all: &[Connection]) {
        let (mut backs, mut outs) = (Vec::new(), Vec::new());
        let mut known = BTreeSet::new();
        for &(back, out) in uses {
            backs.extend(back.filter(|&id| self.out_of[id.index()].is_none() && known.insert(id)));
            outs.extend(out.filter(|&id| self.back_of[id.index()].is_none() && known.insert(id)));
        }
        let mut to_peer: BTreeMap<Rank, Vec<ConnectionId>> = BTreeMap::new();
        outs.iter().rev().for_each(|&out| to_peer.entry(all[out.index()].to).or_default().push(out));
        for &back in &backs {
            let same = to_peer.get_mut(&all[back.index()].from).and_then(Vec::pop);
            same.map(|out| self.join(back, out));
        }
        let alone = uses.iter().filter(|u| u.0.is_some() != u.1.is_some());
        let in_a_row = alone.clone().zip(alone.skip(1));
        for (first, second) in in_a_row {
            if let (Some(back), Some(out)) = (first.0.or(second.0), first.1.or(second.1))
                && self.are_free(back, out)
            {
                self.join(back, out);
            }
        }
        backs.retain(|back| self.out_of[back.index()].is_none());
        for back in backs {
            outs.retain(|out| self.back_of[out.index()].is_none());
            let _ = outs.iter().any(|&out| self.join(back, out));
        }
    }
}
