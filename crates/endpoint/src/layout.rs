//! Where programs lead on a fabric, and which bytes of a chunk each NPU works on.
//!
//! The one place where plans meet nodes: a [`Space`] says which NPUs form groups and how the ranks of a
//! group form a grid; [`Wires`] say how the steps of a ring reach their neighbours along each dimension
//! of the grid. Endpoints ask for a [`PhaseView`] and know nothing else of either.

use crate::api::Chunk;
use std::sync::Arc;
use syncline_collective::{
    Blocks, Kind, LineRank, Pace, Phase, PhaseId, Plan, PlanId, Program, Rank, Slot, Split, Step, Way,
};
use syncline_core::{Bytes, Grid, Id, NodeId, PortId};
use syncline_network::Route;
use syncline_topology::Fabric;

/// Which NPUs run a collective together.
///
/// All groups have the same number of ranks and run the same collectives at the same time.
#[derive(Clone, Debug)]
pub struct Space {
    /// Ranks along each dimension of a group's grid, the first one innermost. Plans may have phases along
    /// one dimension more: the line of all ranks of a group.
    pub sizes: Vec<u32>,
    /// The members of each group by rank, as numbers of the whole machine; `None` for one group of all
    /// NPUs, whose ranks are their numbers.
    pub groups: Option<Vec<Vec<NodeId>>>,
    /// The classes of the links along each dimension; its number if left out.
    pub classes: Option<Vec<u8>>,
    /// Of a folded fabric: the NPU of the whole machine that each simulated NPU stands for.
    pub representatives: Option<Vec<NodeId>>,
}

impl Space {
    /// All NPUs of a fabric, on a grid.
    pub fn whole(sizes: Vec<u32>) -> Space {
        Space { sizes, groups: None, classes: None, representatives: None }
    }
}

/// Another order of the ranks of a line, for a ring that goes from place to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingOrder {
    /// Per place, the rank there.
    pub ranks: Vec<LineRank>,
    /// Per place, the port that leads to the next place, if the ring is bound to links.
    pub ports: Option<Vec<PortId>>,
}

impl RingOrder {
    /// The same ring, beginning with a rank.
    fn from(&self, rank: LineRank) -> RingOrder {
        let mut ring = self.clone();
        let place = ring.ranks.iter().position(|&r| r == rank).unwrap_or(0);
        ring.ranks.rotate_left(place);
        ring.ports.iter_mut().for_each(|ports| ports.rotate_left(place));
        ring
    }

    /// Makes the first place that of another number.
    fn turn(&mut self, first: LineRank) {
        self.ranks.rotate_right(first.index());
        self.ports.iter_mut().for_each(|ports| ports.rotate_right(first.index()));
    }
}

/// How rings run along a dimension. Every lane is a ring of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wires {
    /// Messages are routed; one lane in the order of ranks.
    Routed,
    /// The same port on every NPU leads to the next rank, up or down. One lane for each.
    Ports(Vec<(PortId, bool)>),
    /// Rings in orders of their own, per lane and group.
    Orders(Vec<Vec<RingOrder>>),
}

/// How the steps of a lane reach their peers.
#[derive(Clone, Debug)]
enum Wiring {
    Routed,
    Port(PortId),
    /// To the switch of the line: per NPU, the port that leads there.
    Switch(Arc<[PortId]>),
    /// Per group: the ring, and per rank its place.
    Order(Arc<[(RingOrder, Vec<LineRank>)]>),
}

#[derive(Clone, Debug)]
struct Lane {
    program: Program,
    wiring: Wiring,
    /// Whether blocks are those of ranks; in a broadcast or reduce they are slices.
    of_ranks: bool,
}

/// What a group does in a lane of a phase.
#[derive(Clone, Debug)]
pub struct LaneOfGroup<'a> {
    /// What its ranks do, or if there is an order, its places.
    pub program: &'a Program,
    /// The rank at each place, if the lane is a ring with an order of its own.
    pub order: Option<&'a [LineRank]>,
    /// For each place, which of the parallel links to the next one it sends over, if not just that of the route.
    pub links: Option<Vec<u16>>,
}

#[derive(Clone, Debug)]
struct PlanLayout {
    plan: Plan,
    /// Per phase, its lanes.
    phases: Vec<Vec<Lane>>,
}

/// What all endpoints know of the machine.
#[derive(Clone, Debug)]
pub struct Layout {
    fabric: Arc<dyn Fabric>,
    /// The grid of a group; the line of all ranks is a dimension of it if plans have phases along it.
    grid: Grid,
    /// Per NPU its group (`u32::MAX`: none) and rank, and its coordinates; shared by the copies that
    /// layers hold.
    places: Arc<[(u32, Rank)]>,
    coordinates: Arc<[u32]>,
    members: Option<Arc<[Vec<NodeId>]>>,
    /// The classes of the links along each dimension, if they are not numbered like dimensions.
    classes: Option<Vec<u8>>,
    /// Per NPU the one of the whole machine that it stands for; `None` for itself.
    representatives: Option<Arc<[NodeId]>>,
    plans: Vec<PlanLayout>,
    /// Per dimension and NPU, the port to the switch of its line, if there is one.
    switch_ports: Vec<Option<Arc<[PortId]>>>,
    split: Split,
}

/// How one phase of a chunk looks from one NPU.
#[derive(Clone, Copy, Debug)]
pub struct PhaseView<'a> {
    layout: &'a Layout,
    lane: &'a Lane,
    npu: NodeId,
    dim: u8,
    takes_part: bool,
    /// The NPU's number in the program: its coordinate along the phase's dimension, or its place in a
    /// ring with an order of its own.
    pub rank: LineRank,
    /// Bytes that the phase's blocks are cut from.
    pub vector: u64,
}

impl<'a> PhaseView<'a> {
    /// The program.
    pub fn program(&self) -> &'a Program {
        &self.lane.program
    }

    /// Threads of the program.
    pub fn threads(&self) -> u16 {
        self.lane.program.threads()
    }

    /// Number of steps of a thread.
    #[inline]
    pub fn steps(&self, thread: u16) -> u32 {
        if self.takes_part { self.lane.program.steps(self.rank, thread) } else { 0 }
    }

    /// A step.
    #[inline]
    pub fn step(&self, at: Slot) -> Step {
        self.lane.program.step(self.rank, at)
    }

    /// When a message that follows that of a step in its thread is sent.
    #[inline]
    pub fn pace(&self, at: Slot) -> Pace {
        self.lane.program.pace(self.rank, at)
    }

    /// The step of another thread that a step waits for.
    #[inline]
    pub fn after(&self, at: Slot) -> Option<Slot> {
        self.lane.program.detail(self.rank, at).after
    }

    /// A step of the switch of the NPU's line.
    pub fn switch_step(&self, at: Slot) -> Step {
        self.lane.program.step(LineRank(self.lane.program.ranks()), at)
    }

    /// Bytes that a step carries: those of its blocks.
    #[inline]
    pub fn len(&self, step: &Step) -> u64 {
        match self.ring() {
            Some(ring) if self.lane.of_ranks => self.len_in_order(ring, step.blocks),
            _ => self.layout.split.run(self.vector, self.lane.program.parts(), step.blocks.first, step.blocks.count),
        }
    }

    /// Bytes of some blocks of places of a ring with an order of its own. Apart from [`PhaseView::len`], which every step
    /// asks for and few rings take this way.
    #[inline(never)]
    fn len_in_order(&self, ring: &RingOrder, blocks: Blocks) -> u64 {
        let parts = self.lane.program.parts();
        // The blocks of a place are those of the rank there.
        let each = parts / ring.ranks.len() as u32;
        let of_rank = |i: u32| {
            let block = (blocks.first + i) % parts;
            ring.ranks[(block / each) as usize].0 * each + block % each
        };
        (0..blocks.count).map(|i| self.layout.split.share(self.vector, parts, of_rank(i)).1).sum()
    }

    /// Length of a block of the program.
    pub fn share(&self, block: u32) -> u64 {
        self.layout.split.share(self.vector, self.lane.program.parts(), block).1
    }

    /// Bytes of the vector that are the NPU's own share, of one or more blocks: what an all-to-all leaves where it is.
    pub fn kept(&self) -> u64 {
        let parts = self.lane.program.parts();
        let each = parts / self.lane.program.ranks();
        self.layout.split.run(self.vector, parts, self.rank.0 * each, each)
    }

    /// Whether the blocks that a step works on are of the NPU's own share.
    pub fn is_own(&self, step: &Step) -> bool {
        let each = self.lane.program.parts() / self.lane.program.ranks();
        step.blocks.first / each == self.rank.0
    }

    /// The port by which everything leaves, if it is the same throughout the phase.
    pub fn port(&self) -> Option<PortId> {
        match self.lane.wiring {
            Wiring::Port(port) => Some(port),
            Wiring::Switch(ref ports) => Some(ports[self.npu.index()]),
            Wiring::Routed | Wiring::Order(_) => None,
        }
    }

    /// The way of what a step sends. Every message asks for it.
    #[inline(always)]
    pub fn route(&self, at: Slot, step: &Step) -> Route {
        match self.port() {
            Some(port) => Route::Port(port),
            None => self.route_to_peer(at, step),
        }
    }

    /// The way of what a step sends by no port of the whole phase.
    #[inline(never)]
    fn route_to_peer(&self, at: Slot, step: &Step) -> Route {
        let ring = self.ring();
        if let Some(ports) = ring.and_then(|ring| ring.ports.as_ref()) {
            return Route::Port(ports[self.rank.index()]);
        }
        let there = self.node(step.to);
        match self.lane.program.way(self.rank, at, step) {
            Way::Route => Route::To(there), // by far the most
            Way::Choice(choice) => Route::By(there, choice),
            Way::Over(_) | Way::Through(_) => {
                unreachable!("names are choices of a route once their program has a place")
            }
            Way::Link(number) => Route::Port(self.layout.parallel_link(self.npu, there, number)),
        }
    }

    /// The node that a step receives from, as a number of the whole machine.
    pub fn sender(&self, step: &Step) -> NodeId {
        self.node(step.from)
    }

    /// The node that a step receives from, for people.
    pub fn sender_name(&self, step: &Step) -> String {
        match &self.lane.wiring {
            Wiring::Switch(ports) => {
                let (switch, _) = self.layout.fabric.next(self.npu, ports[self.npu.index()]);
                self.layout.fabric.node_name(switch)
            }
            _ => format!("NPU {}", self.sender(step)),
        }
    }

    fn node(&self, rank: LineRank) -> NodeId {
        let rank = self.ring().map_or(rank, |ring| ring.ranks[rank.index()]);
        self.layout.peer(self.npu, self.dim, rank)
    }

    /// The order of the ring, if it has one of its own.
    #[inline]
    fn ring(&self) -> Option<&'a RingOrder> {
        match &self.lane.wiring {
            Wiring::Port(_) | Wiring::Switch(_) | Wiring::Routed => None,
            Wiring::Order(rings) => Some(&rings[self.layout.places[self.npu.index()].0 as usize].0),
        }
    }
}

impl Layout {
    /// The layout of `plans` on a fabric; `wires` are those of each dimension of the grid, and of the line
    /// of all ranks if plans have phases along it; blocks are cut by `split`.
    pub fn new(fabric: Arc<dyn Fabric>, space: Space, plans: Vec<Plan>, wires: &[Wires], split: Split) -> Layout {
        let Space { sizes, groups, classes, representatives } = space;
        let grid = Grid::new(sizes);
        let grid = if wires.len() > grid.dims() { grid.with_line_of_all() } else { grid };
        let whole = |npu: u32| representatives.as_ref().map_or(NodeId(npu), |r| r[npu as usize]);
        let place_of = groups.as_ref().map(|groups| {
            let most = groups.iter().flatten().map(|n| n.0 + 1).max().unwrap_or(0);
            let mut places = vec![(u32::MAX, Rank(0)); most as usize];
            for (group, members) in (0..).zip(groups) {
                for (rank, member) in (0..).map(Rank).zip(members) {
                    places[member.index()] = (group, rank);
                }
            }
            places
        });
        let place = |npu: u32| match &place_of {
            None => (0, Rank(whole(npu).0)),
            Some(places) => places.get(whole(npu).index()).copied().unwrap_or((u32::MAX, Rank(0))),
        };
        let places: Arc<[(u32, Rank)]> = (0..fabric.npus()).map(place).collect();
        let coordinates = places.iter().flat_map(|&(_, rank)| grid.coordinates(rank.0)).collect();
        let members: Option<Arc<[Vec<NodeId>]>> = groups.map(Into::into);
        let layout = |plan: Plan| {
            let lanes = |(i, p): (PhaseId, &Phase)| lanes(&plan, i, &wires[usize::from(p.dim)]);
            let phases = plan.phase_ids().zip(plan.phases()).map(lanes).collect();
            PlanLayout { phases, plan }
        };
        let plans = plans.into_iter().map(layout).collect();
        let representatives = representatives.map(Into::into);
        let switch_ports = vec![None; grid.dims()];
        Layout { fabric, grid, places, coordinates, members, classes, representatives, plans, switch_ports, split }
    }

    /// The same where lines have switches that take part in programs: per dimension, the port of each NPU of the
    /// whole machine that leads to the switch of its line.
    #[must_use]
    pub fn through_switches(mut self, ports: &[Option<Vec<PortId>>]) -> Layout {
        let simulated = |ports: &Vec<PortId>| (0..self.npus()).map(|n| ports[self.whole(NodeId(n)).index()]).collect();
        self.switch_ports = ports.iter().map(|ports| ports.as_ref().map(simulated)).collect();
        for PlanLayout { plan, phases } in &mut self.plans {
            for (phase, lanes) in plan.phases().iter().zip(phases) {
                for lane in lanes.iter_mut().filter(|lane| lane.program.has_switch()) {
                    let ports = self.switch_ports[usize::from(phase.dim)].clone();
                    lane.wiring = Wiring::Switch(ports.expect("lines whose programs have a switch have one"));
                }
            }
        }
        self
    }

    /// The fabric.
    pub fn fabric(&self) -> &dyn Fabric {
        &*self.fabric
    }

    /// The fabric, for others to hold.
    pub fn shared_fabric(&self) -> Arc<dyn Fabric> {
        self.fabric.clone()
    }

    /// Number of simulated NPUs, whether or not they take part.
    pub fn npus(&self) -> u32 {
        self.places.len() as u32
    }

    /// The number in the whole machine of a simulated NPU.
    pub fn whole(&self, npu: NodeId) -> NodeId {
        self.representatives.as_ref().map_or(npu, |r| r[npu.index()])
    }

    /// The simulated NPU of a number in the whole machine, if that is simulated itself.
    pub fn simulated(&self, whole: NodeId) -> Option<NodeId> {
        match &self.representatives {
            None => Some(whole),
            Some(r) => r.iter().position(|&n| n == whole).map(|i| NodeId(i as u32)),
        }
    }

    /// Whether NPUs stand for others.
    pub fn is_folded(&self) -> bool {
        self.representatives.is_some()
    }

    /// Ranks along each dimension of a group's grid.
    pub fn sizes(&self) -> Vec<u32> {
        (0..self.grid.dims()).map(|dim| self.grid.size(dim)).collect()
    }

    /// Dimensions of a group's grid.
    pub fn dimensions(&self) -> usize {
        self.grid.dims()
    }

    /// The class of the links along a dimension.
    pub fn link_class(&self, dim: u8) -> u8 {
        self.classes.as_ref().and_then(|classes| classes.get(usize::from(dim)).copied()).unwrap_or(dim)
    }

    /// The port of an NPU that leads to the switch of its line, if there is one that takes part.
    pub fn switch_port(&self, npu: NodeId, dim: usize) -> Option<PortId> {
        self.switch_ports[dim].as_ref().map(|ports| ports[npu.index()])
    }

    /// The line of an NPU along a dimension, as its group and the line's first rank there, and its place in it.
    pub fn line(&self, npu: NodeId, dim: usize) -> ((u32, Rank), LineRank) {
        let (group, rank) = self.places[npu.index()];
        let place = self.coordinates(npu)(dim as u8);
        ((group, Rank(self.grid.moved(rank.0, dim, place, 0))), LineRank(place))
    }

    /// The first NPU that is in a group.
    pub fn first(&self) -> NodeId {
        (0..self.npus()).map(NodeId).find(|&npu| self.takes_part(npu)).unwrap_or(NodeId(0))
    }

    /// Whether an NPU is in a group.
    #[inline]
    pub fn takes_part(&self, npu: NodeId) -> bool {
        self.places[npu.index()].0 != u32::MAX
    }

    /// Ranks of a group.
    pub fn group_size(&self) -> u32 {
        self.grid.ranks()
    }

    /// A member of the group of an NPU, which is in one, as a number of the whole machine.
    pub fn member(&self, npu: NodeId, rank: Rank) -> NodeId {
        match &self.members {
            None => NodeId(rank.0),
            Some(groups) => groups[self.places[npu.index()].0 as usize][rank.index()],
        }
    }

    /// The number of an NPU in its group.
    pub fn rank(&self, npu: NodeId) -> Rank {
        self.places[npu.index()].1
    }

    /// A plan.
    pub fn plan(&self, plan: PlanId) -> &Plan {
        &self.plans[plan.index()].plan
    }

    /// The numbers of all plans.
    pub fn plan_ids(&self) -> impl ExactSizeIterator<Item = PlanId> + Clone + use<> {
        (0..self.plans.len()).map(PlanId::from_index)
    }

    /// All plans.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.plans.iter().map(|p| &p.plan)
    }

    /// Number of phases of a plan.
    #[inline]
    pub fn phases(&self, plan: PlanId) -> usize {
        self.plans[plan.index()].phases.len()
    }

    /// Lanes of a phase of a plan.
    pub fn lanes_of(&self, plan: PlanId, phase: PhaseId) -> usize {
        self.plans[plan.index()].phases[phase.index()].len()
    }

    /// Whether ranks of a phase of a plan are places of rings, over fixed ports or in orders of their own.
    pub fn goes_round(&self, plan: PlanId, phase: PhaseId) -> bool {
        let lanes = &self.plans[plan.index()].phases[phase.index()];
        lanes.iter().all(|lane| matches!(lane.wiring, Wiring::Port(_) | Wiring::Order(_)))
    }

    /// What the first group does in a lane of a phase of a machine that is not folded. Phases of fewer lanes go through theirs
    /// in turn.
    pub fn lane(&self, plan: PlanId, phase: PhaseId, number: usize) -> LaneOfGroup<'_> {
        let lanes = &self.plans[plan.index()].phases[phase.index()];
        let Lane { program, wiring, .. } = &lanes[number % lanes.len()];
        let (first, dim) = (self.first(), self.plan(plan).phases()[phase.index()].dim);
        let places = || (0..program.ranks()).map(LineRank);
        match wiring {
            Wiring::Routed | Wiring::Switch(_) => LaneOfGroup { program, order: None, links: None },
            Wiring::Port(port) => {
                let ports = places().map(|place| (self.peer(first, dim, place), *port));
                LaneOfGroup { program, order: None, links: self.links(ports) }
            }
            Wiring::Order(rings) => {
                let (RingOrder { ranks, ports }, _) = &rings[0];
                let nodes = || ranks.iter().map(|&rank| self.peer(first, dim, rank));
                let links = ports.as_ref().and_then(|ports| self.links(nodes().zip(ports.iter().copied())));
                LaneOfGroup { program, order: Some(ranks), links }
            }
        }
    }

    /// The numbers among parallel links of those of some ports; none if routes to the nodes there go over just these ports.
    fn links(&self, ports: impl Iterator<Item = (NodeId, PortId)> + Clone) -> Option<Vec<u16>> {
        let is_route = |(from, port)| {
            let mut path = Vec::new();
            self.fabric.route(from, self.fabric.next(from, port).0, &mut path);
            path == [port]
        };
        let number = |(from, port)| {
            let mut links = parallel_links(&*self.fabric, from, self.fabric.next(from, port).0);
            links.position(|link| link == port).unwrap_or(0) as u16 // a port is one of those that lead where it leads
        };
        (!ports.clone().all(is_route)).then(|| ports.map(number).collect())
    }

    /// Most lanes that any phase has.
    pub fn lanes(&self) -> usize {
        self.plans.iter().flat_map(|p| &p.phases).map(Vec::len).max().unwrap_or(1)
    }

    /// One of the parallel links from an NPU to a node, by its number among these.
    ///
    /// # Panics
    /// If there is none. Programs that name links the fabric does not have are refused before.
    fn parallel_link(&self, npu: NodeId, there: NodeId, number: u16) -> PortId {
        let mut links = parallel_links(&*self.fabric, npu, there);
        links.nth(number.into()).expect("programs name links that there are")
    }

    /// Whether a step of any program may wait for one of another thread, or only wait.
    pub fn has_dependencies(&self) -> bool {
        self.plans.iter().flat_map(|p| &p.phases).flatten().any(|lane| lane.program.has_dependencies())
    }

    /// Most threads that any program has.
    pub fn threads(&self) -> u16 {
        let lanes = self.plans.iter().flat_map(|p| &p.phases).flatten();
        lanes.map(|l| l.program.threads()).max().unwrap_or(1)
    }

    /// Whether messages are routed, rather than sent to neighbours over fixed ports.
    pub fn is_routed(&self) -> bool {
        let mut lanes = self.plans.iter().flat_map(|p| &p.phases).flatten();
        lanes.any(|l| match &l.wiring {
            Wiring::Port(_) | Wiring::Switch(_) => false,
            Wiring::Routed => true,
            Wiring::Order(rings) => rings.iter().any(|r| r.0.ports.is_none()),
        })
    }

    /// The name of the first phase whose steps are written, instead of being those of an algorithm.
    pub fn written_phase(&self) -> Option<String> {
        self.plan_ids().zip(&self.plans).find_map(|(plan, PlanLayout { plan: of, phases })| {
            let is_written = |lanes: &Vec<Lane>| lanes.iter().any(|lane| matches!(lane.program, Program::Written(_)));
            let phase = of.phase_ids().zip(phases).find(|(_, lanes)| is_written(lanes))?.0;
            Some(self.phase_name(plan, phase))
        })
    }

    /// Whether every phase of a plan is a ring over the same port of every NPU.
    pub fn is_wired(&self, plan: PlanId) -> bool {
        let mut lanes = self.plans[plan.index()].phases.iter().flatten();
        lanes.all(|l| matches!((&l.program, &l.wiring), (Program::Ring { .. }, Wiring::Port(_))))
    }

    /// Whether no message of any plan passes an NPU on its way, and what goes around rings does so over the same port
    /// of every NPU: what an engine at the ports can carry out.
    pub fn is_direct(&self) -> bool {
        let npus = || (0..self.npus()).map(NodeId).filter(|&npu| self.takes_part(npu));
        self.plan_ids().zip(&self.plans).all(|(plan, layout)| {
            layout.plan.phase_ids().zip(&layout.phases).all(|(phase, lanes)| {
                lanes.iter().all(|lane| match (&lane.program, &lane.wiring) {
                    (Program::Ring { .. } | Program::Relay { .. }, Wiring::Port(_)) => true,
                    (Program::Direct { kind, .. } | Program::DirectOnGrid { kind, .. }, Wiring::Routed) => {
                        let chunk = Chunk { len: Bytes::ZERO, plan, lane: 0 };
                        !kind.is_rooted() && npus().all(|npu| self.reaches_directly(self.view(npu, chunk, phase)))
                    }
                    _ => false,
                })
            })
        })
    }

    /// Whether no NPU is on the way to any peer of a phase.
    fn reaches_directly(&self, view: PhaseView<'_>) -> bool {
        let ranks = view.program().ranks();
        let mut path = Vec::new();
        (0..ranks).map(LineRank).filter(|&rank| rank != view.rank).all(|rank| {
            path.clear();
            self.fabric.route(view.npu, view.node(rank), &mut path);
            let mut at = view.npu;
            path.iter().rev().skip(1).rev().all(|&port| {
                at = self.fabric.next(at, port).0;
                at.0 >= self.npus()
            })
        })
    }

    /// Whether some plans are direct all-to-alls, and whether some are anything else.
    pub fn kinds(&self) -> (bool, bool) {
        let mut plans = self.plans.iter().filter(|p| !p.phases.is_empty()).map(|p| p.plan.is_exchange());
        (plans.clone().any(|exchange| exchange), plans.any(|exchange| !exchange))
    }

    /// A phase of a chunk as an NPU sees it.
    #[inline]
    pub fn view(&self, npu: NodeId, chunk: Chunk, phase: PhaseId) -> PhaseView<'_> {
        let plan = &self.plans[chunk.plan.index()].plan;
        let (_, vector) = plan.vector(phase, chunk.len, self.split, self.coordinates(npu));
        self.view_of(npu, chunk, phase, vector)
    }

    /// A phase of a chunk as an NPU sees it, where its vector is known already.
    #[inline]
    pub fn view_of(&self, npu: NodeId, chunk: Chunk, phase: PhaseId, vector: u64) -> PhaseView<'_> {
        let PlanLayout { plan, phases } = &self.plans[chunk.plan.index()];
        let lanes = &phases[phase.index()];
        let lane = match lanes.len() {
            1 => &lanes[0],
            n => &lanes[chunk.lane as usize % n],
        };
        let dim = plan.phases()[phase.index()].dim;
        let coordinate = self.coordinates(npu);
        let rank = match &lane.wiring {
            Wiring::Port(_) | Wiring::Switch(_) | Wiring::Routed => LineRank(coordinate(dim)),
            Wiring::Order(rings) => rings[self.places[npu.index()].0 as usize].1[coordinate(dim) as usize],
        };
        let takes_part = plan.takes_part(phase, coordinate);
        PhaseView { layout: self, lane, npu, dim, takes_part, rank, vector }
    }

    /// The coordinates of an NPU in its group.
    #[inline]
    fn coordinates(&self, npu: NodeId) -> impl Fn(u8) -> u32 + '_ {
        let dims = self.grid.dims_with_lines();
        let mine = &self.coordinates[npu.index() * dims..][..dims];
        move |d| mine[usize::from(d)]
    }

    /// The node with another number in its line along a dimension, as a number of the whole machine.
    fn peer(&self, npu: NodeId, dim: u8, there: LineRank) -> NodeId {
        let (group, rank) = self.places[npu.index()];
        let rank = Rank(self.grid.moved(rank.0, dim.into(), self.coordinates(npu)(dim), there.0));
        match &self.members {
            None => NodeId(rank.0),
            Some(groups) => groups[group as usize][rank.index()],
        }
    }

    /// The bytes that an NPU holds before `phase`, or after the last one if `phase` is their number.
    pub fn held(&self, npu: NodeId, chunk: Chunk, phase: PhaseId) -> u64 {
        self.plan(chunk.plan).held(phase, chunk.len, self.split, self.coordinates(npu))
    }

    /// Bytes of which no NPU holds more before `phase` of a plan, or after the last one, of chunks of at most `len` bytes.
    pub fn held_at_most(&self, plan: PlanId, len: Bytes, phase: PhaseId) -> u64 {
        self.plan(plan).held_at_most(phase, len, self.split)
    }

    /// A name for a phase, e.g. `reduce-scatter dim 0`.
    pub fn phase_name(&self, plan: PlanId, phase: PhaseId) -> String {
        let p = &self.plan(plan).phases()[phase.index()];
        match self.grid.dims() > usize::from(p.dim) {
            true => format!("{} dim {}", p.kind, p.dim),
            false => format!("{} of all", p.kind),
        }
    }
}

/// The ports of a node whose links lead to another one, in order.
pub fn parallel_links(fabric: &dyn Fabric, from: NodeId, to: NodeId) -> impl Iterator<Item = PortId> {
    (0..fabric.ports(from)).map(PortId).filter(move |&port| fabric.next(from, port).0 == to)
}

/// The port over which a ring of a plan goes that says nothing of lanes, if there is just one in its direction.
fn only_wire(program: &Program, wires: &Wires) -> Option<PortId> {
    let (Program::Ring { up, .. } | Program::Relay { up, .. }, Wires::Ports(ports)) = (program, wires) else {
        return None;
    };
    let mut found = ports.iter().filter(|port| port.1 == *up).map(|port| port.0);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The lanes of a phase.
fn lanes(plan: &Plan, phase: PhaseId, wires: &Wires) -> Vec<Lane> {
    let Phase { kind, root, .. } = plan.phases()[phase.index()];
    let of_ranks = !matches!(kind, Kind::Broadcast | Kind::Reduce);
    match wires {
        // Only what goes from neighbour to neighbour goes along wires.
        _ if !plan.goes_round(phase) => {
            let program = plan.program(phase, true);
            let wiring = only_wire(&program, wires).map_or(Wiring::Routed, Wiring::Port);
            vec![Lane { program, wiring, of_ranks }]
        }
        Wires::Routed => vec![Lane { program: plan.program(phase, true), wiring: Wiring::Routed, of_ranks }],
        Wires::Ports(ports) => ports
            .iter()
            .map(|&(port, up)| Lane { program: plan.program(phase, up), wiring: Wiring::Port(port), of_ranks })
            .collect(),
        Wires::Orders(lanes) => lanes
            .iter()
            .map(|groups| {
                let program = plan.program(phase, true);
                let is_written = matches!(program, Program::Written(_));
                let with_places = |ring: &RingOrder| {
                    let mut ring = if kind.is_rooted() { ring.from(root) } else { ring.clone() };
                    if kind.is_rooted() && is_written {
                        ring.turn(root); // its root is the place of that number
                    }
                    let places = LineRank::places(&ring.ranks);
                    (ring, places)
                };
                let wiring = Wiring::Order(groups.iter().map(with_places).collect());
                // The rings of a chain begin with its root.
                let program = match program {
                    Program::Chain { kind, ranks, slices, up, .. } => {
                        Program::Chain { kind, ranks, root: LineRank(0), slices, up }
                    }
                    program => program,
                };
                Lane { program, wiring, of_ranks }
            })
            .collect(),
    }
}
