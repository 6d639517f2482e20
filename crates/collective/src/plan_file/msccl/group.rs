//! The ranks of a plan on their grid, the programs that they follow, and the sizes of buffers.

use super::{Lane, too_many};
use crate::kind::Kind;
use crate::plan::{PhaseId, Plan, Split};
use crate::plan_file::write::Head;
use crate::program::{Buffer, Detail, Op, Pacing, Program, Slot, Way};
use crate::rank::{LineRank, Rank};
use crate::schedule::form::WayForm;
use crate::schedule::{limits, structure};
use syncline_core::{Bytes, Grid, Refusal};

/// A chunk of a buffer is the smallest thing that is counted.
const CHUNKS: Split = Split { element: 1 };

/// The ranks of a plan.
pub(super) struct Group<'a> {
    plan: &'a Plan,
    grid: Grid,
    /// What its ranks do in each phase.
    lanes: &'a [Lane],
    /// For each phase, the place of each rank of a line, if ranks have an order.
    places: Vec<Option<Vec<LineRank>>>,
    /// Chunks of the vector.
    chunks: u32,
    /// What steps say of where their data lie.
    named: Named,
}

/// What steps say of where their data lie.
#[derive(Clone, Copy, Default)]
struct Named {
    /// Some name a place.
    some: bool,
    /// Some that read or write data do not.
    not_all: bool,
    input: bool,
    output: bool,
}

impl<'a> Group<'a> {
    /// The ranks of a plan whose numbers a schedule can hold at all, with a lane of each phase.
    pub(super) fn new(head: &Head<'_>, plan: &'a Plan, lanes: &'a [Lane]) -> Result<Group<'a>, Vec<Refusal>> {
        let mut refusals = Vec::new();
        if head.name.len() > limits::NAME_BYTES {
            let message = format!("the name has {} bytes", head.name.len());
            refusals.push(Refusal::of("name", message).accepting(format!("up to {} bytes", limits::NAME_BYTES)));
        }
        let whole = Grid::checked(head.grid.iter().copied());
        let Some(mut grid) = whole.filter(|grid| grid.ranks() as usize <= structure::MAX_RANKS) else {
            let message = format!("{:?} are too many ranks for a schedule", head.grid);
            refusals.push(Refusal::of("grid", message).accepting(format!("up to {} ranks", structure::MAX_RANKS)));
            return Err(refusals);
        };
        if plan.phases().iter().any(|p| usize::from(p.dim) == grid.dims()) {
            grid = grid.with_line_of_all();
        }
        for phase in plan.phases() {
            let dim = usize::from(phase.dim);
            if dim >= grid.dims_with_lines() || grid.size(dim) != phase.ranks {
                let message =
                    format!("the plan has {} ranks along dimension {dim}, which the grid has not", phase.ranks);
                refusals.push(Refusal::of("grid", message));
                return Err(refusals);
            }
        }
        let programs = || lanes.iter().map(|lane| &lane.program);
        for (phase, program) in plan.phases().iter().zip(programs()) {
            if program.has_switch() {
                let message = format!(
                    "the {} {} along dimension {} needs a switch that adds or copies, for which MSCCL has no word",
                    phase.algorithm.name(),
                    phase.kind,
                    phase.dim
                );
                refusals.push(Refusal::of("plan", message).accepting("algorithms of the ranks alone"));
            }
        }
        let mut exchanges = programs().zip(plan.phases()).filter(|(_, phase)| phase.kind == Kind::AllToAll);
        if let Some((program, phase)) = exchanges.find(|(program, phase)| !program.parts().is_multiple_of(phase.ranks))
        {
            let message = format!("{} blocks do not divide among {} ranks", program.parts(), phase.ranks);
            refusals.push(Refusal::of("plan", message).accepting(format!("a multiple of {}", phase.ranks)));
            return Err(refusals);
        }
        let chunks = chunks(plan, programs(), grid.ranks());
        if chunks > structure::MAX_CHUNKS.into() {
            let message = format!("equal blocks cut the vector into {chunks} chunks");
            refusals.push(Refusal::of("plan", message).accepting(format!("up to {}", structure::MAX_CHUNKS)));
        }
        if !refusals.is_empty() {
            return Err(refusals);
        }
        let places = lanes.iter().map(|lane| lane.order.as_deref().map(LineRank::places)).collect();
        let mut group = Group { plan, grid, lanes, places, chunks: chunks as u32, named: Named::default() };
        group.check_number_of_steps().map_err(|refusal| vec![refusal])?;
        group.read_details().map_err(|refusal| vec![refusal])?;
        Ok(group)
    }

    /// Bounds what a schedule takes to be written, before it is.
    fn check_number_of_steps(&self) -> Result<(), Refusal> {
        let most = limits::BLOCKS_PER_RANK as u64 * limits::STEPS_PER_BLOCK as u64;
        let mut all = 0;
        for rank in self.all() {
            let of_phase = |phase: PhaseId| -> u64 {
                let (program, own) = (self.program(phase), self.own(rank, phase));
                (0..program.threads()).map(|thread| u64::from(program.steps(own, thread))).sum()
            };
            let steps: u64 = self.plan.phase_ids().filter(|&p| self.takes_part(rank, p)).map(of_phase).sum();
            if steps > most {
                let (blocks, each) = (limits::BLOCKS_PER_RANK, limits::STEPS_PER_BLOCK);
                return Err(too_many(
                    format!("rank {rank} has {steps} steps"),
                    format!("{blocks} thread blocks of {each} steps"),
                ));
            }
            all += steps;
        }
        let most = structure::MAX_STEPS as u64;
        if all > most {
            return Err(Refusal::of("plan", format!("all ranks have {all} steps")).accepting(format!("up to {most}")));
        }
        Ok(())
    }

    /// Finds what steps say beyond what all of them do, and refuses what cannot be said in a schedule.
    fn read_details(&mut self) -> Result<(), Refusal> {
        let mut named = Named::default();
        for (Lane { program, .. }, phase) in self.lanes.iter().zip(self.plan.phases()) {
            for (rank, at) in (0..phase.ranks).map(LineRank).flat_map(|r| program.slots(r).map(move |at| (r, at))) {
                let (op, Slot { thread, pc }) = (program.step(rank, at).op, at);
                if op == Op::ResidualAdd {
                    let message = format!(
                        "step {pc} of thread {thread} of rank {rank} adds a residual, which is nobody's input, in a {}",
                        phase.kind
                    );
                    return Err(Refusal::of("plan", message));
                }
                named.read(op, program.detail(rank, at));
            }
        }
        self.named = named;
        let message = if self.are_apart() && self.lanes.len() > 1 {
            "the plan has input and output apart in several phases"
        } else if named.some && self.kind() == Kind::AllToAll && (named.not_all || self.lanes.len() > 1) {
            "some steps of the all-to-all name the places of their data, and others leave them open"
        } else {
            return Ok(());
        };
        Err(Refusal::of("plan", message))
    }

    /// Whether steps say where their data lie.
    pub(super) fn names_places(&self) -> bool {
        self.named.some
    }

    /// Whether input and output do not share memory. Where they do, places are in the buffer that holds the whole vector; a
    /// program that names the other one tells them apart.
    pub(super) fn are_apart(&self) -> bool {
        match self.whole() {
            Buffer::Output => self.named.input,
            _ => self.named.output,
        }
    }

    /// The buffer that holds the whole vector.
    pub(super) fn whole(&self) -> Buffer {
        if matches!(self.kind(), Kind::AllGather | Kind::Gather) { Buffer::Output } else { Buffer::Input }
    }

    /// Chunks of the input and of the output of every rank, of a vector of so many.
    pub(super) fn buffers(&self, chunks: u32) -> [u32; 2] {
        let share = chunks / self.ranks();
        match self.kind() {
            Kind::AllGather | Kind::Gather => [share, chunks],
            Kind::ReduceScatter | Kind::Scatter => [chunks, share],
            _ => [chunks; 2],
        }
    }

    /// What the plan achieves.
    pub(super) fn kind(&self) -> Kind {
        self.plan.kind()
    }

    /// The numbers of the phases.
    pub(super) fn phases(&self) -> impl DoubleEndedIterator<Item = PhaseId> + Clone + use<> {
        self.plan.phase_ids()
    }

    /// The dimension of a phase.
    pub(super) fn dim(&self, phase: PhaseId) -> usize {
        self.plan.phases()[phase.index()].dim.into()
    }

    /// Ranks of a line of a phase.
    pub(super) fn ranks_of_line(&self, phase: PhaseId) -> u32 {
        self.plan.phases()[phase.index()].ranks
    }

    /// The program of a phase.
    pub(super) fn program(&self, phase: PhaseId) -> &Program {
        &self.lanes[phase.index()].program
    }

    /// How messages follow one another: as in the first phase in which that matters.
    pub(super) fn pacing(&self) -> Pacing {
        let programs = || self.lanes.iter().map(|lane| &lane.program);
        let first = programs().find(|program| sends_in_a_row(program));
        let queues = programs().map(|program| program.pacing().queues).max().unwrap_or(0);
        Pacing { queues, ..first.map_or(Pacing::OF_THREAD_BLOCKS, Program::pacing) }
    }

    /// Chunks of the vector.
    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Ranks in all.
    pub(super) fn ranks(&self) -> u32 {
        self.grid.ranks()
    }

    /// All ranks.
    pub(super) fn all(&self) -> impl Iterator<Item = Rank> + Clone + use<> {
        (0..self.grid.ranks()).map(Rank)
    }

    /// The coordinate of a rank along a dimension.
    pub(super) fn coordinate(&self, rank: Rank, dim: usize) -> u32 {
        self.grid.coordinate(rank.0, dim)
    }

    /// The number of a rank in the program of a phase.
    pub(super) fn own(&self, rank: Rank, phase: PhaseId) -> LineRank {
        let coordinate = LineRank(self.coordinate(rank, self.dim(phase)));
        self.places[phase.index()].as_ref().map_or(coordinate, |places| places[coordinate.index()])
    }

    /// Whom the program of a phase calls `there`, seen from a rank.
    pub(super) fn peer(&self, rank: Rank, phase: PhaseId, there: LineRank) -> Rank {
        let order = self.lanes[phase.index()].order.as_ref();
        let there = order.map_or(there, |order| order[there.index()]);
        Rank(self.grid.with_coordinate(rank.0, self.dim(phase), there.0))
    }

    /// The way of what a step of a phase sends, whose program says this of it.
    pub(super) fn way(&self, rank: Rank, phase: PhaseId, said: Way) -> Option<WayForm> {
        let Lane { program, links, .. } = &self.lanes[phase.index()];
        match links {
            Some(links) => Some(WayForm::Link(links[self.own(rank, phase).index()])),
            None => WayForm::of(said, program.named()),
        }
    }

    /// The number in its vector of a block of the program of a phase: blocks of a place are those of the rank there.
    pub(super) fn block(&self, phase: PhaseId, block: u32) -> u32 {
        let Lane { program, order, .. } = &self.lanes[phase.index()];
        match order
            .as_ref()
            .filter(|_| !matches!(self.plan.phases()[phase.index()].kind, Kind::Broadcast | Kind::Reduce))
        {
            Some(order) => {
                let each = program.parts() / program.ranks();
                order[(block / each) as usize].0 * each + block % each
            }
            None => block,
        }
    }

    /// Whether a rank has steps in a phase.
    pub(super) fn takes_part(&self, rank: Rank, phase: PhaseId) -> bool {
        self.plan.takes_part(phase, |dim| self.coordinate(rank, dim.into()))
    }

    /// The part of the vector that a rank works on in a phase: its first chunk, and how many make a block.
    pub(super) fn vector(&self, rank: Rank, phase: PhaseId) -> (u32, u32) {
        let whole = Bytes(self.chunks.into());
        let (first, len) = self.plan.vector(phase, whole, CHUNKS, |dim| self.coordinate(rank, dim.into()));
        let block = len / u64::from(self.program(phase).parts());
        (first as u32, block as u32) // parts of a vector whose chunks are counted in 32 bits
    }

    /// The rank of each share of the vector, where every rank has one.
    pub(super) fn owners(&self) -> Option<Vec<Rank>> {
        let at_last = match self.kind() {
            Kind::ReduceScatter | Kind::Scatter => 1,
            Kind::AllGather | Kind::Gather => 0,
            _ => return None,
        };
        let mut owners = vec![Rank(0); self.ranks() as usize];
        for rank in self.all() {
            let ends = self.plan.ends(Bytes(self.chunks.into()), CHUNKS, |dim| self.coordinate(rank, dim.into()));
            let share = ends[at_last].0 / u64::from(self.chunks / self.ranks());
            owners[share as usize] = rank;
        }
        Some(owners)
    }
}

impl Named {
    fn read(&mut self, op: Op, detail: Detail) {
        for (place, needed) in [(detail.src, op.reads_local()), (detail.dst, op.stores())] {
            self.not_all |= needed && place.is_none();
            let Some(place) = place.filter(|_| needed) else { continue };
            self.some = true;
            self.input |= place.buffer == Buffer::Input;
            self.output |= place.buffer == Buffer::Output;
        }
    }
}

/// Whether a thread of a program sends several messages of its own in a row.
fn sends_in_a_row(program: &Program) -> bool {
    let threads = (0..program.ranks()).flat_map(|rank| (0..program.threads()).map(move |t| (LineRank(rank), t)));
    threads.into_iter().any(|(rank, thread)| {
        let op = |pc| program.step(rank, Slot { thread, pc }).op;
        (1..program.steps(rank, thread)).any(|pc| op(pc) == Op::Send && op(pc - 1).sends())
    })
}

/// The least number of chunks of which every block of every phase is a whole number; saturates.
fn chunks<'a>(plan: &Plan, programs: impl Iterator<Item = &'a Program>, ranks: u32) -> u64 {
    match plan.kind() {
        // What one rank has for another is cut as finely as any phase does.
        Kind::AllToAll => {
            let each = programs.zip(plan.phases()).map(|(program, phase)| u64::from(program.parts() / phase.ranks));
            each.fold(1, least_common_multiple).saturating_mul(ranks.into())
        }
        Kind::AllReduce | Kind::Broadcast | Kind::Reduce => plan.equal_blocks(),
        _ => least_common_multiple(plan.equal_blocks(), ranks.into()),
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}
