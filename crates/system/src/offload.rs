//! Switch offload: which lines have a switch that can add for them, in how many pieces, and what is refused.
//!
//! A dimension is offloaded if all members of each of its lines are attached to one switch. Pieces are at most
//! as large as a message; a line gets as many slots in its switch as the switch's memory holds pieces, shared
//! evenly by the chunks in flight and by the lines of the switch.

use crate::endpoints::AddingSwitches;
use crate::errors::RunError;
use crate::machine::Machine;
use crate::spec::{AlgorithmSpec, CollectiveSpec, Spec};
use std::collections::BTreeMap;
use syncline_collective::{Algorithm, Kind, LineRank, PhaseId, Plan, Program, Slot, Split};
use syncline_core::{Bytes, Grid, NodeId, PortId, Refusal};
use syncline_endpoint::in_switch::needs_sms;
use syncline_topology::product::Way;
use syncline_topology::{Block, Fabric, Product};

/// The most slots of a line: threads that a message can name.
const MOST_SLOTS: u64 = 16;
/// How a refusal begins where there are none.
const NEEDS_SWITCHES: &str = "switch offload needs a switch between the members";
/// The class of links to PCIe switches.
const PCIE: &str = "PCIe";

/// What a plan leaves for a switch to do along each dimension of a group's grid.
#[derive(Debug)]
pub struct Offload {
    switches: AddingSwitches,
    /// Per dimension of more than one rank: its switches, or why there are none.
    dims: Vec<Option<Result<Switched, String>>>,
}

/// A dimension along which every line has a switch.
#[derive(Debug)]
struct Switched {
    /// The port of every NPU to the switch of its line.
    ports: Vec<PortId>,
    /// Most lines that share a switch.
    lines: u64,
}

impl Offload {
    /// Looks for switches, if the endpoint is one that uses them. `whole` is the product if its dimensions are
    /// those of the grid.
    pub fn new(
        spec: &Spec,
        machine: &Machine,
        whole: Option<&Product>,
        groups: Option<&[Vec<NodeId>]>,
        sizes: &[u32],
    ) -> Option<Offload> {
        let switches = spec.endpoint.model().adding_switches()?;
        let fabric = machine.fabric();
        let everybody: [Vec<NodeId>; 1];
        let groups = match groups {
            Some(groups) => groups,
            None => {
                everybody = [(0..fabric.npus()).map(NodeId).collect()];
                &everybody
            }
        };
        let of_dim = |dim: usize| match whole {
            Some(product) => of_product(product, dim),
            None => of_lines(&*fabric, groups, sizes, dim),
        };
        let dims = (0..sizes.len()).map(|dim| (sizes[dim] > 1).then(|| of_dim(dim))).collect();
        Some(Offload { switches, dims })
    }

    /// Whether phases of a kind can go through switches along a dimension.
    pub fn takes(&self, dim: usize, kind: Kind) -> bool {
        matches!(self.dims[dim], Some(Ok(_))) && Algorithm::InSwitch { slices: 1, slots: 1 }.supports(kind)
    }

    /// What phases do along a dimension where a line works on `bytes` of every chunk.
    pub fn algorithm(&self, bytes: u64, slots: u8) -> Algorithm {
        let slices = bytes.div_ceil(self.switches.message_bytes.max(1)).clamp(1, 1 << 20) as u32;
        Algorithm::InSwitch { slices, slots }
    }

    /// The slots that the switches' memory has for each line, given plans with any number of them and what the largest
    /// chunk of a kind has. Chunks of all kinds are in flight together, so the largest pieces of any count.
    ///
    /// # Errors
    /// [`RunError::Spec`] if there is none, or the plans cannot be carried out with this endpoint.
    pub fn slots(
        &self,
        spec: &Spec,
        plans: &[Plan],
        chunk: impl Fn(Kind) -> u64,
        split: Split,
    ) -> Result<u8, RunError> {
        self.check(spec, plans)?;
        let mut least = 0;
        for plan in plans {
            let unit = plan.equal_blocks().saturating_mul(split.element.into());
            let chunk = chunk(plan.kind());
            let chunk = if spec.collectives.padding { chunk.next_multiple_of(unit) } else { chunk };
            for (phase, p) in plan.phase_ids().zip(plan.phases()) {
                let Program::InSwitch(program) = plan.program(phase, true) else { continue };
                if program.reduces() {
                    let (_, vector) = plan.vector(phase, Bytes(chunk), split, |_| 0);
                    let parts = program.parts();
                    let piece = split.share(vector, parts, 0).1.max(split.share(vector, parts, parts - 1).1);
                    let Some(Ok(switched)) = &self.dims[usize::from(p.dim)] else { continue };
                    least = least.max(piece.saturating_mul(switched.lines));
                }
            }
        }
        let each = least.saturating_mul(spec.collectives.inflight.into());
        if each > self.switches.memory_bytes {
            let message = format!(
                "{} B, but {} chunks in flight need {each} B of a switch's memory for one piece each",
                self.switches.memory_bytes, spec.collectives.inflight
            );
            let refusal = Refusal::of("endpoint.switch_memory_bytes", message).at_least(each);
            return Err(refusal.accepting("smaller chunks, or fewer in flight").into());
        }
        let slots = (self.switches.memory_bytes / each.max(1)).clamp(1, MOST_SLOTS);
        let programs = plans.iter().flat_map(|plan| plan.phase_ids().map(|phase| plan.program(phase, true)));
        let used = programs.filter_map(|p| if let Program::InSwitch(p) = p { Some(u64::from(p.slots)) } else { None });
        if let Some(used) = used.max().filter(|&used| used > slots) {
            let message = format!(
                "{} B, but {used} pieces of {} chunks in flight need {} B",
                self.switches.memory_bytes,
                spec.collectives.inflight,
                each.saturating_mul(used)
            );
            let refusal = Refusal::of("endpoint.switch_memory_bytes", message).at_least(each.saturating_mul(used));
            return Err(refusal.accepting("smaller chunks, or a plan with fewer pieces at once").into());
        }
        Ok(slots as u8)
    }

    /// Refuses plans in which no switch has anything to add or copy though it could, and those that need SMs
    /// where there are none.
    fn check(&self, spec: &Spec, plans: &[Plan]) -> Result<(), RunError> {
        let mut missing = self.dims.iter().flatten().filter_map(|found| found.as_ref().err());
        let none = !self.dims.iter().flatten().any(Result::is_ok);
        if let Some(missing) = missing.next().filter(|_| none) {
            let refusal = Refusal::of("endpoint.kind", format!("{NEEDS_SWITCHES}: {missing}"));
            return Err(refusal.accepting("a fabric with a switch, or the endpoint ideal, baseline or ace").into());
        }
        let phases = || plans.iter().flat_map(|plan| plan.phase_ids().map(move |i| (plan, i)));
        let takes = |kind| Algorithm::InSwitch { slices: 1, slots: 1 }.supports(kind);
        let offloaded =
            |(plan, i): (&Plan, PhaseId)| matches!(plan.phases()[i.index()].algorithm, Algorithm::InSwitch { .. });
        let idle = plans.iter().any(|p| takes(p.kind())) && phases().count() > 0 && !phases().any(offloaded);
        if idle {
            let message = "no part of it goes through a switch that reduces or copies";
            let refusal = Refusal::of("collectives.algorithm", message).accepting(
                "in-switch, hierarchical, hierarchical-optimal, ace-4-phase, six-phase or themis with the endpoint \
                 switch-offload",
            );
            return Err(refusal.into());
        }
        for (plan, i) in phases() {
            let phase = plan.phases()[i.index()];
            let found = self.dims.get(usize::from(phase.dim)); // none for the line of all ranks
            if let (Algorithm::InSwitch { .. }, Some(Some(Err(missing)))) = (phase.algorithm, found) {
                let (field, accepted) = asked_by(&spec.collectives, plan.kind());
                let refusal = Refusal::of(field, format!("{NEEDS_SWITCHES}: {missing}")).within("collectives");
                return Err(refusal.accepting(accepted).into());
            }
            let program = plan.program(i, true);
            if !self.switches.has_sms && !program.has_switch() && has_kernels(&program) {
                let message = format!(
                    "0, but the {} along dimension {} goes through no switch, so it needs SMs",
                    phase.kind, phase.dim
                );
                return Err(Refusal::of("endpoint.sm_bytes_per_s", message).at_least(1).into());
            }
        }
        Ok(())
    }

    /// Refuses plans with more steps than messages can name.
    ///
    /// # Errors
    /// [`RunError::Spec`].
    pub fn check_steps(&self, plans: &[Plan]) -> Result<(), RunError> {
        let programs = plans.iter().flat_map(|plan| plan.phase_ids().map(|i| plan.program(i, true)));
        let steps = programs.filter_map(|program| match program {
            Program::InSwitch(program) => Some(program.steps_at_switch()),
            _ => None,
        });
        if steps.max().unwrap_or(0) >= u64::from(syncline_endpoint::message::MAX_STEPS) {
            let message =
                format!("{} B cut a chunk into more pieces than can be numbered", self.switches.message_bytes);
            let refusal = Refusal::of("endpoint.message_bytes", message);
            return Err(refusal.accepting("larger messages, or smaller chunks").into());
        }
        Ok(())
    }

    /// Per dimension, the port of every NPU to the switch of its line.
    pub fn into_ports(self) -> Vec<Option<Vec<PortId>>> {
        self.dims.into_iter().map(|found| Some(found?.ok()?.ports)).collect()
    }
}

/// The field that asks for switches in every dimension or in some, and what it takes instead.
fn asked_by(c: &CollectiveSpec, of: Kind) -> (&'static str, &'static str) {
    const COMPOSITIONS: &str =
        "hierarchical, ace-4-phase or another composition, which offloads the dimensions with switches";
    match c.algorithm {
        _ if c.algorithms.iter().any(|own| own.0.kind() == of) => ("algorithms", COMPOSITIONS),
        AlgorithmSpec::InSwitch => ("algorithm", COMPOSITIONS),
        _ => ("per_dimension", "another algorithm there"),
    }
}

/// What switches do in plans, and what the NPUs, for people.
pub fn summary(plans: &[Plan]) -> String {
    let (mut inside, mut outside): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for phase in plans.iter().flat_map(Plan::phases) {
        let list = if matches!(phase.algorithm, Algorithm::InSwitch { .. }) { &mut inside } else { &mut outside };
        let name = format!("{} along dimension {}", phase.kind, phase.dim);
        if !list.contains(&name) {
            list.push(name);
        }
    }
    let all = |list: &[String]| if list.is_empty() { "nothing".to_string() } else { list.join(", ") };
    format!("in switches: {}; by the NPUs: {}", all(&inside), all(&outside))
}

/// Whether some of a program's steps are a kernel's.
fn has_kernels(program: &Program) -> bool {
    const RANKS: u32 = 4; // enough for one that is neither the first nor the last
    let steps = |rank, thread| (0..program.steps(rank, thread)).map(move |pc| program.step(rank, Slot { thread, pc }));
    let of_rank = |rank| (0..program.threads()).flat_map(move |thread| steps(rank, thread));
    (0..program.ranks().min(RANKS)).map(LineRank).flat_map(of_rank).any(|step| needs_sms(step.op))
}

/// The switches of a dimension of a product.
fn of_product(product: &Product, dim: usize) -> Result<Switched, String> {
    let d = product.dims()[dim];
    let port = product.port(dim, Way::Switch, 0).filter(|_| d.block == Block::Switch);
    match port {
        Some(port) => Ok(Switched { ports: vec![port; product.npus() as usize], lines: 1 }),
        None => {
            let block = if d.block == Block::Ring { "a ring" } else { "fully connected" };
            Err(format!("dimension {dim} ({block}) has none"))
        }
    }
}

/// Switches that all members of a line are attached to, by links other than PCIe: its switches do not add.
fn of_lines(fabric: &dyn Fabric, groups: &[Vec<NodeId>], sizes: &[u32], dim: usize) -> Result<Switched, String> {
    let grid = Grid::new(sizes.iter().copied());
    let mut ports = vec![PortId(0); fabric.npus() as usize];
    let mut lines: BTreeMap<NodeId, u64> = BTreeMap::new();
    let names = fabric.class_names();
    let leads = |npu: NodeId, port: PortId| {
        let to = fabric.next(npu, port).0;
        let is_pcie = names.get(usize::from(fabric.link(npu, port).class)).is_some_and(|name| name == PCIE);
        Some(to).filter(|to| to.0 >= fabric.npus() && !is_pcie)
    };
    let to = |npu: NodeId, switch: NodeId| (0..fabric.ports(npu)).map(PortId).find(|&p| leads(npu, p) == Some(switch));
    for members in groups {
        for first in (0..grid.lines(dim)).map(|line| grid.first_of_line(line, dim)) {
            let line: Vec<NodeId> = grid.line(first, dim).map(|rank| members[rank as usize]).collect();
            let switches: Vec<NodeId> = (0..fabric.ports(line[0])).filter_map(|p| leads(line[0], PortId(p))).collect();
            let apart = |switch: &NodeId| line.iter().find(|&&npu| to(npu, *switch).is_none());
            let Some(&switch) = switches.iter().find(|s| apart(s).is_none()) else {
                let other = switches.iter().filter_map(apart).next_back().unwrap_or(&line[line.len() - 1]);
                let (a, b) = (fabric.node_name(line[0]), fabric.node_name(*other));
                return Err(format!("{a} and {b} have none in common"));
            };
            *lines.entry(switch).or_default() += 1;
            for &npu in &line {
                ports[npu.index()] = to(npu, switch).unwrap_or(PortId(0));
            }
        }
    }
    Ok(Switched { ports, lines: lines.into_values().max().unwrap_or(1) })
}
