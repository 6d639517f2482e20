//! The order in which collectives may be entered into logs.
//!
//! Whoever is first to need a chunk chooses among the collectives that *it* has issued. That is safe where all NPUs run one
//! graph and have one log for each family: what a collective depends on was entered before, since it was done where the
//! choice was made. With several classes or cohorts it is not: an NPU could choose a collective that others cannot issue
//! before one that it puts behind it. So a collective is entered only when everything that it depends on, on any of its
//! members, has been entered. This module finds out when: by running the graphs of all roles in no time, where a collective
//! is done as soon as it is entered, and a message as soon as it is sent.
//!
//! # Why logs then never wait for each other in a circle
//! Take all collectives in the order in which they were entered, whichever the log. Everything that a member of one waits
//! for before it issues it comes earlier in that order, and so does everything that stands before it in its log. So the
//! first that is not complete is issued, has its turn, and completes, as its room has what it needs.

use super::CohortId;
use crate::admission::CollectiveId;
use crate::graphs::{Exchange, GraphNode, Graphs, NodeWork, Post};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use syncline_core::Id;
use syncline_workload::{ClassId, FamilyId, NodeIndex, Order, Stream};

/// A cohort, as far as order goes.
#[derive(Clone, Debug)]
pub struct Members {
    /// Its family.
    pub family: FamilyId,
    /// By rank, the role of the members of all its groups.
    pub roles: Vec<usize>,
}

impl Members {
    /// Its roles, each once.
    fn distinct(&self) -> BTreeSet<usize> {
        self.roles.iter().copied().collect()
    }
}

/// A message: from which role, of which family, how many ranks on, with which tag and number.
type Sent = (usize, FamilyId, u32, u32, u32);

/// How far a role is: NPUs that run the same graph in communicators of the same cohorts.
#[derive(Clone, Debug, Default)]
struct Role {
    class: ClassId,
    /// By family, their cohort.
    cohorts: BTreeMap<FamilyId, CohortId>,
    /// Per known node, what it waits for: other nodes, the one before it in its stream, roles that have not sent.
    open: Vec<u32>,
    done: Vec<bool>,
    /// Per known node, the next one of its stream, if that goes in order.
    follower: Vec<Option<NodeIndex>>,
    /// Per stream, its last node, if it goes in order.
    last: Vec<Option<NodeIndex>>,
    /// Nodes of the main stream that are not done.
    main_left: u32,
}

/// How far all roles are.
#[derive(Clone, Debug)]
pub struct Precedence {
    roles: Vec<Role>,
    cohorts: Vec<Members>,
    /// By cohort and collective, the roles that have issued it.
    issued: BTreeMap<(CohortId, CollectiveId), BTreeSet<usize>>,
    /// By cohort and number, the roles that have come to an exchange, and their nodes.
    met: BTreeMap<(CohortId, u32), BTreeMap<usize, NodeIndex>>,
    /// Collectives that have been entered, of which this is not known here yet.
    entered: Vec<(CohortId, CollectiveId)>,
    /// Nodes that can be carried out.
    ready: VecDeque<(usize, NodeIndex)>,
    sent: BTreeSet<Sent>,
    /// Who waits for a message.
    awaited: BTreeMap<Sent, Vec<(usize, NodeIndex)>>,
    /// Collectives that may be entered, with the class of one of their members.
    permitted: VecDeque<(CohortId, CollectiveId, ClassId)>,
}

impl Precedence {
    /// Of roles of these classes in these cohorts, none of which has begun.
    pub fn new(classes: &[ClassId], cohorts: Vec<Members>) -> Precedence {
        let mut roles: Vec<Role> = classes.iter().map(|&class| Role { class, ..Role::default() }).collect();
        for (id, cohort) in (0..).map(CohortId).zip(&cohorts) {
            for &role in &cohort.roles {
                roles[role].cohorts.insert(cohort.family, id);
            }
        }
        Precedence {
            roles,
            cohorts,
            issued: BTreeMap::new(),
            met: BTreeMap::new(),
            entered: Vec::new(),
            ready: VecDeque::new(),
            sent: BTreeSet::new(),
            awaited: BTreeMap::new(),
            permitted: VecDeque::new(),
        }
    }

    /// A collective has been entered to its end: it is done for all that take part.
    pub fn entered(&mut self, cohort: CohortId, collective: CollectiveId) {
        self.entered.push((cohort, collective));
    }

    /// A collective that may be entered and that this has not been said of, with the class of one of its members.
    pub fn next(&mut self, graphs: &Graphs) -> Option<(CohortId, CollectiveId, ClassId)> {
        for (cohort, collective) in std::mem::take(&mut self.entered) {
            let members = &self.cohorts[cohort.index()];
            for role in members.distinct() {
                let graph = graphs.of(self.roles[role].class);
                finish(
                    &mut self.roles[role],
                    role,
                    graph.calls(members.family)[collective.index()],
                    graph.nodes(),
                    &mut self.ready,
                );
            }
        }
        loop {
            while let Some((role, node)) = self.ready.pop_front() {
                self.carry_out(role, node, graphs);
            }
            for role in 0..self.roles.len() {
                self.extend(role, graphs);
            }
            if self.ready.is_empty() {
                return self.permitted.pop_front();
            }
        }
    }

    /// Carries a node out whose dependencies are done.
    fn carry_out(&mut self, role: usize, node: NodeIndex, graphs: &Graphs) {
        let nodes = graphs.of(self.roles[role].class).nodes();
        match nodes[node.index()].work {
            NodeWork::Compute(_) | NodeWork::Recv(_) => {}
            NodeWork::Exchange(Exchange { family, number, .. }) => {
                if let Some(&cohort) = self.roles[role].cohorts.get(&family) {
                    let met = self.met.entry((cohort, number)).or_default();
                    met.insert(role, node);
                    if met.len() == self.cohorts[cohort.index()].distinct().len() {
                        for (role, node) in self.met.remove(&(cohort, number)).unwrap_or_default() {
                            let nodes = graphs.of(self.roles[role].class).nodes();
                            finish(&mut self.roles[role], role, node, nodes, &mut self.ready);
                        }
                    }
                    return; // it is done when all have come to it
                }
            }
            NodeWork::Send(post) => {
                if let Some(sent) = self.message(role, &post, true) {
                    self.sent.insert(sent);
                    for (role, node) in self.awaited.remove(&sent).unwrap_or_default() {
                        settle(&mut self.roles[role], role, node, &mut self.ready);
                    }
                }
            }
            NodeWork::Collective(call) => {
                if let Some(&cohort) = self.roles[role].cohorts.get(&call.family) {
                    let issued = self.issued.entry((cohort, call.id)).or_default();
                    issued.insert(role);
                    if issued.len() == self.cohorts[cohort.index()].distinct().len() {
                        self.issued.remove(&(cohort, call.id));
                        self.permitted.push_back((cohort, call.id, self.roles[role].class));
                    }
                    return; // it is done when it has been entered
                }
            }
        }
        finish(&mut self.roles[role], role, node, nodes, &mut self.ready);
    }

    /// The name of a message that a role sends, or of the first of those that it receives.
    fn message(&self, role: usize, post: &Post, sends: bool) -> Option<Sent> {
        let family = post.message.family;
        let cohort = self.roles[role].cohorts.get(&family)?;
        let size = self.cohorts[cohort.index()].roles.len() as i64;
        let on = i64::from(post.message.peer.0) * if sends { 1 } else { -1 };
        Some((role, family, on.rem_euclid(size) as u32, post.message.tag, post.number))
    }

    /// The messages that a role receives by a node: one from each role that its members may have there.
    fn received(&self, role: usize, post: &Post) -> Vec<Sent> {
        let Some((_, family, on, tag, number)) = self.message(role, post, false) else { return Vec::new() };
        let roles = &self.cohorts[self.roles[role].cohorts[&family].index()].roles;
        let from = |rank: usize| roles[(rank + roles.len() - on as usize) % roles.len()];
        let senders: BTreeSet<usize> = (0..roles.len()).filter(|&rank| roles[rank] == role).map(from).collect();
        senders.into_iter().map(|sender| (sender, family, on, tag, number)).collect()
    }

    /// Makes the next iteration known to a role, if it has come to its end of what it knows and there is more.
    fn extend(&mut self, role: usize, graphs: &Graphs) {
        let graph = graphs.of(self.roles[role].class);
        let first = self.roles[role].open.len();
        let Some(iteration) = graph.nodes().get(first).map(|node| node.iteration) else { return };
        if self.roles[role].main_left > 0 {
            return;
        }
        for (at, node) in graph.nodes().iter().enumerate().skip(first).take_while(|(_, n)| n.iteration == iteration) {
            let index = NodeIndex::from_index(at);
            let mut open = node.after.iter().filter(|d| !self.roles[role].done[d.index()]).count();
            if let NodeWork::Recv(post) = &node.work {
                for message in self.received(role, post).into_iter().filter(|message| !self.sent.contains(message)) {
                    self.awaited.entry(message).or_default().push((role, index));
                    open += 1;
                }
            }
            let state = &mut self.roles[role];
            if let NodeWork::Compute(_) = node.work {
                state.main_left += u32::from(node.stream == Stream::MAIN);
                if graph.streams()[node.stream.index()] != Order::ByReadiness {
                    state.last.resize(state.last.len().max(node.stream.index() + 1), None);
                    let before = state.last[node.stream.index()].replace(index);
                    if let Some(before) = before.filter(|before| !state.done[before.index()]) {
                        state.follower[before.index()] = Some(index);
                        open += 1;
                    }
                }
            }
            state.open.push(open as u32);
            state.done.push(false);
            state.follower.push(None);
            if open == 0 {
                self.ready.push_back((role, index));
            }
        }
    }
}

/// A node of a role is done.
fn finish(
    state: &mut Role,
    role: usize,
    node: NodeIndex,
    nodes: &[GraphNode],
    ready: &mut VecDeque<(usize, NodeIndex)>,
) {
    state.done[node.index()] = true;
    let GraphNode { work, stream, before, .. } = &nodes[node.index()];
    if let (NodeWork::Compute(_), Stream::MAIN) = (work, *stream) {
        state.main_left -= 1;
    }
    let known = state.open.len();
    for &later in before.iter().filter(|later| later.index() < known) {
        settle(state, role, later, ready);
    }
    if let Some(follower) = state.follower[node.index()] {
        settle(state, role, follower, ready);
    }
}

/// One of the things that a node waits for is there.
fn settle(state: &mut Role, role: usize, node: NodeIndex, ready: &mut VecDeque<(usize, NodeIndex)>) {
    let open = &mut state.open[node.index()];
    *open -= 1;
    if *open == 0 {
        ready.push_back((role, node));
    }
}
