//! What a run will do, known before its first event.
//!
//! Messages are counted on some NPUs and scaled to all: on the roots, and on a random sample of the others. Those of
//! long programs are counted at some of their steps. So the counts are exact where NPUs are alike, and an estimate where
//! they have different roles.

use crate::cohorts::CohortPart;
use crate::pipeline::slices_of;
use crate::place::{FirstPlan, first_plan};
use crate::setup::RunPlan;
use crate::spec::Spec;
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_collective::{Kind, Plan, PlanId, Rank, Slot, Step};
use syncline_core::queue::SplitMix64;
use syncline_core::{Bytes, NodeId, PortId};
use syncline_endpoint::layout::PhaseView;
use syncline_endpoint::{Chunk, Layout};
use syncline_network::Route;
use syncline_topology::{Fabric, all_links};
use syncline_workload::{ClassId, FamilyId};

/// NPUs that are looked at, unless they are fewer.
const SAMPLE: u32 = 32;
/// Steps of all NPUs after which no further NPU is looked at.
const MOST_STEPS: u64 = 1 << 20;
/// Steps of a thread that are looked at, and twice as many at most.
const STEPS: u32 = 1 << 13;
/// Classes of links whose load is counted. A fabric with more of them has no [`Preview::busy_ps`].
const CLASSES: usize = 16;

/// What a run will do. Counts of one NPU are those of the first that takes part; those of a run are of all simulated NPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// NPUs of the machine.
    pub npus: u32,
    /// NPUs that will be simulated.
    pub simulated_npus: u32,
    /// Links that will be simulated.
    pub simulated_links: u32,
    /// Why the run will not be folded, if it will not.
    pub unfolded: Option<String>,
    /// Rounds of messages of a chunk.
    pub steps: u32,
    /// Slices of its pipelines, if it has any, and all have as many.
    pub slices: Option<u32>,
    /// Chunks of all collectives.
    pub chunks: u64,
    /// Bytes of the largest chunk.
    pub chunk_bytes: u64,
    /// Messages that the first NPU sends.
    pub messages_per_npu: u64,
    /// Bytes that it sends.
    pub bytes_sent_per_npu: u64,
    /// Bytes of all all-reduces of an iteration: in training, the gradients that an NPU holds.
    pub gradient_bytes: u64,
    /// Messages of the run.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Payload of the job in the messages of all NPUs of the machine, as `sent_bytes` of the summary.
    pub payload_bytes: u64,
    /// Messages times the links that they cross.
    pub message_hops: u64,
    /// Packets of the run; without packets, messages.
    pub packets: u64,
    /// Packets times the links that they cross.
    pub packet_hops: u64,
    /// Bytes times the links that they cross.
    pub byte_hops: u64,
    /// Of [`message_hops`](Preview::message_hops), those of messages that are flows in a network of packets.
    pub flow_message_hops: u64,
    /// Of [`byte_hops`](Preview::byte_hops), those of such messages.
    pub flow_byte_hops: u64,
    /// Compute nodes of all iterations on all simulated NPUs.
    pub kernels: u64,
    /// Bytes of memory that the engine will take.
    pub memory_bytes: u64,
    /// What no schedule of a single collective can beat.
    pub lower_bound_ps: u64,
    /// For how long this schedule keeps the links of the busiest class busy, if it loads all links of the class alike, or a
    /// link on which a root sends or receives: it cannot take less time. As exact as the counts are; of roots alone on
    /// fabrics with many classes of links.
    pub busy_ps: u64,
    /// Of switch offload: what is done in switches, and what is left to the NPUs.
    pub offloaded: Option<String>,
    /// Remarks for people.
    pub warnings: Vec<String>,
}

/// The number, if all are the same one.
fn same(mut numbers: impl Iterator<Item = u32>) -> Option<u32> {
    let first = numbers.next()?;
    numbers.all(|number| number == first).then_some(first)
}

/// Messages, bytes and packets, and the same times the links that they cross.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    messages: f64,
    bytes: f64,
    /// Bytes of the job in them.
    payload: f64,
    packets: f64,
    message_hops: f64,
    byte_hops: f64,
    packet_hops: f64,
    flow_message_hops: f64,
    flow_byte_hops: f64,
    /// Bytes times the links of each class that they cross.
    class_byte_hops: [f64; CLASSES],
}

impl Traffic {
    fn add(&mut self, other: &Traffic, times: f64) {
        self.messages += other.messages * times;
        self.bytes += other.bytes * times;
        self.payload += other.payload * times;
        self.packets += other.packets * times;
        self.message_hops += other.message_hops * times;
        self.byte_hops += other.byte_hops * times;
        self.packet_hops += other.packet_hops * times;
        self.flow_message_hops += other.flow_message_hops * times;
        self.flow_byte_hops += other.flow_byte_hops * times;
        for (sum, more) in self.class_byte_hops.iter_mut().zip(other.class_byte_hops) {
            *sum += more * times;
        }
    }

    /// Some messages of so many bytes over such a way each.
    fn of(messages: f64, len: u64, way: Way, packet: Option<u64>) -> Traffic {
        let packets = messages * packet.map_or(1, |packet| len.div_ceil(packet).max(1)) as f64;
        let (bytes, hops) = (messages * len as f64, f64::from(way.links));
        let (message_hops, byte_hops, packet_hops) = (messages * hops, bytes * hops, packets * hops);
        let (flow_message_hops, flow_byte_hops) = if way.is_flow { (message_hops, byte_hops) } else { (0.0, 0.0) };
        let class_byte_hops = way.classes.map(|links| bytes * f64::from(links));
        Traffic {
            messages,
            bytes,
            payload: bytes,
            packets,
            message_hops,
            byte_hops,
            packet_hops,
            flow_message_hops,
            flow_byte_hops,
            class_byte_hops,
        }
    }
}

/// The way of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    links: u32,
    /// Whether what takes it is a flow in a network of packets.
    is_flow: bool,
    /// Links of each class on it.
    classes: [u32; CLASSES],
}

/// The ways of a network.
struct WaysOf<'a> {
    fabric: &'a dyn Fabric,
    /// By class of links: whether messages that take no others are flows.
    flows: Vec<bool>,
}

impl<'a> WaysOf<'a> {
    fn new(fabric: &'a dyn Fabric, spec: &Spec) -> WaysOf<'a> {
        let named = spec.network.model().flow_classes();
        WaysOf { fabric, flows: fabric.class_names().iter().map(|name| named.contains(name)).collect() }
    }

    /// The way of a message.
    fn way(&self, from: NodeId, route: Route) -> Way {
        let mut way = Way { is_flow: true, ..Way::default() };
        for (at, port) in self.links(from, route) {
            let class = usize::from(self.fabric.link(at, port).class);
            way.links += 1;
            way.is_flow &= self.flows[class];
            if let Some(links) = way.classes.get_mut(class) {
                *links += 1;
            }
        }
        way.is_flow &= way.links > 0;
        way
    }

    /// The links on it.
    fn links(&self, from: NodeId, route: Route) -> impl Iterator<Item = (NodeId, PortId)> + use<'a> {
        let (fabric, mut path, mut at) = (self.fabric, Vec::new(), from);
        route.append(fabric, from, &mut path);
        path.into_iter().map(move |port| {
            let next = fabric.next(at, port).0;
            (std::mem::replace(&mut at, next), port)
        })
    }
}

/// What an NPU sends, and what it receives.
#[derive(Clone, Copy, Debug, Default)]
struct Both {
    sent: Traffic,
    received: Traffic,
}

/// Looks at programs, and keeps what it has seen.
struct Counter<'a> {
    plan: &'a RunPlan,
    cohort: &'a CohortPart,
    ways: &'a WaysOf<'a>,
    packet: Option<u64>,
    /// Steps that were looked at.
    looked_at: u64,
}

impl Counter<'_> {
    /// What an NPU sends and receives in all collectives of an iteration.
    fn of_npu(&mut self, npu: NodeId) -> Both {
        let mut all = Both::default();
        let mut known: BTreeMap<(PlanId, u64), Both> = BTreeMap::new();
        for Piece { plan: number, len, count, payload_share } in self.plan.pieces(self.cohort) {
            let chunk = Chunk { len: Bytes(len), plan: number, lane: 0 };
            let mut of_chunk = *known.entry((number, len)).or_insert_with(|| self.of_chunk(npu, chunk));
            of_chunk.sent.payload *= payload_share;
            of_chunk.received.payload *= payload_share;
            all.sent.add(&of_chunk.sent, count as f64);
            all.received.add(&of_chunk.received, count as f64);
        }
        all
    }

    fn of_chunk(&mut self, npu: NodeId, chunk: Chunk) -> Both {
        let folded = self.cohort.layout.is_folded();
        let mut both = Both::default();
        let (ways, packet) = (self.ways, self.packet);
        self.each_step(npu, chunk, |view, slot, step, each| {
            let len = view.len(step);
            if step.op.sends() {
                let way = ways.way(npu, view.route(slot, step));
                both.sent.add(&Traffic::of(each, len, way, packet), 1.0);
            }
            if step.op.receives() {
                // What comes through a port of a neighbour or a switch that adds has taken one link.
                let way = if folded || view.port().is_some() {
                    Way { links: 1, ..Way::default() }
                } else {
                    ways.way(view.sender(step), Route::To(npu))
                };
                both.received.add(&Traffic::of(each, len, way, packet), 1.0);
            }
        });
        both
    }

    /// Steps of an NPU for a chunk, and for how many each stands.
    fn each_step(&mut self, npu: NodeId, chunk: Chunk, mut look: impl FnMut(&PhaseView<'_>, Slot, &Step, f64)) {
        let layout = &self.cohort.layout;
        for phase in layout.plan(chunk.plan).phase_ids() {
            let view = layout.view(npu, chunk, phase);
            for thread in 0..view.threads() {
                let steps = view.steps(thread);
                let apart = (steps / STEPS).max(1);
                let looked_at = steps.div_ceil(apart);
                self.looked_at += u64::from(looked_at);
                let each = f64::from(steps) / f64::from(looked_at.max(1));
                for pc in (0..steps).step_by(apart as usize) {
                    let slot = Slot { thread, pc };
                    look(&view, slot, &view.step(slot), each);
                }
            }
        }
    }

    /// Seconds for which what roots send, or what they receive, keeps a link busy in an iteration.
    fn busy_s_of_roots(&mut self) -> f64 {
        let layout = &self.cohort.layout;
        let mut most = 0.0f64;
        let is_rooted = layout.plans().any(|plan| plan.kind().is_rooted());
        // Chunks are counted on the first of several lanes, which all of them do not take.
        if layout.is_folded() || layout.lanes() > 1 || !is_rooted {
            return most;
        }
        let roots: Vec<Rank> = self.cohort.demand.uses().into_iter().map(|(_, root)| root).collect();
        let npus = (0..layout.npus()).map(NodeId);
        let ways = self.ways;
        for npu in npus.filter(|&npu| layout.takes_part(npu) && roots.contains(&layout.rank(npu))) {
            let mut loads: [BTreeMap<(NodeId, PortId), f64>; 2] = [BTreeMap::new(), BTreeMap::new()];
            for Piece { plan, len, count, .. } in self.plan.pieces(self.cohort) {
                let chunk = Chunk { len: Bytes(len), plan, lane: 0 };
                self.each_step(npu, chunk, |view, slot, step, each| {
                    let mut add = |way: usize, from: NodeId, route: Route| {
                        for (at, port) in ways.links(from, route) {
                            let rate = ways.fabric.link(at, port).rate.bytes_per_s() as f64;
                            *loads[way].entry((at, port)).or_default() +=
                                each * view.len(step) as f64 * count as f64 / rate;
                        }
                    };
                    if step.op.sends() {
                        add(0, npu, view.route(slot, step));
                    }
                    if step.op.receives() && view.port().is_none() {
                        add(1, view.sender(step), Route::To(npu));
                    }
                });
            }
            most = loads.iter().flat_map(BTreeMap::values).fold(most, |most, &seconds| most.max(seconds));
        }
        most
    }

    /// What all NPUs send in all collectives of an iteration.
    fn of_all(&mut self, first: Both) -> Traffic {
        let layout = &self.cohort.layout;
        let active: Vec<NodeId> = (0..layout.npus()).map(NodeId).filter(|&n| layout.takes_part(n)).collect();
        let rooted = layout.plans().any(|plan| plan.kind().is_rooted());
        let roots: Vec<Rank> = self.cohort.demand.uses().into_iter().map(|(_, root)| root).collect();
        let is_root = |npu: NodeId| rooted && roots.contains(&layout.rank(npu));
        let (roots, others): (Vec<NodeId>, Vec<NodeId>) = active.iter().partition(|&&npu| is_root(npu));
        // What is sent somewhere is received somewhere: where it is spread more evenly, the sample sees more of it.
        let mut sent = Traffic::default();
        let mut received = Traffic::default();
        for members in [roots, others] {
            let (sample, all) = (self.sample(&members, first), members.len() as f64);
            let each = all / (sample.len() as f64).max(1.0);
            for both in &sample {
                sent.add(&both.sent, each);
                received.add(&both.received, each);
            }
        }
        // On a folded fabric it is not known from where messages come, and NPUs of a class send as much as they receive.
        if received.messages > sent.messages && !layout.is_folded() { received } else { sent }
    }

    /// What some of these NPUs send and receive; all of them if they are few. The first NPU is known.
    fn sample(&mut self, members: &[NodeId], first: Both) -> Vec<Both> {
        if self.cohort.layout.is_folded() && members.len() == 1 {
            return vec![first];
        }
        let mut random = SplitMix64(members.len() as u64);
        let before = self.looked_at;
        let count = members.len().min(SAMPLE as usize);
        let mut found = Vec::new();
        for i in 0..count {
            let at = if members.len() > count { random.below(members.len()) } else { i };
            found.push(self.of_npu(members[at]));
            if self.looked_at - before > MOST_STEPS {
                break;
            }
        }
        found
    }
}

/// Pieces of a collective that are equally long.
struct Piece {
    /// The number of its plan.
    plan: PlanId,
    len: u64,
    count: u64,
    /// Bytes that the job names for each byte that the collective carries.
    payload_share: f64,
}

/// The first NPU that sends a message, the layout of its communicator, and how many do.
type Senders<'a> = Option<(NodeId, &'a Layout, u32)>;

impl RunPlan {
    /// The pieces of all collectives of an iteration of a cohort.
    fn pieces(&self, cohort: &CohortPart) -> Vec<Piece> {
        let mut found: Vec<Piece> = Vec::new();
        for &FirstPlan { kind, root, plan: number, .. } in &cohort.first_plans {
            let plan = cohort.layout.plan(number);
            let sizes = cohort.demand.sizes_from(kind, root);
            for size in sizes.filter(|&size| first_plan(&cohort.first_plans, kind, root, size) == Some(number)) {
                let runs = cohort.config.pieces(plan, Bytes(size)).runs();
                let (payload, carried) = cohort.config.payload(plan, Bytes(size));
                let payload_share = payload as f64 / (carried as f64).max(1.0);
                found.extend(runs.map(|(len, count)| Piece { plan: number, len, count, payload_share }));
            }
        }
        found.retain(|piece| piece.count > 0);
        found
    }

    /// What all NPUs send to single ranks in an iteration, as the first NPU of each class does, or the first with the rank that
    /// sends.
    fn sends(&self, ways: &WaysOf<'_>, packet: Option<u64>) -> Traffic {
        let layout = self.layout();
        let mut all = Traffic::default();
        let mut known: BTreeMap<(ClassId, FamilyId, Option<Rank>), Senders<'_>> = BTreeMap::new();
        for send in &self.job.sends {
            let family = send.message.family;
            let senders = || {
                let mut senders = (0..layout.npus()).map(NodeId).filter_map(|npu| {
                    let class = self.classes.get(layout.whole(npu).index()).copied().unwrap_or_default();
                    let mut cohorts = self.cohorts.iter().filter(|cohort| cohort.family == family);
                    let cohort = cohorts.find(|cohort| class == send.class && cohort.layout.takes_part(npu))?;
                    let sends = send.from.is_none_or(|from| cohort.layout.rank(npu) == from);
                    sends.then_some((npu, &cohort.layout))
                });
                let (first, of_first) = senders.next()?;
                Some((first, of_first, 1 + senders.count() as u32))
            };
            let found = *known.entry((send.class, family, send.from)).or_insert_with(senders);
            let Some((first, of_first, count)) = found else { continue };
            let peer = send.message.peer.of(of_first.rank(first), of_first.group_size());
            let way = ways.way(first, Route::To(of_first.member(first, peer)));
            all.add(&Traffic::of(1.0, send.message.size.0, way, packet), count.into());
        }
        all
    }

    /// Seconds for which bytes keep the links of the busiest class busy, if all links of a class carry as many of them.
    fn busiest_class_s(&self, byte_hops: &[f64; CLASSES]) -> f64 {
        let mut rates = vec![0.0; self.fabric.class_names().len()];
        if rates.len() > CLASSES {
            return 0.0;
        }
        for (node, port) in all_links(&*self.fabric) {
            let link = self.fabric.link(node, port);
            rates[usize::from(link.class)] += link.rate.bytes_per_s() as f64;
        }
        let seconds = byte_hops.iter().zip(rates).filter(|(_, rate)| *rate > 0.0).map(|(bytes, rate)| bytes / rate);
        seconds.fold(0.0, f64::max)
    }

    /// Slices of its pipelines, if it has any, and all have as many.
    pub fn slices(&self) -> Option<u32> {
        let plans = self.cohorts.iter().flat_map(|cohort| cohort.layout.plans());
        same(plans.flat_map(Plan::phases).filter_map(slices_of))
    }

    /// Phases of a collective, at most.
    pub fn phases(&self) -> u32 {
        let plans = self.cohorts.iter().flat_map(|cohort| cohort.layout.plans());
        plans.map(|plan| plan.phases().len() as u32).max().unwrap_or(0)
    }

    /// Looks ahead. How much memory the run takes is found from what this counts ([`crate::run_memory`]).
    pub fn preview(&self, spec: &Spec) -> Preview {
        let layout = self.layout();
        let packet = spec.network.model().packet_bytes().map(|bytes| u64::from(bytes.max(1)));
        let mut first = Both::default();
        let ways = WaysOf::new(&*self.fabric, spec);
        let mut all = self.sends(&ways, packet);
        let (mut chunks, mut busy_s_of_roots) = (0u64, 0.0f64);
        for cohort in &self.cohorts {
            let mut counter = Counter { plan: self, cohort, ways: &ways, packet, looked_at: 0 };
            let of_first = counter.of_npu(cohort.layout.first());
            if cohort.layout.takes_part(layout.first()) {
                first.sent.add(&of_first.sent, 1.0);
            }
            all.add(&counter.of_all(of_first), 1.0);
            busy_s_of_roots = busy_s_of_roots.max(counter.busy_s_of_roots());
            chunks = self.pieces(cohort).iter().fold(chunks, |sum, piece| sum.saturating_add(piece.count));
        }
        let times = f64::from(self.job.iterations);
        let kernels = self.job.kernels * u64::from(self.job.iterations);
        let count = |n: f64| (n * times).round() as u64; // the conversion saturates
        let plans = || self.cohorts.iter().flat_map(|cohort| cohort.layout.plans());
        let gradients = |cohort: &CohortPart| cohort.demand.sizes(Kind::AllReduce).fold(0, u64::saturating_add);
        Preview {
            npus: self.folding.npus,
            simulated_npus: self.fabric.npus(),
            simulated_links: self.fabric.links(),
            unfolded: self.folding.unfolded.clone(),
            steps: plans().map(Plan::steps).max().unwrap_or(0),
            slices: self.slices(),
            chunks: chunks.saturating_mul(self.job.iterations.into()),
            chunk_bytes: self.cohorts.iter().map(|cohort| self.largest_chunk(cohort).0).max().unwrap_or(0),
            messages_per_npu: count(first.sent.messages),
            bytes_sent_per_npu: count(first.sent.bytes),
            gradient_bytes: self.cohorts.iter().map(gradients).max().unwrap_or(0),
            messages: count(all.messages),
            bytes: count(all.bytes),
            payload_bytes: count(all.payload * self.folding.multiplicity as f64),
            message_hops: count(all.message_hops),
            packets: count(all.packets),
            packet_hops: count(all.packet_hops),
            byte_hops: count(all.byte_hops),
            flow_message_hops: count(all.flow_message_hops),
            flow_byte_hops: count(all.flow_byte_hops),
            kernels: kernels.saturating_mul(self.fabric.npus().into()),
            memory_bytes: 0,
            lower_bound_ps: self.folding.bound(spec).map_or(0, |b| b.time.0),
            busy_ps: (self.busiest_class_s(&all.class_byte_hops).max(busy_s_of_roots) * times * 1e12) as u64, // saturates
            offloaded: self.folding.offloaded.clone(),
            warnings: self.folding.remarks.clone(),
        }
    }
}
