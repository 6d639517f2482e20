//! Where the collectives of a description run on a fabric, and how.

use crate::along::Along;
use crate::balance::{Balance, lane_rates};
use crate::collective_config::CollectiveConfig;
use crate::errors::RunError;
use crate::job::Demand;
use crate::machine::{Machine, participants};
use crate::offload::Offload;
use crate::pipeline::{Pipelined, TryOut};
use crate::plans::{self, Numbered};
use crate::spec::{AlgorithmSpec, CollectiveSpec, DimAlgorithmSpec, GroupsSpec, LanesSpec, PostingSpec, Spec};
use crate::too_many::check_plans;
use std::sync::Arc;
use syncline_collective::plan::MAX_PHASES;
use syncline_collective::plan_file::WrittenPlan;
use syncline_collective::program::direct::ServingOrder;
use syncline_collective::{
    Algorithm, Axis, Composition, Kind, LineRank, Plan, PlanError, PlanId, PlanRequest, Posting, Rank, Split,
};
use syncline_core::{Bytes, Grid, Id, NodeId, PortId, Refusal};
use syncline_endpoint::{Layout, RingOrder, Space, Wires};
use syncline_topology::exchange;
use syncline_topology::rings::rings;
use syncline_topology::{Block, Fabric};

/// How collectives run on a machine, before it is folded.
#[derive(Debug)]
pub struct Placement {
    /// Who runs them.
    pub space: Space,
    /// The plans of each kind and root: one, or one for every order of dimensions.
    pub plans: Vec<Plan>,
    /// The first plan of each kind, root and class of sizes.
    pub first_plans: Vec<FirstPlan>,
    /// How a chunk's order of dimensions is chosen, if it has a choice.
    pub balance: Option<Balance>,
    /// How rings run along each dimension of the space.
    pub wires: Vec<Wires>,
    /// Per dimension, the port of every NPU to the switch that takes part in the programs of its line.
    pub switch_ports: Vec<Option<Vec<PortId>>>,
    /// How blocks are cut.
    pub split: Split,
}

/// The first of the plans of a kind of collectives, with a root, up to a size.
#[derive(Clone, Copy, Debug)]
pub struct FirstPlan {
    /// What it carries out.
    pub kind: Kind,
    /// From or to whom.
    pub root: Rank,
    /// Bytes of the largest collective that it is for.
    pub up_to: u64,
    /// Its number.
    pub plan: PlanId,
}

/// The first plan for a collective; the plans of a kind and root stand in the order of their sizes.
pub fn first_plan(plans: &[FirstPlan], kind: Kind, root: Rank, bytes: u64) -> Option<PlanId> {
    plans.iter().find(|p| (p.kind, p.root) == (kind, root) && bytes <= p.up_to).map(|p| p.plan)
}

impl Placement {
    /// Where the collectives that are asked for run; trials say how many slices pipelines have.
    ///
    /// # Errors
    /// [`RunError::Spec`] if the algorithm does not suit.
    pub fn new(spec: &Spec, machine: &Machine, demand: &Demand, try_out: TryOut) -> Result<Placement, RunError> {
        let c = &spec.collectives;
        let npus = machine.fabric().npus();
        participants(spec.groups.as_ref(), npus)?;
        let groups = spec.groups.as_ref().map(GroupsSpec::nodes);
        let whole = match (machine, &spec.groups) {
            (Machine::Product(product), None) => Some(Along::all(product)),
            (Machine::Product(product), Some(GroupsSpec { along: Some(dims), members, .. })) => {
                Some(Along::some(product, dims, members.len()))
            }
            _ => None,
        };
        let whole = whole.as_ref();
        let ranks = groups.as_ref().map_or(npus, |g| g[0].len() as u32);
        let grid = grid(spec, whole, ranks)?;
        let kinds = demand.kinds();
        let written = plans::of_kinds(c, &kinds)?;
        let uses = demand.uses();
        let mut chosen: Vec<Chosen> = Vec::new();
        for &(kind, root) in &uses {
            let needed = plans::needed(&written, (kind, root), demand.sizes_from(kind, root))?;
            if needed.is_empty() {
                chosen.push(Chosen::new(c, kind, None, whole, (&grid, root))?);
            }
            for plan in needed {
                chosen.push(Chosen::new(c, kind, Some(plan), whole, (&grid, root))?);
            }
        }
        // Where every algorithm sees a line there is no grid; where only some do, they use the line of all
        // ranks beside the dimensions of the grid.
        let flat = chosen.iter().all(|a| a.flat);
        let beside = !flat && grid.len() > 1 && chosen.iter().any(|a| a.flat);
        let sizes = if flat { vec![ranks] } else { grid.clone() };
        let mut balanced: Vec<Kind> = chosen.iter().filter(|a| a.is_balanced()).map(|a| a.kind).collect();
        balanced.dedup();
        let orders = if balanced.is_empty() { vec![None] } else { orders_of(&sizes)? };
        let split = Split { element: c.element_bytes };
        let product = whole.map(Along::product).filter(|_| !flat && groups.is_none());
        let offload = Offload::new(spec, machine, product, groups.as_deref(), &sizes);
        let members = groups.as_ref().map_or(1, |g| g.len() as u64) * u64::from(ranks);
        let posting = match c.posting {
            PostingSpec::Rotated => Posting::Rotated,
            PostingSpec::Sequential => Posting::Sequential,
            PostingSpec::Random => Posting::Random(spec.seed),
        };
        let free = if whole.is_none() && !flat { free_along(machine, groups.as_deref(), &sizes) } else { Vec::new() };
        let mut first_plans = Vec::new();
        let mut plans_with = |slots: u8| -> Result<Vec<Plan>, RunError> {
            let mut plans = Vec::new();
            first_plans.clear();
            for chosen in &chosen {
                let Chosen { kind, root, up_to, .. } = *chosen;
                first_plans.push((FirstPlan { kind, root, up_to, plan: PlanId(0) }, plans.len()));
                let chunk = demand.largest_chunk(kind, c);
                let sizes_of = if chosen.flat { &[ranks][..] } else { &sizes };
                let through = SwitchPlans { offload: offload.as_ref(), sizes: sizes_of, slots, free: &free };
                let rings = |along: &Along<'_>| -> Vec<bool> {
                    // Two halves of a share are that share only where blocks are padded to be equal.
                    let halves = spec.collectives.padding || kind == Kind::AllReduce;
                    along.dims().map(|d| halves && d.block == Block::Ring).collect()
                };
                let plan = |slices: u32, order: Option<&[u8]>| -> Result<Plan, RunError> {
                    if let Some((number, written)) = chosen.written {
                        let serving = whole.and_then(|along| ServingOrder::new(&grid, &rings(along)));
                        let place = plans::Place {
                            fabric: &*machine.fabric(),
                            groups: groups.as_deref(),
                            serving,
                            posting,
                            padding: c.padding,
                            switches_add: offload.is_some(),
                            literal: c.plans[number].is_literal(),
                            loops: c.loops,
                        };
                        let plan = plans::plan(number, written, order, &place)?;
                        return Ok(if chosen.flat && beside { plan.along(grid.len() as u8) } else { plan });
                    }
                    let algorithms = algorithms(chosen, whole, (slices, chunk), &through)?;
                    let axes = sizes_of.iter().zip(algorithms);
                    let axes: Vec<Axis> = axes.map(|(&size, algorithm)| Axis { size, algorithm }).collect();
                    let composition = chosen.composition();
                    let mut plan = Plan::new(PlanRequest { kind, composition, axes: &axes, root, order })
                        .map_err(|error| unplanned(error, c, &kinds))?;
                    if let Some(along) = whole.filter(|_| chosen.flat) {
                        plan = plan.on_grid(&grid, &rings(along));
                    }
                    let plan = plan.posted(posting);
                    Ok(if chosen.flat && beside { plan.along(grid.len() as u8) } else { plan })
                };
                let slices = match c.slices {
                    _ if chosen.written.is_some() => 1,
                    0 => Pipelined { spec, kind, root, chunk, plan: &plan(1, None)?, ranks: members, try_out }.slices(),
                    given => given,
                };
                let orders = if balanced.contains(&kind) { &orders[..] } else { &[None] };
                for order in orders {
                    plans.push(plan(slices, order.as_deref())?);
                }
            }
            Ok(plans)
        };
        let mut plans = plans_with(1)?;
        if let Some(offload) = &offload {
            let chunk = |kind| demand.largest_chunk(kind, c);
            plans = plans_with(offload.slots(spec, &plans, chunk, split)?)?;
            offload.check_steps(&plans)?;
        }
        let mut wires: Vec<Wires> = match (whole, flat) {
            (Some(along), false) => (0..sizes.len()).map(|dim| along.wires(dim)).collect(),
            (Some(along), true) if along.dims().len() == 1 => vec![along.wires(0)],
            (None, true) => vec![ring_orders(&*machine.fabric(), groups.as_deref(), &grid)],
            _ => vec![Wires::Routed; sizes.len()],
        };
        if beside {
            wires.push(match whole {
                Some(_) => Wires::Routed,
                None => ring_orders(&*machine.fabric(), groups.as_deref(), &grid),
            });
        }
        if c.lanes == LanesSpec::One {
            wires.iter_mut().for_each(first_lane);
        }
        let balance = (orders.len() > 1).then(|| Balance {
            lanes: lane_rates(whole, &*machine.fabric(), &plans, &wires[..sizes.len()], balanced[0]),
            kinds: balanced,
            orders: orders.into_iter().flatten().collect(),
            sizes: sizes.clone(),
        });
        let switch_ports = offload.map(Offload::into_ports).unwrap_or_default();
        let classes = whole.filter(|_| groups.is_some()).map(|along| along.classes().to_vec());
        let space = Space { sizes, groups, classes, representatives: None };
        check_plans(plans.len())?;
        let first = |(first, plan): (FirstPlan, usize)| FirstPlan { plan: PlanId::from_index(plan), ..first };
        let first_plans = first_plans.into_iter().map(first).collect();
        Ok(Placement { space, plans, first_plans, balance, wires, switch_ports, split })
    }

    /// Most lanes that any phase has.
    pub fn lanes(&self) -> u32 {
        let phases = self.plans.iter().flat_map(|plan| plan.phase_ids().map(move |phase| (plan, phase)));
        let rings =
            phases.filter(|(plan, phase)| plan.goes_round(*phase)).map(|(plan, phase)| plan.phases()[phase.index()]);
        let lanes = rings.map(|p| match &self.wires[usize::from(p.dim)] {
            Wires::Routed => 1,
            Wires::Ports(ports) => ports.len(),
            Wires::Orders(lanes) => lanes.len(),
        });
        lanes.max().unwrap_or(1) as u32
    }

    /// Whether all blocks of all chunks that are asked for are of equal length on all ranks; if not, why.
    ///
    /// # Errors
    /// The reason.
    pub fn is_even(&self, demand: &Demand, config: &CollectiveConfig) -> Result<(), String> {
        for plan in &self.plans {
            let unit = plan.equal_blocks().saturating_mul(config.split.element.into());
            for bytes in demand.sizes(plan.kind()) {
                let mut lens = config.pieces(plan, Bytes(bytes)).runs().map(|run| run.0);
                if let Some(len) = lens.find(|len| len % unit != 0) {
                    return Err(format!(
                        "blocks are of unequal length: a chunk of {len} B is no multiple of {unit} B, and padding is off"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The layout on the fabric that is simulated.
    pub fn layout(self, fabric: Arc<dyn Fabric>) -> Layout {
        let layout = Layout::new(fabric, self.space, self.plans, &self.wires, self.split);
        if self.switch_ports.is_empty() { layout } else { layout.through_switches(&self.switch_ports) }
    }
}

/// The algorithm of a kind of collectives.
struct Chosen<'a> {
    kind: Kind,
    root: Rank,
    /// Bytes of the largest collective that it is for.
    up_to: u64,
    algorithm: AlgorithmSpec,
    /// The plan that takes the algorithm's place.
    written: Option<(usize, &'a WrittenPlan)>,
    per_dimension: Option<&'a [DimAlgorithmSpec]>,
    /// Whether it sees a group as a line.
    flat: bool,
}

impl<'a> Chosen<'a> {
    fn new(
        c: &'a CollectiveSpec,
        of: Kind,
        plan: Option<&'a Numbered>,
        whole: Option<&Along<'_>>,
        (grid, root): (&[u32], Rank),
    ) -> Result<Chosen<'a>, RunError> {
        let own = c.algorithms.iter().find(|a| a.0.kind() == of).map(|a| a.1);
        let algorithm = own.unwrap_or(c.algorithm);
        let per_dimension = c.per_dimension.as_deref().filter(|_| own.is_none());
        let written = plan.map(|plan| (plan.number, &*plan.plan));
        let up_to = plan.map_or(u64::MAX, |plan| plan.up_to);
        let flat = match written {
            None => is_flat(algorithm, whole.is_some()),
            Some((number, plan)) => plans::sees_a_line(number, plan, grid, root)?,
        };
        Ok(Chosen { kind: of, root, up_to, algorithm, written, per_dimension, flat })
    }

    fn composition(&self) -> Composition {
        self.written.map_or_else(|| composition(self.algorithm), |(_, plan)| plan.composition)
    }

    fn is_balanced(&self) -> bool {
        self.written.map_or_else(|| is_balanced(self.algorithm), |(_, plan)| plan.balanced)
    }
}

/// How an algorithm composes an all-reduce over dimensions.
pub(crate) fn composition(algorithm: AlgorithmSpec) -> Composition {
    match algorithm {
        AlgorithmSpec::AceFourPhase | AlgorithmSpec::HierarchicalOptimal => Composition::LocalFirst,
        AlgorithmSpec::SixPhase | AlgorithmSpec::Themis => Composition::AllScattered,
        _ => Composition::PerDimension,
    }
}

/// Whether every chunk goes through the dimensions in an order of its own, which balances them.
pub(crate) fn is_balanced(algorithm: AlgorithmSpec) -> bool {
    algorithm == AlgorithmSpec::Themis
}

/// What an algorithm does in all dimensions alike; `None` if it is composed of what suits each.
pub(crate) fn everywhere(algorithm: AlgorithmSpec) -> Option<DimAlgorithmSpec> {
    match algorithm {
        AlgorithmSpec::Ring => Some(DimAlgorithmSpec::Ring),
        AlgorithmSpec::Direct => Some(DimAlgorithmSpec::Direct),
        AlgorithmSpec::HalvingDoubling => Some(DimAlgorithmSpec::HalvingDoubling),
        AlgorithmSpec::DoubleBinaryTree => Some(DimAlgorithmSpec::DoubleBinaryTree),
        AlgorithmSpec::OneHopTrees => Some(DimAlgorithmSpec::OneHopTrees),
        AlgorithmSpec::InSwitch => Some(DimAlgorithmSpec::InSwitch),
        _ => None,
    }
}

/// What NPUs do along a dimension for a kind of collectives, in so many slices where that is a pipeline; `None` for what
/// goes through switches, whose memory decides.
pub(crate) fn along(dimension: DimAlgorithmSpec, kind: Kind, slices: u32) -> Option<Algorithm> {
    match dimension {
        DimAlgorithmSpec::InSwitch => None,
        DimAlgorithmSpec::Ring if kind.is_rooted() => Some(Algorithm::Chain { slices }),
        DimAlgorithmSpec::Ring => Some(Algorithm::Ring),
        DimAlgorithmSpec::Direct => Some(Algorithm::Direct),
        DimAlgorithmSpec::HalvingDoubling => Some(Algorithm::HalvingDoubling),
        DimAlgorithmSpec::DoubleBinaryTree => Some(Algorithm::DoubleBinaryTree { slices }),
        DimAlgorithmSpec::OneHopTrees => Some(Algorithm::OneHopTrees { slices }),
    }
}

/// The ranks of a group as a grid.
fn grid(spec: &Spec, whole: Option<&Along<'_>>, ranks: u32) -> Result<Vec<u32>, RunError> {
    if let Some(along) = whole {
        return Ok(along.dims().map(|d| d.size).collect());
    }
    let Some(grid) = spec.groups.as_ref().and_then(|g| g.grid.clone()) else { return Ok(vec![ranks]) };
    let cells = grid.iter().try_fold(1u32, |n, &size| n.checked_mul(size));
    if cells != Some(ranks) {
        let refusal = Refusal::of("groups.grid", format!("a grid of {grid:?} ranks"));
        return Err(refusal.accepting(format!("{ranks} ranks in all")).into());
    }
    Ok(grid)
}

/// What is refused where a collective of a job, with these kinds of them, has no plan.
fn unplanned(error: PlanError, given: &CollectiveSpec, kinds: &[Kind]) -> Refusal {
    match error {
        PlanError::TooManyPhases(phases) => {
            Refusal::of("collectives.algorithm", format!("{phases} phases")).accepting(format!("up to {MAX_PHASES}"))
        }
        PlanError::NoSuchRoot { root, ranks } => {
            Refusal::of("job.root", format!("there is no rank {root}")).accepting(format!("0 to {}", ranks - 1))
        }
        PlanError::NoSlices { algorithm } => {
            Refusal::of("collectives.slices", format!("{} has no slices", algorithm.name())).at_least(1)
        }
        PlanError::NoProgram { kind, dim, ranks } => {
            let message = format!("there is no program for {kind} along dimension {dim} of {ranks} ranks");
            Refusal::of("collectives.plans", message).accepting("a plan with a program for each of its phases")
        }
        PlanError::Unsupported { algorithm, kind } => {
            let message = format!("there is no {} algorithm for {kind}", algorithm.name());
            if given.algorithms.iter().any(|(own, _)| own.kind() == kind) {
                return Refusal::of(&format!("collectives.algorithms.{kind}"), message).accepting("direct");
            }
            let accepted = match kinds {
                [_] => "direct, or auto for what is fastest".to_string(),
                _ => format!(
                    "an algorithm for all kinds, or one of its own for this one (collective.algorithms: {{{kind}: direct}})"
                ),
            };
            Refusal::of("collectives.algorithm", message).accepting(accepted)
        }
    }
}

/// Whether an algorithm sees a group as a line, whatever its shape: on a whole product, or elsewhere.
pub(crate) fn is_flat(algorithm: AlgorithmSpec, on_product: bool) -> bool {
    match algorithm {
        AlgorithmSpec::Direct
        | AlgorithmSpec::HalvingDoubling
        | AlgorithmSpec::DoubleBinaryTree
        | AlgorithmSpec::OneHopTrees => true,
        AlgorithmSpec::Ring => !on_product,
        _ => false,
    }
}

/// Every order of the dimensions that have more than one rank, the natural one first.
fn orders_of(sizes: &[u32]) -> Result<Vec<Option<Vec<u8>>>, RunError> {
    const MOST: usize = 5; // 120 orders, of at most 255 plans
    let dims: Vec<u8> = (0u8..).zip(sizes).filter(|(_, size)| **size > 1).map(|(dim, _)| dim).collect();
    if dims.len() > MOST {
        let refusal = Refusal::of("collectives.algorithm", format!("there are {} dimensions to order", dims.len()));
        return Err(refusal.accepting(format!("up to {MOST}")).into());
    }
    let mut orders: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in &dims {
        let longer = |order: &Vec<u8>| {
            let rest = dims.iter().filter(|d| !order.contains(d));
            rest.map(|&d| [&order[..], &[d]].concat()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    Ok(orders.into_iter().map(Some).collect())
}

/// Whether an exchange between all that are along a dimension is free, by the first of the groups; that it is in a network
/// of switches, in which rings have no links of their own.
fn free_along(machine: &Machine, groups: Option<&[Vec<NodeId>]>, sizes: &[u32]) -> Vec<bool> {
    let fabric = machine.fabric();
    let grid = Grid::new(sizes.iter().copied());
    let npu = |rank: u32| groups.map_or(NodeId(rank), |groups| groups[0][rank as usize]);
    let is_free = |dim| exchange::is_free(&*fabric, &grid.line(0, dim).map(npu).collect::<Vec<_>>());
    (0..sizes.len()).map(|dim| machine.is_switched() || is_free(dim)).collect()
}

/// What can go through switches.
struct SwitchPlans<'a> {
    /// The switches, if the endpoint makes use of them.
    offload: Option<&'a Offload>,
    sizes: &'a [u32],
    slots: u8,
    /// Along which dimensions that are none of a product an exchange between all is as fast as around a ring.
    free: &'a [bool],
}

impl SwitchPlans<'_> {
    /// What phases do along a dimension, of chunks of `chunk` bytes.
    fn algorithm(&self, dim: usize, composition: Composition, chunk: u64) -> Result<Algorithm, RunError> {
        let Some(offload) = self.offload else {
            let refusal = Refusal::of("collectives.algorithm", "in-switch needs switches that reduce and copy");
            return Err(refusal.accepting("in-switch with the endpoint switch-offload, or another algorithm").into());
        };
        // All-reduces of shares work on less than the chunk; pieces are those of what is not scattered.
        let inner = self.sizes.iter().position(|&size| size > 1);
        let shared = composition == Composition::LocalFirst && inner.is_some_and(|inner| inner != dim);
        let parts = if shared { inner.map_or(1, |inner| self.sizes[inner]) } else { 1 };
        Ok(offload.algorithm(chunk.div_ceil(parts.into()), self.slots))
    }
}

/// What phases along each dimension do.
fn algorithms(
    chosen: &Chosen<'_>,
    whole: Option<&Along<'_>>,
    (slices, chunk): (u32, u64),
    through: &SwitchPlans<'_>,
) -> Result<Vec<Algorithm>, RunError> {
    let kind = chosen.kind;
    let dims = through.sizes.len();
    let algorithm = |(dim, a): (usize, DimAlgorithmSpec)| match along(a, kind, slices) {
        Some(algorithm) => Ok(algorithm),
        None => through.algorithm(dim, chosen.composition(), chunk),
    };
    let everywhere = everywhere(chosen.algorithm);
    let suits = |dim: usize| match whole.map(|along| along.dim(dim).block) {
        _ if through.offload.is_some_and(|o| o.takes(dim, kind)) => DimAlgorithmSpec::InSwitch,
        Some(Block::FullyConnected | Block::Switch) => DimAlgorithmSpec::Direct,
        None if through.free.get(dim) == Some(&true) => DimAlgorithmSpec::Direct,
        None | Some(Block::Ring) => DimAlgorithmSpec::Ring,
    };
    let each: Vec<DimAlgorithmSpec> = match (chosen.per_dimension, everywhere) {
        (None, Some(a)) => vec![a; dims],
        (None, None) => (0..dims).map(suits).collect(),
        (Some(given), None) if given.len() == dims => given.to_vec(),
        (Some(given), everywhere) => {
            let accepted = match everywhere {
                Some(_) => "none with an algorithm that is the same in all dimensions".to_string(),
                None => format!("{dims}, one per dimension"),
            };
            let refusal = Refusal::of("collectives.per_dimension", format!("{} algorithms are given", given.len()));
            return Err(refusal.accepting(accepted).into());
        }
    };
    each.into_iter().enumerate().map(algorithm).collect()
}

/// Rings through groups of any shape: over direct links where there are such rings; on a grid of servers
/// one ring for each member of a server, which goes through servers back and forth and so from one to the
/// next between members of the same number: every network card is used, on its own rail; else one ring in
/// the order of ranks.
fn ring_orders(fabric: &dyn Fabric, groups: Option<&[Vec<NodeId>]>, grid: &[u32]) -> Wires {
    let everybody: [Vec<NodeId>; 1];
    let groups = match groups {
        Some(groups) => groups,
        None => {
            everybody = [(0..fabric.npus()).map(NodeId).collect()];
            &everybody
        }
    };
    const MOST_WIRED: usize = 64; // beyond, nobody wires ports by hand
    if groups[0].len() <= MOST_WIRED {
        let found: Vec<_> = groups.iter().map(|members| rings(fabric, members)).collect();
        let lanes = found.iter().map(Vec::len).min().unwrap_or(0);
        if lanes > 0 {
            let order = |g: usize, lane: usize| RingOrder {
                ranks: found[g][lane].order.iter().copied().map(LineRank).collect(),
                ports: Some(found[g][lane].ports.clone()),
            };
            return Wires::Orders((0..lanes).map(|lane| (0..groups.len()).map(|g| order(g, lane)).collect()).collect());
        }
    }
    match *grid {
        [local, servers] if local > 1 && servers > 1 => {
            let order = |lane: u32| {
                let server = |s: u32| {
                    (0..local).map(move |i| {
                        let member = if s.is_multiple_of(2) { lane + i } else { lane + local - 1 - i };
                        s * local + member % local
                    })
                };
                RingOrder { ranks: (0..servers).flat_map(server).map(LineRank).collect(), ports: None }
            };
            Wires::Orders((0..local).map(|lane| vec![order(lane); groups.len()]).collect())
        }
        _ => Wires::Routed,
    }
}

fn first_lane(wires: &mut Wires) {
    match wires {
        Wires::Routed => {}
        Wires::Ports(ports) => ports.truncate(1),
        Wires::Orders(lanes) => lanes.truncate(1),
    }
}
