//! The training loop: executes the graph of every NPU.
//!
//! Compute nodes of a stream run one at a time in the order of the graph; a collective is issued when its
//! dependencies are done. The time that an NPU's main stream is idle because its next node waits is
//! exposed communication, attributed to the collective whose completion ends the wait; unless a node of the
//! background stream ends it. An NPU is finished when its main stream is.

use crate::admission::CollectiveId;
use crate::steady::{self, IterationEnd};
use std::collections::BTreeMap;
use syncline_collective::Kind;
use syncline_core::{Id, NodeId, NodeSet, Ps, Wait, Windows};
use syncline_endpoint::Kernel;
use syncline_workload::Cost;
use syncline_workload::compute::Npu;
use syncline_workload::graph::{GraphSource, NodeIndex, Pass, Stream, Work};

/// A node of the expanded graph, shared by all NPUs.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// Layer it belongs to.
    pub layer: u32,
    /// Pass it belongs to.
    pub pass: Pass,
    /// Iteration it belongs to.
    pub iteration: u32,
    /// Where it computes.
    pub stream: Stream,
    /// Duration of a compute node, or the collective's number.
    pub work: NodeWork,
    after: Vec<NodeIndex>,
    before: Vec<NodeIndex>,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeWork {
    /// Computes for this long.
    Compute(Ps),
    /// Runs a collective.
    Collective(CollectiveId),
}

/// A collective that the graph asks for.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveNode {
    /// Its node.
    pub node: NodeIndex,
    /// Which collective.
    pub kind: Kind,
    /// Bytes of the full vector.
    pub bytes: u64,
}

/// Exposed time, by collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// The collective that ended the wait.
    pub collective: CollectiveId,
    /// When the wait began and ended.
    pub from: Ps,
    /// When it ended.
    pub to: Ps,
}

/// A stream of an NPU.
#[derive(Clone, Copy, Debug, Default)]
struct StreamState {
    /// Its next compute node, or one before that.
    head: NodeIndex,
    computing: bool,
    /// When its last node ended, or the one that it computes began.
    since: Ps,
    /// Busy time.
    busy: u64,
    /// What the nodes computed would take beside nothing.
    alone: u64,
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
    /// Dependencies that are not done, per known node; `DONE` once the node itself is.
    open: Vec<u16>,
    /// Busy time of the main stream, by layer.
    by_layer: Vec<u64>,
    streams: [StreamState; Stream::ALL.len()],
    exposed: Vec<Exposure>,
    /// Waits that background compute ended.
    behind: Vec<(Ps, Ps)>,
    finished: Option<Ps>,
}

const DONE: u16 = u16::MAX;

/// What the executor asks the driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Report back ([`Executor::computed`]) at this time.
    ComputeUntil(Ps, Stream),
    /// Report back when the [`Executor::kernels`] of this node have been computed.
    Compute(NodeIndex, Stream),
    /// Issue a collective.
    Issue(CollectiveId),
}

/// Executes the graphs of all NPUs.
pub struct Executor {
    source: Box<dyn GraphSource + Send>,
    iterations: u32,
    expanded: u32,
    npu_model: Npu,
    /// What the background stream computes with.
    background_model: Npu,
    /// NPUs that take longer, and the factor on their times.
    stragglers: BTreeMap<NodeId, f64>,
    /// NPUs that begin later than the others, and when.
    offsets: BTreeMap<NodeId, Ps>,
    nodes: Vec<GraphNode>,
    /// Warps of a kernel on an SM, in thousandths, if the endpoints say how long kernels take.
    contended: Option<u64>,
    /// The kernels of each node, if so.
    kernels: Vec<Vec<Kernel>>,
    collectives: Vec<CollectiveNode>,
    npus: Vec<NpuState>,
    running: u32,
    /// By iteration: how many NPUs have ended it in their main stream, and what was when the last one did.
    ended: Vec<(u32, IterationEnd)>,
    /// Whether the run is over when iterations take equally long.
    until_settled: bool,
    settled: bool,
    /// Background nodes that NPUs know of and have not computed.
    background_left: u64,
    /// Busy compute time of the first NPU, in windows.
    pub compute_windows: Windows,
    /// Passes of the main stream of the first NPU, in the order of time.
    pub passes: Vec<PassSpan>,
    /// Compute slices of traced NPUs: NPU, node, from, to.
    pub slices: Vec<(NodeId, NodeIndex, Ps, Ps)>,
    traced: NodeSet,
}

impl Executor {
    /// An executor for `npus` NPUs and `iterations` iterations of a graph.
    pub fn new(
        source: Box<dyn GraphSource + Send>,
        iterations: u32,
        npu_model: Npu,
        npus: u32,
        window: Ps,
        traced: &[NodeId],
    ) -> Executor {
        let by_layer = vec![0; source.layers().len()];
        Executor {
            source,
            iterations,
            expanded: 0,
            npu_model,
            background_model: npu_model,
            stragglers: BTreeMap::new(),
            offsets: BTreeMap::new(),
            nodes: Vec::new(),
            contended: None,
            kernels: Vec::new(),
            collectives: Vec::new(),
            npus: vec![NpuState { by_layer, ..NpuState::default() }; npus as usize],
            running: npus,
            ended: Vec::new(),
            until_settled: false,
            settled: false,
            background_left: 0,
            compute_windows: Windows::new(window),
            passes: Vec::new(),
            slices: Vec::new(),
            traced: NodeSet::new(npus, traced),
        }
    }

    /// Gives the background stream resources of its own.
    pub fn set_background(&mut self, npu: Npu) {
        self.background_model = npu;
    }

    /// Leaves it to the endpoints how long kernels take, which have so many warps on an SM, in thousandths.
    pub fn contend(&mut self, warps: u64) {
        self.contended = Some(warps);
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
        &*self.source
    }

    /// Expanded nodes.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// Collectives of the expanded nodes, by [`CollectiveId`].
    pub fn collectives(&self) -> &[CollectiveNode] {
        &self.collectives
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

    /// Busy compute time of a stream of an NPU.
    pub fn compute(&self, npu: NodeId, stream: Stream) -> Ps {
        Ps(self.npus[npu.index()].streams[stream.index()].busy)
    }

    /// Busy compute time of the main stream of an NPU, by layer.
    pub fn compute_by_layer(&self, npu: NodeId) -> &[u64] {
        &self.npus[npu.index()].by_layer
    }

    /// What its stream has computed would have taken beside nothing.
    pub fn compute_alone(&self, npu: NodeId, stream: Stream) -> Ps {
        Ps(self.npus[npu.index()].streams[stream.index()].alone)
    }

    /// The kernels of a compute node on an NPU, if the endpoints say how long they take.
    pub fn kernels(&self, npu: NodeId, node: NodeIndex) -> Vec<Kernel> {
        let on_npu = |kernel: &Kernel| Kernel { alone: self.on(npu, kernel.alone), ..*kernel };
        self.kernels[node.index()].iter().map(on_npu).collect()
    }

    /// A compute time on an NPU, which may be slower than others.
    fn on(&self, npu: NodeId, time: Ps) -> Ps {
        match self.stragglers.get(&npu) {
            Some(factor) => Ps((time.0 as f64 * factor).round() as u64),
            None => time,
        }
    }

    /// When the main stream of an NPU waited for its background stream.
    pub fn background_waits(&self, npu: NodeId) -> &[(Ps, Ps)] {
        &self.npus[npu.index()].behind
    }

    /// The time of a compute node on what its stream has.
    pub fn time(&self, stream: Stream, cost: &Cost) -> Ps {
        self.model(stream).time(cost)
    }

    fn model(&self, stream: Stream) -> &Npu {
        match stream {
            Stream::Main => &self.npu_model,
            Stream::Background => &self.background_model,
        }
    }

    /// Exposed communication of an NPU.
    pub fn exposures(&self, npu: NodeId) -> &[Exposure] {
        &self.npus[npu.index()].exposed
    }

    /// Lets an NPU begin, whose streams have waited for nothing until then.
    pub fn begin(&mut self, npu: NodeId, now: Ps, actions: &mut Vec<Action>) {
        self.npus[npu.index()].streams.iter_mut().for_each(|stream| stream.since = now);
        self.go_on(npu, now, None, actions);
    }

    /// A stream of an NPU has finished its node.
    pub fn computed(&mut self, npu: NodeId, stream: Stream, now: Ps, actions: &mut Vec<Action>) {
        let state = &mut self.npus[npu.index()].streams[stream.index()];
        let (node, began) = (state.head, state.since);
        state.computing = false;
        state.since = now;
        state.head = node.next();
        if self.contended.is_some() {
            self.account(npu, stream, node, (began, now));
        }
        self.background_left -= u64::from(stream == Stream::Background);
        self.done(npu, node, actions);
        self.go_on(npu, now, None, actions);
    }

    /// A collective is complete on an NPU.
    pub fn collective_done(&mut self, npu: NodeId, id: CollectiveId, now: Ps, actions: &mut Vec<Action>) {
        self.done(npu, self.collectives[id.index()].node, actions);
        self.go_on(npu, now, Some(id), actions);
    }

    /// Lets every stream start its next node if it may, now that a collective or a compute node is done.
    fn go_on(&mut self, npu: NodeId, now: Ps, ended_by: Option<CollectiveId>, actions: &mut Vec<Action>) {
        for stream in Stream::ALL {
            self.start_next(npu, stream, now, ended_by, actions);
        }
    }

    fn done(&mut self, npu: NodeId, node: NodeIndex, actions: &mut Vec<Action>) {
        let state = &mut self.npus[npu.index()];
        state.open[node.index()] = DONE;
        for &later in &self.nodes[node.index()].before {
            let Some(open) = state.open.get_mut(later.index()) else { continue };
            *open -= 1;
            if let (0, NodeWork::Collective(id)) = (*open, self.nodes[later.index()].work) {
                actions.push(Action::Issue(id));
            }
        }
    }

    /// Starts the next compute node of a stream if it may start. Only the main stream opens iterations.
    fn start_next(
        &mut self,
        npu: NodeId,
        stream: Stream,
        now: Ps,
        ended_by: Option<CollectiveId>,
        actions: &mut Vec<Action>,
    ) {
        loop {
            let state = &mut self.npus[npu.index()];
            let StreamState { head, computing, since: idle_since, .. } = state.streams[stream.index()];
            if computing || (stream == Stream::Main && state.finished.is_some()) {
                return;
            }
            if head.index() == state.open.len() {
                if stream == Stream::Background {
                    return;
                }
                self.end_iteration(npu, now);
                if !self.extend(npu, actions) {
                    let state = &mut self.npus[npu.index()];
                    state.finished = Some(now);
                    self.running -= 1;
                    return;
                }
            }
            let state = &mut self.npus[npu.index()];
            let Some(node) = self.nodes.get(head.index()) else { continue };
            let time = match node.work {
                NodeWork::Compute(time) if node.stream == stream => time,
                _ => {
                    state.streams[stream.index()].head = head.next();
                    continue;
                }
            };
            if state.open[head.index()] > 0 {
                return;
            }
            match ended_by {
                _ if stream == Stream::Background || now == idle_since => {}
                Some(collective) => {
                    state.exposed.push(Exposure { collective, from: idle_since, to: now });
                }
                None => state.behind.push((idle_since, now)),
            }
            let own = &mut state.streams[stream.index()];
            (own.computing, own.since) = (true, now);
            if self.contended.is_some() {
                actions.push(Action::Compute(head, stream));
            } else {
                let end = now + self.on(npu, time);
                self.account(npu, stream, head, (now, end));
                actions.push(Action::ComputeUntil(end, stream));
            }
            return;
        }
    }

    /// Notes that the main stream of an NPU has ended an iteration, unless it is about to begin the first.
    fn end_iteration(&mut self, npu: NodeId, now: Ps) {
        let known = self.npus[npu.index()].open.len();
        let Some(iteration) = known.checked_sub(1).map(|last| self.nodes[last].iteration as usize) else { return };
        self.ended.resize(self.ended.len().max(iteration + 1), (0, IterationEnd::default()));
        let begun = |npu: &NpuState| {
            let stream = npu.streams[Stream::Background.index()];
            if stream.computing { now.since(stream.since).0 } else { 0 }
        };
        self.ended[iteration].0 += 1;
        if self.ended[iteration].0 as usize == self.npus.len() {
            let begun = self.npus.iter().map(begun).sum();
            self.ended[iteration].1 = IterationEnd { at: now, behind: self.background_left, begun };
            self.settled = self.until_settled && steady::is_settled(&self.iteration_ends());
        }
    }

    /// Accounts a kernel of the first NPU to its pass.
    fn enter_pass(&mut self, node: NodeIndex, from: Ps, to: Ps) {
        let GraphNode { iteration, pass, .. } = self.nodes[node.index()];
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
        let alone = match self.nodes[node.index()].work {
            NodeWork::Compute(time) => self.on(npu, time),
            NodeWork::Collective(_) => Ps::ZERO,
        };
        let layer = self.nodes[node.index()].layer as usize;
        let state = &mut self.npus[npu.index()];
        if let (Stream::Main, Some(busy)) = (stream, state.by_layer.get_mut(layer)) {
            *busy += (to - from).0;
        }
        let state = &mut state.streams[stream.index()];
        state.busy += (to - from).0;
        state.alone += alone.0;
        if npu.0 == 0 && stream == Stream::Main {
            self.compute_windows.add(from, to);
            self.enter_pass(node, from, to);
        }
        if self.traced.contains(npu) && to > from {
            self.slices.push((npu, node, from, to));
        }
    }

    /// Makes the next iteration known to an NPU; false when there is none.
    fn extend(&mut self, npu: NodeId, actions: &mut Vec<Action>) -> bool {
        if self.npus[npu.index()].open.len() == self.nodes.len() && !self.expand() {
            return false;
        }
        let state = &mut self.npus[npu.index()];
        let first = state.open.len();
        let iteration = self.nodes[first].iteration;
        for node in self.nodes[first..].iter().take_while(|n| n.iteration == iteration) {
            let open = open_dependencies(node.after.iter().filter(|&&d| state.open[d.index()] != DONE).count());
            state.open.push(open);
            let beside = node.stream == Stream::Background && matches!(node.work, NodeWork::Compute(_));
            self.background_left += u64::from(beside);
            if let (0, NodeWork::Collective(id)) = (open, node.work) {
                actions.push(Action::Issue(id));
            }
        }
        true
    }

    /// Expands the next iteration of the graph; false when there is none with a node.
    fn expand(&mut self) -> bool {
        let before = self.nodes.len();
        while self.expanded < self.iterations && self.nodes.len() == before {
            let iteration = self.expanded;
            self.expanded += 1;
            for node in self.source.iteration(iteration) {
                let index = NodeIndex::from_index(self.nodes.len());
                for &dependency in &node.after {
                    self.nodes[dependency.index()].before.push(index);
                }
                if let Some(warps) = self.contended {
                    self.kernels.push(match &node.work {
                        Work::Compute(cost) => self
                            .model(node.stream)
                            .kernels(cost)
                            .map(|(alone, bytes)| Kernel { alone, bytes, warps })
                            .collect(),
                        Work::Collective { .. } => Vec::new(),
                    });
                }
                let work = match node.work {
                    Work::Compute(cost) => NodeWork::Compute(self.time(node.stream, &cost)),
                    Work::Collective { kind, size } => {
                        let id = CollectiveId::from_index(self.collectives.len());
                        self.collectives.push(CollectiveNode { node: index, kind, bytes: size.0 });
                        NodeWork::Collective(id)
                    }
                };
                let (layer, pass, stream) = (node.layer, node.pass, node.stream);
                let (after, before) = (node.after, Vec::new());
                self.nodes.push(GraphNode { layer, pass, iteration, stream, work, after, before });
            }
        }
        self.nodes.len() > before
    }

    /// What every NPU that has not finished waits for.
    pub fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (npu, state) in self.npus.iter().enumerate() {
            let main = state.streams[Stream::Main.index()];
            if state.finished.is_some() || main.computing {
                continue;
            }
            let Some(node) = self.nodes.get(main.head.index()) else { continue };
            let name = |n: &GraphNode| {
                let layer = self.source.layers().get(n.layer as usize).map_or("?", |l| l.name.as_str());
                format!("{layer} {} of iteration {}", pass_name(n.pass), n.iteration)
            };
            for &d in node.after.iter().filter(|&&d| state.open[d.index()] != DONE) {
                let awaited = &self.nodes[d.index()];
                let what = match awaited.work {
                    NodeWork::Collective(_) => format!("the collective of {}", name(awaited)),
                    NodeWork::Compute(_) => format!("the compute of {}", name(awaited)),
                };
                waits.push(Wait { who: format!("NPU {npu}, compute of {}", name(node)), what });
            }
        }
        waits
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
    use syncline_core::Bytes;
    use syncline_workload::{Layer, Node};

    /// Per iteration: 10 ps in the background; 3 ps, and 5 ps that need what the background did, in the main
    /// stream; then an all-reduce, for which 2 ps more wait.
    struct Source;

    impl GraphSource for Source {
        fn layers(&self) -> &[Layer] {
            &[]
        }

        fn iteration(&mut self, iteration: u32) -> Vec<Node> {
            let first = 5 * iteration;
            let compute = |ps| Work::Compute(Cost::Measured(Ps(ps)));
            let reduce = Work::Collective { kind: Kind::AllReduce, size: Bytes(1) };
            let node = |stream, work, after: Vec<u32>| Node {
                layer: 0,
                pass: Pass::Forward,
                stream,
                work,
                after: after.into_iter().map(NodeIndex).collect(),
            };
            vec![
                node(Stream::Background, compute(10), vec![]),
                node(Stream::Main, compute(3), vec![]),
                node(Stream::Main, compute(5), vec![first, first + 1]),
                node(Stream::Main, reduce, vec![first + 2]),
                node(Stream::Main, compute(2), vec![first + 3]),
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
        let mut executor = Executor::new(Box::new(Source), 2, npu, 1, Ps(1000), &[]);
        let (node, mut actions) = (NodeId(0), Vec::new());
        executor.begin(node, Ps(0), &mut actions);
        let until = |ps, stream| Action::ComputeUntil(Ps(ps), stream);
        assert_eq!(std::mem::take(&mut actions), [until(3, Stream::Main), until(10, Stream::Background)]);
        executor.computed(node, Stream::Main, Ps(3), &mut actions);
        assert_eq!(actions, []);
        executor.computed(node, Stream::Background, Ps(10), &mut actions);
        assert_eq!(std::mem::take(&mut actions), [until(15, Stream::Main)]);
        executor.computed(node, Stream::Main, Ps(15), &mut actions);
        assert_eq!(std::mem::take(&mut actions), [Action::Issue(CollectiveId(0))]);
        executor.collective_done(node, CollectiveId(0), Ps(19), &mut actions);
        assert_eq!(std::mem::take(&mut actions), [until(21, Stream::Main)]);
        assert_eq!(executor.background_waits(node), [(Ps(3), Ps(10))]);
        assert_eq!(executor.exposures(node), [Exposure { collective: CollectiveId(0), from: Ps(15), to: Ps(19) }]);
        // The next iteration begins in both streams when the main one comes to it.
        executor.computed(node, Stream::Main, Ps(21), &mut actions);
        assert_eq!(std::mem::take(&mut actions), [until(24, Stream::Main), until(31, Stream::Background)]);
        assert_eq!(executor.compute(node, Stream::Main), Ps(13));
        assert_eq!(executor.compute(node, Stream::Background), Ps(20));
        for (stream, ps) in [(Stream::Main, 24), (Stream::Background, 31), (Stream::Main, 36)] {
            executor.computed(node, stream, Ps(ps), &mut actions);
        }
        executor.collective_done(node, CollectiveId(1), Ps(36), &mut actions);
        executor.computed(node, Stream::Main, Ps(38), &mut actions);
        assert!(executor.is_finished() && executor.is_drained());
        assert_eq!(executor.finished(node), Some(Ps(38)));
        // Nothing waited for the second all-reduce, which took no time.
        assert_eq!((executor.exposures(node).len(), executor.background_waits(node).len()), (1, 2));
    }
}
