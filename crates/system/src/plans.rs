//! Plans of files on a fabric: whether they fit it, and the ways that their messages take.

use crate::errors::RunError;
use crate::spec::{CollectiveSpec, refusals};
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_collective::plan_file::recognise::{Line, recognised};
use syncline_collective::plan_file::{self, LineProgram, WrittenPlan};
use syncline_collective::program::direct::ServingOrder;
use syncline_collective::verify::Buffering;
use syncline_collective::{Detail, Kind, LineRank, PhaseId, Plan, Posting, Program, Rank, Way, Written, WrittenPhase};
use syncline_core::{NodeId, Refusal};
use syncline_endpoint::layout::parallel_links;
use syncline_topology::Fabric;

/// So many of the switches of a fabric are listed where one that a plan names is none of them.
const SHOWN: usize = 5;

/// The section of a plan in a description.
fn section(number: usize) -> String {
    format!("collectives.plans.{number}")
}

fn refused(number: usize, refusal: Refusal) -> RunError {
    refusal.within(&section(number)).into()
}

/// A plan of a description.
pub struct Numbered {
    /// Its number there.
    pub number: usize,
    /// Bytes of the largest collective that it is for.
    pub up_to: u64,
    /// What it is.
    pub plan: Arc<WrittenPlan>,
}

/// The plans of a description that are for kinds of collectives of a job, those for smaller collectives first.
///
/// # Errors
/// [`RunError::Spec`] for a plan that is none, or two that are for the same collectives.
pub fn of_kinds(c: &CollectiveSpec, kinds: &[Kind]) -> Result<Vec<Numbered>, RunError> {
    let mut found: Vec<Numbered> = Vec::new();
    for (number, spec) in c.plans.iter().enumerate() {
        let plan = spec.written().map_err(|error| within(number, error))?;
        let of = |plan: &WrittenPlan| (plan.kind, plan.kind.is_rooted().then_some(plan.root));
        if found.iter().any(|other| (of(&other.plan), other.up_to) == (of(&plan), spec.up_to())) {
            let refusal = Refusal::of("", format!("there are two plans for {}", plan.kind));
            return Err(refused(number, refusal.accepting("one for each kind of collectives")));
        }
        if kinds.contains(&plan.kind) {
            found.push(Numbered { number, up_to: spec.up_to(), plan });
        }
    }
    found.sort_by_key(|plan| plan.up_to);
    Ok(found)
}

/// The plans, of those of all kinds, that collectives of a kind, root and of some sizes need. Where none has the root, one
/// with another root, which is refused with what it is for.
///
/// # Errors
/// [`RunError::Spec`] if there are plans for smaller collectives only.
pub fn needed(
    plans: &[Numbered],
    (kind, root): (Kind, Rank),
    sizes: impl Iterator<Item = u64>,
) -> Result<Vec<&Numbered>, RunError> {
    let of_kind = || plans.iter().filter(move |plan| plan.plan.kind == kind);
    let with_root = || of_kind().filter(move |plan| !kind.is_rooted() || plan.plan.root == root);
    if of_kind().next().is_none() || with_root().next().is_none() {
        return Ok(of_kind().next().into_iter().collect());
    }
    let mut found: Vec<&Numbered> = Vec::new();
    for size in sizes {
        let Some(plan) = with_root().find(|plan| size <= plan.up_to) else {
            let largest = with_root().next_back().map_or(0, |plan| plan.up_to);
            let message = format!("there are plans for collectives of up to {largest} B, and none for {size} B");
            return Err(Refusal::of("collectives.plans", message).into());
        };
        if !found.iter().any(|other| other.number == plan.number) {
            found.push(plan);
        }
    }
    found.sort_by_key(|plan| plan.up_to);
    Ok(found)
}

fn within(number: usize, error: RunError) -> RunError {
    match error {
        RunError::Spec(refusals) => {
            RunError::Spec(refusals.into_iter().map(|refusal| refusal.within(&section(number))).collect())
        }
        other => other,
    }
}

/// Whether a plan sees a group, whose ranks stand on a grid, as a line; else it goes by the dimensions of the grid.
///
/// # Errors
/// [`RunError::Spec`] if it fits neither, or has another root.
pub fn sees_a_line(number: usize, plan: &WrittenPlan, grid: &[u32], root: Rank) -> Result<bool, RunError> {
    let ranks = grid.iter().fold(1u64, |n, &size| n * u64::from(size));
    let shape = |grid: &[u32]| grid.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
    if plan.kind.is_rooted() && plan.root != root {
        let refusal = Refusal::of("job.root", format!("the plan is for root {}", plan.root));
        return Err(refusal.accepting(format!("{}", plan.root)).into());
    }
    match *plan.grid {
        [line] if u64::from(line) == ranks => Ok(true),
        ref theirs if theirs == grid => Ok(false),
        ref theirs => {
            let of_all = if grid.len() > 1 { format!(" or {ranks}") } else { String::new() };
            let refusal = Refusal::of("", format!("the plan is for {} ranks", shape(theirs)));
            Err(refused(number, refusal.accepting(format!("a plan for {}{of_all}", shape(grid)))))
        }
    }
}

/// Where a plan is to run.
pub struct Place<'a> {
    /// The fabric of the whole machine.
    pub fabric: &'a dyn Fabric,
    /// The members of each group by rank; `None` for one group of all NPUs.
    pub groups: Option<&'a [Vec<NodeId>]>,
    /// The order in which direct algorithms serve the ranks of a product.
    pub serving: Option<ServingOrder>,
    /// The order in which direct algorithms post messages.
    pub posting: Posting,
    /// Whether chunks are padded so that blocks are equal.
    pub padding: bool,
    /// Whether switches add and copy.
    pub switches_add: bool,
    /// For how many parts of the vector a schedule is carried out, one after the other.
    pub loops: u32,
    /// Whether steps are carried out as they are written, even if they are those of a built-in algorithm.
    pub literal: bool,
}

/// A plan with the dimensions in an order, on a fabric. What is one of the built-in algorithms becomes that; anything else is
/// carried out on symbols first.
///
/// # Errors
/// [`RunError::Spec`] with what is wrong.
pub fn plan(number: usize, written: &WrittenPlan, order: Option<&[u8]>, place: &Place<'_>) -> Result<Plan, RunError> {
    let looped = match place.loops {
        0 => {
            let refusal = Refusal::of("collectives.loops", "every schedule is carried out at least once");
            return Err(refusal.accepting("1 or more").into());
        }
        times @ 2.. if written.is_schedule => {
            Some(written.clone().looped(times).map_err(|error| refused(number, error.refusal()))?)
        }
        _ => None,
    };
    let written = looped.as_ref().unwrap_or(written);
    if !written.regular && !place.padding {
        let message =
            "a step moves chunks that do not follow one another, whose length is known only where all are equal";
        return Err(refused(number, Refusal::of("", message).accepting("padding to equal blocks")));
    }
    let settled = WrittenPlan {
        programs: written.programs.iter().map(|p| settle(number, written, p, place)).collect::<Result<_, _>>()?,
        ..written.clone()
    };
    let plan = settled.plan(order).map_err(|error| refused(number, plan_file::verify::refusal(&error)))?;
    if order.is_none() {
        verify(number, written, &plan)?;
    }
    Ok(plan)
}

/// The program of a line, with the ways of its messages on a fabric; the built-in one that does the same, if there is one.
fn settle(
    number: usize,
    written: &WrittenPlan,
    line: &LineProgram,
    place: &Place<'_>,
) -> Result<LineProgram, RunError> {
    let dim = usize::from(line.dim);
    let stride: u32 = written.grid[..dim].iter().product();
    let root = LineRank(written.root.0 / stride % written.grid[dim]);
    let serving = place.serving.filter(|_| written.grid.len() == 1);
    let of_line = Line { kind: line.kind, root, order: serving, posting: place.posting };
    let WrittenPhase { around, ref up, ref down } = line.phase;
    let settled = |program: &Program, up| {
        let program = match place.literal {
            true => program.clone(),
            false => recognised(program.clone(), of_line, around, up),
        };
        if program.has_switch() && !place.switches_add {
            let refusal = Refusal::of("", "the plan needs switches that reduce and copy");
            return Err(refused(number, refusal.accepting("the endpoint switch-offload, or another plan")));
        }
        match program {
            Program::Written(own) if own.has_switch() => {
                let refusal = Refusal::of("", "what the plan has for a switch is not what switches do");
                Err(refused(number, refusal.accepting("the steps of in-switch")))
            }
            Program::Written(written_program) => with_ways(number, written, line.dim, &written_program, place),
            built_in => Ok(built_in),
        }
    };
    let phase = WrittenPhase { around, up: settled(up, true)?, down: settled(down, false)? };
    Ok(LineProgram { phase, ..line.clone() })
}

/// A program whose messages take links that there are.
fn with_ways(
    number: usize,
    plan: &WrittenPlan,
    dim: u8,
    program: &Arc<Written>,
    place: &Place<'_>,
) -> Result<Program, RunError> {
    let special = |detail: &Detail| matches!(detail.way, Way::Over(_) | Way::Link(_) | Way::Through(_));
    if !program.distinct_steps().iter().any(|step| special(&step.detail)) {
        return Ok(Program::Written(program.clone()));
    }
    let names = place.fabric.class_names();
    let mut choices = Choices::default();
    for class in &program.named().classes {
        let known = (0u8..).zip(&names).find(|(_, name)| name.eq_ignore_ascii_case(class));
        let Some(choice) = known.and_then(|(class, _)| place.fabric.choice_over(class)) else {
            let refusal = Refusal::of("", format!("the fabric has no choice of links of class '{class}'"));
            let known = if place.fabric.choice_over(0).is_some() { names.join(", ") } else { "none".into() };
            return Err(refused(number, refusal.accepting(known)));
        };
        choices.over.push(choice);
    }
    choices.through = choices_through(number, &program.named().through, place)?;
    check_links(number, plan, dim, &Program::Written(program.clone()), (place, &choices))?;
    let resolved = Written::clone(program).with_details(|detail| {
        detail.way = match detail.way {
            Way::Over(class) => Way::Choice(choices.over[usize::from(class)]),
            Way::Through(nodes) => Way::Choice(choices.through[usize::from(nodes)]),
            way => way,
        };
    });
    Ok(resolved.into())
}

/// What a fabric calls the ways that a program names, by their numbers there.
#[derive(Debug, Default)]
struct Choices {
    over: Vec<u16>,
    through: Vec<u16>,
}

/// The choices of ways through nodes.
fn choices_through(number: usize, ways: &[Vec<String>], place: &Place<'_>) -> Result<Vec<u16>, RunError> {
    if ways.is_empty() {
        return Ok(Vec::new());
    }
    let all = (place.fabric.npus()..place.fabric.nodes()).map(NodeId);
    let known: BTreeMap<String, NodeId> = all.map(|node| (place.fabric.node_name(node), node)).collect();
    let choice = |names: &Vec<String>| {
        let node = |name: &String| {
            let unknown = || Refusal::of("", format!("the fabric has no switch '{name}' that messages pass"));
            let some: Vec<&str> = known.keys().take(SHOWN).map(String::as_str).collect();
            let more = if known.len() > SHOWN { ", ..." } else { "" };
            let accepted = if some.is_empty() { "none".into() } else { format!("{}{more}", some.join(", ")) };
            known.get(name).copied().ok_or_else(|| refused(number, unknown().accepting(accepted)))
        };
        let nodes = names.iter().map(node).collect::<Result<Vec<NodeId>, RunError>>()?;
        place.fabric.choice_through(&nodes).ok_or_else(|| {
            let message = "the fabric has no choice of nodes that messages pass, or too many are named";
            refused(number, Refusal::of("", message).accepting("a machine, a cluster or a topology file"))
        })
    };
    ways.iter().map(choice).collect()
}

/// Looks for every link that steps name, between all pairs of NPUs that they stand for.
fn check_links(
    number: usize,
    plan: &WrittenPlan,
    dim: u8,
    program: &Program,
    (place, choices): (&Place<'_>, &Choices),
) -> Result<(), RunError> {
    let grid = syncline_core::Grid::new(plan.grid.iter().copied());
    let everybody: [Vec<NodeId>; 1];
    let groups = match place.groups {
        Some(groups) => groups,
        None => {
            everybody = [(0..place.fabric.npus()).map(NodeId).collect()];
            &everybody
        }
    };
    let mut path = Vec::new();
    for (rank, members) in groups.iter().flat_map(|members| (0..grid.ranks()).map(move |rank| (rank, members))) {
        let own = LineRank(grid.coordinate(rank, dim.into()));
        for slot in program.slots(own) {
            let (step, way) = (program.step(own, slot), program.detail(own, slot).way);
            if !step.op.sends() {
                continue;
            }
            let there = grid.with_coordinate(rank, dim.into(), step.to.0);
            let (from, to) = (members[rank as usize], members[there as usize]);
            let name = |node| place.fabric.node_name(node);
            let at = format!("rank {rank}, {slot}");
            match way {
                Way::Link(link) => {
                    let links = parallel_links(place.fabric, from, to).count();
                    if usize::from(link) >= links {
                        let message = format!("{at}: there is no link {link} from {} to {}", name(from), name(to));
                        return Err(refused(number, Refusal::of("", message).accepting(links_between(links))));
                    }
                }
                Way::Over(class) => {
                    path.clear();
                    place.fabric.route_by(from, to, choices.over[usize::from(class)], &mut path);
                    if path.is_empty() {
                        let class = &program.named().classes[usize::from(class)];
                        let (from, to) = (name(from), name(to));
                        let message =
                            format!("{at}: there is no way from {from} to {to} over links of class '{class}'");
                        return Err(refused(number, Refusal::of("", message).accepting("another class, or no way")));
                    }
                }
                Way::Through(nodes) => {
                    path.clear();
                    place.fabric.route_by(from, to, choices.through[usize::from(nodes)], &mut path);
                    if path.is_empty() {
                        let nodes = program.named().through[usize::from(nodes)].join(", ");
                        let (from, to) = (name(from), name(to));
                        let message = format!("{at}: there is no way from {from} to {to} through {nodes}");
                        return Err(refused(number, Refusal::of("", message).accepting("another way, or none")));
                    }
                }
                Way::Route | Way::Choice(_) => {}
            }
        }
    }
    Ok(())
}

fn links_between(links: usize) -> String {
    match links {
        0 => "no link by number: they are not neighbours".into(),
        1 => "link 0".into(),
        more => format!("links 0 to {}", more - 1),
    }
}

/// Carries a plan out on symbols, unless all its programs are built in or it is a schedule, which has been.
fn verify(number: usize, written: &WrittenPlan, plan: &Plan) -> Result<(), RunError> {
    let programs = |phase: PhaseId| [true, false].map(|up| plan.program(phase, up));
    let is_written = |program: &Program| matches!(program, Program::Written(_));
    if written.is_schedule || !plan.phase_ids().any(|phase| programs(phase).iter().any(is_written)) {
        return Ok(());
    }
    plan_file::verify::verify(written, plan, Buffering::Eager)
        .map_err(|findings| within(number, RunError::Spec(refusals(findings))))
}
