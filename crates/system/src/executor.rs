//! The training loop: executes the graph of every NPU.
//!
//! Compute nodes of a stream run one at a time, in the order that the stream has; a node that communicates begins when its
//! dependencies are done. The time that an NPU's main stream is idle because its next node waits belongs to the node that
//! ends the wait: exposed communication for a collective or a message, bubble for a message of another class, and a wait for
//! the background for a compute node of another stream. An NPU is finished when its main stream is.

use crate::graphs::{ClassGraph, Computers, GraphNode, Graphs, NodeWork};
use crate::steady::{self, IterationEnd};
use std::collections::{BTreeMap, BTreeSet};
use syncline_core::{Id, NodeId, NodeSet, Ps, Resolution, Wait, Windows};
use syncline_endpoint::Kernel;
use syncline_workload::Cost;
use syncline_workload::graph::{ClassId, GraphSource, NodeIndex, Order, Pass, Stream};

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// Communication: exposed.
    Communication(NodeIndex),
    /// A message of another class: a bubble.
    OtherClass(NodeIndex),
    /// A compute node of another stream, or the beginning of an iteration.
    Compute,
}

/// A wait of an NPU's main stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MainWait {
    /// What ended it.
    pub end: WaitEnd,
    /// When it began.
    pub from: Ps,
    /// When it ended.
    pub to: Ps,
}

impl MainWait {
    /// The collective or message that it was exposed to, if it was.
    pub fn exposed_to(&self) -> Option<NodeIndex> {
        if let WaitEnd::Communication(node) = self.end { Some(node) } else { None }
    }

    /// How long it took, in picoseconds.
    pub fn time(&self) -> u64 {
        (self.to - self.from).0
    }
}

/// A stream of an NPU.
#[derive(Clone, Debug, Default)]
struct StreamState {
    /// Its next compute node, or one before that; the one that it computes.
    head: NodeIndex,
    computing: bool,
    /// When its last node ended, or the one that it computes began.
    since: Ps,
    /// Busy time.
    busy: u64,
    /// What the nodes computed would take beside nothing.
    alone: u64,
    /// Of a stream that goes by readiness.
    readiness: Option<Box<Readiness>>,
}

/// The compute nodes that a stream by readiness knows of.
#[derive(Clone, Debug, Default)]
struct Readiness {
    /// Those whose dependencies are done and that have not begun.
    ready: BTreeSet<NodeIndex>,
    /// Those that have not ended.
    left: u32,
}

/// The kernels of a pass in an iteration, with what they wait for among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassSpan {
    /// The iteration.
    pub iteration: u32,
    /// Back-propagation, or the forward pass.
    pub backward: bool,
    /// When its first kernel began.
    pub from: Ps,
    /// When its last kernel ended.
    pub to: Ps,
}

#[derive(Clone, Debug, Default)]
struct NpuState {
    class: ClassId,
    /// The first of its streams among those of all NPUs.
    first: u32,
    /// Dependencies that are not done, per known node; `DONE` once the node itself is.
    open: Vec<u16>,
    /// Busy time of the main stream, by layer.
    by_layer: Vec<u64>,
    waits: Vec<MainWait>,
    finished: Option<Ps>,
}

const DONE: u16 = u16::MAX;

/// What a stream has before it.
enum Next {
    /// A node that may start.
    Node(NodeIndex),
    /// Nodes that have to wait.
    Waits,
    /// Nothing that is known of.
    Over,
}

/// What the executor asks the driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Report back ([`Executor::computed`]) at this time.
    ComputeUntil(Ps, Stream),
    /// Report back when the [`Executor::kernels`] of this node have been computed.
    Compute(NodeIndex, Stream),
    /// Begin a node that communicates, and report back ([`Executor::communicated`]) when it is done.
    Communicate(NodeIndex),
}

/// Executes the graphs of all NPUs.
pub struct Executor {
    graphs: Graphs,
    computers: Computers,
    /// NPUs that take longer, and the factor on their times.
    stragglers: BTreeMap<NodeId, f64>,
    /// NPUs that begin later than the others, and when.
    offsets: BTreeMap<NodeId, Ps>,
    npus: Vec<NpuState>,
    /// Those of one NPU follow one another.
    streams: Vec<StreamState>,
    running: u32,
    /// By iteration: how many NPUs have ended it in their main stream, and what was when the last one did.
    ended: Vec<(u32, IterationEnd)>,
    /// Whether the run is over when iterations take equally long.
    until_settled: bool,
    settled: bool,
    /// Compute nodes beside the main streams that NPUs know of and have not computed.
    background_left: u64,
    /// The same by iteration.
    background_of: Vec<u64>,
    /// Busy compute time of the first NPU, in windows.
    pub compute_windows: Windows,
    /// Passes of the main stream of the first NPU, in the order of time.
    pub passes: Vec<PassSpan>,
    /// Compute slices of traced NPUs: NPU, node, from, to.
    pub slices: Vec<(NodeId, NodeIndex, Ps, Ps)>,
    traced: NodeSet,
}

impl Executor {
    /// An executor of some graphs, where `classes` says of each NPU which class it is of.
    pub fn new(
        graphs: Graphs,
        computers: Computers,
        classes: &[ClassId],
        window: Resolution,
        traced: &[NodeId],
    ) -> Executor {
        let by_layer = vec![0; graphs.source().layers().len()];
        let mut streams = Vec::new();
        let npu = |&class: &ClassId| {
            let first = u32::try_from(streams.len()).expect("streams of all NPUs have numbers of 32 bits");
            streams.extend(graphs.of(class).streams().iter().map(|&order| StreamState {
                readiness: (order == Order::ByReadiness).then(Box::default),
                ..StreamState::default()
            }));
            NpuState { class, first, by_layer: by_layer.clone(), ..NpuState::default() }
        };
        let npus: Vec<NpuState> = classes.iter().map(npu).collect();
        Executor {
            graphs,
            computers,
            stragglers: BTreeMap::new(),
            offsets: BTreeMap::new(),
            running: npus.len() as u32,
            streams,
            ended: Vec::new(),
            until_settled: false,
            settled: false,
            background_left: 0,
            background_of: Vec::new(),
            compute_windows: Windows::new(window),
            passes: Vec::new(),
            slices: Vec::new(),
            traced: NodeSet::new(npus.len() as u32, traced),
            npus,
        }
    }

    /// Ends the run as soon as it is known what one more iteration costs ([`crate::steady`]).
    pub fn stop_when_settled(&mut self) {
        self.until_settled = true;
    }

    /// Makes NPUs take longer to compute, by a factor each.
    pub fn slow_down(&mut self, stragglers: impl IntoIterator<Item = (NodeId, f64)>) {
        self.stragglers.extend(stragglers);
    }

    /// Makes NPUs begin later than the others.
    pub fn hold_back(&mut self, offsets: impl IntoIterator<Item = (NodeId, Ps)>) {
        self.offsets.extend(offsets);
    }

    /// When an NPU begins.
    pub fn start(&self, npu: NodeId) -> Ps {
        self.offsets.get(&npu).copied().unwrap_or(Ps::ZERO)
    }

    /// The graph source.
    pub fn source(&self) -> &dyn GraphSource {
        self.graphs.source()
    }

    /// The graphs of all classes.
    pub fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    /// The class of an NPU.
    #[inline]
    pub fn class(&self, npu: NodeId) -> ClassId {
        self.npus[npu.index()].class
    }

    /// The graph of an NPU.
    #[inline]
    pub fn graph(&self, npu: NodeId) -> &ClassGraph {
        self.graphs.of(self.class(npu))
    }

    /// Whether every NPU has computed the last node of its main stream, or it is known what more would cost.
    pub fn is_finished(&self) -> bool {
        self.running == 0 || self.settled
    }

    /// The ends of the iterations that all NPUs have ended.
    pub fn iteration_ends(&self) -> Vec<IterationEnd> {
        let npus = self.npus.len();
        self.ended.iter().take_while(|&&(on, _)| on as usize == npus).map(|&(_, end)| end).collect()
    }

    /// Whether every NPU has computed the last node of every stream.
    pub fn is_drained(&self) -> bool {
        self.running == 0 && self.background_left == 0
    }

    /// When an NPU computed the last node of its main stream.
    pub fn finished(&self, npu: NodeId) -> Option<Ps> {
        self.npus[npu.index()].finished
    }

    /// The streams of an NPU.
    fn streams_of(&self, npu: NodeId) -> std::ops::Range<usize> {
        let NpuState { first, class, .. } = self.npus[npu.index()];
        let first = first as usize;
        first..first + self.graphs.of(class).streams().len()
    }

    #[inline]
    fn stream(&mut self, npu: NodeId, stream: Stream) -> &mut StreamState {
        &mut self.streams[self.npus[npu.index()].first as usize + stream.index()]
    }

    /// Busy compute time of the main stream of an NPU.
    pub fn compute(&self, npu: NodeId) -> Ps {
        Ps(self.streams[self.streams_of(npu)][0].busy)
    }

    /// Busy compute time of its other streams.
    pub fn background_compute(&self, npu: NodeId) -> Ps {
        Ps(self.streams[self.streams_of(npu)][1..].iter().map(|stream| stream.busy).sum())
    }

    /// Busy compute time of the main stream of an NPU, by layer.
    pub fn compute_by_layer(&self, npu: NodeId) -> &[u64] {
        &self.npus[npu.index()].by_layer
    }

    /// What the main stream of an NPU has computed would have taken beside nothing.
    pub fn compute_alone(&self, npu: NodeId) -> Ps {
        Ps(self.streams[self.streams_of(npu)][0].alone)
    }

    /// What its other streams have computed would have taken beside nothing.
    pub fn background_compute_alone(&self, npu: NodeId) -> Ps {
        Ps(self.streams[self.streams_of(npu)][1..].iter().map(|stream| stream.alone).sum())
    }

    /// Whether endpoints say how long kernels take.
    pub fn is_contended(&self) -> bool {
        self.computers.contended.is_some()
    }

    /// Whether what a stream computes shares its NPU with communication, so that the endpoint says how long it takes.
    fn shares_npu(&self, npu: NodeId, stream: Stream) -> bool {
        self.is_contended() && self.graph(npu).streams()[stream.index()] != Order::Host
    }

    /// The kernels of a compute node on an NPU, if the endpoints say how long they take.
    pub fn kernels(&self, npu: NodeId, node: NodeIndex) -> Vec<Kernel> {
        let on = |time| self.on(npu, time);
        let on_npu = |kernel: &Kernel| Kernel { alone: on(kernel.alone), busy: kernel.busy.map(on), ..*kernel };
        self.graph(npu).kernels(node).iter().map(on_npu).collect()
    }

    /// A compute time on an NPU, which may be slower than others.
    fn on(&self, npu: NodeId, time: Ps) -> Ps {
        match self.stragglers.get(&npu) {
            Some(factor) => Ps((time.0 as f64 * factor).round() as u64),
            None => time,
        }
    }

    /// The time of a compute node on what its stream has.
    pub fn time(&self, stream: Stream, cost: &Cost) -> Ps {
        self.computers.of(stream).time(cost)
    }

    /// The waits of an NPU's main stream, in the order of time.
    pub fn waits_of(&self, npu: NodeId) -> &[MainWait] {
        &self.npus[npu.index()].waits
    }

    /// Lets an NPU begin, whose streams have waited for nothing until then.
    pub fn begin(&mut self, npu: NodeId, now: Ps, actions: &mut Vec<Action>) {
        let streams = self.streams_of(npu);
        self.streams[streams].iter_mut().for_each(|stream| stream.since = now);
        self.go_on(npu, now, WaitEnd::Compute, actions);
    }

    /// A stream of an NPU has finished its node.
    pub fn computed(&mut self, npu: NodeId, stream: Stream, now: Ps, actions: &mut Vec<Action>) {
        let state = self.stream(npu, stream);
        let (node, began) = (state.head, state.since);
        state.computing = false;
        state.since = now;
        match &mut state.readiness {
            None => state.head = node.next(),
            Some(readiness) => readiness.left -= 1,
        }
        if self.shares_npu(npu, stream) {
            self.account(npu, stream, node, (began, now));
        }
        if stream != Stream::MAIN {
            let iteration = self.graph(npu).node(node).iteration as usize;
            self.background_left -= 1;
            self.background_of[iteration] -= 1;
        }
        self.done(npu, node, actions);
        self.go_on(npu, now, WaitEnd::Compute, actions);
    }

    /// A node that communicates is done on an NPU; `end` says what kind of wait it ends.
    pub fn communicated(&mut self, npu: NodeId, node: NodeIndex, end: WaitEnd, now: Ps, actions: &mut Vec<Action>) {
        self.done(npu, node, actions);
        self.go_on(npu, now, end, actions);
    }

    /// Lets every stream start its next node if it may, now that a node is done.
    fn go_on(&mut self, npu: NodeId, now: Ps, ended_by: WaitEnd, actions: &mut Vec<Action>) {
        for stream in 0..self.graph(npu).streams().len() {
            self.start_next(npu, Stream(stream as u8), now, ended_by, actions);
        }
    }

    fn done(&mut self, npu: NodeId, node: NodeIndex, actions: &mut Vec<Action>) {
        let state = &mut self.npus[npu.index()];
        let graph = self.graphs.of(state.class);
        state.open[node.index()] = DONE;
        for &later in &graph.node(node).before {
            let Some(open) = state.open.get_mut(later.index()) else { continue };
            *open -= 1;
            if *open > 0 {
                continue;
            }
            let GraphNode { work, stream, .. } = graph.node(later);
            match work {
                NodeWork::Compute(_) => {
                    let state = &mut self.streams[state.first as usize + stream.index()];
                    if let Some(readiness) = &mut state.readiness {
                        readiness.ready.insert(later);
                    }
                }
                _ => actions.push(Action::Communicate(later)),
            }
        }
    }

    /// Starts the next compute node of a stream if it may start. Only the main stream opens iterations.
    fn start_next(&mut self, npu: NodeId, stream: Stream, now: Ps, ended_by: WaitEnd, actions: &mut Vec<Action>) {
        loop {
            let state = &self.npus[npu.index()];
            let own = &self.streams[state.first as usize + stream.index()];
            if own.computing || (stream == Stream::MAIN && state.finished.is_some()) {
                return;
            }
            let (head, idle_since) = (own.head, own.since);
            let is_over = match &own.readiness {
                None => head.index() == state.open.len(),
                Some(readiness) => readiness.left == 0,
            };
            if is_over {
                if stream != Stream::MAIN {
                    return;
                }
                self.end_iteration(npu, now);
                if !self.extend(npu, actions) {
                    self.npus[npu.index()].finished = Some(now);
                    self.running -= 1;
                    return;
                }
            }
            let next = match self.next_of(npu, stream) {
                Next::Node(node) => node,
                Next::Waits => return,
                Next::Over => continue,
            };
            let NodeWork::Compute(time) = self.graph(npu).node(next).work else { continue };
            if stream == Stream::MAIN && now > idle_since {
                let wait = MainWait { end: ended_by, from: idle_since, to: now };
                self.npus[npu.index()].waits.push(wait);
            }
            let own = self.stream(npu, stream);
            (own.head, own.computing, own.since) = (next, true, now);
            if self.shares_npu(npu, stream) {
                actions.push(Action::Compute(next, stream));
            } else {
                let end = now + self.on(npu, time);
                self.account(npu, stream, next, (now, end));
                actions.push(Action::ComputeUntil(end, stream));
            }
            return;
        }
    }

    /// The next node of a stream.
    fn next_of(&mut self, npu: NodeId, stream: Stream) -> Next {
        let state = &self.npus[npu.index()];
        let graph = self.graphs.of(state.class);
        let own = &mut self.streams[state.first as usize + stream.index()];
        if let Some(readiness) = &mut own.readiness {
            return match readiness.ready.pop_first() {
                Some(node) => Next::Node(node),
                None if readiness.left == 0 => Next::Over,
                None => Next::Waits,
            };
        }
        loop {
            let head = own.head;
            let Some(&open) = state.open.get(head.index()) else { return Next::Over };
            let node = graph.node(head);
            if node.stream == stream && matches!(node.work, NodeWork::Compute(_)) {
                return if open == 0 { Next::Node(head) } else { Next::Waits };
            }
            own.head = head.next();
        }
    }

    /// Notes that the main stream of an NPU has ended an iteration, unless it is about to begin the first.
    fn end_iteration(&mut self, npu: NodeId, now: Ps) {
        let known = self.npus[npu.index()].open.len();
        let Some(last) = known.checked_sub(1) else { return };
        let iteration = self.graph(npu).nodes()[last].iteration as usize;
        self.ended.resize(self.ended.len().max(iteration + 1), (0, IterationEnd::default()));
        self.ended[iteration].0 += 1;
        if self.ended[iteration].0 as usize == self.npus.len() {
            // NPUs that came to its end before may be in the next one, if there is one: nothing of that counts.
            let begun = |npu: usize| -> u64 {
                let npu = NodeId(npu as u32);
                let is_at_it = |stream: &&StreamState| {
                    stream.computing && self.graph(npu).node(stream.head).iteration as usize <= iteration
                };
                let others = &self.streams[self.streams_of(npu)][1..];
                others.iter().filter(is_at_it).map(|stream| now.since(stream.since).0).sum()
            };
            let begun = (0..self.npus.len()).map(begun).sum::<u64>() / self.npus.len() as u64;
            let behind = self.background_of.iter().take(iteration + 1).sum();
            self.ended[iteration].1 = IterationEnd { at: now, behind, begun };
            self.settled = self.until_settled && steady::is_settled(&self.iteration_ends());
        }
    }

    /// Accounts a kernel of the first NPU to its pass.
    fn enter_pass(&mut self, node: NodeIndex, from: Ps, to: Ps) {
        let &GraphNode { iteration, pass, .. } = self.graph(NodeId(0)).node(node);
        let backward = match pass {
            Pass::Forward => false,
            Pass::InputGrad | Pass::WeightGrad => true,
            Pass::Update => return,
        };
        match self.passes.iter_mut().rev().find(|p| (p.iteration, p.backward) == (iteration, backward)) {
            Some(span) => span.to = to,
            None => self.passes.push(PassSpan { iteration, backward, from, to }),
        }
    }

    /// Notes when a stream of an NPU computes a node.
    fn account(&mut self, npu: NodeId, stream: Stream, node: NodeIndex, (from, to): (Ps, Ps)) {
        let &GraphNode { work, layer, .. } = self.graph(npu).node(node);
        let alone = match work {
            NodeWork::Compute(time) => self.on(npu, time),
            _ => Ps::ZERO,
        };
        if let (Stream::MAIN, Some(busy)) = (stream, self.npus[npu.index()].by_layer.get_mut(layer as usize)) {
            *busy += (to - from).0;
        }
        let state = self.stream(npu, stream);
        state.busy += (to - from).0;
        state.alone += alone.0;
        if npu.0 == 0 && stream == Stream::MAIN {
            self.compute_windows.add(from, to);
            self.enter_pass(node, from, to);
        }
        if self.traced.contains(npu) && to > from {
            self.slices.push((npu, node, from, to));
        }
    }

    /// Makes the next iteration known to an NPU; false when there is none.
    fn extend(&mut self, npu: NodeId, actions: &mut Vec<Action>) -> bool {
        let class = self.class(npu);
        let first = self.npus[npu.index()].open.len();
        if first == self.graphs.of(class).nodes().len() && !self.graphs.expand(class, &self.computers) {
            return false;
        }
        let state = &mut self.npus[npu.index()];
        let nodes = &self.graphs.of(class).nodes()[first..];
        let iteration = nodes[0].iteration;
        for (node, index) in nodes.iter().zip(first..).take_while(|(node, _)| node.iteration == iteration) {
            let open = open_dependencies(node.after.iter().filter(|&&d| state.open[d.index()] != DONE).count());
            state.open.push(open);
            let index = NodeIndex::from_index(index);
            if let NodeWork::Compute(_) = node.work {
                if node.stream != Stream::MAIN {
                    let iteration = iteration as usize;
                    self.background_left += 1;
                    self.background_of.resize(self.background_of.len().max(iteration + 1), 0);
                    self.background_of[iteration] += 1;
                }
                let stream = &mut self.streams[state.first as usize + node.stream.index()];
                if let Some(readiness) = &mut stream.readiness {
                    readiness.left += 1;
                    if open == 0 {
                        readiness.ready.insert(index);
                    }
                }
            } else if open == 0 {
                actions.push(Action::Communicate(index));
            }
        }
        true
    }

    /// What every NPU that has not finished waits for.
    pub fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (npu, state) in (0u32..).map(NodeId).zip(&self.npus) {
            let main = &self.streams[state.first as usize];
            if state.finished.is_some() || main.computing {
                continue;
            }
            let graph = self.graphs.of(state.class);
            let waiting = match main.readiness {
                None => (main.head.index() < state.open.len()).then_some(main.head),
                Some(_) => (0..state.open.len()).map(NodeIndex::from_index).find(|node| {
                    let GraphNode { stream, work, .. } = graph.node(*node);
                    state.open[node.index()] != DONE && *stream == Stream::MAIN && matches!(work, NodeWork::Compute(_))
                }),
            };
            let Some(node) = waiting.map(|node| graph.node(node)) else { continue };
            for &d in node.after.iter().filter(|&&d| state.open[d.index()] != DONE) {
                let what = self.name(state.class, graph.node(d));
                waits.push(Wait {
                    who: format!("NPU {npu}, {}", self.name(state.class, node)),
                    what: format!("the {what}"),
                });
            }
        }
        waits
    }

    /// The name of a node, for people.
    pub fn name(&self, class: ClassId, node: &GraphNode) -> String {
        let what = match node.work {
            NodeWork::Collective(_) => "collective".to_string(),
            NodeWork::Compute(_) => "compute".to_string(),
            NodeWork::Exchange(_) => "exchange".to_string(),
            NodeWork::Send(post) => format!("send to rank {:+}", post.message.peer.0),
            NodeWork::Recv(post) => format!("receive from rank {:+}", post.message.peer.0),
        };
        let layer = self.source().layers().get(node.layer as usize).map_or("?", |l| l.name.as_str());
        let of_class = match self.graphs.classes() {
            1 => String::new(),
            _ => format!(" of class {}", self.source().class_name(class)),
        };
        format!("{what} of {layer} {} of iteration {}{of_class}", pass_name(node.pass), node.iteration)
    }
}

/// The count of what a node waits for, which is never taken for [`DONE`].
///
/// # Panics
/// If it does not fit.
fn open_dependencies(count: usize) -> u16 {
    let open = u16::try_from(count).ok().filter(|&open| open != DONE);
    open.unwrap_or_else(|| panic!("a node of the graph waits for {count} others, and may for {} at most", DONE - 1))
}

/// The name of a pass in results.
pub fn pass_name(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "forward",
        Pass::InputGrad => "input_grad",
        Pass::WeightGrad => "weight_grad",
        Pass::Update => "update",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_collective::{Kind, Rank};
    use syncline_core::Bytes;
    use syncline_workload::compute::Npu;
    use syncline_workload::{FamilyId, Layer, Node, Work};

    /// Per iteration: 10 ps in the background; 3 ps, and 5 ps that need what the background did, in the main
    /// stream; then an all-reduce, for which 2 ps more wait.
    struct Source;

    impl GraphSource for Source {
        fn layers(&self) -> &[Layer] {
            &[]
        }

        fn iteration(&mut self, _: ClassId, iteration: u32) -> Vec<Node> {
            let first = 5 * iteration;
            let compute = |ps| Work::Compute(Cost::Measured(Ps(ps)));
            let (family, kind, root) = (FamilyId(0), Kind::AllReduce, Rank(0));
            let reduce = Work::Collective { family, kind, root, size: Bytes(1) };
            let node = |stream, work, after: Vec<u32>| Node {
                layer: 0,
                pass: Pass::Forward,
                stream,
                work,
                after: after.into_iter().map(NodeIndex).collect(),
            };
            vec![
                node(Stream::BACKGROUND, compute(10), vec![]),
                node(Stream::MAIN, compute(3), vec![]),
                node(Stream::MAIN, compute(5), vec![first, first + 1]),
                node(Stream::MAIN, reduce, vec![first + 2]),
                node(Stream::MAIN, compute(2), vec![first + 3]),
            ]
        }
    }

    #[test]
    fn a_node_may_wait_for_as_many_others_as_are_counted() {
        assert_eq!(open_dependencies(usize::from(DONE) - 1), DONE - 1);
    }

    #[test]
    #[should_panic(expected = "a node of the graph waits for 65535 others")]
    fn a_node_that_waits_for_too_many_others_is_not_taken_for_one_that_is_done() {
        open_dependencies(usize::from(DONE));
    }

    #[test]
    fn waits_belong_to_what_ends_them() {
        let npu = Npu::new(1.0, 1.0, 1.0).expect("a legal NPU");
        let computers = Computers { main: npu.clone(), background: npu, contended: None };
        let graphs = Graphs::new(Box::new(Source), 2);
        let mut executor = Executor::new(graphs, computers, &[ClassId(0)], Ps(1000).into(), &[]);
        let all_reduce = [NodeIndex(3), NodeIndex(8)];
        let done = |at: usize| WaitEnd::Communication(all_reduce[at]);
        let (node, mut actions) = (NodeId(0), Vec::new());
        executor.begin(node, Ps(0), &mut actions);
        let until = |ps, stream| Action::ComputeUntil(Ps(ps), stream);
        assert_eq!(std::mem::take(&mut actions), [until(3, Stream::MAIN), until(10, Stream::BACKGROUND)]);
        executor.computed(node, Stream::MAIN, Ps(3), &mut actions);
        assert_eq!(actions, []);
        executor.computed(node, Stream::BACKGROUND, Ps(10), &mut actions);
        assert_eq!(std::mem::take(&mut actions), [until(15, Stream::MAIN)]);
        executor.computed(node, Stream::MAIN, Ps(15), &mut actions);
        assert_eq!(std::mem::take(&mut actions), [Action::Communicate(all_reduce[0])]);
        executor.communicated(node, all_reduce[0], done(0), Ps(19), &mut actions);
        assert_eq!(std::mem::take(&mut actions), [until(21, Stream::MAIN)]);
        let wait = |end, from, to| MainWait { end, from: Ps(from), to: Ps(to) };
        assert_eq!(executor.waits_of(node), [wait(WaitEnd::Compute, 3, 10), wait(done(0), 15, 19)]);
        // The next iteration begins in both streams when the main one comes to it.
        executor.computed(node, Stream::MAIN, Ps(21), &mut actions);
        assert_eq!(std::mem::take(&mut actions), [until(24, Stream::MAIN), until(31, Stream::BACKGROUND)]);
        assert_eq!(executor.compute(node), Ps(13));
        assert_eq!(executor.background_compute(node), Ps(20));
        for (stream, ps) in [(Stream::MAIN, 24), (Stream::BACKGROUND, 31), (Stream::MAIN, 36)] {
            executor.computed(node, stream, Ps(ps), &mut actions);
        }
        executor.communicated(node, all_reduce[1], done(1), Ps(36), &mut actions);
        executor.computed(node, Stream::MAIN, Ps(38), &mut actions);
        assert!(executor.is_finished() && executor.is_drained());
        assert_eq!(executor.finished(node), Some(Ps(38)));
        // Nothing waited for the second all-reduce, which took no time.
        assert_eq!(executor.waits_of(node)[2..], [wait(WaitEnd::Compute, 24, 31)]);
    }
}
