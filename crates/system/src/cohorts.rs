//! Communicators that are alike, and what each such cohort of them shares.
//!
//! A family of communicators has groups of any sizes, whose members may be of several classes. The groups of a *cohort* have
//! the same size, and rank by rank their members are of the same class and in the same cohorts of all other families; so
//! they call for the same collectives in the same order. A cohort has a plan for each kind of collectives, a log of chunks
//! ([`Admission`]) and a room at every endpoint.

mod precedence;
mod signature;

pub use precedence::{Members, Precedence};
pub use signature::{Group, Signed, sign};

use crate::admission::{Admission, CollectiveId};
use crate::collective_config::CollectiveConfig;
use crate::executor::Executor;
use crate::graphs::Call;
use crate::job::Demand;
use crate::place::{FirstPlan, first_plan};
use crate::turns::Turns;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use syncline_core::{Bytes, NodeId, Ps, id_type};
use syncline_endpoint::{Held, Layout, RoomId};
use syncline_workload::{ClassId, FamilyId, RelativeRank};

id_type!(
    /// A cohort of communicators; its room at endpoints has the same number.
    CohortId: u16
);

impl CohortId {
    /// The cohort that a room is for.
    pub fn of(room: RoomId) -> CohortId {
        CohortId(room.0)
    }

    /// Its room.
    pub fn room(self) -> RoomId {
        RoomId(self.0)
    }
}

/// What a cohort is made of.
#[derive(Clone, Debug)]
pub struct CohortPart {
    /// Its family.
    pub family: FamilyId,
    /// What its communicators are asked for.
    pub demand: Demand,
    /// Where its plans lead.
    pub layout: Layout,
    /// How its collectives are carried out.
    pub config: CollectiveConfig,
    /// The first plan of every kind of collective, root and class of sizes.
    pub first_plans: Vec<FirstPlan>,
}

/// A collective of a cohort, as the first of its classes that asked for it has it.
#[derive(Clone, Copy, Debug)]
struct Known {
    class: ClassId,
    call: Call,
}

/// When a collective was issued, started and completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectiveTimes {
    /// First issue by any NPU.
    pub issued: Option<Ps>,
    /// First chunk started on any NPU.
    pub started: Option<Ps>,
    /// Completion on the last NPU.
    pub completed: Option<Ps>,
    /// NPUs on which it is complete.
    pub(crate) complete_on: u32,
}

/// A cohort during a run.
#[derive(Debug)]
pub struct Cohort {
    /// Its family.
    pub family: FamilyId,
    /// Where its plans lead.
    pub layout: Layout,
    /// How its collectives are carried out.
    pub config: CollectiveConfig,
    /// Its chunks in order.
    pub admission: Admission,
    /// Whose turn it is on each NPU, where collectives go one after the other.
    pub turns: Option<Turns>,
    /// Times of its collectives.
    pub times: Vec<CollectiveTimes>,
    /// NPUs that are in its groups.
    pub participants: u32,
    first_plans: Vec<FirstPlan>,
    known: Vec<Known>,
    /// Whether an NPU has asked, in this instant, to enter a chunk into the log.
    asked: bool,
}

impl Cohort {
    fn new(part: CohortPart) -> Cohort {
        let CohortPart { family, layout, config, first_plans, .. } = part;
        let npus = layout.npus();
        let mut admission = Admission::new(config.policy, config.priority.clone(), config.balance.clone(), npus);
        let turns = (!config.priced.is_empty()).then(|| Turns::new(npus));
        if turns.is_some() {
            admission.enter_whole();
        }
        Cohort {
            family,
            admission,
            turns,
            participants: (0..npus).filter(|&n| layout.takes_part(NodeId(n))).count() as u32,
            layout,
            config,
            times: Vec::new(),
            first_plans,
            known: Vec::new(),
            asked: false,
        }
    }

    /// The collectives of which it is known what they are, in order.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = (ClassId, Call)> + '_ {
        self.known.iter().map(|known| (known.class, known.call))
    }

    /// From the turn of a collective on an NPU until its first byte.
    pub fn launch(&self, id: CollectiveId) -> Ps {
        let call = self.known[id.index()].call;
        self.config.price(call.kind, Bytes(call.bytes)).map_or(Ps::ZERO, |priced| priced.launch)
    }

    /// What a collective holds of an NPU while it is in flight.
    pub fn held(&self, id: CollectiveId) -> Held {
        let call = self.known[id.index()].call;
        self.config.price(call.kind, Bytes(call.bytes)).map_or(Held::NOTHING, |priced| priced.held)
    }

    /// The payload of a collective that NPUs sent who sent so many of the bytes that it carries; rounded to the nearest byte.
    pub fn payload(&self, call: Call, carried: u64) -> u64 {
        if self.config.price(call.kind, Bytes(call.bytes)).is_none() {
            return carried;
        }
        let plan = first_plan(&self.first_plans, call.kind, call.root, call.bytes).expect("it was carried out");
        let (payload, of) = self.config.payload(self.layout.plan(plan), Bytes(call.bytes));
        let (scaled, of) = (u128::from(carried) * u128::from(payload), u128::from(of.max(1)));
        ((scaled + of / 2) / of) as u64
    }

    /// Makes known what the graph of a class, which asks for collective `id`, has been expanded to; says how many collectives
    /// are new.
    ///
    /// # Errors
    /// What the class does and what another one does, if these are different.
    pub fn make_known(
        &mut self,
        executor: &Executor,
        class: ClassId,
        id: CollectiveId,
    ) -> Result<u64, (String, String)> {
        let graph = executor.graphs().of(class);
        let calls = graph.calls(self.family);
        let call = graph.call(calls[id.index()]);
        let before = self.known.len();
        for &node in calls.iter().skip(before) {
            let call = graph.call(node);
            let plan = first_plan(&self.first_plans, call.kind, call.root, call.bytes)
                .expect("a plan is built for every collective in the graph");
            let pieces = self.config.pieces(self.layout.plan(plan), Bytes(call.bytes));
            self.admission.add(call.kind, plan, pieces);
            self.times.push(CollectiveTimes::default());
            self.known.push(Known { class, call });
        }
        let known = self.known[call.id.index()];
        if (known.call.kind, known.call.root, known.call.bytes) != (call.kind, call.root, call.bytes) {
            let name = |class: ClassId, call: Call| {
                let graph = executor.graphs().of(class);
                let node = graph.node(graph.calls(self.family)[call.id.index()]);
                let root =
                    if call.kind.is_rooted() { format!(" from or to rank {}", call.root) } else { String::new() };
                format!("the {} is {} of {} B{root}", executor.name(class, node), call.kind, call.bytes)
            };
            return Err((name(class, call), name(known.class, known.call)));
        }
        Ok((self.known.len() - before) as u64)
    }
}

/// All cohorts of a run.
#[derive(Debug)]
pub struct Cohorts {
    cohorts: Vec<Cohort>,
    npus: usize,
    /// By family and NPU, the cohort.
    of: Vec<Option<CohortId>>,
    /// The class of every NPU of the whole machine; none if there is one class.
    classes: Arc<[ClassId]>,
    precedence: Option<Precedence>,
}

impl Index<CohortId> for Cohorts {
    type Output = Cohort;

    #[inline]
    fn index(&self, id: CohortId) -> &Cohort {
        &self.cohorts[id.index()]
    }
}

impl IndexMut<CohortId> for Cohorts {
    #[inline]
    fn index_mut(&mut self, id: CohortId) -> &mut Cohort {
        &mut self.cohorts[id.index()]
    }
}

impl Cohorts {
    /// Cohorts of families numbered from zero, of which there is at least one; `classes` are those of all NPUs of the whole
    /// machine, none if there is one class, and `precedence` says in which order logs may be written, if it matters.
    pub fn new(parts: Vec<CohortPart>, classes: Arc<[ClassId]>, precedence: Option<Precedence>) -> Cohorts {
        let families = parts.iter().map(|part| part.family.index() + 1).max().unwrap_or(0);
        let cohorts: Vec<Cohort> = parts.into_iter().map(Cohort::new).collect();
        let npus = cohorts[0].layout.npus() as usize;
        let mut of = vec![None; families * npus];
        for (cohort, id) in cohorts.iter().zip((0..).map(CohortId)) {
            for npu in (0..npus as u32).map(NodeId).filter(|&npu| cohort.layout.takes_part(npu)) {
                of[cohort.family.index() * npus + npu.index()] = Some(id);
            }
        }
        let mut cohorts = Cohorts { cohorts, npus, of, classes, precedence };
        if cohorts.precedence.is_some() {
            cohorts.cohorts.iter_mut().for_each(|cohort| cohort.admission.hold());
        }
        cohorts
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Cohort> {
        self.cohorts.iter()
    }

    /// The layout of the first one.
    pub fn layout(&self) -> &Layout {
        &self.cohorts[0].layout
    }

    /// The cohort of an NPU's communicator in a family, if it is in one.
    #[inline]
    pub fn of(&self, family: FamilyId, npu: NodeId) -> Option<CohortId> {
        self.of.get(family.index() * self.npus + npu.index()).copied().flatten()
    }

    /// The cohorts of an NPU's communicators.
    pub fn of_npu(&self, npu: NodeId) -> impl Iterator<Item = CohortId> + '_ {
        self.of.iter().skip(npu.index()).step_by(self.npus).copied().flatten()
    }

    /// The class of an NPU of the whole machine.
    pub fn class(&self, whole: NodeId) -> ClassId {
        self.classes.get(whole.index()).copied().unwrap_or_default()
    }

    /// The NPU of the whole machine that is `peer` to an NPU in its communicator, and how many ranks on a message goes that
    /// the NPU sends there, or receives from there; `None` if it is in no communicator of the family.
    pub fn peer(&self, family: FamilyId, npu: NodeId, peer: RelativeRank, sends: bool) -> Option<(NodeId, u32)> {
        let layout = &self[self.of(family, npu)?].layout;
        let (size, rank) = (layout.group_size(), layout.rank(npu));
        let other = peer.of(rank, size);
        let (from, to) = if sends { (rank, other) } else { (other, rank) };
        Some((layout.member(npu, other), (to.0 + size - from.0) % size))
    }

    /// Whether chunks are entered into logs at the end of an instant only. Where all NPUs run one graph and a
    /// family is one cohort, those that choose in an instant choose alike, and the first of them need not wait.
    pub fn waits_for_instant(&self) -> bool {
        self.precedence.is_some()
    }

    /// An NPU asks to enter a chunk at the end of the instant; true if it is the first to do so in any cohort.
    pub fn ask_to_enter(&mut self, id: CohortId) -> bool {
        let first = !self.cohorts.iter().any(|cohort| cohort.asked);
        self.cohorts[id.index()].asked = true;
        first
    }

    /// The cohorts in which an NPU has asked, none of which is one afterwards.
    pub fn that_asked(&mut self) -> Vec<CohortId> {
        let cohorts = self.cohorts.iter_mut().zip((0..).map(CohortId));
        cohorts.filter_map(|(cohort, id)| std::mem::take(&mut cohort.asked).then_some(id)).collect()
    }

    /// A collective has been entered into the log of a cohort to its end.
    pub fn entered(&mut self, cohort: CohortId, collective: CollectiveId) {
        if let Some(precedence) = &mut self.precedence {
            precedence.entered(cohort, collective);
        }
    }

    /// A cohort of which one more collective may now be entered into its log, and how many of its collectives are new.
    ///
    /// # Errors
    /// What two classes do, if they disagree.
    pub fn permit(&mut self, executor: &Executor) -> Result<Option<(CohortId, u64)>, (String, String)> {
        let Some(precedence) = self.precedence.as_mut() else { return Ok(None) };
        let Some((id, collective, class)) = precedence.next(executor.graphs()) else { return Ok(None) };
        let cohort = &mut self.cohorts[id.index()];
        let added = cohort.make_known(executor, class, collective)?;
        if cohort.admission.permit(collective) {
            precedence.entered(id, collective); // there is nothing to enter
        }
        Ok(Some((id, added)))
    }
}
