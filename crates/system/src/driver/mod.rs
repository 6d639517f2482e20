//! The driver: owns the queue, and carries what one layer says to the next.

mod failure;
mod logs;
mod messages;
mod turns;

pub use failure::Failure;

use crate::admission::CollectiveId;
use crate::attempt::{End, Ending, Limits};
use crate::cohorts::{CohortId, Cohorts, CollectiveTimes};
use crate::endpoints::EndpointEvent;
use crate::event::{Event, Queue};
use crate::executor::{Action, Executor, WaitEnd};
use crate::graphs::{Call, NodeWork};
use crate::monitor::{self, Monitor};
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_collective::PhaseId;
use syncline_core::{Books, Key, NodeId, Ps, Wire};
use syncline_endpoint::api::class;
use syncline_endpoint::{ChunkId, Ctx, Endpoint, EpOut, Layout, Report};
use syncline_network::{Loss, NetOut, Network};
use syncline_workload::{NodeIndex, Stream};

/// Event class of the training loop: before everything else at the same time.
const COMPUTED: u8 = 0;

/// The place in that class of the begin of an NPU, which has no stream that computes.
const BEGUN: u32 = 1 << u8::BITS;

/// The same of the host of an NPU on which kernels end with the timer of what they share: after that.
const HOST_COMPUTED: u8 = class::SHARES + 2;

/// Event class of the end of the launch of a collective; those of an NPU are told apart by the collective's number.
const LAUNCHED: u8 = 2;
/// So many of them.
const LAUNCHES: u32 = 1 << 24;

/// Event class of entering chunks into logs that wait for the end of an instant: what all NPUs have issued by then counts,
/// whichever of them comes first.
const ENTER: u8 = 199;

/// A phase of a chunk on a traced NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseSlice {
    /// The NPU.
    pub npu: NodeId,
    /// The cohort of the NPU's communicator.
    pub cohort: CohortId,
    /// The chunk.
    pub seq: ChunkId,
    /// Its collective.
    pub collective: CollectiveId,
    /// The phase.
    pub phase: PhaseId,
    /// When it was ready for the phase.
    pub ready: Ps,
    /// When the phase began.
    pub began: Ps,
    /// When it ended.
    pub ended: Ps,
}

/// What a finished simulation leaves behind.
#[derive(Debug)]
pub struct Outcome {
    /// End of the run.
    pub end: Ps,
    /// Events handled.
    pub events: u64,
    /// The endpoints' report.
    pub report: Report,
    /// Payload of the job that NPUs sent of their own: what they handed to the network, with the bytes that the job names in
    /// place of those that collectives carry by a model of software.
    pub payload: u64,
    /// By cohort, times of every collective.
    pub collectives: Vec<Vec<CollectiveTimes>>,
    /// By cohort, chunks of every collective.
    pub chunks: Vec<Vec<u64>>,
    /// Chunks that were started on all NPUs, and the picoseconds from the issue of their collectives to their starts.
    pub started: (u64, u128),
    /// Phases of chunks on traced NPUs.
    pub phases: Vec<PhaseSlice>,
    /// The network's account.
    pub books: Books,
    /// What it put on the wire for that.
    pub wire: Wire,
}

/// One simulation: a network, endpoints, and a training loop on one queue.
pub struct Simulation<N: Network, E: Endpoint<N>> {
    queue: Queue,
    net: N,
    ep: E,
    executor: Executor,
    cohorts: Cohorts,
    drain: bool,
    npus: u32,
    /// From the call of a collective on an NPU until it may begin there.
    launch: Ps,
    /// Collectives and messages that have begun somewhere and are not complete everywhere.
    incomplete: u64,
    started: (u64, u128),
    phases: Vec<PhaseSlice>,
    /// By NPU and node, messages of exchanges that are not done.
    exchanging: BTreeMap<(NodeId, NodeIndex), usize>,
    /// What ranks disagree on, once they do.
    mismatch: Option<(String, String)>,
    monitor: Arc<Monitor>,
    /// Events that the monitor knows of.
    told: u64,
    net_out: Vec<NetOut>,
    ep_out: Vec<EpOut>,
    actions: Vec<Action>,
}

impl<N, E> Simulation<N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    /// A simulation at time zero, which goes on until all collectives are done if it is to `drain`. `queue` is empty; tests
    /// pass one that shuffles ties.
    pub fn new(queue: Queue, net: N, ep: E, executor: Executor, cohorts: Cohorts, drain: bool) -> Self {
        Simulation {
            queue,
            net,
            ep,
            executor,
            npus: cohorts.layout().npus(),
            cohorts,
            drain,
            launch: Ps::ZERO,
            incomplete: 0,
            started: (0, 0),
            phases: Vec::new(),
            exchanging: BTreeMap::new(),
            mismatch: None,
            monitor: Arc::default(),
            told: 0,
            net_out: Vec::new(),
            ep_out: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Lets collectives begin on an NPU only so long after they have been called there.
    pub fn launch_after(&mut self, latency: Ps) {
        self.launch = latency;
    }

    /// Says how far it is to `monitor`, and ends where that says so.
    pub fn observed_by(&mut self, monitor: Arc<Monitor>) {
        self.monitor = monitor;
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// A [`Failure`] when nothing can happen any more before the end, when simulated time is over, when it was cancelled, or
    /// bytes are not conserved.
    pub fn run(&mut self) -> Result<Outcome, Failure> {
        let (end, _) = self.run_within(Limits::NONE)?;
        self.net.finish(end);
        self.outcome(end)
    }

    /// Runs to the end, or until a limit is passed.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn attempt(&mut self, limits: Limits) -> Result<End, Failure> {
        let (end, ending) = self.run_within(limits)?;
        self.net.finish(end);
        let usage = self.net.usage();
        let reached = End {
            ending,
            time_ps: end.0,
            events: self.queue.0.popped(),
            work: self.work(),
            delivered_bytes: self.net.books().delivered,
            busiest_link_ps: (0..usage.links()).map(|link| usage.busy(link).0).max().unwrap_or(0),
        };
        if ending == Ending::Complete {
            self.outcome(end)?; // the books balance
        }
        Ok(reached)
    }

    fn run_within(&mut self, limits: Limits) -> Result<(Ps, Ending), Failure> {
        let mut end = Ps::ZERO;
        let mut look_at = 0;
        for npu in 0..self.npus {
            match self.executor.start(NodeId(npu)) {
                Ps::ZERO => {
                    self.begin(NodeId(npu), Ps::ZERO);
                    self.carry(Ps::ZERO)?;
                }
                later => self.queue.0.push(later, Key::new(COMPUTED, BEGUN), Event::Begun(npu)),
            }
        }
        while !self.is_complete() {
            let Some((now, _, event)) = self.queue.0.pop() else { return Err(self.stalled(end)) };
            if now > Ps::HORIZON {
                return Err(Failure::Endless { at: end });
            }
            if now.0 > limits.time_ps {
                return Ok((now, Ending::Late));
            }
            // The one comparison of every event serves for the limit and for looks at the monitor.
            let work = self.work();
            if work >= look_at {
                if work > limits.work {
                    return Ok((now, Ending::Costly));
                }
                self.look(now)?;
                look_at = work.saturating_add(monitor::EVERY).min(limits.work.saturating_add(1));
            }
            end = now;
            self.dispatch(now, event);
            if let Some(why) = self.net.told_apart() {
                return Err(Failure::ToldApart { why });
            }
            self.carry(now)?;
        }
        self.look(end)?;
        Ok((end, Ending::Complete))
    }

    /// Tells the monitor how far the simulation is, and asks whether it is still wanted.
    #[cold]
    #[inline(never)]
    fn look(&mut self, now: Ps) -> Result<(), Failure> {
        let events = self.queue.0.popped();
        self.monitor.advance(now.0, events - self.told);
        self.told = events;
        match self.monitor.is_cancelled() {
            true => Err(Failure::Cancelled { at: now }),
            false => Ok(()),
        }
    }

    /// What has been done so far, in events.
    fn work(&self) -> u64 {
        self.queue.0.popped().saturating_add(self.net.further_work()).saturating_add(self.ep.further_work())
    }

    /// The executor, for results.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// The network, for results.
    pub fn network(&self) -> &N {
        &self.net
    }

    /// The cohorts, for results.
    pub fn cohorts(&self) -> &Cohorts {
        &self.cohorts
    }

    /// The layout of the first cohort, for results: they are all on the same fabric.
    pub fn layout(&self) -> &Layout {
        self.cohorts.layout()
    }

    fn is_complete(&self) -> bool {
        match self.drain {
            true => self.executor.is_drained() && self.incomplete == 0,
            false => self.executor.is_finished(),
        }
    }

    #[inline]
    fn dispatch(&mut self, now: Ps, event: Event) {
        match event {
            Event::Network(timer) => {
                if let Some(timer) = N::Event::from_layer(timer) {
                    self.net.handle(now, timer, &mut self.queue, &mut self.net_out);
                }
            }
            Event::Endpoint(timer) => {
                if let Some(timer) = E::Event::from_layer(timer) {
                    let Self { queue: q, net, ep, ep_out: out, .. } = self;
                    ep.handle(timer, &mut Ctx { now, net, q, out });
                }
            }
            Event::Begun(npu) => self.begin(NodeId(npu), now),
            Event::Launched(npu, node) => self.launched(NodeId(npu), node, now),
            Event::Enter => self.enter_all(now),
            Event::Turn(npu, cohort) => self.turn_begins(NodeId(npu), cohort, now),
            Event::Computed(npu, stream) => {
                self.executor.computed(NodeId(npu), stream, now, &mut self.actions);
                self.act(NodeId(npu), now);
            }
        }
    }

    /// Delivers what layers report to the layers that it concerns, until none reports anything more.
    #[inline]
    fn carry(&mut self, now: Ps) -> Result<(), Failure> {
        loop {
            if self.mismatch.is_some() {
                return Err(self.disagreement(now));
            }
            if !self.net_out.is_empty() {
                let Self { queue: q, net, ep, ep_out: out, net_out, .. } = self;
                let mut lost = None;
                for report in net_out.iter() {
                    match *report {
                        NetOut::Failed { at, why, .. } => lost = Some((at, why)),
                        _ => ep.network(report, &mut Ctx { now, net, q, out }),
                    }
                }
                net_out.clear();
                if let Some((at, why)) = lost {
                    return Err(self.message_lost(now, at, why));
                }
            }
            if self.ep_out.is_empty() {
                if self.cohorts.waits_for_instant() && self.enter_what_may(now) {
                    continue;
                }
                return Ok(());
            }
            let mut reports = std::mem::take(&mut self.ep_out);
            for out in reports.drain(..) {
                self.report(out, now);
            }
            if self.ep_out.is_empty() {
                self.ep_out = reports; // keeps its allocation
            }
        }
    }

    /// Hears what an endpoint says.
    #[inline]
    fn report(&mut self, out: EpOut, now: Ps) {
        match out {
            EpOut::Room { npu, room } => self.offer(npu, CohortId::of(room), now),
            EpOut::Done { npu, room, seq } => self.chunk_done(npu, CohortId::of(room), seq, now),
            EpOut::Phase { npu, room, seq, phase, ready, began } => {
                let cohort = CohortId::of(room);
                let collective = self.cohorts[cohort].admission.collective_of(seq);
                self.phases.push(PhaseSlice { npu, cohort, seq, collective, phase, ready, began, ended: now });
            }
            EpOut::Computed { npu, stream } => {
                self.executor.computed(npu, Stream(stream), now, &mut self.actions);
                self.act(npu, now);
            }
            EpOut::Posted { npu, handle } => self.posted(npu, NodeIndex(handle), now),
            EpOut::Unequal { npu, handle, sent, received } => self.unequal(npu, NodeIndex(handle), sent, received),
        }
    }

    #[cold]
    #[inline(never)]
    fn disagreement(&mut self, at: Ps) -> Failure {
        let (one, other) = self.mismatch.take().unwrap_or_default();
        Failure::Mismatch { at, one, other }
    }

    #[cold]
    fn message_lost(&self, at: Ps, sender: NodeId, why: Loss) -> Failure {
        Failure::MessageLost { at, from: self.layout().fabric().node_name(sender), why }
    }

    /// Lets an NPU begin: once, so apart from what is done for every event.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, npu: NodeId, now: Ps) {
        self.executor.begin(npu, now, &mut self.actions);
        self.act(npu, now);
    }

    /// Does what the training loop of an NPU asks for.
    fn act(&mut self, npu: NodeId, now: Ps) {
        let mut issued = false;
        let mut at = 0; // issuing may complete a collective at once, which may add actions
        while let Some(&action) = self.actions.get(at) {
            at += 1;
            match action {
                Action::ComputeUntil(t, stream) => self.computes_until(t, npu, stream),
                Action::Compute(node, stream) => {
                    let kernels = self.executor.kernels(npu, node);
                    let Self { queue: q, net, ep, ep_out: out, .. } = self;
                    let end = ep.compute(npu, stream.index() as u8, &kernels, &mut Ctx { now, net, q, out });
                    if let Some(end) = end {
                        self.computes_until(end, npu, stream);
                    }
                }
                Action::Communicate(node) => match self.executor.graph(npu).node(node).work {
                    NodeWork::Collective(call) => {
                        issued |= self.issue(npu, node, call, now);
                    }
                    NodeWork::Send(post) => self.post(npu, node, post, true, now),
                    NodeWork::Recv(post) => self.post(npu, node, post, false, now),
                    NodeWork::Exchange(exchange) => self.exchange(npu, node, exchange, now),
                    NodeWork::Compute(_) => unreachable!("what computes runs on a stream"),
                },
            }
        }
        self.actions.clear();
        if issued {
            self.offer_all(npu, now);
        }
    }

    /// A collective is issued on an NPU; false if that does not take part, or has to launch it first.
    fn issue(&mut self, npu: NodeId, node: NodeIndex, call: Call, now: Ps) -> bool {
        let Some(id) = self.cohorts.of(call.family, npu) else {
            self.executor.communicated(npu, node, WaitEnd::Communication(node), now, &mut self.actions);
            return false;
        };
        let cohort = &mut self.cohorts[id];
        match cohort.make_known(&self.executor, self.executor.class(npu), call.id) {
            Ok(added) => self.incomplete += added,
            Err((one, other)) => {
                self.mismatch.get_or_insert((one, other));
                return false;
            }
        }
        cohort.times[call.id.index()].issued.get_or_insert(now);
        if self.launch > Ps::ZERO {
            let key = Key::new(LAUNCHED, node.0 % LAUNCHES);
            self.queue.0.push(now + self.launch, key, Event::Launched(npu.0, node));
            return false;
        }
        self.admit(npu, id, call, now);
        true
    }

    /// What an NPU has called may begin there.
    fn admit(&mut self, npu: NodeId, id: CohortId, call: Call, now: Ps) {
        if self.cohorts[id].admission.issue(npu, call.id, now) {
            self.mark_complete(npu, id, call.id, now);
        }
    }

    /// The collective of a node has been launched on an NPU.
    #[cold]
    #[inline(never)]
    fn launched(&mut self, npu: NodeId, node: NodeIndex, now: Ps) {
        if let NodeWork::Collective(call) = self.executor.graph(npu).node(node).work
            && let Some(id) = self.cohorts.of(call.family, npu)
        {
            self.admit(npu, id, call, now);
            self.offer_all(npu, now);
            self.act(npu, now);
        }
    }

    fn computes_until(&mut self, end: Ps, npu: NodeId, stream: Stream) {
        // Both streams of an NPU may finish at once, and do not commute.
        let class = if self.executor.is_contended() { HOST_COMPUTED } else { COMPUTED };
        let key = Key::new(class, stream.index() as u32);
        self.queue.0.push(end, key, Event::Computed(npu.0, stream));
    }

    fn stalled(&self, at: Ps) -> Failure {
        let mut waits = self.net.waits();
        waits.extend(self.ep.waits());
        waits.extend(self.executor.waits());
        Failure::Stalled { at, waits }
    }

    /// Payload of the job that NPUs sent of their own.
    fn payload(&self, report: &Report) -> u64 {
        let mut payload = report.sent - report.transit;
        for (cohort, sent_of_chunks) in self.cohorts.iter().zip(&report.sent_of_chunks) {
            if cohort.config.priced.is_empty() {
                continue;
            }
            let mut sent = vec![0; cohort.times.len()];
            for (seq, of_chunk) in (0..).map(ChunkId).zip(sent_of_chunks) {
                sent[cohort.admission.collective_of(seq).index()] += of_chunk;
            }
            for ((_, call), carried) in cohort.calls().zip(sent) {
                payload = payload - carried + cohort.payload(call, carried);
            }
        }
        payload
    }

    fn outcome(&mut self, end: Ps) -> Result<Outcome, Failure> {
        let books = self.net.books();
        let report = self.ep.report(end);
        // With everything drained nothing may be left in flight; a run that stops at its last
        // back-propagation leaves collectives behind, which must still not exceed what was sent.
        let balanced = if self.incomplete == 0 { books.are_settled() } else { books.in_flight().is_some() };
        let sent = report.sent.saturating_add(report.sent_by_switches);
        if !balanced || (self.incomplete == 0 && books.accepted != sent) {
            return Err(Failure::NotConserved { books, sent });
        }
        let cohorts = || self.cohorts.iter();
        Ok(Outcome {
            end,
            events: self.queue.0.popped(),
            payload: self.payload(&report),
            report,
            collectives: cohorts().map(|cohort| cohort.times.clone()).collect(),
            chunks: cohorts().map(|cohort| cohort.admission.all_pieces().collect()).collect(),
            started: self.started,
            phases: std::mem::take(&mut self.phases),
            books,
            wire: self.net.wire(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Policy;
    use crate::cohorts::CohortPart;
    use crate::collective_config::CollectiveConfig;
    use crate::graphs::{Computers, Graphs};
    use crate::job::Demand;
    use crate::pieces::{Chunking, LaneUse};
    use crate::place::FirstPlan;
    use crate::spec::Spec;
    use std::sync::Arc;
    use syncline_collective::{Algorithm, Axis, Composition, Kind, Plan, PlanId, PlanRequest, Rank, Split};
    use syncline_core::{Bytes, EventQueue, PortId, Rate, Schedule, Wait};
    use syncline_endpoint::{Ideal, MessageEndpoint, Space, Wires};
    use syncline_network::analytical::Event as Arrival;
    use syncline_network::{LinkUsage, Message, MsgId, Room, TrafficClass};
    use syncline_topology::{Block, Dimension, Product};
    use syncline_workload::compute::Npu;
    use syncline_workload::data_parallel::DataParallel;
    use syncline_workload::{ClassId, FamilyId, Layer, astra_text};

    /// A network that takes messages and delivers none.
    struct Silent {
        usage: LinkUsage,
        taken: u64,
    }

    impl Network for Silent {
        type Event = Arrival;

        fn open(&mut self, _: Message) -> MsgId {
            MsgId(0)
        }

        fn feed<Q: Schedule<Arrival>>(&mut self, _: Ps, _: MsgId, len: Bytes, _: &mut Q) {
            self.taken += len.0;
        }

        fn send<Q: Schedule<Arrival>>(&mut self, _: Ps, message: Message, _: &mut Q) {
            self.taken += message.len.0;
        }

        fn room(&mut self, _: Ps, _: NodeId, _: PortId, _: TrafficClass, _: Bytes) -> Room {
            Room::Now
        }

        fn release<Q: Schedule<Arrival>>(&mut self, _: Ps, _: NodeId, _: PortId, _: TrafficClass, _: &mut Q) {}

        fn handle<Q: Schedule<Arrival>>(&mut self, _: Ps, _: Arrival, _: &mut Q, _: &mut Vec<NetOut>) {}

        fn waits(&self) -> Vec<Wait> {
            vec![Wait { who: "a message".into(), what: "the network to speak".into() }]
        }

        fn books(&self) -> Books {
            Books { accepted: self.taken, ..Books::default() }
        }

        fn usage(&self) -> &LinkUsage {
            &self.usage
        }
    }

    fn layers() -> Vec<Layer> {
        let text = "DATA\n1\nconv -1 1000 NONE 0 0 NONE 0 1000 ALLREDUCE 4096 0\n";
        astra_text::parse(text).expect("a legal workload")
    }

    /// Nothing is ever delivered: the run names the layer that waits, the chunk, and what it waits for.
    #[test]
    fn a_stalled_run_says_who_waits_for_what() {
        let ring = Dimension { block: Block::Ring, size: 4, rate: Rate::UNLIMITED, latency: Ps(1), links: 1 };
        let torus = Arc::new(Product::new(vec![ring]).expect("a ring"));
        let split = Split { element: 1 };
        let axes = [Axis { size: 4, algorithm: Algorithm::Ring }];
        let composition = Composition::PerDimension;
        let request = PlanRequest { kind: Kind::AllReduce, composition, axes: &axes, root: Rank(0), order: None };
        let plan = Plan::new(request).expect("one phase");
        let layout = Layout::new(torus.clone(), Space::whole(vec![4]), vec![plan], &[Wires::Routed], split);
        let net = Silent { usage: LinkUsage::new(&torus, Ps(1000)), taken: 0 };
        let ep =
            MessageEndpoint::new(layout.clone(), Ideal { step: Ps(1), own: Ps(1), injection: Ps(0) }, 1, false, &[]);
        let npu = Npu::new(1.0, 1.0, 1.0).expect("a legal NPU");
        let source = Box::new(DataParallel::new(layers(), true));
        let computers = Computers { main: npu.clone(), background: npu, contended: None };
        let executor = Executor::new(Graphs::new(source, 2), computers, &[ClassId(0); 4], Ps(1000).into(), &[]);
        let config = CollectiveConfig {
            policy: Policy::Lifo,
            priority: Vec::new(),
            chunking: Chunking::Count { most: 1, least: 1 },
            chunking_of: vec![],
            priced: vec![],
            lanes: LaneUse::Alternate,
            split,
            padding: false,
            balance: None,
            inflight: 1,
            inflight_per_dimension: None,
        };
        let first_plans = vec![FirstPlan { kind: Kind::AllReduce, root: Rank(0), up_to: u64::MAX, plan: PlanId(0) }];
        let cohort = CohortPart { family: FamilyId(0), demand: Demand::default(), layout, config, first_plans };
        let cohorts = Cohorts::new(vec![cohort], Arc::default(), None);
        let mut simulation = Simulation::new(Queue(EventQueue::new()), net, ep, executor, cohorts, false);
        let Err(failure) = simulation.run() else { panic!("nothing was delivered") };
        let message = failure.to_string();
        assert!(message.starts_with("the simulation stalled at 2.000 us"), "{message}");
        for part in [
            "a message waits for the network to speak",
            "NPU 2 (2), chunk 0, all-reduce dim 0, step 1 waits for the message of NPU 1",
            "NPU 3, compute of conv forward of iteration 1 waits for the collective of conv weight_grad of iteration 0",
        ] {
            assert!(message.contains(part), "{part:?} is not in {message}");
        }
    }

    /// What the failure leaves out is counted.
    #[test]
    fn long_lists_of_waits_are_cut() {
        let wait = Wait { who: "x".into(), what: "y".into() };
        let failure = Failure::Stalled { at: Ps(0), waits: vec![wait; failure::WAITS_SHOWN + 3] };
        assert!(failure.to_string().ends_with("and 3 more"));
    }

    #[test]
    fn unknown_fields_of_a_description_are_refused() {
        assert!(serde_json::from_str::<Spec>(r#"{"dimms": []}"#).is_err());
    }
}
